// SPDX-License-Identifier: MIT
//
// Validates messages against the schemas of docs/schema. The schemas are open, like those of the protocol; here a
// message must also contain no dev.tidings key without a schema. (The validator is a dependency of the official SDK.)

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';

import Ajv2020 from 'ajv/dist/2020.js';

const folder = new URL('../../../docs/schema/', import.meta.url);
export const names = readdirSync(folder).filter((name) => name.endsWith('.json')).sort();
const documents = names.map((name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8')));

const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false, allErrors: true, allowUnionTypes: true });
documents.forEach((document) => ajv.addSchema(document));

/** A schema by the last part of its $id. */
export const document = (id) => documents.find(({ $id }) => $id === `urn:tidings:schema:${id}`);

/** Every key "dev.tidings/…" anywhere in a value. */
export function* ownKeys(value) {
    for (const [name, member] of Object.entries(value ?? {})) {
        if (name.startsWith('dev.tidings/')) {
            yield name;
        }
        if (typeof member === 'object') {
            yield* ownKeys(member);
        }
    }
}

const named = new Set(documents.flatMap((document) => [...ownKeys(document)]));

/** `schema` is the last part of an $id, and optionally the name of a definition: "resource#metadata". */
export function problems(schema, value) {
    const [document, definition] = schema.split('#');
    const pointer = definition ? `#/$defs/${definition}` : '';
    const validate = ajv.getSchema(`urn:tidings:schema:${document}${pointer}`);
    assert.ok(validate, `there is no schema '${schema}'`);
    const found = validate(value)
        ? []
        : validate.errors.map((e) => `${e.instancePath || '/'} ${e.message} (${e.schemaPath})`);
    const unknown = [...ownKeys(value)].filter((name) => !named.has(name));
    return [...found, ...unknown.map((name) => `${name} is in no schema`)];
}

export function holds(schema, value) {
    const found = problems(schema, value);
    assert.deepEqual(found, [], `${schema}: ${JSON.stringify(value)}`);
}
