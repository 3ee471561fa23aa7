/* SPDX-License-Identifier: MIT
 *
 * Watched descriptors in the caller's memory: reported events, callbacks that change other polls,
 * and a loop that never wakes without a reason. */
#include "base/loop.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fail_alloc.h"

_Static_assert(sizeof(struct loop_poll) <= 40, "there is one for every connection");

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

/* A poll on fds[0], and its events. */
struct watch {
    struct loop_poll poll;
    int fds[2];
    int calls;
    int last; /* events of the last call */
    struct watch *other;
    struct loop_discard discard;
};

static void on_count(struct loop_poll *poll, int happened, void *user)
{
    struct watch *w = user;
    assert_ptr_equal(poll, &w->poll);
    w->calls++;
    w->last = happened;
}

static void make_stream(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void make_pipe(int fds[2])
{
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
}

static void make_pipe_end(int fds[2]) /* to write to */
{
    int ends[2];
    make_pipe(ends);
    fds[0] = ends[1];
    fds[1] = ends[0];
}

static void make_tcp(int fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[1], (struct sockaddr *)&address, sizeof address), 0);
    fds[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fds[0] >= 0);
    close(listener);
}

static void watch_open(struct watch *w, void (*make)(int[2]), loop_poll_fn fn)
{
    *w = (struct watch){0};
    make(w->fds);
    assert_int_equal(loop_poll_init(&w->poll, loop, w->fds[0], fn, w, NULL), 0);
}

static void watch_close(struct watch *w)
{
    loop_poll_deinit(&w->poll);
    for (int i = 0; i < 2; i++) {
        if (w->fds[i] >= 0) {
            close(w->fds[i]);
        }
        w->fds[i] = -1;
    }
}

/* Returns true if there is work, from the view of a host's loop. */
static bool is_ready(void)
{
    struct pollfd host = {.fd = loop_fd(loop), .events = POLLIN};
    return poll(&host, 1, 0) == 1;
}

/* Runs turns until nothing is ready or pending for the kernel; a loop that spins fails. */
static void run_until_idle(void)
{
    int turns = 0;
    do {
        loop_turn(loop);
        assert_true(++turns < 10);
    } while (is_ready() || loop_timeout_ms(loop) == 0);
}

/* ---- reported events ------------------------------------------------------------------------- */

static void send_byte(struct watch *w)
{
    assert_int_equal(write(w->fds[1], "x", 1), 1);
}

static void shut_other(struct watch *w)
{
    assert_int_equal(shutdown(w->fds[1], SHUT_WR), 0);
}

static void close_other(struct watch *w)
{
    close(w->fds[1]);
    w->fds[1] = -1;
}

static void send_and_close_other(struct watch *w)
{
    send_byte(w);
    close_other(w);
}

static void reset_other(struct watch *w)
{
    struct linger linger = {.l_onoff = 1};
    assert_int_equal(setsockopt(w->fds[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close_other(w);
}

static void nothing(struct watch *w)
{
    (void)w;
}

static const struct {
    const char *what;
    void (*make)(int[2]);
    void (*act)(struct watch *);
    int wanted;
    int reported;
} reports[] = {
    {"quiet", make_stream, nothing, LOOP_READ | LOOP_HANGUP, 0},
    {"room to write", make_stream, nothing, LOOP_READ | LOOP_WRITE, LOOP_WRITE},
    {"bytes", make_stream, send_byte, LOOP_READ | LOOP_HANGUP, LOOP_READ},
    {"bytes nobody asked for", make_stream, send_byte, LOOP_HANGUP, 0},
    {"half closed", make_stream, shut_other, LOOP_HANGUP, LOOP_HANGUP},
    {"half closed, read", make_stream, shut_other, LOOP_READ, LOOP_READ},
    {"half closed, both", make_stream, shut_other, LOOP_READ | LOOP_HANGUP,
     LOOP_READ | LOOP_HANGUP},
    {"closed", make_stream, close_other, LOOP_HANGUP, LOOP_HANGUP},
    {"closed, write", make_stream, close_other, LOOP_WRITE, LOOP_WRITE},
    {"closed, not asked", make_stream, close_other, 0, 0},
    {"tcp closed", make_tcp, close_other, LOOP_READ | LOOP_HANGUP, LOOP_READ | LOOP_HANGUP},
    {"tcp reset", make_tcp, reset_other, LOOP_READ, LOOP_ERROR},
    {"tcp reset, hangup", make_tcp, reset_other, LOOP_HANGUP, LOOP_ERROR},
    {"tcp reset, not asked", make_tcp, reset_other, 0, 0},
    {"pipe without writers", make_pipe, close_other, LOOP_READ, LOOP_READ},
    {"pipe without writers, hangup", make_pipe, close_other, LOOP_HANGUP, LOOP_HANGUP},
    {"pipe without writers, not asked", make_pipe, close_other, 0, 0},
    {"pipe, last bytes", make_pipe, send_and_close_other, LOOP_READ | LOOP_HANGUP, LOOP_READ},
    {"pipe without readers", make_pipe_end, close_other, LOOP_WRITE, LOOP_ERROR},
    {"pipe without readers, not asked", make_pipe_end, close_other, 0, 0},
};

static void events_are_reported_as_requested(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        struct watch w;
        watch_open(&w, reports[i].make, on_count);
        assert_true(fcntl(w.fds[0], F_GETFL) & O_NONBLOCK);
        assert_int_equal(loop_poll_set_events(&w.poll, reports[i].wanted), 0);
        loop_turn(loop); /* the first poll registers itself */
        w.calls = w.last = 0;
        reports[i].act(&w);
        loop_turn(loop);
        if (w.last != reports[i].reported || w.calls != (reports[i].reported != 0)) {
            print_error("%s: %d in %d calls\n", reports[i].what, w.last, w.calls);
            fail();
        }
        bool again = reports[i].reported && reports[i].reported != LOOP_ERROR;
        loop_turn(loop);
        assert_int_equal(w.calls, again ? 2 : reports[i].reported != 0); /* level-triggered */
        watch_close(&w);
        run_until_idle();
    }
}

static void loop_does_not_wake_without_interest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        struct watch w;
        watch_open(&w, reports[i].make, on_count);
        reports[i].act(&w);
        run_until_idle(); /* never requested */
        assert_int_equal(w.calls, 0);
        assert_int_equal(loop_poll_set_events(&w.poll, reports[i].wanted), 0);
        loop_turn(loop);
        assert_int_equal(w.last, reports[i].reported); /* earlier data counts */
        w.calls = 0;
        assert_int_equal(loop_poll_set_events(&w.poll, 0), 0);
        run_until_idle(); /* no longer requested */
        assert_int_equal(w.calls, 0);
        watch_close(&w);
    }
}

static void interest_may_be_set_again_after_an_error(void **state)
{
    (void)state;
    struct watch w;
    watch_open(&w, make_pipe_end, on_count);
    close_other(&w);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(loop_poll_set_events(&w.poll, LOOP_WRITE), 0);
        run_until_idle();
        assert_int_equal(w.calls, i);
        assert_int_equal(w.last, LOOP_ERROR);
    }
    watch_close(&w);
}

static void turn_handles_a_bounded_number_and_skips_none(void **state)
{
    (void)state;
    enum { COUNT = 600 };
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct watch *all = mem_zalloc(COUNT * sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < COUNT; i++) {
        int fd = eventfd(1, EFD_CLOEXEC);
        all[i].fds[0] = fd;
        all[i].fds[1] = -1;
        assert_int_equal(loop_poll_init(&all[i].poll, loop, fd, on_count, &all[i], NULL), 0);
        assert_int_equal(loop_poll_set_events(&all[i].poll, LOOP_READ), 0);
    }
    int turns = 0;
    int called = 0;
    while (called < COUNT) { /* all stay ready because nothing is read */
        int calls = 0;
        loop_turn(loop);
        assert_true(is_ready());
        assert_true(++turns <= 1 + COUNT / 200);
        called = 0;
        for (int i = 0; i < COUNT; i++) {
            called += all[i].calls > 0;
            calls += all[i].calls;
        }
        assert_true(calls <= turns * 256);
    }
    assert_true(turns > 1);
    for (int i = 0; i < COUNT; i++) {
        watch_close(&all[i]);
    }
    mem_free(all);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void on_deinit_both(struct loop_poll *poll, int happened, void *user)
{
    struct watch *w = user;
    on_count(poll, happened, user);
    watch_close(w->other);
    memset(&w->other->poll, 0xa5, sizeof w->other->poll); /* the loop no longer uses the memory */
    watch_close(w);
    memset(&w->poll, 0xa5, sizeof w->poll);
}

/* Two watches that refer to each other, both ready. */
static void open_pair(struct watch pair[2], loop_poll_fn fn)
{
    for (int i = 0; i < 2; i++) {
        watch_open(&pair[i], make_pipe, fn);
        send_byte(&pair[i]);
        assert_int_equal(loop_poll_set_events(&pair[i].poll, LOOP_READ), 0);
    }
    pair[0].other = &pair[1];
    pair[1].other = &pair[0];
}

static void callback_may_deinit_itself_and_another_ready_poll(void **state)
{
    (void)state;
    struct watch pair[2];
    open_pair(pair, on_deinit_both);
    run_until_idle();
    assert_int_equal(pair[0].calls + pair[1].calls, 1);
}

static void watch_free(void *thing)
{
    mem_free(thing);
}

static struct watch *survivor;

static void on_discard_other(struct loop_poll *poll, int happened, void *user)
{
    struct watch *w = user;
    on_count(poll, happened, user);
    survivor = w;
    watch_close(w->other);
    loop_discard(loop, &w->other->discard, watch_free, w->other);
    assert_int_equal(loop_poll_set_events(poll, 0), 0);
}

static void poll_may_be_discarded_with_its_owner(void **state)
{
    (void)state;
    struct watch *pair[] = {mem_zalloc(sizeof *pair[0]), mem_zalloc(sizeof *pair[0])};
    for (int i = 0; i < 2; i++) {
        watch_open(pair[i], make_pipe, on_discard_other);
        send_byte(pair[i]);
        assert_int_equal(loop_poll_set_events(&pair[i]->poll, LOOP_READ), 0);
        pair[i]->other = pair[!i];
    }
    run_until_idle();
    assert_int_equal(survivor->calls, 1);
    watch_close(survivor);
    loop_discard(loop, &survivor->discard, watch_free, survivor);
}

static void on_replace_other(struct loop_poll *poll, int happened, void *user)
{
    struct watch *w = user;
    on_count(poll, happened, user);
    if (!w->other) {
        return;
    }
    struct watch *other = w->other;
    int before = other->fds[0];
    watch_close(other);
    watch_open(other, make_pipe, on_count); /* same memory, same number, another pipe: empty */
    assert_int_equal(other->fds[0], before);
    assert_int_equal(loop_poll_set_events(&other->poll, LOOP_READ | LOOP_HANGUP), 0);
    w->other = NULL;
    assert_int_equal(loop_poll_set_events(poll, 0), 0);
}

static void reused_number_gets_no_event_of_its_predecessor(void **state)
{
    (void)state;
    struct watch pair[2];
    open_pair(pair, on_replace_other);
    run_until_idle();
    assert_int_equal(pair[0].calls + pair[1].calls, 1);
    struct watch *fresh = pair[0].calls ? &pair[1] : &pair[0];
    assert_int_equal(fresh->calls, 0);
    send_byte(fresh);
    loop_turn(loop);
    assert_int_equal(fresh->calls, 1);
    watch_close(&pair[0]);
    watch_close(&pair[1]);
}

static void on_silence_other(struct loop_poll *poll, int happened, void *user)
{
    struct watch *w = user;
    on_count(poll, happened, user);
    assert_int_equal(loop_poll_set_events(&w->other->poll, 0), 0);
    assert_int_equal(loop_poll_set_events(poll, LOOP_HANGUP), 0);
}

static void withdrawn_interest_counts_in_the_same_turn(void **state)
{
    (void)state;
    struct watch pair[2];
    open_pair(pair, on_silence_other);
    run_until_idle();
    assert_int_equal(pair[0].calls + pair[1].calls, 1);
    watch_close(&pair[0]);
    watch_close(&pair[1]);
}

static void external_copy_is_not_watched_after_deinit(void **state)
{
    (void)state;
    struct watch w;
    watch_open(&w, make_pipe, on_count);
    assert_int_equal(loop_poll_set_events(&w.poll, LOOP_READ), 0);
    int copy = fcntl(w.fds[0], F_DUPFD_CLOEXEC, 0);
    send_byte(&w);
    watch_close(&w);
    run_until_idle();
    assert_int_equal(w.calls, 0);
    close(copy);
}

/* ---- init, deinit, open, close --------------------------------------------------------------- */

static void files_without_readiness_are_rejected(void **state)
{
    (void)state;
    struct watch w;
    memset(&w, 0xa5, sizeof w);
    struct tidings_error err = {0};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(loop_poll_init(&w.poll, loop, fd, on_count, &w, &err), TIDINGS_E_UNSUPPORTED);
    assert_int_equal(err.code, TIDINGS_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "cannot be watched"));
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    loop_poll_deinit(&w.poll);
    close(fd);
    assert_true(loop_poll_init(&w.poll, loop, fd, on_count, &w, &err) < 0);
    assert_non_null(strstr(err.text, "watch descriptor"));
    assert_true(loop_poll_init(&w.poll, loop, -1, on_count, &w, NULL) < 0);
    assert_true(loop_poll_set_events(&w.poll, LOOP_READ) < 0);
    assert_int_equal(loop_poll_set_events(&w.poll, 0), 0);
}

static void deinit_accepts_any_state(void **state)
{
    (void)state;
    struct loop_poll zero = {0};
    struct watch w;
    loop_poll_deinit(NULL);
    loop_poll_deinit(&zero);
    watch_open(&w, make_pipe, on_count);
    loop_poll_deinit(&w.poll);
    loop_poll_deinit(&w.poll);
    watch_close(&w);
}

static void number_is_watched_once_unless_shared(void **state)
{
    (void)state;
    struct watch w;
    struct tidings_error err = {0};
    watch_open(&w, make_stream, on_count);
    struct loop_poll second;
    assert_true(loop_poll_init(&second, loop, w.fds[0], on_count, &w, &err) < 0);
    assert_int_equal(loop_poll_set_events(&w.poll, LOOP_READ), 0); /* the first one is unaffected */
    send_byte(&w);
    loop_turn(loop);
    loop_turn(loop);
    assert_true(w.calls > 0);
    watch_close(&w);
}

static void on_message(struct loop_poll *poll, int happened, void *user)
{
    *(int *)user |= happened;
    assert_int_equal(loop_poll_set_events(poll, 0), 0);
}

static void shared_descriptor_may_be_input_and_output(void **state)
{
    (void)state;
    int fds[2], in = 0, out = 0;
    make_stream(fds);
    struct loop_poll *reader = loop_poll_open_shared(loop, fds[0], on_message, &in, NULL);
    struct loop_poll *writer = loop_poll_open_shared(loop, fds[0], on_message, &out, NULL);
    assert_true(reader && writer);
    assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(loop_poll_set_events(reader, LOOP_READ), 0);
    assert_int_equal(loop_poll_set_events(writer, LOOP_WRITE), 0);
    run_until_idle();
    assert_int_equal(in, 0);
    assert_int_equal(out, LOOP_WRITE);
    assert_int_equal(write(fds[1], "x", 1), 1);
    run_until_idle();
    assert_int_equal(in, LOOP_READ);
    loop_poll_close(reader);
    loop_poll_close(writer);
    loop_poll_close(writer); /* twice in one turn */
    close(fds[0]);
    struct pollfd other = {.fd = fds[1]};
    assert_int_equal(poll(&other, 1, 0), 1); /* no copy is left open */
    assert_true(other.revents & POLLHUP);
    close(fds[1]);
}

static void exhausted_descriptors_are_reported(void **state)
{
    (void)state;
    int fds[2];
    struct tidings_error err = {0};
    struct rlimit before, none;
    make_stream(fds);
    struct loop_poll *first = loop_poll_open_shared(loop, fds[0], on_message, NULL, NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct loop_poll *second = loop_poll_open_shared(loop, fds[0], on_message, NULL, &err);
    struct loop_poll *other = loop_poll_open(loop, fds[1], on_message, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(second); /* it would need a copy */
    assert_true(err.code < 0);
    assert_non_null(strstr(err.text, "watch descriptor"));
    assert_non_null(other); /* watching needs no copy */
    loop_poll_close(first);
    loop_poll_close(other);
    close(fds[0]);
    close(fds[1]);
}

static void poll_in_the_callers_memory_allocates_nothing(void **state)
{
    (void)state;
    struct watch w;
    fail_alloc_start(1);
    watch_open(&w, make_pipe, on_count);
    assert_int_equal(loop_poll_set_events(&w.poll, LOOP_READ), 0);
    watch_close(&w);
    assert_false(fail_alloc_stop());
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

static void host_sees_ready_descriptors(void **state)
{
    (void)state;
    struct watch w;
    watch_open(&w, make_pipe, on_count);
    assert_int_equal(loop_poll_set_events(&w.poll, LOOP_READ), 0);
    run_until_idle();
    assert_int_equal(loop_timeout_ms(loop), -1);
    send_byte(&w);
    assert_true(is_ready());
    assert_int_equal(loop_poll_set_events(&w.poll, LOOP_HANGUP),
                     0); /* passed to the kernel immediately */
    assert_false(is_ready());
    assert_int_equal(loop_timeout_ms(loop), -1);
    assert_int_equal(loop_poll_set_events(&w.poll, LOOP_READ), 0);
    assert_true(is_ready());
    loop_turn(loop);
    assert_int_equal(w.calls, 1);
    watch_close(&w);
    assert_false(is_ready());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_are_reported_as_requested),
        TEST(loop_does_not_wake_without_interest),
        TEST(interest_may_be_set_again_after_an_error),
        TEST(turn_handles_a_bounded_number_and_skips_none),
        TEST(callback_may_deinit_itself_and_another_ready_poll),
        TEST(poll_may_be_discarded_with_its_owner),
        TEST(reused_number_gets_no_event_of_its_predecessor),
        TEST(withdrawn_interest_counts_in_the_same_turn),
        TEST(external_copy_is_not_watched_after_deinit),
        TEST(files_without_readiness_are_rejected),
        TEST(deinit_accepts_any_state),
        TEST(number_is_watched_once_unless_shared),
        TEST(shared_descriptor_may_be_input_and_output),
        TEST(exhausted_descriptors_are_reported),
        TEST(poll_in_the_callers_memory_allocates_nothing),
        TEST(host_sees_ready_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
