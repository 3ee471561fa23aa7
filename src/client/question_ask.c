/* SPDX-License-Identifier: MIT
 *
 * Takes questions of the server in, as requests or as parts of a round, and tells the program.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "client/form.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/round.h"
#include "client/state.h"
#include "client/subscriptions.h"

#define ANSWER_MS 600000u
#define URL_MAX 8192u
#define UNCAUSED_PERIOD_MS 60000u /* for one more question that no request led to */

/* ---- what can be asked ----------------------------------------------------------------------- */

static tidings_question_fn question_handler(const struct tidings_client *c,
                                            enum tidings_question_kind kind)
{
    const struct tidings_question_handlers *h = &c->handlers;
    return kind == TIDINGS_QUESTION_FORM       ? h->on_form
           : kind == TIDINGS_QUESTION_URL      ? h->on_url
           : kind == TIDINGS_QUESTION_SAMPLING ? h->on_sampling
                                               : h->on_roots;
}

bool question_is_offered(const struct tidings_client *c)
{
    const struct tidings_question_handlers *h = &c->handlers;
    return h->on_form || h->on_url || h->on_sampling || h->on_roots;
}

void question_put_capabilities(const struct tidings_client *c, struct jw *w)
{
    const struct tidings_question_handlers *h = &c->handlers;
    jw_begin_object(w);
    if (h->on_form || h->on_url) {
        jw_key(w, STR("elicitation"));
        jw_begin_object(w);
        if (h->on_form) {
            jw_put_raw(w, STR("form"), STR("{}"));
        }
        if (h->on_url) {
            jw_put_raw(w, STR("url"), STR("{}"));
        }
        jw_end_object(w);
    }
    if (h->on_sampling) {
        jw_put_raw(w, STR("sampling"), h->sampling_tools ? STR("{\"tools\":{}}") : STR("{}"));
    }
    if (h->on_roots) {
        jw_put_raw(w, STR("roots"),
                   c->era == TIDINGS_ERA_LEGACY ? STR("{\"listChanged\":true}") : STR("{}"));
    }
    jw_end_object(w);
}

int tidings_client_on_question(struct tidings_client *c,
                               const struct tidings_question_handlers *handlers,
                               struct tidings_error *err)
{
    static const struct tidings_question_handlers none = {0};
    const struct tidings_question_handlers *h = handlers ? handlers : &none;
    int rc = client_check(c, err);
    rc = rc == 0 ? RESERVED_CHECK(h, err) : rc;
    if (rc < 0) {
        return rc;
    }
    if (c->is_open || c->has_info) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "what a client can be asked is said before it connects");
    }
    c->handlers = *h;
    c->handlers.timeout_ms = h->timeout_ms > 0 ? h->timeout_ms : ANSWER_MS;
    c->handlers.max_questions = h->max_questions > 0 ? h->max_questions : QUESTIONS_OF_REQUEST;
    if (c->handlers.max_questions > BUCKET_COUNT_MAX) {
        c->handlers.max_questions = BUCKET_COUNT_MAX;
    }
    return 0;
}

/* ---- is it one ------------------------------------------------------------------------------- */

/* What a browser can be sent to: nothing that runs here, nothing that could be read as two things.
 */
static bool is_web_address(struct tidings_str url)
{
    size_t scheme = str_starts(url, STR("https://")) ? 8 : str_starts(url, STR("http://")) ? 7 : 0;
    bool is_fit = scheme > 0 && url.len > scheme && url.len <= URL_MAX && url.ptr[scheme] != '/';
    for (size_t i = 0; is_fit && i < url.len; i++) {
        is_fit = url.ptr[i] > ' ' && url.ptr[i] <= '~' && !strchr("\"<>\\^`{|}", url.ptr[i]);
    }
    return is_fit;
}

static int question_kind_of(struct tidings_str method, struct json *params,
                            enum tidings_question_kind *ret, struct tidings_error *err)
{
    struct tidings_str mode = jv_str(jv_get(params, "mode"));
    if (str_eq(method, STR("sampling/createMessage"))) {
        *ret = TIDINGS_QUESTION_SAMPLING;
    } else if (str_eq(method, STR("roots/list"))) {
        *ret = TIDINGS_QUESTION_ROOTS;
    } else if (str_eq(method, STR("elicitation/create")) && str_eq(mode, STR("url"))) {
        *ret = TIDINGS_QUESTION_URL;
    } else if (str_eq(method, STR("elicitation/create")) &&
               (mode.len == 0 || str_eq(mode, STR("form")))) {
        *ret = TIDINGS_QUESTION_FORM;
    } else {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "'%.*s' is nothing a client can be asked",
                            STR_ARG_MAX(method, 60));
    }
    return 0;
}

/* TIDINGS_E_UNSUPPORTED: that was not offered; TIDINGS_E_PARSE, TIDINGS_E_LIMIT: it makes no sense.
 */
static int question_check(const struct tidings_client *c, struct tidings_str method,
                          struct json *params, enum tidings_question_kind *ret,
                          struct tidings_error *err)
{
    static const char *const names[] = {"a form to be filled in (elicitation)",
                                        "a visit to an address (elicitation.url)",
                                        "a completion of a model (sampling)", "roots"};
    int rc = question_kind_of(method, params, ret, err);
    if (rc < 0) {
        return rc;
    }
    if (!question_handler(c, *ret)) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server asks for %s, which this client did not offer", names[*ret]);
    }
    bool has_tools = jv_get(params, "tools") || jv_get(params, "toolChoice");
    if (*ret == TIDINGS_QUESTION_SAMPLING && has_tools && !c->handlers.sampling_tools) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server asks for sampling with tools, which this client did not "
                            "offer");
    }
    if (*ret == TIDINGS_QUESTION_URL && !is_web_address(jv_str(jv_get(params, "url")))) {
        return tidings_fail(err, TIDINGS_E_PARSE,
                            "the server asks for a visit to something that is no http:// or "
                            "https:// address");
    }
    return *ret == TIDINGS_QUESTION_FORM ? form_check(jv_get(params, "requestedSchema"), err) : 0;
}

/* ---- coming ---------------------------------------------------------------------------------- */

void question_release(struct tidings_question *q)
{
    poller_unset(&q->deadline);
    list_remove(&q->link);
    q->client->question_count--;
    jv_unref(q->params);
    jv_unref(q->id);
    mem_free(q->text);
    mem_free(q);
}

/* It is answered, as far as the server is concerned; the program hears of it. */
static void question_withdraw(struct tidings_question *q)
{
    poller_unset(&q->deadline);
    jv_unref(q->id);
    q->id = NULL;
    q->round = NULL;
    if (q->state == QUESTION_NEW) {
        question_release(q);
    } else {
        q->state = QUESTION_WITHDRAWN;
    }
}

static void question_on_deadline(void *user)
{
    struct tidings_question *q = user, late = *q;
    q->id = NULL;
    question_withdraw(q);
    if (late.kind == TIDINGS_QUESTION_FORM || late.kind == TIDINGS_QUESTION_URL) {
        question_send(&late, STR("{\"action\":\"cancel\"}"));
    } else {
        question_send_error(&late, "nobody answered in time");
    }
    jv_unref(late.id);
}

static struct tidings_question *question_create(struct tidings_client *c,
                                                enum tidings_question_kind kind,
                                                struct json *params, struct tidings_error *err)
{
    struct tidings_question *q = c->question_count < QUESTIONS_OPEN ? mem_zalloc(sizeof(*q)) : NULL;
    if (!q) {
        bool is_full = c->question_count >= QUESTIONS_OPEN;
        tidings_fail(err, is_full ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM,
                     is_full ? "the server asks more than %u things at once" : "out of memory",
                     QUESTIONS_OPEN);
        return NULL;
    }
    q->client = c;
    q->kind = kind;
    q->params = jv_ref(params);
    poller_timer_init(&q->deadline, question_on_deadline, q);
    poller_set(&c->poller, &q->deadline, c->handlers.timeout_ms);
    list_append(&c->questions, &q->link);
    c->question_count++;
    return q;
}

static struct tidings_question *question_find(const struct tidings_client *c, const struct json *id)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->id && jv_equal(q->id, id)) {
            return q;
        }
    }
    return NULL;
}

/* May it be asked? Because of a request so often; by itself as often, and once more in a while:
 * whoever watches for months can be asked for roots again, and nobody is asked without end. */
static int question_count(struct tidings_client *c, int64_t exchange, struct tidings_error *err)
{
    uint32_t max = c->handlers.max_questions;
    struct token_bucket_rule rule = {.count = 1, .burst = max, .period_ms = UNCAUSED_PERIOD_MS};
    unsigned count = requests_count_question(c, exchange);
    if (count > max) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "one request leads to more than %u questions",
                            max);
    }
    if (count == 0 && c->question_count < QUESTIONS_OPEN &&
        token_bucket_take(&c->uncaused, &rule, clock_monotonic_ms()) > 0) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the server asked more than %u times without a request: once a minute "
                            "from now on",
                            max);
    }
    return 0;
}

void question_asked(struct tidings_client *c, struct tidings_str method, struct json *id,
                    struct json *params, int64_t exchange)
{
    struct tidings_error why = {0};
    enum tidings_question_kind kind;
    struct tidings_question *q = NULL;
    if (c->era != TIDINGS_ERA_LEGACY || question_find(c, id)) {
        return; /* modern servers send no requests; and a stream that goes on may repeat one */
    }
    int rc = question_check(c, method, params, &kind, &why);
    rc = rc == 0 ? question_count(c, exchange, &why) : rc;
    if (rc == 0) {
        q = question_create(c, kind, params, &why);
    }
    if (q) {
        q->id = jv_ref(id);
        return;
    }
    requests_reply_error(c, id,
                         rc == TIDINGS_E_UNSUPPORTED ? -32601
                         : rc == TIDINGS_E_PARSE     ? -32602
                                                     : -32603,
                         why.text);
}

int question_add(struct round *round, size_t index, struct tidings_str method, struct json *params,
                 struct tidings_error *err)
{
    enum tidings_question_kind kind;
    struct tidings_client *c = round_client(round);
    int rc = question_check(c, method, params, &kind, err);
    struct tidings_question *q = rc == 0 ? question_create(c, kind, params, err) : NULL;
    if (!q) {
        return rc < 0 ? rc : err->code;
    }
    q->round = round;
    q->index = index;
    return 0;
}

/* ---- going ----------------------------------------------------------------------------------- */

void question_withdraw_round(struct tidings_client *c, const struct round *round)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->round == round) {
            question_withdraw(q);
        }
    }
}

void question_cancelled(struct tidings_client *c, const struct json *id)
{
    struct tidings_question *q = question_find(c, id);
    if (q) {
        question_withdraw(q);
    }
}

void question_connection_lost(struct tidings_client *c)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->id) {
            question_withdraw(q);
        }
    }
}

/* ---- telling --------------------------------------------------------------------------------- */

static struct tidings_question *question_next(const struct tidings_client *c)
{
    list_each (it, next, &c->questions) {
        struct tidings_question *q = list_entry(it, struct tidings_question, link);
        if (q->state == QUESTION_NEW || q->state == QUESTION_WITHDRAWN) {
            return q;
        }
    }
    return NULL;
}

bool question_has_news(const struct tidings_client *c)
{
    return question_next(c) != NULL;
}

void question_deliver(struct tidings_client *c)
{
    struct tidings_question *q;
    while (!client_is_stopping(c) && (q = question_next(c)) != NULL) {
        if (q->state == QUESTION_NEW) {
            q->state = QUESTION_TOLD;
            question_handler(c, q->kind)(c->handlers.user, q);
            continue;
        }
        q->state = QUESTION_LEAVING;
        if (c->handlers.on_withdrawn) {
            c->handlers.on_withdrawn(c->handlers.user, q);
        }
        question_release(q);
    }
}

/* ---- life, and the stream -------------------------------------------------------------------- */

static void question_on_listen(void *user)
{
    struct tidings_client *c = user;
    if (c->stage == STAGE_READY && c->era == TIDINGS_ERA_LEGACY) {
        (void)question_listen(c);
    }
}

void question_init(struct tidings_client *c)
{
    list_init(&c->questions);
    poller_timer_init(&c->question_listen, question_on_listen, c);
}

void question_deinit(struct tidings_client *c)
{
    poller_unset(&c->question_listen);
    list_each (it, next, &c->questions) {
        question_release(list_entry(it, struct tidings_question, link));
    }
}

bool question_listen(struct tidings_client *c)
{
    return question_is_offered(c) && c->transport->ops->stream &&
           c->transport->ops->stream(c->transport, NULL) == 0;
}

void question_stream_lost(struct tidings_client *c, const struct tidings_error *why)
{
    if (why->code != TIDINGS_E_UNSUPPORTED) { /* else there is none */
        poller_set(&c->poller, &c->question_listen,
                   settings_pause(&c->settings, c->question_listens++));
    }
}
