// SPDX-License-Identifier: MIT
//
// Input that tries to confuse or exhaust the server: large, deeply nested or non-UTF-8 messages, requests hidden in
// requests, and clients that never finish.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { Connection, encodeRequest, request } from './lib/http.mjs';
import { initialize, meta, modern, post } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';
import { within } from './lib/wait.mjs';

const files = { 'a.txt': 'a' };

test('read above the limit returns a clear error', async (t) => {
    const server = await serve(t, {
        files: { 'big.txt': 'x'.repeat(5000) },
        args: ['--max-read', '4096'],
    });
    const response = await modern(server, 'resources/read', { uri: server.uri('big.txt') });
    assert.ok(response.json.error, response.text);
    assert.match(response.json.error.message, /4096|large|cap|limit/i);
    assert.equal(response.json.error.data.reason, 'too_large');
    const range = { from: 0, to: 4097 };
    const part = await modern(server, 'resources/read', { uri: server.uri('big.txt'), _meta: { ...meta(), 'dev.tidings/range': range } });
    assert.equal(part.json.error.data.reason, 'too_large', part.text);
});

test('deeply nested JSON is rejected, and the connection stays open', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    const body = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":${deep}}}`;
    const headers = { 'Content-Type': 'application/json', Accept: '*/*' };
    const response = await connection.request({ headers, body });
    assert.equal(response.status, 400, response.text);
    const next = await connection.request({ headers, body: JSON.stringify(initialize()) });
    assert.equal(next.status, 200);
    connection.close();
});

test('huge ids are rejected or returned unchanged', async (t) => {
    const server = await serve(t, { files });
    for (const id of ['99999999999999999999999999', `"${'x'.repeat(100_000)}"`, '1e400', '1E2']) {
        const body = `{"jsonrpc":"2.0","id":${id},"method":"server/discover","params":${JSON.stringify({ _meta: meta() })}}`;
        const response = await post(server, body, {
            'MCP-Protocol-Version': '2026-07-28',
            'Mcp-Method': 'server/discover',
        });
        if (response.status === 200) {
            assert.ok(
                response.text.includes(`"id":${id}`) || response.text.includes(`"id": ${id}`),
                response.text.slice(0, 200),
            );
        } else {
            assert.equal(response.status, 400, response.text);
        }
    }
});

const BAD_UTF8 = {
    'a lone continuation byte': [0x80],
    'an overlong slash': [0xc0, 0xaf],
    'a surrogate': [0xed, 0xa0, 0x80],
    'beyond Unicode': [0xf4, 0x90, 0x80, 0x80],
    'a cut sequence': [0xe2, 0x82],
};

for (const [name, bytes] of Object.entries(BAD_UTF8)) {
    test(`invalid UTF-8: ${name} returns 400 / -32700`, async (t) => {
        const server = await serve(t, { files });
        const body = Buffer.concat([
            Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'),
            Buffer.from(bytes),
            Buffer.from('"}'),
        ]);
        const response = await request(server, {
            headers: { 'Content-Type': 'application/json', Accept: '*/*' },
            body,
        });
        assert.equal(response.status, 400, response.text);
        assert.equal(response.json.error.code, -32700);
    });
}

test('lone surrogate escape returns 400', async (t) => {
    const server = await serve(t, { files });
    assert.equal(
        (await post(server, '{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}')).status,
        400,
    );
});

test('body above the limit returns 413, declared or chunked', async (t) => {
    const server = await serve(t, { files, args: ['--max-body', '10000'] });
    const headers = { 'Content-Type': 'application/json', Accept: '*/*' };
    const declared = await Connection.open(server);
    await declared.send(
        encodeRequest(server.port, { headers: { ...headers, 'Content-Length': '10001' } }),
    );
    assert.equal((await declared.readHead()).status, 413);
    declared.close();
    const chunked = await Connection.open(server);
    await chunked.send(
        encodeRequest(server.port, { headers: { ...headers, 'Transfer-Encoding': 'chunked' } }),
    );
    await chunked.send(`2711\r\n${'x'.repeat(10001)}\r\n0\r\n\r\n`);
    assert.equal((await chunked.readHead()).status, 413);
    chunked.close();
    const fits = await request(server, { headers, body: JSON.stringify(initialize()) });
    assert.equal(fits.status, 200);
});

test('long header returns 431, long target returns 414', async (t) => {
    const server = await serve(t, { files });
    const long = await Connection.open(server);
    await long.send(
        encodeRequest(server.port, { method: 'GET', headers: { 'X-Long': 'x'.repeat(200_000) } }),
    );
    assert.equal((await long.readHead()).status, 431);
    const many = await Connection.open(server);
    const headers = Array.from({ length: 5000 }, (_, i) => [`X-${i}`, 'x']);
    await many.send(encodeRequest(server.port, { method: 'GET', headers }));
    assert.equal((await many.readHead()).status, 431);
    const target = await Connection.open(server);
    await target.send(
        encodeRequest(server.port, { method: 'GET', path: `/${'x'.repeat(100_000)}` }),
    );
    assert.equal((await target.readHead()).status, 414);
    [long, many, target].forEach((connection) => connection.close());
});

const SMUGGLING = {
    'Content-Length and Transfer-Encoding': ['Content-Length: 4', 'Transfer-Encoding: chunked'],
    'two different Content-Lengths': ['Content-Length: 4', 'Content-Length: 5'],
    'two Content-Lengths in one line': ['Content-Length: 4, 5'],
    'a Content-Length with a sign': ['Content-Length: +4'],
    'a negative Content-Length': ['Content-Length: -1'],
    'a Content-Length in hexadecimal': ['Content-Length: 0x4'],
    'a Content-Length beyond 64 bits': ['Content-Length: 99999999999999999999'],
    'an unknown transfer coding': ['Transfer-Encoding: gzip'],
    'chunked that is not last': ['Transfer-Encoding: chunked, gzip'],
    'a transfer coding with a vertical tab': ['Transfer-Encoding: \u000bchunked'],
    'a space before the colon': ['Content-Length : 4'],
    'a folded header': ['X-A: 1', ' Content-Length: 4'],
    'a control character in a value': ['X-A: \u0001'],
    'a header without a colon': ['nonsense'],
    'an empty header name': [': x'],
};

for (const [name, lines] of Object.entries(SMUGGLING)) {
    test(`smuggling: ${name} is rejected and the connection closed`, async (t) => {
        const server = await serve(t, { files });
        const connection = await Connection.open(server);
        const head = [
            'POST /mcp HTTP/1.1',
            `Host: 127.0.0.1:${server.port}`,
            'Content-Type: application/json',
            ...lines,
        ];
        const hidden = `GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n`;
        await connection.send(
            Buffer.from(`${head.join('\r\n')}\r\n\r\n0\r\n\r\n${hidden}`, 'latin1'),
        );
        const answer = (
            await within(connection.readToEnd(), 'the connection to be closed')
        ).toString('latin1');
        connection.close();
        assert.match(answer, /^HTTP\/1\.1 (400|411|413|501) /, answer);
        assert.equal(
            answer.match(/HTTP\/1\.1 /g).length,
            1,
            `the hidden request was answered: ${answer}`,
        );
    });
}

const BAD_LINES = {
    'a bare line feed': 'GET /mcp HTTP/1.1\nHost: localhost\n\n',
    'no version': 'GET /mcp\r\n\r\n',
    'an unknown version': 'GET /mcp HTTP/2.0\r\nHost: localhost\r\n\r\n',
    'a lower-case version': 'GET /mcp http/1.1\r\nHost: localhost\r\n\r\n',
    'two spaces': 'GET  /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'a control character in the target': 'GET /mc\u0001p HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'a method with strange characters': 'G(T /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n',
    'bytes of TLS': '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\r\n\r\n',
    'a bare carriage return': 'GET /mcp HTTP/1.1\rHost: localhost\r\r\r\n\r\n',
};

for (const [name, text] of Object.entries(BAD_LINES)) {
    test(`request line: ${name} is rejected`, async (t) => {
        const server = await serve(t, { files });
        const connection = await Connection.open(server);
        await connection.send(Buffer.from(text, 'latin1'));
        const answer = (
            await within(connection.readToEnd(), 'the connection to be closed')
        ).toString('latin1');
        connection.close();
        assert.match(answer, /^(HTTP\/1\.1 (400|501|505) |$)/, answer);
    });
}

test('slow headers are cut off while other clients are served', async (t) => {
    const server = await serve(t, { files, args: ['--header-timeout', '1'] });
    const crawler = await Connection.open(server);
    await crawler.send('POST /mcp HTTP/1.1\r\n');
    const drip = setInterval(() => crawler.socket.write('X: y\r\n'), 100);
    defer(t, () => clearInterval(drip));
    assert.equal((await post(server, initialize())).status, 200);
    assert.ok(!crawler.ended, 'cut off at once');
    const answer = (await crawler.readToEnd('the slow connection to be cut')).toString('latin1');
    crawler.close();
    assert.match(answer, /^(HTTP\/1\.1 408 |$)/, answer);
});

// ---- on a pipe

test('stdio: long line is rejected, and the next is answered', async (t) => {
    const pipe = Pipe.open(t, { files, args: ['--max-line', '100000'] });
    await pipe.write(
        `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${'x'.repeat(300_000)}"}}\n`,
    );
    await pipe.write({ jsonrpc: '2.0', id: 2, method: 'ping' });
    const error = await pipe.message((m) => m.error, 'the refusal');
    assert.ok([-32700, -32600].includes(error.error.code), JSON.stringify(error));
    await pipe.message((m) => m.id === 2 && m.result, 'the next answer');
});

test('stdio: malformed input is rejected line by line', async (t) => {
    const pipe = Pipe.open(t, { files });
    const lines = [
        '{',
        'nonsense',
        '[]',
        '7',
        '""',
        '{"jsonrpc":"2.0"}',
        `${'['.repeat(100_000)}`,
        '{"jsonrpc":"2.0","id":null,"method":"ping"}',
    ];
    for (const line of lines) {
        await pipe.write(`${line}\n`);
        const answer = await pipe.message((m) => m.error, `the refusal of ${line.slice(0, 40)}`);
        assert.ok([-32700, -32600].includes(answer.error.code), JSON.stringify(answer));
    }
    await pipe.write(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"\xff"}\n', 'latin1'));
    assert.equal((await pipe.message((m) => m.error)).error.code, -32700);
    await pipe.write('\n  \n\r\n');
    await pipe.write('{"jsonrpc":"2.0","id":3,"method":"ping"}\r\n');
    await pipe.message((m) => m.id === 3 && m.result, 'an answer after empty lines and CR LF');
});

test('stdio: last line without a newline is answered before the end', async (t) => {
    const pipe = Pipe.open(t, { files });
    await pipe.write('{"jsonrpc":"2.0","id":4,"method":"ping"}');
    pipe.child.stdin.end();
    await pipe.message((m) => m.id === 4 && m.result, 'the answer');
    pipe.check(await pipe.exited);
});
