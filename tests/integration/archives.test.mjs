// SPDX-License-Identifier: MIT
//
// Release archives: the official tool accepts the bundle for hosts (.mcpb), the official schema accepts its manifest,
// and the bundle runs as the manifest says; server.json meets the rules of the MCP registry, and the Containerfile is
// valid.
//
// No npm package contains the schema of server.json. This file lists the rules of the 2025-12-11 text for the members
// in use. To check the whole file, save https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json
// and set TIDINGS_SERVER_SCHEMA=FILE.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { before, after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { unpackExtension, validateManifest } from '@anthropic-ai/mcpb';
import Ajv from 'ajv';
import formats from 'ajv-formats';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { validate } from 'dockerfile-utils';

import { defer } from './lib/cleanup.mjs';
import { Tree } from './lib/tree.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const MANIFEST_SCHEMA = fileURLToPath(new URL('node_modules/@anthropic-ai/mcpb/schemas/mcpb-manifest-v0.4.schema.json', import.meta.url));
const SERVER_SCHEMA = process.env.TIDINGS_SERVER_SCHEMA;

/** Violations of a draft 7 schema, as strings. */
const faults = (schema, value) => {
    const ajv = new Ajv({ strict: false, allErrors: true });
    formats(ajv);
    const check = ajv.compile(schema);
    return check(value) ? [] : check.errors.map((error) => `${error.instancePath} ${error.message}`);
};
const load = (file) => JSON.parse(readFileSync(file, 'utf8'));

/** The registry rules for the members in use. */
const text = (more = {}) => ({ type: 'string', ...more });
const object = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required, additionalProperties: false });
const OURS = object({
    $schema: text({ const: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json' }),
    name: text({ minLength: 3, maxLength: 200, pattern: '^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$' }),
    description: text({ minLength: 1, maxLength: 100 }),
    version: text({ maxLength: 255, pattern: '^\\d+\\.\\d+\\.\\d+$' }),
    websiteUrl: text({ format: 'uri' }),
    packages: {
        type: 'array',
        items: object({
            registryType: text({ const: 'mcpb' }),
            // The registry: no version member, a GitHub release asset, and "mcp" in its name.
            identifier: text({
                format: 'uri',
                pattern: '^https://github\\.com/[A-Za-z0-9-]{1,39}/[A-Za-z0-9._-]+/releases/download/[^/]+/[^/]+\\.mcpb$',
            }),
            fileSha256: text({ pattern: '^[a-f0-9]{64}$' }),
            transport: object({ type: text({ const: 'stdio' }) }),
        }),
    },
});
let folder;
let bundle;

before(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'tidings-archives-'));
    execFileSync(`${root}tools/build-archives`, [folder], { stdio: 'pipe' });
    bundle = path.join(folder, readdirSync(folder).find((name) => name.endsWith('.mcpb')));
});
after(() => rmSync(folder, { recursive: true, force: true }));

test('tarball contains alerts, a dashboard and units', () => {
    const tarball = path.join(folder, readdirSync(folder).find((name) => name.endsWith('.tar.gz')));
    const names = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8' }).split('\n').map((name) => name.replace(/^[^/]*\//, ''));
    for (const name of ['prometheus/tidings.rules.yml', 'grafana/tidings.json', 'systemd/tidings.service', 'tidings.json']) {
        assert.ok(names.includes(`share/${name}`), name);
    }
});

test('official tool accepts the bundle and a host that installs it gets a live server', async (t) => {
    const inside = path.join(folder, 'bundle');
    assert.ok(await unpackExtension({ mcpbPath: bundle, outputDir: inside, silent: true }));
    assert.ok(validateManifest(path.join(inside, 'manifest.json')));
    const manifest = load(path.join(inside, 'manifest.json'));
    const schema = load(MANIFEST_SCHEMA);
    assert.equal(manifest.manifest_version, '0.4');
    assert.deepEqual(faults(schema, manifest), []);
    for (const broken of [{ ...manifest, server: undefined }, { ...manifest, manifest_version: '9' }, { ...manifest, none: 1 }]) {
        assert.notDeepEqual(faults(schema, JSON.parse(JSON.stringify(broken))), [], 'it would say so');
    }
    const { command, args } = manifest.server.mcp_config;
    const tree = new Tree(t, { 'a.txt': 'one' });
    const program = command.replace('${__dirname}', inside);
    chmodSync(program, 0o755); // zip does not always preserve it
    const words = args.flatMap((word) => (word === '${user_config.folders}' ? [tree.path] : [word]));
    const client = new Client({ name: 'host', version: '1' });
    await client.connect(new StdioClientTransport({ command: program, args: words }));
    defer(t, () => client.close());
    const { resources } = await client.listResources();
    assert.ok(resources.some((resource) => resource.name === 'a.txt'));
});

test('server_json_satisfies_the_rules_of_the_registry_for_bundles', () => {
    const server = load(path.join(folder, 'server.json'));
    assert.deepEqual(faults(OURS, server), []);
    const [one] = server.packages;
    const packages = (changed) => ({ ...server, packages: [{ ...one, ...changed }] });
    const broken = [
        { ...server, description: 'x'.repeat(101) },
        packages({ version: server.version }),
        packages({ registryBaseUrl: 'https://github.com' }),
        packages({ fileSha256: '' }),
        packages({ identifier: 'https://tidings.dev/download/tidings.mcpb' }),
        packages({ identifier: one.identifier.replace('https:', 'http:') }),
    ];
    broken.forEach((other) => assert.notDeepEqual(faults(OURS, other), [], JSON.stringify(other)));
    assert.match(one.identifier, new RegExp(`/v${server.version}/`));
    assert.equal(path.basename(new URL(one.identifier).pathname), path.basename(bundle));
    assert.equal(one.fileSha256, createHash('sha256').update(readFileSync(bundle)).digest('hex'));
});

test('server.json matches the official schema', { skip: !SERVER_SCHEMA && 'TIDINGS_SERVER_SCHEMA is not set' }, () => {
    const schema = load(SERVER_SCHEMA);
    const server = load(path.join(folder, 'server.json'));
    assert.equal(schema.$id, server.$schema);
    assert.deepEqual(faults(schema, server), []);
    assert.notDeepEqual(faults(schema, { ...server, description: 'x'.repeat(101) }), [], 'it would say so');
});

test('Containerfile passes its linter', () => {
    const found = validate(readFileSync(`${root}contrib/container/Containerfile`, 'utf8'));
    assert.deepEqual(found.map((one) => `${one.range.start.line + 1}: ${one.message}`), []);
    const broken = validate('FORM debian:12\n'); // it would report that
    assert.notEqual(broken.length, 0);
});
