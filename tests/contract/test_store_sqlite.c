/* SPDX-License-Identifier: MIT
 *
 * The contract of a store on SQLite; the same random batches on it and in memory, with the file
 * closed and reopened in between; a full disk; a second program; a newer layout.
 */
#include <dlfcn.h>
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
#include "contract/store_suite.h"
#include "store/memory_store.h"
#include "store/sqlite.h"
#include "store/sqlite_store.h"

static char directory[] = "/tmp/tidings-rows-XXXXXX";
static char path[64];

static struct store *open_file(void)
{
    struct tidings_error err = {0};
    struct store *r = NULL;
    if (sqlite_store_open(path, &r, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return r;
}

static void remove_file(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < 4; i++) {
        char name[80];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
}

static struct store *make(void)
{
    remove_file();
    return open_file();
}

static void random_batches_match_memory_store(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 20; round++) {
        struct store *file = make(), *memory = memory_store_create(NULL);
        uint64_t seed = round, same = round;
        for (unsigned i = 0; i < 25; i++) {
            store_random_batch(file, &seed);
            store_random_batch(memory, &same);
            assert_true(seed == same);
            if (i % 7 == 3) { /* unapplied entries are found again in the log */
                file->ops->destroy(file);
                file = open_file();
            } else if (i % 7 == 5) {
                assert_int_equal(file->ops->idle(file, NULL), 0);
            }
            struct buf a, b;
            buf_init(&a, 1u << 20);
            buf_init(&b, 1u << 20);
            store_dump(file, &a);
            store_dump(memory, &b);
            assert_string_equal(a.ptr, b.ptr);
            buf_deinit(&a);
            buf_deinit(&b);
        }
        file->ops->destroy(file);
        memory->ops->destroy(memory);
    }
}

static int put_large(struct store *r, int64_t from, struct tidings_error *err)
{
    static char value[8192];
    memset(value, 'x', sizeof value);
    const struct entity_version v = {
        .id = STR("big"), .value = tidings_strn(value, sizeof value), .from = from};
    int rc = r->ops->begin(r, err);
    rc = rc == 0 ? r->ops->put(r, &v, false, err) : rc;
    if (rc < 0) {
        r->ops->rollback(r);
        return rc;
    }
    return r->ops->commit(r, err);
}

static void full_disk_rejects_writes_until_space_is_free(void **state)
{
    (void)state;
    struct store *r = make();
    struct tidings_error err = {0};
    struct entity_version v;
    assert_int_equal(sqlite_store_limit(r, 40 * 4096, &err), 0);
    int64_t from = 1;
    int rc = 0;
    while (rc == 0 && from < 1000) {
        rc = put_large(r, from++, &err);
    }
    assert_int_equal(rc, TIDINGS_E_FULL);
    assert_string_equal(err.text, "database or disk is full");
    assert_int_equal(r->ops->find(r, STR("big"), TIMELINE_FOREVER, &v, &err), 1);
    assert_int_equal(v.from, from - 2);
    assert_int_equal(sqlite_store_limit(r, 4000 * 4096, &err), 0);
    assert_int_equal(put_large(r, from, &err), 0);
    assert_int_equal(r->ops->find(r, STR("big"), TIMELINE_FOREVER, &v, &err), 1);
    assert_int_equal(v.from, from);
    r->ops->destroy(r);
    r = open_file();
    assert_int_equal(r->ops->find(r, STR("big"), TIMELINE_FOREVER, &v, &err), 1);
    assert_int_equal(v.from, from);
    r->ops->destroy(r);
}

/* The maximum size of SQLite files in bytes; 0: unlimited. */
static void limit_memory(int64_t bytes)
{
    void *sqlite = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(sqlite);
    void *found = dlsym(sqlite, "sqlite3_hard_heap_limit64");
    long long (*limit)(long long) = NULL;
    assert_non_null(found);
    memcpy(&limit, &found, sizeof limit);
    (void)limit(bytes);
    (void)dlclose(sqlite);
}

static void rollback_works_without_memory(void **state)
{
    (void)state;
    struct store *r = make();
    struct tidings_error err = {0};
    struct entity_version found;
    const struct entity_version v = {.id = STR("x"), .value = STR("1"), .from = 1};
    assert_int_equal(r->ops->begin(r, &err), 0);
    assert_int_equal(r->ops->put(r, &v, false, &err), 0);
    limit_memory(1);
    r->ops->rollback(r);
    limit_memory(0);
    assert_int_equal(r->ops->find(r, v.id, TIMELINE_FOREVER, &found, &err), 0);
    assert_int_equal(r->ops->begin(r, &err), 0);
    r->ops->rollback(r);
    r->ops->destroy(r);
}

/* Size and times of the database and of its log. */
static void stat_files(struct stat st[2])
{
    char wal[80];
    (void)snprintf(wal, sizeof wal, "%s-wal", path);
    assert_int_equal(stat(path, &st[0]), 0);
    assert_int_equal(stat(wal, &st[1]), 0);
}

static bool count_row(void *user, const struct entity_version *version)
{
    (void)version;
    (*(size_t *)user)++;
    return true;
}

static void listing_writes_nothing_and_finds_unapplied_changes(void **state)
{
    (void)state;
    const struct entity_scope scopes[] = {
        {.type = STR_EMPTY},
        {.type = STR("T")},
        {.type = STR("T"), .type_version = STR("1")},
        {.by_parent = true, .parent = STR("p")},
        {.type = STR("T"), .by_parent = true, .parent = STR("p")},
        {.type = STR("T"), .type_version = STR("1"), .by_parent = true, .parent = STR("p")},
    };
    struct store *r = make();
    struct tidings_error err = {0};
    for (int64_t round = 1; round <= 2; round++) { /* new ones, then others and newer versions */
        assert_int_equal(r->ops->begin(r, &err), 0);
        for (int i = 0; i < 40 * (int)round; i++) {
            char id[16];
            (void)snprintf(id, sizeof id, "e%04d", i);
            const struct entity_version v = {.id = tidings_str(id),
                                             .type = STR("T"),
                                             .type_version = STR("1"),
                                             .parent = STR("p"),
                                             .value = STR("{}"),
                                             .from = round};
            assert_int_equal(r->ops->put(r, &v, false, &err), 0);
        }
        assert_int_equal(r->ops->commit(r, &err), 0);
        struct stat before[2], after[2];
        stat_files(before);
        for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
            size_t count = 0;
            assert_int_equal(r->ops->list(r, &scopes[i], STR_EMPTY, count_row, &count, &err), 0);
            assert_int_equal(count, 40 * round);
        }
        stat_files(after);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(before[i].st_size, after[i].st_size);
            assert_memory_equal(&before[i].st_mtim, &after[i].st_mtim, sizeof before[i].st_mtim);
        }
        assert_int_equal(r->ops->idle(r, &err), 0);
    }
    r->ops->destroy(r);
}

static bool stop_at_once(void *user, const struct entity_version *version)
{
    (void)user;
    (void)version;
    return false;
}

static void disk_corruption_is_detected(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE log SET value='{\"n\":2}'", /* still JSON */
        "UPDATE log SET value='{\"n\":'",   "UPDATE log SET id='b'",
        "UPDATE log SET changed_by='[{}]'", "UPDATE log SET deleted=1",
        "UPDATE log SET vfrom=2",           "UPDATE log SET sum=7",
        "UPDATE log SET sum=NULL",
    };
    const struct entity_version v = {.id = STR("a"),
                                     .type = STR("T"),
                                     .type_version = STR("1"),
                                     .value = STR("{\"n\":1}"),
                                     .changed_by = STR("[]"),
                                     .from = 1,
                                     .since = 1};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct tidings_error err = {0};
        struct store *r = make();
        struct entity_version found;
        assert_int_equal(r->ops->begin(r, &err), 0);
        assert_int_equal(r->ops->put(r, &v, false, &err), 0);
        assert_int_equal(r->ops->commit(r, &err), 0);
        assert_int_equal(r->ops->idle(r, &err), 0);
        r->ops->destroy(r);
        struct sqlite *db = NULL;
        assert_int_equal(sqlite_open(path, &db, NULL), 0);
        assert_int_equal(sqlite_exec(db, damages[i], &err), 0);
        sqlite_close(db);
        r = open_file();
        assert_int_equal(r->ops->find(r, STR("a"), TIMELINE_FOREVER, &found, &err),
                         TIDINGS_E_INTERNAL);
        assert_non_null(strstr(err.text, "damaged"));
        assert_int_equal(r->ops->history(r, STR("a"), TIMELINE_NEVER, stop_at_once, NULL, &err),
                         TIDINGS_E_INTERNAL);
        r->ops->destroy(r);
    }
}

static void second_owner_is_rejected(void **state)
{
    (void)state;
    struct store *r = make(), *second = NULL;
    struct tidings_error err = {0};
    assert_int_equal(sqlite_store_open(path, &second, &err), TIDINGS_E_BUSY);
    assert_non_null(strstr(err.text, "another program has it open"));
    r->ops->destroy(r);
}

static void newer_layout_is_rejected(void **state)
{
    (void)state;
    struct store *r = make();
    r->ops->destroy(r);
    struct sqlite *db = NULL;
    assert_int_equal(sqlite_open(path, &db, NULL), 0);
    assert_int_equal(sqlite_exec(db, "PRAGMA user_version=99", NULL), 0);
    sqlite_close(db);
    struct tidings_error err = {0};
    assert_int_equal(sqlite_store_open(path, &r, &err), TIDINGS_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "layout 99"));
}

static void non_database_file_is_rejected_with_its_name(void **state)
{
    (void)state;
    remove_file();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 100; i++) {
        (void)fputs("this is no database, it is a text\n", f);
    }
    (void)fclose(f);
    struct store *r = NULL;
    struct tidings_error err = {0};
    assert_true(sqlite_store_open(path, &r, &err) < 0);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "not a database"));
    assert_non_null(strstr(err.text, "move it away"));
}

static void check_advice(const char *where, int code, const char *advice)
{
    struct store *r = NULL;
    struct tidings_error err = {0};
    int rc = sqlite_store_open(where, &r, &err);
    if (!strstr(err.text, where) || !strstr(err.text, advice)) {
        fail_msg("'%s' does not say '%s'", err.text, advice);
    }
    assert_int_equal(rc, code);
}

static void uncreatable_file_error_explains_remedy(void **state)
{
    (void)state;
    char inside[80], beside[80];
    struct store *r = make();
    r->ops->destroy(r);
    (void)snprintf(inside, sizeof inside, "%s/x.db", path);
    (void)snprintf(beside, sizeof beside, "%s/x.db", directory);
    check_advice("/nonexistent/x.db", TIDINGS_E_NOTFOUND, "make it first");
    check_advice(inside, TIDINGS_E_NOTFOUND, "make it first");
    check_advice(directory, TIDINGS_E_INVALID, "name a file in it");
    uid_t self = geteuid(); /* root may do everything */
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(chmod(directory, 0555), 0);
    assert_int_equal(self == 0 ? seteuid(65534) : 0, 0);
    check_advice(path, TIDINGS_E_DENIED, "give it the permission");
    check_advice(beside, TIDINGS_E_DENIED, "give it the permission");
    assert_int_equal(self == 0 ? seteuid(self) : 0, 0);
    assert_int_equal(chmod(path, 0000), 0);
    assert_int_equal(self == 0 ? seteuid(65534) : 0, 0);
    check_advice(path, TIDINGS_E_DENIED, "give it the permission");
    assert_int_equal(self == 0 ? seteuid(self) : 0, 0);
    assert_int_equal(chmod(directory, 0700), 0);
    remove_file();
}

int main(void)
{
    if (!mkdtemp(directory)) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/rows.db", directory);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_batches_match_memory_store),
        cmocka_unit_test(full_disk_rejects_writes_until_space_is_free),
        cmocka_unit_test(rollback_works_without_memory),
        cmocka_unit_test(listing_writes_nothing_and_finds_unapplied_changes),
        cmocka_unit_test(disk_corruption_is_detected),
        cmocka_unit_test(second_owner_is_rejected),
        cmocka_unit_test(newer_layout_is_rejected),
        cmocka_unit_test(non_database_file_is_rejected_with_its_name),
        cmocka_unit_test(uncreatable_file_error_explains_remedy),
    };
    int failures = store_suite("sqlite", make);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    remove_file();
    (void)rmdir(directory);
    return failures;
}
