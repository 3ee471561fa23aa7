// SPDX-License-Identifier: MIT
//
// Under a service manager: passed sockets and notifications to the manager. A small test program replaces it, because
// the variables name the process that reads them.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { test } from 'node:test';

import { SocketPeer } from '../contract/transport/lines.mjs';
import { defer } from './lib/cleanup.mjs';
import { call, modern } from './lib/rpc.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { groups252, parseGroups, underFilterOf } from './lib/unit-filter.mjs';
import { Inbox } from './lib/wait.mjs';

const files = { 'a.txt': 'a' };
const PERL = '/usr/bin/perl';

// Creates the sockets, which become descriptors 3 and up, sets the variables, becomes the server. (Perl is on every
// Debian; Node can neither keep such sockets private nor receive datagrams.)
const MANAGER = String.raw`
use Socket; $^F = 255;
my ($kinds, $names, @args) = @ARGV;
my @sockets;
for my $kind (split /,/, $kinds) {
    my ($family, $at) = $kind =~ m{^/}
        ? (AF_UNIX, pack_sockaddr_un($kind))
        : (AF_INET, pack_sockaddr_in(0, inet_aton($kind)));
    my $s;
    socket($s, $family, SOCK_STREAM, 0) && bind($s, $at) && listen($s, 8) or die "$kind: $!";
    push @sockets, $s;
    fileno($s) == 2 + @sockets or die "descriptor " . fileno($s);
}
@ENV{qw(LISTEN_FDS LISTEN_PID LISTEN_FDNAMES)} = (scalar @sockets, $$, $names);
exec @args;
`;

function start(t, kinds, names, args, options = {}) {
    const all = ['-e', MANAGER, kinds.join(','), names, BIN, 'serve', ...args];
    return new Program(t, PERL, all, options);
}

const isReady = (line) => line.includes('serving on ');

async function doorsOf(program) {
    const line = await program.lines.next(isReady, 'the line that it is ready');
    return line.split('serving on ')[1].split(', ');
}

/** The datagrams of a socket, one per line. */
async function hearNotices(t, path) {
    const code = String.raw`
use Socket; $| = 1;
my $path = $ARGV[0] =~ s/^@/\0/r;
my $s;
socket($s, AF_UNIX, SOCK_DGRAM, 0) && bind($s, pack_sockaddr_un($path)) or die "$path: $!";
print "bound\n";
print "$_\n" while defined recv($s, $_, 4096, 0);
`;
    const child = spawn(PERL, ['-e', code, path]);
    defer(t, () => child.kill('SIGKILL'));
    const inbox = new Inbox('notices');
    child.stdout.setEncoding('utf8').on('data', (text) => {
        text.split('\n').filter(Boolean).forEach((line) => inbox.push(line));
    });
    await inbox.next((line) => line === 'bound', 'the socket for notices');
    return inbox;
}

test('passed sockets are listeners with the kind of their name', async (t) => {
    const tree = new Tree(t, files);
    const program = start(t, ['127.0.0.1', '127.0.0.1'], 'lines:http', [tree.path]);
    const doors = await doorsOf(program);
    assert.match(doors[0], /^tcp:/);
    assert.match(doors[1], /^http:/);
    const peer = await SocketPeer.connect(t, { port: Number(new URL(doors[0]).port) });
    assert.ok((await peer.ask('modern', 'resources/list')).result);
    const web = { port: Number(new URL(doors[1]).port) };
    assert.equal((await modern(web, 'resources/list')).status, 200);
    assert.equal(doors.length, 2, 'no address of our own besides');
});

test('unnamed passed Unix socket serves lines, others serve HTTP', async (t) => {
    const tree = new Tree(t, files);
    const path = tree.aside();
    const program = start(t, [path, '127.0.0.1'], 'tidings.socket:tidings.socket', [tree.path]);
    const doors = await doorsOf(program);
    assert.deepEqual(doors[0], `unix:${path}`);
    assert.match(doors[1], /^http:/);
    const peer = await SocketPeer.connect(t, { path });
    assert.ok((await peer.ask('modern', 'resources/list')).result);
});

test('remotely reachable passed socket requires --allow-remote', async (t) => {
    const tree = new Tree(t, files);
    const program = start(t, ['0.0.0.0'], 'http', [tree.path], { mayFail: true });
    assert.notEqual((await program.exited).code, 0);
    assert.match(program.stderr, /passed socket .* --allow-remote/);
});

test('sockets for another process are ignored', async (t) => {
    const tree = new Tree(t, files);
    const env = { LISTEN_PID: '1', LISTEN_FDS: '1' };
    const program = new Program(t, BIN, ['serve', '--http', '127.0.0.1:0', tree.path], { env });
    assert.equal((await doorsOf(program)).length, 1);
});

for (const kind of ['a path', 'an abstract socket']) {
    test(`readiness, watchdog and stop are sent on ${kind}`, async (t) => {
        const tree = new Tree(t, files);
        const path = kind === 'a path' ? tree.aside() : `@tidings-test-${process.pid}`;
        const notices = await hearNotices(t, path);
        const env = { NOTIFY_SOCKET: path, WATCHDOG_USEC: '200000' };
        const program = new Program(t, BIN, ['serve', '--http', '127.0.0.1:0', tree.path], { env });
        await notices.next((line) => line === 'READY=1', 'READY=1');
        await doorsOf(program);
        await notices.next((line) => line === 'WATCHDOG=1', 'a sign of life');
        await notices.next((line) => line === 'WATCHDOG=1', 'another one');
        program.child.kill('SIGHUP');
        await notices.next((line) => line === 'RELOADING=1', 'RELOADING=1');
        await notices.next((line) => /^MONOTONIC_USEC=[1-9]\d+$/.test(line), 'when');
        await notices.next((line) => line === 'READY=1', 'READY=1 again');
        await program.stop();
        await notices.next((line) => line === 'STOPPING=1', 'STOPPING=1');
    });
}

// ---- the unit of the package ----------------------------------------------------------------------------------------

const UNIT = new URL('../../contrib/systemd/tidings.service', import.meta.url);
const unit = fs.readFileSync(UNIT, 'utf8');

test('unit permits all system calls of the sandbox', async (t) => {
    const { sandbox } = JSON.parse((await run(t, ['version', '--json'])).stdout);
    const tree = new Tree(t, { 'served/a.txt': 'a' });
    const mounts = [
        { type: 'file', uri: 'files:///', path: tree.at('served') },
        { type: 'command', uri: 'cmd:///it', argv: ['echo', 'hello'], interval: 0 },
    ];
    tree.write('tidings.json', JSON.stringify({ mounts }));
    const args = ['--config', tree.at('tidings.json'), '--store', tree.at('tidings.db'), '--self', '--publish', 'app:///', '--allow-write'];
    // The leak sanitizer traces the program, which the filter denies.
    const env = { ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:detect_leaks=0` };
    const server = await serve(t, { tree, mounts: [], args, env, under: underFilterOf(unit) });
    const state = JSON.parse((await call(server, 'resources/read', { uri: 'tidings://self/sandbox' })).contents[0].text);
    assert.deepEqual([state.noNewPrivs, state.landlock, state.seccomp], [true, sandbox.landlock, sandbox.seccomp]);
    assert.doesNotMatch(server.stderr, / warn | error /);
    const status = fs.readFileSync(`/proc/${server.child.pid}/status`, 'utf8');
    assert.match(status, /^NoNewPrivs:\s+1$/m);
    assert.match(status, new RegExp(`^Seccomp_filters:\\s+${sandbox.seccomp ? 2 : 1}$`, 'm'), 'the filter of the unit and our own');
    for (const uri of ['files:///a.txt', 'cmd:///it']) {
        assert.equal((await modern(server, 'resources/read', { uri })).status, 200, uri);
    }
    const published = await call(server, 'tools/call', { name: 'publish', arguments: { uri: 'app:///x', text: 'x' } });
    assert.ok(!published.isError, JSON.stringify(published));
});

const version = spawnSync('systemd-analyze', ['--version'], { encoding: 'utf8' }).stdout ?? '';

test('unit passes systemd verification, and its call groups match our list', {
    skip: !version.startsWith('systemd 252') && 'needs systemd-analyze 252',
}, () => {
    const { stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', UNIT.pathname], { encoding: 'utf8' });
    const complaints = stderr.split('\n').filter((line) => line.includes('tidings') && !line.includes('is not executable'));
    assert.deepEqual(complaints, []);
    for (const [name, calls] of groups252) {
        const { stdout } = spawnSync('systemd-analyze', ['syscall-filter', '--no-pager', name], { encoding: 'utf8' });
        const theirs = parseGroups(stdout.replace(/^@.*$/m, '$&:')).get(name);
        assert.deepEqual(calls, theirs.sort(), name);
    }
});
