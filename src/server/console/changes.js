// The stream of changes, through an ordinary client subscription. Each row shows the subscribers of
// the resource, if the user may see them.

const CHANGES_MOST = 500; // rows that are kept
const SELF = "tidings://self/"; // changes every second, mostly because a client watches it

function openChanges(main) {
  const form = h("form", {class: "tools"});
  const pattern = h("input", {name: "pattern", value: "**", spellcheck: "false", autocomplete: "off", required: true});
  const kind = h("select", {name: "match"}, ["auto", "literal", "container", "glob", "template", "regex"].map((name) => h("option", {}, name)));
  const filter = h("input", {name: "filter", placeholder: '{"properties": {"metadata": …}}', spellcheck: "false", autocomplete: "off"});
  const own = h("input", {type: "checkbox", name: "own"});
  const pause = h("button", {type: "button", "aria-pressed": "false"}, "Pause");
  const clear = h("button", {type: "button"}, "Clear");
  const status = h("p", {class: "dim", role: "status"});
  const body = h("tbody", {});
  let stream = null, isPaused = false, held = [];

  put(form, [h("label", {class: "grow"}, h("span", {}, "URI or pattern"), pattern),
    h("label", {}, h("span", {}, "meant as"), kind),
    h("label", {class: "grow"}, h("span", {}, "filter (JSON Schema)"), filter),
    h("label", {class: "check"}, own, h("span", {}, "with the server's own state (" + SELF + ")")),
    h("button", {class: "primary"}, "Subscribe"), pause, clear]);
  fill(main, h("h2", {class: "skip"}, "Changes"), form, status, h("div", {class: "panel scroll"}, h("table", {class: "stack changes"},
    h("caption", {class: "skip"}, "Changes, the newest first"),
    h("thead", {}, h("tr", {}, ["time", "change", "URI", "subscription", "merged", "told"].map((name) =>
      h("th", {scope: "col", class: name === "subscription" || name === "merged" ? "wide" : undefined}, name)))), body)));

  const add = (params) => {
    const meta = params._meta || {};
    const row = changeRow(params, meta);
    body.prepend(row);
    lightUp(row);
    while (body.rows.length > CHANGES_MOST) body.lastChild.remove();
  };

  const subscribe = () => {
    const options = {match: kind.value, windowMs: 0};
    if (filter.value.trim()) {
      try {
        options.filter = JSON.parse(filter.value);
      } catch (error) {
        fill(status, "the filter is not JSON: " + error.message);
        filter.focus();
        return;
      }
    }
    if (stream) stream.stop();
    fill(status, "subscribing…");
    stream = mcp.listen({resourceSubscriptions: [pattern.value]}, options, {
      acknowledged: (params) => {
        const refused = (params._meta || {})[OURS + "refused"] || [];
        fill(status, refused.length ? "refused: " + refused[0].reason : "subscribed to " + pattern.value);
      },
      update: (params, method) => {
        if (method !== "notifications/resources/updated") return;
        const isOwn = params.uri.startsWith(SELF);
        if (isOwn && !own.checked && !pattern.value.startsWith(SELF)) return;
        if (isPaused) held.push(params);
        else add(params);
        if (held.length > CHANGES_MOST) held.shift();
        if (isPaused) fill(pause, "Go on (" + held.length + ")");
      },
      failed: (error) => fill(status, error.message),
    });
  };
  form.addEventListener("submit", (event) => { event.preventDefault(); subscribe(); });
  clear.addEventListener("click", () => fill(body));
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    fill(pause, isPaused ? "Go on" : "Pause");
    held.forEach(add);
    held = [];
  });
  subscribe();
  return () => { if (stream) stream.stop(); };
}

function changeRow(params, meta) {
  const change = meta[OURS + "truncated"] ? "read again" : meta[OURS + "suspended"] ? "suspended" : meta[OURS + "change"] || "updated";
  const at = (meta[OURS + "metadata"] || {}).timestamp;
  const told = h("td", {});
  const ask = h("button", {type: "button", "aria-label": "Who hears of " + params.uri}, "who?");
  ask.addEventListener("click", () => whoHears(params.uri, meta[OURS + "version"], told, ask));
  put(told, [ask]);
  return h("tr", {}, h("td", {class: "mono"}, clock(typeof at === "number" ? at : Date.now())),
    h("td", {}, h("span", {class: "tag " + change}, change)),
    h("td", {class: "mono"}, uriLink(params.uri), meta[OURS + "from"] ? h("div", {class: "dim"}, "was " + meta[OURS + "from"]) : null),
    h("td", {class: "mono dim wide"}, params.subscribedUri || ""), h("td", {class: "num wide"}, meta[OURS + "merged"] || ""), told);
}

// The subscriptions that cover the URI, and whether the change was already written to their peers.
async function whoHears(uri, version, cell, button) {
  button.disabled = true;
  try {
    const rows = await mcp.readJson("tidings://self/subscriptions?covers=" + encodeURIComponent(uri));
    const peers = new Map((await mcp.readRows("tidings://self/peers")).map((peer) => [peer.peer, peer]));
    const number = version ? Number(version.split(".").pop()) : NaN;
    fill(cell, rows.length === 0 ? h("span", {class: "dim"}, "nobody now") : h("ul", {}, rows.slice(0, 50).map((row) => {
      const peer = peers.get(row.peer);
      const isTold = peer && Number.isFinite(number) && peer.cursor >= number;
      return h("li", {}, peerName(peer, row.peer), " ", h("span", {class: isTold ? "good" : "dim"}, isTold ? "told" : "waits"));
    })), rows.length > 50 && h("span", {class: "dim"}, "and " + (rows.length - 50) + " more"));
  } catch (error) {
    fill(cell, h("span", {class: "dim"}, error.code === -32602 ? "not shown to you" : error.message));
  }
}
