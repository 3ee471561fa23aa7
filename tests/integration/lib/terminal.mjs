// SPDX-License-Identifier: MIT
//
// A program on a real terminal (a pty of script(1)): keys are typed, what is shown is awaited.
// Invariant: whatever was awaited is awaited behind what was awaited before, so an old screen never answers for a new one.

import fs from 'node:fs';

import { Program } from './server.mjs';
import { within } from './wait.mjs';

const SCRIPT = '/usr/bin/script';

/** Why there are no terminals here, or false: for `skip`. */
export const noTerminal = !fs.existsSync(SCRIPT) && 'script(1) is not installed';

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`;

export class Terminal {
    /** All that was shown. */
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

    /** Wait until `pattern` (a text or an expression) is shown behind what was awaited before. */
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
                    this.#wake = () => {}; // what is shown later is for who waits then
                    resolve();
                } else if (!this.program.running) {
                    reject(new Error(`the program ended and never showed ${pattern}:\n${this.screen}`));
                }
            };
            this.#wake();
        });
        await within(seen, () => `${pattern} on the terminal; shown: ${JSON.stringify(this.screen)}`);
    }

    /** Its end: { code, signal }. */
    async ended() {
        return within(this.program.closed, () => `the program to end; shown: ${JSON.stringify(this.screen)}`);
    }
}
