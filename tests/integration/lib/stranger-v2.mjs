// SPDX-License-Identifier: MIT
//
// A server on the official TypeScript SDK, version 2, which supports the modern era too: a resource that counts and
// notifies every 20 ms; a POST to /add adds another. On standard input and output, or over HTTP when PORT is set.

import http from 'node:http';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const URI = 'count://it';
let count = 0;
let added = 0;

function build() {
    const server = new McpServer(
        { name: 'stranger-v2', version: '2' },
        { capabilities: { resources: { subscribe: true, listChanged: true } } },
    );
    server.registerResource('it', URI, { mimeType: 'text/plain' }, (uri) => ({
        contents: [{ uri: uri.href, text: `${count}` }],
    }));
    for (let i = 0; i < added; i++) {
        server.registerResource(`more ${i}`, `count://more/${i}`, {}, (uri) => ({ contents: [{ uri: uri.href, text: '' }] }));
    }
    return server;
}

if (process.env.PORT === undefined) {
    serveStdio(() => {
        const server = build();
        const timer = setInterval(() => {
            count += 1;
            server.server.sendResourceUpdated({ uri: URI }).catch(() => {});
        }, 20);
        server.server.onclose = () => clearInterval(timer);
        return server;
    });
} else {
    const handler = createMcpHandler(build);
    setInterval(() => {
        count += 1;
        handler.notify.resourceUpdated(URI);
    }, 20);
    const mcp = toNodeHandler(handler);
    const listener = http.createServer((request, response) => {
        if (request.url !== '/add') {
            mcp(request, response);
            return;
        }
        added += 1;
        handler.notify.resourcesChanged();
        response.end();
    });
    listener.listen(Number(process.env.PORT), '127.0.0.1', () => {
        console.error(`at http://127.0.0.1:${listener.address().port}/mcp`);
    });
    process.on('SIGTERM', () => process.exit(0));
}
