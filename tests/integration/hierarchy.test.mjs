// SPDX-License-Identifier: MIT
//
// One resource and its direct children: resources/metadata, resources/list with `uri`, resources/directory/read.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call, modern, Session } from './lib/rpc.mjs';
import { serve, serveExample } from './lib/server.mjs';

const files = { 'a.txt': 'one', 'dir/b.txt': '2', 'dir/c.txt': '3', 'dir/deep/d.txt': '4' };

test('metadata describes a resource without its content', async (t) => {
    const server = await serve(t, { files });
    const { resource } = await call(server, 'resources/metadata', { uri: server.uri('a.txt') });
    assert.equal(resource.uri, server.uri('a.txt'));
    assert.equal(resource.mimeType, 'text/plain');
    assert.equal(resource.size, 3);
    assert.deepEqual(resource.capabilities, { list: false, subscribe: true });
    assert.equal('text' in resource, false);
    const dir = await call(server, 'resources/metadata', { uri: server.uri('dir/') });
    assert.equal(dir.resource.mimeType, 'inode/directory');
    assert.equal(dir.resource.capabilities.list, true);
});

for (const method of ['resources/list', 'resources/directory/read']) {
    test(`${method} with a uri lists direct children only, in pages bound to it`, async (t) => {
        const server = await serve(t, { files });
        const uri = server.uri('dir/');
        const seen = [];
        let cursor;
        do {
            const page = await call(server, method, { uri, pageSize: 1, ...(cursor && { cursor }) });
            seen.push(...page.resources.map((r) => r.uri));
            cursor = page.nextCursor;
        } while (cursor && seen.length < 10);
        assert.deepEqual(seen, ['dir/b.txt', 'dir/c.txt', 'dir/deep/'].map((f) => server.uri(f)));
        const { nextCursor } = await call(server, method, { uri, pageSize: 1 });
        const { json } = await modern(server, method, { uri: server.uri(''), cursor: nextCursor });
        assert.equal(json.error.code, -32602, 'a cursor of another resource');
    });

    test(`${method} returns a specific error for missing or childless resources`, async (t) => {
        const server = await serve(t, { files });
        const missing = await modern(server, method, { uri: server.uri('nope/') });
        assert.equal(missing.json.error.code, -32602);
        assert.equal(missing.json.error.data.uri, server.uri('nope/'));
        const leaf = await modern(server, method, { uri: server.uri('a.txt') });
        assert.equal(leaf.json.error.code, -32602);
        assert.deepEqual(leaf.json.error.data, { uri: server.uri('a.txt'), reason: 'not_listable' });
        const session = await Session.open(server);
        const legacy = await session.send(method, { uri: server.uri('a.txt') });
        assert.equal(legacy.json.error.code, -32002);
    });
}

test('mount of a list-only provider is listed in pages', async (t) => {
    const server = await serveExample(t, 'dice', ['--page-size', '2']);
    const first = await call(server, 'resources/list', { uri: 'dice:///' });
    assert.deepEqual(first.resources.map(({ uri }) => uri), ['dice:///d12', 'dice:///d20']);
    const rest = await call(server, 'resources/list', { uri: 'dice:///', cursor: first.nextCursor });
    assert.deepEqual(rest.resources.map(({ uri }) => uri), ['dice:///d6']);
    assert.equal(rest.nextCursor, undefined);
    await assert.rejects(call(server, 'resources/list', { uri: 'dice:///d7' }), /not found/);
    await assert.rejects(call(server, 'resources/list', { uri: 'dice:///d6' }), /no children/);
});
