// SPDX-License-Identifier: MIT
//
// A service manager replaces a server under load three times and keeps its listening socket (as systemd does with
// tidings.socket). No connection is rejected, no acknowledged write is lost, and every subscriber of both eras
// receives every change. Another test upgrades a store of an earlier version.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { request } from './lib/http.mjs';
import { LineSplitter } from './lib/lines.mjs';
import { call, listen, meta, Session } from './lib/rpc.mjs';
import { BIN, cleanEnv, run, serve } from './lib/server.mjs';
import { CURSOR, isUpdate, OPTIONS } from './lib/subscriber.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually, Inbox } from './lib/wait.mjs';

const RESTARTS = 3;
const STREAMS = 8; // of each era
const PREFIX = 'app:///n/';

// Keeps the socket; on SIGUSR1 it stops the server cleanly and starts the next one with the same socket.
const MANAGER = String.raw`
use Socket; use POSIX ":sys_wait_h"; $^F = 255; $| = 1;
my $s;
socket($s, AF_INET, SOCK_STREAM, 0) && bind($s, pack_sockaddr_in(0, inet_aton("127.0.0.1"))) && listen($s, 1024) or die "$!";
fileno($s) == 3 or die "descriptor " . fileno($s);
my ($child, $again, $end) = (0, 0, 0);
$SIG{USR1} = sub { $again = 1; kill TERM => $child };
$SIG{TERM} = sub { $end = 1; kill TERM => $child };
do {
    $again = 0;
    $child = fork() // die "$!";
    if ($child == 0) {
        @ENV{qw(LISTEN_FDS LISTEN_PID LISTEN_FDNAMES)} = (1, $$, "http");
        exec @ARGV;
    }
    my $got;
    do { $got = waitpid($child, 0) } while ($got < 0 && $!{EINTR});
    print "ended $?\n";
} while ($again && !$end);
`;

/** The manager: { port, lines, replace() }. */
async function manage(t, args) {
    const child = spawn('/usr/bin/perl', ['-MErrno', '-e', MANAGER, BIN, 'serve', ...args], { env: cleanEnv(), stdio: ['ignore', 'pipe', 'pipe'] });
    defer(t, async () => {
        child.kill('SIGTERM');
        await new Promise((done) => child.on('exit', done));
    });
    const lines = new Inbox('the manager');
    for (const stream of [child.stdout, child.stderr]) {
        const splitter = new LineSplitter();
        stream.setEncoding('utf8').on('data', (text) => splitter.take(text).forEach((line) => lines.push(line)));
    }
    const ready = async () => (await lines.next((line) => line.includes('serving on '), 'the server serves')).match(/:(\d+)\/mcp/)[1];
    const port = Number(await ready());
    const replace = async () => {
        child.kill('SIGUSR1');
        assert.equal(await lines.next((line) => line.startsWith('ended '), 'the old server ends'), 'ended 0');
        await ready();
    };
    return { port, url: `http://127.0.0.1:${port}/mcp`, lines, replace };
}

/** Follows PREFIX in one era until stopped and records the updates. Resumes with its cursor or its session. */
class Follower {
    heard = new Set();
    truncated = 0;
    stopped = false;

    note(message) {
        if (message.params._meta['dev.tidings/truncated']) {
            this.truncated += 1;
        } else {
            this.heard.add(message.params.uri);
        }
    }

    async modern(server, begun) {
        let cursor;
        while (!this.stopped) {
            const options = { windowMs: 0, ...(cursor && { since: cursor }) };
            const got = await listen(server, { resourceSubscriptions: [PREFIX] }, { params: { _meta: meta({ [OPTIONS]: options }) } }).catch(() => undefined);
            if (!got) {
                continue; // a draining server: the next one answers
            }
            cursor ??= got.ack._meta[CURSOR];
            begun();
            this.events = got.events;
            for (;;) {
                const message = await got.events.message(isUpdate, 'an update', 2 ** 31 - 1).catch(() => undefined);
                if (!message) {
                    break;
                }
                this.note(message);
                cursor = message.params._meta[CURSOR];
            }
        }
    }

    async legacy(server, begun) {
        while (!this.stopped) { // its session ends with the server: open another one from the last cursor
            const session = await Session.open(server).catch(() => undefined);
            const options = { windowMs: 0, ...(this.cursor && { since: this.cursor }) };
            const answer = session && await session.call('resources/subscribe', { uri: PREFIX, _meta: { [OPTIONS]: options } }).catch(() => undefined);
            this.events = answer && await session.stream().catch(() => undefined);
            if (!this.events) {
                continue;
            }
            this.cursor ??= answer._meta[CURSOR];
            begun();
            for (;;) {
                const message = await this.events.message(isUpdate, 'an update', 2 ** 31 - 1).catch(() => undefined);
                if (!message) {
                    break;
                }
                this.note(message);
                this.cursor = message.params._meta[CURSOR];
            }
        }
    }

    stop() {
        this.stopped = true;
        this.events?.close();
    }
}

test('server replaced under load rejects no client and loses no change', async (t) => {
    const tree = new Tree(t);
    const server = await manage(t, ['--store', tree.at('store.db'), '--publish', 'app:///', '--allow-write', '--drain', '500ms', tree.path]);
    const followers = [];
    const running = [];
    await Promise.all(Array.from({ length: 2 * STREAMS }, (_, i) => new Promise((begun) => {
        const follower = new Follower();
        followers.push(follower);
        running.push(i % 2 ? follower.legacy(server, begun) : follower.modern(server, begun));
    })));

    const counts = { connections: 0, refused: 0, ended: 0 };
    let busy = true;
    /** A connection for each request, like a crowd of clients; undefined if it ended without an answer. */
    const once = async (options) => {
        counts.connections += 1;
        try {
            return await request(server, options);
        } catch (error) {
            counts[error.code === 'ECONNREFUSED' ? 'refused' : 'ended'] += 1;
            return undefined;
        }
    };
    const written = new Set();
    const writer = (async () => {
        for (let i = 0; busy; i++) {
            const uri = `${PREFIX}${i}`;
            const put = () => once({ method: 'PUT', path: `/resource?uri=${uri}`, headers: { 'Content-Type': 'text/plain' }, body: `${i}` });
            const answer = await put();
            if (answer && [201, 204].includes(answer.status)) {
                written.add(uri);
            }
        }
    })();
    const reader = (async () => {
        while (busy) {
            await once({ method: 'GET', path: '/resource?uri=app:///n/0' });
        }
    })();
    for (let i = 0; i < RESTARTS; i++) {
        const enough = written.size + 50;
        await eventually(() => written.size >= enough, '50 writes were acknowledged');
        await server.replace();
    }
    const enough = written.size + 50;
    await eventually(() => written.size >= enough, '50 writes were acknowledged by the last one');
    busy = false;
    await Promise.all([writer, reader]);
    for (const follower of followers) {
        const missing = () => [...written].filter((uri) => !follower.heard.has(uri));
        await eventually(() => missing().length === 0, 'everybody heard of every acknowledged write')
            .catch((error) => assert.fail(`${error.message}; missing: ${missing().slice(0, 5)} … of ${written.size}`));
        assert.equal(follower.truncated, 0, 'nobody was told to read again');
    }
    followers.forEach((follower) => follower.stop());
    await Promise.all(running);
    t.diagnostic(`${written.size} writes, ${counts.connections} connections, ${counts.ended} ended without an answer`);
    assert.equal(counts.refused, 0);
});

const sqlite = await import('node:sqlite').catch(() => undefined); // of Node 22.13 and later

test('store of an earlier version keeps its entities, history, publications and cursors', { skip: !sqlite && 'this Node has no SQLite' }, async (t) => {
    const file = new Tree(t).at('tidings.db');
    const old = new sqlite.DatabaseSync(file);
    old.exec(readFileSync(new URL('../packages/store-1.sql', import.meta.url), 'utf8'));
    old.close();
    const number = (sql, of = file) => {
        const db = new sqlite.DatabaseSync(of);
        const [value] = Object.values(db.prepare(sql).get());
        db.close();
        return value;
    };
    assert.equal(number('PRAGMA user_version'), 1);
    // The store grows old; its history must not expire.
    const args = ['--entities', file, '--publish', 'app:///', '--allow-write', '--window', '0', '--log-age', '0'];
    const server = await serve(t, { args });
    const value = async (uri) => (await call(server, 'resources/read', { uri })).contents[0].text;
    assert.deepEqual(JSON.parse(await value('entity:///User@1/ann')).value, { age: 7 });
    assert.equal(await value('app:///note'), 'again\n');
    const log = await run(t, ['entity', 'log', server.url, 'User@1/ann']);
    assert.match(log.stdout, /\{"age":6\}\n.*\{"age":7\}\n$/);
    const uris = ['entity:///User@1/', 'app:///**'];
    const { events } = await listen(server, { resourceSubscriptions: uris }, { params: { _meta: meta({ [OPTIONS]: { since: 'ecae35c08e1ab671.7.4', initial: false } }) } });
    const told = [];
    for (let i = 0; i < 3; i += 1) {
        const { params } = await events.message(isUpdate, 'what was missed');
        assert.equal(params._meta['dev.tidings/truncated'], undefined);
        told.push(`${params._meta['dev.tidings/change']} ${params.uri}`);
    }
    assert.deepEqual(told, ['updated entity:///User@1/ann', 'deleted entity:///User@1/bob', 'updated app:///note']);
    await call(server, 'tools/call', { name: 'publish', arguments: { uri: 'app:///note', text: 'now' } });
    assert.equal((await events.message(isUpdate, 'a new change')).params.uri, 'app:///note');
    await server.stop();
    const fresh = new Tree(t).at('fresh.db');
    await (await serve(t, { args: ['--entities', fresh] })).stop();
    assert.equal(number('PRAGMA user_version'), number('PRAGMA user_version', fresh), 'the layout of today');
    assert.equal(number('PRAGMA integrity_check'), 'ok');
});
