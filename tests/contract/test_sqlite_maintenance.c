/* SPDX-License-Identifier: MIT
 *
 * Check, backup and compaction of a store in a file: while it is unused, and while another process
 * reads it for a backup, which prevents its owner from changing the database file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/store.h>

#include "base/str.h"
#include "contract/durable_suite.h"
#include "sources/published.h"
#include "store/sqlite.h"
#include "store/sqlite_store.h"

static char directory[] = "/tmp/tidings-care-XXXXXX";
static char path[64], copy[64], part[80], log_path[80];

static void remove_files(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 8; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%s%s", i < 4 ? path : copy, suffixes[i % 4]);
        (void)unlink(name);
    }
    (void)unlink(part);
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

static void close_rows(struct store *store)
{
    store->ops->destroy(store);
}

static void put_entity(struct store *r, const char *id)
{
    const struct entity_version v = {.id = tidings_str(id),
                                     .type = STR("T"),
                                     .type_version = STR("1"),
                                     .value = STR("{\"n\":1}"),
                                     .changed_by = STR("[]"),
                                     .from = 1,
                                     .since = 1};
    assert_int_equal(r->ops->begin(r, NULL), 0);
    assert_int_equal(r->ops->put(r, &v, false, NULL), 0);
    assert_int_equal(r->ops->commit(r, NULL), 0);
    assert_int_equal(r->ops->idle(r, NULL), 0);
}

static void publish(struct store *r, const char *content)
{
    char etag[PUBLISHED_ETAG_SIZE];
    uint64_t position;
    published_make_etag(tidings_str(content), STR("text/plain"), etag);
    const struct published_row row = {
        .content = tidings_str(content),
        .about = {.uri = STR("p:///x"), .mime_type = STR("text/plain"), .etag = tidings_str(etag)}};
    assert_int_equal(r->ops->begin(r, NULL), 0);
    assert_int_equal(r->ops->publish(r, &row, &position, NULL), 0);
    assert_int_equal(r->ops->commit(r, NULL), 0);
}

static void make_store(void)
{
    remove_files();
    struct store *store = open_rows(path);
    put_entity(store, "a");
    publish(store, "1");
    close_rows(store);
}

static void run_sql(const char *sql)
{
    struct sqlite *db = NULL;
    struct tidings_error err = {0};
    if (sqlite_open(path, &db, &err) < 0 || sqlite_exec(db, sql, &err) < 0) {
        fail_msg("%s", err.text);
    }
    sqlite_close(db);
}

static off_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? st.st_size : -1;
}

/* ---- checking -------------------------------------------------------------------------------- */

static void check_counts_contents(void **state)
{
    (void)state;
    struct tidings_store_figures f;
    struct tidings_error err = {0};
    make_store();
    if (tidings_store_check(path, &f, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(f.versions, 1);
    assert_int_equal(f.published, 1);
    assert_int_equal(f.position, 2);
}

static void check_reports_damage(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *says;
    } damages[] = {
        {"UPDATE log SET value='{\"n\":2}'", "damaged"},
        {"UPDATE published SET content=x'32'", "damaged"},
        {"DELETE FROM log", "not in the log"},
        {"UPDATE versions SET vfrom=2", "not in the log"},
        {"DELETE FROM versions", "newest version of listed entities is missing"},
        {"DELETE FROM current", "entities that are not"},
        {"CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END", "changed them"},
        {"PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage=2 WHERE name='current_type'",
         ""},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct tidings_error err = {0};
        make_store();
        run_sql(damages[i].sql);
        assert_true(tidings_store_check(path, NULL, &err) < 0);
        if (!strstr(err.text, damages[i].says)) {
            fail_msg("%s: '%s' does not say '%s'", damages[i].sql, err.text, damages[i].says);
        }
    }
}

static void maintenance_creates_no_file_if_store_is_missing(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    remove_files();
    assert_int_equal(tidings_store_check(path, NULL, &err), TIDINGS_E_NOTFOUND);
    assert_int_equal(tidings_store_compact(path, NULL, NULL, &err), TIDINGS_E_NOTFOUND);
    assert_int_equal(tidings_store_backup(path, copy, NULL, &err), TIDINGS_E_NOTFOUND);
    assert_int_equal(size_of(path), -1);
    assert_int_equal(size_of(copy), -1);
    run_sql("CREATE TABLE bookmarks(url TEXT)");
    assert_int_equal(tidings_store_check(path, NULL, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_store_compact(path, NULL, NULL, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_store_backup(path, copy, NULL, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "bookmarks"));
    assert_int_equal(tidings_store_check("postgres://u:secret@h/d", NULL, &err),
                     TIDINGS_E_UNSUPPORTED);
    assert_null(strstr(err.text, "secret"));
    assert_int_equal(tidings_store_check("", NULL, &err), TIDINGS_E_INVALID);
}

/* ---- compacting ------------------------------------------------------------------------------ */

static void compaction_frees_removed_space(void **state)
{
    (void)state;
    uint64_t before, after;
    struct tidings_error err = {0};
    make_store();
    run_sql("CREATE TABLE t(x); INSERT INTO t VALUES(zeroblob(4000000)); DROP TABLE t;");
    if (tidings_store_compact(path, &before, &after, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_true(before > 4000000 && after < 1000000);
    assert_int_equal(size_of(path), after);
    assert_int_equal(tidings_store_check(path, NULL, &err), 0);
}

/* ---- backing up ------------------------------------------------------------------------------ */

static void check_copy(void)
{
    struct tidings_store_figures f;
    struct tidings_error err = {0};
    if (tidings_store_check(copy, &f, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(f.versions, 1);
    assert_int_equal(f.published, 1);
}

static void unused_store_is_backed_up(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    struct stat st;
    struct tidings_error err = {0};
    make_store();
    if (tidings_store_backup(path, copy, &bytes, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_size, bytes);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(size_of(part), -1);
    check_copy();
    assert_int_equal(tidings_store_backup(path, copy, &bytes, &err), TIDINGS_E_EXISTS);
    assert_int_equal(tidings_store_backup(path, path, &bytes, &err), TIDINGS_E_EXISTS);
    (void)unlink(copy);
    FILE *f = fopen(part, "w");
    assert_non_null(f);
    (void)fclose(f);
    assert_int_equal(tidings_store_backup(path, copy, &bytes, &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "interrupted"));
    assert_int_equal(size_of(copy), -1);
}

/* Closing the first descriptor would release its locks. */
static void backup_is_rejected_in_owner_process(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    make_store();
    struct store *store = open_rows(path);
    assert_int_equal(tidings_store_backup(path, copy, NULL, &err), TIDINGS_E_BUSY);
    assert_non_null(strstr(err.text, "this very program"));
    close_rows(store);
}

/* Another process that reads for a backup from `go` until `end`, and reports the result. */
struct reader {
    pid_t pid;
    int go[2], said[2], end[2];
};

static struct reader start_reader(void)
{
    struct reader r;
    char c = '0';
    assert_true(pipe(r.go) == 0 && pipe(r.said) == 0 && pipe(r.end) == 0);
    r.pid = fork();
    assert_true(r.pid >= 0);
    if (r.pid == 0) {
        close(r.end[1]);
        bool is_asked = read(r.go[0], &c, 1) == 1;
        int fd = is_asked ? log_lock_share(log_path, NULL) : -1;
        bool is_told = write(r.said[1], fd >= 0 ? "1" : "0", 1) == 1;
        is_told = is_told && read(r.end[0], &c, 1) == 0;
        _exit(is_told ? 0 : 1);
    }
    close(r.end[0]);
    return r;
}

static void let_read(struct reader *r)
{
    char c = '0';
    assert_int_equal(write(r->go[1], "g", 1), 1);
    assert_int_equal(read(r->said[0], &c, 1), 1);
    assert_int_equal(c, '1');
}

static void end_reader(struct reader *r)
{
    int status;
    close(r->end[1]);
    assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
    assert_int_equal(status, 0);
    close(r->go[0]);
    close(r->go[1]);
    close(r->said[0]);
    close(r->said[1]);
}

/* More than fits into the log before it is copied into the database. */
static void write_much(struct store *store)
{
    static char text[100001];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 60; i++) {
        publish(store, text);
    }
}

static void database_is_unchanged_during_backup(void **state)
{
    (void)state;
    make_store();
    struct reader reader = start_reader();
    struct store *store = open_rows(path);
    off_t before = size_of(path);
    let_read(&reader);
    write_much(store);
    assert_int_equal(size_of(path), before);
    assert_true(size_of(log_path) > 6000000);
    end_reader(&reader);
    write_much(store);
    assert_true(size_of(path) > before);
    close_rows(store);
    assert_int_equal(tidings_store_check(path, NULL, NULL), 0);
}

static void owner_keeps_its_log_if_it_ends_during_backup(void **state)
{
    (void)state;
    make_store();
    struct reader reader = start_reader();
    struct store *store = open_rows(path);
    off_t before = size_of(path);
    let_read(&reader);
    write_much(store);
    close_rows(store);
    assert_int_equal(size_of(path), before);
    assert_true(size_of(log_path) > 6000000);
    end_reader(&reader);
    store = open_rows(path);
    log_entry_check_changes(store, 99, "1 entity a@1\n62 published p:///x\n");
    close_rows(store);
    assert_int_equal(size_of(log_path), -1);
}

int main(void)
{
    if (!mkdtemp(directory)) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/store.db", directory);
    (void)snprintf(log_path, sizeof log_path, "%s-wal", path);
    (void)snprintf(copy, sizeof copy, "%s/copy.db", directory);
    (void)snprintf(part, sizeof part, "%s.part", copy);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_counts_contents),
        cmocka_unit_test(check_reports_damage),
        cmocka_unit_test(maintenance_creates_no_file_if_store_is_missing),
        cmocka_unit_test(compaction_frees_removed_space),
        cmocka_unit_test(unused_store_is_backed_up),
        cmocka_unit_test(backup_is_rejected_in_owner_process),
        cmocka_unit_test(database_is_unchanged_during_backup),
        cmocka_unit_test(owner_keeps_its_log_if_it_ends_during_backup),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_files();
    (void)rmdir(directory);
    return failed;
}
