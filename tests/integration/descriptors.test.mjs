// SPDX-License-Identifier: MIT
//
// A server without free descriptors: it reserves descriptors for its own use, refuses excess connections at once, and
// reports file changes later if it cannot read them. The tests set the limit of a running server from outside
// (prlimit), so that it is exhausted exactly when needed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { Connection } from './lib/http.mjs';
import { from, modernRequest } from './lib/limits.mjs';
import { call, listen, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const PRLIMIT = '/usr/bin/prlimit';
const files = { 'a.txt': '1', 'dir/b.txt': '1', 'dir/sub/c.txt': '1' };

/** From now on the server gets no descriptor with this number or a higher one. */
const limit = (server, count) => {
    execFileSync(PRLIMIT, [`--pid=${server.child.pid}`, `--nofile=${count}:4096`]);
};

const get = (uri) => ({ method: 'GET', path: `/resource?uri=${encodeURIComponent(uri)}` });
const isTruncated = (m) => m.params?._meta?.['dev.tidings/truncated'] === true;

test('300 connections at a limit of 300 leave enough descriptors for files and watches', async (t) => {
    const under = [PRLIMIT, '--nofile=300:300'];
    const server = await serve(t, { files, under, args: ['--workers', '8'] });
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('')] });
    const statuses = [];
    for (let i = 0; i < 300; i++) {
        const one = await Connection.open(server);
        defer(t, () => one.close());
        statuses.push((await one.request(modernRequest('server/discover'))).status);
        if (statuses[i] === 200) {
            const { status } = await one.request(get(server.uri('a.txt')));
            assert.equal(status, 200, `with ${i} others`);
        }
    }
    assert.ok(statuses.filter((s) => s === 200).length > 100, 'many come in');
    assert.ok(statuses.includes(503), 'and the others are told');
    assert.deepEqual(new Set(statuses), new Set([200, 503]));
    server.tree.write('a.txt', '2');
    await events.message(updates(server.uri('a.txt')), 'an update');
    server.tree.write('new/deep/d.txt', '1');
    await events.message(updates(server.uri('new/deep/d.txt')), 'what is in a new directory');
    const lines = server.stderr.split('\n').filter((line) => line.includes('connection refused'));
    assert.ok(lines.length > 0 && lines.length < 20, `${lines.length} lines in the log`);
});

test('connection without a descriptor gets 503 and one log line a second', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '2'] });
    const before = await from(t, server, '127.0.0.1');
    assert.equal((await before.request(modernRequest('server/discover'))).status, 200);
    const open = fs.readdirSync(`/proc/${server.child.pid}/fd`).map(Number);
    limit(server, Math.max(...open) + 1);
    for (let i = open.length; i <= Math.max(...open); i++) { // free numbers below it
        const one = await from(t, server, '127.0.0.1');
        await one.request(modernRequest('server/discover'));
    }
    for (let i = 0; i < 50; i++) {
        const one = await Connection.open(server);
        const response = await one.request(modernRequest('server/discover'));
        assert.equal(response.status, 503, response.text);
        assert.equal(response.json.error.data.limit, 'max-connections');
        one.close();
    }
    const lines = server.stderr.split('\n').filter((line) => / WARN /i.test(line));
    assert.ok(lines.length < 20, server.stderr);
    limit(server, 4096);
    const after = await from(t, server, '127.0.0.1');
    assert.equal((await after.request(modernRequest('server/discover'))).status, 200);
    assert.equal((await before.request(modernRequest('server/discover'))).status, 200);
});

test('read without a descriptor is to be retried and no list lacks rows', async (t) => {
    const server = await serve(t, { files: { ...files, ...Object.fromEntries(
        Array.from({ length: 200 }, (_, i) => [`many/${i}.txt`, 'x']),
    ) } });
    fs.symlinkSync('b.txt', server.tree.at('dir/link'));
    const client = await from(t, server, '127.0.0.1');
    const uri = server.uri('dir/b.txt');
    assert.equal((await client.request(get(uri))).status, 200);
    limit(server, 4);
    for (const name of ['dir/b.txt', 'dir/', 'dir/link']) {
        const plain = await client.request(get(server.uri(name)));
        assert.equal(plain.status, 503, `${name}: ${plain.text}`);
        assert.match(plain.text, /descriptors/);
        const read = await client.request(modernRequest('resources/read', { uri: server.uri(name) }));
        assert.equal(read.json.error.code, -32603, read.text);
        assert.match(read.json.error.message, /try again later/);
    }
    const list = await client.request(modernRequest('resources/list'));
    assert.equal(list.json.error?.code, -32603, list.text);
    limit(server, 4096);
    assert.equal((await client.request(get(uri))).status, 200);
    const names = (await call(server, 'resources/list')).resources.map((r) => r.uri);
    assert.ok(names.includes(server.uri('dir/link')));
});

test('file changes without descriptors are reported as missed and then delivered', async (t) => {
    const [tree, quiet] = [new Tree(t, files), new Tree(t, files)];
    const server = await serve(t, { tree, mounts: [tree.path, quiet.path], args: ['--workers', '2'] });
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('')] });
    const other = await listen(server, { resourceSubscriptions: [quiet.uri('')] });
    limit(server, 4);
    server.tree.write('a.txt', '2');
    server.tree.write('dir/sub/c.txt', '2');
    server.tree.write('new/deep/d.txt', '1');
    fs.rmSync(server.tree.at('dir/b.txt'));
    const told = await events.message(isTruncated, 'that something was missed');
    assert.equal(told.params.subscribedUri ?? told.params.uri, server.uri(''));
    await server.lines.next((line) => line.includes('cannot be watched'), 'a warning');
    limit(server, 4096);
    for (const name of ['a.txt', 'dir/sub/c.txt', 'new/deep/d.txt', 'dir/b.txt']) {
        await events.message(updates(server.uri(name)), name);
    }
    await server.lines.next((line) => line.includes('watched again'), 'that all is well');
    server.tree.write('new/deep/d.txt', '2');
    await events.message(updates(server.uri('new/deep/d.txt')), 'a change in the new directory');
    quiet.write('a.txt', '2');
    await other.events.message(updates(quiet.uri('a.txt')), 'an update elsewhere');
    assert.ok(!other.events.messages.some(isTruncated), 'where nothing was missed nothing is said');
});

test('subscription without a descriptor is refused and works later', async (t) => {
    const server = await serve(t, { files });
    const client = await from(t, server, '127.0.0.1');
    assert.equal((await client.request(modernRequest('server/discover'))).status, 200);
    await listen(server, { resourceSubscriptions: [server.uri('a.txt')] }); // a watcher exists
    limit(server, 4);
    const notifications = { resourceSubscriptions: [server.uri('dir/')] };
    const response = await client.request(modernRequest('subscriptions/listen', { notifications }));
    const ack = response.events ? await response.events.message() : response.json;
    assert.match(JSON.stringify(ack), /refused|-32603/, JSON.stringify(ack));
    limit(server, 4096);
    const { events } = await listen(server, notifications);
    server.tree.write('dir/b.txt', '2');
    await events.message(updates(server.uri('dir/b.txt')), 'an update');
});

/** A user namespace without inotify instances. */
const WITHOUT_INOTIFY = ['/usr/bin/unshare', '--user', '--map-root-user', '/bin/sh', '-c'];
const ALLOWED = '/proc/sys/user/max_inotify_instances';

function canUnshare() {
    try {
        execFileSync(WITHOUT_INOTIFY[0], [...WITHOUT_INOTIFY.slice(1), `echo 0 >${ALLOWED}`], { stdio: 'ignore' });
        return true;
    } catch {
        return false;
    }
}

test('server without an inotify instance polls files and logs it until it gets one', async (t) => {
    if (!canUnshare()) {
        t.skip('no user namespaces here');
        return;
    }
    const under = [...WITHOUT_INOTIFY, `echo 0 >${ALLOWED}; exec "$0" "$@"`];
    const server = await serve(t, { files, under });
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('')] });
    const warned = (what) => server.lines.next((line) => line.includes(what) && line.includes('no inotify instance'), what);
    await warned('the way to a root is polled, not watched');
    await warned('some directories are polled, not watched');
    server.tree.write('dir/b.txt', '2');
    await events.message(updates(server.uri('dir/b.txt')), 'what polling finds');
    execFileSync('/usr/bin/nsenter', ['--user', '-t', `${server.child.pid}`, '/bin/sh', '-c', `echo 9 >${ALLOWED}`]);
    await server.lines.next((line) => line.includes('inotify is available again'), 'that there is one');
    server.tree.write('dir/sub/c.txt', '2');
    await events.message(updates(server.uri('dir/sub/c.txt')), 'what inotify tells');
});
