// SPDX-License-Identifier: MIT
//
// The official SDK 1.x client (2025-11-25) against the program, over HTTP, a pipe and HTTP+SSE.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { relay } from './lib/proxy.mjs';
import { key, listChanged, updates } from './lib/rpc.mjs';
import { legacyClient, LEGACY_TRANSPORTS } from './lib/sdk.mjs';

const PNG = Buffer.from('89504e470d0a1a0a0000000d49484452ff00fe', 'hex');

for (const transport of LEGACY_TRANSPORTS) {
    const it = (name, body) => test(`${transport}: ${name}`, body);

    it('initialize returns 2025-11-25 and accurate capabilities', async (t) => {
        const { client, wire } = await legacyClient(t, transport, { files: { 'a.txt': 'a' } });
        const capabilities = client.getServerCapabilities();
        assert.equal(capabilities.resources.subscribe, true);
        assert.equal(capabilities.resources.listChanged, true);
        assert.deepEqual(capabilities.tools, { listChanged: true }, 'a list, empty or not');
        assert.deepEqual(capabilities.prompts, { listChanged: true }, 'a list, empty or not');
        assert.equal(client.getServerVersion().name, 'tidings');
        assert.match(client.getServerVersion().version, /^\d+\.\d+\.\d+/);
        if (transport === 'http') {
            assert.equal(wire.protocolVersion, '2025-11-25');
            assert.match(wire.sessionId, /^[\x21-\x7e]+$/);
        }
    });

    it('list of many files has pages without gaps or repeats', async (t) => {
        const names = Array.from(
            { length: 57 },
            (_, i) => `file-${String(i).padStart(3, '0')}.txt`,
        );
        const files = Object.fromEntries(names.map((name) => [name, name]));
        const { client, tree } = await legacyClient(t, transport, {
            files,
            args: ['--page-size', '10'],
        });
        const uris = [];
        let cursor;
        let pages = 0;
        do {
            const page = await client.listResources(cursor === undefined ? {} : { cursor });
            assert.ok(page.resources.length <= 10, `a page of ${page.resources.length}`);
            uris.push(...page.resources.map((resource) => resource.uri));
            cursor = page.nextCursor;
            pages += 1;
        } while (cursor !== undefined);
        assert.deepEqual(
            uris.filter((uri) => uri !== tree.uri()),
            names.map((name) => tree.uri(name)),
        );
        assert.ok(pages >= 6, `${pages} pages`);
    });

    it('listed resource has a description', async (t) => {
        const files = { 'notes/plan.md': '# plan\n' };
        const { client, tree } = await legacyClient(t, transport, { files });
        const { resources } = await client.listResources();
        const find = (name) => resources.find((resource) => resource.uri === tree.uri(name));
        const file = find('notes/plan.md');
        assert.ok(file, `not listed: ${JSON.stringify(resources)}`);
        assert.equal(file.name, 'plan.md');
        assert.equal(file.mimeType, 'text/markdown');
        assert.equal(file.size, 7);
        const age = Date.now() - Date.parse(file.annotations.lastModified);
        assert.ok(age > -5000 && age < 600_000, `lastModified ${file.annotations.lastModified}`);
        assert.equal(find('notes/')?.mimeType, 'inode/directory');
    });

    it('text is read as text, other bytes as base64', async (t) => {
        const files = { 'hello.txt': 'grüß Gott\n', 'dot.png': PNG };
        const { client, tree } = await legacyClient(t, transport, { files });
        const text = await client.readResource({ uri: tree.uri('hello.txt') });
        assert.equal(text.contents.length, 1);
        assert.equal(text.contents[0].text, 'grüß Gott\n');
        assert.equal(text.contents[0].uri, tree.uri('hello.txt'));
        assert.equal(text.contents[0].mimeType, 'text/plain');
        const blob = await client.readResource({ uri: tree.uri('dot.png') });
        assert.equal(blob.contents[0].mimeType, 'image/png');
        assert.deepEqual(Buffer.from(blob.contents[0].blob, 'base64'), PNG);
    });

    it('missing resource returns error -32002 with its URI', async (t) => {
        const { client, tree } = await legacyClient(t, transport);
        const uri = tree.uri('missing.txt');
        await assert.rejects(client.readResource({ uri }), (error) => {
            assert.equal(error.code, -32002, error.message);
            assert.deepEqual(error.data, { uri, reason: 'not_found' });
            return true;
        });
    });

    it('templates are listed', async (t) => {
        const { client } = await legacyClient(t, transport);
        const { resourceTemplates } = await client.listResourceTemplates();
        assert.ok(Array.isArray(resourceTemplates));
    });

    it('change of a subscribed file is delivered with its uri and subscribedUri', async (t) => {
        const files = { 'a.txt': '1' };
        const { client, tree, received } = await legacyClient(t, transport, { files });
        const uri = tree.uri('a.txt');
        const { _meta, ...rest } = await client.subscribeResource({ uri });
        assert.deepEqual(rest, {});
        assert.match(_meta['dev.tidings/cursor'], /^[0-9a-f]+\.\d+$/);
        tree.write('a.txt', '2');
        const { params } = await received.next(updates(uri), `an update of ${uri}`);
        assert.equal(params.subscribedUri, uri);
        assert.equal(params._meta[key.subscribed], uri);
        const { contents } = await client.readResource({ uri });
        assert.equal(contents[0].text, '2');
    });

    it('subscribed directory receives all changes below it', async (t) => {
        const files = { 'docs/deep/er/a.txt': '1', 'other.txt': '1' };
        const { client, tree, received } = await legacyClient(t, transport, { files });
        const uri = tree.uri('docs/');
        await client.subscribeResource({ uri });
        tree.write('other.txt', '2');
        tree.write('docs/deep/er/a.txt', '2');
        const child = tree.uri('docs/deep/er/a.txt');
        const { params } = await received.next(updates(child), `an update of ${child}`);
        assert.equal(params.subscribedUri, uri);
        tree.write('docs/new.txt', 'new');
        await received.next(updates(tree.uri('docs/new.txt')), 'an update of the new file');
        assert.ok(
            !received.seen.some(updates(tree.uri('other.txt'))),
            'other.txt is not below docs/',
        );
    });

    it('unsubscribe stops the updates of that file only', async (t) => {
        const files = { 'a.txt': '1', 'b.txt': '1' };
        const { client, tree, received } = await legacyClient(t, transport, { files });
        await client.subscribeResource({ uri: tree.uri('a.txt') });
        await client.subscribeResource({ uri: tree.uri('b.txt') });
        assert.deepEqual(await client.unsubscribeResource({ uri: tree.uri('a.txt') }), {});
        tree.write('a.txt', '2');
        tree.write('b.txt', '2');
        await received.next(updates(tree.uri('b.txt')), 'an update of b.txt');
        assert.ok(!received.seen.some(updates(tree.uri('a.txt'))), 'a.txt was unsubscribed');
    });

    it('creation and deletion of a file change the list', async (t) => {
        const { client, tree, received } = await legacyClient(t, transport, {
            files: { 'a.txt': '1' },
        });
        await client.subscribeResource({ uri: tree.uri('a.txt') });
        tree.write('new.txt', 'x');
        await received.next(listChanged, 'list_changed after a creation');
        const named = async () => (await client.listResources()).resources.map((r) => r.uri);
        assert.ok((await named()).includes(tree.uri('new.txt')));
        received.items = [];
        tree.remove('new.txt');
        await received.next(listChanged, 'list_changed after a deletion');
        assert.ok(!(await named()).includes(tree.uri('new.txt')));
    });

    it('ping and setLevel are answered', async (t) => {
        const { client } = await legacyClient(t, transport);
        assert.deepEqual(await client.ping(), {});
        assert.ok(client.getServerCapabilities().logging, 'logging is advertised');
        assert.deepEqual(await client.setLoggingLevel('warning'), {});
        const bad = client.request(
            { method: 'logging/setLevel', params: { level: 'loud' } },
            { parse: (value) => value, safeParse: (value) => ({ success: true, data: value }) },
        );
        await assert.rejects(bad, { code: -32602 });
    });

    it('unknown method returns error -32601', async (t) => {
        const { client } = await legacyClient(t, transport);
        const any = { parse: (value) => value, safeParse: (value) => ({ success: true, data: value }) };
        await assert.rejects(client.request({ method: 'no/such' }, any), { code: -32601 });
    });
}

test('http: terminateSession ends the session', async (t) => {
    const { client, wire } = await legacyClient(t, 'http');
    await wire.terminateSession();
    assert.equal(wire.sessionId, undefined);
    await assert.rejects(client.ping(), 'the session is gone');
});

test('http: client resumes without loss after a network failure', async (t) => {
    const options = { files: { 'a.txt': '1', 'b.txt': '1' }, through: relay };
    const { client, tree, received, proxy } = await legacyClient(t, 'http', options);
    await client.subscribeResource({ uri: tree.uri('a.txt') });
    await client.subscribeResource({ uri: tree.uri('b.txt') });
    tree.write('a.txt', '2');
    await received.next(updates(tree.uri('a.txt')), 'an update before the break');
    proxy.cut();
    tree.write('b.txt', '2');
    await received.next(updates(tree.uri('b.txt')), 'the update made during the break');
    assert.deepEqual(await client.ping(), {}, 'the session is still alive');
});
