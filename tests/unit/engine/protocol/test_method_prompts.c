/* SPDX-License-Identifier: MIT
 *
 * prompts/list and prompts/get: list contents, messages and their roles, arguments, failures, and
 * list changes for clients of both eras.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_prompt.h"
#include "support/harness_tool.h"

#define SAID_PROMPTS "notifications/prompts/list_changed"

static struct harness b;
static struct client *asker;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.limits.max_read_bytes = 1000;
    b.options.list_changed = true;
    b.self.list_changed = true;
    harness_start(&b);
    asker = client_pipe(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_free(asker);
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->jobs, 0);
    harness_stop(&b);
    return 0;
}

/* The answer to a modern request. */
static const char *ask(const char *method, const char *params)
{
    return client_ask(asker, method, params);
}

static const char *get(const char *name, const char *arguments)
{
    return ask("prompts/get",
               text_of("\"name\":\"%s\"%s%s", name, arguments ? ",\"arguments\":" : "",
                       arguments ? arguments : ""));
}

static void prompts_are_offered_once_one_exists(void **state)
{
    (void)state;
    assert_json(ask("prompts/list", NULL), "error|code", "-32601");
    assert_json(ask("prompts/get", "\"name\":\"a\""), "error|code", "-32601");
    assert_no_json(ask("server/discover", NULL), "result|capabilities|prompts");
    harness_add_prompt(&b, "b", NULL, tool_hello, NULL);
    harness_add_prompt(&b, "a", NULL, tool_hello, NULL);
    harness_run_until_idle(&b);
    assert_json(ask("server/discover", NULL), "result|capabilities|prompts|listChanged", "true");
    const char *text = ask("prompts/list", NULL);
    assert_json(text, "result|prompts|0|name", "a");
    assert_json(text, "result|prompts|1|name", "b");
    assert_json(text, "result|ttlMs", "0");
    assert_json(get("none", NULL), "error|message", "unknown prompt 'none'");
    assert_json(get("none", NULL), "error|code", "-32602");
}

static void all_kinds(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_resource about = {0};
    about.uri = STR("x:///a");
    about.name = STR("a");
    assert_int_equal(tidings_call_text(call, STR("one"), &err), 0);
    tidings_call_set_assistant(call, true);
    assert_int_equal(tidings_call_image(call, STR("\xff"), "image/png", &err), 0);
    assert_int_equal(tidings_call_audio(call, STR("\xff"), "audio/wav", &err), 0);
    tidings_call_set_assistant(call, false);
    assert_int_equal(tidings_call_resource(call, &about, STR("text"), &err), 0);
    assert_int_equal(tidings_call_link(call, &about, &err), 0);
    tidings_call_done(call, 0, NULL);
}

static void blocks_are_each_a_message_with_a_role(void **state)
{
    (void)state;
    harness_add_prompt(&b, "a", NULL, all_kinds, NULL);
    harness_run_until_idle(&b);
    const char *text = get("a", NULL);
    static const char *const expected[][3] = {
        {"user", "text", "result|messages|0|content|text"},
        {"assistant", "image", "result|messages|1|content|data"},
        {"assistant", "audio", "result|messages|2|content|mimeType"},
        {"user", "resource", "result|messages|3|content|resource|text"},
        {"user", "resource_link", "result|messages|4|content|uri"},
    };
    for (size_t i = 0; i < 5; i++) {
        assert_json(text, text_of("result|messages|%zu|role", i), expected[i][0]);
        assert_json(text, text_of("result|messages|%zu|content|type", i), expected[i][1]);
        assert_non_null(json_at(text, expected[i][2]));
    }
    assert_no_json(text, "result|messages|5");
    assert_json(text, "result|description", "about a");
    assert_json(text, "result|resultType", "complete");
    assert_no_json(text, "result|ttlMs");
}

static void prompt_arguments_must_be_strings_and_complete(void **state)
{
    (void)state;
    harness_add_prompt(&b, "a",
                       "{\"additionalProperties\":{\"type\":\"string\"},\"required\":[\"code\"]}",
                       tool_hello, NULL);
    harness_run_until_idle(&b);
    static const char *const bad[] = {
        NULL, "{}",   "{\"cod\":\"x\"}", "{\"code\":1}", "{\"code\":\"x\",\"more\":null}",
        "[]", "\"x\""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *text = get("a", bad[i]);
        assert_json(text, "error|code", "-32602");
        assert_non_null(strstr(json_at(text, "error|message"), "params.arguments"));
    }
    assert_non_null(strstr(json_at(get("a", "{}"), "error|message"), "'code'"));
    assert_json(get("a", "{\"code\":\"x\",\"more\":\"\"}"), "result|messages|0|content|text",
                "hello");
    assert_json(ask("prompts/get", NULL), "error|message", "params.name must be a string");
}

static void fail_it(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    int rc = tidings_call_text(call, STR("dropped"), &err);
    assert_int_equal(rc, 0);
    rc = tidings_fail(&err, TIDINGS_E_IO, "the disk is gone");
    tidings_call_done(call, rc, &err);
}

static void say_nothing(void *user, struct tidings_call *call)
{
    (void)user;
    tidings_call_done(call, 0, NULL);
}

static void say_too_much(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    static char text[2000];
    int rc = tidings_call_text(call, tidings_strn(text, sizeof(text)), &err);
    assert_int_equal(rc, TIDINGS_E_LIMIT);
    tidings_call_done(call, rc, &err);
}

static void failure_is_a_protocol_error(void **state)
{
    (void)state;
    harness_add_prompt(&b, "io", NULL, fail_it, NULL);
    harness_add_prompt(&b, "none", NULL, say_nothing, NULL);
    harness_add_prompt(&b, "much", NULL, say_too_much, NULL);
    harness_run_until_idle(&b);
    const char *text = get("io", NULL);
    assert_json(text, "error|code", "-32603");
    assert_json(text, "error|message", "the disk is gone");
    assert_json(get("none", NULL), "error|message", "the prompt 'none' gave no message");
    assert_json(get("much", NULL), "error|code", "-32602");
}

static void *finish_elsewhere(void *memory)
{
    tool_hello(NULL, *(struct tidings_call **)memory);
    return NULL;
}

static bool is_answered(void *user)
{
    return client_count_kind(asker, SAID_ANSWER) == *(size_t *)user;
}

static void handler_can_answer_later_from_any_thread(void **state)
{
    (void)state;
    struct tidings_call *held = NULL;
    harness_add_prompt(&b, "a", NULL, tool_hold, &held);
    harness_run_until_idle(&b);
    size_t answers = client_count_kind(asker, SAID_ANSWER) + 1;
    client_modern(asker, "\"later\"", "prompts/get", "\"name\":\"a\"");
    harness_run_until_idle(&b);
    assert_non_null(held);
    assert_int_equal(client_count_kind(asker, SAID_ANSWER), answers - 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, finish_elsewhere, &held), 0);
    harness_until(&b, is_answered, &answers);
    pthread_join(thread, NULL);
    const char *text = client_nth_kind(asker, SAID_ANSWER, answers - 1)->text;
    assert_json(text, "id", "later");
    assert_json(text, "result|messages|0|content|text", "hello");
    /* A cancelled request is not answered. */
    held = NULL;
    client_modern(asker, "\"gone\"", "prompts/get", "\"name\":\"a\"");
    harness_run_until_idle(&b);
    client_notify(asker, NULL, "notifications/cancelled", "\"requestId\":\"gone\"");
    harness_run_until_idle(&b);
    assert_true(tidings_call_cancelled(held));
    tool_hello(NULL, held);
    harness_run_until_idle(&b);
    assert_int_equal(client_count_kind(asker, SAID_ANSWER), answers);
}

static bool is_told(void *user)
{
    return client_count(user, SAID_PROMPTS) > 0;
}

static void clients_of_both_eras_receive_prompt_list_changes(void **state)
{
    (void)state;
    harness_add_prompt(&b, "a", NULL, tool_hello, NULL);
    harness_run_until_idle(&b);
    struct client *legacy = client_pipe(&b), *modern = client_pipe(&b), *other = client_pipe(&b);
    client_handshake(legacy, "2025-06-18");
    client_modern(modern, "7", "subscriptions/listen",
                  "\"notifications\":{\"promptsListChanged\":true}");
    client_modern(other, "8", "subscriptions/listen",
                  "\"notifications\":{\"toolsListChanged\":true,\"resourcesListChanged\":true}");
    harness_run_until_idle(&b);
    assert_json(client_nth(modern, SAID_ACK, 0), "params|notifications|promptsListChanged", "true");
    for (unsigned i = 0; i < 50; i++) { /* a burst is sent once or, at the end, twice */
        harness_add_prompt(&b, text_of("p%u", i), NULL, tool_hello, NULL);
    }
    harness_until(&b, is_told, legacy);
    harness_until(&b, is_told, modern);
    assert_in_range(client_count(modern, SAID_PROMPTS), 1, 2);
    assert_in_range(client_count(legacy, SAID_PROMPTS), 1, 2);
    assert_json(client_nth(modern, SAID_PROMPTS, 0),
                "params|_meta|io.modelcontextprotocol/subscriptionId", "7");
    assert_int_equal(client_count(other, SAID_PROMPTS), 0);
    assert_int_equal(hub_remove_feature(b.hub, FEATURE_PROMPT, STR("p7"), NULL), 0);
    assert_int_equal(hub_remove_feature(b.hub, FEATURE_PROMPT, STR("p7"), NULL),
                     TIDINGS_E_NOTFOUND);
    harness_run_until_idle(&b);
    assert_json(get("p7", NULL), "error|code", "-32602");
    client_free(legacy);
    client_free(modern);
    client_free(other);
}

int main(void)
{
#define PROMPT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        PROMPT_TEST(prompts_are_offered_once_one_exists),
        PROMPT_TEST(blocks_are_each_a_message_with_a_role),
        PROMPT_TEST(prompt_arguments_must_be_strings_and_complete),
        PROMPT_TEST(failure_is_a_protocol_error),
        PROMPT_TEST(handler_can_answer_later_from_any_thread),
        PROMPT_TEST(clients_of_both_eras_receive_prompt_list_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
