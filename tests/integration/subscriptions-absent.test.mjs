// SPDX-License-Identifier: MIT
//
// Subscriptions to absent resources, in both eras, over HTTP and stdio. The creation of a file below a mount is the
// first update. A subscription that can never match is rejected or gets a warning.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it, test } from 'node:test';

import { BIN, Program, serve, serveExample } from './lib/server.mjs';
import { extras, isUpdate, MODES, Subscriber } from './lib/subscriber.mjs';
import { Tree } from './lib/tree.mjs';

const files = { 'a.txt': 'one', 'dir/b.txt': 'two' };
const NO_WINDOW = ['--window', '0'];

for (const mode of MODES) {
    describe(mode.name, () => {
        const open = (t, args = NO_WINDOW) => Subscriber.open(t, mode, { files, args });
        /** Subscribe to an absent name, and await the first update. */
        const first = async (s, name, make) => {
            const uri = s.uri(name);
            const { refused, warned } = await s.ask([uri]);
            assert.deepEqual([refused, warned], [{}, []]);
            make();
            return s.update(uri);
        };

        /** The next update for which `is` holds: one write can cause two updates. */
        const next = async (s, name, is) => {
            for (;;) {
                const told = await s.update(s.uri(name));
                if (is(told)) {
                    return told;
                }
            }
        };

        it('creation of a file is the first update', async (t) => {
            const s = await open(t);
            const told = await first(s, 'new.txt', () => {
                s.tree.write('new.txt.not', 'x');
                s.tree.write('new.txt', 'x');
            });
            assert.equal(told.params.uri, s.uri('new.txt'));
            assert.equal(extras(told).change, 'created');
            s.tree.remove('new.txt');
            await next(s, 'new.txt', (told) => extras(told).change === 'deleted');
            s.tree.write('new.txt', 'y');
            await next(s, 'new.txt', (told) => extras(told).change === 'created');
        });

        it('parent directories may be missing too', async (t) => {
            const s = await open(t);
            const told = await first(s, 'one/two/three.txt', () => s.tree.write('one/two/three.txt', 'x'));
            assert.equal(told.params.uri, s.uri('one/two/three.txt'));
            assert.equal(extras(told).change, 'created');
        });

        it('subscription covers the children if the path becomes a directory', async (t) => {
            const s = await open(t);
            const told = await first(s, 'later', () => fs.mkdirSync(s.tree.at('later')));
            assert.equal(told.params.uri, s.uri('later/'));
            assert.equal(extras(told).change, 'created');
            s.tree.write('later/x.txt', 'x');
            await next(s, 'later', ({ params }) => params.uri === s.uri('later/x.txt'));
        });

        it('outside link does not match; a file in its place does', async (t) => {
            const s = await open(t);
            fs.mkdirSync(s.tree.at('deep'));
            const told = await first(s, 'deep/escape', () => {
                fs.symlinkSync('/etc/hostname', s.tree.at('deep/link'));
                fs.renameSync(s.tree.at('deep/link'), s.tree.at('deep/escape'));
                s.tree.write('deep/real', 'mine');
                fs.renameSync(s.tree.at('deep/real'), s.tree.at('deep/escape'));
            });
            assert.equal(told.params.uri, s.uri('deep/escape'));
        });

        it('excluded files are rejected, existing or not', async (t) => {
            const s = await open(t);
            s.tree.write('.git/there', 'x');
            const [there, absent] = [s.uri('.git/there'), s.uri('.git/none')];
            const { refused } = await s.ask([there, absent]);
            assert.equal(refused[there]?.replaceAll('there', 'none'), refused[absent]);
            assert.match(refused[absent], /no such file/);
        });
    });
}

test('file:///query covers every mount, also one at the root', async (t) => {
    const tree = new Tree(t, { 'top.txt': '1', 'deep/er/x.txt': '1', 'query/y.txt': '1' });
    const server = await serve(t, { tree, mounts: [], args: [...NO_WINDOW, '--mount', `file:///=${tree.path}`] });
    for (const era of ['legacy', 'modern']) {
        const s = await Subscriber.join(server, era);
        const [all, below] = ['file:///query?pattern=*.txt', 'file:///query/?pattern=*.txt'];
        assert.deepEqual((await s.ask([all, below])).refused, {});
        const left = new Set(['top.txt', 'deep/er/x.txt', 'query/y.txt'].map((name) => `file:///${name}`));
        left.forEach((uri) => tree.replace(uri.slice('file:///'.length), era));
        while (left.size > 0) {
            left.delete((await s.update(all)).params.uri);
        }
        assert.equal((await s.update(below)).params.uri, 'file:///query/y.txt');
        const others = s.messages.filter((m) => isUpdate(m) && m.params.subscribedUri === below);
        assert.deepEqual([...new Set(others.map((m) => m.params.uri))], ['file:///query/y.txt']);
        s.close();
    }
});

test('subscriptions that match no served resource are rejected in both eras', async (t) => {
    const tree = new Tree(t, files);
    const command = (name, more) => ({ type: 'command', uri: `cmd:///${name}`, argv: ['date'], ...more });
    const mounts = [{ path: tree.path }, command('once', { interval: '0' }), command('often', { interval: '1h' })];
    tree.write('tidings.json', JSON.stringify({ mounts }));
    const args = ['--system', '--self', '--config', tree.at('tidings.json')];
    const server = await serve(t, { tree, mounts: [], args });
    const cannot = [
        'cmd:///once', 'cmd:///on*', 'cmd:///once/', 'cmd:///once/x', 'cmd:///often/', 'cmd:///often/x', 'cmd:///{x}/y', 'cmd:///none',
        'system://metrics/none', 'system://metrics/none/', 'tidings://self/none', 'tidings://self/none/', 'tidings://self/mounts',
        'file:///*.txt', 'file:///nowhere/**', 'file:///nowhere?pattern=*.txt', 'file:///nowhere/x', 'other:///x', 'other:///*',
        'other:///{x}', 'other:///x/', 'other:///?a=b',
        'system://metrics/x*', 'system://metrics/load/*', 'system://metrics/{a}/{b}', 'system://*/cpu', 'system://metrics/load/',
        'tidings://self/x*', 'tidings://self/met*', 'tidings://self/**/mine', 'tidings://self/stats/{x}', 'tidings://self/stats/',
    ];
    const can = ['cmd:///often', 'cmd:///of*', 'cmd:///**', 'cmd:///{x}', 'cmd:///', 'system://metrics/', 'tidings://self/*',
        'system://metrics/l*', 'system://*/disk', 'system://metrics/{x}', 'system://', 'tidings://self/st*', 'tidings://**', 'tidings://self/{x}'];
    for (const era of ['legacy', 'modern']) {
        const s = await Subscriber.join(server, era);
        const { honoured, refused, warned } = await s.ask([...cannot, ...can]);
        assert.deepEqual(honoured, can, JSON.stringify(refused));
        assert.deepEqual(Object.keys(refused), cannot);
        assert.deepEqual(warned, []);
        s.close();
    }
});

test('regex with an unserved literal prefix gets a warning', async (t) => {
    const tree = new Tree(t, files);
    const mounts = [{ path: tree.path }, { type: 'command', uri: 'cmd:///once', argv: ['date'], interval: '0' }];
    tree.write('tidings.json', JSON.stringify({ mounts }));
    const args = ['--system', '--self', '--config', tree.at('tidings.json'), ...NO_WINDOW];
    const server = await serve(t, { tree, mounts: [], args });
    const never = ['^file:///nowhere/', '^other:', '^system://metrics/x', '^system://metrics/load/', '^tidings://self/metrics$', '^cmd:'];
    const can = [
        `^${tree.uri('')}.*[.]txt$`, '^f', '^file://', '^system://metrics/l', '^tidings://self/s.*s', '^other:|txt', '(?i)^OTHER:', '^(other:)?',
        'nowhere/',
    ];
    for (const mode of MODES.filter(({ transport }) => transport !== 'stdio')) {
        const s = await Subscriber.join(server, mode.era);
        const { honoured, refused, warned } = await s.ask([...never, ...can], { match: 'regex' });
        assert.deepEqual([honoured, refused], [[...never, ...can], {}]);
        assert.deepEqual(warned.map(({ uri }) => uri), never);
        assert.match(warned[0].reason, /^nothing that is served now can match it/);
        assert.match(warned.at(-1).reason, /^all resources that it matches now are not subscribable/);
        tree.replace('a.txt', mode.era);
        assert.equal((await s.update(can[0])).params.uri, tree.uri('a.txt'));
        s.close();
    }
});

test('regex over the server state gets a warning without --self', async (t) => {
    const server = await serve(t, { files });
    for (const era of ['legacy', 'modern']) {
        const s = await Subscriber.join(server, era);
        const { honoured, warned } = await s.ask(['^tidings://self/'], { match: 'regex' });
        assert.deepEqual([honoured, warned.map(({ uri }) => uri)], [['^tidings://self/'], ['^tidings://self/']]);
        s.close();
    }
});

test('warnings do not depend on hidden resources', async (t) => {
    const tree = new Tree(t, files);
    const rules = ['system://metrics/load', tree.uri('a.txt')].map((uri) => ({ uri, allow: ['list', 'read', 'subscribe'] }));
    const asked = ['^system://metrics/disk', '^system://metrics/none', '^tidings://self/stats', '^tidings://self/none', '^system://metrics/l'];
    const globs = ['system://metrics/di*', 'system://metrics/no*', 'system://metrics/l*'];
    const args = ['--system', '--self', ...rules.flatMap((rule) => ['--access', JSON.stringify(rule)])];
    const server = await serve(t, { tree, args });
    for (const era of ['legacy', 'modern']) {
        const s = await Subscriber.join(server, era);
        const { warned } = await s.ask(asked, { match: 'regex' });
        assert.deepEqual(warned.map(({ uri }) => uri), asked.slice(0, 4));
        assert.equal(new Set(warned.map(({ reason }) => reason)).size, 1);
        const { honoured, refused } = await s.ask(globs);
        assert.deepEqual(honoured, globs.slice(2));
        assert.equal(refused[globs[0]].replace('di*', 'no*'), refused[globs[1]]);
        s.close();
    }
});

test('glob over a template receives its resources; an unmatchable glob gets a warning', async (t) => {
    const server = await serveExample(t, 'weather');
    for (const era of ['legacy', 'modern']) {
        const s = await Subscriber.join(server, era);
        const { honoured, warned } = await s.ask(['weather://city/*', 'weather://sea/*']);
        assert.deepEqual(honoured, ['weather://city/*', 'weather://sea/*']);
        assert.deepEqual(warned.map(({ uri }) => uri), ['weather://sea/*']);
        const { params } = await s.update('weather://city/*');
        assert.match(params.uri, /^weather:\/\/city\/[a-z]+$/);
        s.close();
        const args = ['watch', `--era=${era}`, server.url, 'weather://sea/*'];
        const watch = new Program(t, BIN, args);
        await watch.lines.next((line) => line.startsWith('tidings watch: warning: weather://sea/*: nothing that is served'));
        watch.child.kill('SIGINT');
        await watch.closed;
    }
});

test('tidings watch accepts a missing path', async (t) => {
    const server = await serve(t, { files });
    const watch = new Program(t, BIN, ['watch', '-1', '-t', server.url, 'build/out.log'], { cwd: server.tree.path });
    const out = watch.output();
    await watch.lines.next((line) => line.startsWith('watching '));
    server.tree.write('build/out.log', 'done');
    assert.equal((await watch.closed).code, 0, watch.stderr);
    assert.match(out.seen[0], /created/);
    assert.equal(path.basename(out.seen[0]), 'out.log');
});
