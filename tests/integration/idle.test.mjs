// SPDX-License-Identifier: MIT
//
// A server without clients sleeps. It wakes at most once a second with any configuration and any earlier clients. The
// tests count the voluntary context switches of its threads, because a busy machine lowers this count and never
// raises it.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { defer } from './lib/cleanup.mjs';
import { sleeps, watched } from './lib/proc.mjs';
import { listen, modern, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { eventually } from './lib/wait.mjs';

const SECONDS = 3;
const files = { 'a.txt': '1', 'dir/b.txt': '2' };

/** Wait for the end of pending work: one second without a wakeup. */
async function awaitIdle(server) {
    let before = -1;
    // Changes in and above the watched tree wake the server as intended.
    await eventually(() => watched(server) === 0, 'nothing is watched', 60000);
    await eventually(async () => {
        const now = sleeps(server);
        const rests = now === before;
        before = now;
        await pause(1000);
        return rests;
    }, 'the server is idle', 20000);
}

async function sleepsWell(server) {
    await awaitIdle(server);
    const before = sleeps(server);
    await pause(SECONDS * 1000);
    const woken = sleeps(server) - before;
    assert.ok(woken <= SECONDS, `woken ${woken} times in ${SECONDS} s`);
}

function folder(t) {
    const path = mkdtempSync(join(tmpdir(), 'tidings-idle-'));
    defer(t, () => rmSync(path, { recursive: true, force: true }));
    return path;
}

const skip = process.env.TIDINGS_TSAN ? 'the thread sanitizer has a thread that wakes ten times a second' : false;

// Run concurrently, because the tests mostly wait.
describe('idle servers', { concurrency: 4, skip }, () => {
    test('server with all features and no clients sleeps', async (t) => {
        const path = folder(t);
        const args = [
            '--tcp', '127.0.0.1:0', '--unix', join(path, 'sock'), '--workers', '4', '--system', '--self',
            '--entities', join(path, 'store.db'),
        ];
        await sleepsWell(await serve(t, { files, args }));
    });

    test('server with token introspection sleeps, and wakes to revoke a token', async (t) => {
        const tokens = new TokenFile(t);
        const token = tokens.give('somebody');
        const server = await serve(t, { files, args: ['--auth-tokens', tokens.path, '--workers', '1'] });
        const somebody = as(server, token);
        assert.equal((await modern(somebody, 'resources/list')).status, 200);
        await sleepsWell(server);
        tokens.take(token);
        server.child.kill('SIGHUP');
        await server.lines.next((line) => /reload/.test(line), 'the file was read again');
        assert.equal((await modern(somebody, 'resources/list')).status, 401);
    });

    test('server sleeps again after clients of every kind disconnect', async (t) => {
        const server = await serve(t, { files, args: ['--tcp', '127.0.0.1:0', '--watch-linger', '0'] });
        const session = await Session.open(server);
        (await session.stream()).close(); // the session remains
        const { events } = await listen(server, { resourceSubscriptions: [server.uri('dir/')] });
        events.close();
        const line = /tcp:\/\/127\.0\.0\.1:(\d+)/.exec(server.stderr);
        if (line) {
            const socket = net.connect(Number(line[1]), '127.0.0.1');
            await new Promise((resolve) => socket.on('connect', resolve));
            socket.destroy();
        }
        await sleepsWell(server);
        assert.equal((await session.send('ping')).status, 200);
    });
});
