/* SPDX-License-Identifier: MIT
 *
 * A large tree: 100,000 empty files in 1,000 directories. Times of the server: from exec until it
 * says it serves, from `subscriptions/listen` on the root to the acknowledgement (every directory
 * is watched by then), from a write to the notification, and a page of the list; and its memory.
 * Then the same start with a store that knows the tree, which is compared before the
 * acknowledgement.
 *
 * The baseline does the same by hand in this process: inotify_add_watch on every directory and a
 * stat of every file, then a write and the event for it. Both take turns.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"
#include "mcp.h"

enum { BYTES_MAX = 1 << 20, EVENT_MASK = IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVE };

static unsigned long directories = 1000;
static unsigned long files = 100; /* in each */

struct figures {
    struct bench_samples ready_ms;
    struct bench_samples ack_ms;
    struct bench_samples ack_cpu_ms;
    struct bench_samples again_ms; /* a second listen, on the armed tree */
    struct bench_samples change_ms;
    struct bench_samples page_ms;
    struct bench_samples idle_kib;
    struct bench_samples armed_kib;
    struct bench_samples kept_ack_ms; /* with a store that knows the tree */
    struct bench_samples kept_ack_cpu_ms;
    struct bench_samples kept_kib;
    struct bench_samples kept_store_kib;
    struct bench_samples bare_arm_ms;
    struct bench_samples bare_arm_cpu_ms;
    struct bench_samples bare_change_ms;
};

static double ms_since(int64_t from)
{
    return (double)(bench_now_ns() - from) / 1e6;
}

/* ---- the tree ---------------------------------------------------------------------------------
 */

static void build_tree(char root[BENCH_PATH_MAX])
{
    snprintf(root, BENCH_PATH_MAX, "%.3000s/tree", bench_scratch());
    if (mkdir(root, 0755) < 0) {
        bench_die("create '%s': %s", root, strerror(errno));
    }
    int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned long i = 0; i < directories; i++) {
        char name[32];
        snprintf(name, sizeof(name), "d%04lu", i);
        int dir = mkdirat(top, name, 0755) < 0 ? -1 : openat(top, name, O_PATH | O_CLOEXEC);
        for (unsigned long k = 0; dir >= 0 && k < files; k++) {
            snprintf(name, sizeof(name), "f%03lu.txt", k);
            int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
            if (fd < 0) {
                bench_die("create '%s': %s", name, strerror(errno));
            }
            close(fd);
        }
        if (dir < 0) {
            bench_die("create '%s': %s", name, strerror(errno));
        }
        close(dir);
    }
    close(top);
}

/* Another file each time, all over the tree. */
static void pick(unsigned long number, char name[64])
{
    snprintf(name, 64, "d%04lu/f%03lu.txt", number * 7919 % directories, number * 31 % files);
}

static void touch(const char *root, const char *name)
{
    char path[BENCH_PATH_MAX];
    snprintf(path, sizeof(path), "%.3000s/%s", root, name);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || write(fd, "x", 1) != 1) {
        bench_die("write '%s': %s", path, strerror(errno));
    }
    close(fd);
}

/* ---- the baseline -----------------------------------------------------------------------------
 */

static void watch_directory(int inotify, int dir, const char *path)
{
    if (inotify_add_watch(inotify, path, EVENT_MASK) < 0) {
        bench_die("watch '%s': %s", path, strerror(errno));
    }
    DIR *stream = fdopendir(dir);
    if (!stream) {
        bench_die("read '%s': %s", path, strerror(errno));
    }
    struct dirent *d;
    struct stat st;
    while ((d = readdir(stream))) {
        if (d->d_type == DT_REG && fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            bench_die("stat '%s/%s': %s", path, d->d_name, strerror(errno));
        }
    }
    closedir(stream);
}

static void measure_bare(struct figures *f, const char *root, unsigned long changes)
{
    int64_t cpu = bench_cpu_ns(getpid());
    int64_t from = bench_now_ns();
    int inotify = inotify_init1(IN_CLOEXEC);
    for (unsigned long i = 0; i < directories; i++) {
        char path[BENCH_PATH_MAX];
        snprintf(path, sizeof(path), "%.3000s/d%04lu", root, i);
        int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (inotify < 0 || dir < 0) {
            bench_die("open '%s': %s", path, strerror(errno));
        }
        watch_directory(inotify, dir, path);
    }
    bench_samples_add(&f->bare_arm_ms, ms_since(from));
    bench_samples_add(&f->bare_arm_cpu_ms, (double)(bench_cpu_ns(getpid()) - cpu) / 1e6);
    for (unsigned long i = 0; i < changes; i++) {
        char name[64];
        char event[4096];
        pick(i, name);
        from = bench_now_ns();
        touch(root, name);
        if (read(inotify, event, sizeof(event)) <= 0) {
            bench_die("no event for '%s'", name);
        }
        bench_samples_add(&f->bare_change_ms, ms_since(from));
    }
    close(inotify);
}

/* ---- the server -------------------------------------------------------------------------------
 */

static int listen_to(unsigned port, const char *root)
{
    static char bytes[BYTES_MAX];
    char request[8192];
    char params[BENCH_PATH_MAX];
    snprintf(params, sizeof(params),
             ",\"notifications\":{\"resourceSubscriptions\":[\"file://%.3000s/\"]}", root);
    size_t n = mcp_request(request, sizeof(request), "subscriptions/listen", NULL, params);
    size_t have = 0;
    int fd = mcp_connect(port);
    bench_write(fd, request, n);
    mcp_wait_for(fd, "notifications/subscriptions/acknowledged", bytes, &have, sizeof(bytes));
    if (!strstr(bytes, "resourceSubscriptions")) {
        bench_die("the subscription was not honoured: %s", bytes);
    }
    return fd;
}

static void measure_changes(struct figures *f, int stream, const char *root, unsigned long changes)
{
    static char bytes[BYTES_MAX];
    for (unsigned long i = 0; i < changes; i++) {
        char name[64];
        char wanted[128];
        size_t have = 0;
        pick(i, name);
        snprintf(wanted, sizeof(wanted), "/tree/%s\",\"subscribedUri\"", name);
        int64_t from = bench_now_ns();
        touch(root, name);
        mcp_wait_for(stream, wanted, bytes, &have, sizeof(bytes));
        bench_samples_add(&f->change_ms, ms_since(from));
        /* Let the throttle of this subscription pass: it is not what is measured. */
        poll(NULL, 0, 120);
    }
}

static void measure_page(struct figures *f, unsigned port)
{
    static char answer[BYTES_MAX];
    char request[8192];
    size_t n = mcp_request(request, sizeof(request), "resources/list", NULL, "");
    int fd = mcp_connect(port);
    int64_t from = bench_now_ns();
    mcp_call(fd, request, n, answer, sizeof(answer));
    bench_samples_add(&f->page_ms, ms_since(from));
    if (!strstr(answer, "nextCursor")) {
        bench_die("the first page has no cursor: %.300s", answer);
    }
    close(fd);
}

static void measure_server(struct figures *f, char *server, char *root, unsigned long changes)
{
    char serve[] = "serve";
    char http[] = "--http";
    char address[] = "127.0.0.1:0";
    char *const argv[] = {server, serve, http, address, root, NULL};
    struct bench_child child;
    int64_t from = bench_now_ns();
    bench_spawn(&child, argv, BENCH_STDERR);
    unsigned port = bench_wait_port(&child);
    bench_samples_add(&f->ready_ms, ms_since(from));
    measure_page(f, port);
    bench_samples_add(&f->idle_kib, (double)bench_memory_kib(child.pid, "VmRSS"));

    int64_t cpu = bench_cpu_ns(child.pid);
    from = bench_now_ns();
    int first = listen_to(port, root);
    bench_samples_add(&f->ack_ms, ms_since(from));
    bench_samples_add(&f->ack_cpu_ms, (double)(bench_cpu_ns(child.pid) - cpu) / 1e6);
    from = bench_now_ns();
    int second = listen_to(port, root);
    bench_samples_add(&f->again_ms, ms_since(from));
    close(second);
    bench_samples_add(&f->armed_kib, (double)bench_memory_kib(child.pid, "VmRSS"));
    measure_changes(f, first, root, changes);
    close(first);
    bench_stop(&child);
}

/* A start with a store, in which everything is watched. `f` NULL: so that the store knows the tree.
 */
static void measure_kept(struct figures *f, char *server, char *root)
{
    char serve[] = "serve";
    char http[] = "--http";
    char address[] = "127.0.0.1:0";
    char option[] = "--store";
    char store[BENCH_PATH_MAX];
    struct stat st;
    struct bench_child child;
    snprintf(store, sizeof(store), "%.3000s/store.db", bench_scratch());
    char *const argv[] = {server, serve, http, address, option, store, root, NULL};
    bench_spawn(&child, argv, BENCH_STDERR);
    unsigned port = bench_wait_port(&child);
    int64_t cpu = bench_cpu_ns(child.pid);
    int64_t from = bench_now_ns();
    int stream = listen_to(port, root);
    if (f) {
        bench_samples_add(&f->kept_ack_ms, ms_since(from));
        bench_samples_add(&f->kept_ack_cpu_ms, (double)(bench_cpu_ns(child.pid) - cpu) / 1e6);
        bench_samples_add(&f->kept_kib, (double)bench_memory_kib(child.pid, "VmHWM"));
    }
    close(stream);
    bench_stop(&child);
    if (f) {
        bench_samples_add(&f->kept_store_kib,
                          stat(store, &st) == 0 ? (double)st.st_size / 1024 : 0);
    }
}

/* ---- the program ------------------------------------------------------------------------------
 */

static void init(struct figures *f, unsigned long rounds, unsigned long changes)
{
    struct bench_samples *const per_round[] = {&f->ready_ms,        &f->ack_ms,
                                               &f->ack_cpu_ms,      &f->again_ms,
                                               &f->page_ms,         &f->idle_kib,
                                               &f->armed_kib,       &f->bare_arm_ms,
                                               &f->bare_arm_cpu_ms, &f->kept_ack_ms,
                                               &f->kept_ack_cpu_ms, &f->kept_kib,
                                               &f->kept_store_kib,  NULL};
    for (size_t i = 0; per_round[i]; i++) {
        bench_samples_init(per_round[i], rounds);
    }
    bench_samples_init(&f->change_ms, rounds * changes);
    bench_samples_init(&f->bare_change_ms, rounds * changes);
}

static void print(struct figures *f, double build_ms)
{
    printf("{\"bench\":\"tree\",\"directories\":%lu,\"files\":%lu,\"build_ms\":%.0f,", directories,
           directories * files, build_ms);
    printf("\"tidings\":{\"ready_ms\":%.2f,\"first_page_ms\":%.2f,\"ack_ms\":%.1f,"
           "\"ack_cpu_ms\":%.1f,\"second_ack_ms\":%.2f,\"change_p50_ms\":%.2f,"
           "\"change_p95_ms\":%.2f,\"vm_rss_idle_kib\":%.0f,\"vm_rss_armed_kib\":%.0f},",
           bench_samples_at(&f->ready_ms, 0.5), bench_samples_at(&f->page_ms, 0.5),
           bench_samples_at(&f->ack_ms, 0.5), bench_samples_at(&f->ack_cpu_ms, 0.5),
           bench_samples_at(&f->again_ms, 0.5), bench_samples_at(&f->change_ms, 0.5),
           bench_samples_at(&f->change_ms, 0.95), bench_samples_at(&f->idle_kib, 0.5),
           bench_samples_at(&f->armed_kib, 0.5));
    printf("\"compared\":{\"ack_ms\":%.1f,\"ack_cpu_ms\":%.1f,\"vm_hwm_kib\":%.0f,"
           "\"store_kib\":%.0f},",
           bench_samples_at(&f->kept_ack_ms, 0.5), bench_samples_at(&f->kept_ack_cpu_ms, 0.5),
           bench_samples_at(&f->kept_kib, 0.5), bench_samples_at(&f->kept_store_kib, 0.5));
    printf("\"baseline\":{\"arm_ms\":%.1f,\"arm_cpu_ms\":%.1f,\"change_p50_ms\":%.3f}}\n",
           bench_samples_at(&f->bare_arm_ms, 0.5), bench_samples_at(&f->bare_arm_cpu_ms, 0.5),
           bench_samples_at(&f->bare_change_ms, 0.5));
}

int main(int argc, char **argv)
{
    char server[BENCH_PATH_MAX];
    char root[BENCH_PATH_MAX];
    unsigned long rounds = 3;
    unsigned long changes = 20;
    bench_init("tree", 180);
    bench_sibling(server, "../tidings");
    bench_options(argc, argv,
                  (struct bench_option[]){
                      {.name = "server", .help = "program to measure", .text = server},
                      {.name = "directories", .help = "directories", .number = &directories},
                      {.name = "files", .help = "files in each", .number = &files},
                      {.name = "rounds", .help = "starts of the server", .number = &rounds},
                      {.name = "changes", .help = "changes per start", .number = &changes},
                      {.name = NULL},
                  });
    int64_t from = bench_now_ns();
    build_tree(root);
    double build_ms = ms_since(from);
    struct figures f;
    init(&f, rounds, changes);
    measure_kept(NULL, server, root);
    for (unsigned long r = 0; r < rounds; r++) {
        measure_server(&f, server, root, changes);
        measure_kept(&f, server, root);
        measure_bare(&f, root, changes);
    }
    print(&f, build_ms);
    return 0;
}
