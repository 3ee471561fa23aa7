/* SPDX-License-Identifier: MIT
 *
 * The public function that copies a store: opens both, copies, and compares what was written with
 * what was read.
 */
#include <tidings/store.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/url_redact.h"
#include "store/postgres_rows.h"
#include "store/sqlite_entities.h"
#include "store/transfer.h"

struct store_copying {
    const struct tidings_store_copying *copy;
    struct tidings_store_figures figures;
};

static void store_take_figures(struct tidings_store_figures *to,
                               const struct transfer_figures *from)
{
    to->types = from->rows[TRANSFER_TYPE];
    to->versions = from->rows[TRANSFER_VERSION];
    to->published = from->rows[TRANSFER_PUBLISHED];
    to->tasks = from->rows[TRANSFER_TASK];
    to->position = from->position;
    to->was_resumed = to->was_resumed || from->was_resumed;
}

static bool store_on_progress(void *user, const struct transfer_figures *done)
{
    struct store_copying *c = user;
    store_take_figures(&c->figures, done);
    return !c->copy->progress || c->copy->progress(c->copy->user, &c->figures);
}

static int store_open(const struct tidings_store_copying *copy, const char *name, bool is_target,
                      struct entity_rows **ret, struct tidings_error *err)
{
    struct tidings_str cluster = tidings_str(copy->cluster ? copy->cluster : "tidings");
    if (entity_postgres_is_url(tidings_str(name))) {
        return is_target ? entity_postgres_open_target(name, cluster, ret, err)
                         : entity_postgres_open(name, cluster, ret, err);
    }
    if (!is_target && access(name, F_OK) < 0) { /* opening would make it */
        char shown[URL_REDACTED_MAX];
        return tidings_fail(err, TIDINGS_E_NOTFOUND,
                            "'%.120s': %s: name a store that a server has written, or a "
                            "postgres:// URL",
                            url_redact(name, shown), strerror(errno));
    }
    return is_target ? entity_sqlite_open_target(name, ret, err)
                     : entity_sqlite_open(name, ret, err);
}

static void store_close(struct entity_rows *rows)
{
    if (rows) {
        rows->ops->destroy(rows);
    }
}

/* What the new store calls the old one. Of a URL neither user, password nor parameters, which may
 * hold one, but a digest of it all: two schemas differ in their parameters alone. */
#define SOURCE_MAX 320u
static struct tidings_str store_source(const char *name, char out[SOURCE_MAX])
{
    if (!entity_postgres_is_url(tidings_str(name))) {
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

static int store_compare(struct entity_rows *from, struct entity_rows *to, struct store_copying *c,
                         struct tidings_error *err)
{
    struct transfer_figures one, other;
    int rc = transfer_count(from, &one, err);
    rc = rc == 0 ? transfer_count(to, &other, err) : rc;
    if (rc == 0 && memcmp(one.digest, other.digest, sizeof one.digest) != 0) {
        rc = tidings_fail(err, TIDINGS_E_CONFLICT,
                          "the copy differs from what was copied: nothing may write to either of "
                          "them meanwhile; remove the new store and copy again");
    }
    if (rc == 0) {
        store_take_figures(&c->figures, &other);
    }
    return rc;
}

int tidings_store_copy(const struct tidings_store_copying *copy, struct tidings_store_figures *ret,
                       struct tidings_error *err)
{
    struct entity_rows *from = NULL, *to = NULL;
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
    if (rc == 0) { /* as those will find it who open it next */
        store_close(to);
        to = NULL;
        rc = store_open(copy, copy->to, false, &to, err);
    }
    rc = rc == 0 ? store_compare(from, to, &c, err) : rc;
    store_close(to);
    store_close(from);
    if (ret) {
        *ret = c.figures;
    }
    return rc;
}
