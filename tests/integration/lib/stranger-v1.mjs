// SPDX-License-Identifier: MIT
//
// A server on the official TypeScript SDK, version 1 (legacy era): one resource that accepts subscriptions and then
// changes every 20 ms. A POST to /add adds another. On standard input and output, or over HTTP when PORT is set
// (JSON=1: JSON answers only).

import { randomUUID } from 'node:crypto';
import http from 'node:http';

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
    ListResourcesRequestSchema,
    ReadResourceRequestSchema,
    SubscribeRequestSchema,
    UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';

const URI = 'count://it';
const added = [];
const servers = new Set();

function build() {
    let count = 0;
    let timer;
    const capabilities = { resources: { subscribe: true, listChanged: true } };
    const server = new Server({ name: 'stranger-v1', version: '1' }, { capabilities });
    server.setRequestHandler(ListResourcesRequestSchema, ({ params }) =>
        params?.cursor
            ? { resources: [{ uri: URI, name: 'it' }, ...added] }
            : { resources: [{ uri: 'count://other', name: 'other' }], nextCursor: 'more' },
    );
    server.setRequestHandler(ReadResourceRequestSchema, ({ params }) => ({
        contents: [{ uri: params.uri, text: `${count}` }],
    }));
    server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
        timer = setInterval(() => {
            count += 1;
            server.sendResourceUpdated({ uri: params.uri }).catch(() => {});
        }, 20);
        return {};
    });
    server.setRequestHandler(UnsubscribeRequestSchema, () => {
        clearInterval(timer);
        return {};
    });
    server.onclose = () => {
        clearInterval(timer);
        servers.delete(server);
    };
    servers.add(server);
    return server;
}

if (process.env.PORT === undefined) {
    await build().connect(new StdioServerTransport());
} else {
    const sessions = new Map();
    const listener = http.createServer(async (request, response) => {
        if (request.url === '/add') {
            added.push({ uri: `count://more/${added.length}`, name: 'more' });
            servers.forEach((server) => server.sendResourceListChanged().catch(() => {}));
            response.end();
            return;
        }
        const id = request.headers['mcp-session-id'];
        let transport = sessions.get(id);
        if (id && !transport) {
            response.writeHead(404).end();
            return;
        }
        if (!transport) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                enableJsonResponse: process.env.JSON === '1',
                onsessioninitialized: (session) => sessions.set(session, transport),
                onsessionclosed: (session) => sessions.delete(session),
            });
            await build().connect(transport);
        }
        await transport.handleRequest(request, response);
    });
    listener.listen(Number(process.env.PORT), '127.0.0.1', () => {
        console.error(`at http://127.0.0.1:${listener.address().port}/mcp`);
    });
    /* Forgets all sessions, like a restart. */
    process.on('SIGUSR2', () => {
        for (const transport of sessions.values()) {
            transport.close();
        }
        sessions.clear();
        console.error('forgot');
    });
    process.on('SIGTERM', () => process.exit(0));
}
