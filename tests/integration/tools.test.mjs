// SPDX-License-Identifier: MIT
//
// examples/tools, called by both official clients over both transports, and with handwritten requests for behaviour
// that the clients do not support.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { limitsOf, refused } from './lib/limits.mjs';
import { key, listen, meta, modern, modernHeaders, post, Session } from './lib/rpc.mjs';
import { legacyClient, modernClient, TRANSPORTS } from './lib/sdk.mjs';
import { serveExample } from './lib/server.mjs';
import { DEADLINE, slow } from './lib/wait.mjs';

const NAMES = ['add', 'countdown', 'forget', 'greet', 'learn'];
const isTools = (m) => m.method === 'notifications/tools/list_changed';
const isProgress = (m) => m.method === 'notifications/progress';
const isLog = (m) => m.method === 'notifications/message';
const level = 'io.modelcontextprotocol/logLevel';

/** A handwritten call. Returns the HTTP response. */
const callTool = (server, name, args = {}, { extra = {}, ...options } = {}) =>
    modern(
        server,
        'tools/call',
        { name, arguments: args, ...extra, _meta: meta(extra._meta) },
        options,
    );

for (const transport of TRANSPORTS) {
    for (const [era, open] of [
        ['2025-11-25', legacyClient],
        ['2026-07-28', modernClient],
    ]) {
        const it = (name, body) => test(`${transport} ${era}: ${name}`, body);
        const connect = (t, options = {}) => open(t, transport, { example: 'tools', ...options });

        it('tools are listed in pages with their schemas', async (t) => {
            const { client } = await connect(t, { args: ['--page-size', '2'] });
            assert.equal(client.getServerCapabilities().tools.listChanged, true);
            const tools = [];
            let cursor;
            do {
                const page = await client.listTools(cursor && { cursor });
                tools.push(...page.tools);
                cursor = page.nextCursor;
            } while (cursor && tools.length < NAMES.length);
            assert.deepEqual(
                tools.map((tool) => tool.name),
                NAMES,
            );
            const add = tools.find((tool) => tool.name === 'add');
            assert.deepEqual(add.inputSchema.required, ['a', 'b']);
            assert.deepEqual(add.outputSchema.required, ['sum']);
            assert.equal(add.annotations.openWorldHint, false);
        });

        it('result has data and its text', async (t) => {
            const { client } = await connect(t);
            await client.listTools(); // so that the client checks the output schema too
            const result = await client.callTool({ name: 'add', arguments: { a: 1, b: 2.5 } });
            assert.deepEqual(result.structuredContent, { sum: 3.5 });
            assert.deepEqual(JSON.parse(result.content[0].text), { sum: 3.5 });
            assert.ok(!result.isError);
        });

        it('arguments that violate the schema are reported to the model', async (t) => {
            const { client } = await connect(t);
            const result = await client.callTool({ name: 'add', arguments: { a: 1, b: 'two' } });
            assert.equal(result.isError, true);
            assert.match(result.content[0].text, /\/b: /);
            assert.match(result.content[0].text, /\/properties\/b\/type/);
            await assert.rejects(client.callTool({ name: 'nope', arguments: {} }), {
                code: -32602,
                message: /unknown tool 'nope'$/,
            });
            await assert.rejects(client.callTool({ name: 'adds', arguments: {} }), {
                code: -32602,
                message: /unknown tool 'adds'; did you mean 'add'\?$/,
                data: { suggestions: ['add'] },
            });
        });

        it('progress and log messages precede the answer', async (t) => {
            const { client, received } = await connect(t);
            if (era < '2026') {
                await client.setLoggingLevel('debug');
            }
            const seen = [];
            const result = await client.callTool(
                {
                    name: 'countdown',
                    arguments: { from: 3, step_ms: 30 },
                    ...(era > '2026' && { _meta: { [level]: 'info' } }),
                },
                ...[undefined].slice(era > '2026' ? 1 : 0),
                { onprogress: (p) => seen.push(p), timeout: DEADLINE },
            );
            assert.equal(result.content[0].text, '0');
            assert.ok(seen.length >= 1);
            assert.equal(seen[0].total, 3);
            const values = seen.map((p) => p.progress);
            assert.deepEqual(values, [...new Set(values)].sort(), 'it rises');
            const answer = received.seen.findIndex((m) => m.result?.content);
            const log = received.seen.findIndex(isLog);
            assert.ok(log >= 0 && log < answer);
            assert.equal(received.seen[log].params.data, 'lift-off');
            assert.equal(received.seen[log].params.logger, 'countdown');
        });

        it('client cancellation reaches the handler', async (t) => {
            const { client, server, wire } = await connect(t);
            const giveUp = new AbortController();
            const options = {
                signal: giveUp.signal,
                timeout: DEADLINE,
                onprogress: () => giveUp.abort(new Error('enough')), // the call is running
            };
            await assert.rejects(
                client.callTool(
                    { name: 'countdown', arguments: { from: 1e6, step_ms: 1000 } },
                    ...[undefined].slice(era > '2026' ? 1 : 0),
                    options,
                ),
                /enough|abort/i,
            );
            if (server) {
                await server.lines.next((line) => /countdown cancelled/.test(line), 'the handler');
            } else {
                await new Promise((resolve) => {
                    wire.stderr.on('data', (text) => /cancelled/.test(text) && resolve());
                });
            }
        });
    }

    test(`${transport} 2026-07-28: tool asks the user a question`, async (t) => {
        const { client } = await modernClient(t, transport, {
            example: 'tools',
            capabilities: { elicitation: { form: {} } },
        });
        let asked;
        client.setRequestHandler('elicitation/create', async ({ params }) => {
            asked = params.message;
            return { action: 'accept', content: { name: 'Alice' } };
        });
        const result = await client.callTool({ name: 'greet', arguments: {} });
        assert.equal(asked, 'What is your name?');
        assert.deepEqual(JSON.parse(result.content[1].text).content, { name: 'Alice' });
    });
}

// ---- handwritten requests ------------------------------------------------------------------------

test('list_changed reaches listens that request it, and legacy streams', async (t) => {
    const server = await serveExample(t, 'tools');
    const { events, ack } = await listen(server, { toolsListChanged: true });
    const other = await listen(server, { resourcesListChanged: true });
    assert.deepEqual(ack.notifications, { toolsListChanged: true });
    const session = await Session.open(server);
    const stream = await session.stream();
    const learned = await callTool(server, 'learn', { name: 'new-tool' });
    assert.ok(!learned.json.result.isError, learned.text);
    const told = await events.message(isTools, 'the listen');
    assert.ok(told.params._meta[key.subscription]);
    await stream.message(isTools, 'the stream of the session');
    const said = await callTool(server, 'new-tool');
    assert.equal(said.json.result.content[0].text, 'new-tool');
    const again = await callTool(server, 'learn', { name: 'new-tool' });
    assert.equal(again.json.result.isError, true);
    assert.match(again.json.result.content[0].text, /already/);
    await callTool(server, 'forget', { name: 'new-tool' });
    await events.message(isTools, 'the listen again');
    const gone = await callTool(server, 'new-tool');
    assert.equal(gone.json.error.code, -32602);
    assert.equal(other.events.messages.some(isTools), false);
    for (const s of [events, other.events, stream]) {
        s.close();
    }
});

test('session without a stream receives list_changed on its next stream', async (t) => {
    const server = await serveExample(t, 'tools');
    const session = await Session.open(server);
    await session.call('tools/call', { name: 'learn', arguments: { name: 'x' } });
    const stream = await session.stream();
    await stream.message(isTools, 'what was missed');
    stream.close();
});

test('invalid tool name is rejected with an explanation', async (t) => {
    const server = await serveExample(t, 'tools');
    const { json } = await callTool(server, 'learn', { name: 'not a name' });
    assert.equal(json.result.isError, true);
    assert.match(json.result.content[0].text, /A-Z a-z 0-9/);
});

test('answer is one JSON object without a progress token or log level', async (t) => {
    const server = await serveExample(t, 'tools');
    const response = await callTool(server, 'countdown', { from: 2, step_ms: 10 });
    assert.match(response.headers.get('content-type'), /application\/json/);
    assert.equal(response.json.result.content[0].text, '0');
    const strict = await callTool(
        server,
        'countdown',
        { from: 2, step_ms: 10 },
        { extra: { _meta: { progressToken: 1 } }, headers: { Accept: 'application/json' } },
    );
    assert.equal(strict.json.result.content[0].text, '0');
});

test('progress stream ends with the answer and the connection', async (t) => {
    const server = await serveExample(t, 'tools');
    const { events } = await callTool(
        server,
        'countdown',
        { from: 3, step_ms: 50 },
        { id: 77, extra: { _meta: { progressToken: 'p', [level]: 'debug' } } },
    );
    const answer = await events.message((m) => m.id === 77, 'the answer');
    await events.over;
    assert.equal(answer.result.content[0].text, '0');
    const progress = events.messages.filter(isProgress);
    assert.ok(progress.length >= 1);
    assert.ok(progress.every((m) => m.params.progressToken === 'p'));
    assert.equal(events.messages.filter(isLog).length, 1);
    assert.equal(events.messages.at(-1).id, 77);
});

test('deadline answers the client and notifies the handler', async (t) => {
    const server = await serveExample(t, 'tools', ['--call-timeout', '300ms']);
    const { json } = await callTool(server, 'countdown', { from: 1e6, step_ms: 1000 });
    assert.equal(json.result.isError, true);
    assert.match(json.result.content[0].text, /did not finish within 300 ms \(--call-timeout\)/);
    await server.lines.next((line) => /countdown cancelled/.test(line), 'the handler');
});

test('calls beyond the limit are rejected with its name', async (t) => {
    const server = await serveExample(t, 'tools', ['--max-calls', '1', '--self']);
    const counted = async () => {
        const { reached, inUse } = (await limitsOf(t, server))['max-calls'];
        return { reached, inUse };
    };
    const first = await callTool(
        server,
        'countdown',
        { from: 1e6, step_ms: 1000 },
        { extra: { _meta: { progressToken: 1 } } },
    );
    await first.events.message(isProgress, 'the first to run');
    const { headers, json, status } = await callTool(server, 'add', { a: 1, b: 1 });
    assert.equal(json.error.code, -32603);
    assert.match(json.error.message, /--max-calls/);
    assert.equal(status, 503);
    assert.equal(headers.get('retry-after'), '1');
    refused(json.error, 'max-calls', 1);
    assert.deepEqual(await counted(), { reached: 1, inUse: 1 });
    first.events.close(); // cancels it
    await server.lines.next((line) => /countdown cancelled/.test(line), 'the handler');
});

test('legacy client that loses its connection cancels nothing', async (t) => {
    const server = await serveExample(t, 'tools');
    const session = await Session.open(server);
    const { events } = await session.send(
        'tools/call',
        {
            name: 'countdown',
            arguments: { from: 1e6, step_ms: 1000 },
            _meta: { progressToken: 1 },
        },
        { id: 5 },
    );
    await events.message(isProgress, 'it to run');
    events.close();
    await session.call('ping'); // the server has received more since
    assert.equal(/cancelled/.test(server.stderr), false);
    const cancelled = { method: 'notifications/cancelled', params: { requestId: 5 } };
    await session.post({ jsonrpc: '2.0', ...cancelled });
    await server.lines.next((line) => /countdown cancelled/.test(line), 'the handler');
});

test('questions require a capable client and an authentic state', async (t) => {
    const server = await serveExample(t, 'tools');
    const cannot = await callTool(server, 'greet');
    assert.equal(cannot.status, 400);
    assert.equal(cannot.json.error.code, -32021);
    assert.deepEqual(cannot.json.error.data.requiredCapabilities, { elicitation: {} });
    const can = { [key.capabilities]: { elicitation: {} } };
    const first = await callTool(server, 'greet', {}, { extra: { _meta: can } });
    assert.equal(first.json.result.resultType, 'input_required');
    const { requestState } = first.json.result;
    const inputResponses = { name: { action: 'accept', content: { name: 'Bob' } } };
    const extra = { inputResponses, requestState, _meta: can };
    const second = await callTool(server, 'greet', {}, { extra });
    assert.match(second.json.result.content[1].text, /Bob/);
    for (const [args, state] of [
        [{ other: 1 }, requestState],
        [{}, `${requestState}x`],
        [{}, 'x'],
    ]) {
        const bad = await callTool(server, 'greet', args, {
            extra: { ...extra, requestState: state },
        });
        assert.equal(bad.json.error.code, -32602, state);
    }
    const session = await Session.open(server);
    const legacy = await session.send('tools/call', { name: 'greet' });
    assert.equal(legacy.json.error.code, -32021);
    assert.deepEqual(legacy.json.error.data.requiredCapabilities, { elicitation: {} });
});

test('header Mcp-Name must match the tool', async (t) => {
    const server = await serveExample(t, 'tools');
    const params = { name: 'add', arguments: { a: 1, b: 1 }, _meta: meta() };
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    const headers = modernHeaders('tools/call', { name: 'greet' });
    const { status, json } = await post(server, message, headers);
    assert.equal(status, 400);
    assert.equal(json.error.code, -32020);
});

test('argument headers must match the arguments, and pages may send them', async (t) => {
    const server = await serveExample(t, 'conformance');
    const name = 'test_mirrored_header';
    const say = (args, headers) => callTool(server, name, args, { headers });
    const good = await say({ region: 'eu' }, { 'Mcp-Param-Region': 'eu' });
    assert.ok(good.json.result, good.text);
    for (const headers of [{}, { 'Mcp-Param-Region': 'us' }]) {
        const bad = await say({ region: 'eu' }, headers);
        assert.equal(bad.status, 400);
        assert.equal(bad.json.error.code, -32020);
        assert.match(bad.json.error.message, /mcp-param-region/);
    }
    const allowed = await request(server, {
        method: 'OPTIONS',
        headers: {
            Origin: 'http://localhost:1',
            'Access-Control-Request-Method': 'POST',
            'Access-Control-Request-Headers': 'content-type, mcp-param-region,x-other, mcp-param-',
        },
    });
    const list = allowed.headers.get('access-control-allow-headers').split(', ');
    assert.ok(list.includes('mcp-param-region') && list.includes('Mcp-Name'), list.join());
    assert.ok(!list.includes('x-other') && !list.includes('mcp-param-'), list.join());
});

test('hundreds of calls on all threads are answered once each', async (t) => {
    const server = await serveExample(t, 'tools', ['--workers', '4', '--max-calls', '1000']);
    const calls = Array.from({ length: 200 }, (_, i) =>
        i % 2
            ? callTool(server, 'add', { a: i, b: 1 }, { id: i })
            : callTool(server, 'countdown', { from: 2, step_ms: 10 }, { id: i }),
    );
    const answers = await Promise.all(calls);
    answers.forEach(({ json }, i) => {
        assert.equal(json.id, i);
        assert.equal(json.result.isError ?? false, false);
    });
    assert.equal(answers[7].json.result.structuredContent.sum, 8);
});

test('shutdown does not wait for cancelled handlers', async (t) => {
    const server = await serveExample(t, 'tools');
    const { events } = await callTool(
        server,
        'countdown',
        { from: 1e6, step_ms: 1000 },
        { extra: { _meta: { progressToken: 1 } } },
    );
    await events.message(isProgress, 'it to run');
    await server.stop('SIGTERM', 10_000 * slow);
});
