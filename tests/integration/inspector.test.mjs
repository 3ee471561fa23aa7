// SPDX-License-Identifier: MIT
//
// The command line of the Inspector lists and reads resources of the program, over HTTP and a pipe.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';

import { BIN, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE } from './lib/wait.mjs';

const require = createRequire(import.meta.url);
const manifest = require.resolve('@modelcontextprotocol/inspector-cli/package.json');
const cli = path.resolve(path.dirname(manifest), require(manifest).bin['mcp-inspector-cli']);

/** Run the Inspector with `args` and return its output as JSON. */
async function inspect(t, args) {
    // the Inspector expects its own package.json next to the working directory
    const cwd = path.dirname(cli);
    const end = await run(t, [cli, '--cli', ...args], {
        file: process.execPath,
        ms: 3 * DEADLINE,
        cwd,
    });
    assert.equal(end.code, 0, `the Inspector failed: ${end.stderr}\n${end.stdout}`);
    return JSON.parse(end.stdout);
}

for (const transport of ['http', 'stdio']) {
    test(`${transport}: the Inspector lists, reads and lists templates`, async (t) => {
        const tree = new Tree(t, { 'hello.txt': 'hello there' });
        const target =
            transport === 'stdio'
                ? [BIN, 'serve', '--stdio', tree.path]
                : [(await serve(t, { tree })).url, '--transport', 'http'];
        const list = await inspect(t, [...target, '--method', 'resources/list']);
        assert.ok(
            list.resources.some((resource) => resource.uri === tree.uri('hello.txt')),
            JSON.stringify(list),
        );
        const read = await inspect(t, [
            ...target,
            '--method',
            'resources/read',
            '--uri',
            tree.uri('hello.txt'),
        ]);
        assert.equal(read.contents[0].text, 'hello there');
        const templates = await inspect(t, [...target, '--method', 'resources/templates/list']);
        assert.ok(Array.isArray(templates.resourceTemplates));
    });
}
