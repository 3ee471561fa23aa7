// SPDX-License-Identifier: MIT
//
// HTTP+SSE, the transport of 2024-11-05 (--legacy-sse), with handwritten requests: the message endpoint, its access
// checks, and the state that ends with its stream. legacy-client.test.mjs tests the official client over this
// transport.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { request } from './lib/http.mjs';
import { reached } from './lib/limits.mjs';
import { freshId, initialize, totals, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { eventually, within } from './lib/wait.mjs';

const start = (t, args = [], files = { 'a.txt': '1' }) =>
    serve(t, { files, args: ['--legacy-sse', ...args] });

const get = (server, headers = {}) =>
    request(server, { method: 'GET', path: '/sse', headers: { Accept: 'text/event-stream', ...headers } });

const post = (server, path, message, headers = {}) =>
    request(server, {
        path,
        headers: { 'Content-Type': 'application/json', ...headers },
        body: typeof message === 'string' ? message : JSON.stringify(message),
    });

/** A stream, its POST address, and `ask`, which awaits the answer on the stream. */
async function open(t, server) {
    const { status, events, text } = await get(server);
    assert.equal(status, 200, text);
    defer(t, () => events.close());
    const first = await events.next((item) => item.event === 'endpoint', 'the endpoint event');
    const path = first.data;
    const ask = async (message) => {
        const response = await post(server, path, message);
        assert.equal(response.status, 202, response.text);
        return events.message((m) => m.id === message.id, `the answer to ${message.method}`);
    };
    const call = (method, params) => ask({ jsonrpc: '2.0', id: freshId(), method, params });
    return { events, path, ask, call };
}

test('legacy SSE is absent by default', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' } });
    assert.equal((await get(server)).status, 404);
    assert.equal((await post(server, '/messages?sessionId=x', initialize())).status, 404);
});

test('first event names the message endpoint, and answers arrive on the stream', async (t) => {
    const server = await start(t, ['--workers', '4']);
    const { path, ask, call, events } = await open(t, server);
    assert.match(path, /^\/messages\?sessionId=[!-~]{22,}$/);
    const { result } = await ask(initialize('2024-11-05'));
    assert.equal(result.protocolVersion, '2024-11-05');
    const done = await post(server, path, { jsonrpc: '2.0', method: 'notifications/initialized' });
    assert.equal(done.status, 202);
    assert.equal(done.text, '');
    // Each POST uses its own connection, on any worker.
    for (let i = 0; i < 20; i += 1) {
        assert.deepEqual((await call('ping')).result, {});
    }
    await call('resources/subscribe', { uri: server.uri('a.txt') });
    server.tree.replace('a.txt', '2');
    await events.message(updates(server.uri('a.txt')));
});

test('stream before initialize, and after a second one, behaves like a pipe', async (t) => {
    const server = await start(t);
    const { ask, call } = await open(t, server);
    assert.equal((await call('resources/list')).error.code, -32600);
    await ask(initialize());
    assert.equal((await ask(initialize())).error.code, -32600);
});

test('malformed message is answered on the stream', async (t) => {
    const server = await start(t);
    const { path, events } = await open(t, server);
    assert.equal((await post(server, path, '{"jsonrpc"')).status, 202);
    const { error } = await events.message((m) => m.error, 'the refusal');
    assert.equal(error.code, -32700);
});

test('unknown session returns 404 and reaches no other session', async (t) => {
    const server = await start(t, ['--workers', '2']);
    const { path, events } = await open(t, server);
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const wrong = [
        '/messages',
        '/messages?sessionId=',
        `${path}0`,
        path.slice(0, -1),
        '/messages?sessionId=ff-00000000000000000000000000000000',
    ];
    for (const other of wrong) {
        assert.equal((await post(server, other, ping)).status, 404, other);
    }
    assert.equal(events.messages.length, 0);
});

test('methods, types, hosts and origins are checked as at the endpoint', async (t) => {
    const server = await start(t);
    const { path } = await open(t, server);
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const other = await request(server, { method: 'POST', path: '/sse', headers: { 'Content-Type': 'application/json' }, body: '{}' });
    assert.deepEqual([other.status, other.headers.get('allow')], [405, 'GET, OPTIONS']);
    const read = await request(server, { method: 'GET', path });
    assert.deepEqual([read.status, read.headers.get('allow')], [405, 'POST, OPTIONS']);
    assert.equal((await request(server, { method: 'DELETE', path: '/sse' })).status, 405);
    assert.equal((await get(server, { Accept: 'application/json' })).status, 406);
    assert.equal((await post(server, path, ping, { 'Content-Type': 'text/plain' })).status, 415);
    for (const headers of [{ Host: 'evil.example' }, { Origin: 'https://evil.example' }]) {
        assert.equal((await get(server, headers)).status, 403, JSON.stringify(headers));
        assert.equal((await post(server, path, ping, headers)).status, 403, JSON.stringify(headers));
    }
    const origin = { Origin: 'http://localhost:3000' };
    const allowed = await request(server, { method: 'OPTIONS', path, headers: origin });
    assert.equal(allowed.headers.get('access-control-allow-methods'), 'POST, OPTIONS');
    assert.equal((await post(server, path, ping, origin)).status, 202);
});

test('streams count as sessions and free their place when they end', async (t) => {
    const server = await start(t, ['--workers', '1', '--max-sessions', '1', '--self']);
    const { events } = await open(t, server);
    const full = await get(server);
    assert.equal(full.status, 503, full.text);
    events.close();
    const again = await eventually(async () => {
        const response = await get(server);
        return response.status === 200 ? response : undefined;
    }, 'the place is free');
    again.events.close();
    await eventually(async () => (await totals(server)).sessions === 0, 'none is left');
});

test('subscriptions and pending requests end with the stream', async (t) => {
    const server = await start(t, ['--self']);
    const { ask, call, events, path } = await open(t, server);
    await ask(initialize());
    const before = (await totals(server)).subscriptions;
    await call('resources/subscribe', { uri: server.uri('a.txt') });
    assert.equal((await totals(server)).subscriptions, before + 1);
    events.close();
    await eventually(async () => (await totals(server)).subscriptions === before, 'it is gone');
    const late = await post(server, path, { jsonrpc: '2.0', id: 1, method: 'ping' });
    assert.equal(late.status, 404);
});

test('large answer arrives complete', async (t) => {
    const large = 'x'.repeat(3_000_000);
    const server = await start(t, [], { 'large.txt': large });
    const { ask, call } = await open(t, server);
    await ask(initialize());
    const { result } = await call('resources/read', { uri: server.uri('large.txt') });
    assert.equal(result.contents[0].text.length, large.length);
});

test('unread stream accepts no more requests than its answers fit', async (t) => {
    const server = await start(t, ['--self'], { 'large.txt': 'x'.repeat(3_000_000) });
    const { ask, events, path } = await open(t, server);
    await ask(initialize());
    events.connection.socket.pause();
    const params = { uri: server.uri('large.txt') };
    const full = await eventually(async () => {
        const id = freshId();
        const answer = await post(server, path, { jsonrpc: '2.0', id, method: 'resources/read', params });
        return answer.status === 202 ? undefined : answer;
    }, 'a refusal');
    assert.equal(full.status, 503, full.text);
    assert.equal(await reached(t, server, 'connection-requests'), 1);
    events.connection.socket.resume();
    await eventually(async () => {
        const { status } = await post(server, path, { jsonrpc: '2.0', id: freshId(), method: 'ping' });
        return status === 202;
    }, 'there is room again');
});

test('server shutdown ends the streams', async (t) => {
    const server = await start(t);
    const { events } = await open(t, server);
    const ended = within(events.over, 'the stream to end');
    await server.stop();
    await ended;
});
