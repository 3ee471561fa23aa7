/* SPDX-License-Identifier: MIT
 *
 * One open provider instance and the mount it serves. Created on the hub, shared by all threads
 * while the server runs; its fields are frozen after open, but for the timer, which is the hub
 * thread's.
 */
#ifndef ENGINE_CATALOG_PROVIDER_H
#define ENGINE_CATALOG_PROVIDER_H

#include <tidings/provider.h>
#include <tidings/server.h>

#include "engine/match/match.h"
#include "formats/uri.h"

struct loop;
struct loop_timer;
struct pool;

/* Of nodes that share a store (docs/cluster.md): who has what is mounted, and who watches it. */
enum mount_nodes {
    MOUNT_LOCAL,  /* this node alone, or each has something else there */
    MOUNT_SHARED, /* all have the same there, and each watches it itself */
    MOUNT_OWNED,  /* all have the same there; one of them watches and announces for all */
};
#define MOUNT_NODES_NAMES "local, shared, owned"
const char *mount_nodes_name(enum mount_nodes nodes);

struct tidings_provider;

/* Who opened it: gets what providers announce, from any thread. */
struct provider_host {
    int (*changed)(const struct provider_host *host, const struct tidings_provider *provider,
                   const struct tidings_change *change, struct tidings_error *err);
    /* Something below its prefix may have changed, and nobody knows what. */
    void (*missed)(const struct provider_host *host, const struct tidings_provider *provider);
    struct loop *loop; /* for tidings_provider_every */
    struct pool *pool; /* for TIDINGS_PROVIDER_BLOCKING */
};

#define PROVIDER_ALIASES_MAX 3u

struct tidings_provider {
    const struct tidings_provider_ops *ops;
    struct tidings_provider_ops older; /* what `ops` is for a table of an earlier version */
    const struct provider_host *host;
    struct tidings_str prefix;
    struct uri_alias aliases[PROVIDER_ALIASES_MAX]; /* of the prefix; the first is `ops->alias` */
    unsigned alias_count;
    /* Does `uri` name something whose own URI says more, which the provider knows and asks access
     * for? NULL: none does. */
    bool (*is_short)(struct tidings_str uri);
    /* The resources whose changes it announces, if there will never be others: the name of number
     * `i`, relative to the prefix, or empty after the last one. Pure. NULL: there may be any. */
    struct tidings_str (*row)(size_t i, bool *ret_not_subscribable);
    bool refuses_watches;   /* all of them, so no subscription to its resources can fire */
    bool is_durable;        /* the server's store keeps what it serves, and when it changed */
    bool has_history;       /* it keeps what is known of its files, so that what changed is found */
    enum mount_nodes nodes; /* atomic; set before the server runs */
    struct loop_timer *timer; /* tidings_provider_every; NULL until it is first asked for */
    void (*every)(struct tidings_provider *provider);
    /* the prefix text and then `ops->size` bytes of state follow */
    void *state;
};

/* A thread of its own may announce something while the server is started. */
static inline enum mount_nodes provider_nodes(const struct tidings_provider *p)
{
    return __atomic_load_n(&p->nodes, __ATOMIC_RELAXED);
}

/* A table of `bytes` bytes as one of today: what it lacks is NULL. `room` is used when it is
 * shorter.
 */
const struct tidings_provider_ops *provider_table(const struct tidings_provider_ops *ops,
                                                  size_t bytes, struct tidings_provider_ops *room);
/* Check the table (required slots, abi) and open. The error is wrapped with the provider's name. */
int provider_create(const struct tidings_provider_ops *ops, const struct provider_host *host,
                    struct tidings_str prefix, struct tidings_str config,
                    struct tidings_provider **ret, struct tidings_error *err);
void provider_destroy(struct tidings_provider *p); /* closes; NULL is fine */

/* -------------------------------------------------------------------------------------------------
 * Watch hooks of the application: who is told that somebody begins to need changes of a registered
 * resource or of URIs of a registered template, and that nobody does any more. They are part of the
 * catalog, known by the URI or template text they are for, which may be registered before or after.
 *
 * A scope (what the hub arms, see engine/delivery/hub_watch.c) that concerns a hook is
 *   - the URI of a resource or of a template, when it is subscribed to by name;
 *   - the URI of each resource a pattern matches (a regex: that there is);
 *   - the template's text, when a pattern may match URIs of it.
 */

/* Immutable and counted. */
struct watch_hook {
    struct tidings_str text;
    size_t fixed; /* length of the text before its first '{' */
    tidings_watch_fn watch;
    tidings_unwatch_fn unwatch;
    void *user;
    unsigned refs;
    char memory[];
};

struct watch_hook *watch_hook_create(struct tidings_str text, tidings_watch_fn watch,
                                     tidings_unwatch_fn unwatch, void *user);
struct watch_hook *watch_hook_ref(struct watch_hook *hook);
void watch_hook_unref(struct watch_hook *hook); /* NULL is fine */

/* Ascending by text. */
struct watch_hooks {
    struct watch_hook **at;
    size_t count;
};

#define WATCH_HOOKS_MAX 100000u

/* All of `from` but that for `without` (empty: all), and `add` (may be NULL). */
int watch_hooks_copy(struct watch_hooks *to, const struct watch_hooks *from, struct watch_hook *add,
                     struct tidings_str without);
void watch_hooks_deinit(struct watch_hooks *hooks);
struct watch_hook *watch_hooks_find(const struct watch_hooks *hooks,
                                    struct tidings_str text); /* NULL: none */

/* May the pattern match the URI, or URIs of the template, that the hook is for? */
bool watch_hook_matches(const struct watch_hook *hook, enum pattern_kind kind,
                        struct tidings_str pattern);

#endif
