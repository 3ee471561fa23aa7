// SPDX-License-Identifier: MIT
//
// The documentation pages as runnable scripts.
//
// A page is a sequence of fenced blocks. A comment directly above a block selects its action:
//
//     <!-- terminal NAME -->   console, sh: typed in this terminal (default: 1); each terminal is a shell
//     <!-- file NAME -->       also written to this file, below the page's directory
//     <!-- configuration -->   json: a server configuration, which must be valid
//     <!-- not run: WHY -->    skipped; WHY is a key of the list of exceptions
//     <!-- before              hidden input, typed first, up to a line -->
//     <!-- end terminal NAME -->   the command in this terminal is interrupted, as by ^C
//
// In a `console` block the lines with `$ ` are typed (a final `\` continues the line), the others are
// expected output: `…` inside a line matches any text, a line `…` any lines, a time any time.
// A command with shown output must print exactly that output; a command without may print anything, but must
// succeed. A running command continues; `^C` interrupts it.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { defer } from './cleanup.mjs';
import { DEADLINE, within } from './wait.mjs';

const INSTANT = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/;

// ---- reading --------------------------------------------------------------------------------------

/** Blocks of a page: { kind, lines, line, terminal, file, configuration, notRun }, in order. */
export function blocks(text) {
    const found = [];
    const lines = text.split('\n');
    let notes = {};
    for (let i = 0; i < lines.length; i++) {
        const note = lines[i].match(/^<!-- (terminal|file|not run:|configuration|before)\s*(.*?)\s*(-->)?$/);
        const over = lines[i].match(/^<!-- end terminal (\S+) -->$/);
        const fence = lines[i].match(/^(`{3,})(\S*)$/);
        if (note && note[1] === 'before') {
            const end = lines.indexOf('-->', i);
            found.push({ kind: 'sh', line: i + 2, lines: lines.slice(i + 1, end), terminal: 'unseen' });
            i = end;
        } else if (over) {
            found.push({ kind: 'console', line: i + 1, lines: ['^C'], terminal: over[1] });
        } else if (note) {
            notes[note[1]] = note[2] || true;
        } else if (fence) {
            const end = lines.indexOf(fence[1], i + 1);
            found.push({
                kind: fence[2],
                line: i + 2,
                lines: lines.slice(i + 1, end),
                terminal: notes.terminal ?? '1',
                file: notes.file,
                configuration: notes.configuration,
                notRun: notes['not run:'],
            });
            notes = {};
            i = end;
        } else if (/^ {4}\S/.test(lines[i]) && lines[i - 1] === '' && !/^\s*([-*|]|\d+\.)?\s{2,}/.test(before(lines, i))) {
            found.push({ kind: 'indented', line: i + 1, lines: [lines[i]] });
        } else if (lines[i].trim() !== '' && !lines[i].startsWith('<!--')) {
            notes = {};
        }
    }
    return found;
}

/** The last non-empty line above `i`; "  " means a line of a list item. */
function before(lines, i) {
    for (let at = i - 1; at >= 0; at--) {
        if (/^([-*]|\d+\.) /.test(lines[at])) {
            return '   ';
        }
        if (/^\S/.test(lines[at])) {
            return lines[at];
        }
    }
    return '';
}

/** Input and expected output: [{ typed, shown: [line...], line }]; typed null: only more output. */
export function steps(block) {
    const result = [];
    let current = { typed: null, shown: [], line: block.line };
    const finish = () => {
        while (current.shown.at(-1) === '') {
            current.shown.pop();
        }
        if (current.typed !== null || current.shown.length > 0) {
            result.push(current);
        }
    };
    for (let i = 0; i < block.lines.length; i++) {
        const text = block.lines[i];
        const typed = block.kind === 'sh' ? text : text.match(/^\$ (.*)$/)?.[1] ?? (text === '^C' ? text : null);
        if (typed === null) {
            current.shown.push(text);
            continue;
        }
        finish();
        current = { typed, shown: [], line: block.line + i };
        while (current.typed.endsWith('\\') && i + 1 < block.lines.length) {
            i += 1;
            current.typed = `${current.typed.slice(0, -1)} ${block.lines[i].trim()}`;
        }
    }
    finish();
    return result;
}

// ---- comparing ------------------------------------------------------------------------------------

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

function lineMatches(shown, came) {
    const parts = shown.split(/(…|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/);
    const pattern = parts.map((part) => {
        if (part === '…') {
            return '.*';
        }
        return INSTANT.test(part) ? INSTANT.source : escaped(part);
    });
    return new RegExp(`^${pattern.join('')}\\s*$`).test(came.trimEnd()) || shown.trimEnd() === came.trimEnd();
}

/** The number of items in `came` that the shown lines match, or -1 if not (yet) complete. */
export function taken(shown, came, at = 0, from = 0) {
    if (at === shown.length) {
        return from;
    }
    if (shown[at] === '…') {
        for (let next = from; next <= came.length; next++) {
            const end = taken(shown, came, at + 1, next);
            if (end >= 0) {
                return end;
            }
        }
        return -1;
    }
    return from < came.length && lineMatches(shown[at], came[from]) ? taken(shown, came, at + 1, from + 1) : -1;
}

// ---- running --------------------------------------------------------------------------------------

/** A shell with typed input. Its output on both streams is kept until it is checked. */
export class Terminal {
    #came = [];
    #rest = '';
    #wake = () => {};
    #running = null;
    #status = 0;
    #shown = null; // of the last command, if its complete output is shown

    constructor(t, name, cwd, env) {
        this.name = name;
        const loop = 'while IFS= read -r -d "" -u 3 line; do eval "$line" </dev/null 2>&1; printf "\\1%d\\n" $?; done';
        this.child = spawn('bash', ['-c', loop], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
        this.child.stdout.setEncoding('utf8').on('data', (text) => this.#take(text));
        this.child.stderr.resume();
        this.child.stdio[3].on('error', () => {});
        const exited = new Promise((resolve) => { this.child.on('exit', resolve); });
        defer(t, async () => {
            this.#signal('SIGTERM');
            this.child.stdio[3].end();
            await Promise.race([exited, new Promise((resolve) => { setTimeout(resolve, 3000).unref(); })]);
            try {
                process.kill(-this.child.pid, 'SIGKILL');
            } catch {
                // all commands have ended
            }
        });
    }

    #take(text) {
        const lines = (this.#rest + text).split('\n');
        this.#rest = lines.pop();
        for (const line of lines) {
            const end = line.indexOf('\u0001');
            if (end >= 0) {
                if (end > 0) {
                    this.#came.push(line.slice(0, end));
                }
                this.#status = Number(line.slice(end + 1));
                this.#running = null;
            } else {
                this.#came.push(line);
            }
        }
        this.#wake();
    }

    #signal(signal) {
        const list = `/proc/${this.child.pid}/task/${this.child.pid}/children`;
        const children = fs.existsSync(list) ? fs.readFileSync(list, 'utf8').split(' ').filter(Boolean) : [];
        children.forEach((pid) => process.kill(Number(pid), signal));
        return children.length > 0;
    }

    /** Between two commands of a line the shell has no process to interrupt. */
    async #interrupt() {
        while (this.#running !== null && !this.#signal('SIGINT')) {
            await new Promise((resolve) => { setTimeout(resolve, 10); });
        }
    }

    /** Wait until `done()`; the error message of a timeout contains the output so far. */
    async #until(done, what) {
        const arrival = (async () => {
            while (!done()) {
                await new Promise((resolve) => { this.#wake = resolve; });
            }
        })();
        const said = () => `${what}; terminal ${this.name} said:\n    ${[...this.#came, this.#rest].join('\n    ')}`;
        const own = /--wait (\d+)s/.exec(this.#running ?? '')?.[1] ?? 0; // the timeout of the command itself
        await within(arrival, said, 2 * DEADLINE + 2000 * own);
    }

    async step(step) {
        if (step.typed === '^C') {
            this.#shown = null;
            await within(this.#interrupt(), 'a command to interrupt', 2 * DEADLINE);
            await this.#until(() => this.#running === null, `\`${this.#running}\` to end after ^C`);
            this.#came = [];
            return;
        }
        if (step.typed !== null) {
            await this.#until(() => this.#running === null, `\`${this.#running}\` to end (a line ^C interrupts it)`);
            this.#check();
            this.#came = [];
            this.#running = step.typed;
            this.child.stdio[3].write(`${step.typed}\0`);
        }
        if (step.shown.length === 0) {
            await this.#until(() => this.#running === null, `\`${step.typed}\` to end`);
            if (this.#status !== 0) {
                throw new Error(`\`${step.typed}\` ended with status ${this.#status}:\n    ${this.#came.join('\n    ')}`);
            }
            return;
        }
        const isOver = () => taken(step.shown, this.#came) >= 0 || this.#running === null;
        await this.#until(isOver, `the lines\n    ${step.shown.join('\n    ')}\n`);
        const end = taken(step.shown, this.#came);
        if (end < 0) {
            throw this.#other(step.shown, this.#came);
        }
        this.#shown = step.shown.includes('…') ? null : step.shown;
        this.#came.splice(0, end);
    }

    /** End of the page: commands that have ended, or end now, must have printed only the output on the page. */
    async finish() {
        if (this.#running !== null && this.#shown) {
            const ended = this.#until(() => this.#running === null, 'the end').catch(() => {});
            await Promise.race([ended, new Promise((resolve) => { setTimeout(resolve, 100); })]);
        }
        if (this.#running === null) {
            this.#check();
        }
    }

    #check() {
        if (this.#shown && this.#came.length > 0) {
            throw this.#other(this.#shown, [...this.#shown, ...this.#came]);
        }
        this.#shown = null;
    }

    #other(shown, came) {
        return new Error(`the page shows\n    ${shown.join('\n    ')}\n  but this came:\n    ${came.join('\n    ')}`);
    }
}

/** The pages of the documentation, including subfolders of docs. */
export function pages(root) {
    const docs = fs.readdirSync(path.join(root, 'docs'), { recursive: true }).filter((name) => name.endsWith('.md'));
    return ['README.md', ...docs.sort().map((name) => `docs/${name}`)];
}
