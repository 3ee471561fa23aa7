// SPDX-License-Identifier: MIT
//
// Hosts that start with tools, against servers without tools. Each host failed without tools/list, or without a
// declared capability (the AI SDK). The hosts need hundreds of packages, so this file replays their recorded requests
// in order, with the version of the host (2026-11-17, over Streamable HTTP). With declared empty lists all four
// succeeded.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { serve, serveExample } from './lib/server.mjs';

const VERSION = '2025-11-25';
const both = 'application/json, text/event-stream';
const hello = (capabilities, clientInfo) => ({ method: 'initialize', params: { protocolVersion: VERSION, capabilities, clientInfo } });
const HOSTS = [
    {
        name: '@langchain/mcp-adapters 1.1.4',
        begins: hello({}, { name: '@langchain/mcp-adapters', version: '1.1.4' }),
        sends: [{ method: 'tools/list', params: {} }],
    },
    {
        name: '@mastra/mcp 0.14.5',
        begins: hello({ elicitation: {} }, { name: 's', version: '1.0.0' }),
        sends: [{ method: 'tools/list', params: { timeout: 60000 } }, { method: 'resources/list' }, { method: 'prompts/list' }],
    },
    {
        name: 'mcp-use 1.34.6',
        begins: hello({ roots: { listChanged: true } }, {
            name: 'mcp-use',
            title: 'mcp-use',
            version: '1.34.6',
            description: 'mcp-use is a complete TypeScript framework for building and using MCP',
            icons: [{ src: 'https://mcp-use.com/logo.png' }],
            websiteUrl: 'https://mcp-use.com',
        }),
        sends: [{ method: 'tools/list' }, { method: 'tools/list' }, { method: 'resources/list', params: {} }, { method: 'prompts/list' }],
        deletes: true,
    },
    {
        name: '@ai-sdk/mcp 1.0.101',
        looksFirst: true, // a GET before all other requests, which the server rejects
        alwaysSaysVersion: true,
        begins: hello({}, { name: 'ai-sdk-mcp-client', version: '1.0.0' }),
        sends: [{ method: 'tools/list' }, { method: 'resources/list' }, { method: 'prompts/list' }, { method: 'resources/templates/list' }],
        deletes: true,
    },
];

/** Send the recorded requests of the host to `server`. Returns the answers by method. */
async function play(server, host) {
    const version = { 'MCP-Protocol-Version': VERSION };
    const first = host.alwaysSaysVersion ? version : {};
    const stream = (headers) => request(server, { method: 'GET', headers: { Accept: 'text/event-stream', ...headers } });
    let id = 0;
    const post = (message, headers) =>
        request(server, {
            method: 'POST',
            headers: { 'Content-Type': 'application/json', Accept: both, ...headers },
            body: JSON.stringify({ ...message, jsonrpc: '2.0', ...(message.method.startsWith('notifications/') ? {} : { id: id++ }) }),
        });
    if (host.looksFirst) {
        assert.ok((await stream(first)).status >= 400);
    }
    const begun = await post(host.begins, first);
    assert.equal(begun.status, 200, begun.text);
    const headers = { 'Mcp-Session-Id': begun.headers.get('mcp-session-id'), ...version };
    assert.equal((await post({ method: 'notifications/initialized' }, headers)).status, 202);
    assert.equal((await stream(headers)).status, 200);
    const answers = { initialize: begun.json.result };
    for (const message of host.sends) {
        const { status, json, text } = await post(message, headers);
        assert.equal(status, 200, text);
        assert.ok(json.result, `${message.method}: ${text}`);
        answers[message.method] = json.result;
    }
    if (host.deletes) {
        const ended = await request(server, { method: 'DELETE', headers: { Accept: '*/*', ...headers } });
        assert.ok(ended.status < 300, ended.text);
    }
    return answers;
}

const SERVERS = [
    ['tidings serve', (t) => serve(t, { files: { 'a.txt': 'a' } }), 3],
    ['tidings serve --change-tools off', (t) => serve(t, { files: { 'a.txt': 'a' }, args: ['--change-tools', 'off'] }), 0],
    ['a program without tools', (t) => serveExample(t, 'hello', ['--change-tools', 'off']), 0],
];

for (const [what, start, tools] of SERVERS) {
    test(`${what}: hosts that start with tools complete the session`, async (t) => {
        const server = await start(t);
        for (const host of HOSTS) {
            const answers = await play(server, host);
            const { capabilities } = answers.initialize;
            assert.ok(capabilities.tools && capabilities.prompts, `${host.name} asks only for what is declared`);
            assert.equal(answers['tools/list'].tools.length, tools, host.name);
            assert.deepEqual(answers['prompts/list']?.prompts ?? [], [], host.name);
        }
    });
}
