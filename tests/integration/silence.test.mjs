// SPDX-License-Identifier: MIT
//
// A silent client: its machine lost power or its cable, so the server receives nothing more, not even the end of the
// connection. The server and the client share a private network (a namespace), which the test cuts. Without
// permission for namespaces the test is skipped.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

import { encodeRequest } from './lib/http.mjs';
import { meta, modernHeaders } from './lib/rpc.mjs';
import { BIN, Program } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

/** The command for a namespace: as root, or with a user namespace; null if neither works. */
const UNSHARE = [['-n'], ['-r', '-n']].find(
    (flags) => spawnSync('unshare', [...flags, 'sh', '-c', 'ip link set lo up']).status === 0,
);
const ENTER = UNSHARE?.includes('-r') ? ['-U', '-n', '--preserve-credentials'] : ['-n'];

/** A client in a few lines: it sends its input and prints its output. */
const CLIENT = `
    const socket = require('node:net').connect(Number(process.argv[1]), '127.0.0.1');
    socket.on('error', (error) => console.log('error ' + error.code));
    socket.on('close', () => console.log('closed'));
    socket.on('data', (text) => console.log(String(text)));
    socket.write(Buffer.from(process.argv[2], 'base64'));
`;

function listenRequest(port, uri) {
    const method = 'subscriptions/listen';
    const params = { _meta: meta(), notifications: { resourceSubscriptions: [uri] } };
    return encodeRequest(port, {
        headers: {
            'Content-Type': 'application/json',
            Accept: 'application/json, text/event-stream',
            ...modernHeaders(method),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
}

const skip = UNSHARE ? false : 'no network namespace may be made here';

test('silent client is cut', { skip }, async (t) => {
    const tree = new Tree(t, { 'a.txt': '1' });
    const serve = `ip link set lo up && exec "$@"`;
    const args = ['--http', '127.0.0.1:0', '--keepalive', '1s', '--stall-timeout', '2s', '--log-level', 'debug'];
    const server = new Program(t, '/usr/bin/unshare', [
        ...UNSHARE, 'sh', '-c', serve, 'sh', BIN, 'serve', ...args, tree.path,
    ]);
    const line = await server.lines.next((text) => text.includes('/mcp'), 'the line with the URL');
    const port = Number(/:(\d+)\/mcp/.exec(line)[1]);
    const inside = ['-t', String(server.child.pid), ...ENTER];

    const request = listenRequest(port, tree.uri('a.txt')).toString('base64');
    const client = new Program(t, '/usr/bin/nsenter', [
        ...inside, process.execPath, '-e', CLIENT, '--', String(port), request,
    ], { mayFail: true });
    const heard = client.output();
    await heard.next((text) => text.includes('subscriptions/acknowledged'), 'the acknowledgement');

    const cut = spawnSync('nsenter', [...inside, 'ip', 'link', 'set', 'lo', 'down']);
    assert.equal(cut.status, 0, String(cut.stderr));
    const end = await server.lines.next((text) => text.includes('connection closed'), 'the cut');
    assert.doesNotMatch(end, /does not read/, 'it is the network that is silent, not the reader');
    assert.ok(client.running, 'the client knows nothing of it');
});
