/* SPDX-License-Identifier: MIT
 *
 * The confined process' side of its helper: starting it, and asking it to open files and to run
 * commands.
 */
#include "base/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/confined_file.h"
#include "base/error.h"
#include "base/helper_private.h"
#include "base/spawn.h"

/* The process has one, if any; set before there are threads. */
static int helper_socket = -1;

/* ---- datagrams with descriptors -------------------------------------------------------------- */

union control {
    char bytes[CMSG_SPACE(HELPER_FDS_MAX * sizeof(int))];
    struct cmsghdr header;
};

ssize_t helper_send(int socket, const void *bytes, size_t size, const int *fds, size_t fd_count)
{
    union control control = {{0}};
    struct iovec iov = {(void *)(uintptr_t)bytes, size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = (unsigned)CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = &control.header;
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = (unsigned)CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    ssize_t n;
    do {
        n = sendmsg(socket, &message, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

ssize_t helper_receive(int socket, void *bytes, size_t size, int *fds, size_t *fd_count)
{
    union control control = {{0}};
    struct iovec iov = {bytes, size};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    size_t room = *fd_count;
    ssize_t n;
    *fd_count = 0;
    do {
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
        return n;
    }
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        if (i < room) {
            fds[(*fd_count)++] = fd;
        } else {
            close(fd);
        }
    }
    return n;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Returns the socket for the answer, which is the caller's to close; a negative errno. */
static int helper_ask(const struct helper_request *q)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return -errno;
    }
    ssize_t n = helper_send(helper_socket, q, sizeof *q, &pair[1], 1);
    int errnum = n < 0 ? errno : 0;
    close(pair[1]);
    if (errnum) {
        close(pair[0]);
        return errnum == EPIPE || errnum == ECONNRESET ? -ESRCH : -errnum; /* it has gone */
    }
    return pair[0];
}

static bool helper_put_name(char out[HELPER_NAME_MAX], const char *name)
{
    size_t len = strnlen(name, HELPER_NAME_MAX);
    if (len == HELPER_NAME_MAX) {
        return false;
    }
    memcpy(out, name, len + 1);
    return true;
}

static int ask_to_open(const struct helper_request *q)
{
    struct helper_answer a;
    int fds[HELPER_FDS_MAX];
    size_t count = HELPER_FDS_MAX;
    int socket = helper_ask(q);
    if (socket < 0) {
        return socket;
    }
    ssize_t n = helper_receive(socket, &a, sizeof a, fds, &count);
    close(socket);
    if (n == (ssize_t)sizeof a && a.errnum == 0 && count == 1) {
        return fds[0];
    }
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
    if (n != (ssize_t)sizeof a) {
        return -ESRCH;
    }
    return a.errnum > 0 ? -a.errnum : -EMFILE; /* there was no room for what came */
}

bool helper_is_there(void)
{
    return helper_socket >= 0;
}

int helper_open(const char *path)
{
    struct helper_request q = {.kind = HELPER_OPEN};
    return helper_put_name(q.name, path) ? ask_to_open(&q) : -ENAMETOOLONG;
}

int helper_open_log(const char *path)
{
    struct helper_request q = {.kind = HELPER_OPEN_LOG};
    return helper_put_name(q.name, path) ? ask_to_open(&q) : -ENAMETOOLONG;
}

int helper_open_below(const char *root, int root_fd, const char *path, int flags, uint64_t resolve)
{
    struct stat st;
    if (fstat(root_fd, &st) < 0) {
        return -errno;
    }
    struct helper_request q = {.kind = HELPER_OPEN_BELOW,
                               .flags = flags,
                               .resolve = resolve,
                               .device = st.st_dev,
                               .inode = st.st_ino};
    return helper_put_name(q.name, root) && helper_put_name(q.path, path) ? ask_to_open(&q)
                                                                          : -ENAMETOOLONG;
}

int helper_run(const char *name, struct spawn *s, struct tidings_error *err)
{
    struct helper_request q = {.kind = HELPER_RUN};
    struct helper_answer a = {0};
    int fds[HELPER_FDS_MAX] = {-1, -1};
    size_t count = HELPER_FDS_MAX;
    int socket = helper_put_name(q.name, name) ? helper_ask(&q) : -ENAMETOOLONG;
    if (socket < 0) {
        return error_errno(err, -socket, "ask the process that runs commands");
    }
    ssize_t n = helper_receive(socket, &a, sizeof a, fds, &count);
    if (n == (ssize_t)sizeof a && a.err.code == 0 && count == 2) {
        spawn_adopt(s, a.pid, socket, fds);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
    close(socket);
    if (n != (ssize_t)sizeof a || a.err.code == 0) {
        return tidings_fail(err, TIDINGS_E_IO, "the process that runs commands has ended");
    }
    a.err.text[sizeof a.err.text - 1] = '\0';
    return tidings_fail(err, a.err.code, "%s", a.err.text);
}

static const struct file_opener helper_opener = {helper_open, helper_open_log};

/* ---- beginning ------------------------------------------------------------------------------- */

int helper_start(const struct helper_plan *plan, struct tidings_error *err)
{
    int pair[2];
    if (helper_is_there()) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "this process has its helper already");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        return error_errno(err, errno, "make sockets");
    }
    /* No handler of ours may run in the copy. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        helper_main(plan, pair[1]);
    }
    int errnum = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return error_errno(err, errnum, "fork");
    }
    helper_socket = pair[0];
    file_set_opener(&helper_opener);
    return 0;
}
