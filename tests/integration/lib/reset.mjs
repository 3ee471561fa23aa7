// SPDX-License-Identifier: MIT

/**
 * RST instead of FIN. Node.js cannot reset a socket with a pending FIN: it returns EINVAL, forgets the handle without
 * closing it, and waits for it forever at exit. Such a socket is destroyed.
 */
export function reset(socket) {
    if (socket.writableEnded && !socket.writableFinished) {
        socket.destroy();
    } else {
        socket.resetAndDestroy();
    }
}
