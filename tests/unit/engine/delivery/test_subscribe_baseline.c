/* SPDX-License-Identifier: MIT
 *
 * Subscriptions with patches: the baseline, where a client gives it, and refusals that leave
 * nothing open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_docs.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define DATA "params|_meta|dev.tidings/data"
#define A "doc:///a"
#define ON_A "[\"" A "\"]"

static struct harness b;
static struct docs docs;

static int begin(void **state)
{
    docs_begin_with_a(&docs, &b, state);
    return 0;
}

static int end(void **state)
{
    (void)state;
    docs_end(&docs);
    return 0;
}

static void put(const char *uri, const char *text)
{
    docs_put(&docs, uri, text, NULL);
    harness_run_until_idle(&b);
}

static const char *nth(const struct client *c, size_t n)
{
    return update_nth(c, NULL, n);
}

static void patches_of_another_resource_need_a_baseline(void **state)
{
    (void)state;
    const char *uri = A "/patch";
    struct client *c = listen_with(&b, "[\"" A "/patch\"]", NULL);
    assert_non_null(strstr(refused_reason(c, uri), "'baseline' is required"));
    client_free(c);
    c = listen_with(&b, "[\"" A "/patch\"]", "{\"baseline\":\"v0777\"}");
    assert_string_equal(refused_reason(c, uri), "no version 'v0777'");
    put(A, "{\"n\":2}");
    assert_int_equal(update_count(c, NULL), 0);
    client_free(c);
    c = listen_with(&b, "[\"" A "/patch\"]", "{\"baseline\":\"v0001\",\"include\":\"value\"}");
    assert_non_null(strstr(refused_reason(c, uri), "must be 'patch'"));
    client_free(c);
    c = listen_with(&b, "[\"" A "/no\"]", NULL);
    assert_string_equal(refused_reason(c, A "/no"), "not this one");
    client_free(c);
    c = listen_with(&b, "[\"doc:///b/patch\"]", "{\"baseline\":\"v0001\"}");
    assert_string_equal(refused_reason(c, "doc:///b/patch"), "resource not found");
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    assert_true(b.worker[0]->delivery->contents.baselines.by_name.count <= 2);

    c = listen_with(&b, "[\"" A "/patch\",\"" A "\"]",
                    "{\"initial\":true,\"windowMs\":0,\"uris\":{\"" A
                    "/patch\":{\"initialBaseline\":\"v0001\"}}}");
    assert_true(is_honoured(c, uri));
    assert_json(update_nth(c, uri, 0), "params|uri", uri);
    assert_json(update_nth(c, uri, 0), DATA "|baseline", "v0001");
    assert_json(update_nth(c, uri, 0), DATA "|patch", "{\"s\":null,\"n\":2}");
    put(A, "{\"n\":3}");
    assert_json(update_nth(c, uri, 1), DATA "|baseline", "v0002");
    assert_no_json(update_nth(c, A, 1), DATA); /* both options may be used together */
    client_free(c);
}

static void session_can_give_the_baseline_beside_the_uri(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-06-18", &s);
    struct client *stream = session_stream(&s, NULL);
    static const struct {
        const char *params, *said;
    } rows[] = {
        {"\"baseline\":7", "option 'baseline' must be"},
        {"\"baseline\":\"v0001\",\"initialBaseline\":\"v0002\"", "two different"},
        {"\"baseline\":\"v0001\",\"_meta\":{\"dev.tidings/options\":{\"baseline\":\"v0002\"}}",
         "two different"},
        {"\"initialBaseline\":\"v0005\"", "no version 'v0005'"},
        {"\"_meta\":{\"dev.tidings/options\":{\"initialBaseline\":\"v0006\"}}",
         "no version 'v0006'"},
        {"\"baseline\":\"v0001\"", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *c = session_request(&s, "7", "resources/subscribe",
                                           text_of("\"uri\":\"" A "/patch\",%s", rows[i].params));
        harness_run_until_idle(&b);
        if (rows[i].said) {
            assert_json(client_answer(c)->text, "error|code", "-32602");
            assert_non_null(strstr(json_at(client_answer(c)->text, "error|message"), rows[i].said));
            assert_int_equal(b.worker[0]->stats.subscriptions, 0);
        } else {
            assert_empty_result(client_answer(c)->text);
        }
        client_free(c);
    }
    put(A, "{\"n\":2}");
    assert_json(nth(stream, 0), DATA "|baseline", "v0001");
    client_free(stream);
    assert_int_equal(session_delete(&s), 204);
}

/* On one connection, where the first subscription still exists. */
static void resubscription_needs_a_new_baseline(void **state)
{
    (void)state;
    const char *uri = A "/patch", *uris = "[\"" A "/patch\"]";
    struct client *modern = client_pipe(&b), *legacy = client_pipe(&b);
    client_listen_with(modern, "1", uris, "{\"windowMs\":0,\"baseline\":\"v0001\"}");
    client_handshake(legacy, "2025-06-18");
    assert_empty_result(
        pipe_subscribe_with(legacy, "2", uri, "{\"windowMs\":0,\"baseline\":\"v0001\"}"));
    static const char *const without[] = {NULL, "{}", "{\"windowMs\":0}", "{\"initial\":true}"};
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        client_listen_with(modern, text_of("%zu", 10 + i), uris, without[i]);
        harness_run_until_idle(&b);
        const char *ack = client_nth(modern, SAID_ACK, i + 1);
        assert_no_json(ack, "params|notifications|resourceSubscriptions|0");
        assert_non_null(strstr(refused_reason(modern, uri), "'baseline' is required"));
        const char *answer = pipe_subscribe_with(legacy, text_of("%zu", 20 + i), uri, without[i]);
        assert_json(answer, "error|code", "-32602");
        assert_json(answer, "error|data|reason", "baseline_required");
    }
    assert_int_equal(b.worker[0]->stats.subscriptions, 2);
    put(A, "{\"n\":2}");
    struct client *both[] = {modern, legacy};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(update_count(both[i], uri), 1);
        assert_json(update_nth(both[i], uri, 0), DATA "|baseline", "v0001");
        client_free(both[i]);
    }
}

static void baseline_requires_patches_of_one_resource(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"doc:///a\",\"doc:///*\"]",
                                   "{\"baseline\":\"v0001\",\"uris\":{\"doc:///*\":"
                                   "{\"include\":\"patch\"}}}");
    assert_non_null(strstr(refused_reason(c, "doc:///a"), "include: 'patch'"));
    assert_non_null(strstr(refused_reason(c, "doc:///*"), "single resource"));
    client_free(c);
}

static void unknown_baseline_without_version_history_sends_complete_value(void **state)
{
    (void)state;
    struct client *c =
        listen_with(&b, ON_A, "{\"include\":\"patch\",\"initial\":true,\"baseline\":\"other\"}");
    assert_json(nth(c, 0), DATA "|full", "true");
    client_free(c);
}

int main(void)
{
    static unsigned patching = DOCS_PATCHING;
#define PLAIN(test) cmocka_unit_test_setup_teardown(test, begin, end)
#define WITH(test, flags) cmocka_unit_test_prestate_setup_teardown(test, begin, end, &(flags))
    const struct CMUnitTest tests[] = {
        WITH(patches_of_another_resource_need_a_baseline, patching),
        WITH(session_can_give_the_baseline_beside_the_uri, patching),
        WITH(resubscription_needs_a_new_baseline, patching),
        PLAIN(baseline_requires_patches_of_one_resource),
        WITH(baseline_requires_patches_of_one_resource, patching),
        PLAIN(unknown_baseline_without_version_history_sends_complete_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
