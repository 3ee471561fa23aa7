// SPDX-License-Identifier: MIT
//
// Many subscribers. Each receives exactly its own changes in order, regardless of the others. Also the server's own
// counters of them.

import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { encodeRequest } from './lib/http.mjs';
import { RESOURCE, servePublish } from './lib/publish.mjs';
import { call, freshId, listen, meta, modernHeaders, Session } from './lib/rpc.mjs';
import { legacyClient, modernClient, TRANSPORTS } from './lib/sdk.mjs';
import { serve } from './lib/server.mjs';
import { extras, isUpdate, OPTIONS, seqOf, Subscriber, updatesFor } from './lib/subscriber.mjs';
import { DEADLINE, eventually, within } from './lib/wait.mjs';

const ERAS = ['legacy', 'modern'];
const on = (...uris) => ({ resourceSubscriptions: uris });
const each = (count, fn) => Promise.all(Array.from({ length: count }, (_, i) => fn(i)));

/** The bytes of a modern listen. */
export function listenRequest(port, uri, options) {
    const method = 'subscriptions/listen';
    const _meta = meta(options && { [OPTIONS]: options });
    const params = { _meta, notifications: on(uri) };
    return encodeRequest(port, {
        headers: {
            'Content-Type': 'application/json',
            Accept: 'application/json, text/event-stream',
            ...modernHeaders(method),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: freshId(), method, params }),
    });
}

/** A listen that counts its updates instead of storing them. */
class Counter {
    told = 0;
    text = '';

    constructor(t, server, uri, options) {
        this.socket = net.connect({ host: '127.0.0.1', port: server.port });
        this.socket.on('error', () => {});
        defer(t, () => this.socket.destroy());
        this.socket.write(listenRequest(server.port, uri, options));
        this.acknowledged = new Promise((resolve) => {
            this.resolve = resolve;
        });
        this.socket.setEncoding('utf8').on('data', (text) => this.#read(text));
    }

    #read(text) {
        const parts = (this.text + text).split('\n\n');
        this.text = parts.pop();
        for (const part of parts) {
            if (part.includes('subscriptions/acknowledged')) {
                this.resolve();
            } else if (part.includes('resources/updated')) {
                this.told += 1;
                this.last = part;
            }
        }
    }
}

for (const era of ERAS) {
    for (const count of [10, 50]) {
        test(`${era}: ${count} subscribers receive all of ten changes in order`, async (t) => {
            const server = await servePublish(t);
            const all = await each(count, () => Subscriber.join(server, era));
            await Promise.all(all.map((s) => s.ask([RESOURCE])));
            for (let i = 1; i <= 10; i += 1) {
                await server.publish({ i });
                const updates = await Promise.all(all.map((s) => s.update(RESOURCE)));
                assert.deepEqual(new Set(updates.map((m) => extras(m).metadata.i)), new Set([i]));
                assert.equal(new Set(updates.map((m) => extras(m).version)).size, 1);
            }
            for (const s of all) {
                const versions = s.messages.filter(isUpdate).map((m) => seqOf(extras(m).version));
                assert.equal(versions.length, 10);
                assert.deepEqual(versions, versions.toSorted((a, b) => a - b));
                s.close();
            }
        });
    }

    test(`${era}: subscribers are isolated, and silent after unsubscribe`, async (t) => {
        const files = { 'a.txt': '1', 'b.txt': '1' };
        const server = await serve(t, { files, args: ['--window', '0'] });
        const [a, b] = [server.uri('a.txt'), server.uri('b.txt')];
        const [one, two] = await each(2, () => Subscriber.join(server, era));
        await one.ask([a]);
        await two.ask([b]);
        server.tree.replace('a.txt', '2');
        await one.update(a);
        server.tree.replace('b.txt', '2');
        await two.update(b);
        if (era === 'legacy') {
            await one.session.call('resources/unsubscribe', { uri: a });
            await two.ask([a]);
            server.tree.replace('a.txt', '3');
            await two.update(a);
            /* A mark on the same stream: all earlier updates have arrived. */
            await one.ask([b]);
            server.tree.replace('b.txt', '3');
            await one.update(b);
        }
        const uris = (s) => s.messages.filter(isUpdate).map((m) => m.params.uri);
        assert.deepEqual(uris(one), era === 'legacy' ? [a, b] : [a]);
        assert.equal(uris(two).filter((uri) => uri === a).length, era === 'legacy' ? 1 : 0);
    });

    test(`${era}: twenty changes 10 ms apart are all delivered, a burst may merge into one`, async (t) => {
        const server = await servePublish(t);
        const s = await Subscriber.join(server, era);
        await s.ask([RESOURCE]);
        for (let i = 1; i <= 20; i += 1) {
            await server.publish({ i });
            await new Promise((resolve) => setTimeout(resolve, 10));
        }
        await each(50, () => server.publish({ i: 21 }));
        const heard = new Set();
        for (let told = 0; told < 70; ) {
            const { merged = 1, metadata } = extras(await s.update(RESOURCE));
            told += merged; /* changes in one server turn merge */
            assert.ok(told <= 70);
            heard.add(metadata.i);
        }
        assert.ok(heard.size >= 15, `only ${heard.size} of 21 different ones`);
        assert.ok(heard.has(21));
    });

    test(`${era}: storm of a hundred changes is coalesced without loss`, async (t) => {
        const server = await servePublish(t);
        const s = await Subscriber.join(server, era);
        await s.ask([RESOURCE], { windowMs: 100 });
        await each(100, (i) => server.publish({ i }));
        let told = 0;
        let updates = 0;
        while (told < 100) {
            told += extras(await s.update(RESOURCE)).merged ?? 1;
            updates += 1;
        }
        assert.equal(told, 100);
        assert.ok(updates < 50, `${updates} updates`);
        const last = s.messages.filter(isUpdate).at(-1);
        assert.equal(extras(last).metadata.i, 99);
    });
}

for (const transport of TRANSPORTS) {
    test(`SDK 1.x over ${transport}: options work in _meta, answers and updates`, async (t) => {
        const options = { files: { 'a.txt': '1' }, args: ['--window', '0'] };
        const { client, tree, received } = await legacyClient(t, transport, options);
        const uri = tree.uri('a.txt');
        const _meta = { [OPTIONS]: { include: 'value', initial: true } };
        const result = await client.subscribeResource({ uri, _meta });
        assert.match(result._meta['dev.tidings/cursor'], /^[0-9a-f]+\.\d+$/);
        const first = await received.next(updatesFor(uri), 'the state');
        assert.equal(extras(first).initial, true);
        assert.equal(extras(first).data[0].text, '1');
        tree.replace('a.txt', 'two');
        const second = await received.next(updatesFor(uri), 'the change');
        assert.equal(extras(second).data[0].text, 'two');
        const wrong = { uri, _meta: { [OPTIONS]: { include: 'all' } } };
        await assert.rejects(client.subscribeResource(wrong), /'include'.*metadata/);
    });

    test(`client 2.x over ${transport}: patterns work like any URI`, async (t) => {
        const options = { files: { 'a.log': '1', 'b.txt': '1' }, args: ['--window', '0'] };
        const { client, tree, received } = await modernClient(t, transport, options);
        const pattern = `${tree.uri('')}*.log`;
        const subscription = await client.listen(on(pattern));
        tree.replace('b.txt', '2');
        tree.replace('a.log', '2');
        const update = await received.next(updatesFor(pattern), 'an update');
        assert.equal(update.params.uri, tree.uri('a.log'));
        await subscription.close();
    });
}

test('1,000 subscribers of one URI all receive a change, and a stalled one delays none', async (t) => {
    const files = { 'a.txt': '1' };
    const args = ['--window', '0', '--stall-timeout', '2s', '--self'];
    const server = await serve(t, { files, args });
    const uri = server.uri('a.txt');
    const all = await each(1000, () => new Counter(t, server, uri));
    /* This client requests much and reads nothing. */
    const stalled = new Counter(t, server, uri, { include: 'value' });
    await within(Promise.all([...all, stalled].map((s) => s.acknowledged)), 'acknowledgements');
    stalled.socket.pause();
    for (let i = 1; i <= 20; i += 1) {
        const begun = Date.now();
        server.tree.replace('a.txt', `${i}${'x'.repeat(60_000)}`);
        await eventually(() => all.every((s) => s.told === i), `round ${i}: all are told`);
        assert.ok(Date.now() - begun < DEADLINE / 2, `round ${i} took ${Date.now() - begun} ms`);
    }
    const [subscriptions, subscribers] = await totals(server, 'subscriptions', 'subscribers'); // from one snapshot
    assert.equal(subscriptions, subscribers);
    /* The server disconnects it, so it can reconnect, and removes it from the counters. */
    await eventually(async () => (await total(server, 'subscribers')) === 1000, 'the stalled one is cut');
    server.tree.replace('a.txt', 'small again');
    await eventually(() => all.every((s) => s.told === 21), 'the others are told');
    all.forEach((s) => s.socket.destroy());
    await eventually(async () => (await total(server, 'subscriptions')) === 0, 'all are gone');
    assert.equal(await total(server, 'subscribers'), 0);
});

/** The sums of counters over all workers. */
async function totals(server, ...names) {
    const { contents } = await call(server, 'resources/read', { uri: 'tidings://self/stats' });
    const workers = JSON.parse(contents[0].text);
    return names.map((name) => workers.reduce((sum, worker) => sum + worker[name], 0));
}

const total = async (server, name) => (await totals(server, name))[0];

const self = async (server, name) => {
    const { contents } = await call(server, 'resources/read', { uri: `tidings://self/${name}` });
    assert.equal(contents[0].mimeType, 'application/json');
    return JSON.parse(contents[0].text);
};

test('--self: server describes its peers, subscriptions and counters', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self', '--window', '0'] });
    const a = server.uri('a.txt');
    const session = await Session.open(server);
    const stream = await session.stream();
    await session.subscribe(a);
    const { id, events } = await listen(server, on(a, server.uri('')));
    const rows = await self(server, 'subscriptions');
    const mine = rows.map((row) => [row.subscribedUri, row.subscriptionId]);
    const expected = [[a, undefined], [a, id], [server.uri(''), id]];
    assert.deepEqual(new Set(mine.map(String)), new Set(expected.map(String)));
    const peers = await self(server, 'peers');
    assert.equal(peers.length, 2);
    assert.deepEqual(peers.map((one) => one.subscriptions).sort(), [1, 2]);
    server.tree.replace('a.txt', '2');
    await events.message(isUpdate, 'an update');
    await stream.message(isUpdate, 'an update');
    assert.equal(await total(server, 'subscriptions'), 3);
    assert.equal(await total(server, 'sessions'), 1);
    assert.ok((await total(server, 'deliveries')) >= 3);
    events.close();
    await session.end();
    await eventually(async () => (await total(server, 'subscriptions')) === 0, 'both are gone');
    assert.equal(await total(server, 'subscribers'), 0);
    assert.equal(await total(server, 'sessions'), 0);
});

test('--self: counters can be listed and subscribed like other resources', async (t) => {
    const server = await serve(t, { files: {}, args: ['--self'] });
    const { resources } = await call(server, 'resources/list');
    const own = resources.map((r) => r.uri).filter((uri) => uri.startsWith('tidings:'));
    const names = ['failures', 'history', 'limits', 'metrics', 'mounts', 'nodes', 'peers', 'sandbox', 'semantics', 'stats', 'status', 'subscriptions', 'subscriptions/mine', 'tokens', 'tools'];
    assert.deepEqual(own.sort(), names.map((name) => `tidings://self/${name}`));
    const { events, ack } = await listen(server, on('tidings://self/stats'));
    assert.deepEqual(ack.notifications, on('tidings://self/stats'));
    await events.message(updatesFor('tidings://self/stats'), 'an update of the counters');
});

test('--self: peers and subscriptions have pages, and mounts are listed', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self', '--max-uris-per-listen', '2000'] });
    const uris = Array.from({ length: 1200 }, (_, i) => `${server.uri('')}d${i}/`);
    const { events } = await listen(server, on(...uris));
    const other = await listen(server, on(server.uri('a.txt')));
    const pages = async (name) => {
        const sizes = [];
        const rows = [];
        for (let after = ''; ; after = `?after=${rows.at(-1).row}`) {
            const page = await self(server, `${name}${after}`);
            sizes.push(page.length);
            rows.push(...page);
            if (page.length === 0) {
                return { sizes, rows };
            }
        }
    };
    const { sizes, rows } = await pages('subscriptions');
    assert.ok(sizes.every((size) => size <= 2000) && sizes.length > 2, `${sizes}`);
    assert.deepEqual(rows.map((row) => row.subscribedUri).sort(), [...uris, server.uri('a.txt')].sort());
    const peers = await pages('peers');
    assert.equal(peers.rows.length, 2);
    assert.equal(new Set(peers.rows.map((row) => row.peer)).size, 2);
    assert.deepEqual(new Set(rows.map((row) => row.peer)), new Set(peers.rows.map((row) => row.peer)));
    await assert.rejects(self(server, 'peers?after=x'), /after=/);
    const mounts = await self(server, 'mounts');
    assert.ok(mounts.some((mount) => mount.uri === server.uri('') && mount.provider === 'file'));
    events.close();
    other.events.close();
});

test('server state is absent without --self', async (t) => {
    const server = await serve(t, { files: {} });
    const { ack } = await listen(server, on('tidings://self/stats', 'tidings://self/'));
    assert.deepEqual(ack.notifications, {});
});
