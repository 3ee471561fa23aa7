// SPDX-License-Identifier: MIT
//
// The schemas of docs/schema for our protocol additions, validated against real messages of both eras.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { call, listen, meta, Session } from './lib/rpc.mjs';
import { servePublish, RESOURCE } from './lib/publish.mjs';
import { document, holds, names, problems } from './lib/schemas.mjs';
import { serve, serveExample } from './lib/server.mjs';
import { isUpdate, MODES, OPTIONS, Subscriber } from './lib/subscriber.mjs';

const files = { 'a.txt': 'one', 'b.bin': Buffer.from([0xff, 0xfe, 0]), 'dir/c.log': '1', 'dir/d.log': '1' };
const parse = ({ contents }) => JSON.parse(contents[0].text);

test('schemas are valid and separate correct from wrong instances', () => {
    assert.deepEqual(
        names,
        ['acknowledged', 'bookmark', 'extensions', 'options', 'read', 'resource', 'semantics', 'subscriptions', 'updated'].map(
            (n) => `${n}.json`,
        ),
    );
    const right = { uri: 'x:///a', name: 'a', capabilities: { list: false, subscribe: true } };
    holds('resource', right);
    assert.notDeepEqual(problems('resource', { ...right, capabilities: { list: 1 } }), []);
    assert.notDeepEqual(problems('resource', { ...right, text: '', blob: '' }), []);
    assert.notDeepEqual(problems('resource', { ...right, _meta: { 'dev.tidings/none': 1 } }), []);
    assert.notDeepEqual(problems('resource#metadata', { resource: { ...right, text: '' } }), []);
    assert.notDeepEqual(problems('updated', { uri: 'x:///a', subscribedUri: 'x:///a' }), []);
});

test('both eras advertise both extensions', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const { capabilities } = await call(server, 'server/discover');
    holds('extensions', session.result.capabilities.extensions);
    holds('extensions', capabilities.extensions);
    assert.deepEqual(capabilities.extensions, session.result.capabilities.extensions);
});

test('reads match their advertised capabilities in both eras', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const { capabilities } = await call(server, 'server/discover');
    const said = capabilities.extensions['dev.tidings/resource-metadata'];
    const uri = server.uri('dir/c.log');
    for (const read of [
        (_meta) => call(server, 'resources/read', { uri, _meta: { ...meta(), ..._meta } }),
        (_meta) => session.call('resources/read', { uri, _meta }),
    ]) {
        for (const unit of said.range) {
            const { contents } = await read({ 'dev.tidings/range': { unit, from: 0, to: 1 } });
            assert.equal(contents[0].text, '1', unit);
        }
        const { contents } = await read({ 'dev.tidings/accept': '*/*' });
        assert.equal(contents.length, 1);
        const held = await read({ 'dev.tidings/ifNoneMatch': contents[0]._meta['dev.tidings/etag'].replace(/^W\//, '') });
        assert.ok(held.contents.length === 0 || contents[0]._meta['dev.tidings/etag'].startsWith('W/'));
    }
    assert.deepEqual(Object.keys(said).sort(), ['accept', 'formats', 'ifNoneMatch', 'range']);
});

/** Every resource object that a client of either era can receive. */
async function* resources(server, ask) {
    yield* (await ask('resources/list', {})).resources;
    yield* (await ask('resources/list', { uri: server.uri('dir/') })).resources;
    for (const name of ['a.txt', 'b.bin', 'dir/']) {
        yield* (await ask('resources/read', { uri: server.uri(name) })).contents;
    }
}

test('resources are complete in lists, reads and metadata, in both eras', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const eras = [(m, p) => call(server, m, p), (m, p) => session.call(m, p)];
    for (const ask of eras) {
        let count = 0;
        for await (const resource of resources(server, ask)) {
            holds('resource', resource);
            count += 1;
        }
        assert.ok(count >= 8, `${count} resources were seen`);
        for (const name of ['a.txt', 'dir/']) {
            holds('resource#metadata', await ask('resources/metadata', { uri: server.uri(name) }));
        }
    }
});

test('templates list the capabilities of their resources', async (t) => {
    const server = await serveExample(t, 'conformance');
    const session = await Session.open(server);
    for (const ask of [(m) => call(server, m), (m) => session.call(m)]) {
        const { resourceTemplates } = await ask('resources/templates/list');
        assert.ok(resourceTemplates.length > 0);
        resourceTemplates.forEach((row) => holds('resource#template', row));
    }
});

for (const mode of MODES) {
    test(`${mode.name}: updates match their schema with every option`, async (t) => {
        const s = await Subscriber.open(t, mode, { files, args: ['--window', '0'] });
        const [a, dir] = [s.uri('a.txt'), s.uri('dir/')];
        const options = { initial: true, include: 'value', uris: { [a]: { include: 'metadata' } } };
        holds('options', options);
        const { cursor, refused } = await s.ask([a, dir], options);
        assert.deepEqual(refused, {});
        holds('updated', (await s.update(a)).params);
        s.tree.replace('a.txt', 'two');
        s.tree.write('dir/new.log', 'x');
        s.tree.remove('dir/c.log');
        const wanted = new Set(['updated', 'created', 'deleted']);
        const see = async () => {
            const { params } = await s.message(isUpdate, `an update that is ${[...wanted]}`);
            wanted.delete(params._meta['dev.tidings/metadata']?.change_type);
        };
        while (wanted.size > 0) {
            await see();
        }
        wanted.add('moved');
        fs.renameSync(s.tree.at('dir/new.log'), s.tree.at('dir/newer.log'));
        while (wanted.size > 0) {
            await see();
        }
        const seen = s.messages.filter(isUpdate);
        seen.forEach((message) => holds('updated', message.params));
        assert.ok(seen.some(({ params }) => params._meta['dev.tidings/data']));
        assert.ok(seen.some(({ params }) => params._meta['dev.tidings/initial']));
        holds('options', { since: cursor, uris: {} });
    });

    test(`${mode.name}: slim updates match their schema without extra members`, async (t) => {
        const s = await Subscriber.open(t, mode, { files, args: ['--window', '0'] });
        const [a, dir] = [s.uri('a.txt'), s.uri('dir/')];
        await s.ask([a, dir], { detail: 'slim', uris: { [dir]: { initial: true } } });
        const modern = mode.era === 'modern' ? ['io.modelcontextprotocol/subscriptionId'] : [];
        const keys = ({ params }) => [Object.keys(params), Object.keys(params._meta)];
        const state = await s.message((m) => isUpdate(m) && m.params.subscribedUri === dir);
        assert.deepEqual(keys(state), [['uri', 'subscribedUri', '_meta'], ['dev.tidings/cursor', 'dev.tidings/initial', ...modern]]);
        s.tree.replace('a.txt', 'two');
        const own = await s.message((m) => isUpdate(m) && m.params.uri === a);
        assert.deepEqual(keys(own), [['uri', '_meta'], ['dev.tidings/cursor', ...modern]]);
        s.messages.filter(isUpdate).forEach((message) => holds('updated', message.params));
    });
}

test('acknowledgements and subscribe results match their schemas', async (t) => {
    const server = await serve(t, { files });
    const uris = [server.uri('a.txt'), server.uri('.git/none'), 'nothing:///here'];
    const { ack } = await listen(server, { resourceSubscriptions: uris, resourcesListChanged: true });
    holds('acknowledged', ack);
    assert.equal(ack._meta['dev.tidings/refused'].length, 2);
    const session = await Session.open(server);
    holds('acknowledged#subscribed', await session.subscribe(uris[0]));
});

test('warnings match their schema in both eras', async (t) => {
    const server = await serveExample(t, 'weather');
    const uri = 'weather://sea/*';
    const { ack } = await listen(server, { resourceSubscriptions: [uri] });
    holds('acknowledged', ack);
    const session = await Session.open(server);
    const result = await session.subscribe(uri);
    holds('acknowledged#subscribed', result);
    const expected = [{ uri, reason: ack._meta['dev.tidings/warnings'][0].reason }];
    assert.deepEqual(result._meta['dev.tidings/warnings'], expected);
    assert.match(expected[0].reason, /only what is registered later/);
});

test('option is accepted exactly if its schema accepts it', async (t) => {
    const server = await servePublish(t);
    const tries = [
        {}, { match: 'glob' }, { match: 'x' }, { include: 'value' }, { include: 1 }, { windowMs: 0 },
        { windowMs: -1 }, { windowMs: '1' }, { rateMs: 5 }, { rateMs: 0.5 }, { initial: false },
        { initial: 0 }, { origin: 'me' }, { origin: '' }, { echo: true }, { echo: null }, { since: 'x' }, { filter: {} }, { filter: 1 },
        { order: 'strict' }, { order: 'merged' }, { order: true }, { bookmarks: true }, { bookmarks: 1 }, { gather: true }, { gather: 1 },
        { detail: 'slim' }, { detail: 'full' }, { detail: true }, { detail: 'slim', include: 'value' },
        { include: 'patch' }, { include: 'patch', baseline: 'x' }, { include: 'patch', initialBaseline: '' },
        { include: 'patch', baseline: 1 }, { since: '1.2' }, { unheard: 1 }, { uris: { [RESOURCE]: { windowMs: 1 } } },
        { uris: { [RESOURCE]: { uris: {} } } }, { uris: { [RESOURCE]: { windowMs: 'x' } } },
    ];
    for (const options of tries) {
        const params = { _meta: meta({ [OPTIONS]: options }) };
        const { ack, events } = await listen(server, { resourceSubscriptions: [RESOURCE] }, { params });
        events.close();
        const accepted = !ack._meta['dev.tidings/refused'];
        const found = problems('options', options);
        assert.equal(accepted, found.length === 0, `${JSON.stringify(options)}: ${found}`);
    }
});

test('options schema lists the options that the server supports', async (t) => {
    const server = await servePublish(t);
    const params = { _meta: meta({ [OPTIONS]: { unheard: 1 } }) };
    const { ack } = await listen(server, { resourceSubscriptions: [RESOURCE] }, { params });
    const { reason } = ack._meta['dev.tidings/refused'][0];
    const known = /known are (.*)$/.exec(reason)[1].split(', ');
    assert.deepEqual(known.sort(), Object.keys(document('options').$defs.fields.properties).sort());
});

test('subscription coverage is machine-readable, and listed only with --self', async (t) => {
    const server = await serve(t, { files });
    const { capabilities } = await call(server, 'server/discover');
    const uri = capabilities.extensions['dev.tidings/subscription-correlation'].semantics;
    const session = await Session.open(server);
    const semantics = parse(await call(server, 'resources/read', { uri }));
    assert.deepEqual(parse(await session.call('resources/read', { uri })), semantics);
    holds('semantics', semantics);
    assert.deepEqual(Object.keys(semantics.schemes), ['file', 'tidings']);
    const forms = semantics.schemes.file.map(({ form, covers }) => [form, covers.join()]);
    assert.deepEqual(forms, [
        ['resource', 'itself,below'],
        ['query', 'matching'],
        ['query', 'matching'],
        ['template', 'matching'],
        ['glob', 'matching'],
        ['container', 'below'],
        ['regex', 'matching'],
    ]);
    assert.ok(semantics.schemes.file.every((row) => row.uri.startsWith('file:')));
    const { resources } = await call(server, 'resources/list');
    assert.ok(resources.every((row) => row.uri !== uri));
    const { resourceTemplates } = await call(server, 'resources/templates/list');
    assert.deepEqual(resourceTemplates.map((row) => row.uriTemplate), [`${server.uri('')}{+path}`]);
    const own = await serve(t, { files: {}, args: ['--self'] });
    const listed = (await call(own, 'resources/list')).resources.find((row) => row.uri === uri);
    assert.deepEqual(listed?.capabilities, { list: false, subscribe: false });
});
