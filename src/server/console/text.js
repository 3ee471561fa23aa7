// Coloured text, and the difference between two strings.

const TEXT_MOST = 200000; // characters shown of a resource

function pretty(text, type) {
  if (/json/.test(type || "") || /^\s*[[{]/.test(text)) {
    try { return JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it is */ }
  }
  return text;
}

const GRAMMARS = {
  json: /("(?:[^"\\]|\\.)*"(?=\s*:))|("(?:[^"\\]|\\.)*")|(-?\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\b|\btrue\b|\bfalse\b|\bnull\b)/g,
  markdown: /(^#{1,6} .*$)|(`[^`\n]+`)|(^\s*[-*] |^\s*\d+\. )/gm,
  code: /(\b(?:if|else|for|while|return|static|const|struct|int|char|void|function|let|var|def|class|import|from|include|export|async|await|fn|pub|use|match)\b)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(\b\d[\w.]*\b)|(\/\/.*$|#.*$|\/\*[^]*?\*\/)/gm,
};
const CLASSES = {json: ["k", "s", "n"], markdown: ["hd", "s", "n"], code: ["k", "s", "n", "c"]};

function kindOf(type, uri) {
  if (/json/.test(type || "")) return "json";
  if (/markdown/.test(type || "") || /\.md$/.test(uri || "")) return "markdown";
  if (/^text\/(x-|javascript|css|html)|javascript|xml|yaml|toml/.test(type || "")) return "code";
  return null;
}

// Nodes for `text`, coloured by its kind; never more than TEXT_MOST characters.
function coloured(text, type, uri) {
  const kind = kindOf(type, uri);
  const cut = text.length > TEXT_MOST;
  const shown = cut ? text.slice(0, TEXT_MOST) : text;
  const nodes = [];
  if (!kind) {
    nodes.push(shown);
  } else {
    let last = 0;
    for (const found of shown.matchAll(GRAMMARS[kind])) {
      if (found[0] === "") continue;
      nodes.push(shown.slice(last, found.index));
      const group = found.slice(1).findIndex((g) => g !== undefined);
      nodes.push(h("span", {class: CLASSES[kind][group]}, found[0]));
      last = found.index + found[0].length;
    }
    nodes.push(shown.slice(last));
  }
  if (cut) nodes.push(h("span", {class: "c"}, "\n… " + count(text.length - TEXT_MOST) + " characters more"));
  return nodes;
}

// Lines of b against a: {kind: "same"|"add"|"del", line}. The shortest script by Myers' method; if
// the strings differ too much, all lines are reported as different.
function differences(a, b) {
  const from = a.split("\n"), to = b.split("\n");
  let start = 0, endA = from.length, endB = to.length;
  while (start < endA && start < endB && from[start] === to[start]) start++;
  while (endA > start && endB > start && from[endA - 1] === to[endB - 1]) { endA--; endB--; }
  const same = (list) => list.map((line) => ({kind: "same", line}));
  const middle = shortest(from.slice(start, endA), to.slice(start, endB));
  return [...same(from.slice(0, start)), ...middle, ...same(from.slice(endA))];
}

function shortest(a, b) {
  const most = Math.min(a.length + b.length, 1000);
  const reach = new Map([[1, 0]]);
  const history = [];
  for (let d = 0; d <= most; d++) {
    history.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) ?? 0 : (reach.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) { x++; y++; }
      reach.set(k, x);
      if (x >= a.length && y >= b.length) return traced(a, b, history, d);
    }
  }
  return [...a.map((line) => ({kind: "del", line})), ...b.map((line) => ({kind: "add", line}))];
}

function traced(a, b, history, steps) {
  const out = [];
  let x = a.length, y = b.length;
  for (let d = steps; d >= 0; d--) {
    const reach = history[d];
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const before = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : reach.get(before) ?? 0, fromY = fromX - before;
    while (x > (d === 0 ? 0 : down ? fromX : fromX + 1) && y > (d === 0 ? 0 : down ? fromY + 1 : fromY)) {
      out.push({kind: "same", line: a[--x]});
      y--;
    }
    if (d === 0) break;
    if (down) out.push({kind: "add", line: b[--y]});
    else out.push({kind: "del", line: a[--x]});
  }
  return out.reverse();
}

// A <pre> of the differences, long runs of equal lines folded to three at each end.
function differencesView(a, b) {
  const rows = differences(a, b);
  const pre = h("pre", {"aria-label": "differences"});
  if (!rows.some((row) => row.kind !== "same")) return h("p", {class: "dim"}, "no difference");
  for (let i = 0; i < rows.length; i++) {
    let run = i;
    while (run < rows.length && rows[run].kind === "same") run++;
    if (run - i > 8) {
      const keepFirst = i === 0 ? 0 : 3, keepLast = run === rows.length ? 0 : 3;
      for (let j = i; j < i + keepFirst; j++) pre.append(h("span", {class: "same"}, "  " + rows[j].line));
      pre.append(h("span", {class: "same"}, "… " + (run - i - keepFirst - keepLast) + " lines are the same"));
      for (let j = run - keepLast; j < run; j++) pre.append(h("span", {class: "same"}, "  " + rows[j].line));
      i = run - 1;
      continue;
    }
    const sign = {same: "  ", add: "+ ", del: "− "}[rows[i].kind];
    pre.append(h("span", {class: rows[i].kind}, sign + rows[i].line));
  }
  return pre;
}
