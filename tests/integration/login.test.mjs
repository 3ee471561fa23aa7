// SPDX-License-Identifier: MIT
//
// `tidings login` and later commands, with our own server and a real authorization server (oidc-provider:
// registration, PKCE, resource indicators, rotating refresh tokens, revocation, devices). Every command sends the
// token, a watch outlives the token, two processes renew it once, and commands request more scopes on demand.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';

import { start } from './lib/authority.mjs';
import { lines } from './lib/cli.mjs';
import { browse, logIn, login } from './lib/login.mjs';
import { BIN, Program, serve } from './lib/server.mjs';
import { Tree } from './lib/tree.mjs';
import { DEADLINE, eventually, slow } from './lib/wait.mjs';

// Run concurrently, because the tests mostly wait.
describe('logged-in user', { concurrency: 4 }, () => {
    test('commands send the token after login and send none after logout', async (t) => {
        const { authority, server, home } = await start(t);
        const end = await logIn(t, home, server.url);
        const asked = new URL(end.address).searchParams;
        assert.equal(asked.get('resource'), server.url);
        assert.equal(asked.get('code_challenge_method'), 'S256');
        assert.equal(asked.get('scope'), 'files:read offline_access');
        assert.match(end.stderr, /logged in to/);

        const read = await home.run(t, ['read', '-v', server.url, server.uri('a.txt')]);
        assert.equal(read.stdout, 'content', read.stderr);
        const listed = await home.run(t, ['login', '--list', '--json']);
        const [one, ...others] = lines(listed.stdout).map((line) => JSON.parse(line));
        assert.deepEqual(others, []);
        assert.equal(one.server, server.url);
        assert.equal(one.issuer, authority.issuer);
        assert.equal(one.renewable, true);
        for (const secret of home.secrets()) {
            assert.ok(!`${read.stderr}${listed.stdout}${listed.stderr}`.includes(secret), 'a token is printed');
        }
        // The command sends no token to other servers.
        const other = await serve(t, { files: {}, args: ['--auth-issuer', authority.issuer] });
        const denied = await home.run(t, ['ls', other.url]);
        assert.notEqual(denied.code, 0);
        assert.match(denied.stderr, /log in/);

        const out = await home.run(t, ['logout', server.url]);
        assert.equal(out.code, 0, out.stderr);
        assert.match(out.stderr, /logged out/);
        assert.equal(authority.revoked, 1);
        assert.deepEqual(home.tokens(), []);
        const again = await home.run(t, ['read', server.url, server.uri('a.txt')]);
        assert.notEqual(again.code, 0);
        assert.match(again.stderr, /log in first[^]*'tidings login http/);
        assert.notEqual((await home.run(t, ['logout', server.url])).code, 0);
    });

    test('watch renews an expiring token and misses no change', async (t) => {
        const { authority, server, home } = await start(t);
        authority.seconds = 3 * slow;
        await logIn(t, home, server.url);
        const before = home.tokens()[0];
        const uri = server.uri('a.txt');
        const args = ['watch', '--json', '-v', server.url, uri];
        const watch = new Program(t, BIN, args, { env: home.env, mayFail: true });
        const out = watch.output();
        await watch.lines.next((line) => line === `watching ${uri}`, 'the watch');
        server.tree.write('a.txt', 'two');
        await out.next((line) => line.includes(uri), 'the change before', DEADLINE);
        // Changes before the new login are delivered, on the earlier stream if it is still open.
        let release;
        authority.held = new Promise((resolve) => {
            release = resolve;
        });
        await authority.holding.next(() => true, 'the token to be renewed', DEADLINE + 10_000 * slow);
        server.tree.write('a.txt', 'three');
        release();
        authority.held = null;
        await out.next((line) => line.includes(uri), 'the change in between', DEADLINE);
        await eventually(() => home.tokens()[0].access_token !== before.access_token, 'the new token is kept');
        assert.equal(authority.count('refresh_token'), 1);
        const after = home.tokens()[0];
        assert.notEqual(after.refresh_token, before.refresh_token, 'refresh tokens are used once');
        await watch.stop('SIGTERM').catch(() => {});
        for (const secret of [before.access_token, after.access_token, after.refresh_token]) {
            assert.ok(!`${watch.stderr}${out.seen.join('')}`.includes(secret), 'a token is printed');
        }
    });

    test('watch reports the end of its login and continues after the next login', async (t) => {
        const { authority, server, home } = await start(t);
        authority.seconds = 2 * slow;
        await logIn(t, home, server.url);
        const [{ refresh_token: token, client_id: client }] = home.tokens();
        const uri = server.uri('a.txt');
        const watch = new Program(t, BIN, ['watch', server.url, uri], { env: home.env, mayFail: true });
        const out = watch.output();
        await watch.lines.next((line) => line === `watching ${uri}`, 'the watch');
        await fetch(`${authority.issuer}/token/revocation`, { method: 'POST', body: new URLSearchParams({ token, client_id: client }) });
        await watch.lines.next((line) => line.includes('log in again'), 'the end of the login', DEADLINE + 10_000 * slow);
        server.tree.write('a.txt', 'two');
        authority.seconds = 3600;
        await logIn(t, home, server.url);
        await out.next((line) => line.includes(uri), 'the change in between', DEADLINE + 40_000 * slow);
        await watch.stop('SIGTERM').catch(() => {});
    });

    test('concurrent processes renew an expired token once', async (t) => {
        const { authority, server, home } = await start(t);
        authority.seconds = 1;
        await logIn(t, home, server.url);
        const { expires_ms: until } = home.tokens()[0];
        authority.seconds = 3600;
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, until + 1100 - Date.now()))); // expiry causes no event
        const reads = Array.from({ length: 4 }, () => home.run(t, ['read', server.url, server.uri('a.txt')]));
        for (const end of await Promise.all(reads)) {
            assert.equal(end.stdout, 'content', end.stderr);
        }
        assert.equal(authority.count('refresh_token'), 1, String(authority.grants));
    });

    test('revoked refresh token is reported once, not retried, and requires a new login', async (t) => {
        const { authority, server, home } = await start(t);
        authority.seconds = 1;
        await logIn(t, home, server.url);
        const [{ expires_ms: until, refresh_token: token, client_id: client }] = home.tokens();
        await fetch(`${authority.issuer}/token/revocation`, { method: 'POST', body: new URLSearchParams({ token, client_id: client }) });
        await new Promise((resolve) => setTimeout(resolve, Math.max(0, until + 1100 - Date.now()))); // expiry causes no event
        for (let i = 0; i < 2; i += 1) {
            const end = await home.run(t, ['read', server.url, server.uri('a.txt')]);
            assert.notEqual(end.code, 0);
            assert.match(end.stderr, /cannot be renewed: log in again/);
        }
        assert.equal(authority.count('invalid_grant'), 1, String(authority.grants));
    });

    test('login for more scopes keeps the granted ones', async (t) => {
        const { server, home } = await start(t);
        await logIn(t, home, server.url);
        const end = await logIn(t, home, server.url, { args: ['--scope', 'files:write'] });
        const scope = new URL(end.address).searchParams.get('scope').split(' ');
        assert.deepEqual(scope.sort(), ['files:read', 'files:write', 'offline_access']);
        assert.equal(home.tokens().length, 1);
    });

    test('missing scopes are reported, and a login for them permits the call', async (t) => {
        const tree = new Tree(t, { 'a.txt': 'open', 'deep/b.txt': 'secret' });
        const rules = tree.at('rules.json');
        writeFileSync(
            rules,
            JSON.stringify([
                { uri: tree.uri('a.txt'), allow: ['read'] },
                { uri: tree.uri('deep/'), scope: 'files:write', allow: ['read'] },
            ]),
        );
        const { server, home } = await start(t, { tree, args: ['--auth-scope', 'files:read', '--access-file', rules] });
        await logIn(t, home, server.url);
        assert.equal((await home.run(t, ['read', server.url, tree.uri('a.txt')])).stdout, 'open');
        const denied = await home.run(t, ['read', server.url, tree.uri('deep/b.txt')]);
        assert.notEqual(denied.code, 0);
        assert.match(denied.stderr, /scope wanted: files:read files:write[^]*'tidings login http/);
        await logIn(t, home, server.url, { args: ['--scope', 'files:write'] });
        assert.equal((await home.run(t, ['read', server.url, tree.uri('deep/b.txt')])).stdout, 'secret');
    });

    test('client logs in for itself with a secret from a file', async (t) => {
        const { authority, server, home } = await start(t);
        home.tree.write('secret', 'its-secret\n');
        const args = ['--as-client', '--client-id', 'machine', '--client-secret', `@${home.tree.at('secret')}`];
        await logIn(t, home, server.url, { args });
        const read = await home.run(t, ['read', server.url, server.uri('a.txt')]);
        assert.equal(read.stdout, 'content', read.stderr);
        assert.equal(authority.count('client_credentials'), 1);
        const wrong = await login(t, home, server.url, {
            args: ['--as-client', '--client-id', 'machine'],
            env: { TIDINGS_CLIENT_SECRET: 'not-its-secret' },
        });
        assert.notEqual(wrong.code, 0);
        assert.match(wrong.stderr, /invalid_client/);
        assert.ok(!wrong.stderr.includes('not-its-secret'));
    });

    test('denied consent ends the login', async (t) => {
        const { server, home } = await start(t);
        const person = async (address) => {
            const asked = new URL(address).searchParams;
            const back = new URL(asked.get('redirect_uri'));
            const iss = new URL(address).origin;
            Object.entries({ error: 'access_denied', state: asked.get('state'), iss }).forEach(([name, value]) =>
                back.searchParams.set(name, value),
            );
            return browse(back.href);
        };
        const end = await login(t, home, server.url, { person });
        assert.notEqual(end.code, 0);
        assert.match(end.stderr, /says no \(access_denied\)/);
    });
});
