/* SPDX-License-Identifier: MIT
 *
 * A ring of samples. The worker that answers last adds one, and whoever reads writes them all:
 * both are rare and short, so a lock guards the ring.
 */
#include "server/server_history.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "catalog/job_read.h"
#include "server/figures.h"
#include "server/server_overview.h"
#include "server/server_private.h"
#include "json/write.h"

#define HISTORY_TEXT_MAX (HISTORY_SAMPLES * 320u + 64u)

struct server_history {
    pthread_mutex_t lock;
    struct loop_timer *timer; /* NULL: nothing is sampled */
    uint64_t added;
    struct history_sample samples[HISTORY_SAMPLES];
};

struct server_history *server_history_create(void)
{
    struct server_history *h = mem_zalloc(sizeof(*h));
    if (h) {
        pthread_mutex_init(&h->lock, NULL);
    }
    return h;
}

void server_history_destroy(struct server_history *h)
{
    if (h) {
        loop_timer_close(h->timer);
        pthread_mutex_destroy(&h->lock);
        mem_free(h);
    }
}

void server_history_add(struct server_history *h, const struct history_sample *sample)
{
    pthread_mutex_lock(&h->lock);
    h->samples[h->added++ % HISTORY_SAMPLES] = *sample;
    pthread_mutex_unlock(&h->lock);
}

static void history_put(struct jw *w, const char *key, uint64_t n)
{
    jw_put_integer(w, tidings_str(key), (int64_t)n);
}

static void history_write_sample(struct jw *w, const struct history_sample *sample)
{
    jw_begin_object(w);
    jw_put_integer(w, STR("nowMs"), sample->at_ms);
    history_put(w, "changes", sample->changes);
    history_put(w, "deliveries", sample->deliveries);
    history_put(w, "requests", sample->requests);
    history_put(w, "streams", sample->streams);
    history_put(w, "memoryBytes", sample->memory_bytes);
    jw_key(w, STR("lagMs"));
    jw_begin_object(w);
    server_overview_put_ms(w, "now", sample->oldest_us);
    if (sample->has_written) {
        server_overview_put_ms(w, "p99", sample->p99_us);
    } else {
        jw_put_raw(w, STR("p99"), STR("null"));
    }
    jw_end_object(w);
    jw_end_object(w);
}

void server_history_write(struct server_history *h, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    history_put(&w, "everyMs", HISTORY_PERIOD_MS);
    jw_key(&w, STR("samples"));
    jw_begin_array(&w);
    if (h) {
        pthread_mutex_lock(&h->lock);
        uint64_t first = h->added > HISTORY_SAMPLES ? h->added - HISTORY_SAMPLES : 0;
        for (uint64_t i = first; i < h->added; i++) {
            history_write_sample(&w, &h->samples[i % HISTORY_SAMPLES]);
        }
        pthread_mutex_unlock(&h->lock);
    }
    jw_end_array(&w);
    jw_end_object(&w);
}

static void history_gathered(void *user, const struct figures *f)
{
    struct tidings_server *s = user;
    struct process_figures p;
    if (!f) {
        return; /* without memory this one is missing */
    }
    process_probe_read(&s->process, &p);
    const struct worker_figures *all = &f->all;
    const struct history_sample sample = {
        .at_ms = clock_wall_ms(),
        .changes = all->stats.changes,
        .deliveries = all->stats.deliveries,
        .requests = all->stats.requests,
        .streams = all->stats.streams,
        .memory_bytes = p.resident_bytes,
        .oldest_us = all->oldest_us,
        .p99_us = lag_counts_quantile(&all->recent, 990),
        .has_written = durations_total(&all->recent.waited) > 0,
    };
    server_history_add(s->history, &sample);
}

static void history_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct tidings_server *s = user;
    figures_gather(s->cores, s->worker_count, history_gathered, s);
}

int server_history_open(struct tidings_server *s, struct tidings_error *err)
{
    s->history = server_history_create();
    struct loop_timer *timer = s->history ? loop_timer_open(s->loop, history_on_timer, s) : NULL;
    if (!timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->history->timer = timer;
    loop_timer_start(timer, 0, HISTORY_PERIOD_MS);
    return 0;
}

void server_history_stop(struct tidings_server *s)
{
    if (s->history) {
        loop_timer_close(s->history->timer);
        s->history->timer = NULL;
    }
}

void server_history_read(struct tidings_server *s, struct tidings_read *read)
{
    struct tidings_error err = {0};
    struct tidings_resource about = {0};
    struct buf text;
    buf_init(&text, HISTORY_TEXT_MAX);
    server_history_write(s->history, &text);
    about.name = STR("history");
    about.mime_type = STR("application/json");
    int rc = buf_check(&text, "the server's history", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    tidings_read_done(read, rc, &err);
    buf_deinit(&text);
}
