/* SPDX-License-Identifier: MIT
 *
 * The metrics of a server (tidings://self/metrics, /metrics) as text for Prometheus: counters of
 * its workers, its store, its limits and the process. docs/reference/server-state.md describes each
 * metric. Labels are methods, codes, limits, kinds and workers: few values, and none that a client
 * chooses.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <tidings/types.h>

#include "base/str.h"
#include "base/time.h"

struct buf;
struct tidings_read;
struct tidings_server;

/* Called on any thread; `text` is freed after the call, unless the function took it. NULL: out of
 * memory. */
typedef void (*server_metrics_fn)(void *user, struct buf *text);
/* The size of the store's file, including its write-ahead log; 0: the store is not a file.
 * Thread-safe. */
uint64_t server_metrics_store_bytes(const struct tidings_server *s);
/* The same as a resource. Finishes the read later. */
void server_metrics_read(struct tidings_server *s, struct tidings_read *read);

/* -------------------------------------------------------------------------------------------------
 * The listener of --metrics ADDR:PORT: /metrics, /livez and /readyz over plain HTTP and nothing
 * else, on the server's own thread. It stays open while the server drains. Each connection gets one
 * request, and --header-timeout for the whole exchange; connections beyond METRICS_CONNECTIONS are
 * refused.
 */

#define METRICS_CONNECTIONS 16u
#define METRICS_REQUEST_MAX 8192u

struct metrics_listener;

/* Opens the configured listener; does nothing if the setting is empty or "path". */
int server_metrics_listen(struct tidings_server *s, struct tidings_error *err);
/* After the workers have gone. */
void server_metrics_close(struct tidings_server *s);

/* -------------------------------------------------------------------------------------------------
 * Writes metrics in the formats of Prometheus: OpenMetrics 1.0.0, or the older text format 0.0.4.
 * One family after the other: begin it, then write its samples.
 */

enum metrics_kind {
    METRICS_COUNTER,
    METRICS_GAUGE,
    METRICS_HISTOGRAM,
};

struct metrics_text {
    struct buf *out;
    bool is_openmetrics;
    /* private: the current family */
    const char *name;
    enum metrics_kind kind;
};

/* `name` without the suffix of its kind (_total, _bucket); must live until the next call. */
void metrics_begin(struct metrics_text *m, enum metrics_kind kind, const char *name,
                   const char *help);
/* A sample of a counter or gauge. `labels` is `a="b",c="d"`, or NULL: none. */
void metrics_put(struct metrics_text *m, const char *labels, uint64_t value);
/* The same for microseconds, written as seconds. */
void metrics_put_durations(struct metrics_text *m, const char *labels, const struct durations *d);

/* Append `name="value"` to `out`, with a comma unless it is empty; at most 128 bytes of the value,
 * escaped, with '?' for anything but printable ASCII. */
#define METRICS_LABELS 512u
void metrics_label(char out[METRICS_LABELS], const char *name, struct tidings_str value);

/* Content types. */
#define METRICS_TYPE_OPEN "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TYPE_PLAIN "text/plain; version=0.0.4; charset=utf-8"

#endif
