/* SPDX-License-Identifier: MIT
 *
 * tools/list and tools/call: list contents, argument checks, results.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/hub.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

static struct harness b;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.limits.max_read_bytes = 1000;
    harness_start(&b);
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

/* Calls and returns the text of the answer. The client is replaced with each call. */
static struct client *asker;

static const char *call(const char *name, const char *params)
{
    if (asker) {
        client_free(asker);
    }
    asker = client_http(&b);
    client_call(asker, "1", name, params, NULL);
    return client_answer(asker)->text;
}

static void no_asker(void)
{
    client_free(asker);
    asker = NULL;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void tools_are_offered_once_one_exists(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_modern(c, "1", "tools/list", NULL);
    assert_json(client_answer(c)->text, "error|code", "-32601");
    assert_int_equal(client_answer(c)->status, 404);
    client_free(c);
    harness_add_tool(&b, &(struct harness_tool){.name = "a", .handler = tool_hello});
    harness_run_until_idle(&b);
    c = client_http(&b);
    client_modern(c, "1", "tools/list", NULL);
    assert_json(client_answer(c)->text, "result|tools|0|name", "a");
    assert_json(client_answer(c)->text, "result|ttlMs", "0");
    assert_json(client_answer(c)->text, "result|cacheScope", "public");
    client_free(c);
    c = client_http(&b);
    client_modern(c, "1", "server/discover", NULL);
    assert_json(client_answer(c)->text, "result|capabilities|tools|listChanged", "true");
    client_free(c);
}

static void list_is_ordered_by_name_and_paged(void **state)
{
    (void)state;
    static const char *const names[] = {"m", "z", "a", "b.c", "B"};
    static const char *const ordered[] = {"B", "a", "b.c", "m", "z"};
    for (size_t i = 0; i < 5; i++) {
        harness_add_tool(&b, &(struct harness_tool){.name = names[i], .handler = tool_hello});
    }
    harness_run_until_idle(&b);
    char cursor[256] = "";
    for (size_t seen = 0; seen < 5;) {
        struct client *c = client_http(&b);
        client_modern(c, "1", "tools/list",
                      text_of("\"pageSize\":2%s%s%s", cursor[0] ? ",\"cursor\":\"" : "", cursor,
                              cursor[0] ? "\"" : ""));
        const char *text = client_answer(c)->text;
        for (size_t i = 0; i < 2 && seen < 5; i++) {
            assert_json(text, text_of("result|tools|%zu|name", i), ordered[seen++]);
        }
        const char *next = json_at(text, "result|nextCursor");
        snprintf(cursor, sizeof(cursor), "%s", next ? next : "");
        assert_int_equal(next == NULL, seen == 5);
        client_free(c);
    }
    struct client *c = client_http(&b);
    client_modern(c, "1", "tools/list", "\"cursor\":\"nonsense\"");
    assert_json(client_answer(c)->text, "error|code", "-32602");
    client_free(c);
}

/* The maximum answer: six times the read limit, and 4 MiB. */
static void oversized_answer_is_refused_with_advice(void **state)
{
    (void)state;
    struct buf row;
    buf_init(&row, 8u << 20);
    buf_puts(&row, STR("{\"name\":\"big\",\"description\":\""));
    while (row.len < 5u << 20) {
        buf_puts(&row, STR("as long as it takes "));
    }
    buf_puts(&row, STR("\"}"));
    struct feature *big = feature_create(FEATURE_TOOL, STR("big"), buf_str(&row));
    assert_int_equal(hub_add_feature(b.hub, big, NULL), 0);
    harness_run_until_idle(&b);
    struct client *c = client_http(&b);
    client_modern(c, "1", "tools/list", NULL);
    assert_json(client_answer(c)->text, "error|message",
                "the answer is larger than 4200304 bytes; ask for less at a time");
    client_free(c);
    buf_deinit(&row);
}

static void name_is_taken_once_and_free_after_removal(void **state)
{
    (void)state;
    struct harness_tool a = {.name = "a", .handler = tool_hello};
    harness_add_tool(&b, &a);
    assert_int_equal(harness_try_tool(&b, &a), TIDINGS_E_EXISTS);
    harness_run_until_idle(&b);
    assert_json(call("a", NULL), "result|content|0|text", "hello");
    harness_remove_tool(&b, "a");
    assert_int_equal(hub_remove_feature(b.hub, FEATURE_TOOL, STR("a"), NULL), TIDINGS_E_NOTFOUND);
    harness_add_tool(&b, &(struct harness_tool){.name = "b", .handler = tool_hello});
    harness_run_until_idle(&b);
    const char *text = call("a", NULL);
    assert_json(text, "error|code", "-32602");
    assert_json(text, "error|message", "unknown tool 'a'");
    no_asker();
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void tell_arguments(void *user, struct tidings_call *h)
{
    (void)user;
    char text[512];
    struct tidings_error err;
    struct tidings_str s = tidings_call_string(h, "s"),
                       deep = tidings_call_string(h, "/o/l/1/a~1b");
    int n = snprintf(text, sizeof(text), "%.*s %g %lld %d %.*s %d", STR_ARG(s),
                     tidings_call_number(h, "n", -1), (long long)tidings_call_integer(h, "i", -1),
                     tidings_call_boolean(h, "b", false), STR_ARG(deep), tidings_call_has(h, "s"));
    assert_true(n > 0);
    tidings_call_text(h, tidings_str(text), &err);
    tidings_call_text(h, tidings_call_arguments(h), &err);
    tidings_call_text(h, tidings_call_json(h, "/o/l"), &err);
    tidings_call_text(h, tidings_call_name(h), &err);
    tidings_call_done(h, 0, NULL);
}

static void arguments_are_reached_by_name_and_by_pointer(void **state)
{
    (void)state;
    harness_add_tool(&b, &(struct harness_tool){.name = "t", .handler = tell_arguments});
    harness_run_until_idle(&b);
    const char *text =
        call("t", "\"arguments\":{\"s\":\"x\",\"n\":1.5,\"i\":7.0,\"b\":true,\"o\":{\"l\":[0,"
                  "{\"a/b\":\"deep\"}]}}");
    assert_json(text, "result|content|0|text", "x 1.5 7 1 deep 1");
    assert_json(text, "result|content|2|text", "[0,{\"a/b\":\"deep\"}]");
    assert_json(text, "result|content|3|text", "t");
    text = call("t", NULL);
    assert_json(text, "result|content|0|text", " -1 -1 0  0");
    assert_json(text, "result|content|1|text", "{}");
    assert_json(text, "result|content|2|text", "");
    no_asker();
}

static void arguments_the_schema_forbids_never_reach_the_handler(void **state)
{
    (void)state;
    harness_add_tool(&b, &(struct harness_tool){
                             .name = "t",
                             .handler = tool_hello,
                             .input =
                                 "{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{\"n\":{"
                                 "\"type\":\"integer\",\"minimum\":3}}}"});
    harness_run_until_idle(&b);
    const char *text = call("t", "\"arguments\":{\"n\":2}");
    assert_json(text, "result|isError", "true");
    assert_json(text, "result|resultType", "complete");
    assert_non_null(strstr(json_at(text, "result|content|0|text"), "/n: "));
    assert_non_null(strstr(json_at(text, "result|content|0|text"), "/properties/n/minimum"));
    assert_json(call("t", NULL), "result|isError", "true");
    assert_no_json(call("t", "\"arguments\":{\"n\":3}"), "result|isError");
    assert_json(call("t", "\"arguments\":[3]"), "error|code", "-32602");
    no_asker();
}

/* ---- results --------------------------------------------------------------------------------- */

static void give_everything(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    struct tidings_resource about = {0};
    about.uri = STR("mem:///r");
    about.name = STR("r");
    assert_int_equal(tidings_call_text(h, STR("one"), &err), 0);
    assert_int_equal(tidings_call_image(h, STR("\x01\x02\x03"), "image/png", &err), 0);
    assert_int_equal(tidings_call_audio(h, STR("wav"), "audio/wav", &err), 0);
    assert_int_equal(tidings_call_resource(h, &about, STR("content"), &err), 0);
    assert_int_equal(tidings_call_resource(h, &about, STR("\xff"), &err), 0);
    assert_int_equal(tidings_call_link(h, &about, &err), 0);
    assert_int_equal(tidings_call_block(h, STR("{\"type\":\"text\",\"text\":\"b\"}"), &err), 0);
    assert_int_equal(tidings_call_block(h, STR("{\"text\":\"b\"}"), &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_call_block(h, STR("{"), &err), TIDINGS_E_PARSE);
    assert_int_equal(tidings_call_image(h, STR("x"), "", &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_call_link(h, NULL, &err), TIDINGS_E_INVALID);
    tidings_call_done(h, 0, NULL);
}

static void result_can_hold_every_kind_of_content(void **state)
{
    (void)state;
    harness_add_tool(&b, &(struct harness_tool){.name = "t", .handler = give_everything});
    harness_run_until_idle(&b);
    const char *text = call("t", NULL);
    assert_json(text, "result|content|0|text", "one");
    assert_json(text, "result|content|1|type", "image");
    assert_json(text, "result|content|1|data", "AQID");
    assert_json(text, "result|content|1|mimeType", "image/png");
    assert_json(text, "result|content|2|type", "audio");
    assert_json(text, "result|content|3|type", "resource");
    assert_json(text, "result|content|3|resource|uri", "mem:///r");
    assert_json(text, "result|content|3|resource|text", "content");
    assert_json(text, "result|content|4|resource|blob", "/w==");
    assert_json(text, "result|content|5|type", "resource_link");
    assert_json(text, "result|content|5|uri", "mem:///r");
    assert_json(text, "result|content|6|text", "b");
    assert_no_json(text, "result|content|7");
    assert_no_json(text, "result|ttlMs");
    no_asker();
}

static void give_too_much(void *user, struct tidings_call *h)
{
    (void)user;
    char big[600];
    memset(big, 'x', sizeof(big));
    struct tidings_error err;
    assert_int_equal(tidings_call_text(h, tidings_strn(big, sizeof(big)), &err), 0);
    int rc = tidings_call_text(h, tidings_strn(big, sizeof(big)), &err);
    assert_int_equal(rc, TIDINGS_E_LIMIT);
    tidings_call_done(h, rc, &err);
}

static void failure_is_a_result_the_model_can_read(void **state)
{
    (void)state;
    harness_add_tool(&b, &(struct harness_tool){.name = "t", .handler = give_too_much});
    harness_run_until_idle(&b);
    const char *text = call("t", NULL);
    assert_json(text, "result|isError", "true");
    assert_json(text, "result|content|0|text",
                "the content exceeds the limit of 1000 bytes (--max-read)");
    assert_no_json(text, "result|content|1");
    no_asker();
}

static void refuse(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_INVALID, "not here");
    tidings_call_refuse(h, TIDINGS_E_INVALID, &err);
}

static void mark(void *user, struct tidings_call *h)
{
    tidings_call_mark_error(h);
    tool_hello(user, h);
}

static void handler_can_refuse_and_describe_its_failure(void **state)
{
    (void)state;
    harness_add_tool(&b, &(struct harness_tool){.name = "refuse", .handler = refuse});
    harness_add_tool(&b, &(struct harness_tool){.name = "mark", .handler = mark});
    harness_run_until_idle(&b);
    const char *text = call("refuse", NULL);
    assert_json(text, "error|code", "-32602");
    assert_json(text, "error|message", "not here");
    text = call("mark", NULL);
    assert_json(text, "result|isError", "true");
    assert_json(text, "result|content|0|text", "hello");
    no_asker();
}

/* ---- structured content ---------------------------------------------------------------------- */

static void give_structured(void *user, struct tidings_call *h)
{
    struct tidings_error err;
    const char *json = user;
    tidings_call_done(h, json ? tidings_call_structured(h, tidings_str(json), &err) : 0, &err);
}

static void structured_content_is_validated_and_sent_as_text(void **state)
{
    (void)state;
    static const char schema[] =
        "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"integer\"}}}";
    static char good[] = "{\"a\": 1}", bad[] = "{\"a\":\"x\"}", list[] = "[1]";
    struct harness_tool t = {.name = "good", .handler = give_structured, .output = schema};
    t.user = good;
    harness_add_tool(&b, &t);
    t.name = "bad";
    t.user = bad;
    harness_add_tool(&b, &t);
    t.name = "none";
    t.user = NULL;
    harness_add_tool(&b, &t);
    t.name = "list";
    t.user = list;
    harness_add_tool(&b, &t);
    harness_run_until_idle(&b);
    const char *text = call("good", NULL);
    assert_json(text, "result|structuredContent|a", "1");
    assert_json(text, "result|content|0|text", "{\"a\":1}");
    text = call("bad", NULL);
    assert_json(text, "result|isError", "true");
    assert_no_json(text, "result|structuredContent");
    assert_non_null(strstr(json_at(text, "result|content|0|text"), "/a: "));
    assert_json(call("none", NULL), "result|isError", "true");
    assert_json(call("list", NULL), "result|isError", "true");
    no_asker();
}

/* ---- both eras ------------------------------------------------------------------------------- */

static void legacy_clients_call_tools_too(void **state)
{
    (void)state;
    harness_add_tool(&b, &(struct harness_tool){.name = "t", .handler = tool_hello});
    harness_run_until_idle(&b);
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *c = session_request(&s, "5", "tools/call", "\"name\":\"t\"");
    assert_json(client_answer(c)->text, "result|content|0|text", "hello");
    assert_no_json(client_answer(c)->text, "result|resultType");
    client_free(c);
    c = session_request(&s, "6", "tools/call", "\"name\":\"u\"");
    assert_json(client_answer(c)->text, "error|code", "-32602");
    client_free(c);
    c = session_request(&s, "6", "tools/list", NULL);
    assert_json(client_answer(c)->text, "result|tools|0|name", "t");
    assert_no_json(client_answer(c)->text, "result|ttlMs");
    client_free(c);
    (void)session_delete(&s);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(tools_are_offered_once_one_exists),
        WITH_BENCH(list_is_ordered_by_name_and_paged),
        WITH_BENCH(oversized_answer_is_refused_with_advice),
        WITH_BENCH(name_is_taken_once_and_free_after_removal),
        WITH_BENCH(arguments_are_reached_by_name_and_by_pointer),
        WITH_BENCH(arguments_the_schema_forbids_never_reach_the_handler),
        WITH_BENCH(result_can_hold_every_kind_of_content),
        WITH_BENCH(failure_is_a_result_the_model_can_read),
        WITH_BENCH(handler_can_refuse_and_describe_its_failure),
        WITH_BENCH(structured_content_is_validated_and_sent_as_text),
        WITH_BENCH(legacy_clients_call_tools_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
