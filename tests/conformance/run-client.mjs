// SPDX-License-Identifier: MIT
//
// Run the client half of the official conformance suite with client.c (built beside the examples) as the client under
// test, each revision on its own wire, all scenarios: required ones, older revisions and extensions. The section
// [client] of expected-failures.txt lists the allowed failures, and each of them must fail. Usage: `node run-client.mjs
// [REVISION…]`, which runs only the required scenarios of these revisions. Prints one line per scenario and ends with
// `# pass N` and `# fail M`.
//
// Prints one line per scenario and ends with `# pass N` and `# fail M`.

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import {
    examples,
    extension,
    node,
    older,
    Report,
    revisions as required,
    runHalf,
    slow,
    suite,
    whole,
} from './expected.mjs';

const client = path.join(examples, 'conformance_client');

/** Scenarios in which the client must reject the server and use no answer. */
const refused = [
    'sep-2640-client-verify-digest',
    'sep-2640-client-verify-frontmatter',
    'sep-2640-client-verify-size',
    'auth/iss-normalized',
    'auth/iss-supported-missing',
    'auth/iss-unexpected',
    'auth/iss-wrong-issuer',
    'auth/metadata-issuer-mismatch',
    'auth/resource-mismatch',
    'auth/scope-retry-limit',
];

/** The failure that the client reports for a scenario; nothing on success. */
function ownVerdict(scenario, folder) {
    const read = (name) => {
        const file = path.join(folder, name);
        return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : '';
    };
    const last = read('stdout.txt').split('\n').at(-1);
    // The client must reject a server and report its failure.
    const mustFail = refused.includes(scenario);
    if (mustFail ? last.startsWith('failed: ') : last === 'done') {
        return [];
    }
    const why = last || `it did not end in order: ${read('stderr.txt').slice(-500)}`;
    return [{ id: 'client', status: 'FAILURE', errorMessage: why }];
}

/** Runs scenarios of a revision; `which` are the options that select them: a map from scenario to its checks. */
function runSuite(revision, which = ['--requirements', revision]) {
    const out = fs.mkdtempSync(path.join(os.tmpdir(), 'tidings-conformance-'));
    try {
        const timeout = String(30_000 * slow);
        const command = `'${client}'`; // passed through a shell
        const args = ['--command', command, ...which, '--timeout', timeout];
        const end = spawnSync(node, [suite, 'client', ...args, '--output-dir', out], {
            encoding: 'utf8',
            maxBuffer: 1 << 28,
            timeout: 300_000 * slow,
        });
        const scenarios = new Map();
        const files = fs.readdirSync(out, { recursive: true }).sort();
        for (const file of files.filter((file) => path.basename(file) === 'checks.json')) {
            const folder = path.dirname(file);
            const name = /^(.*)-\d{4}-\d{2}-\d{2}T/.exec(folder)?.[1] ?? folder;
            const checks = JSON.parse(fs.readFileSync(path.join(out, file), 'utf8'));
            scenarios.set(name, [...checks, ...ownVerdict(name, path.join(out, folder))]);
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
    if (!fs.existsSync(client)) {
        throw new Error(`${client} is not there: build the examples`);
    }
    const report = new Report('client');
    for (const revision of revisions) {
        report.add(revision, runSuite(revision));
    }
    const isAll = revisions === required;
    for (const revision of isAll ? older : []) {
        runSuite(revision, ['--suite', 'all', '--spec-version', revision]).forEach((checks, name) => {
            report.addScenario(`${revision} ${name}`, checks);
        });
    }
    for (const scenario of isAll ? report.unseenExtensions() : []) {
        runSuite('2026-07-28', extension(scenario)).forEach((checks, name) => {
            report.addScenario(`2026-07-28 ${name}`, whole(checks));
        });
    }
    if (isAll) {
        report.complete();
    }
    report.end(revisions);
});
