// The connected clients, the lag and the subscriptions of each. A client can be disconnected.

function peerName(peer, id) {
  if (!peer) return "peer " + id;
  const client = peer.client && peer.client.name ? peer.client.name + (peer.client.version ? " " + peer.client.version : "") : "";
  return [peer.principal || peer.address || "peer " + (peer.peer || id), client && "(" + client + ")"].filter(Boolean).join(" ");
}

const PEER_COLUMNS = [
  {key: "who", name: "who", get: (p) => peerName(p), cell: (p) => h("td", {}, peerName(p), h("div", {class: "dim mono"}, p.address || ""))},
  {key: "way", name: "over", wide: true, get: (p) => p.transport || "", cell: (p) => h("td", {class: "wide"}, [p.transport, p.era].filter(Boolean).join(", "))},
  {key: "since", name: "since", wide: true, num: true, get: (p) => p.sinceMs || 0, cell: (p) => h("td", {class: "wide"}, p.sinceMs ? duration(Date.now() - p.sinceMs) : "")},
  {key: "subs", name: "subs.", num: true, get: (p) => p.subscriptions, cell: (p) => h("td", {class: "num"}, count(p.subscriptions))},
  {key: "waiting", name: "waiting", num: true, get: (p) => p.waiting, cell: (p) => h("td", {class: "num"}, count(p.waiting))},
  {key: "lag", name: "lag", num: true, get: (p) => p.lagMs || 0, cell: (p) => h("td", {class: "num"}, lagMeter(p.lagMs || 0))},
  {key: "bytes", name: "sent", wide: true, num: true, get: (p) => p.bytesOut || 0, cell: (p) => h("td", {class: "num wide"}, bytes(p.bytesOut || 0))},
  {key: "error", name: "last error", wide: true, get: (p) => p.lastError || "", cell: (p) => h("td", {class: "wide bad"}, p.lastError || "")},
  {key: "end", name: "", cell: (p, view) => h("td", {}, view.mayEnd && h("button", {type: "button", class: "danger",
    "aria-label": "End " + peerName(p), onclick: (event) => { event.stopPropagation(); view.end(p); }}, "End"))},
];

// A bar that grows with the logarithm of the lag: 100 s fills it.
function lagMeter(ms) {
  const bar = document.createElement("i");
  bar.style.setProperty("width", Math.min(100, Math.log10(1 + Math.max(0, ms)) * 20) + "%");
  if (ms > 5000) bar.className = "bad";
  return [h("span", {class: "meter", "aria-hidden": "true"}, bar), duration(ms)];
}

function openPeers(main) {
  const search = h("input", {type: "search", placeholder: "name, address, client, URI", "aria-label": "Search peers"});
  const status = h("p", {class: "dim", role: "status"});
  const table = h("table", {});
  const detail = h("section", {class: "panel", hidden: true});
  const state = {by: "lag", down: true};
  const view = {rows: [], subscriptions: [], mayEnd: false, chosen: null,
    end: (peer) => confirmEnd(peer, refresh)};
  let isOpen = true, timer = 0;
  fill(main, h("h2", {class: "skip"}, "Subscriptions and peers"), h("div", {class: "tools"}, h("label", {class: "grow"}, h("span", {}, "Search"), search)),
    status, h("div", {class: "panel scroll"}, table), detail);

  const draw = () => {
    const words = search.value.toLowerCase();
    const has = (row) => JSON.stringify(row).toLowerCase().includes(words);
    const byUri = new Set(words ? view.subscriptions.filter((row) => row.subscribedUri.toLowerCase().includes(words)).map((row) => row.peer) : []);
    const rows = view.rows.filter((peer) => !words || byUri.has(peer.peer) || has(peer));
    const body = h("tbody", {}, sorted(rows, PEER_COLUMNS, state).slice(0, 1000).map((peer) => {
      const row = h("tr", {}, PEER_COLUMNS.map((column) => column.cell(peer, view)));
      const name = row.cells[0];
      const open = h("button", {type: "button", "aria-label": "Subscriptions of " + peerName(peer), onclick: () => { view.chosen = peer.peer; drawSubscriptions(); }}, "…");
      name.prepend(open, " ");
      return row;
    }));
    fill(table, h("caption", {class: "skip"}, "Peers"), sortable(PEER_COLUMNS, state, draw), body);
    fill(status, rows.length === view.rows.length ? count(rows.length) + " peers" : rows.length + " of " + view.rows.length + " peers");
  };

  const drawSubscriptions = async () => {
    const id = view.chosen;
    if (!id) return;
    const peer = view.rows.find((row) => row.peer === id);
    let rows = [];
    try {
      rows = (await mcp.readRows("tidings://self/subscriptions")).filter((row) => row.peer === id);
    } catch (error) {
      fill(status, error.message);
    }
    detail.hidden = false;
    fill(detail, h("h2", {}, "Subscriptions of ", peerName(peer, id)), rows.length === 0 ? h("p", {class: "empty"}, "none") : h("div", {class: "scroll"}, h("table", {},
      h("thead", {}, h("tr", {}, ["URI", "period", "waiting", "state"].map((name) => h("th", {scope: "col"}, name)))),
      h("tbody", {}, rows.slice(0, 1000).map((row) => h("tr", {}, h("td", {class: "mono"}, uriLink(row.subscribedUri)), h("td", {class: "num"}, duration(row.periodMs)),
        h("td", {class: "num"}, count(row.waiting)), h("td", {}, row.suspended ? "suspended" : "active")))))));
  };

  const refresh = async () => {
    clearTimeout(timer);
    try {
      view.rows = await mcp.readRows("tidings://self/peers");
      view.subscriptions = search.value ? await mcp.readRows("tidings://self/subscriptions") : [];
      if (!isOpen) return;
      draw();
    } catch (error) {
      if (isOpen) fill(status, error.code === -32602 ? "Who is connected is not shown to you: reading tidings://self/peers is not allowed by the rules." : error.message);
    }
    if (isOpen) timer = setTimeout(refresh, 2000);
  };
  mcp.listAll("tools/list", "tools", {}).then(({rows}) => { view.mayEnd = rows.some((tool) => tool.name === "end_peer"); draw(); }, () => {});
  search.addEventListener("input", () => { draw(); refresh(); });
  refresh();
  return () => { isOpen = false; clearTimeout(timer); };
}

function confirmEnd(peer, done) {
  const reason = h("input", {maxlength: 200, autocomplete: "off"});
  const said = h("p", {class: "bad", role: "alert"});
  const end = async () => {
    try {
      const result = await mcp.request("tools/call", {name: "end_peer", arguments: {peer: peer.peer, ...(reason.value ? {reason: reason.value} : {})}});
      if (result.isError) throw new Error(((result.content || [])[0] || {}).text || "it could not be ended");
      closeDialog();
      done();
    } catch (error) {
      fill(said, error.message);
    }
  };
  showDialog("End " + clean(peerName(peer)) + "?", h("p", {}, "Its streams and subscriptions end now. It may connect again."),
    h("label", {}, h("span", {}, "Reason, for the log"), reason), said,
    h("div", {class: "tools"}, h("button", {type: "button", class: "danger", onclick: end}, "End it"), h("button", {type: "button", onclick: closeDialog}, "Leave it")));
}
