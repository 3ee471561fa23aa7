// SPDX-License-Identifier: MIT
//
// Two programs in one cluster, as in a rolling upgrade: `node tests/cluster/two-versions.mjs OLD_BINARY NEW_BINARY`. The older one makes the
// tables and serves; the newer one joins it, and brings them up to date; then both write, read, tell and race, a session goes there and
// back, and each is started again beside the other. Says what it did; fails with the first thing that is wrong.
// (In ./test the newer one is played: tests/contract/test_shared_postgres_layout.c.)

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';

import { Postgres, skip } from '../integration/lib/postgres.mjs';
import { call, listen, meta, modern, Session } from '../integration/lib/rpc.mjs';
import { serve } from '../integration/lib/server.mjs';
import { CURSOR, extras, isUpdate, OPTIONS } from '../integration/lib/subscriber.mjs';
import { eventually } from '../integration/lib/wait.mjs';

const [old, fresh] = process.argv.slice(2);
if (!old || !fresh || !existsSync(old) || !existsSync(fresh) || skip) {
    console.error(skip || 'usage: node tests/cluster/two-versions.mjs OLD_BINARY NEW_BINARY');
    process.exit(2);
}

const URI = 'entity:///Note@1/one';
const SESSIONS = 20;

const steps = [];
const t = { after: (step) => steps.push(step), diagnostic: console.error, passed: true };
const say = (text) => console.log(text);
const tool = async (node, name, args) => {
    const result = await call(node, 'tools/call', { name, arguments: args });
    return result.isError ? undefined : JSON.parse(result.content[0].text);
};
const put = (node, n, more = {}) => tool(node, 'upsert-entity', { uri: URI, value: { n }, ...more });
const value = async (node, extra = {}) => {
    const { json } = await modern(node, 'resources/read', { uri: URI, _meta: meta(extra) });
    return json?.result && JSON.parse(json.result.contents[0].text).value.n;
};
const follow = (node, uris, since) => listen(node, { resourceSubscriptions: uris },
    { params: { _meta: meta({ [OPTIONS]: { windowMs: 0, initial: false, ...(since && { since }) } }) } });

async function bothWays(a, b) {
    for (const [writer, reader] of [[a, b], [b, a]]) {
        const { events } = await follow(reader, [URI]);
        for (let i = 0; i < 20; i++) {
            const { validFrom } = await put(writer, `${writer.name} ${i}`);
            const told = await events.message((m) => isUpdate(m) && extras(m).etag === validFrom, `${reader.name} to tell of it`);
            assert.ok(!extras(told).truncated);
            assert.equal(await value(reader), `${writer.name} ${i}`);
            // The cursor of the reader is good at the writer.
            assert.equal(await value(writer, { 'dev.tidings/atLeast': told.params._meta[CURSOR] }), `${writer.name} ${i}`);
            if (i === 10) {
                const again = await follow(writer, [URI], told.params._meta[CURSOR]);
                const next = await put(reader, 'next');
                const first = await again.events.message(isUpdate, 'what came after the cursor, and nothing else');
                assert.deepEqual([extras(first).etag, extras(first).truncated], [next.validFrom, undefined]);
                again.events.close();
            }
        }
        await tool(writer, 'notify', { changes: [{ uri: URI, metadata: { k: 7 } }] });
        await events.message((m) => isUpdate(m) && m.params._meta['dev.tidings/metadata']?.k === 7, 'the announcement');
        events.close();
    }
    say('  written, read, told and announced both ways; cursors of one are good at the other');
    const wins = { [a.name]: 0, [b.name]: 0 };
    for (let i = 0; i < 50; i++) {
        const base = await put(a, `base ${i}`);
        const won = await Promise.all([a, b].map((node) => put(node, `${node.name} wins ${i}`, { baseline: base.validFrom })));
        assert.equal(won.filter(Boolean).length, 1, 'one wins');
        wins[won[0] ? a.name : b.name] += 1;
    }
    say(`  of 50 races from one version each had one winner: ${JSON.stringify(wins)}`);
}

async function sessions(a, b) {
    let moved = 0;
    for (let i = 0; i < SESSIONS; i++) {
        const session = await Session.open(a);
        await session.subscribe(URI);
        for (const node of [b, a, b]) {
            session.server = node;
            const stream = await eventually(async () => {
                const response = await session.get();
                return response.status === 200 && response.events;
            }, `the session at ${node.name}`);
            await put(a, `session ${i} at ${node.name}`);
            await stream.message((m) => isUpdate(m) && m.params.uri === URI, 'its subscription');
            stream.close();
            moved += 1;
        }
        await session.end();
    }
    say(`  ${SESSIONS} sessions went from one to the other ${moved} times, with what they subscribed`);
}

async function main() {
    const database = await Postgres.start(t);
    const layout = async () => (await database.sql('SELECT layout, oldest FROM tidings_cluster'))[0].join('/');
    const node = async (program, name) => {
        const args = ['--entities', database.url(), '--node', name, '--self', '--allow-write', '--change-tools', 'on', '--window', '0'];
        const server = await serve(t, { program, mounts: [], args });
        server.name = name;
        return server;
    };
    let a = await node(old, 'old');
    await tool(a, 'add-entity-type', { name: 'Note', version: '1', jsonSchema: { type: 'object' } });
    const first = await put(a, 'first');
    const { events } = await follow(a, [URI]);
    const before = await layout();
    let b = await node(fresh, 'new');
    assert.equal(await value(b), 'first');
    say(`tables were of layout/oldest ${before}, are of ${await layout()}`);
    const { validFrom } = await put(b, 'second', { baseline: first.validFrom });
    const told = await events.message((m) => isUpdate(m) && extras(m).etag === validFrom, 'the older one goes on');
    assert.ok(!extras(told).truncated);
    const nodes = JSON.parse((await call(a, 'resources/read', { uri: 'tidings://self/nodes' })).contents[0].text);
    say(`nodes, as the older one says: ${nodes.map(({ name, version, lives }) => `${name} ${version} ${lives}`).join(', ')}`);
    await bothWays(a, b);
    await sessions(a, b);
    await a.stop();
    a = await node(old, 'old');
    say('the older one was started again beside the newer');
    await bothWays(a, b);
    await b.kill();
    assert.ok(await put(a, 'alone'));
    b = await node(fresh, 'new');
    assert.equal(await value(b), 'alone');
    say('the newer one was killed and started again');
    await bothWays(a, b);
    await sessions(b, a);
    events.close();
    say('nothing was wrong');
}

try {
    await main();
} finally {
    while (steps.length > 0) {
        await steps.shift()();
    }
}
