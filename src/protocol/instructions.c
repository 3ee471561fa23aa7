/* SPDX-License-Identifier: MIT
 *
 * Writes instructions from the catalog, the tools and the rights of one client.
 */
#include "protocol/instructions.h"

#include "base/str.h"
#include "catalog/roots.h"
#include "handler/handlers.h"
#include "request/request.h"

#define ROOTS_BYTES 220u

#define WAIT                                                                                       \
    "To wait for a change, call the tool wait_for_change with `uris`, then again with the "        \
    "`cursor` of its answer. "
#define SUBSCRIBE                                                                                  \
    "To be notified, subscribe to a URI; a URI that ends in / covers everything below it. "
#define PATHS "Tools also take paths of files. "

_Static_assert(sizeof("Live resources: ") + ROOTS_BYTES + sizeof(" and more. ") + sizeof(WAIT) +
                       sizeof(SUBSCRIBE) + sizeof(PATHS) <=
                   INSTRUCTIONS_MAX,
               "instructions fit");

struct tidings_str instructions_for(const struct request *request, struct buf *room)
{
    const struct worker *worker = request->worker;
    const struct server_identity *self = worker->self;
    if (self->has_instructions || self->profile) {
        return self->instructions;
    }
    struct buf roots;
    buf_init(&roots, INSTRUCTIONS_MAX);
    size_t count = roots_put(worker->catalog, request->principal, NULL, ROOTS_BYTES, &roots);
    bool waits = feature_find(worker->handlers->features[FEATURE_TOOL], STR("wait_for_change"));
    if (count > 0) {
        buf_puts(room, STR("Live resources: "));
        buf_puts(room, buf_str(&roots));
        buf_puts(room, STR(". "));
    }
    if (waits) {
        buf_puts(room, STR(WAIT));
    }
    if (!self->no_subscriptions && (count > 0 || waits)) {
        buf_puts(room, STR(SUBSCRIBE));
    }
    if (waits && roots_first(worker->catalog, request->principal, ROOTS_FILES, &count).len > 0) {
        buf_puts(room, STR(PATHS));
    }
    bool is_written = !room->failed && !roots.failed && room->len > 0;
    buf_deinit(&roots);
    return is_written ? tidings_strn(room->ptr, room->len - 1) : STR_EMPTY;
}
