/* SPDX-License-Identifier: MIT
 *
 * If an allocation fails while a server asks and the program answers, the call ends with a result
 * or an error, and nothing leaks.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/question.h>

#include "support/fail_alloc.h"
#include "support/fake_transport.h"

#define FORM                                                                                       \
    "{\"message\":\"m\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":" \
    "\"string\",\"enum\":[\"x\",\"y\"],\"default\":\"x\"}}}}"

static int64_t call;

static void modern(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (fake_modern(f, method, id)) {
        return;
    }
    if (jv_get(jv_get(m, "params"), "inputResponses")) {
        fake_result(f, id, "{\"content\":[]}");
    } else if (id > 0) {
        fake_result(f, id,
                    "{\"resultType\":\"input_required\",\"requestState\":\"s\",\"inputRequests\":"
                    "{\"f\":{\"method\":\"elicitation/create\",\"params\":" FORM "},"
                    "\"r\":{\"method\":\"roots/list\"}}}");
    }
}

static void legacy(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (strcmp(method, "tools/call") == 0) {
        call = id;
        fake_say(f,
                 "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"elicitation/create\",\"params\":" FORM
                 "}");
    } else if (method[0] == '\0') {
        fake_result(f, call, "{\"content\":[]}");
    } else if (!fake_legacy(f, method, id) && id > 0) {
        fake_result(f, id, "{}");
    }
}

static int read_field(void *user, const struct tidings_field *field)
{
    (void)user;
    tidings_free(tidings_field_read(field, TIDINGS_STR("y"), NULL));
    return 0;
}

/* A failed allocation can cost a message, so most calls end by the first one. */
#define FAULT_TIMEOUT_MS 50u
#define PATIENT_TIMEOUT_MS 30000u

static void on_question(void *user, struct tidings_question *q)
{
    (void)user;
    (void)tidings_question_params(q);
    (void)tidings_question_fields(q, read_field, NULL);
    int rc = tidings_question_kind(q) == TIDINGS_QUESTION_FORM
                 ? tidings_question_accept(q, TIDINGS_STR("{}"), NULL)
                 : tidings_question_answer(q, TIDINGS_STR("{\"roots\":[]}"), NULL);
    if (rc < 0) {
        tidings_question_cancel(q);
    }
}

/* Returns true if the call worked. */
static bool ask_of(fake_fn server, unsigned timeout_ms)
{
    struct tidings_client_options o = {.timeout_ms = timeout_ms, .probe_ms = timeout_ms};
    struct tidings_question_handlers on = {
        .on_form = on_question, .on_roots = on_question, .timeout_ms = timeout_ms};
    struct fake f;
    struct tidings_client *c = fake_client(&f, server, NULL, &o);
    if (!c) {
        return false;
    }
    assert_int_equal(tidings_client_on_question(c, &on, NULL), 0);
    struct tidings_error err = {0};
    char *text = tidings_client_call(c, "tool", NULL, NULL, NULL, &err);
    bool worked = text != NULL;
    assert_true(worked || err.code < 0);
    tidings_free(text);
    tidings_client_destroy(c);
    return worked;
}

static void question_answer_survives_a_failed_allocation(void **state)
{
    fake_fn server = *state ? legacy : modern;
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(n);
        bool worked = ask_of(server, FAULT_TIMEOUT_MS);
        reached = fail_alloc_stop();
        /* Without a failed allocation, a busy machine may still be too slow. */
        assert_true(reached || worked || ask_of(server, PATIENT_TIMEOUT_MS));
        if (fail_alloc_live() != 0) {
            fail_msg("allocation %ld: %ld are left", n, fail_alloc_live());
        }
        assert_true(n < 10000);
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(question_answer_survives_a_failed_allocation),
        cmocka_unit_test_prestate(question_answer_survives_a_failed_allocation, (void *)1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
