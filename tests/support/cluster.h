/* SPDX-License-Identifier: MIT
 *
 * Two servers on one store, in memory or of a PostgreSQL of the test's own, and what tests ask of
 * them. A test includes support/served.h, support/shared_memory.h and support/postgres.h too.
 */
#ifndef SUPPORT_CLUSTER_H
#define SUPPORT_CLUSTER_H

#include "support/postgres.h"
#include "support/served.h"
#include "support/shared_memory.h"

#define NODES 2u

extern struct postgres_server *cluster_postgres; /* NULL: in memory */
extern struct shared_memory *db;
extern struct store *stores[NODES]; /* borrowed */
extern struct ears ears;

int cluster_begin(void **state);
int cluster_end(void **state);
#define CASE(test) cmocka_unit_test_setup_teardown(test, cluster_begin, cluster_end)
void run(unsigned i);
void run_all(void);

/* A call of a tool at that node. */
const char *at(unsigned node, const char *tool, const char *arguments);
void must_say(const char *answer, const char *says);
void must_not_say(const char *answer, const char *says);
void add_type(unsigned node); /* T@1 */
const char *upsert(unsigned node, const char *id, int n);
const char *read_at(unsigned node, const char *uri);
void publish(unsigned node, const char *uri, const char *text);
/* The next update is of that kind, and published:///x reads as `says` then. */
void hear(size_t n, unsigned node, enum tidings_change_kind kind, const char *says);
/* Returns when the node has followed all earlier writes: it writes its own, and a writer follows
 * first. */
void await_followed(unsigned node);
/* A cursor of `node` about `uri`, after `cursor` (NULL: from now on), and the whole answer. */
void cursor_of(unsigned node, const char *cursor, const char *uri, char out[256],
               const char **answer);

/* Another node that holds the lock of the store, so that no node commits, and its end. */
struct store *cluster_hold(void);
void cluster_let_go(struct store *holder);
/* Every lease ends now. PostgreSQL only. */
void cluster_expire_leases(void);

#endif
