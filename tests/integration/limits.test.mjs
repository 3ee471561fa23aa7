// SPDX-License-Identifier: MIT
//
// Limits of all clients together and of one client. Each limit is reached, the answer matches docs/reference/limits.md, the
// counter increases, and other clients are not affected.

import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { defer } from './lib/cleanup.mjs';
import { Connection, encodeRequest, request } from './lib/http.mjs';
import { from, limitsOf, limitsOn, modernRequest, reached, refused, refusedWith } from './lib/limits.mjs';
import { call, key, listen, modern, post, initialize, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const files = { 'a.txt': 'a', 'b.txt': 'b', 'c.txt': 'c' };
const start = (t, ...args) => serve(t, { files, args: ['--self', ...args] });

const ping = (id) => ({ jsonrpc: '2.0', id, method: 'ping' });
const get = (uri) => ({ method: 'GET', path: `/resource?uri=${encodeURIComponent(uri)}` });

/** A connection with one answered request, so the server has counted it. */
async function connectAndAsk(t, server, address) {
    const connection = await from(t, server, address);
    assert.equal((await connection.request(modernRequest('server/discover'))).status, 200);
    return connection;
}

/** Send `count` requests at once on one connection. Returns their responses in order. */
async function pipelined(connection, requests) {
    const port = connection.socket.remotePort;
    await connection.send(Buffer.concat(requests.map((r) => encodeRequest(port, r))));
    const responses = [];
    for (const r of requests) {
        responses.push(await connection.readResponse(r.method));
    }
    return responses;
}

// ---- connections ------------------------------------------------------------------------------

test('--max-connections: 503, and a request sent already does not change it', async (t) => {
    const server = await start(t, '--max-connections', '2', '--workers', '2');
    const first = await connectAndAsk(t, server, '127.0.0.1');
    const second = await connectAndAsk(t, server, '127.0.0.2');
    for (let i = 0; i < 3; i++) {
        const third = await from(t, server, '127.0.0.3');
        refusedWith(await third.request(modernRequest('server/discover')), 503, 'max-connections', 2);
        assert.equal((await third.readToEnd()).length, 0);
    }
    server.child.kill('SIGSTOP'); // so that the request arrives before the rejection of its connection
    const early = await from(t, server, '127.0.0.3');
    await early.send(encodeRequest(server.port, modernRequest('server/discover')));
    server.child.kill('SIGCONT');
    refusedWith(await early.readResponse(), 503, 'max-connections', 2);
    assert.equal((await early.readToEnd()).length, 0);
    const failed = await new Promise((resolve) => early.socket.write('x', resolve));
    assert.ok(!failed, `what was sent before has reset it: ${failed}`);
    assert.equal((await first.request(modernRequest('server/discover'))).status, 200);
    second.close();
    const row = await eventually(async () => {
        const limits = await limitsOf(t, server).catch(() => undefined);
        return limits?.['max-connections'];
    }, 'the place is free');
    assert.equal(row.value, 2);
    assert.ok(row.reached >= 3);
    assert.equal(row.inUse, 2, 'the first, and this reader');
});

test('--max-client-connections: 429 for one client, others connect', async (t) => {
    const server = await start(t, '--max-client-connections', '2', '--workers', '2');
    const mine = [await connectAndAsk(t, server, '127.0.0.1'), await connectAndAsk(t, server, '127.0.0.1')];
    const third = await from(t, server, '127.0.0.1');
    const answer = await third.request(modernRequest('server/discover'));
    refusedWith(answer, 429, 'max-client-connections', 2);
    await connectAndAsk(t, server, '127.0.0.2');
    assert.equal(await reached(t, server, 'max-client-connections'), 1);
    mine[0].close();
    await eventually(async () => {
        const again = await from(t, server, '127.0.0.1');
        const { status } = await again.request(modernRequest('server/discover'));
        return status === 200;
    }, 'the place is free');
});

test('--max-client-connections: lines return an error, Unix sockets count by user', async (t) => {
    const tree = new Tree(t, files);
    const path = tree.aside();
    const doors = ['--tcp', '127.0.0.1:0', '--unix', path, '--max-client-connections', '1'];
    const server = await serveDoors(t, doors, { tree });
    const port = Number(new URL(server.doors[0]).port);
    for (const where of [{ host: '127.0.0.1', port }, { path }]) {
        const first = await SocketPeer.connect(t, where);
        await first.ask('modern', 'server/discover');
        const second = await SocketPeer.connect(t, where);
        const { error, id } = await second.message(() => true, 'a refusal');
        assert.equal(id, undefined);
        refused(error, 'max-client-connections', 1);
        await second.ended;
        assert.ok((await first.ask('modern', 'server/discover')).result);
        first.close();
        const asks = async () => {
            const peer = await SocketPeer.connect(t, where);
            const answer = await peer.ask('modern', 'server/discover').catch(() => ({}));
            return answer.result && peer;
        };
        const next = await eventually(asks, 'the place is free');
        assert.equal(await asks(), undefined, 'for one connection');
        next.close();
    }
});

test('--connection-rate: 429 with a retry time', async (t) => {
    const server = await start(t, '--connection-rate', '1', '--connection-burst', '2');
    const statuses = [];
    for (let i = 0; i < 8; i++) {
        const one = await from(t, server, '127.0.0.1');
        const response = await one.request(modernRequest('server/discover'));
        statuses.push(response.status);
        if (response.status === 429) {
            refusedWith(response, 429, 'connection-rate', 1);
            assert.equal(response.headers.get('retry-after'), '1');
            break;
        }
    }
    assert.ok(statuses.includes(429), `not after ${statuses.length}`);
    await connectAndAsk(t, server, '127.0.0.2');
    assert.equal(await reached(t, server, 'connection-rate'), 1);
});

test('--max-clients: 503 for clients that are not counted yet', async (t) => {
    const server = await start(t, '--max-clients', '2', '--max-client-connections', '5');
    await connectAndAsk(t, server, '127.0.0.1');
    await connectAndAsk(t, server, '127.0.0.2');
    const third = await from(t, server, '127.0.0.3');
    refusedWith(await third.request(modernRequest('server/discover')), 503, 'max-clients', 2);
    await connectAndAsk(t, server, '127.0.0.1');
    const row = (await limitsOf(t, server, '127.0.0.2'))['max-clients'];
    assert.equal(row.reached, 1);
    assert.equal(row.inUse, 2);
});

test('--max-clients: Unix socket users have the reserve', async (t) => {
    const path = new Tree(t).at('mcp.sock');
    const server = await start(t, '--max-clients', '4', '--max-client-connections', '5', '--http-unix', path);
    for (const address of ['127.0.0.1', '127.0.0.2', '127.0.0.3']) {
        await connectAndAsk(t, server, address);
    }
    const fourth = await from(t, server, '127.0.0.4');
    refusedWith(await fourth.request(modernRequest('server/discover')), 503, 'max-clients', 4);
    const user = await Connection.open(server, { host: undefined, port: undefined, path });
    defer(t, () => user.close());
    const local = ({ headers, ...one }) => ({ ...one, headers: { ...headers, Host: 'localhost' } });
    assert.equal((await user.request(local(modernRequest('server/discover')))).status, 200);
    const { inUse, reserve } = (await limitsOf(t, server, '127.0.0.1'))['max-clients'];
    assert.deepEqual([inUse, reserve], [4, 1]);
});

// ---- rates ------------------------------------------------------------------------------------

test('--request-rate: excess requests are rejected by id, and the connection stays open', async (t) => {
    const server = await start(t, '--request-rate', '1', '--request-burst', '5');
    const flood = await from(t, server, '127.0.0.1');
    const ids = Array.from({ length: 40 }, (_, i) => `r${i}`);
    const answers = await pipelined(flood, ids.map((id) => modernRequest('resources/list', {}, id)));
    assert.deepEqual(answers.map(({ json }) => json.id), ids);
    const good = answers.filter(({ status }) => status === 200);
    const bad = answers.filter(({ status }) => status !== 200);
    assert.ok(good.length >= 5 && bad.length > 0, `${good.length} and ${bad.length}`);
    for (const response of bad) {
        refusedWith(response, 429, 'request-rate', 1);
        assert.equal(response.json.error.code, -32603);
    }
    assert.equal(await reached(t, server, 'request-rate'), bad.length);
    const [other] = await pipelined(await from(t, server, '127.0.0.2'), [get(server.uri('a.txt'))]);
    assert.equal(other.status, 200);
    const later = await eventually(async () => {
        const response = await flood.request(modernRequest('resources/list'));
        return response.status === 200;
    }, 'there is one again');
    assert.ok(later);
});

test('--request-rate: pages and session deletes count too, preflights do not', async (t) => {
    const server = await start(t, '--request-rate', '1', '--request-burst', '1');
    const flood = await from(t, server, '127.0.0.1');
    const answers = await pipelined(flood, Array(20).fill(get(server.uri('a.txt'))));
    const bad = answers.filter(({ status }) => status !== 200);
    assert.ok(bad.length > 0);
    bad.forEach((response) => refusedWith(response, 429, 'request-rate', 1));
    const headers = { Origin: 'http://localhost', 'Access-Control-Request-Method': 'POST' };
    const asked = await pipelined(flood, Array(20).fill({ method: 'OPTIONS', headers }));
    asked.forEach(({ status }) => assert.equal(status, 204));
});

test('--request-rate: pipes reject by id; malformed requests are counted', async (t) => {
    const args = ['--tcp', '127.0.0.1:0', '--request-rate', '1', '--request-burst', '2'];
    const server = await serveDoors(t, args, { files });
    const where = { host: '127.0.0.1', port: Number(new URL(server.doors[0]).port) };
    const peer = await SocketPeer.connect(t, where);
    await peer.raw(`${JSON.stringify(initialize('2025-11-25', { id: 'hello' }))}\n`);
    assert.ok((await peer.message((m) => m.id === 'hello', 'hello')).result);
    const notes = Array(50).fill('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    const texts = [...notes, ...Array.from({ length: 20 }, (_, i) => JSON.stringify(ping(i)))];
    await peer.writeAll(texts);
    const answers = [];
    for (let id = 0; id < 20; id++) {
        answers.push(await peer.message((m) => m.id === id, `the answer to ${id}`));
    }
    const bad = answers.filter(({ error }) => error);
    assert.ok(bad.length > 0);
    bad.forEach(({ error }) => refused(error, 'request-rate', 1));
    const other = await SocketPeer.connect(t, { ...where, localAddress: '127.0.0.2' });
    assert.ok((await other.ask('modern', 'server/discover')).result);
});

test('--subscribe-rate: listens and subscribes are limited, other requests are not', async (t) => {
    const server = await start(t, '--subscribe-rate', '1', '--subscribe-burst', '3');
    const session = await Session.open(server);
    const tries = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
            session.send('resources/subscribe', { uri: server.uri(`${'abc'[i % 3]}.txt`) }),
        ),
    );
    const bad = tries.filter(({ status }) => status !== 200);
    assert.ok(bad.length > 0);
    bad.forEach((response) => refusedWith(response, 429, 'subscribe-rate', 1));
    assert.equal(await reached(t, server, 'subscribe-rate'), bad.length);
    const listens = await Promise.all(
        Array.from({ length: 20 }, () => modern(server, 'subscriptions/listen', { notifications: {} })),
    );
    const late = listens.filter(({ status }) => status !== 200);
    assert.ok(late.length > 0);
    late.forEach((response) => refusedWith(response, 429, 'subscribe-rate', 1));
    listens.forEach(({ events }) => events?.close());
    assert.ok((await session.call('resources/list')).resources.length > 0);
    const other = await from(t, server, '127.0.0.2');
    const wish = { notifications: { resourceSubscriptions: [server.uri('a.txt')] } };
    assert.equal((await other.request(modernRequest('subscriptions/listen', wish))).status, 200);
});

test('default rates do not apply to local clients', async (t) => {
    const server = await start(t);
    const flood = await from(t, server, '127.0.0.1');
    const answers = await pipelined(flood, Array.from({ length: 6000 }, () => modernRequest('server/discover')));
    answers.forEach(({ status }) => assert.equal(status, 200));
    assert.equal((await limitsOf(t, server))['max-clients'].inUse, 0);
});

const outside = Object.values(networkInterfaces())
    .flat()
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

test('default rates apply to remote clients', { skip: outside ? false : 'there is no other address' }, async (t) => {
    const args = ['--self', '--allow-remote'];
    const server = await serve(t, { files, http: '0.0.0.0:0', args });
    const flood = await Connection.open(server, { host: outside, localAddress: outside });
    defer(t, () => flood.close());
    const headers = (one) => ({ ...one.headers, Host: `${outside}:${server.port}` });
    const requests = Array.from({ length: 12000 }, () => modernRequest('server/discover'));
    const answers = pipelined(flood, requests.map((one) => ({ ...one, headers: headers(one) })));
    const refusals = (await answers).filter(({ status }) => status === 429);
    const limits = await limitsOf(t, server);
    assert.equal(limits['request-rate'].reached, refusals.length);
    assert.equal(limits['max-clients'].inUse, 1, 'it alone is counted');
    refusals.slice(0, 10).forEach((response) => refusedWith(response, 429, 'request-rate', 1000));
});

test('--block-after: client with too many rejections is blocked, and admitted later', async (t) => {
    const server = await start(
        t,
        ...['--request-rate', '1', '--request-burst', '1', '--block-after', '3', '--block-time', '2s'],
    );
    const flood = await from(t, server, '127.0.0.1');
    const answers = await pipelined(flood, Array.from({ length: 40 }, () => modernRequest('server/discover')));
    const blocked = answers.filter(({ json }) => json.error?.data.limit === 'block-after');
    assert.ok(blocked.length > 0, 'it was shut out');
    blocked.forEach((response) => refusedWith(response, 429, 'block-after', 3));
    assert.ok(blocked[0].json.error.data.retryAfterMs <= 2000);
    await connectAndAsk(t, server, '127.0.0.2');
    assert.ok((await reached(t, server, 'block-after')) >= blocked.length);
    await eventually(async () => {
        const again = await from(t, server, '127.0.0.1');
        const response = await again.request(modernRequest('server/discover'));
        again.close();
        return response.status === 200;
    }, 'it is let in again');
});

test('token holder counts as one client across addresses, separate from other clients', async (t) => {
    const tokens = new TokenFile(t);
    const alice = { Authorization: `Bearer ${tokens.give('alice')}` };
    const bob = { Authorization: `Bearer ${tokens.give('bob')}` };
    const server = await start(t, ...tokens.args, '--request-rate', '1', '--request-burst', '10');
    const requests = (who, count) =>
        Array.from({ length: count }, () => {
            const one = modernRequest('server/discover');
            return { ...one, headers: { ...one.headers, ...who } };
        });
    const flood = await from(t, server, '127.0.0.1');
    const answers = await pipelined(flood, requests(alice, 40));
    assert.ok(answers.some(({ status }) => status === 429));
    const elsewhere = await pipelined(await from(t, server, '127.0.0.2'), requests(alice, 40));
    assert.ok(elsewhere.filter(({ status }) => status === 200).length < 10, 'she has used hers up');
    const beside = await pipelined(await from(t, server, '127.0.0.1'), requests(bob, 10));
    beside.forEach(({ status, text }) => assert.equal(status, 200, text));
});

// ---- sessions and subscriptions ---------------------------------------------------------------

test('--max-sessions: 503 for the next session with any number of workers', async (t) => {
    const server = await start(t, '--max-sessions', '3', '--workers', '4');
    const sessions = [];
    for (let i = 0; i < 3; i++) {
        sessions.push(await Session.open(server));
    }
    const answer = await post(server, initialize());
    refusedWith(answer, 503, 'max-sessions', 3);
    assert.equal(answer.headers.get('mcp-session-id'), undefined);
    let row = (await limitsOf(t, server))['max-sessions'];
    assert.deepEqual([row.reached, row.inUse], [1, 3]);
    await sessions[1].end();
    sessions[1] = await Session.open(server);
    for (const session of sessions) {
        await session.call('ping');
        await session.end();
    }
    row = (await limitsOf(t, server))['max-sessions'];
    assert.equal(row.inUse, 0);
});

test('--max-client-sessions: 429 for one client, others keep theirs', async (t) => {
    const server = await start(t, '--max-client-sessions', '2', '--workers', '2', '--legacy-sse');
    const sessions = [await Session.open(server), await Session.open(server)];
    refusedWith(await post(server, initialize()), 429, 'max-client-sessions', 2);
    const other = await from(t, server, '127.0.0.2');
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    const body = JSON.stringify(initialize());
    assert.equal((await other.request({ method: 'POST', headers, body })).status, 200);
    const headersOfSse = { Accept: 'text/event-stream' };
    const sse = await request(server, { method: 'GET', path: '/sse', headers: headersOfSse });
    refusedWith(sse, 429, 'max-client-sessions', 2); // an HTTP+SSE stream counts too
    await sessions[0].end();
    const stream = await request(server, { method: 'GET', path: '/sse', headers: headersOfSse });
    assert.equal(stream.status, 200);
    refusedWith(await post(server, initialize()), 429, 'max-client-sessions', 2);
    stream.events.close();
    await eventually(async () => (await post(server, initialize())).status === 200, 'the place is free');
    assert.ok((await reached(t, server, 'max-client-sessions')) >= 3);
});

test('fifth stream of a session returns 409', async (t) => {
    const server = await start(t);
    const session = await Session.open(server);
    const streams = [];
    for (let i = 0; i < 4; i++) {
        streams.push(await session.stream());
    }
    assert.equal((await session.get()).status, 409);
    assert.equal(await reached(t, server, 'session-streams'), 1);
    streams.forEach((stream) => stream.close());
});

test('--max-listens, --max-uris-per-listen: errors name the limit', async (t) => {
    const args = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--self', '--max-listens', '1'];
    const server = await serveDoors(t, [...args, '--max-uris-per-listen', '2'], { files });
    server.port = Number(new URL(server.doors[0]).port);
    const port = Number(new URL(server.doors[1]).port);
    const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port });
    await peer.listen({ resourceSubscriptions: [server.uri('a.txt')] });
    const second = await peer.ask('modern', 'subscriptions/listen', { notifications: {} });
    refused(second.error, 'max-listens', 1);
    const uris = ['a', 'b', 'c'].map((name) => server.uri(`${name}.txt`));
    const wide = await modern(server, 'subscriptions/listen', {
        notifications: { resourceSubscriptions: uris },
    });
    assert.equal(wide.status, 200);
    assert.equal(wide.json.error.code, -32602);
    refused(wide.json.error, 'max-uris-per-listen', 2, { retries: false });
    const limits = await limitsOf(t, server);
    assert.equal(limits['max-listens'].reached, 1);
    assert.equal(limits['max-uris-per-listen'].reached, 1);
});

test('--max-subscriptions, --max-all-subscriptions: subscriptions are counted and freed one by one', async (t) => {
    const args = ['--max-subscriptions', '2', '--max-all-subscriptions', '3', '--workers', '2'];
    const server = await start(t, ...args);
    const uris = ['a', 'b', 'c'].map((name) => server.uri(`${name}.txt`));
    const first = await listen(server, { resourceSubscriptions: uris });
    assert.deepEqual(first.ack.notifications.resourceSubscriptions, uris.slice(0, 2));
    let [why] = first.ack._meta[key.refused];
    assert.deepEqual(why.data, { limit: 'max-subscriptions', value: 2 });
    const second = await listen(server, { resourceSubscriptions: uris.slice(1) });
    assert.deepEqual(second.ack.notifications.resourceSubscriptions, uris.slice(1, 2));
    [why] = second.ack._meta[key.refused];
    assert.deepEqual(why.data, { limit: 'max-all-subscriptions', value: 3, retryAfterMs: 1000 });
    const session = await Session.open(server);
    const { json } = await session.send('resources/subscribe', { uri: uris[0] });
    assert.equal(json.error.data.limit, 'max-all-subscriptions');
    let limits = await limitsOf(t, server);
    assert.equal(limits['max-subscriptions'].reached, 1);
    assert.equal(limits['max-all-subscriptions'].reached, 2);
    assert.equal(limits['max-all-subscriptions'].inUse, 3);
    first.events.close();
    second.events.close();
    await eventually(async () => {
        limits = await limitsOf(t, server);
        return limits['max-all-subscriptions'].inUse === 0;
    }, 'all are given back');
    await session.subscribe(uris[0]);
});

test('--max-breadth: subscriptions that cover whole mounts are counted', async (t) => {
    const server = await start(t, '--max-breadth', '0');
    const { ack } = await listen(server, { resourceSubscriptions: ['file:///**'] });
    assert.match(ack._meta[key.refused][0].reason, /--max-breadth/);
    assert.equal(await reached(t, server, 'max-breadth'), 1);
});

// ---- after all limits -------------------------------------------------------------------------

test('counters return to zero after many connects and disconnects', async (t) => {
    const server = await start(
        t,
        ...['--max-client-connections', '100', '--max-client-sessions', '100', '--workers', '2'],
    );
    const round = async (i) => {
        const address = `127.0.1.${i % 20}`;
        const one = await from(t, server, address);
        const wish = { notifications: { resourceSubscriptions: [server.uri('a.txt')] } };
        const open = await one.request(modernRequest('subscriptions/listen', wish));
        await open.events.message(() => true, 'the acknowledgement');
        const session = await Session.open(server);
        await session.subscribe(server.uri('b.txt'));
        await (i % 2 ? session.end() : Promise.resolve(one.reset()));
        one.close();
        return i % 2 ? undefined : session;
    };
    const rest = await Promise.all(Array.from({ length: 60 }, (_, i) => round(i)));
    await Promise.all(rest.map((session) => session?.end()));
    const asking = await from(t, server, '127.0.0.99');
    await eventually(async () => {
        const limits = await limitsOn(asking);
        return (
            limits['max-connections'].inUse === 1 &&
            limits['max-sessions'].inUse === 0 &&
            limits['max-all-subscriptions'].inUse === 0
        );
    }, 'only the one who asks is left');
    assert.ok((await call(server, 'resources/list')).resources.length > 0);
});
