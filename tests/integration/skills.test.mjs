// SPDX-License-Identifier: MIT
//
// Agent Skills (SEP-2640) in the server: entries with digests of the content, front matter parsed like other parsers,
// changes delivered like those of any resource, and files written by others.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { test } from 'node:test';

import YAML from 'yaml';

import { call, listen, modern, Session, updates } from './lib/rpc.mjs';
import { run, serve, serveExample } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const EXTENSION = 'io.modelcontextprotocol/skills';
const md = (name, more = '', body = '# Body\n') => `---\nname: ${name}\ndescription: About ${name}\n${more}---\n\n${body}`;
const digest = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
const usual = {
    'pdf/SKILL.md': md('pdf', 'metadata: {version: "1.0"}\n'),
    'pdf/references/FORMS.md': '# Forms\n',
    'pdf/scripts/x.bin': Buffer.from([0, 255, 1, 254]),
    'acme/billing/refunds/SKILL.md': md('refunds'),
};

const serveSkills = (t, files, args = []) => {
    const tree = files instanceof Tree ? files : new Tree(t, files);
    return serve(t, { tree, mounts: ['--skills', tree.path], args });
};
const uris = async (server, params) => (await call(server, 'skills/list', params)).skills.map(({ uri }) => uri);
const get = async (server, uri) => (await call(server, 'skills/get', { uri })).skill;

/** Unavailable resources return a parameter error with a message. */
async function refused(server, method, params) {
    const { json } = await modern(server, method, params);
    assert.equal(json.error?.code, -32602, JSON.stringify(json));
    return json.error.message;
}

test('skill entry has the front matter and every file with the digest of its bytes', async (t) => {
    const server = await serveSkills(t, usual);
    const { capabilities } = await call(server, 'server/discover');
    assert.deepEqual(capabilities.extensions[EXTENSION], { directoryRead: true });
    const { skills, ttlMs, cacheScope } = await call(server, 'skills/list');
    assert.equal(typeof ttlMs, 'number');
    assert.equal(typeof cacheScope, 'string');
    assert.deepEqual(skills.map(({ uri }) => uri), ['skill://acme/billing/refunds/SKILL.md', 'skill://pdf/SKILL.md']);
    const pdf = skills[1];
    assert.deepEqual(pdf.frontmatter, { name: 'pdf', description: 'About pdf', metadata: { version: '1.0' } });
    assert.deepEqual(
        pdf.resources,
        ['SKILL.md', 'references/FORMS.md', 'scripts/x.bin'].map((name) => {
            const bytes = fs.readFileSync(server.tree.at(`pdf/${name}`));
            return { uri: `skill://pdf/${name}`, digest: digest(bytes), size: bytes.length };
        }),
    );
    for (const { uri, digest: said } of pdf.resources) {
        const { contents: [content] } = await call(server, 'resources/read', { uri });
        const bytes = content.text ?? Buffer.from(content.blob, 'base64');
        assert.equal(digest(bytes), said, uri);
    }
    assert.deepEqual(await get(server, pdf.uri), pdf);
    const { resources } = await call(server, 'resources/list');
    const row = resources.find(({ uri }) => uri === pdf.uri);
    assert.deepEqual([row.name, row.description, row.mimeType], ['pdf', 'About pdf', 'text/markdown']);
    const session = await Session.open(server);
    assert.deepEqual(session.result.capabilities.extensions[EXTENSION], { directoryRead: true });
});

test('directories are listed without a trailing slash and in pages; non-directories return an error', async (t) => {
    const server = await serveSkills(t, usual);
    const read = (uri, more) => call(server, 'resources/directory/read', { uri, ...more });
    const { resources } = await read('skill://pdf');
    assert.deepEqual(
        resources.map(({ uri, mimeType }) => [uri, mimeType]),
        [
            ['skill://pdf/SKILL.md', 'text/markdown'],
            ['skill://pdf/references', 'inode/directory'],
            ['skill://pdf/scripts', 'inode/directory'],
        ],
    );
    const first = await read('skill://pdf', { limit: 2 });
    const second = await read('skill://pdf', { cursor: first.nextCursor });
    assert.deepEqual([...first.resources, ...second.resources].map(({ uri }) => uri), resources.map(({ uri }) => uri));
    assert.deepEqual((await read('skill://pdf/references')).resources.map(({ uri }) => uri), ['skill://pdf/references/FORMS.md']);
    await refused(server, 'resources/directory/read', { uri: 'skill://pdf/SKILL.md' });
    await refused(server, 'resources/directory/read', { uri: 'skill://none' });
});

test('nested skill is a skill, and its files belong to the outer skill, in any request order', async (t) => {
    const tree = new Tree(t, { 'a/SKILL.md': md('a'), 'a/b/SKILL.md': md('b'), 'a/b/x.md': '# x\n', 'a/odd/SKILL.md': md('other') });
    const orders = [['a', 'a/b'], ['a/b', 'a']];
    for (const order of orders) {
        const server = await serveSkills(t, tree, ['--workers', '1']);
        const settled = async (path) => (await call(server, 'resources/metadata', { uri: `skill://${path}` })).resource;
        for (const path of ['a/SKILL.md', 'a/b/SKILL.md', 'a/odd/SKILL.md']) { // files younger than the clock resolution are read each time
            await eventually(async () => !/"W\//.test(JSON.stringify(await settled(path))), `${path} to be old enough`);
        }
        for (const skill of [...order, ...order]) {
            const entry = await get(server, `skill://${skill}/SKILL.md`);
            assert.equal(entry.frontmatter.name, skill.at(-1));
            assert.deepEqual(entry.resources.filter(({ uri }) => uri.startsWith('skill://a/b/')).length, 2);
        }
        for (let i = 0; i < 3; i++) {
            assert.deepEqual(await uris(server), ['skill://a/SKILL.md', 'skill://a/b/SKILL.md']);
        }
        await server.lines.next((line) => /invalid SKILL.md/.test(line), 'the log to say why');
        assert.equal(server.lines.seen.filter((line) => /invalid SKILL.md/.test(line)).length, 1, 'it is said once');
    }
});

test('C program that registers scheme resources serves skills with directories', async (t) => {
    const server = await serveExample(t, 'conformance');
    const [skill] = (await call(server, 'skills/list')).skills;
    assert.equal(skill.frontmatter.license, 'MIT');
    assert.equal(skill.resources.length, 2);
    assert.deepEqual(await get(server, skill.uri), skill);
    const { resources } = await call(server, 'resources/directory/read', { uri: 'skill://greet-politely' });
    assert.deepEqual(resources.map(({ uri }) => uri), ['skill://greet-politely/SKILL.md', 'skill://greet-politely/references']);
    const below = await call(server, 'resources/directory/read', { uri: 'skill://greet-politely/references' });
    assert.deepEqual(below.resources.map(({ name }) => name), ['GREETINGS.md']);
});

test('server without skills omits the capability', async (t) => {
    const server = await serve(t, { files: { 'SKILL.md': md('x') } });
    const { capabilities } = await call(server, 'server/discover');
    assert.equal(capabilities.extensions[EXTENSION], undefined);
    assert.equal((await modern(server, 'skills/list')).json.error.code, -32601);
});

test('changed skill is delivered with a new entry: changed, added, removed or replaced', async (t) => {
    const server = await serveSkills(t, usual);
    const before = await get(server, 'skill://pdf/SKILL.md');
    const { events } = await listen(server, { resourceSubscriptions: ['skill://pdf/'] });
    const steps = [
        ['SKILL.md', () => server.tree.replace('pdf/SKILL.md', md('pdf', 'license: MIT\n'))],
        ['new.md', () => server.tree.replace('pdf/new.md', 'new\n')],
        ['references/FORMS.md', () => fs.rmSync(server.tree.at('pdf/references/FORMS.md'))],
    ];
    for (const [name, change] of steps) {
        change();
        await events.message(updates(`skill://pdf/${name}`));
    }
    const after = await get(server, 'skill://pdf/SKILL.md');
    assert.equal(after.frontmatter.license, 'MIT');
    assert.notEqual(after.resources[0].digest, before.resources[0].digest);
    assert.equal(after.resources[0].digest, digest(fs.readFileSync(server.tree.at('pdf/SKILL.md'))));
    assert.deepEqual(after.resources.map(({ uri }) => uri), ['SKILL.md', 'new.md', 'scripts/x.bin'].map((name) => `skill://pdf/${name}`));
});

test('skill list has pages of complete entries in both eras', async (t) => {
    const names = Array.from({ length: 150 }, (_, i) => `s${String(i).padStart(3, '0')}`);
    const server = await serveSkills(t, Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, md(name)])));
    const session = await Session.open(server);
    for (const ask of [(params) => call(server, 'skills/list', params), async (params) => (await session.call('skills/list', params))]) {
        const seen = [];
        let cursor;
        do {
            const page = await ask(cursor === undefined ? {} : { cursor });
            seen.push(...page.skills.map(({ frontmatter }) => frontmatter.name));
            cursor = page.nextCursor;
        } while (cursor !== undefined);
        assert.deepEqual(seen, names);
    }
    await refused(server, 'skills/list', { cursor: 'x' });
    assert.deepEqual(await uris(server, { limit: 1 }), ['skill://s000/SKILL.md']);
});

test('unauthorized client learns nothing about a skill or its files', async (t) => {
    const tokens = new TokenFile(t);
    const [ada, bob, eve] = ['ada', 'bob', 'eve'].map((name) => tokens.give(name));
    const rules = [
        { principal: 'ada', allow: ['list', 'read', 'subscribe'] },
        { principal: 'eve', allow: ['list'] },
        { principal: 'bob', uri: 'skill://pdf/SKILL.md', allow: ['list', 'read'] },
        { principal: 'bob', uri: 'skill://pdf/scripts/**', allow: ['list'] },
    ].flatMap((rule) => ['--access', JSON.stringify(rule)]);
    const server = await serveSkills(t, usual, [...tokens.args, ...rules]);
    assert.equal((await uris(as(server, ada))).length, 2);
    const lister = as(server, eve), uri = 'skill://pdf/SKILL.md';
    const told = [
        (await call(lister, 'resources/list')).resources.find((row) => row.uri === uri),
        (await call(lister, 'resources/metadata', { uri })).resource,
        (await call(lister, 'resources/directory/read', { uri: 'skill://pdf' })).resources.find((row) => row.uri === uri),
    ];
    assert.deepEqual(told.map(({ name, description }) => [name, description]), Array(3).fill(['SKILL.md', undefined]));
    assert.deepEqual(await uris(lister), []);
    const few = as(server, bob);
    assert.deepEqual(await uris(few), ['skill://pdf/SKILL.md']);
    const { resources } = await get(few, 'skill://pdf/SKILL.md');
    assert.deepEqual(resources.map(({ uri }) => uri), ['skill://pdf/SKILL.md']);
    const hidden = 'skill://acme/billing/refunds/SKILL.md', absent = 'skill://acme/billing/nothings/SKILL.md';
    const [denied, missing] = [await refused(few, 'skills/get', { uri: hidden }), await refused(few, 'skills/get', { uri: absent })];
    assert.equal(denied.replace('refunds', 'nothings'), missing);
    await refused(few, 'resources/directory/read', { uri: 'skill://acme' });
});

test('outside links, oversized files and invalid names belong to no skill', async (t) => {
    const tree = new Tree(t, {
        'ok/SKILL.md': md('ok'),
        'other/SKILL.md': md('another'),
        'Upper/SKILL.md': md('upper'),
        'many/SKILL.md': md('many'),
        'large/SKILL.md': md('large'),
        'large/a.bin': Buffer.alloc(9 << 20),
        'large/b.bin': Buffer.alloc(9 << 20),
        'SKILL.md': md('root'),
    });
    for (let i = 0; i < 512; i += 1) {
        fs.writeFileSync(tree.at(`many/f${i}`), '');
    }
    fs.symlinkSync('/etc/passwd', tree.at('ok/passwd'));
    fs.symlinkSync('/etc', tree.at('ok/etc'));
    fs.symlinkSync('SKILL.md', tree.at('ok/again.md'));
    tree.mkdir('out');
    fs.symlinkSync(tree.at('../'), tree.at('out/up'));
    fs.symlinkSync('/etc/hostname', tree.at('out/SKILL.md'));
    const server = await serveSkills(t, tree);
    assert.deepEqual(await uris(server), ['skill://ok/SKILL.md']);
    const { resources } = await get(server, 'skill://ok/SKILL.md');
    assert.deepEqual(resources.map(({ uri }) => uri), ['skill://ok/SKILL.md', 'skill://ok/again.md']);
    assert.match(await refused(server, 'skills/get', { uri: 'skill://many/SKILL.md' }), /at most 512 files/);
    assert.match(await refused(server, 'skills/get', { uri: 'skill://large/SKILL.md' }), /at most 16 MiB/);
    assert.match(await refused(server, 'skills/get', { uri: 'skill://other/SKILL.md' }), /'name' is 'another' and its directory 'other'/);
    for (const uri of ['skill://out/SKILL.md', 'skill://ok/../ok/SKILL.md', 'skill://ok/again.md', 'file:///etc/passwd', 'skill://SKILL.md', '']) {
        await refused(server, 'skills/get', { uri });
    }
    await server.lines.next((line) => /invalid SKILL.md uri=skill:\/\/other/.test(line), 'the log to say why');
});

test('front matter is parsed like other parsers, and errors name the line', async (t) => {
    const good = [
        'a: >\n  folded\n  text\n\n  here\nb: |-\n  kept\n   lines\n',
        'a: [1, 2.50, "x", \'it\'\'s\', true, ~, {b: c}]\n',
        'a:\n- b: 1\n  c: 2\n- - d\n  - e\n-\nf:\n  g:\n    h: i # j\n',
        'a: plain text\n  goes on\n\n  here\nb: http://x/y#z\nc: "\\u00e9\\t\\\n  x"\n',
        'a: 0x1f\nb: 0o17\nc: 017\nd: -1.5e3\ne: .5\nf: 2024-01-01\ng: yes\nh: 1.2.3\n',
        'a: "x\n\n  y"\n"b c": |+\n  z\n\nd: >2\n    e\n   f\n',
    ];
    const bad = [
        ['a: &x [1]\nb: [*x, *x]\n', /line 4: anchors and aliases/],
        ['a: !!js/function x\n', /line 4: tags/],
        ['<<: {a: 1}\n', /line 4: the key is not a string/],
        [`a: ${'['.repeat(100)}\n`, /line 4: nested more than 16 deep/],
        [`a: [${'1,'.repeat(3000)}]\n`, /more than 2048 values/],
        [`a: ${'x'.repeat(70_000)}\n`, /more than 64 KiB/],
        ['a: \u001b[2J\n', /control characters/],
        ['name: again\n', /a key comes twice/],
    ];
    const tree = new Tree(t);
    good.forEach((more, i) => tree.write(`good${i}/SKILL.md`, md(`good${i}`, more)));
    bad.forEach(([more], i) => tree.write(`bad${i}/SKILL.md`, md(`bad${i}`, more)));
    const server = await serveSkills(t, tree);
    const { skills } = await call(server, 'skills/list');
    assert.equal(skills.length, good.length);
    good.forEach((more, i) => {
        const [, text] = /^---\n([^]*?\n)---\n/.exec(md(`good${i}`, more));
        assert.deepEqual(skills[i].frontmatter, YAML.parse(text), text);
    });
    for (const [i, [, why]] of bad.entries()) {
        assert.match(await refused(server, 'skills/get', { uri: `skill://bad${i}/SKILL.md` }), why);
    }
});

test('skill directory is set by option, variable or file, beside other mounts, and once', async (t) => {
    const tree = new Tree(t, { 'here/pdf/SKILL.md': md('pdf'), 'docs/a.md': 'a\n', 'tidings.json': '{"skills": "here"}' });
    const mounts = async (args, env) => {
        const { code, stdout, stderr } = await run(t, ['config', ...args], { env, cwd: tree.path });
        assert.equal(code, 0, stderr);
        return JSON.parse(/"mounts": (\[.*\])/.exec(stdout)[1]).map(({ uri, path }) => [uri, path]);
    };
    const skills = ['skill://', tree.at('here')], docs = [tree.uri('docs/'), tree.at('docs')];
    assert.deepEqual(await mounts(['--config', tree.at('tidings.json')]), [skills]);
    assert.deepEqual(await mounts(['--no-config', '--skills', 'here', 'docs']), [docs, skills]);
    assert.deepEqual(await mounts(['--config', tree.at('tidings.json'), 'docs']), [docs, skills]);
    assert.deepEqual(await mounts(['--no-config', '--skills', 'here', '--mount', `skill://=${tree.at('here')}`]), [skills]);
    assert.deepEqual(await mounts(['--no-config'], { TIDINGS_SKILLS: 'here' }), [skills]);
    const twice = await run(t, ['config', '--no-config', '--skills', 'here', '--mount', 'skill://=docs'], { cwd: tree.path });
    assert.equal(twice.code, 64);
    assert.match(twice.stderr, /--skills: 'skill:\/\/' is mounted twice/);
});
