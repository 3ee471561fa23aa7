/* SPDX-License-Identifier: MIT
 *
 * A subscriber: one client that receives updates, with its stream and its pending updates.
 *
 *     subscriber ── sink        the stream, NULL while a session has none
 *       ├──── outbox            pending updates
 *       └──── groups ── subs    groups of subscriptions (engine/delivery/subscription.h)
 *
 * A subscriber without a stream queues nothing. It remembers its cursor (everything up to it was
 * written) and catches up from the log when a stream opens. All its state lives on one worker.
 */
#ifndef ENGINE_DELIVERY_SUBSCRIBER_H
#define ENGINE_DELIVERY_SUBSCRIBER_H

#include "base/list.h"
#include "base/loop.h"
#include "engine/delivery/outbox.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/cursor.h"

#define SUBSCRIBER_MAX_SKIPS 8u
#define EVENT_ID_MAX (64u + CURSOR_SEALED)

struct client_account;
struct buf;
struct change;
struct changelog_row;
struct channel;
struct channel_facts;
struct dialect_updated;
struct hub_catchup;
struct json;
struct principal;
struct subscriber;
struct subscription;
struct worker;

/* Numbers in (from, to] that were sent elsewhere: not replayed. */
struct subscriber_skips {
    unsigned count;
    struct {
        uint64_t from, to;
    } at[SUBSCRIBER_MAX_SKIPS];
};

/* Callbacks of the owner of a subscriber: a session, a listen over HTTP, or a subscription inside
 * the program. Each may be NULL. */
struct subscriber_ops {
    /* An update of `sub` for the program itself; replaces writing it to the stream. */
    void (*on_update)(struct subscriber *subscriber, const struct dialect_updated *update,
                      const struct subscription *sub);
    /* The id of the next message (`id:` of a server-sent event) for resumable streams: written to
     * `out`; returns its length. */
    size_t (*event_id)(struct subscriber *subscriber, const struct log_cursor *at,
                       char out[EVENT_ID_MAX]);
    /* A subscription is going to receive the changes after `since` again (SINCE_UNKNOWN: the missed
     * changes are unknown), so ids issued after `since` are too high. */
    void (*on_rewind)(struct subscriber *subscriber, uint64_t since);
    /* All due list_changed notifications have been written. */
    void (*on_lists_written)(struct subscriber *subscriber);
    void (*on_destroy)(struct subscriber *subscriber);
    /* End its streams and keep it, because it no longer has access to anything. NULL:
     * `disconnect`. */
    void (*end_streams)(struct subscriber *subscriber);
    /* End it at the program's request. NULL: ends its subscriptions and its stream. */
    void (*disconnect)(struct subscriber *subscriber);
    /* NULL: it is not a session. */
    struct tidings_str (*session_id)(const struct subscriber *subscriber);
    /* Describes its connection when it has no stream; fills the known fields of *ret. */
    void (*facts)(const struct subscriber *subscriber, struct channel_facts *ret);
    /* Numbers that are not replayed to it; NULL: none. */
    const struct subscriber_skips *(*skips)(const struct subscriber *subscriber);
    /* Its stream ended. Decides whether to destroy the subscriber. */
    void (*on_stream_end)(struct subscriber *subscriber);
};

struct subscriber {
    union {
        struct {
            struct list link;       /* in worker->delivery->subscribers */
            struct list dirty_link; /* in worker->delivery->dirty, or behind */
        };
        struct loop_discard discard; /* after it is destroyed */
    };
    struct worker *worker;
    const struct principal *principal; /* a reference */
    struct client_account *account;    /* a reference: pays for its patterns; NULL: unlimited */
    struct sink *sink;
    struct outbox outbox;
    struct list groups;
    uint64_t cursor;             /* without a stream: all matches up to here were written */
    struct hub_catchup *catchup; /* the log query under way; its answer includes live changes */
    uint32_t created_s;          /* creation time; Unix time */
    uint32_t error;              /* its last error, in worker->delivery->errors; 0: none */
    /* The lowest numbers of unwritten updates, 0: none: … */
    uint64_t resync_from;   /* … of a truncated subscription */
    uint64_t lists_from;    /* … of changed lists */
    uint64_t catching_from; /* … of the log query under way */
    uint64_t lists_upto;    /* list changes up to here are known, when catching up */
    uint32_t group_count, subscription_count;
    uint32_t deferred_count; /* subscriptions that hold changes in a window */
    uint32_t catching_count; /* subscriptions with a log query under way */
    int8_t log_level;        /* messages below this level are not sent (logging/setLevel) */
    bool has_truncated : 1;  /* a subscription is marked */
    bool was_truncated : 1;  /* one was sent: on this stream or before the client resumed */
    bool has_list_pending : 1;
    bool has_initial : 1;             /* initial states are not looked up yet */
    bool waits_content : 1;           /* the first item needs content that is being read */
    bool is_behind : 1;               /* in worker->delivery->behind, by its dirty_link */
    bool is_modern : 1;               /* its client speaks the modern era */
    uint16_t client;                  /* its name in worker->requests->clients */
    uint32_t number;                  /* its number among all subscribers of this worker */
    const struct subscriber_ops *ops; /* its owner's callbacks; NULL: none */
    void *owner;
};
/* One of the four blocks of an idle listen (unit/server/test_idle.c): malloc has no size between
 * this and 16 bytes more. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct subscriber) <= 216, "an idle stream grows");

struct subscriber *subscriber_create(struct worker *worker, const struct principal *principal);
/* Continues with the rights of `principal`; takes its own reference. */
void subscriber_set_principal(struct subscriber *subscriber, const struct principal *principal);
/* The one subscriber of a message connection with its stream, created on first use; NULL when out
 * of memory. */
struct subscriber *subscriber_of_channel(struct channel *channel);
void subscriber_end_of_channel(struct channel *channel); /* it must have one */
/* The same without its stream, which costs kernel memory: for a connection that has sent a message,
 * so that it is listed as connected. */
struct subscriber *subscriber_register(struct channel *channel);
/* The connection that carries its notifications, now or when it has a stream; NULL: none, or it is
 * the program. */
struct channel *subscriber_channel(const struct subscriber *subscriber);
/* Sets the client's name from `clientInfo` (NULL or without a name: no change). */
void subscriber_set_client(struct subscriber *subscriber, const struct json *info);
/* Stores an error that its client received, for the operator. */
void subscriber_note_error(struct subscriber *subscriber, int code, struct tidings_str text);
/* Describes its connection; all zero: it has none. */
void subscriber_get_facts(const struct subscriber *subscriber, struct channel_facts *ret);
/* How long the oldest due notification has waited for the stream. */
uint64_t subscriber_lag_us(const struct subscriber *subscriber, uint64_t now_us);
/* Removes every subscription and releases the watches; the memory is freed at the end of the
 * turn. */
void subscriber_destroy(struct subscriber *subscriber);

/* Identifies it among the subscribers of all workers, including destroyed ones; ascending per
 * worker. */
uint64_t subscriber_id(const struct subscriber *subscriber);
/* Ends its session, or its groups with their results; and its stream. `withdraws`: also ends its
 * legacy subscriptions on a message connection, which stays open, and notifies the client. */
void subscriber_end(struct subscriber *subscriber, bool withdraws);
/* Ends all its subscriptions and its stream; a message connection stays open. */
void subscriber_disconnect(struct subscriber *subscriber);

/* ---- the stream ------------------------------------------------------------------------------ */

/* Sets its stream and the sink's callbacks, or removes the stream (NULL). */
void subscriber_set_sink(struct subscriber *subscriber, struct sink *sink);
/* Returns true if enough is on its way; the sink calls back when it can continue. */
bool subscriber_is_blocked(struct subscriber *subscriber);
/* There is something to flush at the end of the turn. */
void subscriber_mark_dirty(struct subscriber *subscriber);
/* It was flushed and is in no list. Adds it to `behind` if something still waits. */
void subscriber_note_behind(struct subscriber *subscriber);
void subscriber_flush(struct subscriber *subscriber);
/* Sends one whole message now, before pending ones. Returns false if there is no stream or it
 * broke. It also breaks if the message could not be built: the stream is cut rather than left with
 * a gap. */
bool subscriber_send(struct subscriber *subscriber, const struct buf *message);
/* The same for an update of `sub`, whose waiting time is counted; a subscriber with callbacks
 * receives it as it is. */
bool subscriber_write_update(struct subscriber *subscriber, const struct dialect_updated *u,
                             const struct subscription *sub, uint64_t waited_us);
/* Sends notifications/message to a legacy client, unless its log level excludes it. */
void subscriber_warn(struct subscriber *subscriber, const char *text);

/* ---- changes --------------------------------------------------------------------------------- */

/* A change that matches `sub`. */
void subscriber_enqueue_change(struct subscriber *subscriber, struct subscription *sub,
                               const struct change *change, enum tidings_change_kind kind);
/* A row of the log that matches `sub`, for a client that received everything up to `since`. */
void subscriber_enqueue_row(struct subscriber *subscriber, struct subscription *sub,
                            const struct changelog_row *row, uint64_t since);
/* The state of a resource when it was subscribed to, whatever its number. */
void subscriber_enqueue_initial(struct subscriber *subscriber, struct subscription *sub,
                                const struct change *change);
/* `sub` is about to end. If the session receives each change once
 * (subscription_group_notifies_once), another subscription takes over its pending updates. */
void subscriber_hand_over(struct subscription *sub);
/* The period of `sub` ended: held changes move to the outbox and are due from then on. */
void subscriber_release_deferred(struct subscription *sub, uint32_t due);

/* ---- the position in the log ----------------------------------------------------------------- */

/* Everything that concerns it was written up to this number … */
uint64_t subscriber_low_water(const struct subscriber *subscriber);
/* … except subscriptions marked as truncated, which a cursor lists itself (`lost`) … */
uint64_t subscriber_written(const struct subscriber *subscriber);
/* … and as a cursor for the client; and the cursor with a given number. */
struct log_cursor subscriber_cursor(const struct subscriber *subscriber);
struct log_cursor subscriber_cursor_at(const struct subscriber *subscriber, uint64_t seq);

#endif
