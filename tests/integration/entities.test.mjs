// SPDX-License-Identifier: MIT
//
// Entities through both official clients: a type, the lifetime of one entity, conflicts, deletion, restoration,
// notifications, and a restart with the same file.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { isAcknowledgement, jsonSchema, Keeper } from './lib/keeper.mjs';

const ANN = 'entity:///User@1.0/ann';
const SEED = '/entity/User@1.0/ann';
const changedBy = [{ userId: 'tester' }];

const entityIn = (update) => {
    const [data] = update.params._meta['dev.tidings/data'];
    return JSON.parse(data.text);
};

function folder(t) {
    const path = mkdtempSync(join(tmpdir(), 'tidings-entities-'));
    defer(t, () => rmSync(path, { recursive: true, force: true }));
    return path;
}

for (const era of ['legacy', 'modern']) {
    const it = (name, body) => test(`${era}: ${name}`, body);

    it('entity is created, patched, conflicts, deleted, restored and survives a restart', async (t) => {
        const file = join(folder(t), 'entities.db');
        const k = await Keeper.open(t, era, '--entities', file);
        await k.addType();
        const target = { entityId: 'ann', entityTypeName: 'User', entityTypeVersion: '1.0' };
        const first = await k.done('upsert-entity', { ...target, changedBy, value: { name: 'Ann' } });
        assert.equal(first.success, true);
        assert.equal(first.uri, ANN);
        assert.equal(first.validFrom, first.newValidFrom);
        assert.equal(first.validTo, '9999-01-01T00:00:00.000Z');
        assert.deepEqual(first.changedBy, changedBy);
        const second = await k.done('upsert-entity', { ...target, value: { name: 'Ann', age: 7 } });
        assert.deepEqual(second.changedBy, [{ userId: 'anonymous' }]);
        assert.ok(second.validFrom > first.validFrom);
        const third = await k.done('upsert-entity', {
            uri: `${SEED}/patch`,
            patch: { age: null, name: 'Anna' },
            baseline: second.validFrom,
        });
        assert.deepEqual(third.value, { name: 'Anna' });

        const now = await k.read(ANN);
        assert.deepEqual(now.value, { name: 'Anna' });
        assert.equal(now.validFrom, third.validFrom);
        const patch = await k.read(`${ANN}/patch/${second.validFrom}`);
        assert.deepEqual(patch.patch, { name: 'Anna', age: null });
        assert.equal(patch.baseline, second.validFrom);
        const then = await k.read(`${ANN}/at/${first.validFrom}`);
        assert.deepEqual(then.value, { name: 'Ann' });
        assert.equal(then.validTo, second.validFrom);

        const stale = await k.refused('upsert-entity', {
            ...target,
            patch: { age: 8 },
            baseline: second.validFrom,
        });
        assert.equal(stale.reason, 'conflict');
        assert.equal(stale.current, third.validFrom);
        assert.deepEqual(stale.patchFromBaseline, { name: 'Anna', age: null });
        const rebased = await k.done('upsert-entity', {
            ...target,
            patch: { age: 8 },
            baseline: second.validFrom,
            onConflict: 'rebase',
        });
        assert.deepEqual(rebased.value, { name: 'Anna', age: 8 });
        const same = await k.done('upsert-entity', { ...target, value: rebased.value });
        assert.equal(same.changed, false);
        assert.equal(same.validFrom, rebased.validFrom);

        const gone = await k.done('delete-entity', { entityId: 'ann' });
        assert.equal(gone.deleted, true);
        await assert.rejects(k.read(ANN), /deleted/);
        const dead = await k.refused('upsert-entity', { ...target, value: { name: 'X' } });
        assert.equal(dead.reason, 'deleted');
        const back = await k.done('undelete-entity', { uri: SEED });
        assert.deepEqual(back.value, rebased.value);
        await k.client.close();
        await k.server.stop();

        const again = await Keeper.open(t, era, '--entities', file);
        assert.deepEqual((await again.read(ANN)).value, rebased.value);
        assert.equal((await again.read('entity:///types'))[0].name, 'User');
        const { versions } = await again.done('get-entity-history', { entityId: 'ann' });
        assert.deepEqual(
            versions.map((v) => [v.validFrom, v.deleted]),
            [first, second, third, rebased, gone, back].map((v) => [v.validFrom, v.deleted]),
        );
    });

    it('subscriber receives the whole entity at once and on every change', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        await k.done('upsert-entity', { uri: ANN, value: { name: 'Ann' } });
        await k.subscribe(SEED, 'entity:///User@1.0/?parent=p');
        const initial = await k.update(SEED, 'the state at the beginning');
        assert.deepEqual(entityIn(initial).value, { name: 'Ann' });
        await k.done('upsert-entity', { uri: ANN, value: { name: 'Bob' } });
        const update = await k.update(SEED, 'the change');
        assert.deepEqual(entityIn(update).value, { name: 'Bob' });
        await k.done('upsert-entity', {
            uri: 'entity:///User@1.0/kid',
            value: { name: 'Kid' },
            parentId: 'p',
        });
        const below = await k.update('entity:///User@1.0/?parent=p', 'what has that parent');
        assert.equal(below.params.uri, 'entity:///User@1.0/kid');
        await k.done('delete-entity', { uri: ANN });
        const deleted = await k.update(SEED, 'the deletion');
        assert.equal(deleted.params._meta['dev.tidings/change'], 'deleted');
    });

    it('subscribers of a type or a parent receive every change, deletion and restoration', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        await k.done('add-entity-type', { name: 'Team', version: '1', jsonSchema: {} });
        const all = 'entity:///User@1.0/';
        const below = [`${all}?parent=p`, 'entity:///?parent=p'];
        await k.subscribe(all, ...below);
        const told = async (subscribed, uri, change) => {
            const update = await k.update(subscribed, `${change} of ${uri} for ${subscribed}`);
            assert.equal(update.params.uri, uri, subscribed);
            assert.equal(update.params._meta['dev.tidings/change'] ?? 'updated', change, subscribed);
            return update;
        };
        const put = (uri, name, parentId) => k.done('upsert-entity', { uri, value: { name }, parentId });
        const [kid, other, team] = [`${all}kid`, `${all}other`, 'entity:///Team@1/t'];
        for (const [act, change, value] of [
            [() => put(kid, 'Kid', 'p'), 'created', { name: 'Kid' }],
            [() => put(kid, 'Kim', 'p'), 'updated', { name: 'Kim' }],
            [() => k.done('delete-entity', { uri: kid }), 'deleted'],
            [() => k.done('undelete-entity', { uri: kid }), 'created', { name: 'Kim' }],
        ]) {
            await put(team, 'T', 'q'); // outside every subscription
            await put(other, change, 'q');
            await act();
            await told(all, other, change === 'created' && value.name === 'Kid' ? 'created' : 'updated');
            for (const subscribed of [all, ...below]) {
                const update = await told(subscribed, kid, change);
                if (value) {
                    assert.deepEqual(entityIn(update).value, value);
                }
            }
        }
        await put(team, 'U', 'p');
        await told(below[1], team, 'updated');
        await put(kid, 'Kim', 'q');
        for (const subscribed of below) {
            const left = await told(subscribed, kid, 'updated');
            assert.equal(entityIn(left).parentId, 'q', 'it left');
        }
        await put(kid, 'Kai', 'q'); // no longer in their subscription
        await put(kid, 'Kai', 'p');
        for (const subscribed of below) {
            assert.equal(entityIn(await told(subscribed, kid, 'updated')).value.name, 'Kai', 'it is back');
        }
    });

    it('version starts at its stated time and ends when the next one starts', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        const put = (name, validFrom, validTo) =>
            k.call('upsert-entity', { uri: ANN, value: { name }, validFrom, validTo });
        const times = ['2020-01-01T00:00:00.000Z', '2021-01-01T00:00:00Z', '9999-01-01T00:00:00.000Z'];
        const first = (await put('Ann', times[0], times[1])).structuredContent;
        assert.deepEqual([first.validFrom, first.validTo], [times[0], times[2]]);
        const second = (await put('Bob', times[1], times[2])).structuredContent;
        assert.equal(second.validFrom, '2021-01-01T00:00:00.000Z');
        assert.equal((await k.read(`${ANN}/at/2020-06-01T00:00:00Z`)).validTo, second.validFrom);
        for (const [validFrom, validTo, part] of [
            [undefined, times[2], /together/],
            ['2022-01-01T00:00:00Z', '2022-01-01T00:00:00.000Z', /after/],
            ['2022-01-01T00:00:00Z', '2021-01-01T00:00:00Z', /after/],
            ['2022-01-01T00:00:00Z', 'later', /validTo/],
        ]) {
            const problem = await k.refused('upsert-entity', { uri: ANN, value: { name: 'X' }, validFrom, validTo });
            assert.equal(problem.reason, 'invalid');
            assert.match(problem.error, part);
        }
        const early = await k.done('upsert-entity', { uri: ANN, value: { name: 'C' }, validFrom: times[0] });
        assert.equal(early.validFrom, '2021-01-01T00:00:00.001Z', 'behind the one before it');
    });

    it('forbidden subscriptions and reads are refused', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        const { validFrom } = await k.done('upsert-entity', { uri: ANN, value: { name: 'Ann' } });
        for (const uri of [`${ANN}/patch/${validFrom}`, `${ANN}/at/${validFrom}`, `${ANN}x`]) {
            if (era === 'legacy') {
                await assert.rejects(k.subscribe(uri), undefined, uri);
                continue;
            }
            await k.subscribe(uri);
            const ack = await k.received.next(isAcknowledgement, 'the acknowledgement');
            assert.equal(ack.params._meta['dev.tidings/refused'][0].uri, uri);
        }
        await assert.rejects(k.read(`${ANN}?at=${validFrom}`), /at\/\{timestamp\}/);
        await assert.rejects(k.read('entity:///User@2/ann'), /User@1\.0/);
        await assert.rejects(k.read(`${ANN}/patch/2001-01-01T00:00:00Z`), /begins at/);
        await assert.rejects(k.read(`${SEED}/at/yesterday`));
    });

    it('failed read gives the reason and the current state', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        const { validFrom } = await k.done('upsert-entity', { uri: ANN, value: { name: 'Ann' } });
        await k.done('upsert-entity', { uri: `${ANN}a`, value: { name: 'Anna' } });
        const gone = await k.done('delete-entity', { uri: `${ANN}a` });
        const stored = { entityTypeName: 'User', entityTypeVersion: '1.0' };
        const failure = async (promise) => {
            const error = await promise.then(
                () => assert.fail('it did not fail'),
                (e) => e,
            );
            const { uri, ...data } = error.data;
            assert.ok(uri);
            return [error.code, data];
        };
        const missing = era === 'modern' ? -32602 : -32002;
        for (const [uri, code, data] of [
            ['entity:///User@2/ann', missing, { reason: 'otherType', ...stored, current: validFrom }],
            [`${ANN}a`, missing, { reason: 'deleted', ...stored, current: gone.validFrom }],
            [`${ANN}b`, missing, { reason: 'unknownEntity' }],
            [`${ANN}/at/2001-01-01T00:00:00Z`, missing, { reason: 'unknownVersion' }],
            [
                `${ANN}/patch/2001-01-01T00:00:00Z`,
                -32602,
                { reason: 'unknownBaseline', ...stored, current: validFrom },
            ],
            [`${ANN}/at/noon`, -32602, { reason: 'invalidTimestamp' }],
        ]) {
            assert.deepEqual(await failure(k.client.readResource({ uri })), [code, data], uri);
        }
        const refused = {
            [`${ANN}a`]: 'deleted',
            'entity:///User@2/ann': 'otherType',
            [`${ANN}/at/${validFrom}`]: 'not_subscribable',
        };
        if (era === 'legacy') {
            for (const [uri, reason] of Object.entries(refused)) {
                const [, data] = await failure(k.client.subscribeResource({ uri }));
                assert.equal(data.reason, reason, uri);
            }
            return;
        }
        await k.subscribe(...Object.keys(refused));
        const ack = await k.received.next(isAcknowledgement, 'the acknowledgement');
        const told = ack.params._meta['dev.tidings/refused'];
        assert.deepEqual(Object.fromEntries(told.map((r) => [r.uri, r.data.reason])), refused);
    });

    it('store reports the reason, place and rule of a refusal', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        const bad = await k.refused('upsert-entity', { uri: ANN, value: { name: 'A', age: -1 } });
        assert.equal(bad.reason, 'validation');
        assert.equal(bad.path, '/age');
        assert.match(bad.rule, /minimum/);
        const { validFrom } = await k.done('upsert-entity', { uri: ANN, value: { name: 'A' } });
        const patch = { colour: 'red' };
        const odd = await k.refused('upsert-entity', { uri: ANN, patch, baseline: validFrom });
        assert.equal(odd.reason, 'validation');
        for (const [name, args, reason] of [
            ['upsert-entity', { uri: ANN }, 'invalid'],
            ['upsert-entity', { uri: ANN, patch: {} }, 'invalid'],
            ['upsert-entity', { uri: `${ANN}/at/${validFrom}`, value: { name: 'A' } }, 'unsupported'],
            ['upsert-entity', { uri: 'entity:///Team@1/t', value: {} }, 'unknownType'],
            ['upsert-entity', { uri: ANN, patch: {}, baseline: '2001-01-01T00:00:00Z' }, 'unknownBaseline'],
            ['upsert-entity', { uri: ANN, value: { name: 'B' }, ifAbsent: true }, 'exists'],
            ['delete-entity', { entityId: 'nobody' }, 'unknownEntity'],
            ['get-entity-history', { entityId: 'nobody' }, 'unknownEntity'],
            ['add-entity-type', { name: 'User', version: '1.0', jsonSchema }, 'exists'],
        ]) {
            const problem = await k.refused(name, args);
            assert.equal(problem.reason, reason, JSON.stringify(problem));
        }
    });

    it('transaction is atomic and runs once per key', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        const put = (id, name) => ({ op: 'upsert', uri: `entity:///User@1.0/${id}`, value: { name } });
        const failed = await k.refused('transact', { operations: [put('a', 'A'), put('b', 7)] });
        assert.equal(failed.index, 1);
        await assert.rejects(k.read('entity:///User@1.0/a'), /no entity/);
        const args = { operations: [put('a', 'A'), put('b', 'B')], idempotencyKey: 'k1' };
        const first = await k.done('transact', args);
        assert.equal(first.replayed, false);
        assert.equal(first.results[0].validFrom, first.results[1].validFrom);
        const second = await k.done('transact', args);
        assert.equal(second.replayed, true);
        assert.equal(second.results[0].validFrom, first.results[0].validFrom);
    });

    it('types and entities are listed, described by templates and completed', async (t) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:');
        await k.addType();
        await k.done('upsert-entity', { uri: ANN, value: { name: 'Ann' } });
        const { resources } = await k.client.listResources();
        const uris = resources.map((r) => r.uri);
        assert.ok(uris.includes(ANN) && uris.includes('entity:///types'), uris.join(' '));
        const { resourceTemplates } = await k.client.listResourceTemplates();
        const names = resourceTemplates.map((r) => r.name);
        for (const name of [
            'Entity Type Registry',
            'Current Entity',
            'Entity Patch Update and Subscribe',
            'Get Entity Patch from Baseline',
            'Historical Entity',
        ]) {
            assert.ok(names.includes(name), names.join(', '));
        }
        const { completion } = await k.client.complete({
            ref: {
                type: 'ref/resource',
                uri: 'entity:///{entityType}@{entityTypeVersion}/{entityId}',
            },
            argument: { name: 'entityId', value: 'a' },
        });
        assert.deepEqual(completion.values, ['ann']);
    });
}
