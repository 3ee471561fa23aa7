// SPDX-License-Identifier: MIT
//
// Lenient but valid JSON from servers on the official SDKs and on FastMCP, over HTTP and launched. The client keeps
// and logs usable values. Other values cause an immediate error or a reported gap in the watch; nothing is lost
// silently.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { bad } from './lib/cli.mjs';
import { BIN, Program, run } from './lib/server.mjs';

const odd = fileURLToPath(new URL('lib/odd-json.mjs', import.meta.url));
const PATIENT = ['--timeout', '60s']; // a failure must not come from a timeout

/** The arguments that name the server, before and after the command's own. */
async function server(t, sdk, how) {
    if (how === 'launched') {
        return { before: [], after: ['--', process.execPath, odd], env: { SDK: sdk } };
    }
    const program = new Program(t, process.execPath, [odd], { env: { SDK: sdk, PORT: '0' }, mayFail: true });
    const line = await program.lines.next((said) => said.startsWith('at '), 'where it is');
    return { before: ['-t', line.slice(3)], after: [], env: {} };
}

for (const [sdk, era] of [['1', 'legacy'], ['2', 'modern'], ['FastMCP', 'legacy']]) {
    for (const how of ['HTTP', 'launched']) {
        const title = `${sdk === 'FastMCP' ? sdk : `SDK ${sdk}`}, ${how}`;
        const call = (at, tool) => ['call', '--json', '--era', era, ...PATIENT, ...at.before, tool, ...at.after];

        test(`${title}: usable values are kept, and repairs are logged`, async (t) => {
            const at = await server(t, sdk, how);
            const options = { env: at.env };
            const names = ['half', 'twice', 'big', 'deep'];
            const [read, half, twice, big, deep] = await Promise.all([
                ['read', '--era', era, ...PATIENT, ...at.before, 'odd://it', ...at.after],
                ...names.map((name) => call(at, name)),
            ].map((args) => run(t, args, options)));
            assert.equal(JSON.parse(half.stdout).structuredContent.text, 'a\ufffdz');
            assert.match(half.stderr, /the server sent half of a surrogate pair: U\+FFFD replaces it/);
            assert.deepEqual(JSON.parse(twice.stdout).structuredContent, { n: 2 });
            assert.match(twice.stderr, /the server sent a key twice in an object: the last value counts/);
            assert.match(big.stdout.replace(/\s/g, ''), /"n":18446744073709552000}/);
            assert.equal(big.stderr, '');
            assert.equal(read.stdout, 'a\ufffdz');
            assert.match(read.stderr, /the server sent half of a surrogate pair: U\+FFFD replaces it/);
            assert.ok(deep.stdout.replace(/\s/g, '').includes(`${'['.repeat(100)}1${']'.repeat(100)}`));
        });

        test(`${title}: unreadable answer is an immediate error with its position`, async (t) => {
            const at = await server(t, sdk, how);
            const says = /cannot be read: line 1 column \d+: nested deeper than 512 levels/;
            await bad(t, 69, says, call(at, 'too-deep'), { env: at.env });
        });

        test(`${title}: unreadable update reports a gap, and the next one is delivered`, async (t) => {
            const at = await server(t, sdk, how);
            const args = ['watch', '--json', '--era', era, ...at.before, 'odd://it', ...at.after];
            const program = new Program(t, BIN, args, { env: at.env, mayFail: true });
            const out = program.output();
            await program.lines.next(
                (line) => /missed changes of odd:\/\/it: .*cannot be read: line 1 column \d+: nested/.test(line), 'the gap');
            const gap = JSON.parse(await out.next((line) => JSON.parse(line).truncated, 'an update for it'));
            assert.equal(gap.uri, 'odd://it');
            assert.equal(gap.synthetic, true);
            await out.next((line) => !JSON.parse(line).truncated, 'an update as the server sent it');
        });
    }
}
