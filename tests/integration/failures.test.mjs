// SPDX-License-Identifier: MIT
//
// The server logs each failed request once, within the log's rate limit, and counts it by method and code.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { call, listen, modern, post, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { encodeFrame, FIN, OP, WebSocketRaw } from './lib/websocket.mjs';

const failed = (line) => / request (failed|refused) /.test(line);
const said = (server, ...parts) =>
    server.lines.next((line) => failed(line) && parts.every((part) => line.includes(part)), parts.join(' '));
const count = (server) => server.lines.seen.filter(failed).length;

async function counted(server) {
    const { contents } = await call(server, 'resources/read', { uri: 'tidings://self/failures' });
    const sums = {};
    for (const row of JSON.parse(contents[0].text)) {
        const name = `${row.method} ${row.code ?? row.status ?? row.close ?? (row.isError ? 'isError' : '')}`;
        sums[name] = (sums[name] ?? 0) + row.count;
    }
    return sums;
}

for (const era of ['modern', 'legacy']) {
    test(`${era}: JSON-RPC error is logged once with method, code, reason and client`, async (t) => {
        const server = await serve(t, { files: { a: 'a' }, args: ['--self', '--allow-write'] });
        const session = era === 'legacy' ? await Session.open(server) : null;
        const ask = (method, params) => (session ? session.send(method, params) : modern(server, method, params));
        const missing = era === 'modern' ? -32602 : -32002;
        await ask('resources/read', { uri: server.uri('no') });
        const line = await said(server, 'method=resources/read');
        assert.match(line, new RegExp(`^\\S+Z info request: request failed method=resources/read code=${missing} reason="[^"]+" by=anonymous address=127\\.0\\.0\\.1\\S* others=0 request_id=[0-9a-f]{16}$`));
        await ask('resources/raed', {});
        await said(server, 'method=unknown', 'code=-32601');
        await ask('tools/call', { name: 'publish', arguments: { uri: 'no scheme', text: '' } });
        await said(server, 'method=tools/call isError=true', 'reason="');
        await ask('tools/call', { name: 'publish', arguments: {} });
        assert.equal(count(server), 3);
        const sums = await counted(server);
        assert.equal(sums[`resources/read ${missing}`], 1);
        assert.equal(sums['unknown -32601'], 1);
        assert.equal(sums['tools/call isError'], 2);
    });
}

test('URI omitted from a listen is logged', async (t) => {
    const server = await serve(t, { files: { a: 'a' }, args: ['--self'] });
    const uris = [server.uri('a'), 'file:///nowhere/no', 'tidings://self/stats?type=error'];
    const { events } = await listen(server, { resourceSubscriptions: uris });
    await said(server, 'method=subscriptions/listen code=-32602', 'not found');
    await server.lines.next((line) => line.includes('requests failed method=subscriptions/listen'), 'the other');
    assert.equal((await counted(server))['subscriptions/listen -32602'], 2);
    events.close();
});

test('rejection below JSON-RPC is logged with path and status', async (t) => {
    const server = await serve(t, { files: { a: 'a' }, args: ['--self', '--max-body', '4k'] });
    const get = (path, headers = {}) => request(server, { method: 'GET', path, headers });
    await get('/nowhere');
    await said(server, 'method=unknown status=404', 'reason="nothing is here');
    await get('/mcp', { Host: 'evil.example' });
    await said(server, 'warn access: request refused cause=host method=/mcp status=403', 'this Host is not served');
    await get('/mcp', { Origin: 'http://evil.example' });
    await said(server, 'warn access: request refused cause=origin method=/mcp status=403');
    await get('/resource?uri=file:///no');
    await said(server, 'info request: request failed method=/resource status=404', 'resource not found');
    await post(server, 'x'.repeat(5000));
    await said(server, 'warn access: request refused cause=limit method=/mcp status=413', 'larger');
    await post(server, '{}', { 'Content-Type': 'text/plain' });
    await said(server, 'method=/mcp status=415');
    await request(server, { method: 'PUT', path: '/mcp' });
    await said(server, 'method=/mcp status=405', 'use POST');
    await post(server, '{');
    await said(server, 'warn access: request refused cause=malformed method=unknown code=-32700');
    const sums = await counted(server);
    assert.equal(sums['/mcp 403'], 2);
    for (const name of ['unknown 404', '/resource 404', '/mcp 413', '/mcp 415', '/mcp 405', 'unknown -32700']) {
        assert.equal(sums[name], 1, `${name}: ${JSON.stringify(sums)}`);
    }
});

test('closed WebSocket and malformed lines are logged', async (t) => {
    const server = await serve(t, { files: {}, args: ['--self'] });
    const ws = await WebSocketRaw.open(server);
    await ws.send(encodeFrame(FIN | OP.binary, 'x'));
    await said(server, 'cause=malformed method=websocket close=1003');
    assert.equal((await counted(server))['websocket 1003'], 1);
    const pipe = Pipe.open(t, { files: {}, args: [] });
    pipe.write('{"jsonrpc":"2.0","id":1,"method":"no/such"}\n');
    const line = await pipe.lines.next(failed, 'the line');
    assert.match(line, /code=.* by=program address=stdio /);
});

test('log line contains the principal but never the token', async (t) => {
    const tokens = new TokenFile(t);
    const ann = tokens.give('ann');
    const server = await serve(t, { files: { a: 'a' }, args: ['--self', '--auth-tokens', tokens.path] });
    await modern(as(server, ann), 'resources/read', { uri: 'file:///no' });
    await said(server, 'principal=ann by=token');
    await modern(as(server, 'wrong-secret-token'), 'resources/read', { uri: 'file:///no' });
    await said(server, 'warn access: request refused cause=authentication method=/mcp status=401');
    assert.ok(!server.stderr.includes(ann) && !server.stderr.includes('wrong-secret-token'), server.stderr);
});

test('flood is counted completely but logged in a few lines; untrusted input adds no lines', async (t) => {
    const server = await serve(t, { files: {}, args: ['--self', '--workers', '1'] });
    const evil = 'x" principal="root" others=0\n2026-01-01T00:00:00.000Z error forged \u001b[2J\u202e';
    await modern(server, evil, {}, { headers: { 'Mcp-Method': 'x' } });
    const session = await Session.open(server);
    await session.send(evil, {});
    const line = await said(server, 'code=-32601');
    assert.ok(!/[\u001b\u202e]/.test(line) && !/[^\\]" principal="root/.test(line), JSON.stringify(line));
    assert.ok(!server.lines.seen.some((other) => other.startsWith('2026-01-01')));
    for (let i = 0; i < 20; i += 1) {
        await Promise.all(Array.from({ length: 50 }, (_, n) => session.send(`no/${i}/${n}`, {})));
    }
    const sums = await counted(server);
    assert.equal(sums['unknown -32601'], 1001);
    assert.ok(count(server) < 40, `${count(server)} lines`);
    const all = () =>
        server.lines.seen
            .filter((other) => other.includes('method=unknown code=-32601'))
            .reduce((sum, other) => sum + Number(other.match(/others=(\d+)/)[1]) + failed(other), 0);
    while (all() < 1001) {
        await server.lines.next((other) => /others=[1-9]\d*( |$)/.test(other), 'how many were left out');
    }
    assert.equal(all(), 1001);
});

test('--log-level warn omits client errors but counts them', async (t) => {
    const server = await serve(t, { files: {}, args: ['--self', '--log-level', 'warn'] });
    await modern(server, 'resources/read', { uri: 'file:///no' });
    assert.equal((await counted(server))['resources/read -32602'], 1);
    assert.equal(count(server), 0);
});
