/* SPDX-License-Identifier: MIT
 *
 * RFC 6570 URI templates: expansion, and reverse matching.
 *
 * Expansion follows the RFC, all four levels. Reverse matching finds whether a template could have
 * produced a URI, and with which values, by the rules of template_match below.
 */
#ifndef FORMATS_URI_TEMPLATE_H
#define FORMATS_URI_TEMPLATE_H

#include "base/mem.h"
#include "base/str.h"

#define TEMPLATE_MAX_VARIABLES 16u

struct uri_template; /* compiled, immutable */

/* TIDINGS_E_INVALID with the position and the reason. Keeps its own copy of the text. At most
 * TEMPLATE_MAX_VARIABLES uses of variables and URI_MAX bytes. */
int template_create(struct tidings_str text, struct uri_template **ret, struct tidings_error *err);
void template_destroy(struct uri_template *t);
struct tidings_str template_text(const struct uri_template *t);
/* Variables in order of first use, each name once. */
size_t template_variable_count(const struct uri_template *t);
struct tidings_str template_variable(const struct uri_template *t, size_t index);

struct template_value {
    struct tidings_str name;
    struct tidings_str value; /* percent-decoded */
};
struct template_match {
    size_t count;
    struct template_value values[TEMPLATE_MAX_VARIABLES];
};

/* Returns true if the canonical `uri` matches. *ret gets the values, decoded into `arena` (if NULL,
 * `arena` is not used). Rules: literals match byte for byte after normalisation; {var} and {var:n}
 * match one or more characters without '/', '?', '#' (nor '&' after an unencoded '?'); {+var} also
 * across '/', {#var} after '#', absent allowed; {.var} after '.', {/var} after '/' (explode:
 * several segments); {;var} and {?var} {&var} by name, in any order for the query forms, absent
 * allowed. Unknown query parameters do not match, nor more than 64 of them. An exploded parameter
 * may be repeated: its values are joined with ','. Ambiguity is resolved leftmost-shortest, without
 * backtracking beyond linear × variables; a variable that occurs twice must then have the same
 * value. *ret omits absent variables. Also returns false if `arena` is full. A value of {;var} with
 * a ';' in it does not match again, because canonical paths do not encode it. */
bool template_match(const struct uri_template *t, struct tidings_str uri, struct arena *arena,
                    struct template_match *ret);

/* Expansion. The value of a variable is a string, a list, or pairs. */
enum template_type {
    TEMPLATE_UNDEFINED,
    TEMPLATE_STRING,
    TEMPLATE_LIST,  /* `items` count strings */
    TEMPLATE_PAIRS, /* `items` 2 × count strings: key, value, … */
};
struct template_variable {
    struct tidings_str name;
    enum template_type type;
    struct tidings_str string;
    const struct tidings_str *items;
    size_t count;
};
/* Appends the expansion; missing variables, and empty lists and pairs, are undefined and omitted.
 * TIDINGS_E_INVALID: a prefix ({var:n}) of a list or pairs. Also the failures of `out`. On failure
 * `out` is unchanged. */
int template_expand(const struct uri_template *t, const struct template_variable *variables,
                    size_t count, struct buf *out, struct tidings_error *err);

#endif
