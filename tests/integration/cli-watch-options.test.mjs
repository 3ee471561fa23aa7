// SPDX-License-Identifier: MIT
//
// `tidings watch`: paths with wildcards, subscription options as command options, and the fallback and messages for
// servers without these options.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const files = { 'proj/a.c': '', 'proj/sub/b.c': '', 'proj/sub/b.h': '', 'proj/with blank.c': '' };

/** A started watch in the served directory. */
async function watching(t, server, args, options = {}) {
    const program = new Program(t, BIN, ['watch', ...args, '-t', server.url], { cwd: server.tree.path, ...options });
    program.out = program.output();
    await program.lines.next((line) => line.startsWith('watching '), 'something to be watched');
    return program;
}

const told = (program) => program.out.seen.filter((line) => !line.startsWith(' ')).map((line) => line.split(' ').slice(1).join(' '));

/** Changes these in order; only the last change may be reported. */
async function tells(t, args, names, options = {}) {
    const server = await serve(t, { files });
    const cwd = server.tree.at(options.cwd ?? '');
    const watch = await watching(t, server, ['-1', ...args], { cwd });
    names.forEach((name) => server.tree.write(name, 'changed'));
    assert.equal((await watch.closed).code, 0, watch.stderr);
    assert.deepEqual(told(watch).map((line) => decodeURIComponent(line.replace(/^\w+ /, ''))), [`file://${server.tree.at(names.at(-1))}`]);
}

test('path with wildcards is a pattern below the current directory', async (t) => {
    await tells(t, ['proj/**/*.c'], ['proj/sub/b.h', 'proj/sub/b.c']);
    await tells(t, ['**/*.[^c]'], ['proj/a.c', 'proj/sub/b.h']);
    await tells(t, ['proj/with?bl[a-z]nk.c'], ['proj/a.c', 'proj/with blank.c']);
    await tells(t, ['../proj/*.c'], ['proj/sub/b.c', 'proj/a.c'], { cwd: 'proj' });
});

test('** matches everything on the server', async (t) => {
    await tells(t, ['**'], ['proj/sub/b.h']);
});

test('existing file name with wildcards means that file', async (t) => {
    const server = await serve(t, { files: { '*.c': '', 'a.c': '' } });
    const watch = await watching(t, server, ['-1', '*.c']);
    server.tree.write('a.c', 'changed');
    server.tree.write('*.c', 'changed');
    await watch.closed;
    assert.match(told(watch).join(), /^updated file:\S+%2A\.c$/);
});

test('--match sets the kind of the URIs', async (t) => {
    await tells(t, ['--match', 'glob', 'proj/*.c'], ['proj/sub/b.c', 'proj/a.c']);
    await tells(t, ['--match', 'regex', 'sub/b\\.h$'], ['proj/a.c', 'proj/sub/b.h']);
    await tells(t, ['--match', 'template', 'proj/{name}.c'], ['proj/sub/b.h', 'proj/a.c']);
    const wrong = await run(t, ['watch', '--match', 'fuzzy', 'http://127.0.0.1:1/mcp', 'a:b']);
    assert.equal(wrong.code, 64);
    assert.match(wrong.stderr, /--match takes auto, literal, container, template, glob or regex/);
    const up = await run(t, ['watch', 'http://127.0.0.1:1/mcp', '*/../x']);
    assert.equal(up.code, 64);
    assert.match(up.stderr, /'\.\.' is not allowed after a wildcard/);
});

test('--include value and metadata are printed escaped, one line each, truncated to the width', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '', 'b.json': '{"n":1}' } });
    const value = await watching(t, server, ['-1', '--include', 'value', 'a.txt']);
    const metadata = await watching(t, server, ['-1', '--include', 'metadata', 'a.txt']);
    server.tree.write('a.txt', `\x1b[2Jone\nforged\n${'ü'.repeat(400)}`);
    await Promise.all([value.closed, metadata.closed]);
    const [, about, shown, ...rest] = value.out.seen;
    assert.deepEqual(rest, []);
    assert.match(about, /^ {4}metadata: \{"change_type":"updated",.*\}$/);
    assert.match(shown, /^ {4}value: \\x1b\[2Jone\\nforged\\nü+… \((239|240) of 815 bytes\)$/);
    assert.equal(metadata.out.seen.length, 2);
    const patch = await watching(t, server, ['-1', '--include', 'patch', 'b.json']);
    server.tree.write('b.json', '{"n":2}');
    await patch.closed;
    assert.match(patch.out.seen.at(-1), /^ {4}patch: \{.*"value":\{"n":2\}/);
});

test('--initial prints current resources that do not count as changes', async (t) => {
    const server = await serve(t, { files });
    const watch = await watching(t, server, ['-1', '--initial', '--include', 'value', 'proj/a.c', 'proj/sub/b.h']);
    await watch.out.next((line) => line.includes(' initial '), 'the first state');
    await watch.out.next((line) => line.includes(' initial '), 'the second state');
    server.tree.write('proj/a.c', 'changed');
    await watch.closed;
    assert.deepEqual(told(watch).map((line) => line.split(' ')[0]), ['initial', 'initial', 'updated']);
    const run1 = await run(t, ['watch', '--initial', '--json', '--timeout', '1s', server.url, server.uri('proj/a.c')]);
    assert.equal(JSON.parse(run1.stdout).change, 'initial');
});

test('--filter, --window and --rate reach the server instead of --options', async (t) => {
    const server = await serve(t, { files });
    const filter = { properties: { uri: { pattern: 'a\\.c$' } } };
    server.tree.write('filter.json', JSON.stringify(filter));
    for (const given of [JSON.stringify(filter), '@filter.json']) {
        const watch = await watching(t, server, ['-1', '--filter', given, '--options', '{"filter": false}', 'proj']);
        server.tree.write('proj/sub/b.h', given);
        server.tree.write('proj/a.c', given);
        await watch.closed;
        assert.match(told(watch).join(), /^updated file:\S+\/a\.c$/);
    }
    const refused = async (...args) => (await run(t, ['watch', ...args, server.url, server.uri('proj/')])).stderr;
    assert.match(await refused('--window', '24h'), /windowMs/);
    assert.match(await refused('--rate', '24h'), /rateMs/);
    assert.match(await refused('--filter', '{"type": 1}'), /filter/);
    assert.match(await refused('--filter', '{'), /'\{'|JSON/);
    const zero = await watching(t, server, ['--window', '0', 'proj']);
    await zero.stop();
});

test('--cursor prints the position to resume from', async (t) => {
    const server = await serve(t, { files });
    const watch = await watching(t, server, ['-1', '--cursor', 'proj']);
    server.tree.write('proj/a.c', 'one');
    await watch.closed;
    const cursor = watch.out.seen.at(-1).match(/^ {4}cursor: (\S+)$/)[1];
    server.tree.write('proj/sub/b.c', 'two');
    const next = await run(t, ['watch', '-1', '--since', cursor, server.url, server.uri('proj/')]);
    assert.match(next.stdout, / updated \S+b\.c\n$/);
});

test('third-party server: unsupported options are reported and contents are read', async (t) => {
    const stranger = fileURLToPath(new URL('lib/plain-stranger.mjs', import.meta.url));
    const asked = ['--include', 'value', '--initial', '--window', '1s', '--filter', '{}', '--since', 'x'];
    const args = ['watch', '-1', ...asked, 'plain://it', '--', process.execPath, stranger];
    const end = await run(t, args, { env: { TEXT: 'its\ntext' } });
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stderr, /the server knows no options of subscriptions: without --since, --filter, --window\n/);
    assert.match(end.stderr, /the server sends no contents with changes: they are read\n/);
    const lines = end.stdout.trimEnd().split('\n').map((line) => line.replace(/^\d\S+ /, ''));
    assert.deepEqual(lines, ['initial plain://it', '    value: its\\ntext', 'updated plain://it', '    value: its\\ntext']);
    const cwd = new Tree(t).path;
    const glob = await run(t, ['watch', '-1', '*.c', '--', process.execPath, stranger], { cwd });
    assert.match(glob.stderr, /the server knows no wildcards: to it this is the name of one resource: file:\S+\/\*\.c\n/);
    assert.ok(fs.existsSync(cwd));
});
