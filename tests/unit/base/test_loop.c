/* SPDX-License-Identifier: MIT
 *
 * The event loop: descriptors, timers, the order within a turn, and turns run by a host. */
#include "base/loop.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "support/fail_alloc.h"

/* The events, one message each. */
static char events[64];
static size_t event_count;

/* A pointer to the message `c`, as user data. */
static void *name(char c)
{
    static char messages[128];
    messages[(unsigned char)c & 127] = c;
    return &messages[(unsigned char)c & 127];
}

static void note(char c)
{
    if (event_count + 1 < sizeof events) {
        events[event_count++] = c;
        events[event_count] = '\0';
    }
}

static struct loop *loop;

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

/* ---- descriptors ---------------------------------------------------------------------------- */

struct watch {
    struct loop_poll *poll;
    int fds[2];
    int seen;
    int calls;
    bool stop_at_end;
};

static void on_watch(struct loop_poll *poll, int happened, void *user)
{
    struct watch *w = user;
    char bytes[16];
    assert_ptr_equal(poll, w->poll);
    w->seen |= happened;
    w->calls++;
    if (happened & LOOP_READ && read(w->fds[0], bytes, sizeof bytes) > 0 && !w->stop_at_end) {
        loop_stop(loop);
    } else if (happened & (LOOP_HANGUP | LOOP_ERROR)) {
        (void)loop_poll_set_events(poll, 0);
        loop_stop(loop);
    } else if (happened & LOOP_WRITE) {
        (void)loop_poll_set_events(poll, 0); /* stopping may take another turn */
        loop_stop(loop);
    }
}

static void descriptor_is_reported_while_ready(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct watch w = {0};
        struct tidings_error err;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w.fds), 0);
        w.poll = shared ? loop_poll_open_shared(loop, w.fds[0], on_watch, &w, &err)
                        : loop_poll_open(loop, w.fds[0], on_watch, &w, &err);
        assert_non_null(w.poll);
        assert_int_equal(fcntl(w.fds[0], F_GETFL) & O_NONBLOCK, shared ? 0 : O_NONBLOCK);
        assert_int_equal(write(w.fds[1], "x", 1), 1);
        loop_turn(loop);
        assert_int_equal(w.calls, 0); /* no interest yet */
        assert_int_equal(loop_poll_set_events(w.poll, LOOP_READ), 0);
        loop_run(loop);
        assert_int_equal(w.seen, LOOP_READ);
        assert_int_equal(w.calls, 1);
        assert_int_equal(loop_poll_set_events(w.poll, LOOP_WRITE), 0);
        loop_run(loop);
        assert_int_equal(w.seen, LOOP_READ | LOOP_WRITE);
        assert_int_equal(loop_poll_set_events(w.poll, 0), 0);
        assert_int_equal(write(w.fds[1], "x", 1), 1);
        loop_turn(loop);
        assert_int_equal(w.calls, 2);
        loop_poll_close(w.poll);
        close(w.fds[0]);
        close(w.fds[1]);
        loop_turn(loop);
    }
}

static void closed_peer_is_a_hangup(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct watch w = {.stop_at_end = true};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w.fds), 0);
        w.poll = shared ? loop_poll_open_shared(loop, w.fds[0], on_watch, &w, NULL)
                        : loop_poll_open(loop, w.fds[0], on_watch, &w, NULL);
        assert_int_equal(loop_poll_set_events(w.poll, LOOP_HANGUP), 0);
        assert_int_equal(write(w.fds[1], "x", 1), 1);
        loop_turn(loop);
        assert_int_equal(w.calls, 0); /* bytes are not a hangup */
        assert_int_equal(shutdown(w.fds[1], SHUT_WR), 0);
        loop_run(loop);
        assert_int_equal(w.seen, LOOP_HANGUP);
        loop_poll_close(w.poll);
        close(w.fds[0]);
        close(w.fds[1]);
    }
}

static void pipe_without_writers_is_readable(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct watch w = {0};
        assert_int_equal(pipe2(w.fds, O_CLOEXEC), 0);
        w.poll = shared ? loop_poll_open_shared(loop, w.fds[0], on_watch, &w, NULL)
                        : loop_poll_open(loop, w.fds[0], on_watch, &w, NULL);
        assert_int_equal(loop_poll_set_events(w.poll, LOOP_READ), 0);
        loop_turn(loop);
        assert_int_equal(w.calls, 0);
        close(w.fds[1]);
        for (int i = 0; i < 3 && w.calls == 0; i++) {
            loop_turn(loop);
        }
        assert_int_equal(w.seen, LOOP_READ);
        loop_poll_close(w.poll);
        close(w.fds[0]);
    }
}

static void pipe_without_readers_is_an_error_once(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct watch w = {0};
        assert_int_equal(pipe2(w.fds, O_CLOEXEC), 0);
        w.poll = shared ? loop_poll_open_shared(loop, w.fds[1], on_watch, &w, NULL)
                        : loop_poll_open(loop, w.fds[1], on_watch, &w, NULL);
        close(w.fds[0]);
        assert_int_equal(loop_poll_set_events(w.poll, LOOP_WRITE), 0);
        loop_run(loop);
        assert_true(w.seen & LOOP_ERROR);
        loop_turn(loop);
        loop_turn(loop);
        assert_int_equal(w.calls, 1);
        loop_poll_close(w.poll);
        close(w.fds[1]);
    }
}

static void files_cannot_be_watched(void **state)
{
    (void)state;
    static const char *const paths[] = {"/dev/null", "/proc/self/exe"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        struct tidings_error err = {0};
        assert_true(fd >= 0);
        assert_null(loop_poll_open(loop, fd, on_watch, NULL, &err));
        assert_int_equal(err.code, TIDINGS_E_UNSUPPORTED);
        err.code = 0;
        assert_null(loop_poll_open_shared(loop, fd, on_watch, NULL, &err));
        assert_int_equal(err.code, TIDINGS_E_UNSUPPORTED);
        close(fd);
    }
    struct tidings_error err = {0};
    assert_null(loop_poll_open(loop, 9999, on_watch, NULL, &err));
    assert_null(loop_poll_open_shared(loop, 9999, on_watch, NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_INTERNAL);
}

static struct watch pair_a, pair_b;

static void close_both(struct loop_poll *poll, int happened, void *user)
{
    (void)poll;
    (void)happened;
    (void)user;
    note('x');
    loop_poll_close(pair_a.poll);
    loop_poll_close(pair_b.poll);
    close(pair_a.fds[0]);
    close(pair_b.fds[0]);
    loop_stop(loop);
}

static void closed_poll_is_never_called_again(void **state)
{
    (void)state;
    struct watch *both[] = {&pair_a, &pair_b};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(both[i]->fds, O_CLOEXEC), 0);
        assert_int_equal(write(both[i]->fds[1], "x", 1), 1);
        both[i]->poll = loop_poll_open(loop, both[i]->fds[0], close_both, NULL, NULL);
        assert_int_equal(loop_poll_set_events(both[i]->poll, LOOP_READ), 0);
    }
    loop_run(loop); /* both are ready in the same turn */
    loop_turn(loop);
    assert_string_equal(events, "x");
    close(pair_a.fds[1]);
    close(pair_b.fds[1]);
    loop_poll_close(NULL);
}

/* ---- timers --------------------------------------------------------------------------------- */

static void on_note_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    note(*(const char *)user);
}

/* Ends the loop; with a character, after the second note of it. */
static void on_stop_timer(struct loop_timer *timer, void *user)
{
    const char *first = user ? strchr(events, *(const char *)user) : NULL;
    if (user && (!first || !strchr(first + 1, *first))) {
        loop_timer_start(timer, 5, 0); /* a slow machine */
        return;
    }
    note('s');
    loop_timer_close(timer);
    loop_stop(loop);
}

static void timers_run_in_order_and_not_early(void **state)
{
    (void)state;
    uint64_t start = clock_monotonic_ns();
    struct loop_timer *late = loop_timer_open(loop, on_stop_timer, name('o'));
    struct loop_timer *early = loop_timer_open(loop, on_note_timer, name('e'));
    struct loop_timer *never = loop_timer_open(loop, on_note_timer, name('n'));
    struct loop_timer *often = loop_timer_open(loop, on_note_timer, name('o'));
    loop_timer_start(late, 25, 0);
    loop_timer_start(early, 5, 0);
    loop_timer_start(never, 5, 0);
    loop_timer_start(often, 10, 5);
    loop_timer_start(never, 600000, 0); /* restarts */
    assert_true(loop_timer_is_running(never));
    assert_in_range(loop_timeout_ms(loop), 0, 6);
    loop_run(loop);
    assert_true(clock_monotonic_ns() - start >= 24000000u); /* counted in whole milliseconds */
    assert_memory_equal(events, "eo", 2);
    assert_non_null(strchr(events, 's'));
    assert_null(strchr(events, 'n'));
    assert_false(loop_timer_is_running(early));
    assert_true(loop_timer_is_running(often));
    loop_timer_stop(often);
    assert_false(loop_timer_is_running(often));
    loop_timer_close(early);
    loop_timer_close(never);
    loop_timer_close(often);
    loop_timer_close(NULL);
}

static void timeout_is_infinite_without_timers(void **state)
{
    (void)state;
    loop_turn(loop);
    assert_int_equal(loop_timeout_ms(loop), -1);
}

/* ---- the turn ------------------------------------------------------------------------------- */

struct thing {
    struct loop_discard discard;
    struct thing *child;
    char name;
};

static void free_thing(void *user)
{
    struct thing *t = user;
    note(t->name);
    if (t->child) {
        loop_discard(loop, &t->child->discard, free_thing, t->child);
    }
    mem_free(t);
}

static struct thing *make_thing(char name, struct thing *child)
{
    struct thing *t = mem_alloc(sizeof *t);
    t->name = name;
    t->child = child;
    return t;
}

static void on_discarding_timer(struct loop_timer *timer, void *user)
{
    struct thing *t = user;
    loop_discard(loop, &t->discard, free_thing, t);
    note('t');
    loop_timer_close(timer);
    note('u');
}

static void on_note_hook(void *user)
{
    note(*(const char *)user);
}

static void turn_runs_timers_hooks_wait_callbacks_discards(void **state)
{
    (void)state;
    struct loop_hook hook;
    struct loop_timer *timer =
        loop_timer_open(loop, on_discarding_timer, make_thing('D', make_thing('d', NULL)));
    loop_timer_start(timer, 0, 0);
    loop_hook_add(loop, &hook, on_note_hook, name('h'));
    loop_stop(loop); /* even before it runs */
    loop_run(loop);
    assert_string_equal(events, "tuhDdh"); /* and the hooks once more at the very end */
    loop_hook_remove(&hook);
}

static void on_discarding_poll(struct loop_poll *poll, int happened, void *user)
{
    struct thing *t = user;
    (void)happened;
    loop_discard(loop, &t->discard, free_thing, t);
    note('p');
    loop_poll_close(poll);
    loop_stop(loop);
}

static void discards_of_a_descriptor_are_freed_before_the_next_turn(void **state)
{
    (void)state;
    int fds[2];
    struct loop_hook hook;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    struct loop_poll *poll =
        loop_poll_open(loop, fds[1], on_discarding_poll, make_thing('D', NULL), NULL);
    assert_int_equal(loop_poll_set_events(poll, LOOP_WRITE), 0);
    loop_hook_add(loop, &hook, on_note_hook, name('h'));
    loop_run(loop);
    assert_true(strstr(events, "hpD") == events);
    loop_hook_remove(&hook);
    close(fds[0]);
    close(fds[1]);
}

static struct loop_hook hooks[4];

static void on_busy_hook(void *user)
{
    (void)user;
    note('1');
    loop_hook_remove(&hooks[0]);
    loop_hook_remove(&hooks[1]);
    loop_hook_add(loop, &hooks[3], on_note_hook, name('4'));
}

static void watch_hooks_may_be_added_and_removed_while_they_run(void **state)
{
    (void)state;
    loop_hook_add(loop, &hooks[0], on_busy_hook, NULL);
    loop_hook_add(loop, &hooks[1], on_note_hook, name('2'));
    loop_hook_add(loop, &hooks[2], on_note_hook, name('3'));
    loop_stop(loop);
    loop_run(loop);
    assert_string_equal(events, "13434");
    loop_hook_remove(&hooks[2]);
    loop_hook_remove(&hooks[3]);
    loop_hook_remove(&hooks[3]); /* a second call is fine */
}

static void destroy_frees_discarded_memory(void **state)
{
    (void)state;
    struct loop *other = loop;
    struct thing *t = make_thing('D', NULL);
    loop_discard(other, &t->discard, free_thing, t);
    loop_timer_close(loop_timer_open(other, on_note_timer, name('n')));
    loop_destroy(other);
    assert_string_equal(events, "D");
    loop = loop_create(NULL);
    loop_destroy(NULL);
}

/* ---- stopping and hosting ------------------------------------------------------------------- */

static void *stop_thread(void *user)
{
    loop_stop(user);
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
    loop_stop(loop);
}

static void thread_or_signal_handler_may_stop_the_loop(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_thread, loop), 0);
    loop_run(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    struct sigaction action = {.sa_handler = on_signal}, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    loop_run(loop);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

static void host_can_wait_on_the_descriptor(void **state)
{
    (void)state;
    struct watch w = {0};
    assert_int_equal(pipe2(w.fds, O_CLOEXEC), 0);
    w.poll = loop_poll_open(loop, w.fds[0], on_watch, &w, NULL);
    assert_int_equal(loop_poll_set_events(w.poll, LOOP_READ), 0);
    /* The loop must not wait before it passes new interest to the kernel. */
    for (int i = 0; i < 5 && loop_timeout_ms(loop) == 0; i++) {
        loop_turn(loop);
    }
    assert_int_equal(loop_timeout_ms(loop), -1);
    struct pollfd host = {.fd = loop_fd(loop), .events = POLLIN};
    assert_int_equal(poll(&host, 1, 0), 0);
    assert_int_equal(write(w.fds[1], "x", 1), 1);
    assert_int_equal(poll(&host, 1, 10000), 1);
    loop_turn(loop);
    assert_int_equal(w.calls, 1);
    loop_poll_close(w.poll);
    close(w.fds[0]);
    close(w.fds[1]);
}

static void turn_time_is_monotonic(void **state)
{
    (void)state;
    loop_turn(loop);
    uint64_t before = loop_now_ms(loop);
    uint64_t real = clock_monotonic_ms();
    assert_true(before <= real + 1 && before + 1000 > real);
    loop_turn(loop);
    assert_true(loop_now_ms(loop) >= before);
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct tidings_error err = {0};
        fail_alloc_start(n);
        struct loop *l = loop_create(&err);
        struct loop_timer *timer = l ? loop_timer_open(l, on_note_timer, name('n')) : NULL;
        struct loop_poll *a = timer ? loop_poll_open(l, fds[0], on_watch, NULL, &err) : NULL;
        struct loop_poll *b = a ? loop_poll_open_shared(l, fds[1], on_watch, NULL, &err) : NULL;
        reached = fail_alloc_stop();
        assert_int_equal(b == NULL, reached);
        assert_true(!reached || (l && !timer) || err.code == TIDINGS_E_NOMEM);
        loop_poll_close(b);
        loop_poll_close(a);
        loop_timer_close(timer);
        loop_destroy(l);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 100);
    }
    fail_alloc_end();
    close(fds[0]);
    close(fds[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(descriptor_is_reported_while_ready),
        TEST(closed_peer_is_a_hangup),
        TEST(pipe_without_writers_is_readable),
        TEST(pipe_without_readers_is_an_error_once),
        TEST(files_cannot_be_watched),
        TEST(closed_poll_is_never_called_again),
        TEST(timers_run_in_order_and_not_early),
        TEST(timeout_is_infinite_without_timers),
        TEST(turn_runs_timers_hooks_wait_callbacks_discards),
        TEST(discards_of_a_descriptor_are_freed_before_the_next_turn),
        TEST(watch_hooks_may_be_added_and_removed_while_they_run),
        TEST(destroy_frees_discarded_memory),
        TEST(thread_or_signal_handler_may_stop_the_loop),
        TEST(host_can_wait_on_the_descriptor),
        TEST(turn_time_is_monotonic),
        cmocka_unit_test(failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
