// SPDX-License-Identifier: MIT
//
// `tidings sync` with resources larger than a message: in parts of one version, without holding them in memory.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { test } from 'node:test';

import { contents, once, serveAnswers } from './lib/mirror.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, slow } from './lib/wait.mjs';

const MIB = 1024 * 1024;

/** A file changed less than two seconds ago may change again unnoticed; these files are old. */
function age(tree, ...names) {
    names.forEach((name) => fs.utimesSync(tree.at(name), 1_000_000_000, 1_000_000_000));
}

/** The peak memory in KiB after the first complete copy. */
async function peak(t, server, dir) {
    const sync = new Program(t, BIN, ['sync', server.url, server.uri(''), dir], { mayFail: true });
    await sync.lines.next((line) => /in step/.test(line), 'the mirror', 3 * DEADLINE);
    const status = fs.readFileSync(`/proc/${sync.child.pid}/status`, 'utf8');
    await sync.kill();
    return Number(status.match(/VmHWM:\s+(\d+) kB/)[1]);
}

test('40 MiB file arrives complete without being held in memory', async (t) => {
    const small = await serve(t, { files: { one: randomBytes(2 * MIB) } });
    const large = await serve(t, { files: { one: randomBytes(40 * MIB) } });
    age(small.tree, 'one');
    age(large.tree, 'one');
    const mirror = new Tree(t);
    const before = await peak(t, small, mirror.at('small'));
    const after = await peak(t, large, mirror.at('large'));
    assert.ok(fs.readFileSync(mirror.at('large/one')).equals(fs.readFileSync(large.tree.at('one'))));
    if (slow === 1) { // sanitizers retain freed memory
        assert.ok(after - before < 10 * 1024, `${before} KiB for 2 MiB, ${after} KiB for 40 MiB`);
    }
    assert.deepEqual((await once(t, large, mirror.at('large'))).did, []);
});

for (const era of ['modern', 'legacy']) {
    test(`${era}: parts join with any content`, async (t) => {
        const words = 'zäöü€𝄞\x01"\\\n';
        const files = {
            text: words.repeat(Math.ceil((3 * MIB) / Buffer.byteLength(words))),
            mixed: Buffer.concat([randomBytes(MIB + 1), Buffer.from('€'.repeat(MIB)), randomBytes(5)]),
            nothing: '',
            exactly: Buffer.alloc(2 * MIB, 'x'),
        };
        const server = await serve(t, { files, args: ['--max-read', '300k'] });
        age(server.tree, ...Object.keys(files));
        const dir = new Tree(t).at('m');
        const end = await once(t, server, dir, '--era', era);
        assert.equal(end.code, 0, end.stdout + end.stderr);
        assert.deepEqual(contents(dir), contents(server.tree.path));
    });
}

/** A server that returns parts of `versions[i]`, where `i` is `which(read)` for the number of the read. */
function serveVersions(t, versions, which) {
    let reads = 0;
    return serveAnswers(t, {
        'resources/list': () => ({ resources: [{ uri: 'app:///a', name: 'a' }] }),
        'resources/metadata': ({ uri }) => ({ resource: { uri, name: 'a' } }),
        'resources/read': ({ uri, _meta }) => {
            const i = which(reads++);
            const { from, to } = _meta['dev.tidings/range'];
            const part = versions[i].slice(from, to);
            const range = { unit: 'bytes', from, to: from + part.length, total: versions[i].length };
            return { contents: [{ uri, text: part, _meta: { 'dev.tidings/etag': `"${i}"`, 'dev.tidings/range': range } }] };
        },
    }, { children: true });
}

test('file that changes during a read is read again and never mixed', async (t) => {
    const versions = ['one '.repeat(MIB / 2), 'two '.repeat(MIB / 2)];
    const server = await serveVersions(t, versions, (read) => (read === 0 ? 0 : 1));
    const dir = new Tree(t).at('m');
    const end = await once(t, server, dir);
    assert.equal(end.code, 0, end.stdout);
    assert.equal(fs.readFileSync(`${dir}/a`, 'utf8'), versions[1]);
    const busy = await serveVersions(t, versions, (read) => read % 2);
    const failed = await once(t, busy, dir);
    assert.equal(failed.code, 1);
    assert.deepEqual(failed.did, [{ action: 'failed', uri: 'app:///a', reason: 'it changes faster than it can be read' }]);
    assert.equal(fs.readFileSync(`${dir}/a`, 'utf8'), versions[1], 'what was there');
});

test('parts that contradict their description are rejected', async (t) => {
    const bad = [
        { from: 0, to: 4, total: 9 }, { from: 0, to: 3, total: 2 }, { from: 0, to: 'x', total: 3 }, { from: -3, to: 0, total: 3 },
        { from: 0, to: 0, total: 3 }, { from: 2, to: 5, total: 5 }, {}, null, 'bytes', { from: 0, to: 3, total: 1e30 },
    ];
    const server = await serveAnswers(t, {
        'resources/list': () => ({ resources: bad.map((_, i) => ({ uri: `app:///${i}`, name: 'x' })) }),
        'resources/read': ({ uri }) => {
            const range = bad[Number(uri.slice('app:///'.length))];
            return { contents: [{ uri, text: range?.to === 0 ? '' : 'abc', _meta: { 'dev.tidings/range': range } }] };
        },
    }, { children: true });
    const dir = new Tree(t).at('m');
    const end = await once(t, server, dir);
    assert.equal(end.code, 1);
    assert.deepEqual(end.did.map(({ action }) => action), bad.map(() => 'failed'));
    assert.deepEqual(contents(dir), {});
});

test('resource larger than a message without parts is reported with a remedy', async (t) => {
    const text = 'x'.repeat(17 * MIB);
    const reads = [];
    const server = await serveAnswers(t, {
        'resources/list': () => ({ resources: [
            { uri: 'app:///sized', name: 'a', size: text.length }, { uri: 'app:///unsized', name: 'b' }, { uri: 'app:///z', name: 'z' },
        ] }),
        'resources/read': ({ uri }) => {
            reads.push(uri);
            return { contents: [{ uri, text: uri === 'app:///z' ? 'z' : text }] };
        },
    });
    const dir = new Tree(t).at('m');
    const end = await once(t, server, dir);
    assert.equal(end.code, 1, end.stderr);
    const [sized, unsized, z] = end.did;
    assert.match(sized.reason, /it has 17825792 bytes: more than a message may have \(16 MiB, --max-message\)/);
    assert.match(unsized.reason, /^more than a message may have/);
    assert.equal(z.action, 'created');
    assert.ok(!reads.includes('app:///sized'), 'it is not even asked for');
    const more = await once(t, server, dir, '--max-message', '64');
    assert.equal(more.code, 0, more.stdout);
    assert.equal(fs.readFileSync(`${dir}/sized`, 'utf8'), text);
});

test('launched server continues after an oversized answer', async (t) => {
    const tree = new Tree(t, { 'server.mjs': `
        import readline from 'node:readline';
        const uris = ['app:///a', 'app:///large', 'app:///z'];
        const answers = {
            initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { resources: {} }, serverInfo: { name: 'x', version: '1' } }),
            'resources/list': () => ({ resources: uris.map((uri) => ({ uri, name: uri })) }),
            'resources/read': ({ uri }) => ({ contents: [{ uri, text: uri.endsWith('large') ? 'x'.repeat(17 << 20) : uri }] }),
        };
        for await (const line of readline.createInterface({ input: process.stdin })) {
            const { id, method, params } = JSON.parse(line);
            const result = answers[method]?.(params);
            const said = result ? { result } : { error: { code: -32601, message: 'no' } };
            if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...said }));
        }` });
    const end = await run(t, ['sync', '--once', '--json', 'app:///', tree.at('m'), '--', process.execPath, tree.at('server.mjs')]);
    assert.equal(end.code, 1, end.stderr);
    assert.deepEqual(contents(tree.at('m')), { a: 'app:///a', z: 'app:///z' });
    assert.match(end.stdout, /"failed","uri":"app:\/\/\/large","reason":"more than a message may have/);
});
