/* SPDX-License-Identifier: MIT
 *
 * Handlers that ask their client: questions, answers, and the state between rounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

#define CAN(what) "\"io.modelcontextprotocol/clientCapabilities\":{" what "}"

static struct harness b;

/* Asks for a name, keeps a state, greets. */
static void greet(void *user, struct tidings_call *h)
{
    struct tidings_error err;
    char text[256];
    struct tidings_str answer = tidings_call_answer(h, "who"), state = tidings_call_state(h);
    int rc;
    if (answer.len > 0) {
        snprintf(text, sizeof(text), "%.*s %.*s", STR_ARG(state), STR_ARG(answer));
        rc = tidings_call_text(h, tidings_str(text), &err);
    } else {
        rc = tidings_call_ask(h, "who", "elicitation/create", STR("{\"message\":\"?\"}"), &err);
        rc = rc < 0 ? rc : tidings_call_keep(h, tidings_str(user), &err);
    }
    tidings_call_done(h, rc, &err);
}

static void ask_badly(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    static char big[CALL_MAX_STATE + 1];
    assert_int_equal(tidings_call_ask(h, "a", "tools/call", STR("{}"), &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_call_ask(h, "", "roots/list", STR("{}"), &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_call_ask(h, "a", "roots/list", STR("[]"), &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_call_ask(h, "a", "roots/list", STR("{"), &err), TIDINGS_E_PARSE);
    assert_int_equal(tidings_call_keep(h, tidings_strn(big, sizeof(big)), &err), TIDINGS_E_LIMIT);
    assert_false(tidings_call_can_ask(h, "tools/call"));
    assert_true(tidings_call_can_ask(h, "roots/list"));
    tidings_call_done(h, 0, NULL);
}

static void ask_much(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    for (unsigned i = 0; i < CALL_MAX_INPUT_REQUESTS; i++) {
        assert_int_equal(tidings_call_ask(h, text_of("q%u", i), "roots/list", STR("{}"), &err), 0);
        if (i == 0) {
            assert_int_equal(tidings_call_ask(h, "q0", "roots/list", STR("{}"), &err),
                             TIDINGS_E_EXISTS);
        }
    }
    assert_int_equal(tidings_call_ask(h, "one more", "roots/list", STR("{}"), &err),
                     TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "16"));
    tidings_call_done(h, 0, NULL);
}

static void keep_only(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    tidings_call_done(h, tidings_call_keep(h, STR("later"), &err), &err);
}

static int setup(void **state)
{
    (void)state;
    static char kept[] = "kept \x01\xff";
    harness_init(&b);
    b.worker_count = 2;
    harness_start(&b);
    harness_add_tool(&b, &(struct harness_tool){.name = "greet", .handler = greet, .user = kept});
    harness_add_tool(&b, &(struct harness_tool){.name = "other", .handler = greet, .user = kept});
    harness_add_tool(&b, &(struct harness_tool){.name = "badly", .handler = ask_badly});
    harness_add_tool(&b, &(struct harness_tool){.name = "much", .handler = ask_much});
    harness_add_tool(&b, &(struct harness_tool){.name = "keep", .handler = keep_only});
    harness_run_until_idle(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

/* Call on the given worker; the text is valid until the next call. */
static struct utterance say(size_t worker, const char *tool, const char *params, const char *meta)
{
    static char text[400000];
    struct client *c = client_http_at(&b, worker);
    client_call(c, "1", tool, params, meta);
    struct utterance u = *client_answer(c);
    snprintf(text, sizeof(text), "%s", u.text);
    u.text = text;
    client_free(c);
    return u;
}

static void questions_are_answered_in_the_next_round_on_any_worker(void **state)
{
    (void)state;
    struct utterance u = say(0, "greet", "\"arguments\":{\"a\":1}", CAN("\"elicitation\":{}"));
    assert_json(u.text, "result|resultType", "input_required");
    assert_json(u.text, "result|inputRequests|who|method", "elicitation/create");
    assert_json(u.text, "result|inputRequests|who|params|message", "?");
    assert_no_json(u.text, "result|content");
    assert_no_json(u.text, "result|ttlMs");
    char kept[2000];
    snprintf(kept, sizeof(kept), "%s", json_at(u.text, "result|requestState"));
    assert_null(strstr(kept, "kept"));
    u = say(1, "greet",
            text_of("\"arguments\":{\"a\":1},\"requestState\":\"%s\",\"inputResponses\":{\"who\":{"
                    "\"action\":\"accept\"},\"more\":{}}",
                    kept),
            CAN("\"elicitation\":{}"));
    assert_json(u.text, "result|resultType", "complete");
    assert_non_null(strstr(json_at(u.text, "result|content|0|text"), "{\"action\":\"accept\"}"));
    assert_non_null(strstr(json_at(u.text, "result|content|0|text"), "kept"));
}

/* Another principal returns the state of the first, and the server asks its question afresh. */
static void state_is_rejected_for_another_principal(void **state)
{
    (void)state;
    static const struct {
        enum principal_kind kind;
        const char *name;
    } who[] = {
        {PRINCIPAL_TOKEN, "alice"},
        {PRINCIPAL_TOKEN, "mallory"},
        {PRINCIPAL_CERTIFICATE, "alice"}, /* the same name is another principal */
        {PRINCIPAL_ANONYMOUS, ""},
    };
    char kept[2000];
    for (size_t i = 0; i <= sizeof(who) / sizeof(who[0]); i++) {
        size_t n = i == 0 ? 0 : i - 1;
        struct client *c = client_http(&b);
        client_is(c, who[n].kind, who[n].name, "", 0);
        client_call(c, "1", "greet",
                    i == 0 ? "\"arguments\":{\"a\":1}"
                           : text_of("\"arguments\":{\"a\":1},\"requestState\":\"%s\","
                                     "\"inputResponses\":{\"who\":{}}",
                                     kept),
                    CAN("\"elicitation\":{}"));
        const char *text = client_answer(c)->text;
        if (i == 0) {
            snprintf(kept, sizeof(kept), "%s", json_at(text, "result|requestState"));
        } else if (n == 0) {
            assert_json(text, "result|resultType", "complete");
        } else {
            assert_json(text, "error|code", "-32602");
        }
        client_free(c);
    }
}

static void state_fits_one_call_only(void **state)
{
    (void)state;
    struct utterance u = say(0, "greet", "\"arguments\":{\"a\":1}", CAN("\"elicitation\":{}"));
    char kept[2000], tampered[2100];
    snprintf(kept, sizeof(kept), "%s", json_at(u.text, "result|requestState"));
    snprintf(tampered, sizeof(tampered), "%s-TAMPERED", kept);
    const struct {
        const char *tool, *arguments, *state;
    } rows[] = {
        {"other", "{\"a\":1}", kept},
        {"greet", "{\"a\":2}", kept},
        {"greet", "{\"a\":1}", tampered},
        {"greet", "{\"a\":1}", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        u = say(0, rows[i].tool,
                text_of("\"arguments\":%s,\"requestState\":\"%s\",\"inputResponses\":{\"who\":{}}",
                        rows[i].arguments, rows[i].state),
                CAN("\"elicitation\":{}"));
        assert_json(u.text, "error|code", "-32602");
        assert_non_null(strstr(u.text, "requestState"));
    }
    u = say(0, "greet", "\"requestState\":7", CAN("\"elicitation\":{}"));
    assert_json(u.text, "error|code", "-32602");
}

static void answers_of_another_shape_are_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"null", "[]", "\"x\"", "{\"who\":1}", "{\"a\":{},\"b\":[]}"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct utterance u =
            say(0, "greet", text_of("\"inputResponses\":%s", rows[i]), CAN("\"elicitation\":{}"));
        assert_json(u.text, "error|code", "-32602");
    }
}

static void missing_answer_is_requested_again(void **state)
{
    (void)state;
    struct utterance u =
        say(0, "greet", "\"inputResponses\":{\"wrong\":{}}", CAN("\"elicitation\":{}"));
    assert_json(u.text, "result|resultType", "input_required");
}

static void client_without_the_capability_receives_the_missing_name(void **state)
{
    (void)state;
    struct utterance u = say(0, "greet", NULL, CAN("\"sampling\":{}"));
    assert_int_equal(u.status, 400);
    assert_json(u.text, "error|code", "-32021");
    assert_json(u.text, "error|data|requiredCapabilities|elicitation", "{}");
    /* Legacy clients receive the same. */
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *c = session_request(&s, "5", "tools/call", "\"name\":\"greet\"");
    assert_json(client_answer(c)->text, "error|code", "-32021");
    assert_json(client_answer(c)->text, "error|data|requiredCapabilities|elicitation", "{}");
    client_free(c);
    /* A handler that only keeps a state is called again at once, up to a limit. */
    c = session_request(&s, "5", "tools/call", "\"name\":\"keep\"");
    assert_json(client_answer(c)->text, "result|isError", "true");
    assert_non_null(strstr(client_answer(c)->text, "100 times"));
    client_free(c);
    (void)session_delete(&s);
}

static void invalid_question_cannot_be_asked(void **state)
{
    (void)state;
    struct utterance u = say(0, "badly", NULL, CAN("\"roots\":{}"));
    assert_json(u.text, "result|resultType", "complete");
}

static void questions_are_limited_and_unique(void **state)
{
    (void)state;
    struct utterance u = say(0, "much", NULL, CAN("\"roots\":{}"));
    assert_json(u.text, "result|inputRequests|q0|method", "roots/list");
    assert_json(u.text, "result|inputRequests|q15|method", "roots/list");
    assert_no_json(u.text, "result|inputRequests|one more");
}

static void state_expires_after_ten_minutes(void **state)
{
    (void)state;
    struct clock_fake now = {.monotonic_ns = clock_monotonic_ns(), .wall_ms = clock_wall_ms()};
    clock_set_fake(&now);
    struct utterance u = say(0, "keep", NULL, NULL);
    char kept[2000];
    snprintf(kept, sizeof(kept), "%s", json_at(u.text, "result|requestState"));
    now.wall_ms += 600 * 1000;
    u = say(0, "keep", text_of("\"requestState\":\"%s\"", kept), NULL);
    assert_json(u.text, "result|resultType", "input_required");
    now.wall_ms += 1;
    u = say(0, "keep", text_of("\"requestState\":\"%s\"", kept), NULL);
    assert_json(u.text, "error|code", "-32602");
    clock_set_fake(NULL);
}

static void state_without_questions_means_retry_later(void **state)
{
    (void)state;
    struct utterance u = say(0, "keep", NULL, NULL);
    assert_json(u.text, "result|resultType", "input_required");
    assert_no_json(u.text, "result|inputRequests");
    assert_non_null(json_at(u.text, "result|requestState"));
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(questions_are_answered_in_the_next_round_on_any_worker),
        WITH_BENCH(state_fits_one_call_only),
        WITH_BENCH(state_is_rejected_for_another_principal),
        WITH_BENCH(answers_of_another_shape_are_refused),
        WITH_BENCH(missing_answer_is_requested_again),
        WITH_BENCH(client_without_the_capability_receives_the_missing_name),
        WITH_BENCH(invalid_question_cannot_be_asked),
        WITH_BENCH(questions_are_limited_and_unique),
        WITH_BENCH(state_expires_after_ten_minutes),
        WITH_BENCH(state_without_questions_means_retry_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
