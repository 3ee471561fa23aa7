// SPDX-License-Identifier: MIT
//
// Answer memory is booked for its principal: before the read of a file, at the arrival of provider content, and for
// unread short answers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Faults, skip as withoutFaults } from './lib/faults.mjs';
import { encodeRequest } from './lib/http.mjs';
import { limitsOf, modernRequest, refused } from './lib/limits.mjs';
import { call, meta } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { COUNT, http, httpAnswer, MARGIN, MIB, peak, read, Slow, start, unbooked, WAYS } from './lib/slow.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';
import { upgradeRequest } from './lib/websocket.mjs';

const booked = async (t, server) => (await limitsOf(t, server))['max-output'].inUse;

test('output: range of a file is booked before the read', { skip: withoutFaults }, async (t) => {
    const faults = new Faults(t);
    const args = ['--max-read', '2m', '--max-output', '3m'];
    const server = await start(t, { size: 6 * MIB, args, env: faults.env });
    const message = read(server, 1);
    message.params._meta = meta({ 'dev.tidings/range': { unit: 'bytes', from: 1000, to: 1000 + 2 * MIB } });
    faults.stall(server.tree.at('long.txt'));
    const first = await http.open(t, server);
    first.write(http.encode(message, server));
    await eventually(() => faults.stalled === 1, 'the file is being read');
    assert.ok((await booked(t, server)) >= 2 * MIB, 'and booked');
    const second = await http.open(t, server);
    second.write(http.encode(message, server));
    const { status, bytes } = await httpAnswer(second);
    assert.equal(status, 503);
    refused(JSON.parse(bytes).error, 'max-output', 3 * MIB);
    assert.equal(faults.stalled, 1, 'nothing was read for it');
    faults.release();
    assert.equal((await http.take(first)).result.contents[0].text.length, 2 * MIB);
    await unbooked(t, server);
});

/** A server with tokens of ada and bob: { server, ada, bob }, with the server as seen by each. */
async function withTokens(t, options) {
    const tokens = new TokenFile(t);
    const [ada, bob] = ['ada', 'bob'].map((name) => tokens.give(name));
    const server = await serve(t, { ...options, args: ['--self', '--workers', '1', ...tokens.args, ...options.args] });
    return { server, ada: as(server, ada), bob: as(server, bob) };
}

const encode = (who, message) => {
    const request = modernRequest(message.method, message.params, message.id);
    return encodeRequest(who.port, { ...request, headers: { ...request.headers, ...who.headers } });
};

const inUse = async (who) => {
    const { contents } = await call(who, 'resources/read', { uri: 'tidings://self/limits' });
    return JSON.parse(contents[0].text).find(({ limit }) => limit === 'max-output').inUse;
};

test('output: unread short answers count for the principal', async (t) => {
    const most = 16 * MIB;
    const size = 100_000;
    const files = { 'short.txt': 'x'.repeat(size) };
    const { server, ada, bob } = await withTokens(t, { files, args: ['--max-output', '16m'] });
    const held = [];
    for (let i = 0; i < 40; i++) {
        const slow = await Slow.open(t, server.port);
        const all = Array.from({ length: 200 }, (_, id) => encode(ada, read(server, id, 'short.txt')));
        slow.write(Buffer.concat(all));
        slow.back(await slow.bytes(100, 'the beginning of an answer'));
        held.push(slow);
    }
    /* One worker: after this number of turns its work for ada is complete. */
    for (let i = 0; i < COUNT; i++) {
        assert.equal((await call(bob, 'resources/read', { uri: server.uri('short.txt') })).contents[0].text.length, size);
    }
    const used = await inUse(bob);
    assert.ok(used > most / 8, `${used} bytes`);
    assert.ok(used < most / 4 + held.length * (size + 65536), `${used} bytes`);
    held.forEach((slow) => slow.socket.destroy());
    await eventually(async () => (await inUse(bob)) === 0, 'nothing stays booked');
});

/** Content of an asynchronous provider, with a size unknown in advance. */
const CONTENT = MIB;

async function withCommand(t) {
    const argv = ['sh', '-c', `head -c ${CONTENT} /dev/zero | tr '\\0' x`];
    const tree = new Tree(t);
    const mount = { type: 'command', uri: 'cmd:///long', argv, cwd: tree.path, maxOutput: '2m', interval: 0 };
    tree.write('tidings.json', JSON.stringify({ mounts: [mount] }));
    return withTokens(t, { tree, mounts: [], args: ['--max-output', '32m', '--config', tree.at('tidings.json')] });
}

const SHARE = 8 * MIB;
const long = (id) => ({ jsonrpc: '2.0', id, method: 'resources/read', params: { _meta: meta(), uri: 'cmd:///long' } });

function assertShared(error) {
    refused(error, 'max-output', 4 * SHARE);
    assert.equal(error.data.share, SHARE);
}

test('output: concurrent provider content stays within the share of its principal', async (t) => {
    const { server, ada, bob } = await withCommand(t);
    const before = peak(server);
    const slow = await Promise.all(Array.from({ length: COUNT }, async (_, id) => {
        const one = await Slow.open(t, server.port);
        one.write(encode(ada, long(id)));
        const head = (await one.until('\r\n\r\n', 'a head')).toString();
        one.status = Number(head.split(' ')[1]);
        one.length = Number(/content-length: (\d+)/i.exec(head)[1]);
        return one;
    }));
    assert.ok((await inUse(bob)) <= SHARE);
    const answered = slow.filter(({ status }) => status === 200);
    const others = slow.filter(({ status }) => status !== 200);
    assert.ok(answered.length >= SHARE / CONTENT - 1, `${answered.length} are answered`);
    for (const { status } of others) {
        assert.equal(status, 429);
    }
    for (const one of others) {
        assertShared(JSON.parse(await one.bytes(one.length, 'a refusal')).error);
    }
    const grown = peak(server) - before;
    assert.ok(grown < SHARE + MARGIN, `${(grown / MIB).toFixed(1)} MiB`);
    slow.forEach((one) => one.socket.destroy());
    await eventually(async () => (await inUse(bob)) === 0, 'nothing stays booked');
});

test('output: concurrent provider content on one WebSocket stays within the share', async (t) => {
    const { server, ada, bob } = await withCommand(t);
    const { encode: frame, take } = WAYS['a WebSocket'];
    const before = peak(server);
    const slow = await Slow.open(t, server.port);
    slow.write(upgradeRequest(server.port, { 'Sec-WebSocket-Protocol': 'mcp', ...ada.headers }));
    await slow.until('\r\n\r\n', 'the upgrade');
    slow.write(Buffer.concat(Array.from({ length: COUNT }, (_, id) => frame(long(id)))));
    slow.back(await slow.bytes(1000, 'the beginning of an answer'));
    assert.ok((await inUse(bob)) <= SHARE);
    const ids = new Set();
    let answered = 0;
    for (let i = 0; i < COUNT; i++) {
        const { id, result, error } = await take(slow);
        ids.add(id);
        if (result) {
            assert.equal(result.contents[0].text.length, CONTENT);
            answered++;
        } else {
            assertShared(error);
        }
        assert.ok(i % 8 > 0 || (await inUse(bob)) <= SHARE + MIB, `after ${i + 1} answers`);
    }
    assert.equal(ids.size, COUNT, 'each is answered once');
    assert.ok(answered >= SHARE / CONTENT - 1, `${answered} are answered`);
    const grown = peak(server) - before;
    assert.ok(grown < SHARE + MARGIN, `${(grown / MIB).toFixed(1)} MiB`);
    slow.socket.destroy();
    await eventually(async () => (await inUse(bob)) === 0, 'nothing stays booked');
});
