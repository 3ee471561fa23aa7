/* SPDX-License-Identifier: MIT */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "local_name.h"

#define TEMPORARY LOCAL_RESERVED "tmp" /* one is enough: the directory is held */

int folder_open(const char *dir, int *ret_fd)
{
    if (mkdir(dir, 0777) < 0 && errno != EEXIST) {
        return errno;
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int errnum = errno;
        if (fd >= 0) {
            close(fd);
        }
        return errnum;
    }
    *ret_fd = fd;
    return 0;
}

/* The directory of the last name, a descriptor to close; -1 with errno. */
static int open_parent(int root, const char *path, const char **ret_last)
{
    int at = fcntl(root, F_DUPFD_CLOEXEC, 0);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        char name[LOCAL_SEGMENT_MAX + 1];
        size_t len = (size_t)(slash - path);
        int next = -1;
        errno = ENAMETOOLONG;
        if (len < sizeof(name)) {
            memcpy(name, path, len);
            name[len] = '\0';
            next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        int errnum = errno;
        close(at);
        errno = errnum;
        at = next;
    }
    *ret_last = path;
    return at;
}

int folder_stat(int root, const char *path, struct stat *ret)
{
    const char *last;
    int at = open_parent(root, path, &last);
    if (at < 0) {
        return errno;
    }
    int errnum = fstatat(at, last, ret, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
    close(at);
    return errnum;
}

bool folder_holds(int root, const char *path, struct tidings_str bytes)
{
    const char *last;
    struct stat st;
    char part[65536];
    size_t done = 0;
    int at = open_parent(root, path, &last);
    int fd = at < 0 ? -1 : openat(at, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool holds =
        fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes.len;
    while (holds && done < bytes.len) {
        ssize_t n = read(fd, part, sizeof(part));
        holds = n > 0 && (size_t)n <= bytes.len - done &&
                memcmp(part, bytes.ptr + done, (size_t)n) == 0;
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (at >= 0) {
        close(at);
    }
    return holds;
}

static int write_all(int fd, struct tidings_str bytes)
{
    while (bytes.len > 0) {
        ssize_t n = write(fd, bytes.ptr, bytes.len);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        n = n > 0 ? n : 0;
        bytes = tidings_strn(bytes.ptr + n, bytes.len - (size_t)n);
    }
    return 0;
}

int folder_write(int root, const char *path, struct tidings_str bytes, struct stat *ret)
{
    const char *last;
    int at = open_parent(root, path, &last);
    if (at < 0) {
        return errno;
    }
    unlinkat(root, TEMPORARY, 0); /* of one that was killed */
    int fd = openat(root, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int errnum = fd < 0 ? errno : write_all(fd, bytes);
    if (!errnum && (fstat(fd, ret) < 0 || renameat(root, TEMPORARY, at, last) < 0)) {
        errnum = errno;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (errnum) {
        unlinkat(root, TEMPORARY, 0);
    }
    close(at);
    return errnum;
}

int folder_make(int root, const char *path)
{
    const char *last;
    int at = open_parent(root, path, &last);
    if (at < 0) {
        return errno;
    }
    int errnum = mkdirat(at, last, 0777) < 0 ? errno : 0;
    close(at);
    return errnum;
}

int folder_remove(int root, const char *path, bool is_directory)
{
    const char *last;
    int at = open_parent(root, path, &last);
    if (at < 0) {
        return errno;
    }
    int errnum = unlinkat(at, last, is_directory ? AT_REMOVEDIR : 0) < 0 ? errno : 0;
    close(at);
    return errnum;
}
