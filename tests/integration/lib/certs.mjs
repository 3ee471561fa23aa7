// SPDX-License-Identifier: MIT
//
// Certificates made by openssl(1) for one test, because saved certificates expire.

import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { defer } from './cleanup.mjs';

export class Certificates {
    #serial = 1;

    constructor(t) {
        this.dir = mkdtempSync(path.join(os.tmpdir(), 'tidings-tls-'));
        defer(t, () => rmSync(this.dir, { recursive: true, force: true }));
        this.authority('ca');
    }

    file(name) {
        return path.join(this.dir, name);
    }

    text(name) {
        return readFileSync(this.file(name), 'utf8');
    }

    #openssl(...args) {
        return execFileSync('openssl', args, { cwd: this.dir, stdio: 'pipe' });
    }

    #key(name) {
        this.#openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', `${name}.key`);
    }

    /** A CA: NAME.pem, NAME.key. */
    authority(name) {
        this.#key(name);
        this.#openssl(
            'req', '-x509', '-new', '-key', `${name}.key`, '-out', `${name}.pem`, '-days', '2',
            '-subj', `/CN=${name}`, '-addext', 'basicConstraints=critical,CA:TRUE',
        );
    }

    /** NAME.pem and NAME.key, signed by `ca`, for `names` ("DNS:a.test,IP:127.0.0.1"). */
    make(name, { ca = 'ca', names = 'DNS:localhost,IP:127.0.0.1', subject = `/CN=${name}` } = {}) {
        this.#key(name);
        writeFileSync(this.file(`${name}.ext`), names ? `subjectAltName=${names}\n` : '');
        this.#openssl('req', '-new', '-key', `${name}.key`, '-out', `${name}.csr`, '-subj', subject);
        this.#openssl(
            'x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, '-days', '2', '-extfile',
            `${name}.ext`, '-CA', `${ca}.pem`, '-CAkey', `${ca}.key`, '-set_serial', `${(this.#serial += 1)}`,
        );
        return this;
    }

    /** The same, with `seconds` of remaining validity. */
    brief(name, seconds, { ca = 'ca', subject = `/CN=${name}` } = {}) {
        const stamp = (ms) => new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '');
        const config = '[ca]\ndefault_ca=d\n[d]\ndatabase=index\nnew_certs_dir=.\ndefault_md=sha256\nserial=serial\nrand_serial=yes\npolicy=p\n[p]\ncommonName=supplied\n';
        writeFileSync(this.file('brief.cnf'), config);
        writeFileSync(this.file('index'), '');
        writeFileSync(this.file('index.attr'), 'unique_subject=no\n');
        this.#key(name);
        this.#openssl('req', '-new', '-key', `${name}.key`, '-out', `${name}.csr`, '-subj', subject);
        this.#openssl(
            'ca', '-batch', '-notext', '-rand_serial', '-config', 'brief.cnf', '-md', 'sha256', '-in', `${name}.csr`,
            '-out', `${name}.pem`, '-cert', `${ca}.pem`, '-keyfile', `${ca}.key`, '-startdate',
            stamp(Date.now() - 3600_000), '-enddate', stamp(Date.now() + seconds * 1000),
        );
        return this;
    }

    /** Replace the files of one certificate with those of another. */
    replace(name, by) {
        copyFileSync(this.file(`${by}.pem`), this.file(`${name}.pem`));
        copyFileSync(this.file(`${by}.key`), this.file(`${name}.key`));
    }

    /** Options of the program. */
    args(...names) {
        return names.flatMap((name) => [
            '--tls-cert', this.file(`${name}.pem`), '--tls-key', this.file(`${name}.key`),
        ]);
    }

    /** The trusted CA of our client and, if named, its certificate. */
    client(name, options = {}) {
        const own = name ? { cert: this.text(`${name}.pem`), key: this.text(`${name}.key`) } : {};
        return { ca: this.text('ca.pem'), servername: 'localhost', ...own, ...options };
    }
}
