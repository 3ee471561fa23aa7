// SPDX-License-Identifier: MIT
//
// A store with a failing disk: the operations that still work, and the errors of the others.

import assert from 'node:assert/strict';
import {
    copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, unlinkSync, writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { errno, Faults, skip } from './lib/faults.mjs';
import { request } from './lib/http.mjs';
import { call, modern } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { extras, isUpdate, Subscriber } from './lib/subscriber.mjs';

const TYPE = 'entity:///Note@1/';
const noteUri = (id) => TYPE + id;

class Store {
    static async open(t) {
        const store = new Store();
        const folder = mkdtempSync(join(tmpdir(), 'tidings-faulty-'));
        defer(t, () => rmSync(folder, { recursive: true, force: true }));
        store.t = t;
        store.file = join(folder, 'store.db');
        store.faults = new Faults(t);
        await store.start();
        await store.tool('add-entity-type', { name: 'Note', version: '1', jsonSchema: { type: 'object' } });
        return store;
    }

    async start() {
        const args = ['--entities', this.file, '--allow-write'];
        this.server = await serve(this.t, { args, env: this.faults.env, tree: this.server?.tree });
    }

    /** A tool's result object, with or without an error. */
    async tool(name, args) {
        const result = await call(this.server, 'tools/call', { name, arguments: args });
        return result.isError ? JSON.parse(result.content[0].text) : result.structuredContent;
    }

    put(id, n) {
        return this.tool('upsert-entity', { uri: noteUri(id), value: { n } });
    }

    /** { status, n }: the HTTP answer for an entity. */
    async read(id) {
        const { status, text } = await request(this.server, { method: 'GET', path: `/entity/Note@1/${id}` });
        return status === 200 ? { status, n: JSON.parse(text).value.n } : { status };
    }
}

test('full disk rejects writes but serves lists and initial states', { skip }, async (t) => {
    const store = await Store.open(t);
    const ids = [...Array(30).keys()].map((n) => `n${String(n).padStart(2, '0')}`);
    for (const id of ids) {
        await store.put(id, 1);
    }
    store.faults.on({ write: { rate: 1, error: errno.ENOSPC } });
    assert.equal((await store.put('n00', 2)).reason, 'storage');
    const { status, json } = await request(store.server, { method: 'GET', path: '/entity/Note@1/' });
    assert.equal(status, 200);
    assert.deepEqual(json.resources.map((row) => row.uri), ids.map(noteUri));
    const listed = await call(store.server, 'resources/list', {});
    assert.ok(listed.resources.some((row) => row.uri === noteUri('n29')), JSON.stringify(listed));
    for (const era of ['legacy', 'modern']) {
        const subscriber = await Subscriber.join(store.server, era);
        await subscriber.ask([TYPE], { initial: true, include: 'value' });
        for (const id of ids) {
            const message = await subscriber.message((m) => isUpdate(m) && m.params.uri === noteUri(id), id);
            assert.equal(extras(message).initial, true);
        }
        subscriber.close();
    }
    store.faults.off();
    assert.equal((await store.put('n00', 3)).success, true);
    assert.deepEqual(await store.read('n00'), { status: 200, n: 3 });
});

test('write rejected because of a failed sync is absent after a crash', { skip }, async (t) => {
    const store = await Store.open(t);
    assert.equal((await store.put('a', 1)).success, true);
    // Fails only the sync of the commit, not the sync that verifies it later.
    store.faults.on({ sync: { rate: 1, limit: 1 } });
    assert.equal((await store.put('a', 2)).reason, 'storage');
    assert.equal(store.faults.failed('sync'), 1);
    assert.deepEqual(await store.read('a'), { status: 200, n: 1 });
    await store.server.kill();
    store.faults.off();
    await store.start();
    assert.deepEqual(await store.read('a'), { status: 200, n: 1 });
    assert.equal((await store.put('a', 3)).success, true);
});

test('outcome is unknown while sync fails, and writes wait until it succeeds', { skip }, async (t) => {
    const store = await Store.open(t);
    const text = { method: 'PUT', path: `/resource?uri=${encodeURIComponent('published:///p')}`, body: 'one' };
    assert.equal((await store.put('a', 1)).success, true);
    store.faults.on({ sync: 1 });
    assert.equal((await store.put('a', 2)).reason, 'outcomeUnknown');
    assert.deepEqual(await store.read('a'), { status: 200, n: 1 });
    // No further attempt follows, so the write certainly did not happen.
    assert.equal((await store.put('b', 1)).reason, 'storage');
    const refused = await request(store.server, text);
    assert.deepEqual([refused.status, refused.json.reason], [500, 'storage']);
    store.faults.off();
    const published = await request(store.server, text);
    assert.equal(published.status, 201);
    store.faults.on({ sync: 1 });
    const unknown = await request(store.server, { ...text, body: 'two' });
    assert.deepEqual([unknown.status, unknown.json.reason], [500, 'outcomeUnknown']);
    store.faults.off();
    await store.server.lines.next((line) => /error store: store cannot be written/.test(line), 'the line in the log');
    assert.equal((await store.put('a', 3)).success, true);
    await store.server.kill();
    await store.start();
    assert.deepEqual(await store.read('a'), { status: 200, n: 3 });
    assert.deepEqual(await store.read('b'), { status: 404 });
});

for (const [what, disturb] of [
    ['unlinked', (file) => unlinkSync(file)],
    ['replaced', (file) => { copyFileSync(file, `${file}.copy`); renameSync(`${file}.copy`, file); }],
    ['left without its log', (file) => unlinkSync(`${file}-wal`)],
]) {
    test(`store that is ${what} during use is not written, and the error is logged`, { skip }, async (t) => {
        const store = await Store.open(t);
        assert.equal((await store.put('a', 1)).success, true);
        disturb(store.file);
        const refused = await store.put('a', 2);
        assert.equal(refused.reason, 'storage');
        assert.match(refused.error, /removed, replaced or moved/);
        assert.deepEqual(await store.read('a'), { status: 200, n: 1 });
        const isSaid = (line) => /error store: store cannot be written reason=".*removed, replaced/.test(line);
        await store.server.lines.next(isSaid, 'the line in the log');
    });
}

test('store is writable again after its file returns', { skip }, async (t) => {
    const store = await Store.open(t);
    renameSync(store.file, `${store.file}.away`);
    assert.equal((await store.put('a', 1)).reason, 'storage');
    renameSync(`${store.file}.away`, store.file);
    assert.equal((await store.put('a', 2)).success, true);
    await store.server.lines.next((line) => /info store: store can be written again/.test(line), 'the line in the log');
});

/** Replace every occurrence of `from` in a file with `to`, which has the same length. */
function damage(file, from, to) {
    const bytes = readFileSync(file);
    let found = 0;
    for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + 1)) {
        bytes.write(to, at, 'latin1');
        found += 1;
    }
    assert.ok(found > 0, `${from} is not in the file`);
    writeFileSync(file, bytes);
}

for (const [what, from, to] of [
    ['another value', 'quite-unlikely', 'quite-unlikelz'],
    ['no JSON', '"quite-unlikely"', '"quite-unlikely\x01'],
]) {
    test(`${what} on the disk is reported as damaged, and nothing else changes`, { skip }, async (t) => {
        const store = await Store.open(t);
        const path = `/resource?uri=${encodeURIComponent('published:///p')}`;
        await store.put('bad', 'quite-unlikely');
        await store.put('good', 'here');
        await request(store.server, { method: 'PUT', path, body: '["quite-unlikely"]' });
        await store.server.stop();
        damage(store.file, from, to);
        await store.start();
        const plain = await request(store.server, { method: 'GET', path: '/entity/Note@1/bad' });
        assert.deepEqual([plain.status, plain.json.reason], [500, 'damaged']);
        const read = await modern(store.server, 'resources/read', { uri: noteUri('bad') });
        assert.equal(read.json.error.data.reason, 'damaged');
        assert.equal((await store.put('bad', 'again')).reason, 'damaged');
        const subscriber = await Subscriber.join(store.server, 'modern');
        await subscriber.ask([TYPE], { initial: true, include: 'value' });
        const isOf = (id) => (m) => isUpdate(m) && m.params.uri === noteUri(id);
        assert.equal(extras(await subscriber.message(isOf('bad'), 'what is damaged')).data, undefined);
        assert.match(JSON.stringify(extras(await subscriber.message(isOf('good'), 'what is not'))), /here/);
        subscriber.close();
        const published = await request(store.server, { method: 'GET', path });
        assert.deepEqual([published.status, published.json.reason], [500, 'damaged']);
        const again = await request(store.server, { method: 'PUT', path, body: '["quite-unlikely"]' });
        assert.equal(again.status, 204);
        assert.equal((await request(store.server, { method: 'GET', path })).text, '["quite-unlikely"]');
    });
}
