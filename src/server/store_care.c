/* SPDX-License-Identifier: MIT
 *
 * The public functions that take care of a store in a file: check, backup, compact.
 */
#include <tidings/store.h>

#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "provider/published.h"
#include "store/postgres_rows.h"
#include "store/sqlite_care.h"

/* It is named, and it is a file. */
static int store_care_begin(const char *store, const char *instead, struct tidings_error *err)
{
    if (!store || !store[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the file of the store must be named");
    }
    if (entity_postgres_is_url(tidings_str(store))) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "this is for stores in a file; for a database of PostgreSQL use %s",
                            instead);
    }
    return 0;
}

static int store_care_check_published(void *user, const struct published_row *row,
                                      struct tidings_error *err)
{
    (void)user;
    char etag[PUBLISHED_ETAG_SIZE];
    published_make_etag(row->content, row->about.mime_type, etag);
    return str_eq(row->about.etag, tidings_str(etag))
               ? 0
               : tidings_fail(err, TIDINGS_E_INTERNAL,
                              "what is stored of '%.*s' is damaged: publish it again",
                              STR_ARG(row->about.uri));
}

int tidings_store_check(const char *store, struct tidings_store_figures *ret,
                        struct tidings_error *err)
{
    struct transfer_figures f = {0};
    int rc = store_care_begin(store, "pg_amcheck", err);
    rc = rc == 0 ? sqlite_care_check(store, store_care_check_published, &f, err) : rc;
    if (rc == 0 && ret) {
        *ret = (struct tidings_store_figures){.types = f.rows[TRANSFER_TYPE],
                                              .versions = f.rows[TRANSFER_VERSION],
                                              .published = f.rows[TRANSFER_PUBLISHED],
                                              .tasks = f.rows[TRANSFER_TASK],
                                              .position = f.position};
    }
    return rc;
}

int tidings_store_backup(const char *store, const char *to, uint64_t *ret_bytes,
                         struct tidings_error *err)
{
    uint64_t bytes = 0;
    int rc = store_care_begin(store, "pg_dump", err);
    rc = rc == 0 ? store_care_begin(to, "'tidings store copy'", err) : rc;
    rc = rc == 0 ? sqlite_care_backup(store, to, &bytes, err) : rc;
    if (rc == 0 && ret_bytes) {
        *ret_bytes = bytes;
    }
    return rc;
}

int tidings_store_compact(const char *store, uint64_t *ret_before, uint64_t *ret_after,
                          struct tidings_error *err)
{
    uint64_t before = 0, after = 0;
    int rc = store_care_begin(store, "VACUUM FULL", err);
    rc = rc == 0 ? sqlite_care_compact(store, &before, &after, err) : rc;
    if (rc == 0 && ret_before) {
        *ret_before = before;
    }
    if (rc == 0 && ret_after) {
        *ret_after = after;
    }
    return rc;
}
