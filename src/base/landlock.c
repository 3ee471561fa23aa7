/* SPDX-License-Identifier: MIT
 *
 * Landlock by its system calls.
 *
 * The kernel's interface is written down here, as the headers of older systems know less of it than
 * the kernels they are run on.
 */
#include "base/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

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
    FS_TRUNCATE = 1 << 14,                                 /* version 3 */
    FS_FILES = FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE, /* what a rule about a file may say */
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
    uint64_t fs; /* what is handled: nothing else may be allowed */
    uint64_t net;
};

/* By version: all rights to files there are, and how much of the attributes the kernel knows. */
static void attributes(int abi, unsigned flags, struct ruleset_attr *ret, size_t *ret_size)
{
    static const unsigned char bits[] = {0, 13, 14, 15, 15, 16}; /* then no more came */
    size_t at = (size_t)abi < sizeof bits ? (size_t)abi : sizeof bits - 1;
    *ret = (struct ruleset_attr){.fs = (1u << bits[at]) - 1};
    *ret_size = sizeof ret->fs;
    if (abi >= 4) {
        ret->net = NET_BIND | (flags & LANDLOCK_NO_CONNECT ? NET_CONNECT : 0u);
        *ret_size = 2 * sizeof ret->fs;
    }
    if (abi >= 6) { /* abstract sockets of others, and signals to them */
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
