// SPDX-License-Identifier: MIT
//
// Walks the table of shared limits. In each row one principal takes its complete share and another still gets some.
// The others fill the limit; an operator still connects and can call end_peer. After all releases nothing stays
// counted.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { writeFileSync } from 'node:fs';

import { AuthorizationServer } from './lib/authorization-server.mjs';
import { defer } from './lib/cleanup.mjs';
import { Connection, request } from './lib/http.mjs';
import { modernRequest } from './lib/limits.mjs';
import { call, initialize, key, meta, modern, modernHeaders, post } from './lib/rpc.mjs';
import { serve, serveExample } from './lib/server.mjs';
import { begin as beginTask, _meta as taskMeta } from './lib/tasks.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually, within } from './lib/wait.mjs';

const PRINCIPALS = ['ada', 'bob', 'cleo', 'dan', 'eve'];
const SEE = ['list', 'read', 'subscribe'];
const RULES = [
    ...PRINCIPALS.map((principal) => ({ principal, allow: SEE })),
    ...PRINCIPALS.map((principal) => ({ principal, uri: 'note://**', allow: ['write'] })),
    { principal: 'root', allow: [...SEE, 'write'] },
    { principal: 'anonymous', allow: SEE },
    { principal: `uid:${process.getuid()}`, by: 'user', allow: [...SEE, 'write'] },
];
const access = RULES.flatMap((rule) => ['--access', JSON.stringify(rule)]);

const outside = Object.values(networkInterfaces())
    .flat()
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

// ---- common parts of rows ---------------------------------------------------------------------

/** A row of tidings://self/limits, read by the operator. */
async function rowOf(operator, limit) {
    const { contents } = await call(operator, 'resources/read', { uri: 'tidings://self/limits' });
    return JSON.parse(contents[0].text).find((row) => row.limit === limit);
}

/** Checks a rejection; `share`: the share of the principal was reached. */
function assertRefused({ status, data }, row, share) {
    assert.equal(data?.limit, row.limit, JSON.stringify(data));
    assert.equal(data.value, row.value);
    assert.equal(data.share, share ? row.share : undefined, JSON.stringify(data));
    assert.ok(data.retryAfterMs > 0, JSON.stringify(data));
    assert.ok(status === undefined || status === (share ? 429 : 503), `${status}`);
}

/** Takes until the first rejection: { held, refusal }. */
async function exhaust(take, who) {
    const held = [];
    for (;;) {
        const got = await take(who);
        if (got.refused) {
            return { held, refusal: got.refused };
        }
        held.push(got.release);
        assert.ok(held.length <= 2000, `nothing stops ${who}`);
    }
}

/** Several principals with tokens, and a client without a name. */
async function withTokens(t, args, open = serve) {
    const tokens = new TokenFile(t);
    const given = Object.fromEntries([...PRINCIPALS, 'root'].map((name) => [name, tokens.give(name)]));
    const server = await open(t, [...tokens.args, '--self', ...access, ...args]);
    const who = Object.fromEntries(Object.entries(given).map(([name, token]) => [name, as(server, token)]));
    return { server, who, operator: who.root };
}
const serveFiles = (t, args) => serve(t, { files: { 'a.txt': '1' }, args });

const endPeers = async (operator) => {
    const { isError } = await call(operator, 'tools/call', { name: 'end_peer', arguments: { principal: 'nobody' } });
    assert.ok(!isError);
};

/** A response with a rejection: { refused: { status, data } }. */
const refusal = (response) => ({ refused: { status: response.status, data: response.json?.error?.data } });

/**
 * The walk for limits that count principals with tokens. `take(who)` returns { release } or { refused }. The count
 * drops at once or soon after a release, unless the row `keeps` it.
 */
async function walk(t, { limit, start, take, keeps = false }) {
    const { who, operator } = await start(t);
    const row = await rowOf(operator, limit);
    assert.deepEqual([row.share, row.inUse], [Math.floor(row.value / 4), 0], JSON.stringify(row));
    const ada = await exhaust(take, who.ada);
    assert.equal(ada.held.length, row.share, 'all of its share, and no more');
    assertRefused(ada.refusal, row, true);
    const others = [];
    for (const name of ['bob', 'cleo', 'dan', 'eve']) {
        const { held, refusal: why } = await exhaust(take, who[name]);
        assert.ok(name !== 'bob' || held.length === row.share, 'another principal has its own share');
        others.push(...held);
        if (name === 'eve') {
            assert.equal(held.length, 0);
            assertRefused(why, row, false);
        }
    }
    assert.equal((await rowOf(operator, limit)).inUse, row.value - row.reserve);
    await endPeers(operator);
    const own = await take(operator);
    assert.ok(own.release, `the operator is refused: ${JSON.stringify(own.refused)}`);
    if (keeps) {
        return;
    }
    for (const release of [...ada.held, ...others, own.release]) {
        await release();
    }
    await eventually(async () => (await rowOf(operator, limit)).inUse === 0, 'nothing is counted');
    const again = await exhaust(take, who.ada);
    assert.equal(again.held.length, row.share, 'its account is empty again');
    const { reached, shareReached } = await rowOf(operator, limit);
    assert.ok(shareReached >= 2 && reached > shareReached, `${reached}, ${shareReached}`);
}

// ---- rows of principals -----------------------------------------------------------------------

/**
 * A call that waits for a change that never comes. It is active as soon as it is counted. It names its resource,
 * because server status changes every second.
 */
function takeCall(operator) {
    let held = 0;
    return async (who) => {
        const params = { name: 'wait_for_change', arguments: { uris: [who.uri('*.none')], timeoutMs: 600000 } };
        const connection = await Connection.open(who);
        const one = modernRequest('tools/call', params);
        const answer = connection.request({ ...one, headers: { ...one.headers, ...who.headers } });
        answer.catch(() => {}); // the test cancels it in the end
        const counted = eventually(async () => (await rowOf(operator(), 'max-calls')).inUse > held, 'it is under way');
        const first = await Promise.race([answer, counted.then(() => null)]);
        if (first) {
            counted.catch(() => {});
            connection.close();
            return refusal(first);
        }
        held += 1;
        return {
            release: async () => {
                held -= 1;
                connection.close();
            },
        };
    };
}

async function takeSubscription(who) {
    const params = { notifications: { resourceSubscriptions: ['file:///**'] } };
    const response = await modern(who, 'subscriptions/listen', params);
    const { params: ack } = await response.events.message();
    const [why] = ack._meta[key.refused] ?? [];
    if (why) {
        response.events.close();
        return { refused: { data: why.data } };
    }
    return { release: () => response.events.close() };
}

async function takeSession(who) {
    const response = await post(who, initialize('2025-11-25', {}));
    const id = response.headers.get('mcp-session-id');
    if (!id) {
        return refusal(response);
    }
    return {
        release: async () => {
            const connection = await Connection.open(who);
            const headers = { ...who.headers, 'Mcp-Session-Id': id };
            await connection.request({ method: 'DELETE', headers });
            connection.close();
        },
    };
}

async function takeTask(who) {
    const params = { _meta: taskMeta, name: 'slow_compute', arguments: { seconds: 60 } };
    const response = await modern(who, 'tools/call', params);
    return response.json.result ? { release: () => {} } : refusal(response);
}

/** Publishes `size` bytes; the rejection is an error message. */
const takeNote = (size) => {
    let count = 0;
    return async (who) => {
        const path = `/resource?uri=${encodeURIComponent(`note://n${(count += 1)}`)}`;
        const headers = { 'Content-Type': 'text/plain' };
        const { status, json } = await request(who, { method: 'PUT', path, headers, body: 'x'.repeat(size) });
        if (status === 201) {
            return { release: () => request(who, { method: 'DELETE', path }) };
        }
        const said = /\(--([a-z-]+) (\d+)(?:, at most (\d+) of one client)?\); try again in (\d+) s/.exec(json.error);
        assert.ok(said, json.error);
        const [limit, ...numbers] = said.slice(1);
        const [value, share, retryAfterMs] = numbers.map((text) => (text === undefined ? text : Number(text)));
        return { refused: { data: { limit, value, share, retryAfterMs } } };
    };
};
const withNotes = (t, ...args) => withTokens(t, ['--publish', 'note://', '--allow-write', ...args], serveFiles);

const rows = {
    'published-max': (t) =>
        walk(t, { limit: 'published-max', start: () => withNotes(t, '--published-max', '32'), take: takeNote(10) }),
    'published-bytes': async (t) => {
        const { who, operator } = await withNotes(t, '--published-bytes', '64k');
        const row = await rowOf(operator, 'published-bytes');
        const take = takeNote(3000);
        const ada = await exhaust(take, who.ada);
        assertRefused(ada.refusal, row, true);
        const { inUse } = await rowOf(operator, 'published-bytes');
        assert.ok(inUse <= row.share && inUse > row.share - 4000, `${inUse}`);
        const bob = await exhaust(take, who.bob);
        assert.equal(bob.held.length, ada.held.length);
        await endPeers(operator);
        for (const release of [...ada.held, ...bob.held]) {
            await release();
        }
        assert.equal((await rowOf(operator, 'published-bytes')).inUse, 0);
        assert.equal((await exhaust(take, who.ada)).held.length, ada.held.length);
    },
    'max-calls': async (t) => {
        let given;
        const take = takeCall(() => given.operator);
        const start = async () => {
            given = await withTokens(t, ['--change-tools', 'on', '--max-calls', '16'], serveFiles);
            return given;
        };
        await walk(t, { limit: 'max-calls', start, take });
    },
    'max-all-subscriptions': (t) =>
        walk(t, {
            limit: 'max-all-subscriptions',
            start: () => withTokens(t, ['--max-all-subscriptions', '32', '--workers', '2'], serveFiles),
            take: takeSubscription,
        }),
    'max-sessions': (t) =>
        walk(t, {
            limit: 'max-sessions',
            start: () => withTokens(t, ['--max-sessions', '32', '--workers', '4'], serveFiles),
            take: takeSession,
        }),
    'max-tasks': (t) =>
        walk(t, {
            limit: 'max-tasks',
            start: () =>
                withTokens(t, ['--max-tasks', '16', '--max-client-tasks', '0'], (_, args) =>
                    serveExample(t, 'conformance', args),
                ),
            take: takeTask,
            keeps: true, // for at least a minute: tests/unit/engine/protocol/test_task_bytes.c releases them
        }),
};

// ---- rows of connections, which are counted before authentication -------------------------------

/** A server on all addresses and a Unix socket: the sources of each kind of client. */
async function withPlaces(t, args, more = {}) {
    const path = new Tree(t).at('mcp.sock');
    const all = ['--self', ...access, '--http-unix', path, '--allow-remote', '--workers', '2', ...args];
    const server = await serve(t, { files: { 'a.txt': '1' }, http: '0.0.0.0:0', args: all, ...more });
    const local = { options: {}, headers: {} };
    return {
        server,
        local,
        far: outside && { options: { host: outside, localAddress: outside }, headers: { Host: `${outside}:${server.port}` } },
        user: { options: { host: undefined, port: undefined, path }, headers: { Host: 'localhost' } },
    };
}

/** A connection from that source. */
async function connect(t, server, place) {
    const connection = await Connection.open(server, place.options);
    defer(t, () => connection.close());
    return connection;
}

/** A request on it. */
const ask = (connection, place, method, params) => {
    const one = modernRequest(method, params);
    return connection.request({ ...one, headers: { ...one.headers, ...place.headers } });
};

/** The row and end_peer, for the operator on a connection of the Unix socket. */
async function operatorAt(t, places) {
    const connection = await connect(t, places.server, places.user);
    return {
        row: async (limit) => {
            const response = await ask(connection, places.user, 'resources/read', { uri: 'tidings://self/limits' });
            return JSON.parse(response.json.result.contents[0].text).find((row) => row.limit === limit);
        },
        endPeers: async () => {
            const params = { name: 'end_peer', arguments: { principal: 'nobody' } };
            const { json } = await ask(connection, places.user, 'tools/call', params);
            assert.ok(json.result && !json.result.isError, JSON.stringify(json));
        },
    };
}

rows['max-connections'] = async (t) => {
    const places = await withPlaces(t, ['--max-connections', '64']);
    const operator = await operatorAt(t, places);
    const take = async (place) => {
        const connection = await connect(t, places.server, place);
        const response = await ask(connection, place, 'server/discover');
        return response.status === 200 ? { release: () => connection.close() } : refusal(response);
    };
    const row = await operator.row('max-connections');
    assert.deepEqual([row.share, row.reserve, row.inUse], [16, 1, 1]);
    const held = [];
    if (places.far) {
        const far = await exhaust(take, places.far);
        assert.equal(far.held.length, row.share);
        assertRefused(far.refusal, row, true);
        held.push(...far.held);
    }
    const local = await exhaust(take, places.local); // one account, without a share
    assert.equal(local.held.length, row.value - row.reserve - 1 - held.length);
    assertRefused(local.refusal, row, false);
    held.push(...local.held);
    await operator.endPeers();
    const more = await take(places.user);
    assert.ok(more.release, JSON.stringify(more.refused));
    [...held, more.release].forEach((release) => release());
    await eventually(async () => (await operator.row('max-connections')).inUse === 1, 'only the operator is there');
};

const MIB = 1 << 20;

rows['max-input'] = async (t) => {
    const places = await withPlaces(t, ['--max-input', '16m', '--max-body', '1m', '--workers', '1']);
    const operator = await operatorAt(t, places);
    const row = await operator.row('max-input');
    const begun = async (place) => {
        const connection = await connect(t, places.server, place);
        const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream',
            ...modernHeaders('resources/list'), Host: `127.0.0.1:${places.server.port}`, ...place.headers };
        const lines = Object.entries({ ...headers, 'Content-Length': MIB }).map(([name, value]) => `${name}: ${value}`);
        await connection.send(`POST /mcp HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
        await within(connection.send('x'.repeat(0.9 * MIB)), 'most of a body to be taken');
        return connection;
    };
    const held = [];
    if (places.far) {
        // Its share is four of them. The client that exceeds it gets an error; the others stay.
        let refused = 0;
        while (refused === 0) {
            assert.ok(held.length < 5, 'its share is not the limit');
            const before = (await operator.row('max-input')).inUse;
            held.push(await begun(places.far));
            await eventually(async () => {
                const { inUse, shareReached } = await operator.row('max-input');
                refused = shareReached;
                return inUse > before + 0.9 * MIB || refused > 0;
            }, 'it is held or refused');
        }
        const answer = await held.at(-1).readResponse();
        assert.deepEqual([answer.status, held.length > 2], [429, true], answer.text);
        assert.ok((await operator.row('max-input')).inUse <= row.share);
    }
    const local = await begun(places.local);
    const before = (await operator.row('max-input')).inUse;
    await operator.endPeers();
    assert.ok(before <= row.value - row.reserve);
    [...held, local].forEach((connection) => connection.reset());
    await eventually(async () => (await operator.row('max-input')).inUse === 0, 'nothing is held');
};

rows['waiting-tokens'] = async (t) => {
    const authority = await AuthorizationServer.start(t);
    const waiting = [];
    let isOpen = false;
    const answer = (response) => response.end('{"active":false}');
    const slow = createServer((_, response) => {
        response.setHeader('Content-Type', 'application/json');
        if (isOpen) {
            answer(response);
        } else {
            waiting.push(response);
        }
    });
    await new Promise((resolve) => slow.listen(0, '127.0.0.1', resolve));
    defer(t, () => slow.close());
    const tree = new Tree(t);
    writeFileSync(tree.at('jwks'), JSON.stringify(await authority.jwks()));
    writeFileSync(tree.at('secret'), 'a:b\n', { mode: 0o600 });
    const tokens = new TokenFile(t);
    const root = tokens.give('root');
    const places = await withPlaces(t, [
        ...tokens.args, '--auth-issuer', authority.issuer, '--auth-jwks', tree.at('jwks'),
        '--auth-introspection', `http://127.0.0.1:${slow.address().port}/introspect`,
        '--auth-credentials', tree.at('secret'), '--header-timeout', '1h', '--auth-resource', 'https://tidings.example/mcp',
    ]);
    places.user.headers.Authorization = `Bearer ${root}`;
    const operator = await operatorAt(t, places);
    const row = await operator.row('waiting-tokens');
    assert.deepEqual([row.value, row.share, row.reserve], [1024, 256, 16]);
    let count = 0;
    /** An unknown token: its answer arrives after the answer of the slow server. */
    const show = async (place) => {
        const connection = await connect(t, places.server, place);
        const headers = { ...place.headers, Authorization: `Bearer opaque${(count += 1)}` };
        const answer = ask(connection, { headers }, 'server/discover');
        answer.catch(() => {});
        return { answer };
    };
    const place = places.far ?? places.local;
    const most = places.far ? row.share : row.value - row.reserve;
    const inUse = async () => (await operator.row('waiting-tokens')).inUse;
    const answers = [];
    for (let i = 0; i < most; i += 1) {
        answers.push((await show(place)).answer);
    }
    await eventually(async () => (await inUse()) === most, 'all of the share waits');
    const { answer: last } = await show(place);
    assertRefused(refusal(await last).refused, row, places.far !== undefined);
    const other = { ...(places.far ? places.local : places.user) };
    answers.push((await show(other)).answer);
    await eventually(async () => (await inUse()) === most + 1, 'another one waits');
    await operator.endPeers();
    isOpen = true;
    waiting.forEach(answer);
    for (const each of answers) {
        assert.equal((await each).status, 401);
    }
    assert.equal(await inUse(), 0);
};

for (const [limit, check] of Object.entries(rows)) {
    test(`${limit}: principals have separate shares, and an operator the reserve`, check);
}

// ---- completeness of the table ------------------------------------------------------------------

/** Limits walked elsewhere, because they need a stopped hub or millions of bytes. */
const elsewhere = {
    'task-bytes': 'unit/engine/protocol/test_task_bytes.c',
    'max-announced': 'unit/engine/delivery/test_announce.c',
    'max-output': 'integration/output.test.mjs',
};

test('every shared limit has a row here', async (t) => {
    const { operator } = await withTokens(t, [], serveFiles);
    const { contents } = await call(operator, 'resources/read', { uri: 'tidings://self/limits' });
    const shared = JSON.parse(contents[0].text).filter((row) => row.share !== undefined);
    const known = [...Object.keys(rows), ...Object.keys(elsewhere)];
    assert.deepEqual(shared.map((row) => row.limit).sort(), known.sort());
});

test('--fair-share sets the share of a principal', async (t) => {
    const { who, operator } = await withTokens(t, ['--fair-share', '50', '--max-sessions', '20'], serveFiles);
    const { held, refusal: why } = await exhaust(takeSession, who.ada);
    assert.equal(held.length, 10);
    assertRefused(why, await rowOf(operator, 'max-sessions'), true);
});

test('small limits are shared too', async (t) => {
    for (const [limit, share, reserve] of [[1, 1, 0], [2, 1, 0], [3, 1, 0], [4, 1, 1], [7, 2, 1]]) {
        const { who, operator } = await withTokens(t, ['--max-sessions', `${limit}`], serveFiles);
        const row = await rowOf(operator, 'max-sessions');
        assert.deepEqual([row.value, row.share, row.reserve], [limit, share, reserve]);
        const ada = await exhaust(takeSession, who.ada);
        assert.equal(ada.held.length, share);
        assertRefused(ada.refusal, row, limit > 1);
        const bob = await exhaust(takeSession, who.bob);
        assert.equal(bob.held.length, Math.min(share, limit - share), 'one principal leaves some to another');
        const own = await takeSession(operator);
        assert.equal(Boolean(own.release), limit > 2, 'the operator gets what is left or the reserve');
    }
});

test('local anonymous clients use one account, which leaves the reserve', async (t) => {
    const server = await serve(t, { files: {}, args: ['--self', '--max-sessions', '20'] });
    const [first, second] = [server, server];
    const { held, refusal: why } = await exhaust(takeSession, first);
    assert.equal(held.length, 19);
    assert.deepEqual([why.status, why.data.share], [503, undefined]);
    assert.ok((await takeSession(second)).refused);
});
