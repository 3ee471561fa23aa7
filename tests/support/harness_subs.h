/* SPDX-License-Identifier: MIT
 *
 * For tests of subscriptions with options: saying them in both eras, looking at what each hears,
 * and a provider that can be mounted anywhere, reads queries, has a relation of its own, and
 * remembers which scopes it was asked to watch.
 */
#ifndef SUPPORT_BENCH_SUBS_H
#define SUPPORT_BENCH_SUBS_H

#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"

/* ---- saying ---------------------------------------------------------------------------------- */

/* subscriptions/listen for a JSON array of URIs with `dev.tidings/options` (NULL: none). */
void client_listen_with(struct client *c, const char *id, const char *uris, const char *options);
/* The same over HTTP on a connection of its own, settled and acknowledged. */
struct client *listen_with(struct harness *b, const char *uris, const char *options);
/* resources/subscribe in a session or, with `s` NULL, on the pipe `c`; gives the answer's text. */
const char *session_subscribe_with(struct harness_session *s, const char *uri, const char *options);
const char *pipe_subscribe_with(struct client *pipe, const char *id, const char *uri,
                                const char *options);
/* Announce with everything that can be said about a change. */
void harness_announce(struct harness *b, const struct tidings_change *change);

/* ---- looking --------------------------------------------------------------------------------- */

/* Updates for one subscription (NULL: any). */
size_t update_count(const struct client *c, const char *subscribed);
/* The n-th of them; fails the test when there is none. */
const char *update_nth(const struct client *c, const char *subscribed, size_t n);
/* Why the listen refused a URI; NULL when it did not. */
const char *refused_reason(const struct client *c, const char *uri);
bool is_honoured(const struct client *c, const char *uri);
/* The number in an "epoch.number" text. */
uint64_t number_of(const char *version);
uint64_t version_of(const char *update);

/* Every window that holds something ends now, one after the other in the order they are due. */
void harness_end_windows(struct harness *b);
/* Wait for the timers to end them. */
void harness_await_windows(struct harness *b);

/* ---- a provider ------------------------------------------------------------------------------ */

#define PLACE_RESOURCES 256u
#define PLACE_SCOPES 64u

enum place_flag {
    PLACE_QUERY = 1,     /* ?pattern=GLOB is a glob below the path */
    PLACE_COVERS = 2,    /* "group:NAME" covers "member:NAME:*", and see covers_below */
    PLACE_UNWATCHED = 4, /* announces without being asked */
    PLACE_FIXED = 8,     /* what it lists does not change */
    PLACE_BARE = 16,     /* its changes carry no metadata */
    PLACE_WRITES = 32,   /* clients may write; nothing comes of it */
};

struct place {
    struct tidings_provider *provider;
    char uris[PLACE_RESOURCES][96];
    bool listable[PLACE_RESOURCES];
    size_t count;
    bool covers_below; /* covers() says yes to everything below what was subscribed */
    bool holds_lists;
    struct tidings_list *waiting; /* the list that is held */
    bool holds_stats;
    struct tidings_stat *held_stat; /* the one that is held */
    int stats_fail;                 /* with this; 0: they do not */
    int lists_fail;                 /* with this, after the first row; 0: they do not */
    unsigned lists;
    struct {
        char uri[96];
        unsigned on, off;
    } scopes[PLACE_SCOPES];
    size_t scope_count;
};

void place_mount(struct place *p, struct harness *b, const char *prefix, unsigned flags);
void place_add(struct place *p, const char *uri, bool listable); /* in ascending order */
void place_finish_list(struct place *p);
void place_finish_stat(struct place *p); /* as stats_fail says, or that it is not there */
/* How often a scope is watched now; and anything at all. */
unsigned place_watched(const struct place *p, const char *uri);
unsigned place_watched_all(const struct place *p);

#endif
