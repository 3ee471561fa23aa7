// SPDX-License-Identifier: MIT
//
// The client library, driven by the example `explore`, against any server.

import assert from 'node:assert/strict';
import path from 'node:path';

import { EXAMPLES, Program } from './server.mjs';
import { DEADLINE, slow, within } from './wait.mjs';

/** Third-party servers start slowly on a busy machine. */
export const PATIENCE = 6 * DEADLINE;

/** `target` is an address, or the command of a server to launch. */
export function explorer(t, target, args, options = {}) {
    const where = Array.isArray(target) ? ['--', ...target, ';'] : [target];
    const program = new Program(t, path.join(EXAMPLES, 'explore'), [...where, ...args], {
        mayFail: options.mayFail,
        env: options.env,
    });
    program.output();
    return program;
}

/** Run it to its end. Returns its output lines. */
export async function explore(t, target, ...args) {
    const options = typeof args.at(-1) === 'object' ? args.pop() : {};
    const program = explorer(t, target, args, { ...options, mayFail: true });
    const { code } = await within(program.closed, `${program.name} to end`, PATIENCE);
    assert.equal(code, options.status ?? 0, `${program.name}: status ${code}\n${program.stderr}`);
    return { lines: program.stdout.seen, stderr: program.stderr };
}

/** Watch until `count` updates arrive; `poke` causes one, and is repeated until all arrive. */
export async function watched(t, target, uri, count, poke, options = {}) {
    const program = explorer(t, target, ['watch', uri, `${count}`], options);
    await program.lines.next((line) => line.startsWith(`watching ${uri}`), 'the acknowledgement', PATIENCE);
    const seen = [];
    for (let i = 0; i < count; i += 1) {
        await poke(i);
        seen.push(await program.stdout.next(() => true, 'an update', PATIENCE));
    }
    program.check(await within(program.exited, `${program.name} to end`, 10_000 * slow));
    return seen;
}
