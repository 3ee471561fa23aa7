// Try it: read, call a tool, publish, notify; with the messages as sent over the wire and the
// equivalent curl command.

// A word for a shell, with any content.
function shellWord(text) {
  return "'" + text.replace(/'/g, "'\\''") + "'";
}

// The token itself is omitted: the command takes it from a variable.
function curlOf(message, headers) {
  const url = new URL(ENDPOINT, location.href).href;
  const lines = ["curl -s " + shellWord(url)];
  for (const [name, value] of Object.entries(headers)) {
    lines.push(name === "Authorization" ? '-H "Authorization: Bearer $TOKEN"' : "-H " + shellWord(name + ": " + value));
  }
  lines.push("-d " + shellWord(JSON.stringify(message)));
  return lines.join(" \\\n  ");
}

function wireView({message, answer, status, headers}) {
  const curl = curlOf(message, headers);
  const copy = h("button", {type: "button", onclick: () => navigator.clipboard && navigator.clipboard.writeText(curl)}, "Copy");
  return [h("h3", {}, "Request"), h("pre", {tabindex: 0}, coloured(JSON.stringify(message, null, 2), "application/json")),
    h("h3", {}, "Answer, status " + status), h("pre", {tabindex: 0}, coloured(JSON.stringify(answer, null, 2) ?? "", "application/json")),
    h("h3", {}, "The same with curl ", copy), h("pre", {tabindex: 0}, curl)];
}

function openTry(main) {
  const what = h("select", {"aria-label": "What to do"});
  const form = h("form", {class: "panel"});
  const wire = h("section", {class: "panel", "aria-live": "polite"}, h("p", {class: "empty"}, "What goes over the wire is shown here."));
  fill(main, h("h2", {class: "skip"}, "Try it"), h("div", {class: "split"},
    h("div", {}, h("div", {class: "tools"}, h("label", {class: "grow"}, h("span", {}, "Do"), what)), form), wire));
  const choices = [{name: "read a resource", method: "resources/read", field: "uri"},
    {name: "list resources", method: "resources/list"},
    {name: "describe a resource", method: "resources/metadata", field: "uri"},
    {name: "discover the server", method: "server/discover"}];

  const said = h("p", {class: "bad", role: "alert"});
  const run = async (method, params) => {
    fill(said);
    let exchange = null;
    mcp.log = (entry) => { exchange = entry; };
    try {
      await mcp.request(method, params, {show: true});
    } catch (error) {
      fill(said, error.message);
    } finally {
      mcp.log = null;
    }
    if (exchange) fill(wire, wireView(exchange));
  };

  const draw = () => {
    const choice = choices[Number(what.value)];
    const go = h("button", {class: "primary"}, "Send");
    const input = choice.field && h("input", {name: choice.field, required: true, spellcheck: "false", autocomplete: "off"});
    const fields = choice.tool ? schemaForm(choice.tool.inputSchema) : null;
    fill(form, choice.tool && choice.tool.description && h("p", {}, choice.tool.description),
      input && h("label", {}, h("span", {}, "URI"), input), fields && fields.node, said, go);
    fill(said);
    form.onsubmit = (event) => {
      event.preventDefault();
      try {
        const params = choice.tool ? {name: choice.tool.name, arguments: fields.value()} : input ? {[choice.field]: input.value} : {};
        run(choice.method, params);
      } catch (error) {
        fill(said, error.message);
      }
    };
  };

  const drawChoices = () => {
    const at = what.value;
    fill(what, choices.map((choice, i) => h("option", {value: i}, choice.name)));
    what.value = at || "0";
  };
  what.addEventListener("change", draw);
  drawChoices();
  draw();
  mcp.listAll("tools/list", "tools", {}).then(({rows}) => {
    for (const tool of rows) choices.push({name: tool.name + (tool.title ? " – " + tool.title : ""), method: "tools/call", tool});
    drawChoices();
  }, () => {});
  return () => {};
}
