/* SPDX-License-Identifier: MIT
 *
 * Copies of a store, between SQLite and PostgreSQL in every direction: a copy reads like the
 * original, including positions and cursors; a copy resumes after any interruption; a nonempty
 * store, a partial copy, a store in use and damaged bytes are rejected with a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/store.h>

#include "base/str.h"
#include "cluster/postgres_nodes.h"
#include "cluster/postgres_store.h"
#include "contract/store_suite.h"
#include "store/copy.h"
#include "store/sqlite.h"
#include "store/sqlite_store.h"
#include "support/postgres.h"

static struct postgres_server *server; /* NULL: not installed */
static char directory[] = "/tmp/tidings-copy-XXXXXX";
static unsigned file_count;

/* ---- stores ---------------------------------------------------------------------------------- */

static void fresh_name(bool is_database, char out[POSTGRES_URL])
{
    if (is_database) {
        postgres_server_fresh(server, out);
    } else {
        (void)snprintf(out, POSTGRES_URL, "%s/%u", directory, file_count++);
    }
}

static struct store *open_store(const char *name)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    int rc = postgres_store_is_url(tidings_str(name))
                 ? postgres_store_open(name, STR("tidings"), &store, &err)
                 : sqlite_store_open(name, &store, &err);
    if (rc < 0) {
        fail_msg("%s", err.text);
    }
    return store;
}

static int copy_store(const char *from, const char *to, struct tidings_store_figures *ret,
                      struct tidings_error *err)
{
    *err = (struct tidings_error){0};
    return tidings_store_copy(&(struct tidings_store_copying){.from = from, .to = to}, ret, err);
}

static void publish(struct store *store, const char *uri, const char *content)
{
    struct published_row row = {.about = {.uri = tidings_str(uri),
                                          .etag = STR("e"),
                                          .name = STR("n"),
                                          .priority = 0.25,
                                          .has_priority = true,
                                          .modified_ms = 7,
                                          .size = 3},
                                .metadata = STR("{\"a\":1}"),
                                .content = tidings_str(content ? content : "")};
    uint64_t position = 0;
    row.about.not_subscribable = !content;
    assert_int_equal(store->ops->begin(store, NULL), 0);
    assert_int_equal(content ? store->ops->publish(store, &row, &position, NULL)
                             : store->ops->unpublish(store, &row, &position, NULL),
                     0);
    assert_int_equal(store->ops->commit(store, NULL), 0);
}

static void put_task(struct store *store, const char *id, const char *status, const char *payload)
{
    const struct stored_task task = {
        .id = tidings_str(id),
        .client = STR("alice"),
        .status = tidings_str(status),
        .message = STR("m"),
        .payload = tidings_str(payload),
        .created_ms = 1700000000000,
        .updated_ms = 1700000000007,
        .ttl_ms = 3600000,
    };
    assert_int_equal(store->ops->begin(store, NULL), 0);
    assert_int_equal(store->ops->put_task(store, &task, NULL), 0);
    assert_int_equal(store->ops->commit(store, NULL), 0);
}

static void print_task(void *user, const struct stored_task *t)
{
    buf_putf(user, "task %.*s %.*s %.*s %.*s %.*s %lld %lld %lld\n", STR_ARG(t->id),
             STR_ARG(t->client), STR_ARG(t->status), STR_ARG(t->message), STR_ARG(t->payload),
             (long long)t->created_ms, (long long)t->updated_ms, (long long)t->ttl_ms);
}

/* Entities with history, removed and replaced versions, moves, types, published and removed
 * resources, two runs, of which one ended, and tasks. */
static uint64_t fill(const char *name, uint64_t seed)
{
    const struct changelog_limits limits = {.max_entries = 1000, .max_bytes = 1u << 20};
    struct store *store = open_store(name);
    struct changelog *log = NULL;
    const struct entity_type_row type = {.name = STR("T"),
                                         .version = STR("1"),
                                         .schema = STR("{}"),
                                         .description = STR("d"),
                                         .options = STR("")};
    assert_int_equal(store->ops->create_changelog(store, &limits, &log, NULL), 0);
    uint64_t epoch = log->ops->epoch(log);
    assert_int_equal(store->ops->begin(store, NULL), 0);
    assert_int_equal(store->ops->put_type(store, &type, NULL), 0);
    assert_int_equal(store->ops->commit(store, NULL), 0);
    for (unsigned i = 0; i < 12; i++) {
        store_random_batch(store, &seed);
    }
    struct entity_version moved = {.id = STR("m"),
                                   .type = STR("T"),
                                   .type_version = STR("1"),
                                   .value = STR("1"),
                                   .changed_by = STR("[]"),
                                   .from = 1,
                                   .created = true};
    assert_int_equal(store->ops->begin(store, NULL), 0);
    assert_int_equal(store->ops->put(store, &moved, false, NULL), 0);
    moved.from = 2;
    moved.created = false;
    moved.old_type_version = STR("1");
    moved.type_version = STR("2");
    assert_int_equal(store->ops->put(store, &moved, false, NULL), 0);
    assert_int_equal(store->ops->commit(store, NULL), 0);
    publish(store, "p:///a", "one");
    publish(store, "p:///b", "two");
    publish(store, "p:///a", NULL);
    publish(store, "p:///c", "");
    put_task(store, "done", "completed", "{\"text\":\"\xC3\xA4\"}");
    put_task(store, "a", "working", "");
    put_task(store, "B", "failed", "{}");
    log->ops->destroy(log);
    store->ops->destroy(store);
    return epoch;
}

static bool put_change(void *user, const struct log_entry *c)
{
    struct buf *out = user;
    if (c->kind < LOG_ENTRY_ANNOUNCED) {
        buf_putf(out, "%llu %d %.*s %.*s %.*s %d%d %lld\n", (unsigned long long)c->position,
                 c->kind, STR_ARG(c->uri), STR_ARG(c->version.id), STR_ARG(c->old_type_version),
                 c->created, c->removed, (long long)c->at_ms);
    }
    return true;
}

/* Everything that can be read from it, and whether a cursor of the run `epoch` resumes. */
static void describe(const char *name, uint64_t epoch, struct buf *out)
{
    const struct changelog_limits limits = {.max_entries = 1000, .max_bytes = 1u << 20};
    struct store *store = open_store(name);
    struct changelog *log = NULL;
    uint64_t floor = 0, number = 0;
    store_dump(store, out);
    assert_int_equal(store->ops->each_change(store, 10000, &floor, put_change, out, NULL), 0);
    assert_int_equal(store->ops->each_task(store, print_task, out, NULL), 0);
    assert_int_equal(store->ops->create_changelog(store, &limits, &log, NULL), 0);
    bool goes_on = log->ops->resume(log, epoch, 3, true, &number);
    buf_putf(out, "floor %llu resumes %d at %llu unknown %d\n", (unsigned long long)floor, goes_on,
             (unsigned long long)number, log->ops->resume(log, epoch + 1, 3, true, &number));
    log->ops->destroy(log);
    store->ops->destroy(store);
}

static void assert_same(const char *one, const char *other, uint64_t epoch)
{
    struct buf a, b;
    buf_init(&a, 1u << 20);
    buf_init(&b, 1u << 20);
    describe(one, epoch, &a);
    describe(other, epoch, &b);
    assert_non_null(strstr(a.ptr, "resumes 1 at 3 unknown 0"));
    size_t same = 0;
    while (a.ptr[same] && a.ptr[same] == b.ptr[same]) {
        same++;
    }
    if (a.ptr[same] != b.ptr[same]) {
        fail_msg("the original:\n%.200s\nthe copy:\n%.200s", a.ptr + same, b.ptr + same);
    }
    buf_deinit(&a);
    buf_deinit(&b);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static bool has_database(unsigned directions)
{
    return directions == 0 || server != NULL;
}

static void copy_equals_the_original(void **state)
{
    (void)state;
    for (unsigned d = 0; d < 4; d++) {
        if (!has_database(d)) {
            continue;
        }
        for (uint64_t seed = 1; seed <= 3; seed++) {
            char from[POSTGRES_URL], to[POSTGRES_URL];
            struct tidings_store_figures f;
            struct tidings_error err;
            fresh_name(d & 1, from);
            fresh_name(d & 2, to);
            uint64_t epoch = fill(from, seed);
            if (copy_store(from, to, &f, &err) < 0) {
                fail_msg("direction %u: %s", d, err.text);
            }
            assert_true(f.types == 1 && f.versions > 2 && f.published == 3 && f.position > 6 &&
                        f.tasks == 3);
            assert_false(f.was_resumed);
            assert_same(from, to, epoch);
            assert_int_equal(copy_store(from, to, &f, &err), TIDINGS_E_EXISTS);
        }
    }
}

struct stopping {
    struct store *to;
    unsigned left;
};

/* One row in each batch, and stop after that number. */
static int put_one(void *user, const struct transfer_row *row, struct tidings_error *err)
{
    struct stopping *s = user;
    if (s->left-- == 0) {
        return tidings_fail(err, TIDINGS_E_CANCELLED, "stopped");
    }
    assert_int_equal(s->to->ops->begin(s->to, err), 0);
    assert_int_equal(s->to->ops->transfer->put(s->to, row, err), 0);
    return s->to->ops->commit(s->to, err);
}

static struct store *open_target(const char *name)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    int rc = postgres_store_is_url(tidings_str(name))
                 ? postgres_store_open_target(name, STR("tidings"), &store, &err)
                 : sqlite_store_open_target(name, &store, &err);
    if (rc < 0) {
        fail_msg("%s", err.text);
    }
    return store;
}

static void copy_resumes_after_interruption_anywhere(void **state)
{
    (void)state;
    for (unsigned d = 0; d < 4; d += 2) {
        char from[POSTGRES_URL];
        struct tidings_error err;
        if (!has_database(d)) {
            continue;
        }
        fresh_name(false, from);
        uint64_t epoch = fill(from, 5);
        bool is_whole = false;
        for (unsigned rows = 0; !is_whole; rows += 3) {
            char to[POSTGRES_URL];
            struct tidings_store_figures f;
            struct transfer_mark mark;
            fresh_name(d & 2, to);
            struct store *source = open_store(from), *target = open_target(to);
            struct stopping s = {target, rows};
            assert_int_equal(target->ops->transfer->begin(target, tidings_str(from), &mark, &err),
                             0);
            is_whole = source->ops->transfer->each(source, mark, put_one, &s, &err) == 0;
            target->ops->destroy(target);
            source->ops->destroy(source);
            struct store *none = NULL;
            int rc = d & 2 ? postgres_store_open(to, STR("tidings"), &none, &err)
                           : sqlite_store_open(to, &none, &err);
            assert_int_equal(rc, TIDINGS_E_BUSY);
            assert_non_null(strstr(err.text, "'tidings store copy' with the same names resumes"));
            if (copy_store(from, to, &f, &err) < 0) {
                fail_msg("after %u rows: %s", rows, err.text);
            }
            assert_true(f.was_resumed);
            assert_same(from, to, epoch);
        }
    }
}

static bool stop_at_once(void *user, const struct tidings_store_figures *done)
{
    (void)user;
    (void)done;
    return false;
}

static void copy_stops_on_request_and_compares_names(void **state)
{
    (void)state;
    char from[POSTGRES_URL], other[POSTGRES_URL], to[POSTGRES_URL];
    struct tidings_store_figures f;
    struct tidings_error err = {0};
    fresh_name(false, from);
    fresh_name(false, other);
    fresh_name(server != NULL, to);
    (void)fill(from, 1);
    (void)fill(other, 1);
    const struct tidings_store_copying stopped = {.from = from, .to = to, .progress = stop_at_once};
    assert_int_equal(tidings_store_copy(&stopped, &f, &err), TIDINGS_E_CANCELLED);
    assert_int_equal(copy_store(other, to, &f, &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "has started here"));
    assert_int_equal(copy_store(from, to, &f, &err), 0);
    assert_int_equal(copy_store(from, from, &f, &err), TIDINGS_E_INVALID);
    assert_int_equal(copy_store("", to, &f, &err), TIDINGS_E_INVALID);
    assert_int_equal(copy_store(from, "postgress://db/x", &f, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "starts with postgres://"));
    fresh_name(false, other);
    assert_int_equal(copy_store(other, to, &f, &err), TIDINGS_E_NOTFOUND);
    assert_int_equal(access(other, F_OK), -1);
}

static void copy_contains_no_password(void **state)
{
    (void)state;
    char from[POSTGRES_URL], with[POSTGRES_URL + 32], to[POSTGRES_URL], other[POSTGRES_URL];
    struct tidings_store_figures f;
    struct tidings_error err = {0};
    if (!server) {
        skip();
    }
    fresh_name(true, from);
    fresh_name(false, other);
    fresh_name(false, to);
    (void)fill(from, 1);
    (void)fill(other, 1);
    (void)snprintf(with, sizeof with, "%s&password=hunter2", from);
    const struct tidings_store_copying stopped = {.from = with, .to = to, .progress = stop_at_once};
    assert_int_equal(tidings_store_copy(&stopped, &f, &err), TIDINGS_E_CANCELLED);
    assert_int_equal(copy_store(other, to, &f, &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "has started here"));
    assert_null(strstr(err.text, "hunter2"));
    assert_int_equal(copy_store(with, to, &f, &err), 0);
}

static void copy_rejects_store_in_use(void **state)
{
    (void)state;
    char from[POSTGRES_URL], to[POSTGRES_URL];
    struct tidings_store_figures f;
    struct tidings_error err;
    for (unsigned d = 0; d < 2 && has_database(d); d++) {
        fresh_name(d, from);
        fresh_name(false, to);
        (void)fill(from, 2);
        struct store *store = open_store(from);
        if (store_is_shared(store)) {
            const struct node_row node = {
                .name = STR("alive"), .version = STR("1"), .state = STR("{}")};
            assert_int_equal(postgres_put_node(store, &node, 60000, &err), 0);
        }
        assert_int_equal(copy_store(from, to, &f, &err), TIDINGS_E_BUSY);
        store->ops->destroy(store);
    }
}

static void copy_rejects_damaged_bytes(void **state)
{
    (void)state;
    char from[POSTGRES_URL], to[POSTGRES_URL];
    struct tidings_store_figures f;
    struct tidings_error err = {0};
    struct sqlite *db = NULL;
    fresh_name(false, from);
    fresh_name(false, to);
    (void)fill(from, 3);
    assert_int_equal(sqlite_open(from, &db, &err), 0);
    assert_int_equal(sqlite_exec(db, "UPDATE log SET value='\"forged\"' WHERE id='m'", &err), 0);
    sqlite_close(db);
    assert_int_equal(copy_store(from, to, &f, &err), TIDINGS_E_INTERNAL);
    assert_non_null(strstr(err.text, "'m'"));
    assert_non_null(strstr(err.text, "damaged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_equals_the_original),
        cmocka_unit_test(copy_resumes_after_interruption_anywhere),
        cmocka_unit_test(copy_stops_on_request_and_compares_names),
        cmocka_unit_test(copy_contains_no_password),
        cmocka_unit_test(copy_rejects_store_in_use),
        cmocka_unit_test(copy_rejects_damaged_bytes),
    };
    if (!mkdtemp(directory)) {
        return 1;
    }
    server = postgres_server_start();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    postgres_server_stop(server);
    for (unsigned i = 0; i < file_count; i++) {
        static const char *const suffixes[] = {"", "-wal", "-shm"};
        for (size_t k = 0; k < 3; k++) {
            char path[64];
            (void)snprintf(path, sizeof path, "%s/%u%s", directory, i, suffixes[k]);
            (void)unlink(path);
        }
    }
    (void)rmdir(directory);
    return failed;
}
