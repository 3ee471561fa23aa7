// SPDX-License-Identifier: MIT
//
// What an attacker sends: names that pretend to be local, paths that leave the tree, requests that
// try to confuse or exhaust the server. Each trick has its own test.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { Connection, encodeRequest, request } from './lib/http.mjs';
import { call, initialize, meta, modern, post, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';
import { Tree } from './lib/tree.mjs';
import { within } from './lib/wait.mjs';

const files = { 'a.txt': 'a' };

/** POST initialize with these Host / Origin headers: the status. */
async function status(server, headers) {
    const body = JSON.stringify(initialize());
    const all = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers };
    return (await request(server, { headers: all, body })).status;
}

// ---- DNS rebinding: PORT stands for the server's port

const EVIL_HOSTS = {
    'an evil host': 'evil.example.com',
    'an evil host with our port': 'evil.example.com:PORT',
    'localhost as a label of an evil host': 'localhost.evil.com:PORT',
    'our address as labels of an evil host': '127.0.0.1.evil.com:PORT',
    'localhost as a suffix': 'evil-localhost:PORT',
    'localhost as a prefix': 'localhostevil:PORT',
    'an evil subdomain of localhost': 'evil.localhost:PORT',
    'our address after an at sign': 'evil@127.0.0.1:PORT',
    'an evil host after an at sign': 'localhost@evil.com',
    'user information with a colon': 'localhost:PORT@evil.com',
    'our address with a trailing dot': '127.0.0.1.:PORT',
    'localhost with a trailing dot': 'localhost.:PORT',
    'an address written as one number': '2130706433:PORT',
    'an address in hexadecimal': '0x7f000001:PORT',
    'an address in octal': '0177.0.0.1:PORT',
    'a short address': '127.1:PORT',
    'the unspecified address': '0.0.0.0:PORT',
    'another loopback address': '127.0.0.2:PORT',
    'an IPv4-mapped address': '[::ffff:127.0.0.1]:PORT',
    'a long form of the IPv6 loopback': '[0:0:0:0:0:0:0:1]:PORT',
    'an IPv6 loopback with a zone': '[::1%25lo]:PORT',
    'an IPv6 loopback without brackets': '::1',
    'an IPv6 bracket left open': '[::1:PORT',
    'an empty host': '',
    'only a port': ':PORT',
    'a port that is no number': 'localhost:PORTx',
    'a port that is too large': 'localhost:99999',
    'a path in the host': 'localhost:PORT/evil.com',
    'a backslash in the host': 'localhost\\evil.com:PORT',
    'a fragment in the host': 'localhost#evil.com',
    'a query in the host': 'localhost?evil.com',
    'a percent-encoded host': '%6cocalhost:PORT',
    'two hosts in one header': 'localhost:PORT, evil.com',
    'letters that look alike': 'lоcalhost:PORT',
};

for (const [name, host] of Object.entries(EVIL_HOSTS)) {
    test(`Host: ${name} is refused`, async (t) => {
        const server = await serve(t, { files });
        const bytes = Buffer.from(host.replace('PORT', server.port)).toString('latin1');
        const got = await status(server, { Host: bytes });
        assert.ok(got === 403 || got === 400 || got === 421, `${host} gave ${got}`);
    });
}

const EVIL_ORIGINS = {
    'an evil origin': 'http://evil.example.com',
    'an evil origin with our port': 'http://evil.example.com:PORT',
    'the null origin': 'null',
    'localhost as a label of an evil origin': 'http://localhost.evil.com',
    'our address as labels of an evil origin': 'http://127.0.0.1.evil.com:PORT',
    'localhost as a prefix': 'http://localhostevil',
    'localhost as a suffix': 'http://evil-localhost',
    'localhost before an at sign': 'http://localhost@evil.com',
    'localhost and our port before an at sign': 'http://localhost:PORT@evil.com',
    'an evil name before an at sign': 'http://evil.com@localhost:PORT',
    'a trailing dot': 'http://localhost.:PORT',
    'a path': 'http://localhost:PORT/evil',
    'no scheme': 'localhost:PORT',
    'a file origin': 'file://localhost',
    'an extension origin': 'chrome-extension://localhost',
    'an unknown scheme': 'evil://localhost',
    'an address written as one number': 'http://2130706433:PORT',
    'an IPv4-mapped address': 'http://[::ffff:127.0.0.1]:PORT',
    'a port that is no number': 'http://localhost:PORTx',
    'two origins': 'http://localhost:PORT, http://evil.com',
    'two origins with a space': 'http://localhost:PORT http://evil.com',
    'nothing': '',
};

for (const [name, origin] of Object.entries(EVIL_ORIGINS)) {
    test(`Origin: ${name} is refused with 403`, async (t) => {
        const server = await serve(t, { files });
        const got = await status(server, { Origin: origin.replace('PORT', server.port) });
        assert.equal(got, 403, origin);
    });
}

const GOOD = {
    localhost: 'localhost', 'our address': '127.0.0.1', 'the IPv6 loopback': '[::1]',
};

for (const [name, host] of Object.entries(GOOD)) {
    test(`Host and Origin: ${name} is welcome, with our port, another port, and none`, async (t) => {
        const server = await serve(t, { files });
        for (const port of [`:${server.port}`, ':6274', '']) {
            assert.equal(await status(server, { Host: host + port }), 200, `Host ${host}${port}`);
            const origin = `http://${host}${port}`;
            assert.equal(await status(server, { Host: host + port, Origin: origin }), 200, `Origin ${origin}`);
        }
    });
}

test('Host: capital letters name the same host', async (t) => {
    const server = await serve(t, { files });
    assert.equal(await status(server, { Host: `LocalHost:${server.port}` }), 200);
});

test('a good Host with an evil Origin, and the reverse, are refused', async (t) => {
    const server = await serve(t, { files });
    const good = `127.0.0.1:${server.port}`;
    assert.equal(await status(server, { Host: good, Origin: 'http://evil.com' }), 403);
    const reverse = await status(server, { Host: 'evil.com', Origin: `http://${good}` });
    assert.ok([400, 403, 421].includes(reverse), `${reverse}`);
});

test('Host: two of them are 400', async (t) => {
    const server = await serve(t, { files });
    const body = JSON.stringify(initialize());
    const headers = [
        ['Host', `127.0.0.1:${server.port}`], ['Host', 'evil.com'], ['Content-Type', 'application/json'], ['Accept', '*/*'],
    ];
    assert.equal((await request(server, { headers, body })).status, 400);
});

test('Host: none is 400 in HTTP/1.1 and never served in HTTP/1.0', async (t) => {
    const server = await serve(t, { files });
    for (const version of ['1.1', '1.0']) {
        const connection = await Connection.open(server);
        await connection.send(`GET /mcp HTTP/${version}\r\nAccept: text/event-stream\r\n\r\n`);
        const { status: got } = await connection.readHead();
        assert.ok(got === 400 || got === 505 || got === 403, `HTTP/${version} gave ${got}`);
        connection.close();
    }
});

test('Host: an absolute request target that names another host is refused', async (t) => {
    const server = await serve(t, { files });
    const body = JSON.stringify(initialize());
    const headers = { 'Content-Type': 'application/json', Accept: '*/*' };
    for (const target of ['http://evil.com/mcp', `http://evil.com:${server.port}/mcp`, `http://localhost@evil.com/mcp`]) {
        const response = await request(server, { path: target, headers, body });
        assert.ok(response.status >= 400 && response.status < 500, `${target} gave ${response.status}`);
    }
});

test('Origin and Host are checked on GET, DELETE and OPTIONS too', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    for (const method of ['GET', 'DELETE', 'OPTIONS']) {
        const headers = { ...session.headers, Accept: 'text/event-stream', Origin: 'http://evil.com' };
        const response = await request(server, { method, headers });
        assert.equal(response.status, 403, method);
        assert.equal(response.headers.has('access-control-allow-origin'), false, method);
    }
    assert.equal((await session.send('ping')).status, 200, 'the evil DELETE ended the session');
});

test('--allow-origin and --allow-host admit exactly what they name', async (t) => {
    const args = ['--allow-origin', 'https://app.example.com', '--allow-host', 'mcp.example.com'];
    const server = await serve(t, { files, args });
    assert.equal(await status(server, { Origin: 'https://app.example.com' }), 200);
    assert.equal(await status(server, { Host: 'mcp.example.com' }), 200);
    for (const origin of ['http://app.example.com', 'https://app.example.com.evil.com', 'https://xapp.example.com', 'https://app.example.com:8443']) {
        assert.equal(await status(server, { Origin: origin }), 403, origin);
    }
    for (const host of ['mcp.example.com.evil.com', 'xmcp.example.com', 'app.example.com']) {
        const got = await status(server, { Host: host });
        assert.ok([400, 403, 421].includes(got), `${host} gave ${got}`);
    }
});

test('CORS: a preflight from a local page is answered, one from elsewhere is not', async (t) => {
    const server = await serve(t, { files });
    const ask = (origin) => request(server, {
        method: 'OPTIONS',
        headers: {
            Origin: origin,
            'Access-Control-Request-Method': 'POST',
            'Access-Control-Request-Headers': 'content-type, mcp-protocol-version',
        },
    });
    const good = await ask('http://localhost:6274');
    assert.ok(good.status === 204 || good.status === 200, `${good.status}`);
    assert.equal(good.headers.get('access-control-allow-origin'), 'http://localhost:6274');
    assert.match(good.headers.get('access-control-allow-methods'), /POST/);
    const allowed = good.headers.get('access-control-allow-headers').toLowerCase();
    for (const name of ['authorization', 'content-type', 'accept', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id', 'last-event-id']) {
        assert.ok(allowed.includes(name), `${name} is not allowed: ${allowed}`);
    }
    const evil = await ask('http://evil.com');
    assert.equal(evil.status, 403);
    assert.equal(evil.headers.has('access-control-allow-origin'), false);
});

test('CORS: answers to a local page expose the session id', async (t) => {
    const server = await serve(t, { files });
    const response = await post(server, initialize(), { Origin: 'http://localhost:6274' });
    assert.equal(response.headers.get('access-control-allow-origin'), 'http://localhost:6274');
    assert.match(response.headers.get('access-control-expose-headers'), /mcp-session-id/i);
    assert.match(response.headers.get('vary') ?? '', /origin/i);
});

// ---- paths that leave the tree

/** Reading `uri` must be refused; the answer must not hold the secret. */
async function refused(server, uri) {
    const headers = { 'Mcp-Name': `=?base64?${Buffer.from(uri).toString('base64')}?=` };
    const response = await modern(server, 'resources/read', { uri }, { headers });
    assert.ok(response.json?.error, `${uri} was read: ${response.text}`);
    assert.ok(!response.text.includes('SECRET'), response.text);
    assert.ok([-32602, -32603, -32700, -32020].includes(response.json.error.code), response.text);
}

/** A tree with a secret beside it. */
async function guarded(t, options = {}) {
    const outside = new Tree(t, { 'secret.txt': 'SECRET' });
    const server = await serve(t, { files: { 'a.txt': 'a', 'dir/b.txt': 'b' }, ...options });
    return { server, tree: server.tree, outside };
}

const TRAVERSALS = {
    'dot segments': '../OUT/secret.txt',
    'dot segments inside': 'dir/../../OUT/secret.txt',
    'encoded dots': '%2e%2e/OUT/secret.txt',
    'half-encoded dots': '.%2e/OUT/secret.txt',
    'an encoded slash': '..%2fOUT%2fsecret.txt',
    'an encoded slash in capitals': '..%2FOUT%2Fsecret.txt',
    'dots encoded twice': '%252e%252e/OUT/secret.txt',
    'a backslash': '..\\OUT\\secret.txt',
    'an encoded backslash': '..%5cOUT%5csecret.txt',
    'an overlong dot': '%c0%ae%c0%ae/OUT/secret.txt',
    'an overlong slash': '..%c0%afOUT%c0%afsecret.txt',
    'many dots': '../../../../../../../../etc/passwd',
    'an empty segment before dots': 'dir//../../OUT/secret.txt',
    'an absolute path': '//etc/passwd',
    'a NUL that cuts the name': 'a.txt%00.png',
    'a NUL before dots': '%00/../OUT/secret.txt',
    'a raw NUL': 'a.txt\u0000',
    'a truncated escape': 'a.txt%',
    'an escape that is no number': 'a.txt%zz',
    'a dot segment that stays inside': 'dir/../a.txt',
    'a single dot': './a.txt',
    'a query': 'a.txt?x=../../OUT/secret.txt',
};

for (const [name, suffix] of Object.entries(TRAVERSALS)) {
    test(`path: ${name} is refused`, async (t) => {
        const { server, tree, outside } = await guarded(t);
        const suffixes = suffix.replaceAll('OUT', outside.path.split('/').pop());
        await refused(server, `file://${tree.path}/${suffixes}`);
    });
}

test('path: the mounted path as a prefix of another (data, data-evil) is refused', async (t) => {
    const { server, tree } = await guarded(t);
    const evil = `${tree.path}-evil`;
    fs.mkdirSync(evil);
    defer(t, () => fs.rmSync(evil, { recursive: true }));
    fs.writeFileSync(`${evil}/secret.txt`, 'SECRET');
    await refused(server, `file://${evil}/secret.txt`);
    await refused(server, `file://${tree.path}/../${tree.path.split('/').pop()}-evil/secret.txt`);
});

test('path: other hosts and schemes are not ours', async (t) => {
    const { server, tree } = await guarded(t);
    for (const uri of [`file://evil${tree.path}/a.txt`, `http://127.0.0.1${tree.path}/a.txt`, `${tree.path}/a.txt`, 'a.txt', '', 'file:', 'file://', ':', '%']) {
        await refused(server, uri);
    }
});

test('path: a symbolic link that leaves the tree is refused', async (t) => {
    const { server, tree, outside } = await guarded(t);
    fs.symlinkSync(outside.at('secret.txt'), tree.at('link.txt'));
    fs.symlinkSync(outside.path, tree.at('linked'));
    fs.symlinkSync(`../${outside.path.split('/').pop()}/secret.txt`, tree.at('relative.txt'));
    fs.symlinkSync('/proc/self/root', tree.at('root'));
    await refused(server, tree.uri('link.txt'));
    await refused(server, tree.uri('linked/secret.txt'));
    await refused(server, tree.uri('relative.txt'));
    await refused(server, tree.uri(`root${outside.path}/secret.txt`));
    const { resources } = await call(server, 'resources/list');
    assert.ok(!resources.some((resource) => resource.uri.includes('secret')), JSON.stringify(resources));
});

test('path: a directory swapped for a symbolic link after listing is refused', async (t) => {
    const { server, tree, outside } = await guarded(t);
    await call(server, 'resources/list');
    fs.renameSync(tree.at('dir'), tree.at('old'));
    fs.symlinkSync(outside.path, tree.at('dir'));
    await refused(server, tree.uri('dir/secret.txt'));
});

test('path: a symbolic link that stays inside is read', async (t) => {
    const { server, tree } = await guarded(t);
    fs.symlinkSync('dir/b.txt', tree.at('inside.txt'));
    const { contents } = await call(server, 'resources/read', { uri: tree.uri('inside.txt') });
    assert.equal(contents[0].text, 'b');
});

test('path: FIFOs, sockets and devices are refused at once', async (t) => {
    const { server, tree } = await guarded(t);
    const { execFileSync } = await import('node:child_process');
    execFileSync('mkfifo', [tree.at('fifo')]);
    const net = await import('node:net');
    const listener = net.createServer().listen(tree.at('socket'));
    await new Promise((resolve) => listener.once('listening', resolve));
    defer(t, () => listener.close());
    await refused(server, tree.uri('fifo'));
    await refused(server, tree.uri('socket'));
    fs.symlinkSync('/dev/zero', tree.at('zero'));
    await refused(server, tree.uri('zero'));
});

test('path: excluded names are neither listed nor read', async (t) => {
    const server = await serve(t, {
        files: { 'a.txt': 'a', '.git/config': 'SECRET', 'sub/.git/config': 'SECRET', 'key.pem': 'SECRET', 'sub/x.pem': 'SECRET' },
        args: ['--exclude', '*.pem'],
    });
    const { resources } = await call(server, 'resources/list');
    const uris = resources.map((resource) => resource.uri).join(' ');
    assert.ok(!/\.git|\.pem/.test(uris), uris);
    for (const name of ['.git/config', 'sub/.git/config', 'key.pem', 'sub/x.pem']) {
        await refused(server, server.uri(name));
    }
});

test('subscribe: URIs that may not be read may not be watched', async (t) => {
    const { server, tree, outside } = await guarded(t);
    const session = await Session.open(server);
    const evil = [`file://${tree.path}/../x`, outside.uri('secret.txt'), `file://${tree.path}/%00`, `file://${tree.path}/a.txt%2f..`];
    for (const uri of evil) {
        const response = await session.send('resources/subscribe', { uri });
        assert.ok(response.json.error, `${uri} was accepted`);
    }
});

// ---- messages that are too much

test('a read above the cap is a clear error', async (t) => {
    const server = await serve(t, { files: { 'big.txt': 'x'.repeat(5000) }, args: ['--max-read', '4096'] });
    const response = await modern(server, 'resources/read', { uri: server.uri('big.txt') });
    assert.ok(response.json.error, response.text);
    assert.match(response.json.error.message, /4096|large|cap|limit/i);
});

test('JSON nested too deep is refused, the connection lives', async (t) => {
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

test('huge ids are refused or given back, never mangled', async (t) => {
    const server = await serve(t, { files });
    for (const id of ['99999999999999999999999999', `"${'x'.repeat(100_000)}"`, '1e400', '1E2']) {
        const body = `{"jsonrpc":"2.0","id":${id},"method":"server/discover","params":${JSON.stringify({ _meta: meta() })}}`;
        const response = await post(server, body, { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'server/discover' });
        if (response.status === 200) {
            assert.ok(response.text.includes(`"id":${id}`) || response.text.includes(`"id": ${id}`), response.text.slice(0, 200));
        } else {
            assert.equal(response.status, 400, response.text);
        }
    }
});

const BAD_UTF8 = { 'a lone continuation byte': [0x80], 'an overlong slash': [0xc0, 0xaf], 'a surrogate': [0xed, 0xa0, 0x80], 'beyond Unicode': [0xf4, 0x90, 0x80, 0x80], 'a cut sequence': [0xe2, 0x82] };

for (const [name, bytes] of Object.entries(BAD_UTF8)) {
    test(`invalid UTF-8: ${name} is 400 / -32700`, async (t) => {
        const server = await serve(t, { files });
        const body = Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"'), Buffer.from(bytes), Buffer.from('"}')]);
        const response = await request(server, { headers: { 'Content-Type': 'application/json', Accept: '*/*' }, body });
        assert.equal(response.status, 400, response.text);
        assert.equal(response.json.error.code, -32700);
    });
}

test('a lone surrogate escape is 400', async (t) => {
    const server = await serve(t, { files });
    assert.equal((await post(server, '{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}')).status, 400);
});

test('a body above the limit is 413, declared or chunked', async (t) => {
    const server = await serve(t, { files, args: ['--max-body', '10000'] });
    const headers = { 'Content-Type': 'application/json', Accept: '*/*' };
    const declared = await Connection.open(server);
    await declared.send(encodeRequest(server.port, { headers: { ...headers, 'Content-Length': '10001' } }));
    assert.equal((await declared.readHead()).status, 413);
    declared.close();
    const chunked = await Connection.open(server);
    await chunked.send(encodeRequest(server.port, { headers: { ...headers, 'Transfer-Encoding': 'chunked' } }));
    await chunked.send(`2711\r\n${'x'.repeat(10001)}\r\n0\r\n\r\n`);
    assert.equal((await chunked.readHead()).status, 413);
    chunked.close();
    const fits = await request(server, { headers, body: JSON.stringify(initialize()) });
    assert.equal(fits.status, 200);
});

test('a header that is too long is 431, a target that is too long 414', async (t) => {
    const server = await serve(t, { files });
    const long = await Connection.open(server);
    await long.send(encodeRequest(server.port, { method: 'GET', headers: { 'X-Long': 'x'.repeat(200_000) } }));
    assert.equal((await long.readHead()).status, 431);
    const many = await Connection.open(server);
    const headers = Array.from({ length: 5000 }, (_, i) => [`X-${i}`, 'x']);
    await many.send(encodeRequest(server.port, { method: 'GET', headers }));
    assert.equal((await many.readHead()).status, 431);
    const target = await Connection.open(server);
    await target.send(encodeRequest(server.port, { method: 'GET', path: `/${'x'.repeat(100_000)}` }));
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
    test(`smuggling: ${name} is refused and the connection closed`, async (t) => {
        const server = await serve(t, { files });
        const connection = await Connection.open(server);
        const head = ['POST /mcp HTTP/1.1', `Host: 127.0.0.1:${server.port}`, 'Content-Type: application/json', ...lines];
        const hidden = `GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n`;
        await connection.send(Buffer.from(`${head.join('\r\n')}\r\n\r\n0\r\n\r\n${hidden}`, 'latin1'));
        const answer = (await within(connection.readToEnd(), 'the connection to be closed')).toString('latin1');
        assert.match(answer, /^HTTP\/1\.1 (400|411|413|501) /, answer);
        assert.equal(answer.match(/HTTP\/1\.1 /g).length, 1, `the hidden request was answered: ${answer}`);
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
    test(`request line: ${name} is refused`, async (t) => {
        const server = await serve(t, { files });
        const connection = await Connection.open(server);
        await connection.send(Buffer.from(text, 'latin1'));
        const answer = (await within(connection.readToEnd(), 'the connection to be closed')).toString('latin1');
        assert.match(answer, /^(HTTP\/1\.1 (400|501|505) |$)/, answer);
    });
}

test('slow headers are cut off, others are served meanwhile', async (t) => {
    const server = await serve(t, { files, args: ['--header-timeout', '1'] });
    const crawler = await Connection.open(server);
    await crawler.send('POST /mcp HTTP/1.1\r\n');
    const drip = setInterval(() => crawler.socket.write('X: y\r\n'), 100);
    defer(t, () => clearInterval(drip));
    assert.equal(await status(server, {}), 200);
    assert.ok(!crawler.ended, 'cut off at once');
    const answer = (await crawler.readToEnd('the slow connection to be cut')).toString('latin1');
    assert.match(answer, /^(HTTP\/1\.1 408 |$)/, answer);
});

// ---- on a pipe

test('stdio: a line that is too long is refused, the next is answered', async (t) => {
    const pipe = Pipe.open(t, { files, args: ['--max-line', '100000'] });
    await pipe.write(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${'x'.repeat(300_000)}"}}\n`);
    await pipe.write({ jsonrpc: '2.0', id: 2, method: 'ping' });
    const error = await pipe.message((m) => m.error, 'the refusal');
    assert.ok([-32700, -32600].includes(error.error.code), JSON.stringify(error));
    await pipe.message((m) => m.id === 2 && m.result, 'the next answer');
});

test('stdio: nonsense is refused line by line', async (t) => {
    const pipe = Pipe.open(t, { files });
    const lines = ['{', 'nonsense', '[]', '7', '""', '{"jsonrpc":"2.0"}', `${'['.repeat(100_000)}`, '{"jsonrpc":"2.0","id":null,"method":"ping"}'];
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

test('stdio: a last line without a newline is answered before the end', async (t) => {
    const pipe = Pipe.open(t, { files });
    await pipe.write('{"jsonrpc":"2.0","id":4,"method":"ping"}');
    pipe.child.stdin.end();
    await pipe.message((m) => m.id === 4 && m.result, 'the answer');
    pipe.check(await pipe.exited);
});
