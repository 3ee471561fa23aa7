// SPDX-License-Identifier: MIT
//
// The program on a pipe, spoken to line by line.

import assert from 'node:assert/strict';

import { BIN, Program } from './server.mjs';
import { Tree } from './tree.mjs';
import { DEADLINE, within } from './wait.mjs';
import { freshId, initialize, LATEST_LEGACY, meta } from './rpc.mjs';

export class Pipe extends Program {
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

    /** The next line of output as JSON; anything else on standard output is a failure. */
    async message(match = () => true, what = 'a message', ms = DEADLINE) {
        return JSON.parse(await this.stdout.next((line) => match(JSON.parse(line)), what, ms));
    }

    /** Send a request without a claim and await its answer. */
    async ask(method, params, id = freshId()) {
        await this.write({ jsonrpc: '2.0', id, method, ...(params && { params }) });
        return this.message((m) => m.id === id && !m.method, `the answer to ${method}`);
    }

    /** The same in the modern era. */
    modern(method, params = {}, id = freshId()) {
        return this.ask(method, { _meta: meta(), ...params }, id);
    }

    async handshake(version = LATEST_LEGACY) {
        const hello = initialize(version);
        await this.write(hello);
        const answer = await this.message((m) => m.id === hello.id, 'the answer to initialize');
        await this.write({ jsonrpc: '2.0', method: 'notifications/initialized' });
        return answer.result;
    }

    /** End of input: the program must end by itself, status 0. */
    async eof() {
        this.child.stdin.end();
        const end = await within(this.exited, `${this.name} to end at end of input`);
        this.check(end);
        return assert.equal(end.code, 0);
    }
}
