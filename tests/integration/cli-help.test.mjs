// SPDX-License-Identifier: MIT
//
// Help of every command, mistakes with suggestions, exit statuses, server names, and completions that real shells
// accept.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { BIN, cleanEnv, run } from './lib/server.mjs';
import { noTerminal, Terminal } from './lib/terminal.mjs';
import { Tree } from './lib/tree.mjs';

const lines = (text) => text.split('\n').filter((line) => line !== '');

test('every listed command has help with a usage line', async (t) => {
    const { stdout } = await run(t, ['help']);
    const names = [...stdout.matchAll(/^ {2}([a-z-]+) +[a-z]/gm)].map((match) => match[1]);
    assert.ok(names.includes('serve') && names.includes('read') && names.includes('entity'));
    for (const name of names) {
        const help = await run(t, ['help', name]);
        assert.equal(help.code, 0, help.stderr);
        assert.ok(help.stdout.startsWith(`usage: tidings ${name}`), help.stdout);
        assert.equal((await run(t, [name, '--help'])).stdout, help.stdout);
    }
});

test('default value in --help equals --json and the option accepts it', async (t) => {
    const { commands } = JSON.parse((await run(t, ['help', '--json'])).stdout);
    const seen = [];
    for (const { name, options = [], minArguments } of commands) {
        if (minArguments === undefined) {
            continue; // a group, or a command that reads a server configuration
        }
        const words = name.split(' ');
        const text = (await run(t, [...words, '--help'])).stdout.replace(/\s+/g, ' ');
        for (const option of options.filter((row) => row.default !== undefined)) {
            if (text.includes(`(default ${option.default})`)) {
                seen.push(`${name} ${option.name} ${option.default}`);
            } else {
                assert.equal(option.default, option.choices?.[0], `${name} ${option.name}`);
            }
            const taken = await run(t, [...words, option.name, option.default, '--help']);
            assert.equal(taken.code, 0, `${name} ${option.name}: ${taken.stderr}`);
        }
    }
    for (const one of ['top --delay 2s', 'watch --debounce 300ms', 'tail --lines 10', 'read --timeout 30s']) {
        assert.ok(seen.includes(one), one);
    }
});

test('members of a group have their own help', async (t) => {
    const group = await run(t, ['help', 'entity']);
    assert.match(group.stdout, /^ {2}entity get /m);
    const member = await run(t, ['entity', 'log', '-h']);
    assert.equal(member.code, 0);
    assert.match(member.stdout, /^usage: tidings entity log /);
    assert.equal((await run(t, ['help', 'entity', 'log'])).stdout, member.stdout);
});

test("option of a command hides the common option of the same name", async (t) => {
    const count = (text) => text.split('--timeout').length - 1;
    const { stdout } = await run(t, ['help', 'watch']);
    assert.match(stdout, /^ {2}--timeout TIME +end the watch/m);
    assert.doesNotMatch(stdout, /wait for an answer \(/);
    assert.match((await run(t, ['help', 'read'])).stdout, /^ {2}--timeout TIME +how long to wait for an answer/m);
    assert.deepEqual(await offered(t, 'watch', '--time'), ['--timeout']);
    const zsh = lines(await completions(t, 'zsh')).find((line) => line.includes('--until-first:'));
    assert.equal(count(zsh), 1);
});

const tooLong = (text, width) => text.split(/\r?\n/).filter((line) => [...line].length > width);

test('help wraps at blanks: 80 columns in a pipe, the terminal width on a terminal', { skip: noTerminal }, async (t) => {
    const { commands } = JSON.parse((await run(t, ['help', '--json'])).stdout);
    for (const { name } of [{ name: 'exit' }, ...commands]) {
        const words = ['help', ...name.split(' ')];
        assert.deepEqual(tooLong((await run(t, words)).stdout, 80), [], name);
    }
    const all = commands.map(({ name }) => `${BIN} help ${name}`).join('; ');
    const shown = new Terminal(t, ['sh', '-c', `stty cols 60; ${BIN}; ${all}; ${BIN} read -t no-such-server-is-known-by-that x`]);
    await shown.program.closed;
    assert.match(shown.screen, /usage: tidings completions/);
    // Words without blanks do not wrap and may exceed the width.
    assert.deepEqual(tooLong(shown.screen, 60).filter((line) => line.trim().includes(' ')), []);
    assert.match(shown.screen, /by the name\r?\n'no-such-server/);
});

test('server description wraps at blanks only on a terminal', { skip: noTerminal }, async (t) => {
    const server = [BIN, 'serve', '--stdio', '--no-config', '--entities', ':memory:', '--allow-write', new Tree(t).path].join(' ');
    const all = ['tools', 'tools -l', 'templates', 'templates -l', 'info'].map((words) => `${BIN} ${words} -- ${server}`);
    const shown = new Terminal(t, ['sh', '-c', `stty cols 60; ${all.join('; ')}`], { env: { NO_COLOR: '1' } });
    await shown.program.closed;
    assert.match(shown.screen, /wait_for_change/);
    assert.deepEqual(tooLong(shown.screen, 60).filter((line) => line.trim().includes(' ')), []);
    const { stdout } = await run(t, ['tools', '--', ...server.split(' ')]);
    assert.match(stdout, /^wait_for_change +Waits until .{80,}$/m, 'one line for a script');
});

test('server options are grouped by topic', async (t) => {
    const { stdout } = await run(t, ['help', 'serve']);
    for (const topic of ['where clients connect', 'TLS', 'resources', 'subscriptions', 'limits of each client']) {
        assert.ok(stdout.includes(`\n${topic}\n  --`), topic);
    }
});

test('colour appears only on a terminal and not with NO_COLOR', { skip: noTerminal }, async (t) => {
    const tree = new Tree(t);
    tree.write('a.txt', 'x');
    const line = [BIN, 'ls', '--', BIN, 'serve', '--stdio', '--no-config', tree.path];
    const screen = async (env) => {
        const shown = new Terminal(t, line, { env });
        await shown.program.closed;
        return shown.screen;
    };
    assert.match(await screen({ NO_COLOR: '' }), /\x1b\[/);
    assert.doesNotMatch(await screen({ NO_COLOR: '1' }), /\x1b\[/);
    assert.doesNotMatch((await run(t, line.slice(1))).stdout, /\x1b\[/);
});

test('exit statuses are explained', async (t) => {
    const { stdout } = await run(t, ['help', 'exit']);
    for (const status of [0, 1, 64, 65, 66, 69, 70, 71, 73, 74, 75, 77]) {
        assert.match(stdout, new RegExp(`^ {2}${status} +[a-z]`, 'm'));
    }
});

// arguments, message text
const MISTAKES = [
    [['raed', 'x'], /did you mean 'read'/],
    [['entity', '-t', 'x', 'put', 'y'], /as in 'tidings entity put -t …', not before it: '-t'/],
    [['-t', 'x', 'read', 'y'], /as in 'tidings read -t …', not before it: '-t'/],
    [['--nonsense', 'x'], /unknown command '--nonsense'/],
    [['entity', 'gte', 'x'], /did you mean 'entity get'/],
    [['read', 'x', 'y', '--jsno'], /'--json', but no option '--jsno'/],
    [['read', '--color', 'red', 'x', 'y'], /auto, always or never, not 'red'/],
    [['read', '--timeout', '5x', 'x', 'y'], /500ms.*not '5x'/],
    [['read', '--timeout'], /value is missing behind '--timeout'/],
    [['read', '--json=yes', 'x', 'y'], /takes no value/],
    [['tree', '-d', '0', 'x'], /from 1 to 64, not '0'/],
    [['read'], /needs URI/],
    [['read', 'http://127.0.0.1:1/mcp'], /needs URI…; the server is 'http:/],
    [['ls', 'http://127.0.0.1:1/mcp', 'a', 'b'], /what to do with 'b'/],
    [['read', '-t', 'x', 'y', '--', 'cat'], /not both/],
    [['read', 'y', '--'], /command is missing behind '--'/],
    [['read', '--header', 'nonsense', 'http://127.0.0.1:1/mcp', 'a:b'], /'Name: value', not 'nonsense'/],
    [['call', 'http://127.0.0.1:1/mcp', 'tool', 'a=1', '--args', '{}'], /not both/],
    [['completions', 'tcsh'], /bash, zsh and fish/],
    [['help', 'nothing'], /unknown command 'nothing'/],
];

for (const [args, says] of MISTAKES) {
    test(`mistake is explained: ${args.join(' ')}`, async (t) => {
        const end = await run(t, args);
        assert.equal(end.code, 64, end.stderr);
        assert.match(end.stderr, says);
        assert.equal(end.stdout, '');
    });
}

/** A home and a project with a subdirectory, and `servers(args)` run in it. */
function project(t, files) {
    const tree = new Tree(t, { 'home/x': '', 'project/.git/HEAD': '', 'project/sub/x': '', ...files });
    const env = { HOME: tree.at('home'), XDG_CONFIG_HOME: '' };
    return {
        tree,
        in: (args, options = {}) => run(t, args, { cwd: tree.at('project/sub'), env, ...options }),
    };
}

const named = (name, url) => JSON.stringify({ mcpServers: { [name]: { url } } });

test('server names come from the user first, then from the project up to its root', async (t) => {
    const here = project(t, {
        'home/.config/tidings/servers.json': named('notes', 'http://own/'),
        'project/sub/.mcp.json': named('notes', 'http://project/'),
        'project/.vscode/mcp.json': '// editors allow this\n{"servers": {"docs": {"command": "npx", "args": ["docs"],},}}',
        '.mcp.json': named('above', 'http://above/'),
    });
    const end = await here.in(['servers', '--json']);
    assert.equal(end.code, 0, end.stderr);
    const known = lines(end.stdout).map((line) => JSON.parse(line));
    assert.deepEqual(
        known.map(({ name, url, command }) => [name, url ?? command]),
        [['notes', 'http://own/'], ['docs', 'npx docs']],
    );
    assert.equal(known[1].file, here.tree.at('project/.vscode/mcp.json'));
    assert.deepEqual(lines((await here.in(['servers', '--quiet'])).stdout), ['notes', 'docs']);
    assert.match((await here.in(['servers'])).stdout, /^notes +http:\/\/own\/ +\S+servers\.json$/m);
});

test('XDG_CONFIG_HOME moves the file of names', async (t) => {
    const here = project(t, { 'config/tidings/servers.json': named('x', 'http://x/') });
    const end = await here.in(['servers', '-q'], { env: { HOME: '/nowhere', XDG_CONFIG_HOME: here.tree.at('config') } });
    assert.deepEqual(lines(end.stdout), ['x']);
});

test('unreadable file of names is reported and the others are used', async (t) => {
    const here = project(t, {
        'project/sub/.mcp.json': '{"mcpServers": {\n\n!',
        'project/.mcp.json': named('x', 'http://x/'),
    });
    const end = await here.in(['servers', '-q']);
    assert.match(end.stderr, /sub\/\.mcp\.json: line 3/);
    assert.deepEqual(lines(end.stdout), ['x']);
});

test('unknown server or unset variable is explained', async (t) => {
    const here = project(t, { 'project/.mcp.json': named('x', 'http://${NOT_SET_HERE}/') });
    const unknown = await here.in(['read', '-t', 'y', 'a:b']);
    assert.equal(unknown.code, 66);
    assert.match(unknown.stderr, /no server is known by the name 'y'[^]*tidings servers/);
    const unset = await here.in(['read', 'x', 'a:b']);
    assert.equal(unset.code, 64);
    assert.match(unset.stderr, /project\/\.mcp\.json: server 'x': the variable 'NOT_SET_HERE' is not set/);
});

const completions = (t, shell) => run(t, ['completions', shell]).then((end) => end.stdout);

/** The bash completions of an unfinished command line. */
async function offered(t, ...words) {
    const script = `${await completions(t, 'bash')}
        tidings() { "$BIN" "$@"; }
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tidings; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const env = cleanEnv({ BIN, HOME: '/nowhere' });
    return lines(execFileSync('bash', ['-c', script, 'bash', 'tidings', ...words], { env, encoding: 'utf8' }));
}

test('bash completes commands, members of groups, options and their values', async (t) => {
    assert.deepEqual(await offered(t, 'se'), ['serve', 'servers']);
    assert.deepEqual(await offered(t, 'entity', 'un'), ['undelete']);
    assert.deepEqual(await offered(t, 'watch', '--co'), ['--count', '--color']);
    assert.deepEqual(await offered(t, 'entity', 'log', '--li'), ['--limit']);
    assert.deepEqual(await offered(t, 'watch', '--color', ''), ['auto', 'always', 'never']);
    assert.deepEqual(await offered(t, 'watch', '--era', '=', 'mo'), ['modern']);
    assert.deepEqual(await offered(t, 'serve', '--page-s'), ['--page-size']);
    assert.deepEqual(await offered(t, 'serve', '--log-level', 'd'), ['debug']);
    assert.deepEqual(await offered(t, 'completions', ''), ['bash', 'zsh', 'fish']);
    assert.ok((await offered(t, 'help', '')).includes('entity'));
});

test('bash completes server names and then files', async (t) => {
    const tree = new Tree(t, { '.mcp.json': named('notes', 'http://x/'), 'file.txt': '' });
    const was = process.cwd();
    process.chdir(tree.path);
    try {
        assert.deepEqual(await offered(t, 'read', 'no'), ['notes']);
        assert.deepEqual(await offered(t, 'read', '-t', ''), ['notes']);
        assert.deepEqual(await offered(t, 'read', 'notes', 'fi'), ['file.txt']);
    } finally {
        process.chdir(was);
    }
});

for (const [shell, check] of [['bash', ['-n']], ['zsh', ['-n']], ['fish', ['--no-execute']]]) {
    const there = (process.env.PATH ?? '').split(':').some((dir) => fs.existsSync(path.join(dir, shell)));
    test(`completions are a script of ${shell}`, { skip: !there && `${shell} is not installed` }, async (t) => {
        const tree = new Tree(t, { script: await completions(t, shell) });
        execFileSync(shell, [...check, tree.at('script')]);
    });
}

test('zsh and fish completions have every command', async (t) => {
    const { stdout } = await run(t, ['help']);
    const names = [...stdout.matchAll(/^ {2}([a-z-]+) +[a-z]/gm)].map((match) => match[1]);
    const [zsh, fish] = [await completions(t, 'zsh'), await completions(t, 'fish')];
    for (const name of names) {
        assert.ok(zsh.includes(`'${name}:`), name);
        assert.ok(fish.includes(`-a '${name}'`), name);
    }
});
