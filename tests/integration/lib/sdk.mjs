// SPDX-License-Identifier: MIT
//
// The official clients, connected over either transport: SDK 1.x for the legacy era, client 2.x pinned to 2026-07-28.
// Each keeps the raw received messages, because its own types drop unknown members.

import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as LegacySse } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as LegacyHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    Client as ModernClient,
    StreamableHTTPClientTransport as ModernHttp,
} from '@modelcontextprotocol/client';
import { StdioClientTransport as ModernStdio } from '@modelcontextprotocol/client/stdio';

import { SocketPeer } from '../../contract/transport/lines.mjs';
import { defer } from './cleanup.mjs';
import { BIN, EXAMPLES, Program, serve, serveExample } from './server.mjs';
import { Tree } from './tree.mjs';
import { Inbox, within } from './wait.mjs';

export const TRANSPORTS = ['http', 'stdio', 'unix'];
/** Also HTTP+SSE of 2024-11-05, which SDK 1.x still supports. */
export const LEGACY_TRANSPORTS = [...TRANSPORTS, 'sse'];

/** A transport for the official clients over a line-framed socket. */
class SocketWire {
    constructor(t, path) {
        this.open = () => SocketPeer.connect(t, { path });
    }

    async start() {
        this.peer = await this.open();
        this.#pump().catch(() => this.onclose?.());
    }

    async #pump() {
        for (;;) {
            const message = await this.peer.message(() => true, 'a message', 2 ** 31 - 1);
            this.onmessage?.(message);
        }
    }

    async send(message) {
        await this.peer.write(JSON.stringify(message));
    }

    async close() {
        this.peer.close();
    }
}

/** Our program, or an example, on a Unix socket. */
async function serveUnix(t, tree, example, args) {
    const path = tree.aside();
    const program = example
        ? new Program(t, `${EXAMPLES}/${example}`, ['--unix', path, ...args])
        : new Program(t, BIN, ['serve', '--unix', path, ...args, tree.path]);
    await program.lines.next((line) => line.includes(`unix:${path}`), 'the line with the path');
    program.path = path;
    return program;
}

/**
 * Start a server for `transport` and connect `client` to it; `http` and `stdio` make the client transport. `example`
 * names an example program to start instead of ours; `through` (a relay) may connect the two.
 */
async function connect(t, { transport, example, files, args = [], through, client, http, stdio }) {
    const tree = new Tree(t, files);
    let wire;
    let server;
    let proxy;
    if (transport === 'unix') {
        server = await serveUnix(t, tree, example, args);
        wire = new SocketWire(t, server.path);
    } else if (transport !== 'stdio') {
        server = await (example ? serveExample(t, example, args) : serve(t, { tree, args }));
        proxy = await through?.(t, server);
        wire = http(new URL((proxy ?? server).url));
    } else {
        wire = stdio({
            command: example ? `${EXAMPLES}/${example}` : BIN,
            args: example ? ['--stdio', ...args] : ['serve', '--stdio', ...args, tree.path],
            stderr: 'pipe',
        });
    }
    const received = new Inbox(`the ${transport} client`);
    const errors = [];
    client.onerror = (error) => errors.push(error);
    defer(t, () => client.close());
    await within(client.connect(wire), `the client to connect over ${transport}`);
    const deliver = wire.onmessage;
    wire.onmessage = (message, extra) => {
        received.push(message);
        deliver(message, extra);
    };
    return { client, wire, tree, server, proxy, received, errors };
}

/** SDK 1.x: initialize at 2025-11-25. */
export function legacyClient(t, transport, options = {}) {
    return connect(t, {
        transport,
        ...options,
        args: [...(options.args ?? []), ...(transport === 'sse' ? ['--legacy-sse'] : [])],
        client: new LegacyClient(
            { name: 'integration-test', version: '1' },
            { capabilities: options.capabilities ?? {} },
        ),
        http: (url) =>
            transport === 'sse'
                ? new LegacySse(new URL('/sse', url))
                : new LegacyHttp(url, options.wire),
        stdio: (parameters) => new LegacyStdio(parameters),
    });
}

/** Client 2.x: only 2026-07-28. */
export function modernClient(t, transport, options = {}) {
    const negotiation = { versionNegotiation: { mode: options.mode ?? { pin: '2026-07-28' } } };
    return connect(t, {
        transport,
        ...options,
        client: new ModernClient(
            { name: 'integration-test', version: '1' },
            { ...negotiation, capabilities: options.capabilities ?? {} },
        ),
        http: (url) => new ModernHttp(url),
        stdio: (parameters) => new ModernStdio(parameters),
    });
}
