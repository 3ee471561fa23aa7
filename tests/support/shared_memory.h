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
/* The database cannot be reached by `node` (NULL: by nobody), or can again. A node's descriptor
 * says so. */
void shared_memory_set_unreachable(struct shared_memory *db, struct store *node,
                                   bool is_unreachable);
/* Nobody is woken: they have to ask. */
void shared_memory_set_quiet(struct shared_memory *db, bool is_quiet);
/* What wakes `node` is another descriptor from now on. The one before is closed, and held open by
 * the one that is returned, as by a process that is being started. On the thread that uses the
 * node. */
int shared_memory_reconnect(struct store *node);
/* Wake it; has it taken notice? */
void shared_memory_wake(struct store *node);
bool shared_memory_is_awake(struct store *node);
/* The next commit of `node` is not answered; it has happened, or not. */
void shared_memory_lose_answer(struct shared_memory *db, struct store *node, bool committed);
/* The next batch of `node` begins without the lock, and when it is to be committed it has to be run
 * again: somebody else wrote, or so it seems since (`is_in_doubt`) there is no answer. */
void shared_memory_overtake(struct store *node, bool is_in_doubt);
/* What was committed after `position` is lost: a new cluster epoch begins. Of entities and
 * published resources everything stays; of the log it goes. */
void shared_memory_break(struct shared_memory *db, uint64_t position);
/* How often any operation was asked for by `node`. */
unsigned shared_memory_asked(struct store *node);

#endif
