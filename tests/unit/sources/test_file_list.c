/* SPDX-License-Identifier: MIT
 *
 * Listing files: order, paging, children, bounds.
 */
#include <dirent.h>

#include "base/str.h"
#include "support/file_fixture.h"

/* Names whose raw order, encoded order and directory order all differ. */
static void make_tree(const struct fixture *f)
{
    static const char *const dirs[] = {"a",     "a/b", "a b",    "ab",       "a-b",
                                       "empty", "z",   "z/deep", "z/deep/er"};
    static const char *const files[] = {
        "a.txt", "a/1",     "a/b/2",     "a/b.c",  "a b/3",       "ab/4",   "a-b/5",
        "A",     "a!",      "a\xc3\xbc", "a\xff",  "z/deep/er/6", "z/deep", "~tilde",
        "%",     "a,comma", "a=eq",      "a/\x01", "z/deep/er-",  "zz"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        make_dir(f, dirs[i]);
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(files[i], "z/deep") != 0) {
            put(f, files[i], "x");
        }
    }
}

#define TREE_ROWS 28

static void check_ascending(const struct host_answer *a)
{
    for (size_t i = 1; i < a->count; i++) {
        if (strcmp(a->rows[i - 1].uri, a->rows[i].uri) >= 0) {
            fail_msg("'%s' comes before '%s'", a->rows[i - 1].uri, a->rows[i].uri);
        }
    }
}

static void files_below_the_root_are_listed_in_uri_order(void **state)
{
    struct fixture *f = *state;
    make_tree(f);
    serve(f, "");
    struct host_answer *a = host_list(f->host, "", 1000);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, TREE_ROWS);
    assert_false(a->is_full);
    check_ascending(a);
    for (size_t i = 0; i < a->count; i++) {
        bool has_slash = a->rows[i].uri[strlen(a->rows[i].uri) - 1] == '/';
        assert_int_equal(a->rows[i].listable, has_slash);
        assert_string_not_equal(a->rows[i].uri, MOUNT);
    }
    host_answer_free(a);
}

static void pages_of_any_size_give_the_same_rows(void **state)
{
    struct fixture *f = *state;
    make_tree(f);
    serve(f, "");
    struct host_answer *all = host_list(f->host, "", 1000);
    for (size_t size = 1; size < TREE_ROWS + 2; size += 3) {
        char after[500] = "";
        size_t seen = 0;
        bool more = true;
        while (more) {
            struct host_answer *page = host_list(f->host, after, size);
            assert_int_equal(page->code, 0);
            for (size_t i = 0; i < page->count; i++, seen++) {
                assert_true(seen < all->count);
                assert_string_equal(page->rows[i].uri, all->rows[seen].uri);
            }
            more = page->is_full;
            if (page->count > 0) {
                (void)snprintf(after, sizeof after, "%s", page->rows[page->count - 1].uri);
            }
            host_answer_free(page);
        }
        assert_int_equal(seen, all->count);
    }
    host_answer_free(all);
}

static void cursor_of_a_deleted_file_still_marks_its_position(void **state)
{
    struct fixture *f = *state;
    make_tree(f);
    serve(f, "");
    const struct {
        const char *after, *first; /* NULL: nothing follows */
    } rows[] = {
        {MOUNT "a/b/1", MOUNT "a/b/2"}, {MOUNT "a/gone/x", MOUNT "a=eq"},
        {MOUNT "a/", MOUNT "a/%01"},    {MOUNT "z/deep/er/", MOUNT "z/deep/er/6"},
        {MOUNT "zz", MOUNT "~tilde"},   {MOUNT "~tilde", NULL},
        {"file://aaa/", MOUNT "%25"},   {"file://zzz/", NULL},
        {MOUNT, MOUNT "%25"},           {MOUNT "a.txt/x", MOUNT "a/"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_answer *a = host_list(f->host, rows[i].after, 1);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->count, rows[i].first ? 1 : 0);
        if (rows[i].first) {
            assert_string_equal(a->rows[0].uri, rows[i].first);
        }
        host_answer_free(a);
    }
}

static void directories_before_the_cursor_are_not_read(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "a");
    put(f, "a/1", "x");
    put(f, "b", "x");
    serve(f, "");
    struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, at(f, "a"), old, 0), 0);
    struct host_answer *a = host_list(f->host, MOUNT "aa", 10);
    assert_int_equal(a->count, 1);
    assert_string_equal(a->rows[0].uri, MOUNT "b");
    host_answer_free(a);
    struct stat st;
    assert_int_equal(stat(at(f, "a"), &st), 0);
    assert_int_equal(st.st_atim.tv_sec, 1);
    a = host_list(f->host, MOUNT "a/2", 10); /* this listing must read the directory */
    assert_int_equal(a->count, 1);
    host_answer_free(a);
    assert_int_equal(stat(at(f, "a"), &st), 0);
    if (st.st_atim.tv_sec == 1) {
        skip(); /* mounted without access times: the test cannot detect a failure */
    }
}

static void children_are_listed_one_level_deep_in_pages(void **state)
{
    struct fixture *f = *state;
    make_tree(f);
    serve(f, "");
    struct host_answer *a = host_children(f->host, MOUNT "a/", "", 100);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 4);
    assert_string_equal(a->rows[0].uri, MOUNT "a/%01");
    assert_string_equal(a->rows[1].uri, MOUNT "a/1");
    assert_string_equal(a->rows[2].uri, MOUNT "a/b.c");
    assert_string_equal(a->rows[3].uri, MOUNT "a/b/");
    assert_string_equal(a->rows[3].name, "b");
    host_answer_free(a);
    a = host_children(f->host, MOUNT "a/", MOUNT "a/1", 1);
    assert_int_equal(a->count, 1);
    assert_true(a->is_full);
    assert_string_equal(a->rows[0].uri, MOUNT "a/b.c");
    host_answer_free(a);
    a = host_children(f->host, MOUNT "a/", MOUNT "a/b/", 10);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
    a = host_children(f->host, MOUNT, "", 100);
    assert_int_equal(a->count, 16);
    check_ascending(a);
    host_answer_free(a);
    a = host_children(f->host, MOUNT "empty/", "", 100);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
    a = host_children(f->host, MOUNT "zz", "", 100);
    assert_int_equal(a->code, TIDINGS_E_INVALID);
    host_answer_free(a);
    a = host_children(f->host, MOUNT "nothing/", "", 100);
    assert_int_equal(a->code, TIDINGS_E_NOTFOUND);
    host_answer_free(a);
}

static void listing_stops_at_the_depth_limit(void **state)
{
    struct fixture *f = *state;
    char path[400] = "";
    for (int i = 0; i < 70; i++) {
        (void)snprintf(path + strlen(path), sizeof path - strlen(path), "%sd", i ? "/" : "");
        make_dir(f, path);
    }
    serve(f, "");
    struct host_answer *a = host_list(f->host, "", 1000);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 64);
    struct host_answer *deepest = host_stat(f->host, a->rows[63].uri);
    assert_int_equal(deepest->code, 0); /* every listed file can be read */
    host_answer_free(deepest);
    host_answer_free(a);
}

static void large_directory_is_listed_completely(void **state)
{
    struct fixture *f = *state;
    char name[32];
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "file-%d", i);
        put(f, name, "");
    }
    serve(f, "");
    struct host_answer *a = host_list(f->host, "", 5000);
    assert_int_equal(a->count, 3000);
    check_ascending(a);
    host_answer_free(a);
}

static void removed_root_lists_as_empty(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "");
    serve(f, "");
    assert_int_equal(remove_tree(at(f, "")), 0);
    struct host_answer *a = host_list(f->host, "", 10);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->count, 0);
    host_answer_free(a);
    assert_int_equal(mkdir(f->root, 0755), 0);
}

/* Threads of this program. */
static size_t count_threads(void)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while (readdir(tasks)) {
        count++;
    }
    closedir(tasks);
    return count;
}

/* The pool starts its threads with its first job. */
static void small_listing_uses_no_other_thread(void **state)
{
    struct fixture *f = *state;
    char name[32];
    make_dir(f, "d");
    for (int i = 0; i < 60; i++) {
        (void)snprintf(name, sizeof name, "%sfile-%d", i % 2 ? "d/" : "", i);
        put(f, name, "");
    }
    serve(f, "");
    size_t before = count_threads();
    struct host_answer *a = host_list(f->host, "", 100);
    assert_int_equal(a->count, 61);
    host_answer_free(a);
    a = host_children(f->host, MOUNT "d/", "", 100);
    assert_int_equal(a->count, 30);
    host_answer_free(a);
    assert_int_equal(count_threads(), before);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "more-%d", i);
        put(f, name, "");
    }
    a = host_list(f->host, "", 1000);
    assert_int_equal(a->count, 261);
    host_answer_free(a);
    assert_true(count_threads() > before);
}

/* However the rows are spread over directories, the hand-over neither loses nor repeats a row. */
static void listing_that_changes_threads_gives_every_row_once(void **state)
{
    struct fixture *f = *state;
    static const struct {
        size_t dirs, files; /* files in each of the directories and in the root */
    } shapes[] = {{0, 127}, {0, 128}, {0, 129}, {1, 63}, {1, 64}, {40, 0}, {30, 3}, {9, 40}};
    serve(f, "");
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        char name[64];
        size_t rows = shapes[s].dirs + (shapes[s].dirs + 1) * shapes[s].files;
        for (size_t d = 0; d <= shapes[s].dirs; d++) {
            (void)snprintf(name, sizeof name, "d-%zu", d);
            if (d > 0) {
                make_dir(f, name);
            }
            for (size_t i = 0; i < shapes[s].files; i++) {
                if (d > 0) {
                    (void)snprintf(name, sizeof name, "d-%zu/f-%zu", d, i);
                } else {
                    (void)snprintf(name, sizeof name, "%zu-%c", i, i % 2 ? 'a' : 'z');
                }
                put(f, name, "");
            }
        }
        struct host_answer *all = host_list(f->host, "", 1000);
        assert_int_equal(all->code, 0);
        assert_int_equal(all->count, rows);
        check_ascending(all);
        for (size_t i = 0; i < rows; i += 1 + rows / 50) {
            struct host_answer *rest = host_list(f->host, all->rows[i].uri, rows / 2);
            size_t expected = rows - i - 1 < rows / 2 ? rows - i - 1 : rows / 2;
            assert_int_equal(rest->code, 0);
            assert_int_equal(rest->count, expected);
            for (size_t j = 0; j < expected; j++) {
                assert_string_equal(rest->rows[j].uri, all->rows[i + 1 + j].uri);
            }
            assert_int_equal(rest->is_full, rows - i - 1 > expected);
            host_answer_free(rest);
        }
        struct host_answer *children = host_children(f->host, MOUNT, "", 1000);
        assert_int_equal(children->count, shapes[s].dirs + shapes[s].files);
        host_answer_free(children);
        host_answer_free(all);
        assert_int_equal(remove_tree(at(f, "")), 0);
        /* the served root is gone; the next shape gets a new one */
        host_close(f->host);
        assert_int_equal(mkdir(f->root, 0755), 0);
        serve(f, "");
    }
}

int main(void)
{
#define LIST_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        LIST_TEST(files_below_the_root_are_listed_in_uri_order),
        LIST_TEST(pages_of_any_size_give_the_same_rows),
        LIST_TEST(cursor_of_a_deleted_file_still_marks_its_position),
        LIST_TEST(directories_before_the_cursor_are_not_read),
        LIST_TEST(children_are_listed_one_level_deep_in_pages),
        LIST_TEST(listing_stops_at_the_depth_limit),
        LIST_TEST(large_directory_is_listed_completely),
        LIST_TEST(removed_root_lists_as_empty),
        LIST_TEST(small_listing_uses_no_other_thread),
        LIST_TEST(listing_that_changes_threads_gives_every_row_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
