/* SPDX-License-Identifier: MIT
 *
 * What an idle listen holds: the bytes the library has allocated for it, its connection included,
 * once it was acknowledged and nothing happens. Asked of the allocator, so it does not depend on
 * time or on what else the machine does.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/served.h"

#undef malloc
#undef realloc
#undef free

#define WARM_UP 200u
#define LISTENS 2000u
/* Four blocks of memory; with what the allocator, libuv and the page tables add, 1 KiB of resident
 * memory (bench/fanout) is reached at about 870. */
#define BYTES_PER_LISTEN 800u

static size_t held;

static void count(void *p, bool add)
{
    size_t bytes = p ? malloc_usable_size(p) : 0;
    if (add) {
        __atomic_add_fetch(&held, bytes, __ATOMIC_SEQ_CST);
    } else {
        __atomic_sub_fetch(&held, bytes, __ATOMIC_SEQ_CST);
    }
}

static void *take(size_t size)
{
    void *p = malloc(size);
    count(p, true);
    return p;
}

static void *resize(void *old, size_t size)
{
    count(old, false);
    void *p = realloc(old, size);
    count(p ? p : old, true);
    return p;
}

static void release(void *p)
{
    count(p, false);
    free(p);
}

static void an_idle_listen_holds_less_than_its_bound(void **state)
{
    (void)state;
    static int fds[WARM_UP + LISTENS];
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * (WARM_UP + LISTENS) + 100) {
        skip(); /* both ends are ours */
    }
    served_run();
    size_t before = 0;
    for (unsigned i = 0; i < WARM_UP + LISTENS; i++) {
        if (i == WARM_UP) {
            before = __atomic_load_n(&held, __ATOMIC_SEQ_CST);
        }
        fds[i] = served_listen("app:///a");
    }
    size_t after = __atomic_load_n(&held, __ATOMIC_SEQ_CST);
    size_t each = (after - before) / LISTENS;
    print_message("%zu bytes per idle listen\n", each);
    assert_in_range(each, 1, BYTES_PER_LISTEN);
    for (unsigned i = 0; i < WARM_UP + LISTENS; i++) {
        close(fds[i]);
    }
}

int main(void)
{
    tidings_set_allocator(take, resize, release);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_idle_listen_holds_less_than_its_bound, served_begin,
                                        served_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
