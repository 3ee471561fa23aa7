/* SPDX-License-Identifier: MIT
 *
 * The load that `tidings bench` puts on a server: many clients that send requests, or wait for
 * updates. Each client has a descriptor that is readable when it has something to do; all of them
 * are in one epoll instance.
 */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bin/bench/bench.h"
#include "bin/cli/output.h"
#include "bin/remote/remote.h"
#include "bin/remote/target.h"

#define BATCH 64
#define LATE_US UINT64_C(5000000) /* an update that takes longer is missed */
#define TRIES 2u                  /* requests in a row that nobody answers: it is not asked again */
#define PAUSE_US UINT64_C(150000) /* between changes: servers gather what comes faster */

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

/* It ends before its time. */
static void bench_load_end(struct measured *m, const char *why)
{
    if (!m->ended[0]) {
        snprintf(m->ended, sizeof(m->ended), "%s", why);
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Open `count` clients and let the loop hear them. */
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

void bench_close(struct bench *b)
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

/* Let all do what they have to do, waiting at most so long. */
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
            bench_load_remember(b->hearers > 0 ? &b->told : &b->asked, err.text);
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

int bench_requests(struct bench *b, struct tidings_error *err)
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
    if (b->change_us > 0 && c->last_change != b->told.changes) {
        c->last_change = b->told.changes;
        histogram_add(&b->told.times, bench_now() - b->change_us);
        b->heard++;
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
        bench_load_remember(&c->bench->told, why);
    }
}

static void on_published(void *user, struct tidings_str result, const struct tidings_error *err,
                         struct tidings_str error)
{
    struct bench *b = user;
    (void)error;
    b->is_calling = false;
    if (err || is_true_at(result, "/isError")) {
        b->told.errors++;
        bench_load_remember(&b->told, err ? err->text : "the tool publish failed");
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
            (unsigned long long)b->told.changes);
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

/* Whatever makes the change has ended. */
static bool is_made(struct bench *b)
{
    int status = 0;
    if (b->child > 0 && waitpid(b->child, &status, WNOHANG) == b->child) {
        b->child = 0;
        if (status != 0) {
            b->told.errors++;
            bench_load_remember(&b->told, "the command of --change failed");
        }
    }
    return b->child == 0 && !b->is_calling;
}

/* Is it no use to go on? Then it is said why. */
static bool bench_load_is_over(struct bench *b)
{
    if (remote_caught) {
        bench_load_end(&b->told, "interrupted");
    } else if (b->lost >= b->count) {
        bench_load_end(&b->told, "the server went away");
    } else if (b->told.errors > 0) {
        bench_load_end(&b->told, "a change failed");
    }
    return b->told.ended[0] != '\0';
}

static int one_change(struct bench *b, struct tidings_error *err)
{
    b->told.changes++;
    b->heard = 0;
    b->change_us = bench_now();
    uint64_t cpu = cpu_now();
    int rc = b->change ? bench_load_run_command(b, err) : bench_load_call_tool(b, err);
    uint64_t due = b->change_us + LATE_US;
    while (rc == 0 && b->heard < b->hearers && !bench_load_is_over(b) && bench_now() < due) {
        bench_load_turn(b, 100);
        (void)is_made(b);
    }
    b->told.elapsed += bench_now() - b->change_us;
    b->told.cpu += cpu_now() - cpu;
    while (rc == 0 && !is_made(b) && !remote_caught && bench_now() < due) {
        bench_load_turn(b, 1);
    }
    b->told.missed += remote_caught ? 0 : b->hearers - b->heard; /* they had no time */
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
                                         "nobody could subscribe: %.150s", b->told.why);
}

int bench_fanout(struct bench *b, struct tidings_error *err)
{
    struct measured *m = &b->told;
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
