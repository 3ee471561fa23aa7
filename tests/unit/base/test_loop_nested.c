/* SPDX-License-Identifier: MIT
 *
 * Turns inside callbacks of the same loop, and a descriptor that shows timers.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/time.h"

static struct loop *loop;

/* A pointer to the message `c`, as user data. */
static void *name(char c)
{
    static char messages[128];
    messages[(unsigned char)c & 127] = c;
    return &messages[(unsigned char)c & 127];
}

/* The events, one message each. */
static char events[64];
static size_t event_count;

static void note(char c)
{
    if (event_count + 1 < sizeof events) {
        events[event_count++] = c;
        events[event_count] = '\0';
    }
}

static int setup(void **state)
{
    (void)state;
    event_count = 0;
    events[0] = '\0';
    loop = loop_create(NULL);
    return loop ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    loop_destroy(loop);
    return 0;
}

static bool is_readable(void)
{
    struct pollfd host = {.fd = loop_fd(loop), .events = POLLIN};
    return poll(&host, 1, 0) == 1;
}

/* ---- discards -------------------------------------------------------------------------------- */

struct thing {
    struct loop_discard discard;
    struct loop_timer timer;
    char name;
};

static void thing_free(void *user)
{
    struct thing *t = user;
    note(t->name);
    mem_free(t);
}

static void on_discard(struct loop_timer *timer, void *user)
{
    struct thing *t = user;
    (void)timer;
    loop_discard(loop, &t->discard, thing_free, t);
    note('d');
}

/* A nested turn frees the object that its caller still holds, if discards are freed too early. */
static void on_nesting(struct loop_timer *timer, void *user)
{
    struct thing *t = user;
    loop_timer_init(&t->timer, loop, on_discard, t);
    loop_timer_start(&t->timer, 0, 0);
    loop_turn(loop);
    loop_turn(loop);
    loop_free_discarded(loop); /* not inside a turn */
    assert_string_equal(events, "d");
    assert_int_equal(t->name, 'D');
    assert_false(loop_timer_is_running(timer));
    note('n');
}

static void discards_of_a_nested_turn_are_freed_after_the_outermost(void **state)
{
    (void)state;
    struct thing *t = mem_zalloc(sizeof *t);
    struct loop_timer timer;
    t->name = 'D';
    loop_timer_init(&timer, loop, on_nesting, t);
    loop_timer_start(&timer, 0, 0);
    loop_turn(loop);
    assert_string_equal(events, "dnD");
}

/* ---- descriptors ----------------------------------------------------------------------------- */

struct pipe {
    struct loop_poll *poll;
    int fds[2];
    char name;
    struct pipe *closes; /* in a nested turn */
    bool nests;
};

static void pipe_open(struct pipe *p, char name, loop_poll_fn fn)
{
    assert_int_equal(pipe2(p->fds, O_CLOEXEC), 0);
    assert_int_equal(write(p->fds[1], "x", 1), 1);
    p->name = name;
    p->poll = loop_poll_open(loop, p->fds[0], fn, p, NULL);
    assert_non_null(p->poll);
    assert_int_equal(loop_poll_set_events(p->poll, LOOP_READ), 0);
}

static void pipe_close(struct pipe *p)
{
    if (p->poll) {
        loop_poll_close(p->poll);
        p->poll = NULL;
        close(p->fds[0]);
        close(p->fds[1]);
    }
}

static void on_pipe(struct loop_poll *poll, int happened, void *user)
{
    struct pipe *p = user;
    char byte;
    assert_ptr_equal(poll, p->poll); /* even after a nested turn has handled the events */
    assert_int_equal(happened, LOOP_READ);
    assert_int_equal(read(p->fds[0], &byte, 1), 1); /* never called without an event */
    note(p->name);
    if (p->closes) {
        pipe_close(p->closes);
    }
    if (p->nests) {
        p->nests = false;
        note('(');
        loop_turn(loop);
        loop_turn(loop);
        note(')');
    }
}

static void nested_turn_handles_the_remaining_events(void **state)
{
    (void)state;
    struct pipe a = {.nests = true}, b = {.nests = true}, c = {0};
    pipe_open(&a, 'a', on_pipe);
    pipe_open(&b, 'b', on_pipe);
    pipe_open(&c, 'c', on_pipe);
    loop_turn(loop);
    loop_turn(loop);
    assert_string_equal(events, "a(b(c))");
    pipe_close(&a);
    pipe_close(&b);
    pipe_close(&c);
}

static void descriptor_closed_in_a_nested_turn_is_not_called(void **state)
{
    (void)state;
    struct pipe a = {.nests = true}, b = {0}, c = {0}, again = {0};
    pipe_open(&a, 'a', on_pipe);
    pipe_open(&b, 'b', on_pipe);
    pipe_open(&c, 'c', on_pipe); /* has an event that is not dispatched yet */
    b.closes = &c;
    loop_turn(loop);
    assert_string_equal(events, "a(b)");
    pipe_open(&again, 'g', on_pipe); /* has the number of a closed one */
    loop_turn(loop);
    assert_string_equal(events, "a(b)g");
    pipe_close(&a);
    pipe_close(&b);
    pipe_close(&again);
}

/* The callback's own descriptor is closed by the nested turn, and its memory stays. */
static void on_closed_inside(struct loop_poll *poll, int happened, void *user)
{
    struct pipe *p = user;
    (void)happened;
    note(p->name);
    loop_turn(loop);
    assert_null(p->poll);
    assert_int_equal(poll->fd, 0); /* AddressSanitizer detects whether it was freed */
}

static void callback_outlives_its_descriptor(void **state)
{
    (void)state;
    struct pipe a = {0}, b = {0};
    pipe_open(&a, 'a', on_closed_inside);
    pipe_open(&b, 'b', on_pipe);
    b.closes = &a;
    loop_turn(loop);
    assert_string_equal(events, "ab");
    pipe_close(&b);
}

static struct loop_wakeup wakeups[2];

static void on_wakeup(void *user)
{
    note(*(const char *)user);
    if (*(const char *)user == '1') {
        loop_wakeup_send(&wakeups[1]);
        note('(');
        loop_turn(loop);
        note(')');
    }
}

static void on_waking(struct loop_poll *poll, int happened, void *user)
{
    (void)happened;
    (void)user;
    (void)loop_poll_set_events(poll, 0);
    note('p');
    loop_turn(loop);
    note('q');
}

static void nested_turn_loses_no_wakeup(void **state)
{
    (void)state;
    struct pipe a = {0};
    loop_wakeup_init(&wakeups[0], loop, on_wakeup, name('1'));
    loop_wakeup_init(&wakeups[1], loop, on_wakeup, name('2'));
    pipe_open(&a, 'a', on_waking);
    loop_wakeup_send(&wakeups[0]); /* from outside: it is an event of its descriptor */
    loop_turn(loop);
    loop_turn(loop);
    assert_true(strcmp(events, "p1(2)q") == 0 || strcmp(events, "1(p2q)") == 0 ||
                strcmp(events, "1(pq2)") == 0);
    loop_wakeup_deinit(&wakeups[0]);
    loop_wakeup_deinit(&wakeups[1]);
    pipe_close(&a);
}

/* ---- hooks, timers, stopping ----------------------------------------------------------------- */

static struct loop_hook hooks[3];

static void on_hook(void *user)
{
    char message = *(const char *)user;
    note(message);
    if (message == '2' && event_count < 4) {
        note('(');
        loop_turn(loop);
        note(')');
        loop_hook_remove(&hooks[1]);
    }
}

static void hook_may_run_a_turn(void **state)
{
    (void)state;
    loop_hook_add(loop, &hooks[0], on_hook, name('1'));
    loop_hook_add(loop, &hooks[1], on_hook, name('2'));
    loop_hook_add(loop, &hooks[2], on_hook, name('3'));
    loop_turn(loop); /* runs them twice, like any turn of a host */
    assert_string_equal(events, "12(123123)313");
    loop_hook_remove(&hooks[0]);
    loop_hook_remove(&hooks[2]);
}

static struct loop_timer timers[3];

static void on_timer(struct loop_timer *timer, void *user)
{
    char message = *(const char *)user;
    (void)timer;
    note(message);
    if (message == 'a') {
        loop_timer_start(&timers[2], 0, 0); /* not before the next turn: the nested one */
        loop_turn(loop);
        note(')');
    } else if (message == 'b') {
        loop_timer_stop(&timers[1]);
    }
}

static void nested_turn_runs_due_timers(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        loop_timer_init(&timers[i], loop, on_timer, name((char)('a' + i)));
    }
    loop_timer_start(&timers[0], 0, 0);
    loop_timer_start(&timers[1], 0, 1000000);
    loop_turn(loop);
    loop_turn(loop);
    assert_string_equal(events, "abc)");
    assert_int_equal(loop_timeout_ms(loop), -1);
}

static void on_stopping(struct loop_timer *timer, void *user)
{
    (void)timer;
    (void)user;
    loop_stop(loop);
    loop_turn(loop);
}

static void nested_turn_leaves_a_stop_to_the_outermost(void **state)
{
    (void)state;
    struct loop_timer timer;
    loop_timer_init(&timer, loop, on_stopping, NULL);
    loop_timer_start(&timer, 1, 0);
    loop_run(loop); /* waits forever if the stop was lost */
}

/* ---- turns that wait, and a descriptor that shows timers --------------------------------------
 */

static void on_note(struct loop_timer *timer, void *user)
{
    (void)timer;
    note(*(const char *)user);
}

static void waiting_turn_ends_when_a_timer_is_due(void **state)
{
    (void)state;
    struct loop_timer timer;
    uint64_t start = clock_monotonic_ms();
    loop_timer_init(&timer, loop, on_note, name('t'));
    loop_timer_start(&timer, 20, 0);
    loop_turn_for(loop, 0);
    assert_string_equal(events, "");
    loop_turn_for(loop, 1);
    loop_turn_for(loop, -1);
    for (int i = 0; i < 10 && event_count == 0; i++) {
        loop_turn_for(loop, -1); /* a signal may end the wait */
    }
    assert_string_equal(events, "t");
    assert_true(clock_monotonic_ms() - start >= 20);
    loop_timer_start(&timer, 0, 0);
    loop_turn_for(loop, 600000); /* something was due: no wait */
    assert_string_equal(events, "tt");
}

static void loop_descriptor_is_readable_when_a_shown_timer_is_due(void **state)
{
    (void)state;
    struct loop_timer soon, late;
    struct pollfd host = {.fd = loop_fd(loop), .events = POLLIN};
    loop_timer_init(&soon, loop, on_note, name('s'));
    loop_timer_init(&late, loop, on_note, name('l'));
    loop_timer_start(&soon, 0, 0);
    assert_false(is_readable()); /* by default it shows none */
    assert_int_equal(loop_show_timers(loop, NULL), 0);
    assert_int_equal(loop_show_timers(loop, NULL), 0);
    assert_int_equal(poll(&host, 1, 10000), 1);
    loop_turn(loop);
    loop_turn(loop);
    assert_string_equal(events, "s");
    assert_false(is_readable());
    loop_timer_start(&late, 600000, 0);
    loop_timer_start(&soon, 10, 0); /* sooner than what the clock is set to */
    while (event_count < 2) {
        assert_int_equal(poll(&host, 1, 10000), 1); /* waits forever if the timer is not shown */
        loop_turn(loop);
    }
    loop_turn(loop);
    assert_string_equal(events, "ss");
    assert_false(is_readable());
    loop_timer_stop(&late);
}

static void on_restarting(struct loop_timer *timer, void *user)
{
    note(*(const char *)user);
    if (event_count < 5) {
        loop_timer_start(timer, 1, 0);
    }
}

static void timer_started_in_a_turn_is_shown_after_it(void **state)
{
    (void)state;
    struct loop_timer timer;
    struct pollfd host = {.fd = loop_fd(loop), .events = POLLIN};
    assert_int_equal(loop_show_timers(loop, NULL), 0);
    loop_timer_init(&timer, loop, on_restarting, name('r'));
    loop_timer_start(&timer, 1, 0);
    while (event_count < 5) {
        assert_int_equal(poll(&host, 1, 10000), 1);
        loop_turn(loop);
    }
    assert_string_equal(events, "rrrrr");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(discards_of_a_nested_turn_are_freed_after_the_outermost),
        TEST(nested_turn_handles_the_remaining_events),
        TEST(descriptor_closed_in_a_nested_turn_is_not_called),
        TEST(callback_outlives_its_descriptor),
        TEST(nested_turn_loses_no_wakeup),
        TEST(hook_may_run_a_turn),
        TEST(nested_turn_runs_due_timers),
        TEST(nested_turn_leaves_a_stop_to_the_outermost),
        TEST(waiting_turn_ends_when_a_timer_is_due),
        TEST(loop_descriptor_is_readable_when_a_shown_timer_is_due),
        TEST(timer_started_in_a_turn_is_shown_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
