// SPDX-License-Identifier: MIT
//
// Start the real program and check its exit. Invariant: every server of a test is stopped when the test ends, and
// must then exit with status 0 unless the test permits otherwise, so a crash or a sanitizer report fails the test. A
// failed test prints the server's standard error.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { defer } from './cleanup.mjs';
import { LineSplitter } from './lines.mjs';
import { DEADLINE, Inbox, slow, within } from './wait.mjs';
import { Tree } from './tree.mjs';

/**
 * The environment must not configure the program, which reads TIDINGS_* itself. TIDINGS_IO_URING is kept, so that the
 * same tests run with and without gathered writes.
 */
export const cleanEnv = (extra = {}) => {
    const ours = Object.entries(process.env).filter(
        ([name]) => !name.startsWith('TIDINGS_') || name === 'TIDINGS_IO_URING',
    );
    return { ...Object.fromEntries(ours), ...extra };
};

const root = fileURLToPath(new URL('../../../', import.meta.url));

export const BIN = path.resolve(process.env.TIDINGS_BIN ?? `${root}build/release/tidings`);
export const EXAMPLES = path.resolve(
    process.env.TIDINGS_EXAMPLES ?? `${root}build/release/examples`,
);

/**
 * The thread sanitizer delays signals until the program calls one of its interceptors, sometimes forever. The test
 * repeats the signal after this many ms, longer than a clean stop takes.
 */
const PUT_OFF = 4000;

/** A child process with collected output, which never outlives the test. */
export class Program {
    stderr = '';
    lines = new Inbox('standard error');

    constructor(t, file, args, options = {}) {
        assert.ok(existsSync(file), `no program at ${file} (set TIDINGS_BIN or build it)`);
        this.name = `${path.basename(file)} ${args.join(' ')}`;
        const env = cleanEnv(options.env);
        this.child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'], ...options, env });
        this.child.stdin.on('error', () => {});
        this.exited = new Promise((resolve) => {
            this.child.on('exit', (code, signal) => resolve({ code, signal }));
        });
        this.closed = new Promise((resolve) => {
            this.child.on('close', (code, signal) => resolve({ code, signal }));
        });
        splitLines(this.child.stderr, this.lines, (text) => {
            this.stderr += text;
        });
        defer(t, () => this.#finish(t, options));
    }

    get running() {
        return this.child.exitCode === null && this.child.signalCode === null;
    }

    /** Collect standard output as lines. */
    output() {
        if (!this.stdout) {
            this.stdout = new Inbox(`standard output of ${this.name}`);
            splitLines(this.child.stdout, this.stdout);
        }
        return this.stdout;
    }

    /** Send a signal and wait for its effect, which must tolerate a repeated signal. */
    signal(signal, outcome) {
        this.child.kill(signal);
        const again = process.env.TIDINGS_TSAN && setTimeout(() => this.child.kill(signal), PUT_OFF);
        return outcome.finally(() => clearTimeout(again));
    }

    /** SIGTERM, then the exit status, which must be 0 within `ms`. Returns the ms it took. */
    async stop(signal = 'SIGTERM', ms = 2000 * slow) {
        const begun = Date.now();
        this.check(await this.signal(signal, within(this.exited, `${this.name} to end after ${signal}`, ms)));
        return Date.now() - begun;
    }

    check({ code, signal }) {
        const how = signal ? `signal ${signal}` : `status ${code}`;
        assert.equal(code, 0, `${this.name} ended with ${how}; standard error:\n${this.stderr}`);
    }

    kill() {
        this.expectKilled = true;
        this.child.kill('SIGKILL');
        return this.exited;
    }

    async #finish(t, options) {
        try {
            if (this.running && !options.mayFail) {
                this.child.kill('SIGCONT');
                await this.stop('SIGTERM', DEADLINE);
            } else if (!options.mayFail && !this.expectKilled) {
                this.check(await this.exited);
            }
        } finally {
            this.child.kill('SIGKILL');
            if (t.passed === false || process.env.TIDINGS_VERBOSE) {
                t.diagnostic(`${this.name} said:\n${this.stderr || '(nothing)'}`);
            }
        }
    }
}

/** Wait for the single line with the URL, which is not a log line. */
async function ready(program) {
    const isUrl = (line) => /https?:\/\/\S+\/mcp/.test(line) && !/^\d{4}-\d{2}-/.test(line);
    const line = await program.lines.next(isUrl, 'the line with the URL').catch((error) => {
        throw new Error(`${program.name} did not start: ${error.message}\n${program.stderr}`);
    });
    program.url = line.match(/https?:\/\/\S+\/mcp/)[0];
    program.port = Number(new URL(program.url).port);
    return program;
}

/**
 * `tidings serve --http 127.0.0.1:0 [args] DIR`. Options: `files` (name → content) or `tree`, `args`, `env`, `mayFail`
 * (accept any exit), `mounts` (replaces DIR), `program` (instead of BIN), `under` (a program with arguments that executes
 * it), `secure` (TLS options of requests, see http.mjs). The result also has `tree` and `uri(name)`.
 */
export async function serve(t, options = {}) {
    const tree = options.tree ?? new Tree(t, options.files);
    const where = options.mounts ?? [tree.path];
    const args = [
        'serve',
        '--http',
        options.http ?? '127.0.0.1:0',
        ...(options.args ?? []),
        ...where,
    ];
    const [file, ...before] = [...(options.under ?? []), options.program ?? BIN];
    const program = new Program(t, file, [...before, ...args], { env: options.env, mayFail: options.mayFail });
    program.tree = tree;
    program.secure = options.secure;
    program.uri = (name) => tree.uri(name);
    return ready(program);
}

/** An example program that serves. */
export function serveExample(t, name, args = []) {
    const file = path.join(EXAMPLES, name);
    return ready(new Program(t, file, ['--http', '127.0.0.1:0', ...args]));
}

/** Run a command to its end: { code, signal, stdout, stderr }. */
export async function run(t, args, options = {}) {
    const program = new Program(t, options.file ?? BIN, args, { mayFail: true, ...options });
    let stdout = '';
    program.child.stdout.setEncoding('utf8').on('data', (text) => {
        stdout += text;
    });
    if (options.input !== undefined) {
        program.child.stdin.end(options.input);
    } else {
        program.child.stdin.end();
    }
    const end = await within(program.closed, `${program.name} to end`, options.ms ?? DEADLINE);
    return { ...end, stdout, stderr: program.stderr };
}

/** Split a byte stream at newlines into an inbox; the remainder at the end counts as a line. */
function splitLines(stream, inbox, every = () => {}) {
    const splitter = new LineSplitter();
    stream.setEncoding('utf8');
    stream.on('data', (text) => {
        every(text);
        splitter.take(text).forEach((line) => inbox.push(line));
    });
    stream.on('close', () => {
        if (splitter.rest !== '') {
            inbox.push(splitter.rest);
        }
        inbox.end('it closed');
    });
}
