/* SPDX-License-Identifier: MIT
 *
 * tidings://self/history: what the server did in the last 15 minutes, one sample every five
 * seconds. A server with the console takes samples; another one has none and no timer.
 */
#ifndef SERVER_SERVER_HISTORY_H
#define SERVER_SERVER_HISTORY_H

#include <tidings/types.h>

#define HISTORY_PERIOD_MS 5000u
#define HISTORY_SAMPLES 180u

struct buf;
struct server_history;
struct tidings_read;
struct tidings_server;

/* Counters since the start, and what there was at that time. */
struct history_sample {
    int64_t at_ms; /* Unix time */
    uint64_t changes, deliveries, requests;
    uint64_t streams, memory_bytes;
    uint64_t oldest_us, p99_us; /* as `lagMs` of the status */
    bool has_written;           /* false: there is no p99 */
};

/* The newest samples; any thread. */
struct server_history *server_history_create(void);
void server_history_destroy(struct server_history *h); /* NULL is fine */
void server_history_add(struct server_history *h, const struct history_sample *sample);
/* Appends the resource as JSON; NULL: it has no samples. */
void server_history_write(struct server_history *h, struct buf *out);

/* Begin to take samples, the first one at once; after the workers exist. */
int server_history_open(struct tidings_server *s, struct tidings_error *err);
/* Take no more; samples that are under way may still come while there are workers. */
void server_history_stop(struct tidings_server *s);
void server_history_read(struct tidings_server *s, struct tidings_read *read);

#endif
