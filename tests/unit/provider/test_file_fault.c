/* SPDX-License-Identifier: MIT
 *
 * The file provider when memory runs out: whatever allocation fails, the operation says so or
 * succeeds, and nothing leaks. The host waits for each answer, so that only one thread allocates.
 */
#include "support/file_fixture.h"

#include "support/fail_alloc.h"

static void check_answer(struct host_answer *a)
{
    assert_true(a->code == 0 || a->code == TIDINGS_E_NOMEM);
    host_answer_free(a);
}

static void use(struct host *h)
{
    check_answer(host_stat(h, MOUNT "d/a"));
    check_answer(host_read(h, MOUNT "d/a"));
    check_answer(host_read(h, MOUNT "d/"));
    check_answer(host_list(h, "", 100));
    check_answer(host_children(h, MOUNT "d/", "", 100));
    int rc = host_watch(h, MOUNT "d/");
    assert_true(rc == 0 || rc == TIDINGS_E_NOMEM);
    rc = host_watch(h, MOUNT "later/x");
    assert_true(rc == 0 || rc == TIDINGS_E_NOMEM);
}

static void whatever_allocation_fails_it_is_said_and_nothing_leaks(void **state)
{
    struct fixture *f = *state;
    char config[300];
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "d/a", "x");
    put(f, "d/e/b", "x");
    assert_int_equal(symlink("a", at(f, "d/link")), 0);
    (void)snprintf(config, sizeof config, "{\"root\": \"%s\", \"exclude\": [\"*.tmp\"]}", f->root);
    long live = fail_alloc_live();
    bool has_failed = true;
    for (long n = 1; has_failed; n++) {
        struct tidings_error err = {0};
        fail_alloc_start(n);
        struct host *h = host_open(&provider_file_ops, MOUNT, config, &err);
        if (h) {
            use(h);
        } else {
            assert_int_equal(err.code, TIDINGS_E_NOMEM);
        }
        has_failed = fail_alloc_stop();
        if (h) {
            host_close(h);
        }
        assert_int_equal(fail_alloc_live(), live);
        assert_true(n < 5000);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whatever_allocation_fails_it_is_said_and_nothing_leaks,
                                        fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
