// SPDX-License-Identifier: MIT
//
// Our own client and a malicious server. Server strings reach the terminal only as plain text, and the client never
// runs, follows or reads without limit what the server sends.

import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { serveAnswers } from './lib/mirror.mjs';
import { MODERN } from './lib/rpc.mjs';
import { BIN, Program, run } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

// Clears the screen, sets the title and writes the clipboard, with C0 and C1; reverses the text direction; starts a
// new line that imitates our output.
const EVIL =
    'x\u001b[2J\u001b]0;evil\u0007\u001b]52;c;ZXZpbA==\u0007\u009b2J\u009d0;evil\u009c' +
    '\u202eevil\u2066\u200f\u2028\r\n2026-01-01T00:00:00.000Z deleted file:///all\b\u007f';
const WATCHED = 'app:///a';

/** Control and formatting characters except line feeds; our own code must have written every line of the output. */
const FORBIDDEN = /[\0-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069\ufeff]/;

/**
 * A server. `answers` has a function per method, (message, response) => result, or undefined if it answers itself.
 */
async function serveEvil(t, answers) {
    const asked = [];
    const server = http.createServer((req, res) => {
        let body = '';
        req.setEncoding('utf8').on('data', (text) => (body += text));
        req.on('end', () => {
            const message = body === '' ? {} : JSON.parse(body);
            asked.push({ url: req.url, method: req.method, message });
            const answer = (answers[message.method] ?? answers.otherwise)(message, res);
            if (answer !== undefined) {
                res.setHeader('Content-Type', 'application/json');
                res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...answer }));
            }
        });
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return { url: `http://127.0.0.1:${server.address().port}/mcp`, asked, server };
}

const discover = () => ({
    result: {
        supportedVersions: [MODERN],
        capabilities: { resources: { subscribe: true } },
        serverInfo: { name: EVIL, version: EVIL },
        instructions: EVIL,
        resultType: 'complete',
    },
});

const event = (message) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`;

const acknowledged = (message, more = {}) =>
    event({
        method: 'notifications/subscriptions/acknowledged',
        params: {
            notifications: { resourceSubscriptions: [WATCHED] },
            _meta: { 'io.modelcontextprotocol/subscriptionId': message.id },
            ...more,
        },
    });

const updated = (message, uri) =>
    event({
        method: 'notifications/resources/updated',
        params: {
            uri,
            subscribedUri: WATCHED,
            _meta: {
                'io.modelcontextprotocol/subscriptionId': message.id,
                'dev.tidings/change': uri,
                'dev.tidings/metadata': { [uri]: uri },
            },
        },
    });

const stream = (res) => res.writeHead(200, { 'Content-Type': 'text/event-stream' });

for (const format of [[], ['--json']]) {
    const name = format.length > 0 ? 'as JSON' : 'as text';
    test(`terminal: output of a malicious server is printed ${name} without control sequences`, async (t) => {
        const evil = await serveEvil(t, {
            'server/discover': discover,
            'subscriptions/listen': (message, res) => {
                stream(res).write(acknowledged(message) + updated(message, EVIL));
            },
            otherwise: () => ({ error: { code: -32601, message: EVIL } }),
        });
        const { stdout, stderr, code } = await run(t, ['watch', ...format, '--count', '1', evil.url, WATCHED]);
        assert.equal(code, 0, stderr);
        assert.doesNotMatch(stdout, FORBIDDEN);
        assert.doesNotMatch(stderr, FORBIDDEN);
        assert.equal(stdout.match(/\n/g).length, 1, stdout);
        assert.match(stdout, /x\\(x|u00)1b\[2J/);
        if (format.length > 0) {
            assert.equal(JSON.parse(stdout).uri, EVIL);
        }
    });
}

test('terminal: errors of a malicious server are printed as text', async (t) => {
    const error = () => ({ error: { code: -32603, message: EVIL, data: EVIL } });
    const ways = {
        'a subscription refused': {
            'server/discover': discover,
            'subscriptions/listen': (message, res) => {
                const _meta = {
                    'io.modelcontextprotocol/subscriptionId': message.id,
                    'dev.tidings/refused': [{ uri: WATCHED, reason: EVIL }],
                };
                const notifications = { resourceSubscriptions: [] };
                stream(res).end(acknowledged(message, { notifications, _meta }));
            },
        },
        'an error in place of a stream': { 'server/discover': discover, 'subscriptions/listen': error },
        'an error in place of everything': {},
        'a status line': {
            'server/discover': (message, res) => {
                res.writeHead(403, 'x\x9b2J', { 'Content-Type': 'text/plain' });
                res.end(EVIL);
            },
        },
    };
    for (const [name, answers] of Object.entries(ways)) {
        const evil = await serveEvil(t, { otherwise: error, ...answers });
        const program = new Program(t, BIN, ['watch', evil.url, WATCHED], { mayFail: true });
        await program.lines.next((line) => /refused|disconnected|403/.test(line), `${name}, told`);
        await program.kill();
        assert.doesNotMatch(program.stderr, FORBIDDEN, name);
        assert.match(program.stderr, name === 'a status line' ? /403/ : /x\\x1b\[2J/, name);
    }
});

test('client: redirect is not followed', async (t) => {
    const inner = await serveEvil(t, { otherwise: discover });
    const outer = await serveEvil(t, {
        otherwise: (message, res) => {
            res.writeHead(307, { Location: inner.url });
            res.end();
        },
    });
    const { code } = await run(t, ['watch', '--count', '1', outer.url, WATCHED]);
    assert.notEqual(code, 0);
    assert.deepEqual(inner.asked, [], 'the other server was asked');
});

test('client: endless answer is aborted', async (t) => {
    const evil = await serveEvil(t, {
        otherwise: (message, res) => {
            res.writeHead(200, { 'Content-Type': 'application/json' });
            res.write('{"jsonrpc":"');
            const more = () => {
                while (!res.destroyed && res.write('x'.repeat(60_000))) {
                    // until the client stops reading
                }
            };
            res.on('drain', more);
            more();
        },
    });
    const program = new Program(t, BIN, ['watch', evil.url, WATCHED], { mayFail: true });
    await program.lines.next((line) => /disconnected: .*limit/.test(line), 'the client to give up');
    await program.kill();
});

// Endless pages: the content of page n, and its cursor of the next page.
const ENDLESS = {
    'that hold nothing': { items: () => [], next: (n) => `c${n}`, says: /100 pages of \S+ in a row hold nothing/, most: 101, code: 69 },
    'that go in a circle': { items: (n) => [n], next: (n) => `c${n % 3}`, says: /the pages of \S+ go in a circle/, most: 12, code: 65 },
    'that follow themselves': { items: () => [], next: () => 'c', says: /the pages of \S+ go in a circle/, most: 2, code: 65 },
    'with long cursors': {
        items: (n) => [n], next: (n) => `${n}`.padStart(70_000, '0'), says: /a cursor of \S+ has more than 65536 bytes/, most: 1, code: 69,
    },
};

/** A server with such lists; `asked` counts the page requests. */
async function serveEndless(t, { items, next }) {
    const endless = { asked: 0 };
    const list = (member, make) => () => {
        endless.asked += 1;
        return { [member]: items(endless.asked).map(make), nextCursor: next(endless.asked) };
    };
    const named = (n) => ({ name: `n${n}`, inputSchema: { type: 'object' } });
    const { url } = await serveAnswers(t, {
        'resources/list': list('resources', (n) => ({ uri: `app:///${n}`, name: 'x' })),
        'resources/templates/list': list('resourceTemplates', (n) => ({ uriTemplate: `app:///${n}/{x}`, name: 'x' })),
        'tools/list': list('tools', named),
        'prompts/list': list('prompts', named),
        'tools/call': () => {
            endless.asked += 1;
            return { content: [], structuredContent: { versions: [], next: next(endless.asked) } };
        },
    }, { children: true });
    return Object.assign(endless, { url });
}

for (const [kind, endless] of Object.entries(ENDLESS)) {
    test(`client: list of pages ${kind} is aborted`, async (t) => {
        const evil = await serveEndless(t, endless);
        const mirror = new Tree(t).at('mirror');
        for (const command of [
            ['ls'], ['templates'], ['tools'], ['prompts'], ['tree'], ['ls', 'app:///'], ['ls', '-R', 'app:///'], ['tree', 'app:///'],
            ['sync', '--once', 'app:///', mirror], ['stat', 'app:///none'],
        ]) {
            evil.asked = 0;
            const end = await run(t, [command[0], '-t', evil.url, ...command.slice(1)]);
            assert.match(end.stderr, endless.says, command.join(' '));
            assert.equal(end.code, endless.code, `${command.join(' ')}: ${end.stderr}`);
            assert.ok(evil.asked <= endless.most, `${command.join(' ')}: ${evil.asked} pages`);
        }
    });
}

test('client: circular entity history is aborted', async (t) => {
    const evil = await serveEndless(t, { items: () => [], next: (n) => `2026-01-01T00:00:0${n % 4}.000Z` });
    const end = await run(t, ['entity', 'log', evil.url, 'note@1/a']);
    assert.equal(end.code, 65, end.stderr);
    assert.match(end.stderr, /the pages of the server go in a circle/);
    assert.ok(evil.asked < 20, `${evil.asked} pages`);
});
