// SPDX-License-Identifier: MIT
//
// Private PostgreSQL servers of a test: Debian's 15, each in its own temporary directory, as an unprivileged user, on
// a free port and a Unix socket next to its data, with fsync. The tests never touch the system's cluster. A test can
// stop, kill and restart a server, and promote its standby. Invariant: all servers and directories of a test are
// removed when it ends.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { defer } from './cleanup.mjs';
import { freePort } from './port.mjs';
import { DEADLINE, eventually, slow, within } from './wait.mjs';

const PROGRAMS = '/usr/lib/postgresql/15/bin';
const ROLE = 'tidings';

/** The reason to skip tests that need it, or false. */
export const skip = existsSync(`${PROGRAMS}/postgres`) ? false : 'no PostgreSQL 15 (Debian: postgresql-15)';

const run = promisify(execFile);

/** The unprivileged user for tests run as root, because postgres rejects root. */
function unprivileged() {
    if (process.getuid() !== 0) {
        return undefined;
    }
    const rows = readFileSync('/etc/passwd', 'utf8').split('\n').map((line) => line.split(':'));
    const row = rows.find(([name]) => name === 'postgres') ?? rows.find(([name]) => name === 'nobody');
    return { uid: Number(row[2]), gid: Number(row[3]) };
}
const user = unprivileged();

/** A program and its arguments as that user. */
function asUser(name, args) {
    const words = [`${PROGRAMS}/${name}`, ...args];
    return user ? ['setpriv', `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups', ...words] : words;
}

const env = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };

async function tool(name, args) {
    const [file, ...rest] = asUser(name, args);
    const { stdout } = await run(file, rest, { env, cwd: '/', maxBuffer: 2 ** 28 });
    return stdout;
}

/** The processes of a server: the first of them is `pid`. */
function family(pid) {
    const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
        readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number));
    return [pid, ...children];
}

export class Postgres {
    log = '';
    settings = {}; // in addition to the common settings

    /** A new running server. */
    static async start(t, settings = {}) {
        const server = await Postgres.#make(t);
        server.settings = settings;
        await tool('initdb', ['-D', server.data, '-U', ROLE, '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync']);
        await server.begin();
        return server;
    }

    static async #make(t) {
        const server = new Postgres();
        server.t = t;
        server.folder = mkdtempSync(join(tmpdir(), 'tidings-pg-'));
        if (user) {
            chownSync(server.folder, user.uid, user.gid);
        }
        server.data = join(server.folder, 'data');
        server.port = await freePort();
        defer(t, async () => {
            await server.crash();
            rmSync(server.folder, { recursive: true, force: true });
        });
        return server;
    }

    /** Its TCP address for clients. `port`: of a relay in front of it. */
    url({ port = this.port, schema, database = 'postgres', extra = '' } = {}) {
        const path = schema ? `&options=-csearch_path%3D${schema}` : '';
        return `postgres://${ROLE}@127.0.0.1:${port}/${database}?sslmode=disable${path}${extra}`;
    }

    /** Its address by the Unix socket. */
    get socketUrl() {
        return `postgres://${ROLE}@/postgres?host=${encodeURIComponent(this.folder)}&port=${this.port}`;
    }

    get running() {
        return this.child !== undefined && this.child.exitCode === null && this.child.signalCode === null;
    }

    /** Start it, again or for the first time, and wait until it answers. */
    async begin() {
        const settings = {
            listen_addresses: '127.0.0.1', port: this.port, unix_socket_directories: this.folder, fsync: 'on',
            shared_buffers: '32MB', max_connections: 60, max_wal_senders: 8, wal_keep_size: '256MB',
            wal_retrieve_retry_interval: '100ms', ...this.settings,
        };
        const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
        const [file, ...rest] = asUser('postgres', ['-D', this.data, ...words]);
        // After a kill its last children may still be exiting: it then refuses to start.
        for (const end = Date.now() + DEADLINE; ; ) {
            let said = '';
            const child = spawn(file, rest, { env, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] });
            const exited = new Promise((resolve) => child.on('exit', () => resolve('it ended')));
            const ready = new Promise((resolve) => {
                child.stderr.setEncoding('utf8').on('data', (text) => {
                    said += text;
                    this.log = (this.log + text).slice(-65536);
                    if (/ready to accept (read-only )?connections/.test(said)) {
                        said = '';
                        resolve();
                    }
                });
            });
            this.child = child;
            this.exited = exited;
            const failed = await within(Promise.race([ready, exited]), () => `PostgreSQL to start: ${this.log}`, 3 * DEADLINE);
            if (!failed) {
                return;
            }
            if (Date.now() > end || !/still in use|still running|already exists|in use/.test(said)) {
                throw new Error(`PostgreSQL did not start:\n${said}`);
            }
            await new Promise((resolve) => setTimeout(resolve, 50));
        }
    }

    async #signal(signal, ms = DEADLINE) {
        if (this.running) {
            this.child.kill(signal);
            await within(this.exited, `PostgreSQL to end after ${signal}`, ms);
        }
    }

    /** Stop it cleanly: it disconnects clients and writes everything. */
    stop() {
        return this.#signal('SIGINT', 3 * DEADLINE);
    }

    async restart() {
        await this.stop();
        await this.begin();
    }

    /** kill -9 of all its processes. */
    async crash() {
        if (!this.running) {
            return;
        }
        for (const pid of family(this.child.pid)) {
            try {
                process.kill(pid, 'SIGKILL');
            } catch {
                // It exited first.
            }
        }
        await within(this.exited, 'PostgreSQL to be gone');
    }

    /** Run statements. Returns the rows as lists of strings. */
    async sql(text) {
        const args = ['-h', this.folder, '-p', `${this.port}`, '-U', ROLE, '-d', 'postgres', '-X', '-q', '-A', '-t', '-F', '\t',
            '-v', 'ON_ERROR_STOP=1', '-c', text];
        const out = await tool('psql', args);
        return out.split('\n').filter(Boolean).map((line) => line.split('\t'));
    }

    /** psql that reads statements until its standard input ends. */
    session() {
        const [file, ...rest] = asUser('psql', ['-h', this.folder, '-p', `${this.port}`, '-U', ROLE, '-d', 'postgres', '-X', '-q', '-A', '-t', '-F', '\t']);
        const child = spawn(file, rest, { env, cwd: '/', stdio: ['pipe', 'pipe', 'pipe'] });
        defer(this.t, () => child.kill('SIGKILL'));
        return child;
    }

    /**
     * A standby of this server. `name`: its application name; commits wait for it when `isSynchronous`. `through`:
     * the route to this server, for example a relay.
     */
    async standby({ name = 'standby', isSynchronous = true, through = this.port } = {}) {
        const standby = await Postgres.#make(this.t);
        standby.settings = { ...this.settings };
        delete standby.settings.synchronous_standby_names;
        await tool('pg_basebackup', ['-h', '127.0.0.1', '-p', `${through}`, '-U', ROLE, '-D', standby.data, '-X', 'stream',
            '-c', 'fast', '--no-sync', '-R', '-d', `application_name=${name} host=127.0.0.1 port=${through} user=${ROLE}`]);
        await standby.begin();
        await this.#streaming(name);
        if (isSynchronous) {
            await this.synchronous(name);
        }
        return standby;
    }

    async #streaming(name) {
        const asked = `SELECT 1 FROM pg_stat_replication WHERE application_name = '${name}' AND state = 'streaming'`;
        await eventually(async () => (await this.sql(asked)).length > 0, `${name} follows`, 3 * DEADLINE);
    }

    /** Select the standby that commits wait for; '': none. */
    async synchronous(name) {
        await this.sql(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
        await this.sql('SELECT pg_reload_conf()');
        if (name !== '') {
            const asked = `SELECT 1 FROM pg_stat_replication WHERE application_name = '${name}' AND sync_state = 'sync'`;
            await eventually(async () => (await this.sql(asked)).length > 0, `${name} is waited for`);
        }
    }

    /** Promote a standby; its commits then wait for no other server. */
    async promote() {
        const [[done]] = await this.sql(`SELECT pg_promote(true, ${60 * slow})`);
        assert.equal(done, 't', this.log);
        await this.synchronous('');
    }
}
