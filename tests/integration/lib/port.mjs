// SPDX-License-Identifier: MIT

import net from 'node:net';

/** A port nobody listens on, for programs that cannot choose one themselves. */
export async function freePort() {
    const listener = net.createServer();
    await new Promise((resolve) => {
        listener.listen(0, '127.0.0.1', resolve);
    });
    const { port } = listener.address();
    await new Promise((resolve) => {
        listener.close(resolve);
    });
    return port;
}

/** Does anybody listen there? For programs that do not say when. */
export const isOpen = (port) =>
    new Promise((resolve) => {
        const socket = net.connect(port, '127.0.0.1', () => {
            socket.destroy();
            resolve(true);
        });
        socket.on('error', () => resolve(false));
    });
