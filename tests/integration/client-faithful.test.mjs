// SPDX-License-Identifier: MIT
//
// The client misses no change during network outages, clean server exits, crashes, and on servers without a change
// history. The test observes `tidings watch`.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { defer } from './lib/cleanup.mjs';
import { freePort } from './lib/port.mjs';
import { relay } from './lib/proxy.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { within } from './lib/wait.mjs';

const ERAS = ['modern', 'legacy'];

/** `tidings watch --json`: output lines as objects, and its standard error. */
function watch(t, era, url, ...uris) {
    const program = new Program(t, BIN, ['watch', '--json', '--era', era, '--wait', url, ...uris], { mayFail: true });
    const out = program.output();
    return {
        program,
        said: (pattern) => program.lines.next((line) => pattern.test(line), `${pattern}`),
        change: async (uri) => JSON.parse(await out.next((line) => JSON.parse(line).uri === uri, `a change of ${uri}`)),
        changes: () => out.seen.map((line) => JSON.parse(line)),
    };
}

for (const era of ERAS) {
    test(`${era}: changes during a network outage are delivered exactly once afterwards`, async (t) => {
        const server = await serve(t, { files: { 'a.txt': '0', 'b.txt': '0' }, args: ['--window', '0'] });
        const net = await relay(t, server);
        const root = server.uri('');
        const watching = watch(t, era, net.url, root);
        await watching.said(/^watching /);
        for (let i = 1; i <= 5; i += 1) {
            net.cut();
            server.tree.replace('a.txt', `${i}`); // merged with other changes of the same time
            server.tree.write(`new-${i}`, 'x');
            await watching.change(server.uri(`new-${i}`));
        }
        server.tree.replace('b.txt', 'last');
        await watching.change(server.uri('b.txt'));
        const told = watching.changes().map(({ uri }) => uri);
        for (let i = 1; i <= 5; i += 1) {
            assert.equal(told.filter((uri) => uri === server.uri(`new-${i}`)).length, 1, `new-${i} of ${told.join(' ')}`);
        }
        assert.ok(told.includes(server.uri('a.txt')));
    });

    for (const [how, signal] of [['ends in order', 'SIGTERM'], ['is killed', 'SIGKILL']]) {
        test(`${era}: server that ${how} and restarts loses no retained change`, async (t) => {
            const port = await freePort();
            const store = new Tree(t);
            const start = () => serve(t, {
                http: `127.0.0.1:${port}`,
                args: ['--store', store.at('store'), '--publish', 'app:///', '--allow-write', '--window', '0'],
            });
            const put = async (at, name) => {
                const to = `http://127.0.0.1:${at.port}/resource?uri=${encodeURIComponent(`app:///${name}`)}`;
                const response = await fetch(to, { method: 'PUT', body: 'x' });
                assert.ok(response.ok, `${response.status}`);
            };
            let server = await start();
            const watching = watch(t, era, server.url, 'app:///');
            await watching.said(/^watching /);
            await put(server, 'first');
            await watching.change('app:///first');
            // The last change may not reach the client before the server exits.
            await put(server, 'second');
            if (signal === 'SIGKILL') {
                await server.kill();
            } else {
                await server.stop();
            }
            server = await start();
            await put(server, 'third');
            await watching.change('app:///third');
            await watching.change('app:///second');
            const told = watching.changes().map(({ uri }) => uri);
            assert.deepEqual(told.sort(), ['app:///first', 'app:///second', 'app:///third']);
        });
    }
}

test('comparison finds unreported changes and marks them', async (t) => {
    const file = fileURLToPath(new URL('./lib/stranger-quiet.mjs', import.meta.url));
    const program = new Program(t, process.execPath, [file], { mayFail: true });
    const line = await program.lines.next((text) => text.startsWith('at '), 'that it serves');
    const port = Number(new URL(line.slice(3)).port);
    const net = await relay(t, { port });
    const change = (body) => fetch(`http://127.0.0.1:${port}/change`, { method: 'POST', body });
    const watching = watch(t, 'modern', net.url, 'note://it');
    await watching.said(/^watching /);
    await change('two');
    const told = await watching.change('note://it');
    assert.notEqual(told.synthetic, true);
    // No client listens during this change: the network is cut until the server answers.
    net.cut();
    await change('three');
    defer(t, () => net.cut());
    const found = await within(watching.change('note://it'), 'the change that was found');
    assert.equal(found.synthetic, true, JSON.stringify(found));
});
