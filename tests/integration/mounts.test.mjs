// SPDX-License-Identifier: MIT
//
// File systems mounted below a served root, in the sandbox. A mount causes no event in the directory that it covers.
// The server runs in a private mount namespace, which requires root or a user namespace; otherwise the tests are
// skipped.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';

import { listen, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';

const spaces = process.getuid() === 0 ? ['--mount'] : ['--user', '--mount'];
const under = ['/usr/bin/unshare', ...spaces, ...(process.getuid() === 0 ? [] : ['--map-root-user'])];
const canMount = spawnSync(under[0], [...under.slice(1), 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;
const skip = !canMount && 'no mount namespace here: needs root or user namespaces';

const files = { 'a.txt': '1', 'dir/b.txt': '1' };

/** Run a shell command in the server's namespaces. */
const inside = (server, script) =>
    execFileSync('/usr/bin/nsenter', [...spaces, '-t', `${server.child.pid}`, '/bin/sh', '-c', script, server.tree.at('dir')]);

for (const args of [[], ['--no-sandbox']]) {
    const how = args[0] ?? 'with the sandbox';
    test(`mounts: file system mounted below a root is detected (${how})`, { skip }, async (t) => {
        const server = await serve(t, { files, args, under });
        const seccomp = fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8').match(/^Seccomp:\s+(\d)/m)[1];
        assert.ok(args.length > 0 || seccomp === '2' || process.env.TIDINGS_SLOW, 'the server is confined');
        const { events } = await listen(server, { resourceSubscriptions: [server.uri('')] });
        inside(server, 'mount -t tmpfs none "$0"');
        await events.message(updates(server.uri('dir/b.txt')), 'that the mount hides a file');
        inside(server, 'echo 1 >"$0/c.txt"');
        await events.message(updates(server.uri('dir/c.txt')), 'a file that was made in the mount');
        inside(server, 'umount -l "$0"');
        await events.message(updates(server.uri('dir/c.txt')), 'that the file went with the mount');
        await events.message(updates(server.uri('dir/b.txt')), 'that the hidden file is back');
        assert.doesNotMatch(server.stderr, /not noticed|polled/);
    });
}

test('mounts: server without mount detection logs a warning', async (t) => {
    const server = await serve(t, { files });
    const { pid } = server.child;
    const [helper] = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').map(Number);
    const isConfined = /^Seccomp:\s+2/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
    process.kill(helper, 'SIGKILL');
    await listen(server, { resourceSubscriptions: [server.uri('')] });
    if (isConfined) { // a sanitizer build has no sandbox and opens the list itself
        await server.lines.next((line) => /warn files: mounted file systems are not noticed/.test(line), 'a warning');
    }
});
