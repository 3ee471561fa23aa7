/* SPDX-License-Identifier: MIT
 *
 * Legacy sessions in the store that nodes share, so that they can continue at another node.
 */
#ifndef CLUSTER_SESSIONS_H
#define CLUSTER_SESSIONS_H

#include <tidings/types.h>

struct cluster;
struct session_store;
struct worker;

/* The log exists. */
int cluster_sessions_open(struct cluster *c, struct tidings_error *err);
/* Returns the store that workers keep them in; NULL: none. */
struct session_store *cluster_sessions_store(const struct cluster *c);
/* The workers exist. */
void cluster_sessions_bind(struct cluster *c, struct worker *const *workers, size_t count);

#endif
