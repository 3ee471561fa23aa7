// SPDX-License-Identifier: MIT
//
// Program output as a resource: read and watched in both eras, and killed with the server.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { call, listen, modern, Session, updates } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const URI = 'cmd:///it';

/** Serves a shell script that runs in the tree. */
async function serveScript(t, script, { files, ...keys } = {}) {
    const tree = new Tree(t, files);
    const mount = { type: 'command', uri: URI, argv: ['sh', '-c', script], cwd: tree.path, ...keys };
    tree.write('tidings.json', JSON.stringify({ mounts: [mount] }));
    return serve(t, { tree, mounts: [], args: ['--config', tree.at('tidings.json')] });
}

const read = async (server) => (await call(server, 'resources/read', { uri: URI })).contents[0];

test('command is listed, described and read without a shell', async (t) => {
    const argv = ['printf', '%s|', '$HOME', '*', 'a b'];
    const server = await serveScript(t, '', { argv, title: 'Words', mimeType: 'text/x-words' });
    const { resources } = await call(server, 'resources/list');
    assert.deepEqual(resources.map((r) => [r.uri, r.name, r.title]), [[URI, 'it', 'Words']]);
    const content = await read(server);
    assert.equal(content.text, '$HOME|*|a b|');
    assert.equal(content.mimeType, 'text/x-words');
    assert.equal(content.uri, URI);
    const { resourceTemplates } = await call(server, 'resources/templates/list');
    assert.deepEqual(resourceTemplates, []);
});

test('watchers of both eras receive only changed output', async (t) => {
    const server = await serveScript(t, 'echo x >>runs; cat in', {
        interval: '100ms',
        files: { in: 'one' },
    });
    const { events } = await listen(server, { resourceSubscriptions: [URI] });
    const session = await Session.open(server);
    const stream = await session.stream();
    await session.subscribe(URI);
    assert.equal((await read(server)).text, 'one');
    const runs = () => fs.readFileSync(server.tree.at('runs'), 'utf8').length;
    await eventually(() => runs() > 8, 'it has been run again and again');
    server.tree.replace('in', 'two');
    const told = await events.message(updates(URI));
    assert.equal(told.params._meta['dev.tidings/size'] ?? 3, 3);
    await stream.message(updates(URI));
    assert.equal((await read(server)).text, 'two');
    assert.equal(events.seen.filter((item) => item.json && updates(URI)(item.json)).length, 1);
});

test('failure is an error that ends with standard error', async (t) => {
    const server = await serveScript(t, 'echo out; echo no such thing >&2; exit 4');
    const { json } = await modern(server, 'resources/read', { uri: URI });
    assert.match(json.error.message, /'sh' ended with status 4: no such thing/);
});

test('command without an interval rejects subscriptions and runs for each read', async (t) => {
    const server = await serveScript(t, 'echo x >>runs; wc -l <runs', { interval: 0 });
    assert.equal((await read(server)).text.trim(), '1');
    assert.equal((await read(server)).text.trim(), '2');
    const { resource } = await call(server, 'resources/metadata', { uri: URI });
    assert.deepEqual(resource.capabilities, { list: false, subscribe: false });
    const session = await Session.open(server);
    const refused = await session.send('resources/subscribe', { uri: URI });
    assert.ok(refused.json.error);
});

test('running command is killed with the server, however it stops', async (t) => {
    for (const how of ['SIGTERM', 'SIGKILL']) {
        const server = await serveScript(t, 'echo $$ >pid; exec sleep 1000', { timeout: '1h' });
        modern(server, 'resources/read', { uri: URI }).catch(() => {});
        const pid = await eventually(() => {
            const file = server.tree.at('pid');
            const text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
            return text.endsWith('\n') && Number(text);
        }, 'the command runs');
        await (how === 'SIGKILL' ? server.kill() : server.stop('SIGTERM', 10_000));
        await eventually(() => {
            try {
                return fs.readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
            } catch {
                return true;
            }
        }, `the command is gone after ${how}`);
    }
});

test('invalid mount is refused with the accepted form', async (t) => {
    const tree = new Tree(t);
    for (const [mount, message] of [
        [{ type: 'command', argv: ['a'] }, /uri: a mount of this type needs one/],
        [{ type: 'command', uri: URI }, /argv is missing/],
        [{ type: 'command', uri: URI, argv: ['a'], shell: true }, /unknown key 'shell'/],
        [{ type: 'comand', uri: URI }, /'comand' is not a provider \(accepted: file, system, command\)/],
    ]) {
        tree.write('tidings.json', JSON.stringify({ mounts: [mount] }));
        const { code, stderr } = await run(t, ['serve', '--config', tree.at('tidings.json')]);
        assert.equal(code, 64);
        assert.match(stderr, message);
    }
});
