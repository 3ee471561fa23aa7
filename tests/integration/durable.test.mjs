// SPDX-License-Identifier: MIT
//
// State that survives a restart: published resources with their content, and cursors. A client that resumes with its
// last cursor receives exactly the changes since then, also after kill -9 under load; for unretained resources and
// unknown cursors it receives a truncated update.

import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { request } from './lib/http.mjs';
import { call } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { extras, isUpdate, seqOf, Subscriber } from './lib/subscriber.mjs';
import { Tree } from './lib/tree.mjs';
import { slow } from './lib/wait.mjs';

const PUBLISHED = 'published:///';
const KEPT = 'entity:///Kept@1/';
const LATEST = 'entity:///Latest@1/'; // without history
const MARK = `${PUBLISHED}mark`;
const PLACES = [PUBLISHED, KEPT, LATEST];

/** The URI of `id` in a place; entity ids are unique across types. */
const at = (place, id) => place + (place === LATEST ? 'latest-' : '') + id;
const everywhere = (...ids) => ids.flatMap((id) => PLACES.map((place) => at(place, id)));

function folder(t) {
    const path = mkdtempSync(join(tmpdir(), 'tidings-durable-'));
    defer(t, () => rmSync(path, { recursive: true, force: true }));
    return path;
}

/** A server that stores its state in `file` and restarts repeatedly. */
class Store {
    constructor(t, { entities = true } = {}) {
        this.t = t;
        this.file = join(folder(t), 'store.db');
        this.tree = new Tree(t, { 'a.txt': 'a' });
        this.args = [entities ? '--entities' : '--store', this.file, '--allow-write'];
    }

    async start() {
        this.server = await serve(this.t, { tree: this.tree, args: this.args });
        return this.server;
    }

    async restart() {
        await this.server.stop();
        return this.start();
    }

    async addTypes() {
        const jsonSchema = { type: 'object', properties: { n: { type: 'integer' } } };
        await this.tool('add-entity-type', { name: 'Kept', version: '1', jsonSchema });
        await this.tool('add-entity-type', {
            name: 'Latest',
            version: '1',
            jsonSchema,
            options: { history: false },
        });
    }

    /** The result of a successful tool call. */
    async tool(name, args) {
        const result = await call(this.server, 'tools/call', { name, arguments: args });
        assert.ok(!result.isError, JSON.stringify(result));
        return result.structuredContent;
    }

    /** Writes number `n` to a URI of any kind; `undefined` removes it. */
    async write(uri, n) {
        if (uri.startsWith(PUBLISHED)) {
            const method = n === undefined ? 'DELETE' : 'PUT';
            const body = n === undefined ? undefined : `${n}`;
            const path = `/resource?uri=${encodeURIComponent(uri)}`;
            const response = await request(this.server, { method, path, body });
            assert.ok(response.status < 300, `${response.status} ${response.text}`);
        } else if (n === undefined) {
            await this.tool('delete-entity', { uri });
        } else {
            await this.tool('upsert-entity', { uri, value: { n } });
        }
    }

    /** { n, etag } of the current content, or undefined. */
    async read(uri) {
        const path = `/resource?uri=${encodeURIComponent(uri)}`;
        const { status, text, headers } = await request(this.server, { method: 'GET', path });
        if (status === 404 || status === 410) {
            return undefined;
        }
        assert.equal(status, 200, text);
        const n = uri.startsWith(PUBLISHED) ? Number(text) : JSON.parse(text).value.n;
        return { n, etag: headers.get('etag').replace(/^"|"$/g, '') };
    }
}

/** The state of one client: the newest etag of each reported resource. */
class Model {
    known = new Map();
    truncated = [];
    marks = Math.random();

    constructor(store, era) {
        this.store = store;
        this.era = era;
    }

    /** Subscribes; `since` replays missed changes. */
    async join(uris) {
        const subscriber = await Subscriber.join(this.store.server, this.era);
        const options = { windowMs: 0, initial: false, ...(this.cursor && { since: this.cursor }) };
        const { cursor, honoured } = await subscriber.ask(uris, options);
        assert.deepEqual(honoured, uris);
        this.cursor ??= cursor;
        this.subscriber = subscriber;
        this.taken = 0;
        this.counts = new Map();
    }

    /** Processes all messages received so far. */
    take() {
        const { messages } = this.subscriber;
        for (; this.taken < messages.length; this.taken += 1) {
            const message = messages[this.taken];
            if (!isUpdate(message)) {
                continue;
            }
            const { uri, subscribedUri } = message.params;
            const { change, etag, truncated, cursor } = extras(message);
            this.cursor = cursor;
            this.counts.set(uri, (this.counts.get(uri) ?? 0) + 1);
            if (truncated) {
                this.truncated.push(subscribedUri);
            } else if (change === 'deleted') {
                this.known.delete(uri);
            } else {
                this.known.set(uri, etag);
            }
        }
    }

    /** Writes the mark last and waits for its update, which follows all others. Repeats while the cursor is lower,
     * which is possible while several subscriptions catch up. */
    async writeAndAwaitMark() {
        do {
            this.marks += 1;
            await this.store.write(MARK, this.marks);
            const { etag } = await this.store.read(MARK);
            const isMark = (m) => isUpdate(m) && m.params.uri === MARK && extras(m).etag === etag;
            const { version } = extras(
                await this.subscriber.message(isMark, 'the update of the mark', 60_000 * slow),
            );
            this.mark = version;
            this.take();
        } while (seqOf(this.cursor) < seqOf(this.mark));
    }
}

/** The number of updates per resource, without the mark. */
const told = (model) => Object.fromEntries([...model.counts].filter(([uri]) => uri !== MARK));

for (const era of ['legacy', 'modern']) {
    const it = (name, body) => test(`${era}: ${name}`, body);

    it('client that resumes after a restart receives each changed resource once and no other', async (t) => {
        const store = new Store(t);
        await store.start();
        await store.addTypes();
        for (const uri of everywhere('a', 'b', 'c')) {
            await store.write(uri, 1);
        }
        const model = new Model(store, era);
        await model.join(PLACES);
        await model.writeAndAwaitMark();
        model.subscriber.close();
        for (const place of PLACES) {
            await store.write(at(place, 'b'), 2);
            await store.write(at(place, 'b'), 3);
            await store.write(at(place, 'c'), undefined);
            await store.write(at(place, 'new'), 1);
        }
        await store.tool('undelete-entity', { uri: `${KEPT}c` });
        await store.restart();
        await store.write(`${KEPT}a`, 2); // after the restart
        await model.join(PLACES);
        await model.writeAndAwaitMark();
        assert.deepEqual(model.truncated, []);
        const changed = everywhere('b', 'c', 'new');
        assert.deepEqual(
            told(model),
            Object.fromEntries([...changed, `${KEPT}a`].map((uri) => [uri, 1])),
        );
        const kinds = new Map(
            model.subscriber.messages.filter(isUpdate).map((m) => [m.params.uri, extras(m).change]),
        );
        assert.equal(kinds.get(`${KEPT}new`), 'created');
        assert.equal(kinds.get(`${PUBLISHED}new`), 'created');
        assert.equal(kinds.get(`${PUBLISHED}b`), 'updated');
        assert.equal(kinds.get(`${PUBLISHED}c`), 'deleted');
        assert.equal(kinds.get(at(LATEST, 'c')), 'deleted');

        // Once more: only later changes.
        model.subscriber.close();
        await store.restart();
        await model.join(PLACES);
        await model.writeAndAwaitMark();
        assert.deepEqual(told(model), {});
        assert.deepEqual(model.truncated, []);
    });

    it('unretained resources must be read again after a restart and retained ones not', async (t) => {
        const store = new Store(t, { entities: false });
        store.args.push('--system', '--system-interval', '1h');
        await store.start();
        await store.write(`${PUBLISHED}x`, 1);
        const model = new Model(store, era);
        const metrics = 'system://metrics/';
        const everything = [PUBLISHED, metrics];
        await model.join(everything);
        await model.writeAndAwaitMark();
        model.subscriber.close();
        await store.restart();
        await model.join(everything);
        await model.writeAndAwaitMark();
        await model.subscriber.message(
            (m) => isUpdate(m) && extras(m).truncated,
            'that the metrics have to be read again',
        );
        model.take();
        assert.deepEqual(model.truncated, [metrics]);
        assert.equal(model.counts.get(`${PUBLISHED}x`), undefined);
    });

    it('cursor from after a restored backup or of another file is invalid', async (t) => {
        const store = new Store(t, { entities: false });
        await store.start();
        await store.write(`${PUBLISHED}x`, 1);
        await store.restart();
        const model = new Model(store, era);
        await model.join([PUBLISHED]);
        await store.write(`${PUBLISHED}y`, 1);
        await model.writeAndAwaitMark();
        const before = model.cursor;
        await store.server.stop();
        copyFileSync(store.file, `${store.file}.copy`);
        await store.start();
        const late = new Model(store, era);
        await late.join([PUBLISHED]);
        await store.write(`${PUBLISHED}x`, 2);
        await late.writeAndAwaitMark();
        await store.server.stop();
        copyFileSync(`${store.file}.copy`, store.file);
        for (const [cursor, expected] of [
            [before, []],
            [late.cursor, [PUBLISHED]],
            [`${late.cursor.split('.')[0]}.999999.999999`, [PUBLISHED]],
        ]) {
            await store.start();
            const again = new Model(store, era);
            again.cursor = cursor;
            await again.join([PUBLISHED]);
            await again.writeAndAwaitMark();
            assert.deepEqual(again.truncated, expected, cursor);
            await store.server.stop();
        }
        const other = new Store(t, { entities: false });
        await other.start();
        await other.write(`${PUBLISHED}x`, 1);
        const elsewhere = new Model(other, era);
        elsewhere.cursor = before;
        await elsewhere.join([PUBLISHED]);
        await elsewhere.writeAndAwaitMark();
        assert.deepEqual(elsewhere.truncated, [PUBLISHED]);
    });

    it('server killed at any moment under load loses nothing delivered or acknowledged', async (t) => {
        const store = new Store(t);
        await store.start();
        await store.addTypes();
        const uris = everywhere(1, 2, 3);
        const asked = new Map();
        const acknowledged = new Map();
        const model = new Model(store, era);
        let last = 0;
        let broken;

        const writer = async (uri) => {
            while (!broken) {
                const n = (last += 1);
                asked.set(uri, n);
                try {
                    await store.write(uri, n);
                } catch (error) {
                    broken = store.server.expectKilled ? undefined : error;
                    return;
                }
                acknowledged.set(uri, n);
            }
        };

        for (let round = 0; round < 6; round += 1) {
            await model.join(PLACES);
            const target = last + 60 + Math.floor(Math.random() * 400);
            const writers = uris.map(writer);
            while (last < target && !broken) {
                await new Promise((resolve) => setImmediate(resolve));
            }
            await store.server.kill();
            await Promise.all(writers);
            assert.ifError(broken);
            model.take(); // received before the stream broke
            await store.start();
            for (const uri of uris) {
                const found = await store.read(uri);
                const least = acknowledged.get(uri) ?? 0;
                assert.ok((found?.n ?? 0) >= least, `${uri}: ${found?.n} is there, not ${least}`);
                assert.ok(!found || found.n <= asked.get(uri), `${uri}: nobody wrote ${found?.n}`);
            }
            await model.join(PLACES);
            await model.writeAndAwaitMark();
            for (const uri of uris) {
                assert.equal(model.known.get(uri), (await store.read(uri))?.etag, uri);
            }
            assert.deepEqual(model.truncated, []);
            model.subscriber.close();
        }
    });
}

for (const limit of [
    ['--log-entries', '2'],
    ['--log-age', '1ms'],
]) {
    test(`history that is too short (${limit[0]}) is reported after a restart`, async (t) => {
        const store = new Store(t, { entities: false });
        await store.start();
        const model = new Model(store, 'modern');
        await model.join([PUBLISHED]);
        await model.writeAndAwaitMark();
        model.subscriber.close();
        for (const id of ['a', 'b', 'c', 'd']) {
            await store.write(PUBLISHED + id, 1);
        }
        store.args.push(...limit);
        await store.restart();
        await model.join([PUBLISHED]);
        await model.subscriber.message(
            (m) => isUpdate(m) && extras(m).truncated,
            'that everything has to be read again',
        );
    });
}

test('published resources keep content, description and etag over a restart', async (t) => {
    const store = new Store(t, { entities: false });
    await store.start();
    const uri = `${PUBLISHED}notes/a.bin`;
    const blob = Buffer.from([0, 255, 1, 128]).toString('base64');
    const _meta = { 'example.com/by': 'me' };
    const about = { title: 'A note', description: 'bytes', mimeType: 'application/x-own', _meta };
    const made = await store.tool('publish', { uri, blob, ...about });
    await store.write(`${PUBLISHED}gone`, 1);
    await store.write(`${PUBLISHED}gone`, undefined);
    const { resource } = await call(store.server, 'resources/metadata', { uri });
    await store.server.kill();
    await store.start();
    const read = await call(store.server, 'resources/read', { uri });
    assert.equal(read.contents[0].blob, blob);
    assert.equal(read.contents[0].mimeType, about.mimeType);
    assert.equal(read.contents[0]._meta['example.com/by'], 'me');
    assert.deepEqual((await call(store.server, 'resources/metadata', { uri })).resource, resource);
    const { resources } = await call(store.server, 'resources/list', { uri: PUBLISHED });
    assert.deepEqual(resources.map((r) => r.uri), [`${PUBLISHED}notes/`]);
    assert.equal(await store.read(`${PUBLISHED}gone`), undefined);
    const same = await store.tool('publish', { uri, blob, ...about, ifMatch: made.etag });
    assert.deepEqual(same, { uri, etag: made.etag, created: false });
});

test('resources below no prefix stay in the file and are served once a prefix covers them', async (t) => {
    const store = new Store(t, { entities: false });
    await store.start();
    await store.write(`${PUBLISHED}x`, 1);
    await store.server.stop();
    const args = store.args;
    store.args = [...args, '--publish', 'other:///'];
    await store.start();
    await store.server.lines.next((line) => /not served/.test(line), 'the warning');
    assert.equal(await store.read(`${PUBLISHED}x`), undefined);
    await store.server.stop();
    store.args = args;
    await store.start();
    assert.equal((await store.read(`${PUBLISHED}x`)).n, 1);
});

test('two store files are refused', async (t) => {
    const path = folder(t);
    const args = ['serve', '--entities', join(path, 'a.db'), '--store', join(path, 'b.db'), path];
    const { code, stderr } = await run(t, args);
    assert.notEqual(code, 0);
    assert.match(stderr, /a server has one store/);
});
