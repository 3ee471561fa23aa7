// SPDX-License-Identifier: MIT
//
// A resource fuzzer. One principal sends random cheap requests (lib/hog.mjs) while another does ordinary work.
// Memory, descriptors, calls, sessions and subscriptions stay within docs/reference/limits.md. Every request of the other is
// answered within its deadline, and all usage returns to the start values when the first disconnects.
// TIDINGS_RESOURCE_SEED=N reruns a failed seed. TIDINGS_RESOURCE_SECONDS sets the duration of a run with new seeds.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { randomOf } from './lib/fault-world.mjs';
import { Hog, MOST_CONNECTIONS } from './lib/hog.mjs';
import { reset } from './lib/reset.mjs';
import { call, listen, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { eventually, slow, within } from './lib/wait.mjs';

const SECONDS = Number(process.env.TIDINGS_RESOURCE_SECONDS ?? (process.env.TIDINGS_LONG ? 120 : 4));
const ONLY = process.env.TIDINGS_RESOURCE_SEED;
const LIFE = 40_000 * slow; // deadline of a seed in ms, many times its usual duration
const ROUNDS = 8;
const STEPS = 60; // steps of the greedy principal before the other's turn
const BURSTS = ['session', 'listen', 'wait']; // one of each per round, ...
const BURST = 15; // ... this many at once, so that each seed reaches every share

const MIB = 1 << 20;
const WORKERS = 2;
const args = [
    '--workers', `${WORKERS}`, '--self', '--change-tools', 'on', '--window', '0', '--max-calls', '16', '--max-sessions', '40',
    '--max-all-subscriptions', '400', '--max-input', '8m', '--max-body', '256k', '--subscribe-rate', '0', '--request-rate', '0',
];
const SHARES = { 'max-calls': 4, 'max-sessions': 10, 'max-all-subscriptions': 100 };
const files = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`d${i % 3}/f${i}.txt`, 'x'.repeat(i * 2000)]));

/**
 * Permitted growth in bytes: --max-input; for each connection 64 KiB of a stream, or 256 KiB and one more pipelined
 * answer; and 8 MiB of freed memory for each thread.
 */
const THREADS = WORKERS + 6;
const MOST_MEMORY = 8 * MIB + MOST_CONNECTIONS * 512 * 1024 + THREADS * 8 * MIB;
const KEPT_MEMORY = THREADS * 8 * MIB;
const SPARE_DESCRIPTORS = 40; // rejected connections linger a second, 32 at most

const memoryOf = ({ child }) => 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]);
const descriptorsOf = ({ child }) => readdirSync(`/proc/${child.pid}/fd`).length;

async function limitsOf(operator) {
    const { contents } = await call(operator, 'resources/read', { uri: 'tidings://self/limits' });
    return Object.fromEntries(JSON.parse(contents[0].text).map((row) => [row.limit, row]));
}

/** Ordinary work: every request gets the correct answer. Each wait has the deadline of lib/wait.mjs. */
class Worker {
    turns = 0;

    constructor(server, who) {
        Object.assign(this, { server, who });
    }

    async begin() {
        this.uri = this.server.uri('d0/f0.txt');
        this.listening = await listen(this.who, { resourceSubscriptions: [this.uri] });
        this.session = await Session.open(this.who);
        this.stream = await this.session.stream();
        await this.session.subscribe(this.uri);
    }

    async turn() {
        const text = `turn ${(this.turns += 1)}`;
        this.server.tree.write('d0/f0.txt', text);
        await this.listening.events.message(updates(this.uri), 'the update of a listen');
        await this.stream.message(updates(this.uri), 'the update of a session');
        const { contents } = await call(this.who, 'resources/read', { uri: this.uri });
        assert.equal(contents[0].text, text);
        const { resources } = await call(this.who, 'resources/list');
        assert.ok(resources.length >= 30, `${resources.length}`);
        const { isError } = await call(this.who, 'tools/call', { name: 'wait_for_change', arguments: { uris: [this.uri], timeoutMs: 0 } });
        assert.ok(!isError);
        await this.session.call('resources/read', { uri: this.uri });
    }
}

/** All usage stays within the bounds during the requests of the greedy principal. */
async function compare(server, operator, before, hog) {
    const limits = await limitsOf(operator);
    for (const row of Object.values(limits)) {
        assert.ok(row.inUse === undefined || row.value === 0 || row.inUse <= row.value, JSON.stringify(row));
    }
    for (const [name, share] of Object.entries(SHARES)) {
        assert.equal(limits[name].share, share);
        const own = before.limits[name].inUse; // usage of the other principal, ...
        assert.ok(limits[name].inUse <= share + own + 2, `${name}: ${JSON.stringify(limits[name])}`); // ... which grows for a moment
    }
    const memory = memoryOf(server) - before.memory;
    assert.ok(memory <= MOST_MEMORY, `${memory >> 20} MiB more`);
    const descriptors = descriptorsOf(server) - before.descriptors;
    assert.ok(descriptors <= MOST_CONNECTIONS + SPARE_DESCRIPTORS, `${descriptors} descriptors more`);
    return { memory, reached: Object.keys(SHARES).filter((name) => limits[name].shareReached > 0), hog: hog.counts };
}

const end = async (operator, principal) => {
    const { isError } = await call(operator, 'tools/call', { name: 'end_peer', arguments: { principal } });
    assert.ok(!isError, 'the operator may end it');
};

/** The greedy principal has disconnected and its pending requests have ended: all usage is back at the start. */
async function settle(server, operator, before) {
    let left;
    const isAsBefore = async () => {
        await end(operator, 'hog');
        const limits = await limitsOf(operator);
        const shared = Object.keys(limits).filter((name) => limits[name].share !== undefined); // the server remembers a client
        left = shared.filter((name) => limits[name].inUse > before.limits[name].inUse);
        left = left.map((name) => `${name} ${before.limits[name].inUse} -> ${limits[name].inUse}`);
        return left.length === 0;
    };
    await eventually(isAsBefore, 'nothing is left').catch((error) => assert.fail(`${error.message}: ${left}`));
    await eventually(() => descriptorsOf(server) <= before.descriptors + 2, 'its descriptors are closed');
    await eventually(() => memoryOf(server) - before.memory <= KEPT_MEMORY, 'its memory is given back');
}

/** `at.step` is the name of the next step. */
async function live(t, seed, at) {
    const tokens = new TokenFile(t);
    const names = ['hog', 'ada', 'root'];
    const given = names.map((name) => tokens.give(name));
    const see = ['list', 'read', 'subscribe'];
    const rules = [...['hog', 'ada'].map((principal) => ({ principal, allow: see })), { principal: 'root', allow: [...see, 'write'] }];
    const server = await serve(t, { files, args: [...args, ...tokens.args, ...rules.flatMap((rule) => ['--access', JSON.stringify(rule)])] });
    const [asHog, asAda, operator] = given.map((token) => as(server, token));
    const uris = Object.keys(files).map((name) => server.uri(name)).concat(['', 'd1/', 'd2/*.txt', '**', 'd1/{name}.txt'].map((at) => server.uri(at)));
    const ada = new Worker(server, asAda);
    at.step = 'the other begins';
    await ada.begin();
    await ada.turn();
    const before = { limits: await limitsOf(operator), memory: memoryOf(server), descriptors: descriptorsOf(server) };
    const hog = new Hog(asHog, randomOf(seed), uris);
    defer(t, () => hog.goAway()); // also after a failure, so that no request reaches the next seed
    let seen;
    for (let round = 0; round < ROUNDS; round += 1) {
        for (let step = 0; step < STEPS; step += 1) {
            hog.act(step < BURST ? BURSTS[round % BURSTS.length] : undefined);
        }
        at.step = `the other has its turn in round ${round}`;
        await ada.turn();
        at.step = `the bounds in round ${round}`;
        seen = await compare(server, operator, before, hog);
        await end(operator, round % 4 === 3 ? 'hog' : 'nobody');
    }
    at.step = 'the hog goes away';
    await hog.goAway();
    at.step = 'all is as it was';
    await settle(server, operator, before);
    at.step = 'the last turn of the other';
    await ada.turn();
    t.diagnostic(`seed ${seed}: ${JSON.stringify(seen)}`);
    assert.deepEqual(seen.reached, Object.keys(SHARES), 'it has reached its shares');
}

/** A seed with a total deadline; a failure names the seed and the step. */
async function run(t, seed) {
    const at = { step: 'the server starts' };
    const where = () => `seed ${seed}, ${at.step}`;
    await within(live(t, seed, at), 'its end', LIFE).catch((error) => {
        error.message = `${where()}: ${error.message}`;
        throw error;
    });
}

test('socket is reset and released, also while its close is pending', async (t) => {
    const listener = net.createServer((socket) => socket.on('error', () => {}).resume());
    listener.listen(0, '127.0.0.1');
    defer(t, () => listener.close());
    await within(once(listener, 'listening'), 'the listener');
    for (const isEnding of [false, true]) {
        const socket = net.connect(listener.address().port, '127.0.0.1');
        await within(once(socket, 'connect'), 'a connection');
        if (isEnding) {
            socket.end();
        }
        reset(socket);
        await within(once(socket, 'close'), `its close, ending: ${isEnding}`);
    }
});

if (ONLY) {
    test(`seed ${ONLY}: greedy principal leaves another principal working`, (t) => run(t, Number(ONLY)));
} else {
    test('greedy principal leaves another principal working', async (t) => {
        const first = process.env.TIDINGS_LONG ? Math.floor(Date.now() / 1000) % 1_000_000 : 1;
        const until = Date.now() + SECONDS * 1000;
        for (let seed = first; seed === first || Date.now() < until; seed += 1) {
            await t.test(`seed ${seed} (TIDINGS_RESOURCE_SEED=${seed})`, (each) => run(each, seed));
        }
    });
}
