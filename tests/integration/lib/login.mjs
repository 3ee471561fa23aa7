// SPDX-License-Identifier: MIT
//
// `tidings login` with a user who agrees: a separate home for the tokens, and a browser that follows redirects with
// cookies.

import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';

import { BIN, Program, run } from './server.mjs';
import { Tree } from './tree.mjs';
import { DEADLINE, within } from './wait.mjs';

/** The token file. */
export class Home {
    constructor(t) {
        this.tree = new Tree(t);
        this.env = { HOME: this.tree.path, XDG_STATE_HOME: this.tree.at('state'), BROWSER: '', DISPLAY: '' };
        this.file = this.tree.at('state/tidings/tokens.json');
    }

    tokens() {
        return JSON.parse(readFileSync(this.file, 'utf8')).tokens;
    }

    mode() {
        return statSync(this.file).mode & 0o777;
    }

    /** Every saved secret. */
    secrets() {
        return this.tokens().flatMap((t) => [t.access_token, t.refresh_token].filter(Boolean));
    }

    run(t, args, options = {}) {
        return run(t, args, { ...options, env: { ...this.env, ...options.env } });
    }
}

/** GET an address and follow redirects like a browser with cookies. Returns the last answer. */
export async function browse(address) {
    const cookies = new Map();
    let url = address;
    for (let i = 0; i < 20; i += 1) {
        const jar = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const answer = await fetch(url, { redirect: 'manual', headers: jar ? { Cookie: jar } : {} });
        for (const line of answer.headers.getSetCookie()) {
            const [pair] = line.split(';');
            cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
        }
        const next = answer.headers.get('location');
        if (!next) {
            return { status: answer.status, url, text: await answer.text() };
        }
        url = new URL(next, url).href;
    }
    throw new Error(`no end of redirects at ${url}`);
}

/**
 * `tidings login URL`, where `person` (the browser by default) receives the address. Returns { code, stderr, address
 * }; `address` is undefined if login prints none.
 */
export async function login(t, home, url, { args = [], env = {}, person = browse } = {}) {
    const program = new Program(t, BIN, ['login', url, ...args], { mayFail: true, env: { ...home.env, ...env } });
    program.child.stdin.end();
    const shown = program.lines.next((line) => /^https?:/.test(line), 'the address').catch(() => undefined);
    const address = await Promise.race([shown, program.exited.then(() => undefined)]);
    const answer = address && (await person(address));
    const { code } = await within(program.closed, 'the end of the login', DEADLINE);
    return { code, stderr: program.stderr, address, answer };
}

/** The same login, which must succeed. */
export async function logIn(t, home, url, options) {
    const end = await login(t, home, url, options);
    assert.equal(end.code, 0, end.stderr);
    assert.equal(home.mode(), 0o600);
    for (const secret of home.secrets()) {
        assert.ok(!end.stderr.includes(secret), 'a token is printed');
    }
    return end;
}
