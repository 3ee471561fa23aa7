/* SPDX-License-Identifier: MIT
 *
 * Handling a message that came in: parse it, decide its era, find its session, run it. Whatever is
 * wrong with it is answered; nothing a stranger sends is dropped in silence except notifications.
 */
#ifndef ENGINE_PROTOCOL_INBOUND_H
#define ENGINE_PROTOCOL_INBOUND_H

#include "engine/protocol/channel.h"

struct refusal;

/* One text (an HTTP body, a line). `headers` NULL on message connections. */
void inbound_text(struct channel *channel, struct tidings_str text,
                  const struct dialect_headers *headers);
/* An error that answers no particular request. `rpc_code` 0: only the status and the sentence. */
void inbound_refuse(struct channel *channel, int status, int rpc_code, const char *fmt, ...)
    TIDINGS_PRINTF(4, 5);
/* The answer to a request (`id`; NULL: to none in particular) that a limit stands against. */
void inbound_refuse_limit(struct channel *channel, const struct refusal *why, struct json *id);
/* The same to one that may be asked again in a second. */
void inbound_refuse_later(struct channel *channel, const char *text);
/* Legacy GET and DELETE on the endpoint. */
void inbound_get(struct channel *channel, const struct dialect_headers *headers);
void inbound_delete(struct channel *channel, const struct dialect_headers *headers);

#endif
