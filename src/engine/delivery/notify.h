/* SPDX-License-Identifier: MIT
 *
 * Changes that clients announce without new content: the tool `notify` and POST /notify.
 *
 *     {"changes": [{"uri": "api:///events/7", "kind": "created", "metadata": {"type": "error"}}]}
 *
 * A list is checked in two steps. An invalid list (an unknown or ill-typed member, no member, more
 * than NOTIFY_MAX changes) is rejected as a whole and notifies no subscription. In a valid list
 * each change is checked separately, in order: accepted changes are announced, and rejected ones
 * are returned with the reason.
 *
 * The response is sent when the outcome of each change is known; for changes that all nodes of a
 * cluster announce, this is after the commit. So if one request follows the response to another, at
 * any two nodes, their changes are delivered in that order.
 *
 * A client may notify where it may write: the source accepts writes from clients, or access rules
 * name the URI. No resource is looked up, so the result depends only on rules and mounts.
 */
#ifndef ENGINE_DELIVERY_NOTIFY_H
#define ENGINE_DELIVERY_NOTIFY_H

#include "formats/json_write.h"
#include "security/limits.h"

struct client_account;
struct principal;
struct quota;
struct worker;

#define NOTIFY_MAX 1000u
#define NOTIFY_ANSWER "the accepted changes are announced, but the answer" /* cannot be given */
#define NOTIFY_EVERYTHING "**" /* in place of a URI: anything may have changed */

/* The announcing client. */
struct notify {
    struct worker *worker;
    const struct principal *principal;
    struct client_account *account; /* pays for LIMIT_ANNOUNCED; NULL: not counted */
    struct quota *quota; /* each change after the first counts as a request; NULL: unlimited */
    struct tidings_str origin;      /* of the changes; or empty … */
    struct tidings_str traceparent; /* … or empty */
    bool takes_paths;               /* file paths or URIs (engine/catalog/roots.h) */
};

struct notify_outcome {
    size_t notified, refused;
    /* The first rejected change: */
    struct tidings_error err;
    struct refusal limit;   /* the limit reached; retry_ms 0: none */
    struct tidings_str uri; /* as the client wrote it, in `said` */
};

/* On the worker's thread. `answer` is the object that the client gets: `told`, `refused`, `results`
 * (a row for each change); and, if no change was accepted, error and reason of the first. It may
 * have failed: see NOTIFY_ANSWER. The caller of this function owns both. */
typedef void (*notify_done_fn)(void *user, const struct notify_outcome *outcome,
                               struct buf *answer);
/* On the worker's thread. Fails if `said` is not a valid list or memory runs out; `done` is then
 * not called. Returns 0 otherwise; `done` is called once, perhaps before this returns. `said` must
 * live until then, and everything that `n` refers to until this returns. */
int notify_begin(const struct notify *n, struct json *said, notify_done_fn done, void *user,
                 struct tidings_error *err);

/* Writes the scopes that its token lacks for the first rejected change (access_put_missing). */
void notify_put_missing(const struct notify *n, const struct notify_outcome *outcome,
                        struct buf *out);

#endif
