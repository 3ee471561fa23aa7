/* SPDX-License-Identifier: MIT
 *
 * Keywords that apply schemas to what is inside a value: elements of arrays, members of objects.
 */
#include <inttypes.h>

#include "json/schema_eval.h"

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

/* Of a schema that is just `false`, say which value is one too many. */
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

/* Going on to a member, and looking for its name. */
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

/* The i-th member, which nothing named: refused, or judged by the schema for such. */
static bool judge_leftover(struct eval *e, const struct at *at, const struct rule *rule,
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
        ok = judge_leftover(e, at, rule, m, i);
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
        ok = judge_leftover(e, at, rule, m, i);
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
