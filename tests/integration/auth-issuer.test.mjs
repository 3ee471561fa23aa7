// SPDX-License-Identifier: MIT
//
// Tokens of an authorization server: how clients find it and which tokens the server accepts.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { SignJWT, UnsecuredJWT } from 'jose';

import { AuthorizationServer, start, statusOf } from './lib/authorization-server.mjs';
import { request } from './lib/http.mjs';
import { modern, post, Session } from './lib/rpc.mjs';
import { as, challenge, reloaded } from './lib/tokens.mjs';

const KNOWN = '/.well-known/oauth-protected-resource';

const seconds = () => Math.floor(Date.now() / 1000);

test('metadata is public at both paths and names the issuer', async (t) => {
    const { server, authority } = await start(t, { args: ['--auth-scope', 'a', '--auth-scope', 'b:c'] });
    const expected = {
        resource: server.url,
        authorization_servers: [authority.issuer],
        scopes_supported: ['a', 'b:c'],
        bearer_methods_supported: ['header'],
        dpop_signing_alg_values_supported: ['ES256', 'ES384', 'ES512', 'EdDSA', 'PS256', 'PS384', 'PS512', 'RS256', 'RS384', 'RS512'],
    };
    const Origin = 'http://localhost:3000';
    for (const path of [KNOWN, `${KNOWN}/mcp`]) {
        const answer = await request(server, { method: 'GET', path, headers: { Origin } });
        assert.equal(answer.status, 200, path);
        assert.equal(answer.headers.get('content-type'), 'application/json');
        assert.equal(answer.headers.get('access-control-allow-origin'), Origin);
        assert.deepEqual(answer.json, expected);
        assert.equal((await request(server, { path, body: '{}' })).status, 405);
        assert.equal((await request(server, { method: 'OPTIONS', path, headers: { Origin } })).status, 204);
    }
    const evil = { Origin: 'https://evil.example' };
    assert.equal((await request(server, { method: 'GET', path: KNOWN, headers: evil })).status, 403);
    assert.equal((await request(server, { method: 'GET', path: `${KNOWN}/other` })).status, 404);
    const { error, scope, resource_metadata: where } = challenge(await post(server, '{}'));
    assert.deepEqual([error, scope], [undefined, 'a b:c']);
    assert.deepEqual(await (await fetch(where)).json(), expected);
    const old = await request(server, { method: 'GET', path: '/.well-known/oauth-authorization-server' });
    assert.equal(old.status, 307);
    assert.deepEqual((await (await fetch(old.headers.get('location'))).json()).issuer, authority.issuer);
});

test('server uses its configured name in metadata and in the metadata path', async (t) => {
    const resource = 'https://files.example/public/mcp';
    const { server, authority, uri } = await start(t, {
        args: ['--auth-resource', resource, '--allow-host', 'files.example'],
    });
    const Host = 'files.example';
    for (const path of [KNOWN, `${KNOWN}/mcp`, `${KNOWN}/public/mcp`]) {
        const answer = await request(server, { method: 'GET', path, headers: { Host } });
        assert.deepEqual([answer.status, answer.json?.resource], [200, resource], path);
        assert.equal(answer.json.scopes_supported, undefined);
    }
    const said = challenge(await post(server, '{}'));
    assert.equal(said.resource_metadata, `https://files.example${KNOWN}/public/mcp`);
    assert.equal(said.scope, undefined);
    assert.equal(await statusOf(as(server, await authority.token(resource)), uri), 200);
    assert.equal(await statusOf(as(server, await authority.token(server.url)), uri), 401);
});

test('tokens are accepted with every supported algorithm', async (t) => {
    const authority = await AuthorizationServer.start(t);
    const names = ['RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'EdDSA'];
    for (const alg of names) {
        await authority.rotate(alg, { keep: 99 });
    }
    const { server, uri } = await start(t, { issuer: authority });
    for (const key of authority.keys) {
        for (const typ of ['at+jwt', 'JWT', undefined]) {
            const token = await authority.token(server.url, { key, header: { typ } });
            assert.equal(await statusOf(as(server, token), uri), 200, `${key.alg} ${typ}`);
        }
    }
    const several = await authority.token(['https://other.example', server.url]);
    assert.equal(await statusOf(as(server, several), uri), 200);
});

test('invalid token is refused with the reason', async (t) => {
    const { server, authority, uri } = await start(t, { args: ['--auth-leeway', '0'] });
    const stranger = await AuthorizationServer.start(t);
    const good = await authority.token(server.url);
    const claims = { iss: authority.issuer, aud: server.url, sub: 'alice', exp: seconds() + 600 };
    const sign = (alg, secret, header = {}) =>
        new SignJWT(claims).setProtectedHeader({ alg, kid: authority.keys[0].kid, ...header }).sign(secret);
    const token = (options) => authority.token(server.url, options);
    const [head, body, signature] = good.split('.');
    const other = Buffer.from(JSON.stringify({ ...claims, sub: 'root' })).toString('base64url');
    const { kid } = authority.keys[0];
    const rows = {
        'alg none': [/algorithm/, new UnsecuredJWT(claims).encode()],
        'alg none with a signature': [/algorithm/, `${Buffer.from(JSON.stringify({ alg: 'none', kid })).toString('base64url')}.${body}.${signature}`],
        'the public key as a secret': [/algorithm/, await sign('HS256', new TextEncoder().encode(await authority.pem()))],
        'another key of that name': [/signature/, await token({ key: { ...stranger.keys[0], kid } })],
        'other claims under the signature': [/signature/, `${head}.${other}.${signature}`],
        'half a signature': [/signature/, `${head}.${body}.${signature.slice(0, 40)}`],
        'another issuer': [/issuer/, await token({ claims: { iss: stranger.issuer } })],
        'for another server': [/audience/, await authority.token('https://other.example/mcp')],
        'for a longer name': [/audience/, await authority.token(`${server.url}/`)],
        'for nobody': [/audience/, await token({ claims: { aud: undefined } })],
        expired: [/expired/, await token({ claims: { exp: seconds() - 5 } })],
        'without an end': [/no expiry/, await token({ claims: { exp: undefined } })],
        'not yet': [/not valid yet/, await token({ claims: { nbf: seconds() + 300 } })],
        'of another kind': [/not an access token/, await token({ header: { typ: 'logout+jwt' } })],
        'opaque, where nobody can be asked': [/not known/, randomBytes(32).toString('base64url')],
    };
    for (const [name, [said, shown]] of Object.entries(rows)) {
        const answer = await modern(as(server, shown), 'resources/read', { uri });
        assert.equal(answer.status, 401, name);
        const { error, error_description: why, resource_metadata: where } = challenge(answer);
        assert.equal(error, 'invalid_token', name);
        assert.match(why, said, name);
        assert.match(where, /oauth-protected-resource\/mcp$/, name);
    }
    assert.equal(await statusOf(as(server, good), uri), 200);
});

test('clocks may differ by the leeway and no more', async (t) => {
    const authority = await AuthorizationServer.start(t);
    const { show: exact, uri } = await start(t, { issuer: authority, args: ['--auth-leeway', '0'] });
    const { show: lenient, uri: same } = await start(t, { issuer: authority });
    const late = { claims: { exp: seconds() - 20 } };
    const early = { claims: { nbf: seconds() + 20 } };
    for (const options of [late, early]) {
        assert.equal(await statusOf(await exact(options), uri), 401);
        assert.equal(await statusOf(await lenient(options), same), 200);
    }
    for (const options of [{ claims: { exp: seconds() - 90 } }, { claims: { nbf: seconds() + 90 } }]) {
        assert.equal(await statusOf(await lenient(options), same), 401);
    }
});

test('key file is read again on SIGHUP', async (t) => {
    const { server, authority, show, file, uri } = await start(t);
    const publish = async () => writeFileSync(file, JSON.stringify(await authority.jwks()));
    const before = await show();
    assert.equal(await statusOf(before, uri), 200);
    await authority.rotate('RS256', { keep: 0 });
    const after = await show();
    assert.equal(await statusOf(after, uri), 401);
    await publish();
    await reloaded(server);
    assert.equal(await statusOf(after, uri), 200);
    assert.equal(await statusOf(before, uri), 401);
    writeFileSync(file, '{"keys":[');
    await reloaded(server, /reload failed.*keys\.json/);
    assert.equal(await statusOf(after, uri), 200);
    assert.deepEqual(authority.counts, {}, 'nobody asked the authorization server for anything');
});


test('missing scope is 403 with that scope, whether or not the resource exists', async (t) => {
    const rule = (text) => ['--access', JSON.stringify(text)];
    const { server, show, uri } = await start(t, {
        args: [
            ...['--auth-scope', 'in', '--publish', 'app:///', '--allow-write'],
            ...rule({ scope: 'files:read', uri: 'file:///**', allow: ['list', 'read'] }),
            ...rule({ scope: 'files:watch', uri: 'file:///**', allow: ['subscribe'] }),
            ...rule({ scope: 'app:write', uri: 'app:///', allow: ['read', 'write'] }),
            ...rule({ principal: 'root', uri: 'app:///secret/', allow: ['read'] }),
        ],
    });
    const published = await request(server, { method: 'GET', path: KNOWN });
    assert.deepEqual(published.json.scopes_supported, ['in', 'files:read', 'files:watch', 'app:write']);
    const said = async (answer) => [(await answer).status, challenge(await answer).scope];
    const none = await show({ scope: 'in' });
    const reader = await show({ scope: 'in files:read' });
    for (const name of [uri, server.uri('nothing.txt')]) {
        const read = modern(none, 'resources/read', { uri: name });
        assert.deepEqual(await said(read), [403, 'in files:read']);
        assert.equal(challenge(await read).error, 'insufficient_scope');
        assert.match(challenge(await read).resource_metadata, /\/mcp$/);
        assert.equal((await read).json.error.code, -32602, 'and for those who look no further it is not there');
        const path = `/resource?uri=${encodeURIComponent(name)}`;
        assert.deepEqual(await said(request(none, { method: 'GET', path })), [403, 'in files:read']);
        const session = await Session.open(none);
        const both = [403, 'in files:read files:watch'];
        assert.deepEqual(await said(session.send('resources/subscribe', { uri: name })), both);
        session.server = reader;
        const watch = session.send('resources/subscribe', { uri: name });
        assert.deepEqual(await said(watch), [403, 'in files:watch']);
    }
    assert.equal(await statusOf(reader, uri), 200);
    const missing = await modern(reader, 'resources/read', { uri: server.uri('nothing.txt') });
    assert.deepEqual(await said(missing), [200, undefined], 'it may: then it is not found');
    const put = { method: 'PUT', path: '/resource?uri=app%3A%2F%2F%2Fx', body: 'x' };
    assert.deepEqual(await said(request(reader, put)), [403, 'in app:write']);
    assert.equal((await request(await show({ scope: 'in app:write' }), put)).status, 201);
    const hidden = { method: 'GET', path: '/resource?uri=other%3A%2F%2F%2Fx' };
    assert.deepEqual(await said(request(reader, hidden)), [404, undefined], 'no scope would do');
});
