// SPDX-License-Identifier: MIT
//
// A server on the official TypeScript SDK, version 2. Its resource changes when a client POSTs a new text to /change,
// and its streams never replay changes from before the listen.

import http from 'node:http';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';

const URI = 'note://it';
let text = 'one';

const handler = createMcpHandler(() => {
    const capabilities = { resources: { subscribe: true } };
    const server = new McpServer({ name: 'stranger-quiet', version: '2' }, { capabilities });
    server.registerResource('it', URI, { mimeType: 'text/plain' }, (uri) => ({
        contents: [{ uri: uri.href, text }],
    }));
    return server;
});
const mcp = toNodeHandler(handler);
const listener = http.createServer((req, res) => {
    if (req.url !== '/change') {
        mcp(req, res);
        return;
    }
    let body = '';
    req.on('data', (piece) => { body += piece; });
    req.on('end', () => {
        text = body;
        handler.notify.resourceUpdated(URI);
        res.end();
    });
});
listener.listen(0, '127.0.0.1', () => {
    console.error(`at http://127.0.0.1:${listener.address().port}/mcp`);
});
process.on('SIGTERM', () => process.exit(0));
