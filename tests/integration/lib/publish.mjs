// SPDX-License-Identifier: MIT
//
// examples/publish: one resource that changes on demand.

import assert from 'node:assert/strict';

import { defer } from './cleanup.mjs';
import { Connection } from './http.mjs';
import { serveExample } from './server.mjs';

export const RESOURCE = 'bench://r/1';

/** Start it; `publish(metadata)` announces one change and resolves when the server accepts it. */
export async function servePublish(t, args = []) {
    const server = await serveExample(t, 'publish', args);
    const connection = await Connection.open(server);
    defer(t, () => connection.close());
    let turn = Promise.resolve();
    server.publish = (metadata = {}) => {
        turn = turn.then(async () => {
            const response = await connection.request({
                path: '/publish',
                headers: { 'Content-Type': 'application/json' },
                body: JSON.stringify(metadata),
            });
            assert.equal(response.status, 204, response.text);
        });
        return turn;
    };
    return server;
}
