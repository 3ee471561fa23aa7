// SPDX-License-Identifier: MIT
//
// TAB in directories of strangers, in real shells on a real terminal: names of servers that a project's file gives and
// names of files are offered when they are ordinary, and none of them is ever run.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { good, lines, objects } from './lib/cli.mjs';
import { BIN } from './lib/server.mjs';
import { Terminal, noTerminal } from './lib/terminal.mjs';
import { Tree } from './lib/tree.mjs';

// What shells would run, or take for options of their own commands, if they were given it unprotected. Each list is a
// file of its own, since one name can hide another: a quote that is never closed ends the reading of a list.
const RUN = '$(touch${IFS}RAN)';
const EVIL = [
    [RUN], ['`touch${IFS}RAN`'], ['$(touch RAN)'], ['<(touch${IFS}RAN)'], [';touch${IFS}RAN;'], ["';touch RAN;'"],
    ['(touch RAN)'], ['-a', 'path[$(>RAN)]'], ['-a', `path[${RUN}]`], [`-a x[${RUN}]`], [`\${x:=${RUN}}`], [`a\n${RUN}`], ['-e', RUN],
    ['-C', 'touch${IFS}RAN'], ['-F', `f${RUN}`],
    ['--', '-', '~', '*', 'a b', '"', "'", '\u001b[2J', 'b\\', 'naïve', ''],
];
const ORDINARY = ['alpha.one', 'Beta_2', 'notes'];
const named = (names) => Object.fromEntries(names.map((name) => [name, { url: 'http://127.0.0.1:1/' }]));

const SHELLS = {
    bash: {
        words: ['bash', '--norc', '--noprofile', '-i'],
        begin: (folder) => `PS1='rea''dy> '; bind 'set bell-style none'; source ${folder}/_tidings`,
    },
    zsh: {
        words: ['zsh', '-f', '-i'],
        begin: (folder) =>
            `PS1='rea''dy> '; unsetopt prompt_cr beep; fpath=(${folder} $fpath); autoload -Uz compinit; compinit -u -D`,
    },
    fish: {
        words: ['fish', '--no-config', '--private', '-i'],
        begin: (folder) =>
            `function fish_prompt; echo -n 'rea''dy> '; end; set -g fish_autosuggestion_enabled 0; source ${folder}/_tidings`,
    },
};

const isThere = (name) => (process.env.PATH ?? '').split(':').some((dir) => fs.existsSync(path.join(dir, name)));
const quoted = (name) => `'${name.replaceAll("'", "'\\''")}'`;

/**
 * A shell with our completions, and for each list of EVIL a directory 0, 1, … with a file of servers that are called so.
 * `fake`: something else prints the names in our place, so that the script is tested without what the program leaves out.
 */
async function begin(t, shell, fake) {
    const tree = new Tree(t, { 'home/.config/fish/config.fish': '' });
    for (const [i, names] of EVIL.entries()) {
        tree.write(`${i}/.git/HEAD`);
        tree.write(`${i}/.mcp.json`, JSON.stringify({ mcpServers: named([...names, ...ORDINARY]) }));
        tree.write(`${i}/names`, [...names, ...ORDINARY].map((name) => `${name}\n`).join(''));
    }
    tree.write('script/_tidings', await good(t, ['completions', shell]));
    tree.mkdir('bin');
    if (fake) {
        fs.writeFileSync(tree.at('bin/tidings'), '#!/bin/sh\nexec cat names\n', { mode: 0o755 });
    } else {
        fs.symlinkSync(BIN, tree.at('bin/tidings'));
    }
    const path = `${tree.at('bin')}:${process.env.PATH}`;
    const env = { HOME: tree.at('home'), XDG_CONFIG_HOME: '', PATH: path, LC_ALL: 'C.UTF-8', INPUTRC: '/dev/null' };
    const terminal = new Terminal(t, SHELLS[shell].words, { cwd: tree.path, env });
    terminal.type(`${SHELLS[shell].begin(tree.at('script'))}\n`);
    await terminal.shows('ready> ');
    const ran = () => fs.readdirSync(tree.path, { recursive: true }).filter((name) => /(^|\/)RAN/.test(name));
    return { terminal, tree, ran };
}

const KILL_LINE = '\x15'; // control-U

for (const shell of Object.keys(SHELLS)) {
    const skip = noTerminal || (!isThere(shell) && `${shell} is not installed`);
    for (const fake of [false, true]) {
        const whose = fake ? 'that anything prints' : 'in a file of strangers';
        test(`TAB in ${shell}: of the names ${whose} ordinary ones are offered and none is run`, { skip }, async (t) => {
            const { terminal, tree, ran } = await begin(t, shell, fake);
            for (const i of EVIL.keys()) {
                terminal.type(`cd ${tree.at(String(i))}; echo now" "in" "${i}\n`);
                await terminal.shows(`now in ${i}`);
                await terminal.shows('ready> ');
                terminal.type('tidings ls no\t');
                await terminal.shows(/tes/);
                terminal.type(`${KILL_LINE}tidings ls -t alp\t`);
                await terminal.shows(/ha\.one/);
                terminal.type(`${KILL_LINE}tidings ls \t\t`);
                await terminal.shows('Beta_2');
                assert.deepEqual(ran(), [], JSON.stringify(EVIL[i]));
                const offered = terminal.screen.slice(terminal.screen.lastIndexOf('alpha.one'));
                assert.doesNotMatch(offered, /RAN|IFS|naïve|a b/);
                terminal.type(KILL_LINE);
            }
            terminal.type('exit\n');
            await terminal.ended();
            assert.deepEqual(ran(), []);
        });
    }

    test(`TAB in ${shell}: a file whose name is a command is completed as a name, and stays one`, { skip }, async (t) => {
        const { terminal, tree, ran } = await begin(t, shell, false);
        tree.write(`only ${RUN};touch RAN`);
        terminal.type('tidings read http://127.0.0.1:1/ only\t');
        await terminal.shows('touch');
        terminal.type('\n');
        await terminal.shows(/tidings read: /);
        terminal.type('exit\n');
        await terminal.ended();
        assert.deepEqual(ran(), []);
    });
}

test('names for scripts are ordinary ones; people and programs are shown all', async (t) => {
    const tree = new Tree(t, { '.mcp.json': JSON.stringify({ mcpServers: named([...EVIL.flat(), ...ORDINARY]) }) });
    const options = { cwd: tree.path, env: { HOME: tree.path, XDG_CONFIG_HOME: '' } };
    assert.deepEqual(lines(await good(t, ['servers', '--quiet'], options)), ORDINARY);
    const all = new Set(objects(await good(t, ['servers', '--json'], options)).map((server) => server.name));
    assert.deepEqual(all, new Set([...EVIL.flat(), ...ORDINARY]));
});
