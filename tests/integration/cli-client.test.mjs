// SPDX-License-Identifier: MIT
//
// The client commands: output for people and programs (--json), and failures, in both eras of the protocol.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { bad, good, lines, objects } from './lib/cli.mjs';
import { BIN, run, serve, serveExample } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const files = {
    'a.txt': 'hello\n',
    'blob.bin': Buffer.from([0, 1, 255]),
    'escape.txt': 'red \x1b[31m\x07 turned \u202e \x9b\n',
    'dir/b.md': '# b',
    'dir/deep/c.json': '{}',
};

/** The same command on a terminal. */
const onTerminal = (t, args) => {
    const quoted = [BIN, ...args].map((word) => `'${word}'`).join(' ');
    return run(t, ['-qec', quoted, '/dev/null'], { file: '/usr/bin/script', env: { TERM: 'xterm', NO_COLOR: '' } });
};
const noScript = !fs.existsSync('/usr/bin/script') && 'script(1) is not installed';

for (const era of ['modern', 'legacy']) {
    test(`${era}: read prints the bytes of a resource`, async (t) => {
        const server = await serve(t, { files });
        const read = (...args) => good(t, ['read', '--era', era, server.url, ...args]);
        assert.equal(await read(server.uri('a.txt')), 'hello\n');
        assert.equal(await read(server.uri('a.txt'), server.uri('dir/b.md')), 'hello\n# b');
        assert.equal(await read(server.uri('escape.txt')), files['escape.txt']);
        assert.equal(await read('--meta', '-q', server.uri('a.txt')), 'hello\n');
        const [result] = objects(await read('--json', server.uri('blob.bin')));
        assert.equal(result.uri, server.uri('blob.bin'));
        assert.deepEqual(Buffer.from(result.contents[0].blob, 'base64'), files['blob.bin']);
    });

    test(`${era}: ls lists all resources, children, or all descendants`, async (t) => {
        const server = await serve(t, { files });
        const ls = async (...args) => lines(await good(t, ['ls', '--era', era, server.url, ...args]));
        const all = ['a.txt', 'blob.bin', 'dir/', 'dir/b.md', 'dir/deep/', 'dir/deep/c.json', 'escape.txt'];
        assert.deepEqual((await ls()).sort(), all.map(server.uri).sort());
        assert.deepEqual((await ls(server.uri('dir/'))).sort(), ['dir/b.md', 'dir/deep/'].map(server.uri));
        const below = ['dir/b.md', 'dir/deep/', 'dir/deep/c.json'];
        assert.deepEqual((await ls('-R', server.uri('dir/'))).sort(), below.map(server.uri));
        assert.match((await ls('-l', server.uri('dir/')))[0], /^ +3 B {2}\d{4}-\d\d-\d\dT[\d:]{8} {2}text\/markdown +file:/);
        const [item] = objects((await ls('--json', server.uri('dir/'))).join('\n'));
        assert.equal(item.uri, server.uri('dir/b.md'));
        assert.equal(item.size, 3);
    });
}

test('read writes to a file and reports content that it does not print', async (t) => {
    const server = await serve(t, { files });
    const out = new Tree(t).at('out.bin');
    await good(t, ['read', '-o', out, server.url, server.uri('blob.bin')]);
    assert.deepEqual(fs.readFileSync(out), files['blob.bin']);
    await bad(t, 66, /missing/, ['read', '-o', out, server.url, server.uri('missing')]);
    assert.deepEqual(fs.readFileSync(out), files['blob.bin'], 'as it was');
    await bad(t, 74, /nowhere/, ['read', '-o', '/nowhere/x', server.url, server.uri('a.txt')]);
    const end = await run(t, ['read', server.url, server.uri('dir/')]);
    assert.equal(end.stdout, 'b.md\ndeep/\n');
    assert.match(end.stderr, /more contents; --all/);
    assert.match(await good(t, ['read', '--all', server.url, server.uri('dir/')]), /^b\.md\ndeep\/\n.*# b/s);
});

test('read prints the resource of several URIs from a server without capabilities and all with --all', async (t) => {
    const stranger = fileURLToPath(new URL('lib/plain-stranger.mjs', import.meta.url));
    const contents = [{ uri: 'plain://it', text: 'one\n' }, { uri: 'plain://other', text: 'two\n' }, { uri: 'plain://it/x', blob: 'dGhyZWUK' }];
    const read = (...args) => run(t, ['read', ...args, 'plain://it', '--', process.execPath, stranger], { env: { CONTENTS: JSON.stringify(contents) } });
    const first = await read();
    assert.deepEqual([first.code, first.stdout], [0, 'one\n'], first.stderr);
    assert.match(first.stderr, /plain:\/\/it has 2 more contents; --all/);
    const all = await read('--all');
    assert.deepEqual([all.code, all.stdout], [0, 'one\ntwo\nthree\n'], all.stderr);
    const [object] = objects((await read('--json')).stdout);
    assert.deepEqual([object.uri, object.contents], ['plain://it', contents]);
});

test('path argument names its file', async (t) => {
    const server = await serve(t, { files });
    const cwd = server.tree.path;
    assert.equal(await good(t, ['read', server.url, 'a.txt'], { cwd }), 'hello\n');
    assert.equal(await good(t, ['read', server.url, './dir/../a.txt'], { cwd }), 'hello\n');
});

test('read prints readable resources although another read fails', async (t) => {
    const server = await serve(t, { files });
    const uris = ['a.txt', 'missing', 'dir/b.md'].map(server.uri);
    const end = await bad(t, 66, /missing[^]*tidings ls/, ['read', server.url, ...uris]);
    assert.equal(end.stdout, 'hello\n# b');
});

test('terminal output escapes control characters unless --raw', { skip: noScript }, async (t) => {
    const server = await serve(t, { files });
    const safe = await onTerminal(t, ['read', server.url, server.uri('escape.txt')]);
    assert.match(safe.stdout, /red \\x1b\[31m\\x07 turned \\u202e \\x9b\r\n/);
    const raw = await onTerminal(t, ['read', '--raw', server.url, server.uri('escape.txt')]);
    assert.ok(raw.stdout.includes('\x1b[31m\x07'));
    const bytes = await onTerminal(t, ['read', server.url, server.uri('blob.bin')]);
    assert.match(bytes.stdout, /3 B that are not text; --output FILE/);
});

test('colours appear on terminals or on demand', { skip: noScript }, async (t) => {
    const server = await serve(t, { files });
    const ls = ['ls', server.url, server.uri('')];
    assert.ok(!(await good(t, ls)).includes('\x1b'));
    assert.ok((await good(t, [...ls, '--color', 'always'])).includes('\x1b[36m'));
    assert.ok((await onTerminal(t, ls)).stdout.includes('\x1b[36m'));
    assert.ok(!(await onTerminal(t, [...ls, '--color=never'])).stdout.includes('\x1b'));
});

test('command ends silently when its reader closes the pipe', async (t) => {
    const many = Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`f${i}`, '']));
    const server = await serve(t, { files: many });
    const script = `"$1" ls -l "$2" | head -n 1; echo "status \${PIPESTATUS[0]}"`;
    const end = await run(t, ['-c', script, 'bash', BIN, server.url], { file: '/bin/bash' });
    assert.match(end.stdout, /^.*\nstatus 0\n$/);
    assert.equal(end.stderr, '');
});

test('write error on the output is a failure', async (t) => {
    const server = await serve(t, { files });
    const script = `"$1" read "$2" "$3" >/dev/full; echo "status $?"`;
    const end = await run(t, ['-c', script, 'bash', BIN, server.url, server.uri('a.txt')], { file: '/bin/bash' });
    assert.equal(end.stdout, 'status 74\n');
    assert.match(end.stderr, /cannot write the output: No space left/);
});

test('tree draws the resources below a URI and the whole list', async (t) => {
    const server = await serve(t, { files });
    const drawing = await good(t, ['tree', server.url, server.uri('dir/')]);
    assert.equal(drawing, `${server.uri('dir/')}\n├── b.md\n└── deep/\n    └── c.json\n`);
    assert.match(await good(t, ['tree', '-d', '1', server.url, server.uri('dir/')]), /└── deep\/ …\n$/);
    assert.match(await good(t, ['tree', server.url]), /^[^]*├── dir\/\n +│ {3}├── b\.md\n +│ {3}└── deep\/\n +│ {7}└── c\.json\n/);
    const entries = objects(await good(t, ['tree', '--json', server.url, server.uri('dir/')]));
    assert.deepEqual(entries.map(({ depth, uri }) => [depth, uri]), [
        [1, server.uri('dir/b.md')], [1, server.uri('dir/deep/')], [2, server.uri('dir/deep/c.json')],
    ]);
    assert.equal(entries[0].resource.mimeType, 'text/markdown');
});

test('stat prints resource metadata', async (t) => {
    const server = await serve(t, { files });
    const text = await good(t, ['stat', server.url, server.uri('a.txt')]);
    assert.match(text, /^uri +file:.*a\.txt\nname +a\.txt\nmimeType +text\/plain\nsize +6\n/);
    const all = objects(await good(t, ['stat', '--json', server.url, server.uri('a.txt'), server.uri('dir/')]));
    assert.deepEqual(all.map((item) => item.name), ['a.txt', 'dir']);
    await bad(t, 66, /missing/, ['stat', server.url, server.uri('missing')]);
});

test('templates are listed and their arguments completed', async (t) => {
    const server = await serve(t, { files });
    const [template] = objects(await good(t, ['templates', '--json', server.url]));
    assert.match(template.uriTemplate, /\{\+path\}$/);
    assert.ok((await good(t, ['templates', server.url])).startsWith(template.uriTemplate));
    const complete = ['complete', server.url, template.uriTemplate];
    assert.deepEqual(lines(await good(t, [...complete, 'path=dir/'])), ['dir/b.md', 'dir/deep/']);
    const [completion] = objects(await good(t, [...complete, 'path=a', '--json']));
    assert.deepEqual(completion.values, ['a.txt']);
    await bad(t, 66, /only 'path'/, [...complete, 'nonsense=x']);
});

test('tools --format prints them in the formats of other systems', async (t) => {
    const server = await serveExample(t, 'tools');
    const tools = objects(await good(t, ['tools', '--json', server.url]));
    const wanted = tools.map(({ name, description = '', inputSchema }) => ({
        name, description, parameters: { properties: {}, required: [], ...inputSchema },
    }));
    const array = async (format) => JSON.parse(await good(t, ['tools', '--format', format, server.url]));
    const functions = wanted.map((tool) => ({ type: 'function', function: tool }));
    assert.ok(tools.some(({ inputSchema }) => !inputSchema.required), 'a schema lacks a member');
    assert.deepEqual(await array('openai'), functions);
    assert.deepEqual(await array('ollama'), functions);
    assert.deepEqual(await array('ms-agent'), wanted);
    assert.deepEqual(objects(await good(t, ['tools', '--json', '--format', 'mcp', server.url])), tools);
    await bad(t, 64, /openai/, ['tools', '--format', 'nonsense', server.url]);
});

test('tools are listed and called with arguments by their schema', async (t) => {
    const server = await serveExample(t, 'tools');
    assert.match(await good(t, ['tools', server.url]), /^add +Adds two numbers$/m);
    assert.match(await good(t, ['tools', '-l', server.url]), /^add\n +Adds two numbers\n +a\* +number/m);
    assert.ok(objects(await good(t, ['tools', '--json', server.url])).some((tool) => tool.name === 'add'));
    const call = ['call', server.url, 'add'];
    assert.deepEqual(JSON.parse(await good(t, [...call, 'a=1', 'b=2.5'])), { sum: 3.5 });
    const [result] = objects(await good(t, [...call, '--json', '--args', '{"a": 1, "b": 2}']));
    assert.deepEqual(result.structuredContent, { sum: 3 });
    assert.deepEqual(JSON.parse(await good(t, [...call, '--args', '-'], { input: '{"a":1,"b":1}' })), { sum: 2 });
    const file = new Tree(t, { args: '{"a":2,"b":2}' }).at('args');
    assert.deepEqual(JSON.parse(await good(t, [...call, '--args', `@${file}`])), { sum: 4 });
    await bad(t, 64, /nothing/, ['call', server.url, 'nothing']);
    await bad(t, 64, /name=value/, [...call, 'a']);
    await bad(t, 64, /must be JSON/, [...call, 'a:=x']);
    await bad(t, 64, /JSON object/, [...call, '--args', '[]']);
});

test('failed tool exits with status 1 and prints its answer on standard error, or whole with --json', async (t) => {
    const server = await serve(t, { files, args: ['--publish', 'app:///', '--allow-write'] });
    const call = ['call', server.url, 'publish', 'uri=other:///x', 'text=y'];
    const end = await bad(t, 1, /'publish' failed:\n.*other:\/\/\/x/s, call);
    assert.equal(end.stdout, '');
    const json = await run(t, [...call, '--json']);
    assert.equal(json.code, 1);
    assert.equal(JSON.parse(json.stdout).isError, true);
});

for (const MODERN of ['', '1']) {
    test(`result that violates its outputSchema is an error with its place (${MODERN ? 'modern' : 'legacy'})`, async (t) => {
        const careless = ['--', process.execPath, new URL('lib/careless.mjs', import.meta.url).pathname];
        for (const args of [[], ['--json']]) {
            const { stdout, stderr } = await bad(
                t, 65, /'give' breaks its outputSchema: \/.*bad.*: .*\(schema: \/additionalProperties\/type\)/,
                ['call', 'give', ...args, ...careless], { env: { MODERN } },
            );
            assert.equal(stdout, '');
            assert.ok(!/[\x1b\x07]/.test(stderr), JSON.stringify(stderr));
        }
    });
}

test('tool progress is shown only on a terminal', { skip: noScript }, async (t) => {
    const server = await serveExample(t, 'tools');
    const call = ['call', server.url, 'countdown', 'from=2', 'step_ms=1'];
    const end = await run(t, call);
    assert.equal(end.code, 0, end.stderr);
    assert.equal(end.stderr, '');
    assert.match((await onTerminal(t, call)).stdout, /\r\x1b\[K *\d+ /);
});

test('prompts are listed and got with their arguments', async (t) => {
    const server = await serveExample(t, 'conformance');
    assert.match(await good(t, ['prompts', '-l', server.url]), /^test_prompt_with_arguments\n.*\n +arg1\* /m);
    const prompt = ['prompt', server.url, 'test_prompt_with_arguments', 'arg1=7', 'arg2=two'];
    assert.match(await good(t, prompt), /^user:\n.*7.*two/s);
    assert.equal(JSON.parse(await good(t, [...prompt, '--json'])).messages[0].role, 'user');
    await bad(t, 64, /nothing/, ['prompt', server.url, 'nothing']);
    await bad(t, 64, /'test_prompt_with_arguments' has no argument 'arg3'; it takes arg1, arg2/, [...prompt, 'arg3=x']);
    await bad(t, 64, /'test_simple_prompt' has no argument 'x'; it takes none/, ['prompt', server.url, 'test_simple_prompt', 'x=1']);
});

test('unsupported features of a server are reported', async (t) => {
    const server = await serve(t, { files, args: ['--profile', 'gateway'] }); /* otherwise the list is empty */
    await bad(t, 69, /the server offers no prompts[^]*tidings info/, ['prompts', server.url]);
});

test('missing or non-MCP server is explained', async (t) => {
    await bad(t, 74, /127\.0\.0\.1[^]*check that the server runs/, ['ls', 'http://127.0.0.1:1/mcp']);
    await bad(t, 64, /such as http/, ['ls', '-t', 'gopher://x/']);
});

test('target may come from an option or the environment', async (t) => {
    const server = await serve(t, { files });
    const uri = server.uri('a.txt');
    assert.equal(await good(t, ['read', uri, '-t', server.url]), 'hello\n');
    assert.equal(await good(t, ['read', uri], { env: { TIDINGS_SERVER: server.url } }), 'hello\n');
    const env = { TIDINGS_SERVER: 'http://127.0.0.1:1/mcp' };
    assert.equal(await good(t, ['read', '-t', server.url, uri], { env }), 'hello\n');
    await bad(t, 64, /TIDINGS_SERVER/, ['ls', 'x', 'y'], { env });
});

test('named server receives its configured headers', async (t) => {
    const server = await serve(t, { files });
    const tree = new Tree(t, {
        '.mcp.json': JSON.stringify({ mcpServers: { here: { url: '${WHERE}', headers: { 'X-Test': '${env:WHERE}' } } } }),
    });
    const options = { cwd: tree.path, env: { WHERE: server.url, HOME: tree.at('home') } };
    await good(t, ['servers', '--trust', 'here'], options);
    assert.equal(await good(t, ['read', 'here', server.uri('a.txt')], options), 'hello\n');
});

test('token comes from a file, the environment or the command line', async (t) => {
    const tree = new Tree(t, { 'empty': '\n' });
    const made = await run(t, ['token', 'ada']);
    fs.writeFileSync(tree.at('tokens'), made.stdout, { mode: 0o600 });
    fs.writeFileSync(tree.at('token'), made.stderr);
    const server = await serve(t, { files, args: ['--auth-tokens', tree.at('tokens')] });
    const read = ['read', server.url, server.uri('a.txt')];
    const token = made.stderr.trim();
    await bad(t, 77, /token/, read);
    await bad(t, 64, /no token in it/, [...read, '--token-file', tree.at('empty')]);
    assert.equal(await good(t, [...read, '--token-file', tree.at('token')]), 'hello\n');
    assert.equal(await good(t, [...read, '--token', token]), 'hello\n');
    assert.equal(await good(t, read, { env: { TIDINGS_TOKEN: token } }), 'hello\n');
});
