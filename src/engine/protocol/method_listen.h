/* SPDX-License-Identifier: MIT
 *
 * The subscriptions of one client, listed for that client: what it subscribed to, with which
 * options, and how each of them stands.
 *
 * Which are its own: those of its session; on a message connection those of the connection; else,
 * over HTTP without a session, all that belong to the same principal, on whichever worker and
 * connection. Somebody without a name and without a session has nothing to be known by, and is told
 * so: an empty list would say what nobody knows, a full one what others do.
 *
 * A page begins after so many rows; numbers of subscribers are not shown, for they would count the
 * others. What comes and goes between two pages may be missed or told twice.
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

/* Whose: a number of a subscriber, or … */
#define OWN_BY_PRINCIPAL 0u    /* … all of the principal's, or … */
#define OWN_NOTHING UINT64_MAX /* … it has none yet */

struct own_listing {
    struct job base; /* .done on the thread it began on: .code, .err */
    uint64_t subscriber;
    const struct principal *principal; /* borrowed until it is done */
    size_t after;                      /* rows of the pages before */
    size_t wanted;                     /* rows, at most OWN_PAGE_ROWS */
    /* The outcome: */
    struct buf rows; /* `{…},{…}` */
    size_t count;
    bool more;
    /* Private: */
    struct thread_message message;
    size_t skip;   /* rows that are still to be passed over */
    size_t worker; /* to be asked next */
};

/* Who asks, as the subscriber that is its own. */
uint64_t own_subscriber(const struct request *request);

/* `after` is what own_listing_write calls nextCursor, or empty. TIDINGS_E_INVALID: it is not;
 * TIDINGS_E_DENIED: nothing says whose subscriptions these would be. */
int own_listing_init(struct own_listing *l, uint64_t subscriber, const struct principal *principal,
                     struct tidings_str after, struct tidings_error *err);
void own_listing_deinit(struct own_listing *l);
/* `base` is initialised and its worker is this thread's. `done` may come before this returns. */
void own_listing_start(struct own_listing *l);
/* The members of the outcome: "subscriptions", and "nextCursor" when there are more. */
void own_listing_write(const struct own_listing *l, struct jw *w);

#endif
