/* SPDX-License-Identifier: MIT
 *
 * The change log beside a file keeps the contract of change logs, and the file keeps the contract
 * of durable stores. Further cases: cursors from a forgotten time, or from after an older copy was
 * made, are rejected; and a full disk.
 */
#include "contract/changelog_suite.c"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "contract/durable_suite.h"
#include "store/sqlite.h"
#include "store/sqlite_store.h"

static char directory[] = "/tmp/tidings-changes-XXXXXX";
static char path[64], copy[64];

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 8; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", i < 4 ? path : copy, suffixes[i % 4]);
        (void)unlink(name);
    }
}

static struct store *open_rows(const char *name)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    if (sqlite_store_open(name, &store, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return store;
}

static struct store *open_kept(bool is_fresh)
{
    if (is_fresh) {
        remove_files();
    }
    return open_rows(path);
}

static struct changelog *make_log(const struct changelog_limits *limits, struct tidings_error *err)
{
    struct store *store = NULL;
    struct changelog *log = NULL;
    if (sqlite_store_open(":memory:", &store, err) < 0) {
        return NULL;
    }
    (void)changelog_sqlite_create(store, limits, &log, err);
    store->ops->destroy(store);
    return log;
}

/* ---- cursors --------------------------------------------------------------------------------- */

/* A running program: its rows, its log. */
struct run {
    struct store *rows;
    struct changelog *log;
    uint64_t epoch;
};

static struct run start(const char *name)
{
    struct run r = {.rows = open_rows(name)};
    struct tidings_error err = {0};
    if (changelog_sqlite_create(r.rows, &roomy, &r.log, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_true(r.log->is_durable);
    r.epoch = r.log->ops->epoch(r.log);
    assert_int_equal(r.log->ops->first(r.log), r.rows->ops->position(r.rows));
    assert_int_equal(r.log->ops->last(r.log), r.rows->ops->position(r.rows));
    return r;
}

static void stop(struct run *r)
{
    r->log->ops->destroy(r->log);
    r->rows->ops->destroy(r->rows);
}

static void check_resumes(const struct run *r, uint64_t epoch, uint64_t position, bool expected)
{
    uint64_t at = 77;
    assert_int_equal(r->log->ops->resume(r->log, epoch, position, true, &at), expected);
    assert_true(!expected || at == position);
}

static void copy_file(void)
{
    char command[320];
    (void)snprintf(command, sizeof command, "cp %s %s; cp %s-wal %s-wal 2>/dev/null; true", path,
                   copy, path, copy);
    assert_int_equal(system(command), 0);
}

static void copy_rejects_cursors_issued_after_it_was_made(void **state)
{
    (void)state;
    remove_files();
    struct run a = start(path);
    kept_publish(a.rows, "p:///x", "1");
    copy_file();
    kept_publish(a.rows, "p:///x", "2");
    stop(&a);
    struct run original = start(path);
    check_resumes(&original, a.epoch, 2, true);
    kept_publish(original.rows, "p:///x", "3");
    stop(&original);

    struct run restored = start(copy);
    check_resumes(&restored, a.epoch, 1, true);
    check_resumes(&restored, a.epoch, 2, false);
    check_resumes(&restored, original.epoch, 2, false);
    kept_publish(restored.rows, "p:///x", "other 2");
    kept_publish(restored.rows, "p:///x", "other 3");
    stop(&restored);
    struct run later = start(copy); /* it has reached the same position by another history */
    check_resumes(&later, a.epoch, 1, true);
    check_resumes(&later, a.epoch, 2, false);
    check_resumes(&later, original.epoch, 3, false);
    check_resumes(&later, restored.epoch, 3, true);
    stop(&later);
}

static void remembered_starts_are_limited(void **state)
{
    (void)state;
    remove_files();
    struct store *store = open_rows(":memory:");
    uint64_t epochs[SQLITE_MAX_EPOCHS + 3];
    struct run r = {.rows = store};
    for (size_t i = 0; i < SQLITE_MAX_EPOCHS + 3; i++) {
        if (r.log) {
            r.log->ops->destroy(r.log);
        }
        assert_int_equal(changelog_sqlite_create(store, &roomy, &r.log, NULL), 0);
        epochs[i] = r.log->ops->epoch(r.log);
    }
    check_resumes(&r, epochs[0], 0, false);
    check_resumes(&r, epochs[3], 0, true);
    check_resumes(&r, epochs[SQLITE_MAX_EPOCHS + 1], 0, true);
    stop(&r);
}

/* Below the first number of its epoch, positions fill the log. */
static void earlier_changes_are_appended_by_position(void **state)
{
    (void)state;
    remove_files();
    struct run a = start(path);
    kept_publish(a.rows, "p:///x", "1");
    kept_publish(a.rows, "p:///y", "2");
    kept_publish(a.rows, "p:///x", "3");
    stop(&a);
    struct run b = start(path);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        struct tidings_change change = {.uri = seq == 2 ? STR("p:///y") : STR("p:///x")};
        struct change *c = change_create(&change, b.epoch, seq);
        assert_int_equal(b.log->ops->append(b.log, c), 0);
        change_unref(c);
    }
    assert_int_equal(put(b.log, "f:///z", TIDINGS_CHANGE_UPDATED), 4);
    assert_listing(b.log, 1, 100, "2 p:///y 0,3 p:///x 0,4 f:///z 0,");
    assert_int_equal(b.log->ops->floor(b.log), 0);
    b.log->ops->note_gap(b.log, 1);
    assert_int_equal(b.log->ops->floor(b.log), 1);
    stop(&b);
}

static void full_disk_rejects_publications_and_recovers(void **state)
{
    (void)state;
    remove_files();
    struct store *store = open_rows(path);
    static char large[400000];
    struct published_row row = {.content = tidings_strn(large, sizeof large)};
    struct tidings_error err = {0};
    uint64_t position = 0;
    row.about.uri = STR("p:///large");
    kept_publish(store, "p:///small", "1");
    assert_int_equal(sqlite_store_limit(store, 200000, NULL), 0);
    kept_begin(store);
    assert_int_equal(sqlite_published_put(store, &row, &position, &err), TIDINGS_E_FULL);
    assert_non_null(strstr(err.text, "full"));
    store->ops->rollback(store);
    assert_int_equal(store->ops->position(store), 1);
    assert_int_equal(log_entry_check_changes(store, 9, "1 published p:///small new\n"), 0);
    assert_int_equal(sqlite_store_limit(store, 4000000, NULL), 0);
    kept_begin(store);
    assert_int_equal(sqlite_published_put(store, &row, &position, &err), 0);
    kept_commit(store);
    assert_int_equal(position, 2);
    store->ops->destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_rejects_cursors_issued_after_it_was_made),
        cmocka_unit_test(remembered_starts_are_limited),
        cmocka_unit_test(earlier_changes_are_appended_by_position),
        cmocka_unit_test(full_disk_rejects_publications_and_recovers),
    };
    if (!mkdtemp(directory)) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/db", directory);
    (void)snprintf(copy, sizeof copy, "%s/copy", directory);
    int failed = changelog_suite("sqlite", make_log);
    failed += kept_suite("kept in a file", open_kept);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    remove_files();
    (void)rmdir(directory);
    return failed;
}
