/* SPDX-License-Identifier: MIT
 *
 * A subscriber: one client that is told of changes, with its stream and what it has yet to hear.
 *
 *     subscriber ── sink        the stream, NULL while a session has none
 *       ├──── outbox            what waits
 *       └──── groups ── subs    groups of subscriptions (engine/delivery/subscription.h)
 *
 * A subscriber without a stream queues nothing: it remembers its cursor (everything up to it was
 * written) and catches up from the log when a stream opens. All of it lives on one worker.
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

/* Numbers in (from, to] that went elsewhere: not replayed. */
struct subscriber_skips {
    unsigned count;
    struct {
        uint64_t from, to;
    } at[SUBSCRIBER_MAX_SKIPS];
};

/* Callbacks of whoever made a subscriber: a session, a listen over HTTP, a subscription inside the
 * program. Each may be NULL. */
struct subscriber_ops {
    /* An update of `sub`, for the program itself: called instead of writing it to the stream. */
    void (*on_update)(struct subscriber *subscriber, const struct dialect_updated *update,
                      const struct subscription *sub);
    /* The id of the next message (`id:` of a server-sent event) for streams that can be resumed:
     * written to `out`, returns its length. */
    size_t (*event_id)(struct subscriber *subscriber, const struct log_cursor *at,
                       char out[EVENT_ID_MAX]);
    /* A subscription will be told again what changed after `since` (SINCE_UNKNOWN: nobody knows
     * what it missed), so ids given out since then say too much. */
    void (*on_rewind)(struct subscriber *subscriber, uint64_t since);
    /* All list_changed notifications that were due have been written. */
    void (*on_lists_written)(struct subscriber *subscriber);
    void (*on_destroy)(struct subscriber *subscriber);
    /* End its streams and keep it: it may hear of nothing any more. NULL: `disconnect`. */
    void (*end_streams)(struct subscriber *subscriber);
    /* End it: the program asks for that. NULL: its subscriptions and its stream are ended. */
    void (*disconnect)(struct subscriber *subscriber);
    /* NULL: it is not a session. */
    struct tidings_str (*session_id)(const struct subscriber *subscriber);
    /* What its connection is when it has no stream; fills what it knows of *ret. */
    void (*facts)(const struct subscriber *subscriber, struct channel_facts *ret);
    /* Numbers that are not replayed to it; NULL: none. */
    const struct subscriber_skips *(*skips)(const struct subscriber *subscriber);
    /* Its stream ended; decides whether it goes too. */
    void (*on_stream_end)(struct subscriber *subscriber);
};

struct subscriber {
    union {
        struct {
            struct list link;       /* in worker->delivery->subscribers */
            struct list dirty_link; /* in worker->delivery->dirty, or behind */
        };
        struct loop_discard discard; /* once it is destroyed */
    };
    struct worker *worker;
    const struct principal *principal; /* a reference */
    struct client_account *account; /* likewise: what its patterns may cost; NULL: what they like */
    struct sink *sink;
    struct outbox outbox;
    struct list groups;
    uint64_t cursor;             /* without a stream: everything matched up to here was written */
    struct hub_catchup *catchup; /* the log is being asked; live changes are in its answer */
    uint32_t created_s;          /* when it was made; Unix time */
    uint32_t error;              /* its last one, in worker->delivery->errors; 0: none */
    /* The lowest numbers of what is not written yet, 0: none: … */
    uint64_t resync_from;   /* … behind the mark of a subscription that must look again */
    uint64_t lists_from;    /* … of lists that changed */
    uint64_t catching_from; /* … of what the log is being asked for */
    uint64_t lists_upto;    /* lists that changed up to here are known, when catching up */
    uint32_t group_count, subscription_count;
    uint32_t deferred_count; /* subscriptions that hold something back */
    uint32_t catching_count; /* subscriptions the log is being asked for */
    int8_t log_level;        /* messages below it are not sent (logging/setLevel) */
    bool has_truncated : 1;  /* some sub is marked */
    bool was_truncated : 1; /* some was, and told: on this stream, or before its client came back */
    bool has_list_pending : 1;
    bool has_initial : 1;             /* states are not looked up yet */
    bool waits_content : 1;           /* the first item needs content that is being read */
    bool is_behind : 1;               /* in worker->delivery->behind, by its dirty_link */
    bool is_modern : 1;               /* its client speaks the modern era */
    uint16_t client;                  /* what it calls itself, in worker->requests->clients */
    uint32_t number;                  /* among all that this worker had */
    const struct subscriber_ops *ops; /* what its owner does; NULL: nothing */
    void *owner;
};
/* One of the four blocks of an idle listen (unit/server/test_idle.c): malloc has no size between
 * this and 16 bytes more. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct subscriber) <= 216, "an idle stream grows");

struct subscriber *subscriber_create(struct worker *worker, const struct principal *principal);
/* It goes on with what this one may do; a reference of its own. */
void subscriber_set_principal(struct subscriber *subscriber, const struct principal *principal);
/* The one subscriber of a message connection with its stream, made when first needed; NULL when out
 * of memory. */
struct subscriber *subscriber_of_channel(struct channel *channel);
void subscriber_end_of_channel(struct channel *channel); /* it has one */
/* The same without its stream, which costs the connection memory in the kernel: for one that has
 * said something, so that it is known to be there. */
struct subscriber *subscriber_register(struct channel *channel);
/* The connection it is told through, or would be; NULL: none now, or it is the program. */
struct channel *subscriber_channel(const struct subscriber *subscriber);
/* What its client calls itself (`clientInfo`; NULL or without a name: nothing new). */
void subscriber_set_client(struct subscriber *subscriber, const struct json *info);
/* Its client was told this; kept for whoever looks after the server. */
void subscriber_note_error(struct subscriber *subscriber, int code, struct tidings_str text);
/* What is known of its connection; all zero: it has none. */
void subscriber_get_facts(const struct subscriber *subscriber, struct channel_facts *ret);
/* For how long the oldest of what is due has waited for its stream. */
uint64_t subscriber_lag_us(const struct subscriber *subscriber, uint64_t now_us);
/* Removes every subscription, releases the watches; the memory goes at the end of the turn. */
void subscriber_destroy(struct subscriber *subscriber);

/* Names it among the subscribers of all workers, also those that are gone; ascending per worker. */
uint64_t subscriber_id(const struct subscriber *subscriber);
/* Its session ends, or its groups with their results; and its stream. `withdraws`: what it has
 * subscribed in the legacy way on a message connection, which stays open, ends too and is told. */
void subscriber_end(struct subscriber *subscriber, bool withdraws);
/* Everything it has subscribed ends, and its stream; a message connection stays open. */
void subscriber_disconnect(struct subscriber *subscriber);

/* ---- the stream ------------------------------------------------------------------------------ */

/* Give it a stream (the sink's callbacks are set here), or take it away (NULL). */
void subscriber_set_sink(struct subscriber *subscriber, struct sink *sink);
/* Enough is on its way; the sink says when to go on. */
bool subscriber_is_blocked(struct subscriber *subscriber);
/* Something to flush: at the end of the turn. */
void subscriber_mark_dirty(struct subscriber *subscriber);
/* It was flushed, and is in no list: does something still wait? */
void subscriber_note_behind(struct subscriber *subscriber);
void subscriber_flush(struct subscriber *subscriber);
/* One whole message right now, before anything that waits. false: no stream, or it broke (also when
 * the message could not be built: the stream is cut rather than left with a gap). */
bool subscriber_send(struct subscriber *subscriber, const struct buf *message);
/* The same for an update of `sub` that has waited for so long, which is counted; a subscriber that
 * is called gets it as it is. */
bool subscriber_write_update(struct subscriber *subscriber, const struct dialect_updated *u,
                             const struct subscription *sub, uint64_t waited_us);
/* A notifications/message for a client of the legacy era, unless it wants none of that level. */
void subscriber_warn(struct subscriber *subscriber, const char *text);

/* ---- changes --------------------------------------------------------------------------------- */

/* A change that matches `sub`. */
void subscriber_enqueue_change(struct subscriber *subscriber, struct subscription *sub,
                               const struct change *change, enum tidings_change_kind kind);
/* A row of the log that matches `sub`, for somebody who knows everything up to `since`. */
void subscriber_enqueue_row(struct subscriber *subscriber, struct subscription *sub,
                            const struct changelog_row *row, uint64_t since);
/* The state of something when it was subscribed, whatever its number. */
void subscriber_enqueue_initial(struct subscriber *subscriber, struct subscription *sub,
                                const struct change *change);
/* `sub` is about to end. Where a change is told once for all subscriptions of a session
 * (subscription_group_notifies_once), another one takes care of what it has yet to tell. */
void subscriber_hand_over(struct subscription *sub);
/* The period of `sub` ended: what was held goes to the outbox, and is due from then on. */
void subscriber_release_deferred(struct subscription *sub, uint32_t due);

/* ---- where it stands ------------------------------------------------------------------------- */

/* Everything that concerns it was written up to this number … */
uint64_t subscriber_low_water(const struct subscriber *subscriber);
/* … leaving aside subscriptions that are marked to look again, of whom a cursor says itself
 * (`lost`) … */
uint64_t subscriber_written(const struct subscriber *subscriber);
/* … and that as a cursor for the client; and as it would be with that number. */
struct log_cursor subscriber_cursor(const struct subscriber *subscriber);
struct log_cursor subscriber_cursor_at(const struct subscriber *subscriber, uint64_t seq);

#endif
