// SPDX-License-Identifier: MIT
//
// A store whose disk fails: what goes on, and what is said of the rest.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { errno, Faults } from './lib/faults.mjs';
import { request } from './lib/http.mjs';
import { call } from './lib/rpc.mjs';
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

    /** A tool's result; its object, whether it is an error or not. */
    async tool(name, args) {
        const result = await call(this.server, 'tools/call', { name, arguments: args });
        return result.isError ? JSON.parse(result.content[0].text) : result.structuredContent;
    }

    put(id, n) {
        return this.tool('upsert-entity', { uri: noteUri(id), value: { n } });
    }

    /** { status, n }: what plain HTTP says of an entity. */
    async read(id) {
        const { status, text } = await request(this.server, { method: 'GET', path: `/entity/Note@1/${id}` });
        return status === 200 ? { status, n: JSON.parse(text).value.n } : { status };
    }
}

test('on a full disk lists and initial states are given as they are, and only writes are refused', async (t) => {
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
