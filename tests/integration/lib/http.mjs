// SPDX-License-Identifier: MIT
//
// HTTP/1.1 over a raw socket, so that a test controls each sent byte and sees each received byte: odd headers,
// pipelining, half-open connections, event streams. A target with options of tls.connect in `secure` uses TLS; its
// `headers` are added to every request() without its own. The client never follows redirects, pools connections or
// corrects errors.

import net from 'node:net';
import tls from 'node:tls';

import { reset } from './reset.mjs';
import { Inbox, within } from './wait.mjs';

export class Connection {
    // Received unread bytes: #room from #start to #end. Bytes never move within #room, because callers hold slices of
    // it.
    #room = Buffer.alloc(0);
    #start = 0;
    #end = 0;
    #wake = () => {};
    ended = false;
    error = undefined;

    static async open(target, options = {}) {
        const connection = new Connection();
        const where = { host: '127.0.0.1', port: target.port, allowHalfOpen: true, ...options };
        connection.wire = net.connect(where);
        connection.socket = target.secure
            ? tls.connect({ ...target.secure, socket: connection.wire })
            : connection.wire;
        await connection.#connected(target.secure ? 'secureConnect' : 'connect');
        return connection;
    }

    #connected(event) {
        const socket = this.socket;
        socket.setNoDelay(true);
        socket.on('data', (chunk) => {
            this.#append(chunk);
            this.#wake();
        });
        const over = (error) => {
            this.ended = true;
            this.error ??= error;
            this.#wake();
        };
        socket.on('end', () => over());
        socket.on('error', (error) => over(error));
        socket.on('close', () => over());
        this.closed = new Promise((resolve) => socket.on('close', resolve));
        return within(
            new Promise((resolve, reject) => {
                socket.once(event, resolve);
                socket.once('error', reject);
            }),
            'a connection',
        );
    }

    #append(chunk) {
        const unread = this.#end - this.#start;
        if (this.#end + chunk.length > this.#room.length) {
            const room = Buffer.allocUnsafe(2 * (unread + chunk.length));
            this.#room.copy(room, 0, this.#start, this.#end);
            [this.#room, this.#start, this.#end] = [room, 0, unread];
        }
        this.#end += chunk.copy(this.#room, this.#end);
    }

    send(data) {
        return new Promise((resolve) => this.socket.write(data, resolve));
    }

    /** FIN: the client sends nothing more but still reads answers. */
    finish() {
        this.socket.end();
    }

    close() {
        this.socket.destroy();
    }

    /** RST instead of FIN. */
    reset() {
        reset(this.wire);
    }

    /** Wait until `take(buffer)` returns a defined value: [value, bytes used]. */
    async #read(take, what, ms) {
        for (;;) {
            const unread = this.#room.subarray(this.#start, this.#end);
            const found = take(unread, this.ended);
            if (found !== undefined) {
                this.#start += found[1];
                return found[0];
            }
            if (this.ended) {
                const left = JSON.stringify(unread.toString('latin1', 0, 300));
                const why = this.error ? ` (${this.error.message})` : '';
                throw new Error(`the connection ended${why} before ${what}; unread: ${left}`);
            }
            await within(
                new Promise((resolve) => {
                    this.#wake = resolve;
                }),
                what,
                ms,
            );
        }
    }

    readUntil(mark, what = `${JSON.stringify(mark)}`, ms = undefined) {
        return this.#read(
            (buffer) => {
                const at = buffer.indexOf(mark);
                return at < 0 ? undefined : [buffer.subarray(0, at), at + mark.length];
            },
            what,
            ms,
        );
    }

    readBytes(count, what = `${count} bytes`, ms = undefined) {
        return this.#read(
            (buffer) => {
                return buffer.length < count ? undefined : [buffer.subarray(0, count), count];
            },
            what,
            ms,
        );
    }

    /** Everything up to the peer's FIN (or RST). */
    readToEnd(what = 'the end of the connection', ms = undefined) {
        return this.#read(
            (buffer, ended) => (ended ? [buffer, buffer.length] : undefined),
            what,
            ms,
        );
    }

    async readHead(ms = undefined) {
        const text = (await this.readUntil('\r\n\r\n', 'a response head', ms)).toString('latin1');
        const [line, ...fields] = text.split('\r\n');
        const match = /^HTTP\/1\.1 (\d{3})(?: (.*))?$/.exec(line);
        if (!match) {
            throw new Error(`not a status line: ${JSON.stringify(line)}`);
        }
        const headers = new Map();
        for (const field of fields) {
            const at = field.indexOf(':');
            const name = field.slice(0, at).toLowerCase();
            const value = field.slice(at + 1).trim();
            headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value);
        }
        return { status: Number(match[1]), reason: match[2], headers };
    }

    async #readBody(head) {
        if (head.headers.get('transfer-encoding') === 'chunked') {
            const parts = [];
            for (;;) {
                const size = parseInt((await this.readUntil('\r\n')).toString('latin1'), 16);
                const part = await this.readBytes(size + 2);
                if (size === 0) {
                    return Buffer.concat(parts);
                }
                parts.push(part.subarray(0, size));
            }
        }
        const length = head.headers.get('content-length');
        if (length !== undefined) {
            return this.readBytes(Number(length), `a body of ${length} bytes`);
        }
        return head.status === 204 || head.status === 304 ? Buffer.alloc(0) : this.readToEnd();
    }

    /** The next response, or for an event stream its head and an `events` inbox. */
    async readResponse(method = 'POST') {
        const response = await this.readHead();
        if (response.status < 200) {
            return response;
        }
        const type = response.headers.get('content-type') ?? '';
        if (type.startsWith('text/event-stream') && method !== 'HEAD') {
            response.events = new EventStream(this, response.headers.get('transfer-encoding') === 'chunked');
            return response;
        }
        const body = method === 'HEAD' ? Buffer.alloc(0) : await this.#readBody(response);
        response.text = body.toString('utf8');
        if (type.startsWith('application/json') && response.text !== '') {
            response.json = JSON.parse(response.text);
        }
        return response;
    }

    /** Send one request and read its answer on this connection. */
    async request(options) {
        await this.send(encodeRequest(this.socket.remotePort, options));
        return this.readResponse(options.method ?? 'POST');
    }
}

/**
 * The bytes of a request. `headers` is an object or a list of pairs; a value of null leaves a
 * default out. Defaults: Host, and for a body Content-Length.
 */
export function encodeRequest(port, { method = 'POST', path = '/mcp', headers = {}, body }) {
    const given = Array.isArray(headers) ? headers : Object.entries(headers);
    const has = (name) => given.some(([key]) => key.toLowerCase() === name);
    const lines = [`${method} ${path} HTTP/1.1`];
    if (!has('host')) {
        lines.push(`Host: 127.0.0.1:${port}`);
    }
    for (const [name, value] of given) {
        if (value !== null && value !== undefined) {
            lines.push(`${name}: ${value}`);
        }
    }
    const bytes = body === undefined ? Buffer.alloc(0) : Buffer.from(body);
    if (body !== undefined && !has('content-length') && !has('transfer-encoding')) {
        lines.push(`Content-Length: ${bytes.length}`);
    }
    return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), bytes]);
}

function withHeaders(target, options) {
    const { headers = {} } = options;
    const given = Array.isArray(headers) ? headers : Object.entries(headers);
    const has = (name) => given.some(([key]) => key.toLowerCase() === name.toLowerCase());
    const others = Object.entries(target.headers ?? {}).filter(([name]) => !has(name));
    return { ...options, headers: [...others, ...given] };
}

/** One request on its own connection. An event stream keeps it open; see `events.close()`. */
export async function request(target, options = {}) {
    const connection = await Connection.open(target);
    const response = await connection.request(withHeaders(target, options));
    response.connection = connection;
    if (!response.events) {
        connection.close();
    }
    return response;
}

/** Server-sent events: { id, event, data, json, retry } and { comment } as they arrive. */
export class EventStream extends Inbox {
    constructor(connection, isChunked = false) {
        super('the event stream');
        this.connection = connection;
        this.#pump(isChunked);
    }

    async #pump(isChunked) {
        try {
            if (isChunked) {
                await this.#readChunks();
            }
            for (;;) {
                const block = await this.connection.readUntil('\n\n', 'an event', 2 ** 31 - 1);
                this.#block(block.toString('utf8'));
            }
        } catch (error) {
            this.end(error.message);
        }
    }

    /** Reads chunks, as sent by proxies. Their end is not the end of the connection. */
    async #readChunks() {
        let text = '';
        const decoder = new TextDecoder();
        for (;;) {
            const head = await this.connection.readUntil('\r\n', 'a chunk', 2 ** 31 - 1);
            const size = parseInt(head.toString('latin1'), 16);
            if (size === 0) {
                throw new Error('the answer ended');
            }
            const part = await this.connection.readBytes(size + 2, 'a chunk', 2 ** 31 - 1);
            text += decoder.decode(part.subarray(0, size), { stream: true });
            const blocks = text.split('\n\n');
            text = blocks.pop();
            blocks.forEach((block) => this.#block(block));
        }
    }

    #block(text) {
        const event = {};
        for (const line of text.split('\n')) {
            const match = /^([^:]*)(?:: ?(.*))?$/.exec(line.replace(/\r$/, ''));
            if (!match || match[1] === '') {
                this.push({ comment: line.slice(1).trim() });
                continue;
            }
            const value = match[2] ?? '';
            event[match[1]] =
                match[1] === 'data' && 'data' in event ? `${event.data}\n${value}` : value;
        }
        if (Object.keys(event).length > 0) {
            if (event.data && event.event !== 'endpoint') {
                event.json = JSON.parse(event.data);
            }
            this.push(event);
        }
    }

    /** The next JSON-RPC message that matches; skips comments and priming events. */
    async message(match = () => true, what = 'a message', ms = undefined) {
        const event = await this.next((item) => item.json && match(item.json), what, ms);
        return event.json;
    }

    /** All messages so far, in order, including taken ones. */
    get messages() {
        return this.seen.filter((item) => item.json).map((item) => item.json);
    }

    close() {
        this.connection.close();
    }
}
