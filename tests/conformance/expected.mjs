// SPDX-License-Identifier: MIT
//
// Shared by both halves of the conformance suite: the scenarios that a revision requires, and the list of allowed
// failures, which may only shrink.

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.resolve(here, '../integration/node_modules');

export const revisions = ['2025-11-25', '2026-07-28'];
/** Revisions without a list of requirements: all their scenarios. */
export const older = ['2025-03-26', '2025-06-18'];
export const suite = path.join(modules, '@modelcontextprotocol/conformance/dist/index.js');
export const examples = path.resolve(
    process.env.TIDINGS_EXAMPLES ?? path.join(here, '../../build/release/examples'),
);
export const slow = process.env.TIDINGS_SLOW && process.env.TIDINGS_SLOW !== '0' ? 6 : 1;

/** The suite needs Node 22; an older Node runs the one from npm. */
export const node =
    Number(process.versions.node.split('.')[0]) >= 22
        ? process.execPath
        : path.join(modules, '.bin/node');

/** The entries of a half, `server` or `client`: "REVISION SCENARIO" or "REVISION SCENARIO:CHECK". */
export function readExpected(half) {
    const text = fs.readFileSync(path.join(here, 'expected-failures.txt'), 'utf8');
    const entries = new Set();
    let section = 'server';
    for (const line of text.split('\n').map((line) => line.replace(/#.*/, '').trim())) {
        const head = /^\[(\w+)\]$/.exec(line)?.[1];
        section = head ?? section;
        if (line && !head && section === half) {
            entries.add(line);
        }
    }
    return entries;
}

/** The scenarios that a revision requires of a half, and its extension scenarios. */
export function requiredScenarios(revision, half) {
    const file = path.join(path.dirname(suite), '../requirements', `${revision}.yaml`);
    const text = fs.readFileSync(file, 'utf8');
    const section = new RegExp(`^${half}:\\n((?: {2}- .*\\n)+)`, 'm').exec(text)[1];
    return section.match(/[^\s-]\S*/g);
}

/** Every scenario of a half: a map from its name to its revisions, none for an extension. */
export function allScenarios(half) {
    const { stdout } = spawnSync(node, [suite, 'list', `--${half}`], { encoding: 'utf8' });
    const all = new Map();
    for (const [, name, marks] of stdout.matchAll(/^ {2}- (\S+) \[([^\]]*)\]$/gm)) {
        all.set(name, marks === 'extension' ? [] : marks.split(','));
    }
    if (all.size === 0) {
        throw new Error(`the suite lists no scenarios of the half ${half}`);
    }
    return all;
}

/** The options that run an extension scenario, because no revision lists it. */
export const extension = (scenario, revision = '2026-07-28') => [
    '--scenario',
    scenario,
    '--spec-version',
    revision,
    '--force',
];

/** A scenario without allowed failures. */
export const whole = (checks) =>
    checks.map((check) => (check.status === 'SKIPPED' ? { ...check, status: 'FAILURE' } : check));

const failed = (check) => check.status === 'FAILURE' || check.status === 'WARNING';

/** Compares one scenario with the list: unexpected failures, and listed checks that passed. */
function judge(whole, checks, expected) {
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

/** Counts and prints: one line per scenario, `# pass N` and `# fail M` at the end. */
export class Report {
    constructor(half) {
        this.half = half;
        this.expected = readExpected(half);
        this.count = { pass: 0, fail: 0, known: 0 };
        this.seen = new Set();
    }

    fail(why) {
        this.count.fail += 1;
        console.log(`FAIL  ${why}`);
    }

    /** All scenarios of a revision, a map from each to its checks. */
    add(revision, results) {
        for (const scenario of requiredScenarios(revision, this.half)) {
            if (!results.has(scenario)) {
                this.fail(`${revision} ${scenario}: the suite did not run it`);
            }
        }
        for (const [scenario, checks] of results) {
            this.addScenario(`${revision} ${scenario}`, checks);
        }
    }

    addScenario(whole, checks) {
        this.seen.add(whole);
        const { unexpected, stale, known } = judge(whole, checks, this.expected);
        const verdict =
            unexpected.length + stale.length > 0 ? 'fail' : known > 0 ? 'known' : 'pass';
        this.count[verdict] += 1;
        const word = { fail: 'FAIL ', known: 'known', pass: 'ok   ' }[verdict];
        console.log(`${word} ${whole}`);
        for (const check of unexpected) {
            console.log(
                `      ${check.id}: ${check.status}: ${check.errorMessage ?? check.description}`,
            );
        }
        for (const entry of stale) {
            console.log(`      "${entry}" passes now: remove it from expected-failures.txt`);
        }
    }

    /** The extension scenarios that no list has run. */
    unseenExtensions() {
        return [...allScenarios(this.half)]
            .filter(([name, at]) => at.length === 0 && !this.seen.has(`2026-07-28 ${name}`))
            .map(([name]) => name);
    }

    /** Checks that every scenario ran at each of its revisions, and that docs/design/conformance.md has the same
     * counts. */
    complete() {
        const counts = {};
        for (const [name, at] of allScenarios(this.half)) {
            for (const column of at.length > 0 ? at : ['extension']) {
                counts[column] = (counts[column] ?? 0) + 1;
            }
            for (const revision of at.length > 0 ? at : ['2026-07-28']) {
                if (!this.seen.has(`${revision} ${name}`)) {
                    this.fail(`${revision} ${name}: the suite has it, and nobody ran it`);
                }
            }
        }
        const page = fs.readFileSync(path.join(here, '../../docs/design/conformance.md'), 'utf8');
        for (const [column, count] of Object.entries(counts)) {
            if (!page.includes(`| ${this.half} | ${column} | ${count} |`)) {
                this.fail(`docs/design/conformance.md does not say that ${this.half} has ${count} of ${column}`);
            }
        }
    }

    end(asked) {
        for (const entry of this.expected) {
            const [whole] = entry.split(':');
            if (asked.includes(entry.split(' ')[0]) && !this.seen.has(whole)) {
                this.fail(`"${entry}" is listed but no such scenario ran`);
            }
        }
        const { known, pass, fail } = this.count;
        console.log(`# known failures ${known}\n# pass ${pass}\n# fail ${fail}`);
        process.exitCode = fail === 0 ? 0 : 1;
    }
}

/** Runs a half for the revisions named on the command line, by default all. */
export function runHalf(main) {
    const asked = process.argv.slice(2);
    main(asked.length > 0 ? asked : revisions).catch((error) => {
        console.log(`FAIL  ${error.message}\n# pass 0\n# fail 1`);
        process.exitCode = 1;
    });
}
