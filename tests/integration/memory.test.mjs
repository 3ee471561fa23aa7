// SPDX-License-Identifier: MIT
//
// Memory of large messages is returned to the system, even if their sender stays connected.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { defer } from './lib/cleanup.mjs';
import { from } from './lib/limits.mjs';
import { meta, modernHeaders } from './lib/rpc.mjs';
import { eventually, slow } from './lib/wait.mjs';
import { encodeFrame, FIN, OP, WebSocketRaw } from './lib/websocket.mjs';

const MIB = 2 ** 20;
/** Permitted growth: libc caches and first-touched pages. Each message used up to 115 MiB. */
const MARGIN = slow === 1 ? 24 * MIB : 512 * MIB; // sanitizers retain freed memory

const resident = (server) =>
    1024 * Number(/Rss:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/smaps_rollup`, 'utf8'))[1]);

/** A message of nearly 4 MiB: one string, or a tree of many small values. */
const fillers = {
    'a long text': JSON.stringify('x'.repeat(3.9 * MIB)),
    'many small values': `[${'{"a":1,"b":[1,2,3]},'.repeat((3.9 * MIB) / 20)}0]`,
};
const message = (filler) =>
    `{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"_meta":${JSON.stringify(meta())},"filler":${filler}}}`;

/** Transports for one message, each on a connection that stays open. */
const WAYS = {
    'over HTTP': async (t, server, text) => {
        const connection = await from(t, server, '127.0.0.1');
        const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
        const headers = { ...json, ...modernHeaders('resources/list', {}) };
        const { status } = await connection.request({ method: 'POST', headers, body: text });
        assert.equal(status, 200);
    },
    'on a WebSocket': async (t, server, text) => {
        const socket = await WebSocketRaw.open(server);
        defer(t, () => socket.close());
        await socket.send(encodeFrame(FIN | OP.text, text));
        assert.ok((await socket.message()).result);
    },
    'in lines': async (t, server, text) => {
        const port = Number(new URL(server.doors[1]).port);
        const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port });
        await peer.write(text);
        assert.ok((await peer.message(() => true, 'an answer')).result);
    },
};

for (const [way, send] of Object.entries(WAYS)) {
    test(`memory of 4 MiB messages ${way} is freed`, async (t) => {
        const args = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--workers', '2'];
        const server = await serveDoors(t, args, { files: { 'a.txt': 'a' } });
        server.port = Number(new URL(server.doors[0]).port);
        await send(t, server, message('""'));
        const before = resident(server);
        for (const [what, filler] of Object.entries(fillers)) {
            for (let i = 0; i < 4; i += 1) {
                await send(t, server, message(filler));
            }
            await eventually(() => resident(server) < before + MARGIN, `${what}: no more than ${before + MARGIN} bytes`);
        }
    });
}
