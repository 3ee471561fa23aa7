/* SPDX-License-Identifier: MIT
 *
 * Finds the watch of a URI, and says whether a watch may cover one.
 */
#include "client/watch.h"

#include "client/state.h"
#include "uri/pattern.h"

struct watch *watch_find(struct tidings_client *c, struct tidings_str uri)
{
    list_each (it, next, &c->watches) {
        struct watch *w = list_entry(it, struct watch, link);
        if (str_eq(tidings_str(w->uri), uri)) {
            return w;
        }
    }
    return NULL;
}

bool watch_covers(const struct watch *w, struct tidings_str uri)
{
    struct tidings_str own = tidings_str(w->uri);
    if (strchr(w->uri, '?') || (w->options && strstr(w->options, "\"match\""))) {
        return true;
    }
    return pattern_matches(PATTERN_CONTAINER, own, uri) ||
           (strchr(w->uri, '{') && pattern_matches(PATTERN_TEMPLATE, own, uri)) ||
           (strpbrk(w->uri, "*[") && pattern_matches(PATTERN_GLOB, own, uri));
}
