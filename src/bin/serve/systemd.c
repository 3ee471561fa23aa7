/* SPDX-License-Identifier: MIT
 *
 * sd_listen_fds(3) and sd_notify(3) without their library.
 */
#include "bin/serve/systemd.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIRST_FD 3
#define NAMES_MAX 4096u

static int notify_fd = -1; /* for signal handlers too */

/* A decimal number from 1 on; 0: it is none. */
static unsigned long systemd_number_of(const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long n = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    return errno == 0 && end && *end == '\0' ? n : 0;
}

/* Was the variable, which names a process, meant for us? Without it: `missing`. */
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

int systemd_take_sockets(struct tidings_server *server, struct tidings_error *err)
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

/* Lost when nobody reads it: there is nothing to be done about it. */
static void notify(const char *text)
{
    int kept = errno;
    if (notify_fd >= 0) {
        (void)!send(notify_fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    errno = kept;
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

int systemd_open(struct tidings_server *server, struct tidings_error *err)
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

void systemd_ready(void)
{
    notify("READY=1");
}

/* The time tells which reload it is. In a signal handler nothing formats it for us. */
void systemd_reloading(void)
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

void systemd_stopping(void)
{
    notify("STOPPING=1");
}
