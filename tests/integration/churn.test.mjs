// SPDX-License-Identifier: MIT
//
// Clients connect, subscribe and disconnect ten thousand times, at every moment and in every way, and leave nothing
// behind.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';

import { Connection, encodeRequest } from './lib/http.mjs';
import { reset } from './lib/reset.mjs';
import { call, freshId, meta, modernHeaders, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { OPTIONS } from './lib/subscriber.mjs';
import { eventually, slow } from './lib/wait.mjs';

const CYCLES = slow > 1 ? 2_000 : 10_000;
const ROUNDS = 10;
const AT_ONCE = 40;

/** A listen request for several kinds of subscription, as bytes. */
function listenRequest(server, i) {
    const method = 'subscriptions/listen';
    const root = server.uri('');
    const options = { windowMs: i % 3 === 0 ? 60_000 : 0, initial: i % 5 === 0 };
    const resourceSubscriptions = [
        server.uri('a.txt'),
        `${root}*.txt`,
        [`${root}dir/`, `${root}{name}.txt`, `${root}dir?pattern=*`, `${root}none/`][i % 4],
    ];
    const params = {
        _meta: meta({ [OPTIONS]: options }),
        notifications: { resourceSubscriptions, resourcesListChanged: i % 7 === 0 },
    };
    return encodeRequest(server.port, {
        headers: {
            'Content-Type': 'application/json',
            Accept: 'application/json, text/event-stream',
            ...modernHeaders(method),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: freshId(), method, params }),
    });
}

/** One client: connects, asks and leaves at once, during the request, or after the acknowledgement. */
function live(server, i) {
    return new Promise((resolve, reject) => {
        const socket = net.connect({ host: '127.0.0.1', port: server.port });
        const go = () => (i % 2 ? reset(socket) : socket.destroy());
        socket.on('error', (error) => (error.code === 'ECONNRESET' ? resolve() : reject(error)));
        socket.on('close', resolve);
        socket.on('connect', () => {
            const bytes = listenRequest(server, i);
            if (i % 8 === 0) {
                socket.write(bytes.subarray(0, bytes.length / 2), go);
            } else if (i % 8 === 1) {
                socket.write(bytes, go);
            } else {
                socket.write(bytes);
                let text = '';
                socket.on('data', (chunk) => {
                    text += chunk.toString('latin1');
                    if (text.includes('subscriptions/acknowledged')) {
                        go();
                    }
                });
            }
        });
    });
}

async function churn(server, from, to) {
    let next = from;
    const one = async () => {
        while (next < to) {
            const i = next;
            next += 1;
            await live(server, i);
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
}

async function counters(server) {
    const { contents } = await call(server, 'resources/read', { uri: 'tidings://self/stats' });
    const sum = {};
    for (const worker of JSON.parse(contents[0].text)) {
        for (const [name, value] of Object.entries(worker)) {
            sum[name] = (sum[name] ?? 0) + value;
        }
    }
    return sum;
}

const isEmpty = async (server) => {
    const { subscriptions, subscribers, sessions } = await counters(server);
    return subscriptions === 0 && subscribers === 0 && sessions === 0;
};

/** Resident memory in KiB. */
const memory = (server) =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'latin1'))[1]);

test(`${CYCLES} listens open and close without leaks`, async (t) => {
    const files = { 'a.txt': '1', 'dir/b.txt': '1' };
    const server = await serve(t, { files, args: ['--self', '--window', '0'] });
    const writer = setInterval(() => server.tree.replace('a.txt', String(Math.random())), 5);
    const resident = [];
    let index;
    try {
        for (let round = 0; round < ROUNDS; round += 1) {
            await churn(server, (round * CYCLES) / ROUNDS, ((round + 1) * CYCLES) / ROUNDS);
            await eventually(() => isEmpty(server), 'the account is empty');
            resident.push(memory(server));
            const { indexBytes } = await counters(server);
            index ??= indexBytes;
            assert.ok(indexBytes <= index + 1024, 'the index was emptied');
        }
    } finally {
        clearInterval(writer);
    }
    /* Many connections raise memory by a step now and then; a leak grows in every round. */
    const growth = resident.slice(1).map((kib, i) => kib - resident[i]);
    const usual = growth.toSorted((a, b) => a - b)[Math.floor(growth.length / 2)];
    t.diagnostic(`resident memory in KiB: ${resident.join(' ')}`);
    if (slow === 1) { /* sanitizers keep freed memory */
        assert.ok(usual < 64, `resident memory grows by ${usual} KiB each round`);
    }
});

test('sessions open and close without leaks', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self'] });
    for (let round = 0; round < 10; round += 1) {
        await Promise.all(
            Array.from({ length: 20 }, async (_, i) => {
                const session = await Session.open(server);
                const stream = await session.stream();
                await session.subscribe(server.uri('a.txt'));
                if (i % 2) {
                    stream.close();
                    await session.end();
                } else {
                    await session.end();
                    await stream.over;
                }
            }),
        );
    }
    await eventually(() => isEmpty(server), 'the account is empty');
});

test('client that leaves during a request is released at once', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' } });
    const bytes = listenRequest(server, 0);
    const head = bytes.indexOf('\r\n\r\n');
    for (const length of [10, head, head + 4, bytes.length - 1]) {
        const connection = await Connection.open(server);
        await connection.send(bytes.subarray(0, length));
        connection.finish();
        const rest = await connection.readToEnd(`the end after ${length} bytes`, 3000 * slow);
        assert.equal(rest.length, 0, rest.toString('latin1'));
        connection.close();
    }
});
