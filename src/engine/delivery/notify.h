/* SPDX-License-Identifier: MIT
 *
 * Changes that clients announce without giving new content: the tool `notify` and POST /notify.
 *
 *     {"changes": [{"uri": "api:///events/7", "kind": "created", "metadata": {"type": "error"}}]}
 *
 * One list is said in two steps. What is no such list (a member that is unknown or of another type,
 * none at all, more than NOTIFY_MAX) is refused whole, and nobody is told anything. Of a list each
 * change is judged by itself, in order: those that are accepted are announced, of the others it is
 * said why they are not.
 *
 * The answer is given when the outcome of each change is known: of what all nodes of a cluster
 * announce, after its commit. So of two requests of which one follows the answer to the other, at
 * whatever nodes, the changes are delivered in that order.
 *
 * Who may notify is who may write there: the place takes writes from clients, or rules name it.
 * Nothing is looked up, so the answer depends on rules and mounts alone.
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
#define NOTIFY_EVERYTHING "**" /* instead of a URI: anything may have changed */

/* Who says it. */
struct notify {
    struct worker *worker;
    const struct principal *principal;
    struct client_account *account; /* whose share of LIMIT_ANNOUNCED; NULL: nobody's */
    struct quota *quota; /* each change but the first counts as a request; NULL: nothing limits */
    struct tidings_str origin;      /* of the changes; or empty … */
    struct tidings_str traceparent; /* … likewise */
    bool takes_paths;               /* paths of files as well as URIs (engine/catalog/roots.h) */
};

struct notify_outcome {
    size_t notified, refused;
    /* Of the first that was refused: */
    struct tidings_error err;
    struct refusal limit;   /* that was reached; retry_ms 0: none */
    struct tidings_str uri; /* as it was spelled, in `said` */
};

/* On the worker's thread. `answer` is the object that the client gets: told, refused, results (a
 * row for each change); and, when none was told, error and reason of the first. It may have failed:
 * see NOTIFY_ANSWER. Both belong to the caller of this. */
typedef void (*notify_done_fn)(void *user, const struct notify_outcome *outcome,
                               struct buf *answer);
/* On the worker's thread. A failure: `said` is no such list, or there is no memory; `done` is not
 * called. 0: it is called once, perhaps before this returns; `said` lives until then, and what `n`
 * refers to only until this returns. */
int notify_begin(const struct notify *n, struct json *said, notify_done_fn done, void *user,
                 struct tidings_error *err);

/* Put the scopes that its token lacks for the first that was refused (access_put_missing). */
void notify_put_missing(const struct notify *n, const struct notify_outcome *outcome,
                        struct buf *out);

#endif
