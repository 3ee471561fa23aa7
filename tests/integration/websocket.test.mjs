// SPDX-License-Identifier: MIT
//
// WebSocket at the endpoint, as clients use it: the upgrade, both eras, notifications, deadlines and close.
// websocket-frames.test.mjs tests frames.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import tls from 'node:tls';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

import { Certificates } from './lib/certs.mjs';
import { defer } from './lib/cleanup.mjs';
import { Connection, request } from './lib/http.mjs';
import { call, key, meta, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { eventually, Inbox, within } from './lib/wait.mjs';
import {
    closeFrame,
    encodeFrame,
    FIN,
    OP,
    upgradeRequest,
    WebSocketRaw,
} from './lib/websocket.mjs';

const files = { 'a.txt': 'a', 'b.txt': 'b' };

/** The program's own counters, over all workers. */
async function stats(server, name) {
    const { contents } = await call(server, 'resources/read', { uri: 'tidings://self/stats' });
    return JSON.parse(contents[0].text).reduce((sum, worker) => sum + worker[name], 0);
}

async function refusal(server, headers, options) {
    const connection = await Connection.open(server);
    await connection.send(upgradeRequest(server.port, headers, options));
    const response = await connection.readResponse('GET');
    connection.close();
    return response;
}

// ---- the upgrade ----------------------------------------------------------------------------------

test('upgrade is answered with only the accept key and the subprotocol', async (t) => {
    const server = await serve(t, { files });
    const ws = await WebSocketRaw.open(server, {
        headers: { 'Sec-WebSocket-Extensions': 'permessage-deflate; client_max_window_bits' },
    });
    assert.equal(ws.head.headers.get('upgrade'), 'websocket');
    assert.equal(ws.head.headers.get('connection'), 'Upgrade');
    assert.equal(ws.head.headers.get('sec-websocket-protocol'), 'mcp');
    assert.equal(ws.head.headers.get('sec-websocket-extensions'), undefined);
    ws.close();
});

test('client without a subprotocol is served without one', async (t) => {
    const server = await serve(t, { files });
    const ws = await WebSocketRaw.open(server, { protocol: null });
    assert.equal(ws.head.headers.get('sec-websocket-protocol'), undefined);
    assert.ok((await ws.modern('server/discover')).result);
    ws.close();
});

test('wrong upgrade is rejected with an explanation', async (t) => {
    const server = await serve(t, { files });
    const cases = [
        [{ 'Sec-WebSocket-Version': '8' }, 426, /13/],
        [{ 'Sec-WebSocket-Version': null }, 426, /13/],
        [{ 'Sec-WebSocket-Key': null }, 400, /Sec-WebSocket-Key/],
        [{ 'Sec-WebSocket-Key': 'c2hvcnQ=' }, 400, /16 bytes/],
        [{ Connection: 'keep-alive' }, 400, /Connection: Upgrade/],
        [{ 'Sec-WebSocket-Protocol': 'chat, graphql-ws' }, 400, /offer mcp/],
        [{ 'Content-Length': '2' }, 400, /no body/],
        [{ Origin: 'https://evil.example' }, 403, /Origin/],
        [{ Host: 'evil.example' }, 403, /Host/],
    ];
    for (const [headers, status, text] of cases) {
        const response = await refusal(server, headers);
        assert.equal(response.status, status, JSON.stringify(headers));
        assert.match(response.text, text);
        assert.equal(
            response.headers.get('sec-websocket-version'),
            status === 426 ? '13' : undefined,
        );
    }
    const posted = await refusal(server, {}, { method: 'POST', body: '' });
    assert.equal(posted.status, 400);
    assert.match(posted.text, /GET/);
    const elsewhere = await refusal(server, {}, { path: '/ws' });
    assert.equal(elsewhere.status, 404);
});

test('permitted Origin may upgrade', async (t) => {
    const server = await serve(t, { files, args: ['--allow-origin', 'https://app.example'] });
    const ws = await WebSocketRaw.open(server, { headers: { Origin: 'https://app.example' } });
    assert.ok((await ws.modern('server/discover')).result);
    ws.close();
});

test('upgrade to another protocol is ignored', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const response = await request(server, {
        headers: {
            'Content-Type': 'application/json',
            Accept: 'application/json, text/event-stream',
            Upgrade: 'h2c',
            Connection: 'Upgrade',
            ...session.headers,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    });
    assert.equal(response.status, 200);
});

test('bytes after the upgrade head are the first message', async (t) => {
    const server = await serve(t, { files });
    const hello = { jsonrpc: '2.0', id: 'first', method: 'server/discover', params: { _meta: meta() } };
    const first = encodeFrame(FIN | OP.text, JSON.stringify(hello));
    const whole = await WebSocketRaw.open(server, { first });
    assert.ok((await whole.message((m) => m.id === 'first')).result);
    whole.close();
    const half = await WebSocketRaw.open(server, { first: first.subarray(0, 20) });
    await half.send(first.subarray(20));
    assert.ok((await half.message((m) => m.id === 'first')).result);
    half.close();
});

test('connection used for HTTP may become a WebSocket', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const options = await connection.request({ method: 'OPTIONS' });
    assert.equal(options.status, 204);
    await connection.send(upgradeRequest(server.port));
    assert.equal((await connection.readHead()).status, 101);
    connection.close();
});

test('upgrade keeps its connection regardless of a named session', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '2'] });
    const sessions = [await Session.open(server), await Session.open(server)];
    for (const session of sessions) {
        const ws = await WebSocketRaw.open(server, { headers: { 'Mcp-Session-Id': session.id } });
        assert.ok((await ws.modern('server/discover')).result);
        ws.close();
    }
});

// ---- messages -------------------------------------------------------------------------------------

test('both eras share a WebSocket, message by message', async (t) => {
    const server = await serve(t, { files });
    const ws = await WebSocketRaw.open(server);
    const early = await ws.ask('resources/list');
    assert.equal(early.error.code, -32600);
    assert.ok((await ws.modern('resources/list')).result.resources);
    const hello = await ws.handshake();
    assert.equal(hello.protocolVersion, '2025-11-25');
    assert.ok((await ws.ask('resources/list')).result.resources);
    assert.ok((await ws.modern('server/discover')).result.supportedVersions);
    const broken = encodeFrame(FIN | OP.text, '{"jsonrpc":');
    await ws.send(broken);
    assert.equal((await ws.message((m) => m.error)).error.code, -32700);
    assert.deepEqual((await ws.ask('ping')).result, {});
    ws.close();
});

test('legacy subscription ends with its connection', async (t) => {
    const server = await serve(t, { files, args: ['--self', '--workers', '2'] });
    const ws = await WebSocketRaw.open(server);
    await ws.handshake();
    const uri = server.uri('a.txt');
    assert.ok((await ws.ask('resources/subscribe', { uri })).result);
    server.tree.replace('a.txt', 'new');
    const update = await ws.message(updates(uri), 'the update');
    assert.equal(update.params.subscribedUri, uri);
    assert.equal(await stats(server, 'subscriptions'), 1);
    ws.close();
    await eventually(
        async () => (await stats(server, 'subscriptions')) === 0,
        'its subscription is gone',
    );
});

test('listens share a WebSocket with requests, and end one by one', async (t) => {
    const server = await serve(t, { files });
    const ws = await WebSocketRaw.open(server);
    const a = await ws.listen([server.uri('a.txt')]);
    const b = await ws.listen([server.uri('b.txt')]);
    server.tree.replace('a.txt', '2');
    server.tree.replace('b.txt', '2');
    for (const [name, listen] of [['a.txt', a], ['b.txt', b]]) {
        const update = await ws.message(updates(server.uri(name)), `the update of ${name}`);
        assert.equal(update.params._meta[key.subscription], listen.id);
    }
    await ws.write({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: a.id },
    });
    assert.ok((await ws.modern('server/discover')).result);
    server.tree.replace('a.txt', '3');
    server.tree.replace('b.txt', '3');
    await ws.message(updates(server.uri('b.txt')), 'the second update of b.txt');
    assert.equal(ws.messages.filter(updates(server.uri('a.txt'))).length, 1);
    ws.close();
});

test('client may send faster than it reads: excess requests wait', async (t) => {
    const server = await serve(t, {
        files: { 'big.txt': 'x'.repeat(100_000) },
        args: ['--stall-timeout', '1h'],
    });
    const ws = await WebSocketRaw.open(server);
    const ids = Array.from({ length: 400 }, (_, i) => i);
    const params = { _meta: meta(), uri: server.uri('big.txt') };
    ws.connection.socket.pause();
    const sent = ws.send(
        Buffer.concat(
            ids.map((id) =>
                encodeFrame(
                    FIN | OP.text,
                    JSON.stringify({ jsonrpc: '2.0', id, method: 'resources/read', params }),
                ),
            ),
        ),
    );
    ws.connection.socket.resume();
    for (const id of ids) {
        const answer = await ws.message((m) => m.id === id, `answer ${id}`);
        assert.equal(answer.result.contents[0].text.length, 100_000);
    }
    await sent;
    ws.close();
});

test('large answers arrive complete in one frame each', async (t) => {
    const server = await serve(t, {
        files: { 'small.txt': 'x'.repeat(100), 'middle.txt': 'y'.repeat(5000), 'big.txt': 'z'.repeat(3_000_000) },
    });
    const ws = await WebSocketRaw.open(server);
    for (const [name, length] of [['small.txt', 100], ['middle.txt', 5000], ['big.txt', 3_000_000]]) {
        const answer = await ws.modern('resources/read', { uri: server.uri(name) });
        assert.equal(answer.result.contents[0].text.length, length);
    }
    assert.ok(ws.frames.seen.every((frame) => frame.fin === 1));
    ws.close();
});

test('profile lumenize: envelopes are opened, answered and sent', async (t) => {
    const server = await serve(t, { files: { ...files, 'big.txt': 'x'.repeat(10_000) }, args: ['--profile', 'lumenize'] });
    const ws = await WebSocketRaw.open(server);
    const wrapped = (payload) => ws.write({ type: 'mcp', payload });
    const ask = (id, method, params = {}) => ({
        jsonrpc: '2.0',
        id,
        method,
        params: { _meta: meta(), ...params },
    });
    await ws.write(ask(1, 'server/discover'));
    assert.ok(await ws.message((m) => m.id === 1 && m.result, 'a plain answer'));
    await wrapped(ask(2, 'server/discover'));
    const inKind = await ws.message((m) => m.payload?.id === 2, 'an answer in an envelope');
    assert.deepEqual(Object.keys(inKind), ['type', 'payload']);
    assert.equal(inKind.type, 'mcp');
    assert.ok(inKind.payload.result);
    await wrapped(ask(3, 'resources/read', { uri: server.uri('big.txt') }));
    const big = await ws.message((m) => m.payload?.id === 3, 'a large answer in an envelope');
    assert.equal(big.payload.result.contents[0].text.length, 10_000);

    const uri = server.uri('a.txt');
    await ws.write(ask(4, 'subscriptions/listen', { notifications: { resourceSubscriptions: [uri] } }));
    const isAck = (m) => m.payload?.method === 'notifications/subscriptions/acknowledged';
    assert.equal((await ws.message(isAck, 'an acknowledgement in an envelope')).type, 'mcp');
    server.tree.replace('a.txt', 'new');
    const update = await ws.message((m) => m.payload && updates(uri)(m.payload), 'an update');
    assert.equal(update.type, 'mcp');
    await ws.write(ask(5, 'server/discover'));
    assert.ok(await ws.message((m) => m.id === 5 && m.result, 'a plain answer to a plain request'));
    ws.close();
});

test('envelope without a profile is rejected', async (t) => {
    const server = await serve(t, { files });
    const ws = await WebSocketRaw.open(server);
    const payload = { jsonrpc: '2.0', id: 1, method: 'server/discover', params: { _meta: meta() } };
    await ws.write({ type: 'mcp', payload });
    assert.equal((await ws.message()).error.code, -32600);
    ws.close();
});

// ---- third-party clients --------------------------------------------------------------------------

/** The SDK client subscribes over its WebSocket transport and receives a change. */
async function sdkSubscribes(t, server) {
    const client = new Client({ name: 'integration-test', version: '1' });
    const told = new Inbox('the SDK client');
    const wire = new WebSocketClientTransport(new URL(server.url.replace('http', 'ws')));
    defer(t, () => client.close());
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => told.push(n.params));
    await within(client.connect(wire), 'the client to connect');
    assert.equal(client.getServerVersion().name, 'tidings');
    const uri = server.uri('a.txt');
    await client.subscribeResource({ uri });
    server.tree.replace('a.txt', 'new');
    assert.equal((await told.next(() => true, 'an update')).uri, uri);
    assert.equal((await client.readResource({ uri })).contents[0].text, 'new');
}

test('SDK client subscribes over its WebSocket transport', async (t) => {
    await sdkSubscribes(t, await serve(t, { files }));
});

test('SDK client subscribes over wss', async (t) => {
    const certs = new Certificates(t).make('server');
    tls.setDefaultCACertificates([...tls.getCACertificates('default'), certs.text('ca.pem')]);
    await sdkSubscribes(t, await serve(t, { files, args: certs.args('server') }));
});

test("Node client connects, receives and closes cleanly", async (t) => {
    const server = await serve(t, { files });
    const ws = new WebSocket(server.url.replace('http', 'ws'), ['other', 'mcp']);
    defer(t, () => ws.close());
    const inbox = new Inbox('the WebSocket');
    ws.onmessage = (event) => inbox.push(JSON.parse(event.data));
    ws.onerror = (event) => inbox.end(String(event.error ?? event.message));
    const closed = new Promise((resolve) => {
        ws.onclose = resolve;
    });
    await within(new Promise((resolve) => (ws.onopen = resolve)), 'the connection');
    assert.equal(ws.protocol, 'mcp');
    assert.equal(ws.extensions, '');
    ws.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'server/discover', params: { _meta: meta() } }));
    assert.ok((await inbox.next((m) => m.id === 1)).result);
    ws.close(3001, 'enough');
    const event = await within(closed, 'the close');
    assert.equal(event.wasClean, true);
    assert.equal(event.code, 3001);
});

// ---- deadlines and close --------------------------------------------------------------------------

const hasty = ['--keepalive', '1s', '--stall-timeout', '5s', '--self'];

test('client that answers pings stays, a silent one is cut', async (t) => {
    const server = await serve(t, { files, args: [...hasty, '--workers', '1'] });
    const lively = await WebSocketRaw.open(server);
    const silent = await WebSocketRaw.open(server);
    await silent.listen([server.uri('a.txt')]);
    for (let i = 0; i < 3; i += 1) {
        const ping = await lively.frame(OP.ping);
        await lively.send(encodeFrame(FIN | OP.pong, ping.payload));
    }
    await within(silent.over, 'the silent one to be cut');
    assert.ok(silent.frames.seen.some((frame) => frame.opcode === OP.ping));
    assert.equal(await stats(server, 'cut'), 1);
    assert.ok((await lively.modern('server/discover')).result);
    lively.close();
});

test('stalled reader is cut, and others receive changes in time', async (t) => {
    const server = await serve(t, {
        files: { 'a.txt': 'a', 'big.txt': 'x'.repeat(1_000_000) },
        args: [...hasty, '--workers', '1'],
    });
    const stuck = await WebSocketRaw.open(server);
    defer(t, () => stuck.close());
    const other = await WebSocketRaw.open(server);
    await other.listen([server.uri('a.txt')]);
    stuck.connection.socket.pause();
    for (let i = 0; i < 16; i += 1) {
        const params = { _meta: meta(), uri: server.uri('big.txt') };
        await stuck.write({ jsonrpc: '2.0', id: i, method: 'resources/read', params });
    }
    const answering = setInterval(() => other.send(encodeFrame(FIN | OP.pong)), 200);
    defer(t, () => clearInterval(answering));
    await eventually(async () => (await stats(server, 'cut')) === 1, 'the stuck one is cut');
    server.tree.replace('a.txt', 'new');
    await other.message(updates(server.uri('a.txt')), 'the update');
    stuck.connection.socket.resume();
    await within(stuck.over, 'the end of the stuck one');
    other.close();
});

test('shutdown sends listens their result, then 1001', async (t) => {
    const server = await serve(t, { files });
    const ws = await WebSocketRaw.open(server);
    const { id } = await ws.listen([server.uri('a.txt')]);
    const stopped = server.stop('SIGTERM', 10_000);
    assert.ok((await ws.message((m) => m.id === id, 'the result of the listen')).result);
    const goodbye = await ws.goodbye();
    assert.equal(goodbye.code, 1001);
    assert.match(goodbye.reason, /going away/);
    await ws.send(closeFrame(1001));
    await within(ws.over, 'the end of the connection');
    await stopped;
});

test('shutdown ends many clients one by one and serves the remaining ones', async (t) => {
    const server = await serve(t, { files, args: ['--drain', '10m', '--workers', '1'] });
    const uri = server.uri('a.txt');
    const crowd = await Promise.all(Array.from({ length: 40 }, () => WebSocketRaw.open(server)));
    for (const ws of crowd) {
        await ws.listen([uri]);
    }
    server.child.kill('SIGTERM');
    assert.equal((await crowd[0].goodbye('the goodbye to the first')).code, 1001);
    const last = crowd.at(-1);
    server.tree.replace('a.txt', 'new');
    await last.message(updates(uri), 'an update while it stops');
    const read = await last.modern('resources/read', { uri });
    assert.equal(read.result.contents[0].text, 'new');
    server.child.kill('SIGTERM');
    for (const ws of crowd.slice(1)) {
        await ws.message((m) => m.result?.resultType === 'complete', 'the result of the rest');
        assert.equal((await ws.goodbye()).code, 1001);
        await ws.send(closeFrame(1001));
    }
    server.check(await within(server.exited, 'the server to end'));
});

test('client without a close frame does not delay shutdown', async (t) => {
    const server = await serve(t, { files });
    const ws = await WebSocketRaw.open(server);
    await ws.modern('server/discover');
    const stopped = server.stop('SIGTERM', 10_000);
    await ws.goodbye();
    await stopped;
    await within(ws.over, 'the end of the connection');
});

test('client that disconnects abruptly is freed', async (t) => {
    const server = await serve(t, { files, args: ['--self', '--workers', '1'] });
    const ends = [(ws) => ws.connection.finish(), (ws) => ws.connection.reset()];
    for (const leave of ends) {
        const ws = await WebSocketRaw.open(server);
        await ws.listen([server.uri('a.txt')]);
        assert.equal(await stats(server, 'subscriptions'), 1);
        leave(ws);
        await within(ws.over, 'the end of the connection');
        await eventually(
            async () => (await stats(server, 'subscriptions')) === 0,
            'the server has noticed',
        );
    }
});

test('WebSocket connections count like others', async (t) => {
    const server = await serve(t, { files, args: ['--max-connections', '2'] });
    const first = await WebSocketRaw.open(server);
    const second = await WebSocketRaw.open(server);
    const refused = await Connection.open(server);
    await refused.send(upgradeRequest(server.port));
    assert.equal((await refused.readHead()).status, 503);
    first.close();
    await eventually(async () => {
        const again = await Connection.open(server);
        await again.send(upgradeRequest(server.port));
        const { status } = await again.readHead();
        again.close();
        return status === 101;
    }, 'there is room again');
    second.close();
});

test('thousand subscribers receive one change once each', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '2'] });
    const uri = server.uri('a.txt');
    const all = [];
    for (let i = 0; i < 20; i += 1) {
        const some = Array.from({ length: 50 }, () => WebSocketRaw.open(server));
        all.push(...(await Promise.all(some)));
    }
    await Promise.all(all.map((ws) => ws.listen([uri])));
    server.tree.replace('a.txt', 'new');
    await Promise.all(all.map((ws) => ws.message(updates(uri), 'the update')));
    server.tree.replace('b.txt', 'new');
    await Promise.all(all.map((ws) => ws.modern('server/discover')));
    assert.ok(all.every((ws) => ws.messages.filter(updates(uri)).length === 1));
    all.forEach((ws) => ws.close());
});

