/* SPDX-License-Identifier: MIT
 *
 * A thousand listens on one resource, which changes a thousand times at a hundred per second: each
 * listen receives every change, single or coalesced, and the last one; counters add up; no state
 * remains.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/counted.h"
#include "support/served.h"

#define PER_SECOND 100u
#define LEFT_MAX (64u * 1024u)
#define SILENCE_MS 60000 /* no event for this long means that it will not arrive */

/* Under a sanitizer (TIDINGS_SLOW), a tenth of each. */
static unsigned listens = 1000, changes = 1000;

struct reader {
    int fd;
    unsigned newest; /* the last number it received */
    unsigned told;   /* changes, including coalesced ones */
    size_t len;      /* of an incomplete message */
    char text[4096];
};

static void hear(struct reader *r, const char *message)
{
    const char *merged = strstr(message, "\"dev.tidings/merged\":");
    const char *number = strstr(message, "\"n\":");
    if (!number) {
        return; /* a comment */
    }
    unsigned n = (unsigned)strtoul(number + 4, NULL, 10);
    assert_null(strstr(message, "dev.tidings/truncated"));
    assert_true(n > r->newest); /* in order, none twice */
    r->newest = n;
    r->told += merged ? (unsigned)strtoul(merged + 21, NULL, 10) : 1;
}

static void read_some(struct reader *r)
{
    ssize_t got;
    while ((got = recv(r->fd, r->text + r->len, sizeof(r->text) - 1 - r->len, MSG_DONTWAIT)) > 0) {
        r->len += (size_t)got;
        r->text[r->len] = '\0';
        char *at = r->text, *end;
        while ((end = strstr(at, "\n\n")) != NULL) {
            *end = '\0';
            hear(r, at);
            at = end + 2;
        }
        r->len -= (size_t)(at - r->text);
        memmove(r->text, at, r->len + 1);
        assert_true(r->len < sizeof(r->text) - 1);
    }
    assert_int_not_equal(got, 0); /* no client is disconnected */
}

static void *announce(void *arg)
{
    (void)arg;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (unsigned i = 1; i <= changes; i++) {
        char metadata[32];
        snprintf(metadata, sizeof(metadata), "{\"n\":%u}", i);
        served_announce("app:///a", metadata, TIDINGS_CHANGE_UPDATED);
        next.tv_nsec += 1000000000 / PER_SECOND;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return NULL;
}

static void read_all(struct reader *readers, int epoll)
{
    unsigned done = 0;
    while (done < listens) {
        struct epoll_event events[256];
        int n = epoll_wait(epoll, events, 256, SILENCE_MS);
        assert_true(n > 0);
        for (int i = 0; i < n; i++) {
            struct reader *r = events[i].data.ptr;
            bool was_done = r->newest == changes;
            read_some(r);
            done += !was_done && r->newest == changes;
        }
    }
    for (unsigned i = 0; i < listens; i++) {
        assert_int_equal(readers[i].told, changes);
    }
}

/* Memory that is allocated once and kept, such as a ring per worker, exists before the count. */
static void warm_up(void)
{
    int fds[64];
    for (unsigned i = 0; i < 64; i++) {
        fds[i] = served_listen("app:///a");
    }
    served_announce("app:///a", "", TIDINGS_CHANGE_UPDATED);
    char byte;
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(recv(fds[i], &byte, 1, 0), 1);
    }
    for (unsigned i = 0; i < 64; i++) {
        close(fds[i]);
    }
    served_await_empty();
}

static void thousand_listens_receive_thousand_changes(void **state)
{
    (void)state;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * listens + 100) {
        skip(); /* both ends are ours */
    }
    served_set("self", "true");
    served_set("log-entries", "1");
    served_run();
    warm_up();
    size_t before = counted_bytes();
    struct reader *readers = calloc(listens, sizeof(*readers));
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_true(readers && epoll >= 0);
    for (unsigned i = 0; i < listens; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &readers[i]};
        readers[i].fd = served_listen("app:///a");
        assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, readers[i].fd, &event), 0);
    }
    assert_int_equal(served_stat("subscriptions"), listens);
    uint64_t told = served_stat("deliveries") + served_stat("coalesced");
    pthread_t announcer;
    assert_int_equal(pthread_create(&announcer, NULL, announce, NULL), 0);
    read_all(readers, epoll);
    pthread_join(announcer, NULL);
    assert_int_equal(served_stat("deliveries") + served_stat("coalesced") - told,
                     (uint64_t)listens * changes);
    assert_int_equal(served_stat("truncated"), 0);
    assert_int_equal(served_stat("cut"), 0);
    for (unsigned i = 0; i < listens; i++) {
        close(readers[i].fd);
    }
    close(epoll);
    free(readers);
    served_await_empty();
    size_t after = counted_bytes();
    print_message("%zu bytes before, %zu after\n", before, after);
    assert_true(after <= before + LEFT_MAX);
}

int main(void)
{
    static char two[] = "2";
    if (getenv("TIDINGS_SLOW")) {
        listens = changes = 100;
    }
    counted_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(thousand_listens_receive_thousand_changes,
                                                 served_begin, served_end, two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
