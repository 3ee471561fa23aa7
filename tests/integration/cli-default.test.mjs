// SPDX-License-Identifier: MIT
//
// Commands without a server: TIDINGS_SERVER, the personal `default`, 127.0.0.1:7777; the meaning of the first word of a
// command line, and the limited effect of a project file.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';

import { bad, good } from './lib/cli.mjs';
import { BIN, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const files = { 'a.txt': 'hello\n' };

/** A home with these personal servers and a project with those of its file; returns options for commands. */
function place(t, own = {}, project = undefined) {
    const tree = new Tree(t, { 'home/.config/tidings/servers.json': JSON.stringify({ mcpServers: own }), 'work/.git/x': '' });
    if (project) {
        tree.write('work/.mcp.json', JSON.stringify({ mcpServers: project }));
    }
    const options = (env = {}) => ({ cwd: tree.at('work'), env: { HOME: tree.at('home'), XDG_CONFIG_HOME: '', XDG_STATE_HOME: '', ...env } });
    return { tree, options };
}

/** A server that must not be launched: it leaves a mark. */
const launched = (tree) => ({ command: '/bin/sh', args: ['-c', `touch '${tree.at('mark')}'; exit 1`] });
const isMarked = (tree) => fs.existsSync(tree.at('mark'));

test('TIDINGS_SERVER is the server of commands that name none', async (t) => {
    const [server, other] = [await serve(t, { files }), await serve(t, { files: { 'a.txt': 'other\n' } })];
    const { options } = place(t, { there: { url: other.url } });
    const env = options({ TIDINGS_SERVER: server.url });
    assert.equal(await good(t, ['read', server.uri('a.txt')], env), 'hello\n');
    assert.equal(await good(t, ['read', `${server.tree.path}/a.txt`], env), 'hello\n');
    for (const named of [other.url, `127.0.0.1:${other.port}`, 'there']) {
        assert.equal(await good(t, ['read', named, other.uri('a.txt')], env), 'other\n', named);
        assert.equal(await good(t, ['read', '-t', named, other.uri('a.txt')], env), 'other\n', named);
    }
    for (const value of [`127.0.0.1:${other.port}`, `localhost:${other.port}/mcp`, 'there']) {
        assert.equal(await good(t, ['read', other.uri('a.txt')], options({ TIDINGS_SERVER: value })), 'other\n', value);
    }
});

test('personal default is used and a project default is not', async (t) => {
    const server = await serve(t, { files });
    const { options } = place(t, { default: { url: server.url } }, { default: { url: 'http://127.0.0.1:1/mcp' } });
    assert.equal(await good(t, ['read', server.uri('a.txt')], options()), 'hello\n');
    const { tree, options: without } = place(t, {});
    tree.write('work/.mcp.json', JSON.stringify({ mcpServers: { default: launched(tree) } }));
    await good(t, ['servers', '--trust', 'default'], without());
    const end = await run(t, ['ls', '--timeout', '1s', 'x:y'], without());
    assert.doesNotMatch(end.stderr, /status 1/);
    assert.ok(!isMarked(tree), 'although it was agreed to');
    await bad(t, 64, /the server is 127\.0\.0\.1:7777, since none was named; do not know/, ['ls', 'x:y', 'y:z'], without());
});

test('project name beside a personal default is a server only after consent', async (t) => {
    const server = await serve(t, { files, args: ['--change-tools', 'on'] });
    const evil = await serve(t, { files: { 'a.txt': 'evil\n' } });
    for (const own of [{}, { default: { url: server.url } }]) {
        const { tree, options } = place(t, own, { search: { url: evil.url } });
        const env = options(own.default ? {} : { TIDINGS_SERVER: server.url });
        const { stderr } = await bad(t, 64, /unknown tool 'search'/, ['call', 'search', 'query=secret'], env);
        assert.match(stderr, /'search' is one of a project's file: 'tidings servers --trust'/);
        await good(t, ['servers', '--trust', 'search'], env);
        assert.equal(await good(t, ['read', 'search', evil.uri('a.txt')], env), 'evil\n');
        tree.write('work/.mcp.json', JSON.stringify({ mcpServers: { search: launched(tree) } }));
        await bad(t, 64, /unknown tool 'search'/, ['call', 'search', 'query=secret'], env);
        assert.ok(!isMarked(tree));
    }
});

test('project name without a default is a server and is launched after consent', async (t) => {
    const { tree, options } = place(t);
    tree.write('work/.mcp.json', JSON.stringify({ mcpServers: { notes: launched(tree) } }));
    await bad(t, 77, /'notes' of .*launches a program/, ['ls', 'notes'], options());
    assert.ok(!isMarked(tree));
    tree.write('work/.mcp.json', '{"mcpServers": nonsense');
    await bad(t, 65, /\.mcp\.json/, ['ls', 'notes'], options());
    tree.write('home/.config/tidings/servers.json', '{');
    for (const args of [['ls', 'notes'], ['ls', 'x:y'], ['ls']]) {
        await bad(t, 65, /servers\.json/, args, options());
    }
});

// A first word and whether it names a server
const WORDS = [
    ['localhost:80', true], ['127.0.0.1:65535', true], ['[::1]:7777', true], ['a-b.example:443/x', true],
    ['http://x/', true], ['wss://x/', true], ['unix:/x', true], ['http+unix:x', true], ['tcp://x:1', true], ['own', true],
    ['localhost:0', false], ['localhost:65536', false], ['localhost:80x', false], ['[::1:80', false], [':80', false],
    ['me@host:80', false], ['file:///x', false], ['app:x', false], ['a/b:80', false], ['gopher://x/', false], ['nowhere', false],
];
test('first word is interpreted by the documented rules', async (t) => {
    const { options } = place(t, { own: { url: 'http://x/' } });
    for (const [word, isServer] of WORDS) {
        const says = isServer ? /^tidings ls: do not know what to do with 'c:d'/ : /the server is 127\.0\.0\.1:7777, since none was named/;
        await bad(t, 64, says, ['ls', word, 'a:b', 'c:d'], options());
    }
});

test('failure names the assumed server and a similar name', async (t) => {
    const server = await serve(t, { files });
    const { options } = place(t, { notes: { url: server.url } }, { 'note\u001b[31m': { url: 'http://x/' } });
    const env = options({ TIDINGS_SERVER: server.url });
    await bad(t, 66, /by the name 'note', did you mean 'notes'\?/, ['ls', '-t', 'note'], env);
    await bad(t, 66, /the server is 'http\S+' \(TIDINGS_SERVER\); no server is called 'noets', but one is 'notes'/, ['ls', 'noets'], env);
    await bad(t, 64, /\(TIDINGS_SERVER\); no server is called 'noets', but one is 'notes'; do not know what to do with 'y:z'/, ['ls', 'noets', 'y:z'], env);
    await bad(t, 64, /needs URI…; the server is 'notes'/, ['read', 'notes'], env);
    await bad(t, 64, /needs URI…; the server is 'http:\S+' \(TIDINGS_SERVER\)/, ['read'], env);
    await bad(t, 74, /check that the server runs.*; the server is '127.0.0.1:1' \(TIDINGS_SERVER\)/, ['ls'], options({ TIDINGS_SERVER: '127.0.0.1:1' }));
    const { hint } = JSON.parse((await bad(t, 66, /hint/, ['read', '--json', 'x:y'], env)).stderr);
    assert.match(hint, /the server is 'http\S+' \(TIDINGS_SERVER\)/);
    const named = await bad(t, 66, /x:y/, ['read', 'notes', 'x:y'], env);
    assert.doesNotMatch(named.stderr, /the server is/, 'it was named');
});

/** A separate network namespace with port 7777 free: for `skip`. */
const noNetwork = spawnSync('unshare', ['-rn', 'sh', '-c', 'ip link set lo up']).status !== 0 && 'there is no network of its own here';
const elsewhere = (t, script, ...args) => run(t, ['-rn', 'sh', '-c', `ip link set lo up; ${script}`, ...args], { file: '/usr/bin/unshare' });

test('server 127.0.0.1:7777 is used without configuration', { skip: noNetwork }, async (t) => {
    const tree = new Tree(t, files);
    const script = `"$0" serve "$1" 2>"$1/log" & until grep -q serving "$1/log"; do sleep 0.01; done; "$0" read "$2"; kill $!; wait`;
    const end = await elsewhere(t, script, BIN, tree.path, tree.uri('a.txt'));
    assert.equal(end.stdout, 'hello\n', end.stderr);
});

test('token from the environment is not sent to the default address', { skip: noNetwork }, async (t) => {
    const script = `
        const seen = [];
        const web = require('http').createServer((request, response) => {
            seen.push(request.headers.authorization ?? 'none');
            response.writeHead(501).end();
        });
        web.listen(7777, '127.0.0.1', async () => {
            for (const args of [[], ['127.0.0.1:7777'], ['--token', 'given']]) {
                const env = { ...process.env, TIDINGS_TOKEN: 'secret' };
                await new Promise((done) => require('child_process').spawn(process.argv[1], ['ls', ...args], { env }).on('exit', done));
                console.log(seen.splice(0)[0]);
            }
            web.close();
        });`;
    const end = await elsewhere(t, 'exec "$0" -e "$1" "$2"', process.execPath, script, BIN);
    assert.equal(end.stdout, 'none\nBearer secret\nBearer given\n', end.stderr);
});
