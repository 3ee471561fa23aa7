// SPDX-License-Identifier: MIT
//
// Errors appear on standard error with the name and the documented status: empty arguments, unreadable files, addresses
// without an MCP server, and unwritable outputs.

import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';

import { bad, good, lines } from './lib/cli.mjs';
import { defer } from './lib/cleanup.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const NOWHERE = 'http://127.0.0.1:1/mcp';

// An empty argument is most likely an unset variable; arguments, message
const EMPTY = [
    [['', 'x'], /unknown command ''$/m],
    [['read', '', 'a:b'], /'' is not the address of a server/],
    [['read', NOWHERE, ''], /takes URI…, and argument 1 is empty/],
    [['sync', NOWHERE, 'a:b', ''], /takes URI DIR, and argument 2 is empty/],
    [['publish', NOWHERE, 'a:b', ''], /argument 2 is empty/],
    [['call', NOWHERE, ''], /argument 1 is empty/],
    [['read', NOWHERE, 'a:b', '--token', ''], /--token takes TEXT, and must not be empty/],
    [['read', NOWHERE, 'a:b', '--token-file='], /--token-file takes FILE, and must not be empty/],
    [['read', NOWHERE, 'a:b', '-H', ''], /--header takes LINE, and must not be empty/],
    [['watch', NOWHERE, 'a:b', '--exec', ''], /--exec takes COMMAND, and must not be empty/],
    [['read', '-t', '', 'a:b'], /--target takes SERVER, and must not be empty/],
    [['entity', 'nope'], /unknown command 'entity nope'\n.*'tidings help entity' lists its commands/],
    [['entity'], /needs one of its commands/],
    [['ls', NOWHERE, '--timeout', '0'], /a time from 1ms to 24h, .*not '0'/],
    [['watch', NOWHERE, 'a:b', '--timeout', '9000h'], /a time from 1ms to 8760h, .*not '9000h'/],
];
for (const [args, says] of EMPTY) {
    test(`mistake is explained: ${JSON.stringify(args)}`, async (t) => {
        assert.equal((await bad(t, 64, says, args)).stdout, '');
    });
}

test('local failure is not blamed on the server', async (t) => {
    const server = await serve(t, { files: { 'a.txt': 'no JSON' }, args: ['--publish', 'app:///', '--allow-write'] });
    const [file, dir] = [server.tree.at('a.txt'), server.tree.path];
    const uri = server.uri('a.txt');
    const mistakes = [
        [66, /'\/no\/such': No such file/, ['read', server.url, uri, '--token-file', '/no/such']],
        [64, /not a regular file/, ['read', server.url, uri, '--token-file', dir]],
        [64, /'Name: value', not 'nonsense'/, ['read', server.url, uri, '-H', 'nonsense']],
        [74, /Is a directory/, ['publish', server.url, 'app:///x', '--file', dir]],
        [74, /Is a directory/, ['call', server.url, 'publish', '--args', `@${dir}`]],
        [65, /a\.txt: line 1/, ['call', server.url, 'publish', '--args', `@${file}`]],
        [65, /'nope': line 1/, ['call', server.url, 'publish', '--args', 'nope']],
        [65, /standard input: line 1/, ['call', server.url, 'publish', '--args', '-']],
        [65, /\{"a":"?1"?,"a":"?2"?\}: .*duplicate/, ['call', server.url, 'publish', 'a=1', 'a=2']],
        [74, /Not a directory/, ['sync', server.url, server.uri(''), '/dev/null']],
    ];
    for (const [code, says, args] of mistakes) {
        const { stderr } = await bad(t, code, says, args);
        assert.equal(lines(stderr).length, 1, stderr);
    }
    await bad(t, 77, /Permission denied\n.*check that the program can be run/, ['ls', '--', file]);
});

test('missing features of a server are named', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '' }, args: ['--change-tools', 'on'] });
    for (const args of [['ls'], ['ls', '-R'], ['tree'], ['stat'], ['read']]) {
        await bad(t, 66, /'x:y': resource not found/, [...args, server.url, 'x:y']);
    }
    await bad(t, 64, /unknown tool 'nope'.*\n.*'tidings tools -l'/, ['call', server.url, 'nope']);
    const mirror = new Tree(t).at('mirror');
    await bad(t, 66, /refused x:y\/: \S/, ['sync', server.url, 'x:y', mirror]);
});

test('unreachable or invalid address is named', async (t) => {
    const tree = new Tree(t, { file: '' });
    await bad(t, 74, /connect to '\/no\/such': No such file/, ['ls', 'unix:/no/such']);
    await bad(t, 74, /connect to '\S+file': Connection refused/, ['ls', `http+unix:${tree.at('file')}`]);
    await bad(t, 64, /'http:\/\/' is not a URL/, ['ls', 'http://']);
    await bad(t, 64, /'http:\/\/127\.0\.0\.1:99999\/' is not a URL/, ['ls', 'http://127.0.0.1:99999/']);
});

test('web server without POST is reported as not MCP at once and later', async (t) => {
    const web = http.createServer((request, response) => response.writeHead(501).end());
    await new Promise((resolve) => {
        web.listen(0, '127.0.0.1', resolve);
    });
    defer(t, () => web.close());
    const url = `http://127.0.0.1:${web.address().port}/`;
    for (const args of [['ls'], ['watch', '--wait'], ['probe'], ['bench']]) {
        await bad(t, 65, /not one of an MCP server \(HTTP 501\)/, [...args, url, 'x:y']);
    }
});

/** Runs it in a shell with this text appended. */
const redirected = (t, args, how) =>
    run(t, ['-c', `"$0" "$@" ${how}`, BIN, ...args], { file: '/bin/sh' });

test('closed standard descriptors are not reused', async (t) => {
    const server = await serve(t, { files: { 'a.txt': 'content' } });
    for (const args of [['config'], ['help'], ['ls', server.url], ['read', server.url, server.uri('a.txt')]]) {
        const end = await redirected(t, args, '>&-');
        assert.equal(end.code, 74, `${args}: ${end.stderr}`);
        assert.match(end.stderr, /cannot write the output/);
        assert.equal((await redirected(t, args, '<&- >&- 2>&-')).code, 74);
    }
    assert.equal(await good(t, ['read', server.url, server.uri('a.txt')]), 'content', 'the server is well');
});

test('write error on the output fails every command', async (t) => {
    const server = await serve(t, { files: { 'a.txt': '' } });
    for (const args of [['help', '--json'], ['version'], ['token', 'x'], ['config'], ['completions', 'bash'], ['ls', server.url]]) {
        const end = await redirected(t, args, '>/dev/full');
        assert.equal(end.code, 74, `${args}: ${end.stderr}`);
        assert.match(end.stderr, /cannot write the output/);
        assert.doesNotMatch(end.stderr, /tdg_/, 'who cannot have the line must not have the token');
    }
    const script = ['-c', 'exec "$0" "$@" >/dev/full', BIN, 'watch', server.url, server.uri('a.txt')];
    const watch = new Program(t, '/bin/sh', script, { mayFail: true });
    await watch.lines.next((line) => line.startsWith('watching '), 'the watch');
    server.tree.write('a.txt', '1');
    assert.equal((await watch.closed).code, 74, watch.stderr);
});

test('command ends silently when its reader closes the pipe', async (t) => {
    const pipe = new Tree(t).at('pipe');
    // The reader closes before the command starts.
    const script = `mkfifo '${pipe}'; : <'${pipe}' & exec 3>'${pipe}'; wait; rm '${pipe}'; "$0" "$@" >&3`;
    for (const args of [['help', '--json'], ['completions', 'bash'], ['config'], ['version', '--json']]) {
        const end = await run(t, ['-c', script, BIN, ...args], { file: '/bin/sh' });
        assert.deepEqual([end.code, end.stderr], [0, ''], `${args}`);
    }
});
