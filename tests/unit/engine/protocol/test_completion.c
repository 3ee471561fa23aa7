/* SPDX-License-Identifier: MIT
 *
 * completion/complete: its handlers, errors, bounds, late answers, and that the server offers it
 * only if it has a completer.
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
#include "engine/protocol/feature.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_prompt.h"
#include "support/harness_tool.h"

#define TEMPLATE "weather://{country}/{city}"
#define OF_TEMPLATE "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"" TEMPLATE "\"}"
#define OF_PROMPT "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"review\"}"
#define ARGUMENT(name, value) ",\"argument\":{\"name\":\"" name "\",\"value\":\"" value "\"}"

static struct harness b;
static struct client *asker;
static struct tidings_complete *held;

/* ---- a provider with completion -------------------------------------------------------------- */

static int open_it(struct tidings_provider *p, struct tidings_str config, struct tidings_error *err)
{
    (void)p;
    (void)config;
    (void)err;
    return 0;
}

static void close_it(struct tidings_provider *p)
{
    (void)p;
}

static void read_it(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

/* Suggests its own argument. */
static void complete_it(struct tidings_provider *p, struct tidings_complete *c,
                        struct tidings_str uri_template)
{
    (void)p;
    tidings_complete_add(c, uri_template);
    tidings_complete_add(c, tidings_complete_name(c));
    tidings_complete_add(c, tidings_complete_value(c));
    tidings_complete_done(c, 0, NULL);
}

static const struct tidings_provider_ops completing = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "completing",
    .open = open_it,
    .read = read_it,
    .complete = complete_it,
    .close = close_it,
};

static const struct tidings_provider_ops silent = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "silent",
    .open = open_it,
    .read = read_it,
    .close = close_it,
};

/* ---- the bench ------------------------------------------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    held = NULL;
    harness_init(&b);
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

static const char *ask(const char *method, const char *params)
{
    return client_ask(asker, method, params);
}

static const char *complete(const char *params)
{
    return ask("completion/complete", params);
}

/* ---- functions of the application ------------------------------------------------------------ */

static void suggest_cities(void *user, struct tidings_complete *c)
{
    (void)user;
    static const char *const cities[][2] = {
        {"fr", "Paris"}, {"fr", "Pau"}, {"it", "Parma"}, {"it", "Pisa"}};
    struct tidings_str country = tidings_complete_argument(c, "country");
    for (size_t i = 0; i < 4; i++) {
        struct tidings_str city = tidings_str(cities[i][1]);
        if ((country.len == 0 || str_eq(country, tidings_str(cities[i][0]))) &&
            str_starts(city, tidings_complete_value(c))) {
            (void)tidings_complete_add(c, city); /* a failure stays in the answer */
        }
    }
    tidings_complete_done(c, 0, NULL);
}

static void suggest_many(void *user, struct tidings_complete *c)
{
    size_t many = *(size_t *)user;
    for (size_t i = 0; i < many; i++) {
        char text[32];
        int n = snprintf(text, sizeof(text), "%zu", i);
        assert_int_equal(tidings_complete_add(c, tidings_strn(text, (size_t)n)), i < 100);
    }
    tidings_complete_done(c, 0, NULL);
}

static void say_total(void *user, struct tidings_complete *c)
{
    tidings_complete_add(c, STR("one"));
    tidings_complete_set_total(c, *(size_t *)user);
    tidings_complete_done(c, 0, NULL);
}

static void fail_it(void *user, struct tidings_complete *c)
{
    (void)user;
    struct tidings_error err;
    tidings_complete_add(c, STR("dropped"));
    tidings_complete_done(c, tidings_fail(&err, TIDINGS_E_BUSY, "not now"), &err);
}

static void hold(void *user, struct tidings_complete *c)
{
    (void)user;
    held = c;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void completion_is_offered_if_a_completer_exists(void **state)
{
    (void)state;
    harness_add_template(&b, TEMPLATE);
    harness_run_until_idle(&b);
    assert_json(complete(OF_TEMPLATE ARGUMENT("city", "")), "error|code", "-32601");
    assert_no_json(ask("server/discover", NULL), "result|capabilities|completions");
    harness_add_completion(&b, COMPLETE_TEMPLATE, TEMPLATE, suggest_cities, NULL);
    harness_run_until_idle(&b);
    assert_json(ask("server/discover", NULL), "result|capabilities|completions", "{}");
    assert_no_json(ask("server/discover", NULL), "result|capabilities|logging");
    struct client *legacy = client_pipe(&b);
    client_legacy(legacy, NULL, "1", "initialize",
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}");
    assert_json(client_answer(legacy)->text, "result|capabilities|completions", "{}");
    client_free(legacy);
    assert_int_equal(hub_remove_feature(b.hub, FEATURE_COMPLETION, STR("template " TEMPLATE), NULL),
                     0);
    harness_run_until_idle(&b);
    assert_json(complete(OF_TEMPLATE ARGUMENT("city", "")), "error|code", "-32601");
    assert_int_equal(hub_mount(b.hub, &completing, STR("dir:///"), STR_EMPTY, NULL, NULL), 0);
    harness_run_until_idle(&b);
    assert_json(ask("server/discover", NULL), "result|capabilities|completions", "{}");
}

static void template_variable_is_completed_in_context(void **state)
{
    (void)state;
    harness_add_template(&b, TEMPLATE);
    harness_add_completion(&b, COMPLETE_TEMPLATE, TEMPLATE, suggest_cities, NULL);
    harness_run_until_idle(&b);
    const char *text = complete(OF_TEMPLATE ARGUMENT("city", "Pa"));
    assert_json(text, "result|completion|values", "[\"Paris\",\"Pau\",\"Parma\"]");
    assert_json(text, "result|completion|total", "3");
    assert_json(text, "result|completion|hasMore", "false");
    assert_json(text, "result|resultType", "complete");
    assert_no_json(text, "result|ttlMs");
    text = complete(OF_TEMPLATE ARGUMENT("city", "P") ",\"context\":{\"arguments\":{\"country\":"
                                                      "\"it\"}}");
    assert_json(text, "result|completion|values", "[\"Parma\",\"Pisa\"]");
    text = complete(OF_TEMPLATE ARGUMENT("city", "x") ",\"context\":{}");
    assert_json(text, "result|completion|values", "[]");
    assert_json(text, "result|completion|total", "0");
}

static void prompt_argument_is_completed(void **state)
{
    (void)state;
    harness_add_completion(&b, COMPLETE_PROMPT, "review", suggest_cities, NULL);
    harness_run_until_idle(&b);
    assert_json(complete(OF_PROMPT ARGUMENT("style", "")), "error|message",
                "unknown prompt 'review'");
    harness_add_prompt(&b, "review", NULL, tool_hello, NULL); /* after its completion */
    harness_add_prompt(&b, "other", NULL, tool_hello, NULL);
    harness_run_until_idle(&b);
    assert_json(complete(OF_PROMPT ARGUMENT("style", "Pi")), "result|completion|values",
                "[\"Pisa\"]");
    assert_json(complete(OF_PROMPT ARGUMENT("none", "")), "error|message",
                "the prompt 'review' has no argument 'none'");
    /* Known, but without a completer. */
    assert_json(
        complete("\"ref\":{\"type\":\"ref/prompt\",\"name\":\"other\"}" ARGUMENT("code", "")),
        "result|completion|values", "[]");
}

static void completion_returns_at_most_a_hundred_values(void **state)
{
    (void)state;
    static const struct {
        size_t many;
        const char *count, *total, *more;
    } rows[] = {{100, "99", "100", "false"}, {101, "99", NULL, "true"}, {250, "99", NULL, "true"}};
    size_t many = 0;
    harness_add_prompt(&b, "review", NULL, tool_hello, NULL);
    harness_add_completion(&b, COMPLETE_PROMPT, "review", suggest_many, &many);
    harness_run_until_idle(&b);
    for (size_t i = 0; i < 3; i++) {
        many = rows[i].many;
        const char *text = complete(OF_PROMPT ARGUMENT("code", ""));
        assert_json(text, "result|completion|values|99", rows[i].count);
        assert_no_json(text, "result|completion|values|100");
        assert_json(text, "result|completion|hasMore", rows[i].more);
        if (rows[i].total) {
            assert_json(text, "result|completion|total", rows[i].total);
        } else {
            assert_no_json(text, "result|completion|total");
        }
    }
}

static void completer_can_report_the_total(void **state)
{
    (void)state;
    size_t total = 7000;
    harness_add_prompt(&b, "review", NULL, tool_hello, NULL);
    harness_add_completion(&b, COMPLETE_PROMPT, "review", say_total, &total);
    harness_run_until_idle(&b);
    const char *text = complete(OF_PROMPT ARGUMENT("code", ""));
    assert_json(text, "result|completion|total", "7000");
    assert_json(text, "result|completion|hasMore", "true");
    total = 0; /* invalid: there is one value */
    text = complete(OF_PROMPT ARGUMENT("code", ""));
    assert_json(text, "result|completion|total", "1");
    assert_json(text, "result|completion|hasMore", "false");
}

static void mount_completes_its_own_templates(void **state)
{
    (void)state;
    assert_int_equal(hub_mount(b.hub, &completing, STR("dir:///"), STR_EMPTY, NULL, NULL), 0);
    assert_int_equal(hub_mount(b.hub, &silent, STR("dir:///mute/"), STR_EMPTY, NULL, NULL), 0);
    harness_run_until_idle(&b);
    const char *text = complete(
        "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"dir:///{+path}\"}" ARGUMENT("path", "a/b"));
    assert_json(text, "result|completion|values", "[\"dir:///{+path}\",\"path\",\"a/b\"]");
    text = complete(
        "\"ref\":{\"type\":\"ref/resource\",\"uri\":\"dir:///mute/{+path}\"}" ARGUMENT("path", ""));
    assert_json(text, "error|message", "no such template is offered");
    assert_json(text, "error|code", "-32602");
    assert_json(text, "error|data|uri", "dir:///mute/{+path}");
}

static void invalid_completion_is_refused_with_the_reason(void **state)
{
    (void)state;
    harness_add_template(&b, TEMPLATE);
    harness_add_completion(&b, COMPLETE_TEMPLATE, TEMPLATE, suggest_cities, NULL);
    harness_run_until_idle(&b);
    static const char *const rows[][2] = {
        {NULL, "params.ref.type must be 'ref/prompt' or 'ref/resource'"},
        {"\"ref\":{\"type\":\"ref/tool\",\"name\":\"a\"}" ARGUMENT("a", ""),
         "params.ref.type must be 'ref/prompt' or 'ref/resource'"},
        {"\"ref\":{\"type\":\"ref/prompt\"}" ARGUMENT("a", ""), "params.ref.name must be a string"},
        {"\"ref\":{\"type\":\"ref/resource\",\"uri\":1}" ARGUMENT("a", ""),
         "params.ref.uri must be a string"},
        {OF_TEMPLATE, "params.argument must have a name and a value, both strings"},
        {OF_TEMPLATE ",\"argument\":{\"name\":\"city\"}",
         "params.argument must have a name and a value, both strings"},
        {OF_TEMPLATE ",\"argument\":{\"name\":\"city\",\"value\":1}",
         "params.argument must have a name and a value, both strings"},
        {OF_TEMPLATE ARGUMENT("city", "") ",\"context\":[]",
         "params.context must be an object, and so must its arguments"},
        {OF_TEMPLATE ARGUMENT("city", "") ",\"context\":{\"arguments\":1}",
         "params.context must be an object, and so must its arguments"},
        {OF_TEMPLATE ARGUMENT("city", "") ",\"context\":{\"arguments\":{\"a\":1}}",
         "params.context.arguments must be strings"},
        {OF_TEMPLATE ARGUMENT("street", ""), "this template has no variable 'street'"},
        {"\"ref\":{\"type\":\"ref/resource\",\"uri\":\"x:///{a}\"}" ARGUMENT("a", ""),
         "no such template is offered"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = complete(rows[i][0]);
        assert_json(text, "error|code", "-32602");
        assert_json(text, "error|message", rows[i][1]);
    }
}

static void completer_failure_is_reported(void **state)
{
    (void)state;
    harness_add_template(&b, TEMPLATE);
    harness_add_completion(&b, COMPLETE_TEMPLATE, TEMPLATE, fail_it, NULL);
    harness_run_until_idle(&b);
    const char *text = complete(OF_TEMPLATE ARGUMENT("city", ""));
    assert_json(text, "error|message", "not now");
    assert_json(text, "error|code", "-32603");
}

static void *finish_elsewhere(void *memory)
{
    suggest_cities(NULL, memory);
    return NULL;
}

static bool is_answered(void *user)
{
    return client_count_kind(asker, SAID_ANSWER) == *(size_t *)user;
}

static void completion_can_arrive_later_from_any_thread(void **state)
{
    (void)state;
    harness_add_template(&b, TEMPLATE);
    harness_add_completion(&b, COMPLETE_TEMPLATE, TEMPLATE, hold, NULL);
    harness_run_until_idle(&b);
    client_modern(asker, "1", "completion/complete", OF_TEMPLATE ARGUMENT("city", "Pi"));
    harness_run_until_idle(&b);
    assert_non_null(held);
    /* The completer stays when its template or prompt is removed. */
    assert_int_equal(hub_remove_feature(b.hub, FEATURE_COMPLETION, STR("template " TEMPLATE), NULL),
                     0);
    harness_run_until_idle(&b);
    pthread_t thread;
    size_t one = 1;
    assert_int_equal(pthread_create(&thread, NULL, finish_elsewhere, held), 0);
    harness_until(&b, is_answered, &one);
    pthread_join(thread, NULL);
    assert_json(client_answer(asker)->text, "result|completion|values", "[\"Pisa\"]");
}

static void cancelled_completion_is_not_answered(void **state)
{
    (void)state;
    harness_add_template(&b, TEMPLATE);
    harness_add_completion(&b, COMPLETE_TEMPLATE, TEMPLATE, hold, NULL);
    harness_run_until_idle(&b);
    client_modern(asker, "1", "completion/complete", OF_TEMPLATE ARGUMENT("city", "Pi"));
    harness_run_until_idle(&b);
    assert_false(tidings_complete_cancelled(held));
    client_notify(asker, NULL, "notifications/cancelled", "\"requestId\":1");
    harness_run_until_idle(&b);
    assert_true(tidings_complete_cancelled(held));
    suggest_cities(NULL, held);
    harness_run_until_idle(&b);
    assert_int_equal(client_count_kind(asker, SAID_ANSWER), 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void failed_allocation_is_answered_and_leaks_nothing(void **state)
{
    (void)state;
    static const char *const lives[][2] = {
        {"completion/complete", OF_TEMPLATE ARGUMENT("city", "P")},
        {"completion/complete", OF_PROMPT ARGUMENT("style", "P")},
        {"prompts/get", "\"name\":\"review\",\"arguments\":{\"code\":\"x\"}"},
        {"prompts/list", NULL},
    };
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        for (long n = 1;; n++) {
            fail_alloc_start(0);
            long before = fail_alloc_live();
            setup(NULL);
            harness_add_template(&b, TEMPLATE);
            harness_add_completion(&b, COMPLETE_TEMPLATE, TEMPLATE, suggest_cities, NULL);
            harness_add_prompt(&b, "review", "{\"required\":[\"code\"]}", tool_hello, NULL);
            harness_add_completion(&b, COMPLETE_PROMPT, "review", suggest_cities, NULL);
            harness_run_until_idle(&b);
            fail_alloc_start(n);
            client_modern(asker, "1", lives[i][0], lives[i][1]);
            harness_run_until_idle(&b);
            bool reached = fail_alloc_stop();
            harness_run_until_idle(&b);
            size_t told = client_count_kind(asker, SAID_ANSWER) +
                          client_count_kind(asker, SAID_CUT) + client_count_kind(asker, SAID_END);
            assert_int_equal(told, 1);
            teardown(NULL);
            assert_int_equal(fail_alloc_live(), before);
            if (!reached) {
                break;
            }
        }
    }
    fail_alloc_end();
}

int main(void)
{
#define COMPLETE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        COMPLETE_TEST(completion_is_offered_if_a_completer_exists),
        COMPLETE_TEST(template_variable_is_completed_in_context),
        COMPLETE_TEST(prompt_argument_is_completed),
        COMPLETE_TEST(completion_returns_at_most_a_hundred_values),
        COMPLETE_TEST(completer_can_report_the_total),
        COMPLETE_TEST(mount_completes_its_own_templates),
        COMPLETE_TEST(invalid_completion_is_refused_with_the_reason),
        COMPLETE_TEST(completer_failure_is_reported),
        COMPLETE_TEST(completion_can_arrive_later_from_any_thread),
        COMPLETE_TEST(cancelled_completion_is_not_answered),
        cmocka_unit_test(failed_allocation_is_answered_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
