// SPDX-License-Identifier: MIT
//
// Programs that embed the server: examples/editor in an epoll loop, examples/embed_libuv in a libuv loop,
// examples/hello on separate threads; with the official clients of both eras.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { call, key } from './lib/rpc.mjs';
import { legacyClient, modernClient } from './lib/sdk.mjs';
import { run, serveExample, EXAMPLES } from './lib/server.mjs';
import { extras, Subscriber, updatesFor } from './lib/subscriber.mjs';
import { eventually, within } from './lib/wait.mjs';

const BUFFER = 'editor:///buffer';
const OPTIONS = { windowMs: 0, include: 'metadata' };

/** Starts the editor; `type(line)` is the keyboard. */
async function edit(t, lines = []) {
    const server = await serveExample(t, 'editor');
    server.type = (...typed) => server.child.stdin.write(typed.map((line) => `${line}\n`).join(''));
    if (lines.length > 0) {
        server.type(...lines);
        await holds(server, lines);
    }
    return server;
}

const text = async (server, uri = BUFFER) =>
    (await call(server, 'resources/read', { uri })).contents[0].text;

const holds = (server, lines) =>
    eventually(
        async () => (await text(server)) === lines.map((line) => `${line}\n`).join(''),
        `the buffer to hold ${lines}`,
    );

for (const [era, connect] of [
    ['legacy', legacyClient],
    ['modern', modernClient],
]) {
    test(`${era}: official client lists and reads the edited text`, async (t) => {
        const { client, server } = await connect(t, 'http', { example: 'editor' });
        const { resources } = await client.listResources();
        assert.deepEqual(
            resources.filter(({ uri }) => uri.startsWith('editor:')).map(({ uri }) => uri),
            [BUFFER],
        );
        const { resourceTemplates } = await client.listResourceTemplates();
        assert.ok(resourceTemplates.some((one) => one.uriTemplate === 'editor:///line/{n}'));
        server.child.stdin.write('first\nsecond\n');
        await holds(server, ['first', 'second']);
        const line = await client.readResource({ uri: 'editor:///line/2' });
        assert.equal(line.contents[0].text, 'second');
        await assert.rejects(client.readResource({ uri: 'editor:///line/3' }), /line 3/);
    });

    test(`${era}: every edit is reported with its line and readable at once`, async (t) => {
        const server = await edit(t, ['one', 'two']);
        const s = await Subscriber.join(server, era);
        await s.ask([BUFFER, 'editor:///line/1'], OPTIONS);
        server.type(':1 ONE');
        let update = await s.update(BUFFER);
        assert.deepEqual(
            { line: extras(update).metadata.line, lines: extras(update).metadata.lines },
            { line: 1, lines: 2 },
        );
        await s.update('editor:///line/1');
        assert.equal(await text(server), 'ONE\ntwo\n');
        assert.equal(await text(server, 'editor:///line/1'), 'ONE');
        server.type(':d 2');
        update = await s.update(BUFFER);
        assert.equal(extras(update).metadata.lines, 1);
        assert.equal(await text(server), 'ONE\n');
    });

    test(`${era}: last state of a burst of edits is reported`, async (t) => {
        const server = await edit(t, ['start']);
        const s = await Subscriber.join(server, era);
        await s.ask([BUFFER], OPTIONS);
        const typed = Array.from({ length: 900 }, (_, i) => `line ${i}`);
        server.type(...typed);
        const isLast = (message) =>
            updatesFor(BUFFER)(message) && extras(message).metadata.lines === 901;
        await s.message(isLast, 'the update of the last line');
        assert.equal(await text(server, 'editor:///line/901'), 'line 899');
    });
}

test('requests of many clients are answered during edits', async (t) => {
    const server = await edit(t, ['start']);
    const clients = Array.from({ length: 20 }, async () => {
        for (let i = 0; i < 10; i += 1) {
            assert.match(await text(server), /^start\n/);
        }
    });
    for (let i = 0; i < 50; i += 1) {
        server.type(`line ${i}`);
    }
    await Promise.all(clients);
    await holds(server, ['start', ...Array.from({ length: 50 }, (_, i) => `line ${i}`)]);
});

for (const [how, end] of [
    [':q', (server) => server.type(':q')],
    ['the end of input', (server) => server.child.stdin.end()],
    ['SIGTERM', (server) => server.child.kill('SIGTERM')],
]) {
    test(`${how} ends the loop: listens get their result and the exit status is 0`, async (t) => {
        const server = await edit(t, ['start']);
        const s = await Subscriber.join(server, 'modern');
        await s.ask([BUFFER], OPTIONS);
        end(server);
        const result = await s.message((message) => message.result, 'the result of the listen');
        assert.equal(typeof result.result._meta[key.subscription], 'number');
        server.check(await within(server.exited, 'the editor to end'));
    });
}

test('address in use is reported in one line', async (t) => {
    const server = await edit(t);
    const second = await run(t, ['--http', `127.0.0.1:${server.port}`], {
        file: `${EXAMPLES}/editor`,
    });
    assert.notEqual(second.code, 0);
    assert.match(second.stderr, /^editor: address 127\.0\.0\.1:\d+ is in use/);
});

test('thirty lines of C are a live server', async (t) => {
    const source = fs.readFileSync(new URL('../../examples/hello.c', import.meta.url), 'utf8');
    const code = source.replace(/\/\*[^]*?\*\//g, '').split('\n').filter((line) => line.trim() !== '');
    assert.ok(code.length <= 30, `${code.length} lines`);
    const server = await serveExample(t, 'hello', ['--window', '0']);
    const { stdout } = await run(t, ['info', '--json', server.url]);
    assert.deepEqual(JSON.parse(stdout).server, { name: 'hello', version: '0' }); // of the program, not of tidings
    const s = await Subscriber.join(server, 'modern');
    await s.ask(['hello:///count']);
    await s.update('hello:///count');
    assert.match(await text(server, 'hello:///count'), /^hello:\/\/\/count is [1-9]\d*\n$/);
    await server.kill();
});

test('libuv loop serves reads and delivers ticks of the host', async (t) => {
    const server = await serveExample(t, 'embed_libuv');
    const s = await Subscriber.join(server, 'modern');
    await s.ask(['clock:///now'], { windowMs: 0 });
    const before = Number(await text(server, 'clock:///now'));
    await s.update('clock:///now');
    await s.update('clock:///now');
    assert.ok(Number(await text(server, 'clock:///now')) > before);
    await server.stop();
});
