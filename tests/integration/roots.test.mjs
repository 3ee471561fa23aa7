// SPDX-License-Identifier: MIT
//
// A served directory is replaced at runtime, as in deployments. Watchers receive the differences and continue; later
// clients get the current content.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { call } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { ERAS, Watcher } from './lib/watcher.mjs';

const text = async (server, uri) => (await call(server, 'resources/read', { uri })).contents[0].text;

for (const era of ERAS) {
    test(`${era}: removed and recreated root is watched and read again`, async (t) => {
        const above = new Tree(t, { 'root/a.txt': '1', 'root/dir/b.txt': '1' });
        const root = above.at('root');
        const uri = (name) => above.uri(`root/${name}`);
        const server = await serve(t, { tree: above, mounts: [root] });
        const watcher = await Watcher.open(era, server, [uri(''), uri('a.txt')]);
        fs.rmSync(root, { recursive: true });
        await watcher.updated(uri('a.txt'), uri('a.txt'));
        above.write('root/dir/b.txt', '2');
        above.write('root/a.txt', '2');
        await watcher.updated(uri('dir/b.txt'), uri(''));
        await watcher.updated(uri('a.txt'), uri('a.txt'));
        assert.equal(await text(server, uri('a.txt')), '2');
        const late = await Watcher.open(era, server, [uri('dir/')]);
        above.write('root/dir/c.txt', '1');
        await late.updated(uri('dir/c.txt'));
        await watcher.updated(uri('dir/c.txt'), uri(''));
    });

    test(`${era}: link switched to another release is delivered, and its new content is read`, async (t) => {
        const above = new Tree(t, { '1/a.txt': '1', '1/dir/old.txt': '1', '2/a.txt': '2', '2/dir/new.txt': '2' });
        const current = above.at('current');
        fs.symlinkSync('1', current);
        const uri = (name) => above.uri(`current/${name}`);
        const server = await serve(t, { tree: above, mounts: [current] });
        const watcher = await Watcher.open(era, server, [uri('')]);
        fs.symlinkSync('2', above.at('next'));
        fs.renameSync(above.at('next'), current);
        await watcher.updated(uri('a.txt'));
        await watcher.updated(uri('dir/new.txt'));
        await watcher.updated(uri('dir/old.txt'));
        assert.equal(await text(server, uri('a.txt')), '2');
        fs.writeFileSync(path.join(above.path, '2', 'a.txt'), '3');
        await watcher.updated(uri('a.txt'));
    });
}

test('read without watchers returns the current content at the path', async (t) => {
    const above = new Tree(t, { 'root/a.txt': '1', 'next/a.txt': '2' });
    const uri = above.uri('root/a.txt');
    const server = await serve(t, { tree: above, mounts: [above.at('root')] });
    assert.equal(await text(server, uri), '1');
    fs.renameSync(above.at('root'), above.at('before'));
    const listed = await call(server, 'resources/list');
    assert.ok(!listed.resources.some((r) => r.uri === uri), 'what was moved away is not served');
    fs.renameSync(above.at('next'), above.at('root'));
    assert.equal(await text(server, uri), '2');
});
