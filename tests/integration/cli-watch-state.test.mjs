// SPDX-License-Identifier: MIT
//
// `tidings watch --state FILE` resumes at its last position after any kind of stop: changes may repeat but are never
// lost.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { BIN, Program, run, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { eventually } from './lib/wait.mjs';

const files = { a: '', b: '', c: '' };

/** A started watch of these with its state in `place`. */
async function watching(t, server, names, place, args = []) {
    const uris = names.map(server.uri);
    const program = new Program(t, BIN, ['watch', '--state', place.at('state'), ...args, server.url, ...uris]);
    program.out = program.output();
    for (const uri of uris) {
        await program.lines.next((line) => line === `watching ${uri}`, `${uri} to be watched`);
    }
    return program;
}

const cursors = (place) => JSON.parse(fs.readFileSync(place.at('state'), 'utf8')).subscriptions.map(({ cursor }) => cursor);
/** For files that change without notification. */
const written = (place, isIt, what) => eventually(() => isIt(cursors(place)), what);
const name = (line) => JSON.parse(line).uri.split('/').at(-1);

for (const era of ['modern', 'legacy']) {
    test(`${era}: resumed watch reports missed changes even if killed before its first change`, async (t) => {
        const server = await serve(t, { files });
        const place = new Tree(t);
        const args = ['--json', '--era', era];
        const first = await watching(t, server, ['a', 'b'], place, args);
        await written(place, (all) => all.every((cursor) => cursor), 'where it begins to be written');
        await first.kill();
        server.tree.replace('a', 'while nobody watched'); // one change, not two
        const second = await watching(t, server, ['a', 'b'], place, args);
        const { cursor, version } = JSON.parse(await second.out.next(undefined, 'what was missed'));
        await written(place, (all) => all[0] === cursor, 'how far it has come to be written');
        await second.kill();
        server.tree.replace('b', 'while nobody watched');
        const third = await watching(t, server, ['a', 'b'], place, args);
        // It received 'a' while 'b' was still being subscribed: the cursor is before 'a', so 'a' repeats.
        const again = cursor === version ? [] : ['a'];
        await eventually(() => third.out.seen.length >= 1 + again.length, 'what was missed then');
        const newest = JSON.parse(third.out.seen.find((line) => name(line) === 'b')).cursor;
        await written(place, (all) => all[1] === newest, 'how far it has come then to be written');
        await third.stop();
        const told = [...second.out.seen, ...third.out.seen];
        assert.deepEqual(told.map(name).sort(), ['a', ...again, 'b'], `nothing twice, nothing lost: ${told.join('')}`);
        assert.equal(fs.statSync(place.at('state')).mode & 0o777, 0o600);
        assert.deepEqual(fs.readdirSync(place.path), ['state']);
    });
}

test('watch killed at any time repeats changes and loses none', async (t) => {
    const server = await serve(t, { files, args: ['--window', '0'] });
    const place = new Tree(t);
    const seen = new Set();
    for (let i = 0; i < 10; i++) {
        const file = `n${i}`;
        const watch = await watching(t, server, [''], place, ['--json']);
        server.tree.write(file, 'x');
        if (i % 2 === 0) {
            await watch.out.next((line) => line.includes(`/${file}"`), file);
        }
        await watch.kill();
        await watch.closed;
        watch.out.seen.forEach((line) => seen.add(JSON.parse(line).uri));
    }
    const last = await watching(t, server, [''], place, ['--json']);
    server.tree.write('end', 'x');
    await last.out.next((line) => line.includes('/end"'), 'the last change');
    last.out.seen.forEach((line) => seen.add(JSON.parse(line).uri));
    for (let i = 0; i < 10; i++) {
        assert.ok(seen.has(server.uri(`n${i}`)), `n${i}`);
    }
});

/** Prints its URI and waits until it may exit. */
const gated = (place) => `echo "$TIDINGS_URI" $(cat "$TIDINGS_URIS" 2>/dev/null) | sed 's,.*/,run ,'
    while ! [ -e '${place.at('open')}' ]; do sleep 0.02; done`;

for (const mode of [[], ['--batch', '--debounce', '1ms']]) {
    test(`--exec ${mode[0] ?? ''}: change counts when its command exits`, async (t) => {
        const server = await serve(t, { files });
        const place = new Tree(t);
        const start = (args = []) => watching(t, server, ['a'], place, ['--exec', gated(place), ...mode, ...args]);
        const killed = await start();
        await written(place, ([cursor]) => cursor, 'where it begins');
        const [begin] = cursors(place);
        server.tree.write('a', 'one');
        await killed.out.next((line) => line === 'run a', 'the command');
        await killed.kill();
        const ended = await start();
        await ended.out.next((line) => line === 'run a', 'the command once more');
        assert.deepEqual(cursors(place), [begin]);
        await ended.stop();
        assert.deepEqual(cursors(place), [begin], 'a command that a signal ended is not done');
        place.write('open');
        const done = await start(['-1']);
        assert.equal((await done.closed).code, 0, done.stderr);
        assert.deepEqual(done.out.seen, ['run a']);
        assert.notDeepEqual(cursors(place), [begin]);
        server.tree.write('a', 'two');
        const after = await start(['-1']);
        await after.closed;
        assert.deepEqual(after.out.seen, ['run a']);
    });
}

test('state file of another watch is refused with advice', async (t) => {
    const server = await serve(t, { files });
    const other = await serve(t, { tree: server.tree });
    const place = new Tree(t);
    const state = place.at('state');
    const refused = async (code, url, name, path = state) => {
        const end = await run(t, ['watch', '--state', path, url, server.uri(name)]);
        assert.equal(end.code, code, end.stderr);
        return end.stderr;
    };
    const watch = await watching(t, server, ['a'], place);
    assert.match(await refused(75, server.url, 'a'), /another watch uses it; name another file/);
    await watch.stop();
    assert.match(await refused(73, other.url, 'a'), /is of a watch of http:\S+; name another file with --state, or remove this one/);
    assert.match(await refused(73, server.url, 'b'), /is of a watch of other URIs, as file:\S+\/a; name another file/);
    fs.chmodSync(state, 0o666);
    assert.match(await refused(77, server.url, 'a'), /other users can write this file; name another one/);
    for (const text of ['{}', '{"watch":1,"server":1}', 'no JSON', '{"watch":1,"server":"x","subscriptions":[{"uri":"a:b"}]}']) {
        place.write('damaged', text);
        fs.chmodSync(place.at('damaged'), 0o600);
        assert.match(await refused(65, server.url, 'a', place.at('damaged')), /it is not the state of a watch; name another file, or remove/);
        assert.equal(fs.readFileSync(place.at('damaged'), 'utf8'), text);
    }
    fs.symlinkSync(place.at('elsewhere'), place.at('link'));
    assert.match(await refused(77, server.url, 'a', place.at('link')), /it is a symbolic link/);
    assert.match(await refused(74, server.url, 'a', place.at('no/such/directory')), /No such file or directory/);
    if (process.getuid() === 0) {
        place.write('theirs', '');
        fs.chownSync(place.at('theirs'), 1234, 1234);
        assert.match(await refused(77, server.url, 'a', place.at('theirs')), /other users can write this file/);
    }
});

test('server without cursors: watch prints a warning', async (t) => {
    const stranger = fileURLToPath(new URL('lib/plain-stranger.mjs', import.meta.url));
    const place = new Tree(t);
    const args = ['watch', '-1', '--state', place.at('state'), 'plain://it', '--', process.execPath, stranger];
    const end = await run(t, args);
    assert.equal(end.code, 0, end.stderr);
    assert.match(end.stderr, /the server has no cursors: changes while watch does not run are lost for plain:\/\/it\n/);
    assert.deepEqual(cursors(place), ['']);
});
