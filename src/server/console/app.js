// The page: the open view, keys, colours, the token, and whether the server is reachable.

const VIEWS = [
  {id: "overview", name: "Overview", key: "1", open: openOverview},
  {id: "resources", name: "Resources", key: "2", open: openResources},
  {id: "changes", name: "Changes", key: "3", open: openChanges},
  {id: "peers", name: "Peers", key: "4", open: openPeers},
  {id: "try", name: "Try it", key: "5", open: openTry},
];
let closeView = null;

function route() {
  const [id, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const view = VIEWS.find((v) => v.id === id) || VIEWS[0];
  if (closeView) closeView();
  for (const link of $("nav").querySelectorAll("a")) {
    if (link.dataset.view === view.id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = view.name + " – tidings console";
  fill($("main"));
  closeView = view.open($("main"), new URLSearchParams(query || ""));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
}

function askToken(wasWrong) {
  if ($("dialog").open) return;
  const input = h("input", {type: "password", autocomplete: "off", required: true});
  const form = h("form", {method: "dialog"}, h("p", {}, wasWrong ? "That token is not accepted here." : "This server asks who you are."),
    h("label", {}, h("span", {}, "Access token"), input),
    h("p", {class: "dim"}, "It is kept until this tab is closed, and sent to this server alone."), h("button", {class: "primary"}, "Use it"));
  form.addEventListener("submit", () => {
    mcp.setToken(input.value.trim());
    begin();
  });
  showDialog("Token", form);
  input.focus();
}

function showKeys() {
  showDialog("Keys", h("dl", {}, VIEWS.map((view) => [h("dt", {}, h("kbd", {}, view.key)), h("dd", {}, view.name)]),
    h("dt", {}, h("kbd", {}, "/")), h("dd", {}, "go to the first field"),
    h("dt", {}, h("kbd", {}, "d")), h("dd", {}, "dark or light"),
    h("dt", {}, h("kbd", {}, "?")), h("dd", {}, "this list")),
  h("button", {type: "button", onclick: closeDialog}, "Close"));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const view = VIEWS.find((v) => v.key === event.key);
  if (view) location.hash = "#/" + view.id;
  else if (event.key === "?") showKeys();
  else if (event.key === "d") $("theme").click();
  else if (event.key === "/") {
    const field = $("main").querySelector("input, select, textarea");
    if (field) field.focus();
  } else return;
  event.preventDefault();
}

function onReach(yes) {
  $("link").className = "link " + (yes ? "on" : "off");
  if (yes === live.reachable && $("link").dataset.said) return;
  $("link").dataset.said = "yes";
  fill($("link"), yes ? "connected" : "not reachable since " + clock(Date.now()) + "; trying again");
  live.setReachable(yes);
}

async function begin() {
  try {
    const found = await mcp.request("server/discover", {});
    const info = (found._meta || {})[META + "serverInfo"] || {};
    fill($("server-name"), info.title || info.name || "tidings");
  } catch (error) {
    if (error.status === 401) return;
    if (error instanceof McpError) {
      $("notice").hidden = false;
      fill($("notice"), error.message);
      return;
    }
    setTimeout(begin, 2000);
    return;
  }
  $("notice").hidden = true;
  live.start();
  route();
}

function start() {
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(localStorage.getItem("theme") || (dark ? "dark" : "light"));
  fill($("nav"), VIEWS.map((view) => h("li", {}, h("a", {href: "#/" + view.id, "data-view": view.id, "aria-keyshortcuts": view.key}, view.name))));
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("keys").addEventListener("click", showKeys);
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", route);
  mcp.onNeedToken = askToken;
  mcp.onReach = onReach;
  begin();
}

start();
