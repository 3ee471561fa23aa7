// SPDX-License-Identifier: MIT
//
// Two versions of the program on one database: a node of this one brings the tables up to date while one of the version before goes on,
// and from then on each tells of what the other does. The earlier one is played with its own statements, on the connection that it had.
// (tests/cluster/two-versions.mjs does it with two programs.)

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { EarlierNode } from './lib/earlier-node.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call, listen, meta, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { OPTIONS } from './lib/subscriber.mjs';
import { eventually } from './lib/wait.mjs';

const tool = (server, name, args) => call(server, 'tools/call', { name, arguments: args });
const X = 'entity:///Note@1/x';
const read = async (server, uri) => (await call(server, 'resources/read', { uri })).contents[0].text;
const value = async (server, uri) => JSON.parse(await read(server, uri)).value.n;

const shape = (database, schema) => database.sql(`SELECT table_name, column_name, data_type, column_default, is_nullable, collation_name
    FROM information_schema.columns WHERE table_schema = '${schema}'
    UNION ALL SELECT tablename, indexname, replace(indexdef, '${schema}.', ''), NULL, NULL, NULL FROM pg_indexes WHERE schemaname = '${schema}' ORDER BY 1, 2`);

test('tables are brought up to date while a node of the version before goes on, and both tell of what the other does', { skip }, async (t) => {
    const database = await Postgres.start(t);
    await database.sql('CREATE SCHEMA upgraded; CREATE SCHEMA fresh');
    const node = (schema) => serve(t, {
        mounts: [], args: ['--entities', database.url({ schema }), '--node', 'new', '--self', '--allow-write', '--change-tools', 'on', '--window', '0'],
    });
    const earlier = await EarlierNode.make(database, 'upgraded');
    await earlier.renew('old', 0);
    await earlier.addType('Note');
    await earlier.upsert('Note', 'x', { n: 'before' });

    // It writes all the time: no statement of its fails, and none waits for long.
    let written = 0;
    let isOver = false;
    const writing = (async () => {
        while (!isOver) {
            await earlier.upsert('Note', 'n', { n: ++written });
        }
    })();
    const ours = await node('upgraded');
    isOver = true;
    await writing;
    assert.ok(written > 0);
    assert.deepEqual(await database.sql('SELECT layout, oldest FROM upgraded.tidings_cluster'), [['4', '1']]);
    assert.match(ours.stderr, /tables brought up to date .*from=1 to=4/);
    assert.equal(await value(ours, X), 'before');
    await eventually(async () => await value(ours, 'entity:///Note@1/n') === written, 'what was written meanwhile');

    // What the earlier one does is told here …
    const { events } = await listen(ours, { resourceSubscriptions: [X, 'entity:///types'] },
        { params: { _meta: meta({ [OPTIONS]: { windowMs: 0, initial: false } }) } });
    const updated = (uri) => events.message(updates(uri), `an update of ${uri}`);
    await earlier.upsert('Note', 'x', { n: 'after' });
    await updated(X);
    assert.equal(await value(ours, X), 'after');
    await earlier.announce(X);
    await updated(X);
    await earlier.addType('After');
    await updated('entity:///types');
    await earlier.renew('old', 1);
    const nodes = JSON.parse(await read(ours, 'tidings://self/nodes'));
    assert.deepEqual(nodes.map(({ name, lives }) => [name, lives]), [['new', true], ['old', true]]);
    assert.ok(nodes[1].lagMs > 0, 'it does not say how far it is behind, but that can be seen');

    // … and what this one does is there for the earlier one.
    const from = await earlier.position();
    await tool(ours, 'publish', { uri: 'published:///y', text: 'ours' });
    await tool(ours, 'upsert-entity', { uri: 'entity:///Note@1/one', value: { n: 1 } });
    await tool(ours, 'add-entity-type', { name: 'Ours', version: '1', jsonSchema: { type: 'object' } });
    await tool(ours, 'notify', { changes: [{ uri: X }] });
    const seen = await eventually(async () => {
        const changes = await earlier.changes(from);
        return changes.length >= 4 && changes;
    }, 'the earlier one to see them');
    assert.deepEqual(seen.map(([, what]) => what), ['published:///y', 'one', '', X]);
    assert.deepEqual(seen.map(([position]) => position), [1, 2, 3, 4].map((n) => from + n));

    // A session goes there and comes back.
    const session = await Session.open(ours);
    const asked = 'SELECT id, node, turn FROM upgraded.tidings_sessions';
    const [[id, before]] = await eventually(async () => (await database.sql(asked)).length === 1 && database.sql(asked), 'its row');
    const [[, holder]] = await earlier.takeSession(id, 'old');
    assert.equal(holder, 'old');
    await eventually(async () => { // as soon as it has followed that it is the other's
        assert.ok([200, 503].includes((await session.send('resources/list')).status));
        const [[, now, turn]] = await database.sql(asked);
        return now === before && turn === '2';
    }, 'the session to come back');
    earlier.close();

    // Tables that were brought up to date are those that are made.
    await node('fresh');
    const [upgraded, fresh] = [await shape(database, 'upgraded'), await shape(database, 'fresh')];
    assert.ok(fresh.length > 100);
    assert.deepEqual(upgraded, fresh);
});
