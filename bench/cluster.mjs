// SPDX-License-Identifier: MIT
//
// Several nodes on one PostgreSQL: from a write at one node to a notification at another, upserts a second with one, two and three
// nodes, CPU for each change and delivery; in turns with bare libpq, and with two nginx with nchan on one Redis that
// deliver the same bytes: on one that keeps nothing (`nchan`), and on one that has them on the disk before it answers, as
// PostgreSQL has (`nchan_kept`). `node bench/cluster.mjs [--rounds N] [--writes N] [--streams N,…] [--build build/release]`; prints a line for each
// measurement, what came of the goals, and one line of JSON with the medians. Under three minutes on two cores that do nothing else. Everything it
// starts has its own directories and ports and is gone afterwards.

import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';

const root = fileURLToPath(new URL('../', import.meta.url));
const { values: asked } = parseArgs({
    options: {
        rounds: { type: 'string', default: '3' }, build: { type: 'string', default: `${root}build/release` },
        writes: { type: 'string', default: '6000' }, streams: { type: 'string', default: '100,1000' },
        notify: { type: 'boolean' }, // announcements of programs, too
    },
});
const rounds = Number(asked.rounds);
const writes = Number(asked.writes);
const fans = asked.streams.split(',').map(Number);
const build = path.resolve(asked.build);
process.env.TIDINGS_BIN ??= `${build}/tidings`;

const { encodeRequest } = await import('../tests/integration/lib/http.mjs');
const { startNodes } = await import('../tests/integration/lib/nodes.mjs');
const { freePort, isOpen } = await import('../tests/integration/lib/port.mjs');
const { Postgres } = await import('../tests/integration/lib/postgres.mjs');
const { meta, modern, modernHeaders } = await import('../tests/integration/lib/rpc.mjs');
const { eventually } = await import('../tests/integration/lib/wait.mjs');

const run = promisify(execFile);
const steps = [];
const t = { after: (step) => steps.push(step), diagnostic: () => {}, passed: true };
const folder = mkdtempSync(path.join(tmpdir(), 'tidings-bench-'));
const say = (text) => process.stderr.write(`${text}\n`);

// ---- helpers ------------------------------------------------------------------------------------------------

const middle = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** The median of each number in objects of one shape. */
function medians(all) {
    return Object.fromEntries(Object.entries(all[0]).map(([name, value]) =>
        [name, typeof value === 'object' ? medians(all.map((one) => one[name])) : middle(all.map((one) => one[name]))]));
}

/** us of CPU that processes have used, to 10 ms each; an exited process used nothing. */
function cpuOfAll(pids) {
    return pids.reduce((sum, pid) => {
        try {
            const words = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
            return sum + 10_000 * (Number(words[11]) + Number(words[12]));
        } catch {
            return sum;
        }
    }, 0);
}

const children = (pid) => readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);

async function tool(name, args) {
    const { stdout } = await run(`${build}/bench/${name}`, args.map(String), { maxBuffer: 2 ** 24 });
    return JSON.parse(stdout);
}

function file(name, bytes) {
    const at = path.join(folder, name);
    writeFileSync(at, bytes);
    return at;
}

// ---- nodes ------------------------------------------------------------------------------------------------------

const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

function modernFile(name, port, method, params, _meta = meta()) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { _meta, ...params } });
    return file(name, encodeRequest(port, { headers: { ...json, ...modernHeaders(method, params) }, body }));
}

const FAST = { 'dev.tidings/options': { windowMs: 0, initial: false, detail: 'slim' } };

function listenFile(node, uri) {
    const params = { notifications: { resourceSubscriptions: [uri] } };
    return modernFile(`listen-${node.name}-${uri.replace(/\W/g, '')}`, node.port, 'subscriptions/listen', params, meta(FAST));
}

function upsertFile(node) {
    const args = { uri: 'entity:///thing@1/cross', value: { n: '########' } };
    return modernFile(`upsert-${node.name}`, node.port, 'tools/call', { name: 'upsert-entity', arguments: args });
}

function notifyFile(node) {
    const body = JSON.stringify({ changes: [{ uri: 'pub:///n########', metadata: { n: '########' } }] });
    return file(`notify-${node.name}`, encodeRequest(node.port, { path: '/notify', headers: json, body }));
}

async function prepare(node) {
    const jsonSchema = { type: 'object', required: ['n'], properties: { text: { type: 'string' } } };
    const made = await modern(node, 'tools/call', { name: 'add-entity-type', arguments: { name: 'thing', version: '1', jsonSchema } });
    if (!made.json?.result || made.json.result.isError) {
        throw new Error(`no type: ${made.text}`);
    }
    await modern(node, 'tools/call',
        { name: 'upsert-entity', arguments: { uri: 'entity:///thing@1/cross', value: { n: '00000000' } } });
}

let first = 1;
async function cross(options) {
    const result = await tool('cross', [...Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]), '--first', first]);
    first = result.next;
    delete result.next;
    return result;
}

const pidsOfPostgres = (database) => [database.child.pid, ...children(database.child.pid)];

let salt = 0;
/** All nodes are written to at once: changes a second, and CPU for each. */
async function upserts(database, nodes) {
    const loads = nodes.map((node) => {
        salt += 1;
        const args = ['--port', node.port, '--salt', salt, '--writes', writes].map(String);
        const child = spawn(`${build}/bench/cluster_writes`, args, { stdio: ['pipe', 'pipe', 'inherit'] });
        const lines = [];
        let wake;
        child.stdout.setEncoding('utf8').on('data', (text) => {
            lines.push(...text.split('\n').filter(Boolean));
            wake?.();
        });
        const line = async () => {
            while (lines.length === 0) {
                await new Promise((resolve, reject) => {
                    wake = resolve;
                    child.on('exit', () => reject(new Error('a load ended')));
                });
            }
            return lines.shift();
        };
        return { child, line };
    });
    await Promise.all(loads.map(({ line }) => line()));
    const groups = [pidsOfPostgres(database), ...nodes.map((node) => [node.program.child.pid])];
    const before = groups.map(cpuOfAll);
    const begun = process.hrtime.bigint();
    loads.forEach(({ child }) => child.stdin.write('go\n'));
    await Promise.all(loads.map(({ line }) => line()));
    const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
    const used = groups.map((pids, at) => cpuOfAll(pids) - before[at]);
    loads.forEach(({ child }) => child.stdin.end());
    const all = writes * nodes.length;
    return {
        per_s: all / seconds, postgres_cpu_us: used[0] / all,
        node_cpu_us: used.slice(1).reduce((a, b) => a + b, 0) / all,
    };
}

/** One node is written to, another only follows: CPU of that one for each change. */
async function following(database, [writer, follower]) {
    const before = cpuOfAll([follower.program.child.pid]);
    const { per_s } = await upserts(database, [writer]);
    return { per_s, cpu_us: (cpuOfAll([follower.program.child.pid]) - before) / (writes + 1000) };
}

// ---- nchan ------------------------------------------------------------------------------------------------------

function start(program, args) {
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'], cwd: folder });
    steps.unshift(() => new Promise((resolve) => {
        child.on('exit', resolve);
        child.kill('SIGTERM');
    }));
    return child;
}

async function nginx(name, redis) {
    const port = await freePort();
    const at = path.join(folder, name);
    const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => `${one}_temp_path ${at}-${one};`).join(' ');
    const common = 'nchan_channel_id x; nchan_redis_pass redis; nchan_message_buffer_length 100;';
    const conf = file(`${name}.conf`, `load_module /usr/lib/nginx/modules/ngx_nchan_module.so;
user root; daemon off; worker_processes 1; pid ${at}.pid; error_log stderr crit; worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
    access_log off; ${places} keepalive_requests 10000000; nchan_shared_memory_size 64M;
    upstream redis { nchan_redis_server redis://127.0.0.1:${redis}; }
    server {
        listen 127.0.0.1:${port};
        location /pub { nchan_publisher; ${common} }
        location /sub { nchan_subscriber eventsource; nchan_subscriber_first_message newest; ${common} }
    }
}
`);
    const child = start('/usr/sbin/nginx', ['-e', 'stderr', '-p', folder, '-c', conf]);
    await eventually(() => isOpen(port), `nginx ${name} listens`);
    return { port, pids: children(child.pid) };
}

/** `keeps`: Redis answers when a message is on the disk. */
async function startNchan(name, keeps) {
    if (!['/usr/sbin/nginx', '/usr/lib/nginx/modules/ngx_nchan_module.so', '/usr/bin/redis-server'].every(existsSync)) {
        say(`no nchan with Redis here (Debian: libnginx-mod-nchan, redis-server): ${name} left out`);
        return [];
    }
    const port = await freePort();
    const redis = start('/usr/bin/redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', keeps ? 'yes' : 'no',
        '--appendfsync', 'always', '--appenddirname', `${name}-kept`, '--dir', folder, '--daemonize', 'no',
        '--logfile', path.join(folder, `${name}.log`)].map(String));
    await eventually(() => isOpen(port), 'Redis listens');
    const sides = [await nginx(`${name}-left`, port), await nginx(`${name}-right`, port)];
    return [{ name, sides, pids: [redis.pid, ...sides.flatMap(({ pids }) => pids)].join(',') }];
}

function nchanOptions(nchan, bytes) {
    const body = '########'.padEnd(Math.max(8, bytes), 'x');
    const write = encodeRequest(nchan.sides[0].port, { path: '/pub', headers: { 'Content-Type': 'text/plain' }, body });
    const read = encodeRequest(nchan.sides[1].port, { method: 'GET', path: '/sub', headers: { Accept: 'text/event-stream' } });
    return { 'write-port': nchan.sides[0].port, write: file(`${nchan.name}-write`, write), 'read-port': nchan.sides[1].port,
        read: file(`${nchan.name}-read`, read), pids: nchan.pids };
}

// ---- the run ----------------------------------------------------------------------------------------------------

async function measure() {
    const database = await Postgres.start(t, { shared_buffers: '128MB' });
    const args = ['--publish', 'pub:///', '--allow-write', '--workers', '1', '--request-rate', '0'];
    // The third runs only while three are measured, because it would also load the database.
    const nodes = await startNodes(t, 3, { databases: [database], args, isDirect: true });
    await nodes[2].drain();
    await prepare(nodes[0]);
    const nchans = [...await startNchan('nchan', false), ...await startNchan('nchan_kept', true)];
    const pids = () => [...nodes.slice(0, 2).map((node) => node.program.child.pid), ...pidsOfPostgres(database)].join(',');
    const entity = { 'write-port': nodes[0].port, write: upsertFile(nodes[0]), 'read-port': nodes[1].port,
        read: listenFile(nodes[1], 'entity:///thing@1/cross') };
    const notify = { 'write-port': nodes[0].port, write: notifyFile(nodes[0]), 'read-port': nodes[1].port,
        read: listenFile(nodes[1], 'pub:///') };
    // The same bytes: as many as an update has.
    const { bytes } = await cross({ ...entity, count: 20 });
    const others = nchans.map((nchan) => ({ name: nchan.name, options: nchanOptions(nchan, bytes - 40) }));
    const ofOthers = (what, options) => Object.fromEntries(others.map((other) =>
        [`${other.name}_${what}`, () => cross({ ...other.options, ...options })]));

    const kinds = {
        bare_notify: () => tool('bare_postgres', ['--url', database.url(), '--notify', '--rows', 500]),
        entity_one_stream: () => cross({ ...entity, count: 500, pids: pids() }),
        ...(asked.notify && { notify_one_stream: () => cross({ ...notify, count: 500, pids: pids() }) }),
        ...ofOthers('one_stream', { count: 500 }),
        ...Object.assign({}, ...fans.map((streams) => ({
            [`entity_streams_${streams}`]: () => cross({ ...entity, count: 200, streams, pids: pids() }),
            ...(asked.notify && { [`notify_streams_${streams}`]: () => cross({ ...notify, count: 200, streams, pids: pids() }) }),
            ...ofOthers(`streams_${streams}`, { count: 200, streams }),
        }))),
        bare_rows: () => tool('bare_postgres', ['--url', database.url(), '--rows', writes]),
        bare_rows_current: () => tool('bare_postgres', ['--url', database.url(), '--rows', writes, '--current']),
        upserts_1: () => upserts(database, nodes.slice(0, 1)),
        upserts_2: () => upserts(database, nodes.slice(0, 2)),
        upserts_3: async () => {
            await nodes[2].start();
            const result = await upserts(database, nodes);
            await nodes[2].drain();
            return result;
        },
        following: () => following(database, nodes),
    };
    const results = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
    for (let round = 0; round < rounds; round += 1) {
        for (const [name, measureOne] of Object.entries(kinds)) {
            results[name].push(await measureOne());
            say(`${round + 1} ${name} ${JSON.stringify(results[name].at(-1))}`);
        }
    }
    const all = Object.fromEntries(Object.entries(results).map(([name, list]) => [name, medians(list)]));
    const goals = [
        ['write to a stream at another node, p50, ms', all.entity_one_stream.last_us.p50 / 1000, '<=', 2],
        ...[1, 2, 3].map((n) => [`upserts of bare libpq, ${n} nodes`, all[`upserts_${n}`].per_s / all.bare_rows_current.per_s, '>=', 0.5]),
        ...others.flatMap(({ name }) => fans.map((streams) => [`CPU of a delivery of ${name}'s, ${streams} streams`,
            all[`entity_streams_${streams}`].cpu_us_per_delivery / all[`${name}_streams_${streams}`].cpu_us_per_delivery, '<=', 1])),
    ];
    for (const { name } of others) {
        for (const streams of fans) {
            const less = results[`entity_streams_${streams}`].filter(({ cpu_us_per_delivery }, round) =>
                cpu_us_per_delivery <= results[`${name}_streams_${streams}`][round].cpu_us_per_delivery).length;
            say(`${streams} streams: not more CPU than ${name} in ${less} of ${rounds} rounds`);
        }
    }
    for (const [name, value, how, goal] of goals) {
        const isMet = how === '<=' ? value <= goal : value >= goal;
        say(`goal: ${name}: ${value.toFixed(2)} (${how} ${goal}) ${isMet ? 'met' : 'missed'}`);
    }
    console.log(JSON.stringify({ bench: 'cluster', rounds, writes, streams: fans, ...all, goals: Object.fromEntries(goals.map(([name, value]) => [name, value])) }));
}

try {
    await measure();
} finally {
    for (const step of steps) {
        await step();
    }
    rmSync(folder, { recursive: true, force: true });
}
