// The overview: activity, lag, connected clients, and warnings for the operator.

// The age of the oldest waiting update, and the 99th percentile of the write delay; null if nothing
// was written recently.
const lagOf = (sample) => sample.status.lagMs || {};

// The plotted value; null: there was none at that time.
const rateOf = (key) => (s) => s.rates ? s.rates[key] : null;
const lagShown = (s) => {
  const {now, p99} = lagOf(s);
  return !now && typeof p99 !== "number" ? null : Math.max(now || 0, p99 || 0);
};
const PLOTS = [
  {name: "Changes per second", get: rateOf("changes"), show: count},
  {name: "Deliveries per second", get: rateOf("deliveries"), show: count},
  {name: "Delivery lag", get: lagShown, show: duration, none: "no samples"},
  {name: "Streams", get: (s) => s.status.streams, show: count, isWhole: true},
  {name: "Memory", get: (s) => s.status.memoryBytes, show: bytes, isBinary: true},
  {name: "Requests per second", get: rateOf("requests"), show: count},
];

// The end of a scale: the first round number from `most` on.
function scaleEnd(most, spec) {
  if (!(most > 0)) return spec.isBinary ? 1024 : 1;
  if (spec.isBinary) return 2 ** Math.ceil(Math.log2(most));
  const power = 10 ** Math.floor(Math.log10(most));
  const end = [1, 2, 5, 10].find((n) => n * power >= most * (1 - 1e-9)) * power;
  return spec.isWhole ? Math.max(2, end) : end;
}

// Runs of points without a gap between them.
function runsOf(samples, get) {
  const runs = [];
  let run = null;
  for (const sample of samples) {
    const value = get(sample);
    if (typeof value !== "number" || !Number.isFinite(value)) {
      run = null;
      continue;
    }
    if (!run || sample.isAfterGap) runs.push(run = []);
    run.push([sample.at, Math.max(0, value)]);
  }
  return runs;
}

// A line plot of the last 15 minutes, as far as samples exist. A text alternative contains the same
// data.
function plot(spec) {
  const value = h("b", {});
  const area = svg("path", {class: "area"}), curve = svg("path", {class: "curve"});
  const line = (y) => svg("line", {class: "zero", x1: 0, x2: 900, y1: y, y2: y});
  const picture = svg("svg", {viewBox: "0 0 900 100", preserveAspectRatio: "none", role: "img"}, line(1), line(50), line(99), area, curve);
  const top = h("span", {}), middle = h("span", {}), since = h("span", {}), most = h("span", {});
  const figure = h("figure", {class: "panel plot"}, h("figcaption", {}, h("span", {}, spec.name), value),
    h("div", {class: "chart"}, h("div", {class: "scale", "aria-hidden": "true"}, top, middle, h("span", {}, "0")), picture),
    h("figcaption", {}, since, most, h("span", {}, "now")));
  const draw = (samples, now) => {
    const runs = runsOf(samples, spec.get);
    const points = runs.flat();
    const greatest = Math.max(0, ...points.map((p) => p[1]));
    const end = scaleEnd(greatest, spec);
    const span = Math.min(SPAN_MS, Math.max(60e3, samples.length ? now - samples[0].at : 0));
    const x = (time) => Math.max(0, 900 - 900 * (now - time) / span).toFixed(1);
    const at = ([time, n]) => x(time) + "," + (99 - 98 * n / end).toFixed(1);
    const inside = runs.map((run) => run.filter((p) => now - p[0] <= span)).filter((run) => run.length > 0);
    const path = (run) => "M" + run.map(at).join(" L") + (run.length === 1 ? " h1" : "");
    curve.setAttribute("d", inside.map(path).join(" "));
    area.setAttribute("d", inside.map((run) => path(run) + " V99 H" + x(run[0][0]) + " Z").join(" "));
    const newest = samples.length ? spec.get(samples[samples.length - 1]) : null;
    const said = typeof newest === "number" ? spec.show(newest) : samples.length && spec.none || "–";
    fill(value, said);
    fill(top, spec.show(end));
    fill(middle, spec.isWhole && end % 2 ? "" : spec.show(end / 2));
    fill(since, duration(span).replace(/ 0 s$/, "") + " ago");
    fill(most, points.length ? "most " + spec.show(greatest) : "");
    picture.setAttribute("aria-label", spec.name + ": now " + said + (points.length ? ", most " + spec.show(greatest) : ""));
  };
  return {figure, draw};
}

// Warnings for the operator.
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

// A node that shares the store: its state, and its lag.
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
  nodes.hidden = true; // unless there are several
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
    if (!newest || live.denied || !("uptimeMs" in newest.status)) return;
    const status = newest.status;
    drawTiles(status);
    for (const p of plots) p.draw(live.samples, live.now);
    if (live.isAway) return;
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
