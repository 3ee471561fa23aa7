// SPDX-License-Identifier: MIT
//
// Commands that are run to their end, and must succeed or fail as they say.

import assert from 'node:assert/strict';

import { run } from './server.mjs';

/** Run to success; what it printed. */
export async function good(t, args, options) {
    const end = await run(t, args, options);
    assert.equal(end.code, 0, `${args.join(' ')}: ${end.stderr}`);
    return end.stdout;
}

/** Run to failure with this status and a message that matches. */
export async function bad(t, code, says, args, options) {
    const end = await run(t, args, options);
    assert.equal(end.code, code, `${end.stdout}${end.stderr}`);
    assert.match(end.stderr, says);
    return end;
}

export const lines = (text) => text.split('\n').filter((line) => line !== '');
export const objects = (text) => lines(text).map((line) => JSON.parse(line));
