/* SPDX-License-Identifier: MIT
 *
 * Delivery on one worker: its subscribers and their subscriptions, the index that matches changes
 * to them, pending notifications, and the path of a change from the hub to the outboxes.
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
 * Log lines about subscriptions (start, end and reason) and about slow readers.
 *
 * With the access log, each event gets a line. Otherwise each worker may log DELIVERY_LOG_BURST
 * lines of a kind at once and then DELIVERY_LOG_RATE per second, so that 10,000 reconnecting
 * streams do not fill a disk. Suppressed lines are counted; the next line of the kind, or a
 * separate line shortly afterwards, reports the count.
 *
 * At level debug there is also a line for each change: how many subscriptions of this worker
 * matched, and the outcome for them. At other levels no delivery calls these functions.
 */

#define DELIVERY_LOG_RATE 2u
#define DELIVERY_LOG_BURST 20u
#define DELIVERY_LOG_CHANGES 100u /* lines about changes per second */

struct change;
struct channel;
struct subscription_group;
struct subscriber;
struct worker;

enum delivery_log_kind {
    DELIVERY_LOG_BEGUN,
    DELIVERY_LOG_ENDED,
    DELIVERY_LOG_FULL, /* an outbox is full: its items became "something changed" */
    DELIVERY_LOG_CUT,
    DELIVERY_LOG_CHANGE,
    DELIVERY_LOG_KINDS
};

/* The outcome of a change for a matching subscription. */
enum delivery_fate {
    DELIVERY_SENT,     /* on its way to the client */
    DELIVERY_DEFERRED, /* held in a window, or merged into a held change */
    DELIVERY_FILTERED, /* by a filter, a condition or `echo` */
    DELIVERY_HIDDEN,   /* by the access rules */
    DELIVERY_REREADS,  /* the client is going to read again anyway */
    DELIVERY_AWAY,     /* no stream, or the log is being read for it: it catches up */
    DELIVERY_ONCE,     /* its session is notified through another subscription */
    DELIVERY_FATES
};
#define DELIVERY_TRACE_TEXT 384u

/* Trace of the change that is being delivered. */
struct delivery_trace {
    bool is_on; /* the line is logged */
    uint32_t counts[DELIVERY_FATES];
    uint32_t text_len;
    char text[DELIVERY_TRACE_TEXT]; /* the first peers that do not receive it, and why */
};

/* All zero: nothing logged yet. */
struct delivery_log {
    struct token_bucket lines[DELIVERY_LOG_KINDS];
    uint64_t left_out[DELIVERY_LOG_KINDS];
    uint64_t due_ms; /* when to call delivery_log_left_out; 0: nothing suppressed */
};

/* The client was notified that it is subscribed. Logged once. */
void delivery_log_begun(struct subscription_group *group);
/* The group ends, for the reason in worker->ending. Ignored if delivery_log_begun was not
 * called. */
void delivery_log_ended(struct subscription_group *group);
void delivery_log_full(const struct subscriber *subscriber);
/* A connection is closed because its client has read nothing for `lag_ms` or longer. */
void delivery_log_cut(const struct channel *channel, size_t unsent_bytes, uint64_t lag_ms,
                      const char *reason);
/* Called before and after the search for matching subscriptions, and for each match while
 * `is_on`. */
void delivery_log_fate(const struct subscriber *subscriber, enum delivery_fate fate);
void delivery_log_left_out(struct worker *worker, uint64_t now_ms);

/* -------------------------------------------------------------------------------------------------
 * Finds the subscriptions of a worker that a change concerns, and charges the CPU time of regex
 * searches to the clients that use the regexes. A regex is searched only if a client that uses it
 * may see the change, and such clients pay for the search (security/client_account.h). So a
 * client's remaining budget, and the notifications it gets when the budget is used up, depend only
 * on changes that it may see.
 *
 * If no client can pay for a regex, its subscriptions get one `truncated` update. Nothing is lost
 * without notice, and other clients do not wait.
 */

struct subscription;

struct lookup_calls {
    /* Returns true if the subscription would be notified now, apart from its pattern. */
    bool (*concerns)(void *user, const struct subscription *sub);
    match_fn found; /* called for each match, concerned or not */
};

void lookup_find(struct worker *worker, const struct change *change,
                 const struct lookup_calls *calls, void *user);

enum lookup_answer {
    LOOKUP_NO,
    LOOKUP_YES,
    LOOKUP_UNKNOWN, /* its client has no search steps left */
};
/* Returns whether the subscription's pattern matches `uri`. The client may see `uri`. */
enum lookup_answer lookup_ask(struct subscription *sub, struct tidings_str uri);

/* -------------------------------------------------------------------------------------------------
 * Cursors of the change log as text for one principal. A number counts the changes of all clients,
 * so principals with restricted access get it sealed (security/seal.h). The seal changes in each
 * turn of the loop: cursors of two turns always differ, whether or not something changed between
 * them. Only the recipient can use a cursor. Numbers are not accepted from a principal that does
 * not see them, because it could find one by trial.
 *
 * The key is made for one run of the server, or is kept in the shared store (`secret` of
 * store/store.h). A cursor sealed with another key is unknown, and a client that resumes with it
 * gets a `truncated` update.
 */

struct principal;

/* The seals of this turn. Principals that see the same cursor share its seal, so notifying many
 * costs as little as notifying one. Created on first use, 48 KiB per worker. */
struct cursor_seals;

/* The cursor as text for `principal`: written to `out`, or sealed and valid until the next call. */
struct tidings_str cursor_seal_put(struct worker *worker, const struct principal *principal,
                                   const struct log_cursor *cursor, char out[CURSOR_TEXT]);
/* Only the seal; empty if `principal` may see the numbers. */
struct tidings_str cursor_seal_make(struct worker *worker, const struct principal *principal,
                                    const struct log_cursor *cursor);
/* Reads a cursor that `principal` sent. Returns false if it was not issued to this principal. */
bool cursor_seal_open(struct worker *worker, const struct principal *principal,
                      struct tidings_str text, struct log_cursor *ret);

/* -------------------------------------------------------------------------------------------------
 * How long notifications wait on one worker between their due time and the write to a stream: a
 * histogram of written notifications. A change is due when the hub numbers it; a change held in a
 * window, when the window releases it; a change from the log or the initial state, when it is
 * found. The clock is read once for each batch of streams, not for each subscriber.
 */

/* When a notification was due: tenths of a millisecond of the monotonic clock. Wraps after five
 * days; no notification waits half as long. */
static inline uint32_t lag_due(uint64_t us)
{
    return (uint32_t)(us / 100);
}
uint32_t lag_due_now(void);
/* Microseconds since `due`; 0 if it is in the future. */
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
/* Returns the `per_mille` quantile in microseconds, interpolated linearly within a bucket; 0 if
 * there are no samples. */
uint64_t lag_counts_quantile(const struct lag_counts *c, unsigned per_mille);

struct lag {
    uint64_t now_us;             /* of the current or last batch */
    struct lag_counts before;    /* since the start, without … */
    struct lag_counts recent[2]; /* … the last LAG_RECENT_US: this period and the previous one */
    uint64_t period_us;          /* start of this period */
};
#define LAG_RECENT_US 10000000u

/* Call when a flush starts. */
void lag_begin_flush(struct lag *lag, uint64_t now_us);
/* Counts a written notification that waited `waited_us`. */
void lag_count(struct lag *lag, uint64_t waited_us);
/* All since the start, and those of the last ten to twenty seconds. */
void lag_total(const struct lag *lag, struct lag_counts *ret);
void lag_recent(const struct lag *lag, uint64_t now_us, struct lag_counts *ret);

/* -------------------------------------------------------------------------------------------------
 * The last error that each client of a worker received, for the operator. Few clients have one, so
 * errors are in a table beside the subscribers, which store their slot.
 */

#define CLIENT_ERROR_TEXT 112u  /* bytes of the error message, with its NUL */
#define CLIENT_ERROR_MAX 65536u /* clients with a stored error */

struct client_error {
    int64_t at_ms; /* Unix time */
    int32_t code;
    uint32_t next_free; /* private */
    char text[CLIENT_ERROR_TEXT];
};

/* All zero: no errors. */
struct client_errors {
    struct client_error *at; /* by slot - 1 */
    uint32_t count, cap, free;
};

/* Stores it at *slot (0: allocates a slot if the table has room). Text is truncated between
 * characters, and control characters are replaced. */
void client_errors_note(struct client_errors *all, uint32_t *slot, int code,
                        struct tidings_str text);
/* The client is destroyed. */
void client_errors_forget(struct client_errors *all, uint32_t *slot);
/* Returns NULL if there is none. */
const struct client_error *client_errors_get(const struct client_errors *all, uint32_t slot);

struct option_rules;

/* Progress of the queries to the kernel about subscribers (server/stats.h); all zero: not
 * started. */
struct delivery_asked {
    struct list *next;              /* the next one to query; NULL: start over */
    uint64_t longest_us, before_us; /* of this round; of the previous one */
};

struct delivery {
    struct match match;
    struct list subscribers;
    struct delivery_asked asked;
    struct list dirty;               /* subscribers with something to flush */
    struct list behind;              /* those whose streams accepted only part of the flush */
    struct lag lag;                  /* how long changes wait */
    struct client_errors errors;     /* last errors of subscribers */
    uint32_t subscribers_made;       /* so far */
    struct list list_watchers;       /* groups with bookmarks */
    struct list bookmarked;          /* groups with bookmarks */
    struct list matched_by_provider; /* subscriptions matched by a provider's `covers` */
    struct windows windows;          /* windows that hold changes */
    struct position_map positions;   /* store positions of the numbers */
    struct cursor_seals *seals;      /* NULL: not created yet */
    struct filters filters;          /* schemas of subscription filters */
    const struct change *subject_of; /* the change that `subject` was made from */
    struct json *subject;
    struct delivery_log log;
    struct delivery_trace trace;
    struct change_contents contents; /* for subscriptions that requested content */
    struct map rates;                /* URI -> struct delivery_rate: limits set at run time */
    struct option_rules *rules;      /* a reference: set at run time; NULL: those of the limits */
    struct loop_hook flush_hook;
    struct loop_wakeup flush_again; /* there is room again for pending notifications */
    struct loop_timer *window_timer;
    uint64_t window_due_ms; /* when it runs; 0: not scheduled */
    struct loop_timer *bookmark_timer;
    struct loop_timer *list_timer; /* until a class may send list_changed again */
    bool is_resynced; /* all subscriptions were truncated: a gap in the numbers is covered */
    size_t announced; /* atomic: bytes of changes on their way here */
    struct thread_message overflow; /* pending while has_overflowed */
    bool has_overflowed;            /* atomic */
};

/* Shares the server's counters, catalog and handlers with this worker from now on. */
void delivery_use_hub(struct worker *worker, struct hub *hub);
/* Receives the hub's announcements from now on. TIDINGS_E_NOMEM. */
int delivery_init(struct worker *worker, struct tidings_error *err);
/* Ends all subscribers, then frees what was kept for them. */
void delivery_end_subscribers(struct worker *worker);
void delivery_deinit(struct worker *worker);

/* For transports: a message connection has sent everything. Its next long answer follows at the end
 * of the next turn, after pending notifications. Returns false if no answer waits. */
bool delivery_drained(struct channel *channel);

/* Finds subscriptions outside the index: those whose provider has its own `covers` relation. */
void delivery_find_matching(struct worker *worker, struct tidings_str uri, match_fn fn, void *user);
/* The JSON that filters evaluate, {"uri": …, "metadata": {…}} with change_type; made once per
 * change. NULL when out of memory. */
struct json *delivery_subject(struct worker *worker, const struct change *change);
/* The same for principals that may not see that the resource was moved; a reference. */
struct json *delivery_make_subject(const struct worker *worker, const struct change *change,
                                   bool hides_from);
/* Limits all current and future subscriptions that match `uri` to one notification per `ms`. 0: the
 * client's settings apply. */
void delivery_set_rate(struct worker *worker, struct tidings_str uri, uint64_t ms);
/* The longest period set for anything that `sub` matches. */
uint64_t delivery_rate(const struct worker *worker, const struct subscription *sub);
/* New subscriptions follow these rules from now on. Takes the reference. */
void delivery_set_rules(struct worker *worker, struct option_rules *rules);
/* The cursor of a client that received everything up to that number. */
struct log_cursor delivery_cursor(const struct worker *worker, uint64_t seq);
/* A change arrived from the hub. */
void delivery_on_change(struct worker *worker, const struct change *change);
/* From the hub, any thread: a change is lost because room or memory ran out. Every subscription
 * gets one `truncated` update. Allocates no memory. */
void delivery_overflow(struct worker *worker);

#endif
