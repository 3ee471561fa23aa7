// SPDX-License-Identifier: MIT

import net from 'node:net';

// Below the ephemeral range: otherwise another program may take the port before its use.
const LOWEST = 10_000;
const HIGHEST = 32_000;

const given = new Set();

const isFree = (port) =>
    new Promise((resolve) => {
        const listener = net.createServer();
        listener.on('error', () => resolve(false));
        listener.listen(port, '127.0.0.1', () => listener.close(() => resolve(true)));
    });

/** An unused port, for programs that cannot choose one themselves; another port each time. */
export async function freePort() {
    for (let i = 0; i < 1000; i += 1) {
        const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
        if (!given.has(port) && await isFree(port)) {
            given.add(port);
            return port;
        }
    }
    throw new Error(`no port between ${LOWEST} and ${HIGHEST} is free`);
}

/** Returns true if the port has a listener. For programs without a ready message. */
export const isOpen = (port) =>
    new Promise((resolve) => {
        const socket = net.connect(port, '127.0.0.1', () => {
            socket.destroy();
            resolve(true);
        });
        socket.on('error', () => resolve(false));
    });
