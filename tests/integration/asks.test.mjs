// SPDX-License-Identifier: MIT
//
// Tools that ask their client, one handler for both eras: the official clients answer forms, sampling and roots over
// every transport, and one client loses the stream of its question. The SDKs do not support WebSocket and TCP, so tests
// for these write the messages by hand. Servers also stop while they wait for answers.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { SocketPeer } from '../contract/transport/lines.mjs';
import { initialize, post } from './lib/rpc.mjs';
import { LEGACY_TRANSPORTS, legacyClient, modernClient, TRANSPORTS } from './lib/sdk.mjs';
import { serveExample } from './lib/server.mjs';
import { DEADLINE, within } from './lib/wait.mjs';
import { WebSocketRaw } from './lib/websocket.mjs';

const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const sample = { role: 'assistant', model: 'm', content: { type: 'text', text: 'a sample' } };
const roots = { roots: [{ uri: 'file:///srv', name: 'srv' }] };
const filled = { action: 'accept', content: { name: 'Ann' } };
const ERAS = [
    ['2025-11-25', legacyClient, LEGACY_TRANSPORTS],
    ['2026-07-28', modernClient, TRANSPORTS],
];

/** The answers of both clients; SDK 1.x names requests by their schema. */
function answer(client, era, asked) {
    const on = (schema, method, give) =>
        client.setRequestHandler(era === '2025-11-25' ? schema : method, async (request) => {
            asked.push(method);
            return typeof give === 'function' ? give(request) : give;
        });
    on(ElicitRequestSchema, 'elicitation/create', filled);
    on(CreateMessageRequestSchema, 'sampling/createMessage', sample);
    on(ListRootsRequestSchema, 'roots/list', roots);
}

for (const [era, open, transports] of ERAS) {
    for (const transport of transports) {
        test(`${transport} ${era}: official client answers every kind of question`, async (t) => {
            const { client } = await open(t, transport, { example: 'conformance', capabilities });
            const asked = [];
            answer(client, era, asked);
            const name = 'test_input_required_result_multiple_inputs';
            const { content, isError } = await client.callTool({ name, arguments: {} });
            const said = content.map((block) => block.text);
            assert.ok(!isError, said[0]);
            const all = ['elicitation/create', 'roots/list', 'sampling/createMessage'];
            assert.deepEqual(asked.sort(), all);
            assert.deepEqual(JSON.parse(said[0]), filled);
            assert.deepEqual(JSON.parse(said[1]).content, sample.content);
            assert.deepEqual(JSON.parse(said[2]), roots);
            assert.equal(said[3], 'state-ok', 'what the handler kept is back');
            const twice = await client.callTool({
                name: 'test_input_required_result_multi_round',
                arguments: {},
            });
            assert.match(twice.content[0].text, era === '2025-11-25' ? /is invalid.*color/ : /Ann/);
        });
    }
}

test('http 2025-11-25: client that reconnects its stream receives the question', async (t) => {
    let cuts = 0;
    /** The client receives only the first event of the first answer to a call. */
    const fetchCut = async (url, init) => {
        const response = await fetch(url, init);
        if (cuts > 0 || !String(init.body).includes('tools/call')) {
            return response;
        }
        cuts += 1;
        const reader = response.body.getReader();
        let text = '';
        while (!/\nid: [^\n]*\n[^]*?\n\n|^id: [^\n]*\n[^]*?\n\n/.test(text)) {
            const { value, done } = await reader.read();
            assert.ok(!done, `the stream ended: ${text}`);
            text += Buffer.from(value).toString();
        }
        await reader.cancel();
        const first = /^[^]*?id: [^\n]*\n[^]*?\n\n/.exec(text)[0];
        assert.doesNotMatch(first, /elicitation/, 'the first event has an id and no message');
        return new Response(first, { headers: response.headers });
    };
    const { client } = await legacyClient(t, 'http', {
        example: 'conformance',
        capabilities,
        wire: { fetch: fetchCut },
    });
    const asked = [];
    answer(client, '2025-11-25', asked);
    const { content } = await client.callTool({ name: 'test_streaming_elicitation', arguments: {} });
    assert.equal(cuts, 1);
    assert.deepEqual(asked, ['elicitation/create']);
    assert.deepEqual(JSON.parse(content[0].text), filled);
});

/* ---- WebSocket and TCP, by hand -------------------------------------------------------------- */

/** The conformance example on HTTP and TCP, with functions that send and receive messages on such a connection. */
async function connectRaw(t, how) {
    const server = await serveExample(t, 'conformance', how === 'tcp' ? ['--tcp', '127.0.0.1:0'] : []);
    if (how === 'websocket') {
        const ws = await WebSocketRaw.open(server);
        return { server, say: (m) => ws.write(m), hear: (match, what) => ws.message(match, what), over: ws.over };
    }
    const port = Number(/tcp:\/\/127\.0\.0\.1:(\d+)/.exec(server.stderr)[1]);
    const peer = await SocketPeer.connect(t, { host: '127.0.0.1', port });
    return {
        server,
        say: (m) => peer.write(JSON.stringify(m)),
        hear: (match, what) => peer.inbox.next(match, what),
        over: peer.ended,
    };
}

const CALL = { jsonrpc: '2.0', id: 'call', method: 'tools/call',
    params: { name: 'test_input_required_result_multiple_inputs', arguments: {} } };
const ANSWERS = { 'elicitation/create': filled, 'sampling/createMessage': sample, 'roots/list': roots };

for (const how of ['websocket', 'tcp']) {
    test(`${how} 2025-11-25: questions of every kind share the connection and accept answers in any order`, async (t) => {
        const { say, hear } = await connectRaw(t, how);
        await say(initialize('2025-11-25', { id: 'hello', capabilities }));
        await hear((m) => m.id === 'hello', 'the answer to initialize');
        await say({ jsonrpc: '2.0', method: 'notifications/initialized' });
        await say(CALL);
        const questions = [];
        for (const method of Object.keys(ANSWERS)) {
            questions.push(await hear((m) => m.method === method, method));
        }
        for (const { id, method } of questions.reverse()) {
            await say({ jsonrpc: '2.0', id, result: ANSWERS[method] });
        }
        const { result } = await hear((m) => m.id === 'call', 'the answer to the call');
        const said = result.content.map((block) => block.text);
        assert.deepEqual(JSON.parse(said[0]), filled);
        assert.deepEqual(JSON.parse(said[1]).content, sample.content);
        assert.deepEqual(JSON.parse(said[2]), roots);
    });

    test(`${how} 2025-03-26: batched call asks and accepts its answers in a batch`, async (t) => {
        const { say, hear } = await connectRaw(t, how);
        await say(initialize('2025-03-26', { id: 'hello', capabilities }));
        await hear((m) => m.id === 'hello', 'the answer to initialize');
        await say({ jsonrpc: '2.0', method: 'notifications/initialized' });
        await say([CALL, { jsonrpc: '2.0', id: 'ping', method: 'ping' }]);
        const batch = [];
        for (const method of Object.keys(ANSWERS)) {
            const { id } = await hear((m) => m.method === method, method);
            batch.push({ jsonrpc: '2.0', id, result: ANSWERS[method] });
        }
        await say(batch);
        const all = await hear((m) => Array.isArray(m), 'the answers to the batch');
        const { result } = all.find(({ id }) => id === 'call');
        assert.deepEqual(JSON.parse(result.content[2].text), roots);
        assert.deepEqual(all.find(({ id }) => id === 'ping').result, {});
    });

    test(`${how}: server that stops while a handler waits accepts the answer and exits`, async (t) => {
        const { server, say, hear, over } = await connectRaw(t, how);
        await say(initialize('2025-11-25', { id: 'hello', capabilities }));
        await hear((m) => m.id === 'hello', 'the answer to initialize');
        await say(CALL);
        const questions = [];
        for (const method of Object.keys(ANSWERS)) {
            questions.push(await hear((m) => m.method === method, method));
        }
        const stopped = server.stop('SIGTERM', DEADLINE); // it must exit with status 0
        for (const { id, method } of questions) {
            await say({ jsonrpc: '2.0', id, result: ANSWERS[method] });
        }
        const { result } = await hear((m) => m.id === 'call', 'the answer to the call');
        assert.deepEqual(JSON.parse(result.content[2].text), roots);
        await stopped;
        await within(over, 'the end of the connection');
    });
}

test('http 2025-11-25: server stops even if a handler waits for an answer that never comes', async (t) => {
    const server = await serveExample(t, 'conformance');
    const hello = await post(server, initialize('2025-11-25', { capabilities }));
    const session = { 'Mcp-Session-Id': hello.headers.get('mcp-session-id'), 'MCP-Protocol-Version': '2025-11-25' };
    const asked = fetch(server.url, {
        method: 'POST',
        headers: { ...session, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
        body: JSON.stringify(CALL),
    });
    const reader = (await asked).body.getReader();
    let text = '';
    while (!text.includes('roots/list')) {
        const { value, done } = await within(reader.read(), 'a question');
        assert.ok(!done, text);
        text += Buffer.from(value).toString();
    }
    await server.stop('SIGTERM', DEADLINE);
    for (let end = false; !end;) {
        ({ done: end } = await within(reader.read().catch(() => ({ done: true })), 'the end of the stream'));
    }
});
