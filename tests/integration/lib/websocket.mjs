// SPDX-License-Identifier: MIT
//
// WebSocket over a raw socket, so that a test controls each sent frame, valid or not, and sees each received frame.
// It never answers pings or close frames automatically.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';

import { Connection, encodeRequest } from './http.mjs';
import { asking, freshId, meta } from './rpc.mjs';
import { DEADLINE, Inbox } from './wait.mjs';

export const OP = { continued: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 };
export const FIN = 0x80;
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const MASK = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);

export const upgrade = {
    Upgrade: 'websocket',
    Connection: 'Upgrade',
    'Sec-WebSocket-Key': KEY,
    'Sec-WebSocket-Version': '13',
};

/** The bytes of a frame: `first` is its first byte (final and reserved bits, opcode). */
export function encodeFrame(first, payload = '', { masked = true, form } = {}) {
    const bytes = Buffer.from(payload);
    const size = form ?? (bytes.length < 126 ? 7 : bytes.length < 65536 ? 16 : 64);
    const head = Buffer.alloc(2 + (size === 7 ? 0 : size / 8));
    head[0] = first;
    head[1] = (masked ? 0x80 : 0) | (size === 7 ? bytes.length : size === 16 ? 126 : 127);
    if (size === 16) {
        head.writeUInt16BE(bytes.length, 2);
    } else if (size === 64) {
        head.writeBigUInt64BE(BigInt(bytes.length), 2);
    }
    if (!masked) {
        return Buffer.concat([head, bytes]);
    }
    return Buffer.concat([head, MASK, bytes.map((byte, i) => byte ^ MASK[i % 4])]);
}

export const closeFrame = (code, reason = '') => {
    const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
    payload.writeUInt16BE(code);
    payload.write(reason, 2);
    return encodeFrame(FIN | OP.close, payload);
};

/** GET with the headers of an upgrade; the given headers override them, and null omits one. */
export function upgradeRequest(port, headers = {}, options = {}) {
    return encodeRequest(port, { method: 'GET', headers: { ...upgrade, ...headers }, ...options });
}

export class WebSocketRaw extends asking(Object) {
    /** Connected and upgraded. `first`: bytes sent together with the handshake. */
    static async open(target, { headers = {}, protocol = 'mcp', first = Buffer.alloc(0) } = {}) {
        const ws = new WebSocketRaw();
        ws.connection = await Connection.open(target);
        const all = { ...(protocol && { 'Sec-WebSocket-Protocol': protocol }), ...headers };
        await ws.send(Buffer.concat([upgradeRequest(target.port, all), first]));
        ws.head = await ws.connection.readHead();
        assert.equal(ws.head.status, 101, `the upgrade was refused: ${ws.head.reason}`);
        const proof = createHash('sha1').update(KEY + GUID).digest('base64');
        assert.equal(ws.head.headers.get('sec-websocket-accept'), proof);
        ws.frames = new Inbox('the WebSocket');
        ws.#pump();
        return ws;
    }

    async #pump() {
        const read = (count) => this.connection.readBytes(count, 'a frame', 2 ** 31 - 1);
        try {
            for (;;) {
                const [first, second] = await read(2);
                assert.equal(second & 0x80, 0, 'a frame of the server is masked');
                assert.equal(first & 0x70, 0, 'a frame of the server has reserved bits');
                let length = second & 0x7f;
                if (length === 126) {
                    length = (await read(2)).readUInt16BE();
                } else if (length === 127) {
                    length = Number((await read(8)).readBigUInt64BE());
                }
                const payload = Buffer.from(await read(length));
                const frame = { fin: first >> 7, opcode: first & 15, payload };
                if (frame.opcode === OP.text) {
                    frame.json = JSON.parse(payload.toString('utf8'));
                } else if (frame.opcode === OP.close) {
                    frame.code = length < 2 ? 1005 : payload.readUInt16BE();
                    frame.reason = payload.subarray(2).toString('utf8');
                }
                this.frames.push(frame);
            }
        } catch (error) {
            this.frames.end(error.message);
            this.connection.close();
        }
    }

    /** Raw bytes. */
    send(bytes) {
        return this.connection.send(bytes);
    }

    write(message) {
        return this.send(encodeFrame(FIN | OP.text, JSON.stringify(message)));
    }

    /** The next JSON-RPC message that matches. */
    async message(match = () => true, what = 'a message', ms = DEADLINE) {
        const frame = await this.frames.next((f) => f.json && match(f.json), what, ms);
        return frame.json;
    }

    frame(opcode, what = `a frame of kind ${opcode}`, ms = DEADLINE) {
        return this.frames.next((f) => f.opcode === opcode, what, ms);
    }

    /** All messages so far, in order, including taken ones. */
    get messages() {
        return this.frames.seen.filter((f) => f.json).map((f) => f.json);
    }

    /** Open `subscriptions/listen` and await the acknowledgement. */
    async listen(uris, params = {}) {
        const id = freshId();
        const notifications = { resourceSubscriptions: uris };
        const all = { _meta: meta(), notifications, ...params };
        await this.write({ jsonrpc: '2.0', id, method: 'subscriptions/listen', params: all });
        const ack = await this.message(
            (m) => m.method === 'notifications/subscriptions/acknowledged',
            'the acknowledgement',
        );
        return { id, ack };
    }

    /** The server's close frame: { code, reason }. */
    goodbye(what = 'a close frame', ms = DEADLINE) {
        return this.frame(OP.close, what, ms);
    }

    /** The end of the connection. */
    get over() {
        return this.frames.over;
    }

    close() {
        this.connection.close();
    }
}
