// A live tree of resources: branches are listed when they are opened, changes are highlighted, and
// the selected resource is reread.

const VERSIONS_KEPT = 20; // of the selected resource, as read by this page

// The roots of the tree: the mounts or, for users who may not see them, the listed resources.
async function treeTops() {
  try {
    const mounts = await mcp.readJson("tidings://self/mounts");
    return mounts.map((mount) => ({uri: mount.uri, name: mount.uri, isBranch: true}));
  } catch {
    const {rows} = await mcp.listAll("resources/list", "resources", {}, 1000);
    const tops = new Map();
    for (const row of rows) {
      const found = /^[^:]+:(\/\/[^/]*)?\//.exec(row.uri);
      const uri = found ? found[0] : row.uri;
      tops.set(uri, {uri, name: uri, isBranch: Boolean(found)});
    }
    return [...tops.values()];
  }
}

// The direct children; for providers without directories, the whole list is fetched.
async function treeChildren(uri) {
  try {
    const {rows, more} = await mcp.listAll("resources/list", "resources", {uri}, 1000);
    return {rows: rows.map(treeRow), more};
  } catch (error) {
    if (error.status === 401) throw error;
    const {rows, more} = await mcp.listAll("resources/list", "resources", {}, 1000);
    return {rows: rows.filter((row) => row.uri.startsWith(uri) && row.uri !== uri).map(treeRow), more};
  }
}

function treeRow(resource) {
  return {uri: resource.uri, name: resource.title || resource.name || resource.uri,
    isBranch: Boolean(resource.capabilities && resource.capabilities.list), resource};
}

class Tree {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.items = new Map(); // uri -> {row, li, button, list}
    this.root = h("ul", {role: "tree", "aria-label": "Resources"});
    this.root.addEventListener("keydown", (event) => this.onKey(event));
  }

  async start() {
    for (const row of await treeTops()) this.root.append(this.item(row));
    const first = this.root.querySelector("button");
    if (first) first.tabIndex = 0;
  }

  item(row) {
    const mark = h("span", {class: "mark", "aria-hidden": "true"}, row.isBranch ? "▸" : "·");
    const button = h("button", {class: "row", type: "button", tabindex: -1, title: clean(row.uri)}, mark, h("span", {}, row.name));
    const li = h("li", {role: "treeitem", "aria-expanded": row.isBranch ? "false" : undefined}, button);
    const entry = {row, li, button, mark, list: null};
    button.addEventListener("click", () => this.select(entry));
    this.items.set(row.uri, entry);
    return li;
  }

  async toggle(entry, open = !entry.list) {
    if (!entry.row.isBranch || open === Boolean(entry.list)) return;
    entry.li.setAttribute("aria-expanded", String(open));
    fill(entry.mark, open ? "▾" : "▸");
    if (!open) {
      this.forget(entry);
      return;
    }
    entry.list = h("ul", {role: "group"}, h("li", {class: "dim"}, "…"));
    entry.li.append(entry.list);
    await this.fillBranch(entry);
  }

  forget(entry) {
    if (!entry.list) return;
    for (const [uri, other] of this.items) {
      if (other !== entry && entry.list.contains(other.li)) this.items.delete(uri);
    }
    entry.list.remove();
    entry.list = null;
  }

  async fillBranch(entry) {
    const list = entry.list;
    try {
      const {rows, more} = await treeChildren(entry.row.uri);
      if (entry.list !== list) return;
      const known = new Map([...list.children].filter((li) => li.dataset.uri).map((li) => [li.dataset.uri, li]));
      fill(list, rows.length ? rows.map((row) => {
        const old = known.get(row.uri);
        if (old && this.items.has(row.uri)) return old;
        const li = this.item(row);
        li.dataset.uri = row.uri;
        return li;
      }) : h("li", {class: "dim"}, "empty"), more && h("li", {class: "dim"}, "and more"));
    } catch (error) {
      fill(list, h("li", {class: "bad"}, error.message));
    }
  }

  select(entry) {
    for (const other of this.items.values()) {
      other.button.removeAttribute("aria-selected");
      other.button.tabIndex = -1;
    }
    entry.button.setAttribute("aria-selected", "true");
    entry.button.tabIndex = 0;
    if (entry.row.isBranch) this.toggle(entry);
    this.onSelect(entry.row);
  }

  // Highlights the changed `uri`, or the nearest visible branch above it.
  touch(uri, change) {
    let at = uri, entry = this.items.get(uri);
    const exact = Boolean(entry);
    while (!entry && at) {
      at = at.replace(/[^/]*\/?$/, "");
      entry = this.items.get(at);
      if (at.endsWith("://") || at === "") break;
    }
    if (!entry) return;
    lightUp(entry.button);
    const parent = exact && change !== "updated" ? this.parentOf(entry) : !exact && entry.list ? entry : null;
    if (parent && parent.list && change !== "updated") this.fillBranch(parent);
  }

  parentOf(entry) {
    const li = entry.li.parentElement && entry.li.parentElement.closest("[role=treeitem]");
    return li ? [...this.items.values()].find((other) => other.li === li) : null;
  }

  onKey(event) {
    const buttons = [...this.root.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const entry = [...this.items.values()].find((other) => other.button === document.activeElement);
    const go = (button) => { if (button) { button.tabIndex = 0; button.focus(); } };
    if (event.key === "ArrowDown") go(buttons[at + 1]);
    else if (event.key === "ArrowUp") go(buttons[at - 1]);
    else if (event.key === "ArrowRight" && entry) this.toggle(entry, true);
    else if (event.key === "ArrowLeft" && entry) this.toggle(entry, false);
    else if (event.key === "Home") go(buttons[0]);
    else if (event.key === "End") go(buttons[buttons.length - 1]);
    else return;
    event.preventDefault();
  }
}

function lightUp(node) {
  node.classList.remove("lit");
  void node.offsetWidth; // restarts the animation
  node.classList.add("lit");
}

// ---- the resource that is shown -------------------------------------------------------------

function openResources(main, params) {
  const detail = h("section", {class: "panel", "aria-live": "off"}, h("p", {class: "empty"}, "Choose a resource."));
  const shown = {uri: null, versions: [], row: null, stop: null};
  const tree = new Tree((row) => show(row));
  const status = h("p", {class: "dim"});
  fill(main, h("h2", {class: "skip"}, "Resources"), h("div", {class: "split"},
    h("div", {class: "panel tree"}, tree.root, status), detail));

  const show = (row) => {
    shown.uri = row.uri;
    shown.row = row;
    try {
      history.replaceState(null, "", "#/resources?uri=" + encodeURIComponent(row.uri));
    } catch { /* half a character: it cannot be linked to */ }
    shown.versions = [];
    fill(detail, h("h2", {class: "mono"}, row.uri), h("p", {class: "dim"}, "reading…"));
    if (!row.isBranch || row.resource) read();
    else fill(detail, h("h2", {class: "mono"}, row.uri), h("p", {class: "dim"}, "Everything below this URI."));
  };

  const read = async () => {
    const uri = shown.uri;
    let contents;
    try {
      contents = await mcp.read(uri);
    } catch (error) {
      if (shown.uri === uri) fill(detail, h("h2", {class: "mono"}, uri), h("p", {class: "bad"}, error.message));
      return;
    }
    if (shown.uri !== uri) return;
    const main = contents[0] || {};
    const text = main.text !== undefined ? pretty(main.text, main.mimeType) : null;
    const newest = shown.versions[shown.versions.length - 1];
    if (!newest || newest.text !== text) {
      shown.versions.push({text, at: Date.now(), main, count: contents.length});
      if (shown.versions.length > VERSIONS_KEPT) shown.versions.shift();
    }
    drawDetail();
  };

  const drawDetail = () => {
    const {versions} = shown;
    const {text, main, count: parts} = versions[versions.length - 1];
    const meta = main._meta || {};
    fill(detail, h("h2", {class: "mono"}, shown.uri),
      h("p", {class: "dim"}, main.mimeType || "no media type", main.size !== undefined ? ", " + bytes(main.size) : "",
        parts > 1 ? ", " + parts + " parts" : "", meta[OURS + "etag"] ? ", etag " + meta[OURS + "etag"] : ""),
      isEntity(shown.uri) && entityHistory(shown.uri),
      versions.length > 1 && versionsView(versions),
      h("h3", {}, "Content"),
      text !== null ? h("pre", {tabindex: 0}, coloured(text, main.mimeType, shown.uri))
        : main.blob !== undefined ? h("p", {class: "dim"}, "not text: " + bytes(Math.floor(main.blob.length * 3 / 4)) + " of base64")
          : h("p", {class: "dim"}, "no content"));
  };

  if (params.get("uri")) show({uri: params.get("uri"), resource: {}});
  tree.start().then(() => {
    shown.stop = followTree(tree, status, (uri) => { if (uri === shown.uri) read(); });
  }, (error) => fill(status, error.message));
  return () => { if (shown.stop) shown.stop(); };
}

// One stream for everything below the roots of the tree.
function followTree(tree, status, onChange) {
  const uris = [...tree.items.keys()].filter((uri) => !uri.startsWith("tidings://self/"));
  if (uris.length === 0) return () => {};
  const stream = mcp.listen({resourceSubscriptions: uris}, {windowMs: 200}, {
    update: (params, method) => {
      if (method !== "notifications/resources/updated") return;
      tree.touch(params.uri, (params._meta || {})[OURS + "change"] || "updated");
      onChange(params.uri);
    },
    acknowledged: (params) => {
      const honoured = (params.notifications || {}).resourceSubscriptions || [];
      fill(status, honoured.length < uris.length
        ? (uris.length - honoured.length) + " of " + uris.length + " are not told of" : "live");
    },
    failed: (error) => fill(status, error.message),
  });
  return () => stream.stop();
}

// Versions read while the page was open, compared with the newest.
function versionsView(versions) {
  const choice = h("select", {"aria-label": "Compare the newest with"}, versions.slice(0, -1).map((version, i) =>
    h("option", {value: i, selected: i === versions.length - 2}, "read at " + clock(version.at))));
  const place = h("div", {});
  const draw = () => {
    const before = versions[Number(choice.value)], newest = versions[versions.length - 1];
    fill(place, before.text === null || newest.text === null ? h("p", {class: "dim"}, "not text") : differencesView(before.text, newest.text));
  };
  choice.addEventListener("change", draw);
  draw();
  return h("section", {}, h("h3", {}, "What changed since"), choice, place);
}

// ---- the history of an entity ---------------------------------------------------------------

function isEntity(uri) {
  return /^entity:\/\/\/[^/]+@[^/]+\/[^/]+$/.test(uri);
}

function entityHistory(uri) {
  const place = h("section", {"aria-label": "History"}, h("h3", {}, "History"), h("p", {class: "dim"}, "reading…"));
  mcp.request("tools/call", {name: "get-entity-history", arguments: {uri, limit: 100, values: true}}).then((result) => {
    const data = result.structuredContent || {};
    const versions = data.versions || data.history || data.snapshots || [];
    if (result.isError || versions.length === 0) {
      fill(place, h("h3", {}, "History"), h("p", {class: "dim"}, result.isError ? "not to be had" : "one version"));
      return;
    }
    drawHistory(place, versions.sort((a, b) => (a.validFrom < b.validFrom ? -1 : 1)));
  }, (error) => fill(place, h("h3", {}, "History"), h("p", {class: "dim"}, error.message)));
  return place;
}

function drawHistory(place, versions) {
  const last = versions.length - 1;
  const slider = h("input", {type: "range", min: 0, max: last, step: 1, id: "history"});
  slider.value = last;
  const label = h("p", {"aria-live": "polite"}), shows = h("h4", {});
  const view = h("div", {});
  const text = (version) => version.deleted ? "(deleted)" : JSON.stringify(version.value, null, 2) ?? "";
  const draw = () => {
    const i = Number(slider.value), version = versions[i];
    const what = "version " + (i + 1) + " of " + versions.length + (i === last ? ", the newest" : "");
    slider.setAttribute("aria-valuetext", clean(what + ", valid from " + version.validFrom));
    fill(shows, i > 0 ? "What version " + (i + 1) + " changed from version " + i : "Version 1, whole");
    const by = (version.changedBy || []).map((who) => who.userId).join(", ");
    fill(label, h("b", {}, what), ", valid from " + version.validFrom,
      version.validTo && !version.validTo.startsWith("9999") ? " to " + version.validTo : "", by ? ", by " + by : "");
    fill(view, i > 0 ? differencesView(text(versions[i - 1]), text(version)) : h("pre", {}, coloured(text(version), "application/json")));
  };
  slider.addEventListener("input", draw);
  fill(place, h("h3", {}, "History"), h("label", {for: "history"}, h("span", {}, "Version, from the oldest to the newest")), slider,
    h("div", {class: "ends", "aria-hidden": "true"}, h("span", {}, "1: " + versions[0].validFrom), h("span", {}, versions.length + ": newest")),
    label, shows, view);
  draw();
}
