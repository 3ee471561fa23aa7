/* SPDX-License-Identifier: MIT
 *
 * Handles a message of the server: a response, a notification or a request. A connection is worth
 * more than one bad message on it: what cannot be read fails the request that it answers, or is a
 * gap in what is watched; what is no message of JSON-RPC at all is passed over.
 */
#include "client/inbound.h"

#include <stdio.h>

#include "base/error.h"
#include "client/comparison.h"
#include "client/events.h"
#include "client/heartbeat.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/server_log.h"
#include "client/state.h"
#include "client/subscriptions.h"
#include "client/tool_headers.h"
#include "client/tool_schemas.h"
#include "wire/rpc.h"
#include "json/peek.h"

static void take_notification(struct tidings_client *c, const struct rpc_message *m,
                              struct json *root, size_t bytes, int64_t exchange)
{
    if (str_eq(m->method, STR("notifications/progress"))) {
        requests_progressed(c, m->params);
    } else if (str_eq(m->method, STR("notifications/subscriptions/acknowledged"))) {
        subscriptions_acknowledged(c, m->params, exchange);
    } else if (str_eq(m->method, STR("notifications/tools/list_changed"))) {
        tool_schemas_forget(c);
        tool_headers_forget(c);
    } else if (str_eq(m->method, STR("notifications/cancelled"))) {
        subscriptions_cancelled(c, jv_int(jv_get(m->params, "requestId")));
        question_cancelled(c, jv_get(m->params, "requestId"));
    } else if (str_eq(m->method, STR("notifications/message"))) {
        server_log_received(c, m->params);
    }
    events_put_notification(c, root, bytes);
}

/* A program that sends back what it is sent, as cat does: no server asks these. */
static bool is_echo(struct tidings_client *c, const struct rpc_message *m)
{
    if (!str_eq(m->method, STR("server/discover")) && !str_eq(m->method, STR("initialize"))) {
        return false;
    }
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_PARSE, "this is no MCP server: it sends back what it is sent");
    requests_fail(c, jv_is(m->id, JV_INT) ? jv_int(m->id) : 0, 0, &why);
    return true;
}

static void fail_answer(struct tidings_client *c, int64_t id, long status,
                        struct tidings_error *why)
{
    c->transport->ops->forget(c->transport, id, true);
    error_wrap(why, why->code, "the answer of the server cannot be read");
    requests_fail(c, id, status, why);
}

static void count_unread(struct tidings_client *c)
{
    c->info.public.unread = ++c->unread;
}

/* A text that is not JSON, or holds what cannot be kept. Log lines among the messages, and pages of
 * proxies, are no messages: of those the transport says more. */
static void take_unread(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                        long status, struct tidings_error *why)
{
    static const char sign[] = "\"jsonrpc\"";
    if (why->code == TIDINGS_E_NOMEM || !memmem(text.ptr, text.len, sign, sizeof(sign) - 1)) {
        return;
    }
    struct tidings_str method = json_peek(text, STR("method")), id = json_peek(text, STR("id"));
    int64_t number = 0;
    count_unread(c);
    if (method.len > 1 && id.len > 0) {
        struct json *asked = NULL;
        if (jv_parse(id, 1, &asked, NULL) == 0) {
            requests_reply_error(c, asked, -32700, "the request cannot be read");
        }
        jv_unref(asked);
    } else if (method.len > 1) {
        if (events_is_update(tidings_strn(method.ptr + 1, method.len - 2))) {
            comparison_missed(c, why->text);
        }
    } else if (str_to_i64(id, &number) && requests_awaits(c, number, false)) {
        fail_answer(c, number, status, why);
    } else if (requests_awaits(c, exchange, false)) {
        fail_answer(c, exchange, status, why);
    } else {
        comparison_missed(c, why->text);
    }
}

static void take_object(struct tidings_client *c, struct json *root, size_t bytes, int64_t exchange,
                        long status)
{
    struct rpc_message m;
    struct tidings_error why = {0};
    if (rpc_read(root, &m, &why) < 0) {
        if (requests_awaits(c, jv_int(m.id), false) && jv_get(root, "jsonrpc") &&
            !jv_get(root, "method")) {
            count_unread(c);
            fail_answer(c, jv_int(m.id), status, &why);
        }
        return;
    }
    if (m.kind == RPC_REQUEST && is_echo(c, &m)) {
        return;
    }
    if (m.kind == RPC_REQUEST) {
        if (str_eq(m.method, STR("ping"))) {
            heartbeat_heard(c, true);
            requests_reply(c, m.id, STR("{}"));
        } else {
            question_asked(c, m.method, m.id, m.params, exchange);
        }
    } else if (m.kind == RPC_NOTIFICATION) {
        take_notification(c, &m, root, bytes, exchange);
    } else if (!m.id) {
        if (!requests_answered(c, exchange, root, status)) { /* it answers what came that way */
            struct tidings_str text = jv_str(jv_get(jv_get(root, "error"), "message"));
            snprintf(c->stray_error, sizeof(c->stray_error), "%.*s", STR_ARG(text));
        }
    } else if (jv_is(m.id, JV_INT)) {
        (void)requests_answered(c, jv_int(m.id), root, status);
    }
}

void inbound_active(struct tidings_client *c, int64_t exchange, bool is_beat)
{
    if (exchange == 0 || exchange == c->listen) { /* an answer says nothing of the stream */
        heartbeat_heard(c, is_beat);
    }
}

void inbound_message(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                     long status)
{
    struct json *root = NULL;
    struct jv_mended mended;
    struct tidings_error why = {0};
    if (jv_parse_peer(text, &root, &mended, &why) < 0) {
        take_unread(c, text, exchange, status, &why);
        return;
    }
    c->info.public.replaced = c->replaced += mended.halves;
    c->info.public.repeated = c->repeated += mended.repeated;
    if (jv_is(root, JV_ARRAY)) { /* 2025-03-26 */
        for (size_t i = 0; i < jv_count(root); i++) {
            take_object(c, jv_at(root, i), text.len / jv_count(root), exchange, status);
        }
    } else {
        take_object(c, root, text.len, exchange, status);
    }
    jv_unref(root);
}
