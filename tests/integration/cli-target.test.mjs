// SPDX-License-Identifier: MIT
//
// One command over every transport: addresses of all kinds, launched servers by command and by name, and third-party
// servers.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { good } from './lib/cli.mjs';
import { BIN, EXAMPLES, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const files = { 'a.txt': 'hello\n' };
const EVERYTHING = fileURLToPath(
    new URL('./node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url),
);

/** A server with another listener besides HTTP: `args(folder)`. */
async function doors(t, args) {
    const folder = new Tree(t);
    const server = await serve(t, { files, args: args(folder) });
    const said = server.stderr.match(/serving on (.*)/)[1].split(/[ ,]+/);
    return { server, folder, said };
}

for (const era of ['modern', 'legacy']) {
    const reads = async (t, target, server) =>
        assert.equal(await good(t, ['read', '--era', era, target, server.uri('a.txt')]), 'hello\n');

    test(`${era}: a WebSocket`, async (t) => {
        const server = await serve(t, { files });
        await reads(t, server.url.replace('http:', 'ws:'), server);
    });
    test(`${era}: a Unix socket`, async (t) => {
        const { server, folder } = await doors(t, (at) => ['--unix', at.at('s')]);
        await reads(t, `unix:${folder.at('s')}`, server);
    });
    test(`${era}: HTTP on a Unix socket`, async (t) => {
        const { server, folder } = await doors(t, (at) => ['--http-unix', at.at('s')]);
        await reads(t, `http+unix:${folder.at('s')}`, server);
    });
    test(`${era}: TCP`, async (t) => {
        const { server, said } = await doors(t, () => ['--tcp', '127.0.0.1:0']);
        await reads(t, said.find((address) => address.startsWith('tcp://')), server);
    });
    test(`${era}: a launched server`, async (t) => {
        const tree = new Tree(t, files);
        const args = ['read', '--era', era, '-q', tree.uri('a.txt'), '--', BIN, 'serve', '--stdio', tree.path];
        assert.equal(await good(t, args), 'hello\n');
    });
}

test('unsupported revision of a server is reported', async (t) => {
    const server = await serve(t, { files, args: ['--protocol-max', '2025-06-18'] });
    const read = (era) => run(t, ['read', '--era', era, server.url, server.uri('a.txt')]);
    for (const era of ['auto', '2025-06-18', '2024-11-05']) {
        assert.equal((await read(era)).stdout, 'hello\n', era);
    }
    for (const era of ['modern', 'legacy', '2026-07-28']) {
        const end = await read(era);
        assert.equal(end.code, 69, end.stderr);
        assert.match(end.stderr, /speak/);
    }
});

test('--quiet also silences only the output of a launched server', async (t) => {
    const tree = new Tree(t, files);
    const script = 'echo "here I am" >&2; exec "$0" "$@"';
    const args = ['read', tree.uri('a.txt'), '--', '/bin/sh', '-c', script, BIN, 'serve', '--stdio', tree.path];
    assert.equal((await run(t, args)).stderr, 'here I am\n', 'and no greeting of ours');
    const end = await run(t, ['read', '-q', tree.uri('missing'), ...args.slice(2)]);
    assert.equal(end.code, 66);
    assert.doesNotMatch(end.stderr, /here I am/);
    assert.match(end.stderr, /missing/);
});

test('watch over a socket receives what HTTP publishes', async (t) => {
    const { server, folder } = await doors(t, (at) => ['--unix', at.at('s'), '--publish', 'app:///', '--allow-write']);
    const target = `unix:${folder.at('s')}`;
    await good(t, ['publish', server.url, 'app:///x', '-'], { input: 'x' });
    const watch = new Program(t, BIN, ['watch', '-n', '1', target, 'app:///x']);
    const told = watch.output();
    await watch.lines.next((line) => line.startsWith('watching'), 'the subscription');
    await good(t, ['publish', server.url, 'app:///x', '-'], { input: 'y' });
    assert.match(await told.next((line) => line.includes('app:///x'), 'the change'), / updated app:\/\/\/x$/);
    assert.equal((await watch.exited).code, 0);
});

test('project server is launched by its name, with its environment and directory', async (t) => {
    const tree = new Tree(t, {
        'data/a.txt': 'named\n',
        '.mcp.json': JSON.stringify({
            mcpServers: {
                notes: {
                    command: BIN,
                    args: ['serve', '--stdio', '--title', '${TITLE:-none}', '.'],
                    env: { TIDINGS_PAGE_SIZE: '1', TIDINGS_NAME: '${WHO}' },
                    cwd: '${workspaceFolder}/data',
                },
                wrong: { command: '/nowhere/at/all' },
            },
        }),
    });
    const options = { cwd: tree.path, env: { WHO: 'ada', HOME: tree.at('home') } };
    await good(t, ['servers', '--trust', 'notes'], options);
    await good(t, ['servers', '--trust', 'wrong'], options);
    assert.equal(await good(t, ['read', 'notes', tree.uri('data/a.txt')], options), 'named\n');
    const end = await run(t, ['ls', 'wrong'], options);
    assert.equal(end.code, 66, end.stderr);
    assert.match(end.stderr, /nowhere\/at\/all/);
    assert.doesNotMatch(end.stderr, /launching, as/, 'not a terminal');
});

test('terminal shows the programs that a project launches', { skip: !fs.existsSync('/usr/bin/script') }, async (t) => {
    const tree = new Tree(t, {
        'a.txt': 'x',
        '.mcp.json': JSON.stringify({ mcpServers: { notes: { command: BIN, args: ['serve', '--stdio', '.'] } } }),
    });
    const options = { cwd: tree.path, env: { HOME: tree.at('home') } };
    const script = (line) => run(t, ['-qec', `'${BIN}' ${line}`, '/dev/null'], { file: '/usr/bin/script', ...options });
    await good(t, ['servers', '--trust', 'notes'], options);
    const said = (await script('ls notes')).stdout;
    assert.match(said, /launching, as \S+\.mcp\.json says: \S+ serve --stdio \./);
    assert.doesNotMatch((await script('ls -q notes')).stdout, /launching/);
});

test('interrupted command stops its launched server cleanly and ends by the signal', async (t) => {
    const tree = new Tree(t, { asked: '' });
    const gone = tree.at('gone');
    const script = `tee '${tree.at('asked')}' | '${EXAMPLES}/tools' --stdio --drain 0; echo bye >'${gone}'`;
    const call = ['call', 'countdown', 'from=1000', 'step_ms=1000', '--', '/bin/sh', '-c', script];
    const program = new Program(t, BIN, call, { mayFail: true });
    await eventually(async () => fs.readFileSync(tree.at('asked'), 'utf8').includes('tools/call'), 'the call');
    program.child.kill('SIGINT');
    const end = await program.exited;
    assert.equal(end.signal, 'SIGINT', program.stderr);
    assert.equal(fs.readFileSync(gone, 'utf8'), 'bye\n');
});

// command, launched program, exit status, message
const BROKEN = [
    ['/nowhere/at/all', [], 66, /nowhere\/at\/all/],
    ['/bin/false', [], 69, /status 1/],
    ['/bin/sh', ['-c', 'echo nonsense; cat >/dev/null'], null, /./],
    ['/bin/sh', ['-c', 'kill -9 $$'], 69, /./],
];
for (const [file, args, code, says] of BROKEN) {
    test(`invalid server is explained: ${file} ${args.join(' ')}`, async (t) => {
        const end = await run(t, ['ls', '--timeout', '3s', '--', file, ...args]);
        assert.equal(end.signal, null);
        assert.notEqual(end.code, 0);
        if (code !== null) {
            assert.equal(end.code, code, end.stderr);
        }
        assert.match(end.stderr, says);
        assert.equal(end.stdout, '');
    });
}

test('third-party server works: resources, templates, tools, prompts', async (t) => {
    const ask = (...args) => good(t, [...args, '-q', '--', process.execPath, EVERYTHING, 'stdio']);
    const [uri] = (await ask('ls')).split('\n');
    assert.ok((await ask('read', uri)).length > 0);
    assert.match(await ask('tree'), /── \S/);
    assert.match(await ask('stat', uri), /^uri +/m);
    assert.match(await ask('ls', uri.slice(0, uri.indexOf('/', 10) + 1)), /:\/\//, 'by prefix');
    assert.match(await ask('templates'), /\{\w+\}/);
    assert.equal(await ask('call', 'echo', 'message=7'), 'Echo: 7\n');
    assert.match(await ask('call', 'get-sum', 'a=1', 'b=2'), /3/);
    assert.match(await ask('call', 'get-tiny-image'), /\(image image\/png; --json/);
    assert.match(await ask('prompts'), /\S/);
    const completion = await ask('complete', 'completable-prompt', 'department=En');
    assert.equal(completion, 'Engineering\n');
});
