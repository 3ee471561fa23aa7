// SPDX-License-Identifier: MIT
//
// The client library against third-party servers.

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { explore, explorer, PATIENCE, watched } from './lib/explore.mjs';
import { freePort, isOpen } from './lib/port.mjs';
import { BIN, Program } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const modules = here('./node_modules');
const everything = path.join(modules, '@modelcontextprotocol/server-everything/dist/index.js');
const node = process.execPath;
const URI = 'count://it';

/** A Node program that serves, after it reports that it is ready. */
async function serving(t, args, env, ready) {
    const program = new Program(t, node, args, { env, mayFail: true });
    const says = (inbox) => inbox.next((line) => ready.test(line), 'that it serves', PATIENCE);
    const line = await Promise.any([says(program.lines), says(program.output())]);
    return { program, line };
}

async function stranger(t, name, env = {}) {
    const { program, line } = await serving(t, [here(`lib/${name}.mjs`)], { PORT: '0', ...env }, /^at /);
    return { program, url: line.slice(3) };
}

/* ---- server-everything ----------------------------------------------------------------------- */

async function tour(t, target, transport) {
    const info = await explore(t, target, 'info');
    assert.match(info.lines[0], new RegExp(`^${transport.replace('+', '\\+')} 2025-11-25 "mcp-servers/everything" `));
    const tools = await explore(t, target, 'list', 'tools');
    assert.ok(tools.lines.map((line) => JSON.parse(line).name).includes('echo'));
    const resources = await explore(t, target, 'list', 'resources');
    const { uri } = JSON.parse(resources.lines[0]);
    const read = await explore(t, target, 'read', uri);
    assert.equal(JSON.parse(read.lines[0]).contents[0].uri, uri);
    assert.equal(JSON.parse((await explore(t, target, 'stat', uri)).lines[0]).uri, uri);
    const call = await explore(t, target, 'call', 'trigger-long-running-operation', '{"duration":0.2,"steps":2}');
    assert.match(call.lines[0], /completed/);
    assert.match(call.stderr, /progress 2 of 2/);
    const missing = await explore(t, target, 'read', 'demo://nothing', { status: 66 });
    assert.match(missing.stderr, /TIDINGS_E_NOTFOUND/);
}

test('server-everything, launched', (t) => tour(t, [node, everything, 'stdio'], 'stdio'));

test('server-everything over Streamable HTTP', async (t) => {
    const port = await freePort();
    await serving(t, [everything, 'streamableHttp'], { PORT: `${port}` }, /listening/);
    await tour(t, `http://127.0.0.1:${port}/mcp`, 'http');
});

test('server-everything over HTTP+SSE', async (t) => {
    const port = await freePort();
    await serving(t, [everything, 'sse'], { PORT: `${port}` }, /running|listening/);
    await tour(t, `http://127.0.0.1:${port}/sse`, 'http+sse');
});

test('server-everything notifies of a resource once its tool is called', async (t) => {
    const uri = 'demo://resource/dynamic/text/1';
    const target = [node, everything, 'stdio'];
    const { lines } = await explore(t, target, 'watch', uri, '1', 'toggle-subscriber-updates');
    assert.deepEqual(lines, [`updated ${uri} ${uri}`]);
});

/* ---- the official SDK ------------------------------------------------------------------------ */

async function counted(t, target, expected) {
    assert.equal((await explore(t, target, 'info')).lines[0], expected);
    const seen = await watched(t, target, URI, 5, () => {});
    assert.deepEqual(new Set(seen), new Set([`updated ${URI} ${URI}`]));
}

test('SDK version 1, launched', async (t) => {
    const target = [node, here('lib/stranger-v1.mjs')];
    await counted(t, target, 'stdio 2025-11-25 "stranger-v1" 1 subscribe');
    const { lines } = await explore(t, target, 'list', 'resources');
    assert.deepEqual(lines.map((line) => JSON.parse(line).name), ['other', 'it']);
});

test('SDK version 1 over HTTP', async (t) => {
    const { url } = await stranger(t, 'stranger-v1');
    await counted(t, url, 'http 2025-11-25 "stranger-v1" 1 subscribe');
});

test('SDK version 1 over HTTP with JSON responses only', async (t) => {
    const { url } = await stranger(t, 'stranger-v1', { JSON: '1' });
    await counted(t, url, 'http 2025-11-25 "stranger-v1" 1 subscribe');
});

test('forgotten session is reopened', async (t) => {
    const { program, url } = await stranger(t, 'stranger-v1');
    const watching = explorer(t, url, ['watch', URI, '1000000']);
    const accepted = () => watching.lines.next((line) => line.startsWith('watching'), 'the acknowledgement', PATIENCE);
    await accepted();
    await watching.stdout.next(() => true, 'an update', PATIENCE);
    program.child.kill('SIGUSR2');
    await program.lines.next((line) => line === 'forgot', 'that it forgot', PATIENCE);
    await accepted();
    const before = watching.stdout.seen.length;
    await watching.stdout.next(() => watching.stdout.seen.length > before, 'another update', PATIENCE);
});

test('SDK version 2, launched', (t) =>
    counted(t, [node, here('lib/stranger-v2.mjs')], 'stdio 2026-07-28 "stranger-v2" 2 subscribe'));

test('SDK version 2 over HTTP', async (t) => {
    const { url } = await stranger(t, 'stranger-v2');
    await counted(t, url, 'http 2026-07-28 "stranger-v2" 2 subscribe');
});

/* ---- a proxy in front of tidings ------------------------------------------------------------- */

test('mcp-proxy in front of our own server', async (t) => {
    const tree = new Tree(t, { 'a.txt': 'one\n' });
    const port = await freePort();
    const proxy = path.join(modules, '.bin/mcp-proxy');
    const own = [BIN, 'serve', '--stdio', tree.path];
    new Program(t, node, [proxy, '--host', '127.0.0.1', '--port', `${port}`, '--', ...own], { mayFail: true });
    await eventually(() => isOpen(port), 'the proxy listens', PATIENCE);
    const url = `http://127.0.0.1:${port}/mcp`;
    const read = await explore(t, url, 'read', tree.uri('a.txt'));
    assert.equal(JSON.parse(read.lines[0]).contents[0].text, 'one\n');
    const seen = await watched(t, url, tree.uri('a.txt'), 2, (i) => tree.write('a.txt', `${i}\n`));
    assert.equal(seen.length, 2);
});
