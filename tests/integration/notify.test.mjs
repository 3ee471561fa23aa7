// SPDX-License-Identifier: MIT
//
// Changes with client metadata: the tools publish, unpublish and notify, PUT and DELETE with Tidings-Metadata, and
// POST /notify. A client without write access may not notify either.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call, listen, meta, modern, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { ERAS, Watcher } from './lib/watcher.mjs';

const ERRORS = 'api:///events?type=error';
const writable = (t, ...args) =>
    serve(t, { files: { 'a.txt': 'a' }, args: ['--allow-write', '--publish', 'api:///', ...args] });

const at = (server) => `http://127.0.0.1:${server.port}`;
const tell = async (server, changes, fields = {}) => {
    const body = typeof changes === 'string' ? changes : JSON.stringify({ changes });
    const headers = { 'content-type': 'application/json', ...server.headers, ...fields };
    const response = await fetch(`${at(server)}/notify`, { method: 'POST', headers, body });
    const text = await response.text();
    return { status: response.status, headers: response.headers, json: text.startsWith('{') ? JSON.parse(text) : text };
};
const resource = (server, method, uri, fields, body) =>
    fetch(`${at(server)}/resource?uri=${encodeURIComponent(uri)}`, {
        method,
        body,
        headers: { ...server.headers, ...fields },
    });
const tool = (server, name, args) => call(server, 'tools/call', { name, arguments: args });

for (const era of ERAS) {
    test(`notify triggers a query for any authorized client and no other query (${era})`, async (t) => {
        const server = await writable(t);
        const watcher = await Watcher.open(era, server, [ERRORS]);
        const heard = [];
        const hears = async (uri, kind, metadata) => {
            const params = await watcher.updated(uri, ERRORS);
            assert.equal(params._meta['dev.tidings/change'], kind);
            for (const [name, value] of Object.entries(metadata)) {
                assert.deepEqual(params._meta['dev.tidings/metadata'][name], value);
            }
            heard.push(uri);
        };
        const error = { type: 'error', level: 3 };
        await tell(server, [{ uri: 'api:///events/0', metadata: { type: 'info' } }, { uri: 'api:///events/0' }]);
        const told = await tell(server, [{ uri: 'api:///events/1', metadata: error }]);
        assert.equal(told.status, 200);
        assert.deepEqual(told.json, { results: [{ uri: 'api:///events/1', told: true }], told: 1, refused: 0 });
        await hears('api:///events/1', 'updated', error);
        const { structuredContent } = await tool(server, 'notify', {
            changes: [{ uri: 'api:///events/2', kind: 'created', metadata: { type: ['x', 'error'] } }],
        });
        assert.equal(structuredContent.told, 1);
        await hears('api:///events/2', 'created', { type: ['x', 'error'] });
        await tool(server, 'publish', { uri: 'api:///events/3', text: 'x', metadata: error });
        await hears('api:///events/3', 'created', error);
        const header = { 'tidings-metadata': JSON.stringify(error) };
        assert.equal((await resource(server, 'PUT', 'api:///events/4', header, 'x')).status, 201);
        await hears('api:///events/4', 'created', error);
        await tool(server, 'publish', { uri: 'api:///events/3', text: 'y', metadata: { type: 'info' } });
        await tool(server, 'unpublish', { uri: 'api:///events/3', metadata: { ...error, level: 4 } });
        await watcher.any((m) => m.params?._meta?.['dev.tidings/metadata']?.level === 4, 'the removal');
        heard.push('api:///events/3');
        assert.equal((await resource(server, 'DELETE', 'api:///events/4', header)).status, 204);
        await watcher.any((m) => m.params?.uri?.endsWith('4') && m.params._meta['dev.tidings/change'] === 'deleted');
        heard.push('api:///events/4');
        assert.deepEqual(watcher.uris, heard);
        watcher.close();
    });

    test(`notify with full write access reports unknown changes (${era})`, async (t) => {
        const tokens = new TokenFile(t);
        const [rootToken, annToken] = [tokens.give('root'), tokens.give('ann')];
        const root = as(await writable(t, '--auth-tokens', tokens.path, '--access', JSON.stringify({
            principal: 'root',
            allow: ['list', 'read', 'subscribe', 'write'],
        }), '--access', JSON.stringify({
            principal: 'ann',
            uri: 'api:///',
            allow: ['list', 'read', 'subscribe', 'write'],
        })), rootToken);
        const ann = as(root, annToken);
        const watcher = await Watcher.open(era, root, [root.uri('a.txt')]);
        const denied = await tell(ann, [{ uri: '**' }]);
        assert.equal(denied.status, 403);
        assert.equal(denied.json.reason, 'denied');
        const wrong = await tell(root, [{ uri: '**', kind: 'created' }]);
        assert.equal(wrong.status, 400);
        assert.equal((await tell(root, [{ uri: '**' }])).status, 200);
        const params = await watcher.updated(root.uri('a.txt'));
        assert.equal(params._meta['dev.tidings/truncated'], true);
        assert.equal(watcher.uris.length, 1);
        watcher.close();
    });
}

test('each change of a list is judged separately, and a malformed list is rejected completely', async (t) => {
    const server = await writable(t);
    const watcher = await Watcher.open('modern', server, ['api:///', server.uri('a.txt')]);
    const deep = JSON.parse(`${'{"a":'.repeat(33)}1${'}'.repeat(33)}`);
    const { status, json } = await tell(server, [
        { uri: 'api:///1' },
        { uri: server.uri('a.txt') },
        { uri: 'other:///x' },
        { uri: 'no scheme' },
        { uri: 'api:///2', metadata: { a: 'x'.repeat(65536) } },
        { uri: 'api:///3', metadata: deep },
        { uri: 'api:///4', kind: 'deleted' },
    ]);
    assert.equal(status, 207);
    assert.deepEqual(
        json.results.map((r) => r.reason ?? r.told),
        [true, 'denied', 'not_found', 'invalid', 'too_large', 'too_large', true],
    );
    assert.ok(json.results.every((r) => r.told || r.error.length > 10), JSON.stringify(json));
    assert.deepEqual([json.told, json.refused], [2, 5]);
    await watcher.updated('api:///4');
    for (const [body, code, part] of [
        ['{', 400, /line 1/],
        ['[]', 400, /changes/],
        [{ changes: [] }, 400, /changes/],
        [{ changes: [{ uri: 'api:///5' }], more: 1 }, 400, /without other members/],
        [{ changes: [{ uri: 'api:///5' }, 1] }, 400, /changes\[1\] must be an object/],
        [{ changes: [{ uri: 'api:///5' }, { uri: 1 }] }, 400, /changes\[1\]\.uri/],
        [{ changes: [{ uri: 'api:///5' }, { uri: 'api:///6', kind: 'moved' }] }, 400, /updated, created or deleted/],
        [{ changes: [{ uri: 'api:///5', metadata: [] }] }, 400, /changes\[0\]\.metadata/],
        [{ changes: [{ uri: 'api:///5', 'met\u001b[31m': {} }] }, 400, /unknown member/],
        [{ changes: Array(1001).fill({ uri: 'api:///5' }) }, 413, /1001 changes; at most 1000/],
    ]) {
        const answer = await tell(server, typeof body === 'string' ? body : JSON.stringify(body));
        assert.equal(answer.status, code, JSON.stringify(body).slice(0, 80));
        assert.match(answer.json.error, part);
    }
    assert.deepEqual(watcher.uris, ['api:///1', 'api:///4']);
    watcher.close();
});

test('many changes in one request are delivered one by one', async (t) => {
    const server = await writable(t);
    const { events } = await listen(server, { resourceSubscriptions: ['api:///'] });
    const changes = Array.from({ length: 300 }, (_, i) => ({ uri: `api:///${i}`, metadata: { i } }));
    const { status, json } = await tell(server, changes);
    assert.deepEqual([status, json.told], [200, 300]);
    await events.message((m) => m.params?.uri === 'api:///299', 'the last');
    const seen = events.messages.filter((m) => m.params?.uri).map((m) => m.params.uri);
    assert.deepEqual(seen, changes.map((c) => c.uri));
    events.close();
});

test('notify is rejected without write access', async (t) => {
    const tokens = new TokenFile(t);
    const rule = (principal, uri, allow, more = {}) => ['--access', JSON.stringify({ principal, uri, allow, ...more })];
    const seeing = ['list', 'read', 'subscribe'];
    const given = ['ann', 'bob', 'eve', 'sue', 'ops'].map((name) => tokens.give(name));
    const server = await writable(
        t, '--auth-tokens', tokens.path,
        ...rule('ann', 'api:///ann/', [...seeing, 'write']),
        ...rule('bob', 'api:///bob/', [...seeing, 'write']),
        ...rule('bob', 'api:///ann/', seeing),
        ...rule('eve', 'api:///**', ['write']),
        ...rule('sue', 'api:///sue/', [...seeing, 'write'], { scope: 'api:write' }),
        ...rule('ops', 'file:///**', [...seeing, 'write']),
    );
    const [ann, bob, eve, sue, ops] = given.map((token) => as(server, token));
    const watcher = await Watcher.open('modern', ann, ['api:///ann/']);
    for (const [who, uri] of [[bob, 'api:///ann/x'], [eve, 'api:///ann/x'], [ann, server.uri('a.txt')], [ann, 'api:///bob/x']]) {
        const { status, json } = await tell(who, [{ uri, metadata: { by: 'stranger' } }]);
        assert.equal(status, 403, uri);
        assert.equal(json.reason, 'denied');
        const called = await modern(who, 'tools/call', { name: 'notify', arguments: { changes: [{ uri }] } });
        assert.equal(called.json.result.isError, true);
        assert.match(called.json.result.content[0].text, /may not write/);
    }
    const lacking = await tell(sue, [{ uri: 'api:///sue/x' }]);
    assert.equal(lacking.status, 403);
    assert.match(lacking.headers.get('www-authenticate'), /insufficient_scope.*api:write/);
    assert.equal((await tell(as(server, null), [{ uri: 'api:///ann/x' }])).status, 401);
    // Rules may permit an unwritable URI, because external programs change files without server events.
    const files = await Watcher.open('modern', ops, [server.uri('a.txt')]);
    assert.equal((await tell(ops, [{ uri: server.uri('a.txt'), metadata: { by: 'ops' } }])).status, 200);
    assert.equal((await files.updated(server.uri('a.txt')))._meta['dev.tidings/metadata'].by, 'ops');
    assert.equal((await tell(ann, [{ uri: 'api:///ann/last' }])).status, 200);
    await watcher.updated('api:///ann/last');
    assert.deepEqual(watcher.uris, ['api:///ann/last']);
    watcher.close();
    files.close();
});

test('notify checks host, origin, type, method and flag', async (t) => {
    const server = await writable(t);
    const one = [{ uri: 'api:///1' }];
    assert.equal((await tell(server, one, { origin: 'http://evil.example' })).status, 403);
    assert.equal((await tell(server, one, { 'sec-fetch-site': 'cross-site' })).status, 403);
    assert.equal((await tell(server, one, { 'content-type': 'text/plain' })).status, 415);
    const get = await fetch(`${at(server)}/notify`);
    assert.equal(get.status, 405);
    assert.equal(get.headers.get('allow'), 'POST, OPTIONS');
    const closed = await serve(t, { args: ['--publish', 'api:///'] });
    assert.equal((await tell(closed, one)).status, 404);
});

test('each notified change counts as a request', async (t) => {
    const server = await writable(t, '--request-rate', '1', '--request-burst', '5');
    const changes = Array.from({ length: 8 }, (_, i) => ({ uri: `api:///${i}` }));
    const { status, json } = await tell(server, changes);
    assert.equal(status, 207);
    assert.deepEqual([json.told, json.refused], [5, 3]);
    const last = json.results.at(-1);
    assert.equal(last.reason, 'limit');
    assert.equal(last.limit, 'request-rate');
    assert.ok(last.retryAfterMs > 0);
    const next = await tell(server, changes);
    assert.equal(next.status, 429);
});

test('invalid metadata is rejected, and nothing is written', async (t) => {
    const server = await writable(t, '--entities', ':memory:');
    for (const [text, code, part] of [
        ['[]', 400, /must be a JSON object/],
        ['{', 400, /metadata: line 1/],
        [`{"a":${'['.repeat(40)}${']'.repeat(40)}}`, 413, /32/],
    ]) {
        const answer = await resource(server, 'PUT', 'api:///x', { 'tidings-metadata': text }, 'x');
        assert.equal(answer.status, code);
        assert.match((await answer.json()).error, part);
    }
    const { isError, content } = await tool(server, 'publish', { uri: 'api:///x', text: 'x', metadata: { a: 'x'.repeat(65536) } });
    assert.equal(isError, true);
    assert.match(content[0].text, /at most 65536 bytes/);
    assert.equal((await resource(server, 'GET', 'api:///x')).status, 404);
    const entity = await resource(server, 'PUT', 'entity:///Note@1/x', { 'tidings-metadata': '{"a":1}', 'content-type': 'application/json' }, '{}');
    assert.equal(entity.status, 400);
    assert.match((await entity.json()).error, /takes no metadata/);
});

test('identical content causes no change with any metadata', async (t) => {
    const server = await writable(t);
    await tool(server, 'publish', { uri: 'api:///x', text: 'x' });
    const watcher = await Watcher.open('modern', server, ['api:///']);
    await tool(server, 'publish', { uri: 'api:///x', text: 'x', metadata: { type: 'error' } });
    await tell(server, [{ uri: 'api:///end' }]);
    await watcher.updated('api:///end');
    assert.deepEqual(watcher.uris, ['api:///end']);
    watcher.close();
});

test('metadata survives a restart with its change', async (t) => {
    const file = new Tree(t).at('store');
    const args = ['--store', file];
    const before = await writable(t, ...args);
    const { ack, events } = await listen(before, { resourceSubscriptions: [ERRORS] });
    events.close();
    await tool(before, 'publish', { uri: 'api:///events/1', text: 'x', metadata: { type: 'error', n: 1 } });
    await tool(before, 'publish', { uri: 'api:///events/2', text: 'x', metadata: { type: 'info' } });
    await before.stop();
    const after = await writable(t, ...args);
    const back = await listen(after, { resourceSubscriptions: [ERRORS] }, {
        params: { _meta: meta({ 'dev.tidings/options': { since: ack._meta['dev.tidings/cursor'] } }) },
    });
    await back.events.message((m) => m.params?.uri, 'the change of the earlier run');
    await tell(after, [{ uri: 'api:///events/3', metadata: { type: 'error' } }]);
    await back.events.message((m) => m.params?.uri === 'api:///events/3', 'the next');
    const seen = back.events.messages.filter((m) => m.params?.uri);
    assert.deepEqual(seen.map((m) => m.params.uri), ['api:///events/1', 'api:///events/3']);
    assert.equal(seen[0].params._meta['dev.tidings/metadata'].n, 1);
    back.events.close();
});

test('notify tool reaches a session but not its own origin', async (t) => {
    const server = await writable(t);
    const session = await Session.open(server);
    const events = await session.stream();
    await session.call('resources/subscribe', {
        uri: 'api:///',
        _meta: { 'dev.tidings/options': { origin: 'me', echo: false } },
    });
    await session.call('tools/call', {
        name: 'notify',
        arguments: { changes: [{ uri: 'api:///mine' }] },
        _meta: { 'dev.tidings/origin': 'me' },
    });
    await session.call('tools/call', { name: 'notify', arguments: { changes: [{ uri: 'api:///theirs' }] } });
    await events.message((m) => m.params?.uri === 'api:///theirs', 'the other');
    assert.ok(!events.messages.some((m) => m.params?.uri === 'api:///mine'));
    events.close();
});
