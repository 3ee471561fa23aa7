// SPDX-License-Identifier: MIT
//
// Entities by absolute URIs (--entity-authority) and by short URIs without a type: other spellings of the same entity
// for every request, and no bypass of access rules.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { call, modern } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { extras, isUpdate, Subscriber } from './lib/subscriber.mjs';
import { as, TokenFile } from './lib/tokens.mjs';

const AUTHORITY = 'https://example.org/universe/u1';
const BASE = `${AUTHORITY}/entity/`;
const PREFIX = 'entity:///';
const SPELLINGS = {
    'its own': 'entity:///note@1/a',
    'that of the document': '/entity/note@1/a',
    absolute: `${BASE}note@1/a`,
    'absolute, otherwise encoded': 'HTTPS://EXAMPLE.org/universe/%751/entity/note%401/%61',
    'the path of the authority': '/universe/u1/entity/note@1/a',
    'absolute and short': `${BASE}a`,
    short: 'entity:///a',
    'short, that of the document': '/entity/a',
};

async function tool(who, name, args) {
    const { isError, structuredContent, content } = await call(who, 'tools/call', { name, arguments: args });
    return isError ? JSON.parse(content[0].text) : structuredContent;
}

const types = async (who) => {
    for (const name of ['note', 'vault']) {
        await tool(who, 'add-entity-type', { name, version: '1', jsonSchema: {} });
    }
};

async function start(t, args = []) {
    const all = ['--entities', ':memory:', '--entity-authority', `${AUTHORITY}//`, '--allow-write', '--workers', '1', ...args];
    const server = await serve(t, { mounts: [], args: all });
    await types(server);
    await tool(server, 'upsert-entity', { uri: `${BASE}note@1/a`, value: { n: 1 } });
    return server;
}

test('every spelling works for reads, descriptions, writes and HTTP', async (t) => {
    const server = await start(t);
    let n = 1;
    for (const [what, uri] of Object.entries(SPELLINGS)) {
        const { contents } = await call(server, 'resources/read', { uri });
        assert.deepEqual([contents[0].uri, JSON.parse(contents[0].text).value], [uri, { n }], what);
        const { resource } = await call(server, 'resources/metadata', { uri });
        assert.ok([uri, SPELLINGS['its own']].includes(resource.uri), what);
        n += 1;
        const written = await tool(server, 'upsert-entity', { uri, value: { n } });
        assert.deepEqual([written.uri, written.value], [SPELLINGS['its own'], { n }], what);
        const path = `/resource?uri=${encodeURIComponent(uri)}`;
        const got = await request(server, { method: 'GET', path });
        assert.deepEqual([got.status, JSON.parse(got.text).value], [200, { n }], what);
        const headers = { 'If-Match': '*', 'Content-Type': 'application/json' };
        n += 1;
        const put = await request(server, { method: 'PUT', path, headers, body: JSON.stringify({ n }) });
        assert.equal(put.status, 200, what);
        const { versions } = await tool(server, 'get-entity-history', { uri, limit: 1000 });
        assert.deepEqual(versions.at(-1).value, { n }, what);
        const { validFrom } = versions[0];
        for (const tail of ['/patch', `/patch/${validFrom}`, `/at/${validFrom}`]) {
            const { contents: some } = await call(server, 'resources/read', { uri: uri + tail });
            assert.equal(JSON.parse(some[0].text).entityId, 'a', what + tail);
        }
    }
    const byPath = await request(server, { method: 'GET', path: '/universe/u1/entity/note@1/a' });
    assert.deepEqual([byPath.status, JSON.parse(byPath.text).value], [200, { n }]);
    const { resources } = await call(server, 'resources/list', { uri: `${BASE}note@1/` });
    assert.deepEqual(resources.map((r) => r.uri), ['entity:///note@1/a']);
    assert.equal(JSON.parse((await call(server, 'resources/read', { uri: `${BASE}types` })).contents[0].text).length, 2);
});

test('new entity needs its type and foreign URIs stay foreign', async (t) => {
    const server = await start(t);
    const refused = await tool(server, 'upsert-entity', { uri: `${BASE}new`, value: {} });
    assert.equal(refused.reason, 'unknownEntity');
    assert.match(refused.error, /written with its type, as \{type\}@\{version\}\/new/);
    for (const uri of [
        'https://example.org/universe/u2/entity/note@1/a',
        'https://example.org:444/universe/u1/entity/note@1/a',
        'http://example.org/universe/u1/entity/note@1/a',
        'https://example.org/universe/u1/entityx/note@1/a',
        `${AUTHORITY}/x/../entity/note@1/a`,
        `${BASE}nobody`,
    ]) {
        const { json } = await modern(server, 'resources/read', { uri });
        assert.ok(json.error, uri);
    }
});

for (const era of ['legacy', 'modern']) {
    test(`${era}: subscriber receives updates in its own spelling`, async (t) => {
        const server = await start(t);
        const follower = await Subscriber.join(server, era);
        const literal = Object.values(SPELLINGS);
        const patterns = [BASE, `${BASE}note@1/`, `${BASE}note@1/*`, `${BASE}note@1/{id}`, `${BASE}note@1/?parent=p`];
        const own = ['entity:///note@1/', '/entity/note@1/'];
        const { refused } = await follower.ask([...literal, ...patterns, ...own], { windowMs: 0, initial: false });
        assert.deepEqual(refused, {});
        await tool(server, 'upsert-entity', { uri: `${BASE}note@1/a`, value: { n: 2 }, parentId: 'p' });
        const told = async (subscribed, uri) => {
            const { params } = await follower.update(subscribed);
            assert.deepEqual([params.uri, params.subscribedUri], [uri, subscribed], subscribed);
            return params;
        };
        for (const uri of literal) {
            await told(uri, uri);
        }
        for (const uri of patterns) {
            await told(uri, `${BASE}note@1/a`);
        }
        for (const uri of own) {
            await told(uri, 'entity:///note@1/a');
        }
        await tool(server, 'add-entity-type', { name: 'note', version: '2', jsonSchema: {} });
        await told(BASE, `${BASE}types`);
        await tool(server, 'upsert-entity', { uri: `${BASE}a`, value: { n: 3 } });
        for (const uri of [`${BASE}note@1/a`, `${BASE}a`, ...patterns]) {
            await told(uri, `${BASE}note@2/a`);
        }
        await told('entity:///note@1/', 'entity:///note@2/a');
    });
}

test('legacy: subscription in one spelling is removed in another', async (t) => {
    const server = await start(t);
    const follower = await Subscriber.join(server, 'legacy');
    const [uri, own] = [`${BASE}note@1/a`, 'entity:///note@1/a'];
    await follower.ask([uri, `${BASE}note@1/`], { windowMs: 0, initial: false });
    const patches = `${own}/patch`;
    const { json } = await follower.session.send('resources/subscribe', { uri: patches, baseline: JSON.parse((await call(server, 'resources/read', { uri })).contents[0].text).validFrom });
    assert.ok(json.result);
    await follower.session.send('resources/unsubscribe', { uri: own });
    await follower.session.send('resources/unsubscribe', { uri: own }); // not the template of patches
    await tool(server, 'upsert-entity', { uri, value: { n: 2 } });
    await follower.update(`${BASE}note@1/`);
    await follower.message((m) => isUpdate(m) && m.params.subscribedUri === patches && !extras(m).initial, 'a patch');
    assert.ok(!follower.messages.some((m) => isUpdate(m) && m.params.subscribedUri === uri));
});

test('templates are listed in both spellings and completed in either', async (t) => {
    const server = await start(t);
    const { resourceTemplates } = await call(server, 'resources/templates/list');
    const texts = resourceTemplates.map((r) => r.uriTemplate);
    const ours = texts.filter((text) => text.startsWith(PREFIX));
    assert.equal(ours.length, 5);
    for (const text of ours) {
        assert.ok(texts.includes(BASE + text.slice(PREFIX.length)), text);
        const ref = { type: 'ref/resource', uri: BASE + text.slice(PREFIX.length) };
        if (text.includes('{entityId}')) {
            const { completion } = await call(server, 'completion/complete', { ref, argument: { name: 'entityId', value: '' } });
            assert.deepEqual(completion.values, ['a'], text);
        }
    }
});

test('rule applies to every spelling, whatever spelling it has', async (t) => {
    const tokens = new TokenFile(t);
    const given = Object.fromEntries(['ada', 'bob', 'eve'].map((name) => [name, tokens.give(name)]));
    const SEE = ['list', 'read', 'subscribe'];
    const rules = [
        { principal: 'ada', uri: `${BASE}note@1/**`, allow: [...SEE, 'write'] },
        { principal: 'eve', uri: 'entity:///note@1/**', allow: SEE },
        { principal: 'bob', allow: [...SEE, 'write'] },
    ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const args = [...tokens.args, ...rules, '--entities', ':memory:', '--entity-authority', AUTHORITY, '--allow-write', '--workers', '1'];
    const server = await serve(t, { mounts: [], args });
    const [ada, bob, eve] = ['ada', 'bob', 'eve'].map((name) => as(server, given[name]));
    await types(bob);
    await tool(bob, 'upsert-entity', { uri: `${PREFIX}note@1/a`, value: { n: 1 } });
    await tool(bob, 'upsert-entity', { uri: `${PREFIX}vault@1/s`, value: { secret: 1 } });
    const hidden = Object.values(SPELLINGS).map((uri) => uri.replace('note', 'vault').replace(/(a|%61)$/, 's'));
    const headers = { 'If-Match': '*', 'Content-Type': 'application/json' };
    for (const who of [ada, eve]) {
        for (const uri of Object.values(SPELLINGS)) {
            const { json } = await modern(who, 'resources/read', { uri });
            assert.ok(json.result, `${uri}: ${JSON.stringify(json)}`);
        }
        for (const uri of hidden) {
            const nobody = uri.replace(/s$/, 'x');
            for (const method of ['resources/read', 'resources/metadata', 'resources/list']) {
                const [secret, none] = await Promise.all(
                    [uri, nobody].map(async (one) => (await modern(who, method, { uri: one }, { id: 1 })).text),
                );
                assert.equal(secret.replaceAll(uri, ''), none.replaceAll(nobody, '').replaceAll("'x'", "'s'"), `${method} ${uri}`);
                assert.ok(!secret.includes('vault@1"') && !secret.includes('secret'), secret);
            }
            const path = `/resource?uri=${encodeURIComponent(uri)}`;
            assert.equal((await request(who, { method: 'GET', path })).status, 404, uri);
            const put = await request(who, { method: 'PUT', path, headers, body: '{}' });
            assert.ok([404, 412].includes(put.status), `${uri}: ${put.status}`);
            for (const [name, more] of [['upsert-entity', { value: {} }], ['delete-entity', {}], ['get-entity-history', {}]]) {
                const said = await tool(who, name, { uri, ...more });
                assert.ok(said.error && !JSON.stringify(said).includes('secret'), `${name} ${uri}: ${JSON.stringify(said)}`);
            }
            const follower = await Subscriber.join(who, 'modern');
            assert.ok((await follower.ask([uri])).refused[uri], uri);
        }
    }
    // Eve may see the note but not write it, in any spelling.
    for (const uri of Object.values(SPELLINGS)) {
        const said = await tool(eve, 'upsert-entity', { uri, value: { n: 'eve' } });
        assert.ok(said.error, `${uri}: ${JSON.stringify(said)}`);
        assert.ok((await tool(eve, 'delete-entity', { uri })).error, uri);
        const path = `/resource?uri=${encodeURIComponent(uri)}`;
        const put = await request(eve, { method: 'PUT', path, headers, body: '{"n":"eve"}' });
        assert.ok([404, 412].includes(put.status), `${uri}: ${put.status}`);
        assert.equal((await tool(ada, 'upsert-entity', { uri, value: { n: uri } })).success, true, uri);
    }
    assert.equal((await tool(bob, 'get-entity-history', { uri: `${PREFIX}vault@1/s` })).versions.length, 1);
});

test('invalid authority is refused with the reason', async (t) => {
    const cases = [
        ['example.org/u1', /does not begin with https:\/\//],
        ['ftp://example.org', /does not begin with https:\/\//],
        ['https:///u1', /names no host/],
        ['https://example.org/u1?x=1', /has a query/],
        ['https://example.org/u1#x', /has a fragment/],
        ['https://ann@example.org/u1', /names a user/],
        [`https://example.org/${'x'.repeat(1100)}`, /is too long/],
        ['https://example.org/*/u1', /patterns/],
        ['https://example.org/a/../b', /dot/],
    ];
    await Promise.all(
        cases.map(async ([value, why]) => {
            const { code, stderr } = await run(t, ['serve', '--entities', ':memory:', '--entity-authority', value]);
            assert.notEqual(code, 0, value);
            assert.match(stderr, why, value);
            assert.match(stderr, /accepted: https:\/\/host\/path/, value);
        }),
    );
    const alone = await run(t, ['serve', '--entity-authority', AUTHORITY, '.']);
    assert.notEqual(alone.code, 0);
    assert.match(alone.stderr, /there are no entities/);
});
