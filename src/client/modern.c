/* SPDX-License-Identifier: MIT
 *
 * The modern era (2026-07-28): `server/discover`, then one `subscriptions/listen` whose answer is
 * the stream. Nothing outlives the stream.
 */
#include "base/clock.h"
#include "base/error.h"
#include "client/private.h"
#include "json/write.h"

static bool has_version(struct json *list)
{
    for (size_t i = 0; i < jv_count(list); i++) {
        if (str_eq(jv_str(jv_at(list, i)), STR(CLIENT_MODERN))) {
            return true;
        }
    }
    return false;
}

/* An answer that is an error: those that only a modern server gives keep us here (versioning page:
 * anything else means legacy). */
static int judge_error(const struct exchange *x, struct tidings_error *err)
{
    int64_t code = exchange_error_code(x);
    long status = exchange_status(x);
    struct json *none;
    if (code == -32601 && status == 404) {
        x->client->can_subscribe = true; /* not said; listen will tell */
        return 1;
    }
    bool is_refusal = status == 401 || status == 403 || status == 408 || status == 429;
    if (is_refusal || status >= 500 || (status == 400 && (code == -32020 || code == -32021))) {
        return exchange_result(x, &none, err);
    }
    return 0;
}

int modern_probe(struct tidings_client *c, struct tidings_error *err)
{
    struct exchange x;
    struct json *result;
    struct tidings_error why = {0};
    c->era = CLIENT_ERA_MODERN;
    int rc = exchange_start(&x, c, &(struct exchange_request){.method = "server/discover"}, err);
    if (rc < 0) {
        return rc;
    }
    rc = exchange_wait(&x, err);
    if (rc == 0 && exchange_error_code(&x) != 0) {
        rc = judge_error(&x, err);
    } else if (rc == 0) {
        rc = exchange_result(&x, &result, &why);
        if (rc == 0) {
            struct json *resources = jv_get(jv_get(result, "capabilities"), "resources");
            c->can_subscribe = jv_is_true(jv_get(resources, "subscribe"));
            rc = has_version(jv_get(result, "supportedVersions")) ? 1 : 0;
        } else if (exchange_status(&x) >= 200 &&
                   (rc == TIDINGS_E_PARSE || rc == TIDINGS_E_NOTFOUND || rc == TIDINGS_E_CLOSED)) {
            rc = 0; /* it answers, but not this: an older server, or none of ours */
        } else if (err) {
            *err = why;
        }
    }
    exchange_end(&x);
    return rc;
}

/* `{"<uri>": "why"}`, `{"<uri>": {"reason": "why"}}` or `[{"uri": …, "reason": …}]`. */
static struct tidings_str refusal(struct json *refused, const char *uri)
{
    struct json *entry = jv_get(refused, uri);
    for (size_t i = 0; !entry && jv_is(refused, JV_ARRAY) && i < jv_count(refused); i++) {
        struct json *e = jv_at(refused, i);
        entry = str_eq(jv_str(jv_get(e, "uri")), tidings_str(uri)) ? e : NULL;
    }
    if (jv_is(entry, JV_STRING)) {
        return jv_str(entry);
    }
    struct tidings_str reason = jv_str(jv_get(entry, "reason"));
    reason = reason.len > 0 ? reason : jv_str(jv_get(entry, "message"));
    return reason.len > 0 ? reason : STR("the server does not offer it for watching");
}

void modern_acknowledged(struct exchange *x, struct json *params)
{
    struct tidings_client *c = x->client;
    struct json *list = jv_get(jv_get(params, "notifications"), "resourceSubscriptions");
    struct json *refused = jv_get(jv_get(params, "_meta"), "dev.tidings/refused");
    if (x->is_acknowledged || x->is_standalone || x->id == 0) {
        return;
    }
    x->is_acknowledged = true;
    for (size_t i = 0; i < c->watch_count; i++) {
        struct client_watch *w = &c->watches[i];
        bool is_accepted = false;
        for (size_t k = 0; k < jv_count(list) && !is_accepted; k++) {
            is_accepted = str_eq(jv_str(jv_at(list, k)), tidings_str(w->uri));
        }
        client_judge(c, w, is_accepted, is_accepted ? STR_EMPTY : refusal(refused, w->uri));
    }
}

/* Options per URI, as far as there are any. */
static void put_options(struct buf *out, const struct tidings_client *c)
{
    struct jw w;
    bool is_first = true;
    for (size_t i = 0; i < c->watch_count; i++) {
        if (!c->watches[i].options) {
            continue;
        }
        if (is_first) {
            buf_puts(out, STR("\"dev.tidings/options\":{\"uris\":"));
            jw_init(&w, out);
            jw_begin_object(&w);
        }
        is_first = false;
        jw_put_raw(&w, tidings_str(c->watches[i].uri), tidings_str(c->watches[i].options));
    }
    if (!is_first) {
        jw_end_object(&w);
        buf_putc(out, '}');
    }
}

static int start_listen(struct tidings_client *c, struct exchange *x, struct tidings_error *err)
{
    struct buf members, options;
    struct jw w;
    buf_init(&options, c->max_bytes);
    put_options(&options, c);
    buf_init(&members, c->max_bytes);
    buf_puts(&members, STR("\"notifications\":"));
    jw_init(&w, &members);
    jw_begin_object(&w);
    jw_key(&w, STR("resourceSubscriptions"));
    jw_begin_array(&w);
    for (size_t i = 0; i < c->watch_count; i++) {
        jw_string(&w, tidings_str(c->watches[i].uri));
    }
    jw_end_array(&w);
    jw_end_object(&w);
    struct exchange_request r = {.method = "subscriptions/listen",
                                 .members = buf_str(&members),
                                 .meta = buf_str(&options),
                                 .is_stream = true};
    int failed = members.failed ? members.failed : options.failed;
    int rc = failed ? tidings_fail(err, failed, "too many URIs to watch")
                    : exchange_start(x, c, &r, err);
    buf_deinit(&members);
    buf_deinit(&options);
    return rc;
}

int modern_watch(struct tidings_client *c, struct tidings_error *err)
{
    struct exchange x = {0};
    struct json *result;
    int rc = start_listen(c, &x, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t deadline = clock_monotonic_ms() + c->timeout_ms;
    while (rc == 0 && !x.is_acknowledged && !x.root && !exchange_is_finished(&x) &&
           !client_is_stopping(c)) {
        uint64_t now = clock_monotonic_ms();
        rc = now < deadline
                 ? exchange_step(&x, (int)(deadline - now), err)
                 : tidings_fail(err, TIDINGS_E_TIMEOUT,
                                "the server did not acknowledge within %u ms", c->timeout_ms);
    }
    if (rc == 0 && x.is_acknowledged) {
        rc = client_judged(c, err);
    }
    if (rc == 0) {
        rc = exchange_wait(&x, err);
    }
    if (rc == 0 && !client_is_stopping(c)) {
        rc = exchange_result(&x, &result, err);
        if (rc == 0 || rc == TIDINGS_E_CLOSED) {
            rc = tidings_fail(err, TIDINGS_E_CLOSED, "the server ended the stream");
        }
    }
    exchange_end(&x);
    return rc;
}
