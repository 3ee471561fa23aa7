/* SPDX-License-Identifier: MIT
 *
 * `tidings serve`: runs a server from the command line. It prints one line on standard error when
 * it is ready; standard output belongs to the protocol. SIGTERM and SIGINT stop it cleanly, a
 * second one at once. SIGHUP reloads certificates, tokens, access rules and log settings, unless
 * the terminal hung up. SIGUSR1 reopens the log file.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <tidings/server.h>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/remote.h"

/* -------------------------------------------------------------------------------------------------
 * The interface to a service manager, by the protocols of sd_listen_fds(3) and sd_notify(3):
 * listening sockets, readiness, the watchdog. All of it is in the environment, which only the
 * program reads. Without a service manager, these functions do nothing.
 */

/* -------------------------------------------------------------------------------------------------
 * sd_listen_fds(3) and sd_notify(3) without their library.
 */

#define FIRST_FD 3
#define NAMES_MAX 4096u

static int notify_fd = -1; /* for signal handlers too */

/* A decimal number from 1 on; 0: invalid. */
static unsigned long systemd_number_of(const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long n = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    return errno == 0 && end && *end == '\0' ? n : 0;
}

/* Returns true if the variable, which contains a process id, names this process. If unset:
 * `missing`. */
static bool is_for_us(const char *variable, bool missing)
{
    const char *pid = getenv(variable);
    return pid ? systemd_number_of(pid) == (unsigned long)getpid() : missing;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static bool is_unix(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof(at);
    return getsockname(fd, (struct sockaddr *)&at, &len) == 0 && at.ss_family == AF_UNIX;
}

static enum tidings_listener listener_of(const char *name, size_t len, int fd)
{
    static const struct {
        const char *name;
        enum tidings_listener kind;
    } known[] = {
        {"http", TIDINGS_LISTENER_HTTP},
        {"lines", TIDINGS_LISTENER_LINES},
        {"tcp", TIDINGS_LISTENER_LINES},
        {"unix", TIDINGS_LISTENER_LINES},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) == len && memcmp(known[i].name, name, len) == 0) {
            return known[i].kind;
        }
    }
    return is_unix(fd) ? TIDINGS_LISTENER_LINES : TIDINGS_LISTENER_HTTP;
}

/* Use the passed sockets as listeners: the name `http` (FileDescriptorName=) makes an HTTP
 * listener, `lines`, `tcp` or `unix` a line listener. Without such a name, a Unix socket uses lines
 * and an internet socket HTTP. The variables are removed, so that no child process uses the
 * descriptors. */
static int systemd_take_sockets(struct tidings_server *server, struct tidings_error *err)
{
    unsigned long count =
        is_for_us("LISTEN_PID", false) ? systemd_number_of(getenv("LISTEN_FDS")) : 0;
    const char *given = getenv("LISTEN_FDNAMES");
    char names[NAMES_MAX];
    snprintf(names, sizeof(names), "%s", given ? given : "");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (count > INT_MAX - FIRST_FD) {
        return tidings_fail(err, TIDINGS_E_INVALID, "LISTEN_FDS: %lu sockets are too many", count);
    }
    const char *name = names;
    int rc = 0;
    for (int fd = FIRST_FD; rc == 0 && fd < FIRST_FD + (int)count; fd++) {
        size_t len = strcspn(name, ":");
        rc = tidings_server_add_socket(server, listener_of(name, len, fd), fd, err);
        name += name[len] == ':' ? len + 1 : len;
    }
    return rc;
}

/* ---- notifying ------------------------------------------------------------------------------- */

/* A failed write is ignored: the server cannot do anything about it. */
static void notify(const char *text)
{
    int saved_errno = errno;
    if (notify_fd >= 0) {
        (void)!send(notify_fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    errno = saved_errno;
}

static void systemd_notify_watchdog(void *user)
{
    (void)user;
    notify("WATCHDOG=1");
}

static int open_notify(const char *path, struct tidings_error *err)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len >= sizeof(to.sun_path)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "NOTIFY_SOCKET: '%s' is neither a path nor an abstract socket", path);
    }
    memcpy(to.sun_path, path, len);
    if (path[0] == '@') {
        to.sun_path[0] = '\0';
    }
    notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (notify_fd < 0 || connect(notify_fd, (struct sockaddr *)&to, size) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "NOTIFY_SOCKET: connect to '%s': %s", path,
                            strerror(errno));
    }
    return 0;
}

static int systemd_open(struct tidings_server *server, struct tidings_error *err)
{
    const char *path = getenv("NOTIFY_SOCKET");
    int rc = path && *path ? open_notify(path, err) : 0;
    unsigned long usec =
        is_for_us("WATCHDOG_PID", true) ? systemd_number_of(getenv("WATCHDOG_USEC")) : 0;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    if (rc == 0 && usec > 0 && notify_fd >= 0) {
        uint64_t half_ms = usec / 2000 > 0 ? usec / 2000 : 1;
        rc = tidings_server_every(server, half_ms, systemd_notify_watchdog, NULL, err);
    }
    return rc;
}

/* Set the notification socket for the calls below; start the watchdog's keep-alive, if it is
 * enabled. */
static void systemd_ready(void)
{
    notify("READY=1");
}

/* The time identifies the reload. A signal handler must format it itself. */
static void systemd_reloading(void)
{
    static const char head[] = "RELOADING=1\nMONOTONIC_USEC=";
    char text[sizeof(head) + 20];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t usec = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    char *at = text + sizeof(text) - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + usec % 10);
        usec /= 10;
    } while (usec > 0);
    at -= sizeof(head) - 1;
    memcpy(at, head, sizeof(head) - 1);
    notify(at);
}

/* safe in a signal handler */
static void systemd_stopping(void)
{
    notify("STOPPING=1");
}

/* ---------------------------------------------------------------------------------------------- */

/* A signal handler has no other way to know. */
static struct tidings_server *volatile running;
static volatile sig_atomic_t has_been_asked;
static bool has_terminal;

static void serve_on_signal(int number)
{
    struct tidings_server *server = running;
    int saved = errno;
    if (server && number == SIGHUP && !(has_terminal && tcgetpgrp(STDERR_FILENO) < 0)) {
        systemd_reloading();
        tidings_server_reload(server);
    } else if (server && number == SIGUSR1) {
        tidings_server_reopen_log(server);
    } else if (server) {
        if (has_been_asked) {
            tidings_server_stop_now(server);
        } else {
            systemd_stopping();
            tidings_server_stop(server);
        }
        has_been_asked = 1;
    }
    errno = saved;
}

static bool is_json;

/* Write an object to standard error in one write, so that lines of several threads stay whole. */
static void serve_put_line(struct json_text *t)
{
    char *text = json_text_take(t);
    fputs(text ? text : "{\"level\":\"error\",\"message\":\"out of memory\"}\n", stderr);
    free(text);
}

static void put_ready(struct tidings_server *server, const char *url)
{
    struct timespec now;
    struct json_text t;
    if (!json_text_begin(&t)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    fputs("{\"time\":\"", t.out);
    put_time(t.out, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    fputs("\",\"level\":\"info\",\"area\":\"server\",\"message\":\"serving\",\"addresses\":[",
          t.out);
    for (size_t i = 0; url; url = tidings_server_address(server, ++i)) {
        fputs(i > 0 ? "," : "", t.out);
        put_quoted(t.out, tidings_str(url));
    }
    fputs("]}\n", t.out);
    serve_put_line(&t);
}

/* Another tidings command launched the server: users would see the same line with every command. */
static bool is_launched(struct tidings_server *server, const char *url)
{
    return url && strcmp(url, "stdio") == 0 && !tidings_server_address(server, 1) &&
           getenv("TIDINGS_LAUNCHED");
}

static void serve_greet(struct tidings_server *server, const char *url)
{
    fputs("tidings: serving on", stderr);
    for (size_t i = 0; url; url = tidings_server_address(server, ++i)) {
        bool is_pipe = strcmp(url, "stdio") == 0;
        fprintf(stderr, "%s %s", i > 0 ? "," : "", is_pipe ? "standard input and output" : url);
    }
    fputc('\n', stderr);
}

static void serve_on_ready(void *user, const char *url)
{
    if (is_json) {
        put_ready(user, url);
    } else if (!is_launched(user, url)) {
        serve_greet(user, url);
    }
    systemd_ready();
}

/* Also called on failure: the server keeps its old configuration. */
static void on_reloaded(void *user, int code, const struct tidings_error *err)
{
    (void)user;
    (void)code;
    (void)err;
    systemd_ready();
}

static void catch_signals(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = serve_on_signal;
    act.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    has_terminal = tcgetpgrp(STDERR_FILENO) >= 0;
    sigaction(SIGHUP, &act, NULL);
    sigaction(SIGUSR1, &act, NULL);
}

/* A hint, if the error message alone is not enough. */
static const char *hint_for(int code)
{
    switch (code) {
    case TIDINGS_E_INVALID:
    case TIDINGS_E_PARSE:
        return "see 'tidings help serve' for the options";
    case TIDINGS_E_NOTFOUND:
        return "check that the path exists; see 'tidings help serve'";
    default:
        return NULL;
    }
}

/* Use the log's format for everything on standard error. */
static void serve_read_format(struct tidings_server *server)
{
    char *format = tidings_server_get(server, "log-format");
    is_json = format && strcmp(format, "json") == 0;
    tidings_free(format);
}

static int serve_run(int argc, char **argv)
{
    struct tidings_error err = {0};
    bool is_asked = options_take(&argc, argv, "--json");
    process_has_secrets(); /* at least the key that seals cursors */
    struct tidings_server *server = tidings_server_create(&err);
    if (!server) {
        return command_fail("serve", &err, NULL);
    }
    int rc = is_asked ? tidings_server_set(server, "log-format", "json", &err) : 0;
    if (rc == 0) {
        rc = tidings_server_args(server, argc, argv, &err);
    }
    if (rc == 0) {
        serve_read_format(server);
        rc = tidings_server_sandbox(server, &err);
    }
    if (rc == 0) {
        rc = systemd_open(server, &err);
    }
    if (rc == 0) {
        rc = systemd_take_sockets(server, &err);
    }
    if (rc == 0) {
        tidings_server_on_ready(server, serve_on_ready, server);
        tidings_server_on_reloaded(server, on_reloaded, NULL);
        running = server;
        catch_signals();
        rc = tidings_server_run(server, &err);
        running = NULL;
    }
    int status = rc < 0 ? command_fail("serve", &err, hint_for(rc)) : 0;
    tidings_server_destroy(server);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .args = "[DIR…]",
    .help = "serve directories as live MCP resources",
    .about =
        "Serve each DIR, at file:///absolute/path/, on http://127.0.0.1:7777/mcp unless another "
        "listener is\nnamed (--stdio, --tcp, --unix).\n\n"
        "Sizes take k, m, g; times take ms, s, m, h, without a unit seconds. Every option is also "
        "a\nvariable (--page-size: TIDINGS_PAGE_SIZE) and a key of tidings.json (pageSize); "
        "options win\nover variables, variables over the file.\n\n"
        "With --json (the same as --log-format json) each line on standard error is an object: "
        "time, level,\narea, message and fields; once it serves, one of them has addresses.\n",
    .options = json_options,
    .arg_kind = ARG_FILE,
    .run_raw = serve_run,
};
