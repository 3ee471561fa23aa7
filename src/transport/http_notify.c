/* SPDX-License-Identifier: MIT
 *
 * POST /notify: clients say what changed (delivery/notify.h), where they may write. The status is
 * 200 when all of it was told, 207 when some was, else that of the first that was not. The
 * connection may go before the answer; what was said is told all the same.
 */
#include <stdio.h>

#include "access/allowance.h"
#include "base/error.h"
#include "base/mem.h"
#include "delivery/notify.h"
#include "transport/http_private.h"

#define FIELDS_MAX 64u
#define SCOPES_MAX 4096u

static void http_notify_answer(struct http_conn *conn, const struct notify *n,
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

struct http_notifying {
    struct http_conn *conn; /* NULL once it is gone */
    struct json *said;
};

static void http_notify_free(struct http_notifying *x)
{
    if (x) {
        jv_unref(x->said);
        mem_free(x);
    }
}

static void http_notify_done(void *user, const struct notify_outcome *outcome, struct buf *answer)
{
    struct http_notifying *x = user;
    struct http_conn *conn = x->conn;
    struct tidings_error err = {0, ""};
    if (!conn) {
        http_notify_free(x);
        return;
    }
    const struct notify n = {.worker = conn->hw->worker, .principal = conn->channel.principal};
    conn->r->notifying = NULL;
    buf_putc(answer, '\n');
    if (buf_check(answer, NOTIFY_ANSWER, "send fewer changes at a time", &err) == 0) {
        http_notify_answer(conn, &n, outcome, answer);
    } else {
        resource_refuse(conn, 500, err.text);
    }
    http_notify_free(x);
    conn_want(conn);
}

void http_notify_abandon(struct http_conn *conn)
{
    conn->r->notifying->conn = NULL;
    conn->r->notifying = NULL;
}

void conn_run_notify(struct http_conn *conn)
{
    struct worker *worker = conn->hw->worker;
    struct tidings_str body = {conn->r->in.ptr + conn->r->head_len, conn->r->body_len};
    const struct notify n = {
        .worker = worker,
        .principal = conn->channel.principal,
        .account = channel_allowance(&conn->channel),
        .quota = channel_quota(&conn->channel),
        .traceparent = tidings_str(conn->r->traceparent),
    };
    struct tidings_error err = {0, ""};
    struct http_notifying *x = mem_zalloc(sizeof(*x));
    int rc = x ? jv_parse(body, worker->limits->max_depth, &x->said, &err)
               : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        x->conn = conn;
        conn->r->notifying = x;
        rc = notify_begin(&n, x->said, http_notify_done, x, &err);
    }
    allowance_release(n.account); /* announcements hold it themselves */
    if (rc < 0) {
        conn->r->notifying = NULL;
        http_notify_free(x);
        resource_refuse(conn, error_http_status(rc), err.text);
    }
}
