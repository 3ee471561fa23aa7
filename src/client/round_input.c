/* SPDX-License-Identifier: MIT
 *
 * Rounds of a request that wants input: from `input_required` to the same request with answers.
 */
#include "base/error.h"
#include "base/mem.h"
#include "client/poller.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/round.h"
#include "client/state.h"

#define ROUND_MAX_STATE (1u << 20) /* bytes of a requestState */
#define ROUND_PAUSE_MS 500u /* before a request whose answer was a state alone is sent again, … */
#define ROUND_PAUSE_MAX_MS 10000u /* … doubled each time */

struct round_item {
    char *key;
    char *result; /* JSON; NULL: not answered yet */
};

struct round {
    struct tidings_client *client;
    int64_t request;
    unsigned rounds;
    unsigned asked; /* questions in all rounds */
    unsigned waits; /* rounds in a row that asked nothing */
    struct round_item items[QUESTIONS_OPEN];
    size_t count, open;
    struct json *state; /* a string, a reference; NULL: none */
    bool are_visits;    /* to addresses: the request goes again as it was */
    bool is_declined;   /* … and one of them will not be visited */
    struct poller_timer pause;
};

bool round_is_of(const char *method)
{
    return strcmp(method, "tools/call") == 0 || strcmp(method, "prompts/get") == 0 ||
           strcmp(method, "resources/read") == 0;
}

bool round_is_wanted(const struct json *result)
{
    return str_eq(jv_str(jv_get(result, "resultType")), STR("input_required"));
}

static void round_forget(struct round *r)
{
    question_withdraw_round(r->client, r);
    for (size_t i = 0; i < r->count; i++) {
        mem_free(r->items[i].key);
        mem_free(r->items[i].result);
    }
    r->count = r->open = 0;
    jv_unref(r->state);
    r->state = NULL;
    r->are_visits = r->is_declined = false;
    poller_unset(&r->pause);
}

void round_free(struct round *r)
{
    if (r) {
        round_forget(r);
        mem_free(r);
    }
}

static void round_on_pause(void *user)
{
    struct round *r = user;
    requests_resend(r->client, r->request);
}

static int round_prepare(struct tidings_client *c, struct round **at, int64_t request,
                         struct tidings_error *err)
{
    struct round *r = *at ? *at : mem_zalloc(sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (!*at) {
        *r = (struct round){.client = c, .request = request};
        poller_timer_init(&r->pause, round_on_pause, r);
        *at = r;
    }
    round_forget(r);
    if (r->rounds++ >= c->handlers.max_questions) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the server asks again and again: more than %u times",
                            c->handlers.max_questions);
    }
    return 0;
}

struct tidings_client *round_client(const struct round *r)
{
    return r->client;
}

static int round_add(struct round *r, struct tidings_str key, struct tidings_str method,
                     struct json *params, struct tidings_error *err)
{
    if (r->count >= QUESTIONS_OPEN || r->asked++ >= r->client->handlers.max_questions) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the server asks more than %u things",
                            r->client->handlers.max_questions);
    }
    struct round_item *item = &r->items[r->count];
    *item = (struct round_item){.key = str_dup(key)};
    if (!item->key) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    r->open++;
    return question_add(r, r->count++, method, params, err);
}

int round_begin(struct tidings_client *c, struct round **at, int64_t request, struct json *result,
                struct tidings_error *err)
{
    struct json *asked = jv_get(result, "inputRequests"), *state = jv_get(result, "requestState");
    struct json *one;
    struct tidings_str key;
    int rc = round_prepare(c, at, request, err);
    struct round *r = *at;
    if (rc == 0 && state && !jv_is(state, JV_STRING)) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the server's requestState is no string");
    } else if (rc == 0 && jv_str(state).len > ROUND_MAX_STATE) {
        rc = tidings_fail(err, TIDINGS_E_LIMIT, "the server's requestState is above %u bytes",
                          ROUND_MAX_STATE);
    } else if (rc == 0 && !state && jv_count(asked) == 0) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the server wants input and does not say which");
    }
    for (void *next = NULL; rc == 0 && (next = jv_next(asked, next, &key, &one)) != NULL;) {
        rc = round_add(r, key, jv_str(jv_get(one, "method")), jv_get(one, "params"), err);
    }
    if (rc < 0) {
        return rc;
    }
    r->state = jv_ref(state);
    r->waits = r->count > 0 ? 0 : r->waits + 1;
    if (r->count == 0) { /* it is not ready yet */
        uint64_t pause = (uint64_t)ROUND_PAUSE_MS << (r->waits < 8 ? r->waits - 1 : 7);
        poller_set(&c->poller, &r->pause, pause < ROUND_PAUSE_MAX_MS ? pause : ROUND_PAUSE_MAX_MS);
    }
    return 0;
}

int round_begin_visits(struct tidings_client *c, struct round **at, int64_t request,
                       struct json *error, struct tidings_error *err)
{
    struct json *list = jv_get(jv_get(error, "data"), "elicitations");
    if (jv_int(jv_get(error, "code")) != -32042 || jv_count(list) == 0 || !c->handlers.on_url) {
        return 0;
    }
    int rc = round_prepare(c, at, request, err);
    for (size_t i = 0; rc == 0 && i < jv_count(list); i++) {
        rc = round_add(*at, STR_EMPTY, STR("elicitation/create"), jv_at(list, i), err);
    }
    if (rc == 0) {
        (*at)->are_visits = true;
    }
    return rc < 0 ? rc : 1;
}

void round_put(const struct round *r, struct jw *w)
{
    if (r && !r->are_visits && r->count > 0) {
        jw_key(w, STR("inputResponses"));
        jw_begin_object(w);
        for (size_t i = 0; i < r->count; i++) {
            jw_put_raw(w, tidings_str(r->items[i].key), tidings_str(r->items[i].result));
        }
        jw_end_object(w);
    }
    if (r && r->state) {
        jw_put_string(w, STR("requestState"), jv_str(r->state));
    }
}

void round_answered(struct round *r, size_t index, struct tidings_str result)
{
    struct tidings_error why = {0};
    struct round_item *item = &r->items[index];
    item->result = str_dup(result);
    r->is_declined = r->is_declined || !str_eq(result, STR("{\"action\":\"accept\"}"));
    if (!item->result) {
        tidings_fail(&why, TIDINGS_E_NOMEM, "out of memory");
    } else if (--r->open > 0) {
        return;
    } else if (r->are_visits && r->is_declined) {
        tidings_fail(&why, TIDINGS_E_CANCELLED, "the user did not visit what the server wants");
    }
    if (why.code < 0) {
        requests_fail(r->client, r->request, 0, &why); /* frees the round */
    } else {
        requests_resend(r->client, r->request);
    }
}

void round_refused(struct round *r, const char *reason)
{
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_CANCELLED, "what the server asked was not answered: %.150s",
                 reason);
    requests_fail(r->client, r->request, 0, &why);
}
