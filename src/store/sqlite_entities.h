/* SPDX-License-Identifier: MIT
 *
 * Entities in a file: an implementation of store/entity_rows.h that survives a crash. A commit that
 * returned 0 is on the disk.
 */
#ifndef STORE_SQLITE_ENTITIES_H
#define STORE_SQLITE_ENTITIES_H

#include "store/entity_rows.h"

/* Made when it does not exist. Failures as sqlite_open (store/sqlite.h), and TIDINGS_E_IO when it
 * has lost what it had committed (store/sqlite_loss.h). */
int entity_sqlite_open(const char *path, struct entity_rows **ret, struct tidings_error *err);
/* The same without what it has lost. `ret_loss` gets TIDINGS_E_IO and what that is, or code 0.
 * Cursors of earlier runs are no good then. */
int entity_sqlite_open_lossy(const char *path, struct tidings_error *ret_loss,
                             struct entity_rows **ret, struct tidings_error *err);
/* The same for a copy into it (store/transfer.h), which may have been begun before. */
int entity_sqlite_open_target(const char *path, struct entity_rows **ret,
                              struct tidings_error *err);
/* It may grow to about so many bytes; beyond, writes fail with TIDINGS_E_FULL as on a full disk.
 */
int entity_sqlite_limit(struct entity_rows *rows, int64_t max_bytes, struct tidings_error *err);

#endif
