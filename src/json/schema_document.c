/* SPDX-License-Identifier: MIT
 *
 * The documents that a JSON Schema may refer to, by URI: those given with the options, and the
 * standard ones that are built in. A document is indexed when a reference first leads to it, never
 * before. Nothing is fetched.
 */
#include "json/schema_private.h"

#define DRAFT "https://json-schema.org/draft/2020-12/"

int document_add(struct compiler *c, struct tidings_str uri, struct json *value, struct node **ret)
{
    struct document *d = arena_alloc(&c->s->arena, sizeof(*d));
    struct tidings_str name = arena_dup(&c->s->arena, uri);
    if (!d || !name.ptr) {
        return schema_no_memory(c);
    }
    *d = (struct document){.next = c->s->documents, .uri = name, .value = jv_ref(value)};
    c->s->documents = d;
    return schema_index(c, d, ret);
}

/* The value of a document that is not part of the schema yet, with a reference; NULL and 0 when
 * there is none. */
static int read_document(struct compiler *c, struct tidings_str uri, struct json **ret)
{
    const struct schema_options *o = c->options;
    for (size_t i = 0; o && i < o->n_documents; i++) {
        if (str_eq(o->documents[i].uri, uri)) {
            *ret = jv_ref((struct json *)o->documents[i].root);
            return 0;
        }
    }
    const char *text = schema_meta_text(uri);
    struct json *v = NULL;
    int rc = text ? jv_parse(tidings_str(text), JSON_MAX_DEPTH, &v, c->err) : 0;
    *ret = (struct json *)v;
    return rc;
}

int document_find(struct compiler *c, struct tidings_str uri, struct node **ret)
{
    *ret = NULL;
    for (struct resource *r = c->s->resources; r; r = r->next) {
        if (str_eq(r->uri, uri)) {
            *ret = r->root;
            return 0;
        }
    }
    for (struct document *d = c->s->documents; d; d = d->next) {
        if (str_eq(d->uri, uri)) {
            *ret = d->root;
            return 0;
        }
    }
    struct json *value = NULL;
    int rc = read_document(c, uri, &value);
    if (rc == 0 && value) {
        rc = document_add(c, uri, value, ret);
        jv_unref(value); /* the schema has its own */
    }
    return rc;
}

static int read_vocabularies(struct compiler *c, const struct node *n, struct json *vocabulary,
                             struct vocabularies *ret)
{
    static const struct {
        const char *uri;
        struct vocabularies has;
    } known[] = {
        {DRAFT "vocab/core", {0}},
        {DRAFT "vocab/applicator", {.applicator = true}},
        {DRAFT "vocab/unevaluated", {.unevaluated = true}},
        {DRAFT "vocab/validation", {.validation = true}},
        {DRAFT "vocab/meta-data", {0}},
        {DRAFT "vocab/format-annotation", {0}},
        {DRAFT "vocab/format-assertion", {.format_assertion = true}},
        {DRAFT "vocab/content", {0}},
    };
    *ret = (struct vocabularies){0};
    for (struct json *i = value_first(vocabulary); i; i = value_next(vocabulary, i)) {
        size_t k = 0;
        while (k < sizeof(known) / sizeof(known[0]) &&
               !str_eq(value_text(i), tidings_str(known[k].uri))) {
            k++;
        }
        if (k < sizeof(known) / sizeof(known[0])) {
            ret->applicator |= known[k].has.applicator;
            ret->unevaluated |= known[k].has.unevaluated;
            ret->validation |= known[k].has.validation;
            ret->format_assertion |= known[k].has.format_assertion;
        } else if (jv_is_true(i + 1)) {
            return schema_refuse(c, TIDINGS_E_UNSUPPORTED, n, "$schema",
                                 "its metaschema requires a vocabulary that is not known here");
        }
    }
    return 0;
}

int document_vocabularies(struct compiler *c, const struct node *n, struct vocabularies *ret)
{
    struct json *name = jv_get(n->value, "$schema");
    struct tidings_str uri, fragment;
    if (!jv_is(name, JV_STRING)) {
        return 0;
    }
    if (schema_uri_resolve(&c->s->arena, STR_EMPTY, jv_str(name), &uri, &fragment) < 0) {
        return schema_no_memory(c);
    }
    if (str_eq(uri, STR(DRAFT "schema"))) {
        *ret = (struct vocabularies){true, true, true, false};
        return 0;
    }
    struct json *meta = NULL;
    int rc = read_document(c, uri, &meta); /* an unknown metaschema changes nothing */
    struct json *vocabulary = jv_get(meta, "$vocabulary");
    if (rc == 0 && jv_is(vocabulary, JV_OBJECT)) {
        rc = read_vocabularies(c, n, vocabulary, ret);
    }
    jv_unref(meta);
    return rc;
}
