/* SPDX-License-Identifier: MIT
 *
 * The contract of store/store.h as cases over any implementation.
 */
#ifndef CONTRACT_ENTITY_ROWS_SUITE_H
#define CONTRACT_ENTITY_ROWS_SUITE_H

#include "store/store.h"

/* A new, empty one. */
typedef struct entity_rows *(*entity_rows_factory_fn)(void);

/* Runs every case; returns the number that failed. */
int entity_rows_suite(const char *name, entity_rows_factory_fn factory);

struct buf;
/* Everything a reader can see, as text: types, current versions by scope, histories, as-of reads.
 */
void entity_rows_dump(struct entity_rows *rows, struct buf *out);
/* One batch of changes drawn from *seed, the same for the same seed; ends in commit or rollback. */
void entity_rows_random_batch(struct entity_rows *rows, uint64_t *seed);

#endif
