/* SPDX-License-Identifier: MIT
 *
 * With any failed allocation around a tool, its client gets an answer or its stream ends, its
 * handler is finished, and nothing leaks. Ten thousand rounds of every feature leave no memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

#define CAN_ASK "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}"

static struct harness b;

/* Uses every function of a handler. */
static void do_all(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    struct tidings_resource about = {0};
    about.uri = STR("mem:///r");
    about.name = STR("r");
    tidings_call_log(h, TIDINGS_LOG_ERROR, "me", STR("text"));
    tidings_call_progress(h, 1, 1, STR("all of it"));
    int rc = tidings_call_text(h, tidings_call_arguments(h), &err);
    rc = rc < 0 ? rc : tidings_call_text(h, tidings_call_json(h, "/a"), &err);
    rc = rc < 0 ? rc : tidings_call_resource(h, &about, STR("content"), &err);
    rc = rc < 0 ? rc : tidings_call_block(h, STR("{\"type\":\"text\",\"text\":\"\"}"), &err);
    rc = rc < 0 ? rc : tidings_call_structured(h, STR("{\"a\":1}"), &err);
    tidings_call_done(h, rc, &err);
}

static void ask(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    int rc = tidings_call_ask(h, "k", "elicitation/create", STR("{\"message\":\"?\"}"), &err);
    rc = rc < 0 ? rc : tidings_call_keep(h, STR("state"), &err);
    tidings_call_done(h, rc, &err);
}

static void begin(void)
{
    fail_alloc_start(0);
    harness_init(&b);
    harness_start(&b);
    harness_add_tool(&b, &(struct harness_tool){
                             .name = "all",
                             .handler = do_all,
                             .input = "{\"type\":\"object\",\"required\":[\"a\"]}",
                             .output = "{\"type\":\"object\",\"required\":[\"a\"]}",
                         });
    harness_add_tool(&b, &(struct harness_tool){.name = "ask", .handler = ask});
    harness_run_until_idle(&b);
}

static void a_call(struct client *c)
{
    client_call(c, "1", "all", "\"arguments\":{\"a\":[1,2]}", NULL);
}

static void an_invalid_call(struct client *c)
{
    client_call(c, "1", "all", NULL, NULL);
}

static void a_streamed_call(struct client *c)
{
    client_call(c, "1", "all", "\"arguments\":{\"a\":[1,2]}",
                "\"progressToken\":\"p\",\"io.modelcontextprotocol/logLevel\":\"debug\"");
}

static void a_question(struct client *c)
{
    client_call(c, "1", "ask", NULL, CAN_ASK);
}

static void a_list(struct client *c)
{
    client_modern(c, "1", "tools/list", "\"pageSize\":1");
}

static void a_registration(struct client *c)
{
    client_modern(c, "1", "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    harness_run_until_idle(&b);
    struct feature *f = feature_create(FEATURE_TOOL, STR("new"), STR("{\"name\":\"new\"}"));
    if (f) {
        (void)hub_add_feature(b.hub, f, NULL);
    }
    (void)hub_remove_feature(b.hub, FEATURE_TOOL, STR("new"), NULL);
    harness_run_until_idle(&b);
}

static void every_allocation_may_fail(void (*life)(struct client *))
{
    bool reached = true;
    for (long n = 1; reached; n++) {
        long before = fail_alloc_live();
        begin();
        struct client *c = client_http(&b);
        fail_alloc_start(n);
        life(c);
        harness_run_until_idle(&b);
        reached = fail_alloc_stop();
        assert_false(c->is_waiting);
        assert_true(c->count > 0 || c->is_streaming);
        client_free(c);
        harness_stop_handled(&b);
        assert_int_equal(fail_alloc_live(), before);
        assert_true(n < 10000);
    }
}

#define FAULT(name, life)                                                                          \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        every_allocation_may_fail(life);                                                           \
    }

FAULT(a_call_survives_any_failed_allocation, a_call)
FAULT(an_invalid_call_survives_any_failed_allocation, an_invalid_call)
FAULT(a_streamed_call_survives_any_failed_allocation, a_streamed_call)
FAULT(a_question_survives_any_failed_allocation, a_question)
FAULT(a_list_survives_any_failed_allocation, a_list)
FAULT(a_registration_survives_any_failed_allocation, a_registration)

static void features_leave_no_memory_after_ten_thousand_rounds(void **state)
{
    (void)state;
    begin();
    long before = 0;
    for (int i = 0; i < 10000; i++) {
        if (i == 10) { /* the first rounds may leave reusable buffers */
            before = fail_alloc_live();
        }
        harness_add_tool(&b, &(struct harness_tool){.name = "more", .handler = tool_hello});
        harness_run_until_idle(&b);
        struct client *c = client_http(&b);
        client_call(c, "1", i % 2 ? "all" : "more", "\"arguments\":{\"a\":1}", NULL);
        assert_json(client_answer(c)->text, "result|resultType", "complete");
        client_free(c);
        harness_remove_tool(&b, "more");
        harness_run_until_idle(&b);
    }
    assert_int_equal(fail_alloc_live(), before);
    harness_stop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_survives_any_failed_allocation),
        cmocka_unit_test(an_invalid_call_survives_any_failed_allocation),
        cmocka_unit_test(a_streamed_call_survives_any_failed_allocation),
        cmocka_unit_test(a_question_survives_any_failed_allocation),
        cmocka_unit_test(a_list_survives_any_failed_allocation),
        cmocka_unit_test(a_registration_survives_any_failed_allocation),
        cmocka_unit_test(features_leave_no_memory_after_ten_thousand_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
