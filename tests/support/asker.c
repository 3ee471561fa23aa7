/* SPDX-License-Identifier: MIT
 *
 * See asker.h.
 */
#include "support/asker.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/json.h>

#include "base/mem.h"

static void put_heard(struct asker *a, struct json *value)
{
    char *text = json_text_of(a->client, value, NULL);
    size_t len = strlen(a->heard);
    snprintf(a->heard + len, sizeof(a->heard) - len, "%s\n", text);
    mem_free(text);
}

void asker_ask_legacy(struct asker *a)
{
    a->rounds++;
    fake_sayf(&a->fake, "{\"jsonrpc\":\"2.0\",\"id\":\"q%d\",\"method\":\"%s\",\"params\":%s}",
              a->rounds, a->method, a->params);
}

static void ask_modern(struct asker *a, int64_t id)
{
    bool is_waiting = a->waits > 0;
    a->waits -= is_waiting;
    a->rounds++;
    char *state = a->state ? tidings_json_quote(tidings_str(a->state)) : NULL;
    fake_sayf(&a->fake,
              "{\"jsonrpc\":\"2.0\",\"id\":%" PRId64
              ",\"result\":{\"resultType\":\"input_required\"%s%s%s%s%s%s%s}}",
              id, is_waiting ? "" : ",\"inputRequests\":{\"q\":{\"method\":\"",
              is_waiting ? "" : a->method,
              is_waiting ? "" : "\",\"params\":", is_waiting ? "" : a->params,
              is_waiting ? "" : "}}", state ? ",\"requestState\":" : "", state ? state : "");
    tidings_free(state);
}

static void modern_call(struct asker *a, int64_t id, struct json *params)
{
    struct json *answers = jv_get(params, "inputResponses");
    struct tidings_str state = jv_str(jv_get(params, "requestState"));
    assert_true(a->first_call == 0 || id != a->call); /* each round has its own number */
    assert_true(str_eq(jv_str(jv_get(params, "name")), STR("tool")));
    a->call = id;
    if (a->first_call == 0) {
        a->first_call = id;
        assert_null(answers);
        assert_null(jv_get(params, "requestState"));
    } else {
        assert_true(str_eq(state, tidings_str(a->state)));
        assert_true((a->state != NULL) == (jv_get(params, "requestState") != NULL));
    }
    if (answers) {
        put_heard(a, jv_get(answers, "q"));
    }
    if (!answers || a->is_endless) {
        ask_modern(a, id);
    } else {
        fake_result(&a->fake, id, "{\"content\":[]}");
    }
}

static void asking_server(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct asker *a = f->user;
    struct json *params = jv_get(m, "params");
    if (strcmp(method, "tools/call") == 0 && a->is_modern) {
        struct json *meta = jv_get(params, "_meta");
        char *can = json_text_of(a->client,
                                 jv_get(meta, "io.modelcontextprotocol/clientCapabilities"), NULL);
        snprintf(a->capabilities, sizeof(a->capabilities), "%s", can);
        mem_free(can);
        modern_call(a, id, params);
    } else if (strcmp(method, "tools/call") == 0) {
        a->call = id;
        asker_ask_legacy(a);
    } else if (method[0] == '\0') {
        struct json *error = jv_get(m, "error");
        put_heard(a, error ? error : jv_get(m, "result"));
        if (a->is_endless) {
            asker_ask_legacy(a);
        } else if (!a->keeps_silent) {
            fake_result(f, a->call, "{\"content\":[]}");
        }
    } else if (strcmp(method, "initialize") == 0) {
        char *can = json_text_of(a->client, jv_get(params, "capabilities"), NULL);
        snprintf(a->capabilities, sizeof(a->capabilities), "%s", can);
        mem_free(can);
        (void)fake_legacy(f, method, id);
    } else if (a->is_modern ? !fake_modern(f, method, id) : !fake_legacy(f, method, id)) {
        fake_result(f, id, "{}");
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

void asker_on_question(void *user, struct tidings_question *q)
{
    struct asker *a = user;
    a->asked++;
    a->kind = tidings_question_kind(q);
    a->kept = q;
    if (a->answer && a->answer(a, q) == 0) {
        a->kept = NULL;
    }
}

static void on_withdrawn(void *user, struct tidings_question *q)
{
    struct asker *a = user;
    assert_ptr_equal(q, a->kept);
    a->kept = NULL;
    a->withdrawn++;
    tidings_question_cancel(q); /* too late, and harmless */
}

const struct tidings_question_handlers asker_everything = {
    .on_form = asker_on_question,
    .on_url = asker_on_question,
    .on_sampling = asker_on_question,
    .on_roots = asker_on_question,
    .sampling_tools = true,
    .on_withdrawn = on_withdrawn,
};

void asker_begin(struct asker *a, const struct tidings_question_handlers *handlers,
                 uint32_t timeout_ms)
{
    struct tidings_client_options options = {.timeout_ms = timeout_ms, .probe_ms = 60000};
    struct tidings_question_handlers h = *handlers;
    h.user = a;
    a->client = fake_client(&a->fake, asking_server, a, &options);
    assert_int_equal(tidings_client_on_question(a->client, &h, NULL), 0);
}

int asker_call(struct asker *a, struct tidings_error *err)
{
    *err = (struct tidings_error){0};
    char *text = tidings_client_call(a->client, "tool", NULL, NULL, NULL, err);
    int code = text ? 0 : err->code;
    tidings_free(text);
    return code;
}

int asker_run(struct asker *a, struct tidings_error *err)
{
    asker_begin(a, &asker_everything, 60000);
    int code = asker_call(a, err);
    tidings_client_destroy(a->client);
    a->client = NULL;
    return code;
}

int asker_accept(struct asker *a, struct tidings_question *q)
{
    (void)a;
    return tidings_question_accept(q, TIDINGS_STR("{}"), NULL);
}

int asker_decline(struct asker *a, struct tidings_question *q)
{
    (void)a;
    tidings_question_decline(q);
    return 0;
}

int asker_cancel(struct asker *a, struct tidings_question *q)
{
    (void)a;
    tidings_question_cancel(q);
    return 0;
}
