// A form from a JSON Schema: a field for each property that has a simple type, JSON text for the
// others. The server checks all other rules of the schema.

function typeOf(schema) {
  if (Array.isArray(schema.type)) return schema.type.find((type) => type !== "null") || "json";
  if (schema.enum) return "enum";
  return ["string", "number", "integer", "boolean"].includes(schema.type) ? schema.type : "json";
}

// {node, value()}: value() returns the arguments, or throws an Error that names the field.
function schemaForm(schema) {
  const properties = (schema && schema.properties) || {};
  const required = new Set((schema && schema.required) || []);
  const names = Object.keys(properties);
  if (names.length === 0) return jsonForm(schema);
  const fields = names.map((name) => schemaField(name, properties[name] || {}, required.has(name)));
  return {
    node: h("fieldset", {}, h("legend", {}, "Arguments"), fields.map((field) => field.node)),
    value() {
      const out = {};
      for (const field of fields) {
        const value = field.value();
        if (value !== undefined) out[field.name] = value;
      }
      return out;
    },
  };
}

function jsonForm(schema) {
  const area = h("textarea", {"aria-label": "Arguments as JSON", spellcheck: "false", value: "{}"});
  const empty = schema && schema.type === "object" && schema.additionalProperties === false;
  return {
    node: empty ? h("p", {class: "dim"}, "It takes no arguments.") : h("label", {}, h("span", {}, "Arguments (JSON)"), area),
    value() { return empty ? {} : JSON.parse(area.value || "{}"); },
  };
}

function schemaField(name, schema, isRequired) {
  const type = typeOf(schema);
  const shared = {name, required: isRequired, autocomplete: "off", spellcheck: "false"};
  const initial = schema.default !== undefined ? schema.default : "";
  let input;
  if (type === "enum") {
    input = h("select", shared, !isRequired && h("option", {value: ""}, ""), schema.enum.map((word, i) => h("option", {value: i, selected: word === initial}, String(word))));
  } else if (type === "boolean") {
    input = h("select", shared, !isRequired && h("option", {value: ""}, ""), h("option", {value: "true"}, "true"), h("option", {value: "false"}, "false"));
  } else if (type === "number" || type === "integer") {
    input = h("input", {...shared, type: "number", step: type === "integer" ? 1 : "any", min: schema.minimum, max: schema.maximum, value: initial});
  } else if (type === "string") {
    input = h("input", {...shared, maxlength: schema.maxLength, value: initial});
  } else {
    input = h("textarea", {...shared, placeholder: "JSON", value: initial === "" ? "" : JSON.stringify(initial)});
  }
  const title = name + (isRequired ? " *" : "") + (type === "json" ? " (JSON)" : "");
  const node = h("label", {}, h("span", {}, title, schema.description ? " – " + schema.description : ""), input);
  const value = () => {
    if (input.value === "") {
      if (isRequired && type !== "string") throw new Error(name + " is needed");
      return isRequired ? "" : undefined;
    }
    if (type === "enum") return schema.enum[Number(input.value)];
    if (type === "boolean") return input.value === "true";
    if (type === "number" || type === "integer") return Number(input.value);
    if (type === "string") return input.value;
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(name + " is not JSON: " + error.message);
    }
  };
  return {name, node, value};
}
