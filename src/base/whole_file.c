/* SPDX-License-Identifier: MIT
 *
 * Reading a small file whole. It is opened without blocking, so that a pipe in the place of a file
 * does no harm; its size is not believed. Owner and mode are those of what was opened, not of a
 * name that can be exchanged.
 */
#include "base/whole_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/confined_file.h"
#include "base/error.h"

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
        return tidings_fail(err, TIDINGS_E_DENIED, "everybody can write it (mode %04o); chmod o-w",
                            mode);
    }
    if (is_found && (mode & S_IWGRP) && st->st_gid != st->st_uid) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "its group (number %u) can write it (mode %04o); chmod g-w",
                            (unsigned)st->st_gid, mode);
    }
    return 0;
}

/* A link was put there by somebody, too. What it leads to is looked at when it is open. */
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
    buf_init_secret(&out, max + PIECE + 1); /* it may be one */
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
