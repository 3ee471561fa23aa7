// SPDX-License-Identifier: MIT
//
// Valid and invalid WebSocket frames, byte by byte: joined fragments, protocol errors and their close codes. After
// every end the server continues for other clients.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { meta, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { within } from './lib/wait.mjs';
import { closeFrame, encodeFrame, FIN, OP, WebSocketRaw } from './lib/websocket.mjs';

const MAX = 65536;
const discover = (id) =>
    JSON.stringify({ jsonrpc: '2.0', id, method: 'server/discover', params: { _meta: meta() } });
const text = (id) => encodeFrame(FIN | OP.text, discover(id));
const answers = (id) => (m) => m.id === id && m.result;

/** One server for all tests: it must survive every input. */
let server;
const ends = [];
before(async () => {
    const context = { after: (fn) => ends.push(fn), diagnostic: console.error };
    server = await serve(context, { files: { 'a.txt': 'a' }, args: ['--max-body', String(MAX)] });
});
after(async () => {
    for (const end of ends.reverse()) {
        await end();
    }
});

/** Connection-ending input: the bytes, the code, words of the reason. */
const WRONG = [
    ['a binary frame', encodeFrame(FIN | OP.binary, 'x'), 1003, /text/],
    ['the first piece of a binary message', encodeFrame(OP.binary, 'x'), 1003, /text/],
    ['text that is not UTF-8', encodeFrame(FIN | OP.text, Buffer.from([0xff])), 1007, /UTF-8/],
    ['a lone surrogate', encodeFrame(FIN | OP.text, Buffer.from([0xed, 0xa0, 0x80])), 1007, /UTF-8/],
    ['text that ends inside a character', encodeFrame(FIN | OP.text, Buffer.from([0xc3])), 1007, /UTF-8/],
    ['a message that is too big', encodeFrame(FIN | OP.text, 'x'.repeat(MAX + 1)), 1009, /larger/],
    [
        'pieces that are too big together',
        Buffer.concat([encodeFrame(OP.text, 'x'.repeat(MAX)), encodeFrame(FIN, 'x')]),
        1009,
        /larger/,
    ],
    [
        'an enormous length',
        Buffer.from([0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5]),
        1009,
        /larger/,
    ],
    [
        'a negative length',
        Buffer.from([0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 5]),
        1002,
        /header/,
    ],
    ['a frame without a mask', encodeFrame(FIN | OP.text, '{}', { masked: false }), 1002, /masked/],
    ['a length longer than needed (16)', encodeFrame(FIN | OP.text, '{}', { form: 16 }), 1002, /header/],
    ['a length longer than needed (64)', encodeFrame(FIN | OP.text, '{}', { form: 64 }), 1002, /header/],
    ['the first reserved bit', encodeFrame(FIN | 0x40 | OP.text, '{}'), 1002, /reserved/],
    ['the second reserved bit', encodeFrame(FIN | 0x20 | OP.text, '{}'), 1002, /reserved/],
    ['the third reserved bit', encodeFrame(FIN | 0x10 | OP.ping, ''), 1002, /reserved/],
    ['an unknown kind of data', encodeFrame(FIN | 3, ''), 1002, /kind/],
    ['an unknown kind of control', encodeFrame(FIN | 11, ''), 1002, /kind/],
    ['a continuation of nothing', encodeFrame(FIN | OP.continued, 'x'), 1002, /continued/],
    [
        'a message inside another',
        Buffer.concat([encodeFrame(OP.text, '{'), encodeFrame(FIN | OP.text, '{}')]),
        1002,
        /not finished/,
    ],
    ['a ping in pieces', encodeFrame(OP.ping, 'x'), 1002, /header/],
    ['a long ping', encodeFrame(FIN | OP.ping, 'x'.repeat(126)), 1002, /header/],
    ['a goodbye of one byte', encodeFrame(FIN | OP.close, 'x'), 1002, /code/],
    ['a code that is not to be sent', closeFrame(1005), 1002, /code/],
    ['a code that does not exist', closeFrame(999), 1002, /code/],
    [
        'a reason that is not UTF-8',
        encodeFrame(FIN | OP.close, Buffer.from([0x03, 0xe8, 0xff])),
        1007,
        /UTF-8/,
    ],
];

for (const [what, bytes, code, reason] of WRONG) {
    test(`${what} ends the connection with ${code}`, async () => {
        const ws = await WebSocketRaw.open(server);
        await ws.listen([server.uri('a.txt')]);
        // Earlier requests are answered; later bytes are ignored.
        await ws.send(Buffer.concat([text('before'), bytes, text('after')]));
        const goodbye = await ws.goodbye();
        assert.equal(goodbye.code, code);
        assert.match(goodbye.reason, reason);
        await within(ws.over, 'the end of the connection');
        assert.ok(ws.messages.some(answers('before')));
        assert.ok(!ws.messages.some(answers('after')));
        assert.equal(ws.frames.seen.at(-1), goodbye);
    });
}

test('close frame is returned with its code, and nothing follows', async () => {
    for (const [bytes, code] of [
        [closeFrame(1000, 'bye'), 1000],
        [closeFrame(1001), 1001],
        [closeFrame(4999, 'ä'.repeat(60)), 4999],
        [encodeFrame(FIN | OP.close), 1005],
    ]) {
        const ws = await WebSocketRaw.open(server);
        await ws.send(Buffer.concat([text('before'), bytes, text('after')]));
        assert.equal((await ws.goodbye()).code, code);
        await within(ws.over, 'the end of the connection');
        assert.ok(ws.messages.some(answers('before')));
        assert.ok(!ws.messages.some(answers('after')));
    }
});

test('fragments are joined, with pings between them', async () => {
    const ws = await WebSocketRaw.open(server);
    const bytes = Buffer.from(discover('ä in pieces'));
    const at = bytes.indexOf(0xa4); // inside a character
    await ws.send(encodeFrame(OP.text, bytes.subarray(0, 10)));
    await ws.send(encodeFrame(FIN | OP.ping, 'one'));
    assert.equal((await ws.frame(OP.pong)).payload.toString(), 'one');
    await ws.send(encodeFrame(OP.continued, bytes.subarray(10, at)));
    await ws.send(encodeFrame(OP.continued, ''));
    await ws.send(encodeFrame(FIN | OP.pong, 'unasked'));
    await ws.send(encodeFrame(FIN | OP.ping, ''));
    assert.equal((await ws.frame(OP.pong)).payload.length, 0);
    await ws.send(encodeFrame(FIN | OP.continued, bytes.subarray(at)));
    assert.ok(await ws.message(answers('ä in pieces')));
    ws.close();
});

test('message split into single bytes is parsed', async () => {
    const ws = await WebSocketRaw.open(server);
    const bytes = Buffer.concat([
        text('dribbled'),
        encodeFrame(FIN | OP.ping, 'p'.repeat(125)),
        encodeFrame(OP.text, discover('second').slice(0, 7)),
        encodeFrame(FIN | OP.continued, discover('second').slice(7)),
        closeFrame(1000),
    ]);
    for (const byte of bytes) {
        await ws.send(Buffer.from([byte]));
    }
    assert.ok(await ws.message(answers('dribbled')));
    assert.equal((await ws.frame(OP.pong)).payload.length, 125);
    assert.ok(await ws.message(answers('second')));
    assert.equal((await ws.goodbye()).code, 1000);
});

test('every length has its encoding', async () => {
    const ws = await WebSocketRaw.open(server);
    for (const length of [125, 126, 127, 4096, 65535, 65536]) {
        const padded = discover(length).padEnd(length);
        await ws.send(encodeFrame(FIN | OP.text, padded));
        assert.ok(await ws.message(answers(length)), `a message of ${length} bytes`);
    }
    ws.close();
});

test('many messages in one write are answered in order', async () => {
    const ws = await WebSocketRaw.open(server);
    const ids = Array.from({ length: 500 }, (_, i) => i);
    await ws.send(Buffer.concat(ids.map((id) => text(id))));
    for (const id of ids) {
        assert.equal((await ws.message(() => true, `answer ${id}`)).id, id);
    }
    ws.close();
});

test('ping flood is answered, and messages between pings are too', async () => {
    const ws = await WebSocketRaw.open(server);
    const pings = Array.from({ length: 20_000 }, (_, i) =>
        encodeFrame(FIN | OP.ping, String(i)),
    );
    await ws.send(Buffer.concat([...pings, text('last')]));
    assert.ok(await ws.message(answers('last')));
    assert.equal(ws.frames.seen.filter((f) => f.opcode === OP.pong).length, pings.length);
    ws.close();
});

test('crossing close frames need one answer from either side', async () => {
    const ws = await WebSocketRaw.open(server);
    await ws.listen([server.uri('a.txt')]);
    server.tree.replace('a.txt', String(process.hrtime.bigint()));
    await ws.message(updates(server.uri('a.txt')), 'the update');
    await ws.send(Buffer.concat([closeFrame(1000), closeFrame(1000)]));
    await within(ws.over, 'the end of the connection');
    assert.equal(ws.frames.seen.filter((f) => f.opcode === OP.close).length, 1);
});

test('unfinished frame leaks nothing', async () => {
    for (const cut of [1, 2, 5, 9]) {
        const ws = await WebSocketRaw.open(server);
        await ws.send(text('cut').subarray(0, cut));
        ws.close();
    }
    const ws = await WebSocketRaw.open(server);
    assert.ok((await ws.modern('server/discover')).result);
    ws.close();
});
