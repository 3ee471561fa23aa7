/* SPDX-License-Identifier: MIT
 *
 * Every incoming message is answered: malformed input, wrong shapes, batches, cancelled requests,
 * and requests of disconnected clients.
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
#include "engine/delivery/subscriber.h"
#include "security/limits.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define READ_A "\"method\":\"resources/read\",\"params\":{\"uri\":\"mem://x/a\"}"
#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"ping\"}"
#define NOTE "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"

static struct harness b;
static struct fake fake;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/a");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->jobs, 0);
    harness_stop(&b);
    return 0;
}

static const char *last_text(const struct client *c)
{
    assert_true(c->count > 0);
    assert_non_null(c->said[c->count - 1].text);
    return c->said[c->count - 1].text;
}

static void invalid_messages_are_answered_with_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *code, *id; /* id NULL: omitted */
    } rows[] = {
        {"", "-32700", NULL},
        {"{", "-32700", NULL},
        {"nonsense", "-32700", NULL},
        {"{} {}", "-32700", NULL},
        {"{\"a\":1,\"a\":2}", "-32700", NULL},
        {"\"\xff\"", "-32700", NULL},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
         "-32700", NULL},
        {"1", "-32600", NULL},
        {"null", "-32600", NULL},
        {"\"x\"", "-32600", NULL},
        {"{}", "-32600", NULL},
        {"{\"jsonrpc\":\"1.0\",\"id\":4,\"method\":\"ping\"}", "-32600", "4"},
        {"{\"id\":4,\"method\":\"ping\"}", "-32600", "4"},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", "-32600", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", "-32600", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"ping\"}", "-32600", NULL},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"q\"}", "-32600", "q"},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":7}", "-32600", "q"},
        {"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"\"}", "-32600", "q"},
        {"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"params\":[]}", "-32600", "5"},
        {"[]", "-32600", NULL},
    };
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    harness_run_until_idle(&b);
    for (size_t i = 0; i < 2 * COUNT(rows); i++) {
        struct client *c = i % 2 ? pipe : client_http(&b);
        size_t before = c->count;
        client_say(c, NULL, rows[i / 2].text);
        assert_int_equal(c->count, before + 1);
        assert_json(last_text(c), "error|code", rows[i / 2].code);
        if (rows[i / 2].id) {
            assert_json(last_text(c), "id", rows[i / 2].id);
        } else {
            assert_no_json(last_text(c), "id");
        }
        if (c != pipe) {
            assert_int_equal(client_answer(c)->status, 400);
            client_free(c);
        }
    }
    client_free(pipe);
}

static void notifications_and_responses_are_accepted_without_an_answer(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    static const char *const texts[] = {
        NOTE,
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard_of\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":99}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":{}}}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":1,\"message\":\"m\"}}",
    };
    struct dialect_headers headers = {.session_id = tidings_str(s.id)};
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    harness_run_until_idle(&b);
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct client *c = client_http(&b);
        client_say(c, &headers, texts[i]);
        assert_int_equal(c->count, 1);
        assert_int_equal(c->said[0].kind, SAID_ACCEPTED);
        client_free(c);
        size_t answers = client_count_kind(pipe, SAID_ANSWER);
        client_say(pipe, NULL, texts[i]);
        assert_int_equal(client_count_kind(pipe, SAID_ANSWER), answers);
    }
    client_free(pipe);
}

static void long_version_is_echoed_in_a_bounded_message(void **state)
{
    (void)state;
    enum { LEN = 200 * 1024 };
    char *text = test_malloc(LEN + 512);
    char *version = test_malloc(LEN + 1);
    memset(version, 'v', LEN);
    version[LEN] = '\0';
    snprintf(text, LEN + 512,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"%s\","
             "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
             version);
    struct client *c = client_pipe(&b);
    client_say(c, NULL, text);
    assert_json(client_answer(c)->text, "error|code", "-32022");
    assert_non_null(json_at(client_answer(c)->text, "error|data|supported|0"));
    assert_true(client_answer(c)->len < 64 * 1024);
    client_free(c);
    test_free(text);
    test_free(version);
}

static void modern_unknown_and_removed_methods_are_404(void **state)
{
    (void)state;
    static const char *const methods[] = {"initialize",
                                          "ping",
                                          "logging/setLevel",
                                          "resources/subscribe",
                                          "resources/unsubscribe",
                                          "unknown/method",
                                          "tools/list"};
    for (size_t i = 0; i < COUNT(methods); i++) {
        struct client *c = client_http(&b);
        client_modern(c, "1782000000000", methods[i], NULL);
        assert_int_equal(client_answer(c)->status, 404);
        assert_json(client_answer(c)->text, "error|code", "-32601");
        assert_json(client_answer(c)->text, "id", "1782000000000");
        client_free(c);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

static const char *batch(struct client *c, const char *session, const char *text)
{
    struct dialect_headers headers = {0};
    if (session) {
        headers.session_id = tidings_str(session);
    }
    client_say(c, c->channel.ops->is_http ? &headers : NULL, text);
    harness_run_until_idle(&b);
    return last_text(c);
}

static void batches_exist_in_one_revision_only(void **state)
{
    (void)state;
    static const struct {
        const char *revision;
        bool has;
    } rows[] = {
        {"2024-11-05", false}, {"2025-03-26", true}, {"2025-06-18", false}, {"2025-11-25", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct harness_session s;
        harness_session(&b, rows[i].revision, &s);
        struct client *http = client_http(&b), *pipe = client_pipe(&b);
        client_handshake(pipe, rows[i].revision);
        const char *texts[] = {batch(http, s.id, "[" PING("1") "]"),
                               batch(pipe, NULL, "[" PING("1") "]")};
        for (size_t k = 0; k < 2; k++) {
            if (rows[i].has) {
                assert_json(texts[k], "0|result", "{}");
            } else {
                assert_json(texts[k], "error|code", "-32600");
            }
        }
        assert_int_equal(client_answer(http)->status, rows[i].has ? 200 : 400);
        client_free(http);
        client_free(pipe);
    }
    struct client *c = client_http(&b);
    assert_json(batch(c, NULL, "[" PING("1") "]"), "error|code", "-32600");
    assert_int_equal(client_answer(c)->status, 400);
    client_free(c);
    c = client_http(&b);
    batch(c, "00-00000000000000000000000000000000", "[" PING("1") "]");
    assert_int_equal(client_answer(c)->status, 404);
    client_free(c);
}

static void mixed_batch_is_answered_as_one_array_when_the_last_is_done(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-03-26", &s);
    struct client *c = client_http(&b);
    fake.holds_reads = true;
    struct dialect_headers headers = {.session_id = tidings_str(s.id)};
    client_say(c, &headers,
               "[" PING("1") "," NOTE ",{\"jsonrpc\":\"2.0\",\"id\":\"r\"," READ_A "},7,"
                             "{\"jsonrpc\":\"2.0\",\"id\":3},"
                             "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"no/such\"},"
                             "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"initialize\","
                             "\"params\":{\"protocolVersion\":\"2025-03-26\"}},"
                             "{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"resources/"
                             "list\",\"params\":{\"_meta\":{"
                             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                             "\"io.modelcontextprotocol/clientCapabilities\":{}}}}]");
    harness_run_until_idle(&b);
    assert_int_equal(c->count, 0);
    fake_finish_reads(&fake);
    harness_run_until_idle(&b);
    const char *text = client_answer(c)->text;
    assert_int_equal(client_answer(c)->status, 200);
    assert_json(text, "0|id", "1");
    assert_no_json(text, "1|id");
    assert_json(text, "1|error|code", "-32600");
    assert_json(text, "2|id", "3");
    assert_json(text, "2|error|code", "-32600");
    assert_json(text, "3|error|code", "-32601");
    assert_json(text, "4|id", "5");
    assert_json(text, "4|error|code", "-32600");
    assert_json(text, "5|id", "6");
    assert_json(text, "5|error|code", "-32600");
    assert_json(text, "6|id", "r");
    assert_json(text, "6|result|contents|0|text", "content of mem://x/a");
    assert_no_json(text, "7");
    assert_int_equal(b.worker[0]->stats.sessions, 1);
    client_free(c);
}

static void batch_of_notifications_is_accepted_and_invalid_element_is_reported(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-03-26", &s);
    struct dialect_headers headers = {.session_id = tidings_str(s.id)};
    struct client *c = client_http(&b);
    client_say(c, &headers, "[" NOTE "," NOTE "]");
    assert_int_equal(c->said[0].kind, SAID_ACCEPTED);
    client_free(c);
    c = client_http(&b);
    assert_json(batch(c, s.id, "[1]"), "0|error|code", "-32600");
    client_free(c);
}

static void batch_holds_one_to_a_hundred_messages(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-03-26", &s);
    for (size_t n = 100; n <= 101; n++) {
        char text[101 * 64] = "[";
        size_t len = 1;
        for (size_t i = 0; i < n; i++) {
            len +=
                (size_t)snprintf(text + len, sizeof(text) - len, "%s" PING("%zu"), i ? "," : "", i);
        }
        snprintf(text + len, sizeof(text) - len, "]");
        struct client *c = client_http(&b);
        const char *answer = batch(c, s.id, text);
        if (n == 100) {
            assert_json(answer, "99|id", "99");
        } else {
            assert_json(answer, "error|code", "-32600");
        }
        client_free(c);
    }
    struct client *c = client_http(&b);
    assert_json(batch(c, s.id, "[]"), "error|code", "-32600");
    client_free(c);
}

static void batch_with_oversized_answers_is_refused(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-03-26", &s);
    fake.content_bytes = 60u * 1024u;
    char text[101 * 128] = "[";
    size_t len = 1;
    for (size_t i = 0; i < 100; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "%s{\"jsonrpc\":\"2.0\",\"id\":%zu," READ_A "}", i ? "," : "", i);
    }
    snprintf(text + len, sizeof(text) - len, "]");
    struct client *c = client_http(&b);
    const char *answer = batch(c, s.id, text);
    assert_non_null(json_at(answer, "error|message"));
    client_free(c);
}

/* ---- cancelling and leaving ------------------------------------------------------------------ */

static void cancelled_read_ends_its_exchange_and_is_dropped_when_done(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    for (int on_thread = 0; on_thread < 2; on_thread++) {
        fake.holds_reads = true;
        struct client *read =
            session_request(&s, "\"r\"", "resources/read", "\"uri\":\"mem://x/a\"");
        struct client *c = client_http(&b);
        client_notify(c, s.id, "notifications/cancelled", "\"requestId\":\"r\"");
        client_free(c);
        assert_int_equal(read->count, 1);
        assert_int_equal(read->said[0].kind, SAID_ACCEPTED);
        /* The connection continues with another request. */
        client_legacy(read, s.id, "2", "ping", NULL);
        fake.on_thread = on_thread;
        fake.saw_cancel = false;
        fake_finish_reads(&fake);
        harness_run_until_idle(&b);
        assert_true(fake.saw_cancel);
        assert_int_equal(read->count, 2);
        client_free(read);
    }
}

static void cancelled_read_on_a_pipe_is_not_answered(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    fake.holds_reads = true;
    client_modern(c, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    client_modern(c, "2", "resources/read", "\"uri\":\"mem://x/a\"");
    client_notify(c, NULL, "notifications/cancelled", "\"requestId\":1");
    client_notify(c, NULL, "notifications/cancelled", "\"requestId\":\"2\""); /* another id */
    fake_finish_reads(&fake);
    harness_run_until_idle(&b);
    assert_json(client_answer(c)->text, "id", "2");
    client_free(c);
}

static void read_outlives_its_client(void **state)
{
    (void)state;
    for (int on_thread = 0; on_thread < 2; on_thread++) {
        for (int is_pipe = 0; is_pipe < 2; is_pipe++) {
            struct client *c = is_pipe ? client_pipe(&b) : client_http(&b);
            fake.holds_reads = true;
            fake.on_thread = on_thread;
            fake.saw_cancel = false;
            client_modern(c, "1", "resources/read", "\"uri\":\"mem://x/a\"");
            client_free(c);
            harness_run_until_idle(&b);
            fake_finish_reads(&fake);
            harness_run_until_idle(&b);
            assert_true(fake.saw_cancel);
        }
    }
}

static void batch_outlives_its_client_and_its_cancelled_calls(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-03-26", &s);
    struct dialect_headers headers = {.session_id = tidings_str(s.id)};
    for (int vanishes = 0; vanishes < 2; vanishes++) {
        fake.holds_reads = true;
        struct client *c = client_http(&b), *other = client_http(&b);
        client_say(c, &headers, "[{\"jsonrpc\":\"2.0\",\"id\":1," READ_A "}]");
        client_notify(other, s.id, "notifications/cancelled", "\"requestId\":1");
        assert_int_equal(c->count, 0);
        if (vanishes) {
            client_vanish(c); /* no message may follow: the bench checks */
        }
        fake_finish_reads(&fake);
        harness_run_until_idle(&b);
        assert_int_equal(client_count_kind(c, SAID_ACCEPTED), vanishes ? 0 : 1);
        client_free(c);
        client_free(other);
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void provider_timeout_is_reported(void **state)
{
    (void)state;
    b.limits.call_timeout_ms = 5;
    for (int on_thread = 0; on_thread < 2; on_thread++) {
        for (int is_pipe = 0; is_pipe < 2; is_pipe++) {
            struct client *c = is_pipe ? client_pipe(&b) : client_http(&b);
            fake.holds_reads = true;
            fake.on_thread = on_thread;
            fake.saw_cancel = false;
            client_modern(c, "7", "resources/read", "\"uri\":\"mem://x/a\"");
            harness_until(&b, client_has_answer, c);
            assert_json(client_answer(c)->text, "id", "7");
            assert_json(client_answer(c)->text, "error|message",
                        "the provider did not answer within 5 ms (--call-timeout)");
            assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_CALL_TIME],
                             (uint64_t)(2 * on_thread + is_pipe + 1));
            fake_finish_reads(&fake); /* accepted and discarded */
            harness_run_until_idle(&b);
            assert_true(fake.saw_cancel);
            assert_int_equal(client_count_kind(c, SAID_ANSWER), 1);
            fake.holds_reads = false; /* the connection still works */
            client_modern(c, "8", "resources/read", "\"uri\":\"mem://x/a\"");
            harness_run_until_idle(&b);
            assert_json(last_text(c), "id", "8");
            assert_json(last_text(c), "result|contents|0|uri", "mem://x/a");
            client_free(c);
        }
    }
}

static void batch_is_answered_whole_when_one_request_times_out(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-03-26", &s);
    b.limits.call_timeout_ms = 5;
    struct dialect_headers headers = {.session_id = tidings_str(s.id)};
    struct client *c = client_http(&b);
    fake.holds_reads = true;
    client_say(c, &headers, "[" PING("1") ",{\"jsonrpc\":\"2.0\",\"id\":2," READ_A "}]");
    harness_until(&b, client_has_answer, c);
    assert_json(client_answer(c)->text, "0|id", "1");
    assert_json(client_answer(c)->text, "1|id", "2");
    assert_non_null(strstr(client_answer(c)->text, "--call-timeout"));
    fake_finish_reads(&fake);
    harness_run_until_idle(&b);
    client_free(c);
}

static void client_that_left_before_the_deadline_is_not_answered(void **state)
{
    (void)state;
    b.limits.call_timeout_ms = 5;
    struct client *gone = client_http(&b), *waits = client_http(&b);
    fake.holds_reads = true;
    client_modern(gone, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    client_free(gone);
    client_modern(waits, "2", "resources/read", "\"uri\":\"mem://x/a\"");
    harness_until(&b, client_has_answer, waits);
    fake_finish_reads(&fake);
    harness_run_until_idle(&b);
    client_free(waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(provider_timeout_is_reported),
        TEST(batch_is_answered_whole_when_one_request_times_out),
        TEST(client_that_left_before_the_deadline_is_not_answered),
        TEST(invalid_messages_are_answered_with_the_reason),
        TEST(notifications_and_responses_are_accepted_without_an_answer),
        TEST(long_version_is_echoed_in_a_bounded_message),
        TEST(modern_unknown_and_removed_methods_are_404),
        TEST(batches_exist_in_one_revision_only),
        TEST(mixed_batch_is_answered_as_one_array_when_the_last_is_done),
        TEST(batch_of_notifications_is_accepted_and_invalid_element_is_reported),
        TEST(batch_holds_one_to_a_hundred_messages),
        TEST(batch_with_oversized_answers_is_refused),
        TEST(cancelled_read_ends_its_exchange_and_is_dropped_when_done),
        TEST(cancelled_read_on_a_pipe_is_not_answered),
        TEST(read_outlives_its_client),
        TEST(batch_outlives_its_client_and_its_cancelled_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
