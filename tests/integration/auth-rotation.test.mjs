// SPDX-License-Identifier: MIT
//
// A watch or sync that outlives its tokens: a new token replaces the --token-file before or after the old token is
// refused, and no change is missed.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import { describe, test } from 'node:test';

import { BRIEF, EXPIRY, start } from './lib/authorization-server.mjs';
import { defer } from './lib/cleanup.mjs';
import { bad } from './lib/cli.mjs';
import { contents } from './lib/mirror.mjs';
import { MODERN } from './lib/rpc.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { reloaded, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, Inbox } from './lib/wait.mjs';

const REFUSED = /disconnected: the server wants a good token \(HTTP 401\)/;
const WATCHING = /^watching /;

/** The file of --token-file, replaced atomically. */
class Held {
    constructor(t, token) {
        this.tree = new Tree(t, { token: `${token}\n` });
        this.path = this.tree.at('token');
    }

    replace(token) {
        this.tree.replace('token', `${token}\n`);
    }
}

/** A started `tidings watch` of everything below the served directory. */
async function watch(t, server, held, { url = server.url, args = [] } = {}) {
    const all = ['watch', '--json', '--token-file', held.path, ...args, url, server.uri('')];
    const program = new Program(t, BIN, all);
    const changes = program.output();
    const told = (name) =>
        changes.next((line) => JSON.parse(line).uri === server.uri(name), `a change of ${name}`, 3 * DEADLINE);
    const said = (pattern, ms = 3 * DEADLINE) =>
        program.lines.next((line) => pattern.test(line), `a line like ${pattern}`, ms);
    await said(WATCHING);
    return { program, told, said };
}

const ways = {
    'over HTTP': {},
    'over HTTP in a session': { args: ['--era', 'legacy'], isSeamless: true }, // Last-Event-ID: nothing to report
    'over HTTP+SSE': { at: (url) => url.replace('/mcp', '/sse') },
    'over WebSocket': { at: (url) => url.replace('http', 'ws') },
    'over WebSocket in the legacy era': { at: (url) => url.replace('http', 'ws'), args: ['--era', 'legacy'] },
};

// In parallel, since they mostly wait.
describe('clients survive token rotation', { concurrency: 4 }, () => {
    for (const [how, { at = (url) => url, args, isSeamless }] of Object.entries(ways)) {
        test(`watch ${how} survives three token rotations and misses nothing`, async (t) => {
            const tokens = new TokenFile(t);
            let token = tokens.give('ada');
            const held = new Held(t, token);
            const server = await serve(t, { files: { 'a.txt': '1' }, args: [...tokens.args, '--legacy-sse'] });
            const { told, said, program } = await watch(t, server, held, { url: at(server.url), args });
            for (const turn of [1, 2, 3]) {
                const next = tokens.give('ada');
                tokens.take(token);
                held.replace(next);
                await reloaded(server);
                server.tree.write(`${turn}.txt`, 'x'); // when it ends, before, or after
                if (!isSeamless) {
                    await said(WATCHING);
                }
                await told(`${turn}.txt`);
                server.tree.write(`${turn}-later.txt`, 'x');
                await told(`${turn}-later.txt`);
                token = next;
            }
            assert.doesNotMatch(program.stderr, REFUSED);
        });

        test(`watch ${how} waits for a late token and misses nothing`, async (t) => {
            const tokens = new TokenFile(t);
            const token = tokens.give('ada');
            const held = new Held(t, token);
            const server = await serve(t, { files: { 'a.txt': '1' }, args: [...tokens.args, '--legacy-sse'] });
            const { told, said } = await watch(t, server, held, { url: at(server.url), args });
            tokens.take(token);
            await reloaded(server);
            await said(REFUSED);
            server.tree.write('meanwhile.txt', 'x');
            fs.rmSync(held.path); // as during its replacement
            await said(REFUSED);
            const next = tokens.give('ada');
            await reloaded(server);
            server.tree.write('still.txt', 'x');
            held.replace(next);
            await said(WATCHING);
            await Promise.all([told('meanwhile.txt'), told('still.txt')]);
            server.tree.write('after.txt', 'x');
            await told('after.txt');
        });
    }

    test('token that expires before its replacement only interrupts a watch', async (t) => {
        const { authority, server } = await start(t, { args: ['--auth-leeway', '0'] });
        const token = (exp) => authority.token(server.url, { claims: { exp: Math.floor(Date.now() / 1000) + exp } });
        const held = new Held(t, await token(BRIEF));
        const { told, said } = await watch(t, server, held);
        const line = await said(REFUSED, EXPIRY);
        assert.match(line, /oauth-protected-resource\/mcp; the token has expired/);
        server.tree.write('meanwhile.txt', 'x');
        held.replace(await token(3600));
        await said(WATCHING);
        await told('meanwhile.txt');
    });

    test('sync whose token expires is complete again with the next token', async (t) => {
        const tokens = new TokenFile(t);
        const token = tokens.give('ada');
        const held = new Held(t, token);
        const server = await serve(t, { files: { 'a.txt': '1' }, args: tokens.args });
        const mirror = new Tree(t);
        const args = ['sync', '--token-file', held.path, server.url, server.uri(''), mirror.path];
        const program = new Program(t, BIN, args, { mayFail: true });
        const said = (pattern) => program.lines.next((line) => pattern.test(line), `a line like ${pattern}`, 3 * DEADLINE);
        await said(/in step/);
        tokens.take(token);
        await reloaded(server);
        await said(REFUSED);
        server.tree.write('b.txt', '2');
        held.replace(tokens.give('ada'));
        await reloaded(server);
        await said(/in step/);
        assert.deepEqual(contents(mirror.path), { 'a.txt': '1', 'b.txt': '2' });
    });

    /** A server with one resource. The token `old` grants everything except its content; `refused` lists refused
     * callers. */
    async function serveWithout(t, old) {
        const refused = new Inbox('refusals');
        const answers = {
            'server/discover': { supportedVersions: [MODERN], capabilities: { resources: { subscribe: true } } },
            'resources/list': { resources: [{ uri: 'app:///a', name: 'a' }] },
            'resources/read': { contents: [{ uri: 'app:///a', text: 'x' }] },
        };
        const server = http.createServer(async (req, res) => {
            let body = '';
            for await (const part of req.setEncoding('utf8')) {
                body += part;
            }
            const { id, method } = JSON.parse(body);
            if (method === 'resources/read' && req.headers.authorization === `Bearer ${old}`) {
                res.writeHead(401, { 'Content-Type': 'application/json', 'WWW-Authenticate': 'Bearer error="invalid_token"' });
                res.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'no' } }));
                refused.push(id);
            } else if (method === 'subscriptions/listen') {
                const params = { notifications: { resourceSubscriptions: ['app:///'] } };
                const message = { jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params };
                res.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(`data: ${JSON.stringify(message)}\n\n`);
            } else if (answers[method]) {
                res.writeHead(200, { 'Content-Type': 'application/json' });
                res.end(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...answers[method] } }));
            } else {
                res.writeHead(404, { 'Content-Type': 'application/json' });
                res.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } }));
            }
        });
        await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
        defer(t, () => {
            server.closeAllConnections();
            server.close();
        });
        return { url: `http://127.0.0.1:${server.address().port}/mcp`, refused };
    }

    test('sync whose token expires during a pass repeats it and fails if the token file is missing', async (t) => {
        const { url, refused } = await serveWithout(t, 'old');
        const held = new Held(t, 'old');
        const mirror = new Tree(t);
        const sync = ['sync', url, 'app:///', mirror.path];
        await bad(t, 77, /wants a good token/, [...sync, '--token', 'old']);
        await refused.next(() => true, 'a read with the old token');
        const program = new Program(t, BIN, [...sync, '--token-file', held.path], { mayFail: true });
        for (const pass of ['first', 'second']) {
            await refused.next(() => true, `a read with the old token in the ${pass} pass`, 3 * DEADLINE);
        }
        held.replace('new');
        await program.lines.next((line) => line.includes('in step'), 'a whole pass', 3 * DEADLINE);
        assert.deepEqual(contents(mirror.path), { a: 'x' });
    });

    test('watch fails at once if its first token is invalid or the file has none', async (t) => {
        const tokens = new TokenFile(t);
        const held = new Held(t, 'wrong');
        const server = await serve(t, { files: { 'a.txt': '1' }, args: tokens.args });
        const watching = ['watch', '--token-file', held.path, server.url, server.uri('')];
        await bad(t, 77, /wants a good token \(HTTP 401\); the token is not known here[^]*--token-file/, watching);
        fs.rmSync(held.path);
        await bad(t, 66, /token': No such file/, watching);
    });

    test('refusal names the missing right and how to get it', async (t) => {
        const rules = JSON.stringify({ scope: 'files:read', uri: 'file:///**', allow: ['list', 'read'] });
        const { server, authority } = await start(t, { args: ['--auth-scope', 'in', '--access', rules] });
        const read = ['read', server.url, server.uri('a.txt')];
        const see = 'see http://127\\.0\\.0\\.1:\\d+/\\.well-known/oauth-protected-resource/mcp';
        const shows = async (scope) => [...read, '--token', await authority.token(server.url, { scope })];
        await bad(t, 77, new RegExp(`wants a good token \\(HTTP 401\\); ${see}; scope wanted: in\n`), read);
        const some = new RegExp(`denies access \\(HTTP 403\\); ${see}; scope wanted: in; the token lacks`);
        await bad(t, 77, some, await shows('out'));
        const more = new RegExp(`denies access \\(HTTP 403\\); ${see}; scope wanted: in files:read; the token lacks`);
        await bad(t, 77, more, await shows('in'));
    });
});
