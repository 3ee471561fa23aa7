/* SPDX-License-Identifier: MIT
 *
 * `tidings bench`: measures how fast a server answers, and how soon it delivers a change to many
 * clients. It also reports its own CPU cost, which often exceeds that of the server.
 */
#include "cli/bench.h"

#include <errno.h>
#include <spawn.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tidings/client.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"
#include "cli/target.h"

/* -------------------------------------------------------------------------------------------------
 * The shared state of the parts of `tidings bench`: many clients of one server on one epoll loop.
 */

struct bench;

/* One client, for requests or for updates. */
struct bench_client {
    struct bench *bench;
    struct tidings_client *client;
    uint64_t asked_us;    /* when its request was sent */
    uint64_t last_change; /* the last change it received */
    unsigned failures;    /* consecutive requests without any answer */
    bool is_accepted;
    bool is_lost; /* it receives nothing at present */
    bool has_failed;
};

/* The results of one phase. Times in microseconds. */
struct measured {
    struct histogram times;
    /* The elapsed time while requests, or a change, were in progress, and the CPU time of this
     * process in it. */
    uint64_t elapsed, cpu;
    uint64_t errors;  /* error answers */
    uint64_t changes; /* made */
    uint64_t missed;  /* updates that missed the time limit */
    bool was_done;
    char ended[64]; /* reason for an early end; "": ran to the end */
    char why[200];  /* not run: the reason; run: the first error */
};

struct bench {
    struct cli cli;
    uint64_t connections, listens, duration_ms, requests;
    const char *change;
    bool touches, wants_login, is_wanted; /* touches: the fan-out is measured */
    char *uri;
    char *read_params; /* of resources/read */
    struct bench_client *clients;
    size_t count;
    int epoll;
    struct measured asked, fanout; /* the two phases */
    /* requests in progress: */
    uint64_t sent, ends_us;
    size_t under_way;
    /* the change in progress: */
    uint64_t change_us; /* when it started; 0: none */
    size_t hearers, received, lost;
    pid_t child;
    bool is_calling; /* the tool call runs */
};

/* -------------------------------------------------------------------------------------------------
 * Adds values to a histogram, and finds the value below which a share of them lies.
 */

/* Values below 64 have a bucket each; larger ones are indexed by the six bits after the highest
 * one. */
static unsigned histogram_slot(uint64_t value)
{
    if (value < HISTOGRAM_SUB) {
        return (unsigned)value;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(value); /* 6 or more */
    unsigned shift = top - 6u;
    unsigned bucket = (shift + 1u) * HISTOGRAM_SUB + (unsigned)((value >> shift) - HISTOGRAM_SUB);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1u;
}

/* The largest value of a bucket. */
static uint64_t top_of(unsigned bucket)
{
    if (bucket < HISTOGRAM_SUB) {
        return bucket;
    }
    unsigned shift = bucket / HISTOGRAM_SUB - 1u;
    uint64_t first = (uint64_t)(bucket % HISTOGRAM_SUB + HISTOGRAM_SUB) << shift;
    return first + (UINT64_C(1) << shift) - 1u;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->counts[histogram_slot(value)]++;
    h->min = h->count == 0 || value < h->min ? value : h->min;
    h->max = value > h->max ? value : h->max;
    h->count++;
}

uint64_t histogram_at(const struct histogram *h, double share)
{
    uint64_t seen = 0;
    double wanted = share * (double)h->count;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen > 0 && (double)seen >= wanted) {
            uint64_t top = top_of(i);
            return top < h->max ? top : h->max;
        }
    }
    return h->max;
}

uint64_t histogram_between(const struct histogram *h, uint64_t from, uint64_t to)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t top = top_of(i);
        sum += top >= from && top < to ? h->counts[i] : 0;
    }
    return sum;
}

/* -------------------------------------------------------------------------------------------------
 * The load that `tidings bench` puts on a server: many clients that send requests, or wait for
 * updates. Each client has a descriptor that is readable when the client has work; all of them are
 * in one epoll instance.
 */

#define BATCH 64
#define LATE_US UINT64_C(5000000) /* a later update counts as missed */
#define TRIES 2u                  /* consecutive unanswered requests before the client stops */
#define PAUSE_US UINT64_C(150000) /* between changes: servers coalesce faster ones */

extern char **environ;

/* Monotonic, us. */
static uint64_t bench_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t cpu_now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void bench_load_remember(struct measured *m, const char *why)
{
    if (!m->why[0]) {
        snprintf(m->why, sizeof(m->why), "%.190s", why);
    }
}

/* Ends the phase early. */
static void bench_load_end(struct measured *m, const char *why)
{
    if (!m->ended[0]) {
        snprintf(m->ended, sizeof(m->ended), "%s", why);
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Open `count` clients and add them to the loop. */
static int bench_open(struct bench *b, size_t count, struct tidings_error *err)
{
    b->epoll = epoll_create1(EPOLL_CLOEXEC);
    b->clients = calloc(count, sizeof(*b->clients));
    if (b->epoll < 0 || !b->clients) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        struct bench_client *c = &b->clients[i];
        c->bench = b;
        c->client = target_open(&b->cli, err);
        if (!c->client) {
            return err->code;
        }
        b->count++;
        remote_interruptible(b->clients[0].client);
        int rc = tidings_client_connect(c->client, err);
        if (rc < 0) {
            return rc;
        }
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, tidings_client_fd(c->client), &e) < 0) {
            return tidings_fail(err, TIDINGS_E_IO, "epoll: %s", strerror(errno));
        }
    }
    return 0;
}

static void bench_close(struct bench *b)
{
    remote_interruptible(NULL);
    for (size_t i = 0; i < b->count; i++) {
        b->wants_login = b->wants_login || tidings_client_wants_credentials(b->clients[i].client);
        tidings_client_destroy(b->clients[i].client);
    }
    free(b->clients);
    b->clients = NULL;
    b->count = 0;
    if (b->epoll >= 0) {
        close(b->epoll);
    }
    b->epoll = -1;
}

/* Let all clients do their work, waiting for at most `ms`. */
static void bench_load_turn(struct bench *b, int ms)
{
    struct epoll_event events[BATCH];
    int n = epoll_wait(b->epoll, events, BATCH, ms);
    for (int i = 0; i < n; i++) {
        struct bench_client *c = events[i].data.ptr;
        struct tidings_error err = {0};
        if (tidings_client_step(c->client, 0, &err) < 0 && !c->has_failed) {
            c->has_failed = true;
            epoll_ctl(b->epoll, EPOLL_CTL_DEL, tidings_client_fd(c->client), NULL);
            bench_load_remember(b->hearers > 0 ? &b->fanout : &b->asked, err.text);
        }
    }
}

static void progress(const struct bench *b, const char *what, uint64_t n, uint64_t *last)
{
    uint64_t now = bench_now();
    if (b->cli.quiet || b->cli.json || !is_terminal(stderr) || now - *last < 200000) {
        return;
    }
    *last = now;
    fprintf(stderr, "\r%s: %llu ", what, (unsigned long long)n);
}

static void progress_end(const struct bench *b)
{
    if (!b->cli.quiet && !b->cli.json && is_terminal(stderr)) {
        fputs("\r\033[K", stderr);
    }
}

/* ---- requests -------------------------------------------------------------------------------- */

static void ask_next(struct bench_client *c);

static void bench_load_on_answer(void *user, struct tidings_str result,
                                 const struct tidings_error *err, struct tidings_str error)
{
    struct bench_client *c = user;
    struct measured *m = &c->bench->asked;
    (void)result;
    bool is_answered = !err || error.len > 0;
    if (is_answered) {
        histogram_add(&m->times, bench_now() - c->asked_us);
    }
    c->asked_us = 0;
    c->failures = is_answered ? 0 : c->failures + 1;
    c->bench->under_way--;
    if (err) {
        m->errors++;
        bench_load_remember(m, err->text);
    }
    if (c->failures < TRIES) {
        ask_next(c);
    }
}

static void ask_next(struct bench_client *c)
{
    struct bench *b = c->bench;
    struct tidings_error err = {0};
    struct tidings_client_asking asking = {.method = "resources/read",
                                           .params = b->read_params,
                                           .on_answer = bench_load_on_answer,
                                           .user = c};
    c->asked_us = bench_now();
    if (c->asked_us >= b->ends_us || (b->requests > 0 && b->sent >= b->requests)) {
        return;
    }
    if (tidings_client_ask(c->client, &asking, &err) < 0) {
        b->asked.errors++;
        bench_load_remember(&b->asked, err.text);
        return;
    }
    b->sent++;
    b->under_way++;
}

static int bench_requests(struct bench *b, struct tidings_error *err)
{
    struct measured *m = &b->asked;
    uint64_t shown = 0;
    int rc = bench_open(b, b->connections, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t begun = bench_now(), cpu = cpu_now();
    b->ends_us = begun + b->duration_ms * 1000;
    for (size_t i = 0; i < b->count; i++) {
        ask_next(&b->clients[i]);
    }
    while (b->under_way > 0 && !remote_caught && bench_now() < b->ends_us + LATE_US) {
        bench_load_turn(b, 100);
        progress(b, "requests", m->times.count, &shown);
    }
    m->elapsed = bench_now() - begun;
    if (remote_caught) {
        bench_load_end(m, "interrupted");
    } else {
        m->missed = b->under_way;
        bool is_whole = b->requests > 0 && b->sent >= b->requests;
        if (!is_whole && begun + m->elapsed < b->ends_us) {
            bench_load_end(m, "the server went away");
        }
    }
    m->cpu = cpu_now() - cpu;
    m->was_done = true;
    b->under_way = 0;
    progress_end(b);
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------- */

static void bench_load_on_update(void *user, const struct tidings_update *u)
{
    struct bench_client *c = user;
    struct bench *b = c->bench;
    (void)u;
    if (b->change_us > 0 && c->last_change != b->fanout.changes) {
        c->last_change = b->fanout.changes;
        histogram_add(&b->fanout.times, bench_now() - b->change_us);
        b->received++;
    }
}

static void bench_load_on_state(void *user, const struct tidings_state_event *e)
{
    struct bench_client *c = user;
    bool is_lost = e->state == TIDINGS_STATE_DISCONNECTED;
    if (c->is_lost != is_lost && (is_lost || e->state == TIDINGS_STATE_WATCHING)) {
        c->is_lost = is_lost;
        c->bench->lost += is_lost ? 1 : (size_t)-1;
    }
    if (e->state == TIDINGS_STATE_WATCHING && !c->is_accepted) {
        c->is_accepted = true;
        c->bench->hearers++;
    } else if (e->state == TIDINGS_STATE_REFUSED || e->state == TIDINGS_STATE_DISCONNECTED) {
        char why[160];
        snprintf(why, sizeof(why), "%.*s", (int)e->reason.len, e->reason.ptr);
        bench_load_remember(&c->bench->fanout, why);
    }
}

static void on_published(void *user, struct tidings_str result, const struct tidings_error *err,
                         struct tidings_str error)
{
    struct bench *b = user;
    (void)error;
    b->is_calling = false;
    if (err || is_true_at(result, "/isError")) {
        b->fanout.errors++;
        bench_load_remember(&b->fanout, err ? err->text : "the tool publish failed");
    }
}

static int bench_load_call_tool(struct bench *b, struct tidings_error *err)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fputs("{\"name\":\"publish\",\"arguments\":{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(b->uri));
    fprintf(t.out, ",\"text\":\"tidings bench, change %llu\\n\"}}",
            (unsigned long long)b->fanout.changes);
    char *params = json_text_take(&t);
    struct tidings_client_asking asking = {
        .method = "tools/call", .params = params, .on_answer = on_published, .user = b};
    int64_t id = params ? tidings_client_ask(b->clients[0].client, &asking, err)
                        : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    free(params);
    b->is_calling = id > 0;
    return id < 0 ? (int)id : 0;
}

static int bench_load_run_command(struct bench *b, struct tidings_error *err)
{
    char shell[] = "sh", flag[] = "-c";
    char *text = strdup(b->change);
    char *argv[] = {shell, flag, text, NULL};
    int rc = text ? posix_spawn(&b->child, "/bin/sh", NULL, NULL, argv, environ) : ENOMEM;
    free(text);
    if (rc != 0) {
        b->child = 0;
        return tidings_fail(err, TIDINGS_E_IO, "/bin/sh: %s", strerror(rc));
    }
    return 0;
}

/* The command or tool call that makes the change has ended. */
static bool is_made(struct bench *b)
{
    int status = 0;
    if (b->child > 0 && waitpid(b->child, &status, WNOHANG) == b->child) {
        b->child = 0;
        if (status != 0) {
            b->fanout.errors++;
            bench_load_remember(&b->fanout, "the command of --change failed");
        }
    }
    return b->child == 0 && !b->is_calling;
}

/* Returns true if it is useless to continue; then records the reason. */
static bool bench_load_is_over(struct bench *b)
{
    if (remote_caught) {
        bench_load_end(&b->fanout, "interrupted");
    } else if (b->lost >= b->count) {
        bench_load_end(&b->fanout, "the server went away");
    } else if (b->fanout.errors > 0) {
        bench_load_end(&b->fanout, "a change failed");
    }
    return b->fanout.ended[0] != '\0';
}

static int one_change(struct bench *b, struct tidings_error *err)
{
    b->fanout.changes++;
    b->received = 0;
    b->change_us = bench_now();
    uint64_t cpu = cpu_now();
    int rc = b->change ? bench_load_run_command(b, err) : bench_load_call_tool(b, err);
    uint64_t due = b->change_us + LATE_US;
    while (rc == 0 && b->received < b->hearers && !bench_load_is_over(b) && bench_now() < due) {
        bench_load_turn(b, 100);
        (void)is_made(b);
    }
    b->fanout.elapsed += bench_now() - b->change_us;
    b->fanout.cpu += cpu_now() - cpu;
    while (rc == 0 && !is_made(b) && !remote_caught && bench_now() < due) {
        bench_load_turn(b, 1);
    }
    b->fanout.missed += remote_caught ? 0 : b->hearers - b->received; /* the rest had no time */
    b->change_us = 0;
    uint64_t quiet = bench_now() + PAUSE_US;
    while (bench_now() < quiet && !remote_caught) {
        bench_load_turn(b, 10);
    }
    return rc;
}

static int subscribe_all(struct bench *b, struct tidings_error *err)
{
    for (size_t i = 0; i < b->count; i++) {
        struct tidings_subscribe_options on = {.fn = bench_load_on_update, .user = &b->clients[i]};
        tidings_client_on_state(b->clients[i].client, bench_load_on_state, &b->clients[i]);
        if (!tidings_client_subscribe(b->clients[i].client, b->uri, &on, err)) {
            return err->code;
        }
        (void)tidings_client_step(b->clients[i].client, 0, NULL);
    }
    uint64_t due = bench_now() + LATE_US;
    while (b->hearers < b->count && !remote_caught && bench_now() < due) {
        bench_load_turn(b, 100);
    }
    return b->hearers > 0 ? 0
                          : tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                                         "no client could subscribe: %.150s", b->fanout.why);
}

static int bench_fanout(struct bench *b, struct tidings_error *err)
{
    struct measured *m = &b->fanout;
    uint64_t shown = 0;
    int rc = bench_open(b, b->listens, err);
    if (rc == 0) {
        rc = subscribe_all(b, err);
    }
    uint64_t ends = bench_now() + b->duration_ms * 1000;
    while (rc == 0 && bench_now() < ends && !bench_load_is_over(b)) {
        rc = one_change(b, err);
        progress(b, "changes", m->changes, &shown);
    }
    m->was_done = m->changes > 0;
    if (rc < 0 && m->was_done) {
        bench_load_end(m, remote_caught ? "interrupted" : "a change could not be made");
    }
    progress_end(b);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define BOUND 0.8 /* of one core: the client was CPU-bound */
#define BAR 40u

/* ---- output ---------------------------------------------------------------------------------- */

static double share_of(const struct measured *m)
{
    return m->elapsed > 0 ? (double)m->cpu / (double)m->elapsed : 0;
}

static double rate_of(const struct measured *m)
{
    return m->elapsed > 0 ? (double)m->times.count * 1e6 / (double)m->elapsed : 0;
}

static void put_times(const struct histogram *h)
{
    static const struct {
        const char *name;
        double share;
    } points[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}};
    printf("{\"min\":%llu", (unsigned long long)h->min);
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        printf(",\"%s\":%llu", points[i].name,
               (unsigned long long)histogram_at(h, points[i].share));
    }
    printf(",\"max\":%llu}", (unsigned long long)h->max);
}

static void put_phase(const char *name, const struct measured *m, size_t clients)
{
    printf("\"%s\":", name);
    if (!m->was_done) {
        fputs("{\"skipped\":", stdout);
        put_quoted(stdout, tidings_str(m->why));
        fputc('}', stdout);
        return;
    }
    printf("{\"clients\":%zu,\"elapsedMs\":%llu,\"ended\":", clients,
           (unsigned long long)(m->elapsed / 1000));
    put_quoted(stdout, tidings_str(m->ended[0] ? m->ended : "done"));
    printf(",\"count\":%llu,\"errors\":%llu,\"missed\":%llu,\"changes\":%llu,"
           "\"perSecond\":%.1f,\"us\":",
           (unsigned long long)m->times.count, (unsigned long long)m->errors,
           (unsigned long long)m->missed, (unsigned long long)m->changes, rate_of(m));
    put_times(&m->times);
    printf(",\"clientCpu\":%.3f,\"clientBound\":%s}", share_of(m),
           share_of(m) > BOUND ? "true" : "false");
}

static void put_bars(const struct histogram *h)
{
    uint64_t most = 1;
    for (uint64_t from = 1; from <= h->max && from < UINT64_C(1) << 40; from *= 2) {
        uint64_t n = histogram_between(h, from, 2 * from);
        most = n > most ? n : most;
    }
    for (uint64_t from = 1; from <= h->max && from < UINT64_C(1) << 40; from *= 2) {
        uint64_t n = histogram_between(h, from, 2 * from);
        if (n > 0) {
            printf("  below %9.3f ms  %9llu ", (double)(2 * from) / 1000, (unsigned long long)n);
            for (uint64_t i = 0; i < (n * BAR + most - 1) / most; i++) {
                fputc('#', stdout);
            }
            fputc('\n', stdout);
        }
    }
}

static void print_phase(const struct bench *b, const char *name, const struct measured *m,
                        size_t clients)
{
    put_style(&b->cli, stdout, STYLE_BOLD);
    fputs(name, stdout);
    put_style(&b->cli, stdout, STYLE_PLAIN);
    if (!m->was_done) {
        printf(": not measured: ");
        put_text(stdout, tidings_str(m->why));
        fputc('\n', stdout);
        return;
    }
    printf(": %llu in %.1f s over %zu clients", (unsigned long long)m->times.count,
           (double)m->elapsed / 1e6, clients);
    if (m->changes > 0) {
        printf(", %llu changes\n", (unsigned long long)m->changes);
    } else {
        printf(", %.0f in a second\n", rate_of(m));
    }
    if (m->ended[0]) {
        printf("  it ended before its time: %s\n", m->ended);
    }
    printf("  median %.3f ms, 90 %% %.3f, 99 %% %.3f, longest %.3f\n",
           (double)histogram_at(&m->times, 0.5) / 1000, (double)histogram_at(&m->times, 0.9) / 1000,
           (double)histogram_at(&m->times, 0.99) / 1000, (double)m->times.max / 1000);
    put_bars(&m->times);
    if (m->errors + m->missed > 0) {
        printf("  %llu errors, %llu that did not come within 5 s: ", (unsigned long long)m->errors,
               (unsigned long long)m->missed);
        put_text(stdout, tidings_str(m->why));
        fputc('\n', stdout);
    }
    printf("  the client used %.0f %% of a core%s\n", 100 * share_of(m),
           share_of(m) > BOUND ? ": it was the bottleneck, not the server" : "");
}

static int bench_report(const struct bench *b)
{
    if (b->cli.json) {
        fputs("{\"uri\":", stdout);
        put_quoted(stdout, tidings_str(b->uri));
        fputc(',', stdout);
        put_phase("requests", &b->asked, b->connections);
        fputc(',', stdout);
        put_phase("fanout", &b->fanout, b->hearers);
        fputs("}\n", stdout);
    } else {
        print_phase(b, "requests", &b->asked, b->connections);
        print_phase(b, "fan-out", &b->fanout, b->hearers);
    }
    bool is_bad = b->asked.errors + b->asked.missed + b->fanout.errors + b->fanout.missed > 0 ||
                  b->asked.ended[0] || b->fanout.ended[0] || (b->is_wanted && !b->fanout.was_done);
    int written = command_finish("bench");
    return is_bad ? 1 : written;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int bench_on_resource(void *user, struct tidings_str item)
{
    char **uri = user;
    char *text = text_at(item, "/uri");
    size_t n = text ? strlen(text) : 0;
    if (n > 0 && text[n - 1] != '/') {
        *uri = strdup(text);
    }
    tidings_free(text);
    return *uri ? 1 : 0;
}

/* Choose the resource, and the parameters that read it. */
static int bench_prepare(struct bench *b, struct tidings_error *err)
{
    struct json_text t;
    if (b->cli.arg_count > 0) {
        b->uri = uri_of_argument(b->cli.args[0], err);
    } else {
        struct tidings_client *client = target_open(&b->cli, err);
        int rc = client ? tidings_client_list(client, TIDINGS_LISTING_RESOURCES, bench_on_resource,
                                              &b->uri, err)
                        : err->code;
        b->wants_login = tidings_client_wants_credentials(client);
        tidings_client_destroy(client);
        if (rc >= 0 && !b->uri) {
            tidings_fail(err, TIDINGS_E_NOTFOUND, "the server lists no resource");
        }
    }
    if (!b->uri) {
        return err->code;
    }
    if (!json_text_begin(&t)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(b->uri));
    fputc('}', t.out);
    b->read_params = json_text_take(&t);
    return b->read_params ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* A client needs several descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int measure(struct bench *b, struct tidings_error *err)
{
    int rc = bench_prepare(b, err);
    if (rc == 0) {
        rc = bench_requests(b, err);
        bench_close(b);
    }
    if (rc < 0) {
        return rc;
    }
    b->is_wanted = b->change || b->touches;
    if (!b->is_wanted) {
        snprintf(b->fanout.why, sizeof(b->fanout.why), "--change or --touch brings changes about");
    } else if (b->asked.ended[0]) {
        snprintf(b->fanout.why, sizeof(b->fanout.why), "%s", b->asked.ended);
    } else if (bench_fanout(b, err) < 0 && b->fanout.changes == 0) {
        /* Earlier results are still reported. */
        snprintf(b->fanout.why, sizeof(b->fanout.why), "%.190s", err->text);
    } else if (b->fanout.changes == 0 && !b->fanout.why[0]) {
        snprintf(b->fanout.why, sizeof(b->fanout.why), "%s", b->fanout.ended);
    }
    bench_close(b);
    return 0;
}

static int bench_run(struct cli *cli)
{
    struct bench *b = (struct bench *)cli;
    struct tidings_error err = {0};
    if (cli->launch) {
        return command_misuse("bench", "a launched server has one client: bench wants an address",
                              NULL);
    }
    if (b->change && b->touches) {
        return command_misuse("bench", "there is one way to change something: --change or --touch",
                              NULL);
    }
    b->epoll = -1;
    raise_limit();
    int rc = measure(b, &err);
    bench_close(b);
    int status = rc < 0 ? command_fail("bench", &err, target_hint(cli, &err, b->wants_login))
                        : bench_report(b);
    free(b->uri);
    free(b->read_params);
    return status;
}

#define AT(member) offsetof(struct bench, member)

static const struct option options[] = {
    {.name = "connections",
     .letter = 'c',
     .kind = OPTION_NUMBER,
     .offset = AT(connections),
     .metavar = "N",
     .help = "clients that read, each with one request under way",
     .value = "16",
     .min = 1,
     .max = 1000},
    {.name = "listens",
     .letter = 'l',
     .kind = OPTION_NUMBER,
     .offset = AT(listens),
     .metavar = "N",
     .help = "clients that are subscribed",
     .value = "100",
     .min = 1,
     .max = 1000},
    {.name = "duration",
     .letter = 'd',
     .kind = OPTION_TIME,
     .offset = AT(duration_ms),
     .metavar = "TIME",
     .help = "how long to ask, and how long to change",
     .value = "5s",
     .min = 100,
     .max = 3600000},
    {.name = "requests",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .offset = AT(requests),
     .metavar = "N",
     .help = "stop after N requests",
     .min = 1},
    {.name = "change",
     .kind = OPTION_TEXT,
     .offset = AT(change),
     .metavar = "COMMAND",
     .help = "a command for the shell that changes the resource"},
    {.name = "touch",
     .kind = OPTION_FLAG,
     .offset = AT(touches),
     .help = "change it by the server's tool publish"},
    {0},
};

const struct command command_bench = {
    .name = "bench",
    .args = "[URI]",
    .help = "measure how fast a server answers and notifies",
    .about =
        "Read the URI, or the first resource listed, over many clients for some time; then have\n"
        "many clients subscribe to it, change it again and again, and see how soon each is told:\n"
        "from the start of --change's command, or from the call of the tool. Any MCP server, of\n"
        "either era; everything runs on one thread of this process, whose share of a core is\n"
        "told: near 100 % it measured itself.\n\n"
        "What was measured is told also when it is interrupted or the server goes away, with how "
        "it ended.\n\n"
        "--json prints an object: uri, requests and fanout, each with clients, elapsedMs, ended "
        "(done, or why it ended before its time), count, errors, missed, changes, perSecond, us "
        "(min, p50, p90, p99, p999, max), clientCpu, clientBound; or skipped, and why. The exit "
        "status is 1 when something failed, did not come or ended before its time.\n",
    .options = options,
    .size = sizeof(struct bench),
    .max_args = 1,
    .has_target = true,
    .run = bench_run,
};
