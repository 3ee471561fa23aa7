// SPDX-License-Identifier: MIT
//
// GET and HEAD /resource?uri=…: one resource over plain HTTP.

import assert from 'node:assert/strict';
import { utimesSync } from 'node:fs';
import { test } from 'node:test';

import { Connection } from './lib/http.mjs';
import { serve } from './lib/server.mjs';

const files = { 'a.txt': 'hello grüße', 'logo.png': Buffer.from([0x89, 0x50, 0xff, 0x00]), empty: '' };

/** Fetch a resource; `fields` are headers, `init` the other options of fetch. */
const get = (server, uri, fields = {}, init = {}) =>
    fetch(`http://127.0.0.1:${server.port}/resource?uri=${encodeURIComponent(uri)}`, {
        headers: fields,
        ...init,
    });

/** A file with a strong etag: the server does not trust a file that changed just now. */
async function awaitStrongEtag(server, name) {
    for (;;) {
        const answer = await get(server, server.uri(name));
        const etag = answer.headers.get('etag');
        await answer.arrayBuffer();
        if (!etag.startsWith('W/')) {
            return etag;
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
}

test('resource is read with its type, length, etag and time', async (t) => {
    const server = await serve(t, { files });
    utimesSync(`${server.tree.path}/a.txt`, 1e9, 1e9);
    const answer = await get(server, server.uri('a.txt'));
    assert.equal(answer.status, 200);
    assert.equal(await answer.text(), 'hello grüße');
    assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
    assert.equal(answer.headers.get('content-length'), '13');
    assert.equal(answer.headers.get('last-modified'), 'Sun, 09 Sep 2001 01:46:40 GMT');
    assert.equal(answer.headers.get('cache-control'), 'no-cache');
    assert.equal(answer.headers.get('accept-ranges'), 'bytes');
    assert.equal(answer.headers.get('content-security-policy'), "sandbox; frame-ancestors 'self'");
    assert.match(answer.headers.get('etag'), /^(W\/)?"[0-9a-f]+"$/);
    const image = await get(server, server.uri('logo.png'));
    assert.equal(image.headers.get('content-type'), 'image/png');
    assert.deepEqual(Buffer.from(await image.arrayBuffer()), files['logo.png']);
    const empty = await get(server, server.uri('empty'));
    assert.equal(empty.status, 200);
    assert.equal(await empty.text(), '');
});

test('HEAD returns the same headers without a body', async (t) => {
    const server = await serve(t, { files });
    const etag = await awaitStrongEtag(server, 'a.txt');
    const head = await get(server, server.uri('a.txt'), {}, { method: 'HEAD' });
    assert.equal(head.status, 200);
    assert.equal(head.headers.get('content-length'), '13');
    assert.equal(head.headers.get('etag'), etag);
    assert.equal(await head.text(), '');
});

test('content that the client holds is not sent again', async (t) => {
    const server = await serve(t, { files });
    const etag = await awaitStrongEtag(server, 'a.txt');
    const uri = server.uri('a.txt');
    for (const held of [etag, `"other", ${etag}`, `W/${etag}`, '*']) {
        const answer = await get(server, uri, { 'if-none-match': held });
        assert.equal(answer.status, 304, held);
        assert.equal(answer.headers.get('etag'), etag);
        assert.equal(answer.headers.get('content-length'), null);
    }
    for (const other of ['"other"', 'nonsense', '']) {
        assert.equal((await get(server, uri, { 'if-none-match': other })).status, 200, other);
    }
    assert.equal((await get(server, server.uri('none'), { 'if-none-match': '*' })).status, 404);
    server.tree.write('a.txt', 'other');
    const changed = await get(server, uri, { 'if-none-match': etag });
    assert.equal(changed.status, 200);
    assert.equal(await changed.text(), 'other');
});

/** The same second in the three formats of RFC 9110. */
const formats = (at) => {
    const [day, date, month, year, time] = new Date(at).toUTCString().replace(',', '').split(' ');
    const full = { Sun: 'Sunday', Mon: 'Monday', Tue: 'Tuesday', Wed: 'Wednesday', Thu: 'Thursday', Fri: 'Friday', Sat: 'Saturday' };
    return [
        `${day}, ${date} ${month} ${year} ${time} GMT`,
        `${full[day]}, ${date}-${month}-${year.slice(2)} ${time} GMT`,
        `${day} ${month} ${date.replace(/^0/, ' ')} ${time} ${year}`,
    ];
};

test('content unmodified since a date is not sent again; etags precede dates', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('a.txt');
    const then = 1e12 + 86400e3 * 8; /* a date with a one-digit day */
    utimesSync(`${server.tree.path}/a.txt`, then / 1000 + 0.5, then / 1000 + 0.5);
    const etag = await awaitStrongEtag(server, 'a.txt');
    const status = async (fields, init) => (await get(server, uri, fields, init)).status;
    for (const method of ['GET', 'HEAD']) {
        for (const held of [...formats(then), ...formats(then + 5000)]) {
            assert.equal(await status({ 'if-modified-since': held }, { method }), 304, held);
            assert.equal(await status({ 'if-unmodified-since': held }, { method }), 200, held);
        }
        for (const older of formats(then - 1000)) {
            assert.equal(await status({ 'if-modified-since': older }, { method }), 200, older);
            assert.equal(await status({ 'if-unmodified-since': older }, { method }), 412, older);
        }
        for (const none of ['', 'yesterday', '2026-01-01', String(then), new Date(Date.now() + 1e8).toUTCString()]) {
            assert.equal(await status({ 'if-modified-since': none }, { method }), 200, none);
            assert.equal(await status({ 'if-unmodified-since': none }, { method }), 200, none);
        }
    }
    const [held] = formats(then), [older] = formats(then - 1000);
    assert.equal(await status({ 'if-none-match': '"other"', 'if-modified-since': held }), 200);
    assert.equal(await status({ 'if-none-match': etag, 'if-modified-since': older }), 304);
    assert.equal(await status({ 'if-match': etag, 'if-unmodified-since': older }), 200);
    assert.equal(await status({ 'if-match': '"other"', 'if-unmodified-since': held }), 412);
    assert.equal(await status({ 'if-match': '"other"', 'if-none-match': etag }), 412);
    assert.equal(await status({ 'if-match': etag, 'if-none-match': etag }), 304);
    assert.equal(await status({ 'if-unmodified-since': older, 'if-none-match': etag }), 412);
    assert.equal(await status({ range: 'bytes=0-1', 'if-modified-since': held }), 304);
    const answer = await get(server, uri, { 'if-modified-since': held });
    assert.deepEqual([answer.headers.get('etag'), answer.headers.get('last-modified')], [etag, held]);
    const failed = await (await get(server, uri, { 'if-unmodified-since': older })).json();
    assert.match(failed.error, /If-Unmodified-Since/);
    assert.equal((await get(server, server.uri('none'), { 'if-modified-since': held })).status, 404);
});

test('second change within one second is sent to clients with the earlier date', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('a.txt');
    /* Each time at another offset in a second; the file changes right after the read. */
    for (let i = 0; i < 20; i += 1) {
        server.tree.write('a.txt', `before ${i}`);
        const before = await get(server, uri);
        assert.equal(await before.text(), `before ${i}`);
        server.tree.write('a.txt', `after ${i}`);
        const after = await get(server, uri, { 'if-modified-since': before.headers.get('last-modified') });
        assert.equal(after.status, 200);
        assert.equal(await after.text(), `after ${i}`);
    }
});

test('range is exact to the byte', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('a.txt');
    const whole = Buffer.from(files['a.txt']);
    for (const [range, from, to] of [
        ['bytes=0-4', 0, 5],
        ['bytes=9-', 9, 13],
        ['bytes=-2', 11, 13],
        ['bytes=9-9', 9, 10],
        ['bytes=5-99999', 5, 13],
        ['bytes=-99999', 0, 13],
    ]) {
        const answer = await get(server, uri, { range });
        assert.equal(answer.status, 206, range);
        assert.equal(answer.headers.get('content-range'), `bytes ${from}-${to - 1}/13`);
        assert.deepEqual(Buffer.from(await answer.arrayBuffer()), whole.subarray(from, to), range);
    }
    for (const range of ['bytes=13-', 'bytes=99-100']) {
        const answer = await get(server, uri, { range });
        assert.equal(answer.status, 416, range);
        assert.equal(answer.headers.get('content-range'), 'bytes */13', range);
        assert.equal((await answer.json()).reason, 'out_of_range');
    }
    assert.equal((await get(server, server.uri('empty'), { range: 'bytes=0-' })).status, 416);
    for (const range of ['bytes=0-1,3-4', 'lines=0-1', 'bytes=2-1', 'x']) {
        assert.equal((await get(server, uri, { range })).status, 200, range);
    }
});

test('range with a failed condition returns the complete resource', async (t) => {
    const server = await serve(t, { files });
    const etag = await awaitStrongEtag(server, 'a.txt');
    const ask = (condition, range = 'bytes=0-0') =>
        get(server, server.uri('a.txt'), { range, 'if-range': condition });
    assert.equal((await ask(etag)).status, 206);
    assert.equal((await ask('"other"')).status, 200);
    assert.equal((await ask(`W/${etag}`)).status, 200);
    assert.equal((await ask('Sun, 09 Sep 2001 01:46:40 GMT')).status, 200);
    assert.equal((await ask('"other"', 'bytes=99-')).status, 200);
});

test('large file is sent completely, and beyond the limit in parts', async (t) => {
    const large = Buffer.alloc(3 << 20, 'tidings ');
    const server = await serve(t, { files: { large }, args: ['--max-read', '4m'] });
    const answer = await get(server, server.uri('large'));
    assert.deepEqual(Buffer.from(await answer.arrayBuffer()), large);
    server.tree.write('larger', Buffer.alloc(5 << 20, 'x'));
    const refused = await get(server, server.uri('larger'));
    assert.equal(refused.status, 413);
    assert.match((await refused.json()).error, /range/);
    const part = await get(server, server.uri('larger'), { range: 'bytes=5000000-5000009' });
    assert.equal(part.status, 206);
    assert.equal(await part.text(), 'x'.repeat(10));
});

test('unavailable resource returns a JSON error', async (t) => {
    const server = await serve(t, { files });
    const url = `http://127.0.0.1:${server.port}/resource`;
    for (const [where, status, part] of [
        ['', 400, /uri/],
        ['?uri=', 400, /uri/],
        ['?uri=a&uri=b', 400, /once/],
        ['?uri=%zz', 400, /percent/],
        ['?uri=no-scheme', 400, /scheme/],
        ['?uri=file%3A%2F%2F%2Fa%2F..%2Fb', 400, /dot/],
        ['?uri=other%3A%2F%2Fx', 404, /not found/],
        [`?uri=${encodeURIComponent(server.uri('none'))}`, 404, /No such file/],
    ]) {
        const answer = await fetch(url + where);
        assert.equal(answer.status, status, where);
        assert.equal(answer.headers.get('content-type'), 'application/json');
        assert.match((await answer.json()).error, part, where);
    }
    const unacceptable = await get(server, server.uri('a.txt'), { accept: 'image/*' });
    assert.equal(unacceptable.status, 406);
    for (const [method, part] of [
        ['POST', /GET/],
        ['PATCH', /allow-write/],
        ['PUT', /allow-write/],
        ['DELETE', /allow-write/],
    ]) {
        const answer = await get(server, server.uri('a.txt'), {}, { method });
        assert.equal(answer.status, 405, method);
        assert.equal(answer.headers.get('allow'), 'GET, HEAD, OPTIONS');
        assert.match((await answer.json()).error, part);
    }
});

test('endpoint checks apply to resources too', async (t) => {
    const server = await serve(t, { files });
    const ask = async (fields) => {
        const connection = await Connection.open(server);
        await connection.send(
            `GET /resource?uri=${server.uri('a.txt')} HTTP/1.1\r\n${fields}\r\nConnection: close\r\n\r\n`,
        );
        const head = await connection.readHead();
        connection.close();
        return head;
    };
    const host = `Host: 127.0.0.1:${server.port}`;
    assert.equal((await ask(host)).status, 200);
    assert.equal((await ask('Host: evil.example')).status, 403);
    assert.equal((await ask(`${host}\r\nOrigin: https://evil.example`)).status, 403);
    assert.equal((await ask(`${host}\r\nOrigin: null`)).status, 403);
    const own = await ask(`${host}\r\nOrigin: http://localhost:3000`);
    assert.equal(own.status, 200);
    assert.equal(own.headers.get('access-control-allow-origin'), 'http://localhost:3000');
    assert.match(own.headers.get('access-control-expose-headers'), /ETag/);
});

test('browser preflight is answered, and several requests share a connection', async (t) => {
    const server = await serve(t, { files });
    const connection = await Connection.open(server);
    const target = `/resource?uri=${server.uri('a.txt')}`;
    const host = `Host: 127.0.0.1:${server.port}\r\n`;
    await connection.send(
        `OPTIONS ${target} HTTP/1.1\r\n${host}Origin: http://localhost\r\n` +
            'Access-Control-Request-Method: GET\r\n\r\n',
    );
    const preflight = await connection.readHead();
    assert.equal(preflight.status, 204);
    assert.equal(preflight.headers.get('access-control-allow-methods'), 'GET, HEAD, OPTIONS');
    assert.match(preflight.headers.get('access-control-allow-headers'), /If-None-Match/);
    const one = `GET ${target} HTTP/1.1\r\n${host}\r\n`;
    await connection.send(`${one}HEAD ${target} HTTP/1.1\r\n${host}\r\n${one}`);
    for (const sends of [true, false, true]) {
        assert.equal((await connection.readHead()).status, 200);
        if (sends) {
            assert.equal((await connection.readBytes(13)).toString(), 'hello grüße');
        }
    }
    connection.close();
});
