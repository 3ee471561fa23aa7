// SPDX-License-Identifier: MIT
//
// A short run of the chaos test (tests/cluster/chaos.mjs) with a fixed seed: three nodes on PostgreSQL with a
// synchronous standby, writers and clients of both eras on all nodes, and every component fails in turn.
// TIDINGS_CHAOS_SEED=N sets another seed; manual runs can be longer. The test does not judge throughput.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { chaos } from '../cluster/chaos.mjs';
import { skip } from './lib/postgres.mjs';

const SECONDS = process.env.TIDINGS_LONG ? 60 : 20;
const SEED = Number(process.env.TIDINGS_CHAOS_SEED ?? 18);

test(`seed ${SEED}: no failure loses an acknowledged write, hides a change or elects two winners`, { skip }, async (t) => {
    const last = [];
    const log = (text) => {
        last.push(text);
        last.splice(0, last.length - 60);
    };
    const figures = await chaos(t, { seed: SEED, seconds: SECONDS, phase: 10, readers: 30, log });
    t.diagnostic(JSON.stringify(figures));
    assert.deepEqual(figures.violations, [], last.join('\n'));
    const { acknowledged, notified, told, hops, sessionsMoved, faults, mounts } = figures;
    assert.ok(mounts.written > 0 && mounts.told > 0 && mounts.owners > 0 && acknowledged > 0 && notified > 0 && told > 0 && hops > 0 && sessionsMoved > 0 && Object.keys(faults).length > 0, JSON.stringify(figures));
});
