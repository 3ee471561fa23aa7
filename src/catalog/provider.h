/* SPDX-License-Identifier: MIT
 *
 * One open provider instance and the mount it serves. Created on the hub, shared by all threads
 * while the server runs; its fields are frozen after open, but for the timer, which is the hub
 * thread's.
 */
#ifndef CATALOG_PROVIDER_H
#define CATALOG_PROVIDER_H

#include <tidings/provider.h>

#include "uri/alias.h"

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

#endif
