// SPDX-License-Identifier: MIT
//
// Clients from several addresses (all of 127.0.0.0/8 is local), and the limits table of a server with --self, read
// from a separate address so that the reads do not count for other clients.

import assert from 'node:assert/strict';

import { defer } from './cleanup.mjs';
import { Connection } from './http.mjs';
import { freshId, meta, modernHeaders } from './rpc.mjs';

const json = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

/** The request of one modern message. */
export const modernRequest = (method, params = {}, id = freshId()) => ({
    method: 'POST',
    headers: { ...json, ...modernHeaders(method, params) },
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params: { _meta: meta(), ...params } }),
});

/** A connection from that address, closed with the test. */
export async function from(t, server, address) {
    const connection = await Connection.open(server, { localAddress: address });
    defer(t, () => connection.close());
    return connection;
}

/** The rows of tidings://self/limits by name. */
export async function limitsOf(t, server, address = '127.0.0.99') {
    const connection = await from(t, server, address);
    const limits = await limitsOn(connection);
    connection.close();
    return limits;
}

/** The rows on a persistent connection, so that the query changes no count. */
export async function limitsOn(connection) {
    const uri = 'tidings://self/limits';
    const response = await connection.request(modernRequest('resources/read', { uri }));
    assert.equal(response.status, 200, response.text);
    const rows = JSON.parse(response.json.result.contents[0].text);
    return Object.fromEntries(rows.map((row) => [row.limit, row]));
}

/** The number of times that clients reached the limit. */
export const reached = async (t, server, name) => (await limitsOf(t, server))[name].reached;

/** The members of error data in every rejection by a limit. */
export function refused(error, limit, value, { retries = true } = {}) {
    assert.equal(error.data.limit, limit, JSON.stringify(error));
    assert.equal(error.data.value, value);
    assert.equal(error.data.reason, 'limit');
    assert.ok(error.message.includes(`--${limit}`), error.message);
    assert.equal(error.data.retryAfterMs > 0, retries);
}

/** An HTTP response with the same error data. */
export function refusedWith(response, status, limit, value) {
    assert.equal(response.status, status, response.text);
    refused(response.json.error, limit, value);
    const seconds = Number(response.headers.get('retry-after'));
    assert.equal(seconds, Math.ceil(response.json.error.data.retryAfterMs / 1000));
}
