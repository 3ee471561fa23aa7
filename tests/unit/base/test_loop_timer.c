/* SPDX-License-Identifier: MIT
 *
 * Timers of the event loop, with a clock that the test controls: their order, callbacks that change
 * other timers, thousands of timers, and a loop whose other work is never starved. */
#include "base/loop.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "support/fail_alloc.h"

#define MS 1000000u

static struct clock_fake now;
static struct loop *loop;
static char events[64];

static int setup(void **state)
{
    (void)state;
    now = (struct clock_fake){.monotonic_ns = 1000 * (uint64_t)MS};
    clock_set_fake(&now);
    events[0] = '\0';
    loop = loop_create(NULL);
    return loop ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    loop_destroy(loop);
    clock_set_fake(NULL);
    return 0;
}

static void advance(uint64_t ms)
{
    now.monotonic_ns += ms * MS;
    loop_turn(loop);
}

/* A timer with a name, and the other timers that its callback changes. */
struct named {
    struct loop_timer *timer;
    char name;
    struct named *others[3];
};

static void note(char name)
{
    size_t len = strlen(events);
    assert_true(len + 1 < sizeof events);
    events[len] = name;
    events[len + 1] = '\0';
}

static void on_note(struct loop_timer *timer, void *user)
{
    struct named *n = user;
    assert_ptr_equal(timer, n->timer);
    note(n->name);
}

static struct named named_open(char name)
{
    return (struct named){.name = name};
}

static void named_start(struct named *n, loop_timer_fn fn, uint64_t after_ms, uint64_t repeat_ms)
{
    n->timer = loop_timer_open(loop, fn, n);
    assert_non_null(n->timer);
    assert_false(loop_timer_is_running(n->timer));
    loop_timer_start(n->timer, after_ms, repeat_ms);
    assert_true(loop_timer_is_running(n->timer));
}

static void due_timers_run_by_time_then_by_start(void **state)
{
    (void)state;
    struct named a = named_open('a'), b = named_open('b'), c = named_open('c'), d = named_open('d');
    named_start(&c, on_note, 20, 0);
    named_start(&a, on_note, 10, 0);
    named_start(&b, on_note, 10, 0);
    named_start(&d, on_note, 30, 0);
    assert_int_equal(loop_timeout_ms(loop), 10);
    advance(9);
    assert_string_equal(events, "");
    assert_int_equal(loop_timeout_ms(loop), 1);
    advance(1);
    assert_string_equal(events, "ab");
    assert_false(loop_timer_is_running(a.timer));
    advance(100); /* late */
    assert_string_equal(events, "abcd");
    assert_int_equal(loop_timeout_ms(loop), -1);
    struct named *all[] = {&a, &b, &c, &d};
    for (size_t i = 0; i < 4; i++) {
        loop_timer_close(all[i]->timer);
    }
}

static void restarted_timer_runs_after_the_others(void **state)
{
    (void)state;
    struct named a = named_open('a'), b = named_open('b');
    named_start(&a, on_note, 5, 0);
    named_start(&b, on_note, 10, 0);
    loop_timer_start(a.timer, 10, 0);
    advance(5);
    assert_string_equal(events, "");
    advance(5);
    assert_string_equal(events, "ba");
    loop_timer_start(a.timer, 600000, 0);
    loop_timer_stop(a.timer);
    loop_timer_stop(a.timer); /* a second call is fine */
    advance(600000);
    assert_string_equal(events, "ba");
    loop_timer_close(a.timer);
    loop_timer_close(b.timer);
}

static void repeating_timer_counts_from_its_last_run(void **state)
{
    (void)state;
    struct named a = named_open('a');
    named_start(&a, on_note, 10, 5);
    advance(10);
    advance(4);
    assert_string_equal(events, "a");
    advance(1);
    assert_string_equal(events, "aa");
    advance(17); /* three periods: once */
    assert_string_equal(events, "aaa");
    assert_int_equal(loop_timeout_ms(loop), 5);
    loop_timer_close(a.timer);
}

static void time_counts_from_the_call_not_from_the_turn(void **state)
{
    (void)state;
    struct named a = named_open('a');
    advance(0);
    now.monotonic_ns += 50 * (uint64_t)MS; /* a long callback */
    named_start(&a, on_note, 10, 0);
    assert_int_equal(loop_timeout_ms(loop), 10);
    advance(9);
    assert_string_equal(events, "");
    advance(1);
    assert_string_equal(events, "a");
    loop_timer_close(a.timer);
}

static void maximum_time_practically_never_elapses(void **state)
{
    (void)state;
    struct named a = named_open('a');
    named_start(&a, on_note, UINT64_MAX, UINT64_MAX);
    assert_int_equal(loop_timeout_ms(loop), INT_MAX);
    advance(1000000);
    assert_string_equal(events, "");
    loop_timer_close(a.timer);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void on_stop_and_close(struct loop_timer *timer, void *user)
{
    struct named *n = user;
    on_note(timer, user);
    loop_timer_stop(n->others[0]->timer);
    loop_timer_close(n->others[1]->timer);
    loop_timer_close(timer);
}

static void callback_may_stop_and_close_other_due_timers(void **state)
{
    (void)state;
    struct named a = named_open('a'), b = named_open('b'), c = named_open('c'), d = named_open('d');
    a.others[0] = &b;
    a.others[1] = &c;
    named_start(&a, on_stop_and_close, 5, 1);
    named_start(&b, on_note, 5, 0);
    named_start(&c, on_note, 5, 0);
    named_start(&d, on_note, 5, 0);
    advance(5);
    assert_string_equal(events, "ad");
    advance(1000);
    assert_string_equal(events, "ad");
    loop_timer_start(b.timer, 1, 0); /* stopped, but not closed */
    advance(1);
    assert_string_equal(events, "adb");
    loop_timer_close(b.timer);
    loop_timer_close(d.timer);
}

static void on_again(struct loop_timer *timer, void *user)
{
    on_note(timer, user);
    loop_timer_start(timer, 0, 0);
}

static void on_ready(struct loop_poll *poll, int happened, void *user)
{
    (void)poll;
    (void)happened;
    note(*(const char *)user);
}

static void timer_that_restarts_itself_waits_for_the_next_turn(void **state)
{
    (void)state;
    static char name[] = "p";
    struct named a = named_open('a'), b = named_open('b');
    int fd = eventfd(1, EFD_CLOEXEC);
    struct loop_poll *poll = loop_poll_open(loop, fd, on_ready, name, NULL);
    assert_int_equal(loop_poll_set_events(poll, LOOP_READ), 0);
    named_start(&a, on_again, 0, 0);
    named_start(&b, on_note, 0, 0);
    loop_turn(loop);
    assert_string_equal(events, "abp");
    assert_int_equal(loop_timeout_ms(loop), 0);
    loop_turn(loop);
    assert_string_equal(events, "abpap");
    loop_timer_close(a.timer);
    loop_timer_close(b.timer);
    loop_poll_close(poll);
    close(fd);
}

/* A descriptor that is always ready does not delay timers. */
static void busy_descriptor_does_not_starve_timers(void **state)
{
    (void)state;
    static char name[] = "p";
    struct named a = named_open('a');
    int fd = eventfd(1, EFD_CLOEXEC);
    struct loop_poll *poll = loop_poll_open(loop, fd, on_ready, name, NULL);
    assert_int_equal(loop_poll_set_events(poll, LOOP_READ), 0);
    named_start(&a, on_note, 3, 0);
    for (int i = 0; i < 4; i++) {
        advance(1);
    }
    assert_string_equal(events, "ppapp");
    loop_timer_close(a.timer);
    loop_poll_close(poll);
    close(fd);
}

/* ---- many timers ----------------------------------------------------------------------------- */

enum { MANY = 5000 };

struct one {
    struct loop_timer *timer;
    uint64_t due_ms;
    unsigned start;
    bool has_run;
};

static struct one many[MANY];
static const struct one *last_run;
static unsigned starts, runs;

static void on_one(struct loop_timer *timer, void *user)
{
    struct one *one = user;
    assert_ptr_equal(timer, one->timer);
    assert_false(one->has_run);
    assert_true(one->due_ms <= loop_now_ms(loop));
    if (last_run) {
        assert_true(last_run->due_ms <= one->due_ms);
        assert_true(last_run->due_ms < one->due_ms || last_run->start < one->start);
    }
    one->has_run = true;
    last_run = one;
    runs++;
}

static void start_one(struct one *one, uint64_t after_ms)
{
    one->due_ms = now.monotonic_ns / MS + after_ms;
    one->start = starts++;
    loop_timer_start(one->timer, after_ms, 0);
}

static void thousands_of_timers_run_in_order(void **state)
{
    (void)state;
    unsigned seed = 7, stopped = 0;
    starts = runs = 0;
    last_run = NULL;
    for (int i = 0; i < MANY; i++) {
        many[i] = (struct one){.timer = loop_timer_open(loop, on_one, &many[i])};
        assert_non_null(many[i].timer);
        start_one(&many[i], 1 + (unsigned)rand_r(&seed) % 500);
    }
    for (int i = 0; i < MANY; i++) {
        int which = rand_r(&seed) % 4;
        if (which == 0) {
            start_one(&many[i], 1 + (unsigned)rand_r(&seed) % 500);
        } else if (which == 1) {
            loop_timer_stop(many[i].timer);
            stopped++;
        }
    }
    for (int i = 0; i <= 500; i++) {
        advance(1);
    }
    assert_int_equal(runs, MANY - stopped);
    assert_int_equal(loop_timeout_ms(loop), -1);
    for (int i = 0; i < MANY; i++) {
        assert_false(loop_timer_is_running(many[i].timer));
        loop_timer_close(many[i].timer);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void start_needs_no_memory_and_open_reports_a_failed_allocation(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    struct named all[COUNT];
    for (long n = 1; n <= COUNT; n++) {
        fail_alloc_start(n);
        struct loop *other = loop_create(NULL);
        int open = 0;
        for (; other && open < COUNT; open++) {
            all[open] = named_open('x');
            all[open].timer = loop_timer_open(other, on_note, &all[open]);
            if (!all[open].timer) {
                break;
            }
        }
        bool failed = fail_alloc_stop();
        assert_int_equal(failed, open < COUNT);
        fail_alloc_start(1);
        for (int i = 0; i < open; i++) {
            loop_timer_start(all[i].timer, (uint64_t)i, 0);
        }
        assert_false(fail_alloc_stop());
        for (int i = 0; i < open; i++) {
            loop_timer_close(all[i].timer);
        }
        loop_destroy(other);
        assert_int_equal(fail_alloc_live(), 0);
        fail_alloc_end();
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(due_timers_run_by_time_then_by_start),
        TEST(restarted_timer_runs_after_the_others),
        TEST(repeating_timer_counts_from_its_last_run),
        TEST(time_counts_from_the_call_not_from_the_turn),
        TEST(maximum_time_practically_never_elapses),
        TEST(callback_may_stop_and_close_other_due_timers),
        TEST(timer_that_restarts_itself_waits_for_the_next_turn),
        TEST(busy_descriptor_does_not_starve_timers),
        TEST(thousands_of_timers_run_in_order),
        TEST(start_needs_no_memory_and_open_reports_a_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
