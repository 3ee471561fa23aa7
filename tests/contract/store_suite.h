/* SPDX-License-Identifier: MIT
 *
 * The contract of store/store.h as cases over any implementation.
 */
#ifndef CONTRACT_STORE_SUITE_H
#define CONTRACT_STORE_SUITE_H

#include "store/store.h"

/* A new, empty one. */
typedef struct store *(*store_factory_fn)(void);

/* Runs every case; returns the number that failed. */
int store_suite(const char *name, store_factory_fn factory);

struct buf;
/* Everything a reader can see, as text: types, current versions by scope, histories, as-of reads.
 */
void store_dump(struct store *store, struct buf *out);
/* One batch of changes drawn from *seed, the same for the same seed; ends in commit or rollback. */
void store_random_batch(struct store *store, uint64_t *seed);

#endif
