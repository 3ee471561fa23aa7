/* SPDX-License-Identifier: MIT
 *
 * Delivery on one worker: its subscribers and their subscriptions, the index that finds those a
 * change concerns, what waits to be told, and the road of a change from the hub to the outboxes.
 */
#ifndef ENGINE_DELIVERY_DELIVERY_H
#define ENGINE_DELIVERY_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>

#include <tidings/types.h>

#include "base/loop.h"
#include "base/rate.h"
#include "base/thread.h"
#include "base/time.h"
#include "engine/delivery/content.h"
#include "engine/delivery/filters.h"
#include "engine/delivery/outbox.h"
#include "engine/match/match.h"
#include "engine/protocol/cursor.h"
#include "engine/worker.h"

/* -------------------------------------------------------------------------------------------------
 * What the log says of subscriptions: who began and ended to listen, and why; and of readers that
 * are too slow.
 *
 * A line for each where the access log is wanted; otherwise each worker has DELIVERY_LOG_BURST of a
 * kind at once and DELIVERY_LOG_RATE a second from then on, so that 10,000 streams that come back
 * together do not fill a disk. What is left out is counted and said in the next line of its kind,
 * or a moment later in one of its own.
 *
 * At the level debug there is a line for each change, too: how many subscriptions of this worker
 * matched, and what became of it for them. Otherwise nothing here is called for each delivery.
 */

#define DELIVERY_LOG_RATE 2u
#define DELIVERY_LOG_BURST 20u
#define DELIVERY_LOG_CHANGES 100u /* lines about changes in a second */

struct change;
struct channel;
struct subscription_group;
struct subscriber;
struct worker;

enum delivery_log_kind {
    DELIVERY_LOG_BEGUN,
    DELIVERY_LOG_ENDED,
    DELIVERY_LOG_FULL, /* an outbox: what waited became "something changed" */
    DELIVERY_LOG_CUT,
    DELIVERY_LOG_CHANGE,
    DELIVERY_LOG_KINDS
};

/* What becomes of a change for a subscription that matches. */
enum delivery_fate {
    DELIVERY_SENT,     /* on its way to the client */
    DELIVERY_DEFERRED, /* in a window, or merged into what waits there */
    DELIVERY_FILTERED, /* by a filter, a condition or `echo` */
    DELIVERY_HIDDEN,   /* by the access rules */
    DELIVERY_REREADS,  /* the client is told to read again anyway */
    DELIVERY_AWAY,     /* no stream, or the log is being read for it: it will catch up */
    DELIVERY_ONCE,     /* its session is told because of another subscription */
    DELIVERY_FATES
};
#define DELIVERY_TRACE_TEXT 384u

/* Of the change that is being delivered. */
struct delivery_trace {
    bool is_on; /* the line is wanted */
    uint32_t counts[DELIVERY_FATES];
    uint32_t text_len;
    char text[DELIVERY_TRACE_TEXT]; /* the first peers that are not sent it, and why */
};

/* All zero: nothing was said yet. */
struct delivery_log {
    struct token_bucket lines[DELIVERY_LOG_KINDS];
    uint64_t left_out[DELIVERY_LOG_KINDS];
    uint64_t due_ms; /* when delivery_log_left_out is to be called; 0: nothing was left out */
};

/* Its client was told that it is subscribed; once. */
void delivery_log_begun(struct subscription_group *group);
/* It ends, for the reason in worker->ending. One that never began is passed over. */
void delivery_log_ended(struct subscription_group *group);
void delivery_log_full(const struct subscriber *subscriber);
/* A connection is closed because its client takes nothing for `lag_ms` or longer. */
void delivery_log_cut(const struct channel *channel, size_t unsent_bytes, uint64_t lag_ms,
                      const char *reason);
/* Around the search for subscriptions that a change concerns; and for each that matches, while
 * `is_on`. */
void delivery_log_fate(const struct subscriber *subscriber, enum delivery_fate fate);
void delivery_log_left_out(struct worker *worker, uint64_t now_ms);

/* -------------------------------------------------------------------------------------------------
 * Finds the subscriptions of a worker that a change concerns, and charges what a search of regexes
 * costs to the clients that have them: a regex is searched only if somebody who has it may hear of
 * the change, and whoever that is pays for it (security/client_account.h). So what a client has
 * left, and what it is told when that is not enough, depends on nothing but what it may hear of.
 *
 * A subscription whose regex nobody could pay for is told to look again (`truncated`): nothing is
 * lost in silence, and the others are not kept waiting.
 */

struct subscription;

struct lookup_calls {
    /* Would it be told now, as far as anything but the pattern is concerned? */
    bool (*concerns)(void *user, const struct subscription *sub);
    match_fn found; /* for each that matches, concerned or not */
};

void lookup_find(struct worker *worker, const struct change *change,
                 const struct lookup_calls *calls, void *user);

enum lookup_answer {
    LOOKUP_NO,
    LOOKUP_YES,
    LOOKUP_UNKNOWN, /* its client has no steps left to search with */
};
/* Does the pattern of this one match `uri`, which its client may hear of? */
enum lookup_answer lookup_ask(struct subscription *sub, struct tidings_str uri);

/* -------------------------------------------------------------------------------------------------
 * Cursors of the change log as text for one principal. A number counts the changes of everybody, so
 * who may not see everything gets it sealed (security/seal.h), anew in each turn of the loop:
 * cursors of two turns are never equal, whether something happened between them or not. Only who
 * was given one can use it: numbers are not accepted from those who are not shown any, else one
 * could be found by trying.
 *
 * The key is made for one run of the server, or with the store that several nodes share (`secret`
 * of store/store.h). A cursor that was sealed with another key is not known, and whoever comes
 * back with it is told to read again.
 */

struct principal;

/* What was sealed in this turn: whoever is told the same then gets the same, so that telling many
 * costs as little as telling one. Made when first needed, 48 KiB for a worker. */
struct cursor_seals;

/* As `principal` is told it: written to `out`, or sealed and valid until the next one is asked for.
 */
struct tidings_str cursor_seal_put(struct worker *worker, const struct principal *principal,
                                   const struct log_cursor *cursor, char out[CURSOR_TEXT]);
/* The seal alone; empty: `principal` may see the numbers. */
struct tidings_str cursor_seal_make(struct worker *worker, const struct principal *principal,
                                    const struct log_cursor *cursor);
/* What `principal` came back with. false: none that it was given. */
bool cursor_seal_open(struct worker *worker, const struct principal *principal,
                      struct tidings_str text, struct log_cursor *ret);

/* -------------------------------------------------------------------------------------------------
 * How long notifications wait on one worker between being due and being written to a stream: a
 * histogram of what was written. A change is due when the hub numbers it; what a window held back,
 * when that lets it go; what is told from the log or as the state at the beginning, when it is
 * found. No clock is asked for each subscriber: one time is taken for each batch of streams.
 */

/* When something was due, as each notification that waits keeps it: tenths of a millisecond of the
 * monotonic clock. It comes round after five days, and nothing waits for half as long. */
static inline uint32_t lag_due(uint64_t us)
{
    return (uint32_t)(us / 100);
}
uint32_t lag_due_now(void);
/* Microseconds since then; 0: it is yet to come. */
static inline uint64_t lag_since(uint32_t due, uint64_t now_us)
{
    uint32_t tenths = lag_due(now_us) - due;
    return tenths <= INT32_MAX ? tenths * 100ull : 0;
}

struct lag_counts {
    struct durations waited;
    uint64_t max_us;
};
void lag_counts_add(struct lag_counts *to, const struct lag_counts *from);
/* The value that a share of `per_mille` of all lies below, in microseconds, by straight lines
 * within a bucket; 0: there are none. */
uint64_t lag_counts_quantile(const struct lag_counts *c, unsigned per_mille);

struct lag {
    uint64_t now_us;             /* of the batch that is being written, or was last */
    struct lag_counts before;    /* since the start, without … */
    struct lag_counts recent[2]; /* … the last LAG_RECENT_US: this period and the one before */
    uint64_t period_us;          /* when this one began */
};
#define LAG_RECENT_US 10000000u

/* A flush begins. */
void lag_begin_flush(struct lag *lag, uint64_t now_us);
/* Something that waited for so long was written. */
void lag_count(struct lag *lag, uint64_t waited_us);
/* All since the start; and those of the last ten to twenty seconds. */
void lag_total(const struct lag *lag, struct lag_counts *ret);
void lag_recent(const struct lag *lag, uint64_t now_us, struct lag_counts *ret);

/* -------------------------------------------------------------------------------------------------
 * The last error that each client of a worker was told, for whoever looks after the server. Few
 * have one, so they stand in a table beside the subscribers, which know their slot in it.
 */

#define CLIENT_ERROR_TEXT 112u  /* bytes of the sentence, with its NUL */
#define CLIENT_ERROR_MAX 65536u /* clients with an error; of others none is kept */

struct client_error {
    int64_t at_ms; /* Unix time */
    int32_t code;
    uint32_t next_free; /* private */
    char text[CLIENT_ERROR_TEXT];
};

/* All zero: none. */
struct client_errors {
    struct client_error *at; /* by slot - 1 */
    uint32_t count, cap, free;
};

/* Keep it at *slot (0: it has none yet, and gets one as far as there is room). The text is cut
 * between characters, and control characters are replaced. */
void client_errors_note(struct client_errors *all, uint32_t *slot, int code,
                        struct tidings_str text);
/* The client goes. */
void client_errors_forget(struct client_errors *all, uint32_t *slot);
/* NULL: none. */
const struct client_error *client_errors_get(const struct client_errors *all, uint32_t slot);

struct option_rules;

/* Which subscribers the kernel was asked about (server/stats.h); all zero: none yet. */
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
    struct client_errors errors;     /* last ones of subscribers */
    uint32_t subscribers_made;       /* so far */
    struct list list_watchers;       /* groups that want list_changed */
    struct list bookmarked;          /* groups that want bookmarks */
    struct list matched_by_provider; /* subscriptions a provider's own relation may concern */
    struct windows windows;          /* that hold something back */
    struct position_map positions;   /* where numbers stand in the store */
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
    struct thread_message overflow; /* on its way while has_overflowed */
    bool has_overflowed;            /* atomic */
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
void delivery_find_matching(struct worker *worker, struct tidings_str uri, match_fn fn, void *user);
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
/* From now on new subscriptions follow these rules. Takes the reference. */
void delivery_set_rules(struct worker *worker, struct option_rules *rules);
/* The cursor of one who has heard of everything up to that number. */
struct log_cursor delivery_cursor(const struct worker *worker, uint64_t seq);
/* A change arrived from the hub. */
void delivery_on_change(struct worker *worker, const struct change *change);
/* From the hub, any thread: a change will not come, for want of room or memory. Everybody is told
 * once to look again. Needs no memory itself. */
void delivery_overflow(struct worker *worker);

#endif
