/* SPDX-License-Identifier: MIT
 *
 * Indexing a JSON Schema: every value of a document where a keyword expects a schema becomes a node
 * and gets its rules; $id opens a resource, anchors are noted. References are left for
 * schema_ref.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "json/schema_private.h"

/* Of all regexes of a schema together, compiled. */
#define REGEX_BYTES_MAX ((size_t)8 << 20)

static int add_node(struct compiler *c, struct node *n, struct node **ret);

static struct resource *find_resource(const struct json_schema *s, struct tidings_str uri)
{
    struct resource *r = s->resources;
    while (r && !str_eq(r->uri, uri)) {
        r = r->next;
    }
    return r;
}

static int open_resource(struct compiler *c, struct node *n, struct tidings_str uri,
                         struct vocabularies has)
{
    struct resource *r = arena_alloc(&c->s->arena, sizeof(*r));
    if (!r) {
        return schema_no_memory(c);
    }
    int rc = schema_charge(c, n, 4 * c->s->n_resources++);
    if (rc < 0) {
        return rc;
    }
    if (uri.len > 0 && find_resource(c->s, uri)) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, "$id", "another schema has the same $id");
    }
    *r = (struct resource){.next = c->s->resources, .uri = uri, .root = n, .has = has};
    c->s->resources = r;
    n->resource = r;
    return 0;
}

/* Which resource does the node belong to: its parent's, or one it opens? */
static int join_resource(struct compiler *c, struct node *n)
{
    struct json *id = jv_get(n->value, "$id");
    struct tidings_str base = n->parent ? n->parent->resource->uri : n->document->uri;
    struct tidings_str uri = base, fragment;
    struct vocabularies has = {true, true, true, false};
    if (n->parent) {
        has = n->parent->resource->has;
        n->resource = n->parent->resource;
        if (!id) {
            return 0;
        }
    }
    if (id) {
        if (!jv_is(id, JV_STRING)) {
            return schema_refuse(c, TIDINGS_E_INVALID, n, "$id", "a URI reference expected");
        }
        if (schema_uri_resolve(&c->s->arena, base, jv_str(id), &uri, &fragment) < 0) {
            return schema_no_memory(c);
        }
        if (fragment.len > 0) {
            return schema_refuse(c, TIDINGS_E_INVALID, n, "$id", "a URI without fragment expected");
        }
    }
    int rc = document_vocabularies(c, n, &has);
    if (rc == 0 && !(n->parent && str_eq(uri, base))) {
        rc = open_resource(c, n, uri, has);
    }
    return rc;
}

static int add_anchor(struct compiler *c, struct node *n, const char *keyword, bool is_dynamic)
{
    struct json *v = jv_get(n->value, keyword);
    if (!v) {
        return 0;
    }
    if (!jv_is(v, JV_STRING) || jv_str(v).len == 0) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, keyword, "a name expected");
    }
    struct anchor *a = arena_alloc(&c->s->arena, sizeof(*a));
    if (!a) {
        return schema_no_memory(c);
    }
    int rc = schema_charge(c, n, 4 * n->resource->n_anchors);
    if (rc < 0) {
        return rc;
    }
    struct node *other = schema_anchor(n->resource, jv_str(v), false);
    if (other && other != n) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, keyword,
                             "another anchor of this schema has the same name");
    }
    *a = (struct anchor){n->resource->anchors, jv_str(v), n, is_dynamic};
    n->resource->anchors = a;
    n->resource->n_anchors++;
    return 0;
}

static int add_regex(struct compiler *c, const struct node *n, const char *keyword,
                     struct tidings_str source, struct regex **ret)
{
    struct tidings_error why = {0};
    struct pattern *p = arena_alloc(&c->s->arena, sizeof(*p));
    if (!p) {
        return schema_no_memory(c);
    }
    int rc = regex_create_counted(source, REGEX_CHARACTERS, c->s->limits.max_regex_bytes,
                                  &c->s->cost, &p->regex, &why);
    if (rc < 0) {
        return schema_refuse(c, rc, n, keyword, why.text);
    }
    p->next = c->s->patterns;
    c->s->patterns = p;
    c->s->regex_bytes += regex_bytes(p->regex);
    *ret = p->regex;
    rc = schema_charge(c, n, 0);
    if (rc < 0) {
        return rc;
    }
    return c->s->regex_bytes <= REGEX_BYTES_MAX
               ? 0
               : schema_refuse(c, TIDINGS_E_LIMIT, n, keyword, "too many regexes, or too large");
}

/* One subschema of a rule. `key` is NULL when the keyword holds just one. */
static int add_branch(struct compiler *c, struct node *n, struct rule *rule,
                      const struct tidings_str *key, struct json *value)
{
    struct branch *b = &rule->branches[rule->n_branches];
    struct node *child = arena_alloc(&c->s->arena, sizeof(*child));
    struct tidings_str edge = schema_edge(&c->s->arena, rule->name, key);
    if (!child || !edge.ptr) {
        return schema_no_memory(c);
    }
    *child = (struct node){.parent = n, .document = n->document, .value = value, .edge = edge};
    b->key = key ? *key : STR_EMPTY;
    rule->n_branches++;
    return add_node(c, child, &b->node);
}

static int add_list(struct compiler *c, struct node *n, struct rule *rule)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < value_elements(rule->value); i++) {
        char number[24];
        (void)snprintf(number, sizeof(number), "%zu", i);
        struct tidings_str key = arena_dup(&c->s->arena, tidings_str(number));
        rc = key.ptr ? add_branch(c, n, rule, &key, jv_at(rule->value, i)) : schema_no_memory(c);
    }
    return rc;
}

static int by_key(const void *a, const void *b)
{
    return str_cmp(((const struct branch *)a)->key, ((const struct branch *)b)->key);
}

static int add_map(struct compiler *c, struct node *n, struct rule *rule, bool is_pattern)
{
    int rc = 0;
    for (struct json *i = value_first(rule->value); rc == 0 && i; i = value_next(rule->value, i)) {
        struct tidings_str key = value_text(i);
        if (is_pattern) {
            rc = add_regex(c, n, rule->name, key, &rule->branches[rule->n_branches].regex);
        }
        if (rc == 0) {
            rc = add_branch(c, n, rule, &key, i + 1);
        }
    }
    if (rc == 0 && rule->n_branches > 1 && !is_pattern) {
        qsort(rule->branches, rule->n_branches, sizeof(*rule->branches), by_key);
    }
    return rc;
}

/* The subschemas of a rule and its regexes. */
static int index_add_parts(struct compiler *c, struct node *n, struct rule *rule, enum shape shape)
{
    bool is_list = shape == SHAPE_SCHEMAS;
    bool is_map = shape == SHAPE_SCHEMA_MAP || shape == SHAPE_PATTERN_MAP;
    size_t count = is_list  ? value_elements(rule->value)
                   : is_map ? value_members(rule->value)
                            : (size_t)(shape == SHAPE_SCHEMA || shape == SHAPE_REF);
    if (shape == SHAPE_PATTERN) {
        return add_regex(c, n, rule->name, jv_str(rule->value), &rule->regex);
    }
    if (count == 0) {
        return 0;
    }
    if (count > c->s->limits.max_subschemas) {
        return schema_refuse(c, TIDINGS_E_LIMIT, n, rule->name, "too many subschemas");
    }
    rule->branches = arena_alloc(&c->s->arena, count * sizeof(*rule->branches));
    if (!rule->branches) {
        return schema_no_memory(c);
    }
    if (shape == SHAPE_REF) {
        return 0;
    }
    return is_list  ? add_list(c, n, rule)
           : is_map ? add_map(c, n, rule, shape == SHAPE_PATTERN_MAP)
                    : add_branch(c, n, rule, NULL, rule->value);
}

static bool is_active(const struct compiler *c, const struct node *n, enum keyword keyword)
{
    const struct vocabularies *has = &n->resource->has;
    size_t vocabulary = schema_keywords[keyword].vocabulary;
    if (keyword == KW_FORMAT) {
        return has->format_assertion || c->s->limits.assert_format;
    }
    return vocabulary == SIZE_MAX || *(const bool *)((const char *)has + vocabulary);
}

static int add_rules(struct compiler *c, struct node *n)
{
    struct json *values[KW_COUNT];
    size_t count = 0;
    for (int k = 0; k < KW_COUNT; k++) {
        values[k] =
            is_active(c, n, (enum keyword)k) ? jv_get(n->value, schema_keywords[k].name) : NULL;
        count += values[k] != NULL;
    }
    n->rules = count > 0 ? arena_alloc(&c->s->arena, count * sizeof(*n->rules)) : NULL;
    if (count > 0 && !n->rules) {
        return schema_no_memory(c);
    }
    n->has_unevaluated = values[KW_UNEVALUATED_ITEMS] || values[KW_UNEVALUATED_PROPERTIES];
    for (int k = 0; k < KW_COUNT; k++) {
        if (values[k]) {
            n->rules[n->n_rules++] = (struct rule){.keyword = (enum keyword)k,
                                                   .name = schema_keywords[k].name,
                                                   .check = schema_keywords[k].check,
                                                   .value = values[k]};
        }
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n->n_rules; i++) {
        struct rule *rule = &n->rules[i];
        enum shape shape = schema_keywords[rule->keyword].shape;
        rc = keyword_read(c, n, rule, shape);
        if (rc == 0) {
            rc = index_add_parts(c, n, rule, shape);
        }
    }
    return rc;
}

/* A node that knows its place and its value. */
static int add_node(struct compiler *c, struct node *n, struct node **ret)
{
    struct json_schema *s = c->s;
    n->depth = n->parent ? n->parent->depth + 1 : 0;
    if (!jv_is(n->value, JV_OBJECT) && !jv_is_bool(n->value)) {
        return schema_refuse(c, TIDINGS_E_INVALID, n, NULL,
                             "a schema expected (an object, true or false)");
    }
    if (n->depth >= s->limits.max_depth) {
        return schema_refuse(c, TIDINGS_E_LIMIT, n, NULL, "nested too deep");
    }
    if (s->n_nodes >= s->limits.max_subschemas) {
        return schema_refuse(c, TIDINGS_E_LIMIT, n, NULL, "too many subschemas");
    }
    s->n_nodes++;
    *s->nodes_end = n;
    s->nodes_end = &n->next;
    if (n->parent) {
        n->next_sibling = n->parent->first_child;
        n->parent->first_child = n;
    }
    *ret = n;
    int rc = join_resource(c, n);
    if (rc == 0 && jv_is(n->value, JV_OBJECT)) {
        rc = add_anchor(c, n, "$anchor", false);
        if (rc == 0) {
            rc = add_anchor(c, n, "$dynamicAnchor", true);
        }
        if (rc == 0) {
            rc = add_rules(c, n);
        }
    }
    return rc;
}

int schema_index(struct compiler *c, struct document *d, struct node **ret)
{
    struct node *n = arena_alloc(&c->s->arena, sizeof(*n));
    if (!n) {
        return schema_no_memory(c);
    }
    *n = (struct node){.document = d, .value = d->value, .edge = STR_EMPTY};
    d->root = n;
    return add_node(c, n, ret);
}

int schema_index_below(struct compiler *c, struct node *parent, struct tidings_str edge,
                       struct json *value, struct node **ret)
{
    struct node *n = arena_alloc(&c->s->arena, sizeof(*n));
    if (!n) {
        return schema_no_memory(c);
    }
    *n =
        (struct node){.parent = parent, .document = parent->document, .value = value, .edge = edge};
    return add_node(c, n, ret);
}
