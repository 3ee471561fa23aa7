// SPDX-License-Identifier: MIT
//
// Servers in a project file: a server that launches a program, or receives variables or a token, needs consent once.
// The command asks on a terminal and refuses elsewhere; the user can revoke consent.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { bad, good, objects } from './lib/cli.mjs';
import { BIN, run } from './lib/server.mjs';
import { Terminal, noTerminal } from './lib/terminal.mjs';
import { Tree } from './lib/tree.mjs';

/** A server that records requests and refuses all. */
async function stranger(t) {
    const heard = [];
    const server = http.createServer((request, response) => {
        heard.push({ url: request.url, ...request.headers });
        response.writeHead(403).end();
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return { heard, url: `http://127.0.0.1:${server.address().port}` };
}

/** A project with these servers in its .mcp.json. `write(servers)` updates the file. */
function project(t, servers) {
    const tree = new Tree(t, { 'project/.git/HEAD': '' });
    tree.mkdir('home');
    const env = { HOME: tree.at('home'), XDG_CONFIG_HOME: '', XDG_STATE_HOME: '', SECRET: 's3cret' };
    const write = (all, to = 'project') => tree.write(`${to}/.mcp.json`, JSON.stringify({ mcpServers: all }));
    write(servers);
    return {
        tree, write, env, options: { cwd: tree.at('project'), env }, trusted: tree.at('home/.local/state/tidings/trusted'),
        ran: () => fs.existsSync(tree.at('project/RAN')),
    };
}

const LAUNCH = { command: '/bin/sh', args: ['-c', 'touch RAN'] };

test('project program is launched only after consent', async (t) => {
    const here = project(t, { notes: LAUNCH });
    const end = await bad(t, 77, /'notes' of \S+\.mcp\.json launches a program; if you trust it: 'tidings servers --trust NAME'/,
        ['ls', 'notes'], here.options);
    assert.equal(end.stderr.split('\n').filter(Boolean).length, 1, 'no hint about tokens');
    assert.equal(here.ran(), false);
    const [failure] = objects((await run(t, ['ls', '--json', 'notes'], here.options)).stderr);
    assert.deepEqual([failure.error, failure.status], ['not allowed', 77]);

    await good(t, ['servers', '--trust', 'notes'], here.options);
    await run(t, ['ls', 'notes'], here.options);
    assert.equal(here.ran(), true);
});

test('variables are sent to a project URL only after consent', async (t) => {
    const { heard, url } = await stranger(t);
    const servers = [
        { url: `${url}/$` + '{SECRET}' },
        { url, headers: { Authorization: 'Bearer $' + '{env:SECRET}' } },
        { url, headers: { 'X-Who': 'a $' + '{SECRET:-nobody} b' } },
    ];
    for (const notes of servers) {
        const here = project(t, { notes });
        await bad(t, 77, /gets the variable 'SECRET'/, ['ls', 'notes'], here.options);
        assert.deepEqual(heard, []);
    }
    const here = project(t, { notes: servers[1] });
    await good(t, ['servers', '--trust', 'notes'], here.options);
    await run(t, ['ls', 'notes'], here.options);
    assert.equal(heard[0].authorization, 'Bearer s3cret');
});

test('tokens are sent to a project URL only after consent and tokenless URLs need none', async (t) => {
    const { heard, url } = await stranger(t);
    const here = project(t, { notes: { url } });
    fs.writeFileSync(here.tree.at('token'), 'tok\n', { mode: 0o600 });
    const withToken = { ...here.options, env: { ...here.env, TIDINGS_TOKEN: 'tok' } };
    await bad(t, 77, /would be sent the token in TIDINGS_TOKEN/, ['ls', 'notes'], withToken);
    await bad(t, 77, /would be sent the token of --token-file/, ['ls', '--token-file', here.tree.at('token'), 'notes'], here.options);
    await bad(t, 77, /would be sent the token of --token/, ['ls', '--token', 'tok', 'notes'], here.options);
    await bad(t, 77, /would be sent what --header says/, ['ls', '-H', 'Authorization: Basic x', 'notes'], here.options);
    assert.deepEqual(heard, []);
    await run(t, ['ls', 'notes'], here.options);
    assert.ok(heard.length > 0 && heard.every((request) => !request.authorization));
    await good(t, ['servers', '--trust', 'notes'], withToken);
    await run(t, ['ls', 'notes'], withToken);
    assert.equal(heard.at(-1).authorization, 'Bearer tok');
});

test('changed entry or another file needs new consent', async (t) => {
    const here = project(t, { notes: LAUNCH });
    await good(t, ['servers', '--trust', 'notes'], here.options);
    here.write({ notes: { ...LAUNCH, args: ['-c', 'touch RAN #'] } });
    await bad(t, 77, /launches a program/, ['ls', 'notes'], here.options);
    here.tree.write('other/.git/HEAD', '');
    here.write({ notes: LAUNCH }, 'other');
    await bad(t, 77, /launches a program/, ['ls', 'notes'], { ...here.options, cwd: here.tree.at('other') });
    here.write({ other: LAUNCH, notes: { url: 'http://127.0.0.1:1/' } });
    await bad(t, 77, /launches a program/, ['ls', 'other'], here.options);
    assert.equal(here.ran(), false);
    here.write({ x: { url: 'http://x/' }, notes: LAUNCH });
    await run(t, ['ls', 'notes'], here.options);
    assert.equal(here.ran(), true, 'what is beside it does not matter');
});

test('terminal asks for consent once', { skip: noTerminal }, async (t) => {
    const here = project(t, { notes: { ...LAUNCH, env: { A: '\u001b[2J', B: '$' + '{SECRET}' } } });
    const ask = async (keys) => {
        const terminal = new Terminal(t, [BIN, 'ls', 'notes'], here.options);
        await terminal.shows("'notes' of ");
        await terminal.shows('{"command":"/bin/sh","args":["-c","touch RAN"]');
        await terminal.shows('A program is launched.');
        await terminal.shows('It gets what is in SECRET.');
        await terminal.shows('[y/N] ');
        terminal.type(keys);
        assert.doesNotMatch(terminal.screen, /\x1b\[2J|s3cret/);
        return { ...await terminal.ended(), screen: terminal.screen };
    };
    for (const keys of ['n\n', '\n', 'maybe\n', '\x04']) {
        const end = await ask(keys);
        assert.equal(end.code, 77, keys);
        assert.match(end.screen, /is not used/);
    }
    assert.equal(here.ran(), false);
    assert.equal(fs.existsSync(here.trusted), false);
    await ask('y\n');
    assert.equal(here.ran(), true);
    const again = new Terminal(t, [BIN, 'ls', 'notes'], here.options);
    await again.ended();
    assert.doesNotMatch(again.screen, /first time|\[y\/N\]/);
    assert.match(again.screen, /launching, as/);
});

test('input typed before the question is not its answer', { skip: noTerminal }, async (t) => {
    const here = project(t, { notes: LAUNCH });
    const gate = here.tree.at('gate');
    execFileSync('mkfifo', [gate]);
    const line = 'echo ready; read go < "$0"; exec "$@"'; // no program reads the keys before the command starts
    for (const [early, late] of [['y\n', 'n\n'], ['yes\ny\n', 'n\n'], ['y', '\n']]) {
        const terminal = new Terminal(t, ['/bin/sh', '-c', line, gate, BIN, 'ls', 'notes'], here.options);
        await terminal.shows('ready');
        terminal.type(early);
        await terminal.shows(early.replaceAll('\n', '\r\n')); // the terminal received them
        await fs.promises.writeFile(gate, 'go\n');
        await terminal.shows('[y/N] ');
        terminal.type(late);
        assert.equal((await terminal.ended()).code, 77, terminal.screen);
        assert.match(terminal.screen, /is not used/);
        assert.equal(here.ran(), false);
        assert.equal(fs.existsSync(here.trusted), false);
    }
});

test('terminal asks once for all clients of a command even if it cannot save the answer', { skip: noTerminal }, async (t) => {
    const here = project(t, { notes: { command: BIN, args: ['serve', '--stdio', '$' + '{workspaceFolder}'] } });
    const options = { ...here.options, env: { ...here.env, HOME: here.tree.at('project/a.txt') } };
    here.tree.write('project/a.txt', 'x');
    const terminal = new Terminal(t, [BIN, 'bench', '-q', '-c', '3', '-n', '9', 'notes'], options);
    await terminal.shows('[y/N] ');
    terminal.type('y\n');
    await terminal.shows('used now, but not remembered');
    await terminal.ended();
    assert.equal(terminal.screen.split('[y/N]').length, 2, terminal.screen);
});

test('terminal does not ask with --json', { skip: noTerminal }, async (t) => {
    const here = project(t, { notes: LAUNCH });
    const terminal = new Terminal(t, [BIN, 'ls', '--json', 'notes'], here.options);
    assert.equal((await terminal.ended()).code, 77);
    assert.doesNotMatch(terminal.screen, /\[y\/N\]/);
});

test('consent is listed and revoked, for people and programs', async (t) => {
    const here = project(t, { notes: LAUNCH, plain: { url: 'http://127.0.0.1:1/' } });
    const servers = (...args) => good(t, ['servers', ...args], here.options);
    const file = here.tree.at('project/.mcp.json');
    assert.match(await servers(), /^notes .*\(not trusted yet\)$/m);
    assert.doesNotMatch(await servers(), /^plain .*\(not trusted yet\)$/m);
    assert.deepEqual(objects(await servers('--json')).map(({ trusted }) => trusted), [false, false]);
    const [added] = objects(await servers('--json', '--trust', 'notes'));
    assert.deepEqual([added.name, added.file, added.action], ['notes', file, 'trusted']);
    await servers('--trust', 'notes'); // a repetition has no effect
    const [listed, ...more] = objects(await servers('--json', '--trusted'));
    assert.deepEqual(more, []);
    assert.deepEqual([listed.digest, listed.name, listed.file], [added.digest, 'notes', file]);
    assert.match(listed.since, /^\d{4}-\d\d-\d\dT/);
    assert.match(await servers('--trusted'), /^trusted notes of \S+ since \d{4}/);
    assert.deepEqual(objects(await servers('--json')).map(({ trusted }) => trusted), [true, false]);

    const [gone] = objects(await servers('--json', '--forget', 'notes'));
    assert.deepEqual([gone.action, gone.digest], ['forgotten', added.digest]);
    assert.equal(await servers('--trusted'), '');
    await bad(t, 66, /no trusted entry has the name 'notes'/, ['servers', '--forget', 'notes'], here.options);
    await bad(t, 66, /no server is known by the name 'x'/, ['servers', '--trust', 'x'], here.options);
    await bad(t, 64, /exclude one another/, ['servers', '--trust', 'x', '--trusted'], here.options);
    await bad(t, 77, /launches a program/, ['ls', 'notes'], here.options);
});

test("personal server names need no consent and accept none", async (t) => {
    const here = project(t, {});
    here.tree.write('home/.config/tidings/servers.json', JSON.stringify({ mcpServers: { notes: LAUNCH } }));
    await run(t, ['ls', 'notes'], here.options);
    assert.equal(here.ran(), true);
    await bad(t, 64, /is your own/, ['servers', '--trust', 'notes'], here.options);
});

test('trust file that others can write is ignored', async (t) => {
    const here = project(t, { notes: LAUNCH });
    await good(t, ['servers', '--trust', 'notes'], here.options);
    assert.equal(fs.statSync(here.trusted).mode & 0o777, 0o600);
    fs.chmodSync(here.trusted, 0o666);
    await bad(t, 77, /cannot read your earlier consent: .*any user can write it/, ['ls', 'notes'], here.options);
    assert.equal(here.ran(), false);
    fs.chmodSync(here.trusted, 0o600);
    fs.writeFileSync(here.trusted, 'nonsense\n{"file":1}\n');
    await bad(t, 77, /launches a program/, ['ls', 'notes'], here.options);
    assert.equal((await run(t, ['ls', 'notes'], { ...here.options, env: { ...here.env, HOME: '' } })).code, 77);
});
