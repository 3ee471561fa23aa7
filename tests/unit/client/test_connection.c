/* SPDX-License-Identifier: MIT
 *
 * Connecting, over a transport without a server: detection of the era, and reconnect delays.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "support/fake_transport.h"

static void modern(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    (void)fake_modern(f, method, id);
}

static void legacy(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    (void)fake_legacy(f, method, id);
}

/* ---- eras ------------------------------------------------------------------------------------ */

static void server_with_discovery_is_modern(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_client *c = fake_client(&f, modern, NULL, NULL);
    assert_null(tidings_client_info(c));
    assert_int_equal(tidings_client_connect(c, &err), 0);
    const struct tidings_client_info *i = tidings_client_info(c);
    assert_int_equal(i->era, TIDINGS_ERA_MODERN);
    assert_string_equal(i->version, "2026-07-28");
    assert_string_equal(i->server_name, "fake");
    assert_string_equal(i->server_version, "7");
    assert_string_equal(i->instructions, "be kind");
    assert_string_equal(i->transport, "fake");
    assert_true(i->can_subscribe);
    assert_non_null(strstr(i->capabilities, "\"subscribe\":true"));
    assert_string_equal(f.log, "server/discover 1\n");
    tidings_client_destroy(c);
}

static void server_without_discovery_is_initialized(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_client *c = fake_client(&f, legacy, NULL, NULL);
    assert_int_equal(tidings_client_connect(c, &err), 0);
    assert_int_equal(tidings_client_info(c)->era, TIDINGS_ERA_LEGACY);
    assert_string_equal(tidings_client_info(c)->version, "2025-06-18");
    assert_string_equal(f.log, "server/discover 1\ninitialize 2\nnotifications/initialized 0\n");
    tidings_client_destroy(c);
}

static void silent(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (strcmp(method, "server/discover") != 0) {
        (void)fake_legacy(f, method, id);
    }
}

static void silent_server_is_initialized(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_client_options quick = {.probe_ms = 1};
    struct tidings_client *c = fake_client(&f, silent, NULL, &quick);
    assert_int_equal(tidings_client_connect(c, NULL), 0);
    assert_int_equal(tidings_client_info(c)->era, TIDINGS_ERA_LEGACY);
    tidings_client_destroy(c);
}

static void mortal(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (strcmp(method, "server/discover") == 0) {
        fake_say(f, NULL);
    } else {
        (void)fake_legacy(f, method, id);
    }
}

static void server_is_initialized_if_discovery_kills_it_twice(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_client *c = fake_client(&f, mortal, NULL, NULL);
    assert_int_equal(tidings_client_connect(c, &err), 0);
    assert_int_equal(f.opened, 3);
    assert_int_equal(tidings_client_info(c)->era, TIDINGS_ERA_LEGACY);
    tidings_client_destroy(c);
}

/* A modern server whose first connections break before its answer. */
static void breaking(struct fake *f, const char *method, int64_t id, struct json *m)
{
    unsigned *times = f->user;
    (void)m;
    if (strcmp(method, "server/discover") == 0 && *times > 0) {
        (*times)--;
        fake_say(f, NULL);
    } else if (!fake_modern(f, method, id)) {
        (void)fake_legacy(f, method, id);
    }
}

static void broken_connection_leaves_era_unknown(void **state)
{
    (void)state;
    struct fake f;
    unsigned times = 1;
    struct tidings_client *c = fake_client(&f, breaking, &times, NULL);
    assert_int_equal(tidings_client_connect(c, NULL), 0);
    assert_int_equal(f.opened, 2);
    assert_int_equal(tidings_client_info(c)->era, TIDINGS_ERA_MODERN);
    tidings_client_destroy(c);
    /* The client drops its guess with the connection. */
    times = 2;
    c = fake_client(&f, breaking, &times, NULL);
    assert_int_equal(tidings_client_connect(c, NULL), 0);
    assert_int_equal(tidings_client_info(c)->era, TIDINGS_ERA_LEGACY);
    fake_say(&f, NULL);
    while (c->stage == STAGE_READY) {
        loop_turn(c->loop);
    }
    assert_int_equal(tidings_client_connect(c, NULL), 0);
    assert_int_equal(tidings_client_info(c)->era, TIDINGS_ERA_MODERN);
    tidings_client_destroy(c);
    /* A server that crashes on discovery each time is detected as legacy each time. */
    c = fake_client(&f, mortal, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tidings_client_connect(c, NULL), 0);
        assert_int_equal(tidings_client_info(c)->era, TIDINGS_ERA_LEGACY);
        fake_say(&f, NULL);
        while (c->stage == STAGE_READY) {
            loop_turn(c->loop);
        }
    }
    tidings_client_destroy(c);
}

/* ---- coming back ----------------------------------------------------------------------------- */

struct coming_back {
    struct tidings_client *client;
    uint32_t pause_ms; /* as told */
};

static void on_pause(void *user, const struct tidings_state_event *e)
{
    struct coming_back *s = user;
    s->pause_ms = e->state == TIDINGS_STATE_DISCONNECTED ? e->retry_ms : s->pause_ms;
}

static void ignore(void *user, const struct tidings_update *u)
{
    (void)user;
    (void)u;
}

static void draining(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (!fake_modern(f, method, id) && strcmp(method, "subscriptions/listen") == 0) {
        fake_acknowledge(f, id, m, "");
        fake_result(f, id, "{}"); /* it ends cleanly */
    }
}

static void clean_close_is_retried_soon(void **state)
{
    (void)state;
    struct fake f;
    struct clock_fake clock = {.monotonic_ns = 1000000};
    struct coming_back s = {0};
    struct tidings_subscribe_options on = {.fn = ignore};
    struct tidings_client_options o = {.retry_min_ms = 1000, .no_compare = true};
    unsigned early = 0, late = 0;
    clock_set_fake(&clock);
    s.client = fake_client(&f, draining, NULL, &o);
    tidings_client_on_state(s.client, on_pause, &s);
    assert_non_null(tidings_client_subscribe(s.client, "x:/a", &on, NULL));
    for (unsigned i = 1; i <= 100; i++) {
        do {
            assert_int_equal(tidings_client_step(s.client, 0, NULL), 1);
        } while (s.client->stage != STAGE_PAUSED || !list_empty(&s.client->events));
        f.log[0] = '\0';
        assert_int_equal(s.client->stage, STAGE_PAUSED);
        assert_true(s.pause_ms <= 1000);
        early += s.pause_ms < 500;
        late += s.pause_ms >= 500;
        uint64_t due = s.client->retry.due_ms;
        assert_int_equal(due, clock.monotonic_ns / 1000000 + s.pause_ms);
        clock.monotonic_ns = due * 1000000;
    }
    assert_true(early > 0 && late > 0); /* fails at random in one of 2^99 runs */
    tidings_client_destroy(s.client);
    clock_set_fake(NULL);
}

static void configured_version_is_the_only_one(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct tidings_client_options o = {.version = "2026-07-28"};
    struct tidings_client *c = fake_client(&f, legacy, NULL, &o);
    assert_int_equal(tidings_client_connect(c, &err), TIDINGS_E_UNSUPPORTED);
    tidings_client_destroy(c);
    o.version = "2024-11-05";
    c = fake_client(&f, legacy, NULL, &o);
    assert_int_equal(tidings_client_connect(c, &err), TIDINGS_E_UNSUPPORTED);
    assert_string_equal(err.text, "the server speaks 2025-06-18, not 2024-11-05");
    assert_string_equal(f.log, "initialize 1\n");
    tidings_client_destroy(c);
    o.version = "2025-06-18";
    c = fake_client(&f, legacy, NULL, &o);
    assert_int_equal(tidings_client_connect(c, &err), 0);
    tidings_client_destroy(c);
}

/* A server that lists its versions, in an error (-32022) or a result, and sends nothing else. */
struct naming {
    const char *versions;
    bool is_result;
    int refusals; /* before it answers */
};

static void naming_server(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct naming *n = f->user;
    (void)m;
    if (strcmp(method, "server/discover") == 0 && n->is_result) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64
                  ",\"result\":{\"supportedVersions\":%s,\"capabilities\":{}}}",
                  id, n->versions);
    } else if (strcmp(method, "server/discover") == 0 && n->refusals-- > 0) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64
                  ",\"error\":{\"code\":-32022,\"message\":\"no\",\"data\":{\"supported\":%s}}}",
                  id, n->versions);
    } else if (strcmp(method, "server/discover") == 0) {
        (void)fake_modern(f, method, id);
    } else {
        (void)fake_legacy(f, method, id);
    }
}

static void rejected_revision_means_modern_server(void **state)
{
    static const struct {
        struct naming server;
        int code;
        const char *log, *why;
    } rows[] = {
        {{"[\"2026-07-28\"]", false, 1}, 0, "server/discover 1\nserver/discover 2\n", ""},
        {{"[\"2026-07-28\"]", false, 9},
         TIDINGS_E_UNSUPPORTED,
         "server/discover 1\nserver/discover 2\n",
         "and refuses it"},
        {{"[\"2027-03-04\",\"2027-01-01\"]", false, 9},
         TIDINGS_E_UNSUPPORTED,
         "server/discover 1\n",
         "speaks 2027-03-04, a newer revision"},
        {{"[\"2027-03-04\"]", true, 0},
         TIDINGS_E_UNSUPPORTED,
         "server/discover 1\n",
         "speaks 2027-03-04, a newer revision"},
        {{"[\"2027-03-04\",\"2026-07-28\"]", true, 0}, 0, "server/discover 1\n", ""},
        {{"[\"1999-01-01\"]", false, 9},
         TIDINGS_E_UNSUPPORTED,
         "server/discover 1\n",
         "speaks 1999-01-01, and nothing"},
        {{"[]", false, 9}, TIDINGS_E_UNSUPPORTED, "server/discover 1\n", "nor says what"},
        {{"[\"\\u001b[31m\",7]", false, 9},
         TIDINGS_E_UNSUPPORTED,
         "server/discover 1\n",
         "nor says what"},
        /* It lists one with sessions. */
        {{"[\"2025-11-25\"]", false, 9},
         0,
         "server/discover 1\ninitialize 2\nnotifications/initialized 0\n",
         ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake f;
        struct naming server = rows[i].server;
        struct tidings_error err = {0};
        struct tidings_client *c = fake_client(&f, naming_server, &server, NULL);
        int rc = tidings_client_connect(c, &err);
        assert_int_equal(rc, rows[i].code);
        assert_string_equal(f.log, rows[i].log);
        assert_non_null(strstr(err.text, rows[i].why));
        tidings_client_destroy(c);
    }
}

static void newer_server(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (strcmp(method, "initialize") == 0) {
        fake_result(f, id, "{\"protocolVersion\":\"2027-01-01\",\"capabilities\":{}}");
    } else {
        fake_error(f, id, -32601, "what?");
    }
}

static void newer_revision_is_reported(void **state)
{
    struct fake f;
    struct tidings_error err = {0};
    (void)state;
    struct tidings_client *c = fake_client(&f, newer_server, NULL, NULL);
    assert_int_equal(tidings_client_connect(c, &err), TIDINGS_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "2027-01-01, a newer revision"));
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_with_discovery_is_modern),
        cmocka_unit_test(server_without_discovery_is_initialized),
        cmocka_unit_test(silent_server_is_initialized),
        cmocka_unit_test(server_is_initialized_if_discovery_kills_it_twice),
        cmocka_unit_test(broken_connection_leaves_era_unknown),
        cmocka_unit_test(clean_close_is_retried_soon),
        cmocka_unit_test(configured_version_is_the_only_one),
        cmocka_unit_test(rejected_revision_means_modern_server),
        cmocka_unit_test(newer_revision_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
