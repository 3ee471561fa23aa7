// SPDX-License-Identifier: MIT
//
// An official client of either era on a server with entities, and the calls of the tests.

import assert from 'node:assert/strict';

import { legacyClient, modernClient } from './sdk.mjs';
import { isUpdate, OPTIONS } from './subscriber.mjs';

export const jsonSchema = {
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'integer', minimum: 0 } },
    required: ['name'],
    additionalProperties: false,
};

export const isAcknowledgement = (m) => m.method === 'notifications/subscriptions/acknowledged';

/** A client with the calls of the tests. */
export class Keeper {
    static async open(t, era, ...args) {
        const keeper = new Keeper();
        const open = era === 'legacy' ? legacyClient : modernClient;
        Object.assign(keeper, { era }, await open(t, 'http', { args }));
        return keeper;
    }

    call(name, args) {
        return this.client.callTool({ name, arguments: args });
    }

    /** The result of a successful call. */
    async done(name, args) {
        const result = await this.call(name, args);
        assert.ok(!result.isError, JSON.stringify(result));
        assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
        return result.structuredContent;
    }

    /** The reason of a failed call. */
    async refused(name, args) {
        const result = await this.call(name, args);
        assert.equal(result.isError, true, JSON.stringify(result));
        return JSON.parse(result.content[0].text);
    }

    async addType(version = '1.0') {
        await this.done('add-entity-type', { name: 'User', version, jsonSchema });
    }

    async read(uri) {
        const { contents } = await this.client.readResource({ uri });
        assert.equal(contents[0].mimeType, 'application/json');
        return JSON.parse(contents[0].text);
    }

    /**
     * Subscribe with options, each URI with its own baseline (`uris`: from URI to baseline). Options without a client
     * parameter are added on the wire.
     */
    async subscribeWith(options, uris) {
        const refused = {};
        if (this.era === 'modern') {
            const each = Object.entries(uris).map(([uri, baseline]) => [uri, baseline && { baseline }]);
            const own = Object.fromEntries(each.filter(([, value]) => value));
            const send = this.wire.send;
            this.wire.send = (message, ...rest) => {
                if (message.method === 'subscriptions/listen') {
                    message.params._meta[OPTIONS] = { ...options, uris: own };
                    this.wire.send = send;
                }
                return send.call(this.wire, message, ...rest);
            };
            await this.subscribe(...Object.keys(uris));
            const { params } = await this.received.next(isAcknowledgement, 'the acknowledgement');
            for (const { uri, reason } of params._meta['dev.tidings/refused'] ?? []) {
                refused[uri] = reason;
            }
            return refused;
        }
        for (const [uri, baseline] of Object.entries(uris)) {
            const params = { uri, _meta: { [OPTIONS]: options }, ...(baseline && { baseline }) };
            await this.client.subscribeResource(params).catch((error) => {
                assert.ok([-32602, -32002].includes(error.code), error.message);
                refused[uri] = error.message;
            });
        }
        return refused;
    }

    /** Subscribe; resolves when the server accepts. */
    async subscribe(...uris) {
        if (this.era === 'modern') {
            return this.client.listen({ resourceSubscriptions: uris });
        }
        for (const uri of uris) {
            await this.client.subscribeResource({ uri });
        }
    }

    update(uri, what) {
        return this.received.next((m) => isUpdate(m) && m.params.subscribedUri === uri, what);
    }
}
