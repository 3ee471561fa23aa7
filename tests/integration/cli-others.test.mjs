// SPDX-License-Identifier: MIT
//
// Third-party servers on the command line: a server without resources, addresses without an MCP server, and programs
// that crash at launch.

import assert from 'node:assert/strict';
import { chmodSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';

import { bad, objects } from './lib/cli.mjs';
import { defer } from './lib/cleanup.mjs';
import { run } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE } from './lib/wait.mjs';

/** A server with tools only. */
const TOOLS_ONLY = `
import { createInterface } from 'node:readline';
const serverInfo = { name: 'tools-only', version: '1' };
const known = {
    initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo },
    'tools/list': { tools: [] },
    ping: {},
};
for await (const line of createInterface({ input: process.stdin })) {
    const { id, method } = JSON.parse(line);
    const answer = known[method] ? { result: known[method] } : { error: { code: -32601, message: 'Method not found' } };
    if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
}
`;

test('server without resources is reported and probe skips dependent checks', async (t) => {
    const place = new Tree(t, { 'server.mjs': TOOLS_ONLY });
    const server = ['--', process.execPath, place.at('server.mjs')];
    for (const args of [['ls'], ['read', 'a:///b'], ['templates'], ['tree'], ['stat', 'a:///b']]) {
        await bad(t, 69, /the server offers no resources/, [...args, ...server]);
    }
    const { stdout } = await run(t, ['probe', '--json', '--wait', '1s', ...server], { ms: 6 * DEADLINE });
    const checks = objects(stdout).flatMap((one) => one.checks ?? [one]);
    for (const name of ['capabilities', 'list', 'bad-params', 'unknown-resource']) {
        const check = checks.find((one) => one.id === name);
        assert.equal(check?.verdict, 'skip', `${name}: ${stdout}`);
        assert.match(JSON.stringify(check), /offers no resources/);
    }
    assert.deepEqual(checks.filter((one) => one.verdict === 'fail'), []);
});

/** A server with one resource that cannot list children. */
const ONE_RESOURCE = TOOLS_ONLY.replace('tools: {}', 'resources: { subscribe: true }').replace('ping: {}',
    "ping: {}, 'resources/subscribe': {}, 'resources/list': { resources: [{ uri: 'app://one/note', name: 'note' }] }");

test('sync of a single resource reports that it is no directory', async (t) => {
    const place = new Tree(t, { 'server.mjs': ONE_RESOURCE });
    const server = ['--', process.execPath, place.at('server.mjs')];
    for (const options of [['-1'], ['--dry-run'], []]) {
        const args = ['sync', ...options, 'app://one/note', place.at('copy'), ...server];
        await bad(t, 64, /'app:\/\/one\/note' is a single resource.*'tidings read' prints it/, args);
    }
    const { code, stderr } = await run(t, ['sync', '--dry-run', 'app://one/', place.at('other'), ...server]);
    assert.equal(code, 0, stderr);
});

test('/mcp is suggested only for a non-MCP URL without a path', async (t) => {
    const server = http.createServer((request, response) => response.writeHead(404).end('nothing here'));
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    defer(t, () => server.close());
    const url = `http://127.0.0.1:${server.address().port}`;
    await bad(t, 66, /no MCP endpoint.*name its path too, which is \/mcp/, ['ls', `${url}/`]);
    for (const path of ['/mcp', '/api/v1/mcp', '/sse']) {
        const { stderr } = await bad(t, 66, /no MCP endpoint.*\(HTTP 404\): ask the server's operator/, ['ls', url + path]);
        assert.doesNotMatch(stderr, /tidings serves|\/mcp/);
    }
});

/** A program that prints the reason and crashes before it reads anything. */
const CRASHES = `#!/bin/sh
echo start >>"$0.starts"
echo "Error: Cannot find module 'left'" >&2
exit 3
`;

test('program that crashes at once is launched once and its output is shown', async (t) => {
    for (const args of [['ls'], ['info'], ['watch', 'a:///b'], ['sync', 'a:///', 'copy'], ['probe']]) {
        const place = new Tree(t, { 'crash.sh': CRASHES });
        const program = place.at('crash.sh');
        chmodSync(program, 0o755);
        const end = await run(t, [...args, '--', program], { cwd: place.path });
        assert.notEqual(end.code, 0);
        assert.match(end.stderr, /Cannot find module 'left'[^]*ended with status 3/, args[0]);
        assert.equal(readFileSync(`${program}.starts`, 'utf8'), 'start\n', args[0]);
    }
});

/** A program that exits on unknown methods, like older servers. */
const ENDS = TOOLS_ONLY.replace('const answer', "if (method === 'server/discover') process.exit(4);\n    const answer");

test('program that exits on an unknown method is relaunched in the other era', async (t) => {
    assert.notEqual(ENDS, TOOLS_ONLY);
    const place = new Tree(t, { 'server.mjs': ENDS });
    await bad(t, 69, /the server offers no resources/, ['ls', '--', process.execPath, place.at('server.mjs')]);
});
