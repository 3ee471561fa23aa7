/* SPDX-License-Identifier: MIT
 *
 * Dispatches messages of the server, from the transport to the request, stream or watch they
 * concern (struct transport_events).
 */
#ifndef CLIENT_INBOUND_H
#define CLIENT_INBOUND_H

#include <tidings/types.h>

struct tidings_client;

void inbound_message(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                     long status);
void inbound_active(struct tidings_client *c, int64_t exchange, bool is_beat);

#endif
