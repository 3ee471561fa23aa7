// SPDX-License-Identifier: MIT
//
// A legacy server on standard input and output without our extensions. It accepts every subscription, reads as TEXT
// (or all of CONTENTS, a JSON array), and sends one update of URIS (a JSON array; default: the subscribed URI).

import readline from 'node:readline';

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const { TEXT = 'text', CONTENTS, URIS } = process.env;

const answers = {
    initialize: () => ({
        protocolVersion: '2025-11-25',
        capabilities: { resources: { subscribe: true } },
        serverInfo: { name: 'plain stranger', version: '1' },
    }),
    'resources/subscribe': () => ({}),
    'resources/unsubscribe': () => ({}),
    'resources/list': () => ({ resources: [{ uri: 'plain://it', name: 'it' }] }),
    'resources/read': ({ uri }) => ({ contents: CONTENTS ? JSON.parse(CONTENTS) : [{ uri, text: TEXT }] }),
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) {
        return;
    }
    if (!answers[method]) {
        say({ id, error: { code: -32601, message: 'what?' } });
        return;
    }
    say({ id, result: answers[method](params) });
    if (method === 'resources/subscribe') {
        const uris = URIS ? JSON.parse(URIS) : [params.uri];
        uris.forEach((uri) => say({ method: 'notifications/resources/updated', params: { uri, subscribedUri: params.uri } }));
    }
}).on('close', () => process.exit(0));
