/* SPDX-License-Identifier: MIT
 *
 * The connection to a server: opening the transport, finding out the era, and when it is lost the
 * pause before the next attempt.
 */
#ifndef CLIENT_CONNECTION_H
#define CLIENT_CONNECTION_H

#include <tidings/types.h>

struct client_info;
struct tidings_client;

void connection_init(struct tidings_client *c);
void connection_info_deinit(struct client_info *info);

/* Starts to connect, unless that is under way. */
void connection_need(struct tidings_client *c);
/* The present connection is unusable: reports that, and reconnects after a pause if a retry can
 * help. */
void connection_lose(struct tidings_client *c, const struct tidings_error *why);
/* Another run makes no sense; a request may. */
void connection_give_up(struct tidings_client *c, const struct tidings_error *why);
/* The server has turned out to be legacy. */
void connection_fall_back(struct tidings_client *c);
/* Ends the connection cleanly and restores the state before the first attempt: in turns of the
 * loop, or in later turns, with connection_disconnect once it has left. */
void connection_leave(struct tidings_client *c);
void connection_begin_leave(struct tidings_client *c);
bool connection_has_left(struct tidings_client *c);
void connection_disconnect(struct tidings_client *c);

/* ---- what the transport tells (struct transport_events) -------------------------------------- */

void connection_opened(struct tidings_client *c);
void connection_streaming(struct tidings_client *c, bool is_seamless);
void connection_delivered(struct tidings_client *c, const struct tidings_error *why);
void connection_session_lost(struct tidings_client *c, int64_t id, bool is_present);
void connection_lost(struct tidings_client *c, const struct tidings_error *why);

#endif
