/* SPDX-License-Identifier: MIT
 *
 * The nodes of a cluster, as their rows in the database show them. The node has joined
 * (cluster/cluster.h).
 */
#ifndef CLUSTER_NODES_H
#define CLUSTER_NODES_H

#include <tidings/provider.h>

struct cluster;

/* What this one is called. */
struct tidings_str cluster_nodes_name(const struct cluster *c);
/* How many live, and how far this one is behind, as of its last look. Any thread. */
void cluster_nodes_get(const struct cluster *c, uint64_t *ret_count, uint64_t *ret_lag_us);
/* How many were there within a day, did not end in order, and do not live. Any thread. */
uint64_t cluster_nodes_silent(const struct cluster *c);
/* tidings://self/nodes, finished later. */
void cluster_nodes_read(struct cluster *c, struct tidings_read *read);

#endif
