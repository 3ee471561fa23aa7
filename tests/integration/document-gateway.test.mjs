// SPDX-License-Identifier: MIT
//
// "Resource Subscriptions (v1.8.0)" of mcp.gateway, replayed: requests and answers as it prints them, under --profile
// gateway. The counterpart of its C# library is examples/documents.c.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { EventSource as Source } from 'eventsource';

import { defer } from './lib/cleanup.mjs';
import { ask, printed, serveDocuments, shell } from './lib/document.mjs';
import { request } from './lib/http.mjs';
import { call, initialize, listen, modern, post, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';
import { Tree } from './lib/tree.mjs';
import { Inbox, within } from './lib/wait.mjs';

const start = (t, args = []) => serveDocuments(t, 'gateway', ['--window', '0', ...args]);
const version = { 'MCP-Protocol-Version': '2025-11-25' };

// The header of a session that the printed request opened.
async function subscribed(server, uri = 'file://data/users.json') {
    const message = { jsonrpc: '2.0', method: 'resources/subscribe', params: { uri }, id: 1 };
    const response = await post(server, message, version);
    assert.equal(response.status, 200, response.text);
    assert.deepEqual(response.json.result, { subscribed: true, uri });
    return { ...version, 'MCP-Session-Id': response.headers.get('mcp-session-id') };
}

async function stream(t, server, headers) {
    const all = { Accept: 'text/event-stream', ...headers };
    const response = await request(server, { method: 'GET', headers: all });
    assert.equal(response.status, 200, response.text);
    defer(t, () => response.events.close());
    return response.events;
}

// ---- Quick Start ------------------------------------------------------------------------------

test('quick start works by curl as printed', async (t) => {
    const server = await start(t);

    // 1. Subscribe to a resource. `-i` is added, to see "MCP-Session-Id header returned".
    const first = await shell(
        t,
        server,
        `curl -si -X POST http://localhost:5000/mcp \\
  -H "Content-Type: application/json" \\
  -H "MCP-Protocol-Version: 2025-11-25" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "resources/subscribe",
    "params": {
      "uri": "file://data/users.json"
    },
    "id": 1
  }'`,
    ).all();
    const [head, body] = first.split('\r\n\r\n');
    assert.deepEqual(
        JSON.parse(body),
        printed(`{
  "jsonrpc": "2.0",
  "result": {
    "subscribed": true,
    "uri": "file://data/users.json"
  },
  "id": 1
}`),
    );
    const id = /^MCP-Session-Id: (\S+)$/im.exec(head)[1];

    // 2. Open the stream; `-s` is added for quiet. The value of `id` is ours: it must name the position to resume from
    // and be unique in the session.
    const lines = shell(
        t,
        server,
        `curl -s -N http://localhost:5000/mcp \\
  -H "Accept: text/event-stream" \\
  -H "MCP-Protocol-Version: 2025-11-25" \\
  -H "MCP-Session-Id: <your-session-id>"`.replace('<your-session-id>', id),
    );
    await lines.next((line) => line.startsWith(':'), 'the beginning of the stream');
    await server.changed('file://data/users.json');
    await lines.next((line) => line.startsWith('data: '), 'the notification');
    const said = lines.seen.filter((line) => line !== '' && !line.startsWith(':'));
    assert.match(said[0], /^id: \S+$/);
    assert.deepEqual(said.slice(1), [
        'event: message',
        'data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file://data/users.json"}}',
    ]);

    // 3. Unsubscribe.
    const last = await shell(
        t,
        server,
        `curl -s -X POST http://localhost:5000/mcp \\
  -H "Content-Type: application/json" \\
  -H "MCP-Protocol-Version: 2025-11-25" \\
  -H "MCP-Session-Id: <your-session-id>" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "resources/unsubscribe",
    "params": {
      "uri": "file://data/users.json"
    },
    "id": 2
  }'`.replace('<your-session-id>', id),
    ).all();
    assert.deepEqual(
        JSON.parse(last),
        printed(`{
  "jsonrpc": "2.0",
  "result": {
    "unsubscribed": true,
    "uri": "file://data/users.json"
  },
  "id": 2
}`),
    );
});

// ---- API Reference ----------------------------------------------------------------------------

const SUBSCRIBE = `{
  "jsonrpc": "2.0",
  "method": "resources/subscribe",
  "params": {
    "uri": "file://data/users.json"  // Exact URI match only (v1.8.0)
  },
  "id": 1
}`;

const UNSUBSCRIBE = `{
  "jsonrpc": "2.0",
  "method": "resources/unsubscribe",
  "params": {
    "uri": "file://data/users.json"
  },
  "id": 2
}`;

test('subscribing and unsubscribing answer as printed, however often', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server, 'system://metrics');
    for (let i = 0; i < 2; i += 1) {
        assert.deepEqual(
            await ask(server, SUBSCRIBE, headers),
            printed(`{
  "jsonrpc": "2.0",
  "result": {
    "subscribed": true,
    "uri": "file://data/users.json"
  },
  "id": 1
}`),
        );
    }
    // "Unsubscribing from a non-subscribed URI is not an error (idempotent)."
    for (let i = 0; i < 2; i += 1) {
        assert.deepEqual(
            await ask(server, UNSUBSCRIBE, headers),
            printed(`{
  "jsonrpc": "2.0",
  "result": {
    "unsubscribed": true,
    "uri": "file://data/users.json"
  },
  "id": 2
}`),
        );
    }
});

test('unregistered resource is refused as printed', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server);
    const refusal = (uri) =>
        ask(server, SUBSCRIBE.replace('file://data/users.json', uri), headers);
    assert.deepEqual(
        await refusal('file://nonexistent.txt'),
        printed(`{
  "jsonrpc": "2.0",
  "error": {
    "code": -32601,
    "message": "Resource not found",
    "data": {
      "detail": "Resource 'file://nonexistent.txt' is not configured"
    }
  },
  "id": 1
}`),
    );
    assert.deepEqual(
        await refusal('file://unknown.txt'),
        printed(`{
  "jsonrpc": "2.0",
  "error": {
    "code": -32601,
    "message": "Resource not found",
    "data": {
      "detail": "Resource 'file://unknown.txt' is not configured"
    }
  },
  "id": 1
}`),
    );
    const read = await post(
        server,
        { jsonrpc: '2.0', method: 'resources/read', params: { uri: 'file://unknown.txt' }, id: 3 },
        headers,
    );
    assert.equal(read.status, 200);
    assert.equal(read.json.error.code, -32601);
    const nowhere = await refusal('not a URI');
    assert.equal(nowhere.error.code, -32601);
    assert.equal(nowhere.error.data.detail, "Resource 'not a URI' is not configured");
});

test('missing uri is -32602 and errors have status 200', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server);
    const message = { jsonrpc: '2.0', method: 'resources/subscribe', params: {}, id: 1 };
    const response = await post(server, message, headers);
    assert.equal(response.status, 200);
    assert.equal(response.json.error.code, -32602);
    const unknown = await post(server, { jsonrpc: '2.0', method: 'no/such', id: 2 }, headers);
    assert.equal(unknown.status, 200);
    assert.equal(unknown.json.error.code, -32601);
});

test('reading fails with three codes and _meta passes through', async (t) => {
    const mounts = [{ type: 'command', uri: 'cmd:///fails', argv: ['/bin/sh', '-c', 'exit 3'] }];
    const config = new Tree(t, { 'tidings.json': JSON.stringify({ mounts, publish: ['app:///'], allowWrite: true }) }).at('tidings.json');
    const server = await serve(t, { mounts: [], args: ['--config', config, '--profile', 'gateway'] });
    const session = await Session.open(server);
    const read = async (params) => (await session.send('resources/read', params)).json;
    assert.equal((await read({})).error.code, -32602);
    assert.equal((await read({ uri: 'app:///nothing' })).error.code, -32601);
    const failed = (await read({ uri: 'cmd:///fails' })).error;
    assert.equal(failed.code, -32603, JSON.stringify(failed));
    const _meta = { 'example.com/by': { who: 'me' } };
    await session.call('tools/call', { name: 'publish', arguments: { uri: 'app:///a', text: 'x', _meta } });
    const [content] = (await read({ uri: 'app:///a' })).result.contents;
    assert.deepEqual(content._meta['example.com/by'], _meta['example.com/by']);
    const { resources } = await session.call('resources/list');
    assert.deepEqual(resources.find((r) => r.uri === 'app:///a')._meta['example.com/by'], _meta['example.com/by']);
});

test('subscriptions without sessions are refused as printed', async (t) => {
    const pipe = Pipe.open(t, { args: ['--profile', 'gateway'] });
    for (const text of [SUBSCRIBE, UNSUBSCRIBE]) {
        const request = printed(text);
        await pipe.write(request);
        assert.deepEqual(await pipe.message((m) => m.id === request.id), {
            ...printed(`{
  "jsonrpc": "2.0",
  "error": {
    "code": -32000,
    "message": "Session required",
    "data": {
      "detail": "Resource subscriptions require an active session. Use POST /mcp to initialize."
    }
  },
  "id": 1
}`),
            id: request.id,
        });
    }
    const hello = await pipe.handshake();
    assert.equal(hello.protocolVersion, '2025-11-25');
    const { error } = await pipe.ask('resources/subscribe', { uri: 'file://data/users.json' });
    assert.equal(error.code, -32000);
});

test('update reaches only subscribers of its URI', async (t) => {
    const server = await start(t);
    const mine = await stream(t, server, await subscribed(server));
    const other = await stream(t, server, await subscribed(server, 'file://data/products.json'));
    await server.changed('file://data/users.json');
    assert.deepEqual(
        await mine.message(),
        printed(`{
  "jsonrpc": "2.0",
  "method": "notifications/resources/updated",
  "params": {
    "uri": "file://data/users.json"
  }
}`),
    );
    await server.changed('file://data/products.json');
    assert.equal((await other.message()).params.uri, 'file://data/products.json');
    assert.equal(other.messages.length, 1, 'it heard of its own resource only');
});

test('update without URI reaches every session with a stream, subscribed or not', async (t) => {
    const server = await start(t);
    const opened = await post(server, { jsonrpc: '2.0', method: 'ping', id: 1 }, version);
    const idle = { ...version, 'MCP-Session-Id': opened.headers.get('mcp-session-id') };
    const streams = [
        await stream(t, server, await subscribed(server)),
        await stream(t, server, await subscribed(server, 'system://metrics')),
        await stream(t, server, idle),
    ];
    await server.changed();
    for (const events of streams) {
        assert.deepEqual(
            await events.message(),
            printed(`{
  "jsonrpc": "2.0",
  "method": "notifications/resources/updated",
  "params": {}
}`),
        );
        assert.equal(events.messages.length, 1, 'once, not once per subscription');
    }
});

// ---- Implementation Guide ---------------------------------------------------------------------

test('tool of the guide updates its resource and notifies its subscribers', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server);
    const events = await stream(t, server, headers);
    const message = {
        jsonrpc: '2.0',
        method: 'tools/call',
        params: { name: 'update_user_data', arguments: {} },
        id: 7,
    };
    const { json } = await post(server, message, headers);
    assert.deepEqual(json.result.structuredContent, { updated: true });
    assert.equal((await events.message()).params.uri, 'file://data/users.json');
});

test('resource of the guide is listed and read as defined', async (t) => {
    const server = await start(t);
    const session = await Session.open(server);
    const { resources } = await session.call('resources/list');
    const users = resources.find((r) => r.uri === 'file://data/users.json');
    assert.deepEqual(
        [users.name, users.description, users.mimeType],
        ['User Data', 'User records in JSON format', 'application/json'],
    );
    const { contents } = await session.call('resources/read', { uri: 'file://data/users.json' });
    assert.equal(contents[0].uri, 'file://data/users.json');
    assert.equal(contents[0].mimeType, 'application/json');
    assert.equal(typeof contents[0].text, 'string');
});

test('JavaScript client of the guide works as printed', async (t) => {
    const server = await start(t);
    // The document's EventSource takes headers, as those for Node did; this one takes a fetch.
    class EventSource extends Source {
        constructor(url, { headers }) {
            const given = (init) => ({ ...init, headers: { ...init.headers, ...headers } });
            super(url, { fetch: (input, init) => fetch(input, given(init)) });
        }
    }
    const base = server.url.replace('/mcp', '');
    const fetched = new Inbox('fetchResource');
    const fetchResource = (uri) => fetched.push(uri);
    const console = { log() {} };

    // 1. Subscribe to resource
    const session = { id: null };

    async function subscribe(uri, method = 'resources/subscribe') {
      const response = await fetch(`${base}/mcp`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          'MCP-Protocol-Version': '2025-11-25',
          ...(session.id && { 'MCP-Session-Id': session.id })
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          method,
          params: { uri },
          id: Date.now()
        })
      });

      // Save session ID from first request
      if (!session.id) {
        session.id = response.headers.get('MCP-Session-Id');
      }

      return await response.json();
    }
    const unsubscribe = (uri) => subscribe(uri, 'resources/unsubscribe'); // not printed

    // Subscribe to multiple resources
    await subscribe('file://data/users.json');
    await subscribe('system://metrics');

    // 2. Open SSE stream for notifications
    const eventSource = new EventSource(
      `${base}/mcp`,
      {
        headers: {
          'MCP-Protocol-Version': '2025-11-25',
          'MCP-Session-Id': session.id
        }
      }
    );
    defer(t, () => eventSource.close());
    const opened = new Promise((resolve) => eventSource.addEventListener('open', resolve));

    // 3. Listen for notifications
    eventSource.addEventListener('message', (event) => {
      const notification = JSON.parse(event.data);

      if (notification.method === 'notifications/resources/updated') {
        const uri = notification.params.uri;
        console.log('Resource updated:', uri);

        // Re-fetch the updated resource
        fetchResource(uri);
      }
    });

    await within(opened, 'the stream to open');
    await server.changed('system://metrics');
    await server.changed('file://data/users.json');
    await fetched.next((uri) => uri === 'system://metrics', 'the metrics');
    await fetched.next((uri) => uri === 'file://data/users.json', 'the users');

    // 4. Cleanup
    eventSource.close();
    const { result } = await unsubscribe('file://data/users.json');
    assert.equal(result.unsubscribed, true);
});

// ---- Technical Details, Error Handling, Best Practices ----------------------------------------

test('subscriptions end with their session', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server);
    const events = await stream(t, server, headers);
    const gone = await request(server, { method: 'DELETE', headers });
    assert.equal(gone.status, 204);
    await within(events.over, 'the stream of the ended session to end');
    const again = await post(server, printed(SUBSCRIBE), headers);
    assert.equal(again.status, 404, 'an ended session is not opened again unasked');
});

test('subscriber without a stream misses nothing and a broken stream is replayed', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server, 'system://metrics');
    await server.changed('system://metrics', { n: 1 });
    const first = await stream(t, server, headers);
    const event = await first.next((item) => item.json, 'what happened before the stream');
    first.close();
    await server.changed('system://metrics', { n: 2 });
    // "Last-Event-ID header handles replay", "Re-subscribe (idempotent - safe to call again)"
    const second = await stream(t, server, { ...headers, 'Last-Event-ID': event.id });
    assert.deepEqual((await second.message()).params, { uri: 'system://metrics' });
    const again = await ask(server, SUBSCRIBE.replace('file://data/users.json', 'system://metrics'), headers);
    assert.equal(again.result.subscribed, true);
});

// ---- Future Enhancements ----------------------------------------------------------------------

test('planned patterns match as documented', async (t) => {
    const server = await start(t);
    const planned = {
        'file://logs/*.log': ['file://logs/app.log', 'file://logs/app-12.log'],
        'file://logs/**': [
            'file://logs/app.log',
            'file://logs/app-12.log',
            'file://logs/old/app.log',
        ],
        'file://logs/app-[0-9]+.log': ['file://logs/app-12.log'],
        'file://logs/': ['file://logs/app.log', 'file://logs/app-12.log', 'file://logs/old/app.log'],
    };
    // "file://data/*.json" is what best practice 1 calls bad "in v1.8.0"; here it is a pattern too.
    const all = ['file://logs/app.log', 'file://logs/app-12.log', 'file://logs/old/app.log'];
    const last = 'system://metrics';
    for (const [pattern, matched] of Object.entries(planned)) {
        const headers = await subscribed(server, pattern);
        await ask(server, SUBSCRIBE.replace('file://data/users.json', last), headers);
        const events = await stream(t, server, headers);
        for (const uri of [...all, 'file://data/users.json', last]) {
            await server.changed(uri);
        }
        await events.message(updates(last));
        const heard = events.messages.map((message) => message.params.uri);
        assert.deepEqual(heard.slice(0, -1), matched, pattern);
    }
});

// ---- Testing ----------------------------------------------------------------------------------

// Its unit tests ask a registry (Subscribe, IsSubscribed, Unsubscribe); ours is a resource.
test('unit test registry holds current subscriptions only', async (t) => {
    const server = await start(t, ['--self']);
    const isSubscribed = async (uri) => {
        const { contents } = await call(server, 'resources/read', { uri: 'tidings://self/subscriptions' });
        return JSON.parse(contents[0].text).some((row) => row.subscribedUri === uri);
    };
    const uri = 'file://data/users.json';
    assert.equal(await isSubscribed(uri), false);
    const headers = await subscribed(server);
    assert.equal(await isSubscribed(uri), true);
    await ask(server, UNSUBSCRIBE, headers);
    assert.equal(await isSubscribed(uri), false);
});

test('files have such URIs too: a directory mounted at file://data/', async (t) => {
    const tree = new Tree(t, { 'users.json': '[]' });
    const mounts = ['--mount', `file://data/=${tree.path}`];
    const server = await serve(t, { tree, mounts, args: ['--profile', 'gateway'] });
    const headers = await subscribed(server);
    const events = await stream(t, server, headers);
    tree.replace('users.json', '[1]');
    const { params } = await events.message(updates('file://data/users.json'));
    assert.deepEqual(params, { uri: 'file://data/users.json' });
});

// ---- undocumented behaviour of its implementation -----------------------------------------------

test('update without URI waits for a session that has no stream yet', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server);
    await server.changed();
    const events = await stream(t, server, headers);
    assert.deepEqual((await events.message()).params, {});
});

test('HTTP statuses are its own and each body is a whole JSON-RPC error', async (t) => {
    const server = await start(t);
    const headers = await subscribed(server);
    const gone = { ...version, 'MCP-Session-Id': 'nobody' };
    const accept = { Accept: 'text/event-stream' };
    const json = { 'Content-Type': 'application/json' };
    const old = { 'MCP-Protocol-Version': '1999-01-01' };
    const ping = { jsonrpc: '2.0', method: 'ping', id: 1 };
    const without = (method, headers) => request(server, { method, headers: { ...accept, ...headers } });
    const tried = {
        'POST, unknown session': [await post(server, ping, gone), 404, -32001],
        'GET, no session': [await without('GET', version), 400, -32001],
        'GET, unknown session': [await without('GET', gone), 404, -32001],
        'DELETE, no session': [await without('DELETE', version), 400, -32001],
        'DELETE, unknown session': [await without('DELETE', gone), 404, -32001],
        'no JSON': [await request(server, { headers: { ...headers, ...json }, body: '{' }), 400, -32700],
        'unknown version': [await post(server, ping, { ...headers, ...old }), 400, -32022],
    };
    for (const [name, [response, status, code]] of Object.entries(tried)) {
        assert.equal(response.status, status, name);
        assert.deepEqual([response.json.jsonrpc, response.json.error.code], ['2.0', code], name);
    }
});

// ---- unaffected by the profile ----------------------------------------------------------------

test('modern era is unchanged', async (t) => {
    const server = await start(t);
    const uri = 'file://data/users.json';
    const { events } = await listen(server, { resourceSubscriptions: [uri] });
    await server.changed(uri);
    const { params } = await events.message(updates(uri));
    assert.equal(params.subscribedUri, uri);
    assert.ok(params._meta['dev.tidings/cursor']);
    const { json } = await modern(server, 'resources/read', { uri: 'file://unknown.txt' });
    assert.equal(json.error.code, -32602);
    assert.equal(json.error.data.uri, 'file://unknown.txt');
});

test('initialize still opens a session and a requested session is not opened twice', async (t) => {
    const server = await start(t);
    const response = await post(server, initialize());
    const id = response.headers.get('mcp-session-id');
    const ping = { jsonrpc: '2.0', method: 'ping', id: 2 };
    const answer = await post(server, ping, { 'MCP-Session-Id': id });
    assert.equal(answer.headers.get('mcp-session-id'), id);
    const note = await post(server, { jsonrpc: '2.0', method: 'notifications/initialized' });
    assert.equal(note.status, 202, 'a notification opens nothing');
    assert.equal(note.headers.get('mcp-session-id'), undefined);
});
