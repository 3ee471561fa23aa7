/* SPDX-License-Identifier: MIT
 *
 * Connection deadlines: the timer runs only until the nearest deadline, many deadlines share a
 * wake-up, and a worker with idle clients wakes only when a client needs a check. The test controls
 * the clock: it advances the clock to the time at which the loop would wake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "support/harness_core.h"
#include "support/harness_provider.h"
#include "support/http_wire.h"
#include "transport/connection.h"
#include "transport/lines.h"

#define BEGINNING_MS (1u << 20) /* the start of every grain */
#define LONG_MS 60000u
#define SHORT_MS 8000u
#define SHORT_GRAIN_MS 512u

static struct clock_fake now;

static void pass(uint64_t ms)
{
    now.monotonic_ns += ms * 1000000u;
    now.wall_ms += (int64_t)ms;
}

static void begin_time(void)
{
    now = (struct clock_fake){.monotonic_ns = BEGINNING_MS * UINT64_C(1000000),
                              .wall_ms = 1700000000000};
    clock_set_fake(&now);
}

/* ---- the deadlines module -------------------------------------------------------------------- */

static struct {
    struct loop *loop;
    struct deadlines all;
    struct deadline_list brief, lasting;
    struct deadline d[4];
    unsigned due, looks;
    uint64_t look_ms;
    struct loop_hook hook;
} f;

static void count(struct deadline *deadline)
{
    f.due++;
    deadline_leave(&f.brief, deadline);
}

static void look_away(struct deadline *deadline)
{
    (void)deadline;
    f.due++;
}

static uint64_t next_check(void *user)
{
    (void)user;
    return f.look_ms;
}

static void check(void *user)
{
    (void)user;
    f.looks++;
    f.look_ms = UINT64_MAX;
}

static void end_turn(void *user)
{
    (void)user;
    deadlines_end_turn(&f.all);
}

static int begin(void **state)
{
    (void)state;
    memset(&f, 0, sizeof(f));
    begin_time();
    f.loop = loop_create(NULL);
    assert_non_null(f.loop);
    f.look_ms = UINT64_MAX;
    const struct deadlines_also also = {next_check, check, NULL};
    assert_int_equal(deadlines_init(&f.all, f.loop, &also), 0);
    deadline_list_init(&f.lasting, &f.all, LONG_MS, count);
    deadline_list_init(&f.brief, &f.all, SHORT_MS, count);
    for (size_t i = 0; i < 4; i++) {
        deadline_init(&f.d[i]);
    }
    loop_hook_add(f.loop, &f.hook, end_turn, NULL);
    loop_turn(f.loop);
    return 0;
}

static int end(void **state)
{
    (void)state;
    loop_hook_remove(&f.hook);
    deadlines_deinit(&f.all);
    loop_destroy(f.loop);
    clock_set_fake(NULL);
    return 0;
}

/* The time the loop would wait now; -1: forever. */
static int waits_for(void)
{
    loop_turn(f.loop);
    return loop_timeout_ms(f.loop);
}

static void timer_stays_off_without_deadlines(void **state)
{
    (void)state;
    struct deadline_list without;
    deadline_list_init(&without, &f.all, 0, NULL);
    assert_int_equal(waits_for(), -1);
    deadline_enter(&without, &f.d[0]);
    assert_int_equal(waits_for(), -1);
    pass(LONG_MS);
    assert_int_equal(waits_for(), -1);
    assert_ptr_equal(deadline_list_first(&without), &f.d[0]);
    deadline_leave(&without, &f.d[0]);
    assert_null(deadline_list_first(&without));
}

static void timer_runs_until_the_nearest_deadline(void **state)
{
    (void)state;
    deadline_enter(&f.lasting, &f.d[0]);
    assert_in_range(waits_for(), LONG_MS, LONG_MS + 1024);
    deadline_enter(&f.brief, &f.d[1]);
    assert_in_range(waits_for(), SHORT_MS, SHORT_MS + SHORT_GRAIN_MS);
    deadline_enter(&f.lasting, &f.d[1]); /* moved: no longer the nearest */
    assert_in_range(waits_for(), LONG_MS, LONG_MS + 1024);
    deadline_leave(&f.lasting, &f.d[1]);
    deadline_leave(&f.lasting, &f.d[0]);
    assert_int_equal(waits_for(), -1);
}

/* A deadline set after the end of a turn, by another hook, is not missed. */
static void earlier_deadline_sets_the_timer_at_once(void **state)
{
    (void)state;
    deadline_enter(&f.lasting, &f.d[0]);
    loop_turn(f.loop);
    deadline_enter(&f.brief, &f.d[1]);
    assert_in_range(loop_timeout_ms(f.loop), SHORT_MS, SHORT_MS + SHORT_GRAIN_MS);
}

static void deadlines_due_together_share_a_wake_up(void **state)
{
    (void)state;
    pass(1);
    loop_turn(f.loop);
    for (size_t i = 0; i < 4; i++) {
        deadline_enter(&f.brief, &f.d[i]);
        pass(SHORT_GRAIN_MS / 16);
        loop_turn(f.loop);
    }
    int wait = waits_for();
    assert_true(wait > 0);
    pass((uint64_t)wait - 1);
    loop_turn(f.loop);
    assert_int_equal(f.due, 0);
    pass(1);
    loop_turn(f.loop);
    assert_int_equal(f.due, 4);
    assert_int_equal(waits_for(), -1);
}

static void untouched_connection_is_checked_again_after_the_same_time(void **state)
{
    (void)state;
    struct deadline_list list;
    deadline_list_init(&list, &f.all, SHORT_MS, look_away);
    deadline_enter(&list, &f.d[0]);
    for (unsigned i = 1; i <= 3; i++) {
        int wait = waits_for();
        assert_in_range(wait, SHORT_MS, SHORT_MS + SHORT_GRAIN_MS);
        pass((uint64_t)wait);
        loop_turn(f.loop);
        assert_int_equal(f.due, i);
    }
}

static void progress_restarts_the_stall_deadline(void **state)
{
    (void)state;
    deadline_stall(&f.brief, &f.d[0], 100);
    uint32_t since = f.d[0].listed_ms;
    pass(SHORT_MS / 2);
    loop_turn(f.loop);
    deadline_stall(&f.brief, &f.d[0], 100); /* the client read nothing */
    assert_int_equal(f.d[0].listed_ms, since);
    deadline_stall(&f.brief, &f.d[0], 101);
    assert_int_equal(f.d[0].listed_ms, since + SHORT_MS / 2);
    pass(SHORT_MS / 2 + SHORT_GRAIN_MS);
    loop_turn(f.loop);
    assert_int_equal(f.due, 0);
    pass(SHORT_MS / 2);
    loop_turn(f.loop);
    assert_int_equal(f.due, 1);
}

static void other_checks_are_not_delayed_by_turns(void **state)
{
    (void)state;
    deadline_enter(&f.lasting, &f.d[0]);
    f.look_ms = loop_now_ms(f.loop) + 1000;
    assert_int_equal(waits_for(), 1000);
    pass(600);
    f.look_ms += 600; /* the callback answers: in a second */
    deadlines_changed(&f.all);
    assert_int_equal(waits_for(), 400);
    pass(400);
    loop_turn(f.loop);
    assert_int_equal(f.looks, 1);
    assert_true(waits_for() > 1000);
}

static void wall_clock_deadline_is_checked_each_minute(void **state)
{
    (void)state;
    uint64_t turn = loop_now_ms(f.loop);
    assert_true(deadlines_at_wall(&f.all, 0) == UINT64_MAX);
    assert_int_equal(deadlines_at_wall(&f.all, now.wall_ms + 5000), turn + 5000);
    assert_int_equal(deadlines_at_wall(&f.all, now.wall_ms + 3600000), turn + 60000);
    assert_int_equal(deadlines_at_wall(&f.all, now.wall_ms - 1), turn);
}

/* ---- workers --------------------------------------------------------------------------------- */

static struct wire w;
static struct socket_config socket_config = {
    .max_line = 4096,
    .keepalive_ms = 40000,
    .header_timeout_ms = 10000,
    .body_timeout_ms = 20000,
    .idle_timeout_ms = 60000,
    .stall_timeout_ms = 30000,
    .session_timeout_ms = 1800000,
};

static int connect_socket(struct socket_worker *sw)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    struct handover *h = handover_create(ends[0], NULL);
    assert_non_null(h);
    worker_inbox_send(socket_worker_inbox(sw), h);
    wire_turn(&w);
    return ends[1];
}

static size_t count_connections(struct socket_worker *sw)
{
    return wire_connections(&w, 0) + worker_inbox_count(socket_worker_inbox(sw));
}

static void idle_clients_cause_no_early_wake_ups(void **state)
{
    (void)state;
    begin_time();
    wire_start(&w);
    struct socket_worker *sw = socket_worker_create(w.b.worker[0], &socket_config, NULL);
    assert_non_null(sw);
    struct wire_client *stream = wire_connect(&w, 0), *kept = wire_connect(&w, 0),
                       *ws = wire_connect(&w, 0);
    int line = connect_socket(sw);
    wire_say(stream, wire_listen("mem://x/a"));
    wire_say(kept, "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wire_say(ws, wire_upgrade);
    buf_clear(&stream->heard);
    buf_clear(&ws->heard);

    uint64_t keepalive = w.config.keepalive_ms, first = (uint64_t)loop_timeout_ms(w.b.loop);
    assert_in_range(first, keepalive - keepalive / 8, keepalive);
    unsigned wakes = 0;
    for (uint64_t passed = 0; passed < 10 * keepalive; wakes++) {
        size_t before = count_connections(sw);
        int wait = loop_timeout_ms(w.b.loop);
        assert_in_range(wait, 1, keepalive);
        pass((uint64_t)wait);
        passed += (uint64_t)wait;
        wire_turn(&w);
        /* Each wake-up had a purpose: a keep-alive, a ping, or an end. */
        bool has_said = stream->heard.len > 0 || ws->heard.len > 0;
        assert_true(has_said || count_connections(sw) < before);
        buf_clear(&stream->heard);
        buf_clear(&ws->heard);
    }
    /* One for the stream in each silent period; one for the end of each client that only connected,
     * and of the WebSocket, which did not answer its ping. */
    assert_in_range(wakes, 10, 10 * 8 / 7 + 3);
    assert_int_equal(count_connections(sw), 1);
    close(line);
    wire_turn(&w);
    for (size_t i = 0; i < w.client_count; i++) {
        wire_leave(&w.clients[i]);
    }
    socket_worker_destroy(sw);
    wire_stop(&w);
    clock_set_fake(NULL);
}

/* A write postpones the keep-alive, without moving the connection in the list. */
static void written_stream_needs_no_keep_alive(void **state)
{
    (void)state;
    begin_time();
    wire_start(&w);
    struct wire_client *stream = wire_connect(&w, 0);
    wire_say(stream, wire_listen("mem://x/a"));
    uint64_t keepalive = w.config.keepalive_ms;
    for (int i = 0; i < 20; i++) {
        buf_clear(&stream->heard);
        pass(keepalive / 4);
        harness_update(&w.b, "mem://x/a");
        wire_turn(&w);
        const char *heard = wire_heard(stream);
        wire_assert_has(heard, "notifications/resources/updated");
        assert_null(strstr(heard, "\n:\n"));
    }
    uint64_t silence = 0;
    while (stream->heard.len == 0) { /* and then one keep-alive in time */
        int wait = loop_timeout_ms(w.b.loop);
        pass((uint64_t)wait);
        silence += (uint64_t)wait;
        wire_turn(&w);
    }
    assert_string_equal(wire_heard(stream), ":\n\n");
    assert_in_range(silence, keepalive / 4 * 3, keepalive);
    wire_leave(stream);
    wire_stop(&w);
    clock_set_fake(NULL);
}

int main(void)
{
#define OF_MODULE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        OF_MODULE(timer_stays_off_without_deadlines),
        OF_MODULE(timer_runs_until_the_nearest_deadline),
        OF_MODULE(earlier_deadline_sets_the_timer_at_once),
        OF_MODULE(deadlines_due_together_share_a_wake_up),
        OF_MODULE(untouched_connection_is_checked_again_after_the_same_time),
        OF_MODULE(progress_restarts_the_stall_deadline),
        OF_MODULE(other_checks_are_not_delayed_by_turns),
        OF_MODULE(wall_clock_deadline_is_checked_each_minute),
        cmocka_unit_test(idle_clients_cause_no_early_wake_ups),
        cmocka_unit_test(written_stream_needs_no_keep_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
