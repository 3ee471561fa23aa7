// SPDX-License-Identifier: MIT
//
// A server that asks its client: SDK=1 on the official TypeScript SDK 1.x (legacy era: requests), SDK=FastMCP on
// FastMCP (launched only; its lists and subscriptions ask nothing), otherwise on 2.x (modern: `input_required`;
// legacy clients receive requests). On standard input and output, or over HTTP when PORT is set. Tools: form, visit,
// roots, and evil, whose form is full of terminal control sequences. The resource ask://NAME asks like the tool and
// contains the answer. Legacy: lists (of resources, with the answer as the name of one), completions and
// subscriptions ask for roots, and the watched resource changes after the answer. EAGER (SDK=1): the server asks for
// roots at the start, and the tool known returns them.

import { randomUUID } from 'node:crypto';
import http from 'node:http';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, inputRequired, McpServer, fromJsonSchema } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

const form = (message, properties, required = []) => ({ message, requestedSchema: { type: 'object', properties, required } });
const QUESTIONS = {
    form: form('Who are you?', {
        name: { type: 'string', title: 'Your name', description: 'As on your passport' },
        age: { type: 'integer', minimum: 0, maximum: 150, default: 30 },
        colour: { type: 'string', title: 'Colour', oneOf: [{ const: 'r', title: 'Red' }, { const: 'g', title: 'Green' }] },
        news: { type: 'boolean', title: 'Newsletter?' },
    }, ['name']),
    evil: form('\u001b]0;owned\u0007\u001b[2Jred \u202eevil\nfake line', {
        a: { type: 'string', title: '\u001b[31mtitle', description: 'two\r\nlines', default: '\u001b[5m' },
    }),
};
const VISIT = { message: 'Pay here', url: 'https://user@pay.example:8443/now?n=1' };
const text = (value) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] });

/* ---- SDK 1.x --------------------------------------------------------------------------------- */

function build1() {
    const capabilities = { tools: {}, resources: { subscribe: true }, completions: {}, prompts: {} };
    const server = new Server({ name: 'asker', version: '1' }, { capabilities });
    const on = (name, handler) => server.setRequestHandler(types[`${name}RequestSchema`], handler);
    const ask = (name, extra) => {
        // FAR: on the stream of the session, not of the call.
        const send = process.env.FAR ? (...words) => server.request(...words) : (...words) => extra.sendRequest(...words);
        const asked = name === 'roots' ? { method: 'roots/list' }
            : { method: 'elicitation/create', params: QUESTIONS[name] ?? { mode: 'url', elicitationId: 'e1', ...VISIT } };
        return send(asked, name === 'roots' ? types.ListRootsResultSchema : types.ElicitResultSchema);
    };
    let known = null;
    server.oninitialized = process.env.EAGER && (async () => {
        known = (await server.listRoots()).roots;
    });
    const firstRoot = async (extra) => (await ask('roots', extra)).roots[0].uri;
    on('ListTools', () => ({
        tools: ['form', 'visit', 'roots', 'evil'].map((name) => ({ name, inputSchema: { type: 'object' } })),
    }));
    on('CallTool', async ({ params }, extra) => text(params.name === 'known' ? known : await ask(params.name, extra)));
    on('ReadResource', async ({ params: { uri } }, extra) => (
        { contents: [{ uri, text: JSON.stringify(await ask(uri.slice('ask://'.length), extra)) }] }));
    on('ListResources', async (_, extra) => ({ resources: [{ uri: 'ask://form', name: await firstRoot(extra) }] }));
    on('Complete', async (_, extra) => ({ completion: { values: [await firstRoot(extra)] } }));
    on('Subscribe', async ({ params: { uri } }, extra) => {
        await firstRoot(extra);
        setImmediate(() => server.sendResourceUpdated({ uri }));
        return {};
    });
    return server;
}

/* ---- SDK 2.x --------------------------------------------------------------------------------- */

function build2() {
    const server = new McpServer({ name: 'asker', version: '2' });
    for (const name of ['form', 'visit', 'roots', 'evil']) {
        const ask = (ctx, told) => {
            const answer = ctx.mcpReq.inputResponses?.it;
            const it = name === 'roots' ? inputRequired.listRoots()
                : name === 'visit' ? inputRequired.elicitUrl(VISIT)
                : inputRequired.elicit(QUESTIONS[name]);
            return answer ? told(answer) : inputRequired({ inputRequests: { it } });
        };
        server.registerTool(name, { inputSchema: fromJsonSchema({ type: 'object' }) }, (_, ctx) => ask(ctx, text));
        server.registerResource(name, `ask://${name}`, {}, (uri, ctx) => ask(ctx, (answer) => (
            { contents: [{ uri: uri.href, text: JSON.stringify(answer) }] })));
    }
    return server;
}

/* ---- FastMCP --------------------------------------------------------------------------------- */

async function startFastMcp() {
    const { FastMCP } = await import('fastmcp');
    const server = new FastMCP({ name: 'asker', version: '1.0.0' });
    const ask = async (name, { elicit, session }) => JSON.stringify(name === 'roots' ? { roots: session.roots }
        : await elicit(QUESTIONS[name] ?? { mode: 'url', elicitationId: 'e1', ...VISIT }));
    for (const name of ['form', 'visit', 'evil']) {
        server.addTool({ name, execute: (_, context) => ask(name, context) });
        server.addResource({ uri: `ask://${name}`, name, load: async (_, context) => ({ text: await ask(name, context) }) });
    }
    // It asks for roots automatically after the connection.
    const roots = new Promise((resolve) => server.on('connect', ({ session }) => resolve(session)));
    server.addResource({ uri: 'ask://roots', name: 'roots', load: async () => ({ text: await ask('roots', { session: await roots }) }) });
    await server.start({ transportType: 'stdio' });
}

/* ---- serving --------------------------------------------------------------------------------- */

const is1 = process.env.SDK === '1';
const sessions = new Map();

async function handle1(request, response) {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport) {
        transport = new StreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (session) => sessions.set(session, transport),
        });
        await build1().connect(transport);
    }
    await transport.handleRequest(request, response);
}

if (process.env.PORT === undefined) {
    if (process.env.SDK === 'FastMCP') {
        await startFastMcp();
    } else if (is1) {
        await build1().connect(new StdioServerTransport());
    } else {
        serveStdio(build2);
    }
} else {
    const listener = http.createServer(is1 ? handle1 : toNodeHandler(createMcpHandler(build2)));
    listener.listen(Number(process.env.PORT), '127.0.0.1', () => console.error(`at http://127.0.0.1:${listener.address().port}/mcp`));
    process.on('SIGTERM', () => process.exit(0));
}
