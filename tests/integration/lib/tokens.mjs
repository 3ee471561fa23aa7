// SPDX-License-Identifier: MIT
//
// Tokens in a file (--auth-tokens), and a server as seen by each token holder.

import { createHash, randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';

import { Tree } from './tree.mjs';

/** The same server for a client with `token`; null: without a token. */
export const as = (server, token) => {
    const other = Object.create(server);
    other.headers = token === null ? {} : { Authorization: `Bearer ${token}` };
    return other;
};

/** A file of tokens: `give(name, ...scopes)` writes a line and returns the token. */
export class TokenFile {
    lines = new Map();

    constructor(t) {
        this.path = new Tree(t).at('tokens');
        this.write();
    }

    write(text = [...this.lines.values()].join('')) {
        writeFileSync(this.path, text, { mode: 0o600 });
    }

    give(name, ...scopes) {
        const token = randomBytes(32).toString('base64url');
        const hash = createHash('sha256').update(token).digest('hex');
        this.lines.set(token, `${[name, hash, ...scopes].join(' ')}\n`);
        this.write();
        return token;
    }

    take(token) {
        this.lines.delete(token);
        this.write();
    }

    get args() {
        return ['--auth-tokens', this.path];
    }
}

/** The parts of a challenge: { scheme, error, scope, ... }. */
export function challenge(response) {
    const field = response.headers.get('www-authenticate') ?? '';
    const [, scheme, rest] = /^(\S+) ?(.*)$/.exec(field) ?? [];
    const said = { scheme };
    for (const [, name, value] of (rest ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
        said[name] = value.replace(/\\(.)/g, '$1');
    }
    return said;
}

/** SIGHUP, and the log line with its result. */
export async function reloaded(server, expected = /reloaded.*tokens/) {
    await server.signal('SIGHUP', server.lines.next((line) => expected.test(line), `a line like ${expected}`));
}
