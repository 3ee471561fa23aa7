// SPDX-License-Identifier: MIT
//
// Run commands to their end; each must succeed or fail as requested.

import assert from 'node:assert/strict';

import { run } from './server.mjs';

/** Run to success. Returns the output. */
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
