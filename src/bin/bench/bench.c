/* SPDX-License-Identifier: MIT
 *
 * `tidings bench`: how fast a server answers, and how soon it tells many of a change. What the
 * measuring costs itself is said, since it is often more than what is measured.
 */
#include "bin/bench/bench.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/remote.h"
#include "bin/remote/target.h"

#define BOUND 0.8 /* of one core: the client had no time left */
#define BAR 40u

/* ---- what is printed ------------------------------------------------------------------------- */

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

static void tell_phase(const struct bench *b, const char *name, const struct measured *m,
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
    printf("  the client used %.0f %% of a core meanwhile%s\n", 100 * share_of(m),
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
        put_phase("fanout", &b->told, b->hearers);
        fputs("}\n", stdout);
    } else {
        tell_phase(b, "requests", &b->asked, b->connections);
        tell_phase(b, "fan-out", &b->told, b->hearers);
    }
    bool is_bad = b->asked.errors + b->asked.missed + b->told.errors + b->told.missed > 0 ||
                  b->asked.ended[0] || b->told.ended[0] || (b->is_wanted && !b->told.was_done);
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

/* The resource, and the parameters that read it. */
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

/* A client takes a handful of descriptors. */
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
        snprintf(b->told.why, sizeof(b->told.why), "--change or --touch brings changes about");
    } else if (b->asked.ended[0]) {
        snprintf(b->told.why, sizeof(b->told.why), "%s", b->asked.ended);
    } else if (bench_fanout(b, err) < 0 && b->told.changes == 0) {
        /* What was measured before is told all the same. */
        snprintf(b->told.why, sizeof(b->told.why), "%.190s", err->text);
    } else if (b->told.changes == 0 && !b->told.why[0]) {
        snprintf(b->told.why, sizeof(b->told.why), "%s", b->told.ended);
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
     .help = "end asking after so many requests",
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
    .help = "measure how fast a server answers and tells of changes",
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
