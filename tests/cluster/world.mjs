// SPDX-License-Identifier: MIT
//
// The world of the chaos test: two database servers, one of them the other's synchronous standby, nodes, writers and readers,
// and what befalls them, all drawn from a seed. A phase is a time of faults; after it everything is mended and
// held against the truth (a checkpoint): all nodes say the same, and every reader believes it.
//
// The seed decides which faults come, for how long, who writes what and where; not in which order threads and machines
// meet them.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { defer } from '../integration/lib/cleanup.mjs';
import { pause } from '../integration/lib/fault-watcher.mjs';
import { randomOf } from '../integration/lib/fault-world.mjs';
import { Node } from '../integration/lib/nodes.mjs';
import { Postgres } from '../integration/lib/postgres.mjs';
import { readRecord } from '../integration/lib/record.mjs';
import { eventually, slow } from '../integration/lib/wait.mjs';
import { Ledger } from './ledger.mjs';
import { Mounts, OWNED } from './mounts.mjs';
import { Reader } from './reader.mjs';
import { addType, EVENTS, history, PUBLISHED, readValue, TYPE, Writer } from './writer.mjs';

const LOG_KEPT = 65536; // bytes of what a node said before it ended

const SETTLED = 40_000 * slow; // ms until everybody knows everything when nothing fails any more

export class World {
    isOver = false;
    begun = Date.now();

    constructor(t, { seed, nodes = 3, readers = 50, writers = 6, events = 8, pace = 120, stay = 12_000, store = 'postgres', only, log = () => {} }) {
        Object.assign(this, { t, seed, writers, pace, stay, only, log });
        this.sizes = { nodes, readers };
        this.isPostgres = store === 'postgres';
        this.random = randomOf(seed);
        this.ledger = new Ledger(log);
        const some = (count, make) => [...Array(count).keys()].map(make);
        this.entities = some(20, (n) => `${TYPE}e${n}`);
        this.published = some(12, (n) => `${PUBLISHED}p${n}`);
        this.events = some(events, (n) => ({ uri: `${EVENTS}e${n}`, n: 0, acknowledged: { n: 0, at: 0 } }));
        this.names = some(nodes, (n) => String.fromCharCode(97 + n));
        this.mounts = this.isPostgres ? new Mounts(this, this.names) : undefined;
        this.uris = [...this.entities, ...this.published, ...this.events.map(({ uri }) => uri), ...this.mounts?.uris ?? []];
        this.#hold();
    }

    event(uri) {
        return uri.startsWith(EVENTS) ? this.events.find((one) => one.uri === uri) : undefined;
    }

    /** Since it began. */
    seconds() {
        return ((Date.now() - this.begun) / 1000).toFixed(2);
    }

    node() {
        return this.random.pick(this.nodes);
    }

    #hold() {
        this.mayWrite = new Promise((resolve) => {
            this.#release = resolve;
        });
    }

    #release;

    // ---- beginning --------------------------------------------------------------------------------------------

    async begin() {
        const args = ['--publish', 'pub:///', '--allow-write', '--workers', '1', '--request-rate', '0', '--max-sessions', '4096'];
        if (this.isPostgres) {
            this.primary = await Postgres.start(this.t);
            this.standby = await this.primary.standby();
            // What the relays of nodes reach: the servers change places.
            this.places = [{ port: this.primary.port }, { port: this.standby.port }];
            this.nodes = await Promise.all(this.names.map((name) =>
                Node.make(this.t, name, { databases: this.places, args: [...args, ...this.mounts.args(name)] })));
        } else {
            const folder = mkdtempSync(join(tmpdir(), 'tidings-chaos-'));
            defer(this.t, () => rmSync(folder, { recursive: true, force: true }));
            this.nodes = [await Node.make(this.t, 'a', { databases: [], args })];
            this.nodes[0].store = join(folder, 'store.db');
        }
        for (const node of this.nodes) {
            await node.start();
        }
        this.log('nodes serve');
        await addType(this.nodes[0]);
        this.people = [...Array(this.writers).keys()].map((n) => new Writer(this, n));
        for (const uri of [...this.entities, ...this.published]) {
            if (await this.people[0].set(this.nodes[0], uri, null) !== 'acknowledged') {
                throw new Error(`${uri} could not be made`);
            }
        }
        this.readers = [...Array(this.sizes.readers).keys()].map((n) => new Reader(this, n));
        this.running = [...this.readers, ...this.people, ...this.mounts ? [this.mounts] : []].map((one) => one.run());
        await this.checkpoint();
    }

    // ---- faults -----------------------------------------------------------------------------------------------

    async #restartNode(node) {
        if (!this.isPostgres) { // announcements are in its memory alone
            this.ledger.broke();
        }
        node.said = `${node.said ?? ''}${node.program.stderr}`.slice(-LOG_KEPT);
        for (;;) { // while the database is away it may refuse to start
            try {
                await node.start();
                return;
            } catch (error) {
                if (this.isOver) {
                    return;
                }
                this.lastRefusal = error.message;
                await pause(200);
            }
        }
    }

    #nodeFaults = {
        kill: async (node) => {
            await node.kill();
            await pause(this.random.below(2000));
            await this.#restartNode(node);
        },
        stop: async (node, ms) => {
            node.pause();
            await pause(ms);
            node.go();
        },
        drain: async (node) => {
            await node.drain();
            await this.#restartNode(node);
        },
        cut: async (node, ms) => {
            node.cut();
            await pause(ms);
            node.mend();
        },
        stall: async (node, ms) => {
            node.cut({ quietly: true });
            await pause(ms);
            node.mend();
        },
        hop: async () => { // everybody at once
            this.readers.forEach((reader) => reader.leave());
            await pause(500);
        },
    };

    #databaseFaults = {
        restart: async () => {
            await this.primary.restart();
        },
        crash: async () => {
            this.ledger.broke();
            await this.primary.crash();
            await pause(this.random.below(1000));
            await this.primary.begin();
        },
        failover: async () => {
            this.ledger.broke();
            await this.primary.crash();
            await this.standby.promote();
            const old = this.primary;
            this.primary = this.standby;
            this.standby = await this.primary.standby({ name: `standby${this.places[0].port}` });
            this.places.find(({ port }) => port === old.port).port = this.standby.port;
        },
    };

    /** Times in which a node could not write: { node, from, to }; without a node: nobody could. */
    troubles = [];

    get isDatabaseWell() {
        return !this.troubles.some(({ node, to }) => !node && to > Date.now());
    }

    async #befall(name, fault, node) {
        this.ledger.fault(name);
        this.log(`fault: ${name}${node ? ` (${node.name})` : ''}`);
        const trouble = { node, from: Date.now(), to: Infinity };
        this.troubles.push(trouble);
        this.mounts?.befalls(name, node);
        await fault();
        trouble.to = Date.now();
        this.log(`mended: ${name}`);
    }

    #decks = new Map(); // of faults: those that have not come yet

    /** The next of these faults: all come before one comes again. */
    #draw(faults) {
        const deck = this.#decks.get(faults) ?? [];
        if (deck.length === 0) {
            deck.push(...Object.keys(faults).filter((name) =>
                (this.isPostgres || !['cut', 'stall'].includes(name)) && (!this.only || this.only.includes(name))));
            this.#decks.set(faults, deck);
        }
        return deck.splice(this.random.below(deck.length), 1)[0];
    }

    /** Faults until `until`, one at a time of each kind. */
    async #disturb(faults, rest, until, pick) {
        while (Date.now() < until) {
            await pause(rest / 2 + this.random.below(rest));
            const name = Date.now() < until && this.#draw(faults);
            const whom = pick?.();
            const ms = this.random.chance(0.4) ? 7000 + this.random.below(3000) : 500 + this.random.below(5000); // or longer than a lease
            if (name) {
                await this.#befall(whom ? `node ${name}` : `database ${name}`, () => faults[name](whom, ms), whom);
            }
        }
    }

    async phase(ms) {
        const until = Date.now() + ms;
        this.#release();
        // Half of them befall who owns a mount, if anybody does.
        const whom = () => (this.random.chance(0.5) && this.mounts?.owner.get(OWNED)) || this.node();
        const work = [this.#disturb(this.#nodeFaults, 1500, until, whom)];
        if (this.isPostgres && (this.only || this.random.chance(0.8))) {
            work.push(this.#disturb(this.#databaseFaults, 5000, until));
        }
        await Promise.all(work);
        this.#hold();
        await this.checkpoint();
    }

    // ---- comparing ----------------------------------------------------------------------------------------------

    /** What is only announced, as the database has it: of a URI, which numbers there are, and the one with the highest position. */
    async #announced() {
        const announced = new Map();
        if (!this.isPostgres) { // one node tells in the order in which it accepts
            this.events.forEach(({ uri, acknowledged: { n } }) => announced.set(uri, { all: new Set([n]), newest: n }));
            return announced;
        }
        const rows = await this.primary.sql('SELECT record FROM tidings_announced ORDER BY position');
        for (const { uri, metadata } of rows.map(([record]) => readRecord(record)).filter(({ uri }) => uri.startsWith(EVENTS))) {
            const { n } = JSON.parse(metadata);
            announced.set(uri, { all: (announced.get(uri)?.all ?? new Set()).add(n), newest: n });
        }
        return announced;
    }

    /** What all nodes say is there. */
    async #truth() {
        const values = new Map();
        for (const uri of [...this.entities, ...this.published]) {
            const said = await Promise.all(this.nodes.map((node) => readValue(node, uri).catch(() => undefined)));
            const texts = new Set(said.map((one) => JSON.stringify(one)));
            if (said.includes(undefined) || texts.size !== 1 || said[0]?.isStale) { // who cannot reach the database has yet to hear
                return { why: `nodes differ on ${uri}, or know it only from before: ${[...texts].join(', ')}` };
            }
            values.set(uri, said[0]?.value.n);
        }
        return { truth: { values, announced: await this.#announced() } };
    }

    /** Wait until `differs` says nothing; in vain: it is wrong. The ms it took. */
    async #settle(differs) {
        let why = '';
        const begun = Date.now();
        const isSettled = async () => {
            why = await differs();
            return !why;
        };
        await eventually(isSettled, 'everybody knows everything', SETTLED).catch(() => this.ledger.wrong(`checkpoint: ${why}`));
        return Date.now() - begun;
    }

    #mistakeOf(mistake) {
        const wrong = this.readers.map((reader) => [reader, mistake(reader)]).find(([, what]) => what);
        return wrong && `${wrong[0].name} at ${wrong[0].node?.name} ${wrong[1]}`;
    }

    /** What is wrong of mounts: who owns them, and what readers know of their files. */
    async #mountsDiffer() {
        const etags = new Map();
        for (const uri of this.mounts.uris) {
            etags.set(uri, (await readValue(this.nodes[0], uri).catch(() => undefined))?.version);
        }
        return await this.mounts.ownersDiffer() ?? this.#mistakeOf((reader) => reader.mistakeInMounts(etags));
    }

    /** When nothing fails any more, all nodes say the same and everybody believes it. */
    async checkpoint() {
        this.nodes.forEach((node) => node.running || this.ledger.wrong(`node ${node.name} ended by itself:\n${node.program.stderr}`));
        this.isAtRest = true;
        await eventually(() => this.people.every((one) => !one.busy), 'writers rest', SETTLED);
        const ms = await this.#settle(async () => {
            const { truth, why } = await this.#truth();
            return why ?? this.#mistakeOf((reader) => reader.mistake(truth));
        });
        if (this.mounts) {
            this.ledger.mountLatencies.push(ms + await this.#settle(() => this.#mountsDiffer()));
            this.mounts.writeAll(); // … and nobody begins to own them now, which would hide what is missed
            await this.#settle(() => this.#mountsDiffer());
            await this.mounts.judgeRows();
            this.mounts.judgeTruncated(this.readers);
        }
        this.readers.forEach((reader) => reader.isSettled());
        this.isAtRest = false;
        this.ledger.counts.checkpoints += 1;
        this.ledger.latencies.push(ms);
        this.log(`checkpoint after ${ms} ms, mounts ${this.ledger.mountLatencies.at(-1)} ms: ${JSON.stringify(this.ledger.counts)}`);
    }

    /** The whole history against what was acknowledged, and cursors against the positions in the store. */
    async end() {
        for (const uri of this.entities) {
            this.ledger.judgeHistory(uri, await history(this.node(), uri));
        }
        await this.#judgePublished();
        this.isOver = true;
        this.#release();
        this.readers.forEach((reader) => reader.leave());
        await Promise.all(this.running);
        if (this.isPostgres) {
            const positions = new Map();
            const rows = await this.primary.sql('SELECT id, vfrom, position FROM tidings_versions ORDER BY id, vfrom');
            for (const [id, ms, at] of rows) {
                positions.set(id, [...positions.get(id) ?? [], [Number(ms), Number(at)]]);
            }
            this.ledger.judgeCursors(positions);
        }
        for (const node of this.nodes) {
            await node.drain();
        }
        if (this.ledger.violations.length > 0) {
            this.nodes.forEach((node) => this.log(`log of ${node.name}:\n${node.said ?? ''}${node.program.stderr}`));
        }
    }

    /** What is published is the newest acknowledged, or something later that nobody knows of. */
    async #judgePublished() {
        for (const uri of this.published) {
            const now = await readValue(this.node(), uri);
            const mine = [...this.ledger.tokens].filter(([, write]) => write.uri === uri);
            const used = new Set(mine.filter(([, { outcome }]) => outcome === 'acknowledged').map(([, { base }]) => base));
            const last = mine.filter(([, { outcome, version }]) => outcome === 'acknowledged' && !used.has(version)).map(([token]) => token);
            const write = this.ledger.tokens.get(now?.value.token);
            if (!write || (write.outcome !== 'acknowledged' && write.outcome !== 'unknown')
                || (write.outcome === 'acknowledged' && !last.includes(now.value.token))) {
                this.ledger.wrong(`${uri} is ${JSON.stringify(now)} (${write?.outcome}), the last acknowledged are ${last}`);
            }
        }
    }
}
