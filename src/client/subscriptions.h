/* SPDX-License-Identifier: MIT
 *
 * The subscriptions of a program: kept through losses of the connection, asked for in the words of
 * the era, and updates routed to those whom they concern.
 */
#ifndef CLIENT_SUBSCRIPTIONS_H
#define CLIENT_SUBSCRIPTIONS_H

#include <tidings/client.h>

#include "json/json.h"

struct watch;

void subscriptions_init(struct tidings_client *c);
void subscriptions_later_init(struct tidings_client *c); /* likewise */
void subscriptions_deinit(struct tidings_client *c);
bool subscriptions_wants(const struct tidings_client *c); /* a reason to stay connected? */

/* Connected: ask for everything. */
void subscriptions_ready(struct tidings_client *c);
void subscriptions_lost(struct tidings_client *c);
/* What requests show was renewed: what is heard is heard from now on by a stream that shows it. */
void subscriptions_renewed(struct tidings_client *c);
/* Of struct transport_events; legacy: the stream is there. */
void subscriptions_streaming(struct tidings_client *c, bool is_seamless);
/* Modern: the server acknowledged a listen, or cancelled it. */
void subscriptions_acknowledged(struct tidings_client *c, struct json *params, int64_t exchange);
void subscriptions_cancelled(struct tidings_client *c, int64_t id);

/* ---- at delivery ----------------------------------------------------------------------------- */

/* An update is routed to those it concerns. */
void subscriptions_updated(struct tidings_client *c, struct json *message, int64_t received_ms,
                           bool is_synthetic);
/* Nothing changed, but this is how far the stream came. */
void subscriptions_bookmark(struct tidings_client *c, struct json *params);
/* The subscriptions of a watch hear of it. */
void subscriptions_tell_state(struct tidings_client *c, struct watch *w,
                              const struct tidings_state_event *e);
void subscriptions_sweep(struct tidings_client *c); /* what ended in callbacks */

#endif
