// SPDX-License-Identifier: MIT
//
// `tidings sync` mirrors everything below a URI into a directory, with any resource names and after crashes.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { contents, once, same, serveAnswers } from './lib/mirror.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const files = {
    'a.txt': 'a\n',
    'odd %?#\n name': 'odd',
    'dir/b.bin': Buffer.from([0, 1, 255, 0]),
    'dir/nul.txt': 'a\0b',
    'dir/deep/c.json': '{}',
};

test('--timeout ends sync with status 0 if everything is complete', async (t) => {
    const server = await serve(t, { files });
    const dir = new Tree(t).at('mirror');
    const sync = new Program(t, BIN, ['sync', '--timeout', '1h', server.url, server.uri(''), dir]);
    await sync.lines.next((line) => /in step/.test(line), 'the mirror');
    sync.child.kill('SIGALRM'); // the signal of its timer
    assert.equal((await sync.closed).code, 0, sync.stderr);
    assert.deepEqual(contents(dir), contents(server.tree.path));
});

for (const era of ['modern', 'legacy']) {
    test(`${era}: sync creates a mirror and reads only changed files again`, async (t) => {
        const server = await serve(t, { files });
        const dir = new Tree(t).at('mirror');
        const first = await once(t, server, dir, '--era', era);
        assert.equal(first.code, 0, first.stderr);
        assert.deepEqual(contents(dir), contents(server.tree.path));
        assert.equal(first.did.length, 7);
        server.tree.write('a.txt', 'changed');
        server.tree.remove('dir/deep/c.json');
        server.tree.write('new', '');
        const second = await once(t, server, dir, '--era', era);
        assert.equal(second.code, 0, second.stderr);
        assert.deepEqual(contents(dir), contents(server.tree.path));
        assert.deepEqual(second.did.map(({ action, uri }) => [action, uri]).sort(), [
            ['created', server.uri('new')], ['removed', server.uri('dir/deep/c.json')], ['updated', server.uri('a.txt')],
        ]);
        assert.deepEqual((await once(t, server, dir)).did, []);
    });
}

test('sync follows changes before and after a server restart', async (t) => {
    const server = await serve(t, { files });
    const dir = new Tree(t).at('mirror');
    const sync = new Program(t, BIN, ['sync', server.url, server.uri(''), dir], { mayFail: true });
    const inStep = (what) => eventually(() => same(dir, server.tree.path), `${what}\n${sync.stderr}`);
    await sync.lines.next((line) => /in step/.test(line), 'the first pass');
    await inStep('all of it');
    server.tree.write('a.txt', 'two');
    server.tree.write('more/and/more.txt', 'more');
    server.tree.remove('dir/deep/c.json');
    await inStep('what changed');
    fs.rmSync(server.tree.at('dir'), { recursive: true });
    fs.renameSync(server.tree.at('more'), server.tree.at('moved'));
    await inStep('directories that went and moved');
    await server.stop();
    server.tree.write('a.txt', 'while it was away');
    server.tree.remove('moved/and/more.txt');
    await serve(t, { tree: server.tree, http: `127.0.0.1:${server.port}` });
    await inStep('what happened meanwhile');
    server.tree.write('last', 'last');
    await inStep('and what happens now');
});

test('local changes are kept and reported unless forced', async (t) => {
    const server = await serve(t, { files });
    const mirror = new Tree(t, { 'dir/b.bin': 'was here', 'own/file': 'mine', 'a.txt': 'a\n' });
    const first = await once(t, server, mirror.path);
    assert.equal(first.code, 1);
    const kept = first.did.filter(({ action }) => action === 'kept');
    assert.deepEqual(kept, [{ action: 'kept', uri: server.uri('dir/b.bin'), reason: 'it existed before' }]);
    mirror.write('a.txt', 'edited here');
    mirror.write('dir/deep/c.json', 'edited too');
    server.tree.write('a.txt', 'edited there');
    server.tree.remove('dir/deep/c.json');
    const second = await once(t, server, mirror.path);
    assert.equal(second.code, 1);
    assert.deepEqual(second.did.map(({ action, uri }) => `${action} ${uri}`).sort(), [
        `kept ${server.uri('a.txt')}`, `kept ${server.uri('dir/b.bin')}`, `kept ${server.uri('dir/deep/c.json')}`,
    ]);
    assert.equal(fs.readFileSync(mirror.at('a.txt'), 'utf8'), 'edited here');
    const third = await once(t, server, mirror.path, '--force');
    assert.equal(third.code, 0, third.stdout);
    assert.equal(fs.readFileSync(mirror.at('a.txt'), 'utf8'), 'edited there');
    assert.equal(fs.readFileSync(mirror.at('own/file'), 'utf8'), 'mine', 'what nobody mirrors is left alone');
    assert.equal(fs.readFileSync(mirror.at('dir/deep/c.json'), 'utf8'), 'edited too', 'nobody\'s but the user\'s now');
});

// File names that a user's tools would execute, in spellings that some file system treats alike.
const CONTROL = [
    '.git/config', '.git/hooks/post-checkout', '.GIT/config', 'sub/.Git/config', '.git%20/config', '.g%E2%80%8Cit/config', 'git~1/config',
    '.gitmodules', 'bare/HEAD', '.envrc', '.env', '.mcp.json', 'deep/down/.mcp.json', 'tidings.json', '.vscode/tasks.json', '.idea/x',
    '.husky/pre-commit', '.github/workflows/x.yml', '.npmrc', '.yarnrc.yml', '.bashrc', '.ssh/authorized_keys', '.pre-commit-config.yaml',
    'CLAUDE.md', '.cursor/mcp.json', 'sub/.tidings-sync',
];

test('files that other tools execute are refused one by one unless an option allows them', async (t) => {
    const ordinary = ['Makefile', '.gitignore', 'sub/config', 'package.json'];
    const server = await serveNames(t, [...CONTROL, ...ordinary].map((name) => `app:///${name}`));
    const dir = new Tree(t).at('mirror');
    const end = await once(t, server, dir);
    assert.equal(end.code, 1, end.stderr);
    const files = (path) => Object.keys(contents(path)).filter((name) => !name.endsWith('/')).sort();
    assert.deepEqual(files(dir), [...ordinary].sort());
    const refused = end.did.filter(({ action }) => action === 'refused');
    assert.deepEqual(refused.map(({ uri }) => uri.slice('app:///'.length)).sort(), [...CONTROL].sort());
    assert.ok(refused.every(({ reason }) => /follow files of that name unasked; --control-files writes them too$/.test(reason)));

    const all = await once(t, server, dir, '--control-files');
    assert.equal(all.code, 0, all.stderr);
    assert.equal(files(dir).length, CONTROL.length + ordinary.length);
});

test('previously allowed files are neither written nor removed without the option', async (t) => {
    const uris = ['app:///.envrc', 'app:///.vscode/a'];
    let text = 'one';
    const server = await serveAnswers(t, {
        'resources/list': () => ({ resources: uris.map((uri) => ({ uri, name: uri })) }),
        'resources/read': ({ uri }) => ({ contents: [{ uri, text }] }),
    });
    const dir = new Tree(t).at('mirror');
    assert.equal((await once(t, server, dir, '--control-files')).code, 0);
    text = 'two';
    const end = await once(t, server, dir, '--force');
    assert.deepEqual(end.did.map(({ action }) => action), ['refused', 'refused']);
    assert.deepEqual(contents(dir), { '.envrc': 'one', '.vscode/': null, '.vscode/a': 'one' });
    uris.pop();
    assert.deepEqual((await once(t, server, dir)).did.map(({ action }) => action), ['refused', 'removed', 'removed']);
    assert.deepEqual(contents(dir), { '.envrc': 'one' });
});

test('symbolic links in the directory are not followed', async (t) => {
    const server = await serve(t, { files });
    const outside = new Tree(t, { 'a.txt': 'outside' });
    const mirror = new Tree(t);
    fs.symlinkSync(outside.path, mirror.at('dir'));
    fs.symlinkSync(outside.at('a.txt'), mirror.at('a.txt'));
    const kept = await once(t, server, mirror.path);
    assert.equal(kept.code, 1);
    await once(t, server, mirror.path, '--force');
    assert.deepEqual(contents(outside.path), { 'a.txt': 'outside' });
    assert.equal(fs.readFileSync(mirror.at('a.txt'), 'utf8'), 'a\n', 'forced: in place of the link');
    assert.ok(fs.lstatSync(mirror.at('dir')).isSymbolicLink());
});

test('file becomes a directory and a directory becomes a file', async (t) => {
    const server = await serve(t, { files: { one: 'file', 'two/x': 'x' } });
    const dir = new Tree(t).at('mirror');
    assert.equal((await once(t, server, dir)).code, 0);
    server.tree.remove('one');
    fs.rmSync(server.tree.at('two'), { recursive: true });
    server.tree.write('one/x', 'x');
    server.tree.write('two', 'file');
    const end = await once(t, server, dir);
    assert.equal(end.code, 0, end.stdout);
    assert.deepEqual(contents(dir), contents(server.tree.path));
});

test('killed sync resumes at the next start', async (t) => {
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`d${i % 7}/f${i}`, `content ${i}`]));
    const server = await serve(t, { files: many });
    const dir = new Tree(t).at('mirror');
    const sync = new Program(t, BIN, ['sync', '--json', server.url, server.uri(''), dir], { mayFail: true });
    await sync.output().next((line) => line.includes('/f5'), 'the middle');
    await sync.kill();
    const made = Object.values(contents(dir)).filter((text) => text !== null);
    assert.ok(made.every((text) => /^content \d+$/.test(text)), 'no file is there in part');
    const end = await once(t, server, dir);
    assert.equal(end.code, 0, end.stdout);
    assert.ok(end.did.every(({ action }) => action === 'created'));
    assert.ok(end.did.length < 307, 'what was there is not made again');
    assert.deepEqual(contents(dir), contents(server.tree.path));
    fs.appendFileSync(`${dir}/.tidings-sync`, '{"uri":"file:///to');
    assert.equal((await once(t, server, dir)).code, 0, 'a line that was cut');
    assert.deepEqual(fs.readdirSync(dir).filter((name) => name.startsWith('.')), ['.tidings-sync']);
});

test('directory belongs to one URI and to one sync at a time', async (t) => {
    const server = await serve(t, { files });
    const dir = new Tree(t).at('mirror');
    const sync = new Program(t, BIN, ['sync', server.url, server.uri('dir/'), dir], { mayFail: true });
    await sync.lines.next((line) => /in step/.test(line), 'the first pass');
    const second = await run(t, ['sync', '--once', server.url, server.uri('dir/'), dir]);
    assert.equal(second.code, 75);
    assert.match(second.stderr, /another 'tidings sync' is at work/);
    await sync.kill();
    const other = await run(t, ['sync', '--once', server.url, server.uri(''), dir]);
    assert.equal(other.code, 73);
    assert.match(other.stderr, /the mirror of file:.*dir\//);
});

test('missing resource is an error and removes nothing', async (t) => {
    const server = await serve(t, { files });
    const dir = new Tree(t).at('mirror');
    assert.equal((await once(t, server, dir)).code, 0);
    const before = contents(dir);
    await server.stop();
    const end = await once(t, server, dir);
    assert.equal(end.code, 74);
    assert.deepEqual(contents(dir), before);
    const none = await serve(t, { files: {} });
    const missing = await run(t, ['sync', '--once', none.url, none.uri('none/'), new Tree(t).at('x')]);
    assert.equal(missing.code, 66, missing.stderr);
});

/** A server that lists these URIs below app:///; each reads as its own URI. */
const serveNames = (t, uris) => serveAnswers(t, {
    'resources/list': () => ({ resources: uris.map((uri) => ({ uri, name: uri })) }),
    'resources/read': ({ uri }) => ({ contents: [{ uri, text: 'evil' }] }),
});

test('hostile names stay inside the directory', async (t) => {
    const evil = [
        '../out', '..', '%2e%2e/out', 'a/../../out', '/etc/out', 'a//b', '%2fetc%2fout', 'nul%00', 'x?y', 'x#y',
        '.tidings-sync', '.tidings-tmp', '%2etidings-sync', 'a/./b', 'bad%zz', 'n'.repeat(256), 'd/'.repeat(65) + 'x',
        '\x1b[2J%zz',
    ];
    const good = ['good', 'sub/good', 'esc%1b'];
    const server = await serveNames(t, [...evil, ...good].map((name) => `app:///${name}`));
    const tree = new Tree(t);
    const end = await once(t, server, tree.at('inside/'.slice(0, -1)));
    assert.equal(end.code, 1, end.stderr);
    assert.deepEqual(fs.readdirSync(tree.path), ['inside']);
    assert.deepEqual(contents(tree.at('inside')), { good: 'evil', 'sub/': null, 'sub/good': 'evil', 'esc\x1b': 'evil' });
    const refused = end.did.filter(({ action }) => action === 'refused').map(({ uri }) => uri.slice('app:///'.length));
    assert.deepEqual(refused.sort(), [...evil].sort());
    const text = await run(t, ['sync', '--once', server.url, 'app:///', tree.at('again')]);
    assert.doesNotMatch(text.stdout + text.stderr, /\x1b/);
});

test('first of two resources with one name wins', async (t) => {
    const server = await serveNames(t, ['app:///A', 'app:///%41']);
    const end = await once(t, server, new Tree(t).at('m'));
    assert.equal(end.code, 1);
    assert.deepEqual(end.did.map(({ action, uri }) => [action, uri]), [['created', 'app:///A'], ['refused', 'app:///%41']]);
});

test('progress appears only on terminals', { skip: !fs.existsSync('/usr/bin/script') && 'no script(1)' }, async (t) => {
    const server = await serve(t, { files });
    const dir = new Tree(t).at('m');
    const words = [BIN, 'sync', '--once', server.url, server.uri(''), dir].map((word) => `'${word}'`).join(' ');
    const end = await run(t, ['-qec', words, '/dev/null'], { file: '/usr/bin/script', env: { TERM: 'xterm' } });
    assert.match(end.stdout, /\[#{30}\] 7\/7/);
    assert.doesNotMatch((await run(t, ['sync', '--once', server.url, server.uri(''), dir])).stderr, /\[#/);
});

test('--dry-run prints the plan and changes nothing', async (t) => {
    const server = await serve(t, { files });
    const parent = new Tree(t);
    const dir = parent.at('mirror');
    const first = await once(t, server, dir, '--dry-run');
    assert.equal(first.code, 0, first.stderr);
    assert.ok(!fs.existsSync(dir));
    assert.deepEqual(first.did.map(({ action, dryRun }) => [action, dryRun]), Array(7).fill(['created', true]));
    assert.equal((await once(t, server, dir)).code, 0);
    const before = contents(dir);
    const state = fs.readFileSync(`${dir}/.tidings-sync`, 'utf8');
    server.tree.write('a.txt', 'changed');
    server.tree.remove('dir/deep/c.json');
    server.tree.write('more/new', '');
    fs.writeFileSync(`${dir}/dir/b.bin`, 'mine');
    server.tree.write('dir/b.bin', 'theirs');
    const would = await once(t, server, dir, '-n');
    // A recently written file has a weak etag; sync reads it to compare.
    const unsure = (d) => /only reading tells/.test(d.reason) && d.uri !== server.uri('a.txt');
    assert.deepEqual(would.did.filter((d) => !unsure(d)).map(({ action, uri }) => [action, uri]).sort(), [
        ['created', server.uri('more/')], ['created', server.uri('more/new')], ['kept', server.uri('dir/b.bin')],
        ['removed', server.uri('dir/deep/c.json')], ['updated', server.uri('a.txt')],
    ]);
    assert.deepEqual(contents(dir), { ...before, 'dir/b.bin': contents(dir)['dir/b.bin'] });
    assert.equal(fs.readFileSync(`${dir}/.tidings-sync`, 'utf8'), state);
    const { stdout, stderr } = await run(t, ['sync', '-n', server.url, server.uri(''), dir]);
    assert.match(stdout, /^would be updated file:.*a\.txt/m);
    assert.match(stderr, /nothing was changed/);
    assert.equal((await run(t, ['sync', '-nq', server.url, server.uri(''), parent.at('other')])).stdout, '');
});

test('--exclude skips names at any depth and paths, and removes none of them', async (t) => {
    const server = await serve(t, { files: { 'a.log': '', 'x/b.log': '', 'x/keep': '', 'build/out': '', 'x/build/out': '' } });
    const dir = new Tree(t).at('mirror');
    const names = () => Object.keys(contents(dir)).sort();
    assert.equal((await once(t, server, dir, '--exclude', '*.log', '--exclude', '/build')).code, 0);
    assert.deepEqual(names().filter((name) => !name.endsWith('/')), ['x/build/out', 'x/keep']);
    assert.equal((await once(t, server, dir)).code, 0);
    server.tree.remove('a.log');
    server.tree.remove('x/keep');
    const last = await once(t, server, dir, '--exclude', '*.log');
    assert.deepEqual(last.did.map(({ action, uri }) => [action, uri]), [['removed', server.uri('x/keep')]]);
    assert.ok(fs.existsSync(`${dir}/a.log`));
});
