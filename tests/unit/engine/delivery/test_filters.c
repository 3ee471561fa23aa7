/* SPDX-License-Identifier: MIT
 *
 * Subscriptions with a JSON Schema: its input and the time of evaluation, equal schemas as one
 * filter that runs once per change, errors, and costly filters.
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
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SUSPENDED "params|_meta|dev.tidings/suspended"
#define MERGED "params|_meta|dev.tidings/merged"
#define ERRORS                                                                                     \
    "{\"properties\":{\"metadata\":{\"properties\":{\"level\":{\"const\":\"error\"}},"             \
    "\"required\":[\"level\"]}}}"
/* On a long string this exceeds one evaluation: its states do not fit into a table. */
#define COSTLY                                                                                     \
    "{\"properties\":{\"metadata\":{\"properties\":{\"text\":{\"pattern\":"                        \
    "\"(a{1,99}){1,20}b\"}}}}}"

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.option_limits.window_ms = 0;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/b", false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static void announce(const char *uri, const char *metadata)
{
    struct tidings_change change = {.uri = tidings_str(uri), .metadata = tidings_str(metadata)};
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
}

static const char *with_filter(const char *schema)
{
    return text_of("{\"filter\":%s}", schema);
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static void changes_are_sent_only_if_they_satisfy_the_schema(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/\"]", with_filter(ERRORS));
    announce("mem://x/a", "{\"level\":\"info\"}");
    announce("mem://x/a", "{\"level\":\"error\"}");
    announce("mem://x/b", "{}");
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), "params|uri", "mem://x/a");
    client_free(c);
}

static void schema_sees_the_uri_and_all_metadata(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"properties\":{\"uri\":{\"const\":\"mem://x/b\"}},\"required\":[\"uri\"],"
        "\"maxProperties\":2}",
        "{\"properties\":{\"metadata\":{\"properties\":{\"change_type\":{\"const\":\"deleted\"},"
        "\"size\":{\"const\":77},\"version\":{\"type\":\"string\"},\"k\":{\"const\":[1]}},"
        "\"required\":[\"change_type\",\"size\",\"version\",\"k\"]}},\"required\":[\"metadata\"]}",
    };
    struct client *c[COUNT(schemas)];
    struct tidings_change change = {
        .uri = STR("mem://x/b"),
        .kind = TIDINGS_CHANGE_DELETED,
        .size = 77,
        .has_size = true,
        .metadata = STR("{\"k\":[1],\"change_type\":\"mine\"}"),
    };
    for (size_t i = 0; i < COUNT(schemas); i++) {
        c[i] = listen_with(&b, "[\"mem://x/\"]", with_filter(schemas[i]));
    }
    announce("mem://x/a", "{}");
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
    for (size_t i = 0; i < COUNT(schemas); i++) {
        assert_int_equal(update_count(c[i], NULL), 1);
        assert_json(update_nth(c[i], NULL, 0), "params|uri", "mem://x/b");
        client_free(c[i]);
    }
}

static void filtered_change_opens_no_window_and_merges_with_nothing(void **state)
{
    (void)state;
    struct client *c =
        listen_with(&b, "[\"mem://x/\"]", text_of("{\"windowMs\":60000,\"filter\":%s}", ERRORS));
    announce("mem://x/a", "{\"level\":\"info\"}");
    announce("mem://x/a", "{\"level\":\"error\"}");
    assert_int_equal(update_count(c, NULL), 1); /* at once: the first of its period */
    announce("mem://x/a", "{\"level\":\"info\"}");
    announce("mem://x/a", "{\"level\":\"error\"}");
    announce("mem://x/a", "{\"level\":\"error\"}");
    harness_end_windows(&b);
    assert_int_equal(update_count(c, NULL), 2);
    assert_json(update_nth(c, NULL, 1), MERGED, "2");
    client_free(c);
}

static void sessions_and_pipes_support_filters(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *stream = session_stream(&s, NULL);
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-06-18");
    assert_empty_result(session_subscribe_with(&s, "mem://x/a", with_filter(ERRORS)));
    assert_empty_result(pipe_subscribe_with(pipe, "7", "mem://x/a", with_filter(ERRORS)));
    announce("mem://x/a", "{\"level\":\"info\"}");
    announce("mem://x/a", "{\"level\":\"error\"}");
    assert_int_equal(update_count(stream, NULL), 1);
    assert_int_equal(update_count(pipe, NULL), 1);
    /* A resubscription replaces it. */
    assert_empty_result(session_subscribe_with(&s, "mem://x/a", "{}"));
    announce("mem://x/a", "{\"level\":\"info\"}");
    assert_int_equal(update_count(stream, NULL), 2);
    client_free(stream);
    client_free(pipe);
}

static void filters_of_one_listen_differ_by_uri(void **state)
{
    (void)state;
    struct client *c = listen_with(
        &b, "[\"mem://x/a\",\"mem://x/b\"]",
        text_of("{\"uris\":{\"mem://x/b\":{\"filter\":%s}}}", "{\"required\":[\"absent\"]}"));
    announce("mem://x/a", "{}");
    announce("mem://x/b", "{}");
    assert_int_equal(update_count(c, "mem://x/a"), 1);
    assert_int_equal(update_count(c, "mem://x/b"), 0);
    client_free(c);
}

static void replay_applies_filters_except_to_merged_changes(void **state)
{
    (void)state;
    char since[64];
    struct client *c = listen_with(&b, "[\"mem://x/\"]", NULL);
    snprintf(since, sizeof(since), "%s",
             json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor"));
    client_free(c);
    announce("mem://x/a", "{\"level\":\"info\"}");
    announce("mem://x/b", "{\"level\":\"error\"}");
    announce("mem://x/b", "{\"level\":\"info\"}"); /* hides an error */
    c = listen_with(&b, "[\"mem://x/\"]",
                    text_of("{\"since\":\"%s\",\"filter\":%s}", since, ERRORS));
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), "params|uri", "mem://x/b");
    client_free(c);
}

/* ---- once ------------------------------------------------------------------------------------ */

static void shared_filter_runs_once_per_change(void **state)
{
    (void)state;
    enum { CLIENTS = 1000 };
    static struct client *clients[CLIENTS];
    const struct filters *filters = &b.worker[0]->delivery->filters;
    for (size_t i = 0; i < CLIENTS; i++) {
        const char *schema = i % 2 ? ERRORS : "{\"required\":[\"uri\"]}";
        clients[i] = client_http(&b);
        client_listen_with(clients[i], "1", "[\"mem://x/a\"]", with_filter(schema));
    }
    harness_run_until_idle(&b);
    assert_int_equal(filters->by_text.count, 2);
    assert_int_equal(filters->decided, 0);
    for (unsigned n = 1; n <= 3; n++) {
        announce("mem://x/a", n == 2 ? "{\"level\":\"error\"}" : "{}");
        assert_int_equal(filters->decided, 2 * n);
    }
    announce("mem://x/b", "{}"); /* without a subscriber */
    assert_int_equal(filters->decided, 6);
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(update_count(clients[i], NULL), i % 2 ? 1 : 3);
        client_free(clients[i]);
    }
    harness_run_until_idle(&b);
    assert_int_equal(filters->by_text.count, 0);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void invalid_schema_is_refused_with_its_location(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *said[2];
    } rows[] = {
        {"{\"properties\":{\"metadata\":{\"type\":\"sting\"}}}",
         {"/properties/metadata/type", "option 'filter'"}},
        {"{\"properties\":{\"uri\":{\"pattern\":\"(\"}}}",
         {"/properties/uri/pattern", "option 'filter'"}},
        {"{\"$ref\":\"http://elsewhere.test/x\"}", {"/$ref", "option 'filter'"}},
    };
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct client *c = client_http(&b);
        client_listen_with(c, "1", "[\"mem://x/a\"]", with_filter(rows[i].schema));
        harness_run_until_idle(&b);
        const char *reason = refused_reason(c, "mem://x/a");
        const char *answer = session_subscribe_with(&s, "mem://x/a", with_filter(rows[i].schema));
        assert_json(answer, "error|code", "-32602");
        for (size_t k = 0; k < COUNT(rows[i].said); k++) {
            assert_non_null(strstr(reason, rows[i].said[k]));
            assert_non_null(strstr(json_at(answer, "error|message"), rows[i].said[k]));
        }
        client_free(c);
    }
    assert_int_equal(b.worker[0]->delivery->filters.by_text.count, 0);
    assert_int_equal(stub_watched_all(&stub), 0); /* no watch was opened for it */
}

static void filters_are_bounded_in_length_and_number(void **state)
{
    (void)state;
    static char text[FILTER_MAX_BYTES + 64], options[FILTER_MAX_BYTES + 128];
    for (unsigned more = 0; more < 2; more++) {
        int room = (int)(FILTER_MAX_BYTES + more - strlen("{\"title\":\"\"}"));
        snprintf(text, sizeof(text), "{\"title\":\"%0*d\"}", room, 0);
        snprintf(options, sizeof(options), "{\"filter\":%s}", text);
        struct client *c = client_http(&b);
        client_listen_with(c, "1", "[\"mem://x/a\"]", options);
        harness_run_until_idle(&b);
        assert_int_equal(is_honoured(c, "mem://x/a"), more == 0);
        if (more) {
            assert_non_null(strstr(refused_reason(c, "mem://x/a"), "8192 bytes"));
        }
        client_free(c);
    }
    struct filters *all = &b.worker[0]->delivery->filters;
    static struct filter *held[FILTERS_MAX];
    struct tidings_error err = {0};
    struct json *schema = NULL;
    for (unsigned i = 0; i <= FILTERS_MAX; i++) {
        assert_int_equal(
            jv_parse(tidings_str(text_of("{\"minProperties\":%u}", i)), 8, &schema, NULL), 0);
        struct filter *f = NULL;
        int rc = filter_acquire(all, schema, NULL, &f, &err);
        jv_unref(schema);
        if (i < FILTERS_MAX) {
            assert_int_equal(rc, 0);
            held[i] = f;
        } else {
            assert_int_equal(rc, TIDINGS_E_LIMIT);
            assert_non_null(strstr(err.text, "at most 4096"));
        }
    }
    for (unsigned i = 0; i < FILTERS_MAX; i++) {
        filter_release(held[i]);
    }
}

/* ---- costly ---------------------------------------------------------------------------------- */

static void costly_filter_is_suspended_and_its_clients_notified(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", with_filter(COSTLY));
    struct client *other = listen_with(&b, "[\"mem://x/a\"]", NULL);
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    assert_empty_result(pipe_subscribe_with(pipe, "7", "mem://x/a", with_filter(COSTLY)));
    static char metadata[4200];
    snprintf(metadata, sizeof(metadata), "{\"text\":\"%04000d\"}", 0);
    memset(strchr(metadata, '0'), 'a', 4000);
    for (unsigned i = 0; i < FILTER_GIVE_UPS; i++) {
        assert_int_equal(update_count(c, NULL), i); /* a suspended filter delivers */
        announce("mem://x/a", metadata);
    }
    assert_json(update_nth(c, NULL, FILTER_GIVE_UPS - 1), SUSPENDED, "true");
    assert_json(update_nth(pipe, NULL, FILTER_GIVE_UPS - 1), SUSPENDED, "true");
    assert_int_equal(client_count(pipe, SAID_LOG), 1);
    uint64_t judged = b.worker[0]->delivery->filters.decided;
    assert_int_equal(judged, FILTER_GIVE_UPS);
    announce("mem://x/a", metadata);
    assert_int_equal(update_count(c, NULL), FILTER_GIVE_UPS);
    assert_int_equal(b.worker[0]->delivery->filters.decided, judged);
    assert_int_equal(update_count(other, NULL), FILTER_GIVE_UPS + 1);
    /* Only this client is affected: another client with the same filter starts from zero. */
    struct client *late = client_http(&b);
    client_listen_with(late, "1", "[\"mem://x/a\"]", with_filter(COSTLY));
    harness_run_until_idle(&b);
    assert_true(is_honoured(late, "mem://x/a"));
    client_free(late);
    client_free(c);
    client_free(other);
    client_free(pipe);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void filter_is_refused_without_memory_and_leaks_nothing(void **state)
{
    (void)state;
    struct json *schema = NULL;
    assert_int_equal(jv_parse(STR(ERRORS), JSON_MAX_DEPTH, &schema, NULL), 0);
    struct filters *all = &b.worker[0]->delivery->filters;
    bool reached = true;
    for (long n = 1; reached; n++) {
        struct filter *f = NULL;
        struct tidings_error err = {0};
        long live = fail_alloc_live();
        fail_alloc_start(n);
        int rc = filter_acquire(all, schema, NULL, &f, &err);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        filter_release(f);
        assert_int_equal(all->by_text.count, 0);
        assert_true(fail_alloc_live() <= live + 1); /* the map keeps its table */
    }
    jv_unref(schema);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(changes_are_sent_only_if_they_satisfy_the_schema),
        TEST(schema_sees_the_uri_and_all_metadata),
        TEST(filtered_change_opens_no_window_and_merges_with_nothing),
        TEST(sessions_and_pipes_support_filters),
        TEST(filters_of_one_listen_differ_by_uri),
        TEST(replay_applies_filters_except_to_merged_changes),
        TEST(shared_filter_runs_once_per_change),
        TEST(invalid_schema_is_refused_with_its_location),
        TEST(filters_are_bounded_in_length_and_number),
        TEST(costly_filter_is_suspended_and_its_clients_notified),
        TEST(filter_is_refused_without_memory_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
