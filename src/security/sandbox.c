/* SPDX-License-Identifier: MIT
 *
 * Confinement of the process: Landlock, seccomp and capabilities by their system calls.
 *
 * The kernel interface is defined here, because the headers of older systems know less of it than
 * the kernels that run the program.
 */
#include "security/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

/* -------------------------------------------------------------------------------------------------
 * Builds and installs the list of allowed system calls.
 *
 * The filter is a sequence of comparisons. Kernels from 5.11 on run it once for each call that is
 * allowed with any arguments and cache the result, so its length costs nothing.
 *
 * Besides the number, the filter checks only arguments in registers, because memory behind a
 * pointer could change after the check. Hence clone3 is reported as missing (its flags are in
 * memory), and libraries use clone, of which only thread creation is allowed.
 */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifndef ARCHITECTURE

int seccomp_probe(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                        "no list of system calls for this architecture");
}

int seccomp_enforce(unsigned flags, struct tidings_error *err)
{
    (void)flags;
    return seccomp_probe(err);
}

#else

#define X32_BIT 0x40000000u
#define LAST_KNOWN 461u /* of Linux 6.9; newer calls are unknown here */
#define INSTRUCTIONS_MAX 512u

/* Allowed with any arguments. */
static const unsigned short allowed[] = {
    /* reading and writing */
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_preadv2,
    SYS_pwritev,
    SYS_lseek,
    SYS_close,
    SYS_fsync,
    SYS_fdatasync,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fcntl,
    SYS_flock,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_memfd_create,
    /* names: Landlock restricts them */
    SYS_openat,
    SYS_openat2,
    SYS_newfstatat,
    SYS_fstat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_unlinkat,
    SYS_fchmod,
    SYS_fchown,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    /* waiting */
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_ppoll,
    SYS_pselect6,
    SYS_eventfd2,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_io_uring_enter,
    /* existing sockets */
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_recvmmsg,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    /* memory */
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_membarrier,
    /* this process's threads and signals */
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_set_tid_address,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_gettid,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_restart_syscall,
    /* information about the process and the machine */
    SYS_getpid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getcpu,
    SYS_getrusage,
    SYS_times,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
#ifdef __x86_64__ /* older forms of the above */
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_getdents,
    SYS_unlink,
    SYS_dup2,
    SYS_pipe,
    SYS_poll,
    SYS_select,
    SYS_epoll_wait,
    SYS_time,
    SYS_getrlimit,
    SYS_arch_prctl,
#endif
};

/* Allowed if the argument, or its bits in `mask`, equal `value`. One call can have several rows. */
struct with_argument {
    unsigned short number, index;
    uint32_t mask, value;
};

#define ANY_BIT 0xffffffffu

static const struct with_argument conditional[] = {
    {SYS_clone, 0, CLONE_THREAD, CLONE_THREAD}, {SYS_socketpair, 0, ANY_BIT, AF_UNIX},
    {SYS_prctl, 0, ANY_BIT, PR_SET_NAME},       {SYS_prctl, 0, ANY_BIT, PR_GET_NAME},
    {SYS_ioctl, 1, ANY_BIT, FIONREAD},          {SYS_ioctl, 1, ANY_BIT, FIONBIO},
    {SYS_ioctl, 1, ANY_BIT, FIOCLEX},           {SYS_ioctl, 1, ANY_BIT, TCGETS},
    {SYS_ioctl, 1, ANY_BIT, TIOCGPGRP},         {SYS_ioctl, 1, ANY_BIT, TIOCGWINSZ},
    {SYS_ioctl, 1, ANY_BIT, TIOCOUTQ}, /* SIOCOUTQ: bytes that a socket has not delivered */
};

/* For fetching keys and introspecting tokens: name resolution uses UDP and netlink. */
static const unsigned short connecting[] = {SYS_connect, SYS_bind};
static const struct with_argument families[] = {
    {SYS_socket, 0, ANY_BIT, AF_INET},
    {SYS_socket, 0, ANY_BIT, AF_INET6},
    {SYS_socket, 0, ANY_BIT, AF_UNIX},
    {SYS_socket, 0, ANY_BIT, AF_NETLINK},
};

/* ---- the filter ------------------------------------------------------------------------------ */

struct filter {
    struct sock_filter at[INSTRUCTIONS_MAX];
    unsigned short count;
};

static void seccomp_put(struct filter *f, struct sock_filter instruction)
{
    if (f->count < INSTRUCTIONS_MAX) {
        f->at[f->count] = instruction;
    }
    f->count++;
}

static void put_load(struct filter *f, size_t offset)
{
    seccomp_put(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void put_return(struct filter *f, uint32_t what)
{
    seccomp_put(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* If the comparison with the accumulator is true, return; else continue. */
static void put_return_if(struct filter *f, unsigned short comparison, uint32_t value,
                          uint32_t what)
{
    seccomp_put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | comparison | BPF_K, value, 0, 1));
    put_return(f, what);
}

#define NUMBER offsetof(struct seccomp_data, nr)
/* The lower half: both architectures are little-endian. */
#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))

static void put_conditional(struct filter *f, const struct with_argument *row)
{
    put_load(f, NUMBER);
    seccomp_put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, row->number, 0, 4));
    put_load(f, ARGUMENT(row->index));
    seccomp_put(f, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, row->mask));
    put_return_if(f, BPF_JEQ, row->value, SECCOMP_RET_ALLOW);
}

static void put_allowed(struct filter *f, const unsigned short *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_return_if(f, BPF_JEQ, numbers[i], SECCOMP_RET_ALLOW);
    }
}

static void put_all_conditional(struct filter *f, const struct with_argument *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_conditional(f, &rows[i]);
    }
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Limits may be read but not set: both halves of the pointer to new limits must be 0. */
static void put_limits(struct filter *f)
{
    put_load(f, NUMBER);
    seccomp_put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 5));
    put_load(f, ARGUMENT(2));
    seccomp_put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3));
    put_load(f, ARGUMENT(2) + sizeof(uint32_t));
    put_return_if(f, BPF_JEQ, 0, SECCOMP_RET_ALLOW);
}

static void seccomp_build(struct filter *f, unsigned flags)
{
    const struct with_argument itself[] = {
        {SYS_tgkill, 0, ANY_BIT, (uint32_t)getpid()},
        {SYS_kill, 0, ANY_BIT, (uint32_t)getpid()},
    };
    f->count = 0;
    put_load(f, offsetof(struct seccomp_data, arch));
    seccomp_put(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
    put_return(f, SECCOMP_RET_KILL_PROCESS);
    put_load(f, NUMBER);
#ifdef __x86_64__
    put_return_if(f, BPF_JGE, X32_BIT, SECCOMP_RET_KILL_PROCESS);
#endif
    put_allowed(f, allowed, COUNT(allowed));
    if (flags & SECCOMP_CONNECTS) {
        put_allowed(f, connecting, COUNT(connecting));
    }
    put_return_if(f, BPF_JEQ, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
    put_return_if(f, BPF_JGT, LAST_KNOWN, SECCOMP_RET_ERRNO | ENOSYS);
    put_all_conditional(f, conditional, COUNT(conditional));
    put_all_conditional(f, itself, COUNT(itself));
    if (flags & SECCOMP_CONNECTS) {
        put_all_conditional(f, families, COUNT(families));
    }
    put_limits(f);
    put_return(f, SECCOMP_RET_ERRNO | EPERM);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static long seccomp_call(unsigned operation, unsigned flags, void *argument)
{
    return syscall(SYS_seccomp, operation, flags, argument);
}

int seccomp_probe(struct tidings_error *err)
{
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    if (seccomp_call(SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "%s",
                        errno == EPERM ? "seccomp is forbidden here"
                                       : "the kernel has no seccomp filters (Linux 4.14 has)");
}

int seccomp_enforce(unsigned flags, struct tidings_error *err)
{
    struct filter f;
    seccomp_build(&f, flags);
    if (f.count > INSTRUCTIONS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the list of calls is too long");
    }
    struct sock_fprog program = {.len = f.count, .filter = f.at};
    long rc = seccomp_call(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (rc > 0) {
        return tidings_fail(err, TIDINGS_E_BUSY, "seccomp: thread %ld has its own filter", rc);
    }
    return rc < 0 ? error_errno(err, errno, "seccomp") : 0;
}

#endif

/* -------------------------------------------------------------------------------------------------
 * Capabilities by their system calls: the bounding set first, because changing it needs a
 * capability.
 */

#define WORDS _LINUX_CAPABILITY_U32S_3

static int capabilities_read(struct __user_cap_data_struct data[WORDS])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return syscall(SYS_capget, &header, data) < 0 ? -errno : 0;
}

static uint64_t capabilities_join(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

uint64_t capabilities_get(void)
{
    struct __user_cap_data_struct data[WORDS] = {{0}};
    return capabilities_read(data) == 0 ? capabilities_join(data[0].effective, data[1].effective)
                                        : 0;
}

/* The loop ends at the first capability that the kernel does not know. */
static int capabilities_bound(uint64_t kept)
{
    for (unsigned i = 0; i < 64; i++) {
        int has = prctl(PR_CAPBSET_READ, i, 0, 0, 0);
        if (has < 0) {
            break;
        }
        if (has == 1 && !(kept & CAPABILITY(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0) {
            return -errno;
        }
    }
    return 0;
}

int capabilities_keep(uint64_t wanted, struct tidings_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[WORDS] = {{0}};
    int rc = capabilities_read(data);
    uint64_t permitted = capabilities_join(data[0].permitted, data[1].permitted);
    uint64_t inheritable = capabilities_join(data[0].inheritable, data[1].inheritable);
    if (rc == 0 && permitted == 0 && inheritable == 0) {
        return 0;
    }
    uint64_t kept = permitted & wanted;
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (rc == 0 && (capabilities_get() & CAPABILITY(CAP_SETPCAP))) {
        rc = capabilities_bound(kept);
    }
    data[0] = (struct __user_cap_data_struct){(uint32_t)kept, (uint32_t)kept, 0};
    data[1] = (struct __user_cap_data_struct){(uint32_t)(kept >> 32), (uint32_t)(kept >> 32), 0};
    if (rc == 0 && syscall(SYS_capset, &header, data) < 0) {
        rc = -errno;
    }
    return rc < 0 ? error_errno(err, -rc, "give up capabilities") : 0;
}

/* ---------------------------------------------------------------------------------------------- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#define WANT_VERSION 1u
#define RULE_PATH 1
#define RULE_PORT 2

enum {
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_REMOVE_FILE = 1 << 5,
    FS_MAKE_REG = 1 << 8,
    FS_MAKE_SOCK = 1 << 9,
    FS_TRUNCATE = 1 << 14, /* version 3 */
    /* rights that a rule for a file can have */
    FS_FILES = FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE,
    NET_BIND = 1 << 0,
    NET_CONNECT = 1 << 1,
    SCOPE_ABSTRACT = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

struct path_attr {
    uint64_t access;
    int32_t parent_fd;
} __attribute__((packed));

struct port_attr {
    uint64_t access, port;
};

struct landlock {
    int fd;
    uint64_t fs; /* handled rights: only rules allow them */
    uint64_t net;
};

/* By ABI version: all existing file rights, and the size of the attributes that the kernel knows.
 */
static void attributes(int abi, unsigned flags, struct ruleset_attr *ret, size_t *ret_size)
{
    /* newer versions add no file rights */
    static const unsigned char bits[] = {0, 13, 14, 15, 15, 16};
    size_t at = (size_t)abi < sizeof bits ? (size_t)abi : sizeof bits - 1;
    *ret = (struct ruleset_attr){.fs = (1u << bits[at]) - 1};
    *ret_size = sizeof ret->fs;
    if (abi >= 4) {
        ret->net = NET_BIND | (flags & LANDLOCK_NO_CONNECT ? NET_CONNECT : 0u);
        *ret_size = 2 * sizeof ret->fs;
    }
    if (abi >= 6) { /* abstract sockets of other processes, and signals to them */
        ret->scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
        *ret_size = sizeof *ret;
    }
}

int landlock_abi(struct tidings_error *err)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, WANT_VERSION);
    if (abi > 0) {
        return (int)abi;
    }
    (void)tidings_fail(err, TIDINGS_E_UNSUPPORTED, "%s",
                       errno == EOPNOTSUPP ? "the kernel was started without Landlock"
                       : errno == ENOSYS   ? "the kernel has no Landlock (Linux 5.13 has)"
                                           : "Landlock is forbidden here");
    return 0;
}

struct landlock *landlock_create(unsigned flags, struct tidings_error *err)
{
    struct ruleset_attr attr;
    size_t size;
    int abi = landlock_abi(err);
    if (abi == 0) {
        return NULL;
    }
    attributes(abi, flags, &attr, &size);
    struct landlock *l = mem_zalloc(sizeof *l);
    if (!l) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    l->fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0); /* closed by exec */
    l->fs = attr.fs;
    l->net = attr.net;
    if (l->fd < 0) {
        (void)error_errno(err, errno, "Landlock");
        mem_free(l);
        return NULL;
    }
    return l;
}

static uint64_t rights(unsigned access)
{
    uint64_t all = 0;
    if (access & LANDLOCK_READ) {
        all |= FS_READ_FILE | FS_READ_DIR;
    }
    if (access & LANDLOCK_OVERWRITE) {
        all |= FS_WRITE_FILE;
    }
    if (access & LANDLOCK_WRITE) {
        all |=
            FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_MAKE_REG | FS_REMOVE_FILE;
    }
    if (access & LANDLOCK_SOCKETS) {
        all |= FS_MAKE_SOCK | FS_REMOVE_FILE;
    }
    return all;
}

int landlock_allow(struct landlock *l, const char *path, unsigned access)
{
    struct stat st;
    struct path_attr rule = {.access = rights(access) & l->fs,
                             .parent_fd = open(path, O_PATH | O_CLOEXEC)};
    if (rule.parent_fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
    }
    if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
        rule.access &= FS_FILES;
    }
    int rc = 0;
    if (rule.access != 0 && syscall(SYS_landlock_add_rule, l->fd, RULE_PATH, &rule, 0) < 0) {
        rc = -errno;
    }
    close(rule.parent_fd);
    return rc;
}

int landlock_allow_bind(struct landlock *l, uint16_t port)
{
    struct port_attr rule = {.access = NET_BIND, .port = port};
    bool is_handled = (l->net & NET_BIND) != 0;
    return is_handled && syscall(SYS_landlock_add_rule, l->fd, RULE_PORT, &rule, 0) < 0 ? -errno
                                                                                        : 0;
}

int landlock_enforce(struct landlock *l, struct tidings_error *err)
{
    return syscall(SYS_landlock_restrict_self, l->fd, 0) < 0 ? error_errno(err, errno, "Landlock")
                                                             : 0;
}

void landlock_destroy(struct landlock *l)
{
    if (l) {
        close(l->fd);
        mem_free(l);
    }
}
