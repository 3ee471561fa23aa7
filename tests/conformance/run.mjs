// SPDX-License-Identifier: MIT
//
// Run the official conformance suite against examples/conformance, each revision on its own wire,
// and compare with expected-failures.txt. Only what is listed there may fail, and what is listed
// must fail: the list may only shrink. Usage: `node run.mjs [REVISION…]`.
//
// Prints one line per scenario and ends with `# pass N` and `# fail M`.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.resolve(here, '../integration/node_modules');
const suite = path.join(modules, '@modelcontextprotocol/conformance/dist/index.js');
const examples = path.resolve(
    process.env.TIDINGS_EXAMPLES ?? path.join(here, '../../build/release/examples'),
);
const slow = process.env.TIDINGS_SLOW && process.env.TIDINGS_SLOW !== '0' ? 6 : 1;

/** The suite needs Node 22; use the one from npm when the running one is older. */
const node =
    Number(process.versions.node.split('.')[0]) >= 22
        ? process.execPath
        : path.join(modules, '.bin/node');

/** "REVISION SCENARIO" or "REVISION SCENARIO:CHECK" per line; `#` begins a comment. */
function readExpected() {
    const text = fs.readFileSync(path.join(here, 'expected-failures.txt'), 'utf8');
    const lines = text
        .split('\n')
        .map((line) => line.replace(/#.*/, '').trim())
        .filter(Boolean);
    return new Set(lines);
}

/** Start the example; resolves with its URL once it is ready. */
function startServer() {
    const file = path.join(examples, 'conformance');
    const child = spawn(file, ['--http', '127.0.0.1:0'], { stdio: ['ignore', 'inherit', 'pipe'] });
    const said = [];
    const ended = new Promise((resolve) => {
        child.on('exit', (code, signal) => resolve(signal ?? `status ${code}`));
    });
    return new Promise((resolve, reject) => {
        const fail = (why) => reject(new Error(`${file}: ${why}\n${said.join('\n')}`));
        const timer = setTimeout(() => fail('did not print its URL in time'), 10_000 * slow);
        child.on('error', (error) => fail(error.message));
        ended.then((how) => fail(`ended with ${how}`));
        createInterface({ input: child.stderr }).on('line', (line) => {
            said.push(line);
            const url = /http:\/\/\S+\/mcp/.exec(line)?.[0];
            if (url) {
                clearTimeout(timer);
                resolve({ child, url, said, ended });
            }
        });
    });
}

/** Run all scenarios of a revision: a map from scenario to its checks. */
function runSuite(url, revision) {
    const out = fs.mkdtempSync(path.join(os.tmpdir(), 'tidings-conformance-'));
    try {
        const args = [
            suite,
            'server',
            '--url',
            url,
            '--requirements',
            revision,
            '--output-dir',
            out,
        ];
        const end = spawnSync(node, args, {
            encoding: 'utf8',
            maxBuffer: 1 << 28,
            timeout: 300_000 * slow,
        });
        const scenarios = new Map();
        for (const folder of fs.readdirSync(out).sort()) {
            const name = /^server-(.*)-\d{4}-\d{2}-\d{2}T/.exec(folder)?.[1] ?? folder;
            const file = path.join(out, folder, 'checks.json');
            const checks = fs.existsSync(file)
                ? JSON.parse(fs.readFileSync(file, 'utf8'))
                : [{ id: name, status: 'FAILURE', errorMessage: 'the scenario did not finish' }];
            scenarios.set(name, checks);
        }
        if (scenarios.size === 0) {
            throw new Error(`the suite ran nothing at ${revision}:\n${end.stdout}\n${end.stderr}`);
        }
        return scenarios;
    } finally {
        fs.rmSync(out, { recursive: true, force: true });
    }
}

/** The scenarios a revision requires of servers: each must have run. */
function requiredScenarios(revision) {
    const file = path.join(path.dirname(suite), '../requirements', `${revision}.yaml`);
    const section = /^server:\n((?: {2}- .*\n)+)/m.exec(fs.readFileSync(file, 'utf8'))[1];
    return section.match(/[^\s-]\S*/g);
}

const failed = (check) => check.status === 'FAILURE' || check.status === 'WARNING';

/** Judge one scenario against the list: what failed unexpectedly, and what passed though listed. */
function judge(revision, scenario, checks, expected) {
    const whole = `${revision} ${scenario}`;
    const failing = checks.filter(failed);
    if (expected.has(whole)) {
        return {
            unexpected: [],
            stale: failing.length === 0 ? [whole] : [],
            known: failing.length,
        };
    }
    const unexpected = failing.filter((check) => !expected.has(`${whole}:${check.id}`));
    const stale = [...expected].filter(
        (entry) =>
            entry.startsWith(`${whole}:`) &&
            !failing.some((check) => entry === `${whole}:${check.id}`),
    );
    return { unexpected, stale, known: failing.length - unexpected.length };
}

async function main(revisions) {
    const expected = readExpected();
    const { child, url, said, ended } = await startServer();
    const count = { pass: 0, fail: 0, known: 0 };
    const seen = new Set();
    for (const revision of revisions) {
        const results = runSuite(url, revision);
        for (const scenario of requiredScenarios(revision)) {
            if (!results.has(scenario)) {
                count.fail += 1;
                console.log(`FAIL  ${revision} ${scenario}: the suite did not run it`);
            }
        }
        for (const [scenario, checks] of results) {
            seen.add(`${revision} ${scenario}`);
            const { unexpected, stale, known } = judge(revision, scenario, checks, expected);
            const verdict =
                unexpected.length + stale.length > 0 ? 'fail' : known > 0 ? 'known' : 'pass';
            count[verdict] += 1;
            const word = { fail: 'FAIL ', known: 'known', pass: 'ok   ' }[verdict];
            console.log(`${word} ${revision} ${scenario}`);
            for (const check of unexpected) {
                console.log(
                    `      ${check.id}: ${check.status}: ${check.errorMessage ?? check.description}`,
                );
            }
            for (const entry of stale) {
                console.log(`      "${entry}" passes now: remove it from expected-failures.txt`);
            }
        }
    }
    for (const entry of expected) {
        const [whole] = entry.split(':');
        if (revisions.includes(entry.split(' ')[0]) && !seen.has(whole)) {
            count.fail += 1;
            console.log(`FAIL  "${entry}" is listed but no such scenario ran`);
        }
    }
    child.kill('SIGTERM');
    const how = await ended;
    if (how !== 'status 0') {
        count.fail += 1;
        console.log(`FAIL  the server ended with ${how}:\n${said.join('\n')}`);
    }
    console.log(`# known failures ${count.known}\n# pass ${count.pass}\n# fail ${count.fail}`);
    process.exitCode = count.fail === 0 ? 0 : 1;
}

const asked = process.argv.slice(2);
main(asked.length > 0 ? asked : ['2025-11-25', '2026-07-28']).catch((error) => {
    console.log(`FAIL  ${error.message}\n# pass 0\n# fail 1`);
    process.exitCode = 1;
});
