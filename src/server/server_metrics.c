/* SPDX-License-Identifier: MIT
 *
 * Gathers and writes the metrics.
 */
#include "server/server_metrics.h"

#include <stdio.h>
#include <sys/stat.h>

#include <tidings/tidings.h>

#include "access/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "protocol/method.h"
#include "server/figures.h"
#include "server/metrics_text.h"
#include "server/server_health.h"
#include "server/server_nodes.h"
#include "server/server_private.h"
#include "server/server_tool_figures.h"
#include "store/keeper.h"
#include "store/shared.h"

#define METRICS_MAX (4u << 20)

struct metrics_ask {
    struct tidings_server *server;
    server_metrics_fn fn;
    void *user;
    bool is_openmetrics;
};

static void metrics_process(struct metrics_text *m, struct tidings_server *s)
{
    struct process_figures p;
    process_probe_read(&s->process, &p);
    metrics_begin(m, METRICS_COUNTER, "process_cpu_seconds", "Time of all CPUs.");
    metrics_put_seconds(m, NULL, p.cpu_us);
    metrics_put_one(m, METRICS_GAUGE, "process_resident_memory_bytes", "Resident memory.",
                    p.resident_bytes);
    metrics_put_one(m, METRICS_GAUGE, "process_virtual_memory_bytes", "Virtual memory.",
                    p.virtual_bytes);
    metrics_put_one(m, METRICS_GAUGE, "process_open_fds", "Open descriptors.", p.open_fds);
    metrics_put_one(m, METRICS_GAUGE, "process_max_fds", "Most descriptors.", p.max_fds);
    metrics_begin(m, METRICS_GAUGE, "process_start_time_seconds", "When it began, in Unix time.");
    metrics_put_seconds(m, NULL, (uint64_t)p.start_ms * 1000);
}

static void metrics_server(struct metrics_text *m, const struct tidings_server *s)
{
    char labels[METRICS_LABELS] = "";
    const char *reasons[HEALTH_REASONS];
    metrics_label(labels, "version", tidings_str(tidings_version()));
    metrics_begin(m, METRICS_GAUGE, "tidings_build_info", "The version that runs.");
    metrics_put(m, labels, 1);
    metrics_put_one(m, METRICS_GAUGE, "tidings_ready", "1: it can do its work (/readyz).",
                    server_health_reasons(s, reasons) == 0);
    metrics_put_one(m, METRICS_GAUGE, "tidings_workers", "Threads that serve.", s->worker_count);
}

static void metrics_tasks(struct metrics_text *m, struct tidings_server *s)
{
    size_t count[TASK_CANCELLED + 1];
    tasks_count(hub_tasks(s->hub), count);
    metrics_begin(m, METRICS_GAUGE, "tidings_tasks", "Tasks that are kept, by status.");
    for (size_t i = 0; i <= TASK_CANCELLED; i++) {
        char labels[METRICS_LABELS] = "";
        metrics_label(labels, "status", tidings_str(task_status_name((enum task_status)i)));
        metrics_put(m, labels, count[i]);
    }
}

static void metrics_clients(struct metrics_text *m, const struct figures *f,
                            const struct limit_counters *limits)
{
    static const char *const kinds[] = {
        [PATTERN_LITERAL] = "literal",   [PATTERN_CONTAINER] = "container",
        [PATTERN_GLOB] = "glob",         [PATTERN_GLOB_Q] = "query",
        [PATTERN_TEMPLATE] = "template", [PATTERN_REGEX] = "regex"};
    _Static_assert(sizeof(kinds) / sizeof(kinds[0]) <= WORKER_KINDS, "each is counted");
    const struct worker_stats *w = &f->all.stats;
    metrics_put_one(m, METRICS_GAUGE, "tidings_connections", "Open connections.",
                    limit_in_use(limits, LIMIT_CONNECTIONS));
    metrics_put_one(m, METRICS_GAUGE, "tidings_sessions", "Sessions of the legacy era.",
                    w->sessions);
    metrics_put_one(m, METRICS_GAUGE, "tidings_streams", "Answers over HTTP that are open streams.",
                    w->streams);
    metrics_put_one(m, METRICS_GAUGE, "tidings_peers", "Clients that are there.", w->subscribers);
    metrics_begin(m, METRICS_GAUGE, "tidings_subscriptions", "Subscriptions, by how they match.");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char labels[METRICS_LABELS] = "";
        metrics_label(labels, "kind", tidings_str(kinds[i]));
        metrics_put(m, labels, w->by_kind[i]);
    }
    metrics_put_one(m, METRICS_GAUGE, "tidings_subscription_index_bytes",
                    "Memory of what finds subscriptions.", f->all.index_bytes);
    metrics_put_one(m, METRICS_COUNTER, "tidings_received_bytes", "Bytes of clients, without TLS.",
                    w->bytes_in);
    metrics_put_one(m, METRICS_COUNTER, "tidings_sent_bytes", "Bytes that the kernel took.",
                    f->all.bytes_out);
}

static void metrics_delivery(struct metrics_text *m, const struct figures *f)
{
    const struct worker_stats *w = &f->all.stats;
    char worker[32];
    metrics_put_one(m, METRICS_COUNTER, "tidings_changes", "Changes that were numbered.",
                    w->changes);
    metrics_put_one(m, METRICS_COUNTER, "tidings_deliveries", "Notifications of changes written.",
                    w->deliveries);
    metrics_put_one(m, METRICS_COUNTER, "tidings_merges",
                    "Notifications that became one with another while they waited.", w->coalesced);
    metrics_put_one(m, METRICS_COUNTER, "tidings_truncations",
                    "Subscriptions told to read again, because too much waited.", w->truncated);
    metrics_put_one(m, METRICS_COUNTER, "tidings_cuts",
                    "Connections that were cut because they took nothing.", w->cut);
    metrics_put_one(m, METRICS_GAUGE, "tidings_peers_behind",
                    "Clients whose streams did not take all there was.", f->all.behind);
    metrics_put_one(m, METRICS_GAUGE, "tidings_notifications_waiting",
                    "Notifications that wait for them.", f->all.waiting);
    metrics_begin(m, METRICS_GAUGE, "tidings_oldest_waiting_seconds",
                  "Age of the oldest notification that waits.");
    for (size_t i = 0; i < f->count; i++) {
        snprintf(worker, sizeof(worker), "worker=\"%zu\"", i);
        metrics_put_seconds(m, worker, f->workers[i].oldest_us);
    }
    metrics_begin(m, METRICS_HISTOGRAM, "tidings_delivery_lag_seconds",
                  "From a notification being due (its change numbered, its window over) to its "
                  "being written.");
    metrics_put_durations(m, NULL, &f->all.lag.waited);
    metrics_begin(m, METRICS_HISTOGRAM, "tidings_turn_duration_seconds",
                  "Turns of a worker's loop: how long everybody else of it waits.");
    for (size_t i = 0; i < f->count; i++) {
        snprintf(worker, sizeof(worker), "worker=\"%zu\"", i);
        metrics_put_durations(m, worker, &f->workers[i].turns);
    }
}

static void metrics_operations(struct metrics_text *m, const struct operations *all)
{
    static const char *const eras[OPERATIONS_ERAS] = {"legacy", "modern"};
    static const char *const outcomes[] = {"ok", "error"};
    metrics_begin(m, METRICS_HISTOGRAM, "mcp_server_operation_duration_seconds",
                  "Requests of clients, by method, era and outcome.");
    for (unsigned i = 0; i < OPERATIONS_METHODS && method_name(i); i++) {
        for (unsigned k = 0; k < OPERATIONS_ERAS * 2; k++) {
            const struct durations *d = &all->at[i][k / 2][k % 2];
            char labels[METRICS_LABELS] = "";
            if (durations_total(d) > 0) {
                metrics_label(labels, "method", tidings_str(method_name(i)));
                metrics_label(labels, "era", tidings_str(eras[k / 2]));
                metrics_label(labels, "outcome", tidings_str(outcomes[k % 2]));
                metrics_put_durations(m, labels, d);
            }
        }
    }
}

static void metrics_refusals(struct metrics_text *m, const struct figures *f,
                             const struct limit_counters *limits)
{
    static const char *const kinds[] = {[FAILURE_RPC] = "rpc",
                                        [FAILURE_HTTP] = "http",
                                        [FAILURE_CLOSE] = "close",
                                        [FAILURE_RESULT] = "result"};
    metrics_begin(m, METRICS_COUNTER, "tidings_failures",
                  "Requests that failed, by method and code.");
    for (size_t i = 0; i < f->failure_count; i++) {
        const struct figures_failure *row = &f->failures[i];
        char labels[METRICS_LABELS] = "", code[16];
        snprintf(code, sizeof(code), "%d", row->code);
        bool is_known = row->method && strcmp(row->method, "unknown") != 0;
        metrics_label(labels, "method", tidings_str(is_known ? row->method : "other"));
        metrics_label(labels, "kind", tidings_str(kinds[row->kind]));
        metrics_label(labels, "code", tidings_str(code));
        metrics_put(m, labels, row->count);
    }
    metrics_begin(m, METRICS_COUNTER, "tidings_limit_reached", "How often a limit was reached.");
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        char labels[METRICS_LABELS] = "";
        metrics_label(labels, "limit", tidings_str(limit_name((enum limit)i)));
        metrics_put(m, labels, __atomic_load_n(&limits->hits[i], __ATOMIC_RELAXED));
    }
    metrics_begin(m, METRICS_GAUGE, "tidings_limit_in_use", "How much of a limit is in use.");
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        char labels[METRICS_LABELS] = "";
        if (limit_is_counted((enum limit)i)) {
            metrics_label(labels, "limit", tidings_str(limit_name((enum limit)i)));
            metrics_put(m, labels, limit_in_use(limits, (enum limit)i));
        }
    }
}

uint64_t server_metrics_store_bytes(const struct tidings_server *s)
{
    static const char *const parts[] = {"", "-wal"};
    uint64_t bytes = 0;
    char path[4096];
    for (size_t i = 0; s->has_file && i < 2; i++) {
        struct stat st;
        snprintf(path, sizeof(path), "%s%s", config_store(&s->config), parts[i]);
        bytes += stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    }
    return bytes;
}

static void metrics_nodes(struct metrics_text *m, const struct tidings_server *s)
{
    uint64_t count = 0, lag_us = 0;
    char labels[METRICS_LABELS] = "";
    struct shared_heard heard;
    server_nodes_get(s->nodes, &count, &lag_us);
    metrics_put_one(m, METRICS_GAUGE, "tidings_nodes", "Nodes that share the store.", count);
    metrics_label(labels, "node", server_nodes_name(s->nodes));
    metrics_begin(m, METRICS_GAUGE, "tidings_node_lag_seconds",
                  "How far this node is behind what the others wrote.");
    metrics_put_seconds(m, labels, lag_us);
    keeper_get_heard(s->keeper, &heard);
    metrics_begin(m, METRICS_COUNTER, "tidings_node_follow",
                  "How this node came by what others wrote: told with the notification, asked for; "
                  "refused: notifications that no node sent.");
    metrics_put(m, "how=\"told\"", heard.told);
    metrics_put(m, "how=\"asked\"", heard.asked);
    metrics_put(m, "how=\"refused\"", heard.refused);
}

static void metrics_store(struct metrics_text *m, const struct tidings_server *s)
{
    struct durations commits;
    uint64_t lost = 0;
    if (!s->keeper) {
        return;
    }
    keeper_get_commits(s->keeper, &commits, &lost);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_up",
                    "1: the store can be reached and written.",
                    !keeper_is_failing(s->keeper) && !hub_is_store_unreachable(s->hub));
    metrics_begin(m, METRICS_HISTOGRAM, "tidings_store_commit_duration_seconds",
                  "Commits of the store, with waiting for the disk or the database.");
    metrics_put_durations(m, NULL, &commits);
    metrics_put_one(m, METRICS_COUNTER, "tidings_store_commits_lost", "Commits that failed.", lost);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_data_loss",
                    "1: acknowledged writes were lost before this start, and that was accepted.",
                    s->has_lost_data);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_size_bytes",
                    "Size of the file of the store; 0: it is none.", server_metrics_store_bytes(s));
    if (s->nodes) {
        metrics_nodes(m, s);
    }
}

static void metrics_gathered(void *user, const struct figures *f)
{
    struct metrics_ask ask = *(struct metrics_ask *)user;
    mem_free(user);
    struct buf text;
    struct metrics_text m = {.out = &text, .is_openmetrics = ask.is_openmetrics};
    const struct limit_counters *limits = hub_limit_counters(ask.server->hub);
    buf_init(&text, METRICS_MAX);
    if (f && f->operations) {
        metrics_process(&m, ask.server);
        metrics_server(&m, ask.server);
        metrics_clients(&m, f, limits);
        metrics_tasks(&m, ask.server);
        metrics_delivery(&m, f);
        metrics_operations(&m, f->operations);
        server_tool_figures_put(&m, f->tools);
        metrics_refusals(&m, f, limits);
        metrics_store(&m, ask.server);
        metrics_end(&m);
    }
    ask.fn(ask.user, f && f->operations && !text.failed ? &text : NULL);
    buf_deinit(&text);
}

void server_metrics_gather(struct tidings_server *s, bool is_openmetrics, server_metrics_fn fn,
                           void *user)
{
    struct metrics_ask *ask = mem_zalloc(sizeof(*ask));
    if (!ask) {
        fn(user, NULL);
        return;
    }
    *ask = (struct metrics_ask){s, fn, user, is_openmetrics};
    figures_gather_all(s->cores, s->worker_count, metrics_gathered, ask);
}

/* Which of the two formats comes first among those that are accepted; plain where neither does. */
static bool metrics_wants_open(const struct tidings_read *read)
{
    const struct read_options *o = read->options;
    for (size_t i = 0; o && i < o->format_count; i++) {
        if (str_eq_nocase(o->formats[i], STR("application/openmetrics-text"))) {
            return true;
        }
        if (str_starts(o->formats[i], STR("text/")) || str_starts(o->formats[i], STR("*"))) {
            return false;
        }
    }
    return false;
}

static void metrics_were_read(void *user, struct buf *text)
{
    struct tidings_read *read = user;
    struct tidings_error err = {0};
    struct tidings_resource about = {
        .name = STR("metrics"),
        .mime_type = metrics_wants_open(read) ? STR(METRICS_TYPE_OPEN) : STR(METRICS_TYPE_PLAIN)};
    int rc = text ? tidings_read_text(read, &about, buf_str(text), &err)
                  : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    tidings_read_done(read, rc, &err);
}

void server_metrics_read(struct tidings_server *s, struct tidings_read *read)
{
    server_metrics_gather(s, metrics_wants_open(read), metrics_were_read, read);
}
