/* SPDX-License-Identifier: MIT
 *
 * Checking a store that is a SQLite file, and making it smaller.
 */
#include "store/sqlite_care.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/error.h"
#include "store/sqlite_care_private.h"
#include "store/sqlite_entities.h"
#include "store/sqlite_loss.h"
#include "store/sqlite_private.h"

int sqlite_care_size(const char *path, uint64_t *ret, struct tidings_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        return error_errno(err, errno, "'%.300s'", path);
    }
    *ret = (uint64_t)st.st_size;
    return 0;
}

int sqlite_care_find(const char *path, uint64_t *ret_size, struct tidings_error *err)
{
    int rc = sqlite_care_size(path, ret_size, err);
    rc = rc == 0 ? sqlite_check_ours(path, &sqlite_entities_layout, err) : rc;
    rc = rc == 0 ? sqlite_loss_check(path, err) : rc;
    return rc == TIDINGS_E_IO ? error_wrap(err, rc, "database '%.100s'", path) : rc;
}

/* What must hold between the tables: no rows, each. */
static const struct {
    const char *sql, *wrong;
} rules[] = {
    {"SELECT count(*)<>1 FROM main.state", "its state is not one row"},
    {"SELECT count(*) FROM main.versions v WHERE NOT EXISTS(SELECT 1 FROM main.log l WHERE"
     " l.seq=v.seq AND l.id=v.id AND l.vfrom=v.vfrom)",
     "versions are listed that are not in the log"},
    {"SELECT count(*) FROM main.current c WHERE NOT EXISTS(SELECT 1 FROM main.versions v WHERE"
     " v.id=c.id AND v.seq=c.seq)",
     "entities are listed whose newest version is not there"},
    {"SELECT count(*) FROM main.versions v WHERE NOT EXISTS(SELECT 1 FROM main.current c WHERE"
     " c.id=v.id)",
     "versions are listed of entities that are not"},
};

static int sqlite_care_check_rules(struct sqlite_entities *s, struct tidings_error *err)
{
    int rc = sqlite_check_shape(s->db, &sqlite_entities_layout, err);
    for (size_t i = 0; rc == 0 && i < sizeof rules / sizeof *rules; i++) {
        int64_t n = 0;
        rc = sqlite_entities_number(s, rules[i].sql, &n, err);
        if (rc == 0 && n != 0) {
            rc =
                tidings_fail(err, TIDINGS_E_IO, "it is damaged: %s (%lld); put a copy in its place",
                             rules[i].wrong, (long long)n);
        }
    }
    return rc;
}

int sqlite_care_check(const char *path, published_row_fn published, struct transfer_figures *ret,
                      struct tidings_error *err)
{
    struct sqlite *db = NULL;
    struct entity_rows *rows = NULL;
    uint64_t size;
    int rc = sqlite_care_find(path, &size, err);
    rc = rc == 0 ? sqlite_open(path, &db, err) : rc;
    if (rc < 0) {
        return rc;
    }
    rc = sqlite_check_sound(db, err);
    sqlite_close(db);
    rc = rc < 0 ? error_wrap(err, rc, "database '%s'", path) : entity_sqlite_open(path, &rows, err);
    if (rc < 0) {
        return rc;
    }
    rc = sqlite_care_check_rules(sqlite_entities_of(rows), err);
    rc = rc == 0 ? rows->kept->each_published(rows, published, NULL, err) : rc;
    rc = rc == 0 ? transfer_count(rows, ret, err) : rc;
    rows->ops->destroy(rows);
    return rc < 0 ? error_wrap(err, rc, "database '%s'", path) : 0;
}

int sqlite_care_compact(const char *path, uint64_t *ret_before, uint64_t *ret_after,
                        struct tidings_error *err)
{
    struct sqlite *db = NULL;
    int rc = sqlite_care_find(path, ret_before, err);
    rc = rc == 0 ? sqlite_open(path, &db, err) : rc;
    if (rc < 0) {
        return rc;
    }
    rc = sqlite_exec(db, "VACUUM", err);
    rc = rc == 0 ? sqlite_cut_log(db, err) : rc;
    sqlite_close(db);
    rc = rc < 0 ? error_wrap(err, rc, "database '%s'", path) : rc;
    return rc == 0 ? sqlite_care_size(path, ret_after, err) : rc;
}
