/* SPDX-License-Identifier: MIT
 *
 * Finds out whether the server can serve now, and if not, why.
 */
#include "server/server_health.h"

#include <stdio.h>

#include "server/server_private.h"
#include "store/keeper.h"

size_t server_health_reasons(const struct tidings_server *s, const char *ret[HEALTH_REASONS])
{
    size_t n = 0;
    enum server_state state = server_state(s);
    bool is_stopping = __atomic_load_n(&s->stopping, __ATOMIC_RELAXED);
    if (is_stopping || state == SERVER_ENDED) {
        ret[n++] = "draining: the server is ending";
    } else if (state < SERVER_RUNNING) {
        ret[n++] = "starting: it does not serve yet";
    }
    if (hub_is_store_unreachable(s->hub)) {
        ret[n++] = "store: the database cannot be reached";
    }
    if (s->keeper && keeper_is_failing(s->keeper)) {
        ret[n++] = "store: the last commit failed";
    }
    return n;
}

int server_health_text(const struct tidings_server *s, bool is_live, bool is_detailed,
                       char out[HEALTH_TEXT])
{
    const char *reasons[HEALTH_REASONS];
    size_t count = is_live ? 0 : server_health_reasons(s, reasons), at = 0;
    for (size_t i = 0; i < count; i++) {
        int whole = (int)strlen(reasons[i]), word = (int)strcspn(reasons[i], ":");
        at += (size_t)snprintf(out + at, HEALTH_TEXT - at, "%.*s\n", is_detailed ? whole : word,
                               reasons[i]);
    }
    if (count == 0) {
        snprintf(out, HEALTH_TEXT, "ok\n");
    }
    return count == 0 ? 200 : 503;
}
