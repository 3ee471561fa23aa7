/* SPDX-License-Identifier: MIT
 *
 * The tools, prompts and completions a worker offers.
 */
#include "handler/handlers.h"

#include "access/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "dialect/dialect.h"
#include "store/change.h"
#include "uri/skill.h"

void handlers_set_features(struct worker *worker, enum feature_kind kind, struct feature_list *list)
{
    feature_list_unref(worker->handlers->features[kind]);
    worker->handlers->features[kind] = list;
}

/* Is there anybody to complete anything? */
static bool handlers_complete(const struct worker *worker)
{
    const struct feature_list *registered = worker->handlers->features[FEATURE_COMPLETION];
    bool any = registered && registered->count > 0;
    for (size_t i = 0; i < worker->catalog->mount_count && !any; i++) {
        any = worker->catalog->mounts[i]->ops->complete != NULL;
    }
    return any;
}

unsigned handlers_offers(const struct worker *worker)
{
    const struct feature_list *tools = worker->handlers->features[FEATURE_TOOL];
    const struct feature_list *prompts = worker->handlers->features[FEATURE_PROMPT];
    return (worker->self->has_tools || (tools && tools->count > 0) ? LIST_TOOLS : 0u) |
           (worker->self->has_prompts || (prompts && prompts->count > 0) ? LIST_PROMPTS : 0u) |
           (handlers_complete(worker) ? OFFER_COMPLETIONS : 0u) |
           (worker->self->no_subscriptions ? 0u : OFFER_SUBSCRIPTIONS) |
           ((tools && tools->has_tasks) || limit_in_use(worker->limit_counters, LIMIT_TASKS) > 0
                ? OFFER_TASKS
                : 0u) |
           (catalog_has_scheme(worker->catalog, STR(SKILL_SCHEME)) ? OFFER_SKILLS : 0u);
}

void handlers_deinit(struct worker *worker)
{
    for (unsigned i = 0; i < FEATURE_KINDS; i++) {
        feature_list_unref(worker->handlers->features[i]);
    }
    mem_free(worker->handlers->counts);
}
