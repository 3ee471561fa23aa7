/* SPDX-License-Identifier: MIT
 *
 * Reads a small file completely. It is opened non-blocking, so a pipe instead of a file does no
 * harm; its reported size is not trusted. Owner and mode are those of the open file, not of a name
 * that can be replaced.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

/* -------------------------------------------------------------------------------------------------
 * Opens configuration files, and provides paths for libraries that open files by name. Files from
 * the helper are copied into memory (memfd): Landlock would not allow reopening their descriptors
 * through /proc, but does so for a file in memory.
 */

static const struct file_opener *file_opener; /* set before threads start */

void file_set_opener(const struct file_opener *opener)
{
    file_opener = opener;
}

int file_open_log(const char *path)
{
    if (file_opener) {
        return file_opener->open_log(path);
    }
    int fd = open(path, FILE_LOG_FLAGS, FILE_LOG_MODE);
    return fd < 0 ? -errno : fd;
}

int confined_file_descriptor(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        return fd;
    }
    int errnum = errno;
    fd = errnum == EACCES && file_opener ? file_opener->open(path) : -errnum;
    return fd == -EPERM ? -errnum : fd; /* the helper does not know the path either */
}

static int copy(int from, int to)
{
    char piece[16384];
    size_t total = 0;
    ssize_t n;
    while ((n = read(from, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR) {
            continue;
        }
        total += n > 0 ? (size_t)n : 0;
        if (n < 0 || total > CONFINED_FILE_MAX || write(to, piece, (size_t)n) != n) {
            n = n < 0 ? -errno : total > CONFINED_FILE_MAX ? -EFBIG : -ENOSPC;
            break;
        }
    }
    explicit_bzero(piece, sizeof piece); /* it can contain keys */
    return n < 0 ? (int)n : 0;
}

int confined_file_open(struct confined_file *f, const char *path)
{
    *f = (struct confined_file){.fd = -1, .path = path};
    if (!file_opener) {
        return 0; /* the open reports the error */
    }
    int from = confined_file_descriptor(path);
    if (from < 0) {
        return from;
    }
    f->fd = memfd_create("tidings-file", MFD_CLOEXEC);
    int rc = f->fd < 0 ? -errno : copy(from, f->fd);
    close(from);
    if (rc < 0) {
        confined_file_close(f);
        return rc;
    }
    (void)snprintf(f->room, sizeof f->room, "/proc/self/fd/%d", f->fd);
    f->path = f->room;
    return 0;
}

void confined_file_close(struct confined_file *f)
{
    if (f->fd > 0) {
        close(f->fd);
    }
    f->fd = -1;
}

/* ---------------------------------------------------------------------------------------------- */

#define PIECE 4096u

static int check_owner(const struct stat *st, struct tidings_error *err)
{
    if (st->st_uid == geteuid() || st->st_uid == 0) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_DENIED, "it belongs to another user (number %u)",
                        (unsigned)st->st_uid);
}

int whole_file_check(const struct stat *st, enum tidings_file_from from, struct tidings_error *err)
{
    bool is_found = from != TIDINGS_FILE_NAMED;
    unsigned mode = st->st_mode & 07777;
    if (is_found && check_owner(st, err) < 0) {
        return TIDINGS_E_DENIED;
    }
    if (mode & S_IWOTH) {
        return tidings_fail(err, TIDINGS_E_DENIED, "any user can write it (mode %04o); chmod o-w",
                            mode);
    }
    if (is_found && (mode & S_IWGRP) && st->st_gid != st->st_uid) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "its group (number %u) can write it (mode %04o); chmod g-w",
                            (unsigned)st->st_gid, mode);
    }
    return 0;
}

/* Checks the owner of the link itself. The target is checked when it is open. */
static int check_link(const char *path, struct tidings_error *err)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? check_owner(&st, err) : 0;
}

static int whole_file_read_all(int fd, size_t max, struct buf *out, struct tidings_error *err)
{
    size_t before = out->len;
    for (;;) {
        if (buf_reserve(out, PIECE) < 0) {
            return tidings_fail(err, out->failed, "%s",
                                out->failed == TIDINGS_E_NOMEM ? "out of memory" : "too large");
        }
        ssize_t n = read(fd, out->ptr + out->len, PIECE);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_errno(err, errno, "read");
        }
        if (n == 0) {
            return 0;
        }
        if (out->len - before + (size_t)n > max) {
            return tidings_fail(err, TIDINGS_E_LIMIT, "larger than %zu bytes", max);
        }
        out->len += (size_t)n;
    }
}

static int read_checked(const char *path, enum tidings_file_from from, size_t max, struct buf *out,
                        struct tidings_error *err)
{
    struct stat st;
    int rc = from == TIDINGS_FILE_NAMED ? 0 : check_link(path, err);
    if (rc < 0) {
        return error_wrap(err, rc, "'%s'", path);
    }
    int fd = confined_file_descriptor(path);
    if (fd < 0) {
        return error_errno(err, -fd, "open '%s'", path);
    }
    rc = fstat(fd, &st) < 0 ? error_errno(err, errno, "stat") : 0;
    if (rc == 0 && !S_ISREG(st.st_mode)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "not a regular file");
    }
    if (rc == 0) {
        rc = whole_file_check(&st, from, err);
    }
    if (rc == 0) {
        rc = whole_file_read_all(fd, max, out, err);
    }
    close(fd);
    return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}

int whole_file_read(const char *path, size_t max, struct buf *out, struct tidings_error *err)
{
    return read_checked(path, TIDINGS_FILE_NAMED, max, out, err);
}

int whole_file_read_found(const char *path, size_t max, struct buf *out, struct tidings_error *err)
{
    return read_checked(path, TIDINGS_FILE_FOUND, max, out, err);
}

char *tidings_file_read(const char *path, enum tidings_file_from from, size_t max, size_t *ret_len,
                        struct tidings_error *err)
{
    struct buf out;
    buf_init_secret(&out, max + PIECE + 1); /* the file can contain secrets */
    int rc = read_checked(path, from, max, &out, err);
    if (rc == 0 && buf_reserve(&out, 1) < 0) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "'%s': out of memory", path);
    }
    if (rc < 0) {
        buf_deinit(&out);
        return NULL;
    }
    out.ptr[out.len] = '\0';
    return buf_detach(&out, ret_len);
}
