// SPDX-License-Identifier: MIT
//
// A flood from one client does not delay another client. The tests check counters and order, not time. The server is
// stopped while both clients send, so all requests are queued when it resumes.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { Connection, encodeRequest } from './lib/http.mjs';
import { modernRequest } from './lib/limits.mjs';
import { meta, modern, totals } from './lib/rpc.mjs';
import { FIN, encodeFrame, OP, WebSocketRaw } from './lib/websocket.mjs';

const FLOOD = 3000;
const QUANTUM = 16;

const discover = (id) => ({
    jsonrpc: '2.0',
    id,
    method: 'server/discover',
    params: { _meta: meta() },
});
const ids = Array.from({ length: FLOOD }, (_, i) => i + 1);

/** Clients that send all requests at once and await all answers. */
const kinds = {
    http: async (t, server) => {
        const connection = await Connection.open(server);
        const bytes = ids.map((id) => encodeRequest(server.port, modernRequest('server/discover', {}, id)));
        return {
            send: () => connection.send(Buffer.concat(bytes)),
            answers: async () => {
                const got = [];
                for (let i = 0; i < FLOOD; i++) {
                    got.push((await connection.readResponse()).json.id);
                }
                connection.close();
                return got;
            },
        };
    },
    lines: async (t, server) => {
        const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port: server.linePort });
        return {
            send: () => peer.writeAll(ids.map((id) => JSON.stringify(discover(id)))),
            answers: async () => {
                await peer.message((m) => m.id === FLOOD, 'the last answer');
                return peer.inbox.seen.map((m) => m.id);
            },
        };
    },
    websocket: async (t, server) => {
        const socket = await WebSocketRaw.open(server);
        const frames = ids.map((id) => encodeFrame(FIN | OP.text, JSON.stringify(discover(id))));
        return {
            send: () => socket.send(Buffer.concat(frames)),
            answers: async () => {
                await socket.message((m) => m.id === FLOOD, 'the last answer');
                const got = socket.messages.map((m) => m.id);
                socket.connection.close();
                return got;
            },
        };
    },
};

for (const [kind, open] of Object.entries(kinds)) {
    test(`${kind}: quiet client is answered during a flood, and the flood in order`, async (t) => {
        const args = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--self', '--workers', '1'];
        const server = await serveDoors(t, args, { files: { 'a.txt': 'a' } });
        server.port = Number(new URL(server.doors[0]).port);
        server.linePort = Number(new URL(server.doors[1]).port);
        const flood = await open(t, server);
        const quiet = await Connection.open(server);
        await quiet.request(modernRequest('server/discover'));
        const before = await totals(server);
        server.child.kill('SIGSTOP');
        const sent = flood.send(); // the kernel buffers enough for several turns
        const uri = 'tidings://self/stats';
        await quiet.send(encodeRequest(server.port, modernRequest('resources/read', { uri })));
        server.child.kill('SIGCONT');
        const { json } = await quiet.readResponse();
        const [then] = JSON.parse(json.result.contents[0].text);
        assert.ok(
            then.requests - before.requests < 32 * QUANTUM,
            `${then.requests - before.requests} requests were handled before it was answered`,
        );
        await sent;
        assert.deepEqual(await flood.answers(), ids);
        const after = await totals(server);
        assert.equal(after.mostPerTurn, QUANTUM);
        assert.ok(after.pauses > before.pauses, `${after.pauses} pauses`);
        quiet.close();
        assert.equal((await modern(server, 'server/discover')).status, 200);
    });
}
