// SPDX-License-Identifier: MIT
//
// The tools `publish` and `unpublish`, called by both official clients over both transports.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { legacyClient, modernClient, TRANSPORTS } from './lib/sdk.mjs';

const NOTE = 'published:///notes/a.md';

for (const transport of TRANSPORTS) {
    for (const [era, open] of [
        ['2025-11-25', legacyClient],
        ['2026-07-28', modernClient],
    ]) {
        const it = (name, body) => test(`${transport} ${era}: ${name}`, body);
        const connect = async (t, ...args) => {
            const { client } = await open(t, transport, { args: ['--allow-write', ...args] });
            return client;
        };
        const publish = (client, args) => client.callTool({ name: 'publish', arguments: args });
        const unpublish = (client, args) => client.callTool({ name: 'unpublish', arguments: args });

        it('entity is written, replaced and removed like a published resource', async (t) => {
            const client = await connect(t, '--entities', ':memory:');
            const type = { name: 'User', version: '1.0', jsonSchema: { type: 'object' } };
            assert.ok(!(await client.callTool({ name: 'add-entity-type', arguments: type })).isError);
            const uri = 'entity:///User@1.0/ann';
            const made = await publish(client, { uri, text: '{"age":7}' });
            assert.equal(made.structuredContent?.created, true, JSON.stringify(made));
            assert.match((await client.readResource({ uri })).contents[0].text, /"age": 7/);
            assert.equal((await publish(client, { uri, text: '{}' })).isError, true, 'the version is missing');
            assert.equal((await publish(client, { uri, text: '{}', name: 'Ann' })).isError, true, 'it keeps no name');
            const ifMatch = made.structuredContent.etag;
            const next = await publish(client, { uri, text: '{"age":8}', ifMatch });
            assert.equal(next.structuredContent?.created, false, JSON.stringify(next));
            assert.equal((await publish(client, { uri, text: '{"age":9}', ifMatch })).isError, true, 'it is an old version');
            const gone = await unpublish(client, { uri, ifMatch: next.structuredContent.etag });
            assert.ok(!gone.isError, JSON.stringify(gone));
        });

        it('resource published by a tool is read, replaced and removed', async (t) => {
            const client = await connect(t);
            const { tools } = await client.listTools();
            const names = tools.map((tool) => tool.name);
            assert.deepEqual(names.filter((name) => /publish/.test(name)), ['publish', 'unpublish']);
            const hints = (name) => tools.find((tool) => tool.name === name).annotations;
            assert.deepEqual(hints('publish'), { idempotentHint: true, openWorldHint: false });
            assert.deepEqual(hints('unpublish'), { destructiveHint: true, openWorldHint: false });
            assert.deepEqual(hints('notify'), { destructiveHint: false, openWorldHint: false });
            const about = { title: 'A note', name: 'a', description: 'what it is about' };
            const made = await publish(client, { uri: NOTE, text: '# one', ...about });
            assert.equal(made.structuredContent.created, true, JSON.stringify(made));
            assert.equal(made.structuredContent.uri, NOTE);
            const { contents } = await client.readResource({ uri: NOTE });
            assert.equal(contents[0].text, '# one');
            assert.equal(contents[0].mimeType, 'text/markdown');
            const { resources } = await client.listResources();
            const { title, name, description } = resources.find((r) => r.uri === NOTE);
            assert.deepEqual({ title, name, description }, about);
            const again = await publish(client, {
                uri: NOTE,
                blob: Buffer.from('# two').toString('base64'),
                mimeType: 'text/x-other',
                ifMatch: made.structuredContent.etag,
            });
            assert.equal(again.structuredContent.created, false, JSON.stringify(again));
            const read = await client.readResource({ uri: NOTE });
            assert.equal(read.contents[0].text, '# two');
            assert.equal(read.contents[0].mimeType, 'text/x-other');
            const removed = await unpublish(client, { uri: NOTE });
            assert.ok(!removed.isError);
            await assert.rejects(client.readResource({ uri: NOTE }));
        });

        it('_meta of the publisher appears in contents and lists', async (t) => {
            const client = await connect(t);
            const _meta = { 'example.com/by': { who: 'me', lines: 'one\ntwo' } };
            await publish(client, { uri: NOTE, text: 'x', _meta });
            const { contents } = await client.readResource({ uri: NOTE });
            assert.deepEqual(contents[0]._meta['example.com/by'], _meta['example.com/by']);
            assert.ok(contents[0]._meta['dev.tidings/etag']);
            const { resources } = await client.listResources();
            const row = resources.find((r) => r.uri === NOTE);
            assert.deepEqual(row._meta['example.com/by'], _meta['example.com/by']);
            for (const [bad, part] of [
                [{ 'io.modelcontextprotocol/serverInfo': 1 }, /'io.modelcontextprotocol\/serverInfo' is reserved/],
                [{ 'dev.tidings/etag': 'mine' }, /'dev.tidings\/etag' is reserved by the server/],
                [{ a: 'x'.repeat(8200) }, /8192/],
                ['text', /_meta/],
            ]) {
                const { isError, content } = await publish(client, { uri: NOTE, text: 'y', _meta: bad });
                assert.equal(isError, true);
                assert.match(content[0].text, part);
            }
            assert.equal((await client.readResource({ uri: NOTE })).contents[0].text, 'x');
        });

        it('publish errors are reported to the model', async (t) => {
            const client = await connect(t, '--publish', 'note://', '--published-bytes', '4k');
            await publish(client, { uri: 'note://a', text: 'a' });
            for (const [args, part] of [
                [{ uri: 'note://b' }, /oneOf/],
                [{ uri: 'note://b', text: '', blob: '' }, /oneOf/],
                [{ uri: 'note://b', blob: '!' }, /base64/],
                [{ uri: 'note://b', text: '', mimeType: 'x' }, /media type/],
                [{ uri: 'note://b', text: '', colour: 'red' }, /colour/],
                [{ uri: 'other://b', text: '' }, /not below 'note:\/\/'/],
                [{ uri: 'a path', text: '' }, /file:.*a%20path.*not below 'note:/],
                [{ uri: 'note://b', text: 'x'.repeat(5000) }, /published-bytes/],
                [{ uri: 'note://a', text: 'b', ifAbsent: true }, /already exists/],
                [{ uri: 'note://a', text: 'b', ifMatch: 'x' }, /another etag/],
            ]) {
                const result = await publish(client, args);
                assert.equal(result.isError, true, JSON.stringify(args));
                assert.match(result.content[0].text, part, JSON.stringify(args));
            }
            assert.equal((await client.readResource({ uri: 'note://a' })).contents[0].text, 'a');
            const missing = await unpublish(client, { uri: 'note://b' });
            assert.match(missing.content[0].text, /nothing is published/);
            const other = await unpublish(client, { uri: 'note://a', ifMatch: 'x' });
            assert.equal(other.isError, true);
        });
    }
}

test('publish tools are absent without the flag', async (t) => {
    const { client } = await modernClient(t, 'http');
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    assert.ok(names.includes('changes_since') && !names.some((name) => /publish|notify/.test(name)));
});
