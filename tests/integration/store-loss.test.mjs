// SPDX-License-Identifier: MIT
//
// A store file that lost acknowledged writes is rejected: a byte of FILE-wal, its end, all of it, or FILE itself. A
// crash at any moment loses nothing and is never rejected, nor is a backup or a copy in its place.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { bad, good } from './lib/cli.mjs';
import { request } from './lib/http.mjs';
import { listen, meta } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const LOST = /acknowledged writes are lost/;
const PAGE = 4096;
const FRAME = 24 + PAGE;
const HEADER = 32;
const suffixes = ['', '-wal', '-mark'];
const long = Boolean(process.env.TIDINGS_LONG);

function folder(t) {
    const path = fs.mkdtempSync(join(tmpdir(), 'tidings-loss-'));
    defer(t, () => fs.rmSync(path, { recursive: true, force: true }));
    return path;
}

const uriOf = (i) => `published:///r${i}`;
const resource = (i) => ({ path: `/resource?uri=${encodeURIComponent(uriOf(i))}` });

async function put(server, i, body = `${i}`) {
    const { status, text } = await request(server, { method: 'PUT', ...resource(i), body });
    assert.ok(status < 300, `${status} ${text}`);
}

const start = (t, file, args = [], options = {}) => serve(t, { args: ['--store', file, '--allow-write', ...args], ...options });

/** The files of a store, to restore or rename. */
const take = (file) => suffixes.map((suffix) => {
    const path = file + suffix;
    return fs.existsSync(path) ? fs.readFileSync(path) : null;
});
const place = (file, contents) => contents.forEach((bytes, i) => {
    fs.rmSync(file + suffixes[i], { force: true });
    if (bytes) {
        fs.writeFileSync(file + suffixes[i], bytes);
    }
});

/** A store whose server was killed after `count` acknowledged writes. */
async function killed(t, count) {
    const file = join(folder(t), 'store.db');
    const server = await start(t, file);
    for (let i = 0; i < count; i += 1) {
        await put(server, i);
    }
    await server.kill();
    const files = take(file);
    const frames = Number(files[2].readBigUInt64LE(24)); // from the mark; leftovers of an earlier log may follow
    return { file, files, frames, end: HEADER + frames * FRAME };
}

async function isRefused(t, file, what) {
    const before = take(file);
    const { code, stderr, stdout } = await run(t, ['store', 'check', file]);
    assert.equal(code, 74, `${what}: ${stdout}${stderr}`);
    assert.match(stderr, LOST, what);
    assert.deepEqual(take(file), before, `${what}: nothing is written`);
}

/** Sampled byte offsets of the log, which include header, frame headers and pages. */
const offsets = (size, count) => [3, 13, 17, 25, HEADER, HEADER + 5, HEADER + 9, HEADER + 17, HEADER + FRAME - 1,
    ...Array.from({ length: count }, (_, i) => Math.floor((i * (size - 1)) / count) + (i * 7) % 24)].filter((at) => at < size);

test('store loss: changed byte anywhere in the log of a killed server is rejected', async (t) => {
    const { file, files: [db, log, mark], end } = await killed(t, 12);
    await good(t, ['store', 'check', file]);
    for (const at of offsets(end, long ? 200 : 12)) {
        const changed = Buffer.from(log);
        changed[at] ^= 0x10;
        place(file, [db, changed, mark]);
        await isRefused(t, file, `byte ${at} of ${log.length}`);
    }
});

test('store loss: damage before the last write is rejected after a power cut without a mark', async (t) => {
    const { file, files: [db, log], frames, end } = await killed(t, 12);
    const commits = Array.from({ length: frames }, (_, i) => i).filter((i) => log.readUInt32BE(HEADER + i * FRAME + 4) !== 0);
    const safe = HEADER + (commits.at(-2) + 1) * FRAME; // start of the last transaction
    for (const at of offsets(safe, long ? 200 : 12)) {
        const changed = Buffer.from(log);
        changed[at] ^= 0x10;
        place(file, [db, changed, null]);
        const inLast = at >= HEADER + commits.at(-2) * FRAME && at < HEADER + commits.at(-2) * FRAME + 24;
        if (!inLast) { // the commit flag itself may be the changed byte
            await isRefused(t, file, `byte ${at} of ${log.length}`);
        }
    }
    for (const size of [end - 1, safe + 30, safe + FRAME - 1]) { // a torn last transaction
        const torn = Buffer.from(log);
        torn.fill(0, size);
        place(file, [db, torn, null]);
        assert.match(await good(t, ['store', 'check', file]), /^sound/);
    }
});

test('store loss: truncated, missing or foreign log is rejected', async (t) => {
    const { file, files: [db, log, mark], end } = await killed(t, 12);
    const other = (await killed(t, 3)).files[1];
    for (const [what, bytes] of [['missing', null], ['empty', Buffer.alloc(0)], ['cut in a page', log.subarray(0, end - 9)],
        ['cut at a frame', log.subarray(0, end - FRAME)], ['cut in its header', log.subarray(0, 20)],
        ['zeros', Buffer.alloc(log.length)], ['another', other]]) {
        place(file, [db, bytes, mark]);
        await isRefused(t, file, what);
    }
});

test('store loss: empty or missing database is rejected, a new one is not', async (t) => {
    const { file, files: [, log, mark] } = await killed(t, 3);
    place(file, [Buffer.alloc(0), log, mark]);
    await isRefused(t, file, 'empty, with its log');
    place(file, [Buffer.alloc(0), null, null]);
    await isRefused(t, file, 'empty');
    await bad(t, 74, /the file is empty/, ['serve', '--stdio', '--store', file, folder(t)]);
    for (const contents of [[null, log, null], [null, null, mark]]) {
        place(file, contents);
        await bad(t, 74, /the file is missing/, ['serve', '--stdio', '--store', file, folder(t)]);
    }
    place(file, [null, null, null]);
    const server = await start(t, file);
    await server.stop();
    assert.deepEqual(take(file).map(Boolean), [true, false, false], 'one file is left');
});

test('store loss: --accept-data-loss starts the server, logs the loss and truncates cursors', async (t) => {
    const file = join(folder(t), 'store.db');
    const tree = new Tree(t, { 'a.txt': 'a' });
    const server = await start(t, file, [], { tree });
    const { events } = await listen(server, { resourceSubscriptions: ['published:///'] });
    for (let i = 0; i < 6; i += 1) {
        await put(server, i);
    }
    const first = await events.message((m) => JSON.stringify(m).includes(uriOf(0)), 'the first update');
    const since = first.params._meta['dev.tidings/cursor'];
    assert.ok(since, JSON.stringify(first));
    await server.kill();
    const [db, log, mark] = take(file);
    place(file, [db, log.subarray(0, HEADER + (Number(mark.readBigUInt64LE(24)) - 1) * FRAME), mark]);
    const refused = await bad(t, 74, /--accept-data-loss/, ['serve', '--stdio', '--store', file, tree.path]);
    assert.match(refused.stderr, /error store: data loss lost="acknowledged writes are lost/);
    const again = await start(t, file, ['--accept-data-loss', '--metrics', 'path', '--self'], { tree });
    assert.match(again.stderr, /error store: data loss accepted lost="acknowledged writes are lost/);
    assert.match((await request(again, { method: 'GET', path: '/metrics' })).text, /^tidings_store_data_loss 1$/m);
    assert.equal((await request(again, { method: 'GET', ...resource(0) })).text, '0');
    assert.equal((await request(again, { method: 'GET', ...resource(5) })).status, 404, 'what is lost is lost');
    const params = { _meta: { ...meta(), 'dev.tidings/options': { since } } };
    const resumed = await listen(again, { resourceSubscriptions: ['published:///'] }, { params });
    await resumed.events.message((m) => m.params?._meta?.['dev.tidings/truncated'] === true, 'that all must be read again');
    await put(again, 9);
    await again.kill();
    const last = await start(t, file, ['--metrics', 'path', '--self'], { tree });
    assert.match((await request(last, { method: 'GET', path: '/metrics' })).text, /^tidings_store_data_loss 0$/m);
    assert.equal((await request(last, { method: 'GET', ...resource(9) })).text, '9');
});

test('store loss: accepted loss stays accepted, even if the server is killed before a write', async (t) => {
    const { file, files: [db, log, mark] } = await killed(t, 12);
    const changed = Buffer.from(log);
    changed[HEADER + 5 * FRAME + 100] ^= 1;
    for (const kept of [mark, null]) {
        place(file, [db, changed, kept]);
        await isRefused(t, file, 'before');
        const accepting = await start(t, file, ['--accept-data-loss']);
        await accepting.kill();
        const again = await start(t, file);
        await put(again, 1);
        await again.kill();
        assert.match(await good(t, ['store', 'check', file]), /^sound/);
    }
});

test('store loss: backup or copy in place of a killed store is accepted', async (t) => {
    const dir = folder(t);
    const [file, live, quiet, copy] = ['store.db', 'live.db', 'quiet.db', 'copy.db'].map((name) => join(dir, name));
    const server = await start(t, file);
    await put(server, 0);
    await good(t, ['store', 'backup', file, live]);
    await put(server, 1);
    await server.kill();
    const files = take(file);
    await good(t, ['store', 'copy', file, copy]);
    place(file, files);
    await good(t, ['store', 'backup', file, quiet]);
    for (const one of [live, quiet, copy]) {
        place(file, [fs.readFileSync(one), null, files[2]]); // the mark of the replaced store
        await good(t, ['store', 'check', file]);
        place(file, [fs.readFileSync(one), null, files[2]]);
        const restored = await start(t, file);
        assert.equal((await request(restored, { method: 'GET', ...resource(0) })).text, '0');
        await restored.stop();
    }
});

test('store loss: server killed at any moment loses nothing and is never rejected', async (t) => {
    const file = join(folder(t), 'store.db');
    const acknowledged = new Map();
    let seed = 20261118;
    const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    for (let round = 0; round < (long ? 300 : 8); round += 1) {
        const server = await start(t, file);
        for (const [i, body] of acknowledged) {
            const { text } = await request(server, { method: 'GET', ...resource(i) });
            assert.ok(Number(text) >= body, `round ${round}: r${i} is ${text}, acknowledged ${body}`);
        }
        const writers = Array.from({ length: 4 }, async (_, i) => {
            for (let n = (acknowledged.get(i) ?? 0) + 1; ; n += 1) {
                await put(server, i, `${n}`.padEnd(random(2) ? 10 : 30_000));
                acknowledged.set(i, n);
            }
        });
        const ended = Promise.allSettled(writers);
        for (let i = 0; i < random(40); i += 1) {
            await request(server, { method: 'GET', ...resource(9) });
        }
        await server.kill();
        await ended;
    }
});
