/* SPDX-License-Identifier: MIT
 *
 * The legacy era (… 2025-11-25): `initialize`, a session, one GET stream for what the server has to
 * say, `resources/subscribe` per URI. The stream is opened before the subscriptions, so that
 * nothing they cause is missed; while the session lives a lost stream is resumed by its last event
 * id.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/private.h"
#include "json/write.h"

static void forget_session(struct tidings_client *c)
{
    c->era = CLIENT_ERA_UNKNOWN;
    c->session[0] = c->version[0] = '\0';
    buf_clear(&c->last_event_id);
    c->stream_retry_ms = -1;
}

/* Negotiated values go into headers: only what a revision looks like is taken. */
static bool take_version(struct tidings_client *c, struct tidings_str version)
{
    for (size_t i = 0; i < version.len; i++) {
        if ((version.ptr[i] < '0' || version.ptr[i] > '9') && version.ptr[i] != '-') {
            return false;
        }
    }
    snprintf(c->version, sizeof(c->version), "%.*s", STR_ARG(version));
    return version.len == sizeof("2025-11-25") - 1;
}

static int take_initialized(struct tidings_client *c, const struct exchange *x,
                            struct tidings_error *err)
{
    struct json *result;
    int rc = exchange_result(x, &result, err);
    if (rc < 0) {
        return rc;
    }
    struct json *resources = jv_get(jv_get(result, "capabilities"), "resources");
    c->can_subscribe = jv_is_true(jv_get(resources, "subscribe"));
    if (!take_version(c, jv_str(jv_get(result, "protocolVersion")))) {
        return tidings_fail(err, TIDINGS_E_PARSE, "the server names no protocol version");
    }
    snprintf(c->session, sizeof(c->session), "%s", exchange_session(x));
    return 0;
}

/* A message of which only the delivery matters. */
static int send_notification(struct tidings_client *c, const struct exchange_request *r,
                             struct tidings_error *err)
{
    struct exchange x;
    int rc = exchange_start(&x, c, r, err);
    if (rc < 0) {
        return rc;
    }
    rc = exchange_wait(&x, err);
    if (rc == 0 && fetch_status(x.call)->error.code != 0) {
        rc = fetch_status(x.call)->error.code;
        if (err) {
            *err = fetch_status(x.call)->error;
        }
    }
    exchange_end(&x);
    return rc;
}

int legacy_open(struct tidings_client *c, struct tidings_error *err)
{
    struct exchange x;
    struct buf members;
    forget_session(c);
    c->era = CLIENT_ERA_LEGACY;
    buf_init(&members, 4096);
    buf_puts(&members, STR("\"protocolVersion\":\"" CLIENT_LEGACY "\",\"capabilities\":{},"
                           "\"clientInfo\":{\"name\":"));
    jw_quote(&members, tidings_str(c->name));
    buf_putf(&members, ",\"version\":\"%s\"}", tidings_version());
    struct exchange_request r = {.method = "initialize", .members = buf_str(&members)};
    int rc = members.failed ? tidings_fail(err, members.failed, "the client's name is too long")
                            : exchange_start(&x, c, &r, err);
    buf_deinit(&members);
    if (rc < 0) {
        return rc;
    }
    rc = exchange_wait(&x, err);
    if (rc == 0) {
        rc = take_initialized(c, &x, err);
    }
    exchange_end(&x);
    if (rc < 0) {
        forget_session(c);
        return rc;
    }
    struct exchange_request done = {.method = "notifications/initialized", .is_notification = true};
    return send_notification(c, &done, err);
}

static int subscribe(struct tidings_client *c, struct client_watch *w, struct tidings_error *err)
{
    struct exchange x;
    struct buf members, options;
    struct json *result;
    struct tidings_error why = {0};
    buf_init(&members, c->max_bytes);
    buf_init(&options, c->max_bytes);
    buf_puts(&members, STR("\"uri\":"));
    jw_quote(&members, tidings_str(w->uri));
    if (w->options) {
        buf_puts(&options, STR("\"dev.tidings/options\":"));
        buf_puts(&options, tidings_str(w->options));
    }
    struct exchange_request r = {
        .method = "resources/subscribe", .members = buf_str(&members), .meta = buf_str(&options)};
    int failed = members.failed ? members.failed : options.failed;
    int rc = failed ? tidings_fail(err, failed, "the URI or its options are too long")
                    : exchange_start(&x, c, &r, err);
    buf_deinit(&members);
    buf_deinit(&options);
    if (rc < 0) {
        return rc;
    }
    rc = exchange_wait(&x, err);
    if (rc == 0 && !client_is_stopping(c)) {
        rc = exchange_result(&x, &result, &why);
        if (rc == 0 || x.root) {
            client_judge(c, w, rc == 0, tidings_str(why.text));
            rc = 0;
        } else if (err) {
            *err = why;
        }
    }
    exchange_end(&x);
    return rc;
}

/* Wait for the head of the stream. */
static int await_stream(struct tidings_client *c, struct exchange *x, struct tidings_error *err)
{
    uint64_t deadline = clock_monotonic_ms() + c->timeout_ms;
    int rc = 0;
    while (rc == 0 && exchange_status(x) == 0 && !exchange_is_finished(x) &&
           !client_is_stopping(c)) {
        uint64_t now = clock_monotonic_ms();
        rc = now < deadline
                 ? exchange_step(x, (int)(deadline - now), err)
                 : tidings_fail(err, TIDINGS_E_TIMEOUT, "the server did not open a stream");
    }
    if (rc < 0 || client_is_stopping(c)) {
        return rc;
    }
    long status = exchange_status(x);
    if (status == 405) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "the server has no stream for changes (HTTP 405)");
    }
    if (status == 404 || status == 400) {
        forget_session(c);
        return tidings_fail(err, TIDINGS_E_CLOSED, "the session has ended");
    }
    struct json *none;
    return status == 200 ? 0 : exchange_result(x, &none, err);
}

static int open_stream(struct tidings_client *c, struct exchange *x, struct tidings_error *err)
{
    struct exchange_request r = {.http_method = "GET", .is_stream = true};
    int rc = exchange_start(x, c, &r, err);
    if (rc == 0 && (rc = await_stream(c, x, err)) < 0) {
        exchange_end(x);
    }
    return rc;
}

static int subscribe_all(struct tidings_client *c, bool is_resumed, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->watch_count && !client_is_stopping(c); i++) {
        struct client_watch *w = &c->watches[i];
        if (is_resumed && w->is_accepted) {
            client_judge(c, w, true, STR_EMPTY);
        } else {
            rc = subscribe(c, w, err); /* what was refused may be there by now */
        }
    }
    return rc == 0 && !client_is_stopping(c) ? client_judged(c, err) : rc;
}

/* A stream that ended in order is only the server's way of saving connections. */
static bool is_resumable(const struct tidings_client *c, const struct exchange *x)
{
    return c->last_event_id.len > 0 && exchange_is_finished(x) &&
           fetch_status(x->call)->error.code == 0;
}

int legacy_watch(struct tidings_client *c, bool is_resumed, struct tidings_error *err)
{
    struct exchange x;
    bool is_known = is_resumed;
    c->is_interrupted = c->is_interrupted && !(is_resumed && c->last_event_id.len > 0);
    int rc = open_stream(c, &x, err);
    if (rc == 0) {
        rc = subscribe_all(c, is_known, err);
    }
    while (rc == 0 && !client_is_stopping(c)) {
        rc = exchange_wait(&x, err);
        if (rc < 0 || client_is_stopping(c)) {
            break;
        }
        if (!is_resumable(c, &x)) {
            rc = fetch_status(x.call)->error.code;
            rc = rc < 0 ? tidings_fail(err, rc, "%s", fetch_status(x.call)->error.text)
                        : tidings_fail(err, TIDINGS_E_CLOSED, "the server ended the stream");
            break;
        }
        exchange_end(&x);
        client_pause(c, c->stream_retry_ms >= 0 && c->stream_retry_ms < c->retry_max_ms
                            ? (uint32_t)c->stream_retry_ms
                            : c->retry_min_ms);
        rc = open_stream(c, &x, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (x.call) {
        exchange_end(&x);
    }
    return rc;
}

void legacy_close(struct tidings_client *c)
{
    struct exchange x;
    uint64_t count;
    if (c->era != CLIENT_ERA_LEGACY || !c->session[0]) {
        return;
    }
    ssize_t n = read(c->wake_fd, &count, sizeof(count)); /* else every wait would end at once */
    (void)n;
    uint64_t deadline = clock_monotonic_ms() + 1000;
    if (exchange_start(&x, c, &(struct exchange_request){.http_method = "DELETE"}, NULL) < 0) {
        return;
    }
    uint64_t now = clock_monotonic_ms();
    while (!exchange_is_finished(&x) && now < deadline &&
           exchange_step(&x, (int)(deadline - now), NULL) == 0) {
        now = clock_monotonic_ms();
    }
    exchange_end(&x);
    forget_session(c);
}

void legacy_reply(struct tidings_client *c, struct tidings_str method, const struct json *id)
{
    struct buf text;
    struct jw w;
    if (c->era != CLIENT_ERA_LEGACY) {
        return;
    }
    buf_init(&text, 8192);
    jw_init(&w, &text);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_key(&w, STR("id"));
    jw_value(&w, id);
    if (str_eq(method, STR("ping"))) {
        jw_put_raw(&w, STR("result"), STR("{}"));
    } else {
        jw_put_raw(&w, STR("error"), STR("{\"code\":-32601,\"message\":\"method not found\"}"));
    }
    jw_end_object(&w);
    struct exchange_request r = {.raw = buf_str(&text)};
    if (!text.failed) {
        (void)send_notification(c, &r, NULL);
    }
    buf_deinit(&text);
}
