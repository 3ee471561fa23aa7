// SPDX-License-Identifier: MIT
//
// A TCP relay in front of a server that can break every connection at once, as a network does, and on demand
// those that are silent for `idle` ms, as proxies do.

import net from 'node:net';

import { defer } from './cleanup.mjs';

export async function relay(t, target, { idle = 0 } = {}) {
    const pairs = new Set();
    const listener = net.createServer((near) => {
        const far = net.connect(target.port, '127.0.0.1');
        const pair = [near, far];
        pairs.add(pair);
        near.setTimeout(idle, () => near.destroy());
        for (const socket of pair) {
            socket.on('error', () => {});
            socket.on('close', () => {
                pairs.delete(pair);
                pair.forEach((other) => other.destroy());
            });
        }
        near.pipe(far).pipe(near);
    });
    await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const cut = () => [...pairs].flat().forEach((socket) => socket.destroy());
    defer(t, () => {
        cut();
        listener.close();
    });
    const { port } = listener.address();
    return { port, url: `http://127.0.0.1:${port}/mcp`, cut };
}
