/* SPDX-License-Identifier: MIT
 *
 * What the store knew of file mounts when the program started: which of their subtrees were known
 * since when, how far each earlier epoch came, and where its changes stand. From that follows
 * whether somebody who comes back with a cursor of an earlier epoch can be told exactly which files
 * changed since, and from which position on.
 *
 * Immutable: any thread may ask.
 */
#ifndef STORE_SQLITE_FILE_HISTORY_H
#define STORE_SQLITE_FILE_HISTORY_H

#include "store/entity_rows.h"

struct file_history;

/* Outside of batches; `epoch` is the one that begins. */
int file_history_read(struct entity_rows *rows, uint64_t epoch, struct file_history **ret,
                      struct tidings_error *err);
void file_history_destroy(struct file_history *h); /* NULL is fine */

/* How many subtrees and files are known. */
size_t file_history_scopes(const struct file_history *h);
bool file_history_has_scope(const struct file_history *h, struct tidings_str uri);

/* A cursor: everything up to `number` of that epoch was heard, and up to `position` in the store.
 */
struct file_cursor {
    uint64_t epoch, number, position;
};

/* The position from which on all changes of files below `scope` that happened after the cursor
 * follow, once the mount was compared. false: that is not known. `scope` is the URI of a file, or
 * with a '/' at the end of a directory with everything below. */
bool file_history_resume(const struct file_history *h, struct tidings_str scope,
                         const struct file_cursor *at, uint64_t *ret);

#endif
