/* SPDX-License-Identifier: MIT
 *
 * What file mounts know, in the same file as the entities and written in the same batches: their
 * trees, directory by directory; since when which of their subtrees are known; and the changes of
 * files that were announced, so that who comes back hears of them.
 *
 * `rows` are those of entity_sqlite_open. Announcing a change of a file does not wait for the file:
 * changes get their positions when they are written, in the order of their numbers.
 */
#ifndef STORE_SQLITE_FILES_H
#define STORE_SQLITE_FILES_H

#include "store/entity_rows.h"
#include "store/file_part.h"

/* One mount: where it is, and by what it was made what it is. */
struct file_mount_row {
    struct tidings_str prefix, settings;
};

/* At the start, inside a batch: forget mounts that are not among these or had other settings. */
int sqlite_files_set_mounts(struct entity_rows *rows, const struct file_mount_row *mounts,
                            size_t count, struct tidings_error *err);

/* Inside a batch. A failure leaves nothing but rollback. */
int sqlite_files_write(struct entity_rows *rows, const struct file_part *part,
                       struct tidings_error *err);

/* What was saved of a mount. */
struct saved_root {
    uint64_t print, device;
    bool is_known; /* false: nothing was saved */
};
int sqlite_files_root(struct entity_rows *rows, struct tidings_str prefix, struct saved_root *ret,
                      struct tidings_error *err);
/* Its directories, in the order of their paths, the root ("") first. A negative code of `fn` ends
 * this and is what this returns. */
typedef int (*saved_directory_fn)(void *user, struct tidings_str path, struct tidings_str record);
int sqlite_files_each(struct entity_rows *rows, struct tidings_str prefix, saved_directory_fn fn,
                      void *user, struct tidings_error *err);

#endif
