/* SPDX-License-Identifier: MIT
 * Open files that are read in pieces. The process counts them.
 */
#include "provider/file_pieces.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

#define FILE_PIECES_LEAST 8u

static size_t file_pieces_count; /* atomic; per process, like the limit of descriptors */

struct file_pieces {
    int fd;
    struct stat st;
};

static int file_pieces_read(void *user, int64_t offset, char *bytes, size_t len,
                            struct tidings_error *err)
{
    const struct file_pieces *pieces = user;
    while (len > 0) {
        ssize_t n = pread(pieces->fd, bytes, len, offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? error_errno(err, errno, "read")
                         : tidings_fail(err, TIDINGS_E_CONFLICT, "it has become shorter");
        }
        bytes += n;
        offset += n;
        len -= (size_t)n;
    }
    return 0;
}

static bool file_pieces_changed(void *user)
{
    struct file_pieces *pieces = user;
    struct stat before = pieces->st;
    return fstat(pieces->fd, &pieces->st) < 0 || before.st_size != pieces->st.st_size ||
           before.st_mtim.tv_sec != pieces->st.st_mtim.tv_sec ||
           before.st_mtim.tv_nsec != pieces->st.st_mtim.tv_nsec ||
           before.st_ctim.tv_sec != pieces->st.st_ctim.tv_sec ||
           before.st_ctim.tv_nsec != pieces->st.st_ctim.tv_nsec;
}

static void file_pieces_close(void *user)
{
    struct file_pieces *pieces = user;
    close(pieces->fd);
    mem_free(pieces);
    __atomic_fetch_sub(&file_pieces_count, 1, __ATOMIC_RELAXED);
}

/* Asked each time, since prlimit may change it. */
static size_t file_pieces_most(void)
{
    struct rlimit limit;
    rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / FILE_PIECES_SHARE : 0;
    return most > FILE_PIECES_LEAST ? (size_t)most : FILE_PIECES_LEAST;
}

int file_pieces_open(struct tidings_pieces *ret, int fd, const struct stat *st)
{
    if (__atomic_fetch_add(&file_pieces_count, 1, __ATOMIC_RELAXED) >= file_pieces_most()) {
        __atomic_fetch_sub(&file_pieces_count, 1, __ATOMIC_RELAXED);
        return TIDINGS_E_BUSY;
    }
    struct file_pieces *pieces = mem_alloc(sizeof *pieces);
    if (!pieces) {
        __atomic_fetch_sub(&file_pieces_count, 1, __ATOMIC_RELAXED);
        return TIDINGS_E_NOMEM;
    }
    *pieces = (struct file_pieces){.fd = fd, .st = *st};
    *ret = (struct tidings_pieces){.user = pieces,
                                   .size = st->st_size,
                                   .read = file_pieces_read,
                                   .changed = file_pieces_changed,
                                   .close = file_pieces_close};
    return 0;
}
