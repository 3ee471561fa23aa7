/* SPDX-License-Identifier: MIT
 *
 * In the place of SQLite where it was not there at build time.
 */
#include "store/sqlite_changelog.h"
#include "store/sqlite_entities.h"
#include "store/sqlite_published.h"

static int absent(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "this build has no SQLite");
}

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
    return absent(err);
}

int sqlite_published_put(struct entity_rows *rows, const struct published_row *row,
                         uint64_t *ret_position, struct tidings_error *err)
{
    (void)rows;
    (void)row;
    (void)ret_position;
    return absent(err);
}

int sqlite_published_remove(struct entity_rows *rows, struct tidings_str uri,
                            uint64_t *ret_position, struct tidings_error *err)
{
    (void)rows;
    (void)uri;
    (void)ret_position;
    return absent(err);
}

int sqlite_published_each(struct entity_rows *rows, published_row_fn fn, void *user,
                          struct tidings_error *err)
{
    (void)rows;
    (void)fn;
    (void)user;
    return absent(err);
}

int changelog_sqlite_create(struct entity_rows *rows, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err)
{
    (void)rows;
    (void)limits;
    (void)ret;
    return absent(err);
}

int sqlite_changes_each(struct entity_rows *rows, size_t max, uint64_t *ret_floor,
                        kept_change_fn fn, void *user, struct tidings_error *err)
{
    (void)rows;
    (void)max;
    (void)ret_floor;
    (void)fn;
    (void)user;
    return absent(err);
}
