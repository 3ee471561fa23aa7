/* SPDX-License-Identifier: MIT
 *
 * A connection may be dead without anybody having said so. Servers that send comments or pings when
 * they have nothing to say are held to that: silence of three times the longest pause between them,
 * and five seconds more, is an end. Of a server that never sent any, silence says nothing, unless
 * the program says how long is too long (silence_ms).
 */
#ifndef CLIENT_SILENCE_H
#define CLIENT_SILENCE_H

#include "client/pump.h"

#define SILENCE_BEATS 2u         /* so many make a rhythm */
#define SILENCE_SHORTEST_MS 500u /* what comes sooner is no sign of one */
#define SILENCE_MORE_MS 5000u

struct tidings_client;

struct silence {
    bool is_listening;
    unsigned beats;
    uint64_t longest;      /* ms before one of them */
    uint64_t all, all_max; /* … over all connections: tidings_client_info */
    uint64_t heard_at;     /* clock_monotonic_ms */
    struct pump_timer timer;
};

void silence_init(struct tidings_client *c);
/* Something is watched from now on. */
void silence_begin(struct tidings_client *c);
void silence_end(struct tidings_client *c);
/* The server was heard; `is_beat`: only to show that it is there. */
void silence_heard(struct tidings_client *c, bool is_beat);
/* How long is too long, ms; 0: nothing is. */
uint64_t silence_limit(const struct tidings_client *c);

#endif
