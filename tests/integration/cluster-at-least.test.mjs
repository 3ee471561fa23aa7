// SPDX-License-Identifier: MIT
//
// A client that receives a change at one node reads it at another node with the cursor of the message, even if a window
// holds that cursor below the change or the client's cursors are sealed.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { Node } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call, meta } from './lib/rpc.mjs';
import { run } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { eventually } from './lib/wait.mjs';
import { ERAS, Watcher } from './lib/watcher.mjs';

const CURSOR = 'dev.tidings/cursor';
const AT_LEAST = 'dev.tidings/atLeast';
const see = ['list', 'read', 'subscribe'];
const rules = [
    { principal: 'ada', uri: 'published:///**', allow: see },
    { principal: 'bob', allow: [...see, 'write'] },
].flatMap((rule) => ['--access', JSON.stringify(rule)]);

test('read at another node succeeds with the cursor of a message', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const tokens = new TokenFile(t);
    const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
    const args = [...tokens.args, ...rules, '--allow-write', '--window', '60s', '--self'];
    const [a, b] = await Promise.all(['a', 'b'].map((name) => Node.make(t, name, { databases: [database], args })));
    await a.start();
    await b.start();
    const publish = (uri, text) =>
        call(as(a.program, bob), 'tools/call', { name: 'publish', arguments: { uri, text } });
    const readers = {
        'resources/read': async (token, uri, cursor) => {
            const { contents } = await call(as(b.program, token), 'resources/read', { uri, _meta: meta(cursor && { [AT_LEAST]: cursor }) });
            return contents[0].text;
        },
        'GET /resource': async (token, uri, cursor) => {
            const path = `/resource?uri=${encodeURIComponent(uri)}`;
            const headers = { Authorization: `Bearer ${token}`, 'Tidings-At-Least': cursor };
            return (await request(b.program, { method: 'GET', path, headers })).text;
        },
    };
    let pairs = 0;

    /** The metadata of a message for a change that was written after a change that a window of the same listen delays.
     * */
    const told = async (era, token, cut) => {
        const [x, y] = ['x', 'y'].map((name) => `published:///${name}${pairs}`);
        pairs += 1;
        await publish(x, 'zero');
        await publish(y, 'zero');
        const watcher = await Watcher.open(era, as(a.program, token), [x, y]);
        await publish(x, 'one');
        await watcher.updated(x);
        await publish(x, 'two'); // within the window: held back
        const isThere = () => readers['resources/read'](bob, x).then((text) => text === 'two', () => false);
        await eventually(isThere, 'the other node to come as far as the cursor');
        cut?.(); // it receives none of the later writes
        await publish(y, 'one');
        const { _meta } = await watcher.updated(y);
        watcher.close();
        return { uri: y, cursor: _meta[CURSOR] };
    };

    for (const era of ERAS) {
        for (const [who, token] of Object.entries({ ada, bob })) {
            for (const [how, read] of Object.entries(readers)) {
                await t.test(`read_waits_for_the_change_of_the_message: ${era}, ${who}, ${how}`, async () => {
                    let isAnswered = false;
                    try {
                        const { uri, cursor } = await told(era, token, () => b.cut({ quietly: true }));
                        const answer = read(token, uri, cursor).finally(() => { isAnswered = true; });
                        for (let i = 0; i < 20; i++) {
                            await call(as(b.program, bob), 'resources/read', { uri: 'tidings://self/stats' });
                        }
                        assert.equal(isAnswered, false);
                        b.mend();
                        assert.equal(await answer, 'one');
                    } finally {
                        b.mend();
                    }
                });
            }
        }
    }

    await t.test('command_reads_what_its_cursor_reports', async (t) => {
        const { uri, cursor } = await told('modern', bob);
        const { code, stdout } = await run(t, ['read', '--at-least', cursor, b.program.url, uri], { env: { TIDINGS_TOKEN: bob } });
        assert.deepEqual([code, stdout], [0, 'one']);
    });

    await t.test('read_is_refused_without_the_database', async () => {
        const { uri, cursor } = await told('modern', bob);
        assert.equal(await readers['resources/read'](bob, uri, cursor), 'one');
        b.cut();
        const path = `/resource?uri=${encodeURIComponent(uri)}`;
        const headers = { Authorization: `Bearer ${bob}`, 'Tidings-At-Least': cursor };
        const answer = await request(b.program, { method: 'GET', path, headers });
        assert.equal(answer.status, 503, answer.text);
        assert.equal(JSON.parse(answer.text).reason, 'stale');
        assert.ok(answer.headers.get('retry-after'));
        b.mend();
    });
});
