// SPDX-License-Identifier: MIT
//
// The filters of docs/reference/subscriptions.md, read from the page and tested with the real program in both eras:
// the changes that each filter matches.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { RESOURCE, servePublish } from './lib/publish.mjs';
import { isUpdate, Subscriber } from './lib/subscriber.mjs';

const page = fs.readFileSync(new URL('../../docs/reference/subscriptions.md', import.meta.url), 'utf8');
const section = page.split('\n## Filters\n')[1].split('\n## ')[0];

/** Title -> schema, from the page. */
const shown = new Map(
    [...section.matchAll(/^\*\*(.+):\*\*\n\n```json\n([\s\S]*?)```$/gm)].map(([, title, text]) => [title, JSON.parse(text)]),
);

const HOUR = 3_600_000;
const isWorkTime = () => {
    const now = new Date();
    return now.getUTCHours() >= 9 && now.getUTCHours() <= 16 && now.getUTCDay() >= 1 && now.getUTCDay() <= 5;
};

/** Title -> changes, each with the expected match. A function is evaluated right before and after the change. */
const rows = {
    'Not older than 5 s': [
        [{ updated_at: Date.now() - HOUR }, false],
        [{ updated_at: Date.now() + HOUR }, true],
        [{ updated_at: new Date(Date.now() - HOUR).toISOString() }, false],
        [{ updated_at: new Date(Date.now() + HOUR).toISOString() }, true],
        [{ updated_at: 'long ago' }, true],
    ],
    "On workdays from 9 to 17 o'clock, UTC": [
        [{}, isWorkTime],
    ],
    'Only if the temperature moved by 10 %': [
        [{ temperature: 20 }, true],
        [{ temperature: 21 }, false],
        [{ temperature: 21.9 }, false],
        [{ temperature: 22 }, true],
        [{ temperature: 19.8 }, true],
        [{ temperature: 19.9 }, false],
        [{}, true],
    ],
    'Only if it fell by 2 or more': [
        [{ temperature: 20 }, true],
        [{ temperature: 25 }, false],
        [{ temperature: 18.1 }, false],
        [{ temperature: 18 }, true],
    ],
    'Only if the state is another one': [
        [{ state: 'ok' }, true],
        [{ state: 'ok', n: 2 }, false],
        [{ state: 'bad' }, true],
        [{ state: 'bad' }, false],
        [{ state: 'ok' }, true],
    ],
    'No older versions': [
        [{ version: '2.9.0' }, true],
        [{ version: '2.10' }, true],
        [{ version: 'v2.9.5' }, false],
        [{ version: 'nightly' }, true],
        [{ version: '2024-06-01' }, true],
        [{ version: '2024-05-31T23:00:00Z' }, false],
    ],
};

test('every filter of the page is tested here', () => {
    assert.deepEqual([...shown.keys()], Object.keys(rows));
});

test('filters of the page match the documented changes in both eras', async (t) => {
    const server = await servePublish(t, ['--window', '0', '--workers', '1']);
    for (const era of ['legacy', 'modern']) {
        for (const [title, changes] of Object.entries(rows)) {
            const s = await Subscriber.join(server, era);
            const { refused } = await s.ask([RESOURCE], { windowMs: 0, include: 'metadata', filter: shown.get(title) });
            assert.deepEqual(refused, {}, title);
            const plain = await Subscriber.join(server, era);
            await plain.ask([RESOURCE], { windowMs: 0, include: 'metadata' });
            for (const [i, [metadata, told]] of changes.entries()) {
                const mark = `${title} ${i}`;
                const before = typeof told === 'function' ? told() : told;
                await server.publish({ ...metadata, mark });
                await plain.message((m) => isUpdate(m) && m.params.metadata.mark === mark, mark);
                const after = typeof told === 'function' ? told() : told;
                changes[i][2] = before === after ? before : undefined; // the hour may have changed
            }
            // One worker: it writes an update to all subscribers in the same turn, or to none. (On another worker two
            // pending changes may merge.)
            const last = changes.findLastIndex(([, , told]) => told);
            if (last >= 0) {
                await s.message((m) => isUpdate(m) && m.params.metadata.mark === `${title} ${last}`, title);
            }
            const heard = s.messages.filter(isUpdate).map((m) => m.params.metadata.mark);
            const known = changes.flatMap(([, , told], i) => (told === undefined ? [] : [[i, told]]));
            for (const [i, told] of known) {
                assert.equal(heard.includes(`${title} ${i}`), told, `${era}: ${title}: ${JSON.stringify(changes[i][0])}`);
            }
            s.close();
            plain.close();
        }
    }
});
