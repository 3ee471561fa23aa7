// SPDX-License-Identifier: MIT
//
// examples/mirror keeps a live local copy of an entity. The copy is correct in the end despite failures of the
// network, the server and the mirror.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { Lossy } from './lib/lossy.mjs';
import { call, modern } from './lib/rpc.mjs';
import { EXAMPLES, Program, serve } from './lib/server.mjs';
import { DEADLINE, eventually } from './lib/wait.mjs';
import { ERAS } from './lib/watcher.mjs';

const ID = 'doc-1';
const URI = `entity:///Doc@1/${ID}`;
const PATCHES = `${URI}/patch`;
const isPatch = (message) => message.method === 'notifications/resources/updated';
/** Excludes the initial update, which may arrive late and carries no change. */
const saysMore = (message) =>
    isPatch(message) && Object.keys(message.params._meta['dev.tidings/data']?.patch ?? { whole: 1 }).length > 0;
const optionsIn = ({ params }) => params?._meta?.['dev.tidings/options'];

/** A server with entities in a file, a bad network, and a mirror that connects through it. */
class Scene {
    static async open(t, era) {
        const scene = new Scene();
        scene.t = t;
        scene.dir = mkdtempSync(path.join(tmpdir(), 'mirror-'));
        defer(t, () => rmSync(scene.dir, { recursive: true, force: true }));
        scene.file = path.join(scene.dir, 'copy.json');
        await scene.start();
        scene.net = await Lossy.open(t, scene.server, { era });
        await scene.call('add-entity-type', { name: 'Doc', version: '1', jsonSchema: {} });
        await scene.upsert({ n: 0 });
        scene.mirror();
        return scene;
    }

    async start() {
        const args = ['--entities', path.join(this.dir, 'entities.db')];
        this.server = await serve(this.t, { args, mounts: [] });
    }

    /** Kill the server and start another one with its files. */
    async restart() {
        await this.server.kill();
        await this.start();
        this.net.target = this.server;
    }

    mirror() {
        const args = [this.net.url, URI, this.file];
        this.program = new Program(this.t, path.join(EXAMPLES, 'mirror'), args);
        this.program.output();
    }

    async call(name, args) {
        const { structuredContent, isError, content } = await call(this.server, 'tools/call', {
            name,
            arguments: args,
        });
        assert.ok(!isError, content?.[0]?.text);
        return structuredContent;
    }

    upsert(value) {
        return this.call('upsert-entity', { uri: URI, value });
    }

    copy() {
        try {
            return JSON.parse(readFileSync(this.file, 'utf8'));
        } catch (error) {
            return error.code === 'ENOENT' ? undefined : assert.fail(error.message);
        }
    }

    /** Waits until the copy has this value or is deleted. */
    copyBecomes({ validFrom, value, deleted }, ms = DEADLINE * 3) {
        const same = () => {
            const copy = this.copy();
            return deleted
                ? copy?.deleted
                : copy?.validFrom === validFrom && !copy.deleted && isDeepStrictEqual(copy.value, value);
        };
        const wanted = JSON.stringify({ validFrom, value, deleted });
        return eventually(same, `the copy is ${wanted}`, ms).catch((error) => {
            throw new Error(`${error.message}, is ${JSON.stringify(this.copy())}\n${this.program.stderr}`);
        });
    }

    /** The reads of the mirror. */
    get reads() {
        return this.net.requests.filter((r) => r.method === 'resources/read').map((r) => r.params.uri);
    }
}

for (const era of ERAS) {
    test(`${era}: copy follows by patches only, also through deletion and recreation`, async (t) => {
        const scene = await Scene.open(t, era);
        await scene.copyBecomes(await scene.upsert({ n: 1, deep: { a: 1, b: [1, 2] } }));
        const told = [];
        scene.net.fate = (message) => {
            told.push(message);
            return 'pass';
        };
        const before = scene.reads.length;
        await scene.copyBecomes(await scene.upsert({ n: 2, deep: { a: 1 } }));
        assert.deepEqual(told.find(saysMore).params._meta['dev.tidings/data'].patch, { n: 2, deep: { b: null } });
        await scene.copyBecomes(await scene.upsert({ n: 2, deep: { a: null } })); // a patch cannot express this value
        await scene.copyBecomes(await scene.call('delete-entity', { uri: URI }));
        await scene.copyBecomes(await scene.call('undelete-entity', { uri: URI }));
        await scene.copyBecomes(await scene.upsert('no object at all'));
        await scene.copyBecomes(await scene.upsert({ n: 3 }));
        assert.equal(scene.reads.length, before, scene.reads.join('\n'));
    });

    test(`${era}: lost patch is detected by the next one and reread`, async (t) => {
        const scene = await Scene.open(t, era);
        await scene.copyBecomes(await scene.upsert({ n: 1 }));
        const { validFrom } = scene.copy();
        let lost = 0;
        scene.net.fate = (message) => (saysMore(message) && lost++ === 0 ? 'drop' : 'pass');
        await scene.upsert({ n: 1, lost: true });
        await eventually(() => lost > 0, 'a patch was lost');
        await scene.copyBecomes(await scene.upsert({ n: 2, lost: true }));
        assert.ok(scene.reads.includes(`${URI}/patch/${validFrom}`), scene.reads.join('\n'));
    });

    test(`${era}: mirror resumes from its file, and a restarted server from its own`, async (t) => {
        const scene = await Scene.open(t, era);
        await scene.copyBecomes(await scene.upsert({ n: 1, text: 'kept' }));
        await scene.program.stop();
        const { validFrom } = scene.copy();
        await scene.upsert({ n: 2, text: 'kept' });
        const asked = scene.net.requests.length;
        scene.mirror();
        await scene.copyBecomes(await scene.upsert({ n: 3, text: 'kept' }));
        const [first] = scene.net.requests.slice(asked).map(optionsIn).filter(Boolean);
        assert.equal((first.uris?.[PATCHES] ?? first).baseline, validFrom);
        await scene.restart();
        await scene.copyBecomes(await scene.upsert({ n: 4, text: 'kept' }));
        await scene.call('delete-entity', { uri: URI });
        await scene.restart();
        await scene.copyBecomes({ deleted: true });
        await scene.call('undelete-entity', { uri: URI });
        await scene.copyBecomes(await scene.upsert({ n: 5 }));
    });

    test(`${era}: copy follows its entity to a new type version, also while offline`, async (t) => {
        const scene = await Scene.open(t, era);
        await scene.copyBecomes(await scene.upsert({ n: 1 }));
        for (const version of ['2', '3']) {
            if (version === '3') {
                await scene.program.stop();
            }
            await scene.call('add-entity-type', { name: 'Doc', version, jsonSchema: {} });
            const before = `entity:///Doc@${version - 1}/${ID}`;
            const moved = await scene.call('upsert-entity', { uri: before, value: { n: version } });
            assert.equal(moved.uri, `entity:///Doc@${version}/${ID}`);
            if (version === '3') {
                scene.mirror(); // with its original URI
            }
            await scene.copyBecomes(moved);
            const uri = moved.uri;
            await scene.copyBecomes(await scene.call('upsert-entity', { uri, value: { n: `${version} and more` } }));
        }
    });
}

/** Numbers in [0, 1), repeatable with the same seed (mulberry32). */
function dice(seed) {
    let state = seed;
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let x = Math.imul(state ^ (state >>> 15), 1 | state);
        x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
        return ((x ^ (x >>> 14)) >>> 0) / 4294967296;
    };
}

const pick = (roll, list) => list[Math.floor(roll() * list.length)];

function anyValue(roll, depth = 3) {
    const kind = roll();
    if (depth === 0 || kind < 0.4) {
        return pick(roll, [0, 1, 'a', 'b', true, [1, null], null]);
    }
    const members = ['a', 'b', 'c', 'd'].filter(() => roll() < 0.6);
    return Object.fromEntries(members.map((key) => [key, anyValue(roll, depth - 1)]));
}

/** A random write: the complete value, a patch, a deletion or a recreation. */
async function anyWrite(scene, roll, now) {
    const args = { uri: URI };
    if (now.deleted) {
        return scene.call('undelete-entity', args);
    }
    const kind = roll();
    if (kind < 0.1) {
        return scene.call('delete-entity', args);
    }
    if (kind < 0.5) {
        const patch = { [pick(roll, ['a', 'b', 'c'])]: anyValue(roll, 2) };
        return scene.call('upsert-entity', { ...args, patch, baseline: now.validFrom });
    }
    return scene.call('upsert-entity', { ...args, value: { root: anyValue(roll) } });
}

for (const [era, seed] of ERAS.flatMap((e) => [1, 2].map((s) => [e, s]))) {
    test(`${era}, storm ${seed}: copy equals the entity after losses, delays, cuts and crashes`, async (t) => {
        const scene = await Scene.open(t, era);
        const roll = dice(seed);
        const weather = dice(seed + 1000);
        const { net } = scene;
        net.fate = (message) => {
            const chance = weather();
            const fate = chance < 0.3 ? 'drop' : chance < 0.35 ? 'cut' : chance < 0.45 ? 20 : 'pass';
            return !isPatch(message) ? 'pass' : net.counts.drop === 0 ? 'drop' : fate;
        };
        let now = await scene.upsert({ n: 1 });
        await eventually(() => net.counts.drop > 0, 'a patch was lost');
        for (let i = 1; i <= 200; i += 1) {
            now = await anyWrite(scene, roll, now);
            if (i % 10 === 0) {
                await new Promise((resolve) => setTimeout(resolve, 20)); // time for some updates
            }
            if (i % 40 === 0) {
                net.cut();
            }
            if (i % 90 === 0) {
                await scene.restart();
            }
        }
        net.fate = () => 'pass';
        if (now.deleted) {
            now = await scene.call('undelete-entity', { uri: URI });
        }
        now = await scene.upsert({ ...now.value, over: seed });
        await scene.copyBecomes(now);
        const { json } = await modern(scene.server, 'resources/read', { uri: URI });
        assert.deepEqual(scene.copy().value, JSON.parse(json.result.contents[0].text).value);
        t.diagnostic(`${JSON.stringify(net.counts)}, ${scene.reads.length} reads`);
    });
}
