// SPDX-License-Identifier: MIT
//
// An authorization server for tests: metadata (RFC 8414), rotating keys, client registration (RFC 7591), the
// authorization code with PKCE and an owner who always agrees, one-time refresh tokens, introspection (RFC 7662). It
// signs with `jose`, and counts its requests by path.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import http from 'node:http';

import { exportJWK, exportSPKI, generateKeyPair, SignJWT } from 'jose';

import { defer } from './cleanup.mjs';
import { modern } from './rpc.mjs';
import { serve } from './server.mjs';
import { as } from './tokens.mjs';
import { Tree } from './tree.mjs';
import { slow } from './wait.mjs';

const random = () => randomBytes(16).toString('base64url');
const seconds = () => Math.floor(Date.now() / 1000);

/** Bodies of requests: JSON or a form. */
async function bodyOf(request) {
    let text = '';
    for await (const part of request.setEncoding('utf8')) {
        text += part;
    }
    return request.headers['content-type']?.startsWith('application/json')
        ? JSON.parse(text)
        : Object.fromEntries(new URLSearchParams(text));
}

class Refusal extends Error {
    constructor(status, error) {
        super(error);
        this.status = status;
    }
}

const demand = (condition, error, status = 400) => {
    if (!condition) {
        throw new Refusal(status, error);
    }
};

export class AuthorizationServer {
    keys = []; // the newest first: { kid, alg, publicKey, privateKey }
    counts = {}; // requests by path
    clients = new Map();
    codes = new Map();
    refreshes = new Map();
    opaque = new Map(); // token -> its introspection result
    seconds = 3600; // lifetime of access tokens
    credentials = { id: 'tidings', secret: 's3cret:/ä' }; // of the resource server, for introspection
    broken = false; // answers everything with 500
    held = null; // a promise: the key request waits for it

    static async start(t, { alg = 'RS256' } = {}) {
        const as = new AuthorizationServer();
        await as.rotate(alg);
        as.server = http.createServer((request, response) => as.#serve(request, response));
        await new Promise((resolve) => as.server.listen(0, '127.0.0.1', resolve));
        as.issuer = `http://127.0.0.1:${as.server.address().port}`;
        defer(t, () => {
            as.server.closeAllConnections();
            return new Promise((resolve) => as.server.close(resolve));
        });
        return as;
    }

    /** A new key signs from now on; `keep` of the old ones remain published. */
    async rotate(alg = 'RS256', { keep = 1 } = {}) {
        const pair = await generateKeyPair(alg, { extractable: true });
        this.keys = [{ kid: random(), alg, ...pair }, ...this.keys.slice(0, keep)];
        return this.keys[0];
    }

    async jwks() {
        const published = this.keys.map(async ({ kid, alg, publicKey }) => ({
            ...(await exportJWK(publicKey)),
            kid,
            alg,
            use: 'sig',
        }));
        return { keys: await Promise.all(published) };
    }

    /**
     * An access token for `audience`. `claims` override those of a valid one (undefined: omitted), `header` likewise,
     * `key` signs instead of the newest.
     */
    token(audience, { sub = 'alice', scope, claims = {}, header = {}, key = this.keys[0] } = {}) {
        const now = seconds();
        const all = { iss: this.issuer, aud: audience, sub, scope, iat: now, exp: now + this.seconds };
        const payload = Object.fromEntries(
            Object.entries({ ...all, ...claims }).filter(([, value]) => value !== undefined),
        );
        const head = { alg: key.alg, kid: key.kid, typ: 'at+jwt', ...header };
        return new SignJWT(payload)
            .setProtectedHeader(JSON.parse(JSON.stringify(head)))
            .sign(key.privateKey);
    }

    /** The public key as text, for attacks that use it as a secret. */
    pem(key = this.keys[0]) {
        return exportSPKI(key.publicKey);
    }

    /** An opaque token whose introspection returns `claims`. */
    issueOpaque(audience, claims = {}) {
        const token = random();
        const now = seconds();
        this.opaque.set(token, {
            active: true,
            iss: this.issuer,
            aud: audience,
            sub: 'alice',
            exp: now + this.seconds,
            ...claims,
        });
        return token;
    }

    #metadata() {
        return {
            issuer: this.issuer,
            authorization_endpoint: `${this.issuer}/authorize`,
            token_endpoint: `${this.issuer}/token`,
            registration_endpoint: `${this.issuer}/register`,
            introspection_endpoint: `${this.issuer}/introspect`,
            jwks_uri: `${this.issuer}/jwks`,
            response_types_supported: ['code'],
            grant_types_supported: ['authorization_code', 'refresh_token'],
            code_challenge_methods_supported: ['S256'],
            token_endpoint_auth_methods_supported: ['none'],
            authorization_response_iss_parameter_supported: true,
        };
    }

    async #serve(request, response) {
        const { pathname, searchParams } = new URL(request.url, this.issuer);
        this.counts[pathname] = (this.counts[pathname] ?? 0) + 1;
        try {
            demand(!this.broken, 'server_error', 500);
            const answer = await this.#answer(pathname, searchParams, request);
            demand(answer, 'not_found', 404);
            if (answer.location) {
                response.writeHead(302, { Location: answer.location }).end();
            } else {
                response.writeHead(answer.status ?? 200, { 'Content-Type': 'application/json' });
                response.end(JSON.stringify(answer.body));
            }
        } catch (error) {
            response.writeHead(error.status ?? 500, { 'Content-Type': 'application/json' });
            response.end(JSON.stringify({ error: error.message }));
        }
    }

    async #answer(path, query, request) {
        switch (path) {
            case '/.well-known/oauth-authorization-server':
                return { body: this.#metadata() };
            case '/jwks':
                await this.held;
                return { body: await this.jwks() };
            case '/register':
                return { status: 201, body: this.#register(await bodyOf(request)) };
            case '/authorize':
                return { location: this.#authorize(Object.fromEntries(query)) };
            case '/token':
                return { body: await this.#grant(await bodyOf(request)) };
            case '/introspect':
                await this.held;
                return { body: this.#introspect(request, await bodyOf(request)) };
            default:
                return null;
        }
    }

    #register(client) {
        const id = random();
        this.clients.set(id, client);
        return { ...client, client_id: id, client_id_issued_at: seconds() };
    }

    /** The owner agrees at once. */
    #authorize({ client_id: id, redirect_uri: redirect, state, ...asked }) {
        const client = this.clients.get(id);
        demand(client?.redirect_uris.includes(redirect), 'invalid_client');
        demand(asked.response_type === 'code', 'unsupported_response_type');
        demand(asked.code_challenge && asked.code_challenge_method === 'S256', 'invalid_request');
        demand(asked.resource, 'invalid_target'); // RFC 8707: MCP clients name the server
        const code = random();
        this.codes.set(code, { id, redirect, ...asked });
        const url = new URL(redirect);
        url.searchParams.set('code', code);
        url.searchParams.set('iss', this.issuer);
        if (state) {
            url.searchParams.set('state', state);
        }
        return url.href;
    }

    async #grant(form) {
        if (form.grant_type === 'refresh_token') {
            const held = this.refreshes.get(form.refresh_token);
            demand(held && held.id === form.client_id, 'invalid_grant');
            this.refreshes.delete(form.refresh_token);
            return this.#tokens(held);
        }
        demand(form.grant_type === 'authorization_code', 'unsupported_grant_type');
        const asked = this.codes.get(form.code);
        this.codes.delete(form.code);
        demand(asked && asked.id === form.client_id, 'invalid_grant');
        demand(asked.redirect === form.redirect_uri, 'invalid_grant');
        const proof = createHash('sha256').update(form.code_verifier).digest('base64url');
        demand(proof === asked.code_challenge, 'invalid_grant');
        demand(asked.resource === form.resource, 'invalid_target');
        return this.#tokens({ id: asked.id, resource: asked.resource, scope: asked.scope });
    }

    async #tokens(held) {
        const refresh = random();
        this.refreshes.set(refresh, held);
        return {
            access_token: await this.token(held.resource, { scope: held.scope }),
            token_type: 'Bearer',
            expires_in: this.seconds,
            refresh_token: refresh,
            ...(held.scope && { scope: held.scope }),
        };
    }

    #introspect(request, { token }) {
        const { id, secret } = this.credentials;
        const pair = `${encodeURIComponent(id)}:${encodeURIComponent(secret)}`;
        const expected = `Basic ${Buffer.from(pair).toString('base64')}`;
        demand(request.headers.authorization === expected, 'invalid_client', 401);
        return this.opaque.get(token) ?? { active: false };
    }

    /** The number of requests to `path`. */
    asked(path) {
        return this.counts[path] ?? 0;
    }
}

/** The members that the official clients require of a token store; the owner agrees at once. */
export class Owner {
    redirectUrl = 'http://127.0.0.1:1/callback';
    clientMetadata = {
        client_name: 'integration-test',
        redirect_uris: [this.redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
    };
    agreed = 0;

    clientInformation() {
        return this.client;
    }

    saveClientInformation(client) {
        this.client = client;
    }

    tokens() {
        return this.held;
    }

    saveTokens(tokens) {
        this.held = tokens;
    }

    saveCodeVerifier(verifier) {
        this.verifier = verifier;
    }

    codeVerifier() {
        return this.verifier;
    }

    discoveryState() {
        return this.discovered;
    }

    saveDiscoveryState(state) {
        this.discovered = state;
    }

    async redirectToAuthorization(url) {
        this.asked = url;
        const response = await fetch(url, { redirect: 'manual' });
        assert.equal(response.status, 302, await response.text());
        this.answered = new URL(response.headers.get('location')).searchParams;
        this.code = this.answered.get('code');
        this.agreed += 1;
    }
}

/**
 * A server that accepts the tokens of `issuer`; `show(options)` is the server for a holder of such a token. It reads
 * the keys from a file, or, `fetched`, finds them by the metadata of the issuer.
 */
export async function start(t, { issuer, fetched = false, args = [] } = {}) {
    const authority = issuer ?? (await AuthorizationServer.start(t));
    const file = new Tree(t).at('keys.json');
    writeFileSync(file, JSON.stringify(await authority.jwks()));
    const keys = fetched ? [] : ['--auth-jwks', file];
    const server = await serve(t, {
        files: { 'a.txt': '1' },
        args: ['--auth-issuer', authority.issuer, ...keys, ...args],
    });
    const show = async (options) => as(server, await authority.token(server.url, options));
    return { server, authority, show, file, uri: server.uri('a.txt') };
}

/**
 * The lifetime in seconds of a token that expires during a test, and the ms until it has expired. Both are long,
 * because a busy machine must finish all earlier steps in time.
 */
export const BRIEF = slow > 1 ? 30 : 10;
export const EXPIRY = (BRIEF + 60) * 1000;

/** The response to a read of `uri`. */
export const statusOf = async (server, uri) =>
    (await modern(server, 'resources/read', { uri })).status;
