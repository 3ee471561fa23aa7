// SPDX-License-Identifier: MIT
//
// A real authorization server (oidc-provider) in which every user is alice, who agrees to everything; and our server,
// which requires its tokens.

import http from 'node:http';

import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

import { defer } from './cleanup.mjs';
import { Home } from './login.mjs';
import { serve } from './server.mjs';
import { Inbox } from './wait.mjs';

const SCOPES = 'files:read files:write';

/** An authorization server in which every user is alice, who agrees to everything. */
export class Authority {
    seconds = 3600; // lifetime of access tokens
    grants = []; // requests to the token endpoint, by grant type
    revoked = 0;
    given = SCOPES; // the scopes that a token may have
    format = 'jwt'; // of access tokens
    held = null; // a promise: the token endpoint waits for it
    holding = new Inbox('requests that are held');

    static async start(t) {
        const authority = new Authority();
        const pair = await generateKeyPair('RS256', { extractable: true });
        const keys = [{ ...(await exportJWK(pair.privateKey)), alg: 'RS256', use: 'sig', kid: 'k' }];
        const server = http.createServer((request, response) => authority.handle(request, response));
        await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
        authority.issuer = `http://127.0.0.1:${server.address().port}`;
        authority.provider = new Provider(authority.issuer, authority.#configuration(keys));
        authority.callback = authority.provider.callback();
        authority.provider.on('grant.success', (ctx) => authority.grants.push(ctx.oidc.params.grant_type));
        authority.provider.on('grant.error', (ctx, error) => authority.grants.push(error.message));
        defer(t, () => {
            server.closeAllConnections();
            return new Promise((resolve) => server.close(resolve));
        });
        return authority;
    }

    #configuration(keys) {
        return {
            jwks: { keys },
            scopes: ['openid', 'offline_access'],
            clientDefaults: { token_endpoint_auth_method: 'none' },
            clients: [
                {
                    client_id: 'machine',
                    client_secret: 'its-secret',
                    token_endpoint_auth_method: 'client_secret_basic',
                    grant_types: ['client_credentials'],
                    redirect_uris: [],
                    response_types: [],
                },
            ],
            cookies: { keys: ['secret'] },
            findAccount: (ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
            interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
            issueRefreshToken: async (ctx, client, code) => code.scopes.has('offline_access'),
            rotateRefreshToken: () => true,
            features: {
                devInteractions: { enabled: false },
                registration: { enabled: true },
                dPoP: { enabled: true },
                revocation: { enabled: true },
                clientCredentials: { enabled: true },
                introspection: { enabled: true, allowedPolicy: () => true },
                resourceIndicators: {
                    enabled: true,
                    useGrantedResource: () => true,
                    getResourceServerInfo: (ctx, resource) => ({
                        audience: resource,
                        scope: this.given,
                        accessTokenFormat: this.format,
                        accessTokenTTL: this.seconds,
                    }),
                },
            },
        };
    }

    /** The login and consent pages redirect alice at once. */
    async handle(request, response) {
        this.revoked += request.url === '/token/revocation' ? 1 : 0;
        if (request.url === '/token' && this.held) {
            this.holding.push(request.url);
            await this.held;
        }
        if (!request.url.startsWith('/interaction/')) {
            this.callback(request, response);
            return;
        }
        const { prompt, params, session } = await this.provider.interactionDetails(request, response);
        if (prompt.name === 'login') {
            await this.provider.interactionFinished(request, response, { login: { accountId: 'alice' } });
            return;
        }
        const grant = new this.provider.Grant({ accountId: session.accountId, clientId: params.client_id });
        grant.addOIDCScope('openid offline_access');
        grant.addResourceScope(params.resource, params.scope);
        await this.provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
    }

    count(type) {
        return this.grants.filter((one) => one === type).length;
    }
}

/** Our server, which requires tokens of the authority. */
export async function start(t, { args = ['--auth-scope', 'files:read'], tree, format = 'jwt' } = {}) {
    const authority = await Authority.start(t);
    authority.format = format;
    const more = typeof args === 'function' ? args(authority.issuer) : args;
    const server = await serve(t, {
        files: { 'a.txt': 'content' },
        tree,
        args: ['--auth-issuer', authority.issuer, '--auth-leeway', '0', ...more],
    });
    return { authority, server, home: new Home(t) };
}
