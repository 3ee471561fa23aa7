// SPDX-License-Identifier: MIT
//
// `tidings bench`: its counts add up in both eras over several transports, and it reports missing answers. This test
// does not judge speed.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { PATIENCE } from './lib/explore.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { noTerminal, Terminal } from './lib/terminal.mjs';
import { eventually } from './lib/wait.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const files = { 'a.txt': 'one\n' };

async function bench(t, args, code = 0) {
    const end = await run(t, ['bench', '--json', '--duration', '1s', ...args], { ms: 4 * PATIENCE });
    assert.equal(end.code, code, `${end.stdout}${end.stderr}`);
    return JSON.parse(end.stdout);
}

function checkTimes({ us, count }) {
    assert.ok(count > 0);
    const order = [us.min, us.p50, us.p90, us.p99, us.p999, us.max];
    assert.deepEqual(order, [...order].sort((a, b) => a - b));
}

for (const era of ['modern', 'legacy']) {
    test(`${era}: bench sends the requested requests and every client receives every change`, async (t) => {
        const server = await serve(t, { files });
        const change = `printf x >>'${server.tree.at('a.txt')}'`;
        const args = ['--era', era, '-c', '4', '-n', '20', '-l', '20', '--change', change, server.url, server.uri('a.txt')];
        const { requests, fanout } = await bench(t, args);
        assert.equal(requests.count, 20);
        assert.equal(requests.clients, 4);
        assert.equal(requests.errors + requests.missed + fanout.errors + fanout.missed, 0);
        assert.equal(fanout.clients, 20);
        assert.equal(fanout.count, 20 * fanout.changes);
        assert.ok(requests.clientCpu >= 0 && typeof requests.clientBound === 'boolean');
        checkTimes(requests);
        checkTimes(fanout);
    });
}

test('bench changes a resource with the publish tool over WebSocket', async (t) => {
    const server = await serve(t, { args: ['--publish', 'app:///', '--allow-write'] });
    await run(t, ['publish', server.url, 'app:///x'], { input: 'x' });
    const url = server.url.replace('http', 'ws');
    const { uri, fanout } = await bench(t, ['-c', '2', '-n', '10', '-l', '5', '--touch', url, 'app:///x']);
    assert.equal(uri, 'app:///x');
    assert.equal(fanout.count, 5 * fanout.changes);
});

test('bench measures a server on the official SDK', async (t) => {
    const program = new Program(t, process.execPath, [here('lib/stranger-v2.mjs')], { env: { PORT: '0' }, mayFail: true });
    const [, url] = await eventually(() => program.stderr.match(/^at (\S+)/m), 'it serves', PATIENCE);
    const { uri, requests, fanout } = await bench(t, ['-c', '2', '-n', '20', '--duration', '1m', url]);
    assert.equal(uri, 'count://it');
    assert.equal(requests.count, 20);
    assert.match(fanout.skipped, /--change or --touch/);
});

test('bench counts failed and missing answers and exits with status 1', async (t) => {
    const server = await serve(t, { files });
    const { requests } = await bench(t, ['-c', '1', '-n', '3', server.url, server.uri('missing')], 1);
    assert.equal(requests.errors, 3);
    const { fanout } = await bench(t, ['-c', '1', '-n', '1', '-l', '2', '--change', 'exit 1', server.url, server.uri('a.txt')], 1);
    assert.equal(fanout.errors, 1);
    const silent = await bench(t, ['-c', '1', '-n', '1', '-l', '2', '--change', 'true', server.url, server.uri('a.txt')], 1);
    assert.equal(silent.fanout.missed, 2);
});

test('interrupted bench prints the results so far', { skip: noTerminal }, async (t) => {
    const server = await serve(t, { files });
    const terminal = new Terminal(t, [BIN, 'bench', '-c', '2', '--duration', '1h', server.url, server.uri('a.txt')]);
    await terminal.shows(/requests: [1-9]/);
    terminal.type('\x03');
    await terminal.shows(/requests: [1-9]\d* in \d+\.\d s over 2 clients, \d+ in a second/);
    await terminal.shows('it ended before its time: interrupted');
    await terminal.shows(/median [\d.]+ ms/);
    assert.equal((await terminal.ended()).code, 1);
});

test('bench prints the results so far if the server stops during requests', { skip: noTerminal }, async (t) => {
    const server = await serve(t, { files });
    const args = ['bench', '-c', '2', '--duration', '1h', '--change', 'true', server.url, server.uri('a.txt')];
    const terminal = new Terminal(t, [BIN, ...args]);
    await terminal.shows(/requests: [1-9]/);
    await server.kill();
    await terminal.shows(/requests: [1-9]\d* in /);
    await terminal.shows('it ended before its time: the server went away');
    await terminal.shows('fan-out: not measured: the server went away');
    assert.equal((await terminal.ended()).code, 1);
});

for (const [how, ended] of [['the server goes away', 'the server went away'], ['a signal comes', 'interrupted']]) {
    test(`bench prints the results so far if ${how} during notifications`, async (t) => {
        const server = await serve(t, { files });
        const change = `printf x >>'${server.tree.at('a.txt')}'`;
        const args = ['bench', '--json', '-c', '1', '-n', '5', '-l', '3', '--duration', '1h', '--change', change];
        const program = new Program(t, BIN, [...args, server.url, server.uri('a.txt')], { mayFail: true });
        const out = program.output();
        await eventually(() => fs.statSync(server.tree.at('a.txt')).size >= 6, 'the second change');
        await (ended === 'interrupted' ? program.child.kill('SIGTERM') : server.kill());
        const { requests, fanout } = JSON.parse(await out.next(undefined, 'the report'));
        assert.deepEqual([requests.count, requests.ended], [5, 'done']);
        assert.equal(fanout.ended, ended);
        assert.ok(fanout.count >= 3 && fanout.changes >= 2 && fanout.elapsedMs >= 0);
        assert.equal((await program.closed).code, 1);
    });
}

test('text output has percentiles, bars and the cost of the client', async (t) => {
    const server = await serve(t, { files });
    const end = await run(t, ['bench', '-n', '50', '-c', '2', server.url, server.uri('a.txt')]);
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stdout, /^requests: 50 in \d+\.\d s over 2 clients, \d+ in a second$/m);
    assert.match(end.stdout, /^ {2}median [\d.]+ ms, 90 % [\d.]+, 99 % [\d.]+, longest [\d.]+$/m);
    assert.match(end.stdout, /^ {2}below +[\d.]+ ms +\d+ #+$/m);
    assert.match(end.stdout, /^ {2}the client used \d+ % of a core/m);
    assert.match(end.stdout, /^fan-out: not measured: --change or --touch/m);
    assert.equal(end.stderr, '');
});

test('invalid bench arguments are refused with the reason', async (t) => {
    const launched = await run(t, ['bench', '--', BIN, 'serve', '--stdio', '/']);
    assert.equal(launched.code, 64);
    const server = await serve(t, { files });
    assert.equal((await run(t, ['bench', '--touch', '--change', 'true', server.url])).code, 64);
    assert.equal((await run(t, ['bench', '-c', '0', server.url])).code, 64);
});
