// SPDX-License-Identifier: MIT
//
// Watchers of a server whose system calls fail (lib/fault-world.mjs): clients of both eras that subscribe, read
// changed resources, and reconnect after a cut with or without a cursor; and their requests.

import { Connection } from './http.mjs';
import { freshId, initialize, LATEST_LEGACY, meta, modernHeaders } from './rpc.mjs';
import { slow } from './wait.mjs';

const OPTIONS = 'dev.tidings/options';
const CURSOR = 'dev.tidings/cursor';
const JSON_HEADERS = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
export const TYPE = 'entity:///Note@1/';
export const PUBLISHED = 'published:///';

/** The timeouts without failures and during failures. */
export const SETTLED = 15_000 * slow;
export const HURRIED = 1_500 * slow;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** One exchange on its own connection, which is closed unless it becomes a stream. */
export async function exchange(server, options, ms) {
    let connection;
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error('no answer in time')), ms);
    });
    const ask = async () => {
        connection = await Connection.open(server);
        return connection.request(options);
    };
    const asked = ask();
    try {
        const response = await Promise.race([asked, late]);
        if (!response.events) {
            connection.close();
        }
        return response;
    } catch (error) {
        connection?.close();
        asked.then(() => connection.close(), () => {});
        throw error;
    } finally {
        clearTimeout(timer);
    }
}

const post = (server, message, headers, ms) =>
    exchange(server, { headers: { ...JSON_HEADERS, ...headers }, body: JSON.stringify(message) }, ms);

export function modern(server, method, params, ms) {
    const message = { jsonrpc: '2.0', id: freshId(), method, params: { _meta: meta(), ...params } };
    return post(server, message, modernHeaders(method, params), ms);
}

/** A client that records its belief about everything its subscriptions cover. */
export class Watcher {
    believed = new Map(); // by URI: the value read after the last update
    doubts = new Set(); // URIs to read
    state = 'away';
    history = []; // the last received messages

    constructor(world, number) {
        const { random } = world;
        this.world = world;
        this.name = `watcher ${number}`;
        this.era = random.pick(['legacy', 'modern']);
        this.returns = random.pick(['since', 'since', 'anew']); // how it reconnects
        this.include = random.pick(['none', 'none', 'value']);
        const wishes = [
            () => [TYPE, PUBLISHED, world.tree.uri('')],
            () => world.resources.filter((_, at) => at % 2 === number % 2).map((r) => r.uri),
            () => [TYPE, `${PUBLISHED}**`, `${world.tree.uri('')}**`],
        ];
        this.uris = random.pick(wishes)();
        this.held = []; // subscribed URIs: absent ones are rejected, so the client knows them
    }

    covers(resource) {
        return this.held.some((uri) =>
            uri === resource.uri || (/[/*]$/.test(uri) && resource.uri.startsWith(uri.replace(/\*+$/, ''))));
    }

    get covered() {
        return this.world.resources.filter((resource) => this.covers(resource));
    }

    /** Watch until the world ends. */
    async run() {
        const reading = this.#keepReading();
        while (!this.world.isOver) {
            try {
                await (this.era === 'modern' ? this.#listen() : this.#session());
            } catch (error) {
                this.why = error.message;
            }
            this.state = 'away';
            this.events?.close();
            this.events = undefined;
            if (this.returns === 'anew') {
                this.cursor = undefined;
            }
            await pause(10);
        }
        await reading;
    }

    stop() {
        this.events?.close();
    }

    get options() {
        return {
            windowMs: 0,
            initial: false,
            include: this.include,
            ...(this.cursor && { since: this.cursor }),
        };
    }

    /** For the diagnosis of a failure. */
    #note(what) {
        this.history.push(what);
        this.history.splice(0, this.history.length - 60);
    }

    /** Subscribed: from here on the server delivers every change. */
    #subscribed(cursor, held) {
        this.#note(`subscribed since ${this.cursor} at ${cursor}`);
        const before = new Set(this.cursor ? this.covered : []);
        this.held = held;
        // The client must read everything that it did not watch before.
        this.covered.filter((r) => !before.has(r)).forEach((r) => this.doubts.add(r.uri));
        this.cursor ??= cursor;
        this.state = 'here';
    }

    async #listen() {
        const id = freshId();
        const params = {
            _meta: meta({ [OPTIONS]: this.options }),
            notifications: { resourceSubscriptions: this.uris },
        };
        const message = { jsonrpc: '2.0', id, method: 'subscriptions/listen', params };
        const response = await post(this.world.server, message, modernHeaders(message.method), HURRIED);
        if (!response.events) {
            throw new Error(`listen: ${response.status} ${response.text}`);
        }
        this.events = response.events;
        const ack = await this.#next(SETTLED, 'the acknowledgement of an open stream');
        if (ack.method !== 'notifications/subscriptions/acknowledged') {
            throw new Error(`listen: ${JSON.stringify(ack)}`);
        }
        const { resourceSubscriptions: honoured = [] } = ack.params.notifications;
        this.#subscribed(ack.params._meta[CURSOR], honoured);
        await this.#hear();
    }

    async #session() {
        const { server } = this.world;
        const opened = await post(server, initialize(LATEST_LEGACY), {}, HURRIED);
        const id = opened.headers.get('mcp-session-id');
        if (!id) {
            throw new Error(`initialize: ${opened.status} ${opened.text}`);
        }
        const headers = { 'Mcp-Session-Id': id, 'MCP-Protocol-Version': LATEST_LEGACY };
        await post(server, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers, HURRIED);
        let cursor;
        const held = [];
        for (const uri of this.uris) {
            const params = { uri, _meta: { [OPTIONS]: this.options } };
            const message = { jsonrpc: '2.0', id: freshId(), method: 'resources/subscribe', params };
            const { json } = await post(server, message, headers, HURRIED);
            if (json?.result) {
                held.push(uri);
                cursor ??= json.result._meta[CURSOR];
            }
        }
        // A stream that exists before the last subscribe would deliver changes of the first subscription in messages
        // whose cursors do not cover the others.
        const get = { method: 'GET', headers: { Accept: 'text/event-stream', ...headers } };
        this.events = (await exchange(server, get, HURRIED)).events;
        if (!this.events) {
            throw new Error('GET gave no stream');
        }
        this.#subscribed(cursor, held);
        await this.#hear();
    }

    /** The next message; a message far too late is a failure despite other failures. */
    async #next(ms, what) {
        const { events } = this;
        const next = events.message(() => true, what, 2 ** 31 - 1);
        let timer;
        const late = new Promise((resolve) => {
            timer = setTimeout(() => resolve(undefined), ms);
        });
        const message = await Promise.race([next, late]).finally(() => clearTimeout(timer));
        if (!message) {
            next.catch(() => {});
            this.world.check(false, `${this.name} (${this.era}) waits in vain for ${what}`);
        }
        return message;
    }

    async #hear() {
        while (!this.world.isOver) {
            const message = await this.events.message(() => true, 'a message', 2 ** 31 - 1);
            if (message.method !== 'notifications/resources/updated') {
                continue;
            }
            const { uri, _meta = {} } = message.params;
            const doubtful = _meta['dev.tidings/truncated'] ? this.covered : this.covered.filter((r) => r.uri === uri);
            this.#note(`${uri.split('/').pop()} ${_meta['dev.tidings/truncated'] ? 'truncated ' : ''}${_meta[CURSOR]}`);
            doubtful.forEach((resource) => this.doubts.add(resource.uri));
            this.cursor = _meta[CURSOR] ?? this.cursor;
        }
    }

    /** Read all doubtful URIs. URIs with updates during the read become doubtful again. */
    async #keepReading() {
        while (!this.world.isOver) {
            for (const uri of [...this.doubts]) {
                const resource = this.world.resources.find((r) => r.uri === uri);
                this.doubts.delete(uri);
                const value = await resource.read().catch(() => undefined);
                if (value === undefined) {
                    this.doubts.add(uri);
                } else {
                    this.believed.set(uri, value);
                }
            }
            await pause(5);
        }
    }

    /** Its first open doubt or wrong belief; undefined if none. */
    async mistake(truth) {
        if (this.state !== 'here') {
            return `is not there (${this.why})`;
        }
        for (const resource of this.covered) {
            if (this.doubts.has(resource.uri)) {
                return `still has to read ${resource.uri}`;
            }
            if (this.believed.get(resource.uri) !== truth.get(resource.uri)) {
                return `believes that ${resource.uri} is ${this.believed.get(resource.uri)}, it is`
                    + ` ${truth.get(resource.uri)}; it heard: ${this.history.join(', ')}`;
            }
        }
        return undefined;
    }
}
