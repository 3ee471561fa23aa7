// SPDX-License-Identifier: MIT
//
// The official client 2.x, pinned to 2026-07-28, against the program, over HTTP and a pipe.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { modernClient, TRANSPORTS } from './lib/sdk.mjs';
import { key, listChanged, updates } from './lib/rpc.mjs';
import { within } from './lib/wait.mjs';

const BINARY = Buffer.from('89504e470d0a1a0a0000000d49484452ff00fe', 'hex');

/** The raw answer to the client's last request. */
const lastResult = (received) => received.seen.filter((m) => m.result).at(-1).result;

for (const transport of TRANSPORTS) {
    const it = (name, body) => test(`${transport}: ${name}`, body);

    it('discover offers 2026-07-28 and accurate capabilities', async (t) => {
        const { client } = await modernClient(t, transport);
        assert.equal(client.getNegotiatedProtocolVersion?.() ?? '2026-07-28', '2026-07-28');
        const capabilities = client.getServerCapabilities();
        assert.equal(capabilities.resources.subscribe, true);
        assert.equal(capabilities.resources.listChanged, true);
        assert.deepEqual(capabilities.tools, { listChanged: true }, 'a list, empty or not');
        assert.equal(client.getServerVersion().name, 'tidings');
    });

    it('lists carry resultType, ttlMs, cacheScope and serverInfo', async (t) => {
        const files = { 'a.txt': 'a', 'b/c.txt': 'c' };
        const { client, tree, received } = await modernClient(t, transport, { files });
        const { resources } = await client.listResources();
        const uris = resources.map((resource) => resource.uri);
        assert.ok(uris.includes(tree.uri('a.txt')), uris.join(' '));
        assert.ok(uris.includes(tree.uri('b/c.txt')), uris.join(' '));
        complete(lastResult(received), { cacheable: true });
        const { resourceTemplates } = await client.listResourceTemplates();
        assert.ok(Array.isArray(resourceTemplates));
        complete(lastResult(received), { cacheable: true });
    });

    it('the client collects all pages of a list', async (t) => {
        const names = Array.from({ length: 25 }, (_, i) => `f${String(i).padStart(2, '0')}`);
        const files = Object.fromEntries(names.map((name) => [name, name]));
        const options = { files, args: ['--page-size', '4'] };
        const { client, tree } = await modernClient(t, transport, options);
        const uris = (await client.listResources()).resources.map((resource) => resource.uri);
        assert.deepEqual(
            uris.filter((uri) => uri !== tree.uri()),
            names.map((name) => tree.uri(name)),
        );
    });

    it('text and binary files are read', async (t) => {
        const files = { 'hello.txt': 'grüß Gott\n', 'dot.png': BINARY };
        const { client, tree, received } = await modernClient(t, transport, { files });
        const text = await client.readResource({ uri: tree.uri('hello.txt') });
        assert.equal(text.contents[0].text, 'grüß Gott\n');
        complete(lastResult(received), { cacheable: true });
        const blob = await client.readResource({ uri: tree.uri('dot.png') });
        assert.deepEqual(Buffer.from(blob.contents[0].blob, 'base64'), BINARY);
    });

    it('resource with a non-ASCII name is read', async (t) => {
        const { client, tree } = await modernClient(t, transport, { files: { 'größe.txt': 'xl' } });
        const { resources } = await client.listResources();
        const listed = resources.find((resource) =>
            decodeURIComponent(resource.uri).endsWith('größe.txt'),
        );
        assert.ok(listed, JSON.stringify(resources));
        assert.equal((await client.readResource({ uri: listed.uri })).contents[0].text, 'xl');
        const raw = `file://${tree.path}/größe.txt`;
        assert.equal((await client.readResource({ uri: raw })).contents[0].text, 'xl');
    });

    it('missing resource returns error -32602 with its URI', async (t) => {
        const { client, tree } = await modernClient(t, transport);
        const uri = tree.uri('missing.txt');
        await assert.rejects(client.readResource({ uri }), (error) => {
            assert.equal(error.code, -32602, error.message);
            assert.equal(error.data.uri, uri);
            return true;
        });
    });

    it('listen delivers changes with its subscription id', async (t) => {
        const files = { 'a.txt': '1', 'dir/b.txt': '1' };
        const { client, tree, received } = await modernClient(t, transport, { files });
        const wanted = [tree.uri('a.txt'), tree.uri('dir/')];
        const filter = { resourceSubscriptions: wanted, resourcesListChanged: true };
        const subscription = await within(client.listen(filter), 'the acknowledgement');
        assert.deepEqual(subscription.honoredFilter, filter);
        tree.write('a.txt', '2');
        const file = await received.next(updates(tree.uri('a.txt')), 'an update of a.txt');
        assert.equal(file.params._meta[key.subscription], 'listen:0');
        assert.equal(file.params.subscribedUri, tree.uri('a.txt'));
        tree.write('dir/b.txt', '2');
        const child = await received.next(updates(tree.uri('dir/b.txt')), 'an update of dir/b.txt');
        assert.equal(child.params.subscribedUri, tree.uri('dir/'));
        assert.equal(child.params._meta[key.subscribed], tree.uri('dir/'));
        tree.write('dir/new.txt', '1');
        const changed = await received.next(listChanged, 'list_changed');
        assert.equal(changed.params._meta[key.subscription], 'listen:0');
    });

    it('closed listen is silent and another one still works', async (t) => {
        const files = { 'a.txt': '1', 'b.txt': '1' };
        const { client, tree, received, errors } = await modernClient(t, transport, { files });
        const first = await client.listen({ resourceSubscriptions: [tree.uri('a.txt')] });
        await first.close();
        assert.equal(await within(first.closed, 'the first listen to close'), 'local');
        await client.listen({ resourceSubscriptions: [tree.uri('b.txt')] });
        tree.write('a.txt', '2');
        tree.write('b.txt', '2');
        const update = await received.next(updates(tree.uri('b.txt')), 'an update of b.txt');
        assert.equal(update.params._meta[key.subscription], 'listen:1');
        assert.ok(!received.seen.some(updates(tree.uri('a.txt'))), 'the first listen was closed');
        assert.deepEqual(errors, []);
    });
}

test('http: SIGTERM closes a listen gracefully', async (t) => {
    const { client, tree, server } = await modernClient(t, 'http', { files: { 'a.txt': '1' } });
    const subscription = await client.listen({ resourceSubscriptions: [tree.uri('a.txt')] });
    await server.stop();
    assert.equal(await within(subscription.closed, 'the listen to close'), 'graceful');
});

test('http: client that accepts both eras chooses the modern one', async (t) => {
    const { client } = await modernClient(t, 'http', { mode: 'auto' });
    assert.ok(await client.listen({ resourcesListChanged: true }));
});

test('http: client that requires the legacy era gets it', async (t) => {
    const { client, wire } = await modernClient(t, 'http', { mode: 'legacy', files: { a: '1' } });
    assert.equal(wire.protocolVersion, '2025-11-25');
    assert.ok((await client.listResources()).resources.length >= 1);
});

function complete(result, { cacheable }) {
    const text = JSON.stringify(result);
    assert.equal(result.resultType, 'complete', text);
    assert.equal(result._meta[key.server].name, 'tidings', text);
    if (cacheable) {
        assert.ok(Number.isInteger(result.ttlMs) && result.ttlMs >= 0, text);
        assert.match(result.cacheScope, /^(public|private)$/, text);
    }
}
