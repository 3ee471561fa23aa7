// SPDX-License-Identifier: MIT
//
// "Resource Subscriptions (v1.8.0)" of mcp.gateway, under --profile gateway: a session with several
// subscriptions that match the same change.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { serveDocuments } from './lib/document.mjs';
import { Session, updates } from './lib/rpc.mjs';

// "100 resources, 10 sessions, 1 update: 2 instead of 10 notifications" counts sessions, not subscriptions.
test('session gets one update per change for all matching subscriptions', async (t) => {
    const server = await serveDocuments(t, 'gateway', ['--window', '0']);
    const log = 'file://logs/app.log';
    const overlapping = [log, 'file://logs/*.log', 'file://logs/**', 'file://logs/'];
    const session = await Session.open(server);
    for (const uri of [...overlapping, 'system://metrics']) {
        await session.subscribe(uri);
    }
    const events = await session.stream();
    await server.changed(log);
    await server.changed('file://logs/old/app.log');
    await server.changed('system://metrics');
    await events.message(updates('system://metrics'));
    assert.deepEqual(events.messages.map((m) => m.params), [
        { uri: log }, { uri: 'file://logs/old/app.log' }, { uri: 'system://metrics' },
    ]);
    // The next stream reports changes without a stream once.
    events.close();
    await server.changed(log);
    await server.changed('system://metrics');
    const next = await session.stream();
    await next.message(updates('system://metrics'));
    const later = next.messages.filter((m) => m.params.uri === log);
    assert.equal(later.length, 1, JSON.stringify(next.messages));
});

test('change in a window is delivered although its subscription ends', async (t) => {
    const server = await serveDocuments(t, 'gateway', ['--window', '400ms']);
    const log = 'file://logs/app.log';
    const patterns = [log, 'file://logs/*.log'];
    for (const given of patterns) {
        const session = await Session.open(server);
        await session.subscribe(patterns[0]);
        await session.subscribe(patterns[1]);
        const events = await session.stream();
        await server.changed(log);
        await events.message(updates(log));
        await server.changed(log); // held by one of the two
        await session.call('resources/unsubscribe', { uri: given });
        await events.message((m) => events.messages.indexOf(m) > 0 && patterns.includes(m.params.uri), 'an update');
        assert.equal(events.messages.length, 2);
    }
});
