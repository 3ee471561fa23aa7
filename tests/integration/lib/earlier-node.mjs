// SPDX-License-Identifier: MIT
//
// A node of the version before, as the database sees it: one connection that prepared its statements when the tables were those of its
// layout (tests/cluster/layout-1.sql), and goes on to use them whatever becomes of the tables.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { LineSplitter } from './lines.mjs';

const SQL = readFileSync(new URL('../../cluster/layout-1.sql', import.meta.url), 'utf8');
const CHANNEL = 'tidings_0000000000001267'; // of the cluster's number in that file
const KEPT = { announced: 5, session: 6 };

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
const bytes = (text) => `'\\x${Buffer.from(text).toString('hex')}'`;

export class EarlierNode {
    #asked = 0;
    #waiting = new Map();

    /** Makes the tables, in a schema that is there. */
    static async make(database, schema) {
        const node = new EarlierNode();
        node.psql = database.session();
        const lines = new LineSplitter();
        node.psql.stdout.setEncoding('utf8').on('data', (text) => lines.take(text).forEach((line) => node.#line(line)));
        node.psql.stderr.setEncoding('utf8').on('data', (text) => { node.errors += text; });
        node.errors = '';
        node.rows = [];
        await node.say(`SET search_path = ${schema};\n${SQL}`);
        return node;
    }

    #line(line) {
        const asked = line.match(/^--done (\d+)$/);
        if (asked) {
            this.#waiting.get(Number(asked[1]))?.();
        } else {
            this.rows.push(line.split('\t'));
        }
    }

    /** Statements; the rows they gave. None of them may fail. */
    async say(text) {
        const number = ++this.#asked;
        this.rows = [];
        const done = new Promise((resolve) => this.#waiting.set(number, resolve));
        this.psql.stdin.write(`${text}\n\\echo --done ${number}\n`);
        await done;
        assert.equal(this.errors, '', text);
        return this.rows;
    }

    /** A batch: the statements find the newest position in :position, and say in `count` how many they took. */
    #batch(count, statements) {
        return this.say(`BEGIN; EXECUTE pg_lock \\gset
${statements}
EXECUTE pg_set_state(:position + ${count}, :floor, :announced, :keys, :max_keys); COMMIT;
EXECUTE pg_notify('${CHANNEL}', (:position + ${count})::text);`);
    }

    /** A version of an entity of the type that addType added. */
    upsert(type, id, value) {
        this.from = Math.max(Date.now(), (this.from ?? 0) + 1);
        return this.#batch(1, `EXECUTE pg_put(${quoted(id)}, ${this.from}, :position + 1, ${quoted(type)}, '1', '', 0, 0, ${this.from}, ${this.from}, 0,
            '[]', '', '', ${quoted(JSON.stringify(value))});`);
    }

    addType(name) {
        return this.#batch(1, `EXECUTE pg_put_type(:position + 1, ${quoted(name)}, '1', '{"type":"object"}', '', '');`);
    }

    announce(uri) {
        return this.#announce(KEPT.announced, uri, '');
    }

    #announce(kind, uri, target) {
        const none = "''";
        return this.#batch(1, `EXECUTE pg_announce(:position + 1, ${kind}, 0, 1, 0, -1, ${bytes(uri)}, ${none}, ${none}, ${bytes(target)}, ${none}, ${none},
            ${none});`);
    }

    /** Its row, which counts for a minute. */
    renew(name, followed) {
        return this.say(`EXECUTE pg_put_node(${quoted(name)}, 99, '0.0-earlier', '{"sessions":3}', 1, ${followed}, 60000);`);
    }

    /** The position and the URI, or the id, of what came after that position. */
    async changes(after) {
        const rows = await this.say(`EXECUTE pg_changes(${after});`);
        return rows.map((row) => [Number(row[1]), row[7] || Buffer.from(row[14].slice(2), 'hex').toString()]);
    }

    async position() {
        return Number((await this.say('EXECUTE pg_state;'))[0][0]);
    }

    async takeSession(id, name) {
        const rows = await this.say(`EXECUTE pg_take_session(${quoted(id)}, ${quoted(name)});`);
        await this.#announce(KEPT.session, id, name);
        return rows;
    }

    close() {
        this.psql.stdin.end();
    }
}
