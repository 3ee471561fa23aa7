// SPDX-License-Identifier: MIT
//
// The HTTP+SSE adapter (2024-11-05): a stream to read from and an endpoint for POST.

import assert from 'node:assert/strict';

import { defer } from '../../integration/lib/cleanup.mjs';
import { Connection, encodeRequest, request } from '../../integration/lib/http.mjs';
import { serve } from '../../integration/lib/server.mjs';
import { MessagePeer } from './peer.mjs';

class SsePeer extends MessagePeer {
    static async connect(t, server) {
        const peer = new SsePeer();
        const headers = { Accept: 'text/event-stream' };
        const { events } = await request(server, { method: 'GET', path: '/sse', headers });
        defer(t, () => events.close());
        const first = await events.next((item) => item.event === 'endpoint', 'the endpoint');
        peer.server = server;
        peer.events = events;
        peer.path = first.data;
        peer.#pump();
        return peer;
    }

    get ended() {
        return this.inbox.over;
    }

    async #pump() {
        try {
            for (;;) {
                this.inbox.push(await this.events.message(() => true, 'a message', 2 ** 31 - 1));
            }
        } catch (error) {
            this.inbox.end(error.message);
        }
    }

    #encode(text) {
        const headers = { 'Content-Type': 'application/json' };
        return encodeRequest(this.server.port, { path: this.path, headers, body: text });
    }

    async write(text) {
        await this.writeAll([text]);
    }

    /** On one connection, to keep this order. */
    async writeAll(texts) {
        const connection = await Connection.open(this.server);
        await connection.send(Buffer.concat(texts.map((text) => this.#encode(text))));
        for (const _ of texts) {
            const response = await connection.readResponse();
            assert.equal(response.status, 202, response.text);
        }
        connection.close();
    }

    /** Oversized messages are refused in the POST. */
    async refused(text) {
        const connection = await Connection.open(this.server);
        await connection.send(this.#encode(text));
        const response = await connection.readResponse();
        connection.close();
        if (response.status !== 202) {
            return { text: response.text };
        }
        const { error } = await this.message((m) => m.error && !m.id, 'a refusal');
        return { text: error.message, code: error.code };
    }

    vanish() {
        this.events.connection.reset();
    }

    async flood(era, requests) {
        this.events.connection.socket.pause();
        const texts = requests.map(([method, params], i) => this.encode(era, method, params, i));
        const connection = await Connection.open(this.server);
        await connection.send(Buffer.concat(texts.map((text) => this.#encode(text))));
        connection.close();
    }
}

export const sse = {
    name: 'sse',
    cannot: { 'end its input first': 'it comes in requests of its own' },
    serve: (t, options = {}) =>
        serve(t, { ...options, args: ['--legacy-sse', ...(options.args ?? [])] }),
    connect: (t, server) => SsePeer.connect(t, server),
};
