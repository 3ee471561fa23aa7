/* SPDX-License-Identifier: MIT
 *
 * A compiled template, shared by the three files that make, expand and match it; nobody else
 * includes this.
 *
 * `parts` is the text as written, for expansion. `steps` is the same template flattened for
 * matching, with literals in canonical spelling; there are none when no canonical URI can match.
 */
#ifndef URI_TEMPLATE_PRIVATE_H
#define URI_TEMPLATE_PRIVATE_H

#include "uri/template.h"

/* Each expression uses a variable at least; a literal may stand before and after each. */
#define TEMPLATE_MAX_PARTS (2 * TEMPLATE_MAX_VARIABLES + 1)
/* A separator and a value per variable, literals between, an optional mark per expression. */
#define TEMPLATE_MAX_STEPS (4 * TEMPLATE_MAX_VARIABLES + 1)

/* One use of a variable. */
struct template_spec {
    struct tidings_str name;
    uint16_t max_chars; /* {name:n}; 0: no prefix */
    uint8_t variable;   /* index among the distinct names */
    bool explode;
};

struct template_part {
    char op;                 /* 0: literal; '{': plain expression; else the operator */
    struct tidings_str text; /* literal */
    size_t first, count;     /* expression: specs */
};

struct template_parse {
    struct template_part parts[TEMPLATE_MAX_PARTS];
    struct template_spec specs[TEMPLATE_MAX_VARIABLES];
    struct tidings_str names[TEMPLATE_MAX_VARIABLES];
    size_t part_count, spec_count, name_count;
};

enum template_step_kind {
    STEP_LITERAL,  /* text */
    STEP_VALUE,    /* one or more characters for `spec` */
    STEP_OPTIONAL, /* the next `count` steps, or nothing */
    STEP_NAMED,    /* ";name=value" for `spec`, or nothing; exploded: several times */
    STEP_QUERY, /* `lead`, then parameters for `count` specs from `spec` in any order; or nothing */
};

struct template_step {
    uint8_t kind;
    uint8_t spec;
    uint8_t count;
    uint8_t stops; /* VALUE, NAMED: which characters a value cannot hold */
    char lead;
    struct tidings_str text;
};

struct uri_template {
    struct tidings_str text; /* owned */
    char *canonical;         /* owned; steps point into it; may be NULL */
    const struct template_part *parts;
    const struct template_spec *specs;
    const struct tidings_str *names;
    const struct template_step *steps;
    size_t part_count, spec_count, name_count, step_count;
};

/* Flatten `parse` (of the canonical text) into at most TEMPLATE_MAX_STEPS; returns the number. */
size_t template_flatten(const struct template_parse *parse, struct template_step *steps);

#endif
