// SPDX-License-Identifier: MIT
//
// "Lumenize (server) URI Template behavior improvements", replayed: its flows with the printed URIs, times and answers,
// under --profile lumenize. Where it prints no JSON ("notifications/resources/updated with full current entity") the
// shape is that of the described system: `title` and `data`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { listen, modern, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';

const URI = '/entity/User@1.0/user123';
const args = ['--entities', ':memory:', '--profile', 'lumenize'];
const changedBy = [{ userId: 'tester' }];
const jsonSchema = {
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'number' } },
    required: ['name'],
};

/** The entity of the document at 10:00; `ask(method, params)` returns the whole answer. */
async function prepare(ask) {
    const call = async (name, given) => {
        const { result } = await ask('tools/call', { name, arguments: given });
        assert.ok(result && !result.isError, JSON.stringify(result));
        return result.structuredContent;
    };
    await call('add-entity-type', { name: 'User', version: '1.0', jsonSchema });
    await call('upsert-entity', {
        uri: URI,
        value: { name: 'First Name', age: 7 },
        parentId: 'root',
        changedBy,
        validFrom: '2024-01-01T10:00:00Z',
    });
    return call;
}

/** On a pipe, which shows the order of messages. */
async function start(t) {
    const pipe = Pipe.open(t, { args });
    const hello = await pipe.handshake('DRAFT-2025-v2');
    assert.equal(hello.protocolVersion, 'DRAFT-2025-v2');
    const ask = (method, params) => pipe.ask(method, params);
    return { pipe, ask, call: await prepare(ask) };
}

/** The messages since a request, in order: its answer and `count` updates. */
async function said(pipe, id, request, count) {
    const from = pipe.stdout.seen.length;
    await pipe.write({ jsonrpc: '2.0', id, ...request });
    for (let i = 0; i < count; i += 1) {
        await pipe.message((m) => m.method === 'notifications/resources/updated', 'an update');
    }
    await pipe.message((m) => m.id === id && !m.method, 'the answer');
    const lines = pipe.stdout.seen.slice(from).map((line) => JSON.parse(line));
    return lines.filter((m) => m.id === id || m.method === 'notifications/resources/updated');
}

// ---- 1. Current Entity Resource ---------------------------------------------------------------

test('1: subscriber receives {}, then the whole entity, then each change of it', async (t) => {
    const { pipe, call } = await start(t);
    const [answer, first, ...more] = await said(
        pipe,
        1,
        { method: 'resources/subscribe', params: { uri: '/entity/User@1.0/user123' } },
        1,
    );
    assert.deepEqual(answer, { jsonrpc: '2.0', id: 1, result: {} }); // as printed
    assert.deepEqual(more, []);
    assert.deepEqual(first, {
        jsonrpc: '2.0',
        method: 'notifications/resources/updated',
        params: {
            uri: '/entity/User@1.0/user123',
            title: 'Entity User@1.0: user123',
            data: {
                entityId: 'user123',
                validFrom: '2024-01-01T10:00:00.000Z',
                validTo: '9999-01-01T00:00:00.000Z',
                changedBy,
                deleted: false,
                parentId: 'root',
                entityTypeName: 'User',
                entityTypeVersion: '1.0',
                value: { name: 'First Name', age: 7 },
            },
        },
    });
    // [Later]
    await call('upsert-entity', { uri: URI, value: { name: 'Second Name' }, changedBy });
    const next = await pipe.message(updates(URI), 'the change');
    assert.deepEqual(next.params.data.value, { name: 'Second Name' });
    assert.ok(next.params.data.validFrom > '2024-01-01T10:00:00.000Z');
});

test('1: deletion and restoration are reported as such', async (t) => {
    const { pipe, ask, call } = await start(t);
    await ask('resources/subscribe', { uri: URI });
    await pipe.message(updates(URI), 'the entity');
    await call('delete-entity', { uri: URI, changedBy });
    const gone = await pipe.message(updates(URI), 'its deletion');
    assert.equal(gone.params.data.deleted, true);
    assert.deepEqual(gone.params.data.changedBy, changedBy);
    assert.equal((await ask('resources/read', { uri: URI })).error.code, -32602);
    await call('undelete-entity', { uri: URI, changedBy });
    const back = await pipe.message(updates(URI), 'its return');
    assert.equal(back.params.data.deleted, false);
    assert.deepEqual(back.params.data.value, { name: 'First Name', age: 7 });
});

test('1: resources/read and GET read the entity', async (t) => {
    const server = await serve(t, { args, mounts: [] });
    const session = await Session.open(server, 'DRAFT-2025-v2');
    await prepare(async (method, params) => ({ result: await session.call(method, params) }));
    const { contents } = await session.call('resources/read', { uri: URI });
    assert.equal(contents[0].uri, URI);
    assert.equal(contents[0].mimeType, 'application/json');
    const read = JSON.parse(contents[0].text);
    assert.deepEqual(read.value, { name: 'First Name', age: 7 });
    const got = await request(server, { method: 'GET', path: URI });
    assert.equal(got.status, 200);
    assert.deepEqual(got.json, read);
    assert.equal((await request(server, { method: 'GET', path: `${URI}4` })).status, 404);
});

test('1: unsubscribing is confirmed the first time and again (never wrapped twice)', async (t) => {
    const { ask } = await start(t);
    await ask('resources/subscribe', { uri: URI });
    for (let i = 0; i < 2; i += 1) {
        const { result } = await ask('resources/unsubscribe', { uri: URI });
        assert.deepEqual(result, { unsubscribed: true, uri: URI });
    }
});

// ---- 2. Patch Update/Subscribe Resource -------------------------------------------------------

test('2a: patch from a baseline is applied', async (t) => {
    const { ask } = await start(t);
    const { result } = await ask('tools/call', {
        name: 'upsert-entity',
        arguments: {
            uri: '/entity/User@1.0/user123/patch',
            baseline: '2024-01-01T10:00:00Z',
            patch: { name: 'Updated Name' },
            validFrom: '2024-01-01T10:05:00Z',
        },
    });
    // Printed is {"success": true, "newValidFrom": "2024-01-01T10:05:00Z"}. Times have milliseconds, and the answer
    // also has the members that MCP requires of a tool result.
    const { content, structuredContent, ...rest } = result;
    assert.deepEqual(rest, { success: true, newValidFrom: '2024-01-01T10:05:00.000Z' });
    assert.deepEqual(structuredContent.value, { name: 'Updated Name', age: 7 });
    assert.deepEqual(JSON.parse(content[0].text), structuredContent);
});

test('2a: patch from an older baseline is applied to the current state', async (t) => {
    const { ask, call } = await start(t);
    const second = await call('upsert-entity', { uri: URI, value: { name: 'Second Name', age: 8 }, changedBy });
    const patch = { uri: `${URI}/patch`, baseline: '2024-01-01T10:00:00Z', patch: { name: 'Updated Name' } };
    const third = await call('upsert-entity', patch);
    assert.deepEqual(third.value, { name: 'Updated Name', age: 8 });
    assert.ok(third.newValidFrom > second.newValidFrom);
    // Clients request conflict reports explicitly.
    const { error } = await ask('tools/call', { name: 'upsert-entity', arguments: { ...patch, onConflict: 'fail' } });
    assert.deepEqual([error.code, error.data.reason, error.data.current], [-32602, 'conflict', third.newValidFrom]);
});

test('2a: invalid baselines and properties outside the schema are refused', async (t) => {
    const { ask } = await start(t);
    const upsert = (given) =>
        ask('tools/call', { name: 'upsert-entity', arguments: { uri: `${URI}/patch`, ...given } });
    const refused = async (given, code, reason, text) => {
        const { error } = await upsert(given);
        assert.deepEqual([error.code, error.data.reason], [code, reason], JSON.stringify(given));
        assert.match(error.message, text);
    };
    await refused({ patch: { name: 'x' } }, -32602, 'invalid', /needs the baseline/);
    await refused(
        { patch: { name: 'x' }, baseline: '2024-01-01T09:00:00Z' },
        -32603,
        'unknownBaseline',
        /no version of 'user123' begins at 2024-01-01T09:00:00.000Z/,
    );
    await refused(
        { patch: { nickname: 'x' }, baseline: '2024-01-01T10:00:00Z' },
        -32603,
        'validation',
        /'nickname' is not allowed/,
    );
    const { result } = await upsert({ patch: { age: null }, baseline: '2024-01-01T10:00:00Z' });
    assert.deepEqual(result.structuredContent.value, { name: 'First Name' });
});

test('2a: invalid baseline is logged', async (t) => {
    const server = await serve(t, { args, mounts: [] });
    const session = await Session.open(server);
    await prepare(async (method, params) => ({ result: await session.call(method, params) }));
    const given = { uri: `${URI}/patch`, patch: { name: 'x' }, baseline: '2024-01-01T09:00:00Z' };
    const { json } = await session.send('tools/call', { name: 'upsert-entity', arguments: given });
    assert.equal(json.error.code, -32603);
    const said = (line) => / method=tools\/call .*no version of 'user123' begins at/.test(line);
    await server.lines.next(said, 'a line of the log');
});

for (const name of ['baseline', 'initialBaseline']) {
    test(`2b: patch subscription with "${name}" receives the outcome, then patch by patch`, async (t) => {
        const { pipe, call } = await start(t);
        await call('upsert-entity', {
            uri: `${URI}/patch`,
            baseline: '2024-01-01T10:00:00Z',
            patch: { name: 'Updated Name' },
            validFrom: '2024-01-01T10:05:00Z',
            changedBy,
        });
        const [answer, first] = await said(
            pipe,
            1,
            {
                method: 'resources/subscribe',
                params: { uri: '/entity/User@1.0/user123/patch', [name]: '2024-01-01T10:00:00Z' },
            },
            1,
        );
        assert.deepEqual(answer, { jsonrpc: '2.0', id: 1, result: {} }); // as printed
        assert.equal(first.params.uri, '/entity/User@1.0/user123/patch');
        assert.equal(first.params.title, 'Entity User@1.0: user123');
        const { data } = first.params;
        assert.deepEqual(data.patch, { name: 'Updated Name' });
        // "includes the baseline (in the validFrom field)": `baseline` is the version to which it applies, `validFrom`
        // the resulting version.
        assert.equal(data.baseline, '2024-01-01T10:00:00.000Z');
        assert.equal(data.validFrom, '2024-01-01T10:05:00.000Z');
        assert.equal(data.value, undefined);
        // [Later], with a deletion, which the described system omits.
        let at = data.validFrom;
        for (const patch of [{ age: null }, { name: 'Third Name', age: 8 }]) {
            const { newValidFrom } = await call('upsert-entity', { uri: `${URI}/patch`, baseline: at, patch });
            const { params } = await pipe.message(updates(`${URI}/patch`), 'the next patch');
            assert.deepEqual(params.data.patch, patch);
            assert.equal(params.data.baseline, at);
            assert.equal(params.data.validFrom, newValidFrom);
            at = newValidFrom;
        }
    });
}

test('2b: patch subscription is refused with a missing or invalid baseline', async (t) => {
    const { ask } = await start(t);
    for (const baseline of [{}, { baseline: '2024-01-01T09:00:00Z' }, { baseline: 7 }]) {
        const { error } = await ask('resources/subscribe', { uri: `${URI}/patch`, ...baseline });
        assert.ok(error, JSON.stringify(baseline));
    }
});

// ---- 3. Patch Read Resource, 4. Historical Point-in-Time Resource -----------------------------

test('3 and 4: changes since a version and state at an instant are read-only', async (t) => {
    const server = await serve(t, { args, mounts: [] });
    const session = await Session.open(server);
    const call = await prepare(async (method, params) => ({ result: await session.call(method, params) }));
    await call('upsert-entity', {
        uri: `${URI}/patch`,
        baseline: '2024-01-01T10:00:00Z',
        patch: { name: 'Updated Name', age: null },
        validFrom: '2024-01-01T10:05:00Z',
    });
    const read = async (uri) => {
        const { contents } = await session.call('resources/read', { uri });
        const got = await request(server, { method: 'GET', path: uri });
        assert.equal(got.status, 200, got.text);
        const value = JSON.parse(contents[0].text);
        assert.deepEqual(got.json, value, 'GET says the same');
        return value;
    };
    const patch = await read('/entity/User@1.0/user123/patch/2024-01-01T10:00:00Z');
    assert.deepEqual(patch.patch, { name: 'Updated Name', age: null });
    const then = await read('/entity/User@1.0/user123/at/2024-01-01T10:00:00Z');
    assert.deepEqual(then.value, { name: 'First Name', age: 7 });
    assert.equal(then.at, '2024-01-01T10:00:00.000Z');
    // The old spellings are gone: "remove the patchFrom search param", "remove the at search param".
    for (const query of ['?patchFrom=2024-01-01T10:00:00Z', '?at=2024-01-01T10:00:00Z']) {
        const { json } = await session.send('resources/read', { uri: `${URI}${query}` });
        assert.ok(json.error, query);
    }
    // "Throws an error if the baselineTimestamp does not match any snapshot"
    const unknown = await session.send('resources/read', { uri: `${URI}/patch/2024-01-01T09:00:00Z` });
    assert.equal(unknown.json.error.code, -32603);
    // "No subscription capability"
    for (const uri of [`${URI}/patch/2024-01-01T10:00:00Z`, `${URI}/at/2024-01-01T10:00:00Z`]) {
        const { json } = await session.send('resources/subscribe', { uri });
        assert.equal(json.error.code, -32602, uri);
    }
});

test('four templates are listed as printed with those of the types and a cursor is ignored', async (t) => {
    const absolute = 'https://entities.example/universe/u/galaxy/g/star/s';
    for (const [base, more] of [['/entity/', []], [`${absolute}/entity/`, ['--entity-authority', absolute]]]) {
        const server = await serve(t, { args: [...args, ...more], mounts: [] });
        const session = await Session.open(server, 'DRAFT-2025-v2');
        const result = await session.call('resources/templates/list', { cursor: 'none' });
        const rows = result.resourceTemplates.map((row) => [row.name, row.uriTemplate, row.mimeType]);
        assert.deepEqual(rows, [
            ['Entity Type Registry', 'types'],
            ['Current Entity', '{entityType}@{entityTypeVersion}/{entityId}'],
            ['Entity Patch Update and Subscribe', '{entityType}@{entityTypeVersion}/{entityId}/patch'],
            ['Get Entity Patch from Baseline', '{entityType}@{entityTypeVersion}/{entityId}/patch/{baselineTimestamp}'],
            ['Historical Entity', '{entityType}@{entityTypeVersion}/{entityId}/at/{timestamp}'],
        ].map(([name, rest]) => [name, `${base}${rest}`, 'application/json']));
        assert.equal(result.nextCursor, undefined);
    }
});

// ---- Key Implementation Requirements ----------------------------------------------------------

test('every version has its own validFrom and they only rise', async (t) => {
    const { call } = await start(t);
    const seen = ['2024-01-01T10:00:00.000Z'];
    for (const name of ['a', 'b', 'c']) {
        // The same instant repeatedly: each version starts after the previous one.
        const given = { uri: URI, value: { name }, validFrom: '2024-01-01T10:00:00Z' };
        const { newValidFrom } = await call('upsert-entity', given);
        assert.ok(newValidFrom > seen.at(-1), `${newValidFrom} after ${seen.at(-1)}`);
        seen.push(newValidFrom);
    }
});

test('errors have the codes of that system', async (t) => {
    const { ask } = await start(t);
    const code = async (method, params) => (await ask(method, params)).error.code;
    assert.equal(await code('resources/read', { uri: '/entity/User@1.0/nobody' }), -32602);
    assert.equal(await code('resources/read', {}), -32602);
    assert.equal(await code('resources/read', { uri: 'no uri' }), -32603);
    assert.equal(await code('resources/read', { uri: '/entity/User/user123' }), -32603);
    assert.equal(await code('no/such'), -32601);
    // Refused calls are also errors: invalid parameters, missing entities and all others.
    const call = (name, given) => code('tools/call', { name, arguments: given });
    const nobody = '/entity/User@1.0/nobody';
    assert.equal(await call('upsert-entity', { uri: URI, value: 1, nonsense: true }), -32602);
    assert.equal(await call('delete-entity', { uri: nobody, changedBy }), -32602);
    assert.equal(await call('upsert-entity', { uri: nobody, value: { age: 'old' }, changedBy }), -32603);
    assert.equal(await call('add-entity-type', { name: 'User', version: '1.0', jsonSchema }), -32603);
});

// ---- unaffected by the profile ----------------------------------------------------------------

test('modern era is unchanged', async (t) => {
    const server = await serve(t, { args, mounts: [] });
    const session = await Session.open(server);
    await prepare(async (method, params) => ({ result: await session.call(method, params) }));
    const { events } = await listen(server, { resourceSubscriptions: [URI] });
    const { params } = await events.message(updates(URI));
    assert.equal(params.data, undefined);
    const [element] = params._meta['dev.tidings/data'];
    assert.deepEqual(JSON.parse(element.text).value, { name: 'First Name', age: 7 });
    const { json } = await modern(server, 'resources/read', { uri: 'no uri' });
    assert.equal(json.error.code, -32602);
    const stale = { uri: `${URI}/patch`, patch: { name: 'x' }, baseline: '2024-01-01T09:00:00Z' };
    const refused = await modern(server, 'tools/call', { name: 'upsert-entity', arguments: stale });
    assert.equal(refused.json.result.isError, true);
    const templates = await modern(server, 'resources/templates/list');
    assert.match(templates.json.result.resourceTemplates[0].uriTemplate, /^entity:/);
});
