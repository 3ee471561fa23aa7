/* SPDX-License-Identifier: MIT
 *
 * A provider with its own thread reports any failed allocation when it opens, and leaks nothing. If
 * an allocation fails while it runs, it still finishes every request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* cmocka redefines these when UNIT_TESTING is set; this file needs the ones of libc. */
#undef malloc
#undef calloc
#undef realloc
#undef free

#include "sources/command.h"
#include "sources/system.h"
#include "support/provider_host.h"

static atomic_long until_failure; /* 0 and below: no failure */
static atomic_long live;

static void *fail_alloc(size_t size)
{
    void *p = atomic_fetch_sub(&until_failure, 1) == 1 ? NULL : malloc(size);
    atomic_fetch_add(&live, p != NULL);
    return p;
}

static void *fail_resize(void *p, size_t size)
{
    if (!p) {
        return fail_alloc(size);
    }
    return atomic_fetch_sub(&until_failure, 1) == 1 ? NULL : realloc(p, size);
}

static void release(void *p)
{
    atomic_fetch_sub(&live, p != NULL);
    free(p);
}

struct subject {
    const struct tidings_provider_ops *ops;
    const char *prefix, *uri, *config;
};

static const struct subject subjects[] = {
    {&provider_system_ops, "system://metrics/", "system://metrics", "{\"interval\": \"100ms\"}"},
    {&provider_command_ops, "cmd:///it/", "cmd:///it",
     "{\"argv\": [\"echo\", \"a\", \"b\"], \"env\": {\"A\": \"b\"}, \"title\": \"t\"}"},
};

/* Open with the n-th allocation failing. Returns true if that allocation was reached. */
static bool open_with_failure(const struct subject *s, long n)
{
    struct tidings_error err = {0, ""};
    atomic_store(&until_failure, n);
    struct host *h = host_open(s->ops, s->prefix, s->config, &err);
    bool reached = atomic_exchange(&until_failure, 0) <= 0;
    assert_true(h || err.code < 0);
    if (h) {
        host_close(h);
    }
    assert_int_equal(atomic_load(&live), 0);
    return reached;
}

/* Read with the n-th allocation failing; either kind of answer is valid. */
static bool read_with_failure(const struct subject *s, struct host *h, long n)
{
    atomic_store(&until_failure, n);
    struct host_answer *a = host_read(h, s->uri);
    bool reached = atomic_exchange(&until_failure, 0) <= 0;
    assert_true(a->code < 0 || a->count == 1);
    host_answer_free(a);
    return reached;
}

static void opening_survives_every_failed_allocation(void **state)
{
    const struct subject *s = *state;
    long n = 1;
    while (open_with_failure(s, n)) {
        n++;
    }
    assert_true(n > 3);
}

static void reading_survives_every_failed_allocation(void **state)
{
    const struct subject *s = *state;
    struct host *h = host_open(s->ops, s->prefix, s->config, NULL);
    long n = 1;
    assert_non_null(h);
    while (read_with_failure(s, h, n)) {
        n++;
    }
    host_close(h);
    assert_true(n > 2);
    assert_int_equal(atomic_load(&live), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ALL(f)                                                                                     \
    cmocka_unit_test_prestate(f, (void *)(uintptr_t)&subjects[0]),                                 \
        cmocka_unit_test_prestate(f, (void *)(uintptr_t)&subjects[1])
        ALL(opening_survives_every_failed_allocation),
        ALL(reading_survives_every_failed_allocation),
    };
    tidings_set_allocator(fail_alloc, fail_resize, release);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
