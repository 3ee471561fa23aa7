/* SPDX-License-Identifier: MIT
 *
 * Layouts of the SQLite file: the upgrade by a newer program, and the error of an older one. Also
 * recognition of our databases: marked ones, and those restored from a dump, which lost their mark.
 * Databases of other programs are rejected by name and not modified.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "contract/durable_suite.h"
#include "store/sqlite.h"
#include "store/sqlite_internal.h"
#include "store/sqlite_store.h"

static char directory[] = "/tmp/tidings-layout-XXXXXX";
static char path[80];

static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};

static void remove_files(void)
{
    for (size_t i = 0; i < 4; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
}

/* Runs SQL on the file, and leaves it like programs that do not use a log. */
static void run_sql(const char *sql)
{
    struct sqlite *db = NULL;
    struct tidings_error err = {0};
    if (sqlite_open(path, &db, &err) < 0 || sqlite_exec(db, sql, &err) < 0 ||
        sqlite_exec(db, "PRAGMA journal_mode=DELETE", &err) < 0) {
        fail_msg("%s", err.text);
    }
    sqlite_close(db);
}

static int64_t number_of(const char *sql)
{
    struct sqlite *db = NULL;
    struct sqlite3_stmt *st = NULL;
    assert_int_equal(sqlite_peek(path, &db, NULL), 0);
    assert_int_equal(sqlite_prepare(db, sql, &st, NULL), 0);
    assert_int_equal(sqlite_step(db, st, NULL), 1);
    int64_t n = sqlite_int(st, 0);
    sqlite_finalize(st);
    sqlite_close(db);
    return n;
}

/* The bytes of the file; freed by the caller. */
static char *read_all(size_t *ret_len)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *bytes = malloc(1u << 20);
    assert_non_null(bytes);
    *ret_len = fread(bytes, 1, 1u << 20, f);
    (void)fclose(f);
    return bytes;
}

static void check_refused(const char *says)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    size_t before, after;
    char *was = read_all(&before);
    assert_int_equal(sqlite_store_open(path, &store, &err), TIDINGS_E_INVALID);
    if (!strstr(err.text, says) || !strstr(err.text, path) || !strstr(err.text, "another file")) {
        fail_msg("'%s' does not say '%s'", err.text, says);
    }
    char *is = read_all(&after);
    assert_int_equal(before, after);
    assert_memory_equal(was, is, before);
    free(was);
    free(is);
    for (size_t i = 1; i < 4; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        assert_int_equal(access(name, F_OK), -1);
    }
}

static void make_store(void)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    remove_files();
    if (sqlite_store_open(path, &store, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_true(kept_publish(store, "p:///x", "1") > 0);
    store->ops->destroy(store);
}

static void check_opens(void)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    if (sqlite_store_open(path, &store, &err) < 0) {
        fail_msg("%s", err.text);
    }
    log_entry_check_changes(store, 9, "1 published p:///x new\n");
    store->ops->destroy(store);
    assert_int_equal(number_of("PRAGMA application_id"), SQLITE_APPLICATION_ID);
    assert_true(number_of("PRAGMA user_version") > 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void new_store_is_marked(void **state)
{
    (void)state;
    make_store();
    check_opens();
}

/* The contents of an SQL dump: everything but the two numbers. */
static void restored_dump_is_accepted(void **state)
{
    (void)state;
    make_store();
    run_sql("PRAGMA application_id=0; PRAGMA user_version=0; ANALYZE;");
    assert_int_equal(number_of("PRAGMA application_id"), 0);
    check_opens();
}

static void unmarked_old_store_is_marked(void **state)
{
    (void)state;
    make_store();
    run_sql("PRAGMA application_id=0");
    check_opens();
}

static void databases_of_other_programs_are_rejected_unchanged(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *says;
    } strangers[] = {
        {"CREATE TABLE bookmarks(url TEXT)", "(tables bookmarks)"},
        {"CREATE TABLE log(line TEXT); CREATE TABLE state(n)", "(tables log, state)"},
        {"CREATE TABLE a(x); CREATE TABLE b(x); CREATE TABLE c(x); CREATE TABLE d(x);"
         "CREATE TABLE e(x)",
         "(tables a, b, c, d, …)"},
        {"CREATE TABLE \"\x1b[2J\n\"(x)", "(tables ?[2J?)"},
        {"CREATE VIEW v AS SELECT 1", "(without tables)"},
        {"PRAGMA application_id=0x47504b47; CREATE TABLE t(x)", "(GeoPackage; tables t)"},
        {"PRAGMA application_id=0x12345678", "(application id 0x12345678)"},
        {"PRAGMA application_id=-1", "(application id 0xffffffff)"},
        {"PRAGMA user_version=1; CREATE TABLE t(x)", "(tables t)"},
    };
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
        remove_files();
        run_sql(strangers[i].sql);
        check_refused(strangers[i].says);
    }
}

/* A program with one more step upgrades the file. This program then rejects it. */
static void upgrade_step_makes_older_programs_reject_file(void **state)
{
    (void)state;
    const char *const steps[] = {sqlite_store_layout.steps[0],
                                 "ALTER TABLE published ADD COLUMN more INTEGER DEFAULT 7"};
    const struct sqlite_layout newer = {.steps = steps, .count = 2};
    struct sqlite *db = NULL;
    struct tidings_error err = {0};
    struct store *rows = NULL;
    assert_int_equal(sqlite_store_layout.count, 1);
    make_store();
    assert_int_equal(number_of("PRAGMA user_version"), 1);
    assert_int_equal(sqlite_check_ours(path, &newer, &err), 0);
    for (int i = 0; i < 2; i++) { /* the second time there is nothing to do */
        assert_int_equal(sqlite_open(path, &db, &err), 0);
        assert_int_equal(sqlite_lay_out(db, &newer, &err), 0);
        assert_int_equal(sqlite_check_shape(db, &newer, &err), 0);
        assert_int_equal(sqlite_exec(db, "PRAGMA journal_mode=DELETE", &err), 0);
        sqlite_close(db);
        assert_int_equal(number_of("PRAGMA user_version"), 2);
        assert_int_equal(number_of("SELECT more FROM published WHERE uri='p:///x'"), 7);
    }
    assert_int_equal(sqlite_store_open(path, &rows, &err), TIDINGS_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "layout 2, made by a newer tidings"));
    assert_int_equal(number_of("PRAGMA user_version"), 2);
}

/* A failed step leaves the file unchanged. */
static void failed_upgrade_step_leaves_file_unchanged(void **state)
{
    (void)state;
    const char *const steps[] = {sqlite_store_layout.steps[0],
                                 "ALTER TABLE published ADD COLUMN more INTEGER",
                                 "ALTER TABLE nothing ADD COLUMN more INTEGER"};
    const struct sqlite_layout newer = {.steps = steps, .count = 3};
    struct sqlite *db = NULL;
    struct tidings_error err = {0};
    make_store();
    assert_int_equal(sqlite_open(path, &db, &err), 0);
    assert_true(sqlite_lay_out(db, &newer, &err) < 0);
    assert_int_equal(sqlite_exec(db, "PRAGMA journal_mode=DELETE", &err), 0);
    sqlite_close(db);
    assert_int_equal(number_of("PRAGMA user_version"), 1);
    check_opens();
}

/* Without our mark, a foreign trigger or column makes the file foreign. */
static void lookalike_database_is_rejected(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END",
        "ALTER TABLE log ADD COLUMN more TEXT",
        "DROP TABLE moved",
        "DROP INDEX current_parent",
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        make_store();
        run_sql("PRAGMA application_id=0; PRAGMA user_version=0;");
        run_sql(changes[i]);
        check_refused("(tables ");
    }
}

static int start(void **state)
{
    (void)state;
    if (!mkdtemp(directory)) {
        return -1;
    }
    /* letters with a meaning in a URI */
    (void)snprintf(path, sizeof path, "%s/a%%20?b#c.db", directory);
    return 0;
}

static int end(void **state)
{
    (void)state;
    remove_files();
    return rmdir(directory);
}

int main(void)
{
    struct sqlite *db = NULL;
    if (sqlite_open(":memory:", &db, NULL) == TIDINGS_E_UNSUPPORTED) {
        puts("skipped: SQLite is not installed");
        return 77;
    }
    sqlite_close(db);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_store_is_marked),
        cmocka_unit_test(restored_dump_is_accepted),
        cmocka_unit_test(unmarked_old_store_is_marked),
        cmocka_unit_test(databases_of_other_programs_are_rejected_unchanged),
        cmocka_unit_test(upgrade_step_makes_older_programs_reject_file),
        cmocka_unit_test(failed_upgrade_step_leaves_file_unchanged),
        cmocka_unit_test(lookalike_database_is_rejected),
    };
    return cmocka_run_group_tests(tests, start, end);
}
