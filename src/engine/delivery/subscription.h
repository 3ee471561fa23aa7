/* SPDX-License-Identifier: MIT
 *
 * A subscription: the URI or pattern that one client subscribed to, its options and its progress.
 * It belongs to a group (engine/delivery/subscription.h) and is in the match index exactly as long
 * as it exists.
 */
#ifndef ENGINE_DELIVERY_SUBSCRIPTION_H
#define ENGINE_DELIVERY_SUBSCRIPTION_H

#include <tidings/types.h>

#include "base/list.h"
#include "base/map.h"
#include "engine/delivery/outbox.h"
#include "engine/delivery/subscriber.h"
#include "engine/match/match.h"
#include "engine/protocol/dialect.h"
#include "formats/uri.h"

struct client_account;
struct patch_base;
struct filter;
struct subscription_group;
struct map;
struct options;
struct subscriber;
struct tidings_provider;

/* Value of `since`: the missed changes are unknown. */
#define SINCE_UNKNOWN UINT64_MAX

/* Returns true if the server should deliver the change to this subscription. `metadata` is the JSON
 * object of the change. Runs on the worker; must not block. */
typedef bool (*subscription_filter_fn)(void *user, struct tidings_str uri,
                                       struct tidings_str metadata);

/* Rarely used fields of a subscription. */
struct subscription_extra {
    struct tidings_str origin; /* its own changes are left out (principal_put_origin); or empty */
    size_t claimed;            /* bytes of `origin` that are the name the client gave itself */
    struct filter *schema;     /* changes must satisfy it; a reference; NULL: no filter */
    struct map *past;          /* URI -> struct change: the previous change for `schema`; NULL */
    unsigned gave_up;          /* filter evaluations that were too costly */
    struct patch_base *patch_base; /* for updates with patches; NULL: without */
    struct client_account *broad;  /* it counts there as CLIENT_ACCOUNT_BROAD; NULL: nowhere */
    subscription_filter_fn filter;
    void *filter_user;
    struct tidings_provider *covers_provider; /* its `covers` is called; NULL: none */
    struct list matched_link;                 /* in worker->delivery->matched_by_provider */
    struct subscription *sub;
    struct tidings_str *scopes; /* scopes watched for a pattern, in one block with their text */
    size_t scope_count;
    size_t condition_count; /* conditions of a query: all must hold */
    struct subscription_condition {
        struct tidings_str key, value;
    } conditions[]; /* their text follows */
};

struct subscription {
    struct match_node node;
    struct list link; /* in group->subs */
    struct subscription_group *group;
    struct subscriber *subscriber; /* the group's subscriber */
    struct window window;
    struct subscription_extra *extra; /* NULL: none */
    uint64_t since;                   /* changes up to this number are ignored */
    union {
        const void *catchup;  /* … by this request; while catching_up */
        uint64_t replayed_to; /* else: the log was replayed to this stream up to here */
    };
    unsigned queued;    /* items in the outbox, and held */
    uint32_t asked_ms;  /* requested; window.period_ms may be a longer one of the application */
    uint32_t gather_ms; /* how long the first change is held; at most asked_ms */
    enum pattern_kind kind : 8;
    bool is_strict : 1;      /* ordered by number: a merged change moves to the end */
    bool bookmarks : 1;      /* the client periodically receives the newest cursor */
    bool is_literal : 1;     /* notifications use the client's spelling as `uri` */
    bool is_absolute : 1;    /* … or start with it (server_identity.absolute_json) */
    bool needs_baseline : 1; /* whenever it is subscribed to */
    bool watched : 1;        /* holds a need of its scope at the hub */
    bool catching_up : 1;    /* a log query for it is under way … */
    bool broad : 1;          /* covers whole mounts */
    bool truncated : 1;      /* must send a `truncated` update */
    bool rereads : 1;        /* … and sent one, or is going to, since its state listing began */
    bool suspended : 1;      /* its filter is no longer evaluated … */
    bool suspension_written : 1; /* … and its client was notified */
    bool initial_pending : 1;    /* send the current state as soon as there is a stream */
    bool since_pending : 1;      /* send changes after `since` as soon as there is a stream */
    bool wants_metadata : 1;     /* as a member of params */
    bool wants_content : 1;
    bool is_task : 1;      /* of a task: sent as notifications/tasks with its whole state */
    bool is_slim : 1;      /* of updates: struct dialect_updated */
    bool is_plain : 1;     /* quoting changed nothing: one string serves for both */
    bool is_canonical : 1; /* the same for the canonical string */
    bool is_resumed : 1;   /* came from another node, with its session */
    uint16_t json_len, as_requested_len, uri_len;
    char text[]; /* quoted, then the others where they differ */
};
/* The quoted string is the longest: a byte may become six. */
_Static_assert(6 * URI_MAX + 2 <= UINT16_MAX, "lengths of its texts");

/* As the client wrote it, quoted and not; and canonical. */
static inline struct tidings_str subscription_as_requested_json(const struct subscription *sub)
{
    return tidings_strn(sub->text, sub->json_len);
}
static inline struct tidings_str subscription_as_requested(const struct subscription *sub)
{
    const char *text = sub->text;
    return tidings_strn(sub->is_plain ? text + 1 : text + sub->json_len, sub->as_requested_len);
}
static inline struct tidings_str subscription_uri(const struct subscription *sub)
{
    struct tidings_str as_requested = subscription_as_requested(sub);
    const char *behind = as_requested.ptr + as_requested.len + (sub->is_plain ? 1 : 0);
    return sub->is_canonical ? as_requested : tidings_strn(behind, sub->uri_len);
}

/* `as_requested` is as the client wrote it; `uri` goes into the index. Takes a share of
 * LIMIT_ALL_SUBSCRIPTIONS that its subscriber holds, even on failure. Returns NULL and sets err. */
struct subscription *subscription_create(struct subscription_group *group,
                                         struct tidings_str as_requested, struct tidings_str uri,
                                         enum pattern_kind kind, uint64_t since,
                                         struct tidings_error *err);
void subscription_set_extra(struct subscription *sub,
                            struct subscription_extra *extra); /* takes ownership */
void subscription_destroy(struct subscription *sub);           /* releases its watches */
/* The same, and notifies its client that it gets no further updates. */
void subscription_withdraw(struct subscription *sub);

/* Sets the period: the longest of window, rate and the URI's limit. */
void subscription_set_period(struct subscription *sub, const struct options *options);
void subscription_set_rate(struct subscription *sub, uint64_t ms);

/* Returns true if it may cover something below `scope`. Empty: below anything. */
bool subscription_may_match(const struct subscription *sub, struct tidings_str scope);
/* The lowest number of its pending updates; 0: none. */
uint64_t subscription_pending_from(const struct subscription *sub);
/* A log query for it, by `job`, is under way … */
void subscription_catch_up(struct subscription *sub, const void *job);
/* … and has answered. */
void subscription_caught_up(struct subscription *sub, uint64_t replayed_to);

/* -------------------------------------------------------------------------------------------------
 * A group of subscriptions of one subscriber. There is one for each subscriptions/listen, whose id
 * it has, and one without id for all legacy subscriptions.
 */

struct subscription_group_bookmarks;
struct subscription_group_scopes;

/* Embedded in pending work for a group: `group` becomes NULL when the group is destroyed. */
struct subscription_group_pending {
    struct list link;
    struct subscription_group *group;
    bool is_subscribing; /* a struct subscribe_batch (engine/delivery/subscribe.h) */
};

/* For the log. */
struct subscription_group_counts {
    uint32_t begun;      /* when its client was notified of it, in GROUP_TICK_MS; 0: not yet */
    uint32_t deliveries; /* since then */
};
#define GROUP_TICK_MS 16u

struct subscription_group_legacy {
    struct map by_requested; /* subs by the client's spelling */
    uint64_t notified_seq;   /* the last change sent, if each is sent once for all subs */
    struct subscription_group_counts counts;
};

struct subscription_group {
    struct list link;      /* in subscriber-> groups */
    struct list list_link; /* in worker->delivery->list_watchers while it subscribes to any list */
    struct subscriber *subscriber;
    struct list subs;
    union {
        struct subscription_group_legacy *legacy; /* if id_len is 0 */
        struct subscription_group_counts counts;  /* otherwise: see subscription_group_counts() */
    };
    struct list pending; /* struct subscription_group_pending: work that may outlive the group */
    struct subscription_group_bookmarks *bookmarks; /* NULL: not requested */
    struct subscription_group_scopes *list_scopes;  /* watched for list_changed; NULL: none */
    uint32_t id_len;                                /* 0: legacy */
    unsigned char wants_lists, lists_pending;       /* bits: enum change_list, LIST_EVERYTHING */
    bool is_watching_lists : 1;                     /* the hub query for these is under way */
    bool has_listed : 1; /* its session called resources/list; that result may be stale */
    bool is_open : 1;    /* its client was notified of it: updates may be written to it */
    char id_text[];      /* subscriptionId */
};
/* Another block of an idle stream (engine/delivery/subscriber.h), as is each subscription. */
_Static_assert(sizeof(void *) != 8 || offsetof(struct subscription_group, id_text) <= 103,
               "an idle stream grows");
_Static_assert(sizeof(void *) != 8 || offsetof(struct subscription, text) <= 126,
               "an idle stream grows");

struct subscription_group_scopes {
    size_t count;
    struct tidings_str at[]; /* their text follows */
};

/* Returns true if its updates name no subscription (dialect_rules.broadcasts): each change is then
 * sent once, however many of its subscriptions match. */
static inline bool subscription_group_notifies_once(const struct subscription_group *group)
{
    return group->wants_lists & LIST_EVERYTHING;
}

/* The subscriptionId as JSON; empty: legacy. */
static inline struct tidings_str subscription_group_id(const struct subscription_group *group)
{
    return tidings_strn(group->id_text, group->id_len);
}

static inline struct subscription_group_counts *
subscription_group_counts(struct subscription_group *group)
{
    return group->id_len > 0 ? &group->counts : &group->legacy->counts;
}

/* `id_json` empty: legacy. Returns NULL when out of memory. */
struct subscription_group *subscription_group_create(struct subscriber *subscriber,
                                                     struct tidings_str id_json);
/* Also unlinks it from its subscriber, removes its subscriptions and releases their watches. */
void subscription_group_destroy(struct subscription_group *group);
struct subscription_group *subscription_group_find(struct subscriber *subscriber,
                                                   struct tidings_str id_json);
/* Returns the subscription of a legacy group with that spelling; NULL: none. */
struct subscription *subscription_group_find_sub(const struct subscription_group *group,
                                                 struct tidings_str as_requested);
/* Returns true if `sub` accepts a change with this number now. */
static inline bool subscription_group_is_open_for(const struct subscription *sub, uint64_t seq)
{
    return sub->group->is_open && seq > sub->since && sub->subscriber->sink && !sub->suspended;
}

#endif
