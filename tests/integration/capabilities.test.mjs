// SPDX-License-Identifier: MIT
//
// A server started as root keeps only the capabilities that its configuration needs and still works: it serves and
// reloads files of other users, keeps a store, binds a low port and runs commands. Needs root.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';

import { Certificates } from './lib/certs.mjs';
import { request } from './lib/http.mjs';
import { listen, modern, updates } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { as, reloaded, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';

const skip = process.getuid() !== 0 && 'needs root: nothing is given up by other users';
const NOBODY = 65534;
const CAP = { CHOWN: 0, DAC_OVERRIDE: 1, DAC_READ_SEARCH: 2, NET_BIND_SERVICE: 10 };

const bits = (...names) => names.reduce((sum, name) => sum | (1n << BigInt(CAP[name])), 0n);

const statusOf = (pid) => Object.fromEntries(
    [...fs.readFileSync(`/proc/${pid}/status`, 'utf8').matchAll(/^(Cap\w+):\s+(\w+)$/gm)].map(([, name, hex]) => [name, BigInt(`0x${hex}`)]),
);

const childrenOf = (pid) => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);

const everything = skip ? {} : statusOf('self');

/** All threads have these capabilities in effect, permitted and in their bounding set, and none to inherit. */
function check(pid, wanted, what) {
    for (const thread of fs.readdirSync(`/proc/${pid}/task`)) {
        const { CapEff, CapPrm, CapBnd, CapInh, CapAmb } = statusOf(`${pid}/task/${thread}`);
        const kept = wanted & everything.CapPrm;
        assert.deepEqual({ CapEff, CapPrm, CapBnd, CapInh, CapAmb }, { CapEff: kept, CapPrm: kept, CapBnd: kept, CapInh: 0n, CapAmb: 0n }, what);
    }
}

/** A tree that only its owner, another user, can read. */
function theirs(t, files) {
    const tree = new Tree(t, files);
    execFileSync('chown', ['-R', `${NOBODY}:${NOBODY}`, tree.path]);
    execFileSync('chmod', ['-R', 'go=', tree.path]);
    return tree;
}

async function isSanitized(t) {
    const { sandbox } = JSON.parse((await run(t, ['version', '--json'])).stdout);
    return !sandbox.seccomp;
}

const put = (server, uri, body) => request(server, { method: 'PUT', path: `/resource?uri=${encodeURIComponent(uri)}`, body });

test('capabilities: server serves, watches and reloads files of other users with one capability', { skip }, async (t) => {
    if (await isSanitized(t)) {
        t.skip('sanitizers leave the sandbox out');
        return;
    }
    const tree = theirs(t, { 'a.txt': 'a', 'dir/b.txt': 'b' });
    const tokens = new TokenFile(t);
    const alice = tokens.give('alice');
    fs.chownSync(tokens.path, NOBODY, NOBODY);
    const certs = new Certificates(t).make('server');
    for (const kind of ['pem', 'key']) {
        fs.chmodSync(certs.file(`server.${kind}`), 0o600);
        fs.chownSync(certs.file(`server.${kind}`), NOBODY, NOBODY);
    }
    const own = new Tree(t);
    const args = [...tokens.args, '--tls-cert', certs.file('server.pem'), '--tls-key', certs.file('server.key'),
        '--store', own.at('tidings.db'), '--publish', 'app:///', '--allow-write', '--workers', '2'];
    const server = await serve(t, { tree, args, secure: certs.client() });
    const { pid } = server.child;
    check(pid, bits('DAC_READ_SEARCH'), 'the server');
    check(childrenOf(pid)[0], bits('DAC_READ_SEARCH'), 'the helper');
    const client = as(server, alice);
    assert.equal((await modern(client, 'resources/read', { uri: tree.uri('dir/b.txt') })).status, 200);
    const { events } = await listen(client, { resourceSubscriptions: [tree.uri('')] });
    fs.writeFileSync(tree.at('dir/c.txt'), 'c', { mode: 0o600 });
    fs.chownSync(tree.at('dir/c.txt'), NOBODY, NOBODY);
    await events.message(updates(tree.uri('dir/c.txt')), 'an update');
    const bob = new TokenFile(t);
    const his = bob.give('bob');
    fs.writeFileSync(`${tokens.path}.new`, fs.readFileSync(bob.path), { mode: 0o600 });
    fs.chownSync(`${tokens.path}.new`, NOBODY, NOBODY);
    fs.renameSync(`${tokens.path}.new`, tokens.path);
    await reloaded(server, /reloaded.*tls/);
    assert.equal((await modern(as(server, his), 'resources/read', { uri: tree.uri('a.txt') })).status, 200);
    assert.equal((await modern(client, 'resources/read', { uri: tree.uri('a.txt') })).status, 401);
    assert.ok((await put(as(server, his), 'app:///x', 'x')).status < 300, 'the store is written');
    assert.doesNotMatch(server.stderr, / error | warn (server|store|files|tls):/);
});

test('capabilities: server without a directory drops all and keeps some for a low port or a foreign store', { skip }, async (t) => {
    if (await isSanitized(t)) {
        t.skip('sanitizers leave the sandbox out');
        return;
    }
    const none = await serve(t, { mounts: [], args: ['--publish', 'app:///', '--allow-write'] });
    check(none.child.pid, 0n, 'nothing to read');
    assert.ok((await put(none, 'app:///x', 'x')).status < 300);
    const tree = theirs(t, {});
    const args = ['--publish', 'app:///', '--allow-write', '--store', tree.at('tidings.db')];
    for (let round = 0; round < 2; round += 1) {
        const low = await serve(t, { tree, mounts: [], http: `127.0.0.1:${1000 + (process.pid % 20)}`, args });
        check(low.child.pid, bits('NET_BIND_SERVICE', 'DAC_OVERRIDE', 'CHOWN'), 'a low port, and a store of another');
        assert.ok((await put(low, 'app:///x', `${round}`)).status < 300);
        await low.stop();
        fs.chownSync(tree.at('tidings.db'), NOBODY, NOBODY);
    }
    const open = await serve(t, { args: ['--no-sandbox'] });
    check(open.child.pid, everything.CapPrm, '--no-sandbox');
});

test('capabilities: commands run with the capabilities that the server was started with', { skip }, async (t) => {
    if (await isSanitized(t)) {
        t.skip('sanitizers leave the sandbox out');
        return;
    }
    const tree = new Tree(t);
    const mount = { type: 'command', uri: 'cmd:///it', argv: ['grep', 'CapEff', '/proc/self/status'], interval: 0 };
    tree.write('tidings.json', JSON.stringify({ mounts: [mount] }));
    const server = await serve(t, { tree, mounts: [], args: ['--config', tree.at('tidings.json')] });
    check(server.child.pid, 0n, 'the server');
    check(childrenOf(server.child.pid)[0], everything.CapPrm, 'the helper');
    const { json } = await modern(server, 'resources/read', { uri: 'cmd:///it' });
    assert.equal(BigInt(`0x${json.result.contents[0].text.trim().split(/\s+/)[1]}`), everything.CapEff);
});
