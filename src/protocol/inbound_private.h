/* SPDX-License-Identifier: MIT
 *
 * What the parts of inbound share: refusing a message, and finding the session it names.
 */
#ifndef PROTOCOL_INBOUND_PRIVATE_H
#define PROTOCOL_INBOUND_PRIVATE_H

#include "protocol/inbound.h"
#include "protocol/session.h"

/* Answer with an error that there is no request for; `id` NULL: none is known. */
void inbound_answer_error(struct channel *channel, int status, struct json *id,
                          const struct dialect_error *e);
/* The session a legacy request belongs to, or NULL after having answered; `id` as above. */
struct session *inbound_need_session(struct channel *channel, const struct dialect_headers *h,
                                     struct json *id);

#endif
