// SPDX-License-Identifier: MIT
//
// The cost of metrics for a server: bench/fanout (plain writes) and bench/requests with `--metrics` and a scraper beside
// it that sends a request every second, in turns with the same without, and the median of the ratios of neighbours.
// `node bench/metrics.mjs [--build build/release] [--rounds 5] [--seconds 5] [--plan streams_10000] [--only fanout|requests]`.
// Prints one line of JSON.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const text = (value) => ({ type: 'string', default: value });
const { values: asked } = parseArgs({
    options: { build: text('build/release'), rounds: text('5'), seconds: text('5'), plan: text('streams_10000'), only: text('') },
});
const PORT = 17931;
const SCRAPE_MS = 1000;
const build = path.resolve(asked.build);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tidings-metrics-'));

/** The program, with these options behind what it is given. Both sides are started this way. */
const wrapped = (program, ...options) => {
    const file = path.join(folder, `${path.basename(program)}-${options.length > 0 ? 'on' : 'off'}`);
    fs.writeFileSync(file, `#!/bin/sh\nexec '${program}' "$@" ${options.join(' ')}\n`, { mode: 0o755 });
    return file;
};

/** The measurements, and the places of their figures: each a number that should not grow. */
const benches = {
    fanout: {
        server: path.join(build, 'bench/fanout_server'),
        args: ['--only', 'plain', '--rounds', '1', '--seconds', asked.seconds, '--plan', asked.plan],
        figures: (said) => ({ cpu_us: said[asked.plan].plain.cpu_us, last_ms_p50: said[asked.plan].plain.last_ms_p50 }),
    },
    requests: {
        server: path.join(build, 'tidings'),
        args: ['--rounds', '3'],
        figures: (said) => ({ read_cpu_us: said.read.cpu_us, list_cpu_us: said.list.cpu_us }),
    },
};

const scrape = () => new Promise((resolve) => {
    const request = http.get({ host: '127.0.0.1', port: PORT, path: '/metrics' }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode === 200));
    });
    request.on('error', () => resolve(false)); // between two servers there is none
});

/** One run of a benchmark: its line. With metrics, how often they were read is in `scrapes`. */
const run = async (name, isOn, counts) => {
    const { server, args } = benches[name];
    const program = wrapped(server, ...(isOn ? ['--metrics', `127.0.0.1:${PORT}`] : []));
    const child = spawn(path.join(build, 'bench', name), ['--server', program, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    let out = '';
    child.stdout.on('data', (data) => (out += data));
    const timer = setInterval(async () => {
        counts.scrapes += isOn && (await scrape()) ? 1 : 0;
    }, SCRAPE_MS);
    const code = await new Promise((resolve) => child.on('close', resolve));
    clearInterval(timer);
    if (code !== 0) {
        throw new Error(`bench/${name} ended with ${code}`);
    }
    return JSON.parse(out);
};

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

const measure = async (name) => {
    const rounds = { off: [], on: [] };
    const counts = { scrapes: 0 };
    for (let i = 0; i < Number(asked.rounds); i += 1) {
        for (const which of i % 2 === 0 ? ['off', 'on'] : ['on', 'off']) {
            rounds[which].push(benches[name].figures(await run(name, which === 'on', counts)));
        }
    }
    if (counts.scrapes === 0) {
        throw new Error(`bench/${name}: the metrics were never read`);
    }
    const result = { scrapes: counts.scrapes };
    for (const key of Object.keys(rounds.off[0])) {
        const [off, on] = [rounds.off, rounds.on].map((all) => all.map((figures) => figures[key]));
        const ratio = median(on.map((value, i) => value / off[i]));
        const spread = Math.max(...off) / Math.min(...off); // noise: the same thing measured again
        result[key] = { off: median(off), on: median(on), ratio: Number(ratio.toFixed(3)), offSpread: Number(spread.toFixed(3)) };
    }
    return result;
};

try {
    const names = Object.keys(benches).filter((name) => asked.only === '' || asked.only === name);
    if (names.length === 0) {
        throw new Error(`'${asked.only}' is none of ${Object.keys(benches).join(', ')}`);
    }
    const result = { bench: 'metrics', rounds: Number(asked.rounds), seconds: Number(asked.seconds), plan: asked.plan, scrapeMs: SCRAPE_MS };
    for (const name of names) {
        result[name] = await measure(name);
    }
    console.log(JSON.stringify(result));
} finally {
    fs.rmSync(folder, { recursive: true });
}
