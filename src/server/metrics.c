/* SPDX-License-Identifier: MIT
 *
 * Gathers and writes the metrics.
 */
#include "server/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cluster/cluster.h"
#include "cluster/nodes.h"
#include "engine/catalog/job_read.h"
#include "engine/protocol/method.h"
#include "formats/http.h"
#include "security/limits.h"
#include "server/server.h"
#include "server/server_internal.h"
#include "server/stats.h"
#include "store/commit_thread.h"
#include "store/store.h"
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
    struct process_figures p;
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
    struct shared_heard heard;
    cluster_nodes_get(s->store.cluster, &count, &lag_us);
    metrics_put_one(m, METRICS_GAUGE, "tidings_nodes", "Nodes that share the store.", count);
    metrics_label(labels, "node", cluster_nodes_name(s->store.cluster));
    metrics_begin(m, METRICS_GAUGE, "tidings_node_lag_seconds",
                  "How far this node is behind what the others wrote.");
    metrics_put_seconds(m, labels, lag_us);
    keeper_get_heard(s->store.keeper, &heard);
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
    if (!s->store.keeper) {
        return;
    }
    keeper_get_commits(s->store.keeper, &commits, &lost);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_up",
                    "1: the store can be reached and written.",
                    !keeper_is_failing(s->store.keeper) && !hub_is_store_unreachable(s->hub));
    metrics_begin(m, METRICS_HISTOGRAM, "tidings_store_commit_duration_seconds",
                  "Commits of the store, with waiting for the disk or the database.");
    metrics_put_durations(m, NULL, &commits);
    metrics_put_one(m, METRICS_COUNTER, "tidings_store_commits_lost", "Commits that failed.", lost);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_data_loss",
                    "1: acknowledged writes were lost before this start, and that was accepted.",
                    s->store.has_lost_data);
    metrics_put_one(m, METRICS_GAUGE, "tidings_store_size_bytes",
                    "Size of the file of the store; 0: it is none.", server_metrics_store_bytes(s));
    if (cluster_is_joined(s->store.cluster)) {
        metrics_nodes(m, s);
    }
}

static void metrics_gathered(void *user, const struct figures *f)
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
        server_tool_figures_put(&m, f->tools);
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
    figures_gather_all(s->workers.cores, s->workers.count, metrics_gathered, ask);
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

/* -------------------------------------------------------------------------------------------------
 * Accepts, reads one head, answers, closes. The metrics are gathered by other threads, which send
 * the text back in a letter; a connection that went meanwhile waits for it to be freed.
 */

struct metrics_listener {
    struct tidings_server *server;
    struct endpoint at;
    struct loop_poll *poll;
    struct list conns;
    size_t count;
};

struct metrics_conn {
    struct list link;
    struct metrics_listener *owner; /* NULL: it was closed, and waits for its letter */
    struct letter letter;           /* the text is there, … */
    struct mailbox *reply_to;       /* … and goes here */
    struct loop_poll *poll;
    struct loop_timer *deadline;
    int fd;
    bool is_asked, is_head;
    bool is_openmetrics, is_gathering;
    size_t len, scanned, written;
    struct buf out;
    char in[METRICS_HEAD_MAX];
};

static void metrics_conn_free(struct metrics_conn *c)
{
    buf_deinit(&c->out);
    mem_free(c);
}

static void metrics_conn_close(struct metrics_conn *c)
{
    list_remove(&c->link);
    c->owner->count--;
    c->owner = NULL;
    loop_poll_close(c->poll);
    loop_timer_close(c->deadline);
    close(c->fd);
    if (!c->is_gathering) {
        metrics_conn_free(c);
    }
}

static void metrics_conn_write(struct metrics_conn *c)
{
    while (c->written < c->out.len) {
        ssize_t n = send(c->fd, c->out.ptr + c->written, c->out.len - c->written, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            (void)loop_poll_want(c->poll, LOOP_WRITE);
            return;
        }
        if (n < 0) {
            break;
        }
        c->written += (size_t)n;
    }
    (void)shutdown(c->fd, SHUT_WR);
    metrics_conn_close(c);
}

static void metrics_answer(struct metrics_conn *c, int status, const char *type, const char *fields,
                           struct tidings_str body)
{
    http_put_status(&c->out, status);
    buf_putf(&c->out,
             "Content-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
             "X-Content-Type-Options: nosniff\r\n%sConnection: close\r\n\r\n",
             type, body.len, fields);
    if (!c->is_head) {
        buf_puts(&c->out, body);
    }
    if (c->out.failed) {
        metrics_conn_close(c);
        return;
    }
    metrics_conn_write(c);
}

static void metrics_refuse(struct metrics_conn *c, int status, const char *fields, const char *text)
{
    metrics_answer(c, status, "text/plain; charset=utf-8", fields, tidings_str(text));
}

/* ---- what is asked --------------------------------------------------------------------------- */

static void metrics_text_deliver(struct letter *letter, void *owner)
{
    (void)owner;
    struct metrics_conn *c = list_entry(letter, struct metrics_conn, letter);
    c->is_gathering = false;
    if (!c->owner) {
        metrics_conn_free(c);
    } else if (c->out.len == 0 || c->out.failed) {
        buf_deinit(&c->out);
        buf_init(&c->out, METRICS_HEAD_MAX);
        metrics_refuse(c, 503, "", "out of memory\n");
    } else {
        struct buf text = c->out;
        buf_init(&c->out, text.len + METRICS_HEAD_MAX);
        metrics_answer(c, 200, c->is_openmetrics ? METRICS_TYPE_OPEN : METRICS_TYPE_PLAIN, "",
                       buf_str(&text));
        buf_deinit(&text);
    }
}

static void metrics_text_drop(struct letter *letter)
{
    struct metrics_conn *c = list_entry(letter, struct metrics_conn, letter);
    c->is_gathering = false;
    if (!c->owner) {
        metrics_conn_free(c);
    }
}

/* Any thread. */
static void metrics_text_made(void *user, struct buf *text)
{
    struct metrics_conn *c = user;
    if (text) {
        buf_init(&c->out, text->len + 1);
        buf_puts(&c->out, buf_str(text));
    }
    c->letter = (struct letter){.deliver = metrics_text_deliver, .drop = metrics_text_drop};
    mailbox_send(c->reply_to, &c->letter);
}

static void metrics_answer_health(struct metrics_conn *c, bool is_live)
{
    char text[HEALTH_TEXT];
    int status = server_health_text(c->owner->server, is_live, true, text);
    metrics_refuse(c, status, "", text);
}

static void metrics_run(struct metrics_conn *c, const struct http_request *req)
{
    struct tidings_server *s = c->owner->server;
    struct arrival at;
    struct tidings_str accept = http_header(req, "accept", NULL);
    c->is_head = req->method == HTTP_HEAD;
    origin_check_arrival(c->fd, &at);
    if (!origin_check_knows_host(&s->settings.http.origin_check, req->host) &&
        !origin_check_own_host(&at, NULL, req->host)) {
        metrics_refuse(c, 403, "", "this Host is not served here; see --allow-host\n");
    } else if (req->method != HTTP_GET && req->method != HTTP_HEAD) {
        metrics_refuse(c, 405, "Allow: GET, HEAD\r\n", "GET, and nothing else\n");
    } else if (str_eq(req->path, STR("/livez")) || str_eq(req->path, STR("/readyz"))) {
        metrics_answer_health(c, str_eq(req->path, STR("/livez")));
    } else if (!str_eq(req->path, STR("/metrics"))) {
        metrics_refuse(c, 404, "", "here are /metrics, /livez and /readyz\n");
    } else {
        c->is_openmetrics = accept.ptr && http_list_has(accept, "application/openmetrics-text");
        c->is_gathering = true;
        buf_deinit(&c->out);
        server_metrics_gather(s, c->is_openmetrics, metrics_text_made, c);
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

static void metrics_on_ready(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct metrics_conn *c = user;
    struct http_request req;
    struct http_fault fault;
    if (c->is_asked && c->out.len > 0 && !c->is_gathering) {
        metrics_conn_write(c);
        return;
    }
    ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || c->is_asked) { /* it has gone, or says more than it may */
        metrics_conn_close(c);
        return;
    }
    c->len += (size_t)n;
    ptrdiff_t head = http_parse_head(c->in, c->len, &c->scanned, &req, &fault);
    if (head == 0 && c->len < sizeof(c->in)) {
        return;
    }
    c->is_asked = true;
    (void)loop_poll_want(c->poll, 0);
    if (head < 0) {
        metrics_refuse(c, fault.status, "", "this is no request of HTTP/1.1\n");
    } else if (head == 0) {
        metrics_refuse(c, 431, "", "the head of the request is too long\n");
    } else {
        metrics_run(c, &req);
    }
}

static void metrics_on_deadline(struct loop_timer *timer, void *user)
{
    (void)timer;
    metrics_conn_close(user);
}

static void metrics_accept(struct metrics_listener *l, int fd)
{
    struct metrics_conn *c = l->count < METRICS_CONNECTIONS ? mem_zalloc(sizeof(*c)) : NULL;
    if (c) {
        struct loop *loop = l->server->loop;
        c->fd = fd;
        c->owner = l;
        c->reply_to = hub_mailbox(l->server->hub);
        buf_init(&c->out, METRICS_HEAD_MAX);
        c->poll = loop_poll_open(loop, fd, metrics_on_ready, c, NULL);
        c->deadline = loop_timer_open(loop, metrics_on_deadline, c);
        if (c->poll && c->deadline) {
            list_append(&l->conns, &c->link);
            l->count++;
            loop_timer_start(c->deadline, l->server->config.header_timeout_ms, 0);
            (void)loop_poll_want(c->poll, LOOP_READ);
            return;
        }
        loop_poll_close(c->poll);
        loop_timer_close(c->deadline);
        mem_free(c);
    }
    close(fd);
}

static void metrics_on_connection(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct metrics_listener *l = user;
    for (unsigned i = 0; i < METRICS_CONNECTIONS; i++) {
        int fd = accept4(l->at.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        metrics_accept(l, fd);
    }
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
    l->server = s;
    l->at.fd = -1;
    list_init(&l->conns);
    s->admin.metrics = l;
    const struct endpoint_address at = {
        .option = "--metrics ADDR:PORT", .host = address.host, .port = address.port};
    rc = endpoint_open(&l->at, &at, err);
    l->poll = rc < 0 ? NULL : loop_poll_open(s->loop, l->at.fd, metrics_on_connection, l, err);
    if (!l->poll || loop_poll_want(l->poll, LOOP_READ) < 0) {
        server_metrics_close(s);
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char url[96];
    bool is_v6 = strchr(l->at.host, ':') != NULL;
    snprintf(url, sizeof(url), "http://%s%s%s:%u/metrics", is_v6 ? "[" : "", l->at.host,
             is_v6 ? "]" : "", l->at.port);
    log_info(LOG_TRANSPORT, "metrics", KV("url", url));
    if (!endpoint_is_local(&l->at)) {
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
    list_each (it, next, &l->conns) {
        metrics_conn_close(list_entry(it, struct metrics_conn, link));
    }
    loop_poll_close(l->poll);
    endpoint_close(&l->at);
    mem_free(l);
    s->admin.metrics = NULL;
}
