// SPDX-License-Identifier: MIT
//
// subscriptions/listen (2026-07-28), over HTTP and on a pipe.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';

import { key, listChanged, listen, meta, modern, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';
import { eventually, within } from './lib/wait.mjs';

const files = { 'a.txt': '1', 'b.txt': '1', 'dir/c.txt': '1' };
const on = (...uris) => ({ resourceSubscriptions: uris });

test('acknowledgement is sent first, at once, on an event stream', async (t) => {
    const server = await serve(t, { files });
    const { response, events, ack } = await listen(server, on(server.uri('a.txt')));
    assert.match(response.headers.get('content-type'), /^text\/event-stream/);
    assert.equal(response.headers.get('x-accel-buffering'), 'no');
    assert.equal(response.headers.has('mcp-session-id'), false);
    assert.deepEqual(ack.notifications, on(server.uri('a.txt')));
    server.tree.replace('a.txt', '2');
    const update = await events.next(
        (event) => event.json && updates(server.uri('a.txt'))(event.json),
        'an update',
    );
    assert.equal(update.id, undefined, 'modern streams have no event ids');
    assert.equal(update.event ?? 'message', 'message');
    assert.equal(events.messages[0].method, 'notifications/subscriptions/acknowledged');
});

test('server grants only requested and supported notifications', async (t) => {
    const server = await serve(t, { files });
    const cases = [
        [{}, {}],
        [{ resourcesListChanged: false }, {}],
        [{ resourcesListChanged: true }, { resourcesListChanged: true }],
        [{ toolsListChanged: true, promptsListChanged: false }, { toolsListChanged: true }],
        [{ resourceSubscriptions: [] }, {}],
        [{ somethingElse: true, resourcesListChanged: true }, { resourcesListChanged: true }],
    ];
    for (const [asked, honoured] of cases) {
        const { ack, events } = await listen(server, asked);
        assert.deepEqual(ack.notifications, honoured, JSON.stringify(asked));
        events.close();
    }
});

test('unknown URIs are omitted and explained', async (t) => {
    const server = await serve(t, { files });
    const bad = [
        'other://nowhere',
        server.uri('.git/config'),
        'not a uri',
        server.uri('../escape'),
    ];
    const { ack, events } = await listen(server, on(server.uri('a.txt'), ...bad));
    assert.deepEqual(ack.notifications, on(server.uri('a.txt')));
    const refused = JSON.stringify(ack._meta[key.refused]);
    for (const uri of bad) {
        assert.ok(refused?.includes(JSON.stringify(uri)), `${uri} is not explained in ${refused}`);
    }
    server.tree.replace('a.txt', '2');
    await events.message(updates(server.uri('a.txt')), 'an update of the honoured one');
});

test('params of a wrong type are rejected before any acknowledgement', async (t) => {
    const server = await serve(t, { files });
    const wrong = [
        undefined,
        null,
        7,
        [],
        'x',
        { resourceSubscriptions: 'x' },
        { resourceSubscriptions: [7] },
        { resourcesListChanged: 'yes' },
    ];
    for (const notifications of wrong) {
        const response = await modern(server, 'subscriptions/listen', { notifications });
        const answer = response.json ?? (await response.events.message());
        assert.equal(
            answer.error?.code,
            -32602,
            `${JSON.stringify(notifications)}: ${JSON.stringify(answer)}`,
        );
        response.events?.close();
    }
});

test('two listens each receive a copy with their own id of any type', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('a.txt');
    for (const ids of [
        [1, 2],
        ['a', 'b'],
        [5, '5'],
        [0, ''],
        [1763180000000, '1763180000000'],
    ]) {
        const listens = await Promise.all(ids.map((id) => listen(server, on(uri), { id })));
        server.tree.replace('a.txt', String(ids));
        for (const { id, events } of listens) {
            const update = await events.message(updates(uri), 'an update');
            assert.strictEqual(update.params._meta[key.subscription], id);
            assert.equal(update.params.subscribedUri, uri);
            events.close();
        }
    }
});

test('server sends only requested notifications', async (t) => {
    const server = await serve(t, { files });
    const { events: narrow } = await listen(server, on(server.uri('a.txt')));
    const { events: lists } = await listen(server, { resourcesListChanged: true });
    server.tree.write('new.txt', 'x');
    await lists.message(listChanged, 'list_changed');
    server.tree.replace('b.txt', '2');
    server.tree.replace('a.txt', '2');
    await narrow.message(updates(server.uri('a.txt')), 'an update of a.txt');
    server.tree.remove('new.txt');
    await lists.message(listChanged, 'list_changed again');
    assert.deepEqual(
        new Set(narrow.messages.slice(1).map((m) => m.params.uri)),
        new Set([server.uri('a.txt')]),
    );
    assert.ok(lists.messages.slice(1).every(listChanged), JSON.stringify(lists.messages));
});

test('list_changed carries the subscription id', async (t) => {
    const server = await serve(t, { files });
    const { id, events } = await listen(server, { resourcesListChanged: true }, { id: 'the-list' });
    server.tree.write('dir/new.txt', 'x');
    const changed = await events.message(listChanged, 'list_changed');
    assert.equal(changed.params._meta[key.subscription], id);
});

test('URI is delivered once per matching subscription of one listen', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('dir/c.txt');
    const { events } = await listen(server, on(uri, server.uri('dir/')));
    server.tree.replace('dir/c.txt', '2');
    const got = [
        await events.message(updates(uri), 'one'),
        await events.message(updates(uri), 'another'),
    ];
    assert.deepEqual(
        got.map((m) => m.params.subscribedUri).sort(),
        [server.uri('dir/'), uri].sort(),
    );
});

test('closed connection ends the listen and frees it', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '2'] });
    const idle = descriptors(server);
    for (const how of ['close', 'reset', 'finish']) {
        for (let i = 0; i < 20; i += 1) {
            const { events } = await listen(server, on(server.uri('a.txt')));
            events.connection[how]();
        }
    }
    await eventually(
        () => descriptors(server) <= idle + 16, // watch descriptors remain open for a minute
        'the descriptors of closed listens were freed',
    );
    const { events } = await listen(server, on(server.uri('a.txt')));
    server.tree.replace('a.txt', '2');
    await events.message(updates(server.uri('a.txt')), 'an update');
});

test('id is reusable after the listen ends', async (t) => {
    const server = await serve(t, { files });
    const { events } = await listen(server, on(server.uri('a.txt')), { id: 'x' });
    events.close();
    const again = await listen(server, on(server.uri('b.txt')), { id: 'x' });
    server.tree.replace('a.txt', '2');
    server.tree.replace('b.txt', '2');
    await again.events.message(updates(server.uri('b.txt')), 'an update of b.txt');
    assert.ok(!again.events.messages.some(updates(server.uri('a.txt'))));
});

for (const signal of ['SIGTERM', 'SIGINT']) {
    test(`${signal}: every listen ends with its result before the stream ends`, async (t) => {
        const server = await serve(t, { files });
        const listens = await Promise.all(
            [1, 'two'].map((id) => listen(server, on(server.uri('a.txt')), { id })),
        );
        const ended = server.stop(signal);
        for (const { id, events } of listens) {
            const last = await events.message((m) => m.id === id, 'the graceful result');
            assert.equal(last.result.resultType, 'complete');
            assert.strictEqual(last.result._meta[key.subscription], id);
            await within(events.over, 'the stream to end');
        }
        await ended;
    });
}

test('comment keeps an idle stream open', async (t) => {
    const server = await serve(t, { files, args: ['--keepalive', '1'] });
    const { events } = await listen(server, on(server.uri('a.txt')));
    await events.next((event) => 'comment' in event, 'a comment');
    await events.next((event) => 'comment' in event, 'another comment');
    assert.equal(events.messages.length, 1);
});

test('missing directory is watched', async (t) => {
    const server = await serve(t, { files });
    const { ack, events } = await listen(server, on(server.uri('later/')));
    assert.deepEqual(ack.notifications, on(server.uri('later/')));
    server.tree.write('later/x.txt', '1');
    const update = await events.message(updates(server.uri('later/x.txt')), 'an update below it');
    assert.equal(update.params.subscribedUri, server.uri('later/'));
});

// ---- on a pipe

/** Send a listen on a pipe and await its acknowledgement. */
async function pipeListen(pipe, id, notifications) {
    await pipe.write({
        jsonrpc: '2.0',
        id,
        method: 'subscriptions/listen',
        params: { _meta: meta(), notifications },
    });
    return pipe.message(
        (m) => m.params?._meta?.[key.subscription] === id,
        `the acknowledgement of ${id}`,
    );
}

test('stdio: listens are distinguished by id and cancelled by notification', async (t) => {
    const pipe = Pipe.open(t, { files });
    const ack = await pipeListen(pipe, 'first', on(pipe.uri('a.txt')));
    assert.equal(ack.method, 'notifications/subscriptions/acknowledged');
    assert.deepEqual(ack.params.notifications, on(pipe.uri('a.txt')));
    await pipeListen(pipe, 2, on(pipe.uri('a.txt'), pipe.uri('b.txt')));
    pipe.tree.replace('a.txt', '2');
    for (const id of ['first', 2]) {
        const mine = (m) =>
            updates(pipe.uri('a.txt'))(m) && m.params._meta[key.subscription] === id;
        await pipe.message(mine, `the copy of ${id}`);
    }
    await pipe.write({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: 'first' },
    });
    assert.ok((await pipe.modern('server/discover')).result, 'requests are still answered');
    const before = pipe.stdout.seen.length;
    pipe.tree.replace('a.txt', '3');
    pipe.tree.replace('b.txt', '3');
    await pipe.message(updates(pipe.uri('b.txt')), 'an update of b.txt for the other');
    const later = pipe.stdout.seen.slice(before).map((line) => JSON.parse(line));
    assert.ok(
        later.every((m) => m.params?._meta?.[key.subscription] !== 'first' && m.id !== 'first'),
        'it was cancelled',
    );
});

test('stdio: end of input ends the program immediately', async (t) => {
    const pipe = Pipe.open(t, { files });
    await pipeListen(pipe, 1, on(pipe.uri('a.txt')));
    await pipe.eof();
});

test('stdio: SIGTERM sends the listen its result', async (t) => {
    const pipe = Pipe.open(t, { files });
    await pipeListen(pipe, 9, on(pipe.uri('a.txt')));
    const ended = pipe.stop();
    const last = await pipe.message((m) => m.id === 9, 'the graceful result');
    assert.equal(last.result._meta[key.subscription], 9);
    await ended;
});

test('stdio: duplicate id is rejected', async (t) => {
    const pipe = Pipe.open(t, { files });
    await pipeListen(pipe, 1, on(pipe.uri('a.txt')));
    const params = { _meta: meta(), notifications: on(pipe.uri('b.txt')) };
    const answer = await pipe.ask('subscriptions/listen', params, 1);
    assert.equal(answer.error?.code, -32600, JSON.stringify(answer));
});

test('stdio: both eras share one pipe', async (t) => {
    const pipe = Pipe.open(t, { files });
    assert.equal((await pipe.ask('resources/list')).error.code, -32600, 'initialize first');
    assert.deepEqual((await pipe.ask('ping')).result, {});
    assert.equal((await pipe.ask('server/discover')).error.code, -32602);
    assert.ok((await pipe.modern('resources/list')).result.resultType);
    const hello = await pipe.handshake();
    assert.equal(hello.protocolVersion, '2025-11-25');
    assert.equal((await pipe.ask('resources/list')).result.resultType, undefined);
    assert.ok((await pipe.modern('resources/list')).result.resultType);
    const again = await pipe.ask('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'x', version: '1' },
    });
    assert.equal(again.error?.code, -32600, 'a second initialize');
    const claimed = await pipe.modern('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
    });
    assert.equal(claimed.error?.code, -32601);
});

function descriptors(server) {
    return readdirSync(`/proc/${server.child.pid}/fd`).length;
}
