// SPDX-License-Identifier: MIT
//
// The bytes of an update, for every shape, in both eras and on every kind of stream. The test counts them on real
// sockets and compares the table of docs/reference/subscriptions.md.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { listen, meta, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';
import { isUpdate, OPTIONS } from './lib/subscriber.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const PAGE = new URL('../../docs/reference/subscriptions.md', import.meta.url);
const ARGS = ['--allow-write', '--publish', 'app:///', '--window', '0', '--keepalive', '1h', '--no-list-changed'];
const state = (n) => JSON.stringify({ temperature: 20.5 + n, humidity: 40 });

/** Rows of the table: the label and its options. */
const SHAPES = [
    ['default', {}],
    ['`include: "metadata"`', { include: 'metadata' }],
    ['`include: "value"`', { include: 'value' }],
    ['`include: "patch"`', { include: 'patch', initial: true }],
    ['`detail: "slim"`', { detail: 'slim' }],
    ['slim, below `app:///rooms/`', { detail: 'slim' }, 'app:///rooms/'],
    ['slim, `include: "metadata"`', { detail: 'slim', include: 'metadata' }],
    ['slim, `include: "value"`', { detail: 'slim', include: 'value' }],
    ['slim, `include: "patch"`', { detail: 'slim', include: 'patch', initial: true }],
].map(([row, options, subscribed], i) => {
    const uri = `app:///${subscribed ? 'rooms' : 'house'}/${String.fromCharCode(97 + i)}.json`;
    return { row, options, uri, subscribed: subscribed ?? uri };
});

const put = async (server, uri, body) => {
    const at = `http://127.0.0.1:${server.port}/resource?uri=${encodeURIComponent(uri)}`;
    const headers = { 'content-type': 'application/json' };
    assert.ok((await fetch(at, { method: 'PUT', body, headers })).ok);
};

const listenParams = {
    _meta: meta({
        [OPTIONS]: { uris: Object.fromEntries(SHAPES.map((s) => [s.subscribed, s.options])) },
    }),
    notifications: { resourceSubscriptions: SHAPES.map((s) => s.subscribed) },
};
const subscribeAll = async (ask) => {
    for (const { subscribed, options } of SHAPES) {
        const params = { uri: subscribed, ...(Object.keys(options).length > 0 && { _meta: { [OPTIONS]: options } }) };
        const { error } = await ask('resources/subscribe', params);
        assert.equal(error, undefined);
    }
};

/** A stream: `next(match)` returns { text, id } of the next message, `read()` the received bytes. */
const ofEvents = (events) => ({
    next: async (match) => {
        const { data, id } = await events.next((e) => e.json && match(e.json), 'an update');
        return { text: data, id };
    },
    read: () => events.connection.wire.bytesRead,
});
const ofWebSocket = (ws) => ({
    next: async (match) => {
        const { payload } = await ws.frames.next((f) => f.json && match(f.json), 'an update');
        return { text: payload.toString('utf8') };
    },
    read: () => ws.connection.wire.bytesRead,
});
const ofPipe = (pipe) => ({
    next: async (match) => ({ text: await pipe.stdout.next((line) => match(JSON.parse(line)), 'an update') }),
    read: () => pipe.child.stdout.bytesRead,
});

/** The columns of the table, in their order. */
async function openAll(t) {
    const legacyPipe = Pipe.open(t, { args: ['--http', '127.0.0.1:0', ...ARGS] });
    const modernPipe = Pipe.open(t, { args: ['--http', '127.0.0.1:0', ...ARGS] });
    for (const pipe of [legacyPipe, modernPipe]) {
        const line = await pipe.lines.next((l) => /http:\/\/\S+\/mcp/.test(l), 'the URL');
        pipe.port = Number(/127\.0\.0\.1:(\d+)/.exec(line)[1]);
        for (const { uri } of SHAPES) {
            await put(pipe, uri, state(0));
        }
    }
    await legacyPipe.handshake();
    await subscribeAll((method, params) => legacyPipe.ask(method, params));
    await modernPipe.write({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: listenParams });
    await modernPipe.message((m) => m.method?.endsWith('/acknowledged'));

    const session = await Session.open(legacyPipe);
    const events = await session.stream();
    await subscribeAll(async (method, params) => (await session.send(method, params)).json);
    const { events: listened } = await listen(legacyPipe, listenParams.notifications, {
        id: 1,
        params: { _meta: listenParams._meta },
    });
    const [ws, modernWs] = [await WebSocketRaw.open(legacyPipe), await WebSocketRaw.open(legacyPipe)];
    t.after(() => [events, listened, ws, modernWs].forEach((each) => each.close()));
    await ws.handshake();
    await subscribeAll((method, params) => ws.ask(method, params));
    await modernWs.write({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: listenParams });
    await modernWs.message((m) => m.method?.endsWith('/acknowledged'));

    const columns = [ofEvents(events), ofEvents(listened), ofWebSocket(ws), ofWebSocket(modernWs), ofPipe(legacyPipe), ofPipe(modernPipe)];
    for (const { subscribed, options } of SHAPES.filter((s) => s.options.initial)) {
        for (const column of columns) {
            await column.next((m) => isUpdate(m) && m.params.uri === subscribed);
        }
    }
    return { servers: [legacyPipe, modernPipe], columns };
}

/** The size with an epoch of 16 digits and numbers of four; a random epoch may start with zeros. */
const usual = (text) => text.replace(/\b[0-9a-f]{12,16}\.\d+/g, `${'e'.repeat(16)}.1234`);
const usualId = (id) => id?.replace(/^(\w+)\.\d+\.\d+$/, '1.1234.1234');

async function weigh(servers, columns, { uri }) {
    const before = columns.map((column) => column.read());
    await Promise.all(servers.map((server) => put(server, uri, state(1))));
    return Promise.all(columns.map(async (column, i) => {
        const { text, id } = await column.next((m) => isUpdate(m) && m.params.uri === uri);
        const measured = column.read() - before[i];
        const framing = measured - Buffer.byteLength(text) - (id?.length ?? 0);
        assert.ok(framing >= 1 && framing <= 32, `${framing} bytes around ${text}`);
        return measured + usual(text).length - text.length + (usualId(id)?.length ?? 0) - (id?.length ?? 0);
    }));
}

async function weighGateway(t) {
    const server = await serve(t, { files: {}, args: [...ARGS, '--profile', 'gateway'] });
    const [{ uri }] = SHAPES;
    await put(server, uri, state(0));
    const session = await Session.open(server);
    const events = await session.stream();
    t.after(() => events.close());
    await session.subscribe(uri);
    return (await weigh([server], [ofEvents(events)], { uri }))[0];
}

test('table of bytes in docs/reference/subscriptions.md matches the measurement', async (t) => {
    const { servers, columns } = await openAll(t);
    const rows = [];
    for (const shape of SHAPES) {
        rows.push([shape.row, ...(await weigh(servers, columns, shape))]);
    }
    rows.push(['`--profile gateway`', await weighGateway(t), '', '', '', '', '']);
    const measured = rows.map((row) => `| ${row.join(' | ')} |`.replace(/\|( {2}\|)+$/, (m) => m.replaceAll('  ', ' – ')));
    const page = fs.readFileSync(PAGE, 'utf8').split('\n');
    const begin = page.findIndex((line) => line.startsWith('| update | SSE'));
    const shown = page.slice(begin + 2, begin + 2 + rows.length);
    assert.deepEqual(shown, measured, `the page should say\n${measured.join('\n')}`);
    const byRow = new Map(rows.map(([name, ...bytes]) => [name, bytes]));
    byRow.get('`detail: "slim"`').forEach((bytes, i) => {
        assert.ok(2 * bytes < byRow.get('default')[i], 'a slim update is less than half the default one');
    });
});
