/* SPDX-License-Identifier: MIT
 *
 * Questions of servers, in both eras, over a transport without a server: answers, rounds, limits,
 * and questions that a server must not ask.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "client/questions.h"
#include "support/asker.h"
#include "support/fake_transport.h"

/* ---- answers --------------------------------------------------------------------------------- */

/* The first answer is invalid; the error says why, and the question stays open. */
static int accept_at_last(struct asker *a, struct tidings_question *q)
{
    static const struct {
        const char *content, *why;
    } wrong[] = {
        {"{\"age\":-1}", "age"},
        {"{\"age\":\"old\"}", "age"},
        {"{\"size\":1}", "no field 'size'"},
        {"[1]", "not a JSON object"},
        {"{", "not a JSON object"},
    };
    (void)a;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tidings_error err = {0};
        assert_int_equal(tidings_question_accept(q, tidings_str(wrong[i].content), &err),
                         TIDINGS_E_INVALID);
        assert_non_null(strstr(err.text, wrong[i].why));
    }
    assert_int_equal(tidings_question_answer(q, TIDINGS_STR("{}"), NULL), TIDINGS_E_INVALID);
    assert_true(str_eq(tidings_question_message(q), STR("who?")));
    assert_int_equal(tidings_question_url(q).len, 0);
    assert_non_null(strstr(tidings_question_params(q).ptr, "\"requestedSchema\""));
    return tidings_question_accept(q, TIDINGS_STR("{\"age\":41}"), NULL);
}

static int accept_without_preset(struct asker *a, struct tidings_question *q)
{
    (void)a;
    return tidings_question_accept(q, TIDINGS_STR("{\"name\":null,\"age\":3}"), NULL);
}

static int sample(struct asker *a, struct tidings_question *q)
{
    (void)a;
    assert_int_equal(tidings_question_answer(q, TIDINGS_STR("{\"role\":\"boss\"}"), NULL),
                     TIDINGS_E_INVALID);
    assert_int_equal(tidings_question_accept(q, TIDINGS_STR("{}"), NULL), TIDINGS_E_INVALID);
    return tidings_question_answer(
        q,
        TIDINGS_STR("{\"role\":\"assistant\",\"model\":\"m\",\"content\":"
                    "{\"type\":\"text\",\"text\":\"hi\"}}"),
        NULL);
}

static int tell_roots(struct asker *a, struct tidings_question *q)
{
    (void)a;
    assert_int_equal(
        tidings_question_answer(q, TIDINGS_STR("{\"roots\":[{\"uri\":\"http://x\"}]}"), NULL),
        TIDINGS_E_INVALID);
    return tidings_question_answer(q, TIDINGS_STR("{\"roots\":[{\"uri\":\"file:///w\"}]}"), NULL);
}

static int visit(struct asker *a, struct tidings_question *q)
{
    (void)a;
    assert_true(str_eq(tidings_question_url(q), STR("https://example.org/pay?n=1")));
    assert_int_equal(tidings_question_accept(q, TIDINGS_STR("{}"), NULL), TIDINGS_E_INVALID);
    return tidings_question_accept(q, tidings_str(NULL), NULL);
}

static void questions_of_every_kind_are_answered_in_both_eras(void **state)
{
    static const struct {
        const char *method, *params;
        int (*answer)(struct asker *a, struct tidings_question *q);
        const char *heard;
        enum tidings_question_kind kind;
    } rows[] = {
        {"elicitation/create", FORM_OF(NAME_AND_AGE), asker_accept,
         "{\"action\":\"accept\",\"content\":{\"name\":\"Ann\"}}\n", TIDINGS_QUESTION_FORM},
        {"elicitation/create", FORM_OF(NAME_AND_AGE), accept_at_last,
         "{\"action\":\"accept\",\"content\":{\"name\":\"Ann\",\"age\":41}}\n",
         TIDINGS_QUESTION_FORM},
        {"elicitation/create", FORM_OF(NAME_AND_AGE), accept_without_preset,
         "{\"action\":\"accept\",\"content\":{\"age\":3}}\n", TIDINGS_QUESTION_FORM},
        {"elicitation/create", FORM_OF(NAME_AND_AGE), asker_decline, "{\"action\":\"decline\"}\n",
         TIDINGS_QUESTION_FORM},
        {"elicitation/create", FORM_OF(NAME_AND_AGE), asker_cancel, "{\"action\":\"cancel\"}\n",
         TIDINGS_QUESTION_FORM},
        {"elicitation/create",
         "{\"mode\":\"url\",\"message\":\"m\",\"url\":\"https://example.org/pay?n=1\"}", visit,
         "{\"action\":\"accept\"}\n", TIDINGS_QUESTION_URL},
        {"sampling/createMessage", "{\"messages\":[],\"maxTokens\":9,\"tools\":[]}", sample,
         "{\"role\":\"assistant\",\"model\":\"m\",\"content\":{\"type\":\"text\",\"text\":\"hi\"}}"
         "\n",
         TIDINGS_QUESTION_SAMPLING},
        {"roots/list", "{}", tell_roots, "{\"roots\":[{\"uri\":\"file:///w\"}]}\n",
         TIDINGS_QUESTION_ROOTS},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err;
        struct asker a = {.is_modern = i % 2 != 0,
                          .method = rows[i / 2].method,
                          .params = rows[i / 2].params,
                          .state = i % 2 != 0 && i % 4 > 1 ? "opaque \"state\"" : NULL,
                          .answer = rows[i / 2].answer};
        assert_int_equal(asker_run(&a, &err), 0);
        assert_string_equal(a.heard, rows[i / 2].heard);
        assert_int_equal(a.asked, 1);
        assert_int_equal(a.kind, rows[i / 2].kind);
    }
}

static void sampling_reports_rejection_by_user(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tidings_error err;
        struct asker a = {.is_modern = i == 1,
                          .method = "sampling/createMessage",
                          .params = "{}",
                          .answer = asker_decline};
        int code = asker_run(&a, &err);
        assert_int_equal(code, a.is_modern ? TIDINGS_E_CANCELLED : 0);
        assert_string_equal(a.is_modern ? err.text : a.heard,
                            a.is_modern ? "the server's question was not answered: the user "
                                          "rejected the request"
                                        : "{\"code\":-1,\"message\":\"the user rejected the "
                                          "request\"}\n");
    }
}

static void on_later(void *user, struct tidings_str result, const struct tidings_error *err,
                     struct tidings_str error)
{
    (void)result;
    (void)error;
    *(int *)user = err ? err->code : 1;
}

/* No call waits: the program answers between two steps, after the time for the call is over. */
static void answer_can_be_sent_later(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct asker a = {
            .is_modern = i == 1, .method = "elicitation/create", .params = FORM_OF(NAME_AND_AGE)};
        int done = 0;
        asker_begin(&a, &asker_everything, 20);
        struct tidings_client_asking asking = {.method = "tools/call",
                                               .params = "{\"name\":\"tool\"}",
                                               .on_answer = on_later,
                                               .user = &done};
        int64_t number = tidings_client_ask(a.client, &asking, NULL);
        assert_true(number > 0);
        while (!a.kept) {
            assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
        }
        for (uint64_t until = clock_monotonic_ms() + 60; clock_monotonic_ms() < until;) {
            assert_int_equal(tidings_client_step(a.client, 10, NULL), 1);
        }
        assert_int_equal(done, 0);
        assert_int_equal(tidings_question_accept(a.kept, TIDINGS_STR("{}"), NULL), 0);
        while (done == 0) {
            assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
        }
        assert_int_equal(done, 1);
        assert_int_equal(a.withdrawn, 0);
        tidings_client_destroy(a.client);
    }
}

/* ---- what is offered ------------------------------------------------------------------------- */

static void capabilities_are_offered_only_with_handler(void **state)
{
    static const struct {
        struct tidings_question_handlers handlers;
        const char *legacy, *modern;
    } rows[] = {
        {{0}, "{}", "{}"},
        {{.on_form = asker_on_question},
         "{\"elicitation\":{\"form\":{}}}",
         "{\"elicitation\":{\"form\":{}}}"},
        {{.on_url = asker_on_question, .on_sampling = asker_on_question},
         "{\"elicitation\":{\"url\":{}},\"sampling\":{}}",
         "{\"elicitation\":{\"url\":{}},\"sampling\":{}}"},
        {{.on_sampling = asker_on_question, .sampling_tools = true, .on_roots = asker_on_question},
         "{\"sampling\":{\"tools\":{}},\"roots\":{\"listChanged\":true}}",
         "{\"sampling\":{\"tools\":{}},\"roots\":{}}"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err;
        struct asker a = {.is_modern = i % 2 != 0,
                          .method = "elicitation/create",
                          .params = FORM_OF(""),
                          .answer = asker_accept};
        asker_begin(&a, &rows[i / 2].handlers, 60000);
        bool has_form = rows[i / 2].handlers.on_form != NULL;
        int code = asker_call(&a, &err);
        assert_int_equal(code, a.is_modern && !has_form ? TIDINGS_E_UNSUPPORTED : 0);
        assert_int_equal(a.asked, has_form ? 1 : 0);
        assert_string_equal(a.capabilities, a.is_modern ? rows[i / 2].modern : rows[i / 2].legacy);
        assert_true(a.is_modern || has_form || strstr(a.heard, "{\"code\":-32601,") == a.heard);
        /* Offers are rejected now, because it is too late. */
        assert_int_equal(tidings_client_on_question(a.client, &asker_everything, NULL),
                         TIDINGS_E_INVALID);
        tidings_client_destroy(a.client);
    }
}

static void root_changes_are_reported_if_supported(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct asker a = {.is_modern = i == 1};
        asker_begin(&a, &asker_everything, 60000);
        assert_int_equal(tidings_client_connect(a.client, NULL), 0);
        tidings_client_roots_changed(a.client);
        assert_true((strstr(a.fake.log, "notifications/roots/list_changed") != NULL) ==
                    !a.is_modern);
        tidings_client_destroy(a.client);
    }
    tidings_client_roots_changed(NULL);
}

/* ---- strangers ------------------------------------------------------------------------------- */

/* Sends a forbidden question: the client rejects it without calling the program. */
static void invalid_question_is_rejected_without_callback(void **state)
{
    static const struct {
        const char *method, *params, *why;
    } rows[] = {
        {"elicitation/create", "{\"message\":\"m\"}", "not an object with fields"},
        {"elicitation/create", "{\"requestedSchema\":{\"type\":\"string\"}}",
         "not an object with fields"},
        {"elicitation/create",
         FORM_OF("\"a\":{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"string\"}}}"),
         "neither text, a number"},
        {"elicitation/create",
         FORM_OF("\"a\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"),
         "neither text, a number"},
        {"elicitation/create", FORM_OF("\"a\":{\"$ref\":\"#\"}"), "neither text, a number"},
        {"elicitation/create", FORM_OF("\"a\":{\"type\":\"string\",\"enum\":[]}"), "no choices"},
        {"elicitation/create", FORM_OF("\"a\":{\"type\":\"string\",\"enum\":[1]}"),
         "is not a string"},
        {"elicitation/create", FORM_OF("\"a\":{\"type\":\"string\",\"pattern\":\"(\"}"),
         "the form's schema"},
        {"elicitation/create", "{\"mode\":\"url\",\"url\":\"javascript:alert(1)\"}", "not http://"},
        {"elicitation/create", "{\"mode\":\"url\",\"url\":\"file:///etc/passwd\"}", "not http://"},
        {"elicitation/create", "{\"mode\":\"url\",\"url\":\"https://\"}", "not http://"},
        {"elicitation/create", "{\"mode\":\"url\",\"url\":\"https:///x\"}", "not http://"},
        {"elicitation/create", "{\"mode\":\"url\",\"url\":\"https://a/\\u001b[31m\"}",
         "not http://"},
        {"elicitation/create", "{\"mode\":\"url\",\"url\":\"https://a/ --x\"}", "not http://"},
        {"elicitation/create", "{\"mode\":\"url\",\"url\":\"https://\\u0430pple.com/\"}",
         "not http://"},
        {"elicitation/create", "{\"mode\":\"url\"}", "not http://"},
        {"elicitation/create", "{\"mode\":\"telepathy\"}", "nothing a client can be asked"},
        {"tools/call", "{}", "nothing a client can be asked"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_error err;
        struct asker a = {.is_modern = i % 2 != 0,
                          .method = rows[i / 2].method,
                          .params = rows[i / 2].params,
                          .answer = asker_accept};
        int code = asker_run(&a, &err);
        assert_true(a.is_modern ? code < 0 : code == 0);
        assert_non_null(strstr(a.is_modern ? err.text : a.heard, rows[i / 2].why));
        assert_int_equal(a.asked, 0);
    }
}

static void huge_form_is_rejected(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 65536);
    buf_puts(&text, STR("{\"requestedSchema\":{\"type\":\"object\",\"properties\":{"));
    for (int i = 0; i < 65; i++) {
        buf_putf(&text, "%s\"f%d\":{\"type\":\"string\"}", i > 0 ? "," : "", i);
    }
    buf_puts(&text, STR("}}}"));
    struct tidings_error err;
    struct asker a = {.is_modern = true, .method = "elicitation/create", .params = text.ptr};
    assert_int_equal(asker_run(&a, &err), TIDINGS_E_LIMIT);
    assert_int_equal(a.asked, 0);
    buf_deinit(&text);
}

static void client_stops_if_server_asks_endlessly(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tidings_error err;
        struct asker a = {.is_modern = i == 1,
                          .is_endless = true,
                          .method = "elicitation/create",
                          .params = FORM_OF(NAME_AND_AGE),
                          .answer = asker_accept};
        asker_begin(&a, &asker_everything, a.is_modern ? 60000 : 200);
        int code = asker_call(&a, &err);
        assert_int_equal(code, a.is_modern ? TIDINGS_E_LIMIT : TIDINGS_E_TIMEOUT);
        assert_int_equal(a.asked, QUESTIONS_OF_REQUEST);
        assert_true(a.is_modern || strstr(a.heard, "more than 16 questions"));
        tidings_client_destroy(a.client);
    }
}

static void too_many_open_questions_are_rejected(void **state)
{
    (void)state;
    struct asker a = {.method = "roots/list", .params = "{}", .keeps_silent = true};
    asker_begin(&a, &asker_everything, 60000);
    assert_int_equal(tidings_client_connect(a.client, NULL), 0);
    for (unsigned i = 0; i <= QUESTIONS_OPEN; i++) { /* because of no request */
        asker_ask_legacy(&a);
    }
    asker_ask_legacy(&a);
    while (a.asked < (int)QUESTIONS_OPEN || strstr(a.heard, "at once") == NULL) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    assert_int_equal(a.asked, QUESTIONS_OPEN);
    tidings_client_destroy(a.client); /* with all of them open */
    assert_int_equal(a.withdrawn, 0);
}

/* Each is answered at once, so none stays open for long; no request is in progress. */
static void unsolicited_questions_are_limited(void **state)
{
    (void)state;
    struct asker a = {.method = "roots/list", .params = "{}", .answer = tell_roots};
    asker_begin(&a, &asker_everything, 60000);
    assert_int_equal(tidings_client_connect(a.client, NULL), 0);
    for (unsigned i = 0; i < QUESTIONS_OF_REQUEST; i++) {
        int asked = a.asked;
        asker_ask_legacy(&a);
        while (a.asked == asked) {
            assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
        }
    }
    assert_null(strstr(a.heard, "error"));
    asker_ask_legacy(&a);
    while (strstr(a.heard, "without a request") == NULL) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    assert_int_equal(a.asked, QUESTIONS_OF_REQUEST);
    tidings_client_destroy(a.client);
}

static void request_state_is_returned_and_limited(void **state)
{
    (void)state;
    struct tidings_error err;
    char *huge = calloc(1, (1u << 20) + 2);
    memset(huge, 's', (1u << 20) + 1);
    struct asker a = {.is_modern = true,
                      .method = "roots/list",
                      .params = "{}",
                      .state = huge,
                      .answer = tell_roots};
    assert_int_equal(asker_run(&a, &err), TIDINGS_E_LIMIT);
    assert_int_equal(a.asked, 0);
    huge[1000] = '\0';
    /* Only a state: later. */
    struct asker b = {.is_modern = true,
                      .method = "roots/list",
                      .params = "{}",
                      .state = huge,
                      .waits = 1,
                      .answer = tell_roots};
    assert_int_equal(asker_run(&b, &err), 0);
    assert_int_equal(b.rounds, 2);
    free(huge);
}

/* ---- the end of a question ------------------------------------------------------------------- */

static void withdrawn_question_is_reported(void **state)
{
    (void)state;
    struct asker a = {.method = "elicitation/create", .params = FORM_OF(NAME_AND_AGE)};
    int done = 0;
    asker_begin(&a, &asker_everything, 60000);
    struct tidings_client_asking asking = {
        .method = "tools/call", .on_answer = on_later, .user = &done};
    int64_t number = tidings_client_ask(a.client, &asking, NULL);
    while (!a.kept) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    fake_say(&a.fake, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                      "{\"requestId\":\"q1\"}}");
    while (a.withdrawn == 0) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    asker_ask_legacy(&a);
    while (!a.kept) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    fake_say(&a.fake, NULL); /* the connection ends, and with it its questions */
    while (a.withdrawn == 1 || done == 0) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    assert_string_equal(a.heard, "");
    (void)number;
    tidings_client_destroy(a.client);
}

static void abandoned_call_withdraws_its_questions(void **state)
{
    (void)state;
    struct asker a = {
        .is_modern = true, .method = "elicitation/create", .params = FORM_OF(NAME_AND_AGE)};
    int done = 0;
    asker_begin(&a, &asker_everything, 60000);
    struct tidings_client_asking asking = {.method = "tools/call",
                                           .params = "{\"name\":\"tool\"}",
                                           .on_answer = on_later,
                                           .user = &done};
    int64_t number = tidings_client_ask(a.client, &asking, NULL);
    while (!a.kept) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    tidings_client_cancel(a.client, number);
    while (a.withdrawn == 0) {
        assert_int_equal(tidings_client_step(a.client, -1, NULL), 1);
    }
    assert_int_equal(done, 0);
    assert_int_equal(a.rounds, 1);
    tidings_client_destroy(a.client);
}

static void question_times_out_without_answer(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct tidings_error err;
        struct tidings_question_handlers h = asker_everything;
        struct asker a = {.is_modern = i % 2 == 1,
                          .method = i < 2 ? "elicitation/create" : "sampling/createMessage",
                          .params = FORM_OF(NAME_AND_AGE)};
        h.timeout_ms = 1;
        asker_begin(&a, &h, 60000);
        int code = asker_call(&a, &err);
        assert_int_equal(code, i == 3 ? TIDINGS_E_CANCELLED : 0);
        assert_string_equal(a.heard, i < 2    ? "{\"action\":\"cancel\"}\n"
                                     : i == 2 ? "{\"code\":-1,\"message\":\"no answer in "
                                                "time\"}\n"
                                              : "");
        (void)tidings_client_step(a.client, 0, NULL);
        assert_int_equal(a.withdrawn, 1);
        tidings_client_destroy(a.client);
    }
}

/* ---- visits first (-32042) ------------------------------------------------------------------- */

static void visiting_server(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct asker *a = f->user;
    (void)m;
    if (strcmp(method, "tools/call") == 0 && a->rounds++ == 0) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64
                  ",\"error\":{\"code\":-32042,\"message\":\"visit\",\"data\":{\"elicitations\":"
                  "[{\"mode\":\"url\",\"elicitationId\":\"e\",\"message\":\"m\",\"url\":"
                  "\"https://example.org/pay?n=1\"}]}}}",
                  id);
    } else if (!fake_legacy(f, method, id)) {
        fake_result(f, id, "{\"content\":[]}");
    }
}

static void question_can_require_url_visit(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct tidings_error err = {0};
        struct asker a = {.answer = i == 0 ? visit : asker_decline};
        struct tidings_question_handlers h = asker_everything;
        h.user = &a;
        a.client = fake_client(&a.fake, visiting_server, &a, NULL);
        assert_int_equal(tidings_client_on_question(a.client, &h, NULL), 0);
        assert_int_equal(asker_call(&a, &err), i == 0 ? 0 : TIDINGS_E_CANCELLED);
        assert_int_equal(a.rounds, i == 0 ? 2 : 1);
        tidings_client_destroy(a.client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_of_every_kind_are_answered_in_both_eras),
        cmocka_unit_test(sampling_reports_rejection_by_user),
        cmocka_unit_test(answer_can_be_sent_later),
        cmocka_unit_test(capabilities_are_offered_only_with_handler),
        cmocka_unit_test(root_changes_are_reported_if_supported),
        cmocka_unit_test(invalid_question_is_rejected_without_callback),
        cmocka_unit_test(huge_form_is_rejected),
        cmocka_unit_test(client_stops_if_server_asks_endlessly),
        cmocka_unit_test(too_many_open_questions_are_rejected),
        cmocka_unit_test(unsolicited_questions_are_limited),
        cmocka_unit_test(request_state_is_returned_and_limited),
        cmocka_unit_test(withdrawn_question_is_reported),
        cmocka_unit_test(abandoned_call_withdraws_its_questions),
        cmocka_unit_test(question_times_out_without_answer),
        cmocka_unit_test(question_can_require_url_visit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
