// SPDX-License-Identifier: MIT
//
// Documents that tidings follows exactly on request (docs/reference/profiles.md): the tests replay their examples
// against examples/documents, which serves the named resources.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';

import { defer } from './cleanup.mjs';
import { request } from './http.mjs';
import { post } from './rpc.mjs';
import { serveExample } from './server.mjs';
import { Inbox, within } from './wait.mjs';

/** examples/documents in a profile; `changed(uri, metadata)`, or `changed()` for everything. */
export async function serveDocuments(t, profile, args = []) {
    const server = await serveExample(t, 'documents', ['--profile', profile, ...args]);
    server.changed = async (uri, metadata = {}) => {
        const path = uri === undefined ? '/changed' : `/changed?uri=${uri}`;
        const response = await request(server, { path, body: JSON.stringify(metadata) });
        assert.equal(response.status, 204, response.text);
    };
    return server;
}

/** A printed example: JSON with `//` comments at line ends. */
export const printed = (text) => JSON.parse(text.replace(/ +\/\/ .*$/gm, ''));

/** POST a printed request in a session. Returns the answer, which must have status 200. */
export async function ask(server, text, headers = {}) {
    const response = await post(server, printed(text), headers);
    assert.equal(response.status, 200, response.text);
    return response.json ?? response.events.message();
}

/** Run a printed command, with the address of the server instead of http://localhost:5000. */
export function shell(t, server, command) {
    const text = command.replaceAll('http://localhost:5000', `http://localhost:${server.port}`);
    const child = spawn('sh', ['-c', `exec ${text}`], { stdio: ['ignore', 'pipe', 'pipe'] });
    const output = new Inbox(`the output of ${text}`);
    let all = '';
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
        const lines = (all + chunk).split('\n');
        const before = all.split('\n').length - 1;
        lines.slice(before, -1).forEach((line) => output.push(line));
        all += chunk;
    });
    const closed = new Promise((resolve) => child.on('close', resolve));
    defer(t, async () => {
        child.kill();
        await closed;
    });
    output.all = async () => {
        assert.equal(await within(closed, `the end of ${text}`), 0, text);
        return all;
    };
    return output;
}
