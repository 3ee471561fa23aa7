// SPDX-License-Identifier: MIT
//
// URIs that try to leave the tree. Each trick is rejected, and the server never reads outside files.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { Connection } from './lib/http.mjs';
import { call, modern, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

/** A read of `uri` must fail, and the answer must not contain the secret. */
async function refused(server, uri) {
    const headers = { 'Mcp-Name': `=?base64?${Buffer.from(uri).toString('base64')}?=` };
    const response = await modern(server, 'resources/read', { uri }, { headers });
    assert.ok(response.json?.error, `${uri} was read: ${response.text}`);
    assert.ok(!response.text.includes('SECRET'), response.text);
    assert.ok([-32602, -32603, -32700, -32020].includes(response.json.error.code), response.text);
}

/** A tree with a secret next to it. */
async function guarded(t, options = {}) {
    const outside = new Tree(t, { 'secret.txt': 'SECRET' });
    const server = await serve(t, { files: { 'a.txt': 'a', 'dir/b.txt': 'b' }, ...options });
    return { server, tree: server.tree, outside };
}

const TRAVERSALS = {
    'dot segments': '../OUT/secret.txt',
    'dot segments inside': 'dir/../../OUT/secret.txt',
    'encoded dots': '%2e%2e/OUT/secret.txt',
    'half-encoded dots': '.%2e/OUT/secret.txt',
    'an encoded slash': '..%2fOUT%2fsecret.txt',
    'an encoded slash in capitals': '..%2FOUT%2Fsecret.txt',
    'dots encoded twice': '%252e%252e/OUT/secret.txt',
    'a backslash': '..\\OUT\\secret.txt',
    'an encoded backslash': '..%5cOUT%5csecret.txt',
    'an overlong dot': '%c0%ae%c0%ae/OUT/secret.txt',
    'an overlong slash': '..%c0%afOUT%c0%afsecret.txt',
    'many dots': '../../../../../../../../etc/passwd',
    'an empty segment before dots': 'dir//../../OUT/secret.txt',
    'an absolute path': '//etc/passwd',
    'a NUL that cuts the name': 'a.txt%00.png',
    'a NUL before dots': '%00/../OUT/secret.txt',
    'a raw NUL': 'a.txt\u0000',
    'a truncated escape': 'a.txt%',
    'an escape that is no number': 'a.txt%zz',
    'a dot segment that stays inside': 'dir/../a.txt',
    'a single dot': './a.txt',
    'a query': 'a.txt?x=../../OUT/secret.txt',
};

for (const [name, suffix] of Object.entries(TRAVERSALS)) {
    test(`path: ${name} is rejected`, async (t) => {
        const { server, tree, outside } = await guarded(t);
        const suffixes = suffix.replaceAll('OUT', outside.path.split('/').pop());
        await refused(server, `file://${tree.path}/${suffixes}`);
    });
}

test('path: mounted path as a prefix of another (data, data-evil) is rejected', async (t) => {
    const { server, tree } = await guarded(t);
    const evil = `${tree.path}-evil`;
    fs.mkdirSync(evil);
    defer(t, () => fs.rmSync(evil, { recursive: true }));
    fs.writeFileSync(`${evil}/secret.txt`, 'SECRET');
    await refused(server, `file://${evil}/secret.txt`);
    await refused(server, `file://${tree.path}/../${tree.path.split('/').pop()}-evil/secret.txt`);
});

test('path: other hosts and schemes are not served', async (t) => {
    const { server, tree } = await guarded(t);
    for (const uri of [
        `file://evil${tree.path}/a.txt`,
        `http://127.0.0.1${tree.path}/a.txt`,
        `${tree.path}/a.txt`,
        'a.txt',
        '',
        'file:',
        'file://',
        ':',
        '%',
    ]) {
        await refused(server, uri);
    }
});

test('path: symbolic link that leaves the tree is rejected', async (t) => {
    const { server, tree, outside } = await guarded(t);
    fs.symlinkSync(outside.at('secret.txt'), tree.at('link.txt'));
    fs.symlinkSync(outside.path, tree.at('linked'));
    fs.symlinkSync(`../${outside.path.split('/').pop()}/secret.txt`, tree.at('relative.txt'));
    fs.symlinkSync('/proc/self/root', tree.at('root'));
    await refused(server, tree.uri('link.txt'));
    await refused(server, tree.uri('linked/secret.txt'));
    await refused(server, tree.uri('relative.txt'));
    await refused(server, tree.uri(`root${outside.path}/secret.txt`));
    const { resources } = await call(server, 'resources/list');
    assert.ok(
        !resources.some((resource) => resource.uri.includes('secret')),
        JSON.stringify(resources),
    );
});

test('path: directory swapped for a symbolic link after listing is rejected', async (t) => {
    const { server, tree, outside } = await guarded(t);
    await call(server, 'resources/list');
    fs.renameSync(tree.at('dir'), tree.at('old'));
    fs.symlinkSync(outside.path, tree.at('dir'));
    await refused(server, tree.uri('dir/secret.txt'));
});

test('path: directory swapped for a link during a read never shows outside files', async (t) => {
    const { server, tree, outside } = await guarded(t);
    tree.write('dir/secret.txt', 'inside');
    fs.symlinkSync(outside.path, tree.at('link'));
    const swap = `const { renameSync } = require('node:fs');
        const at = (name) => ${JSON.stringify(`${tree.path}/`)} + name;
        for (;;) {
            renameSync(at('dir'), at('old')); renameSync(at('link'), at('dir'));
            renameSync(at('dir'), at('link')); renameSync(at('old'), at('dir'));
        }`;
    const swapper = spawn(process.execPath, ['-e', swap], { stdio: 'ignore' });
    defer(t, () => swapper.kill('SIGKILL'));
    const answers = { read: 0, refused: 0 };
    const uri = tree.uri('dir/secret.txt');
    const path = `/resource?uri=${encodeURIComponent(uri)}`;
    const connection = await Connection.open(server);
    for (let i = 0; i < 3000 && (i < 300 || !answers.read || !answers.refused); i++) {
        const { status, text } = await connection.request({ method: 'GET', path });
        assert.ok(!text.includes('SECRET'), text);
        assert.ok(status !== 200 || text === 'inside', text);
        answers[status === 200 ? 'read' : 'refused'] += 1;
    }
    connection.close();
    assert.ok(answers.read > 0, JSON.stringify(answers));
});

test('path: link inside the tree does not reach excluded files', async (t) => {
    const server = await serve(t, {
        files: {
            'a.txt': 'a',
            '.git/config': 'SECRET',
            'keys/key.pem': 'SECRET',
            'vault/deep/x.txt': 'SECRET',
            'open/b.txt': 'b',
        },
        args: ['--exclude', '.git', '--exclude', '*.pem', '--exclude', 'vault/deep'],
    });
    const { tree } = server;
    fs.symlinkSync('.git', tree.at('git'));
    fs.symlinkSync('.git/config', tree.at('config.txt'));
    fs.symlinkSync('keys/key.pem', tree.at('key.txt'));
    fs.symlinkSync('vault', tree.at('v'));
    fs.symlinkSync('open', tree.at('o'));
    fs.symlinkSync('open/b.txt', tree.at('fine.txt'));
    const session = await Session.open(server);
    const stream = await session.stream();
    for (const name of ['git/config', 'config.txt', 'key.txt', 'v/deep/x.txt']) {
        await refused(server, tree.uri(name));
        // The target counts as absent: the server accepts a subscription and never notifies it.
        const { json } = await session.send('resources/subscribe', { uri: tree.uri(name) });
        const absent = await session.send('resources/subscribe', { uri: tree.uri(`${name}.absent`) });
        assert.deepEqual(Object.keys(json), Object.keys(absent.json), name);
    }
    const fine = [tree.uri('fine.txt'), tree.uri('a.txt')];
    await session.subscribe(fine[0]);
    await session.subscribe(fine[1]);
    ['.git/config', 'keys/key.pem', 'vault/deep/x.txt', 'open/b.txt'].forEach((name) => tree.replace(name, 'second'));
    await stream.message(updates(fine[0]), 'an update of the link that is not excluded');
    tree.replace('a.txt', 'second');
    await stream.message(updates(fine[1]), 'an update of a file, after all links were looked at');
    const told = stream.messages.filter((m) => m.method === 'notifications/resources/updated').map((m) => m.params.uri);
    assert.deepEqual([...new Set(told)], fine);
    tree.replace('open/b.txt', 'b');
    const { resources } = await call(server, 'resources/list');
    const uris = resources.map((resource) => resource.uri).join(' ');
    assert.ok(!/config|key\.|deep/.test(uris), uris);
    const { contents } = await call(server, 'resources/read', { uri: tree.uri('o/b.txt') });
    assert.equal(contents[0].text, 'b', 'what is not excluded is read through a link');
});

test('path: symbolic link that stays inside is read', async (t) => {
    const { server, tree } = await guarded(t);
    fs.symlinkSync('dir/b.txt', tree.at('inside.txt'));
    const { contents } = await call(server, 'resources/read', { uri: tree.uri('inside.txt') });
    assert.equal(contents[0].text, 'b');
});

test('path: FIFOs, sockets and devices are rejected at once', async (t) => {
    const { server, tree } = await guarded(t);
    execFileSync('mkfifo', [tree.at('fifo')]);
    const listener = net.createServer().listen(tree.at('socket'));
    await new Promise((resolve) => listener.once('listening', resolve));
    defer(t, () => listener.close());
    await refused(server, tree.uri('fifo'));
    await refused(server, tree.uri('socket'));
    fs.symlinkSync('/dev/zero', tree.at('zero'));
    await refused(server, tree.uri('zero'));
});

test('path: excluded names are neither listed nor read', async (t) => {
    const server = await serve(t, {
        files: {
            'a.txt': 'a',
            '.git/config': 'SECRET',
            'sub/.git/config': 'SECRET',
            'key.pem': 'SECRET',
            'sub/x.pem': 'SECRET',
        },
        args: ['--exclude', '*.pem'],
    });
    const { resources } = await call(server, 'resources/list');
    const uris = resources.map((resource) => resource.uri).join(' ');
    assert.ok(!/\.git|\.pem/.test(uris), uris);
    for (const name of ['.git/config', 'sub/.git/config', 'key.pem', 'sub/x.pem']) {
        await refused(server, server.uri(name));
    }
});

test('subscribe: unreadable URIs are rejected', async (t) => {
    const { server, tree, outside } = await guarded(t);
    const session = await Session.open(server);
    const evil = [
        `file://${tree.path}/../x`,
        outside.uri('secret.txt'),
        `file://${tree.path}/%00`,
        `file://${tree.path}/a.txt%2f..`,
    ];
    for (const uri of evil) {
        const response = await session.send('resources/subscribe', { uri });
        assert.ok(response.json.error, `${uri} was accepted`);
    }
});
