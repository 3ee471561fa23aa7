/* SPDX-License-Identifier: MIT
 *
 * JSON Schema draft 2020-12: core, applicator, unevaluated and validation vocabularies.
 *
 * A schema is compiled once and validates any number of values, from several threads at once:
 * nothing in it changes after schema_compile. Nothing is ever fetched: a reference leads to the
 * schema itself, into a document given with the options, or to the standard metaschema, which is
 * built in.
 *
 * Schemas and instances can both be untrusted. The cost of a schema is limited at compilation
 * (subschemas, nesting, length of regexes, chains of $ref) and at validation (nesting, steps): a
 * value whose validation would exceed a limit is rejected, with an error message that names the
 * limit.
 *
 * Numbers are compared by value: 1 and 1.0 are equal, integers are exact in 64 bits, and
 * `multipleOf` uses the decimal digits of a number as written. Lengths count code points. Patterns
 * are searched anywhere in a string, in Unicode, as in ECMA-262; without backreferences
 * (formats/regex.h). `format` is an annotation unless assert_format is set; then an unknown one is
 * ignored.
 */
#ifndef FORMATS_SCHEMA_H
#define FORMATS_SCHEMA_H

#include "formats/json.h"

struct json_schema;

/* A document that $ref and $schema can name. Read only if they do. */
struct schema_document {
    struct tidings_str uri; /* absolute, without fragment */
    struct json *root;
};

/* A limit of zero means its default. */
struct schema_options {
    bool assert_format; /* date-time date time email hostname ipv4 ipv6 uri uri-reference uuid
                         * json-pointer regex */
    const struct schema_document *documents;
    size_t n_documents;
    unsigned max_depth;       /* nesting of a schema; and of schemas applied during validation */
    unsigned max_subschemas;  /* total of all used documents */
    unsigned max_ref_chain;   /* $ref to a schema that is a $ref to … */
    unsigned max_regex_bytes; /* per pattern */
    /* Per validation. A step takes about 2 ns: the cost of a regex at one position of a string
     * (formats/regex.h); everything else, including lengths, is charged in this unit
     * (formats/schema_eval.h). */
    uint64_t max_steps;
    uint64_t max_cost;  /* of compilation, in steps */
    uint64_t *ret_cost; /* set to the cost of compilation, even on failure; NULL is fine */
};

#define SCHEMA_DEFAULT_DEPTH 384u
#define SCHEMA_DEFAULT_SUBSCHEMAS 8192u
#define SCHEMA_DEFAULT_REF_CHAIN 64u
#define SCHEMA_DEFAULT_REGEX_BYTES 1024u
#define SCHEMA_DEFAULT_STEPS 8000000u /* less than 20 ms */

/* The first reason found. JSON pointers to the value and to the keyword; in another document than
 * the compiled one, "uri#" precedes the latter. Truncated if too long, never inside a character. */
struct schema_error {
    char instance_path[256];
    char schema_path[256];
    char text[256];
};

/* Compiles a schema; keeps a reference to it and to the documents it uses, which must not be
 * changed afterwards. `options` may be NULL. TIDINGS_E_INVALID (a keyword's value of the wrong
 * type, a regex, two schemas with one name), TIDINGS_E_NOTFOUND (an unresolved reference),
 * TIDINGS_E_LIMIT, TIDINGS_E_UNSUPPORTED (a required vocabulary), TIDINGS_E_NOMEM; the error
 * message names the location in the schema. */
int schema_compile(struct json *schema, const struct schema_options *options,
                   struct json_schema **ret, struct tidings_error *err);
void schema_destroy(struct json_schema *s); /* NULL is fine */

/* Returns true if `instance` is valid. If not, *ret_error (may be NULL) has the reason. Running out
 * of memory or exceeding a limit counts as invalid. */
bool schema_validate(const struct json_schema *s, struct json *instance,
                     struct schema_error *ret_error);

/* The same, but an aborted validation (a limit, no memory) has its own verdict. Uses *steps instead
 * of max_steps, and leaves the remaining steps there: 0 if they ran out. */
enum schema_verdict {
    SCHEMA_VALID,
    SCHEMA_NOT_VALID,
    SCHEMA_GAVE_UP,
};
enum schema_verdict schema_check_within(const struct json_schema *s, struct json *instance,
                                        struct schema_error *ret_error, uint64_t *steps);
uint64_t schema_max_steps(const struct json_schema *s);

#endif
