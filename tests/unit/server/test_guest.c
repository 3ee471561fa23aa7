/* SPDX-License-Identifier: MIT
 *
 * A library is a guest in the process: it leaves process state unchanged, during and after its run.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/asking.h"

enum { SIGNALS = 65, FDS = 1024 };

extern char **environ;

/* ---- the process ----------------------------------------------------------------------------- */

struct house {
    struct sigaction actions[SIGNALS];
    sigset_t mask;
    mode_t umask;
    char directory[4096];
    char locale[256];
    size_t environment; /* a sum over its bytes */
    struct rlimit files;
    int flags[3];
    bool open[FDS];
    size_t threads;
};

static size_t count_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    size_t n = 0;
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

static void look(struct house *h)
{
    memset(h, 0, sizeof(*h));
    for (int i = 1; i < SIGNALS; i++) {
        (void)sigaction(i, NULL, &h->actions[i]); /* two belong to libc */
    }
    pthread_sigmask(SIG_SETMASK, NULL, &h->mask);
    h->umask = umask(0);
    umask(h->umask);
    assert_non_null(getcwd(h->directory, sizeof(h->directory)));
    snprintf(h->locale, sizeof(h->locale), "%s", setlocale(LC_ALL, NULL));
    for (char **variable = environ; *variable; variable++) {
        for (const char *p = *variable; *p; p++) {
            h->environment = h->environment * 31 + (unsigned char)*p;
        }
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &h->files), 0);
    for (int i = 0; i < FDS; i++) {
        h->open[i] = fcntl(i, F_GETFD) >= 0;
        if (i < 3) {
            h->flags[i] = fcntl(i, F_GETFL);
        }
    }
    h->threads = count_threads();
}

static void assert_same_manners(const struct house *before)
{
    struct house now;
    look(&now);
    for (int i = 1; i < SIGNALS; i++) {
        assert_ptr_equal(now.actions[i].sa_handler, before->actions[i].sa_handler);
        assert_int_equal(now.actions[i].sa_flags, before->actions[i].sa_flags);
        assert_int_equal(sigismember(&now.mask, i), sigismember(&before->mask, i));
    }
    assert_int_equal(now.umask, before->umask);
    assert_string_equal(now.directory, before->directory);
    assert_string_equal(now.locale, before->locale);
    assert_int_equal(now.environment, before->environment);
    assert_int_equal(now.files.rlim_cur, before->files.rlim_cur);
    assert_memory_equal(now.flags, before->flags, sizeof(now.flags));
}

static void assert_nothing_left(const struct house *before)
{
    time_t until = time(NULL) + 30;
    while (count_threads() > before->threads && time(NULL) < until) {
        sched_yield(); /* a joined thread may remain visible for a moment */
    }
    assert_int_equal(count_threads(), before->threads);
    for (int i = 0; i < FDS; i++) {
        if (fcntl(i, F_GETFD) >= 0 && !before->open[i]) {
            char path[32], what[128] = "";
            snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
            (void)!readlink(path, what, sizeof(what) - 1);
            fail_msg("descriptor %d was left open: %s", i, what);
        }
    }
}

/* Its descriptors close on exec. */
static void assert_closed_on_exec(const struct house *before)
{
    size_t opened = 0;
    for (int i = 0; i < FDS; i++) {
        int flags = fcntl(i, F_GETFD);
        if (flags >= 0 && !before->open[i]) {
            opened++;
            if (!(flags & FD_CLOEXEC)) {
                fail_msg("descriptor %d would be inherited by other programs", i);
            }
        }
    }
    assert_true(opened > 2);
}

/* Signals reach only the program's threads. */
static void assert_threads_block_signals(size_t least)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    size_t blocking = 0;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        char path[300], line[256];
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            unsigned long long blocked;
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1) {
                blocking += blocked >> (SIGTERM - 1) & blocked >> (SIGINT - 1) &
                            blocked >> (SIGCHLD - 1) & blocked >> (SIGUSR1 - 1) & 1;
            }
        }
        if (f) {
            fclose(f);
        }
    }
    closedir(d);
    assert_true(blocking >= least);
}

/* ---- the guest ------------------------------------------------------------------------------- */

static char directory[] = "/tmp/tidings-guest-XXXXXX";
static char large[1 << 20];

static void read_large(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err;
    int rc = tidings_read_text(read, NULL, tidings_strn(large, sizeof(large)), &err);
    tidings_read_done(read, rc, &err);
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int port;
} ready = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void on_ready(void *user, const char *url)
{
    (void)user;
    pthread_mutex_lock(&ready.lock);
    ready.port = asking_port(url);
    pthread_cond_broadcast(&ready.more);
    pthread_mutex_unlock(&ready.lock);
}

static void mount(struct tidings_server *s, const char *name, const char *prefix,
                  const char *config)
{
    struct tidings_error err = {0, ""};
    if (tidings_server_mount(s, tidings_provider_find(name), tidings_str(prefix),
                             tidings_str(config), &err) < 0) {
        fail_msg("%s", err.text);
    }
}

static struct tidings_server *create(void)
{
    struct tidings_error err = {0, ""};
    struct tidings_resource about = {0};
    char files[128];
    struct tidings_server *s = tidings_server_create(&err);
    assert_non_null(s);
    snprintf(files, sizeof(files), "file:///guest/=%s", directory);
    assert_int_equal(tidings_server_set(s, "http", "127.0.0.1:0", &err), 0);
    assert_int_equal(tidings_server_set(s, "workers", "2", &err), 0);
    assert_int_equal(tidings_server_set(s, "mount", files, &err), 0);
    about.uri = tidings_str("app:///large");
    about.name = tidings_str("large");
    assert_int_equal(tidings_server_add_resource(s, &about, read_large, NULL, &err), 0);
    mount(s, "command", "cmd:///said/", "{\"argv\":[\"/bin/echo\",\"said\"]}");
    mount(s, "system", "system://metrics/", "{}");
    tidings_server_on_ready(s, on_ready, NULL);
    ready.port = 0;
    return s;
}

/* Requests a large resource and disconnects without reading it. */
static void ask_and_vanish(int port)
{
    static const char body[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"app:///"
        "large\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}";
    char request[1024];
    int n =
        snprintf(request, sizeof(request),
                 "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                 "Accept: application/json, text/event-stream\r\n"
                 "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/read\r\n"
                 "Mcp-Name: app:///large\r\nContent-Length: %zu\r\n\r\n%s",
                 port, sizeof(body) - 1, body);
    struct linger at_once = {.l_onoff = 1};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(fd);
}

static void read_over_http(struct tidings_server *steps, const char *method, const char *uri,
                           const char *text)
{
    struct asking a;
    asking_begin(&a, ready.port, method, uri);
    if (steps) {
        assert_int_equal(asking_step(&a, steps), 1);
    }
    assert_non_null(strstr(asking_end(&a), text));
}

/* Everything a server does that could affect the process. */
static void live(struct tidings_server *steps)
{
    ask_and_vanish(ready.port);
    read_over_http(steps, "resources/list", "file:///guest/", "a.txt");
    ask_and_vanish(ready.port);
    read_over_http(steps, "resources/read", "file:///guest/a.txt", "hello");
    read_over_http(steps, "resources/read", "cmd:///said", "said\\n");
    read_over_http(steps, "resources/read", "system://metrics", "memory");
    read_over_http(steps, "resources/read", "app:///nothing", "\"error\"");
}

static void *run_it(void *server)
{
    return tidings_server_run(server, NULL) == 0 ? server : NULL;
}

static void threaded_server_leaves_process_state_unchanged(void **state)
{
    (void)state;
    struct house before;
    pthread_t thread;
    void *result = NULL;
    look(&before);
    struct tidings_server *s = create();
    assert_int_equal(pthread_create(&thread, NULL, run_it, s), 0);
    pthread_mutex_lock(&ready.lock);
    while (ready.port == 0) {
        pthread_cond_wait(&ready.more, &ready.lock);
    }
    pthread_mutex_unlock(&ready.lock);
    live(NULL);
    assert_same_manners(&before);
    assert_closed_on_exec(&before);
    assert_threads_block_signals(2);
    tidings_server_stop(s);
    pthread_join(thread, &result);
    assert_ptr_equal(result, s);
    tidings_server_destroy(s);
    assert_same_manners(&before);
    assert_nothing_left(&before);
}

static void stepped_server_leaves_process_state_unchanged(void **state)
{
    (void)state;
    struct house before;
    look(&before);
    struct tidings_server *s = create();
    assert_int_equal(tidings_server_start(s, NULL), 0);
    live(s);
    assert_same_manners(&before);
    assert_closed_on_exec(&before);
    tidings_server_destroy(s);
    assert_same_manners(&before);
    assert_nothing_left(&before);
}

/* SIGPIPE has its default action here: a delivered one would kill the process. */
static void closed_standard_output_ends_server_not_process(void **state)
{
    (void)state;
    static const char request[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n";
    struct tidings_error err = {0, ""};
    int in[2], out[2], kept_in = dup(STDIN_FILENO), kept_out = dup(STDOUT_FILENO);
    fflush(stdout);
    assert_int_equal(pipe(in) + pipe(out), 0);
    struct tidings_server *s = tidings_server_create(&err);
    assert_int_equal(tidings_server_set(s, "stdio", "true", &err), 0);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(out[1]);
    close(out[0]);
    int rc = tidings_server_start(s, &err);
    ssize_t written = write(in[1], request, sizeof(request) - 1);
    while (rc >= 0 && (rc = tidings_server_turn(s, &err)) > 0) {
        struct pollfd p = {.fd = tidings_server_fd(s), .events = POLLIN};
        (void)poll(&p, 1, tidings_server_timeout_ms(s));
    }
    dup2(kept_in, STDIN_FILENO);
    dup2(kept_out, STDOUT_FILENO);
    assert_int_equal(rc, 0);
    assert_int_equal(written, sizeof(request) - 1);
    tidings_server_destroy(s);
    close(kept_in);
    close(kept_out);
    close(in[0]);
    close(in[1]);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void embedded_server_prints_nothing(void **state)
{
    char path[] = "/tmp/tidings-guest-said-XXXXXX";
    struct stat about;
    int said = mkstemp(path), kept_out = dup(STDOUT_FILENO), kept_err = dup(STDERR_FILENO);
    assert_true(said >= 0);
    fflush(stdout);
    fflush(stderr);
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    stepped_server_leaves_process_state_unchanged(state);
    threaded_server_leaves_process_state_unchanged(state);
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_err, STDERR_FILENO);
    assert_int_equal(fstat(said, &about), 0);
    close(said);
    close(kept_out);
    close(kept_err);
    unlink(path);
    assert_int_equal(about.st_size, 0);
}

static int make_directory(void **state)
{
    (void)state;
    char path[128];
    memset(large, 'x', sizeof(large));
    if (!mkdtemp(directory)) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/a.txt", directory);
    FILE *f = fopen(path, "w");
    return !f || fputs("hello", f) < 0 || fclose(f) != 0 ? -1 : 0;
}

static int remove_directory(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/a.txt", directory);
    unlink(path);
    return rmdir(directory);
}

static void *nothing(void *arg)
{
    return arg;
}

int main(void)
{
    pthread_t first; /* a sanitizer starts its own thread with the first one */
    if (pthread_create(&first, NULL, nothing, NULL) != 0 || pthread_join(first, NULL) != 0) {
        return 1;
    }
    struct rlimit files; /* with free numbers above it, which the library might take */
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return 1;
    }
    files.rlim_cur = files.rlim_cur > FDS ? FDS : files.rlim_cur / 2;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_DFL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threaded_server_leaves_process_state_unchanged),
        cmocka_unit_test(stepped_server_leaves_process_state_unchanged),
        cmocka_unit_test(closed_standard_output_ends_server_not_process),
        cmocka_unit_test(embedded_server_prints_nothing),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
