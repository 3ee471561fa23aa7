/* SPDX-License-Identifier: MIT
 *
 * Entities in a file: an implementation of store/store.h that survives a crash. A commit that
 * returned 0 is on the disk.
 */
#ifndef STORE_SQLITE_STORE_H
#define STORE_SQLITE_STORE_H

#include "store/store.h"

/* Made when it does not exist. Failures as sqlite_open (store/sqlite.h), and TIDINGS_E_IO when it
 * has lost what it had committed (store/sqlite_damage.h). */
int sqlite_store_open(const char *path, struct store **ret, struct tidings_error *err);
/* The same without what it has lost. `ret_loss` gets TIDINGS_E_IO and what that is, or code 0.
 * Cursors of earlier runs are no good then. */
int sqlite_store_open_lossy(const char *path, struct tidings_error *ret_loss, struct store **ret,
                            struct tidings_error *err);
/* The same for a copy into it (store/copy.h), which may have been begun before. */
int sqlite_store_open_target(const char *path, struct store **ret, struct tidings_error *err);
/* It may grow to about so many bytes; beyond, writes fail with TIDINGS_E_FULL as on a full disk.
 */
int sqlite_store_limit(struct store *store, int64_t max_bytes, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Published resources in the same file as the entities, written in the same batches (begin … commit
 * of store/store.h): the newest content of each URI, or that it was removed. The last are
 * remembered for those who come back; only the newest KEPT_MAX_REMOVED of them.
 *
 * `store` are those of sqlite_store_open. Positions are theirs: one order for everything kept.
 */

/* Operations of struct store_ops. */
int sqlite_published_put(struct store *store, const struct published_row *row,
                         uint64_t *ret_position, struct tidings_error *err);
int sqlite_published_remove(struct store *store, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err);
int sqlite_published_each(struct store *store, published_row_fn fn, void *user,
                          struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Tasks of tools in the same file as the entities: a row for each, until its time to live has
 * passed. No change is numbered for them.
 */

struct sqlite3_stmt;

/* Operations of struct store_ops. */
int sqlite_tasks_put(struct store *store, const struct kept_task *task, struct tidings_error *err);

/* A row of SQLITE_TASK_COLUMNS, from that column on. */
#define SQLITE_TASK_COLUMNS "id, client, status, created, updated, ttl, message, payload"
struct kept_task sqlite_tasks_row(struct sqlite3_stmt *st, int first);

/* -------------------------------------------------------------------------------------------------
 * The change log beside a file: an implementation of store/change_log.h whose cursors outlive the
 * program for what the file keeps.
 *
 * Announcing never waits for the disk. What is durable was written before it is announced, by
 * whoever keeps it, and the file says in which order: after a start the log is made again from it
 * (sqlite_changes_each gives the changes, the caller appends them). What is written here is one row
 * per start: the epoch that begins, and how far the one before it came. So a cursor is accepted
 * when its epoch is one that this very file went through and its position one that the file had
 * reached in it; in a copy that was put back, what happened after the copy was made is not known,
 * and cursors from then are refused.
 */

#define SQLITE_MAX_EPOCHS 1000u /* starts that are remembered */

/* `store` of sqlite_store_open, outside of batches; they are not needed any more afterwards. */
int changelog_sqlite_create(struct store *store, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err);

/* An operation of struct store_ops, as changelog_sqlite_create is. */
int sqlite_changes_each(struct store *store, size_t max, uint64_t *ret_floor, kept_change_fn fn,
                        void *user, struct tidings_error *err);

#endif
