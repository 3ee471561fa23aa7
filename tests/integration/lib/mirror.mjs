// SPDX-License-Identifier: MIT
//
// `tidings sync` and its output directory, and servers with custom answers.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';

import { defer } from './cleanup.mjs';
import { MODERN } from './rpc.mjs';
import { run } from './server.mjs';

/** Everything in a directory except the mirror's own files: path -> bytes, directories with null. */
export function contents(path, below = '') {
    const all = {};
    for (const entry of fs.readdirSync(`${path}/${below}`, { withFileTypes: true })) {
        const name = `${below}${entry.name}`;
        if (entry.isDirectory()) {
            Object.assign(all, { [`${name}/`]: null }, contents(path, `${name}/`));
        } else if (!name.startsWith('.tidings-')) {
            all[name] = fs.readFileSync(`${path}/${name}`).toString('latin1');
        }
    }
    return all;
}

/** Returns true if two directories are equal and do not change during the read. */
export function same(one, other) {
    try {
        assert.deepEqual(contents(one), contents(other));
        return true;
    } catch (error) {
        if (error.code === 'ENOENT' || error.code === 'ENOTDIR' || error.code === 'ERR_ASSERTION') {
            return false;
        }
        throw error;
    }
}

const actions = (stdout) => stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));

/** `sync --once`. Returns its actions and its status. */
export async function once(t, server, dir, ...args) {
    const end = await run(t, ['sync', '--once', '--json', ...args, server.url, server.uri(''), dir]);
    return { ...end, did: actions(end.stdout) };
}

/**
 * A modern server over HTTP that answers with these functions: method -> (params) => result, which may be a promise.
 * A thrown object is the error of the answer, and a thrown number its HTTP status without a body. With `children` it
 * lists the children of a resource.
 */
export async function serveAnswers(t, answers, { children = false } = {}) {
    const list = children ? { extensions: { 'dev.tidings/resource-metadata': {} } } : {};
    const all = {
        'server/discover': () => ({
            supportedVersions: [MODERN],
            capabilities: { resources: { subscribe: true }, ...list },
            serverInfo: { name: 'answers', version: '1' },
        }),
        ...answers,
    };
    const answer = async ({ method, params }) => {
        if (!all[method]) {
            return { error: { code: -32601, message: 'no such method' } };
        }
        try {
            return { result: { resultType: 'complete', ...await all[method](params) } };
        } catch (error) {
            return { error };
        }
    };
    const server = http.createServer((req, res) => {
        let body = '';
        req.setEncoding('utf8').on('data', (text) => (body += text));
        req.on('end', async () => {
            const message = JSON.parse(body);
            const said = await answer(message);
            const status = typeof said.error === 'number' ? said.error : said.error?.code === -32601 ? 404 : 200;
            res.writeHead(status, { 'Content-Type': 'application/json' });
            res.end(typeof said.error === 'number' ? '' : JSON.stringify({ jsonrpc: '2.0', id: message.id, ...said }));
        });
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return { url: `http://127.0.0.1:${server.address().port}/mcp`, uri: (name) => `app:///${name}` };
}
