// SPDX-License-Identifier: MIT
//
// Kernel data about a running server.

import { readdirSync, readFileSync } from 'node:fs';

/** The contents of `folder`/.../`rest` in /proc of a server; skips entries that vanish. */
function texts({ child }, folder, rest = '') {
    const path = `/proc/${child.pid}/${folder}`;
    return readdirSync(path).flatMap((name) => {
        try {
            return [readFileSync(`${path}/${name}${rest}`, 'utf8')];
        } catch {
            return [];
        }
    });
}

const sum = (numbers) => numbers.reduce((all, n) => all + n, 0);

/** The number of watched directories. */
export const watched = (server) =>
    sum(texts(server, 'fdinfo').map((text) => text.match(/^inotify wd:/gm)?.length ?? 0));

/** The number of voluntary context switches of its threads so far. */
export const sleeps = (server) =>
    sum(texts(server, 'task', '/status').map((text) => Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(text)[1])));
