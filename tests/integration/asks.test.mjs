// SPDX-License-Identifier: MIT
//
// Tools that ask their client back, one handler for both eras: the official clients answer forms,
// sampling and roots over every transport, and one of them loses the stream on which it was asked.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
    CreateMessageRequestSchema,
    ElicitRequestSchema,
    ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';

import { LEGACY_TRANSPORTS, legacyClient, modernClient, TRANSPORTS } from './lib/sdk.mjs';

const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const sample = { role: 'assistant', model: 'm', content: { type: 'text', text: 'a sample' } };
const roots = { roots: [{ uri: 'file:///srv', name: 'srv' }] };
const filled = { action: 'accept', content: { name: 'Ann' } };
const ERAS = [
    ['2025-11-25', legacyClient, LEGACY_TRANSPORTS],
    ['2026-07-28', modernClient, TRANSPORTS],
];

/** What both clients are told to answer; SDK 1.x names requests by their schema. */
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
        test(`${transport} ${era}: everything there is to ask is answered by an official client`, async (t) => {
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
            assert.match(twice.content[0].text, era === '2025-11-25' ? /is no good.*color/ : /Ann/);
        });
    }
}

test('http 2025-11-25: a client that loses its stream before it was asked is asked when it is back', async (t) => {
    let cuts = 0;
    /** Of the first answer to a call only the first event arrives. */
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
