// SPDX-License-Identifier: MIT
//
// `tidings probe` against the tidings server over every transport, third-party servers and faulty servers. The tables
// in docs/how-to/test-a-server.md are the results; TIDINGS_UPDATE=1 writes them.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Certificates } from './lib/certs.mjs';
import { PATIENCE } from './lib/explore.mjs';
import { faulty } from './lib/faulty.mjs';
import { freePort } from './lib/port.mjs';
import { relay } from './lib/proxy.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { noTerminal, Terminal } from './lib/terminal.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const everything = here('./node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const page = here('../../docs/how-to/test-a-server.md');
const node = process.execPath;
const files = { 'a.txt': 'one\n', 'b.txt': 'two\n' };
const LONG = 4 * PATIENCE;
const often = ['--keepalive', '1s'];

/** A probe mostly waits, so many run in parallel. */
const together = { concurrency: 8 };

/** Runs a probe: { code, report, verdict(era, id), came(era, id) }. */
async function probe(t, args, options = {}) {
    const end = await run(t, ['probe', '--json', '--wait', '20s', ...args], { ms: LONG, ...options });
    assert.ok(end.stdout, `nothing was reported: ${end.stderr}`);
    const report = JSON.parse(end.stdout);
    const find = (era, id) => report.checks.find((check) => check.era === era && check.id === id);
    return {
        code: end.code,
        report,
        verdict: (era, id) => find(era, id)?.verdict,
        came: (era, id) => find(era, id)?.came,
    };
}

/** All checks of a report as lines, for messages and comparison. */
const told = ({ report }) => report.checks.map((check) => `${check.era} ${check.id} ${check.verdict}: ${check.came}`);
const failed = (result) => told(result).filter((line) => / fail: /.test(line));

/** Commands that change the subscribed resource, another resource without notification, and the list. */
const changes = (tree) => [
    '--change', `printf x >>'${tree.at('b.txt')}'; printf x >>'${tree.at('a.txt')}'`,
    '--change-list', `rm '${tree.at('c.txt')}' 2>/dev/null || touch '${tree.at('c.txt')}'`,
];

// ---- correct servers -----------------------------------------------------------------------------

const ways = {
    http: async (t) => {
        const { tree, url } = await serve(t, { files, args: often });
        return { tree, target: [url] };
    },
    https: async (t) => {
        const certs = new Certificates(t).make('server');
        const { tree, url } = await serve(t, { files, args: [...often, ...certs.args('server')] });
        return { tree, target: ['--cacert', certs.file('ca.pem'), url.replace('127.0.0.1', 'localhost')] };
    },
    'http+unix': async (t) => {
        const tree = new Tree(t, files);
        const socket = path.join(tree.path, '..', `${path.basename(tree.path)}.http`);
        await serve(t, { tree, args: [...often, '--http-unix', socket] });
        return { tree, target: [`http+unix:${socket}`] };
    },
    websocket: async (t) => {
        const server = await serve(t, { files, args: often });
        return { tree: server.tree, target: [server.url.replace('http', 'ws')] };
    },
    tcp: async (t) => {
        const server = await serve(t, { files, args: ['--tcp', '127.0.0.1:0'] });
        return { tree: server.tree, target: [server.stderr.match(/tcp:\/\/[^\s,]+/)[0]] };
    },
    unix: async (t) => {
        const tree = new Tree(t, files);
        const socket = path.join(tree.path, '..', `${path.basename(tree.path)}.sock`);
        await serve(t, { tree, args: ['--unix', socket] });
        return { tree, target: [`unix:${socket}`] };
    },
    stdio: (t) => {
        const tree = new Tree(t, files);
        return { tree, target: [], launch: ['--', BIN, 'serve', '--stdio', tree.path] };
    },
};
/** Third-party servers. */
async function stranger(t, args, env, ready) {
    const program = new Program(t, node, args, { env, mayFail: true });
    const isReady = () => program.stderr.match(ready);
    return (await eventually(isReady, `${args[0]} serves`, PATIENCE))[1];
}

/** A server on the SDK that counts by itself. */
async function counting(t, name) {
    const url = await stranger(t, [here(`lib/${name}.mjs`)], { PORT: '0' }, /^at (\S+)/m);
    const add = `'${node}' -e 'fetch("${url.replace('/mcp', '/add')}", { method: "POST" })'`;
    return ['--change-list', add, url, 'count://it'];
}

const strangers = {
    'server-everything': async (t) => {
        const port = await freePort();
        await stranger(t, [everything, 'streamableHttp'], { PORT: `${port}` }, /(listening)/);
        return ['--touch', `http://127.0.0.1:${port}/mcp`];
    },
    'SDK 1': (t) => counting(t, 'stranger-v1'),
    'SDK 2': (t) => counting(t, 'stranger-v2'),
};

/** The results for the tables. */
const ours = {};
const theirs = {};

describe('probe of servers', together, () => {
    for (const [name, open] of Object.entries(strangers)) {
        test(`verdicts for ${name} are correct`, async (t) => {
            const result = await probe(t, ['--idle', '1s', ...await open(t)]);
            theirs[name] = result;
            const eras = result.report.eras.map(({ era }) => era);
            assert.ok(eras.some((era) => result.verdict(era, 'updates') === 'pass'), told(result).join('\n'));
        });
    }

    for (const [name, open] of Object.entries(ways)) {
        test(`tidings server over ${name} fails no check in either era`, async (t) => {
            const { tree, target, launch = [] } = await open(t);
            const result = await probe(t, [...changes(tree), '--idle', '3s', ...target, tree.uri('a.txt'), ...launch]);
            ours[name] = result;
            assert.deepEqual(failed(result), []);
            assert.equal(result.code, 0);
            assert.equal(result.report.verdict, 'pass');
        });
    }

    test('resource and list change with the publish tool', async (t) => {
        const server = await serve(t, { args: ['--publish', 'app:///', '--allow-write'] });
        await run(t, ['publish', server.url, 'app:///x'], { input: 'x' });
        const result = await probe(t, ['--touch', server.url, 'app:///x']);
        assert.deepEqual(failed(result), []);
        assert.equal(result.came('modern', 'updates'), '3 changes, all were notified');
        assert.equal(result.verdict('legacy', 'resume'), 'pass');
        for (const era of ['modern', 'legacy']) {
            assert.match(result.came(era, 'list-changed'), /^notified \d+ ms after the list changed$/);
        }
        const { stdout } = await run(t, ['ls', '-q', server.url]);
        assert.equal(stdout.trim(), 'app:///x', 'what was added is gone');
    });

    test('resource changes with any tool and counted arguments', async (t) => {
        const server = await serve(t, { args: ['--publish', 'app:///', '--allow-write'] });
        await run(t, ['publish', server.url, 'app:///x'], { input: 'x' });
        const call = 'publish {"uri":"app:///x","text":"change {n}"}';
        const result = await probe(t, ['--era', 'modern', '--call', call, server.url, 'app:///x']);
        assert.deepEqual(failed(result), []);
        assert.equal(result.came('modern', 'updates'), '3 changes, all were notified');
        const { stdout } = await run(t, ['read', server.url, 'app:///x']);
        assert.match(stdout, /^change \d$/);
        const missing = await probe(t, ['--era', 'modern', '--call', 'nothing', server.url, 'app:///x']);
        assert.match(missing.came('modern', 'updates'), /^no change was made: .*nothing/);
    });

    test('probe of a single era works on demand', async (t) => {
        const server = await serve(t, { files });
        const { report } = await probe(t, ['--era', 'legacy', '--wait', '1s', server.url]);
        assert.deepEqual(report.eras.map(({ era, version }) => [era, version]), [['legacy', '2025-11-25']]);
        assert.deepEqual([...new Set(report.checks.map(({ era }) => era))], ['legacy']);
        assert.equal(report.checks.find(({ id }) => id === 'updates').verdict, 'skip');
    });

    test('verdict without a reported change is inconclusive, with its own status', async (t) => {
        const server = await serve(t, { files });
        const quiet = await probe(t, ['--wait', '100ms', server.url, server.uri('a.txt')]);
        assert.deepEqual(failed(quiet), []);
        assert.equal(quiet.report.verdict, 'inconclusive');
        assert.equal(quiet.code, 2);
        const unmade = await probe(t, ['--era', 'modern', '--change', 'exit 3', server.url, server.uri('a.txt')]);
        assert.deepEqual([unmade.report.verdict, unmade.code], ['inconclusive', 2]);
        const empty = await serve(t);
        const nothing = await probe(t, ['--era', 'modern', empty.url]);
        assert.deepEqual([nothing.report.verdict, nothing.code], ['inconclusive', 2]);
        const people = await run(t, ['probe', '--era', 'modern', '--wait', '100ms', server.url, server.uri('a.txt')]);
        assert.match(people.stdout, /skipped\ninconclusive: no notification arrived/);
        assert.equal(people.stderr, '', 'nothing is shown where nobody looks');
    });

    test('user at a terminal sees the steps and is asked for a change', { skip: noTerminal }, async (t) => {
        const server = await serve(t, { files });
        const uri = server.uri('a.txt');
        const terminal = new Terminal(t, [BIN, 'probe', '--era', 'modern', '--wait', '20s', server.url, uri]);
        await terminal.shows('listing its resources');
        for (const why of ['three times in all', 'once more', 'once more']) {
            await terminal.shows(`change it now: ${uri} (${why})`);
            server.tree.write('a.txt', why);
        }
        await terminal.shows(/pass {2}updates +3 updates came by themselves/);
        await terminal.shows('change it now');
        server.tree.write('a.txt', 'once more, which must not be told');
        await terminal.shows(/pass {2}unsubscribe/);
        assert.equal((await terminal.ended()).code, 0);
    });

    test('older revision is found and probed', async (t) => {
        const server = await serve(t, { files, args: ['--protocol-max', '2025-06-18'] });
        const { report } = await probe(t, ['--wait', '1s', server.url]);
        assert.deepEqual(report.eras.map(({ version }) => version), ['2025-06-18']);
    });

    test('server that cannot be probed is reported with its own status', async (t) => {
        const nowhere = `http://127.0.0.1:${await freePort()}/mcp`;
        const unreachable = await run(t, ['probe', nowhere]);
        assert.equal(unreachable.code, 74);
        assert.match(unreachable.stderr, /tidings probe: /);
        assert.equal(unreachable.stdout, '');
        const wrong = async (...args) => {
            const end = await run(t, ['probe', ...args, nowhere]);
            assert.equal(end.code, 64);
            return end.stderr;
        };
        assert.match(await wrong('--touch', '--change', 'true'), /--change, --call or --touch/);
        assert.match(await wrong('--call', 'x', '--change', 'true'), /--change, --call or --touch/);
        assert.match(await wrong('--call', 'set [1]'), /'set' must be followed by a JSON object, not '\[1\]'/);
        assert.match(await wrong('--call', ' {}'), /the name of a tool/);
        const server = await serve(t, { files });
        const broken = await probe(t, ['--era', 'modern', '--change', 'exit 3', '--change-list', 'exit 4', server.url, server.uri('a.txt')]);
        assert.match(broken.came('modern', 'updates'), /the command of --change ended with status 3/);
        assert.match(broken.came('modern', 'list-changed'), /the command of --change-list ended with status 4/);
    });

    test('change without effect differs from a change without notification', async (t) => {
        const server = await serve(t, { files });
        const commands = ['--change', 'true', '--change-list', 'true'];
        const result = await probe(t, ['--era', 'modern', '--wait', '1s', ...commands, server.url, server.uri('a.txt')]);
        assert.equal(result.code, 1);
        assert.equal(result.came('modern', 'updates'), '0 of 1 changes were notified within 1.0 s; the resource reads as before: was it changed?');
        assert.equal(result.came('modern', 'list-changed'), 'nothing within 1.0 s; the list reads as before: was it changed?');
    });
});

// ---- faulty servers ------------------------------------------------------------------------------

/** Expected failures besides their consequences; nothing else may fail. A fault that breaks no MUST has another
 * verdict. */
const faults = {
    none: {},
    unfiltered: {
        filtered: /^\d updates of something else, as faulty:\/\/other$/,
        bystander: /^\d updates for a client that never subscribed, as faulty:\/\/other$/,
        'list-unasked': /^\d came to a client that asked only for updates of resources$/,
    },
    early: { acknowledged: /^1 updates came before the acknowledgement$/ },
    misnamed: { subscribe: /the acknowledgement names subscription 4711, not the request it answers$/ },
    astray: { correlated: /^(\d) of \1 updates name subscription "somebody else"; it was acknowledged as \d+$/ },
    anonymous: {
        correlated: /^(\d) of \1 updates do not say which subscription they belong to$/,
        'list-changed': /^1 of 1 came without the subscriptionId of their subscription$/,
    },
    silent: {
        updates: /^0 of 1 changes were notified within 1\.0 s; the resource reads differently now$/,
        'list-changed (warn)': /^nothing within 1\.0 s; the list reads differently now$/,
        idle: /^open, but a change after 3\.0 s was not notified$/,
    },
    cutting: { 'idle (warn)': /^the stream ended after \d+\.\d s: the connection was closed in the middle of the answer, without its end$/ },
    resetting: { 'idle (warn)': /^the stream ended after \d+\.\d s: .*reset by peer$/ },
    ending: { 'idle (warn)': /^the stream ended after \d+\.\d s: the stream broke off$/ },
    gateway: { 'subscribe (warn)': /\(HTTP 504\): upstream timed out$/ },
    undeclared: { 'subscribe (skip)': /; resources\.subscribe is not declared$/ },
    unserved: { subscribe: /the server knows no subscriptions\/listen/ },
    sloppy: {
        origin: /^HTTP 200 with error -32000$/,
        'unknown-resource': /^error -32000$/,
        headers: /^HTTP 200 with error -32000$/,
        version: /^HTTP 200 with error -32000$/,
        'unknown-method': /^HTTP 200 with error -32000$/,
    },
};
/** Cut streams cause further failures that depend on timing. */
const isShort = (fault) => ['cutting', 'resetting', 'ending'].includes(fault);
/** Short waits if no message is expected; otherwise long ones for busy machines. */
const patience = (fault) => (isShort(fault) || ['silent', 'gateway', 'undeclared', 'unserved'].includes(fault) ? '1s' : '20s');

describe('faults of servers', together, () => {
    test('proxy that cuts silent streams is detected', async (t) => {
        const server = await serve(t, { files });
        const { url } = await relay(t, server, { idle: 1500 });
        const change = `printf x >>'${server.tree.at('a.txt')}'`;
        const result = await probe(t, ['--change', change, '--idle', '4s', url, server.uri('a.txt')]);
        assert.equal(result.verdict('modern', 'idle'), 'warn', told(result).join('\n'));
        assert.match(result.came('modern', 'idle'), /^the stream ended after \d\.\d s: the stream broke off$/);
        assert.equal(result.verdict('legacy', 'idle'), 'warn', told(result).join('\n'));
        assert.match(result.came('legacy', 'idle'), /^ended \d times within \d\.\d s, and was taken up again after Last-Event-ID$/);
    });

    for (const [fault, expected] of Object.entries(faults)) {
        test(`server that is ${fault} is detected`, async (t) => {
            const url = await faulty(t, fault);
            const add = `'${BIN}' call --quiet ${url} add`;
            const how = ['--era', 'modern', '--wait', patience(fault), '--idle', '3s', '--call', 'change', '--change-list', add];
            const result = await probe(t, [...how, url]);
            const failing = [];
            for (const [name, words] of Object.entries(expected)) {
                const [, id, verdict = 'fail'] = name.match(/^(\S+)(?: \((.*)\))?$/);
                assert.equal(result.verdict('modern', id), verdict, told(result).join('\n'));
                assert.match(result.came('modern', id), words);
                failing.push(...(verdict === 'fail' ? [id] : []));
            }
            if (!isShort(fault)) {
                assert.deepEqual(failed(result).map((line) => line.split(' ')[1]).sort(), failing.sort());
                const unseen = ['gateway', 'undeclared'].includes(fault);
                assert.equal(result.code, failing.length > 0 ? 1 : unseen ? 2 : 0, told(result).join('\n'));
            }
        });
    }

    test('careless server is detected in the legacy era', async (t) => {
        const result = await probe(t, ['--wait', '3s', '--', node, here('lib/careless.mjs')]);
        assert.equal(result.code, 0);
        assert.deepEqual(failed(result), []);
        for (const id of ['filtered', 'unsubscribe']) {
            assert.equal(result.verdict('legacy', id), 'warn', 'this era has no MUST for it');
        }
        assert.match(result.came('legacy', 'filtered'), /of something else, as careless:\/\/other/);
        assert.equal(result.verdict('legacy', 'list-changed'), 'warn');
        assert.equal(result.verdict('legacy', 'unknown-resource'), 'warn');
    });

    test('careless server is detected in the modern era, where only its pipe shows the end', async (t) => {
        const args = ['--era', 'modern', '--wait', '3s', '--', node, here('lib/careless.mjs')];
        const result = await probe(t, args, { env: { MODERN: '1' } });
        const wrong = ['filtered', 'list-unasked', 'unknown-resource', 'unsubscribe'];
        assert.deepEqual(failed(result).map((line) => line.split(' ')[1]).sort(), wrong, told(result).join('\n'));
    });

    test('text output has a line for each check and the expectation where it matters', async (t) => {
        const end = await run(t, ['probe', '--wait', '3s', '--', node, here('lib/careless.mjs')], { ms: LONG });
        assert.match(end.stdout, /^legacy 2025-11-25 over stdio: careless 1$/m);
        assert.match(end.stdout, /^ {2}pass {2}updates +3 updates came by themselves$/m);
        assert.match(end.stdout, /^ {2}warn {2}unsubscribe .*\n +expected: nothing after unsubscribing \(Resources: Subscriptions\)$/m);
        assert.match(end.stdout, /^\d+ passed, 0 failed, \d+ warnings, \d+ skipped\n$/m);
    });

    test('ping from the server counts as keep-alive', async (t) => {
        const args = ['--wait', '1s', '--idle', '3s', '--', node, here('lib/careless.mjs')];
        const result = await probe(t, args, { env: { PING: '1' } });
        assert.match(result.came('legacy', 'keep-alive'), /^\d+, after silence of at most \d\.\d s$/);
    });
});

// ---- the tables ----------------------------------------------------------------------------------

/** `columns`: [name, report, (report, id) → verdict]. The latency depends on the machine. */
function makeTable(columns) {
    const ids = columns.flatMap(([, { report }]) => report.checks.map(({ id }) => id)).filter((id) => id !== 'latency');
    const rows = [...new Set(ids)].map((id) => {
        const cells = columns.map(([, result, cell]) => cell(result, id).replace('fail', '**fail**'));
        return `| \`${id}\` | ${cells.join(' | ')} |`;
    });
    const head = ['| |', ...columns.map(([name]) => ` ${name} |`)].join('');
    return [head, `|${'---|'.repeat(columns.length + 1)}`, ...rows].join('\n');
}

/** Compares the part of the page between two comments, or updates it. */
function compare(name, table, why) {
    const text = fs.readFileSync(page, 'utf8');
    const between = new RegExp(`(<!-- table: ${name} -->\n)[^]*?(\n<!-- end of the table -->)`);
    if (process.env.TIDINGS_UPDATE) {
        fs.writeFileSync(page, text.replace(between, (_, before, after) => before + table + after));
    } else {
        assert.equal(text.match(between)[0], `<!-- table: ${name} -->\n${table}\n<!-- end of the table -->`, why);
    }
}

const everyLine = (columns) => columns.flatMap(([name, result]) => [name, ...told(result)]).join('\n');

test('transport table matches the results', () => {
    const cell = (result, id) => {
        const [modern, legacy] = ['modern', 'legacy'].map((era) => result.verdict(era, id) ?? '–');
        return modern === legacy ? modern : `${modern} / ${legacy}`;
    };
    const columns = Object.keys(ways).map((name) => [name, ours[name], cell]);
    compare('ours', makeTable(columns), everyLine(columns));
});

test('server table matches the results', () => {
    const of = (era) => (result, id) => result.verdict(era, id) ?? '–';
    const columns = [
        ['tidings, modern', ours.http, of('modern')],
        ['tidings, legacy', ours.http, of('legacy')],
        ['SDK 2, modern', theirs['SDK 2'], of('modern')],
        ['SDK 2, legacy', theirs['SDK 2'], of('legacy')],
        ['SDK 1, legacy', theirs['SDK 1'], of('legacy')],
        ['server-everything, legacy', theirs['server-everything'], of('legacy')],
    ];
    compare('servers', makeTable(columns), everyLine(columns));
});
