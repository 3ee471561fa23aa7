// SPDX-License-Identifier: MIT
//
// System calls of a running server fail at random (lib/fault-world.mjs). Acknowledged changes survive, every watcher
// knows the state or knows that it missed changes, and a committed state explains each rejection.
// TIDINGS_FAULT_SEED=N reruns a failed seed. TIDINGS_FAULT_SECONDS sets the duration of a long run with new seeds.

import { test } from 'node:test';

import { World } from './lib/fault-world.mjs';
import { Faults, skip } from './lib/faults.mjs';
import { serve } from './lib/server.mjs';
import { extras, isUpdate, Subscriber } from './lib/subscriber.mjs';
import { eventually } from './lib/wait.mjs';

const LONG = Number(process.env.TIDINGS_FAULT_SECONDS ?? (process.env.TIDINGS_LONG ? 120 : 0));
const ONLY = process.env.TIDINGS_FAULT_SEED;
const SHORT = 5; // seeds of a short run
const CONTESTS = 12; // contests of several writers during failing commits

async function live(t, seed) {
    const world = new World(t, seed);
    try {
        await world.begin();
        for (let i = 0; i < 2; i += 1) {
            await world.disturb(15);
            await world.contests.run(CONTESTS);
            await world.compare();
            await world.renew();
            await world.compare();
        }
        await world.disturb(10);
        await world.restart();
        await world.compare();
        await world.renew();
        await world.compare();
    } catch (error) {
        world.assertNoFailure();
        throw error;
    } finally {
        await world.end();
    }
    world.assertNoFailure();
    t.diagnostic(`seed ${seed}: ${JSON.stringify(world.counts)} failed: ${JSON.stringify(world.failed)}`
        + ` contests: ${JSON.stringify(world.contests.counts)}`);
}

const seeds = ONLY ? [Number(ONLY)] : [...Array(SHORT).keys()].map((n) => n + 1);
for (const seed of seeds) {
    test(`seed ${seed}: acknowledged changes survive and reach all clients after any fault`, { skip }, (t) => live(t, seed));
}

if (LONG > 0 && !ONLY && !skip) {
    test('acknowledged changes survive other seeds for the configured time', async (t) => {
        const until = Date.now() + LONG * 1000;
        for (let seed = Math.floor(Date.now() / 1000) % 1_000_000; Date.now() < until; seed += 1) {
            await t.test(`seed ${seed}`, (each) => live(each, seed));
        }
    });
}

test('changes of unreadable files are delivered after the files become readable', { skip }, async (t) => {
    const faults = new Faults(t);
    const server = await serve(t, { files: { 'a.txt': '1', 'd/b.txt': '1' }, env: faults.env });
    const subscriber = await Subscriber.join(server, 'modern');
    await subscriber.ask([server.uri('')], { windowMs: 0 });
    for (const round of [2, 3]) {
        faults.on({ stat: 1, open: 1 });
        server.tree.write('a.txt', `${round}`);
        server.tree.remove('d/b.txt');
        await eventually(() => faults.failed('stat') + faults.failed('open') >= 4, 'looks have failed');
        faults.off();
        const isTold = (uri) => (m) => isUpdate(m) && (m.params.uri === uri || extras(m).truncated);
        await subscriber.message(isTold(server.uri('a.txt')), 'what became of a file');
        await eventually(() => subscriber.messages.some(isTold(server.uri('d/b.txt'))), 'the end of the other is told');
        // All watchers still receive changes.
        server.tree.write('d/b.txt', `again ${round}`);
        await subscriber.message((m) => isUpdate(m) && m.params.uri === server.uri('d/b.txt'), 'the next change');
    }
    subscriber.close();
});
