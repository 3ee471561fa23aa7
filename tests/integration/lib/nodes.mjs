// SPDX-License-Identifier: MIT
//
// Several tidings nodes on one store, as a test needs them: each on a port that stays its own, each with a relay of its own
// between it and every database server, so that one of them can be cut off while the others are not. They are
// killed, stopped, drained and started again one by one.

import { freePort } from './port.mjs';
import { relay } from './proxy.mjs';
import { serve, serveExample } from './server.mjs';
import { within } from './wait.mjs';

export class Node {
    /** `databases`: servers whose `port` may be another one later; `args` as for serve(); `isDirect`: no relays; `example`: that
     *  example program, not ours. */
    static async make(t, name, { databases, args = [], schema, extra = '', isDirect = false, example }) {
        const node = new Node();
        Object.assign(node, { t, name, args, example });
        node.port = await freePort();
        node.relays = isDirect ? [] : await Promise.all(databases.map((database) => relay(t, database)));
        const hosts = (isDirect ? databases : node.relays).map(({ port }) => `127.0.0.1:${port}`).join(',');
        const path = schema ? `&options=-csearch_path%3D${schema}` : '';
        const several = databases.length > 1 ? '&target_session_attrs=read-write' : '';
        node.store = `postgres://tidings@${hosts}/postgres?sslmode=disable${several}${path}${extra}`;
        return node;
    }

    get running() {
        return this.program?.running ?? false;
    }

    /** Start it, again or for the first time: it serves when this is over. */
    async start() {
        const args = ['--entities', this.store, ...this.args];
        this.program = this.example
            ? await serveExample(this.t, this.example, args)
            : await serve(this.t, { http: `127.0.0.1:${this.port}`, args, mounts: [], mayFail: true });
        return this;
    }

    /** kill -9 */
    async kill() {
        await this.program.kill();
    }

    /** It does nothing until `go`, and does not know. */
    pause() {
        this.program.child.kill('SIGSTOP');
    }

    go() {
        this.program.child.kill('SIGCONT');
    }

    /** SIGTERM: it ends in order, which may take until `ms`. */
    async drain(ms = 30_000) {
        this.program.child.kill('SIGTERM');
        this.program.check(await within(this.program.exited, `${this.name} to end`, ms));
    }

    /** From its databases: connections break and new ones are refused, or (`quietly`) nothing comes through. */
    cut({ quietly = false } = {}) {
        this.relays.forEach((one) => (quietly ? one.stall() : one.refuse()));
    }

    mend() {
        this.relays.forEach((one) => {
            one.refuse(false);
            one.stall(false);
        });
    }
}

/** `count` nodes that serve, named a, b, c, … */
export async function startNodes(t, count, options) {
    const names = [...Array(count).keys()].map((n) => String.fromCharCode(97 + n));
    const nodes = await Promise.all(names.map((name) => Node.make(t, name, options)));
    for (const node of nodes) { // the first of them makes what there is to make
        await node.start();
    }
    return nodes;
}
