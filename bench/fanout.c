/* SPDX-License-Identifier: MIT
 *
 * The server's cost of delivery to many listens: CPU time per delivered event, resident memory per
 * idle stream, and the time from an announcement until the last listen has it.
 *
 * A *plan* is a number of streams, and the size and rate of its announcements, at a rate far below
 * the capacity of the machine. Each plan is run with tidings (plain writes, and io_uring) and with
 * a bare epoll+send loop that sends events of the same size, in turns. For every turn a new process
 * is started and all streams are reopened, so that turns are independent. Only the CPU clock of the
 * server counts; the cost of reading the streams is not measured.
 */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "mcp.h"
#include "secure.h"
#include "streams.h"

enum {
    REQUEST_MAX = 16384,
    ROUNDS_MAX = 99,
    PER_S_MAX = 10,
    WARM_UP = 3,
    LIMIT_S = 1800,
    EVENT_BYTES = 494
};

enum who { PLAIN, URING, BARE, WHO_COUNT };
static const char *const who_names[WHO_COUNT] = {"plain", "uring", "baseline"};

struct plan {
    const char *name;
    size_t streams;
    unsigned resources; /* announced together; each stream listens to all */
    double per_s;       /* announcements */
};

static const struct plan plans[] = {
    {"streams_1000", 1000, 1, 10},
    {"streams_10000", 10000, 1, 1},
    {"resources_100", 1000, 100, 2},
};
enum { PLAN_COUNT = sizeof(plans) / sizeof(plans[0]) };

/* The results of one server's turns in one plan. */
struct figures {
    struct bench_samples cpu_us;     /* per delivered event */
    struct bench_samples last_ms;    /* announcement to last stream, each announcement */
    struct bench_samples rss_bytes;  /* growth per idle stream */
    struct bench_samples slab_bytes; /* the kernel's, both ends of the connection */
    struct bench_samples segments;   /* per stream and announcement */
};

/* One server while it is measured. */
struct turn {
    const struct plan *plan;
    enum who who;
    struct bench_child child;
    struct streams streams;
    int control; /* connection to tidings for announcing; baseline: -1 */
    struct ssl_st *control_ssl;
};

static unsigned long seconds = 5;
static unsigned long rounds = 5;
static char server[BENCH_PATH_MAX];
static char workers[BENCH_PATH_MAX] = "1";
static bool takes_part[WHO_COUNT];
static bool over_websocket;
static bool uring_seen; /* the server has a ring */
static bool is_secure;  /* all of it over TLS */
static FILE *out;       /* the output at the end, on success */

/* ---- announcing -------------------------------------------------------------------------------
 */

static void ask(const struct turn *t)
{
    static const char body[] = "{\"n\":1}";
    char request[512];
    if (t->who == BARE) {
        bench_write(t->child.in, "\n", 1);
        return;
    }
    int n = snprintf(request, sizeof(request),
                     "POST /publish?n=%u HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     t->plan->resources, sizeof(body) - 1, body);
    if (is_secure) {
        secure_write(t->control_ssl, request, (size_t)n);
    } else {
        bench_write(t->control, request, (size_t)n);
    }
}

/* What mcp_wait_for does, through TLS. */
static void wait_secure(struct ssl_st *ssl, int fd, const char *needle, char *text, size_t max)
{
    size_t have = 0;
    text[0] = '\0';
    while (!strstr(text, needle)) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (have + 1 == max || poll(&ready, 1, BENCH_WAIT_MS) <= 0) {
            bench_die("'%s' did not come", needle);
        }
        have += secure_read(ssl, text + have, max - 1 - have);
        text[have] = '\0';
    }
}

/* When it was announced, by the server's own word. */
static int64_t take_answer(const struct turn *t)
{
    char text[2048];
    size_t have = 0;
    if (t->who == BARE) {
        bench_read_line(t->child.out, text, sizeof(text));
    } else if (is_secure) {
        wait_secure(t->control_ssl, t->control, " ns\n", text, sizeof(text));
    } else {
        mcp_wait_for(t->control, " ns\n", text, &have, sizeof(text));
    }
    const char *at = strstr(text, " ns");
    while (at && at > text && at[-1] >= '0' && at[-1] <= '9') {
        at--;
    }
    return at ? strtoll(at, NULL, 10) : 0;
}

/* Announces and waits until all streams have received it; returns the time taken. */
static int64_t announce(struct turn *t)
{
    ask(t);
    int64_t last = streams_wait(&t->streams, t->who == BARE ? 1 : t->plan->resources);
    return last - take_answer(t);
}

/* ---- starting ---------------------------------------------------------------------------------
 */

static void start_bare(struct turn *t, size_t event_bytes)
{
    char path[BENCH_PATH_MAX];
    char size[32];
    char certificate[BENCH_PATH_MAX], key[BENCH_PATH_MAX];
    bench_sibling(path, is_secure ? "baseline_fanout_tls" : "baseline_fanout");
    snprintf(size, sizeof(size), "%zu", event_bytes);
    snprintf(certificate, sizeof(certificate), "%s", secure_certificate());
    snprintf(key, sizeof(key), "%s", secure_key());
    char *const argv[] = {path, size, is_secure ? certificate : workers, is_secure ? key : NULL,
                          NULL};
    bench_spawn(&t->child, argv, BENCH_STDIO | BENCH_STDERR);
}

static void start_tidings(struct turn *t)
{
    char http[] = "--http=127.0.0.1:0";
    char option[] = "--workers";
    char keepalive[] = "--keepalive=1h";
    char quiet[] = "--log-level=error";
    char with[] = "--io-uring=auto";
    char without[] = "--io-uring=off";
    char certificate[BENCH_PATH_MAX], key[BENCH_PATH_MAX];
    snprintf(certificate, sizeof(certificate), "--tls-cert=%s", secure_certificate());
    snprintf(key, sizeof(key), "--tls-key=%s", secure_key());
    char *const argv[] = {server,
                          http,
                          option,
                          workers,
                          keepalive,
                          quiet,
                          t->who == URING ? with : without,
                          is_secure ? certificate : NULL,
                          key,
                          NULL};
    bench_spawn(&t->child, argv, BENCH_STDERR);
}

static size_t listen_request(const struct turn *t, char *request, size_t max)
{
    const struct plan *plan = t->plan;
    char params[8192];
    size_t n =
        (size_t)snprintf(params, sizeof(params), ",\"notifications\":{\"resourceSubscriptions\":[");
    for (unsigned i = 1; i <= plan->resources; i++) {
        n += (size_t)snprintf(params + n, sizeof(params) - n, "%s\"bench://r/%u\"",
                              i > 1 ? "," : "", i);
    }
    snprintf(params + n, sizeof(params) - n, "]}");
    return t->streams.is_websocket
               ? mcp_websocket_request(request, max, "subscriptions/listen", params)
               : mcp_request(request, max, "subscriptions/listen", NULL, params);
}

static bool has_ring(pid_t pid)
{
    char path[64];
    char target[64];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && !found && (e = readdir(dir)) != NULL;) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        found = strstr(target, "io_uring") != NULL;
    }
    if (dir) {
        closedir(dir);
    }
    return found;
}

/* A row of /proc/meminfo in KiB. */
static unsigned long kernel_kib(const char *field)
{
    char line[256];
    unsigned long value = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && value == 0 && fgets(line, sizeof(line), f)) {
        if (strncmp(line, field, strlen(field)) == 0) {
            value = strtoul(line + strlen(field) + 1, NULL, 10);
        }
    }
    if (f) {
        fclose(f);
    }
    return value;
}

/* Opens all streams; notes what they take while nothing happens on them. */
static void open_streams(struct turn *t, unsigned port, struct figures *f)
{
    char request[REQUEST_MAX];
    streams_init(&t->streams, t->plan->streams);
    t->streams.is_secure = is_secure;
    t->streams.is_websocket = over_websocket && t->who != BARE;
    size_t n = listen_request(t, request, sizeof(request));
    unsigned long rss = bench_memory_kib(t->child.pid, "VmRSS");
    unsigned long slab = kernel_kib("Slab");
    streams_open(&t->streams, port, request, n);
    double per_stream = 1024.0 / (double)t->plan->streams;
    double grown = (double)bench_memory_kib(t->child.pid, "VmRSS") - (double)rss;
    bench_samples_add(&f->rss_bytes, grown * per_stream);
    bench_samples_add(&f->slab_bytes, ((double)kernel_kib("Slab") - (double)slab) * per_stream);
}

/* The first announcements: is it what was announced, and how many bytes are it per stream? */
static size_t warm_up(struct turn *t)
{
    for (int i = 1; i < WARM_UP; i++) {
        announce(t);
    }
    uint64_t before = t->streams.bytes;
    announce(t);
    if (t->who != BARE &&
        (!strstr(t->streams.last, "notifications/resources/updated") ||
         !strstr(t->streams.last, "bench://r/") || !strstr(t->streams.last, "\"n\":1"))) {
        bench_die("not the expected event: %s", t->streams.last);
    }
    return (size_t)((t->streams.bytes - before) / t->plan->streams);
}

/* ---- measuring --------------------------------------------------------------------------------
 */

/* Returns the bytes one announcement is per stream. */
static size_t run_turn(const struct plan *plan, enum who who, size_t bytes, struct figures *f)
{
    struct turn t = {.plan = plan, .who = who, .control = -1};
    if (who == BARE) {
        start_bare(&t, bytes);
    } else {
        start_tidings(&t);
    }
    unsigned port = bench_wait_port(&t.child);
    if (who != BARE) {
        t.control = mcp_connect(port);
        t.control_ssl = is_secure ? secure_connect(t.control) : NULL;
        ask(&t); /* the first of everything is not what idle streams take */
        take_answer(&t);
    }
    open_streams(&t, port, f);
    bytes = warm_up(&t);
    uring_seen = uring_seen || (who == URING && has_ring(t.child.pid));

    unsigned count = (unsigned)(plan->per_s * (double)seconds);
    int64_t period = (int64_t)(1e9 / plan->per_s);
    uint64_t segments = streams_segments(&t.streams);
    int64_t begin = bench_now_ns();
    int64_t cpu = bench_cpu_ns(t.child.pid);
    for (unsigned i = 1; i <= count; i++) {
        bench_samples_add(&f->last_ms, (double)announce(&t) / 1e6);
        streams_pause(&t.streams, begin + i * period);
    }
    cpu = bench_cpu_ns(t.child.pid) - cpu;
    segments = streams_segments(&t.streams) - segments;
    double turns = (double)count * (double)plan->streams;
    bench_samples_add(&f->cpu_us, (double)cpu / 1e3 / turns / plan->resources);
    bench_samples_add(&f->segments, (double)segments / turns);

    streams_close(&t.streams);
    if (t.control >= 0) {
        secure_free(t.control_ssl);
        close(t.control);
    }
    bench_stop(&t.child);
    return bytes;
}

static void stats_init(struct figures *f)
{
    bench_samples_init(&f->cpu_us, rounds);
    bench_samples_init(&f->last_ms, rounds * seconds * PER_S_MAX);
    bench_samples_init(&f->rss_bytes, rounds);
    bench_samples_init(&f->slab_bytes, rounds);
    bench_samples_init(&f->segments, rounds);
}

static void stats_deinit(struct figures *f)
{
    bench_samples_deinit(&f->cpu_us);
    bench_samples_deinit(&f->last_ms);
    bench_samples_deinit(&f->rss_bytes);
    bench_samples_deinit(&f->slab_bytes);
    bench_samples_deinit(&f->segments);
}

static void print_figures(const char *name, struct figures *f)
{
    fprintf(out,
            ",\"%s\":{\"cpu_us\":%.2f,\"cpu_us_min\":%.2f,\"cpu_us_max\":%.2f,\"last_ms_p50\":%.2f,"
            "\"last_ms_p95\":%.2f,\"rss_bytes_per_stream\":%.0f,\"slab_bytes_per_stream\":%.0f,"
            "\"segments_per_stream\":%.2f}",
            name, bench_samples_at(&f->cpu_us, 0.5), bench_samples_at(&f->cpu_us, 0),
            bench_samples_at(&f->cpu_us, 1), bench_samples_at(&f->last_ms, 0.5),
            bench_samples_at(&f->last_ms, 0.95), bench_samples_at(&f->rss_bytes, 0.5),
            bench_samples_at(&f->slab_bytes, 0.5), bench_samples_at(&f->segments, 0.5));
}

/* The median of the ratios of turns that followed one another. */
static double ratio(const double *ours, const double *bare)
{
    struct bench_samples s;
    bench_samples_init(&s, rounds);
    for (size_t i = 0; i < rounds; i++) {
        bench_samples_add(&s, ours[i] / bare[i]);
    }
    double median = bench_samples_at(&s, 0.5);
    bench_samples_deinit(&s);
    return median;
}

static void print_plan(const struct plan *plan, size_t bytes, struct figures figures[WHO_COUNT],
                       double cpu[WHO_COUNT][ROUNDS_MAX])
{
    fprintf(out, ",\"%s\":{\"bytes_per_stream\":%zu,\"per_s\":%.0f", plan->name, bytes,
            plan->per_s);
    for (enum who who = 0; who < WHO_COUNT; who++) {
        if (!takes_part[who]) {
            continue;
        }
        print_figures(who_names[who], &figures[who]);
        if (takes_part[BARE] && who != BARE) {
            fprintf(out, ",\"%s_ratio\":%.3f", who_names[who], ratio(cpu[who], cpu[BARE]));
        }
    }
    fprintf(out, "}");
}

static void run_plan(const struct plan *plan)
{
    struct figures figures[WHO_COUNT];
    static double cpu[WHO_COUNT][ROUNDS_MAX];
    size_t bytes = EVENT_BYTES * plan->resources;
    for (enum who who = 0; who < WHO_COUNT; who++) {
        stats_init(&figures[who]);
    }
    for (unsigned long r = 0; r < rounds; r++) {
        for (enum who who = 0; who < WHO_COUNT; who++) {
            if (!takes_part[who]) {
                continue;
            }
            bytes = run_turn(plan, who, bytes, &figures[who]);
            cpu[who][r] = figures[who].cpu_us.values[r];
            /* Without io_uring here it would be the plain one twice. */
            takes_part[URING] = takes_part[URING] && (who != URING || uring_seen);
        }
    }
    print_plan(plan, bytes, figures, cpu);
    for (enum who who = 0; who < WHO_COUNT; who++) {
        stats_deinit(&figures[who]);
    }
}

/* Which plans and servers were asked for; all by default. */
static bool is_asked(const char *only, const char *name)
{
    return !only[0] || strcmp(only, name) == 0;
}

static void check_options(const char *over)
{
    if (rounds > ROUNDS_MAX) {
        bench_die("more than %d rounds", (int)ROUNDS_MAX);
    }
    over_websocket = strcmp(over, "websocket") == 0;
    if (!over_websocket && strcmp(over, "http") != 0) {
        bench_die("'%s' is none of http, websocket", over);
    }
    if (is_secure && strcmp(workers, "1") != 0) {
        bench_die("over TLS the baseline has one thread: --workers 1");
    }
    if (is_secure) {
        secure_make_files();
    }
}

int main(int argc, char **argv)
{
    char only_plan[BENCH_PATH_MAX] = "";
    char only_who[BENCH_PATH_MAX] = "";
    char over[BENCH_PATH_MAX] = "http";
    bench_init("fanout", LIMIT_S);
    bench_sibling(server, "fanout_server");
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "server", .help = "program to measure", .text = server},
                      {.name = "workers", .help = "its --workers", .text = workers},
                      {.name = "rounds", .help = "turns of each server", .number = &rounds},
                      {.name = "seconds", .help = "length of a turn", .number = &seconds},
                      {.name = "plan", .help = "this one only", .text = only_plan},
                      {.name = "over", .help = "http or websocket", .text = over},
                      {.name = "tls", .help = "over TLS, beside bare OpenSSL", .flag = &is_secure},
                      {.name = "only", .help = "plain, uring or baseline", .text = only_who},
                      {.name = NULL},
                  });
    check_options(over);
    char *line = NULL;
    size_t length = 0;
    out = open_memstream(&line, &length);
    if (!out) {
        bench_die("out of memory");
    }
    bool any = false;
    for (size_t i = 0; i < WHO_COUNT; i++) {
        takes_part[i] = is_asked(only_who, who_names[i]);
        any = any || takes_part[i];
    }
    if (!any) {
        bench_die("'%s' is none of plain, uring, baseline", only_who);
    }
    fprintf(out,
            "{\"bench\":\"fanout\",\"over\":\"%s\",\"tls\":%s,\"workers\":%s,\"rounds\":%lu,"
            "\"seconds\":%lu",
            over, is_secure ? "true" : "false", workers, rounds, seconds);
    for (size_t i = 0; i < PLAN_COUNT; i++) {
        if (is_asked(only_plan, plans[i].name)) {
            run_plan(&plans[i]);
        }
    }
    fprintf(out,
            is_secure ? ",\"uring\":%s,\"goal\":{\"plain_ratio\":1.3,\"uring_ratio\":1.3}}\n"
                      : ",\"uring\":%s,\"goal\":{\"plain_ratio\":1.15,\"uring_ratio\":0.9,"
                        "\"resources_100_cpu_us\":1.5,\"rss_bytes_per_stream\":1024,"
                        "\"last_ms_p50\":15}}\n",
            uring_seen ? "true" : "false");
    if (is_secure) {
        secure_remove_files();
    }
    fclose(out);
    fputs(line, stdout);
    free(line);
    return 0;
}
