// SPDX-License-Identifier: MIT
//
// Optional libraries, hidden from the program as if not installed. A feature with a missing library reports the
// library and its package, and all other features work.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Certificates } from './lib/certs.mjs';
import { defer } from './lib/cleanup.mjs';
import { Connection } from './lib/http.mjs';
import { call, listen } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { isUpdate } from './lib/subscriber.mjs';
import { Tree } from './lib/tree.mjs';
import { upgradeRequest } from './lib/websocket.mjs';

const OPENSSL = ['libssl.so.3'];
const WSLAY = ['libwslay.so.1'];
const SQLITE = ['libsqlite3.so.0'];
const POSTGRES = ['libpq.so.5'];
const CURL = ['libcurl.so.4', 'libcurl-gnutls.so.4'];
const URING = ['liburing.so.2'];
const ALL = [...OPENSSL, ...WSLAY, ...SQLITE, ...POSTGRES, ...CURL, ...URING];

/** The environment of a program whose loader finds an empty file instead of each of these libraries. */
function without(t, names) {
    const dir = mkdtempSync(path.join(tmpdir(), 'tidings-hidden-'));
    defer(t, () => rmSync(dir, { recursive: true }));
    names.forEach((name) => writeFileSync(path.join(dir, name), ''));
    return { LD_LIBRARY_PATH: dir };
}

test('server without optional libraries serves, reads and watches a directory', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, env: without(t, ALL) });
    const wanted = { resourceSubscriptions: [server.uri('a.txt')] };
    const streams = await Promise.all(Array.from({ length: 8 }, () => listen(server, wanted)));
    server.tree.replace('a.txt', '2');
    await Promise.all(streams.map(({ events }) => events.message(isUpdate, 'the change')));
    const { contents } = await call(server, 'resources/read', { uri: server.uri('a.txt') });
    assert.equal(contents[0].text, '2');
});

test('Debian package settings start with only the package dependencies', async (t) => {
    const root = new URL('../../', import.meta.url);
    const control = readFileSync(new URL('debian/control', root), 'utf8');
    const [, depends] = /^Package: tidings$[^]*?^Depends: (.*)$/m.exec(control);
    const packages = { 'libsqlite3-0': SQLITE, libssl3: OPENSSL, libcurl4: CURL, liburing2: URING, libwslay1: WSLAY, libpq5: POSTGRES };
    const hidden = Object.entries(packages).filter(([name]) => !depends.includes(name)).flatMap(([, names]) => names);
    assert.ok(hidden.length > 0);
    const config = fileURLToPath(new URL('contrib/tidings.json', root));
    const args = ['--config', config, '--entities', new Tree(t).at('store.db')];
    const server = await serve(t, { mounts: [], args, env: without(t, hidden) });
    const { tools } = await call(server, 'tools/list', {});
    assert.ok(Array.isArray(tools));
});

test('version output lists missing libraries', async (t) => {
    const shown = async (env) => JSON.parse((await run(t, ['version', '--json'], { env })).stdout);
    const there = await shown({});
    const hidden = await shown(without(t, ALL));
    for (const name of ['websocket', 'tls', 'client']) {
        assert.equal(typeof there[name], 'string', name);
        assert.equal(hidden[name], null, name);
    }
    const { stdout } = await run(t, ['version'], { env: without(t, ALL) });
    assert.equal(stdout.match(/not available/g).length, 3, stdout);
});

test('server with a missing required library does not start and explains why', async (t) => {
    const certs = new Certificates(t).make('server');
    const tree = new Tree(t, { 'a.txt': '1' });
    const rows = [
        [OPENSSL, certs.args('server'), /libssl\.so\.3 cannot be loaded.*libssl3/],
        [OPENSSL, ['--access', '{"allow":["read"]}'], /access rules.*libssl\.so\.3 cannot be loaded.*libssl3/],
        [SQLITE, ['--store', tree.at('db')], /db.*libsqlite3\.so\.0 cannot be loaded.*libsqlite3-0/],
        [POSTGRES, ['--store', 'postgres://u:hunter2@127.0.0.1:1/d'], /libpq\.so\.5 cannot be loaded.*libpq5/],
    ];
    for (const [names, args, said] of rows) {
        const env = without(t, names);
        const end = await run(t, ['serve', '--http', '127.0.0.1:0', ...args, tree.path], { env });
        assert.notEqual(end.code, 0, args[0]);
        assert.match(end.stderr, said);
        assert.doesNotMatch(end.stderr, /hunter2/);
    }
});

test('WebSocket upgrade is rejected without wslay', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, env: without(t, WSLAY) });
    const connection = await Connection.open(server);
    await connection.send(upgradeRequest(server.port));
    const response = await connection.readResponse('GET');
    assert.equal(response.status, 501);
    assert.match(response.text, /libwslay\.so\.1 cannot be loaded.*libwslay1/);
    connection.close();
});

test('connecting client without libcurl reports that it needs libcurl', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' } });
    const end = await run(t, ['read', '-t', server.url, server.uri('a.txt')], { env: without(t, CURL) });
    assert.notEqual(end.code, 0);
    assert.match(end.stderr, /libcurl\.so\.4 cannot be loaded.*libcurl4/);
});
