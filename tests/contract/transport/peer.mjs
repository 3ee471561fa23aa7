// SPDX-License-Identifier: MIT
//
// A peer with messages in both directions on one stream: the shared part of the pipe, line socket and WebSocket
// adapters. A subclass sends one message (`write(text)`), pushes received messages into `inbox` as parsed JSON, and
// detects the end of its stream.

import { freshId, initialize, key, LATEST_LEGACY, meta } from '../../integration/lib/rpc.mjs';
import { Inbox } from '../../integration/lib/wait.mjs';

export class MessagePeer {
    inbox = new Inbox('the stream');

    /** The next message that matches. */
    message(match, what, ms) {
        return this.inbox.next(match, what, ms);
    }

    /** The legacy handshake: the result of initialize. */
    async handshake(version = LATEST_LEGACY) {
        const hello = initialize(version);
        await this.write(JSON.stringify(hello));
        const answer = await this.message((m) => m.id === hello.id, 'the answer to initialize');
        await this.write(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }));
        return answer.result;
    }

    /** A request and its answer, error or not. `era` is legacy (after the handshake) or modern. */
    async ask(era, method, params = {}, id = freshId()) {
        await this.write(this.encode(era, method, params, id));
        return this.message((m) => m.id === id && !m.method, `the answer to ${method}`);
    }

    encode(era, method, params, id) {
        const all = era === 'modern' ? { _meta: meta(), ...params } : params;
        return JSON.stringify({ jsonrpc: '2.0', id, method, params: all });
    }

    /** Sends anything in place of a message; returns the error message and code. */
    async refused(text) {
        await this.write(text);
        const answer = await this.message((m) => m.error && !m.id, 'a refusal');
        return { text: answer.error.message, code: answer.error.code };
    }

    /** Opens a listen; returns its id and the parameters of its acknowledgement. */
    async listen(notifications, id = freshId()) {
        await this.write(this.encode('modern', 'subscriptions/listen', { notifications }, id));
        const mine = (m) =>
            m.method === 'notifications/subscriptions/acknowledged' &&
            m.params._meta[key.subscription] === id;
        const ack = await this.message(mine, 'the acknowledgement');
        return { id, ack: ack.params };
    }

    /** Cancels a listen; the server does not answer. */
    cancel(listening) {
        const params = { requestId: listening.id };
        return this.write(
            JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params }),
        );
    }

    /** The result with which the server ends a listen. */
    listenResult(listening) {
        return this.message((m) => m.id === listening.id && m.result, 'the result of the listen');
    }

    /** Sends all requests before reading an answer; returns the answers in order of arrival. */
    async pipeline(era, requests) {
        const ids = requests.map(() => freshId());
        const texts = requests.map(([method, params], i) =>
            this.encode(era, method, params, ids[i]),
        );
        await this.writeAll(texts);
        const answers = [];
        for (const _ of ids) {
            answers.push(await this.message((m) => ids.includes(m.id), 'an answer'));
        }
        return { ids, answers };
    }

    /** Sends several messages in as few writes as the framing allows. */
    async writeAll(texts) {
        await Promise.all(texts.map((text) => this.write(text)));
    }

    /** Received updates, consumed or not. */
    get updates() {
        return this.inbox.seen.filter((m) => m.method === 'notifications/resources/updated');
    }
}
