/* SPDX-License-Identifier: MIT
 *
 * Waking an event loop: from other threads, from itself, and for a host that waits on its
 * descriptor. This test is meant to run under the thread sanitizer too. */
#include "base/loop.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static struct loop *loop;

static int setup(void **state)
{
    (void)state;
    loop = loop_create(NULL);
    return loop ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    loop_destroy(loop);
    return 0;
}

static bool is_ready(void)
{
    struct pollfd host = {.fd = loop_fd(loop), .events = POLLIN};
    return poll(&host, 1, 0) == 1;
}

static void on_count(void *user)
{
    ++*(unsigned *)user;
}

static void several_sends_cause_one_call(void **state)
{
    (void)state;
    unsigned a_calls = 0, b_calls = 0;
    struct loop_wakeup a, b;
    loop_wakeup_init(&a, loop, on_count, &a_calls);
    loop_wakeup_init(&b, loop, on_count, &b_calls);
    loop_turn(loop);
    assert_int_equal(a_calls + b_calls, 0);
    assert_false(is_ready());
    for (int i = 0; i < 3; i++) {
        loop_wakeup_send(&a);
    }
    assert_true(is_ready());
    assert_true(is_ready()); /* a host may check as often as it likes */
    loop_turn(loop);
    assert_int_equal(a_calls, 1);
    assert_int_equal(b_calls, 0);
    assert_false(is_ready());
    loop_wakeup_send(&b); /* and again, after the first was handled */
    assert_true(is_ready());
    loop_turn(loop);
    loop_turn(loop);
    assert_int_equal(a_calls, 1);
    assert_int_equal(b_calls, 1);
    loop_wakeup_deinit(&a);
    loop_wakeup_deinit(&b);
}

/* ---- wake-ups from other threads ------------------------------------------------------------- */

enum { THREADS = 4, SENDS = 5000 };

struct shared {
    struct loop_wakeup wakeup;
    atomic_uint asked; /* the number of sends by all threads */
    unsigned seen;
};

static void on_asked(void *user)
{
    struct shared *s = user;
    s->seen = atomic_load(&s->asked);
    if (s->seen == THREADS * SENDS) {
        loop_stop(loop);
    }
}

static void *send_all(void *user)
{
    struct shared *s = user;
    for (int i = 0; i < SENDS; i++) {
        atomic_fetch_add(&s->asked, 1);
        loop_wakeup_send(&s->wakeup);
    }
    return NULL;
}

static void wakeups_from_threads_are_never_lost(void **state)
{
    (void)state;
    struct shared s = {.seen = 0};
    pthread_t threads[THREADS];
    atomic_init(&s.asked, 0);
    loop_wakeup_init(&s.wakeup, loop, on_asked, &s);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &s), 0);
    }
    loop_run(loop); /* waits forever if the last one is lost */
    assert_int_equal(s.seen, THREADS * SENDS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    loop_wakeup_deinit(&s.wakeup);
}

/* Two loops that wake each other in turns: each sleeps until the other has written. */
struct player {
    struct loop *loop;
    struct loop_wakeup wakeup;
    struct player *other;
    unsigned left;
};

static void on_ball(void *user)
{
    struct player *p = user;
    if (p->left-- == 0) {
        loop_stop(p->loop);
        loop_stop(p->other->loop);
    } else {
        loop_wakeup_send(&p->other->wakeup);
    }
}

static void *play(void *user)
{
    struct player *p = user;
    loop_run(p->loop);
    return NULL;
}

static void two_loops_wake_each_other(void **state)
{
    (void)state;
    struct player a = {.loop = loop, .left = 2000}, b = {.loop = loop_create(NULL), .left = 3000};
    pthread_t thread;
    a.other = &b;
    b.other = &a;
    loop_wakeup_init(&a.wakeup, a.loop, on_ball, &a);
    loop_wakeup_init(&b.wakeup, b.loop, on_ball, &b);
    assert_int_equal(pthread_create(&thread, NULL, play, &b), 0);
    loop_wakeup_send(&b.wakeup);
    loop_run(a.loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.left, 3000 - 2001);
    loop_wakeup_deinit(&a.wakeup);
    loop_wakeup_deinit(&b.wakeup);
    loop_destroy(b.loop);
}

static atomic_uint interrupted;

static void on_interrupt(int number)
{
    (void)number;
    atomic_fetch_add(&interrupted, 1);
}

static void *interrupt(void *user)
{
    pthread_t thread = *(pthread_t *)user;
    for (unsigned i = 1; i <= 50; i++) {
        (void)pthread_kill(thread, SIGUSR1);
        while (atomic_load(&interrupted) < i) {
            (void)sched_yield();
        }
    }
    loop_stop(loop);
    return NULL;
}

static void signal_does_not_end_the_wait(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    pthread_t self = pthread_self(), thread;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, &self), 0);
    loop_run(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* ---- wake-ups from the loop itself ----------------------------------------------------------- */

struct again {
    struct loop_wakeup wakeup;
    unsigned calls, left;
};

static void on_again(void *user)
{
    struct again *a = user;
    a->calls++;
    if (a->left-- > 0) {
        loop_wakeup_send(&a->wakeup);
    } else {
        loop_stop(loop);
    }
}

static void loop_that_wakes_itself_does_not_starve_others(void **state)
{
    (void)state;
    struct again a = {.left = 3};
    loop_wakeup_init(&a.wakeup, loop, on_again, &a);
    loop_wakeup_send(&a.wakeup);
    for (unsigned i = 1; i <= 4; i++) {
        assert_true(is_ready()); /* the host sees what was sent inside the turn */
        assert_int_equal(loop_timeout_ms(loop), i == 1 ? -1 : 0);
        loop_turn(loop);
        assert_int_equal(a.calls, i);
    }
    a.left = 100;
    loop_wakeup_send(&a.wakeup);
    loop_run(loop);
    assert_int_equal(a.calls, 4 + 101);
    loop_wakeup_deinit(&a.wakeup);
}

static void on_hook_send(void *user)
{
    struct again *a = user;
    if (a->calls == 0) {
        loop_wakeup_send(&a->wakeup);
    }
}

static void wakeup_sent_by_a_hook_is_handled_before_the_wait(void **state)
{
    (void)state;
    struct again a = {.left = 0};
    struct loop_hook hook;
    loop_wakeup_init(&a.wakeup, loop, on_again, &a);
    loop_hook_add(loop, &hook, on_hook_send, &a);
    loop_run(loop);
    assert_int_equal(a.calls, 1);
    loop_hook_remove(&hook);
    loop_wakeup_deinit(&a.wakeup);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static struct loop_wakeup three[3];
static unsigned called;

static void on_deinit_all(void *user)
{
    (void)user;
    called++;
    for (int i = 0; i < 3; i++) {
        loop_wakeup_deinit(&three[i]);
        memset(&three[i], 0xa5, sizeof three[i]); /* the loop no longer uses the memory */
    }
}

static void callback_may_destroy_everything(void **state)
{
    (void)state;
    called = 0;
    for (int i = 0; i < 3; i++) {
        loop_wakeup_init(&three[i], loop, on_deinit_all, NULL);
    }
    for (int i = 0; i < 3; i++) {
        loop_wakeup_send(&three[i]);
    }
    loop_turn(loop);
    loop_turn(loop);
    assert_int_equal(called, 1);
}

/* ---- a turn inside a turn ---------------------------------------------------------------------
 */

static struct loop *inner;
static struct loop_wakeup outer_wakeup, inner_wakeup;

static void on_inner(void *user)
{
    on_count(user);
    loop_wakeup_send(&outer_wakeup); /* on the outer loop's thread, but not in its turn */
}

static void on_outer_hook(void *user)
{
    if (*(unsigned *)user == 0) {
        loop_wakeup_send(&inner_wakeup);
        loop_turn(inner);
    }
}

static void on_outer(void *user)
{
    on_count(user);
    loop_stop(loop);
}

static void callback_may_run_another_loop(void **state)
{
    (void)state;
    unsigned inner_calls = 0, outer_calls = 0;
    struct loop_hook hook;
    inner = loop_create(NULL);
    loop_wakeup_init(&outer_wakeup, loop, on_outer, &outer_calls);
    loop_wakeup_init(&inner_wakeup, inner, on_inner, &inner_calls);
    loop_hook_add(loop, &hook, on_outer_hook, &inner_calls);
    loop_run(loop);
    assert_int_equal(inner_calls, 1);
    assert_int_equal(outer_calls, 1);
    loop_hook_remove(&hook);
    loop_wakeup_deinit(&outer_wakeup);
    loop_wakeup_deinit(&inner_wakeup);
    loop_destroy(inner);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct pollfd one = {.fd = fd};
        count += poll(&one, 1, 0) >= 0 && !(one.revents & POLLNVAL);
    }
    return count;
}

static void loop_has_two_descriptors_and_reports_failure_to_open_them(void **state)
{
    (void)state;
    int before = count_fds();
    struct loop *other = loop_create(NULL);
    assert_int_equal(count_fds(), before + 2);
    loop_destroy(other);
    assert_int_equal(count_fds(), before);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int next = eventfd(0, EFD_CLOEXEC);
    close(next);
    for (rlim_t room = 0; room < 2; room++) {
        struct tidings_error err = {0};
        struct rlimit little = {.rlim_cur = (rlim_t)next + room, .rlim_max = limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &little), 0);
        other = loop_create(&err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_null(other);
        assert_true(err.code < 0);
        assert_non_null(strstr(err.text, "create event loop"));
        assert_int_equal(count_fds(), before);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(several_sends_cause_one_call),
        TEST(wakeups_from_threads_are_never_lost),
        TEST(two_loops_wake_each_other),
        TEST(signal_does_not_end_the_wait),
        TEST(loop_that_wakes_itself_does_not_starve_others),
        TEST(wakeup_sent_by_a_hook_is_handled_before_the_wait),
        TEST(callback_may_destroy_everything),
        TEST(callback_may_run_another_loop),
        TEST(loop_has_two_descriptors_and_reports_failure_to_open_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
