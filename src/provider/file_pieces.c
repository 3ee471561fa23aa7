/* SPDX-License-Identifier: MIT
 * Open files that are read in pieces. The process counts them.
 */
#include "provider/file_pieces.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"

#define FILE_PIECES_LEAST 8u

static size_t file_pieces_count; /* atomic; per process, like the limit of descriptors */

struct file_pieces {
    int fd;
    struct stat st;
    struct pool *readers;
    /* That a reader reads: */
    struct tidings_piece *piece;
    char *bytes;
    size_t len;
    int64_t offset;
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

/* Copies what the page cache has of the next bytes. Not every file system can tell. */
static size_t file_pieces_cached(const struct file_pieces *pieces, int64_t offset, char *bytes,
                                 size_t len)
{
    size_t got = 0;
    while (got < len) {
        struct iovec rest = {bytes + got, len - got};
        ssize_t n = preadv2(pieces->fd, &rest, 1, offset + (int64_t)got, RWF_NOWAIT);
        if (n <= 0) {
            break;
        }
        got += (size_t)n;
    }
    return got;
}

static void file_pieces_run(void *job)
{
    const struct file_pieces *pieces = job;
    struct tidings_error err;
    int rc = file_pieces_read(job, pieces->offset, pieces->bytes, pieces->len, &err);
    tidings_piece_done(pieces->piece, rc, &err);
}

/* A file system that stalls holds a reader up, not the worker. */
static void file_pieces_fetch(void *user, int64_t offset, char *bytes, size_t len,
                              struct tidings_piece *piece)
{
    struct file_pieces *pieces = user;
    size_t got = file_pieces_cached(pieces, offset, bytes, len);
    if (got == len) {
        tidings_piece_done(piece, 0, NULL);
        return;
    }
    pieces->piece = piece;
    pieces->bytes = bytes + got;
    pieces->len = len - got;
    pieces->offset = offset + (int64_t)got;
    int rc = pool_submit(pieces->readers, file_pieces_run, pieces);
    if (rc < 0) {
        tidings_piece_done(piece, rc, NULL);
    }
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

int file_pieces_open(struct tidings_pieces *ret, int fd, const struct stat *st,
                     struct pool *readers)
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
    *pieces = (struct file_pieces){.fd = fd, .st = *st, .readers = readers};
    *ret = (struct tidings_pieces){.user = pieces,
                                   .size = st->st_size,
                                   .read = file_pieces_read,
                                   .changed = file_pieces_changed,
                                   .fetch = file_pieces_fetch,
                                   .close = file_pieces_close};
    return 0;
}
