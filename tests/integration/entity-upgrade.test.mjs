// SPDX-License-Identifier: MIT
//
// An entity that moves to a new version of its type gets another URI: subscribers of the old URI receive the new one,
// live and after resuming, and clients without access to it receive a deletion.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { request } from './lib/http.mjs';
import { call } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { extras, isUpdate, Subscriber } from './lib/subscriber.mjs';
import { as, TokenFile } from './lib/tokens.mjs';

const OLD = 'entity:///note@1/a';
const NEW = 'entity:///note@2/a';
const END = 'entity:///types';

async function tool(who, name, args) {
    const { isError, structuredContent, content } = await call(who, 'tools/call', { name, arguments: args });
    return isError ? JSON.parse(content[0].text) : structuredContent;
}

const put = (who, uri, n) => tool(who, 'upsert-entity', { uri, value: { n } });
const type = (who, version) => tool(who, 'add-entity-type', { name: 'note', version, jsonSchema: {} });

function storeOf(t, kind) {
    if (kind === 'memory') {
        return ':memory:';
    }
    const folder = mkdtempSync(join(tmpdir(), 'tidings-upgrade-'));
    defer(t, () => rmSync(folder, { recursive: true, force: true }));
    return join(folder, 'entities.db');
}

async function start(t, kind) {
    const args = ['--entities', storeOf(t, kind), '--allow-write', '--change-tools', 'on', '--workers', '1'];
    const server = await serve(t, { mounts: [], args });
    await type(server, '1');
    await put(server, OLD, 1);
    return { server, again: () => serve(t, { mounts: [], args }) };
}

const FOLLOWED = {
    'the entity': OLD,
    'the entity as the document spells it': '/entity/note@1/a',
    'its type': 'entity:///note@1/',
    'a glob': 'entity:///note@1/*',
    'a template': 'entity:///note@1/{id}',
    'a glob over both': 'entity:///note@*/a',
    'a template of both': 'entity:///note@{version}/a',
    'its type as it is now': 'entity:///note@2/',
    everything: 'entity:///',
};
const options = { windowMs: 0, include: 'value', initial: false };

/** The updates of the entity by subscription, until the type registry changed. */
async function heard(follower) {
    await follower.update(END);
    const told = follower.messages.filter((m) => isUpdate(m) && m.params.uri !== END);
    return Object.fromEntries(
        Object.entries(FOLLOWED).map(([what, uri]) => [what, told.filter((m) => m.params.subscribedUri === uri)]),
    );
}

function checkMoves(told) {
    for (const [what, messages] of Object.entries(told)) {
        assert.equal(messages.length, 1, `${what}: ${JSON.stringify(messages)}`);
        const { metadata, from, change, data } = extras(messages[0]);
        const { uri } = messages[0].params;
        assert.deepEqual([uri, from, metadata.change_type, change], [NEW, OLD, 'moved', 'created'], what);
        const { value, entityTypeVersion } = JSON.parse(data[0].text);
        assert.deepEqual([value.n, entityTypeVersion], [2, '2'], what);
    }
}

for (const kind of ['memory', 'file']) {
    for (const era of ['legacy', 'modern']) {
        const it = (name, body) => test(`${era}, ${kind}: ${name}`, body);

        it('subscriber of an entity gets one update for its move, for every kind of subscription', async (t) => {
            const { server } = await start(t, kind);
            await type(server, '2');
            const follower = await Subscriber.join(server, era);
            const { refused } = await follower.ask([...Object.values(FOLLOWED), END], options);
            assert.deepEqual(refused, {});
            assert.equal((await put(server, OLD, 2)).uri, NEW);
            await type(server, '3');
            checkMoves(await heard(follower));
        });

        it('resuming client gets the same update', async (t) => {
            const { server, again } = await start(t, kind);
            await type(server, '2');
            const follower = await Subscriber.join(server, era);
            const { cursor } = await follower.ask([END], options);
            follower.close();
            await put(server, OLD, 2);
            await type(server, '3');
            let there = server;
            if (kind === 'file') {
                await server.stop();
                there = await again();
            }
            const back = await Subscriber.join(there, era);
            const { refused } = await back.ask([...Object.values(FOLLOWED), END], { ...options, since: cursor });
            assert.deepEqual(refused, {});
            checkMoves(await heard(back));
        });
    }
}

test('resuming client is notified of a deletion during its absence and of the restoration', async (t) => {
    const { server } = await start(t, 'memory');
    const follower = await Subscriber.join(server, 'modern');
    const { cursor } = await follower.ask([OLD]);
    follower.close();
    await tool(server, 'delete-entity', { uri: OLD });
    const late = await Subscriber.join(server, 'modern');
    assert.match((await late.ask([OLD])).refused[OLD], /deleted/, 'who has not been there');
    const back = await Subscriber.join(server, 'modern');
    assert.deepEqual((await back.ask([OLD], { since: cursor })).refused, {});
    assert.equal(extras(await back.update(OLD)).change, 'deleted');
    await tool(server, 'undelete-entity', { uri: OLD });
    assert.equal(extras(await back.update(OLD)).change, 'created');
});

test('patches continue up to the upgraded version', async (t) => {
    const { server } = await start(t, 'memory');
    const { validFrom: baseline } = await put(server, OLD, 7);
    await type(server, '2');
    const patches = `${OLD}/patch`;
    const [one, other] = [await Subscriber.join(server, 'legacy'), await Subscriber.join(server, 'modern')];
    for (const follower of [one, other]) {
        assert.deepEqual((await follower.ask([patches], { uris: { [patches]: { baseline } } })).refused, {});
        await follower.update(patches, 'the beginning');
    }
    const { validFrom } = await put(server, OLD, 8);
    for (const follower of [one, other]) {
        const moved = await follower.update(patches);
        const { from, data } = extras(moved);
        assert.deepEqual([moved.params.uri, from, data.baseline, data.validFrom], [NEW, OLD, baseline, validFrom]);
        assert.deepEqual([data.patch, data.entityTypeVersion], [{ n: 8 }, '2']);
    }
});

test('change tools report the same move', async (t) => {
    const { server } = await start(t, 'memory');
    await type(server, '2');
    const { cursor } = await tool(server, 'changes_since', { uris: [OLD] });
    await put(server, OLD, 2);
    for (const uri of [OLD, 'entity:///note@1/', 'entity:///', 'entity:///note@2/']) {
        const asked = { uris: [uri], cursor, includeContent: true };
        const answer = await call(server, 'tools/call', { name: 'changes_since', arguments: asked });
        const { changes, refused } = answer.structuredContent;
        assert.equal(refused, undefined, uri);
        const [{ uri: now, change, from, blocks }, ...others] = changes;
        assert.deepEqual([now, change, from, blocks, others], [NEW, 'moved', OLD, [1], []], uri);
        assert.equal(JSON.parse(answer.content[1].text).value.n, 2, uri);
    }
});

test('requests and writes for the old version name the new one', async (t) => {
    const { server } = await start(t, 'memory');
    await type(server, '2');
    const { validFrom } = await put(server, OLD, 2);
    const stored = { entityTypeName: 'note', entityTypeVersion: '2' };
    const read = await request(server, { method: 'GET', path: '/entity/note@1/a' });
    const { error, uri: _, ...said } = JSON.parse(read.text);
    assert.deepEqual([read.status, said], [404, { reason: 'otherType', ...stored, current: validFrom }]);
    assert.match(error, /stored as 'note@2'; its URI is entity:\/\/\/note@2\/a/);
    for (const [name, args] of [
        ['upsert-entity', { uri: OLD, value: { n: 3 } }],
        ['upsert-entity', { uri: OLD, patch: { n: 3 }, baseline: validFrom }],
        ['delete-entity', { uri: OLD }],
    ]) {
        const { error: text, ...refused } = await tool(server, name, args);
        assert.deepEqual(refused, { reason: 'otherType', ...stored }, name);
        assert.match(text, /'a' is a 'note@2' now: read it as that, and write it as that/, name);
    }
    const asked = await Subscriber.join(server, 'modern');
    assert.match((await asked.ask([OLD])).refused[OLD], /its URI is entity:\/\/\/note@2\/a/);
});

test('client without access to the new version sees a deletion and no new location', async (t) => {
    const tokens = new TokenFile(t);
    const given = { ada: tokens.give('ada'), bob: tokens.give('bob') };
    const SEE = ['list', 'read', 'subscribe'];
    const rules = [
        { principal: 'ada', uri: 'entity:///note@1/**', allow: SEE },
        { principal: 'bob', allow: [...SEE, 'write'] },
    ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const args = [...tokens.args, ...rules, '--entities', ':memory:', '--allow-write', '--change-tools', 'on', '--workers', '1'];
    const server = await serve(t, { mounts: [], args });
    const [ada, bob] = [as(server, given.ada), as(server, given.bob)];
    await type(bob, '1');
    await put(bob, OLD, 1);
    await type(bob, '2');
    const followed = [OLD, 'entity:///note@1/', 'entity:///note@*/a', 'entity:///note@1/{id}'];
    const filtered = 'entity:///note@1/*';
    const filter = { properties: { metadata: { properties: { entityTypeVersion: { const: '2' } } } } };
    const hers = [];
    for (const era of ['legacy', 'modern']) {
        const follower = await Subscriber.join(ada, era);
        await follower.ask([...followed, filtered], { ...options, uris: { [filtered]: { filter } } });
        hers.push(follower);
    }
    const { cursor } = await tool(ada, 'changes_since', { uris: [OLD] });
    await put(bob, OLD, 2);
    for (const follower of hers) {
        for (const uri of [...followed, filtered]) {
            const gone = await follower.update(uri);
            assert.deepEqual([gone.params.uri, extras(gone).change], [OLD, 'deleted'], uri);
            assert.deepEqual(extras(gone).metadata, { change_type: 'deleted' }, uri);
            assert.ok(!JSON.stringify(gone).includes('@2'), JSON.stringify(gone));
        }
    }
    const { changes } = await tool(ada, 'changes_since', { uris: [filtered], cursor, includeContent: true });
    assert.deepEqual(
        changes.map(({ uri, change, from, metadata, blocks }) => [uri, change, from, metadata, blocks]),
        [[OLD, 'deleted', undefined, undefined, undefined]],
    );
});
