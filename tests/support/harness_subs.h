/* SPDX-License-Identifier: MIT
 *
 * For tests of subscriptions with options: subscribing in both eras, inspecting the updates of
 * each, and a provider that can be mounted anywhere, reads queries, has its own relation, and
 * records the scopes that it was asked to watch.
 */
#ifndef SUPPORT_HARNESS_SUBS_H
#define SUPPORT_HARNESS_SUBS_H

#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"

/* ---- saying ---------------------------------------------------------------------------------- */

/* subscriptions/listen for a JSON array of URIs with `dev.tidings/options` (NULL: none). */
void client_listen_with(struct client *c, const char *id, const char *uris, const char *options);
/* The same over HTTP on its own connection, run until idle and acknowledged. */
struct client *listen_with(struct harness *b, const char *uris, const char *options);
/* resources/subscribe in a session or, with `s` NULL, on the pipe `c`; gives the answer's text. */
const char *session_subscribe_with(struct harness_session *s, const char *uri, const char *options);
const char *pipe_subscribe_with(struct client *pipe, const char *id, const char *uri,
                                const char *options);
/* Announces a change with every optional member. */
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

#define STUB_RESOURCES 256u
#define STUB_SCOPES 64u

enum stub_flag {
    STUB_QUERY = 1,     /* ?pattern=GLOB is a glob below the path */
    STUB_COVERS = 2,    /* "group:NAME" covers "member:NAME:*", and see covers_below */
    STUB_UNWATCHED = 4, /* announces without being asked */
    STUB_FIXED = 8,     /* its list does not change */
    STUB_BARE = 16,     /* its changes carry no metadata */
    STUB_WRITES = 32,   /* clients may write; nothing comes of it */
    STUB_SINGLE = 64,   /* one resource: the prefix without its '/' */
};

struct stub {
    struct tidings_provider *provider;
    char uris[STUB_RESOURCES][96];
    bool listable[STUB_RESOURCES];
    bool is_mute[STUB_RESOURCES]; /* cannot be subscribed to */
    size_t count;
    bool covers_below; /* covers() says yes to everything below what was subscribed */
    bool holds_lists;
    struct tidings_list *waiting; /* the list that is held */
    bool holds_stats;
    struct tidings_stat *held_stat; /* the one that is held */
    int stats_fail;                 /* with this; 0: they do not */
    int lists_fail;                 /* with this, after the first row; 0: they do not */
    int watches_fail;               /* with this; 0: they do not */
    unsigned lists;
    struct {
        char uri[96];
        unsigned on, off;
    } scopes[STUB_SCOPES];
    size_t scope_count;
};

void stub_mount(struct stub *p, struct harness *b, const char *prefix, unsigned flags);
void stub_add(struct stub *p, const char *uri, bool listable); /* in ascending order */
void stub_finish_list(struct stub *p);
void stub_finish_stat(struct stub *p); /* as stats_fail specifies, or not found */
/* How often a scope is watched now; and anything at all. */
unsigned stub_watched(const struct stub *p, const char *uri);
unsigned stub_watched_all(const struct stub *p);

#endif
