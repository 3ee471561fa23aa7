// SPDX-License-Identifier: MIT
//
// A TCP relay in front of a server. It can break every connection at once, like a network, reject new ones, delay all
// data for a while (like lost packets), and break connections that are silent for `idle` ms, like proxies.

import net from 'node:net';

import { defer } from './cleanup.mjs';
import { reset } from './reset.mjs';

export async function relay(t, target, { idle = 0 } = {}) {
    const pairs = new Set();
    const state = { stalled: false, refusing: false };

    const carry = (from, to) => {
        from.on('data', (chunk) => {
            if (!to.write(chunk)) {
                from.pause();
            }
        });
        to.on('drain', () => state.stalled || from.resume());
        from.on('end', () => to.end());
    };
    const listener = net.createServer({ pauseOnConnect: true, allowHalfOpen: true }, (near) => {
        if (state.refusing) {
            near.on('error', () => {});
            reset(near);
            return;
        }
        const far = net.connect({ port: target.port, host: '127.0.0.1', allowHalfOpen: true });
        const pair = [near, far];
        pairs.add(pair);
        near.setTimeout(idle, () => near.destroy());
        for (const socket of pair) {
            socket.setNoDelay(true);
            socket.on('error', () => {});
            socket.on('close', () => {
                pairs.delete(pair);
                pair.forEach((other) => other.destroy());
            });
        }
        carry(near, far);
        carry(far, near);
        near.resume();
        if (state.stalled) {
            pair.forEach((socket) => socket.pause());
        }
    });
    await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const cut = () => [...pairs].flat().forEach((socket) => socket.destroy());
    /** Delay data in both directions until the next command. */
    const stall = (isStalled = true) => {
        state.stalled = isStalled;
        [...pairs].flat().forEach((socket) => (isStalled ? socket.pause() : socket.resume()));
    };
    /** Break all connections and all new ones until the next command. */
    const refuse = (isRefusing = true) => {
        state.refusing = isRefusing;
        if (isRefusing) {
            cut();
        }
    };
    defer(t, () => {
        cut();
        listener.close();
    });
    const { port } = listener.address();
    return { port, url: `http://127.0.0.1:${port}/mcp`, cut, stall, refuse };
}
