// SPDX-License-Identifier: MIT
//
// `tidings watch` beyond its lines: contents, differences, commands, start and end.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually } from './lib/wait.mjs';

const files = { 'a.txt': 'one\ntwo\nthree\n', 'b.txt': 'b\n', 'blob.bin': Buffer.from([0, 255]) };

/** A started watch of names below the server's tree. */
async function watching(t, server, names, args, options = {}) {
    const uris = names.map(server.uri);
    const program = new Program(t, BIN, ['watch', ...args, server.url, ...uris], options);
    program.out = program.output();
    for (const uri of uris) {
        await program.lines.next((line) => line === `watching ${uri}`, `${uri} to be watched`);
    }
    return program;
}

const ended = async (program) => {
    const { code } = await program.closed;
    return code;
};

test('--diff shows the changed lines and the new size of binary files', async (t) => {
    const server = await serve(t, { files });
    const watch = await watching(t, server, ['a.txt', 'blob.bin'], ['--diff']);
    server.tree.write('a.txt', 'one\n2\x1b\nthree\n');
    await watch.out.next((line) => line === '     three', 'the last line of the difference');
    const at = watch.out.seen.findIndex((line) => line.endsWith(server.uri('a.txt')));
    assert.deepEqual(watch.out.seen.slice(at + 1, at + 6), [
        '    @@ -1,3 +1,3 @@', '     one', '    -two', '    +2\\x1b', '     three',
    ]);
    fs.writeFileSync(server.tree.at('blob.bin'), Buffer.from([0, 1, 255]));
    await watch.out.next((line) => line === '    2 B → 3 B', 'the sizes');
});

test('--diff of a directory knows the previous contents of its files and new files', async (t) => {
    const server = await serve(t, { files });
    const watch = await watching(t, server, [''], ['--diff', '--json']);
    server.tree.write('a.txt', 'one\n');
    const of = (name) => (line) => JSON.parse(line).uri === server.uri(name);
    const change = JSON.parse(await watch.out.next(of('a.txt'), 'the change'));
    assert.equal(change.diff, '@@ -1,3 +1 @@\n one\n-two\n-three\n');
    assert.deepEqual([change.before, change.after], [14, 4]);
    assert.equal(change.contents, undefined);
    server.tree.write('new.txt', 'n');
    const made = JSON.parse(await watch.out.next(of('new.txt'), 'the new file'));
    assert.equal(made.diff, '@@ -0,0 +1 @@\n+n\n\\ No newline at end of file\n');
});

for (const era of ['modern', 'legacy']) {
    test(`${era}: --read prints the content with the change`, async (t) => {
        const server = await serve(t, { files });
        const text = await watching(t, server, ['a.txt'], ['--read', '-1', '--era', era]);
        const json = await watching(t, server, ['a.txt'], ['--read', '--json', '--until-first', '--era', era]);
        server.tree.write('a.txt', 'new\n\ttext');
        assert.equal(await ended(text), 0);
        assert.deepEqual(text.out.seen.slice(1), ['    new', '    \ttext']);
        assert.equal(await ended(json), 0);
        const [change] = json.out.seen.map((line) => JSON.parse(line));
        assert.equal(change.contents[0].text, 'new\n\ttext');
        assert.equal(change.uri, server.uri('a.txt'));
        assert.equal(typeof change.cursor, 'string');
        assert.equal(typeof change.version, 'string');
    });
}

test('--exec passes the change in variables and on standard input, as data', async (t) => {
    const name = '$(touch evil) `touch evil`; touch evil #.txt';
    const server = await serve(t, { files: { [name]: '1' } });
    const cwd = new Tree(t).path;
    const command = 'printf "%s\\n" "$TIDINGS_CHANGE" "$TIDINGS_URI" "$TIDINGS_VERSION" "$TIDINGS_MERGED"; cat';
    const watch = await watching(t, server, [name], ['--exec', command, '-1', '--read'], { cwd });
    server.tree.write(name, 'two');
    assert.equal(await ended(watch), 0);
    const [change, uri, version, merged, input] = watch.out.seen;
    assert.deepEqual([change, uri, merged], ['updated', server.uri(name), '1']);
    const object = JSON.parse(input);
    assert.equal(object.version, version);
    assert.equal(object.contents[0].text, 'two');
    assert.deepEqual(fs.readdirSync(cwd), []);
});

test('--exec runs one command at a time per URI and once more for later changes', async (t) => {
    const server = await serve(t, { files });
    const gate = new Tree(t);
    // Reports its start, then waits until it may exit.
    const command = `echo "begin $TIDINGS_MERGED $(sed 's/.*"text":"\\([0-9a-z]*\\)".*/\\1/')"
        while ! [ -e "${gate.path}/open" ]; do sleep 0.02; done; echo end`;
    const args = ['--read', '--exec', command, '--options', '{"windowMs": 0}'];
    const watch = await watching(t, server, ['a.txt', 'b.txt'], args);
    const told = await watching(t, server, ['a.txt', 'b.txt'], ['--json', '--options', '{"windowMs": 0}']);
    let count = 0;
    const change = async (name, text) => {
        count += 1;
        server.tree.write(name, text);
        await told.out.next((line) => line.includes(`/${name}"`), `change ${count}`);
    };
    await change('a.txt', 'first');
    await watch.out.next((line) => line === 'begin 1 first', 'the first run');
    await change('a.txt', 'x2');
    await change('a.txt', 'x3');
    await change('a.txt', 'last');
    await change('b.txt', 'other');
    await watch.out.next((line) => line === 'begin 1 other', 'another URI, beside it');
    assert.deepEqual(watch.out.seen, ['begin 1 first', 'begin 1 other']);
    gate.write('open', '');
    await watch.out.next((line) => /^begin [1-3] last$/.test(line), 'one run for the rest');
    await eventually(() => watch.out.seen.filter((line) => line === 'end').length === 3, 'all to end');
    await watch.stop();
    assert.equal(watch.out.seen.filter((line) => line.startsWith('begin')).length, 3);
});

test('--exec: failed command and its status are reported', async (t) => {
    const server = await serve(t, { files });
    const watch = await watching(t, server, ['a.txt'], ['--exec', 'exit 3', '-1'], { mayFail: true });
    server.tree.write('a.txt', 'x');
    assert.equal(await ended(watch), 1);
    assert.match(watch.stderr, /the command for file:.*a\.txt ended with status 3/);
});

test('--exec: signal ends the running command', async (t) => {
    const server = await serve(t, { files });
    const watch = await watching(t, server, ['a.txt'], ['--exec', 'echo began $$; exec sleep 1000']);
    server.tree.write('a.txt', 'x');
    const [, pid] = (await watch.out.next((line) => line.startsWith('began'), 'the command')).split(' ');
    await watch.stop();
    assert.throws(() => process.kill(Number(pid), 0), { code: 'ESRCH' });
});

test('--since starts with the changes after the cursor', async (t) => {
    const server = await serve(t, { files });
    const first = await watching(t, server, ['a.txt', 'b.txt'], ['--json', '-1']);
    server.tree.write('a.txt', 'x');
    await ended(first);
    const { cursor } = JSON.parse(first.out.seen[0]);
    const between = await watching(t, server, ['b.txt'], ['-1']); // logged before its delivery
    server.tree.write('b.txt', 'while the first did not watch');
    await ended(between);
    const second = await run(t, ['watch', '--json', '-n', '1', '--since', cursor, server.url, server.uri('b.txt')]);
    assert.equal(second.code, 0, second.stderr);
    const told = JSON.parse(second.stdout);
    assert.equal(told.uri, server.uri('b.txt'));
    // from the log, which does not count changes; live changes have no mark
    assert.deepEqual([told.caughtUp, told.params._meta['dev.tidings/caughtUp']], [true, true]);
    assert.doesNotMatch(first.out.seen[0], /caughtUp/);
});

test('subscription options reach the server and invalid options are refused', async (t) => {
    const server = await serve(t, { files });
    const watch = await watching(t, server, ['a.txt'], ['--json', '-1', '--options', '{"include": "value"}']);
    server.tree.write('a.txt', 'with it');
    assert.equal(await ended(watch), 0);
    assert.match(watch.out.seen[0], /with it/);
    const none = await run(t, ['watch', '--options', '[]', server.url, server.uri('a.txt')]);
    assert.equal(none.code, 64);
    assert.match(none.stderr, /--options takes a JSON object/);
    const bad = await run(t, ['watch', '--options', '{"windowMs": "x"}', server.url, server.uri('a.txt')]);
    assert.notEqual(bad.code, 0);
    assert.match(bad.stderr, /windowMs/);
});

for (const era of ['modern', 'legacy']) {
    test(`${era}: watch of a file or a directory works with slim updates`, async (t) => {
        const server = await serve(t, { files });
        const args = ['--json', '--read', '--era', era, '--options', '{"detail": "slim"}'];
        const watch = await watching(t, server, ['', 'a.txt'], args);
        server.tree.write('a.txt', 'two');
        const told = (subscribed) => async () => {
            const of = (line) => (JSON.parse(line).subscribedUri ?? server.uri('a.txt')) === server.uri(subscribed);
            return JSON.parse(await watch.out.next(of, `the change for '${subscribed}'`));
        };
        for (const next of [told('a.txt'), told('')]) {
            const change = await next();
            assert.deepEqual([change.uri, change.contents[0].text], [server.uri('a.txt'), 'two']);
            assert.match(change.cursor, /^[0-9a-f]+\.\d+$/);
            assert.equal(change.version, undefined);
        }
    });
}

test('--detail overrides the detail that the server sends by default', async (t) => {
    const slim = ['change', 'version', 'merged'].map((name) => `dev.tidings/${name}`);
    for (const [server, args, is] of [['full', ['slim'], 'slim'], ['slim', ['full'], 'full'], ['slim', [], 'slim'], ['full', [], 'full']]) {
        const s = await serve(t, { files, args: ['--detail', server] });
        const watch = await watching(t, s, ['a.txt'], ['--json', '-1', ...args.flatMap((how) => ['--detail', how])]);
        s.tree.write('a.txt', 'two');
        assert.equal(await ended(watch), 0, watch.stderr);
        const { _meta, subscribedUri } = JSON.parse(watch.out.seen[0]).params;
        assert.equal(subscribedUri !== undefined, is === 'full', `${server}, ${args}`);
        assert.equal(slim.some((name) => name in _meta), is === 'full', `${server}, ${args}`);
        await s.stop();
    }
    const wrong = await run(t, ['watch', '--detail', 'thin', 'http://127.0.0.1:1/mcp', 'a:b']);
    assert.equal(wrong.code, 64);
    assert.match(wrong.stderr, /--detail takes full or slim/);
});

/** Replaces the timeout: `--timeout` sends the same signal. */
const TIME = 'SIGALRM';

test('--timeout ends watch with 0, or with 75 if more changes were wanted', async (t) => {
    const server = await serve(t, { files });
    const quiet = await watching(t, server, ['a.txt'], ['--timeout', '1h']);
    quiet.child.kill(TIME);
    assert.equal(await ended(quiet), 0, quiet.stderr);
    const wanting = await watching(t, server, ['a.txt'], ['--timeout', '1h', '-n', '2'], { mayFail: true });
    wanting.child.kill(TIME);
    assert.equal(await ended(wanting), 75);
    assert.match(wanting.stderr, /not all changes came/);
});

for (const args of [['watch', '--timeout', '50ms', 'a:b'], ['sync', '--timeout', '50ms', 'a:b/', '@']]) {
    test(`--timeout ends a ${args[0]} of a silent server`, async (t) => {
        const dir = new Tree(t).at('mirror');
        const silent = ['--', '/bin/sh', '-c', 'cat >/dev/null'];
        const end = await run(t, [...args.map((arg) => (arg === '@' ? dir : arg)), ...silent]);
        assert.equal(end.code, 75, end.stderr);
        assert.match(end.stderr, /the time is over, and nothing could be watched|timed out before everything was copied/);
    });
}

test('--timeout ends a read that hangs', async (t) => {
    const tree = new Tree(t, { asked: '' });
    // Answers of a tidings server, except reads.
    const mute = `tee '${tree.at('asked')}' | grep --line-buffered -v resources/read | '${BIN}' serve --stdio '${tree.path}'`;
    const args = ['watch', '--diff', '--timeout', '1h', tree.uri('asked'), '--', '/bin/sh', '-c', mute];
    const watch = new Program(t, BIN, args);
    await eventually(async () => fs.readFileSync(tree.at('asked'), 'utf8').includes('resources/read'), 'the read');
    watch.child.kill(TIME);
    assert.equal(await ended(watch), 0, watch.stderr);
});

test('unreachable server is a failure unless watch waits for it', async (t) => {
    const server = await serve(t, { files });
    await server.stop();
    const gone = await run(t, ['watch', server.url, server.uri('a.txt')], { ms: 6 * DEADLINE });
    assert.equal(gone.code, 74);
    assert.match(gone.stderr, /no connection within 10 seconds; --wait/);
    const brief = await run(t, ['watch', '--timeout', '100ms', server.url, server.uri('a.txt')]);
    assert.equal(brief.code, 75);
    assert.match(brief.stderr, /nothing could be watched/);
    const waiting = new Program(t, BIN, ['watch', '--wait', '-1', server.url, server.uri('a.txt')]);
    await waiting.lines.next((line) => /disconnected/.test(line), 'the first attempt');
    await serve(t, { tree: server.tree, http: `127.0.0.1:${server.port}` });
    await eventually(async () => {
        server.tree.write('a.txt', String(Date.now()));
        return !waiting.running;
    }, 'a change');
});
