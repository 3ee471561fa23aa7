// SPDX-License-Identifier: MIT
//
// Run the server half of the official conformance suite against examples/conformance, each revision on its own wire,
// all scenarios: required ones, older revisions and extensions; the skills scenarios also run against `tidings serve
// --skills`. expected-failures.txt lists the allowed failures: each of them must fail, and the list may only shrink.
// Usage: `node run.mjs [REVISION…]`, which runs only the required scenarios of these revisions. Prints one line per
// scenario and ends with `# pass N` and `# fail M`.
//
// Prints one line per scenario and ends with `# pass N` and `# fail M`.

import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

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

const program = process.env.TIDINGS_BIN ?? path.join(examples, '../tidings');

/** Starts a server; resolves with its URL once it is ready. */
function startServer(file = path.join(examples, 'conformance'), args = []) {
    const child = spawn(file, [...args, '--http', '127.0.0.1:0'], {
        stdio: ['ignore', 'inherit', 'pipe'],
    });
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

/** Runs scenarios; `which` are the options that select them: a map from scenario to its checks. */
function runSuite(url, which) {
    const out = fs.mkdtempSync(path.join(os.tmpdir(), 'tidings-conformance-'));
    try {
        const args = [
            suite,
            'server',
            '--url',
            url,
            ...which,
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
            throw new Error(`the suite ran nothing at ${which.join(' ')}:\n${end.stdout}\n${end.stderr}`);
        }
        return scenarios;
    } finally {
        fs.rmSync(out, { recursive: true, force: true });
    }
}

/** Skill directories in the usual layout, served by the program. */
async function runSkills(report, scenarios) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tidings-skills-'));
    const put = (name, text) => {
        fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
        fs.writeFileSync(path.join(folder, name), text);
    };
    put('pdf/SKILL.md', '---\nname: pdf\ndescription: >-\n  Fill in\n  forms\n---\n\nBody\n');
    put('pdf/references/FORMS.md', '# Forms\n');
    put('acme/billing/refunds/examples/email.md', 'Dear …\n');
    put('acme/billing/refunds/SKILL.md', '---\nname: refunds\ndescription: Refunds\n---\n');
    try {
        const server = await startServer(program, ['serve', '--skills', folder]);
        for (const scenario of scenarios) {
            for (const [name, checks] of runSuite(server.url, extension(scenario))) {
                report.addScenario(`2026-07-28 ${name} of tidings serve --skills`, whole(checks));
            }
        }
        await stopServer(report, server);
    } finally {
        fs.rmSync(folder, { recursive: true, force: true });
    }
}

async function stopServer(report, { child, ended, said }) {
    child.kill('SIGTERM');
    const how = await ended;
    if (how !== 'status 0') {
        report.fail(`the server ended with ${how}:\n${said.join('\n')}`);
    }
}

runHalf(async (revisions) => {
    const server = await startServer();
    const { url } = server;
    const report = new Report('server');
    for (const revision of revisions) {
        report.add(revision, runSuite(url, ['--requirements', revision]));
    }
    const isAll = revisions === required;
    for (const revision of isAll ? older : []) {
        const which = ['--suite', 'all', '--spec-version', revision];
        runSuite(url, which).forEach((checks, name) => {
            report.addScenario(`${revision} ${name}`, checks);
        });
    }
    const extensions = isAll ? report.unseenExtensions() : [];
    const skills = extensions.filter((name) => name.startsWith('sep-2640'));
    for (const scenario of extensions) {
        for (const [name, checks] of runSuite(url, extension(scenario))) {
            report.addScenario(
                `2026-07-28 ${name}`,
                skills.includes(scenario) ? whole(checks) : checks,
            );
        }
    }
    await stopServer(report, server);
    if (isAll) {
        await runSkills(report, skills);
        report.complete();
    }
    report.end(revisions);
});
