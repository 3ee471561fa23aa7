// SPDX-License-Identifier: MIT
//
// The client library reaches a tidings server over every transport in both eras.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';

import { Certificates } from './lib/certs.mjs';
import { explore, explorer, PATIENCE, watched } from './lib/explore.mjs';
import { freePort } from './lib/port.mjs';
import { BIN, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const files = { 'a.txt': 'one\n', 'sub/b.txt': 'two\n' };

/** The addresses of a server with these arguments. */
const address = (server, scheme) => server.stderr.match(new RegExp(`(${scheme}[^\\s,]+)`))[1];

async function plain(t, args, scheme) {
    const server = await serve(t, { files, args });
    return { server, target: address(server, scheme), env: {} };
}

async function secure(t, more, scheme) {
    const certs = new Certificates(t).make('server');
    const server = await serve(t, { files, args: [...certs.args('server'), ...more] });
    return { server, certs, scheme, env: { CA_FILE: certs.file('ca.pem') } };
}

const ways = {
    http: (t) => plain(t, [], 'http://'),
    lines: (t) => plain(t, ['--tcp', '127.0.0.1:0'], 'tcp://'),
    unix: async (t) => {
        const tree = new Tree(t, files);
        const socket = path.join(tree.path, '..', `${path.basename(tree.path)}.sock`);
        const server = await serve(t, { tree, args: ['--unix', socket] });
        return { server, target: `unix:${socket}`, env: {} };
    },
    'http+unix': async (t) => {
        const tree = new Tree(t, files);
        const socket = path.join(tree.path, '..', `${path.basename(tree.path)}.http`);
        const server = await serve(t, { tree, args: ['--http-unix', socket] });
        return { server, target: `http+unix:${socket}`, env: {} };
    },
    websocket: async (t) => {
        const { server, env } = await plain(t, [], 'http://');
        return { server, target: server.url.replace('http', 'ws'), env };
    },
    https: async (t) => {
        const { server, env } = await secure(t, []);
        return { server, target: server.url.replace('127.0.0.1', 'localhost'), env };
    },
    wss: async (t) => {
        const { server, env } = await secure(t, []);
        return { server, target: server.url.replace('https', 'wss'), env };
    },
    tls: async (t) => {
        const { server, env } = await secure(t, ['--tcp', '127.0.0.1:0']);
        return { server, target: address(server, '(?:tls|tcp)://').replace('tcp:', 'tls:'), env };
    },
    stdio: (t) => {
        const tree = new Tree(t, files);
        return { server: { tree, uri: (name) => tree.uri(name) }, target: [BIN, 'serve', '--stdio', tree.path], env: {} };
    },
};

const transports = { unix: 'lines', tls: 'lines', 'http+unix': 'http', https: 'http', wss: 'websocket' };

for (const [name, open] of Object.entries(ways)) {
    for (const version of ['2026-07-28', '2025-11-25']) {
        test(`${name}, ${version}: client asks, walks, reads and watches`, async (t) => {
            const { server, target, env } = await open(t);
            const options = { env: { ...env, VERSION: version } };
            const info = await explore(t, target, 'info', options);
            assert.equal(info.lines[0], `${transports[name] ?? name} ${version} "tidings" 0.1.0 subscribe`);
            const walk = await explore(t, target, 'walk', server.uri(''), options);
            assert.deepEqual(walk.lines.map((line) => line.replace(server.uri(''), '')), ['a.txt', 'sub/', '  sub/b.txt']);
            const read = await explore(t, target, 'read', server.uri('a.txt'), options);
            assert.equal(JSON.parse(read.lines[0]).contents[0].text, 'one\n');
            const seen = await watched(t, target, server.uri(''), 3, (i) => server.tree.write('sub/b.txt', `${i}\n`), options);
            assert.deepEqual(new Set(seen), new Set([`updated ${server.uri('sub/b.txt')} ${server.uri('')}`]));
        });
    }
}

test('client without a version finds and speaks the newest', async (t) => {
    const server = await serve(t, { files });
    const { lines } = await explore(t, server.url, 'info');
    assert.match(lines[0], /^http 2026-07-28 /);
    const old = await serve(t, { files, args: ['--protocol-max', '2025-06-18'] });
    assert.match((await explore(t, old.url, 'info')).lines[0], /^http 2025-06-18 /);
});

test('unsupported version is an error', async (t) => {
    const old = await serve(t, { files, args: ['--protocol-max', '2025-06-18'] });
    const modern = await explore(t, old.url, 'info', { env: { VERSION: '2026-07-28' }, status: 69 });
    assert.match(modern.stderr, /does not speak 2026-07-28/);
    const legacy = await explore(t, old.url, 'info', { env: { VERSION: '2025-11-25' }, status: 69 });
    assert.match(legacy.stderr, /speaks 2025-06-18, not 2025-11-25/);
});

for (const [name, scheme] of [['lines', 'tcp://'], ['websocket', 'ws://'], ['http', 'http://']]) {
    test(`${name}: client watches a crashed server again after its restart`, async (t) => {
        const tree = new Tree(t, files);
        const port = await freePort();
        const args = name === 'lines' ? ['--tcp', `127.0.0.1:${port}`] : [];
        const http = name === 'lines' ? '127.0.0.1:0' : `127.0.0.1:${port}`;
        const start = () => serve(t, { tree, args, http });
        const server = await start();
        const watching = explorer(t, `${scheme}127.0.0.1:${port}${name === 'lines' ? '' : '/mcp'}`, ['watch', tree.uri('a.txt'), '1000000']);
        const heard = (what) => watching.lines.next((line) => line.startsWith(what), what, PATIENCE);
        await heard('watching');
        tree.write('a.txt', 'two\n');
        await watching.stdout.next(() => true, 'an update', PATIENCE);
        await server.kill();
        await heard('disconnected');
        await start();
        await heard('watching');
        const before = watching.stdout.seen.length;
        tree.write('a.txt', 'three\n');
        await watching.stdout.next(() => watching.stdout.seen.length > before, 'another update', PATIENCE);
    });
}

test('missing resource is not found over every transport', async (t) => {
    const server = await serve(t, { files, args: ['--tcp', '127.0.0.1:0'] });
    for (const target of [server.url, server.url.replace('http', 'ws'), address(server, 'tcp://')]) {
        for (const version of ['2026-07-28', '2025-06-18']) {
            const options = { env: { VERSION: version }, status: 66 };
            const { stderr } = await explore(t, target, 'read', server.uri('none'), options);
            assert.match(stderr, /TIDINGS_E_NOTFOUND/);
        }
    }
});

test('untrusted certificate is refused', async (t) => {
    const { server } = await secure(t, []);
    for (const target of [server.url, server.url.replace('https', 'wss')]) {
        const { stderr } = await explore(t, target, 'info', { status: 77 });
        assert.match(stderr, /TIDINGS_E_DENIED/);
    }
});

test('invalid or short-lived program is reported', async (t) => {
    const none = await explore(t, ['/no/such/program'], 'info', { status: 66 });
    assert.match(none.stderr, /TIDINGS_E_NOTFOUND/);
    const over = await explore(t, ['sh', '-c', 'exit 3'], 'info', { status: 69 });
    assert.match(over.stderr, /ended with status 3/);
});
