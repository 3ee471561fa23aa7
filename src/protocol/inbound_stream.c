/* SPDX-License-Identifier: MIT
 *
 * Finds the session that a legacy request names, opens its stream (GET) and ends it (DELETE).
 */
#include "protocol/inbound_private.h"

#include "base/str.h"
#include "request/request.h"

struct session *inbound_need_session(struct channel *channel, const struct dialect_headers *h,
                                     struct json *id)
{
    struct dialect_error e = {
        .code = dialect_code_uninitialized(channel->worker->self->profile, RPC_SESSION),
    };
    if (!h->session_id.ptr) {
        e.message = STR("the header Mcp-Session-Id is missing; send initialize to get a session");
        inbound_answer_error(channel, 400, id, &e);
        return NULL;
    }
    struct session *session = session_find(channel->worker, h->session_id, channel->principal);
    if (!session) {
        e.message = STR("session not found or ended; send initialize to get a new one");
        inbound_answer_error(channel, 404, id, &e);
    }
    return session;
}

static bool check_stream_version(struct channel *channel, const struct dialect_headers *h)
{
    const struct server_identity *self = channel->worker->self;
    int status = dialect_judge_stream(h->protocol_version, self->ceiling, self->profile);
    if (status == 405) {
        static const struct response_headers post_only = {.allow = {"POST", 4}};
        struct buf text;
        buf_init(&text, 1024);
        struct jw w;
        struct dialect_error e = {.code = RPC_INVALID_REQUEST,
                                  .message = STR("this revision uses POST only")};
        jw_init(&w, &text);
        dialect_write_error(&w, STR_EMPTY, &e);
        channel->ops->answer(channel, 405, &post_only, &text);
        buf_deinit(&text);
    } else if (status) {
        inbound_refuse(channel, status, RPC_UNSUPPORTED_VERSION,
                       "unsupported MCP-Protocol-Version '%.*s'", STR_ARG(h->protocol_version));
    }
    return status == 0;
}

void inbound_get(struct channel *channel, const struct dialect_headers *h)
{
    if (!check_stream_version(channel, h)) {
        return;
    }
    struct session *session = inbound_need_session(channel, h, NULL);
    if (!session) {
        return;
    }
    int rc = session_open_stream(session, channel, h->last_event_id);
    if (rc == TIDINGS_E_DENIED) {
        inbound_refuse(channel, 404, RPC_SESSION,
                       "no such event; open the stream without Last-Event-ID");
    } else if (rc == TIDINGS_E_NOTFOUND) {
        inbound_refuse(channel, 400, RPC_SESSION,
                       "the request of that stream was answered or has ended; send it again");
    } else if (rc < 0) {
        limit_hit(channel->worker->limit_counters, LIMIT_SESSION_STREAMS);
        inbound_refuse(channel, 409, RPC_SESSION,
                       "this session has %u streams open already; close one first",
                       SESSION_MAX_STREAMS);
    }
}

void inbound_delete(struct channel *channel, const struct dialect_headers *h)
{
    if (!check_stream_version(channel, h)) {
        return;
    }
    struct session *session = inbound_need_session(channel, h, NULL);
    if (session) {
        channel->worker->ending = "its session was ended by the client";
        session_end(session);
        channel->worker->ending = NULL;
        static const struct response_headers none;
        struct buf nothing;
        buf_init(&nothing, 0);
        channel->ops->answer(channel, 204, &none, &nothing);
    }
}
