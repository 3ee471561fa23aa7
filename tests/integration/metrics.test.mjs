// SPDX-License-Identifier: MIT
//
// Metrics and health: the Prometheus output, access to it, its protection against untrusted clients, and the metric
// names in the dashboard and alerts of contrib/.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { defer } from './lib/cleanup.mjs';
import { errno, Faults, skip as noFaults } from './lib/faults.mjs';
import { encodeRequest, request } from './lib/http.mjs';
import { freePort } from './lib/port.mjs';
import { call, initialize, key, listen, meta, modern, post, Session } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually, within } from './lib/wait.mjs';

const contrib = (name) => fileURLToPath(new URL(`../../contrib/${name}`, import.meta.url));
const PROMTOOL = '/usr/bin/promtool';
const noPromtool = !fs.existsSync(PROMTOOL) && 'promtool is not installed';

/** A server with a metrics listener; `metrics` sends requests to that listener. */
async function monitored(t, { args = [], ...options } = {}) {
    const port = await freePort();
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--metrics', `127.0.0.1:${port}`, ...args], ...options });
    return { server, metrics: { port } };
}
const get = (who, path, headers = {}) => request(who, { method: 'GET', path, headers });
const scrape = async (metrics, headers) => {
    const response = await get(metrics, '/metrics', headers);
    assert.equal(response.status, 200, response.text);
    return response.text;
};
/** The samples of a scrape: { 'name{labels}': value }. */
const samples = (text) =>
    Object.fromEntries(text.split('\n').filter((line) => line && !line.startsWith('#')).map((line) => {
        const at = line.lastIndexOf(' ');
        return [line.slice(0, at), Number(line.slice(at + 1))];
    }));
const promtool = (args, input) => {
    const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { input, encoding: 'utf8' });
    assert.equal(status, 0, `promtool ${args.join(' ')}: ${stdout}${stderr}`);
    assert.equal(stderr.trim(), '', 'promtool has nothing to say');
    return stdout;
};
const busy = async (server) => {
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('a.txt'), server.uri('')] });
    server.tree.replace('a.txt', '2');
    await events.message((m) => m.method === 'notifications/resources/updated', 'an update');
    await modern(server, 'resources/read', { uri: 'file:///nowhere' });
    await modern(server, 'no/such', {});
    return events;
};

test('scrape passes promtool and counts the traffic', { skip: noPromtool }, async (t) => {
    const { server, metrics } = await monitored(t, { args: ['--store', new Tree(t).at('store')] });
    await busy(server);
    const session = await Session.open(server);
    await session.stream();
    const text = await scrape(metrics);
    promtool(['check', 'metrics'], text);
    const at = samples(text);
    assert.ok(at.tidings_changes_total >= 1 && at.tidings_deliveries_total >= 1, text);
    assert.ok(at.tidings_delivery_lag_seconds_count >= 1);
    assert.ok(at.tidings_delivery_lag_seconds_sum > 0 && at.tidings_delivery_lag_seconds_sum < 60);
    assert.equal(at['tidings_delivery_lag_seconds_bucket{le="+Inf"}'], at.tidings_delivery_lag_seconds_count);
    assert.deepEqual([at.tidings_streams, at.tidings_sessions, at.tidings_peers, at.tidings_ready], [2, 1, 2, 1]);
    assert.equal(at['tidings_subscriptions{kind="literal"}'], 1);
    assert.equal(at['tidings_subscriptions{kind="container"}'], 1);
    const operations = (labels) => at[`mcp_server_operation_duration_seconds_count{${labels}}`];
    assert.equal(operations('method="resources/read",era="modern",outcome="error"'), 1);
    assert.equal(operations('method="other",era="modern",outcome="error"'), 1);
    assert.equal(operations('method="initialize",era="legacy",outcome="ok"'), 1);
    assert.equal(at['tidings_failures_total{method="other",kind="rpc",code="-32601"}'], 1);
    assert.ok(at['tidings_turn_duration_seconds_count{worker="0"}'] > 0);
    assert.ok(at.tidings_store_size_bytes > 0 && at.tidings_store_up === 1);
    assert.ok(at.process_resident_memory_bytes > 1 << 20 && at.process_open_fds > 3 && at.process_start_time_seconds > 1e9);
    assert.ok(at.tidings_sent_bytes_total > 0 && at.tidings_received_bytes_total > 0);
});

test('tool calls are counted by tool and outcome, unknown names are not', async (t) => {
    const args = ['--self', '--entities', ':memory:', '--allow-write', '--workers', '2'];
    const { server, metrics } = await monitored(t, { args });
    const tool = (name, given) => modern(server, 'tools/call', { name, arguments: given });
    const changed = await tool('add-entity-type', { name: 'T', version: '1', jsonSchema: { type: 'object' } });
    assert.equal(changed.json.result.isError, undefined, changed.text);
    await tool('delete-entity', { uri: '/entity/T@1/none' });
    await tool('add-entity-type', {}); // its arguments are rejected before the call
    for (let i = 0; i < 100; i += 1) {
        await tool(`made-up-${i}`, {});
    }
    const text = await scrape(metrics);
    const at = samples(text);
    assert.equal(at['tidings_tool_calls_total{tool="add-entity-type",outcome="ok"}'], 1);
    assert.equal(at['tidings_tool_calls_total{tool="delete-entity",outcome="error"}'], 1);
    assert.equal(at['tidings_tool_duration_seconds_count{tool="add-entity-type"}'], 1);
    assert.ok(at['tidings_tool_duration_seconds_sum{tool="add-entity-type"}'] > 0);
    assert.equal(Object.keys(at).filter((name) => name.startsWith('tidings_tool_calls_total')).length, 2);
    assert.doesNotMatch(text, /made-up/);
    const { resources } = await call(server, 'resources/list', { uri: 'tidings://self/' });
    assert.ok(resources.some((resource) => resource.uri === 'tidings://self/tools'));
    const { contents } = await call(server, 'resources/read', { uri: 'tidings://self/tools' });
    const rows = JSON.parse(contents[0].text);
    assert.deepEqual(rows.map((row) => [row.tool, row.calls, row.ok, row.error]).toSorted(), [
        ['add-entity-type', 1, 1, 0], ['delete-entity', 1, 0, 1],
    ]);
    assert.ok(rows.every((row) => row.minMs > 0 && row.minMs <= row.avgMs && row.avgMs <= row.maxMs));
});

test('each notification is once in the lag histogram: immediate, delayed, replayed, initial and truncated', async (t) => {
    const { server, metrics } = await monitored(t, { args: ['--self', '--window', '0', '--workers', '2'] });
    const uri = server.uri('a.txt');
    const isUpdate = (m) => m.method === 'notifications/resources/updated';
    const status = async () => JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/status' })).contents[0].text);
    const { lagMs } = await status();
    assert.deepEqual([lagMs.now, lagMs.p50, lagMs.p99, lagMs.max, lagMs.written], [0, null, null, null, 0]);
    const follow = async (options = {}) => {
        const params = { _meta: meta({ 'dev.tidings/options': options }) };
        const { events } = await listen(server, { resourceSubscriptions: [uri] }, { params });
        return events;
    };
    const all = [
        await follow(),
        await follow({ windowMs: 50 }),
        await follow({ windowMs: 50, order: 'strict' }),
        await follow({ initial: true }),
        await follow({ windowMs: 50, include: 'value', initial: true }),
    ];
    const told = all.map(() => ({ count: 0, merged: 0 }));
    /** Waits until this subscriber received the newest version. */
    const hears = async (events, i, version) => {
        for (;;) {
            const message = await events.message(isUpdate, 'an update');
            told[i].count += 1;
            told[i].merged += message.params._meta['dev.tidings/merged'] ?? 1;
            if (message.params._meta['dev.tidings/version'] === version) {
                return;
            }
        }
    };
    for (let i = 1; i <= 12; i += 1) {
        server.tree.replace('a.txt', `${i}`);
        const message = await all[0].message(isUpdate, 'an update');
        told[0].count += 1;
        told[0].version = message.params._meta['dev.tidings/version'];
        told[0].cursor ??= message.params._meta['dev.tidings/cursor'];
    }
    await Promise.all(all.slice(1).map((events, i) => hears(events, i + 1, told[0].version)));
    assert.ok(told[1].merged > told[1].count, `something was held back: ${JSON.stringify(told)}`);
    const from = await follow({ since: told[0].cursor });
    told.push({ count: 0, merged: 0 });
    await hears(from, told.length - 1, told[0].version);
    const lost = await follow({ since: 'abc.5' }); // of an earlier server run
    assert.equal((await lost.message(isUpdate, 'an update')).params._meta['dev.tidings/truncated'], true);
    told.push({ count: 1 });
    const at = samples(await scrape(metrics));
    const sum = told.reduce((n, { count }) => n + count, 0);
    assert.equal(at.tidings_deliveries_total, sum);
    assert.equal(at.tidings_delivery_lag_seconds_count, sum);
    const after = (await status()).lagMs;
    assert.ok(after.max > 0 && after.p50 <= after.max && after.written > 0, JSON.stringify(after));
});

test('format is negotiated: OpenMetrics ends with # EOF and names counters without their suffix', async (t) => {
    const { server, metrics } = await monitored(t);
    await busy(server);
    const accept = 'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1';
    const open = await get(metrics, '/metrics', { Accept: accept });
    assert.equal(open.headers.get('content-type'), 'application/openmetrics-text; version=1.0.0; charset=utf-8');
    assert.ok(open.text.endsWith('\n# EOF\n'));
    assert.match(open.text, /^# TYPE tidings_changes counter\n(# .*\n)*tidings_changes_total 1$/m);
    const plain = await get(metrics, '/metrics');
    assert.equal(plain.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
    assert.ok(!plain.text.includes('# EOF'));
    assert.match(plain.text, /^# TYPE tidings_changes_total counter$/m);
    const names = (text) => Object.keys(samples(text)).filter((name) => !/operation|failures/.test(name)).sort();
    assert.deepEqual(names(open.text), names(plain.text));
});

test('metrics contain no client-chosen labels and no secrets', async (t) => {
    const tokens = new TokenFile(t);
    const token = tokens.give('ada');
    const { server, metrics } = await monitored(t, { args: tokens.args });
    const who = as(server, token);
    const evil = 'evil"}\n# EOF\x1b<script>';
    const hello = initialize();
    hello.params.clientInfo = { name: evil, version: evil };
    const id = (await post(who, hello)).headers.get('mcp-session-id');
    const before = (await scrape(metrics)).split('\n').length;
    for (let i = 0; i < 50; i += 1) {
        await modern(who, `evil/method${i}`, { _meta: meta({ [key.client]: { name: evil + i, version: '1' } }) });
    }
    const text = await scrape(metrics);
    assert.ok(!text.includes('evil') && !text.includes(id) && !text.includes(token) && !text.includes('ada'), text);
    assert.ok(text.split('\n').length - before < 50, 'fifty methods are one row');
});

test('metrics listener serves only metrics, rejects browser pages and never blocks', async (t) => {
    const { server, metrics } = await monitored(t, { args: ['--header-timeout', '1s'] });
    const elsewhere = `01${(await Session.open(server)).id.slice(2)}`; // of a worker that this listener does not use
    for (const path of ['/', '/mcp', '/metrics/', '/resource?uri=file%3A%2F%2F%2F', '/console', '/sse', '/notify', '/.well-known/oauth-protected-resource']) {
        assert.equal((await get(metrics, path)).status, 404, path);
        assert.equal((await get(metrics, path, { 'Mcp-Session-Id': elsewhere })).status, 404, path);
    }
    assert.equal((await post(metrics, initialize())).status, 404);
    const once = await get(metrics, '/metrics', { Connection: 'keep-alive' });
    assert.equal(once.headers.get('connection'), 'close'); // one request per connection
    const page = await get(metrics, '/metrics', { Origin: 'http://localhost:3000' });
    assert.deepEqual([page.status, page.headers.get('access-control-allow-origin')], [200, undefined]); // no page can read it
    assert.equal((await get(metrics, '/metrics', { Origin: 'http://evil.example' })).status, 403);
    assert.equal((await get(metrics, '/livez', { 'Sec-Fetch-Site': 'cross-site' })).status, 403);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
        const refused = await request(metrics, { method, path: '/metrics' });
        assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD'], method);
    }
    assert.equal((await get(metrics, '/metrics', { Host: 'rebound.example' })).status, 403);
    const raw = async (bytes) => {
        const socket = net.connect(metrics.port, '127.0.0.1');
        defer(t, () => socket.destroy());
        let text = '';
        socket.on('data', (data) => (text += data)).on('error', () => {});
        socket.write(bytes);
        await within(new Promise((resolve) => socket.on('close', resolve)), 'its end');
        return text;
    };
    assert.match(await raw('nonsense\r\n\r\n'), /^HTTP\/1\.1 400 /);
    assert.match(await raw(`GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ${'x'.repeat(10_000)}\r\n\r\n`), /^(HTTP\/1\.1 413 |$)/);
    assert.equal(await raw('GET /metrics HT'), ''); // closed after its deadline
    // Many silent connections block others no longer than the deadline.
    const idle = await Promise.all(Array.from({ length: 40 }, () => new Promise((resolve) => {
        const socket = net.connect(metrics.port, '127.0.0.1', () => resolve(socket));
        socket.on('error', () => {});
    })));
    defer(t, () => idle.forEach((socket) => socket.destroy()));
    await eventually(async () => (await get(metrics, '/metrics').catch(() => ({}))).status === 200, 'an answer');
    assert.equal((await get(server, '/metrics')).status, 404); // not on the main endpoint
});

test('--metrics without a value is a loopback address in any argument position', async (t) => {
    const folder = new Tree(t).path;
    const rows = [
        [['--metrics', folder], '127.0.0.1:9464'], [['--metrics'], '127.0.0.1:9464'], [['--metrics', '--self', folder], '127.0.0.1:9464'],
        [['--metrics', '127.0.0.1:7', folder], '127.0.0.1:7'], [['--metrics', '[::1]:7'], '[::1]:7'], [['--metrics', 'path', '--self'], 'path'],
        [['--metrics=localhost:7', folder], 'localhost:7'],
    ];
    for (const [args, is] of rows) {
        const { stdout, stderr } = await run(t, ['config', '--no-config', ...args]);
        assert.match(stdout, new RegExp(`^ *"metrics": "${is.replace(/[[\]]/g, '\\$&')}", `, 'm'), `${args}: ${stderr}`);
        assert.equal(stdout.includes(`"${folder}"`), args.includes(folder), `${args}: ${stdout}`);
    }
});

test('--metrics path: metrics at the endpoint require read access to tidings://self/metrics', async (t) => {
    const tokens = new TokenFile(t);
    const [ada, bob] = [tokens.give('ada'), tokens.give('bob')];
    const rules = [
        { principal: 'ada', uri: 'file:///**', allow: ['list', 'read', 'subscribe'] },
        { principal: 'bob', uri: 'tidings://self/metrics', allow: ['list', 'read'] },
    ];
    const access = rules.flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const server = await serve(t, { files: {}, args: [...tokens.args, '--self', '--metrics', 'path', ...access] });
    const allowed = await get(as(server, bob), '/metrics');
    assert.equal(allowed.status, 200, allowed.text);
    assert.match(allowed.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
    assert.ok(samples(allowed.text).tidings_ready === 1);
    const openTypes = ['application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5,*/*;q=0.1', 'application/openmetrics-text'];
    for (const accept of openTypes) {
        const open = await get(as(server, bob), '/metrics', { Accept: accept });
        assert.equal(open.headers.get('content-type'), 'application/openmetrics-text; version=1.0.0; charset=utf-8', accept);
        assert.ok(open.text.endsWith('\n# EOF\n'));
    }
    for (const accept of ['text/plain, application/openmetrics-text;q=0.5', '*/*', 'text/*']) {
        const plain = await get(as(server, bob), '/metrics', { Accept: accept });
        assert.ok(plain.status === 200 && !plain.text.includes('# EOF'), accept);
    }
    assert.equal((await get(as(server, ada), '/metrics')).status, 404);
    assert.equal((await get(server, '/metrics')).status, 401);
    const { contents } = await call(as(server, bob), 'resources/read', { uri: 'tidings://self/metrics' });
    assert.match(contents[0].text, /^tidings_ready 1$/m);
    const refused = await serve(t, { files: {}, args: ['--metrics', 'path'], mayFail: true }).catch((error) => error);
    assert.match(`${refused.message}`, /add --self/);
});

test('/livez and /readyz are public; a draining server is live but not ready', async (t) => {
    const tokens = new TokenFile(t);
    const token = tokens.give('ada');
    const { server, metrics } = await monitored(t, { args: [...tokens.args, '--drain', '5s'] });
    for (const path of ['/livez', '/readyz']) {
        for (const who of [server, metrics]) {
            const health = await get(who, path);
            assert.deepEqual([health.status, health.text], [200, 'ok\n'], path);
        }
    }
    assert.equal((await request(server, { method: 'POST', path: '/readyz' })).status, 405);
    const head = await request(server, { method: 'HEAD', path: '/readyz' });
    assert.deepEqual([head.status, head.text], [200, '']);
    server.tree.write('big', Buffer.alloc(15 << 20)); // the server waits for a client that does not read its answer
    const slow = net.connect(server.port, '127.0.0.1');
    defer(t, () => slow.destroy());
    const path = `/resource?uri=${encodeURIComponent(server.uri('big'))}`;
    slow.write(encodeRequest(server.port, { method: 'GET', path, headers: { Authorization: `Bearer ${token}` } }));
    await within(new Promise((resolve) => slow.once('data', resolve)), 'the beginning of an answer');
    slow.pause();
    server.child.kill('SIGTERM');
    const drains = async () => {
        const health = await get(metrics, '/readyz').catch(() => undefined);
        return health?.status === 503 && health.text.startsWith('draining: ');
    };
    await eventually(drains, 'it says that it drains');
    assert.equal((await get(metrics, '/livez')).status, 200);
    slow.destroy();
    await server.exited;
});

test('unwritable store makes the server not ready until it recovers', { skip: noFaults }, async (t) => {
    const faults = new Faults(t);
    const store = new Tree(t).at('store.db');
    const args = ['--store', store, '--publish', 'app:///', '--allow-write', '--self'];
    const { server, metrics } = await monitored(t, { args, env: faults.env });
    const status = async () => JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/status' })).contents[0].text);
    const publish = (text) => call(server, 'tools/call', { name: 'publish', arguments: { uri: 'app:///x', text } });
    assert.ok(!(await publish('1')).isError);
    faults.on({ write: { rate: 1, error: errno.ENOSPC } });
    assert.ok((await publish('2')).isError);
    const health = await get(metrics, '/readyz');
    assert.deepEqual([health.status, health.text], [503, 'store: the last commit failed\n']);
    assert.equal(samples(await scrape(metrics)).tidings_store_up, 0);
    const { ready, reasons, store: kept } = await status();
    assert.deepEqual([ready, reasons, kept.ok, kept.kind], [false, ['store: the last commit failed'], false, 'sqlite']);
    assert.ok(kept.lost >= 1 && kept.bytes > 0);
    assert.ok(samples(await scrape(metrics)).tidings_store_commits_lost_total >= 1);
    faults.off();
    assert.ok(!(await publish('3')).isError);
    assert.equal((await get(metrics, '/readyz')).status, 200);
});

/** The unit of a query result, from the metric name and from rate(). */
function unitOf(expr) {
    const name = expr.match(/\b(tidings|process|mcp)_[a-z_]+/)[0];
    const isRate = /\brate\(/.test(expr) && !name.endsWith('_bucket');
    const base = /_seconds(_bucket|_total)?$/.test(name) ? 's' : /_bytes(_total)?$/.test(name) ? 'bytes' : 'short';
    return isRate ? { s: 'percentunit', bytes: 'Bps', short: 'cps' }[base] : base;
}

test('each dashboard panel has one unit, matching queries and its own position', () => {
    const { panels } = JSON.parse(fs.readFileSync(contrib('grafana/tidings.json'), 'utf8'));
    const plotted = panels.filter((panel) => panel.targets);
    assert.ok(plotted.length > 10);
    for (const { title, targets, fieldConfig } of plotted) {
        const said = fieldConfig.defaults.unit === 'reqps' ? 'cps' : fieldConfig.defaults.unit;
        assert.deepEqual([title, ...new Set(targets.map(({ expr }) => unitOf(expr)))], [title, said]);
    }
    const ids = new Set(panels.map(({ id }) => id));
    const places = new Set(panels.map(({ gridPos: { x, y } }) => `${x} ${y}`));
    assert.deepEqual([ids.size, places.size], [panels.length, panels.length]);
});

test('dashboard and alerts name existing metrics only', { skip: noPromtool }, async (t) => {
    promtool(['check', 'rules', contrib('prometheus/tidings.rules.yml')]);
    promtool(['check', 'config', contrib('prometheus/prometheus.yml')]);
    const { server, metrics } = await monitored(t, { args: ['--store', new Tree(t).at('store')] });
    await busy(server);
    const text = await scrape(metrics);
    const there = new Set(Object.keys(samples(text)).map((name) => name.replace(/\{.*/, '')));
    // Cluster metrics only: tests/integration/cluster-*.test.mjs covers them.
    ['tidings_nodes', 'tidings_node_lag_seconds'].forEach((name) => there.add(name));
    const dashboard = JSON.parse(fs.readFileSync(contrib('grafana/tidings.json'), 'utf8'));
    const asked = dashboard.panels.flatMap((panel) => (panel.targets ?? []).map((target) => target.expr));
    const rules = fs.readFileSync(contrib('prometheus/tidings.rules.yml'), 'utf8');
    const named = new Set(`${asked.join('\n')}\n${rules.match(/expr: .*/g).join('\n')}`.match(/\b(tidings|process|mcp)_[a-z_]+/g));
    assert.ok(named.size > 20);
    assert.deepEqual([...named].filter((name) => !there.has(name)), []);
});

test('server state page has every metric and every member of the status, the history and the clients', async (t) => {
    const page = fs.readFileSync(new URL('../../docs/reference/server-state.md', import.meta.url), 'utf8');
    const section = (heading) => page.split(`\n## ${heading}\n`)[1].split('\n## ')[0];
    const named = (heading) => new Set([...section(heading).matchAll(/`([A-Za-z_]+)(\{[a-z,]+\})?`/g)].map(([, name]) => name));
    const missing = (heading, names) => assert.deepEqual(names.filter((name) => !named(heading).has(name)), [], heading);
    const args = ['--self', '--console', '--store', new Tree(t).at('store')];
    const { server, metrics } = await monitored(t, { args });
    await busy(server);
    const session = await Session.open(server);
    await session.stream();
    missing('Metrics', [...(await scrape(metrics)).matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name));
    const self = async (name) => JSON.parse((await call(server, 'resources/read', { uri: `tidings://self/${name}` })).contents[0].text);
    missing('Status', Object.keys(await self('status')));
    missing('History', Object.keys(await self('history')));
    missing('Clients', (await self('peers')).flatMap((row) => Object.keys(row)));
});
