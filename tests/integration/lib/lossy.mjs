// SPDX-License-Identifier: MIT
//
// A bad network: an HTTP proxy that drops or delays complete messages of an event stream and breaks connections.
// `fate(message)`, called once for each JSON-RPC message of a stream, decides: 'pass', 'drop', 'cut' (the connection
// breaks instead), or the ms to delay this and all later messages. Its target may change, for a server that crashes
// and restarts.

import http from 'node:http';

import { defer } from './cleanup.mjs';
import { DEADLINE } from './wait.mjs';

export class Lossy {
    fate = () => 'pass';
    counts = { pass: 0, drop: 0, cut: 0, hold: 0 };
    requests = []; // received bodies, parsed
    #open = new Set();

    static async open(t, target, { era = 'modern' } = {}) {
        const proxy = new Lossy();
        proxy.target = target;
        proxy.era = era;
        const server = http.createServer((req, res) => proxy.#relay(req, res));
        server.keepAliveTimeout = DEADLINE;
        await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
        proxy.url = `http://127.0.0.1:${server.address().port}/mcp`;
        defer(t, () => {
            proxy.cut();
            server.close();
            server.closeAllConnections();
        });
        return proxy;
    }

    /** Break every stream and every pending request. */
    cut() {
        [...this.#open].forEach((end) => end());
    }

    async #relay(req, res) {
        const chunks = [];
        req.on('error', () => {});
        res.on('error', () => {});
        for await (const chunk of req) {
            chunks.push(chunk);
        }
        const body = Buffer.concat(chunks);
        const message = body.length > 0 ? JSON.parse(body) : {};
        this.requests.push(message);
        if (this.era === 'legacy' && message.method === 'server/discover') {
            res.writeHead(400, { 'Content-Type': 'text/plain' }).end('what?');
            return;
        }
        const { method, url, headers } = req;
        const far = http.request({
            host: '127.0.0.1',
            port: this.target.port,
            method,
            path: url,
            headers: { ...headers, host: `127.0.0.1:${this.target.port}` },
            agent: false,
        });
        const end = () => {
            this.#open.delete(end);
            far.destroy();
            res.destroy();
        };
        this.#open.add(end);
        far.on('error', end);
        res.on('close', end);
        far.on('response', (answer) => {
            answer.on('error', end);
            answer.on('aborted', end);
            res.writeHead(answer.statusCode, answer.headers);
            if (answer.headers['content-type'] === 'text/event-stream') {
                this.#stream(answer, res, end);
            } else {
                answer.pipe(res);
            }
        });
        far.end(body);
    }

    async #stream(answer, res, end) {
        res.flushHeaders();
        let text = '';
        try {
            for await (const chunk of answer) {
                text += chunk;
                for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n')) {
                    const event = text.slice(0, at + 2);
                    text = text.slice(at + 2);
                    if (!(await this.#event(event, res))) {
                        end();
                        return;
                    }
                }
            }
            res.end(text);
        } catch {
            end();
        }
    }

    /** False: the connection breaks here. */
    async #event(event, res) {
        const data = /^data: ?(\{.*)$/m.exec(event)?.[1];
        const fate = data ? this.fate(JSON.parse(data)) : 'pass';
        this.counts[typeof fate === 'number' ? 'hold' : fate] += 1;
        if (typeof fate === 'number') {
            await new Promise((resolve) => setTimeout(resolve, fate));
        }
        if (fate !== 'drop' && fate !== 'cut') {
            res.write(event);
        }
        return fate !== 'cut';
    }
}
