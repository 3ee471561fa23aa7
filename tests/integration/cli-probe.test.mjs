// SPDX-License-Identifier: MIT
//
// `tidings probe` against our own server over every transport, and against servers that nobody here
// wrote. The table in docs/probe.md is what comes out; TIDINGS_UPDATE=1 writes it.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Certificates } from './lib/certs.mjs';
import { PATIENCE } from './lib/explore.mjs';
import { freePort } from './lib/port.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const everything = here('./node_modules/@modelcontextprotocol/server-everything/dist/index.js');
const page = here('../../docs/probe.md');
const node = process.execPath;
const files = { 'a.txt': 'one\n', 'b.txt': 'two\n' };
const LONG = 4 * PATIENCE;

/** Run it: { code, report, verdict(era, id), came(era, id) }. */
async function probe(t, args) {
    const end = await run(t, ['probe', '--json', '--wait', '20s', ...args], { ms: LONG });
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

/** What every check of a report says, as lines: for messages, and to compare. */
const told = ({ report }) => report.checks.map((check) => `${check.era} ${check.id} ${check.verdict}: ${check.came}`);
const failed = (result) => told(result).filter((line) => / fail: /.test(line));

/** A command that changes the file that is subscribed to, and another one, of which nothing must be told. */
const change = (tree) => `printf x >>'${tree.at('b.txt')}'; printf x >>'${tree.at('a.txt')}'`;

// ---- ours ----------------------------------------------------------------------------------------

const ways = {
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
    'http+unix': async (t) => {
        const tree = new Tree(t, files);
        const socket = path.join(tree.path, '..', `${path.basename(tree.path)}.http`);
        await serve(t, { tree, args: ['--http-unix', socket] });
        return { tree, target: [`http+unix:${socket}`] };
    },
    websocket: async (t) => {
        const server = await serve(t, { files });
        return { tree: server.tree, target: [server.url.replace('http', 'ws')] };
    },
    https: async (t) => {
        const certs = new Certificates(t).make('server');
        const { tree, url } = await serve(t, { files, args: certs.args('server') });
        return { tree, target: ['--cacert', certs.file('ca.pem'), url.replace('127.0.0.1', 'localhost')] };
    },
    stdio: (t) => {
        const tree = new Tree(t, files);
        return { tree, target: [], launch: ['--', BIN, 'serve', '--stdio', tree.path] };
    },
};

for (const [name, open] of Object.entries(ways)) {
    test(`our own server over ${name}: nothing fails in either era`, async (t) => {
        const { tree, target, launch = [] } = await open(t);
        const result = await probe(t, ['--change', change(tree), '--idle', '1s', ...target, tree.uri('a.txt'), ...launch]);
        assert.deepEqual(failed(result), []);
        assert.equal(result.code, 0);
        assert.equal(result.report.verdict, 'pass');
        for (const era of ['modern', 'legacy']) {
            const needed = ['subscribe', 'updates', 'filtered', 'correlated', 'unsubscribe', 'unknown-method', 'idle'];
            assert.deepEqual(needed.filter((id) => result.verdict(era, id) !== 'pass'), [], told(result).join('\n'));
        }
    });
}

test('a resource is changed by the publish tool', async (t) => {
    const server = await serve(t, { args: ['--publish', 'app:///', '--allow-write'] });
    await run(t, ['publish', server.url, 'app:///x'], { input: 'x' });
    const result = await probe(t, ['--touch', server.url, 'app:///x']);
    assert.deepEqual(failed(result), []);
    assert.equal(result.came('modern', 'updates'), '3 changes, each was told');
    assert.equal(result.verdict('legacy', 'resume'), 'pass');
});

test('one era alone is probed on demand', async (t) => {
    const server = await serve(t, { files });
    const { report } = await probe(t, ['--era', 'legacy', '--wait', '1s', server.url]);
    assert.deepEqual(report.eras.map(({ era, version }) => [era, version]), [['legacy', '2025-11-25']]);
    assert.deepEqual([...new Set(report.checks.map(({ era }) => era))], ['legacy']);
    assert.equal(report.checks.find(({ id }) => id === 'updates').verdict, 'skip');
});

test('an older revision is found and probed', async (t) => {
    const server = await serve(t, { files, args: ['--protocol-max', '2025-06-18'] });
    const { report } = await probe(t, ['--wait', '1s', server.url]);
    assert.deepEqual(report.eras.map(({ version }) => version), ['2025-06-18']);
});

// ---- others --------------------------------------------------------------------------------------

test('a careless server is caught', async (t) => {
    const result = await probe(t, ['--wait', '3s', '--', node, here('lib/careless.mjs')]);
    assert.equal(result.code, 1);
    assert.equal(result.report.verdict, 'fail');
    assert.deepEqual(failed(result).map((line) => line.split(' ')[1]), ['filtered', 'unsubscribe']);
    assert.match(result.came('legacy', 'filtered'), /of something else, as careless:\/\/other/);
    assert.equal(result.verdict('legacy', 'list-changed'), 'warn');
    assert.equal(result.verdict('legacy', 'unknown-resource'), 'warn');
});

test('a server that never tells anything fails, and is not waited for without end', async (t) => {
    const server = await serve(t, { files });
    const args = ['--era', 'modern', '--wait', '1s', '--change', 'true', server.url, server.uri('a.txt')];
    const result = await probe(t, args);
    assert.equal(result.code, 1);
    assert.equal(result.came('modern', 'updates'), '0 of 1 changes were told within 1.0 s');
});

test('for people there is a line for each check, and what was expected where it matters', async (t) => {
    const end = await run(t, ['probe', '--wait', '3s', '--', node, here('lib/careless.mjs')], { ms: LONG });
    assert.match(end.stdout, /^legacy 2025-11-25 over stdio: careless 1$/m);
    assert.match(end.stdout, /^ {2}pass {2}updates +3 updates came by themselves$/m);
    assert.match(end.stdout, /^ {2}fail {2}unsubscribe .*\n +expected: nothing after unsubscribing \(Resources: Subscriptions\)$/m);
    assert.match(end.stdout, /^\d+ passed, 2 failed, \d+ warnings, \d+ skipped\n$/m);
});

test('what cannot be probed is said, with a status of its own', async (t) => {
    const port = await freePort();
    const unreachable = await run(t, ['probe', `http://127.0.0.1:${port}/mcp`]);
    assert.equal(unreachable.code, 74);
    assert.match(unreachable.stderr, /tidings probe: /);
    assert.equal(unreachable.stdout, '');
    const both = await run(t, ['probe', '--touch', '--change', 'true', `http://127.0.0.1:${port}/mcp`]);
    assert.equal(both.code, 64);
    const server = await serve(t, { files });
    const broken = await probe(t, ['--era', 'modern', '--change', 'exit 3', server.url, server.uri('a.txt')]);
    assert.match(broken.came('modern', 'updates'), /the command of --change ended with status 3/);
});

// ---- the table -----------------------------------------------------------------------------------

async function stranger(t, args, env, ready) {
    const program = new Program(t, node, args, { env, mayFail: true });
    const isReady = () => program.stderr.match(ready);
    return (await eventually(isReady, `${args[0]} serves`, PATIENCE))[1];
}

/** Column by column: how the server is started and probed, and which era the column is about. */
async function columns(t) {
    const ours = await serve(t, { files });
    const v1 = await stranger(t, [here('lib/stranger-v1.mjs')], { PORT: '0' }, /^at (\S+)/m);
    const v2 = await stranger(t, [here('lib/stranger-v2.mjs')], { PORT: '0' }, /^at (\S+)/m);
    const port = await freePort();
    await stranger(t, [everything, 'streamableHttp'], { PORT: `${port}` }, /(listening)/);
    const own = await probe(t, ['--idle', '1s', '--change', change(ours.tree), ours.url, ours.uri('a.txt')]);
    const first = await probe(t, ['--idle', '1s', v1, 'count://it']);
    const second = await probe(t, ['--idle', '1s', v2, 'count://it']);
    const third = await probe(t, ['--idle', '1s', '--touch', `http://127.0.0.1:${port}/mcp`]);
    return [
        ['tidings, modern', own, 'modern'],
        ['tidings, legacy', own, 'legacy'],
        ['SDK 2, modern', second, 'modern'],
        ['SDK 2, legacy', second, 'legacy'],
        ['SDK 1, legacy', first, 'legacy'],
        ['server-everything, legacy', third, 'legacy'],
    ];
}

test('the table of docs/probe.md is what comes out', async (t) => {
    const found = await columns(t);
    // How soon depends on the machine.
    const ids = found.flatMap(([, { report }]) => report.checks.map(({ id }) => id)).filter((id) => id !== 'latency');
    const rows = [...new Set(ids)].map((id) => {
        const cells = found.map(([, result, era]) => {
            const verdict = result.verdict(era, id) ?? '–';
            return verdict === 'fail' ? '**fail**' : verdict;
        });
        return `| \`${id}\` | ${cells.join(' | ')} |`;
    });
    const head = ['', ...found.map(([name]) => name)].join(' | ');
    const table = [`| ${head} |`.replace('|  |', '| |'), `|${'---|'.repeat(found.length + 1)}`, ...rows].join('\n');
    const text = fs.readFileSync(page, 'utf8');
    const between = /(<!-- table -->\n)[^]*?(\n<!-- end of the table -->)/;
    if (process.env.TIDINGS_UPDATE) {
        fs.writeFileSync(page, text.replace(between, (_, before, after) => before + table + after));
    } else {
        assert.equal(text.match(between)[0], `<!-- table -->\n${table}\n<!-- end of the table -->`,
            found.flatMap(([name, result]) => [name, ...told(result)]).join('\n'));
    }
});
