/* SPDX-License-Identifier: MIT
 *
 * POST /notify: clients say what changed (delivery/notify.h), where they may write. The status is
 * 200 when all of it was told, 207 when some was, else that of the first that was not.
 */
#include <stdio.h>

#include "base/error.h"
#include "delivery/notify.h"
#include "transport/http_private.h"

#define FIELDS_MAX 64u
#define SCOPES_MAX 4096u

static void notify_answer(struct http_conn *conn, const struct notify *n,
                          const struct notify_outcome *outcome, struct buf *text)
{
    struct response_headers headers = {0};
    struct buf scopes;
    char fields[FIELDS_MAX] = "";
    int status = outcome->refused == 0 ? 200 : 207;
    buf_init(&scopes, SCOPES_MAX);
    if (outcome->told == 0) {
        bool is_limit = outcome->limit.retry_ms > 0;
        status = is_limit ? refusal_status(&outcome->limit) : error_http_status(outcome->err.code);
        if (is_limit) {
            snprintf(fields, sizeof(fields), "Retry-After: %llu\r\n",
                     (unsigned long long)refusal_seconds(&outcome->limit));
        }
        if (outcome->err.code == TIDINGS_E_DENIED) {
            notify_put_missing(n, outcome, &scopes);
        }
    }
    headers.extra = tidings_str(fields);
    headers.reason = tidings_str(outcome->err.text);
    headers.scope = scopes.failed ? STR_EMPTY : buf_str(&scopes);
    conn_answer(conn, status, &headers, STR("application/json"), text);
    buf_deinit(&scopes);
}

void conn_run_notify(struct http_conn *conn)
{
    struct worker *worker = conn->hw->worker;
    struct tidings_str body = {conn->r->in.ptr + conn->r->head_len, conn->r->body_len};
    const struct notify n = {
        .worker = worker,
        .principal = conn->channel.principal,
        .quota = channel_quota(&conn->channel),
        .traceparent = tidings_str(conn->r->traceparent),
    };
    struct notify_outcome outcome = {0};
    struct tidings_error err = {0, ""};
    struct json *said = NULL;
    struct buf text;
    struct jw w;
    buf_init(&text, worker->limits->max_read_bytes);
    jw_init(&w, &text);
    jw_begin_object(&w);
    int rc = jv_parse(body, worker->limits->max_depth, &said, &err);
    rc = rc == 0 ? notify_run(&n, said, &w, &outcome, &err) : rc;
    jw_end_object(&w);
    buf_putc(&text, '\n');
    bool is_done = rc == 0;
    rc = rc < 0 ? rc : buf_check(&text, NOTIFY_ANSWER, "send fewer changes at a time", &err);
    if (rc == 0) {
        notify_answer(conn, &n, &outcome, &text);
    } else {
        resource_refuse(conn, is_done ? 500 : error_http_status(rc), err.text);
    }
    jv_unref(said);
    buf_deinit(&text);
}
