// SPDX-License-Identifier: MIT
//
// Error messages: they name the resource once, a missing item by its kind, and TLS on a plain port or the reverse.
// Configuration files accept common spellings.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { test } from 'node:test';

import { bad, good } from './lib/cli.mjs';
import { Certificates } from './lib/certs.mjs';
import { defer } from './lib/cleanup.mjs';
import { BIN, EXAMPLES, Program, run, serve, serveExample } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

const times = (text, what) => text.split(what).length - 1;

test('error names a URI once, whether or not the server names it', async (t) => {
    const server = await serve(t, { files: { a: '' }, args: ['--publish', 'app:///'] });
    const missing = server.uri('missing');
    for (const args of [['read'], ['read', '--last', '1'], ['tail'], ['stat'], ['ls'], ['tree']]) {
        for (const uri of ['app:///missing', missing]) {
            const { stderr } = await bad(t, 66, /./, [...args, server.url, uri]);
            assert.equal(times(stderr, uri), 1, `${args} ${uri}: ${stderr}`);
        }
    }
});

test('server log is shown from a level on, in both eras, and cannot control the terminal', async (t) => {
    const call = (...words) => ['call', ...words, '--', `${EXAMPLES}/conformance`, '--stdio'];
    for (const era of ['modern', 'legacy']) {
        const shown = await run(t, call('test_tool_with_logging', '--era', era, '--log', 'info'));
        assert.match(shown.stderr, /^server, info of conformance: Tool execution started$/m);
        const quiet = await run(t, call('test_tool_with_logging', '--era', era, '--log', 'error'));
        assert.doesNotMatch(quiet.stderr, /server, /);
    }
    const line = { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'alert', logger: '\x1b[2J', data: { a: '\u202e' } } };
    const evil = `read -r a; echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"x"}}'; read -r a
        echo '{"jsonrpc":"2.0","id":3,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}'
        read -r a; read -r a; echo '${JSON.stringify(line)}'; echo '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'; read -r a`;
    const { stderr } = await run(t, ['call', 'x', '--log', 'debug', '--', 'sh', '-c', evil]);
    assert.match(stderr, /^server, alert of \\x1b\[2J: \{"a":"\\u202e"\}$/m);
    await bad(t, 64, /--log takes off, debug, .*emergency.*, not 'loud'/, ['ls', '--log', 'loud', '--', '/bin/false']);
});

test('words of other programs, typos and habits are answered with advice', async (t) => {
    const place = new Tree(t, { 'd/a': '', 'd/real/x': '' });
    fs.symlinkSync('real', place.at('d/link'));
    const server = await serve(t, { files: { a: '' } });
    const outside = `file://${place.at('d')}/`;
    for (const [status, says, args] of [
        [64, /'--port': an address is '--http 127\.0\.0\.1:PORT'/, ['serve', '--port', '7777', '.']],
        [64, /'-f' is what you mean, there is no option '-F'/, ['tail', '-F', server.url, 'x']],
        [64, /'-n N' is what you mean, there is no option '-5'/, ['tail', '-5', server.url, 'x']],
        [66, /nothing that is served can match 'file:.*d\/'/, ['watch', server.url, outside]],
        [66, /nothing that is served can match 'file:.*d\/\*\*\/\*\.c'/, ['watch', '--era', 'legacy', server.url, `${outside}**/*.c`]],
        [66, /--match glob waits for resources that do not exist yet/, ['watch', server.url, `${outside}later`]],
        [69, /no tool 'publish'; 'tidings serve' offers it with --allow-write, and --publish/, ['publish', server.url, 'app:///x', 'y']],
        [69, /no tool 'notify'; 'tidings serve' offers it with --allow-write/, ['notify', server.url, 'app:///x']],
        [69, /ping.*; older revisions have other methods: --era legacy/, ['request', server.url, 'ping']],
        [65, /JSON is wanted, such as \{"name": "value"\}/, ['request', server.url, 'resources/read', 'uri=a']],
        [64, /no keyword of JSON Schema.*'URI\?name=value'/, ['watch', server.url, server.uri('a'), '--filter', '{"level":"error"}']],
    ]) {
        await bad(t, status, says, args);
    }
    const { stderr } = await run(t, ['stat', server.url, '../d/link'], { cwd: place.at('d') });
    assert.match(stderr, /d\/link/, 'the last name is not resolved');
});

test('missing resources, tools and prompts of a server are reported by kind', async (t) => {
    const server = await serve(t, { files: { a: '' }, args: ['--change-tools', 'off'] });
    for (const era of ['modern', 'legacy']) {
        for (const [list, use, one] of [['prompts', 'prompt', 'prompt'], ['tools', 'call', 'tool']]) {
            assert.equal(await good(t, [list, '--era', era, server.url]), '', 'a list of none');
            await bad(t, 64, new RegExp(`unknown ${one} 'x' \\(-32602\\)\\n.*'tidings ${list} -l' lists`), [use, '--era', era, server.url, 'x']);
        }
    }
    const { stderr } = await bad(t, 69, /-32601/, ['request', server.url, 'resources/nonsense']);
    assert.doesNotMatch(stderr, /has no/, 'it has resources, but not this method');
});

test('login advises users of servers without login or with non-JSON answers', async (t) => {
    const server = await serve(t, { files: { a: '' } });
    const { stderr } = await run(t, ['login', '--no-browser', server.url], { env: { XDG_STATE_HOME: new Tree(t).path } });
    assert.match(stderr, /'tidings info SERVER' checks whether the server responds; if that works without a login, none is needed\n/);
    await bad(t, 65, /--answer: '\{bad': line 1 column 2/, ['call', server.url, 'publish', '--answer', '{bad']);
});

test('tool names are one column of any width', async (t) => {
    const server = await serveExample(t, 'conformance', []);
    const rows = (await good(t, ['tools', server.url])).split('\n').filter((row) => row !== '');
    const begins = rows.map((row) => /^\S+ +/.exec(row)[0].length);
    assert.ok(rows.some((row) => /^\S{23,}/.test(row)), 'a name that is longer than most');
    assert.deepEqual([...new Set(begins)].length, 1, rows.join('\n'));
});

test('ls of a missing resource suggests where to look', async (t) => {
    const server = await serve(t, { files: { a: '' } });
    await bad(t, 66, /'tidings ls' without a URI lists what the server has at the top; a path is one of this machine/, ['ls', server.url, server.uri('missing')]);
});

/** A server that refuses every request with this answer. */
async function refusing(t, status, headers, body) {
    const server = http.createServer((request, response) => {
        request.resume();
        response.writeHead(status, { 'content-length': body.length, ...headers });
        response.end(body);
    });
    await new Promise((resolve) => {
        server.listen(0, '127.0.0.1', resolve);
    });
    defer(t, () => {
        server.closeAllConnections();
        server.close();
    });
    return `127.0.0.1:${server.address().port}`;
}

test('403 shows the server message and advises a login only for a challenge, like 401', async (t) => {
    const plain = await refusing(t, 403, {}, 'not\x1b[2J from here\nsecond line');
    const json = await refusing(t, 403, { 'content-type': 'application/json' }, '{"error":{"message":"only from the office"}}');
    const page = await refusing(t, 403, {}, '<html><p>Forbidden</p></html>');
    const challenge = await refusing(t, 403, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="a b"' }, 'no');
    const login = await refusing(t, 401, { 'www-authenticate': 'Bearer' }, 'no');
    for (const command of [['info'], ['watch', '-t'], ['probe'], ['bench', '-t']]) {
        const words = (address) => [...command, `http://${address}/mcp`, ...(command[1] ? ['app:///x'] : [])];
        for (const [address, says, advised] of [
            [plain, /denies access \(HTTP 403\): not\?\[2J from here\n/, false],
            [json, /denies access \(HTTP 403\): only from the office\n/, false],
            [page, /denies access \(HTTP 403\)\n/, false],
            [challenge, /HTTP 403\); scope wanted: a b; insufficient_scope: no\n/, true],
            [login, /wants a good token \(HTTP 401\)/, true],
        ]) {
            const { stderr } = await bad(t, 77, says, words(address));
            assert.equal(stderr.includes("'tidings login "), advised, stderr);
        }
    }
    for (const [address, advised] of [[plain, false], [challenge, true]]) {
        const { stderr } = await bad(t, 77, /HTTP 403/, ['info', `ws://${address}/mcp`]);
        assert.match(stderr, advised ? /tidings login/ : /: not\?\[2J from here\n$/);
    }
    const server = await serve(t, { files: { a: '' } });
    await bad(t, 77, /\(HTTP 403\): this Host is not served here.*--allow-host\n$/, ['info', '-H', 'Host: other.example', server.url]);
});

/** The address of a server's listener of that kind. */
const door = (server, kind) => server.stderr.match(new RegExp(`${kind}://([^\\s,/]+)`))[1];

test('TLS on a plain port and plain text on a TLS port are reported', async (t) => {
    const certs = new Certificates(t);
    certs.make('server');
    const tls = ['--tls-cert', certs.file('server.pem'), '--tls-key', certs.file('server.key')];
    const [plain, secure] = [
        await serve(t, { files: { a: '' }, args: ['--tcp', '127.0.0.1:0'] }),
        await serve(t, { files: { a: '' }, args: ['--tcp', '127.0.0.1:0', ...tls] }),
    ];
    const stranger = https.createServer({ key: certs.text('server.key'), cert: certs.text('server.pem') }, (_, response) => response.end());
    await new Promise((resolve) => {
        stranger.listen(0, '127.0.0.1', resolve);
    });
    defer(t, () => stranger.close());
    const other = `127.0.0.1:${stranger.address().port}`;
    for (const [code, says, address] of [
        [74, /does not speak TLS there/, plain.url.replace('http', 'https')],
        [74, /does not speak TLS there/, plain.url.replace('http', 'wss')],
        [74, /does not speak TLS there/, `tls://${door(plain, 'tcp')}`],
        [65, /speaks TLS there: https:\/\/ may be meant/, secure.url.replace('https', 'http')],
        [65, /speaks TLS there: wss:\/\/ may be meant/, secure.url.replace('https', 'ws')],
        [69, /this port speaks TLS/, `tcp://${door(secure, '(?:tls|tcp)')}`],
        [74, /if it speaks TLS there, https:\/\/ is meant/, `http://${other}/mcp`],
        [69, /if it speaks TLS there, wss:\/\/ is meant/, `ws://${other}/mcp`],
        [69, /if it speaks TLS there, tls:\/\/ is meant/, `tcp://${other}`],
    ]) {
        await bad(t, code, says, ['ls', '-t', address]);
    }
});

test('configuration files accept a trailing comma and a string instead of a list', async (t) => {
    const tree = new Tree(t, {
        'a.txt': 'x',
        'tidings.json': '{"publish": "app:///", "mounts": [{"path": ".", "exclude": "*.json",},], /* so */ }',
        'access.json': '[{"allow": "read",}, {"allow": ["list",]},]',
        '.mcp.json': `{"mcpServers": {"here": {"command": "${BIN}", "args": "version",},},}`,
    });
    const options = { cwd: tree.path, env: { HOME: tree.at('home') } };
    const { settings } = JSON.parse(await good(t, ['config', '--json'], options));
    assert.deepEqual([settings.publish, settings.mounts[0].exclude], [['app:///'], ['*.json']]);
    assert.match(await good(t, ['servers'], options), /here +\S+tidings version/);
    const server = new Program(t, BIN, ['serve', '--http', '127.0.0.1:0', '--access-file', tree.at('access.json')], options);
    const line = await server.lines.next((text) => text.includes('serving on'), 'that it serves');
    const url = line.match(/http\S+/)[0];
    assert.equal(await good(t, ['read', url, tree.uri('a.txt')], options), 'x');
    fs.writeFileSync(tree.at('tidings.json'), '{"publish": ["app:///",,]}');
    await bad(t, 65, /tidings\.json:1/, ['config'], options);
});

test('launched tidings server greets only if it has an address', async (t) => {
    const tree = new Tree(t, { a: 'x' });
    const end = await run(t, ['read', tree.uri('a'), '--', BIN, 'serve', '--stdio', tree.path]);
    assert.deepEqual([end.stdout, end.stderr], ['x', '']);
    const both = await run(t, ['read', tree.uri('a'), '--', BIN, 'serve', '--stdio', '--http', '127.0.0.1:0', tree.path]);
    assert.match(both.stderr, /serving on http/);
    const alone = await run(t, ['serve', '--stdio', tree.path]);
    assert.match(alone.stderr, /serving on standard input and output/, 'launched by somebody else');
});
