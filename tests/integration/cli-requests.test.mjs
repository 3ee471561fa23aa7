// SPDX-License-Identifier: MIT
//
// The number of requests that a command without options sends at its start: at most the number in
// docs/reference/cli.md.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { objects, good } from './lib/cli.mjs';
import { listen } from './lib/rpc.mjs';
import { BIN, Program, run, serve, serveExample } from './lib/server.mjs';
import { noTerminal, Terminal } from './lib/terminal.mjs';
import { Tree } from './lib/tree.mjs';

const QUIET = 400; // ms without a request: a running command waits
const LOOK = 2000; // ms between two samples of `top`
const page = new URL('../../docs/reference/cli.md', import.meta.url);

/** A relay to the server that counts requests. */
async function counting(t, server) {
    const relay = { count: 0, last: Date.now() };
    const door = http.createServer((request, response) => {
        relay.count += 1;
        relay.last = Date.now();
        const { method, url } = request;
        const headers = { ...request.headers, host: `127.0.0.1:${server.port}` };
        const onward = http.request({ host: '127.0.0.1', port: server.port, method, path: url, headers }, (answer) => {
            response.writeHead(answer.statusCode, answer.headers);
            answer.pipe(response);
        });
        onward.on('error', () => response.destroy());
        response.on('close', () => onward.destroy());
        request.pipe(onward);
    });
    await new Promise((resolve) => {
        door.listen(0, '127.0.0.1', resolve);
    });
    defer(t, () => {
        door.closeAllConnections();
        door.close();
    });
    relay.url = `http://127.0.0.1:${door.address().port}/mcp`;
    return relay;
}

/** Waits until requests stop, or exceed the limit. */
async function settled(relay, most) {
    while (relay.count <= most && Date.now() - relay.last < QUIET) {
        await new Promise((resolve) => {
            setTimeout(resolve, 20);
        });
    }
}

/** The table of the page: command → number. */
function documented() {
    const text = fs.readFileSync(page, 'utf8').split('<!-- table: requests -->\n')[1].split('\n<!-- end')[0];
    return new Map(text.split('\n').slice(2).flatMap((row) => {
        const [, commands, number] = row.split('|').map((cell) => cell.trim());
        return [...commands.matchAll(/`([^`]+)`/g)].map(([, name]) => [name, number]);
    }));
}

/** Arguments of each command, in this order; another server has `prompts` and `skills`. */
const LEAST = ({ file, dir, mirror, template, peer }) => ({
    read: [file], tail: [file], sync: [dir, mirror], info: [], ls: [], tree: [], stat: [file], templates: [],
    complete: [template, 'path=a'], tools: [], call: ['notify', 'changes:=[{"uri":"app:///x"}]'], prompts: [], prompt: ['test_simple_prompt'],
    skills: [], skill: ['greet-politely'], request: ['resources/list'], publish: ['app:///y', 'text'],
    notify: ['app:///y'], watch: [file], 'entity add-type': ['User@1.0', '{"type":"object"}'], 'entity types': [],
    'entity put': ['User@1.0/ann', '{"name":"Ann"}'], 'entity patch': ['User@1.0/ann', '{"age":8}'],
    'entity get': ['User@1.0/ann'], 'entity at': ['User@1.0/ann', '2100-01-01T00:00:00Z'],
    'entity log': ['User@1.0/ann'], 'entity rm': ['User@1.0/ann'], 'entity undelete': ['User@1.0/ann'],
    status: [], top: [], peers: [], subscriptions: [], nodes: [], limits: [], kick: [peer], login: [], logout: [],
    probe: [file], bench: [file],
});
const ELSEWHERE = ['prompts', 'prompt', 'skills', 'skill'];
const ENDLESS = ['watch', 'sync'];
const FAILING = ['login', 'logout']; // needs no login there
const LONG = ['probe']; // waits for changes that never happen

test('commands send at most the documented number of requests', { skip: noTerminal }, async (t) => {
    const args = ['--publish', 'app:///', '--allow-write', '--entities', ':memory:', '--self'];
    const server = await serve(t, { files: { 'a.txt': '' }, args });
    const other = await serveExample(t, 'conformance');
    const home = new Tree(t);
    const [{ uriTemplate }] = objects(await good(t, ['templates', '--json', server.url]));
    await listen(server, { resourceSubscriptions: [server.uri('a.txt')] });
    const [{ peer }] = objects(await good(t, ['peers', '--json', server.url]));
    const least = LEAST({ file: server.uri('a.txt'), dir: server.uri(''), mirror: home.at('mirror'), template: uriTemplate, peer });
    const { commands } = JSON.parse(await good(t, ['help', '--json']));
    const names = commands.filter((command) => command.server).map(({ name }) => name);
    assert.deepEqual(Object.keys(least).sort(), names.sort());
    const numbers = documented();
    assert.deepEqual([...numbers.keys()].sort(), names.sort(), 'the page names every command');
    const env = { XDG_STATE_HOME: home.path, XDG_CONFIG_HOME: home.path };
    for (const name of Object.keys(least)) {
        const most = Number(numbers.get(name).match(/^\d+/)?.[0]);
        if (Number.isNaN(most) || (LONG.includes(name) && !process.env.TIDINGS_LONG)) {
            assert.ok(!Number.isNaN(most) || name === 'bench', `${name}: ${numbers.get(name)}`);
            continue;
        }
        const relay = await counting(t, ELSEWHERE.includes(name) ? other : server);
        const line = [...name.split(' '), relay.url, ...least[name]];
        const begun = Date.now();
        let looks = 1;
        if (name === 'top') {
            const terminal = new Terminal(t, [BIN, ...line]);
            await terminal.shows('sorted by lag;');
            await settled(relay, most);
            looks = 1 + Math.floor((Date.now() - begun) / LOOK);
            terminal.type('q');
            await terminal.ended();
        } else if (ENDLESS.includes(name)) {
            const program = new Program(t, BIN, line, { env, mayFail: true });
            await program.lines.next(() => true, 'its first line');
            await settled(relay, most);
            program.child.kill();
            await program.closed;
        } else {
            const end = await run(t, line, { env, ms: 120000 });
            assert.ok(end.code === 0 || FAILING.includes(name) || LONG.includes(name), `${name}: ${end.stderr}`);
        }
        const each = name === 'top' ? 3 : 0; // requests per sample
        if (process.env.TIDINGS_VERBOSE) {
            t.diagnostic(`${name}: ${relay.count}`);
        }
        assert.ok(relay.count <= most + each * (looks - 1), `${name} sent ${relay.count} requests, documented are ${numbers.get(name)}`);
        assert.ok(relay.count > 0 || most === 0, `${name} was heard`);
    }
});
