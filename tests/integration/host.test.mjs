// SPDX-License-Identifier: MIT
//
// examples/host.c, explained in docs/how-to/build-a-client.md: two servers of an .mcp.json, a tidings server and one
// on the official SDK. Copies stay live, and the user fills in a form.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { EXAMPLES, Program, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { within } from './lib/wait.mjs';

const ASKER = fileURLToPath(new URL('lib/asker.mjs', import.meta.url));

test('host has at most 150 lines', () => {
    const source = fileURLToPath(new URL('../../examples/host.c', import.meta.url));
    assert.ok(fs.readFileSync(source, 'utf8').split('\n').length - 1 <= 150);
});

test('host keeps live copies and passes server questions to its user', async (t) => {
    const tree = new Tree(t, { 'notes/a.txt': 'one' });
    const { url } = await serve(t, { args: [tree.at('notes')] });
    tree.write('.mcp.json', JSON.stringify({
        mcpServers: {
            nobody: { command: '/no/such/program' },
            notes: { url },
            asker: { command: process.execPath, args: ['-e', 'import(process.env.WHAT)'], env: { WHAT: ASKER } },
        },
    }));
    const host = new Program(t, path.join(EXAMPLES, 'host'), [tree.at('.mcp.json')], { mayFail: true });
    let shown = '';
    let wake = () => {};
    host.child.stdout.setEncoding('utf8').on('data', (text) => {
        shown += text;
        wake();
    });
    /** Waits for this output after the previous match. */
    const shows = (pattern) => within(new Promise((resolve) => {
        wake = () => {
            const at = pattern.exec(shown);
            if (at) {
                shown = shown.slice(at.index + at[0].length);
                wake = () => {};
                resolve();
            }
        };
        wake();
    }), () => `${pattern}; shown: ${shown}${host.stderr}`);

    await shows(/nobody is left: run '\/no\/such\/program'/);
    const uri = new RegExp(`file://${tree.at('notes')}/a\\.txt: a new copy`);
    await shows(uri);
    tree.write('notes/a.txt', 'two');
    await shows(uri);
    host.child.stdin.write('nobody form {}\n');
    await shows(/a line is SERVER TOOL/);
    host.child.stdin.write('asker form {}\n');
    await shows(/asker asks: Who are you\?/);
    await shows(/Your name \(required\): /);
    host.child.stdin.write('Ann\n');
    await shows(/age: /);
    host.child.stdin.write('old\n');
    await shows(/'old' is not a number/);
    await shows(/age: /);
    host.child.stdin.write('\n');
    await shows(/Colour: /);
    host.child.stdin.write('green\n');
    await shows(/Newsletter\?: /);
    host.child.stdin.write('\n');
    await shows(/accept.*Ann.*30.*colour.*g/);
    host.child.stdin.write('asker evil\n');
    await shows(/asker asks: \?\]0;owned\?/); // without escape sequences
    assert.doesNotMatch(shown, /\x1b/);
    host.child.stdin.end();
    await shows(/cancel/);
    assert.equal((await host.closed).code, 0);
});

test('host follows as many resources as it has room for', async (t) => {
    const MOST = 200;
    const tree = new Tree(t, Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`many/${i}`, ''])));
    const { url } = await serve(t, { args: [tree.at('many')] });
    tree.write('.mcp.json', JSON.stringify({ mcpServers: { one: { url }, other: { url } } }));
    const host = new Program(t, path.join(EXAMPLES, 'host'), [tree.at('.mcp.json')], { mayFail: true });
    let shown = '';
    let copies = 0;
    const all = new Promise((resolve) => {
        host.child.stdout.setEncoding('utf8').on('data', (text) => {
            shown += text;
            copies = shown.split(': a new copy\n').length - 1;
            if (copies >= MOST) {
                resolve();
            }
        });
    });
    await within(Promise.race([all, host.closed]), () => `${MOST} copies; there are ${copies}`);
    host.child.stdin.end();
    assert.equal((await host.closed).code, 0);
    assert.equal(copies, MOST);
});
