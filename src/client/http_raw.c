/* SPDX-License-Identifier: MIT
 *
 * One HTTP request as the program wrote it, on a connection of its own, waited for
 * (tidings_client_http).
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/state.h"
#include "client/transport_http.h"

#define TICK_MS 100
#define MAX_GIVEN 8u

struct raw {
    struct tidings_client *client;
    const struct tidings_client_http *request;
    const struct fetch_transfer *transfer;
    bool had_head, had_bytes, is_enough;
};

static void http_raw_tell(struct raw *r, struct tidings_str bytes)
{
    const struct tidings_client_http *q = r->request;
    if (q->on_bytes && !r->is_enough && !client_is_stopping(r->client)) {
        r->is_enough = q->on_bytes(q->user, fetch_status(r->transfer)->status, bytes) != 0;
    }
}

static void tell_head(struct raw *r)
{
    if (!r->had_head && fetch_status(r->transfer)->status > 0) {
        r->had_head = true;
        http_raw_tell(r, STR_EMPTY);
    }
}

static int http_raw_on_bytes(void *user, struct tidings_str bytes)
{
    struct raw *r = user;
    tell_head(r);
    r->had_bytes = true;
    http_raw_tell(r, bytes);
    return 0;
}

static int http_raw_step(struct raw *r, struct fetch *f, uint64_t due, struct tidings_error *err)
{
    uint64_t now = clock_monotonic_ms();
    if (now >= due) {
        return tidings_fail(err, TIDINGS_E_TIMEOUT, "no end of the answer in time");
    }
    uint64_t until = now + TICK_MS < due ? now + TICK_MS : due;
    r->had_bytes = false;
    do {
        int rc = fetch_step(f, (int)(until - now), err);
        if (rc < 0) {
            return rc;
        }
        tell_head(r);
        if (client_is_stopping(r->client)) {
            return tidings_fail(err, TIDINGS_E_CANCELLED, "stopped");
        }
        now = clock_monotonic_ms();
    } while (now < until && !r->had_bytes && !r->is_enough && !fetch_status(r->transfer)->finished);
    if (!r->had_bytes && r->had_head && !fetch_status(r->transfer)->finished) {
        http_raw_tell(r, STR_EMPTY);
    }
    return 0;
}

static void http_raw_tell_wire(const struct tidings_client *c, const struct tidings_client_wire *w)
{
    if (c->settings.on_wire) {
        c->settings.on_wire(c->settings.wire_user, w);
    }
}

static int http_raw_finish(const struct raw *r, int rc, struct tidings_client_http_answer *ret,
                           struct tidings_error *err)
{
    const struct fetch_status *s = fetch_status(r->transfer);
    ret->status = s->status;
    snprintf(ret->content_type, sizeof(ret->content_type), "%s", s->content_type);
    snprintf(ret->session, sizeof(ret->session), "%s", s->session);
    ret->is_complete = s->finished && s->error.code == 0;
    struct tidings_client_wire wire = {.reason = s->error.code ? tidings_str(s->error.text)
                                                               : STR("the HTTP request ended"),
                                       .status = s->status};
    http_raw_tell_wire(r->client, &wire);
    if (rc == 0 && !r->is_enough && s->error.code < 0) {
        return tidings_fail(err, s->error.code, "%s", s->error.text);
    }
    return rc;
}

/* What goes out: the client's own headers, its token, those given. */
static int http_raw_fill(struct fetch_request *q, const struct tidings_client *c,
                         const struct tidings_client_http *request,
                         const struct credentials_lines *shown, struct tidings_error *err)
{
    size_t n = 0;
    q->headers[n++] = "Expect:"; /* the library's own is not wanted */
    for (size_t i = 0; i < shown->count; i++) {
        q->headers[n++] = shown->lines[i].ptr;
    }
    for (size_t i = 0; c->settings.headers && c->settings.headers[i]; i++) {
        q->headers[n++] = c->settings.headers[i];
    }
    for (size_t i = 0; request->headers && request->headers[i]; i++) {
        if (i == MAX_GIVEN) {
            return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u headers", MAX_GIVEN);
        }
        q->headers[n++] = request->headers[i];
    }
    return 0;
}

static int http_raw_run(struct raw *r, struct fetch *f, const struct fetch_request *q,
                        struct tidings_client_http_answer *ret, struct tidings_error *err)
{
    struct fetch_transfer *transfer = NULL;
    uint32_t ms =
        r->request->timeout_ms > 0 ? r->request->timeout_ms : r->client->settings.timeout_ms;
    uint64_t due = clock_monotonic_ms() + ms;
    struct tidings_client_wire wire = {.is_sent = true,
                                       .text = q->body,
                                       .reason =
                                           q->body.len > 0 ? STR_EMPTY : tidings_str(q->method)};
    http_raw_tell_wire(r->client, &wire);
    int rc = fetch_start(f, q, &transfer, err);
    if (rc < 0) {
        return rc;
    }
    r->transfer = transfer;
    while (rc == 0 && !r->is_enough && !fetch_status(transfer)->finished) {
        rc = http_raw_step(r, f, due, err);
    }
    rc = http_raw_finish(r, rc, ret, err);
    fetch_close(transfer);
    return rc;
}

int tidings_client_http(struct tidings_client *c, const struct tidings_client_http *request,
                        struct tidings_client_http_answer *ret, struct tidings_error *err)
{
    if (client_check(c, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    struct raw r = {.client = c, .request = request};
    memset(ret, 0, sizeof(*ret));
    if (RESERVED_CHECK(request, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (strcmp(c->transport->ops->name, "http") != 0) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "the server is not reached over HTTP");
    }
    const struct http_transport *h = (const struct http_transport *)(const void *)c->transport;
    struct fetch_request q = {.method = request->method,
                              .url = h->url,
                              .unix_path = h->unix_path,
                              .ca_file = c->settings.ca_file,
                              .cert_file = c->settings.cert_file,
                              .key_file = c->settings.key_file,
                              .body = tidings_str(request->body),
                              .on_bytes = http_raw_on_bytes,
                              .user = &r};
    struct fetch *f = NULL;
    struct credentials_lines shown;
    credentials_lines_init(&shown);
    int rc = credentials_lines_fill(&shown, &c->settings, q.method ? q.method : "GET", q.url);
    rc = rc < 0 ? tidings_fail(err, rc, "the token cannot be shown: %s", tidings_code_text(rc))
                : http_raw_fill(&q, c, request, &shown, err);
    if (rc == 0) {
        rc = fetch_create(c->wake_fd, c->settings.max_bytes, &f, err);
    }
    if (rc == 0) {
        rc = http_raw_run(&r, f, &q, ret, err);
    }
    fetch_destroy(f);
    credentials_lines_deinit(&shown);
    return rc;
}
