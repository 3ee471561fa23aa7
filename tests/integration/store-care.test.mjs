// SPDX-License-Identifier: MIT
//
// `tidings store check`, `backup` and `compact`: a backup during writes contains all earlier acknowledged changes.
// Also databases of other programs, stores in use and restored dumps.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { bad, good, objects } from './lib/cli.mjs';
import { request } from './lib/http.mjs';
import { serve } from './lib/server.mjs';
import { DEADLINE } from './lib/wait.mjs';

const SQLITE = '/usr/bin/sqlite3';
const noShell = existsSync(SQLITE) ? false : 'no sqlite3 (Debian: sqlite3)';

function folder(t) {
    const path = mkdtempSync(join(tmpdir(), 'tidings-care-'));
    defer(t, () => rmSync(path, { recursive: true, force: true }));
    return path;
}

const uriOf = (name) => `published:///${name}`;
const pathOf = (name) => `/resource?uri=${encodeURIComponent(uriOf(name))}`;

async function put(server, name, body) {
    const { status, text } = await request(server, { method: 'PUT', path: pathOf(name), body });
    assert.ok(status < 300, `${status} ${text}`);
}

async function get(server, name) {
    const { status, text } = await request(server, { method: 'GET', path: pathOf(name) });
    assert.equal(status, 200, text);
    return text;
}

const start = (t, store) => serve(t, { args: ['--store', store, '--allow-write'] });

/** Writers that overwrite, each its own resource; `acknowledged` holds the acknowledged values. */
class Load {
    acknowledged = new Map();
    #goesOn = true;

    constructor(server, names) {
        this.ends = names.map(async (name) => {
            for (let n = 1; this.#goesOn; n += 1) {
                await put(server, name, `${n} `.padEnd(60_000, 'x'));
                this.acknowledged.set(name, n);
            }
        });
    }

    async end() {
        this.#goesOn = false;
        await Promise.all(this.ends);
    }
}

test('backup during writes contains all earlier acknowledged changes', async (t) => {
    const dir = folder(t);
    const store = join(dir, 'store.db');
    const server = await start(t, store);
    for (let i = 0; i < 100; i += 1) { // so that the copy lasts longer
        await put(server, `still-${i}`, `${i}`.padEnd(200_000, 'y'));
    }
    const names = ['a', 'b', 'c', 'd'];
    await Promise.all(names.map((name) => put(server, name, '0')));
    const load = new Load(server, names);
    const seen = [];
    for (let round = 0; round < 5; round += 1) {
        const before = new Map(load.acknowledged);
        const to = join(dir, `backup-${round}.db`);
        const [{ bytes }] = objects(await good(t, ['store', 'backup', '--json', store, to], { ms: 6 * DEADLINE }));
        assert.equal(statSync(to).size, bytes);
        seen.push({ to, before });
    }
    await load.end();
    assert.deepEqual(readdirSync(dir).filter((name) => /part|backup.*wal/.test(name)), []);
    for (const { to, before } of seen) {
        const [{ published }] = objects(await good(t, ['store', 'check', '--json', to]));
        assert.equal(published, 104);
        const restored = await start(t, to);
        for (const [name, n] of before) {
            const text = await get(restored, name);
            assert.equal(text.length, 60_000);
            assert.ok(parseInt(text, 10) >= n, `${name}: ${parseInt(text, 10)}, acknowledged ${n}`);
        }
        assert.equal(await get(restored, 'still-99'), '99'.padEnd(200_000, 'y'));
        await restored.stop();
    }
    await bad(t, 73, /exists; name a new file/, ['store', 'backup', store, seen[0].to]);
    await server.stop();
});

test('store in use is neither checked nor compacted, with an error message', async (t) => {
    const store = join(folder(t), 'store.db');
    const server = await start(t, store);
    for (let i = 0; i < 20; i += 1) {
        await put(server, 'a', `${i}`.padEnd(500_000 - i * 20_000, 'x'));
    }
    await bad(t, 75, /another program has it open/, ['store', 'check', store]);
    await bad(t, 75, /another program has it open/, ['store', 'compact', store]);
    await server.stop();
    assert.match(await good(t, ['store', 'check', store]), /^sound: 0 types, 0 versions, 1 published, 0 tasks, position \d+\n$/);
    const [{ bytesBefore, bytesAfter }] = objects(await good(t, ['store', 'compact', '--json', store]));
    assert.ok(bytesAfter < bytesBefore, `${bytesBefore} ${bytesAfter}`);
    const again = await start(t, store);
    assert.match(await get(again, 'a'), /^19x/);
    await again.stop();
});

test('database of another program is rejected by name and left unchanged', { skip: noShell }, async (t) => {
    const dir = folder(t);
    const file = join(dir, 'places.db');
    execFileSync(SQLITE, [file, 'PRAGMA journal_mode=WAL; CREATE TABLE moz_places(url); INSERT INTO moz_places VALUES(1)']);
    const before = readFileSync(file);
    for (const words of [['serve', '--store', file, dir], ['store', 'check', file], ['store', 'compact', file],
        ['store', 'backup', file, join(dir, 'b')], ['store', 'copy', file, join(dir, 'c')], ['store', 'copy', join(dir, 'd'), file]]) {
        if (words[1] === 'copy' && words[3] === file) {
            await (await start(t, join(dir, 'd'))).stop();
        }
        const { stderr } = await bad(t, 64, /another program \(tables moz_places\)/, words);
        assert.match(stderr, /places\.db/);
        assert.deepEqual(readFileSync(file), before);
    }
    assert.deepEqual(readdirSync(dir).sort(), ['d', 'places.db']);
});

test('restored dump works', { skip: noShell }, async (t) => {
    const dir = folder(t);
    const [store, restored] = [join(dir, 'store.db'), join(dir, 'restored.db')];
    const server = await start(t, store);
    await put(server, 'a', 'kept');
    await server.stop();
    const dump = execFileSync(SQLITE, [store, '.dump']);
    execFileSync(SQLITE, [restored], { input: dump });
    assert.equal(`${execFileSync(SQLITE, [restored, 'PRAGMA application_id'])}`, '0\n');
    assert.match(await good(t, ['store', 'check', restored]), /^sound: .* 1 published/);
    const again = await start(t, restored);
    assert.equal(await get(again, 'a'), 'kept');
    await again.stop();
    assert.equal(`${execFileSync(SQLITE, [restored, 'PRAGMA application_id'])}`, `${0x74696469}\n`);
});
