/* SPDX-License-Identifier: MIT
 *
 * Validates a value by a compiled JSON Schema: a node's rules in order, the limits, the report of a
 * failure, and the marks that unevaluatedItems and unevaluatedProperties use.
 *
 * Marks follow success: a schema that fails below a keyword that tolerates failures (anyOf …)
 * leaves none, because it marked a copy; below other keywords the failure discards everything
 * anyway.
 */
#include "formats/schema_eval.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

/* ---------------------------------------------------------------------------------------------- */

/* From this length on, a table is faster. */
#define TABLE_FROM 512u

static size_t words(size_t count)
{
    return (count + 63) / 64;
}

/* False: out of memory. */
static bool marks_init(struct marks *m, size_t count)
{
    *m = (struct marks){.count = count};
    m->bits = m->few;
    if (words(count) > sizeof(m->few) / sizeof(m->few[0])) {
        m->bits = mem_zalloc(words(count) * sizeof(*m->bits));
    }
    return m->bits != NULL;
}

static void marks_deinit(struct marks *m)
{
    if (m->bits != m->few) {
        mem_free(m->bits);
    }
}

static void marks_set(struct marks *m, size_t i)
{
    if (m) {
        m->bits[i / 64] |= (uint64_t)1 << (i % 64);
    }
}

static bool marks_has(const struct marks *m, size_t i)
{
    return (m->bits[i / 64] >> (i % 64) & 1) != 0;
}

/* NULL is fine */
static void marks_merge(struct marks *into, const struct marks *from)
{
    for (size_t i = 0; into && i < words(into->count); i++) {
        into->bits[i] |= from->bits[i];
    }
}

/* The rule of the same schema with this keyword, or NULL. */
static const struct rule *eval_sibling(const struct node *n, enum keyword keyword)
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
    eval_put_path(p, path->up); /* recursion is bounded by the nesting limit */
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

/* Reports a failure, unless quiet, and returns false. `rule` NULL: the node itself. */
static bool eval_fail(struct eval *e, const struct at *at, const struct rule *rule, const char *fmt,
                      ...) TIDINGS_PRINTF(4, 5);
static bool eval_fail(struct eval *e, const struct at *at, const struct rule *rule, const char *fmt,
                      ...)
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

/* Aborts the validation. */
static bool eval_stop(struct eval *e, const struct at *at, const struct rule *rule,
                      const char *text)
{
    if (e->error && !e->is_over) {
        eval_report(e, at, rule, text);
    }
    e->is_over = true;
    return false;
}

static bool eval_spend(struct eval *e, const struct at *at, const struct rule *rule, uint64_t steps)
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

/* Returns true if the regex matches. Aborts the validation if the result is unknown. */
static bool eval_search(struct eval *e, const struct at *at, const struct rule *rule,
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

/* A schema with unevaluated… keywords sees only marks of itself and its own subschemas. */
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

/* Applies another schema to the same value; its marks go to `marks` (may be NULL). */
static bool eval_here(struct eval *e, const struct at *at, const struct node *node,
                      struct marks *marks)
{
    struct at next = *at;
    next.node = node;
    next.marks = marks;
    return eval_run(e, &next);
}

/* Applies a schema to an element or a member. */
static bool eval_element(struct eval *e, const struct at *at, const struct node *node, size_t index)
{
    struct path path = {.up = at->path, .index = index};
    struct at next = {node, jv_at(at->instance, index), &path, at->scope, NULL};
    return eval_run(e, &next);
}

/* `member` is its key, which precedes its value. */
static bool eval_member(struct eval *e, const struct at *at, const struct node *node,
                        struct json *member)
{
    struct path path = {.up = at->path, .key = value_text(member)};
    struct at next = {node, member + 1, &path, at->scope, NULL};
    return eval_run(e, &next);
}

/* Applies a schema to the name of a member; failures are reported at the path of the object. */
static bool eval_name(struct eval *e, const struct at *at, const struct node *node,
                      struct json *name)
{
    struct at next = {node, name, at->path, at->scope, NULL};
    return eval_run(e, &next);
}

enum schema_verdict schema_check_within(const struct json_schema *s, struct json *instance,
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
    return schema_check_within(s, instance, ret_error, &steps) == SCHEMA_VALID;
}

/* -------------------------------------------------------------------------------------------------
 * Keywords that apply other schemas to the same value: references, allOf, anyOf, oneOf, not, if and
 * dependentSchemas.
 */

/* Like eval_here, but a failure is tolerated: it is not reported and leaves no marks. */
static bool try_here(struct eval *e, const struct at *at, const struct node *node, bool keep_marks)
{
    bool ok;
    e->quiet++;
    if (at->marks && keep_marks) {
        struct marks copy;
        if (!eval_spend(e, at, NULL, COST_BYTES(at->marks->count))) {
            ok = false;
        } else if (!marks_init(&copy, at->marks->count)) {
            ok = eval_stop(e, at, NULL, "out of memory");
        } else {
            ok = eval_here(e, at, node, &copy);
            if (ok) {
                marks_merge(at->marks, &copy);
            }
            marks_deinit(&copy);
        }
    } else {
        ok = eval_here(e, at, node, NULL);
    }
    e->quiet--;
    return ok;
}

bool check_ref(struct eval *e, const struct at *at, const struct rule *rule)
{
    return eval_here(e, at, rule->branches[0].node, at->marks);
}

bool check_dynamic_ref(struct eval *e, const struct at *at, const struct rule *rule)
{
    const struct node *target = rule->branches[0].node;
    if (rule->anchor.len > 0) {
        /* Core §8.2.3.2: the outermost schema resource that has the anchor. */
        for (const struct scope *s = at->scope; s; s = s->up) {
            if (!eval_spend(e, at, rule, COST_MEMBER * (1 + s->resource->n_anchors))) {
                return false;
            }
            const struct node *found = schema_anchor(s->resource, rule->anchor, true);
            target = found ? found : target;
        }
    }
    return eval_here(e, at, target, at->marks);
}

bool check_all_of(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = true;
    for (size_t i = 0; ok && i < rule->n_branches; i++) {
        ok = eval_here(e, at, rule->branches[i].node, at->marks);
    }
    return ok;
}

bool check_any_of(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = false;
    if (rule->n_branches == 1) { /* its own error is more specific */
        return check_all_of(e, at, rule);
    }
    /* If marks are needed, every matching schema must be tried. */
    for (size_t i = 0; (!ok || at->marks) && !e->is_over && i < rule->n_branches; i++) {
        ok = try_here(e, at, rule->branches[i].node, true) || ok;
    }
    return ok || eval_fail(e, at, rule, "the value fits none of the %zu schemas of anyOf",
                           rule->n_branches);
}

bool check_one_of(struct eval *e, const struct at *at, const struct rule *rule)
{
    size_t first = 0, fitting = 0;
    for (size_t i = 0; fitting < 2 && !e->is_over && i < rule->n_branches; i++) {
        if (try_here(e, at, rule->branches[i].node, true)) {
            if (fitting++ > 0) {
                return eval_fail(e, at, rule, "the value fits schemas %zu and %zu of oneOf", first,
                                 i);
            }
            first = i;
        }
    }
    return fitting == 1 || eval_fail(e, at, rule, "the value fits none of the %zu schemas of oneOf",
                                     rule->n_branches);
}

bool check_not(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool fits = try_here(e, at, rule->branches[0].node, false);
    return (!fits && !e->is_over) || eval_fail(e, at, rule, "the value fits the schema of not");
}

bool check_if(struct eval *e, const struct at *at, const struct rule *rule)
{
    const struct rule *then = eval_sibling(at->node, KW_THEN);
    const struct rule *otherwise = eval_sibling(at->node, KW_ELSE);
    if (!then && !otherwise && !at->marks) {
        return true;
    }
    bool fits = try_here(e, at, rule->branches[0].node, true);
    const struct rule *next = fits ? then : otherwise;
    return !next || eval_here(e, at, next->branches[0].node, at->marks);
}

bool check_dependent_schemas(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = true;
    for (size_t i = 0; ok && jv_is(at->instance, JV_OBJECT) && i < rule->n_branches; i++) {
        const struct branch *b = &rule->branches[i];
        ok = eval_spend(e, at, rule, COST_MEMBER + COST_BYTES(b->key.len));
        if (ok && jv_get_str(at->instance, b->key)) {
            ok = eval_here(e, at, b->node, at->marks);
        }
    }
    return ok;
}

/* -------------------------------------------------------------------------------------------------
 * The validation vocabulary: keywords that check a value by itself. Each applies to some types and
 * accepts all others.
 */

static const char *type_name(const struct json *v)
{
    static const char *const names[] = {
        [JV_OBJECT] = "an object", [JV_ARRAY] = "an array", [JV_STRING] = "a string",
        [JV_INT] = "an integer",   [JV_REAL] = "a number",  [JV_TRUE] = "a boolean",
        [JV_FALSE] = "a boolean",  [JV_NULL] = "null",
    };
    return names[jv_type(v)];
}

bool check_type(struct eval *e, const struct at *at, const struct rule *rule)
{
    unsigned type = (unsigned)jv_type(at->instance);
    if (rule->bound >> type & 1) {
        return true;
    }
    if (type == JV_REAL && rule->bound >> JV_INT & 1 && value_is_integer(at->instance)) {
        return true;
    }
    if (jv_is(rule->value, JV_STRING)) {
        return eval_fail(e, at, rule, "%s given, type '%.*s' expected", type_name(at->instance),
                         STR_ARG(jv_str(rule->value)));
    }
    return eval_fail(e, at, rule, "%s given, which is none of the expected types",
                     type_name(at->instance));
}

static bool assert_equal(struct eval *e, const struct at *at, const struct rule *rule,
                         struct json *other)
{
    bool equal = value_equal(at->instance, other, &e->steps);
    return eval_spend(e, at, rule, 1) && equal; /* which aborts if no steps are left */
}

bool check_const(struct eval *e, const struct at *at, const struct rule *rule)
{
    return assert_equal(e, at, rule, rule->value) ||
           eval_fail(e, at, rule, "the value is not the expected one");
}

#define CHOICES_SHOWN 8u /* values of an enum that are shown */
#define CHOICE_BYTES 32u /* of each value */

/* A value in readable form, truncated: 'a string', 3, true; "" for types that are not shown. */
static void put_choice(char out[CHOICE_BYTES + 8], const struct json *v)
{
    out[0] = '\0';
    if (jv_is(v, JV_STRING)) {
        struct tidings_str s = jv_str(v);
        size_t len = s.len <= CHOICE_BYTES ? s.len : CHOICE_BYTES - 3;
        while (len > 0 && len < s.len && ((unsigned char)s.ptr[len] & 0xC0) == 0x80) {
            len--; /* never inside a character */
        }
        snprintf(out, CHOICE_BYTES + 8, "'%.*s%s'", (int)len, s.ptr, len < s.len ? "…" : "");
    } else if (jv_is(v, JV_INT)) {
        snprintf(out, CHOICE_BYTES + 8, "%" PRId64, jv_int(v));
    } else if (jv_is(v, JV_REAL)) {
        snprintf(out, CHOICE_BYTES + 8, "%.17g", jv_real(v));
    } else if (!jv_is(v, JV_OBJECT) && !jv_is(v, JV_ARRAY)) {
        snprintf(out, CHOICE_BYTES + 8, "%s",
                 jv_is(v, JV_TRUE)    ? "true"
                 : jv_is(v, JV_FALSE) ? "false"
                                      : "null");
    }
}

/* "'dor' is none of 'pressure', 'temperature', 'door'": schema and value can both be untrusted, so
 * only the first few are shown, each truncated. A long value is not repeated. */
static bool fail_enum(struct eval *e, const struct at *at, const struct rule *rule)
{
    if (!e->error || e->quiet > 0 || e->is_over) {
        return false; /* the error is not reported */
    }
    char list[160] = "", one[CHOICE_BYTES + 8];
    size_t count = value_elements(rule->value), shown = 0, used = 0;
    for (; shown < count && shown < CHOICES_SHOWN; shown++) {
        put_choice(one, jv_at(rule->value, shown));
        size_t len = strlen(one);
        if (len == 0 || used + len + 3 > sizeof(list)) {
            break;
        }
        used +=
            (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used > 0 ? ", " : "", one);
    }
    bool is_short = !jv_is(at->instance, JV_STRING) || jv_str(at->instance).len <= CHOICE_BYTES;
    put_choice(one, at->instance);
    const char *given = is_short && one[0] ? one : "the value";
    if (shown == 0) {
        return eval_fail(e, at, rule, "%s is none of the %zu allowed ones", given, count);
    }
    if (shown < count) {
        return eval_fail(e, at, rule, "%s is none of %s and %zu more", given, list, count - shown);
    }
    return eval_fail(e, at, rule, "%s is none of %s", given, list);
}

bool check_enum(struct eval *e, const struct at *at, const struct rule *rule)
{
    for (size_t i = 0; !e->is_over && i < value_elements(rule->value); i++) {
        if (assert_equal(e, at, rule, jv_at(rule->value, i))) {
            return true;
        }
    }
    return fail_enum(e, at, rule);
}

bool check_multiple_of(struct eval *e, const struct at *at, const struct rule *rule)
{
    if (!jv_is_number(at->instance)) {
        return true;
    }
    bool is_easy = jv_is(at->instance, JV_INT) && jv_is(rule->value, JV_INT);
    if (!eval_spend(e, at, rule, is_easy ? COST_VALUE : COST_MULTIPLE)) {
        return false;
    }
    return value_is_multiple(at->instance, rule->value) ||
           eval_fail(e, at, rule, "the number is not a multiple of %.17g", jv_real(rule->value));
}

bool check_range(struct eval *e, const struct at *at, const struct rule *rule)
{
    if (!jv_is_number(at->instance)) {
        return true;
    }
    int order = value_compare(at->instance, rule->value);
    bool is_max = rule->keyword == KW_MAXIMUM || rule->keyword == KW_EXCLUSIVE_MAXIMUM;
    bool may_equal = rule->keyword == KW_MAXIMUM || rule->keyword == KW_MINIMUM;
    if (order == 0 ? may_equal : (order < 0) == is_max) {
        return true;
    }
    const char *relation =
        is_max ? (may_equal ? "at most" : "less than") : (may_equal ? "at least" : "more than");
    if (jv_is(rule->value, JV_INT)) {
        return eval_fail(e, at, rule, "the number must be %s %" PRId64, relation,
                         jv_int(rule->value));
    }
    return eval_fail(e, at, rule, "the number must be %s %.17g", relation, jv_real(rule->value));
}

/* Compares `count` with a bound that is a minimum or a maximum. */
static bool check_count(struct eval *e, const struct at *at, const struct rule *rule, size_t count,
                        const char *of)
{
    bool is_max = rule->keyword == KW_MAX_LENGTH || rule->keyword == KW_MAX_ITEMS ||
                  rule->keyword == KW_MAX_PROPERTIES;
    if (is_max ? count <= rule->bound : count >= rule->bound) {
        return true;
    }
    return eval_fail(e, at, rule, "%zu %s given, at %s %" PRIu64 " %s", count, of,
                     is_max ? "most" : "least", rule->bound, is_max ? "allowed" : "expected");
}

bool check_length(struct eval *e, const struct at *at, const struct rule *rule)
{
    if (!jv_is(at->instance, JV_STRING)) {
        return true;
    }
    /* A character has one to four bytes: counting is rarely necessary. */
    size_t bytes = jv_str(at->instance).len;
    bool is_max = rule->keyword == KW_MAX_LENGTH;
    if (is_max ? bytes <= rule->bound : bytes / 4 >= rule->bound) {
        return true;
    }
    return eval_spend(e, at, rule, COST_BYTES(bytes)) &&
           check_count(e, at, rule, value_code_points(jv_str(at->instance)), "characters");
}

bool check_items_count(struct eval *e, const struct at *at, const struct rule *rule)
{
    return !jv_is(at->instance, JV_ARRAY) ||
           check_count(e, at, rule, value_elements(at->instance), "elements");
}

bool check_properties_count(struct eval *e, const struct at *at, const struct rule *rule)
{
    return !jv_is(at->instance, JV_OBJECT) ||
           check_count(e, at, rule, value_members(at->instance), "properties");
}

bool check_pattern(struct eval *e, const struct at *at, const struct rule *rule)
{
    return !jv_is(at->instance, JV_STRING) ||
           eval_search(e, at, rule, rule->regex, jv_str(at->instance)) ||
           eval_fail(e, at, rule, "the string does not match the pattern '%.*s'",
                     STR_ARG(jv_str(rule->value)));
}

bool check_format(struct eval *e, const struct at *at, const struct rule *rule)
{
    if (!jv_is(at->instance, JV_STRING)) {
        return true;
    }
    bool is_regex = str_eq(jv_str(rule->value), STR("regex"));
    uint64_t cost = is_regex ? COST_REGEX : 0;
    return eval_spend(e, at, rule, cost + COST_FORMAT * (1 + jv_str(at->instance).len)) &&
           (schema_format_check(jv_str(rule->value), jv_str(at->instance)) ||
            eval_fail(e, at, rule, "the string is not of the format '%.*s'",
                      STR_ARG(jv_str(rule->value))));
}

/* Returns true if all required names exist. */
static bool assert_names(struct eval *e, const struct at *at, const struct rule *rule,
                         const struct json *names)
{
    for (size_t i = 0; i < value_elements(names); i++) {
        struct tidings_str name = jv_str(jv_at(names, i));
        if (!eval_spend(e, at, rule, COST_MEMBER + COST_BYTES(name.len))) {
            return false;
        }
        if (!jv_get_str(at->instance, name)) {
            return eval_fail(e, at, rule, "property '%.*s' is missing", STR_ARG(name));
        }
    }
    return true;
}

bool check_required(struct eval *e, const struct at *at, const struct rule *rule)
{
    return !jv_is(at->instance, JV_OBJECT) || assert_names(e, at, rule, rule->value);
}

bool check_dependent_required(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = true;
    for (struct json *m = jv_is(at->instance, JV_OBJECT) ? value_first(rule->value) : NULL; ok && m;
         m = value_next(rule->value, m)) {
        size_t len = value_text(m).len;
        ok = eval_spend(e, at, rule, COST_MEMBER + COST_BYTES(len));
        if (ok && jv_get_str(at->instance, value_text(m))) {
            ok = assert_names(e, at, rule, m + 1);
        }
    }
    return ok;
}

struct hashed {
    uint64_t hash;
    size_t index;
};

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct hashed *)a)->hash, y = ((const struct hashed *)b)->hash;
    return x < y ? -1 : x > y;
}

/* Elements with the same hash are adjacent: compares each with those before it. */
static bool has_twins(struct eval *e, const struct json *array, const struct hashed *sorted,
                      size_t twin[2])
{
    size_t count = value_elements(array);
    for (size_t i = 1; i < count; i++) {
        for (size_t k = i; k-- > 0 && sorted[k].hash == sorted[i].hash && e->steps > 0;) {
            if (value_equal(jv_at(array, sorted[k].index), jv_at(array, sorted[i].index),
                            &e->steps)) {
                twin[0] = sorted[k].index;
                twin[1] = sorted[i].index;
                return true;
            }
        }
    }
    return false;
}

bool check_unique_items(struct eval *e, const struct at *at, const struct rule *rule)
{
    size_t count = value_elements(at->instance), twin[2] = {0, 0};
    if (!jv_is_true(rule->value) || count < 2) {
        return true;
    }
    if (!eval_spend(e, at, rule, COST_ELEMENT * count)) {
        return false;
    }
    struct hashed *sorted = mem_alloc(count * sizeof(*sorted));
    if (!sorted) {
        return eval_stop(e, at, rule, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i].hash = value_hash(jv_at(at->instance, i), &e->steps);
        sorted[i].index = i;
    }
    qsort(sorted, count, sizeof(*sorted), by_hash);
    bool found = has_twins(e, at->instance, sorted, twin);
    mem_free(sorted);
    if (!eval_spend(e, at, rule, 1)) {
        return false;
    }
    return !found ||
           eval_fail(e, at, rule, "elements %zu and %zu are equal",
                     twin[0] < twin[1] ? twin[0] : twin[1], twin[0] < twin[1] ? twin[1] : twin[0]);
}

/* -------------------------------------------------------------------------------------------------
 * Keywords that apply schemas to parts of a value: elements of arrays, members of objects.
 */

bool check_prefix_items(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = true;
    size_t count = value_elements(at->instance);
    for (size_t i = 0; ok && i < count && i < rule->n_branches; i++) {
        ok = eval_element(e, at, rule->branches[i].node, i);
        marks_set(at->marks, i);
    }
    return ok;
}

bool check_items(struct eval *e, const struct at *at, const struct rule *rule)
{
    const struct rule *prefix = eval_sibling(at->node, KW_PREFIX_ITEMS);
    bool ok = true;
    for (size_t i = prefix ? prefix->n_branches : 0; ok && i < value_elements(at->instance); i++) {
        ok = eval_element(e, at, rule->branches[0].node, i);
        marks_set(at->marks, i);
    }
    return ok;
}

bool check_contains(struct eval *e, const struct at *at, const struct rule *rule)
{
    const struct rule *least = eval_sibling(at->node, KW_MIN_CONTAINS);
    const struct rule *most = eval_sibling(at->node, KW_MAX_CONTAINS);
    uint64_t min = least ? least->bound : 1, max = most ? most->bound : UINT64_MAX;
    uint64_t found = 0;
    if (!jv_is(at->instance, JV_ARRAY)) {
        return true;
    }
    e->quiet++;
    for (size_t i = 0; !e->is_over && i < value_elements(at->instance); i++) {
        if (!at->marks && !most && found >= min) {
            break;
        }
        if (eval_element(e, at, rule->branches[0].node, i)) {
            marks_set(at->marks, i);
            found++;
        }
    }
    e->quiet--;
    if (found < min) {
        return eval_fail(e, at, least ? least : rule,
                         "%" PRIu64 " elements fit the schema of contains, at least %" PRIu64
                         " expected",
                         found, min);
    }
    return found <= max || eval_fail(e, at, most,
                                     "%" PRIu64 " elements fit the schema of contains, at most "
                                     "%" PRIu64 " allowed",
                                     found, max);
}

/* For a schema that is just `false`, the error names the additional value. */
static bool is_refusal(const struct rule *rule)
{
    return jv_is(rule->branches[0].node->value, JV_FALSE);
}

bool check_unevaluated_items(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = eval_spend(e, at, rule, COST_TRIVIAL * value_elements(at->instance));
    for (size_t i = 0; ok && i < value_elements(at->instance); i++) {
        if (marks_has(at->marks, i)) {
            continue;
        }
        ok = is_refusal(rule) ? eval_fail(e, at, rule, "element %zu is not allowed", i)
                              : eval_element(e, at, rule->branches[0].node, i);
        marks_set(at->marks, i);
    }
    return ok;
}

static const struct branch *find_branch(const struct rule *rule, struct tidings_str key)
{
    size_t low = 0, high = rule ? rule->n_branches : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(key, rule->branches[middle].key);
        if (order == 0) {
            return &rule->branches[middle];
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* Charges for moving to a member, and searching for its name. */
static bool spend_member(struct eval *e, const struct at *at, const struct rule *rule,
                         struct json *member)
{
    return eval_spend(e, at, rule, COST_MEMBER + COST_BYTES(value_text(member).len));
}

bool check_properties(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = true;
    size_t i = 0;
    for (struct json *m = value_first(at->instance); ok && m;
         m = value_next(at->instance, m), i++) {
        ok = spend_member(e, at, rule, m);
        const struct branch *b = ok ? find_branch(rule, value_text(m)) : NULL;
        if (b) {
            ok = eval_member(e, at, b->node, m);
            marks_set(at->marks, i);
        }
    }
    return ok;
}

bool check_pattern_properties(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = true;
    size_t i = 0;
    for (struct json *m = value_first(at->instance); ok && m;
         m = value_next(at->instance, m), i++) {
        for (size_t k = 0; ok && k < rule->n_branches; k++) {
            if (eval_search(e, at, rule, rule->branches[k].regex, value_text(m))) {
                ok = eval_member(e, at, rule->branches[k].node, m);
                marks_set(at->marks, i);
            }
            ok = ok && !e->is_over;
        }
    }
    return ok;
}

static bool is_additional(struct eval *e, const struct at *at, const struct rule *patterns,
                          struct tidings_str key)
{
    if (find_branch(eval_sibling(at->node, KW_PROPERTIES), key)) {
        return false;
    }
    for (size_t k = 0; patterns && k < patterns->n_branches; k++) {
        if (eval_search(e, at, patterns, patterns->branches[k].regex, key)) {
            return false;
        }
    }
    return true;
}

/* The i-th member, which no other keyword covers: rejected, or validated by the schema for
 * additional members. */
static bool check_leftover(struct eval *e, const struct at *at, const struct rule *rule,
                           struct json *member, size_t i)
{
    bool ok = is_refusal(rule) ? eval_fail(e, at, rule, "property '%.*s' is not allowed",
                                           STR_ARG(value_text(member)))
                               : eval_member(e, at, rule->branches[0].node, member);
    marks_set(at->marks, i);
    return ok;
}

bool check_additional_properties(struct eval *e, const struct at *at, const struct rule *rule)
{
    const struct rule *patterns = eval_sibling(at->node, KW_PATTERN_PROPERTIES);
    bool ok = true;
    size_t i = 0;
    for (struct json *m = value_first(at->instance); ok && m;
         m = value_next(at->instance, m), i++) {
        if (!spend_member(e, at, rule, m) || !is_additional(e, at, patterns, value_text(m))) {
            ok = !e->is_over;
            continue;
        }
        ok = check_leftover(e, at, rule, m, i);
    }
    return ok;
}

bool check_unevaluated_properties(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = eval_spend(e, at, rule, COST_TRIVIAL * value_members(at->instance));
    size_t i = 0;
    for (struct json *m = ok ? value_first(at->instance) : NULL; ok && m;
         m = value_next(at->instance, m), i++) {
        if (marks_has(at->marks, i)) {
            continue;
        }
        ok = check_leftover(e, at, rule, m, i);
    }
    return ok;
}

bool check_property_names(struct eval *e, const struct at *at, const struct rule *rule)
{
    bool ok = true;
    for (struct json *m = value_first(at->instance); ok && m; m = value_next(at->instance, m)) {
        ok = spend_member(e, at, rule, m) && eval_name(e, at, rule->branches[0].node, m);
    }
    return ok;
}
