/* SPDX-License-Identifier: MIT
 *
 * Gathers and writes the metrics.
 */
#include "server/metrics.h"

#include <stdio.h>
#include <sys/stat.h>

#include <tidings/tidings.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/cluster.h"
#include "cluster/nodes.h"
#include "engine/catalog/job_read.h"
#include "engine/engine.h"
#include "engine/protocol/method.h"
#include "engine/shared.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "server/server.h"
#include "server/server_internal.h"
#include "server/stats.h"
#include "store/commit_thread.h"
#include "store/store.h"
#include "transport/http.h"
#include "transport/listener.h"

/* -------------------------------------------------------------------------------------------------
 * Writes families of metrics and their samples, a line each.
 */

void metrics_begin(struct metrics_text *m, enum metrics_kind kind, const char *name,
                   const char *help)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    const char *suffix = kind == METRICS_COUNTER && !m->is_openmetrics ? "_total" : "";
    m->name = name;
    m->kind = kind;
    buf_putf(m->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix,
             kinds[kind]);
}

static void metrics_line(struct metrics_text *m, const char *suffix, const char *labels,
                         const char *value)
{
    buf_putf(m->out, "%s%s%s%s%s %s\n", m->name, suffix, labels && *labels ? "{" : "",
             labels ? labels : "", labels && *labels ? "}" : "", value);
}

void metrics_put(struct metrics_text *m, const char *labels, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    metrics_line(m, m->kind == METRICS_COUNTER ? "_total" : "", labels, text);
}

static void metrics_seconds(char out[32], uint64_t us)
{
    snprintf(out, 32, "%llu.%06llu", (unsigned long long)(us / 1000000),
             (unsigned long long)(us % 1000000));
}

static void metrics_put_seconds(struct metrics_text *m, const char *labels, uint64_t us)
{
    char text[32];
    metrics_seconds(text, us);
    metrics_line(m, m->kind == METRICS_COUNTER ? "_total" : "", labels, text);
}

void metrics_put_durations(struct metrics_text *m, const char *labels, const struct durations *d)
{
    static const char *const bounds[DURATIONS_BUCKETS] = {
        "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1",
        "0.25",   "0.5",     "1.0",    "2.5",   "5.0",    "10.0",  "30.0", "60.0",  "+Inf"};
    uint64_t count = 0;
    char text[32];
    for (unsigned i = 0; i < DURATIONS_BUCKETS; i++) {
        count += d->buckets[i];
        buf_putf(m->out, "%s_bucket{%s%sle=\"%s\"} %llu\n", m->name, labels ? labels : "",
                 labels && *labels ? "," : "", bounds[i], (unsigned long long)count);
    }
    metrics_seconds(text, d->sum_us);
    metrics_line(m, "_sum", labels, text);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)count);
    metrics_line(m, "_count", labels, text);
}

static void metrics_put_one(struct metrics_text *m, enum metrics_kind kind, const char *name,
                            const char *help, uint64_t value)
{
    metrics_begin(m, kind, name, help);
    metrics_put(m, NULL, value);
}

/* A family with one sample. */
static void metrics_end(struct metrics_text *m)
{
    if (m->is_openmetrics) {
        buf_puts(m->out, STR("# EOF\n"));
    }
}

void metrics_label(char out[METRICS_LABELS], const char *name, struct tidings_str value)
{
    size_t at = strlen(out);
    at += (size_t)snprintf(out + at, METRICS_LABELS - at, "%s%s=\"", at > 0 ? "," : "", name);
    for (size_t i = 0; i < value.len && i < 128 && at + 4 < METRICS_LABELS; i++) {
        char c = value.ptr[i];
        if (c == '"' || c == '\\') {
            out[at++] = '\\';
        }
        out[at++] = (char)(c < 0x20 || c > 0x7e ? '?' : c);
    }
    out[at++] = '"';
    out[at] = '\0';
}

/* ---------------------------------------------------------------------------------------------- */

#define METRICS_MAX (4u << 20)

struct metrics_ask {
    struct tidings_server *server;
    server_metrics_fn fn;
    void *user;
    bool is_openmetrics;
};

static void metrics_process(struct metrics_text *m, struct tidings_server *s)
{
    struct process_stats p;
    process_probe_read(&s->admin.process, &p);
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
    metrics_put_one(m, METRICS_GAUGE, "tidings_workers", "Threads that serve.", s->workers.count);
}

static void metrics_tasks(struct metrics_text *m, struct tidings_server *s)
{
    size_t count[TASK_CANCELLED + 1];
    tasks_count(s->shared->tasks, count);
    metrics_begin(m, METRICS_GAUGE, "tidings_tasks", "Tasks that are kept, by status.");
    for (size_t i = 0; i <= TASK_CANCELLED; i++) {
        char labels[METRICS_LABELS] = "";
        metrics_label(labels, "status", tidings_str(task_status_name((enum task_status)i)));
        metrics_put(m, labels, count[i]);
    }
}

static void metrics_clients(struct metrics_text *m, const struct server_stats *f,
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
    metrics_put_one(m, METRICS_GAUGE, "tidings_peers", "Connected clients.", w->subscribers);
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

static void metrics_delivery(struct metrics_text *m, const struct server_stats *f)
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
                  "Duration of the turns of a worker's loop. Its other clients wait that long.");
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

static void metrics_refusals(struct metrics_text *m, const struct server_stats *f,
                             const struct limit_counters *limits)
{
    static const char *const kinds[] = {[FAILURE_RPC] = "rpc",
                                        [FAILURE_HTTP] = "http",
                                        [FAILURE_CLOSE] = "close",
                                        [FAILURE_RESULT] = "result"};
    metrics_begin(m, METRICS_COUNTER, "tidings_failures",
                  "Requests that failed, by method and code.");
    for (size_t i = 0; i < f->failure_count; i++) {
        const struct stats_failure *row = &f->failures[i];
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
    for (size_t i = 0; s->store.has_file && i < 2; i++) {
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
    struct notification_counts notifications;
    cluster_nodes_get(s->store.cluster, &count, &lag_us);
    metrics_put_one(m, METRICS_GAUGE, "tidings_nodes", "Nodes that share the store.", count);
    metrics_label(labels, "node", cluster_nodes_name(s->store.cluster));
    metrics_begin(m, METRICS_GAUGE, "tidings_node_lag_seconds",
                  "How far this node is behind what the others wrote.");
    metrics_put_seconds(m, labels, lag_us);
    commit_thread_get_notifications(s->store.commit_thread, &notifications);
    metrics_begin(m, METRICS_COUNTER, "tidings_node_follow",
                  "How this node came by what others wrote: told with the notification, asked for; "
                  "refused: notifications that no node sent.");
    metrics_put(m, "how=\"told\"", notifications.applied);
    metrics_put(m, "how=\"asked\"", notifications.asked);
    metrics_put(m, "how=\"refused\"", notifications.refused);
}

static void metrics_store(struct metrics_text *m, const struct tidings_server *s)
{
    struct durations commits;
    uint64_t lost = 0;
    if (!s->store.commit_thread) {
        return;
    }
    commit_thread_get_commits(s->store.commit_thread, &commits, &lost);
    metrics_put_one(
        m, METRICS_GAUGE, "tidings_store_up", "1: the store can be reached and written.",
        !commit_thread_is_failing(s->store.commit_thread) && !hub_is_store_unreachable(s->hub));
    metrics_begin(m, METRICS_HISTOGRAM, "tidings_store_commit_duration_seconds",
                  "Commits of the store, with waiting for the disk or the database.");
    metrics_put_durations(m, NULL, &commits);
    metrics_put_one(m, METRICS_COUNTER, "tidings_store_commits_lost", "Commits that failed.", lost);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_data_loss",
                    "1: acknowledged writes were lost before this start, and that was accepted.",
                    s->store.has_lost_data);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_size_bytes",
                    "Size of the store file; 0: the store is not a file.",
                    server_metrics_store_bytes(s));
    if (cluster_is_joined(s->store.cluster)) {
        metrics_nodes(m, s);
    }
}

static void metrics_gathered(void *user, const struct server_stats *f)
{
    struct metrics_ask ask = *(struct metrics_ask *)user;
    mem_free(user);
    struct buf text;
    struct metrics_text m = {.out = &text, .is_openmetrics = ask.is_openmetrics};
    const struct limit_counters *limits = &ask.server->shared->limits;
    buf_init(&text, METRICS_MAX);
    if (f && f->operations) {
        metrics_process(&m, ask.server);
        metrics_server(&m, ask.server);
        metrics_clients(&m, f, limits);
        metrics_tasks(&m, ask.server);
        metrics_delivery(&m, f);
        metrics_operations(&m, f->operations);
        server_tool_stats_put(&m, f->tools);
        metrics_refusals(&m, f, limits);
        metrics_store(&m, ask.server);
        metrics_end(&m);
    }
    ask.fn(ask.user, f && f->operations && !text.failed ? &text : NULL);
    buf_deinit(&text);
}

static void server_metrics_gather(struct tidings_server *s, bool is_openmetrics,
                                  server_metrics_fn fn, void *user)
{
    struct metrics_ask *ask = mem_zalloc(sizeof(*ask));
    if (!ask) {
        fn(user, NULL);
        return;
    }
    *ask = (struct metrics_ask){s, fn, user, is_openmetrics};
    server_stats_gather_all(s->workers.cores, s->workers.count, metrics_gathered, ask);
}

/* Returns true if OpenMetrics comes first among the accepted formats; the plain format is the
 * default. */
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

/* -------------------------------------------------------------------------------------------------
 * The listener of --metrics: a listener and an HTTP worker on the server's own thread, with its own
 * limits and accounts, so that clients cannot block it.
 */

struct metrics_listener {
    struct shared shared; /* no tasks and no handlers */
    struct worker_limits limits;
    struct core core;
    struct http_config config;
    struct http_worker *http;
    struct worker_inboxes inboxes;
    struct listener_protocol protocol;
    struct reject_list *rejects;
    struct listener *listener;
};

static void metrics_scrape(void *user, bool is_openmetrics,
                           void (*done)(void *user, struct buf *text), void *done_user)
{
    server_metrics_gather(user, is_openmetrics, done, done_user);
}

static int metrics_open(struct metrics_listener *l, struct tidings_server *s,
                        const struct config_address *address, struct tidings_error *err)
{
    uint64_t time = s->config.header_timeout_ms;
    l->config = (struct http_config){
        .origin_check = s->settings.http.origin_check,
        .health = s->settings.http.health,
        .health_user = s->settings.http.health_user,
        .scrape = metrics_scrape,
        .scrape_user = s,
        .scrape_types = {METRICS_TYPE_PLAIN, METRICS_TYPE_OPEN},
        .max_request = METRICS_REQUEST_MAX,
        .whole_timeout_ms = time,
        /* The timeout for the whole exchange expires before these. */
        .header_timeout_ms = 2 * time,
        .body_timeout_ms = 2 * time,
        .idle_timeout_ms = 2 * time,
        .stall_timeout_ms = 2 * time,
    };
    l->core.worker.limits = &l->limits;
    l->shared.quotas = quotas_create(&l->shared.limits);
    l->shared.client_accounts = client_accounts_create();
    l->rejects = reject_list_create(s->loop);
    if (!l->shared.quotas || !l->shared.client_accounts || !l->rejects) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = core_init_pages(&l->core, s->loop, &l->shared, err);
    l->http = rc < 0 ? NULL : http_worker_create(&l->core.worker, &l->config, NULL, NULL, err);
    if (!l->http) {
        return TIDINGS_E_NOMEM;
    }
    l->protocol.kind = LISTENER_HTTP;
    l->inboxes.by_kind[LISTENER_HTTP] = http_worker_inbox(l->http);
    const struct listener_options options = {
        .protocol = &l->protocol,
        .at = {.option = "--metrics ADDR:PORT", .host = address->host, .port = address->port},
        .path = "/metrics",
        .max_connections = METRICS_CONNECTIONS + 1, /* the reserve for Unix sockets */
        .inboxes = &l->inboxes,
        .worker_count = 1,
        .quotas = l->shared.quotas,
        .client_accounts = l->shared.client_accounts,
        .rejects = l->rejects,
    };
    l->listener = listener_open(s->loop, &options, err);
    return l->listener ? 0 : err->code < 0 ? err->code : TIDINGS_E_IO;
}

int server_metrics_listen(struct tidings_server *s, struct tidings_error *err)
{
    const char *where = s->config.metrics;
    struct config_address address;
    bool is_path = where && strcmp(where, "path") == 0;
    if (is_path && !s->config.self) {
        return tidings_fail(
            err, TIDINGS_E_INVALID,
            "--metrics path: it is the resource tidings://self/metrics; add --self");
    }
    if (!where || !*where || is_path) {
        return 0;
    }
    int rc = config_parse_address(tidings_str(where), &address, err);
    rc = rc < 0 ? error_wrap(err, rc, "--metrics ('path', or an address)") : 0;
    struct metrics_listener *l = rc < 0 ? NULL : mem_zalloc(sizeof(*l));
    if (!l) {
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->admin.metrics = l;
    rc = metrics_open(l, s, &address, err);
    if (rc < 0) {
        server_metrics_close(s);
        return rc;
    }
    const char *url = listener_url(l->listener);
    log_info(LOG_TRANSPORT, "metrics", KV("url", url));
    if (!endpoint_is_local(listener_endpoint(l->listener))) {
        log_warn(LOG_TRANSPORT, "metrics are open to the network", KV("url", url));
    }
    return 0;
}

void server_metrics_close(struct tidings_server *s)
{
    struct metrics_listener *l = s->admin.metrics;
    if (!l) {
        return;
    }
    listener_close(l->listener);
    reject_list_destroy(l->rejects);
    http_worker_destroy(l->http);
    if (l->core.worker.loop) {
        core_deinit_pages(&l->core);
    }
    quotas_destroy(l->shared.quotas);
    client_accounts_destroy(l->shared.client_accounts);
    mem_free(l);
    s->admin.metrics = NULL;
}
