// SPDX-License-Identifier: MIT
//
// Entities over plain HTTP: /entity/{type}@{version}/{id} and what may follow it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';

const ANN = '/entity/User@1.0/ann';
const jsonSchema = {
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'integer', minimum: 0 } },
    required: ['name'],
    additionalProperties: false,
};

const ask = (server, method, path, { body, ...headers } = {}) =>
    fetch(`http://127.0.0.1:${server.port}${path}`, { method, body, headers });
const get = (server, path, headers) => ask(server, 'GET', path, headers);

/** The result of a tool that works. */
async function tool(server, name, args) {
    const result = await call(server, 'tools/call', { name, arguments: args });
    assert.ok(!result.isError, JSON.stringify(result));
    return result.structuredContent;
}

const upsert = (server, uri, value) => tool(server, 'upsert-entity', { uri, value });

async function withUsers(t, ...args) {
    const server = await serve(t, { args: ['--entities', ':memory:', ...args] });
    await tool(server, 'add-entity-type', { name: 'User', version: '1.0', jsonSchema });
    return server;
}

/** The status and the members of a failure that do not depend on its words. */
async function failure(answer) {
    assert.equal(answer.headers.get('content-type'), 'application/json');
    const { error, uri, ...rest } = await answer.json();
    assert.ok(error);
    return [answer.status, rest];
}

test('an entity is read with its etag and time, and not sent to who has it', async (t) => {
    const server = await withUsers(t);
    const first = await upsert(server, ANN, { name: 'Ann' });
    const answer = await get(server, ANN);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-type'), 'application/json');
    assert.equal(answer.headers.get('cache-control'), 'no-cache');
    assert.equal(answer.headers.get('etag'), `"${first.validFrom}"`);
    assert.equal(
        Date.parse(answer.headers.get('last-modified')),
        Math.floor(Date.parse(first.validFrom) / 1000) * 1000,
    );
    const text = await answer.text();
    const { contents } = await call(server, 'resources/read', { uri: ANN });
    assert.equal(text, contents[0].text);
    const head = await ask(server, 'HEAD', ANN);
    assert.equal(head.headers.get('content-length'), String(Buffer.byteLength(text)));
    assert.equal(await head.text(), '');
    const held = await get(server, ANN, { 'if-none-match': `"x", "${first.validFrom}"` });
    assert.equal(held.status, 304);
    assert.equal(held.headers.get('etag'), `"${first.validFrom}"`);
    const second = await upsert(server, ANN, { name: 'Bob' });
    const changed = await get(server, ANN, { 'if-none-match': `"${first.validFrom}"` });
    assert.equal(changed.status, 200);
    assert.equal((await changed.json()).validFrom, second.validFrom);
});

test('what was is kept for good once it has an end, patches are asked for again', async (t) => {
    const server = await withUsers(t);
    const first = await upsert(server, ANN, { name: 'Ann' });
    const path = `${ANN}/at/${first.validFrom}`;
    const open = await get(server, path);
    assert.equal(open.headers.get('cache-control'), 'no-cache');
    const second = await upsert(server, ANN, { name: 'Bob' });
    const closed = await get(server, path, { 'if-none-match': open.headers.get('etag') });
    assert.equal(closed.status, 200, 'its end is new');
    assert.equal((await closed.json()).validTo, second.validFrom);
    assert.equal(closed.headers.get('etag'), `"${first.validFrom}/${second.validFrom}"`);
    assert.equal(closed.headers.get('cache-control'), 'max-age=31536000, immutable');
    const again = await get(server, path, { 'if-none-match': closed.headers.get('etag') });
    assert.equal(again.status, 304);
    assert.equal(again.headers.get('cache-control'), 'max-age=31536000, immutable');

    const patch = await get(server, `${ANN}/patch/${first.validFrom}`);
    assert.deepEqual((await patch.json()).patch, { name: 'Bob' });
    assert.equal(patch.headers.get('cache-control'), 'no-cache');
    assert.equal(patch.headers.get('etag'), `"${second.validFrom}"`);
    const held = { 'if-none-match': `"${second.validFrom}"` };
    assert.equal((await get(server, `${ANN}/patch/${first.validFrom}`, held)).status, 304);
    await upsert(server, ANN, { name: 'Cat' });
    const later = await get(server, `${ANN}/patch/${first.validFrom}`, held);
    assert.deepEqual((await later.json()).patch, { name: 'Cat' });
});

test('what cannot be read is 400, 404 or 410, with a reason', async (t) => {
    const server = await withUsers(t);
    const { validFrom } = await upsert(server, ANN, { name: 'Ann' });
    const stored = { entityTypeName: 'User', entityTypeVersion: '1.0' };
    await upsert(server, `${ANN}a`, { name: 'Anna' });
    const gone = await tool(server, 'delete-entity', { uri: `${ANN}a` });
    for (const [path, status, told] of [
        [`${ANN}b`, 404, { reason: 'unknownEntity' }],
        ['/entity/User@2/ann', 404, { reason: 'otherType', ...stored, current: validFrom }],
        [`${ANN}a`, 410, { reason: 'deleted', ...stored, current: gone.validFrom }],
        [`${ANN}/at/2001-01-01T00:00:00Z`, 404, { reason: 'unknownVersion' }],
        [`${ANN}/at/noon`, 400, { reason: 'invalidTimestamp' }],
        [
            `${ANN}/patch/2001-01-01T00:00:00Z`,
            400,
            { reason: 'unknownBaseline', ...stored, current: validFrom },
        ],
        [`${ANN}?at=${validFrom}`, 400, { reason: 'invalidUri' }],
        [`${ANN}/elsewhere`, 400, { reason: 'invalidUri' }],
        ['/entity/User', 400, { reason: 'invalidUri' }],
        ['/entity/Team@1/', 404, { reason: 'unknownType' }],
    ]) {
        assert.deepEqual(await failure(await get(server, path)), [status, told], path);
    }
    for (const method of ['PUT', 'DELETE']) {
        const answer = await ask(server, method, ANN);
        assert.equal(answer.status, 405, method);
        assert.equal(answer.headers.get('allow'), 'GET, HEAD, OPTIONS');
        assert.match((await answer.json()).error, /--allow-write/);
    }
});

test('types and entities are listed page by page', async (t) => {
    const server = await withUsers(t, '--page-size', '2');
    for (const id of ['a', 'b', 'c', 'd', 'e']) {
        const parentId = id < 'd' ? 'p' : 'q';
        const uri = `/entity/User@1.0/${id}`;
        await tool(server, 'upsert-entity', { uri, value: { name: id }, parentId });
    }
    assert.equal((await (await get(server, '/entity/types')).json())[0].name, 'User');
    const uris = async (path) => {
        const found = [];
        for (let next = ''; next !== undefined; ) {
            const glue = path.includes('?') ? '&' : '?';
            const more = next && `${glue}after=${encodeURIComponent(next)}`;
            const answer = await get(server, `${path}${more}`);
            assert.equal(answer.status, 200, `${path}${more}`);
            assert.equal(answer.headers.get('content-type'), 'application/json');
            const page = await answer.json();
            assert.ok(page.resources.length <= 2);
            found.push(...page.resources.map((r) => r.uri.replace('entity:///', '')));
            next = page.next;
        }
        return found.join(' ');
    };
    assert.equal(await uris('/entity/'), 'User@1.0/ types');
    assert.equal(
        await uris('/entity/User@1.0/'),
        'User@1.0/a User@1.0/b User@1.0/c User@1.0/d User@1.0/e',
    );
    assert.equal(await uris('/entity/User@1.0/?parent=p'), 'User@1.0/a User@1.0/b User@1.0/c');
    assert.equal(
        await uris('/resource?uri=entity%3A%2F%2F%2FUser%401.0%2F%3Fparent%3Dq'),
        'User@1.0/d User@1.0/e',
    );
});

test('without entities there is nothing at their paths', async (t) => {
    const server = await serve(t, {});
    assert.equal((await get(server, ANN)).status, 404);
});

test('pages of others are kept out, and may ask first', async (t) => {
    const server = await withUsers(t, '--allow-origin', 'https://app.example');
    await upsert(server, ANN, { name: 'Ann' });
    const evil = await get(server, ANN, { origin: 'https://evil.example' });
    assert.equal(evil.status, 403);
    const allowed = await ask(server, 'OPTIONS', ANN, {
        origin: 'https://app.example',
        'access-control-request-method': 'GET',
    });
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers.get('access-control-allow-methods'), 'GET, HEAD, OPTIONS');
    const read = await get(server, ANN, { origin: 'https://app.example' });
    assert.equal(read.headers.get('access-control-allow-origin'), 'https://app.example');
    assert.match(read.headers.get('access-control-expose-headers'), /ETag/);
});
