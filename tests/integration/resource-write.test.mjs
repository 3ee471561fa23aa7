// SPDX-License-Identifier: MIT
//
// PUT and DELETE /resource?uri=...: clients that publish with permission.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { ERAS, Watcher } from './lib/watcher.mjs';

const NOTE = 'published:///notes/a.md';

const ask = (server, method, uri, body = undefined, fields = {}) =>
    fetch(`http://127.0.0.1:${server.port}/resource?uri=${encodeURIComponent(uri)}`, {
        method,
        body,
        headers: fields,
    });
const put = (server, uri, body, fields) => ask(server, 'PUT', uri, body, fields);

const writable = (t, ...args) => serve(t, { files: { 'a.txt': 'a' }, args: ['--allow-write', ...args] });

test('PUT creates, then updates, and DELETE removes', async (t) => {
    const server = await writable(t);
    const created = await put(server, NOTE, '# one', { 'content-type': 'text/markdown' });
    assert.equal(created.status, 201);
    const read = await ask(server, 'GET', NOTE);
    assert.equal(await read.text(), '# one');
    assert.equal(read.headers.get('content-type'), 'text/markdown; charset=utf-8');
    assert.equal(read.headers.get('etag'), created.headers.get('etag'));
    const updated = await put(server, NOTE, '# two', { 'content-type': 'text/markdown' });
    assert.equal(updated.status, 204);
    assert.notEqual(updated.headers.get('etag'), created.headers.get('etag'));
    const { contents } = await call(server, 'resources/read', { uri: NOTE });
    assert.equal(contents[0].text, '# two');
    assert.equal(contents[0]._meta['dev.tidings/etag'], JSON.parse(updated.headers.get('etag')));
    const { resources } = await call(server, 'resources/list', { uri: 'published:///' });
    assert.deepEqual(resources.map((r) => r.uri), ['published:///notes/']);
    assert.equal((await ask(server, 'DELETE', NOTE)).status, 204);
    assert.equal((await ask(server, 'DELETE', NOTE)).status, 404);
    assert.equal((await ask(server, 'GET', NOTE)).status, 404);
});

test('bytes and types are stored unchanged', async (t) => {
    const server = await writable(t);
    const bytes = Buffer.from(Array.from({ length: 70000 }, (_, i) => i & 255));
    assert.equal((await put(server, 'published:///b', bytes)).status, 201);
    const back = await ask(server, 'GET', 'published:///b');
    assert.equal(back.headers.get('content-type'), 'application/octet-stream');
    assert.deepEqual(Buffer.from(await back.arrayBuffer()), bytes);
    const { contents } = await call(server, 'resources/read', { uri: 'published:///b' });
    assert.deepEqual(Buffer.from(contents[0].blob, 'base64'), bytes);
    for (const [name, fields, type] of [
        ['x.json', { 'content-type': 'application/x-www-form-urlencoded' }, 'application/json'],
        ['x', { 'content-type': 'application/xml' }, 'application/xml'],
        ['y', { 'content-type': 'text/plain; charset=utf-8' }, 'text/plain; charset=utf-8'],
    ]) {
        await put(server, `published:///${name}`, '{}', fields);
        const read = await ask(server, 'GET', `published:///${name}`);
        assert.equal(read.headers.get('content-type'), type, name);
    }
});

test('failed condition changes nothing', async (t) => {
    const server = await writable(t);
    const always = { 'if-none-match': '*' };
    const first = (await put(server, NOTE, 'one', always)).headers.get('etag');
    for (const [fields, status] of [
        [always, 412],
        [{ 'if-match': '"other"' }, 412],
        [{ 'if-match': `W/${first}` }, 412],
        [{ 'if-match': 'nonsense' }, 400],
        [{ 'if-match': `${first}, "b"` }, 400],
        [{ 'if-none-match': first }, 400],
        [{ 'content-range': 'bytes 0-1/3' }, 400],
        [{ 'content-encoding': 'gzip' }, 415],
        [{ 'content-type': 'nonsense' }, 415],
        [{ 'content-type': 'multipart/form-data; boundary=x' }, 415],
    ]) {
        const answer = await put(server, NOTE, 'two', fields);
        assert.equal(answer.status, status, JSON.stringify(fields));
        assert.ok((await answer.json()).error.length > 10);
    }
    assert.equal(await (await ask(server, 'GET', NOTE)).text(), 'one');
    const second = await put(server, NOTE, 'two', { 'if-match': first });
    assert.equal(second.status, 204);
    const stale = await ask(server, 'DELETE', NOTE, undefined, { 'if-match': first });
    assert.equal(stale.status, 412);
    const etag = second.headers.get('etag');
    assert.equal((await ask(server, 'DELETE', NOTE, undefined, { 'if-match': etag })).status, 204);
    assert.equal((await put(server, NOTE, 'x', { 'if-match': '*' })).status, 412);
});

test('one of several concurrent updates of one etag succeeds', async (t) => {
    const server = await writable(t);
    const etag = (await put(server, NOTE, 'zero')).headers.get('etag');
    const answers = await Promise.all(
        Array.from({ length: 8 }, (_, i) => put(server, NOTE, `by ${i}`, { 'if-match': etag })),
    );
    assert.deepEqual(
        answers.map((a) => a.status).sort(),
        [204, 412, 412, 412, 412, 412, 412, 412],
    );
});

for (const era of ERAS) {
    test(`subscribers receive resources that clients publish (${era})`, async (t) => {
        const server = await writable(t);
        await put(server, NOTE, 'one');
        const watcher = await Watcher.open(era, server, [NOTE, 'published:///']);
        await put(server, NOTE, 'one'); // no change
        await put(server, NOTE, 'two');
        const update = await watcher.updated(NOTE, NOTE);
        assert.equal(update._meta['dev.tidings/change'], 'updated');
        await put(server, 'published:///new', 'x');
        const created = await watcher.updated('published:///new', 'published:///');
        assert.equal(created._meta['dev.tidings/change'], 'created');
        await watcher.listChanged();
        await ask(server, 'DELETE', NOTE);
        const gone = (m) => m.params?.uri === NOTE && m.params._meta['dev.tidings/change'] === 'deleted';
        await watcher.any(gone, 'a deletion');
        // One update for each of the two subscriptions, none for identical content.
        const merged = watcher.events.messages
            .filter((m) => m.params?.subscribedUri === NOTE && !gone(m))
            .map((m) => m.params._meta['dev.tidings/merged'] ?? 1);
        assert.deepEqual(merged, [1]);
        watcher.close();
    });
}

test('files, foreign URIs and containers are not writable', async (t) => {
    const server = await writable(t);
    for (const [uri, status, part] of [
        [server.uri('a.txt'), 405, /read-only/],
        [server.uri('new.txt'), 405, /read-only/],
        ['other:///x', 404, /not found/],
        ['published:///dir/', 400, /container/],
        ['published:///a/../b', 400, /dot/],
    ]) {
        const answer = await put(server, uri, 'x');
        assert.equal(answer.status, status, uri);
        assert.match((await answer.json()).error, part, uri);
    }
    const refused = await ask(server, 'DELETE', server.uri('a.txt'));
    assert.equal(refused.status, 405);
    assert.equal(refused.headers.get('allow'), 'GET, HEAD, OPTIONS');
});

test('oversized write is rejected, and the old content stays', async (t) => {
    const server = await writable(
        t, '--publish', 'note://', '--published-max', '2', '--published-bytes', '64k',
        '--max-body', '100k',
    );
    assert.equal((await put(server, 'note://a', 'a')).status, 201);
    assert.equal((await put(server, 'note://b', 'b')).status, 201);
    const many = await put(server, 'note://c', 'c');
    assert.equal(many.status, 413);
    assert.match((await many.json()).error, /published-max/);
    const large = await put(server, 'note://a', 'x'.repeat(70000));
    assert.equal(large.status, 413);
    assert.match((await large.json()).error, /published-bytes/);
    const larger = await put(server, 'note://a', 'x'.repeat(120000));
    assert.equal(larger.status, 413);
    assert.match((await larger.json()).error, /max-body/);
    assert.equal(await (await ask(server, 'GET', 'note://a')).text(), 'a');
    assert.equal((await put(server, NOTE, 'x')).status, 404, 'only what is named is published');
});

test('write access is limited to local clients', async (t) => {
    const args = ['serve', '--http', '0.0.0.0:0', '--allow-remote', '--allow-write', '/tmp'];
    const { code, stderr } = await run(t, args);
    assert.notEqual(code, 0);
    assert.match(stderr, /--allow-write: '0\.0\.0\.0' can be reached by other machines/);
});

test('write with a date condition replaces older content only', async (t) => {
    const server = await writable(t);
    const date = (ms) => new Date(ms).toUTCString();
    const since = (at) => ({ 'if-unmodified-since': at });
    /* A missing resource has no date, so the server ignores the field. */
    assert.equal((await put(server, NOTE, 'one', since(date(0)))).status, 201);
    for (const method of ['PUT', 'DELETE']) {
        const refused = await ask(server, method, NOTE, method === 'PUT' ? 'two' : undefined, since(date(Date.now() - 60000)));
        assert.equal(refused.status, 412);
        assert.match((await refused.json()).error, /modified since/);
    }
    assert.equal(await (await ask(server, 'GET', NOTE)).text(), 'one');
    const { headers } = await ask(server, 'GET', NOTE);
    /* An etag takes precedence, and an invalid date is ignored. */
    assert.equal((await put(server, NOTE, 'two', { ...since(date(0)), 'if-match': headers.get('etag') })).status, 204);
    assert.equal((await put(server, NOTE, 'three', { ...since(date(Date.now() + 9000)), 'if-match': '"other"' })).status, 412);
    assert.equal((await put(server, NOTE, 'three', since('yesterday'))).status, 204);
    /* A date of the same second does not match. */
    const held = (await ask(server, 'GET', NOTE)).headers.get('last-modified');
    assert.equal((await put(server, NOTE, 'four', since(date(Date.now() + 9000)))).status, 204);
    assert.equal((await put(server, NOTE, 'five', since(held))).status, 412);
    assert.equal((await ask(server, 'DELETE', NOTE, undefined, since(date(Date.now() + 9000)))).status, 204);
});
