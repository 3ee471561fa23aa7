/* SPDX-License-Identifier: MIT
 *
 * Prompts and completions through the public header: valid descriptions, the answers of a running
 * server, and allocation failures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <tidings/tidings.h>

#include "base/str.h"
#include "support/fail_alloc.h"
#include "support/harness_json.h"
#include "support/served.h"

static const struct tidings_argument arguments[] = {
    {"code", "Code", "What to review", true},
    {"style", NULL, NULL, false},
};

static void review(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_call_done(call, tidings_call_text(call, tidings_call_string(call, "code"), &err), &err);
}

static void suggest(void *user, struct tidings_complete *complete)
{
    tidings_complete_add(complete, tidings_str(user));
    tidings_complete_done(complete, 0, NULL);
}

static struct tidings_prompt described(const char *name)
{
    struct tidings_prompt about;
    memset(&about, 0, sizeof(about));
    about.name = tidings_str(name);
    about.title = STR("Review");
    about.description = STR("Asks for a \"review\"");
    about.arguments = arguments;
    about.argument_count = 2;
    about.icons = STR("[ {\"src\": \"data:,\"} ]");
    about.meta = STR("{\"example.com/a\": 1}");
    return about;
}

/* The body of the answer to a modern request. */
static const char *ask(const char *method, const char *name, const char *params)
{
    char head[512], body[1024];
    snprintf(head, sizeof(head),
             "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
             "Mcp-Method: %s%s%s",
             method, name ? "\r\nMcp-Name: " : "", name ? name : "");
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
             "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
             method, params, params[0] ? "," : "");
    const char *answer = strstr(served_http(head, body), "\r\n\r\n");
    assert_non_null(answer);
    return answer + 4;
}

static char suggested[] = "suggested", row[] = "row";

static void clients_receive_registered_prompts(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_prompt about = described("review");
    struct tidings_str name = STR("review"), uri_template = STR("app:///row/{id}");
    assert_int_equal(tidings_server_complete_prompt(served(), name, suggest, suggested, &err), 0);
    assert_int_equal(tidings_server_add_prompt(served(), &about, review, NULL, &err), 0);
    served_run();
    assert_int_equal(tidings_server_complete_template(served(), uri_template, suggest, row, &err),
                     0);
    const char *text = ask("prompts/list", NULL, "");
    assert_json(text, "result|prompts|0",
                "{\"name\":\"review\",\"title\":\"Review\",\"description\":\"Asks for a "
                "\\\"review\\\"\",\"arguments\":[{\"name\":\"code\",\"title\":\"Code\","
                "\"description\":\"What to review\",\"required\":true},{\"name\":\"style\","
                "\"required\":false}],\"icons\":[{\"src\":\"data:,\"}],"
                "\"_meta\":{\"example.com/a\":1}}");
    text = ask("prompts/get", "review", "\"name\":\"review\",\"arguments\":{\"code\":\"x = 1\"}");
    assert_json(text, "result|description", "Asks for a \"review\"");
    assert_json(text, "result|messages|0|content|text", "x = 1");
    text = ask("prompts/get", "review", "\"name\":\"review\",\"arguments\":{\"style\":\"\"}");
    assert_json(text, "error|code", "-32602");
    assert_non_null(strstr(json_at(text, "error|message"), "'code'"));
    text = ask("completion/complete", NULL,
               "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"review\"},"
               "\"argument\":{\"name\":\"style\",\"value\":\"\"}");
    assert_json(text, "result|completion|values", "[\"suggested\"]");
    text = ask("completion/complete", NULL,
               "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"app:///row/{id}\"},"
               "\"argument\":{\"name\":\"id\",\"value\":\"\"}");
    assert_json(text, "result|completion|values", "[\"row\"]");
    assert_int_equal(tidings_server_remove_prompt(served(), name, &err), 0);
    text = ask("prompts/get", "review", "\"name\":\"review\"");
    assert_json(text, "error|code", "-32602");
}

static void invalid_prompt_is_rejected_with_reason(void **state)
{
    (void)state;
    static const struct tidings_argument twice[] = {{"a", NULL, NULL, true}, {"a", 0, 0, true}};
    static const struct tidings_argument unnamed[] = {{NULL, NULL, NULL, true}};
    static const struct tidings_argument no_text[] = {{"\xff", NULL, NULL, true}};
    struct tidings_error err = {0, ""};
    struct tidings_server *s = tidings_server_create(&err);
    struct tidings_prompt good = described("p"), rows[9];
    for (size_t i = 0; i < 9; i++) {
        rows[i] = good;
    }
    rows[0].name = STR("two words");
    rows[1].name = STR_EMPTY;
    rows[2].arguments = twice;
    rows[3].arguments = unnamed;
    rows[3].argument_count = 1;
    rows[4].argument_count = 65;
    rows[5].icons = STR("{}");
    rows[6].meta = STR("{");
    rows[7].meta = STR("{\"io.modelcontextprotocol/x\":1}");
    rows[8].arguments = no_text;
    rows[8].argument_count = 1;
    static const char *const words[] = {
        "the name 'two words'",
        "the name ''",
        "prompt 'p': there are two arguments 'a'",
        "prompt 'p': argument 1 needs a name",
        "prompt 'p': at most 64 arguments",
        "prompt 'p': icons must be a JSON array",
        "prompt 'p': _meta: ",
        "prompt 'p': _meta: the prefix of 'io.modelcontextprotocol/x'",
        "prompt 'p': argument 1 needs a name"};
    for (size_t i = 0; i < 9; i++) {
        assert_true(tidings_server_add_prompt(s, &rows[i], review, NULL, &err) < 0);
        if (!strstr(err.text, words[i])) {
            fail_msg("'%s', expected '%s'", err.text, words[i]);
        }
    }
    assert_int_equal(tidings_server_add_prompt(s, &good, NULL, NULL, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_add_prompt(s, NULL, review, NULL, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_add_prompt(s, &good, review, NULL, &err), 0);
    assert_int_equal(tidings_server_add_prompt(s, &good, review, NULL, &err), TIDINGS_E_EXISTS);
    assert_string_equal(err.text, "there is a prompt 'p' already");
    assert_int_equal(tidings_server_remove_prompt(s, STR("q"), &err), TIDINGS_E_NOTFOUND);
    assert_int_equal(tidings_server_complete_prompt(s, STR("p"), NULL, NULL, &err),
                     TIDINGS_E_NOTFOUND);
    assert_int_equal(tidings_server_complete_prompt(s, STR("p"), suggest, row, &err), 0);
    assert_int_equal(tidings_server_complete_prompt(s, STR("p"), suggest, row, &err),
                     TIDINGS_E_EXISTS);
    assert_string_equal(err.text, "there is a completion 'prompt p' already");
    assert_int_equal(tidings_server_complete_prompt(s, STR("p"), NULL, NULL, &err), 0);
    assert_int_equal(tidings_server_complete_template(s, STR_EMPTY, suggest, row, &err),
                     TIDINGS_E_INVALID);
    static char large[8192];
    memset(large, 'a', sizeof(large));
    assert_int_equal(
        tidings_server_complete_template(s, tidings_strn(large, sizeof(large)), suggest, row, &err),
        TIDINGS_E_LIMIT);
    tidings_server_destroy(s);
}

static void prompts_report_failed_allocations_without_leak(void **state)
{
    (void)state;
    struct tidings_prompt about = described("p");
    for (long n = 1;; n++) {
        struct tidings_error err = {0, ""};
        fail_alloc_start(0);
        long before = fail_alloc_live();
        struct tidings_server *s = tidings_server_create(&err);
        assert_non_null(s);
        fail_alloc_start(n);
        int rc = tidings_server_add_prompt(s, &about, review, NULL, &err);
        if (rc == 0) {
            rc = tidings_server_complete_prompt(s, about.name, suggest, row, &err);
        }
        if (rc == 0) {
            rc = tidings_server_complete_prompt(s, about.name, NULL, NULL, &err);
        }
        if (rc == 0) {
            rc = tidings_server_remove_prompt(s, about.name, &err);
        }
        bool reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        tidings_server_destroy(s);
        assert_int_equal(fail_alloc_live(), before);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

int main(void)
{
    static char two[] = "2"; /* workers */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(clients_receive_registered_prompts, served_begin,
                                        served_end),
        cmocka_unit_test_prestate_setup_teardown(clients_receive_registered_prompts, served_begin,
                                                 served_end, two),
        cmocka_unit_test(invalid_prompt_is_rejected_with_reason),
        cmocka_unit_test(prompts_report_failed_allocations_without_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
