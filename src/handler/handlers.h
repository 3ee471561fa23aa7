/* SPDX-License-Identifier: MIT
 *
 * What one worker has of the tools, prompts and completions that the program registered, and the
 * calls of their handlers that are under way.
 */
#ifndef HANDLER_HANDLERS_H
#define HANDLER_HANDLERS_H

#include "base/list.h"
#include "handler/feature.h"
#include "worker/worker.h"

struct asked;
struct asking;
struct buf;
struct pool;
struct request;
struct tasks;
struct tidings_call_hooks;
struct tool_counts;

struct handlers {
    struct feature_list *features[FEATURE_KINDS]; /* references; NULL: none */
    struct pool *pool;                            /* for handlers that block; the hub's */
    struct tasks *tasks;                          /* of the whole server; the hub's */
    struct list calls;                            /* struct tidings_call under way */
    struct tool_counts *counts;                   /* of tools; NULL: none was called yet */
    const struct tidings_call_hooks *hooks;       /* the program's; NULL: none */
    struct loop_timer *timer;                     /* of their deadlines */
    uint64_t due_ms;                              /* when it will run; 0: it does not */
    /* The level below which the client of a legacy request wants no log messages. */
    int (*log_level)(const struct request *request);
    /* What the client of a legacy request can be asked, and was; NULL: nothing. */
    struct asking *(*asking)(const struct request *request);
    /* Send on a stream of its session, since that of the request will not do; `asked` NULL: it is
     * no question. false: there is none. */
    bool (*send_on_session)(const struct request *request, const struct buf *message,
                            struct asked *asked);
};

/* From now on these are all features of that kind. Takes the reference. */
void handlers_set_features(struct worker *worker, enum feature_kind kind,
                           struct feature_list *list);
/* LIST_TOOLS and LIST_PROMPTS as far as there are any, or were declared; OFFER_COMPLETIONS,
 * OFFER_SUBSCRIPTIONS, OFFER_TASKS and OFFER_SKILLS (something of the scheme `skill` is served). */
unsigned handlers_offers(const struct worker *worker);
void handlers_deinit(struct worker *worker); /* no call is under way any more */

#endif
