// SPDX-License-Identifier: MIT
//
// Limits of input size and speed. Each limit is reached, answered and counted, and the server continues.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { defer } from './lib/cleanup.mjs';
import { from, limitsOf, modernRequest, reached } from './lib/limits.mjs';
import { call, meta, modern, post, Session } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually, within } from './lib/wait.mjs';
import { encodeFrame, FIN, OP, WebSocketRaw } from './lib/websocket.mjs';

const files = { 'a.txt': 'a' };
const start = (t, ...args) => serve(t, { files, args: ['--self', ...args] });

/** The answer to these bytes, which may be an incomplete request. */
async function answerTo(t, server, bytes) {
    const connection = await from(t, server, '127.0.0.1');
    await connection.send(bytes);
    return connection.readResponse();
}

const head = (server, fields = '') =>
    `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n` +
    `Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n${fields}`;

test('sizes: head, fields, target, body, depth, batch and URI are limited', async (t) => {
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

test('sizes: lines and WebSocket messages are limited', async (t) => {
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

test('slow heads: 408 after --header-timeout despite a steady trickle of bytes', async (t) => {
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

test('slow bodies: 408 after --body-timeout despite a steady trickle of bytes', async (t) => {
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

test('slow bodies: timeout is separate from the header timeout', async (t) => {
    const server = await start(t, '--body-timeout', '1m', '--header-timeout', '1s');
    const connection = await from(t, server, '127.0.0.1');
    const { headers, body } = modernRequest('resources/list', { cursor: 'x'.repeat(300_000) });
    const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const first = `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n${fields.join('')}`;
    await connection.send(`${first}Content-Length: ${body.length}\r\n\r\n${body.slice(0, 1000)}`);
    const late = await answerTo(t, server, 'POST /mcp HTTP/1.1\r\nHost: '); // its deadline has passed, like ours if it started now
    assert.equal(late.status, 408);
    await connection.send(body.slice(1000));
    assert.equal((await connection.readResponse()).json.error.code, -32602); // invalid cursor
});

test('slow lines: error after --body-timeout despite a steady trickle of bytes', async (t) => {
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

/** The header of a masked frame that declares `size` bytes. */
function announce(first, size) {
    const head = Buffer.alloc(14);
    head[0] = first;
    head[1] = 0x80 | 127;
    head.writeBigUInt64BE(BigInt(size), 2);
    return head; // plus a mask of zeros
}

const DRIPS = {
    'bytes of a frame': [announce(FIN | OP.text, 100_000), Buffer.from(' ')],
    'empty fragments': [encodeFrame(OP.text, '{'), encodeFrame(OP.continued, '')],
    'fragments of a byte': [encodeFrame(OP.text, '{'), encodeFrame(OP.continued, ' ')],
    'pings inside a message': [encodeFrame(OP.text, '{'), encodeFrame(FIN | OP.ping, 'x'.repeat(125))],
    'bytes of a header': [Buffer.from([FIN | OP.text]), null],
    'bytes of a ping': [Buffer.from([FIN | OP.ping, 0x80 | 125, 0, 0, 0, 0]), Buffer.from('x')],
};

for (const [name, [first, more]] of Object.entries(DRIPS)) {
    test(`slow messages: trickle of ${name} closes the WebSocket after --body-timeout`, async (t) => {
        const server = await start(t, '--body-timeout', '1s', '--keepalive', '1h');
        const socket = await WebSocketRaw.open(server);
        await socket.send(first);
        const drip = setInterval(() => more && socket.send(more), 100);
        try {
            const { code, reason } = await socket.goodbye();
            assert.equal(code, 1008, reason);
            assert.match(reason, /did not arrive in time/);
        } finally {
            clearInterval(drip);
        }
        assert.equal(await reached(t, server, 'body-timeout'), 1);
        socket.close();
    });
}

test('slow messages: timeout applies to each message, and growing messages continue', async (t) => {
    const server = await start(t, '--body-timeout', '2s', '--keepalive', '1h');
    const socket = await WebSocketRaw.open(server);
    const message = (cursor) =>
        JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/list', params: { _meta: meta(), cursor } });
    const half = (text) => encodeFrame(FIN | OP.text, text);
    // Always inside a message, but never for long.
    let rest = Buffer.alloc(0);
    for (let i = 0; i < 12; i += 1) {
        const bytes = half(message(`none ${i}`));
        await socket.send(Buffer.concat([rest, bytes.subarray(0, 20)]));
        rest = bytes.subarray(20);
        await new Promise((done) => setTimeout(done, 200));
    }
    await socket.send(rest);
    await eventually(() => socket.messages.length === 12, 'an answer to each');
    // 64 KiB count as progress.
    const bytes = half(message('x'.repeat(800_000)));
    for (let at = 0; at < bytes.length; at += 70_000) {
        await socket.send(bytes.subarray(at, at + 70_000));
        await new Promise((done) => setTimeout(done, 200));
    }
    await eventually(() => socket.messages.length === 13, 'the answer to what took its time');
    assert.equal(await reached(t, server, 'body-timeout'), 0);
    socket.close();
});

test('sizes: oversized frame is rejected at its header', async (t) => {
    const server = await start(t, '--max-body', '100k');
    const cases = {
        whole: [announce(FIN | OP.text, 102_401)],
        'by far': [announce(FIN | OP.text, 2 ** 40)],
        'header without its mask': [announce(FIN | OP.text, 2 ** 40).subarray(0, 10)],
        'the rest of a message': [encodeFrame(OP.text, 'x'.repeat(100_000)), announce(OP.continued, 70_000)],
        'byte by byte': [...announce(FIN | OP.text, 102_401).subarray(0, 10)].map((byte) => Buffer.of(byte)),
    };
    for (const [name, parts] of Object.entries(cases)) {
        const socket = await WebSocketRaw.open(server);
        for (const part of parts) {
            await socket.send(part);
        }
        assert.equal((await socket.goodbye()).code, 1009, name);
        socket.close();
    }
    assert.equal(await reached(t, server, 'max-body'), Object.keys(cases).length);
    const fits = await WebSocketRaw.open(server);
    await fits.send(announce(FIN | OP.text, 102_400));
    await fits.send(Buffer.alloc(102_400, ' '));
    assert.equal((await fits.message()).error.code, -32700, 'as much as is accepted is read');
    fits.close();
});

// ---- shared input memory -------------------------------------------------------------------------

const MIB = 2 ** 20;

/** Clients that send this part of a message. Each returns a function that awaits its rejection. */
const HOLDERS = {
    'bodies': async (t, server, bytes) => {
        const connection = await from(t, server, '127.0.0.1');
        await connection.send(head(server, 'Content-Length: 1000000\r\n\r\n'));
        await connection.send('x'.repeat(bytes));
        return async () => {
            const { status, text } = await connection.readResponse();
            assert.equal(status, 503);
            assert.match(text, /--max-input/);
        };
    },
    'messages of WebSockets': async (t, server, bytes) => {
        const socket = await WebSocketRaw.open(server);
        defer(t, () => socket.close());
        await socket.send(announce(FIN | OP.text, 1_000_000));
        await socket.send('x'.repeat(bytes));
        return async () => {
            const { code, reason } = await socket.goodbye();
            assert.equal(code, 1013);
            assert.match(reason, /--max-input/);
        };
    },
    'lines': async (t, server, bytes) => {
        const port = Number(new URL(server.doors[1]).port);
        const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port });
        await peer.raw('x'.repeat(bytes));
        return async () => {
            const { error } = await peer.message(() => true, 'a refusal');
            assert.match(error.message, /--max-input/);
            await within(peer.ended, 'the end');
        };
    },
};

const budget = async (t, ...args) => {
    const all = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--self', '--workers', '1'];
    const server = await serveDoors(t, [...all, '--max-body', '1m', '--max-line', '1m', ...args], { files });
    server.port = Number(new URL(server.doors[0]).port);
    return server;
};

for (const [name, hold] of Object.entries(HOLDERS)) {
    test(`--max-input: of unfinished ${name} the server drops the one without progress for longest`, async (t) => {
        const server = await budget(t, '--max-input', '4m');
        const inUse = async () => (await limitsOf(t, server))['max-input'].inUse;
        const first = await hold(t, server, 0.9 * MIB);
        await eventually(async () => (await inUse()) > 0.9 * MIB, 'the first is held');
        for (let i = 0; i < 4; i += 1) {
            await hold(t, server, 0.9 * MIB);
        }
        await first();
        const row = (await limitsOf(t, server))['max-input'];
        assert.ok(row.inUse <= row.value, `${row.inUse} of ${row.value}`);
        assert.ok(row.reached >= 1);
        assert.ok((await call(server, 'resources/list')).resources.length > 0, 'whole requests are not concerned');
    });

    test(`--max-input: above half of the budget, stalled ${name} get one second`, async (t) => {
        const server = await budget(t, '--max-input', '4m', '--body-timeout', '1h');
        const told = [];
        for (let i = 0; i < 3; i += 1) {
            told.push(await hold(t, server, 0.9 * MIB));
        }
        await told[0]();
        await eventually(async () => (await limitsOf(t, server))['max-input'].inUse <= 2 * MIB, 'there is room');
    });
}

test('--max-input: no bytes stay booked after any outcome', async (t) => {
    const server = await budget(t, '--max-input', '64m');
    const inUse = async () => (await limitsOf(t, server))['max-input'].inUse;
    const text = 'x'.repeat(0.9 * MIB);
    const large = { method: 'resources/list', params: { cursor: text } };
    assert.equal((await modern(server, large.method, large.params)).json.error.code, -32602);
    const socket = await WebSocketRaw.open(server);
    await socket.write({ jsonrpc: '2.0', id: 1, method: large.method, params: { _meta: meta(), ...large.params } });
    await socket.message((m) => m.error, 'a refusal');
    const lines = await SocketPeer.connect(t, { host: '127.0.0.1', port: Number(new URL(server.doors[1]).port) });
    await lines.raw(`${text}\n`);
    await lines.message((m) => m.error, 'a refusal');
    await eventually(async () => (await inUse()) < 10_000, 'whole messages are not held');
    await socket.send(announce(FIN | OP.text, 1_000_000));
    await socket.send(text);
    await eventually(async () => (await inUse()) > 0.9 * MIB, 'half a message is held');
    socket.close();
    const body = await from(t, server, '127.0.0.1');
    await body.send(head(server, 'Content-Length: 1000000\r\n\r\n'));
    await body.send(text);
    body.reset();
    await eventually(async () => (await inUse()) === 0, 'nothing is held');
});

test('--max-input: configuration requires room for one message', async (t) => {
    const { code, stderr } = await run(t, ['serve', '--max-input', '6m', new Tree(t).path]);
    assert.notEqual(code, 0);
    assert.match(stderr, /--max-input: .*--max-body/);
});

test('slow readers: connection is cut after --stall-timeout', async (t) => {
    const large = 'x'.repeat(4_000_000);
    const args = ['--self', '--stall-timeout', '1s'];
    const server = await serve(t, { files: { 'a.txt': large }, args });
    const connection = await from(t, server, '127.0.0.1');
    connection.socket.pause();
    const target = `GET /resource?uri=${encodeURIComponent(server.uri('a.txt'))} HTTP/1.1\r\n`;
    await connection.send(`${target}Host: 127.0.0.1:${server.port}\r\n\r\n`.repeat(4));
    await eventually(async () => (await reached(t, server, 'stall-timeout')) === 1, 'it is cut');
});

/** The spellings of a default on the page: a number with commas, a size or a time. */
function spellings(value) {
    const units = [[1, ''], [1024, ' KiB'], [1024 ** 2, ' MiB'], [1000, ' s'], [60_000, ' min'], [3_600_000, ' h']];
    return units
        .filter(([unit]) => value % unit === 0)
        .map(([unit, name]) => (value / unit).toLocaleString('en') + name);
}

test('limits pages have a row with the default, and a test, for each limit', async (t) => {
    const { readFileSync } = await import('node:fs');
    const rows = (name) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8').split('\n');
    const reference = rows('reference/limits.md'), design = rows('design/internal-limits.md');
    const server = await start(t);
    const limits = await limitsOf(t, server);
    for (const [name, { value }] of Object.entries(limits)) {
        const row = reference.find((line) => line.startsWith(`| \`${name}\``));
        assert.ok(row, `${name} has no row`);
        const shown = row.split('|')[2];
        const numbers = shown.match(/[\d,]*\d( (KiB|MiB|s|min|h)\b)?/g) ?? [];
        const isFixed = value !== 0 && name !== 'max-connections';
        assert.ok(!isFixed || spellings(value).some((text) => numbers.includes(text)), `${name}: ${value} is not in '${shown}'`);
        const tested = design.find((line) => line.startsWith(`| \`${name}\``)) ?? '';
        assert.match(tested, /`([a-z-]+\.test\.mjs|unit\/[a-z_/]+\.c)`/, `${name} names no test`);
    }
});
