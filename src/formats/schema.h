/* SPDX-License-Identifier: MIT
 *
 * JSON Schema draft 2020-12: core, applicator, unevaluated and validation vocabularies.
 *
 * A schema is compiled once and judges any number of values, from several threads at once: nothing
 * in it changes after schema_compile. Nothing is ever fetched: a reference leads into the schema
 * itself, into a document given with the options, or to the standard metaschema, which is built in.
 *
 * Schemas and instances may both come from strangers. What a schema may cost is bounded when it is
 * compiled (subschemas, nesting, length of regexes, chains of $ref) and when it judges (nesting,
 * steps): a value whose judgement would exceed a bound is refused, with a sentence that says so.
 *
 * Numbers are compared by value: 1 and 1.0 are equal, integers are exact in 64 bits, and
 * `multipleOf` reckons with the decimal digits a number is written with. Lengths count code points.
 * Patterns are searched anywhere in a string, in Unicode, in the manner of ECMA-262; without
 * backreferences (formats/regex.h). `format` is an annotation unless assert_format is set; then an
 * unknown one is ignored.
 */
#ifndef FORMATS_SCHEMA_H
#define FORMATS_SCHEMA_H

#include "formats/json.h"

struct json_schema;

/* A document that $ref and $schema may name. Read only when it is. */
struct schema_document {
    struct tidings_str uri; /* absolute, without fragment */
    struct json *root;
};

/* Zero in a limit stands for its default. */
struct schema_options {
    bool assert_format; /* date-time date time email hostname ipv4 ipv6 uri uri-reference uuid
                         * json-pointer regex */
    const struct schema_document *documents;
    size_t n_documents;
    unsigned max_depth;       /* nesting of a schema; and schema within schema while judging */
    unsigned max_subschemas;  /* of all documents that are used */
    unsigned max_ref_chain;   /* $ref to a schema that is a $ref to … */
    unsigned max_regex_bytes; /* of one pattern */
    /* Of one judgement. A step is some 2 ns: what a regex does at one position of a text
     * (formats/regex.h); everything else, and all lengths, are charged by that measure
     * (formats/schema_eval.h). */
    uint64_t max_steps;
    uint64_t max_cost;  /* of compiling it, in steps */
    uint64_t *ret_cost; /* gets what compiling took, also when it failed; NULL is fine */
};

#define SCHEMA_DEFAULT_DEPTH 384u
#define SCHEMA_DEFAULT_SUBSCHEMAS 8192u
#define SCHEMA_DEFAULT_REF_CHAIN 64u
#define SCHEMA_DEFAULT_REGEX_BYTES 1024u
#define SCHEMA_DEFAULT_STEPS 8000000u /* less than 20 ms */

/* The first reason found. JSON pointers to the value and to the keyword; the latter is preceded by
 * "uri#" in another document than the compiled one. Cut when too long, never inside a character. */
struct schema_error {
    char instance_path[256];
    char schema_path[256];
    char text[256];
};

/* Compile; keeps a reference to the schema and to the documents it uses, which must not be changed
 * afterwards. `options` may be NULL. TIDINGS_E_INVALID (a keyword's value of the wrong kind, a
 * regex, two schemas with one name), TIDINGS_E_NOTFOUND (a reference that leads nowhere),
 * TIDINGS_E_LIMIT, TIDINGS_E_UNSUPPORTED (a required vocabulary), TIDINGS_E_NOMEM; the sentence
 * names the location in the schema. */
int schema_compile(struct json *schema, const struct schema_options *options,
                   struct json_schema **ret, struct tidings_error *err);
void schema_destroy(struct json_schema *s); /* NULL is fine */

/* Is `instance` valid? If not, *ret_error (may be NULL) says why. Out of memory and beyond a limit
 * is not valid. */
bool schema_validate(const struct json_schema *s, struct json *instance,
                     struct schema_error *ret_error);

/* The same where a judgement that was given up (a limit, no memory) is not a no, with *steps
 * instead of max_steps, of which what is left remains: 0 after giving up for want of them. */
enum schema_verdict {
    SCHEMA_VALID,
    SCHEMA_NOT_VALID,
    SCHEMA_GAVE_UP,
};
enum schema_verdict schema_check_within(const struct json_schema *s, struct json *instance,
                                        struct schema_error *ret_error, uint64_t *steps);
uint64_t schema_max_steps(const struct json_schema *s);

#endif
