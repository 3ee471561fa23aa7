// SPDX-License-Identifier: MIT
//
// Answers during a database outage: clients learn when to retry, but not the address of the database. The log has the
// database error.

import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call, listen, meta, modern, post, Session } from './lib/rpc.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';
import { ERAS } from './lib/watcher.mjs';

const X = 'published:///x';
const E = 'entity:///T@1/unread';
const tool = (server, name, args) => modern(server, 'tools/call', { name, arguments: args });
const plain = (server, method, path, body) =>
    request(server, { method, path, headers: { 'Content-Type': 'application/json' }, body });

/** All client requests that need the database. */
const asking = {
    'read an entity': (s) => modern(s, 'resources/read', { uri: E }),
    'list entities': (s) => modern(s, 'resources/list', { uri: 'entity:///' }),
    'read from another node': (s) => modern(s, 'resources/read', { uri: X, _meta: meta({ 'dev.tidings/atLeast': s.cursor }) }),
    upsert: (s) => tool(s, 'upsert-entity', { uri: E, value: {} }),
    publish: (s) => tool(s, 'publish', { uri: X, text: 'y' }),
    unpublish: (s) => tool(s, 'unpublish', { uri: X }),
    notify: (s) => tool(s, 'notify', { changes: [{ uri: X }] }),
    'POST /notify': (s) => plain(s, 'POST', '/notify', JSON.stringify({ changes: [{ uri: X }] })),
    'GET an entity': (s) => plain(s, 'GET', `/resource?uri=${encodeURIComponent(E)}`),
    PUT: (s) => plain(s, 'PUT', `/resource?uri=${encodeURIComponent(X)}`, '{}'),
    DELETE: (s) => plain(s, 'DELETE', `/resource?uri=${encodeURIComponent(X)}`),
    'PUT an entity': (s) => plain(s, 'PUT', `/resource?uri=${encodeURIComponent(E)}`, '{}'),
    'a session of another node': (s) => post(s, { jsonrpc: '2.0', id: 1, method: 'ping' },
        { 'Mcp-Session-Id': s.foreign, 'MCP-Protocol-Version': '2025-11-25' }),
    'tasks/get': (s) => modern(s, 'tasks/get', { taskId: '00000000000000000000000000000000' }),
    nodes: (s) => modern(s, 'resources/read', { uri: 'tidings://self/nodes' }),
};

const start = async (t, store) => {
    const args = ['--entities', store, '--allow-write', '--self', '--change-tools', 'on'];
    const server = await serve(t, { mounts: [], args });
    await tool(server, 'add-entity-type', { name: 'T', version: 1, jsonSchema: {} }); // or it exists
    await call(server, 'tools/call', { name: 'publish', arguments: { uri: X, text: 'x' } });
    return server;
};

const secrets = ({ port, folder }) =>
    [`${port}`, '127.0.0.1', folder, 'postgres', 'tidings@', 'user \\"', 'role \\"', 'pg_hba', 'tidings_', 'hidden'];

test('clients of a node survive a database outage', { skip }, async (t) => {
    const database = await Postgres.start(t);
    chmodSync(database.folder, 0o755); // for a server that dropped its root privileges
    const other = await start(t, database.url());
    await tool(other, 'upsert-entity', { uri: E, value: {} }); // before the others start; they never read it
    const nodes = { 'by TCP': await start(t, database.url()), 'by a socket': await start(t, database.socketUrl) };
    const { cursor } = (await call(other, 'tools/call', { name: 'changes_since', arguments: { uris: [X] } })).structuredContent;
    const foreign = (await Session.open(other)).id;
    await database.stop();
    for (const [how, server] of Object.entries(nodes)) {
        await t.test(`refusal_has_a_retry_time: ${how}`, async () => {
            const later = { reason: 'unavailable', retryAfterMs: 1000 };
            const { ack, events } = await listen(server, { resourceSubscriptions: [E] });
            assert.deepEqual(ack._meta['dev.tidings/refused'].map(({ uri, data }) => ({ uri, data })), [{ uri: E, data: later }]);
            events.close();
            const session = await Session.open(server);
            const { json } = await session.send('resources/subscribe', { uri: E });
            assert.deepEqual(json.error.data, { uri: E, ...later });
            assert.deepEqual((await modern(server, 'resources/read', { uri: E })).json.error.data, { uri: E, ...later });
            const { json: moved, headers } = await asking['a session of another node'](Object.assign(Object.create(server), { foreign }));
            assert.deepEqual([moved.error.data, headers.get('retry-after')], [later, '1']);
            const got = await asking['GET an entity'](server);
            assert.deepEqual([got.status, JSON.parse(got.text).reason, got.headers.get('retry-after')], [503, 'unavailable', '1']);
        });
    }
    await t.test('client_watches_after_the_database_outage', async (t) => {
        const server = nodes['by TCP'];
        const watches = ERAS.map((era) => new Program(t, BIN, ['watch', '--era', era, server.url, E], { mayFail: true }));
        const peers = async () => JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/peers' })).contents[0].text);
        const isRefused = ({ client, listens, subscriptions }) => client?.name === 'tidings' && listens === 1 && subscriptions === 0;
        await eventually(async () => (await peers()).filter(isRefused).length === ERAS.length, 'both to be refused');
        await database.begin();
        for (const program of watches) {
            await program.lines.next((line) => line.includes(`watching ${E}`), 'it to be watched');
        }
    });
    const troubles = {
        'its tables are gone': () =>
            database.sql('ALTER TABLE tidings_versions RENAME TO hidden; ALTER TABLE tidings_published RENAME TO hidden_too'),
        'it is stopped': () => database.stop(),
        ...process.env.TIDINGS_LONG && { 'it lets nobody in': () => {
            writeFileSync(`${database.data}/pg_hba.conf`, 'host all all 127.0.0.1/32 reject\n');
            return database.begin();
        } },
    };
    for (const [trouble, happen] of Object.entries(troubles)) {
        await happen();
        await Promise.all(Object.entries(nodes).map(([how, server]) => t.test(`error_hides_the_database: ${trouble}, ${how}`, async () => {
            let failures = 0;
            for (const [what, ask] of Object.entries(asking)) {
                const { text, status } = await ask(Object.assign(Object.create(server), { cursor, foreign }));
                failures += status >= 400 || /"error"|"isError":true/.test(text) ? 1 : 0;
                secrets(database).forEach((secret) => assert.ok(!text.includes(secret), `${what}: ${secret}: ${text}`));
            }
            assert.ok(failures >= 3, `${failures}`);
            await eventually(() => /store (cannot be|failed).*database 'postgres:/.test(server.stderr), 'the log to have it all');
        })));
    }
});
