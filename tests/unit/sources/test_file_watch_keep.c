/* SPDX-License-Identifier: MIT
 *
 * A file watch saves its state. The next watch with the same store announces exactly what differs,
 * even if the saved state had many parts, was moved to another device or is damaged, or if memory
 * ran out. */
#include "support/file_watching.h"

#include <sched.h>

#include <sqlite3.h>

#include "base/str.h"
#include "sources/file_watch.h"
#include "store/commit_thread.h"
#include "store/sqlite_files.h"
#include "store/sqlite_store.h"
#include "support/fail_alloc.h"

/* ---- a store, and a wrapper that numbers nothing --------------------------------------------- */

struct state_store {
    struct file_keeping keeping; /* first */
    struct commit_thread *commit_thread;
    char path[100];
    unsigned known;  /* atomic: scopes */
    unsigned parts;  /* atomic */
    unsigned resets; /* atomic: scopes that start over */
};

static int write_run(struct store_job *job, struct entities *e)
{
    const struct file_chunk *chunk = list_entry(job, struct file_chunk, job);
    int rc = sqlite_files_write(entities_store(e), chunk, &job->err);
    job->is_fatal = rc < 0;
    return rc;
}

static void write_done(struct store_job *job, int code)
{
    struct file_chunk *chunk = list_entry(job, struct file_chunk, job);
    chunk->done(chunk, code);
}

static void keep_known(struct file_keeping *k, struct tidings_str prefix, struct tidings_str uri)
{
    assert_true(str_starts(uri, prefix));
    __atomic_add_fetch(&((struct state_store *)(void *)k)->known, 1, __ATOMIC_RELAXED);
}

static void keep_save(struct file_keeping *k, struct file_chunk *chunk)
{
    __atomic_add_fetch(&((struct state_store *)(void *)k)->parts, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&((struct state_store *)(void *)k)->resets, chunk->is_reset,
                       __ATOMIC_RELAXED);
    chunk->job = (struct store_job){.is_write = true, .run = write_run, .done = write_done};
    commit_thread_submit(k->commit_thread, &chunk->job);
}

static int set_mounts(struct store_job *job, struct entities *e)
{
    const struct file_mount_row mount = {STR(MOUNT), STR("settings")};
    return sqlite_files_set_mounts(entities_store(e), &mount, 1, &job->err);
}

static void store_open(struct state_store *s, const struct fixture *f)
{
    struct tidings_error err = {0};
    struct store *store = NULL;
    struct store_job job = {.is_write = true, .run = set_mounts};
    *s = (struct state_store){.keeping = {.known = keep_known, .save = keep_save}};
    (void)snprintf(s->path, sizeof s->path, "%s/store", f->base);
    assert_int_equal(sqlite_store_open(s->path, &store, &err), 0);
    assert_int_equal(commit_thread_open(store, &s->commit_thread, &err), 0);
    s->keeping.commit_thread = s->commit_thread;
    assert_int_equal(commit_thread_run(s->commit_thread, &job), 0);
}

/* ---- runs ------------------------------------------------------------------------------------ */

#define SETTINGS ", \"quietMs\": 0, \"modifyMs\": 0, \"pollMs\": 50"

static void begin_run_with(struct fixture *f, struct state_store *s, const char *settings)
{
    store_open(s, f);
    serve(f, settings);
    provider_file_keep(host_provider(f->host), &s->keeping);
}

static void begin_run(struct fixture *f, struct state_store *s)
{
    begin_run_with(f, s, SETTINGS);
}

/* Acts like the server. Returns the number of parts. */
static unsigned end_run(struct fixture *f, struct state_store *s)
{
    struct tidings_provider *p = host_provider(f->host);
    struct store_job nothing = {.is_write = true, .run = set_mounts};
    struct file_chunk *chunk;
    provider_file_drain(p);
    assert_int_equal(commit_thread_run(s->commit_thread, &nothing), 0);
    while ((chunk = provider_file_unsaved(p))) {
        s->parts++;
        s->resets += chunk->is_reset;
        chunk->job = (struct store_job){.is_write = true, .run = write_run, .done = write_done};
        assert_int_equal(commit_thread_run(s->commit_thread, &chunk->job), 0);
    }
    host_close(f->host);
    f->host = NULL;
    commit_thread_close(s->commit_thread);
    return s->parts;
}

/* A run in which everything is watched. */
static void run_once(struct fixture *f)
{
    struct state_store s;
    begin_run(f, &s);
    watch(f, MOUNT);
    assert_int_equal(host_untaken(f->host, NULL), 0);
    (void)end_run(f, &s);
}

static void fill(struct fixture *f)
{
    make_dir(f, "d");
    make_dir(f, "d/e");
    make_dir(f, "full");
    put(f, "a", "1");
    put(f, "b", "1");
    put(f, "d/e/c", "1");
    put(f, "full/x", "1");
    assert_int_equal(symlink("a", at(f, "link")), 0);
}

static void differences_from_the_saved_state_are_announced(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    run_once(f);
    put(f, "a", "2"); /* the same size */
    remove_file(f, "b");
    put(f, "d/e/new", "1");
    move(f, "full", "moved");
    begin_run(f, &s);
    watch(f, MOUNT);
    expect(f, UPDATED, MOUNT "a");
    expect(f, UPDATED, MOUNT "link");
    expect(f, DELETED, MOUNT "b");
    expect(f, CREATED, MOUNT "d/e/new");
    expect(f, DELETED, MOUNT "full/x");
    expect(f, DELETED, MOUNT "full/");
    expect(f, CREATED, MOUNT "moved/");
    expect(f, CREATED, MOUNT "moved/x");
    expect_no_more(f);
    (void)end_run(f, &s);
}

static void last_writes_before_the_end_are_announced_before_it(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    remove_file(f, "link"); /* it is polled, not watched for events */
    begin_run(f, &s);
    watch(f, MOUNT);
    put(f, "a", "2");
    put(f, "d/new", "1");
    provider_file_drain(host_provider(f->host));
    expect(f, UPDATED, MOUNT "a");
    expect(f, CREATED, MOUNT "d/new");
    (void)end_run(f, &s);
    begin_run(f, &s);
    watch(f, MOUNT);
    expect_no_more(f);
    (void)end_run(f, &s);
}

static void link_with_a_new_target_is_another_file(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    run_once(f);
    remove_file(f, "link");
    assert_int_equal(symlink("b", at(f, "link")), 0);
    begin_run(f, &s);
    watch(f, MOUNT);
    expect(f, DELETED, MOUNT "link");
    expect(f, CREATED, MOUNT "link");
    expect_no_more(f);
    (void)end_run(f, &s);
}

static void new_root_is_compared_name_by_name(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    char aside[160];
    fill(f);
    run_once(f);
    (void)snprintf(aside, sizeof aside, "%s/before", f->base);
    assert_int_equal(rename(f->root, aside), 0);
    assert_int_equal(mkdir(f->root, 0755), 0);
    make_dir(f, "d");
    put(f, "a", "1");
    begin_run(f, &s);
    watch(f, MOUNT);
    expect(f, UPDATED, MOUNT "a");
    expect(f, DELETED, MOUNT "b");
    expect(f, DELETED, MOUNT "link");
    expect(f, DELETED, MOUNT "d/e/c");
    expect(f, DELETED, MOUNT "d/e/");
    expect(f, DELETED, MOUNT "full/x");
    expect(f, DELETED, MOUNT "full/");
    expect_no_more(f);
    (void)end_run(f, &s);
}

/* The second run watches only a smaller scope below that of the first run: the rest keeps its
 * state. */
static void unwatched_scope_is_compared_when_watched_again(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    run_once(f);
    put(f, "a", "2");
    put(f, "d/e/c", "2");
    begin_run(f, &s);
    watch(f, MOUNT "d/e/");
    expect(f, UPDATED, MOUNT "d/e/c");
    assert_int_equal(host_untaken(f->host, NULL), 0);
    (void)end_run(f, &s);
    begin_run(f, &s);
    watch(f, MOUNT);
    expect(f, UPDATED, MOUNT "a");
    expect(f, UPDATED, MOUNT "link");
    expect_no_more(f);
    (void)end_run(f, &s);
}

/* Two subtrees with five names. One is no longer watched: its state is dropped, from the store too,
 * when space runs out, and only the other subtree stays known from the start. */
static void state_that_does_not_fit_is_dropped_and_the_rest_saved(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f); /* d, d/e, d/e/c and full, full/x */
    for (unsigned is_room = 0; is_room < 2; is_room++) {
        begin_run_with(f, &s,
                       is_room ? SETTINGS ", \"lingerMs\": 0, \"keptNodes\": 5"
                               : SETTINGS ", \"lingerMs\": 0, \"keptNodes\": 4");
        watch(f, MOUNT "d/");
        watch(f, MOUNT "full/");
        host_unwatch(f->host, MOUNT "d/");
        while (!is_room && __atomic_load_n(&s.known, __ATOMIC_RELAXED) < 3) {
            sched_yield(); /* until the other one is announced once more */
        }
        (void)end_run(f, &s);
        assert_int_equal(s.resets, is_room ? 0 : 1);
        assert_int_equal(s.known, is_room ? 2 : 3);
        put(f, "d/e/c", is_room ? "22" : "333");
        put(f, "full/x", is_room ? "22" : "333");
        begin_run(f, &s);
        watch(f, MOUNT "d/");
        watch(f, MOUNT "full/");
        if (is_room) {
            expect(f, UPDATED, MOUNT "d/e/c");
        }
        expect(f, UPDATED, MOUNT "full/x");
        assert_int_equal(host_untaken(f->host, NULL), 0);
        (void)end_run(f, &s);
    }
}

static void awaited_file_is_created_later(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    begin_run(f, &s);
    watch(f, MOUNT "later/on/x");
    (void)end_run(f, &s);
    make_dir(f, "later");
    begin_run(f, &s);
    watch(f, MOUNT "later/on/x");
    (void)end_run(f, &s);
    make_dir(f, "later/on");
    put(f, "later/on/x", "1");
    begin_run(f, &s);
    watch(f, MOUNT "later/on/x");
    expect(f, CREATED, MOUNT "later/on/x");
    (void)end_run(f, &s);
}

static void large_tree_is_saved_in_chunks(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    char name[220];
    enum { DIRECTORIES = 24, FILES = 1000 };
    for (int i = 0; i < DIRECTORIES; i++) {
        (void)snprintf(name, sizeof name, "d%d", i);
        make_dir(f, name);
        for (int k = 0; k < FILES; k++) {
            (void)snprintf(name, sizeof name, "d%d/%0180d", i, k);
            assert_int_equal(link(at(f, k == 0 ? "" : "one"), at(f, name)) == 0 || k == 0, true);
            if (k == 0) {
                put(f, i == 0 ? "one" : name, "1");
            }
        }
    }
    begin_run(f, &s);
    watch(f, MOUNT);
    assert_true(end_run(f, &s) > 1);
    (void)snprintf(name, sizeof name, "d7/%0180d", 7);
    remove_file(f, name);
    begin_run(f, &s);
    watch(f, MOUNT);
    (void)snprintf(name, sizeof name, MOUNT "d7/%0180d", 7);
    expect(f, DELETED, name);
    (void)end_run(f, &s);
}

/* ---- another program changes the store ------------------------------------------------------- */

static void execute(const struct fixture *f, const char *sql)
{
    sqlite3 *db = NULL;
    char path[100], *why = NULL;
    (void)snprintf(path, sizeof path, "%s/store", f->base);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s", why);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void damaged_record_is_reported_and_replaced_by_the_current_state(void **state)
{
    static const char *const damages[] = {
        "UPDATE file_directories SET names=substr(names, 1, length(names)-1) WHERE path=x''",
        "UPDATE file_directories SET names=x'' WHERE path=x''",
        "UPDATE file_directories SET names=zeroblob(100) WHERE path=x'64'",
        ("UPDATE file_directories SET names=(SELECT names FROM file_directories WHERE path=x'')"
         " WHERE path=x'64'"),
        "UPDATE file_directories SET path=x'6400' WHERE path=x'64'",
        "UPDATE file_directories SET names='text' WHERE path=x'64'",
        "UPDATE file_directories SET names=NULL WHERE path=x'64'",
    };
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        run_once(f);
        execute(f, damages[i]);
        begin_run(f, &s);
        watch(f, MOUNT);
        expect(f, UPDATED, ""); /* changes may have been missed */
        assert_int_equal(host_untaken(f->host, NULL), 0);
        (void)end_run(f, &s);
    }
    begin_run(f, &s);
    watch(f, MOUNT);
    expect_no_more(f);
    (void)end_run(f, &s);
}

static void record_of_an_unknown_directory_is_removed(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    run_once(f);
    execute(f, "INSERT INTO file_directories SELECT mount, CAST('gone/by' AS BLOB), names FROM"
               " file_directories WHERE path=x'64'");
    run_once(f);
    make_dir(f, "gone");
    make_dir(f, "gone/by");
    begin_run(f, &s);
    watch(f, MOUNT);
    expect(f, CREATED, MOUNT "gone/");
    expect(f, CREATED, MOUNT "gone/by/");
    expect_no_more(f);
    (void)end_run(f, &s);
}

/* The saved state of another device counts for this one. The test moves it twice, so that the files
 * match at the end. */
static void changed_device_number_announces_nothing(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    run_once(f);
    execute(f, "UPDATE file_mounts SET device=4711");
    begin_run(f, &s);
    watch(f, MOUNT "later/x");
    (void)end_run(f, &s);
    execute(f, "UPDATE file_mounts SET device=4711");
    begin_run(f, &s);
    watch(f, MOUNT);
    expect_no_more(f);
    (void)end_run(f, &s);
    execute(f, "UPDATE file_mounts SET device=4711");
    begin_run(f, &s);
    watch(f, MOUNT "d/e/");
    expect(f, UPDATED, MOUNT "d/e/c");
    (void)end_run(f, &s);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void failed_allocations_are_reported_and_lose_no_change(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    run_once(f);
    bool reached = true, is_there = false;
    for (long n = 1; reached; n++) {
        put(f, "a", n % 2 ? "2" : "1");
        begin_run(f, &s);
        fail_alloc_start(n);
        int rc = host_watch(f->host, MOUNT);
        reached = fail_alloc_stop();
        if (rc < 0) {
            assert_int_equal(rc, TIDINGS_E_NOMEM);
            watch(f, MOUNT);
        }
        put(f, "sentinel", n % 2 ? "2" : "1");
        expect(f, is_there ? UPDATED : CREATED, MOUNT "sentinel");
        is_there = true;
        assert_true(host_untaken(f->host, MOUNT "a") > 0 || host_untaken(f->host, "") > 0);
        (void)end_run(f, &s);
        assert_true(n < 2000);
    }
    fail_alloc_end();
}

static void state_unsaved_after_a_failed_allocation_is_saved_later(void **state)
{
    struct fixture *f = *state;
    struct state_store s;
    fill(f);
    bool reached = true;
    for (long n = 1; reached; n++) {
        begin_run(f, &s);
        watch(f, MOUNT);
        host_forget(f->host);
        provider_file_drain(host_provider(f->host));
        put(f, "a", "2");
        fail_alloc_start(n);
        struct file_chunk *chunk = provider_file_unsaved(host_provider(f->host));
        reached = fail_alloc_stop();
        if (chunk) {
            chunk->job = (struct store_job){.is_write = true, .run = write_run, .done = write_done};
            assert_int_equal(commit_thread_run(s.commit_thread, &chunk->job), 0);
        }
        (void)end_run(f, &s);
        begin_run(f, &s);
        watch(f, MOUNT);
        expect(f, UPDATED, MOUNT "a");
        (void)end_run(f, &s);
        assert_true(n < 2000);
    }
    fail_alloc_end();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

int main(void)
{
    if (access("/dev/shm", W_OK) == 0) {
        (void)setenv("TMPDIR", "/dev/shm", 0); /* many commits */
    }
    const struct CMUnitTest tests[] = {
        TEST(differences_from_the_saved_state_are_announced),
        TEST(last_writes_before_the_end_are_announced_before_it),
        TEST(link_with_a_new_target_is_another_file),
        TEST(new_root_is_compared_name_by_name),
        TEST(unwatched_scope_is_compared_when_watched_again),
        TEST(state_that_does_not_fit_is_dropped_and_the_rest_saved),
        TEST(awaited_file_is_created_later),
        TEST(large_tree_is_saved_in_chunks),
        TEST(damaged_record_is_reported_and_replaced_by_the_current_state),
        TEST(record_of_an_unknown_directory_is_removed),
        TEST(changed_device_number_announces_nothing),
        TEST(failed_allocations_are_reported_and_lose_no_change),
        TEST(state_unsaved_after_a_failed_allocation_is_saved_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
