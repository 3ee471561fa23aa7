// SPDX-License-Identifier: MIT
//
// Contests in the world of lib/fault-world.mjs: several clients write the same thing at once, each with a condition,
// while commits fail. A committed state must explain every answer, including rejections. The possible committed
// states are those before the contest and the results of its acknowledged and unanswered writes; a write that failed
// with `storage` explains nothing.

import assert from 'node:assert/strict';

import { HURRIED, PUBLISHED, SETTLED } from './fault-watcher.mjs';
import { errno } from './faults.mjs';
import { Connection } from './http.mjs';
import { freshId, meta, modernHeaders } from './rpc.mjs';

const WRITERS = 6;
// Four of the world, two of the three made by contests, and one in the reserve of operators.
export const PUBLISHED_MAX = 7;
const PUBLISHED_RESERVE = 1;

/** Failures that make commits fail, drawn for each stage. */
const DISKS = [
    { write: { rate: 1, error: errno.ENOSPC } },
    { write: { rate: 1, error: errno.ENOSPC } },
    { write: { rate: 0.3, error: errno.ENOSPC } },
    { sync: { rate: 1, limit: 1 } },
    { sync: 0.5 },
    { sync: 1 },
    { write: 0.2, sync: 0.2 },
    { write: { rate: 0.5, error: errno.EIO }, memory: 0.002 },
    { write: { rate: 0.3, error: errno.ENOSPC }, sync: 0.3, memory: 0.01 },
    {},
];

/** Reasons without information about the stored state. */
const OF_THE_SERVER = new Set(['storage', 'busy', 'unavailable', 'memory']);

const bare = (etag) => etag?.replaceAll('"', '');

function tool(name, args) {
    const params = { _meta: meta(), name, arguments: args };
    const headers = {
        'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
        ...modernHeaders('tools/call', params),
    };
    return { headers, body: JSON.stringify({ jsonrpc: '2.0', id: freshId(), method: 'tools/call', params }) };
}

const entity = (id, method, headers, value, query = '', type = 'Note') => ({
    method, path: `/entity/${type}@1/${id}${query}`, headers, ...(value !== null && { body: JSON.stringify({ n: value }) }),
});
const resource = (uri, method, headers, value) => ({
    method, path: `/resource?uri=${encodeURIComponent(uri)}`, headers, ...(value !== null && { body: value }),
});

function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return {}; // no memory for more than the message
    }
}

/**
 * The content of an answer: { is: acknowledged | unknown | failed | refused, reason, body, etag }. Without memory for
 * a reason an answer leaves the outcome open (docs/reference/entities.md); published resources are rejected by status
 * only.
 */
function verdict({ status, json, text, headers }, { of: { kind }, options }) {
    const result = json?.result;
    const isDone = options.path ? status < 300 : result && !result.isError;
    if (isDone) {
        return { is: 'acknowledged', body: result?.structuredContent ?? json, etag: headers.get('etag') };
    }
    const body = result ? parsed(result.content[0].text) : json ?? {};
    const { reason } = body;
    const isRefusal = reason !== undefined || (kind === 'published' && body.error !== undefined && status < 500);
    const is = !isRefusal || reason === 'outcomeUnknown' ? 'unknown' : OF_THE_SERVER.has(reason) ? 'failed' : 'refused';
    return { is, reason: reason ?? `${status} ${text}`, body, status };
}

export class Contests {
    #connections = [];
    #count = 0;
    #versions = new Map(); // values of acknowledged versions by entity and validFrom
    #etags = new Map(); // of published contents
    #fresh = []; // things made by contests in this stage
    counts = { contests: 0, acknowledged: 0, unknown: 0, failed: 0, refused: 0 };

    constructor(world, random, make) {
        Object.assign(this, { world, random, make });
        this.extra = ['q0', 'q1', 'q2'].map((name) => make('published', name, `${PUBLISHED}${name}`));
    }

    #next() {
        this.#count += 1;
        return `c${this.#count}`;
    }

    get #pool() {
        return this.world.resources.filter(({ kind }) => kind !== 'file');
    }

    // ---- requests ---------------------------------------------------------------------------------------------

    /** One answer on a persistent connection; undefined if it is missing or incomplete. */
    async #ask(at, options, ms = HURRIED) {
        let timer;
        const late = new Promise((_, reject) => {
            timer = setTimeout(() => reject(new Error('no answer in time')), ms);
        });
        const asked = (async () => {
            this.#connections[at] ??= await Connection.open(this.world.server);
            return this.#connections[at].request(options);
        })();
        try {
            const answer = await Promise.race([asked, late]);
            assert.ok(!answer.events); // without memory an answer may be a stream that just ends
            return answer;
        } catch {
            asked.catch(() => {});
            this.#connections[at]?.close();
            this.#connections[at] = undefined;
            return undefined;
        } finally {
            clearTimeout(timer);
        }
    }

    #close() {
        this.#connections.forEach((connection) => connection?.close());
        this.#connections = [];
    }

    /** The current state: { value, etag }; null is absent; undefined: no answer. */
    async #look(what) {
        const options = what.kind === 'entity'
            ? { method: 'GET', path: `/entity/${what.name}` } : resource(what.uri, 'GET', {}, null);
        const answer = await this.#ask(0, options);
        if (answer?.status === 404 || answer?.status === 410) {
            return { value: null };
        }
        const value = what.kind === 'entity' ? answer?.json?.value?.n : answer?.text;
        const etag = answer?.headers.get('etag');
        if (answer?.status !== 200 || value === undefined || !etag) {
            return undefined;
        }
        this.#remember(what, value, etag);
        return { value, etag };
    }

    #remember(what, value, etag) {
        if (what.kind === 'entity') {
            this.#versions.set(`${what.uri} ${bare(etag)}`, value);
        } else {
            this.#etags.set(bare(etag), value);
        }
    }

    // ---- the claims of rejections --------------------------------------------------------------------------------

    /** Checks the claim of an answer about an entity against `states`, the possible committed states. */
    #entityMayBe(attempt, states) {
        const { reason, body } = attempt;
        const isThere = [...states].some((state) => state !== null);
        switch (reason) {
        case 'exists':
        case 'conditionRequired':
            return isThere;
        case 'deleted':
            return states.has(null);
        case 'unknownEntity': // those of the world have been there from the start
            return attempt.of.isFresh && states.has(null);
        case 'otherType':
            return [...states].some((state) => state?.startsWith(`${body.entityTypeName} `));
        case 'conflict':
            return this.#mayConflict(attempt, states);
        default:
            return false;
        }
    }

    #mayConflict({ of, body, before }, states) {
        const { current, patchFromBaseline } = body;
        const value = patchFromBaseline?.n ?? before.value;
        const known = this.#versions.get(`${of.uri} ${current}`);
        return current !== bare(before.etag) && (known === undefined || known === value)
            && (states.has(value) || (patchFromBaseline?.n === undefined && states.has(null)));
    }

    /** The same for a published resource. `isOpen`: contents with an unknown etag are possible. */
    #publishedMayBe({ body, status, before }, states, isOpen) {
        const said = /\betag '([^']+)'|, '([^']+)'$/.exec(`${body.error}`.replace(/\)$/, ''));
        const etag = said?.[1] ?? said?.[2];
        if (status === 404 || (status === 412 && / does not exist/.test(body.error))) {
            return states.has(null);
        }
        if (status === 412 && etag) {
            return etag !== bare(before?.etag)
                && (this.#etags.has(etag) ? states.has(this.#etags.get(etag)) : isOpen);
        }
        return /published-max/.test(body.error) && this.#mayBeFull();
    }

    /** Returns true if the published resources can reach the limit at some moment of the contest. */
    #mayBeFull() {
        const there = [...this.#pool, ...this.extra].filter(({ kind, states, possible }) =>
            kind === 'published' && [...states ?? possible].some((state) => state !== null));
        return there.length >= PUBLISHED_MAX - PUBLISHED_RESERVE;
    }

    // ---- a contest --------------------------------------------------------------------------------------------

    /** Send all requests at once. Returns the outcome of each. */
    async #attempt(attempts) {
        await Promise.all(attempts.map(async (attempt, at) => {
            const answer = await this.#ask(at, attempt.options);
            Object.assign(attempt, answer ? verdict(answer, attempt) : { is: 'unknown' });
            this.counts[attempt.is] += 1;
            if (attempt.is === 'acknowledged' && attempt.value !== null && attempt.of.kind !== 'type') {
                const etag = attempt.etag ?? attempt.body?.newValidFrom ?? attempt.body?.results?.[0].newValidFrom;
                this.#remember(attempt.of, attempt.plain ?? attempt.value, etag);
            }
        }));
        this.counts.contests += 1;
    }

    /** The possible states of each thing during the contest, and its possible current states. */
    #weigh(attempts) {
        const all = [...new Set(attempts.map(({ of }) => of))];
        for (const of of all) {
            const own = attempts.filter((attempt) => attempt.of === of);
            const left = (is) => own.filter((attempt) => attempt.is === is).map(({ value }) => value);
            const [kept, open] = [left('acknowledged'), left('unknown')];
            of.states = new Set([...of.possible, ...kept, ...open]);
            of.isOpen = open.length > 0 || of.unanswered.size > 0
                || own.some(({ is, value, etag }) => is === 'acknowledged' && value !== null && !etag);
            open.forEach((value) => of.unanswered.add(value));
            of.possible = new Set([...kept.length > 0 ? kept : of.possible, ...of.unanswered]);
            if ([...kept, ...open].includes(null)) {
                of.deleted = [...new Set([...of.deleted, ...of.states])].filter((value) => value !== null);
            }
            own.forEach(({ value, is, reason }) => of.history.push(`${value} ${is} ${reason ?? ''}`));
        }
        return all;
    }

    #explain(attempt, attempts) {
        const { of, reason } = attempt;
        if (reason === 'keyReused') {
            return attempts.some((other) => other !== attempt && ['acknowledged', 'unknown'].includes(other.is));
        }
        return of.kind === 'published' ? this.#publishedMayBe(attempt, of.states, of.isOpen)
            : this.#entityMayBe(attempt, of.states);
    }

    async #contest(what, attempts, isExclusive) {
        await this.#attempt(attempts);
        const all = this.#weigh(attempts);
        const said = () => attempts.map(({ of, is, value, reason, body }) =>
            `${of.name}=${value} ${is} ${reason ?? ''} ${['refused', 'acknowledged'].includes(is) ? JSON.stringify(body) : ''}`).join('\n');
        for (const attempt of attempts.filter(({ is }) => is === 'refused')) {
            this.world.check(this.#explain(attempt, attempts), `${what}: no committed state explains`
                + ` '${attempt.reason}' of ${attempt.of.uri}, which may have been`
                + ` ${[...attempt.of.states].map(String)}:\n${said()}`);
        }
        const winners = attempts.filter(({ is, body }) => is === 'acknowledged' && body?.changed !== false);
        this.world.check(!isExclusive || winners.length <= 1, `${what}: ${winners.length} won:\n${said()}`);
        all.forEach((of) => delete of.states);
    }

    #several(make) {
        return [...Array(2 + this.random.below(WRITERS - 1)).keys()].map(make);
    }

    // ---- contests ---------------------------------------------------------------------------------------------

    /** Concurrent writes of a new id. */
    #creating() {
        const of = this.#make('entity', `x${this.#next()}`);
        const how = this.random.pick(['new', 'key', 'plain', 'types']);
        const key = this.#next();
        const attempts = this.#several((n) => {
            const plain = this.#next();
            const type = how === 'types' && n % 2 ? 'Memo' : 'Note';
            const query = how === 'key' ? `?idempotencyKey=${key}` : '';
            const headers = how === 'new' ? { 'If-None-Match': '*' } : {};
            return { of, plain, value: `${type} ${plain}`, options: entity(of.name, 'PUT', headers, plain, query, type) };
        });
        return this.#contest(`creating (${how})`, attempts, true);
    }

    #type() {
        const name = this.#next();
        const of = this.#make('type', name);
        const args = { name, version: '1', jsonSchema: { type: 'object' } };
        const attempts = this.#several(() => ({ of, value: 'there', options: tool('add-entity-type', args) }));
        return this.#contest('adding a type', attempts, true);
    }

    #make(kind, name) {
        const made = this.make(kind, name, `entity:///${kind === 'type' ? 'types#' : ''}${name}`);
        made.isFresh = true;
        this.#fresh.push(made);
        return made;
    }

    /** Concurrent writes over the version that all of them know. */
    async #overVersion() {
        const of = this.random.pick(this.#pool.filter(({ kind }) => kind === 'entity'));
        const before = await this.#look({ kind: 'entity', name: `Note@1/${of.name}`, uri: of.uri });
        if (!before || before.value === null) {
            await this.world.write(of, this.#next());
            return;
        }
        const match = { 'If-Match': before.etag };
        const baseline = bare(before.etag);
        const makers = [
            (value) => ({ value, options: entity(of.name, 'PUT', match, value) }),
            (value) => ({ value, options: tool('upsert-entity', { uri: of.uri, value: { n: value }, baseline }) }),
            (value) => ({
                value,
                options: tool('transact', { operations: [{ op: 'upsert', uri: of.uri, value: { n: value }, baseline }] }),
            }),
            () => ({ value: null, options: entity(of.name, 'DELETE', match, null) }),
        ];
        const attempts = this.#several(() => ({ of, before, ...this.random.pick(makers)(this.#next()) }));
        await this.#contest('over a version', attempts, true);
    }

    async #overEtag() {
        const of = this.random.pick([...this.#pool.filter(({ kind }) => kind === 'published'), ...this.extra]);
        const before = await this.#look(of);
        if (!before) {
            return;
        }
        const condition = before.value === null ? { 'If-None-Match': '*' } : { 'If-Match': before.etag };
        const attempts = this.#several(() => {
            const isRemoval = before.value !== null && this.random.chance(0.3);
            const value = isRemoval ? null : this.#next();
            return { of, before, value, options: resource(of.uri, isRemoval ? 'DELETE' : 'PUT', condition, value) };
        });
        await this.#contest('over an etag', attempts, true);
    }

    /** Several clients remove a resource, and another republishes it. */
    #removing() {
        const of = this.random.pick([...this.#pool.filter(({ kind }) => kind === 'published'), ...this.extra]);
        const attempts = this.#several(() => {
            const value = this.random.chance(0.7) ? null : this.#next();
            return { of, value, options: resource(of.uri, value === null ? 'DELETE' : 'PUT', {}, value) };
        });
        return this.#contest('removing', attempts, false);
    }

    /** More new URIs than the limit permits. */
    #tooMany() {
        const attempts = this.extra.map((of) => {
            const value = this.#next();
            return { of, value, options: resource(of.uri, 'PUT', {}, value) };
        });
        return this.#contest('too many', attempts, false);
    }

    /** Several contests on a failing disk, then a comparison of everything they made with the stored state. */
    async run(steps) {
        const { world, random } = this;
        const kinds = random.pick(DISKS);
        world.phase = `contests with ${JSON.stringify(kinds)} after ${world.phase}`;
        await Promise.all([...Array(WRITERS).keys()].map((at) => this.#ask(at, { method: 'GET', path: '/livez' })));
        for (const of of this.extra) {
            of.unanswered.clear();
            of.possible = new Set([await of.read(SETTLED)]);
        }
        world.faults.on(kinds);
        for (let i = 0; i < steps && world.server.running; i += 1) {
            await random.pick([
                () => this.#creating(), () => this.#creating(), () => this.#type(), () => this.#overVersion(),
                () => this.#overVersion(), () => this.#overEtag(), () => this.#removing(), () => this.#tooMany(),
            ])();
        }
        world.faults.off();
        this.#close();
        await this.#compare();
    }

    async #compare() {
        for (const of of this.#fresh) {
            const value = await (of.kind === 'type' ? this.#readType(of) : this.#readFresh(of));
            this.world.check(of.possible.has(value), `${of.uri} is ${value}, but must be one of`
                + ` ${[...of.possible].map(String)}; written: ${of.history.join(', ')}`);
        }
        this.#fresh = [];
        for (const of of this.extra) {
            await this.world.write(of, null, SETTLED);
        }
        this.#close();
    }

    async #readFresh(of) {
        const answer = await this.#ask(0, { method: 'GET', path: `/entity/${of.name}` }, SETTLED);
        this.world.check(answer?.status === 200 || answer?.status === 404, `${of.uri} cannot be read: ${answer?.status}`);
        return answer.status === 404 ? null : `${answer.json.entityTypeName} ${answer.json.value.n}`;
    }

    async #readType(of) {
        const answer = await this.#ask(0, { method: 'GET', path: '/entity/types' }, SETTLED);
        this.world.check(answer?.status === 200, `the types cannot be read: ${answer?.status}`);
        return answer.text.includes(`"${of.name}"`) ? 'there' : null;
    }
}
