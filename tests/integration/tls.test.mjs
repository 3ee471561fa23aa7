// SPDX-License-Identifier: MIT
//
// TLS: the official clients over https, server names, client certificates, reload under open streams, and misbehaving
// clients.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';
import tls from 'node:tls';

import { Certificates } from './lib/certs.mjs';
import { defer } from './lib/cleanup.mjs';
import { Connection, request } from './lib/http.mjs';
import { call, key, listen, modern, Session, updates } from './lib/rpc.mjs';
import { legacyClient, modernClient } from './lib/sdk.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually, slow, within } from './lib/wait.mjs';

const files = { 'a.txt': '1', 'b.txt': '1' };

/** A server with one certificate for localhost. */
async function start(t, { certs = new Certificates(t).make('server'), args = [], ...options } = {}) {
    const server = await serve(t, {
        files,
        ...options,
        args: [...certs.args('server'), ...args],
        secure: certs.client(options.shows),
    });
    return { server, certs, tree: server.tree, uri: server.uri };
}

/** A TLS-only client. */
function connect(t, server, options = {}) {
    const socket = tls.connect({ host: '127.0.0.1', port: server.port, ...server.secure, ...options });
    defer(t, () => socket.destroy());
    const done = new Promise((resolve, reject) => {
        socket.once('secureConnect', () => resolve(socket));
        socket.once('error', reject);
        socket.once('close', () => reject(new Error('closed')));
    });
    return within(done, 'a handshake');
}

const fingerprint = async (t, server, options) =>
    (await connect(t, server, options)).getPeerCertificate().fingerprint256;

/** Trusted by this process from this point, as with NODE_EXTRA_CA_CERTS. */
function trust(certs) {
    tls.setDefaultCACertificates([...tls.getCACertificates('default'), certs.text('ca.pem')]);
}

for (const [era, open] of Object.entries({ legacy: legacyClient, modern: modernClient })) {
    test(`official ${era} client reads and watches over https`, async (t) => {
        const certs = new Certificates(t).make('server');
        trust(certs);
        const { client, server, tree, received } = await open(t, 'http', {
            files,
            args: certs.args('server'),
        });
        assert.match(server.url, /^https:/);
        const { contents } = await client.readResource({ uri: tree.uri('a.txt') });
        assert.equal(contents[0].text, '1');
        if (era === 'legacy') {
            await client.subscribeResource({ uri: tree.uri('a.txt') });
            await received.next((m) => m.result, 'the subscription');
        } else {
            await client.listen({ resourceSubscriptions: [tree.uri('a.txt')] });
        }
        tree.replace('a.txt', '2');
        await received.next(updates(tree.uri('a.txt')), 'an update');
    });
}

test('connection carries many requests and complete large answers', async (t) => {
    const big = Array.from({ length: 300_000 }, (_, i) => String(i)).join(' ');
    const { server, uri } = await start(t, { files: { 'big.txt': big, 'a.txt': 'a' } });
    const connection = await Connection.open(server);
    for (const [name, text] of [['a.txt', 'a'], ['big.txt', big], ['a.txt', 'a']]) {
        const path = `/resource?uri=${encodeURIComponent(uri(name))}`;
        const response = await connection.request({ method: 'GET', path });
        assert.equal(response.status, 200);
        assert.ok(response.text === text, name);
    }
    connection.close();
});

/** A proxy to the server that passes client data through `pass(from, to)`. */
async function relayed(t, server, pass) {
    const relay = net.createServer({ allowHalfOpen: true }, (from) => {
        const to = net.connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
        to.setNoDelay(true);
        pass(from, to);
        to.on('data', (chunk) => from.write(chunk));
        to.on('end', () => from.end());
        from.on('error', () => to.destroy()).on('close', () => to.destroy());
        to.on('error', () => from.destroy()).on('close', () => from.destroy());
    });
    await new Promise((ready) => relay.listen(0, '127.0.0.1', ready));
    defer(t, () => relay.close());
    return { port: relay.address().port, secure: server.secure };
}

test('request sent byte by byte is answered', async (t) => {
    const { server, uri } = await start(t);
    const slowly = await relayed(t, server, (from, to) => {
        let last = Promise.resolve();
        from.on('data', (chunk) => {
            for (const byte of chunk) {
                last = last.then(() => new Promise((done) => to.write(Buffer.of(byte), done)));
            }
        });
    });
    const result = await call(slowly, 'resources/read', { uri: uri('a.txt') });
    assert.equal(result.contents[0].text, '1');
});

test('request sent with handshake and close_notify is answered', async (t) => {
    const { server } = await start(t);
    const atOnce = await relayed(t, server, (from, to) => {
        const held = [];
        from.once('data', (hello) => {
            to.write(hello);
            from.on('data', (chunk) => held.push(chunk));
        });
        from.on('end', () => to.end(Buffer.concat(held)));
    });
    const connection = await Connection.open(atOnce);
    await connection.send('GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n');
    connection.finish();
    assert.equal((await connection.readResponse('GET')).status, 404);
});

test('client that closes its sending side gets its answer', async (t) => {
    const { server } = await start(t);
    const connection = await Connection.open(server);
    await connection.send(`GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    connection.finish();
    assert.equal((await connection.readResponse('GET')).status, 404);
    await within(connection.closed, 'the end');
    assert.equal(connection.error, undefined);
});

test('plain HTTP at a TLS port gets an explanation', async (t) => {
    const { server } = await start(t);
    const response = await request({ port: server.port }, { method: 'GET' });
    assert.equal(response.status, 400);
    assert.match(response.text, /speaks TLS; use https:\/\//);
});

test('older versions are rejected, and 1.2 on request', async (t) => {
    const { server } = await start(t);
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' };
    await assert.rejects(connect(t, server, old), /protocol version|no protocols|unsupported/i);
    const socket = await connect(t, server, { maxVersion: 'TLSv1.2' });
    assert.equal(socket.getProtocol(), 'TLSv1.2');
    const { server: strict } = await start(t, { args: ['--tls-min', '1.3'] });
    await assert.rejects(connect(t, strict, { maxVersion: 'TLSv1.2' }), /protocol version/i);
    assert.equal((await connect(t, strict)).getProtocol(), 'TLSv1.3');
});

test('renegotiation is rejected', async (t) => {
    const { server } = await start(t);
    const socket = await connect(t, server, { maxVersion: 'TLSv1.2' });
    const refused = new Promise((resolve) => {
        socket.on('error', resolve);
        socket.on('close', resolve);
    });
    socket.renegotiate({}, (error) => assert.ok(error, 'it was renegotiated'));
    await within(refused, 'a refusal');
    assert.equal((await call(server, 'resources/list')).resources.length > 0, true);
});

test('unfinished handshake is cut after its deadline', async (t) => {
    const { server } = await start(t, { args: ['--header-timeout', '1s'] });
    for (const bytes of ['', '\x16\x03\x01']) {
        const socket = net.connect(server.port, '127.0.0.1');
        defer(t, () => socket.destroy());
        socket.on('error', () => {});
        socket.write(bytes, 'latin1');
        socket.resume();
        await within(new Promise((closed) => socket.on('close', closed)), 'the cut', DEADLINE);
    }
    assert.equal((await modern(server, 'resources/list')).status, 200);
});

test('requested server name selects the certificate', async (t) => {
    const certs = new Certificates(t)
        .make('server')
        .make('other', { names: 'DNS:other.test,DNS:*.other.test' });
    const { server } = await start(t, { certs, args: certs.args('other') });
    const named = async (servername) =>
        (await connect(t, server, { servername, checkServerIdentity: () => {} }))
            .getPeerCertificate().subject.CN;
    assert.equal(await named('localhost'), 'server');
    assert.equal(await named('other.test'), 'other');
    assert.equal(await named('a.other.test'), 'other');
    assert.equal(await named('unknown.test'), 'server');
});

test('certificates are reloaded during a stream', async (t) => {
    const certs = new Certificates(t).make('server').make('next');
    const { server, tree, uri } = await start(t, { certs });
    const before = await fingerprint(t, server);
    const { events } = await listen(server, { resourceSubscriptions: [uri('a.txt')] });
    certs.replace('server', 'next');
    server.child.kill('SIGHUP');
    await server.lines.next((line) => / reloaded /.test(line), 'the reload');
    assert.notEqual(await fingerprint(t, server), before);
    tree.replace('a.txt', '2');
    await events.message(updates(uri('a.txt')), 'an update on the old stream');

    writeFileSync(certs.file('server.key'), 'not a key');
    server.child.kill('SIGHUP');
    const line = await server.lines.next((l) => /reload failed/.test(l), 'the refusal');
    assert.match(line, /server\.key.*no private key/);
    const after = await fingerprint(t, server);
    tree.replace('a.txt', '3');
    await events.message(updates(uri('a.txt')), 'another update');
    assert.notEqual(after, before);
    events.close();
});

test('clients require a certificate from the CA', async (t) => {
    const certs = new Certificates(t).make('server').make('alice');
    certs.authority('elsewhere');
    certs.make('mallory', { ca: 'elsewhere' });
    const args = ['--tls-client-ca', certs.file('ca.pem'), '--tls-client-auth', 'require'];
    const { server } = await start(t, { certs, args, shows: 'alice' });
    assert.equal((await modern(server, 'resources/list')).status, 200);
    for (const name of [undefined, 'mallory']) {
        const stranger = { port: server.port, secure: certs.client(name) };
        const asked = async () => {
            const response = await modern(stranger, 'resources/list');
            assert.fail(`answered with ${response.status}`);
        };
        await assert.rejects(asked(), /certificate required|unknown ca|decrypt error|alert/i);
    }
});

test('certificate subject identifies the client', async (t) => {
    const certs = new Certificates(t).make('server').make('alice').make('bob');
    const args = ['--tls-client-ca', certs.file('ca.pem'), '--tls-client-auth', 'request'];
    const { server } = await start(t, { certs, args: [...args, '--max-breadth', '1'] });
    const as = (name) => ({ port: server.port, secure: certs.client(name) });
    const broad = { resourceSubscriptions: ['file:///'] };
    const refused = (opened) => opened.ack._meta[key.refused];
    const first = await listen(as('alice'), broad);
    assert.equal(refused(first), undefined);
    assert.match(refused(await listen(as('alice'), broad))[0].reason, /'CN=alice'/);
    assert.equal(refused(await listen(as('bob'), broad)), undefined, 'the first of bob');
    assert.equal(refused(await listen(as(), broad)), undefined, 'the first of the address');
});

test('session moves between workers with its TLS state', async (t) => {
    const { server, tree, uri } = await start(t, { args: ['--workers', '2'] });
    const session = await Session.open(server);
    const events = await session.stream();
    await session.subscribe(uri('a.txt'));
    const connections = await Promise.all(
        Array.from({ length: 8 }, () => Connection.open(server)),
    );
    for (const connection of connections) {
        for (let i = 0; i < 3; i += 1) {
            const response = await connection.request({
                headers: {
                    ...session.headers,
                    'Content-Type': 'application/json',
                    Accept: 'application/json, text/event-stream',
                },
                body: JSON.stringify({ jsonrpc: '2.0', id: i, method: 'ping' }),
            });
            assert.equal(response.status, 200, response.text);
        }
        connection.close();
    }
    tree.replace('a.txt', '2');
    await events.message(updates(uri('a.txt')), 'an update');
    events.close();
});

test('many streams receive every change once', async (t) => {
    const count = slow > 1 ? 150 : 1000;
    const args = ['--window', '0', '--workers', '2'];
    const { server, tree, uri } = await start(t, { args });
    const streams = [];
    while (streams.length < count) {
        const some = Array.from({ length: 50 }, () =>
            listen(server, { resourceSubscriptions: [uri('a.txt')] }),
        );
        streams.push(...(await Promise.all(some)).map(({ events }) => events));
    }
    for (let round = 1; round <= 3; round += 1) {
        tree.replace('a.txt', `round ${round}`);
        await Promise.all(streams.map((s) => s.message(updates(uri('a.txt')), 'an update', 6 * DEADLINE)));
    }
    for (const stream of streams) {
        assert.equal(stream.messages.filter(updates(uri('a.txt'))).length, 3);
        stream.close();
    }
});

test('TLS carries lines too', async (t) => {
    const { server, certs } = await start(t, { args: ['--tcp', '127.0.0.1:0'] });
    const [, port] = /tls:\/\/127\.0\.0\.1:(\d+)/.exec(server.stderr);
    const lines = { port: Number(port), secure: certs.client() };
    const connection = await Connection.open(lines);
    await connection.send('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
    assert.deepEqual(JSON.parse(await connection.readUntil('\n')), {
        jsonrpc: '2.0',
        id: 1,
        result: {},
    });
    connection.finish();
    await within(connection.closed, 'the end');
    const plain = await Connection.open({ port: lines.port });
    await plain.send('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
    assert.match(JSON.parse(await plain.readUntil('\n')).error.message, /speaks TLS/);
    plain.close();
});

test('tidings client watches over https and verifies the server', async (t) => {
    const certs = new Certificates(t).make('server').make('alice');
    const mutual = ['--tls-client-ca', certs.file('ca.pem'), '--tls-client-auth', 'require'];
    const { server, tree, uri } = await start(t, { certs, args: mutual });
    const trusted = ['--cacert', certs.file('ca.pem')];
    const own = ['--cert', certs.file('alice.pem'), '--key', certs.file('alice.key')];
    const args = ['watch', '--count', '1', ...trusted, ...own, server.url, uri('a.txt')];
    const watch = new Program(t, BIN, args);
    const changes = watch.output();
    await watch.lines.next((line) => line.startsWith('watching'), 'the subscription');
    tree.replace('a.txt', '2');
    assert.match(await changes.next(() => true, 'a change'), /updated file:/);
    watch.check(await within(watch.exited, 'the end'));
    const stranger = await run(t, ['watch', ...own, server.url, uri('a.txt')]);
    assert.equal(stranger.code, 77, stranger.stderr);
    assert.match(stranger.stderr, /certificate/);
    const lost = await run(t, ['watch', '--cacert', '/none.pem', server.url, uri('a.txt')]);
    assert.equal(lost.code, 64, lost.stderr);
    assert.match(lost.stderr, /none\.pem/);
});

test('Unix sockets stay unencrypted', async (t) => {
    const where = `/tmp/tidings-tls-${process.pid}.sock`;
    const { server } = await start(t, { args: ['--unix', where] });
    assert.match(server.stderr, /https:\/\/.*unix:/);
    const connection = await Connection.open({}, { path: where, port: undefined, host: undefined });
    await connection.send('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
    assert.deepEqual(JSON.parse(await connection.readUntil('\n')).result, {});
    connection.close();
});

test('pages of https origins are served', async (t) => {
    const { server } = await start(t);
    const asked = (Origin) => modern(server, 'resources/list', {}, { headers: { Origin } });
    assert.equal((await asked(`https://localhost:${server.port}`)).status, 200);
    assert.equal((await asked('https://elsewhere.test')).status, 403);
});

test('certificate errors are reported at start', async (t) => {
    const certs = new Certificates(t).make('server').make('other');
    const tree = new Tree(t, files);
    const started = (...args) => run(t, ['serve', '--http', '127.0.0.1:0', ...args, tree.path]);
    const pair = (cert, name) => ['--tls-cert', certs.file(cert), '--tls-key', certs.file(name)];
    const encrypted = spawnSync('openssl', [
        'pkey', '-in', certs.file('server.key'), '-aes256', '-passout', 'pass:x', '-out',
        certs.file('secret.key'),
    ]);
    assert.equal(encrypted.status, 0, String(encrypted.stderr));
    const rows = [
        [pair('none.pem', 'server.key'), /none\.pem.*No such file/],
        [pair('server.pem', 'other.key'), /other\.key.*not the key of certificate.*server\.pem/],
        [pair('server.pem', 'secret.key'), /secret\.key.*encrypted/],
        [['--tls-cert', certs.file('server.pem')], /1 certificates and 0 keys/],
        [['--tls-client-auth', 'require'], /add --tls-cert/],
        [[...certs.args('server'), '--tls-client-auth', 'require'], /--tls-client-ca/],
        [[...certs.args('server'), '--tls-client-ca', certs.file('ca.pem')], /--tls-client-auth/],
        [[...certs.args('server'), '--tls-min', '1.1'], /1\.2, 1\.3/],
    ];
    for (const [args, said] of rows) {
        const { code, stderr } = await started(...args);
        assert.notEqual(code, 0);
        assert.match(stderr, said);
    }
});

test('key readable by all users causes a warning', async (t) => {
    const certs = new Certificates(t).make('server');
    chmodSync(certs.file('server.key'), 0o644);
    const { server } = await start(t, { certs });
    assert.match(server.stderr, /server\.key.*every user of this machine can read/);
});

test('rejected client gets an alert instead of a handshake', async (t) => {
    const { server } = await start(t, { args: ['--max-connections', '1'] });
    const first = await connect(t, server);
    await assert.rejects(connect(t, server), /alert internal error/);
    first.destroy();
    await eventually(() => connect(t, server).then(() => true, () => undefined), 'the place is free');
});
