/* SPDX-License-Identifier: MIT
 *
 * Taking care of a store that is a SQLite file: checking it, backing it up, making it smaller.
 * None of them makes a file that is not there, and databases of other programs are refused.
 */
#ifndef STORE_SQLITE_MAINTENANCE_H
#define STORE_SQLITE_MAINTENANCE_H

#include "store/copy.h"

/* Everything in it is read and compared: pages and indexes by SQLite, tables with their layout,
 * versions with the log, and with their sums. `published` is called with each published resource,
 * which may end it with a failure. `ret` gets what there is. The file is brought up to date when it
 * is older. */
int sqlite_maintenance_check(const char *path, published_row_fn published,
                             struct transfer_stats *ret, struct tidings_error *err);
/* A copy in a new file, also while a server uses and writes it: it has everything that was
 * committed before. */
int sqlite_maintenance_backup(const char *from, const char *to, uint64_t *ret_bytes,
                              struct tidings_error *err);
/* Write it anew, without the room that removed rows left. Sizes before and after. */
int sqlite_maintenance_compact(const char *path, uint64_t *ret_before, uint64_t *ret_after,
                               struct tidings_error *err);

#endif
