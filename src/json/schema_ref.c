/* SPDX-License-Identifier: MIT
 *
 * Resolving the $ref and $dynamicRef of a JSON Schema: a resource by URI, then a node in it by
 * pointer or anchor. After this every reference has its node, and no chain of bare $ref is endless.
 * Loops through other keywords are ended by the bounds of a judgement.
 */
#include <stdlib.h>

#include "json/schema_private.h"

struct node *schema_anchor(const struct resource *r, struct tidings_str name, bool only_dynamic)
{
    for (const struct anchor *a = r->anchors; a; a = a->next) {
        if ((a->is_dynamic || !only_dynamic) && str_eq(a->name, name)) {
            return a->node;
        }
    }
    return NULL;
}

/* Is `edge` the beginning of `pointer`, by whole tokens? */
static bool leads(struct tidings_str edge, struct tidings_str pointer)
{
    return str_starts(pointer, edge) && (pointer.len == edge.len || pointer.ptr[edge.len] == '/');
}

/* Follow `pointer` from schema to schema as far as that goes; *pointer is what remains. */
static struct node *descend(struct node *n, struct tidings_str *pointer, uint64_t *steps)
{
    struct node *best;
    do {
        best = NULL;
        for (struct node *child = n->first_child; child; child = child->next_sibling) {
            *steps += 4;
            if (leads(child->edge, *pointer) && (!best || child->edge.len > best->edge.len)) {
                best = child;
            }
        }
        if (best) {
            n = best;
            *pointer = str_skip(*pointer, best->edge.len);
        }
    } while (best && pointer->len > 0);
    return n;
}

/* The token `pointer` begins with, unescaped into `out` (as long as the token). */
static struct tidings_str next_token(struct tidings_str *pointer, char *out)
{
    size_t len = 0, i = 1;
    for (; i < pointer->len && pointer->ptr[i] != '/'; i++) {
        char c = pointer->ptr[i];
        if (c == '~' && i + 1 < pointer->len && pointer->ptr[i + 1] == '0') {
            i++;
        } else if (c == '~' && i + 1 < pointer->len && pointer->ptr[i + 1] == '1') {
            c = '/';
            i++;
        }
        out[len++] = c;
    }
    *pointer = str_skip(*pointer, i);
    return tidings_strn(out, len);
}

static struct json *ref_member(struct json *v, struct tidings_str token)
{
    uint64_t index;
    if (jv_is(v, JV_OBJECT)) {
        return jv_get_str(v, token);
    }
    return jv_is(v, JV_ARRAY) && str_to_u64(token, &index) ? jv_at(v, (size_t)index) : NULL;
}

/* A pointer may lead into a keyword that is not known: what is there becomes a schema. */
static int find_pointer(struct compiler *c, struct node *n, struct tidings_str pointer,
                        struct node **ret)
{
    uint64_t steps = 0;
    n = descend(n, &pointer, &steps);
    int rc = schema_charge(c, n, steps);
    if (rc < 0) {
        return rc;
    }
    if (pointer.len == 0) {
        *ret = n;
        return 0;
    }
    char *token = arena_alloc(&c->s->arena, pointer.len + 1);
    if (!token) {
        return schema_no_memory(c);
    }
    struct json *v = n->value;
    for (struct tidings_str rest = pointer; v && rest.len > 0;) {
        v = ref_member(v, next_token(&rest, token));
    }
    if (!jv_is(v, JV_OBJECT) && !jv_is_bool(v)) {
        *ret = NULL;
        return 0;
    }
    return schema_index_below(c, n, pointer, v, ret);
}

static int ref_resolve(struct compiler *c, struct node *n, struct rule *rule)
{
    struct tidings_str uri, fragment, name;
    struct node *root = NULL, *target = NULL;
    if (schema_uri_resolve(&c->s->arena, n->resource->uri, jv_str(rule->value), &uri, &fragment) <
            0 ||
        schema_uri_decode(&c->s->arena, fragment, &name) < 0) {
        return schema_no_memory(c);
    }
    /* A resource without a name can only mean itself by an empty one. */
    int rc = schema_charge(c, n, 4 * (c->s->n_resources + n->resource->n_anchors));
    if (rc < 0) {
        return rc;
    }
    if (uri.len == 0 && n->resource->uri.len == 0) {
        root = n->resource->root;
    } else {
        rc = document_find(c, uri, &root);
    }
    if (rc == 0 && root && name.len == 0) {
        target = root;
    } else if (rc == 0 && root && name.ptr[0] == '/') {
        rc = find_pointer(c, root, name, &target);
    } else if (rc == 0 && root) {
        target = schema_anchor(root->resource, name, false);
        if (rule->keyword == KW_DYNAMIC_REF && schema_anchor(root->resource, name, true)) {
            rule->anchor = name;
        }
    }
    if (rc < 0) {
        return rc;
    }
    if (!target) {
        return schema_refuse(c, TIDINGS_E_NOTFOUND, n, rule->name,
                             root ? "the reference leads to no schema in its document"
                                  : "the reference leads to a document that was not given");
    }
    rule->branches[0] = (struct branch){.key = STR_EMPTY, .node = target};
    rule->n_branches = 1;
    return 0;
}

static const struct rule *find_ref(const struct node *n)
{
    for (size_t i = 0; i < n->n_rules; i++) {
        if (n->rules[i].keyword == KW_REF) {
            return &n->rules[i];
        }
    }
    return NULL;
}

static int check_chain(struct compiler *c, const struct node *start)
{
    const struct node *n = start;
    const struct rule *ref;
    for (unsigned i = 0; (ref = find_ref(n)) != NULL; i++) {
        if (i >= c->s->limits.max_ref_chain) {
            return schema_refuse(c, TIDINGS_E_LIMIT, start, "$ref",
                                 "a chain of references without end, or too long a one");
        }
        n = ref->branches[0].node;
    }
    return 0;
}

int schema_resolve(struct compiler *c)
{
    int rc = 0;
    /* The list grows while it is walked: documents are indexed as references lead to them. */
    for (struct node *n = c->s->nodes; rc == 0 && n; n = n->next) {
        for (size_t i = 0; rc == 0 && i < n->n_rules; i++) {
            if (schema_keywords[n->rules[i].keyword].shape == SHAPE_REF) {
                rc = ref_resolve(c, n, &n->rules[i]);
            }
        }
    }
    for (struct node *n = c->s->nodes; rc == 0 && n; n = n->next) {
        rc = check_chain(c, n);
    }
    return rc;
}
