// SPDX-License-Identifier: MIT
//
// `tidings sync` with data that matters: what a server cannot tell is not taken for gone.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { contents, once, serveAnswers } from './lib/mirror.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const told = (did) => did.map(({ action, uri }) => `${action} ${uri}`).sort();
const missing = (uri) => ({ code: -32602, message: 'no', data: { uri, reason: 'not_found' } });

/**
 * A server with these resources, name → text, which lists what is below a directory. `broken(method, uri)` may throw what
 * it answers instead.
 */
function serveTree(t, texts, broken = () => {}) {
    const below = (uri) => {
        const names = Object.keys(texts).map((name) => `app:///${name}`).filter((name) => name.startsWith(uri));
        return [...new Set(names.map((name) => name.slice(uri.length).match(/^[^/]*\/?/)[0]))].map((name) => uri + name);
    };
    return serveAnswers(t, {
        'resources/list': ({ uri, cursor }) => {
            broken('resources/list', uri, cursor);
            const all = below(uri);
            const [from, to] = cursor ? [1] : [0, 1];
            return { resources: all.slice(from, to).map((name) => ({ uri: name, name })), ...(cursor ? {} : { nextCursor: 'two' }) };
        },
        'resources/read': async ({ uri }) => {
            await broken('resources/read', uri);
            const text = texts[uri.slice('app:///'.length)];
            if (text === undefined) {
                throw missing(uri);
            }
            return { contents: [{ uri, text }] };
        },
        'resources/metadata': ({ uri }) => {
            if (texts[uri.slice('app:///'.length)] === undefined) {
                throw missing(uri);
            }
            return { resource: { uri, name: uri } };
        },
    }, { children: true });
}

for (const [how, page] of [['denied', undefined], ['cut short', 'two']]) {
    test(`a listing that is ${how} is not an empty one`, async (t) => {
        const texts = { 'a/b/one': '1', 'a/b/two': '2', 'c/x': 'x', d: 'd' };
        let isBroken = false;
        const server = await serveTree(t, texts, (method, uri, cursor) => {
            if (isBroken && method === 'resources/list' && uri === 'app:///a/b/' && cursor === page) {
                throw { code: -32602, message: 'not for you' };
            }
        });
        const dir = new Tree(t).at('m');
        assert.equal((await once(t, server, dir)).code, 0);
        isBroken = true;
        delete texts['c/x'];
        delete texts['a/b/two'];
        const end = await once(t, server, dir);
        assert.equal(end.code, 1);
        assert.deepEqual(told(end.did), ['failed app:///a/b/', 'removed app:///c/', 'removed app:///c/x']);
        assert.match(end.did.find(({ action }) => action === 'failed').reason, /stays as it was.*not for you/);
        assert.match(end.stderr, /incomplete/);
        assert.deepEqual(contents(dir), { 'a/': null, 'a/b/': null, 'a/b/one': '1', 'a/b/two': '2', d: 'd' });
        isBroken = false;
        assert.deepEqual(told((await once(t, server, dir)).did), ['removed app:///a/b/two']);
    });
}

test('what cannot be read, but can be described, is not gone', async (t) => {
    const texts = { a: 'a', b: 'b' };
    let isBroken = false;
    const server = await serveTree(t, texts, (method, uri) => {
        if (isBroken && method === 'resources/read') {
            delete texts.b; // between the listing and now
            throw missing(uri);
        }
    });
    const dir = new Tree(t).at('m');
    assert.equal((await once(t, server, dir)).code, 0);
    isBroken = true;
    const end = await once(t, server, dir);
    assert.equal(end.code, 1);
    assert.deepEqual(told(end.did), ['failed app:///a', 'removed app:///b']);
    assert.deepEqual(contents(dir), { a: 'a' });
});

for (const status of [404, 403]) {
    test(`HTTP ${status} of whoever has the address now removes nothing`, async (t) => {
        let isBroken;
        const server = await serveTree(t, { 'a/one': '1', b: 'b' }, (method) => {
            if (isBroken === method) {
                throw status;
            }
        });
        const dir = new Tree(t).at('m');
        assert.equal((await once(t, server, dir)).code, 0);
        for (isBroken of ['resources/list', 'resources/read']) {
            const end = await once(t, server, dir);
            assert.equal(end.code, status === 404 ? 66 : 77, end.stderr);
            assert.deepEqual(end.did, []);
        }
        assert.deepEqual(contents(dir), { 'a/': null, 'a/one': '1', b: 'b' });
    });
}

/** How to run a program that file modes bind, root or not. */
const bound = process.getuid() === 0
    ? (file, args) => ['/usr/bin/setpriv', ['--bounding-set=-dac_override,-dac_read_search', file, ...args]]
    : (file, args) => [file, args];

test('a directory that the server itself cannot open any more stays', async (t) => {
    const tree = new Tree(t, { 'shut/x': 'x', 'open/y': 'y', 'gone/z': 'z' });
    const port = await serve(t, { tree });
    await port.stop();
    const [file, args] = bound(BIN, ['serve', '--http', `127.0.0.1:${port.port}`, tree.path]);
    const server = new Program(t, file, args);
    await server.lines.next((line) => /serving on/.test(line), 'the address');
    const dir = new Tree(t).at('m');
    assert.equal((await once(t, port, dir)).code, 0);
    fs.chmodSync(tree.at('shut'), 0);
    tree.remove('gone');
    const end = await once(t, port, dir);
    fs.chmodSync(tree.at('shut'), 0o755);
    assert.equal(end.code, 1);
    assert.deepEqual(told(end.did), [`failed ${tree.uri('shut/')}`, `removed ${tree.uri('gone/')}`, `removed ${tree.uri('gone/z')}`]);
    const listed = await run(t, ['ls', '-R', port.url, tree.uri('')]);
    assert.equal(listed.code, 0, listed.stderr);
});

test('ls -R and tree tell what they cannot list', async (t) => {
    const server = await serveTree(t, { 'a/one': '1', 'b/two': '2' }, (method, uri) => {
        if (method === 'resources/list' && uri === 'app:///a/') {
            throw { code: -32602, message: 'not for you' };
        }
    });
    const list = await run(t, ['ls', '-R', server.url, 'app:///']);
    assert.equal(list.code, 64);
    assert.equal(list.stdout, 'app:///a/\napp:///b/\napp:///b/two\n');
    assert.match(list.stderr, /not for you/);
    const tree = await run(t, ['tree', server.url, 'app:///']);
    assert.match(tree.stdout, /a\/ \(cannot be listed\)\n/);
    const json = await run(t, ['tree', '--json', server.url, 'app:///']);
    assert.deepEqual(json.stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line).error), ['not for you (-32602)', undefined, undefined]);
});
