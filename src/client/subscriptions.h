/* SPDX-License-Identifier: MIT
 *
 * The subscriptions of a program: they survive losses of the connection, are requested in the
 * messages of the era, and receive the updates that concern them.
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

/* Connected: subscribes to everything. */
void subscriptions_ready(struct tidings_client *c);
void subscriptions_lost(struct tidings_client *c);
/* The credentials were renewed: moves the updates to a stream that shows the new ones. */
void subscriptions_renewed(struct tidings_client *c);
/* From struct transport_events; legacy: the stream is open. */
void subscriptions_streaming(struct tidings_client *c, bool is_seamless);
/* Modern: the server acknowledged a listen, or cancelled it. */
void subscriptions_acknowledged(struct tidings_client *c, struct json *params, int64_t exchange);
void subscriptions_cancelled(struct tidings_client *c, int64_t id);

/* ---- at delivery ----------------------------------------------------------------------------- */

/* Routes an update to the subscriptions it concerns. */
void subscriptions_updated(struct tidings_client *c, struct json *message, int64_t received_ms,
                           bool is_synthetic);
/* Nothing changed, but the stream has reached this cursor. */
void subscriptions_bookmark(struct tidings_client *c, struct json *params);
/* Notifies the subscriptions of a watch. */
void subscriptions_notify_state(struct tidings_client *c, struct watch *w,
                                const struct tidings_state_event *e);
void subscriptions_sweep(struct tidings_client *c); /* frees what ended in callbacks */

/* -------------------------------------------------------------------------------------------------
 * A watch: one URI that a client has subscribed to at its server, on behalf of one subscription of
 * the program or several.
 */

struct snapshot;

/* Why a watch is compared with its previous state (client/comparison.h). */
enum comparison_reason {
    COMPARISON_NONE,
    COMPARISON_FIRST,  /* to learn the state, without reports */
    COMPARISON_VERIFY, /* to find unreported changes */
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
    bool was_accepted;         /* … or in an earlier one: it resumes from there */
    bool is_interrupted;       /* changes since may have been missed */
    bool is_ending;            /* it has no subscription left */
    bool is_named;             /* legacy: the session may have it … */
    bool is_leaving;           /* … and must drop it, before any other request about it */
    bool is_doubtful;          /* … and may have had it before the last request */
    char *since;               /* legacy: the cursor to resume from; NULL: none */
    uint64_t accepted_at;      /* legacy: in the present session; 0: not */
    bool is_patient;           /* a refusal is not fatal: it is requested once more */
    bool is_later;             /* refused for the moment: it is requested later, and not judged */
    struct snapshot *snapshot; /* its previous state; NULL: unknown */
    enum comparison_reason comparison_reason; /* … or wanted */
    unsigned broken_comparisons; /* number of connections in a row lost during its comparison */
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
/* Returns true if the watch may be the reason for an update of `uri`. If that is unknown, returns
 * true. */
bool watch_matches(const struct watch *w, struct tidings_str uri);

/* -------------------------------------------------------------------------------------------------
 * Resuming a stream of updates after a loss: its cursor, and the last received version of each
 * resource.
 *
 * A cursor promises that the server has written every change up to there; given as `since`, it
 * makes the server send the later ones. Versions show repeated changes, because the versions of a
 * resource only rise. Tidings versions are `epoch.number` and comparable within the epoch; versions
 * of other servers are compared in natural order (base/text.h) until the connection is lost,
 * because the next connection may reach another server.
 */

#define RESUME_MAX_SEEN 100000u /* resources; the least recently updated is forgotten */
#define RESUME_MAX_CURSOR 512u

struct resume {
    char cursor[RESUME_MAX_CURSOR]; /* empty: none */
    uint64_t lives;                 /* connections so far */
    struct map seen;                /* "watch URI" -> struct seen */
    struct list order;              /* of them, least recently updated first */
};

void resume_init(struct resume *r);
void resume_deinit(struct resume *r);

bool resume_is_cursor(struct tidings_str text); /* not empty, nor too long to be one */
/* Takes the cursor of the newest message of the stream; without a cursor, changes nothing. */
void resume_take(struct resume *r, struct tidings_str cursor);
/* The connection was lost. */
void resume_interrupted(struct resume *r);

/* Returns true if this version of `uri`, received for the watch of that number, is newer than the
 * last one, and records it. `has_epoch`: it is `epoch.number`. A version that is missing, is of
 * another epoch, or has no order counts as new: changes that cannot be compared are reported. */
bool resume_is_new(struct resume *r, uint64_t watch, struct tidings_str uri,
                   struct tidings_str version, bool has_epoch);

/* Returns true if the options name a baseline, which is also a place to resume from, chosen by the
 * program. */
bool resume_has_baseline(const char *options);

/* Appends `options` (a JSON object, or NULL) with the cursor `since` ("": none) for a server that
 * will resume there. A baseline replaces the cursor, because the program chose where to resume.
 * `bookmarks`: requests them too. Appends nothing if there are no options. */
void resume_put_options(const char *options, const char *since, bool bookmarks, struct buf *out);

/* -------------------------------------------------------------------------------------------------
 * Shared by the subscription files: whether a watch was accepted, and the requests of each era.
 */

/* A watch was accepted (`why` NULL, or with code 0: its text is a warning), or refused. */
void subscriptions_decide(struct tidings_client *c, struct watch *w,
                          const struct tidings_error *why);
/* If `data` of a refusal contains a time to retry (retryAfterMs), the client retries then and does
 * not judge the watch; false: it contains none. */
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
/* Sends the requests that the watch needs, if none is under way. */
void legacy_ask(struct tidings_client *c, struct watch *w);
void legacy_ended(struct tidings_client *c, struct watch *w); /* it has no subscription left */
/* The stream continues, after a gap. */
void legacy_interrupted(struct tidings_client *c, struct watch *w);
void legacy_lost(struct tidings_client *c, struct watch *w); /* the session */
/* An update of exactly this watch gives the position of the stream. */
void legacy_on_update(struct tidings_client *c, struct watch *w, struct tidings_str cursor);

#endif
