// SPDX-License-Identifier: MIT
//
// The write commands publish and entity, through the tools of a tidings server.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bad as failing, good, lines } from './lib/cli.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';

/** … with empty output. */
async function bad(...args) {
    const end = await failing(...args);
    assert.equal(end.stdout, '');
}

/** A started watch of `uri`: its output lines. */
async function watching(t, server, uri, ...args) {
    const program = new Program(t, BIN, ['watch', '-t', server.url, '--json', ...args, uri]);
    const printed = program.output();
    await program.lines.next((line) => line === `watching ${uri}`, 'the watch');
    return { printed, closed: program.closed };
}

const publishing = (t) => serve(t, { args: ['--publish', 'app:///', '--allow-write'] });

test('publish creates, replaces and removes a resource, text or bytes', async (t) => {
    const server = await publishing(t);
    const tree = new Tree(t, { 'x.json': '{"a":1}', 'x.bin': Buffer.from([0, 255]) });
    const publish = (...args) => good(t, ['publish', '-t', server.url, 'app:///x', ...args]);
    const read = (...args) => good(t, ['read', server.url, 'app:///x', ...args]);
    assert.match(await publish('--file', tree.at('x.json'), '--mime', 'application/json', '--title', 'X'), /^created app:\/\/\/x \S+\n$/);
    assert.equal(await read(), '{"a":1}');
    const [content] = JSON.parse(await read('--json')).contents;
    assert.equal(content.mimeType, 'application/json');
    assert.equal(content.title, 'X');
    const answer = JSON.parse(await publish('--file', tree.at('x.bin'), '--json'));
    assert.equal(answer.created, false);
    assert.equal(JSON.parse(await read('--json')).contents[0].blob, 'AP8=');
    await bad(t, 1, /./, ['publish', server.url, 'app:///x', '-', '--if-match', 'other'], { input: 'y' });
    await bad(t, 1, /./, ['publish', server.url, 'app:///x', '-', '--if-absent'], { input: 'y' });
    assert.match(await good(t, ['publish', server.url, 'app:///x', '--if-match', answer.etag], { input: 'piped' }), /^updated/);
    assert.equal(await read(), 'piped');
    await publish('a value');
    assert.equal(await read(), 'a value');
    await publish('-m', '-5 °C');
    assert.equal(await read(), '-5 °C');
    assert.equal(await publish('--delete'), 'deleted app:///x\n');
    await bad(t, 66, /app:\/\/\/x/, ['read', server.url, 'app:///x']);
});

test('publish explains a refusal', async (t) => {
    const server = await publishing(t);
    await bad(t, 1, /not below 'app:\/\/\/'/, ['publish', server.url, 'other:///x', '-'], { input: '' });
    await bad(t, 66, /nowhere/, ['publish', server.url, 'app:///x', '--file', '/nowhere']);
    await bad(t, 64, /takes one of them/, ['publish', server.url, 'app:///x', 'x', '-m', 'y']);
    await bad(t, 64, /no content: 'x'/, ['publish', server.url, 'app:///x', 'x', '--delete']);
    const closed = await serve(t, {});
    await bad(t, 69, /publish/, ['publish', closed.url, 'app:///x', '-'], { input: 'x' });
});

for (const era of ['modern', 'legacy']) {
    test(`${era}: notify sends the change, its type and metadata to watchers`, async (t) => {
        const server = await publishing(t);
        const watch = await watching(t, server, 'app:///events?type=error', '--era', era, '--count', '3');
        const notify = (...args) => good(t, ['notify', '--era', era, '-t', server.url, ...args]);
        assert.equal(await notify('app:///events/0', '--metadata', '{"type":"info"}'), 'told app:///events/0\n');
        assert.equal(
            await notify('app:///events/1', 'app:///events/2', '--metadata', '{"type":"error","n":1}'),
            'told app:///events/1\ntold app:///events/2\n',
        );
        assert.equal(await notify('--quiet', 'app:///events/3', '--kind', 'deleted', '--metadata', '{"type":"error"}'), '');
        await watch.closed;
        const changes = watch.printed.seen.map((line) => JSON.parse(line));
        assert.deepEqual(changes.map((c) => [c.uri, c.change]), [
            ['app:///events/1', 'updated'],
            ['app:///events/2', 'updated'],
            ['app:///events/3', 'deleted'],
        ]);
        assert.equal(changes[0].params._meta['dev.tidings/metadata'].n, 1);
    });
}

test('notify prints delivered changes and reports refused ones', async (t) => {
    const server = await publishing(t);
    const some = await failing(t, 1, /nothing is served under 'no:'/, ['notify', server.url, 'app:///a', 'no:b']);
    assert.equal(some.stdout, 'told app:///a\n');
    const json = await failing(t, 1, /^$/, ['notify', server.url, '--json', 'app:///a', 'no:b']);
    const answer = JSON.parse(json.stdout);
    assert.deepEqual([answer.told, answer.refused, answer.results[1].reason], [1, 1, 'not_found']);
    const tree = new Tree(t, { 'a.txt': '', 'm.json': '{"type":"x"}', 'bad.json': '[' });
    await bad(t, 77, /no access rule allows it/, ['notify', server.url, tree.at('a.txt')]);
    await bad(t, 77, /everything/, ['notify', server.url, '--all']);
    await bad(t, 64, /takes no URI: 'app:\/\/\/a'/, ['notify', server.url, '--all', 'app:///a']);
    await bad(t, 64, /neither --kind nor --metadata/, ['notify', server.url, '--all', '--kind', 'created']);
    await bad(t, 64, /say what changed/, ['notify', server.url]);
    await bad(t, 64, /--kind/, ['notify', server.url, 'app:///a', '--kind', 'moved']);
    await bad(t, 65, /bad\.json: line 1/, ['notify', server.url, 'app:///a', '--metadata', `@${tree.at('bad.json')}`]);
    await bad(t, 1, /metadata/, ['notify', server.url, 'app:///a', '--metadata', '[]']);
    await good(t, ['notify', server.url, 'app:///a', '--metadata', `@${tree.at('m.json')}`]);
    const closed = await serve(t, {});
    await bad(t, 69, /no tool 'notify'/, ['notify', closed.url, 'app:///x']);
});

test('publish sends the given details of the change', async (t) => {
    const server = await publishing(t);
    const watch = await watching(t, server, 'app:///?type=error', '--until-first');
    await good(t, ['publish', server.url, 'app:///x', '-', '--metadata', '{"type":"error"}'], { input: 'x' });
    await watch.closed;
    assert.equal(JSON.parse(watch.printed.seen[0]).uri, 'app:///x');
    await bad(t, 65, /line 1/, ['publish', server.url, 'app:///x', '-', '--metadata', '{'], { input: 'y' });
});

const schema = '{"type":"object","properties":{"age":{"type":"number"}},"additionalProperties":false}';

for (const era of ['modern', 'legacy']) {
    test(`${era}: entity is written, patched, read back, deleted and restored`, async (t) => {
        const server = await serve(t, { args: ['--entities', ':memory:'] });
        const entity = (command, ...args) =>
            good(t, ['entity', command, '--era', era, '-t', server.url, ...args]);
        const ann = 'User@1.0/ann';
        assert.match(await entity('add-type', 'User@1.0', schema, '--description', 'people'), /User@1\.0/);
        assert.match(await entity('types'), /^User@1\.0 +people\n$/);
        assert.equal(JSON.parse(await entity('types', '--json')).jsonSchema.type, 'object');

        const first = (await entity('put', ann, '{"age":7}', '--changed-by', 'ada')).trim();
        assert.match(first, /^\d{4}-.*Z$/);
        assert.deepEqual(JSON.parse(await entity('get', ann)), { age: 7 });
        assert.match(await entity('put', ann, '{"age":7}'), /it was so already/);
        const version = JSON.parse(await entity('patch', ann, '{"age":8}', '--baseline', first, '--json'));
        assert.equal(version.changed, true);
        assert.deepEqual(JSON.parse(await entity('get', ann, '--since', first)), { age: 8 });
        assert.deepEqual(JSON.parse(await entity('at', ann, first)), { age: 7 });
        assert.equal(JSON.parse(await entity('get', `entity:///${ann}`, '--json')).validFrom, version.validFrom);

        const log = lines(await entity('log', ann));
        assert.deepEqual(log, [`${first} ada {"age":7}`, `${version.validFrom} anonymous {"age":8}`]);
        const all = lines(await entity('log', ann, '--json')).map((line) => JSON.parse(line).value.age);
        assert.deepEqual(all, [7, 8]);
        assert.equal(lines(await entity('log', ann, '-n', '1', '-q')).length, 1);
        assert.equal(lines(await entity('log', ann, '--from', version.validFrom)).length, 1);

        await entity('rm', ann);
        await bad(t, 66, /deleted/i, ['entity', 'get', server.url, ann]);
        await entity('undelete', ann);
        assert.deepEqual(JSON.parse(await entity('get', ann)), { age: 8 });
        assert.match(lines(await entity('log', ann))[2], / deleted$/);
    });
}

test('invalid entity is explained, each error with its status', async (t) => {
    const server = await serve(t, { args: ['--entities', ':memory:'] });
    const file = new Tree(t, { schema }).at('schema');
    await good(t, ['entity', 'add-type', server.url, 'User@1.0', `@${file}`]);
    const first = (await good(t, ['entity', 'put', server.url, 'User@1.0/ann'], { input: '{"age":1}' })).trim();
    await good(t, ['entity', 'patch', server.url, 'User@1.0/ann', '{"age":2}']);
    const rows = [
        [75, /changed since/, ['patch', server.url, 'User@1.0/ann', '{"age":3}', '--baseline', first]],
        [65, /age/, ['put', server.url, 'User@1.0/bob', '{"age":"old"}']],
        [73, /exists/, ['put', server.url, 'User@1.0/ann', '{}', '--if-absent']],
        [66, /nobody/, ['log', server.url, 'User@1.0/nobody']],
        [66, /Other/, ['put', server.url, 'Other@1.0/x', '{}']],
        [65, /line 1/, ['put', server.url, 'User@1.0/ann', '{']],
        [64, /NAME@VERSION/, ['add-type', server.url, 'User', schema]],
        [66, /nowhere/, ['put', server.url, 'User@1.0/ann', '@/nowhere']],
    ];
    for (const [code, says, args] of rows) {
        await bad(t, code, says, ['entity', ...args]);
    }
    const closed = await serve(t, {});
    await bad(t, 69, /upsert-entity/, ['entity', 'put', closed.url, 'User@1.0/ann', '{}']);
});
