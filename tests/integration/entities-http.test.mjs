// SPDX-License-Identifier: MIT
//
// Entities over plain HTTP: /entity/{type}@{version}/{id} and its suffixes.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call, listen, meta, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { isUpdate } from './lib/subscriber.mjs';
import { ERAS } from './lib/watcher.mjs';

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

/** The result of a successful tool call. */
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

/** The status and the members of a failure, without messages. */
async function failure(answer) {
    assert.equal(answer.headers.get('content-type'), 'application/json');
    const { error, uri, ...rest } = await answer.json();
    assert.ok(error);
    return [answer.status, rest];
}

test('entity is read with its etag and time and answered with 304 if current', async (t) => {
    const server = await withUsers(t);
    const first = await upsert(server, ANN, { name: 'Ann' });
    const answer = await get(server, ANN);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-type'), 'application/json');
    assert.equal(answer.headers.get('cache-control'), 'no-cache');
    assert.equal(answer.headers.get('etag'), `"${first.validFrom}"`);
    /* The second of the write, or the previous one until it is over. */
    const age = Math.floor(Date.parse(first.validFrom) / 1000) - Date.parse(answer.headers.get('last-modified')) / 1000;
    assert.ok(age === 0 || age === 1, `${age} s`);
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

test('closed versions are cached permanently and patches are revalidated', async (t) => {
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

test('unreadable entity is 400, 404 or 410 with a reason', async (t) => {
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
        ['/entity/User', 404, { reason: 'unknownEntity' }],
        ['/entity/User/ann', 400, { reason: 'invalidUri' }],
        ['/entity/Team@1/', 404, { reason: 'unknownType' }],
    ]) {
        assert.deepEqual(await failure(await get(server, path)), [status, told], path);
    }
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
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

test('paths of entities do not exist without entities', async (t) => {
    const server = await serve(t, {});
    assert.equal((await get(server, ANN)).status, 404);
});

test('pages of other origins are rejected and may send a preflight', async (t) => {
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

// ---- writing -------------------------------------------------------------------------------------

const writable = (t, ...args) => withUsers(t, '--allow-write', ...args);
const json = (value) => ({ body: JSON.stringify(value), 'content-type': 'application/json' });
const match = (version) => ({ 'if-match': `"${version}"` });

test('entity is put, patched, deleted and restored over HTTP', async (t) => {
    const server = await writable(t);
    const created = await ask(server, 'PUT', `${ANN}?changedBy=tester&parentId=p`, json({ name: 'Ann' }));
    assert.equal(created.status, 201);
    const first = await created.json();
    assert.equal(created.headers.get('etag'), `"${first.validFrom}"`);
    assert.deepEqual(first.changedBy, [{ userId: 'tester' }]);
    assert.equal(first.parentId, 'p');
    assert.equal(first.uri, 'entity:///User@1.0/ann');
    assert.equal((await get(server, ANN)).headers.get('etag'), created.headers.get('etag'));

    const put = await ask(server, 'PUT', ANN, {
        ...json({ name: 'Ann', age: 7 }),
        'if-match': created.headers.get('etag'),
    });
    assert.equal(put.status, 200);
    const second = await put.json();
    assert.equal(second.parentId, 'p', 'it stays');
    assert.ok(second.validFrom > first.validFrom);

    const by = encodeURIComponent(JSON.stringify([{ userId: 'a', impersonatedBy: 'b' }]));
    const patched = await ask(server, 'PATCH', `${ANN}/patch?changedBy=${by}&parentId=`, {
        body: '{"age":null}',
        'content-type': 'application/merge-patch+json',
        ...match(second.validFrom),
    });
    assert.equal(patched.status, 200);
    const third = await patched.json();
    assert.deepEqual(third.value, { name: 'Ann' });
    assert.deepEqual(third.changedBy, [{ userId: 'a', impersonatedBy: 'b' }]);
    assert.equal(third.parentId, null);

    const same = await ask(server, 'PUT', ANN, { ...json({ name: 'Ann' }), 'if-match': '*' });
    assert.equal(same.status, 200);
    const { changed, validFrom } = await same.json();
    assert.deepEqual([changed, validFrom], [false, third.validFrom]);

    const removed = await ask(server, 'DELETE', ANN, match(third.validFrom));
    assert.equal(removed.status, 204);
    assert.equal(await removed.text(), '');
    const gone = removed.headers.get('etag');
    assert.equal((await get(server, ANN)).status, 410);
    const again = await ask(server, 'DELETE', ANN, { 'if-match': '*' });
    assert.equal(again.status, 204, 'it is deleted already');
    assert.equal(again.headers.get('etag'), gone);
    assert.equal((await ask(server, 'PUT', ANN, { ...json({ name: 'X' }), 'if-match': gone })).status, 410);
    const back = await ask(server, 'PUT', `${ANN}?undelete=true`, { 'if-match': gone });
    assert.equal(back.status, 200);
    assert.deepEqual((await back.json()).value, { name: 'Ann' });
    assert.equal((await get(server, ANN)).status, 200);
});

test('write from another version is 412, or 409 without If-Match, and lists the changes', async (t) => {
    const server = await writable(t);
    const first = await upsert(server, ANN, { name: 'Ann' });
    const second = await upsert(server, ANN, { name: 'Bob' });
    const conflict = {
        reason: 'conflict',
        current: second.validFrom,
        patchFromBaseline: { name: 'Bob' },
    };
    const stale = match(first.validFrom);
    for (const [method, body] of [['PUT', json({ name: 'X' })], ['PATCH', json({ age: 1 })], ['DELETE', {}]]) {
        const answer = await ask(server, method, ANN, { ...body, ...stale });
        assert.deepEqual(await failure(answer), [412, conflict], method);
        const asked = await ask(server, method, `${ANN}?baseline=${first.validFrom}`, body);
        assert.deepEqual(await failure(asked), [409, conflict], method);
        const odd = await ask(server, method, ANN, { ...body, 'if-match': '"no-time"' });
        assert.deepEqual(await failure(odd), [412, { reason: 'unknownBaseline' }], method);
        const never = await ask(server, method, ANN, { ...body, ...match('2001-01-01T00:00:00.000Z') });
        assert.deepEqual(await failure(never), [412, { reason: 'unknownBaseline' }], method);
    }
    const rebased = await ask(server, 'PATCH', `${ANN}?onConflict=rebase`, { ...json({ age: 1 }), ...stale });
    assert.deepEqual((await rebased.json()).value, { name: 'Bob', age: 1 });
    const latest = await ask(server, 'PATCH', ANN, { ...json({ age: 2 }), 'if-match': '*' });
    assert.deepEqual((await latest.json()).value, { name: 'Bob', age: 2 });
});

test('change of an existing entity needs its version: 428', async (t) => {
    const server = await writable(t);
    const { validFrom } = await upsert(server, ANN, { name: 'Ann' });
    const required = [428, { reason: 'conditionRequired', current: validFrom }];
    assert.deepEqual(await failure(await ask(server, 'PUT', ANN, json({ name: 'X' }))), required);
    assert.deepEqual(await failure(await ask(server, 'DELETE', ANN)), required);
    const patch = await failure(await ask(server, 'PATCH', ANN, json({ age: 1 })));
    assert.deepEqual(patch, [428, { reason: 'conditionRequired' }]);
    assert.equal((await (await get(server, ANN)).json()).validFrom, validFrom);
});

test('conditional put is limited to missing or to existing entities', async (t) => {
    const server = await writable(t);
    const fresh = { ...json({ name: 'Ann' }), 'if-none-match': '*' };
    assert.equal((await ask(server, 'PUT', ANN, { ...json({ name: 'A' }), 'if-match': '*' })).status, 412);
    const created = await ask(server, 'PUT', ANN, fresh);
    assert.equal(created.status, 201);
    const { validFrom } = await created.json();
    const refused = await failure(await ask(server, 'PUT', ANN, fresh));
    assert.deepEqual(refused, [412, { reason: 'exists', current: validFrom }]);
    for (const method of ['PATCH', 'DELETE']) {
        const answer = await ask(server, method, `${ANN}x`, { ...(method === 'PATCH' && json({})), 'if-match': '*' });
        assert.deepEqual(await failure(answer), [404, { reason: 'unknownEntity' }], method);
    }
});

test('invalid write is reported with its place and rule', async (t) => {
    const server = await writable(t);
    const { validFrom } = await upsert(server, ANN, { name: 'Ann' });
    const any = { 'if-match': '*' };
    for (const [method, path, fields, status, told] of [
        ['PUT', ANN, json({ name: 'A', age: -1 }), 400, { reason: 'validation', path: '/age' }],
        ['PATCH', ANN, json({ colour: 'red' }), 400, { reason: 'validation' }],
        ['PUT', ANN, { body: '{', 'content-type': 'application/json' }, 400, { reason: 'invalid' }],
        ['PUT', ANN, { body: 'x', 'content-type': 'text/plain' }, 415, { reason: 'format' }],
        ['PUT', ANN, { body: '{}', 'content-type': 'application/merge-patch+json' }, 415, { reason: 'format' }],
        ['PATCH', ANN, { body: '[]', 'content-type': 'application/json-patch+json' }, 415, { reason: 'format' }],
        ['PATCH', ANN, json([]), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}/patch`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?colour=red`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?origin=a&origin=b`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?changedBy=[]`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?changedBy=[`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?changedBy=[7]`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?undelete=true`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?onConflict=merge`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', `${ANN}?validFrom=noon`, json({ name: 'A' }), 400, { reason: 'invalid' }],
        ['PUT', '/entity/Team@1/t', json({}), 404, { reason: 'unknownType' }],
        ['PATCH', '/entity/User@2/ann', json({}), 404, { reason: 'unknownType' }],
        ['DELETE', '/entity/User@2/ann', {}, 404, { reason: 'otherType', entityTypeVersion: '1.0' }],
        ['PUT', `${ANN}/at/${validFrom}`, json({ name: 'A' }), 405, { reason: 'unsupported' }],
        ['DELETE', '/entity/User@1.0/', {}, 405, { reason: 'unsupported' }],
    ]) {
        const [got, rest] = await failure(await ask(server, method, path, { ...any, ...fields }));
        const where = `${method} ${path} ${fields.body}`;
        assert.equal(got, status, where);
        assert.deepEqual({ ...rest, ...told }, rest, where);
    }
    const both = await ask(server, 'PUT', `${ANN}?baseline=${validFrom}`, { ...json({ name: 'A' }), ...match(validFrom) });
    assert.match((await both.json()).error, /If-Match/);
    assert.equal((await (await get(server, ANN)).json()).validFrom, validFrom, 'nothing was written');
    const post = await ask(server, 'POST', ANN, json({}));
    assert.equal(post.status, 405);
    assert.equal(post.headers.get('allow'), 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS');
});

test('id of another type is a conflict: 409', async (t) => {
    const server = await writable(t);
    await tool(server, 'add-entity-type', { name: 'Team', version: '1', jsonSchema: {} });
    await upsert(server, ANN, { name: 'Ann' });
    const answer = await ask(server, 'PUT', '/entity/Team@1/ann', json({}));
    const [status, { reason, entityTypeName }] = await failure(answer);
    assert.deepEqual([status, reason, entityTypeName], [409, 'otherType', 'User']);
});

test('request with a repeated key runs once', async (t) => {
    const server = await writable(t);
    const put = () => ask(server, 'PUT', `${ANN}?idempotencyKey=k%201`, json({ name: 'Ann' }));
    const first = await put();
    assert.equal(first.status, 201);
    const { validFrom } = await first.json();
    await upsert(server, ANN, { name: 'Bob' });
    const second = await put();
    assert.equal(second.status, 200);
    const told = await second.json();
    assert.deepEqual([told.replayed, told.changed, told.validFrom], [true, false, validFrom]);
    const args = { uri: ANN, value: { name: 'Cat' }, idempotencyKey: 'k2' };
    const third = await tool(server, 'upsert-entity', args);
    assert.deepEqual(await tool(server, 'upsert-entity', args), { ...third, changed: false, replayed: true });
});

test('exactly one of many writers from one version succeeds', async (t) => {
    const server = await writable(t);
    const { validFrom } = await upsert(server, ANN, { name: 'Ann' });
    const answers = await Promise.all(
        Array.from({ length: 16 }, (_, age) =>
            ask(server, 'PATCH', ANN, { ...json({ age }), ...match(validFrom) }),
        ),
    );
    const statuses = answers.map((a) => a.status).sort();
    assert.deepEqual(statuses, [200, ...Array(15).fill(412)]);
});

for (const era of ERAS) {
    test(`subscribers receive writes over HTTP except their own (${era})`, async (t) => {
        const server = await writable(t);
        const { validFrom } = await upsert(server, ANN, { name: 'Ann' });
        const _meta = { 'dev.tidings/options': { origin: 'me', echo: false, initial: false } };
        let events;
        if (era === 'modern') {
            const params = { _meta: meta(_meta) };
            ({ events } = await listen(server, { resourceSubscriptions: [ANN] }, { params }));
        } else {
            const session = await Session.open(server);
            events = await session.stream();
            await session.call('resources/subscribe', { uri: ANN, _meta });
        }
        const change = (origin, age, etag) =>
            ask(server, 'PATCH', `${ANN}?origin=${origin}`, { ...json({ age }), 'if-match': etag });
        const own = await change('me', 1, `"${validFrom}"`);
        await change('you', 2, own.headers.get('etag'));
        const update = await events.message(isUpdate, 'the write of another');
        const [data] = update.params._meta['dev.tidings/data'];
        assert.equal(JSON.parse(data.text).value.age, 2);
        events.close();
    });
}

test('published resources take no patches and entities are written by any spelling', async (t) => {
    const server = await writable(t);
    const note = '/resource?uri=published%3A%2F%2F%2Fnote';
    assert.equal((await ask(server, 'PUT', note, { body: 'x' })).status, 201);
    const patch = await ask(server, 'PATCH', note, json({}));
    assert.equal(patch.status, 405);
    assert.equal(patch.headers.get('allow'), 'GET, HEAD, PUT, DELETE, OPTIONS');
    const uri = '/resource?uri=entity%3A%2F%2F%2FUser%401.0%2Fann&parentId=p';
    const put = await ask(server, 'PUT', uri, json({ name: 'Ann' }));
    assert.equal(put.status, 201);
    assert.equal((await put.json()).parentId, 'p');
});
