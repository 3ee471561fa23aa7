// SPDX-License-Identifier: MIT
//
// Tests all examples of the documentation: commands must print the shown output, JSON must parse, configurations must
// load. tools/check-docs checks C code, links and test names. lib/pages.mjs defines the markup of pages.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import { blocks, pages, steps, taken, Terminal } from './lib/pages.mjs';
import { BIN, cleanEnv, EXAMPLES } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Kinds that are not run: recipes for other programs, and pictures. */
const NOT_OURS = {
    text: 'a picture, or words',
    c: 'compiled by tools/check-docs',
    nginx: 'a recipe for nginx',
    caddyfile: 'a recipe for Caddy',
    ini: 'units of systemd',
    cmake: 'compared with tests/install/consumer below',
};

/** The allowed reasons to skip a block. */
const EXCEPTIONS = {
    'needs root': 'installs packages or units',
    'another machine': 'names machines that do not exist here',
    'another process': 'speaks of a process by its number',
    'another test': 'run by a test of its own',
    'another program': 'a command of a program that is not installed for the tests',
};

/** Text of pages and its local value: port, directory and program under test. */
function translator(directory, port) {
    const table = [
        [/127\.0\.0\.1:7777/g, `127.0.0.1:${port}`],
        [/(^|[\s=:"'>])\/(srv|etc\/tidings|var\/lib\/tidings|run\/user\/1000)(?=\/)/g, `$1${directory}/machine/$2`],
        [/file:\/\/\/srv\//g, `file://${directory}/machine/srv/`],
        [/(^|\s)build\/release\/(examples\/)?/gm, '$1'],
    ];
    return (text) => table.reduce((now, [from, to]) => now.replace(from, to), text);
}

const freePort = () => new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
        const { port } = server.address();
        server.close(() => resolve(port));
    });
});

/** A directory that matches the pages: the demo and a ./run that needs no build. */
function stage(t) {
    const tree = new Tree(t);
    fs.cpSync(path.join(root, 'demo'), tree.at('demo'), { recursive: true });
    fs.cpSync(path.join(root, 'examples'), tree.at('examples'), { recursive: true });
    fs.mkdirSync(tree.at('bin'));
    // The port of the page is the HTTP default, which a stdio server does not open by itself.
    const program = `case " $* " in *" --stdio "*) unset TIDINGS_HTTP ;; esac\nexec '${BIN}' "$@"`;
    fs.writeFileSync(tree.at('bin/tidings'), `#!/bin/sh\n${program}\n`, { mode: 0o755 });
    fs.writeFileSync(tree.at('run'), '#!/bin/sh\nexec tidings serve "${1:-demo}"\n', { mode: 0o755 });
    // The path of the installed library, which tests/install checks.
    const build = path.dirname(BIN).replace(/\b[at]san$/, 'release');
    const flags = `-I${root}include -L${build} -Wl,-rpath,${build} -ltidings`;
    fs.writeFileSync(tree.at('bin/pkg-config'), `#!/bin/sh\necho '${flags}'\n`, { mode: 0o755 });
    const absolute = ['srv', 'etc/tidings', 'var/lib/tidings', 'run/user/1000'];
    absolute.forEach((name) => tree.mkdir(`machine/${name}`));
    return tree;
}

async function runPage(t, text) {
    const tree = stage(t);
    const port = await freePort();
    const translate = translator(tree.path, port);
    const env = cleanEnv({
        HOME: tree.path,
        PATH: `${tree.at('bin')}:${EXAMPLES}:${process.env.PATH}`,
        TIDINGS_HTTP: `127.0.0.1:${port}`,
        XDG_CONFIG_HOME: tree.at('.config'),
    });
    const terminals = new Map();
    for (const block of blocks(text)) {
        const body = translate(block.lines.join('\n'));
        if (block.file) {
            const file = block.file.replace(/^~\//, '');
            fs.mkdirSync(path.dirname(tree.at(file)), { recursive: true });
            fs.writeFileSync(tree.at(file), `${body}\n`);
        }
        if (block.notRun) {
            assert.ok(block.notRun in EXCEPTIONS, `line ${block.line}: '${block.notRun}' is no known reason`);
        } else if (block.kind === 'json') {
            checkJson(tree, block, body, env);
        } else if (block.kind === 'console' || block.kind === 'sh') {
            if (!terminals.has(block.terminal)) {
                terminals.set(block.terminal, new Terminal(t, block.terminal, tree.path, env));
            }
            for (const step of steps({ ...block, lines: body.split('\n') })) {
                await terminals.get(block.terminal).step(step).catch((error) => {
                    throw new Error(`line ${step.line}: ${error.message}`);
                });
            }
        } else {
            assert.ok(block.kind in NOT_OURS, `line ${block.line}: a block of kind '${block.kind}', which nobody checks`);
        }
    }
    for (const terminal of terminals.values()) {
        await terminal.finish();
    }
}

function checkJson(tree, block, body, env) {
    try {
        JSON.parse(body);
    } catch (error) {
        throw new Error(`line ${block.line}: ${error.message}`);
    }
    if (block.configuration) {
        fs.writeFileSync(tree.at('page.json'), body);
        execFileSync(BIN, ['config', '--config', tree.at('page.json')], { env, cwd: tree.path, stdio: 'pipe' });
    }
}

test('commands and outputs of every page are correct', async (t) => {
    for (const page of pages(root)) {
        await t.test(page, (inner) => runPage(inner, fs.readFileSync(path.join(root, page), 'utf8')));
    }
});

test('architecture picture equals the output of its script', (t) => {
    const now = new Tree(t).at('architecture.svg');
    execFileSync(path.join(root, 'tools/draw-architecture'), [now]);
    const shown = path.join(root, 'docs/architecture.svg');
    assert.equal(fs.readFileSync(shown, 'utf8'), fs.readFileSync(now, 'utf8'), 'run tools/draw-architecture');
});

test('README fits on two screens: 110 lines outside folded sections', () => {
    const text = fs.readFileSync(path.join(root, 'README.md'), 'utf8').replace(/<details>[^]*?<\/details>/g, '');
    const lines = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('<!--'));
    assert.ok(lines.length <= 110, `${lines.length} lines`);
});

test('recorded session of the README equals the output of the commands', (t) => {
    const now = new Tree(t).at('session.svg');
    execFileSync(path.join(root, 'tools/record'), [BIN, now], { env: cleanEnv(), stdio: 'pipe' });
    const shown = (file) => fs.readFileSync(file, 'utf8').replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'INSTANT').split('\n');
    assert.deepEqual(shown(path.join(root, 'docs/session.svg')), shown(now), 'run tools/record');
});

test('CMake code on pages equals the test of the installed library', () => {
    const consumer = fs.readFileSync(path.join(root, 'tests/install/consumer/CMakeLists.txt'), 'utf8');
    for (const page of pages(root)) {
        const text = fs.readFileSync(path.join(root, page), 'utf8');
        for (const block of blocks(text).filter(({ kind }) => kind === 'cmake')) {
            block.lines.filter((line) => /find_package|tidings::/.test(line)).forEach((line) => {
                const essence = line.match(/find_package\([^)]*\)|tidings::\w+/)[0];
                assert.ok(consumer.includes(essence), `${page}:${block.line}: ${essence} is not in the consumer`);
            });
        }
    }
});

/** The cells of each row of the tables in a string. */
const tableRows = (text) => text.split('\n').filter((line) => line.startsWith('| '))
    .map((line) => line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim()));

/** The cells of the first column of the table below a heading, without the header. */
const firstCells = (text, heading) => tableRows(text.split(`\n${heading}\n`)[1].split(/\n##+ /)[0]).slice(1)
    .map(([first]) => first);

/** The commands that a cell names: `entity get`, `at` are two of the group `entity`. */
function commandsOf(cell, names) {
    const first = cell.match(/`([a-z-]+)/)[1];
    return [...cell.matchAll(/`([^`]+)`/g)].map(([, item]) => item.split(' ')).map(([word, next]) => (
        [`${word} ${next}`, `${first} ${word}`, word].find((name) => names.includes(name))));
}

test('command reference has every command and every exit status', () => {
    const help = JSON.parse(execFileSync(BIN, ['help', '--json'], { env: cleanEnv() }));
    const text = fs.readFileSync(path.join(root, 'docs/reference/cli.md'), 'utf8');
    const names = help.commands.filter(({ commands }) => !commands).map(({ name }) => name);
    const named = firstCells(text, '## Commands').flatMap((cell) => commandsOf(cell, names));
    assert.deepEqual(names.filter((name) => !named.includes(name)), [], 'commands without a row');
    const statuses = firstCells(text, '### Exit statuses').flatMap((cell) => cell.split(', ').map(Number));
    assert.deepEqual(statuses, help.exitStatuses.map(({ status }) => status));
});

/** The range limits of an option, as the program prints them for a value outside: `8 to 512`. */
function rangeOf({ name, kind }) {
    const beyond = { number: '999999999999', time: '99999h', size: '99999g' }[kind];
    const { stderr } = spawnSync(BIN, ['config', '--no-config', name, beyond], { env: cleanEnv(), encoding: 'utf8' });
    return stderr.match(/\(accepted: (\w+) to (\w+)/).slice(1);
}

test('configuration reference has every option with its default, choices and range', () => {
    const { options } = JSON.parse(execFileSync(BIN, ['help', 'serve', '--json'], { env: cleanEnv() }));
    const text = fs.readFileSync(path.join(root, 'docs/reference/configuration.md'), 'utf8');
    const rows = new Map(tableRows(text).filter(([first]) => first.startsWith('`--'))
        .map(([first, ...rest]) => [first, rest]));
    const expected = new Map(options.filter(({ name }) => name !== '--help').map((option) => {
        const form = [option.name, option.metavar?.replaceAll('|', '\\|')].filter(Boolean).join(' ');
        return [`\`${form}\`${option.repeatable ? ' \\*' : ''}`, option];
    }));
    assert.deepEqual([...rows.keys()].sort(), [...expected.keys()].sort());
    for (const [form, { default: standard, choices = [] }] of expected) {
        const [shown, meaning] = rows.get(form);
        assert.equal(standard ?? shown, shown, `the default of ${form}`);
        assert.deepEqual(choices.filter((choice) => !meaning.includes(`\`${choice}\``)), [], `choices of ${form}`);
    }
    for (const [form, option] of [...expected].filter(([, { kind }]) => ['number', 'time', 'size'].includes(kind))) {
        const [least, most] = rangeOf(option);
        assert.match(rows.get(form)[1], new RegExp(`\\b${least}( \\([^)]*\\))? to ${most}\\b`), form);
    }
});

// ---- causes of page failures ----------------------------------------------------------------------

const wrong = [
    ['output that does not come', '```console\n$ echo one\ntwo\n```', /the page shows\s+two\s+but this came:\s+one/],
    ['output that is not shown', '```console\n$ printf "one\\ntwo\\n"\none\n```', /but this came:\s+one\s+two/],
    ['a command that fails', '```console\n$ false\n```', /line 2: `false` ended with status 1/],
    ['a command that does not exist', '```sh\ntidings frobnicate\n```', /status 64:\s+tidings: unknown command/],
    ['JSON that is none', '```json\n{"a": }\n```', /line 2: Unexpected token/],
    ['a configuration with an unknown key', '<!-- configuration -->\n```json\n{"colour": 1}\n```', /unknown key 'colour'/],
    ['a block of no kind', '```\nanything\n```', /kind '', which nobody checks/],
    ['a kind nobody knows', '```python\nprint(1)\n```', /kind 'python'/],
    ['an indented block', 'text\n\n    $ false\n', /kind 'indented'/],
    ['a reason nobody knows', '<!-- not run: boring -->\n```sh\nfalse\n```', /'boring' is no known reason/],
];
for (const [name, text, message] of wrong) {
    test(`page fails for ${name}`, (t) => assert.rejects(runPage(t, text), message));
}

const right = {
    'a terminal beside another': '<!-- terminal 2 -->\n```console\n$ cat demo/notes/todo.md >/dev/null; echo x; sleep 60\nx\n```\n```console\n$ echo y\ny\n```\n<!-- terminal 2 -->\n```console\n^C\n$ echo z\nz\n```',
    'an interrupt while no program runs': '```console\n$ echo x; for i in {1..200000}; do :; done; sleep 60\nx\n^C\n$ echo z\nz\n```',
    'instants and gaps': '```console\n$ date -u +%Y-%m-%dT%H:%M:%SZ; echo a b c; seq 5\n2026-01-01T00:00:00Z\na … c\n…\n5\n```',
    'what is set up unseen': '<!-- before\nmkdir d\necho 1 >d/f\n-->\n```console\n$ cat d/f\n1\n```',
};
for (const [name, text] of Object.entries(right)) {
    test(`page may have ${name}`, (t) => runPage(t, text));
}

test('shown lines are compared in order', () => {
    assert.equal(taken(['a', 'b'], ['a', 'b', 'c']), 2);
    assert.equal(taken(['a', '…', 'c'], ['a', 'b', 'c']), 3);
    assert.equal(taken(['b'], ['a', 'b']), -1);
});
