// SPDX-License-Identifier: MIT
//
// Tools that require arguments as header fields too (x-mcp-header, 2026-07-28): a server that rejects calls without
// them, and a list with an invalid tool.

import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { bad, good } from './lib/cli.mjs';
import { run, serveExample } from './lib/server.mjs';

const property = (name) => ({ type: 'string', 'x-mcp-header': name });
const TOOLS = [
    { name: 'right', inputSchema: { type: 'object', properties: { region: property('Region') } } },
    { name: 'wrong\u001b[31m', inputSchema: { type: 'object', properties: { a: property('Evil\r\nX: y') } } },
];

/** `stale`: the version of `right` in the first list. */
async function serveTools(t, stale) {
    const heard = [];
    const server = http.createServer(async (request, response) => {
        const { id, method, params } = JSON.parse(Buffer.concat(await request.toArray()));
        const field = request.headers['mcp-param-region'];
        heard.push(method === 'tools/call' ? `${method} ${field}` : method);
        const results = {
            'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } },
            'tools/list': { tools: stale && heard.filter((line) => line === 'tools/list').length === 1 ? stale : TOOLS },
            'tools/call': { content: [{ type: 'text', text: `in ${params.arguments?.region}` }] },
        };
        const isRefused = method === 'tools/call' && field !== params.arguments.region;
        response.writeHead(isRefused ? 400 : 200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({
            jsonrpc: '2.0', id,
            ...(isRefused ? { error: { code: -32020, message: 'header mismatch' } }
                : { result: { resultType: 'complete', ttlMs: 0, cacheScope: 'private', ...results[method] } }),
        }));
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return { heard, url: `http://127.0.0.1:${server.address().port}/mcp` };
}

test('--args lists tools first and sends the fields with the first call', async (t) => {
    const { heard, url } = await serveTools(t);
    assert.equal(await good(t, ['call', url, 'right', '--args', '{"region":"north"}']), 'in north\n');
    assert.deepEqual(heard, ['server/discover', 'tools/list', 'tools/call north']);
});

test('--args does not reach a tool with invalid field declarations', async (t) => {
    const { heard, url } = await serveTools(t);
    await bad(t, 65, /is left out: its x-mcp-header is not a header field name/, ['call', url, TOOLS[1].name, '--args', '{}']);
    assert.deepEqual(heard, ['server/discover', 'tools/list']);
});

test('missing fields are sent after a second list', async (t) => {
    const { heard, url } = await serveTools(t, [{ name: 'right', inputSchema: { type: 'object' } }]);
    assert.equal(await good(t, ['call', url, 'right', '--args', '{"region":"north"}']), 'in north\n');
    assert.deepEqual(heard, ['server/discover', 'tools/list', 'tools/call undefined', 'tools/list', 'tools/call north']);
});

test('legacy calls have no fields and need no list', async (t) => {
    const server = await serveExample(t, 'conformance', []);
    const end = await run(t, ['call', '-v', '--era', 'legacy', server.url, 'test_simple_text', '--args', '{}']);
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stderr, /"tools\/call"/);
    assert.doesNotMatch(end.stderr, /tools\/list"/);
});

test('fields of a known tool are sent at once', async (t) => {
    const { heard, url } = await serveTools(t);
    assert.equal(await good(t, ['call', url, 'right', 'region=south']), 'in south\n');
    assert.deepEqual(heard, ['server/discover', 'tools/list', 'tools/call south']);
});

test('tool with invalid field declarations is omitted, with a harmless warning', async (t) => {
    const { heard, url } = await serveTools(t);
    const end = await run(t, ['tools', url]);
    assert.deepEqual([end.code, end.stdout.trim()], [0, 'right']);
    assert.match(end.stderr, /the tool 'wrong\S*\[31m' is left out: its x-mcp-header is not a header field name/);
    assert.doesNotMatch(end.stderr, /\x1b/);
    await bad(t, 65, /is left out/, ['call', url, TOOLS[1].name, 'a=1']);
    assert.ok(!heard.some((method) => method.startsWith('tools/call')));
});
