// SPDX-License-Identifier: MIT
//
// A client queries its own subscriptions by method, tool and resource, in both eras. It sees no subscriptions of
// others, and an indistinguishable client sees none at all.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { holds } from './lib/schemas.mjs';
import { call, listen, meta, modern, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const METHOD = 'dev.tidings/subscriptions/list';
const MINE = 'tidings://self/subscriptions/mine';
const files = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [`${name}.txt`, name]));
const uris = (list) => list.subscriptions.map((row) => row.uri).sort();

/** The three queries, through `ask(method, params)`, which returns a result. */
const ways = {
    method: (ask, cursor) => ask(METHOD, { ...(cursor && { cursor }) }),
    resource: async (ask, cursor) =>
        JSON.parse((await ask('resources/read', { uri: cursor ? `${MINE}?after=${cursor}` : MINE })).contents[0].text),
    tool: async (ask, cursor) => {
        const given = { name: 'my_subscriptions', arguments: { ...(cursor && { cursor }) } };
        const { isError, content, structuredContent } = await ask('tools/call', given);
        assert.ok(!isError, content?.[0].text);
        return structuredContent;
    },
};
const start = (t, args = []) => serve(t, { files, args: ['--change-tools', 'on', '--workers', '4', ...args] });

test('session lists only its own subscriptions, with options', async (t) => {
    const server = await start(t);
    const [one, other] = [await Session.open(server), await Session.open(server)];
    const filter = { properties: { uri: { type: 'string' } } };
    const options = { windowMs: 50, include: 'value', origin: 'me', echo: false, filter, order: 'strict', detail: 'slim' };
    await one.call('resources/subscribe', { uri: server.tree.uri('a.txt'), _meta: { 'dev.tidings/options': options } });
    await one.subscribe(server.tree.uri('*.txt'));
    await other.subscribe(server.tree.uri('b.txt'));
    for (const [name, ask] of Object.entries(ways)) {
        const mine = await ask((...given) => one.call(...given));
        holds('subscriptions', Object.fromEntries(Object.entries(mine).filter(([key]) => key !== '_meta')));
        assert.deepEqual(uris(mine), [server.tree.uri('*.txt'), server.tree.uri('a.txt')], name);
        assert.equal(mine.nextCursor, undefined);
        const row = mine.subscriptions.find((r) => r.uri === server.tree.uri('a.txt'));
        assert.deepEqual(row.options, {
            match: 'literal', include: 'value', order: 'strict', periodMs: 50, gatherMs: 0, bookmarks: false, detail: 'slim',
            origin: 'me', echo: false, filter,
        });
        assert.deepEqual([row.state, row.stream, row.truncated, row.waiting], ['active', 'none', false, 0]);
        assert.match(row.cursor, /^[0-9a-f]+\.\d+/);
        assert.equal(mine.subscriptions.find((r) => r !== row).options.match, 'glob');
        assert.deepEqual(uris(await ask((...given) => other.call(...given))), [server.tree.uri('b.txt')], name);
    }
});

test('message connection lists its own subscriptions in both eras', async (t) => {
    const server = await start(t);
    const sockets = [await WebSocketRaw.open(server), await WebSocketRaw.open(server)];
    const result = async (ws, method, params) => (await ws.modern(method, params)).result;
    for (const ask of Object.values(ways)) {
        assert.deepEqual((await ask((...given) => result(sockets[0], ...given))).subscriptions, []);
    }
    const id = 'the listen';
    await sockets[0].write({
        jsonrpc: '2.0', id, method: 'subscriptions/listen',
        params: { _meta: meta(), notifications: { resourceSubscriptions: [server.tree.uri('a.txt')] } },
    });
    await sockets[0].message((m) => m.method === 'notifications/subscriptions/acknowledged', 'the acknowledgement');
    for (const ask of Object.values(ways)) {
        const [row, ...more] = (await ask((...given) => result(sockets[0], ...given))).subscriptions;
        assert.deepEqual([row.uri, row.subscriptionId, row.state, row.stream], [server.tree.uri('a.txt'), id, 'active', 'websocket']);
        assert.deepEqual(more, []);
        assert.deepEqual((await ask((...given) => result(sockets[1], ...given))).subscriptions, []);
    }
    await sockets[1].handshake();
    await sockets[1].ask('resources/subscribe', { uri: server.tree.uri('b.txt') });
    for (const ask of Object.values(ways)) {
        const legacy = await ask(async (...given) => (await sockets[1].ask(...given)).result);
        assert.deepEqual(uris(legacy), [server.tree.uri('b.txt')]);
    }
    sockets.forEach((ws) => ws.close());
});

test('anonymous client sees no other anonymous subscriptions, and gets the reason', async (t) => {
    const server = await start(t);
    const open = await listen(server, { resourceSubscriptions: [server.tree.uri('a.txt')] });
    const why = /nothing says which subscriptions are yours/;
    for (const answer of [await modern(server, METHOD), await modern(server, 'resources/read', { uri: MINE })]) {
        assert.match(answer.json.error.message, why);
        assert.ok(!answer.text.includes('a.txt'), answer.text);
    }
    const tool = await call(server, 'tools/call', { name: 'my_subscriptions', arguments: {} });
    assert.equal(tool.isError, true);
    assert.match(tool.content[0].text, why);
    const plain = await request(server, { method: 'GET', path: `/resource?uri=${encodeURIComponent(MINE)}` });
    assert.equal(plain.status, 403);
    open.events.close();
});

test('principal sees its own subscriptions of every connection and worker only', async (t) => {
    const tokens = new TokenFile(t);
    const server = await start(t, tokens.args);
    const [ada, bob] = ['ada', 'bob'].map((name) => as(server, tokens.give(name)));
    server.child.kill('SIGHUP');
    await server.lines.next((line) => /reloaded.*tokens/.test(line), 'the reload');
    const open = [];
    for (const name of ['a', 'b', 'c', 'd']) {
        open.push(await listen(ada, { resourceSubscriptions: [server.tree.uri(`${name}.txt`)] }));
    }
    open.push(await listen(bob, { resourceSubscriptions: [server.tree.uri('e.txt')] }));
    const session = await Session.open(ada);
    await session.subscribe(server.tree.uri('e.txt'));
    const own = ['a', 'b', 'c', 'd', 'e'].map((name) => server.tree.uri(`${name}.txt`));
    for (const ask of Object.values(ways)) {
        assert.deepEqual(uris(await ask((...given) => call(ada, ...given))), own);
        assert.deepEqual(uris(await ask((...given) => call(bob, ...given))), own.slice(4));
        assert.deepEqual(uris(await ask((...given) => session.call(...given))), own.slice(4));
    }
    const plain = await request(bob, { method: 'GET', path: `/resource?uri=${encodeURIComponent(MINE)}` });
    assert.deepEqual(uris(JSON.parse(plain.text)), own.slice(4));
    /* Pages return the same rows, each once. */
    const seen = [];
    for (let cursor; ; ) {
        const page = await call(ada, METHOD, { pageSize: 2, ...(cursor && { cursor }) });
        assert.ok(page.subscriptions.length <= 2);
        seen.push(...uris(page));
        cursor = page.nextCursor;
        if (!cursor) break;
    }
    assert.deepEqual(seen.sort(), own);
    open.forEach(({ events }) => events.close());
});

test('page holds a thousand entries; an invalid cursor is rejected by name', async (t) => {
    const server = await start(t);
    const session = await Session.open(server);
    const many = Array.from({ length: 1003 }, (_, i) => ({
        jsonrpc: '2.0', id: i, method: 'resources/subscribe', params: { uri: server.tree.uri(`x${i}/`) },
    }));
    await Promise.all(many.map((message) => session.post(message)));
    const first = await session.call(METHOD, { pageSize: 1000 });
    assert.equal(first.subscriptions.length, 1000);
    for (const ask of Object.values(ways)) {
        const rest = await ask((...given) => session.call(...given), first.nextCursor);
        assert.deepEqual([rest.subscriptions.length, rest.nextCursor], [3, undefined]);
    }
    for (const params of [{ cursor: 'x' }, { cursor: '-1' }, { cursor: 5 }, { cursor: '99999999999999999999999' }]) {
        const { json } = await session.send(METHOD, params);
        assert.equal(json.error.code, -32602, JSON.stringify(json));
        assert.match(json.error.message, /cursor/);
    }
    const { json } = await session.send('resources/read', { uri: `${MINE}?page=2` });
    assert.match(json.error.message, /cursor/);
});
