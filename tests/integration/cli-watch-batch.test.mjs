// SPDX-License-Identifier: MIT
//
// `tidings watch --exec --batch`: one run for all changes of a burst. The test stops the watch (SIGSTOP) during
// changes, so that all are pending when it continues and nothing depends on speed.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

/** All subscriptions receive a change in the same turn, so one observer can stand for all. */
const AT_ONCE = ['--window', '0', '--workers', '1'];

/** An exited process that was not reaped does not count. */
function lives(pid) {
    const stat = `/proc/${pid}/stat`;
    return fs.existsSync(stat) && !/\) [ZX] /.test(fs.readFileSync(stat, 'utf8'));
}

async function started(t, server, uri, file, args, options = {}) {
    const watch = new Program(t, file, args, options);
    watch.out = watch.output();
    await watch.lines.next((line) => line === `watching ${uri}`, `${uri} to be watched`);
    const witness = new Program(t, BIN, ['watch', server.url, uri]);
    witness.out = witness.output();
    await witness.lines.next((line) => line.startsWith('watching'), 'somebody else to watch');
    /** Writes these files while the watch is stopped, until all subscriptions are notified. */
    watch.during = async (names, text) => {
        watch.child.kill('SIGSTOP');
        names.forEach((name) => server.tree.replace(name, text)); // one change each
        for (const name of names) {
            const isIt = (line) => decodeURIComponent(line).endsWith(`/${name}`);
            await witness.out.next(isIt, `${name} to be told`);
        }
    };
    watch.goOn = () => watch.child.kill('SIGCONT');
    watch.burst = async (names, text) => {
        await watch.during(names, text);
        watch.goOn();
    };
    return watch;
}

const batch = (t, server, command, args = [], options = {}) => {
    const uri = server.uri('src/');
    return started(t, server, uri, BIN, ['watch', '--exec', command, '--batch', ...args, server.url, uri], options);
};

/** The command reports its start and waits until `open` exists. */
const gated = (gate) => `echo "begin $TIDINGS_COUNT $TIDINGS_MERGED" $(sed 's,.*/,,')
    while ! [ -e '${gate.at('open')}' ]; do sleep 0.02; done; echo end`;

test("make from the README runs once per burst of 50 files", async (t) => {
    const readme = fs.readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
    const [, words] = readme.match(/^\$ tidings (watch .*--exec 'make.*)$/m);
    const files = { 'src/a.c': '', Makefile: 'all:\n\t@echo built $$TIDINGS_COUNT $$(sort -u $$TIDINGS_URIS | wc -l)\n' };
    const server = await serve(t, { files, args: AT_ONCE });
    const line = `exec '${BIN}' ${words.replace('127.0.0.1:7777', server.url).replace(/'demo[^']*'/, 'src/')}`;
    const watch = await started(t, server, server.uri('src/'), '/bin/sh', ['-c', line], { cwd: server.tree.path });
    const names = Array.from({ length: 50 }, (_, i) => `src/${i}.c`);
    for (const text of ['one', 'two']) {
        await watch.burst(names, text);
        await watch.out.next((said) => said === 'built 50 50', 'the run for all of them');
    }
    await watch.stop();
    assert.deepEqual(watch.out.seen, ['built 50 50', 'built 50 50']);
});

test('--batch: changes during a run cause one more run with each URI once', async (t) => {
    const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
    const gate = new Tree(t);
    const watch = await batch(t, server, gated(gate), ['-n', '2']);
    await watch.burst(['src/a'], '1');
    await watch.out.next((line) => line === 'begin 1 1 a', 'the first run');
    await watch.burst(['src/b', 'src/c'], '2');
    await watch.during(['src/b'], '3');
    gate.write('open');
    watch.goOn();
    const { code } = await watch.closed;
    assert.equal(code, 0);
    assert.deepEqual(watch.out.seen, ['begin 1 1 a', 'end', 'begin 2 3 b c', 'end']);
});

test('--debounce sets the quiet time before a run', async (t) => {
    const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
    const [patient, usual] = [await batch(t, server, 'echo run', ['--debounce', '1h']), await batch(t, server, 'echo run')];
    for (const name of ['src/a', 'src/b']) {
        server.tree.write(name, '1');
        await usual.out.next((line) => line === 'run', 'the run of one that waits 300 ms');
    }
    assert.deepEqual(patient.out.seen, []);
});

test('--restart kills the running process group and keeps its changes', async (t) => {
    const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
    const command = `sh -c 'echo process $$; exec sleep 1000' & echo run $(sed 's,.*/,,'); wait`;
    const watch = await batch(t, server, command, ['--restart']);
    const runs = async (list) => {
        await watch.out.next((line) => line === `run ${list}`, `a run for ${list}`);
        return Number((await watch.out.next((line) => line.startsWith('process'), 'its process')).split(' ')[1]);
    };
    await watch.burst(['src/a'], '1');
    const first = await runs('a');
    await watch.burst(['src/b'], '2');
    const second = await runs('a b');
    assert.ok(!lives(first));
    await watch.stop();
    assert.ok(!lives(second));
    assert.equal(watch.out.seen.filter((line) => line.startsWith('run')).length, 2);
    assert.doesNotMatch(watch.stderr, /the command/);
});

test('--at-start runs the command before the first change with an empty list', async (t) => {
    const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
    const watch = await batch(t, server, 'echo "run $TIDINGS_COUNT" $(cat)', ['--at-start', '-1']);
    await watch.out.next((line) => line === 'run 0', 'the run at the start');
    await watch.burst(['src/a'], '1');
    await watch.closed;
    assert.deepEqual(watch.out.seen, ['run 0', `run 1 ${server.uri('src/a')}`]);
});

test('--batch: names reach the command as data, NUL-terminated with -0, as objects with --json', async (t) => {
    const names = ['src/$(touch evil);`touch evil`', 'src/with\nline', "src/'quo\"te"];
    const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
    const cwd = new Tree(t).path;
    const plain = await batch(t, server, 'cat; echo; cat "$TIDINGS_URIS"', ['-1'], { cwd });
    const zero = await batch(t, server, "tr '\\0' '!'", ['-1', '-0'], { cwd });
    const json = await batch(t, server, 'cat', ['-1', '--json', '--read'], { cwd });
    for (const watch of [zero, json]) {
        watch.child.kill('SIGSTOP');
    }
    await plain.burst(names, 'text');
    [zero, json].forEach((watch) => watch.goOn());
    await Promise.all([plain.closed, zero.closed, json.closed]);
    const paths = (uris) => uris.map((uri) => decodeURIComponent(uri).replace(`file://${server.tree.path}/`, '')).sort();
    const [list, file] = plain.out.seen.join('\n').split('\n\n').map((text) => text.split('\n'));
    names.sort();
    assert.deepEqual(paths(list), names);
    assert.deepEqual(paths(file), names);
    assert.deepEqual(paths(zero.out.seen.join('\n').split('!').slice(0, -1)), names);
    const objects = json.out.seen.map((line) => JSON.parse(line));
    assert.deepEqual(paths(objects.map(({ uri }) => uri)), names);
    assert.equal(objects[0].contents[0].text, 'text');
    assert.deepEqual(fs.readdirSync(cwd), []);
});

test('--batch: hostile URI forges no line', async (t) => {
    const stranger = fileURLToPath(new URL('lib/plain-stranger.mjs', import.meta.url));
    const URIS = JSON.stringify(['bad:///x/a\nbad:///x/forged', 'bad:///x/b c\r\t\x7f']);
    const args = ['watch', '--exec', 'cat -A', '--batch', '-1', 'bad:///x/', '--', process.execPath, stranger];
    const end = await run(t, args, { env: { URIS } });
    assert.equal(end.code, 0, end.stderr);
    assert.equal(end.stdout, 'bad:///x/a%0Abad:///x/forged$\nbad:///x/b%20c%0D%09%7F$\n');
});

test('--exec: hostile URI forges no line in a variable', async (t) => {
    const stranger = fileURLToPath(new URL('lib/plain-stranger.mjs', import.meta.url));
    const URIS = JSON.stringify(['bad:///x/a\nbad:///x/forged', 'bad:///x/b c\r\t\x7f']);
    const command = 'printf "%s\\n" "$TIDINGS_URI" | cat -A; printenv | grep -c ^bad';
    const args = ['watch', '--exec', command, '-n', '2', '-j', '1', 'bad:///x/', '--', process.execPath, stranger];
    const end = await run(t, args, { env: { URIS } });
    assert.equal(end.stdout, 'bad:///x/a%0Abad:///x/forged$\n0\nbad:///x/b%20c%0D%09%7F$\n0\n');
});

test('--batch: failed command is reported and a signal ends the running one', async (t) => {
    const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
    const failing = await batch(t, server, 'exit 3', ['-1'], { mayFail: true });
    await failing.burst(['src/a'], '1');
    assert.equal((await failing.closed).code, 1);
    assert.match(failing.stderr, /the command for 1 URIs ended with status 3/);
    const long = await batch(t, server, 'echo began $$; exec sleep 1000', ['--at-start']);
    const pid = (await long.out.next((line) => line.startsWith('began'), 'the command')).split(' ')[1];
    await long.stop();
    assert.ok(!lives(pid));
});

for (const how of [[], ['--batch'], ['--batch', '--restart']]) {
    test(`interrupt kills all processes of --exec ${how.join(' ')}`, async (t) => {
        for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
            const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
            const command = "sh -c 'echo process $$; exec sleep 1000' & (sh -c 'echo process $$; exec sleep 1000'); wait";
            const args = ['watch', '--exec', command, ...how, server.url, server.uri('src/')];
            const watch = await started(t, server, server.uri('src/'), BIN, args);
            await watch.burst(['src/a'], '1');
            const pids = [];
            while (pids.length < 2) {
                pids.push((await watch.out.next((line) => line.startsWith('process'), 'a process')).split(' ')[1]);
            }
            t.after(() => pids.filter(lives).forEach((pid) => process.kill(Number(pid), 'SIGKILL')));
            assert.ok(pids.every(lives));
            await watch.stop(signal);
            assert.deepEqual(pids.filter(lives), [], signal);
            assert.doesNotMatch(watch.stderr, /the command/);
        }
    });
}

test('nohup: watch survives the loss of its terminal', async (t) => {
    const server = await serve(t, { files: { 'src/a': '' }, args: AT_ONCE });
    const args = ['-c', 'trap "" HUP; exec "$@"', 'sh', BIN, 'watch', '--exec', 'echo ran', '-1', server.url, server.uri('src/')];
    const watch = await started(t, server, server.uri('src/'), '/bin/sh', args);
    watch.child.kill('SIGHUP');
    await watch.burst(['src/a'], '1');
    assert.equal((await watch.closed).code, 0);
    assert.deepEqual(watch.out.seen, ['ran']);
});

test('options of --batch without it are reported', async (t) => {
    const wrong = async (...args) => {
        const end = await run(t, ['watch', 'http://127.0.0.1:1/mcp', 'a:b', ...args]);
        assert.equal(end.code, 64);
        return end.stderr;
    };
    assert.match(await wrong('--batch'), /goes with --exec: '--batch'/);
    assert.match(await wrong('--batch', '--exec', 'x', '--jobs', '2'), /--jobs/);
    for (const option of [['--debounce', '1s'], ['--restart'], ['--at-start'], ['--null']]) {
        assert.match(await wrong('--exec', 'x', ...option), new RegExp(`goes with --exec and --batch: '${option[0]}'`));
    }
});
