// SPDX-License-Identifier: MIT
//
// A server on the official TypeScript SDK, version 1, or 2 with SDK=2, or on FastMCP with SDK=FastMCP, with valid but
// odd JSON: lone surrogates and integers beyond 64 bits as written by Node, nesting of any depth, and duplicate keys
// as written by string concatenation. Each tool is named after its answer. The resource odd://it changes every 20 ms,
// and its text has a lone surrogate; among its first updates every other one is nested too deeply for the client. On
// standard input and output, or over HTTP when PORT is set.

import { randomUUID } from 'node:crypto';
import http from 'node:http';

const URI = 'odd://it';
const nested = (levels) => `${'['.repeat(levels)}1${']'.repeat(levels)}`;
const plain = JSON.stringify;
let updates = 0;

/** Replaces JSON.stringify in the SDK, to write JSON that it cannot produce. */
JSON.stringify = (...args) => {
    let text = plain(...args);
    if (typeof text !== 'string') {
        return text;
    }
    text = text.replace(/"@nested (\d+)"/g, (_, levels) => nested(Number(levels))).replaceAll('"@again":', '"n":');
    if (text.includes('"notifications/resources/updated"') && (updates += 1) % 2 === 1 && updates < 20) {
        text = text.replace('"uri":', `"odd":${nested(600)},"uri":`);
    }
    return text;
};

const answers = {
    half: { text: 'a\ud83dz' },
    big: { n: 2 ** 64 },
    deep: { levels: '@nested 100' },
    twice: { n: 1, '@again': 2 },
    'too-deep': { levels: '@nested 600' },
};
const tools = Object.keys(answers).map((name) => ({ name, inputSchema: { type: 'object' } }));
const content = { uri: URI, text: 'a\ud83dz' };
const call = (name) => ({ content: [{ type: 'text', text: name }], structuredContent: answers[name] });
const capabilities = { resources: { subscribe: true }, tools: {} };
const about = { name: 'odd', version: '1' };

async function version1() {
    const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
    const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
    const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    const build = () => {
        const server = new Server(about, { capabilities });
        server.setRequestHandler(types.ListToolsRequestSchema, () => ({ tools }));
        server.setRequestHandler(types.CallToolRequestSchema, ({ params }) => call(params.name));
        server.setRequestHandler(types.ReadResourceRequestSchema, () => ({ contents: [content] }));
        server.setRequestHandler(types.SubscribeRequestSchema, () => {
            const timer = setInterval(() => server.sendResourceUpdated({ uri: URI }).catch(() => {}), 20);
            server.onclose = () => clearInterval(timer);
            return {};
        });
        return server;
    };
    if (process.env.PORT === undefined) {
        await build().connect(new StdioServerTransport());
        return undefined;
    }
    const sessions = new Map();
    return async (request, response) => {
        let transport = sessions.get(request.headers['mcp-session-id']);
        if (!transport) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: (session) => sessions.set(session, transport),
            });
            await build().connect(transport);
        }
        await transport.handleRequest(request, response);
    };
}

async function version2() {
    const { toNodeHandler } = await import('@modelcontextprotocol/node');
    const { createMcpHandler, McpServer } = await import('@modelcontextprotocol/server');
    const { serveStdio } = await import('@modelcontextprotocol/server/stdio');
    const build = () => {
        const server = new McpServer(about, { capabilities });
        server.registerResource('it', URI, {}, () => ({ contents: [content] }));
        for (const { name } of tools) {
            server.registerTool(name, {}, () => call(name));
        }
        return server;
    };
    if (process.env.PORT === undefined) {
        serveStdio(() => {
            const server = build();
            const timer = setInterval(() => server.server.sendResourceUpdated({ uri: URI }).catch(() => {}), 20);
            server.server.onclose = () => clearInterval(timer);
            return server;
        });
        return undefined;
    }
    const handler = createMcpHandler(build);
    setInterval(() => handler.notify.resourceUpdated(URI), 20);
    return toNodeHandler(handler);
}

/** It has its own listener, on a port chosen in advance. */
async function fastMcp() {
    const { FastMCP } = await import('fastmcp');
    const quiet = () => {};
    const logger = { debug: quiet, error: console.error, info: quiet, log: quiet, warn: quiet };
    const server = new FastMCP({ ...about, version: '1.0.0', logger });
    server.addResource({ ...content, name: 'it', load: async () => ({ text: content.text }) });
    for (const { name } of tools) {
        server.addTool({ name, execute: async () => call(name) });
    }
    setInterval(() => server.sendResourceUpdated(URI), 20).unref();
    if (process.env.PORT === undefined) {
        await server.start({ transportType: 'stdio' });
        return;
    }
    const { port } = await new Promise((resolve) => {
        const free = http.createServer().listen(0, '127.0.0.1', () => {
            const found = free.address();
            free.close(() => resolve(found));
        });
    });
    await server.start({ transportType: 'httpStream', httpStream: { host: '127.0.0.1', port } });
    console.error(`at http://127.0.0.1:${port}/mcp`);
}

const servers = { 1: version1, 2: version2, FastMCP: fastMcp };
const listener = await servers[process.env.SDK]();
if (listener) {
    const server = http.createServer(listener).listen(Number(process.env.PORT), '127.0.0.1', () => {
        console.error(`at http://127.0.0.1:${server.address().port}/mcp`);
    });
    process.on('SIGTERM', () => process.exit(0));
}
