/* SPDX-License-Identifier: MIT
 *
 * Children, clocks, medians and scratch files of the benchmarks. Every wait is a poll with a limit,
 * so a signal or a child that hangs ends the program through bench_die and its cleanup.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILDREN_MAX = 8, STOP_MS = 5000, SETTLE_MS = 2200 };

extern char **environ;

static const char *program = "bench";
static char scratch[BENCH_PATH_MAX];
static pid_t children[CHILDREN_MAX];
static volatile sig_atomic_t interrupted;

/* ---- beginning and end ------------------------------------------------------------------------
 */

static void on_signal(int number)
{
    interrupted = number;
}

static void clean_up(void)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        if (children[i] > 0) {
            kill(children[i], SIGKILL);
            waitpid(children[i], NULL, 0);
        }
    }
    bench_remove_scratch();
}

void bench_init(const char *name, unsigned limit_s)
{
    program = name;
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: waits must end */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    atexit(clean_up);
    alarm(limit_s);
}

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* Dies after a signal; `what` is the current activity. */
static void check_interrupt(const char *what)
{
    if (interrupted) {
        bench_die("%s while %s", interrupted == SIGALRM ? "out of time" : "interrupted", what);
    }
}

/* ---- arguments --------------------------------------------------------------------------------
 */

static void print_usage(const struct bench_option *options)
{
    printf("usage: %s [OPTION...]\n\nPrints one line of JSON.\n\n", program);
    for (const struct bench_option *o = options; o->name; o++) {
        if (o->number) {
            printf("  --%-12s %s (default %lu)\n", o->name, o->help, *o->number);
        } else {
            printf("  --%-12s %s (default %s)\n", o->name, o->help, o->text);
        }
    }
}

static const struct bench_option *find_option(const struct bench_option *options, const char *word)
{
    for (const struct bench_option *o = options; o->name; o++) {
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, o->name) == 0) {
            return o;
        }
    }
    return NULL;
}

void bench_options(int argc, char **argv, const struct bench_option *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_usage(options);
            exit(0);
        }
        const struct bench_option *o = find_option(options, argv[i]);
        if (o && o->flag) {
            *o->flag = true;
            continue;
        }
        if (!o || i + 1 == argc) {
            bench_die(o ? "'%s' needs a value" : "unknown option '%s'; try --help", argv[i]);
        }
        const char *value = argv[++i];
        if (o->text) {
            snprintf(o->text, BENCH_PATH_MAX, "%s", value);
            continue;
        }
        char *end;
        errno = 0;
        unsigned long number = strtoul(value, &end, 10);
        if (errno || end == value || *end || number == 0 || number > 10000000) {
            bench_die("'%s' is not a number from 1 to 10000000", value);
        }
        *o->number = number;
    }
}

void bench_sibling(char path[BENCH_PATH_MAX], const char *relative)
{
    ssize_t n = readlink("/proc/self/exe", path, BENCH_PATH_MAX - 1);
    if (n < 0) {
        bench_die("where the benchmark lies: %s", strerror(errno));
    }
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    size_t at = slash ? (size_t)(slash - path) + 1 : 0;
    if (at + strlen(relative) + 1 > BENCH_PATH_MAX) {
        bench_die("the path of '%s' is too long", relative);
    }
    memcpy(path + at, relative, strlen(relative) + 1);
}

/* ---- children ---------------------------------------------------------------------------------
 */

static void remember(pid_t pid, pid_t replacement)
{
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        if (children[i] == pid) {
            children[i] = replacement;
            return;
        }
    }
    bench_die("more than %d children", (int)CHILDREN_MAX);
}

/* A pipe whose end `child_end` (0 or 1) becomes `fd` in the child; ours is returned. */
static int give_pipe(posix_spawn_file_actions_t *actions, int fd, int child_end, int *ret_theirs)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        bench_die("a pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_adddup2(actions, ends[child_end], fd);
    *ret_theirs = ends[child_end];
    return ends[!child_end];
}

void bench_spawn(struct bench_child *ret_child, char *const argv[], unsigned pipes)
{
    struct bench_child child = {.pid = 0, .in = -1, .out = -1, .err = -1};
    int theirs[3] = {-1, -1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++) {
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    }
    if (pipes & BENCH_STDIO) {
        child.in = give_pipe(&actions, STDIN_FILENO, 0, &theirs[0]);
        child.out = give_pipe(&actions, STDOUT_FILENO, 1, &theirs[1]);
    }
    if (pipes & BENCH_STDERR) {
        child.err = give_pipe(&actions, STDERR_FILENO, 1, &theirs[2]);
    }
    int rc = posix_spawn(&child.pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < 3; i++) {
        if (theirs[i] >= 0) {
            close(theirs[i]);
        }
    }
    if (rc != 0) {
        bench_die("start '%s': %s", argv[0], strerror(rc));
    }
    remember(0, child.pid);
    *ret_child = child;
}

/* Waits for more behind the `have` bytes of `text`, which stays NUL-terminated; how many there are
 * now. */
static size_t read_more(int fd, char *text, size_t have, size_t max, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int64_t left_ms = (deadline - bench_now_ns()) / 1000000;
    int rc = left_ms > 0 ? poll(&p, 1, (int)left_ms) : 0;
    check_interrupt("waiting for a line");
    if (rc <= 0) {
        bench_die("no line came within %d ms", (int)BENCH_WAIT_MS);
    }
    if (have == max - 1) {
        bench_die("a line longer than %zu bytes", max - 1);
    }
    ssize_t n = read(fd, text + have, max - 1 - have);
    if (n <= 0) {
        bench_die("the child closed before it answered");
    }
    text[have + (size_t)n] = '\0';
    return have + (size_t)n;
}

size_t bench_read_line(int fd, char *line, size_t max)
{
    size_t have = 0;
    char *end = NULL;
    int64_t deadline = bench_now_ns() + (int64_t)BENCH_WAIT_MS * 1000000;
    while (!end) {
        have = read_more(fd, line, have, max, deadline);
        end = memchr(line, '\n', have);
    }
    *end = '\0';
    return (size_t)(end - line);
}

void bench_write(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(fd, bytes, n);
        if (wrote < 0) {
            check_interrupt("writing");
            bench_die("write to the server: %s", strerror(errno));
        }
        bytes += wrote;
        n -= (size_t)wrote;
    }
}

unsigned bench_wait_port(const struct bench_child *child)
{
    char text[8192];
    size_t have = 0;
    char *at = NULL, *end = NULL;
    int64_t deadline = bench_now_ns() + (int64_t)BENCH_WAIT_MS * 1000000;
    while (!end) { /* lines of the log may come first */
        have = read_more(child->err, text, have, sizeof(text), deadline);
        at = strstr(text, "serving on http");
        end = at ? strchr(at, '\n') : NULL;
    }
    *end = '\0';
    at = strrchr(at, ':');
    unsigned long port = strtoul(at + 1, NULL, 10);
    if (port == 0 || port > 65535) {
        bench_die("expected the address of the server, got '%s'", text);
    }
    return (unsigned)port;
}

int64_t bench_stop(struct bench_child *child)
{
    int64_t from = bench_now_ns();
    if (child->in >= 0) {
        close(child->in);
    } else {
        kill(child->pid, SIGTERM);
    }
    int status = 0;
    pid_t ended = 0;
    int64_t deadline = from + (int64_t)STOP_MS * 1000000;
    while (ended == 0 && bench_now_ns() < deadline) {
        check_interrupt("waiting for a child to end");
        ended = waitpid(child->pid, &status, WNOHANG);
        if (ended == 0) {
            poll(NULL, 0, 1);
        }
    }
    if (ended <= 0) {
        bench_die("the child did not end within %d ms", (int)STOP_MS);
    }
    int64_t took = bench_now_ns() - from;
    remember(child->pid, 0);
    if (child->out >= 0) {
        close(child->out);
    }
    if (child->err >= 0) {
        close(child->err);
    }
    bool by_us = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    if (!by_us && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        bench_die("the child ended badly (status %d)", status);
    }
    return took;
}

/* ---- measuring --------------------------------------------------------------------------------
 */

int64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t bench_cpu_ns(pid_t pid)
{
    /* Nanoseconds, where /proc/PID/stat counts ticks of 10 ms. */
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0) {
        bench_die("CPU time of process %d: %s", (int)pid, strerror(errno));
    }
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

unsigned long bench_memory_kib(pid_t pid, const char *field)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) {
        bench_die("open '%s': %s", path, strerror(errno));
    }
    char line[256];
    unsigned long value = 0;
    size_t n = strlen(field);
    while (value == 0 && fgets(line, sizeof(line), f)) {
        if (strncmp(line, field, n) == 0 && line[n] == ':') {
            value = strtoul(line + n + 1, NULL, 10);
        }
    }
    fclose(f);
    if (value == 0) {
        bench_die("no %s in '%s'", field, path);
    }
    return value;
}

void bench_samples_init(struct bench_samples *s, size_t max)
{
    s->values = calloc(max, sizeof(double));
    s->count = 0;
    s->max = max;
    if (!s->values) {
        bench_die("out of memory");
    }
}

void bench_samples_add(struct bench_samples *s, double value)
{
    if (s->count == s->max) {
        bench_die("more than %zu samples", s->max);
    }
    s->values[s->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_samples_at(struct bench_samples *s, double share)
{
    if (s->count == 0) {
        bench_die("no samples");
    }
    qsort(s->values, s->count, sizeof(double), compare);
    size_t i = (size_t)(share * (double)(s->count - 1) + 0.5);
    return s->values[i];
}

void bench_samples_deinit(struct bench_samples *s)
{
    free(s->values);
    s->values = NULL;
}

/* ---- scratch files ----------------------------------------------------------------------------
 */

const char *bench_scratch(void)
{
    if (scratch[0]) {
        return scratch;
    }
    const char *base = getenv("TMPDIR");
    char path[BENCH_PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/tidings-bench-XXXXXX", base && *base ? base : "/tmp");
    if (n >= PATH_MAX / 2 || !mkdtemp(path)) {
        bench_die("scratch directory '%s': %s", path, strerror(errno));
    }
    if (!realpath(path, scratch)) {
        bench_die("scratch directory '%s': %s", path, strerror(errno));
    }
    return scratch;
}

void bench_write_file(const char *path, size_t size)
{
    static const char line[] = "the quick brown fox jumps over the lazy dog\n";
    FILE *f = fopen(path, "we");
    if (!f) {
        bench_die("create '%s': %s", path, strerror(errno));
    }
    for (size_t i = 0; i < size; i++) {
        fputc(line[i % (sizeof(line) - 1)], f);
    }
    if (fclose(f) != 0) {
        bench_die("write '%s': %s", path, strerror(errno));
    }
}

void bench_make_files(char dir[BENCH_PATH_MAX], size_t count, size_t size)
{
    int n = snprintf(dir, BENCH_PATH_MAX, "%s/files", bench_scratch());
    if (n >= BENCH_PATH_MAX || mkdir(dir, 0755) < 0) {
        bench_die("create '%s': %s", dir, strerror(errno));
    }
    for (size_t i = 0; i < count; i++) {
        char path[BENCH_PATH_MAX];
        n = snprintf(path, sizeof(path), "%s/file-%02zu.txt", dir, i);
        if (n >= BENCH_PATH_MAX) {
            bench_die("the path of the scratch directory is too long");
        }
        bench_write_file(path, size);
    }
    /* Entity tags of files written this moment are marked as such; let that pass. */
    poll(NULL, 0, SETTLE_MS);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void bench_remove_scratch(void)
{
    if (scratch[0]) {
        nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        scratch[0] = '\0';
    }
}
