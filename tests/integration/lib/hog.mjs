// SPDX-License-Identifier: MIT
//
// One principal that sends random cheap requests and never cleans up: half requests, waiting calls, streams,
// sessions, subscriptions, unread answers. Its actions follow from its seed.

import net from 'node:net';

import { encodeRequest } from './http.mjs';
import { reset } from './reset.mjs';
import { freshId, initialize, meta, modernHeaders } from './rpc.mjs';
import { within } from './wait.mjs';

export const MOST_CONNECTIONS = 120;

const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
const SESSION = /^mcp-session-id: *(\S+)/im;

export class Hog {
    sockets = new Set();
    sessions = [];
    counts = {};
    isGone = false;

    /**
     * `who` is the server for the principal, `random` a result of randomOf (lib/fault-world.mjs), `uris` the URIs for
     * its requests.
     */
    constructor(who, random, uris) {
        Object.assign(this, { who, random, uris });
    }

    below(n) {
        return this.random.below(n);
    }

    pick(list) {
        return this.random.pick(list);
    }

    /** A connection, read or not (`deaf`); its first result may be the id of a session. */
    #open(bytes, { deaf = false, onHead } = {}) {
        if (this.sockets.size >= MOST_CONNECTIONS) {
            this.#leave();
        }
        const socket = net.connect({ host: '127.0.0.1', port: this.who.port });
        this.sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => this.sockets.delete(socket));
        if (deaf) {
            socket.pause();
        } else {
            let head = '';
            socket.on('data', (chunk) => {
                if (onHead && head.length < 4096) {
                    head += chunk.toString('latin1');
                    const found = SESSION.exec(head);
                    if (found && head.includes('\r\n\r\n')) {
                        onHead(found[1]);
                        onHead = undefined;
                    }
                }
            });
        }
        socket.write(bytes);
        return socket;
    }

    #leave() {
        const socket = this.pick([...this.sockets]);
        this.sockets.delete(socket);
        if (this.below(2)) {
            socket.destroy();
        } else {
            reset(socket);
        }
    }

    #encode(message, headers = {}, method = 'POST') {
        const body = message === undefined ? undefined : typeof message === 'string' ? message : JSON.stringify(message);
        return encodeRequest(this.who.port, { method, headers: { ...json, ...this.who.headers, ...headers }, body });
    }

    #modern(method, params = {}) {
        const message = { jsonrpc: '2.0', id: freshId(), method, params: { _meta: meta(), ...params } };
        return this.#encode(message, modernHeaders(method, params));
    }

    #wait(what) {
        this.#open(this.#modern('tools/call', { name: 'wait_for_change', arguments: { ...what, timeoutMs: 600000 } }));
    }

    #patterns() {
        return Array.from({ length: 1 + this.below(20) }, () => this.pick(this.uris));
    }

    #inSession(message, method = 'POST') {
        if (this.sessions.length === 0) {
            return;
        }
        const id = this.pick(this.sessions);
        const headers = { 'Mcp-Session-Id': id, 'MCP-Protocol-Version': '2025-11-25' };
        this.#open(this.#encode(message, headers, method), { deaf: this.below(4) === 0 });
    }

    actions = {
        connect: () => this.#open(''),
        leave: () => this.sockets.size > 0 && this.#leave(),
        halfHead: () => this.#open('POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: '.slice(0, 10 + this.below(36))),
        halfBody: () => {
            const bytes = this.#modern('resources/list', { cursor: 'x'.repeat(this.below(200_000)) });
            this.#open(bytes.subarray(0, 400 + this.below(bytes.length)));
        },
        listen: () =>
            this.#open(this.#modern('subscriptions/listen', { notifications: { resourceSubscriptions: this.#patterns() } }), {
                deaf: this.below(3) === 0,
            }),
        wait: () => this.#wait({ uris: [this.who.uri('*.none')] }), // never written: the call waits until cancelled
        waitForAny: () => this.#wait(),
        read: () => this.#open(this.#modern('resources/read', { uri: this.pick(this.uris) }), { deaf: this.below(2) === 0 }),
        list: () => this.#open(this.#modern(this.pick(['resources/list', 'tools/list', 'resources/templates/list']))),
        pipeline: () => this.#open(Buffer.concat(Array.from({ length: 30 }, () => this.#modern('server/discover'))), { deaf: true }),
        wrong: () => this.#open(this.#encode(this.pick(['{', '[]', '{"jsonrpc":"2.0","id":1}', '"x"', '[['.repeat(90)]))),
        stranger: () => this.#open(this.#encode(initialize(), { Authorization: `Bearer ${this.below(1e9)}` })),
        session: () => this.#open(this.#encode(initialize()), { onHead: (id) => this.sessions.push(id) }),
        subscribe: () =>
            this.#inSession({ jsonrpc: '2.0', id: freshId(), method: 'resources/subscribe', params: { uri: this.pick(this.uris) } }),
        stream: () => this.#inSession(undefined, 'GET'),
        end: () => this.below(4) === 0 && this.#inSession(undefined, 'DELETE'),
    };

    /** One named action, or a random one. */
    act(name = this.pick(Object.keys(this.actions))) {
        if (this.isGone) {
            throw new Error('the hog has gone away');
        }
        this.counts[name] = (this.counts[name] ?? 0) + 1;
        this.actions[name]();
    }

    /** Closes all its connections; its sessions stay. */
    async goAway() {
        this.isGone = true;
        const gone = [...this.sockets].map((socket) => new Promise((resolve) => socket.on('close', resolve)));
        this.sockets.forEach((socket) => socket.destroy());
        await within(Promise.all(gone), `${gone.length} connections of the hog to close`);
    }
}
