/* SPDX-License-Identifier: MIT
 *
 * Legacy sessions in the store that nodes share, so that they may go on at another node.
 */
#ifndef CLUSTER_SESSIONS_H
#define CLUSTER_SESSIONS_H

#include <tidings/types.h>

struct cluster;
struct session_store;
struct worker;

/* The log has begun. */
int cluster_sessions_open(struct cluster *c, struct tidings_error *err);
/* Where workers keep them; NULL: nowhere. */
struct session_store *cluster_sessions_store(const struct cluster *c);
/* There are workers now. */
void cluster_sessions_bind(struct cluster *c, struct worker *const *workers, size_t count);

#endif
