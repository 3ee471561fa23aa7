/* SPDX-License-Identifier: MIT
 *
 * Makes system calls of a program fail that is started with this in LD_PRELOAD: opening, reading,
 * writing, syncing, mapping, watching, accepting, polling, starting threads, memory. Compiled by
 * the tests that use it (tests/integration/lib/faults.mjs), linked with nothing.
 *
 * The file named by FAULT_CONTROL is shared with the test, which selects the kinds of calls that
 * fail and how often, and reads which did. Whether the n-th call of a kind fails, and with which
 * error, follows only from the seed and n. Until `is_on` nothing fails. The clock on the wall is
 * off by as much as the test selects, from the start or from one moment on.
 *
 * Reads of one file can be stalled, as on a file system that hangs: the test names its inode, sees
 * how many reads hang, and lets each of them continue by a byte through the FIFO
 * FAULT_CONTROL.gate.
 *
 * Writes to standard error, and wakeups between threads (pipes, eventfd), never fail:
 * they do not on a real machine either.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    OPEN,       /* descriptors of files */
    READ,       /* of files */
    WRITE,      /* of files */
    SYNC,       /* fsync, fdatasync */
    NAME,       /* ftruncate, rename, unlink, mkdir */
    STAT,       /* stat, readdir */
    MMAP,       /* mmap */
    INOTIFY,    /* inotify_init1, inotify_add_watch */
    ACCEPT,     /* accept */
    EPOLL,      /* epoll_wait */
    RECEIVE,    /* from sockets */
    SEND,       /* to sockets */
    DESCRIPTOR, /* socket, pipe, eventfd, epoll_create, dup */
    THREAD,     /* pthread_create */
    MEMORY,     /* malloc, calloc, realloc */
    ADD,        /* epoll_ctl, for another descriptor */
    KINDS = 16
};

#define SHORT 0xffffu /* in place of an error: less is written than was asked for */
#define LOGGED 1024u
#define DEEP 8

struct control {
    uint32_t is_on;
    int32_t clock_s; /* so many seconds ahead */
    uint64_t seed;
    struct {
        uint32_t rate;  /* of a million calls */
        uint32_t error; /* 0: drawn */
        uint32_t limit; /* failures at most; 0: any number */
        uint32_t calls, failed, unused;
    } kinds[KINDS];
    uint32_t logged, unused_too;
    struct {
        uint32_t kind, error;
        int32_t fd;
        uint32_t thread;
        uint64_t at[DEEP]; /* return addresses */
    } log[LOGGED];
    struct {
        uint64_t inode;   /* of the file whose reads stall; 0: none */
        uint32_t count;   /* reads that hang */
        uint32_t asked;   /* … for what is in the page cache, … */
        uint32_t refused; /* … and were not allowed to ask */
        uint32_t unused;
    } stall;
};

static struct control idle, *control = &idle;
static uint64_t base; /* where the program was loaded */

static const uint16_t errors[KINDS][4] = {
    [OPEN] = {EMFILE, ENFILE, ENOMEM, EIO},
    [READ] = {EIO, EIO, ENOMEM, EINTR},
    [WRITE] = {ENOSPC, EIO, EDQUOT, SHORT},
    [SYNC] = {EIO, ENOSPC, EIO, EDQUOT},
    [NAME] = {EIO, ENOSPC, EROFS, EIO},
    [STAT] = {EIO, ENOMEM, EIO, ENOMEM},
    [MMAP] = {ENOMEM, ENOMEM, EAGAIN, ENFILE},
    [INOTIFY] = {ENOSPC, ENOMEM, EMFILE, ENOSPC},
    [ACCEPT] = {EMFILE, ENFILE, ECONNABORTED, ENOMEM},
    [EPOLL] = {EINTR, EINTR, EINTR, EINTR},
    [RECEIVE] = {ECONNRESET, EINTR, ENOMEM, ETIMEDOUT},
    [SEND] = {ECONNRESET, EPIPE, ENOBUFS, ENOMEM},
    [DESCRIPTOR] = {EMFILE, ENFILE, ENOMEM, EMFILE},
    [THREAD] = {EAGAIN, EAGAIN, ENOMEM, EAGAIN},
    [MEMORY] = {ENOMEM, ENOMEM, ENOMEM, ENOMEM},
    [ADD] = {ENOMEM, ENOSPC, ENOMEM, ENOSPC},
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static __thread int is_inside; /* our own calls do not fail */

static void note(enum kind kind, uint32_t error, int fd)
{
    uint32_t n = __atomic_fetch_add(&control->logged, 1, __ATOMIC_RELAXED);
    void *at[DEEP + 3] = {0};
    is_inside = 1;
    int deep = backtrace(at, DEEP + 3);
    is_inside = 0;
    control->log[n % LOGGED].kind = kind;
    control->log[n % LOGGED].error = error;
    control->log[n % LOGGED].fd = fd;
    control->log[n % LOGGED].thread = (uint32_t)syscall(SYS_gettid);
    for (int i = 0; i < DEEP; i++) {
        uint64_t where = i + 3 < deep + 1 && at[i + 2] ? (uint64_t)(uintptr_t)at[i + 2] : 0;
        control->log[n % LOGGED].at[i] = where > base ? where - base : where;
    }
}

/* The error with which this call is to fail; 0: it is done. */
static uint32_t fails(enum kind kind, int fd)
{
    if (!__atomic_load_n(&control->is_on, __ATOMIC_ACQUIRE) || is_inside ||
        control->kinds[kind].rate == 0) {
        return 0;
    }
    uint32_t n = __atomic_fetch_add(&control->kinds[kind].calls, 1, __ATOMIC_RELAXED);
    uint64_t drawn = mix(mix(control->seed + kind) + n);
    if (drawn % 1000000u >= control->kinds[kind].rate) {
        return 0;
    }
    uint32_t failed = __atomic_fetch_add(&control->kinds[kind].failed, 1, __ATOMIC_RELAXED);
    if (control->kinds[kind].limit > 0 && failed >= control->kinds[kind].limit) {
        __atomic_fetch_sub(&control->kinds[kind].failed, 1, __ATOMIC_RELAXED);
        return 0;
    }
    uint32_t error = control->kinds[kind].error;
    error = error ? error : errors[kind][drawn >> 62];
    note(kind, error, fd);
    return error;
}

/* For a read or written descriptor: the kind for files, the kind for sockets, or none. */
static int kind_of(int fd, enum kind file, enum kind socket)
{
    struct stat st;
    if (fd <= 2 || !__atomic_load_n(&control->is_on, __ATOMIC_RELAXED) ||
        syscall(SYS_fstat, fd, &st) < 0) {
        return KINDS;
    }
    return S_ISREG(st.st_mode) ? (int)file : S_ISSOCK(st.st_mode) ? (int)socket : KINDS;
}

static uint32_t fails_at(int fd, enum kind file, enum kind socket)
{
    int saved = errno;
    int kind = kind_of(fd, file, socket);
    errno = saved;
    return kind == KINDS ? 0 : fails((enum kind)kind, fd);
}

/* The function that is called in the end. */
#define REAL(name)                                                                                 \
    static __typeof__(&name) real_##name;                                                          \
    if (!real_##name) {                                                                            \
        is_inside++;                                                                               \
        void *found = dlsym(RTLD_NEXT, #name);                                                     \
        is_inside--;                                                                               \
        memcpy(&real_##name, &found, sizeof found);                                                \
    }

#define FAIL(failed, value)                                                                        \
    do {                                                                                           \
        uint32_t error_ = (failed);                                                                \
        if (error_) {                                                                              \
            errno = (int)error_;                                                                   \
            return (value);                                                                        \
        }                                                                                          \
    } while (0)

/* ---- a file system that hangs -----------------------------------------------------------------
 */

static int gate = -1;

static int is_stalled(int fd)
{
    uint64_t inode = __atomic_load_n(&control->stall.inode, __ATOMIC_ACQUIRE);
    struct stat st;
    int saved = errno;
    int is_it = inode != 0 && syscall(SYS_fstat, fd, &st) == 0 && st.st_ino == inode;
    errno = saved;
    return is_it;
}

static void stall_at(int fd)
{
    char byte;
    if (!is_stalled(fd)) {
        return;
    }
    __atomic_add_fetch(&control->stall.count, 1, __ATOMIC_RELEASE);
    while (syscall(SYS_read, gate, &byte, 1) < 0 && errno == EINTR) {
    }
    __atomic_sub_fetch(&control->stall.count, 1, __ATOMIC_RELEASE);
}

/* ---- files ----------------------------------------------------------------------------------- */

#define OPENING(name, parameters, arguments)                                                       \
    int name parameters                                                                            \
    {                                                                                              \
        REAL(name)                                                                                 \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                    \
        va_end(more);                                                                              \
        FAIL(fails(OPEN, -1), -1);                                                                 \
        return real_##name arguments;                                                              \
    }
OPENING(open, (const char *path, int flags, ...), (path, flags, mode))
OPENING(open64, (const char *path, int flags, ...), (path, flags, mode))
OPENING(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPENING(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "syscall");
        memcpy(&real, &found, sizeof found);
    }
    va_list more;
    va_start(more, number);
    long a[6];
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(more, long);
    }
    va_end(more);
    if (number == SYS_openat2) {
        FAIL(fails(OPEN, -1), -1);
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* A transfer: all of it, an error, or (files that are written) a part. */
#define TRANSFER(type, name, file, socket, parameters, arguments)                                  \
    type name parameters                                                                           \
    {                                                                                              \
        REAL(name)                                                                                 \
        if (file == READ) {                                                                        \
            stall_at(fd);                                                                          \
        }                                                                                          \
        uint32_t error = fails_at(fd, file, socket);                                               \
        if (error == SHORT) {                                                                      \
            size = size > 1 ? size / 2 : size;                                                     \
        } else if (error) {                                                                        \
            errno = (int)error;                                                                    \
            return -1;                                                                             \
        }                                                                                          \
        return real_##name arguments;                                                              \
    }
TRANSFER(ssize_t, read, READ, RECEIVE, (int fd, void *to, size_t size), (fd, to, size))
TRANSFER(ssize_t, pread, READ, RECEIVE, (int fd, void *to, size_t size, off_t at),
         (fd, to, size, at))
TRANSFER(ssize_t, pread64, READ, RECEIVE, (int fd, void *to, size_t size, off64_t at),
         (fd, to, size, at))
TRANSFER(ssize_t, write, WRITE, SEND, (int fd, const void *from, size_t size), (fd, from, size))
TRANSFER(ssize_t, pwrite, WRITE, SEND, (int fd, const void *from, size_t size, off_t at),
         (fd, from, size, at))
TRANSFER(ssize_t, pwrite64, WRITE, SEND, (int fd, const void *from, size_t size, off64_t at),
         (fd, from, size, at))
TRANSFER(ssize_t, recv, READ, RECEIVE, (int fd, void *to, size_t size, int flags),
         (fd, to, size, flags))
TRANSFER(ssize_t, send, WRITE, SEND, (int fd, const void *from, size_t size, int flags),
         (fd, from, size, flags))

#define WHOLE(type, name, failed, value, parameters, arguments)                                    \
    type name parameters                                                                           \
    {                                                                                              \
        REAL(name)                                                                                 \
        FAIL(failed, value);                                                                       \
        return real_##name arguments;                                                              \
    }
WHOLE(ssize_t, readv, fails_at(fd, READ, RECEIVE), -1, (int fd, const struct iovec *v, int n),
      (fd, v, n))
WHOLE(ssize_t, writev, fails_at(fd, KINDS, SEND), -1, (int fd, const struct iovec *v, int n),
      (fd, v, n))
WHOLE(ssize_t, recvmsg, fails_at(fd, KINDS, RECEIVE), -1, (int fd, struct msghdr *m, int flags),
      (fd, m, flags))
WHOLE(ssize_t, sendmsg, fails_at(fd, KINDS, SEND), -1, (int fd, const struct msghdr *m, int flags),
      (fd, m, flags))

/* A stalled file has nothing in the page cache. */
#define CACHED(name, offset)                                                                       \
    ssize_t name(int fd, const struct iovec *v, int n, offset at, int flags)                       \
    {                                                                                              \
        REAL(name)                                                                                 \
        __atomic_add_fetch(&control->stall.asked, 1, __ATOMIC_RELAXED);                            \
        FAIL(is_stalled(fd) ? EAGAIN : fails_at(fd, READ, RECEIVE), -1);                           \
        ssize_t got = real_##name(fd, v, n, at, flags);                                            \
        if (got < 0 && errno == EPERM) {                                                           \
            __atomic_add_fetch(&control->stall.refused, 1, __ATOMIC_RELAXED);                      \
        }                                                                                          \
        return got;                                                                                \
    }
CACHED(preadv2, off_t)
CACHED(preadv64v2, off64_t)

WHOLE(int, fsync, fails(SYNC, fd), -1, (int fd), (fd))
WHOLE(int, fdatasync, fails(SYNC, fd), -1, (int fd), (fd))
WHOLE(int, ftruncate, fails(NAME, fd), -1, (int fd, off_t size), (fd, size))
WHOLE(int, ftruncate64, fails(NAME, fd), -1, (int fd, off64_t size), (fd, size))
WHOLE(int, rename, fails(NAME, -1), -1, (const char *from, const char *to), (from, to))
WHOLE(int, renameat, fails(NAME, -1), -1, (int a, const char *from, int b, const char *to),
      (a, from, b, to))
WHOLE(int, unlink, fails(NAME, -1), -1, (const char *path), (path))
WHOLE(int, unlinkat, fails(NAME, -1), -1, (int at, const char *path, int flags), (at, path, flags))
WHOLE(int, mkdirat, fails(NAME, -1), -1, (int at, const char *path, mode_t mode), (at, path, mode))
WHOLE(int, stat, fails(STAT, -1), -1, (const char *path, struct stat *st), (path, st))
WHOLE(int, stat64, fails(STAT, -1), -1, (const char *path, struct stat64 *st), (path, st))
WHOLE(int, fstat, fails(STAT, fd), -1, (int fd, struct stat *st), (fd, st))
WHOLE(int, fstat64, fails(STAT, fd), -1, (int fd, struct stat64 *st), (fd, st))
WHOLE(int, fstatat, fails(STAT, at), -1, (int at, const char *path, struct stat *st, int flags),
      (at, path, st, flags))
WHOLE(int, fstatat64, fails(STAT, at), -1, (int at, const char *path, struct stat64 *st, int flags),
      (at, path, st, flags))
WHOLE(int, statx, fails(STAT, at), -1,
      (int at, const char *path, int flags, unsigned mask, struct statx *st),
      (at, path, flags, mask, st))
WHOLE(struct dirent *, readdir, fails(STAT, -1), NULL, (DIR * dir), (dir))
WHOLE(struct dirent64 *, readdir64, fails(STAT, -1), NULL, (DIR * dir), (dir))
WHOLE(void *, mmap, fails(MMAP, fd), MAP_FAILED,
      (void *at, size_t size, int how, int flags, int fd, off_t from),
      (at, size, how, flags, fd, from))
WHOLE(void *, mmap64, fails(MMAP, fd), MAP_FAILED,
      (void *at, size_t size, int how, int flags, int fd, off64_t from),
      (at, size, how, flags, fd, from))

/* ---- watching, connections, threads ---------------------------------------------------------- */

WHOLE(int, inotify_init1, fails(INOTIFY, -1), -1, (int flags), (flags))
WHOLE(int, inotify_add_watch, fails(INOTIFY, fd), -1, (int fd, const char *path, uint32_t mask),
      (fd, path, mask))
WHOLE(int, accept, fails(ACCEPT, fd), -1, (int fd, struct sockaddr *who, socklen_t *size),
      (fd, who, size))
WHOLE(int, accept4, fails(ACCEPT, fd), -1,
      (int fd, struct sockaddr *who, socklen_t *size, int flags), (fd, who, size, flags))
WHOLE(int, epoll_wait, fails(EPOLL, fd), -1, (int fd, struct epoll_event *e, int n, int ms),
      (fd, e, n, ms))
WHOLE(int, epoll_pwait, fails(EPOLL, fd), -1,
      (int fd, struct epoll_event *e, int n, int ms, const sigset_t *set), (fd, e, n, ms, set))
int epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
    REAL(epoll_ctl)
    if (op == EPOLL_CTL_ADD) {
        FAIL(fails(ADD, of), -1);
    }
    return real_epoll_ctl(fd, op, of, event);
}
WHOLE(int, epoll_create1, fails(DESCRIPTOR, -1), -1, (int flags), (flags))
WHOLE(int, socket, fails(DESCRIPTOR, -1), -1, (int family, int type, int protocol),
      (family, type, protocol))
WHOLE(int, pipe2, fails(DESCRIPTOR, -1), -1, (int fds[2], int flags), (fds, flags))
WHOLE(int, eventfd, fails(DESCRIPTOR, -1), -1, (unsigned value, int flags), (value, flags))
WHOLE(int, dup, fails(DESCRIPTOR, fd), -1, (int fd), (fd))

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *user)
{
    REAL(pthread_create)
    uint32_t error = fails(THREAD, -1);
    return error ? (int)error : real_pthread_create(thread, attributes, run, user);
}

/* ---- the clock ------------------------------------------------------------------------------- */

static int32_t clock_ahead(void)
{
    return __atomic_load_n(&control->clock_s, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    REAL(clock_gettime)
    int rc = real_clock_gettime(clock, at);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        at->tv_sec += clock_ahead();
    }
    return rc;
}

int gettimeofday(struct timeval *at, void *zone)
{
    REAL(gettimeofday)
    int rc = real_gettimeofday(at, zone);
    if (rc == 0) {
        at->tv_sec += clock_ahead();
    }
    return rc;
}

time_t time(time_t *ret)
{
    REAL(time)
    time_t at = real_time(NULL) + clock_ahead();
    if (ret) {
        *ret = at;
    }
    return at;
}

/* ---- memory ---------------------------------------------------------------------------------- */

#ifndef FAULT_WITHOUT_MEMORY /* a sanitizer has its own allocator */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
    FAIL(fails(MEMORY, -1), NULL);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    FAIL(fails(MEMORY, -1), NULL);
    return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    FAIL(fails(MEMORY, -1), NULL);
    return __libc_realloc(p, size);
}
#endif

/* ---- the test's side ------------------------------------------------------------------------- */

__attribute__((constructor)) static void fault_begin(void)
{
    const char *path = getenv("FAULT_CONTROL");
    void *warm[2];
    (void)backtrace(warm, 2); /* loads what it needs */
    Dl_info info;
    void *program = dlsym(RTLD_DEFAULT, "main");
    base = program && dladdr(program, &info) ? (uint64_t)(uintptr_t)info.dli_fbase : 0;
    if (!base) {
        const char *maps = "/proc/self/maps";
        char text[32] = {0};
        int fd = open(maps, O_RDONLY | O_CLOEXEC);
        base = fd >= 0 && read(fd, text, 16) > 0 ? strtoull(text, NULL, 16) : 0;
        close(fd);
    }
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    char gate_path[4096];
    snprintf(gate_path, sizeof gate_path, "%s.gate", path);
    gate = open(gate_path, O_RDWR | O_CLOEXEC);
    void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    control = at == MAP_FAILED ? &idle : at;
    close(fd);
}
