/* SPDX-License-Identifier: MIT
 *
 * Writes the overview of a server when all workers have given their numbers.
 */
#include "server/server_overview.h"

#include <tidings/tidings.h>

#include <stdio.h>

#include "access/limit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "server/figures.h"
#include "server/server_health.h"
#include "server/server_metrics.h"
#include "server/server_nodes.h"
#include "server/server_private.h"
#include "store/keeper.h"
#include "json/write.h"

#define OVERVIEW_MAX 65536u

struct overview {
    struct tidings_server *server;
    struct tidings_read *read;
};

static void server_overview_put(struct jw *w, const char *key, uint64_t n)
{
    jw_put_integer(w, tidings_str(key), (int64_t)n);
}

static void overview_put_health(struct jw *w, const struct tidings_server *s)
{
    const char *reasons[HEALTH_REASONS];
    size_t count = server_health_reasons(s, reasons);
    jw_put_bool(w, STR("ready"), count == 0);
    jw_key(w, STR("reasons"));
    jw_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        jw_string(w, tidings_str(reasons[i]));
    }
    jw_end_array(w);
    jw_put_bool(w, STR("draining"), __atomic_load_n(&s->stopping, __ATOMIC_RELAXED));
}

static void overview_put_totals(struct jw *w, const struct worker_figures *f,
                                const struct limit_counters *limits)
{
    uint64_t refusals = 0;
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        refusals += __atomic_load_n(&limits->hits[i], __ATOMIC_RELAXED);
    }
    server_overview_put(w, "changes", f->stats.changes);
    server_overview_put(w, "deliveries", f->stats.deliveries);
    server_overview_put(w, "merged", f->stats.coalesced);
    server_overview_put(w, "truncated", f->stats.truncated);
    server_overview_put(w, "cut", f->stats.cut);
    server_overview_put(w, "requests", f->stats.requests);
    server_overview_put(w, "failures", f->failures);
    if (f->last_failed.at_ms > 0) {
        jw_key(w, STR("lastFailure"));
        failure_last_write(&f->last_failed, w);
    }
    server_overview_put(w, "refusals", refusals);
    server_overview_put(w, "bytesIn", f->stats.bytes_in);
    server_overview_put(w, "bytesOut", f->bytes_out);
    server_overview_put(w, "connections", limit_in_use(limits, LIMIT_CONNECTIONS));
    server_overview_put(w, "sessions", f->stats.sessions);
    server_overview_put(w, "streams", f->stats.streams);
    server_overview_put(w, "subscriptions", f->stats.subscriptions);
    server_overview_put(w, "subscribers", f->stats.subscribers);
    server_overview_put(w, "behind", f->behind);
    server_overview_put(w, "waiting", f->waiting);
}

void server_overview_put_ms(struct jw *w, const char *key, uint64_t us)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(us / 1000),
                     (unsigned long long)(us % 1000));
    jw_put_raw(w, tidings_str(key), tidings_strn(text, (size_t)n));
}

/* Of nothing there is no quantile: null. */
static void server_overview_put_lag(struct jw *w, const struct worker_figures *f)
{
    const struct lag_counts *c = &f->recent;
    const uint64_t values[] = {lag_counts_quantile(c, 500), lag_counts_quantile(c, 990), c->max_us};
    static const char *const names[] = {"p50", "p99", "max"};
    uint64_t written = durations_total(&c->waited);
    jw_key(w, STR("lagMs"));
    jw_begin_object(w);
    server_overview_put_ms(w, "now", f->oldest_us);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (written > 0) {
            server_overview_put_ms(w, names[i], values[i]);
        } else {
            jw_put_raw(w, tidings_str(names[i]), STR("null"));
        }
    }
    server_overview_put(w, "written", written);
    jw_end_object(w);
}

static void overview_put_process(struct jw *w, struct tidings_server *s)
{
    struct process_figures p;
    process_probe_read(&s->process, &p);
    int64_t now = clock_wall_ms();
    jw_put_integer(w, STR("startedMs"), p.start_ms);
    jw_put_integer(w, STR("uptimeMs"), now > p.start_ms ? now - p.start_ms : 0);
    jw_put_integer(w, STR("nowMs"), now);
    server_overview_put(w, "memoryBytes", p.resident_bytes);
    server_overview_put(w, "cpuMs", p.cpu_us / 1000);
    server_overview_put(w, "descriptors", p.open_fds);
}

static void overview_put_store(struct jw *w, const struct tidings_server *s)
{
    jw_key(w, STR("store"));
    jw_begin_object(w);
    bool is_shared = s->keeper && keeper_is_shared(s->keeper);
    jw_put_string(w, STR("kind"),
                  !s->keeper    ? STR("none")
                  : is_shared   ? STR("postgres")
                  : s->has_file ? STR("sqlite")
                                : STR("memory"));
    jw_put_bool(w, STR("ok"),
                !s->keeper || (!keeper_is_failing(s->keeper) && !hub_is_store_unreachable(s->hub)));
    if (s->keeper) {
        struct durations commits;
        uint64_t lost = 0;
        keeper_get_commits(s->keeper, &commits, &lost);
        server_overview_put(w, "commits", durations_total(&commits));
        server_overview_put(w, "lost", lost);
    }
    if (s->has_file) {
        server_overview_put(w, "bytes", server_metrics_store_bytes(s));
    }
    jw_end_object(w);
}

static void overview_write(struct jw *w, struct tidings_server *s, const struct figures *f)
{
    jw_begin_object(w);
    jw_put_string(w, STR("name"), tidings_str(s->config.name));
    jw_put_string(w, STR("version"), tidings_str(tidings_version()));
    if (s->nodes) {
        jw_put_string(w, STR("node"), server_nodes_name(s->nodes));
    }
    overview_put_process(w, s);
    overview_put_health(w, s);
    overview_put_totals(w, &f->all, hub_limit_counters(s->hub));
    server_overview_put_lag(w, &f->all);
    overview_put_store(w, s);
    if (s->nodes) {
        uint64_t count = 0, lag_us = 0;
        server_nodes_get(s->nodes, &count, &lag_us);
        server_overview_put(w, "nodes", count);
        server_overview_put(w, "nodesSilent", server_nodes_silent(s->nodes));
        server_overview_put_ms(w, "nodeLagMs", lag_us);
    }
    server_overview_put(w, "workers", f->count);
    jw_end_object(w);
}

static void overview_gathered(void *user, const struct figures *f)
{
    struct overview *o = user;
    struct tidings_read *read = o->read;
    struct tidings_error err = {0};
    struct buf text;
    struct jw w;
    buf_init(&text, OVERVIEW_MAX);
    int rc = f ? 0 : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        jw_init(&w, &text);
        overview_write(&w, o->server, f);
        struct tidings_resource about = {0};
        about.name = STR("status");
        about.mime_type = STR("application/json");
        rc = buf_check(&text, "the server's state", NULL, &err);
        rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    }
    buf_deinit(&text);
    mem_free(o);
    tidings_read_done(read, rc, &err);
}

void server_overview_read(struct tidings_server *s, struct tidings_read *read)
{
    struct overview *o = mem_zalloc(sizeof(*o));
    if (!o) {
        tidings_read_done(read, TIDINGS_E_NOMEM, NULL);
        return;
    }
    o->server = s;
    o->read = read;
    figures_gather(s->cores, s->worker_count, overview_gathered, o);
}
