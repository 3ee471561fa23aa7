// SPDX-License-Identifier: MIT
//
// Tasks in a running server: access to a task by its id and as a subscribable resource in both eras, from any worker;
// and the remaining tasks after a kill and a restart.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

import { listen, modern, Session } from './lib/rpc.mjs';
import { legacyClient } from './lib/sdk.mjs';
import { serveExample } from './lib/server.mjs';
import { _meta, uriOf, say, task, read, begin } from './lib/tasks.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { Inbox } from './lib/wait.mjs';

/** Alice and Bob have tokens; a client without a token is rejected. */
async function start(t, args = []) {
    const tokens = new TokenFile(t);
    const given = [tokens.give('alice'), tokens.give('bob')];
    const server = await serveExample(t, 'conformance', [...tokens.args, '--self', ...args]);
    return { server, alice: as(server, given[0]), bob: as(server, given[1]) };
}

/** Await an update of the task and return its current state, until it has that status. */
async function until(events, who, id, status) {
    for (;;) {
        const { result } = await task(who, 'get', id);
        if (result.status === status) {
            return result;
        }
        await events.message((m) => m.method === 'notifications/resources/updated', `${id} to change`);
    }
}

test('task is a resource of its owner with progress updates on every worker', async (t) => {
    const { alice } = await start(t, ['--workers', '4']);
    const id = await begin(alice, 'confirm_delete', { filename: 'a' });
    const { ack, events } = await listen(alice, { resourceSubscriptions: [uriOf(id)] });
    assert.deepEqual(ack.notifications.resourceSubscriptions, [uriOf(id)]);
    const waiting = await until(events, alice, id, 'input_required');
    const [asked] = Object.keys(waiting.inputRequests);
    const shown = JSON.parse((await read(alice, id)).result.contents[0].text);
    assert.deepEqual(shown.inputRequests, waiting.inputRequests);
    const inputResponses = { [asked]: { action: 'accept', content: { confirm: true } } };
    assert.equal((await task(alice, 'update', id, { inputResponses })).result.resultType, 'complete');
    const done = await until(events, alice, id, 'completed');
    assert.match(done.result.content[0].text, /"confirm":true/);
    const last = JSON.parse((await read(alice, id)).result.contents[0].text);
    assert.deepEqual(last.result, done.result);
});

test('official legacy client subscribes to a task', async (t) => {
    const { client, server } = await legacyClient(t, 'http', { example: 'conformance' });
    const id = await begin(server, 'slow_compute', { seconds: 60 });
    const updates = new Inbox('updates of the task');
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (m) => updates.push(m.params.uri));
    await client.subscribeResource({ uri: uriOf(id) });
    await task(server, 'cancel', id);
    assert.equal(await updates.next(() => true, 'an update'), uriOf(id));
    const { contents } = await client.readResource({ uri: uriOf(id) });
    assert.equal(JSON.parse(contents[0].text).status, 'cancelled');
});

test('task is hidden from others by id, as a resource and in patterns', async (t) => {
    const { alice, bob } = await start(t, ['--workers', '1']); /* all updates are written in one turn */
    const unknown = '0123456789abcdef'.repeat(3);
    const id = await begin(alice, 'slow_compute', { seconds: 60 });
    const same = async (ask) => {
        const [one, other] = [await ask(id), await ask(unknown)];
        const text = (answer, of) => JSON.stringify({ ...answer, id: 0 }).replaceAll(of, 'ID');
        assert.equal(text(one, id), text(other, unknown));
        return one;
    };
    assert.equal((await same((x) => task(bob, 'get', x))).error.code, -32602);
    await same((x) => task(bob, 'cancel', x));
    await same((x) => task(bob, 'update', x, { inputResponses: {} }));
    assert.equal((await same((x) => read(bob, x))).error.code, -32602);
    await same((x) => say(bob, 'resources/metadata', { uri: uriOf(x) }));
    const session = await Session.open(bob);
    await same(async (x) => (await session.send('resources/subscribe', { uri: uriOf(x) })).json);
    const heard = [];
    for (const pattern of [uriOf(id), 'tidings://tasks/', 'tidings://tasks/*', 'tidings://tasks/{id}', '**']) {
        const { events } = await listen(bob, { resourceSubscriptions: [pattern] });
        heard.push(events);
    }
    const own = await listen(alice, { resourceSubscriptions: ['tidings://tasks/**', '**'] });
    heard.push(own.events); /* the owner neither by a pattern: task updates require the id */
    const named = await listen(alice, { resourceSubscriptions: [uriOf(id)] });
    const isUpdate = ({ data }) => /resources.updated/.test(data);
    await task(alice, 'cancel', id);
    await until(named.events, alice, id, 'cancelled');
    const second = await begin(alice, 'slow_compute', { seconds: 0 });
    await until((await listen(alice, { resourceSubscriptions: [uriOf(second)] })).events, alice, second, 'completed');
    for (const events of heard) {
        assert.deepEqual(events.seen.filter(isUpdate), []);
    }
    const { resources } = (await say(alice, 'resources/list')).result;
    assert.ok(!resources.some(({ uri }) => uri.includes('tasks')), 'none is listed');
});

const follow = (who, taskIds, more = {}) => listen(who, { taskIds, ...more }, { params: { _meta } });
const isTask = (id, status) => (m) => m.method === 'notifications/tasks' && m.params.taskId === id && m.params.status === status;

test('listen with tasks receives notifications/tasks with all members of tasks/get', async (t) => {
    const { alice, bob } = await start(t, ['--workers', '4', '--window', '0', '--allow-write', '--publish', 'note:///',
        '--access', JSON.stringify({ allow: ['list', 'read', 'subscribe', 'write'] })]);
    const id = await begin(alice, 'confirm_delete', { filename: 'a' });
    const other = await begin(alice, 'slow_compute', { seconds: 60 });
    const { ack, events } = await follow(alice, [id, 'nonsense', id, '0123456789abcdef'.repeat(3)], { resourceSubscriptions: [uriOf(other)] });
    assert.deepEqual(ack.notifications.taskIds, [id]);
    assert.deepEqual(ack.notifications.resourceSubscriptions, [uriOf(other)]);
    const { params } = await events.message(isTask(id, 'input_required'), 'that it asks');
    const { _meta: of, ...asked } = params;
    const { resultType, _meta: ours, ...same } = (await task(alice, 'get', id)).result;
    assert.deepEqual([asked, resultType], [same, 'complete']);
    assert.equal(of['io.modelcontextprotocol/subscriptionId'], ack._meta['io.modelcontextprotocol/subscriptionId']);
    const stranger = await follow(bob, [id]);
    assert.equal(stranger.ack.notifications.taskIds, undefined);
    const [question] = Object.keys(asked.inputRequests);
    await task(alice, 'update', id, { inputResponses: { [question]: { action: 'accept', content: { confirm: true } } } });
    const done = (await events.message(isTask(id, 'completed'), 'the result')).params;
    assert.match(done.result.content[0].text, /"confirm":true/);
    // A later subscriber receives the current state.
    const late = await follow(alice, [id]);
    assert.deepEqual((await late.events.message(isTask(id, 'completed'), 'how it is')).params.result, done.result);
    // If the change is unknown, the subscriber receives the current state instead of a truncated update.
    const said = await say(alice, 'tools/call', { name: 'notify', arguments: { changes: [{ uri: '**' }] } });
    assert.equal(said.result.structuredContent.told, 1, JSON.stringify(said));
    await late.events.message(isTask(id, 'completed'), 'how it is, again');
    await task(alice, 'cancel', other);
    await events.message((m) => m.method === 'notifications/resources/updated' && m.params.uri === uriOf(other), 'the other');
    const ofTasks = ({ data }) => /notifications.tasks/.test(data);
    assert.ok(events.seen.filter(ofTasks).every(({ json }) => json.params.taskId === id), 'what is a resource is told as one');
    assert.ok(!events.seen.some(({ json }) => json?.params?.uri === uriOf(id)), 'and a task as one');
    assert.ok(!late.events.seen.some(({ data }) => /resources.updated/.test(data)));
    assert.deepEqual(stranger.events.seen.filter(({ data }) => /notifications.(tasks|resources)/.test(data)), []);
});

test('result larger than notification values is delivered completely', async (t) => {
    const { alice } = await start(t, ['--max-value', '1k']);
    const id = await begin(alice, 'confirm_delete', { filename: 'a' });
    const { events } = await follow(alice, [id]);
    const { params } = await events.message(isTask(id, 'input_required'), 'that it asks');
    const [question] = Object.keys(params.inputRequests);
    const content = { confirm: true, note: 'x'.repeat(100_000) };
    await task(alice, 'update', id, { inputResponses: { [question]: { action: 'accept', content } } });
    const done = (await events.message(isTask(id, 'completed'), 'the result')).params;
    assert.ok(done.result.content[0].text.length > 100_000);
});

test('invalid or too many taskIds are rejected', async (t) => {
    const { alice } = await start(t, ['--max-uris-per-listen', '2']);
    const ask = async (notifications) => (await modern(alice, 'subscriptions/listen', { _meta, notifications })).json.error;
    for (const taskIds of ['x', [1], {}, [null]]) {
        assert.match((await ask({ taskIds })).message, /taskIds must be an array of ids/);
    }
    assert.equal((await ask({ taskIds: ['a', 'b'], resourceSubscriptions: ['tidings://self/'] })).data.limit, 'max-uris-per-listen');
});

test('task ids are absent from the list of all subscriptions', async (t) => {
    const server = await serveExample(t, 'conformance', ['--self']); /* without tokens the id grants access */
    const id = await begin(server, 'slow_compute', { seconds: 60 });
    const { ack } = await listen(server, { resourceSubscriptions: [uriOf(id)] });
    assert.deepEqual(ack.notifications.resourceSubscriptions, [uriOf(id)]);
    const self = 'tidings://self/subscriptions';
    for (const uri of [self, `${self}?covers=${encodeURIComponent(uriOf(id))}`]) {
        const { text } = (await say(server, 'resources/read', { uri })).result.contents[0];
        assert.ok(text.includes(`"${uriOf(id.slice(0, 8))}"`), text);
        assert.ok(!text.includes(id.slice(0, 9)), text);
    }
    await task(server, 'cancel', id);
});

test('results survive a killed server, and its running tasks fail', async (t) => {
    const store = new Tree(t).at('store.db');
    const tokens = new TokenFile(t);
    const [one, two] = [tokens.give('alice'), tokens.give('bob')];
    const again = () => serveExample(t, 'conformance', [...tokens.args, '--store', store, '--publish', 'note:///']);
    let server = await again();
    let alice = as(server, one);
    const done = await begin(alice, 'slow_compute', { seconds: 0 });
    const ran = await begin(alice, 'slow_compute', { seconds: 60 });
    const asked = await begin(alice, 'confirm_delete');
    const { events } = await listen(alice, { resourceSubscriptions: [uriOf(done), uriOf(asked)] });
    await until(events, alice, done, 'completed');
    await until(events, alice, asked, 'input_required');
    await server.kill();
    server = await again();
    alice = as(server, one);
    const kept = (await task(alice, 'get', done)).result;
    assert.equal(kept.status, 'completed');
    assert.equal(kept.result.content[0].text, 'computed');
    for (const id of [ran, asked]) {
        const { result } = await task(alice, 'get', id);
        assert.equal(result.status, 'failed');
        assert.match(result.error.message, /stopped while the task ran/);
        assert.equal((await task(alice, 'cancel', id)).result.resultType, 'complete');
        assert.equal((await task(alice, 'get', id)).result.status, 'failed');
    }
    assert.equal((await task(as(server, two), 'get', done)).error.code, -32602);
    assert.equal(JSON.parse((await read(alice, done)).result.contents[0].text).status, 'completed');
});

test('client with endless tasks gets the name of the limit, and others continue', async (t) => {
    const { alice, bob } = await start(t, ['--max-client-tasks', '3', '--max-tasks', '6', '--fair-share', '50']);
    for (let i = 0; i < 3; i += 1) {
        await begin(alice, 'slow_compute', { seconds: 60 });
    }
    const refused = await modern(alice, 'tools/call', { _meta, name: 'slow_compute', arguments: { seconds: 0 } });
    assert.equal(refused.status, 429);
    assert.equal(refused.json.error.data.limit, 'max-client-tasks');
    await begin(bob, 'slow_compute', { seconds: 60 });
    await begin(bob, 'slow_compute', { seconds: 60 }); // the sixth is for operators
    const full = await modern(bob, 'tools/call', { _meta, name: 'slow_compute', arguments: { seconds: 0 } });
    assert.equal(full.status, 503);
    assert.equal(full.json.error.data.limit, 'max-tasks');
    const text = (await say(bob, 'resources/read', { uri: 'tidings://self/metrics' })).result.contents[0].text;
    assert.match(text, /^tidings_tasks\{status="working"\} 5$/m);
});
