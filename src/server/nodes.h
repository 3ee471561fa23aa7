/* SPDX-License-Identifier: MIT
 *
 * The nodes that share a store (store/store.h): this server is one of them, under a name that no
 * other has while it lives.
 */
#ifndef SERVER_NODES_H
#define SERVER_NODES_H

#include <tidings/provider.h>
#include <tidings/server.h>

struct server_nodes;

/* Be one of them, from now on until it is closed. The store is open. TIDINGS_E_EXISTS. */
int server_nodes_open(struct tidings_server *s, struct tidings_error *err);
/* Be none any more; the store is still open. */
void server_nodes_close(struct tidings_server *s);
/* What this one is called. */
struct tidings_str server_nodes_name(const struct server_nodes *n);
/* How many live, and how far this one is behind, as of its last look. Any thread. */
void server_nodes_get(const struct server_nodes *n, uint64_t *ret_count, uint64_t *ret_lag_us);
/* How many were there within a day, did not end in order, and do not live. Any thread. */
uint64_t server_nodes_silent(const struct server_nodes *n);
/* tidings://self/nodes, finished later. */
void server_nodes_read(struct server_nodes *n, struct tidings_read *read);

#endif
