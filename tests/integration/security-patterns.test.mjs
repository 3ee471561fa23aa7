// SPDX-License-Identifier: MIT
//
// Slow patterns (ReDoS) and many patterns. The server evaluates them at once or sends their client a truncated
// update, and still serves all other clients. Unit tests of base/, core/ and json/ prove that the number of steps is
// bounded.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { request } from './lib/http.mjs';
import { refusedWith } from './lib/limits.mjs';
import { call, listen, meta, modern, Session, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { as, TokenFile } from './lib/tokens.mjs';

const args = ['--publish', 'pub:///', '--allow-write', '--window', '0'];
const files = { 'a.txt': 'a' };
const SLOW = '^pub:///(a+)+$'; // exponential in a backtracking engine
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
    test(`patterns: ${name} with heavy backtracking is matched at once, and other clients continue`, async (t) => {
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

test('patterns: thousand regexes of one listen do not delay other clients', async (t) => {
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

test('patterns: endless stars, classes and alternatives are rejected or matched at once', async (t) => {
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

test('patterns: schema validation of client data cannot occupy the server', async (t) => {
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

// One evaluation uses a large part of a client's budget per second.
test('patterns: client with constant validation load is rejected, and others are served', async (t) => {
    const tokens = new TokenFile(t);
    const given = ['ada', 'bob'].map((name) => tokens.give(name));
    const server = await serve(t, {
        files,
        args: [...tokens.args, '--entities', ':memory:', '--allow-write', '--self', '--workers', '2'],
    });
    const [ada, bob] = given.map((token) => as(server, token));
    const jsonSchema = { type: 'object', properties: { s: { pattern: '(a{1,99}){1,20}b' } } };
    const type = { name: 'thing', version: '1', jsonSchema };
    assert.ok(!(await call(bob, 'tools/call', { name: 'add-entity-type', arguments: type })).isError);
    const costly = { s: `${'a'.repeat(3000)}b` };
    const entity = (entityId) => ({ entityId, entityTypeName: 'thing', entityTypeVersion: '1' });
    const upsert = (entityId, value) => ({ name: 'upsert-entity', arguments: { ...entity(entityId), value } });
    const put = (who, id, value) =>
        request(who, {
            method: 'PUT',
            path: `/entity/thing@1/${id}`,
            body: JSON.stringify(value),
            headers: { 'Content-Type': 'application/json', ...who.headers },
        });

    const session = await Session.open(ada);
    const sent = Array.from({ length: 30 }, (_, i) => [
        modern(ada, 'tools/call', upsert(`m${i}`, costly)),
        session.send('tools/call', upsert(`l${i}`, costly)),
        put(ada, `p${i}`, costly),
    ]);
    for (let i = 0; i < 20; i++) {
        const result = await call(bob, 'tools/call', upsert(`b${i}`, { s: 'ab' }));
        assert.ok(!result.isError, JSON.stringify(result));
    }
    const answers = await Promise.all(sent.map((three) => Promise.all(three)));
    const [modernly, legacily, plainly] = [0, 1, 2].map((k) =>
        answers.map((three, i) => ({ i, answer: three[k] })).filter(({ answer }) => answer.status === 429),
    );
    assert.ok(modernly.length > 0 && legacily.length > 0 && plainly.length > 0, 'none was refused');
    for (const { answer } of [...modernly, ...legacily]) {
        refusedWith(answer, 429, 'pattern-steps', 20_000_000);
    }
    for (const { i, answer } of plainly) {
        const { limit, value, retryAfterMs, reason } = answer.json;
        assert.ok(retryAfterMs > 0);
        assert.equal(answer.headers.get('retry-after'), String(Math.ceil(retryAfterMs / 1000)));
        assert.deepEqual({ limit, value, reason }, { limit: 'pattern-steps', value: 20_000_000, reason: 'limit' });
        const { status } = await request(bob, { method: 'GET', path: `/entity/thing@1/p${i}`, headers: bob.headers });
        assert.equal(status, 404, 'it was refused, and stored');
    }
    const { contents } = await call(bob, 'resources/read', { uri: 'tidings://self/limits' });
    const row = JSON.parse(contents[0].text).find(({ limit }) => limit === 'pattern-steps');
    assert.equal(row.reached, modernly.length + legacily.length + plainly.length);
});
