// SPDX-License-Identifier: MIT
//
// Several tidings servers on a real PostgreSQL: all nodes report the writes, publications and notifications of each;
// cursors, also sealed ones, are valid on all nodes; behaviour during database outages; refusals.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { good } from './lib/cli.mjs';
import { Postgres, skip } from './lib/postgres.mjs';
import { KIND, RECORD_FUNCTIONS, recordSql } from './lib/record.mjs';
import { call, meta, modern } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { eventually } from './lib/wait.mjs';
import { Watcher } from './lib/watcher.mjs';

const X = 'published:///x';
const tool = (server, name, args) => call(server, 'tools/call', { name, arguments: args });
const read = async (server, uri, extra = {}) => {
    const { contents, _meta } = await call(server, 'resources/read', { uri, _meta: meta(extra) });
    return { text: contents[0].text, meta: _meta };
};
const cursorOf = async (server, args = {}) =>
    (await tool(server, 'changes_since', { uris: ['published:///'], ...args })).structuredContent;

test('nodes share one database', { skip }, async (t) => {
    const database = await Postgres.start(t);
    let schemas = 0;
    const cluster = async (t, args = []) => {
        const schema = `s${schemas++}`;
        await database.sql(`CREATE SCHEMA ${schema}`);
        const store = database.url({ schema });
        const node = (name, more = []) => serve(t, {
            mounts: [],
            args: ['--entities', store, '--node', name, '--self', '--allow-write', '--change-tools', 'on', '--window', '0', ...args, ...more],
        });
        return { store, node, schema };
    };

    await t.test('change written at one node is reported by the others and a read waits for its cursor', async (t) => {
        const { node } = await cluster(t);
        const [a, b] = [await node('a'), await node('b')];
        await tool(b, 'publish', { uri: X, text: 'zero' });
        const watcher = await Watcher.open('modern', b, [X]);
        await tool(a, 'publish', { uri: X, text: 'one' });
        await watcher.updated(X);
        assert.equal((await read(b, X)).text, 'one');
        for (let i = 0; i < 5; i++) {
            await tool(a, 'publish', { uri: X, text: `n${i}` });
            const { cursor } = await cursorOf(a);
            assert.equal((await read(b, X, { 'dev.tidings/atLeast': cursor })).text, `n${i}`);
            assert.equal(await good(t, ['read', '--at-least', cursor, b.url, X]), `n${i}`);
        }
        await tool(a, 'notify', { changes: [{ uri: X, metadata: { k: 7 } }] });
        await eventually(async () => {
            const { _meta } = await watcher.updated(X);
            return _meta['dev.tidings/metadata']?.k === 7;
        }, 'the notification at the other node');
        const nodes = JSON.parse((await read(b, 'tidings://self/nodes')).text);
        assert.deepEqual(nodes.map(({ name, lives }) => [name, lives]), [['a', true], ['b', true]]);
    });

    await t.test('cursors of a node that was wrongly counted as dead are valid on the others', async (t) => {
        const { node, schema } = await cluster(t);
        const [a, b] = [await node('a'), await node('b')];
        await database.sql(RECORD_FUNCTIONS);
        for (let i = 0; i < 5; i++) {
            // The start of a node after this one was silent for long.
            const ended = await database.sql(`WITH s AS (UPDATE ${schema}.tidings_state SET position=position+1 WHERE one=1 RETURNING position),
                ended AS (UPDATE ${schema}.tidings_runs r SET last=s.position-1, position=s.position FROM s
                WHERE r.epoch=(SELECT epoch FROM ${schema}.tidings_nodes WHERE name='a') RETURNING r.epoch, r.last, r.position)
                INSERT INTO ${schema}.tidings_log SELECT position, 1, ${recordSql(KIND.run, { modified: 'epoch', size: 'last' })} FROM ended RETURNING 1`);
            assert.equal(ended.length, 1);
            await tool(a, 'publish', { uri: X, text: `n${i}` });
            const { cursor } = await cursorOf(a);
            assert.equal((await read(b, X, { 'dev.tidings/atLeast': cursor })).text, `n${i}`);
            const since = await cursorOf(b, { cursor });
            assert.deepEqual([since.changes, since.gap], [[], undefined], JSON.stringify(since));
        }
    });

    await t.test('value of a change is readable with the change by permitted clients before the commit', async (t) => {
        const tokens = new TokenFile(t);
        const [bob, eve] = [tokens.give('bob'), tokens.give('eve')];
        const rules = [
            { principal: 'bob', allow: ['list', 'read', 'subscribe', 'write'] },
            { principal: 'eve', uri: 'entity:///Other@1/**', allow: ['list', 'read', 'subscribe'] },
        ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
        const { node } = await cluster(t, [...tokens.args, ...rules]);
        const [a, b] = (await Promise.all([node('a'), node('b')])).map((one) => as(one, bob));
        const URI = 'entity:///Note@1/one';
        const put = async (where, n) => assert.ok(!(await tool(where, 'upsert-entity', { uri: URI, value: { n } })).isError);
        const get = async (where, extra) => JSON.parse((await read(where, URI, extra)).text).value.n;
        await tool(a, 'add-entity-type', { name: 'Note', version: '1', jsonSchema: {} });
        await put(a, 'first');
        for (let i = 0; i < 20; i++) {
            await put(a, `a${i}`);
            const { cursor } = await cursorOf(a, { uris: [URI] });
            assert.equal(await get(b, { 'dev.tidings/atLeast': cursor }), `a${i}`);
            assert.equal(await get(b), `a${i}`);
            const refused = await modern(as(b, eve), 'resources/read', { uri: URI });
            assert.ok(refused.json.error && !refused.text.includes(`a${i}`), refused.text);
            await put(b, `b${i}`); // from here on no client reads earlier changes there
            assert.equal(await get(b), `b${i}`);
        }
    });

    await t.test('sealed cursor of one node is valid on another', async (t) => {
        const tokens = new TokenFile(t);
        const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
        const see = ['list', 'read', 'subscribe'];
        const rules = [
            { principal: 'ada', uri: 'published:///**', allow: see },
            { principal: 'bob', allow: [...see, 'write'] },
        ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
        const { node } = await cluster(t, [...tokens.args, ...rules]);
        const [a, b] = [await node('a'), await node('b')];
        await tool(as(a, bob), 'publish', { uri: X, text: 'one' });
        const first = await cursorOf(as(a, ada));
        assert.doesNotMatch(first.cursor, /^[0-9a-f]+\.\d+/, 'it is sealed');
        await tool(as(a, bob), 'publish', { uri: X, text: 'two' });
        const last = await cursorOf(as(a, ada), { cursor: first.cursor });
        assert.equal((await read(as(b, ada), X, { 'dev.tidings/atLeast': last.cursor })).text, 'two');
        const answer = await cursorOf(as(b, ada), { cursor: first.cursor });
        assert.equal(answer.gap, undefined);
        assert.deepEqual(answer.changes.map(({ uri }) => uri), [X]);
    });

    await t.test('database restart: cached reads work, writes are refused, then nodes catch up', async (t) => {
        const { node } = await cluster(t);
        const [a, b] = [await node('a'), await node('b')];
        await tool(a, 'publish', { uri: X, text: 'one' });
        const { cursor } = await cursorOf(a);
        await read(b, X, { 'dev.tidings/atLeast': cursor });
        const watcher = await Watcher.open('modern', b, [X]);
        await database.stop();
        assert.equal((await tool(b, 'publish', { uri: X, text: 'no' })).isError, true);
        const known = await read(b, X);
        assert.deepEqual([known.text, known.meta['dev.tidings/stale']], ['one', true]);
        const put = await fetch(`${new URL('/resource', b.url)}?uri=${encodeURIComponent(X)}`, { method: 'PUT', body: 'no' });
        assert.deepEqual([put.status, put.headers.get('retry-after')], [503, '1']);
        await database.begin();
        await eventually(async () => !(await tool(a, 'publish', { uri: X, text: 'two' })).isError, 'the database to be back');
        await watcher.updated(X);
        await eventually(async () => (await read(b, X)).text === 'two', 'b to catch up');
        assert.match(b.stderr, /store cannot be reached/);
        await eventually(() => /store can be reached again/.test(b.stderr), 'the log to say so');
    });

    await t.test('stalled node is logged with its lag, as are its start and exit', async (t) => {
        const { node } = await cluster(t);
        const [a, b] = [await node('a'), await node('b')];
        await a.lines.next((line) => /nodes: node joined name=b/.test(line), 'that b came');
        const metrics = async (who) => (await read(who, 'tidings://self/metrics')).text;
        for (const [who, name] of [[a, 'a'], [b, 'b']]) {
            await eventually(async () => /^tidings_nodes 2$/m.test(await metrics(who)), `${name} counts two nodes`);
            const [, lag] = new RegExp(`^tidings_node_lag_seconds\\{node="${name}"\\} (\\S+)$`, 'm').exec(await metrics(who));
            assert.ok(Number(lag) >= 0 && Number(lag) < 60, lag);
        }
        await tool(a, 'notify', { changes: [{ uri: X }] });
        await eventually(async () => /^tidings_node_follow_total\{how="told"\} [1-9]/m.test(await metrics(b)), 'b to be told with its row');
        assert.match(await metrics(b), /^tidings_node_follow_total\{how="refused"\} 0$/m);
        assert.match(await good(t, ['nodes', b.url]), /^ a +lives +.*\n\*b +lives +/m);
        b.child.kill('SIGSTOP');
        await a.lines.next((line) => /warn nodes: node is silent name=b seenMs=\d+/.test(line), 'that b is silent');
        await tool(a, 'publish', { uri: X, text: 'unseen by b' });
        const [, row] = JSON.parse((await read(a, 'tidings://self/nodes')).text);
        assert.deepEqual([row.name, row.lives], ['b', false]);
        assert.ok(row.lag > 0 && row.lagMs >= 6000 && row.lagMs >= row.seenMs, JSON.stringify(row));
        const said = await good(t, ['status', a.url]);
        assert.match(said, /nodes +1 live, 1 silent; this one is .* behind/);
        assert.match(await metrics(a), /^tidings_nodes 1$/m);
        assert.match(await good(t, ['nodes', a.url]), /^\*a +lives +.*\n b +SILENT +\d/m);
        b.child.kill('SIGCONT');
        await a.lines.next((line) => /nodes: node joined name=b/.test(line), 'that b is back');
        await b.stop();
        await a.lines.next((line) => /nodes: node has ended name=b/.test(line), 'that b ended');
    });

    await t.test('invalid settings are refused by name', async (t) => {
        const { node, store } = await cluster(t);
        await node('a');
        const refused = async (says, ...args) => {
            const { code, stderr } = await run(t, ['serve', '--http', '127.0.0.1:0', ...args], { ms: 20_000 });
            assert.notEqual(code, 0);
            assert.match(stderr, says);
        };
        await refused(/cluster/, '--entities', store, '--cluster', 'another');
        await refused(/--node/, '--entities', ':memory:', '--node', 'a');
        await refused(/--cluster: a name has/, '--entities', store, '--cluster', 'a b');
        await refused(/connect|refused|reach/i, '--entities', 'postgres://127.0.0.1:1/none');
    });
});
