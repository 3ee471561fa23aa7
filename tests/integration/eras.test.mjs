// SPDX-License-Identifier: MIT
//
// The era of a message, the order of checks and the answers: the tables of the wire law (§2.2, §7.2, §7.3, §8), row by
// row, with plain POSTs.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import {
    freshId,
    idText,
    initialize,
    key,
    LATEST_LEGACY,
    LEGACY,
    meta,
    MODERN,
    modern,
    modernHeaders,
    post,
    Session,
} from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';

const files = { 'a.txt': 'a' };
const base64 = (text) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
const version = (value) => ({ 'MCP-Protocol-Version': value });

/** Checks one answer: status, error code (0: a result) and returned id. */
function expect(response, status, code, id) {
    assert.equal(response.status, status, `status; body: ${response.text}`);
    if (code === null) {
        assert.equal(response.text, '', 'the body must be empty');
        return;
    }
    assert.equal(response.json.error?.code ?? 0, code, response.text);
    if (id !== undefined) {
        assert.deepEqual(response.json.id, id, response.text);
    }
    if (code !== 0) {
        assert.equal(typeof response.json.error.message, 'string');
        assert.notEqual(response.json.error.message, '');
    }
}

/** A request object without a claim. */
const bare = (method, params) => ({ jsonrpc: '2.0', id: 7, method, ...(params && { params }) });
/** A request object with a claim. */
const claimed = (method, params = {}, claim = {}) =>
    bare(method, { _meta: meta(claim), ...params });

const without = (name) => {
    const all = meta();
    delete all[name];
    return all;
};

// §2.2: message, headers, expected status, code
const DISCRIMINATOR = [
    ['request with a claim is modern', claimed('resources/list'), modernHeaders('resources/list'), 200, 0],
    ['initialize with a valid modern claim is an unknown method',
        { ...initialize(), id: 7, params: { ...initialize().params, _meta: meta() } },
        modernHeaders('initialize'), 404, -32601],
    ['initialize without a claim or header is the legacy handshake', { ...initialize(), id: 7 }, {}, 200, 0],
    ['initialize with a legacy header is the legacy handshake',
        { ...initialize(), id: 7 }, version(LATEST_LEGACY), 200, 0],
    ['initialize whose claim names a legacy revision is the legacy handshake',
        { ...initialize(), id: 7, params: { ...initialize().params, _meta: { [key.version]: LATEST_LEGACY } } },
        {}, 200, 0],
    ['initialize with an empty _meta is the legacy handshake',
        { ...initialize(), id: 7, params: { ...initialize().params, _meta: {} } }, {}, 200, 0],
    ['initialize with Mcp-Method is the legacy handshake',
        { ...initialize(), id: 7 }, { ...version(LATEST_LEGACY), 'Mcp-Method': 'initialize' }, 200, 0],
    ['initialize without a claim but with a modern header', { ...initialize(), id: 7 }, version(MODERN), 400, -32020],
    ['other request without a claim but with a modern header',
        bare('resources/list'), modernHeaders('resources/list'), 400, -32602],
    ['server/discover without a claim or header', bare('server/discover'), {}, 400, -32602],
    ['server/discover without a claim, legacy header', bare('server/discover'), version(LATEST_LEGACY), 400, -32602],
    ['subscriptions/listen without a claim or header', bare('subscriptions/listen'), {}, 400, -32602],
    ['other request without a claim and with an unknown version header',
        bare('resources/list'), version('1999-01-01'), 400, -32022],
    ['modern notification', { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
        version(MODERN), 202, null],
    ['modern notification that carries a claim, as the official client sends it',
        { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'listen:0', _meta: meta() } },
        version(MODERN), 202, null],
    ['empty array', [], {}, 400, -32600],
    ['array with a claim', [claimed('resources/list')], modernHeaders('resources/list'), 400, -32600],
];

test('era table (2.2)', async (t) => {
    const server = await serve(t, { files });
    for (const [name, message, headers, status, code] of DISCRIMINATOR) {
        await t.test(name, async () => {
            const id = code === null || Array.isArray(message) ? undefined : 7;
            expect(await post(server, message, headers), status, code, id);
        });
    }
});

// §7.2, §7.3, §8: method, params (whole), headers, status, code
const CHECKS = [
    ['no _meta at all', 'server/discover', {}, {}, 400, -32602],
    ['_meta without protocolVersion', 'server/discover', { _meta: without(key.version) }, {}, 400, -32602],
    ['_meta without clientCapabilities', 'server/discover', { _meta: without(key.capabilities) }, {}, 400, -32602],
    ['clientCapabilities that is not an object', 'server/discover',
        { _meta: meta({ [key.capabilities]: 'yes' }) }, {}, 400, -32602],
    ['protocolVersion that is not a string', 'server/discover', { _meta: meta({ [key.version]: 7 }) }, {}, 400, -32602],
    ['_meta without clientInfo is served', 'server/discover', { _meta: without(key.client) }, {}, 200, 0],
    ['missing MCP-Protocol-Version', 'server/discover', { _meta: meta() },
        { 'MCP-Protocol-Version': null }, 400, -32020],
    ['MCP-Protocol-Version that differs from the claim', 'server/discover', { _meta: meta() },
        version(LATEST_LEGACY), 400, -32020],
    ['modern header, unknown claim', 'server/discover', { _meta: meta({ [key.version]: 'v999.0.0' }) }, {}, 400, -32020],
    ['unknown version in both', 'server/discover', { _meta: meta({ [key.version]: 'v999.0.0' }) },
        version('v999.0.0'), 400, -32022],
    ['legacy version in both', 'server/discover', { _meta: meta({ [key.version]: LATEST_LEGACY }) },
        version(LATEST_LEGACY), 400, -32022],
    ['missing Mcp-Method', 'resources/list', { _meta: meta() }, { 'Mcp-Method': null }, 400, -32020],
    ['Mcp-Method that differs', 'resources/list', { _meta: meta() }, { 'Mcp-Method': 'tools/list' }, 400, -32020],
    ['Mcp-Method in capitals', 'resources/list', { _meta: meta() }, { 'Mcp-Method': 'RESOURCES/LIST' }, 400, -32020],
    ['spaces around Mcp-Method', 'resources/list', { _meta: meta() }, { 'Mcp-Method': '  resources/list\t' }, 200, 0],
    ['missing _meta comes before a missing header', 'resources/list', {}, { 'Mcp-Method': null }, 400, -32602],
    ['header checks come before the method check', 'no/such', { _meta: meta() }, { 'Mcp-Method': 'x' }, 400, -32020],
    ['unknown method', 'unknown/method', { _meta: meta() }, {}, 404, -32601],
    ['ping is gone', 'ping', { _meta: meta() }, {}, 404, -32601],
    ['logging/setLevel is gone', 'logging/setLevel', { _meta: meta() }, {}, 404, -32601],
    ['resources/subscribe is gone', 'resources/subscribe', { _meta: meta() }, {}, 404, -32601],
    ['resources/unsubscribe is gone', 'resources/unsubscribe', { _meta: meta() }, {}, 404, -32601],
    ['initialize is gone', 'initialize', { _meta: meta() }, {}, 404, -32601],
    ['tasks are not offered', 'tasks/get', { _meta: meta(), taskId: 'x' }, { 'Mcp-Name': 'x' }, 404, -32601],
    ['bad cursor', 'resources/list', { _meta: meta(), cursor: 'nonsense!' }, {}, 200, -32602],
    ['cursor that is not a string', 'resources/list', { _meta: meta(), cursor: 7 }, {}, 200, -32602],
    ['listen without notifications', 'subscriptions/listen', { _meta: meta() }, {}, 200, -32602],
    ['listen with notifications of a wrong type', 'subscriptions/listen',
        { _meta: meta(), notifications: [] }, {}, 200, -32602],
    ['Mcp-Session-Id and Last-Event-ID are ignored', 'resources/list', { _meta: meta() },
        { 'Mcp-Session-Id': 'nonsense', 'Last-Event-ID': 'nonsense' }, 200, 0],
    ['stray requestState and inputResponses are ignored', 'resources/list',
        { _meta: meta(), requestState: 'x', inputResponses: {} }, {}, 200, 0],
];

test('order of checks (7.2, 7.3, 8)', async (t) => {
    const server = await serve(t, { files });
    for (const [name, method, params, headers, status, code] of CHECKS) {
        await t.test(name, async () => {
            const all = { ...modernHeaders(method), ...headers };
            const response = await post(server, bare(method, params), all);
            expect(response, status, code, 7);
            assert.equal(response.headers.has('mcp-session-id'), false, 'a session id was given');
        });
    }
});

// name, Mcp-Name as a function of the URI, status, code
const NAMES = [
    ['equal', (uri) => uri, 200, 0],
    ['in the Base64 sentinel', base64, 200, 0],
    ['with spaces around it', (uri) => `   ${uri}  `, 200, 0],
    ['missing', () => null, 400, -32020],
    ['different', (uri) => `${uri}x`, 400, -32020],
    ['different in case', (uri) => uri.toUpperCase(), 400, -32020],
    ['in the sentinel, but different', (uri) => base64(`${uri}x`), 400, -32020],
    ['in a sentinel without padding', (uri) => base64(`${uri}#1`).replace(/=+\?=$/, '?='), 400, -32020],
    ['in a sentinel with a character outside the alphabet', () => '=?base64?SGVs!!!bG8=?=', 400, -32020],
    ['in a sentinel with control characters', (uri) => base64(`${uri}\n`), 400, -32020],
    ['in a sentinel with capital markers', (uri) => base64(uri).replace('base64', 'BASE64'), 400, -32020],
    ['in an unfinished sentinel', (uri) => base64(uri).replace('?=', ''), 400, -32020],
    ['empty', () => '', 400, -32020],
];

test('Mcp-Name on resources/read', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('a.txt');
    for (const [name, header, status, code] of NAMES) {
        await t.test(name, async () => {
            const headers = { 'Mcp-Name': header(uri) };
            expect(
                await modern(server, 'resources/read', { uri }, { id: 7, headers }),
                status,
                code,
                7,
            );
        });
    }
    await t.test('name that needs the sentinel', async () => {
        const raw = `file://${server.tree.path}/größe.txt`;
        server.tree.write('größe.txt', 'xl');
        const headers = { 'Mcp-Name': base64(raw) };
        expect(await modern(server, 'resources/read', { uri: raw }, { headers }), 200, 0);
    });
    await t.test('lists need no Mcp-Name', async () => {
        expect(
            await modern(server, 'resources/list', {}, { headers: { 'Mcp-Name': 'whatever' } }),
            200,
            0,
        );
    });
});

test('header names are case-insensitive', async (t) => {
    const server = await serve(t, { files });
    for (const change of ['toLowerCase', 'toUpperCase']) {
        const plain = modernHeaders('resources/list');
        const headers = Object.fromEntries(
            Object.entries(plain).map(([name, value]) => [name[change](), value]),
        );
        expect(await post(server, claimed('resources/list'), headers), 200, 0, 7);
    }
});

// the id as written, so that nothing is lost in a JavaScript number
const IDS = [
    '0', '1', '-1', '2147483648', '1763180000000', '9007199254740993', '9223372036854775807',
    '-9223372036854775808', '""', '"a"', '"0"', '"1"', '"\\u00e9\\n\\"\\\\"', '"𝄞"', `"${'x'.repeat(200)}"`,
];

test('ids are returned verbatim with their type', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const same = (text, id) => assert.deepEqual(canonical(idText(text)), canonical(id), text);
    for (const id of IDS) {
        await t.test(`id ${id.slice(0, 40)}`, async () => {
            const params = JSON.stringify({ _meta: meta() });
            const modernBody = `{"jsonrpc":"2.0","id":${id},"method":"server/discover","params":${params}}`;
            const result = await post(server, modernBody, modernHeaders('server/discover'));
            assert.equal(result.status, 200, result.text);
            same(result.text, id);
            const unknown = modernBody.replace('server/discover', 'no/such');
            const error = await post(server, unknown, modernHeaders('no/such'));
            expect(error, 404, -32601);
            same(error.text, id);
            const legacy = await session.post(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
            assert.equal(legacy.status, 200, legacy.text);
            same(legacy.text, id);
        });
    }
});

/** Strings by value (escapes may be written differently), numbers by their digits. */
const canonical = (text) =>
    text?.startsWith('"') ? { string: JSON.parse(text) } : { number: text };

const NOT_RPC = [
    ['an id that is null', '{"jsonrpc":"2.0","id":null,"method":"ping"}'],
    ['an id that is a fraction', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}'],
    ['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"ping"}'],
    ['an id that is an array', '{"jsonrpc":"2.0","id":[1],"method":"ping"}'],
    ['an id that is true', '{"jsonrpc":"2.0","id":true,"method":"ping"}'],
    ['no jsonrpc', '{"id":1,"method":"ping"}'],
    ['jsonrpc 1.0', '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    ['no method', '{"jsonrpc":"2.0","id":1}'],
    ['a method that is a number', '{"jsonrpc":"2.0","id":1,"method":7}'],
    ['params that are a string', '{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}'],
    ['a string', '"hello"'],
    ['a number', '7'],
    ['null', 'null'],
];

test('valid JSON that is not JSON-RPC is 400 / -32600', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    for (const [name, body] of NOT_RPC) {
        await t.test(name, async () => {
            expect(await session.post(body), 400, -32600);
            expect(await post(server, body, version(MODERN)), 400, -32600);
        });
    }
    await t.test('response sent by a modern client', async () => {
        expect(
            await post(server, { jsonrpc: '2.0', id: 1, result: {} }, version(MODERN)),
            400,
            -32600,
        );
    });
});

test('invalid JSON is 400 / -32700', async (t) => {
    const server = await serve(t, { files });
    for (const body of [
        '{',
        'nonsense',
        '',
        '{"a":1}}',
        '[1,]',
        '{"a":1,"a":2}',
        '\ufeff{}',
        '{"a":"\u0001"}',
    ]) {
        await t.test(JSON.stringify(body), async () => {
            expect(await post(server, body), 400, -32700);
            expect(await post(server, body, version(MODERN)), 400, -32700);
        });
    }
});

test('-32022 names the supported and requested versions', async (t) => {
    const server = await serve(t, { files });
    const discover = await modern(server, 'server/discover');
    const known = discover.json.result.supportedVersions;
    assert.deepEqual(known, [MODERN, ...[...LEGACY].reverse()]);
    const headers = version('v999.0.0');
    const unknown = await modern(
        server,
        'server/discover',
        { _meta: meta({ [key.version]: 'v999.0.0' }) },
        { headers },
    );
    assert.equal(unknown.json.error.data.requested, 'v999.0.0');
    assert.ok(unknown.json.error.data.supported.length > 0);
    assert.ok(
        unknown.json.error.data.supported.every((entry) => known.includes(entry)),
        unknown.text,
    );
    const old = await modern(
        server,
        'server/discover',
        { _meta: meta({ [key.version]: LATEST_LEGACY }) },
        { headers: version(LATEST_LEGACY) },
    );
    assert.deepEqual(
        old.json.error.data.supported,
        [MODERN],
        'a legacy claim must not be offered legacy',
    );
});

test('modern results are decorated, legacy results are not', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    for (const method of ['server/discover', 'resources/list', 'resources/templates/list']) {
        const { result } = (await modern(server, method)).json;
        assert.equal(result.resultType, 'complete', method);
        assert.ok(Number.isInteger(result.ttlMs), method);
        assert.match(result.cacheScope, /^(public|private)$/, method);
        assert.equal(result._meta[key.server].name, 'tidings', method);
        assert.equal(result.serverInfo, undefined, method);
        if (method !== 'server/discover') {
            const legacy = await session.call(method);
            assert.equal(legacy.resultType, undefined, method);
            assert.equal(legacy.ttlMs, undefined, method);
        }
    }
});

test('not found: legacy -32002, modern -32602, both 200 with the URI', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('missing');
    const session = await Session.open(server);
    const legacy = await session.send('resources/read', { uri });
    expect(legacy, 200, -32002);
    assert.equal(legacy.json.error.data.uri, uri);
    const now = await modern(server, 'resources/read', { uri });
    expect(now, 200, -32602);
    assert.equal(now.json.error.data.uri, uri);
});

test('legacy: unknown method is 200 / -32601, bad params 200 / -32602', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    expect(await session.send('no/such'), 200, -32601);
    expect(await session.send('tasks/get', { taskId: 'x' }), 200, -32601);
    expect(await session.send('server/discover'), 200, -32601);
    expect(await session.send('subscriptions/listen'), 200, -32601);
    expect(await session.send('resources/read'), 200, -32602);
    expect(await session.send('resources/read', { uri: 7 }), 200, -32602);
    expect(await session.send('resources/list', { cursor: 'nonsense!' }), 200, -32602);
    expect(await session.send('logging/setLevel', { level: 'loud' }), 200, -32602);
});

test('modern request inside a legacy session is served as modern', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const headers = { ...modernHeaders('resources/list'), 'Mcp-Session-Id': session.id };
    const response = await post(server, claimed('resources/list'), headers);
    assert.equal(response.json.result.resultType, 'complete', response.text);
});

test('legacy: _meta without a claim stays legacy', async (t) => {
    const server = await serve(t, { files });
    const session = await Session.open(server);
    const params = {
        _meta: {
            progressToken: 1,
            traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        },
    };
    const response = await session.send('resources/list', params);
    expect(response, 200, 0);
    assert.equal(response.json.result.resultType, undefined);
});

test('initialize: each legacy version is granted and any other becomes the newest', async (t) => {
    const server = await serve(t, { files });
    for (const asked of [...LEGACY, MODERN, '1999-01-01', 'nonsense']) {
        const response = await post(server, initialize(asked));
        expect(response, 200, 0);
        const granted = LEGACY.includes(asked) ? asked : LATEST_LEGACY;
        assert.equal(response.json.result.protocolVersion, granted, `asked for ${asked}`);
        assert.equal(response.json.result.serverInfo.name, 'tidings');
    }
});

test('initialize: missing params are an error', async (t) => {
    const server = await serve(t, { files });
    for (const params of [
        undefined,
        {},
        { protocolVersion: 7, capabilities: {}, clientInfo: {} },
    ]) {
        const response = await post(server, {
            jsonrpc: '2.0',
            id: freshId(),
            method: 'initialize',
            ...(params && { params }),
        });
        assert.equal(
            response.json.error?.code,
            -32602,
            `${JSON.stringify(params)} gave ${response.text}`,
        );
        assert.equal(response.headers.has('mcp-session-id'), false);
    }
});

test('GET and DELETE with a modern version are 405', async (t) => {
    const server = await serve(t, { files });
    for (const method of ['GET', 'DELETE']) {
        const headers = { Accept: 'text/event-stream', ...version(MODERN) };
        const response = await request(server, { method, headers });
        assert.equal(response.status, 405, method);
        assert.match(response.headers.get('allow'), /\bPOST\b/);
    }
});

test('--protocol-max limits the server to a revision', async (t) => {
    const server = await serve(t, { files, args: ['--protocol-max', '2025-06-18'] });
    const hello = await post(server, initialize('2025-11-25'));
    assert.equal(hello.json.result.protocolVersion, '2025-06-18');
    const now = await modern(server, 'server/discover');
    assert.ok(now.status >= 400 && now.status < 500, `${now.status} ${now.text}`);
    assert.ok(now.json.error, 'a modern request is refused with a JSON-RPC error');
    assert.equal(now.json.error.data?.supported?.includes(MODERN) ?? false, false, now.text);
});

test('page size hints are honoured (pageSize, limit) up to the maximum', async (t) => {
    const many = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`f${i}`, '']));
    const server = await serve(t, { files: many });
    for (const hint of ['pageSize', 'limit']) {
        const { result } = (await modern(server, 'resources/list', { [hint]: 2 })).json;
        assert.equal(result.resources.length, 2, hint);
        assert.equal(typeof result.nextCursor, 'string', hint);
        const next = (
            await modern(server, 'resources/list', { [hint]: 2, cursor: result.nextCursor })
        ).json.result;
        assert.notEqual(next.resources[0].uri, result.resources[0].uri);
    }
});
