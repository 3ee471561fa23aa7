// SPDX-License-Identifier: MIT
//
// At level debug the log has a line for each change that explains its delivery, so an operator can find the reason
// for a missing update.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { listen, meta, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';

const OPEN = 'published:///open/a';
const HIDDEN = 'published:///hidden/b';
const rules = [
    { principal: 'ada', uri: 'published:///open/**', allow: ['list', 'read', 'subscribe'] },
    { principal: 'bob', allow: ['list', 'read', 'subscribe', 'write'] },
].flatMap((rule) => ['--access', JSON.stringify(rule)]);

async function start(t, args) {
    const tokens = new TokenFile(t);
    const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
    const server = await serve(t, { mounts: [], args: [...tokens.args, ...rules, '--allow-write', '--publish', 'published:///', '--workers', '1', ...args] });
    const put = async (uri) => {
        const path = `/resource?uri=${encodeURIComponent(uri)}`;
        const answer = await request(as(server, bob), { method: 'PUT', path, headers: { 'Content-Type': 'text/plain' }, body: `${Math.random()}` });
        assert.ok([201, 204].includes(answer.status), answer.text);
    };
    const follow = async (token, options) => {
        const params = { _meta: meta({ 'dev.tidings/options': options }) };
        return (await listen(as(server, token), { resourceSubscriptions: ['published:///**'] }, { params })).events;
    };
    return { server, ada, bob, put, follow };
}

/** The fields of the next line about a change of `uri`. */
async function line(server, uri) {
    const text = await server.lines.next((l) => l.includes('debug delivery: change ') && l.includes(uri), `a line about ${uri}`);
    return Object.fromEntries([...text.matchAll(/ (\w+)=("[^"]*"|\S+)/g)].map(([, name, value]) => [name, value.replaceAll('"', '')]));
}

test('change line counts recipients and explains each skipped subscriber', async (t) => {
    const { server, ada, bob, put, follow } = await start(t, ['--log-level', 'warn,delivery=debug']);
    await put(OPEN);
    const none = await line(server, OPEN);
    assert.deepEqual([none.matched, none.sent, none.kind], ['0', '0', 'created'], 'nobody has subscribed');
    const plain = await follow(bob, { windowMs: 0 });
    await follow(ada, { windowMs: 0 });
    await follow(bob, { windowMs: 0, filter: { required: ['nothing'] } });
    await follow(bob, { windowMs: 60000, gather: true });
    await put(OPEN);
    const open = await line(server, OPEN);
    assert.deepEqual(
        [open.matched, open.sent, open.held, open.filtered, open.hidden, open.kind],
        ['4', '2', '1', '1', '0', 'updated'],
    );
    assert.match(open.not_sent_to, /^\d+ \w+, \d+ \w+$/);
    await put(HIDDEN);
    const hidden = await line(server, HIDDEN);
    assert.deepEqual(
        [hidden.matched, hidden.sent, hidden.held, hidden.filtered, hidden.hidden],
        ['4', '1', '1', '1', '1'],
    );
    assert.match(hidden.not_sent_to, /\d+ hidden/);
    await plain.message(updates(HIDDEN));
});

test('change lines are absent without debug', async (t) => {
    const { server, bob, put, follow } = await start(t, []);
    const plain = await follow(bob, { windowMs: 0 });
    await put(OPEN);
    await plain.message(updates(OPEN));
    assert.doesNotMatch(server.stderr, / delivery: change /);
});
