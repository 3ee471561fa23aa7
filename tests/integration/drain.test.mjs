// SPDX-License-Identifier: MIT
//
// The shutdown of a server with clients: streams end one by one, requests are answered in the meantime, and no
// acknowledged write is lost.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDoors, SocketPeer } from '../contract/transport/lines.mjs';
import { Connection } from './lib/http.mjs';
import { jsonSchema } from './lib/keeper.mjs';
import { freshId, listen, meta, modernHeaders, updates } from './lib/rpc.mjs';
import { serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { within } from './lib/wait.mjs';

const files = { 'a.txt': 'a' };
const CROWD = 60;

const isResult = (m) => m.result?.resultType === 'complete';
const ofTcp = (url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) });

test('many streams end one by one while others are served and a second signal ends all', async (t) => {
    const args = ['--drain', '10m', '--workers', '1'];
    const doors = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0'];
    const server = await serveDoors(t, doors, { files, args });
    const uri = server.uri('a.txt');
    const web = { port: Number(new URL(server.doors[0]).port) };
    const crowd = [];
    for (let i = 0; i < CROWD; i += 1) {
        crowd.push((await listen(web, { resourceSubscriptions: [uri] })).events);
    }
    const peer = await SocketPeer.connect(t, ofTcp(server.doors[1]));
    const last = await peer.listen({ resourceSubscriptions: [uri] });
    server.child.kill('SIGTERM');
    await crowd[0].message(isResult, 'the result of the first');
    // The other streams still receive changes and may send requests.
    server.tree.replace('a.txt', 'b');
    await crowd[CROWD - 1].message(updates(uri), 'an update while it stops');
    await peer.message(updates(uri), 'an update while it stops');
    const read = await peer.ask('modern', 'resources/read', { uri });
    assert.equal(read.result.contents[0].text, 'b');
    const refused = await peer.ask('modern', 'subscriptions/listen', {
        notifications: { resourcesListChanged: true },
    });
    assert.match(refused.error.message, /stopping/);
    await assert.rejects(SocketPeer.connect(t, ofTcp(server.doors[1])), /ECONNREFUSED/);
    assert.ok(server.running);
    server.child.kill('SIGTERM');
    for (const events of crowd.slice(1)) {
        await events.message(isResult, 'the result of the rest');
    }
    await peer.listenResult(last);
    await peer.ended;
    server.check(await within(server.exited, 'the server to end'));
});

test('few streams do not delay shutdown', async (t) => {
    const server = await serve(t, { files, args: ['--drain', '10m'] });
    for (let i = 0; i < 8; i += 1) {
        await listen(server, { resourceSubscriptions: [server.uri('a.txt')] });
    }
    await server.stop();
});

const TYPE = { name: 'Note', version: '1.0', jsonSchema };

/** Writes entities until the connection ends and records acknowledged ones. */
async function write(connect, who, acknowledged) {
    const ask = await connect();
    for (let n = 0; ; n += 1) {
        const id = `${who}-${n}`;
        const uri = `entity:///${TYPE.name}@${TYPE.version}/${id}`;
        const args = { uri, value: { name: id } };
        let answer;
        try {
            answer = await ask('tools/call', { name: 'upsert-entity', arguments: args });
        } catch {
            return n;
        }
        if (answer?.result && !answer.result.isError) {
            acknowledged.push(id);
        } else if (answer?.error) {
            return n;
        }
    }
}

test('acknowledged writes survive the restart', async (t) => {
    const tree = new Tree(t, files);
    const args = ['--entities', new Tree(t).at('entities.db'), '--drain', '2s'];
    const doors = ['--http', '127.0.0.1:0', '--tcp', '127.0.0.1:0'];
    const first = await serveDoors(t, doors, { tree, args });
    const port = Number(new URL(first.doors[0]).port);
    const tool = async (peer, name, given) =>
        peer.ask('modern', 'tools/call', { name, arguments: given });

    const overTcp = async () => {
        const peer = await SocketPeer.connect(t, ofTcp(first.doors[1]));
        return (method, params) => peer.ask('modern', method, params);
    };
    const overHttp = async () => {
        const connection = await Connection.open({ port });
        return async (method, params) => {
            const body = JSON.stringify({
                jsonrpc: '2.0',
                id: freshId(),
                method,
                params: { _meta: meta(), ...params },
            });
            const headers = {
                'Content-Type': 'application/json',
                Accept: 'application/json, text/event-stream',
                ...modernHeaders(method, params),
            };
            return (await connection.request({ headers, body })).json;
        };
    };

    const setup = await SocketPeer.connect(t, ofTcp(first.doors[1]));
    const added = await tool(setup, 'add-entity-type', TYPE);
    assert.ok(added.result && !added.result.isError, JSON.stringify(added));
    const acknowledged = [];
    const writers = Array.from({ length: 8 }, (_, i) =>
        write(i % 2 ? overTcp : overHttp, `w${i}`, acknowledged),
    );
    const enough = async () => {
        while (acknowledged.length < 200) {
            await new Promise((resolve) => setImmediate(resolve));
        }
    };
    await within(enough(), 'some writes');
    await first.stop('SIGTERM', 60_000);
    await Promise.all(writers);
    assert.ok(acknowledged.length >= 200);

    const second = await serveDoors(t, doors, { tree, args });
    const peer = await SocketPeer.connect(t, ofTcp(second.doors[1]));
    for (const id of acknowledged) {
        const uri = `entity:///${TYPE.name}@${TYPE.version}/${id}`;
        const { result, error } = await peer.ask('modern', 'resources/read', { uri });
        assert.ok(result, `${id} was acknowledged and is lost: ${JSON.stringify(error)}`);
    }
    t.diagnostic(`${acknowledged.length} writes acknowledged`);
});
