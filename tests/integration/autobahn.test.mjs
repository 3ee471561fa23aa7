// SPDX-License-Identifier: MIT
//
// Autobahn's cases over real sockets: its fuzzing client against the tidings server, and its fuzzing server against the
// tidings client. (tests/unit/formats/test_ws_autobahn.c reads all cases, both ways; this file runs those without
// performance cases.) Each sender is untrusted and must not affect other clients, so all cases share one server.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import net from 'node:net';
import { test } from 'node:test';

import { cases, offers } from './lib/autobahn.mjs';
import { defer } from './lib/cleanup.mjs';
import { run, serve } from './lib/server.mjs';
import { meta } from './lib/rpc.mjs';
import { within } from './lib/wait.mjs';
import { closeFrame, encodeFrame, FIN, OP, WebSocketRaw } from './lib/websocket.mjs';

const CASES = 301;
const chosen = cases.filter(({ number }) => !number.startsWith('9.'));
const ends = (outcome) => /[CF]/.test(outcome.at(-1));

/** Runs `one` for each of `all`, eight at a time; after a failure it starts no more. */
async function each(all, one) {
    const rest = [...all];
    const ends = await Promise.allSettled(Array.from({ length: 8 }, async () => {
        while (rest.length > 0) {
            await one(rest.shift()).catch((error) => {
                rest.length = 0;
                throw error;
            });
        }
    }));
    assert.ifError(ends.find(({ status }) => status === 'rejected')?.reason);
}

/** Closes and receives the answer. */
async function leave(ws, number) {
    await ws.send(closeFrame(1000));
    assert.equal((await ws.goodbye(`a goodbye after ${number}`)).code, 1000, number);
}

/** The result that the server shows: an answer to non-JSON, a pong, a close frame. */
async function atServer(server, { number, outcome, pongs, parts }) {
    const ws = await WebSocketRaw.open(server);
    for (const part of parts(true)) {
        for (const piece of part.writes) {
            await ws.send(piece).catch(() => {}); // may be closed already
        }
        for (const what of part.outcome.filter((it) => it !== 'O')) { // a pong gets no answer
            const frame = what === 'T' ? OP.text : what === 'P' ? OP.pong : OP.close;
            const came = await ws.frame(frame, `${what} of ${number}`);
            if (frame === OP.close) {
                assert.equal(`${came.code}`, what.slice(1), `${number}: closed with ${came.code}`);
            }
        }
    }
    if (!ends(outcome)) {
        await ws.write({ jsonrpc: '2.0', id: number, method: 'server/discover', params: { _meta: meta() } });
        await ws.message((m) => m.id === number && m.result, `an answer after ${number}`);
        await leave(ws, number);
    }
    await within(ws.over, `the end of the connection after ${number}`);
    const heard = ws.frames.seen.filter(({ opcode }) => opcode === OP.pong).map(({ payload }) => payload);
    assert.deepEqual(heard, pongs, `pongs of ${number}`);
}

test(`server: ${chosen.length} of Autobahn's ${CASES} cases`, async (t) => {
    assert.equal(cases.length, CASES);
    assert.equal(chosen.length, 247);
    const server = await serve(t, { files: { 'a.txt': 'a' } });
    await each(chosen, (one) => atServer(server, one));
    t.diagnostic(`${chosen.length} cases`);
});

test('server: the 216 compression offers of Autobahn are declined, as it permits', async (t) => {
    const server = await serve(t, { files: { 'a.txt': 'a' } });
    for (const offer of offers) {
        const ws = await WebSocketRaw.open(server, { headers: { 'Sec-WebSocket-Extensions': offer } });
        assert.equal(ws.head.headers.has('sec-websocket-extensions'), false, offer);
        await leave(ws, offer);
    }
    t.diagnostic(`${offers.length} offers`);
});

/** A WebSocket server that answers discovery and passes each other frame to `onFrame` with a write function; `onEnd`: a
 * connection is closed. */
async function fuzzingServer(t, onFrame, onEnd) {
    const sockets = [];
    const server = net.createServer((socket) => {
        sockets.push(socket);
        let bytes = Buffer.alloc(0);
        let upgraded = false;
        const write = (piece) => socket.write(piece);
        socket.setNoDelay(true);
        socket.on('error', () => {});
        socket.on('close', () => onEnd());
        socket.on('data', (more) => {
            bytes = Buffer.concat([bytes, more]);
            if (!upgraded && bytes.includes('\r\n\r\n')) {
                const key = /Sec-WebSocket-Key: (.*)\r\n/.exec(bytes.toString())[1];
                const proof = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
                write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                    + `Sec-WebSocket-Accept: ${proof}\r\nSec-WebSocket-Protocol: mcp\r\n\r\n`);
                bytes = bytes.subarray(bytes.indexOf('\r\n\r\n') + 4);
                upgraded = true;
            }
            for (let frame; upgraded && (frame = take(bytes)); bytes = bytes.subarray(frame.size)) {
                onFrame(frame, write);
            }
        });
    });
    await new Promise((resolve) => {
        server.listen(0, '127.0.0.1', resolve);
    });
    defer(t, () => {
        server.close();
        sockets.forEach((socket) => socket.destroy());
    });
    return `ws://127.0.0.1:${server.address().port}/`;
}

const answerOf = (id, result) =>
    encodeFrame(FIN | OP.text, JSON.stringify({ jsonrpc: '2.0', id, result }), { masked: false });

/* The client does not wait for an answer to its close frame. A server that writes at that moment may have its
 * connection reset before it reads the frame; the test then repeats the case. */
const TRIES = 5;

/** Sends the case after a resource request, then the resource; returns how the client handled the case. */
async function atClient(t, one, tries = TRIES) {
    const { number, outcome, pongs, parts } = one;
    const heard = [];
    const rest = parts(false);
    let due = 0; // pongs until it continues
    let asked; // the id of that request
    let isOver = false;
    let done;
    const over = new Promise((resolve) => {
        done = resolve;
    });
    /* One write at a time. The loop reads messages before each write, because a write to a closed connection would lose
     * them. */
    const goOn = async (write) => {
        while (heard.length === due && rest.length > 0) {
            const part = rest.shift();
            due += part.outcome.filter((what) => what === 'P').length;
            if (rest.length === 0 && !ends(outcome)) {
                part.writes.push(answerOf(asked, { resultType: 'complete', contents: [{ uri: 'x://y', text: 'read' }] }));
            }
            for (const piece of part.writes) {
                if (!isOver) {
                    write(piece);
                }
                await new Promise((resolve) => {
                    setImmediate(resolve);
                });
            }
        }
    };
    const url = await fuzzingServer(t, ({ opcode, payload }, write) => {
        const { id, method } = opcode === OP.text ? JSON.parse(payload) : {};
        if (method === 'server/discover') {
            write(answerOf(id, { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: { resources: {} } }));
        } else if (method === 'resources/read' && asked === undefined) {
            asked = id;
            goOn(write);
        } else if (opcode === OP.pong) {
            heard.push(payload);
            goOn(write);
        } else if (opcode === OP.close) {
            isOver = true;
            done(payload.length < 2 ? 1005 : payload.readUInt16BE());
        }
    }, () => done('reset'));
    const end = await run(t, ['read', url, 'x://y']);
    const code = await within(over, `a close frame of our client after ${number}`);
    if (code === 'reset' && tries > 1) {
        return atClient(t, one, tries - 1);
    }
    assert.deepEqual(heard, pongs, `pongs of ${number}`);
    assert.equal(code, ends(outcome) ? Number(outcome.at(-1).slice(1)) : 1000, number);
    assert.equal(end.code === 0, !ends(outcome), `${number}: ${end.stderr}`);
}

/** The first frame in these bytes, unmasked; undefined if incomplete. */
function take(bytes) {
    const small = bytes[1] & 0x7f;
    const extra = small === 126 ? 2 : small === 127 ? 8 : 0;
    if (bytes.length < 2 + extra) {
        return undefined;
    }
    const length = extra === 0 ? small : extra === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
    const at = 2 + extra + 4;
    if (bytes.length < at + length) {
        return undefined;
    }
    const mask = bytes.subarray(at - 4, at);
    const payload = Buffer.from(bytes.subarray(at, at + length)).map((byte, i) => byte ^ mask[i % 4]);
    return { opcode: bytes[0] & 15, payload, size: at + length };
}

/** Each case runs its own program; of the 132 cases that differ only in one string, the first of each kind. */
const forClient = chosen.filter(({ number }) => !/^6\.([5-9]|\d\d)\.([2-9]|\d\d)$/.test(number));

test(`client: ${forClient.length} of Autobahn's ${CASES} cases`, async (t) => {
    assert.equal(forClient.length, 134);
    await each(forClient, (one) => atClient(t, one));
    t.diagnostic(`${forClient.length} cases`);
});
