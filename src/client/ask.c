/* SPDX-License-Identifier: MIT
 *
 * Requests of the program: those that are waited for, and those that are not.
 */
#include "client/ask.h"

#include <tidings/json.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/connection.h"
#include "client/events.h"
#include "client/json_text.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/state.h"
#include "json/write.h"

/* ---- waiting --------------------------------------------------------------------------------- */

struct waiting {
    struct tidings_client *client;
    bool is_done;
    struct json *result;
    char *error; /* JSON text */
    struct tidings_error why;
    tidings_client_progress_fn on_progress;
    void *user;
    struct json *progress; /* the newest that was not told yet */
};

static void ask_on_answer(void *user, const struct response *a)
{
    struct waiting *w = user;
    w->is_done = true;
    w->result = jv_ref(a->result);
    w->why = a->why;
    w->error = a->error ? json_text_of(w->client, a->error, NULL) : NULL;
}

/* Told outside the turn; those that come faster than that are passed over, as progress may be. */
static void ask_on_progress(void *user, struct json *params)
{
    struct waiting *w = user;
    jv_unref(w->progress);
    w->progress = jv_ref(params);
}

static void tell_progress(struct waiting *w)
{
    struct json *params = w->progress;
    w->progress = NULL;
    if (params && !client_is_stopping(w->client)) {
        events_call_progress(w->on_progress, w->user, params);
    }
    jv_unref(params);
}

static void ask_wait(struct waiting *w, int64_t id)
{
    struct tidings_client *c = w->client;
    int rc = 0;
    while (!w->is_done && rc == 0 && !client_is_stopping(c)) {
        rc = poller_turn(&c->poller, -1, &w->why);
        tell_progress(w);
        if (!w->is_done) {
            question_deliver(c);
        }
    }
    if (!w->is_done) {
        requests_cancel(c, id);
        if (rc == 0) {
            tidings_fail(&w->why, TIDINGS_E_CANCELLED, "stopped");
        }
    }
    events_nudge(c);
}

static struct json *ask_with(struct waiting *w, const char *method, struct tidings_str params,
                             struct tidings_error *err)
{
    struct tidings_client *c = w->client;
    struct request_options a = {.method = method,
                                .params = params,
                                .fn = ask_on_answer,
                                .on_progress = w->on_progress ? ask_on_progress : NULL,
                                .user = w,
                                .can_ask = true};
    mem_free(c->last_error);
    c->last_error = NULL;
    int64_t id = requests_start(c, &a, &w->why);
    if (id > 0) {
        ask_wait(w, id);
    }
    jv_unref(w->progress);
    mem_free(c->last_error); /* what was told of progress may have asked as well */
    c->last_error = w->error;
    bool wants_input = str_eq(jv_str(jv_get(w->result, "resultType")), STR("input_required"));
    if (wants_input) {
        tidings_fail(&w->why, TIDINGS_E_UNSUPPORTED,
                     "the server wants to ask its user something first");
    }
    if (w->why.code < 0 && err) {
        *err = w->why;
    }
    if (wants_input) {
        jv_unref(w->result);
        return NULL;
    }
    return w->result;
}

struct json *ask(struct tidings_client *c, const char *method, struct tidings_str params,
                 struct tidings_error *err)
{
    struct waiting w = {.client = c};
    return ask_with(&w, method, params, err);
}

bool tidings_client_wants_credentials(const struct tidings_client *c)
{
    return c && c->wants_credentials;
}

const char *tidings_client_last_error(const struct tidings_client *c)
{
    return c ? c->last_error : NULL;
}

void ask_forget_error(struct tidings_client *c)
{
    mem_free(c->last_error);
    c->last_error = NULL;
}

char *ask_give_text(struct tidings_client *c, struct json *root, const struct json *value,
                    struct tidings_error *err)
{
    if (!root) {
        return NULL;
    }
    char *text = json_text_of(c, value, NULL);
    jv_unref(root);
    if (!text) {
        tidings_fail(err, TIDINGS_E_LIMIT, "the answer is too large");
    }
    return text;
}

int tidings_client_connect(struct tidings_client *c, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    connection_need(c);
    while ((c->stage == STAGE_OPENING || c->stage == STAGE_NEGOTIATING) && !client_is_stopping(c)) {
        int rc = poller_turn(&c->poller, -1, err);
        if (rc < 0) {
            return rc;
        }
    }
    events_nudge(c);
    if (client_is_stopping(c)) {
        return tidings_fail(err, TIDINGS_E_CANCELLED, "stopped");
    }
    if (c->stage == STAGE_READY) {
        return 0;
    }
    if (err) {
        *err = c->loss;
    }
    return c->loss.code;
}

/* ---- anything -------------------------------------------------------------------------------- */

char *tidings_client_request(struct tidings_client *c, const char *method, const char *params,
                             struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return NULL;
    }
    struct json *result = ask(c, method, tidings_str(params), err);
    return ask_give_text(c, result, result, err);
}

struct pending {
    struct tidings_client *client;
    struct tidings_client_asking asking;
    int64_t number;
};

static void on_later(void *user, const struct response *a)
{
    struct pending *p = user;
    events_put_answer(p->client, &p->asking, a);
    mem_free(p);
}

static void on_later_progress(void *user, struct json *params)
{
    struct pending *p = user;
    events_put_progress(p->client, p->number, &p->asking, params);
}

int64_t tidings_client_ask(struct tidings_client *c, const struct tidings_client_asking *asking,
                           struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (!asking || !asking->method || !asking->on_answer) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a request needs a method and a function");
    }
    int rc = RESERVED_CHECK(asking, err);
    struct pending *p = rc == 0 ? mem_zalloc(sizeof(*p)) : NULL;
    if (!p) {
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *p = (struct pending){.client = c, .asking = *asking};
    struct request_options a = {.method = asking->method,
                                .params = tidings_str(asking->params),
                                .fn = on_later,
                                .on_progress = asking->on_progress ? on_later_progress : NULL,
                                .user = p,
                                .timeout_ms = asking->timeout_ms,
                                .can_ask = true};
    p->number = c->next_id + 1; /* what it will be */
    int64_t id = requests_start(c, &a, err);
    if (id < 0) {
        mem_free(p);
    }
    return id;
}

void tidings_client_cancel(struct tidings_client *c, int64_t number)
{
    if (!c) {
        return;
    }
    struct pending *p = requests_user(c, number, on_later);
    if (p) {
        requests_cancel(c, number);
        mem_free(p);
    }
    events_forget(c, number);
}

/* ---- particular questions -------------------------------------------------------------------- */

/* {"name":"value"} with up to two members more, JSON as they are; NULL: without them. */
struct members {
    const char *key, *value;     /* a string */
    const char *more_key, *more; /* JSON */
};

static int ask_put_params(struct buf *out, const struct members *m, struct tidings_error *err)
{
    struct jw w;
    if (!m->value || !m->value[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the %s is missing", m->key);
    }
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, tidings_str(m->key), tidings_str(m->value));
    if (m->more) {
        char *text = tidings_json_get(tidings_str(m->more), "");
        if (!text || text[0] != '{') {
            mem_free(text);
            return tidings_fail(err, TIDINGS_E_INVALID, "the %s are no JSON object", m->more_key);
        }
        jw_put_raw(&w, tidings_str(m->more_key), tidings_str(text));
        mem_free(text);
    }
    jw_end_object(&w);
    return out->failed ? tidings_fail(err, out->failed, "the parameters are too large") : 0;
}

static struct json *ask_members(struct waiting *w, const char *method, const struct members *m,
                                struct tidings_error *err)
{
    if (client_check(w->client, err) < 0) {
        return NULL;
    }
    struct buf params;
    struct json *result = NULL;
    buf_init(&params, w->client->settings.max_bytes);
    if (ask_put_params(&params, m, err) == 0) {
        result = ask_with(w, method, buf_str(&params), err);
    }
    buf_deinit(&params);
    return result;
}

static char *ask_about(struct waiting *w, const char *method, const struct members *m,
                       struct tidings_error *err)
{
    struct json *result = ask_members(w, method, m, err);
    return ask_give_text(w->client, result, result, err);
}

char *tidings_client_read(struct tidings_client *c, const char *uri, struct tidings_error *err)
{
    struct waiting w = {.client = c};
    struct members m = {.key = "uri", .value = uri};
    struct tidings_error why = {0};
    char *text = ask_about(&w, "resources/read", &m, &why);
    if (!text && err) {
        *err = why;
        if (!uri || !strstr(why.text, uri)) { /* it is named once */
            error_wrap(err, why.code, "read '%.80s'", uri ? uri : "");
        }
    }
    return text;
}

struct json *ask_tool(struct tidings_client *c, const char *tool, const char *arguments,
                      tidings_client_progress_fn on_progress, void *user, struct tidings_error *err)
{
    struct waiting w = {.client = c, .on_progress = on_progress, .user = user};
    struct members m = {.key = "name",
                        .value = tool,
                        .more_key = "arguments",
                        .more = arguments ? arguments : "{}"};
    return ask_members(&w, "tools/call", &m, err);
}

char *tidings_client_prompt(struct tidings_client *c, const char *name, const char *arguments,
                            struct tidings_error *err)
{
    struct waiting w = {.client = c};
    struct members m = {.key = "name",
                        .value = name,
                        .more_key = "arguments",
                        .more = arguments ? arguments : "{}"};
    return ask_about(&w, "prompts/get", &m, err);
}

static int put_completion(struct buf *out, const char *ref, const char *argument, const char *value,
                          const char *known)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_raw(&w, STR("ref"), tidings_str(ref));
    jw_key(&w, STR("argument"));
    jw_begin_object(&w);
    jw_put_string(&w, STR("name"), tidings_str(argument));
    jw_put_string(&w, STR("value"), tidings_str(value));
    jw_end_object(&w);
    if (known) {
        jw_key(&w, STR("context"));
        jw_begin_object(&w);
        jw_put_raw(&w, STR("arguments"), tidings_str(known));
        jw_end_object(&w);
    }
    jw_end_object(&w);
    return out->failed;
}

char *tidings_client_complete(struct tidings_client *c, const char *ref, const char *argument,
                              const char *value, const char *known, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return NULL;
    }
    struct buf params;
    buf_init(&params, c->settings.max_bytes);
    struct json *result = NULL;
    int rc = put_completion(&params, ref, argument, value, known);
    if (rc < 0) {
        tidings_fail(err, rc, "the parameters are too large");
    } else {
        result = ask(c, "completion/complete", buf_str(&params), err);
    }
    buf_deinit(&params);
    struct json *completion = jv_get(result, "completion");
    if (result && !completion) {
        jv_unref(result);
        tidings_fail(err, TIDINGS_E_PARSE, "the answer holds no completion");
        return NULL;
    }
    return ask_give_text(c, result, completion, err);
}
