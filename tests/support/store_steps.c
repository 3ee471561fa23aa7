/* SPDX-License-Identifier: MIT
 *
 * Steps with a store that several nodes share.
 */
#include "support/store_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/postgres_store.h"

static void must(int rc, const struct tidings_error *err)
{
    if (rc < 0) {
        fail_msg("%s", err->text);
    }
}

struct store *store_open(const char *url)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    must(postgres_store_open(url, STR("tidings"), &store, &err), &err);
    return store;
}

void store_close(struct store *store)
{
    store->ops->destroy(store);
}

void store_begin(struct store *store)
{
    struct tidings_error err = {0};
    must(store->ops->begin(store, &err), &err);
}

void store_commit(struct store *store)
{
    struct tidings_error err = {0};
    must(store->ops->commit(store, &err), &err);
}

void store_put(struct store *store, const char *id, int64_t from, const char *value)
{
    struct tidings_error err = {0};
    const struct entity_version v = {.id = tidings_str(id),
                                     .from = from,
                                     .since = from,
                                     .type = STR("T"),
                                     .type_version = STR("1"),
                                     .value = tidings_str(value),
                                     .changed_by = STR("[]"),
                                     .created = from == 1};
    must(store->ops->put(store, &v, false, &err), &err);
}

static bool is_unsubscribable(const char *uri)
{
    return strstr(uri, "dark") != NULL;
}

static uint64_t announce_as(struct store *store, enum log_entry_kind kind, const char *uri)
{
    struct tidings_error err = {0};
    const struct tidings_change change = {.uri = tidings_str(uri),
                                          .etag = STR("e"),
                                          .origin = STR("o"),
                                          .size = 7,
                                          .has_size = true,
                                          .not_subscribable = is_unsubscribable(uri)};
    uint64_t position = 0;
    must(store->ops->announce(store, kind, &change, &position, &err), &err);
    return position;
}

uint64_t store_announce(struct store *store, const char *uri)
{
    return announce_as(store, LOG_ENTRY_ANNOUNCED, uri);
}

uint64_t store_announce_mounted(struct store *store, const char *uri)
{
    return announce_as(store, LOG_ENTRY_MOUNTED, uri);
}

uint64_t store_put_alone(struct store *store, const char *id, int64_t from, const char *value)
{
    store_begin(store);
    store_put(store, id, from, value);
    uint64_t position = store->ops->position(store);
    store_commit(store);
    return position;
}

uint64_t store_publish_alone(struct store *store, const char *uri, const char *content)
{
    struct tidings_error err = {0};
    struct published_row row = {.created = true, .content = tidings_str(content ? content : "")};
    uint64_t position = 0;
    row.about.uri = tidings_str(uri);
    row.about.not_subscribable = is_unsubscribable(uri);
    store_begin(store);
    must(content ? store->ops->publish(store, &row, &position, &err)
                 : store->ops->unpublish(store, &row, &position, &err),
         &err);
    store_commit(store);
    return position;
}

uint64_t store_announce_alone(struct store *store, const char *uri)
{
    store_begin(store);
    uint64_t position = store_announce(store, uri);
    store_commit(store);
    return position;
}

long long store_value(struct store *store, const char *id)
{
    struct tidings_error err = {0};
    struct entity_version v;
    int rc = store->ops->find(store, tidings_str(id), TIMELINE_FOREVER, &v, &err);
    must(rc, &err);
    int64_t n = -1;
    return rc == 1 && str_to_i64(v.value, &n) ? (long long)n : -1;
}

/* ---- following ------------------------------------------------------------------------------- */

static struct buf lines;
static bool has_positions;

bool store_print(void *user, const struct log_entry *c)
{
    static const char *const kinds[] = {"entity",    "moved",   "types", "published", "file",
                                        "announced", "session", "run",   "broken",    "mounted"};
    struct buf *out = user;
    if (has_positions) {
        buf_putf(out, "%llu ", (unsigned long long)c->position);
    }
    buf_putf(out, "%s", kinds[c->kind]);
    if (c->uri.len > 0) {
        buf_putf(out, " %.*s", STR_ARG(c->uri));
    }
    if (c->published) {
        buf_putf(out, "=%.*s", STR_ARG(c->published->content));
    }
    if (c->announced) {
        buf_putf(out, " %.*s %.*s %lld", STR_ARG(c->announced->etag), STR_ARG(c->announced->origin),
                 (long long)c->announced->size);
    }
    if (c->kind == LOG_ENTRY_SESSION) {
        buf_putf(out, " at %.*s", STR_ARG(c->target));
    }
    if (c->announced ? c->announced->not_subscribable : c->not_subscribable) {
        buf_puts(out, STR(" mute"));
    }
    buf_puts(out, c->removed ? STR(" gone\n") : STR("\n"));
    return true;
}

static void free_lines(void)
{
    buf_deinit(&lines);
}

const char *store_followed(struct store *store, bool positions)
{
    struct tidings_error err = {0};
    if (lines.max == 0) {
        buf_init(&lines, 1u << 22);
        (void)atexit(free_lines);
    }
    buf_clear(&lines);
    buf_puts(&lines, STR(""));
    has_positions = positions;
    must(store->ops->follow(store, store_print, &lines, &err), &err);
    return lines.ptr;
}
