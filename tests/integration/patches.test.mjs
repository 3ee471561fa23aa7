// SPDX-License-Identifier: MIT
//
// Patches in notifications: entities from a baseline through both official clients, and any JSON file with
// handwritten requests in both eras over both transports.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Keeper } from './lib/keeper.mjs';
import { holds } from './lib/schemas.mjs';
import { extras, MODES, Subscriber } from './lib/subscriber.mjs';

const ANN = 'entity:///User@1.0/ann';
const PATCHES = '/entity/User@1.0/ann/patch';

/** RFC 7396 in a client. */
function merge(target, patch) {
    if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) {
        return patch;
    }
    const isObject = target !== null && typeof target === 'object' && !Array.isArray(target);
    const result = isObject ? { ...target } : {};
    for (const [name, value] of Object.entries(patch)) {
        if (value === null) {
            delete result[name];
        } else {
            result[name] = merge(result[name], value);
        }
    }
    return result;
}

const dataIn = (update) => {
    holds('updated', update.params);
    return extras(update).data;
};

for (const era of ['legacy', 'modern']) {
    const it = (name, body) => test(`${era}: ${name}`, body);

    /** An entity with two versions. */
    const open = async (t, ...args) => {
        const k = await Keeper.open(t, era, '--entities', ':memory:', ...args);
        await k.addType();
        k.put = (value, more) => k.done('upsert-entity', { uri: ANN, value, ...more });
        k.first = await k.put({ name: 'Ann' });
        k.second = await k.put({ name: 'Ann', age: 7 });
        return k;
    };

    it('patches start at the baseline, and each at the end of the previous one', async (t) => {
        const k = await open(t);
        assert.deepEqual(await k.subscribeWith({}, { [PATCHES]: k.first.validFrom, [ANN]: '' }), {});
        const initial = await k.update(PATCHES, 'the patch from the baseline');
        assert.equal(initial.params.uri, PATCHES);
        assert.equal(extras(initial).initial, true);
        const begun = dataIn(initial);
        assert.deepEqual(begun.patch, { age: 7 });
        assert.equal(begun.baseline, k.first.validFrom);
        assert.equal(begun.validFrom, k.second.validFrom);
        assert.equal(begun.value, undefined);
        assert.equal(begun.entityTypeName, 'User');
        const third = await k.put({ name: 'Anna' });
        const next = dataIn(await k.update(PATCHES, 'the patch of the change'));
        assert.deepEqual(next.patch, { age: null, name: 'Anna' });
        assert.equal(next.baseline, k.second.validFrom);
        assert.equal(next.validFrom, third.validFrom);
        assert.equal(next.etag, third.validFrom);

        const gone = await k.done('delete-entity', { uri: ANN });
        const deleted = dataIn(await k.update(PATCHES, 'the deletion'));
        assert.equal(deleted.deleted, true);
        assert.equal(deleted.patch, undefined);
        assert.equal(deleted.baseline, third.validFrom);
        assert.equal(deleted.validFrom, gone.validFrom);
        const back = await k.done('undelete-entity', { uri: ANN });
        const returned = dataIn(await k.update(PATCHES, 'the return'));
        assert.equal(returned.deleted, false);
        assert.deepEqual(returned.patch, {});
        assert.equal(returned.baseline, third.validFrom);
        assert.equal(returned.validFrom, back.validFrom);
        const whole = extras(await k.update(ANN, 'the whole, beside it')).data;
        assert.equal(whole[0].uri, ANN);
    });

    it('wrong baseline or template is rejected with the accepted ones', async (t) => {
        const k = await open(t);
        const wrong = [
            [PATCHES, '', /'baseline' is required.*validFrom/],
            [PATCHES, '2001-01-01T00:00:00Z', /No snapshot found with validFrom timestamp: 2001-01-01T00:00:00\.000Z; accepted/],
            [PATCHES, 'yesterday', /baseline: .*2024-01-01T/],
            [`${ANN}/patch/${k.first.validFrom}`, '', /URI type: patch_read; subscribe to entity:.*ann\/patch/],
            [`${ANN}/at/${k.first.validFrom}`, '', /URI type: historical; subscribe to entity:.*ann$/],
            ['entity:///User@1.0/nobody/patch', k.first.validFrom, /nobody|not found/],
        ];
        for (const [uri, baseline, says] of wrong) {
            const refused = await k.subscribeWith({}, { [uri]: baseline });
            assert.match(refused[uri] ?? '', says, uri);
        }
        // The time is valid in any format; rejected writes left no trace.
        const late = await k.put({ name: 'Late' }, { validFrom: '2040-01-01T00:00:00Z' });
        assert.equal(late.validFrom, '2040-01-01T00:00:00.000Z');
        assert.deepEqual(await k.subscribeWith({}, { [PATCHES]: '2040-01-01T00:00:00Z' }), {});
        const data = dataIn(await k.update(PATCHES, 'the first patch'));
        assert.deepEqual([data.baseline, data.patch], [late.validFrom, {}]);
        assert.equal(data.validFrom, late.validFrom);
    });

    it('repeated subscribe with patches requires a baseline; after a rejection the first continues', async (t) => {
        const k = await open(t);
        assert.deepEqual(await k.subscribeWith({}, { [PATCHES]: k.first.validFrom }), {});
        await k.update(PATCHES, 'the patch from the baseline');
        const again =
            era === 'legacy'
                ? await k.client.subscribeResource({ uri: PATCHES }).then(
                    () => '',
                    ({ message, data }) => `${message} ${data.reason}`,
                )
                : (await k.subscribeWith({}, { [PATCHES]: '' }))[PATCHES];
        assert.match(again, era === 'legacy' ? /'baseline' is required.*baseline_required/ : /'baseline' is required/);
        const third = await k.put({ name: 'Anna' });
        const data = dataIn(await k.update(PATCHES, 'the patch of the change'));
        assert.deepEqual([data.baseline, data.validFrom], [k.second.validFrom, third.validFrom]);
        assert.deepEqual(await k.subscribeWith({}, { [PATCHES]: k.second.validFrom }), {});
        const anew = await k.update(PATCHES, 'the patch from the other baseline');
        assert.equal(extras(anew).initial, true);
        assert.equal(dataIn(anew).baseline, k.second.validFrom);
    });

    it('window merges many changes into one patch that starts at the last end', async (t) => {
        const k = await open(t);
        const windowed = { windowMs: 200 };
        assert.deepEqual(await k.subscribeWith(windowed, { [PATCHES]: k.first.validFrom }), {});
        let [value, at] = [k.first.value, k.first.validFrom];
        let last;
        for (let age = 1; age <= 50; age++) {
            last = await k.put({ name: age % 7 ? 'Ann' : `Ann ${age}`, age });
        }
        while (at !== last.validFrom) {
            const data = dataIn(await k.update(PATCHES, `a patch from ${at}`));
            assert.equal(data.baseline, at);
            value = merge(value, data.patch);
            at = data.validFrom;
        }
        assert.deepEqual(value, last.value);
    });

    for (const options of [{ maxVersions: 1 }, { maxAgeMs: 1 }, { history: false }, { debounceMs: 60_000 }]) {
        const [kind] = Object.keys(options);
        it(`subscription keeps its patch position (${kind})`, async (t) => {
            const k = await Keeper.open(t, era, '--entities', ':memory:');
            await k.done('add-entity-type', { name: 'N', version: '1', jsonSchema: {}, options });
            const [uri, patches] = ['/entity/N@1/x', '/entity/N@1/x/patch'];
            const put = (n) => k.done('upsert-entity', { uri, value: { n, [`n${n}`]: 1 } });
            const first = await put(0);
            assert.deepEqual(await k.subscribeWith({ windowMs: 50 }, { [patches]: first.validFrom }), {});
            let [value, at] = [first.value, first.validFrom];
            const follow = async () => {
                const data = dataIn(await k.update(patches, `a patch from ${at}`));
                assert.equal(data.full, undefined, JSON.stringify(data));
                assert.equal(data.baseline, at);
                [value, at] = [merge(value, data.patch), data.validFrom];
            };
            await follow();
            for (let n = 1; n <= 60; n++) {
                const last = await put(n);
                while (n % 20 === 0 && at !== last.validFrom) {
                    await follow();
                }
            }
            if (era === 'legacy' && kind !== 'debounceMs') {
                await k.client.unsubscribeResource({ uri: patches });
                let versions;
                for (let n = 100; n < 500 && !(versions?.length <= 2); n++) {
                    await put(n);
                    ({ versions } = await k.done('get-entity-history', { entityId: 'x' }));
                }
                assert.ok(versions.length <= 2, 'and is when nobody needs it');
            }
        });
    }

    it("client that excludes its own writes continues from them and receives others", async (t) => {
        const k = await open(t);
        const options = { origin: 'me', echo: false };
        assert.deepEqual(await k.subscribeWith(options, { [PATCHES]: k.second.validFrom }), {});
        assert.deepEqual(dataIn(await k.update(PATCHES, 'the first')).patch, {});
        const own = await k.put({ name: 'Mine', age: 7 }, { origin: 'me' });
        await k.put({ name: 'Mine', age: 8 });
        const data = dataIn(await k.update(PATCHES, 'what somebody else wrote'));
        assert.equal(data.baseline, own.validFrom);
        assert.deepEqual(data.patch, { age: 8 });
        const { structuredContent } = await k.client.callTool({
            name: 'upsert-entity',
            arguments: { uri: ANN, value: { name: 'Mine again', age: 8 } },
            _meta: { 'dev.tidings/origin': 'me' },
        });
        await k.put({ name: 'Mine again' });
        const next = dataIn(await k.update(PATCHES, 'what somebody else wrote then'));
        assert.equal(next.baseline, structuredContent.validFrom);
        assert.deepEqual(next.patch, { age: null });
    });

    it('oversized patch is announced without content, and the chain continues from there', async (t) => {
        const k = await open(t, '--max-value', '600');
        assert.deepEqual(await k.subscribeWith({}, { [PATCHES]: k.second.validFrom }), {});
        dataIn(await k.update(PATCHES, 'the first'));
        const large = await k.put({ name: 'x'.repeat(1000) });
        const update = await k.update(PATCHES, 'the large one');
        assert.equal(extras(update).data, undefined);
        await k.put({ name: 'small' });
        const data = dataIn(await k.update(PATCHES, 'the next'));
        assert.equal(data.baseline, large.validFrom);
        assert.deepEqual(data.patch, { name: 'small' });
    });

    it('type subscription sends patches after a complete first value', async (t) => {
        const k = await open(t);
        const TYPE = 'entity:///User@1.0/';
        const kid = (age) => k.done('upsert-entity', { uri: `${TYPE}kid`, value: { name: 'Kid', age } });
        assert.deepEqual(await k.subscribeWith({ include: 'patch' }, { [TYPE]: '' }), {});
        const first = dataIn(await k.update(TYPE, 'the one that is there'));
        assert.deepEqual([first.entityId, first.full, first.value.age], ['ann', true, 7]);
        const made = await kid(1);
        const born = dataIn(await k.update(TYPE, 'a new one'));
        assert.deepEqual([born.entityId, born.full], ['kid', true]);
        await kid(2);
        await k.put({ name: 'Ann', age: 8 });
        const grown = dataIn(await k.update(TYPE, 'a patch of the new one'));
        assert.deepEqual([grown.entityId, grown.baseline, grown.patch], ['kid', made.validFrom, { age: 2 }]);
        const other = dataIn(await k.update(TYPE, 'a patch of the other'));
        assert.deepEqual([other.entityId, other.baseline, other.patch], ['ann', k.second.validFrom, { age: 8 }]);
    });
}

for (const mode of MODES) {
    test(`${mode.name}: JSON file is delivered in patches`, async (t) => {
        const files = { 'a.json': '{"n":1,"s":{"x":1}}', 'b.txt': 'text' };
        const s = await Subscriber.open(t, mode, { files, args: ['--window', '0'] });
        const [a, b] = [s.uri('a.json'), s.uri('b.txt')];
        const options = { include: 'patch', initial: true };
        assert.deepEqual((await s.ask([a, b], options)).refused, {});
        const first = dataIn(await s.update(a));
        assert.deepEqual([first.full, first.value], [true, { n: 1, s: { x: 1 } }]);
        const text = dataIn(await s.update(b));
        assert.deepEqual([text.full, text.contents[0].text], [true, 'text']);
        let [value, at] = [first.value, first.etag];
        const states = ['{"n":2,"s":{"x":1}}', '{"n":2,"s":{"y":[1,null]}}', '{"n":null}', '{"n":3}'];
        for (const state of states) {
            s.tree.replace('a.json', state);
            do { // one replacement may cause two changes
                const data = dataIn(await s.update(a));
                if (data.deleted) {
                    assert.equal(data.baseline, at);
                    continue;
                }
                assert.equal(data.full ? at : data.baseline, at);
                value = data.full ? data.value : merge(value, data.patch);
                at = data.etag;
            } while (JSON.stringify(value) !== state);
        }
        const other = await Subscriber.open(t, mode, { files: { 'a.json': '{"n":3}' } });
        const again = other.uri('a.json');
        await other.ask([again], { include: 'patch', initial: true, baseline: 'gone' });
        assert.equal(dataIn(await other.update(again)).full, true);
    });
}
