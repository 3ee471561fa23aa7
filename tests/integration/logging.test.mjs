// SPDX-License-Identifier: MIT
//
// The log: formats, reloaded levels, reopened files, the access log on every transport, counted rejections, streams
// with the reason of their end, and the absence of secrets.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { call, listen, meta, modern, post, Session } from './lib/rpc.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { COUNT, read, start, WAYS } from './lib/slow.mjs';
import { Pipe } from './lib/stdio.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { within } from './lib/wait.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const TRACE = 'trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331';

/** The next log line that contains all these parts. */
const said = (program, ...parts) =>
    program.lines.next((line) => parts.every((part) => line.includes(part)), parts.join(' '));

/** Fields of a logfmt or JSON line. */
const fields = (line) => Object.fromEntries([...line.matchAll(/(\w+)=("(?:[^"\\]|\\.)*"|\S*)/g)].map(([, k, v]) => [k, v]));

test('each format has the same fields; untrusted input forges none', async (t) => {
    const evil = 'file:///no" cause="x\n2026-01-01 \u001b[2J\u202e\\';
    for (const format of ['text', 'json', 'logfmt']) {
        const server = await serve(t, { files: {}, args: ['--log-format', format, '--access-log'] });
        await modern(server, 'resources/read', { uri: evil }, { headers: { 'Mcp-Name': 'x' } });
        await modern(server, 'tools/call', { name: evil, arguments: {} }, { headers: { 'Mcp-Name': 'x' } });
        const session = await Session.open(server);
        await session.send('resources/read', { uri: evil });
        const line = await said(server, 'resources/read', 'duration_us', '\\"');
        assert.ok(!/[\u0000-\u001f\u202e]/.test(line), JSON.stringify(line));
        if (format === 'json') {
            const record = JSON.parse(line);
            assert.equal(record.uri, evil);
            assert.equal(record.level, 'info');
            assert.equal(record.area, 'request');
            assert.equal(typeof record.duration_us, 'number');
            assert.equal(record.code, -32602);
        } else {
            const shown = fields(line);
            assert.equal(shown.method, 'resources/read');
            assert.equal(shown.cause, undefined, line);
            if (format === 'logfmt') {
                assert.equal(JSON.parse(shown.uri), evil);
            }
        }
        await server.stop();
        for (const other of server.lines.seen.filter((text) => format === 'json' || !text.startsWith('tidings: '))) {
            if (format === 'json') {
                assert.ok(JSON.parse(other).message, other);
            } else {
                assert.match(other, format === 'text' ? /^\S+Z (error|warn|info|debug) [a-z]+: / : /^time=\S+Z level=\w+ area=\w+ message=/);
            }
        }
    }
});

test('journal format without a journal does not start and names an alternative', async (t) => {
    if (existsSync('/run/systemd/journal/socket')) {
        t.skip('there is a journal here');
        return;
    }
    const end = await run(t, ['serve', '--http', '127.0.0.1:0', '--log-format', 'journal', new Tree(t).path]);
    assert.notEqual(end.code, 0);
    assert.match(end.stderr, /journal.*use text, json or logfmt/s);
});

test('levels, format and access log are reloaded on SIGHUP unless set by an option', async (t) => {
    const tree = new Tree(t, { a: 'a' });
    const config = new Tree(t).at('tidings.json');
    const put = (value) => writeFileSync(config, JSON.stringify(value), { mode: 0o600 });
    put({ logLevel: 'warn', mounts: [{ path: tree.path }] });
    const server = new Program(t, BIN, ['serve', '--http', '127.0.0.1:0', '--config', config]);
    server.url = (await server.lines.next((line) => line.includes('/mcp'), 'the URL')).match(/http\S+\/mcp/)[0];
    server.port = Number(new URL(server.url).port);
    await modern(server, 'resources/read', { uri: tree.uri('no') });
    put({ logLevel: 'info', logFormat: 'logfmt', accessLog: true, mounts: [{ path: tree.path }] });
    server.child.kill('SIGHUP');
    await said(server, 'level=info area=server message=reloaded what=log');
    await modern(server, 'resources/read', { uri: tree.uri('a') });
    await said(server, 'area=request message=request method=resources/read', 'status=ok');
    assert.ok(!server.stderr.includes('request failed'), server.stderr);
    put({ logLevel: 'loud' });
    server.child.kill('SIGHUP');
    await said(server, 'level=error', 'reload failed', 'loud');
    put({ logLevel: 'info,request=warn', logFormat: 'text', accessLog: true });
    server.child.kill('SIGHUP');
    await said(server, 'info server: reloaded what=log');
    const before = server.lines.seen.length;
    await modern(server, 'resources/read', { uri: tree.uri('no') });
    await request(server, { method: 'GET', path: '/mcp', headers: { Host: 'evil.example' } });
    await said(server, 'warn access: request refused cause=host');
    assert.ok(!server.lines.seen.slice(before).some((line) => line.includes('resources/read')));
});

test('SIGUSR1 reopens the log file in the sandbox; if reopening fails, logging continues in the old file', async (t) => {
    const where = new Tree(t);
    const file = where.at('tidings.log');
    const server = await serve(t, { files: { a: 'a' }, args: ['--log-file', file, '--access-log'] });
    const text = (path = file) => readFileSync(path, 'utf8');
    /** Send requests until the line appears. The server logs a request before it answers. */
    const logged = async (what, path) => {
        await call(server, 'resources/read', { uri: server.uri('a') });
        return within(
            (async () => {
                while (!text(path).includes(what)) {
                    await call(server, 'server/discover', {});
                }
            })(),
            `${what} in ${path ?? file}`,
        );
    };
    await logged('method=resources/read');
    assert.match(text(), /info server: serving addresses=http/);
    assert.equal(server.stderr.split('\n').filter((line) => line.includes('request:')).length, 0);
    renameSync(file, `${file}.1`);
    await logged('method=resources/read', `${file}.1`);
    assert.ok(!existsSync(file));
    server.child.kill('SIGUSR1');
    await within((async () => {
        while (!existsSync(file) || !text().includes('log file opened again')) {
            await call(server, 'server/discover', {});
        }
    })(), 'the new file');
    const old = text(`${file}.1`).length;
    await logged('method=resources/read');
    assert.equal(text(`${file}.1`).length, old);
});

test('separate access log file is reopened by SIGUSR1', async (t) => {
    const where = new Tree(t);
    const file = where.at('access.log');
    const server = await serve(t, { files: { a: 'a' }, args: ['--access-log-file', file] });
    const text = (path = file) => (existsSync(path) ? readFileSync(path, 'utf8') : '');
    await call(server, 'resources/read', { uri: server.uri('a') });
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('a')] });
    await modern(server, 'resources/read', { uri: server.uri('no') });
    await said(server, 'info request: request failed', 'method=resources/read'); // not in the access log
    assert.match(text(), /info request: request method=resources\/read .*status=ok/);
    assert.match(text(), /info request: listening began peer=/);
    assert.ok(!text().includes('request failed'), text());
    assert.ok(!server.stderr.includes('duration_us') && !server.stderr.includes('listening began'), server.stderr);
    events.close();
    renameSync(file, `${file}.1`);
    server.child.kill('SIGUSR1');
    await said(server, 'log file opened again');
    const old = text(`${file}.1`).length;
    await call(server, 'resources/read', { uri: server.uri('a') });
    assert.match(text(), /request method=resources\/read/);
    assert.equal(text(`${file}.1`).slice(old).includes('resources/read'), false);
    const nowhere = await run(t, ['serve', '--http', '127.0.0.1:0', '--access-log-file', where.at('no/where'), where.path]);
    assert.ok(nowhere.code !== 0 && nowhere.stderr.includes("open the log file '"), nowhere.stderr);
});

test('unknown paths are logged as paths, denied requests as rejections', async (t) => {
    const tokens = new TokenFile(t);
    const [ada, root] = [tokens.give('ada'), tokens.give('root')];
    const rules = [
        { principal: 'ada', uri: 'file:///**/open*', allow: ['list', 'read', 'subscribe'] },
        { principal: 'root', allow: ['list', 'read', 'subscribe'] },
    ];
    const args = [...tokens.args, '--self', '--access-log', ...rules.flatMap((rule) => ['--access', JSON.stringify(rule)])];
    const server = await serve(t, { files: { open: '1', hidden: '2' }, args });
    const get = (path, token) => request(as(server, token), { method: 'GET', path });
    const evil = '/wp-admin/%1b%5b2J%20a%22b?token=geheim';
    assert.equal((await get(evil, ada)).status, 404);
    for (const line of [await said(server, 'request failed', 'status=404'), await said(server, 'request: request method=GET', 'status=404')]) {
        assert.ok(line.includes('wp-admin/%1b%5b2J%20a') && !line.includes('geheim'), line);
        assert.ok(!/cause=/.test(line), line);
    }
    const at = (name) => `/resource?uri=${encodeURIComponent(server.uri(name))}`;
    const [denied, absent] = [await get(at('hidden'), ada), await get(at('nothing'), ada)];
    assert.deepEqual([denied.status, absent.status], [404, 404]);
    assert.equal(denied.text.replaceAll('hidden', 'nothing'), absent.text, 'the client sees no difference');
    assert.equal((await get(at('opennot'), ada)).status, 404);
    const line = await said(server, 'warn access: request refused cause=access', 'method=/resource');
    assert.ok(line.includes('status=404') && line.includes(`uri=${server.uri('hidden')}`) && line.includes('principal=ada'), line);
    const other = await said(server, 'info request: request failed', 'method=/resource');
    assert.ok(other.includes(`uri=${server.uri('opennot')}`), other);
    assert.equal((await get(at('open'), ada)).status, 200);
    await get(at('hidden'), ada);
    const { contents } = await call(as(server, root), 'resources/read', { uri: 'tidings://self/status' });
    const { lastFailure } = JSON.parse(contents[0].text);
    assert.deepEqual([lastFailure.method, lastFailure.status, lastFailure.cause, lastFailure.reason, lastFailure.address],
        ['/resource', 404, 'access', 'resource not found', '127.0.0.1']);
    assert.ok(Math.abs(lastFailure.atMs - Date.now()) < 60_000);
    assert.equal(lastFailure.uri, server.uri('hidden'));
    await get('/resource?uri=file%3A%2F%2F%2Fa%ff%fe%00%c3', ada); // not valid UTF-8
    const now = JSON.parse((await call(as(server, root), 'resources/read', { uri: 'tidings://self/status' })).contents[0].text).lastFailure;
    assert.ok(now.method === '/resource' && now.atMs >= lastFailure.atMs && /^[\x20-\x7e]*$/.test(now.uri ?? ''), JSON.stringify(now));
    await get(at('hidden'), ada);
    const shown = await run(t, ['status', server.url], { env: { TIDINGS_TOKEN: root } });
    assert.match(shown.stdout, /^failed +last .* ago: \/resource file:\S+\/hidden, refused: access of 127\.0\.0\.1: resource not found$/m);
});

test('access log covers every transport with principal, method, duration and size', async (t) => {
    const tree = new Tree(t, { a: 'a' });
    const doors = ['--tcp', '127.0.0.1:0', '--unix', tree.at('../lines.sock'), '--access-log'];
    const server = await serve(t, { tree, args: doors });
    const tcp = Number(server.stderr.match(/tcp:\/\/127\.0\.0\.1:(\d+)/)[1]);
    const message = (id) => ({
        jsonrpc: '2.0', id, method: 'resources/read', params: { uri: tree.uri('a'), _meta: meta({ traceparent: PARENT }) },
    });
    const common = [`method=resources/read uri=${tree.uri('a')} status=ok duration_us=`, 'client=integration-test client_version=1 era=modern', TRACE];

    await modern(server, 'resources/read', message(1).params);
    await said(server, ...common, 'by=anonymous address=127.0.0.1:', 'transport=http');

    const ws = await WebSocketRaw.open(server);
    await ws.ask('resources/read', { uri: tree.uri('a'), _meta: meta({ traceparent: PARENT }) });
    await said(server, ...common, 'transport=websocket');

    for (const where of [{ port: tcp, host: '127.0.0.1' }, { path: tree.at('../lines.sock') }]) {
        const socket = net.connect(where).setEncoding('utf8');
        socket.write(`${JSON.stringify(message(2))}\n`);
        await said(server, ...common, where.path ? 'by=user' : 'address=127.0.0.1:', 'transport=socket');
        socket.destroy();
    }

    const session = await Session.open(server);
    await session.send('resources/read', { uri: tree.uri('a') });
    const legacy = await said(server, 'method=resources/read', 'era=legacy');
    assert.match(legacy, /client=\S+ client_version=\S+/);
    assert.ok(!server.stderr.includes(session.id), 'the id of a session');

    await request(server, { method: 'GET', path: `/resource?uri=${encodeURIComponent(tree.uri('a'))}`, headers: { traceparent: PARENT } });
    await said(server, `method=GET path=/resource uri=${tree.uri('a')} status=200`, TRACE);
    await request(server, { method: 'GET', path: '/nowhere' });
    await said(server, 'method=GET path=/nowhere status=404');
    await post(server, '{');
    const refused = fields(await said(server, 'warn access: request refused cause=malformed', 'code=-32700'));
    const line = fields(await said(server, 'info request: request code=-32700', 'bytes_in=1'));
    assert.equal(line.request_id, refused.request_id);

    const pipe = Pipe.open(t, { files: { a: 'a' }, args: ['--access-log'] });
    await pipe.modern('resources/read', { uri: pipe.uri('a') });
    await said(pipe, 'method=resources/read', 'by=program', 'transport=stdio');
    const ids = server.lines.seen.filter((line) => /request: request (method|code)=/.test(line)).map((line) => fields(line).request_id);
    assert.equal(new Set(ids).size, ids.length, 'a number was given twice');
});

test('listen is logged at its start, and at its end with the reason', async (t) => {
    const server = await serve(t, { files: { a: 'a' }, args: ['--access-log'] });
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('a')] });
    const begun = fields(await said(server, 'listening began', 'subscriptions=1', 'client=integration-test'));
    server.tree.write('a', 'b');
    await events.message();
    events.close();
    const ended = fields(await said(server, 'listening ended', 'reason="closed by the client"'));
    assert.equal(ended.peer, begun.peer);
    assert.equal(ended.deliveries, '1');
    assert.ok(Number(ended.bytes_out) > 100 && Number(ended.duration_ms) >= 0, JSON.stringify(ended));

    const session = await Session.open(server);
    await session.subscribe(server.uri('a'));
    await said(server, 'listening began', 'session=');
    await request(server, { method: 'DELETE', path: '/mcp', headers: session.headers });
    await said(server, 'listening ended', 'reason="its session was ended by the client"');
    assert.ok(!server.stderr.includes(session.id));

    const last = await listen(server, { resourceSubscriptions: [server.uri('a')] });
    await server.stop();
    assert.ok(server.lines.seen.some((line) => line.includes('listening ended') && line.includes('reason="the server is stopping"')), server.stderr);
    last.events.close();
});

test('many concurrent streams do not flood the log: omitted lines are counted', async (t) => {
    const server = await serve(t, { files: { a: 'a' }, args: ['--workers', '1', '--log-level', 'info'] });
    const count = 200;
    const all = await Promise.all(Array.from({ length: count }, () => listen(server, { resourceSubscriptions: [server.uri('a')] })));
    const sum = (what) => server.lines.seen
        .filter((line) => line.includes(what))
        .reduce((total, line) => total + Number(fields(line).others) + Number(line.includes('peer=')), 0);
    while (sum('listening began') < count) {
        await server.lines.next((line) => line.includes('listening began'), 'those left out');
    }
    assert.equal(sum('listening began'), count);
    assert.ok(server.lines.seen.filter((line) => line.includes('listening began')).length < 60);
    all.forEach(({ events }) => events.close());
});

test('rejections are warnings by cause, and a flood gives few lines with a count', async (t) => {
    const tokens = new TokenFile(t);
    const ann = tokens.give('ann', 'none');
    const rules = ['--access', JSON.stringify({ uri: 'system://metrics/', allow: ['list', 'read'] })];
    const server = await serve(t, { files: { a: 'a' }, args: ['--workers', '1', '--log-level', 'warn', '--system', ...tokens.args, ...rules] });
    for (let i = 0; i < 50; i += 1) {
        await modern(as(server, `wrong-${i}`), 'ping');
    }
    await said(server, 'warn access: request refused cause=authentication method=/mcp status=401', 'by=anonymous address=127.0.0.1');
    const sum = () => server.lines.seen
        .filter((line) => /requests? refused cause=authentication/.test(line))
        .reduce((total, line) => total + Number(fields(line).others) + Number(/request refused/.test(line)), 0);
    while (sum() < 50) {
        await server.lines.next((line) => /refused cause=authentication/.test(line), 'those left out');
    }
    assert.equal(sum(), 50);
    await modern(as(server, ann), 'resources/read', { uri: server.uri('a') });
    const denied = await said(server, 'warn access: request refused cause=access method=resources/read', 'principal=ann by=token');
    assert.ok(denied.includes('request_id='));
    await modern(as(server, ann), 'resources/read', { uri: 'system://metrics/nothing' });
    await request(as(server, ann), { method: 'GET', path: '/mcp', headers: { Origin: 'https://evil.example', Authorization: `Bearer ${ann}` } });
    await said(server, 'cause=origin');
    assert.ok(!server.stderr.includes('metrics/nothing') && !server.stderr.includes('request failed'), server.stderr);
    for (const secret of [ann, 'wrong-1']) {
        assert.ok(!server.stderr.includes(secret), `the log has ${secret}`);
    }
});

test('log contains no secret at any level', async (t) => {
    const tokens = new TokenFile(t);
    const ann = tokens.give('ann');
    const args = ['--log-level', 'debug', '--access-log', '--legacy-sse', ...tokens.args];
    const server = await serve(t, { files: { a: 'content-of-a-file' }, args });
    const known = as(server, ann);
    await call(known, 'resources/read', { uri: server.uri('a') });
    const session = await Session.open(known);
    await session.subscribe(server.uri('a'));
    const stream = await session.stream();
    stream.close();
    const cookie = 'cookie-secret-value';
    await request(server, { method: 'GET', path: '/resource?uri=file:///no&access_token=query-secret', headers: { ...known.headers, Cookie: cookie } });
    await request(server, { method: 'POST', path: '/messages?sessionId=not-a-session-secret', headers: known.headers, body: '{}' });
    await modern(as(server, 'bad-bearer-secret'), 'ping');
    await session.send('tools/call', { name: 'x', arguments: { password: 'argument-secret' } });
    await server.stop();
    assert.ok(server.stderr.includes('principal=ann'), server.stderr);
    for (const secret of [ann, session.id, cookie, 'query-secret', 'not-a-session-secret', 'bad-bearer-secret', 'argument-secret', 'content-of-a-file']) {
        assert.ok(!server.stderr.includes(secret), `the log has ${secret}:\n${server.stderr}`);
    }
});

for (const [way, { open, encode, secure }] of Object.entries(WAYS)) {
    test(`stall warning states how long the client read nothing: ${way}`, async (t) => {
        const server = await start(t, { args: ['--stall-timeout', '1s'], secure });
        const slow = await open(t, server);
        Array.from({ length: COUNT }, (_, id) => slow.write(encode(read(server, id), server)));
        const line = fields(await said(server, 'slow reader cut', 'takes nothing'));
        assert.ok(Number(line.lag_ms) >= 1000, JSON.stringify(line));
    });
}

test('WebSocket without a pong is cut with the time since the ping', async (t) => {
    const server = await serve(t, { files: {}, args: ['--keepalive', '1s', '--stall-timeout', '1s'] });
    const socket = await WebSocketRaw.open(server);
    const line = fields(await said(server, 'slow reader cut', 'answers no ping'));
    assert.ok(Number(line.lag_ms) >= 1000, JSON.stringify(line));
    socket.close();
});

test('stalled reader causes a warning and is cut', async (t) => {
    const args = ['--stall-timeout', '1s', '--outbox', '4', '--window', '0', '--log-level', 'warn', '--publish', 'app:///', '--allow-write', '--max-value', '1m'];
    const server = await serve(t, { files: {}, args });
    const socket = net.connect(server.port, '127.0.0.1');
    const params = { notifications: { resourceSubscriptions: ['app:///'] }, _meta: { ...meta(), 'dev.tidings/options': { include: 'value' } } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params });
    socket.write(`POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await new Promise((resolve) => socket.once('data', resolve));
    socket.pause();
    const cut = server.lines.next((line) => line.includes('slow reader cut'), 'the cut');
    let isCut = false;
    cut.then(() => { isCut = true; }, () => { isCut = true; });
    for (let i = 0; !isCut && i < 2000; i += 1) {
        await call(server, 'tools/call', { name: 'publish', arguments: { uri: `app:///${i % 50}`, text: 'x'.repeat(40000) + i } });
    }
    const line = fields(await cut);
    assert.equal(line.reason, '"it takes nothing (--stall-timeout)"');
    assert.ok(Number(line.unsent_bytes) > 0 && line.address.startsWith('127.0.0.1:'), JSON.stringify(line));
    assert.ok(server.lines.seen.some((other) => other.includes('slow reader: pending updates are merged')), server.stderr);
    socket.destroy();
});
