// SPDX-License-Identifier: MIT
//
// Official clients authenticate without help: after a refusal they read the metadata, register with the authorization
// server, get a token, connect and subscribe; after the token expires they continue.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError as LegacyUnauthorized } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport as LegacyHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    Client as ModernClient,
    StreamableHTTPClientTransport as ModernHttp,
    UnauthorizedError as ModernUnauthorized,
} from '@modelcontextprotocol/client';

import { BRIEF, EXPIRY, Owner, start } from './lib/authorization-server.mjs';
import { defer } from './lib/cleanup.mjs';
import { updates } from './lib/rpc.mjs';
import { eventually, Inbox, within } from './lib/wait.mjs';

const info = { name: 'integration-test', version: '1' };

const eras = {
    legacy: {
        client: () => new LegacyClient(info),
        wire: (url, authProvider) => new LegacyHttp(url, { authProvider }),
        Unauthorized: LegacyUnauthorized,
        finish: (wire, owner) => wire.finishAuth(owner.code),
    },
    modern: {
        client: () => new ModernClient(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
        wire: (url, authProvider) => new ModernHttp(url, { authProvider }),
        Unauthorized: ModernUnauthorized,
        finish: (wire, owner) => wire.finishAuth(owner.answered),
    },
};

/** Refused, authorized, connected: { client, received, owner, wire }. */
async function connect(t, era, server) {
    const { client: make, wire: open, Unauthorized, finish } = eras[era];
    const owner = new Owner();
    const url = new URL(server.url);
    const refused = open(url, owner);
    await assert.rejects(within(make().connect(refused), 'the refusal'), Unauthorized);
    assert.equal(owner.agreed, 1, 'the owner was asked once');
    await finish(refused, owner);
    const client = make();
    const received = new Inbox(`the ${era} client`);
    const wire = open(url, owner);
    defer(t, () => client.close());
    await within(client.connect(wire), 'the client to connect');
    const deliver = wire.onmessage;
    wire.onmessage = (message, extra) => {
        received.push(message);
        deliver(message, extra);
    };
    return { client, received, owner, wire };
}

// In parallel, since they mostly wait.
describe('official clients authenticate with tokens', { concurrency: 4 }, () => {
    for (const era of ['legacy', 'modern']) {
        test(`official ${era} client gets a token by itself and connects`, async (t) => {
            const { authority, server, uri } = await start(t, {
                fetched: true,
                args: ['--auth-scope', 'files:read', '--auth-scope', 'files:watch'],
            });
            const { client, owner } = await connect(t, era, server);
            const { contents } = await client.readResource({ uri });
            assert.equal(contents[0].text, '1');
            assert.equal(owner.asked.searchParams.get('resource'), server.url, 'for this server and no other');
            assert.equal(owner.asked.searchParams.get('scope'), 'files:read files:watch', 'what the challenge named');
            assert.equal(authority.asked('/register'), 1);
            assert.equal(authority.asked('/token'), 1);
        });
    }

    test('official legacy client receives changes again after its token expires', async (t) => {
        const { authority, server, uri } = await start(t, { args: ['--auth-leeway', '0'] });
        authority.seconds = BRIEF;
        const { client, received, owner } = await connect(t, 'legacy', server);
        await client.subscribeResource({ uri });
        const first = owner.held.access_token;
        server.tree.replace('a.txt', '2');
        await received.next(updates(uri), 'an update');
        authority.seconds = 3600;
        /* The stream ends with the token; afterwards the client uses a new token. */
        await eventually(() => owner.held.access_token !== first, 'a new token was got', EXPIRY);
        server.tree.replace('a.txt', '3');
        await received.next(updates(uri), 'an update after the token expired', EXPIRY);
        assert.equal((await client.readResource({ uri })).contents[0].text, '3');
        assert.equal(owner.agreed, 1, 'by its refresh token, not by asking the owner again');
    });

    test('official modern client listens again after its token expires', async (t) => {
        const { authority, server, uri } = await start(t, { args: ['--auth-leeway', '0'] });
        authority.seconds = BRIEF;
        const { client, received, owner } = await connect(t, 'modern', server);
        const first = owner.held.access_token;
        const open = await client.listen({ resourceSubscriptions: [uri] });
        server.tree.replace('a.txt', '2');
        await received.next(updates(uri), 'an update');
        authority.seconds = 3600;
        const cause = await within(open.closed, 'the end of the listen', EXPIRY);
        assert.equal(cause, 'graceful');
        const again = await client.listen({ resourceSubscriptions: [uri] });
        assert.notEqual(owner.held.access_token, first);
        server.tree.replace('a.txt', '3');
        await received.next(updates(uri), 'an update after the token expired', EXPIRY);
        assert.equal((await client.readResource({ uri })).contents[0].text, '3');
        assert.equal(owner.agreed, 1, 'by its refresh token, not by asking the owner again');
        await again.close();
    });

    test('official modern client requests the missing scope', async (t) => {
        const rule = (text) => ['--access', JSON.stringify(text)];
        const { server, uri } = await start(t, {
            args: [
                ...['--auth-scope', 'in'],
                ...rule({ scope: 'files:read', uri: 'file:///**', allow: ['list', 'read'] }),
            ],
        });
        const { client, owner, wire } = await connect(t, 'modern', server);
        await assert.rejects(client.readResource({ uri }), ModernUnauthorized);
        assert.equal(owner.agreed, 2);
        assert.equal(owner.asked.searchParams.get('scope'), 'in files:read');
        await eras.modern.finish(wire, owner);
        assert.equal((await client.readResource({ uri })).contents[0].text, '1');
    });
});
