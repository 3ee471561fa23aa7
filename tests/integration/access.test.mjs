// SPDX-License-Identifier: MIT
//
// Access rules in a running server: the view of each era, plain HTTP, the tools and the official clients, the effect of
// replaced rules and expired tokens, and that hidden resources leave no trace.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHttp } from '@modelcontextprotocol/client';

import { start as startIssuer } from './lib/authorization-server.mjs';
import { defer } from './lib/cleanup.mjs';
import { Connection, request } from './lib/http.mjs';
import { call, listChanged, listen, meta, modern, Session, updates } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { as, reloaded, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const OPEN = 'published:///open/';
const HIDDEN = 'published:///hidden/';
const SEE = ['list', 'read', 'subscribe'];
const usual = [
    { principal: 'ada', uri: `${OPEN}**`, allow: SEE },
    { principal: 'bob', allow: [...SEE, 'write'] },
    { principal: 'cleo', scope: 'open:write', uri: OPEN, allow: ['read', 'write'] },
];

/** A server with rules in a file and the token of each client. */
async function start(t, { rules = usual, args = [] } = {}) {
    const tokens = new TokenFile(t);
    const file = new Tree(t).at('access.json');
    const set = (next) => writeFileSync(file, JSON.stringify(next));
    set(rules);
    const given = { ada: tokens.give('ada'), bob: tokens.give('bob'), cleo: tokens.give('cleo', 'open:write') };
    const server = await serve(t, {
        files: {},
        args: [...tokens.args, '--access-file', file, '--allow-write', '--self', ...args],
    });
    const shown = Object.fromEntries(Object.entries(given).map(([name, token]) => [name, as(server, token)]));
    return { server, set, token: given, ...shown };
}

const at = (uri) => `/resource?uri=${encodeURIComponent(uri)}`;
const put = async (who, uri, body) => {
    const answer = await request(who, { method: 'PUT', path: at(uri), headers: { 'Content-Type': 'text/plain' }, body });
    assert.ok([201, 204].includes(answer.status), `${uri}: ${answer.status} ${answer.text}`);
};
const remove = (who, uri) => request(who, { method: 'DELETE', path: at(uri) });
const names = async (who, params) => (await call(who, 'resources/list', params)).resources.map((r) => r.uri);

test('answers hold only visible resources and deny others like missing ones', async (t) => {
    const { ada, bob } = await start(t);
    await put(bob, `${OPEN}a`, '1');
    await put(bob, `${HIDDEN}b`, '1');
    assert.deepEqual(await names(ada), [`${OPEN}a`]);
    assert.ok((await names(bob)).includes(`${HIDDEN}b`));
    assert.deepEqual(await names(ada, { uri: OPEN }), [`${OPEN}a`]);
    for (const method of ['resources/read', 'resources/metadata', 'resources/list']) {
        const [denied, absent] = await Promise.all(
            [`${HIDDEN}b`, `${HIDDEN}z`].map((uri) => modern(ada, method, { uri }, { id: 1 })),
        );
        assert.equal(denied.status, absent.status, method);
        assert.equal(denied.text.replaceAll('hidden/b', 'hidden/z'), absent.text, method);
    }
    for (const method of ['GET', 'PUT', 'DELETE']) {
        const body = method === 'PUT' ? 'x' : undefined;
        const [denied, absent] = await Promise.all(
            [`${HIDDEN}b`, `${HIDDEN}z`].map((uri) => request(ada, { method, path: at(uri), body })),
        );
        const said = denied.text.replaceAll('hidden/b', 'hidden/z');
        assert.deepEqual([denied.status, said], [404, absent.text], method);
    }
    assert.equal((await request(ada, { method: 'PUT', path: at(`${OPEN}a`), body: 'x' })).status, 404);
    assert.equal((await request(ada, { method: 'GET', path: at(`${OPEN}a`) })).text, '1');
    assert.equal((await modern(ada, 'resources/read', { uri: 'tidings://self/stats' })).json.error?.data?.uri, 'tidings://self/stats');
    const { resourceTemplates } = await call(ada, 'resources/templates/list');
    assert.ok(!JSON.stringify(resourceTemplates).includes('file:///'), 'nothing of the files');
});

test('tools write within rules and scopes', async (t) => {
    const { ada, bob, cleo } = await start(t);
    const publish = async (who, uri) => {
        const { isError, content } = await call(who, 'tools/call', { name: 'publish', arguments: { uri, text: 'x' } });
        return isError ? content[0].text : 'done';
    };
    assert.match(await publish(ada, `${OPEN}a`), /may not write/);
    assert.match(await publish(cleo, `${HIDDEN}a`), /may not write/);
    assert.equal(await publish(cleo, `${OPEN}a`), 'done');
    assert.equal(await publish(bob, `${HIDDEN}a`), 'done');
    const removal = { name: 'unpublish', arguments: { uri: `${HIDDEN}a` } };
    assert.equal((await call(cleo, 'tools/call', removal)).isError, true);
    assert.ok((await names(bob)).includes(`${HIDDEN}a`));
});

test('official clients see and receive only visible resources', async (t) => {
    const { server, bob, token } = await start(t);
    await put(bob, `${OPEN}a`, '1');
    await put(bob, `${HIDDEN}b`, '1');
    const requestInit = { headers: { Authorization: `Bearer ${token.ada}` } };
    const info = { name: 'integration-test', version: '1' };
    const clients = {
        legacy: [new LegacyClient(info), new LegacyHttp(new URL(server.url), { requestInit })],
        modern: [
            new ModernClient(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
            new ModernHttp(new URL(server.url), { requestInit }),
        ],
    };
    for (const [era, [client, wire]] of Object.entries(clients)) {
        defer(t, () => client.close());
        await client.connect(wire);
        const { resources } = await client.listResources();
        assert.deepEqual(resources.map((r) => r.uri), [`${OPEN}a`], era);
        await assert.rejects(client.readResource({ uri: `${HIDDEN}b` }), /not found/, era);
        assert.equal((await client.readResource({ uri: `${OPEN}a` })).contents[0].text, '1', era);
    }
    const [client] = clients.legacy;
    await assert.rejects(client.subscribeResource({ uri: `${HIDDEN}b` }), /not found/);
    await client.subscribeResource({ uri: `${OPEN}a` });
});

/** Differences between any two runs: times and the random seals of cursors, but not the seal length. */
const mask = (text) =>
    text
        .replace(/"(updated_at|timestamp)":\d+/g, '"$1":0')
        .replace(/"lastModified":"[\d:TZ.-]+"/g, '"lastModified":""')
        .replace(/("dev\.tidings\/cursor":")([\w-]{65,})"/g, (_, key, seal) => `${key}${'#'.repeat(seal.length)}"`)
        .replace(/^(id: [0-9a-f]{8}-\d+\.\d+\.)([\w-]{65,})$/gm, (_, id, seal) => id + '#'.repeat(seal.length));

/** All messages on a stream so far, field by field as written; comments only keep it alive. */
function record({ events }) {
    const fields = (event) => ['event', 'id', 'retry', 'data'].filter((name) => name in event);
    const text = (event) => fields(event).map((name) => `${name}: ${event[name]}`).join('\n');
    return () => mask(events.seen.filter((event) => !('comment' in event)).map(text).join('\n\n'));
}

const options = { 'dev.tidings/options': { windowMs: 0, include: 'value' } };

/** One run: ada listens in both eras to all she may see; with `hidden`, many hidden changes happen too. */
async function watchRun(t, hidden) {
    const { ada, bob } = await start(t, { args: ['--workers', '1'] });
    await put(bob, `${OPEN}a`, '0');
    const beside = async (n) => {
        if (hidden) {
            await put(bob, `${HIDDEN}b`, `${n}`);
            await put(bob, `${HIDDEN}new${n}`, 'x');
            await remove(bob, `${HIDDEN}new${n}`);
            await request(bob, { method: 'GET', path: at(`${HIDDEN}b`) });
        }
    };
    await beside(0);
    const notifications = { resourcesListChanged: true, resourceSubscriptions: ['published:///**', `${OPEN}a`] };
    const live = await modern(ada, 'subscriptions/listen', { notifications, _meta: meta(options) }, { id: 'live' });
    const bytes = record(live);
    await live.events.message((m) => m.method.endsWith('/acknowledged'), 'the acknowledgement');
    const session = await Session.open(ada);
    await session.call('resources/subscribe', { uri: 'published:///**', _meta: options });
    let stream = await session.get();
    const first = record(stream);
    for (let n = 1; n <= 3; n += 1) {
        await beside(n);
        await put(bob, `${OPEN}a`, `${n}`);
        for (let k = 0; k < 2; k += 1) {
            await live.events.message(updates(`${OPEN}a`), `update ${n} of the listen`);
        }
        await stream.events.message(updates(`${OPEN}a`), `update ${n} of the session`);
    }
    await put(bob, `${OPEN}new`, 'x');
    await beside(4);
    await Promise.all([
        live.events.message(listChanged, 'list_changed'),
        stream.events.message(listChanged, 'list_changed'),
    ]);
    /* Disconnect for a while, then resume with the id of the last event. */
    const last = stream.events.seen.findLast((item) => item.id && item.json).id;
    const before = first();
    stream.events.close();
    await beside(5);
    await put(bob, `${OPEN}a`, 'while away');
    await live.events.message(updates(`${OPEN}a`), 'an update');
    await beside(6);
    stream = await session.get({ 'Last-Event-ID': last });
    const second = record(stream);
    await stream.events.message(updates(`${OPEN}a`), 'what was missed');
    await put(bob, `${OPEN}end`, 'x');
    await stream.events.message(updates(`${OPEN}end`), 'the end');
    await live.events.message(updates(`${OPEN}end`), 'the end');
    await Promise.all([
        live.events.message(listChanged, 'the last list_changed'),
        stream.events.message(listChanged, 'the last list_changed'),
    ]);
    const said = { listen: bytes(), before, after: second() };
    live.events.close();
    stream.events.close();
    return said;
}

test('runs that differ only in hidden changes produce the same bytes', async (t) => {
    const without = await watchRun(t, false);
    const hidden = await watchRun(t, true);
    for (const name of ['listen', 'before', 'after']) {
        assert.ok(without[name].includes(`${OPEN}a`), name);
        assert.equal(hidden[name], without[name], name);
        assert.ok(!/"dev\.tidings\/version"|"version"/.test(hidden[name]), 'no number is told');
    }
});

test('sealed cursors work as since and plain numbers do not', async (t) => {
    const { ada, bob } = await start(t, { args: ['--change-tools', 'on'] });
    await put(bob, `${OPEN}a`, '0');
    const wish = { resourceSubscriptions: ['published:///**'] };
    const { ack, events } = await listen(ada, wish);
    events.close();
    const cursor = ack._meta['dev.tidings/cursor'];
    const { ack: open, events: other } = await listen(bob, wish);
    other.close();
    assert.match(open._meta['dev.tidings/cursor'], /^[0-9a-f]+\.\d+/);
    await put(bob, `${HIDDEN}b`, '1');
    await put(bob, `${OPEN}a`, '1');
    const back = async (since) => {
        const params = { _meta: meta({ 'dev.tidings/options': { since } }) };
        const again = await listen(ada, wish, { params });
        const message = await again.events.message();
        again.events.close();
        return message.params;
    };
    const told = await back(cursor);
    assert.equal(told.uri, `${OPEN}a`);
    assert.equal(told._meta['dev.tidings/truncated'], undefined);
    const guessed = await back(open._meta['dev.tidings/cursor']);
    assert.equal(guessed._meta['dev.tidings/truncated'], true);
    const tool = async (args) => {
        const { structuredContent } = await call(ada, 'tools/call', { name: 'changes_since', arguments: args });
        return structuredContent;
    };
    const begun = await tool({ uris: ['published:///**'], cursor });
    assert.deepEqual(begun.changes.map((change) => change.uri), [`${OPEN}a`]);
    assert.ok(begun.cursor.length > 64);
    await put(bob, `${HIDDEN}b`, '2');
    await put(bob, `${OPEN}a`, '2');
    const next = await tool({ uris: ['published:///**'], cursor: begun.cursor });
    assert.deepEqual(next.changes.map((change) => change.uri), [`${OPEN}a`]);
    assert.equal(next.gap, undefined);
});

test('new rules narrow open streams and end streams without remaining rights', async (t) => {
    const { server, ada, bob, set } = await start(t);
    await put(bob, `${OPEN}a`, '0');
    await put(bob, `${OPEN}b`, '0');
    const { events } = await listen(ada, { resourceSubscriptions: [`${OPEN}a`, 'published:///**'] });
    const session = await Session.open(ada);
    await session.subscribe(`${OPEN}a`);
    const stream = await session.stream();
    const said = (uri, mark) => (m) => m.params?.subscribedUri === uri && m.params._meta[mark];
    set([{ principal: 'ada', uri: `${OPEN}b`, allow: SEE }, usual[1]]);
    await reloaded(server, /reloaded.*access/);
    await events.message(said(`${OPEN}a`, 'dev.tidings/suspended'), 'the end of what she named');
    await stream.message(said(`${OPEN}a`, 'dev.tidings/suspended'), 'the end of what she named');
    assert.deepEqual(await names(ada), [`${OPEN}b`]);
    await put(bob, `${OPEN}a`, '1');
    await put(bob, `${OPEN}b`, '1');
    await events.message(updates(`${OPEN}b`), 'what is left');
    assert.equal(events.messages.filter(updates(`${OPEN}a`)).length, 1, 'nothing but its end');
    set('nonsense');
    await reloaded(server, /reload failed.*access\.json/);
    assert.deepEqual(await names(ada), [`${OPEN}b`], 'a mistake changes nothing');
    set([usual[1]]);
    await reloaded(server, /reloaded.*access/);
    const result = await events.message((m) => m.result, 'the result of the listen');
    assert.ok(result.result);
    await events.over;
    await stream.over;
    assert.equal((await modern(ada, 'resources/read', { uri: `${OPEN}b` })).json.error.message, 'resource not found');
});

test('stream ends with its token and a session continues with the next token', async (t) => {
    const rules = JSON.stringify({ principal: 'authenticated', by: 'token', uri: 'file:///**', allow: SEE });
    const { server, show, uri } = await startIssuer(t, { args: ['--auth-leeway', '0s', '--access', rules] });
    const exp = Math.floor(Date.now() / 1000) + 3;
    const brief = await show({ claims: { exp } });
    const { events } = await listen(brief, { resourceSubscriptions: [uri] });
    const session = await Session.open(brief);
    await session.subscribe(uri);
    const stream = await session.stream();
    const primed = await stream.next((item) => item.id, 'the first id');
    await events.message((m) => m.result, 'the result', 30_000);
    await events.over;
    await stream.over;
    assert.ok(Date.now() / 1000 >= exp - 1);
    assert.equal((await session.send('ping')).status, 401);
    server.tree.replace('a.txt', '2');
    session.server = await show();
    const again = await session.stream(primed.id);
    await again.message(updates(uri), 'what was missed');
    session.server = await show({ sub: 'eve' });
    assert.equal((await session.send('ping')).status, 404);
    again.close();
});

test('session and its events are visible only to its creator', async (t) => {
    const { server, ada, bob, token } = await start(t);
    const session = await Session.open(ada);
    const stream = await session.stream();
    const { id } = await stream.next((item) => item.id, 'the first id');
    const own = await Session.open(bob);
    const stolen = Object.assign(Object.create(Session.prototype), session, { server: bob });
    assert.equal((await stolen.send('ping')).status, 404);
    assert.equal((await stolen.get()).status, 404);
    assert.equal((await stolen.get({ 'Last-Event-ID': id })).status, 404);
    assert.equal((await stolen.end()).status, 404);
    assert.equal((await own.get({ 'Last-Event-ID': id })).status, 404, 'hers in a session of his own');
    const nobody = await (await session.send('ping', undefined, { headers: { 'Mcp-Session-Id': '00-nothing' } })).status;
    assert.equal(nobody, 404);
    const ws = await WebSocketRaw.open(server, {
        headers: { Authorization: `Bearer ${token.bob}`, 'Mcp-Session-Id': session.id },
    });
    const answer = await ws.ask('resources/list');
    assert.ok(answer.error, 'a WebSocket is no way into a session');
    ws.close();
    assert.equal((await session.send('ping')).status, 200);
    stream.close();
});

test('Unix socket users are authenticated without tokens and other clients are not', async (t) => {
    const uid = process.getuid();
    const rules = [
        { principal: `uid:${uid}`, by: 'user', allow: [...SEE, 'write'] },
        { principal: 'anonymous', uri: OPEN, allow: SEE },
    ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const path = new Tree(t).at('mcp.sock');
    const server = await serve(t, { files: {}, args: [...rules, '--allow-write', '--http-unix', path] });
    const connection = await Connection.open(server, { host: undefined, port: undefined, path });
    for (const uri of [`${OPEN}a`, `${HIDDEN}b`]) {
        const headers = { Host: 'localhost', 'Content-Type': 'text/plain' };
        const answer = await connection.request({ method: 'PUT', path: at(uri), headers, body: 'x' });
        assert.equal(answer.status, 201, answer.text);
    }
    connection.close();
    assert.deepEqual(await names(server), [`${OPEN}a`]);
    assert.equal((await request(server, { method: 'PUT', path: at(`${OPEN}a`), body: 'y' })).status, 404);
});

test('server does not start with an invalid rule', async (t) => {
    for (const [rule, says] of [
        ['{"allow":["look"]}', /--access.*list, read, subscribe and write/],
        ['{"allow":["read"],"whom":"x"}', /unknown key 'whom'.*principal, by, scope, uri, match, allow/],
    ]) {
        const { code, stderr } = await run(t, ['serve', '--access', rule, '/tmp']);
        assert.notEqual(code, 0);
        assert.match(stderr, says);
    }
});

test('directory shows only listable names in lists, contents and completions', async (t) => {
    const tree = new Tree(t, { 'a.txt': '1', 'secret.txt': '2', 'sub/b.txt': '3', 'hidden/c.txt': '4' });
    const rules = [
        { uri: tree.uri(), match: 'literal', allow: SEE },
        { uri: tree.uri('a.txt'), allow: SEE },
        { uri: tree.uri('sub/'), allow: SEE },
    ].map((rule) => ['--access', JSON.stringify(rule)]);
    const open = await serve(t, { tree });
    const server = await serve(t, { tree, args: rules.flat() });
    const uri = tree.uri();
    assert.deepEqual((await names(server, { uri })).sort(), [tree.uri('a.txt'), tree.uri('sub/')]);
    const texts = async (who) => (await call(who, 'resources/read', { uri })).contents;
    assert.match((await texts(open))[0].text, /secret/);
    const contents = await texts(server);
    assert.equal(contents[0].text, 'a.txt\nsub/\n');
    assert.doesNotMatch(JSON.stringify(contents), /secret|hidden/);
    const complete = async (who, value) => {
        const ref = { type: 'ref/resource', uri: `${uri}{+path}` };
        const { completion } = await call(who, 'completion/complete', { ref, argument: { name: 'path', value } });
        return completion;
    };
    assert.ok((await complete(open, '')).values.includes('secret.txt'));
    const { values, total } = await complete(server, '');
    assert.deepEqual(values.sort(), ['a.txt', 'sub/']);
    assert.ok(total === undefined || total === 2);
    /* Content sent with a change: each client receives what it may see. */
    const wish = { resourceSubscriptions: [uri] };
    const params = { _meta: meta({ 'dev.tidings/options': { include: 'value', match: 'literal', initial: true } }) };
    const { events } = await listen(server, wish, { params });
    const first = await events.message(updates(uri), 'the directory as it is');
    assert.equal(first.params._meta['dev.tidings/data'][0].text, 'a.txt\nsub/\n');
    events.close();
});

test('entities are read and written by the type that rules name', async (t) => {
    const rules = [
        { uri: 'entity:///note@1.0/', allow: [...SEE, 'write'] },
        { uri: 'entity:///types', allow: [...SEE, 'write'] },
    ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const path = new Tree(t).at('mcp.sock');
    const own = ['--access', JSON.stringify({ principal: `uid:${process.getuid()}`, allow: [...SEE, 'write'] })];
    const args = [...rules, ...own, '--entities', ':memory:', '--http-unix', path];
    const server = await serve(t, { files: {}, args });
    const tool = async (name, args_) => {
        const { isError, structuredContent, content } = await call(server, 'tools/call', { name, arguments: args_ });
        return isError ? JSON.parse(content[0].text) : structuredContent;
    };
    const schema = { type: 'object' };
    for (const name of ['note', 'secret']) {
        const made = await tool('add-entity-type', { name, version: '1.0', description: name, jsonSchema: schema });
        assert.equal(made.success, true, JSON.stringify(made));
    }
    const write = (type, id) => ({ entityId: id, entityTypeName: type, entityTypeVersion: '1.0' });
    const by = { changedBy: [{ userId: 'u' }], value: { a: 1 } };
    assert.equal((await tool('upsert-entity', { ...write('note', 'one'), ...by })).error, undefined);
    assert.match((await tool('upsert-entity', { ...write('secret', 'two'), ...by })).error, /may not write/);
    // By the id only: under the stored type.
    assert.equal((await tool('delete-entity', { entityId: 'one', changedBy: by.changedBy })).deleted, true);
    assert.equal((await tool('undelete-entity', { entityId: 'one', changedBy: by.changedBy })).deleted, false);
    assert.equal((await tool('delete-entity', { entityId: 'two', changedBy: by.changedBy })).reason, 'unknownEntity');
    assert.match((await tool('get-entity-history', write('secret', 'one'))).error, /not found/);
    const other = await tool('get-entity-history', { ...write('note', 'one') });
    assert.equal(other.versions.length, 3);
    const at_ = (where) => request(server, { method: 'GET', path: where });
    assert.equal((await at_('/entity/note@1.0/one')).status, 200);
    assert.equal((await at_('/entity/secret@1.0/one')).status, 404);
});
