/* SPDX-License-Identifier: MIT
 *
 * The mark of commits: fixed size, little-endian, with a sum at its end. One pwrite(2) of less than
 * a sector replaces it, so neither a kill nor a power cut leaves half of one.
 */
#include "store/commit_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

#define MAGIC "tidimrk1"
#define SEED UINT64_C(0x74696469)
#define SUMMED (COMMIT_MARK_SIZE - 8)

struct commit_marker {
    int fd, log; /* -1: none */
    struct commit_mark mark;
    char path[PATH_MAX];
};

/* ---- the bytes ------------------------------------------------------------------------------- */

static void commit_mark_put(unsigned char *out, uint64_t n, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        out[i] = (unsigned char)(n >> 8 * i);
    }
}

static uint64_t commit_mark_get(const unsigned char *p, size_t size)
{
    uint64_t n = 0;
    for (size_t i = 0; i < size; i++) {
        n |= (uint64_t)p[i] << 8 * i;
    }
    return n;
}

static uint64_t commit_mark_sum(const unsigned char *bytes)
{
    return str_hash(tidings_strn((const char *)bytes, SUMMED), SEED);
}

void commit_mark_encode(const struct commit_mark *mark, unsigned char out[COMMIT_MARK_SIZE])
{
    memcpy(out, MAGIC, 8);
    commit_mark_put(out + 8, mark->epoch, 8);
    commit_mark_put(out + 16, mark->position, 8);
    commit_mark_put(out + 24, mark->frames, 8);
    commit_mark_put(out + 32, mark->log.sequence, 4);
    commit_mark_put(out + 36, mark->log.salt[0], 4);
    commit_mark_put(out + 40, mark->log.salt[1], 4);
    commit_mark_put(out + 44, 0, 4);
    commit_mark_put(out + SUMMED, commit_mark_sum(out), 8);
}

bool commit_mark_decode(const unsigned char *bytes, size_t size, struct commit_mark *ret)
{
    if (size != COMMIT_MARK_SIZE || memcmp(bytes, MAGIC, 8) != 0 ||
        commit_mark_get(bytes + SUMMED, 8) != commit_mark_sum(bytes)) {
        return false;
    }
    *ret = (struct commit_mark){.epoch = commit_mark_get(bytes + 8, 8),
                                .position = commit_mark_get(bytes + 16, 8),
                                .frames = commit_mark_get(bytes + 24, 8)};
    ret->log.sequence = (uint32_t)commit_mark_get(bytes + 32, 4);
    ret->log.salt[0] = (uint32_t)commit_mark_get(bytes + 36, 4);
    ret->log.salt[1] = (uint32_t)commit_mark_get(bytes + 40, 4);
    return true;
}

bool commit_mark_read(const char *path, struct commit_mark *ret)
{
    unsigned char bytes[COMMIT_MARK_SIZE + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    if (fd >= 0) {
        close(fd);
    }
    return n > 0 && commit_mark_decode(bytes, (size_t)n, ret);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int commit_marker_write(struct commit_marker *m)
{
    unsigned char bytes[COMMIT_MARK_SIZE];
    commit_mark_encode(&m->mark, bytes);
    ssize_t n = pwrite(m->fd, bytes, sizeof bytes, 0);
    return n == (ssize_t)sizeof bytes ? 0 : n < 0 ? -errno : -ENOSPC;
}

/* Makes the name survive a power cut. */
static int commit_marker_sync_name(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                   slash ? path : ".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : -errno;
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

static int commit_marker_make(struct commit_marker *m, const char *log_path)
{
    m->fd = open(m->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    m->log = m->fd >= 0 && log_path ? open(log_path, O_RDONLY | O_CLOEXEC) : -1;
    if (m->fd < 0 || (log_path && m->log < 0)) {
        return -errno;
    }
    struct stat st; /* root gives it to the owner of the store, as SQLite does the log */
    if (m->log >= 0 && geteuid() == 0 && fstat(m->log, &st) == 0) {
        (void)!fchown(m->fd, st.st_uid, st.st_gid);
    }
    int rc = commit_marker_write(m);
    if (rc == 0 && (ftruncate(m->fd, COMMIT_MARK_SIZE) < 0 || fsync(m->fd) < 0)) {
        rc = -errno;
    }
    return rc == 0 ? commit_marker_sync_name(m->path) : rc;
}

int commit_marker_open(const char *path, const char *log_path, const struct commit_mark *mark,
                       struct commit_marker **ret, struct tidings_error *err)
{
    struct commit_marker *m = mem_zalloc(sizeof(*m));
    if (!m) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    m->fd = m->log = -1;
    m->mark = *mark;
    bool fits = strlen(path) < sizeof m->path;
    if (fits) {
        memcpy(m->path, path, strlen(path) + 1);
    }
    int rc = fits ? commit_marker_make(m, log_path) : -ENAMETOOLONG;
    if (rc < 0) {
        commit_marker_close(m, m->fd >= 0);
        return error_errno(err, -rc, "write '%.200s'", path);
    }
    *ret = m;
    return 0;
}

void commit_marker_put(struct commit_marker *m, uint64_t position, uint64_t frames)
{
    unsigned char header[WAL_HEADER_SIZE];
    struct wal_identity log;
    if (!m || pread(m->log, header, sizeof header, 0) != (ssize_t)sizeof header ||
        !wal_identify(header, &log)) {
        return;
    }
    m->mark.position = position;
    m->mark.frames = frames;
    m->mark.log = log;
    (void)commit_marker_write(m);
}

void commit_marker_close(struct commit_marker *m, bool removes)
{
    if (!m) {
        return;
    }
    if (removes) {
        (void)unlink(m->path);
    }
    if (m->fd >= 0) {
        close(m->fd);
    }
    if (m->log >= 0) {
        close(m->log);
    }
    mem_free(m);
}
