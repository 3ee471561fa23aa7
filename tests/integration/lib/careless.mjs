// SPDX-License-Identifier: MIT
//
// A legacy server on standard input and output that does what it must not: once somebody has
// subscribed to something, it tells of that and of something else, and goes on after unsubscribing.

import readline from 'node:readline';

const URI = 'careless://it';
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const updated = (uri) => say({ method: 'notifications/resources/updated', params: { uri } });

const answers = {
    initialize: () => ({
        protocolVersion: '2025-11-25',
        capabilities: { resources: { subscribe: true } },
        serverInfo: { name: 'careless', version: '1' },
    }),
    'resources/list': () => ({ resources: [{ uri: URI, name: 'it' }] }),
    'resources/read': () => ({ contents: [] }),
    'resources/subscribe': () => {
        setInterval(() => {
            updated(URI);
            updated('careless://other');
            say({ method: 'notifications/resources/list_changed' });
        }, 50);
        return {};
    },
    'resources/unsubscribe': () => ({}),
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (id !== undefined && answers[method]) {
        say({ id, result: answers[method]() });
    } else if (id !== undefined) {
        say({ id, error: { code: -32601, message: 'what?' } });
    }
}).on('close', () => process.exit(0));
