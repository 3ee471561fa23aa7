/* SPDX-License-Identifier: MIT
 *
 * Server counters, gathered from the workers: each gets a message, and copies its numbers on its
 * own thread. There are no locks, and no thread blocks.
 */
#ifndef SERVER_STATS_H
#define SERVER_STATS_H

#include <stdint.h>

#include <tidings/types.h>

#include "engine/delivery/delivery.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "engine/worker.h"
#include "security/failures.h"
#include "server/console.h"

/* The counters of one worker. */
struct worker_snapshot {
    struct worker_stats stats;
    uint64_t failures;               /* failed requests, … */
    struct failure_last last_failed; /* … and the newest of them */
    uint64_t bytes_out;
    size_t index_bytes; /* of the match index */
    size_t behind;      /* clients whose streams did not take all flushed data, … */
    size_t waiting;     /* … notifications waiting for them, … */
    uint64_t oldest_us; /* … and the age of the oldest of these */
    struct durations turns;
    struct lag_counts lag, recent; /* since the start; in the last ten to twenty seconds */
};

/* Failures of one kind, method and code. */
struct stats_failure {
    enum failure_kind kind;
    int code;
    const char *method; /* NULL: unknown method */
    uint64_t count;
};
#define STATS_FAILURES 256u /* different ones; all others share one row without method and code */

struct server_stats {
    struct operations *operations; /* of all workers; NULL: not requested */
    struct tool_counts *tools;     /* likewise */
    struct stats_failure *failures;
    size_t failure_count;
    size_t count;
    struct worker_snapshot all; /* sums; for oldest_us and changes, the maximum */
    struct worker_snapshot workers[];
};

/* Called on the thread of the last answer; `totals` is freed after the call. NULL: out of
 * memory. */
typedef void (*server_stats_fn)(void *user, const struct server_stats *totals);
/* The same with operations, tool calls and failures. */
void server_stats_gather_all(struct worker *const *cores, size_t count, server_stats_fn fn,
                             void *user);

/* -------------------------------------------------------------------------------------------------
 * The resource usage of the process: memory, CPU, descriptors. The sources are opened before the
 * process drops its permissions, so that they can be read afterwards.
 */

struct process_stats {
    uint64_t resident_bytes, virtual_bytes;
    uint64_t cpu_us; /* of all threads, in user and kernel mode */
    uint64_t open_fds, max_fds;
    int64_t start_ms; /* Unix time */
};

struct process_probe {
    int statm, fds; /* -1: unavailable */
    int64_t start_ms;
    uint64_t max_fds;
    uint64_t fds_counted, fds_counted_ms; /* atomic: the last count, and its time */
    bool is_counting;                     /* atomic */
};

/* Before permissions are dropped; unavailable values are 0 later. */
void process_probe_open(struct process_probe *probe);
void process_probe_close(struct process_probe *probe);
/* Thread-safe. */
void process_probe_read(struct process_probe *probe, struct process_stats *ret);

/* -------------------------------------------------------------------------------------------------
 * tidings://self/status: an overview of the whole server, in one object.
 */

struct jw;
struct tidings_read;
struct tidings_server;

/* Finishes the read later. */
void server_overview_read(struct tidings_server *s, struct tidings_read *read);

/* -------------------------------------------------------------------------------------------------
 * tidings://self/history: the activity of the server in the last 15 minutes, one sample every five
 * seconds. A server with the console takes samples; any other server has no samples and no timer.
 */

#define HISTORY_PERIOD_MS 5000u
#define HISTORY_SAMPLES 180u

struct buf;
struct server_history;

/* Counters since the start, and gauges at that time. */
struct history_sample {
    int64_t at_ms; /* Unix time */
    uint64_t changes, deliveries, requests;
    uint64_t streams, memory_bytes;
    uint64_t oldest_us, p99_us; /* as `lagMs` of the status */
    bool has_written;           /* false: no p99 available */
};

/* The newest samples; thread-safe. */
struct server_history *server_history_create(void);
void server_history_destroy(struct server_history *h); /* NULL is fine */
void server_history_add(struct server_history *h, const struct history_sample *sample);
/* Appends the resource as JSON; NULL: it has no samples. */
void server_history_write(struct server_history *h, struct buf *out);

/* Start sampling, with the first sample at once; after the workers exist. */
int server_history_open(struct tidings_server *s, struct tidings_error *err);
/* Stop sampling; samples in progress may still arrive while there are workers. */
void server_history_stop(struct tidings_server *s);
void server_history_read(struct tidings_server *s, struct tidings_read *read);

/* -------------------------------------------------------------------------------------------------
 * Tool calls, for operators: metrics, and tidings://self/tools.
 */

struct metrics_text;

void server_tool_stats_put(struct metrics_text *m, const struct tool_counts *tools);
/* tidings://self/tools, finished later. */
void server_tool_stats_read(struct tidings_server *server, struct tidings_read *read);

/* -------------------------------------------------------------------------------------------------
 * The operator's interfaces.
 */

struct metrics_listener;
struct tidings_provider;

struct server_admin {
    struct tidings_provider *status; /* tidings://self/ */
    struct process_probe process;
    struct console console;           /* target of settings.http.console_page */
    struct metrics_listener *metrics; /* NULL: none */
    struct server_history *history;   /* of the last minutes; NULL: no history */
    bool has_publish_tools, has_change_tools, has_end_peer;
};

#endif
