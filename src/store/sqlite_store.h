/* SPDX-License-Identifier: MIT
 *
 * A store in a SQLite file (store/store.h). It survives a crash: a commit that returned 0 is on the
 * disk.
 */
#ifndef STORE_SQLITE_STORE_H
#define STORE_SQLITE_STORE_H

#include "store/store.h"

/* Opens the file, or create it. Fails like sqlite_open (store/sqlite.h), and with TIDINGS_E_IO if
 * the file has lost committed changes (store/sqlite_damage.h). */
int sqlite_store_open(const char *path, struct store **ret, struct tidings_error *err);
/* The same, but accepts a loss: `ret_loss` gets TIDINGS_E_IO and the reason, or code 0. After a
 * loss, cursors of earlier runs are invalid. */
int sqlite_store_open_lossy(const char *path, struct tidings_error *ret_loss, struct store **ret,
                            struct tidings_error *err);
/* Opens the target of a copy (store/copy.h), possibly of an interrupted one. */
int sqlite_store_open_target(const char *path, struct store **ret, struct tidings_error *err);
/* Limits the size of the file to about `max_bytes`; then writes fail with TIDINGS_E_FULL, as on a
 * full disk. */
int sqlite_store_limit(struct store *store, int64_t max_bytes, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Published resources: the newest content of each URI. The newest PUBLISHED_MAX_REMOVED removed
 * URIs are remembered, for resuming clients.
 */

/* Operations of struct store_ops: publish, unpublish, each_published. */
int sqlite_published_put(struct store *store, const struct published_row *row,
                         uint64_t *ret_position, struct tidings_error *err);
int sqlite_published_remove(struct store *store, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err);
int sqlite_published_each(struct store *store, published_row_fn fn, void *user,
                          struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The change log of a file: an implementation of store/change_log.h whose cursors outlive the
 * program for changes that the file contains.
 *
 * Announcing never waits for the disk: a durable change is in the file before it is announced.
 * After a start, the caller rebuilds the log from the file (sqlite_changes_each). The log itself
 * writes one row per start: the new epoch, and the last position of the epoch before. A cursor is
 * valid if the file has its epoch, and reached its position in that epoch. A restored backup does
 * not contain the changes after the backup, so it rejects later cursors.
 */

#define SQLITE_MAX_EPOCHS 1000u /* starts that are remembered */

/* An operation of struct store_ops: create_changelog. The log does not refer to the store. */
int changelog_sqlite_create(struct store *store, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err);

/* An operation of struct store_ops: each_change. */
int sqlite_changes_each(struct store *store, size_t max, uint64_t *ret_floor, log_entry_fn fn,
                        void *user, struct tidings_error *err);

#endif
