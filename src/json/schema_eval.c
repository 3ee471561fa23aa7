/* SPDX-License-Identifier: MIT
 *
 * Validating a value by a compiled JSON Schema: a node's rules in order, the bounds, the report of
 * a failure, and the marks from which unevaluatedItems and unevaluatedProperties tell what is left.
 *
 * Marks follow success: a schema that fails below a keyword that forgives (anyOf …) leaves none,
 * because it marked a copy; below others the failure discards everything anyway.
 */
#include "json/schema_eval.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"

/* Texts from this length on are worth a table. */
#define TABLE_FROM 512u

static size_t words(size_t count)
{
    return (count + 63) / 64;
}

bool marks_init(struct marks *m, size_t count)
{
    *m = (struct marks){.count = count};
    m->bits = m->few;
    if (words(count) > sizeof(m->few) / sizeof(m->few[0])) {
        m->bits = mem_zalloc(words(count) * sizeof(*m->bits));
    }
    return m->bits != NULL;
}

void marks_deinit(struct marks *m)
{
    if (m->bits != m->few) {
        mem_free(m->bits);
    }
}

void marks_set(struct marks *m, size_t i)
{
    if (m) {
        m->bits[i / 64] |= (uint64_t)1 << (i % 64);
    }
}

bool marks_has(const struct marks *m, size_t i)
{
    return (m->bits[i / 64] >> (i % 64) & 1) != 0;
}

void marks_merge(struct marks *into, const struct marks *from)
{
    for (size_t i = 0; into && i < words(into->count); i++) {
        into->bits[i] |= from->bits[i];
    }
}

const struct rule *eval_sibling(const struct node *n, enum keyword keyword)
{
    for (size_t i = 0; i < n->n_rules; i++) {
        if (n->rules[i].keyword == keyword) {
            return &n->rules[i];
        }
    }
    return NULL;
}

static void eval_put_path(struct location_text *p, const struct path *path)
{
    if (!path) {
        return;
    }
    eval_put_path(p, path->up); /* as deep as a judgement may go */
    if (path->key.ptr) {
        location_text_put_token(p, path->key);
    } else {
        char number[24];
        (void)snprintf(number, sizeof(number), "%zu", path->index);
        location_text_put_token(p, tidings_str(number));
    }
}

static void eval_report(struct eval *e, const struct at *at, const struct rule *rule,
                        const char *text)
{
    struct location_text p;
    schema_locate(at->node, rule ? rule->name : NULL, e->error->schema_path,
                  sizeof(e->error->schema_path));
    location_text_init(&p, e->error->instance_path, sizeof(e->error->instance_path));
    eval_put_path(&p, at->path);
    location_text_init(&p, e->error->text, sizeof(e->error->text));
    location_text_put(&p, tidings_str(text));
}

bool eval_fail(struct eval *e, const struct at *at, const struct rule *rule, const char *fmt, ...)
{
    if (!e->error || e->quiet > 0 || e->is_over) {
        return false;
    }
    char text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    eval_report(e, at, rule, text);
    return false;
}

bool eval_stop(struct eval *e, const struct at *at, const struct rule *rule, const char *text)
{
    if (e->error && !e->is_over) {
        eval_report(e, at, rule, text);
    }
    e->is_over = true;
    return false;
}

bool eval_spend(struct eval *e, const struct at *at, const struct rule *rule, uint64_t steps)
{
    if (e->is_over) {
        return false;
    }
    if (e->steps < steps) {
        e->steps = 0;
        return eval_stop(e, at, rule, "the schema takes too many steps to judge this value");
    }
    e->steps -= steps;
    return true;
}

bool eval_search(struct eval *e, const struct at *at, const struct rule *rule,
                 const struct regex *regex, struct tidings_str text)
{
    if (!eval_spend(e, at, rule, COST_SEARCH)) {
        return false;
    }
    struct regex_table *table = text.len >= TABLE_FROM ? regex_table_create(regex) : NULL;
    enum regex_result result = regex_search(regex, table, text, &e->steps);
    regex_table_destroy(table);
    if (result == REGEX_OUT_OF_STEPS) {
        return eval_stop(e, at, rule, "the regex takes too many steps to search this text");
    }
    if (result == REGEX_NOMEM) {
        return eval_stop(e, at, rule, "out of memory");
    }
    return result == REGEX_FOUND;
}

static bool run_rules(struct eval *e, const struct at *at)
{
    bool ok = true;
    for (size_t i = 0; ok && i < at->node->n_rules; i++) {
        const struct rule *rule = &at->node->rules[i];
        if (rule->check) {
            ok = rule->check(e, at, rule) && !e->is_over;
        }
    }
    return ok;
}

/* A schema that asks what was evaluated sees only what it and its own subschemas did. */
static bool run_marked(struct eval *e, const struct at *at)
{
    size_t count =
        jv_is(at->instance, JV_ARRAY) ? value_elements(at->instance) : value_members(at->instance);
    struct marks own;
    if (!eval_spend(e, at, NULL, COST_BYTES(count))) {
        return false;
    }
    if (!marks_init(&own, count)) {
        return eval_stop(e, at, NULL, "out of memory");
    }
    struct at inner = *at;
    inner.marks = &own;
    bool ok = run_rules(e, &inner);
    if (ok) {
        marks_merge(at->marks, &own);
    }
    marks_deinit(&own);
    return ok;
}

static bool eval_run(struct eval *e, const struct at *outer)
{
    struct at at = *outer;
    struct scope scope = {at.scope, at.node->resource};
    if (!at.scope || at.scope->resource != at.node->resource) {
        at.scope = &scope;
    }
    if (jv_is_bool(at.node->value)) {
        if (!eval_spend(e, &at, NULL, COST_TRIVIAL)) {
            return false;
        }
        return jv_is_true(at.node->value) || eval_fail(e, &at, NULL, "no value is allowed here");
    }
    if (e->depth >= e->schema->limits.max_depth) {
        return eval_stop(e, &at, NULL, "schema and value nest too deep, or the schema is endless");
    }
    if (!eval_spend(e, &at, NULL, COST_SCHEMA)) {
        return false;
    }
    e->depth++;
    bool is_container = jv_is(at.instance, JV_ARRAY) || jv_is(at.instance, JV_OBJECT);
    bool ok = at.node->has_unevaluated && is_container ? run_marked(e, &at) : run_rules(e, &at);
    e->depth--;
    return ok;
}

bool eval_here(struct eval *e, const struct at *at, const struct node *node, struct marks *marks)
{
    struct at next = *at;
    next.node = node;
    next.marks = marks;
    return eval_run(e, &next);
}

bool eval_element(struct eval *e, const struct at *at, const struct node *node, size_t index)
{
    struct path path = {.up = at->path, .index = index};
    struct at next = {node, jv_at(at->instance, index), &path, at->scope, NULL};
    return eval_run(e, &next);
}

bool eval_member(struct eval *e, const struct at *at, const struct node *node, struct json *member)
{
    struct path path = {.up = at->path, .key = value_text(member)};
    struct at next = {node, member + 1, &path, at->scope, NULL};
    return eval_run(e, &next);
}

bool eval_name(struct eval *e, const struct at *at, const struct node *node, struct json *name)
{
    struct at next = {node, name, at->path, at->scope, NULL};
    return eval_run(e, &next);
}

enum schema_verdict schema_judge_within(const struct json_schema *s, struct json *instance,
                                        struct schema_error *ret_error, uint64_t *steps)
{
    struct eval e = {.schema = s, .error = ret_error, .steps = *steps};
    struct json none = {.tag = JV_NULL};
    struct json *value = instance ? instance : &none;
    struct at at = {s->root, value, NULL, NULL, NULL};
    bool valid = eval_run(&e, &at);
    *steps = e.steps;
    return e.is_over ? SCHEMA_GAVE_UP : valid ? SCHEMA_VALID : SCHEMA_NOT_VALID;
}

uint64_t schema_max_steps(const struct json_schema *s)
{
    return s->limits.max_steps;
}

bool schema_validate(const struct json_schema *s, struct json *instance,
                     struct schema_error *ret_error)
{
    uint64_t steps = s->limits.max_steps;
    return schema_judge_within(s, instance, ret_error, &steps) == SCHEMA_VALID;
}
