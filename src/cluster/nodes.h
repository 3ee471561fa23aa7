/* SPDX-License-Identifier: MIT
 *
 * The nodes of a cluster, as their rows in the database show them. The node has joined
 * (cluster/cluster.h).
 */
#ifndef CLUSTER_NODES_H
#define CLUSTER_NODES_H

#include <tidings/provider.h>

struct cluster;

/* Returns the name of this node. */
struct tidings_str cluster_nodes_name(const struct cluster *c);
/* Gets the number of live nodes and the lag of this node, as of its last read. Any thread. */
void cluster_nodes_get(const struct cluster *c, uint64_t *ret_count, uint64_t *ret_lag_us);
/* Returns how many nodes of the last day are dead without having ended cleanly. Any thread. */
uint64_t cluster_nodes_silent(const struct cluster *c);
/* Reads tidings://self/nodes; finishes later. */
void cluster_nodes_read(struct cluster *c, struct tidings_read *read);

#endif
