// SPDX-License-Identifier: MIT
//
// Answer memory: the server stays within the limits of docs/reference/limits.md for any request and any slow reader. Each test
// measures the peak memory of the real program.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
    appendFileSync, readdirSync, readlinkSync, renameSync, truncateSync, writeFileSync,
} from 'node:fs';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { defer } from './lib/cleanup.mjs';
import { Faults, skip as withoutFaults } from './lib/faults.mjs';
import { encodeRequest, request } from './lib/http.mjs';
import { limitsOf, modernRequest, refused } from './lib/limits.mjs';
import { call, initialize, meta, Session } from './lib/rpc.mjs';
import {
    content, COUNT, digest, http, httpAnswer, isLong, MARGIN, MIB, peak, read, SIZE, Slow, start, unbooked, WAYS,
} from './lib/slow.mjs';
import { Pipe } from './lib/stdio.mjs';
import { TokenFile } from './lib/tokens.mjs';
import { eventually } from './lib/wait.mjs';

/** Default answers of a test. */
const TAKEN = 2;

for (const [way, { open, encode, take, secure }] of Object.entries(WAYS)) {
    test(`output: ${COUNT} concurrent large resources on ${way} use little memory`, async (t) => {
        const server = await start(t, { secure });
        const slow = await open(t, server);
        const before = peak(server);
        const messages = Array.from({ length: COUNT }, (_, id) => encode(read(server, id), server));
        slow.write(Buffer.concat(messages.map((text) => Buffer.from(text))));
        const ids = new Set();
        for (let i = 0; i < (isLong ? COUNT : TAKEN); i++) {
            const { id, result } = await take(slow);
            ids.add(id);
            assert.equal(digest(result.contents[0].text), digest(content.subarray(0, SIZE)));
        }
        assert.equal(ids.size, isLong ? COUNT : TAKEN, 'each is answered once');
        const grown = peak(server) - before;
        assert.ok(grown < MARGIN, `${(grown / MIB).toFixed(1)} MiB for ${messages.join('').length} bytes of requests`);
        slow.socket.destroy();
        await unbooked(t, server);
    });
}

/** Answers with many resources: the request for each. */
const MANY = {
    'pages of a list': () => ({ method: 'resources/list', params: {} }),
    'changes with their content': ({ cursor }) => ({
        method: 'tools/call',
        params: { name: 'changes_since', arguments: { cursor, limit: 1000, includeContent: true } },
    }),
};

for (const way of isLong ? ['a WebSocket', 'lines on TCP', 'pipelined HTTP'] : ['a WebSocket']) {
    for (const [what, make] of Object.entries(MANY)) {
        test(`output: unread ${what} on ${way} stay within the budget`, async (t) => {
            const { open, encode } = WAYS[way];
            const args = ['--max-output', '16m', '--page-size', '1000', '--allow-write', '--change-tools', 'on'];
            const server = await start(t, { size: 1, args });
            const ask = (method, params) => call(server, method, params);
            const { structuredContent: first } = await ask('tools/call', { name: 'changes_since', arguments: {} });
            const description = 'd\x01'.repeat(250);
            for (let n = 0; n < 1000; n += 50) {
                const publish = (_, i) => ({ uri: `published:///${n + i}`, text: 't'.repeat(300), description });
                const some = Array.from({ length: 50 }, publish);
                await Promise.all(some.map((one) => ask('tools/call', { name: 'publish', arguments: one })));
            }
            const before = peak(server);
            const count = isLong ? 40 : 8; // connections of 40 requests
            for (let i = 0; i < count; i++) {
                const slow = await open(t, server);
                const { method, params } = make(first);
                const one = { jsonrpc: '2.0', method, params: { _meta: meta(), ...params } };
                slow.write(Buffer.concat(Array.from({ length: COUNT }, (_, id) => Buffer.from(encode({ ...one, id }, server)))));
                await slow.bytes(1000, 'the beginning of an answer');
            }
            /* The server still answers another client. */
            await ask('server/discover', {});
            const grown = peak(server) - before;
            assert.ok(grown < 16 * MIB + 2 * MARGIN, `${(grown / MIB).toFixed(1)} MiB for ${count * COUNT} answers`);
        });
    }
}

test('output: each connection with an unread large resource holds one piece of it', async (t) => {
    const server = await start(t);
    const before = peak(server);
    const idle = [];
    for (const way of ['a WebSocket', 'lines on TCP', 'pipelined HTTP']) {
        for (let i = 0; i < (isLong ? 100 : 20); i++) {
            const slow = await WAYS[way].open(t, server);
            slow.write(WAYS[way].encode(read(server, i), server));
            idle.push(slow);
        }
    }
    for (const slow of idle) {
        await slow.bytes(1000, 'the beginning of an answer');
    }
    const grown = peak(server) - before;
    assert.ok(grown < idle.length * 300_000 + MARGIN, `${(grown / MIB).toFixed(1)} MiB for ${idle.length}`);
    const { inUse } = (await limitsOf(t, server))['max-output'];
    assert.ok(inUse > 0 && inUse <= 256 * MIB, `${inUse} bytes are booked`);
    idle.forEach((slow) => slow.socket.destroy());
    await unbooked(t, server);
});

test('output: /resource sends a large file in pieces, unchanged', async (t) => {
    const server = await start(t);
    const before = peak(server);
    const target = `/resource?uri=${encodeURIComponent(server.uri('long.txt'))}`;
    const requests = Array.from({ length: COUNT }, () => encodeRequest(server.port, { method: 'GET', path: target }));
    const slow = await Slow.open(t, server.port);
    slow.write(Buffer.concat(requests));
    for (let i = 0; i < TAKEN; i++) {
        const { status, bytes } = await httpAnswer(slow);
        assert.equal(status, 200);
        assert.equal(digest(bytes), digest(content.subarray(0, SIZE)));
    }
    assert.ok(peak(server) - before < MARGIN);
});

test('output: slow reader does not count as idle', async (t) => {
    const server = await start(t, { args: ['--idle-timeout', '1s'] });
    const slow = await http.open(t, server);
    slow.write(http.encode(read(server, 1), server));
    slow.back(await slow.bytes(1000, 'the beginning of an answer'));
    await pause(3000);
    assert.equal((await httpAnswer(slow)).status, 200);
});

test('output: pipelined requests stay within --max-connection-output', async (t) => {
    const args = ['--max-connection-output', '512k', '--workers', '1'];
    const server = await start(t, { size: 300 * 1024, args });
    const lines = WAYS['lines on TCP'];
    const slow = await lines.open(t, server);
    slow.write(Array.from({ length: 20 }, (_, id) => lines.encode(read(server, id))).join(''));
    for (let i = 0; i < 20; i++) {
        await lines.take(slow);
        const { inUse } = (await limitsOf(t, server))['max-output'];
        assert.ok(inUse < 3 * 300 * 1024, `${inUse} bytes after ${i + 1} answers`);
    }
});

test('output: many unread large files leave descriptors for other clients', async (t) => {
    const server = await start(t, { size: 300 * 1024 });
    execFileSync('/usr/bin/prlimit', [`--pid=${server.child.pid}`, '--nofile=80:4096']);
    const lines = WAYS['lines on TCP'];
    const slow = await lines.open(t, server);
    slow.write(Array.from({ length: 100 }, (_, id) => lines.encode(read(server, id))).join(''));
    const booked = async () => (await limitsOf(t, server))['max-output'].inUse;
    await eventually(async () => (await booked()) > 90 * 256 * 1024, 'all are under way');
    const other = await http.open(t, server);
    other.write(http.encode(read(server, 1, 'a.txt'), server));
    assert.equal((await http.take(other)).result.contents[0].text, '1');
});

/** Transports whose answers share one string or stream. */
const OTHERS = {
    async 'HTTP+SSE'(t, server, ask) {
        const { events } = await request(server, { method: 'GET', path: '/sse', headers: { Accept: 'text/event-stream' } });
        defer(t, () => events.close());
        const { data: path } = await events.next((item) => item.event === 'endpoint', 'the endpoint');
        const headers = { 'Content-Type': 'application/json' };
        for (const message of [initialize('2024-11-05'), ...ask]) {
            const options = { path, headers, body: JSON.stringify(message) };
            /* 503 while the pending answers fill the budget. */
            await eventually(async () => (await request(server, options)).status === 202, 'it is taken');
        }
        return Promise.all(ask.map(({ id }) => events.message((m) => m.id === id, 'an answer')));
    },
    async 'standard output'(t, server, ask) {
        const pipe = Pipe.open(t, { tree: server.tree });
        ask.forEach((message) => pipe.write(message));
        return Promise.all(ask.map(({ id }) => pipe.message((m) => m.id === id, 'an answer')));
    },
    async 'a batch'(t, server, ask) {
        const session = await Session.open(server, '2025-03-26');
        return (await session.post(ask.map(({ params, ...message }) => ({ ...message, params: { uri: params.uri } })))).json;
    },
};

for (const [way, answersOf] of Object.entries(OTHERS)) {
    test(`output: large resources on ${way} arrive complete`, async (t) => {
        const size = 600_001;
        const server = await start(t, { size, args: ['--legacy-sse'] });
        writeFileSync(server.tree.at('long.bin'), Buffer.alloc(size, 'a\xff', 'latin1'));
        const names = { 101: 'long.txt', 102: 'long.bin', 103: 'a.txt' };
        const answers = await answersOf(t, server, Object.entries(names).map(([id, name]) => read(server, Number(id), name)));
        const byId = Object.fromEntries(answers.map(({ id, result }) => [id, result.contents[0]]));
        assert.equal(digest(byId[101].text), digest(content.subarray(0, size)));
        assert.equal(digest(Buffer.from(byId[102].blob, 'base64')), digest(Buffer.alloc(size, 'a\xff', 'latin1')));
        assert.equal(byId[103].text, '1');
        await unbooked(t, server);
    });
}

test('output: long part of a file is kept in memory, booked with its size and complete', async (t) => {
    const args = ['--max-read', '2m', '--max-output', '4200k']; // two answers and the reserve
    const server = await start(t, { size: LONG, args });
    const range = { unit: 'bytes', from: 1000, to: 1000 + 2 * MIB };
    const message = read(server, 1);
    message.params._meta = meta({ 'dev.tidings/range': range });
    const held = [];
    for (let status = 200; status === 200; ) {
        const slow = await http.open(t, server);
        slow.write(http.encode(message, server));
        status = Number((await slow.bytes(12, 'a status')).toString().split(' ')[1]);
        slow.back(Buffer.from(`HTTP/1.1 ${status}`));
        held.push(slow);
        assert.ok(held.length <= 3, 'a third is refused'); // two answers fill the budget
    }
    assert.equal(held.length, 3);
    const { result } = await http.take(held[0]);
    assert.equal(digest(result.contents[0].text), digest(content.subarray(range.from, range.to)));
});

test('output: batch with many reads of a large file uses little memory', async (t) => {
    const size = 4 * MIB;
    const server = await start(t, { size });
    const session = await Session.open(server, '2025-03-26');
    const before = peak(server);
    const messages = Array.from({ length: COUNT }, (_, id) => read(server, id));
    const body = JSON.stringify(messages.map(({ params, ...message }) => ({ ...message, params: { uri: params.uri } })));
    const slow = await http.open(t, server);
    const headers = { ...session.headers, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    slow.write(encodeRequest(server.port, { headers, body }));
    const length = Number(/content-length: (\d+)/i.exec(await slow.until('\r\n\r\n', 'a head'))[1]);
    assert.ok(length > COUNT * size * 3);
    const taken = await slow.bytes(isLong ? length : 10 * MIB, 'the beginning of the array');
    assert.match(taken.subarray(0, 100).toString(), /^\[\{"jsonrpc":"2.0","id":\d+,"result":/);
    const grown = peak(server) - before;
    assert.ok(grown < MARGIN, `${(grown / MIB).toFixed(1)} MiB for ${length} bytes`);
    slow.socket.destroy();
    await unbooked(t, server);
});

/** Wait until a long answer is in progress, larger than the socket buffers. */
const LONG = 6 * MIB;

for (const way of ['a WebSocket', 'lines on TCP']) {
    test(`output: pending notifications on ${way} precede the next large answer`, async (t) => {
        const { open, encode, take } = WAYS[way];
        const server = await start(t, { size: LONG, args: ['--workers', '1'] });
        const slow = await open(t, server);
        const told = await open(t, server);
        const listen = {
            jsonrpc: '2.0',
            id: 'listen',
            method: 'subscriptions/listen',
            params: { _meta: meta(), notifications: { resourceSubscriptions: [server.uri('a.txt')] } },
        };
        for (const peer of [slow, told]) {
            peer.write(encode(listen));
            assert.equal((await take(peer)).method, 'notifications/subscriptions/acknowledged');
        }
        slow.write(Buffer.concat([1, 2].map((id) => Buffer.from(encode(read(server, id))))));
        const begun = await slow.bytes(1000, 'the beginning of an answer');
        writeFileSync(server.tree.at('a.txt'), '2');
        assert.equal((await take(told)).method, 'notifications/resources/updated');
        slow.back(begun);
        const order = [];
        for (let i = 0; i < 3; i++) {
            const message = await take(slow);
            order.push(message.method ?? 'answer');
        }
        assert.deepEqual(order, ['answer', 'notifications/resources/updated', 'answer']);
    });
}

/** Changes of a file during sending, and whether the client still receives the complete first version. */
const CHANGES = {
    'is overwritten': [(path) => writeFileSync(path, Buffer.alloc(LONG, 'QZ'), { flag: 'r+' }), false],
    'is cut off': [(path) => truncateSync(path, 100), false],
    'grows': [(path) => appendFileSync(path, 'more'), true],
    'is replaced': [
        (path) => {
            writeFileSync(`${path}.new`, 'other');
            renameSync(`${path}.new`, path);
        },
        true,
    ],
};

for (const [what, [change, isWhole]] of Object.entries(CHANGES)) {
    test(`output: file that ${what} during sending: ${isWhole ? 'the version that began' : 'the end'}`, async (t) => {
        const server = await start(t, { size: LONG });
        const slow = await http.open(t, server);
        slow.write(http.encode(read(server, 1), server));
        const head = (await slow.until('\r\n\r\n', 'a head')).toString();
        const length = Number(/content-length: (\d+)/i.exec(head)[1]);
        const begun = await slow.bytes(1000, 'the beginning of an answer');
        change(server.tree.at('long.txt'));
        if (isWhole) {
            const whole = Buffer.concat([begun, await slow.bytes(length - 1000, 'the rest')]);
            assert.equal(digest(JSON.parse(whole).result.contents[0].text), digest(content.subarray(0, LONG)));
            return;
        }
        const part = Buffer.concat([begun, await slow.rest()]);
        assert.ok(part.length < length, 'it is not complete');
        assert.ok(!part.includes('QZ'), 'nothing of the other version was sent');
    });
}

test('output: read beyond the share returns 429, beyond the limit 503, and an operator has the reserve', async (t) => {
    const tokens = new TokenFile(t);
    const names = ['ada', 'bob', 'cleo', 'dan', 'root'];
    const [ada, bob, cleo, dan, root] = names.map((name) => tokens.give(name));
    const rules = names.map((principal) => ({ principal, allow: ['list', 'read', 'subscribe', ...(principal === 'root' ? ['write'] : [])] }));
    const access = rules.flatMap((rule) => ['--access', JSON.stringify(rule)]);
    // A client that reads nothing keeps its share until the end.
    const args = ['--max-read', '4m', '--max-output', '64m', '--stall-timeout', '10m', ...tokens.args, ...access];
    const server = await start(t, { size: 4 * MIB, args });
    const ask = async (token) => {
        const slow = await http.open(t, server);
        const request = modernRequest('resources/read', read(server, 1).params);
        request.headers.Authorization = `Bearer ${token}`;
        slow.write(encodeRequest(server.port, request));
        const head = await slow.until('\r\n\r\n', 'a head');
        const status = Number(head.toString().split(' ')[1]);
        if (status === 200) {
            return { slow, status };
        }
        const length = Number(/content-length: (\d+)/i.exec(head)[1]);
        return { slow, status, error: JSON.parse(await slow.bytes(length, 'a refusal')).error };
    };
    const fill = async (token) => {
        const held = [];
        for (;;) {
            const one = await ask(token);
            if (one.status !== 200) {
                return { held, one };
            }
            held.push(one.slow);
            assert.ok(held.length < 100, 'nothing is refused');
        }
    };
    const shared = (error, share) => {
        refused(error, 'max-output', 64 * MIB);
        assert.equal(error.data.share, share);
    };
    const own = await fill(ada);
    assert.equal(own.one.status, 429);
    shared(own.one.error, 16 * MIB);
    assert.equal((await fill(bob)).one.status, 429);
    assert.equal((await fill(cleo)).one.status, 429);
    const all = await fill(dan);
    assert.equal(all.one.status, 503);
    shared(all.one.error, undefined);
    assert.equal((await ask(root)).status, 200, 'the reserve is for operators');
    own.held.forEach((slow) => slow.socket.destroy());
    await eventually(async () => (await ask(dan)).status === 200, 'there is room again');
});

/** The server with controlled reads of `long.txt` and an answer in progress. */
async function stalling(t, way, { secure = false } = {}) {
    const faults = new Faults(t);
    const server = await start(t, { size: LONG, args: ['--workers', '1'], secure, env: faults.env });
    const { open, encode } = WAYS[way];
    const slow = await open(t, server);
    slow.write(encode(read(server, 1), server));
    slow.back(await slow.bytes(1000, 'the beginning of an answer'));
    faults.stall(server.tree.at('long.txt'));
    return { faults, server, slow };
}

const descriptorsOf = ({ child, tree }) =>
    readdirSync(`/proc/${child.pid}/fd`).filter((fd) => {
        try {
            return readlinkSync(`/proc/${child.pid}/fd/${fd}`) === tree.at('long.txt');
        } catch {
            return false; // closed in between
        }
    }).length;

for (const [way, { take, secure }] of Object.entries(WAYS)) {
    test(`output: stalled file system delays only its own readers on ${way}`, { skip: withoutFaults }, async (t) => {
        const { faults, server, slow } = await stalling(t, way, { secure });
        const answer = take(slow);
        await eventually(() => faults.stalled === 1, 'a read hangs');
        const other = await WAYS[way].open(t, server);
        for (const id of [2, 3, 4]) {
            other.write(WAYS[way].encode(read(server, id, 'a.txt'), server));
            assert.equal((await take(other)).result.contents[0].text, '1');
        }
        assert.equal(faults.stalled, 1, 'it still hangs');
        assert.equal(descriptorsOf(server), 1);
        faults.release();
        assert.equal(digest((await answer).result.contents[0].text), digest(content.subarray(0, LONG)));
        slow.socket.destroy();
        await unbooked(t, server);
        assert.equal(descriptorsOf(server), 0);
        assert.equal(faults.cached.refused, 0, 'the sandbox lets it ask the page cache');
    });
}

test('output: abandoned reads of a stalled file system stay booked until it answers', { skip: withoutFaults }, async (t) => {
    const { faults, server, slow } = await stalling(t, 'a WebSocket');
    const answer = WAYS['a WebSocket'].take(slow).catch(() => {});
    await eventually(() => faults.stalled === 1, 'a read hangs');
    const connections = async () => (await limitsOf(t, server))['max-connections'].inUse;
    const before = await connections();
    slow.socket.destroy();
    await answer;
    await eventually(async () => (await connections()) < before, 'it has gone');
    assert.ok((await limitsOf(t, server))['max-output'].inUse >= 256 * 1024);
    assert.equal(descriptorsOf(server), 1);
    faults.release();
    await unbooked(t, server);
    assert.equal(descriptorsOf(server), 0);
});
