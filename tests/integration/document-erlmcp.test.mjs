// SPDX-License-Identifier: MIT
//
// "MCP Resource Subscriptions and Push Notifications Specification" of erlmcp v2.2.0, replayed:
// requests, answers and notifications as it prints them, under --profile erlmcp. Its Erlang API has
// its counterpart in examples/documents.c.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ask, printed, serveDocuments } from './lib/document.mjs';
import { Connection, encodeRequest, request } from './lib/http.mjs';
import { initialize, LATEST_LEGACY, listen, modern, post, Session, totals, updates } from './lib/rpc.mjs';
import { BIN, Program } from './lib/server.mjs';
import { Pipe } from './lib/stdio.mjs';
import { eventually, within } from './lib/wait.mjs';

const REPORT = 'file:///documents/report.md';
const CITY = 'weather://city/san-francisco';

/** A session with a stream, and the server. `args` come after the profile. */
async function start(t, args = []) {
    const server = await serveDocuments(t, 'erlmcp', args);
    const session = await Session.open(server);
    const events = await session.stream();
    return { server, session, events };
}

const updated = (uri) => (message) =>
    message.method === 'resources/updated' && message.params.uri === uri;

// ---- 1. Resource Subscription Mechanism -------------------------------------------------------

const SUBSCRIBE = `{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "resources/subscribe",
  "params": {
    "uri": "file:///documents/report.md"
  }
}`;

const UNSUBSCRIBE = `{
  "jsonrpc": "2.0",
  "id": 2,
  "method": "resources/unsubscribe",
  "params": {
    "uri": "file:///documents/report.md"
  }
}`;

test('1.2 and 1.3: subscribing and unsubscribing answer as printed', async (t) => {
    const { server, session } = await start(t);
    assert.deepEqual(
        await ask(server, SUBSCRIBE, session.headers),
        printed(`{
  "jsonrpc": "2.0",
  "id": 1,
  "result": {}
}`),
    );
    assert.deepEqual(
        await ask(server, UNSUBSCRIBE, session.headers),
        printed(`{
  "jsonrpc": "2.0",
  "id": 2,
  "result": {}
}`),
    );
    // An ended subscription (everywhere else this is not an error).
    assert.deepEqual(
        await ask(server, UNSUBSCRIBE, session.headers),
        printed(`{
  "jsonrpc": "2.0",
  "id": 2,
  "error": {
    "code": -32006,
    "message": "Subscription not found"
  }
}`),
    );
    // "Must match exactly the URI from the subscription request"
    await session.subscribe('weather://city/{location}');
    const { json } = await session.send('resources/unsubscribe', { uri: 'weather://city/{city}' });
    assert.equal(json.error.code, -32006);
});

test('1.2: an invalid URI is refused as printed', async (t) => {
    const { server, session } = await start(t);
    // The printed URI is valid; only its scheme can be invalid, because no resource here has it. 7.3 expects
    // "JSONRPC_INVALID_PARAMS" for the same case; 1.2 and 10.1 agree.
    assert.deepEqual(
        await ask(server, SUBSCRIBE.replace(REPORT, 'invalid://uri'), session.headers),
        printed(`{
  "jsonrpc": "2.0",
  "id": 1,
  "error": {
    "code": -32022,
    "message": "Invalid URI",
    "data": {
      "error_type": "invalid_uri_format",
      "uri": "invalid://uri"
    }
  }
}`),
    );
    // 12.3 subscribes to "stress/test" inside Erlang; on the wire "uri must be a valid URI format".
    const malformed = [
        '', 'no scheme', 'stress/test', '/relative', '//host/x', '://x', '1ab:x', 'urn:', 'file:///a/../b', 'file:///a b',
        'file:///%zz', 'file:///a#b', 'http://[bad', 'http://[::1', 'file://host:99999/x', 'file://host:port/x', 'weather://city/{',
        'weather://city/}', 'weather://city/{}', 'weather://city/{a b}', 'file:///[a-', 'file:///*[', `file:///${'x'.repeat(5000)}`,
    ];
    for (const uri of malformed) {
        const { json } = await session.send('resources/subscribe', { uri });
        assert.deepEqual(json.error, {
            code: -32022,
            message: 'Invalid URI',
            data: { error_type: 'invalid_uri_format', uri },
        });
        const read = await session.send('resources/read', { uri });
        assert.ok([-32022, undefined].includes(read.json.error?.code), uri);
    }
    // A missing parameter or a non-string is not a URI. A valid URI is not the cause of an invalid option.
    for (const params of [{}, { uri: 42 }, { uri: REPORT, _meta: { 'dev.tidings/options': { windowMs: -1 } } }]) {
        const { json } = await session.send('resources/subscribe', params);
        assert.equal(json.error.code, -32602, JSON.stringify(params));
    }
});

test('1.2: both printed URIs of the parameter are accepted', async (t) => {
    const { session } = await start(t, ['--mount', `file:///path/to/=${import.meta.dirname}`]);
    assert.deepEqual(await session.subscribe('weather://city/{location}'), {});
    const file = 'file:///path/to/document-erlmcp.test.mjs'; // printed: resource.txt
    assert.deepEqual(await session.subscribe(file), {});
});

// ---- 2. Notification Message Format, 4. Resource Change Events --------------------------------

test('2.1: notifications are as printed, with any metadata', async (t) => {
    const { server, session, events } = await start(t);
    await session.subscribe(REPORT);
    await session.subscribe(CITY);
    const plain = `{
  "jsonrpc": "2.0",
  "method": "resources/updated",
  "params": {
    "uri": "file:///documents/report.md",
    "metadata": {
      "updated_at": 1704067200000,
      "version": "2.1.0",
      "size": 4096,
      "checksum": "abc123def456"
    }
  }
}`;
    await server.changed(REPORT, printed(plain).params.metadata);
    assert.deepEqual(await events.message(), printed(plain));
    const rich = `{
  "jsonrpc": "2.0",
  "method": "resources/updated",
  "params": {
    "uri": "weather://city/san-francisco",
    "metadata": {
      "updated_at": 1704067200000,
      "temperature": 72.5,
      "humidity": 65,
      "last_fetch": "2024-01-01T12:00:00Z",
      "confidence": 0.95,
      "source": "openweathermap"
    }
  }
}`;
    await server.changed(CITY, printed(rich).params.metadata);
    assert.deepEqual(await events.message(), printed(rich));
});

test('4.4: every kind of value passes through', async (t) => {
    const { server, session, events } = await start(t);
    await session.subscribe(REPORT);
    const metadata = {
        updated_at: Date.now(),
        version: '1.0.0',
        revision: 42,
        size: 4096,
        checksum: 'sha256:abc123...',
        changed_fields: ['body', 'updated_at'],
        source: 'file_system_monitor',
        confidence: 0.95,
        change_type: 'content_update',
    };
    await server.changed(REPORT, metadata);
    assert.deepEqual((await events.message()).params.metadata, metadata);
});

test('8.3: the printed guard drops no update, with or without a version', async (t) => {
    const { server, session, events } = await start(t, ['--rate', '0', '--window', '0']);
    await session.subscribe(REPORT);
    let current = '';
    let processed = 0;
    // case Notification of #{version := New} when New > Current -> …; when Old < Current -> …; _ -> …
    const guard = ({ version }) => {
        if (version === undefined) {
            processed += 1;
        } else if (version > current) {
            processed += 1;
            current = version;
        }
    };
    for (let seq = 1; seq <= 24; seq += 1) {
        const version = seq % 3 === 0 ? { version: `2.1.${String(seq).padStart(2, '0')}` } : {};
        await server.changed(REPORT, { seq, ...version });
        guard((await events.message((m) => m.params.metadata.seq === seq, `${seq}`)).params.metadata);
    }
    assert.equal(processed, 24);
});

test('4.3: the first change also waits 100 ms for others', async (t) => {
    const { server, session, events } = await start(t, ['--rate', '0']);
    await session.subscribe(REPORT);
    const before = performance.now();
    await server.changed(REPORT, { seq: 1 });
    await events.message();
    // The server counts whole milliseconds.
    assert.ok(performance.now() - before >= 98, `${performance.now() - before} ms`);
});

test('2.3 and 4.3: rapid changes merge into one notification with the last state, at most one a second', async (t) => {
    const { server, session, events } = await start(t);
    await session.subscribe(REPORT);
    const times = [];
    const changed = (seq) => {
        times.push(Date.now());
        return server.changed(REPORT, { seq, updated_at: times[seq] });
    };
    await changed(0);
    await events.message((m) => m.params.metadata.seq === 0, 'the first');
    // Another client has only the window and receives each of these changes; rate limits coalesce.
    const other = await listen(server, { resourceSubscriptions: [REPORT] });
    for (let seq = 1; seq <= 10; seq += 1) {
        await changed(seq);
        await other.events.message(updates(REPORT));
    }
    const last = Date.now();
    await events.message((m) => m.params.metadata.seq === 10, 'the last state is never lost');
    // By the times of the changes: notifications are at least one second apart and need a new change. So changes within
    // a second cause at most two notifications, and each further second one more.
    const told = events.messages.map((m) => m.params.metadata);
    const first = times[0];
    assert.ok(told.length <= 2 + Math.floor((last - first) / 1000), `${told.length} in ${last - first} ms`);
    assert.deepEqual(told.map((m) => m.seq), told.map((m) => m.seq).toSorted((a, b) => a - b));
});

test('9.1: server and subscription configure the rate', async (t) => {
    const { server, session, events } = await start(t, ['--rate', '0']);
    await session.subscribe(CITY);
    await session.call('resources/subscribe', {
        uri: REPORT,
        _meta: { 'dev.tidings/options': { rateMs: 3_600_000 } },
    });
    for (const seq of [1, 2]) {
        await server.changed(REPORT, { seq });
        await server.changed(CITY, { seq });
        await events.message((m) => updated(CITY)(m) && m.params.metadata.seq === seq, `${seq}`);
    }
    assert.deepEqual(
        events.messages.filter(updated(REPORT)).map((m) => m.params.metadata.seq),
        [1],
    );
});

test('9.3: the server applies a metadata filter', async (t) => {
    const { server, session, events } = await start(t, ['--rate', '0', '--window', '0']);
    const filter = {
        properties: { metadata: { properties: { size: { exclusiveMinimum: 10000 } }, required: ['size'] } },
    };
    await session.call('resources/subscribe', {
        uri: REPORT,
        _meta: { 'dev.tidings/options': { filter } },
    });
    await server.changed(REPORT, { size: 9000 });
    await server.changed(REPORT, { size: 20000 });
    assert.equal((await events.message()).params.metadata.size, 20000);
});

// ---- 3. Unsubscription Handling, 5. Subscription Lifecycle ------------------------------------

test('5.1: no update follows unsubscribing and reads always work', async (t) => {
    const { server, session, events } = await start(t, ['--rate', '0', '--window', '0']);
    await session.subscribe(REPORT);
    await session.subscribe(CITY);
    await server.changed(REPORT);
    await events.message(updated(REPORT));
    const { contents } = await session.call('resources/read', { uri: REPORT });
    assert.equal(contents[0].uri, REPORT);
    await session.call('resources/unsubscribe', { uri: REPORT });
    await server.changed(REPORT);
    await server.changed(CITY);
    await events.message(updated(CITY));
    assert.equal(events.messages.filter(updated(REPORT)).length, 1);
});

test('3.2: session end removes its subscriptions', async (t) => {
    const { server, session, events } = await start(t, ['--self']);
    await session.subscribe(REPORT);
    assert.equal((await totals(server)).subscriptions, 1);
    await session.end();
    await within(events.over, 'the stream to end with its session');
    await eventually(async () => (await totals(server)).subscriptions === 0, 'it is gone');
});

// The document monitors subscriber processes. Ours send nothing when they are killed.
for (const [era, scheme] of [['2025-11-25', 'ws'], ['2026-07-28', 'ws'], ['2026-07-28', 'http']]) {
    test(`3.2: killed subscriber process loses its subscriptions (${scheme} ${era})`, async (t) => {
        const server = await serveDocuments(t, 'erlmcp', ['--self', '--session-timeout', '1h', '--keepalive', '1h']);
        const url = server.url.replace(/^http/, scheme);
        const watch = new Program(t, BIN, ['watch', '--era', era, url, REPORT, CITY], { mayFail: true });
        await eventually(async () => (await totals(server)).subscriptions === 2, 'both are there');
        watch.child.kill('SIGKILL');
        assert.equal((await watch.exited).signal, 'SIGKILL');
        await eventually(async () => (await totals(server)).subscriptions === 0, 'they are gone');
        assert.equal((await totals(server)).subscribers, 0);
    });
}

// ---- 6.2 Transport-Agnostic Delivery ----------------------------------------------------------

/** GET /events; a header names the session, or the query, as browsers require. */
function getEvents(server, session, { query = false, accept, last } = {}) {
    const headers = { Accept: accept, ...(query ? {} : session.headers) };
    return request(server, {
        method: 'GET',
        path: query ? `/events?sessionId=${session.id}` : '/events',
        headers: last === undefined ? headers : { ...headers, 'Last-Event-ID': last },
    });
}

const poll = async (server, session, options = {}) => {
    const response = await getEvents(server, session, { accept: 'application/json', ...options });
    assert.equal(response.status, 200, response.text);
    assert.equal(response.headers.get('content-type'), 'application/json');
    return response.json;
};

test('6.2: GET /events is the stream of a session', async (t) => {
    const server = await serveDocuments(t, 'erlmcp', ['--rate', '0', '--workers', '4']);
    for (const query of [false, true]) {
        const session = await Session.open(server);
        await session.subscribe(REPORT);
        const first = await getEvents(server, session, { query, accept: 'text/event-stream' });
        assert.equal(first.status, 200, first.text);
        await server.changed(REPORT, { seq: 1 });
        const event = await first.events.next((item) => item.json, 'an update');
        assert.equal(event.json.method, 'resources/updated');
        first.events.close();
        await server.changed(REPORT, { seq: 2 });
        const second = await getEvents(server, session, { query, accept: '*/*', last: event.id });
        const { params } = await second.events.message();
        assert.equal(params.metadata.seq, 2, 'it goes on where it broke off');
        second.events.close();
    }
});

test('6.2: GET /events as a long poll answers as soon as a message exists', async (t) => {
    const server = await serveDocuments(t, 'erlmcp', ['--rate', '0', '--window', '0', '--workers', '4']);
    const session = await Session.open(server);
    await session.subscribe(REPORT);
    await session.subscribe(CITY);
    // The next poll reports changes between two polls.
    await server.changed(REPORT, { seq: 1 });
    const uris = (messages) => messages.map((message) => message.params.uri);
    const first = await poll(server, session);
    assert.deepEqual(uris(first), [REPORT]);
    assert.equal(first[0].method, 'resources/updated');
    await server.changed(REPORT, { seq: 2 });
    await server.changed(CITY, { seq: 2 });
    const told = [];
    while (told.length < 2) {
        told.push(...uris(await poll(server, session, { query: true })));
    }
    assert.deepEqual(told, [REPORT, CITY]);
    // A waiting poll is answered when a message arrives.
    const waiting = poll(server, session);
    let isOver = false;
    waiting.finally(() => {
        isOver = true;
    });
    await session.call('ping');
    assert.equal(isOver, false, 'there is nothing to say yet');
    await server.changed(CITY, { seq: 3 });
    assert.equal((await waiting)[0].params.metadata.seq, 3);
});

test('6.2: idle poll ends after a timeout and with its session', async (t) => {
    const server = await serveDocuments(t, 'erlmcp', ['--keepalive', '1s']);
    const session = await Session.open(server);
    assert.deepEqual(await poll(server, session), []);
    const connection = await Connection.open(server);
    const headers = { Accept: 'application/json', ...session.headers };
    await connection.send(encodeRequest(server.port, { method: 'GET', path: '/events', headers }));
    assert.equal((await connection.readHead()).status, 200);
    await session.end();
    assert.deepEqual(JSON.parse(await connection.readToEnd()), []);
    connection.close();
});

test('6.2: /events is guarded, needs a session and is off by default', async (t) => {
    const server = await serveDocuments(t, 'erlmcp');
    const session = await Session.open(server);
    const none = await getEvents(server, { headers: {} }, { accept: 'application/json' });
    assert.deepEqual([none.status, none.json.error.code], [400, -32005]);
    const wrong = await getEvents(server, { id: '00-00' }, { query: true, accept: '*/*' });
    assert.deepEqual([wrong.status, wrong.json.error.code], [404, -32005]);
    const evil = await request(server, {
        method: 'GET',
        path: '/events',
        headers: { ...session.headers, Origin: 'https://evil.example' },
    });
    assert.equal(evil.status, 403);
    assert.equal((await request(server, { path: '/events', body: '{}' })).status, 405);
    const other = await serveDocuments(t, 'none');
    assert.equal((await getEvents(other, session, { accept: '*/*' })).status, 404);
});

// ---- 8.4 URI templates ------------------------------------------------------------------------

test('8.4: subscription to a template receives changes of all its URIs', async (t) => {
    const { server, session, events } = await start(t, ['--rate', '0', '--window', '0']);
    await session.subscribe('user://{username}');
    for (const uri of ['user://alice', 'user://bob', 'user://charlie']) {
        await server.changed(uri);
        await events.message(updated(uri));
    }
});

// ---- 10. Error Codes --------------------------------------------------------------------------

test('10.1: the codes of the table', async (t) => {
    const { server, session } = await start(t);
    const code = async (response) => (await response).json.error.code;
    const missing = { uri: 'file:///documents/none.md' };
    assert.equal(await code(session.send('resources/subscribe', missing)), -32001);
    assert.equal(await code(session.send('resources/read', missing)), -32001);
    const gone = { 'Mcp-Session-Id': 'nobody', 'MCP-Protocol-Version': LATEST_LEGACY };
    assert.equal(await code(post(server, printed(SUBSCRIBE), gone)), -32005);
    const pipe = Pipe.open(t, { args: ['--profile', 'erlmcp'] });
    assert.equal((await pipe.ask('resources/subscribe', { uri: REPORT })).error.code, -32005);
    const few = await start(t, ['--max-subscriptions', '1']);
    await few.session.subscribe(REPORT);
    assert.equal(await code(few.session.send('resources/subscribe', { uri: CITY })), -32006);
});

test('second initialize is refused in a session and on a pipe', async (t) => {
    const { server, session, events } = await start(t);
    const other = await Session.open(await serveDocuments(t, 'none'));
    for (const [where, code] of [[session, -32005], [other, -32600]]) {
        const again = await post(where.server, initialize(), where.headers);
        assert.deepEqual([again.status, again.json.error.code], [400, code]);
        assert.equal(again.headers.get('mcp-session-id') ?? null, null);
    }
    await session.subscribe(REPORT);
    await server.changed(REPORT, { seq: 1 });
    assert.equal((await events.message()).params.metadata.seq, 1, 'the session goes on');
    // An unknown session id is not a session: the request opens a new one.
    const unknown = await post(server, initialize(), { ...session.headers, 'Mcp-Session-Id': 'nobody' });
    assert.equal(unknown.status, 200);
    const pipe = Pipe.open(t, { args: ['--profile', 'erlmcp'] });
    await pipe.handshake();
    const { error } = await pipe.ask('initialize', initialize().params);
    assert.equal(error.code, -32005);
});

test('10.1 and 11.1: capabilities match the configuration', async (t) => {
    const { session } = await start(t, ['--no-list-changed']);
    assert.deepEqual(session.result.capabilities.resources, { subscribe: true, listChanged: false });
    const none = await serveDocuments(t, 'erlmcp', ['--no-subscribe']);
    const other = await Session.open(none);
    assert.equal(other.result.capabilities.resources.subscribe, false);
    const { json } = await other.send('resources/subscribe', { uri: REPORT });
    assert.equal(json.error.code, -32004);
});

// ---- 12.3 Stress Testing ----------------------------------------------------------------------

test('12.3: a thousand subscribers of one resource receive its last state after a thousand changes', async (t) => {
    const { server, session } = await start(t, ['--rate', '0', '--workers', '2']);
    // A thousand sessions, ten at a time; the first, from `start`, also has a connection.
    const streams = [];
    const open = async () => {
        while (streams.length < 1000) {
            const place = streams.push(undefined) - 1;
            const one = await Session.open(server);
            await one.subscribe(REPORT);
            streams[place] = await one.stream();
        }
    };
    await session.end();
    await Promise.all(Array.from({ length: 10 }, open));
    // The document pauses for 10 ms after each; without pauses more changes merge.
    for (let seq = 1; seq < 1000; seq += 9) {
        await Promise.all(Array.from({ length: 9 }, (_, i) => server.changed(REPORT, { seq: seq + i })));
    }
    await server.changed(REPORT, { seq: 1000 });
    const last = (m) => m.params.metadata.seq === 1000;
    await Promise.all(streams.map((events) => events.message(last, 'the last state')));
    streams.forEach((events) => events.close());
});

// ---- unaffected by the profile ----------------------------------------------------------------

test('modern era is unchanged', async (t) => {
    const { server } = await start(t);
    const { events } = await listen(server, { resourceSubscriptions: [REPORT] });
    for (const seq of [1, 2]) {
        await server.changed(REPORT, { seq });
        const { params } = await events.message(updates(REPORT));
        assert.equal(params.metadata, undefined);
        assert.equal(params._meta['dev.tidings/metadata'].seq, seq);
    }
    const { json } = await modern(server, 'resources/read', { uri: 'invalid://uri' });
    assert.equal(json.error.code, -32602);
});
