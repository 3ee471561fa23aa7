// SPDX-License-Identifier: MIT
//
// A server whose system calls fail on demand: `tests/support/fault_shim.c`, compiled on first use, in LD_PRELOAD, and
// the memory that it shares with the test. The failures follow from the seed and the number of calls of each kind.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { defer } from './cleanup.mjs';
import { BIN } from './server.mjs';

/** In the order of `enum kind`. */
export const KINDS = [
    'open', 'read', 'write', 'sync', 'name', 'stat', 'mmap', 'inotify', 'accept', 'epoll', 'receive',
    'send', 'descriptor', 'thread', 'memory', 'add',
];

const ALL = 16;
const KIND_BYTES = 24;
const FIRST_KIND = 16;
const LOG = FIRST_KIND + ALL * KIND_BYTES;
const LOGGED = 1024;
const DEEP = 8;
const ENTRY = 16 + 8 * DEEP;
const STALL = LOG + 8 + LOGGED * ENTRY;
const SIZE = STALL + 24;
const MILLION = 1_000_000;

const SOURCE = fileURLToPath(new URL('../../support/fault_shim.c', import.meta.url));
export const errno = constants.errno;
const errorName = new Map(Object.entries(errno).map(([name, number]) => [number, name]));
errorName.set(0xffff, 'in part');

/** The thread sanitizer has its own interceptors for the failing calls. An option for test(). */
export const skip = process.env.TIDINGS_TSAN ? 'not under the thread sanitizer' : false;

let compiled;

/** The shim, for programs with or without a sanitizer (which has its own allocator). */
function shim() {
    if (!compiled) {
        const folder = mkdtempSync(join(tmpdir(), 'tidings-faults-'));
        process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
        compiled = join(folder, 'fault_shim.so');
        const sanitized = /\/build\/(asan|tsan)\//.test(BIN) ? ['-DFAULT_WITHOUT_MEMORY'] : [];
        const how = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC'];
        execFileSync('cc', [...how, ...sanitized, '-o', compiled, SOURCE], { stdio: 'inherit' });
    }
    return compiled;
}

export class Faults {
    constructor(t, seed = 1) {
        const folder = mkdtempSync(join(tmpdir(), 'tidings-faults-'));
        this.file = join(folder, 'control');
        this.fd = openSync(this.file, 'w+');
        truncateSync(this.file, SIZE);
        const bytes = Buffer.alloc(8);
        bytes.writeBigUInt64LE(BigInt(seed));
        writeSync(this.fd, bytes, 0, 8, 8);
        execFileSync('mkfifo', [`${this.file}.gate`]);
        this.gate = openSync(`${this.file}.gate`, 'r+'); // keeps the FIFO usable if the program exits first
        defer(t, () => {
            closeSync(this.gate);
            closeSync(this.fd);
            rmSync(folder, { recursive: true, force: true });
        });
    }

    /** Options for serve(). They load libraries in another order than a sanitizer expects. */
    get env() {
        return {
            LD_PRELOAD: shim(),
            FAULT_CONTROL: this.file,
            ASAN_OPTIONS: `${process.env.ASAN_OPTIONS ?? ''}:verify_asan_link_order=0`,
        };
    }

    #put(value, at) {
        const bytes = Buffer.alloc(4);
        bytes.writeUInt32LE(value);
        writeSync(this.fd, bytes, 0, 4, at);
    }

    #get(at) {
        return readFileSync(this.file).readUInt32LE(at);
    }

    #kind(name) {
        const at = KINDS.indexOf(name);
        assert.ok(at >= 0, `no kind of calls is called ${name}`);
        return FIRST_KIND + at * KIND_BYTES;
    }

    /**
     * Selects the failing calls: `{sync: 1}` fails every sync, `{write: {rate: 0.01, error: errno.ENOSPC, limit: 3}}`
     * some writes. Other calls succeed.
     */
    set(kinds) {
        for (const name of KINDS) {
            const { rate = kinds[name] ?? 0, error = 0, limit = 0 } = kinds[name] ?? {};
            this.#put(error, this.#kind(name) + 4);
            this.#put(limit, this.#kind(name) + 8);
            this.#put(0, this.#kind(name) + 16);
            this.#put(Math.round(rate * MILLION), this.#kind(name));
        }
    }

    /** Selects the failing calls and starts failures. */
    on(kinds) {
        this.set(kinds);
        this.#put(1, 0);
    }

    off() {
        this.#put(0, 0);
    }

    /** Reads of this file hang from now on, as on a stalled file system. */
    stall(file) {
        const bytes = Buffer.alloc(8);
        bytes.writeBigUInt64LE(statSync(file, { bigint: true }).ino);
        writeSync(this.fd, bytes, 0, 8, STALL);
    }

    /** The number of hanging reads. */
    get stalled() {
        return this.#get(STALL + 8);
    }

    /** Hanging reads continue, and later reads do not hang. */
    release() {
        writeSync(this.fd, Buffer.alloc(8), 0, 8, STALL);
        writeSync(this.gate, Buffer.alloc(this.stalled));
    }

    /** Reads of page cache contents, and the number rejected by the sandbox. */
    get cached() {
        return { asked: this.#get(STALL + 12), refused: this.#get(STALL + 16) };
    }

    /** From now on the program's wall clock is this many seconds ahead of the machine's. */
    clock(seconds) {
        this.#put(seconds >>> 0, 4);
    }

    /** The number of failed calls of a kind since on(). */
    failed(name) {
        return this.#get(this.#kind(name) + 16);
    }

    /** The last failures: one line each, with return addresses in the program. */
    log(count = 50) {
        const bytes = readFileSync(this.file);
        const all = bytes.readUInt32LE(LOG);
        const lines = [];
        for (let n = Math.max(0, all - Math.min(count, LOGGED)); n < all; n += 1) {
            const at = LOG + 8 + (n % LOGGED) * ENTRY;
            const [kind, error] = [bytes.readUInt32LE(at), bytes.readUInt32LE(at + 4)];
            const where = [...Array(DEEP).keys()].map((i) => bytes.readBigUInt64LE(at + 16 + 8 * i).toString(16));
            lines.push(`${n} ${KINDS[kind]} ${errorName.get(error) ?? error} fd ${bytes.readInt32LE(at + 8)}`
                + ` thread ${bytes.readUInt32LE(at + 12)} at ${where.join(' ')}`);
        }
        return lines.join('\n');
    }
}
