// SPDX-License-Identifier: MIT
//
// Listeners besides HTTP: the specifics of line-framed sockets and of several listeners. tests/contract/transport
// covers the common behaviour of all transports.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { Connection } from './lib/http.mjs';
import { initialize, key, listen, modern, updates } from './lib/rpc.mjs';
import { run } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { Pipe } from './lib/stdio.mjs';
import { within } from './lib/wait.mjs';

const files = { 'a.txt': 'a' };

const pathOf = (url) => url.slice('unix:'.length);

function connect(t, url) {
    if (url.startsWith('unix:')) {
        return SocketPeer.connect(t, { path: pathOf(url) });
    }
    const { hostname, port } = new URL(url);
    return SocketPeer.connect(t, { host: hostname, port: Number(port) });
}

test('change is delivered once on every listener', async (t) => {
    const tree = new Tree(t, files);
    const path = tree.aside();
    const doors = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--tcp', '[::1]:0'];
    const server = await serveDoors(t, [...doors, '--unix', path], { tree });
    assert.equal(server.doors.length, 4);
    assert.match(server.doors[0], /^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    assert.match(server.doors[2], /^tcp:\/\/\[::1\]:\d+$/);
    assert.equal(server.doors[3], `unix:${path}`);
    const uri = server.uri('a.txt');
    const web = { port: Number(new URL(server.doors[0]).port) };
    const { events } = await listen(web, { resourceSubscriptions: [uri] });
    const peers = [];
    for (const url of [server.doors[1], server.doors[3]]) {
        const peer = await connect(t, url);
        await peer.listen({ resourceSubscriptions: [uri] });
        peers.push(peer);
    }
    tree.replace('a.txt', 'b');
    await events.message(updates(uri), 'an update over HTTP');
    for (const peer of peers) {
        await peer.message(updates(uri), 'an update in a line');
    }
    assert.equal((await modern(web, 'resources/read', { uri })).status, 200);
});

test('Unix socket serves HTTP', async (t) => {
    const tree = new Tree(t, files);
    const path = tree.aside();
    const server = await serveDoors(t, ['--http-unix', path], { tree });
    assert.deepEqual(server.doors, [`http+unix:${path}`]);
    const connection = await Connection.open({}, { path, host: undefined, port: undefined });
    const target = `/resource?uri=${encodeURIComponent(server.uri('a.txt'))}`;
    const headers = { Host: 'localhost' };
    const answer = await connection.request({ method: 'GET', path: target, headers });
    assert.equal(answer.status, 200);
    assert.equal(answer.text, 'a');
    connection.close();
});

test('other listeners without --http disable HTTP', async (t) => {
    const server = await serveDoors(t, ['--tcp', '127.0.0.1:0'], { files });
    assert.equal(server.doors.length, 1);
    assert.match(server.doors[0], /^tcp:/);
});

test('connection beyond --max-connections gets an error message', async (t) => {
    const args = ['--max-connections', '2'];
    const server = await serveDoors(t, ['--tcp', '127.0.0.1:0'], { files, args });
    const first = await connect(t, server.doors[0]);
    const second = await connect(t, server.doors[0]);
    await first.ask('modern', 'resources/list');
    await second.ask('modern', 'resources/list');
    const third = await connect(t, server.doors[0]);
    const { error, id } = await third.message(() => true, 'a refusal');
    assert.equal(id, undefined, 'it answers no request');
    assert.match(error.message, /too many connections/);
    await third.ended;
    assert.ok((await first.ask('modern', 'resources/list')).result);
});

test('half a message is rejected after --body-timeout', async (t) => {
    const args = ['--body-timeout', '1s'];
    const server = await serveDoors(t, ['--tcp', '127.0.0.1:0'], { files, args });
    const peer = await connect(t, server.doors[0]);
    await peer.raw('{"jsonrpc":');
    const { error } = await peer.message(() => true, 'a refusal');
    assert.match(error.message, /did not arrive in time/);
    await peer.ended;
});

test('idle client is closed after --idle-timeout', async (t) => {
    const args = ['--idle-timeout', '1s'];
    const server = await serveDoors(t, ['--tcp', '127.0.0.1:0'], { files, args });
    const peer = await connect(t, server.doors[0]);
    await peer.ended;
    assert.deepEqual(peer.inbox.seen, []);
});

test('silent subscriber is not closed', async (t) => {
    const args = ['--idle-timeout', '1s', '--session-timeout', '1s'];
    const server = await serveDoors(t, ['--tcp', '127.0.0.1:0'], { files, args });
    const idle = await connect(t, server.doors[0]);
    const peer = await connect(t, server.doors[0]);
    await peer.listen({ resourceSubscriptions: [server.uri('a.txt')] });
    await idle.ask('modern', 'resources/list');
    await idle.ended; // a client that sent one request and nothing since
    server.tree.replace('a.txt', 'b');
    await peer.message(updates(server.uri('a.txt')), 'an update');
});

test('Unix socket has its mode and is removed with the server', async (t) => {
    const tree = new Tree(t, files);
    const path = tree.aside();
    const server = await serveDoors(t, ['--unix', path], { tree });
    assert.equal(statSync(path).mode & 0o7777, 0o600);
    const again = await run(t, ['serve', '--unix', path, tree.path]);
    assert.notEqual(again.code, 0);
    assert.match(again.stderr, /a server is listening on/);
    await server.stop();
    assert.ok(!existsSync(path));
    const open = await serveDoors(t, ['--unix', path, '--unix-mode', '660'], { tree });
    assert.equal(statSync(path).mode & 0o7777, 0o660);
    await open.kill();
    assert.ok(existsSync(path), 'left behind by a server that was killed');
    await serveDoors(t, ['--unix', path], { tree });
    assert.equal(statSync(path).mode & 0o7777, 0o600);
});

test('connections of one user share the user limits', async (t) => {
    const tree = new Tree(t, files);
    const args = ['--max-breadth', '1'];
    const server = await serveDoors(t, ['--unix', tree.aside()], { tree, args });
    const everything = { resourceSubscriptions: ['file:///'] };
    const first = await (await connect(t, server.doors[0])).listen(everything);
    assert.deepEqual(first.ack.notifications.resourceSubscriptions, ['file:///']);
    const second = await (await connect(t, server.doors[0])).listen(everything);
    const [{ reason }] = second.ack._meta[key.refused];
    assert.match(reason, new RegExp(`'uid:${process.getuid()}'`));
});

test('address beyond loopback requires --allow-remote and logs a warning', async (t) => {
    const tree = new Tree(t, files);
    const refused = await run(t, ['serve', '--tcp', '0.0.0.0:0', tree.path]);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /--tcp: '0\.0\.0\.0' .*--allow-remote/);
    const open = await serveDoors(t, ['--tcp', '0.0.0.0:0', '--allow-remote'], { tree });
    assert.match(open.stderr, /warn server: open to the network .*everything can be read on the way/);
});

test('end of standard input leaves the other listeners open', async (t) => {
    const tree = new Tree(t, files);
    const path = tree.aside();
    const pipe = Pipe.open(t, { tree, args: ['--unix', path] });
    await pipe.lines.next((line) => line.includes(`unix:${path}`), 'the line that it is ready');
    pipe.child.stdin.end();
    const peer = await connect(t, `unix:${path}`);
    assert.ok((await peer.ask('modern', 'resources/list')).result);
    await pipe.stop();
});

test('client that closes its input during an answer uses no CPU', async (t) => {
    const tree = new Tree(t, files);
    const gate = tree.at('gate');
    execFileSync('mkfifo', [gate]);
    const mount = { type: 'command', uri: 'cmd:///late', argv: ['cat', gate] };
    tree.write('tidings.json', JSON.stringify({ mounts: [mount] }));
    const args = ['--workers', '1', '--config', tree.at('tidings.json')];
    const server = await serveDoors(t, ['--tcp', '127.0.0.1:0'], { tree, args, mounts: [] });
    const peer = await connect(t, server.doors[0]);
    const params = { uri: 'cmd:///late' };
    const asked = { jsonrpc: '2.0', id: 'late', method: 'resources/read', params };
    peer.socket.end([initialize(), asked].map((m) => `${JSON.stringify(m)}\n`).join(''));
    await peer.inbox.next((m) => m.result?.protocolVersion, 'the first answer');
    const other = await connect(t, server.doors[0]);
    assert.ok((await other.ask('modern', 'resources/list')).result, 'the worker is there');
    await within(writeFile(gate, 'said at last'), 'the command to read');
    const answer = await peer.inbox.next((m) => m.id === 'late', 'the answer after the end of input');
    assert.equal(answer.result.contents[0].text, 'said at last');
    await within(peer.ended, 'the end of the connection');
});
