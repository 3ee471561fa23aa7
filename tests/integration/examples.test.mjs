// SPDX-License-Identifier: MIT
//
// The example programs work as their first lines say and are as short as the documentation claims.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { call, listen, meta, modern, updates } from './lib/rpc.mjs';
import { serveExample } from './lib/server.mjs';
import { extras, OPTIONS } from './lib/subscriber.mjs';

const source = (name) => fs.readFileSync(fileURLToPath(new URL(`../../examples/${name}.c`, import.meta.url)), 'utf8');

const text = async (server, uri) => (await call(server, 'resources/read', { uri })).contents[0].text;

/** All resources at once, with metadata. */
const eager = { _meta: meta({ [OPTIONS]: { windowMs: 0, include: 'metadata' } }) };

test('hello: count changes every second, in thirty lines', async (t) => {
    const code = source('hello').replace(/\/\*[^]*?\*\//g, '').split('\n').filter((line) => line.trim() !== '');
    assert.ok(code.length <= 30, `${code.length} lines`);
    const server = await serveExample(t, 'hello');
    const uri = 'hello:///count';
    const count = async () => Number((await text(server, uri)).match(/^hello:\/\/\/count is (\d+)\n$/)[1]);
    const { events } = await listen(server, { resourceSubscriptions: [uri] });
    const before = await count();
    await events.message(updates(uri));
    await events.message(updates(uri));
    assert.ok((await count()) > before);
    const { resources } = await call(server, 'resources/list');
    assert.deepEqual(resources.map((r) => [r.uri, r.mimeType]), [[uri, 'text/plain']]);
});

test('weather: every city of the template is live, with its temperature in the notification', async (t) => {
    const server = await serveExample(t, 'weather');
    const { resourceTemplates } = await call(server, 'resources/templates/list');
    assert.deepEqual(resourceTemplates.map((r) => r.uriTemplate), ['weather://city/{location}']);
    const pattern = 'weather://city/{location}';
    const one = await listen(server, { resourceSubscriptions: ['weather://city/oslo'] });
    const all = await listen(server, { resourceSubscriptions: [pattern] });
    for (const city of ['cairo', 'lima', 'oslo', 'tokyo']) {
        const told = await all.events.message(updates(`weather://city/${city}`));
        assert.equal(told.params.subscribedUri, pattern);
        const { degrees } = extras(told).metadata;
        const now = JSON.parse(await text(server, `weather://city/${city}`));
        assert.equal(now.city, city);
        assert.ok(Math.abs(now.degrees - degrees) <= 1);
    }
    await one.events.message(updates('weather://city/oslo'));
    const { json } = await modern(server, 'resources/read', { uri: 'weather://city/atlantis' });
    assert.equal(json.error.code, -32602);
});

test('sensors: ten thousand sensors count without a gap and the total is correct', async (t) => {
    const server = await serveExample(t, 'sensors');
    const watched = ['sensor:///0000', 'sensor:///4999', 'sensor:///9999', 'sensor:///total'];
    const { events } = await listen(server, { resourceSubscriptions: watched }, { params: eager });
    for (const uri of watched) {
        let last;
        for (let i = 0; i < 3; i += 1) {
            const { metadata, merged = 1 } = extras(await events.message(updates(uri)));
            const step = uri.endsWith('total') ? 1000 : 1;
            assert.ok(last === undefined || metadata.count === last + merged * step,
                `${uri}: ${last} and then ${metadata.count}, ${merged} in one`);
            last = metadata.count;
        }
        assert.ok(Number(await text(server, uri)) >= last);
    }
    let count = 0;
    let cursor;
    let previous = '';
    do {
        const page = await call(server, 'resources/list', { pageSize: 1000, ...(cursor && { cursor }) });
        for (const { uri } of page.resources.filter((r) => r.uri.startsWith('sensor:'))) {
            assert.ok(uri > previous, `${uri} after ${previous}`);
            previous = uri;
            count += 1;
        }
        cursor = page.nextCursor;
    } while (cursor);
    assert.equal(count, 10_001);
    const last = Number(await text(server, 'sensor:///9999')); // its batch may not count yet
    const total = Number(await text(server, 'sensor:///total'));
    assert.ok(total >= last * 10_000 - 1000 && total % 1000 === 0, `${last} ${total}`);
    for (const uri of ['sensor:///10000', 'sensor:///1', 'sensor:///00000', 'sensor:///totals']) {
        const { json } = await modern(server, 'resources/read', { uri });
        assert.equal(json.error.code, -32602, uri);
    }
});

test('dice: provider of a hundred lines lists, reads, and rolls for subscribers', async (t) => {
    assert.ok(source('dice').split('\n').length - 1 <= 100);
    const server = await serveExample(t, 'dice');
    const { resources } = await call(server, 'resources/list');
    assert.deepEqual(resources.map((r) => r.uri), ['dice:///d12', 'dice:///d20', 'dice:///d6']);
    const page = await call(server, 'resources/list', { pageSize: 2 });
    const next = await call(server, 'resources/list', { pageSize: 2, cursor: page.nextCursor });
    assert.deepEqual(next.resources.map((r) => r.uri), ['dice:///d6']);
    const { resource } = await call(server, 'resources/metadata', { uri: 'dice:///d20' });
    assert.equal(resource.name, 'd20');
    assert.equal(await text(server, 'dice:///d6'), '1', 'nobody has rolled it yet');
    const { events } = await listen(server, { resourceSubscriptions: ['dice:///'] });
    for (const { uri, name } of resources) {
        await events.message(updates(uri));
        const face = Number(await text(server, uri));
        assert.ok(face >= 1 && face <= Number(name.slice(1)), `${name} shows ${face}`);
    }
    const { json } = await modern(server, 'resources/read', { uri: 'dice:///d7' });
    assert.equal(json.error.code, -32602);
});
