/* SPDX-License-Identifier: MIT
 *
 * A subscription: what one client wants to hear of (a URI or a pattern), how it wants to be told,
 * and how far it was. It belongs to a group (engine/delivery/subscription.h) and is in the match
 * index exactly as long as it exists.
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

/* As `since` of a subscription: what it missed cannot be known. */
#define SINCE_UNKNOWN UINT64_MAX

/* May this subscription hear of it? `metadata` is the JSON object of the change. On the worker;
 * must not block. */
typedef bool (*subscription_filter_fn)(void *user, struct tidings_str uri,
                                       struct tidings_str metadata);

/* What few subscriptions have. */
struct subscription_extra {
    struct tidings_str origin; /* whose changes are left out (principal_put_origin); or empty */
    size_t claimed;            /* bytes of it that are what the client calls itself */
    struct filter *schema;     /* what a change must satisfy; a reference; NULL: anything */
    struct map *past; /* URI -> struct change: what `schema` sees as the one before; NULL */
    unsigned gave_up; /* judgements by it that were too costly */
    struct patch_base *patch_base; /* it is told patches; NULL: not */
    struct client_account *broad;  /* it counts as CLIENT_ACCOUNT_BROAD there; NULL: nowhere */
    subscription_filter_fn filter;
    void *filter_user;
    struct tidings_provider *covers_provider; /* its `covers` is asked; NULL: none */
    struct list matched_link;                 /* in worker->delivery->matched_by_provider */
    struct subscription *sub;
    struct tidings_str *scopes; /* watched for a pattern, in one block with their text */
    size_t scope_count;
    size_t condition_count; /* of a query: all must hold */
    struct subscription_condition {
        struct tidings_str key, value;
    } conditions[]; /* their text follows */
};

struct subscription {
    struct match_node node;
    struct list link; /* in group->subs */
    struct subscription_group *group;
    struct subscriber *subscriber; /* the group's */
    struct window window;
    struct subscription_extra *extra; /* NULL: nothing special */
    uint64_t since;                   /* changes up to this number are none of its business */
    union {
        const void *catchup;  /* … by this request; while catching_up */
        uint64_t replayed_to; /* else: up to here the log was replayed to this stream for it */
    };
    unsigned queued;    /* items in the outbox, and held */
    uint32_t asked_ms;  /* period asked for; window.period_ms is that or a longer one, which
                         * the application set */
    uint32_t gather_ms; /* the first change waits so long; at most asked_ms */
    enum pattern_kind kind : 8;
    bool is_strict : 1;      /* told in the order of numbers: what merges goes to the end */
    bool bookmarks : 1;      /* the newest cursor is told from time to time */
    bool is_literal : 1;     /* notifications use the client's spelling as `uri` */
    bool is_absolute : 1;    /* … or begin it like that (server_identity.absolute_json) */
    bool needs_baseline : 1; /* each time it is subscribed to */
    bool watched : 1;        /* holds a need of its scope at the hub */
    bool catching_up : 1;    /* the log is being asked on its behalf … */
    bool broad : 1;          /* covers whole mounts */
    bool truncated : 1;      /* must be told that something, unknown what, changed */
    bool rereads : 1;   /* … and was told so, or will be, since its state began to be listed */
    bool suspended : 1; /* not evaluated any more … */
    bool suspension_written : 1; /* … which its client knows */
    bool initial_pending : 1;    /* the current state, as soon as there is a stream */
    bool since_pending : 1;      /* what changed after `since`, as soon as there is a stream */
    bool wants_metadata : 1;     /* as a member of params */
    bool wants_content : 1;
    bool is_task : 1;      /* of a task: told as notifications/tasks, with all of it */
    bool is_slim : 1;      /* of updates: struct dialect_updated */
    bool is_plain : 1;     /* quoting changed nothing: one text serves for both */
    bool is_canonical : 1; /* and so does it for the canonical one */
    bool is_resumed : 1;   /* it came from another node, with its session */
    uint16_t json_len, as_requested_len, uri_len;
    char text[]; /* quoted, then the others where they differ */
};
/* The longest is quoted: a byte may become six. */
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

/* `as_requested` as the client wrote it, `uri` what goes into the index. Takes a share of
 * LIMIT_ALL_SUBSCRIPTIONS that its subscriber holds, also on failure. NULL with err. */
struct subscription *subscription_create(struct subscription_group *group,
                                         struct tidings_str as_requested, struct tidings_str uri,
                                         enum pattern_kind kind, uint64_t since,
                                         struct tidings_error *err);
void subscription_set_extra(struct subscription *sub,
                            struct subscription_extra *extra); /* takes it */
void subscription_destroy(struct subscription *sub);           /* releases its watches */
/* The same, and its client is told that nothing more will come of it. */
void subscription_withdraw(struct subscription *sub);

/* How often: the longest of window, rate and what was set for the URI. */
void subscription_set_period(struct subscription *sub, const struct options *options);
void subscription_set_rate(struct subscription *sub, uint64_t ms);

/* May it cover something below `scope`? Empty: below anything. */
bool subscription_may_match(const struct subscription *sub, struct tidings_str scope);
/* The lowest number of what it has yet to be told; 0: nothing. */
uint64_t subscription_pending_from(const struct subscription *sub);
/* The log is being asked on its behalf, by `job` … */
void subscription_catch_up(struct subscription *sub, const void *job);
/* … and has answered. */
void subscription_caught_up(struct subscription *sub, uint64_t replayed_to);

/* -------------------------------------------------------------------------------------------------
 * A listen: a group of subscriptions of one subscriber. There is one for each subscriptions/listen,
 * which gave it its id, and one without id for everything subscribed in the legacy way.
 */

struct subscription_group_bookmarks;
struct subscription_group_scopes;

/* Embedded by whoever works on behalf of a group: `group` becomes NULL when it goes. */
struct subscription_group_pending {
    struct list link;
    struct subscription_group *group;
    bool is_subscribing; /* a struct subscribe_batch (engine/delivery/subscribe.h) */
};

/* For the log. */
struct subscription_group_counts {
    uint32_t begun;      /* its client knows of it, in ticks of GROUP_TICK_MS; 0: not yet */
    uint32_t deliveries; /* since then */
};
#define GROUP_TICK_MS 16u

struct subscription_group_legacy {
    struct map by_requested; /* subs by what the client wrote */
    uint64_t notified_seq;   /* subscription_group_notifies_once(): the last change that one of its
                              * subs took */
    struct subscription_group_counts counts;
};

struct subscription_group {
    struct list link;      /* in subscriber-> groups */
    struct list list_link; /* in worker->delivery->list_watchers while it wants any list */
    struct subscriber *subscriber;
    struct list subs;
    union {
        struct subscription_group_legacy *legacy; /* where id_len is 0 */
        struct subscription_group_counts
            counts; /* where it is not: see subscription_group_counts() */
    };
    struct list
        pending; /* struct subscription_group_pending: subscribing under way, may find us gone */
    struct subscription_group_bookmarks *bookmarks; /* NULL: nobody wants any */
    struct subscription_group_scopes *list_scopes;  /* watched for list_changed; NULL: none */
    uint32_t id_len;                                /* 0: legacy */
    unsigned char wants_lists, lists_pending;       /* bits: enum change_list, LIST_EVERYTHING */
    bool is_watching_lists : 1;                     /* the hub is being asked for these */
    bool has_listed : 1; /* its session has asked for resources/list, which may be old now */
    bool is_open : 1;    /* its client knows that it has it: changes may be written to it */
    char id_text[];      /* subscriptionId */
};
/* Another of the blocks of an idle stream (engine/delivery/subscriber.h), and so is each
 * subscription. */
_Static_assert(sizeof(void *) != 8 || offsetof(struct subscription_group, id_text) <= 103,
               "an idle stream grows");
_Static_assert(sizeof(void *) != 8 || offsetof(struct subscription, text) <= 126,
               "an idle stream grows");

struct subscription_group_scopes {
    size_t count;
    struct tidings_str at[]; /* their text follows */
};

/* Its updates name no subscription (dialect_rules.broadcasts): each change is told once, however
 * many of its subscriptions match. */
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

/* `id_json` empty: legacy. NULL: out of memory. */
struct subscription_group *subscription_group_create(struct subscriber *subscriber,
                                                     struct tidings_str id_json);
/* Also unlinks it from its subscriber; its subscriptions are removed and their watches released. */
void subscription_group_destroy(struct subscription_group *group);
struct subscription_group *subscription_group_find(struct subscriber *subscriber,
                                                   struct tidings_str id_json);
/* The subscription of a legacy group with that spelling; NULL: none. */
struct subscription *subscription_group_find_sub(const struct subscription_group *group,
                                                 struct tidings_str as_requested);
/* Is `sub` open for a change with this number, now? */
static inline bool subscription_group_is_open_for(const struct subscription *sub, uint64_t seq)
{
    return sub->group->is_open && seq > sub->since && sub->subscriber->sink && !sub->suspended;
}

#endif
