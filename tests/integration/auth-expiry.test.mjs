// SPDX-License-Identifier: MIT
//
// Credentials that end in use: certificates that expire, keys that leave a set, and tokens that expire or are revoked
// under an idle WebSocket.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { BRIEF, EXPIRY, start, statusOf } from './lib/authorization-server.mjs';
import { Certificates } from './lib/certs.mjs';
import { defer } from './lib/cleanup.mjs';
import { Connection, request } from './lib/http.mjs';
import { listen, modern, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, reloaded, TokenFile } from './lib/tokens.mjs';
import { within } from './lib/wait.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const files = { 'a.txt': '1' };

/** Opens every kind of stream to `server` with its credentials. */
async function openAll(server, uri) {
    const open = await listen(server, { resourceSubscriptions: [uri] });
    const session = await Session.open(server);
    await session.subscribe(uri);
    const stream = await session.stream();
    const ws = await WebSocketRaw.open(server, { headers: server.headers });
    const sse = await request(server, { method: 'GET', path: '/sse', headers: { ...server.headers, Accept: 'text/event-stream' } });
    assert.equal(sse.status, 200);
    return {
        /** All streams end cleanly by themselves; the WebSocket reports `reason`. */
        async ends(reason, ms) {
            await open.events.message((m) => m.id === open.id && m.result, 'the result of the listen', ms);
            await within(stream.over, 'the end of the stream of the session', ms);
            await within(sse.events.over, 'the end of HTTP+SSE', ms);
            const { code, reason: said } = await ws.goodbye('the end of the WebSocket', ms);
            assert.deepEqual([code, said], [1008, reason]);
            ws.close();
        },
        close() {
            [open.events, stream, sse.events, ws].forEach((one) => one.close());
        },
    };
}

// ---- certificates -------------------------------------------------------------------------------

// In parallel, since they mostly wait.
describe('connections and streams end with their credentials', { concurrency: 4 }, () => {
    test('connection ends with its certificate and its ticket resumes nothing', async (t) => {
        const certs = new Certificates(t).make('server').brief('alice', BRIEF);
        const args = ['--tls-client-ca', certs.file('ca.pem'), '--tls-client-auth', 'require', '--keepalive', '1h'];
        const doors = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0', '--legacy-sse', ...certs.args('server'), ...args];
        const server = await serveDoors(t, doors, { files });
        server.port = Number(new URL(server.doors[0]).port);
        server.secure = certs.client('alice');
        const uri = server.tree.uri('a.txt');
        const all = await openAll(server, uri);

        const kept = await Connection.open(server);
        defer(t, () => kept.close());
        const read = { method: 'GET', path: `/resource?uri=${encodeURIComponent(uri)}`, headers: { Host: 'localhost' } };
        let ticket;
        kept.socket.on('session', (session) => {
            ticket = session;
        });
        assert.equal((await kept.request(read)).status, 200);
        const again = async () => {
            const connection = await Connection.open({ port: server.port, secure: { ...server.secure, session: ticket } });
            defer(t, () => connection.close());
            const { status } = await connection.request(read);
            return { status, reused: connection.socket.isSessionReused() };
        };
        assert.deepEqual(await again(), { status: 200, reused: true });

        const port = Number(new URL(server.doors[1].replace('tls:', 'http:')).port);
        const lines = await SocketPeer.connect(t, { host: '127.0.0.1', port, secure: server.secure });
        assert.ok((await lines.ask('modern', 'resources/list')).result);

        await all.ends('the certificate has expired', EXPIRY);
        const { error } = await lines.message((m) => m.error, 'a last word', EXPIRY);
        assert.match(error.message, /certificate .* has expired/);
        await within(lines.ended, 'the end of the lines', EXPIRY);
        const late = await kept.request(read);
        assert.equal(late.status, 403);
        assert.match(late.text, /certificate .* has expired/);
        await assert.rejects(again(), 'a ticket of a certificate that has expired is good for nothing');
    });

    // ---- keys ---------------------------------------------------------------------------------------

    test('streams end at the reload that withdraws their key, even the last key, and others continue', async (t) => {
        const { server, authority, file, uri } = await start(t, { args: ['--legacy-sse', '--keepalive', '1h', '--workers', '2'] });
        const publish = async (...keys) => {
            authority.keys = keys;
            writeFileSync(file, JSON.stringify(await authority.jwks()));
            await reloaded(server);
        };
        const [first] = authority.keys;
        await authority.rotate('ES256');
        const [second] = authority.keys;
        await publish(second, first);
        const shown = async (sub, key) => as(server, await authority.token(server.url, { sub, key }));
        const [alice, bob] = [await shown('alice', first), await shown('bob', second)];
        const mine = await openAll(alice, uri);
        const theirs = await openAll(bob, uri);
        const watching = await listen(bob, { resourceSubscriptions: [uri] });

        await publish(second);
        assert.equal(await statusOf(alice, uri), 401);
        await mine.ends('the token was revoked');
        server.tree.replace('a.txt', '2');
        await watching.events.message(updates(uri), 'an update for the other');
        assert.equal(await statusOf(bob, uri), 200);

        await publish();
        assert.equal(await statusOf(bob, uri), 401);
        await theirs.ends('the token was revoked');
        await within(watching.events.over, 'the end of the other listen');

        await publish(first);
        assert.equal(await statusOf(alice, uri), 200, 'a key that comes back is good again');
    });

    test('streams end when their fetched key is withdrawn', async (t) => {
        const { server, authority, show, uri } = await start(t, { fetched: true, args: ['--legacy-sse', '--keepalive', '1h'] });
        const alice = await show();
        const mine = await openAll(alice, uri);
        const before = authority.asked('/jwks');
        authority.keys = [];
        await reloaded(server);
        await mine.ends('the token was revoked');
        assert.ok(authority.asked('/jwks') > before);
        assert.equal(await statusOf(alice, uri), 401);
    });

    test('reload keeps streams of an unchanged key', async (t) => {
        const { server, authority, show, file, uri } = await start(t);
        const { events } = await listen(await show(), { resourceSubscriptions: [uri] });
        const ws = await WebSocketRaw.open(server, { headers: (await show()).headers });
        await authority.rotate('ES256');
        const { keys } = await authority.jwks();
        // Another order, other members, another key.
        writeFileSync(file, JSON.stringify({ keys: keys.map((key) => ({ x5t: 'x', ...key })) }, null, 2));
        await reloaded(server);
        assert.ok((await ws.modern('resources/list')).result);
        server.tree.replace('a.txt', '2');
        await events.message(updates(uri), 'an update');
        events.close();
        ws.close();
    });

    // ---- WebSockets ---------------------------------------------------------------------------------

    test('idle WebSocket ends when its token expires', async (t) => {
        const { server, authority, show } = await start(t, { args: ['--auth-leeway', '0', '--keepalive', '1h'] });
        const lasting = await WebSocketRaw.open(server, { headers: (await show({ sub: 'bob' })).headers });
        authority.seconds = BRIEF;
        const begun = Date.now();
        const ws = await WebSocketRaw.open(server, { headers: (await show()).headers });
        const { code, reason } = await ws.goodbye('its end', EXPIRY);
        assert.deepEqual([code, reason], [1008, 'the token has expired']);
        assert.ok(Date.now() - begun > (BRIEF - 2) * 1000, 'not before');
        assert.ok((await lasting.modern('resources/list')).result, 'others go on');
        ws.close();
        lasting.close();
    });

    test('WebSocket messages are rejected after the reload that revokes their token', async (t) => {
        const tokens = new TokenFile(t);
        const server = await serve(t, { files, args: [...tokens.args, '--workers', '1'] });
        for (let i = 0; i < 20; i += 1) {
            const token = tokens.give(`alice${i}`);
            await reloaded(server);
            const ws = await WebSocketRaw.open(server, { headers: { Authorization: `Bearer ${token}` } });
            assert.ok((await ws.modern('resources/list')).result);
            tokens.take(token);
            await reloaded(server);
            const before = ws.messages.length;
            await ws.write({ jsonrpc: '2.0', id: 'late', method: 'ping' });
            assert.equal((await ws.goodbye()).reason, 'the token was revoked');
            assert.equal(ws.messages.length, before, 'it was answered');
            ws.close();
        }
        assert.equal((await modern(server, 'resources/list')).status, 401);
    });
});
