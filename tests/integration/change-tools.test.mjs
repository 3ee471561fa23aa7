// SPDX-License-Identifier: MIT
//
// `changes_since` and `wait_for_change`, the tools for hosts without subscriptions, called by both official clients
// over every transport.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { test } from 'node:test';

import { call, initialize, LATEST_LEGACY, post, totals } from './lib/rpc.mjs';
import { LEGACY_TRANSPORTS, legacyClient, modernClient, TRANSPORTS } from './lib/sdk.mjs';
import { serve, serveExample } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually, within } from './lib/wait.mjs';

const NAMES = ['changes_since', 'my_subscriptions', 'wait_for_change'];
const ERAS = [
    ['2025-11-25', legacyClient, LEGACY_TRANSPORTS],
    ['2026-07-28', modernClient, TRANSPORTS],
];

/** A connected client with tools by name: `tool(name, arguments, options)`. */
async function connect(t, open, era, transport, args = ['--change-tools', 'on'], files = {}) {
    const host = await open(t, transport, { args, files });
    host.call = (name, given = {}, options = {}) =>
        host.client.callTool(
            { name, arguments: given },
            ...[undefined].slice(era > '2026' ? 1 : 0),
            { timeout: DEADLINE * 3, ...options },
        );
    /* Adds `contents`, the blocks with their content, to rows. */
    host.tool = async (...given) => {
        const { isError, content, structuredContent } = await host.call(...given);
        assert.ok(!isError, content[0].text);
        assert.deepEqual(JSON.parse(content[0].text), structuredContent);
        const changes = structuredContent.changes ?? [];
        const blocks = changes.flatMap((row) => row.blocks ?? []);
        assert.deepEqual(blocks, content.slice(1).map((_, i) => i + 1), 'each block once');
        for (const row of changes.filter((one) => one.blocks)) {
            row.contents = row.blocks.map((i) => content[i]);
        }
        return structuredContent;
    };
    return host;
}

/** Waits with the previous cursor until `done` returns true; passes each change to `take`. */
async function follow(tool, given, cursor, take, done) {
    while (!done()) {
        const answer = await tool('wait_for_change', { ...given, cursor });
        assert.equal(answer.gap, undefined);
        assert.equal(answer.timedOut, answer.changes.length === 0);
        answer.changes.forEach(take);
        cursor = answer.cursor;
    }
    return cursor;
}

for (const [era, open, transports] of ERAS) {
    for (const transport of transports) {
        const it = (name, body) => test(`${transport} ${era}: ${name}`, body);

        it('second call reports changes since the first call', async (t) => {
            const files = { 'a.txt': 'one', 'b.txt': 'gone soon', 'other/c.txt': 'c' };
            const { tree, tool } = await connect(t, open, era, transport, undefined, files);
            const uris = [tree.uri()];
            const { cursor, changes, more } = await tool('changes_since', { uris });
            assert.deepEqual([changes, more], [[], false]);
            tree.replace('a.txt', 'two');
            tree.remove('b.txt');
            tree.write('new.txt', 'n');
            const seen = new Map();
            await follow(
                tool,
                { uris, includeContent: true },
                cursor,
                (change) => seen.set(change.uri, change),
                () => seen.size === 3,
            );
            const { change, etag, at, contents } = seen.get(tree.uri('a.txt'));
            assert.equal(change, 'updated');
            assert.ok(etag);
            assert.match(at, /^\d{4}-\d\d-\d\dT.*Z$/);
            assert.equal(contents[0].text, 'two');
            assert.equal(seen.get(tree.uri('b.txt')).change, 'deleted');
            assert.equal(seen.get(tree.uri('b.txt')).contents, undefined);
            assert.equal(seen.get(tree.uri('new.txt')).change, 'created');
            /* The first cursor still returns all changes, in pages. */
            const first = await tool('changes_since', { uris, cursor, limit: 2 });
            assert.deepEqual([first.changes.length, first.more], [2, true]);
            const rest = await tool('changes_since', { uris, cursor: first.cursor, limit: 2 });
            assert.deepEqual([rest.changes.length, rest.more], [1, false]);
            const all = [...first.changes, ...rest.changes].map((row) => row.uri);
            assert.deepEqual(all.sort(), [...seen.keys()].sort());
        });

        it('wait without a change reports its timeout and sends progress to hosts', async (t) => {
            const { tree, tool } = await connect(t, open, era, transport, undefined, { 'a.txt': 'a' });
            const uris = [tree.uri('a.txt')];
            const { cursor } = await tool('changes_since', { uris });
            const brief = await tool('wait_for_change', { uris, cursor, timeoutMs: 50 });
            assert.deepEqual(brief, { cursor, changes: [], more: false, timedOut: true });
            const seen = [];
            const { changes } = await tool(
                'wait_for_change',
                { uris, cursor: brief.cursor, timeoutMs: DEADLINE * 3 },
                {
                    onprogress: (progress) => {
                        seen.push(progress);
                        tree.replace('a.txt', `b${seen.length}`);
                    },
                },
            );
            assert.equal(changes[0].uri, uris[0]);
            assert.ok(seen[0].progress > 0 && seen[0].progress < seen[0].total);
            assert.equal(seen[0].total, (DEADLINE * 3) / 1000);
        });

        it('a thousand changes are followed with nothing lost', async (t) => {
            const args = ['--change-tools', 'on', '--allow-write'];
            const { tool } = await connect(t, open, era, transport, args);
            const note = (n) => `published:///notes/${n}`;
            const uris = [note('')];
            const { cursor } = await tool('changes_since', { uris });
            const seen = new Map();
            const take = ({ uri, change }) => {
                assert.equal(change, 'created');
                assert.ok(!seen.has(uri), `${uri} was told twice`);
                seen.set(uri, change);
            };
            const following = follow(tool, { uris, limit: 50 }, cursor, take, () => seen.size === 1000);
            const publishing = (async () => {
                for (let n = 0; n < 1000; n += 10) {
                    const some = Array.from({ length: 10 }, (_, i) =>
                        tool('publish', { uri: note(n + i), text: `${n + i}` }),
                    );
                    await Promise.all(some);
                }
            })();
            await within(Promise.all([following, publishing]), () => `1000; ${seen.size}`, DEADLINE * 6);
            assert.deepEqual(
                [...seen.keys()].sort(),
                Array.from({ length: 1000 }, (_, n) => note(n)).sort(),
            );
        });

        it('wait without a cursor reports an existing file with its modification time', async (t) => {
            const files = { 'a.txt': 'line 1\n"2"', 'raw.bin': Buffer.from([0xff, 0, 1]) };
            const { tree, tool, call: raw } = await connect(t, open, era, transport, undefined, files);
            const modified = new Date(Math.floor(statSync(tree.at('a.txt')).mtimeMs)).toISOString();
            const given = { uris: [tree.uri('a.txt'), tree.uri('raw.bin')], includeContent: true };
            const { cursor, changes, timedOut } = await tool('wait_for_change', given);
            assert.deepEqual(
                changes.map(({ uri, change, contents }) => [uri, change, contents.length]),
                given.uris.map((uri) => [uri, 'exists', 1]),
            );
            assert.equal(changes[0].at, modified);
            assert.equal(timedOut, false);
            const { content, structuredContent } = await raw('wait_for_change', given);
            assert.deepEqual(content[1], { type: 'text', text: 'line 1\n"2"' });
            assert.equal(content[2].resource.blob, '/wAB');
            assert.doesNotMatch(JSON.stringify(structuredContent), /line 1|\/wAB/, 'content is there once');
            assert.doesNotMatch(content[0].text, /line 1|\/wAB/, 'content is there once');
            /* With a cursor, only later changes count; a wait for a directory always waits. */
            const waiting = tool('wait_for_change', { ...given, cursor });
            tree.replace('a.txt', 'two');
            assert.equal((await waiting).changes[0].change, 'updated');
            const idle = await tool('wait_for_change', { uris: [tree.uri()], timeoutMs: 1 });
            assert.deepEqual([idle.changes, idle.timedOut], [[], true]);
        });

        it('paths are accepted instead of URIs', async (t) => {
            const rule = JSON.stringify({ allow: ['list', 'read', 'subscribe', 'write'] });
            const args = ['--change-tools', 'on', '--allow-write', '--access', rule];
            const files = { 'a b.txt': 'a', 'c.txt': 'c' };
            const { tree, tool, call: raw } = await connect(t, open, era, transport, args, files);
            const uri = tree.uri('a b.txt');
            for (const given of ['a b.txt', './a b.txt', tree.at('a b.txt')]) {
                const { changes } = await tool('wait_for_change', { uris: [given] });
                assert.deepEqual(changes.map((row) => row.uri), [uri], given);
            }
            const { cursor } = await tool('changes_since', { uris: ['*.txt', 'later/*.txt'] });
            tree.write('later/d.txt', 'd');
            const { changes } = await tool('wait_for_change', { uris: ['*.txt', 'later/*.txt'], cursor });
            assert.deepEqual(changes.map((row) => row.uri), [tree.uri('later/d.txt')]);
            const notified = await raw('notify', { changes: [{ uri: 'c.txt' }] });
            assert.deepEqual(notified.structuredContent.results, [{ uri: 'c.txt', told: true }]);
            for (const [path, part] of [
                ['/etc/passwd', /outside all roots/],
                ['../x', /\.\./],
                [`${tree.at('.')}/../x`, /\.\./],
                ['x'.repeat(5000), /4096/],
                ['file:///elsewhere/x', /not found/],
            ]) {
                const { isError, content } = await raw('wait_for_change', { uris: [path] });
                assert.equal(isError, true, path);
                assert.match(content[0].text, part);
                assert.match(content[0].text, /\.\.|4096|the roots are file:/, 'it names the roots');
            }
        });

        it('invalid arguments are refused with the reason', async (t) => {
            const { tree, call: raw, tool } = await connect(t, open, era, transport, undefined, {
                'a.txt': 'a',
            });
            for (const [name, given, part] of [
                ['changes_since', { uris: [] }, /\/uris/],
                ['changes_since', { uris: ['x:a', 'x:a'] }, /uniqueItems|\/uris/],
                ['changes_since', { uris: ['no:///x'] }, /no:.*nothing is served under 'no:'|no:.*not found/],
                ['changes_since', { cursor: 'yesterday' }, /'cursor' must be/],
                ['changes_since', { limit: 1001 }, /\/limit/],
                ['changes_since', { timeoutMs: 1 }, /timeoutMs/],
                ['wait_for_change', { timeoutMs: 600001 }, /\/timeoutMs/],
            ]) {
                const { isError, content } = await raw(name, given);
                assert.equal(isError, true, JSON.stringify(given));
                assert.match(content[0].text, part);
            }
            const uris = [tree.uri('a.txt'), 'no:///x'];
            const { refused, gap } = await tool('wait_for_change', { uris, cursor: '1.1' });
            assert.deepEqual(gap, [uris[0]]);
            assert.deepEqual(refused, [{ uri: uris[1], reason: 'resource not found' }]);
        });

        it('wait reports a missing file in a missing directory once both are created', async (t) => {
            const { tree, tool } = await connect(t, open, era, transport);
            const uris = [tree.uri('build/[1]/results.xml'), tree.uri('other')];
            const { cursor } = await tool('changes_since', { uris });
            const waiting = tool('wait_for_change', { uris, cursor });
            tree.write('build/[1]/results.xml.part', 'no');
            tree.write('build/1/results.xml', 'no');
            tree.write('build/[1]/results.xml', 'yes');
            const { changes, refused } = await waiting;
            assert.deepEqual(changes.map(({ uri, change }) => [uri, change]), [[uris[0], 'created']]);
            assert.equal(refused, undefined);
        });
    }
}

test('tools are enabled by default on stdio and loopback HTTP and optional elsewhere', async (t) => {
    const names = async (transport, args) => {
        const { client } = await modernClient(t, transport, { args });
        return client.getServerCapabilities().tools
            ? (await client.listTools()).tools.map((tool) => tool.name)
            : [];
    };
    assert.deepEqual(await names('stdio', []), NAMES);
    assert.deepEqual(await names('stdio', ['--change-tools', 'off']), []);
    assert.deepEqual(await names('stdio', ['--no-subscribe']), []);
    assert.deepEqual(await names('http', []), NAMES);
    assert.deepEqual(await names('http', ['--change-tools', 'off']), []);
    assert.deepEqual(await names('http', ['--no-subscribe']), []);
    assert.deepEqual(await names('unix', []), []);
    assert.deepEqual(await names('unix', ['--change-tools', 'on']), NAMES);
});

for (const [era, open] of ERAS) {
    test(`${era}: host that cancels leaves nothing behind`, async (t) => {
        const args = ['--change-tools', 'on', '--self'];
        const { server, tree, call: raw } = await connect(t, open, era, 'http', args, { 'a.txt': '' });
        const giveUp = new AbortController();
        const waiting = raw(
            'wait_for_change',
            { uris: [tree.uri()] },
            { signal: giveUp.signal },
        );
        const subscribed = async () => (await totals(server)).subscriptions;
        await eventually(async () => (await subscribed()) === 1, 'the call waits');
        giveUp.abort(new Error('enough'));
        await assert.rejects(waiting, /enough|abort/i);
        await eventually(async () => (await subscribed()) === 0, 'nobody waits any more');
    });

    test(`${era}: server that stops ends waits with a cursor`, async (t) => {
        const args = ['--change-tools', 'on', '--self'];
        const { server, tree, tool } = await connect(t, open, era, 'http', args, { 'a.txt': '' });
        const waiting = tool('wait_for_change', { uris: [tree.uri()] });
        await eventually(async () => (await totals(server)).subscriptions === 1, 'the call waits');
        const [{ timedOut, cursor }] = await Promise.all([waiting, server.stop()]);
        assert.equal(timedOut, true);
        assert.match(cursor, /\./);
    });
}

test('cursor stays valid over a restart if a store keeps the changes', async (t) => {
    const tree = new Tree(t, { 'a.txt': 'a' });
    const store = new Tree(t).at('store.db');
    const args = ['--change-tools', 'on', '--allow-write', '--store', store];
    const tool = async (server, name, given) => {
        const { isError, content, structuredContent } = await call(server, 'tools/call', {
            name,
            arguments: given,
        });
        assert.ok(!isError, content[0].text);
        return structuredContent;
    };
    const uris = ['published:///', tree.uri('a.txt')];
    const first = await serve(t, { tree, args });
    await tool(first, 'publish', { uri: 'published:///before', text: '1' });
    const { cursor } = await tool(first, 'changes_since', { uris });
    await tool(first, 'publish', { uri: 'published:///after', text: '2' });
    await first.stop();
    tree.write('a.txt', 'changed while the server was down');
    const second = await serve(t, { tree, args });
    const { changes, gap } = await tool(second, 'wait_for_change', { uris, cursor });
    assert.deepEqual(changes.map((row) => row.uri).sort(), [uris[1], 'published:///after']);
    assert.equal(gap, undefined, 'nothing of it is unknown');
});

test('wait that can match nothing returns at once with the reason', async (t) => {
    const server = await serveExample(t, 'weather', ['--change-tools', 'on']);
    const tool = async (name, given) => {
        const { isError, content, structuredContent } = await call(server, 'tools/call', { name, arguments: given });
        assert.ok(!isError, content[0].text);
        return structuredContent;
    };
    const uris = ['weather://sea/*'];
    const begun = await tool('changes_since', { uris });
    for (const cursor of [undefined, begun.cursor]) {
        const answer = await tool('wait_for_change', { uris, timeoutMs: 600000, cursor });
        assert.deepEqual([answer.changes, answer.timedOut], [[], false]);
        assert.deepEqual(answer.warnings, begun.warnings);
        assert.deepEqual(answer.warnings.map(({ uri }) => uri), uris);
        assert.match(answer.warnings[0].reason, /nothing that is served now can match it/);
    }
    const both = await tool('wait_for_change', { uris: [...uris, 'weather://city/*'] });
    assert.equal(both.changes.length > 0, true);
    assert.deepEqual(both.warnings, begun.warnings);
    const { tools } = (await call(server, 'tools/list', {}));
    for (const { name, outputSchema } of tools.filter((one) => one.name !== 'my_subscriptions')) {
        assert.deepEqual(outputSchema.properties.warnings.items.required, ['uri', 'reason'], name);
    }
});

test('waits report no changes of unreadable resources', async (t) => {
    const tree = new Tree(t, { 'open/a.txt': 'a', 'secret/b.txt': 'b' });
    const rule = { uri: tree.uri('open/'), allow: ['list', 'read', 'subscribe'] };
    const args = ['--change-tools', 'on', '--access', JSON.stringify(rule)];
    const server = await serve(t, { tree, args });
    const tool = async (name, given) =>
        (await call(server, 'tools/call', { name, arguments: given })).structuredContent;
    const uris = [tree.uri('**'), tree.uri('secret/b.txt')];
    let { cursor, changes, refused } = await tool('changes_since', { uris });
    assert.deepEqual(refused, [{ uri: uris[1], reason: 'resource not found' }]);
    assert.doesNotMatch(cursor, /\./, 'no number that counts what others did');
    /* Paths below a hidden root, existing or not, and paths outside all roots look alike. */
    const answers = [];
    for (const path of [tree.at('secret/b.txt'), tree.at('secret/none'), '/nowhere/else']) {
        const { isError, content } = await call(server, 'tools/call', { name: 'wait_for_change', arguments: { uris: [path] } });
        assert.equal(isError, true);
        answers.push(content[0].text.replace(path, 'PATH'));
    }
    assert.equal(new Set(answers).size, 1, answers.join('; '));
    assert.doesNotMatch(answers[0], /secret/);
    tree.replace('secret/b.txt', 'c');
    tree.rename('secret/b.txt', 'open/b.txt');
    const seen = new Map();
    while (seen.size === 0) {
        ({ cursor, changes } = await tool('wait_for_change', { uris, cursor, includeContent: true }));
        changes.forEach((row) => seen.set(row.uri, row));
    }
    assert.deepEqual([...seen.keys()], [tree.uri('open/b.txt')]);
    const { change, from, metadata, blocks } = seen.get(tree.uri('open/b.txt'));
    assert.deepEqual([change, from, metadata?.version], ['created', undefined, undefined]);
    assert.deepEqual(blocks, [1]);
    const { gap } = await tool('changes_since', { uris, cursor: '1.1' });
    assert.deepEqual(gap, [uris[0]], 'numbers are not taken from who is shown none');
});

test('waits count as subscriptions for limits', async (t) => {
    const args = ['--change-tools', 'on', '--subscribe-rate', '1', '--subscribe-burst', '2'];
    const server = await serve(t, { args });
    const ask = () => call(server, 'tools/call', { name: 'changes_since', arguments: {} });
    let result;
    for (let n = 0; n < 100 && !result?.isError; n += 1) {
        result = await ask();
    }
    assert.match(result.content[0].text, /subscribe-rate/);
});

test('instructions name the listable roots and how to wait', async (t) => {
    const tree = new Tree(t, { 'open/a.txt': 'a', 'secret/b.txt': 'b' });
    const instructions = async (...args) => {
        const server = await serve(t, { args, mounts: [] });
        const { instructions } = await call(server, 'server/discover');
        const { result } = (await post(server, initialize(LATEST_LEGACY))).json;
        assert.equal(result.instructions, instructions, 'both eras say the same');
        assert.ok(!instructions || Buffer.byteLength(instructions) <= 600, instructions);
        await server.stop();
        return instructions;
    };
    const open = tree.at('open'), secret = tree.at('secret');
    const both = await instructions(open, secret);
    assert.match(both, new RegExp(`Live resources: ${tree.uri('open/')}, ${tree.uri('secret/')}\\.`));
    assert.match(both, /wait_for_change.*cursor.*subscribe/);
    const rule = JSON.stringify({ uri: tree.uri('open/'), allow: ['list', 'read', 'subscribe'] });
    const some = await instructions(open, secret, '--access', rule);
    assert.match(some, /open/);
    assert.doesNotMatch(some, /secret|more/);
    const silent = await instructions(open, '--change-tools', 'off', '--no-subscribe');
    assert.doesNotMatch(silent, /wait_for_change|subscribe/);
    assert.equal(await instructions(open, '--instructions', 'Ask Ann.'), 'Ask Ann.');
    assert.equal(await instructions(open, '--instructions', ''), undefined);
    const many = Array.from({ length: 40 }, (_, n) => {
        tree.write(`many/${'x'.repeat(30)}${n}/a`, 'a');
        return tree.at(`many/${'x'.repeat(30)}${n}`);
    });
    assert.match(await instructions(...many), / and more\. To wait/);
});
