// Building blocks: elements, numbers and times as text. Untrusted strings only become text nodes
// and attribute values; this file never parses HTML.

const SAID = /^(title|placeholder|aria-(label|valuetext))$/; // attributes that people read

function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : SAID.test(name) ? clean(String(value)) : String(value));
  }
  put(node, children);
  return node;
}

function put(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(clean(String(child))));
  }
  return node;
}

function fill(node, ...children) {
  node.replaceChildren();
  return put(node, children);
}

// Characters that would hide or reorder text are shown by their code points: controls, the soft
// hyphen, direction marks, zero-width characters, line separators, and tags.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

function clean(text) {
  return text.replace(HIDDEN, (c) => {
    const number = c.codePointAt(0).toString(16);
    return number.length > 4 ? "\\u{" + number + "}" : "\\u" + number.padStart(4, "0");
  });
}

// A URI that links to the resource; patterns, and URIs that do not fit into an address, stay plain
// text.
function uriLink(uri) {
  let to = null;
  try {
    to = /[*{}]|^$/.test(uri) ? null : "#/resources?uri=" + encodeURIComponent(uri);
  } catch { /* half a character */ }
  return to ? h("a", {class: "uri", href: to}, uri) : String(uri);
}

function svg(tag, props, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props || {})) node.setAttribute(name, String(value));
  for (const child of children) node.append(child);
  return node;
}

const $ = (id) => document.getElementById(id);

function count(n) {
  if (!Number.isFinite(n)) return "–";
  if (Math.abs(n) < 1000) return n % 1 ? n.toFixed(n < 10 ? 1 : 0) : String(n);
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(n) >= size) return (n / size).toFixed(n / size < 10 ? 1 : 0) + " " + unit;
  }
  return String(n);
}

function bytes(n) {
  if (!Number.isFinite(n)) return "–";
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (n >= size) return (n / size).toFixed(n / size < 10 ? 1 : 0) + " " + unit;
  }
  return n + " B";
}

function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms > 0 && ms < 0.9995) return Math.max(1, Math.round(ms * 1000)) + " µs";
  if (ms < 10) return Number(ms.toFixed(1)) + " ms";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60e3) return (ms / 1e3).toFixed(1) + " s";
  if (ms < 3600e3) return Math.floor(ms / 60e3) + " min " + Math.floor(ms / 1e3 % 60) + " s";
  if (ms < 86400e3) return Math.floor(ms / 3600e3) + " h " + Math.floor(ms / 60e3 % 60) + " min";
  return Math.floor(ms / 86400e3) + " d " + Math.floor(ms / 3600e3 % 24) + " h";
}

function clock(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "–" : date.toLocaleTimeString([], {hour12: false});
}

// A table whose columns are sorted by clicking their heads. `columns`: {key, name, get, cell, num,
// wide}.
function sortable(columns, state, onsort) {
  const heads = columns.map((column) => h("th", {
    scope: "col", class: column.wide ? "wide" : undefined,
    "aria-sort": state.by === column.key ? (state.down ? "descending" : "ascending") : undefined,
  }, column.get ? h("button", {type: "button", onclick: () => {
    state.down = state.by === column.key ? !state.down : Boolean(column.num);
    state.by = column.key;
    onsort();
  }}, column.name) : column.name));
  return h("thead", {}, h("tr", {}, heads));
}

function sorted(rows, columns, state) {
  const column = columns.find((c) => c.key === state.by);
  if (!column || !column.get) return rows;
  const way = state.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = column.get(a), y = column.get(b);
    return (x < y ? -1 : x > y ? 1 : 0) * way;
  });
}

function showDialog(title, ...content) {
  const dialog = $("dialog");
  fill(dialog, h("h2", {id: "dialog-title"}, title), content);
  if (!dialog.open) dialog.showModal();
  return dialog;
}

function closeDialog() {
  if ($("dialog").open) $("dialog").close();
}
