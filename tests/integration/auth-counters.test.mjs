// SPDX-License-Identifier: MIT
//
// Token counters: tidings://self/tokens.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { modern } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';

const uri = 'tidings://self/tokens';

test('metrics count accepted and cached tokens and refusals by reason', async (t) => {
    const tokens = new TokenFile(t);
    const alice = tokens.give('alice');
    const args = [...tokens.args, '--self', '--workers', '2'];
    const server = await serve(t, { files: { 'a.txt': '1' }, args });
    for (const [token, status] of [['unknown', 401], ['unknown', 401], ['=', 400], [alice, 200]]) {
        const answer = await modern(as(server, token), 'resources/read', { uri });
        assert.equal(answer.status, status);
    }
    const answer = await modern(as(server, alice), 'resources/read', { uri });
    const counts = JSON.parse(answer.json.result.contents[0].text);
    // Two of her requests, perhaps on two workers; each worker verifies the token.
    assert.equal(counts.verified + counts.remembered, 2);
    assert.ok(counts.verified >= 1);
    assert.equal(counts.invalid, 2);
    assert.ok(
        counts.refused.some((r) => r.reason === 'the token is not known here' && r.count === 2),
        JSON.stringify(counts),
    );
    assert.equal(counts.unavailable + counts.waiting + counts.keyFetches, 0);
});

test('metrics have no token counters without authentication', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self'] });
    const answer = await modern(server, 'resources/read', { uri });
    assert.equal(JSON.parse(answer.json.result.contents[0].text).verified, 0);
});
