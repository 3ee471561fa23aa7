// SPDX-License-Identifier: MIT
//
// `tidings watch`: updates without a resource, and the messages and exit statuses of refusals, invalid input and
// interrupts.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bad, good } from './lib/cli.mjs';
import { serveDocuments } from './lib/document.mjs';
import { BIN, Program, run, serve } from './lib/server.mjs';

test('update without URI is reported for each subscription', async (t) => {
    const server = await serveDocuments(t, 'gateway', ['--window', '0']);
    const uris = ['file://data/users.json', 'system://metrics'];
    const args = ['--json', '--era', 'legacy', '--count', '3', server.url, ...uris];
    const watch = new Program(t, BIN, ['watch', ...args]);
    const output = watch.output();
    for (const uri of uris) {
        await watch.lines.next((line) => line === `watching ${uri}`, `${uri} to be watched`);
    }
    await server.changed();
    for (const uri of uris) {
        await output.next((line) => line.includes(uri), uri);
    }
    await server.changed(uris[0]);
    assert.equal((await watch.closed).code, 0);
    const changes = output.seen.map((line) => JSON.parse(line));
    assert.ok(changes.slice(0, 2).every(({ params }) => !('uri' in params)));
    assert.deepEqual(changes.map(({ uri, subscribedUri, truncated }) => [uri, subscribedUri, truncated]), [
        [uris[0], uris[0], true],
        [uris[1], uris[1], true],
        [uris[0], undefined, undefined],
    ]);
});

for (const era of ['modern', 'legacy']) {
    test(`${era}: invalid option ends with 64 or 65 and the cause`, async (t) => {
        const server = await serve(t, { files: { a: '' } });
        const watch = (...words) => ['watch', '--era', era, '--timeout', '10', server.url, ...words];
        for (const [status, says, words] of [
            [64, /option 'since' must be a cursor/, [server.uri(''), '--since', 'bogus']],
            [65, /'\{': line 1 column 1/, [server.uri(''), '--filter', '{']],
            [64, /option 'filter': schema at \/type/, [server.uri(''), '--filter', '{"type":7}']],
            [64, /regex '\[' refused: missing closing bracket/, ['[', '--match', 'regex']],
            [66, /'file:\/\/\/elsewhere\/'/, ['file:///elsewhere/']],
        ]) {
            const { stderr } = await bad(t, status, says, watch(...words));
            assert.equal(stderr.includes("'tidings ls' lists"), status === 66, stderr);
        }
        const json = await bad(t, 64, /./, watch('[', '--match', 'regex', '--json'));
        const failure = JSON.parse(json.stderr.trim().split('\n').at(-1));
        assert.deepEqual([failure.status, failure.error], [64, 'invalid argument']);
        assert.match(failure.message, /accepted none of the URIs: regex '\[' refused/);
    });

    test(`${era}: one refused URI of two sets the status`, async (t) => {
        const server = await serve(t, { files: { a: '' } });
        const args = ['watch', '--era', era, '--timeout', '0.3', server.url, server.uri('')];
        assert.equal(await good(t, args), '');
        const { stderr } = await bad(t, 66, /refused file:\/\/\/elsewhere\//, [...args, 'file:///elsewhere/']);
        assert.match(stderr, /^watching file:/m);
    });
}

test('interrupted watch ends with 0, or by the signal if changes were wanted', async (t) => {
    const server = await serve(t, { files: { a: '' } });
    const interrupted = async (...words) => {
        const program = new Program(t, BIN, ['watch', ...words, server.url, server.uri('')], { mayFail: true });
        await program.lines.next((line) => line.startsWith('watching '), 'the watch');
        program.child.kill('SIGINT');
        return program.closed;
    };
    assert.deepEqual(await interrupted(), { code: 0, signal: null });
    assert.deepEqual(await interrupted('--count', '1'), { code: null, signal: 'SIGINT' });
    const { stdout } = await run(t, ['help', 'exit']);
    assert.match(stdout, /^ {2}130 +stopped by SIGINT \(Ctrl-C\)/m);
});

test('watch that resumed by its cursor does not warn about missed changes', async (t) => {
    const first = await serve(t, { files: { a: '' } });
    const watch = new Program(t, BIN, ['watch', '-n', '1', first.url, first.uri('')]);
    await watch.lines.next((line) => line.startsWith('watching '), 'the watch');
    await first.stop();
    await watch.lines.next((line) => line.includes('disconnected'), 'the loss');
    const again = await serve(t, { tree: first.tree, http: `127.0.0.1:${first.port}` });
    const line = await watch.lines.next((text) => text.startsWith('watching '), 'the watch again');
    assert.equal(line, `watching ${first.uri('')} again`);
    again.tree.write('b', 'x');
    assert.equal((await watch.closed).code, 0);
});
