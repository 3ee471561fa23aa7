// SPDX-License-Identifier: MIT
//
// Access rules and entities. An id is unique across types, so a request for a visible type can meet a hidden entity of
// another type. The server answers every such request as if the entity did not exist.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { call, listen, meta, modern, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';

const SEE = ['list', 'read', 'subscribe'];
const EARLY = '2020-01-01T00:00:00.000Z';
const LATER = '2021-01-01T00:00:00.000Z';

/** Ada sees notes of version 1 and may write them, Bob does everything. */
async function start(t, args = [], file = ':memory:') {
    const tokens = new TokenFile(t);
    const given = { ada: tokens.give('ada'), bob: tokens.give('bob') };
    const rules = [
        { principal: 'ada', uri: 'entity:///note@1/**', allow: [...SEE, 'write'] },
        { principal: 'bob', allow: [...SEE, 'write'] },
    ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const all = [...tokens.args, ...rules, '--entities', file, '--allow-write', '--workers', '1', ...args];
    const server = await serve(t, { files: {}, args: all });
    const people = (of) => ['ada', 'bob'].map((name) => as(of, given[name]));
    const again = async () => {
        await server.stop();
        return people(await serve(t, { files: {}, args: all }));
    };
    const [ada, bob] = people(server);
    const type = (name, version) =>
        tool(bob, 'add-entity-type', { name, version, jsonSchema: { type: 'object', properties: { n: { type: 'integer' } } } });
    await type('note', '1');
    await type('vault', '1');
    return { again, ada, bob, type };
}

const entity = (type, entityId, version = '1') => ({ entityId, entityTypeName: type, entityTypeVersion: version });

async function tool(who, name, args) {
    const { isError, structuredContent, content } = await call(who, 'tools/call', { name, arguments: args });
    return isError ? JSON.parse(content[0].text) : structuredContent;
}

const upsert = (who, type, id, args) => tool(who, 'upsert-entity', { ...entity(type, id), ...args });

/** The whole answer without its time. */
const whole = ({ status, headers, text }) =>
    JSON.stringify({ status, headers: [...(headers ?? [])].filter(([name]) => name !== 'date'), text });

const form = (body, method, type = 'application/json') => ({
    method,
    body: JSON.stringify(body),
    headers: { 'Content-Type': type },
});

/** All requests about an entity, as functions of its id. */
const questions = {
    ...Object.fromEntries(
        ['', '/patch', `/patch/${EARLY}`, `/at/${EARLY}`, `/at/${LATER}`].flatMap((tail) => [
            [`GET ${tail}`, (who, id) => request(who, { method: 'GET', path: `/entity/note@1/${id}${tail}` })],
            [`HEAD ${tail}`, (who, id) => request(who, { method: 'HEAD', path: `/entity/note@1/${id}${tail}` })],
            ...['resources/read', 'resources/metadata', 'resources/list'].map((method) => [
                `${method} ${tail}`,
                (who, id) => modern(who, method, { uri: `entity:///note@1/${id}${tail}` }, { id: 1 }),
            ]),
        ]),
    ),
    'GET if none match': (who, id) =>
        request(who, { method: 'GET', path: `/entity/note@1/${id}`, headers: { 'If-None-Match': `"${EARLY}"` } }),
    PATCH: (who, id) => request(who, { ...form({ n: 1 }, 'PATCH'), path: `/entity/note@1/${id}?baseline=${EARLY}` }),
    'PATCH if match': (who, id) => {
        const asked = form({ n: 1 }, 'PATCH', 'application/merge-patch+json');
        return request(who, { ...asked, headers: { ...asked.headers, 'If-Match': '*' }, path: `/entity/note@1/${id}` });
    },
    DELETE: (who, id) => request(who, { method: 'DELETE', path: `/entity/note@1/${id}`, headers: { 'If-Match': '*' } }),
    undelete: (who, id) => request(who, { method: 'PUT', path: `/entity/note@1/${id}?undelete=true`, headers: { 'If-Match': '*' } }),
    'PUT of what no schema allows': (who, id) => request(who, { ...form({ n: 'x' }, 'PUT'), path: `/entity/note@1/${id}` }),
    'PUT if match': (who, id) => {
        const asked = form({ n: 1 }, 'PUT');
        return request(who, { ...asked, headers: { ...asked.headers, 'If-Match': `"${EARLY}"` }, path: `/entity/note@1/${id}` });
    },
    ...Object.fromEntries(
        [
            ['delete-entity', {}],
            ['undelete-entity', {}],
            ['get-entity-history', {}],
            ['upsert-entity', { patch: { n: 1 }, baseline: EARLY }],
            ['upsert-entity', { patch: { n: 1 }, onConflict: 'rebase' }],
            ['upsert-entity', { value: { n: 'x' } }],
            ['upsert-entity', { value: { n: 1 }, baseline: EARLY }],
        ].map(([name, args]) => [
            `${name} ${JSON.stringify(args)}`,
            (who, id) => modern(who, 'tools/call', { name, arguments: { ...entity('note', id), ...args } }, { id: 1 }),
        ]),
    ),
    'a transaction that is wrong elsewhere': (who, id) => {
        const operations = [
            { op: 'upsert', ...entity('note', id), value: {} },
            { op: 'upsert', ...entity('note', 'other'), value: { n: 'x' } },
        ];
        return modern(who, 'tools/call', { name: 'transact', arguments: { operations } }, { id: 1 });
    },
    ...Object.fromEntries(
        [
            ['', {}],
            ['', { include: 'patch', baseline: EARLY }],
            ['/patch', { baseline: EARLY }],
            [`/at/${EARLY}`, {}],
        ].map(([tail, options]) => [
            `listen ${tail} ${JSON.stringify(options)}`,
            async (who, id) => {
                const params = { _meta: meta({ 'dev.tidings/options': options }) };
                const { ack, events } = await listen(who, { resourceSubscriptions: [`entity:///note@1/${id}${tail}`] }, { id: 1, params });
                events.close();
                delete ack._meta['dev.tidings/cursor'];
                return { text: JSON.stringify(ack) };
            },
        ]),
    ),
    'resources/subscribe': async (who, id) => {
        const session = await Session.open(who);
        return { text: JSON.stringify((await session.send('resources/subscribe', { uri: `entity:///note@1/${id}` })).json.error) };
    },
    'suggested instants': (who, id) => {
        const ref = { type: 'ref/resource', uri: `entity:///note@1/${id}/at/{timestamp}` };
        const context = { arguments: { entityId: id } };
        return modern(who, 'completion/complete', { ref, argument: { name: 'timestamp', value: '' }, context }, { id: 1 });
    },
};

test('hidden entity types answer every request like missing entities', async (t) => {
    const { ada, bob } = await start(t);
    const made = await upsert(bob, 'vault', 'hidden1', { value: { n: 1 }, validFrom: EARLY });
    assert.equal(made.success, true, JSON.stringify(made));
    assert.equal((await upsert(bob, 'vault', 'hidden1', { value: { n: 2 }, validFrom: LATER })).success, true);
    for (const [name, ask] of Object.entries(questions)) {
        const [denied, absent] = [await ask(ada, 'hidden1'), await ask(ada, 'nothing')].map(whole);
        assert.equal(denied.replaceAll('hidden1', 'nothing'), absent, name);
    }
    /* A client that may see the entity gets its type. */
    const { json } = await modern(bob, 'resources/read', { uri: 'entity:///note@1/hidden1' });
    assert.deepEqual([json.error.data.reason, json.error.data.entityTypeName], ['otherType', 'vault']);
    assert.equal((await upsert(bob, 'note', 'hidden1', { value: {} })).reason, 'otherType');
});

test('entity creation fails without details if a hidden entity has the id', async (t) => {
    const { ada, bob } = await start(t);
    await upsert(bob, 'vault', 'hidden1', { value: { n: 1 } });
    const tools = await upsert(ada, 'note', 'hidden1', { value: { n: 2 } });
    assert.deepEqual(tools, { error: "the id 'hidden1' cannot be used", reason: 'taken' });
    for (const headers of [{}, { 'If-None-Match': '*' }]) {
        const asked = form({ n: 2 }, 'PUT');
        const answer = await request(ada, { ...asked, headers: { ...asked.headers, ...headers }, path: '/entity/note@1/hidden1' });
        assert.deepEqual([answer.status, JSON.parse(answer.text).reason], [headers['If-None-Match'] ? 412 : 409, 'taken']);
        assert.doesNotMatch(answer.text, /vault|current/);
    }
    assert.equal((await tool(bob, 'get-entity-history', entity('vault', 'hidden1'))).versions.length, 1);
});

test('writes go to the newest version of a type that the writer may write', async (t) => {
    const { ada, bob, type } = await start(t);
    await upsert(ada, 'note', 'one', { value: { n: 1 } });
    await type('note', '2');
    assert.equal((await upsert(ada, 'note', 'one', { value: { n: 2 } })).uri, 'entity:///note@1/one');
    const moved = await upsert(bob, 'note', 'one', { value: { n: 3 } });
    assert.equal(moved.uri, 'entity:///note@2/one');
    assert.equal((await tool(ada, 'get-entity-history', entity('note', 'one'))).reason, 'unknownEntity', 'it went');
    const past = await request(ada, { method: 'GET', path: `/entity/note@1/one/at/${moved.validFrom}` });
    assert.deepEqual([past.status, JSON.parse(past.text).reason], [404, 'unknownEntity']);
});

test('completions list only visible entities for every template', async (t) => {
    const { ada, bob } = await start(t);
    await upsert(bob, 'vault', 'hidden1', { value: {} });
    await upsert(bob, 'note', 'shown1', { value: {} });
    const suggest = async (who, uri, name) => {
        const ref = { type: 'ref/resource', uri };
        return (await call(who, 'completion/complete', { ref, argument: { name, value: '' } })).completion.values;
    };
    assert.deepEqual(await suggest(bob, 'entity:///note@1/{entityId}', 'entityId'), ['hidden1', 'shown1']);
    assert.deepEqual(await suggest(ada, 'entity:///note@1/{entityId}', 'entityId'), ['shown1']);
    assert.deepEqual(await suggest(bob, 'entity:///note@1/{entityType}', 'entityType'), ['note', 'vault']);
    assert.deepEqual(await suggest(ada, 'entity:///note@1/{entityType}', 'entityType'), ['note']);
});

test('idempotency key belongs to its creator and to one request', async (t) => {
    const { ada, bob } = await start(t);
    const secret = await upsert(bob, 'vault', 'hidden1', { value: { n: 7 }, idempotencyKey: 'k' });
    assert.equal(secret.success, true);
    /* Another client with the same key: the server stores the entity and shows no data of the first client. */
    const own = await upsert(ada, 'note', 'mine', { value: { n: 1 }, idempotencyKey: 'k' });
    assert.deepEqual([own.success, own.entityId, own.replayed], [true, 'mine', undefined], JSON.stringify(own));
    assert.equal(JSON.parse((await request(ada, { method: 'GET', path: '/entity/note@1/mine' })).text).value.n, 1);
    const again = await upsert(ada, 'note', 'mine', { value: { n: 1 }, idempotencyKey: 'k' });
    assert.deepEqual([again.replayed, again.changed, again.validFrom], [true, false, own.validFrom]);
    /* Another request under the key is an error over every interface. */
    const other = await upsert(ada, 'note', 'mine', { value: { n: 2 }, idempotencyKey: 'k' });
    assert.deepEqual([other.reason, /used for another request/.test(other.error)], ['keyReused', true]);
    const asked = form({ n: 3 }, 'PUT');
    const put = await request(ada, { ...asked, headers: { ...asked.headers, 'If-Match': '*' }, path: '/entity/note@1/mine?idempotencyKey=k' });
    assert.deepEqual([put.status, JSON.parse(put.text).reason], [400, 'keyReused']);
    assert.equal((await tool(ada, 'get-entity-history', entity('note', 'mine'))).versions.length, 1);
});

test('idempotent replay is refused after the read right is revoked', async (t) => {
    const { ada, bob, type } = await start(t);
    const once = { value: { n: 1 }, idempotencyKey: 'k' };
    assert.equal((await upsert(ada, 'note', 'one', { ...once, validFrom: EARLY })).success, true);
    await type('note', '2');
    const keep = { options: { history: false } };
    await tool(bob, 'add-entity-type', { name: 'note', version: '3', jsonSchema: { type: 'object' }, ...keep });
    assert.equal((await upsert(bob, 'note', 'one', { value: { n: 2 } })).uri, 'entity:///note@3/one');
    /* The version that the key created is forgotten; she may not see the current one. */
    const again = await upsert(ada, 'note', 'one', { ...once, validFrom: EARLY });
    assert.deepEqual(again, { error: "there is no entity 'one'", reason: 'unknownEntity' });
});

test('entity version records the authenticated writer and keeps it after a restart', async (t) => {
    const file = new Tree(t).at('store.db');
    const { again, ada, bob } = await start(t, [], file);
    const { events } = await listen(bob, { resourceSubscriptions: ['entity:///note@1/'] });
    const claimed = { changedBy: [{ userId: 'bob' }] };
    const principal = { name: 'ada', by: 'token' };
    assert.deepEqual((await upsert(ada, 'note', 'one', { value: {}, ...claimed })).principal, principal);
    const { params } = await events.message(updates('entity:///note@1/one'), 'the change');
    assert.deepEqual(params.metadata.principal, principal, JSON.stringify(params));
    events.close();
    const refused = await modern(ada, 'tools/call', {
        name: 'upsert-entity',
        arguments: { ...entity('note', 'one'), value: { n: 1 }, principal: { name: 'bob', by: 'token' } },
    });
    assert.ok(refused.json.error ?? refused.json.result.isError, 'it cannot be claimed');
    const [, later] = await again();
    const shown = JSON.parse((await request(later, { method: 'GET', path: '/entity/note@1/one' })).text);
    assert.deepEqual([shown.principal, shown.changedBy], [principal, claimed.changedBy]);
    const [version] = (await tool(later, 'get-entity-history', entity('note', 'one'))).versions;
    assert.deepEqual(version.principal, principal);
});

test('client with the source name of another client hides no change from it', async (t) => {
    const { ada, bob } = await start(t);
    const options = { 'dev.tidings/options': { origin: 'desk', echo: false, initial: false, windowMs: 0 } };
    const { events } = await listen(ada, { resourceSubscriptions: ['entity:///note@1/'] }, { params: { _meta: meta(options) } });
    const told = (id) => updates(`entity:///note@1/${id}`);
    await upsert(bob, 'note', 'his', { value: { n: 1 }, origin: 'desk' });
    await events.message(told('his'), 'what another wrote as desk');
    const asked = form({ n: 2 }, 'PUT');
    await request(bob, { ...asked, path: '/entity/note@1/his2?origin=desk' });
    await events.message(told('his2'), 'what another put as desk');
    await upsert(ada, 'note', 'hers', { value: { n: 1 }, origin: 'desk' });
    await upsert(ada, 'note', 'last', { value: { n: 1 } });
    await events.message(told('last'), 'the last');
    assert.equal(events.messages.filter(told('hers')).length, 0, 'her own');
    events.close();
});
