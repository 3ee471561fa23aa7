// SPDX-License-Identifier: MIT
//
// Bearer tokens on HTTP: where the server requires them, how it answers without a valid token, the order of checks, and
// the owners of sessions. The tokens are lines of a file; auth-issuer.test.mjs tests tokens of an authorization server,
// and auth-clients.test.mjs tests official clients.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { SocketPeer } from '../contract/transport/lines.mjs';
import { Certificates } from './lib/certs.mjs';
import { Connection, encodeRequest, request } from './lib/http.mjs';
import { call, freshId, initialize, listen, modern, post, Session, updates } from './lib/rpc.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { as, challenge, reloaded, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';
import { upgrade, WebSocketRaw } from './lib/websocket.mjs';

const files = { 'a.txt': '1' };
const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

/** A server that requires files:read, and a client with that scope. */
async function start(t, { args = [], scopes = ['files:read'] } = {}) {
    const tokens = new TokenFile(t);
    const token = tokens.give('alice', ...scopes);
    const needed = scopes.flatMap((scope) => ['--auth-scope', scope]);
    const server = await serve(t, { files, args: [...tokens.args, ...needed, ...args] });
    return { server, tokens, token, alice: as(server, token), uri: server.uri('a.txt') };
}

/** A file with the key of an issuer that no test token uses (RFC 7517, A.1). */
function keysFile(t) {
    const key = {
        kty: 'EC',
        crv: 'P-256',
        x: 'MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4',
        y: '4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM',
    };
    const tree = new Tree(t, { 'keys.json': JSON.stringify({ keys: [key] }) });
    return tree.at('keys.json');
}

/** Every endpoint. */
const ways = (uri) => ({
    'POST /mcp': { headers: json, body: JSON.stringify(initialize()) },
    'GET /mcp': { method: 'GET', headers: { Accept: 'text/event-stream' } },
    'DELETE /mcp': { method: 'DELETE' },
    'a WebSocket': { method: 'GET', headers: upgrade },
    'GET /sse': { method: 'GET', path: '/sse', headers: { Accept: 'text/event-stream' } },
    'POST /messages': { path: '/messages?sessionId=x', headers: json, body: '{}' },
    'GET /events': { method: 'GET', path: '/events', headers: { Accept: 'text/event-stream' } },
    'GET /resource': { method: 'GET', path: `/resource?uri=${encodeURIComponent(uri)}` },
    'HEAD /resource': { method: 'HEAD', path: `/resource?uri=${encodeURIComponent(uri)}` },
    'PUT /resource': { method: 'PUT', path: '/resource?uri=app%3A%2F%2F%2Fx', body: 'x' },
    'GET /entity': { method: 'GET', path: '/entity/User@1.0/1' },
});

test('every endpoint requires a token and reports a missing token without an error', async (t) => {
    const { server, uri } = await start(t, {
        args: ['--legacy-sse', '--profile', 'erlmcp', '--allow-write', '--entities', ':memory:'],
    });
    for (const [name, options] of Object.entries(ways(uri))) {
        for (const headers of [{}, { Authorization: 'Basic YTpi' }]) {
            const answer = await request(server, { ...options, headers: { ...options.headers, ...headers } });
            assert.equal(answer.status, 401, name);
            assert.deepEqual(challenge(answer), { scheme: 'Bearer', scope: 'files:read' }, name);
        }
        const forged = await request(as(server, 'x'.repeat(43)), options);
        assert.equal(forged.status, 401, name);
        const { error, error_description: why, scope } = challenge(forged);
        assert.deepEqual([error, scope], ['invalid_token', 'files:read'], name);
        assert.match(why, /not known/, name);
    }
});

test('token grants access in both eras and over WebSocket, HTTP+SSE and plain HTTP', async (t) => {
    const { server, alice, token, uri } = await start(t, { args: ['--legacy-sse'] });
    assert.equal((await call(alice, 'resources/read', { uri })).contents[0].text, '1');
    const { events } = await listen(alice, { resourceSubscriptions: [uri] });
    const session = await Session.open(alice);
    await session.subscribe(uri);
    const stream = await session.stream();
    const ws = await WebSocketRaw.open(server, { headers: { Authorization: `Bearer ${token}` } });
    assert.ok((await ws.modern('resources/list')).result);
    const sse = await request(alice, { method: 'GET', path: '/sse', headers: { Accept: 'text/event-stream' } });
    const { data: path } = await sse.events.next((item) => item.event === 'endpoint', 'the endpoint');
    const hello = initialize('2024-11-05');
    const message = { path, headers: json, body: JSON.stringify(hello) };
    assert.equal((await request(server, message)).status, 401, 'its id is no credential');
    assert.equal((await request(alice, message)).status, 202);
    await sse.events.message((m) => m.id === hello.id, 'the answer');
    server.tree.replace('a.txt', '2');
    await events.message(updates(uri), 'an update');
    await stream.message(updates(uri), 'an update');
    const read = await request(alice, { method: 'GET', path: `/resource?uri=${encodeURIComponent(uri)}` });
    assert.deepEqual([read.status, read.text], [200, '2']);
    assert.match(read.headers.get('cache-control'), /^private, /);
    assert.match(read.headers.get('vary'), /Authorization/);
    assert.equal((await call(alice, 'resources/list')).cacheScope, 'private');
    [events, stream, sse.events].forEach((open) => open.close());
    ws.connection.close();
    assert.equal((await session.end()).status, 204);
});

test('malformed, duplicate or query-string token is an invalid request', async (t) => {
    const { server, token, uri } = await start(t);
    const where = `/resource?uri=${encodeURIComponent(uri)}`;
    const rows = [
        [where, [['Authorization', 'Bearer']]],
        [where, [['Authorization', `Bearer ${token} ${token}`]]],
        [where, [['Authorization', `Bearer ${token},x`]]],
        [where, [['Authorization', '']]],
        [where, [['Authorization', `Bearer ${token}`], ['Authorization', `Bearer ${token}`]]],
        [where, [['Authorization', 'Basic YTpi'], ['Authorization', `Bearer ${token}`]]],
        [`${where}&access_token=${token}`, []],
        [`${where}&access_token=${token}`, [['Authorization', `Bearer ${token}`]]],
        [`/mcp?access_token=${token}`, []],
    ];
    for (const [path, headers] of rows) {
        const answer = await request(server, { method: 'GET', path, headers });
        assert.equal(answer.status, 400, JSON.stringify([path, headers]));
        const { error, error_description: why, scope } = challenge(answer);
        assert.deepEqual([error, scope], ['invalid_request', undefined]);
        assert.ok(why.length > 10);
        assert.doesNotMatch(why, new RegExp(token), 'the token is not said again');
    }
});

test('insufficient scope is 403 and names all required scopes', async (t) => {
    const { server, tokens, alice, uri } = await start(t, { scopes: ['files:read', 'files:watch'] });
    const bob = as(server, tokens.give('bob', 'files:read', 'other'));
    await reloaded(server);
    const answer = await modern(bob, 'resources/read', { uri });
    assert.equal(answer.status, 403);
    const said = challenge(answer);
    assert.equal(said.error, 'insufficient_scope');
    assert.equal(said.scope, 'files:read files:watch');
    assert.equal((await modern(alice, 'resources/read', { uri })).status, 200);
});

test('checks run in order: path, method, Host and Origin, token, size and type, body', async (t) => {
    const { server, alice } = await start(t, { args: ['--max-body', '1k'] });
    const status = async (options, who = server) => (await request(who, options)).status;
    assert.equal(await status({ method: 'GET', path: '/nowhere' }), 404);
    assert.equal(await status({ method: 'PUT', body: 'x' }), 405);
    assert.equal(await status({ headers: { ...json, Host: 'evil.example' }, body: '{}' }), 403);
    assert.equal(await status({ headers: { ...json, Origin: 'https://evil.example' }, body: '{}' }), 403);
    const rest = [
        [413, { headers: { ...json, 'Content-Length': 5000 }, body: '' }],
        [415, { headers: { ...json, 'Content-Type': 'text/plain' }, body: '{}' }],
        [406, { headers: { ...json, Accept: 'image/png' }, body: '{}' }],
        [400, { headers: json, body: '{' }],
        [426, { method: 'GET', headers: { ...upgrade, 'Sec-WebSocket-Version': '12' } }],
    ];
    for (const [expected, options] of rest) {
        assert.equal(await status(options), 401, `${expected} without a token`);
        assert.equal(await status(options, alice), expected, 'with one');
    }
});

test('request without a token gets its answer before the body and no 100 Continue', async (t) => {
    const { server, token } = await start(t);
    for (const extra of [{}, { Expect: '100-continue' }]) {
        const connection = await Connection.open(server);
        const headers = { ...json, 'Content-Length': 1000, ...extra };
        await connection.send(encodeRequest(server.port, { headers }));
        assert.equal((await connection.readHead()).status, 401);
        connection.close();
    }
    const connection = await Connection.open(server);
    const body = JSON.stringify(initialize());
    const headers = { ...json, 'Content-Length': body.length, Expect: '100-continue' };
    const known = { ...headers, Authorization: `Bearer ${token}` };
    await connection.send(encodeRequest(server.port, { headers: known }));
    assert.equal((await connection.readHead()).status, 100);
    await connection.send(body);
    assert.equal((await connection.readResponse()).status, 200);
    connection.close();
});

test('each request of a connection presents its own token, pipelined or not', async (t) => {
    const { server, tokens, token } = await start(t);
    const bob = tokens.give('bob', 'files:read');
    await reloaded(server);
    const connection = await Connection.open(server);
    const ask = (shown) => ({
        headers: { ...json, ...(shown && { Authorization: `Bearer ${shown}` }) },
        body: JSON.stringify(initialize()),
    });
    const first = await connection.request(ask(token));
    assert.equal(first.status, 200);
    const id = first.headers.get('mcp-session-id');
    const ping = (shown) => {
        const options = ask(shown);
        options.headers['Mcp-Session-Id'] = id;
        options.body = JSON.stringify({ jsonrpc: '2.0', id: freshId(), method: 'ping' });
        return options;
    };
    assert.equal((await connection.request(ping(token))).status, 200);
    assert.equal((await connection.request(ping(bob))).status, 404, "it is another's session");
    const all = [ping(token), ping(bob), ping(token), ping(undefined), ping(token)];
    await connection.send(Buffer.concat(all.map((options) => encodeRequest(server.port, options))));
    for (const expected of [200, 404, 200, 401]) {
        assert.equal((await connection.readResponse()).status, expected);
    }
    assert.equal((await connection.readToEnd()).length, 0, 'a refusal ends the connection');
});

test('session belongs to the subject of its first token, whatever token follows', async (t) => {
    const { server, tokens, alice, uri } = await start(t, { args: ['--workers', '3'] });
    const other = tokens.give('alice', 'files:read');
    const bob = tokens.give('bob', 'files:read');
    await reloaded(server);
    const session = await Session.open(alice);
    await session.subscribe(uri);
    const stream = await session.stream();
    server.tree.replace('a.txt', '2');
    await stream.message(updates(uri), 'an update');
    const last = stream.seen.findLast((item) => item.id).id;
    session.server = as(server, bob);
    const denied = [
        session.send('ping'),
        session.send('resources/read', { uri }),
        session.get(),
        session.get({ 'Last-Event-ID': last }),
        session.end(),
    ];
    for (const answer of await Promise.all(denied)) {
        assert.equal(answer.status, 404);
    }
    session.server = as(server, other);
    assert.equal((await session.send('ping')).status, 200);
    const resumed = await session.stream(last);
    server.tree.replace('a.txt', '3');
    await resumed.message(updates(uri), 'an update');
    assert.equal((await session.end()).status, 204);
    resumed.close();
    stream.close();
});

test('token file is reloaded on SIGHUP completely or not at all', async (t) => {
    const { server, tokens, token, alice, uri } = await start(t);
    const status = async (who) => (await modern(who, 'resources/read', { uri })).status;
    const fresh = tokens.give('carol', 'files:read');
    assert.equal(await status(as(server, fresh)), 401, 'not before');
    await reloaded(server);
    assert.equal(await status(as(server, fresh)), 200);
    tokens.write('nonsense\n');
    await reloaded(server, /reload failed.*tokens:1/);
    assert.equal(await status(alice), 200, 'all stays as it was');
    tokens.take(token);
    await reloaded(server);
    assert.equal(await status(alice), 401, 'a token that was seen before is forgotten too');
    assert.equal(await status(as(server, fresh)), 200);
});

test('browser may send a preflight and read the reason of a refusal', async (t) => {
    const { server } = await start(t);
    const Origin = 'http://localhost:3000';
    const ahead = { Origin, 'Access-Control-Request-Method': 'POST' };
    const preflight = await request(server, { method: 'OPTIONS', headers: ahead });
    assert.equal(preflight.status, 204);
    assert.match(preflight.headers.get('access-control-allow-headers'), /Authorization/);
    for (const options of [{ headers: { ...json, Origin }, body: '{}' },
        { method: 'GET', path: '/resource?uri=x', headers: { Origin } }]) {
        const refused = await request(server, options);
        assert.equal(refused.status, 401);
        assert.equal(refused.headers.get('access-control-allow-origin'), Origin);
        assert.match(refused.headers.get('access-control-expose-headers'), /WWW-Authenticate/);
    }
});

test('metadata does not exist without an issuer', async (t) => {
    const { server, alice } = await start(t);
    for (const path of ['oauth-protected-resource', 'oauth-protected-resource/mcp', 'oauth-authorization-server']) {
        const answer = await request(alice, { method: 'GET', path: `/.well-known/${path}` });
        assert.equal(answer.status, 404, path);
    }
    assert.equal(challenge(await post(server, '{}')).resource_metadata, undefined);
});

test('tokens are ignored without authentication, even malformed ones', async (t) => {
    const server = await serve(t, { files });
    assert.equal((await call(server, 'resources/list')).cacheScope, 'public');
    for (const headers of [[['Authorization', 'Bearer a b']], [['Authorization', 'x'], ['Authorization', 'y']]]) {
        const path = `/resource?uri=${encodeURIComponent(server.uri('a.txt'))}&access_token=x`;
        assert.equal((await request(server, { method: 'GET', path, headers })).status, 200);
    }
});

test('HTTP on a Unix socket requires a token and a line socket identifies its user', async (t) => {
    const tokens = new TokenFile(t);
    const token = tokens.give('alice');
    const tree = new Tree(t, files);
    const [http, lines] = [tree.aside(), tree.aside()];
    const program = new Program(t, BIN, ['serve', '--http-unix', http, '--unix', lines, ...tokens.args, tree.path]);
    await program.lines.next((line) => line.includes(`unix:${lines}`), 'the line with the paths');
    const ask = async (headers) => {
        const connection = await Connection.open({}, { path: http, port: undefined, host: undefined });
        await connection.send(encodeRequest(0, {
            method: 'GET',
            path: `/resource?uri=${encodeURIComponent(tree.uri('a.txt'))}`,
            headers: { Host: 'localhost', ...headers },
        }));
        const { status } = await connection.readResponse();
        connection.close();
        return status;
    };
    assert.equal(await ask({}), 401);
    assert.equal(await ask({ Authorization: `Bearer ${token}` }), 200);
    const peer = await SocketPeer.connect(t, { path: lines });
    const id = freshId();
    await peer.write(JSON.stringify(initialize(undefined, { id })));
    assert.ok((await peer.message((m) => m.id === id, 'the answer')).result);
});

test('TLS certificate does not replace the token on HTTP and identifies the client on lines', async (t) => {
    const certs = new Certificates(t).make('server').make('alice', { names: '' });
    const tokens = new TokenFile(t);
    const token = tokens.give('bob');
    const server = await serve(t, {
        files,
        args: [...tokens.args, '--auth-issuer', 'https://as.example', '--auth-jwks', keysFile(t),
            '--tcp', '127.0.0.1:0', ...certs.args('server'), '--tls-client-ca', certs.file('ca.pem'),
            '--tls-client-auth', 'require'],
        secure: certs.client('alice'),
    });
    const refused = await post(server, '{}');
    assert.equal(refused.status, 401);
    assert.match(challenge(refused).resource_metadata, /^https:\/\/127\.0\.0\.1:\d+\/\.well-known\//);
    const known = await request(server, { method: 'GET', path: '/.well-known/oauth-protected-resource' });
    assert.equal(known.json.resource, server.url);
    assert.ok((await call(as(server, token), 'resources/list')).resources);
    const [, port] = /tls:\/\/127\.0\.0\.1:(\d+)/.exec(server.stderr);
    const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port: Number(port), secure: server.secure });
    const id = freshId();
    await peer.write(JSON.stringify(initialize(undefined, { id })));
    assert.ok((await peer.message((m) => m.id === id, 'the answer')).result);
});

test('tokens from `tidings token` are accepted', async (t) => {
    const tokens = new TokenFile(t);
    const made = await run(t, ['token', 'dora', '--scope', 'files:read']);
    assert.equal(made.code, 0, made.stderr);
    tokens.write(made.stdout);
    const server = await serve(t, { files, args: [...tokens.args, '--auth-scope', 'files:read'] });
    const token = made.stderr.trim().split(/\s+/).at(-1);
    assert.ok((await call(as(server, token), 'resources/list')).resources.length > 0);
});

test('conflicting settings are refused with advice', async (t) => {
    const tokens = new TokenFile(t);
    tokens.give('alice');
    const tree = new Tree(t, files);
    const rows = [
        [['--http', '0.0.0.0:0', ...tokens.args], /unencrypted.*--tls-cert.*--auth-resource https/],
        [['--tcp', '127.0.0.1:0', ...tokens.args], /--tcp: this transport carries no token.*--tls-client-auth require/],
        [['--auth-scope', 'x'], /add --auth-issuer or --auth-tokens/],
        [['--auth-tokens', '/nowhere'], /nowhere/],
    ];
    for (const [args, said] of rows) {
        const { code, stderr } = await run(t, ['serve', ...args, tree.path]);
        assert.notEqual(code, 0, args.join(' '));
        assert.match(stderr, said);
    }
});

test('refused connections leave nothing behind', async (t) => {
    const { server, alice } = await start(t, { args: ['--self'] });
    for (let i = 0; i < 50; i += 1) {
        assert.equal((await post(server, '{}')).status, 401);
    }
    await eventually(async () => {
        const { contents } = await call(alice, 'resources/read', { uri: 'tidings://self/stats' });
        return JSON.parse(contents[0].text).every((row) => row.sessions === 0);
    }, 'no session is left');
});
