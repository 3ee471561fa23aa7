/* SPDX-License-Identifier: MIT
 *
 * The cost of an announcement for its thread: CPU and elapsed time per call
 * of tidings_changed, from 1 and from 4 threads at once, without and with a small object of
 * metadata. Beside it the least a program would build itself: copy the text, lock a mutex, append
 * to a list, wake a thread that was asleep. That one checks nothing and numbers nothing; it is the
 * floor for a queue with a lock.
 *
 * A round is bounded so that nothing is refused, and the next one begins when the server has
 * numbered everything: a subscription of the program itself receives a last change.
 *
 * Then the same threads for a second without any bound, each on its own URI, while a URI that
 * changes from time to time is watched by others: how many calls are refused, how often the others
 * are truncated although they lost nothing, and the latency of their changes.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "common.h"

enum { MAX_THREADS = 4, CALLS = 20000, ROUNDS = 9 };

#define URI "app:///sensors/room-00017/temperature"
#define LAST "app:///last"
#define QUIET "app:///quiet"
#define HOT_SECONDS 1
#define METADATA "{\"celsius\":21.5,\"sensor\":\"room-17\"}"

static struct tidings_server *server;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static unsigned heard;
static bool is_ready;
static unsigned long workers = 1;

/* ---- the other way: a mutex and a list ------------------------------------------------------- */

struct node {
    struct node *next;
    size_t len;
    char text[];
};

static struct {
    pthread_mutex_t lock;
    struct node *first, **end;
    int wakeup;
    size_t taken;
} plain = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void resource_io_changed(const char *text, size_t len)
{
    struct node *n = malloc(sizeof(*n) + len);
    if (!n) {
        bench_die("out of memory");
    }
    n->next = NULL;
    n->len = len;
    memcpy(n->text, text, len);
    pthread_mutex_lock(&plain.lock);
    bool was_empty = !plain.first;
    *plain.end = n;
    plain.end = &n->next;
    pthread_mutex_unlock(&plain.lock);
    if (was_empty && eventfd_write(plain.wakeup, 1) < 0) {
        bench_die("eventfd");
    }
}

static void *resource_io_consume(void *arg)
{
    eventfd_t ignored;
    while (eventfd_read(plain.wakeup, &ignored) == 0) {
        pthread_mutex_lock(&plain.lock);
        struct node *n = plain.first;
        plain.first = NULL;
        plain.end = &plain.first;
        pthread_mutex_unlock(&plain.lock);
        while (n) {
            struct node *next = n->next;
            bool is_last = n->len == 1;
            free(n);
            n = next;
            if (is_last) {
                pthread_mutex_lock(&lock);
                heard++;
                pthread_cond_broadcast(&more);
                pthread_mutex_unlock(&lock);
            }
        }
    }
    return arg;
}

/* ---- one round ------------------------------------------------------------------------------- */

enum way { PLAIN, BARE, WITH_METADATA, SAME, WAYS };
static const char *const way_names[WAYS] = {"mutex_list", "changed", "changed_metadata",
                                            "changed_same"};

/* One URI per call, except for SAME. */
static char uris[CALLS][sizeof(URI)];

struct caller {
    enum way way;
    pthread_barrier_t *start;
    pthread_t thread;
    double cpu_ns, elapsed_ns; /* per call */
};

static double clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *call(void *arg)
{
    struct caller *c = arg;
    struct tidings_str metadata = tidings_str(c->way == WITH_METADATA ? METADATA : NULL);
    pthread_barrier_wait(c->start);
    double cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), elapsed = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < CALLS; i++) {
        struct tidings_str uri = tidings_strn(uris[c->way == SAME ? 0 : i], sizeof(URI) - 1);
        if (c->way == PLAIN) {
            resource_io_changed(uri.ptr, uri.len);
        } else if (tidings_changed(server, uri, metadata, NULL) < 0) {
            bench_die("a change was refused");
        }
    }
    c->cpu_ns = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / CALLS;
    c->elapsed_ns = (clock_ns(CLOCK_MONOTONIC) - elapsed) / CALLS;
    return NULL;
}

static void await_last(enum way way)
{
    pthread_mutex_lock(&lock);
    unsigned before = heard;
    pthread_mutex_unlock(&lock);
    if (way == PLAIN) {
        resource_io_changed("!", 1);
    } else if (tidings_changed(server, tidings_str(LAST), tidings_str(NULL), NULL) < 0) {
        bench_die("a change was refused");
    }
    pthread_mutex_lock(&lock);
    while (heard == before) {
        pthread_cond_wait(&more, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void run_round(enum way way, unsigned threads, struct bench_samples *cpu,
                      struct bench_samples *elapsed)
{
    pthread_barrier_t start;
    struct caller callers[MAX_THREADS];
    pthread_barrier_init(&start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        callers[i] = (struct caller){.way = way, .start = &start};
        if (pthread_create(&callers[i].thread, NULL, call, &callers[i]) != 0) {
            bench_die("cannot start a thread");
        }
    }
    double cpu_sum = 0, elapsed_sum = 0;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(callers[i].thread, NULL);
        cpu_sum += callers[i].cpu_ns;
        elapsed_sum += callers[i].elapsed_ns;
    }
    pthread_barrier_destroy(&start);
    await_last(way);
    bench_samples_add(cpu, cpu_sum / threads);
    bench_samples_add(elapsed, elapsed_sum / threads);
}

/* ---- as fast as they can --------------------------------------------------------------------- */

static struct {
    bool is_over;                 /* atomic */
    unsigned long calls, refused; /* atomic */
    unsigned truncated, quiet;    /* the updates of the quiet one; under `lock` */
} hot;

static void *call_hot(void *arg)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "app:///hot/%d", (int)(size_t)arg);
    struct tidings_str uri = tidings_strn(text, (size_t)n);
    unsigned long calls = 0, refused = 0;
    while (!__atomic_load_n(&hot.is_over, __ATOMIC_RELAXED)) {
        refused += tidings_changed(server, uri, tidings_str(NULL), NULL) < 0;
        calls++;
    }
    __atomic_fetch_add(&hot.calls, calls, __ATOMIC_RELAXED);
    __atomic_fetch_add(&hot.refused, refused, __ATOMIC_RELAXED);
    return NULL;
}

static void hear_quiet(void *user, const struct tidings_update *update)
{
    (void)user;
    pthread_mutex_lock(&lock);
    hot.truncated += update->truncated;
    hot.quiet++;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}

/* Repeatedly announces the quiet one and waits for its update. */
static void run_hot(struct bench_samples *ms)
{
    pthread_t threads[MAX_THREADS];
    memset(&hot, 0, sizeof(hot));
    for (size_t i = 0; i < MAX_THREADS; i++) {
        if (pthread_create(&threads[i], NULL, call_hot, (void *)i) != 0) {
            bench_die("cannot start a thread");
        }
    }
    double begun = clock_ns(CLOCK_MONOTONIC), now = begun;
    while (now - begun < HOT_SECONDS * 1e9) {
        pthread_mutex_lock(&lock);
        unsigned before = hot.quiet;
        pthread_mutex_unlock(&lock);
        (void)tidings_changed(server, tidings_str(QUIET), tidings_str(NULL), NULL);
        pthread_mutex_lock(&lock);
        while (hot.quiet == before) {
            pthread_cond_wait(&more, &lock);
        }
        pthread_mutex_unlock(&lock);
        double then = now;
        now = clock_ns(CLOCK_MONOTONIC);
        bench_samples_add(ms, (now - then) / 1e6);
        usleep(1000);
        now = clock_ns(CLOCK_MONOTONIC);
    }
    __atomic_store_n(&hot.is_over, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < MAX_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

static void hear(void *user, const struct tidings_update *update)
{
    (void)user;
    (void)update;
    pthread_mutex_lock(&lock);
    heard++;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}

static void hear_nothing(void *user, const struct tidings_update *update)
{
    (void)user;
    (void)update;
}

static void hear_state(void *user, const struct tidings_state_event *event)
{
    (void)user;
    if (event->state == TIDINGS_STATE_REFUSED) {
        bench_die("the subscription was refused");
    }
}

static void on_ready(void *user, const char *url)
{
    (void)user;
    (void)url;
    pthread_mutex_lock(&lock);
    is_ready = true;
    pthread_cond_broadcast(&more);
    pthread_mutex_unlock(&lock);
}

static void *serve(void *arg)
{
    struct tidings_error err;
    if (tidings_server_run(server, &err) < 0) {
        bench_die("%s", err.text);
    }
    return arg;
}

static void add_quiet(struct tidings_error *err)
{
    static const char *const watched[] = {QUIET, "app:///hot/0"};
    for (size_t i = 0; i < 2; i++) {
        struct tidings_resource about = {0};
        struct tidings_subscribe_options o = {.fn = i == 0 ? hear_quiet : hear_nothing,
                                              .on_state = hear_state};
        about.uri = tidings_str(watched[i]);
        about.name = about.uri;
        if (tidings_server_add_resource(server, &about, read_nothing, NULL, err) < 0 ||
            !tidings_server_subscribe(server, about.uri, &o, err)) {
            bench_die("%s", err->text);
        }
    }
}

static void start_server(pthread_t *thread)
{
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    struct tidings_subscribe_options o = {
        .fn = hear, .on_state = hear_state, .options = "{\"initial\":true}"};
    char count[24];
    snprintf(count, sizeof(count), "%lu", workers);
    about.uri = tidings_str(LAST);
    about.name = tidings_str("the end of a round");
    server = tidings_server_create(&err);
    if (!server || tidings_server_set(server, "http", "127.0.0.1:0", &err) < 0 ||
        tidings_server_set(server, "workers", count, &err) < 0 ||
        tidings_server_set(server, "window", "0", &err) < 0 ||
        tidings_server_add_resource(server, &about, read_nothing, NULL, &err) < 0 ||
        !tidings_server_subscribe(server, tidings_str(LAST), &o, &err)) {
        bench_die("%s", err.text);
    }
    add_quiet(&err);
    tidings_server_on_ready(server, on_ready, NULL);
    if (pthread_create(thread, NULL, serve, NULL) != 0) {
        bench_die("cannot start a thread");
    }
    pthread_mutex_lock(&lock);
    while (!is_ready || heard == 0) { /* the subscription receives its start event */
        pthread_cond_wait(&more, &lock);
    }
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    static const struct bench_option options[] = {
        {.name = "workers", .help = "of the server", .number = &workers}, {.name = NULL}};
    static const unsigned threads[] = {1, MAX_THREADS};
    struct bench_samples cpu[2][WAYS], elapsed[2][WAYS];
    pthread_t thread, consumer;
    bench_init("changed", 60);
    bench_options(argc, argv, options);
    plain.end = &plain.first;
    plain.wakeup = eventfd(0, EFD_CLOEXEC);
    if (plain.wakeup < 0 || pthread_create(&consumer, NULL, resource_io_consume, NULL) != 0) {
        bench_die("cannot start a thread");
    }
    for (int i = 0; i < CALLS; i++) {
        snprintf(uris[i], sizeof(uris[i]), "app:///sensors/room-%05d/temperature", i);
    }
    start_server(&thread);
    for (size_t t = 0; t < 2; t++) {
        for (int w = 0; w < WAYS; w++) {
            bench_samples_init(&cpu[t][w], ROUNDS);
            bench_samples_init(&elapsed[t][w], ROUNDS);
        }
        for (int i = 0; i < ROUNDS; i++) {
            for (int w = 0; w < WAYS; w++) {
                run_round((enum way)w, threads[t], &cpu[t][w], &elapsed[t][w]);
            }
        }
    }
    printf("{\"bench\":\"changed\",\"calls\":%d,\"rounds\":%d", CALLS, ROUNDS);
    for (size_t t = 0; t < 2; t++) {
        for (int w = 0; w < WAYS; w++) {
            printf(",\"%s_%u\":{\"cpu_ns\":%.0f,\"elapsed_ns\":%.0f}", way_names[w], threads[t],
                   bench_samples_at(&cpu[t][w], 0.5), bench_samples_at(&elapsed[t][w], 0.5));
            bench_samples_deinit(&cpu[t][w]);
            bench_samples_deinit(&elapsed[t][w]);
        }
    }
    struct bench_samples ms;
    bench_samples_init(&ms, 100000);
    run_hot(&ms);
    printf(",\"hot\":{\"calls_per_s\":%.0f,\"refused_percent\":%.1f,\"truncated_per_s\":%.1f,"
           "\"quiet_ms\":{\"p50\":%.2f,\"p99\":%.2f}}",
           (double)hot.calls / HOT_SECONDS, 100.0 * (double)hot.refused / (double)hot.calls,
           (double)hot.truncated / HOT_SECONDS, bench_samples_at(&ms, 0.5),
           bench_samples_at(&ms, 0.99));
    bench_samples_deinit(&ms);
    puts("}");
    tidings_server_stop(server);
    pthread_join(thread, NULL);
    tidings_server_destroy(server);
    return 0;
}
