// SPDX-License-Identifier: MIT
//
// `tidings watch`: updates that name no resource, and what it says and exits with when something is
// refused, invalid or interrupted.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDocuments } from './lib/document.mjs';
import { BIN, Program } from './lib/server.mjs';

test('an update without URI is reported for each subscription', async (t) => {
    const server = await serveDocuments(t, 'gateway', ['--window', '0']);
    const uris = ['file://data/users.json', 'system://metrics'];
    const args = ['--json', '--era', 'legacy', '--count', '3', server.url, ...uris];
    const watch = new Program(t, BIN, ['watch', ...args]);
    const output = watch.output();
    for (const uri of uris) {
        await watch.lines.next((line) => line === `watching ${uri}`, `${uri} to be watched`);
    }
    await server.changed();
    for (const uri of uris) {
        await output.next((line) => line.includes(uri), uri);
    }
    await server.changed(uris[0]);
    assert.equal((await watch.closed).code, 0);
    const changes = output.seen.map((line) => JSON.parse(line));
    assert.ok(changes.slice(0, 2).every(({ params }) => !('uri' in params)));
    assert.deepEqual(changes.map(({ uri, subscribedUri, truncated }) => [uri, subscribedUri, truncated]), [
        [uris[0], uris[0], true],
        [uris[1], uris[1], true],
        [uris[0], undefined, undefined],
    ]);
});
