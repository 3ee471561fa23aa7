// SPDX-License-Identifier: MIT
//
// Run the integration tests: `node run.mjs [--core] [--client] [--delivery] [--stepped] [FILE…]`. `--core`
// is the quick subset over HTTP that also runs under the sanitizers, `--client` what the client side adds
// to that, `--delivery` the part about what subscribers are sent, which also runs without io_uring,
// `--stepped` the part that also runs against a host that steps the server. Ends with `# failed in FILE` for each file in which a test failed,
// `# skip K`, `# pass N` and `# fail M`; fails if any did.

import { readdirSync } from 'node:fs';
import path from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';

import { slow } from './lib/wait.mjs';

const CORE = [
    'eras', 'sessions', 'listen', 'http', 'security-hosts', 'security-paths', 'security-input', 'watch',
    'options', 'subscriptions', 'churn', 'prompts', 'schemas', 'transport-tcp', 'transport-unix', 'sockets',
    'legacy-sse', 'tls', 'auth', 'auth-keys',
];

// One thread, but strangers' messages.
const CLIENT = ['cli-client', 'cli-watch', 'cli-sync', 'cli-write', 'client-faithful', 'client-transports', 'mirror'];

// What the thread of the turns does: watching directories is another's, signals are the program's.
const STEPPED = CORE.filter((name) => !['watch', 'schemas', 'tls', 'auth'].includes(name));
const DELIVERY = ['sessions', 'listen', 'watch', 'options', 'subscriptions'];

// They take longest, mostly waiting, and so begin first: else the last of them would run alone in the end.
const LONGEST = [
    'faults', 'cluster-chaos', 'resource-fuzz', 'cli-probe', 'auth-rotation', 'change-tools', 'documentation', 'limits-input', 'sync-large', 'sync-safety', 'tls',
    'client-strangers', 'auth-clients', 'auth-expiry', 'idle', 'watch', 'websocket', 'reads', 'document-erlmcp', 'auth-keys',
    'durable', 'cli-completions', 'cli-target', 'security-browser', 'inspector', 'entities', 'cluster-proxies', 'cluster-sessions',
].map((name) => `${name}.test.mjs`);

const FUZZING = [process.env.TIDINGS_FAULT_SECONDS ?? 0, process.env.TIDINGS_RESOURCE_SECONDS ?? 0].map(Number);

const here = path.dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const named = args.filter((arg) => !arg.startsWith('--'));
const all = readdirSync(here).filter((name) => name.endsWith('.test.mjs'));
const subsets = { '--core': CORE, '--client': CLIENT, '--delivery': DELIVERY, '--stepped': STEPPED };
const subset = args.flatMap((arg) => subsets[arg] ?? []).map((name) => `${name}.test.mjs`);
const files = subset.length > 0 ? subset : all;
const chosen = named.length > 0 ? named : files;
const ordered = [...LONGEST.filter((name) => chosen.includes(name)), ...chosen.filter((name) => !LONGEST.includes(name))];

const counts = { pass: 0, fail: 0, skip: 0 };
const failedIn = new Set();
const tests = run({
    files: ordered.map((name) => path.resolve(here, name)),
    concurrency: Number(process.env.TIDINGS_JOBS ?? 2),
    timeout: Math.max(180_000, 1000 * (Math.max(...FUZZING) + 60)) * slow,
});
const leaf = (event) => event.details?.type !== 'suite' && !event.skip && event.nesting >= 0;
tests.on('test:pass', (event) => {
    counts.pass += leaf(event) ? 1 : 0;
    counts.skip += event.skip ? 1 : 0;
});
tests.on('test:fail', (event) => {
    counts.fail += leaf(event) ? 1 : 0;
    failedIn.add(path.basename(event.file ?? event.name));
    process.exitCode = 1;
});
const report = tests.compose(spec);
report.on('end', () => {
    for (const file of failedIn) {
        process.stdout.write(`# failed in ${file}\n`);
    }
    process.stdout.write(`# skip ${counts.skip}\n# pass ${counts.pass}\n# fail ${counts.fail}\n`);
});
report.pipe(process.stdout, { end: false });
