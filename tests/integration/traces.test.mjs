// SPDX-License-Identifier: MIT
//
// Traces (W3C Trace Context, SEP-414). The server copies the trace of a request into the notifications of its
// changes, for permitted subscribers. Our client sends its trace with each request.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { call, listen, meta, modern } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const OTHER = '00-1111111111111111111111111111111a-222222222222222b-00';
const all = ['--publish', 'app:///', '--allow-write', '--window', '0'];

const tool = (server, name, args, traceparent) =>
    call(server, 'tools/call', { name, arguments: args, _meta: meta(traceparent && { traceparent }) });
const told = async (events) => {
    const message = await events.message((m) => m.method === 'notifications/resources/updated' && m.params.uri !== 'entity:///types');
    return [message.params.uri, message.params._meta.traceparent];
};

test('change caused by a request is delivered with its trace; an invalid trace is ignored', async (t) => {
    const server = await serve(t, { files: {}, args: [...all, '--entities', ':memory:'] });
    await tool(server, 'add-entity-type', { name: 'note', version: '1', jsonSchema: { type: 'object', properties: { a: { type: 'integer' } } } });
    const uris = ['app:///', 'entity:///'];
    const { events } = await listen(server, { resourceSubscriptions: uris });
    const put = (traceparent, body = 'x') => request(server, {
        method: 'PUT', path: '/resource?uri=app:///put', headers: { 'Content-Type': 'text/plain', ...(traceparent && { traceparent }) }, body,
    });

    await tool(server, 'publish', { uri: 'app:///a', text: '1' }, PARENT);
    assert.deepEqual(await told(events), ['app:///a', PARENT]);
    await tool(server, 'publish', { uri: 'app:///a', text: '2' });
    assert.deepEqual(await told(events), ['app:///a', undefined]);
    await tool(server, 'notify', { changes: [{ uri: 'app:///a' }] }, OTHER);
    assert.deepEqual(await told(events), ['app:///a', OTHER]);
    await tool(server, 'unpublish', { uri: 'app:///a' }, PARENT);
    assert.deepEqual(await told(events), ['app:///a', PARENT]);
    await tool(server, 'upsert-entity', { entityTypeName: 'note', entityTypeVersion: '1', entityId: '5b6f1d1e-7b58-4d06-9e44-6d8f3f2f9a10', value: { a: 1 } }, PARENT);
    const [entity, trace] = await told(events);
    assert.match(entity, /^entity:\/\/\/note@1\//);
    assert.equal(trace, PARENT);
    await put(PARENT);
    assert.deepEqual(await told(events), ['app:///put', PARENT]);
    await request(server, { method: 'POST', path: '/notify', headers: { 'Content-Type': 'application/json', traceparent: OTHER }, body: '{"changes":[{"uri":"app:///put"}]}' });
    assert.deepEqual(await told(events), ['app:///put', OTHER]);
    for (const wrong of ['x', `${PARENT}"}`, PARENT.toUpperCase(), `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, 'x'.repeat(5000)]) {
        await tool(server, 'publish', { uri: 'app:///w', text: wrong }, wrong);
        assert.deepEqual(await told(events), ['app:///w', undefined], wrong);
    }
    await modern(server, 'tools/call', { name: 'publish', arguments: { uri: 'app:///h', text: '' } }, { headers: { traceparent: PARENT } });
    assert.deepEqual(await told(events), ['app:///h', PARENT]);
    events.close();
});

test('trace is hidden from clients that may not receive the change', async (t) => {
    const tokens = new TokenFile(t);
    const [ann, bob] = [tokens.give('ann'), tokens.give('bob')];
    const rules = [
        { principal: 'ann', allow: ['list', 'read', 'subscribe', 'write'] },
        { principal: 'bob', uri: 'app:///open/', match: 'container', allow: ['list', 'read', 'subscribe'] },
    ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const server = await serve(t, { files: {}, args: [...all, ...tokens.args, ...rules] });
    const { events } = await listen(as(server, bob), { resourceSubscriptions: ['app:///open/'] });
    await tool(as(server, ann), 'publish', { uri: 'app:///secret', text: '1' }, OTHER);
    await tool(as(server, ann), 'publish', { uri: 'app:///open/a', text: '1' }, PARENT);
    assert.deepEqual(await told(events), ['app:///open/a', PARENT]);
    assert.ok(!JSON.stringify(events.seen ?? []).includes(OTHER));
    events.close();
});

test('TRACEPARENT of the environment is in the requests of our commands in both eras', async (t) => {
    const server = await serve(t, { files: { a: 'a' }, args: [...all, '--access-log'] });
    for (const era of ['modern', 'legacy']) {
        const env = { TRACEPARENT: PARENT, TRACESTATE: 'a=b' };
        const end = await run(t, ['read', '--era', era, server.url, server.uri('a')], { env });
        assert.equal(end.code, 0, end.stderr);
        await server.lines.next((line) => line.includes('method=resources/read') && line.includes(`era=${era}`) &&
            line.includes('trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331'), `the trace of ${era}`);
    }
    const end = await run(t, ['read', '-v', server.url, server.uri('a')], { env: { TRACEPARENT: 'nonsense\n"' } });
    assert.equal(end.code, 0, end.stderr);
    assert.ok(!end.stderr.includes('traceparent'), end.stderr);
});
