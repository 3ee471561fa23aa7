// SPDX-License-Identifier: MIT
//
// The WebSocket adapter: a client that answers pings and close frames.

import { defer } from '../../integration/lib/cleanup.mjs';
import { serve } from '../../integration/lib/server.mjs';
import { closeFrame, encodeFrame, FIN, OP, WebSocketRaw } from '../../integration/lib/websocket.mjs';
import { MessagePeer } from './peer.mjs';

class WebSocketPeer extends MessagePeer {
    constructor(t, ws) {
        super();
        this.ws = ws;
        defer(t, () => ws.close());
        this.#pump();
    }

    get ended() {
        return this.inbox.over;
    }

    async #pump() {
        try {
            for (;;) {
                const frame = await this.ws.frames.next(() => true, 'a frame', 2 ** 31 - 1);
                if (frame.json) {
                    this.inbox.push(frame.json);
                } else if (frame.opcode === OP.ping) {
                    await this.ws.send(encodeFrame(FIN | OP.pong, frame.payload));
                } else if (frame.opcode === OP.close) {
                    await this.ws.send(closeFrame(1000));
                }
            }
        } catch (error) {
            this.inbox.end(error.message);
        }
    }

    write(text) {
        return this.ws.send(encodeFrame(FIN | OP.text, text));
    }

    writeAll(texts) {
        return this.ws.send(Buffer.concat(texts.map((each) => encodeFrame(FIN | OP.text, each))));
    }

    vanish() {
        this.ws.connection.reset();
    }

    async flood(era, requests) {
        this.ws.connection.socket.pause();
        const texts = requests.map(([method, params], i) => this.encode(era, method, params, i));
        this.ws.connection.socket.write(
            Buffer.concat(texts.map((each) => encodeFrame(FIN | OP.text, each))),
        );
    }
}

export const websocket = {
    name: 'websocket',
    cannot: {
        'end its input first': 'a goodbye ends both ways',
        'hear on after a message that is too long': 'that ends the connection with 1009',
    },
    serve,
    connect: async (t, server) => new WebSocketPeer(t, await WebSocketRaw.open(server)),
};
