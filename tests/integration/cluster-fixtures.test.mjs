// SPDX-License-Identifier: MIT
//
// The fixtures of cluster tests: PostgreSQL servers keep commits over kills and failovers, an asynchronous standby
// loses commits, and a relay refuses, stalls and forwards.

import assert from 'node:assert/strict';
import net from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';

import { Postgres, skip } from './lib/postgres.mjs';
import { relay } from './lib/proxy.mjs';

const values = async (server) => (await server.sql('SELECT n FROM x ORDER BY n')).flat().map(Number);

test('database fixture keeps commits over a kill and a failover, and a lagging standby loses them', { skip }, async (t) => {
    const first = await Postgres.start(t);
    await first.sql('CREATE TABLE x (n int)');
    const second = await first.standby();
    await first.sql('INSERT INTO x VALUES (1)');
    await first.crash();
    await first.begin();
    await first.sql('INSERT INTO x VALUES (2)');
    await first.crash();
    await second.promote();
    await second.sql('INSERT INTO x VALUES (3)');
    assert.deepEqual(await values(second), [1, 2, 3]);

    // The same with an asynchronous standby that receives nothing for a while.
    const between = await relay(t, second);
    const third = await second.standby({ name: 'late', isSynchronous: false, through: between.port });
    between.refuse();
    await second.sql('INSERT INTO x VALUES (4)');
    await second.crash();
    await third.promote();
    assert.deepEqual(await values(third), [1, 2, 3]);
});

test('relay forwards, delays and refuses', async (t) => {
    const echo = net.createServer((socket) => socket.pipe(socket));
    await new Promise((resolve) => echo.listen(0, '127.0.0.1', resolve));
    t.after(() => echo.close());
    const between = await relay(t, echo.address());

    const socket = net.connect(between.port, '127.0.0.1').setEncoding('utf8');
    socket.write('one');
    assert.deepEqual(await once(socket, 'data'), ['one']);
    between.stall();
    let early = '';
    const hear = (text) => { early += text; };
    socket.on('data', hear);
    socket.write('two');
    const direct = net.connect(echo.address().port, '127.0.0.1').setEncoding('utf8');
    for (let i = 0; i < 20; i += 1) { // longer than an answer needs
        direct.write('x');
        await once(direct, 'data');
    }
    direct.destroy();
    assert.equal(early, '');
    socket.off('data', hear);
    between.stall(false);
    assert.deepEqual(await once(socket, 'data'), ['two']);

    const closed = once(socket, 'close');
    between.refuse();
    await closed;
    const refused = net.connect(between.port, '127.0.0.1');
    refused.on('error', () => {});
    await new Promise((resolve) => refused.on('close', resolve));
    between.refuse(false);
    const again = net.connect(between.port, '127.0.0.1').setEncoding('utf8');
    again.write('three');
    assert.deepEqual(await once(again, 'data'), ['three']);
    again.destroy();
});
