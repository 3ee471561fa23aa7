/* SPDX-License-Identifier: MIT
 *
 * A store that several nodes share (store/store.h), in memory: for tests of what is above it. One
 * database, and an object for each node, which behaves as one of PostgreSQL does: `begin` holds the
 * lock until the commit, positions rise by one, what others committed is followed.
 *
 * It has no leases, nodes and sessions (cluster/postgres_nodes.h), so a server on it does not join
 * a cluster, and its clock does not move. Tests ask for faults. Objects may be used on different
 * threads; the functions here on any.
 */
#ifndef SUPPORT_SHARED_MEMORY_H
#define SUPPORT_SHARED_MEMORY_H

#include "store/store.h"

struct shared_memory;

struct shared_memory *shared_memory_create(void);
/* After all nodes were destroyed. */
void shared_memory_destroy(struct shared_memory *db);
/* A node: what commit_thread_open takes. */
struct store *shared_memory_connect(struct shared_memory *db);

/* The newest position. */
uint64_t shared_memory_last(struct shared_memory *db);
/* Makes the database unreachable for `node` (NULL: for all nodes), or reachable again, which a
 * node's descriptor reports. */
void shared_memory_set_unreachable(struct shared_memory *db, struct store *node,
                                   bool is_unreachable);
/* No node is woken: they have to poll. */
void shared_memory_set_quiet(struct shared_memory *db, bool is_quiet);
/* Gives `node` another wakeup descriptor. The previous one is closed, but the returned copy keeps
 * it open, like a process that is starting. On the thread that uses the node. */
int shared_memory_reconnect(struct store *node);
/* Wake it; has it taken notice? */
void shared_memory_wake(struct store *node);
bool shared_memory_is_awake(struct store *node);
/* The next commit of `node` is not answered; it has happened, or not. */
void shared_memory_lose_answer(struct shared_memory *db, struct store *node, bool committed);
/* The next batch of `node` starts without the lock and has to rerun at its commit, because another
 * node wrote, or seems to have written since (`is_in_doubt`) the answer is missing. */
void shared_memory_overtake(struct store *node, bool is_in_doubt);
/* Discards all commits after `position`: a new cluster epoch starts. Entities and published
 * resources all stay; the log loses them. */
void shared_memory_break(struct shared_memory *db, uint64_t position);
/* How often any operation was asked for by `node`. */
unsigned shared_memory_asked(struct store *node);

#endif
