// SPDX-License-Identifier: MIT
//
// Files that control the program (settings, server names, tokens, rules, keys) are never files of untrusted users.
// Files found by search must belong to the user, and no file writable by all users is used. The log names the files.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { Certificates } from './lib/certs.mjs';
import { bad, good, lines } from './lib/cli.mjs';
import { BIN, Program, run } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const STRANGER = 65534;
const notRoot = process.getuid() !== 0 && 'needs root to make files of other users';

/** A directory like /tmp, with settings that run a command. */
function shared(t) {
    const tree = new Tree(t, { 'served/a.txt': 'x' });
    fs.chmodSync(tree.path, 0o1777);
    const mounts = [{ type: 'command', uri: 'cmd:///x', argv: ['touch', tree.at('RAN')] }];
    tree.write('tidings.json', JSON.stringify({ mounts }));
    return tree;
}

const START = ['serve', '--http', '127.0.0.1:0'];

/** Start in the directory. Returns the serving program, or its exit. */
async function start(t, tree, args = []) {
    const program = new Program(t, BIN, [...START, ...args], { cwd: tree.path, mayFail: true });
    const serves = program.lines.next((line) => line.startsWith('tidings: serving'), 'that it serves');
    const end = await serves.then(() => null, () => program.closed);
    return { ...end, isOver: end !== null, program, stderr: program.stderr };
}

test('settings: tidings.json of another user is not read', { skip: notRoot }, async (t) => {
    const tree = shared(t);
    fs.chownSync(tree.at('tidings.json'), STRANGER, STRANGER);
    const end = await start(t, tree);
    assert.ok(end.isOver, 'it serves what a stranger wanted');
    assert.equal(end.code, 77, end.stderr);
    assert.match(end.stderr, /found here, but not named by --config.*'tidings\.json': it belongs to another user \(number 65534\)/);
    assert.equal((await run(t, ['config'], { cwd: tree.path })).code, 77);

    const without = await start(t, tree, ['--no-config', tree.at('served')]);
    assert.equal(without.isOver, false, without.stderr);
    const named = await start(t, tree, ['--config', tree.at('tidings.json')]);
    assert.equal(named.isOver, false, named.stderr);
});

test('settings: tidings.json writable by others is not read, found or named', async (t) => {
    const tree = shared(t);
    fs.chmodSync(tree.at('tidings.json'), 0o666);
    for (const args of [[], ['--config', tree.at('tidings.json')]]) {
        const end = await start(t, tree, args);
        assert.ok(end.isOver, args.join(' '));
        assert.equal(end.code, 77, end.stderr);
        assert.match(end.stderr, /tidings\.json': any user can write it \(mode 0666\)/);
    }
    const variable = await run(t, START, { cwd: '/', env: { TIDINGS_CONFIG: tree.at('tidings.json') } });
    assert.equal(variable.code, 77, variable.stderr);
});

test('settings: log names the configuration file', async (t) => {
    const tree = shared(t);
    const found = await start(t, tree);
    assert.equal(found.isOver, false, found.stderr);
    assert.ok(found.program.stderr.includes(`settings file=${tree.at('tidings.json')}\n`), found.program.stderr);
    const without = await start(t, tree, ['--no-config', 'served']);
    assert.doesNotMatch(without.program.stderr, /settings file/);
});

const names = (url) => JSON.stringify({ mcpServers: { notes: { url } } });

test('names: file of another user, or writable by others, is not used', { skip: notRoot }, async (t) => {
    const tree = new Tree(t, { 'project/.git/HEAD': '', 'project/.mcp.json': names('http://127.0.0.1:1/') });
    const options = { cwd: tree.at('project'), env: { HOME: tree.at('home'), XDG_CONFIG_HOME: '' } };
    const file = tree.at('project/.mcp.json');
    assert.deepEqual(lines(await good(t, ['servers', '-q'], options)), ['notes']);
    for (const [spoil, says] of [
        [() => fs.chmodSync(file, 0o666), /any user can write it/],
        [() => { fs.chmodSync(file, 0o664); fs.chownSync(file, 0, 50); }, /its group \(number 50\) can write it/],
        [() => { fs.chmodSync(file, 0o644); fs.chownSync(file, STRANGER, STRANGER); }, /belongs to another user/],
    ]) {
        spoil();
        const end = await run(t, ['servers', '-q'], options);
        assert.equal(end.stdout, '');
        assert.match(end.stderr, says);
        await bad(t, 66, /no server is known by the name 'notes'/, ['ls', '-t', 'notes'], options);
    }
});

test('names: file writable by others does not let a project supply the name', async (t) => {
    const tree = new Tree(t, {
        'project/.git/HEAD': '',
        'project/.mcp.json': names('http://127.0.0.1:1/'),
        'home/.config/tidings/servers.json': names('http://127.0.0.1:2/'),
    });
    fs.chmodSync(tree.at('home/.config/tidings/servers.json'), 0o646);
    const options = { cwd: tree.at('project'), env: { HOME: tree.at('home'), XDG_CONFIG_HOME: '' } };
    await bad(t, 77, /servers\.json': any user can write it/, ['ls', 'notes'], options);
});

test('secrets: tokens, rules and keys writable by all users are rejected', async (t) => {
    const certificates = new Certificates(t);
    const tree = new Tree(t, {
        tokens: `ada ${'0'.repeat(64)}\n`, token: 'secret\n', rules: '[]', credentials: 'a:b', keys: '{"keys":[]}',
    });
    const issuer = ['--auth-issuer', 'https://127.0.0.1:1/'];
    const everybody = (name) => {
        fs.chmodSync(tree.at(name), 0o666);
        return tree.at(name);
    };
    const says = /any user can write it \(mode 0666\)/;
    await bad(t, 77, says, ['read', 'http://127.0.0.1:1/', 'a:b', '--token-file', everybody('token')]);
    await bad(t, 77, says, [...START, '--auth-tokens', everybody('tokens'), tree.path]);
    await bad(t, 77, says, [...START, '--access-file', everybody('rules'), tree.path]);
    await bad(t, 77, says, [...START, ...issuer, '--auth-jwks', everybody('keys'), tree.path]);
    const introspection = ['--auth-introspection', 'https://127.0.0.1:1/', '--auth-credentials', everybody('credentials')];
    await bad(t, 77, says, [...START, ...issuer, ...introspection, tree.path]);
    fs.chmodSync(certificates.file('ca.key'), 0o666);
    const tls = ['--tls-cert', certificates.file('ca.pem'), '--tls-key', certificates.file('ca.key')];
    await bad(t, 77, says, [...START, ...tls, tree.path]);
});
