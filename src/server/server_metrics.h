/* SPDX-License-Identifier: MIT
 *
 * The metrics of a server (tidings://self/metrics, /metrics): what its workers counted, what its
 * store, its limits and the process say, as text for Prometheus. docs/monitoring.md says what each
 * means. Labels are methods, codes, limits, kinds and workers: few, and none that a client chooses.
 */
#ifndef SERVER_SERVER_METRICS_H
#define SERVER_SERVER_METRICS_H

#include <tidings/types.h>

struct buf;
struct tidings_read;
struct tidings_server;

/* On any thread; `text` is freed afterwards. NULL: out of memory. */
typedef void (*server_metrics_fn)(void *user, struct buf *text);
void server_metrics_gather(struct tidings_server *s, bool is_openmetrics, server_metrics_fn fn,
                           void *user);
/* Size of the file of its store, with what waits to be moved into it; 0: it is none. Any thread. */
uint64_t server_metrics_store_bytes(const struct tidings_server *s);
/* The same as a resource. Finishes the read later. */
void server_metrics_read(struct tidings_server *s, struct tidings_read *read);

#endif
