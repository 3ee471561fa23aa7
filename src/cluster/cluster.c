/* SPDX-License-Identifier: MIT
 *
 * The life of a cluster: opens its parts in the order that they need, and closes them.
 */
#include "cluster/cluster.h"

#include "base/error.h"
#include "base/mem.h"
#include "cluster/cluster_internal.h"
#include "engine/catalog/catalog.h"

int cluster_open(struct cluster **at, const struct cluster_options *options,
                 struct tidings_error *err)
{
    struct cluster *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    c->with = *options;
    c->hub = options->hub;
    c->commit_thread = options->commit_thread;
    c->earlier = *at;
    *at = c;
    cluster_announce_open(c);
    return cluster_follow_open(c, err);
}

int cluster_join(struct cluster *c, struct tidings_error *err)
{
    return c->with.has_nodes ? cluster_nodes_open(c, err) : 0;
}

bool cluster_is_joined(const struct cluster *c)
{
    return c && c->nodes;
}

void cluster_log_is_there(struct cluster *c)
{
    c->follow_announces = true;
}

void cluster_serve(struct cluster *c, struct catalog *mounted)
{
    __atomic_store_n(&c->mounted, catalog_ref(mounted), __ATOMIC_RELEASE);
}

void cluster_leave(struct cluster *c)
{
    if (c && !c->is_closed) {
        cluster_owned_close(c);
        cluster_nodes_close(c);
        hub_on_shared(c->hub, NULL, NULL);
        hub_on_ask_newest(c->hub, NULL, NULL);
    }
}

void cluster_close(struct cluster *c)
{
    if (c && !c->is_closed) {
        cluster_announce_close(c);
        cluster_sessions_close(c);
        c->commit_thread = NULL;
        c->is_closed = true;
    }
}

void cluster_destroy(struct cluster *c)
{
    while (c) {
        struct cluster *earlier = c->earlier;
        cluster_owned_destroy(c);
        catalog_unref(c->mounted);
        mem_free(c);
        c = earlier;
    }
}
