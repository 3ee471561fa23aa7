/* SPDX-License-Identifier: MIT
 *
 * Entities at the store's own interface: acknowledged upserts per second with 64 and with one in
 * flight, against the same rows appended to a bare SQLite table with the same number per commit, in
 * the same run and alternating; and the cost of reads of the past.
 *
 * Both sides sync on each commit. The bare side binds and steps one INSERT per row and commits;
 * nothing is parsed, checked or compared there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bare_rows.h"
#include "base/str.h"
#include "common.h"
#include "store/commit_thread.h"
#include "store/sqlite_store.h"

static unsigned long writes = 20000, rounds = 5, entities_count = 1000, versions = 10000;
static char scratch[BENCH_PATH_MAX - 32];
enum { VALUE_BYTES = 1000 };

static const char schema_text[] =
    "{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\"},"
    "\"text\":{\"type\":\"string\"}}}";

static double now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void make_value(char *out, size_t size, unsigned long n)
{
    bare_value(out, size, n, VALUE_BYTES);
}

/* ---- ours ------------------------------------------------------------------------------------ */

struct slot {
    struct store_job job;
    unsigned long n;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned long submitted, answered, wanted;
    struct commit_thread *commit_thread;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int upsert(struct store_job *job, struct entities *e)
{
    const struct slot *s = (struct slot *)(void *)job;
    char id[32], value[2048];
    (void)snprintf(id, sizeof id, "e%lu", s->n % entities_count);
    make_value(value, sizeof value, s->n);
    struct entity_write w = {
        .id = tidings_str(id),
        .type = STR("thing"),
        .type_version = STR("1"),
        .changed_by = STR("[{\"userId\":\"bench\"}]"),
        .baseline = TIMELINE_NEVER,
        .valid_from = TIMELINE_NEVER,
    };
    struct arena arena;
    struct entity_done done;
    struct entity_problem problem;
    arena_init(&arena, 1u << 20);
    int rc = jv_parse(tidings_str(value), JSON_MAX_DEPTH, &w.value, &job->err);
    const struct entity_transaction t = {
        .writes = &w, .count = 1, .key = STR(""), .now = (int64_t)time(NULL) * 1000};
    rc = rc == 0 ? entities_transact(e, &t, &arena, &done, &problem, &job->err) : rc;
    job->is_fatal = rc < 0 && problem.reason == ENTITY_MEDIUM;
    jv_unref(w.value);
    arena_deinit(&arena);
    return rc;
}

/* On the commit thread: the next one goes out at once, as from a client that waits for it. */
static void answered(struct store_job *job, int code)
{
    struct slot *s = (struct slot *)(void *)job;
    if (code < 0) {
        bench_die("upsert: %s", job->err.text);
    }
    pthread_mutex_lock(&run.lock);
    bool more = run.submitted < run.wanted;
    s->n = run.submitted;
    run.submitted += more;
    if (++run.answered == run.wanted) {
        pthread_cond_signal(&run.changed);
    }
    pthread_mutex_unlock(&run.lock);
    if (more) {
        commit_thread_submit(run.commit_thread, &s->job);
    }
}

static int add_type(struct store_job *job, struct entities *e)
{
    struct json *schema = NULL;
    int rc = jv_parse(STR(schema_text), JSON_MAX_DEPTH, &schema, &job->err);
    const struct entity_type_spec spec = {STR("thing"), STR("1"), STR(""), schema, NULL, NULL};
    rc = rc == 0 ? entities_add_type(e, &spec, &job->err) : rc;
    jv_unref(schema);
    return rc;
}

static void begin_run(unsigned long wanted, unsigned long in_flight)
{
    pthread_mutex_lock(&run.lock);
    run.submitted = in_flight;
    run.answered = 0;
    run.wanted = wanted;
    pthread_mutex_unlock(&run.lock);
}

static void await_run(void)
{
    pthread_mutex_lock(&run.lock);
    while (run.answered < run.wanted) {
        pthread_cond_wait(&run.changed, &run.lock);
    }
    pthread_mutex_unlock(&run.lock);
}

static double ours(unsigned long count, unsigned long in_flight)
{
    char path[BENCH_PATH_MAX];
    struct tidings_error err;
    struct store *store = NULL;
    static struct slot slots[64];
    (void)snprintf(path, sizeof path, "%s/ours.db", scratch);
    if (sqlite_store_open(path, &store, &err) < 0 ||
        commit_thread_open(store, &run.commit_thread, &err) < 0) {
        bench_die("%s", err.text);
    }
    begin_run(1, 1);
    struct slot type = {.job = {.is_write = true, .run = add_type, .done = answered}};
    commit_thread_submit(run.commit_thread, &type.job);
    await_run();
    begin_run(count, in_flight);
    double begin = now_us(CLOCK_MONOTONIC);
    for (unsigned long i = 0; i < in_flight; i++) {
        slots[i] =
            (struct slot){.job = {.is_write = true, .run = upsert, .done = answered}, .n = i};
        commit_thread_submit(run.commit_thread, &slots[i].job);
    }
    await_run();
    double took = now_us(CLOCK_MONOTONIC) - begin;
    commit_thread_close(run.commit_thread);
    (void)unlink(path);
    return took / (double)count;
}

/* ---- the past -------------------------------------------------------------------------------- */

static void measure_past(double *ret_as_of, double *ret_patch)
{
    char path[BENCH_PATH_MAX], value[2048];
    struct tidings_error err;
    struct store *store = NULL;
    struct entities *e = NULL;
    struct arena arena;
    (void)snprintf(path, sizeof path, "%s/past.db", scratch);
    if (sqlite_store_open(path, &store, &err) < 0 || store->ops->begin(store, &err) < 0) {
        bench_die("%s", err.text);
    }
    for (unsigned long i = 0; i < versions; i++) {
        make_value(value, sizeof value, i);
        const struct entity_version v = {.id = STR("one"),
                                         .type = STR("thing"),
                                         .type_version = STR("1"),
                                         .value = tidings_str(value),
                                         .from = 1000 + (int64_t)i * 10};
        if (store->ops->put(store, &v, false, &err) < 0) {
            bench_die("%s", err.text);
        }
    }
    if (store->ops->commit(store, &err) < 0 || store->ops->idle(store, &err) < 0 ||
        entities_open(store, &e, &err) < 0) {
        bench_die("%s", err.text);
    }
    arena_init(&arena, 1u << 20);
    const int reads = 5000;
    for (int what = 0; what < 2; what++) {
        double begin = now_us(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < reads; i++) {
            int64_t at = 1000 + (int64_t)((unsigned long)i * 7919u % versions) * 10;
            struct entity_version v;
            struct entity_patch p;
            int rc = what == 0 ? entities_find(e, STR("one"), at + 5, &arena, &v, &err)
                               : entities_patch_from(e, STR("one"), at, &arena, &p, &err);
            if (rc != 1) {
                bench_die("no version at %lld", (long long)at);
            }
            arena_reset(&arena);
        }
        *(what == 0 ? ret_as_of : ret_patch) =
            (now_us(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)reads;
    }
    arena_deinit(&arena);
    entities_close(e);
    (void)unlink(path);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    bench_init("entity", 300);
    const struct bench_option options[] = {
        {.name = "writes",
         .help = "upserts in one measurement (20000; a tenth of it one at a time)",
         .number = &writes},
        {.name = "entities", .help = "that they go to (1000)", .number = &entities_count},
        {.name = "rounds", .help = "alternating measurements of each side (5)", .number = &rounds},
        {.name = "versions",
         .help = "of the entity whose past is read (10000)",
         .number = &versions},
        {0},
    };
    bench_options(argc, argv, options);
    if (rounds < 1 || rounds > 31 || writes < 1000 || entities_count < 1 || versions < 10) {
        bench_die("--rounds is 1 to 31, --writes at least 1000, --versions at least 10");
    }
    (void)snprintf(scratch, sizeof scratch, "%s", bench_scratch());
    double many[31], one[31], bare_many[31], bare_one[31], as_of = 0, patch = 0;
    for (unsigned long i = 0; i < rounds; i++) {
        bare_many[i] = bare_rows(writes, 64, entities_count, VALUE_BYTES).wall_us;
        many[i] = ours(writes, 64);
        bare_one[i] = bare_rows(writes / 10, 1, entities_count, VALUE_BYTES).wall_us;
        one[i] = ours(writes / 10, 1);
    }
    measure_past(&as_of, &patch);
    double *all[] = {many, one, bare_many, bare_one};
    for (size_t i = 0; i < 4; i++) {
        qsort(all[i], rounds, sizeof(double), by_value);
    }
    unsigned long middle = rounds / 2;
    printf("{\"bench\":\"entity\",\"rounds\":%lu,\"upserts_per_s_64\":%.0f,\"bare_per_s_64\":%.0f,"
           "\"share_64\":%.2f,\"us_single\":%.1f,\"bare_us_single\":%.1f,\"ratio_single\":%.2f,"
           "\"as_of_us\":%.1f,\"patch_us\":%.1f}\n",
           rounds, 1e6 / many[middle], 1e6 / bare_many[middle], bare_many[middle] / many[middle],
           one[middle], bare_one[middle], one[middle] / bare_one[middle], as_of, patch);
    return 0;
}
