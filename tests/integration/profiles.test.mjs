// SPDX-License-Identifier: MIT
//
// Without a profile nothing of docs/reference/profiles.md applies: its column "by default", line by line. Also the
// selection of a profile. document-*.test.mjs tests each profile.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDocuments } from './lib/document.mjs';
import { request } from './lib/http.mjs';
import { initialize, post, Session, updates } from './lib/rpc.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';

const USERS = 'file://data/users.json';
const headers = { 'MCP-Protocol-Version': '2025-11-25' };

/** A session of examples/documents without a profile. */
async function start(t, args = []) {
    const server = await serveDocuments(t, 'none', ['--window', '0', ...args]);
    return { server, session: await Session.open(server) };
}

test('subscribe and unsubscribe return only a cursor', async (t) => {
    const { session } = await start(t);
    const { _meta: extra, ...result } = await session.subscribe(USERS);
    assert.deepEqual(result, {});
    assert.deepEqual(Object.keys(extra), ['dev.tidings/cursor']);
    for (let i = 0; i < 2; i += 1) {
        assert.deepEqual(await session.call('resources/unsubscribe', { uri: USERS }), {});
    }
});

test('errors have the codes and data of the protocol', async (t) => {
    const { session } = await start(t);
    const refused = async (method, uri) => (await session.send(method, { uri })).json.error;
    for (const method of ['resources/read', 'resources/subscribe']) {
        const missing = await refused(method, 'file://unknown.txt');
        assert.equal(missing.code, -32002);
        assert.equal(missing.data.uri, 'file://unknown.txt');
        assert.equal(missing.data.detail, undefined);
        assert.equal((await refused(method, 'invalid://uri')).code, -32002);
        assert.equal((await refused(method, 'no uri')).code, -32602);
    }
});

test('initialize is the only way to open a session; requests without a session return 400', async (t) => {
    const { server } = await start(t);
    const message = { jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: USERS } };
    const response = await post(server, message, headers);
    assert.deepEqual([response.status, response.json.error.code], [400, -32001]);
    assert.equal(response.headers.get('mcp-session-id'), undefined);
    const gone = await post(server, message, { ...headers, 'Mcp-Session-Id': 'none' });
    assert.deepEqual([gone.status, gone.json.error.code], [404, -32001]);
});

test('session answers do not repeat the session id', async (t) => {
    const { session } = await start(t);
    assert.equal((await session.send('ping')).headers.get('mcp-session-id'), undefined);
});

test('pipes require initialize and support subscriptions', async (t) => {
    const pipe = Pipe.open(t, { files: { 'a.txt': 'a' } });
    const uri = pipe.uri('a.txt');
    assert.equal((await pipe.ask('resources/subscribe', { uri })).error.code, -32600);
    await pipe.handshake();
    assert.ok((await pipe.ask('resources/subscribe', { uri })).result);
});

test('updates have their name, both URIs and other data in _meta', async (t) => {
    const { server, session } = await start(t);
    await session.subscribe(USERS);
    const events = await session.stream();
    await server.changed(USERS, { n: 1 });
    const { method, params } = await events.message();
    assert.equal(method, 'notifications/resources/updated');
    assert.deepEqual(Object.keys(params), ['uri', 'subscribedUri', '_meta']);
    assert.equal(params._meta['dev.tidings/metadata'].n, 1);
});

test('streams of 2025-11-25 start with an id', async (t) => {
    const { session } = await start(t);
    const events = await session.stream();
    const first = await events.next((item) => item.id, 'the priming event');
    assert.deepEqual([first.data, typeof first.retry], ['', 'string']);
});

test('truncated update is sent to each subscription with its URI', async (t) => {
    const { server, session } = await start(t);
    await session.subscribe(USERS);
    await session.subscribe('system://metrics');
    const events = await session.stream();
    await server.changed();
    for (const uri of [USERS, 'system://metrics']) {
        const { params } = await events.message(updates(uri));
        assert.equal(params._meta['dev.tidings/truncated'], true);
    }
});

test('brackets always make a glob', async (t) => {
    const { server, session } = await start(t);
    await session.subscribe('file://logs/app-[0-9]+.log');
    await session.subscribe(USERS);
    const events = await session.stream();
    await server.changed('file://logs/app-12.log');
    await server.changed('file://logs/app-1+.log');
    await server.changed(USERS);
    await events.message(updates(USERS));
    const uris = events.messages.filter((m) => m.params?.uri).map((m) => m.params.uri);
    assert.deepEqual(uris, ['file://logs/app-1+.log', USERS]);
});

test('draft is not a revision, and profile paths do not exist', async (t) => {
    const { server } = await start(t);
    const { json } = await post(server, initialize('DRAFT-2025-v2'));
    assert.equal(json.result.protocolVersion, '2025-11-25');
    for (const path of ['/events', '/sse', '/messages']) {
        assert.equal((await request(server, { method: 'GET', path })).status, 404, path);
    }
});

test('disabled subscriptions are absent from capabilities and methods', async (t) => {
    const { session } = await start(t, ['--no-subscribe']);
    assert.equal(session.result.capabilities.resources.subscribe, false);
    const { json } = await session.send('resources/subscribe', { uri: USERS });
    assert.equal(json.error.code, -32601);
});

for (const profile of ['none', 'gateway', 'erlmcp', 'lumenize']) {
    test(`tidings client supports profile ${profile}`, async (t) => {
        const args = ['--protocol-max', '2025-11-25', '--rate', '0', '--window', '0'];
        const server = await serveDocuments(t, profile, args);
        const watch = new Program(t, BIN, ['watch', '--json', server.url, USERS]);
        const output = watch.output();
        const lines = (line) => line.startsWith('{') && JSON.parse(line);
        await watch.lines.next((line) => line.includes(`watching ${USERS}`), 'the subscription');
        await server.changed(USERS);
        const line = JSON.parse(await output.next(lines, 'the change'));
        assert.equal(line.uri, USERS);
        const missing = await run(t, ['watch', server.url, 'file://data/none.json']);
        assert.notEqual(missing.code, 0);
        await watch.stop();
    });
}

test('profile is set by flag, variable or file, printed, and validated', async (t) => {
    const shown = await run(t, ['config', '--print', '--profile', 'erlmcp', '--no-config', '.']);
    assert.match(shown.stdout, /"profile": "erlmcp"/);
    const wrong = await run(t, ['serve', '--profile', 'gatway', '.']);
    assert.notEqual(wrong.code, 0);
    assert.match(wrong.stderr, /gatway.*none, gateway, erlmcp, lumenize/s);
    const server = await serve(t, { files: { 'a.txt': 'a' }, env: { TIDINGS_PROFILE: 'gateway' } });
    const message = { jsonrpc: '2.0', id: 1, method: 'ping' };
    assert.ok((await post(server, message, headers)).headers.get('mcp-session-id'));
});
