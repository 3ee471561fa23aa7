// SPDX-License-Identifier: MIT
//
// Adapters of the line and HTTP transports for the suite (see suite.mjs).

import { defer } from '../../integration/lib/cleanup.mjs';
import { Connection, encodeRequest } from '../../integration/lib/http.mjs';
import { LineSplitter } from '../../integration/lib/lines.mjs';
import {
    freshId,
    listen,
    meta,
    modern,
    modernHeaders,
    post,
    Session,
} from '../../integration/lib/rpc.mjs';
import { serve } from '../../integration/lib/server.mjs';
import { Pipe } from '../../integration/lib/stdio.mjs';
import { Inbox } from '../../integration/lib/wait.mjs';
import { serveDoors, SocketPeer } from './lines.mjs';
import { MessagePeer } from './peer.mjs';

/* ---- TCP and Unix sockets -------------------------------------------------------------------- */

export const tcp = {
    name: 'tcp',
    cannot: {},
    serve: (t, options) => serveDoors(t, ['--tcp', '127.0.0.1:0'], options),
    connect(t, server) {
        const { hostname, port } = new URL(server.doors[0]);
        return SocketPeer.connect(t, { host: hostname, port: Number(port) });
    },
};

export const unix = {
    name: 'unix',
    cannot: {},
    serve: (t, options = {}) => {
        const path = `/tmp/tidings-test-${process.pid}-${freshId()}.sock`;
        return serveDoors(t, ['--unix', path], options);
    },
    connect: (t, server) => SocketPeer.connect(t, { path: server.doors[0].slice('unix:'.length) }),
};

/* ---- standard input and output --------------------------------------------------------------- */

class StdioPeer extends MessagePeer {
    constructor(pipe) {
        super();
        this.pipe = pipe;
        const splitter = new LineSplitter();
        pipe.child.stdout.setEncoding('utf8').on('data', (text) => {
            splitter.take(text).forEach((line) => this.inbox.push(JSON.parse(line)));
        });
        pipe.child.stdout.on('end', () => this.inbox.end('the pipe ended'));
        this.ended = this.inbox.over;
    }

    write(text) {
        return this.pipe.write(`${text}\n`);
    }

    writeAll(texts) {
        return this.pipe.write(texts.map((text) => `${text}\n`).join(''));
    }

    finish() {
        this.pipe.child.stdin.end();
    }
}

export const stdio = {
    name: 'stdio',
    cannot: {
        'have several peers': 'a process has one standard input',
        'cut a slow reader': 'whoever launched the server decides when to read',
    },
    serve: (t, options) => Pipe.open(t, options),
    connect: async (t, server) => new StdioPeer(server),
};

/* ---- Streamable HTTP ------------------------------------------------------------------------- */

class HttpPeer {
    inbox = new Inbox('the streams');
    #streams = new Set();

    constructor(t, server) {
        this.server = server;
        defer(t, () => this.close());
    }

    message(match, what, ms) {
        return this.inbox.next(match, what, ms);
    }

    /** Collects everything from a stream in the inbox. */
    #follow(events) {
        this.#streams.add(events);
        const pump = async () => {
            for (;;) {
                this.inbox.push(await events.message(() => true, 'a message', 2 ** 31 - 1));
            }
        };
        pump().catch(() => {
            this.#streams.delete(events);
            if (this.#streams.size === 0) {
                this.inbox.end('the last stream ended');
            }
        });
        return events;
    }

    get ended() {
        return this.inbox.over;
    }

    async handshake(version) {
        this.session = await Session.open(this.server, version);
        this.#follow(await this.session.stream());
        return this.session.result;
    }

    async ask(era, method, params = {}, id = freshId()) {
        const response =
            era === 'modern'
                ? await modern(this.server, method, params, { id })
                : await this.session.send(method, params, { id });
        return response.json ?? response.events.message((m) => m.id === id);
    }

    async refused(text) {
        const response = await post(this.server, text, modernHeaders('ping'));
        return response.json
            ? { text: response.json.error.message, code: response.json.error.code }
            : { text: response.text };
    }

    async listen(notifications, id = freshId()) {
        const { ack, events } = await listen(this.server, notifications, { id });
        this.#follow(events);
        return { id, ack, events };
    }

    cancel(listening) {
        listening.events.close();
    }

    listenResult(listening) {
        return this.message((m) => m.id === listening.id && m.result, 'the result of the listen');
    }

    #encode(era, method, params, id) {
        const all = era === 'modern' ? { _meta: meta(), ...params } : params;
        return encodeRequest(this.server.port, {
            headers: {
                'Content-Type': 'application/json',
                Accept: 'application/json, text/event-stream',
                ...(era === 'modern' ? modernHeaders(method, params) : this.session.headers),
            },
            body: JSON.stringify({ jsonrpc: '2.0', id, method, params: all }),
        });
    }

    async pipeline(era, requests) {
        const connection = await Connection.open(this.server);
        const ids = requests.map(() => freshId());
        const bytes = requests.map(([method, params], i) =>
            this.#encode(era, method, params, ids[i]),
        );
        await connection.send(Buffer.concat(bytes));
        const answers = [];
        for (const _ of ids) {
            answers.push((await connection.readResponse()).json);
        }
        connection.close();
        return { ids, answers };
    }

    /** Sends requests on a separate connection and ends its input. */
    async askAndFinish(era, method, params) {
        const connection = await Connection.open(this.server);
        await connection.send(this.#encode(era, method, params, freshId()));
        connection.finish();
        const answer = (await connection.readResponse()).json;
        await connection.readToEnd();
        return answer;
    }

    async flood(era, requests) {
        const connection = await Connection.open(this.server);
        connection.socket.pause();
        const bytes = requests.map(([method, params], i) => this.#encode(era, method, params, i));
        connection.socket.write(Buffer.concat(bytes));
        this.flooded = connection;
    }

    vanish() {
        this.#streams.forEach((events) => events.connection.reset());
    }

    get updates() {
        return this.inbox.seen.filter((m) => m.method === 'notifications/resources/updated');
    }

    close() {
        this.flooded?.close();
        this.#streams.forEach((events) => events.close());
    }
}

export const http = {
    name: 'http',
    cannot: {
        'end a legacy session with its connection': 'a session outlives its connections',
    },
    serve,
    connect: async (t, server) => new HttpPeer(t, server),
};
