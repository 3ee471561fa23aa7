// SPDX-License-Identifier: MIT
//
// Autobahn's cases over real sockets: as its fuzzing client against our server, and as its fuzzing server against our
// client. (tests/unit/wire/test_ws_autobahn.c reads all of them, both ways; here are those that are not about speed.)

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import net from 'node:net';
import { test } from 'node:test';

import { cases } from './lib/autobahn.mjs';
import { defer } from './lib/cleanup.mjs';
import { run, serve } from './lib/server.mjs';
import { meta } from './lib/rpc.mjs';
import { within } from './lib/wait.mjs';
import { encodeFrame, FIN, OP, WebSocketRaw } from './lib/websocket.mjs';

const chosen = cases.filter(({ number }) => !number.startsWith('9.'));

/** What came of it, as our server shows it: an answer to what is no JSON, a pong, a close frame. */
async function atServer(server, { number, outcome, writes }) {
    const ws = await WebSocketRaw.open(server);
    for (const piece of writes(true)) {
        await ws.send(piece).catch(() => {}); // it may have closed by now
    }
    for (const what of outcome) {
        const frame = what[0] === 'T' ? OP.text : what[0] === 'P' ? OP.pong : OP.close;
        if (what === 'O') {
            continue; // nothing is said to a pong
        }
        const came = await ws.frame(frame, `${what} of ${number}`);
        if (frame === OP.close) {
            assert.equal(`${came.code}`, what.slice(1), `${number}: closed with ${came.code}`);
        }
    }
    if (!/[CF]/.test(outcome.at(-1))) {
        await ws.write({ jsonrpc: '2.0', id: number, method: 'server/discover', params: { _meta: meta() } });
        await ws.message((m) => m.id === number && m.result, `an answer after ${number}`);
    }
    ws.close();
}

test(`our server: ${chosen.length} of Autobahn's ${cases.length} cases`, async (t) => {
    assert.equal(cases.length, 301);
    const server = await serve(t, { files: { 'a.txt': 'a' } });
    for (let at = 0; at < chosen.length; at += 16) {
        await Promise.all(chosen.slice(at, at + 16).map((one) => atServer(server, one)));
    }
    t.diagnostic(`${chosen.length} cases`);
});

/** A WebSocket server that sends the case when it is asked something; how our client took it. */
async function atClient(t, { number, outcome, writes }) {
    const seen = [];
    let asked = 0;
    let done;
    const over = new Promise((resolve) => {
        done = resolve;
    });
    const server = net.createServer((socket) => {
        let bytes = Buffer.alloc(0);
        let upgraded = false;
        socket.setNoDelay(true);
        socket.on('error', () => {});
        socket.on('data', async (more) => {
            bytes = Buffer.concat([bytes, more]);
            if (!upgraded && bytes.includes('\r\n\r\n')) {
                const key = /Sec-WebSocket-Key: (.*)\r\n/.exec(bytes.toString())[1];
                const proof = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
                socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                    + `Sec-WebSocket-Accept: ${proof}\r\nSec-WebSocket-Protocol: mcp\r\n\r\n`);
                bytes = bytes.subarray(bytes.indexOf('\r\n\r\n') + 4);
                upgraded = true;
            }
            for (let frame; upgraded && (frame = take(bytes)); bytes = bytes.subarray(frame.size)) {
                if (frame.opcode === OP.text) {
                    const { id, method } = JSON.parse(frame.payload);
                    const answer = (result) => socket.write(
                        encodeFrame(FIN | OP.text, JSON.stringify({ jsonrpc: '2.0', id, result }), { masked: false }));
                    if (method === 'server/discover') {
                        answer({ resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: { resources: {} } });
                    } else if (method === 'resources/read' && (asked += 1) === 1) {
                        writes(false).forEach((piece) => socket.write(piece));
                        if (!/[CF]/.test(outcome.at(-1))) {
                            answer({ resultType: 'complete', contents: [{ uri: 'x://y', text: 'read' }] });
                        }
                    }
                } else if (frame.opcode === OP.pong) {
                    seen.push('P');
                } else if (frame.opcode === OP.close) {
                    seen.push(frame.payload.length < 2 ? 1005 : frame.payload.readUInt16BE());
                    done();
                }
            }
        });
    });
    await new Promise((resolve) => {
        server.listen(0, '127.0.0.1', resolve);
    });
    defer(t, () => server.close());
    const end = await run(t, ['read', `ws://127.0.0.1:${server.address().port}/`, 'x://y']);
    await within(over, `a close frame of our client after ${number}`);
    const pings = outcome.filter((what) => what === 'P').length;
    assert.equal(seen.filter((what) => what === 'P').length, pings, number);
    const last = outcome.at(-1);
    assert.equal(seen.find((what) => what !== 'P'), /[CF]/.test(last) ? Number(last.slice(1)) : 1000, number);
    assert.equal(end.code === 0, !/[CF]/.test(last), `${number}: ${end.stderr}`);
}

/** The first frame in these bytes, unmasked; undefined: it is not complete. */
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

/** One of each kind, and all that are to fail fast: each takes a program of its own. */
const FOR_CLIENT = ['1.1.8', '1.2.1', '2.2', '2.5', '2.10', '3.1', '4.1.1', '5.1', '5.8', '5.18', '6.2.3', '6.3.1',
    '6.4.1', '6.4.2', '6.4.3', '6.4.4', '7.3.2', '7.5.1', '7.7.1', '7.7.4', '7.9.1', '10.1.1'];

test(`our client: ${FOR_CLIENT.length} of Autobahn's cases`, async (t) => {
    for (const number of FOR_CLIENT) {
        await atClient(t, cases.find((one) => one.number === number));
    }
    t.diagnostic(`${FOR_CLIENT.length} cases`);
});
