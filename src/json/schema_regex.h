/* SPDX-License-Identifier: MIT
 *
 * The patterns of a schema: searched anywhere in a UTF-8 string, by code points, with a bound on
 * the steps of one search. Private to json/schema*.c.
 *
 * PCRE2 in the manner of ECMA-262: `$` matches at the very end only, `\d` and `\w` are ASCII,
 * \uHHHH is a character, `[]` matches nothing, and general categories may be spelled out
 * (\p{Letter}). A compiled regex is immutable and may be searched from several threads at once.
 */
#ifndef JSON_SCHEMA_REGEX_H
#define JSON_SCHEMA_REGEX_H

#include <tidings/types.h>

#define SCHEMA_REGEX_EASY 1000u /* steps most searches are content with */
#define SCHEMA_REGEX_MATCH_LIMIT 50000u
#define SCHEMA_REGEX_MAX_COMPILED 32768u /* bytes of what one compiles to */

struct schema_regex {
    struct schema_regex *next; /* the owner's list */
    void *code;                /* private */
    size_t bytes;              /* of what it compiled to */
};

enum schema_regex_result {
    SCHEMA_REGEX_ABSENT,
    SCHEMA_REGEX_FOUND,
    SCHEMA_REGEX_GAVE_UP, /* beyond the limit */
    SCHEMA_REGEX_NOMEM,
};

/* TIDINGS_E_INVALID with position and reason, TIDINGS_E_LIMIT, TIDINGS_E_NOMEM. */
int schema_regex_create(struct tidings_str source, size_t max_bytes, struct schema_regex **ret,
                        struct tidings_error *err);
void schema_regex_destroy(struct schema_regex *r); /* NULL is fine */
enum schema_regex_result schema_regex_search(const struct schema_regex *r, struct tidings_str text,
                                             uint32_t match_limit);

#endif
