// SPDX-License-Identifier: MIT
//
// A server whose system calls fail, a writer (of entities, published resources, files) and several
// watchers, with the states that each of them may believe. Invariants during all failures:
//
//   - acknowledged writes are stored, rejected writes are not, and other writes may be either;
//   - a committed state explains every rejection (lib/fault-contest.mjs);
//   - each watcher knows the current state, or knows that it missed changes (`truncated`, an end of its stream);
//   - the server recovers: it answers after the failures end, stops cleanly, and starts again.
//
// All decisions here follow from the seed: the failing calls and their rates, the writes, the watchers, their
// subscriptions and reconnects. The order in which server threads meet a fault does not.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { defer } from './cleanup.mjs';
import { Contests, PUBLISHED_MAX } from './fault-contest.mjs';
import { exchange, HURRIED, modern, pause, PUBLISHED, SETTLED, TYPE, Watcher } from './fault-watcher.mjs';
import { Faults, KINDS } from './faults.mjs';
import { BIN, Program, serve } from './server.mjs';
import { Tree } from './tree.mjs';
import { within } from './wait.mjs';

/** Failure rates per call of a kind, chosen to hurt without stopping everything. */
const USUAL = {
    open: 0.1, read: 0.1, write: 0.1, sync: 0.3, name: 0.2, stat: 0.1, mmap: 0.3, inotify: 0.3, accept: 0.3,
    epoll: 0.1, receive: 0.03, send: 0.03, descriptor: 0.3, thread: 0.5, memory: 0.02, add: 0.3,
};

/** Numbers from a seed (mulberry32). */
export function randomOf(seed) {
    let state = seed >>> 0;
    const next = () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let x = state;
        x = Math.imul(x ^ (x >>> 15), x | 1);
        x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
        return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
    };
    return {
        chance: (p) => next() < p,
        below: (n) => Math.floor(next() * n),
        pick: (list) => list[Math.floor(next() * list.length)],
    };
}

// ---- written things ---------------------------------------------------------------------------------------

/** One written thing. `possible`: its possible values; null is absent. */
class Resource {
    possible = new Set([null]);
    history = []; // the writes and their outcomes
    deleted = [];
    unanswered = new Set(); // of writes with an unknown outcome: they may still arrive

    constructor(world, kind, name, uri) {
        Object.assign(this, { world, kind, name, uri });
    }

    acknowledged(value) {
        if (value === null) { // values that an undeletion may restore; twice deleted is deleted
            const before = [...this.possible, ...this.unanswered].filter((one) => one !== null);
            this.deleted = before.length > 0 ? before : this.deleted;
        }
        this.possible = new Set([value, ...this.unanswered]);
    }

    unknown(value) {
        if (value === null) {
            this.deleted = [...this.deleted, ...this.possible].filter((one) => one !== null);
        }
        this.unanswered.add(value);
        this.possible.add(value);
    }

    /** The server reports an absent thing. */
    absent() {
        this.world.check(this.possible.has(null), `${this.uri} is said to be absent, but must be one of `
            + `${[...this.possible]}`);
    }

    /** The current value: a string, null, or undefined if the server cannot answer. */
    async read(ms = HURRIED) {
        if (this.kind === 'file') {
            return this.truth();
        }
        return this.world.read(this, ms);
    }

    truth() {
        const path = this.world.tree.at(this.name);
        return existsSync(path) ? readFileSync(path, 'utf8') : null;
    }
}

// ---- the world --------------------------------------------------------------------------------------------

export class World {
    resources = [];
    watchers = [];
    isOver = false;
    failed = {}; // failed calls, by kind
    counts = { acknowledged: 0, refused: 0, unknown: 0 };
    #value = 0;
    #failure;

    constructor(t, seed) {
        this.t = t;
        this.seed = seed;
        this.random = randomOf(seed);
        this.faults = new Faults(t, seed);
        this.tree = new Tree(t, {});
        const folder = mkdtempSync(join(tmpdir(), 'tidings-faulty-'));
        defer(t, () => rmSync(folder, { recursive: true, force: true }));
        this.file = join(folder, 'store.db');
        for (let i = 0; i < 4; i += 1) {
            this.#add('entity', `e${i}`, `${TYPE}e${i}`);
            this.#add('published', `p${i}`, `${PUBLISHED}p${i}`);
            this.#add('file', `f${i}.txt`, this.tree.uri(`f${i}.txt`));
        }
        for (const name of ['d/deep.txt', 'n/one.txt', 'n/m/two.txt']) {
            this.#add('file', name, this.tree.uri(name));
        }
        const make = (kind, name, uri) => new Resource(this, kind, name, uri);
        this.contests = new Contests(this, randomOf(seed + 0x5eed), make);
        this.workers = this.random.pick([1, 2, 3]);
        this.plain = this.random.chance(0.5);
    }

    #add(kind, name, uri) {
        this.resources.push(new Resource(this, kind, name, uri));
    }

    /** Record the first error with the failures before it. */
    check(is, what) {
        if (!is && !this.#failure) {
            this.#failure = `seed ${this.seed}, ${this.phase}: ${what}\nlast faults:\n${this.faults.log(30)}`;
        }
        if (!is) {
            throw new Error(what);
        }
    }

    /** Fail with the first recorded error. */
    assertNoFailure() {
        assert.ok(!this.#failure, this.#failure);
    }

    get #args() {
        return ['--entities', this.file, '--allow-write', '--workers', `${this.workers}`,
            '--published-max', `${PUBLISHED_MAX}`];
    }

    get #env() {
        return { ...this.faults.env, ...(this.plain && { TIDINGS_IO_URING: 'off' }) };
    }

    async start() {
        this.server = await serve(this.t, { args: this.#args, env: this.#env, tree: this.tree });
    }

    /** A world with initial contents and its watchers. */
    async begin() {
        this.phase = 'beginning';
        await this.start();
        for (const name of ['Note', 'Memo']) {
            await this.#tool('add-entity-type', { name, version: '1', jsonSchema: { type: 'object' } });
        }
        for (const resource of this.resources) {
            await this.write(resource, this.#next(), SETTLED);
        }
        for (let i = 0; i < 5; i += 1) {
            this.watchers.push(new Watcher(this, i));
        }
        this.running = this.watchers.map((watcher) => watcher.run());
        await this.compare();
    }

    #next() {
        this.#value += 1;
        return `${this.#value}`;
    }

    async #tool(name, args, ms = SETTLED) {
        const { json } = await modern(this.server, 'tools/call', { name, arguments: args }, ms);
        return json?.result;
    }

    async read(resource, ms) {
        const path = `/resource?uri=${encodeURIComponent(resource.uri)}`;
        const { status, text } = await exchange(this.server, { method: 'GET', path }, ms);
        if (status === 404 || status === 410) {
            return null;
        }
        if (status !== 200) {
            return undefined;
        }
        return resource.kind === 'entity' ? JSON.parse(text).value.n : text;
    }

    // ---- writing --------------------------------------------------------------------------------------------

    /** Write a value (null: remove) and record the outcome. */
    async write(resource, value, ms = HURRIED) {
        if (resource.kind === 'file') {
            this.#writeFile(resource, value);
            return;
        }
        let outcome;
        try {
            outcome = await (resource.kind === 'entity' ? this.#writeEntity : this.#publish)
                .call(this, resource, value, ms);
        } catch {
            outcome = 'unknown';
        }
        this.counts[outcome] = (this.counts[outcome] ?? 0) + 1;
        resource.history.push(`${value} ${outcome}`);
        if (outcome === 'acknowledged') {
            resource.acknowledged(value);
        } else if (outcome === 'unknown') {
            resource.unknown(value);
        } else if (outcome === 'absent') {
            resource.absent();
        }
    }

    /**
     * Returns true if these files may be removed: only initial files, and once each. The server reports no file that
     * appears and disappears within its quiet time, so a client that read it would be wrong without a fault.
     */
    #mayRemove(files) {
        const there = files.filter((file) => file.truth() !== null);
        const may = there.length > 0 && there.every((file) => this.removable.has(file));
        there.forEach((file) => may && this.removable.delete(file));
        return may;
    }

    #writeFile(resource, value) {
        if (value === null) {
            if (this.#mayRemove([resource])) {
                this.tree.remove(resource.name);
            }
        } else if (this.random.chance(0.5)) {
            this.tree.write(resource.name, value);
        } else {
            this.tree.mkdir(dirname(resource.name));
            this.tree.replace(resource.name, value);
        }
    }

    /** Create and remove directories, disconnect watchers, read lists. */
    async #stir() {
        const { random } = this;
        const folder = random.pick(['d', 'n', 'n/m']);
        const what = random.below(6);
        const inside = this.resources.filter(({ name }) => name.startsWith(`${folder}/`));
        if (what === 0 && this.#mayRemove(inside)) {
            this.tree.remove(folder);
        } else if (what === 1 && this.#mayRemove(inside)) {
            const aside = this.tree.aside();
            renameSync(this.tree.at(folder), aside);
            rmSync(aside, { recursive: true });
        } else if (what === 2 || what === 3) {
            random.pick(this.watchers).stop();
        } else if (what === 4) {
            await this.#list().catch(() => {});
        }
    }

    /** A returned list contains everything that certainly exists. */
    async #list() {
        const certain = this.resources.filter(({ kind, possible }) =>
            kind !== 'file' && possible.size === 1 && !possible.has(null));
        const listed = new Set();
        let cursor;
        do {
            const params = cursor === undefined ? {} : { cursor };
            const { json } = await modern(this.server, 'resources/list', params, HURRIED);
            if (!json?.result) {
                return;
            }
            json.result.resources.forEach(({ uri }) => listed.add(uri));
            cursor = json.result.nextCursor;
        } while (cursor !== undefined);
        const missing = certain.find(({ uri }) => !listed.has(uri));
        this.check(!missing, `${missing?.uri} is not in the list`);
    }

    async #writeEntity(resource, value, ms) {
        const args = { uri: resource.uri, ...(value !== null && { value: { n: value } }) };
        const result = await this.#tool(value === null ? 'delete-entity' : 'upsert-entity', args, ms);
        if (result && !result.isError) {
            return 'acknowledged';
        }
        const { reason } = JSON.parse(result.content[0].text);
        if (reason === 'deleted' && value !== null) {
            resource.deleted.forEach((one) => resource.unknown(one));
            const back = await this.#tool('undelete-entity', { uri: resource.uri }, ms);
            if (!back || back.isError) {
                return 'refused'; // a restored value is possible already
            }
            return this.#writeEntity(resource, value, ms);
        }
        return reason === 'outcomeUnknown' ? 'unknown'
            : reason === 'unknownEntity' || reason === 'deleted' ? 'absent' : 'refused';
    }

    async #publish(resource, value, ms) {
        const path = `/resource?uri=${encodeURIComponent(resource.uri)}`;
        const options = value === null ? { method: 'DELETE', path } : { method: 'PUT', path, body: value };
        const { status, json } = await exchange(this.server, options, ms);
        return status < 300 ? 'acknowledged'
            : status === 404 ? 'absent'
                : json?.reason === 'storage' ? 'refused' : 'unknown';
    }

    // ---- faults ---------------------------------------------------------------------------------------------

    /** Kinds of calls and their failures per million. */
    draw() {
        const { random } = this;
        const kinds = {};
        if (random.chance(0.2)) {
            KINDS.forEach((kind) => { kinds[kind] = USUAL[kind] * 0.1; });
            return kinds;
        }
        for (let i = 1 + random.below(3); i > 0; i -= 1) {
            const kind = random.pick(KINDS);
            kinds[kind] = random.chance(0.15) && !['memory', 'epoll'].includes(kind)
                ? 1 : USUAL[kind] * random.pick([0.2, 0.5, 1]);
        }
        return kinds;
    }

    /** Write at random during failures, then end all failures. */
    async disturb(steps) {
        const kinds = this.draw();
        this.phase = JSON.stringify(kinds);
        this.removable = new Set(this.resources.filter((r) => r.kind === 'file' && r.truth() !== null));
        this.faults.on(kinds);
        for (let i = 0; i < steps && this.server.running; i += 1) {
            const several = [...Array(1 + this.random.below(4)).keys()].map(() => this.random.pick(this.resources));
            const writes = [...new Set(several)].map((resource) =>
                this.write(resource, this.random.chance(0.2) ? null : this.#next()));
            await Promise.all(writes);
            await this.#stir();
        }
        this.faults.off();
        Object.keys(kinds).forEach((kind) => {
            this.failed[kind] = (this.failed[kind] ?? 0) + this.faults.failed(kind);
        });
        this.phase = `after ${this.phase}`;
    }

    /** Write everything once more without failures, to prove that all watchers still receive changes. */
    async renew() {
        for (const resource of this.resources) {
            await this.write(resource, this.#next(), SETTLED);
            if (resource.kind !== 'file') {
                this.check(resource.possible.size > 0, 'impossible');
            }
        }
    }

    // ---- comparing ------------------------------------------------------------------------------------------

    /** Read the current state, which must be possible. From here on it is certain. */
    async #truth() {
        const truth = new Map();
        for (const resource of this.resources) {
            const value = await resource.read(SETTLED);
            this.check(value !== undefined, `${resource.uri} cannot be read`);
            if (resource.kind !== 'file') {
                this.check(resource.possible.has(value), `${resource.uri} is ${value}, but must be one of`
                    + ` ${[...resource.possible].map(String)}; written: ${resource.history.join(', ')}`);
            }
            truth.set(resource.uri, value);
        }
        return truth;
    }

    /** All watchers know the current state. */
    async compare() {
        this.check(this.server.running, 'the server is gone');
        const end = Date.now() + SETTLED;
        let wrong;
        do {
            const truth = await this.#truth();
            wrong = undefined;
            for (const watcher of this.watchers) {
                const mistake = await watcher.mistake(truth);
                wrong ??= mistake && `${watcher.name} (${watcher.era}, ${watcher.returns}, ${watcher.include},`
                    + ` ${watcher.uris}) ${mistake}`;
            }
            if (wrong) {
                await pause(20);
            }
        } while (wrong && Date.now() < end);
        this.check(!wrong, wrong);
        for (const resource of this.resources.filter(({ kind }) => kind !== 'file')) {
            resource.unanswered.clear();
            resource.possible = new Set([await resource.read(SETTLED)]);
        }
    }

    /** Stop the server, cleanly or not, and start it again. */
    async restart() {
        this.phase = `restart after ${this.phase}`;
        if (this.random.chance(0.5)) {
            await this.server.stop('SIGTERM', SETTLED);
        } else {
            await this.server.kill();
        }
        if (this.random.chance(0.5)) {
            await this.#startInTrouble();
        }
        await this.start();
    }

    /** A server that cannot start reports it and exits; another server is stopped. */
    async #startInTrouble() {
        const kinds = this.draw();
        this.phase += `, starting with ${JSON.stringify(kinds)}`;
        this.faults.on(kinds);
        const args = ['serve', '--http', '127.0.0.1:0', ...this.#args, this.tree.path];
        const program = new Program(this.t, BIN, args, { env: this.#env, mayFail: true });
        const isUp = program.lines.next((line) => /serving on/.test(line), 'its address', SETTLED);
        const how = await Promise.race([isUp.then(() => 'up', () => 'silent'), program.exited]);
        this.faults.off();
        program.child.kill('SIGTERM');
        const { signal } = await within(program.exited, 'a server that was ended in trouble', SETTLED);
        this.check(signal === null || (how === 'up' && signal === 'SIGTERM'),
            `a server that was started in trouble ended by ${signal}: ${program.stderr}`);
    }

    async end() {
        this.isOver = true;
        this.watchers.forEach((watcher) => watcher.stop());
        await Promise.all(this.running ?? []);
    }
}
