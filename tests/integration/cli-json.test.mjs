// SPDX-License-Identifier: MIT
//
// `--json`: every command accepts it and prints JSON for results and failures.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { good, objects } from './lib/cli.mjs';
import { listen } from './lib/rpc.mjs';
import { BIN, Program, run, serve, serveExample } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE } from './lib/wait.mjs';

/** These run until stopped or need an authorization server (login.test.mjs); they have their own tests. */
const ELSEWHERE = ['serve', 'watch', 'login', 'logout'];

const described = async (t) => JSON.parse(await good(t, ['help', '--json']));

/** Arguments with which each command succeeds, in this order, and its server. */
const SAMPLES = ({ files, prompts, file, mirror, store, template, peer }) => ({
    config: [null, '--page-size', '5'],
    token: [null, 'ann', '--scope', 'files:read'],
    read: [files, file],
    tail: [files, file],
    sync: [files, '--once', file.slice(0, file.lastIndexOf('/') + 1), mirror],
    info: [files],
    ls: [files],
    tree: [files],
    stat: [files, file],
    templates: [files],
    complete: [files, template, 'path=a'],
    tools: [files],
    call: [files, 'publish', 'uri=app:///x', 'text=1'],
    prompts: [prompts],
    prompt: [prompts, 'test_simple_prompt'],
    skills: [prompts],
    skill: [prompts, 'greet-politely'],
    request: [files, 'resources/list'],
    publish: [files, 'app:///y', '-'],
    notify: [files, 'app:///y', '--metadata', '{"type": "error"}'],
    'entity add-type': [files, 'User@1.0', '{"type": "object"}'],
    'entity types': [files],
    'entity put': [files, 'User@1.0/ann', '{"name": "Ann"}'],
    'entity patch': [files, 'User@1.0/ann', '{"age": 8}'],
    'entity get': [files, 'User@1.0/ann'],
    'entity at': [files, 'User@1.0/ann', '2100-01-01T00:00:00Z'],
    'entity log': [files, 'User@1.0/ann'],
    'entity rm': [files, 'User@1.0/ann'],
    'entity undelete': [files, 'User@1.0/ann'],
    status: [files],
    top: [files, '--once'],
    peers: [files],
    subscriptions: [files],
    nodes: [files],
    kick: [files, peer],
    limits: [files],
    probe: [files, '--touch', 'app:///x'],
    bench: [files, '-c', '1', '-n', '3', file],
    'store copy': [null, store, `${store}-copy`],
    'store check': [null, store],
    'store backup': [null, store, `${store}-backup`],
    'store compact': [null, store],
    servers: [null],
    completions: [null, 'bash'],
    help: [null, 'read'],
    version: [null],
});

/** A command line with --json; `server` is null for commands without a server. */
const line = (name, server, ...rest) => [...name.split(' '), '--json', ...(server ? [server] : []), ...rest];

test('every command accepts --json and prints JSON', async (t) => {
    const args = ['--publish', 'app:///', '--allow-write', '--entities', ':memory:', '--self'];
    const server = await serve(t, { files: { 'a.json': '{}' }, args });
    const prompts = await serveExample(t, 'conformance');
    const [{ uriTemplate }] = objects(await good(t, ['templates', '--json', server.url]));
    const home = new Tree(t, { '.mcp.json': '{"mcpServers": {"x": {"url": "http://x/"}}}' });
    await (await serve(t, { args: ['--store', home.at('store')] })).stop();
    await listen(server, { resourceSubscriptions: [server.uri('a.json')] });
    const [{ peer }] = objects(await good(t, ['peers', '--json', server.url]));
    const samples = SAMPLES({
        files: server.url,
        prompts: prompts.url,
        file: server.uri('a.json'),
        mirror: home.at('mirror'),
        store: home.at('store'),
        template: uriTemplate,
        peer,
    });
    const { commands } = await described(t);
    const able = commands.filter((command) => command.options?.some((option) => option.name === '--json'));
    const names = commands.filter((command) => command.options).map((command) => command.name);
    assert.deepEqual(able.map((command) => command.name), names);
    assert.deepEqual([...Object.keys(samples), ...ELSEWHERE].sort(), names.sort());
    for (const [name, sample] of Object.entries(samples)) {
        const printed = objects(await good(t, line(name, ...sample), { cwd: home.path, input: 'text', ms: 6 * DEADLINE }));
        assert.ok(printed.length > 0 && printed.every((one) => one && typeof one === 'object'), name);
    }
});

test('completions --json prints the plain script', async (t) => {
    for (const shell of ['bash', 'zsh', 'fish']) {
        const script = await good(t, ['completions', shell]);
        assert.deepEqual(objects(await good(t, ['completions', '--json', shell])), [{ shell, script }]);
    }
});

test('watch prints an object per change', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '' } });
    const watch = new Program(t, BIN, ['watch', '--json', '-1', server.url, server.uri('a.txt')]);
    const out = watch.output();
    await watch.lines.next((text) => text.startsWith('watching '), 'the watch');
    server.tree.write('a.txt', '1');
    assert.equal(JSON.parse(await out.next(() => true, 'a change')).uri, server.uri('a.txt'));
});

test('serve logs objects, one with its addresses', async (t) => {
    const tree = new Tree(t, { 'a.txt': '' });
    const doors = ['--http', '127.0.0.1:0', '--unix', tree.at('socket')];
    const server = new Program(t, BIN, ['serve', '--json', '--log-level', 'debug', ...doors, tree.path]);
    const ready = JSON.parse(await server.lines.next((text) => text.includes('"addresses"'), 'the addresses'));
    assert.match(ready.addresses[0], /^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    assert.equal(ready.addresses[1], `unix:${tree.at('socket')}`);
    assert.equal(await good(t, ['read', ready.addresses[0], tree.uri('a.txt')]), '');
    await server.stop();
    const log = objects(server.stderr);
    assert.ok(log.length > 1);
    for (const one of log) {
        assert.ok(Date.parse(one.time) && ['error', 'warn', 'info', 'debug'].includes(one.level) && one.message !== '');
    }
});

test('config prints settings that the server reads back, with their origin', async (t) => {
    const tree = new Tree(t, { 'tidings.json': '{\n"keepalive": "20s"}' });
    const env = { TIDINGS_OUTBOX: '7' };
    const args = ['config', '--page-size', '5', '--title', 'a "b" \u202e', '--json'];
    const [{ settings, origins }] = objects(await good(t, args, { cwd: tree.path, env }));
    assert.deepEqual([settings.pageSize, settings.keepalive, settings.outbox], [5, '20s', 7]);
    assert.equal(settings.title, 'a "b" \u202e');
    assert.deepEqual(
        [origins.pageSize, origins.keepalive, origins.outbox, origins.http],
        ['flag', 'tidings.json:2', 'environment TIDINGS_OUTBOX', 'default'],
    );
    tree.write('tidings.json', JSON.stringify(settings));
    const [again] = objects(await good(t, ['config', '--json'], { cwd: tree.path }));
    assert.deepEqual(again.settings, settings);
});

test('token prints everything on standard output and nothing elsewhere', async (t) => {
    const end = await run(t, ['token', 'ann', '--scope', 'a', '--scope', 'b', '--json']);
    const [{ name, scopes, token, line: forFile }] = objects(end.stdout);
    assert.deepEqual([name, scopes], ['ann', ['a', 'b']]);
    assert.match(forFile, /^ann [0-9a-f]{64} a b$/);
    assert.ok(token.length > 40 && !forFile.includes(token));
    assert.equal(end.stderr, '');
});

test('help describes commands, options and exit statuses', async (t) => {
    const { commands, exitStatuses, version } = await described(t);
    assert.match(version, /^\d+\.\d+\.\d+$/);
    assert.deepEqual(objects(await good(t, ['help', 'exit', '--json'])), [{ exitStatuses }]);
    const listed = [...(await good(t, ['help', 'exit'])).matchAll(/^ {2}(\d+) /gm)].map((match) => Number(match[1]));
    assert.deepEqual(exitStatuses.map((exit) => exit.status), listed);
    for (const command of commands) {
        const words = command.name.split(' ');
        assert.deepEqual(objects(await good(t, ['help', ...words, '--json'])), [command]);
        const help = await good(t, ['help', ...words]);
        for (const option of command.options?.filter((one) => one.name !== '--help') ?? []) {
            assert.ok(help.includes(option.name), `${command.name} ${option.name}`);
        }
    }
    const option = (name, wanted) =>
        commands.find((command) => command.name === name).options.find((one) => one.name === wanted);
    const { help, ...jobs } = option('watch', '--jobs');
    assert.ok(help);
    assert.deepEqual(jobs, {
        name: '--jobs', letter: '-j', kind: 'number', metavar: 'N', default: '4', min: 1, max: 64,
    });
    assert.deepEqual(option('read', '--color').choices, ['auto', 'always', 'never']);
    assert.equal(option('read', '--header').repeatable, true);
    assert.equal(option('serve', '--page-size').default, '100');
    assert.equal(option('serve', '--tcp').repeatable, true);
    assert.deepEqual(objects(await good(t, ['read', '--json', '--help'])), objects(await good(t, ['help', 'read', '--json'])));
});

// arguments, status, kind, message text
const FAILURES = [
    [['raed', '--json'], 64, 'invalid argument', /did you mean 'read'/],
    [['read', '--json'], 64, 'invalid argument', /needs URI/],
    [['read', '--json', '--nonsense', '"\x1b\u202e'], 64, 'invalid argument', /nonsense/],
    [['read', '--json', '-t', 'nobody', 'a:b'], 66, 'not found', /'nobody'/],
    [['ls', '--json', 'http://127.0.0.1:1/mcp'], 74, 'input/output error', /./],
    [['serve', '--json', '/no/such'], 66, 'not found', /no\/such/],
    [['config', '--json', '--page-size', '0'], 64, 'invalid argument', /page-size/],
    [['token', '--json', 'a b'], 64, 'invalid argument', /blank/],
    [['completions', '--json', 'tcsh'], 64, 'invalid argument', /bash, zsh and fish/],
];
for (const [args, status, kind, says] of FAILURES) {
    test(`failure is an object on standard error: ${JSON.stringify(args)}`, async (t) => {
        const end = await run(t, args);
        assert.equal(end.code, status, end.stderr);
        assert.equal(end.stdout, '');
        const [failure, ...more] = objects(end.stderr);
        assert.deepEqual(more, []);
        assert.deepEqual([failure.status, failure.error], [status, kind]);
        assert.match(failure.message, says);
    });
}
