/* SPDX-License-Identifier: MIT
 *
 * The subscriptions of a program: kept through losses of the connection, asked for in the words of
 * the era, and updates routed to those whom they concern.
 */
#ifndef CLIENT_SUBSCRIPTIONS_H
#define CLIENT_SUBSCRIPTIONS_H

#include <tidings/client.h>

#include "base/list.h"
#include "base/map.h"
#include "base/str.h"
#include "base/subscription_handle.h"
#include "formats/json.h"

struct watch;

void subscriptions_init(struct tidings_client *c);
void subscriptions_later_init(struct tidings_client *c); /* likewise */
void subscriptions_deinit(struct tidings_client *c);
bool subscriptions_wants(const struct tidings_client *c); /* a reason to stay connected? */

/* Connected: ask for everything. */
void subscriptions_ready(struct tidings_client *c);
void subscriptions_lost(struct tidings_client *c);
/* What requests show was renewed: what is heard is heard from now on by a stream that shows it. */
void subscriptions_renewed(struct tidings_client *c);
/* Of struct transport_events; legacy: the stream is there. */
void subscriptions_streaming(struct tidings_client *c, bool is_seamless);
/* Modern: the server acknowledged a listen, or cancelled it. */
void subscriptions_acknowledged(struct tidings_client *c, struct json *params, int64_t exchange);
void subscriptions_cancelled(struct tidings_client *c, int64_t id);

/* ---- at delivery ----------------------------------------------------------------------------- */

/* An update is routed to those it concerns. */
void subscriptions_updated(struct tidings_client *c, struct json *message, int64_t received_ms,
                           bool is_synthetic);
/* Nothing changed, but this is how far the stream came. */
void subscriptions_bookmark(struct tidings_client *c, struct json *params);
/* The subscriptions of a watch hear of it. */
void subscriptions_notify_state(struct tidings_client *c, struct watch *w,
                                const struct tidings_state_event *e);
void subscriptions_sweep(struct tidings_client *c); /* what ended in callbacks */

/* -------------------------------------------------------------------------------------------------
 * A watch: one URI that a client has subscribed to at its server, on behalf of one subscription of
 * the program or several.
 */

struct snapshot;

/* Why a watch is compared with how it was (client/comparison.h). */
enum comparison_reason {
    COMPARISON_NONE,
    COMPARISON_FIRST,  /* to know it, telling nothing */
    COMPARISON_VERIFY, /* to find what was not told */
    COMPARISON_RESUME, /* the same, after an interruption */
};

struct watch {
    struct list link;
    char *uri;
    char *options; /* JSON object, or NULL */
    struct list subscriptions;
    uint64_t number; /* never used again */
    int64_t asked; /* legacy: number of the subscribe or unsubscribe under way; modern: of the last
                    * listen that names it */
    bool is_accepted;
    bool is_decided;           /* accepted or refused in the present connection */
    bool was_accepted;         /* … or in one before: it goes on from there */
    bool is_interrupted;       /* changes since may have been missed */
    bool is_ending;            /* nobody is left */
    bool is_named;             /* legacy: the session may know of it … */
    bool is_leaving;           /* … and shall forget it, before anything else is asked about it */
    bool is_doubtful;          /* … and knew of it before it was asked last, perhaps */
    char *since;               /* legacy: where to go on from, NULL: not known */
    uint64_t accepted_at;      /* legacy: in the present session; 0: not */
    bool is_patient;           /* refused, it is no reason to give up: it is asked for again */
    bool is_later;             /* refused for the moment: it is asked for again, and not judged */
    struct snapshot *snapshot; /* how it was; NULL: not known */
    enum comparison_reason comparison_reason; /* … or wanted */
    unsigned broken_comparisons;              /* the connection was lost during so many in a row */
};

struct client_subscription {
    struct tidings_subscription base;
    struct list link;
    struct tidings_client *client;
    struct watch *watch;
    tidings_update_fn fn;
    tidings_state_fn on_state;
    void *user;
    bool is_ended; /* in a callback; freed after it */
};

static inline struct watch *watch_of(const struct tidings_subscription *subscription)
{
    return ((const struct client_subscription *)subscription)->watch;
}

/* NULL: it is not watched. */
struct watch *watch_find(struct tidings_client *c, struct tidings_str uri);
/* Could an update of `uri` be due to this watch? What cannot be known counts as yes. */
bool watch_matches(const struct watch *w, struct tidings_str uri);

/* -------------------------------------------------------------------------------------------------
 * Resuming a stream of updates after a loss: its cursor, and which version of what was told last.
 *
 * A cursor is the server's word that everything up to there has been written to us; given back as
 * `since`, the server tells what came after. What it tells twice is found by its version: those of
 * one resource only rise. Ours are `epoch.number` and count within the epoch; those of others are
 * compared as people write them (base/text.h) until the connection is lost: the server may be
 * another one afterwards.
 */

#define RESUME_MAX_SEEN 100000u /* resources; the one told of longest ago is forgotten */
#define RESUME_MAX_CURSOR 512u

struct resume {
    char cursor[RESUME_MAX_CURSOR]; /* empty: none */
    uint64_t lives;                 /* connections so far */
    struct map seen;                /* "watch URI" -> struct seen */
    struct list order;              /* of them, told of longest ago first */
};

void resume_init(struct resume *r);
void resume_deinit(struct resume *r);

bool resume_is_cursor(struct tidings_str text); /* not empty, nor too long to be one */
/* What the newest message of the stream says; no cursor: nothing changes. */
void resume_take(struct resume *r, struct tidings_str cursor);
/* The connection was lost. */
void resume_interrupted(struct resume *r);

/* Is this version of `uri`, told to the watch of that number, newer than the last one? It is the
 * last one then. `has_epoch`: it is `epoch.number`. A version that is not said, is of another
 * epoch, or has no order is new: what cannot be compared is told. */
bool resume_is_new(struct resume *r, uint64_t watch, struct tidings_str uri,
                   struct tidings_str version, bool has_epoch);

/* Do they name a baseline? That is where to go on from, too, and the program's own. */
bool resume_has_baseline(const char *options);

/* `options` (a JSON object, or NULL) as they are to be sent to a server that shall go on from the
 * cursor `since`, "": none. Not with a baseline, which is the program's own way to go on.
 * `bookmarks`: ask for them too. Appends; nothing when nothing is to be said. */
void resume_put_options(const char *options, const char *since, bool bookmarks, struct buf *out);

/* -------------------------------------------------------------------------------------------------
 * Between the files of subscriptions: whether a watch was accepted, and how a server is asked in
 * each era.
 */

/* A watch was accepted (`why` NULL, or with code 0: its text is a warning), or refused. */
void subscriptions_decide(struct tidings_client *c, struct watch *w,
                          const struct tidings_error *why);
/* `data` of a refusal says when to ask again (retryAfterMs): so that is done, and the watch is
 * not judged. false: it says nothing of the kind. */
bool subscriptions_put_off(struct tidings_client *c, struct watch *w, struct json *data);
/* All were judged. */
void subscriptions_decided(struct tidings_client *c);

/* ---- modern: one listen for everything ------------------------------------------------------- */

void modern_init(struct tidings_client *c);
/* The set changed while connected. */
void modern_changed(struct tidings_client *c);
void modern_lost(struct tidings_client *c);

/* ---- legacy: resources/subscribe for each URI ------------------------------------------------ */

void legacy_subscribe_all(struct tidings_client *c);
/* What is to be asked about it is asked, if nothing is under way. */
void legacy_ask(struct tidings_client *c, struct watch *w);
void legacy_ended(struct tidings_client *c, struct watch *w); /* nobody is left */
/* The stream goes on, with a gap before it. */
void legacy_interrupted(struct tidings_client *c, struct watch *w);
void legacy_lost(struct tidings_client *c, struct watch *w); /* the session */
/* An update of this very watch says how far the stream is. */
void legacy_on_update(struct tidings_client *c, struct watch *w, struct tidings_str cursor);

#endif
