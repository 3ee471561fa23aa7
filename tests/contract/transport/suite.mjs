// SPDX-License-Identifier: MIT
//
// The contract of all transports, whatever their framing: one suite, run over an adapter of each. A transport is
// complete when it passes.
//
// To add one, write an adapter (adapters.mjs has four, websocket.mjs and sse.mjs one each) and a file
// `tests/integration/transport-NAME.test.mjs`; the function it passes is where a failure is reported:
//
//     import { test } from 'node:test';
//     import { contract } from '../contract/transport/suite.mjs';
//     contract(myAdapter, (name, body) => test(name, body));
//
// An adapter is an object:
//
//     name                     for the names of the tests
//     cannot                   { capability: reason }: what its framing cannot do, from CAPABILITIES;
//                              anything else is promised. Each shows up as a test that says so.
//     serve(t, options)        start the program with `options.files`, `options.args`; gives a Program
//                              with `tree` and `uri(name)`
//     connect(t, server)       one more client: a peer
//
// and a peer has what the class MessagePeer (peer.mjs) has; transports whose messages go both ways on
// one stream extend it with `write(text)` and fill `inbox`. Besides:
//
//     inbox, updates           everything that arrived unasked, on whatever stream
//     ended                    a promise: nothing more will come
//     finish()                 end of input; answers still come (or `askAndFinish(era, method, params)`)
//     vanish()                 be gone without a word
//     flood(era, requests)     ask for all of it and read none

import assert from 'node:assert/strict';
import { test as ordinary } from 'node:test';

import { key, LEGACY, MODERN } from '../../integration/lib/rpc.mjs';
import { eventually } from '../../integration/lib/wait.mjs';

export const CAPABILITIES = [
    'have several peers',
    'cut a slow reader',
    'end its input first',
    'hear on after a message that is too long',
    'end a legacy session with its connection',
];

const files = { 'a.txt': 'a', 'b.txt': 'b', 'c.txt': 'c' };
const ERAS = ['legacy', 'modern'];

const isUpdateOf = (uri) => (m) =>
    m.method === 'notifications/resources/updated' && m.params.uri === uri;

export function contract(adapter, test = ordinary) {
    const { name, cannot } = adapter;
    const unknown = Object.keys(cannot).filter((each) => !CAPABILITIES.includes(each));
    assert.deepEqual(unknown, [], `${name}: no such capability`);

    /** A server and one client after the legacy handshake. */
    async function open(t, era, options = {}) {
        const server = await adapter.serve(t, { files, ...options });
        return { server, peer: await join(t, server, era) };
    }

    async function join(t, server, era) {
        const peer = await adapter.connect(t, server);
        if (era === 'legacy') {
            await peer.handshake();
        }
        return peer;
    }

    /** Subscribes in either era; `listening` or the URI cancels it. */
    async function subscribe(peer, era, uri) {
        if (era === 'modern') {
            return peer.listen({ resourceSubscriptions: [uri] });
        }
        const answer = await peer.ask('legacy', 'resources/subscribe', { uri });
        assert.ok(answer.result, JSON.stringify(answer));
        return { uri };
    }

    async function unsubscribe(peer, era, subscription) {
        if (era === 'modern') {
            await peer.cancel(subscription);
        } else {
            await peer.ask('legacy', 'resources/unsubscribe', { uri: subscription.uri });
        }
    }

    async function stats(peer) {
        const uri = 'tidings://self/stats';
        const answer = await peer.ask('modern', 'resources/read', { uri });
        const rows = JSON.parse(answer.result.contents[0].text);
        return (what) => rows.reduce((sum, row) => sum + row[what], 0);
    }

    const check = (what, body) => test(`${name}: ${what}`, body);
    const checkIf = (capability, what, body) =>
        capability in cannot
            ? test(`${name}: ${what}: cannot ${capability}, since ${cannot[capability]}`, () => {})
            : check(what, body);

    /* ---- requests ---------------------------------------------------------------------------- */

    for (const version of LEGACY) {
        check(`handshake succeeds with ${version}`, async (t) => {
            const { peer } = await open(t, 'modern');
            const result = await peer.handshake(version);
            assert.equal(result.protocolVersion, version);
            assert.ok(result.capabilities.resources);
        });
    }

    check('modern era needs no handshake', async (t) => {
        const { peer } = await open(t, 'modern');
        const { result } = await peer.ask('modern', 'server/discover');
        assert.ok(result.supportedVersions.includes(MODERN));
    });

    for (const era of ERAS) {
        check(`${era}: list and read`, async (t) => {
            const { server, peer } = await open(t, era);
            const { result } = await peer.ask(era, 'resources/list');
            const uris = result.resources.map((each) => each.uri);
            assert.deepEqual(
                uris,
                Object.keys(files).map((each) => server.uri(each)),
            );
            const read = await peer.ask(era, 'resources/read', { uri: server.uri('b.txt') });
            assert.equal(read.result.contents[0].text, 'b');
        });

        check(`${era}: large read arrives complete`, async (t) => {
            const large = 'tidings \u00e9 '.repeat(400_000);
            const { server, peer } = await open(t, era, { files: { large } });
            const uri = server.uri('large');
            const { result } = await peer.ask(era, 'resources/read', { uri });
            assert.equal(result.contents[0].text, large);
        });

        check(`${era}: unknown method gets its error`, async (t) => {
            const { peer } = await open(t, era);
            const { error } = await peer.ask(era, 'no/such');
            assert.equal(error.code, -32601);
        });

        check(`${era}: concurrent requests get one answer each`, async (t) => {
            const { server, peer } = await open(t, era);
            const names = Object.keys(files);
            const uris = Array.from({ length: 300 }, (_, i) => server.uri(names[i % 3]));
            const { ids, answers } = await peer.pipeline(
                era,
                uris.map((uri) => ['resources/read', { uri }]),
            );
            const byId = new Map(answers.map((answer) => [answer.id, answer]));
            assert.equal(byId.size, uris.length, 'as many answers as requests');
            ids.forEach((id, i) => {
                assert.equal(byId.get(id).result.contents[0].uri, uris[i]);
            });
        });
    }

    check('malformed JSON is refused and the next message is read', async (t) => {
        const { peer } = await open(t, 'modern');
        assert.equal((await peer.refused('{"jsonrpc": "2.0", nonsense')).code, -32700);
        assert.ok((await peer.ask('modern', 'resources/list')).result);
    });

    const tooLong = 'oversized message is refused and the next message is read';
    checkIf('hear on after a message that is too long', tooLong, async (t) => {
        const args = ['--max-line', '4k', '--max-body', '4k'];
        const { peer } = await open(t, 'modern', { args });
        const { text } = await peer.refused(JSON.stringify({ jsonrpc: '2.0', x: 'x'.repeat(9000) }));
        assert.match(text, /larger|at most 4096 bytes/);
        assert.ok((await peer.ask('modern', 'resources/list')).result);
    });

    checkIf('end its input first', 'client that ends its input gets its answer', async (t) => {
        const { server, peer } = await open(t, 'modern');
        const params = { uri: server.uri('a.txt') };
        let answer;
        if (peer.askAndFinish) {
            answer = await peer.askAndFinish('modern', 'resources/read', params);
        } else {
            const asked = peer.ask('modern', 'resources/read', params);
            peer.finish();
            answer = await asked;
            await peer.ended;
        }
        assert.equal(answer.result.contents[0].text, 'a');
    });

    /* ---- subscriptions ----------------------------------------------------------------------- */

    for (const era of ERAS) {
        check(`${era}: change is reported to its subscribers with the reason`, async (t) => {
            const { server, peer } = await open(t, era);
            const uri = server.uri('a.txt');
            const { id } = await subscribe(peer, era, uri);
            server.tree.replace('a.txt', 'new');
            const { params } = await peer.message(isUpdateOf(uri), 'an update');
            assert.equal(params.subscribedUri, uri);
            assert.equal(params._meta[key.subscribed], uri);
            assert.equal(params._meta[key.subscription], id);
            const read = await peer.ask(era, 'resources/read', { uri });
            assert.equal(read.result.contents[0].text, 'new');
        });

        check(`${era}: subscriptions are distinct and one of them can end`, async (t) => {
            const { server, peer } = await open(t, era);
            const [a, b] = [server.uri('a.txt'), server.uri('b.txt')];
            const first = await subscribe(peer, era, a);
            const second = await subscribe(peer, era, b);
            server.tree.replace('a.txt', '1');
            server.tree.replace('b.txt', '1');
            const ofA = await peer.message(isUpdateOf(a), 'an update of a');
            const ofB = await peer.message(isUpdateOf(b), 'an update of b');
            assert.equal(ofA.params._meta[key.subscription], first.id);
            assert.equal(ofB.params._meta[key.subscription], second.id);
            await unsubscribe(peer, era, first);
            const count = () => peer.updates.filter(isUpdateOf(a)).length;
            const before = count();
            await peer.ask(era, 'resources/list'); // the server has received it by then
            server.tree.replace('a.txt', '2');
            server.tree.replace('b.txt', '2');
            await peer.message(isUpdateOf(b), 'another update of b');
            assert.equal(count(), before, 'nothing of what was given up');
        });
    }

    check('server ends streams with a result when it stops', async (t) => {
        const { server, peer } = await open(t, 'modern');
        const first = await peer.listen({ resourceSubscriptions: [server.uri('a.txt')] });
        const second = await peer.listen({ resourcesListChanged: true });
        const stopped = server.stop();
        await peer.listenResult(first);
        await peer.listenResult(second);
        await peer.ended;
        await stopped;
    });

    check('legacy stream ends when the server stops', async (t) => {
        const { server, peer } = await open(t, 'legacy');
        await subscribe(peer, 'legacy', server.uri('a.txt'));
        const stopped = server.stop();
        await peer.ended;
        await stopped;
    });

    /* ---- peers ------------------------------------------------------------------------------- */

    for (const era of ERAS) {
        checkIf('have several peers', `${era}: each peer receives only its own changes`, async (t) => {
            const count = 20;
            const names = Array.from({ length: count }, (_, i) => `n${i}.txt`);
            const own = Object.fromEntries(names.map((each) => [each, 'x']));
            const server = await adapter.serve(t, { files: own });
            const peers = [];
            for (const each of names) {
                const peer = await join(t, server, era);
                await subscribe(peer, era, server.uri(each));
                peers.push(peer);
            }
            names.forEach((each) => server.tree.replace(each, 'y'));
            for (const [i, peer] of peers.entries()) {
                await peer.message(isUpdateOf(server.uri(names[i])), `the update of peer ${i}`);
            }
            for (const [i, peer] of peers.entries()) {
                const uris = new Set(peer.updates.map((m) => m.params.uri));
                assert.deepEqual([...uris], [server.uri(names[i])]);
            }
        });

        const capability =
            era === 'legacy' && !('have several peers' in cannot)
                ? 'end a legacy session with its connection'
                : 'have several peers';
        checkIf(capability, `${era}: subscriptions end with their peer`, async (t) => {
            const { server, peer } = await open(t, era, { args: ['--self'] });
            await subscribe(peer, era, server.uri('a.txt'));
            await subscribe(peer, era, server.uri('b.txt'));
            const other = await join(t, server, 'modern');
            assert.equal((await stats(other))('subscriptions'), 2);
            peer.vanish();
            await eventually(
                async () => (await stats(other))('subscriptions') === 0,
                'no subscription is left',
            );
        });
    }

    checkIf('cut a slow reader', 'slow reader is disconnected without effect on other clients', async (t) => {
        const large = 'x'.repeat(1 << 20);
        const { server, peer } = await open(t, 'modern', {
            files: { ...files, large },
            args: ['--self', '--stall-timeout', '1s'],
        });
        const uri = server.uri('a.txt');
        await peer.listen({ resourceSubscriptions: [uri] });
        const slow = await adapter.connect(t, server);
        const reads = Array.from({ length: 40 }, () => [
            'resources/read',
            { uri: server.uri('large') },
        ]);
        await slow.flood('modern', reads);
        let n = 0;
        await eventually(async () => {
            server.tree.replace('a.txt', `${(n += 1)}`);
            await peer.message(isUpdateOf(uri), 'an update meanwhile');
            return (await stats(peer))('cut') === 1;
        }, 'the slow reader was cut');
    });
}
