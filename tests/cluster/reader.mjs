// SPDX-License-Identifier: MIT
//
// Readers of the chaos test: clients of both eras that go from node to node, a modern one with its cursor, a legacy one with its
// session and the id of the last event, and keep what they believe of everything they are subscribed to: what they
// were told, or read after they were told.

import { exchange, pause } from '../integration/lib/fault-watcher.mjs';
import { freshId, initialize, LATEST_LEGACY, meta, modernHeaders } from '../integration/lib/rpc.mjs';
import { covers, isToldOf, OWNED, SHARED } from './mounts.mjs';
import { EVENTS, PUBLISHED, readValue, TYPE } from './writer.mjs';

const OPTIONS = 'dev.tidings/options';
const CURSOR = 'dev.tidings/cursor';
const METADATA = 'dev.tidings/metadata';
const JSON_HEADERS = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
const PATIENCE = 4000;
const NEVER = 2 ** 31 - 1;
const REST = 200;

const positionOf = (cursor) => Number(cursor.split('~')[0].split('.')[2] ?? 0);
const idOf = (uri) => uri.slice(TYPE.length);
const isFile = (uri) => uri.startsWith('file:');

export class Reader {
    numbers = new Map(); // of a URI: `n` of what it believes is there
    heard = new Map(); // of a URI: the newest it was told of (an entity: ms of its version, else n)
    announced = new Map(); // of a URI of EVENTS: every n it was told of, the last one last
    known = new Map(); // of an entity's id: ms of the newest version it was told of or read
    doubts = new Set(); // URIs to be read
    blind = new Set(); // those of which it was told nothing but to look again, until it did
    lookedAgain = new Map(); // of a URI: when it was last told to look again
    files = new Map(); // of a file's URI: { etag, at } of what it was told last; no etag: it was removed
    mustLook = []; // times it was told to look again in OWNED: { since, wholeAt, story }
    wholeAtPosition = 0; // of its cursor when it last was seen to know everything
    wholeAt = 0; // when it last was seen to know everything
    toldBy = new Map(); // of a URI: the node that told of it last
    state = 'away';
    trace = [];

    constructor(world, number) {
        const { random } = world;
        Object.assign(this, { world, ledger: world.ledger, number });
        this.era = number % 2 === 0 ? 'modern' : 'legacy';
        this.name = `reader ${number} (${this.era})`;
        this.include = random.pick(['none', 'none', 'value']);
        const mounts = world.mounts ? [OWNED, SHARED] : [];
        this.uris = random.pick([
            () => [TYPE, PUBLISHED, EVENTS, ...mounts],
            () => [`${TYPE}**`, `${PUBLISHED}**`, `${EVENTS}**`, ...mounts.map((uri) => `${uri}**`)],
            () => [...world.entities, ...world.published, ...world.mounts?.lasting ?? []]
                .filter((_, at) => (at + number) % 3 === 0).concat(EVENTS),
        ])();
        this.covered = world.uris.filter((uri) => this.uris.some((wish) => covers(wish, uri)));
    }

    /** For whoever looks for the reason of a failure; `uri`: what it is about, or nothing in particular. */
    note(what, uri = undefined) {
        this.trace.push({ uri, text: `${this.world.seconds()} ${what}` });
    }

    /** The last of what concerns a URI, or all; until there were so many notes. */
    story(uri, upto = this.trace.length) {
        return this.trace.slice(0, upto).filter((one) => one.uri === undefined || uri === undefined || one.uri === uri).slice(-40)
            .map(({ text }) => text).join('; ');
    }

    /** Go from node to node until the world ends. */
    async run() {
        const reading = this.#keepReading();
        while (!this.world.isOver) {
            this.node = this.world.node();
            try {
                await (this.era === 'modern' ? this.#listen() : this.#session());
            } catch (error) {
                this.why = error.message;
                this.note(`leaves ${this.node.name}: ${error.message}`);
            }
            this.state = 'away';
            this.events?.close();
            this.events = undefined;
            this.#claim();
            await pause(20 + this.world.random.below(100));
        }
        await reading;
    }

    leave() {
        this.events?.close();
    }

    get options() {
        return { windowMs: 0, initial: false, include: this.include, ...(this.cursor && { since: this.cursor }) };
    }

    #post(message, headers) {
        const all = { ...JSON_HEADERS, ...headers };
        return exchange(this.node, { headers: all, body: JSON.stringify(message) }, PATIENCE);
    }

    // ---- both eras --------------------------------------------------------------------------------------------

    async #listen() {
        const params = {
            _meta: meta({ [OPTIONS]: this.options }),
            notifications: { resourceSubscriptions: this.uris },
        };
        const message = { jsonrpc: '2.0', id: freshId(), method: 'subscriptions/listen', params };
        const response = await this.#post(message, modernHeaders(message.method));
        if (!response.events) {
            throw new Error(`listen: ${response.status} ${response.text}`);
        }
        this.events = response.events;
        const { json: ack } = await this.events.next((item) => item.json, 'the acknowledgement', PATIENCE);
        if (ack.method !== 'notifications/subscriptions/acknowledged') {
            throw new Error(`listen: ${JSON.stringify(ack)}`);
        }
        const refused = ack.params._meta['dev.tidings/refused'] ?? [];
        if (refused.length > 0) {
            throw new Error(`refused: ${JSON.stringify(refused)}`);
        }
        await this.#hear(ack.params._meta[CURSOR]);
    }

    /** What a session is asked for, on whichever node: once it has all of it, it stays. */
    async #subscribeAll() {
        if (!this.session) {
            const opened = await this.#post(initialize(LATEST_LEGACY), {});
            const id = opened.headers.get('mcp-session-id');
            if (!id) {
                throw new Error(`initialize: ${opened.status} ${opened.text}`);
            }
            this.session = { 'Mcp-Session-Id': id, 'MCP-Protocol-Version': LATEST_LEGACY };
            this.wishes = [...this.uris];
            this.lastEvent = undefined;
            this.home = this.node;
            this.begun = this.cursor;
        }
        while (this.wishes.length > 0) {
            const params = { uri: this.wishes[0], _meta: { [OPTIONS]: this.options } };
            const message = { jsonrpc: '2.0', id: freshId(), method: 'resources/subscribe', params };
            const { json, status, text } = await this.#post(message, this.session);
            this.#mayBeLost(status);
            if (!json?.result) {
                throw new Error(`subscribe: ${status} ${text}`);
            }
            this.begun ??= json.result._meta[CURSOR];
            this.wishes.shift();
        }
    }

    #mayBeLost(status) {
        if (status === 404) {
            this.ledger.counts.sessionsLost += 1;
            this.note(`session lost at ${this.node.name}`);
            this.session = undefined;
        }
    }

    async #session() {
        await this.#subscribeAll();
        const headers = {
            Accept: 'text/event-stream', ...this.session, ...(this.lastEvent && { 'Last-Event-ID': this.lastEvent }),
        };
        this.asked = this.lastEvent;
        const response = await exchange(this.node, { method: 'GET', headers }, PATIENCE);
        this.#mayBeLost(response.status);
        if (!response.events) {
            throw new Error(`GET: ${response.status} ${response.text}`);
        }
        if (this.home !== this.node) {
            this.ledger.counts.sessionsMoved += 1;
            this.home = this.node;
        }
        this.events = response.events;
        await this.#hear(this.begun);
    }

    // ---- what is told -------------------------------------------------------------------------------------------

    /** What the cursor claims when it goes: held against the store in the end. */
    #claim() {
        if (this.cursor && this.isWhole && !this.cursor.includes('~')) { // with that it says itself that some have yet to be told
            const heard = new Map([...this.known].filter(([id]) => !this.blind.has(`${TYPE}${id}`)));
            this.note(`goes with ${this.cursor}`);
            const upto = this.trace.length;
            this.ledger.cursors.push({
                who: this.name, position: positionOf(this.cursor), heard, at: Date.now(), story: (id) => `${this.story(`${TYPE}${id}`, upto)}; all: ${this.story(undefined, upto)}`,
            });
        }
    }

    async #hear(cursor) {
        const { random } = this.world; // now and then it goes in the middle of what it is told first
        const stay = Date.now() + (random.chance(0.2) ? random.below(60) : 1000 + random.below(this.world.stay));
        this.note(`at ${this.node.name} since ${this.cursor}${this.asked ? `, after ${this.asked}` : ''}`);
        if (this.cursor) {
            this.ledger.counts.hops += 1;
        } else {
            this.covered.forEach((uri) => this.#mustRead(uri));
            this.cursor = cursor;
        }
        this.since = positionOf(this.cursor);
        this.again = new Set(); // URIs that it may be told of again, having been told beyond its cursor
        this.heard.forEach((_, uri) => this.again.add(uri));
        this.looksHere = new Set(); // subscriptions that it was told here to look again of
        this.state = 'here';
        // While everything is at rest it stays: who went elsewhere would be told of what it missed.
        const leave = () => (this.world.isAtRest ? again(REST) : this.leave());
        const again = (ms) => {
            this.timer = setTimeout(leave, ms);
        };
        again(stay - Date.now());
        try {
            for (;;) {
                const item = await this.events.next(() => true, 'an event', NEVER);
                this.events.seen.length = 0;
                this.lastEvent = item.id || this.lastEvent;
                if (item.json?.method === 'notifications/resources/updated') {
                    this.#update(item.json.params);
                }
            }
        } finally {
            clearTimeout(this.timer);
        }
    }

    #update({ uri, _meta = {} }) {
        this.ledger.counts.told += 1;
        const cursor = _meta[CURSOR];
        if (_meta['dev.tidings/suspended']) {
            this.ledger.wrong(`${this.name}: its subscription to ${uri} was ended at ${this.node.name}: ${this.story(uri)}`);
        } else if (_meta['dev.tidings/truncated']) {
            this.#truncated(uri, _meta);
        } else if (this.covered.includes(uri) && isFile(uri)) {
            this.#toldFile(uri, _meta);
        } else if (this.covered.includes(uri)) {
            this.#told(uri, _meta);
        } else {
            this.ledger.wrong(`${this.name} was told of ${uri}`);
        }
        if (cursor) {
            this.cursor = cursor;
        }
    }

    /** It knows nothing of it but that it has to look. */
    #mustRead(uri) {
        this.doubts.add(uri);
        this.blind.add(uri);
        this.lookedAgain.set(uri, Date.now());
    }

    #truncated(uri, _meta) {
        const hasBroken = this.ledger.brokeSince(this.wholeAt);
        this.note(`truncated ${uri} at ${this.node.name} (${_meta[CURSOR]})`);
        if (!this.uris.includes(uri)) {
            this.ledger.wrong(`${this.name} was told to look again of ${uri}, which it has not subscribed to: ${this.story(uri)}`);
        } else if (uri.startsWith(OWNED)) {
            this.world.mounts.counts.toldToLookOwned += 1;
            this.mustLook.push({ since: this.wholeAtPosition, wholeAt: this.wholeAt, story: this.story(uri) });
        } else if (uri.startsWith(SHARED)) {
            this.world.mounts.counts.toldToLookShared += 1;
            if (this.looksHere.has(uri) && !hasBroken) {
                this.ledger.wrong(`${this.name} was told twice at ${this.node.name} to look again of ${uri}: ${this.story(uri)}`);
            }
            this.looksHere.add(uri);
        } else {
            this.ledger.counts.truncated += 1;
            if (!hasBroken) {
                this.ledger.wrong(`${this.name} was told to look again, but the database lost nothing: ${this.story(uri)}`);
            }
        }
        this.covered.filter((each) => covers(uri, each)).forEach((each) => this.#mustRead(each));
    }

    /** A file changed, and is as its etag says; without one it is not there. */
    #toldFile(uri, _meta) {
        const etag = _meta['dev.tidings/change'] === 'deleted' ? undefined : _meta['dev.tidings/etag'];
        this.note(`told ${uri} ${_meta['dev.tidings/change'] ?? ''} ${etag} (${_meta[CURSOR]})`, uri);
        this.world.mounts.counts.told += 1;
        this.files.set(uri, { etag, at: Date.now() });
        this.doubts.add(uri);
    }

    #told(uri, _meta) {
        const version = uri.startsWith(TYPE) ? Date.parse(_meta['dev.tidings/etag']) : _meta[METADATA]?.n;
        if (!Number.isFinite(version)) {
            this.ledger.wrong(`${this.name}: ${uri} was told without its version: ${JSON.stringify(_meta)}`);
            return;
        }
        const before = this.heard.get(uri) ?? -1;
        this.note(`told ${uri} ${version} (${_meta[CURSOR]})`, uri);
        if (version <= before && uri.startsWith(EVENTS)) {
            // Accepted at one node, then another at a second one: nothing says which is committed first.
            this.ledger.counts.announcedLate += 1;
        } else if (version <= before) {
            this.ledger.counts.repeated += 1;
            if (!this.again.has(uri)) {
                this.ledger.wrong(`${this.name}: ${uri} ${version} was told after ${before}: ${this.story(uri)}`);
            } else if (uri.startsWith(TYPE)) {
                const upto = this.trace.length;
                this.ledger.repeats.push({ who: this.name, id: idOf(uri), version, position: this.since, story: () => this.story(uri, upto) });
            }
        }
        this.again.delete(uri);
        this.toldBy.set(uri, this.node);
        this.heard.set(uri, Math.max(version, before));
        if (uri.startsWith(EVENTS)) {
            const all = this.announced.get(uri) ?? new Set();
            all.delete(version);
            this.announced.set(uri, all.add(version));
            return;
        }
        if (this.include === 'value' && _meta['dev.tidings/data']?.[0]?.text) {
            const whole = JSON.parse(_meta['dev.tidings/data'][0].text);
            this.#believe(uri, uri.startsWith(TYPE) ? { value: whole.value, version: whole.validFrom } : { value: whole });
        } else {
            this.doubts.add(uri);
        }
        if (uri.startsWith(TYPE)) {
            this.#know(uri, version);
        }
    }

    #know(uri, ms) {
        const id = idOf(uri);
        this.known.set(id, Math.max(this.known.get(id) ?? 0, ms));
    }

    #believe(uri, now) {
        this.blind.delete(uri);
        this.numbers.set(uri, now.value.n);
        if (uri.startsWith(TYPE)) {
            this.#know(uri, Date.parse(now.version));
        }
    }

    /** Read what is in doubt. What is told meanwhile is in doubt again. */
    async #keepReading() {
        while (!this.world.isOver) {
            for (const uri of [...this.doubts]) {
                const { node } = this;
                this.doubts.delete(uri);
                const due = this.heard.get(uri);
                const by = this.toldBy.get(uri);
                const lookedAgain = this.lookedAgain.get(uri);
                const cursor = isFile(uri) ? undefined : this.cursor; // what is local needs no database
                const now = uri.startsWith(EVENTS) ? null : await readValue(node, uri, 1500, cursor).catch(() => undefined);
                if (now === undefined || lookedAgain !== this.lookedAgain.get(uri)) {
                    this.doubts.add(uri);
                    await pause(100);
                } else if (isFile(uri)) {
                    this.blind.delete(uri);
                    this.note(`read ${now?.value.n} at ${node.name}`, uri);
                    this.numbers.set(uri, now?.value.n);
                } else if (this.heard.get(uri) !== due) { // told of a newer one meanwhile, perhaps with its content
                    this.doubts.add(uri);
                } else if (now) {
                    this.ledger.counts.reads += 1;
                    const seen = uri.startsWith(TYPE) ? Date.parse(now.version) : now.value.n;
                    if (due !== undefined && seen < due) { // read at another node than it was told by
                        this.ledger.counts.staleReads += 1;
                        if (by === node) {
                            this.ledger.wrong(`${this.name}: ${node.name} told of ${uri} ${due} and gave ${seen}`);
                        }
                        this.doubts.add(uri);
                        await pause(20);
                    } else {
                        this.note(`read ${now.value.n} at ${node.name}`, uri);
                        this.#believe(uri, now);
                    }
                }
            }
            this.isWhole ||= this.state === 'here' && this.doubts.size === 0;
            await pause(10);
        }
    }

    /**
     * Of what is only announced it must have been told the newest by position, which may be one whose outcome nobody
     * knew. What a node answered is committed, even if the node is killed then; only a crash of the database loses it.
     */
    #missed({ uri, acknowledged: { n, at, node } }, announced) {
        const rows = announced.get(uri);
        const told = this.announced.get(uri) ?? new Set();
        const last = [...told].at(-1);
        const isThere = rows?.all.has(n) ?? false; // a crash empties the table
        if (n === 0 || this.lookedAgain.get(uri) >= at || (isThere ? last === rows.newest : told.has(n))) {
            return undefined;
        }
        return `was not told of ${uri} ${isThere ? rows.newest : n} (${n} was answered at ${node.name} and is ${isThere ? '' : 'not '}there),`
            + ` but of ${last}, at most ${this.heard.get(uri)}: ${this.story(uri)}`;
    }

    /** Of a file it was told that it is as it is, or to look since it was written; and it looked. */
    #fileMistake(uri, file, etag) {
        const told = this.files.get(uri);
        if (!isToldOf(file, etag, { told, looked: this.lookedAgain.get(uri) })) {
            return `was not told that ${uri} is ${file.n} (${etag}), but ${told?.etag}; it was gone ${this.world.mounts.whenGone(uri)}: ${this.story(uri)}`;
        }
        return this.numbers.get(uri) === file.n ? undefined
            : `believes that ${uri} is ${this.numbers.get(uri)}, it is ${file.n}: ${this.story(uri)}`;
    }

    /** What it believes wrongly of mounts; `etags` of files. */
    mistakeInMounts(etags) {
        if (this.state !== 'here') {
            return `is not there (${this.why})`;
        }
        for (const uri of this.covered.filter(isFile)) {
            const mistake = this.doubts.has(uri) ? `still has to read ${uri}`
                : this.#fileMistake(uri, this.world.mounts.files.get(uri), etags.get(uri));
            if (mistake) {
                return mistake;
            }
        }
        return undefined;
    }

    /** It was seen to know everything. */
    isSettled() {
        this.wholeAt = Date.now();
        this.wholeAtPosition = this.cursor ? positionOf(this.cursor) : 0;
    }

    /** What it believes wrongly without knowing; undefined: nothing. */
    mistake({ values, announced }) {
        if (this.state !== 'here') {
            return `is not there (${this.why})`;
        }
        for (const uri of this.covered.filter((one) => !isFile(one))) {
            if (this.doubts.has(uri)) {
                return `still has to read ${uri}`;
            }
            const event = this.world.event(uri);
            const missed = event && this.#missed(event, announced);
            if (missed) {
                return missed;
            }
            if (!event && this.numbers.get(uri) !== values.get(uri)) {
                return `believes that ${uri} is ${this.numbers.get(uri)}, it is ${values.get(uri)}: ${this.story(uri)}`;
            }
        }
        return undefined;
    }
}
