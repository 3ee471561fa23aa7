/* SPDX-License-Identifier: MIT
 *
 * Writes and removes files below a directory, one openat(2) for each part of a path.
 */
#include "bin/sync/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bin/sync/local_name.h"

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

int folder_open_existing(const char *dir, int *ret_fd)
{
    char empty[] = "/tmp/tidings-sync-XXXXXX";
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && mkdtemp(empty)) {
        fd = open(empty, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rmdir(empty);
    }
    *ret_fd = fd;
    return fd < 0 ? errno : 0;
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

/* ---- a file in one step ---------------------------------------------------------------------- */

int folder_begin(int root, int *ret_fd)
{
    unlinkat(root, TEMPORARY, 0); /* of one that was killed */
    *ret_fd = openat(root, TEMPORARY, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return *ret_fd < 0 ? errno : 0;
}

int folder_add(int fd, struct tidings_str bytes)
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

/* Up to `len` bytes from the beginning of which `at` were read; 0 also when they cannot be. */
static size_t read_at(int fd, char *part, size_t len, off_t at)
{
    size_t done = 0;
    for (ssize_t n = 1; n > 0 && done<len; done += n> 0 ? (size_t)n : 0) {
        n = pread(fd, part + done, len - done, at + (off_t)done);
    }
    return done;
}

static bool same_bytes(int one, int other, off_t size)
{
    char a[32768], b[32768];
    for (off_t at = 0; at < size;) {
        size_t n = read_at(one, a, sizeof(a), at);
        if (n == 0 || read_at(other, b, sizeof(b), at) != n || memcmp(a, b, n) != 0) {
            return false;
        }
        at += (off_t)n;
    }
    return true;
}

bool folder_holds(int root, const char *path, int fd)
{
    const char *last;
    struct stat here, there;
    int at = open_parent(root, path, &last);
    int own = at < 0 ? -1 : openat(at, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool holds = own >= 0 && fstat(own, &here) == 0 && S_ISREG(here.st_mode) &&
                 fstat(fd, &there) == 0 && here.st_size == there.st_size &&
                 same_bytes(own, fd, here.st_size);
    if (own >= 0) {
        close(own);
    }
    if (at >= 0) {
        close(at);
    }
    return holds;
}

/* Is it still what was seen? */
static bool is_still(int at, const char *name, const struct stat *seen)
{
    struct stat st;
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == seen->st_ino &&
           st.st_size == seen->st_size && st.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == seen->st_mtim.tv_nsec;
}

/* Renames, unless something has that name. musl before 1.2.5 has no function for it. */
static int folder_rename_new(int root, int at, const char *name)
{
#ifdef RENAME_NOREPLACE
    return renameat2(root, TEMPORARY, at, name, RENAME_NOREPLACE);
#else
    return (int)syscall(SYS_renameat2, root, TEMPORARY, at, name, 1);
#endif
}

/* Where nothing is; 0 or an errno. */
static int put_new(int root, int at, const char *name)
{
    struct stat st;
    if (folder_rename_new(root, at, name) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
    /* The file system does not know how. */
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? EEXIST
           : renameat(root, TEMPORARY, at, name) < 0        ? errno
                                                            : 0;
}

int folder_put(int root, const char *path, int fd, const struct stat *seen)
{
    const char *last;
    int at = open_parent(root, path, &last);
    int errnum = at < 0 ? errno : 0;
    if (errnum == 0 && !seen) {
        errnum = put_new(root, at, last);
    } else if (errnum == 0) {
        errnum = !is_still(at, last, seen)                 ? EEXIST
                 : renameat(root, TEMPORARY, at, last) < 0 ? errno
                                                           : 0;
    }
    if (errnum) {
        unlinkat(root, TEMPORARY, 0);
    }
    close(fd);
    if (at >= 0) {
        close(at);
    }
    return errnum;
}

void folder_drop(int root, int fd)
{
    unlinkat(root, TEMPORARY, 0);
    close(fd);
}

/* ---- the rest -------------------------------------------------------------------------------- */

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
