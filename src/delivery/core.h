/* SPDX-License-Identifier: MIT
 *
 * One worker's share of the product: its subscribers, sessions and match index, and the snapshot of
 * the catalog it works with. Everything in it belongs to one thread; other threads reach it through
 * its mailbox, whose letters get the worker as their owner.
 */
#ifndef DELIVERY_CORE_H
#define DELIVERY_CORE_H

#include "access/access.h"
#include "access/limit.h"
#include "access/principal.h"
#include "base/loop.h"
#include "base/mailbox.h"
#include "base/seal.h"
#include "base/sendq.h"
#include "catalog/catalog.h"
#include "delivery/change_content.h"
#include "delivery/cursor_seal.h"
#include "delivery/filters.h"
#include "delivery/options.h"
#include "delivery/window.h"
#include "dialect/dialect.h"
#include "handler/call.h"
#include "handler/feature.h"
#include "match/match.h"

struct change;
struct channel;
struct hub;
struct subscription;

/* Frozen while the server runs. */
struct worker_limits {
    size_t page_size, max_page_size;
    size_t max_read_bytes;
    unsigned max_depth;
    size_t max_sessions; /* on all workers */
    size_t max_listens;  /* per pipe */
    size_t max_uris_per_listen;
    size_t max_subscriptions;     /* per subscriber */
    size_t max_all_subscriptions; /* on all workers; 0: any number */
    size_t outbox_max;            /* notifications waiting per subscriber */
    size_t max_broad;         /* subscriptions per principal that cover a whole mount or scheme */
    size_t max_value_bytes;   /* content that may ride in a notification */
    size_t max_calls;         /* handlers of tools and prompts under way, on all workers */
    uint64_t call_timeout_ms; /* for each of them */
    struct option_limits options;
    bool io_uring; /* try to gather writes */
    uint64_t session_timeout_ms;
    uint64_t bookmark_ms;    /* how often those who asked get the newest cursor */
    int64_t retry_ms;        /* told to clients of resumable streams */
    uint64_t list_linger_ms; /* a session's lists are watched for after its last stream ended */
};

struct worker_stats {
    uint64_t requests, deliveries, coalesced, truncated, cut;
    uint64_t pauses;        /* connections that had used up their turn */
    uint64_t most_per_turn; /* messages handled for one of them */
    size_t subscriptions, subscribers, sessions;
};

struct worker {
    struct loop *loop;
    struct mailbox *mailbox;
    struct hub *hub;
    const struct worker_limits *limits;
    struct limit_book *book; /* the hub's */
    const struct server_identity *self;
    struct catalog *catalog;                      /* a reference */
    struct feature_list *features[FEATURE_KINDS]; /* references; NULL: none */
    unsigned index; /* this worker among the others; part of session ids */

    uint64_t epoch;
    uint64_t last_seq;          /* of the newest change seen */
    struct cursor_marks marks;  /* where numbers stand in the store */
    struct cursor_seals *shown; /* NULL: none yet */
    struct sealer sealer;       /* with the hub's key */

    struct match match;
    struct access_rules *access;  /* a reference; NULL: everybody may do everything */
    struct principals principals; /* everybody who is there */
    struct map sessions;          /* by id */
    struct list session_list;     /* least recently active first */
    struct list resting;          /* sessions without a stream whose lists are watched still */
    struct list subscribers;
    struct list dirty;         /* subscribers with something to flush */
    struct list list_watchers; /* listens that want list_changed */
    struct list bookmarked;    /* listens that want bookmarks */
    struct list covering; /* subscription_extra of those a provider's own relation may concern */
    struct windows windows;
    struct loop_timer *window_timer;
    uint64_t window_due_ms;        /* when the timer will run; 0: it does not */
    struct change_contents values; /* contents for subscriptions that asked for them */
    struct map rates;              /* URI -> struct worker_rate: limits set at run time */
    const struct change *parsed;   /* whose `subject` it is */
    struct json *subject;
    struct filters filters;     /* schemas that subscriptions filter with */
    struct option_rules *rules; /* a reference: set at run time; NULL: those of the limits */
    struct sendq_batch batch;
    struct loop_hook flush_hook;
    struct loop_timer *tick;
    uint64_t tick_due_ms; /* when it will run; 0: it does not */
    struct loop_timer *bookmark_timer;
    struct loop_timer *trim;        /* runs when much was let go: worker_trim_later */
    struct loop_timer *list_timer;  /* of classes that are owed a list_changed */
    struct handler_calls handlings; /* tools and prompts the application is working on */
    struct list asked;              /* calls that wait for a provider, longest first */
    size_t outstanding;             /* requests that providers have not finished */
    struct worker_stats stats;
    uint32_t peers_made;
    bool stopping;
    struct {
        struct loop_timer *timer; /* NULL: at once */
        uint64_t begun_ms, over_ms;
        size_t total, ended;
        uint32_t ended_upto; /* number of a subscriber: those up to it have been told */
    } stop;
    bool is_resynced;   /* told everybody of what is missing before the next change */
    size_t announced;   /* atomic: bytes of changes on their way here */
    struct letter lost; /* on its way while is_lost */
    bool is_lost;       /* atomic */
};

int worker_init(struct worker *worker, struct loop *loop, struct hub *hub, unsigned index,
                struct tidings_error *err);
/* Wait until providers have finished what they were asked, at most this long. false: some did not,
 * and the worker must not be freed. Channels must be gone. */
bool worker_settle(struct worker *worker, uint64_t timeout_ms);
/* Ends all sessions and subscribers. Channels must be gone. */
void worker_deinit(struct worker *worker);

/* So many bytes were handled, and will be free in a moment. When they are many (a message of some
 * MiB becomes a tree of a hundred), memory is given back to the system a second later. */
#define CORE_TRIM_BYTES (256u * 1024u)
#define CORE_TRIM_MS 1000u
void worker_trim_later(struct worker *worker, size_t bytes);

/* Replace the snapshot (takes the reference). */
void worker_set_catalog(struct worker *worker, struct catalog *catalog);
/* LIST_TOOLS and LIST_PROMPTS as far as there are any, or were declared; OFFER_COMPLETIONS and
 * OFFER_SUBSCRIPTIONS. */
unsigned worker_offers(const struct worker *worker);
void worker_set_features(struct worker *worker, enum feature_kind kind, struct feature_list *list);
/* Beyond the index: subscriptions whose provider knows a relation of its own. */
void worker_find_covered(struct worker *worker, struct tidings_str uri, match_fn fn, void *user);
/* What filters judge, {"uri": …, "metadata": {…}} with change_type; made once per change. NULL: out
 * of memory. */
struct json *worker_subject(struct worker *worker, const struct change *change);
/* The same for those who may not know that it was moved; a reference. */
struct json *worker_make_subject(const struct worker *worker, const struct change *change,
                                 bool hides_from);
/* At most one notification per `ms` from now on for every subscription that matches `uri`, those to
 * come too. 0: as they asked. */
void worker_set_rate(struct worker *worker, struct tidings_str uri, uint64_t ms);
/* The longest pause set for anything `sub` matches. */
uint64_t worker_rate(const struct worker *worker, const struct subscription *sub);
/* From now on new subscriptions follow these rules. Takes the reference. */
void worker_set_rules(struct worker *worker, struct option_rules *rules);
/* From now on these say who may do what; NULL: everybody everything. Takes the reference. */
void worker_set_access(struct worker *worker, struct access_rules *rules);
/* End the streams of those whose time is over. */
void worker_expire_principals(struct worker *worker);
/* End the streams of those who are nobody any more: what made them somebody was taken back. */
void worker_revoke(struct worker *worker, principal_test_fn is_gone, void *user);
/* The cursor of one who has heard of everything up to that number. */
struct log_cursor worker_cursor(const struct worker *worker, uint64_t seq);
/* A change arrived from the hub. */
void worker_on_change(struct worker *worker, const struct change *change);
/* From the hub, any thread: a change will not come, for want of room or memory. Everybody is told
 * once to look again. Needs no memory itself. */
void worker_lose(struct worker *worker);
/* Listens get their result and end, sessions end their streams, one after the other, evenly over
 * this time; new ones are refused. 0: all at once, also those that an earlier call has left. */
void worker_stop(struct worker *worker, uint64_t over_ms);
/* While it stops: is nothing under way on this pipe, and its turn to end has come? */
bool worker_is_done_with(const struct worker *worker, const struct channel *channel);

#endif
