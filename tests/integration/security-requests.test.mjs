// SPDX-License-Identifier: MIT
//
// Requests that pose as two requests, answers that pose as two answers, and compressed bodies. Each trick hides a
// second request: the server must never answer it, or must answer it as an ordinary request.

import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { defer } from './lib/cleanup.mjs';
import { Connection, encodeRequest, request } from './lib/http.mjs';
import { call, initialize, listen, meta, modern, post, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { upgrade } from './lib/websocket.mjs';

const files = { 'a.txt': 'a' };
const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
const HIDDEN = 'GET /resource?uri=hidden: HTTP/1.1\r\nHost: localhost\r\n\r\n';

/** The statuses and heads of the responses in these bytes, split by their declared lengths. */
function split(bytes, isHead) {
    const statuses = [];
    let heads = '';
    for (let rest = bytes; rest !== ''; ) {
        const end = rest.indexOf('\r\n\r\n');
        const head = rest.slice(0, end);
        const status = /^HTTP\/1\.1 (\d{3}) /.exec(head);
        assert.ok(end > 0 && status, `not a response: ${rest}`);
        statuses.push(Number(status[1]));
        heads += `${head}\r\n`;
        const length = isHead ? 0 : Number(/^Content-Length: (\d+)$/im.exec(head)?.[1] ?? 0);
        rest = rest.slice(end + 4 + length);
    }
    return { statuses, heads };
}

/** The server's complete answer to these bytes, until it closes the connection. */
async function exchange(server, bytes, { isHead = false } = {}) {
    const connection = await Connection.open(server);
    await connection.send(Buffer.from(bytes, 'latin1'));
    connection.finish();
    const answer = (await connection.readToEnd()).toString('latin1');
    connection.close();
    return { answer, ...split(answer, isHead) };
}

const post11 = (server, lines, body) =>
    ['POST /mcp HTTP/1.1', `Host: 127.0.0.1:${server.port}`, 'Content-Type: application/json', ...lines]
        .join('\r\n')
        .concat('\r\n\r\n', body);

// ---- the end of a body

const CHUNKED = ['Transfer-Encoding: chunked'];
const BAD_BODIES = {
    'a chunk size with a sign': [CHUNKED, '+2\r\n{}\r\n0\r\n\r\n'],
    'a chunk size in the form of C': [CHUNKED, '0x2\r\n{}\r\n0\r\n\r\n'],
    'a chunk size beyond 64 bits': [CHUNKED, '10000000000000002\r\n{}\r\n0\r\n\r\n'],
    'an empty chunk size': [CHUNKED, '\r\n{}\r\n0\r\n\r\n'],
    'a blank before the chunk size': [CHUNKED, ' 2\r\n{}\r\n0\r\n\r\n'],
    'a chunk that is longer than its size': [CHUNKED, '2\r\n{}x\r\n0\r\n\r\n'],
    'a chunk line that ends in a bare LF': [CHUNKED, '2\n{}\r\n0\r\n\r\n'],
    'a chunk that ends in a bare LF': [CHUNKED, '2\r\n{}\n0\r\n\r\n'],
    'a chunk line that ends in a bare CR': [CHUNKED, '2\r{}\r\n0\r\n\r\n'],
    'a last chunk that ends in a bare LF': [CHUNKED, '2\r\n{}\r\n0\n\r\n'],
    'a line feed in a chunk extension': [CHUNKED, '2;a=\n{}\r\n0\r\n\r\n'],
    'a control character in a chunk extension': [CHUNKED, '2;a=\u0001\r\n{}\r\n0\r\n\r\n'],
    'a folded trailer': [CHUNKED, '2\r\n{}\r\n0\r\nX: y\r\n z\r\n\r\n'],
    'a trailer without a colon': [CHUNKED, '2\r\n{}\r\n0\r\nX\r\n\r\n'],
    'chunked twice': [['Transfer-Encoding: chunked, chunked'], '0\r\n\r\n'],
    'chunked in two lines': [[...CHUNKED, ...CHUNKED], '0\r\n\r\n'],
    'chunked behind identity': [['Transfer-Encoding: identity, chunked'], '0\r\n\r\n'],
    'chunked with a parameter': [['Transfer-Encoding: chunked;q=1'], '0\r\n\r\n'],
    'chunked in quotes': [['Transfer-Encoding: "chunked"'], '0\r\n\r\n'],
    'an empty transfer coding': [['Transfer-Encoding:'], '0\r\n\r\n'],
    'a transfer coding and a length of nothing': [[...CHUNKED, 'Content-Length: 0'], '0\r\n\r\n'],
    'the same length twice': [['Content-Length: 2', 'Content-Length: 2'], '{}'],
    'an empty length': [['Content-Length:'], '{}'],
    'a length with a fraction': [['Content-Length: 2.0'], '{}'],
    'a length with a blank inside': [['Content-Length: 1 0'], '{}'],
    'a length folded into the next line': [['Content-Length:', ' 2'], '{}'],
    'a header name with a blank': [['Content Length: 2'], '{}'],
    'a NUL in a header': [['X: \u0000'], '{}'],
    'a bare CR in a header': [['X: a\rContent-Length: 2'], '{}'],
    'a bare LF before a header': [['X: a\nContent-Length: 2'], '{}'],
};

for (const [name, [lines, body]] of Object.entries(BAD_BODIES)) {
    test(`request: ${name} ends the connection, and hidden requests get no answer`, async (t) => {
        const server = await serve(t, { files });
        const { answer, statuses } = await exchange(server, post11(server, lines, body + HIDDEN));
        assert.deepEqual(statuses.length, 1, answer);
        assert.ok([400, 501].includes(statuses[0]), answer);
        assert.ok(!answer.includes('hidden:'), answer);
    });
}

test('request: Transfer-Encoding in HTTP/1.0 is rejected', async (t) => {
    const server = await serve(t, { files });
    const text = post11(server, CHUNKED, `0\r\n\r\n${HIDDEN}`).replace('HTTP/1.1', 'HTTP/1.0');
    assert.deepEqual((await exchange(server, text)).statuses, [400]);
});

test('request: valid chunks, extensions and trailers are consumed, and the next request is separate', async (t) => {
    const server = await serve(t, { files });
    const body = JSON.stringify(initialize());
    const chunks = `${body.length.toString(16)} ;a="b;c";d\r\n${body}\r\n000\r\nX: y\r\n\r\n`;
    const { answer, statuses } = await exchange(
        server,
        post11(server, [...CHUNKED, 'Accept: */*'], chunks + HIDDEN),
    );
    assert.deepEqual(statuses, [200, 400], answer);
});

test('request: bodies of GET, DELETE and rejected requests never become requests', async (t) => {
    const server = await serve(t, { files });
    const body = `Content-Length: ${HIDDEN.length}\r\n\r\n${HIDDEN}`;
    for (const line of ['GET /mcp', 'DELETE /mcp', 'OPTIONS /mcp', 'PUT /mcp', 'POST /nowhere', 'GET /resource']) {
        const { answer, statuses } = await exchange(
            server,
            `${line} HTTP/1.1\r\nHost: localhost\r\n${body}`,
        );
        assert.equal(statuses.length, 1, `${line}: ${answer}`);
        assert.ok(!answer.includes('hidden:'), `${line}: ${answer}`);
    }
});

test('request: Expect: 100-continue and an early answer do not confuse the next request', async (t) => {
    const server = await serve(t, { files, args: ['--max-body', '1024'] });
    const lines = ['Expect: 100-continue', `Content-Length: ${HIDDEN.length + 4096}`];
    const { answer, statuses } = await exchange(server, post11(server, lines, HIDDEN));
    assert.deepEqual(statuses, [413], answer);
});

test('request: rejected upgrade does not open a tunnel', async (t) => {
    const server = await serve(t, { files });
    const headers = { ...upgrade, 'Sec-WebSocket-Version': '99' };
    const bytes = encodeRequest(server.port, { method: 'GET', headers }).toString('latin1');
    const { answer, statuses } = await exchange(server, bytes + HIDDEN);
    assert.deepEqual(statuses, [426], answer);
});

test('request: HTTP/2 and proxy requests are rejected', async (t) => {
    const server = await serve(t, { files });
    const all = {
        'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n': [505, 400],
        'PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n': [400, 505],
        'CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\n\r\n': [400, 405, 501],
        'TRACE /mcp HTTP/1.1\r\nHost: localhost\r\nX-Secret: mirrored\r\n\r\n': [405, 501],
    };
    for (const [bytes, allowed] of Object.entries(all)) {
        const { answer, statuses } = await exchange(server, bytes);
        assert.equal(statuses.length, 1, answer);
        assert.ok(allowed.includes(statuses[0]), answer);
        assert.ok(!answer.includes('mirrored'), answer);
    }
});

// ---- split answers

const EVIL = 'x\r\nX-Evil: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n';

test('answer: URI cannot inject headers', async (t) => {
    const server = await serve(t, { files });
    for (const uri of [EVIL, `${server.uri('')}${EVIL}`, `data:,${EVIL}`, `file:///${EVIL}`]) {
        const path = `/resource?uri=${encodeURIComponent(uri)}`;
        for (const method of ['GET', 'HEAD', 'PUT']) {
            const bytes = encodeRequest(server.port, { method, path, headers: { Connection: 'close' } });
            const { answer, heads, statuses } = await exchange(server, bytes, { isHead: method === 'HEAD' });
            assert.equal(statuses.length, 1, answer);
            assert.doesNotMatch(heads, /X-Evil/i);
        }
    }
});

test('answer: published media types, etags and names cannot inject headers', async (t) => {
    const args = ['--publish', 'pub:///', '--allow-write'];
    const server = await serve(t, { files, args });
    const publish = (more) =>
        modern(server, 'tools/call', { name: 'publish', arguments: { uri: 'pub:///x', text: 'hello', ...more } });
    const attempts = [
        { mimeType: `text/plain${EVIL}` },
        { mimeType: 'text/plain; a="\n"' },
        { name: EVIL },
        { title: EVIL, description: EVIL },
    ];
    for (const more of attempts) {
        await publish(more);
        const bytes = encodeRequest(server.port, {
            method: 'GET',
            path: '/resource?uri=pub:///x',
            headers: { Connection: 'close' },
        });
        const { answer, heads, statuses } = await exchange(server, bytes);
        assert.equal(statuses.length, 1, answer);
        assert.doesNotMatch(heads, /X-Evil/i);
    }
    await publish({ mimeType: 'text/html' });
    const page = await request(server, { method: 'GET', path: '/resource?uri=pub:///x' });
    assert.equal(page.headers.get('content-security-policy'), "sandbox; frame-ancestors 'self'");
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
});

test('answer: preflight reflects requested values only if they are valid names', async (t) => {
    const server = await serve(t, { files });
    const answer = await request(server, {
        method: 'OPTIONS',
        headers: {
            Origin: 'http://localhost',
            'Access-Control-Request-Headers': 'mcp-param-ok, mcp-param-a:b, mcp-param-"c", X-Other',
        },
    });
    const allowed = answer.headers.get('access-control-allow-headers');
    assert.match(allowed, /mcp-param-ok/);
    assert.doesNotMatch(allowed, /a:b|"|X-Other/);
});

test('stream: name with line breaks cannot inject events', async (t) => {
    const server = await serve(t, { files });
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('')] });
    const name = 'a\n\nid: evil\nevent: evil\ndata: {"jsonrpc":"2.0","method":"evil"}\r\rdata: x';
    server.tree.write(name, 'x');
    const isIt = (m) => decodeURIComponent(m.params?.uri ?? '').endsWith(`/${name}`);
    const { params } = await events.message(isIt, 'the update of that file');
    assert.doesNotMatch(params.uri, /[\0-\x20]/);
    const { contents } = await call(server, 'resources/read', { uri: params.uri });
    assert.equal(contents[0].text, 'x');
    server.tree.write('last.txt', 'x');
    await events.message(updates(server.uri('last.txt')), 'the next update');
    assert.ok(events.seen.every(({ json: m }) => m?.method !== 'evil'), 'an event was written by a name');
});

test('stream: client-chosen ids are returned inside their JSON', async (t) => {
    const server = await serve(t, { files });
    const id = 'x\n\nevent: evil\ndata: {}\n\n"},{"evil":1';
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('a.txt')] }, { id });
    server.tree.replace('a.txt', 'b');
    const message = await events.message(updates(server.uri('a.txt')), 'an update');
    assert.equal(message.params._meta['io.modelcontextprotocol/subscriptionId'], id);
});

// ---- server-side fetches and commands

test('fetching: client-supplied URLs are never fetched', async (t) => {
    const args = ['--publish', 'pub:///', '--allow-write', '--entities', ':memory:'];
    const server = await serve(t, { files, args });
    let visitors = 0;
    const canary = net.createServer((socket) => {
        visitors += 1;
        socket.destroy();
    });
    canary.listen(0, '127.0.0.1');
    await new Promise((resolve) => canary.once('listening', resolve));
    defer(t, () => canary.close());
    const url = `http://127.0.0.1:${canary.address().port}/schema.json`;
    const ref = { $ref: url, $schema: url, $id: url };
    const named = { uri: url, name: url, icons: [{ src: url }] };
    const options = { _meta: meta({ 'dev.tidings/options': { filter: ref } }) };
    const asked = [
        ['resources/read', { uri: url }],
        ['resources/metadata', { uri: url }],
        ['resources/list', { uri: url }],
        ['subscriptions/listen', { notifications: { resourceSubscriptions: [url, `${url}/*`] } }],
        ['subscriptions/listen', { notifications: { resourceSubscriptions: ['pub:///'] }, ...options }],
        ['tools/call', { name: 'publish', arguments: { ...named, text: 'x' } }],
        ['tools/call', { name: 'publish', arguments: { ...named, uri: 'pub:///x', text: url } }],
        ['tools/call', { name: 'add-entity-type', arguments: { name: 'T', version: '1', jsonSchema: ref } }],
        ['completion/complete', { ref: { type: 'ref/resource', uri: url }, argument: { name: 'a', value: url } }],
    ];
    for (const [method, params] of asked) {
        const answer = await modern(server, method, params);
        answer.events?.close();
        assert.ok(answer.status < 500, `${method}: ${answer.text}`);
    }
    await request(server, { method: 'GET', path: `/resource?uri=${encodeURIComponent(url)}` });
    await request(server, { method: 'GET', path: url, headers: { 'X-Forwarded-Host': url, Referer: url } });
    await call(server, 'resources/list'); // all earlier work is complete by now
    assert.equal(visitors, 0, 'somebody came by');
});

test('running: request data never reaches a command', async (t) => {
    const tree = new Tree(t);
    const argv = ['sh', '-c', 'echo "$# $*"; env | grep -c EVIL; cat'];
    const mounts = [{ type: 'command', uri: 'cmd:///it', argv }];
    tree.write('tidings.json', JSON.stringify({ mounts }));
    const server = await serve(t, { tree, mounts: [], args: ['--config', tree.at('tidings.json')] });
    const said = (await call(server, 'resources/read', { uri: 'cmd:///it' })).contents[0].text;
    assert.equal(said, '0 \n0\n');
    const evil = ['cmd:///it/;touch evil', 'cmd:///it?EVIL=1', 'cmd:///it%3Btouch%20evil', 'cmd:///sh', 'cmd:///it%00'];
    for (const uri of evil) {
        const headers = { 'Mcp-Name': `=?base64?${Buffer.from(uri).toString('base64')}?=`, EVIL: '1' };
        const answer = await modern(server, 'resources/read', { uri, EVIL: '1' }, { headers });
        assert.ok(answer.json.error, `${uri}: ${answer.text}`);
    }
});

test('running: SQL in names is inert', async (t) => {
    const tree = new Tree(t);
    const args = ['--publish', 'pub:///', '--allow-write', '--store', tree.at('store.db')];
    const evil = "pub:///x';DROP%20TABLE%20published;--";
    const publish = (server, uri, text) =>
        call(server, 'tools/call', { name: 'publish', arguments: { uri, text, title: `'); ${evil}` } });
    const first = await serve(t, { files, args });
    await publish(first, 'pub:///plain', 'plain');
    await publish(first, evil, "'; DELETE FROM published; --");
    await first.stop();
    const second = await serve(t, { files, args });
    const text = async (uri) => (await call(second, 'resources/read', { uri })).contents[0].text;
    assert.equal(await text('pub:///plain'), 'plain');
    assert.equal(await text(evil), "'; DELETE FROM published; --");
});

// ---- compressed bodies

test('compression: compressed body is rejected and never unpacked', async (t) => {
    const args = ['--publish', 'pub:///', '--allow-write'];
    const server = await serve(t, { files, args });
    const bomb = gzipSync(Buffer.alloc(32 << 20, ' '));
    for (const coding of ['gzip', 'deflate', 'br', 'zstd', 'x-gzip', 'identity, gzip']) {
        const headers = { ...json, 'Content-Encoding': coding };
        const answer = await request(server, { headers, body: bomb });
        assert.equal(answer.status, 415, `${coding}: ${answer.text}`);
        const written = await request(server, {
            method: 'PUT',
            path: '/resource?uri=pub:///x',
            headers: { 'Content-Type': 'text/plain', 'Content-Encoding': coding },
            body: bomb,
        });
        assert.equal(written.status, 415, `${coding}: ${written.text}`);
    }
    const plain = await post(server, initialize(), { 'Content-Encoding': 'identity' });
    assert.equal(plain.status, 200, plain.text);
});

test('compression: WebSocket extensions are not accepted', async (t) => {
    const server = await serve(t, { files });
    const headers = { ...upgrade, 'Sec-WebSocket-Extensions': 'permessage-deflate; client_max_window_bits' };
    const connection = await Connection.open(server);
    await connection.send(encodeRequest(server.port, { method: 'GET', headers }));
    const head = await connection.readHead();
    connection.close();
    assert.equal(head.status, 101);
    assert.equal(head.headers.has('sec-websocket-extensions'), false);
});
