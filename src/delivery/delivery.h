/* SPDX-License-Identifier: MIT
 *
 * Delivery on one worker: its subscribers and their subscriptions, the index that finds those a
 * change concerns, what waits to be told, and the road of a change from the hub to the outboxes.
 */
#ifndef DELIVERY_DELIVERY_H
#define DELIVERY_DELIVERY_H

#include "base/loop.h"
#include "base/mailbox.h"
#include "delivery/change_content.h"
#include "delivery/delivery_log.h"
#include "delivery/filters.h"
#include "delivery/lag.h"
#include "delivery/peer_errors.h"
#include "delivery/window.h"
#include "dialect/cursor.h"
#include "match/match.h"
#include "worker/worker.h"

struct change;
struct cursor_seals;
struct option_rules;
struct subscription;

/* Which subscribers the kernel was asked about (server/kernel_lag.h); all zero: none yet. */
struct delivery_asked {
    struct list *next;              /* goes on there; NULL: at the beginning */
    uint64_t longest_us, before_us; /* of this round; of the one before */
};

struct delivery {
    struct match match;
    struct list subscribers;
    struct delivery_asked asked;
    struct list dirty;               /* subscribers with something to flush */
    struct list behind;              /* those whose streams took not all that was flushed */
    struct lag lag;                  /* how long changes wait */
    struct peer_errors errors;       /* last ones of subscribers */
    uint32_t subscribers_made;       /* so far */
    struct list list_watchers;       /* listens that want list_changed */
    struct list bookmarked;          /* listens that want bookmarks */
    struct list covers_subs;         /* subscriptions a provider's own relation may concern */
    struct windows windows;          /* that hold something back */
    struct cursor_marks marks;       /* where numbers stand in the store */
    struct cursor_seals *seals;      /* NULL: none yet */
    struct filters filters;          /* schemas that subscriptions filter with */
    const struct change *subject_of; /* the change that `subject` was made from */
    struct json *subject;
    struct delivery_log log;
    struct delivery_trace trace;
    struct change_contents contents; /* for subscriptions that asked for them */
    struct map rates;                /* URI -> struct delivery_rate: limits set at run time */
    struct option_rules *rules;      /* a reference: set at run time; NULL: those of the limits */
    struct loop_hook flush_hook;
    struct loop_wakeup flush_again; /* there is room again for what waits */
    struct loop_timer *window_timer;
    uint64_t window_due_ms; /* when it will run; 0: it does not */
    struct loop_timer *bookmark_timer;
    struct loop_timer *list_timer; /* until a class may be told list_changed again */
    bool is_resynced; /* everybody was told to look again: a gap before the next change is known */
    size_t announced; /* atomic: bytes of changes on their way here */
    struct letter lost; /* on its way while is_lost */
    bool is_lost;       /* atomic */
};

/* What the whole server shares, from now on also this worker's: counters, the catalog, handlers. */
void delivery_use_hub(struct worker *worker, struct hub *hub);
/* Takes part in what the hub announces from now on. TIDINGS_E_NOMEM. */
int delivery_init(struct worker *worker, struct tidings_error *err);
/* Ends all subscribers, and then forgets what was kept for them. */
void delivery_end_subscribers(struct worker *worker);
void delivery_deinit(struct worker *worker);

/* For transports: a connection of messages has sent everything. Its next long answer follows at the
 * end of the next turn, behind pending notifications. Returns false if no answer waits. */
bool delivery_drained(struct channel *channel);

/* Beyond the index: subscriptions whose provider knows a relation of its own. */
void delivery_find_covered(struct worker *worker, struct tidings_str uri, match_fn fn, void *user);
/* What filters judge, {"uri": …, "metadata": {…}} with change_type; made once per change. NULL: out
 * of memory. */
struct json *delivery_subject(struct worker *worker, const struct change *change);
/* The same for those who may not know that it was moved; a reference. */
struct json *delivery_make_subject(const struct worker *worker, const struct change *change,
                                   bool hides_from);
/* At most one notification per `ms` from now on for every subscription that matches `uri`, those to
 * come too. 0: as they asked. */
void delivery_set_rate(struct worker *worker, struct tidings_str uri, uint64_t ms);
/* The longest pause set for anything `sub` matches. */
uint64_t delivery_rate(const struct worker *worker, const struct subscription *sub);
void delivery_clear_rates(struct worker *worker);
/* From now on new subscriptions follow these rules. Takes the reference. */
void delivery_set_rules(struct worker *worker, struct option_rules *rules);
/* The cursor of one who has heard of everything up to that number. */
struct log_cursor delivery_cursor(const struct worker *worker, uint64_t seq);
/* A change arrived from the hub. */
void delivery_on_change(struct worker *worker, const struct change *change);
/* From the hub, any thread: a change will not come, for want of room or memory. Everybody is told
 * once to look again. Needs no memory itself. */
void delivery_lose(struct worker *worker);

#endif
