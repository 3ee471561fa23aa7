/* SPDX-License-Identifier: MIT
 *
 * A confined server from the inside: resources whose handlers try the actions of an attacker in the
 * process. The server is a child of the test, which queries it over HTTP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <tidings/server.h>

#include "base/process.h"
#include "security/helper.h"
#include "security/sandbox.h"
#include "sources/file_path.h"
#include "support/remove_tree.h"

#ifndef TIDINGS_SANITIZED
#define TIDINGS_SANITIZED 0
#endif

static struct {
    char dir[64]; /* served/, kept/, and tokens outside both */
    pid_t pid;
    int ready; /* the port, when it serves */
    unsigned port;
    char answer[16384];
} f;

static const char *at(const char *name)
{
    static char paths[8][128];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, 128, "%s/%s", f.dir, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(at(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* ---- attempts -------------------------------------------------------------------------------- */

static int opening(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    return fd >= 0 ? 0 : errno;
}

static int try_secret(void)
{
    return opening(at("secret"), O_RDONLY);
}

static int try_passwd(void)
{
    return opening("/etc/passwd", O_RDONLY);
}

static int try_write(void)
{
    return opening(at("served/new"), O_CREAT | O_WRONLY);
}

static int try_served(void)
{
    return opening(at("served/a"), O_RDONLY);
}

/* Like the file provider, with the current root. */
static int try_beneath(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s", at("served"));
    struct file_root root = {.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), .where = path};
    int fd = file_open_beneath(&root, root.fd, "sub/b", O_RDONLY, NULL);
    int up = file_open_beneath(&root, root.fd, "../secret", O_RDONLY, NULL);
    return fd < 0 ? -fd : up >= 0 ? 1000 : 0;
}

static int try_store(void)
{
    return opening(at("kept/file"), O_CREAT | O_RDWR);
}

static int try_execve(void)
{
    char word[] = "true", *const argv[] = {word, NULL}, *const env[] = {NULL};
    return execve("/bin/true", argv, env) < 0 ? errno : 0;
}

static int try_fork(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    return pid < 0 ? errno : 0;
}

static int try_socket(void)
{
    return socket(AF_INET, SOCK_DGRAM, 0) < 0 ? errno : 0;
}

static int try_trace(void)
{
    return ptrace(PTRACE_ATTACH, getppid(), NULL, NULL) < 0 ? errno : 0;
}

static int try_ring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL) < 0 ? errno : 0;
}

static int try_helper_file(void)
{
    return helper_open("/etc/passwd") < 0 ? -helper_open("/etc/passwd") : 0;
}

static int try_helper_run(void)
{
    struct spawn s;
    return helper_run("/bin/true", &s, NULL) == TIDINGS_E_DENIED ? EPERM : 0;
}

static const struct attempt {
    const char *name;
    int (*try)(void);
    int errnum; /* confined */
} attempts[] = {
    {"secret", try_secret, EACCES},
    {"passwd", try_passwd, EACCES},
    {"write", try_write, EACCES},
    {"served", try_served, 0},
    {"beneath", try_beneath, 0},
    {"store", try_store, 0},
    {"execve", try_execve, EPERM},
    {"fork", try_fork, EPERM},
    {"socket", try_socket, EPERM},
    {"trace", try_trace, EPERM},
    {"ring", try_ring, EPERM},
    {"helper-file", try_helper_file, EPERM},
    {"helper-run", try_helper_run, EPERM},
};
enum { ATTEMPTS = sizeof attempts / sizeof attempts[0] };

static void on_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    const struct attempt *a = user;
    struct tidings_resource about = {0};
    char text[32];
    about.uri = uri;
    about.name = tidings_str(a->name);
    snprintf(text, sizeof text, "errno=%d", a->try());
    tidings_read_done(read, tidings_read_text(read, &about, tidings_str(text), NULL), NULL);
}

/* ---- the server ------------------------------------------------------------------------------ */

static int told;

static void on_ready(void *user, const char *url)
{
    (void)user;
    const char *colon = strrchr(url, ':');
    unsigned port = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    if (write(told, &port, sizeof port) != sizeof port) {
        _exit(3);
    }
}

static struct tidings_server *make(const char *const *settings)
{
    char uri[64];
    struct tidings_server *s = tidings_server_create(NULL);
    tidings_server_set(s, "http", "127.0.0.1:0", NULL);
    tidings_server_set(s, "self", "true", NULL);
    tidings_server_set(s, "store", at("kept/store.db"), NULL);
    snprintf(uri, sizeof uri, "%s", at("served"));
    char mount[160];
    snprintf(mount, sizeof mount, "file:///served/=%s", uri);
    tidings_server_set(s, "mount", mount, NULL);
    for (size_t i = 0; settings && settings[i]; i += 2) {
        if (tidings_server_set(s, settings[i], settings[i + 1], NULL) < 0) {
            _exit(4);
        }
    }
    for (size_t i = 0; i < ATTEMPTS; i++) {
        struct tidings_resource about = {0};
        snprintf(uri, sizeof uri, "try:///%s", attempts[i].name);
        about.uri = tidings_str(uri);
        about.name = tidings_str(attempts[i].name);
        if (tidings_server_add_resource(s, &about, on_read, (void *)(uintptr_t)&attempts[i], NULL) <
            0) {
            _exit(5);
        }
    }
    tidings_server_on_ready(s, on_ready, NULL);
    return s;
}

static void begin(bool is_confined, const char *const *settings)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    f.pid = fork();
    assert_true(f.pid >= 0);
    if (f.pid == 0) {
        struct tidings_error err = {0, ""};
        told = ends[1];
        alarm(60);
        tidings_set_log(TIDINGS_LOG_OFF, NULL, NULL);
        struct tidings_server *s = make(settings);
        int rc = is_confined ? tidings_server_sandbox(s, &err) : 0;
        rc = rc < 0 ? rc : tidings_server_run(s, &err);
        if (rc < 0) {
            fprintf(stderr, "%s\n", err.text);
        }
        _exit(rc < 0);
    }
    close(ends[1]);
    f.ready = ends[0];
    assert_int_equal(read(f.ready, &f.port, sizeof f.port), sizeof f.port);
}

static const char *get(const char *uri)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)f.port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    char request[256];
    size_t len = 0;
    ssize_t n;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    int size = snprintf(request, sizeof request,
                        "GET /resource?uri=%s HTTP/1.1\r\nHost: localhost\r\nConnection: "
                        "close\r\n\r\n",
                        uri);
    assert_int_equal(write(fd, request, (size_t)size), size);
    while ((n = read(fd, f.answer + len, sizeof f.answer - 1 - len)) > 0) {
        len += (size_t)n;
    }
    f.answer[len] = '\0';
    close(fd);
    return f.answer;
}

static int tried(const char *name)
{
    char uri[64];
    snprintf(uri, sizeof uri, "try:///%s", name);
    const char *said = strstr(get(uri), "errno=");
    assert_non_null(said);
    return (int)strtol(said + 6, NULL, 10);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(f.dir, sizeof f.dir, "/tmp/test_sandbox.XXXXXX");
    assert_non_null(mkdtemp(f.dir));
    assert_int_equal(mkdir(at("served"), 0700), 0);
    assert_int_equal(mkdir(at("kept"), 0700), 0);
    assert_int_equal(mkdir(at("served/sub"), 0700), 0);
    put("served/a", "hello");
    put("served/sub/b", "below");
    put("secret", "secret");
    f.pid = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (f.pid > 0) {
        kill(f.pid, SIGKILL);
        waitpid(f.pid, NULL, 0);
        close(f.ready);
    }
    remove_tree(f.dir);
    return 0;
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void sandboxed_process_has_minimal_access(void **state)
{
    (void)state;
    if (TIDINGS_SANITIZED || landlock_abi(NULL) == 0 || seccomp_probe(NULL) < 0) {
        skip();
    }
    begin(true, NULL);
    for (size_t i = 0; i < ATTEMPTS; i++) {
        if (tried(attempts[i].name) != attempts[i].errnum) {
            fail_msg("%s: %s", attempts[i].name, strstr(f.answer, "errno="));
        }
    }
    assert_non_null(strstr(get("file:///served/a"), "hello"));
    assert_non_null(strstr(get("tidings://self/sandbox"), "\"seccomp\":true"));
}

static void sandbox_is_off_by_default(void **state)
{
    (void)state;
    begin(false, NULL);
    assert_int_equal(tried("secret"), 0);
    assert_int_equal(tried("passwd"), 0);
    assert_int_equal(tried("fork"), 0);
    assert_int_equal(tried("socket"), 0);
    assert_non_null(strstr(get("tidings://self/sandbox"), "{\"noNewPrivs\":false,\"landlock\":0,"
                                                          "\"seccomp\":false,\"helper\":false}"));
}

static void sandbox_is_off_if_user_disables_it(void **state)
{
    (void)state;
    static const char *const off[] = {"sandbox", "false", NULL};
    begin(true, off);
    assert_int_equal(tried("passwd"), 0);
    assert_int_equal(tried("fork"), 0);
}

/* A directory without a rule, because it was created after the start: the helper opens it. */
static void replaced_root_directory_is_readable_by_provider(void **state)
{
    (void)state;
    char away[128];
    if (TIDINGS_SANITIZED || landlock_abi(NULL) == 0) {
        skip();
    }
    begin(true, NULL);
    snprintf(away, sizeof away, "%s", at("away"));
    assert_non_null(strstr(get("file:///served/sub/b"), "below"));
    assert_int_equal(rename(at("served"), away), 0);
    assert_int_equal(mkdir(at("served"), 0700), 0);
    assert_int_equal(mkdir(at("served/sub"), 0700), 0);
    put("served/a", "made again");
    put("served/sub/b", "made again");
    assert_int_equal(tried("served"), EACCES);
    assert_int_equal(tried("beneath"), 0);
}

static void *nothing(void *user)
{
    pause();
    return user;
}

static void sandbox_rejects_multithreaded_process(void **state)
{
    (void)state;
    if (TIDINGS_SANITIZED) {
        skip();
    }
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        struct tidings_error err = {0, ""};
        pthread_create(&thread, NULL, nothing, NULL);
        struct tidings_server *s = make(NULL);
        (void)tidings_server_sandbox(s, &err);
        int rc = tidings_server_run(s, &err);
        bool is_said = strstr(err.text, "other threads, and it has ") /* qemu-user has its own */ &&
                       strstr(err.text, "qemu-user") && strstr(err.text, "use --no-sandbox");
        _exit(rc == TIDINGS_E_INVALID && is_said ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sandboxed_process_has_minimal_access, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sandbox_is_off_by_default, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sandbox_is_off_if_user_disables_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replaced_root_directory_is_readable_by_provider, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(sandbox_rejects_multithreaded_process, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
