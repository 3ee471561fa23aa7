// SPDX-License-Identifier: MIT
//
// A program on a real terminal (a pty of script(1)): the test types keys and awaits output. Invariant: each match
// starts after the previous match, so an old screen never satisfies a new wait.

import fs from 'node:fs';

import { Program } from './server.mjs';
import { within } from './wait.mjs';

const SCRIPT = '/usr/bin/script';

/** The reason if terminals are unavailable, or false: for `skip`. */
export const noTerminal = !fs.existsSync(SCRIPT) && 'script(1) is not installed';

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;

export class Terminal {
    /** All output so far. */
    screen = '';
    #read = 0;
    #wake = () => {};

    /** `words`: the program and its arguments. `options`: cwd, env. */
    constructor(t, words, options = {}) {
        const line = `stty rows 50 cols 200; exec ${words.map(quote).join(' ')}`;
        const env = { TERM: 'xterm', NO_COLOR: '1', ...options.env };
        this.program = new Program(t, SCRIPT, ['-qec', line, '/dev/null'], { ...options, env, mayFail: true });
        this.program.child.stdout.setEncoding('utf8').on('data', (text) => {
            this.screen += text;
            this.#wake();
        });
        this.program.closed.then(() => this.#wake());
    }

    type(keys) {
        this.program.child.stdin.write(keys);
    }

    /** Wait for `pattern` (a string or an expression) after the previous match. */
    async shows(pattern) {
        const look = () => {
            const rest = this.screen.slice(this.#read);
            const at = typeof pattern === 'string' ? rest.indexOf(pattern) : rest.search(pattern);
            const length = typeof pattern === 'string' ? pattern.length : rest.match(pattern)?.[0].length;
            if (at >= 0) {
                this.#read += at + length;
            }
            return at >= 0;
        };
        const seen = new Promise((resolve, reject) => {
            this.#wake = () => {
                if (look()) {
                    this.#wake = () => {}; // later output belongs to later waits
                    resolve();
                } else if (!this.program.running) {
                    reject(new Error(`the program ended and never showed ${pattern}:\n${this.screen}`));
                }
            };
            this.#wake();
        });
        await within(seen, () => `${pattern} on the terminal; shown: ${JSON.stringify(this.screen)}`);
    }

    /** The exit: { code, signal }. */
    async ended() {
        return within(this.program.closed, () => `the program to end; shown: ${JSON.stringify(this.screen)}`);
    }
}
