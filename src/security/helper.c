/* SPDX-License-Identifier: MIT
 *
 * The confined process's side of its helper: starts it, and requests it to open files and run
 * commands.
 */
#include "security/helper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"
#include "security/sandbox.h"

/* ---------------------------------------------------------------------------------------------- */

/* The socket of this process's helper, if any; set before threads start. */
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

/* *fd_count: capacity of `fds`, then the number received. */
static ssize_t helper_receive(int socket, void *bytes, size_t size, int *fds, size_t *fd_count)
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

/* Returns the socket for the answer, which the caller must close; or a negative errno. */
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
        return errnum == EPIPE || errnum == ECONNRESET ? -ESRCH : -errnum; /* it has ended */
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
    return a.errnum > 0 ? -a.errnum : -EMFILE; /* there was no room for the received descriptors */
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

static void helper_main(const struct helper_plan *plan, int socket);

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
    /* No signal handler of the parent may run in the child. */
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

/* -------------------------------------------------------------------------------------------------
 * The helper process itself. It does not trust its client: it rejects names outside the plan, lets
 * the kernel resolve paths below a root (openat2, RESOLVE_BENEATH), and opens nothing for writing
 * but the end of the log.
 *
 * Besides its request socket it has two descriptors for each running command: the socket of its
 * answer, and the pidfd. A signal number on the socket goes to the process group; when the peer
 * closes the socket, the group is killed. When the command ends, the helper kills the rest of its
 * group, which keeps its number until the command is reaped, and then reports the exit status.
 *
 * Each command of the plan has its own slot and runs once at a time. So long-running commands take
 * no room from the others.
 */

#define SOCKET 3
#define RUN_FDS 2u    /* descriptors per running command */
#define OTHER_FDS 32u /* all others, including those of a command that is being started */
#define FLAGS_MAX (O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

struct run {
    bool is_running;
    struct spawn child;
    int socket;
};

struct helper {
    const struct helper_plan *plan;
    struct run *runs;     /* by the index of the command */
    struct pollfd *polls; /* SOCKET, and RUN_FDS of each command; -1: not running */
};

/* ---- opening --------------------------------------------------------------------------------- */

static int helper_process_refuse(int errnum)
{
    errno = errnum;
    return -1;
}

static int helper_process_open_file(const struct helper_plan *plan, const struct helper_request *q)
{
    for (size_t i = 0; i < plan->file_count; i++) {
        if (strcmp(plan->files[i], q->name) == 0) {
            return open(q->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        }
    }
    return helper_process_refuse(EPERM);
}

static int helper_process_open_log(const struct helper_plan *plan, const struct helper_request *q)
{
    bool is_log = plan->log_file && strcmp(plan->log_file, q->name) == 0;
    bool is_access = plan->access_log_file && strcmp(plan->access_log_file, q->name) == 0;
    return is_log || is_access ? open(q->name, FILE_LOG_FLAGS, FILE_LOG_MODE)
                               : helper_process_refuse(EPERM);
}

/* The requested root, if its path still leads to the same directory and owner. */
static int open_root(const struct helper_plan *plan, const struct helper_request *q)
{
    size_t i = 0;
    struct stat st;
    while (i < plan->root_count && strcmp(plan->roots[i].path, q->name) != 0) {
        i++;
    }
    if (i == plan->root_count) {
        return helper_process_refuse(EPERM);
    }
    int fd = open(q->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) == 0 && st.st_dev == q->device && st.st_ino == q->inode &&
        st.st_uid == plan->roots[i].owner) {
        return fd;
    }
    close(fd);
    return helper_process_refuse(ESTALE);
}

static int open_below(const struct helper_plan *plan, const struct helper_request *q)
{
    struct open_how how = {
        .flags = (uint64_t)(O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | q->flags),
        .resolve = q->resolve | RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    int root = (q->flags & ~FLAGS_MAX) == 0 ? open_root(plan, q) : helper_process_refuse(EPERM);
    if (root < 0) {
        return -1;
    }
    int fd = (int)syscall(SYS_openat2, root, q->path[0] ? q->path : ".", &how, sizeof how);
    int errnum = errno;
    close(root);
    errno = errnum;
    return fd;
}

static void answer_open(int socket, int fd)
{
    struct helper_answer a = {.errnum = fd < 0 ? errno : 0};
    (void)helper_send(socket, &a, sizeof a, &fd, fd >= 0);
    if (fd >= 0) {
        close(fd);
    }
    close(socket);
}

/* ---- running --------------------------------------------------------------------------------- */

static int helper_process_start(struct helper *h, const char *name, struct run **ret,
                                struct tidings_error *err)
{
    char program[PATH_MAX];
    const struct helper_plan *plan = h->plan;
    size_t i = 0;
    while (i < plan->command_count && strcmp(plan->commands[i].name, name) != 0) {
        i++;
    }
    if (i == plan->command_count) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the command '%.100s' was not configured when the server started; "
                            "start it again",
                            name);
    }
    if (h->runs[i].is_running) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "the command '%.100s' runs already; try again when it has ended", name);
    }
    const struct helper_command *c = &plan->commands[i];
    int rc = spawn_find(c->argv[0], c->path, program, sizeof program, err);
    struct spawn_options o = {
        .path = program, .argv = c->argv, .env = c->env, .directory = c->directory};
    *ret = &h->runs[i];
    return rc < 0 ? rc : spawn_start(&h->runs[i].child, &o, err);
}

static void answer_run(struct helper *h, int socket, const char *name)
{
    struct helper_answer a = {0};
    struct run *run = NULL;
    int rc = helper_process_start(h, name, &run, &a.err);
    a.err.code = rc;
    if (rc < 0) {
        (void)helper_send(socket, &a, sizeof a, NULL, 0);
        close(socket);
        return;
    }
    int fds[] = {run->child.out, run->child.err};
    a.pid = run->child.pid;
    run->socket = socket;
    run->is_running = true;
    /* if the peer has ended, the socket reports it */
    (void)helper_send(socket, &a, sizeof a, fds, 2);
    close(run->child.out);
    close(run->child.err);
    run->child.out = run->child.err = 0;
}

static void drop_run(struct run *run)
{
    spawn_deinit(&run->child); /* kills the rest of the group, and waits for its end */
    if (run->socket >= 0) {
        close(run->socket);
    }
    run->is_running = false;
}

/* Handles a request for a running command. False: the peer closed the socket. */
static bool helper_obey(struct run *run)
{
    int number = 0;
    ssize_t n = recv(run->socket, &number, sizeof number, MSG_DONTWAIT);
    if (n == (ssize_t)sizeof number && number == SIGTERM) {
        spawn_terminate(&run->child);
    } else if (n == (ssize_t)sizeof number && number == SIGKILL) {
        spawn_kill(&run->child);
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Returns true if the command has ended and its status was sent. */
static bool has_ended(struct run *run)
{
    enum spawn_ending how;
    int value;
    spawn_kill(&run->child);
    if (!spawn_reap(&run->child, &how, &value)) {
        return false;
    }
    struct spawn_end ending = {how, value};
    (void)helper_send(run->socket, &ending, sizeof ending, NULL, 0);
    return true;
}

/* ---- the process ----------------------------------------------------------------------------- */

/* False: the confined process has ended. */
static bool helper_process_answer(struct helper *h)
{
    static struct helper_request q;
    int socket = -1;
    size_t count = 1;
    ssize_t n = helper_receive(SOCKET, &q, sizeof q, &socket, &count);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        return false;
    }
    q.name[HELPER_NAME_MAX - 1] = q.path[HELPER_NAME_MAX - 1] = '\0';
    if (count != 1) {
        return true;
    }
    if (n != (ssize_t)sizeof q) {
        close(socket);
    } else if (q.kind == HELPER_OPEN) {
        answer_open(socket, helper_process_open_file(h->plan, &q));
    } else if (q.kind == HELPER_OPEN_LOG) {
        answer_open(socket, helper_process_open_log(h->plan, &q));
    } else if (q.kind == HELPER_OPEN_BELOW) {
        answer_open(socket, open_below(h->plan, &q));
    } else if (q.kind == HELPER_RUN) {
        answer_run(h, socket, q.name);
    } else {
        close(socket);
    }
    return true;
}

/* Handles all ready descriptors. */
static bool helper_turn(struct helper *h)
{
    size_t count = h->plan->command_count;
    h->polls[0] = (struct pollfd){.fd = SOCKET, .events = POLLIN};
    for (size_t i = 0; i < count; i++) {
        const struct run *run = &h->runs[i];
        struct pollfd *p = &h->polls[1 + RUN_FDS * i];
        p[0] = (struct pollfd){.fd = run->is_running ? run->socket : -1, .events = POLLIN};
        p[1] = (struct pollfd){.fd = run->is_running ? run->child.pidfd : -1, .events = POLLIN};
    }
    if (poll(h->polls, 1 + RUN_FDS * count, -1) < 0) {
        return errno == EINTR || errno == EAGAIN || errno == ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct run *run = &h->runs[i];
        const struct pollfd *p = &h->polls[1 + RUN_FDS * i];
        if (p[0].revents && !helper_obey(run)) {
            spawn_kill(&run->child); /* its end can take a while: others must not wait for it */
            close(run->socket);
            run->socket = -1;
        }
        if (p[1].revents && has_ended(run)) {
            drop_run(run);
        }
    }
    return !h->polls[0].revents || helper_process_answer(h);
}

/* Allocates room for all commands of the plan. */
static bool helper_process_make_room(struct helper *h)
{
    size_t count = h->plan->command_count;
    rlim_t needed = RUN_FDS * count + OTHER_FDS;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < needed) {
        files.rlim_cur = files.rlim_max < needed ? files.rlim_max : needed;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    h->runs = mem_zalloc((count + 1) * sizeof *h->runs);
    h->polls = mem_zalloc((1 + RUN_FDS * count) * sizeof *h->polls);
    return h->runs && h->polls;
}

/* Detaches from the parent: closes descriptors, resets handlers. Signals to the whole group (from
 * the terminal or a service manager) are for the parent; the helper ends with it. */
static bool helper_process_detach(int socket)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
    struct sigaction standard = {.sa_handler = SIG_DFL}, ignore = {.sa_handler = SIG_IGN};
    sigset_t none;
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &standard, NULL);
    }
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        (void)sigaction(ignored[i], &ignore, NULL);
    }
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_NAME, "tidings-helper");
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (socket != SOCKET && dup3(socket, SOCKET, O_CLOEXEC) < 0) {
        return false;
    }
    for (int fd = 0; fd < SOCKET && nothing >= 0; fd++) {
        (void)dup2(nothing, fd);
    }
    return syscall(SYS_close_range, SOCKET + 1, ~0u, 0) == 0;
}

/* Runs in the forked process: does not return. */
static void helper_main(const struct helper_plan *plan, int socket)
{
    struct helper h = {.plan = plan};
    /* otherwise it keeps the capabilities it was started with */
    (void)capabilities_keep(plan->rights, NULL);
    bool goes_on = helper_process_make_room(&h) && helper_process_detach(socket);
    while (goes_on) {
        goes_on = helper_turn(&h);
    }
    for (size_t i = 0; h.runs && i < plan->command_count; i++) {
        if (h.runs[i].is_running) {
            drop_run(&h.runs[i]);
        }
    }
    _exit(0);
}
