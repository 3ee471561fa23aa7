/* SPDX-License-Identifier: MIT
 *
 * One client that is told of changes: its stream, its subscriptions, what it has yet to hear.
 *
 *     subscriber ── sink        the stream, NULL while a session has none
 *       ├──── outbox      what waits
 *       └──── listens ── subs   groups of subscriptions: one per subscriptions/listen, and one
 *                               without id for everything subscribed in the legacy way
 *
 * A subscriber without a stream queues nothing: it remembers its cursor (everything up to it was
 * written) and catches up from the log when a stream opens. All of it lives on one worker.
 */
#ifndef DELIVERY_SUBSCRIBER_H
#define DELIVERY_SUBSCRIBER_H

#include "access/access.h"
#include "delivery/delivery.h"
#include "delivery/outbox.h"
#include "delivery/window.h"
#include "request/sink.h"

#define SUBSCRIBER_MAX_SKIPS 8u
#define EVENT_ID_MAX (64u + CURSOR_SEALED)

struct options;
struct dialect_updated;
struct allowance;
struct changelog_row;
struct channel;
struct hub_catchup;
struct listen;
struct subscriber;

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
    unsigned gave_up;          /* judgements by it that were too costly */
    struct chain *chain;       /* it is told patches; NULL: not */
    subscription_filter_fn filter;
    void *filter_user;
    struct tidings_provider *covering; /* its `covers` is asked; NULL: none */
    struct list covers_link;           /* in worker->delivery->covering */
    struct subscription *sub;
    struct tidings_str *scopes; /* armed for a pattern, in one block with their text */
    size_t scope_count;
    size_t condition_count; /* of a query: all must hold */
    struct subscription_condition {
        struct tidings_str key, value;
    } conditions[]; /* their text follows */
};

struct subscription {
    struct match_node node;
    struct list link; /* in listen->subs */
    struct listen *listen;
    struct subscriber *subscriber; /* the listen's */
    struct window window;
    struct subscription_extra *extra; /* NULL: nothing special */
    uint64_t since;                   /* changes up to this number are none of its business */
    union {
        const void *catchup;  /* … by this request; while catching_up */
        uint64_t replayed_to; /* else: up to here the log was replayed to this stream for it */
    };
    unsigned queued;            /* items in the outbox, and held */
    uint32_t asked_ms, rate_ms; /* period asked for, and set by the application */
    enum match_kind kind;
    bool is_strict : 1;   /* told in the order of numbers: what merges goes to the end */
    bool bookmarks : 1;   /* the newest cursor is told from time to time */
    bool is_literal : 1;  /* notifications use the client's spelling as `uri` */
    bool watched : 1;     /* holds a need of its scope at the hub */
    bool catching_up : 1; /* the log is being asked on its behalf … */
    bool broad : 1;       /* covers whole mounts */
    bool truncated : 1;   /* must be told that something, unknown what, changed */
    bool rereads : 1;     /* … and was told so, or will be, since its state began to be listed */
    bool suspended : 1;   /* not evaluated any more … */
    bool suspended_told : 1; /* … which its client knows */
    bool owes_initial : 1;   /* the current state, as soon as there is a stream */
    bool owes_since : 1;     /* what changed after `since`, as soon as there is a stream */
    bool wants_metadata : 1; /* as a member of params */
    bool wants_value : 1;
    bool is_plain : 1;     /* quoting changed nothing: one text serves for both */
    bool is_canonical : 1; /* and so does it for the canonical one */
    uint32_t json_len, spelled_len, uri_len;
    /* The texts follow: quoted, then the others where they differ. */
};

/* As the client wrote it, quoted and not; and canonical. */
static inline struct tidings_str subscription_spelled_json(const struct subscription *sub)
{
    return tidings_strn((const char *)(sub + 1), sub->json_len);
}
static inline struct tidings_str subscription_spelled(const struct subscription *sub)
{
    const char *text = (const char *)(sub + 1);
    return tidings_strn(sub->is_plain ? text + 1 : text + sub->json_len, sub->spelled_len);
}
static inline struct tidings_str subscription_uri(const struct subscription *sub)
{
    struct tidings_str spelled = subscription_spelled(sub);
    const char *behind = spelled.ptr + spelled.len + (sub->is_plain ? 1 : 0);
    return sub->is_canonical ? spelled : tidings_strn(behind, sub->uri_len);
}

/* Embedded by whoever works on behalf of a listen: `listen` becomes NULL when it goes. */
struct listen_pending {
    struct list link;
    struct listen *listen;
    bool is_subscribing; /* a struct subscribe_batch (delivery/subscribe_batch.h) */
};

struct listen {
    struct list link; /* in subscriber->listens */
    struct list
        list_link; /* in worker->delivery->list_watchers when it wants to hear of any list */
    struct subscriber *subscriber;
    struct list subs;
    struct map *by_spelling; /* legacy only: subs by what the client wrote */
    struct list pending;     /* struct listen_pending: subscribing under way, may find us gone */
    struct listen_bookmarks *bookmarks;    /* NULL: nobody wants any */
    struct listen_scopes *list_scopes;     /* armed for list_changed; NULL: none … */
    uint32_t id_len;                       /* 0: legacy */
    unsigned char wants_lists, owes_lists; /* bits: enum change_list, LIST_EVERYTHING */
    bool arms_lists : 1;                   /* … yet */
    bool has_listed : 1;                   /* a client of the legacy era */
    bool live : 1;
    char id_text[]; /* subscriptionId */
};

/* While subscriptions of a listen want the newest cursor from time to time (delivery/bookmark.c).
 */
struct listen_bookmarks {
    struct list link; /* in worker->delivery->bookmarked */
    struct listen *listen;
    uint64_t seq;   /* the newest number it was told that way */
    uint32_t count; /* of its subscriptions that want them */
};

struct listen_scopes {
    size_t count;
    struct tidings_str at[]; /* their text follows */
};

/* The subscriptionId as JSON; empty: legacy. */
static inline struct tidings_str listen_id(const struct listen *listen)
{
    return tidings_strn(listen->id_text, listen->id_len);
}

/* Numbers in (from, to] that went elsewhere: not replayed. */
struct subscriber_skips {
    unsigned count;
    struct {
        uint64_t from, to;
    } at[SUBSCRIBER_MAX_SKIPS];
};

/* What the owner of a subscriber does; each may be NULL. */
struct subscriber_ops {
    /* In-process subscribers are called instead of written to. */
    void (*told)(struct subscriber *subscriber, const struct dialect_updated *update,
                 const struct subscription *sub);
    /* Sessions with resumable streams give each message an id. Returns its length in `out`. */
    size_t (*event_id)(struct subscriber *subscriber, const struct log_cursor *at,
                       char out[EVENT_ID_MAX]);
    /* … and must know when a subscription goes back to a number, or to where
     * nothing is known of (SINCE_UNKNOWN). */
    void (*rewound)(struct subscriber *subscriber, uint64_t since);
    /* All lists that changed up to now are told. */
    void (*lists_told)(struct subscriber *subscriber);
    void (*destroyed)(struct subscriber *subscriber);
    /* It may hear of nothing any more: its streams end and it stays. NULL: like the next. */
    void (*end_streams)(struct subscriber *subscriber);
    /* The application wants it gone; NULL: what it has subscribed ends, and its stream. */
    void (*disconnect)(struct subscriber *subscriber);
    struct tidings_str (*session_id)(
        const struct subscriber *subscriber); /* NULL: it is no session */
    void (*closed)(
        struct subscriber *subscriber); /* the stream ended; the owner decides what that means */
};

struct subscriber {
    union {
        struct {
            struct list link;       /* in worker->delivery->subscribers */
            struct list dirty_link; /* in worker->delivery->dirty */
        };
        struct loop_discard discard; /* once it is destroyed */
    };
    struct worker *worker;
    const struct principal *who; /* a reference */
    struct allowance *allowance; /* likewise: what its patterns may cost; NULL: what they like */
    struct sink *sink;
    struct outbox outbox;
    struct list listens;
    uint64_t cursor;             /* without a stream: everything matched up to here was written */
    struct hub_catchup *catchup; /* the log is being asked; live changes are in its answer */
    const struct subscriber_skips *skips; /* while catching up; NULL: none */
    /* The lowest numbers of what is not written yet, 0: none: … */
    uint64_t owed_from;     /* … behind the mark of a subscription that must look again */
    uint64_t lists_from;    /* … of lists that changed */
    uint64_t catching_from; /* … of what the log is being asked for */
    uint64_t lists_upto;    /* lists that changed up to here are known, when catching up */
    uint32_t listen_count, subscription_count;
    uint32_t held_count;    /* subscriptions that hold something back */
    uint32_t catching;      /* subscriptions the log is being asked for */
    int8_t log_level;       /* messages below it are not sent (logging/setLevel) */
    bool has_truncated : 1; /* some sub is marked */
    bool was_lost : 1;      /* some was, and told: on this stream, or before its client came back */
    bool has_list_pending : 1;
    bool waits_value : 1;             /* the first item needs content that is being read */
    uint32_t number;                  /* among all that this worker had */
    const struct subscriber_ops *ops; /* what its owner does; NULL: nothing */
    void *owner;
};

struct subscriber *subscriber_create(struct worker *worker, const struct principal *who);
/* It goes on with what this one may do; a reference of its own. */
void subscriber_set_who(struct subscriber *subscriber, const struct principal *who);
/* The one subscriber of a pipe, made when first needed; NULL when out of memory. */
struct subscriber *subscriber_of_channel(struct channel *channel);
/* Removes every subscription, releases the watches; the memory goes at the end of the turn. */
void subscriber_destroy(struct subscriber *subscriber);

/* Names it among the subscribers of all workers, also those that are gone; ascending per worker. */
uint64_t subscriber_id(const struct subscriber *subscriber);
/* Its session ends, or its listens with their results; and its stream. `withdraws`: what it has
 * subscribed in the legacy way on a pipe, which stays open, ends too and is told. */
void subscriber_end(struct subscriber *subscriber, bool withdraws);
/* Everything it has subscribed ends, and its stream; a pipe stays open. */
void subscriber_disconnect(struct subscriber *subscriber);

/* Give it a stream (the sink's callbacks are set here), or take it away (NULL). */
void subscriber_set_sink(struct subscriber *subscriber, struct sink *sink);
/* Something to flush: at the end of the turn. */
void subscriber_mark_dirty(struct subscriber *subscriber);
/* Marks to be told: something (unknown what, from number `seq` on) concerns `sub`; the list
 * changed. */
void subscriber_owe_truncated(struct subscriber *subscriber, struct subscription *sub,
                              uint64_t seq);
/* … of those lists that `listen` wants to hear of. */
void subscriber_owe_lists(struct subscriber *subscriber, struct listen *listen, unsigned lists,
                          uint64_t seq);
/* Every subscription that may cover something below `scope`; empty: every one. */
void subscriber_owe_all(struct subscriber *subscriber, struct tidings_str scope, uint64_t seq);
bool subscription_concerns(const struct subscription *sub, struct tidings_str scope);
/* … those that a cursor says have yet to be told (dialect/cursor.h). */
void subscriber_owe_rest(struct subscriber *subscriber, uint32_t lost);
/* Tell those that are marked; false: not all of them yet. */
bool subscriber_flush_truncated(struct subscriber *subscriber);
/* Enough is on its way; the sink says when to go on. */
bool subscriber_is_blocked(struct subscriber *subscriber);
bool subscriber_write_update(struct subscriber *subscriber, const struct dialect_updated *u,
                             const struct subscription *sub);
/* `sub` is not evaluated any more: tell its client. */
void subscriber_owe_suspended(struct subscriber *subscriber, struct subscription *sub);
/* The period of `sub` ended: what was held goes to the outbox. */
void subscriber_release_held(struct subscription *sub);
/* The state of something when it was subscribed, whatever its number. */
void subscriber_offer_initial(struct subscriber *subscriber, struct subscription *sub,
                              const struct change *change);
void subscriber_flush(struct subscriber *subscriber);
/* One whole message right now, before anything that waits. false: no stream, or it broke (also when
 * the message could not be built: the stream is cut rather than left with a gap). */
bool subscriber_send(struct subscriber *subscriber, const struct buf *message);

/* A row of the log that matches `sub`, for somebody who knows everything up to `since`. */
void subscriber_offer_row(struct subscriber *subscriber, struct subscription *sub,
                          const struct changelog_row *row, uint64_t since);
/* A change that matches `sub`. */
void subscriber_offer(struct subscriber *subscriber, struct subscription *sub,
                      const struct change *change, enum tidings_change_kind kind);
/* From the log: what changed after `since` and concerns this subscriber; then live again. */
void subscriber_catch_up(struct subscriber *subscriber, uint64_t since);
/* A notifications/message for a client of the legacy era, unless it wants none of that level. */
void subscriber_warn(struct subscriber *subscriber, const char *text);
/* Tell it that anything may have changed: one update per subscription, marked as truncated. */
void subscriber_resync(struct subscriber *subscriber);
/* What is known to be written: the low-water mark, … */
uint64_t subscriber_cursor(const struct subscriber *subscriber);
/* … leaving aside those that are marked to look again, of whom a cursor says itself (`lost`) … */
uint64_t subscriber_told(const struct subscriber *subscriber);
/* … and as a cursor for the client; and as it would be with that number. */
struct log_cursor subscriber_place(const struct subscriber *subscriber);
struct log_cursor subscriber_place_at(const struct subscriber *subscriber, uint64_t seq);

struct listen *listen_create(struct subscriber *subscriber, struct tidings_str id_json);
/* Also unlinks it from its subscriber; its subscriptions are removed and their watches released. */
void listen_destroy(struct listen *listen);
/* The subscription of a legacy group with that spelling; NULL: none. */
struct subscription *listen_find_sub(const struct listen *listen, struct tidings_str spelled);
struct listen *listen_find(struct subscriber *subscriber, struct tidings_str id_json);
void listen_want_lists(struct listen *listen, unsigned lists); /* these too */
/* list_changed.c: some lists changed; write what is owed, false when the stream broke. */
void list_changed_offer(struct worker *worker, unsigned lists);
/* A resource or template came or went. Who may not see everything hears of the list only if it may
 * list this, at most once per period of its class; others with list_changed_offer. */
void list_changed_touch(struct worker *worker, struct tidings_str uri, struct tidings_str target);
void list_changed_on_period(struct loop_timer *timer, void *user);
/* The log has it: the same for one that comes back. */
void list_changed_replay(struct subscriber *subscriber, const struct changelog_row *row,
                         uint64_t since);
bool list_changed_flush(struct subscriber *subscriber);
/* What its new subscriptions hear first (delivery/initial_state.c); needs a stream, else it is done
 * with the next one. */
void listen_begin(struct listen *listen);

/* `spelled` as the client wrote it, `uri` what goes into the index. NULL with err. */
struct subscription *subscription_create(struct listen *listen, struct tidings_str spelled,
                                         struct tidings_str uri, enum match_kind kind,
                                         uint64_t since, struct tidings_error *err);
void subscription_set_extra(struct subscription *sub,
                            struct subscription_extra *extra); /* takes it */
/* Is it open for a change with this number, now? */
static inline bool subscription_hears_live(const struct subscription *sub, uint64_t seq)
{
    return sub->listen->live && seq > sub->since && sub->subscriber->sink && !sub->suspended;
}
/* The lowest number of what it has yet to tell; 0: nothing. */
uint64_t subscription_owes_from(const struct subscription *sub);
void subscription_catch_up(struct subscription *sub,
                           const void *job); /* the log is being asked for it */
void subscription_caught_up(struct subscription *sub,
                            uint64_t replayed_to); /* … and has answered */
/* The newest cursor is told from time to time, until it is destroyed (delivery/bookmark.c). False:
 * out of memory. */
bool subscription_want_bookmarks(struct subscription *sub);
void subscription_leave_bookmarks(struct subscription *sub);
void bookmarks_on_period(struct loop_timer *timer, void *user);
void subscription_destroy(struct subscription *sub); /* releases its watch */
/* The same, and its client is told that nothing more will come of it. */
void subscription_withdraw(struct subscription *sub);
/* How often: the longest of window, rate and what was set for the URI. */
void subscription_set_period(struct subscription *sub, const struct options *options);
void subscription_set_rate(struct subscription *sub, uint64_t ms);

#endif
