/* SPDX-License-Identifier: MIT
 *
 * Inbound messages: parse a message, decide its era, find its session, run it. Every invalid
 * message is answered; only notifications are dropped without an answer.
 */
#ifndef ENGINE_PROTOCOL_INBOUND_H
#define ENGINE_PROTOCOL_INBOUND_H

#include "engine/protocol/channel.h"

struct refusal;

/* One message (an HTTP body, a line). `headers` NULL on message connections. */
void inbound_text(struct channel *channel, struct tidings_str text,
                  const struct dialect_headers *headers);
/* Answers with an error that belongs to no request. `rpc_code` 0: only the status and the
 * message. */
void inbound_refuse(struct channel *channel, int status, int rpc_code, const char *fmt, ...)
    TIDINGS_PRINTF(4, 5);
/* Answers a request (`id`; NULL: unknown) that exceeds a limit. */
void inbound_refuse_limit(struct channel *channel, const struct refusal *why, struct json *id);
/* The same for a request that the client may retry in a second. */
void inbound_refuse_later(struct channel *channel, const char *text);
/* Legacy GET and DELETE on the endpoint. */
void inbound_get(struct channel *channel, const struct dialect_headers *headers);
void inbound_delete(struct channel *channel, const struct dialect_headers *headers);

#endif
