// SPDX-License-Identifier: MIT
//
// `tidings sync` with valuable data. Unlisted resources do not count as deleted, concurrent local edits are not
// overwritten, and local failures are reported.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { contents, once, same, serveAnswers } from './lib/mirror.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually } from './lib/wait.mjs';

const told = (did) => did.map(({ action, uri }) => `${action} ${uri}`).sort();
const missing = (uri) => ({ code: -32602, message: 'no', data: { uri, reason: 'not_found' } });

/**
 * A server with these resources, name -> text, and directory listings. `broken(method, uri)` may throw an answer
 * instead.
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
    test(`listing that is ${how} does not count as empty`, async (t) => {
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
        assert.match(end.did.find(({ action }) => action === 'failed').reason, /its contents are unchanged.*not for you/);
        assert.match(end.stderr, /incomplete/);
        assert.deepEqual(contents(dir), { 'a/': null, 'a/b/': null, 'a/b/one': '1', 'a/b/two': '2', d: 'd' });
        isBroken = false;
        assert.deepEqual(told((await once(t, server, dir)).did), ['removed app:///a/b/two']);
    });
}

test('unreadable but existing resource is kept', async (t) => {
    const texts = { a: 'a', b: 'b' };
    let isBroken = false;
    const server = await serveTree(t, texts, (method, uri) => {
        if (isBroken && method === 'resources/read') {
            delete texts.b; // between the listing and this point
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
    test(`HTTP ${status} from another server at the address removes nothing`, async (t) => {
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

/** The command that runs a program under file modes, as root or not. */
const bound = process.getuid() === 0
    ? (file, args) => ['/usr/bin/setpriv', ['--bounding-set=-dac_override,-dac_read_search', file, ...args]]
    : (file, args) => [file, args];

test('directory that the server cannot open is kept', async (t) => {
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

test('ls -R and tree report unlisted directories', async (t) => {
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

/** A mirror of `a/b` and `c`, then a run in which the read of `a/b` waits until `meanwhile(mirror)` is done. */
async function disturb(t, texts, meanwhile, ...args) {
    let disturbance;
    const mirror = new Tree(t);
    const server = await serveTree(t, texts, (method, uri) => {
        if (method === 'resources/read' && uri.endsWith('a/b')) {
            disturbance?.();
        }
    });
    if (texts['a/b']) {
        assert.equal((await once(t, server, mirror.at('m'))).code, 0);
    }
    texts['a/b'] = 'new';
    disturbance = () => {
        disturbance = undefined;
        meanwhile(mirror);
    };
    return { mirror, end: await once(t, server, mirror.at('m'), ...args) };
}

const reason = (end, uri) => end.did.find((deed) => deed.uri === uri && deed.reason)?.reason;

test('local edit during a read is kept', async (t) => {
    const { mirror, end } = await disturb(t, { 'a/b': 'old', c: 'c' }, (tree) => tree.write('m/a/b', 'mine'));
    assert.equal(end.code, 1);
    assert.equal(reason(end, 'app:///a/b'), 'it was changed here');
    assert.equal(fs.readFileSync(mirror.at('m/a/b'), 'utf8'), 'mine');
});

test('local file created during a read is kept', async (t) => {
    const { mirror, end } = await disturb(t, { c: 'c' }, (tree) => tree.write('m/a/b', 'mine'));
    assert.equal(end.code, 1);
    assert.equal(reason(end, 'app:///a/b'), 'it existed before');
    assert.equal(fs.readFileSync(mirror.at('m/a/b'), 'utf8'), 'mine');
});

for (const force of [[], ['--force']]) {
    test(`link planted during a read is not followed ${force}`, async (t) => {
        const outside = new Tree(t, { b: 'outside' });
        const { mirror, end } = await disturb(t, { 'a/b': 'old', c: 'c' }, (tree) => {
            tree.remove('m/a');
            fs.symlinkSync(outside.path, tree.at('m/a'));
        }, ...force);
        assert.equal(end.code, 1);
        assert.deepEqual(contents(outside.path), { b: 'outside' });
        assert.ok(fs.lstatSync(mirror.at('m/a')).isSymbolicLink());
    });
}

test('planted temporary files are not followed', async (t) => {
    const server = await serveTree(t, { a: 'a' });
    const outside = new Tree(t, { one: 'one', two: 'two' });
    const mirror = new Tree(t);
    fs.linkSync(outside.at('one'), mirror.at('.tidings-sync-new'));
    fs.symlinkSync(outside.at('two'), mirror.at('.tidings-tmp'));
    const end = await once(t, server, mirror.path);
    assert.equal(end.code, 0, end.stderr);
    assert.deepEqual(contents(outside.path), { one: 'one', two: 'two' });
    for (const name of ['link', 'directory', 'fifo']) {
        fs.rmSync(mirror.at('.tidings-sync'), { recursive: true, force: true });
        if (name === 'link') {
            fs.symlinkSync(outside.at('one'), mirror.at('.tidings-sync'));
        } else if (name === 'directory') {
            fs.mkdirSync(mirror.at('.tidings-sync'));
        } else {
            await run(t, [mirror.at('.tidings-sync')], { file: '/usr/bin/mkfifo' });
        }
        const refused = await once(t, server, mirror.path);
        assert.equal(refused.code, 74, `${name}: ${refused.stderr}`);
        assert.deepEqual(contents(outside.path), { one: 'one', two: 'two' });
    }
});

test('conflicting names keep the first resource', async (t) => {
    for (const uris of [['app:///x', 'app:///x/y'], ['app:///x/y', 'app:///x']]) {
        const server = await serveAnswers(t, {
            'resources/list': () => ({ resources: uris.map((uri) => ({ uri, name: uri })) }),
            'resources/read': ({ uri }) => ({ contents: [{ uri, text: uri }] }),
        });
        const dir = new Tree(t).at('m');
        const first = await once(t, server, dir);
        assert.equal(first.code, 1);
        const made = contents(dir);
        assert.equal(made[uris[0].slice('app:///'.length)], uris[0]);
        const second = await once(t, server, dir);
        assert.deepEqual(second.did.map(({ action }) => action), ['refused']);
        assert.match(second.did[0].reason, /another resource has the same name/);
        assert.deepEqual(contents(dir), made);
    }
});

test('empty directories are removed for a server without directory listings', async (t) => {
    const uris = ['app:///a/b/one', 'app:///a/two'];
    const server = await serveAnswers(t, {
        'resources/list': () => ({ resources: uris.map((uri) => ({ uri, name: uri })) }),
        'resources/read': ({ uri }) => ({ contents: [{ uri, text: uri }] }),
    });
    const dir = new Tree(t).at('m');
    await once(t, server, dir);
    await once(t, server, dir);
    uris.length = 0;
    assert.deepEqual(told((await once(t, server, dir)).did), [
        'removed app:///a/', 'removed app:///a/b/', 'removed app:///a/b/one', 'removed app:///a/two',
    ]);
    assert.deepEqual(contents(dir), {});
});

test('names that differ in case or have no valid encoding are separate files', async (t) => {
    const odd = Buffer.from([0x66, 0xff, 0xfe]);
    const server = await serve(t, { files: { readme: '1', README: '2', ReadMe: '3', 'Dir/x': 'x', 'dir/X': 'X', ['n'.repeat(255)]: 'n' } });
    fs.writeFileSync(Buffer.concat([Buffer.from(`${server.tree.path}/`), odd]), 'odd');
    const dir = new Tree(t).at('m');
    const end = await once(t, server, dir);
    assert.equal(end.code, 0, end.stdout);
    const names = (path) => fs.readdirSync(path, { encoding: 'latin1', recursive: false }).filter((name) => !name.startsWith('.')).sort();
    assert.deepEqual(names(dir), names(server.tree.path));
    assert.deepEqual(fs.readFileSync(`${dir}/README`, 'utf8') + fs.readFileSync(`${dir}/readme`, 'utf8'), '21');
});

test('unwritable local directory is reported, and others continue', async (t) => {
    const texts = { 'a/one': '1', 'a/two': '2', 'b/three': '3' };
    const server = await serveTree(t, texts);
    const mirror = new Tree(t);
    assert.equal((await once(t, server, mirror.at('m'))).code, 0);
    fs.chmodSync(mirror.at('m/a'), 0o555);
    texts['a/one'] = 'new';
    texts['b/three'] = 'new';
    delete texts['a/two'];
    const [file, args] = bound(BIN, ['sync', '--once', '--json', server.url, 'app:///', mirror.at('m')]);
    const end = await run(t, args, { file });
    fs.chmodSync(mirror.at('m/a'), 0o755);
    assert.equal(end.code, 1, end.stderr);
    const did = end.stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
    assert.deepEqual(told(did), ['failed app:///a/one', 'failed app:///a/two', 'updated app:///b/three']);
    assert.match(did[0].reason, /Permission denied/);
    assert.deepEqual(told((await once(t, server, mirror.at('m'))).did), ['removed app:///a/two', 'updated app:///a/one']);
    assert.deepEqual(contents(mirror.at('m')), { 'a/': null, 'a/one': 'new', 'b/': null, 'b/three': 'new' });
});

test('followed: failed files are retried automatically', async (t) => {
    const server = await serve(t, { files: { 'a/one': '1' } });
    const mirror = new Tree(t);
    assert.equal((await once(t, server, mirror.at('m'))).code, 0);
    fs.chmodSync(mirror.at('m/a'), 0o555);
    const [file, args] = bound(BIN, ['sync', server.url, server.uri(''), mirror.at('m')]);
    const sync = new Program(t, file, args, { mayFail: true });
    await sync.lines.next((line) => /in step/.test(line), 'the mirror');
    server.tree.write('a/one', '2');
    await sync.lines.next((line) => /failed.*Permission denied/.test(line), 'the failure');
    fs.chmodSync(mirror.at('m/a'), 0o755);
    await eventually(() => same(mirror.at('m'), server.tree.path), 'it was tried again', 2 * DEADLINE);
});

/** `sync --once` with a file size limit in KiB, like a full disk. */
const cramped = (t, server, dir, kib) => run(t, [
    '-c', `trap '' XFSZ; ulimit -f ${kib}; exec "$@"`, 'sh', BIN, 'sync', '--once', '--json', server.url, server.uri(''), dir,
], { file: '/bin/bash' });

test('full disk is reported, the old file stays, and others continue', async (t) => {
    const server = await serve(t, { files: { large: 'old', small: 'old' } });
    const dir = new Tree(t).at('m');
    assert.equal((await once(t, server, dir)).code, 0);
    server.tree.write('large', Buffer.alloc(200_000));
    server.tree.write('small', 'new');
    const end = await cramped(t, server, dir, 100);
    assert.equal(end.code, 1, end.stderr);
    assert.match(end.stdout, /"failed".*large.*File too large/);
    assert.deepEqual(contents(dir), { large: 'old', small: 'new' });
    assert.deepEqual(fs.readdirSync(dir).sort(), ['.tidings-sync', 'large', 'small']);
    assert.equal((await once(t, server, dir)).code, 0);
    assert.ok(same(dir, server.tree.path));
});

test('full disk for the state creates no unrecorded files', async (t) => {
    const files = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`file-${i}`, `${i}`]));
    const server = await serve(t, { files });
    const dir = new Tree(t).at('m');
    const end = await cramped(t, server, dir, 4);
    assert.equal(end.code, 1, end.stderr);
    const made = Object.keys(contents(dir));
    assert.ok(made.length > 5 && made.length < 60, `${made.length} files`);
    for (const name of Object.keys(files)) {
        server.tree.write(name, 'other');
    }
    const after = await once(t, server, dir);
    assert.equal(after.code, 0, after.stdout);
    assert.ok(same(dir, server.tree.path), 'those that were made are known to be its own');
});

test('unwritable state is an immediate error', async (t) => {
    const server = await serve(t, { files: { a: 'a' } });
    const end = await cramped(t, server, new Tree(t).at('m'), 0);
    assert.equal(end.code, 74, end.stderr);
    assert.match(end.stderr, /cannot write \.tidings-sync: File too large/);
});

test('followed: file becomes a directory and back, repeatedly', async (t) => {
    const server = await serve(t, { files: { 'one/x': 'x', two: 'two' } });
    const dir = new Tree(t).at('m');
    const sync = new Program(t, BIN, ['sync', server.url, server.uri(''), dir], { mayFail: true });
    await sync.lines.next((line) => /in step/.test(line), 'the mirror');
    for (let i = 0; i < 4; i++) {
        const [file, directory] = i % 2 ? ['two', 'one'] : ['one', 'two'];
        server.tree.remove(file);
        server.tree.remove(directory);
        server.tree.write(file, `file ${i}`);
        server.tree.write(`${directory}/x`, `x ${i}`);
        await eventually(() => same(dir, server.tree.path), `they changed places (${i})\n${sync.stderr}`);
    }
    assert.doesNotMatch(sync.stderr, /refused|failed|kept/);
});

test('repeated kills during changes end in a complete copy', async (t) => {
    const server = await serve(t, { files: {} });
    const change = (round) => {
        for (let i = 0; i < 60; i++) {
            const name = `d${i % 5}/f${i}`;
            if ((i + round) % 3 === 0) {
                server.tree.write(name, `${name} in round ${round}`.repeat(i));
            } else if ((i + round) % 7 === 0 && fs.existsSync(server.tree.at(name))) {
                server.tree.remove(name);
            }
        }
        fs.rmSync(server.tree.at('turn'), { recursive: true, force: true });
        server.tree.write(round % 2 ? 'turn' : 'turn/x', `${round}`);
    };
    const dir = new Tree(t).at('m');
    for (let round = 0; round < 20; round++) {
        change(round);
        const sync = new Program(t, BIN, ['sync', '--json', server.url, server.uri(''), dir], { mayFail: true });
        for (let line = 0; line <= (round * 7) % 25; line++) {
            await sync.output().next(() => true, 'the next deed');
        }
        await sync.kill();
    }
    change(20);
    const end = await once(t, server, dir);
    assert.equal(end.code, 0, end.stdout);
    assert.ok(same(dir, server.tree.path));
    assert.deepEqual(fs.readdirSync(dir).filter((name) => name.startsWith('.')), ['.tidings-sync']);
});

test('damaged state is reported, and removes no file', async (t) => {
    const server = await serve(t, { files: { a: 'a', 'd/b': 'b', 'd/c': 'c' } });
    const mirror = new Tree(t, { mine: 'mine', 'd/mine': 'mine' });
    assert.equal((await once(t, server, mirror.path)).code, 0);
    mirror.write('d/c', 'edited');
    const before = contents(mirror.path);
    const state = fs.readFileSync(mirror.at('.tidings-sync'));
    const head = state.indexOf('\n') + 1;
    const damages = [];
    for (let at = 0; at < state.length; at += 13) {
        damages.push(['cut', at, state.subarray(0, at)]);
        const flipped = Buffer.from(state);
        flipped[at] ^= 4;
        damages.push(['flipped', at, flipped]);
    }
    for (const [how, at, bytes] of damages) {
        fs.writeFileSync(mirror.at('.tidings-sync'), bytes);
        const end = await once(t, server, mirror.path);
        const what = `${how} at ${at}: ${end.code} ${end.stdout} ${end.stderr}`;
        assert.ok([1, 65, 73].includes(end.code), what);
        assert.equal(end.code === 1, at >= head || bytes.length === 0, what);
        assert.deepEqual(contents(mirror.path), before, what);
        assert.ok(end.code !== 65 || /\.tidings-sync is damaged/.test(end.stderr), what);
    }
    fs.writeFileSync(mirror.at('.tidings-sync'), Buffer.concat([state, Buffer.from('{"uri":"file:///to')]));
    assert.match((await once(t, server, mirror.path)).stderr, /1 lines of \.tidings-sync are damaged/);
});

test('directory is not mirrored into itself', async (t) => {
    const server = await serve(t, { files: { a: 'a' } });
    for (const name of ['m', 'deep/m', '.']) {
        server.tree.mkdir('deep');
        const end = await once(t, server, server.tree.at(name));
        assert.equal(end.code, 64, end.stderr);
        assert.match(end.stderr, /lies within the directory that it would be the mirror of/);
        assert.deepEqual(end.did, []);
    }
    const elsewhere = new Tree(t);
    fs.mkdirSync(server.tree.at('apart'));
    assert.equal((await run(t, ['sync', '--once', server.url, server.uri('apart/'), server.tree.at('m')])).code, 73);
    assert.equal((await run(t, ['sync', '--once', server.url, server.uri('apart/'), elsewhere.path])).code, 0);
});
