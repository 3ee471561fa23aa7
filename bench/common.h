/* SPDX-License-Identifier: MIT
 *
 * The base of every benchmark: children that are started, read from and stopped; a scratch
 * directory that is removed again; clocks; medians.
 *
 * A benchmark is a short program: on any failure it prints one error message on standard error and
 * exits with 1 (bench_die). However it ends, its children are killed and its scratch directory is
 * removed; after bench_init's limit, or on SIGINT or SIGTERM, it ends by itself.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    BENCH_WAIT_MS = 20000, /* longest wait for a single answer */
    BENCH_PATH_MAX = 4096,
};

/* Which ends of a child we hold; the others are /dev/null. */
enum bench_pipes {
    BENCH_STDIO = 1,  /* its standard input and output */
    BENCH_STDERR = 2, /* its standard error */
};

struct bench_child {
    pid_t pid;
    int in;  /* written by us */
    int out; /* read by us */
    int err; /* read by us */
};

/* Call first: `limit_s` is the time after which the program gives up. */
void bench_init(const char *name, unsigned limit_s);

_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- arguments --------------------------------------------------------------------------------
 */

/* One number or text that may be given as `--name VALUE`, or a switch that is given as `--name`.
 * Exactly one target is set. */
struct bench_option {
    const char *name;
    const char *help;
    unsigned long *number;
    char *text; /* of BENCH_PATH_MAX bytes */
    bool *flag;
};

/* Options end with a row without a name. `--help` prints them and exits; unknown options are
 * rejected. */
void bench_options(int argc, char **argv, const struct bench_option *options);

/* The path of a program built with us: `relative` to the directory of the running benchmark. */
void bench_sibling(char path[BENCH_PATH_MAX], const char *relative);

/* ---- children ---------------------------------------------------------------------------------
 */

/* Starts argv[0], a path. `ret_child` gets -1 for the ends that `pipes` does not name. */
void bench_spawn(struct bench_child *ret_child, char *const argv[], unsigned pipes);

/* Reads one line (without its end) within BENCH_WAIT_MS; dies if the child closes before that or
 * the line does not fit. Discards any input after the line: a benchmark sends a request, and then
 * waits for its one line. */
size_t bench_read_line(int fd, char *line, size_t max);

void bench_write(int fd, const char *bytes, size_t n);

/* Waits until the child says "... serving on http://HOST:PORT/..." and returns the port. */
unsigned bench_wait_port(const struct bench_child *child);

/* Asks the child to end (end of input, then SIGTERM), waits for it, and dies unless it exits with
 * 0 or by that signal. Returns how long that took. */
int64_t bench_stop(struct bench_child *child);

/* ---- measuring --------------------------------------------------------------------------------
 */

int64_t bench_now_ns(void);

/* CPU time the process has used up to now, all its threads. */
int64_t bench_cpu_ns(pid_t pid);

/* A figure of /proc/PID/status in KiB, such as "VmRSS". */
unsigned long bench_memory_kib(pid_t pid, const char *field);

struct bench_samples {
    double *values;
    size_t count;
    size_t max;
};

void bench_samples_init(struct bench_samples *s, size_t max);
void bench_samples_add(struct bench_samples *s, double value);
/* `share` 0.5 is the median. Sorts. */
double bench_samples_at(struct bench_samples *s, double share);
void bench_samples_deinit(struct bench_samples *s);

/* ---- scratch files ----------------------------------------------------------------------------
 */

/* Makes the scratch directory of this run (once) and gives its absolute path. */
const char *bench_scratch(void);

/* Writes `size` bytes of text to PATH. */
void bench_write_file(const char *path, size_t size);

/* `count` files NAME-NN.txt of `size` bytes in a new directory below the scratch directory. */
void bench_make_files(char dir[BENCH_PATH_MAX], size_t count, size_t size);

void bench_remove_scratch(void);

#endif
