// SPDX-License-Identifier: MIT
//
// A server of 2024-11-05 (HTTP+SSE) on the official SDK that requires tokens. Its stream and its messages have
// different addresses, and the client sends the server's token to both.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { ListResourcesRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { defer } from './lib/cleanup.mjs';
import { good } from './lib/cli.mjs';
import { Tree } from './lib/tree.mjs';

test('token for the stream address is sent to the message endpoint', async (t) => {
    const refused = [];
    const sessions = new Map();
    const server = http.createServer(async (request, response) => {
        const { pathname, searchParams } = new URL(request.url, 'http://x');
        if (pathname !== '/sse' && pathname !== '/messages') {
            response.writeHead(404).end();
        } else if (request.headers.authorization !== 'Bearer the-token') {
            refused.push(`${request.method} ${pathname}`);
            response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
        } else if (pathname === '/messages') {
            await sessions.get(searchParams.get('sessionId')).handlePostMessage(request, response);
        } else if (request.method === 'GET') {
            const transport = new SSEServerTransport('/messages', response);
            sessions.set(transport.sessionId, transport);
            const mcp = new Server({ name: 'old', version: '1' }, { capabilities: { resources: {} } });
            mcp.setRequestHandler(ListResourcesRequestSchema, () => ({ resources: [{ uri: 'old://a', name: 'a' }] }));
            await mcp.connect(transport);
        } else {
            response.writeHead(405).end();
        }
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    const url = `http://127.0.0.1:${server.address().port}/sse`;
    const home = new Tree(t);
    const state = path.join(home.path, 'tidings');
    fs.mkdirSync(state, { mode: 0o700 });
    const token = { resource: url, issuer: 'https://as.test', token_endpoint: 'https://as.test/token', client_id: 'c', access_token: 'the-token', scope: '' };
    fs.writeFileSync(path.join(state, 'tokens.json'), JSON.stringify({ tokens: [token] }), { mode: 0o600 });
    assert.equal(await good(t, ['ls', url], { env: { XDG_STATE_HOME: home.path } }), 'old://a\n');
    assert.deepEqual(refused, []);
});
