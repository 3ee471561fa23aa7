/* SPDX-License-Identifier: MIT
 *
 * The contract of store/store.h as cases over any store that outlives the program: data survives in
 * order, and cursors resume after a restart.
 */
#ifndef CONTRACT_DURABLE_SUITE_H
#define CONTRACT_DURABLE_SUITE_H

#include "store/store.h"

/* Opens the store; `is_fresh`: a new, empty one, otherwise the store opened last. */
typedef struct store *(*kept_open_fn)(bool is_fresh);

/* Runs every case; returns the number that failed. */
int kept_suite(const char *name, kept_open_fn open);

/* Steps that must each succeed, for further cases of one store. */
void kept_begin(struct store *store);
void kept_commit(struct store *store);
/* Its own batch; returns its position. `content` NULL: removed. */
uint64_t kept_put_entity(struct store *store, const char *id, int64_t from, const char *version,
                         const char *was, bool instead);
uint64_t kept_publish(struct store *store, const char *uri, const char *content);
/* Checks the changes at the newest `max` positions, one per line, and returns the floor. */
uint64_t log_entry_check_changes(struct store *store, size_t max, const char *expected);

#endif
