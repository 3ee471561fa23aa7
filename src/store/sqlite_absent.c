/* SPDX-License-Identifier: MIT
 *
 * In the place of SQLite where it was not there at build time.
 */
#include "store/sqlite_entities.h"

int entity_sqlite_open(const char *path, struct entity_rows **ret, struct tidings_error *err)
{
    (void)ret;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                        "database '%s': this build has no SQLite (libsqlite3-dev was not found)",
                        path);
}

int entity_sqlite_limit(struct entity_rows *rows, int64_t max_bytes, struct tidings_error *err)
{
    (void)rows;
    (void)max_bytes;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "this build has no SQLite");
}
