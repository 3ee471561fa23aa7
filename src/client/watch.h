/* SPDX-License-Identifier: MIT
 *
 * A watch: one URI that a client has subscribed to at its server, on behalf of one subscription of
 * the program or several.
 */
#ifndef CLIENT_WATCH_H
#define CLIENT_WATCH_H

#include <tidings/client.h>

#include "base/list.h"
#include "base/subscription_handle.h"

struct snapshot;

/* Why a watch is compared with how it was (client/comparison.h). */
enum comparison_reason {
    COMPARISON_NONE,
    COMPARISON_FIRST,  /* to know it, telling nothing */
    COMPARISON_VERIFY, /* to find what was not told */
    COMPARISON_RESUME, /* the same, after an interruption */
};

struct watch {
    struct list link;
    char *uri;
    char *options; /* JSON object, or NULL */
    struct list subscriptions;
    uint64_t number; /* never used again */
    int64_t asked; /* legacy: number of the subscribe or unsubscribe under way; modern: of the last
                    * listen that names it */
    bool is_accepted;
    bool is_judged;            /* accepted or refused in the present connection */
    bool was_accepted;         /* … or in one before: it goes on from there */
    bool is_interrupted;       /* changes since may have been missed */
    bool is_ending;            /* nobody is left */
    bool is_named;             /* legacy: the session may know of it … */
    bool is_leaving;           /* … and shall forget it, before anything else is asked about it */
    bool is_doubtful;          /* … and knew of it before it was asked last, perhaps */
    char *since;               /* legacy: where to go on from, NULL: not known */
    uint64_t accepted_at;      /* legacy: in the present session; 0: not */
    bool is_patient;           /* refused, it is no reason to give up: it is asked for again */
    bool is_later;             /* refused for the moment: it is asked for again, and not judged */
    struct snapshot *snapshot; /* how it was; NULL: not known */
    enum comparison_reason comparison_reason; /* … or wanted */
    unsigned broken_comparisons;              /* the connection was lost during so many in a row */
};

struct client_subscription {
    struct tidings_subscription base;
    struct list link;
    struct tidings_client *client;
    struct watch *watch;
    tidings_update_fn fn;
    tidings_state_fn on_state;
    void *user;
    bool is_ended; /* in a callback; freed after it */
};

static inline struct watch *watch_of(const struct tidings_subscription *subscription)
{
    return ((const struct client_subscription *)subscription)->watch;
}

/* NULL: it is not watched. */
struct watch *watch_find(struct tidings_client *c, struct tidings_str uri);
/* Could an update of `uri` be due to this watch? What cannot be known counts as yes. */
bool watch_covers(const struct watch *w, struct tidings_str uri);

#endif
