// The overview: what moves, how late it is, who is there, and what an operator should look at.

// The oldest that waits, and what 99 of 100 were written within; null when nothing was written lately.
const lagOf = (sample) => sample.status.lagMs || {};

const PLOTS = [
  {name: "Changes per second", get: (s) => s.rates.changes, show: count},
  {name: "Deliveries per second", get: (s) => s.rates.deliveries, show: count},
  {name: "Delivery lag", get: (s) => Math.max(lagOf(s).now || 0, lagOf(s).p99 || 0), show: duration,
    none: (s) => !lagOf(s).now && typeof lagOf(s).p99 !== "number"},
  {name: "Streams", get: (s) => s.status.streams, show: count},
  {name: "Memory", get: (s) => s.status.memoryBytes, show: bytes},
  {name: "Requests per second", get: (s) => s.rates.requests, show: count},
];

// A line over the last 15 minutes, or as long as the page is open. The same is said in words for those who do not see it.
function plot(spec) {
  const value = h("b", {});
  const area = svg("path", {class: "area"}), curve = svg("path", {class: "curve"});
  const picture = svg("svg", {viewBox: "0 0 900 100", preserveAspectRatio: "none", role: "img"},
    svg("line", {class: "zero", x1: 0, x2: 900, y1: 99.5, y2: 99.5}), area, curve);
  const top = h("span", {}), since = h("span", {});
  const figure = h("figure", {class: "panel plot"},
    h("figcaption", {}, h("span", {}, spec.name), value), picture,
    h("figcaption", {}, since, top));
  const draw = (samples) => {
    const points = samples.map((s) => [s.at, Math.max(0, Number(spec.get(s)) || 0)]);
    const end = points.length ? points[points.length - 1][0] : 0;
    const most = Math.max(...points.map((p) => p[1]), 1e-9);
    const span = Math.min(900e3, Math.max(60e3, points.length ? end - points[0][0] : 0));
    const at = ([time, n]) => ((900 - 900 * (end - time) / span).toFixed(1)) + "," + (99 - 95 * n / most).toFixed(1);
    const inside = points.filter((p) => end - p[0] <= span);
    const line = inside.map(at).join(" L");
    curve.setAttribute("d", line ? "M" + line : "");
    area.setAttribute("d", line ? "M" + line + " L900,100 L" + at(inside[0]).split(",")[0] + ",100 Z" : "");
    const now = points.length ? points[points.length - 1][1] : NaN;
    const isNone = samples.length > 0 && spec.none !== undefined && spec.none(samples[samples.length - 1]);
    fill(value, isNone ? "no samples" : spec.show(now));
    fill(since, duration(span).replace(/ 0 s$/, ""));
    fill(top, "most " + spec.show(most <= 1e-9 ? 0 : most));
    picture.setAttribute("aria-label", spec.name + ": now " + spec.show(now) + ", most " + spec.show(most));
  };
  return {figure, draw};
}

// What deserves a look, as sentences.
function warnings(status) {
  const list = [];
  if (!status.ready) list.push("not ready: " + ((status.reasons || []).join("; ") || "no reason given"));
  if (status.draining) list.push("the server is draining: it will end when its streams have");
  if (status.lagMs && status.lagMs.now > 5000) {
    list.push("somebody has not been told for " + duration(status.lagMs.now) + ": see Peers, sorted by lag");
  }
  if (status.store && status.store.ok === false) list.push("the store (" + status.store.kind + ") cannot be reached");
  if (status.cut > 0) list.push(count(status.cut) + " slow readers were cut off since the start");
  if (status.truncated > 0) {
    list.push(count(status.truncated) + " times somebody was told to read again because history did not reach back");
  }
  const last = status.lastFailure;
  if (last && status.nowMs - last.atMs < 60e3) {
    list.push("a request failed " + duration(status.nowMs - last.atMs) + " ago: " + last.method + " " + (last.path || last.uri || "") + (last.cause ? ", refused (" + last.cause + ")" : "") +
      ", from " + last.address + ": " + last.reason);
  }
  if (status.refusals > 0) list.push(count(status.refusals) + " refusals since the start: see below");
  return list;
}

// A panel with a table, whose body is filled later.
function tablePanel(title, columns, body) {
  return h("section", {class: "panel"}, h("h2", {}, title), h("div", {class: "scroll"},
    h("table", {}, h("thead", {}, h("tr", {}, columns.map((name) => h("th", {scope: "col"}, name)))), body)));
}

// A node that shares the store: whether it is there, and how far behind the others.
function nodeRow(node) {
  const state = !node.lives ? "gone for " + duration(node.seenMs) : node.lag > 0 ? count(node.lag) + " changes behind" : "up to date";
  return h("tr", {}, h("td", {}, node.name, node.self ? " (this one)" : "", h("div", {class: "dim mono"}, node.address || "")),
    h("td", {}, node.version), h("td", {class: node.lives ? "" : "bad"}, state), h("td", {class: "num"}, lagMeter(node.lagMs || 0)),
    h("td", {class: "num"}, count(node.sessions)), h("td", {class: "num"}, count(node.subscriptions)));
}

function openOverview(main) {
  const tiles = h("div", {class: "grid tiles"});
  const plots = PLOTS.map(plot);
  const notes = h("ul", {});
  const refused = h("tbody", {}), nodeRows = h("tbody", {});
  const nodes = tablePanel("Nodes", ["node", "version", "state", "lag", "sessions", "subscriptions"], nodeRows);
  nodes.hidden = true; // until there are several
  const about = h("p", {class: "dim"});
  const denied = h("p", {class: "empty", hidden: true},
    "The server's own state is not shown to you: its rules do not let you read tidings://self/. ",
    "Resources, Changes and Try it show what they do let you see.");
  const body = h("div", {}, tiles, h("div", {class: "grid"}, plots.map((p) => p.figure)),
    h("div", {class: "grid"},
      h("section", {class: "panel"}, h("h2", {}, "Worth a look"), notes),
      tablePanel("Limits that were reached", ["limit", "value", "reached"], refused)), nodes, about);
  fill(main, h("h2", {class: "skip"}, "Overview"), denied, body);

  const drawTiles = (status) => fill(tiles, [
    ["peers", status.peers ?? status.subscribers], ["streams", status.streams], ["sessions", status.sessions],
    ["subscriptions", status.subscriptions], ["waiting", status.waiting], ["connections", status.connections],
  ].filter(([, n]) => n !== undefined).map(([name, n]) => h("div", {class: "panel tile"}, h("b", {}, count(n)), h("span", {}, name))));

  let limitsAt = 0;
  const drawLimits = async () => {
    if (Date.now() - limitsAt < 5000) return;
    limitsAt = Date.now();
    try {
      const rows = (await mcp.readJson("tidings://self/limits")).filter((row) => row.reached > 0);
      rows.sort((a, b) => b.reached - a.reached);
      fill(refused, rows.length ? rows.map((row) => h("tr", {},
        h("td", {title: row.about}, row.limit), h("td", {class: "num"}, count(row.value)),
        h("td", {class: "num"}, count(row.reached))))
        : h("tr", {}, h("td", {colspan: 3, class: "dim"}, "none")));
    } catch { /* the overview goes on without */ }
  };

  const drawNodes = async (status) => {
    nodes.hidden = !(status.nodes > 1);
    if (nodes.hidden) return;
    try {
      fill(nodeRows, (await mcp.readJson("tidings://self/nodes")).map(nodeRow));
    } catch { nodes.hidden = true; /* the rules may hide it */ }
  };

  const draw = () => {
    denied.hidden = !live.denied;
    body.hidden = live.denied;
    const newest = live.newest;
    if (!newest || live.denied) return;
    const status = newest.status;
    drawTiles(status);
    for (const p of plots) p.draw(live.samples);
    const list = warnings(status);
    fill(notes, list.length ? list.map((text) => h("li", {}, text)) : h("li", {class: "good"}, "nothing"));
    fill(about, status.name, " ", status.version, status.node ? ", node " + status.node : "", ", up ",
      duration(status.uptimeMs), status.store && status.store.kind !== "none" ? ", store " + status.store.kind : "",
      status.nodes > 1 ? ", " + status.nodes + " nodes" : "");
    drawLimits();
    drawNodes(status);
  };
  return live.watch(draw);
}
