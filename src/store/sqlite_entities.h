/* SPDX-License-Identifier: MIT
 *
 * Entities in a file: an implementation of store/entity_rows.h that survives a crash. A commit that
 * returned 0 is on the disk.
 */
#ifndef STORE_SQLITE_ENTITIES_H
#define STORE_SQLITE_ENTITIES_H

#include "store/entity_rows.h"

/* Made when it does not exist. Failures as sqlite_open (store/sqlite.h). */
int entity_sqlite_open(const char *path, struct entity_rows **ret, struct tidings_error *err);
/* The same for a copy into it (store/transfer.h), which may have been begun before. */
int entity_sqlite_open_target(const char *path, struct entity_rows **ret,
                              struct tidings_error *err);
/* It may grow to about so many bytes; beyond, writes fail with TIDINGS_E_FULL as on a full disk.
 */
int entity_sqlite_limit(struct entity_rows *rows, int64_t max_bytes, struct tidings_error *err);

#endif
