// SPDX-License-Identifier: MIT
//
// Failed or stopped node starts while other nodes write: notifications of the store arrive before the node can handle
// them. The node must exit cleanly.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Postgres, skip } from './lib/postgres.mjs';
import { relay } from './lib/proxy.mjs';
import { call } from './lib/rpc.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { within } from './lib/wait.mjs';

const long = process.env.TIDINGS_LONG ? false : 'it waits for 6 seconds (TIDINGS_LONG)';

const publish = (server, n) =>
    call(server, 'tools/call', { name: 'publish', arguments: { uri: 'published:///x', text: `${n}` } });

test('start may end while the node waits for its name', { skip, concurrency: true }, async (t) => {
    const database = await Postgres.start(t);
    const other = await serve(t, { mounts: [], args: ['--entities', database.url(), '--node', 'other', '--allow-write'] });

    /** A node that waits for a name in use for another minute; the other nodes have written changes that it follows. */
    const waiting = async (t, name, store = database.url()) => {
        await database.sql(`INSERT INTO tidings_nodes(name, instance, version, state, epoch, followed, begun, until, layout, behind)
            SELECT '${name}', 1, '0', '{}', 1, 0, 0, floor(extract(epoch FROM clock_timestamp()) * 1000) + 60000, 1, 0`);
        const program = new Program(t, BIN, ['serve', '--http', '127.0.0.1:0', '--entities', store, '--node', name, '--allow-write'],
            { mayFail: true });
        await program.lines.next((line) => /waiting for the name of this node/.test(line), 'the wait');
        await write();
        return program;
    };
    const write = async () => {
        for (let n = 0; n < 5; n++) {
            await publish(other, n);
        }
    };
    const end = (program) => within(program.exited, 'the node to end', 20_000);
    const refused = async (program, says) => {
        const { code, signal } = await end(program);
        assert.equal(signal, null, program.stderr);
        assert.notEqual(code, 0);
        assert.match(program.stderr, says);
    };

    await Promise.all([
        t.test('waiting_node_ends_cleanly_on_sigterm', async (t) => {
            const program = await waiting(t, 'a');
            program.child.kill('SIGHUP'); // changes nothing
            await write();
            program.child.kill('SIGTERM');
            assert.deepEqual(await end(program), { code: 0, signal: null }, program.stderr);
        }),
        t.test('duplicate_name_is_refused_while_others_write', { skip: long }, async (t) => {
            await refused(await waiting(t, 'b'), /another node that is alive has the name 'b'/);
        }),
        t.test('waiting_node_serves_if_the_name_is_free', { skip: long }, async (t) => {
            const program = await waiting(t, 'c');
            await database.sql(`DELETE FROM tidings_nodes WHERE name = 'c'`);
            await program.lines.next((line) => /serving on/.test(line), 'the node to serve', 20_000);
        }),
        t.test('waiting_node_fails_cleanly_on_database_outage', { skip: long }, async (t) => {
            const between = await relay(t, database);
            const program = await waiting(t, 'd', database.url({ port: between.port }));
            between.refuse();
            await refused(program, /store: /);
        }),
    ]);
    assert.equal(other.running, true);
});
