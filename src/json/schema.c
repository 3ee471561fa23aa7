/* SPDX-License-Identifier: MIT
 *
 * Compiling a JSON Schema, in three passes: index the document (schema_index.c), resolve its
 * references, which index what they lead to (schema_ref.c), forget what only compiling needs.
 * Judging begins in schema_eval.c.
 */
#include "json/schema.h"

#include "base/mem.h"
#include "json/schema_private.h"

/* More than any bounded schema needs, unless its names are made to be long. */
#define ARENA_MAX ((size_t)64 << 20)

static unsigned limit_or_default(unsigned value, unsigned otherwise)
{
    return value > 0 ? value : otherwise;
}

static struct schema_options with_defaults(const struct schema_options *options)
{
    struct schema_options o = options ? *options : (struct schema_options){0};
    o.documents = NULL;
    o.n_documents = 0;
    o.max_depth = limit_or_default(o.max_depth, SCHEMA_DEFAULT_DEPTH);
    o.max_subschemas = limit_or_default(o.max_subschemas, SCHEMA_DEFAULT_SUBSCHEMAS);
    o.max_ref_chain = limit_or_default(o.max_ref_chain, SCHEMA_DEFAULT_REF_CHAIN);
    o.max_regex_bytes = limit_or_default(o.max_regex_bytes, SCHEMA_DEFAULT_REGEX_BYTES);
    o.max_steps = o.max_steps > 0 ? o.max_steps : SCHEMA_DEFAULT_STEPS;
    o.max_cost = o.max_cost > 0 ? o.max_cost : SCHEMA_DEFAULT_STEPS;
    return o;
}

int schema_compile(struct json *schema, const struct schema_options *options,
                   struct json_schema **ret, struct tidings_error *err)
{
    if (!schema) {
        return tidings_fail(err, TIDINGS_E_INVALID, "schema: none given");
    }
    struct json_schema *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "schema: out of memory");
    }
    arena_init(&s->arena, ARENA_MAX);
    s->nodes_end = &s->nodes;
    s->limits = with_defaults(options);
    struct compiler c = {.s = s, .options = options, .err = err};
    int rc = document_add(&c, STR_EMPTY, (struct json *)schema, &s->root);
    if (rc == 0) {
        rc = schema_resolve(&c);
    }
    if (s->limits.ret_cost) {
        *s->limits.ret_cost = s->cost + (uint64_t)s->n_nodes * 100;
        s->limits.ret_cost = NULL;
    }
    if (rc < 0) {
        schema_destroy(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void schema_destroy(struct json_schema *s)
{
    if (!s) {
        return;
    }
    for (struct pattern *p = s->patterns; p; p = p->next) {
        regex_destroy(p->regex);
    }
    for (struct document *d = s->documents; d; d = d->next) {
        jv_unref(d->value);
    }
    arena_deinit(&s->arena);
    mem_free(s);
}
