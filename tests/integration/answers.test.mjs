// SPDX-License-Identifier: MIT
//
// Questions from servers to `tidings call`, `read` and other commands: servers on both official SDKs, FastMCP,
// server-everything and tidings, on both wires; answered by --answer and --roots, on a terminal, or not at all.

import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { defer } from './lib/cleanup.mjs';
import { bad, good } from './lib/cli.mjs';
import { BIN, EXAMPLES, Program, run } from './lib/server.mjs';
import { Terminal, noTerminal } from './lib/terminal.mjs';
import { Tree } from './lib/tree.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const node = process.execPath;
const ASKER = here('lib/asker.mjs');
const EVERYTHING = path.join(here('./node_modules'), '@modelcontextprotocol/server-everything/dist/index.js');

/** Launched servers that ask: the options of `tidings call` and the environment. */
const LAUNCHED = {
    'SDK 1, launched': { env: { SDK: '1' }, words: ['--', node, ASKER] },
    'FastMCP, launched': { env: { SDK: 'FastMCP' }, words: ['--', node, ASKER] },
    'SDK 2, launched': { env: {}, words: ['--', node, ASKER] },
    'SDK 2, launched, legacy': { env: {}, words: ['--era', 'legacy', '--', node, ASKER] },
};
const SERVED = {
    'SDK 1 over HTTP': { SDK: '1' },
    'SDK 1 over HTTP, on the stream of the session': { SDK: '1', FAR: '1' },
    'SDK 2 over HTTP': {},
};
const ANSWER = JSON.stringify({ name: 'Ann', colour: 'g' });
const FILLED = { action: 'accept', content: { name: 'Ann', age: 30, colour: 'g' } };

test('launched servers on both SDKs and FastMCP receive answers to their forms', async (t) => {
    // In parallel, to save time.
    await Promise.all(Object.entries(LAUNCHED).map(async ([name, { env, words }]) => {
        const said = await good(t, ['call', 'form', '--answer', ANSWER, ...words], { env });
        assert.deepEqual(JSON.parse(said), FILLED, name);
    }));
});

for (const [name, env] of Object.entries(SERVED)) {
    test(`${name}: the command line answers a form, a URL and roots`, async (t) => {
        const tree = new Tree(t, { 'work/a.txt': '' });
        const program = new Program(t, node, [ASKER], { env: { PORT: '0', ...env }, mayFail: true });
        const line = await program.lines.next((text) => text.startsWith('at '), 'that it serves', 60_000);
        const said = async (...args) => JSON.parse(await good(t, ['call', line.slice(3), ...args]));
        const [filled, declined, visited, roots] = await Promise.all([
            said('form', '--answer', ANSWER),
            said('form', '--answer', '"decline"'),
            said('visit', '--answer', 'accept'),
            said('roots', '--roots', tree.at('work')),
        ]);
        assert.deepEqual(filled, FILLED);
        assert.deepEqual(declined, { action: 'decline' });
        assert.deepEqual(visited, { action: 'accept' });
        assert.deepEqual(roots, { roots: [{ uri: `file://${tree.at('work')}/`, name: 'work' }] });
    });
}

test('client without answers prints the question and how to answer', async (t) => {
    const { env, words } = LAUNCHED['SDK 1, launched'];
    const [form, visit, json, wrong] = await Promise.all([
        bad(t, 75, /the server asks: Who are you\?/, ['call', 'form', ...words], { env }),
        bad(t, 75, /visit https:\/\/user@pay\.example:8443\/now\?n=1/, ['call', 'visit', ...words], { env }),
        run(t, ['call', '--json', 'form', ...words], { env }),
        bad(t, 75, /age/, ['call', 'form', '--answer', '{"name":"Ann","age":-1}', ...words], { env }),
    ]);
    assert.match(form.stderr, /^ {2}name \(text, required\): As on your passport$/m);
    assert.match(form.stderr, /^ {2}age \(integer\), unless given 30$/m);
    assert.match(form.stderr, /^ {2}colour \(one of r, g\)$/m);
    assert.match(form.stderr, /was not answered: run the command on a terminal, or give --answer JSON/);
    assert.deepEqual(JSON.parse(form.stdout), { action: 'cancel' });
    assert.match(visit.stderr, /the server asks: Pay here/);
    const failure = JSON.parse(json.stderr.trim().split('\n').at(-1));
    assert.deepEqual([json.code, failure.status, failure.error], [75, 75, 'cancelled']);
    assert.deepEqual(JSON.parse(wrong.stdout), { action: 'cancel' });
    assert.match(wrong.stderr, /was not answered: the value of --answer does not fit/);
    await bad(t, 75, /--answer has too few answers; give an array with one for each/, ['call', 'form', '--answer', '[]', ...words], { env });
});

test('invalid answers and directories are refused before the request', async (t) => {
    const file = new Tree(t, { 'a.txt': '' }).at('a.txt');
    const accepted = 'an object for a form, such as .* accept, decline or cancel, or an array of these, one for each question';
    const mistakes = [
        [65, `'Ann': line 1 .* accepted: ${accepted}`, ['--answer', 'Ann']],
        [65, `'\\{name:1\\}': line 1 .* accepted: ${accepted}`, ['--answer', '{name:1}']],
        [64, `takes ${accepted}, not "yes"`, ['--answer', '"yes"']],
        [64, `takes ${accepted}, not \\["accept",1\\]`, ['--answer', '["accept",1]']],
        [66, '--answer: /no/such: No such file', ['--answer', '@/no/such']],
        [64, "takes a directory, not 'https://x/'; several are --roots A --roots B", ['--roots', 'https://x/']],
        [64, "takes a directory, not '/tmp,/usr', which does not exist; several", ['--roots', '/tmp,/usr']],
        [64, "takes a directory, not '.*a.txt', which is not a directory", ['--roots', file]],
        [64, "there is '--roots', but no option '--root'", ['--root', '/tmp']],
        [64, "a value is missing behind '--answer'", ['--answer']],
    ];
    for (const command of ['call', 'read', 'prompt']) {
        await Promise.all(mistakes.map(([code, says, words]) => (
            bad(t, code, new RegExp(says), [command, 'ask://form', ...words, '--', '/bin/false']))));
    }
});

test('server that requests roots at initialization has them at the first call', async (t) => {
    const said = await good(t, ['call', 'known', '--roots', '/usr/share', '--', node, ASKER], { env: { SDK: '1', EAGER: '1' } });
    assert.deepEqual(JSON.parse(said), [{ uri: 'file:///usr/share/', name: 'share' }]);
});

test('server-everything asks and receives answers', async (t) => {
    const words = ['--', node, EVERYTHING, 'stdio'];
    const answer = JSON.stringify({ name: 'Ann', check: true });
    const said = await good(t, ['call', 'trigger-elicitation-request', '--answer', answer, ...words]);
    assert.match(said, /Ann/);
});

test('tidings server asks in both eras, in one round and in several', async (t) => {
    const launch = ['--', path.join(EXAMPLES, 'conformance'), '--stdio'];
    for (const era of ['modern', 'legacy']) {
        const call = (tool, answer) => good(t, ['call', '--era', era, tool, '--answer', JSON.stringify(answer), ...launch]);
        const [once, defaults] = await Promise.all([
            call('test_input_required_result_elicitation', { name: 'Ann' }),
            call('test_elicitation_sep1034_defaults', 'accept'),
        ]);
        assert.match(once, /Ann/);
        assert.match(defaults, /"action":\s*"accept"/);
        const rounds = await call('test_input_required_result_multi_round', [{ name: 'Ann' }, { color: 'red' }]);
        assert.match(rounds, /red/); // the answer to the second
    }
});

test('prompt that asks first receives its answer', async (t) => {
    const launch = ['--', path.join(EXAMPLES, 'conformance'), '--stdio'];
    const prompt = 'test_input_required_result_prompt';
    const said = await good(t, ['prompt', prompt, '--answer', '{"context":"in a hurry"}', ...launch]);
    assert.match(said, /in a hurry/);
    await bad(t, 75, /was not answered/, ['prompt', prompt, ...launch]);
});

/* ---- other commands --------------------------------------------------------------------------- */

test('resource that asks before a read receives its answer or prints the question in both eras', async (t) => {
    for (const [name, { env, words }] of Object.entries(LAUNCHED)) { // in sequence: each is a Node process
        const [filled, roots] = await Promise.all([
            good(t, ['read', 'ask://form', '--answer', ANSWER, ...words], { env }),
            good(t, ['read', 'ask://roots', '--roots', '/usr/share', ...words], { env }),
        ]);
        assert.deepEqual(JSON.parse(filled), FILLED, name);
        assert.deepEqual(JSON.parse(roots), { roots: [{ uri: 'file:///usr/share/', name: 'share' }] }, name);
    }
    const { env, words } = LAUNCHED['SDK 2, launched'];
    const [nobody] = await Promise.all([
        bad(t, 75, /tidings read: the server asks: Who are you\?/, ['read', 'ask://form', ...words], { env }),
        bad(t, 64, /roots.*\n.*--roots DIR names a directory/, ['read', 'ask://roots', ...words], { env }),
    ]);
    assert.match(nobody.stderr, /was not answered: run the command on a terminal, or give --answer JSON/);
});

test('lists, completions and subscriptions that ask receive answers', async (t) => {
    const { env, words } = LAUNCHED['SDK 1, launched'];
    const root = ['--roots', '/usr/share', ...words];
    const [list, completed, watched, tail, requested] = await Promise.all([
        good(t, ['ls', '--json', ...root], { env }),
        good(t, ['complete', 'ask://{name}', 'name=', ...root], { env }),
        good(t, ['watch', '--json', '-n', '1', 'ask://form', ...root], { env }),
        good(t, ['tree', '--json', ...root], { env }),
        good(t, ['request', 'resources/list', ...root], { env }),
    ]);
    assert.match(list, /file:\/\/\/usr\/share\//);
    assert.equal(completed, 'file:///usr/share/\n');
    assert.equal(JSON.parse(watched.trim().split('\n').at(-1)).uri, 'ask://form');
    assert.match(tail, /ask:\/\/form/);
    assert.match(requested, /file:\/\/\/usr\/share\//);
});

/* ---- the stream for session questions --------------------------------------------------------- */

/** A legacy server without questions; `get` answers the GET of its stream. */
async function sessionServer(t, get) {
    const heard = [];
    const server = http.createServer(async (request, response) => {
        heard.push(request.method);
        if (request.method !== 'POST') {
            get(request, response);
            return;
        }
        const { id, method } = JSON.parse(Buffer.concat(await request.toArray()));
        heard.push(method);
        const results = {
            initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } },
            'tools/call': { content: [{ type: 'text', text: 'called' }] },
        };
        const body = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'what?' } };
        response.writeHead(id === undefined ? 202 : 200, { 'content-type': 'application/json', 'mcp-session-id': 's' });
        response.end(id === undefined ? '' : JSON.stringify({ jsonrpc: '2.0', id, ...body }));
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return { heard, url: `http://127.0.0.1:${server.address().port}/mcp` };
}

const STREAMS = {
    'has no stream': (request, response) => response.writeHead(405).end(),
    'refuses it': (request, response) => response.writeHead(400).end('no'),
    'fails': (request, response) => response.destroy(),
    'ends it at once': (request, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
    'says nothing there, not even that it is one': () => {},
};

for (const [name, get] of Object.entries(STREAMS)) {
    test(`server that ${name} can still be called`, async (t) => {
        const { heard, url } = await sessionServer(t, get);
        assert.equal(await good(t, ['call', url, 'tool']), 'called\n');
        const [asked, called] = [heard.indexOf('GET'), heard.indexOf('tools/call')];
        assert.ok(asked >= 0 && asked < called, heard.join(' '));
    });
}

test('server that asks endlessly and reads no answers has a limit of open questions', async (t) => {
    const MOST = 256;
    let replies = 0;
    let stream;
    const event = (message) => stream.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
    const ask = (n) => Array.from({ length: n }, (_, i) => event({ id: `p${replies}.${i}`, method: 'ping' }));
    const server = http.createServer(async (request, response) => {
        const { id, method } = JSON.parse(String(Buffer.concat(await request.toArray())) || '{}');
        if (method === 'initialize') {
            response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' });
            const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } };
            response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
        } else if (method === 'tools/call') {
            stream = response.writeHead(200, { 'content-type': 'text/event-stream' });
            stream.call = id;
            ask(500);
        } else if (method || request.method !== 'POST') {
            response.writeHead(request.method === 'POST' ? 202 : 405).end();
        } else if (++replies === MOST) {
            ask(10);
            event({ id: stream.call, result: { content: [{ type: 'text', text: 'called' }] } });
        }
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    const url = `http://127.0.0.1:${server.address().port}/mcp`;
    assert.equal(await good(t, ['call', url, 'tool', '--era', 'legacy']), 'called\n');
    assert.equal(replies, MOST);
});

/* ---- on a terminal --------------------------------------------------------------------------- */

const onTerminal = (t, tool) =>
    new Terminal(t, [BIN, 'call', tool, '--', node, ASKER], { env: {} });

test('user fills in a form', { skip: noTerminal }, async (t) => {
    const terminal = onTerminal(t, 'form');
    await terminal.shows('The server asks: Who are you?');
    await terminal.shows('As on your passport');
    await terminal.shows('Your name (text, required): ');
    terminal.type('\n');
    await terminal.shows('it has to be filled in');
    await terminal.shows('Your name (text, required): ');
    terminal.type('Ann\n');
    await terminal.shows('age (integer) [30]: ');
    terminal.type('old\n');
    await terminal.shows("'old' is not a number");
    await terminal.shows('age (integer) [30]: ');
    terminal.type('200\n');
    await terminal.shows('age (integer) [30]: ');
    terminal.type('\n');
    await terminal.shows(/1 {2}Red \(r\)\s+2 {2}Green \(g\)\s+Colour \(number or name\): /);
    terminal.type('2\n');
    await terminal.shows('Newsletter? (y/n): ');
    terminal.type('y\n');
    await terminal.shows('Send this?');
    terminal.type('\n');
    await terminal.shows('{"action":"accept","content":{"name":"Ann","age":30,"colour":"g","news":true}}');
    assert.equal((await terminal.ended()).code, 0);
});

test('terminal line of maximum length is one answer and does not split the next', { skip: noTerminal }, async (t) => {
    const terminal = onTerminal(t, 'form');
    await terminal.shows('Your name (text, required): ');
    terminal.type(`${'x'.repeat(4095)}\n`);
    await terminal.shows('age (integer) [30]: ');
    terminal.type('31\n');
    await terminal.shows('Colour (number or name): ');
    terminal.type('1\n');
    await terminal.shows('Newsletter? (y/n): ');
    terminal.type('n\n');
    await terminal.shows('Send this?');
    terminal.type('\n');
    await terminal.shows('"age":31,"colour":"r","news":false');
});

test('user declines or cancels', { skip: noTerminal }, async (t) => {
    const no = onTerminal(t, 'visit');
    await no.shows('The server asks: Pay here');
    await no.shows('https://user@pay.example:8443/now?n=1');
    await no.shows('at pay.example. Open it in a browser if you trust that.');
    await no.shows('Done?');
    no.type('n\n');
    await no.shows('{"action":"decline"}');
    const gone = onTerminal(t, 'form');
    await gone.shows('Your name (text, required): ');
    gone.type('\x04'); // Ctrl-D
    await gone.shows('{"action":"cancel"}');
});

test('server text cannot control the terminal', { skip: noTerminal }, async (t) => {
    const terminal = onTerminal(t, 'evil');
    await terminal.shows('title');
    await terminal.shows('[');
    await terminal.shows(': ');
    terminal.type('\n');
    await terminal.shows('Send this?');
    const shown = terminal.screen.replaceAll('\r\x1b[K', ''); // from tidings, to clear the progress line
    assert.doesNotMatch(shown, /[\x1b\x07\u202e]/u);
    terminal.type('n\n');
    await terminal.shows('{"action":"decline"}');
});
