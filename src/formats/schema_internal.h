/* SPDX-License-Identifier: MIT
 *
 * What a compiled JSON Schema consists of. Private to formats/schema*.c.
 *
 * A node is one subschema; it belongs to a resource (what an $id names) and holds a rule per
 * keyword, in the order they are judged. Nodes, rules and strings lie in one arena; only regexes
 * and references to documents are given back one by one.
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

/* In the order in which the rules of a node are judged: cheap ones first, `unevaluated` last. */
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

/* Does the instance obey the rule? */
typedef bool (*schema_check_fn)(struct eval *e, const struct at *at, const struct rule *rule);

struct branch {
    struct tidings_str key; /* of a map or list; else empty */
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
    uint64_t bound;            /* of keywords that are a count; of `type`, a set of bits */
    struct regex *regex;       /* pattern */
    struct tidings_str anchor; /* $dynamicRef: not empty when the scope decides */
};

/* What has to be given back of the regexes. */
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

/* Switched on and off by the $vocabulary of the metaschema. */
struct vocabularies {
    bool applicator, unevaluated, validation, format_assertion;
};

struct resource {
    struct resource *next;
    struct tidings_str uri; /* absolute unless nothing was; without fragment */
    struct node *root;
    struct anchor *anchors;
    uint64_t n_anchors;
    struct vocabularies has;
};

struct document {
    struct document *next;
    struct tidings_str uri; /* it was given under; empty for the schema itself */
    struct json *value;     /* a reference */
    struct node *root;
};

struct node {
    struct node *next;         /* of all nodes */
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
    size_t regex_bytes;           /* of all of them */
    uint64_t cost;                /* of compiling, so far */
    struct schema_options limits; /* without zeros; documents only while compiling */
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

/* schema.c: a JSON pointer that is written into a text of a fixed size, cut at a character
 * when that is full. */
struct location_text {
    char *out; /* always terminated */
    size_t size, len;
    bool is_full;
};

void location_text_init(struct location_text *p, char *out, size_t size);
void location_text_put(struct location_text *p, struct tidings_str s);
void location_text_put_token(struct location_text *p,
                             struct tidings_str key); /* "/key", ~ and / escaped */
/* Where a keyword (NULL: the node) stands, as in struct schema_error.schema_path. */
void schema_locate(const struct node *n, const char *keyword, char *out, size_t size);

/* schema.c */

/* schema.c: give every $ref and $dynamicRef its branch. */
struct node *schema_anchor(const struct resource *r, struct tidings_str name, bool only_dynamic);

/* schema_value.c: numbers and equality. */
bool value_is_whole(double d);
bool value_is_integer(const struct json *v);                   /* by value: 1.0 is */
int value_compare(const struct json *a, const struct json *b); /* two numbers */
bool value_is_multiple(const struct json *v, const struct json *of);
size_t value_code_points(struct tidings_str utf8);
/* Deep equality. Takes what it costs from *steps; false when they run out. */
bool value_equal(struct json *a, struct json *b, uint64_t *steps);
uint64_t value_hash(struct json *v, uint64_t *steps); /* equal values, equal hashes */

/* schema_value.c: false when `text` is not of the format; true for an unknown one. */
bool schema_format_check(struct tidings_str format, struct tidings_str text);

#endif
