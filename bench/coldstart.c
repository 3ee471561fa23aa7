/* SPDX-License-Identifier: MIT
 *
 * From exec to useful over pipes: starts `tidings serve --stdio DIR`, sends `initialize`, waits,
 * sends `notifications/initialized` and `resources/list`, waits, and takes time and memory at that
 * moment. DIR holds 20 small files. Each run is followed by one of baseline_stdio, so that both see
 * the same machine.
 */
#include <stdio.h>
#include <string.h>

#include "common.h"

static const char initialize[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"0\"}}}\n";
static const char list[] =
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/list\",\"params\":{}}\n";

struct figures {
    struct bench_samples total_ms; /* exec to the answer of resources/list */
    struct bench_samples hello_ms; /* exec to the answer of initialize */
    struct bench_samples cpu_ms;   /* CPU time used by then */
    struct bench_samples exit_ms;  /* end of input to exit */
    struct bench_samples hwm_kib;
    struct bench_samples rss_kib;
};

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void run_once(struct figures *f, char *const argv[])
{
    static char line[65536];
    struct bench_child child;
    int64_t from = bench_now_ns();
    bench_spawn(&child, argv, BENCH_STDIO);
    bench_write(child.in, initialize, sizeof(initialize) - 1);
    bench_read_line(child.out, line, sizeof(line));
    int64_t hello = bench_now_ns();
    if (!strstr(line, "\"protocolVersion\":\"2025-11-25\"")) {
        bench_die("not an answer to initialize: %.200s", line);
    }
    bench_write(child.in, list, sizeof(list) - 1);
    bench_read_line(child.out, line, sizeof(line));
    int64_t listed = bench_now_ns();
    bench_samples_add(&f->cpu_ms, ms(bench_cpu_ns(child.pid)));
    bench_samples_add(&f->hwm_kib, (double)bench_memory_kib(child.pid, "VmHWM"));
    bench_samples_add(&f->rss_kib, (double)bench_memory_kib(child.pid, "VmRSS"));
    if (!strstr(line, "\"resources\":[")) {
        bench_die("not an answer to resources/list: %.200s", line);
    }
    bench_samples_add(&f->hello_ms, ms(hello - from));
    bench_samples_add(&f->total_ms, ms(listed - from));
    bench_samples_add(&f->exit_ms, ms(bench_stop(&child)));
}

static void init(struct figures *f, size_t runs)
{
    struct bench_samples *const all[] = {&f->total_ms, &f->hello_ms, &f->cpu_ms, &f->exit_ms,
                                         &f->hwm_kib,  &f->rss_kib,  NULL};
    for (size_t i = 0; all[i]; i++) {
        bench_samples_init(all[i], runs);
    }
}

static void print(const char *name, struct figures *f)
{
    printf("\"%s\":{\"median_ms\":%.3f,\"p95_ms\":%.3f,\"min_ms\":%.3f,\"initialize_ms\":%.3f,"
           "\"cpu_ms\":%.3f,\"exit_ms\":%.1f,\"vm_hwm_kib\":%.0f,\"vm_rss_kib\":%.0f}",
           name, bench_samples_at(&f->total_ms, 0.5), bench_samples_at(&f->total_ms, 0.95),
           bench_samples_at(&f->total_ms, 0), bench_samples_at(&f->hello_ms, 0.5),
           bench_samples_at(&f->cpu_ms, 0.5), bench_samples_at(&f->exit_ms, 0.5),
           bench_samples_at(&f->hwm_kib, 0.5), bench_samples_at(&f->rss_kib, 0.5));
}

int main(int argc, char **argv)
{
    char server[BENCH_PATH_MAX];
    char baseline[BENCH_PATH_MAX];
    char dir[BENCH_PATH_MAX];
    char serve[] = "serve";
    char stdio[] = "--stdio";
    unsigned long runs = 50;
    bench_init("coldstart", 60);
    bench_sibling(server, "../tidings");
    bench_sibling(baseline, "baseline_stdio");
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "server", .help = "program to measure", .text = server},
                      {.name = "runs", .help = "starts of each program", .number = &runs},
                      {.name = NULL},
                  });
    bench_make_files(dir, 20, 200);

    struct figures ours;
    struct figures bare;
    struct figures warm;
    init(&ours, runs);
    init(&bare, runs);
    init(&warm, 4);
    char *const our_argv[] = {server, serve, stdio, dir, NULL};
    char *const bare_argv[] = {baseline, NULL};
    for (int i = 0; i < 2; i++) { /* page cache, dentries */
        run_once(&warm, our_argv);
        run_once(&warm, bare_argv);
    }
    for (unsigned long i = 0; i < runs; i++) {
        run_once(&ours, our_argv);
        run_once(&bare, bare_argv);
    }
    printf("{\"bench\":\"coldstart\",\"runs\":%lu,", runs);
    print("tidings", &ours);
    printf(",");
    print("baseline", &bare);
    printf(",\"goal\":{\"median_ms\":4,\"vm_hwm_kib\":5120}}\n");
    return 0;
}
