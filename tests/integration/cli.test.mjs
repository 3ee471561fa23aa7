// SPDX-License-Identifier: MIT
//
// The program as a command: help, version, mistakes, and `tidings watch`.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { call } from './lib/rpc.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const files = { 'a.txt': '1', 'dir/b.txt': '1' };

test('--version prints name and version on standard output', async (t) => {
    const end = await run(t, ['--version']);
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stdout, /^tidings \d+\.\d+\.\d+/);
});

for (const args of [['help'], ['--help'], ['serve', '--help'], ['help', 'serve']]) {
    test(`${args.join(' ')} prints help on standard output`, async (t) => {
        const end = await run(t, args);
        assert.equal(end.code, 0, end.stderr);
        assert.match(end.stdout, /serve/);
        if (args.includes('serve')) {
            for (const option of [
                '--http',
                '--stdio',
                '--mount',
                '--exclude',
                '--workers',
                '--page-size',
            ]) {
                assert.ok(end.stdout.includes(option), `${option} is not in the help`);
            }
        }
    });
}

// arguments, text in the message
const MISTAKES = [
    [['nonsense'], /nonsense/],
    [['--nonsense'], /nonsense/],
    [['serve', '--nonsense'], /nonsense/],
    [['serve', '--http'], /http/],
    [['serve', '--http', 'nonsense', '/'], /nonsense/],
    [['serve', '--http', '127.0.0.1:99999', '/'], /99999/],
    [['serve', '--workers', 'many', '/'], /workers|many/],
    [['serve', '--workers', '-1', '/'], /workers|-1/],
    [['serve', '--workers', '100000', '/'], /workers|100000/],
    [['serve', '--page-size', '0', '/'], /page-size|0/],
    [['serve', '--keepalive', '1x', '/'], /keepalive|1x/],
    [['serve', '--mount', 'nonsense', '/'], /mount|nonsense/],
    [['serve', '--protocol-max', '1999-01-01', '/'], /1999-01-01/],
    [['serve', '/no/such/directory'], /no\/such\/directory/],
    [['token'], /token/],
    [['token', 'alice', 'bob'], /bob/],
    [['token', 'alice smith'], /blank/],
    [['token', 'alice', '--scope', 'a"b'], /scope/],
    [['watch'], /watch|URL|usage/i],
    [['watch', 'nonsense', 'nonsense'], /nonsense/],
];

for (const [args, names] of MISTAKES) {
    test(`mistake is explained: ${args.join(' ')}`, async (t) => {
        const end = await run(t, args);
        assert.notEqual(end.code, 0, `it succeeded: ${end.stdout}`);
        assert.equal(end.signal, null, 'it crashed');
        assert.match(end.stderr, names);
        assert.equal(end.stdout, '', 'a mistake belongs on standard error');
    });
}

test('serving a file instead of a directory is explained', async (t) => {
    const tree = new Tree(t, files);
    const end = await run(t, ['serve', '--http', '127.0.0.1:0', tree.at('a.txt')]);
    assert.notEqual(end.code, 0);
    assert.match(end.stderr, /a\.txt/);
    assert.match(end.stderr, /director/i);
});

test('token prints a token and its hash line, each with its destination', async (t) => {
    const end = await run(t, ['token', 'alice', '--scope', 'res:read', '--scope=res:write']);
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stderr, /^tdg_[A-Za-z0-9_-]{43}\n$/);
    const hash = createHash('sha256').update(end.stderr.trim()).digest('hex');
    assert.equal(end.stdout, `alice ${hash} res:read res:write\n`);
});

test('command without arguments prints help and fails', async (t) => {
    const end = await run(t, []);
    assert.notEqual(end.code, 0);
    assert.match(end.stderr, /serve/);
});

test('watch prints a line when the file changes', async (t) => {
    const server = await serve(t, { files });
    const watch = new Program(t, BIN, ['watch', server.url, server.uri('a.txt')], {
        mayFail: true,
    });
    const lines = watch.output();
    await eventually(async () => {
        server.tree.write('a.txt', String(Date.now()));
        return lines.seen.some((line) => line.includes(server.uri('a.txt'))) || !watch.running;
    }, 'a line with the URI');
    assert.ok(watch.running, `watch ended: ${watch.stderr}`);
    assert.ok(
        lines.seen.some((line) => line.includes(server.uri('a.txt'))),
        lines.seen.join('\n'),
    );
});

test('watch follows a directory and finds a restarted server', async (t) => {
    const server = await serve(t, { files });
    const watch = new Program(t, BIN, ['watch', server.url, server.uri('dir/')], { mayFail: true });
    const lines = watch.output();
    const told = async (what) => {
        const before = lines.seen.length;
        await eventually(async () => {
            server.tree.write('dir/b.txt', String(Date.now()));
            return lines.seen.slice(before).some((line) => line.includes(server.uri('dir/b.txt')));
        }, what);
    };
    await told('a line with the URI of the child');
    await server.stop();
    await serve(t, { tree: server.tree, http: `127.0.0.1:${server.port}` });
    await told('a line after the server came back');
});

test('watch --count ends after that many changes', async (t) => {
    const server = await serve(t, { files });
    const watch = new Program(t, BIN, ['watch', '--count', '1', server.url, server.uri('a.txt')]);
    const lines = watch.output();
    await eventually(async () => {
        server.tree.write('a.txt', String(Date.now()));
        return !watch.running;
    }, 'watch ended');
    assert.equal(lines.seen.length, 1, lines.seen.join('\n'));
});

test('watch of an unreachable server prints its address', async (t) => {
    const watch = new Program(t, BIN, ['watch', 'http://127.0.0.1:1/mcp', 'file:///x'], {
        mayFail: true,
    });
    await watch.lines.next(
        (line) => /127\.0\.0\.1/.test(line) && /connect/i.test(line),
        'a line about it',
    );
});

test('watch of an unserved URI prints the reason', async (t) => {
    const server = await serve(t, { files });
    const end = await run(t, ['watch', server.url, 'file:///nowhere/missing.txt']);
    assert.notEqual(end.code, 0);
    assert.match(end.stderr, /missing\.txt: .*not found/i);
});

test('environment variable sets the value of a flag', async (t) => {
    const server = await serve(t, { files, env: { TIDINGS_PAGE_SIZE: '1' } });
    const { resources, nextCursor } = await call(server, 'resources/list');
    assert.equal(resources.length, 1);
    assert.ok(nextCursor);
});
