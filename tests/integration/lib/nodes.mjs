// SPDX-License-Identifier: MIT
//
// Several tidings nodes on one store. Each has a fixed port and its own relay to every database server, so that a
// test can isolate a single node. Tests kill, stop, drain and restart nodes one by one.

import { freePort } from './port.mjs';
import { relay } from './proxy.mjs';
import { serve, serveExample } from './server.mjs';
import { within } from './wait.mjs';

export class Node {
    /**
     * `databases`: servers whose `port` may change later; `args` as for serve(); `isDirect`: no relays; `example`: an
     * example program instead of ours.
     */
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

    /** Start it, again or for the first time, and wait until it serves. */
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

    /** Suspend it until `go`, without its knowledge. */
    pause() {
        this.program.child.kill('SIGSTOP');
    }

    go() {
        this.program.child.kill('SIGCONT');
    }

    /** SIGTERM: it stops cleanly within `ms`. */
    async drain(ms = 30_000) {
        this.program.child.kill('SIGTERM');
        this.program.check(await within(this.program.exited, `${this.name} to end`, ms));
    }

    /** Isolate it from its databases: connections break and new ones are rejected, or (`quietly`) no data passes. */
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

/** `count` serving nodes, named a, b, c, ... */
export async function startNodes(t, count, options) {
    const names = [...Array(count).keys()].map((n) => String.fromCharCode(97 + n));
    const nodes = await Promise.all(names.map((name) => Node.make(t, name, options)));
    for (const node of nodes) { // the first node creates the tables
        await node.start();
    }
    return nodes;
}
