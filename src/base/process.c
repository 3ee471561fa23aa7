/* SPDX-License-Identifier: MIT
 *
 * Runs programs by vfork and execve. posix_spawn lacks two features: the death of the child with
 * its parent, and closing every other descriptor. fork would copy the page tables of a server that
 * may have gigabytes, with all its threads stopped.
 *
 * Between vfork and execve the child runs in our memory: it only makes system calls, writes only to
 * its own stack frame, and reports a failure through a pipe that execve closes.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"

#define LOWEST_OURS 16 /* the parent's ends are above the descriptors of the child */
#define STATUS_FD 3

enum {
    INPUT, /* standard input of the program */
    OUT_READ,
    OUT_WRITE,
    ERR_READ,
    ERR_WRITE,
    STATUS_READ,
    STATUS_WRITE,
    INPUT_WRITE,
    FDS
};

static void close_fds(int fds[FDS])
{
    for (size_t i = 0; i < FDS; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

/* Moves a descriptor above LOWEST_OURS; the low one is closed. */
static int lift(int fd)
{
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_OURS);
    int saved_errno = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = saved_errno;
    return high;
}

static bool open_pipe(int fds[FDS], int read_end, int write_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return false;
    }
    fds[read_end] = lift(ends[0]);
    fds[write_end] = lift(ends[1]);
    return fds[read_end] >= 0 && fds[write_end] >= 0;
}

static int open_fds(int fds[FDS], const struct spawn_options *o)
{
    for (size_t i = 0; i < FDS; i++) {
        fds[i] = -1;
    }
    bool ok = open_pipe(fds, OUT_READ, OUT_WRITE) && open_pipe(fds, STATUS_READ, STATUS_WRITE);
    if (o->wants_input) {
        ok = ok && open_pipe(fds, INPUT, INPUT_WRITE);
    } else {
        ok = ok && (fds[INPUT] = lift(open("/dev/null", O_RDONLY | O_CLOEXEC))) >= 0;
    }
    if (o->shares_stderr) {
        ok = ok && (fds[ERR_WRITE] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, LOWEST_OURS)) >= 0;
    } else {
        ok = ok && open_pipe(fds, ERR_READ, ERR_WRITE);
    }
    if (!ok) {
        int errnum = errno;
        close_fds(fds);
        return errnum;
    }
    return 0;
}

/* ---- the child ------------------------------------------------------------------------------- */

static bool arrange_descriptors(const int fds[FDS])
{
    return dup2(fds[INPUT], STDIN_FILENO) >= 0 && dup2(fds[OUT_WRITE], STDOUT_FILENO) >= 0 &&
           dup2(fds[ERR_WRITE], STDERR_FILENO) >= 0 &&
           dup3(fds[STATUS_WRITE], STATUS_FD, O_CLOEXEC) >= 0 &&
           syscall(SYS_close_range, STATUS_FD + 1, ~0u, 0) == 0;
}

static void reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &standard, NULL); /* fails for signals that cannot be changed */
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void become(const struct spawn_options *o, const int fds[FDS],
                                             pid_t parent)
{
    int status = fds[STATUS_WRITE];
    bool ok = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (getppid() != parent) {
        _exit(127); /* the parent died before this process asked for its death signal */
    }
    if (ok && arrange_descriptors(fds)) {
        status = STATUS_FD;
        if (!o->directory || chdir(o->directory) == 0) {
            reset_signals();
            (void)execve(o->path, o->argv, o->env);
        }
    }
    int errnum = errno;
    (void)!write(status, &errnum, sizeof(errnum));
    _exit(127);
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Blocks all signals in between: a handler must not run in both processes in the same memory. */
static pid_t spawn_fork(const struct spawn_options *o, const int fds[FDS])
{
    sigset_t all, before;
    pid_t parent = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork): see above
    if (pid == 0) {
        become(o, fds, parent); // NOLINT(clang-analyzer-unix.Vfork): likewise
    }
    int saved_errno = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return pid;
}

/* 0: execve succeeded; otherwise its errno, or that of an earlier step. */
static int read_status(int fd)
{
    int errnum = 0;
    ssize_t n;
    do {
        n = read(fd, &errnum, sizeof(errnum));
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(errnum) ? errnum : 0;
}

/* Sets the open descriptors non-blocking. */
static int set_nonblocking(const struct spawn *s)
{
    int fds[] = {s->out, s->err, s->in};
    int rc = 0;
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]) && rc == 0; i++) {
        rc = fds[i] > 0 ? fcntl(fds[i], F_SETFL, O_NONBLOCK) : 0;
    }
    return rc;
}

int spawn_start(struct spawn *s, const struct spawn_options *o, struct tidings_error *err)
{
    int fds[FDS];
    *s = (struct spawn){.pidfd = -1, .out = -1};
    int errnum = open_fds(fds, o);
    if (errnum) {
        return error_errno(err, errnum, "open pipes");
    }
    s->pid = spawn_fork(o, fds);
    if (s->pid < 0) {
        errnum = errno;
        *s = (struct spawn){0};
        close_fds(fds);
        return error_errno(err, errnum, "start a process");
    }
    s->out = fds[OUT_READ];
    s->err = fds[ERR_READ] >= 0 ? fds[ERR_READ] : 0;
    s->in = fds[INPUT_WRITE] >= 0 ? fds[INPUT_WRITE] : 0;
    fds[OUT_READ] = fds[ERR_READ] = fds[INPUT_WRITE] = -1;
    close(fds[STATUS_WRITE]);
    fds[STATUS_WRITE] = -1;
    errnum = read_status(fds[STATUS_READ]);
    close_fds(fds);
    s->pidfd = errnum ? -1 : lift((int)syscall(SYS_pidfd_open, s->pid, 0));
    if (!errnum && (s->pidfd < 0 || set_nonblocking(s) < 0)) {
        errnum = errno;
    }
    if (errnum) {
        spawn_deinit(s);
        return error_errno(err, errnum, "run '%s'", o->path);
    }
    return 0;
}

void spawn_adopt(struct spawn *s, pid_t pid, int socket, const int fds[2])
{
    *s = (struct spawn){
        .pid = pid, .pidfd = socket, .out = fds[0], .err = fds[1], .is_helpers = true};
}

void spawn_close_input(struct spawn *s)
{
    if (s->in > 0) {
        close(s->in);
        s->in = 0;
    }
}

static void send_signal(const struct spawn *s, int number)
{
    if (s->pid > 0 && s->is_helpers) {
        (void)send(s->pidfd, &number, sizeof(number), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (s->pid > 0) {
        (void)kill(-s->pid, number);
    }
}

void spawn_terminate(const struct spawn *s)
{
    send_signal(s, SIGTERM);
}

void spawn_kill(const struct spawn *s)
{
    send_signal(s, SIGKILL);
}

/* The helper has reaped it, or has ended itself. */
static bool reap_by_helper(struct spawn *s, enum spawn_ending *ret_how, int *ret_value)
{
    struct spawn_end ending;
    ssize_t n;
    /* reset: the helper closed it before reading our signal; its earlier message is still there */
    do {
        n = recv(s->pidfd, &ending, sizeof(ending), MSG_DONTWAIT);
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    bool is_known = n == (ssize_t)sizeof(ending);
    *ret_how = is_known ? (enum spawn_ending)ending.how : SPAWN_UNKNOWN;
    *ret_value = is_known ? ending.value : 0;
    s->pid = 0;
    return true;
}

bool spawn_reap(struct spawn *s, enum spawn_ending *ret_how, int *ret_value)
{
    if (s->is_helpers) {
        return reap_by_helper(s, ret_how, ret_value);
    }
    siginfo_t info = {0};
    int rc;
    do {
        rc = waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED | WNOHANG);
    } while (rc < 0 && errno == EINTR);
    if (rc == 0 && info.si_pid == 0) {
        return false;
    }
    *ret_how = rc < 0 ? SPAWN_UNKNOWN : info.si_code == CLD_EXITED ? SPAWN_EXITED : SPAWN_KILLED;
    *ret_value = rc < 0 ? 0 : info.si_status;
    s->pid = 0;
    return true;
}

/* Waits for the end after spawn_kill. */
static void wait_for_end(struct spawn *s)
{
    enum spawn_ending how;
    int value;
    if (s->pidfd < 0) { /* it never ran */
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return;
    }
    struct pollfd end = {.fd = s->pidfd, .events = POLLIN};
    do {
        (void)poll(&end, 1, -1);
    } while (!spawn_reap(s, &how, &value));
}

void spawn_deinit(struct spawn *s)
{
    if (s->pid > 0) {
        spawn_kill(s);
        wait_for_end(s);
    }
    int fds[] = {s->pidfd, s->out, s->err, s->in};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] > 0) {
            close(fds[i]);
        }
    }
    *s = (struct spawn){0};
}

/* ---- search ---------------------------------------------------------------------------------- */

static bool is_program(const char *file)
{
    struct stat st;
    return stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0;
}

int spawn_find(const char *name, const char *path, char *out, size_t room,
               struct tidings_error *err)
{
    struct tidings_str rest = tidings_str(path);
    bool is_path = strchr(name, '/') != NULL;
    if (is_path) {
        int n = snprintf(out, room, "%s", name);
        if (n > 0 && (size_t)n < room) {
            return 0;
        }
    }
    while (!is_path && rest.len > 0) {
        struct tidings_str folder = str_cut(rest, ':', &rest, NULL);
        int n = snprintf(out, room, "%.*s/%s", STR_ARG(folder), name);
        if (n > 0 && (size_t)n < room && is_program(out)) {
            return 0;
        }
    }
    return tidings_fail(err, TIDINGS_E_NOTFOUND, "no program '%s' in %s", name, path);
}
