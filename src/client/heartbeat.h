/* SPDX-License-Identifier: MIT
 *
 * Noticing a connection that is dead without anybody having said so. Servers that send comments or
 * pings when they have nothing to say are held to that: silence of three times the longest pause
 * between them, and five seconds more, is an end. Of a server that never sent any, silence says
 * nothing, unless the program says how long is too long (silence_ms).
 */
#ifndef CLIENT_HEARTBEAT_H
#define CLIENT_HEARTBEAT_H

#include <tidings/types.h>

#define HEARTBEAT_BEATS 2u         /* so many make a rhythm */
#define HEARTBEAT_SHORTEST_MS 500u /* what comes sooner is no sign of one */
#define HEARTBEAT_MORE_MS 5000u

struct tidings_client;

void heartbeat_init(struct tidings_client *c);
/* Something is watched from now on. */
void heartbeat_begin(struct tidings_client *c);
void heartbeat_end(struct tidings_client *c);
/* The server was heard; `is_beat`: only to show that it is there. */
void heartbeat_heard(struct tidings_client *c, bool is_beat);
/* How long is too long, ms; 0: nothing is. */
uint64_t heartbeat_limit(const struct tidings_client *c);

#endif
