/* SPDX-License-Identifier: MIT
 *
 * The maximum silence of a server.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/client.h"
#include "support/fake_transport.h"

static void nothing(struct fake *f, const char *method, int64_t id, struct json *message)
{
    (void)f;
    (void)method;
    (void)id;
    (void)message;
}

/* A message arrives this long after the previous one. */
static void heard_after(struct tidings_client *c, uint64_t ms, bool is_beat)
{
    c->heartbeat.received_at -= ms;
    heartbeat_received(c, is_beat);
}

/* Time passes while a test runs. */
static void is_about(uint64_t limit, uint64_t expected)
{
    assert_in_range(limit, expected, expected + 60000);
}

static void heartbeat_interval_is_learned_from_idle_messages(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_client *c = fake_client(&f, nothing, NULL, NULL);
    heard_after(c, 15000, true); /* nothing is watched yet */
    heartbeat_begin(c);
    heard_after(c, 90000, false);
    heard_after(c, 10, true);
    heard_after(c, 10, true);
    heard_after(c, 15000, true);
    assert_int_equal(heartbeat_limit(c), 0);
    assert_false(loop_timer_is_running(&c->heartbeat.timer));
    heard_after(c, 10000, true);
    is_about(heartbeat_limit(c), 3 * 15000 + HEARTBEAT_MORE_MS);
    assert_true(loop_timer_is_running(&c->heartbeat.timer));
    heard_after(c, 30000, true);
    is_about(heartbeat_limit(c), 3 * 30000 + HEARTBEAT_MORE_MS);
    heard_after(c, 80000, false);
    is_about(heartbeat_limit(c), 3 * 30000 + HEARTBEAT_MORE_MS);
    assert_int_equal(c->info.public.beats, 3);
    is_about(c->info.public.beat_ms, 30000);
    heartbeat_end(c);
    assert_int_equal(heartbeat_limit(c), 0); /* the next connection has its own */
    heartbeat_begin(c);
    heard_after(c, 1000, true);
    c->heartbeat.received_at -= 90000;
    transport_streaming(c->transport, true);
    heartbeat_received(c, true); /* it begins with a comment */
    assert_int_equal(c->info.public.beats, 4);
    is_about(c->info.public.beat_ms, 30000);
    heartbeat_end(c);
    assert_false(loop_timer_is_running(&c->heartbeat.timer));
    tidings_client_destroy(c);
}

static void program_setting_overrides_learned_interval(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_client_options o = {.silence_ms = 70};
    struct tidings_client *c = fake_client(&f, nothing, NULL, &o);
    assert_int_equal(heartbeat_limit(c), 70);
    heartbeat_begin(c);
    assert_true(loop_timer_is_running(&c->heartbeat.timer));
    heard_after(c, 15000, true);
    heard_after(c, 15000, true);
    assert_int_equal(heartbeat_limit(c), 70);
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heartbeat_interval_is_learned_from_idle_messages),
        cmocka_unit_test(program_setting_overrides_learned_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
