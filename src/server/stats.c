/* SPDX-License-Identifier: MIT
 *
 * Asks each worker for its counters, by a thread message, and adds up the answers.
 */
#include "server/stats.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "cluster/cluster.h"
#include "cluster/nodes.h"
#include "engine/catalog/job_read.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/subscriber.h"
#include "engine/protocol/channel.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "formats/json_write.h"
#include "security/failures.h"
#include "security/limits.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/server_internal.h"
#include "store/commit_thread.h"
#include "transport/peer_identity.h"

/* -------------------------------------------------------------------------------------------------
 * Data that a stream has written may still be in the kernel, because its client does not read. Only
 * the kernel knows, so each request for statistics queries the kernel about some of the streams.
 */

/* Streams queried per request, in turn. With more streams, a stalled client is noticed a few
 * requests later, and counts until its next turn. */
#define KERNEL_LAG_ASKED 128u

struct worker;

/* -------------------------------------------------------------------------------------------------
 * Queries the kernel about the process. Counting descriptors takes time proportional to their
 * number, so if the kernel does not report the number (before Linux 6.2) they are counted at most
 * every FDS_COUNT_MS.
 */

#define FDS_COUNT_MS 10000u

/* The start time of the process, from its age in ticks since boot; the current time if
 * unavailable. */
static int64_t process_start_ms(void)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) {
        close(fd);
    }
    int64_t now = clock_wall_ms();
    if (n <= 0) {
        return now;
    }
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* names may contain blanks; the third field follows */
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    unsigned long long ticks = 0;
    struct timespec boot;
    if (!at || sscanf(at, "%llu", &ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0) {
        return now;
    }
    int64_t up_ms = (int64_t)boot.tv_sec * 1000 + boot.tv_nsec / 1000000;
    return now - up_ms + (int64_t)(ticks * 1000u / (unsigned long)sysconf(_SC_CLK_TCK));
}

void process_probe_open(struct process_probe *probe)
{
    *probe = (struct process_probe){
        .statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC),
        .fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        .start_ms = process_start_ms(),
    };
    struct rlimit most;
    probe->max_fds = getrlimit(RLIMIT_NOFILE, &most) == 0 ? most.rlim_cur : 0;
}

void process_probe_close(struct process_probe *probe)
{
    if (probe->statm >= 0) {
        close(probe->statm);
    }
    if (probe->fds >= 0) {
        close(probe->fds);
    }
    probe->statm = probe->fds = -1;
}

static uint64_t process_count_fds(int dir)
{
    uint64_t count = 0;
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 0); /* the sandbox may forbid opening files */
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d) {
        rewinddir(d);
    }
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        count += e->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
        return count - (count > 0); /* the descriptor used for counting */
    }
    if (copy >= 0) {
        close(copy);
    }
    return 0;
}

static uint64_t process_open_fds(struct process_probe *probe)
{
    struct stat st;
    if (probe->fds < 0 || fstat(probe->fds, &st) < 0) {
        return 0;
    }
    if (st.st_size > 0) {
        return (uint64_t)st.st_size;
    }
    uint64_t now = clock_monotonic_ms();
    uint64_t at = __atomic_load_n(&probe->fds_counted_ms, __ATOMIC_RELAXED);
    if ((at == 0 || now - at >= FDS_COUNT_MS) &&
        !__atomic_exchange_n(&probe->is_counting, true, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&probe->fds_counted, process_count_fds(probe->fds), __ATOMIC_RELAXED);
        __atomic_store_n(&probe->fds_counted_ms, now, __ATOMIC_RELAXED);
        __atomic_store_n(&probe->is_counting, false, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&probe->fds_counted, __ATOMIC_RELAXED);
}

void process_probe_read(struct process_probe *probe, struct process_stats *ret)
{
    char text[128];
    unsigned long long pages = 0, resident = 0;
    struct rusage use;
    *ret = (struct process_stats){.start_ms = probe->start_ms, .max_fds = probe->max_fds};
    ssize_t n = probe->statm < 0 ? -1 : pread(probe->statm, text, sizeof(text) - 1, 0);
    if (n > 0) {
        text[n] = '\0';
        if (sscanf(text, "%llu %llu", &pages, &resident) == 2) {
            uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE);
            ret->virtual_bytes = pages * size;
            ret->resident_bytes = resident * size;
        }
    }
    if (getrusage(RUSAGE_SELF, &use) == 0) {
        ret->cpu_us = (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000u +
                      (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    }
    ret->open_fds = process_open_fds(probe);
}

/* -------------------------------------------------------------------------------------------------
 * Visits the subscribers of a worker in turn, some of them each time.
 */

static uint64_t kernel_lag_of(const struct subscriber *subscriber)
{
    struct channel_facts facts;
    subscriber_get_facts(subscriber, &facts);
    peer_identity_ask_kernel(facts.fd, &facts);
    return facts.stalled_ms * 1000;
}

/* The longest time, in microseconds, for which a client of this worker has not read the data that
 * the kernel holds for it. On the worker's thread. */
static uint64_t kernel_lag_us(struct worker *worker)
{
    struct delivery *d = worker->delivery;
    struct delivery_asked *asked = &d->asked;
    for (unsigned n = 0; n < KERNEL_LAG_ASKED; n++) {
        struct list *at = asked->next ? asked->next : d->subscribers.next;
        if (at == &d->subscribers) { /* a full round */
            asked->before_us = asked->longest_us;
            asked->longest_us = 0;
            asked->next = NULL;
            break;
        }
        uint64_t lag_us = kernel_lag_of(list_entry(at, struct subscriber, link));
        asked->longest_us = lag_us > asked->longest_us ? lag_us : asked->longest_us;
        asked->next = at->next;
    }
    return asked->longest_us > asked->before_us ? asked->longest_us : asked->before_us;
}

/* ---------------------------------------------------------------------------------------------- */

/* Optional statistics of one worker. */
struct stats_more {
    struct operations operations;
    struct tool_counts tools;
    struct failure_row rows[FAILURES_ROWS + 1];
};

struct stats_reply {
    struct stats_more *more; /* NULL: not requested, or out of memory */
    struct thread_message message;
    struct stats_ask *ask;
    size_t index;
};

struct stats_ask {
    struct server_stats *totals;
    server_stats_fn fn;
    void *user;
    size_t left; /* atomic */
    struct stats_reply replies[];
};

static void stats_take(struct worker_snapshot *f, struct worker *worker)
{
    const struct delivery *d = worker->delivery;
    uint64_t now_us = clock_monotonic_ns() / 1000;
    f->stats = worker->stats;
    f->bytes_out = worker->batch.bytes;
    f->index_bytes = match_bytes(&d->match);
    for (size_t i = 0; i <= FAILURES_ROWS; i++) {
        f->failures += worker->failures->rows[i].count;
    }
    f->last_failed = worker->failures->last;
    list_each (it, next, &d->behind) {
        const struct subscriber *subscriber = list_entry(it, struct subscriber, dirty_link);
        uint64_t age = subscriber_lag_us(subscriber, now_us);
        f->behind++;
        f->waiting += subscriber->outbox.count;
        f->oldest_us = age > f->oldest_us ? age : f->oldest_us;
    }
    uint64_t unread_us = kernel_lag_us(worker);
    f->oldest_us = unread_us > f->oldest_us ? unread_us : f->oldest_us;
    f->turns = *loop_turns(worker->loop);
    lag_total(&d->lag, &f->lag);
    lag_recent(&d->lag, now_us, &f->recent);
}

static void stats_add(struct worker_snapshot *to, const struct worker_snapshot *f)
{
    struct worker_stats *a = &to->stats;
    const struct worker_stats *b = &f->stats;
    a->changes = b->changes > a->changes ? b->changes : a->changes;
    a->requests += b->requests;
    a->deliveries += b->deliveries;
    a->coalesced += b->coalesced;
    a->truncated += b->truncated;
    a->cut += b->cut;
    a->pauses += b->pauses;
    a->bytes_in += b->bytes_in;
    a->subscriptions += b->subscriptions;
    a->subscribers += b->subscribers;
    a->sessions += b->sessions;
    a->streams += b->streams;
    for (size_t i = 0; i < WORKER_KINDS; i++) {
        a->by_kind[i] += b->by_kind[i];
    }
    durations_add(&to->turns, &f->turns);
    to->failures += f->failures;
    if (f->last_failed.at_ms > to->last_failed.at_ms) {
        to->last_failed = f->last_failed;
    }
    to->bytes_out += f->bytes_out;
    to->index_bytes += f->index_bytes;
    to->behind += f->behind;
    to->waiting += f->waiting;
    to->oldest_us = f->oldest_us > to->oldest_us ? f->oldest_us : to->oldest_us;
    lag_counts_add(&to->lag, &f->lag);
    lag_counts_add(&to->recent, &f->recent);
}

static void stats_add_failure(struct server_stats *f, const struct failure_row *row)
{
    size_t i = 0;
    while (i < f->failure_count &&
           (f->failures[i].kind != row->kind || f->failures[i].code != row->code ||
            f->failures[i].method != row->method)) {
        i++;
    }
    if (i == f->failure_count && i < STATS_FAILURES) {
        f->failures[f->failure_count++] =
            (struct stats_failure){.kind = row->kind, .code = row->code, .method = row->method};
    }
    if (i < STATS_FAILURES) {
        f->failures[i].count += row->count;
    }
}

static void stats_add_more(struct server_stats *f, const struct stats_more *more)
{
    struct durations *to = &f->operations->at[0][0][0];
    const struct durations *from = &more->operations.at[0][0][0];
    for (size_t i = 0; i < sizeof(struct operations) / sizeof(struct durations); i++) {
        durations_add(&to[i], &from[i]);
    }
    tool_counts_merge(f->tools, &more->tools);
    for (size_t i = 0; i <= FAILURES_ROWS; i++) {
        if (more->rows[i].count > 0) {
            stats_add_failure(f, &more->rows[i]);
        }
    }
}

static void stats_free(struct stats_ask *ask)
{
    for (size_t i = 0; ask && ask->totals && i < ask->totals->count; i++) {
        mem_free(ask->replies[i].more);
    }
    if (ask && ask->totals) {
        mem_free(ask->totals->operations);
        mem_free(ask->totals->tools);
        mem_free(ask->totals->failures);
        mem_free(ask->totals);
    }
    mem_free(ask);
}

static void stats_finish(struct stats_ask *ask)
{
    struct server_stats *f = ask->totals;
    for (size_t i = 0; i < f->count; i++) {
        stats_add(&f->all, &f->workers[i]);
        if (f->operations) {
            stats_add_more(f, ask->replies[i].more);
        }
    }
    ask->fn(ask->user, f);
    stats_free(ask);
}

static void stats_reply_done(struct stats_reply *reply)
{
    struct stats_ask *ask = reply->ask;
    if (__atomic_sub_fetch(&ask->left, 1, __ATOMIC_ACQ_REL) == 0) {
        stats_finish(ask);
    }
}

static void stats_deliver(struct thread_message *message, void *owner)
{
    struct stats_reply *reply = list_entry(message, struct stats_reply, message);
    struct worker *worker = owner;
    stats_take(&reply->ask->totals->workers[reply->index], worker);
    if (reply->more) {
        reply->more->operations = worker->requests->operations;
        if (worker->handlers->counts) {
            reply->more->tools = *worker->handlers->counts;
        }
        memcpy(reply->more->rows, worker->failures->rows, sizeof(reply->more->rows));
    }
    stats_reply_done(reply);
}

static void stats_drop(struct thread_message *message)
{
    stats_reply_done(list_entry(message, struct stats_reply, message));
}

/* Returns false if out of memory. */
static bool stats_prepare(struct stats_ask *ask, struct server_stats *f, bool wants_all)
{
    bool is_whole = true;
    if (wants_all) {
        f->operations = mem_zalloc(sizeof(*f->operations));
        f->tools = mem_zalloc(sizeof(*f->tools));
        f->failures = mem_zalloc(STATS_FAILURES * sizeof(*f->failures));
        is_whole = f->operations && f->tools && f->failures;
    }
    for (size_t i = 0; i < f->count; i++) {
        struct stats_reply *reply = &ask->replies[i];
        reply->ask = ask;
        reply->index = i;
        reply->message.deliver = stats_deliver;
        reply->message.drop = stats_drop;
        reply->more = wants_all ? mem_zalloc(sizeof(*reply->more)) : NULL;
        is_whole = is_whole && (reply->more || !wants_all);
    }
    return is_whole;
}

static void stats_send(struct worker *const *cores, size_t count, bool wants_all,
                       server_stats_fn fn, void *user)
{
    struct server_stats *f = mem_zalloc(sizeof(*f) + count * sizeof(f->workers[0]));
    struct stats_ask *ask = mem_zalloc(sizeof(*ask) + count * sizeof(ask->replies[0]));
    if (f && ask) {
        f->count = count;
        *ask = (struct stats_ask){.totals = f, .fn = fn, .user = user, .left = count};
    }
    if (!f || !ask || !stats_prepare(ask, f, wants_all) || count == 0) {
        fn(user, f && ask && count == 0 ? f : NULL);
        if (!ask) {
            mem_free(f);
        }
        stats_free(ask);
        return;
    }
    for (size_t i = 0; i < count; i++) { /* after the last message it may be freed */
        mailbox_send(cores[i]->mailbox, &ask->replies[i].message);
    }
}

/* Ask all workers; thread-safe. `fn` is called once, and immediately if there are no workers. */
static void stats_gather(struct worker *const *cores, size_t count, server_stats_fn fn, void *user)
{
    stats_send(cores, count, false, fn, user);
}

void server_stats_gather_all(struct worker *const *cores, size_t count, server_stats_fn fn,
                             void *user)
{
    stats_send(cores, count, true, fn, user);
}

/* -------------------------------------------------------------------------------------------------
 * Writes the overview of a server after all workers have answered.
 */

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

static void overview_put_totals(struct jw *w, const struct worker_snapshot *f,
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

/* Milliseconds with three decimals. */
static void server_overview_put_ms(struct jw *w, const char *key, uint64_t us)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(us / 1000),
                     (unsigned long long)(us % 1000));
    jw_put_raw(w, tidings_str(key), tidings_strn(text, (size_t)n));
}

/* Without samples there is no quantile: null. */
static void server_overview_put_lag(struct jw *w, const struct worker_snapshot *f)
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
    struct process_stats p;
    process_probe_read(&s->admin.process, &p);
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
    bool is_shared = s->store.commit_thread && commit_thread_is_shared(s->store.commit_thread);
    jw_put_string(w, STR("kind"),
                  !s->store.commit_thread ? STR("none")
                  : is_shared             ? STR("postgres")
                  : s->store.has_file     ? STR("sqlite")
                                          : STR("memory"));
    jw_put_bool(w, STR("ok"),
                !s->store.commit_thread || (!commit_thread_is_failing(s->store.commit_thread) &&
                                            !hub_is_store_unreachable(s->hub)));
    if (s->store.commit_thread) {
        struct durations commits;
        uint64_t lost = 0;
        commit_thread_get_commits(s->store.commit_thread, &commits, &lost);
        server_overview_put(w, "commits", durations_total(&commits));
        server_overview_put(w, "lost", lost);
    }
    if (s->store.has_file) {
        server_overview_put(w, "bytes", server_metrics_store_bytes(s));
    }
    jw_end_object(w);
}

static void overview_write(struct jw *w, struct tidings_server *s, const struct server_stats *f)
{
    jw_begin_object(w);
    jw_put_string(w, STR("name"), tidings_str(s->config.name));
    jw_put_string(w, STR("version"), tidings_str(tidings_version()));
    if (cluster_is_joined(s->store.cluster)) {
        jw_put_string(w, STR("node"), cluster_nodes_name(s->store.cluster));
    }
    overview_put_process(w, s);
    overview_put_health(w, s);
    overview_put_totals(w, &f->all, &s->shared->limits);
    server_overview_put_lag(w, &f->all);
    overview_put_store(w, s);
    if (cluster_is_joined(s->store.cluster)) {
        uint64_t count = 0, lag_us = 0;
        cluster_nodes_get(s->store.cluster, &count, &lag_us);
        server_overview_put(w, "nodes", count);
        server_overview_put(w, "nodesSilent", cluster_nodes_silent(s->store.cluster));
        server_overview_put_ms(w, "nodeLagMs", lag_us);
    }
    server_overview_put(w, "workers", f->count);
    jw_end_object(w);
}

static void overview_gathered(void *user, const struct server_stats *f)
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
    stats_gather(s->workers.cores, s->workers.count, overview_gathered, o);
}

/* -------------------------------------------------------------------------------------------------
 * A ring of samples. The worker that answers last adds one, and a reader writes them all: both are
 * rare and short, so a lock guards the ring.
 */

#define HISTORY_TEXT_MAX (HISTORY_SAMPLES * 320u + 64u)

struct server_history {
    pthread_mutex_t lock;
    struct loop_timer *timer; /* NULL: no sampling */
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

static void history_gathered(void *user, const struct server_stats *f)
{
    struct tidings_server *s = user;
    struct process_stats p;
    if (!f) {
        return; /* out of memory: skip this sample */
    }
    process_probe_read(&s->admin.process, &p);
    const struct worker_snapshot *all = &f->all;
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
    server_history_add(s->admin.history, &sample);
}

static void history_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct tidings_server *s = user;
    stats_gather(s->workers.cores, s->workers.count, history_gathered, s);
}

int server_history_open(struct tidings_server *s, struct tidings_error *err)
{
    s->admin.history = server_history_create();
    struct loop_timer *timer =
        s->admin.history ? loop_timer_open(s->loop, history_on_timer, s) : NULL;
    if (!timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->admin.history->timer = timer;
    loop_timer_start(timer, 0, HISTORY_PERIOD_MS);
    return 0;
}

void server_history_stop(struct tidings_server *s)
{
    if (s->admin.history) {
        loop_timer_close(s->admin.history->timer);
        s->admin.history->timer = NULL;
    }
}

void server_history_read(struct tidings_server *s, struct tidings_read *read)
{
    struct tidings_error err = {0};
    struct tidings_resource about = {0};
    struct buf text;
    buf_init(&text, HISTORY_TEXT_MAX);
    server_history_write(s->admin.history, &text);
    about.name = STR("history");
    about.mime_type = STR("application/json");
    int rc = buf_check(&text, "the server's history", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    tidings_read_done(read, rc, &err);
    buf_deinit(&text);
}

/* -------------------------------------------------------------------------------------------------
 * Writes the number of calls of each tool. All tools without their own row share one, which has no
 * name here and the label `tool=""`.
 */

#define TOOL_STATS_MAX (1u << 20)

/* ---- metrics --------------------------------------------------------------------------------- */

static void put_calls(void *user, const struct tool_count *row)
{
    for (unsigned i = 0; i < TOOL_OUTCOMES; i++) {
        char labels[METRICS_LABELS] = "";
        if (row->outcomes[i] > 0) {
            metrics_label(labels, "tool", tidings_str(row->name));
            metrics_label(labels, "outcome",
                          tidings_str(tool_outcome_name((enum tidings_call_outcome)i)));
            metrics_put(user, labels, row->outcomes[i]);
        }
    }
}

static void put_durations(void *user, const struct tool_count *row)
{
    char labels[METRICS_LABELS] = "";
    metrics_label(labels, "tool", tidings_str(row->name));
    metrics_put_durations(user, labels, &row->took);
}

void server_tool_stats_put(struct metrics_text *m, const struct tool_counts *tools)
{
    metrics_begin(m, METRICS_COUNTER, "tidings_tool_calls", "Calls of tools, by outcome.");
    tool_counts_each(tools, put_calls, m);
    metrics_begin(m, METRICS_HISTOGRAM, "tidings_tool_duration_seconds",
                  "How long calls of tools took.");
    tool_counts_each(tools, put_durations, m);
}

/* ---- tidings://self/tools -------------------------------------------------------------------- */

static void put_ms(struct jw *w, const char *key, uint64_t us)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(us / 1000),
                     (unsigned long long)(us % 1000));
    jw_put_raw(w, tidings_str(key), tidings_strn(text, (size_t)n));
}

static void tool_stats_put_row(void *user, const struct tool_count *row)
{
    struct jw *w = user;
    uint64_t calls = durations_total(&row->took);
    jw_begin_object(w);
    if (row->name[0] != '\0') {
        jw_put_string(w, STR("tool"), tidings_str(row->name));
    }
    jw_put_integer(w, STR("calls"), (int64_t)calls);
    for (unsigned i = 0; i < TOOL_OUTCOMES; i++) {
        jw_put_integer(w, tidings_str(tool_outcome_name((enum tidings_call_outcome)i)),
                       (int64_t)row->outcomes[i]);
    }
    put_ms(w, "minMs", row->min_us);
    put_ms(w, "avgMs", row->took.sum_us / calls);
    put_ms(w, "maxMs", row->max_us);
    jw_end_object(w);
}

static void tool_stats_gathered(void *user, const struct server_stats *f)
{
    struct tidings_read *read = user;
    struct tidings_error err = {0};
    struct buf text;
    struct jw w;
    buf_init(&text, TOOL_STATS_MAX);
    int rc = f && f->tools ? 0 : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == 0) {
        struct tidings_resource about = {.name = STR("tools"),
                                         .mime_type = STR("application/json")};
        jw_init(&w, &text);
        jw_begin_array(&w);
        tool_counts_each(f->tools, tool_stats_put_row, &w);
        jw_end_array(&w);
        rc = buf_check(&text, "the server's state", NULL, &err);
        rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    }
    buf_deinit(&text);
    tidings_read_done(read, rc, &err);
}

void server_tool_stats_read(struct tidings_server *server, struct tidings_read *read)
{
    server_stats_gather_all(server->workers.cores, server->workers.count, tool_stats_gathered,
                            read);
}
