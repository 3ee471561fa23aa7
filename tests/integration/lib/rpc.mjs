// SPDX-License-Identifier: MIT
//
// Handwritten JSON-RPC in both eras: correct requests with replaceable parts, so that a test can make one error.

import assert from 'node:assert/strict';

import { request } from './http.mjs';

export const MODERN = '2026-07-28';
export const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
export const LATEST_LEGACY = '2025-11-25';

const PREFIX = 'io.modelcontextprotocol/';
export const key = {
    version: `${PREFIX}protocolVersion`,
    capabilities: `${PREFIX}clientCapabilities`,
    client: `${PREFIX}clientInfo`,
    server: `${PREFIX}serverInfo`,
    subscription: `${PREFIX}subscriptionId`,
    subscribed: 'dev.tidings/subscribedUri',
    refused: 'dev.tidings/refused',
};

export const meta = (extra = {}) => ({
    [key.version]: MODERN,
    [key.capabilities]: {},
    [key.client]: { name: 'integration-test', version: '1' },
    ...extra,
});

const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

/** POST anything: an object is encoded, a string is sent unchanged. */
export function post(server, message, headers = {}) {
    const body = typeof message === 'string' ? message : JSON.stringify(message);
    return request(server, { method: 'POST', headers: { ...json, ...headers }, body });
}

/** The headers of a modern request. */
export function modernHeaders(method, params = {}) {
    const named = method.startsWith('tasks/')
        ? 'taskId'
        : { 'resources/read': 'uri', 'tools/call': 'name', 'prompts/get': 'name' }[method];
    const headers = { 'MCP-Protocol-Version': MODERN, 'Mcp-Method': method };
    if (named && typeof params[named] === 'string') {
        headers['Mcp-Name'] = params[named];
    }
    return headers;
}

let lastId = 0;
export const freshId = () => (lastId += 1);

/** A correct modern request; `headers` and `id` may be replaced. Returns the HTTP response. */
export function modern(server, method, params = {}, { id = freshId(), headers = {} } = {}) {
    const message = { jsonrpc: '2.0', id, method, params: { _meta: meta(), ...params } };
    return post(server, message, { ...modernHeaders(method, params), ...headers });
}

/** A modern request that must succeed. Returns its result. */
export async function call(server, method, params) {
    const response = await modern(server, method, params);
    assert.equal(response.status, 200, `${method}: ${response.text}`);
    assert.ok(response.json.result, `${method}: ${response.text}`);
    return response.json.result;
}

/** The counters of a server with --self (subscriptions, sessions, ...), over all its workers. */
export async function totals(server) {
    const { contents } = await call(server, 'resources/read', { uri: 'tidings://self/stats' });
    const sum = {};
    for (const row of JSON.parse(contents[0].text)) {
        Object.entries(row).forEach(([name, value]) => (sum[name] = (sum[name] ?? 0) + value));
    }
    return sum;
}

/** Open `subscriptions/listen` and await the acknowledgement: { id, ack, events, response }. */
export async function listen(server, notifications, { id = freshId(), params = {} } = {}) {
    const response = await modern(
        server,
        'subscriptions/listen',
        { notifications, ...params },
        { id },
    );
    assert.equal(response.status, 200, response.text);
    assert.ok(response.events, `listen was not answered by an event stream: ${response.text}`);
    const ack = await response.events.message();
    assert.equal(ack.method, 'notifications/subscriptions/acknowledged', JSON.stringify(ack));
    assert.equal(ack.params._meta[key.subscription], id);
    return { id, ack: ack.params, events: response.events, response };
}

/** A legacy session over HTTP. */
export class Session {
    static async open(server, version = LATEST_LEGACY, options = {}) {
        const session = new Session();
        session.server = server;
        const response = await post(server, initialize(version, options));
        assert.equal(response.status, 200, response.text);
        session.result = response.json?.result ?? (await response.events.message()).result;
        session.id = response.headers.get('mcp-session-id');
        assert.ok(session.id, 'initialize gave no Mcp-Session-Id');
        session.version = session.result.protocolVersion;
        const done = await session.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
        assert.equal(done.status, 202, done.text);
        return session;
    }

    get headers() {
        const version =
            this.version >= '2025-06-18' ? { 'MCP-Protocol-Version': this.version } : {};
        return { 'Mcp-Session-Id': this.id, ...version };
    }

    post(message, headers = {}) {
        return post(this.server, message, { ...this.headers, ...headers });
    }

    /** A request. Returns its complete HTTP response. */
    send(method, params, { id = freshId(), headers = {} } = {}) {
        return this.post({ jsonrpc: '2.0', id, method, ...(params && { params }) }, headers);
    }

    /** A request that must succeed. Returns its result. */
    async call(method, params) {
        const response = await this.send(method, params);
        assert.equal(response.status, 200, `${method}: ${response.text}`);
        const answer = response.json ?? (await response.events.message());
        assert.ok(answer.result, `${method}: ${JSON.stringify(answer)}`);
        return answer.result;
    }

    subscribe(uri) {
        return this.call('resources/subscribe', { uri });
    }

    /** The GET request of this session. Returns its complete response. */
    get(headers = {}) {
        const all = { Accept: 'text/event-stream', ...this.headers, ...headers };
        return request(this.server, { method: 'GET', headers: all });
    }

    /** Open a stream; `last` is a Last-Event-ID to resume after. */
    async stream(last) {
        const response = await this.get(last === undefined ? {} : { 'Last-Event-ID': last });
        assert.equal(response.status, 200, response.text);
        assert.ok(response.events, `GET gave ${response.headers.get('content-type')}`);
        return response.events;
    }

    end() {
        return request(this.server, { method: 'DELETE', headers: this.headers });
    }
}

export const initialize = (
    version = LATEST_LEGACY,
    { id = freshId(), capabilities = {} } = {},
) => ({
    jsonrpc: '2.0',
    id,
    method: 'initialize',
    params: { protocolVersion: version, capabilities, clientInfo: { name: 'test', version: '1' } },
});

/** `Base` with the requests of both eras. `Base` has write(message) and message(match, what). */
export const asking = (Base) =>
    class extends Base {
        /** Send a request without a claim and await its answer. */
        async ask(method, params, id = freshId()) {
            await this.write({ jsonrpc: '2.0', id, method, ...(params && { params }) });
            return this.message((m) => m.id === id && !m.method, `the answer to ${method}`);
        }

        /** The same in the modern era. */
        modern(method, params = {}, id = freshId()) {
            return this.ask(method, { _meta: meta(), ...params }, id);
        }

        async handshake(version = LATEST_LEGACY) {
            const hello = initialize(version);
            await this.write(hello);
            const answer = await this.message((m) => m.id === hello.id, 'the answer to initialize');
            await this.write({ jsonrpc: '2.0', method: 'notifications/initialized' });
            return answer.result;
        }
    };

/** Returns true if this message is an update of `uri`. */
export const updates = (uri) => (message) => {
    return message.method === 'notifications/resources/updated' && message.params.uri === uri;
};

export const listChanged = (message) => message.method === 'notifications/resources/list_changed';

/** The source text of the top-level id of a JSON-RPC message, unchanged. */
export function idText(text) {
    let found;
    JSON.parse(text, function visit(name, value, context) {
        if (name === 'id' && this?.jsonrpc === '2.0') {
            found = context.source ?? JSON.stringify(value);
        }
        return value;
    });
    return found;
}
