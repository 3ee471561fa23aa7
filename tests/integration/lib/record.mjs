// SPDX-License-Identifier: MIT
//
// Records of changes in the tables of a cluster (src/cluster/log_record.h). Reads them in JavaScript, and makes them
// in SQL from any values, including values that no node writes.

export const KIND = { entity: 0, moved: 1, types: 2, published: 3, announced: 5, session: 6, run: 7, broken: 8, mounted: 9 };

const VERSION = { numbers: ['from', 'since', 'sum'], texts: ['id', 'type', 'typeVersion', 'parent', 'changedBy', 'principal', 'oldTypeVersion', 'oldParent'] };
const RESOURCE = { numbers: ['modified', 'size'], texts: ['uri', 'etag', 'from', 'target', 'metadata', 'checksum', 'origin'] };
const fieldsOf = (kind) => kind <= KIND.moved ? VERSION : RESOURCE;

/** Decodes a column of psql: '\x...'. */
export function readRecord(column) {
    const bytes = Buffer.from(column.slice(2), 'hex');
    let at = 1;
    const number = () => {
        let n = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = BigInt(bytes[at++]);
            n |= (byte & 0x7fn) << shift;
            if (byte < 0x80n) {
                return Number((n >> 1n) ^ -(n & 1n));
            }
        }
    };
    const text = () => {
        const length = number();
        at += length;
        return bytes.toString('utf8', at - length, at);
    };
    const record = { kind: bytes[0], flags: number(), at: number() };
    const { numbers, texts } = fieldsOf(record.kind);
    numbers.forEach((name) => { record[name] = number(); });
    texts.forEach((name) => { record[name] = text(); });
    return record;
}

/** The database functions that `recordSql` needs. */
export const RECORD_FUNCTIONS = `
    CREATE FUNCTION record_number(n int8) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE u numeric := CASE WHEN n >= 0 THEN n::numeric * 2 ELSE -n::numeric * 2 - 1 END; made bytea := '';
    BEGIN
        WHILE u >= 128 LOOP
            made := made || set_byte('\\x00', 0, (u % 128)::int + 128);
            u := div(u, 128);
        END LOOP;
        RETURN made || set_byte('\\x00', 0, u::int);
    END $$;
    CREATE FUNCTION record_text(t bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT record_number(length(t)) || t $$;
    CREATE FUNCTION record_text(t text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT record_text(convert_to(t, 'UTF8')) $$;`;

/** Returns an SQL expression. The values are SQL expressions, too; missing values are 0 or empty. */
export function recordSql(kind, { flags = 0, at = 1, ...values } = {}) {
    const { numbers, texts } = fieldsOf(kind);
    const number = (n) => `record_number(${n})`;
    return [`set_byte('\\x00', 0, ${kind & 255})`, number(flags), number(at), ...numbers.map((name) => number(values[name] ?? 0)),
        ...texts.map((name) => `record_text(${values[name] ?? "''::text"})`)].join(' || ');
}
