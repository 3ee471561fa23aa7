// SPDX-License-Identifier: MIT
//
// Legacy sessions over HTTP: ids, lifetime, streams, and resuming after a disconnect.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Connection, encodeRequest, request } from './lib/http.mjs';
import { watched } from './lib/proc.mjs';
import { initialize, key, LEGACY, listChanged, post, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually, within } from './lib/wait.mjs';

const files = { 'a.txt': '1', 'b.txt': '1', 'c.txt': '1' };
const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };

/** A session subscribed to all files, and the server. */
async function start(t, options = {}) {
    const server = await serve(t, { files, ...options });
    const session = await Session.open(server, options.version);
    for (const name of Object.keys(files)) {
        await session.subscribe(server.uri(name));
    }
    return { server, session, tree: server.tree, uri: server.uri };
}

/** Change a file once (one rename) and await its update on `events`. Returns the event with its id. */
async function changed(tree, events, name, content = 'x') {
    tree.replace(name, content);
    const match = (event) => event.json && updates(tree.uri(name))(event.json);
    return events.next(match, `an update of ${name}`);
}

test('session ids are visible ASCII, long and unique', async (t) => {
    const server = await serve(t, { files });
    const ids = new Set();
    for (let i = 0; i < 50; i += 1) {
        const response = await post(server, initialize());
        const id = response.headers.get('mcp-session-id');
        assert.match(id, /^[\x21-\x7e]{22,}$/);
        ids.add(id);
    }
    assert.equal(ids.size, 50);
});

test('request without a session id returns 400', async (t) => {
    const server = await serve(t, { files });
    const response = await post(server, ping, { 'MCP-Protocol-Version': '2025-11-25' });
    assert.equal(response.status, 400, response.text);
    const notification = await post(server, {
        jsonrpc: '2.0',
        method: 'notifications/initialized',
    });
    assert.equal(notification.status, 400, notification.text);
    for (const method of ['GET', 'DELETE']) {
        const other = await request(server, { method, headers: { Accept: 'text/event-stream' } });
        assert.equal(other.status, 400, method);
    }
});

test('unknown session id returns 404', async (t) => {
    const server = await serve(t, { files });
    const { id } = await Session.open(server);
    const flipped = id.at(-1) === 'A' ? 'B' : 'A';
    for (const wrong of [
        'nonsense',
        id.slice(0, -1) + flipped,
        `${id}x`,
        id.slice(0, -1),
        'x'.repeat(500),
        '0',
    ]) {
        const headers = { 'Mcp-Session-Id': wrong, 'MCP-Protocol-Version': '2025-11-25' };
        const answer = await post(server, ping, headers);
        assert.equal(answer.status, 404, `POST with ${wrong}: ${answer.text}`);
        const stream = await request(server, {
            method: 'GET',
            headers: { Accept: 'text/event-stream', ...headers },
        });
        assert.equal(stream.status, 404, `GET with ${wrong}`);
        const end = await request(server, { method: 'DELETE', headers });
        assert.equal(end.status, 404, `DELETE with ${wrong}`);
    }
});

test('DELETE ends the session with 2xx, then 404, and closes its streams', async (t) => {
    const { session } = await start(t);
    const first = await session.stream();
    const second = await session.stream();
    const response = await session.end();
    assert.ok(response.status >= 200 && response.status < 300, `${response.status}`);
    for (const events of [first, second]) {
        await within(events.over, 'the stream to be closed after DELETE');
    }
    assert.equal((await session.send('ping')).status, 404);
    assert.equal((await session.get()).status, 404);
    assert.equal((await session.end()).status, 404);
});

for (const version of LEGACY) {
    test(`${version}: stream starts with an id and retry only for 2025-11-25`, async (t) => {
        const { session, tree } = await start(t, { version });
        const events = await session.stream();
        const update = await changed(tree, events, 'a.txt');
        const first = events.seen.find((event) => !('comment' in event));
        if (version === '2025-11-25') {
            assert.equal(first.data, '', `priming event: ${JSON.stringify(first)}`);
            assert.notEqual(first.id ?? '', '');
            assert.match(first.retry, /^\d+$/);
        } else {
            assert.equal(
                first,
                update,
                `an event before the first message: ${JSON.stringify(first)}`,
            );
            assert.ok(events.seen.every((event) => event.retry === undefined));
        }
        assert.equal(update.event ?? 'message', 'message');
    });
}

test('event streams have their headers', async (t) => {
    const { session } = await start(t);
    const { headers, events } = await session.get();
    assert.match(headers.get('content-type'), /^text\/event-stream/);
    assert.match(headers.get('cache-control'), /no-cache|no-store/);
    assert.equal(headers.get('x-accel-buffering'), 'no');
    events.close();
});

test('batches: array is answered by an array for 2025-03-26', async (t) => {
    const { session } = await start(t, { version: '2025-03-26' });
    const batch = [
        { jsonrpc: '2.0', id: 'one', method: 'ping' },
        { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 99 } },
        { jsonrpc: '2.0', id: 2, method: 'resources/list' },
        { jsonrpc: '2.0', id: 3, method: 'no/such' },
    ];
    const response = await session.post(batch);
    assert.equal(response.status, 200, response.text);
    const answers = response.json;
    assert.deepEqual(answers.map((answer) => answer.id).sort(), [2, 3, 'one']);
    assert.ok(answers.find((answer) => answer.id === 2).result.resources);
    assert.equal(answers.find((answer) => answer.id === 3).error.code, -32601);
    const silent = await session.post([
        { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
    ]);
    assert.equal(silent.status, 202, silent.text);
    const empty = await session.post([]);
    assert.equal(empty.status, 400, empty.text);
});

test('batches: later revisions reject them, and initialize is never inside one', async (t) => {
    const server = await serve(t, { files });
    for (const version of ['2025-06-18', '2025-11-25']) {
        const session = await Session.open(server, version);
        const response = await session.post([ping]);
        assert.equal(response.status, 400, version);
        assert.equal(response.json.error.code, -32600, version);
    }
    const inside = await post(server, [initialize('2025-03-26')]);
    assert.equal(inside.status, 400, inside.text);
    assert.equal(inside.headers.has('mcp-session-id'), false);
});

test('resume: missed changes are replayed without duplicates', async (t) => {
    const { session, tree, uri } = await start(t);
    const before = await session.stream();
    const { id } = await changed(tree, before, 'a.txt');
    assert.notEqual(id ?? '', '', 'events of 2025-11-25 carry ids');
    before.close();
    tree.replace('b.txt', 'x');
    tree.replace('c.txt', 'x');
    const after = await session.stream(id);
    await after.message(updates(uri('b.txt')), 'the update of b.txt');
    await after.message(updates(uri('c.txt')), 'the update of c.txt');
    await changed(tree, after, 'a.txt', 'y');
    const uris = after.messages
        .filter((m) => m.params?.uri)
        .map((m) => m.params.uri)
        .sort();
    assert.deepEqual(uris, [uri('a.txt'), uri('b.txt'), uri('c.txt')], 'each exactly once');
});

test('resume: priming event replays the complete stream', async (t) => {
    const { session, tree, uri } = await start(t);
    const before = await session.stream();
    const primed = await before.next((event) => event.data === '', 'the priming event');
    await changed(tree, before, 'a.txt');
    before.close();
    const after = await session.stream(primed.id);
    await after.message(updates(uri('a.txt')), 'the update, replayed');
});

test('resume: unknown id marks the gap and makes the client read again', async (t) => {
    const { session, tree, uri } = await start(t);
    const before = await session.stream();
    await changed(tree, before, 'a.txt');
    before.close();
    for (const id of ['nonsense', '999999-999999']) {
        const after = await session.stream(id);
        await after.message((m) => m.method === 'notifications/message', 'a word about the gap');
        for (const name of Object.keys(files)) {
            const { params } = await after.message(updates(uri(name)), `an update of ${name}`);
            assert.equal(params._meta['dev.tidings/truncated'], true, JSON.stringify(params));
        }
        after.close();
    }
});

test('resume: session never receives events of another', async (t) => {
    const { server, session, tree } = await start(t);
    const events = await session.stream();
    const { id } = await changed(tree, events, 'a.txt');
    events.close();
    tree.replace('b.txt', 'x');
    const stranger = await Session.open(server);
    await stranger.subscribe(tree.uri('c.txt'));
    const other = await stranger.stream(id);
    await changed(tree, other, 'c.txt');
    const updated = other.messages.filter((m) => m.params?.uri).map((m) => m.params.uri);
    assert.deepEqual(updated, [tree.uri('c.txt')]);
});

test('changes without an open stream wait for the next one', async (t) => {
    const { session, tree, uri } = await start(t);
    tree.replace('a.txt', 'x');
    tree.replace('b.txt', 'x');
    const events = await session.stream();
    await events.message(updates(uri('a.txt')), 'the update of a.txt');
    await events.message(updates(uri('b.txt')), 'the update of b.txt');
    await changed(tree, events, 'c.txt');
});

test('new stream replays nothing that another stream delivered', async (t) => {
    const { session, tree, uri } = await start(t);
    const first = await session.stream();
    await changed(tree, first, 'a.txt');
    const second = await session.stream();
    first.close();
    await within(first.connection.closed, 'the first stream to close');
    await eventually(async () => {
        tree.replace('c.txt', String(Date.now()));
        return second.messages.some(updates(uri('c.txt')));
    }, 'the second stream carries updates');
    assert.ok(!second.messages.some(updates(uri('a.txt'))), 'a.txt had been delivered');
});

test('each message is sent on exactly one of two open streams', async (t) => {
    const names = Array.from({ length: 20 }, (_, i) => `n${i}`);
    const server = await serve(t, { files: Object.fromEntries(names.map((name) => [name, '1'])) });
    const session = await Session.open(server);
    const streams = [await session.stream(), await session.stream()];
    for (const name of names) {
        await session.subscribe(server.uri(name));
    }
    for (const name of names) {
        server.tree.replace(name, '2');
    }
    const all = () => streams.flatMap((stream) => stream.messages);
    const missing = () => names.filter((name) => !all().some(updates(server.uri(name))));
    await eventually(() => missing().length === 0, 'every file was told');
    for (const name of names) {
        assert.equal(
            all().filter(updates(server.uri(name))).length,
            1,
            `${name} was told more than once`,
        );
    }
    const ids = streams.flatMap((stream) => stream.seen.map((event) => event.id).filter(Boolean));
    assert.equal(new Set(ids).size, ids.length, `event ids are unique in the session: ${ids}`);
});

test('idle session expires, a session with an open stream does not', async (t) => {
    const server = await serve(t, { files, args: ['--session-timeout', '1'] });
    const live = await Session.open(server);
    const events = await live.stream();
    await live.subscribe(server.uri('a.txt'));
    // Time is the subject of this test. A request keeps a session alive, so each session gets one.
    const idle = await Promise.all(
        [1500, 3000, 6000].map(async (ms) => ({ ms, session: await Session.open(server) })),
    );
    const answers = [];
    for (const { ms, session } of idle) {
        await pause(ms);
        answers.push((await session.send('ping')).status);
        if (answers.at(-1) === 404) {
            break;
        }
    }
    assert.equal(answers.at(-1), 404, `idle sessions are still there: ${answers}`);
    assert.equal((await live.send('ping')).status, 200, 'the session with a stream is gone');
    await changed(server.tree, events, 'a.txt');
});

test('version header is accepted if absent or supported, rejected if unknown', async (t) => {
    const { session } = await start(t);
    const without = await session.send('ping', undefined, {
        headers: { 'MCP-Protocol-Version': null },
    });
    assert.equal(without.status, 200, 'absent: the session knows its version');
    const other = await session.send('ping', undefined, {
        headers: { 'MCP-Protocol-Version': '2025-06-18' },
    });
    assert.equal(other.status, 200, 'another known one is accepted');
    for (const bad of ['1999-01-01', 'nonsense']) {
        const response = await session.send('ping', undefined, {
            headers: { 'MCP-Protocol-Version': bad },
        });
        assert.equal(response.status, 400, bad);
        const stream = await session.get({ 'MCP-Protocol-Version': bad });
        assert.equal(stream.status, 400, `GET with ${bad}`);
    }
});

test('GET without Accept text/event-stream returns 406', async (t) => {
    const { session } = await start(t);
    assert.equal((await session.get({ Accept: 'application/json' })).status, 406);
    const any = await session.get({ Accept: '*/*' });
    assert.equal(any.status, 200);
    any.events.close();
});

test('session is served on any connection with four workers', async (t) => {
    const { server, session, tree } = await start(t, { args: ['--workers', '4'] });
    const events = await session.stream();
    const calls = Array.from({ length: 64 }, () =>
        session.send('resources/read', { uri: tree.uri('a.txt') }),
    );
    for (const response of await Promise.all(calls)) {
        assert.equal(response.status, 200, response.text);
        assert.equal(response.json.result.contents[0].text, '1');
    }
    // one connection, used in turn by sessions of different workers
    const others = await Promise.all(Array.from({ length: 8 }, () => Session.open(server)));
    const connection = await Connection.open(server);
    for (let round = 0; round < 3; round += 1) {
        for (const other of others) {
            const headers = { 'Content-Type': 'application/json', Accept: '*/*', ...other.headers };
            const response = await connection.request({ headers, body: JSON.stringify(ping) });
            assert.equal(response.status, 200, response.text);
        }
    }
    connection.close();
    await changed(tree, events, 'b.txt');
});

test('requests of two sessions pipelined on one connection are answered in order', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '4'] });
    const sessions = await Promise.all(Array.from({ length: 6 }, () => Session.open(server)));
    const connection = await Connection.open(server);
    const bytes = sessions.map((session, i) =>
        encodeRequest(server.port, {
            headers: { 'Content-Type': 'application/json', Accept: '*/*', ...session.headers },
            body: JSON.stringify({ ...ping, id: i }),
        }),
    );
    await connection.send(Buffer.concat(bytes));
    for (let i = 0; i < sessions.length; i += 1) {
        const response = await connection.readResponse();
        assert.equal(response.status, 200, response.text);
        assert.equal(response.json.id, i);
    }
    connection.close();
});

test('list_changed reaches a session without subscriptions', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const events = await session.stream();
    await session.call('resources/list');
    server.tree.write('new.txt', 'x');
    await events.message(listChanged, 'list_changed');
});

test('two matching subscriptions cause one notification each', async (t) => {
    const server = await serve(t, { files: { 'dir/a.txt': '1' } });
    const session = await Session.open(server);
    const events = await session.stream();
    await session.subscribe(server.uri('dir/'));
    await session.subscribe(server.uri('dir/a.txt'));
    server.tree.replace('dir/a.txt', '2');
    const subscribed = new Set();
    for (let i = 0; i < 2; i += 1) {
        const update = await events.message(
            updates(server.uri('dir/a.txt')),
            'an update per subscription',
        );
        assert.equal(update.params.subscribedUri, update.params._meta[key.subscribed]);
        subscribed.add(update.params.subscribedUri);
    }
    assert.deepEqual([...subscribed].sort(), [server.uri('dir/'), server.uri('dir/a.txt')]);
});

test('repeated subscribe has no effect; unsubscribe without a subscription succeeds', async (t) => {
    const { session, tree, uri } = await start(t);
    const events = await session.stream();
    assert.deepEqual(await session.subscribe(uri('a.txt')), {});
    await changed(tree, events, 'a.txt');
    await changed(tree, events, 'b.txt');
    assert.equal(events.messages.filter(updates(uri('a.txt'))).length, 1);
    assert.deepEqual(
        await session.call('resources/unsubscribe', { uri: uri('never-subscribed') }),
        {},
    );
});

test('subscribe to an impossible resource returns -32002', async (t) => {
    const { session, uri } = await start(t);
    const missing = await session.send('resources/subscribe', { uri: 'other://nowhere' });
    assert.equal(missing.json.error?.code, -32002, missing.text);
    assert.equal(missing.json.error.data.uri, 'other://nowhere');
    const file = await session.send('resources/subscribe', { uri: uri('.git/missing.txt') });
    assert.equal(file.json.error?.code, -32002, file.text);
});

test('session without subscriptions runs no command, and watches only during a stream', async (t) => {
    const tree = new Tree(t, { 'docs/one/a.txt': '1', 'docs/two/b.txt': '2' });
    const command = {
        type: 'command', uri: 'cmd:///it', argv: ['sh', '-c', 'echo x >>runs'],
        cwd: tree.path, interval: '100ms',
    };
    tree.write('tidings.json', JSON.stringify({ mounts: [{ path: tree.at('docs') }, command] }));
    const args = ['--config', tree.at('tidings.json'), '--system'];
    const server = await serve(t, { tree, mounts: [], args });
    const session = await Session.open(server);
    const { resources } = await session.call('resources/list');
    assert.ok(resources.length >= 3);
    assert.equal(watched(server), 0);
    const events = await session.stream();
    await events.message(listChanged); // the session listed before the first watch
    tree.write('docs/two/c.txt', '3');
    await events.message(listChanged);
    assert.ok(watched(server) >= 3);
    assert.ok(!existsSync(tree.at('runs')), 'the command was run');
    events.close();
    await session.end();
});
