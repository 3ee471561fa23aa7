// SPDX-License-Identifier: MIT
//
// Several nodes on one PostgreSQL while everything fails (world.mjs): `node tests/cluster/chaos.mjs [--seconds N] [--seed N]
// [--nodes N] [--readers N] [--writers N] [--events N] [--phase SECONDS] [--store postgres|sqlite] [--only FAULT,…] [--quiet]`. Prints what it drew, what
// befell, and in the end the figures as one line of JSON; fails when anything was wrong. TIDINGS_BIN is the program.

import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import { World } from './world.mjs';

/** A run of `seconds`: figures, with what was wrong. `t`: as a test has it. */
export async function chaos(t, { seconds, phase = 20, ...options }) {
    const world = new World(t, options);
    const begun = Date.now();
    await world.begin();
    while (Date.now() - begun < 1000 * seconds) {
        await world.phase(1000 * Math.min(phase, seconds));
    }
    await world.end();
    const { counts, violations, latencies, mountLatencies } = world.ledger;
    return {
        seed: options.seed, seconds: Math.round((Date.now() - begun) / 1000), ...world.sizes, ...counts,
        ...world.mounts && { mounts: { ...world.mounts.figures(), settledMsMax: Math.max(...mountLatencies) } },
        settledMsMax: Math.max(...latencies), violations,
    };
}

async function main() {
    const number = (text) => ({ type: 'string', default: text });
    const { values } = parseArgs({
        options: {
            seconds: number('600'), seed: number(`${Date.now() % 1_000_000}`), nodes: number('3'), readers: number('50'),
            writers: number('6'), events: number('8'), phase: number('20'), store: { type: 'string', default: 'postgres' }, only: { type: 'string' },
            quiet: { type: 'boolean' },
        },
    });
    const { store, quiet, only, ...numbers } = values;
    const begun = Date.now();
    const log = quiet ? () => {} : (text) => console.error(`${((Date.now() - begun) / 1000).toFixed(1)} ${text}`);
    const steps = [];
    const t = { after: (step) => steps.push(step), diagnostic: log, passed: true };
    const options = Object.fromEntries(Object.entries(numbers).map(([name, text]) => [name, Number(text)]));
    log(`seed ${options.seed}`);
    const undo = async () => {
        while (steps.length > 0) {
            await steps.shift()();
        }
    };
    ['SIGINT', 'SIGTERM'].forEach((signal) => process.once(signal, () => undo().finally(() => process.exit(1))));
    try {
        const figures = await chaos(t, { ...options, store, only: only?.split(','), log });
        console.log(JSON.stringify(figures));
        process.exitCode = figures.violations.length > 0 ? 1 : 0;
    } finally {
        await undo();
    }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
    await main();
}
