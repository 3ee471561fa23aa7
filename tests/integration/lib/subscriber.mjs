// SPDX-License-Identifier: MIT
//
// One interface to subscribe with options in either era and over either transport, so that a test of their meaning
// runs in all four combinations.

import { key, listen, meta, Session } from './rpc.mjs';
import { serve } from './server.mjs';
import { Pipe } from './stdio.mjs';
import { freshId } from './rpc.mjs';

export const OPTIONS = 'dev.tidings/options';
export const CURSOR = 'dev.tidings/cursor';

export const MODES = ['legacy', 'modern'].flatMap((era) =>
    ['http', 'stdio'].map((transport) => ({ era, transport, name: `${era} over ${transport}` })),
);

/** The members of `_meta` of an update, without our prefix. */
export const extras = (message) =>
    Object.fromEntries(
        Object.entries(message.params._meta)
            .filter(([name]) => name.startsWith('dev.tidings/'))
            .map(([name, value]) => [name.slice('dev.tidings/'.length), value]),
    );

export const seqOf = (cursor) => Number(cursor.split('.')[1]);

export const isUpdate = (message) => message.method === 'notifications/resources/updated';

/** Updates made for the subscription `subscribed`. */
export const updatesFor = (subscribed) => (message) =>
    isUpdate(message) && message.params.subscribedUri === subscribed;

export class Subscriber {
    /** Start a server with `files` and connect to it. */
    static async open(t, mode, { files, args } = {}) {
        const subscriber = new Subscriber();
        subscriber.mode = mode;
        if (mode.transport === 'http') {
            subscriber.server = await serve(t, { files, args });
            subscriber.tree = subscriber.server.tree;
        } else {
            subscriber.pipe = Pipe.open(t, { files, args });
            subscriber.tree = subscriber.pipe.tree;
        }
        if (mode.era === 'legacy') {
            await subscriber.#handshake();
        }
        return subscriber;
    }

    /** Another client of a running HTTP server. */
    static async join(server, era) {
        const subscriber = new Subscriber();
        subscriber.mode = { era, transport: 'http' };
        subscriber.server = server;
        subscriber.tree = server.tree;
        if (era === 'legacy') {
            await subscriber.#handshake();
        }
        return subscriber;
    }

    async #handshake() {
        if (this.pipe) {
            await this.pipe.handshake();
            return;
        }
        this.session = await Session.open(this.server);
        this.events = await this.session.stream();
    }

    uri(name) {
        return this.tree.uri(name);
    }

    /** Subscribe: { cursor, honoured: [uri…], refused: {uri: reason}, warned: [{uri, reason}…] }. */
    ask(uris, options = undefined) {
        return this.mode.era === 'legacy'
            ? this.#askLegacy(uris, options)
            : this.#askModern(uris, options);
    }

    async #askModern(uris, options) {
        const _meta = meta(options && { [OPTIONS]: options });
        const notifications = { resourceSubscriptions: uris };
        let ack;
        if (this.pipe) {
            const id = freshId();
            const params = { _meta, notifications };
            await this.pipe.write({ jsonrpc: '2.0', id, method: 'subscriptions/listen', params });
            const mine = (m) => m.params?._meta?.[key.subscription] === id;
            ack = (await this.pipe.message(mine, 'the acknowledgement')).params;
        } else {
            const listening = await listen(this.server, notifications, { params: { _meta } });
            this.events = listening.events;
            ack = listening.ack;
        }
        const refused = ack._meta[key.refused] ?? [];
        return {
            cursor: ack._meta[CURSOR],
            honoured: ack.notifications.resourceSubscriptions ?? [],
            refused: Object.fromEntries(refused.map(({ uri, reason }) => [uri, reason])),
            warned: ack._meta['dev.tidings/warnings'] ?? [],
        };
    }

    async #askLegacy(uris, options) {
        const result = { honoured: [], refused: {}, warned: [] };
        for (const uri of uris) {
            const { uris: each, ...all } = options ?? {};
            const own = { ...all, ...each?.[uri] };
            const params = { uri, ...(options && { _meta: { [OPTIONS]: own } }) };
            const answer = this.pipe
                ? await this.pipe.ask('resources/subscribe', params)
                : (await this.session.send('resources/subscribe', params)).json;
            if (answer.error) {
                result.refused[uri] = answer.error.message;
                result.code = answer.error.code;
            } else {
                result.honoured.push(uri);
                result.warned.push(...(answer.result._meta?.['dev.tidings/warnings'] ?? []));
                result.cursor = answer.result._meta?.[CURSOR];
            }
        }
        return result;
    }

    /** The next message that matches. */
    message(match, what, ms) {
        return this.pipe ? this.pipe.message(match, what, ms) : this.events.message(match, what, ms);
    }

    /** The next update for a subscription. */
    update(subscribed, what = `an update for ${subscribed}`) {
        return this.message(updatesFor(subscribed), what);
    }

    /** All messages so far. */
    get messages() {
        return this.pipe
            ? this.pipe.stdout.seen.map((line) => JSON.parse(line))
            : this.events.messages;
    }

    close() {
        this.events.close();
    }
}
