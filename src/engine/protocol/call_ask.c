/* SPDX-License-Identifier: MIT
 *
 * Questions of handlers to their client: the questions, the answers, and the handler's state
 * between them. In the modern era (SEP-2322) the answer to the request is a list of questions and a
 * sealed state, and the client repeats the request with the answers; the server remembers nothing
 * in between, so any worker can take the next round. Questions to legacy clients are below.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/protocol/call.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "security/client_account.h"

/* -------------------------------------------------------------------------------------------------
 * Legacy calls that wait for their client's answers: the server sends requests on the stream of the
 * request that is being answered (or another of its session, or the connection), and receives their
 * answers.
 *
 *     handler asks, is done ── call_wait: a request for each question ── all are answered ── again
 *                                                        │
 *          refused, wrong, too late: the call fails ─────┴───── cancelled, gone: it vanishes
 *
 * When the call ends, open questions are cancelled with notifications/cancelled. A question whose
 * stream is lost stays open, and is sent again when the client resumes that stream.
 */

#define WAIT_MESSAGE_MAX (2u << 20) /* bytes of one request */
#define WAIT_EVENT_ID 64u

struct call_question {
    struct client_request base;
    struct tidings_call *h;
    struct tidings_str key, method; /* in call_wait.asked */
    struct json *params;            /* likewise */
    unsigned event;                 /* of the request's stream: from 1 */
};

struct call_wait {
    struct json *client_request; /* a reference: the questions by name */
    struct buf answers;          /* members of an object */
    unsigned count, open;
    struct call_question at[CALL_MAX_INPUT_REQUESTS];
};

/* ---- sending --------------------------------------------------------------------------------- */

static void wait_put(struct client_request *client_request, struct buf *out)
{
    const struct call_question *q = list_entry(client_request, struct call_question, base);
    dialect_put_question(out, client_request->id, q->method, q->params);
}

/* The id of an event on a request's stream; empty: it has none. */
static struct tidings_str wait_event_id(const struct request *request,
                                        const struct client_requests *client_requests,
                                        unsigned event, char out[WAIT_EVENT_ID])
{
    if (request->stream == 0) {
        return STR_EMPTY;
    }
    snprintf(out, WAIT_EVENT_ID, "%sr%x.%x", client_requests->tag, request->stream, event);
    return tidings_str(out);
}

/* Returns 0 if it was sent, or will be when the client resumes. */
static int wait_send(struct call_question *q)
{
    struct request *request = q->h->request;
    char id[WAIT_EVENT_ID];
    struct buf text;
    buf_init(&text, WAIT_MESSAGE_MAX);
    wait_put(&q->base, &text);
    int rc = request_message(request, &text,
                             wait_event_id(request, q->base.client_requests, q->event, id));
    if (rc == TIDINGS_E_UNSUPPORTED &&
        request->worker->handlers->send_on_session(request, &text, &q->base)) {
        rc = 0;
    }
    buf_deinit(&text);
    return rc == TIDINGS_E_NOTFOUND && request->stream > 0 ? 0 : rc;
}

/* Over HTTP the stream of the questions can be resumed, from its first event on. */
static void wait_open_stream(struct request *request, struct client_requests *client_requests)
{
    char id[WAIT_EVENT_ID];
    struct channel *channel = request->channel;
    bool is_stream = channel && channel->ops->is_http && !request->batch &&
                     (request->sink || channel->ops->takes_stream(channel));
    if (is_stream && request->stream == 0 && client_requests->tag) {
        request->stream = ++client_requests->next_stream;
        request_prime(request, wait_event_id(request, client_requests, 0, id));
    }
}

void call_resume(struct request *request, unsigned event)
{
    list_each (it, next, &request->worker->handlers->calls) {
        struct tidings_call *h = list_entry(it, struct tidings_call, link);
        for (unsigned i = 0; h->request == request && h->wait && i < h->wait->count; i++) {
            struct call_question *q = &h->wait->at[i];
            if (q->base.client_requests && q->event > event) {
                (void)wait_send(q); /* if the client does not read, it may still resume */
            }
        }
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* No question is open now. `why` NULL: the client knows. */
static void wait_free(struct tidings_call *h, const char *why)
{
    struct call_wait *wait = h->wait;
    h->wait = NULL;
    for (unsigned i = 0; wait && i < wait->count; i++) {
        struct client_request *client_request = &wait->at[i].base;
        if (client_request->client_requests && why) {
            struct buf text;
            buf_init(&text, 4096);
            dialect_put_withdrawal(&text, client_request->id, tidings_str(why));
            if (request_message(h->request, &text, STR_EMPTY) == TIDINGS_E_UNSUPPORTED) {
                (void)h->base.worker->handlers->send_on_session(h->request, &text, NULL);
            }
            buf_deinit(&text);
        }
        client_requests_remove(client_request);
    }
    if (wait) {
        jv_unref(wait->client_request);
        buf_deinit(&wait->answers);
        mem_free(wait);
    }
}

static void wait_fail(struct tidings_call *h, const struct tidings_error *err)
{
    wait_free(h, err->text);
    h->ask.missing = 0;
    h->outcome = CALL_FAILED;
    h->base.code = err->code;
    h->base.err = *err;
    call_end(h);
}

void call_wait_expire(struct tidings_call *h)
{
    struct tidings_error err;
    limit_hit(h->base.worker->limit_counters, LIMIT_ASK_TIME);
    tidings_fail(&err, TIDINGS_E_TIMEOUT,
                 "the client did not answer within %llu ms (--ask-timeout)",
                 (unsigned long long)h->base.worker->limits->ask_timeout_ms);
    wait_fail(h, &err);
}

/* The call is no longer needed, or the server stops. */
static void wait_on_cancel(struct job *r)
{
    struct tidings_call *h = r->user;
    if (h->request->cancelled) {
        wait_free(h, "the request that this was asked for was cancelled");
        call_end(h);
    } else {
        struct tidings_error err;
        tidings_fail(&err, TIDINGS_E_CANCELLED, "the server stops");
        wait_fail(h, &err);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Checks the values of a form against its schema; charges the client. */
static int wait_check_form(const struct call_question *q, const struct json *result,
                           struct tidings_error *err)
{
    struct json *client_request = jv_get(q->params, "requestedSchema"),
                *given = jv_get(result, "content");
    struct json_schema *schema = NULL;
    struct schema_error e;
    if (!client_request || !str_eq(jv_str(jv_get(result, "action")), STR("accept"))) {
        return 0;
    }
    if (!given) {
        return tidings_fail(err, TIDINGS_E_INVALID, "'content' is missing");
    }
    struct tidings_error why;
    if (schema_compile(client_request, NULL, &schema, &why) < 0) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "the form cannot be judged: %s", why.text);
    }
    uint64_t now = loop_now_ms(q->h->base.worker->loop), most = schema_max_steps(schema);
    uint64_t left = client_account_steps_left(q->h->account, now), had = left < most ? left : most;
    uint64_t steps = had;
    bool is_valid = had > 0 && schema_check_within(schema, given, &e, &steps) == SCHEMA_VALID;
    client_account_pay(q->h->account, had - steps, now);
    schema_destroy(schema);
    if (!is_valid) {
        return tidings_fail(err, TIDINGS_E_INVALID, "%s: %s",
                            had > 0 && e.instance_path[0] ? e.instance_path : "/",
                            had > 0 ? e.text : "it is too much to judge now");
    }
    return 0;
}

static int wait_check(const struct call_question *q, struct json *result, struct json *error,
                      struct tidings_error *err)
{
    struct tidings_error why;
    if (error) {
        struct tidings_str said = jv_str(jv_get(error, "message"));
        return tidings_fail(err, TIDINGS_E_CANCELLED, "the client refused to answer '%.*s': %.*s",
                            STR_ARG_MAX(q->key, 64), (int)(said.len < 256 ? said.len : 256),
                            said.len > 0 ? said.ptr : "");
    }
    const char *wrong = dialect_check_answer(q->method, result);
    int rc = wrong ? tidings_fail(&why, TIDINGS_E_INVALID, "%s", wrong) : 0;
    rc = rc < 0 ? rc : wait_check_form(q, result, &why);
    return rc < 0 ? tidings_fail(err, rc, "the client's answer to '%.*s' is invalid: %s",
                                 STR_ARG_MAX(q->key, 64), why.text)
                  : 0;
}

void call_go_on(struct tidings_call *h, struct json *gathered)
{
    struct call_ask *ask = &h->ask;
    buf_clear(&ask->opened_state);
    buf_puts(&ask->opened_state, buf_str(&ask->state));
    jv_unref(ask->gathered);
    ask->gathered = ask->responses = gathered;
    buf_clear(&ask->requests);
    buf_clear(&ask->state);
    ask->key_count = ask->missing = 0;
    ask->has_requests = ask->has_state = false;
    call_again(h);
}

/* Everything is answered. */
static void wait_go_on(struct tidings_call *h)
{
    struct tidings_error err;
    struct json *gathered = NULL;
    struct buf text;
    buf_init(&text, h->wait->answers.len + 2);
    buf_putc(&text, '{');
    buf_puts(&text, buf_str(&h->wait->answers));
    buf_putc(&text, '}');
    int rc = text.failed
                 ? tidings_fail(&err, text.failed, "out of memory")
                 : jv_parse(buf_str(&text), h->base.worker->limits->max_depth, &gathered, &err);
    buf_deinit(&text);
    if (rc < 0) {
        wait_fail(h, &err);
        return;
    }
    wait_free(h, NULL);
    call_go_on(h, gathered);
}

static void wait_answered(struct client_request *client_request, struct json *result,
                          struct json *error)
{
    struct call_question *q = list_entry(client_request, struct call_question, base);
    struct tidings_call *h = q->h;
    struct call_wait *wait = h->wait;
    struct tidings_error err;
    struct jw w;
    int rc = wait_check(q, result, error, &err);
    if (rc == 0) {
        if (wait->answers.len > 0) {
            buf_putc(&wait->answers, ',');
        }
        jw_quote(&wait->answers, q->key);
        buf_putc(&wait->answers, ':');
        jw_init(&w, &wait->answers);
        jw_value(&w, result);
        rc = wait->answers.failed
                 ? tidings_fail(&err, wait->answers.failed, "the answers of the client do not fit")
                 : 0;
    }
    if (rc < 0) {
        wait_fail(h, &err);
    } else if (--wait->open == 0) {
        wait_go_on(h);
    }
}

/* Its session has ended. */
static void wait_lost(struct client_request *client_request)
{
    struct call_question *q = list_entry(client_request, struct call_question, base);
    request_cancel(q->h->request);
}

static const struct client_request_ops wait_ops = {
    .answered = wait_answered,
    .lost = wait_lost,
    .put = wait_put,
};

/* ---- begin ----------------------------------------------------------------------------------- */

static int wait_ask(struct tidings_call *h, struct client_requests *client_requests,
                    struct tidings_error *err)
{
    struct call_wait *wait = h->wait;
    struct tidings_str key;
    struct json *question = NULL;
    for (void *at = jv_next(wait->client_request, NULL, &key, &question); at;
         at = jv_next(wait->client_request, at, &key, &question)) {
        struct call_question *q = &wait->at[wait->count];
        *q = (struct call_question){
            .base.ops = &wait_ops,
            .h = h,
            .key = key,
            .method = jv_str(jv_get(question, "method")),
            .params = jv_get(question, "params"),
            .event = ++client_requests->next_event,
        };
        if (!client_requests_add(client_requests, &q->base)) {
            limit_hit(h->base.worker->limit_counters, LIMIT_QUESTIONS);
            return tidings_fail(err, TIDINGS_E_BUSY,
                                "%u questions wait for this client already; answer one first",
                                CLIENT_REQUESTS_MAX);
        }
        wait->count++;
        wait->open++;
        int rc = wait_send(q);
        if (rc < 0) {
            return tidings_fail(err, rc,
                                rc == TIDINGS_E_UNSUPPORTED
                                    ? "the client cannot be asked: it takes no event stream for "
                                      "an answer, and its session has none open"
                                    : "the client cannot be asked: it does not read");
        }
    }
    return 0;
}

static int wait_begin(struct tidings_call *h, struct tidings_error *err)
{
    struct worker *worker = h->base.worker;
    struct client_requests *client_requests = worker->handlers->client_requests(h->request);
    struct buf text;
    if (!client_requests && h->ask.has_requests) {
        return tidings_fail(err, TIDINGS_E_CANCELLED, "the session of the client has ended");
    }
    if (++h->ask.rounds > CALL_MAX_ROUNDS) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the client was asked %u times in one call",
                            CALL_MAX_ROUNDS);
    }
    buf_init(&text, h->ask.requests.len + 2);
    buf_putc(&text, '{');
    buf_puts(&text, buf_str(&h->ask.requests));
    buf_putc(&text, '}');
    h->wait = mem_zalloc(sizeof(*h->wait));
    int rc = !h->wait || text.failed
                 ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                 : jv_parse(buf_str(&text), JSON_MAX_DEPTH, &h->wait->client_request, err);
    buf_deinit(&text);
    if (rc < 0) {
        return rc;
    }
    buf_init(&h->wait->answers, h->ask.answer.max);
    if (client_requests) {
        wait_open_stream(h->request, client_requests);
        rc = wait_ask(h, client_requests, err);
    }
    return rc;
}

void call_wait(struct tidings_call *h)
{
    struct worker *worker = h->base.worker;
    struct tidings_error err;
    uint64_t allowed = worker->limits->ask_timeout_ms;
    job_init(&h->base, worker, NULL, h, STR_EMPTY);
    h->base.on_cancel = wait_on_cancel;
    if (wait_begin(h, &err) < 0) {
        wait_fail(h, &err);
    } else if (h->wait->open == 0) {
        wait_go_on(h); /* it only saved a state */
    } else {
        call_set_deadline(h, allowed > 0 ? loop_now_ms(worker->loop) + allowed : 0);
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define STATE_LIFE_MS (600 * 1000) /* lifetime of a state */
#define ASK_DEPTH 32u
#define ASK_BYTES (1u << 20)

/* ---- sealing: kind, name, arguments and who calls are the purpose: a state fits one call only  */

static int put_purpose(struct tidings_call *h, const struct principal *principal, struct buf *out)
{
    buf_init(out, ASK_BYTES + h->base.worker->limits->max_read_bytes * 6);
    if (principal && principal->kind != PRINCIPAL_ANONYMOUS) {
        buf_putu(out, principal->kind);
        buf_puts(out, principal->name);
    }
    buf_putc(out, '\0');
    buf_puts(out, tidings_str(h->kind->what));
    buf_putc(out, '\0');
    buf_puts(out, h->feature->name);
    buf_putc(out, '\0');
    buf_puts(out, tidings_call_arguments(h));
    return h->arguments_text.failed ? h->arguments_text.failed : out->failed;
}

static int seal_state(struct tidings_call *h, const struct principal *principal, struct buf *out)
{
    struct buf purpose, text;
    buf_init(&text, CALL_MAX_STATE + sizeof(int64_t));
    int64_t expires_ms = clock_wall_ms() + STATE_LIFE_MS;
    buf_put(&text, &expires_ms, sizeof(expires_ms));
    buf_puts(&text, buf_str(&h->ask.state));
    int rc = put_purpose(h, principal, &purpose);
    rc = rc < 0 ? rc : text.failed;
    if (rc == 0) {
        rc = seal_put(&h->base.worker->sealer, out, buf_str(&purpose), buf_str(&text));
    }
    buf_deinit(&purpose);
    buf_deinit(&text);
    return rc;
}

static int open_state(struct tidings_call *h, const struct principal *principal,
                      struct tidings_str sealed)
{
    struct buf purpose, *text = &h->ask.opened_state;
    int64_t expires_ms = 0;
    int rc = put_purpose(h, principal, &purpose);
    if (rc == 0) {
        rc = seal_open(&h->base.worker->sealer, text, buf_str(&purpose), sealed);
    }
    buf_deinit(&purpose);
    if (rc == 0 && text->len >= sizeof(expires_ms)) {
        memcpy(&expires_ms, text->ptr, sizeof(expires_ms));
        buf_consume(text, sizeof(expires_ms));
    }
    return rc == 0 && expires_ms < clock_wall_ms() ? TIDINGS_E_INVALID : rc;
}

/* ---- what came ------------------------------------------------------------------------------- */

/* An object of objects. */
static bool are_answers(struct json *responses)
{
    struct tidings_str key;
    struct json *value = NULL;
    if (!jv_is(responses, JV_OBJECT)) {
        return false;
    }
    void *at = jv_next(responses, NULL, &key, &value);
    for (; at; at = jv_next(responses, at, &key, &value)) {
        if (!jv_is(value, JV_OBJECT)) {
            return false;
        }
    }
    return true;
}

bool call_read_answers(struct tidings_call *h, struct request *request)
{
    struct call_ask *ask = &h->ask;
    buf_init(&ask->opened_state, CALL_MAX_STATE + sizeof(int64_t));
    buf_init(&ask->requests, ASK_BYTES);
    buf_init(&ask->state, CALL_MAX_STATE);
    buf_init(&ask->answer, ASK_BYTES + h->base.worker->limits->max_read_bytes);
    if (!h->meta) {
        const struct client_requests *client_requests =
            h->base.worker->handlers->client_requests(request);
        ask->can = client_requests ? client_requests->can : 0;
        return true;
    }
    ask->can = dialect_askable(dialect_capabilities(h->meta));
    ask->responses = jv_get(request->msg.params, "inputResponses");
    if (ask->responses && !are_answers(ask->responses)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.inputResponses must be an object of objects");
        return false;
    }
    struct json *state = jv_get(request->msg.params, "requestState");
    if (!state) {
        return true;
    }
    int rc = jv_is(state, JV_STRING) ? open_state(h, request->principal, jv_str(state))
                                     : TIDINGS_E_INVALID;
    if (rc < 0) {
        request_fail(request, rc, STR_EMPTY, "%s",
                     rc == TIDINGS_E_NOMEM ? "out of memory"
                                           : "params.requestState is not from this call, or has "
                                             "expired; call again without it");
    }
    return rc == 0;
}

struct tidings_str tidings_call_answer(struct tidings_call *h, const char *key)
{
    const struct json *answer = jv_get(h->ask.responses, key);
    if (!answer) {
        return STR_EMPTY;
    }
    struct jw w;
    buf_clear(&h->ask.answer);
    jw_init(&w, &h->ask.answer);
    jw_value(&w, answer);
    return h->ask.answer.failed ? STR_EMPTY : buf_str(&h->ask.answer);
}

struct tidings_str tidings_call_state(const struct tidings_call *h)
{
    return buf_str(&h->ask.opened_state);
}

/* ---- what is asked --------------------------------------------------------------------------- */

bool tidings_call_can_ask(const struct tidings_call *h, const char *method)
{
    return (h->ask.can & dialect_method_asks(tidings_str(method))) != 0;
}

/* Names are members of one object: a duplicate is an error. */
static int check_key(const struct call_ask *ask, struct tidings_str key, struct tidings_error *err)
{
    if (ask->key_count == CALL_MAX_INPUT_REQUESTS) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "at most %u questions can be asked at a time",
                            CALL_MAX_INPUT_REQUESTS);
    }
    uint64_t hash = str_hash(key, 0);
    for (unsigned i = 0; i < ask->key_count; i++) {
        if (ask->keys[i] == hash) {
            return tidings_fail(err, TIDINGS_E_EXISTS, "'%.*s' was asked already",
                                STR_ARG_MAX(key, 64));
        }
    }
    return 0;
}

static void put_question(struct call_ask *ask, struct tidings_str key, struct tidings_str method,
                         const struct json *params)
{
    struct buf *out = &ask->requests;
    struct jw w;
    if (ask->has_requests) {
        buf_putc(out, ',');
    }
    jw_quote(out, key);
    buf_putc(out, ':');
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("method"), method);
    jw_key(&w, STR("params"));
    jw_value(&w, params);
    jw_end_object(&w);
    ask->has_requests = true;
    ask->keys[ask->key_count++] = str_hash(key, 0);
}

/* Checks the client's capabilities for this question. */
static int check_capability(struct tidings_call *h, struct tidings_str method,
                            const struct json *params, struct tidings_error *err)
{
    unsigned missing = dialect_question_needs(method, params) & ~h->ask.can;
    h->ask.missing |= missing;
    return missing ? tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                                  "the client did not declare the capability '%s'",
                                  dialect_ask_name(missing))
                   : 0;
}

int tidings_call_ask(struct tidings_call *h, const char *key, const char *method,
                     struct tidings_str params, struct tidings_error *err)
{
    if (dialect_method_asks(tidings_str(method)) == 0 || !key || !key[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "clients can be asked elicitation/create, sampling/createMessage and "
                            "roots/list, each under a name");
    }
    struct json *value = NULL;
    int rc = check_key(&h->ask, tidings_str(key), err);
    rc = rc < 0 ? rc : jv_parse(params, ASK_DEPTH, &value, err);
    if (rc == 0 && !jv_is(value, JV_OBJECT)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "the parameters must be a JSON object");
    }
    rc = rc < 0 ? rc : check_capability(h, tidings_str(method), value, err);
    if (rc == 0) {
        put_question(&h->ask, tidings_str(key), tidings_str(method), value);
        rc = h->ask.requests.failed
                 ? tidings_fail(err, h->ask.requests.failed, "the questions do not fit")
                 : 0;
    }
    jv_unref(value);
    return rc;
}

int tidings_call_keep(struct tidings_call *h, struct tidings_str state, struct tidings_error *err)
{
    /* In the legacy era, and in tasks, it does not leave the server. */
    if (h->meta && !h->task && seal_load(err) < 0) {
        return error_wrap(err, TIDINGS_E_UNSUPPORTED, "a state cannot be sealed");
    }
    buf_clear(&h->ask.state);
    if (buf_puts(&h->ask.state, state) < 0) {
        return tidings_fail(err, h->ask.state.failed, "a state may be at most %u bytes long",
                            CALL_MAX_STATE);
    }
    h->ask.has_state = true;
    return 0;
}

/* ---- how it is answered ---------------------------------------------------------------------- */

bool call_has_asked(const struct tidings_call *h)
{
    return h->ask.has_requests || h->ask.has_state;
}

void call_write_asked(struct tidings_call *h, struct request *request)
{
    struct jw *w = &request->w;
    if (h->ask.has_requests) {
        jw_key(w, STR("inputRequests"));
        buf_putc(w->out, '{');
        buf_puts(w->out, buf_str(&h->ask.requests));
        jw_raw(w, STR("}"));
        w->out->failed = w->out->failed ? w->out->failed : h->ask.requests.failed;
    }
    if (h->ask.has_state) {
        struct buf sealed;
        buf_init(&sealed, 2 * CALL_MAX_STATE);
        int rc = seal_state(h, request->principal, &sealed);
        jw_put_string(w, STR("requestState"), buf_str(&sealed));
        w->out->failed = w->out->failed ? w->out->failed : rc;
        buf_deinit(&sealed);
    }
}

bool call_fail_missing(struct tidings_call *h, struct request *request)
{
    if (h->ask.missing == 0 || h->base.code != TIDINGS_E_UNSUPPORTED) {
        return false;
    }
    struct buf required;
    buf_init(&required, 1024);
    dialect_put_required(&required, h->ask.missing);
    request_fail_capability(request, h->base.err.text, buf_str(&required));
    buf_deinit(&required);
    return true;
}

void call_ask_deinit(struct tidings_call *h)
{
    jv_unref(h->ask.gathered);
    buf_deinit(&h->ask.opened_state);
    buf_deinit(&h->ask.requests);
    buf_deinit(&h->ask.state);
    buf_deinit(&h->ask.answer);
}
