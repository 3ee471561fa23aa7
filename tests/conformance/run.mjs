// SPDX-License-Identifier: MIT
//
// Run the server half of the official conformance suite against examples/conformance, each revision
// on its own wire, and compare with expected-failures.txt. Only what is listed there may fail, and
// what is listed must fail: the list may only shrink. Usage: `node run.mjs [REVISION…]`.
//
// Prints one line per scenario and ends with `# pass N` and `# fail M`.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

import { examples, node, Report, runHalf, slow, suite } from './expected.mjs';

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

runHalf(async (revisions) => {
    const { child, url, said, ended } = await startServer();
    const report = new Report('server');
    for (const revision of revisions) {
        report.add(revision, runSuite(url, revision));
    }
    child.kill('SIGTERM');
    const how = await ended;
    if (how !== 'status 0') {
        report.fail(`the server ended with ${how}:\n${said.join('\n')}`);
    }
    report.end(revisions);
});
