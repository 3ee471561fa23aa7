/* SPDX-License-Identifier: MIT
 *
 * Published resources in the same file as the entities, written in the same batches (begin … commit
 * of store/entity_rows.h): the newest content of each URI, or that it was removed. The last are
 * remembered for those who come back; only the newest SQLITE_MAX_REMOVED of them.
 *
 * `rows` are those of entity_sqlite_open. Positions are theirs: one order for everything kept.
 */
#ifndef STORE_SQLITE_PUBLISHED_H
#define STORE_SQLITE_PUBLISHED_H

#include <tidings/provider.h>

#include "store/entity_rows.h"

#define SQLITE_MAX_REMOVED 10000u
#define SQLITE_MAX_CONTENT 1000000000u /* SQLite's own */

struct published_row {
    struct tidings_resource about; /* `etag`, `size` and `modified_ms` too */
    struct tidings_str content;
    struct tidings_str
        metadata; /* of the change that made it so, or empty; not read back by …_each */
    bool created;
};

/* Inside a batch. A failure leaves nothing but rollback. */
int sqlite_published_put(struct entity_rows *rows, const struct published_row *row,
                         uint64_t *ret_position, struct tidings_error *err);
int sqlite_published_remove(struct entity_rows *rows, struct tidings_str uri,
                            struct tidings_str metadata, uint64_t *ret_position,
                            struct tidings_error *err);

/* Everything that is published. Slices live until the function returns; a negative code of it ends
 * this and is what this returns. */
typedef int (*published_row_fn)(void *user, const struct published_row *row,
                                struct tidings_error *err);
int sqlite_published_each(struct entity_rows *rows, published_row_fn fn, void *user,
                          struct tidings_error *err);

#endif
