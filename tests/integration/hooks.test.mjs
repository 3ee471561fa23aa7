// SPDX-License-Identifier: MIT
//
// Watch hooks in a real program, examples/thermometers, in both eras. Its sensors run only while subscribed, and may
// reject, answer later or never answer.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call } from './lib/rpc.mjs';
import { serveExample } from './lib/server.mjs';
import { extras, Subscriber } from './lib/subscriber.mjs';
import { eventually } from './lib/wait.mjs';

const room = (name) => `thermometer:///${name}`;
const open = (t, args = []) => serveExample(t, 'thermometers', ['--window', '0', ...args]);

const watched = async (server) => {
    const { contents } = await call(server, 'resources/read', { uri: room('watched') });
    return contents[0].text.split('\n').filter(Boolean);
};
/** A listen ends with its stream, a session subscription with its session. */
const leave = async (s) => {
    s.close();
    await s.session?.end();
};
const becomes = (server, ...names) =>
    eventually(
        async () => String(await watched(server)) === String(names),
        `the sensors that are on to be: ${names}`,
    );

for (const era of ['legacy', 'modern']) {
    const it = (name, body) => test(`${era}: ${name}`, body);

    it('sensor runs from the first subscriber to the last', async (t) => {
        const server = await open(t);
        const one = await Subscriber.join(server, era);
        const two = await Subscriber.join(server, era);
        assert.deepEqual(await watched(server), []);
        await one.ask([room('kitchen')]);
        assert.deepEqual(await watched(server), ['kitchen']); // before the acknowledgement
        await two.ask([room('kitchen')]);
        assert.equal(typeof extras(await one.update(room('kitchen'))).metadata.celsius, 'number');
        await two.update(room('kitchen'));
        await leave(one);
        await two.update(room('kitchen'));
        assert.deepEqual(await watched(server), ['kitchen']);
        await leave(two);
        await becomes(server);
    });

    it('invalid hooks are rejected with a reason', async (t) => {
        const server = await open(t);
        const s = await Subscriber.join(server, era);
        const { honoured, refused } = await s.ask([room('attic'), room('kitchen')]);
        assert.deepEqual(honoured, [room('kitchen')]);
        assert.match(refused[room('attic')], /no working sensor/);
        await leave(s);
        await becomes(server);
    });

    it('hook may answer later from another thread', async (t) => {
        const server = await open(t);
        const s = await Subscriber.join(server, era);
        const { honoured } = await s.ask([room('cellar')]);
        assert.deepEqual(honoured, [room('cellar')]);
        assert.deepEqual(await watched(server), ['cellar']);
        await s.update(room('cellar'));
        await leave(s);
        await becomes(server);
    });

    it('unanswered hook is rejected before the deadline', async (t) => {
        const server = await open(t, ['--watch-timeout', '1s']);
        const s = await Subscriber.join(server, era);
        const { honoured, refused } = await s.ask([room('vault'), room('kitchen')]);
        assert.deepEqual(honoured, [room('kitchen')]);
        assert.match(refused[room('vault')], /1000 ms/);
        await leave(s);
        await becomes(server);
    });

    it('hook receives a pattern as a pattern', async (t) => {
        const server = await open(t);
        const s = await Subscriber.join(server, era);
        const pattern = room('{room}');
        const { refused } = await s.ask([pattern]);
        assert.deepEqual(refused, {});
        assert.deepEqual(await watched(server), ['{room}']);
        const rooms = new Set();
        while (rooms.size < 4) {
            rooms.add((await s.update(pattern)).params.uri);
        }
        await leave(s);
        await becomes(server);
    });
}
