// SPDX-License-Identifier: MIT
//
// Starts of a node that fail, or are stopped, while other nodes write: what the store tells arrives before the node
// can take it. The node must end cleanly.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Postgres, skip } from './lib/postgres.mjs';
import { relay } from './lib/proxy.mjs';
import { call } from './lib/rpc.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { within } from './lib/wait.mjs';

const WAIT_MS = 1500; // how long the name of a node that was killed counts, from the moment the test writes it

const publish = (server, n) =>
    call(server, 'tools/call', { name: 'publish', arguments: { uri: 'published:///x', text: `${n}` } });

test('a start that ends while the node waits for its name', { skip, concurrency: true }, async (t) => {
    const database = await Postgres.start(t);
    const other = await serve(t, { mounts: [], args: ['--entities', database.url(), '--node', 'other', '--allow-write'] });

    /** As if a node that was killed had that name for so many ms from now. */
    const occupy = (name, ms) => database.sql(`INSERT INTO tidings_nodes(name, instance, version, state, epoch, followed, begun, until)
        SELECT '${name}', 1, '0', '{}', 1, 0, 0, floor(extract(epoch FROM clock_timestamp()) * 1000) + ${ms}`);

    /** A node of an occupied name, which waits; the others have written something that it follows. */
    const waiting = async (t, name, ms, store = database.url()) => {
        await occupy(name, ms);
        const program = new Program(t, BIN, ['serve', '--http', '127.0.0.1:0', '--entities', store, '--node', name, '--allow-write'],
            { mayFail: true });
        await program.lines.next((line) => /waiting for the name of this node/.test(line), 'the wait');
        for (let n = 0; n < 5; n++) {
            await publish(other, n);
        }
        return program;
    };
    const end = (program) => within(program.exited, 'the node to end', 20_000);
    const refused = async (program, says) => {
        const { code, signal } = await end(program);
        assert.equal(signal, null, program.stderr);
        assert.notEqual(code, 0);
        assert.match(program.stderr, says);
    };

    await Promise.all([
        t.test('duplicate_name_is_refused_while_others_write', async (t) => {
            const program = await waiting(t, 'a', WAIT_MS);
            await database.sql(`UPDATE tidings_nodes SET until = until + 60000 WHERE name = 'a'`);
            await refused(program, /another node that is alive has the name 'a'/);
        }),
        t.test('waiting_node_ends_cleanly_on_sigterm', async (t) => {
            const program = await waiting(t, 'b', 60_000);
            program.child.kill('SIGTERM');
            assert.deepEqual(await end(program), { code: 0, signal: null }, program.stderr);
        }),
        t.test('waiting_node_keeps_waiting_after_sighup', async (t) => {
            const program = await waiting(t, 'c', WAIT_MS);
            program.child.kill('SIGHUP');
            await program.lines.next((line) => /serving on/.test(line), 'the node to serve');
        }),
        t.test('waiting_node_fails_cleanly_if_the_database_goes_away', async (t) => {
            const between = await relay(t, database);
            const program = await waiting(t, 'd', WAIT_MS, database.url({ port: between.port }));
            between.refuse();
            await refused(program, /store: /);
        }),
    ]);
    assert.equal(other.running, true);
});
