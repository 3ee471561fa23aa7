// SPDX-License-Identifier: MIT
//
// Tasks of three nodes on a real PostgreSQL: started at one node, read, answered and cancelled at another, reported at
// the third; tasks of a killed node fail; limits apply to all nodes together; other clients get no access by id or by
// rows that they write into the table.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Postgres, skip } from './lib/postgres.mjs';
import { listen, modern } from './lib/rpc.mjs';
import { serveExample } from './lib/server.mjs';
import { _meta, uriOf, task, read, begin } from './lib/tasks.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { eventually } from './lib/wait.mjs';

/** Waits for updates of the task until it has that status at `who`. */
async function until(events, who, id, status) {
    for (;;) {
        const { result, error } = await task(who, 'get', id);
        assert.ok(result, JSON.stringify(error));
        if (result.status === status) {
            return result;
        }
        await events.message((m) => m.method === 'notifications/resources/updated', `${id} to change`);
    }
}
const follow = async (who, id) => (await listen(who, { resourceSubscriptions: [uriOf(id)] })).events;

test('tasks are shared by several nodes', { skip }, async (t) => {
    const database = await Postgres.start(t);
    const tokens = new TokenFile(t);
    const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
    let schemas = 0;
    const cluster = async (t, count, args = []) => {
        const schema = `s${schemas++}`;
        await database.sql(`CREATE SCHEMA ${schema}`);
        const node = (name) => serveExample(t, 'conformance', [...tokens.args, '--entities', database.url({ schema }), '--node', name, ...args]);
        const nodes = await Promise.all(['a', 'b', 'c'].slice(0, count).map(node));
        return { schema, nodes, node, of: (token) => nodes.map((server) => as(server, token)) };
    };

    await t.test('task starts at one node, gets its answer at another and reports at a third', async (t) => {
        const { of } = await cluster(t, 3);
        const [a, b, c] = of(ada);
        const id = await begin(a, 'confirm_delete', { filename: 'x' });
        const events = await follow(c, id);
        const told = (await listen(c, { taskIds: [id] }, { params: { _meta } })).events;
        const waiting = await until(events, c, id, 'input_required');
        const here = (await task(a, 'get', id)).result;
        assert.deepEqual(waiting.inputRequests, here.inputRequests);
        assert.equal(waiting.ttlMs, here.ttlMs);
        assert.deepEqual(JSON.parse((await read(b, id)).result.contents[0].text).inputRequests, here.inputRequests);
        const [asked] = Object.keys(waiting.inputRequests);
        const nothing = await task(b, 'update', id, { inputResponses: { 'no.such': { action: 'accept' } } });
        assert.equal(nothing.result.resultType, 'complete');
        assert.equal((await task(b, 'get', id)).result.status, 'input_required');
        assert.match((await task(b, 'update', id, { inputResponses: { [asked]: 7 } })).error.message, /must be an object of objects/);
        const long = await task(b, 'update', id, { inputResponses: { [asked]: { action: 'accept', content: { x: 'y'.repeat(1 << 20) } } } });
        assert.match(long.error.message, /the answers do not fit/);
        const inputResponses = { [asked]: { action: 'accept', content: { confirm: true } } };
        assert.equal((await task(b, 'update', id, { inputResponses })).result.resultType, 'complete');
        assert.notEqual((await task(b, 'get', id)).result.status, 'input_required', 'whoever answered sees that it is');
        const done = await until(events, c, id, 'completed');
        assert.match(done.result.content[0].text, /"confirm":true/);
        assert.deepEqual((await task(a, 'get', id)).result, { ...done });
        const last = await told.message((m) => m.method === 'notifications/tasks' && m.params.status === 'completed', 'notifications/tasks');
        assert.deepEqual(last.params.result, done.result);
        assert.deepEqual(JSON.parse((await read(b, id)).result.contents[0].text).result, done.result);
        assert.equal((await task(b, 'cancel', id)).result.resultType, 'complete');
        assert.equal((await task(c, 'get', id)).result.status, 'completed', 'an end stays');
    });

    await t.test('answers that the node missed are found at its next write', async (t) => {
        const { schema, of } = await cluster(t, 2);
        const [a, b] = of(ada);
        const id = await begin(a, 'multi_input');
        const events = await follow(b, id);
        const { inputRequests } = await until(events, b, id, 'input_required');
        const [name, confirm] = ['name', 'confirm'].map((end) => Object.keys(inputRequests).find((key) => key.endsWith(`.${end}`)));
        const answers = JSON.stringify({ [confirm]: { action: 'accept', content: { confirm: true } } });
        await database.sql(`UPDATE ${schema}.tidings_tasks SET answers = convert_to('${answers}', 'UTF8') WHERE id = '${id}'`);
        assert.deepEqual(Object.keys((await task(b, 'get', id)).result.inputRequests), [name]);
        const inputResponses = { [name]: { action: 'accept', content: { name: 'Ada' } } };
        assert.equal((await task(a, 'update', id, { inputResponses })).result.resultType, 'complete');
        assert.match((await until(events, b, id, 'completed')).result.content[0].text, /Ada/);
    });

    await t.test('task stops when another node cancels it', async (t) => {
        const { of } = await cluster(t, 2);
        const [a, b] = of(ada);
        const id = await begin(a, 'slow_compute', { seconds: 60 });
        const events = await follow(a, id);
        assert.equal((await task(b, 'get', id)).result.status, 'working');
        assert.equal((await task(b, 'cancel', id)).result.resultType, 'complete');
        assert.equal((await task(b, 'get', id)).result.status, 'cancelled');
        const ended = await until(events, a, id, 'cancelled');
        assert.equal(ended.statusMessage, 'cancelled by the client');
    });

    await t.test('killed node leaves no running task and keeps finished ones', async (t) => {
        const { nodes, of } = await cluster(t, 2);
        const [a, b] = of(ada);
        const done = await begin(a, 'slow_compute', { seconds: 0 });
        await until(await follow(b, done), b, done, 'completed');
        const ran = await begin(a, 'slow_compute', { seconds: 60 });
        const asked = await begin(a, 'confirm_delete');
        const events = await follow(b, ran);
        await until(await follow(b, asked), b, asked, 'input_required');
        await nodes[0].kill();
        const failed = await until(events, b, ran, 'failed');
        assert.match(failed.error.message, /the node that ran the task is gone; call the tool again/);
        assert.equal(failed.error.code, -32603);
        assert.equal((await task(b, 'get', asked)).result.status, 'failed');
        assert.equal((await task(b, 'get', done)).result.result.content[0].text, 'computed');
    });

    await t.test('limits of one client apply to all nodes together', async (t) => {
        const { of } = await cluster(t, 2, ['--max-client-tasks', '2', '--max-tasks', '3', '--fair-share', '100']);
        const [[a, b], [other]] = [of(ada), of(bob)];
        await begin(a, 'slow_compute', { seconds: 60 });
        await begin(b, 'slow_compute', { seconds: 60 });
        const refused = await modern(a, 'tools/call', { _meta, name: 'slow_compute', arguments: { seconds: 0 } });
        assert.equal(refused.status, 429);
        assert.deepEqual([refused.json.error.data.limit, refused.json.error.data.value], ['max-client-tasks', 2]);
        await begin(other, 'slow_compute', { seconds: 60 });
        const full = await modern(other, 'tools/call', { _meta, name: 'slow_compute', arguments: { seconds: 0 } });
        assert.deepEqual([full.status, full.json.error.data.limit], [503, 'max-tasks']);
    });

    await t.test('task is invisible to other clients at any node and foreign rows are ignored', async (t) => {
        const { schema, of } = await cluster(t, 2);
        const [[a, b], [, stranger]] = [of(ada), of(bob)];
        const id = await begin(a, 'slow_compute', { seconds: 60 });
        const unknown = '0123456789abcdef'.repeat(3);
        for (const verb of ['get', 'cancel', 'update']) {
            const [one, other] = [await task(stranger, verb, id, { inputResponses: {} }), await task(stranger, verb, unknown, { inputResponses: {} })];
            assert.deepEqual({ ...one, id: 0 }, { ...other, id: 0 });
            assert.equal(one.error.code, -32602);
        }
        assert.equal((await read(stranger, id)).error.code, -32602);
        const { ack, events } = await listen(stranger, { resourceSubscriptions: [uriOf(id), 'tidings://tasks/**'] });
        assert.ok(!ack.notifications.resourceSubscriptions?.includes(uriOf(id)));
        const set = (columns) => database.sql(`UPDATE ${schema}.tidings_tasks SET ${columns} WHERE id = '${id}'`);
        const kept = await begin(a, 'slow_compute', { seconds: 60 });
        for (const forged of [
            "status = 'odd'", "status = 'completed', payload = 'no JSON'", "payload = '[1]'", "payload = decode('7b0a7d', 'hex')", "payload = ''",
            "status = 'failed', ttl = -1", "ttl = 9223372036854775807", "ttl = 3600000, message = decode('ff', 'hex')",
            "message = decode(repeat('78', 2000), 'hex')", "message = '', status = 'input_required', questions = '{\"a\":1}', answers = '[]'",
        ]) {
            await set(forged);
            const { result, error } = await task(b, 'get', id);
            assert.ok(error?.code === -32602 || ['working', 'completed', 'failed'].includes(result?.status), `${forged}: ${JSON.stringify(result ?? error)}`);
            assert.ok(['working'].includes((await task(b, 'get', kept)).result.status));
        }
        await task(b, 'cancel', kept);
        await until(await follow(a, kept), a, kept, 'cancelled');
        assert.deepEqual(events.seen.filter(({ data }) => /resources.updated/.test(data)), []);
    });

    await t.test('tasks continue after an outage longer than the node timeout', async (t) => {
        const { schema, nodes, of } = await cluster(t, 2);
        const [a, b] = of(ada);
        const id = await begin(a, 'slow_compute', { seconds: 60 });
        await database.stop();
        await Promise.all(nodes.map(({ lines }) => lines.next((line) => /store cannot be reached/.test(line), 'a node to miss the store')));
        await database.begin();
        await database.sql(`UPDATE ${schema}.tidings_runs SET until = 0`);
        const runs = () => database.sql(`SELECT epoch FROM ${schema}.tidings_runs WHERE last IS NULL AND until > 0`);
        while ((await runs()).length < 2) {
            assert.equal((await task(b, 'get', id)).result?.status ?? 'working', 'working');
        }
        assert.equal((await task(b, 'cancel', id)).result.resultType, 'complete');
        assert.equal((await task(b, 'get', id)).result.status, 'cancelled');
    });

    await t.test('end of a task during an outage is visible once stored', async (t) => {
        const { of } = await cluster(t, 2);
        const [a, b] = of(ada);
        const id = await begin(a, 'slow_compute', { seconds: 1 });
        await database.stop();
        const lost = await task(b, 'get', id);
        assert.equal(lost.result, undefined);
        assert.equal((await task(a, 'get', id)).result.status, 'working');
        await database.begin();
        await eventually(async () => (await task(b, 'get', id)).result?.status === 'completed', 'the end to be kept');
        assert.equal((await task(a, 'get', id)).result.status, 'completed');
    });
});
