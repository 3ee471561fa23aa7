/* SPDX-License-Identifier: MIT
 *
 * Opened without blocking, so that a pipe in the place of a file does no harm; its size is not
 * believed.
 */
#include "base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define PIECE 4096u

static int read_all(int fd, size_t max, struct buf *out, struct tidings_error *err)
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

int whole_file_read(const char *path, size_t max, struct buf *out, struct tidings_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return error_errno(err, errno, "open '%s'", path);
    }
    struct stat st;
    int rc = fstat(fd, &st) < 0 ? error_errno(err, errno, "stat") : 0;
    if (rc == 0 && !S_ISREG(st.st_mode)) {
        rc = tidings_fail(err, TIDINGS_E_INVALID, "not a regular file");
    }
    if (rc == 0) {
        rc = read_all(fd, max, out, err);
    }
    close(fd);
    return rc < 0 ? error_wrap(err, rc, "'%s'", path) : 0;
}
