// SPDX-License-Identifier: MIT
//
// "SEP-0000: Resource Subscription Correlation", replayed in both eras. It needs no profile, because its proposal is
// the default. Besides the printed members, a notification has only `_meta`, where the protocol allows extensions.

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { defer } from './lib/cleanup.mjs';
import { ask, printed, serveDocuments } from './lib/document.mjs';
import { key, listen, modern, Session, updates } from './lib/rpc.mjs';
import { Tree } from './lib/tree.mjs';

const FILES = {
    'home/user/projects/myapp/src/main.rs': 'fn main() {}',
    'home/projects/foo.txt': 'foo',
    'logs/app.error.log': 'no',
    'logs/app.log': 'yes',
};

/** The resources that the document names: files in the tree, the others in examples/documents. */
async function start(t, args = []) {
    const tree = new Tree(t, FILES);
    const mounts = ['home', 'logs'].flatMap((name) => {
        mkdirSync(path.join(tree.path, name), { recursive: true });
        return ['--mount', `file:///${name}/=${path.join(tree.path, name)}`];
    });
    const server = await serveDocuments(t, 'none', ['--window', '0', ...mounts, ...args]);
    return { server, tree };
}

/** `subscribe(text)` with the printed request (its URI, in the modern era); `events`. */
const ERAS = {
    async legacy(t, server) {
        const session = await Session.open(server);
        const events = await session.stream();
        defer(t, () => events.close());
        const subscribe = async (text) => {
            const answer = await ask(server, text, session.headers);
            assert.ok(answer.result, JSON.stringify(answer));
            return events;
        };
        return { subscribe };
    },
    async modern(t, server) {
        const subscribe = async (text) => {
            const { uri } = printed(text).params;
            const { events, ack } = await listen(server, { resourceSubscriptions: [uri] });
            assert.deepEqual(ack.notifications, { resourceSubscriptions: [uri] });
            defer(t, () => events.close());
            return events;
        };
        return { subscribe };
    },
};

const isUpdate = (m) => m.method === 'notifications/resources/updated';
const SUBSCRIBE = (uri) => JSON.stringify({ jsonrpc: '2.0', id: 9, method: 'resources/subscribe', params: { uri } });

function check(notification, text) {
    const { _meta: extra, ...params } = notification.params;
    assert.deepEqual({ ...notification, params }, printed(text));
    assert.equal(extra[key.subscribed], params.subscribedUri, 'a copy for clients that drop what they do not know');
}

for (const [era, join] of Object.entries(ERAS)) {
    test(`${era}: example 1, subscribe to a directory`, async (t) => {
        const { server, tree } = await start(t);
        const { subscribe } = await join(t, server);
        const events = await subscribe(`{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "resources/subscribe",
  "params": {
    "uri": "file:///home/user/projects/"
  }
}`);
        tree.replace('home/user/projects/myapp/src/main.rs', 'fn main() { }');
        check(
            await events.message(updates('file:///home/user/projects/myapp/src/main.rs')),
            `{
  "jsonrpc": "2.0",
  "method": "notifications/resources/updated",
  "params": {
    "uri": "file:///home/user/projects/myapp/src/main.rs",
    "subscribedUri": "file:///home/user/projects/"
  }
}`,
        );
    });

    test(`${era}: example 2, subscribe to a query pattern`, async (t) => {
        const { server, tree } = await start(t);
        const { subscribe } = await join(t, server);
        const events = await subscribe(`{
  "jsonrpc": "2.0",
  "id": 2,
  "method": "resources/subscribe",
  "params": {
    "uri": "file:///logs?pattern=*.error.log"
  }
}`);
        tree.replace('logs/app.log', 'maybe');
        tree.replace('logs/app.error.log', 'maybe');
        check(
            await events.message(isUpdate),
            `{
  "jsonrpc": "2.0",
  "method": "notifications/resources/updated",
  "params": {
    "uri": "file:///logs/app.error.log",
    "subscribedUri": "file:///logs?pattern=*.error.log"
  }
}`,
        );
    });

    test(`${era}: example 3, exact URI match`, async (t) => {
        const { server } = await start(t);
        const { subscribe } = await join(t, server);
        const events = await subscribe(SUBSCRIBE('file:///config.json'));
        await server.changed('file:///config.json');
        check(
            await events.message(isUpdate),
            `{
  "jsonrpc": "2.0",
  "method": "notifications/resources/updated",
  "params": {
    "uri": "file:///config.json",
    "subscribedUri": "file:///config.json"
  }
}`,
        );
    });

    test(`${era}: use cases of the motivation are covered`, async (t) => {
        const { server, tree } = await start(t);
        const { subscribe } = await join(t, server);
        const cases = [
            // "receive updates when any file within it changes"
            ['file:///home/projects/', () => tree.replace('home/projects/foo.txt', '1'), 'file:///home/projects/foo.txt'],
            // "receive updates for any matching text file"
            ['file:///query?pattern=*.txt', () => tree.replace('home/projects/foo.txt', '2'), 'file:///home/projects/foo.txt'],
            // "receive updates when any row changes"
            ['postgres://db/users', () => server.changed('postgres://db/users/7'), 'postgres://db/users/7'],
            // "receive updates for error events"
            ['api:///events?type=error', () => server.changed('api:///events/8', { type: 'error' }), 'api:///events/8'],
        ];
        for (const [uri, change, changed] of cases) {
            const events = await subscribe(SUBSCRIBE(uri));
            if (uri.startsWith('api:')) {
                await server.changed('api:///events/7', { type: 'notice' }); // outside its subscription
            }
            await change();
            const mine = (m) => m.params?.subscribedUri === uri;
            const { params } = await events.message(mine, `an update for ${uri}`);
            assert.equal(params.uri, changed);
        }
    });

    test(`${era}: each matching subscription gets one notification`, async (t) => {
        const { server, tree } = await start(t);
        const { subscribe } = await join(t, server);
        const foo = 'file:///home/projects/foo.txt';
        const subscribed = ['file:///home/', 'file:///home/projects/'];
        const streams = [];
        for (const uri of subscribed) {
            streams.push(await subscribe(SUBSCRIBE(uri)));
        }
        tree.replace('home/projects/foo.txt', '1');
        for (const [i, uri] of subscribed.entries()) {
            await streams[i].message((m) => m.params?.uri === foo && m.params.subscribedUri === uri, uri);
        }
        const told = new Set(streams)
            .values()
            .flatMap((events) => events.messages.filter(updates(foo)))
            .map((m) => m.params.subscribedUri)
            .toArray();
        assert.deepEqual(told.sort(), subscribed, 'and no more often');
    });
}

test('subscription coverage of each scheme is documented in machine-readable form', async (t) => {
    const { server } = await start(t);
    const { json } = await modern(server, 'resources/read', { uri: 'tidings://self/semantics' });
    const rows = JSON.parse(json.result.contents[0].text);
    assert.match(JSON.stringify(rows), /file:/);
});

test('capabilities keep their structure: subscribe and listChanged', async (t) => {
    const { server } = await start(t);
    const session = await Session.open(server);
    assert.deepEqual(session.result.capabilities.resources, { subscribe: true, listChanged: true });
});

test('server may refuse overly broad subscriptions', async (t) => {
    // Their targets are valid; only their breadth is refused.
    for (const [breadth, refused] of [['0', true], ['10', false]]) {
        const { server } = await start(t, ['--publish', 'db:///a/', '--publish', 'db:///b/', '--max-breadth', breadth]);
        const session = await Session.open(server);
        for (const uri of ['file:///', 'db:///?query=*']) {
            const { json } = await session.send('resources/subscribe', { uri });
            if (refused) {
                assert.equal(json.error?.code, -32602, JSON.stringify(json));
                assert.match(json.error.message, /covers whole mounts; at most 0 such subscriptions.*--max-breadth/);
                assert.equal(json.error.data.uri, uri);
            } else {
                assert.ok(json.result, JSON.stringify(json));
            }
        }
        // Narrower subscriptions are accepted in both cases.
        assert.ok((await session.send('resources/subscribe', { uri: 'file:///home/user/' })).json.result);
    }
});
