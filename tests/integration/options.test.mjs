// SPDX-License-Identifier: MIT
//
// Options of subscriptions in both eras, over HTTP and a pipe, with files and a resource that changes on demand.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { key } from './lib/rpc.mjs';
import { RESOURCE, servePublish } from './lib/publish.mjs';
import { holds } from './lib/schemas.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { CURSOR, extras, isUpdate, MODES, seqOf, Subscriber, updatesFor } from './lib/subscriber.mjs';

const files = { 'a.txt': 'one', 'b.log': '1', 'dir/c.log': '1', 'dir/d.txt': '1', 'dir/deep/e.log': '1' };
const NO_WINDOW = ['--window', '0'];

for (const mode of MODES) {
    const it = (name, body) => test(`${mode.name}: ${name}`, body);
    const open = (t, args = NO_WINDOW) => Subscriber.open(t, mode, { files, args });

    it('include sends nothing, metadata or the value', async (t) => {
        const s = await open(t);
        const [a, b, c] = ['a.txt', 'b.log', 'dir/c.log'].map((name) => s.uri(name));
        await s.ask([a, b, c], {
            uris: { [b]: { include: 'metadata' }, [c]: { include: 'value' } },
        });
        s.tree.replace('a.txt', 'two');
        s.tree.replace('b.log', 'two');
        s.tree.replace('dir/c.log', 'new text');
        const plain = await s.update(a);
        assert.equal(plain.params.metadata, undefined);
        assert.equal(extras(plain).metadata.change_type, 'updated');
        assert.equal(extras(plain).data, undefined);
        const described = await s.update(b);
        assert.equal(described.params.metadata.change_type, 'updated');
        assert.equal(described.params.metadata.size, 3);
        assert.equal(typeof described.params.metadata.updated_at, 'number');
        assert.equal(typeof described.params.metadata.version, 'string');
        assert.equal(extras(described).data, undefined);
        const whole = await s.update(c);
        assert.equal(extras(whole).data[0].text, 'new text');
        assert.equal(extras(whole).data[0].uri, c);
    });

    it('value of an oversized or deleted file is omitted', async (t) => {
        const s = await open(t, [...NO_WINDOW, '--max-value', '1k']);
        const [a, b] = ['a.txt', 'b.log'].map((name) => s.uri(name));
        await s.ask([a, b], { include: 'value' });
        s.tree.replace('a.txt', 'x'.repeat(2000));
        assert.equal(extras(await s.update(a)).data, undefined);
        s.tree.remove('b.log');
        const gone = await s.update(b);
        assert.equal(extras(gone).change, 'deleted');
        assert.equal(extras(gone).data, undefined);
    });

    it('initial sends the state of a file, a directory and a pattern', async (t) => {
        const s = await open(t);
        const [a, dir] = [s.uri('a.txt'), s.uri('dir/')];
        const pattern = s.uri('dir/').concat('**/*.log');
        await s.ask([a, dir, pattern], { initial: true });
        const first = await s.update(a);
        assert.equal(extras(first).initial, true);
        assert.equal(first.params.uri, a);
        const below = new Set();
        while (below.size < 3) {
            const update = await s.update(dir);
            assert.equal(extras(update).initial, true);
            if (!update.params.uri.endsWith('/')) {
                below.add(update.params.uri);
            }
        }
        const expected = ['dir/c.log', 'dir/d.txt', 'dir/deep/e.log'].map((name) => s.uri(name));
        assert.deepEqual([...below].sort(), expected);
        const logs = [(await s.update(pattern)).params.uri, (await s.update(pattern)).params.uri];
        assert.deepEqual(logs.sort(), [s.uri('dir/c.log'), s.uri('dir/deep/e.log')]);
        s.tree.replace('a.txt', 'two');
        assert.equal(extras(await s.update(a)).initial, undefined);
    });

    it('repeated subscribe with initial sends the state again', async (t) => {
        const s = await open(t);
        const a = s.uri('a.txt');
        for (let i = 0; i < 3; i += 1) {
            await s.ask([a], { initial: true, include: 'value' });
            const state = await s.update(a, `the state, time ${i + 1}`);
            assert.equal(extras(state).initial, true);
            assert.equal(extras(state).data[0].text, 'one');
        }
        if (mode.era === 'legacy') {
            // A repeated subscribe without options is confirmed and changes nothing.
            await s.ask([a]);
            s.tree.replace('a.txt', 'two');
            const update = await s.update(a);
            assert.equal(extras(update).initial, undefined);
            assert.equal(extras(update).data[0].text, 'two');
            // A repeated subscribe with options replaces all earlier options.
            await s.ask([a], {});
            s.tree.replace('a.txt', 'three');
            assert.equal(extras(await s.update(a)).data, undefined);
            assert.equal(s.messages.filter(updatesFor(a)).length, 5);
        }
    });

    it('filter applies a JSON Schema to uri and metadata', async (t) => {
        const s = await open(t);
        const [all, dir] = [s.uri(''), s.uri('dir/')];
        const large = { properties: { metadata: { properties: { size: { minimum: 100 } }, required: ['size'] } } };
        const logs = { properties: { uri: { pattern: '[.]log$' } } };
        await s.ask([all, dir], { uris: { [all]: { filter: large }, [dir]: { filter: logs } } });
        s.tree.replace('a.txt', 'small');
        s.tree.replace('dir/d.txt', 'x'.repeat(99));
        s.tree.replace('dir/c.log', 'small too');
        const log = await s.update(dir);
        assert.equal(log.params.uri, s.uri('dir/c.log'));
        s.tree.replace('b.log', 'x'.repeat(100));
        const big = await s.update(all);
        assert.equal(big.params.uri, s.uri('b.log'));
        assert.equal(extras(big).metadata.size, 100);
    });

    it('match selects globs, templates, regexes, containers and queries', async (t) => {
        const s = await open(t);
        const root = s.uri('');
        const rows = [
            [`${root}dir/*.log`, undefined, ['dir/c.log']],
            [`${root}**/*.log`, undefined, ['b.log', 'dir/c.log', 'dir/deep/e.log']],
            [`${root}[ab].log`, undefined, ['b.log']],
            [`${root}dir/{name}.txt`, undefined, ['dir/d.txt']],
            [`${root}dir/`, undefined, ['dir/c.log', 'dir/d.txt', 'dir/deep/e.log']],
            [`${root}dir`, 'container', ['dir/c.log', 'dir/d.txt', 'dir/deep/e.log']],
            [`${root}?.log`, 'glob', ['b.log']],
            ['/dir/.*[.]log$', 'regex', ['dir/c.log', 'dir/deep/e.log']],
            [`${root}dir?pattern=*.log`, undefined, ['dir/c.log', 'dir/deep/e.log']],
            ['file:///query?pattern=*.txt', undefined, ['a.txt', 'dir/d.txt']],
        ];
        const uris = Object.fromEntries(rows.map(([uri, match]) => [uri, match ? { match } : {}]));
        const { refused } = await s.ask(rows.map(([uri]) => uri), { uris });
        assert.deepEqual(refused, {});
        for (const name of Object.keys(files)) {
            s.tree.replace(name, 'two');
        }
        for (const [uri, , names] of rows) {
            const heard = new Set();
            while (heard.size < names.length) {
                const update = await s.update(uri, `${names.length} updates for ${uri}`);
                assert.equal(extras(update).subscribedUri, uri);
                heard.add(update.params.uri);
            }
            assert.deepEqual([...heard].sort(), names.map((name) => s.uri(name)).sort(), uri);
        }
        const wrong = s.messages.filter(isUpdate).filter(({ params }) => {
            const row = rows.find(([uri]) => uri === params.subscribedUri);
            return !row[2].some((name) => s.uri(name) === params.uri) && !params.uri.endsWith('/');
        });
        assert.deepEqual(wrong, []);
    });

    it('invalid options are rejected with a reason', async (t) => {
        const s = await open(t, [...NO_WINDOW, '--max-breadth', '0']);
        const a = s.uri('a.txt');
        const rows = [
            [a, { windowMs: 'soon' }, /'windowMs'.*integer/],
            [a, { windowMs: 60001 }, /'windowMs'.*0 to 60000/],
            [a, { rateMs: -1 }, /'rateMs'/],
            [a, { match: 'fuzzy' }, /'match'.*literal.*regex/],
            [a, { include: 'diff' }, /'include'.*none.*value/],
            [a, { initial: 'yes' }, /'initial'.*true or false/],
            [a, { since: 'yesterday' }, /'since'.*cursor/],
            [a, { origin: '' }, /'origin'/],
            [a, { filter: 'yes' }, /'filter'.*JSON Schema/],
            [a, { filter: { properties: { uri: { type: 'text' } } } }, /'filter'.*\/properties\/uri\/type/],
            [a, { window: 5 }, /'window'.*windowMs/],
            [s.uri('.git/HEAD'), {}, /no such file/],
            ['none:///x/', {}, /'none:'/],
            [`${s.uri('dir')}?glob=*`, {}, /pattern=/],
            ['(', { match: 'regex' }, /./],
            ['file:///', {}, /--max-breadth/],
        ];
        for (const [uri, options, reason] of rows) {
            const { honoured, refused, code } = await s.ask([uri], options);
            assert.deepEqual(honoured, [], JSON.stringify([uri, options]));
            assert.match(refused[uri], reason);
            if (mode.era === 'legacy' && Object.keys(options).length > 0) {
                assert.equal(code, -32602, uri);
            }
        }
        const { honoured } = await s.ask([a]);
        assert.deepEqual(honoured, [a]);
        s.tree.replace('a.txt', 'two');
        await s.update(a);
    });

    it('cursor is in the answer and every update, and never decreases', async (t) => {
        const s = await open(t);
        const a = s.uri('a.txt');
        const { cursor } = await s.ask([a]);
        assert.match(cursor, /^[0-9a-f]+\.\d+$/);
        const epoch = cursor.split('.')[0];
        let last = seqOf(cursor);
        let version = 0;
        for (let i = 0; i < 3; i += 1) {
            s.tree.replace('a.txt', `text ${i}`);
            const update = extras(await s.update(a));
            assert.equal(update.cursor.split('.')[0], epoch);
            assert.equal(update.version.split('.')[0], epoch);
            assert.ok(seqOf(update.version) > version, 'versions rise');
            assert.ok(seqOf(update.cursor) >= last, 'cursors do not fall');
            assert.ok(seqOf(update.cursor) >= seqOf(update.version));
            last = seqOf(update.cursor);
            version = seqOf(update.version);
        }
    });

    it('overlapping subscriptions receive one update each', async (t) => {
        const s = await open(t);
        const c = s.uri('dir/c.log');
        const uris = [c, s.uri('dir/'), s.uri(''), `${s.uri('dir/')}*.log`];
        await s.ask(uris);
        s.tree.replace('dir/c.log', 'two');
        for (const uri of uris) {
            const update = await s.update(uri);
            assert.equal(update.params.uri, c);
            assert.equal(extras(update).subscribedUri, uri);
        }
        s.tree.replace('a.txt', 'two'); /* a mark: everything before it has arrived */
        await s.message((m) => isUpdate(m) && m.params.uri === s.uri('a.txt'), 'the mark');
        const told = s.messages.filter((m) => isUpdate(m) && m.params.uri === c);
        assert.equal(told.length, uris.length, JSON.stringify(told));
    });
}

for (const era of ['legacy', 'modern']) {
    const it = (name, body) => test(`${era}: ${name}`, body);
    const join = async (t, args) => {
        const server = await servePublish(t, args);
        return Subscriber.join(server, era);
    };

    it('window coalesces changes and counts them', async (t) => {
        const s = await join(t);
        await s.ask([RESOURCE], { windowMs: 1500 });
        for (let i = 1; i <= 20; i += 1) {
            await s.server.publish({ i });
        }
        const first = await s.update(RESOURCE);
        assert.equal(extras(first).merged, undefined);
        assert.equal(extras(first).metadata.i, 1);
        const second = await s.update(RESOURCE, 'the end of the window');
        assert.equal(extras(second).merged, 19);
        assert.equal(extras(second).metadata.i, 20, 'the last state is told');
        assert.equal(s.messages.filter(isUpdate).length, 2);
    });

    it('gather delays even the first change to the end of the window', async (t) => {
        const s = await join(t);
        await s.ask([RESOURCE], { windowMs: 300, gather: true });
        const begun = performance.now();
        for (let i = 1; i <= 5; i += 1) {
            await s.server.publish({ i });
        }
        let told = 0;
        while (told < 5) {
            told += extras(await s.update(RESOURCE)).merged ?? 1;
            assert.ok(performance.now() - begun >= 298, 'the server counts whole milliseconds');
        }
        assert.equal(told, 5);
    });

    it('rate coalesces changes, and a busy stream gets an update per period', async (t) => {
        const s = await join(t);
        await s.ask([RESOURCE], { rateMs: 200 });
        const begun = Date.now();
        let sent = 0;
        let told = 0;
        let updates = 0;
        while (Date.now() - begun < 900) {
            sent += 1;
            await s.server.publish({ i: sent });
        }
        while (told < sent) {
            told += extras(await s.update(RESOURCE)).merged ?? 1;
            updates += 1;
        }
        assert.equal(told, sent);
        const periods = (Date.now() - begun) / 200;
        assert.ok(updates >= 3, `${updates} updates: a busy stream was starved`);
        assert.ok(updates <= periods + 2, `${updates} updates in ${periods} periods`);
    });

    it('each URI accepts its own options', async (t) => {
        const s = await join(t);
        await s.ask([RESOURCE, 'bench://r/*'], {
            windowMs: 60000,
            uris: { 'bench://r/*': { windowMs: 0, include: 'metadata' } },
        });
        for (let i = 1; i <= 3; i += 1) {
            await s.server.publish({ i });
            assert.equal((await s.update('bench://r/*')).params.metadata.i, i);
        }
        const told = s.messages.filter(updatesFor(RESOURCE));
        assert.equal(told.length, 1);
        assert.equal(told[0].params.metadata, undefined);
    });

    it('query attributes are compared with the metadata', async (t) => {
        const s = await join(t);
        const errors = `${RESOURCE}?type=error`;
        const severe = 'bench://r/?type=error&level=3';
        const { refused } = await s.ask([errors, severe, RESOURCE]);
        assert.deepEqual(refused, {});
        for (const [type, level] of [['info', 3], ['error', 1], ['error', 3], ['info', 1]]) {
            await s.server.publish({ type, level });
            await s.update(RESOURCE); /* otherwise two updates in one turn merge */
        }
        const metadata = (uri) => s.messages.filter(updatesFor(uri)).map((m) => extras(m).metadata);
        assert.deepEqual(metadata(errors).map((m) => m.level), [1, 3]);
        assert.deepEqual(metadata(severe).map((m) => m.level), [3]);
        assert.equal(metadata(RESOURCE).length, 4);
    });

    it('since replays missed changes first, once per resource', async (t) => {
        const s = await Subscriber.open(t, { era, transport: 'http' }, { files, args: NO_WINDOW });
        const [a, b, dir] = ['a.txt', 'b.log', 'dir/'].map((name) => s.uri(name));
        const uris = [a, b, dir];
        await s.ask(uris);
        s.tree.replace('a.txt', 'two');
        const { cursor } = extras(await s.update(a));
        /* The watch lingers, so the log contains changes without a subscriber. */
        s.close();
        for (let i = 0; i < 3; i += 1) {
            s.tree.replace('b.log', `text ${i}`);
            s.tree.replace('dir/c.log', `text ${i}`);
        }
        const again = await Subscriber.join(s.server, era);
        const { cursor: standing } = await again.ask(uris, { since: cursor });
        assert.ok(seqOf(standing) <= seqOf(cursor), 'nothing is claimed that is still owed');
        assert.equal((await again.update(b)).params.uri, b);
        assert.equal((await again.update(dir)).params.uri, s.uri('dir/c.log'));
        s.tree.replace('a.txt', 'three');
        await again.update(a);
        assert.equal(again.messages.filter(updatesFor(a)).length, 1, 'a did not change meanwhile');
        assert.equal(again.messages.filter((m) => m.params?._meta?.['dev.tidings/truncated']).length, 0);
        again.close();
    });

    it('since with a cursor of an earlier server run requires a reread', async (t) => {
        const s = await Subscriber.open(t, { era, transport: 'http' }, { files, args: NO_WINDOW });
        const a = s.uri('a.txt');
        const pattern = `${s.uri('')}*.log`;
        await s.ask([a, pattern], { since: 'abc.5' });
        for (const uri of [a, pattern]) {
            const update = await s.update(uri);
            assert.equal(extras(update).truncated, true);
            assert.equal(update.params.uri, uri);
            assert.equal(update.params._meta[key.subscribed], uri);
            assert.ok(update.params._meta[CURSOR]);
        }
        s.tree.replace('a.txt', 'two');
        assert.equal(extras(await s.update(a)).truncated, undefined);
    });
}

test('configuration file sets defaults and limits per mount and per prefix', async (t) => {
    const tree = new Tree(t, files);
    const config = {
        mounts: [{ path: tree.path, options: { include: 'metadata', windowMs: 0 }, limits: { include: 'metadata' } }],
        subscriptions: [
            { limits: { match: ['literal', 'container'] } },
            { uri: tree.uri('dir/'), options: { initial: true }, limits: { rateMs: 10, match: ['literal'] } },
        ],
    };
    const place = new Tree(t, { 'tidings.json': JSON.stringify(config) });
    const server = await serve(t, { tree, mounts: [], args: ['--config', place.at('tidings.json')] });
    for (const era of ['legacy', 'modern']) {
        const s = await Subscriber.join(server, era);
        const rows = [
            [s.uri('a.txt'), { include: 'value' }, /at most 'metadata'/],
            [s.uri('dir/c.log'), { rateMs: 11 }, /'rateMs'.*0 to 10/],
            [s.uri('*.log'), {}, /kind glob; accepted here are: literal/],
            [s.uri('dir/'), {}, /kind container; accepted here are: literal/],
        ];
        for (const [uri, options, reason] of rows) {
            assert.match((await s.ask([uri], options)).refused[uri], reason);
        }
        const [a, c] = [s.uri('a.txt'), s.uri('dir/c.log')];
        assert.deepEqual((await s.ask([a, c])).refused, {});
        assert.equal(extras(await s.update(c)).initial, true);
        tree.replace('a.txt', `${era} two`);
        assert.equal((await s.update(a)).params.metadata.change_type, 'updated');
    }
});

test('slim updates are a default of mount, prefix or server, and client options override it', async (t) => {
    const tree = new Tree(t, files);
    const slim = { options: { detail: 'slim' } };
    const full = { uri: tree.uri('dir/'), options: { detail: 'full' } };
    const rows = [
        { mounts: [{ path: tree.path, ...slim }], subscriptions: [full] },
        { mounts: [{ path: tree.path }], subscriptions: [{ uri: tree.uri(''), ...slim }, full] },
        { mounts: [{ path: tree.path }], subscriptions: [slim, full] },
        { mounts: [{ path: tree.path }], detail: 'slim', subscriptions: [full] },
        { mounts: [{ path: tree.path }], subscriptions: [full], args: ['--detail', 'slim'] },
        { mounts: [{ path: tree.path, ...slim }], subscriptions: [full], args: ['--detail', 'full'] },
    ];
    for (const [i, { args = [], ...config }] of rows.entries()) {
        const place = new Tree(t, { 'tidings.json': JSON.stringify({ window: '0ms', ...config }) });
        const server = await serve(t, { tree, mounts: [], args: ['--config', place.at('tidings.json'), ...args] });
        for (const era of ['legacy', 'modern']) {
            const s = await Subscriber.join(server, era);
            const [a, b, c] = [s.uri('a.txt'), s.uri('b.log'), s.uri('dir/c.log')];
            assert.deepEqual((await s.ask([a, b, c], { uris: { [b]: { detail: 'full' } } })).refused, {});
            ['a.txt', 'b.log', 'dir/c.log'].forEach((name) => tree.replace(name, `${era} ${i}`));
            const [slight, asked, below] = [
                await s.message((m) => isUpdate(m) && m.params.uri === a, 'a slim update'),
                await s.update(b),
                await s.update(c),
            ];
            assert.deepEqual(Object.keys(extras(slight)), ['cursor']);
            assert.equal(extras(asked).change, 'updated');
            assert.equal(extras(below).change, 'updated');
            s.close();
        }
        await server.stop();
    }
});

test('breadth is counted over all connections of one address', async (t) => {
    const server = await serve(t, { files, args: ['--max-breadth', '2'] });
    const [one, two, three] = [
        await Subscriber.join(server, 'modern'),
        await Subscriber.join(server, 'legacy'),
        await Subscriber.join(server, 'modern'),
    ];
    assert.deepEqual((await one.ask(['file:///'])).refused, {});
    assert.deepEqual((await two.ask(['file:///**'])).refused, {});
    assert.match((await three.ask(['file:///'])).refused['file:///'], /at most 2 .*'127\.0\.0\.1'.*--max-breadth/);
});

/** Publish a change of that URI, numbered when this returns. */
async function put(server, uri, body) {
    const path = `/resource?uri=${encodeURIComponent(uri)}`;
    const { status, text } = await request(server, { method: 'PUT', path, body });
    assert.ok(status < 300, text);
}

const PUBLISHED = ['--publish', 'pub:///', '--allow-write'];

for (const era of ['legacy', 'modern']) {
    test(`${era}: strict subscription receives updates in number order even if changes merge`, async (t) => {
        const server = await serve(t, { files, args: PUBLISHED });
        const s = await Subscriber.join(server, era);
        await s.ask(['pub:///'], { order: 'strict', windowMs: 500 });
        await put(server, 'pub:///first', '1');
        for (const name of ['a', 'b', 'a', 'c', 'b', 'a', 'last']) {
            await put(server, `pub:///${name}`, `${Math.random()}`);
        }
        await s.message((m) => isUpdate(m) && m.params.uri === 'pub:///last', 'the last one');
        const told = s.messages.filter(isUpdate).map((m) => seqOf(extras(m).version));
        assert.ok(told.length >= 5);
        assert.deepEqual(told, [...told].sort((x, y) => x - y));
    });

    test(`${era}: bookmark keeps the position of a subscriber without updates`, async (t) => {
        const args = [...PUBLISHED, '--keepalive', '1s', '--log-entries', '5'];
        const server = await serve(t, { files, args });
        await put(server, 'pub:///mine', '0');
        const s = await Subscriber.join(server, era);
        const { cursor } = await s.ask(['pub:///mine'], { bookmarks: true });
        for (let i = 0; i < 20; i += 1) {
            await put(server, `pub:///other/${i}`, 'x');
        }
        const isNewest = (m) =>
            m.method === 'notifications/dev.tidings/bookmark' &&
            seqOf(m.params._meta[CURSOR]) >= seqOf(cursor) + 20;
        const bookmark = await s.message(isNewest, 'a bookmark');
        holds('bookmark', { method: bookmark.method, params: bookmark.params });
        await put(server, 'pub:///mine', 'x');
        const again = await Subscriber.join(server, era);
        await again.ask(['pub:///mine'], { since: bookmark.params._meta[CURSOR] });
        assert.equal(extras(await again.update('pub:///mine')).truncated, undefined);
        const late = await Subscriber.join(server, era);
        await late.ask(['pub:///mine'], { since: cursor });
        assert.equal(extras(await late.update('pub:///mine')).truncated, true);
    });
}
