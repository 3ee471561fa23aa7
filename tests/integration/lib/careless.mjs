// SPDX-License-Identifier: MIT
//
// A misbehaving server on standard input and output. After a subscribe it sends updates of the requested URI and
// another one, and continues after unsubscribe. Legacy; with MODERN=1 modern. With PING=1 it sends no updates but
// pings the client occasionally. Its tool returns a result that violates its schema, with terminal control sequences
// in a member name.

import readline from 'node:readline';

const URI = 'careless://it';
const resources = { subscribe: true };
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

/** Send updates from now on; `_meta` is the modern way to name the subscription. */
function tellAll(_meta) {
    const tell = (what, params) => say({ method: `notifications/resources/${what}`, params: { ...params, _meta } });
    setInterval(() => {
        tell('updated', { uri: URI });
        tell('updated', { uri: 'careless://other' });
        tell('list_changed');
    }, 50);
}

const legacy = {
    initialize: () => ({
        protocolVersion: '2025-11-25',
        capabilities: { resources },
        serverInfo: { name: 'careless', version: '1' },
    }),
    'resources/subscribe': () => {
        if (process.env.PING) {
            setInterval(() => say({ id: 'are you there?', method: 'ping' }), 600);
        } else {
            tellAll();
        }
        return {};
    },
    'resources/unsubscribe': () => ({}),
};

const modern = {
    'server/discover': () => ({ resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: { resources } }),
    'subscriptions/listen': ({ notifications }, id) => {
        const _meta = { 'io.modelcontextprotocol/subscriptionId': id };
        say({ method: 'notifications/subscriptions/acknowledged', params: { notifications, _meta } });
        tellAll(_meta);
        return undefined; // not before it ends
    },
};

const answers = {
    ...(process.env.MODERN ? modern : legacy),
    'resources/list': () => ({ resultType: 'complete', resources: [{ uri: URI, name: 'it' }] }),
    'resources/read': () => ({ resultType: 'complete', contents: [] }),
    'tools/list': () => ({
        resultType: 'complete',
        tools: [{ name: 'give', inputSchema: { type: 'object' }, outputSchema: { type: 'object', additionalProperties: { type: 'number' } } }],
    }),
    'tools/call': () => ({
        resultType: 'complete',
        content: [{ type: 'text', text: 'given' }],
        structuredContent: { good: 1, '\x1b[31mbad\x07': 'text' },
    }),
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id !== undefined && method && !answers[method]) {
        say({ id, error: { code: -32601, message: 'what?' } });
    } else if (id !== undefined && method) {
        const result = answers[method](params, id);
        if (result) {
            say({ id, result });
        }
    }
}).on('close', () => process.exit(0));
