/* SPDX-License-Identifier: MIT
 *
 * The list of a client's own subscriptions: their URIs, options and states.
 *
 * A client's own subscriptions are those of its session; on a message connection those of the
 * connection; else, over HTTP without a session, all that belong to the same principal, on any
 * worker and connection. A client without a name and a session cannot be identified and gets an
 * error: an empty list would be a guess, a full one would show the subscriptions of other clients.
 *
 * A page starts after a number of rows. The numbers of subscribers are hidden, because they would
 * reveal how many others there are. A subscription that comes or goes between two pages may be
 * missed or listed twice.
 *
 *     own_listing_init -> own_listing_start ── this worker, or by way of the hub one worker after
 *                                              the other until the page is full ── base.done
 */
#ifndef ENGINE_PROTOCOL_METHOD_LISTEN_H
#define ENGINE_PROTOCOL_METHOD_LISTEN_H

#include "engine/catalog/job.h"

struct request;

#define OWN_PAGE_ROWS 1000u
#define OWN_PAGE_BYTES (1u << 20) /* and one row more */

/* Owner: the number of a subscriber, or … */
#define OWN_BY_PRINCIPAL 0u    /* … all of the principal's, or … */
#define OWN_NOTHING UINT64_MAX /* … it has none yet */

struct own_listing {
    struct job base; /* .done runs on the thread it began on: .code, .err */
    uint64_t subscriber;
    const struct principal *principal; /* borrowed until `done` */
    size_t after;                      /* rows of earlier pages */
    size_t wanted;                     /* rows, at most OWN_PAGE_ROWS */
    /* The outcome: */
    struct buf rows; /* `{…},{…}` */
    size_t count;
    bool more;
    /* Private: */
    struct thread_message message;
    size_t skip;   /* rows to skip */
    size_t worker; /* the next worker */
};

/* The owner, as the subscriber that belongs to it. */
uint64_t own_subscriber(const struct request *request);

/* `after` is the nextCursor that own_listing_write wrote, or empty. TIDINGS_E_INVALID: it is
 * invalid; TIDINGS_E_DENIED: the client cannot be identified. */
int own_listing_init(struct own_listing *l, uint64_t subscriber, const struct principal *principal,
                     struct tidings_str after, struct tidings_error *err);
void own_listing_deinit(struct own_listing *l);
/* `base` is initialised and its worker belongs to this thread. `done` may come before this
 * returns. */
void own_listing_start(struct own_listing *l);
/* The members of the outcome: "subscriptions", and "nextCursor" when there are more. */
void own_listing_write(const struct own_listing *l, struct jw *w);

#endif
