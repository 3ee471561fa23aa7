/* SPDX-License-Identifier: MIT
 *
 * One client that is told of changes: its stream, its subscriptions, what it has yet to hear.
 *
 *     peer ── sink        the stream, NULL while a session has none
 *       ├──── outbox      what waits
 *       └──── listens ── subs   groups of subscriptions: one per subscriptions/listen, and one
 *                               without id for everything subscribed in the legacy way
 *
 * A peer without a stream queues nothing: it remembers its cursor (everything up to it was written)
 * and catches up from the log when a stream opens. All of it lives on one worker.
 */
#ifndef CORE_PEER_H
#define CORE_PEER_H

#include "core/access.h"
#include "core/core.h"
#include "core/outbox.h"
#include "core/sink.h"

#define PEER_MAX_SKIPS 8u

struct channel;
struct hub_catchup;
struct listen;
struct peer;

struct sub {
    struct match_node node;
    struct list link; /* in listen->subs */
    struct listen *listen;
    uint64_t since;                  /* changes up to this number are none of its business */
    unsigned queued;                 /* items in the outbox */
    bool is_literal;                 /* notifications use the client's spelling as `uri` */
    bool watched;                    /* holds a need of its scope at the hub */
    bool truncated;                  /* must be told that something, unknown what, changed */
    struct tidings_str uri;          /* canonical */
    struct tidings_str spelled;      /* as the client wrote it */
    struct tidings_str spelled_json; /* the same, quoted */
};

/* Embedded by whoever works on behalf of a listen: `listen` becomes NULL when it goes. */
struct listen_pending {
    struct list link;
    struct listen *listen;
};

struct listen {
    struct list link;      /* in peer->listens */
    struct list list_link; /* in core->list_watchers when it wants list_changed */
    struct peer *peer;
    struct list subs;
    size_t sub_count;
    struct map by_spelling; /* legacy only: subs by what the client wrote */
    bool wants_list, list_pending, live;
    struct list pending; /* struct listen_pending: subscribing under way, may find us gone */
    struct tidings_str *list_scopes; /* armed for list_changed */
    size_t list_scope_count;
    struct tidings_str id_json; /* subscriptionId; empty: legacy */
    char id_text[];
};

struct peer {
    struct list link;       /* in core->peers */
    struct list dirty_link; /* in core->dirty */
    struct core *core;
    const struct principal *who;
    struct sink *sink;
    struct outbox outbox;
    struct list listens;
    size_t listen_count, sub_count;
    uint64_t cursor;             /* without a stream: everything matched up to here was written */
    struct hub_catchup *catchup; /* the log is being asked; live changes are in its answer */
    struct {
        uint64_t from, to;
    } skip[PEER_MAX_SKIPS]; /* while catching up: numbers in (from, to] went elsewhere */
    unsigned skip_count;
    int log_level;      /* messages below it are not sent (logging/setLevel) */
    uint64_t owed_from; /* the lowest number behind a mark that is not written yet; 0: none */
    bool has_truncated; /* some sub is marked */
    bool has_list_pending;
    /* Sessions with resumable streams give each message an id. Returns its length in `out`. */
    size_t (*event_id)(struct peer *peer, uint64_t cursor, char out[64]);
    void (*closed)(struct peer *peer); /* the stream ended; the owner decides what that means */
    void *owner;
    struct loop_discard discard;
};

struct peer *peer_create(struct core *core, const struct principal *who);
/* The one peer of a pipe, made when first needed; NULL when out of memory. */
struct peer *channel_peer(struct channel *channel);
/* Removes every subscription, releases the watches; the memory goes at the end of the turn. */
void peer_destroy(struct peer *peer);

/* Give it a stream (the sink's callbacks are set here), or take it away (NULL). */
void peer_set_sink(struct peer *peer, struct sink *sink);
/* Something to flush: at the end of the turn. */
void peer_mark_dirty(struct peer *peer);
/* Marks to be told: something (unknown what, from number `seq` on) concerns `sub`; the list
 * changed. */
void peer_owe_truncated(struct peer *peer, struct sub *sub, uint64_t seq);
void peer_owe_list(struct peer *peer, struct listen *listen, uint64_t seq);
void peer_flush(struct peer *peer);
/* One whole message right now, before anything that waits. false: no stream, or it broke (also when
 * the message could not be built: the stream is cut rather than left with a gap). */
bool peer_send(struct peer *peer, const struct buf *message);

/* A change that matches `sub`. */
void peer_offer(struct peer *peer, struct sub *sub, const struct change *change,
                enum tidings_change_kind kind);
/* From the log: what changed after `since` and concerns this peer; then live again. */
void peer_catch_up(struct peer *peer, uint64_t since);
/* Tell it that anything may have changed: one update per subscription, marked as truncated. */
void peer_resync(struct peer *peer);
/* What is known to be written: the low-water mark. */
uint64_t peer_cursor(const struct peer *peer);

struct listen *listen_create(struct peer *peer, struct tidings_str id_json);
/* Also unlinks it from its peer; its subscriptions are removed and their watches released. */
void listen_destroy(struct listen *listen);
struct listen *listen_find(struct peer *peer, struct tidings_str id_json);
void listen_want_list(struct listen *listen);

/* `spelled` as the client wrote it. NULL when out of memory. The watch for `uri` is armed already.
 */
struct sub *sub_create(struct listen *listen, struct tidings_str spelled, struct tidings_str uri,
                       enum match_kind kind, uint64_t since);
void sub_destroy(struct sub *sub); /* releases its watch */

#endif
