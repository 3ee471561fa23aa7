/* SPDX-License-Identifier: MIT
 *
 * Keywords that apply other schemas to the same value: references, allOf, anyOf, oneOf, not, if and
 * dependentSchemas.
 */
#include "json/schema_eval.h"

/* Like eval_here, but a failure does not count: it is not reported and leaves no marks. */
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
    if (rule->n_branches == 1) { /* its own words are better than ours */
        return check_all_of(e, at, rule);
    }
    /* Who asks for marks needs those of every schema that fits. */
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
