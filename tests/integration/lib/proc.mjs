// SPDX-License-Identifier: MIT
//
// What the kernel says of a running server.

import { readdirSync, readFileSync } from 'node:fs';

/** The texts of `folder`/…`rest` in /proc of a server; what goes meanwhile is left out. */
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

/** How many directories it watches. */
export const watched = (server) =>
    sum(texts(server, 'fdinfo').map((text) => text.match(/^inotify wd:/gm)?.length ?? 0));

/** How often its threads went to sleep so far. */
export const sleeps = (server) =>
    sum(texts(server, 'task', '/status').map((text) => Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(text)[1])));
