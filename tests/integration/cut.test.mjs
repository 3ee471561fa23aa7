// SPDX-License-Identifier: MIT
//
// A client cuts its connection again and again after a number of bytes: with the last complete cursor or event id it
// makes progress and receives every change.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { request } from './lib/http.mjs';
import { listen, meta, modernHeaders, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { CURSOR, OPTIONS } from './lib/subscriber.mjs';
import { Tree } from './lib/tree.mjs';

const COUNT = 120;
const KEPT = 'published:///';
const names = Array.from({ length: COUNT }, (_, i) => `${KEPT}r${String(i).padStart(3, '0')}`);
/** The message overhead and little more than one message. */
const BUDGETS = [1500, 2500, 6000];

/** The events of one exchange within the first `budget` bytes of its body, or until `done(event)` returns true. */
function exchange(server, { method, headers, body, budget, done }) {
    return new Promise((resolve, reject) => {
        const sent = http.request({
            host: '127.0.0.1', port: server.port, path: '/mcp', method, headers, agent: false,
        });
        sent.on('error', reject);
        sent.on('response', (response) => {
            let text = '';
            let left = budget;
            const events = [];
            const finish = () => {
                sent.removeAllListeners('error');
                sent.on('error', () => {});
                sent.destroy();
                resolve(events);
            };
            response.on('error', () => {});
            response.on('end', () => reject(new Error(`it ended: ${response.statusCode} ${text}`)));
            response.on('data', (chunk) => {
                text += chunk.subarray(0, left).toString('latin1');
                left -= Math.min(left, chunk.length);
                for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n')) {
                    const lines = text.slice(0, at).split('\n');
                    const field = (name) =>
                        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
                    const data = field('data');
                    const event = { id: field('id'), message: data ? JSON.parse(data) : undefined };
                    events.push(event);
                    text = text.slice(at + 2);
                    if (done(event)) {
                        return finish();
                    }
                }
                return left === 0 ? finish() : undefined;
            });
        });
        sent.end(body);
    });
}

/** A client, cut after `budget` bytes each time. */
class Reader {
    known = new Set();
    repeated = 0;

    constructor(server, budget, uris) {
        Object.assign(this, { server, budget, uris });
    }

    learn({ id, message }) {
        this.id = id ?? this.id;
        const cursor = message?.params?._meta?.[CURSOR];
        this.cursor = cursor ?? this.cursor;
        if (message?.method === 'notifications/resources/updated') {
            const { uri } = message.params;
            assert.ok(this.uris.includes(uri), `${this.budget} bytes: told to look at all of ${uri}`);
            this.repeated += this.known.has(uri) ? 1 : 0;
            this.known.add(uri);
        }
        return this.uris.every((uri) => this.known.has(uri));
    }

    /** Repeats until all changes are known; each connection must deliver some. */
    async readAll(connect) {
        let rounds = 0;
        for (let over = false; !over; rounds += 1) {
            const before = this.known.size;
            const done = (event) => (over = this.learn(event));
            await exchange(this.server, { ...connect(), budget: this.budget, done });
            assert.ok(
                this.known.size > before,
                `${this.budget} bytes: nothing new after ${before}, at ${this.cursor} ${this.id}`,
            );
        }
        assert.equal(this.repeated, 0);
        return rounds;
    }

    listening(subscribed) {
        const params = {
            _meta: { ...meta(), [OPTIONS]: { windowMs: 0, since: this.cursor } },
            notifications: { resourceSubscriptions: subscribed },
        };
        return {
            method: 'POST',
            headers: {
                'Content-Type': 'application/json',
                Accept: 'application/json, text/event-stream',
                ...modernHeaders('subscriptions/listen'),
            },
            body: JSON.stringify({
                jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params,
            }),
        };
    }
}

async function put(server, uri, body) {
    const path = `/resource?uri=${encodeURIComponent(uri)}`;
    const { status, text } = await request(server, { method: 'PUT', path, body });
    assert.ok(status < 300, text);
}

async function start(t) {
    const folder = mkdtempSync(join(tmpdir(), 'tidings-cut-'));
    defer(t, () => rmSync(folder, { recursive: true, force: true }));
    const tree = new Tree(t, { 'a.txt': 'a', 'b.txt': 'b' });
    const args = ['--store', join(folder, 'store.db'), '--publish', KEPT, '--allow-write'];
    const server = await serve(t, { tree, args });
    return { tree, args, server };
}

async function cursorOf(server, subscribed) {
    const { ack, events } = await listen(server, { resourceSubscriptions: subscribed });
    events.close();
    return ack._meta[CURSOR];
}

test('listen stream cut after some bytes makes progress, before and after a restart', async (t) => {
    const { tree, args, server } = await start(t);
    const files = [tree.uri('a.txt'), tree.uri('b.txt')];
    const subscribed = [KEPT, ...files];
    const cursor = await cursorOf(server, subscribed);
    for (const uri of names) {
        await put(server, uri, 'one');
    }
    for (const budget of BUDGETS) {
        const reader = new Reader(server, budget, names);
        reader.cursor = cursor;
        const rounds = await reader.readAll(() => reader.listening(subscribed));
        assert.ok(rounds > 1);
    }
    await server.stop();
    const again = await serve(t, { tree, args });
    for (const budget of BUDGETS.slice(1)) {
        // Files are not retained: one truncated update for each.
        const reader = new Reader(again, budget, [...names, ...files]);
        reader.cursor = cursor;
        await reader.readAll(() => reader.listening(subscribed));
    }
});

test('session stream cut after some bytes makes progress', async (t) => {
    const { server } = await start(t);
    for (const budget of BUDGETS) {
        const session = await Session.open(server);
        const _meta = { [OPTIONS]: { windowMs: 0 } };
        await session.call('resources/subscribe', { uri: KEPT, _meta });
        for (const uri of names) {
            await put(server, uri, `for ${budget}`);
        }
        const reader = new Reader(server, budget, names);
        const rounds = await reader.readAll(() => ({
            method: 'GET',
            headers: {
                Accept: 'text/event-stream',
                ...session.headers,
                ...(reader.id && { 'Last-Event-ID': reader.id }),
            },
        }));
        assert.ok(rounds > 1);
        await session.end();
    }
});
