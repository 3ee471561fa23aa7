// SPDX-License-Identifier: MIT
//
// Line-framed sockets: TCP and Unix; with `secure` (options of tls.connect) through TLS.

import net from 'node:net';
import tls from 'node:tls';

import { defer } from '../../integration/lib/cleanup.mjs';
import { LineSplitter } from '../../integration/lib/lines.mjs';
import { reset } from '../../integration/lib/reset.mjs';
import { BIN, Program } from '../../integration/lib/server.mjs';
import { Tree } from '../../integration/lib/tree.mjs';
import { within } from '../../integration/lib/wait.mjs';
import { MessagePeer } from './peer.mjs';

export class SocketPeer extends MessagePeer {
    #splitter = new LineSplitter();

    static async connect(t, where) {
        const peer = new SocketPeer();
        peer.wire = net.connect({ ...where, allowHalfOpen: true });
        peer.socket = where.secure
            ? tls.connect({ ...where.secure, socket: peer.wire })
            : peer.wire;
        defer(t, () => peer.socket.destroy());
        await within(
            new Promise((resolve, reject) => {
                peer.socket.once(where.secure ? 'secureConnect' : 'connect', resolve);
                peer.socket.once('error', reject);
            }),
            'a connection',
        );
        peer.#attach();
        return peer;
    }

    #attach() {
        this.socket.setEncoding('utf8');
        this.socket.on('data', (text) => {
            this.#splitter.take(text).forEach((line) => this.inbox.push(JSON.parse(line)));
        });
        this.ended = new Promise((resolve) => {
            const over = () => {
                this.inbox.end('the connection ended');
                resolve();
            };
            this.socket.on('end', over);
            this.socket.on('error', over);
            this.socket.on('close', over);
        });
    }

    /** Sends one message and its terminator. */
    write(text) {
        return this.raw(`${text}\n`);
    }

    writeAll(texts) {
        return this.raw(texts.map((text) => `${text}\n`).join(''));
    }

    raw(bytes) {
        return new Promise((resolve) => this.socket.write(bytes, resolve));
    }

    /** Ends the input; requests already sent are still answered. */
    finish() {
        this.socket.end();
    }

    vanish() {
        if (this.socket.remotePort) {
            reset(this.wire);
        } else {
            this.socket.destroy(); // a Unix socket offers nothing else
        }
    }

    /** Sends many requests and reads no answer. */
    flood(era, requests) {
        this.socket.pause();
        const texts = requests.map(([method, params], i) => this.encode(era, method, params, i));
        this.socket.write(texts.map((text) => `${text}\n`).join(''));
    }

    close() {
        this.socket.destroy();
    }
}

/** `tidings serve` with these listeners; `doors` are the URLs that it prints when ready. `mounts` replaces the served
 * tree. */
export async function serveDoors(t, doors, { files, args = [], mounts, env, tree = new Tree(t, files) } = {}) {
    const program = new Program(t, BIN, ['serve', ...doors, ...args, ...(mounts ?? [tree.path])], { env });
    const line = await program.lines
        .next((text) => text.includes('serving on '), 'the line that says it is ready')
        .catch((error) => {
            throw new Error(`${error.message}\n${program.stderr}`);
        });
    program.doors = line.split('serving on ')[1].split(', ');
    program.tree = tree;
    program.uri = (name) => tree.uri(name);
    return program;
}
