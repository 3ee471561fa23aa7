// SPDX-License-Identifier: MIT
//
// The cost of a scrape of /metrics for a server with many open streams: CPU of all its threads, without its idle use.
// `node bench/scrape.mjs build/release/tidings [STREAMS]`.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const [, , program = 'build/release/tidings', count = '10000'] = process.argv;
const PORTS = [17911, 17913];
const SCRAPES = 200;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tidings-scrape-'));
fs.writeFileSync(path.join(folder, 'a.txt'), '1');

const generous = ['--max-client-connections', '--connection-rate', '--subscribe-rate', '--request-rate'].flatMap((name) => [name, '100000']);
const where = ['--http', `127.0.0.1:${PORTS[0]}`, '--metrics', `127.0.0.1:${PORTS[1]}`];
const server = spawn(program, ['serve', ...where, ...generous, folder], { stdio: ['ignore', 'ignore', 'pipe'] });
await new Promise((resolve) => server.stderr.on('data', (text) => `${text}`.includes('serving on') && resolve()));

const META = 'io.modelcontextprotocol/';
const method = 'subscriptions/listen';

/** A listen that was acknowledged. */
const open = (id) => new Promise((resolve, reject) => {
    const _meta = { [`${META}protocolVersion`]: '2026-07-28', [`${META}clientCapabilities`]: {}, [`${META}clientInfo`]: { name: 'scrape', version: '1' } };
    const params = { _meta, notifications: { resourceSubscriptions: [`file://${folder}/a.txt`] } };
    const body = JSON.stringify({ jsonrpc: '2.0', id, method, params });
    const head = [
        'POST /mcp HTTP/1.1', `Host: 127.0.0.1:${PORTS[0]}`, 'Content-Type: application/json', 'Accept: application/json, text/event-stream',
        'MCP-Protocol-Version: 2026-07-28', `Mcp-Method: ${method}`, `Content-Length: ${body.length}`,
    ];
    const socket = net.connect(PORTS[0], '127.0.0.1').on('error', reject);
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    socket.on('data', (text) => `${text}`.includes('acknowledged') && resolve(socket));
});

const scrape = () => new Promise((resolve) => {
    http.get({ host: '127.0.0.1', port: PORTS[1], path: '/metrics' }, (response) => {
        let bytes = 0;
        response.on('data', (data) => (bytes += data.length)).on('end', () => resolve(bytes));
    });
});

/** Microseconds on a CPU, of all threads. */
const cpu = () => fs.readdirSync(`/proc/${server.pid}/task`)
    .map((task) => Number(fs.readFileSync(`/proc/${server.pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1000)
    .reduce((a, b) => a + b);
const used = async (work) => {
    const [before, begun] = [cpu(), process.hrtime.bigint()];
    await work();
    return { us: cpu() - before, s: Number(process.hrtime.bigint() - begun) / 1e9 };
};

for (let i = 0; i < Number(count); i += 100) {
    await Promise.all(Array.from({ length: Math.min(100, Number(count) - i) }, (_, k) => open(i + k)));
}
const bytes = await scrape();
const idle = await used(() => new Promise((resolve) => setTimeout(resolve, 2000)));
const busy = await used(async () => {
    for (let i = 0; i < SCRAPES; i += 1) {
        await scrape();
    }
});
const us = (busy.us - (idle.us / idle.s) * busy.s) / SCRAPES;
console.log(JSON.stringify({ streams: Number(count), scrapeCpuUs: Math.round(us), bytes }));
server.kill();
fs.rmSync(folder, { recursive: true });
process.exit(us < 1000 ? 0 : 1);
