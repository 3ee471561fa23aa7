// SPDX-License-Identifier: MIT
//
// Patterns that are made to be slow (ReDoS), and many of them: they are judged at once, or their
// client has to look again, and everybody else is served meanwhile. That the number of steps is
// bounded is shown by the unit tests of base/, core/ and json/.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { call, listen, meta, modern, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';

const args = ['--publish', 'pub:///', '--allow-write', '--window', '0'];
const files = { 'a.txt': 'a' };
const SLOW = '^pub:///(a+)+$'; // exponential for whoever backtracks
const LONG = `pub:///${'a'.repeat(60)}!`;

let count = 0;
async function publish(server, uri) {
    count += 1;
    const { isError } = await call(server, 'tools/call', {
        name: 'publish',
        arguments: { uri, text: String(count) },
    });
    assert.ok(!isError, `${uri} was not published`);
}

/** A listen with options. */
function listening(server, uri, wishes) {
    const params = { _meta: meta({ 'dev.tidings/options': wishes }) };
    return listen(server, { resourceSubscriptions: [uri] }, { params });
}

for (const [name, wishes] of Object.entries({
    'a regular expression': { match: 'regex' },
    'a filter with a pattern': { filter: { properties: { uri: { pattern: SLOW } } } },
})) {
    test(`patterns: ${name} made for whoever backtracks is judged at once, others go on`, async (t) => {
        const server = await serve(t, { files, args });
        const slow = await listening(server, wishes.match ? SLOW : 'pub:///', wishes);
        const fine = await listening(server, 'pub:///', {});
        for (let i = 0; i < 3; i++) {
            await publish(server, LONG);
            await fine.events.message(updates(LONG), 'what the others are told');
        }
        await publish(server, 'pub:///aaa');
        await fine.events.message(updates('pub:///aaa'), 'an update after that');
        await slow.events.message(updates('pub:///aaa'), 'what matches');
        assert.ok(!slow.events.messages.some(updates(LONG)), 'what does not match is not told');
    });
}

test('patterns: a thousand regexes of one listen do not hold up the others', async (t) => {
    const server = await serve(t, { files, args: [...args, '--max-uris-per-listen', '1000'] });
    const regexes = Array.from({ length: 1000 }, (_, i) => `pub:///.*(a{1,9}){1,9}[bc]${i}\\b`);
    const params = { _meta: meta({ 'dev.tidings/options': { match: 'regex' } }) };
    const many = await listen(server, { resourceSubscriptions: regexes }, { params });
    const fine = await listening(server, 'pub:///', {});
    const uri = `pub:///${'a'.repeat(4000)}`;
    for (let i = 0; i < 3; i++) {
        await publish(server, uri);
        await fine.events.message(updates(uri), 'what the others are told');
    }
    const isTruncated = (m) => m.params?._meta?.['dev.tidings/truncated'] === true;
    await many.events.message(isTruncated, 'that it has to look again');
});

test('patterns: lists in templates and many commas (CVE-2026-0621) are matched at once', async (t) => {
    const server = await serve(t, { files, args });
    const uri = `pub:///users/${'user1,user2,user3,'.repeat(100)}user!`;
    const session = await Session.open(server);
    const templates = ['pub:///users{/id*}', 'pub:///{+id*}', 'pub:///users{/a*}{/b*}{/c*}{?d*}'];
    for (const template of templates) {
        const { json } = await session.send('resources/subscribe', { uri: template });
        assert.ok(json.result || json.error, template);
    }
    const { events } = await listen(server, { resourceSubscriptions: [uri, 'pub:///'] });
    await publish(server, uri);
    await events.message(updates(uri), 'the update');
    const { contents } = await call(server, 'resources/read', { uri });
    assert.equal(contents[0].text, String(count));
});

test('patterns: stars, classes and alternatives without end are refused or matched at once', async (t) => {
    const server = await serve(t, { files, args });
    const session = await Session.open(server);
    const hostile = [
        [`pub:///${'**a'.repeat(300)}`, 'glob'],
        [`pub:///${'*a*'.repeat(300)}b`, 'glob'],
        [`pub:///${'[!a-z]'.repeat(300)}`, 'glob'],
        [`pub:///${'{a}'.repeat(300)}`, 'template'],
        [`(${'a?'.repeat(60)}${'a'.repeat(60)})`, 'regex'],
        [`(?:${'(a|b|ab)*'.repeat(40)})*c`, 'regex'],
        ['((((((((a{1,99}){1,99}){1,99}){1,99}){1,99}){1,99}){1,99}){1,99})', 'regex'],
        [`${'('.repeat(500)}a${')'.repeat(500)}`, 'regex'],
        ['(?R)(?1)', 'regex'],
        ['(*NO_JIT)(*LIMIT_MATCH=4294967295)(a+)+$', 'regex'],
    ];
    for (const [uri, match] of hostile) {
        const _meta = { 'dev.tidings/options': { match } };
        const { json } = await session.send('resources/subscribe', { uri, _meta });
        assert.ok(json.result || json.error, uri);
    }
    await publish(server, LONG);
    const { contents } = await call(server, 'resources/read', { uri: LONG });
    assert.equal(contents[0].text, String(count));
});

test('patterns: what is sent to be checked against a schema cannot keep it busy', async (t) => {
    const server = await serve(t, { files, args: ['--entities', ':memory:'] });
    const schema = { type: 'object', properties: { s: { type: 'string', pattern: '^(a+)+$' } } };
    const tool = (name, given) => modern(server, 'tools/call', { name, arguments: given });
    const added = await tool('add-entity-type', { name: 'thing', version: 1, jsonSchema: schema });
    assert.ok(added.json.result && !added.json.result.isError, added.text);
    const value = { s: `${'a'.repeat(60)}!` };
    const written = await tool('upsert-entity', {
        entityTypeName: 'thing',
        entityTypeVersion: 1,
        entityId: 'x',
        value,
    });
    assert.ok(written.json.error || written.json.result.isError, written.text);
    assert.match(written.text, /does not match the pattern/);
});
