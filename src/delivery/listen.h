/* SPDX-License-Identifier: MIT
 *
 * A listen: a group of subscriptions of one subscriber. There is one for each subscriptions/listen,
 * which gave it its id, and one without id for everything subscribed in the legacy way.
 */
#ifndef DELIVERY_LISTEN_H
#define DELIVERY_LISTEN_H

#include <tidings/types.h>

#include "base/list.h"
#include "base/map.h"
#include "delivery/subscriber.h"
#include "delivery/subscription.h"
#include "dialect/dialect.h"

struct listen_bookmarks;
struct listen_scopes;
struct map;

/* Embedded by whoever works on behalf of a listen: `listen` becomes NULL when it goes. */
struct listen_pending {
    struct list link;
    struct listen *listen;
    bool is_subscribing; /* a struct subscribe_batch (delivery/subscribe.h) */
};

/* For the log. */
struct listen_counts {
    uint32_t begun;      /* its client knows of it, in ticks of LISTEN_TICK_MS; 0: not yet */
    uint32_t deliveries; /* since then */
};
#define LISTEN_TICK_MS 16u

struct listen_legacy {
    struct map by_spelling; /* subs by what the client wrote */
    uint64_t told_seq;      /* listen_tells_once(): the last change that one of its subs took */
    struct listen_counts counts;
};

struct listen {
    struct list link;      /* in subscriber->listens */
    struct list list_link; /* in worker->delivery->list_watchers while it wants any list */
    struct subscriber *subscriber;
    struct list subs;
    union {
        struct listen_legacy *legacy; /* where id_len is 0 */
        struct listen_counts counts;  /* where it is not: see listen_counts() */
    };
    struct list pending; /* struct listen_pending: subscribing under way, may find us gone */
    struct listen_bookmarks *bookmarks;       /* NULL: nobody wants any */
    struct listen_scopes *list_scopes;        /* watched for list_changed; NULL: none */
    uint32_t id_len;                          /* 0: legacy */
    unsigned char wants_lists, lists_pending; /* bits: enum change_list, LIST_EVERYTHING */
    bool is_arming_lists : 1;                 /* the hub is being asked for these */
    bool has_listed : 1; /* its session has asked for resources/list, which may be old now */
    bool is_open : 1;    /* its client knows that it has it: changes may be written to it */
    char id_text[];      /* subscriptionId */
};
/* Another of the blocks of an idle stream (delivery/subscriber.h), and so is each subscription. */
_Static_assert(sizeof(void *) != 8 || offsetof(struct listen, id_text) <= 103,
               "an idle stream grows");
_Static_assert(sizeof(void *) != 8 || offsetof(struct subscription, text) <= 126,
               "an idle stream grows");

struct listen_scopes {
    size_t count;
    struct tidings_str at[]; /* their text follows */
};

/* Its updates name no subscription (dialect_rules.broadcasts): each change is told once, however
 * many of its subscriptions match. */
static inline bool listen_tells_once(const struct listen *listen)
{
    return listen->wants_lists & LIST_EVERYTHING;
}

/* The subscriptionId as JSON; empty: legacy. */
static inline struct tidings_str listen_id(const struct listen *listen)
{
    return tidings_strn(listen->id_text, listen->id_len);
}

static inline struct listen_counts *listen_counts(struct listen *listen)
{
    return listen->id_len > 0 ? &listen->counts : &listen->legacy->counts;
}

/* `id_json` empty: legacy. NULL: out of memory. */
struct listen *listen_create(struct subscriber *subscriber, struct tidings_str id_json);
/* Also unlinks it from its subscriber; its subscriptions are removed and their watches released. */
void listen_destroy(struct listen *listen);
struct listen *listen_find(struct subscriber *subscriber, struct tidings_str id_json);
/* The subscription of a legacy group with that spelling; NULL: none. */
struct subscription *listen_find_sub(const struct listen *listen, struct tidings_str spelled);
/* Is `sub` open for a change with this number, now? */
static inline bool listen_is_open_for(const struct subscription *sub, uint64_t seq)
{
    return sub->listen->is_open && seq > sub->since && sub->subscriber->sink && !sub->suspended;
}

#endif
