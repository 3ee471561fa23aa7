// SPDX-License-Identifier: MIT
//
// Clients that read their answers slowly or not at all, on every transport, and the memory of the server during these
// reads.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import tls from 'node:tls';

import { serveDoors } from '../../contract/transport/lines.mjs';
import { Certificates } from './certs.mjs';
import { defer } from './cleanup.mjs';
import { encodeRequest } from './http.mjs';
import { limitsOf, modernRequest } from './limits.mjs';
import { meta } from './rpc.mjs';
import { eventually, slow as stretch, within } from './wait.mjs';
import { encodeFrame, FIN, OP, upgradeRequest } from './websocket.mjs';

export const MIB = 2 ** 20;
export const isLong = Boolean(process.env.TIDINGS_LONG) && stretch === 1; // a sanitizer would take minutes
/** JSON escapes make this string longer: every other byte becomes six. */
export const SIZE = (isLong ? 15 : 3) * MIB;
export const COUNT = 40;
export const content = Buffer.alloc(16 * MIB, 'a\x01');
export const digest = (bytes) => createHash('sha256').update(bytes).digest('hex');
/** Permitted memory growth of an idle server: chunks, buffers, and memory that libc keeps. */
export const MARGIN = stretch === 1 ? 32 * MIB : 512 * MIB; // sanitizers retain freed memory

export const peak = (server) =>
    1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, 'utf8'))[1]);

export async function start(t, { args = [], size = SIZE, secure = false, env } = {}) {
    const certs = secure ? new Certificates(t).make('server') : null;
    const lines = args.includes('--auth-tokens') ? [] : ['--tcp', '127.0.0.1:0'];
    const doors = ['--http', '127.0.0.1:0', ...lines, '--workers', '2', '--self'];
    const files = { 'long.txt': content.subarray(0, size), 'a.txt': '1' };
    const server = await serveDoors(t, [...doors, ...(certs?.args('server') ?? []), ...args], { files, env });
    server.port = Number(new URL(server.doors[0]).port);
    server.tcp = lines.length > 0 && Number(new URL(server.doors[1]).port);
    server.secure = certs?.client();
    return server;
}

export const read = (server, id, name = 'long.txt') => ({
    jsonrpc: '2.0',
    id,
    method: 'resources/read',
    params: { _meta: meta(), uri: server.uri(name) },
});

/** A socket that is read only on demand. */
export class Slow {
    #parts = [];
    #length = 0;
    #wake = () => {};
    #over = false;

    static async open(t, port, secure) {
        const slow = new Slow();
        const wire = net.connect(port, '127.0.0.1');
        slow.socket = secure ? tls.connect({ ...secure, socket: wire }) : wire;
        defer(t, () => slow.socket.destroy());
        const event = secure ? 'secureConnect' : 'connect';
        await within(new Promise((resolve) => slow.socket.once(event, resolve)), 'a connection');
        slow.socket.on('readable', () => slow.#wake());
        for (const event of ['end', 'error', 'close']) {
            slow.socket.on(event, () => {
                slow.#over = true;
                slow.#wake();
            });
        }
        return slow;
    }

    write(bytes) {
        this.socket.write(bytes);
    }

    async #more(what) {
        const part = this.socket.read();
        if (part) {
            this.#parts.push(part);
            this.#length += part.length;
            return;
        }
        assert.ok(!this.#over, `the connection ended before ${what}`);
        await within(new Promise((resolve) => (this.#wake = resolve)), what);
    }

    /** The next `count` bytes. */
    async bytes(count, what) {
        while (this.#length < count) {
            await this.#more(what);
        }
        const all = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts);
        this.#parts = [all.subarray(count)];
        this.#length -= count;
        return all.subarray(0, count);
    }

    /** The next bytes up to and including `end`. */
    async until(end, what) {
        for (let seen = 0; ; ) {
            const found = this.#parts[seen]?.indexOf(end) ?? -1;
            if (found >= 0) {
                const before = this.#parts.slice(0, seen).reduce((sum, part) => sum + part.length, 0);
                return this.bytes(before + found + end.length, what);
            }
            if (seen < this.#parts.length) {
                seen++;
            } else {
                await this.#more(what);
            }
        }
    }

    /** Puts bytes back. */
    back(bytes) {
        this.#parts.unshift(bytes);
        this.#length += bytes.length;
    }

    /** Everything up to the end of the connection. */
    async rest() {
        while (!this.#over || this.socket.readableLength > 0) {
            await this.#more('the end').catch(() => {});
        }
        return Buffer.concat(this.#parts);
    }
}

export const httpAnswer = async (slow) => {
    const head = (await slow.until('\r\n\r\n', 'a head')).toString();
    const length = Number(/content-length: (\d+)/i.exec(head)[1]);
    return { status: Number(head.split(' ')[1]), bytes: await slow.bytes(length, 'a body') };
};

export const http = {
    open: (t, server) => Slow.open(t, server.port, server.secure),
    encode: ({ method, params, id }, server) => encodeRequest(server.port, modernRequest(method, params, id)),
    take: async (slow) => JSON.parse((await httpAnswer(slow)).bytes),
};

/** Transports with concurrent large requests and answers read one by one. */
export const WAYS = {
    'a WebSocket': {
        async open(t, server) {
            const slow = await Slow.open(t, server.port);
            slow.write(upgradeRequest(server.port, { 'Sec-WebSocket-Protocol': 'mcp' }));
            await slow.until('\r\n\r\n', 'the upgrade');
            return slow;
        },
        encode: (message) => encodeFrame(FIN | OP.text, JSON.stringify(message)),
        async take(slow) {
            const [, second] = await slow.bytes(2, 'a frame');
            const length =
                second === 127
                    ? Number((await slow.bytes(8, 'a length')).readBigUInt64BE())
                    : second === 126
                      ? (await slow.bytes(2, 'a length')).readUInt16BE()
                      : second;
            return JSON.parse(await slow.bytes(length, 'a message'));
        },
    },
    'lines on TCP': {
        open: (t, server) => Slow.open(t, server.tcp),
        encode: (message) => `${JSON.stringify(message)}\n`,
        take: async (slow) => JSON.parse(await slow.until('\n', 'a line')),
    },
    'pipelined HTTP': http,
    'HTTP through TLS': { ...http, secure: true },
};

export const unbooked = (t, server) =>
    eventually(async () => (await limitsOf(t, server))['max-output'].inUse === 0, 'nothing stays booked');
