/* SPDX-License-Identifier: MIT
 *
 * Published resources in the same file as the entities, written in the same batches (begin … commit
 * of store/entity_rows.h): the newest content of each URI, or that it was removed. The last are
 * remembered for those who come back; only the newest KEPT_MAX_REMOVED of them.
 *
 * `rows` are those of entity_sqlite_open. Positions are theirs: one order for everything kept.
 */
#ifndef STORE_SQLITE_PUBLISHED_H
#define STORE_SQLITE_PUBLISHED_H

#include "store/kept.h"

/* Operations of struct kept_ops. */
int sqlite_published_put(struct entity_rows *rows, const struct published_row *row,
                         uint64_t *ret_position, struct tidings_error *err);
int sqlite_published_remove(struct entity_rows *rows, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err);
int sqlite_published_each(struct entity_rows *rows, published_row_fn fn, void *user,
                          struct tidings_error *err);

#endif
