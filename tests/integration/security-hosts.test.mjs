// SPDX-License-Identifier: MIT
//
// Access to a server: Host and Origin, one test for each DNS-rebinding trick, the valid names of each listener, and
// the CORS headers for browsers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Certificates } from './lib/certs.mjs';
import { Connection, request } from './lib/http.mjs';
import { initialize, post, Session } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { upgrade } from './lib/websocket.mjs';

const files = { 'a.txt': 'a' };

/** POST initialize with these Host / Origin headers. Returns the status. */
async function status(server, headers) {
    const body = JSON.stringify(initialize());
    const all = {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        ...headers,
    };
    return (await request(server, { headers: all, body })).status;
}

// PORT is a placeholder for the server's port.

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
    test(`Host: ${name} is rejected`, async (t) => {
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
    nothing: '',
};

for (const [name, origin] of Object.entries(EVIL_ORIGINS)) {
    test(`Origin: ${name} is rejected with 403`, async (t) => {
        const server = await serve(t, { files });
        const got = await status(server, { Origin: origin.replace('PORT', server.port) });
        assert.equal(got, 403, origin);
    });
}

const GOOD = {
    localhost: 'localhost',
    'our address': '127.0.0.1',
    'the IPv6 loopback': '[::1]',
};

for (const [name, host] of Object.entries(GOOD)) {
    test(`Host and Origin: ${name} is accepted with our port, another port and no port`, async (t) => {
        const server = await serve(t, { files });
        for (const port of [`:${server.port}`, ':6274', '']) {
            assert.equal(await status(server, { Host: host + port }), 200, `Host ${host}${port}`);
            const origin = `http://${host}${port}`;
            assert.equal(
                await status(server, { Host: host + port, Origin: origin }),
                200,
                `Origin ${origin}`,
            );
        }
    });
}

test('Host: capital letters name the same host', async (t) => {
    const server = await serve(t, { files });
    assert.equal(await status(server, { Host: `LocalHost:${server.port}` }), 200);
});

test('Host or Origin is rejected if either is malicious', async (t) => {
    const server = await serve(t, { files });
    const good = `127.0.0.1:${server.port}`;
    assert.equal(await status(server, { Host: good, Origin: 'http://evil.com' }), 403);
    const reverse = await status(server, { Host: 'evil.com', Origin: `http://${good}` });
    assert.ok([400, 403, 421].includes(reverse), `${reverse}`);
});

test('Host: duplicate header returns 400', async (t) => {
    const server = await serve(t, { files });
    const body = JSON.stringify(initialize());
    const headers = [
        ['Host', `127.0.0.1:${server.port}`],
        ['Host', 'evil.com'],
        ['Content-Type', 'application/json'],
        ['Accept', '*/*'],
    ];
    assert.equal((await request(server, { headers, body })).status, 400);
});

test('Host: missing header returns 400 in HTTP/1.1 and is never served in HTTP/1.0', async (t) => {
    const server = await serve(t, { files });
    for (const version of ['1.1', '1.0']) {
        const connection = await Connection.open(server);
        await connection.send(`GET /mcp HTTP/${version}\r\nAccept: text/event-stream\r\n\r\n`);
        const { status: got } = await connection.readHead();
        assert.ok(got === 400 || got === 505 || got === 403, `HTTP/${version} gave ${got}`);
        connection.close();
    }
});

test('Host: absolute request target with another host is rejected', async (t) => {
    const server = await serve(t, { files });
    const body = JSON.stringify(initialize());
    const headers = { 'Content-Type': 'application/json', Accept: '*/*' };
    for (const target of [
        'http://evil.com/mcp',
        `http://evil.com:${server.port}/mcp`,
        `http://localhost@evil.com/mcp`,
    ]) {
        const response = await request(server, { path: target, headers, body });
        assert.ok(
            response.status >= 400 && response.status < 500,
            `${target} gave ${response.status}`,
        );
    }
});

test('Origin and Host are checked on GET, DELETE and OPTIONS too', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    for (const method of ['GET', 'DELETE', 'OPTIONS']) {
        const headers = {
            ...session.headers,
            Accept: 'text/event-stream',
            Origin: 'http://evil.com',
        };
        const response = await request(server, { method, headers });
        assert.equal(response.status, 403, method);
        assert.equal(response.headers.has('access-control-allow-origin'), false, method);
    }
    assert.equal((await session.send('ping')).status, 200, 'the evil DELETE ended the session');
});

// The variant of CVE-2026-34742 and CVE-2026-59950: one entry was protected, another was not.
const WAYS = {
    'the endpoint': { path: '/mcp', headers: { Accept: 'text/event-stream' } },
    'a WebSocket': { path: '/mcp', headers: upgrade },
    'the stream of HTTP+SSE': { path: '/sse', headers: { Accept: 'text/event-stream' } },
    'messages of HTTP+SSE': {
        method: 'POST',
        path: '/messages?sessionId=x',
        headers: { 'Content-Type': 'application/json' },
        body: '{}',
    },
    'a resource': { path: '/resource?uri=file:///a' },
    'a resource that is written': { method: 'PUT', path: '/resource?uri=pub:///a', body: 'x' },
    'an entity': { path: '/entity/a@1/b' },
    'a preflight': { method: 'OPTIONS', path: '/mcp' },
};

for (const [name, way] of Object.entries(WAYS)) {
    test(`every listener: ${name} rejects other hosts and origins`, async (t) => {
        const args = ['--legacy-sse', '--publish', 'pub:///', '--allow-write', '--entities', ':memory:'];
        const server = await serve(t, { files, args });
        const evil = [{ Host: `evil.com:${server.port}` }, { Origin: 'http://evil.com' }, { Origin: 'null' }];
        for (const headers of evil) {
            const all = { ...way.headers, ...headers };
            const answer = await request(server, { method: 'GET', ...way, headers: all });
            assert.equal(answer.status, 403, `${JSON.stringify(headers)}: ${answer.text}`);
            assert.equal(answer.headers.has('access-control-allow-origin'), false);
        }
    });
}

// Requests of embedded elements have no Origin; the browser sends their site in Sec-Fetch-Site.
for (const [name, way] of Object.entries(WAYS)) {
    test(`every listener: ${name} rejects embedding by other sites and tells browsers`, async (t) => {
        const args = ['--legacy-sse', '--publish', 'pub:///', '--allow-write', '--entities', ':memory:'];
        const server = await serve(t, { files, args });
        const from = async (...sites) => {
            const headers = [['Host', `127.0.0.1:${server.port}`], ...Object.entries(way.headers ?? {})];
            sites.forEach((site) => headers.push(['Sec-Fetch-Site', site]));
            const connection = await Connection.open(server);
            const { method = 'GET', path, body = '' } = way;
            const lines = headers.map(([key, value]) => `${key}: ${value}\r\n`).join('');
            const length = body ? `Content-Length: ${body.length}\r\n` : '';
            await connection.send(`${method} ${path} HTTP/1.1\r\n${lines}${length}\r\n${body}`);
            const head = await connection.readHead();
            connection.close();
            return head;
        };
        for (const sites of [['cross-site'], ['same-site'], ['evil'], [''], ['none', 'cross-site'], ['none', 'none']]) {
            const head = await from(...sites);
            assert.equal(head.status, 403, sites.join());
            assert.equal(head.headers.get('cross-origin-resource-policy'), 'same-origin');
        }
        for (const sites of [[], ['same-origin'], ['none']]) {
            const head = await from(...sites);
            assert.notEqual(head.status, 403, sites.join());
            if (head.status !== 101) {
                assert.equal(head.headers.get('cross-origin-resource-policy'), 'same-origin', sites.join());
            }
        }
    });
}

test('Origin: permitted origin may send cross-site requests', async (t) => {
    const server = await serve(t, { files });
    const headers = { Origin: 'http://localhost:6274', 'Sec-Fetch-Site': 'cross-site' };
    assert.equal(await status(server, headers), 200);
    assert.equal(await status(server, { ...headers, Origin: 'http://evil.example' }), 403);
});

test('embedding: rejected, missing and malformed requests also forbid embedding', async (t) => {
    const server = await serve(t, { files, args: ['--max-connections', '2'] });
    for (const bytes of ['GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n', 'PUT /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n', 'x\r\n\r\n']) {
        const connection = await Connection.open(server);
        await connection.send(bytes);
        const head = await connection.readHead();
        assert.ok(head.status >= 400);
        assert.equal(head.headers.get('cross-origin-resource-policy'), 'same-origin', bytes);
        connection.close();
        await connection.closed;
    }
    const held = [await Connection.open(server), await Connection.open(server), await Connection.open(server)];
    const head = await Promise.any(held.map((connection) => connection.readHead()));
    assert.equal(head.status, 503);
    assert.equal(head.headers.get('cross-origin-resource-policy'), 'same-origin');
    held.forEach((connection) => connection.close());
});

test('--allow-origin and --allow-host admit exactly what they name', async (t) => {
    const args = ['--allow-origin', 'https://app.example.com', '--allow-host', 'mcp.example.com'];
    const server = await serve(t, { files, args });
    assert.equal(await status(server, { Origin: 'https://app.example.com' }), 200);
    assert.equal(await status(server, { Host: 'mcp.example.com' }), 200);
    for (const origin of [
        'http://app.example.com',
        'https://app.example.com.evil.com',
        'https://xapp.example.com',
        'https://app.example.com:8443',
    ]) {
        assert.equal(await status(server, { Origin: origin }), 403, origin);
    }
    for (const host of ['mcp.example.com.evil.com', 'xmcp.example.com', 'app.example.com']) {
        const got = await status(server, { Host: host });
        assert.ok([400, 403, 421].includes(got), `${host} gave ${got}`);
    }
});

// ---- the names of a remotely reachable server ---------------------------------------------------

/** GET /mcp on a connection to `host` (an address of this machine). Returns status and text. */
async function ask(server, host, headers) {
    const connection = await Connection.open(server, { host });
    const response = await connection.request({ method: 'GET', path: '/mcp', headers });
    connection.close();
    return response;
}

const open = (t, ...args) => serve(t, { files, http: '0.0.0.0:0', args: ['--allow-remote', ...args] });

for (const [name, host] of Object.entries(EVIL_HOSTS)) {
    test(`Host: ${name} is rejected by a remotely reachable server`, async (t) => {
        const server = await open(t);
        const bytes = Buffer.from(host.replace('PORT', server.port)).toString('latin1');
        const got = await status(server, { Host: bytes });
        assert.ok(got === 403 || got === 400 || got === 421, `${host} gave ${got}`);
    });
}

test('listeners: reached address is a valid name there, another local address is not', async (t) => {
    const server = await open(t);
    for (const [at, other] of [['127.0.0.2', '127.0.0.3'], ['127.0.0.3', '127.0.0.2']]) {
        for (const port of ['', `:${server.port}`]) {
            assert.notEqual((await ask(server, at, { Host: at + port })).status, 403, at + port);
            const refused = await ask(server, at, { Host: other + port });
            assert.equal(refused.status, 403, other + port);
            assert.match(refused.text, /Host .*--allow-host/);
        }
        assert.notEqual((await ask(server, at, { Host: 'localhost' })).status, 403, 'forwarded ports');
    }
});

test('listeners: remote listener accepts local pages only from the same machine', async (t) => {
    const server = await open(t);
    assert.equal(await status(server, { Origin: 'http://localhost:6274' }), 200);
    assert.equal(await status(server, { Origin: 'http://evil.example' }), 403);
});

test('listeners: --allow-host extends the address, also on a remote listener', async (t) => {
    const server = await open(t, '--allow-host', 'files.example');
    assert.notEqual((await ask(server, '127.0.0.2', { Host: 'files.example' })).status, 403);
    assert.notEqual((await ask(server, '127.0.0.2', { Host: '127.0.0.2' })).status, 403);
    assert.equal((await ask(server, '127.0.0.2', { Host: 'evil.example' })).status, 403);
});

test('listeners: names and addresses in the certificates are server names', async (t) => {
    const certs = new Certificates(t)
        .make('server', { names: 'DNS:localhost,DNS:files.example,DNS:*.lab.example,IP:192.0.2.7,IP:2001:db8::7' })
        .make('second', { names: 'DNS:second.example' });
    const args = ['--allow-remote', ...certs.args('server', 'second')];
    const server = await serve(t, { files, http: '0.0.0.0:0', args, secure: certs.client() });
    const good = [
        ...['files.example', 'Files.Example', 'a.lab.example', '192.0.2.7', '[2001:db8::7]', 'second.example'],
        '127.0.0.1',
    ];
    for (const host of good) {
        assert.equal(await status(server, { Host: `${host}:${server.port}` }), 200, host);
    }
    for (const host of ['evil.example', 'lab.example', 'a.b.lab.example', 'xfiles.example', '192.0.2.8']) {
        assert.equal(await status(server, { Host: host }), 403, host);
    }
});

test('listeners: Unix socket is named localhost or by --allow-host', async (t) => {
    const tree = new Tree(t, files);
    const path = `${tree.path}/../${tree.path.split('/').pop()}.sock`;
    const server = await serve(t, { tree, args: ['--http-unix', path, '--allow-host', 'files.example'] });
    const by = async (Host) => {
        const connection = await Connection.open(server, { path, host: undefined, port: undefined });
        const response = await connection.request({ method: 'GET', path: '/mcp', headers: { Host } });
        connection.close();
        return response.status;
    };
    assert.notEqual(await by('localhost'), 403);
    assert.notEqual(await by('files.example'), 403);
    assert.equal(await by('evil.example'), 403);
});

test('CORS: preflight from a local page is answered, a remote one is not', async (t) => {
    const server = await serve(t, { files });
    const ask = (origin) =>
        request(server, {
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
    for (const name of [
        'authorization',
        'content-type',
        'accept',
        'mcp-protocol-version',
        'mcp-method',
        'mcp-name',
        'mcp-session-id',
        'last-event-id',
    ]) {
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
