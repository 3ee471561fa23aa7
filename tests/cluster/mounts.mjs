// SPDX-License-Identifier: MIT
//
// Mounts of the chaos test that several nodes have, files that change all the time in them, and what is promised of them:
//
//   - `file://owned/` is one directory at all nodes, and one of them owns it: at rest every reader was told of each file's
//     newest state, with its etag, or to look again since it was written; and has read it. Nobody is told to look again unless
//     somebody began to own the mount since, or the database broke.
//   - `file://shared/` is one directory, too, and each node watches it itself: the same, but who came to a node is told once
//     for each subscription to look again.
//   - `file://each/` is another directory at each node, and its files have the node's name: so a row of the database says who
//     announced it. Between two rows that say "look again" one node alone announces.
//
// How long it takes until another node owns a mount is measured from the fault that befell its owner, and is not judged.

import fs from 'node:fs';

import { pause } from '../integration/lib/fault-watcher.mjs';
import { readRecord } from '../integration/lib/record.mjs';
import { Tree } from '../integration/lib/tree.mjs';

export const OWNED = 'file://owned/';
export const SHARED = 'file://shared/';
const EACH = 'file://each/';
const LASTING = 6; // files of a mount that are always there
const PASSING = 3; // … and that come and go
const SETTLES = 10_000; // ms after which who owns a mount has not lost it by what befell it before

/** Does a subscription to `wish` cover `uri`? */
export const covers = (wish, uri) => wish === uri || (/[/*]$/.test(wish) && uri.startsWith(wish.replace(/\*+$/, '')));

/** Of a file that changed a moment ago the etag is weak. */
const isSameState = (a, b) => a?.replace(/W\/|"/g, '') === b?.replace(/W\/|"/g, '');

/**
 * Was somebody told how a file is, who was last told `told` ({ etag, at }; no etag: it was removed), and at `looked` to look again?
 * Of one that is not there it is enough to have been told to look when it was not, too: what came and went since need not have been
 * seen by anybody (a look follows a burst of events, or the node was stopped meanwhile).
 */
export function isToldOf(file, etag, { told, looked }) {
    const from = told?.at ?? 0;
    return looked >= file.at || (told !== undefined && isSameState(told.etag, etag))
        || (file.n === undefined && looked >= from && file.gone.some(([began, ended]) => began <= looked && ended >= from));
}

const some = (count, make) => [...Array(count).keys()].map(make);

/** What the log of a node says of the mounts it owns, as it goes on. */
class OwnerLog {
    at = 0;

    /** [{ ms, owns, mount }] since it was last asked. */
    next(text) {
        const end = text.lastIndexOf('\n') + 1;
        const lines = text.slice(this.at, end).split('\n');
        this.at = end;
        return lines.map((line) => /^(\S+).*this node (owns a mount|does not own a mount any more) mount=(\S+)/.exec(line))
            .filter(Boolean)
            .map(([, when, what, mount]) => ({ ms: Date.parse(when), owns: what === 'owns a mount', mount }));
    }
}

export class Mounts {
    files = new Map(); // of a URI: { path, n, at, gone }; n undefined: it is not there; gone: when it was not, [from, to] in ms
    owner = new Map(); // of a mount: the node
    takeovers = []; // { cause, ms, isClean }
    counts = { written: 0, told: 0, owners: 0, toldToLookOwned: 0, toldToLookShared: 0 };
    #logs = new WeakMap();
    #pending = new Map(); // of a mount: what befell its owner
    #judged = 0; // position up to which rows of EACH were
    #judgedAt = 0;
    #announcer; // of the last of them
    entered = []; // positions at which somebody began to own OWNED

    constructor(world, names) {
        this.world = world;
        this.names = names;
        this.tree = new Tree(world.t);
        for (const [mount, folder] of [[OWNED, 'owned'], [SHARED, 'shared']]) {
            this.tree.mkdir(folder);
            some(LASTING, (i) => this.#add(`${mount}f${i}`, `${folder}/f${i}`));
            some(PASSING, (i) => this.#add(`${mount}g${i}`, `${folder}/g${i}`));
        }
        names.forEach((name) => this.tree.mkdir(`each-${name}`));
        this.uris = [...this.files.keys()];
        this.lasting = this.uris.filter((uri) => /\/f\d+$/.test(uri));
        this.lasting.forEach((uri) => this.write(uri));
    }

    #add(uri, name) {
        this.files.set(uri, { path: this.tree.at(name), n: undefined, last: 0, at: 0, gone: [[0, Infinity]] });
    }

    /** How the node of this name is to be started. */
    args(name) {
        const mount = (uri, folder) => ['--mount', `${uri}=${this.tree.at(folder)}`];
        return [...mount(OWNED, 'owned'), '--owned', OWNED, ...mount(SHARED, 'shared'), '--shared', SHARED,
            ...mount(EACH, `each-${name}`), '--owned', EACH];
    }

    // ---- writing ------------------------------------------------------------------------------------------------

    /** It is there now. */
    #came(file) {
        if (file.gone.at(-1)?.[1] === Infinity) {
            file.gone.at(-1)[1] = Date.now();
        }
    }

    /** It will not be there any more, as of now. */
    #goes(file, now) {
        file.n = undefined;
        file.at = now;
        file.gone.push([now, Infinity]);
        this.counts.written += 1;
    }

    write(uri, isInPlace = false) {
        const file = this.files.get(uri);
        const text = JSON.stringify({ n: file.last + 1 });
        const aside = this.tree.aside();
        if (!isInPlace) {
            fs.writeFileSync(aside, text);
        }
        file.n = file.last += 1;
        file.at = Date.now();
        if (isInPlace) {
            fs.writeFileSync(file.path, text);
        } else {
            fs.renameSync(aside, file.path);
        }
        this.#came(file);
        this.counts.written += 1;
    }

    remove(uri) {
        const file = this.files.get(uri);
        this.#goes(file, Date.now());
        fs.unlinkSync(file.path);
    }

    /** One that comes and goes: made, removed, or renamed to one that is not there. */
    #pass(uri) {
        const { random } = this.world;
        const file = this.files.get(uri);
        const free = this.uris.filter((other) => /\/g\d+$/.test(other) && other.slice(0, -1) === uri.slice(0, -1)
            && this.files.get(other).n === undefined);
        if (file.n === undefined) {
            this.write(uri);
            return;
        }
        const to = random.chance(0.5) && free.length > 0 ? this.files.get(random.pick(free)) : undefined;
        if (!to) {
            this.remove(uri);
            return;
        }
        const now = Date.now();
        to.n = file.n; // what it is called does not change what is in it
        to.last = Math.max(to.last, file.n);
        to.at = now;
        this.#goes(file, now);
        fs.renameSync(file.path, to.path);
        this.#came(to);
    }

    /** When a file was not there lately, in seconds of the run. */
    whenGone(uri) {
        const second = (ms) => (Math.max(0, ms - this.world.begun) / 1000).toFixed(2);
        return this.files.get(uri).gone.slice(-8).map(([from, to]) => `${second(from)}-${to === Infinity ? '' : second(to)}`).join(', ');
    }

    /** Each file once more. */
    writeAll() {
        this.uris.forEach((uri) => this.write(uri));
    }

    async run() {
        const { world } = this;
        const { random } = world;
        for (;;) {
            await world.mayWrite;
            if (world.isOver) {
                return;
            }
            const uri = random.pick(this.uris);
            if (this.lasting.includes(uri)) {
                this.write(uri, random.chance(0.3));
            } else {
                this.#pass(uri);
            }
            const name = random.pick(this.names);
            this.tree.write(`each-${name}/${name}${random.below(4)}`, `${Date.now()}`);
            this.#watchOwners();
            await pause(20 + random.below(100));
        }
    }

    // ---- who owns them --------------------------------------------------------------------------------------------

    /** This befalls a node, or (without one) the database. */
    befalls(cause, node) {
        this.#watchOwners();
        for (const mount of [OWNED, EACH]) {
            const pending = this.#pending.get(mount);
            if (!node && pending) {
                pending.isClean = false;
            } else if (node && this.owner.get(mount) === node) {
                const isFirst = !pending || Date.now() - pending.at > SETTLES; // else nobody knows which it was
                this.#pending.set(mount, { cause, at: Date.now(), isClean: isFirst && this.world.isDatabaseWell });
            }
        }
    }

    #watchOwners() {
        for (const node of this.world.nodes) {
            const { program } = node;
            const log = this.#logs.get(program) ?? new OwnerLog();
            this.#logs.set(program, log);
            log.next(program.stderr).forEach(({ ms, owns, mount }) => this.#owns(node, mount, owns, ms));
        }
    }

    #owns(node, mount, owns, ms) {
        if (!owns) {
            if (this.owner.get(mount) === node) {
                this.owner.delete(mount);
            }
            return;
        }
        const pending = this.#pending.get(mount);
        this.#pending.delete(mount);
        this.owner.set(mount, node);
        this.counts.owners += 1;
        if (pending) {
            const taken = { cause: pending.cause, ms: ms - pending.at, isClean: pending.isClean && this.world.isDatabaseWell };
            this.takeovers.push(taken);
            this.world.log(`${node.name} owns ${mount} ${taken.ms} ms after ${taken.cause}${taken.isClean ? '' : ', and more'}`);
        }
    }

    /** Of each cause: how many, and the longest in ms; those during which something else failed too apart. */
    figures() {
        const taken = {};
        for (const { cause, ms, isClean } of this.takeovers) {
            const name = isClean ? cause : 'several';
            const sum = taken[name] ??= { count: 0, msMax: 0 };
            sum.count += 1;
            sum.msMax = Math.max(sum.msMax, ms);
        }
        return { ...this.counts, takeovers: taken };
    }

    // ---- comparing ------------------------------------------------------------------------------------------------

    /**
     * What the database has of announcements since it was last asked: who announced in EACH, and when somebody began to own a
     * mount. A crash empties the table, also of rows that say so: those after it are judged by themselves.
     */
    async judgeRows() {
        if (this.world.ledger.brokeSince(this.#judgedAt)) {
            this.#announcer = undefined;
        }
        this.#judgedAt = Date.now();
        const rows = await this.world.primary.sql(`SELECT position, record FROM tidings_announced
            WHERE position > ${this.#judged} AND position('file://'::bytea IN record) > 0 ORDER BY position`);
        for (const [position, record] of rows) {
            const { uri } = readRecord(record);
            this.#judged = Number(position);
            if (uri === `*${OWNED}`) {
                this.entered.push(Number(position));
            } else if (uri === `*${EACH}`) {
                this.#announcer = undefined;
            } else if (uri.startsWith(EACH)) {
                const name = uri.slice(EACH.length, EACH.length + 1);
                if (this.#announcer && this.#announcer !== name) {
                    this.world.ledger.wrong(`${uri} at ${position}: announced by ${name}, before it said that everybody has to look again,`
                        + ` after ${this.#announcer} had announced`);
                }
                this.#announcer = name;
            }
        }
    }

    /** Who was told to look again in OWNED was told because somebody began to own it. */
    judgeTruncated(readers) {
        for (const reader of readers) {
            for (const { since, story, wholeAt } of reader.mustLook.splice(0)) {
                if (!this.entered.some((position) => position > since) && !this.world.ledger.brokeSince(wholeAt)) {
                    this.world.ledger.wrong(`${reader.name} was told to look again in ${OWNED} after ${since}, but nobody began to own it: ${story}`);
                }
            }
        }
    }

    /** One node owns each, and says so. Else: why not. */
    async ownersDiffer() {
        this.#watchOwners();
        const rows = await this.world.primary.sql('SELECT name, state FROM tidings_nodes WHERE until > extract(epoch FROM clock_timestamp()) * 1000');
        for (const mount of [OWNED, EACH]) {
            const owners = rows.filter(([, state]) => JSON.parse(state).owns?.includes(mount)).map(([name]) => name);
            if (owners.length !== 1) {
                return `${mount} is owned by ${owners.length === 0 ? 'nobody' : owners.join(' and ')}`;
            }
        }
        return undefined;
    }
}
