// SPDX-License-Identifier: MIT
//
// Writers of the chaos test: each goes from node to node and writes entities and published resources by compare-and-set, now
// and then on two nodes at once from the same version, and says of what has no content that it changed. Every
// value has a token of its own, the version it was made from and a number that is one more than that version's.

import { exchange, modern, pause } from '../integration/lib/fault-watcher.mjs';

export const TYPE = 'entity:///Note@1/';
export const PUBLISHED = 'pub:///p/';
export const EVENTS = 'pub:///e/';
const PATIENCE = 4000; // ms for an answer

let lastToken = 0;
const freshToken = () => `t${(lastToken += 1)}`;

const path = (uri) => `/resource?uri=${encodeURIComponent(uri)}`;

/**
 * What is there, as a node says: { value, version, isStale } or undefined when it cannot say, null when nothing is. Who has a
 * cursor says so: the node may be behind the one that gave it.
 */
export async function readValue(node, uri, ms = PATIENCE, cursor = undefined) {
    const asked = cursor ? { 'Tidings-At-Least': cursor } : {};
    const { status, headers, text } = await exchange(node, { method: 'GET', path: path(uri), headers: asked }, ms);
    if (status === 404 || status === 410) {
        return null;
    }
    if (status !== 200) {
        return undefined;
    }
    const whole = JSON.parse(text);
    const isStale = headers.get('tidings-stale') !== null && headers.get('tidings-stale') !== undefined;
    return uri.startsWith(TYPE)
        ? { value: whole.value, version: whole.validFrom, isStale }
        : { value: whole, version: headers.get('etag'), isStale };
}

async function toolCall(node, name, args, ms = PATIENCE) {
    const { json, status } = await modern(node, 'tools/call', { name, arguments: args }, ms);
    return json?.result ?? { isError: true, refused: json?.error?.message ?? `${status}`, status };
}

export async function addType(node) {
    const result = await toolCall(node, 'add-entity-type', { name: 'Note', version: '1', jsonSchema: { type: 'object' } });
    if (result.isError) {
        throw new Error(`no type: ${JSON.stringify(result)}`);
    }
}

/** Every version of an entity, oldest first. */
export async function history(node, uri) {
    const all = [];
    let from;
    for (;;) {
        const result = await toolCall(node, 'get-entity-history', { uri, limit: 100, ...(from && { from }) }, 20_000);
        if (result.isError) {
            throw new Error(`history of ${uri}: ${JSON.stringify(result)}`);
        }
        const page = result.structuredContent ?? JSON.parse(result.content[0].text);
        all.push(...page.versions ?? page.history);
        if (!page.next) {
            return all.sort((a, b) => (a.validFrom < b.validFrom ? -1 : 1));
        }
        from = page.next;
    }
}

/** Reasons that mean: it has not happened. */
const refusals = new Set(['storage', 'busy', 'limit', 'unavailable', 'away']);

export class Writer {
    constructor(world, number) {
        this.world = world;
        this.ledger = world.ledger;
        this.name = `writer ${number}`;
        this.events = world.events.filter((_, at) => at % world.writers === number); // nobody else tells of them
    }

    async run() {
        const { world } = this;
        while (!world.isOver) {
            await world.mayWrite;
            if (world.isOver) {
                return;
            }
            this.busy = true;
            await this.#step().catch((error) => this.ledger.log(`${this.name}: ${error.message}`));
            this.busy = false;
            await pause(world.random.below(world.pace));
        }
    }

    async #step() {
        const { world } = this;
        const kind = world.random.below(10);
        if (kind < 2 && this.events.length > 0) {
            await this.notify(world.random.pick(this.events), world.node());
        } else {
            const uri = world.random.pick(kind < 7 ? world.entities : world.published);
            const nodes = world.random.chance(0.2) ? world.nodes : [world.node()];
            const now = await readValue(nodes[0], uri).catch(() => undefined);
            if (now) {
                await Promise.all(nodes.map((node) => this.set(node, uri, now)));
            }
        }
    }

    /** Compare and set: from what was read. `now` null: it must not be there. */
    async set(node, uri, now) {
        const token = freshToken();
        const value = { token, base: now?.version ?? null, n: (now?.value.n ?? 0) + 1 };
        this.ledger.trying(token, uri, value.base);
        let outcome = ['unknown'];
        try {
            outcome = await (uri.startsWith(TYPE) ? this.#upsert : this.#put).call(this, node, uri, value);
        } catch {
            // Nobody knows.
        }
        this.ledger.became(token, ...outcome);
        return outcome[0];
    }

    async #upsert(node, uri, value) {
        const condition = value.base === null ? { ifAbsent: true } : { baseline: value.base };
        const result = await toolCall(node, 'upsert-entity', { uri, value, ...condition });
        if (!result.isError) {
            const done = result.structuredContent ?? JSON.parse(result.content[0].text);
            return ['acknowledged', done.validFrom];
        }
        if (result.refused) { // an answer without a reason
            return result.status === 503 || result.status === 429 ? ['refused', result.refused] : ['unknown', result.refused];
        }
        const { reason, error } = JSON.parse(result.content[0].text);
        return reason === 'conflict' || reason === 'exists' ? ['conflict', error]
            : refusals.has(reason) ? ['refused', `${reason}: ${error}`] : ['unknown', reason];
    }

    async #put(node, uri, value) {
        const condition = value.base === null ? { 'If-None-Match': '*' } : { 'If-Match': value.base };
        const headers = {
            'Content-Type': 'application/json', 'Tidings-Metadata': JSON.stringify({ n: value.n }), ...condition,
        };
        const { status, headers: got, json } = await exchange(node,
            { method: 'PUT', path: path(uri), headers, body: JSON.stringify(value) }, PATIENCE);
        return status < 300 ? ['acknowledged', got.get('etag')]
            : status === 412 ? ['conflict']
                : status === 503 || refusals.has(json?.reason) ? ['refused', `${status} ${json?.error}`] : ['unknown', `${status}`];
    }

    /** What has no content changed; its number rises. */
    async notify(event, node) {
        event.n += 1;
        const { n } = event;
        const body = JSON.stringify({ changes: [{ uri: event.uri, metadata: { n } }] });
        const headers = { 'Content-Type': 'application/json' };
        const begun = Date.now();
        this.ledger.counts.writes += 1;
        try {
            const { status } = await exchange(node, { path: '/notify', headers, body }, PATIENCE);
            if (status === 200) {
                event.acknowledged = { n, at: begun, node };
                this.ledger.counts.notified += 1;
                return true;
            }
            this.ledger.counts.refused += 1;
        } catch {
            this.ledger.counts.unknown += 1;
        }
        return false;
    }
}
