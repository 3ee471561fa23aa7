// SPDX-License-Identifier: MIT
//
// What a run of the chaos test has seen, and what of it is wrong. Writers say what became of each write, readers what they
// were told; breaks of the database (its crash, a failover) are noted with their time, for they alone excuse `truncated`.
// Invariants that are judged here:
//
//   - what was acknowledged is there, once; what was refused is not; of the rest either is possible;
//   - of all compare-and-sets from one version at most one was acknowledged, and history is a chain: each version was
//     made from the one before it;
//   - what a reader was told of a resource rises, and nothing up to its cursor was kept from it.

export class Ledger {
    violations = [];
    counts = {
        writes: 0, acknowledged: 0, conflicts: 0, refused: 0, unknown: 0, notified: 0,
        told: 0, hops: 0, sessionsMoved: 0, sessionsLost: 0, repeated: 0, repeatedBelowCursor: 0, announcedLate: 0, truncated: 0,
        reads: 0, staleReads: 0, checkpoints: 0, faults: {},
    };
    tokens = new Map(); // of a write: { uri, base, outcome, version }
    won = new Map(); // `${uri} ${base}` -> token
    breaks = []; // when the database lost something, as ms
    cursors = []; // { who, position, heard: Map(entity -> ms), at, story }: claims to be held against the store
    repeats = []; // { who, id, version, position, story }
    latencies = []; // ms until everybody knew everything at rest …
    mountLatencies = []; // … of mounts too, which nobody may own for a while

    constructor(log = () => {}) {
        this.log = log;
    }

    wrong(what) {
        if (this.violations.length < 100) {
            this.violations.push(what);
            this.log(`WRONG: ${what}`);
        }
    }

    fault(name) {
        this.counts.faults[name] = (this.counts.faults[name] ?? 0) + 1;
    }

    /** The database may lose what is only announced, from now on: who is told `truncated` after this is told rightly. */
    broke() {
        this.breaks.push(Date.now());
    }

    brokeSince(ms) {
        return this.breaks.some((at) => at >= ms);
    }

    // ---- writes -----------------------------------------------------------------------------------------------

    /** A write from version `base` of `uri` is under way. */
    trying(token, uri, base) {
        this.counts.writes += 1;
        this.tokens.set(token, { uri, base, outcome: 'unknown' });
    }

    /** What became of it: acknowledged, conflict, refused or unknown. */
    became(token, outcome, version) {
        const write = this.tokens.get(token);
        write.outcome = outcome;
        write.version = version;
        this.counts[outcome === 'conflict' ? 'conflicts' : outcome] += 1;
        if (outcome === 'acknowledged') {
            const key = `${write.uri} ${write.base}`;
            if (this.won.has(key)) {
                this.wrong(`${write.uri}: ${token} and ${this.won.get(key)} both won from version ${write.base}`);
            }
            this.won.set(key, token);
        } else if (outcome !== 'unknown') {
            write.detail = version;
        }
    }

    /** All versions of an entity, oldest first: [{ validFrom, value: { token, base, n } }]. */
    judgeHistory(uri, versions) {
        const seen = new Map();
        versions.forEach(({ validFrom, value }, at) => {
            const before = versions[at - 1];
            if (seen.has(value.token)) {
                this.wrong(`${uri}: ${value.token} is in the history twice`);
            }
            seen.set(value.token, validFrom);
            if (before && value.base !== before.validFrom) {
                this.wrong(`${uri}: ${value.token} at ${validFrom} was made from ${value.base}, but follows ${before.validFrom}`);
            }
            if (before && value.n !== before.value.n + 1) {
                this.wrong(`${uri}: ${value.n} follows ${before.value.n}`);
            }
            const write = this.tokens.get(value.token);
            if (write && (write.outcome === 'refused' || write.outcome === 'conflict')) {
                this.wrong(`${uri}: ${value.token} was answered ${write.outcome} (${write.detail}) and is there`);
            }
        });
        for (const [token, write] of this.tokens) {
            if (write.uri === uri && write.outcome === 'acknowledged' && seen.get(token) !== write.version) {
                this.wrong(`${uri}: ${token} was acknowledged at ${write.version}, but is ${seen.get(token) ?? 'not there'}`);
            }
        }
    }

    // ---- what readers were told -----------------------------------------------------------------------------------

    /**
     * `positions`: of an entity's id, [ms of the version, position] pairs that rise. Nobody's cursor may claim more
     * than it was told, and what is told again must lie above the cursor that was given back. Who comes back is told of
     * each entity what changed it last; who is cut meanwhile may have a cursor above a version that it was not told of, but
     * then there was a newer one above the cursor, which it is told next.
     */
    judgeCursors(positions) {
        for (const { who, position, heard, at, story } of this.cursors) {
            for (const [id, ms] of heard) {
                const due = positions.get(id)?.findLast(([, at]) => at <= position);
                const isSuperseded = positions.get(id)?.some(([version, above]) => above > position && version <= at);
                if (due && due[0] > ms && !isSuperseded) {
                    this.wrong(`${who}: cursor at ${position} claims version ${due[0]} of ${id} (position ${due[1]}),`
                        + ` it knows ${ms}: ${story(id)}`);
                }
            }
        }
        for (const { who, id, version, position, story } of this.repeats) {
            const at = positions.get(id)?.find(([ms]) => ms === version)?.[1];
            if (at !== undefined && at <= position) {
                this.counts.repeatedBelowCursor += 1;
                this.log(`told again: ${who} ${id} ${version}, position ${at}, cursor ${position}: ${story?.()}`);
            }
        }
    }
}
