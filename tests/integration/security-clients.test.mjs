// SPDX-License-Identifier: MIT
//
// Many concurrent clients. Answers and notifications reach their own clients regardless of shared ids, disconnects
// and workers, and no client stops the server.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { Connection, encodeRequest } from './lib/http.mjs';
import {
    call,
    initialize,
    listen,
    meta,
    modernHeaders,
    post,
    Session,
    totals,
    updates,
} from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';
import { encodeFrame, FIN, OP, WebSocketRaw } from './lib/websocket.mjs';

const CLIENTS = 12;
const ROUNDS = 25;
const names = Array.from({ length: CLIENTS }, (_, i) => `client-${i}.txt`);
// Half of them are so large that another thread reads them for a later answer.
const content = (name, i) => `only for ${name}${' '.repeat(i % 4 < 2 ? 0 : 80_000)}`;
const files = Object.fromEntries(names.map((name, i) => [name, content(name, i)]));
const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

const readMessage = (uri, id) => ({
    jsonrpc: '2.0',
    id,
    method: 'resources/read',
    params: { uri, _meta: meta() },
});

/** The answer to a read by client `name` with that id, without other data. */
function isMine(answer, name, id) {
    const text = answer.result?.contents?.[0].text ?? JSON.stringify(answer);
    assert.equal(answer.id, id, text.slice(0, 200));
    assert.ok(text === files[name], `${name} was told: ${text.slice(0, 200)}`);
}

// ---- shared ids

test('routing: concurrent equal ids over HTTP reach their own clients', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '3'] });
    const work = names.map(async (name, client) => {
        const uri = server.uri(name);
        const headers = { ...json, ...modernHeaders('resources/read', { uri }) };
        for (let round = 0; round < ROUNDS; round++) {
            const connection = await Connection.open(server);
            // three at once on one connection, as a pool or a proxy might send them
            const bytes = [1, 2, 3].map((id) =>
                encodeRequest(server.port, { headers, body: JSON.stringify(readMessage(uri, id)) }),
            );
            await connection.send(Buffer.concat(bytes));
            if ((client + round) % 4 === 0) {
                connection.reset(); // disconnected with three pending answers
                continue;
            }
            for (const id of [1, 2, 3]) {
                isMine((await connection.readResponse()).json, name, id);
            }
            connection.close();
        }
    });
    await Promise.all(work);
});

test('routing: concurrent equal ids in lines and WebSockets reach their own clients', async (t) => {
    const tree = new Tree(t, files);
    const doors = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0'];
    const server = await serveDoors(t, doors, { tree, args: ['--workers', '3'] });
    const [web, lines] = server.doors.map((url) => ({ port: Number(new URL(url).port) }));
    const open = (client) =>
        client % 2 === 0
            ? SocketPeer.connect(t, { host: '127.0.0.1', port: lines.port })
            : WebSocketRaw.open(web);
    const peers = await Promise.all(names.map((_, client) => open(client)));
    const work = names.map(async (name, client) => {
        const uri = tree.uri(name);
        const peer = peers[client];
        const isSocket = client % 2 === 0;
        const ids = Array.from({ length: ROUNDS }, (_, i) => i + 1);
        const cancel = (id) => ({
            jsonrpc: '2.0',
            method: 'notifications/cancelled',
            params: { requestId: id },
        });
        const all = ids.flatMap((id) => [readMessage(uri, id), ...(id % 5 === 0 ? [cancel(id)] : [])]);
        const texts = all.map((message) => JSON.stringify(message));
        if (isSocket) {
            await peer.writeAll(texts);
        } else {
            await peer.send(Buffer.concat(texts.map((text) => encodeFrame(FIN | OP.text, text))));
        }
        for (const id of ids.filter((n) => n % 5 !== 0)) {
            isMine(await peer.message((m) => m.id === id, `the answer ${id} for ${name}`), name, id);
        }
        const heard = isSocket ? peer.inbox.seen : peer.messages;
        heard.forEach((m) => m.id % 5 !== 0 || isMine(m, name, m.id)); // too late to be cancelled
        peer.close();
    });
    await Promise.all(work);
});

test('routing: sessions that share connections and ids are isolated on every worker', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '3'] });
    const sessions = await Promise.all(names.map(() => Session.open(server)));
    const workers = new Set(sessions.map(({ id }) => id.split('-')[0]));
    assert.ok(workers.size > 1, `all sessions are on one worker: ${[...workers]}`);
    const asked = (session, uri) => ({
        headers: { ...json, ...session.headers },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri } }),
    });
    const work = Array.from({ length: 6 }, async (_, turn) => {
        const connection = await Connection.open(server);
        for (let i = 0; i < CLIENTS; i++) {
            // each request belongs to another session, and therefore sometimes to another worker
            const which = [(i * 5 + turn) % CLIENTS, (i * 7 + turn + 1) % CLIENTS];
            const bytes = which.map((n) =>
                encodeRequest(server.port, asked(sessions[n], server.uri(names[n]))),
            );
            await connection.send(Buffer.concat(bytes));
            for (const n of which) {
                const answer = await connection.readResponse();
                isMine(answer.json ?? (await answer.events.message()), names[n], 1);
            }
        }
        connection.close();
    });
    await Promise.all(work);
});

test('routing: listens with the same id receive only their own resources', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '3'] });
    const listens = await Promise.all(
        names.map((name) => listen(server, { resourceSubscriptions: [server.uri(name)] }, { id: 1 })),
    );
    names.forEach((name) => server.tree.replace(name, 'changed'));
    await Promise.all(
        listens.map(({ events }, i) => events.message(updates(server.uri(names[i])), 'its own update')),
    );
    listens.forEach(({ events }, i) => {
        const uris = events.messages.filter((m) => m.params?.uri).map((m) => m.params.uri);
        assert.deepEqual([...new Set(uris)], [server.uri(names[i])]);
    });
});

test('routing: session id is unpredictable from other ids', async (t) => {
    const server = await serve(t, { files, args: ['--workers', '1'] });
    const ids = [];
    for (let i = 0; i < 64; i++) {
        ids.push((await Session.open(server)).id.split('-')[1]);
    }
    assert.ok(ids.every((id) => /^[0-9a-f]{32}$/.test(id)), ids[0]);
    for (let at = 0; at < 32; at++) {
        const digits = new Set(ids.map((id) => id[at]));
        assert.ok(digits.size > 3, `digit ${at} is one of ${[...digits]}`);
    }
});

// ---- vanishing clients and malformed messages

test('survival: clients that vanish at any point leave the server unchanged', async (t) => {
    const server = await serve(t, { files, args: ['--self'] });
    const uri = server.uri(names[0]);
    const ways = [(c) => c.reset(), (c) => c.close(), (c) => c.finish()];
    const listening = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'subscriptions/listen',
        params: { notifications: { resourceSubscriptions: [uri] }, _meta: meta() },
    });
    const whole = encodeRequest(server.port, {
        headers: { ...json, ...modernHeaders('subscriptions/listen') },
        body: listening,
    });
    const session = await Session.open(server);
    const initialised = encodeRequest(server.port, { headers: json, body: JSON.stringify(initialize()) });
    const subscribed = encodeRequest(server.port, {
        headers: { ...json, ...session.headers },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri } }),
    });
    for (const bytes of [whole, initialised, subscribed]) {
        for (let cut = 0; cut <= bytes.length; cut += Math.ceil(bytes.length / 12)) {
            for (const leave of ways) {
                const connection = await Connection.open(server);
                await connection.send(bytes.subarray(0, cut));
                leave(connection);
            }
        }
    }
    const events = await session.stream();
    events.connection.reset(); // while the stream is open
    server.tree.replace(names[0], 'changed');
    const { contents } = await call(server, 'resources/read', { uri });
    assert.equal(contents[0].text, 'changed');
    assert.equal((await session.send('ping')).status, 200, 'the session is there');
    await session.end();
    await eventually(
        async () => (await totals(server)).subscriptions === 0,
        'nobody is subscribed any more',
    );
});

const SHAPES = [null, true, 0, -1, 1e300, '', 'x', [], [[]], {}, { '': 0 }, { $ref: '#' }];
const METHODS = [
    'initialize',
    'server/discover',
    'resources/list',
    'resources/read',
    'resources/subscribe',
    'resources/unsubscribe',
    'resources/metadata',
    'resources/templates/list',
    'subscriptions/listen',
    'completion/complete',
    'tools/call',
    'tools/list',
    'prompts/get',
    'logging/setLevel',
    'notifications/cancelled',
    'notifications/initialized',
    'no/such/method',
];

test('survival: every method answers every shape of parameters', async (t) => {
    const server = await serve(t, { files, args: ['--publish', 'pub:///', '--allow-write'] });
    const session = await Session.open(server);
    const keys = ['uri', 'cursor', 'name', 'arguments', 'notifications', 'ref', 'level', '_meta'];
    for (const method of METHODS) {
        for (const shape of SHAPES) {
            const wrong = Object.fromEntries(keys.map((name) => [name, shape]));
            for (const params of [shape, wrong, { ...wrong, _meta: meta({ 'dev.tidings/options': shape }) }]) {
                const message = { jsonrpc: '2.0', id: 1, method, params };
                for (const headers of [session.headers, modernHeaders(method)]) {
                    const answer = await post(server, message, headers);
                    answer.events?.close();
                    assert.ok(answer.status < 500, `${method} ${JSON.stringify(params)}: ${answer.status}`);
                }
            }
        }
    }
    const { contents } = await call(server, 'resources/read', { uri: server.uri(names[0]) });
    assert.equal(contents[0].text, files[names[0]]);
});

test('names: message members are matched exactly, duplicates are rejected', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri(names[0]);
    const asked = JSON.stringify(readMessage(uri, 1));
    const others = [
        asked.replace('"method"', '"Method"'),
        asked.replace('"method"', '"METHOD"'),
        asked.replace('"params"', '"param\u017f"'), // a letter that folds to s
        asked.replace('"jsonrpc"', '"JsonRpc"'),
        asked.replace('"uri"', '"URI"'),
        asked.replace('"method"', '"method":"ping","method"'),
        asked.replace('"id":1', '"id":1,"id":2'),
        asked.replace('"uri"', '"uri":"file:///etc/passwd","uri"'),
        asked.replace('"uri"', '"uri":"file:///etc/passwd","\\u0075ri"'),
    ];
    const headers = modernHeaders('resources/read', { uri });
    for (const text of others) {
        const answer = await post(server, text, headers);
        assert.ok(answer.json?.error, `${text}: ${answer.text}`);
        assert.ok([400, 404].includes(answer.status), `${text}: ${answer.status}`);
    }
    isMine((await post(server, asked, headers)).json, names[0], 1);
});
