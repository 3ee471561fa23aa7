/* SPDX-License-Identifier: MIT
 *
 * The file provider when memory runs out: whichever allocation fails, the operation succeeds or
 * reports it, and nothing leaks. The provider's threads allocate too, so this allocator uses
 * atomics (support/fail_alloc.h supports one thread). */
#include <stdatomic.h>

#include "support/file_fixture.h"

/* cmocka redefines these when UNIT_TESTING is set; this file needs the ones of libc. */
#undef malloc
#undef calloc
#undef realloc
#undef free

static atomic_long until_failure; /* 0 and below: no failure */
static atomic_bool has_failed;
static atomic_long live;

static bool is_due(void)
{
    if (atomic_fetch_sub(&until_failure, 1) == 1) {
        atomic_store(&has_failed, true);
        return true;
    }
    return false;
}

static void *failing_alloc(size_t size)
{
    void *p = is_due() ? NULL : malloc(size);
    atomic_fetch_add(&live, p ? 1 : 0);
    return p;
}

static void *failing_resize(void *p, size_t size)
{
    if (!p) {
        return failing_alloc(size);
    }
    return is_due() ? NULL : realloc(p, size);
}

static void counting_free(void *p)
{
    atomic_fetch_sub(&live, p ? 1 : 0);
    free(p);
}

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
    static const struct tidings_range last = {TIDINGS_UNIT_LINES, 0, -1, 1};
    check_answer(host_read_with(h, MOUNT "d/a", &last, NULL, SIZE_MAX));
    check_answer(host_list(h, "", 100));
    check_answer(host_children(h, MOUNT "d/", "", 100));
    check_answer(
        host_children(h, MOUNT "many/", MOUNT "many/1", 200)); /* starts inside, ends outside */
    check_answer(host_complete(h, MOUNT "{+path}", "path", "d/e", 100));
    int rc = host_watch(h, MOUNT "d/");
    assert_true(rc == 0 || rc == TIDINGS_E_NOMEM);
    rc = host_watch(h, MOUNT "later/x");
    assert_true(rc == 0 || rc == TIDINGS_E_NOMEM);
}

static void file_provider_reports_any_failed_allocation(void **state)
{
    struct fixture *f = *state;
    char config[300];
    make_dir(f, "d");
    make_dir(f, "d/e");
    put(f, "d/a", "x");
    put(f, "d/e/b", "x");
    assert_int_equal(symlink("a", at(f, "d/link")), 0);
    make_dir(f, "many");
    for (int i = 0; i < 140; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "many/%d", i);
        put(f, name, "");
    }
    (void)snprintf(config, sizeof config, "{\"root\": \"%s\", \"exclude\": [\"*.tmp\"]}", f->root);
    long before = atomic_load(&live);
    tidings_set_allocator(failing_alloc, failing_resize, counting_free);
    atomic_store(&has_failed, true);
    for (long n = 1; atomic_load(&has_failed); n++) {
        struct tidings_error err = {0};
        atomic_store(&has_failed, false);
        atomic_store(&until_failure, n);
        struct host *h = host_open(&provider_file_ops, MOUNT, config, &err);
        if (h) {
            use(h);
            atomic_store(&until_failure, 0);
            host_close(h);
        } else {
            assert_int_equal(err.code, TIDINGS_E_NOMEM);
        }
        assert_int_equal(atomic_load(&live), before);
        assert_true(n < 5000);
    }
    tidings_set_allocator(NULL, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file_provider_reports_any_failed_allocation, fixture_open,
                                        fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
