// SPDX-License-Identifier: MIT
//
// The program gives up unneeded rights before it serves, and does all its work confined. The other tests, which run
// confined, are the larger part of the proof; unit/server/test_sandbox.c tests denied calls from the inside.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import tls from 'node:tls';

import { Certificates } from './lib/certs.mjs';
import { call, modern } from './lib/rpc.mjs';
import { run, serve, serveExample } from './lib/server.mjs';
import { as, reloaded, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const files = { 'a.txt': 'a' };

/** The sandbox features of the kernel and the build: none under sanitizers. */
async function offered(t) {
    const { stdout } = await run(t, ['version', '--json']);
    return JSON.parse(stdout).sandbox;
}

/** A row of /proc/PID/status. */
function status(pid, row) {
    return Number(fs.readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`^${row}:\\s+(\\d+)`, 'm'))[1]);
}

const childrenOf = (pid) =>
    fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);

const nameOf = (pid) => fs.readFileSync(`/proc/${pid}/comm`, 'utf8').trim();

const stateOf = async (server) =>
    JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/sandbox' })).contents[0].text);

/** Replace a file by rename, as editors and package managers do. */
function swap(file, text, mode = 0o600) {
    fs.writeFileSync(`${file}.new`, text, { mode });
    fs.renameSync(`${file}.new`, file);
}

test('sandbox: server confines all its threads and logs it', async (t) => {
    const { landlock, seccomp } = await offered(t);
    const server = await serve(t, { files, args: ['--self', '--workers', '2'] });
    assert.equal((await modern(server, 'resources/read', { uri: server.uri('a.txt') })).status, 200);
    const { pid } = server.child;
    assert.deepEqual(await stateOf(server), {
        noNewPrivs: true, landlock, ...(landlock ? {} : { withoutLandlock: 'built with a sanitizer' }),
        seccomp, ...(seccomp ? {} : { withoutSeccomp: 'built with a sanitizer' }), helper: true,
    });
    for (const thread of fs.readdirSync(`/proc/${pid}/task`)) {
        assert.equal(status(`${pid}/task/${thread}`, 'NoNewPrivs'), 1, `thread ${thread}`);
        assert.equal(status(`${pid}/task/${thread}`, 'Seccomp'), seccomp ? 2 : 0, `thread ${thread}`);
    }
    assert.doesNotMatch(server.stderr, /sandbox/);
});

test('sandbox: --no-sandbox logs the lost protection; an embedding program is not confined', async (t) => {
    const server = await serve(t, { files, args: ['--self', '--no-sandbox'] });
    assert.match(server.stderr, /warn server: no sandbox lost="an attacker who takes over the server can /);
    assert.equal(status(server.child.pid, 'Seccomp'), 0);
    assert.deepEqual(await stateOf(server), { noNewPrivs: false, landlock: 0, seccomp: false, helper: false });
    assert.deepEqual(childrenOf(server.child.pid), []);
    const example = await serveExample(t, 'hello');
    assert.equal(status(example.child.pid, 'Seccomp'), 0);
    assert.equal(status(example.child.pid, 'NoNewPrivs'), 0);
});

test('sandbox: configuration files replaced by rename are reloaded', async (t) => {
    const tokens = new TokenFile(t);
    const rules = new Tree(t).at('rules.json');
    const alice = tokens.give('alice');
    fs.writeFileSync(rules, '[{"allow": ["read"]}]', { mode: 0o600 });
    const server = await serve(t, { files, args: [...tokens.args, '--access-file', rules] });
    const read = async (token) => {
        const { status, json } = await modern(as(server, token), 'resources/read', { uri: server.uri('a.txt') });
        return status === 200 && !json.result ? 'denied' : status;
    };
    assert.equal(await read(alice), 200);
    const bob = new TokenFile(t);
    const his = bob.give('bob');
    swap(tokens.path, fs.readFileSync(bob.path));
    await reloaded(server, /reloaded.*access/); // the last of the lines
    assert.deepEqual([await read(alice), await read(his)], [401, 200]);
    swap(rules, '[{"allow": ["read"], "principal": "alice"}]');
    await reloaded(server, /reloaded.*access/);
    await eventually(async () => (await read(his)) === 'denied', 'the rules to reach the workers');
});

test('sandbox: certificates are followed through changed links', async (t) => {
    const certs = new Certificates(t).make('server').make('next');
    const live = new Tree(t);
    const place = (name) => {
        for (const kind of ['pem', 'key']) {
            fs.rmSync(live.at(`it.${kind}`), { force: true });
            fs.symlinkSync(certs.file(`${name}.${kind}`), live.at(`it.${kind}`));
        }
    };
    place('server');
    const server = await serve(t, {
        files, secure: certs.client(), args: ['--tls-cert', live.at('it.pem'), '--tls-key', live.at('it.key')],
    });
    const shown = () =>
        new Promise((resolve, reject) => {
            const socket = tls.connect({ port: server.port, host: '127.0.0.1', ca: certs.text('ca.pem') }, () => {
                resolve(socket.getPeerCertificate().subject.CN);
                socket.destroy();
            });
            socket.on('error', reject);
        });
    assert.equal(await shown(), 'server');
    place('next');
    await reloaded(server, /reloaded.*tls/);
    assert.equal(await shown(), 'next');
});

/** A server with one command; its tree is the command's directory. */
async function serveCommand(t, script, keys = {}) {
    const tree = new Tree(t);
    const mount = { type: 'command', uri: 'cmd:///it', argv: ['sh', '-c', script], cwd: tree.path, ...keys };
    tree.write('tidings.json', JSON.stringify({ mounts: [mount] }));
    return serve(t, { tree, mounts: [], args: ['--config', tree.at('tidings.json')] });
}

test('sandbox: helper runs commands and ends them with a killed server', async (t) => {
    const server = await serveCommand(t, 'echo $PPID >parent; echo $$ >self; sleep 1000 & wait', { interval: 0 });
    const [helper] = childrenOf(server.child.pid);
    await eventually(() => nameOf(helper) === 'tidings-helper', 'the helper has its name');
    assert.equal(status(helper, 'Seccomp'), 0);
    void modern(server, 'resources/read', { uri: 'cmd:///it' }).catch(() => {});
    const written = (name) => fs.readFileSync(server.tree.at(name), 'utf8').trim();
    await eventually(() => fs.existsSync(server.tree.at('self')) && written('self') !== '', 'the command to run');
    assert.equal(Number(written('parent')), helper);
    await server.kill();
    await eventually(() => !fs.existsSync(`/proc/${written('self')}`), 'the command to be gone');
    await eventually(() => !fs.existsSync(`/proc/${helper}`), 'the helper to be gone');
});

test('sandbox: reads report a killed helper, and other requests work', async (t) => {
    const server = await serveCommand(t, 'echo hello', { interval: 0 });
    const read = () => modern(server, 'resources/read', { uri: 'cmd:///it' });
    assert.equal((await read()).status, 200);
    process.kill(childrenOf(server.child.pid)[0], 'SIGKILL');
    const { json } = await read();
    assert.match(json.error.message, /the process that runs commands/);
    assert.equal((await modern(server, 'resources/list')).status, 200);
});
