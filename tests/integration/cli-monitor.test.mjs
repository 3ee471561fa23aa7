// SPDX-License-Identifier: MIT
//
// status, top, peers, subscriptions, nodes, kick and limits: for people, for scripts, on a terminal, and if the server
// hides its state.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';

import { bad, good, lines, objects } from './lib/cli.mjs';
import { defer } from './lib/cleanup.mjs';
import { initialize, listen, meta, post } from './lib/rpc.mjs';
import { BIN, run, serve } from './lib/server.mjs';
import { noTerminal, Terminal } from './lib/terminal.mjs';
import { eventually, within } from './lib/wait.mjs';

const watched = async (t, args = []) => {
    const server = await serve(t, { files: { 'a.txt': '1' }, args: ['--self', ...args] });
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('a.txt')] });
    return { server, events };
};

test('status, peers and limits print server data for people and for scripts', async (t) => {
    const { server } = await watched(t);
    const status = await good(t, ['status', server.url]);
    assert.match(status, /^server +tidings \S+, up .*, ready$/m);
    assert.match(status, /^there +\d+ connections, 1 streams, 0 sessions, 1 peers, 1 subscriptions$/m);
    assert.equal(await good(t, ['status', '-q', server.url]), '');
    const [object] = objects(await good(t, ['status', '--json', server.url]));
    assert.equal(object.ready, true);
    const table = lines(await good(t, ['peers', server.url]));
    assert.equal(table.length, 2);
    assert.match(table[0], /^PEER +LAG +WAITING +SUBS +SENT +AGE +PRINCIPAL +CLIENT +ADDRESS +VIA +LAST ERROR$/);
    assert.match(table[1], /^\d+ +0 ms +0 +1 .* anonymous +integration-test\/1 +127\.0\.0\.1:\d+ +http\/sse$/);
    const [row] = objects(await good(t, ['peers', '--json', server.url]));
    assert.equal(table[1].split(' ')[0], row.peer);
    const limits = await good(t, ['limits', server.url]);
    assert.match(limits, /^LIMIT +VALUE +IN USE +SHARE +RESERVE +REACHED +ABOUT$/m);
    assert.match(limits, /^max-sessions +10240 +0 +2560 +160 +0 +legacy sessions at a time$/m);
    assert.match(limits, /^max-listens +64 {30,}0 +open listens on one connection$/m, 'clients do not share it');
    const printed = objects(await good(t, ['limits', '--json', server.url]));
    assert.ok(printed.every((limit) => 'reached' in limit));
    const { share, reserve, inUse } = printed.find(({ limit }) => limit === 'max-sessions');
    assert.deepEqual([share, reserve, inUse], [2560, 160, 0]);
});

test('limits fit into 80 columns', { skip: noTerminal }, async (t) => {
    const { server } = await watched(t);
    const shown = async (columns) => {
        const terminal = new Terminal(t, ['sh', '-c', `stty cols ${columns}; exec ${BIN} limits ${server.url}`]);
        await terminal.ended();
        return lines(terminal.screen.replaceAll('\r', ''));
    };
    const narrow = await shown(80);
    assert.ok(narrow.every((line) => line.length <= 80), narrow.join('\n'));
    assert.ok(narrow.some((line) => /^max-output +268435456 +0 +67108864 +4194304 +0$/.test(line)), narrow.join('\n'));
    assert.ok((await shown(100)).some((line) => /^max-sessions .* legacy sessions at a time$/.test(line)));
});

test('subscriptions lists subscribers and recipients and nodes lists the nodes of a store', async (t) => {
    const { server } = await watched(t, ['--window', '0']);
    const uri = server.uri('a.txt');
    const { events } = await listen(server, { resourceSubscriptions: [server.uri('*.md')] }, { params: { _meta: meta({ 'dev.tidings/options': { windowMs: 1500 } }) } });
    defer(t, () => events.close());
    const table = lines(await good(t, ['subscriptions', server.url]));
    assert.match(table[0], /^PEER +WAITING +EVERY +PRINCIPAL +CLIENT +ADDRESS +SUBSCRIBED TO$/);
    assert.equal(table.length, 3);
    assert.ok(table.some((line) => /^\d+ +0 +0 ms +anonymous +integration-test +127\.0\.0\.1:\d+ +file:\/\/\S+\/a\.txt$/.test(line)), table.join('\n'));
    assert.ok(table.some((line) => /^\d+ +0 +1\.5 s .*\/\*\.md$/.test(line)), table.join('\n'));
    const rows = objects(await good(t, ['subscriptions', '--json', server.url]));
    const peers = objects(await good(t, ['peers', '--json', server.url]));
    assert.deepEqual(rows.map((row) => row.peer).sort(), peers.map((row) => row.peer).sort());
    const told = objects(await good(t, ['subscriptions', '--json', server.url, uri]));
    assert.deepEqual(told.map((row) => [row.subscribedUri, row.client.name]), [[uri, 'integration-test']]);
    assert.equal(lines(await good(t, ['subscriptions', server.url, server.uri('b & c#%.txt')])).length, 1, 'none but the head');
    await bad(t, 64, /'no uri' is not a URI/, ['subscriptions', server.url, 'no uri']);
    const nodes = lines(await good(t, ['nodes', server.url]));
    assert.match(nodes[0], /^ NODE +STATE +LAG +SEEN +AGE +SESSIONS +SUBS +VERSION +ADDRESS +OWNS$/);
    assert.match(nodes[1], /^\*tidings +lives +0 ms +0 ms /);
    const [node] = objects(await good(t, ['nodes', '--json', server.url]));
    assert.deepEqual([node.name, node.alone, node.lives, node.subscriptions], ['tidings', true, true, 2]);
});

test('kick disconnects a peer and reports a missing one', async (t) => {
    const { server, events } = await watched(t);
    const [row] = objects(await good(t, ['peers', '--json', server.url]));
    assert.equal(await good(t, ['kick', server.url, row.peer, '--reason', 'a test']), 'ended 1\n');
    await within(events.over, 'the end of the stream');
    assert.equal((await run(t, ['kick', server.url, row.peer])).code, 1);
    const nobody = await run(t, ['kick', '--json', server.url, 'nobody']);
    assert.deepEqual([nobody.code, nobody.stdout], [1, '{"ended":0}\n']);
});

test('server that hides its state differs from a missing server', async (t) => {
    const server = await serve(t, { files: {} });
    for (const command of ['status', 'peers', 'subscriptions', 'nodes', 'limits', 'top']) {
        await bad(t, 66, /must run with --self, and you must be allowed to read tidings:\/\/self\//, [command, ...(command === 'top' ? ['--once'] : []), server.url]);
    }
    await bad(t, 69, /must run with --self, and you must be allowed to write/, ['kick', server.url, '1']);
});

test('top --once prints one sample and --json an object per sample', async (t) => {
    const { server } = await watched(t);
    const text = await good(t, ['top', '--once', server.url]);
    assert.match(text, /^server +tidings/m);
    assert.match(text, /^\d+ +0 ms .*integration-test\/1/m);
    assert.ok(!text.includes('\x1b'));
    const [look] = objects(await good(t, ['top', '--once', '--json', server.url]));
    assert.deepEqual([look.status.ready, look.peers.length], [true, 1]);
    await bad(t, 69, /not a terminal; use --once or --json/, ['top', server.url]);
});

test('top fits into 80 columns, with the address of each client', { skip: noTerminal }, async (t) => {
    const { server } = await watched(t);
    const terminal = new Terminal(t, ['sh', '-c', `stty cols 80; exec ${BIN} top ${server.url}`]);
    await terminal.shows('sorted by lag;');
    await terminal.shows('q quits');
    terminal.type('q');
    await terminal.ended();
    const rows = terminal.screen.replace(/\x1b\[[0-9;?]*[A-Za-z]|\r/g, '').split('\n');
    assert.match(rows.find((row) => row.startsWith('PEER')), /^PEER +LAG +WAITING +SUBS +PRINCIPAL +ADDRESS$/);
    assert.ok(rows.some((row) => /^\d+ +0 ms .* anonymous +127\.0\.0\.1:\d+$/.test(row)), rows.join('\n'));
    assert.deepEqual(rows.filter((row) => [...row].length > 80), []);
});

const LEFT = '\x1b[?7h\x1b[?25h\x1b[?1049l';

test('top draws on a terminal, sorts by keys and restores it', { skip: noTerminal }, async (t) => {
    const { server } = await watched(t);
    const terminal = new Terminal(t, [BIN, 'top', '-d', '100ms', server.url]);
    await terminal.shows('\x1b[?1049h');
    await terminal.shows('sorted by lag;');
    terminal.type('b');
    await terminal.shows('sorted by bytes;');
    terminal.type('w');
    await terminal.shows('sorted by waiting;');
    await terminal.shows(/changes \(0\.0\/s\)/);
    terminal.type('\x1b[A'); // function keys have no effect
    terminal.type('q');
    assert.equal((await terminal.ended()).code, 0);
    assert.ok(terminal.screen.endsWith(LEFT), JSON.stringify(terminal.screen.slice(-80)));
});

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) {
    test(`top restores the terminal on ${signal}`, { skip: noTerminal }, async (t) => {
        const { server } = await watched(t);
        // A shell that outlives the command reports the terminal settings.
        const line = `ulimit -c 0; ${BIN} top -d 100ms ${server.url} </dev/tty & echo pid=$!; wait $!; stty -a; echo over`;
        const terminal = new Terminal(t, ['bash', '-c', line]);
        await terminal.shows('sorted by lag;');
        process.kill(Number(/pid=(\d+)/.exec(terminal.screen)[1]), signal);
        await terminal.shows(LEFT);
        await terminal.shows(/[^-]icanon/);
        await terminal.shows(/[^-]echo /);
        await terminal.shows('over');
    });
}

/** The process on the terminal with that command line, and the terminal name. */
const onTerminal = async (terminal) => {
    await terminal.shows('sorted by lag;');
    const pid = Number(/pid=(\d+)/.exec(terminal.screen)[1]);
    return { pid, tty: fs.readlinkSync(`/proc/${pid}/fd/1`) };
};
const stty = (tty, ...words) => execFileSync('stty', ['-F', tty, ...words], { encoding: 'utf8' });

test('top restores the terminal when suspended and takes it again when resumed', { skip: noTerminal }, async (t) => {
    const { server } = await watched(t);
    // In a shell: script(1) would stop with its own child.
    const terminal = new Terminal(t, ['bash', '-c', `${BIN} top -d 100ms ${server.url} </dev/tty & echo pid=$!; wait $!`]);
    const { pid, tty } = await onTerminal(terminal);
    assert.match(stty(tty, '-a'), /-icanon/);
    for (let i = 0; i < 2; i += 1) {
        process.kill(pid, 'SIGTSTP');
        await terminal.shows(LEFT);
        await eventually(() => / T /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8')), 'it is stopped');
        assert.match(stty(tty, '-a'), /[^-]icanon.*[^-]echo /s);
        const shown = terminal.screen.length;
        process.kill(pid, 'SIGCONT');
        await terminal.shows('\x1b[?1049h');
        await terminal.shows('sorted by lag;');
        assert.match(stty(tty, '-a'), /-icanon/);
        assert.ok(terminal.screen.indexOf('\x1b[?1049h', shown) >= 0);
    }
    terminal.type('q');
    assert.equal((await terminal.ended()).code, 0);
    assert.ok(terminal.screen.endsWith(LEFT));
});

test('top redraws at once when the window is resized', { skip: noTerminal }, async (t) => {
    const { server } = await watched(t);
    const terminal = new Terminal(t, ['bash', '-c', `echo pid=$$; exec ${BIN} top -d 1h ${server.url}`]);
    const { tty } = await onTerminal(terminal);
    await terminal.shows('q quit');
    const from = terminal.screen.length;
    stty(tty, 'cols', '50', 'rows', '12'); // two changes and a frame for each
    /** Columns of each line of the newest frame. */
    const widths = () => terminal.screen.slice(from).split('\x1b[H').at(-1).replace(/\x1b\[[?\d]*[A-Za-z]/g, '').split(/\r+\n/).map((line) => line.length); // eslint-disable-line no-control-regex
    await terminal.shows('sorted by lag;');
    await eventually(() => widths().length <= 12 && Math.max(...widths()) === 50, 'a frame of 50 columns and at most 12 lines');
    assert.ok(!terminal.screen.slice(from).includes('q quit'), 'there is no room for it');
    stty(tty, 'cols', '200', 'rows', '50');
    await terminal.shows('q quit');
    terminal.type('q');
    assert.equal((await terminal.ended()).code, 0);
});

test('top continues during a server outage and reports it', { skip: noTerminal }, async (t) => {
    const { server } = await watched(t);
    const terminal = new Terminal(t, [BIN, 'top', '-d', '100ms', server.url]);
    await terminal.shows('sorted by lag;');
    await server.stop();
    await terminal.shows(/connect|ended|closed|refused/i);
    terminal.type('q');
    assert.equal((await terminal.ended()).code, 0);
    assert.ok(terminal.screen.endsWith(LEFT));
});

test('client names cannot control the terminal of top', { skip: noTerminal }, async (t) => {
    const { server } = await watched(t);
    const hello = initialize();
    hello.params.clientInfo = { name: '\x1b[2J\x1b]0;evil\x07\u202e\u009b1m'.repeat(20), version: '\n\n\r' };
    const id = (await post(server, hello)).headers.get('mcp-session-id');
    await post(server, { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: 'file:///\u009b2J\x1b[2J' } }, { 'Mcp-Session-Id': id });
    const terminal = new Terminal(t, [BIN, 'top', '-d', '100ms', server.url]);
    await terminal.shows(/\?\[2J\?\]0;evil/);
    terminal.type('q');
    await terminal.ended();
    const known = /\x1b\[(\?(1049|25|7)[hl]|[HJK]|\d*m)/g; // eslint-disable-line no-control-regex
    assert.ok(!/[\x1b\x07\u009b\u202e]/.test(terminal.screen.replace(known, '')), JSON.stringify(terminal.screen)); // eslint-disable-line no-control-regex
    const options = { params: { _meta: meta({ 'dev.tidings/options': { match: 'regex' } }) } };
    const { events } = await listen(server, { resourceSubscriptions: ['evil\x1b[2J]\u202e\u009b1m'] }, options);
    defer(t, () => events.close());
    const subscriptions = await good(t, ['subscriptions', server.url]);
    assert.ok(lines(subscriptions).length === 3 && subscriptions.includes('evil'), subscriptions);
    assert.ok(!/[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f\u202e]/.test(subscriptions), JSON.stringify(subscriptions)); // eslint-disable-line no-control-regex
    const printed = await good(t, ['peers', server.url]);
    assert.ok(!/[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f\u202e]/.test(printed), JSON.stringify(printed)); // eslint-disable-line no-control-regex
    assert.equal(lines(printed).length, 4);
});
