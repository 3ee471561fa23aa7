/* SPDX-License-Identifier: MIT
 *
 * Legacy sessions: ids, limits, expiry, DELETE, and how messages find their session.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/session.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GAP_MS 100u

static struct harness b;
static struct fake fake;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.limits.max_sessions = 4;
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/a");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

static bool is_visible_ascii(const char *s)
{
    for (; *s; s++) {
        if (*s < 0x21 || *s > 0x7e) {
            return false;
        }
    }
    return true;
}

static void ids_are_visible_long_and_unique(void **state)
{
    (void)state;
    static char seen[50][48];
    for (size_t i = 0; i < COUNT(seen); i++) {
        struct harness_session s;
        harness_session(&b, "2025-11-25", &s);
        assert_int_equal(strlen(s.id), SESSION_ID_LEN);
        assert_true(is_visible_ascii(s.id));
        assert_int_equal(session_worker(tidings_str(s.id), 0), 0);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(seen[k], s.id);
        }
        snprintf(seen[i], sizeof(seen[i]), "%s", s.id);
        assert_int_equal(session_delete(&s), 204);
    }
    assert_int_equal(b.worker[0]->stats.sessions, 0);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
}

static void id_names_its_worker_or_is_invalid(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        int worker;
    } rows[] = {
        {"00-00000000000000000000000000000000", 0},
        {"01-0123456789abcdef0123456789abcdef", 1},
        {"ff-0123456789abcdef0123456789abcdef", 255},
        {"1f-0123456789abcdef0123456789abcdef", 31},
        {"", -1},
        {"00", -1},
        {"0g-0123456789abcdef0123456789abcdef", -1},
        {"FF-0123456789abcdef0123456789abcdef", -1},
        {"-1-0123456789abcdef0123456789abcdef", -1},
        {"00_0123456789abcdef0123456789abcdef", -1},
        {"00-0123456789abcdef0123456789abcde", -1},
        {"00-0123456789abcdef0123456789abcdef0", -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(session_worker(tidings_str(rows[i].id), 0), rows[i].worker);
    }
}

static void requests_need_the_id_of_a_living_session(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-06-18", &s);
    static const struct {
        const char *session;
        int status;
    } rows[] = {
        {NULL, 400},
        {"", 404},
        {"nonsense", 404},
        {"00-00000000000000000000000000000000", 404},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct client *c = client_http(&b);
        client_legacy(c, rows[i].session, "\"q\"", "ping", NULL);
        assert_int_equal(client_answer(c)->status, rows[i].status);
        assert_non_null(json_at(client_answer(c)->text, "error|message"));
        assert_json(client_answer(c)->text, "id", "q");
        client_free(c);
        c = client_http(&b);
        client_notify(c, rows[i].session, "notifications/initialized", NULL);
        assert_int_equal(client_answer(c)->status, rows[i].status);
        client_free(c);
    }
    struct client *c = session_request(&s, "1", "ping", NULL);
    assert_empty_result(client_answer(c)->text);
    client_free(c);
    c = session_request(&s, "1", "no/such", NULL);
    assert_int_equal(client_answer(c)->status, 200);
    assert_json(client_answer(c)->text, "error|code", "-32601");
    client_free(c);
}

static void deleted_session_releases_its_streams_and_watches(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/a");
    struct client *one = session_stream(&s, NULL), *two = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_true(fake.armed > 0);
    assert_int_equal(session_delete(&s), 204);
    harness_run_until_idle(&b);
    assert_int_equal(client_count_kind(one, SAID_END), 1);
    assert_int_equal(client_count_kind(two, SAID_END), 1);
    assert_int_equal(fake.armed, 0);
    assert_int_equal(b.worker[0]->delivery->match.count, 0);
    assert_int_equal(session_delete(&s), 404);
    struct client *c = session_request(&s, "1", "ping", NULL);
    assert_int_equal(client_answer(c)->status, 404);
    client_free(c);
    c = session_stream(&s, NULL);
    assert_int_equal(client_answer(c)->status, 404);
    client_free(c);
    client_free(one);
    client_free(two);
}

static void request_survives_the_end_of_its_session(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    fake.holds_reads = fake.holds_watches = true;
    struct client *read = session_request(&s, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    struct client *subscribe =
        session_request(&s, "2", "resources/subscribe", "\"uri\":\"mem://x/a\"");
    harness_run_until_idle(&b);
    assert_int_equal(session_delete(&s), 204);
    fake_finish_reads(&fake);
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_non_null(json_at(client_answer(read)->text, "result|contents|0|text"));
    assert_json(client_answer(subscribe)->text, "error|code", "-32603");
    assert_int_equal(fake.armed, 0);
    client_free(read);
    client_free(subscribe);
}

static void sessions_are_limited(void **state)
{
    (void)state;
    struct harness_session s[4];
    for (size_t i = 0; i < COUNT(s); i++) {
        harness_session(&b, "2025-11-25", &s[i]);
    }
    struct client *c = client_http(&b);
    client_legacy(c, NULL, "1", "initialize", "\"protocolVersion\":\"2025-11-25\"");
    assert_non_null(json_at(client_answer(c)->text, "error|message"));
    assert_string_equal(client_answer(c)->session, "");
    client_free(c);
    assert_int_equal(session_delete(&s[0]), 204);
    harness_session(&b, "2025-11-25", &s[0]);
}

static bool time_has_passed(void *user)
{
    return loop_now_ms(b.loop) >= *(uint64_t *)user;
}

static void pass(uint64_t ms)
{
    uint64_t until = loop_now_ms(b.loop) + ms;
    harness_until(&b, time_has_passed, &until);
}

/* Ends sessions idle since `old` and keeps sessions idle since `young`, however long this
 * machine took in between. */
static void sweep_between(uint64_t old, uint64_t young)
{
    uint64_t before = b.limits.session_timeout_ms;
    b.limits.session_timeout_ms = loop_now_ms(b.loop) - (old + young) / 2;
    session_sweep(b.worker[0]);
    b.limits.session_timeout_ms = before;
}

static void idle_sessions_end_unless_they_have_a_stream(void **state)
{
    (void)state;
    struct harness_session idle, streaming, busy, fresh;
    harness_session(&b, "2025-11-25", &idle);
    harness_session(&b, "2025-11-25", &streaming);
    harness_session(&b, "2025-11-25", &busy);
    struct client *stream = session_stream(&streaming, NULL);
    fake.holds_reads = true;
    struct client *read = session_request(&busy, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    uint64_t began = loop_now_ms(b.loop);
    pass(GAP_MS);
    uint64_t later = loop_now_ms(b.loop);
    harness_session(&b, "2025-11-25", &fresh);
    sweep_between(began, later);
    assert_int_equal(b.worker[0]->stats.sessions, 3);
    assert_int_equal(session_delete(&idle), 404);
    /* The end of a stream starts the clock. */
    client_vanish(stream);
    fake_finish_reads(&fake);
    uint64_t vanished = loop_now_ms(b.loop);
    pass(GAP_MS);
    sweep_between(began, later);
    assert_int_equal(b.worker[0]->stats.sessions, 3);
    later = loop_now_ms(b.loop);
    struct client *c = session_request(&fresh, "1", "ping", NULL); /* activity */
    client_free(c);
    sweep_between(vanished, later);
    assert_int_equal(b.worker[0]->stats.sessions, 1);
    assert_int_equal(session_delete(&fresh), 204);
    client_free(stream);
    client_free(read);
}

static void session_without_its_stream_does_not_shield_older_ones(void **state)
{
    (void)state;
    struct harness_session first, second;
    harness_session(&b, "2025-11-25", &first);
    struct client *stream = session_stream(&first, NULL);
    harness_session(&b, "2025-11-25", &second);
    uint64_t began = loop_now_ms(b.loop);
    pass(GAP_MS);
    client_vanish(stream); /* the first was active just now, the second long before */
    sweep_between(began, loop_now_ms(b.loop));
    assert_int_equal(session_delete(&second), 404);
    assert_int_equal(session_delete(&first), 204);
    client_free(stream);
}

static bool has_no_session(void *user)
{
    (void)user;
    return b.worker[0]->stats.sessions == 0;
}

static void tick_ends_idle_sessions(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    assert_int_equal(b.worker[0]->stats.sessions, 1);
    b.limits.session_timeout_ms = 1;
    harness_until(&b, has_no_session, NULL);
}

static void session_belongs_to_its_principal(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *c = client_http(&b);
    client_is(c, PRINCIPAL_TOKEN, "somebody else", "", 0);
    client_legacy(c, s.id, "1", "ping", NULL);
    assert_int_equal(client_answer(c)->status, 404);
    client_free(c);
}

static void modern_streams_are_refused_with_the_alternative(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    static const struct {
        const char *version;
        int status;
        const char *allow;
    } rows[] = {
        {"2026-07-28", 405, "POST"},
        {"2020-01-01", 400, ""},
    };
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        struct client *c = client_http(&b);
        struct dialect_headers h = {.session_id = tidings_str(s.id),
                                    .protocol_version = tidings_str(rows[i / 2].version)};
        c->is_waiting = true;
        if (i % 2) {
            inbound_get(&c->channel, &h);
        } else {
            inbound_delete(&c->channel, &h);
        }
        assert_int_equal(client_answer(c)->status, rows[i / 2].status);
        assert_string_equal(client_answer(c)->allow, rows[i / 2].allow);
        assert_non_null(json_at(client_answer(c)->text, "error|code"));
        client_free(c);
    }
    assert_int_equal(session_delete(&s), 204);
}

static void session_has_at_most_four_streams(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *streams[SESSION_MAX_STREAMS];
    for (size_t i = 0; i < COUNT(streams); i++) {
        streams[i] = session_stream(&s, NULL);
        assert_true(streams[i]->is_streaming);
    }
    struct client *c = session_stream(&s, NULL);
    assert_int_equal(client_answer(c)->status, 409);
    client_free(c);
    client_vanish(streams[2]);
    c = session_stream(&s, NULL);
    assert_true(c->is_streaming);
    client_free(c);
    for (size_t i = 0; i < COUNT(streams); i++) {
        client_free(streams[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(ids_are_visible_long_and_unique),
        TEST(id_names_its_worker_or_is_invalid),
        TEST(requests_need_the_id_of_a_living_session),
        TEST(deleted_session_releases_its_streams_and_watches),
        TEST(request_survives_the_end_of_its_session),
        TEST(sessions_are_limited),
        TEST(idle_sessions_end_unless_they_have_a_stream),
        TEST(session_without_its_stream_does_not_shield_older_ones),
        TEST(tick_ends_idle_sessions),
        TEST(session_belongs_to_its_principal),
        TEST(modern_streams_are_refused_with_the_alternative),
        TEST(session_has_at_most_four_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
