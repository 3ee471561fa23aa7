// SPDX-License-Identifier: MIT
//
// Connected clients: tidings://self/peers and tidings://self/status for operators, and the tool end_peer. Other
// clients see none of it under any name.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { call, initialize, key, listen, meta, modern, post, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { eventually, within } from './lib/wait.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const on = (...uris) => ({ resourceSubscriptions: uris });
const read = async (who, name) => {
    const { contents } = await call(who, 'resources/read', { uri: `tidings://self/${name}` });
    return JSON.parse(contents[0].text);
};
const endPeer = async (who, args) => {
    const result = await call(who, 'tools/call', { name: 'end_peer', arguments: args });
    assert.ok(!result.isError, JSON.stringify(result));
    return result.structuredContent.ended;
};

test('peers lists transport, era, client, address, start time and position of each client', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self'] });
    const a = server.uri('a.txt');
    const session = await Session.open(server);
    await session.subscribe(a);
    const bare = (await read(server, 'peers')).find((row) => row.session);
    assert.equal(bare.transport, 'none');
    assert.match(bare.address, /^127\.0\.0\.1:\d+$/); // the source of its last connection
    await session.stream();
    await listen(server, on(a));
    const ws = await WebSocketRaw.open(server);
    await ws.modern('resources/list');
    const rows = await read(server, 'peers');
    assert.equal(rows.length, 3, JSON.stringify(rows));
    const by = (transport, era) => rows.find((row) => row.transport === transport && row.era === era);
    const legacy = by('sse', 'legacy');
    const fresh = by('sse', 'modern');
    const socket = rows.find((row) => row.listens === 0);
    assert.deepEqual(legacy.client, { name: 'test', version: '1' });
    assert.deepEqual(fresh.client, { name: 'integration-test', version: '1' });
    assert.deepEqual(socket.client, { name: 'integration-test', version: '1' });
    for (const row of rows) {
        assert.equal(row.listener, 'http');
        assert.equal(row.by, 'anonymous');
        assert.match(row.address, /^127\.0\.0\.1:\d+$/);
        assert.ok(Math.abs(row.sinceMs - Date.now()) < 60_000, `${row.sinceMs}`);
        assert.deepEqual([row.waiting, row.held, row.lagMs], [0, 0, 0]);
        assert.equal(typeof row.peer, 'string');
    }
    for (const row of rows) { // a request with its head, and only a few rows
        assert.ok(row.bytesOut > 0 && row.bytesIn > 100 && row.bytesIn < 10_000, JSON.stringify(row));
    }
    assert.match(legacy.session, /^[0-9a-f]{8}$/);
    assert.equal(fresh.session, undefined);
    const told = await read(server, 'subscriptions');
    assert.deepEqual(new Set(told.map((row) => row.peer)), new Set([legacy.peer, fresh.peer]));
});

test('status is one object with totals, current counts and readiness', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self', '--window', '0'] });
    const a = server.uri('a.txt');
    const { events } = await listen(server, on(a));
    server.tree.replace('a.txt', '2');
    await events.message((m) => m.method === 'notifications/resources/updated', 'an update');
    const status = await read(server, 'status');
    assert.deepEqual([status.ready, status.reasons, status.draining], [true, [], false]);
    assert.ok(status.changes >= 1 && status.deliveries >= 1, JSON.stringify(status));
    assert.deepEqual([status.streams, status.subscriptions, status.subscribers], [1, 1, 1]);
    assert.deepEqual([status.sessions, status.waiting, status.behind], [0, 0, 0]);
    assert.ok(status.bytesIn > 0 && status.bytesOut > 0 && status.memoryBytes > 1 << 20 && status.descriptors > 3);
    assert.ok(status.startedMs <= status.nowMs && status.uptimeMs >= 0);
    assert.deepEqual(Object.keys(status.lagMs), ['now', 'p50', 'p99', 'max', 'written']);
    assert.ok(status.lagMs.max > 0 && status.lagMs.max < 60_000, JSON.stringify(status.lagMs));
    assert.deepEqual(status.store, { kind: 'none', ok: true });
});

test('end_peer ends a session, a listen and a connection, singly or by principal', async (t) => {
    const tokens = new TokenFile(t);
    const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
    const rules = [
        { principal: 'ada', uri: 'file:///**', allow: ['list', 'read', 'subscribe'] },
        { principal: 'bob', allow: ['list', 'read', 'subscribe', 'write'] },
    ];
    const args = [...tokens.args, '--self', ...rules.flatMap((rule) => ['--access', JSON.stringify(rule)])];
    const server = await serve(t, { files: { 'a.txt': '1' }, args });
    const [asAda, asBob] = [as(server, ada), as(server, bob)];
    const a = server.uri('a.txt');
    const { events } = await listen(asAda, on(a));
    const session = await Session.open(asAda);
    const stream = await session.stream();
    const rows = await read(asBob, 'peers');
    assert.deepEqual(rows.map((row) => row.principal), ['ada', 'ada']);
    const fresh = rows.find((row) => row.era === 'modern');
    assert.equal(await endPeer(asBob, { peer: fresh.peer, reason: 'a test' }), 1);
    await within(events.message((m) => m.result, 'the result of the listen'), 'its end');
    assert.equal(await endPeer(asBob, { peer: fresh.peer }), 0);
    await listen(asAda, on(a)); // ada may reconnect
    assert.equal(await endPeer(asBob, { principal: 'ada' }), 2);
    await within(stream.over, 'the end of the stream');
    assert.equal((await session.send('ping')).status, 404);
    assert.deepEqual(await read(asBob, 'peers'), []);
    const said = await server.lines.next((line) => line.includes('ending peers'), 'a line of the log');
    assert.match(said, /by=bob reason="a test"/);
    const wrong = await call(asBob, 'tools/call', { name: 'end_peer', arguments: { peer: '1', principal: 'ada' } });
    assert.ok(wrong.isError);
});

test('unauthorized client sees no peers, no status and no tool, even in completions', async (t) => {
    const tokens = new TokenFile(t);
    const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
    const see = ['list', 'read', 'subscribe'];
    const rules = [
        { principal: 'ada', uri: 'file:///**', allow: [...see, 'write'] },
        { principal: 'bob', uri: 'tidings://self/**', allow: see },
    ];
    const args = [...tokens.args, '--self', ...rules.flatMap((rule) => ['--access', JSON.stringify(rule)])];
    const server = await serve(t, { files: { 'a.txt': '1' }, args });
    for (const name of ['peers', 'status']) {
        const [denied, absent] = await Promise.all(
            [name, 'nothing'].map((each) => modern(as(server, ada), 'resources/read', { uri: `tidings://self/${each}` }, { id: 1 })),
        );
        assert.equal(denied.status, absent.status);
        assert.equal(denied.text.replaceAll(name, 'nothing'), absent.text);
        await read(as(server, bob), name);
    }
    // bob may read the status but end no peer.
    for (const who of [as(server, ada), as(server, bob)]) {
        const { tools } = await call(who, 'tools/list');
        assert.ok(tools.length > 0 && !tools.some((tool) => tool.name === 'end_peer'));
        for (const name of ['end_peer', 'end_peers']) {
            const answer = await modern(who, 'tools/call', { name, arguments: { peer: '1' } });
            assert.equal(answer.json.error.message, `unknown tool '${name}'`);
        }
    }
});

test('end_peer without rules is limited to local clients', async (t) => {
    const server = await serve(t, { files: {}, args: ['--self'] });
    assert.ok((await call(server, 'tools/list')).tools.some((tool) => tool.name === 'end_peer'));
    const none = await serve(t, { files: {}, args: [] });
    assert.equal((await modern(none, 'tools/call', { name: 'end_peer', arguments: { peer: '1' } })).json.error.code, -32602);
});

test('client name cannot move a cursor, be long or contain a secret', async (t) => {
    const tokens = new TokenFile(t);
    const token = tokens.give('ada');
    const server = await serve(t, { files: { 'a.txt': '1' }, args: [...tokens.args, '--self'] });
    const who = as(server, token);
    const name = `\u001b[2J\u202eevil\u0000\n<script>${'é'.repeat(1 << 19)}`;
    const hello = initialize();
    hello.params.clientInfo = { name, version: 'x'.repeat(100_000) };
    const opened = await post(who, hello);
    const id = opened.headers.get('mcp-session-id');
    await listen(who, { resourceSubscriptions: [server.uri('a.txt')] }, { params: { _meta: meta({ [key.client]: { name: 7, version: [] } }) } });
    const failed = await post(who, { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: 'file:///no\u001b' } }, { 'Mcp-Session-Id': id });
    assert.ok(failed.json.error);
    const { contents } = await call(who, 'resources/read', { uri: 'tidings://self/peers' });
    const text = contents[0].text;
    assert.ok(!text.includes(id) && !text.includes(token), text);
    const rows = JSON.parse(text);
    const evil = rows.find((row) => row.session);
    assert.ok(Buffer.byteLength(evil.client.name) <= 128, evil.client.name);
    assert.match(evil.client.name, /^\?\[2J\?evil\?\?<script>é+$/);
    assert.equal(evil.client.version, 'x'.repeat(64));
    assert.ok(evil.lastError.length > 0 && !/[\x00-\x1f]/.test(evil.lastError), evil.lastError);
    assert.equal(evil.lastErrorCode, failed.json.error.code);
    assert.ok(Math.abs(evil.lastErrorMs - Date.now()) < 60_000);
    assert.equal(rows.find((row) => !row.session).client, undefined);
});

test('slow peer is listed with its backlog and lag, and ending it frees it at once', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self', '--window', '0', '--stall-timeout', '1h'] });
    const uri = server.uri('a.txt');
    const options = { params: { _meta: meta({ 'dev.tidings/options': { include: 'value' } }) } };
    const { events: stalled } = await listen(server, { resourceSubscriptions: [uri] }, options);
    const { events: reader } = await listen(server, { resourceSubscriptions: [uri] });
    defer(t, () => stalled.connection.socket.destroy());
    stalled.connection.socket.pause();
    let rows = [];
    const isBehind = async () => {
        server.tree.replace('a.txt', `${Math.random()}${'x'.repeat(60_000)}`);
        await reader.message((m) => m.method === 'notifications/resources/updated', 'an update');
        rows = await read(server, 'peers');
        return rows.some((row) => row.unsentBytes > 0 && row.waiting > 0 && row.lagMs > 0);
    };
    await eventually(isBehind, 'one is behind');
    const slow = rows.find((row) => row.lagMs > 0);
    assert.deepEqual(rows.filter((row) => row.peer !== slow.peer).map((row) => row.waiting), [0]);
    const status = await read(server, 'status');
    assert.equal(status.behind, 1);
    assert.ok(status.waiting >= 1 && status.lagMs.now > 0, JSON.stringify(status));
    assert.equal(await endPeer(server, { peer: slow.peer }), 1);
    const after = await read(server, 'peers');
    assert.equal(after.length, 1, JSON.stringify(after));
    assert.deepEqual([(await read(server, 'status')).waiting, (await read(server, 'status')).behind], [0, 0]);
});

/** A client that stops reading, until the kernel buffers all its data. */
async function standStill(t, server) {
    const uri = server.uri('a.txt');
    const options = { params: { _meta: meta({ 'dev.tidings/options': { include: 'value' } }) } };
    const { events } = await listen(server, on(uri), options);
    const { events: reader } = await listen(server, on(uri));
    const { socket } = events.connection;
    defer(t, () => socket.destroy());
    socket.pause();
    const port = socket.localPort;
    let row;
    await eventually(async () => {
        server.tree.replace('a.txt', `${Math.random()}${'x'.repeat(8000)}`);
        await reader.message((m) => m.method === 'notifications/resources/updated', 'an update');
        row = (await read(server, 'peers')).find((one) => one.address.endsWith(`:${port}`));
        return row.unsentBytes > 0 && row.lagMs > 0;
    }, 'the kernel holds what it does not read');
    return { row, port };
}

test('stalled reader is listed while the kernel still buffers, also in the sandbox', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self', '--window', '0', '--stall-timeout', '1h'] });
    const { seccomp, withoutSeccomp } = await read(server, 'sandbox');
    assert.ok(seccomp || withoutSeccomp === 'built with a sanitizer', withoutSeccomp);
    const { row, port } = await standStill(t, server);
    assert.equal(row.waiting, 0, JSON.stringify(row));
    const own = async () => (await read(server, 'peers')).find((one) => one.address.endsWith(`:${port}`));
    await eventually(async () => (await own()).lagMs > row.lagMs, 'its lag grows');
    const status = await read(server, 'status');
    assert.deepEqual([status.waiting, status.behind], [0, 0]);
    assert.ok(status.lagMs.now >= row.lagMs, JSON.stringify(status.lagMs));
    const others = (await read(server, 'peers')).filter((one) => !one.address.endsWith(`:${port}`));
    assert.deepEqual(others.map((one) => [one.unsentBytes, one.lagMs]), others.map(() => [0, 0]));
});

test('connection cut by the kernel is logged with address, lag and cause', async (t) => {
    const tokens = new TokenFile(t);
    const ada = tokens.give('ada');
    const server = await serve(t, { files: { 'a.txt': '1' }, args: [...tokens.args, '--self', '--window', '0', '--stall-timeout', '1s'] });
    const { port } = await standStill(t, as(server, ada));
    const cut = await server.lines.next((line) => line.includes('slow reader cut'), 'the warning', 30_000);
    assert.match(cut, new RegExp(`warn delivery: slow reader cut .*lag_ms=\\d{3,} principal=ada by=token address=127\\.0\\.0\\.1:${port}`));
    const ended = await server.lines.next((line) => line.includes('listening ended') && line.includes(`:${port}`), 'its end');
    assert.match(ended, /reason="stalled: the client does not read"/);
});

test('recipients of a change are queried by its URI', async (t) => {
    const tokens = new TokenFile(t);
    const given = { ada: tokens.give('ada'), root: tokens.give('root') };
    const everything = { principal: 'root', allow: ['list', 'read', 'subscribe', 'write'] };
    const some = { principal: 'ada', uri: 'app:///open/**', allow: ['list', 'read', 'subscribe'] };
    const server = await serve(t, {
        files: {},
        args: [...tokens.args, '--self', '--publish', 'app:///', '--allow-write', '--access', JSON.stringify(everything), '--access', JSON.stringify(some)],
    });
    const root = as(server, given.root), ada = as(server, given.ada);
    for (const uri of ['app:///open/a', 'app:///hidden/a']) {
        await call(root, 'tools/call', { name: 'publish', arguments: { uri, text: '1' } });
    }
    const regex = { params: { _meta: meta({ 'dev.tidings/options': { match: 'regex' } }) } };
    const open = [await listen(root, on('app:///open/a', 'app:///*/a')), await listen(root, on('open/[a-z]$'), regex), await listen(ada, on('app:///**'))];
    defer(t, () => open.forEach((one) => one.events.close()));
    const covering = async (uri) => (await read(root, `subscriptions?covers=${encodeURIComponent(uri)}`))
        .map((row) => [row.principal, row.subscribedUri, row.regex ?? false]).sort();
    assert.deepEqual(await covering('app:///open/a'), [
        ['ada', 'app:///**', false], ['root', 'app:///*/a', false], ['root', 'app:///open/a', false], ['root', 'open/[a-z]$', true]]);
    assert.deepEqual(await covering('app:///hidden/a'), [['root', 'app:///*/a', false]], 'ada may not hear of it');
    const refused = await modern(root, 'resources/read', { uri: 'tidings://self/subscriptions?covers=%00' });
    assert.ok(refused.json.error, refused.text);
    assert.ok((await modern(ada, 'resources/read', { uri: 'tidings://self/subscriptions?covers=app:///open/a' })).json.error, 'she sees nothing of it');
});
