// SPDX-License-Identifier: MIT
//
// The machine as resources: system://metrics, read and watched in both eras, from a fake /proc.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call, listen, modern, Session, updates } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const URI = 'system://metrics';
const machine = {
    'proc/loadavg': '0.01 0.02 0.03 1/100 1\n',
    'proc/meminfo': 'MemTotal: 1000 kB\n',
    'proc/self/mounts': 'overlay / overlay rw 0 0\n',
    'proc/self/net/dev': 'lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n',
};

async function serveMachine(t, mount = {}) {
    const tree = new Tree(t, machine);
    const proc = `${tree.path}/proc`;
    tree.write('tidings.json', JSON.stringify({
        mounts: [{ type: 'system', proc, interval: '100ms', ...mount }],
    }));
    return serve(t, { tree, mounts: [], args: ['--config', `${tree.path}/tidings.json`] });
}

const json = async (server, uri) => {
    const { contents } = await call(server, 'resources/read', { uri });
    assert.equal(contents.length, 1);
    assert.equal(contents[0].uri, uri);
    assert.equal(contents[0].mimeType, 'application/json');
    return JSON.parse(contents[0].text);
};

test('--system serves metrics of the real machine', async (t) => {
    const server = await serve(t, { args: ['--system'] });
    const all = await json(server, URI);
    assert.ok(all.memory.totalBytes > 0);
    assert.ok(all.load.cpus >= 1);
    assert.deepEqual(Object.keys(all), ['disk', 'load', 'memory', 'network']);
    const { resources } = await call(server, 'resources/list', { uri: URI });
    assert.deepEqual(resources.map((r) => r.uri), Object.keys(all).map((name) => `${URI}/${name}`));
    const { json: missing } = await modern(server, 'resources/read', { uri: `${URI}/cpu` });
    assert.equal(missing.error.code, -32602);
});

test('container watcher receives the changed metric in either era', async (t) => {
    const server = await serveMachine(t);
    const { ack, events } = await listen(server, { resourceSubscriptions: [URI] });
    assert.deepEqual(ack.notifications.resourceSubscriptions, [URI]);
    const session = await Session.open(server);
    const stream = await session.stream();
    await session.call('resources/subscribe', { uri: `${URI}/load` });
    assert.equal((await json(server, `${URI}/load`)).load1, 0.01);
    server.tree.write('proc/loadavg', '7.00 0.02 0.03 1/100 1\n');
    const told = await events.message(updates(`${URI}/load`));
    assert.equal(told.params.subscribedUri, URI);
    await stream.message(updates(`${URI}/load`));
    assert.equal((await json(server, `${URI}/load`)).load1, 7);
});

test('mount accepts another URI, and wrong settings are rejected', async (t) => {
    const server = await serveMachine(t, { uri: 'host://here/now' });
    assert.equal((await json(server, 'host://here/now')).memory.totalBytes, 1024000);
    server.tree.write('wrong.json', '{"mounts": [{"type": "system", "interval": "1ms"}]}');
    const refused = await run(t, ['serve', '--config', server.tree.at('wrong.json')]);
    assert.equal(refused.code, 64);
    assert.match(refused.stderr, /interval: not a duration from 100ms to 1h/);
});
