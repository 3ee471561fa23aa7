// SPDX-License-Identifier: MIT
//
// Information that the process itself exposes. As root the test runs the program as an unprivileged user: the files
// of /proc/PID belong to root while the process is not dumpable, and otherwise to its user.

import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { BIN, Program, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const NOBODY = 65534;
const isRoot = process.getuid() === 0;

/** The program in a place where another user may execute it. */
function asNobody(t) {
    if (!isRoot) {
        return { bin: BIN, options: {} };
    }
    const tree = new Tree(t);
    const bin = path.join(tree.path, 'tidings');
    copyFileSync(BIN, bin);
    chmodSync(bin, 0o755);
    chmodSync(tree.path, 0o755);
    return { bin, options: { uid: NOBODY, gid: NOBODY } };
}

function isDumpable(pid) {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const user = Number(status.match(/^Uid:\s+(\d+)/m)[1]);
    assert.notEqual(user, 0, 'of root nothing can be said');
    return statSync(`/proc/${pid}/environ`).uid === user;
}

test('process: server can be neither dumped nor traced by its user', async (t) => {
    const { bin, options } = asNobody(t);
    const tree = new Tree(t, { 'a.txt': 'a' });
    chmodSync(tree.path, 0o755);
    const server = new Program(t, bin, ['serve', '--http', '127.0.0.1:0', tree.path], options);
    await server.lines.next((line) => line.includes('serving on'), 'the line that it is ready');
    assert.equal(isDumpable(server.child.pid), false);
});

test('process: client with a token can be neither dumped nor traced; others can', async (t) => {
    const { bin, options } = asNobody(t);
    const server = await serve(t, { files: { 'a.txt': 'a' } });
    for (const token of ['hunter2', undefined]) {
        const env = token ? { TIDINGS_TOKEN: token } : {};
        const args = ['watch', server.url, server.uri('a.txt')];
        const client = new Program(t, bin, args, { ...options, env, mayFail: true });
        await client.lines.next((line) => line.startsWith('watching'), 'the line that it watches');
        assert.equal(isDumpable(client.child.pid), !token);
    }
});
