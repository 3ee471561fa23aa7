// SPDX-License-Identifier: MIT
//
// A modern server over HTTP with one resource, a tool that changes it and one that changes the list, and one fault:
//
//     none        no fault
//     unfiltered  all clients receive all updates
//     early       an update precedes the acknowledgement
//     misnamed    the acknowledgement names another subscription
//     astray      updates name another subscription …
//     anonymous   … or none
//     silent      no updates are sent
//     cutting     streams are cut before their end, as by a proxy …
//     resetting   … or reset
//     ending      … or ended cleanly
//     gateway     streams are answered with 504, as by a proxy
//     undeclared  resources.subscribe is not declared, and listens are not supported (no fault)
//     unserved    … it is declared but not supported
//     sloppy      errors are HTTP 200 with a nonstandard code

import http from 'node:http';

import { defer } from './cleanup.mjs';
import { reset } from './reset.mjs';

const VERSION = '2026-07-28';
const URI = 'faulty://it';
const OTHER = 'faulty://other';
const MINE = 'io.modelcontextprotocol/subscriptionId';
const LIFE = 700; // lifetime in ms of a cut stream

class Fault extends Error {
    constructor(status, code) {
        super('no');
        Object.assign(this, { status, code });
    }
}

/** The address of such a server, which runs until the test ends. */
export async function faulty(t, fault) {
    const streams = new Set();
    const added = [];
    let count = 0;

    const put = (stream, message) => stream.res.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
    const tell = (stream, method, params = {}) => {
        const id = fault === 'astray' ? 'somebody else' : stream.id;
        const _meta = fault === 'anonymous' ? undefined : { [MINE]: id };
        put(stream, { method: `notifications/resources/${method}`, params: { ...params, _meta } });
    };
    const tellAll = (wants, method, params) => {
        const all = fault === 'silent' ? [] : [...streams];
        all.filter((stream) => fault === 'unfiltered' || wants(stream)).forEach((stream) => tell(stream, method, params));
    };

    const tools = {
        change: () => {
            count += 1;
            tellAll(({ uris }) => uris.includes(URI), 'updated', { uri: URI });
            tellAll(({ uris }) => uris.includes(OTHER), 'updated', { uri: OTHER });
        },
        add: () => {
            added.push({ uri: `faulty://more/${added.length}`, name: 'more' });
            tellAll(({ lists }) => lists, 'list_changed');
        },
    };

    const methods = {
        'server/discover': () => ({
            supportedVersions: [VERSION],
            capabilities: { resources: { subscribe: fault !== 'undeclared' || undefined, listChanged: true }, tools: {} },
            _meta: { 'io.modelcontextprotocol/serverInfo': { name: `faulty (${fault})`, version: '1' } },
        }),
        'resources/list': ({ cursor }) => {
            if (cursor !== undefined) {
                throw new Fault(200, -32602);
            }
            return { resources: [{ uri: URI, name: 'it' }, ...added] };
        },
        'resources/read': ({ uri }) => {
            if (uri !== URI) {
                throw new Fault(200, -32602);
            }
            return { contents: [{ uri, text: `${count}` }] };
        },
        'tools/list': () => ({ tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' } })) }),
        'tools/call': ({ name }) => {
            tools[name]();
            return { content: [] };
        },
    };

    const listen = (req, res, { id, params: { notifications: wanted } }) => {
        if (fault === 'gateway') {
            res.writeHead(504).end('upstream timed out');
            return;
        }
        const stream = { id, res, uris: wanted.resourceSubscriptions ?? [], lists: wanted.resourcesListChanged };
        res.writeHead(200, { 'content-type': 'text/event-stream' });
        if (fault === 'early' && stream.uris.length > 0) {
            tell(stream, 'updated', { uri: URI });
        }
        put(stream, {
            method: 'notifications/subscriptions/acknowledged',
            params: { notifications: wanted, _meta: { [MINE]: fault === 'misnamed' ? 4711 : id } },
        });
        streams.add(stream);
        res.on('close', () => streams.delete(stream));
        const ends = {
            cutting: () => res.socket?.destroy(),
            resetting: () => res.socket && reset(res.socket),
            ending: () => res.end(),
        };
        if (ends[fault]) {
            setTimeout(ends[fault], LIFE).unref();
        }
    };

    const check = (req, message) => {
        const version = message.params?._meta?.['io.modelcontextprotocol/protocolVersion'];
        if (req.headers.origin) {
            throw new Fault(403, -32600);
        }
        if (req.headers['mcp-method'] !== message.method || req.headers['mcp-protocol-version'] !== version) {
            throw new Fault(400, -32020);
        }
        if (version !== VERSION) {
            throw new Fault(400, -32022);
        }
        const isServed = message.method === 'subscriptions/listen' && !['undeclared', 'unserved'].includes(fault);
        if (!methods[message.method] && !isServed) {
            throw new Fault(404, -32601);
        }
    };

    const answer = (req, res, text) => {
        let message = { id: null };
        try {
            try {
                message = JSON.parse(text);
            } catch {
                throw new Fault(400, -32700);
            }
            check(req, message);
            if (message.method === 'subscriptions/listen') {
                listen(req, res, message);
                return;
            }
            const result = { resultType: 'complete', ...methods[message.method](message.params) };
            res.writeHead(200, { 'content-type': 'application/json' });
            res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
        } catch (error) {
            const { status, code } = fault === 'sloppy' ? { status: 200, code: -32000 } : error;
            res.writeHead(status, { 'content-type': 'application/json' });
            res.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, error: { code, message: 'no' } }));
        }
    };

    const server = http.createServer((req, res) => {
        let text = '';
        req.on('data', (piece) => { text += piece; });
        req.on('end', () => answer(req, res, text));
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return `http://127.0.0.1:${server.address().port}/mcp`;
}
