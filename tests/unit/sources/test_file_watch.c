/* SPDX-License-Identifier: MIT
 *
 * Watching files: which changes of files and directories are announced, and as what.
 */
#include "base/time.h"
#include "support/file_watching.h"

/* ---- one file -------------------------------------------------------------------------------- */

static void new_file_is_created_once_with_size_and_etag(void **state)
{
    struct fixture *f = *state;
    serve_and_watch(f);
    put(f, "a b.txt", "hello");
    const struct host_change *c = host_await(f->host, CREATED, MOUNT "a%20b.txt");
    assert_true(c->has_size);
    assert_int_equal(c->size, 5);
    assert_true(c->modified_ms > 0);
    assert_string_equal(c->from, "");
    struct host_answer *a = host_stat(f->host, MOUNT "a%20b.txt");
    assert_string_equal(c->etag + 2, a->rows[0].etag + 2); /* both are young */
    host_answer_free(a);
    expect_no_more(f);
}

static void write_gives_one_update(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "one");
    serve_and_watch(f);
    put(f, "a", "two!");
    const struct host_change *c = host_await(f->host, UPDATED, MOUNT "a");
    assert_int_equal(c->size, 4);
    expect_no_more(f);
}

static void repeated_appends_to_an_open_file_are_announced(void **state)
{
    struct fixture *f = *state;
    put(f, "log", "");
    serve_and_watch(f);
    int fd = open(at(f, "log"), O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    int64_t size = 0;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(write(fd, "line\n", 5), 5);
        size += 5;
        while (host_await(f->host, UPDATED, MOUNT "log")->size != size) {
        }
    }
    close(fd);
}

static void
a_file_that_is_written_to_all_the_time_is_announced_now_and_then_and_at_the_end(void **state)
{
    struct fixture *f = *state;
    put(f, "log", "");
    serve(f, ", \"quietMs\": 2, \"modifyMs\": 100");
    watch(f, MOUNT);
    int fd = open(at(f, "log"), O_WRONLY | O_APPEND | O_CLOEXEC);
    uint64_t until = clock_monotonic_ms() + 500; /* the writer under test writes for this long */
    int64_t size = 0;
    while (clock_monotonic_ms() < until) {
        assert_int_equal(write(fd, "x", 1), 1);
        size++;
    }
    size_t count = 1;
    while (host_await(f->host, UPDATED, MOUNT "log")->size != size) {
        count++;
    }
    assert_in_range(count, 2, 8);
    close(fd);
}

static void truncation_gives_an_update(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "hello");
    serve_and_watch(f);
    assert_int_equal(truncate(at(f, "a"), 0), 0);
    const struct host_change *c = host_await(f->host, UPDATED, MOUNT "a");
    assert_true(c->has_size);
    assert_int_equal(c->size, 0);
    expect_no_more(f);
}

static void atomic_save_gives_one_update(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "one");
    serve_and_watch(f);
    for (int i = 0; i < 5; i++) {
        put(f, "a.tmp", "two");
        move(f, "a.tmp", "a");
        expect(f, UPDATED, MOUNT "a");
        /* On a slow machine the watch may see the temporary file: then it reports both of its
         * changes. */
        if (host_untaken(f->host, MOUNT "a.tmp") > 0) {
            expect(f, CREATED, MOUNT "a.tmp");
            expect(f, DELETED, MOUNT "a.tmp");
        }
    }
    expect_no_more(f);
}

static void hard_links_and_symbolic_links_are_created(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "one");
    serve_and_watch(f);
    assert_int_equal(link(at(f, "a"), at(f, "hard")), 0);
    expect(f, CREATED, MOUNT "hard");
    assert_int_equal(symlink("a", at(f, "soft")), 0);
    expect(f, CREATED, MOUNT "soft");
    assert_int_equal(symlink("/etc/passwd", at(f, "escape")), 0);
    remove_file(f, "soft");
    expect(f, DELETED, MOUNT "soft");
    put(f, "end", "");
    expect(f, CREATED, MOUNT "end");
    assert_int_equal(host_untaken(f->host, MOUNT "escape"), 0);
}

static void target_of_a_symbolic_link_is_polled(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "v1");
    make_dir(f, "v2");
    put(f, "v1/x", "one");
    put(f, "v2/x", "two!");
    assert_int_equal(symlink("v1", at(f, "current")), 0);
    assert_int_equal(symlink("current/x", at(f, "x")), 0);
    serve(f, QUICK);
    watch(f, MOUNT "x");
    watch(f, MOUNT "current/x");
    put(f, "v1/x", "one more");
    assert_int_equal(host_await(f->host, UPDATED, MOUNT "x")->size, 8);
    expect(f, UPDATED, MOUNT "current/x");
    assert_int_equal(symlink("v2", at(f, "next")), 0); /* as orchestrators replace configuration */
    move(f, "next", "current");
    /* the old target: a client that may see this one may not see the other */
    expect(f, DELETED, MOUNT "x");
    assert_int_equal(host_await(f->host, CREATED, MOUNT "x")->size, 4);
    expect(f, DELETED, MOUNT "current/x");
    expect(f, CREATED, MOUNT "current/x");
}

static void deletion_and_recreation_are_announced(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "one");
    serve_and_watch(f);
    remove_file(f, "a");
    expect(f, DELETED, MOUNT "a");
    put(f, "a", "two");
    expect(f, CREATED, MOUNT "a");
    expect_no_more(f);
    remove_file(f, "a");
    /* immediately: one update, or a deletion and a creation if a scan came between */
    put(f, "a", "three");
    put(f, "end", "");
    expect(f, CREATED, MOUNT "end");
    struct host_answer *now = host_stat(f->host, MOUNT "a");
    assert_int_equal(now->code, 0);
    host_answer_free(now);
    assert_in_range(host_untaken(f->host, MOUNT "a"), 1, 2);
}

static void renamed_file_is_deleted_and_created_with_its_origin(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "a", "one");
    serve_and_watch(f);
    move(f, "a", "d/b");
    expect(f, DELETED, MOUNT "a");
    assert_string_equal(host_await(f->host, CREATED, MOUNT "d/b")->from, MOUNT "a");
    expect_no_more(f);
}

static void rename_across_the_root_is_creation_or_deletion(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "one");
    serve_and_watch(f);
    move(f, "a", "../outside");
    expect(f, DELETED, MOUNT "a");
    move(f, "../outside", "b");
    assert_string_equal(host_await(f->host, CREATED, MOUNT "b")->from, "");
    expect_no_more(f);
}

static void permission_change_gives_an_update(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "one");
    serve_and_watch(f);
    assert_int_equal(chmod(at(f, "a"), 0), 0);
    expect(f, UPDATED, MOUNT "a");
    assert_int_equal(chmod(at(f, "a"), 0644), 0);
    expect(f, UPDATED, MOUNT "a");
    expect_no_more(f);
}

static void reading_a_file_announces_nothing(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "one");
    serve_and_watch(f);
    struct host_answer *a = host_read(f->host, MOUNT "a");
    host_answer_free(a);
    expect_no_more(f);
}

static void excluded_names_announce_nothing(void **state)
{
    struct fixture *f = *state;
    make_dir(f, ".git");
    serve(f, QUICK ", \"exclude\": [\"*.swp\"]");
    watch(f, MOUNT);
    put(f, ".git/HEAD", "x");
    put(f, "a.swp", "x");
    make_dir(f, "sub");
    make_dir(f, "sub/.git");
    put(f, "sub/.git/x", "x");
    expect(f, CREATED, MOUNT "sub/");
    expect_no_more(f);
}

/* ---- directories ----------------------------------------------------------------------------- */

static void directory_tree_filled_at_once_is_announced_completely(void **state)
{
    struct fixture *f = *state;
    serve_and_watch(f);
    for (int i = 0; i < 50; i++) {
        char path[4][40], uri[200];
        for (int depth = 0; depth < 4; depth++) {
            static const char *const tails[] = {"", "/b", "/b/c", "/b/c/x"};
            (void)snprintf(path[depth], sizeof path[depth], "a%d%s", i, tails[depth]);
        }
        make_dir(f, path[0]);
        make_dir(f, path[1]);
        make_dir(f, path[2]);
        put(f, path[3], "");
        for (int depth = 0; depth < 4; depth++) {
            (void)snprintf(uri, sizeof uri, MOUNT "%s%s", path[depth], depth < 3 ? "/" : "");
            expect(f, CREATED, uri);
        }
    }
    expect_no_more(f);
}

static void moved_tree_is_deleted_and_created_with_its_origins(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "old");
    make_dir(f, "old/sub");
    put(f, "old/sub/x", "x");
    make_dir(f, "new");
    serve_and_watch(f);
    move(f, "old", "new/tree");
    expect(f, DELETED, MOUNT "old/");
    expect(f, DELETED, MOUNT "old/sub/");
    expect(f, DELETED, MOUNT "old/sub/x");
    assert_string_equal(host_await(f->host, CREATED, MOUNT "new/tree/")->from, MOUNT "old/");
    assert_string_equal(host_await(f->host, CREATED, MOUNT "new/tree/sub/")->from,
                        MOUNT "old/sub/");
    assert_string_equal(host_await(f->host, CREATED, MOUNT "new/tree/sub/x")->from,
                        MOUNT "old/sub/x");
    put(f, "new/tree/sub/x", "more"); /* and it is watched at its new place */
    expect(f, UPDATED, MOUNT "new/tree/sub/x");
    expect_no_more(f);
}

static void tree_moved_out_and_in_is_deleted_and_created(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "d/e/x", "x");
    serve_and_watch(f);
    move(f, "d", "../outside");
    expect(f, DELETED, MOUNT "d/e/x");
    expect(f, DELETED, MOUNT "d/e/");
    expect(f, DELETED, MOUNT "d/");
    put(f, "../outside/e/y", "out there");
    expect_no_more(f);
    move(f, "../outside", "back");
    expect(f, CREATED, MOUNT "back/");
    expect(f, CREATED, MOUNT "back/e/");
    expect(f, CREATED, MOUNT "back/e/x");
    expect(f, CREATED, MOUNT "back/e/y");
    expect_no_more(f);
}

static void recreated_directory_is_watched_again(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/x", "x");
    serve_and_watch(f);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(remove_tree(at(f, "d")), 0);
        make_dir(f, "d"); /* often with the same inode number */
        put(f, "d/y", "y");
        put(f, "d/x", "again");
        /* The intermediate changes depend on timing; later changes must arrive. */
        char name[32], uri[64];
        (void)snprintf(name, sizeof name, "d/z%d", i);
        (void)snprintf(uri, sizeof uri, MOUNT "%s", name);
        put(f, name, "z");
        expect(f, CREATED, uri);
        (void)snprintf(name, sizeof name, "settled%d", i);
        (void)snprintf(uri, sizeof uri, MOUNT "%s", name);
        put(f, name, "");
        expect(f, CREATED, uri);
        host_forget(f->host);
        append(f, "d/x", "more");
        expect(f, UPDATED, MOUNT "d/x");
        host_forget(f->host);
    }
}

static void directory_that_becomes_readable_announces_its_files(void **state)
{
    struct fixture *f = *state;
    if (geteuid() == 0) {
        skip(); /* root ignores permissions */
    }
    make_dir(f, "d");
    put(f, "d/x", "x");
    assert_int_equal(chmod(at(f, "d"), 0), 0);
    serve_and_watch(f);
    assert_int_equal(chmod(at(f, "d"), 0755), 0);
    expect(f, CREATED, MOUNT "d/x");
    assert_int_equal(chmod(at(f, "d"), 0), 0);
    assert_int_equal(chmod(at(f, "d"), 0755), 0);
    put(f, "d/y", "y");
    expect(f, CREATED, MOUNT "d/y");
    expect_no_more(f);
}

static void file_replaced_by_a_directory_is_deleted_and_created(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "x");
    serve_and_watch(f);
    remove_file(f, "a");
    make_dir(f, "a");
    put(f, "a/b", "");
    expect(f, DELETED, MOUNT "a");
    expect(f, CREATED, MOUNT "a/");
    expect(f, CREATED, MOUNT "a/b");
    expect_no_more(f);
}

static void write_through_a_hard_link_is_announced_for_the_others(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "a", "1");
    assert_int_equal(link(at(f, "a"), at(f, "d/b")), 0);
    serve(f, "");
    assert_int_equal(host_watch(f->host, MOUNT), 0);
    put(f, "a", "22");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "d/b");
    append(f, "d/b", "3");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "d/b");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    put(f, "c", "1"); /* a file that gets its second name later */
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "c");
    assert_int_equal(link(at(f, "c"), at(f, "d/e")), 0);
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/e");
    append(f, "d/e", "2");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "c");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "d/e");
}

static void write_through_a_later_hard_link_is_announced(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "a", "1");
    serve(f, ", \"pollMs\": 3600000");
    assert_int_equal(host_watch(f->host, MOUNT "a"), 0);
    assert_int_equal(link(at(f, "a"), at(f, "d/b")), 0);
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a"); /* its change time differs */
    for (int i = 0; i < 3; i++) {
        append(f, "d/b", "2");
        host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    }
    put(f, "new", "1"); /* another file under the name */
    move(f, "new", "a");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    assert_int_equal(link(at(f, "a"), at(f, "d/c")), 0);
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    append(f, "d/c", "2");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    host_unwatch(f->host, MOUNT "a");
    remove_file(f, "a");
}

static void write_through_an_unwatched_hard_link_is_announced(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "a", "1");
    assert_int_equal(link(at(f, "a"), at(f, "d/b")), 0);
    serve(f, ", \"pollMs\": 20");
    assert_int_equal(host_watch(f->host, MOUNT "a"), 0);
    append(f, "d/b", "2");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
    append(f, "d/b", "3");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
}

int main(void)
{
#define WATCH_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        WATCH_TEST(write_through_a_hard_link_is_announced_for_the_others),
        WATCH_TEST(write_through_an_unwatched_hard_link_is_announced),
        WATCH_TEST(write_through_a_later_hard_link_is_announced),
        WATCH_TEST(new_file_is_created_once_with_size_and_etag),
        WATCH_TEST(write_gives_one_update),
        WATCH_TEST(repeated_appends_to_an_open_file_are_announced),
        WATCH_TEST(a_file_that_is_written_to_all_the_time_is_announced_now_and_then_and_at_the_end),
        WATCH_TEST(truncation_gives_an_update),
        WATCH_TEST(atomic_save_gives_one_update),
        WATCH_TEST(hard_links_and_symbolic_links_are_created),
        WATCH_TEST(target_of_a_symbolic_link_is_polled),
        WATCH_TEST(deletion_and_recreation_are_announced),
        WATCH_TEST(renamed_file_is_deleted_and_created_with_its_origin),
        WATCH_TEST(rename_across_the_root_is_creation_or_deletion),
        WATCH_TEST(permission_change_gives_an_update),
        WATCH_TEST(reading_a_file_announces_nothing),
        WATCH_TEST(excluded_names_announce_nothing),
        WATCH_TEST(directory_tree_filled_at_once_is_announced_completely),
        WATCH_TEST(moved_tree_is_deleted_and_created_with_its_origins),
        WATCH_TEST(tree_moved_out_and_in_is_deleted_and_created),
        WATCH_TEST(recreated_directory_is_watched_again),
        WATCH_TEST(directory_that_becomes_readable_announces_its_files),
        WATCH_TEST(file_replaced_by_a_directory_is_deleted_and_created),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
