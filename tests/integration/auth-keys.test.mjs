// SPDX-License-Identifier: MIT
//
// Fetches from an authorization server: when and how often the server fetches keys and introspection results, which
// requests wait, and which streams end with a token.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { AuthorizationServer, BRIEF, EXPIRY, start, statusOf } from './lib/authorization-server.mjs';
import { Connection, encodeRequest, request } from './lib/http.mjs';
import { call, listen, modern, Session, updates } from './lib/rpc.mjs';
import { as, challenge, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually, within } from './lib/wait.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

test('new key is fetched when a token names it and old keys expire with their set', async (t) => {
    const { server, authority, show, uri } = await start(t, { fetched: true });
    const before = await show();
    assert.equal(await statusOf(before, uri), 200);
    assert.equal(authority.asked('/jwks'), 1);
    const old = authority.keys[0];
    await authority.rotate('ES256', { keep: 0 });
    assert.equal(await statusOf(await show(), uri), 200);
    assert.equal(authority.asked('/jwks'), 2);
    const forged = as(server, await authority.token(server.url, { key: old, sub: 'bob' }));
    assert.equal(await statusOf(forged, uri), 401, 'a key that was withdrawn');
});

test('flood of unknown keys causes almost no load on the authorization server', async (t) => {
    const { authority, show, uri } = await start(t, { fetched: true });
    assert.equal(await statusOf(await show(), uri), 200);
    const before = authority.asked('/jwks');
    const begun = Date.now();
    for (let i = 0; i < 60; i += 1) {
        const forged = await show({ header: { kid: `k${i}` } });
        assert.equal(await statusOf(forged, uri), 401);
    }
    const more = authority.asked('/jwks') - before;
    const allowed = 4 + (Date.now() - begun) / 30_000; // three in a burst, then one in 30 s
    assert.ok(more <= allowed, `${more} fetches for 60 unknown keys`);
    assert.equal(await statusOf(await show({ sub: 'bob' }), uri), 200, 'others are not in their way');
});

test('requests get 503 with Retry-After until the keys are available again', async (t) => {
    const authority = await AuthorizationServer.start(t);
    authority.broken = true;
    const { show, uri } = await start(t, { issuer: authority, fetched: true });
    const answer = await modern(await show(), 'resources/read', { uri });
    assert.equal(answer.status, 503, answer.text);
    assert.match(answer.headers.get('retry-after'), /^[1-9]\d*$/);
    assert.equal(answer.headers.get('www-authenticate'), undefined);
    authority.broken = false;
    await eventually(async () => (await statusOf(await show(), uri)) === 200, 'the keys are there', 60_000);
});

/** A request in progress: { answer, isAnswered }. */
function under(promise) {
    const it = { isAnswered: false };
    it.answer = promise.finally(() => {
        it.isAnswered = true;
    });
    return it;
}

test('request that waits for keys delays no other request and resumes by itself', async (t) => {
    const authority = await AuthorizationServer.start(t);
    const tokens = new TokenFile(t);
    const known = tokens.give('carol');
    let release;
    authority.held = new Promise((resolve) => {
        release = resolve;
    });
    const { server, show, uri } = await start(t, {
        issuer: authority,
        fetched: true,
        args: [...tokens.args, '--workers', '1'],
    });
    const waiting = under(modern(await show(), 'resources/read', { uri }));
    const listening = under(listen(await show({ sub: 'bob' }), { resourceSubscriptions: [uri] }));
    await eventually(() => authority.asked('/jwks') > 0, 'the keys are asked for');
    for (let i = 0; i < 20; i += 1) {
        assert.equal(await statusOf(as(server, known), uri), 200);
    }
    assert.deepEqual([waiting.isAnswered, listening.isAnswered], [false, false]);
    release();
    assert.equal((await waiting.answer).status, 200);
    const { events } = await listening.answer;
    server.tree.replace('a.txt', '2');
    await events.message(updates(uri), 'an update');
    events.close();
});

test('client that leaves cancels its key request and a waiting client is answered in time', async (t) => {
    const authority = await AuthorizationServer.start(t);
    let release;
    authority.held = new Promise((resolve) => {
        release = resolve;
    });
    const { server, show, uri } = await start(t, {
        issuer: authority,
        fetched: true,
        args: ['--header-timeout', '2s'],
    });
    const gone = await show();
    const headers = { 'Content-Type': 'application/json', ...gone.headers };
    for (let i = 0; i < 5; i += 1) {
        const connection = await Connection.open(server);
        await connection.send(encodeRequest(server.port, { headers, body: '{}' }));
        connection.close();
    }
    const late = await modern(await show(), 'resources/read', { uri });
    assert.equal(late.status, 503);
    assert.ok(late.headers.get('retry-after'));
    release();
    await eventually(async () => (await statusOf(await show(), uri)) === 200, 'the keys are there', 60_000);
});

test('opaque token is introspected with credentials and cached briefly', async (t) => {
    const authority = await AuthorizationServer.start(t);
    const secret = new Tree(t).at('credentials');
    writeFileSync(secret, `${authority.credentials.id}:${authority.credentials.secret}\n`, { mode: 0o600 });
    const { server, uri, show } = await start(t, {
        issuer: authority,
        args: ['--auth-introspection', `${authority.issuer}/introspect`, '--auth-credentials', secret,
            '--auth-scope', 'files:read', '--workers', '1'],
    });
    const opaque = (claims) => as(server, authority.issueOpaque(server.url, { scope: 'files:read', ...claims }));
    const alice = opaque();
    for (let i = 0; i < 5; i += 1) {
        assert.equal(await statusOf(alice, uri), 200);
    }
    assert.equal(authority.asked('/introspect'), 1);
    assert.equal(await statusOf(opaque({ scope: 'other' }), uri), 403);
    assert.equal(await statusOf(opaque({ active: false }), uri), 401);
    assert.equal(await statusOf(opaque({ aud: 'https://other.example' }), uri), 401);
    assert.equal(await statusOf(as(server, randomBytes(16).toString('hex')), uri), 401);
    assert.equal(await statusOf(await show({ scope: 'files:read' }), uri), 200, 'JWTs as before');
    authority.broken = true;
    const answer = await modern(opaque(), 'resources/read', { uri });
    assert.equal(answer.status, 503);
    assert.ok(answer.headers.get('retry-after'));
});

test('stream ends cleanly with its token and a session continues with the next token', async (t) => {
    const { server, authority, show, uri } = await start(t, { args: ['--auth-leeway', '0', '--legacy-sse'] });
    authority.seconds = BRIEF;
    const brief = await show();
    const open = await listen(brief, { resourceSubscriptions: [uri] });
    const session = await Session.open(brief);
    await session.subscribe(uri);
    const stream = await session.stream();
    const ws = await WebSocketRaw.open(server, { headers: brief.headers });
    const accept = { Accept: 'text/event-stream' };
    const sse = await request(brief, { method: 'GET', path: '/sse', headers: accept });
    server.tree.replace('a.txt', '2');
    await open.events.message(updates(uri), 'an update');
    await stream.message(updates(uri), 'an update');
    const last = stream.seen.findLast((item) => item.id).id;
    const end = await open.events.message((m) => m.id === open.id && m.result, 'the result of the listen', EXPIRY);
    assert.equal(end.result.resultType, 'complete');
    await within(open.events.over, 'the end of the listen', EXPIRY);
    await within(stream.over, 'the end of the stream', EXPIRY);
    await within(sse.events.over, 'the end of HTTP+SSE', EXPIRY);
    await ws.write({ jsonrpc: '2.0', id: 1, method: 'ping' });
    const goodbye = await ws.frames.next((frame) => frame.code, 'the goodbye of the WebSocket');
    assert.deepEqual([goodbye.code, goodbye.reason], [1008, 'the token has expired']);
    ws.connection.close();
    const answer = await session.send('ping');
    assert.equal(answer.status, 401);
    assert.match(challenge(answer).error_description, /expired/);
    server.tree.replace('a.txt', '3');
    authority.seconds = 3600;
    session.server = await show();
    const resumed = await session.stream(last);
    await resumed.message(updates(uri), 'what was missed', 30_000);
    session.server = await show({ sub: 'mallory' });
    assert.equal((await session.send('ping')).status, 404);
    assert.ok((await call(await show(), 'resources/list')).resources);
    resumed.close();
});
