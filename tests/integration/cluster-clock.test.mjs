// SPDX-License-Identifier: MIT
//
// A node with a wrong clock beside others on a real PostgreSQL: the node logs it, and shared state follows the database
// clock: the start and expiry of entity versions, live nodes, and session owners.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Faults, skip as noFaults } from './lib/faults.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { eventually, slow } from './lib/wait.mjs';

const URI = 'entity:///Note@1/one';
const OFF = 61; // seconds
const NEAR = 5_000 * slow; // ms

const tool = async (server, name, args) => {
    const result = await call(server, 'tools/call', { name, arguments: args });
    assert.ok(!result.isError, JSON.stringify(result));
    return JSON.parse(result.content[0].text);
};
const put = async (server, n) => Date.parse((await tool(server, 'upsert-entity', { uri: URI, value: { n } })).validFrom);
const read = async (server, uri) => JSON.parse((await call(server, 'resources/read', { uri })).contents[0].text);
const isNear = (ms) => assert.ok(Math.abs(ms - Date.now()) < NEAR, `${new Date(ms).toISOString()} is not now`);

for (const off of [OFF, -OFF]) {
    test(`clock that is ${Math.abs(off)} seconds ${off > 0 ? 'ahead' : 'behind'} is logged and has no effect`, { skip: skip || noFaults }, async (t) => {
        const database = await Postgres.start(t);
        const faults = new Faults(t);
        faults.clock(off);
        const node = (name, env) => serve(t, {
            mounts: [], env, args: ['--entities', database.url(), '--node', name, '--self', '--allow-write', '--window', '0', '--session-timeout', '30s'],
        });
        const [right, wrong] = [await node('right'), await node('wrong', faults.env)];
        const said = /the clock of this machine is wrong, or the database's is aheadMs=(-?\d+)/;
        const [, ahead] = await eventually(() => wrong.stderr.match(said), 'the log to say so');
        assert.ok(Math.abs(Number(ahead) - 1000 * off) < NEAR, ahead);

        // Versions older than half the difference are forgotten; all of these are newer.
        const options = { maxAgeMs: 1000 * OFF / 2 };
        await tool(right, 'add-entity-type', { name: 'Note', version: '1', jsonSchema: { type: 'object' }, options });
        const begins = [];
        for (let n = 0; n < 6; n++) {
            begins.push(await put(n % 2 ? right : wrong, n));
        }
        begins.forEach(isNear);
        assert.deepEqual(begins, [...begins].sort((a, b) => a - b));
        const { versions } = await tool(wrong, 'get-entity-history', { uri: URI });
        assert.deepEqual(versions.map(({ value }) => value.n), [0, 1, 2, 3, 4, 5]);
        const { value } = await read(right, `${URI}/at/${new Date(begins[3]).toISOString()}`);
        assert.equal(value.n, 3);

        const nodes = await read(right, 'tidings://self/nodes');
        assert.deepEqual(nodes.map(({ name, lives }) => [name, lives]), [['right', true], ['wrong', true]]);
        nodes.forEach(({ since, lagMs }) => {
            isNear(since);
            assert.ok(lagMs >= 0 && lagMs < NEAR, `${lagMs}`);
        });

        const session = await Session.open(right);
        await session.subscribe(URI);
        for (const server of [wrong, right, wrong]) {
            session.server = server;
            await session.call('ping');
        }

        faults.clock(0);
        await eventually(() => /clock of this machine is that of the database again/.test(wrong.stderr), 'the log to say that too');
        isNear(await put(wrong, 7));
        assert.doesNotMatch(right.stderr, said);
    });
}
