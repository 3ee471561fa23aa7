// SPDX-License-Identifier: MIT
//
// Results and options of reads, in both eras and through both official clients: ranges, content that the client
// holds, one of several formats, directories, errors.

import assert from 'node:assert/strict';
import { appendFileSync, symlinkSync, truncateSync } from 'node:fs';
import { test } from 'node:test';

import { z } from 'zod'; // a dependency of the official SDK

import { call, listen, meta, modern, Session } from './lib/rpc.mjs';
import { holds } from './lib/schemas.mjs';
import { legacyClient, modernClient } from './lib/sdk.mjs';
import { serve, serveExample } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const files = {
    'a.txt': 'grüße\nzweite\ndritte\n',
    'b.bin': Buffer.from([0xff, 0x00, 0x01, 0x02]),
    'dir/c.md': '# c',
    'dir/sub/d.txt': 'deep',
};
const ours = (name) => `dev.tidings/${name}`;
const options = (given) => Object.fromEntries(Object.entries(given).map(([k, v]) => [ours(k), v]));

/** Both eras: ask(uri, options) returns the answer, with `result` or `error`. */
const ERAS = {
    modern: async (server) => async (uri, given = {}, method = 'resources/read') => {
        const params = { uri, _meta: { ...meta(), ...options(given) } };
        return (await modern(server, method, params)).json;
    },
    legacy: async (server) => {
        const session = await Session.open(server);
        return async (uri, given = {}, method = 'resources/read') => {
            return (await session.send(method, { uri, _meta: options(given) })).json;
        };
    },
};
const ANY = z.looseObject({});
const NOT_FOUND = { modern: -32602, legacy: -32002 };

for (const [era, open] of Object.entries(ERAS)) {
    test(`${era}: text and binary ranges are read`, async (t) => {
        const server = await serve(t, { files });
        const ask = await open(server);
        const part = async (name, range) => {
            const { result, error } = await ask(server.uri(name), { range });
            assert.ok(result, JSON.stringify(error));
            holds('read#result', result);
            const [element] = result.contents;
            const { from, to, total } = element._meta[ours('range')];
            assert.equal(total, element.size);
            return [element.text ?? Buffer.from(element.blob, 'base64'), from, to];
        };
        assert.deepEqual(await part('a.txt', { unit: 'bytes', from: 0, to: 3 }), ['gr', 0, 2]);
        assert.deepEqual(await part('a.txt', { from: 3, to: 5 }), ['ü', 2, 4]);
        assert.deepEqual(await part('a.txt', { unit: 'lines', from: 1, to: 2 }), ['zweite\n', 8, 15]);
        assert.deepEqual(await part('a.txt', { unit: 'lines', last: 1 }), ['dritte\n', 15, 22]);
        assert.deepEqual(await part('a.txt', { from: 22 }), ['', 22, 22]);
        assert.deepEqual(await part('b.bin', { last: 3 }), [Buffer.from([0, 1, 2]), 1, 4]);
        assert.deepEqual(await part('dir/', { unit: 'lines', last: 1 }), ['sub/\n', 5, 10]);
        for (const range of [{ from: 23 }, { unit: 'lines', from: 4 }]) {
            const uri = server.uri('a.txt');
            const { error } = await ask(uri, { range });
            assert.equal(error.code, -32602);
            assert.deepEqual(error.data, { uri, reason: 'out_of_range' });
            assert.match(error.message, /there are (22|3)/);
        }
        for (const range of [7, { unit: 'words' }, { from: -1 }, { last: 0 }, { from: 2, to: 1 }, { x: 1 }]) {
            const { error } = await ask(server.uri('a.txt'), { range });
            assert.equal(error.code, -32602, JSON.stringify(range));
            assert.equal(error.data.reason, undefined);
        }
    });

    test(`${era}: content that the client holds is not sent again`, async (t) => {
        const server = await serve(t, { files });
        const ask = await open(server);
        const uri = server.uri('a.txt');
        // A recently changed file has a weak etag, which never matches.
        const first = await eventually(async () => {
            const { result } = await ask(uri);
            return result.contents[0]._meta[ours('etag')].startsWith('W/') ? undefined : result;
        }, 'the etag to become strong');
        const etag = first.contents[0]._meta[ours('etag')];
        for (const ifNoneMatch of [etag, ['other', etag]]) {
            const { result } = await ask(uri, { ifNoneMatch });
            holds('read#result', result);
            assert.deepEqual(result.contents, []);
            assert.equal(result._meta[ours('unchanged')], true);
            assert.equal(result._meta[ours('etag')], etag);
        }
        const other = await ask(uri, { ifNoneMatch: 'other' });
        assert.equal(other.result.contents[0].text, files['a.txt']);
        server.tree.write('a.txt', 'new');
        const { result } = await ask(uri, { ifNoneMatch: etag });
        assert.equal(result.contents[0].text, 'new');
        const young = result.contents[0]._meta[ours('etag')];
        const again = (await ask(uri, { ifNoneMatch: young })).result;
        assert.ok(again._meta[ours('unchanged')] !== true || !young.startsWith('W/'), 'a weak etag is not held');
    });

    test(`${era}: directory read returns its names and its complete children`, async (t) => {
        const server = await serve(t, { files });
        symlinkSync('..', server.tree.at('dir/loop'));
        const ask = await open(server);
        const { result } = await ask(server.uri('dir/'));
        holds('read#result', result);
        const seen = result.contents.map(({ uri, name, mimeType, text }) => [uri, name, mimeType, text]);
        assert.deepEqual(seen, [
            [server.uri('dir/'), 'dir', 'inode/directory', 'c.md\nloop/\nsub/\n'],
            [server.uri('dir/c.md'), 'c.md', 'text/markdown', '# c'],
            [server.uri('dir/loop/'), 'loop', 'inode/directory', 'a.txt\nb.bin\ndir/\n'],
            [server.uri('dir/sub/'), 'sub', 'inode/directory', 'd.txt\n'],
        ]);
        assert.deepEqual(
            result.contents.map((element) => element.capabilities.list),
            [true, false, true, true],
        );
        // A directory is unchanged only as a whole: its etag does not cover its children.
        const etags = await eventually(async () => {
            const { contents } = (await ask(server.uri('dir/'))).result;
            const all = contents.map((element) => element._meta[ours('etag')]);
            return all.some((etag) => etag.startsWith('W/')) ? undefined : all;
        }, 'the etags to become strong');
        const held = await ask(server.uri('dir/'), { ifNoneMatch: etags });
        assert.equal(held.result._meta[ours('unchanged')], true);
        const half = await ask(server.uri('dir/'), { ifNoneMatch: etags[0] });
        assert.equal(half.result.contents.length, 4);
        server.tree.write('dir/c.md', '# changed');
        const changed = await ask(server.uri('dir/'), { ifNoneMatch: etags });
        assert.equal(changed.result.contents[1].text, '# changed');
        const around = await ask(server.uri('dir/loop/dir/loop/'), {}, 'resources/list');
        assert.equal(around.result.resources[0].uri, server.uri('dir/loop/dir/loop/a.txt'));
        const all = await call(server, 'resources/list');
        assert.ok(all.resources.length < 10, 'the flat list does not walk through links');
    });

    test(`${era}: missing resource returns an error`, async (t) => {
        const server = await serve(t, { files });
        const ask = await open(server);
        for (const method of ['resources/read', 'resources/metadata', 'resources/list']) {
            const uri = server.uri('missing');
            const { error } = await ask(uri, {}, method);
            assert.equal(error.code, NOT_FOUND[era], method);
            assert.deepEqual(error.data, { uri, reason: 'not_found' });
        }
    });

    test(`${era}: alternatives are read`, async (t) => {
        const server = await serveExample(t, 'alternatives');
        const ask = await open(server);
        const uri = 'report:///sales';
        const { result } = await ask(uri);
        holds('read#result', result);
        const [csv, json] = result.contents;
        assert.deepEqual([csv.uri, json.uri], [uri, uri]);
        assert.deepEqual([csv.mimeType, json.mimeType], ['text/csv', 'application/json']);
        assert.equal(csv.title, json.title);
        assert.equal(csv.size, csv.text.length);
        assert.equal(json.size, json.text.length);
        assert.deepEqual(JSON.parse(json.text)[2], { month: 'March', units: 143 });
        assert.equal(JSON.parse(json.text).length, 3);
        const only = await ask(uri, { accept: ['text/html', 'application/*'] });
        assert.deepEqual(only.result.contents.map((c) => c.mimeType), ['application/json']);
        const none = await ask(uri, { accept: 'text/html' });
        assert.equal(none.error.code, -32602);
        assert.deepEqual(none.error.data, { uri, reason: 'not_acceptable' });
        const part = await ask(uri, { accept: 'text/csv', range: { unit: 'lines', last: 1 } });
        assert.equal(part.result.contents[0].text, 'March,143\n');
        const etags = result.contents.map((c) => c._meta[ours('etag')]);
        const held = await ask(uri, { ifNoneMatch: etags });
        assert.deepEqual(held.result.contents, []);
        const half = await ask(uri, { ifNoneMatch: etags[0] });
        assert.equal(half.result.contents.length, 2);
        const about = await ask(uri, {}, 'resources/metadata');
        holds('resource#metadata', about.result);
        assert.deepEqual(about.result.resource._meta[ours('formats')], ['text/csv', 'application/json']);
        assert.equal(about.result.resource.mimeType, 'text/csv');
        const children = await ask('report:///', {}, 'resources/list');
        assert.deepEqual(children.result.resources.map((r) => r.uri), [uri]);
    });
}

test('end of a file of many gigabytes is read at once', async (t) => {
    const server = await serve(t, { files: { 'huge.log': '' } });
    const size = 6 * 2 ** 30;
    truncateSync(server.tree.at('huge.log'), size);
    appendFileSync(server.tree.at('huge.log'), '\nlast but one\nlast\n');
    const uri = server.uri('huge.log');
    const ask = await ERAS.modern(server);
    const { result } = await ask(uri, { range: { unit: 'lines', last: 2 } });
    assert.equal(result.contents[0].text, 'last but one\nlast\n');
    assert.equal(result.contents[0].size, size + 19);
    // Following a log: the appended bytes.
    appendFileSync(server.tree.at('huge.log'), 'more\n');
    const { to } = result.contents[0]._meta[ours('range')];
    const next = await ask(uri, { range: { from: to } });
    assert.equal(next.result.contents[0].text, 'more\n');
    const whole = await ask(uri);
    assert.match(whole.error.message, /ask for a range/);
});

test('read returns the cursor of its included changes', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('a.txt');
    const { events } = await listen(server, { resourceSubscriptions: [uri] });
    const ask = await ERAS.modern(server);
    const split = (result) => result._meta[ours('version')].split('.');
    const before = split((await ask(uri)).result);
    server.tree.write('a.txt', 'new');
    const update = await events.message();
    const told = update.params._meta[ours('version')].split('.');
    assert.equal(told[0], before[0]);
    assert.ok(Number(told[1]) > Number(before[1]));
    // The answering worker may receive the change shortly after the notifying worker.
    await eventually(async () => {
        const now = split((await ask(uri)).result);
        return Number(now[1]) >= Number(told[1]);
    }, 'a read that has the change in it');
});

for (const [name, client] of [['SDK 1.x', legacyClient], ['client 2.x', modernClient]]) {
    test(`${name} reads ranges, directories and held content`, async (t) => {
        const { client: c, tree } = await client(t, 'http', { files });
        const read = (file, given = {}) => c.readResource({ uri: tree.uri(file), _meta: options(given) });
        const part = await read('a.txt', { range: { unit: 'lines', from: 0, to: 1 } });
        assert.equal(part.contents[0].text, 'grüße\n');
        assert.equal(part.contents[0]._meta[ours('range')].total, 22);
        const dir = await read('dir/');
        assert.deepEqual(dir.contents.map((e) => e.uri), ['dir/', 'dir/c.md', 'dir/sub/'].map((f) => tree.uri(f)));
        const etag = await eventually(async () => {
            const value = (await read('b.bin')).contents[0]._meta[ours('etag')];
            return value.startsWith('W/') ? undefined : value;
        }, 'the etag to become strong');
        const held = await read('b.bin', { ifNoneMatch: etag });
        assert.deepEqual(held.contents, []);
        assert.equal(held._meta[ours('unchanged')], true);
        const ask = (method, file) => c.request({ method, params: { uri: tree.uri(file) } }, ANY);
        const { resource } = await ask('resources/metadata', 'a.txt');
        assert.deepEqual(resource._meta[ours('formats')], ['text/plain']);
        assert.equal('text' in resource, false);
        const { resources } = await ask('resources/directory/read', 'dir/');
        assert.deepEqual(resources.map((r) => r.uri), ['dir/c.md', 'dir/sub/'].map((f) => tree.uri(f)));
        await assert.rejects(ask('resources/directory/read', 'a.txt'), (error) => {
            assert.equal(error.data.reason, 'not_listable');
            return true;
        });
        await assert.rejects(read('a.txt', { range: { from: 99 } }), (error) => {
            assert.equal(error.code, -32602);
            assert.equal(error.data.reason, 'out_of_range');
            return true;
        });
    });
}
