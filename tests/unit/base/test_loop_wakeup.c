/* SPDX-License-Identifier: MIT
 *
 * Waking an event loop: from other threads, from itself, for a host that waits on its descriptor.
 * Meant to run under the thread sanitizer too.
 */
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

static void many_sends_are_one_call(void **state)
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
    assert_true(is_ready()); /* a host may ask as often as it likes */
    loop_turn(loop);
    assert_int_equal(a_calls, 1);
    assert_int_equal(b_calls, 0);
    assert_false(is_ready());
    loop_wakeup_send(&b); /* and again, after the first was taken */
    assert_true(is_ready());
    loop_turn(loop);
    loop_turn(loop);
    assert_int_equal(a_calls, 1);
    assert_int_equal(b_calls, 1);
    loop_wakeup_deinit(&a);
    loop_wakeup_deinit(&b);
}

/* ---- from other threads ---------------------------------------------------------------------- */

enum { THREADS = 4, SENDS = 5000 };

struct shared {
    struct loop_wakeup wakeup;
    atomic_uint asked; /* how often, by all threads */
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

static void none_is_lost_that_threads_send(void **state)
{
    (void)state;
    struct shared s = {.seen = 0};
    pthread_t threads[THREADS];
    atomic_init(&s.asked, 0);
    loop_wakeup_init(&s.wakeup, loop, on_asked, &s);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &s), 0);
    }
    loop_run(loop); /* for ever, if the last one were lost */
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

static void a_signal_does_not_end_the_wait_for_good(void **state)
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

/* ---- from itself ----------------------------------------------------------------------------- */

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

static void one_that_wakes_itself_does_not_keep_the_others_waiting(void **state)
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

static void what_a_hook_sends_is_not_slept_over(void **state)
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

/* ---- what a callback may do ------------------------------------------------------------------ */

static struct loop_wakeup three[3];
static unsigned called;

static void on_deinit_all(void *user)
{
    (void)user;
    called++;
    for (int i = 0; i < 3; i++) {
        loop_wakeup_deinit(&three[i]);
        memset(&three[i], 0xa5, sizeof three[i]); /* the loop is done with the memory */
    }
}

static void a_callback_may_take_all_away(void **state)
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
    loop_wakeup_send(&outer_wakeup); /* on the outer's thread, but not in its turn */
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

static void a_callback_may_step_another_loop(void **state)
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

static void a_loop_has_two_descriptors_and_says_when_it_gets_none(void **state)
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
        TEST(many_sends_are_one_call),
        TEST(none_is_lost_that_threads_send),
        TEST(two_loops_wake_each_other),
        TEST(a_signal_does_not_end_the_wait_for_good),
        TEST(one_that_wakes_itself_does_not_keep_the_others_waiting),
        TEST(what_a_hook_sends_is_not_slept_over),
        TEST(a_callback_may_take_all_away),
        TEST(a_callback_may_step_another_loop),
        TEST(a_loop_has_two_descriptors_and_says_when_it_gets_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
