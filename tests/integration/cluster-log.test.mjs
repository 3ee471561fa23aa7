// SPDX-License-Identifier: MIT
//
// Node states in the logs and in tidings://self/nodes: lagging nodes and nodes that caught up, mounts declared
// differently on nodes, and the number of announcements lost when a server ends without its store.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { exchange } from './lib/fault-watcher.mjs';
import { Node } from './lib/nodes.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { call } from './lib/rpc.mjs';
import { BIN } from './lib/server.mjs';
import { noTerminal, Terminal } from './lib/terminal.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE } from './lib/wait.mjs';
import { Watcher } from './lib/watcher.mjs';

const MOUNT = 'file://data/';
const A = `${MOUNT}a.txt`;
const USERS = 'file://data/users.json'; // of examples/documents.c
const LONG = 3 * DEADLINE;

const nodesOf = async (server) => JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/nodes' })).contents[0].text);
const says = ({ program }, match) => program.lines.next((line) => match.test(line), `${match}`, LONG);

test('nodes log the states of other nodes', { skip, concurrency: true }, async (t) => {
    const database = await Postgres.start(t);
    let schemas = 0;
    const schema = async () => {
        const name = `s${schemas++}`;
        await database.sql(`CREATE SCHEMA ${name}`);
        return name;
    };
    const start = async (t, name, where, args = [], example = undefined) => {
        const options = { databases: [database], schema: where, args: ['--self', '--allow-write', '--node', name, ...args], example };
        const node = await Node.make(t, name, options);
        return node.start();
    };
    /** The server accepts announcements of a program at once. */
    const announce = async ({ program }, n) => {
        const path = `/changed?uri=${USERS}`;
        const { status } = await exchange(program, { path, body: JSON.stringify({ n }) }, DEADLINE);
        assert.equal(status, 204);
    };

    const all = [];
    all.push(t.test('node that falls behind and catches up is logged', async (t) => {
        const where = await schema();
        const a = await start(t, 'a', where);
        // A live node that reports itself as lagging.
        const put = (behind) => database.sql(`INSERT INTO ${where}.tidings_nodes(name, instance, version, state, epoch, followed, begun, until, layout, behind)
            VALUES('slow', 7, '1', '{}', 7, 0, 0, (extract(epoch FROM now()) * 1000)::int8 + 600000, 2, ${behind})
            ON CONFLICT (name) DO UPDATE SET behind = excluded.behind`);
        await put(9999);
        await says(a, /node joined name=slow/);
        await put(12345);
        await says(a, /warn nodes: node is behind name=slow lagMs=12345/);
        const row = (await nodesOf(a.program)).find(({ name }) => name === 'slow');
        assert.deepEqual([row.lagMs, row.lives], [12345, true], JSON.stringify(row));
        await put(5000); // not yet
        await put(1999);
        await says(a, /info nodes: node has caught up name=slow/);
        const after = (await nodesOf(a.program)).find(({ name }) => name === 'slow');
        assert.equal(after.lagMs, 1999);
        assert.equal(a.program.stderr.match(/node is behind/g).length, 1, 'said once');
    }));

    all.push(t.test('mounts that differ between nodes (owned, shared, plain) are logged by name', async (t) => {
        const where = await schema();
        const tree = new Tree(t, { 'a.txt': 'zero' });
        const tokens = new TokenFile(t);
        const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
        const rules = [{ principal: 'ada', uri: 'tidings://self/**', allow: ['list', 'read'] }, { principal: 'bob', allow: ['list', 'read', 'subscribe'] }]
            .flatMap((rule) => ['--access', JSON.stringify(rule)]);
        const mount = ['--window', '0', ...tokens.args, ...rules, '--mount', `${MOUNT}=${tree.path}`];
        const a = await start(t, 'a', where, [...mount, '--owned', MOUNT]);
        await says(a, /this node owns a mount/);
        const b = await start(t, 'b', where, [...mount, '--shared', MOUNT]);
        const c = await start(t, 'c', where, mount);
        const differs = (here, there, name) => new RegExp(`mount is declared otherwise at another node: say the same at all mount=${MOUNT} here=${here} there=${there} name=${name}$`);
        await Promise.all([
            says(a, differs('owned', 'shared', 'b')), says(b, differs('shared', 'owned', 'a')),
            says(c, differs('local', 'owned', 'a')), says(c, differs('local', 'shared', 'b')),
        ]);
        // For every request, clients without access to the mount do not see it.
        const rowsOf = async (token) => (await nodesOf(as(c.program, token))).map(({ name, owned, shared }) => [name, owned ?? [], shared ?? []]);
        assert.deepEqual(await rowsOf(bob), [['a', [MOUNT], []], ['b', [], [MOUNT]], ['c', [], []]]);
        assert.deepEqual(await rowsOf(ada), [['a', [], []], ['b', [], []], ['c', [], []]]);
        // Each node reports a change: owned, shared and plain mounts.
        const watchers = await Promise.all([a, b, c].map(({ program }) => Watcher.open('modern', as(program, bob), [A])));
        tree.replace('a.txt', 'one');
        const told = await Promise.all(watchers.map((watcher) => watcher.updated(A)));
        assert.equal(new Set(told.map(({ _meta }) => _meta['dev.tidings/etag'])).size, 1, JSON.stringify(told));
        await says(c, /changed in a mount that this node does not share uri=file:\/\/data\/a\.txt/);
    }));

    all.push(t.test('hostile node name is text on a terminal and in the log', { skip: noTerminal }, async (t) => {
        const where = await schema();
        const a = await start(t, 'a', where);
        const names = ['\x1b]0;pwned\x07\x1b[2J\x1b[31m', 'turned\u202eedon', 'a\nb info nodes: node has ended name=a', '\x9b2J', 'x'.repeat(128)];
        for (const name of names) {
            await database.sql(`INSERT INTO ${where}.tidings_nodes(name, instance, version, state, epoch, followed, begun, until, layout, behind)
                VALUES('${name}', 7, '\x1b[7m', '{"address":"\\u001b[5m"}', 7, 0, 0, (extract(epoch FROM now()) * 1000)::int8 + 600000, 2, 0)`);
        }
        await says(a, /node joined name=x{128} /);
        const terminal = new Terminal(t, [BIN, 'nodes', a.program.url]);
        await terminal.ended();
        assert.deepEqual([...terminal.screen].filter((c) => /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/u.test(c)), [], JSON.stringify(terminal.screen));
        for (const shown of [' \\x1b]0;pwned\\x07\\x1b[2 ', ' turned\\u202eedon ', ' a\\nb info nodes: node ', ' \\x9b2J ', ` ${'x'.repeat(22)} `, '\\x1b[5m', '\\x1b[7m']) {
            assert.ok(terminal.screen.includes(shown), `${shown} in ${JSON.stringify(terminal.screen)}`);
        }
        assert.doesNotMatch(terminal.screen, /-\d+ ms/, 'nobody was seen in the future');
        assert.equal(terminal.screen.trimEnd().split('\n').length, 1 + 1 + names.length, 'a line for each');
        // eslint-disable-next-line no-control-regex
        assert.doesNotMatch(a.program.stderr, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]|^b info nodes/m);
    }));

    all.push(t.test('accepted announcements that were not written at exit are counted', async (t) => {
        const a = await start(t, 'a', await schema(), [], 'documents');
        a.cut({ quietly: true }); // it does not know yet
        for (const n of [1, 2]) {
            await announce(a, n);
        }
        await a.drain();
        assert.match(a.program.stderr, /warn nodes: announcements lost count=2 reason="the server ended before the store could be reached again"/);
    }));

    all.push(t.test('after a database crash: pending announcements are counted at exit, none after delivery', async (t) => {
        const own = await Postgres.start(t);
        const at = async (name) => {
            const args = ['--self', '--node', name, '--window', '0'];
            return (await Node.make(t, name, { databases: [own], args, example: 'documents' })).start();
        };
        const [a, b] = [await at('a'), await at('b')];
        const watcher = await Watcher.open('modern', b.program, [USERS]);
        for (const node of [a, b]) {
            node.cut({ quietly: true }); // they do not know yet
            for (const n of [1, 2, 3]) {
                await announce(node, n);
            }
        }
        await own.crash();
        [a, b].forEach((node) => node.mend());
        await Promise.all([a, b].map((node) => says(node, /store cannot be reached/)));
        await a.drain();
        assert.match(a.program.stderr, /announcements lost count=3 /);
        await own.begin();
        await watcher.updated(USERS);
        await b.drain();
        assert.doesNotMatch(b.program.stderr, /announcements lost/);
    }));

    all.push(t.test('server that stops cleanly with its store loses none', async (t) => {
        const a = await start(t, 'a', await schema(), [], 'documents');
        await announce(a, 1);
        await a.drain();
        assert.doesNotMatch(a.program.stderr, /announcements lost/);
    }));
    await Promise.all(all);
});
