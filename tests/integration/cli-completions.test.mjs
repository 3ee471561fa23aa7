// SPDX-License-Identifier: MIT
//
// TAB in untrusted directories, in real shells on a real terminal: the shell offers ordinary names of project servers,
// files and server items, and runs none of them.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { good, lines, objects } from './lib/cli.mjs';
import { BIN, run } from './lib/server.mjs';
import { Terminal, noTerminal } from './lib/terminal.mjs';
import { Tree } from './lib/tree.mjs';

// Names that a shell would run, or take for options, without quoting. Each list has its own file, because one name can
// hide another: an unclosed quote ends the list.
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

/** User directories are below HOME. */
const NOWHERE = { XDG_CONFIG_HOME: '', XDG_CACHE_HOME: '', XDG_STATE_HOME: '' };
/** A generous limit for any machine; the tests await answers. */
const PATIENT = '10000';

const isThere = (name) => (process.env.PATH ?? '').split(':').some((dir) => fs.existsSync(path.join(dir, name)));
const quoted = (name) => `'${name.replaceAll("'", "'\\''")}'`;

/** A shell with the completions. For each list of EVIL it has a directory 0, 1, … with a file of servers that have
 * these names. `fake`: another program prints the names, so that the test covers the script without the filter of the
 * program. */
async function begin(t, shell, fake, more = {}) {
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
    const env = { HOME: tree.at('home'), ...NOWHERE, PATH: path, LC_ALL: 'C.UTF-8', INPUTRC: '/dev/null', ...more };
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

    test(`TAB in ${shell}: file named like a command is completed as a file name`, { skip }, async (t) => {
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

test('names for scripts are ordinary and names for people and programs are complete', async (t) => {
    const tree = new Tree(t, { '.mcp.json': JSON.stringify({ mcpServers: named([...EVIL.flat(), ...ORDINARY]) }) });
    const options = { cwd: tree.path, env: { HOME: tree.path, XDG_CONFIG_HOME: '' } };
    assert.deepEqual(lines(await good(t, ['servers', '--quiet'], options)), ORDINARY);
    const all = new Set(objects(await good(t, ['servers', '--json'], options)).map((server) => server.name));
    assert.deepEqual(all, new Set([...EVIL.flat(), ...ORDINARY]));
});

// ---- names from a server -----------------------------------------------------------------------

const URIS = ['app://notes/one', 'app://notes/two%20x', 'app://other'];
const NAMES = ['add_note', 'add-tag', 'remove'];
/** Server names that completion must not offer. */
const HOSTILE = [...EVIL.flat(), 'add\nadd_line', '-add', '~add', '=add', 'add*', 'add\u0000x', 'x'.repeat(256)];

/** A modern server with these names and hostile ones. `asked`: received methods, `tokens`: received tokens. */
async function stranger(t, tools = NAMES) {
    const asked = [], tokens = [];
    const named = (names) => [...HOSTILE, ...names].map((name) => ({ name, inputSchema: { type: 'object' } }));
    const strange = HOSTILE.filter((name) => /[^-\w.~=]/.test(name) || name.length > 200);
    const uris = [...HOSTILE, ...strange.map((name) => `app://${name}`), ...URIS];
    const answers = {
        'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { resources: {}, tools: {}, prompts: {} } },
        'resources/list': { resources: uris.map((uri) => ({ uri, name: uri })) },
        'tools/list': { tools: named(tools) },
        'prompts/list': { prompts: named(['greet', 'greet.all']) },
    };
    const server = http.createServer(async (request, response) => {
        let body = '';
        for await (const text of request.setEncoding('utf8')) {
            body += text;
        }
        const { id, method } = JSON.parse(body);
        asked.push(method);
        tokens.push(request.headers.authorization);
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...answers[method] } }));
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    defer(t, () => (server.closeAllConnections(), server.close()));
    return { url: `http://127.0.0.1:${server.address().port}/mcp`, asked, tokens };
}

/** The output for a command line; standard error is empty and the status is 0. */
async function names(t, words, options) {
    const end = await run(t, ['completions', '--names', '--', ...words], options);
    assert.deepEqual([end.code, end.stderr], [0, '']);
    return lines(end.stdout);
}

/** A home directory and its environment. */
function home(t, files = {}, env = {}) {
    const tree = new Tree(t, { '.git/HEAD': '', ...files });
    return { tree, options: { cwd: tree.path, env: { HOME: tree.path, ...NOWHERE, TIDINGS_COMPLETE: PATIENT, ...env } } };
}

const cached = (tree) => {
    const folder = tree.at('.cache/tidings');
    return fs.existsSync(folder) ? fs.readdirSync(folder).map((name) => path.join(folder, name)) : [];
};

for (const shell of Object.keys(SHELLS)) {
    const skip = noTerminal || (!isThere(shell) && `${shell} is not installed`);
    test(`TAB in ${shell}: ordinary names from a server are offered and none is run`, { skip }, async (t) => {
        const { url } = await stranger(t);
        const { terminal, ran } = await begin(t, shell, false, { TIDINGS_COMPLETE: PATIENT });
        const typed = [
            [`tidings call ${url} add_\t`, /note/], [`tidings prompt ${url} greet\t\t`, /greet\.all/],
            [`tidings read ${url} app://o\t`, /ther/], [`tidings watch -t ${url} app://notes/t\t`, /wo\\?%20x/],
            [`tidings read --timeout 5 ${url} app://\t\t`, /notes\/one/],
        ];
        for (const [keys, shown] of typed) {
            terminal.type(keys);
            await terminal.shows(shown);
            terminal.type(KILL_LINE);
        }
        const from = terminal.screen.length;
        terminal.type(`tidings call ${url} \t\t`);
        await terminal.shows('remove');
        assert.doesNotMatch(terminal.screen.slice(from), /RAN|IFS|naïve|a b|add_line|-add\b|xxx/);
        terminal.type(`${KILL_LINE}exit\n`);
        await terminal.ended();
        assert.deepEqual(ran(), []);
    });

    test(`TAB in ${shell}: shell filters whatever prints the names of a server`, { skip }, async (t) => {
        const { terminal, tree, ran } = await begin(t, shell, true);
        for (const i of EVIL.keys()) {
            terminal.type(`cd ${tree.at(String(i))}; echo now" "in" "${i}\n`);
            await terminal.shows(`now in ${i}`);
            await terminal.shows('ready> ');
            terminal.type('tidings call http://127.0.0.1:1/ \t\t');
            await terminal.shows('alpha.one');
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

test('names: plain names with the prefix are offered for each kind of command', async (t) => {
    const { url } = await stranger(t);
    const { options } = home(t);
    for (const command of ['read', 'watch', 'tail', 'stat', 'ls', 'tree', 'sync']) {
        assert.deepEqual(await names(t, [command, url, ''], options), URIS, command);
    }
    assert.deepEqual(await names(t, ['read', url, 'app://other', 'app://n'], options), URIS.slice(0, 2));
    assert.deepEqual(await names(t, ['call', url, ''], options), NAMES);
    assert.deepEqual(await names(t, ['call', '-t', url, 'add'], options), NAMES.slice(0, 2));
    assert.deepEqual(await names(t, ['prompt', url, 'greet.'], options), ['greet.all']);
    assert.deepEqual(await names(t, ['call', 'add'], { ...options, env: { ...options.env, TIDINGS_SERVER: url } }), NAMES.slice(0, 2));
    const none = [
        ['call', url, 'remove', ''], ['sync', url, 'app://other', ''], ['ls', url, 'app://other', ''], ['call', url, '-'], ['tools', url, ''],
        ['serve', ''], ['nothing', url, ''], ['read', '--nothing', url, ''], ['read', '--timeout', ''], ['read', '--help', url, ''],
        ['read', '-H', '"A:', 'b"', url, ''], ['read', '$(touch RAN)', ''], ['read'],
    ];
    for (const words of none) {
        assert.deepEqual(await names(t, words, options), [], words.join(' '));
    }
});

test('names: cache files are private and a modified file is ignored', async (t) => {
    const { url, asked } = await stranger(t);
    const { tree, options } = home(t);
    assert.deepEqual(await names(t, ['call', url, ''], options), NAMES);
    const [file, ...others] = cached(tree);
    assert.deepEqual([others, fs.statSync(file).mode & 0o777, fs.statSync(path.dirname(file)).mode & 0o777], [[], 0o600, 0o700]);
    const before = asked.length;
    assert.deepEqual(await names(t, ['call', url, 'rem'], options), ['remove']);
    assert.equal(asked.length, before, 'it was asked again');
    const good = fs.readFileSync(file, 'utf8');
    const old = good.replace(/1 \d+/, (text) => `1 ${Number(text.slice(2)) - 61}`);
    const foreign = good.replace(/[0-9a-f]{64}/, '0'.repeat(64));
    for (const text of ['', 'x', good.replace('remove', '$(touch RAN)'), good.slice(0, -1), `${good}-x\n`, old, foreign, 'x'.repeat(300000)]) {
        const count = asked.length;
        fs.writeFileSync(file, text);
        assert.deepEqual(await names(t, ['call', url, ''], options), NAMES, text.slice(0, 200));
        assert.ok(asked.length > count, `believed: ${text.slice(0, 200)}`);
        assert.equal(fs.readFileSync(file, 'utf8').replace(/1 \d+/, ''), good.replace(/1 \d+/, ''));
    }
    fs.chmodSync(file, 0o666);
    const count = asked.length;
    assert.deepEqual(await names(t, ['call', url, ''], options), NAMES);
    assert.ok(asked.length > count, 'a file that everybody can write was believed');
});

test('names: at most 200 are offered and lists too large for a file are not cached', async (t) => {
    const many = (count) => Array.from({ length: count }, (_, i) => `n${String(i).padStart(4, '0')}.`.padEnd(255, 'x'));
    for (const [count, isKept] of [[250, true], [1000, true], [1100, false]]) {
        const { url, asked } = await stranger(t, many(count));
        const { tree, options } = home(t);
        assert.deepEqual(await names(t, ['call', url, ''], options), many(200));
        const before = asked.length;
        assert.deepEqual(await names(t, ['call', url, ''], options), many(200));
        assert.deepEqual(await names(t, ['call', url, 'n024'], options), many(250).slice(240));
        assert.equal(asked.length === before, isKept, `${count} were kept or not`);
        assert.equal(cached(tree).length, isKept ? 1 : 0);
    }
});

test('names: the number of cache files is limited and old files are evicted', async (t) => {
    const { url } = await stranger(t);
    const { tree, options } = home(t);
    const old = Array.from({ length: 70 }, (_, i) => tree.write(`.cache/tidings/names-${i}`, '') ?? tree.at(`.cache/tidings/names-${i}`));
    tree.write('.cache/tidings/mine', '');
    assert.deepEqual(await names(t, ['call', url, ''], options), NAMES);
    assert.equal(cached(tree).length, 71, 'one more was written');
    for (const i of old.keys()) {
        fs.utimesSync(tree.at(`.cache/tidings/names-${i}`), 1e9, 1e9);
    }
    fs.utimesSync(tree.at('.cache/tidings/mine'), 1e9, 1e9);
    assert.deepEqual(await names(t, ['call', url, ''], options), NAMES);
    assert.deepEqual(cached(tree).map((file) => path.basename(file).slice(0, 6)).sort(), ['mine', 'names-']);
});

test('names: silent or missing server is given up without output', async (t) => {
    const held = new Set();
    const silent = net.createServer((socket) => held.add(socket.on('error', () => {})));
    await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve));
    defer(t, () => (held.forEach((socket) => socket.destroy()), silent.close()));
    const { tree, options } = home(t, {}, { TIDINGS_COMPLETE: '' });
    assert.deepEqual(await names(t, ['read', `127.0.0.1:${silent.address().port}`, ''], options), []);
    assert.deepEqual(await names(t, ['read', `tcp://127.0.0.1:${silent.address().port}`, ''], options), []);
    assert.deepEqual(await names(t, ['read', '127.0.0.1:1', ''], options), []);
    assert.deepEqual(cached(tree), []);
});

test('names: TIDINGS_COMPLETE=off sends no request', async (t) => {
    const { url, asked } = await stranger(t);
    const { tree, options } = home(t, {}, { TIDINGS_COMPLETE: 'off' });
    assert.deepEqual(await names(t, ['call', url, ''], options), []);
    assert.deepEqual([asked, cached(tree)], [[], []]);
});

test('names: TIDINGS_TOKEN goes only to servers with a name, not to a partly typed address', async (t) => {
    const { url, asked, tokens } = await stranger(t);
    const { tree, options } = home(t, { '.config/tidings/servers.json': JSON.stringify({ mcpServers: { mine: { url } } }) });
    const env = { ...options.env, TIDINGS_TOKEN: 'secret' };
    const shown = async (words, more = {}) => {
        const count = asked.length;
        cached(tree).forEach((file) => fs.rmSync(file));
        assert.deepEqual(await names(t, words, { ...options, env: { ...env, ...more } }), NAMES, words.join(' '));
        assert.ok(asked.length > count);
        return [...new Set(tokens.slice(count))];
    };
    const short = url.replace(/^http:\/\/|\/mcp$/g, '');
    for (const words of [['call', url, ''], ['call', '-t', url, ''], ['call', short, '']]) {
        assert.deepEqual(await shown(words), [undefined], words.join(' '));
    }
    assert.deepEqual(await shown(['call', '--token', 'typed', url, '']), ['Bearer typed']);
    assert.deepEqual(await shown(['call', 'mine', '']), ['Bearer secret']);
    assert.deepEqual(await shown(['call', ''], { TIDINGS_SERVER: url }), ['Bearer secret']);
    // An explicit command counts as consent.
    const count = tokens.length;
    await good(t, ['tools', url], { ...options, env });
    assert.deepEqual([...new Set(tokens.slice(count))], ['Bearer secret']);
});

test('names: project servers are not launched, reached or sent a token before consent', async (t) => {
    const { url, asked, tokens } = await stranger(t);
    const launches = { command: '/bin/sh', args: ['-c', 'touch RAN'] };
    const { tree, options } = home(t, {
        '.mcp.json': JSON.stringify({ mcpServers: { launched: launches, plain: { url }, default: { url } } }),
        '.config/tidings/servers.json': JSON.stringify({ mcpServers: { own: launches, mine: { url } } }),
    });
    const token = { ...options, env: { ...options.env, TIDINGS_TOKEN: 'secret' } };
    const all = async (names_, how) => {
        for (const name of names_) {
            assert.deepEqual(await names(t, ['call', name, ''], how), [], name);
            assert.deepEqual(await names(t, ['call', '-t', name, ''], how), [], name);
            assert.deepEqual(await names(t, ['call', ''], { ...how, env: { ...how.env, TIDINGS_SERVER: name } }), [], name);
        }
    };
    await all(['launched', 'plain', 'default', 'own'], options);
    await all(['launched', 'plain', 'own'], token);
    assert.deepEqual(asked, []);
    assert.deepEqual(await names(t, ['call', url, '--', ''], options), []);
    assert.deepEqual(await names(t, ['call', '--', '/bin/touch', 'RAN', ''], options), []);
    for (const name of ['launched', 'plain']) {
        await good(t, ['servers', '--trust', name], options);
    }
    await all(['launched'], options);
    assert.deepEqual(asked, []);
    assert.deepEqual(await names(t, ['call', 'plain', ''], options), NAMES);
    assert.deepEqual(await names(t, ['call', 'mine', ''], token), NAMES);
    assert.deepEqual([tokens[0], tokens.at(-1)], [undefined, 'Bearer secret']);
    await good(t, ['servers', '--forget', 'plain'], options);
    await all(['plain'], options); // cached names are not printed either
    assert.ok(!fs.existsSync(tree.at('RAN')));
});
