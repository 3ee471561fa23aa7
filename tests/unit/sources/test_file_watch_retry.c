/* SPDX-License-Identifier: MIT
 *
 * Watching files while the process is out of descriptors: no change is lost, and every loss is
 * reported. */
#include <sys/resource.h>

#include "support/file_fixture.h"

/* Allow no further descriptors for the whole process; 0 restores the limit. */
static void limit_descriptors(rlim_t most)
{
    static struct rlimit before;
    struct rlimit now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    if (before.rlim_max == 0) {
        before = now;
    }
    now.rlim_cur = most > 0 ? most : before.rlim_cur;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static int close_unlimited(void **state)
{
    limit_descriptors(0);
    return fixture_close(state);
}

static void missed_changes_are_reported_and_found_later(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/a", "1");
    put(f, "d/b", "1");
    serve(f, "");
    assert_int_equal(host_watch(f->host, MOUNT), 0);
    assert_int_equal(mkdir(at(f, "new"), 0755), 0);
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "new/");
    int file = open(at(f, "d/a"), O_WRONLY | O_CLOEXEC);
    assert_true(file >= 0);
    limit_descriptors(3);
    assert_int_equal(write(file, "22", 2), 2);
    assert_int_equal(unlink(at(f, "d/b")), 0);
    assert_int_equal(mkdir(at(f, "new/deep"), 0755), 0);
    assert_int_equal(mkdir(at(f, "new/deep/er"), 0755), 0);
    host_await(f->host, TIDINGS_CHANGE_UPDATED, ""); /* some were missed */
    assert_int_equal(host_untaken(f->host, MOUNT "new/deep/"), 0);
    limit_descriptors(0);
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "d/a");
    host_await(f->host, TIDINGS_CHANGE_DELETED, MOUNT "d/b");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "new/deep/er/");
    put(f, "new/deep/er/c", "1");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "new/deep/er/c");
    close(file);
}

static void watch_is_refused_if_it_cannot_start(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "a", "1");
    serve(f, "");
    assert_int_equal(host_watch(f->host, MOUNT "a"), 0);
    limit_descriptors(3);
    assert_int_equal(host_watch(f->host, MOUNT "d/"), TIDINGS_E_BUSY);
    limit_descriptors(0);
    assert_int_equal(host_watch(f->host, MOUNT "d/"), 0);
    put(f, "d/e/x", "1");
    host_await(f->host, TIDINGS_CHANGE_CREATED, MOUNT "d/e/x");
    put(f, "a", "2");
    host_await(f->host, TIDINGS_CHANGE_UPDATED, MOUNT "a");
}

static void listings_and_reads_ask_for_a_retry_without_descriptors(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "d/e/x", "1");
    put(f, "a", "1");
    assert_int_equal(symlink("a", at(f, "link")), 0);
    serve(f, "");
    static const char *const uris[] = {MOUNT "a", MOUNT "link", MOUNT "d/", MOUNT "d/e/x"};
    limit_descriptors(3);
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct host_answer *a = host_read(f->host, uris[i]);
        assert_int_equal(a->code, TIDINGS_E_BUSY);
        host_answer_free(a);
    }
    struct host_answer *list = host_list(f->host, "", 100);
    limit_descriptors(0);
    assert_int_equal(list->code, TIDINGS_E_BUSY);
    host_answer_free(list);
    assert_true(is_listed(f, MOUNT "link"));
    check_read(f, MOUNT "d/e/x", "1");
}

/* Two more than are open: the listing opens its directory, but nothing inside. */
static void listing_without_descriptors_fails_instead_of_leaving_rows_out(void **state)
{
    struct fixture *f = *state;
    make_dir(f, "d");
    put(f, "d/x", "1");
    assert_int_equal(symlink("d/x", at(f, "link")), 0);
    serve(f, "");
    int next = dup(0);
    assert_true(next > 0);
    close(next);
    limit_descriptors((rlim_t)next + 1);
    struct host_answer *list = host_list(f->host, "", 100);
    struct host_answer *read = host_read(f->host, MOUNT);
    limit_descriptors(0);
    assert_int_equal(list->code, TIDINGS_E_BUSY);
    assert_int_equal(read->code, TIDINGS_E_BUSY);
    host_answer_free(list);
    host_answer_free(read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(missed_changes_are_reported_and_found_later, fixture_open,
                                        close_unlimited),
        cmocka_unit_test_setup_teardown(watch_is_refused_if_it_cannot_start, fixture_open,
                                        close_unlimited),
        cmocka_unit_test_setup_teardown(listings_and_reads_ask_for_a_retry_without_descriptors,
                                        fixture_open, close_unlimited),
        cmocka_unit_test_setup_teardown(
            listing_without_descriptors_fails_instead_of_leaving_rows_out, fixture_open,
            close_unlimited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
