// SPDX-License-Identifier: MIT
//
// One interface to watch resources in either era, so that a test of file changes runs in both.

import assert from 'node:assert/strict';

import { key, listChanged, listen, Session, updates } from './rpc.mjs';

export const ERAS = ['legacy', 'modern'];

export class Watcher {
    /** Subscribe to `uris` and to list changes. In the legacy era list changes arrive without a request. */
    static async open(era, server, uris) {
        const watcher = new Watcher();
        watcher.era = era;
        if (era === 'modern') {
            const filter = { resourcesListChanged: true, resourceSubscriptions: uris };
            const { id, ack, events } = await listen(server, filter);
            const honoured = ack.notifications.resourceSubscriptions ?? [];
            assert.deepEqual([...honoured].sort(), [...uris].sort(), JSON.stringify(ack));
            watcher.id = id;
            watcher.events = events;
        } else {
            watcher.session = await Session.open(server);
            watcher.events = await watcher.session.stream();
            for (const uri of uris) {
                await watcher.session.subscribe(uri);
            }
        }
        return watcher;
    }

    /** Wait for an update of `uri`, made for subscription `subscribed`. */
    async updated(uri, subscribed = undefined) {
        const match = (m) =>
            updates(uri)(m) && (subscribed === undefined || m.params.subscribedUri === subscribed);
        const message = await this.events.message(match, `an update of ${uri}`);
        this.#check(message);
        return message.params;
    }

    async listChanged() {
        this.#check(await this.events.message(listChanged, 'list_changed'));
    }

    /** Wait for a message that matches. */
    any(match, what) {
        return this.events.message(match, what);
    }

    /** The URIs of all updates seen so far, in order. */
    get uris() {
        return this.events.messages
            .filter((m) => m.method === 'notifications/resources/updated')
            .map((m) => m.params.uri);
    }

    /** The required members of every notification. */
    #check(message) {
        if (this.era === 'modern') {
            assert.equal(message.params._meta[key.subscription], this.id, JSON.stringify(message));
        }
        if (message.method === 'notifications/resources/updated') {
            const text = JSON.stringify(message);
            assert.equal(typeof message.params.subscribedUri, 'string', text);
            assert.equal(
                message.params._meta?.[key.subscribed],
                message.params.subscribedUri,
                text,
            );
        }
    }

    close() {
        this.events.close();
    }
}
