// SPDX-License-Identifier: MIT
//
// Tokens bound to a key (DPoP, RFC 9449), with a real authorization server, our client and our server. After a login
// every command proves possession of the key. The server rejects a token without a proof, with a used proof, or with
// a proof for another request.

import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';

import { exportJWK, generateKeyPair, importPKCS8, SignJWT } from 'jose';

import { start } from './lib/authority.mjs';
import { logIn } from './lib/login.mjs';

const SCOPE = ['--auth-scope', 'files:read'];
const bound = (how) => ({ args: [...SCOPE, '--auth-dpop', how] });

/** The saved token's key, for signatures and for the proof header. */
async function keyOf(home) {
    const key = await importPKCS8(home.tokens()[0].key, 'ES256', { extractable: true });
    const { d, ...jwk } = await exportJWK(key);
    return { key, jwk };
}

/** A proof for POST to the server; `other` overrides its members. */
function prove({ key, jwk }, url, token, other = {}) {
    const ath = createHash('sha256').update(token).digest('base64url');
    const claims = { jti: randomUUID(), htm: 'POST', htu: url, iat: Math.floor(Date.now() / 1000), ath, ...other };
    return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk }).sign(key);
}

async function ask(url, headers) {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
    const more = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
    const answer = await fetch(url, { method: 'POST', body, headers: { ...more, ...headers } });
    await answer.text();
    const challenge = answer.headers.get('www-authenticate') ?? '';
    return { status: answer.status, challenge, error: /error="(\w+)"/.exec(challenge)?.[1], nonce: answer.headers.get('dpop-nonce') };
}

describe('DPoP tokens', { concurrency: 4 }, () => {
    test('login gets a DPoP token if required, and commands prove the key on every transport', async (t) => {
        const { server, home } = await start(t, bound('require'));
        const unknown = await ask(server.url, {});
        assert.equal(unknown.status, 401);
        assert.match(unknown.challenge, /^DPoP .*resource_metadata=.*algs="ES256 /);
        const metadata = await (await fetch(`${new URL(server.url).origin}/.well-known/oauth-protected-resource/mcp`)).json();
        assert.equal(metadata.dpop_bound_access_tokens_required, true);
        assert.ok(metadata.dpop_signing_alg_values_supported.includes('ES256'));

        await logIn(t, home, server.url);
        assert.match(home.tokens()[0].key, /PRIVATE KEY/);
        for (const url of [server.url, server.url.replace(/^http/, 'ws')]) {
            const read = await home.run(t, ['read', url, server.uri('a.txt')]);
            assert.equal(read.stdout, 'content', read.stderr);
        }
    });

    test('DPoP request is rejected if its proof is missing, reused, mismatched or for another key', async (t) => {
        const { server, home } = await start(t, bound('accept'));
        const { url } = server;
        // The server does not require DPoP, so the test obtains a bound token directly.
        const demanding = await start(t, bound('require'));
        await logIn(t, demanding.home, demanding.server.url);
        const { access_token: token } = demanding.home.tokens()[0];
        const own = await keyOf(demanding.home);
        const there = demanding.server.url;
        const show = (proof, scheme = 'DPoP') => ask(there, { Authorization: `${scheme} ${token}`, ...(proof && { DPoP: proof }) });

        const proof = await prove(own, there, token);
        assert.notEqual((await show(proof)).status, 401);
        const again = await show(proof);
        assert.deepEqual([again.status, again.error], [401, 'invalid_dpop_proof']);
        const plain = await show(undefined, 'Bearer');
        assert.deepEqual([plain.status, plain.error], [401, 'invalid_token']);
        assert.match(plain.challenge, /^DPoP /);
        assert.equal((await show(undefined)).error, 'invalid_dpop_proof');
        const stranger = await generateKeyPair('ES256', { extractable: true });
        const theirs = { key: stranger.privateKey, jwk: await exportJWK(stranger.publicKey) };
        assert.equal((await show(await prove(theirs, there, token))).error, 'invalid_token');
        for (const other of [{ htm: 'GET' }, { htu: url }, { ath: 'x' }, { iat: 1 }, { jti: '' }]) {
            const end = await show(await prove(own, there, token, other));
            assert.deepEqual([end.status, end.error], [401, 'invalid_dpop_proof'], JSON.stringify(other));
        }
        assert.notEqual((await show(await prove(own, there, token))).status, 401);

        // A plain token is sent without a proof if the server accepts it.
        await logIn(t, home, url);
        const { access_token: bearer } = home.tokens()[0];
        assert.equal((await home.run(t, ['read', url, server.uri('a.txt')])).stdout, 'content');
        const dressed = await ask(url, { Authorization: `DPoP ${bearer}`, DPoP: await prove(own, url, bearer) });
        assert.deepEqual([dressed.status, dressed.error], [401, 'invalid_token']);
    });

    test('nonce is sent with the rejection and requested again after it changes', async (t) => {
        const { server, home } = await start(t, bound('nonce'));
        await logIn(t, home, server.url);
        const read = await home.run(t, ['read', server.url, server.uri('a.txt')]);
        assert.equal(read.stdout, 'content', read.stderr);
        const { access_token: token } = home.tokens()[0];
        const own = await keyOf(home);
        const show = async (other) => ask(server.url, { Authorization: `DPoP ${token}`, DPoP: await prove(own, server.url, token, other) });
        const first = await show({});
        assert.deepEqual([first.status, first.error], [401, 'use_dpop_nonce']);
        assert.notEqual((await show({ nonce: first.nonce })).status, 401);
        assert.equal((await show({ nonce: 'made-up' })).error, 'use_dpop_nonce');
    });

    test('plain token is rejected if DPoP is required', async (t) => {
        const { authority, server } = await start(t, bound('require'));
        const form = { grant_type: 'client_credentials', resource: server.url, scope: 'files:read' };
        const basic = Buffer.from('machine:its-secret').toString('base64');
        const given = await fetch(`${authority.issuer}/token`, {
            method: 'POST',
            body: new URLSearchParams(form),
            headers: { Authorization: `Basic ${basic}` },
        });
        const { access_token: token } = await given.json();
        const end = await ask(server.url, { Authorization: `Bearer ${token}` });
        assert.deepEqual([end.status, end.error], [401, 'invalid_token']);
        assert.match(end.challenge, /^DPoP .*must be bound to a key/);
    });
});
