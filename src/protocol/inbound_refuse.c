/* SPDX-License-Identifier: MIT
 *
 * Answers messages that are refused before there is a request: an error, a status, a line in the
 * access log.
 */
#include "protocol/inbound_private.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "request/access_log.h"
#include "request/request.h"

#define REFUSAL_MAX (64u * 1024u)

static void inbound_refuse_with(struct channel *channel, int status,
                                const struct response_headers *headers, struct json *id,
                                const struct dialect_error *e)
{
    struct buf text, id_json;
    buf_init(&text, REFUSAL_MAX);
    buf_init(&id_json, REFUSAL_MAX);
    struct jw w;
    if (id) {
        jw_init(&w, &id_json);
        jw_value(&w, id);
    }
    jw_init(&w, &text);
    dialect_write_error(&w, buf_str(&id_json), e);
    struct log_context context = {.request_id = ""};
    access_log_number(channel->worker, context.request_id);
    const struct log_context *before = log_enter(&context);
    channel_failed_rpc(channel, channel->principal, NULL, e, false);
    const struct access_log_line line = {.code = e->code,
                                         .reason = e->message,
                                         .principal = channel->principal,
                                         .bytes_in = channel->worker->message_bytes,
                                         .bytes_out = text.len};
    access_log_other(channel, &line);
    (void)log_enter(before);
    if (text.failed || id_json.failed) { /* half a message is worse than none */
        buf_deinit(&text);
        buf_init(&text, 0);
    }
    channel->ops->answer(channel, status, headers, &text);
    buf_deinit(&text);
    buf_deinit(&id_json);
}

void inbound_answer_error(struct channel *channel, int status, struct json *id,
                          const struct dialect_error *e)
{
    static const struct response_headers none;
    inbound_refuse_with(channel, status, &none, id, e);
}

void inbound_refuse_limit(struct channel *channel, const struct refusal *why, struct json *id)
{
    char sentence[REFUSAL_SENTENCE], data[REFUSAL_JSON], header[40];
    struct dialect_error e = {
        .code = RPC_INTERNAL,
        .message = tidings_str(refusal_sentence(why, sentence)),
        .reason = STR("limit"),
        .details = refusal_json(why, data),
    };
    snprintf(header, sizeof(header), "Retry-After: %llu\r\n",
             (unsigned long long)refusal_seconds(why));
    struct response_headers headers = {.extra = tidings_str(header)};
    inbound_refuse_with(channel, refusal_status(why), &headers, id, &e);
}

void inbound_refuse(struct channel *channel, int status, int rpc_code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    struct dialect_error e = {.code = rpc_code, .message = tidings_str(text)};
    inbound_answer_error(channel, status, NULL, &e);
}

void inbound_refuse_later(struct channel *channel, const char *text)
{
    static const struct response_headers headers = {.extra = {"Retry-After: 1\r\n", 16}};
    const struct dialect_error e = {
        .code = RPC_INTERNAL, .message = tidings_str(text), .details = STR(REQUEST_LATER)};
    inbound_refuse_with(channel, 503, &headers, NULL, &e);
}
