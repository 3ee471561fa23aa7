/* SPDX-License-Identifier: MIT
 *
 * The public functions that maintain a store in a file: check, backup, compact.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tidings/store.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "cluster/postgres_store.h"
#include "formats/url.h"
#include "sources/published.h"
#include "store/copy.h"
#include "store/sqlite_maintenance.h"
#include "store/sqlite_store.h"

/* -------------------------------------------------------------------------------------------------
 * The public function that copies a store: opens both, copies, and compares the written data with
 * the read data.
 */

struct store_copying {
    const struct tidings_store_copying *copy;
    struct tidings_store_figures totals;
};

static void store_take_stats(struct tidings_store_figures *to, const struct transfer_stats *from)
{
    to->types = from->rows[TRANSFER_TYPE];
    to->versions = from->rows[TRANSFER_VERSION];
    to->published = from->rows[TRANSFER_PUBLISHED];
    to->tasks = from->rows[TRANSFER_TASK];
    to->position = from->position;
    to->was_resumed = to->was_resumed || from->was_resumed;
}

static bool store_on_progress(void *user, const struct transfer_stats *done)
{
    struct store_copying *c = user;
    store_take_stats(&c->totals, done);
    return !c->copy->progress || c->copy->progress(c->copy->user, &c->totals);
}

static int store_open(const struct tidings_store_copying *copy, const char *name, bool is_target,
                      struct store **ret, struct tidings_error *err)
{
    struct tidings_str cluster = tidings_str(copy->cluster ? copy->cluster : "tidings");
    if (postgres_store_is_url(tidings_str(name))) {
        return is_target ? postgres_store_open_target(name, cluster, ret, err)
                         : postgres_store_open(name, cluster, ret, err);
    }
    if (!is_target && access(name, F_OK) < 0) { /* opening would create it */
        char shown[URL_REDACTED_MAX];
        return tidings_fail(err, TIDINGS_E_NOTFOUND,
                            "'%.120s': %s: name a store that a server has written, or a "
                            "postgres:// URL",
                            url_redact(name, shown), strerror(errno));
    }
    return is_target ? sqlite_store_open_target(name, ret, err) : sqlite_store_open(name, ret, err);
}

static void store_close(struct store *store)
{
    if (store) {
        store->ops->destroy(store);
    }
}

/* The name of the old store in the new one. For a URL, user, password and parameters are omitted,
 * because they may contain secrets, but a digest of the whole URL is included: URLs of two schemas
 * differ only in their parameters. */
#define SOURCE_MAX 320u
static struct tidings_str store_source(const char *name, char out[SOURCE_MAX])
{
    if (!postgres_store_is_url(tidings_str(name))) {
        return tidings_str(name);
    }
    struct sha256 digest;
    unsigned char sum[SHA256_BYTES];
    sha256_init(&digest);
    sha256_put(&digest, name, strlen(name));
    sha256_end(&digest, sum);
    size_t len = strcspn(name, "?");
    const char *at = memrchr(name, '@', len), *from = at ? at + 1 : strstr(name, "//") + 2;
    (void)snprintf(out, SOURCE_MAX, "%.*s #%02x%02x%02x%02x", (int)(name + len - from), from,
                   sum[0], sum[1], sum[2], sum[3]);
    return tidings_str(out);
}

static int store_compare(struct store *from, struct store *to, struct store_copying *c,
                         struct tidings_error *err)
{
    struct transfer_stats one, other;
    int rc = transfer_count(from, &one, err);
    rc = rc == 0 ? transfer_count(to, &other, err) : rc;
    if (rc == 0 && memcmp(one.digest, other.digest, sizeof one.digest) != 0) {
        rc = tidings_fail(err, TIDINGS_E_CONFLICT,
                          "the copy differs from the original, because a program wrote to one of "
                          "them; remove the new store, stop all writers and copy again");
    }
    if (rc == 0) {
        store_take_stats(&c->totals, &other);
    }
    return rc;
}

int tidings_store_copy(const struct tidings_store_copying *copy, struct tidings_store_figures *ret,
                       struct tidings_error *err)
{
    struct store *from = NULL, *to = NULL;
    if (!copy || !copy->from || !copy->to || !copy->from[0] || !copy->to[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a copy needs the names of two stores");
    }
    if (RESERVED_CHECK(copy, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (strcmp(copy->from, copy->to) == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a store cannot be copied into itself");
    }
    struct store_copying c = {.copy = copy};
    char source[SOURCE_MAX];
    int rc = store_open(copy, copy->from, false, &from, err);
    rc = rc == 0 ? store_open(copy, copy->to, true, &to, err) : rc;
    rc = rc == 0
             ? transfer_copy(from, to, store_source(copy->from, source), store_on_progress, &c, err)
             : rc;
    if (rc == 0) { /* in the state that the next opening finds */
        store_close(to);
        to = NULL;
        rc = store_open(copy, copy->to, false, &to, err);
    }
    rc = rc == 0 ? store_compare(from, to, &c, err) : rc;
    store_close(to);
    store_close(from);
    if (ret) {
        *ret = c.totals;
    }
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

/* The store must be named, and must be a file. */
static int store_maintenance_begin(const char *store, const char *instead,
                                   struct tidings_error *err)
{
    if (!store || !store[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the file of the store must be named");
    }
    if (postgres_store_is_url(tidings_str(store))) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "this is for stores in a file; for a database of PostgreSQL use %s",
                            instead);
    }
    return 0;
}

static int store_maintenance_check_published(void *user, const struct published_row *row,
                                             struct tidings_error *err)
{
    (void)user;
    char etag[PUBLISHED_ETAG_SIZE];
    published_make_etag(row->content, row->about.mime_type, etag);
    return str_eq(row->about.etag, tidings_str(etag))
               ? 0
               : tidings_fail(err, TIDINGS_E_INTERNAL,
                              "the stored content of '%.*s' is damaged; publish it again",
                              STR_ARG(row->about.uri));
}

int tidings_store_check(const char *store, struct tidings_store_figures *ret,
                        struct tidings_error *err)
{
    struct transfer_stats f = {0};
    int rc = store_maintenance_begin(store, "pg_amcheck", err);
    rc = rc == 0 ? sqlite_maintenance_check(store, store_maintenance_check_published, &f, err) : rc;
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
    int rc = store_maintenance_begin(store, "pg_dump", err);
    rc = rc == 0 ? store_maintenance_begin(to, "'tidings store copy'", err) : rc;
    rc = rc == 0 ? sqlite_maintenance_backup(store, to, &bytes, err) : rc;
    if (rc == 0 && ret_bytes) {
        *ret_bytes = bytes;
    }
    return rc;
}

int tidings_store_compact(const char *store, uint64_t *ret_before, uint64_t *ret_after,
                          struct tidings_error *err)
{
    uint64_t before = 0, after = 0;
    int rc = store_maintenance_begin(store, "VACUUM FULL", err);
    rc = rc == 0 ? sqlite_maintenance_compact(store, &before, &after, err) : rc;
    if (rc == 0 && ret_before) {
        *ret_before = before;
    }
    if (rc == 0 && ret_after) {
        *ret_after = after;
    }
    return rc;
}
