/* SPDX-License-Identifier: MIT
 *
 * The contract of store/store.h as cases over any store that outlives the program: what is kept is
 * found again in the order it happened, and cursors go on after a start.
 */
#ifndef CONTRACT_DURABLE_SUITE_H
#define CONTRACT_DURABLE_SUITE_H

#include "store/store.h"

/* Open the store; `is_fresh`: a new, empty one, else the one that was opened last. */
typedef struct store *(*kept_open_fn)(bool is_fresh);

/* Runs every case; returns the number that failed. */
int kept_suite(const char *name, kept_open_fn open);

/* Steps of which each must succeed, for further cases of one store. */
void kept_begin(struct store *store);
void kept_commit(struct store *store);
/* A batch of its own; its position. `content` NULL: removed. */
uint64_t kept_put_entity(struct store *store, const char *id, int64_t from, const char *version,
                         const char *was, bool instead);
uint64_t kept_publish(struct store *store, const char *uri, const char *content);
/* What changed at the newest `max` positions is that, a line each; the floor. */
uint64_t log_entry_check_changes(struct store *store, size_t max, const char *expected);

#endif
