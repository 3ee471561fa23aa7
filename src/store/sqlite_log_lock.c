/* SPDX-License-Identifier: MIT
 *
 * Two bytes of the log: the first is locked by the owner as long as it lives, the second by the
 * owner while it copies (alone) and by backups while they read (together).
 */
#include "store/sqlite_log_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

enum log_lock_byte { OWNED, COPIED };

struct log_lock {
    int fd;
};

static int log_lock_set(int fd, int command, short kind, enum log_lock_byte byte)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, command, &lock);
}

struct log_lock *log_lock_create(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct log_lock *lock = NULL;
    if (fd >= 0 && log_lock_set(fd, F_OFD_SETLK, F_WRLCK, OWNED) == 0) {
        lock = mem_zalloc(sizeof(*lock));
    }
    if (!lock) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    lock->fd = fd;
    return lock;
}

void log_lock_destroy(struct log_lock *lock)
{
    if (!lock) {
        return;
    }
    close(lock->fd);
    mem_free(lock);
}

bool log_lock_take(struct log_lock *lock)
{
    return !lock || log_lock_set(lock->fd, F_OFD_SETLK, F_WRLCK, COPIED) == 0;
}

void log_lock_give(struct log_lock *lock)
{
    if (lock) {
        (void)log_lock_set(lock->fd, F_OFD_SETLK, F_UNLCK, COPIED);
    }
}

/* Is it among the files that this process has open? */
static bool log_lock_is_open_here(const char *path)
{
    struct stat wanted, st;
    bool is_found = false;
    DIR *all = stat(path, &wanted) == 0 ? opendir("/proc/self/fd") : NULL;
    for (struct dirent *one; all && !is_found && (one = readdir(all));) {
        char *end;
        long fd = strtol(one->d_name, &end, 10);
        is_found = end != one->d_name && fstat((int)fd, &st) == 0 && st.st_dev == wanted.st_dev &&
                   st.st_ino == wanted.st_ino;
    }
    if (all) {
        closedir(all);
    }
    return is_found;
}

/* Does somebody own it? */
static bool log_lock_is_owned(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = OWNED, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool log_lock_is_held(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_held = fd >= 0 && log_lock_is_owned(fd);
    if (fd >= 0) {
        close(fd);
    }
    return is_held;
}

int log_lock_share(const char *path, struct tidings_error *err)
{
    struct stat st, now;
    if (log_lock_is_open_here(path)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "this very program has it open: ask another");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = error_errno(err, errno, "open '%.200s'", path);
        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    int rc = 0;
    if (log_lock_set(fd, F_OFD_SETLKW, F_RDLCK, COPIED) < 0) {
        rc = error_errno(err, errno, "lock '%.200s'", path);
    } else if (stat(path, &now) < 0 || now.st_dev != st.st_dev || now.st_ino != st.st_ino) {
        rc = tidings_fail(err, TIDINGS_E_NOTFOUND, "'%.200s' is another file now", path);
    } else if (!log_lock_is_owned(fd)) {
        rc = tidings_fail(err, TIDINGS_E_BUSY,
                          "a program that is no tidings server has it open: end it first");
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}
