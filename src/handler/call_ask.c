/* SPDX-License-Identifier: MIT
 *
 * Handlers that ask their client back: what they ask, what was answered, what they keep meanwhile.
 * In the modern era (SEP-2322) the answer to the request is a list of questions and a sealed state,
 * and the client repeats the request with the answers; nothing is remembered here in between, so
 * any worker can take the next round. How clients of the legacy era are asked is in call_wait.c.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "handler/call.h"
#include "handler/handlers.h"
#include "request/asking.h"
#include "request/request.h"

#define STATE_LIFE_MS (600 * 1000) /* how long a state is good */
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
    struct buf purpose, *text = &h->ask.kept;
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
    buf_init(&ask->kept, CALL_MAX_STATE + sizeof(int64_t));
    buf_init(&ask->requests, ASK_BYTES);
    buf_init(&ask->state, CALL_MAX_STATE);
    buf_init(&ask->answer, ASK_BYTES + h->base.worker->limits->max_read_bytes);
    if (!h->meta) {
        const struct asking *asking = h->base.worker->handlers->asking(request);
        ask->can = asking ? asking->can : 0;
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
                     rc == TIDINGS_E_NOMEM
                         ? "out of memory"
                         : "params.requestState was not given out for this call, or "
                           "it has expired; call again without it");
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
    return buf_str(&h->ask.kept);
}

/* ---- what is asked --------------------------------------------------------------------------- */

bool tidings_call_can_ask(const struct tidings_call *h, const char *method)
{
    return (h->ask.can & dialect_method_asks(tidings_str(method))) != 0;
}

/* Names are members of one object: none may be there twice. */
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

/* Does the client lack what it must have to be asked this? */
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
    /* In the legacy era, and of a task, it does not leave the server. */
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
    buf_deinit(&h->ask.kept);
    buf_deinit(&h->ask.requests);
    buf_deinit(&h->ask.state);
    buf_deinit(&h->ask.answer);
}
