// SPDX-License-Identifier: MIT
//
// Files across restarts of a server with a store. A client that resumes with its cursor receives exactly the files
// that changed, appeared or disappeared during the outage, or a truncated update if the server cannot know them.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { call } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { extras, isUpdate, seqOf, Subscriber } from './lib/subscriber.mjs';
import { as, reloaded, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';

const MARK = 'mark';

/** A server that saves the state of a tree, for repeated starts. */
class Kept {
    constructor(t, files, { args = [], mounts } = {}) {
        this.t = t;
        const folder = fs.mkdtempSync(join(tmpdir(), 'tidings-restart-'));
        defer(t, () => fs.rmSync(folder, { recursive: true, force: true }));
        this.file = join(folder, 'store.db');
        this.tree = new Tree(t, files);
        this.args = args;
        this.mounts = mounts;
    }

    async start() {
        const args = ['--store', this.file, '--log-level', 'debug', ...this.args];
        this.server = await serve(this.t, { tree: this.tree, args, mounts: this.mounts });
    }

    /** Stop or kill the server, run a function, start it. */
    async restart(how, meanwhile = () => {}) {
        if (how === 'kill -9') {
            await this.server.kill();
        } else {
            await this.server.stop();
        }
        meanwhile();
        await this.start();
    }

    /** Wait until the store contains the changes up to a cursor. */
    saved(cursor) {
        const number = (line) => Number(line.match(/files saved.*number=(\d+)/)?.[1] ?? -1);
        return this.server.lines.next(
            (line) => number(line) >= seqOf(cursor),
            `what is known up to ${cursor} to be saved`,
        );
    }
}

/** A client. Returns the updates since its last visit, sorted by name. */
class Client {
    constructor(kept, era, uris = [kept.tree.uri()]) {
        Object.assign(this, { kept, era, uris });
    }

    async join() {
        const server = this.token ? as(this.kept.server, this.token) : this.kept.server;
        this.subscriber = await Subscriber.join(server, this.era);
        const since = this.cursor && { since: this.cursor };
        const options = { windowMs: 0, initial: false, ...since };
        const { cursor, honoured } = await this.subscriber.ask(this.uris, options);
        assert.deepEqual(honoured, this.uris);
        this.cursor ??= cursor;
    }

    leave() {
        this.subscriber.close();
    }

    /** Change the mark and wait for its update, which follows all earlier updates. */
    async told() {
        const { tree } = this.kept;
        const name = MARK + Math.random();
        const uri = tree.write(name);
        await this.subscriber.message(
            (m) => isUpdate(m) && m.params.uri === uri,
            'the update of the mark',
        );
        const told = {};
        for (const message of this.subscriber.messages.filter(isUpdate)) {
            const { cursor, change, truncated } = extras(message);
            this.cursor = cursor;
            const path = message.params.uri.slice(tree.uri().length);
            if (!path.startsWith(MARK)) {
                const what = truncated ? 'truncated' : change;
                told[path] = told[path] ? `${told[path]}, ${what}` : what;
            }
        }
        return Object.fromEntries(Object.entries(told).sort());
    }

    /** Connect, receive, disconnect. */
    async visit() {
        await this.join();
        const told = await this.told();
        this.leave();
        return told;
    }
}

const FILES = {
    'same.txt': 'same',
    'written.txt': 'old',
    'touched.txt': 't',
    'gone.txt': 'g',
    'moved.txt': 'm',
    'replaced.txt': 'r',
    'dir/a.txt': 'a',
    'dir/sub/b.txt': 'b',
    'away/c.txt': 'c',
};

function changeEverything(tree) {
    tree.write('written.txt', 'new'); // of the same size
    fs.utimesSync(tree.at('touched.txt'), new Date(), new Date());
    tree.remove('gone.txt');
    tree.rename('moved.txt', 'there.txt');
    tree.replace('replaced.txt', 'R');
    tree.write('fresh.txt', 'f');
    tree.write('deep/er/x.txt', 'x');
    tree.rename('dir', 'folder');
    tree.remove('away');
}

const EVERYTHING = {
    'away/': 'deleted',
    'away/c.txt': 'deleted',
    'deep/': 'created',
    'deep/er/': 'created',
    'deep/er/x.txt': 'created',
    'dir/': 'deleted',
    'dir/a.txt': 'deleted',
    'dir/sub/': 'deleted',
    'dir/sub/b.txt': 'deleted',
    'folder/': 'created',
    'folder/a.txt': 'created',
    'folder/sub/': 'created',
    'folder/sub/b.txt': 'created',
    'fresh.txt': 'created',
    'gone.txt': 'deleted',
    'moved.txt': 'deleted',
    'replaced.txt': 'updated',
    'there.txt': 'created',
    'touched.txt': 'updated',
    'written.txt': 'updated',
};

for (const era of ['legacy', 'modern']) {
    for (const how of ['SIGTERM', 'kill -9']) {
        test(`${era}, ${how}: each file that changed during downtime gives one update, other files give none`, async (t) => {
            const kept = new Kept(t, FILES);
            await kept.start();
            const client = new Client(kept, era);
            await client.join();
            kept.tree.write('live.txt', 'l');
            assert.deepEqual(await client.told(), { 'live.txt': 'created' });
            await kept.saved(client.cursor);
            await kept.restart(how, () => changeEverything(kept.tree));
            assert.deepEqual(await client.visit(), EVERYTHING);
            // A second visit receives nothing twice, also after another start.
            await kept.restart('SIGTERM');
            await kept.restart('SIGTERM');
            assert.deepEqual(await client.visit(), {});
        });
    }

    test(`${era}: changes between client disconnect and server exit are delivered`, async (t) => {
        const kept = new Kept(t, FILES);
        await kept.start();
        const client = new Client(kept, era);
        const other = new Client(kept, era);
        assert.deepEqual(await client.visit(), {});
        await other.join();
        kept.tree.write('written.txt', 'new');
        kept.tree.write('fresh.txt', 'f');
        kept.tree.remove('gone.txt');
        await other.told();
        kept.tree.write('fresh.txt', 'written again');
        await other.told();
        await kept.restart('SIGTERM', () => kept.tree.write('touched.txt', 'T'));
        const { cursor } = other;
        assert.deepEqual(await other.visit(), { 'touched.txt': 'updated' });
        await kept.restart('SIGTERM', () => kept.tree.remove('moved.txt'));
        assert.deepEqual(await client.visit(), {
            'fresh.txt': 'created',
            'gone.txt': 'deleted',
            'moved.txt': 'deleted',
            'touched.txt': 'updated',
            'written.txt': 'updated',
        });
        other.cursor = cursor; // two starts old
        assert.deepEqual(await other.visit(), {
            'moved.txt': 'deleted',
            'touched.txt': 'updated',
        });
    });
}

test('single file and subtree have a history, an unwatched file has none', async (t) => {
    const kept = new Kept(t, FILES);
    await kept.start();
    const uri = (name) => kept.tree.uri(name);
    const uris = [uri('dir/'), uri('touched.txt'), uri('away/c.txt')];
    const client = new Client(kept, 'modern', uris);
    await client.join();
    const { cursor } = client;
    client.leave();
    await kept.restart('SIGTERM', () => {
        kept.tree.write('dir/new.txt', 'n');
        kept.tree.write('touched.txt', 'T');
        kept.tree.write('away/c.txt', 'C');
        kept.tree.write('away/d.txt', 'd');
    });
    const again = new Client(kept, 'modern', [...uris, uri('away/')]);
    again.cursor = cursor;
    await again.join();
    const truncated = (m) => isUpdate(m) && extras(m).truncated;
    const message = await again.subscriber.message(truncated, 'to look again');
    assert.equal(message.params.subscribedUri, uri('away/'));
    const changes = new Map();
    for (const name of ['dir/new.txt', 'touched.txt', 'away/c.txt']) {
        const is = (m) => isUpdate(m) && m.params.uri === uri(name);
        changes.set(name, extras(await again.subscriber.message(is, name)).change);
    }
    assert.deepEqual([...changes.values()], ['created', 'updated', 'updated']);
    assert.equal(again.subscriber.messages.filter(truncated).length, 1);
});

test('unsaved cursor from just before a crash leads to a complete scan', async (t) => {
    const kept = new Kept(t, FILES);
    await kept.start();
    const client = new Client(kept, 'modern');
    await client.join();
    await client.told();
    await kept.saved(client.cursor);
    const [epoch, number, position] = client.cursor.split('.');
    client.cursor = `${epoch}.${Number(number) + 1000}.${position}`; // delivered, never saved
    await kept.restart('kill -9');
    assert.deepEqual(await client.visit(), { '': 'truncated' });
});

test('history ends if the root or exclusions of its mount change, other mounts keep theirs', async (t) => {
    const kept = new Kept(t, FILES);
    const beside = new Tree(t, { 'b.txt': 'b' });
    const elsewhere = new Tree(t, { 'b.txt': 'b' });
    const serveWith = (root, ...more) => {
        kept.mounts = ['--mount', `file://here/=${kept.tree.path}`, '--mount', `file://there/=${root}`, ...more];
    };
    serveWith(beside.path);
    await kept.start();
    const uris = ['file://here/', 'file://there/'];
    const told = async (cursor) => {
        const subscriber = await Subscriber.join(kept.server, 'modern');
        const since = cursor && { since: cursor };
        const answer = await subscriber.ask(uris, { windowMs: 0, initial: false, ...since });
        const name = `${MARK}${Math.random()}`;
        const messages = [];
        kept.tree.write(name);
        await subscriber.message((m) => {
            messages.push(m);
            return isUpdate(m) && m.params.uri === `file://here/${name}`;
        }, 'the mark');
        subscriber.close();
        const seen = subscriber.messages.filter((m) => isUpdate(m) && !m.params.uri.includes(MARK));
        const last = subscriber.messages.filter(isUpdate).at(-1);
        return {
            cursor: extras(last).cursor ?? answer.cursor,
            seen: seen.map((m) => `${m.params.uri} ${extras(m).truncated ? 'truncated' : extras(m).change}`).sort(),
        };
    };
    let { cursor } = await told();
    await kept.restart('SIGTERM', () => {
        kept.tree.write('written.txt', 'new');
        serveWith(elsewhere.path);
    });
    let answer = await told(cursor);
    assert.deepEqual(answer.seen, ['file://here/written.txt updated', 'file://there/ truncated']);
    cursor = answer.cursor;
    await kept.restart('SIGTERM', () => serveWith(elsewhere.path, '--exclude', '*.log'));
    answer = await told(cursor);
    assert.deepEqual(answer.seen, ['file://here/ truncated', 'file://there/ truncated']);
});

test('corrupt record on disk is detected, logged and ignored', async (t) => {
    const kept = new Kept(t, FILES);
    await kept.start();
    const client = new Client(kept, 'modern');
    await client.visit();
    await kept.server.stop();
    const bytes = fs.readFileSync(kept.file);
    const at = bytes.indexOf('same.txt');
    assert.ok(at > 0);
    bytes[at] ^= 1;
    fs.writeFileSync(kept.file, bytes);
    kept.tree.write('written.txt', 'new');
    await kept.start();
    assert.deepEqual(await client.visit(), { '': 'truncated' });
    assert.match(kept.server.stderr, /cannot read the saved file state/);
    await kept.restart('SIGTERM', () => kept.tree.write('written.txt', 'old'));
    assert.deepEqual(await client.visit(), { 'written.txt': 'updated' });
});

test('switched link, replaced directory and excluded files keep correct history', async (t) => {
    const kept = new Kept(t, FILES, { args: ['--exclude', '*.tmp'] });
    fs.symlinkSync('same.txt', kept.tree.at('link'));
    kept.tree.write('x.tmp');
    await kept.start();
    const client = new Client(kept, 'modern');
    assert.deepEqual(await client.visit(), {});
    await kept.restart('SIGTERM', () => {
        fs.unlinkSync(kept.tree.at('link'));
        fs.symlinkSync('written.txt', kept.tree.at('link'));
        kept.tree.remove('x.tmp');
        kept.tree.write('y.tmp');
        kept.tree.rename('dir', 'aside');
        kept.tree.write('dir/a.txt', 'a');
        kept.tree.remove('aside');
    });
    const told = await client.visit();
    assert.deepEqual(Object.keys(told), ['dir/', 'dir/a.txt', 'dir/sub/', 'dir/sub/b.txt', 'link']);
    assert.equal(told['dir/sub/b.txt'], 'deleted');
});

test('changes_since continues after a restart without a gap', async (t) => {
    const kept = new Kept(t, FILES, { args: ['--change-tools', 'on'] });
    await kept.start();
    const ask = async (cursor) => {
        const args = { uris: [kept.tree.uri()], ...(cursor && { cursor }) };
        const answer = await call(kept.server, 'tools/call', { name: 'changes_since', arguments: args });
        return answer.structuredContent;
    };
    const { cursor } = await ask();
    await kept.restart('SIGTERM', () => kept.tree.write('fresh.txt', 'f'));
    const answer = await ask(cursor);
    assert.deepEqual(
        answer.changes.map(({ uri, change }) => `${uri} ${change}`),
        [`${kept.tree.uri('fresh.txt')} created`],
    );
    assert.deepEqual(answer.gap ?? [], []);
});

for (const era of ['legacy', 'modern']) {
    test(`${era}: client that resumes after a restart receives no hidden files`, async (t) => {
        const tokens = new TokenFile(t);
        const kept = new Kept(t, { 'pub/a.txt': '1', 'pub/out.txt': '1', 'secret/b.txt': '1', 'secret/in.txt': '1', 'secret/c.txt': '1' });
        fs.symlinkSync('../secret/b.txt', kept.tree.at('pub/link'));
        const allow = ['list', 'read', 'subscribe'];
        const rules = [
            { principal: 'ada', uri: kept.tree.uri(), match: 'literal', allow },
            { principal: 'ada', uri: kept.tree.uri('pub/'), allow },
            { principal: 'ada', uri: `${kept.tree.uri()}${MARK}*`, allow },
            { principal: 'bob', allow },
        ];
        kept.args = [...tokens.args, ...rules.flatMap((rule) => ['--access', JSON.stringify(rule)]), '--change-tools', 'on', '--no-list-changed'];
        await kept.start();
        const [ada, bob] = ['ada', 'bob'].map((name) => Object.assign(new Client(kept, era), { token: tokens.give(name) }));
        await reloaded(kept.server);
        assert.deepEqual([await ada.visit(), await bob.visit()], [{}, {}]);
        // Once while the server runs and knows the origin of a move, and once during an outage.
        await bob.join();
        kept.tree.rename('secret/in.txt', 'pub/in.txt');
        kept.tree.rename('pub/out.txt', 'secret/out.txt');
        kept.tree.write('secret/b.txt', '22');
        await bob.told();
        bob.leave();
        await kept.restart('SIGTERM', () => {
            kept.tree.write('secret/new.txt', 'n');
            kept.tree.write('secret/b.txt', '333');
            kept.tree.remove('secret/c.txt');
            kept.tree.write('pub/a.txt', '22');
            kept.tree.write('pub/new.txt', 'n');
        });
        // For a cursor older than all changes, the server compares a single file with its saved state.
        const first = Object.assign(new Client(kept, era, [kept.tree.uri('pub/a.txt')]), { token: ada.token });
        await first.join();
        first.leave();
        const { cursor } = first;
        const all = await bob.visit();
        assert.deepEqual(Object.keys(all), ['pub/a.txt', 'pub/link', 'pub/new.txt', 'secret/b.txt', 'secret/c.txt', 'secret/new.txt']);
        // The cursor of the previous run is sealed with another key.
        assert.deepEqual(await ada.visit(), { '': 'truncated' });
        assert.doesNotMatch(JSON.stringify(ada.subscriber.messages), /secret|link/);
        ada.cursor = cursor;
        assert.deepEqual(await ada.visit(), { 'pub/new.txt': 'created' });
        assert.doesNotMatch(JSON.stringify(ada.subscriber.messages), /secret|link/);
        const changes = async (client) => {
            const args = { name: 'changes_since', arguments: { uris: [kept.tree.uri()], cursor } };
            const { structuredContent } = await call(as(kept.server, client.token), 'tools/call', args);
            return structuredContent.changes.map(({ uri }) => uri.slice(kept.tree.uri().length)).filter((name) => !name.startsWith(MARK));
        };
        assert.deepEqual(await changes(ada), ['pub/new.txt']);
    });
}
