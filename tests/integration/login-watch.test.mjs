// SPDX-License-Identifier: MIT
//
// Logins during a command, with our own server and a real authorization server. Watches renew tokens before expiry
// and survive expired and revoked tokens, over WebSocket too. Commands request more scopes if the server requires
// them. An interrupted renewal is completed.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';

import { start } from './lib/authority.mjs';
import { browse, logIn } from './lib/login.mjs';
import { BIN, Program } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually, slow, within } from './lib/wait.mjs';

const socket = (url) => url.replace(/^http/, 'ws');

/** A tree in which `deep/` requires another scope. */
function guarded(t) {
    const tree = new Tree(t, { 'a.txt': 'open', 'deep/b.txt': 'secret' });
    const rules = tree.at('rules.json');
    const allow = ['read', 'list', 'subscribe'];
    writeFileSync(
        rules,
        JSON.stringify([
            { uri: tree.uri('a.txt'), allow },
            { uri: tree.uri('deep/'), scope: 'files:write', allow },
        ]),
    );
    return { tree, args: ['--auth-scope', 'files:read', '--access-file', rules] };
}

/** A command with an interactive user, who agrees. Returns the printed address. */
async function agree(program) {
    const address = await program.lines.next((line) => /^https?:/.test(line), 'the address', DEADLINE);
    await browse(address);
    return new URL(address).searchParams;
}

function watching(t, home, url, uri, args = []) {
    const watch = new Program(t, BIN, ['watch', '--json', ...args, url, uri], { env: home.env, mayFail: true });
    watch.child.stdin.end();
    return { watch, out: watch.output(), ready: () => watch.lines.next((line) => line === `watching ${uri}`, 'the watch') };
}

describe('logins during a command', { concurrency: 4 }, () => {
    test('call with missing scopes requests them from the user and continues', async (t) => {
        const world = guarded(t);
        const { authority, server, home } = await start(t, world);
        await logIn(t, home, server.url);
        const uri = world.tree.uri('deep/b.txt');
        const read = new Program(t, BIN, ['read', '--login', server.url, uri], { env: home.env });
        const out = read.output();
        const asked = await agree(read);
        assert.deepEqual(asked.get('scope').split(' ').sort(), ['files:read', 'files:write', 'offline_access']);
        assert.equal(asked.get('resource'), server.url);
        await within(read.closed, 'the end of the read');
        assert.deepEqual(out.seen, ['secret']);
        assert.equal(home.tokens().length, 1);
        assert.equal(authority.count('authorization_code'), 2);
        // The token is saved for all commands.
        assert.equal((await home.run(t, ['read', server.url, uri])).stdout, 'secret');
    });

    test('login starts during a command if the server requires one', async (t) => {
        const { server, home } = await start(t);
        const read = new Program(t, BIN, ['read', '--login', server.url, server.uri('a.txt')], { env: home.env });
        const out = read.output();
        await agree(read);
        await within(read.closed, 'the end of the read');
        assert.deepEqual(out.seen, ['content']);
        assert.equal(home.mode(), 0o600);
    });

    for (const era of ['modern', 'legacy']) {
        test(`watch with missing scopes (${era}) requests them and starts`, async (t) => {
            const world = guarded(t);
            const { server, home } = await start(t, world);
            await logIn(t, home, server.url);
            const uri = world.tree.uri('deep/b.txt');
            // Without an interactive user the command prints the required scopes.
            const alone = await home.run(t, ['watch', '--era', era, server.url, uri]);
            assert.notEqual(alone.code, 0);
            assert.match(alone.stderr, /files:read files:write/);
            const { watch, out, ready } = watching(t, home, server.url, uri, ['--login', '--era', era]);
            const asked = await agree(watch);
            assert.deepEqual(asked.get('scope').split(' ').sort(), ['files:read', 'files:write', 'offline_access']);
            await ready();
            world.tree.write('deep/b.txt', 'changed');
            await out.next((line) => line.includes(uri), 'the change', DEADLINE);
            await watch.stop('SIGTERM').catch(() => {});
        });

        test(`watch survives the end of its token (${era}) because it renews early`, async (t) => {
            const { authority, server, home } = await start(t);
            authority.seconds = 4 * slow;
            await logIn(t, home, server.url);
            const uri = server.uri('a.txt');
            const { watch, out, ready } = watching(t, home, server.url, uri, ['-v', '--era', era]);
            await ready();
            for (let i = 1; i <= 2; i += 1) {
                await eventually(() => authority.count('refresh_token') >= i, 'it is renewed', DEADLINE + 10_000 * slow);
                server.tree.write('a.txt', `content ${i}`);
                await out.next((line) => line.includes(uri), 'a change', DEADLINE);
            }
            await watch.stop('SIGTERM').catch(() => {});
            assert.doesNotMatch(watch.stderr, /401|connect again|lost|disconnected|trying again/i);
        });
    }

    test('WebSocket sends the token, and a new one after expiry', async (t) => {
        const { authority, server, home } = await start(t);
        authority.seconds = 3 * slow;
        const uri = server.uri('a.txt');
        const url = socket(server.url);
        await logIn(t, home, url);
        assert.equal(home.tokens()[0].resource, server.url);
        const read = await home.run(t, ['read', url, uri]);
        assert.equal(read.stdout, 'content', read.stderr);
        const { watch, out, ready } = watching(t, home, url, uri);
        await ready();
        await watch.lines.next((line) => line.includes('disconnected'), 'the end of the token', DEADLINE + 10_000 * slow);
        server.tree.write('a.txt', 'two');
        await out.next((line) => line.includes(uri), 'the change after', DEADLINE + 10_000 * slow);
        assert.ok(authority.count('refresh_token') > 0);
        await watch.stop('SIGTERM').catch(() => {});
    });

    test('WebSocket without a token starts a login, and the command continues', async (t) => {
        const { server, home } = await start(t);
        const none = await home.run(t, ['read', socket(server.url), server.uri('a.txt')]);
        assert.notEqual(none.code, 0);
        assert.match(none.stderr, /HTTP 401/);
        const read = new Program(t, BIN, ['read', '--login', socket(server.url), server.uri('a.txt')], { env: home.env });
        const out = read.output();
        await agree(read);
        await within(read.closed, 'the end of the read');
        assert.deepEqual(out.seen, ['content']);
    });

    test('interrupted renewal is finished, and the new refresh token is kept', async (t) => {
        const { authority, server, home } = await start(t);
        authority.seconds = 1;
        await logIn(t, home, server.url);
        const before = home.tokens()[0];
        authority.seconds = 3600;
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, before.expires_ms + 1100 - Date.now()))); // expiry causes no event
        let release;
        authority.held = new Promise((resolve) => {
            release = resolve;
        });
        const read = new Program(t, BIN, ['read', server.url, server.uri('a.txt')], { env: home.env, mayFail: true });
        await authority.holding.next(() => true, 'the token to be renewed');
        read.child.kill('SIGINT');
        await eventually(() => authority.holding.seen.length > 0 && read.running, 'it is still there');
        release();
        authority.held = null;
        await within(read.closed, 'the end of the read');
        const after = home.tokens()[0];
        assert.equal(authority.count('refresh_token'), 1);
        assert.notEqual(after.refresh_token, before.refresh_token);
        const again = await home.run(t, ['read', server.url, server.uri('a.txt')]);
        assert.equal(again.stdout, 'content', again.stderr);
    });

    test('introspected token requires a new login after revocation', async (t) => {
        const tree = new Tree(t, { 'a.txt': 'content' });
        writeFileSync(tree.at('credentials'), 'machine:its-secret\n', { mode: 0o600 });
        const { authority, server, home } = await start(t, {
            tree,
            args: (issuer) => ['--auth-introspection', `${issuer}/token/introspection`, '--auth-credentials', tree.at('credentials')],
            format: 'opaque',
        });
        await logIn(t, home, server.url);
        const [{ access_token: token, client_id }] = home.tokens();
        const body = new URLSearchParams({ token, client_id });
        await fetch(`${authority.issuer}/token/revocation`, { method: 'POST', body });
        const args = ['read', server.url, server.uri('a.txt')];
        const refused = await home.run(t, args);
        assert.notEqual(refused.code, 0);
        assert.match(refused.stderr, /cannot be renewed: log in again/);
        assert.equal(authority.count('invalid_grant'), 1, 'all that was given with it is taken back');
        await logIn(t, home, server.url);
        assert.equal((await home.run(t, args)).stdout, 'content');
    });
});
