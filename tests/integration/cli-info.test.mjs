// SPDX-License-Identifier: MIT
//
// `tidings info`, `request` and -v, which shows the messages on the wire, for tidings and third-party servers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bad, good, lines, objects } from './lib/cli.mjs';
import { run, serve, serveExample } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

/** A legacy server on standard input and output with these answers (the source of an object of functions). */
const stranger = (capabilities, answers) => ['--', process.execPath, '-e', `
    const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
    const answers = { ...${answers}, initialize: () => ({
        protocolVersion: '2025-11-25', capabilities: ${capabilities}, instructions: 'Mind the \\x1b[31mgap.\\nTwice.',
        serverInfo: { name: 'evil\\x1b[2J', version: '\\u202e1' } }) };
    require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method, params } = JSON.parse(line);
        if (id !== undefined) {
            say(answers[method] ? { id, result: answers[method](params) } : { id, error: { code: -32601, message: 'no \\x1b[31m', data: { why: 'so' } } });
        }
    });`];

test('info shows the name, transport, capabilities and counts of a server', async (t) => {
    const server = await serve(t, { files: { a: '', b: '' }, args: ['--change-tools', 'on'] });
    const said = await good(t, ['info', server.url]);
    assert.match(said, /^server +tidings \d/m);
    assert.match(said, /^protocol +2026-07-28 \(modern\), over http$/m);
    assert.match(said, /^versions +2026-07-28, 2025-11-25/m);
    assert.match(said, /^capabilities +resources \(subscribe, listChanged\), tools/m);
    assert.match(said, /^tools +\d+$/m);
    assert.match(said, /^prompts +0$/m);
    const strict = await serve(t, { files: {}, args: ['--profile', 'gateway'] });
    assert.match(await good(t, ['info', strict.url]), /^prompts +not offered$/m);
    const [object] = objects(await good(t, ['info', '--json', '--era', 'legacy', server.url]));
    assert.deepEqual([object.era, object.protocol, object.server.name], ['legacy', '2025-11-25', 'tidings']);
    assert.equal(object.counts.prompts.count, 0);
    assert.equal(objects(await good(t, ['info', '--json', strict.url]))[0].counts.prompts, null);
    assert.deepEqual([object.counts.templates.isMore, object.capabilities.resources.subscribe], [false, true]);
    const prompts = await serveExample(t, 'conformance');
    assert.ok(objects(await good(t, ['info', '--json', prompts.url]))[0].counts.prompts.count > 0);
});

test('info escapes server text, limits endless lists and reports failures', async (t) => {
    const many = '({ resources: Array.from({ length: 700 }, (_, i) => ({ uri: `x:${i}`, name: "x" })), nextCursor: `${Math.random()}` })';
    const args = stranger('{ resources: { subscribe: false }, tools: {} }', `{ 'resources/list': () => ${many}, 'tools/list': () => 7 }`);
    const said = await good(t, ['info', '-q', ...args]);
    assert.match(said, /^server +evil\\x1b\[2J \\u202e1$/m);
    assert.match(said, /^resources +1000 and more$/m);
    assert.match(said, /^templates +not offered$/m);
    assert.match(said, /^instructions +\nMind the \\x1b\[31mgap\.\nTwice\.\n/m);
    assert.match(said, /^tools +(0|\S.*\S)$/m);
    assert.ok(!said.includes('\x1b'));
    const [object] = objects(await good(t, ['info', '-q', '--json', ...args]));
    assert.deepEqual(object.counts.resources, { count: 1000, isMore: true });
});

test('request sends any method and prints errors with code and data', async (t) => {
    const server = await serve(t, { files: { a: 'hello' } });
    const tree = new Tree(t, { params: JSON.stringify({ uri: server.uri('a') }) });
    const params = JSON.stringify({ uri: server.uri('a') });
    for (const [given, options] of [[params], ['-', { input: params }], [`@${tree.at('params')}`]]) {
        const [result] = objects(await good(t, ['request', '--json', server.url, 'resources/read', given], options));
        assert.equal(result.contents[0].text, 'hello');
    }
    assert.match(await good(t, ['request', server.url, 'resources/list']), /^\{\n {2}"resources": \[/);
    await bad(t, 66, /data: \{"uri":"x:y","reason":"not_found"\}\n.*not found \(-32602\)/, ['request', server.url, 'resources/read', '{"uri":"x:y"}']);
    await bad(t, 69, /\(-32601\)/, ['request', server.url, 'no/such']);
    const { message } = JSON.parse((await bad(t, 69, /^\{.*\}\n$/, ['request', '--json', server.url, 'no/such'])).stderr);
    assert.match(message, /-32601/);
    await bad(t, 64, /a JSON object/, ['request', server.url, 'resources/read', '[1]']);
    await bad(t, 65, /line 1/, ['request', server.url, 'resources/read', 'nope']);
    const hostile = await bad(t, 69, /no \\x1b\[31m/, ['request', '-q', 'x/y', ...stranger('{}', '{}')]);
    assert.ok(!hostile.stderr.includes('\x1b'));
});

for (const era of ['modern', 'legacy']) {
    test(`${era}: -v shows sent and received messages without secrets`, async (t) => {
        const server = await serve(t, { files: { a: 'x'.repeat(20_000) } });
        const args = ['-v', '--era', era, '--token', 'tok-secret', '-H', 'X-Key: key-secret', server.url, server.uri('a')];
        const end = await run(t, ['read', ...args]);
        assert.equal(end.stdout.length, 20_000);
        const wire = lines(end.stderr);
        const first = era === 'modern' ? 'server/discover' : 'initialize';
        assert.match(wire[0], new RegExp(`^> \\{.*"method":"${first}"`));
        assert.match(wire[1], /^< HTTP 200 \{"jsonrpc"/);
        assert.ok(wire.some((line) => /^> .*"resources\/read"/.test(line)));
        const long = wire.find((line) => line.startsWith('< ') && line.includes('xxxx'));
        assert.match(long, /x… \(2\d{4} bytes\)$/);
        assert.ok(Buffer.byteLength(long) < 4200, `${long.length}`);
        assert.doesNotMatch(end.stderr, /secret/);
        assert.equal((await run(t, ['read', ...args.slice(1)])).stderr, '');
    });
}

test('-v escapes server text and explains a missing answer', async (t) => {
    const said = (await run(t, ['ls', '-q', '-v', ...stranger('{ resources: {} }', "{ 'resources/list': () => ({ resources: [{ uri: 'x:\\x9b', name: '\\u202e' }] }) }")])).stderr;
    assert.match(said, /^< .*evil\\u001b\[2J/m);
    assert.match(said, /^< .*x:\\x9b.*\\u202e/m);
    const server = await serve(t, { files: { a: '' }, args: ['--auth-tokens', new Tree(t, { tokens: '' }).at('tokens')] });
    assert.match((await bad(t, 77, /./, ['ls', '-v', server.url])).stderr, /^< HTTP 401: /m);
    assert.match((await bad(t, 74, /./, ['ls', '-v', '127.0.0.1:1'])).stderr, /^< Failed to connect/m);
});

test('every command that contacts a server accepts -v', async (t) => {
    const { commands } = JSON.parse(await good(t, ['help', '--json']));
    const asking = commands.filter(({ server }) => server);
    assert.ok(asking.length > 15);
    for (const { name, options } of asking) {
        assert.ok(options.some((option) => option.name === '--verbose' && option.letter === '-v'), name);
    }
});
