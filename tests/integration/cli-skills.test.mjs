// SPDX-License-Identifier: MIT
//
// `tidings skills` and `skill` with the official SDK's server and client, and with hostile servers: the command prints
// only content that matches the entry and reads nothing early.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { memorySkillFiles, SkillsExtension } from '@modelcontextprotocol/server/ext/skills';

import { defer } from './lib/cleanup.mjs';
import { bad, good, lines, objects } from './lib/cli.mjs';
import { MODERN } from './lib/rpc.mjs';
import { run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const URI = 'skill://pdf/SKILL.md';
const TEXT = '---\nname: pdf\ndescription: Forms\nversion: 1.0\ntags: [a, b]\n---\n\nBody\n';
const FORMS = '# Forms\n';
const files = { 'pdf/SKILL.md': TEXT, 'pdf/references/FORMS.md': FORMS, 'pdf/a+b, c.bin': Buffer.from([0, 255]) };
const digest = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const file = (uri, bytes) => ({ uri, digest: digest(bytes), size: Buffer.byteLength(bytes) });
const entry = (change = {}) => ({
    uri: URI,
    frontmatter: { name: 'pdf', description: 'Forms', version: 1, tags: ['a', 'b'] },
    resources: [file(URI, TEXT), file('skill://pdf/references/FORMS.md', FORMS)],
    ...change,
});

async function listening(t, handler) {
    const server = http.createServer(handler).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return `http://127.0.0.1:${server.address().port}/mcp`;
}

/** A server with these entries and contents that records its requests. */
async function stranger(t, { skills = [entry()], contents = {}, extensions = { 'io.modelcontextprotocol/skills': {} } } = {}) {
    const asked = [];
    const read = { [URI]: TEXT, 'skill://pdf/references/FORMS.md': FORMS, ...contents };
    const results = {
        'server/discover': () => ({ supportedVersions: [MODERN], capabilities: { resources: {}, extensions } }),
        'skills/list': () => ({ skills, ttlMs: 0, cacheScope: 'private' }),
        'skills/get': ({ uri }) => ({ skill: skills.find((skill) => skill.uri === uri) ?? skills[0], ttlMs: 0, cacheScope: 'private' }),
        'resources/read': ({ uri }) => ({ contents: [{ uri, ...(typeof read[uri] === 'string' ? { text: read[uri] } : read[uri]) }] }),
    };
    const url = await listening(t, (req, res) => {
        let body = '';
        req.setEncoding('utf8').on('data', (text) => (body += text));
        req.on('end', () => {
            const { id, method, params } = JSON.parse(body || '{}');
            asked.push(method === 'resources/read' ? params.uri : method);
            const result = results[method]?.(params);
            res.setHeader('Content-Type', 'application/json');
            res.end(JSON.stringify(result ? { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } }
                : { jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }));
        });
    });
    return { url, asked };
}

test("official client lists, reads and verifies our skills and their directories", async (t) => {
    const tree = new Tree(t, files);
    const server = await serve(t, { tree, mounts: ['--skills', tree.path] });
    const client = new Client({ name: 't', version: '1' });
    await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
    defer(t, () => client.close());
    const skills = new SkillsClient(client);
    assert.ok(skills.supported && skills.directoryRead);
    const { skills: [skill], invalid } = await skills.list();
    assert.deepEqual(invalid, []);
    assert.equal((await skills.read(skill)).text, TEXT);
    assert.ok((await skills.read(skill, 'references/FORMS.md')).verified);
    assert.deepEqual([...(await skills.read(skill, 'a%2Bb,%20c.bin')).bytes], [0, 255]);
    const { resources } = await skills.readDirectory('skill://pdf');
    assert.equal(resources.length, 3);
    fs.writeFileSync(tree.at('pdf/references/FORMS.md'), '# Other\n');
    await assert.rejects(skills.read(skill, 'references/FORMS.md', { cacheMode: 'refresh' }), /digest|size/);
});

test("tidings lists, reads and verifies the skills of an official server", async (t) => {
    const catalog = await SkillsExtension.load(memorySkillFiles(files));
    const url = await listening(t, toNodeHandler(createMcpHandler(() => {
        const server = new McpServer({ name: 'skills', version: '1' });
        catalog.attach(server);
        return server;
    })));
    assert.match(await good(t, ['skills', url]), /^skill:\/\/pdf +Forms\n$/);
    assert.equal(await good(t, ['skill', url, 'pdf']), TEXT);
    assert.equal(await good(t, ['skill', url, URI, 'references/FORMS.md']), FORMS);
    const [{ blob }] = objects(await good(t, ['skill', url, 'pdf', '--json', 'a+b, c.bin']));
    assert.equal(blob, 'AP8=');
    const [said] = objects(await good(t, ['skill', url, 'pdf', '--json']));
    assert.deepEqual(said, catalog.entries[0]);
    assert.equal(lines(await good(t, ['skill', url, 'pdf', '--files'])).length, 3);
    await bad(t, 66, /not a file of the skill/, ['skill', url, 'pdf', 'other.md']);
    const kept = new Tree(t, { all: 'what was there' });
    assert.equal(await good(t, ['skill', url, 'pdf', 'references/FORMS.md', 'SKILL.md', '--output', kept.at('all')]), '');
    assert.equal(fs.readFileSync(kept.at('all'), 'utf8'), FORMS + TEXT);
});

test('skills are counted and completed in a shell', async (t) => {
    const { url, asked } = await stranger(t);
    assert.match(await good(t, ['info', url]), /^skills +1$/m);
    assert.equal(objects(await good(t, ['info', '--json', url]))[0].counts.skills.count, 1);
    assert.equal(await good(t, ['completions', '--names', '--', 'skill', url, 'sk']), `${URI}\n`);
    assert.ok(!asked.some((what) => what.startsWith('skill:')));
    const { url: bare } = await stranger(t, { extensions: {} });
    assert.doesNotMatch(await good(t, ['info', bare]), /^skills/m);
});

test('list reads no file and read reads one file', async (t) => {
    const { url, asked } = await stranger(t);
    await good(t, ['skills', '-l', url]);
    await good(t, ['skill', url, 'pdf', '--files']);
    assert.deepEqual([...new Set(asked)].sort(), ['server/discover', 'skills/get', 'skills/list']);
    await good(t, ['skill', url, 'pdf', 'references/FORMS.md']);
    assert.deepEqual(asked.filter((what) => what.startsWith('skill://')), ['skill://pdf/references/FORMS.md']);
});

const other = TEXT.replace('Body', 'Evil');
const tampered = {
    'another digest': [{ contents: { [URI]: other } }, 'digest'],
    'another size': [{ contents: { [URI]: `${TEXT}more\n` } }, 'bytes'],
    'another front matter': [{ skills: [entry({ resources: [file(URI, other.replace('Forms', 'Steal'))] })], contents: { [URI]: other.replace('Forms', 'Steal') } }, 'front matter'],
    'a field more in the file': [{ skills: [entry({ frontmatter: { name: 'pdf', description: 'Forms', version: 1 } })] }, 'front matter'],
    'front matter that is a bomb': [{ skills: [entry({ resources: [file(URI, '---\na: &a [x]\n---\n')] })], contents: { [URI]: '---\na: &a [x]\n---\n' } }, 'cannot be read: line 2: anchors'],
    'a dynamic skill with another front matter': [{ skills: [entry({ resources: 'dynamic' })], contents: { [URI]: TEXT.replace('Forms', 'Steal') } }, 'front matter'],
};
for (const [what, [server, why]] of Object.entries(tampered)) {
    test(`SKILL.md with ${what} is not printed`, async (t) => {
        const { url } = await stranger(t, server);
        const { stdout } = await bad(t, 75, new RegExp(why), ['skill', url, 'pdf']);
        assert.equal(stdout, '');
    });
}

test('skill without content or end is given up', async (t) => {
    const none = await stranger(t, { contents: { [URI]: { blob: '***' } } });
    await bad(t, 65, /no content/, ['skill', none.url, 'pdf']);
    const endless = await stranger(t, { contents: { [URI]: 'x'.repeat(3 << 20) } });
    await bad(t, 69, /larger than|too large|more than/, ['skill', endless.url, 'pdf', '--max-message', '1']);
});

const wrong = {
    'a name that is not that of its directory': { frontmatter: { name: 'other', description: 'x' } },
    'a name that is none': { uri: 'skill://$(reboot)/SKILL.md', frontmatter: { name: '$(reboot)', description: 'x' } },
    'no description': { frontmatter: { name: 'pdf' } },
    'no files': { resources: undefined },
    'files without its SKILL.md': { resources: [file('skill://pdf/x', '')] },
    'a file of another skill': { resources: [file(URI, TEXT), file('skill://other/x', '')] },
    'a file above it': { resources: [file(URI, TEXT), file('skill://pdf/../x', '')] },
    'a file above it, encoded': { resources: [file(URI, TEXT), file('skill://pdf/%2e%2E/x', '')] },
    'a file with a backslash': { resources: [file(URI, TEXT), file('skill://pdf/..\\x', '')] },
    'a file that only begins like it': { resources: [file(URI, TEXT), file('skill://pdf-other/x', '')] },
    'a file twice, spelled in two ways': { resources: [file(URI, TEXT), file('skill://pdf/a+b', ''), file('skill://pdf/a%2Bb', '')] },
    'a file on the disk': { resources: [file(URI, TEXT), file('file:///etc/passwd', '')] },
    'a digest that is none': { resources: [{ ...file(URI, TEXT), digest: 'sha256:ABC' }] },
    'a size that is none': { resources: [{ ...file(URI, TEXT), size: -1 }] },
    'too many files': { resources: [file(URI, TEXT), ...Array.from({ length: 512 }, (_, i) => file(`skill://pdf/${i}`, ''))] },
    'too many bytes': { resources: [{ ...file(URI, TEXT), size: (16 << 20) + 1 }] },
};
test('invalid entries are skipped with a warning and not read from', async (t) => {
    const skills = Object.values(wrong).map((change) => entry(change));
    const { url } = await stranger(t, { skills: [...skills, entry({ uri: 'skill://a/pdf/SKILL.md', resources: 'dynamic' })] });
    const { code, stdout, stderr } = await run(t, ['skills', url]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^skill:\/\/a\/pdf +Forms\n$/);
    assert.equal(lines(stderr).filter((line) => line.includes('skill')).length, skills.length, stderr);
    for (const [what, change] of Object.entries(wrong)) {
        const { url: at, asked } = await stranger(t, { skills: [entry(change)] });
        const { stdout: said } = await bad(t, what.startsWith('too many') ? 69 : 65, /skill '|is no URI/, ['skill', at, entry(change).uri]);
        assert.equal(said, '', what);
        assert.ok(!asked.some((method) => method?.startsWith('skill:')), what);
    }
});

test('skill text reaches the terminal escaped', async (t) => {
    const evil = 'x\u001b[2J\u001b]0;evil\u0007\u202e\r\nskill://false  A line of its own';
    const { url } = await stranger(t, { skills: [entry({ frontmatter: { name: 'pdf', description: evil, license: evil } })] });
    for (const args of [[], ['-l']]) {
        const stdout = await good(t, ['skills', ...args, url]);
        assert.doesNotMatch(stdout, /[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
        assert.ok(lines(stdout).every((line) => !line.startsWith('skill://false')), stdout);
    }
});

test('server without skills is reported', async (t) => {
    const { url, asked } = await stranger(t, { extensions: {} });
    await bad(t, 69, /does not offer skills/, ['skills', url]);
    await bad(t, 69, /does not offer skills/, ['skill', url, 'pdf']);
    assert.deepEqual([...new Set(asked)], ['server/discover']);
});
