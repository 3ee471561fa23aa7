/* SPDX-License-Identifier: MIT
 *
 * Finding and reading the bytes of one open file.
 *
 * Lines are found by looking through the file in chunks, forwards from its beginning or backwards
 * from its end; what is given in the end is read once more, in one piece.
 */
#include "provider/file_content.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/byte_range.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "provider/file_private.h"

#define CHUNK 262144

int64_t file_read_bytes(const struct file_part *part, char *bytes, struct tidings_read *read,
                        struct tidings_error *err)
{
    int64_t got = 0, want = part->to - part->from;
    while (got < want) {
        if (tidings_read_cancelled(read)) {
            return tidings_fail(err, TIDINGS_E_CANCELLED, "cancelled");
        }
        size_t room = (size_t)(want - got < CHUNK ? want - got : CHUNK);
        ssize_t n = pread(part->fd, bytes + got, room, part->from + got);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_errno(err, errno, "read");
        }
        if (n == 0) {
            break;
        }
        got += n;
    }
    return got;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A file being looked through. */
struct scan {
    const struct file_part *part;
    struct tidings_read *read;
    char *chunk;
    struct tidings_error *err;
};

/* The bytes [from, to), at most a chunk. The count, or a negative code. */
static int64_t scan_read(const struct scan *s, int64_t from, int64_t to)
{
    struct file_part piece = {.fd = s->part->fd, .from = from, .to = to};
    return file_read_bytes(&piece, s->chunk, s->read, s->err);
}

/* Move *at behind *lines lines, or to the end of the file, not beyond `limit`. *lines becomes how
 * many there were too few. */
static int skip_lines(const struct scan *s, int64_t *at, int64_t *lines, int64_t limit)
{
    char last = '\n';
    while (*lines > 0 && *at < s->part->size) {
        if (*at >= limit) {
            return tidings_fail(s->err, TIDINGS_E_LIMIT,
                                "the lines lie further apart than is looked through or read at "
                                "once; ask for bytes, or for the last lines");
        }
        int64_t end = *at + CHUNK < s->part->size ? *at + CHUNK : s->part->size;
        int64_t n = scan_read(s, *at, end);
        if (n <= 0) {
            return (int)n; /* failed, or the file has become shorter */
        }
        size_t passed = byte_range_skip_lines(tidings_strn(s->chunk, (size_t)n), lines);
        *at += (int64_t)passed;
        last = s->chunk[passed - 1];
    }
    *lines -= *lines > 0 && last != '\n'; /* what follows the last line feed is a line */
    return 0;
}

static int find_forwards(const struct scan *s, const struct tidings_range *range, int64_t cap,
                         struct file_part *ret)
{
    int64_t at = 0, lines = range->from;
    int rc = skip_lines(s, &at, &lines, FILE_SCAN_MAX);
    if (rc < 0) {
        return rc;
    }
    if (lines > 0) {
        return tidings_fail(s->err, TIDINGS_E_INVALID,
                            "the range begins at line %lld, there are %lld", (long long)range->from,
                            (long long)(range->from - lines));
    }
    ret->from = at;
    ret->to = ret->size;
    if (range->to >= 0) {
        lines = range->to - range->from;
        rc = skip_lines(s, &at, &lines, at + cap + 1);
        ret->to = at;
    }
    return rc;
}

static int find_backwards(const struct scan *s, int64_t lines, int64_t cap, struct file_part *ret)
{
    int64_t at = ret->size;
    ret->from = 0;
    ret->to = ret->size;
    while (at > 0) {
        if (ret->size - at > cap) {
            return 0; /* too much already: the caller says so */
        }
        int64_t begin = at > CHUNK ? at - CHUNK : 0;
        int64_t n = scan_read(s, begin, at);
        if (n < 0) {
            return (int)n;
        }
        struct tidings_str piece = {s->chunk, (size_t)n};
        if (at == ret->size && n > 0 && piece.ptr[n - 1] == '\n') {
            piece.len--; /* it ends the last line and begins none */
        }
        size_t found = byte_range_back_lines(piece, &lines);
        if (lines == 0) {
            ret->from = begin + (int64_t)found;
            return 0;
        }
        at = begin;
    }
    return 0;
}

int file_find_range(struct file_part *part, const struct tidings_range *range, int64_t cap,
                    struct tidings_read *read, struct tidings_error *err)
{
    int rc;
    if (range->unit == TIDINGS_UNIT_BYTES) {
        rc = byte_range_clip(range, part->size, &part->from, &part->to, err);
    } else {
        size_t chunk = (size_t)(part->size < CHUNK ? part->size : CHUNK);
        struct scan s = {.part = part, .read = read, .chunk = mem_alloc(chunk + 1), .err = err};
        struct file_part found = *part;
        rc = !s.chunk          ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
             : range->last > 0 ? find_backwards(&s, range->last, cap, &found)
                               : find_forwards(&s, range, cap, &found);
        mem_free(s.chunk);
        *part = found;
    }
    if (rc == 0 && part->to - part->from > cap) {
        rc = tidings_fail(err, TIDINGS_E_LIMIT,
                          "the range has more than the %lld bytes that are read at once; ask for "
                          "less",
                          (long long)cap);
    }
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool may_read(const void *read, struct tidings_str uri)
{
    return tidings_read_may(read, uri);
}

struct file_judge file_read_judge(const struct tidings_read *read)
{
    return (struct file_judge){may_read, read};
}

int file_open_checked(const struct file_provider *f, const char *path, struct tidings_str uri,
                      struct file_info *info, const struct file_judge *judge,
                      struct tidings_error *err)
{
    struct buf target;
    buf_init(&target, FILE_WHERE_SIZE + 1);
    int fd = file_open_beneath(&f->root, f->root.fd, path, O_RDONLY, &target);
    if (fd >= 0 && !file_judge_allows(f, judge, &target, false)) {
        close(fd);
        fd = -ENOENT;
    }
    buf_deinit(&target);
    if (fd < 0) {
        return file_refuse(err, fd, uri);
    }
    /* It may have been replaced since it was looked at. */
    int rc = 0;
    if (fstat(fd, &info->st) < 0) {
        rc = error_errno(err, errno, "'%.*s'", STR_ARG(uri));
    } else if (file_kind(info) != FILE_REGULAR) {
        rc =
            tidings_fail(err, TIDINGS_E_DENIED, "'%.*s' is no regular file any more", STR_ARG(uri));
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

struct tidings_str file_last_name(struct tidings_str path)
{
    const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? str_skip(path, (size_t)(slash - path.ptr) + 1) : path;
}
