// SPDX-License-Identifier: MIT
//
// `tidings login` with untrusted servers and authorization servers. Each does one thing wrong and is rejected before
// it gains anything. Its strings reach the terminal only as plain text.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { describe, test } from 'node:test';

import { Certificates } from './lib/certs.mjs';
import { defer } from './lib/cleanup.mjs';
import { browse, Home, login, logIn } from './lib/login.mjs';
import { eventually } from './lib/wait.mjs';

/** A listener at 127.0.0.1 that records its requests. */
async function listen(t, answer) {
    const asked = [];
    const server = http.createServer(async (request, response) => {
        let body = '';
        for await (const part of request.setEncoding('utf8')) {
            body += part;
        }
        asked.push({ path: request.url, method: request.method, headers: request.headers, body });
        answer(request, response, body);
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    defer(t, () => {
        server.closeAllConnections();
        return new Promise((resolve) => server.close(resolve));
    });
    return { url: `http://127.0.0.1:${server.address().port}`, asked };
}

const json = (response, body, status = 200) => {
    response.writeHead(status, { 'Content-Type': 'application/json' });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
};

/** Endless bytes, until the client disconnects. */
function endless(response) {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    const more = () => {
        while (!response.destroyed && response.write(' '.repeat(65536)));
        if (!response.destroyed) {
            response.once('drain', more);
        }
    };
    more();
}

/**
 * A server and its authorization server, correct except for the overrides in `wrong`: `prm`, `metadata`, `token` and
 * `answer` (the query of the redirect). Each override receives the correct value and returns its replacement, or
 * answers by itself.
 */
async function strangers(t, wrong = {}) {
    const world = { elsewhere: await listen(t, (request, response) => json(response, {})) };
    const change = (name, response, proper) => {
        const body = wrong[name] ? wrong[name](proper, world, response) : proper;
        if (body !== undefined) {
            json(response, body);
        }
    };
    world.issuer = await listen(t, (request, response, body) => {
        const { pathname, searchParams } = new URL(request.url, world.issuer.url);
        const { url } = world.issuer;
        if (pathname === '/.well-known/oauth-authorization-server') {
            change('metadata', response, {
                issuer: url,
                authorization_endpoint: `${url}/authorize`,
                token_endpoint: `${url}/token`,
                registration_endpoint: `${url}/register`,
                code_challenge_methods_supported: ['S256'],
                token_endpoint_auth_methods_supported: ['none'],
                authorization_response_iss_parameter_supported: true,
            });
        } else if (pathname === '/register') {
            json(response, { ...JSON.parse(body), client_id: 'c' }, 201);
        } else if (pathname === '/authorize') {
            const proper = { code: 'the-code', state: searchParams.get('state'), iss: url };
            const said = wrong.answer ? wrong.answer(proper, world) : proper;
            const where = new URL(searchParams.get('redirect_uri'));
            Object.entries(said).forEach(([name, value]) => where.searchParams.set(name, value));
            response.writeHead(302, { Location: where.href }).end();
        } else if (pathname === '/device') {
            const where = wrong.verification ?? `${url}/enter`;
            json(response, { device_code: 'd', user_code: 'ABCD-EFGH', verification_uri: where, expires_in: 60, interval: 1 });
        } else if (pathname === '/token') {
            change('token', response, { access_token: 'the-token', token_type: 'Bearer', expires_in: 60 });
        } else {
            json(response, {}, 404);
        }
    });
    world.server = await listen(t, (request, response) => {
        const { url } = world.server;
        if (request.url === '/.well-known/oauth-protected-resource/mcp') {
            change('prm', response, { resource: `${url}/mcp`, authorization_servers: [world.issuer.url] });
            return;
        }
        const named = `resource_metadata="${url}/.well-known/oauth-protected-resource/mcp"`;
        response.writeHead(401, { 'WWW-Authenticate': wrong.challenge ?? `Bearer ${named}` }).end();
    });
    world.mcp = `${world.server.url}/mcp`;
    world.was = (who, path) => world[who].asked.some((one) => one.path.startsWith(path));
    return world;
}

const redirect = (where) => (proper, world, response) => {
    response.writeHead(where === 'token' ? 307 : 302, { Location: `${world.elsewhere.url}/taken` }).end();
};

// The wrong behaviour, the expected error message, and the requests that must not follow.
const refused = [
    {
        name: 'metadata of another resource',
        wrong: { prm: (proper) => ({ ...proper, resource: 'https://bank.example/mcp' }) },
        says: /that of another resource: 'https:\/\/bank\.example\/mcp'/,
        unasked: '/.well-known/oauth-authorization-server',
    },
    {
        name: 'metadata of another issuer',
        wrong: { metadata: (proper) => ({ ...proper, issuer: 'https://bank.example' }) },
        says: /is that of 'https:\/\/bank\.example': it is not used/,
        unasked: '/register',
    },
    {
        name: 'metadata that lead elsewhere',
        wrong: { metadata: redirect('metadata') },
        says: /redirects are not followed/,
        unasked: '/register',
    },
    {
        name: 'metadata of the server that lead elsewhere',
        wrong: { prm: redirect('prm') },
        says: /redirects are not followed/,
        unasked: '/.well-known',
    },
    {
        name: 'no PKCE with S256',
        wrong: { metadata: (proper) => ({ ...proper, code_challenge_methods_supported: ['plain'] }) },
        says: /does not say that it knows PKCE with S256/,
        unasked: '/register',
    },
    {
        name: 'no word about PKCE',
        wrong: { metadata: (proper) => ({ ...proper, code_challenge_methods_supported: undefined }) },
        says: /does not say that it knows PKCE with S256/,
        unasked: '/register',
    },
    {
        name: 'a token endpoint without TLS on another machine',
        wrong: { metadata: (proper) => ({ ...proper, token_endpoint: 'http://192.0.2.1/token' }) },
        says: /'token_endpoint' is 'http:\/\/192\.0\.2\.1\/token': only https is used/,
        unasked: '/register',
    },
    {
        name: 'an authorization endpoint that is a script',
        wrong: { metadata: (proper) => ({ ...proper, authorization_endpoint: 'javascript:alert(1)//https://' }) },
        says: /only https is used/,
        unasked: '/register',
    },
    {
        name: 'an authorization endpoint that is a file',
        wrong: { metadata: (proper) => ({ ...proper, authorization_endpoint: 'file:///etc/passwd' }) },
        says: /only https is used/,
        unasked: '/register',
    },
    {
        name: 'metadata without an end',
        wrong: { metadata: (proper, world, response) => endless(response) },
        says: /larger than|too large/,
        unasked: '/register',
    },
    {
        name: 'an answer in the browser from another issuer',
        wrong: { answer: (proper) => ({ ...proper, iss: 'https://bank.example' }) },
        says: /is not from 'http:\/\/127\.0\.0\.1:\d+', which was asked: it is not used/,
        unasked: '/token',
    },
    {
        name: 'an answer in the browser without the issuer that was promised',
        wrong: { answer: ({ code, state }) => ({ code, state }) },
        says: /which was asked: it is not used/,
        unasked: '/token',
    },
    {
        name: 'a refusal with commands for the terminal',
        wrong: {
            answer: ({ state, iss }) => ({ state, iss, error: 'no\x1b[2J', error_description: '\x1b]0;evil\x07\nx' }),
        },
        says: /says no \(no\?\[2J: \?\]0;evil\?\?x\)/,
        unasked: '/token',
    },
    {
        name: 'a token endpoint that leads elsewhere',
        wrong: { token: redirect('token') },
        says: /redirects are not followed/,
    },
    {
        name: 'a token without an end',
        wrong: { token: (proper, world, response) => endless(response) },
        says: /larger than|too large/,
    },
    {
        name: 'a token that would be another header',
        wrong: { token: (proper) => ({ ...proper, access_token: 'a\r\nCookie: x' }) },
        says: /'access_token' is not a string of visible characters/,
    },
    {
        name: 'a refused code, with commands for the terminal',
        wrong: {
            token: (proper, world, response) =>
                json(response, { error: 'invalid_grant', error_description: '\x1b[31mred\u202e' }, 400),
        },
        says: /invalid_grant: \?\[31mred\?\?\?\)/,
    },
];

describe('untrusted servers', { concurrency: 4 }, () => {
    for (const { name, wrong, says, unasked } of refused) {
        test(`${name}: login rejects it`, async (t) => {
            const world = await strangers(t, wrong);
            const home = new Home(t);
            const end = await login(t, home, world.mcp);
            assert.notEqual(end.code, 0);
            assert.match(end.stderr, says);
            assert.ok(!/[\x00-\x09\x0b-\x1f\x7f]/.test(end.stderr), 'control characters are printed');
            assert.equal(unasked && world.was('issuer', unasked), unasked && false);
            assert.equal(world.elsewhere.asked.length, 0);
            const listed = await home.run(t, ['login', '--list', '--json']);
            assert.equal(listed.stdout, '');
        });
    }

    test('metadata address on another host is not contacted', async (t) => {
        const elsewhere = await listen(t, (request, response) => json(response, {}));
        const world = await strangers(t, { challenge: `Bearer resource_metadata="${elsewhere.url}/prm"` });
        await logIn(t, new Home(t), world.mcp);
        assert.equal(elsewhere.asked.length, 0);
    });

    test('callback with a wrong state is ignored, and the code is accepted once', async (t) => {
        const world = await strangers(t);
        const home = new Home(t);
        const person = async (address) => {
            const callback = new URL(new URL(address).searchParams.get('redirect_uri'));
            const state = new URL(address).searchParams.get('state');
            const visit = async (query, headers = {}) =>
                (await fetch(`${callback.href}?${new URLSearchParams(query)}`, { headers })).status;
            assert.equal(callback.hostname, '127.0.0.1');
            assert.equal(await visit({ code: 'evil', state: 'x' }), 400);
            assert.equal(await visit({ code: 'evil' }), 400);
            assert.equal(await visit({ code: 'evil', error: 'e', state }), 400);
            // A page with another name that resolves to 127.0.0.1.
            const rebound = await new Promise((resolve) => {
                http.get(`${callback.href}?code=evil&state=${state}`, { headers: { Host: 'evil.example' } }, (r) =>
                    resolve(r.statusCode),
                );
            });
            assert.equal(rebound, 404);
            return browse(address);
        };
        const end = await logIn(t, home, world.mcp, { person });
        assert.equal(end.answer.status, 200);
        const forms = world.issuer.asked.filter((one) => one.path === '/token');
        assert.equal(forms.length, 1);
        const form = new URLSearchParams(forms[0].body);
        assert.equal(form.get('code'), 'the-code');
        assert.equal(form.get('resource'), world.mcp);
    });

    test('token file readable by others is reported and not used', async (t) => {
        const world = await strangers(t);
        const home = new Home(t);
        await logIn(t, home, world.mcp);
        chmodSync(home.file, 0o644);
        const before = world.server.asked.length;
        for (const args of [['ls', world.mcp], ['login', '--list'], ['logout', world.mcp]]) {
            const end = await home.run(t, args);
            assert.notEqual(end.code, 0);
            assert.match(end.stderr, /others can read or write it \(mode 0644\)/);
        }
        assert.equal(world.server.asked.length, before);
    });

    test('device login shows the code and polls until approval', async (t) => {
        const metadata = (proper, world) => ({ ...proper, device_authorization_endpoint: `${world.issuer.url}/device` });
        let polls = 0;
        const token = (proper, world, response) => {
            polls += 1;
            return polls > 1 ? proper : json(response, { error: 'authorization_pending' }, 400);
        };
        const world = await strangers(t, { metadata, token });
        const home = new Home(t);
        const end = await home.run(t, ['login', world.mcp, '--device']);
        assert.equal(end.code, 0, end.stderr);
        assert.match(end.stderr, /open http:\/\/127\.0\.0\.1:\d+\/enter on any device and enter the code\n\n {4}ABCD-EFGH/);
        assert.equal(polls, 2);
        assert.equal(home.tokens()[0].access_token, 'the-token');

        const evil = await strangers(t, { metadata, verification: 'http://evil.example/\x1b[2J' });
        const refusal = await new Home(t).run(t, ['login', evil.mcp, '--device']);
        assert.notEqual(refusal.code, 0);
        assert.ok(!/[\x1b]/.test(refusal.stderr));
        const none = await new Home(t).run(t, ['login', (await strangers(t)).mcp, '--device']);
        assert.match(none.stderr, /offers no login with a code on another device/);
    });

    test('secret is not sent to a later authorization server of the same resource', async (t) => {
        const asClient = { metadata: (proper) => ({ ...proper, token_endpoint_auth_methods_supported: ['client_secret_basic'] }) };
        const other = await strangers(t, asClient);
        let issuers;
        const prm = (proper) => ({ ...proper, authorization_servers: issuers ?? proper.authorization_servers });
        const world = await strangers(t, { ...asClient, prm });
        const home = new Home(t);
        const args = ['login', world.mcp, '--as-client', '--client-id', 'machine'];
        const env = { TIDINGS_CLIENT_SECRET: 'its-secret' };
        const first = await home.run(t, args, { env });
        assert.equal(first.code, 0, first.stderr);
        issuers = [other.issuer.url];
        const second = await home.run(t, args, { env });
        assert.notEqual(second.code, 0);
        assert.match(second.stderr, /it is not shown there; log out first/);
        assert.ok(!other.was('issuer', '/token'));
        assert.equal(home.tokens()[0].issuer, world.issuer.url);
        assert.equal((await home.run(t, ['logout', world.mcp])).code, 0);
        const meant = await home.run(t, args, { env });
        assert.equal(meant.code, 0, meant.stderr);
        assert.ok(other.was('issuer', '/token'));
    });

    test('refresh token is kept until the authorization server rejects it', async (t) => {
        const certs = new Certificates(t);
        certs.make('server');
        const key = { key: certs.text('server.key'), cert: certs.text('server.pem') };
        const between = https.createServer(key, (request, response) => json(response, { error: 'invalid_grant' }, 400));
        await new Promise((resolve) => between.listen(0, '127.0.0.1', resolve));
        defer(t, () => between.close());
        let say;
        const token = (proper, world, response) =>
            say ? say(world, response) : { ...proper, refresh_token: 'the-refresh-token' };
        const world = await strangers(t, { token });
        const home = new Home(t);
        await logIn(t, home, world.mcp);
        const kept = () => home.tokens()[0].refresh_token;
        for (const [name, answer, says] of [
            ['a page', (_, response) => json(response, '<h1>Log in to the network</h1>', 403), /HTTP 403/],
            ['nothing', (_, response) => json(response, {}, 404), /HTTP 404/],
            ['a redirect', (there, response) => redirect('token')(null, there, response), /redirects are not followed/],
        ]) {
            say = answer;
            const end = await home.run(t, ['ls', world.mcp]);
            assert.notEqual(end.code, 0, name);
            assert.match(end.stderr, says);
            assert.equal(kept(), 'the-refresh-token', name);
        }
        // An impostor with its own certificate.
        const [one] = home.tokens();
        const write = (token_endpoint) => writeFileSync(home.file, JSON.stringify({ tokens: [{ ...one, token_endpoint }] }));
        write(`https://127.0.0.1:${between.address().port}/token`);
        assert.notEqual((await home.run(t, ['ls', world.mcp])).code, 0);
        assert.equal(kept(), 'the-refresh-token', 'a certificate');
        write(one.token_endpoint);
        say = (_, response) => json(response, { error: 'invalid_grant' }, 403);
        assert.match((await home.run(t, ['ls', world.mcp])).stderr, /cannot be renewed: log in again/);
        assert.equal(kept(), undefined);
    });

    test('login uses only the named authorization server', async (t) => {
        const second = await strangers(t);
        const prm = (proper) => ({ ...proper, authorization_servers: [...proper.authorization_servers, second.issuer.url] });
        const world = await strangers(t, { prm });
        const home = new Home(t);
        const wrong = await login(t, home, world.mcp, { args: ['--issuer', 'https://bank.example'] });
        assert.notEqual(wrong.code, 0);
        assert.match(wrong.stderr, /takes no tokens of 'https:\/\/bank\.example'/);
        assert.ok(wrong.stderr.includes(`it names '${world.issuer.url}', '${second.issuer.url}'`), wrong.stderr);
        await logIn(t, home, world.mcp, { args: ['--issuer', second.issuer.url] });
        assert.equal(home.tokens()[0].issuer, second.issuer.url);
        assert.equal(world.issuer.asked.length, 0);
        // The next login needs no name of the authorization server.
        await logIn(t, home, world.mcp);
        assert.equal(home.tokens().length, 1);
        assert.equal(world.issuer.asked.length, 0);
    });

    test('unsupported login address is rejected with the accepted ones', async (t) => {
        for (const address of ['tcp://127.0.0.1:1', 'unix:/tmp/x']) {
            const end = await new Home(t).run(t, ['login', address]);
            assert.equal(end.code, 64);
            assert.match(end.stderr, /accepted: https:\/\/…, wss:\/\/…, and http:\/\/…, ws:\/\/… on this machine/);
        }
        for (const command of ['login', 'logout']) {
            const end = await new Home(t).run(t, [command, 'ftp://x/']);
            assert.equal(end.code, 64);
            assert.match(end.stderr, /a server is a name, or at https:\/\/…, http:\/\/…, wss:.*not 'ftp:\/\/x\/'/);
        }
    });

    test('browser is started with the address and without secrets', async (t) => {
        const world = await strangers(t);
        const home = new Home(t);
        home.tree.write('browser', `#!/bin/sh\nexec 3>${home.tree.at('seen')}\nprintf '%s\\n' "$#" "$1" "$TIDINGS_CLIENT_SECRET$TIDINGS_TOKEN" >&3\n`);
        chmodSync(home.tree.at('browser'), 0o755);
        const env = { BROWSER: home.tree.at('browser'), TIDINGS_CLIENT_SECRET: 'its-secret', TIDINGS_TOKEN: 'a-token' };
        const seen = () => (existsSync(home.tree.at('seen')) ? readFileSync(home.tree.at('seen'), 'utf8').split('\n') : []);
        const end = await login(t, home, world.mcp, { args: ['--client-id', 'c'], env, person: async (address) => {
            await eventually(() => seen().length === 4, 'the browser was started');
            assert.deepEqual(seen(), ['1', address, '', '']);
            return browse(address);
        } });
        assert.equal(end.code, 0, end.stderr);
    });

    test('secret on the command line is rejected', async (t) => {
        const end = await new Home(t).run(t, ['login', 'https://a.example/mcp', '--client-id', 'c', '--client-secret', 's']);
        assert.notEqual(end.code, 0);
        assert.match(end.stderr, /not given on the command line.*TIDINGS_CLIENT_SECRET/);
    });

    test('command without a login prints the login command', async (t) => {
        const world = await strangers(t);
        const end = await new Home(t).run(t, ['ls', world.mcp]);
        assert.notEqual(end.code, 0);
        assert.match(end.stderr, new RegExp(`'tidings login ${world.mcp}' logs in`));
    });
});
