// SPDX-License-Identifier: MIT
//
// Legacy sessions over several nodes on PostgreSQL: the official client behind a round-robin balancer keeps its session
// while nodes are killed, drained and restarted; it loses nothing, and with event ids it receives no duplicates.

import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { defer } from './lib/cleanup.mjs';
import { exchange } from './lib/fault-watcher.mjs';
import { startNodes } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { DEADLINE, eventually, within } from './lib/wait.mjs';

const INITIALIZE = {
    jsonrpc: '2.0', id: 1, method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
};

let database;
let schemas = 0;
/** Two nodes on their own schema. */
async function twoNodes(t, args = []) {
    const schema = `s${(schemas += 1)}`;
    await database.sql(`CREATE SCHEMA ${schema}`);
    return startNodes(t, 2, {
        databases: [database], schema, args: ['--publish', 'pub:///', '--allow-write', ...args],
    });
}

const url = (node, path = '/mcp') => `http://127.0.0.1:${node.port}${path}`;

async function publish(node, uri, text) {
    const answer = await fetch(url(node, `/resource?uri=${encodeURIComponent(uri)}`), {
        method: 'PUT', body: text, headers: { 'content-type': 'text/plain' },
    });
    assert.ok(answer.ok, `${answer.status} ${await answer.text()}`);
}

/** One session request, written by hand. */
function ask(node, session, { method = 'POST', message, headers = {} } = {}) {
    return fetch(url(node), {
        method,
        headers: {
            'content-type': 'application/json', accept: 'application/json, text/event-stream',
            ...(session && { 'mcp-session-id': session }), ...headers,
        },
        ...(message && { body: JSON.stringify(message) }),
    });
}

const ping = { jsonrpc: '2.0', id: 7, method: 'ping' };

async function initialize(node) {
    const answer = await ask(node, undefined, { message: INITIALIZE });
    assert.equal(answer.status, 200);
    await answer.text();
    return answer.headers.get('mcp-session-id');
}

/** Sends each request to the next node that answers. */
async function roundRobin(t, nodes) {
    let turn = 0;
    const used = new Set();
    const listener = http.createServer((near, answer) => {
        const chunks = [];
        near.on('data', (chunk) => chunks.push(chunk));
        near.on('end', () => pass(near, Buffer.concat(chunks), answer, nodes.length));
    });
    const pass = (near, body, answer, left) => {
        const node = nodes[(turn += 1) % nodes.length];
        const options = { port: node.port, host: '127.0.0.1', method: near.method, path: near.url, headers: near.headers, agent: false };
        const far = http.request(options, (from) => {
            used.add(node.name);
            answer.writeHead(from.statusCode, from.headers);
            answer.flushHeaders();
            from.on('error', () => answer.destroy());
            from.on('close', () => from.complete || answer.destroy());
            from.pipe(answer);
        });
        far.on('error', () => {
            if (answer.headersSent || left === 0) {
                answer.destroy();
            } else {
                pass(near, body, answer, left - 1);
            }
        });
        answer.on('close', () => far.destroy());
        far.end(body);
    };
    await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
    defer(t, () => {
        listener.closeAllConnections();
        listener.close();
    });
    return { url: `http://127.0.0.1:${listener.address().port}/mcp`, used };
}

/** The official client and its received changes by URI. */
async function connect(t, address) {
    const client = new Client({ name: 'integration-test', version: '1' });
    const wire = new StreamableHTTPClientTransport(new URL(address), {
        reconnectionOptions: { initialReconnectionDelay: 20, maxReconnectionDelay: 100, reconnectionDelayGrowFactor: 1, maxRetries: 1000 },
    });
    const heard = [];
    defer(t, () => client.close());
    client.onerror = () => {};
    await within(client.connect(wire), 'the client to connect');
    const deliver = wire.onmessage;
    wire.onmessage = (message, extra) => {
        if (message.method === 'notifications/resources/updated') {
            heard.push(message.params);
        }
        deliver(message, extra);
    };
    return { client, wire, heard };
}

const etagOf = (params) => params._meta?.['dev.tidings/etag'] ?? params._meta?.['dev.tidings/version'] ?? JSON.stringify(params._meta);

test('sessions move between nodes', { skip }, async (t) => {
    database = await Postgres.start(t); // one for all
    await t.test('official client keeps its session across killed nodes', async (t) => {
        const nodes = await twoNodes(t);
        const proxy = await roundRobin(t, nodes);
        const { client, wire, heard } = await connect(t, proxy.url);
        const session = wire.sessionId;
        const uris = ['pub:///a', 'pub:///b', 'pub:///c'];
        for (const uri of uris) {
            await publish(nodes[0], uri, 'first');
        }
        for (const uri of uris) {
            await client.subscribeResource({ uri });
        }
        let count = 0;
        /** A write at a node arrives, whichever node delivers it. */
        const write = async (node) => {
            const uri = uris[(count += 1) % uris.length];
            const before = heard.filter((params) => params.uri === uri).length;
            await publish(node, uri, `value ${count}`);
            await eventually(() => heard.filter((params) => params.uri === uri).length > before, `write ${count} of ${uri} is heard`);
        };
        for (const node of nodes) {
            await write(node);
            await client.ping(); // at the other node, to which the session moves
        }
        for (const victim of [0, 1]) {
            const other = nodes[1 - victim];
            await nodes[victim].kill();
            await client.ping();
            await write(other);
            await client.unsubscribeResource({ uri: uris[2] });
            await client.subscribeResource({ uri: uris[2] });
            await write(other);
            await nodes[victim].start();
            await write(nodes[victim]);
            await client.ping();
        }
        for (let i = 0; i < 2; i += 1) {
            await write(nodes[i % 2]);
        }
        assert.equal(wire.sessionId, session);
        assert.equal(heard.length, count, 'each write was told once');
        const [[turn]] = await database.sql(`SELECT turn FROM s${schemas}.tidings_sessions`);
        assert.ok(Number(turn) >= 4, `it moved ${turn} times`);
        assert.deepEqual([...proxy.used].sort(), ['a', 'b']);
        assert.ok(!heard.some((params) => params._meta?.['dev.tidings/truncated']), 'nobody had to look again');
        const told = heard.map((params) => `${params.uri} ${etagOf(params)}`);
        assert.equal(new Set(told).size, told.length, `nothing is told twice: ${told.join('\n')}`);
    });
    await t.test('session ended at any node is gone from all nodes', async (t) => {
        const [a, b] = await twoNodes(t, ['--self']);
        const session = await initialize(a);
        assert.equal((await ask(b, session, { message: ping })).status, 200);
        const peers = await ask(b, session, { message: { jsonrpc: '2.0', id: 8, method: 'resources/read', params: { uri: 'tidings://self/peers' } } });
        const [row] = JSON.parse(JSON.parse(/\{.*\}/.exec(await peers.text())[0]).result.contents[0].text);
        assert.deepEqual(row.client, { name: 'test', version: '1' }, 'what it called itself at the other node');
        assert.equal((await ask(a, session, { message: ping })).status, 200);
        assert.equal((await ask(b, session, { method: 'DELETE' })).status, 204);
        await eventually(async () => (await ask(a, session, { message: ping })).status === 404, 'the other node has let go of it');
        assert.equal((await ask(b, session, { message: ping })).status, 404);
        assert.equal((await ask(b, '00-0123456789abcdef0123456789abcdef', { message: ping })).status, 404);
    });
    await t.test('drained node hands over its sessions', async (t) => {
        const [a, b] = await twoNodes(t);
        const session = await initialize(a);
        await publish(a, 'pub:///a', 'first');
        const subscribe = { jsonrpc: '2.0', id: 2, method: 'resources/subscribe', params: { uri: 'pub:///a' } };
        assert.equal((await ask(a, session, { message: subscribe })).status, 200);
        await a.drain();
        await publish(b, 'pub:///a', 'second');
        const stream = await ask(b, session, { method: 'GET' });
        assert.equal(stream.status, 200);
        let text = '';
        const decoder = new TextDecoder();
        for await (const chunk of stream.body) {
            text += decoder.decode(chunk, { stream: true });
            if (text.includes('notifications/resources/updated')) {
                break;
            }
        }
        assert.match(text, /pub:\/\/\/a/);
        assert.doesNotMatch(text, /truncated/);
    });
    await t.test('session stays valid on its node during a database outage and no node redirects it', async (t) => {
        const [a, b] = await twoNodes(t);
        const session = await initialize(a);
        b.cut();
        const answer = await ask(b, session, { message: ping });
        assert.equal(answer.status, 503);
        assert.equal(answer.headers.get('retry-after'), '1');
        assert.equal((await ask(a, session, { message: ping })).status, 200);
        b.mend();
        await eventually(async () => (await ask(b, session, { message: ping })).status === 200, 'it goes on there');
    });
    await t.test('isolated node that lost a session does not resume from messages of the new owner', async (t) => {
        const [a, b] = await twoNodes(t);
        const session = await initialize(b);
        await publish(b, 'pub:///a', 'first');
        const subscribe = { jsonrpc: '2.0', id: 2, method: 'resources/subscribe', params: { uri: 'pub:///a' } };
        assert.equal((await ask(b, session, { message: subscribe })).status, 200);
        const idAfter = async (node, before, write) => { // of the last event, if any was sent
            const headers = { accept: 'text/event-stream', 'mcp-session-id': session, ...(before && { 'last-event-id': before }) };
            const stream = await eventually(async () => {
                const answer = await exchange(node, { method: 'GET', headers }, DEADLINE);
                return answer.status === 200 && answer;
            }, 'it goes on there');
            await write();
            const { id, json } = await stream.events.next((item) => item.json?.method === 'notifications/resources/updated', 'an update');
            assert.equal(json.params._meta['dev.tidings/truncated'], undefined);
            stream.events.close();
            return id;
        };
        const first = await idAfter(b, undefined, () => publish(a, 'pub:///a', 'second'));
        b.cut();
        const second = await idAfter(a, first, () => publish(a, 'pub:///a', 'third'));
        const answer = await ask(b, session, { method: 'GET', headers: { 'last-event-id': second } });
        assert.equal(answer.status, 503, 'its copy is from before');
        assert.equal(answer.headers.get('retry-after'), '1');
        b.mend();
        await idAfter(b, second, () => publish(a, 'pub:///a', 'fourth'));
    });
});
