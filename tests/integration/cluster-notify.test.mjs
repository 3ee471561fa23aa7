// SPDX-License-Identifier: MIT
//
// An answer to notify on a shared database means that the change is committed: every node notifies its subscribers in
// the order of the answers, even if the answering node fails.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { run as command } from './lib/server.mjs';
import { request } from './lib/http.mjs';
import { Node } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call } from './lib/rpc.mjs';
import { Watcher } from './lib/watcher.mjs';

const ALL = 'api:///'; // each change has its own URI there, so that changes do not merge
const PAIRS = 40;
const KILLS = process.env.TIDINGS_LONG ? 30 : 3;

const post = (node, n) => request(node.program, {
    method: 'POST', path: '/notify', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ changes: [{ uri: `${ALL}${n}`, metadata: { n } }] }),
});
const notify = async (node, n) => {
    const answer = await post(node, n);
    assert.equal(answer.status, 200, answer.text);
};
const heard = (watcher, n) =>
    watcher.any((m) => m.params?._meta?.['dev.tidings/metadata']?.n === n, `the change ${n}`);

test('notify works on a shared database', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const args = ['--publish', 'api:///', '--allow-write', '--window', '0', '--self'];
    const [a, b] = await Promise.all(['a', 'b'].map((name) => Node.make(t, name, { databases: [database], args })));
    await a.start();
    await b.start();
    const watcher = await Watcher.open('modern', b.program, [ALL]);

    await t.test('notify_answers_after_its_commit', async () => {
        await notify(a, 'before');
        a.cut({ quietly: true });
        let answered = false;
        const answer = notify(a, 'stalled').finally(() => { answered = true; });
        try {
            for (let i = 0; i < 20; i++) { // the node still answers other requests
                await call(a.program, 'resources/read', { uri: 'tidings://self/stats' });
            }
            assert.equal(answered, false);
        } finally {
            a.mend();
        }
        await answer;
        await heard(watcher, 'stalled');
    });

    await t.test('command_reports_success_after_the_commit', async (t) => {
        const { code, stdout } = await command(t, ['notify', a.program.url, `${ALL}command`, '--metadata', '{"n":"command"}']);
        assert.deepEqual([code, stdout], [0, `told ${ALL}command\n`]);
        await heard(watcher, 'command');
    });

    await t.test('answered_notifications_are_delivered_in_the_order_of_the_answers', async () => {
        const near = await Watcher.open('modern', a.program, [ALL]);
        for (let n = 0; n < 2 * PAIRS; n++) {
            await notify(n % 2 ? b : a, n);
        }
        for (const one of [near, watcher]) {
            await heard(one, 2 * PAIRS - 1);
            const numbers = one.events.messages.map((m) => m.params?._meta?.['dev.tidings/metadata']?.n)
                .filter((n) => typeof n === 'number');
            assert.deepEqual(numbers, [...numbers].sort((p, q) => p - q));
        }
        near.close();
    });

    await t.test('answered_notification_survives_kill_of_its_node', async () => {
        for (let n = 0; n < KILLS; n++) {
            await notify(a, `kill-${n}`);
            await a.kill();
            await heard(watcher, `kill-${n}`);
            await a.start();
        }
    });

    await t.test('notify_is_refused_during_a_database_outage', async () => {
        a.cut();
        for (;;) { // the first request may detect the outage with the commit in doubt
            const { status, text } = await post(a, 'away');
            const { told, reason } = JSON.parse(text);
            assert.equal(told, 0, text);
            if (reason !== 'unknown') {
                assert.deepEqual([reason, status], ['busy', 503], text);
                break;
            }
        }
        a.mend();
    });
    watcher.close();
});
