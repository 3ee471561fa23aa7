// SPDX-License-Identifier: MIT
//
// A token removed from the token file: its streams end and others continue.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { listen, modern, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, reloaded, TokenFile } from './lib/tokens.mjs';
import { within } from './lib/wait.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

test('streams of a revoked token end cleanly and others continue', async (t) => {
    const tokens = new TokenFile(t);
    const lost = tokens.give('alice', 'files:read');
    const kept = tokens.give('bob', 'files:read');
    const server = await serve(t, { files: { 'a.txt': '1' }, args: [...tokens.args, '--workers', '2', '--legacy-sse'] });
    const [alice, bob] = [as(server, lost), as(server, kept)];
    const notifications = { resourceSubscriptions: [server.uri('a.txt')] };
    const mine = await listen(alice, notifications);
    const theirs = await listen(bob, notifications);
    const session = await Session.open(alice);
    await session.subscribe(server.uri('a.txt'));
    const stream = await session.stream();
    const ws = await WebSocketRaw.open(server, { headers: { Authorization: `Bearer ${lost}` } });
    assert.ok((await ws.modern('resources/list')).result);
    const sse = await request(alice, { method: 'GET', path: '/sse', headers: { Accept: 'text/event-stream' } });
    assert.equal(sse.status, 200);

    tokens.take(lost);
    await reloaded(server);
    await mine.events.message((m) => m.id === mine.id && m.result, 'the result of the listen');
    await within(stream.over, 'the end of the stream of the session');
    await within(sse.events.over, 'the end of the other stream');
    assert.equal((await modern(alice, 'resources/list')).status, 401);

    server.tree.replace('a.txt', '2');
    await theirs.events.message(updates(server.uri('a.txt')), 'an update for the other');
    theirs.events.close();
    await within(ws.frames.over, 'the end of the WebSocket');
    ws.connection.close();
});

test('reload keeps streams of an unchanged token', async (t) => {
    const tokens = new TokenFile(t);
    const token = tokens.give('alice');
    const server = await serve(t, { files: { 'a.txt': '1' }, args: tokens.args });
    const uri = server.uri('a.txt');
    const { events } = await listen(as(server, token), { resourceSubscriptions: [uri] });
    for (const name of ['bob', 'carol']) {
        tokens.give(name);
        await reloaded(server);
    }
    server.tree.replace('a.txt', '2');
    await events.message(updates(uri), 'an update');
    events.close();
});
