// SPDX-License-Identifier: MIT
//
// A temporary directory that a test serves, and the URIs of its files. Invariant: the directory is removed when the
// test ends; its path has no symbolic links.

import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { defer } from './cleanup.mjs';

export class Tree {
    constructor(t, files = {}) {
        const base = fs.realpathSync(os.tmpdir());
        this.path = fs.mkdtempSync(path.join(base, 'tidings-test-'));
        defer(t, () => fs.rmSync(this.path, { recursive: true, force: true }));
        for (const [name, content] of Object.entries(files)) {
            this.write(name, content);
        }
    }

    /** The absolute path of a name relative to the tree. */
    at(name = '') {
        return path.join(this.path, name);
    }

    /** The URI of a name; keep the trailing slash for directories. */
    uri(name = '') {
        const escape = (part) => encodeURIComponent(part);
        return `file://${`${this.path}/${name}`.split('/').map(escape).join('/')}`;
    }

    write(name, content = '') {
        fs.mkdirSync(path.dirname(this.at(name)), { recursive: true });
        fs.writeFileSync(this.at(name), content);
        return this.uri(name);
    }

    /** Save like an editor: write a temporary file, then rename it. One event for watchers of the name. */
    replace(name, content, aside = this.aside()) {
        fs.writeFileSync(aside, content);
        fs.renameSync(aside, this.at(name));
        return this.uri(name);
    }

    rename(from, to) {
        fs.renameSync(this.at(from), this.at(to));
    }

    /** A fresh path on the same file system but outside the tree. */
    aside() {
        Tree.#count += 1;
        return `${this.path}.aside${Tree.#count}`;
    }

    mkdir(name) {
        fs.mkdirSync(this.at(name), { recursive: true });
        return this.uri(`${name}/`);
    }

    remove(name) {
        fs.rmSync(this.at(name), { recursive: true });
    }

    static #count = 0;
}
