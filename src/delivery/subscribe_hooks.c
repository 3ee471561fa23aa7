/* SPDX-License-Identifier: MIT
 *
 * Resources and templates that the program watches by a hook of its own, among what a pattern
 * covers.
 */
#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "delivery/subscribe_private.h"
#include "worker/worker.h"

#define HOOKED_MAX 10000u /* scopes of one subscription that are there because of a hook */

static bool is_hooked(const struct subscribe_item *w, const struct watch_hook *hook)
{
    bool is_there = w->scope_count > 0 && str_eq(w->scopes[0], hook->text);
    return !is_there && watch_hook_matches(hook, w->kind, w->uri);
}

void subscribe_item_add_hooked(struct subscribe_item *w)
{
    const struct watch_hooks *hooks = &w->owner->worker->catalog->hooks;
    size_t found = 0, text = 0;
    for (size_t i = 0; i < hooks->count && found <= HOOKED_MAX; i++) {
        bool is = is_hooked(w, hooks->at[i]);
        found += is;
        text += is ? hooks->at[i]->text.len : 0;
    }
    if (found > HOOKED_MAX) {
        subscribe_item_refuse(
            w, TIDINGS_E_LIMIT,
            "this covers more than %u resources that are watched one by one; name "
            "something narrower",
            HOOKED_MAX);
    }
    if (found == 0 || w->refused) {
        return;
    }
    size_t count = w->scope_count;
    struct tidings_str *scopes = mem_alloc((count + found) * sizeof(*scopes) + text);
    if (!scopes) {
        subscribe_item_refuse(w, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    char *at = (char *)(scopes + count + found);
    for (size_t i = 0; i < count; i++) {
        scopes[i] = w->scopes[i];
    }
    for (size_t i = 0; i < hooks->count; i++) {
        if (is_hooked(w, hooks->at[i])) {
            scopes[count++] = str_pack(&at, hooks->at[i]->text);
        }
    }
    w->hooked = w->scopes = scopes;
    w->scope_count = count;
}
