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
 * Who may notify is who may write there: the place takes writes from clients, or rules name it.
 * Nothing is looked up, so the answer depends on rules and mounts alone.
 */
#ifndef DELIVERY_NOTIFY_H
#define DELIVERY_NOTIFY_H

#include "access/limit.h"
#include "json/write.h"

struct principal;
struct quota;
struct worker;

#define NOTIFY_MAX 1000u
#define NOTIFY_ANSWER "what was accepted is announced, but the answer" /* cannot be given */
#define NOTIFY_EVERYTHING "**" /* instead of a URI: anything may have changed */

/* Who says it. */
struct notify {
    struct worker *worker;
    const struct principal *principal;
    struct quota *quota; /* each change but the first counts as a request; NULL: nothing limits */
    struct tidings_str origin;      /* of the changes; or empty … */
    struct tidings_str traceparent; /* … likewise */
    bool takes_paths;               /* paths of files as well as URIs (catalog/roots.h) */
};

struct notify_outcome {
    size_t told, refused;
    /* Of the first that was refused: */
    struct tidings_error err;
    struct refusal limit;   /* that was reached; retry_ms 0: none */
    struct tidings_str uri; /* as it was spelled, in `said` */
};

/* On the worker's thread. A failure: `said` is no such list. 0: of each change there is a row in
 * the members that were put into the object being written: told, refused, results; and, when none
 * was told, error and reason of the first. */
int notify_run(const struct notify *n, struct json *said, struct jw *w, struct notify_outcome *ret,
               struct tidings_error *err);

/* Put the scopes that its token lacks for the first that was refused (access_put_missing). */
void notify_put_missing(const struct notify *n, const struct notify_outcome *outcome,
                        struct buf *out);

#endif
