/* SPDX-License-Identifier: MIT
 *
 * One open provider instance and the mount it serves. Created on the hub, shared by all threads
 * while the server runs; its fields do not change after open, except the timer, which only the hub
 * thread uses.
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

/* Which nodes of a cluster have the mount, and which node watches it
 * (docs/how-to/run-a-cluster.md).
 */
enum mount_nodes {
    MOUNT_LOCAL,  /* only this node has it, or each node has other content there */
    MOUNT_SHARED, /* all have the same there, and each watches it itself */
    MOUNT_OWNED,  /* all have the same there; one of them watches and announces for all */
};
#define MOUNT_NODES_NAMES "local, shared, owned"
const char *mount_nodes_name(enum mount_nodes nodes);

struct tidings_provider;

/* The opener: receives the provider's announcements, from any thread. */
struct provider_host {
    int (*changed)(const struct provider_host *host, const struct tidings_provider *provider,
                   const struct tidings_change *change, struct tidings_error *err);
    /* Changes below its prefix may have been missed; which ones is unknown. */
    void (*missed)(const struct provider_host *host, const struct tidings_provider *provider);
    struct loop *loop; /* for tidings_provider_every */
    struct pool *pool; /* for TIDINGS_PROVIDER_BLOCKING */
};

#define PROVIDER_ALIASES_MAX 3u

struct tidings_provider {
    const struct tidings_provider_ops *ops;
    struct tidings_provider_ops older; /* for `ops` with an older table */
    const struct provider_host *host;
    struct tidings_str prefix;
    struct uri_alias aliases[PROVIDER_ALIASES_MAX]; /* of the prefix; the first is `ops->alias` */
    unsigned alias_count;
    /* Returns true if `uri` is a short name for a resource with a longer URI, which the provider
     * knows and checks access for. NULL: there are no short names. */
    bool (*is_short)(struct tidings_str uri);
    /* The resources whose changes it announces, if there will never be others: the name of number
     * `i`, relative to the prefix, or empty after the last one. Pure. NULL: there may be any. */
    struct tidings_str (*row)(size_t i, bool *ret_not_subscribable);
    bool refuses_watches;     /* every watch, so no subscription to its resources can fire */
    bool is_durable;          /* the server's store keeps what it serves, and when it changed */
    bool has_history;         /* it finds changes after a restart */
    enum mount_nodes nodes;   /* atomic; set before the server runs */
    struct loop_timer *timer; /* tidings_provider_every; NULL until the first call */
    void (*every)(struct tidings_provider *provider);
    /* the prefix text and then `ops->size` bytes of state follow */
    void *state;
};

/* Atomic, because the provider's own thread may announce changes while the server starts. */
static inline enum mount_nodes provider_nodes(const struct tidings_provider *p)
{
    return __atomic_load_n(&p->nodes, __ATOMIC_RELAXED);
}

/* Returns a table of `bytes` bytes in the current format: missing members are NULL. `room` is used
 * when it is shorter. */
const struct tidings_provider_ops *provider_table(const struct tidings_provider_ops *ops,
                                                  size_t bytes, struct tidings_provider_ops *room);
/* Checks the table (required slots, abi) and opens the provider. The error begins with the
 * provider's name. */
int provider_create(const struct tidings_provider_ops *ops, const struct provider_host *host,
                    struct tidings_str prefix, struct tidings_str config,
                    struct tidings_provider **ret, struct tidings_error *err);
void provider_destroy(struct tidings_provider *p); /* closes the provider; NULL is fine */

/* -------------------------------------------------------------------------------------------------
 * Watch hooks of the application: callbacks for the first and the last subscription to a registered
 * resource or to URIs of a registered template. They are part of the catalog, and their key is the
 * URI or template, which may be registered before or after.
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

/* All of `from` except the hook for `without` (empty: all), and `add` (may be NULL). */
int watch_hooks_copy(struct watch_hooks *to, const struct watch_hooks *from, struct watch_hook *add,
                     struct tidings_str without);
void watch_hooks_deinit(struct watch_hooks *hooks);
struct watch_hook *watch_hooks_find(const struct watch_hooks *hooks,
                                    struct tidings_str text); /* NULL: none */

/* Returns true if the pattern may match the URI, or URIs of the template, of the hook. */
bool watch_hook_matches(const struct watch_hook *hook, enum pattern_kind kind,
                        struct tidings_str pattern);

#endif
