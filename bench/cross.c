/* SPDX-License-Identifier: MIT
 *
 * From a write on one server to the streams of another, for any kind of server: both requests are
 * files of bytes. Eight `#` in the written file become a rising number; a stream has received a
 * write when that number arrives. One write at a time; times from before it is sent to its answer,
 * to the first stream and to the last. CPU of the named processes, in total.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "mcp.h"

enum {
    REQUEST_MAX = 16384,
    CHUNK = 16384,
    MARK = 8, /* digits */
    PIDS_MAX = 64,
    WARM_MS = 300, /* then a warming write is tried again */
    WARM_TRIES = 100,
};

struct request {
    char bytes[REQUEST_MAX];
    size_t length;
    char *mark; /* its eight #; NULL: none */
};

struct listener {
    int fd;
    unsigned long heard;
    char kept[MARK - 1]; /* the end of what came last: a number may come in two parts */
    size_t kept_length;
};

static struct listener *listeners;
static int epoll_fd, writer_fd;
static unsigned long streams = 1, count = 1000, gap_us = 2000, write_port, read_port;
static size_t heard; /* streams that have received the present one */
static int64_t first_ns, last_ns, answered_ns;
static uint64_t received; /* bytes on all streams */
static pid_t pids[PIDS_MAX];
static size_t pid_count;

static void load_request(struct request *r, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        bench_die("cannot open %s", path);
    }
    r->length = fread(r->bytes, 1, sizeof(r->bytes) - 1, f);
    (void)fclose(f);
    if (r->length == 0 || r->length == sizeof(r->bytes) - 1) {
        bench_die("%s has no request, or a too large one", path);
    }
    r->bytes[r->length] = '\0';
    r->mark = strstr(r->bytes, "########");
}

static void watch(int fd, uint64_t which)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = which};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        bench_die("epoll_ctl: %s", strerror(errno));
    }
}

/* ---- hearing ----------------------------------------------------------------------------------
 */

static void hear(struct listener *l, unsigned long n, const char *mark)
{
    char bytes[MARK + CHUNK];
    memcpy(bytes, l->kept, l->kept_length);
    ssize_t got = recv(l->fd, bytes + l->kept_length, CHUNK, MSG_DONTWAIT);
    if (got <= 0) {
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        bench_die("a stream ended");
    }
    received += (size_t)got;
    size_t length = l->kept_length + (size_t)got;
    if (l->heard != n && memmem(bytes, length, mark, MARK)) {
        l->heard = n;
        last_ns = bench_now_ns();
        first_ns = heard == 0 ? last_ns : first_ns;
        heard++;
    }
    l->kept_length = length < sizeof(l->kept) ? length : sizeof(l->kept);
    memcpy(l->kept, bytes + length - l->kept_length, l->kept_length);
}

static void hear_answer(void)
{
    char bytes[CHUNK];
    ssize_t got = recv(writer_fd, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);
    if (got <= 0) {
        bench_die("the writer's connection ended");
    }
    bytes[got] = '\0';
    if (answered_ns == 0 && strncmp(bytes, "HTTP/1.1 2", 10) != 0) {
        bench_die("a write was answered: %.300s", bytes);
    }
    answered_ns = answered_ns == 0 ? bench_now_ns() : answered_ns;
}

/* Until all streams have received it and the write is answered, or the time is over. */
static bool wait_all(unsigned long n, const char *mark, int64_t until_ns)
{
    struct epoll_event events[256];
    while (heard < streams || answered_ns == 0) {
        int64_t left = until_ns - bench_now_ns();
        if (left <= 0) {
            return false;
        }
        int ready = epoll_wait(epoll_fd, events, 256, (int)(left / 1000000) + 1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.u64 == streams) {
                hear_answer();
            } else {
                hear(&listeners[events[i].data.u64], n, mark);
            }
        }
    }
    return true;
}

/* ---- writing ----------------------------------------------------------------------------------
 */

static void write_one(struct request *r, unsigned long n, char mark[MARK + 1])
{
    snprintf(mark, MARK + 1, "%08lu", n);
    for (char *at = r->mark; at; at = strstr(at, "########")) {
        memcpy(at, mark, MARK);
    }
    heard = 0;
    answered_ns = 0;
    bench_write(writer_fd, r->bytes, r->length);
    for (char *at = strstr(r->bytes, mark); at; at = strstr(at, mark)) {
        memcpy(at, "########", MARK);
    }
}

/* A process that is gone counts with its last reading. */
static int64_t cpu_of_all(void)
{
    static int64_t seen[PIDS_MAX];
    int64_t sum = 0;
    for (size_t i = 0; i < pid_count; i++) {
        clockid_t clock;
        struct timespec t;
        if (clock_getcpuclockid(pids[i], &clock) == 0 && clock_gettime(clock, &t) == 0) {
            seen[i] = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        }
        sum += seen[i];
    }
    return sum;
}

static void open_all(const struct request *read)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    listeners = calloc(streams, sizeof(*listeners));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!listeners || epoll_fd < 0) {
        bench_die("out of memory");
    }
    for (size_t i = 0; i < streams; i++) {
        listeners[i].fd = mcp_connect((unsigned)read_port);
        bench_write(listeners[i].fd, read->bytes, read->length);
        watch(listeners[i].fd, i);
    }
    writer_fd = mcp_connect((unsigned)write_port);
    watch(writer_fd, streams);
}

static void print_times(const char *name, struct bench_samples *s)
{
    printf(",\"%s\":{\"p50\":%.0f,\"p99\":%.0f}", name, bench_samples_at(s, 0.5),
           bench_samples_at(s, 0.99));
}

static void parse_pids(const char *text)
{
    for (char *end; *text && pid_count < PIDS_MAX; text = *end == ',' ? end + 1 : end) {
        pids[pid_count++] = (pid_t)strtol(text, &end, 10);
        if (end == text) {
            bench_die("--pids is numbers and commas");
        }
    }
}

int main(int argc, char **argv)
{
    static struct request write, read;
    char write_file[BENCH_PATH_MAX] = "";
    char read_file[BENCH_PATH_MAX] = "";
    char pid_text[BENCH_PATH_MAX] = "";
    unsigned long first = 1;
    bench_init("cross", 300);
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "write-port", .help = "server", .number = &write_port},
                      {.name = "write", .help = "file: request", .text = write_file},
                      {.name = "read-port", .help = "server", .number = &read_port},
                      {.name = "read", .help = "file: request", .text = read_file},
                      {.name = "pids", .help = "whose CPU counts: 1,2,…", .text = pid_text},
                      {.name = "streams", .help = "streams (1)", .number = &streams},
                      {.name = "count", .help = "writes (1000)", .number = &count},
                      {.name = "first", .help = "the first number (1)", .number = &first},
                      {.name = "gap-us", .help = "pause after each (2000)", .number = &gap_us},
                      {.name = NULL},
                  });
    parse_pids(pid_text);
    load_request(&write, write_file);
    load_request(&read, read_file);
    if (!write.mark || streams < 1 || count < 1) {
        bench_die("--write names a file with ########, --streams and --count are at least 1");
    }
    open_all(&read);
    char mark[MARK + 1];
    unsigned long n = first;
    for (unsigned tries = 0, good = 0; good < 20; n++) { /* until all streams are open */
        write_one(&write, n, mark);
        bool is_heard = wait_all(n, mark, bench_now_ns() + (int64_t)WARM_MS * 1000000);
        good = is_heard ? good + 1 : 0;
        if (++tries > WARM_TRIES) {
            bench_die("%zu of %lu streams are notified", heard, streams);
        }
    }
    struct bench_samples answered, to_first, to_last;
    bench_samples_init(&answered, count);
    bench_samples_init(&to_first, count);
    bench_samples_init(&to_last, count);
    received = 0;
    int64_t cpu = cpu_of_all(), own = bench_cpu_ns(getpid()), begun = bench_now_ns();
    for (unsigned long i = 0; i < count; i++, n++) {
        int64_t sent = bench_now_ns();
        write_one(&write, n, mark);
        if (!wait_all(n, mark, sent + (int64_t)BENCH_WAIT_MS * 1000000)) {
            bench_die("%zu of %lu streams received write %lu", heard, streams, i);
        }
        bench_samples_add(&answered, (double)(answered_ns - sent) / 1e3);
        bench_samples_add(&to_first, (double)(first_ns - sent) / 1e3);
        bench_samples_add(&to_last, (double)(last_ns - sent) / 1e3);
        usleep((useconds_t)gap_us);
    }
    double deliveries = (double)count * (double)streams;
    printf("{\"count\":%lu,\"streams\":%lu,\"next\":%lu,\"seconds\":%.2f", count, streams, n,
           (double)(bench_now_ns() - begun) / 1e9);
    printf(",\"bytes\":%.0f", (double)received / deliveries);
    print_times("answer_us", &answered);
    print_times("first_us", &to_first);
    print_times("last_us", &to_last);
    printf(",\"cpu_us_per_write\":%.1f,\"cpu_us_per_delivery\":%.2f,\"reader_cpu_us\":%.2f}\n",
           (double)(cpu_of_all() - cpu) / 1e3 / (double)count,
           (double)(cpu_of_all() - cpu) / 1e3 / deliveries,
           (double)(bench_cpu_ns(getpid()) - own) / 1e3 / deliveries);
    return 0;
}
