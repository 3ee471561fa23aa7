// SPDX-License-Identifier: MIT
//
// Mounts on several nodes with a real PostgreSQL: only the owner of an owned mount watches it and all nodes report
// changes; another node takes over if the owner is killed, stopped or isolated, and the stopped owner sends nothing
// more. Each node watches its own directory of a shared mount. Clients without access and nodes without the mount
// receive nothing.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { startNodes } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { readRecord } from './lib/record.mjs';
import { call, listen, meta, Session, updates } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually } from './lib/wait.mjs';
import { Watcher } from './lib/watcher.mjs';

const MOUNT = 'file://data/';
const A = `${MOUNT}a.txt`;
const CURSOR = 'dev.tidings/cursor';
const TAKEOVER = 3 * DEADLINE; // the lease, the poll of the others and a loaded machine
const OWNS = /this node owns a mount mount=/;
const LOST = /this node no longer owns a mount/;

const truncated = ({ _meta }) => _meta['dev.tidings/truncated'] === true;
const read = async (server, uri) => (await call(server, 'resources/read', { uri })).contents[0].text;
const nodesOf = async (server) => JSON.parse(await read(server, 'tidings://self/nodes'));
/** Its row in the database. */
const position = (params) => Number(params._meta[CURSOR].split('.')[2]);
const count = (node, match) => node.program.stderr.split('\n').filter((line) => match.test(line)).length;
/** The node that logs it once more than at the last call. */
async function first(nodes, match) {
    const found = await eventually(() => nodes.find((node) => count(node, match) > (node.said?.get(match) ?? 0)),
        `one of ${nodes.map(({ name }) => name)} says ${match}`, TAKEOVER);
    found.said = (found.said ?? new Map()).set(match, count(found, match));
    return found;
}
const says = (node, match) => first([node], match);

/** Directories that the kernel watches for this process. */
function watches({ child }) {
    return fs.readdirSync(`/proc/${child.pid}/fdinfo`)
        .map((fd) => fs.readFileSync(`/proc/${child.pid}/fdinfo/${fd}`, 'utf8').match(/^inotify wd:/gm)?.length ?? 0)
        .reduce((sum, count) => sum + count, 0);
}

/** Waits for a truncated update of `watcher`. */
const toLookAgain = (watcher, uri) => watcher.any((m) => updates(uri)(m) && truncated(m.params), `truncated of ${uri}`);

test('several nodes have owned mounts', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const announced = async (schema) =>
        (await database.sql(`SELECT record FROM ${schema}.tidings_announced ORDER BY position`)).map(([record]) => readRecord(record));
    let schemas = 0;
    const schema = async () => {
        const name = `s${schemas++}`;
        await database.sql(`CREATE SCHEMA ${name}`);
        return name;
    };
    const common = ['--self', '--allow-write', '--window', '0', '--change-tools', 'on'];
    /** Three nodes with one directory; the first owns it. */
    async function three(t, args = []) {
        const tree = new Tree(t, { 'a.txt': 'zero' });
        const where = await schema();
        const nodes = await startNodes(t, 3, {
            databases: [database], schema: where,
            args: [...common, '--mount', `${MOUNT}=${tree.path}`, '--owned', MOUNT, ...args],
        });
        const owner = await first(nodes, OWNS);
        return { tree, nodes, owner, others: nodes.filter((node) => node !== owner), where };
    }

    await t.test('changes that the owner sees reach clients of all nodes at one position and other nodes do not watch', async (t) => {
        const { tree, nodes, owner, others } = await three(t);
        const watchers = await Promise.all(nodes.flatMap(({ program }) => [
            Watcher.open('modern', program, [A]), Watcher.open('legacy', program, [MOUNT])]));
        tree.replace('a.txt', 'one');
        const told = await Promise.all(watchers.map((watcher) => watcher.updated(A)));
        assert.equal(new Set(told.filter((_, i) => i % 2 === 0).map(position)).size, 1, JSON.stringify(told));
        assert.equal(new Set(told.map(({ _meta }) => _meta['dev.tidings/etag'])).size, 1, 'the etag goes with it');
        for (const { program } of nodes) {
            assert.equal(await read(program, A), 'one');
        }
        assert.ok(watches(owner.program) > 0, 'the owner watches');
        assert.deepEqual(others.map(({ program }) => watches(program)), [0, 0], 'and nobody else');
        tree.write('new.txt', 'new');
        await Promise.all(watchers.filter((_, i) => i % 2 === 1).map((watcher) => watcher.updated(`${MOUNT}new.txt`)));
        await Promise.all(watchers.map((watcher) => watcher.listChanged()));
        const rows = await eventually(async () => {
            const all = await nodesOf(others[0].program);
            return all.some(({ owns }) => owns?.length) && all;
        }, 'the row of the owner to say so');
        assert.deepEqual(rows.map(({ name, owns }) => [name, owns]).filter(([, owns]) => owns?.length),
            [[rows.find((row) => row.address?.includes(`:${owner.port}/`)).name, [MOUNT]]]);
        const mounts = JSON.parse(await read(others[1].program, 'tidings://self/mounts'));
        assert.equal(mounts.find(({ uri }) => uri === MOUNT).nodes, 'owned');
    });

    await t.test('cursor of one node is valid on the others', async (t) => {
        const { tree, nodes } = await three(t);
        const [a, b, c] = nodes.map(({ program }) => program);
        const watcher = await Watcher.open('modern', a, [MOUNT]);
        tree.replace('a.txt', 'one');
        const { _meta } = await watcher.updated(A);
        watcher.close();
        tree.write('b.txt', 'two');
        for (const node of [b, c]) {
            const options = { uris: { [MOUNT]: { since: _meta[CURSOR] } } };
            const { events } = await listen(node, { resourceSubscriptions: [MOUNT] }, { params: { _meta: {
                ...meta(), 'dev.tidings/options': options } } });
            const { params } = await events.message((m) => m.method === 'notifications/resources/updated', 'an update');
            assert.deepEqual([params.uri, truncated(params)], [`${MOUNT}b.txt`, false], JSON.stringify(params));
            events.close();
        }
    });

    await t.test('session moves to another node without a truncated update', async (t) => {
        const { tree, nodes } = await three(t);
        const [a, b] = nodes.map(({ program }) => program);
        const session = await Session.open(a);
        const before = await session.stream();
        await session.subscribe(A);
        tree.replace('a.txt', 'one');
        await before.message(updates(A), 'the first change');
        const last = before.seen.filter(({ id }) => id).at(-1).id;
        before.close();
        session.server = b;
        const after = await session.stream(last);
        tree.replace('a.txt', 'two');
        const { params } = await after.message(updates(A), 'the second, at the other node');
        assert.equal(truncated(params), false, JSON.stringify(params));
    });

    await t.test('another node takes over from a killed owner and a stopped owner sends nothing more', async (t) => {
        const { tree, nodes, owner, others, where } = await three(t);
        const watchers = await Promise.all(others.map(({ program }) => Watcher.open('modern', program, [MOUNT])));
        tree.replace('a.txt', 'one');
        await Promise.all(watchers.map((watcher) => watcher.updated(A)));
        await owner.kill();
        tree.replace('a.txt', 'two'); // no node sees it
        const second = await first(others, OWNS);
        const third = others.find((node) => node !== second);
        await Promise.all(watchers.map((watcher) => toLookAgain(watcher, MOUNT)));
        tree.replace('a.txt', 'three');
        const told = await Promise.all(watchers.map((watcher) => watcher.updated(A)));
        assert.deepEqual(told.map(truncated), [false, false]);

        second.pause();
        await says(third, OWNS);
        const [watcher] = watchers.filter((_, i) => others[i] === third);
        await toLookAgain(watcher, MOUNT);
        tree.replace('while.txt', 'stopped'); // one change: a loaded machine may notify an open and a write separately
        await watcher.updated(`${MOUNT}while.txt`);
        second.go();
        await says(second, LOST);
        // It also saw that file and sends nothing: clients hold subscriptions at the current owner.
        const [other] = watchers.filter((_, i) => others[i] === second);
        await toLookAgain(other, MOUNT);
        tree.write('last.txt', 'last');
        await Promise.all(watchers.map((one) => one.updated(`${MOUNT}last.txt`)));
        await second.drain();
        const rows = (await announced(where)).filter(({ uri }) => uri.endsWith('while.txt'));
        assert.equal(rows.length, 1, `announced once: ${JSON.stringify(rows)}`);
        assert.equal(nodes.filter(({ running }) => running).length, 1);
    });

    await t.test('isolated owner stops, and one that exits cleanly is replaced at once', async (t) => {
        const { tree, owner, others, where } = await three(t);
        const watchers = await Promise.all(others.map(({ program }) => Watcher.open('legacy', program, [A])));
        const left = await Watcher.open('modern', owner.program, [A]);
        owner.cut();
        tree.write('cut.txt', 'seen by the owner'); // … it tries to announce the change and fails
        await eventually(() => /store cannot be reached/.test(owner.program.stderr), 'it to notice');
        const second = await first(others, OWNS);
        await says(owner, LOST);
        await Promise.all(watchers.map((watcher) => toLookAgain(watcher, A)));
        tree.replace('a.txt', 'one');
        await Promise.all(watchers.map((watcher) => watcher.updated(A)));
        owner.mend();
        await toLookAgain(left, A); // the changes it missed
        await second.drain();
        const rest = [owner, ...others].filter((node) => node !== second);
        await first(rest, OWNS);
        tree.replace('a.txt', 'two');
        await left.any((m) => updates(A)(m) && !truncated(m.params), 'the change after that');
        const rows = await announced(where);
        assert.deepEqual(rows.filter(({ uri }) => uri.endsWith('cut.txt')), [], 'it was its owner no more when it could');
        assert.equal(rows.filter(({ uri }) => uri === `*${MOUNT}`).length, 3, 'each owner has said so once');
    });

    await t.test('command runs only on its owner and for its readers', async (t) => {
        const tree = new Tree(t, { in: 'one' });
        const store = database.url({ schema: await schema() });
        const start = (name) => {
            tree.write(`${name}.json`, JSON.stringify({ mounts: [{
                type: 'command', uri: 'cmd:///it', argv: ['sh', '-c', `echo ${name} >>runs; cat in`], cwd: tree.path, interval: '100ms', nodes: 'owned',
            }] }));
            return serve(t, { tree, mounts: [], args: ['--config', tree.at(`${name}.json`), '--entities', store, '--node', name, ...common] });
        };
        const a = await start('a');
        await a.lines.next((line) => OWNS.test(line), 'a owns it', TAKEOVER);
        const b = await start('b');
        const watcher = await Watcher.open('modern', b, ['cmd:///it']);
        const runs = () => fs.readFileSync(tree.at('runs'), 'utf8').trim().split('\n');
        await eventually(() => runs().length > 5, 'it to be run again and again');
        tree.replace('in', 'two');
        await watcher.updated('cmd:///it');
        assert.deepEqual([...new Set(runs())], ['a']);
        assert.equal(await read(b, 'cmd:///it'), 'two');
        assert.deepEqual([...new Set(runs())].sort(), ['a', 'b']);
    });

    await t.test('client notifications below the mount reach all its nodes, with metadata and filters', async (t) => {
        const tree = new Tree(t, { 'a.txt': 'zero' });
        const args = [...common, '--mount', `${MOUNT}=${tree.path}`, '--shared', MOUNT,
            '--access', JSON.stringify({ principal: '*', allow: ['list', 'read', 'subscribe', 'write'] })];
        const nodes = await startNodes(t, 2, { databases: [database], schema: await schema(), args });
        const [a, b] = nodes.map(({ program }) => program);
        const filter = { type: 'object', properties: { metadata: { properties: { k: { const: 7 } }, required: ['k'] } } };
        const options = { uris: { [A]: { filter } } };
        const { events } = await listen(b, { resourceSubscriptions: [A] }, { params: { _meta: { ...meta(), 'dev.tidings/options': options } } });
        const notify = (k) => call(a, 'tools/call', { name: 'notify', arguments: { changes: [{ uri: A, metadata: { k } }] } })
            .then((answer) => assert.ok(!answer.isError, JSON.stringify(answer)));
        await notify(6);
        await notify(7);
        const { params } = await events.message((m) => m.method === 'notifications/resources/updated', 'an update');
        assert.equal(params._meta['dev.tidings/metadata'].k, 7);
        const watchers = await Promise.all([a, b].map((node) => Watcher.open('modern', node, [A])));
        tree.replace('a.txt', 'one');
        const told = await Promise.all(watchers.map((watcher) => watcher.updated(A)));
        assert.deepEqual(told.map(truncated), [false, false]);
        assert.ok(watches(a) > 0 && watches(b) > 0, 'each watches it itself');
    });

    await t.test('hidden mount causes no notification to a client, nor does a node without it', async (t) => {
        const tokens = new TokenFile(t);
        const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
        const see = ['list', 'read', 'subscribe'];
        const rules = [
            { principal: 'ada', uri: 'published:///**', allow: see },
            { principal: 'ada', uri: 'tidings://self/**', allow: see },
            { principal: 'bob', allow: [...see, 'write'] },
        ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
        const { tree, owner, others, where } = await three(t, [...tokens.args, ...rules]);
        const [{ program: b }] = others;
        const without = await serve(t, { mounts: [], args: ['--entities', database.url({ schema: where }), '--node', 'without', ...common] });
        const allowed = await Watcher.open('modern', as(b, bob), [MOUNT]);
        const stranger = await listen(as(b, ada), { resourceSubscriptions: ['published:///**', `${MOUNT}**`, '**'] });
        const elsewhere = await listen(without, { resourceSubscriptions: ['published:///**', '**'] });
        tree.replace('a.txt', 'one');
        await allowed.updated(A);
        await call(as(owner.program, bob), 'tools/call', { name: 'publish', arguments: { uri: 'published:///x', text: 'one' } });
        for (const { events } of [stranger, elsewhere]) {
            await events.message(updates('published:///x'), 'what comes after it');
            assert.deepEqual(events.messages.filter((m) => m.params?.uri?.startsWith('file:')), []);
        }
        await without.lines.next((line) => /changed in a mount that this node does not share/.test(line), 'it is said');
        const rows = await nodesOf(as(b, ada));
        assert.deepEqual(rows.flatMap(({ owns }) => owns ?? []), [], 'its name is not told either');
        await eventually(async () => (await nodesOf(as(b, bob))).some(({ owns }) => owns?.includes(MOUNT)), 'who may sees it');
    });

    await t.test('unwatched change updates the list only for clients that may see it', async (t) => {
        const tokens = new TokenFile(t);
        const [ada, bob, eve] = ['ada', 'bob', 'eve'].map((name) => tokens.give(name));
        const see = ['list', 'read', 'subscribe'];
        const rules = [
            { principal: 'ada', allow: [...see, 'write'] }, { principal: 'bob', uri: `${MOUNT}sub/**`, allow: see },
            { principal: 'eve', uri: 'published:///**', allow: see },
        ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
        const { tree, owner, others } = await three(t, [...tokens.args, ...rules]);
        const [{ program: b }] = others;
        const publish = (text) => call(as(b, ada), 'tools/call', { name: 'publish', arguments: { uri: 'published:///x', text } });
        await publish('zero');
        const hear = (who, uri) => listen(as(b, who), { resourcesListChanged: true, resourceSubscriptions: [uri] });
        const [full, some, none] = await Promise.all([hear(ada, MOUNT), hear(bob, `${MOUNT}sub/**`), hear(eve, 'published:///**')]);
        others.forEach((node) => node.pause());
        await owner.drain();
        tree.write('sub/new.txt', 'nobody saw it come');
        others.forEach((node) => node.go());
        const isList = (m) => m.method === 'notifications/resources/list_changed';
        await Promise.all([full, some].map(({ events }) => events.message(isList, 'that the list changed', TAKEOVER)));
        await publish('one');
        await none.events.message(updates('published:///x'), 'what comes after it');
        assert.deepEqual(none.events.messages.filter(isList), []);
    });

    await t.test('invalid mounts are refused by name', async (t) => {
        const tree = new Tree(t, { 'a.txt': '' });
        const store = database.url({ schema: await schema() });
        const refused = async (match, ...args) => {
            const { code, stderr } = await run(t, ['serve', '--http', '127.0.0.1:0', ...args], { ms: 20_000 });
            assert.notEqual(code, 0);
            assert.match(stderr, match);
        };
        const mount = ['--mount', `${MOUNT}=${tree.path}`];
        await refused(/is shared or owned: .*--store postgres/, ...mount, '--owned', MOUNT);
        await refused(/is shared or owned: .*--store postgres/, ...mount, '--shared', MOUNT, '--entities', ':memory:');
        await refused(/--cluster: only a store that nodes share/, ...mount, '--cluster', 'one');
        await refused(/--cluster: only a store that nodes share/, ...mount, '--cluster', 'one', '--store', tree.at('store.db'));
        await refused(/named by --shared and by --owned/, ...mount, '--shared', MOUNT, '--owned', MOUNT, '--store', store);
        await refused(/--owned: nothing is mounted at 'file:\/\/other\/'/, ...mount, '--owned', 'file://other/', '--store', store);
        await refused(/the database already stores/, '--publish', 'app:///', '--owned', 'app:///', '--store', store);
        await refused(/--owned: 'file:\/\/data'/, ...mount, '--owned', 'file://data', '--store', store);
        tree.write('bad.json', JSON.stringify({ mounts: [{ path: '.', nodes: 'mine' }] }));
        await refused(/nodes: 'mine' \(accepted: local, shared, owned\)/, '--config', tree.at('bad.json'));
    });
});
