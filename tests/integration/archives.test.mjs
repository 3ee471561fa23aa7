// SPDX-License-Identifier: MIT
//
// What can be downloaded: the bundle for hosts (.mcpb) is accepted by the official tool and runs as its manifest says, server.json
// is what the MCP registry takes, the Containerfile is one.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { before, after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { unpackExtension, validateManifest } from '@anthropic-ai/mcpb';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { validate } from 'dockerfile-utils';

import { defer } from './lib/cleanup.mjs';
import { Tree } from './lib/tree.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
let folder;
let bundle;

before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'tidings-archives-'));
    execFileSync(`${root}tools/build-archives`, [folder], { stdio: 'pipe' });
    bundle = path.join(folder, readdirSync(folder).find((name) => name.endsWith('.mcpb')));
});
after(() => rmSync(folder, { recursive: true, force: true }));

test('the bundle is accepted by the official tool, and a host that installs it gets a live server', async (t) => {
    const inside = path.join(folder, 'bundle');
    assert.ok(await unpackExtension({ mcpbPath: bundle, outputDir: inside, silent: true }));
    assert.ok(validateManifest(path.join(inside, 'manifest.json')));
    const manifest = JSON.parse(readFileSync(path.join(inside, 'manifest.json'), 'utf8'));
    const { command, args } = manifest.server.mcp_config;
    const tree = new Tree(t, { 'a.txt': 'one' });
    const program = command.replace('${__dirname}', inside);
    chmodSync(program, 0o755); // which zip does not keep for everybody
    const words = args.flatMap((word) => (word === '${user_config.folders}' ? [tree.path] : [word]));
    const client = new Client({ name: 'host', version: '1' });
    await client.connect(new StdioClientTransport({ command: program, args: words }));
    defer(t, () => client.close());
    const { resources } = await client.listResources();
    assert.ok(resources.some((resource) => resource.name === 'a.txt'));
});

test('server.json is as the registry asks, and its hash is that of the bundle', () => {
    const server = JSON.parse(readFileSync(path.join(folder, 'server.json'), 'utf8'));
    assert.match(server.$schema, /^https:\/\/static\.modelcontextprotocol\.io\/schemas\/\d{4}-\d\d-\d\d\/server\.schema\.json$/);
    assert.match(server.name, /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/);
    assert.ok(server.description.length >= 1 && server.description.length <= 100, `${server.description.length} characters`);
    assert.match(server.version, /^\d+\.\d+\.\d+$/);
    const [one] = server.packages;
    assert.deepEqual(Object.keys(one).sort(), ['fileSha256', 'identifier', 'registryType', 'transport', 'version']);
    assert.deepEqual([one.registryType, one.version, one.transport], ['mcpb', server.version, { type: 'stdio' }]);
    assert.equal(path.basename(new URL(one.identifier).pathname), path.basename(bundle));
    assert.equal(one.fileSha256, createHash('sha256').update(readFileSync(bundle)).digest('hex'));
});

test('the Containerfile has no mistake', () => {
    const found = validate(readFileSync(`${root}contrib/container/Containerfile`, 'utf8'));
    assert.deepEqual(found.map((one) => `${one.range.start.line + 1}: ${one.message}`), []);
    const broken = validate('FORM debian:12\n'); // it would say so
    assert.notEqual(broken.length, 0);
});
