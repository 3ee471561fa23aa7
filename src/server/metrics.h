/* SPDX-License-Identifier: MIT
 *
 * The metrics of a server (tidings://self/metrics, /metrics): what its workers counted, what its
 * store, its limits and the process say, as text for Prometheus. docs/monitoring.md says what each
 * means. Labels are methods, codes, limits, kinds and workers: few, and none that a client chooses.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <tidings/types.h>

#include "base/str.h"
#include "base/time.h"

struct buf;
struct tidings_read;
struct tidings_server;

/* On any thread; `text` is freed afterwards, unless it was taken. NULL: out of memory. */
typedef void (*server_metrics_fn)(void *user, struct buf *text);
/* Size of the file of its store, with what waits to be moved into it; 0: it is none. Any thread. */
uint64_t server_metrics_store_bytes(const struct tidings_server *s);
/* The same as a resource. Finishes the read later. */
void server_metrics_read(struct tidings_server *s, struct tidings_read *read);

/* -------------------------------------------------------------------------------------------------
 * The listener of --metrics ADDR:PORT: /metrics, /livez and /readyz over plain HTTP and nothing
 * else, on the server's own thread. It stays open while the server drains. Each connection has one
 * request, and --header-timeout for all of it; beyond METRICS_CONNECTIONS the next is refused.
 */

#define METRICS_CONNECTIONS 16u
#define METRICS_REQUEST_MAX 8192u

struct metrics_listener;

/* What the setting says; nothing when it is empty or "path". */
int server_metrics_listen(struct tidings_server *s, struct tidings_error *err);
/* After the workers have gone. */
void server_metrics_close(struct tidings_server *s);

/* -------------------------------------------------------------------------------------------------
 * Writes metrics as Prometheus reads them: OpenMetrics 1.0.0, or the text format 0.0.4 before it.
 * One family after the other: begin it, then its samples.
 */

enum metrics_kind {
    METRICS_COUNTER,
    METRICS_GAUGE,
    METRICS_HISTOGRAM,
};

struct metrics_text {
    struct buf *out;
    bool is_openmetrics;
    /* private: the family that was begun */
    const char *name;
    enum metrics_kind kind;
};

/* `name` without the suffix of its kind (_total, _bucket); lives until the next. */
void metrics_begin(struct metrics_text *m, enum metrics_kind kind, const char *name,
                   const char *help);
/* A sample of a counter or gauge. `labels` is `a="b",c="d"`, or NULL: none. */
void metrics_put(struct metrics_text *m, const char *labels, uint64_t value);
/* The same of microseconds, as seconds. */
void metrics_put_durations(struct metrics_text *m, const char *labels, const struct durations *d);

/* Put `name="value"` behind what is in `out`, with a comma unless it is empty; of the value at most
 * 128 bytes, escaped, and what is no printable ASCII as '?'. */
#define METRICS_LABELS 512u
void metrics_label(char out[METRICS_LABELS], const char *name, struct tidings_str value);

/* Content types. */
#define METRICS_TYPE_OPEN "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TYPE_PLAIN "text/plain; version=0.0.4; charset=utf-8"

#endif
