// SPDX-License-Identifier: MIT
//
// Limits of what is sent and how slowly: each is reached, answered, counted, and the server goes on.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { from, limitsOf, modernRequest, reached } from './lib/limits.mjs';
import { call, modern, post, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { eventually, within } from './lib/wait.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const files = { 'a.txt': 'a' };
const start = (t, ...args) => serve(t, { files, args: ['--self', ...args] });

/** The answer to these bytes, which are no whole request perhaps. */
async function answerTo(t, server, bytes) {
    const connection = await from(t, server, '127.0.0.1');
    await connection.send(bytes);
    return connection.readResponse();
}

const head = (server, fields = '') =>
    `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n` +
    `Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n${fields}`;

test('sizes: head, fields, target, body, depth, batch and URI', async (t) => {
    const server = await start(t, '--max-body', '100k', '--max-depth', '10');
    const session = await Session.open(server, '2025-03-26');
    const long = 'x'.repeat(5000);
    const pings = Array.from({ length: 101 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'ping' }));
    const uri = `file:///${long}`;
    const cases = [
        ['head-bytes', 431, () => answerTo(t, server, head(server, `X: ${'x'.repeat(40000)}\r\n\r\n`))],
        ['head-bytes', 431, () => answerTo(t, server, head(server, `${'X: y\r\n'.repeat(101)}\r\n`))],
        ['target-bytes', 414, () => answerTo(t, server, `GET /${'x'.repeat(9000)} HTTP/1.1\r\n\r\n`)],
        ['max-body', 413, () => post(server, JSON.stringify('x'.repeat(200000)))],
        [
            'max-body',
            413,
            () =>
                answerTo(
                    t,
                    server,
                    `${head(server, 'Transfer-Encoding: chunked\r\n\r\n')}` +
                        `30000\r\n${'x'.repeat(0x30000)}\r\n0\r\n\r\n`,
                ),
        ],
        ['max-depth', 400, () => post(server, '['.repeat(11) + ']'.repeat(11))],
        ['batch-messages', 400, () => session.post(pings)],
        [
            'uri-bytes',
            200,
            () => modern(server, 'subscriptions/listen', { notifications: { resourceSubscriptions: [uri] } }),
        ],
        ['uri-bytes', 200, () => session.send('resources/subscribe', { uri })],
    ];
    for (const [name, status, send] of cases) {
        const before = await reached(t, server, name);
        const response = await send();
        assert.equal(response.status, status, `${name}: ${response.text}`);
        assert.ok(status !== 200 || response.json.error, response.text);
        assert.equal(await reached(t, server, name), before + 1, name);
    }
    assert.ok((await call(server, 'resources/list')).resources.length > 0);
});

test('sizes: a line and a message of a WebSocket', async (t) => {
    const args = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--self', '--max-line', '1k'];
    const server = await serveDoors(t, [...args, '--max-body', '1k'], { files });
    server.port = Number(new URL(server.doors[0]).port);
    const port = Number(new URL(server.doors[1]).port);
    const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port });
    await peer.write('x'.repeat(2000));
    const { error } = await peer.message(() => true, 'a refusal');
    assert.match(error.message, /at most 1024 bytes/);
    assert.ok((await peer.ask('modern', 'server/discover')).result, 'it goes on');
    const socket = await WebSocketRaw.open(server);
    await socket.write('x'.repeat(2000));
    assert.equal((await socket.frame(8, 'its end')).code, 1009);
    const limits = await limitsOf(t, server);
    assert.equal(limits['max-line'].reached, 1);
    assert.equal(limits['max-body'].reached, 1);
});

test('slow heads: 408 after --header-timeout, however many bytes drip in', async (t) => {
    const server = await start(t, '--header-timeout', '1s');
    const quiet = await answerTo(t, server, 'POST /mcp HTTP/1.1\r\nHost: ');
    assert.equal(quiet.status, 408);
    const slow = await from(t, server, '127.0.0.1');
    await slow.send('POST /mcp HTTP/1.1\r\nX: ');
    const drip = setInterval(() => slow.send('x'), 100);
    try {
        assert.equal((await slow.readResponse()).status, 408);
    } finally {
        clearInterval(drip);
    }
    assert.equal(await reached(t, server, 'header-timeout'), 2);
});

test('slow bodies: 408 after --body-timeout, however many bytes drip in', async (t) => {
    const server = await start(t, '--body-timeout', '1s', '--header-timeout', '1h');
    for (const fields of ['Content-Length: 1000000\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\nfffff\r\n']) {
        const slow = await from(t, server, '127.0.0.1');
        await slow.send(head(server, fields));
        const drip = setInterval(() => slow.send('x'), 100);
        try {
            assert.equal((await slow.readResponse()).status, 408);
        } finally {
            clearInterval(drip);
        }
    }
    const idle = await answerTo(t, server, head(server, 'Content-Length: 10\r\n\r\n{'));
    assert.equal(idle.status, 408);
    assert.equal(await reached(t, server, 'body-timeout'), 3);
    assert.equal(await reached(t, server, 'header-timeout'), 0);
});

test('… which is a time of its own, not that of the head', async (t) => {
    const server = await start(t, '--body-timeout', '1m', '--header-timeout', '1s');
    const connection = await from(t, server, '127.0.0.1');
    const { headers, body } = modernRequest('resources/list', { cursor: 'x'.repeat(300_000) });
    const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const first = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n${fields.join('')}`;
    await connection.send(`${first}Content-Length: ${body.length}\r\n\r\n${body.slice(0, 1000)}`);
    const late = await answerTo(t, server, 'POST /mcp HTTP/1.1\r\nHost: '); // its time is over, and so would ours be
    assert.equal(late.status, 408);
    await connection.send(body.slice(1000));
    assert.equal((await connection.readResponse()).json.error.code, -32602); // no such cursor
});

test('slow lines: an error after --body-timeout, however many bytes drip in', async (t) => {
    const args = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--self', '--body-timeout', '1s'];
    const server = await serveDoors(t, args, { files });
    server.port = Number(new URL(server.doors[0]).port);
    const port = Number(new URL(server.doors[1]).port);
    const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port });
    await peer.raw('{"jsonrpc":');
    const drip = setInterval(() => peer.raw(' '), 100);
    try {
        const { error } = await peer.message(() => true, 'a refusal');
        assert.match(error.message, /did not arrive in time/);
        await within(peer.ended, 'the end');
    } finally {
        clearInterval(drip);
    }
    assert.equal(await reached(t, server, 'body-timeout'), 1);
});

test('slow readers: cut after --stall-timeout', async (t) => {
    const large = 'x'.repeat(4_000_000);
    const args = ['--self', '--stall-timeout', '1s'];
    const server = await serve(t, { files: { 'a.txt': large }, args });
    const connection = await from(t, server, '127.0.0.1');
    connection.socket.pause();
    const target = `GET /resource?uri=${encodeURIComponent(server.uri('a.txt'))} HTTP/1.1\r\n`;
    await connection.send(`${target}Host: 127.0.0.1:${server.port}\r\n\r\n`.repeat(4));
    await eventually(async () => (await reached(t, server, 'stall-timeout')) === 1, 'it is cut');
});

test('the table of docs/limits.md has every limit, and says where it is reached', async (t) => {
    const { readFileSync } = await import('node:fs');
    const page = readFileSync(new URL('../../docs/limits.md', import.meta.url), 'utf8');
    const server = await start(t);
    const limits = await limitsOf(t, server);
    for (const [name, { value }] of Object.entries(limits)) {
        const row = page.split('\n').find((line) => line.startsWith(`| \`${name}\``));
        assert.ok(row, `${name} has no row`);
        assert.ok(value === 0 || row.length > 0);
        assert.match(row, /`([a-z-]+\.test\.mjs|unit\/[a-z_/]+\.c)`/, `${name} names no test`);
    }
});
