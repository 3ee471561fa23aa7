// SPDX-License-Identifier: MIT
//
// The HTTP layer: connections, framing, verbs, paths, start and stop.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { test } from 'node:test';

import { Connection, encodeRequest, request } from './lib/http.mjs';
import {
    initialize,
    listen,
    meta,
    modern,
    modernHeaders,
    post,
    Session,
    updates,
} from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually, slow, within } from './lib/wait.mjs';

const files = { 'a.txt': 'a' };
const headers = {
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
};
const discover = (id = 1) => ({
    jsonrpc: '2.0',
    id,
    method: 'server/discover',
    params: { _meta: meta() },
});
const discoverHeaders = { ...headers, ...modernHeaders('server/discover') };
const descriptors = (server) => readdirSync(`/proc/${server.child.pid}/fd`).length;

test('keep-alive: one connection carries many requests', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    for (let id = 0; id < 20; id += 1) {
        const response = await connection.request({
            headers: discoverHeaders,
            body: JSON.stringify(discover(id)),
        });
        assert.equal(response.status, 200);
        assert.equal(response.json.id, id);
    }
    connection.close();
});

test('Connection: close closes the connection', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const response = await connection.request({
        headers: { ...discoverHeaders, Connection: 'close' },
        body: JSON.stringify(discover()),
    });
    assert.equal(response.status, 200);
    assert.equal((await connection.readToEnd()).length, 0);
});

test('HTTP/1.0 is answered and closed, or rejected', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const bytes = encodeRequest(server.port, {
        headers: discoverHeaders,
        body: JSON.stringify(discover()),
    });
    await connection.send(bytes.toString().replace('HTTP/1.1', 'HTTP/1.0'));
    const answer = (await connection.readToEnd()).toString();
    assert.match(answer, /^HTTP\/1\.[01] (200|505) /, answer);
});

test('pipelining: answers keep the order of the requests', async (t) => {
    const server = await serve(t, { files: { 'a.txt': 'a', 'big.txt': 'x'.repeat(300_000) } });
    const connection = await Connection.open(server);
    const parts = [];
    for (let id = 0; id < 30; id += 1) {
        const uri = server.uri(id % 3 === 0 ? 'big.txt' : 'a.txt');
        const params = { _meta: meta(), uri };
        parts.push(
            encodeRequest(server.port, {
                headers: { ...headers, ...modernHeaders('resources/read', params) },
                body: JSON.stringify({ jsonrpc: '2.0', id, method: 'resources/read', params }),
            }),
        );
    }
    await connection.send(Buffer.concat(parts));
    for (let id = 0; id < 30; id += 1) {
        const response = await connection.readResponse();
        assert.equal(response.json.id, id, response.text.slice(0, 200));
        assert.ok(response.json.result, response.text.slice(0, 200));
    }
    connection.close();
});

test('request split into single bytes is parsed', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const bytes = encodeRequest(server.port, {
        headers: discoverHeaders,
        body: JSON.stringify(discover()),
    });
    for (const byte of bytes) {
        await connection.send(Buffer.from([byte]));
    }
    assert.equal((await connection.readResponse()).status, 200);
    connection.close();
});

test('chunked request bodies with extensions and trailers are parsed', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const body = Buffer.from(JSON.stringify(discover(5)));
    const head = encodeRequest(server.port, {
        headers: { ...discoverHeaders, 'Transfer-Encoding': 'chunked' },
    });
    await connection.send(head);
    for (let at = 0; at < body.length; at += 7) {
        const part = body.subarray(at, at + 7);
        await connection.send(`${part.length.toString(16)};name=value\r\n`);
        await connection.send(part);
        await connection.send('\r\n');
    }
    await connection.send('0\r\nX-Trailer: yes\r\n\r\n');
    const response = await connection.readResponse();
    assert.equal(response.status, 200, response.text);
    assert.equal(response.json.id, 5);
    const again = await connection.request({
        headers: discoverHeaders,
        body: JSON.stringify(discover(6)),
    });
    assert.equal(again.json.id, 6);
    connection.close();
});

test('bad chunks return 400', async (t) => {
    const server = await serve(t, { files });
    for (const chunk of [
        'zz\r\n',
        '-1\r\n',
        'ffffffffffffffffff\r\n',
        '5\r\nabcdefg\r\n',
        '\r\n',
    ]) {
        const connection = await Connection.open(server);
        await connection.send(
            encodeRequest(server.port, {
                headers: { ...discoverHeaders, 'Transfer-Encoding': 'chunked' },
            }),
        );
        await connection.send(chunk);
        const { status } = await connection.readHead();
        assert.ok(status === 400 || status === 413, `${JSON.stringify(chunk)} gave ${status}`);
        connection.close();
    }
});

test('Expect: 100-continue is granted before the body or rejected at once', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const body = JSON.stringify(discover(9));
    await connection.send(
        encodeRequest(server.port, {
            headers: {
                ...discoverHeaders,
                Expect: '100-continue',
                'Content-Length': Buffer.byteLength(body),
            },
        }),
    );
    assert.equal((await connection.readHead()).status, 100);
    await connection.send(body);
    const response = await connection.readResponse();
    assert.equal(response.json.id, 9);
    connection.close();
    const unknown = await Connection.open(server);
    await unknown.send(
        encodeRequest(server.port, {
            headers: { ...discoverHeaders, Expect: 'miracles', 'Content-Length': 5 },
        }),
    );
    assert.equal((await unknown.readHead()).status, 417);
    unknown.close();
});

test('verbs: OPTIONS and HEAD are answered, others are 405 with Allow', async (t) => {
    const server = await serve(t, { files });
    const options = await request(server, { method: 'OPTIONS' });
    assert.ok(options.status === 204 || options.status === 200, `${options.status}`);
    assert.match(options.headers.get('allow') ?? '', /POST/);
    for (const method of ['PUT', 'PATCH', 'TRACE', 'BREW']) {
        const response = await request(server, { method });
        assert.ok([400, 405, 501].includes(response.status), `${method} gave ${response.status}`);
        if (response.status === 405) {
            assert.match(response.headers.get('allow'), /GET.*|POST/, method);
        }
    }
    for (const path of ['/nowhere', '/mcp']) {
        const connection = await Connection.open(server);
        const head = await connection.request({
            method: 'HEAD',
            path,
            headers: { Connection: 'close' },
        });
        assert.ok(head.status >= 400 || head.status === 200, `HEAD ${path} gave ${head.status}`);
        const rest = (await connection.readToEnd()).toString();
        assert.equal(rest, '', 'a body followed the answer to HEAD');
        connection.close();
    }
});

test('other paths return 404', async (t) => {
    const server = await serve(t, { files });
    for (const path of [
        '/',
        '/mcp/',
        '/mcpx',
        '/MCP',
        '/mcp/x',
        '//mcp',
        '/%6dcp',
        '/../mcp',
        '/a.txt',
        '*',
    ]) {
        const response = await request(server, {
            path,
            headers: discoverHeaders,
            body: JSON.stringify(discover()),
        });
        assert.ok(
            response.status === 404 || (path === '*' && response.status === 400),
            `${path} gave ${response.status}`,
        );
    }
});

test('Content-Type other than application/json returns 415', async (t) => {
    const server = await serve(t, { files });
    const body = JSON.stringify(initialize());
    for (const type of [
        'text/plain',
        'application/x-www-form-urlencoded',
        'multipart/form-data',
        'application/jsonx',
        null,
    ]) {
        const response = await request(server, {
            headers: { ...headers, 'Content-Type': type },
            body,
        });
        assert.equal(response.status, 415, `${type}`);
    }
    for (const type of [
        'application/json',
        'application/json; charset=utf-8',
        'Application/JSON',
        'application/json;charset="UTF-8"',
    ]) {
        const response = await request(server, {
            headers: { ...headers, 'Content-Type': type },
            body,
        });
        assert.equal(response.status, 200, type);
    }
});

test('Accept is lenient and returns 406 only if nothing is acceptable', async (t) => {
    const server = await serve(t, { files });
    const body = JSON.stringify(initialize());
    for (const accept of [
        null,
        '*/*',
        'application/*, text/*',
        'application/json',
        'text/event-stream, application/json;q=0.5',
        'Application/Json',
    ]) {
        const response = await request(server, { headers: { ...headers, Accept: accept }, body });
        assert.equal(response.status, 200, `Accept ${accept}`);
    }
    for (const accept of ['text/html', 'image/png, text/plain']) {
        const response = await request(server, { headers: { ...headers, Accept: accept }, body });
        assert.equal(response.status, 406, `Accept ${accept}`);
    }
});

test('answer has its length and type; notifications return 202 without a body', async (t) => {
    const server = await serve(t, { files });
    const response = await post(server, discover(), modernHeaders('server/discover'));
    assert.equal(Number(response.headers.get('content-length')), Buffer.byteLength(response.text));
    assert.match(response.headers.get('content-type'), /^application\/json/);
    const session = await Session.open(server);
    const accepted = await session.post({ jsonrpc: '2.0', method: 'notifications/whatever' });
    assert.equal(accepted.status, 202);
    assert.equal(accepted.text, '');
    const answer = await session.post({ jsonrpc: '2.0', id: 1, result: {} });
    assert.equal(answer.status, 202, 'a response of the client is accepted');
});

for (const how of ['close', 'reset']) {
    test(`streams of disconnected clients (${how}) are freed`, async (t) => {
        const server = await serve(t, { files });
        const idle = descriptors(server);
        const opened = [];
        for (let i = 0; i < 30; i += 1) {
            opened.push(await (await Session.open(server)).stream());
            opened.push(
                (await listen(server, { resourceSubscriptions: [server.uri('a.txt')] })).events,
            );
        }
        assert.ok(descriptors(server) >= idle + 60, 'the streams are open');
        opened.forEach((events) => events.connection[how]());
        await eventually(
            () => descriptors(server) <= idle + 16, // watch descriptors remain open for a minute
            `${descriptors(server)} descriptors went back to ${idle}`,
        );
    });
}

test('disconnect during a large answer does no harm', async (t) => {
    const server = await serve(t, { files: { 'big.txt': 'x'.repeat(8_000_000) } });
    const idle = descriptors(server);
    for (let i = 0; i < 10; i += 1) {
        const connection = await Connection.open(server);
        const params = { _meta: meta(), uri: server.uri('big.txt') };
        await connection.send(
            encodeRequest(server.port, {
                headers: { ...headers, ...modernHeaders('resources/read', params) },
                body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/read', params }),
            }),
        );
        await connection.readBytes(100);
        connection[i % 2 ? 'reset' : 'close']();
    }
    await eventually(() => descriptors(server) <= idle + 4, 'the connections were freed');
    assert.equal((await modern(server, 'server/discover')).status, 200);
});

test('large file is read completely', async (t) => {
    const text = 'äöü\n'.repeat(500_000);
    const server = await serve(t, { files: { 'big.txt': text } });
    const response = await modern(server, 'resources/read', { uri: server.uri('big.txt') });
    assert.equal(response.json.result.contents[0].text, text);
});

test('second server on the same port fails with an error message', async (t) => {
    const server = await serve(t, { files });
    const tree = new Tree(t, files);
    const second = await run(t, ['serve', '--http', `127.0.0.1:${server.port}`, tree.path]);
    assert.notEqual(second.code, 0);
    assert.match(second.stderr, new RegExp(String(server.port)));
    assert.match(second.stderr, /in use/i);
    assert.equal((await modern(server, 'server/discover')).status, 200, 'the first still serves');
});

test('port is free immediately after the server exits', async (t) => {
    const server = await serve(t, { files });
    const { events } = await listen(server, { resourcesListChanged: true });
    await server.stop();
    await within(events.over, 'the stream to end');
    const again = await serve(t, { files, http: `127.0.0.1:${server.port}` });
    assert.equal((await modern(again, 'server/discover')).status, 200);
});

test('one line of standard error names the endpoint', async (t) => {
    const server = await serve(t, { files });
    assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    assert.equal(server.stderr.split('/mcp').length - 1, 1, server.stderr);
});

test('SIGTERM: idle server exits at once with status 0', async (t) => {
    const server = await serve(t, { files });
    const kept = await Connection.open(server);
    assert.ok((await server.stop()) < 1000 * slow);
    assert.equal((await kept.readToEnd()).length, 0);
});

test('SIGTERM: sessions and half-sent requests do not delay exit', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const events = await session.stream();
    const half = await Connection.open(server);
    await half.send('POST /mcp HTTP/1.1\r\nHost: localhost\r\n');
    await server.stop();
    await within(events.over, 'the stream to end');
});

test('SIGTERM: large answer in progress is finished', async (t) => {
    const server = await serve(t, { files: { 'big.txt': 'x'.repeat(12_000_000) } });
    const connection = await Connection.open(server);
    const params = { _meta: meta(), uri: server.uri('big.txt') };
    await connection.send(
        encodeRequest(server.port, {
            headers: { ...headers, ...modernHeaders('resources/read', params) },
            body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/read', params }),
        }),
    );
    const head = await connection.readHead();
    const [body] = await Promise.all([
        connection.readBytes(Number(head.headers.get('content-length'))),
        server.stop('SIGTERM', DEADLINE),
    ]);
    assert.equal(JSON.parse(body).result.contents[0].text.length, 12_000_000);
});

test('SIGTERM twice does no harm', async (t) => {
    const server = await serve(t, { files });
    await listen(server, { resourcesListChanged: true });
    server.child.kill('SIGTERM');
    await server.stop();
});

test('binding beyond loopback requires --allow-remote and logs a warning', async (t) => {
    const tree = new Tree(t, files);
    const refused = await run(t, ['serve', '--http', '0.0.0.0:0', tree.path]);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /--allow-remote/);
    const open = await serve(t, { tree, http: '0.0.0.0:0', args: ['--allow-remote'] });
    await open.lines.next((line) => /warn|authent|anyone|reach/i.test(line), 'a warning');
});

test('two servers with two trees deliver only their own changes', async (t) => {
    const one = await serve(t, { files });
    const two = await serve(t, { files });
    const { events } = await listen(one, { resourceSubscriptions: [one.uri('a.txt')] });
    assert.ok((await modern(one, 'resources/read', { uri: two.uri('a.txt') })).json.error);
    two.tree.replace('a.txt', 'b');
    one.tree.replace('a.txt', 'b');
    await events.message(updates(one.uri('a.txt')), 'an update');
});
