// SPDX-License-Identifier: MIT
//
// The program on a pipe, with line-based messages.

import assert from 'node:assert/strict';

import { BIN, Program } from './server.mjs';
import { Tree } from './tree.mjs';
import { DEADLINE, within } from './wait.mjs';
import { asking } from './rpc.mjs';

export class Pipe extends asking(Program) {
    static open(t, options = {}) {
        const tree = options.tree ?? new Tree(t, options.files);
        const args = ['serve', '--stdio', ...(options.args ?? []), tree.path];
        const pipe = new Pipe(t, BIN, args, { env: options.env });
        pipe.tree = tree;
        pipe.uri = (name) => tree.uri(name);
        pipe.output();
        return pipe;
    }

    /** Write raw text; a newline is added to an object only. */
    write(message) {
        const text =
            typeof message === 'object' && !Buffer.isBuffer(message)
                ? `${JSON.stringify(message)}\n`
                : message;
        return new Promise((resolve) => this.child.stdin.write(text, resolve));
    }

    /** The next line of output as JSON; any other standard output is a failure. */
    async message(match = () => true, what = 'a message', ms = DEADLINE) {
        return JSON.parse(await this.stdout.next((line) => match(JSON.parse(line)), what, ms));
    }

    /** End of input: the program must exit with status 0. */
    async eof() {
        this.child.stdin.end();
        const end = await within(this.exited, `${this.name} to end at end of input`);
        this.check(end);
        return assert.equal(end.code, 0);
    }
}
