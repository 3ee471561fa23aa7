// SPDX-License-Identifier: MIT
//
// An entity that gets another parent: subscribers of the old parent are notified at every node, and when they resume after a restart.

import assert from 'node:assert/strict';
import { rmSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { startNodes } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Subscriber } from './lib/subscriber.mjs';
import { ERAS } from './lib/watcher.mjs';

const KID = 'entity:///Note@1/kid';
const BELOW = (parent) => `entity:///?parent=${parent}`;
const OPTIONS = { windowMs: 0, initial: false };

async function tool(server, name, args) {
    const result = await call(server, 'tools/call', { name, arguments: args });
    assert.ok(!result.isError, JSON.stringify(result));
}

const put = (server, parentId, n) => tool(server, 'upsert-entity', { uri: KID, value: { n }, parentId });

async function addNotes(server) {
    await tool(server, 'add-entity-type', { name: 'Note', version: '1', jsonSchema: {} });
    await put(server, 'old', 1);
}

const updateBelow = (parent) => (message) =>
    message.method === 'notifications/resources/updated' && message.params.uri === KID && message.params.subscribedUri === BELOW(parent);

/** Waits until subscribers of both parents are notified of the move. */
async function awaitMove(subscriber) {
    for (const parent of ['old', 'new']) {
        await subscriber.message(updateBelow(parent), `the update of ${KID} below ${parent}`);
    }
}

for (const era of ERAS) {
    test(`${era}: subscribers_of_the_old_parent_are_notified_at_another_node`, { skip }, async (t) => {
        const [a, b] = await startNodes(t, 2, { databases: [await Postgres.start(t)], args: ['--allow-write'] });
        await addNotes(a.program);
        const subscriber = await Subscriber.join(b.program, era);
        await subscriber.ask([BELOW('old'), BELOW('new')], OPTIONS);
        await put(a.program, 'new', 2);
        await awaitMove(subscriber);
        subscriber.close();
    });

    test(`${era}: subscribers_of_the_old_parent_are_notified_after_a_restart`, async (t) => {
        const folder = mkdtempSync(join(tmpdir(), 'tidings-parents-'));
        defer(t, () => rmSync(folder, { recursive: true, force: true }));
        const options = { mounts: [], args: ['--entities', join(folder, 'store.db'), '--allow-write'] };
        const server = await serve(t, options);
        await addNotes(server);
        const before = await Subscriber.join(server, era);
        const { cursor } = await before.ask([BELOW('old'), BELOW('new')], OPTIONS);
        before.close();
        await put(server, 'new', 2);
        await server.stop();
        const after = await Subscriber.join(await serve(t, options), era);
        await after.ask([BELOW('old'), BELOW('new')], { ...OPTIONS, since: cursor });
        await awaitMove(after);
        after.close();
    });
}
