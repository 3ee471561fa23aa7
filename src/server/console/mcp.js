// An MCP client of revision 2026-07-28 over fetch: requests, and streams that reconnect after a
// loss and resume from their cursor.

const REVISION = "2026-07-28";
const META = "io.modelcontextprotocol/";
const OURS = "dev.tidings/";
const ENDPOINT = "mcp";

class McpError extends Error {
  constructor(message, code, data, status) {
    super(message);
    this.code = code;
    this.data = data;
    this.status = status;
  }
}

const mcp = {
  token: sessionStorage.getItem("token") || "",
  nextId: 1,
  log: null,        // called with {method, body, answer, status} of each visible exchange
  onNeedToken: null,
  onReach: null,    // called with true or false when the server becomes reachable or unreachable

  meta(more) {
    return {
      [META + "protocolVersion"]: REVISION,
      [META + "clientCapabilities"]: {},
      [META + "clientInfo"]: {name: "tidings console", version: "1"},
      ...more,
    };
  },

  message(method, params, meta) {
    return {jsonrpc: "2.0", id: this.nextId++, method, params: {...params, _meta: this.meta(meta)}};
  },

  headers(message) {
    const headers = {
      "Content-Type": "application/json",
      "Accept": "application/json, text/event-stream",
      "MCP-Protocol-Version": REVISION,
      "Mcp-Method": message.method,
    };
    const name = message.params.name || message.params.uri;
    if (name && /^(tools\/call|prompts\/get|resources\/read)$/.test(message.method)) {
      headers["Mcp-Name"] = headerValue(name);
    }
    if (this.token) headers.Authorization = "Bearer " + this.token;
    return headers;
  },

  async post(message, signal) {
    let response;
    try {
      response = await fetch(ENDPOINT, {
        method: "POST", headers: this.headers(message), body: JSON.stringify(message),
        signal, credentials: "same-origin", cache: "no-store", redirect: "error",
      });
    } catch (error) {
      if (!signal || !signal.aborted) this.reached(false);
      throw error;
    }
    this.reached(true);
    if (response.status === 401) {
      if (this.onNeedToken) this.onNeedToken(Boolean(this.token));
      throw new McpError(this.token ? "this token is not accepted" : "a token is needed", 401, null, 401);
    }
    return response;
  },

  reached(yes) {
    if (this.onReach) this.onReach(yes);
  },

  setToken(token) {
    this.token = token;
    if (token) sessionStorage.setItem("token", token);
    else sessionStorage.removeItem("token");
  },

  // One request; the result, or an McpError.
  async request(method, params, {meta, signal, show} = {}) {
    const message = this.message(method, params, meta);
    const response = await this.post(message, signal);
    let answer = null;
    if ((response.headers.get("Content-Type") || "").startsWith("text/event-stream")) {
      for await (const event of events(response)) {
        if (event.id === message.id) answer = event;
      }
    } else {
      const text = await response.text();
      try {
        answer = JSON.parse(text);
      } catch {
        throw new McpError(text.slice(0, 300) || "HTTP status " + response.status, 0, null, response.status);
      }
    }
    if (show && this.log) this.log({message, answer, status: response.status, headers: this.headers(message)});
    if (!answer) throw new McpError("the stream ended without an answer", 0, null, response.status);
    if (answer.error) {
      throw new McpError(answer.error.message, answer.error.code, answer.error.data, response.status);
    }
    return answer.result;
  },

  async read(uri, options) {
    const result = await this.request("resources/read", {uri}, options);
    return result.contents || [];
  },

  async readJson(uri) {
    const contents = await this.read(uri);
    return JSON.parse(contents[0].text);
  },

  // All rows of a paged resource of the server.
  async readRows(uri, most = 5000) {
    const rows = [];
    let after = "";
    while (rows.length < most) {
      const page = await this.readJson(after ? uri + "?after=" + encodeURIComponent(after) : uri);
      if (page.length === 0) break;
      rows.push(...page);
      after = page[page.length - 1].row;
      if (!after || page.length < 1000) break;
    }
    return rows;
  },

  async listAll(method, key, params, most = 2000) {
    const rows = [];
    let cursor;
    do {
      const result = await this.request(method, {...params, ...(cursor ? {cursor} : {})});
      rows.push(...(result[key] || []));
      cursor = result.nextCursor;
    } while (cursor && rows.length < most);
    return {rows, more: Boolean(cursor)};
  },

  // A stream of notifications. `on`: update(params), acknowledged(params), ended(), failed(error).
  // After a loss it reconnects with its cursor; stop() ends it.
  listen(notifications, options, on) {
    const control = new AbortController();
    let wait = 500, cursor = null;
    const run = async () => {
      while (!control.signal.aborted) {
        const meta = {[OURS + "options"]: cursor ? {...options, since: cursor} : options};
        try {
          const message = this.message("subscriptions/listen", {notifications}, meta);
          const response = await this.post(message, control.signal);
          if (!response.ok || !(response.headers.get("Content-Type") || "").startsWith("text/event-stream")) {
            const text = await response.text();
            let said;
            try { said = JSON.parse(text).error; } catch { /* told as it is */ }
            throw new McpError(said ? said.message : text.slice(0, 300), said && said.code, null, response.status);
          }
          for await (const event of events(response)) {
            const its = event.params && event.params._meta;
            if (its && its[OURS + "cursor"]) cursor = its[OURS + "cursor"];
            wait = 500;
            if (event.method === "notifications/subscriptions/acknowledged") {
              if (on.acknowledged) on.acknowledged(event.params);
            } else if (event.method && on.update) {
              on.update(event.params, event.method);
            }
          }
          if (on.ended) on.ended();
        } catch (error) {
          if (control.signal.aborted) return;
          if (!(error instanceof McpError)) this.reached(false);
          if (on.failed) on.failed(error);
          if (error.status === 401 || error.code === -32602) return;
        }
        await pause(wait, control.signal);
        wait = Math.min(wait * 2, 10000);
      }
    };
    run();
    return {stop: () => control.abort()};
  },
};

function pause(ms, signal) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, {once: true});
  });
}

// Header values are ASCII: other text is sent in base64, per the specification.
function headerValue(text) {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?/i.test(text)) return text;
  const raw = new TextEncoder().encode(text);
  let binary = "";
  for (const byte of raw) binary += String.fromCharCode(byte);
  return "=?base64?" + btoa(binary) + "?=";
}

// The messages of an event stream.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", data = "";
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      const lines = (rest + value).split(/\r\n|\n|\r/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data) yield JSON.parse(data);
          data = "";
        } else if (line.startsWith("data:")) {
          data += (data ? "\n" : "") + line.slice(line[5] === " " ? 6 : 5);
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
