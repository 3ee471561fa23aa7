// SPDX-License-Identifier: MIT
//
// Access rules and symbolic links. A client that may see one directory does not see link targets outside it in answers,
// lists, directories, completions or notifications, and cannot distinguish them from absent files.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { listen, meta, modern, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, within } from './lib/wait.mjs';

const SEE = ['list', 'read', 'subscribe'];

async function start(t) {
    const tokens = new TokenFile(t);
    const tree = new Tree(t, { 'public/p.txt': 'open', 'private/s.txt': 'SECRET', 'private/sub/t.txt': 'SECRET' });
    fs.symlinkSync('../private/s.txt', tree.at('public/link.txt'));
    fs.symlinkSync('../private', tree.at('public/dir'));
    fs.symlinkSync('p.txt', tree.at('public/fine.txt'));
    const file = new Tree(t).at('access.json');
    const rules = [
        { principal: 'ada', uri: `${tree.uri('public/')}**`, allow: SEE },
        { principal: 'ada', uri: tree.uri('public/'), allow: SEE },
        { principal: 'bob', allow: SEE },
    ];
    fs.writeFileSync(file, JSON.stringify(rules));
    const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
    const server = await serve(t, { tree, args: [...tokens.args, '--access-file', file] });
    return { tree, server, ada: as(server, ada), bob: as(server, bob) };
}

const at = (uri) => `/resource?uri=${encodeURIComponent(uri)}`;

/** Removes expected differences from two answers: the requested name. */
const alike = (answer, uri) => [answer.status, answer.text.replaceAll(uri, 'URI')];

test('link target is read, listed, described and completed under both names or not at all', async (t) => {
    const { tree, ada, bob } = await start(t);
    const absent = tree.uri('public/nothing.txt');
    const etag = (await request(bob, { method: 'GET', path: at(tree.uri('private/s.txt')) })).headers.get('etag');
    for (const name of ['public/link.txt', 'public/dir', 'public/dir/', 'public/dir/s.txt', 'public/dir/sub/t.txt']) {
        const uri = tree.uri(name);
        for (const method of ['resources/read', 'resources/metadata', 'resources/list']) {
            const [denied, missing] = await Promise.all([uri, absent].map((u) => modern(ada, method, { uri: u }, { id: 1 })));
            assert.deepEqual(alike(denied, uri), alike(missing, absent), `${method} ${name}`);
            assert.ok((await modern(bob, method, { uri })).status, `${method} ${name}`);
        }
        for (const headers of [{}, { 'If-None-Match': etag }, { Range: 'bytes=100-200' }]) {
            const [denied, missing] = await Promise.all([uri, absent].map((u) => request(ada, { method: 'GET', path: at(u), headers })));
            assert.equal(denied.status, 404, denied.text);
            assert.deepEqual(alike(denied, uri), alike(missing, absent), `GET ${name}`);
        }
        if (!name.startsWith('public/dir') || name.endsWith('.txt')) {
            assert.match((await request(bob, { method: 'GET', path: at(uri) })).text, /SECRET/);
        }
    }
    const seen = [
        await modern(ada, 'resources/list'),
        await modern(ada, 'resources/list', { uri: tree.uri('public/') }),
        await modern(ada, 'resources/read', { uri: tree.uri('public/') }),
        await request(ada, { method: 'GET', path: at(tree.uri('public/')) }),
        await modern(ada, 'completion/complete', {
            ref: { type: 'ref/resource', uri: `${tree.uri('')}{+path}` },
            argument: { name: 'path', value: 'public/' },
        }),
    ];
    for (const { text, status } of seen) {
        assert.equal(status, 200, text);
        assert.match(text, /fine\.txt/);
        assert.doesNotMatch(text, /link\.txt|SECRET|public\/dir|"dir\/?"/);
    }
    assert.equal((await request(ada, { method: 'GET', path: at(tree.uri('public/fine.txt')) })).text, 'open');
});

test('change of a link target is reported only to clients that may see both names', async (t) => {
    const { tree, ada, bob } = await start(t);
    const everything = { resourceSubscriptions: [tree.uri('public/')], resourcesListChanged: true };
    const [hers, his] = [await listen(ada, everything), await listen(bob, everything)];
    // A link to a hidden target gets the answer of an absent name, and never an update.
    const links = ['link.txt', 'dir', 'dir/', 'dir/s.txt', 'dir/sub/t.txt'].map((name) => tree.uri(`public/${name}`));
    const absent = ['none.txt', 'non', 'non/', 'non/s.txt', 'non/sub/t.txt'].map((name) => tree.uri(`public/${name}`));
    const [named, missing] = [await listen(ada, { resourceSubscriptions: links }), await listen(ada, { resourceSubscriptions: absent })];
    assert.deepEqual(named.ack.notifications.resourceSubscriptions, links);
    assert.deepEqual(missing.ack.notifications.resourceSubscriptions, absent);
    assert.deepEqual(Object.keys(named.ack._meta), Object.keys(missing.ack._meta));
    const followed = await listen(bob, { resourceSubscriptions: links });
    tree.write('private/sub/t.txt', 'SECRET 2');
    await followed.events.message(updates(tree.uri('public/dir/sub/t.txt')), 'a file below a link');
    tree.write('private/s.txt', 'SECRET 2');
    await his.events.message(updates(tree.uri('public/link.txt')), 'what bob may see');
    fs.rmSync(tree.at('private/s.txt'));
    await his.events.message(updates(tree.uri('public/link.txt')), 'its end');
    tree.write('public/end.txt', '1');
    await hers.events.message(updates(tree.uri('public/end.txt')), 'the end');
    const first = await listen(ada, { resourceSubscriptions: [`${tree.uri('public/')}**`] }, {
        params: { _meta: meta({ 'dev.tidings/options': { initial: true } }) },
    });
    await first.events.message(updates(tree.uri('public/p.txt')), 'the state at the beginning');
    for (const { events } of [hers, first]) {
        assert.doesNotMatch(JSON.stringify(events.messages), /link\.txt|public\/dir/);
    }
    fs.rmSync(tree.at('public/link.txt'));
    tree.write('public/link.txt', 'mine');
    const own = await named.events.message((m) => m.method === 'notifications/resources/updated', 'a file in its place');
    assert.equal(own.params.uri, tree.uri('public/link.txt'), 'the first update of all');
    assert.equal(own.params._meta['dev.tidings/change'], 'created');
});

test('link is hidden while its target is hidden and visible again afterwards', async (t) => {
    const { tree, ada } = await start(t);
    const uri = tree.uri('public/fine.txt');
    const { events } = await listen(ada, { resourceSubscriptions: [uri] });
    const swap = (target) => {
        fs.symlinkSync(target, tree.at('next'));
        fs.renameSync(tree.at('next'), tree.at('public/fine.txt'));
    };
    swap('../private/s.txt');
    const gone = await events.message(updates(uri), 'that it is gone');
    assert.equal(gone.params._meta['dev.tidings/change'], 'deleted');
    assert.equal((await request(ada, { method: 'GET', path: at(uri) })).status, 404);
    swap('p.txt');
    const back = await events.message(updates(uri), 'that it is back');
    assert.equal(back.params._meta['dev.tidings/change'], 'created');
    assert.equal((await request(ada, { method: 'GET', path: at(uri) })).text, 'open');
});

test('link that alternates during reads never exposes hidden content', async (t) => {
    const { tree, ada } = await start(t);
    const uri = tree.uri('public/fine.txt');
    let done = false;
    const swapping = (async () => {
        for (let i = 0; !done; i++) {
            fs.symlinkSync(i % 2 ? '../private/s.txt' : 'p.txt', tree.at('next'));
            fs.renameSync(tree.at('next'), tree.at('public/fine.txt'));
            await new Promise((resolve) => setImmediate(resolve));
        }
    })();
    const seen = new Set();
    for (let i = 0; i < 500; i++) {
        const { status, text } = await request(ada, { method: 'GET', path: at(uri) });
        seen.add(status);
        assert.doesNotMatch(text, /SECRET/);
    }
    done = true;
    await within(swapping, 'the end', DEADLINE);
    assert.ok(seen.has(200), [...seen].join());
});
