// SPDX-License-Identifier: MIT
//
// Rejections while no commit succeeds. Several clients write the same thing at once, so their writes share a batch.
// The batch fails, so the committed state never changes: every answer must be a store failure. A rejection because of
// another client's write would report a state that never existed.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { errno, Faults, skip } from './lib/faults.mjs';
import { Connection, request } from './lib/http.mjs';
import { Postgres, skip as noPostgres } from './lib/postgres.mjs';
import { call, freshId, meta, modernHeaders } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';

const WRITERS = 8;
const ROUNDS = process.env.TIDINGS_LONG ? 100 : 6;
const PUBLISHED_MAX = 3;

const entity = (id, headers, n, query = '', type = 'Note') =>
    ({ method: 'PUT', path: `/entity/${type}@1/${id}${query}`, headers, body: JSON.stringify({ n }) });
const resource = (method, name, headers = {}, body = undefined) =>
    ({ method, path: `/resource?uri=${encodeURIComponent(`published:///${name}`)}`, headers, body });
const remove = (id, etag) => ({ method: 'DELETE', path: `/entity/Note@1/${id}`, headers: { 'If-Match': etag } });
const isNew = { 'If-None-Match': '*' };

function tool(name, args) {
    const params = { _meta: meta(), name, arguments: args };
    const headers = {
        'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
        ...modernHeaders('tools/call', params),
    };
    return { headers, body: JSON.stringify({ jsonrpc: '2.0', id: freshId(), method: 'tools/call', params }) };
}

const note = (id) => `entity:///Note@1/${id}`;
const bare = (etag) => etag.replaceAll('"', '');
const create = (id, n) => ({ op: 'upsert', uri: note(id), value: { n } });

/**
 * The concurrent requests of the writers: their number `n` in a round (from 1; the committed values are 0). `etags`
 * are the etags of the committed state.
 */
const races = {
    'creating an entity': (n) => entity('new', isNew, n),
    'writing over a version': (n, { etags }) => entity('base', { 'If-Match': etags.base }, n),
    'deleting and writing': (n, { etags }) =>
        n % 2 ? entity('base', { 'If-Match': etags.base }, n) : remove('base', etags.base),
    'undeleting': (n, { etags }) =>
        ({ method: 'PUT', path: '/entity/Note@1/deleted?undelete=true', headers: { 'If-Match': etags.deleted } }),
    'one key for several requests': (n, { round }) => entity('key', {}, n, `?idempotencyKey=k${round}`),
    'creating it as two types': (n) => entity('typed', {}, n, '', n % 2 ? 'Note' : 'Memo'),
    'adding a type': () => tool('add-entity-type', { name: 'Late', version: '1', jsonSchema: { type: 'object' } }),
    'a tool with a baseline': (n, { etags }) =>
        tool('upsert-entity', { uri: note('base'), value: { n }, baseline: bare(etags.base) }),
    'a transaction with a baseline': (n, { etags }) =>
        tool('transact', { operations: [{ ...create('base', n), baseline: bare(etags.base) }, create(`beside${n}`, n)] }),
    'publishing what is new': (n) => resource('PUT', 'new', isNew, `${n}`),
    'publishing over an etag': (n, { etags }) => resource('PUT', 'base', { 'If-Match': etags.published }, `${n}`),
    'removing what is published': () => resource('DELETE', 'base'),
    'publishing too much': (n) => resource('PUT', `many${n}`, {}, `${n}`),
};

async function written(server, options) {
    const response = await request(server, options);
    assert.ok(response.status < 300, `${options.path}: ${response.status} ${response.text}`);
    return response.headers.get('etag');
}

/** Create the committed state and return its etags. */
async function prepare(server) {
    for (const name of ['Note', 'Memo']) {
        await call(server, 'tools/call', { name: 'add-entity-type', arguments: { name, version: '1', jsonSchema: { type: 'object' } } });
    }
    const etags = { base: await written(server, entity('base', {}, 0)) };
    const first = await written(server, entity('deleted', {}, 0));
    const { headers } = await request(server, remove('deleted', first));
    etags.deleted = headers.get('etag');
    etags.published = await written(server, resource('PUT', 'base', {}, '0'));
    await written(server, resource('PUT', 'other', {}, '0'));
    return etags;
}

/** `reason` of an HTTP or tool answer; undefined after a success. */
function reasonOf({ status, json, text }) {
    const result = json?.result;
    if (status < 300 && (!result || !result.isError)) {
        return undefined;
    }
    return result ? JSON.parse(result.content[0].text).reason : json?.reason ?? `${status} ${text}`;
}

async function race(t, server, breakCommits) {
    const etags = await prepare(server);
    const connections = await Promise.all([...Array(WRITERS)].map(() => Connection.open(server)));
    const ask = (make, round) => Promise.all(connections.map((connection, at) =>
        connection.request(make(at + 1, { etags, round }))));
    await breakCommits(true);
    for (const [what, make] of Object.entries(races)) {
        for (let round = 0; round < ROUNDS; round += 1) {
            const answers = await ask(make, round);
            const unjust = answers.find((answer) => !['storage', 'outcomeUnknown'].includes(reasonOf(answer)));
            assert.ok(!unjust, `${what}, round ${round}: ${unjust?.status} ${unjust?.text}`);
        }
    }
    await breakCommits(false);
    // The same writers with working commits: some writes succeed, and others are rejected.
    const reasons = [];
    for (const make of Object.values(races)) {
        reasons.push(...(await ask(make, 'last')).map(reasonOf));
    }
    for (const reason of [undefined, 'exists', 'conflict', 'keyReused', 'otherType']) {
        assert.ok(reasons.includes(reason), `${reason} is not among ${reasons}`);
    }
    assert.ok(!reasons.includes('storage'), `${reasons}`);
    connections.forEach((connection) => connection.close());
}

const ARGS = ['--allow-write', '--published-max', `${PUBLISHED_MAX}`];

test('full disk rejects no write because of another failed write', { skip }, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'tidings-refusals-'));
    defer(t, () => rmSync(folder, { recursive: true, force: true }));
    const faults = new Faults(t);
    const server = await serve(t, { args: ['--entities', join(folder, 'store.db'), ...ARGS], env: faults.env });
    await race(t, server, (isBroken) =>
        (isBroken ? faults.on({ write: { rate: 1, error: errno.ENOSPC } }) : faults.off()));
});

const skipPostgres = noPostgres || (process.env.TIDINGS_LONG ? false : 'only in a long run');
test('stalled PostgreSQL commit rejects no write because of another failed write', { skip: skipPostgres }, async (t) => {
    const database = await Postgres.start(t);
    const server = await serve(t, { mounts: [], args: ['--entities', database.url(), ...ARGS] });
    await database.sql('CREATE TABLE no_position (position bigint PRIMARY KEY)');
    await race(t, server, (isBroken) => database.sql(isBroken
        ? 'ALTER TABLE tidings_state ADD CONSTRAINT broken FOREIGN KEY (position) REFERENCES no_position'
            + ' DEFERRABLE INITIALLY DEFERRED NOT VALID'
        : 'ALTER TABLE tidings_state DROP CONSTRAINT broken'));
});
