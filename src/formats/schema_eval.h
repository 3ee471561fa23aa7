/* SPDX-License-Identifier: MIT
 *
 * Internal interface of JSON Schema validation for the checks of keywords. Private to
 * formats/schema*.c.
 *
 * Each validation has one struct eval, on its caller's stack and thread. It stops at the first
 * failure that counts; a tolerated failure (`anyOf`, `not`, `if`, `contains`) is not reported.
 * Exceeding a limit is different from a failure: it aborts the whole validation, whatever keywords
 * surround it.
 */
#ifndef FORMATS_SCHEMA_EVAL_H
#define FORMATS_SCHEMA_EVAL_H

#include "formats/schema_internal.h"

/* Costs in steps of a regex (about 2 ns): lengths are charged, too. */
#define COST_SCHEMA 40u     /* applying one */
#define COST_TRIVIAL 4u     /* … that is true or false */
#define COST_MEMBER 24u     /* finding a member or a name */
#define COST_ELEMENT 60u    /* comparing and sorting one */
#define COST_VALUE 12u      /* comparing or hashing one value */
#define COST_MULTIPLE 6000u /* dividing numbers by their digits */
#define COST_SEARCH 150u    /* starting a search */
#define COST_FORMAT 16u     /* each byte of a format */
#define COST_REGEX 100000u  /* compiling a regex, for the format `regex` */
#define COST_BYTES(len) ((len) / 4)

struct eval {
    const struct json_schema *schema;
    struct schema_error *error; /* may be NULL */
    unsigned quiet;             /* > 0: failures are not reported */
    unsigned depth;
    uint64_t steps; /* remaining */
    bool is_over;   /* a limit was exceeded */
};

/* The elements or members (by position) that were evaluated, for the unevaluated… keywords. */
struct marks {
    size_t count;
    uint64_t *bits;
    uint64_t few[4]; /* `bits` for most instances */
};

/* The path from the root of the instance, innermost first. */
struct path {
    const struct path *up; /* NULL: the first step from the root */
    struct tidings_str key;
    size_t index; /* if key.ptr is NULL */
};

/* The dynamic scope: the resources entered, innermost first. */
struct scope {
    const struct scope *up;
    const struct resource *resource;
};

/* The application of a schema to a value. */
struct at {
    const struct node *node;
    struct json *instance;
    const struct path *path; /* NULL at the root */
    const struct scope *scope;
    struct marks *marks; /* NULL: not needed */
};

bool check_type(struct eval *e, const struct at *at, const struct rule *rule);
bool check_const(struct eval *e, const struct at *at, const struct rule *rule);
bool check_enum(struct eval *e, const struct at *at, const struct rule *rule);
bool check_multiple_of(struct eval *e, const struct at *at, const struct rule *rule);
bool check_range(struct eval *e, const struct at *at, const struct rule *rule);
bool check_length(struct eval *e, const struct at *at, const struct rule *rule);
bool check_pattern(struct eval *e, const struct at *at, const struct rule *rule);
bool check_format(struct eval *e, const struct at *at, const struct rule *rule);
bool check_items_count(struct eval *e, const struct at *at, const struct rule *rule);
bool check_properties_count(struct eval *e, const struct at *at, const struct rule *rule);
bool check_required(struct eval *e, const struct at *at, const struct rule *rule);
bool check_dependent_required(struct eval *e, const struct at *at, const struct rule *rule);
bool check_unique_items(struct eval *e, const struct at *at, const struct rule *rule);

bool check_prefix_items(struct eval *e, const struct at *at, const struct rule *rule);
bool check_items(struct eval *e, const struct at *at, const struct rule *rule);
bool check_contains(struct eval *e, const struct at *at, const struct rule *rule);
bool check_unevaluated_items(struct eval *e, const struct at *at, const struct rule *rule);
bool check_properties(struct eval *e, const struct at *at, const struct rule *rule);
bool check_pattern_properties(struct eval *e, const struct at *at, const struct rule *rule);
bool check_additional_properties(struct eval *e, const struct at *at, const struct rule *rule);
bool check_property_names(struct eval *e, const struct at *at, const struct rule *rule);
bool check_unevaluated_properties(struct eval *e, const struct at *at, const struct rule *rule);

bool check_ref(struct eval *e, const struct at *at, const struct rule *rule);
bool check_dynamic_ref(struct eval *e, const struct at *at, const struct rule *rule);
bool check_all_of(struct eval *e, const struct at *at, const struct rule *rule);
bool check_any_of(struct eval *e, const struct at *at, const struct rule *rule);
bool check_one_of(struct eval *e, const struct at *at, const struct rule *rule);
bool check_not(struct eval *e, const struct at *at, const struct rule *rule);
bool check_if(struct eval *e, const struct at *at, const struct rule *rule);
bool check_dependent_schemas(struct eval *e, const struct at *at, const struct rule *rule);

#endif
