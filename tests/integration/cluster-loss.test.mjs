// SPDX-License-Identifier: MIT
//
// A database that loses acknowledged commits because the new primary had not received them: all clients at all nodes
// get a truncated update, no client resumes with a lost cursor, and nodes serve the current state.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { startNodes } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { relay } from './lib/proxy.mjs';
import { call, listen, meta, modern } from './lib/rpc.mjs';
import { CURSOR, extras, isUpdate, OPTIONS } from './lib/subscriber.mjs';
import { DEADLINE, eventually } from './lib/wait.mjs';

const URI = 'entity:///Note@1/one';

const put = async (node, n, more = {}) => {
    const args = { uri: URI, value: { n }, ...more };
    const { json } = await modern(node, 'tools/call', { name: 'upsert-entity', arguments: args });
    return json?.result && !json.result.isError ? JSON.parse(json.result.content[0].text) : undefined;
};
const value = async (node) => {
    const { json } = await modern(node, 'resources/read', { uri: URI });
    return json?.result && JSON.parse(json.result.contents[0].text).value.n;
};
const follow = (node, since) => listen(node, { resourceSubscriptions: [URI] },
    { params: { _meta: meta({ [OPTIONS]: { windowMs: 0, initial: false, ...(since && { since }) } }) } });
const isTruncated = (message) => isUpdate(message) && extras(message).truncated === true;
const isTold = (message) => isUpdate(message) && !extras(message).truncated;

test('standby that lost acknowledged writes causes truncated updates to all and no stale ones', { skip }, async (t) => {
    const first = await Postgres.start(t);
    const between = await relay(t, first);
    const second = await first.standby({ name: 'late', isSynchronous: false, through: between.port });
    const nodes = await startNodes(t, 2, { databases: [first, second], args: ['--allow-write', '--workers', '1'], isDirect: true });
    const type = { name: 'Note', version: '1', jsonSchema: { type: 'object' } };
    await call(nodes[0], 'tools/call', { name: 'add-entity-type', arguments: type });
    const kept = await put(nodes[0], 1);
    await eventually(async () => (await second.sql("SELECT 1 FROM tidings_versions WHERE id = 'one'").catch(() => [])).length > 0, 'the standby has it');
    await eventually(async () => await value(nodes[1]) === 1, 'the other node has it');
    const streams = await Promise.all(nodes.map((node) => follow(node)));

    between.refuse();
    await put(nodes[0], 2);
    const lost = await put(nodes[0], 3); // acknowledged, delivered and lost
    const cursors = [];
    for (const { events } of streams) {
        const told = await events.message((m) => isTold(m) && extras(m).etag === lost.validFrom, 'what will be lost');
        cursors.push(told.params._meta[CURSOR]);
    }
    await first.crash();
    await second.promote();

    for (const [at, { events }] of streams.entries()) {
        await events.message(isTruncated, `node ${nodes[at].name} says that something is lost`, 2 * DEADLINE);
        assert.equal(await value(nodes[at]), 1, 'what is there is what the standby had');
    }
    // Clients that resume with a lost cursor get a truncated update at each node.
    for (const cursor of cursors) {
        for (const node of nodes) {
            const { events } = await follow(node, cursor);
            await events.message(isTruncated, `${node.name} refuses a cursor of what is lost`);
            events.close();
        }
    }
    // A lost version is rejected as a baseline; a retained version is accepted once.
    assert.equal(await put(nodes[1], 4, { baseline: lost.validFrom }), undefined);
    const won = await Promise.all(nodes.map((node, at) => put(node, 10 + at, { baseline: kept.validFrom })));
    assert.equal(won.filter(Boolean).length, 1);
    const [{ validFrom }] = won.filter(Boolean);
    for (const { events } of streams) {
        await events.message((m) => isTold(m) && extras(m).etag === validFrom, 'what is written afterwards');
        events.close();
    }
});
