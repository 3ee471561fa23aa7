/* SPDX-License-Identifier: MIT
 *
 * The validation vocabulary: keywords that judge a value by itself. Each one concerns some types
 * and lets every other pass.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "json/schema_eval.h"

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
    return eval_spend(e, at, rule, 1) && equal; /* which ends it when none are left */
}

bool check_const(struct eval *e, const struct at *at, const struct rule *rule)
{
    return assert_equal(e, at, rule, rule->value) ||
           eval_fail(e, at, rule, "the value is not the expected one");
}

#define CHOICES_SHOWN 8u /* at most, of an enum */
#define CHOICE_BYTES 32u /* of each */

/* A value as people write it, cut: 'a string', 3, true; "" for what is not shown. */
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

/* "'dor' is none of 'pressure', 'temperature', 'door'": schema and value may both be a stranger's,
 * so that only the first few are told, each cut. A long value is not repeated. */
static bool fail_enum(struct eval *e, const struct at *at, const struct rule *rule)
{
    if (!e->error || e->quiet > 0 || e->is_over) {
        return false; /* nobody will read it */
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

/* `count` of something against a bound that is a least or a most. */
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
    /* A character is one to four bytes: most are not worth counting. */
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

/* Are all the names there? */
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

/* Elements of the same hash lie side by side: compare each with those before it. */
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
