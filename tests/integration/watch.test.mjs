// SPDX-License-Identifier: MIT
//
// Files as live resources, end to end, in both eras: subscribers receive every kind of file change. No test assumes
// the number of notifications per change, only that at least one arrives.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { call, listen, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually, slow } from './lib/wait.mjs';
import { ERAS, Watcher } from './lib/watcher.mjs';

const files = { 'a.txt': '1', 'b.txt': '1', 'dir/c.txt': '1', 'dir/sub/d.txt': '1' };

/** One test per era: `body` receives the server's tree and a function that starts a watcher. */
function both(name, body, options = {}) {
    for (const era of ERAS) {
        test(`${era}: ${name}`, options, async (t) => {
            const server = await serve(t, { files, ...options.serve });
            const watch = (...names) =>
                Watcher.open(
                    era,
                    server,
                    names.map((n) => server.uri(n)),
                );
            await body({ t, server, tree: server.tree, uri: server.uri, watch, era });
        });
    }
}

both('a write is told and the new content is read', async ({ server, tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    tree.write('a.txt', '2');
    const params = await watcher.updated(uri('a.txt'));
    assert.equal(params.subscribedUri, uri('a.txt'));
    assert.equal(
        (await call(server, 'resources/read', { uri: uri('a.txt') })).contents[0].text,
        '2',
    );
});

both('every append to a file that stays open is told', async ({ t, tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    const file = fs.openSync(tree.at('a.txt'), 'a');
    defer(t, () => fs.closeSync(file));
    for (let i = 0; i < 3; i += 1) {
        fs.writeSync(file, `line ${i}\n`);
        await watcher.updated(uri('a.txt'));
    }
});

both('truncation is told', async ({ tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    fs.truncateSync(tree.at('a.txt'), 0);
    await watcher.updated(uri('a.txt'));
});

both('an atomic save from outside the tree is told', async ({ tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    for (let i = 0; i < 3; i += 1) {
        tree.replace('a.txt', `version ${i}`);
        await watcher.updated(uri('a.txt'));
    }
});

both('an atomic save beside the file is told', async ({ server, tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    tree.replace('a.txt', 'saved', tree.at('.a.txt.swp'));
    await watcher.updated(uri('a.txt'));
    assert.equal(
        (await call(server, 'resources/read', { uri: uri('a.txt') })).contents[0].text,
        'saved',
    );
});

both('a file renamed into the directory is told to it', async ({ tree, uri, watch }) => {
    const watcher = await watch('dir/');
    tree.replace('dir/in.txt', 'new');
    assert.equal((await watcher.updated(uri('dir/in.txt'))).subscribedUri, uri('dir/'));
    await watcher.listChanged();
});

both('a file renamed out of the directory is told', async ({ t, server, tree, uri, watch }) => {
    const watcher = await watch('dir/', 'dir/c.txt');
    const aside = tree.aside();
    defer(t, () => fs.rmSync(aside, { force: true }));
    fs.renameSync(tree.at('dir/c.txt'), aside);
    await watcher.updated(uri('dir/c.txt'), uri('dir/'));
    await watcher.updated(uri('dir/c.txt'), uri('dir/c.txt'));
    await watcher.listChanged();
    const { resources } = await call(server, 'resources/list');
    assert.ok(!resources.some((resource) => resource.uri === uri('dir/c.txt')));
});

both(
    'a file renamed within the directory is told under both names',
    async ({ tree, uri, watch }) => {
        const watcher = await watch('dir/');
        fs.renameSync(tree.at('dir/c.txt'), tree.at('dir/renamed.txt'));
        const metaOf = async (name) => (await watcher.updated(uri(name)))._meta;
        const gone = await metaOf('dir/c.txt');
        assert.equal(gone['dev.tidings/change'], 'deleted');
        assert.equal(gone['dev.tidings/metadata'].change_type, 'deleted');
        const here = await metaOf('dir/renamed.txt');
        assert.equal(here['dev.tidings/change'], 'created');
        assert.equal(here['dev.tidings/from'], uri('dir/c.txt'));
        assert.equal(here['dev.tidings/metadata'].change_type, 'moved');
        await watcher.listChanged();
    },
);

both('a deletion is told, and so is the creation after it', async ({ tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    tree.remove('a.txt');
    await watcher.updated(uri('a.txt'));
    await watcher.listChanged();
    tree.write('a.txt', 'again');
    await watcher.updated(uri('a.txt'));
    tree.write('a.txt', 'and again');
    await watcher.updated(uri('a.txt'));
});

both('deletion and creation at once are told', async ({ server, tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    tree.remove('a.txt');
    tree.write('a.txt', 'again');
    await eventually(async () => {
        await watcher.updated(uri('a.txt'));
        const response = await call(server, 'resources/read', { uri: uri('a.txt') });
        return response.contents[0].text === 'again';
    }, 'the new content can be read');
});

both(
    'files made at once in directories made at once are all told',
    async ({ tree, uri, watch }) => {
        const watcher = await watch('');
        const names = [];
        for (let i = 0; i < 20; i += 1) {
            const name = `r${i}/p/q/x.txt`;
            tree.write(name, 'x');
            names.push(name);
        }
        for (const name of names) {
            assert.equal((await watcher.updated(uri(name))).subscribedUri, uri(''));
        }
    },
);

both('a directory tree moved in is told, and watched', async ({ t, tree, uri, watch }) => {
    const watcher = await watch('');
    const aside = tree.aside();
    defer(t, () => fs.rmSync(aside, { recursive: true, force: true }));
    fs.mkdirSync(`${aside}/one/two`, { recursive: true });
    fs.writeFileSync(`${aside}/one/two/x.txt`, 'x');
    fs.renameSync(aside, tree.at('moved'));
    await watcher.updated(uri('moved/one/two/x.txt'));
    tree.write('moved/one/two/x.txt', 'y');
    await watcher.updated(uri('moved/one/two/x.txt'));
});

both('a directory tree moved within the tree keeps being watched', async ({ tree, uri, watch }) => {
    const watcher = await watch('');
    fs.renameSync(tree.at('dir'), tree.at('moved'));
    await watcher.updated(uri('dir/sub/d.txt'));
    await watcher.updated(uri('moved/sub/d.txt'));
    tree.write('moved/sub/d.txt', '2');
    await watcher.updated(uri('moved/sub/d.txt'));
});

both('a directory tree that is deleted is told', async ({ tree, uri, watch }) => {
    const watcher = await watch('', 'dir/sub/d.txt');
    tree.remove('dir');
    await watcher.updated(uri('dir/sub/d.txt'), uri(''));
    await watcher.updated(uri('dir/sub/d.txt'), uri('dir/sub/d.txt'));
    await watcher.listChanged();
});

both('a change of permissions is told', async ({ t, tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    fs.chmodSync(tree.at('a.txt'), 0o000);
    defer(t, () => fs.chmodSync(tree.at('a.txt'), 0o644));
    await watcher.updated(uri('a.txt'));
});

both('links made in the directory are told', async ({ tree, uri, watch }) => {
    const watcher = await watch('dir/');
    fs.linkSync(tree.at('a.txt'), tree.at('dir/hard.txt'));
    await watcher.updated(uri('dir/hard.txt'));
    fs.symlinkSync('c.txt', tree.at('dir/soft.txt'));
    await watcher.updated(uri('dir/soft.txt'));
});

both('a directory that does not exist yet is watched', async ({ tree, uri, watch }) => {
    const watcher = await watch('not/yet/here/');
    tree.write('not/yet/x.txt', 'beside');
    tree.write('not/yet/here/x.txt', 'inside');
    const params = await watcher.updated(uri('not/yet/here/x.txt'));
    assert.equal(params.subscribedUri, uri('not/yet/here/'));
    assert.ok(!watcher.uris.includes(uri('not/yet/x.txt')));
});

both('a listed directory may be named without its slash', async ({ tree, uri, watch, server }) => {
    const watcher = await watch('dir');
    tree.write('dir/sub/d.txt', '2');
    const params = await watcher.updated(uri('dir/sub/d.txt'));
    assert.equal(params.subscribedUri, uri('dir'));
    assert.ok(server.running);
});

both('a file outside the subscription is not told', async ({ tree, uri, watch }) => {
    const watcher = await watch('dir/');
    tree.write('a.txt', '2');
    tree.write('dirty.txt', '1');
    tree.write('dir/c.txt', '2');
    await watcher.updated(uri('dir/c.txt'));
    assert.deepEqual([...new Set(watcher.uris)], [uri('dir/c.txt')]);
});

both(
    'excluded names are not told',
    async ({ tree, uri, watch }) => {
        const watcher = await watch('');
        tree.write('.git/index', 'x');
        tree.write('x.log', 'x');
        tree.write('a.txt', '2');
        await watcher.updated(uri('a.txt'));
        assert.ok(!watcher.uris.some((u) => /\.git|\.log/.test(u)), watcher.uris.join(' '));
    },
    { serve: { args: ['--exclude', '*.log'] } },
);

both('a busy file keeps being told and the last state is', async ({ server, tree, uri, watch }) => {
    const watcher = await watch('a.txt');
    for (let i = 0; i <= 300; i += 1) {
        tree.write('a.txt', String(i));
    }
    await eventually(async () => {
        await watcher.updated(uri('a.txt'));
        return (
            (await call(server, 'resources/read', { uri: uri('a.txt') })).contents[0].text === '300'
        );
    }, 'the last state can be read after a notification');
});

both('a burst of creations is told file by file', async ({ server, tree, uri, watch }) => {
    const watcher = await watch('dir/');
    const names = Array.from({ length: 500 }, (_, i) => `dir/burst-${i}.txt`);
    server.child.kill('SIGSTOP'); // so that all changes arrive at once: more than one turn writes
    names.forEach((name) => tree.write(name, 'x'));
    server.child.kill('SIGCONT');
    const missing = () => {
        const told = new Set(watcher.uris);
        return names.filter((name) => !told.has(uri(name)));
    };
    await eventually(() => missing().length === 0, 'every file was told');
    await watcher.listChanged();
});

/** Returns true for the truncated notice. */
const truncated = (m) => JSON.stringify(m).includes('truncated');

both(
    'after an overflow of the kernel queue every change is known',
    async ({ server, tree, uri, watch }) => {
        const watcher = await watch('');
        const limit = Number(fs.readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
        const count = Math.max(20_000, limit + 2_000);
        server.child.kill('SIGSTOP');
        fs.mkdirSync(tree.at('flood'));
        for (let i = 0; i < count; i += 1) {
            fs.writeFileSync(tree.at(`flood/${i}`), '');
        }
        tree.write('a.txt', 'changed under the flood');
        server.child.kill('SIGCONT');
        const missing = () => {
            if (watcher.events.messages.some(truncated)) {
                return 0;
            }
            const told = new Set(watcher.uris);
            let left = told.has(uri('a.txt')) ? 0 : 1;
            for (let i = 0; i < count; i += 1) {
                left += told.has(uri(`flood/${i}`)) ? 0 : 1;
            }
            return left;
        };
        await eventually(() => missing() === 0, `all of ${count} changes were told`, 6 * DEADLINE);
        await watcher.listChanged();
        await eventually(() => {
            tree.write('flood/after', String(Date.now()));
            return watcher.uris.includes(uri('flood/after'));
        }, 'single changes are told again');
        const read = await call(server, 'resources/read', { uri: uri(`flood/${count - 1}`) });
        assert.equal(read.contents[0].uri, uri(`flood/${count - 1}`));
    },
    { timeout: 120_000 * slow },
);

both(
    'beyond --max-watches directories are polled and the operator is told',
    async ({ server, tree, uri, watch }) => {
        for (let i = 0; i < 20; i += 1) {
            tree.write(`many/${i}/x.txt`, '1');
        }
        const watcher = await watch('');
        await server.lines.next(
            (line) => /watch/i.test(line) && /poll|limit/i.test(line),
            'a line about the limit',
        );
        const names = ['many/0/x.txt', 'many/7/x.txt', 'many/19/x.txt', 'many/13/new.txt'];
        names.forEach((name) => tree.write(name, 'changed'));
        for (const name of names) {
            await watcher.updated(uri(name));
        }
    },
    { serve: { args: ['--max-watches', '5'] } },
);

test('names with any bytes are listed, read and delivered', async (t) => {
    const names = [
        'with space',
        'per%cent',
        'ha#sh',
        'que?stion',
        'quo"te',
        'plus+plus',
        'ümläut',
        'semi;colon',
        '[brackets]',
        'tab\there',
        'new\nline',
        "'",
        '{brace}',
        '*star',
    ];
    const server = await serve(t, { files: Object.fromEntries(names.map((name) => [name, name])) });
    const invalid = Buffer.concat([
        Buffer.from(`${server.tree.path}/`),
        Buffer.from([0x66, 0xff, 0xfe]),
    ]);
    fs.writeFileSync(invalid, 'not UTF-8');
    const { resources } = await call(server, 'resources/list');
    const listed = resources.map((resource) => resource.uri).filter((u) => u !== server.uri(''));
    assert.equal(listed.length, names.length + 1, listed.join('\n'));
    const found = new Set();
    for (const uri of listed) {
        assert.match(uri, /^[\x21-\x7e]+$/, 'a URI is visible ASCII');
        const { contents } = await call(server, 'resources/read', { uri });
        found.add(contents[0].text);
    }
    assert.deepEqual(found, new Set([...names, 'not UTF-8']));
    const { ack, events } = await listen(server, { resourceSubscriptions: listed });
    assert.equal(
        ack.notifications.resourceSubscriptions.length,
        listed.length,
        JSON.stringify(ack),
    );
    fs.writeFileSync(invalid, 'changed');
    for (const name of names) {
        server.tree.write(name, 'changed');
    }
    for (const uri of listed) {
        await events.message(updates(uri), `an update of ${uri}`);
    }
});

test('list is flat and sorted by bytes, directories with a slash', async (t) => {
    const names = ['Z', 'a', 'a.b', 'a/', 'a/b', 'a0', 'b/', 'b/c/', 'b/c/d', 'é'];
    const plain = names.filter((name) => !name.endsWith('/') && name !== 'a');
    const server = await serve(t, { files: Object.fromEntries(plain.map((name) => [name, ''])) });
    const uris = [];
    let cursor;
    do {
        const page = await call(
            server,
            'resources/list',
            cursor ? { cursor, pageSize: 3 } : { pageSize: 3 },
        );
        uris.push(...page.resources.map((resource) => resource.uri));
        cursor = page.nextCursor;
    } while (cursor);
    const sorted = [...uris].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
    assert.deepEqual(uris, sorted);
    assert.equal(new Set(uris).size, uris.length);
    for (const name of [...plain, 'a/', 'b/', 'b/c/']) {
        assert.ok(uris.includes(server.uri(name)), `${name} is not in ${uris}`);
    }
});

test('symbolic links to directories are listed, not followed', async (t) => {
    const server = await serve(t, { files: { 'real/x.txt': 'x' } });
    fs.symlinkSync('real', server.tree.at('link'));
    const { resources } = await call(server, 'resources/list');
    const uris = resources.map((resource) => resource.uri);
    assert.ok(
        uris.some((uri) => uri === server.uri('link') || uri === server.uri('link/')),
        uris.join(' '),
    );
    assert.ok(!uris.includes(server.uri('link/x.txt')), uris.join(' '));
});

test('--mount serves a directory under another prefix', async (t) => {
    const tree = new Tree(t, { 'one/a.txt': '1', 'two/deep/b.txt': '1' });
    const mounts = [
        '--mount',
        `file://data/=${tree.at('one')}`,
        '--mount',
        `notes:///=${tree.at('two')}`,
    ];
    const server = await serve(t, { tree, mounts });
    const { resources } = await call(server, 'resources/list');
    const uris = resources.map((resource) => resource.uri);
    assert.ok(uris.includes('file://data/a.txt'), uris.join(' '));
    assert.ok(uris.includes('notes:///deep/b.txt'), uris.join(' '));
    assert.equal(
        (await call(server, 'resources/read', { uri: 'file://data/a.txt' })).contents[0].text,
        '1',
    );
    const { events } = await listen(server, {
        resourceSubscriptions: ['file://data/', 'notes:///deep/b.txt'],
    });
    tree.write('one/a.txt', '2');
    tree.write('two/deep/b.txt', '2');
    await events.message(updates('file://data/a.txt'), 'an update under the first mount');
    await events.message(updates('notes:///deep/b.txt'), 'an update under the second');
});
