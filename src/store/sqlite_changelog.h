/* SPDX-License-Identifier: MIT
 *
 * The change log beside a file: an implementation of store/changelog.h whose cursors outlive the
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
#ifndef STORE_SQLITE_CHANGELOG_H
#define STORE_SQLITE_CHANGELOG_H

#include "store/kept.h"

#define SQLITE_MAX_EPOCHS 1000u /* starts that are remembered */

/* `rows` of entity_sqlite_open, outside of batches; they are not needed any more afterwards. */
int changelog_sqlite_create(struct entity_rows *rows, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err);

/* An operation of struct kept_ops, as changelog_sqlite_create is. */
int sqlite_changes_each(struct entity_rows *rows, size_t max, uint64_t *ret_floor,
                        kept_change_fn fn, void *user, struct tidings_error *err);

#endif
