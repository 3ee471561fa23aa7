// SPDX-License-Identifier: MIT
//
// HAProxy, nginx and Caddy in front of three nodes on one PostgreSQL, with and without stickiness, by the recipes of
// contrib/: clients of both eras receive changes from any node and resume where they were after the node of their
// stream is killed.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { balance, RECIPES, skipOf } from './lib/balancer.mjs';
import { startNodes } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call, listen, meta, modern, Session } from './lib/rpc.mjs';
import { CURSOR, extras, isUpdate, OPTIONS } from './lib/subscriber.mjs';
import { eventually } from './lib/wait.mjs';

const URI = 'entity:///Note@1/one';
const ARGS = ['--allow-write', '--self', '--workers', '1', '--keepalive', '1s']; // HAProxy detects a closed client with the next bytes

async function put(where, value) {
    const answer = await call(where, 'tools/call', { name: 'upsert-entity', arguments: { uri: URI, value: { n: value } } });
    assert.ok(!answer.isError, JSON.stringify(answer));
}

/** Repeats the write until a node accepts it: a balancer may still send to a killed node. */
async function putAtLast(where, value) {
    const args = { name: 'upsert-entity', arguments: { uri: URI, value: { n: value } } };
    await eventually(async () => {
        const { json } = await modern(where, 'tools/call', args).catch(() => ({}));
        return json?.result && !json.result.isError;
    }, 'a write is taken');
}

/** The nodes that have a subscription. */
async function carriers(nodes) {
    const texts = await Promise.all(nodes.map(async (node) =>
        (await call(node, 'resources/read', { uri: 'tidings://self/subscriptions' })).contents[0].text));
    return nodes.filter((_, at) => texts[at].includes(URI));
}

/** The node with the stream. A node that a session just left learns that after a moment. */
async function carrier(nodes) {
    let found;
    await eventually(async () => (found = await carriers(nodes)).length === 1, 'one node has the subscription');
    return found[0];
}

const valueOf = (message) => JSON.parse(extras(message).data[0].text).value.n;
const options = (since) => ({ windowMs: 0, initial: false, include: 'value', ...(since && { since }) });

/** All updates of a stream until one has the value. */
async function hearUntil(events, value) {
    const heard = [];
    while (heard.at(-1) !== value) {
        const message = await events.message(isUpdate, `value ${value} (heard ${heard})`);
        assert.ok(!extras(message).truncated, JSON.stringify(message));
        heard.push(valueOf(message));
    }
    return heard;
}

async function modernEra(front, nodes) {
    const ask = (since) => listen(front, { resourceSubscriptions: [URI] },
        { params: { _meta: meta({ [OPTIONS]: options(since) }) } });
    const { events, ack } = await ask();
    for (const node of nodes) { // the stream receives writes at any node
        const n = 10 + nodes.indexOf(node);
        await put(node, n);
        // Before the first update, a node may report earlier writes of other nodes.
        const heard = await hearUntil(events, n);
        assert.deepEqual(heard.filter(Number.isInteger), [n]);
    }
    const cursor = events.messages.at(-1).params._meta[CURSOR] ?? ack._meta[CURSOR];
    const node = await carrier(nodes);
    await node.kill();
    await events.over;
    await putAtLast(front, 20);
    const again = await eventually(() => ask(cursor).catch(() => undefined), 'a listen is taken');
    assert.deepEqual(await hearUntil(again.events, 20), [20]);
    again.events.close();
    await node.start();
    await eventually(async () => (await carriers(nodes)).length === 0, 'the balancer has closed its side');
}

async function legacyEra(front, nodes) {
    const session = await Session.open(front);
    await session.call('resources/subscribe', { uri: URI, _meta: { [OPTIONS]: options() } });
    let events = await session.stream();
    let heard = [];
    let last;
    /** Reconnects with the session and the last event whenever the stream ends, until the value arrives. */
    const hear = async (value) => {
        while (heard.at(-1) !== value) {
            try {
                const item = await events.next((one) => one.json && isUpdate(one.json), `value ${value} (heard ${heard})`);
                assert.ok(!extras(item.json).truncated, JSON.stringify(item.json));
                last = item.id;
                heard.push(valueOf(item.json));
            } catch (error) {
                if (!events.ended) {
                    throw error;
                }
                events = await eventually(() => session.stream(last).catch(() => undefined), 'a stream is opened again');
            }
        }
    };
    for (const node of nodes) {
        const n = 30 + nodes.indexOf(node);
        await put(node, n);
        await session.call('resources/list', {}); // by the balancer: perhaps at another node, to which the session moves
        await hear(n);
    }
    assert.deepEqual(heard, [30, 31, 32]);
    const node = await carrier(nodes);
    await node.kill();
    await putAtLast(front, 40);
    await hear(40);
    assert.deepEqual(heard, [30, 31, 32, 40]);
    await session.end();
    events.close();
    await node.start();
}

test('nodes work behind a load balancer', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const nodes = await startNodes(t, 3, { databases: [database], args: ARGS, isDirect: true });
    await call(nodes[0], 'tools/call',
        { name: 'add-entity-type', arguments: { name: 'Note', version: '1', jsonSchema: { type: 'object' } } });
    for (const recipe of RECIPES) {
        const options = { skip: skipOf(recipe) };
        await t.test(`${recipe}: both eras receive changes and continue after a node is killed`, options, async (each) => {
            const front = await balance(each, recipe, nodes);
            await put(front, recipe);
            await modernEra(front, nodes);
            await legacyEra(front, nodes);
        });
    }
});
