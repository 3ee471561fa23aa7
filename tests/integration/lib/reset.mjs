// SPDX-License-Identifier: MIT

/**
 * RST instead of FIN. A socket whose FIN is on its way cannot be reset: Node.js then says EINVAL, forgets the handle
 * without closing it, and waits for it at its exit for ever. Such a socket is destroyed.
 */
export function reset(socket) {
    if (socket.writableEnded && !socket.writableFinished) {
        socket.destroy();
    } else {
        socket.resetAndDestroy();
    }
}
