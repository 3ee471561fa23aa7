/* SPDX-License-Identifier: MIT
 *
 * Maintenance of a SQLite store: checks, backups and compaction. None of them creates a missing
 * file, and all reject databases of other programs.
 */
#ifndef STORE_SQLITE_MAINTENANCE_H
#define STORE_SQLITE_MAINTENANCE_H

#include "store/copy.h"

/* Reads and compares everything: pages and indexes by SQLite, tables with their layout, versions
 * with the log and their checksums. Calls `published` with each published resource; its failure
 * stops the check. `ret` gets the counts. An older file is migrated first. */
int sqlite_maintenance_check(const char *path, published_row_fn published,
                             struct transfer_stats *ret, struct tidings_error *err);
/* Writes a backup to a new file, even while a server writes the store: it contains everything that
 * was committed before. */
int sqlite_maintenance_backup(const char *from, const char *to, uint64_t *ret_bytes,
                              struct tidings_error *err);
/* Rewrites the file without the space of removed rows. Returns the sizes before and after. */
int sqlite_maintenance_compact(const char *path, uint64_t *ret_before, uint64_t *ret_after,
                               struct tidings_error *err);

#endif
