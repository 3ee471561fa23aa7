/* SPDX-License-Identifier: MIT
 *
 * Handles a message of the server: a response, a notification or a request. Those that are not
 * well-formed are passed over: a connection is worth more than one bad message on it.
 */
#include "client/inbound.h"

#include <stdio.h>

#include "client/events.h"
#include "client/heartbeat.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/state.h"
#include "client/subscriptions.h"
#include "client/tool_schemas.h"
#include "wire/rpc.h"

static void take_notification(struct tidings_client *c, const struct rpc_message *m,
                              struct json *root, size_t bytes, int64_t exchange)
{
    if (str_eq(m->method, STR("notifications/progress"))) {
        requests_progressed(c, m->params);
    } else if (str_eq(m->method, STR("notifications/subscriptions/acknowledged"))) {
        subscriptions_acknowledged(c, m->params, exchange);
    } else if (str_eq(m->method, STR("notifications/tools/list_changed"))) {
        tool_schemas_forget(c);
    } else if (str_eq(m->method, STR("notifications/cancelled"))) {
        subscriptions_cancelled(c, jv_int(jv_get(m->params, "requestId")));
        question_cancelled(c, jv_get(m->params, "requestId"));
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

static void take_object(struct tidings_client *c, struct json *root, size_t bytes, int64_t exchange,
                        long status)
{
    struct rpc_message m;
    if (rpc_read(root, &m, NULL) < 0) {
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
    if (jv_parse(text, JSON_MAX_DEPTH, &root, NULL) < 0) {
        return;
    }
    if (jv_is(root, JV_ARRAY)) { /* 2025-03-26 */
        for (size_t i = 0; i < jv_count(root); i++) {
            take_object(c, jv_at(root, i), text.len / jv_count(root), exchange, status);
        }
    } else {
        take_object(c, root, text.len, exchange, status);
    }
    jv_unref(root);
}
