/* SPDX-License-Identifier: MIT
 *
 * What a server has counted, gathered from its workers: one message to each, which copies its
 * numbers on its own thread. Nothing is locked, and nobody waits.
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

/* Of one worker. */
struct worker_snapshot {
    struct worker_stats stats;
    uint64_t failures;               /* requests that failed, … */
    struct failure_last last_failed; /* … and the newest of them */
    uint64_t bytes_out;
    size_t index_bytes; /* of what finds subscriptions */
    size_t behind;      /* clients whose streams did not take all that was flushed, … */
    size_t waiting;     /* … notifications that wait for them, … */
    uint64_t oldest_us; /* … and the age of the oldest of these */
    struct durations turns;
    struct lag_counts lag, recent; /* since the start; of the last ten to twenty seconds */
};

/* Failures of one kind, method and code. */
struct stats_failure {
    enum failure_kind kind;
    int code;
    const char *method; /* NULL: none there is */
    uint64_t count;
};
#define STATS_FAILURES 256u /* different ones; the rest is in one row without method and code */

struct server_stats {
    struct operations *operations; /* of all workers; NULL: not asked for */
    struct tool_counts *tools;     /* likewise */
    struct stats_failure *failures;
    size_t failure_count;
    size_t count;
    struct worker_snapshot all; /* sums; of oldest_us and changes, the most */
    struct worker_snapshot workers[];
};

/* On whichever thread the last answer came; `totals` is freed afterwards. NULL: out of memory. */
typedef void (*server_stats_fn)(void *user, const struct server_stats *totals);
/* The same with operations, calls of tools and failures. */
void server_stats_gather_all(struct worker *const *cores, size_t count, server_stats_fn fn,
                             void *user);

/* -------------------------------------------------------------------------------------------------
 * What the process uses: memory, CPU, descriptors. What is read for it is opened before the process
 * gives up its rights, so that it can be asked afterwards.
 */

struct process_stats {
    uint64_t resident_bytes, virtual_bytes;
    uint64_t cpu_us; /* of all threads, in user and kernel mode */
    uint64_t open_fds, max_fds;
    int64_t start_ms; /* Unix time */
};

struct process_probe {
    int statm, fds; /* -1: cannot be had */
    int64_t start_ms;
    uint64_t max_fds;
    uint64_t fds_counted, fds_counted_ms; /* atomic: the last count, and when */
    bool is_counting;                     /* atomic */
};

/* Before rights are given up; what cannot be had is 0 later. */
void process_probe_open(struct process_probe *probe);
void process_probe_close(struct process_probe *probe);
/* Any thread. */
void process_probe_read(struct process_probe *probe, struct process_stats *ret);

/* -------------------------------------------------------------------------------------------------
 * tidings://self/status: the whole server at a glance, in one object.
 */

struct jw;
struct tidings_read;
struct tidings_server;

/* Finishes the read later. */
void server_overview_read(struct tidings_server *s, struct tidings_read *read);

/* -------------------------------------------------------------------------------------------------
 * tidings://self/history: what the server did in the last 15 minutes, one sample every five
 * seconds. A server with the console takes samples; another one has none and no timer.
 */

#define HISTORY_PERIOD_MS 5000u
#define HISTORY_SAMPLES 180u

struct buf;
struct server_history;

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

/* -------------------------------------------------------------------------------------------------
 * Calls of tools as the operator sees them: metrics, and tidings://self/tools.
 */

struct metrics_text;

void server_tool_stats_put(struct metrics_text *m, const struct tool_counts *tools);
/* tidings://self/tools, finished later. */
void server_tool_stats_read(struct tidings_server *server, struct tidings_read *read);

/* -------------------------------------------------------------------------------------------------
 * For whoever looks after the server.
 */

struct metrics_listener;
struct tidings_provider;

struct server_admin {
    struct tidings_provider *status; /* tidings://self/ */
    struct process_probe process;
    struct console console;           /* behind settings.http.console_page */
    struct metrics_listener *metrics; /* NULL: none */
    struct server_history *history;   /* of the last minutes; NULL: none is kept */
    bool has_publish_tools, has_change_tools, has_end_peer;
};

#endif
