/* SPDX-License-Identifier: MIT
 *
 * Memory of listens: the bytes that the library allocates for an idle one, including its
 * connection, and for ten thousand that connected and vanished, which must be zero. The figures
 * come from the allocator, so they depend neither on time nor on other load.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/counted.h"
#include "support/served.h"

#define WARM_UP 200u
#define LISTENS 2000u
/* Four blocks of memory, for the connection, its subscriber, the listen and its subscription: 312,
 * 216, 104 and 136 bytes here, and a little for buffers that grow in steps. With the overhead of
 * the allocator and the page tables, 870 bytes correspond to 1 KiB of resident memory
 * (bench/fanout). */
#define BYTES_PER_LISTEN 776u

#define CYCLES (getenv("TIDINGS_SLOW") ? 1000u : 10000u) /* under sanitizers fewer */
#define LEFT_MAX (64u * 1024u)

static void check_idle(int (*listen_to)(const char *uri))
{
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
            before = counted_bytes();
        }
        fds[i] = listen_to("app:///a");
        if (fds[i] < 0) {
            skip();
        }
    }
    size_t each = (counted_bytes() - before) / LISTENS;
    print_message("%zu bytes per idle listen\n", each);
    assert_in_range(each, 1, BYTES_PER_LISTEN);
    for (unsigned i = 0; i < WARM_UP + LISTENS; i++) {
        close(fds[i]);
    }
}

static void idle_listen_uses_less_memory_than_its_limit(void **state)
{
    (void)state;
    check_idle(served_listen);
}

static void idle_websocket_listen_uses_no_more_memory(void **state)
{
    (void)state;
    check_idle(served_listen_websocket);
}

/* Connects, subscribes and vanishes, by FIN and by reset. */
static void cycle(unsigned i)
{
    static const char *const uris[] = {"app:///a", "app:///*", "app:///", "app:///row/{id}"};
    int fd = i % 3 ? served_listen(uris[i % 4]) : served_listen_websocket(uris[i % 4]);
    if (fd < 0) {
        return;
    }
    if (i % 2) {
        struct linger reset = {.l_onoff = 1};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    close(fd);
}

static void listens_leak_nothing_after_10000_disconnects(void **state)
{
    (void)state;
    served_set("self", "true");
    served_set("log-entries", "1");
    served_run();
    for (unsigned i = 0; i < WARM_UP; i++) {
        cycle(i);
    }
    served_await_empty();
    size_t before = counted_bytes();
    for (unsigned i = 0, n = CYCLES; i < n; i++) {
        cycle(i);
    }
    served_await_empty();
    size_t after = counted_bytes();
    print_message("%zu bytes before, %zu after\n", before, after);
    assert_true(after <= before + LEFT_MAX);
}

int main(void)
{
    static char two[] = "2";
    counted_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(idle_listen_uses_less_memory_than_its_limit, served_begin,
                                        served_end),
        cmocka_unit_test_setup_teardown(idle_websocket_listen_uses_no_more_memory, served_begin,
                                        served_end),
        cmocka_unit_test_prestate_setup_teardown(listens_leak_nothing_after_10000_disconnects,
                                                 served_begin, served_end, two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
