/* SPDX-License-Identifier: MIT
 *
 * Open streams when rules are replaced or credentials expire, and the ownership of sessions and
 * events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_access_start(&b, &stub);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

/* ada sees open resources. */
static const struct harness_rule usual[] = {
    {"ada", NULL, "mem://x/open/**", HARNESS_SEE},
    {"ada", NULL, "mem://x/a", HARNESS_SEE},
};

static void set_usual(void)
{
    harness_rules(&b, usual, COUNT(usual));
}

/* ---- new rules, expiry ----------------------------------------------------------------------- */

static void new_rules_narrow_open_streams(void **state)
{
    (void)state;
    set_usual();
    harness_is(&b, "ada", "");
    struct client *c = client_http(&b);
    client_listen_with(c, "1", "[\"mem://x/a\",\"mem://x/open/d\",\"mem://x/**\"]",
                       "{\"windowMs\":0}");
    harness_run_until_idle(&b);
    c->pending = 1u << 20; /* it reads nothing: updates wait */
    harness_update(&b, "mem://x/a");
    harness_update(&b, "mem://x/open/d");
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 0);
    c->pending = 0;
    static const struct harness_rule fewer[] = {{"ada", NULL, "mem://x/open/**", HARNESS_SEE}};
    harness_rules(&b, fewer, COUNT(fewer));
    client_drain(c);
    harness_run_until_idle(&b);
    /* The stream she named has ended, and she knows; its pending updates are not sent. */
    assert_int_equal(update_count(c, "mem://x/a"), 1);
    assert_json(update_nth(c, "mem://x/a", 0), "params|_meta|dev.tidings/suspended", "true");
    assert_int_equal(update_count(c, "mem://x/open/d"), 1);
    assert_int_equal(update_count(c, "mem://x/**"), 1);
    harness_update(&b, "mem://x/a");
    harness_update(&b, "mem://x/open/e");
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, "mem://x/a"), 1);
    assert_int_equal(update_count(c, "mem://x/**"), 2);
    /* No rights remain: the stream ends with its result. */
    harness_rules(&b, NULL, 0);
    assert_int_equal(client_count_kind(c, SAID_END), 1);
    assert_non_null(strstr(client_nth_kind(c, SAID_EVENT, c->count - 2)->text, "\"result\""));
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->principals->by_key.count, 0);
}

static void new_rules_apply_to_connected_clients(void **state)
{
    (void)state;
    struct client *pipe = client_pipe(&b);
    client_is(pipe, PRINCIPAL_USER, "uid:1", "", 0);
    client_handshake(pipe, "2025-11-25");
    assert_empty_result(pipe_subscribe_with(pipe, "2", "mem://x/a", NULL));
    static const struct harness_rule other[] = {{"uid:1", NULL, "mem://x/open/**", HARNESS_SEE}};
    harness_rules(&b, other, COUNT(other));
    assert_int_equal(update_count(pipe, "mem://x/a"), 1); /* it ended */
    assert_json(pipe_subscribe_with(pipe, "3", "mem://x/a", NULL), "error|message",
                "resource not found");
    assert_empty_result(pipe_subscribe_with(pipe, "4", "mem://x/open/d", NULL));
    client_free(pipe);
}

static bool has_ended(void *c)
{
    return client_count_kind(c, SAID_END) > 0;
}

static void streams_end_at_expiry_and_the_session_stays(void **state)
{
    (void)state;
    harness_is(&b, "ada", "");
    b.principal.expires_ms = clock_wall_ms() + 30;
    struct client *listen = listen_with(&b, "[\"mem://x/a\"]", NULL);
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/a");
    struct client *stream = session_stream(&s, NULL);
    harness_until(&b, has_ended, listen);
    harness_until(&b, has_ended, stream);
    assert_non_null(strstr(client_nth_kind(listen, SAID_EVENT, 1)->text, "\"result\""));
    assert_int_equal(b.worker[0]->stats.sessions, 1);
    char id[256];
    snprintf(id, sizeof(id), "%s", client_nth_kind(stream, SAID_PRIME, 0)->id);
    client_free(listen);
    client_free(stream);
    harness_update(&b, "mem://x/a");
    harness_run_until_idle(&b);
    /* A newer token of the same principal resumes where the stream ended. */
    b.principal.expires_ms = clock_wall_ms() + 1000000;
    stream = session_stream(&s, id);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(stream, "mem://x/a"), 1);
    client_free(stream);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static int get(const char *session, const char *last_event_id)
{
    struct client *c = client_http(&b);
    struct dialect_headers h = {.session_id = tidings_str(session),
                                .last_event_id = tidings_str(last_event_id)};
    c->is_waiting = true;
    inbound_get(&c->channel, &h);
    harness_run_until_idle(&b);
    int status = c->is_streaming ? 200 : client_answer(c)->status;
    client_free(c);
    return status;
}

static void sessions_and_events_of_other_principals_are_not_found(void **state)
{
    (void)state;
    harness_is(&b, "ada", "");
    struct harness_session s, own;
    harness_session(&b, "2025-11-25", &s);
    struct client *stream = session_stream(&s, NULL);
    char id[256];
    snprintf(id, sizeof(id), "%s", client_nth_kind(stream, SAID_PRIME, 0)->id);
    harness_is(&b, "eve", "");
    harness_session(&b, "2025-11-25", &own);
    struct client *c = client_http(&b);
    client_legacy(c, s.id, "1", "ping", NULL);
    assert_int_equal(client_answer(c)->status, 404);
    client_free(c);
    assert_int_equal(get(s.id, ""), 404);
    assert_int_equal(get(s.id, id), 404);
    assert_int_equal(session_delete(&s), 404);
    assert_int_equal(get(own.id, id), 404); /* her event id in another principal's session */
    assert_int_equal(get(own.id, "1.1.0"), 404);
    assert_int_equal(get(own.id, ""), 200);
    b.principal.kind = PRINCIPAL_CERTIFICATE; /* the same name, authenticated in another way */
    b.principal.name = "ada";
    assert_int_equal(get(s.id, ""), 404);
    harness_is(&b, "", ""); /* anonymous, in an anonymous session */
    harness_session(&b, "2025-11-25", &own);
    assert_int_equal(get(own.id, id), 404);
    assert_int_equal(get(own.id, "nonsense-1.1"), 200); /* only unknown: truncated */
    harness_is(&b, "ada", "");
    assert_int_equal(get(s.id, id), 200);
    client_free(stream);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(new_rules_narrow_open_streams),
        TEST(new_rules_apply_to_connected_clients),
        TEST(streams_end_at_expiry_and_the_session_stays),
        TEST(sessions_and_events_of_other_principals_are_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
