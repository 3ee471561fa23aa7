/* SPDX-License-Identifier: MIT
 *
 * Internal structure of a compiled JSON Schema. Private to formats/schema*.c.
 *
 * A node is one subschema; it belongs to a resource (the scope of an $id) and has a rule per
 * keyword, in the order of evaluation. Nodes, rules and strings are in one arena; only regexes and
 * references to documents are released individually.
 *
 *     document ── node ─┬─ rule "properties" ── branch "a" ── node …
 *                       └─ rule "$ref" ──────── branch ────── a node of any resource
 */
#ifndef FORMATS_SCHEMA_INTERNAL_H
#define FORMATS_SCHEMA_INTERNAL_H

#include "base/mem.h"
#include "base/str.h"
#include "formats/json.h"
#include "formats/regex.h"
#include "formats/schema.h"

/* In the order of evaluation of a node's rules: cheap ones first, `unevaluated` last. */
enum keyword {
    KW_TYPE,
    KW_CONST,
    KW_ENUM,
    KW_MULTIPLE_OF,
    KW_MAXIMUM,
    KW_EXCLUSIVE_MAXIMUM,
    KW_MINIMUM,
    KW_EXCLUSIVE_MINIMUM,
    KW_MAX_LENGTH,
    KW_MIN_LENGTH,
    KW_PATTERN,
    KW_FORMAT,
    KW_MAX_ITEMS,
    KW_MIN_ITEMS,
    KW_MAX_PROPERTIES,
    KW_MIN_PROPERTIES,
    KW_REQUIRED,
    KW_DEPENDENT_REQUIRED,
    KW_PREFIX_ITEMS,
    KW_ITEMS,
    KW_CONTAINS,
    KW_MIN_CONTAINS,
    KW_MAX_CONTAINS,
    KW_PROPERTIES,
    KW_PATTERN_PROPERTIES,
    KW_ADDITIONAL_PROPERTIES,
    KW_PROPERTY_NAMES,
    KW_REF,
    KW_DYNAMIC_REF,
    KW_ALL_OF,
    KW_ANY_OF,
    KW_ONE_OF,
    KW_NOT,
    KW_IF,
    KW_THEN,
    KW_ELSE,
    KW_DEPENDENT_SCHEMAS,
    KW_UNIQUE_ITEMS,
    KW_UNEVALUATED_ITEMS,
    KW_UNEVALUATED_PROPERTIES,
    KW_DEFS,
    KW_CONTENT_SCHEMA,
    KW_COUNT,
};

struct node;
struct rule;
struct eval;
struct at;

/* Returns true if the instance satisfies the rule. */
typedef bool (*schema_check_fn)(struct eval *e, const struct at *at, const struct rule *rule);

struct branch {
    struct tidings_str key; /* in a map or list; else empty */
    struct node *node;
    struct regex *regex; /* patternProperties */
};

struct rule {
    enum keyword keyword;
    const char *name;
    schema_check_fn check; /* NULL: only read by its siblings */
    struct json *value;
    size_t n_branches;
    struct branch *branches;   /* those of `properties` are sorted by key */
    uint64_t bound;            /* for keywords with a count; for `type`, a set of bits */
    struct regex *regex;       /* pattern */
    struct tidings_str anchor; /* $dynamicRef: not empty if the dynamic scope decides */
};

/* The regexes to release. */
struct pattern {
    struct pattern *next;
    struct regex *regex;
};

struct anchor {
    struct anchor *next;
    struct tidings_str name;
    struct node *node;
    bool is_dynamic;
};

/* Enabled and disabled by the $vocabulary of the metaschema. */
struct vocabularies {
    bool applicator, unevaluated, validation, format_assertion;
};

struct resource {
    struct resource *next;
    struct tidings_str uri; /* absolute if possible; without fragment */
    struct node *root;
    struct anchor *anchors;
    uint64_t n_anchors;
    struct vocabularies has;
};

struct document {
    struct document *next;
    struct tidings_str uri; /* its URI in the options; empty for the schema itself */
    struct json *value;     /* a reference */
    struct node *root;
};

struct node {
    struct node *next;         /* list of all nodes */
    struct node *parent;       /* NULL at the root of a document */
    struct tidings_str edge;   /* pointer from the parent: "/items", "/properties/a~1b" */
    struct node *first_child;  /* schemas below */
    struct node *next_sibling; /* … of this one's parent */
    struct document *document;
    struct resource *resource;
    struct json *value; /* an object, true or false */
    size_t n_rules;
    struct rule *rules;
    unsigned depth; /* below the root of its document */
    bool has_unevaluated;
};

struct json_schema {
    struct arena arena;
    struct node *root;
    struct node *nodes, **nodes_end; /* in the order of creation */
    struct document *documents;
    struct resource *resources;
    struct pattern *patterns;
    size_t regex_bytes;           /* total of all */
    uint64_t cost;                /* of compilation, so far */
    struct schema_options limits; /* without zeros; documents only during compilation */
    unsigned n_nodes;
    uint64_t n_resources;
};

struct compiler {
    struct json_schema *s;
    const struct schema_options *options;
    struct tidings_error *err;
};

/* schema.c */
enum shape {
    SHAPE_ANY,
    SHAPE_ARRAY,
    SHAPE_BOOL,
    SHAPE_NUMBER,
    SHAPE_POSITIVE,
    SHAPE_COUNT,
    SHAPE_STRING,
    SHAPE_STRINGS,
    SHAPE_STRINGS_MAP,
    SHAPE_TYPE,
    SHAPE_PATTERN,
    SHAPE_REF,
    SHAPE_SCHEMA,
    SHAPE_SCHEMAS,
    SHAPE_SCHEMA_MAP,
    SHAPE_PATTERN_MAP,
};

struct keyword_row {
    const char *name;
    enum shape shape;
    size_t vocabulary; /* offset of the switch in struct vocabularies; SIZE_MAX: always on */
    schema_check_fn check;
};

extern const struct keyword_row schema_keywords[KW_COUNT];

/* schema.c: a JSON pointer in a string of fixed size, truncated at a character if it is full. */
struct location_text {
    char *out; /* always terminated */
    size_t size, len;
    bool is_full;
};

void location_text_init(struct location_text *p, char *out, size_t size);
void location_text_put(struct location_text *p, struct tidings_str s);
void location_text_put_token(struct location_text *p,
                             struct tidings_str key); /* "/key", ~ and / escaped */
/* The location of a keyword (NULL: the node), as in struct schema_error.schema_path. */
void schema_locate(const struct node *n, const char *keyword, char *out, size_t size);

/* schema.c */

/* schema.c: sets the branch of every $ref and $dynamicRef. */
struct node *schema_anchor(const struct resource *r, struct tidings_str name, bool only_dynamic);

/* schema_value.c: numbers and equality. */
bool value_is_whole(double d);
bool value_is_integer(const struct json *v);                   /* by value: 1.0 is */
int value_compare(const struct json *a, const struct json *b); /* two numbers */
bool value_is_multiple(const struct json *v, const struct json *of);
size_t value_code_points(struct tidings_str utf8);
/* Deep equality. Subtracts its cost from *steps; false if they run out. */
bool value_equal(struct json *a, struct json *b, uint64_t *steps);
uint64_t value_hash(struct json *v, uint64_t *steps); /* equal values, equal hashes */

/* schema_value.c: false if `text` does not have the format; true for an unknown format. */
bool schema_format_check(struct tidings_str format, struct tidings_str text);

#endif
