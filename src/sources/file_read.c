/* SPDX-License-Identifier: MIT
 *
 * Reading a file, whole or a part of it, and directories.
 *
 * The worker reads up to SMALL bytes; the pool reads larger files and directories. A large file is
 * read again while it is sent. For a growing file, the read returns the bytes that it had when it
 * was opened, with the etag of that moment; the following change carries another etag. If the
 * client already has the etag, the read costs one stat.
 */
#include "sources/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <tidings/provider.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "formats/http_fields.h"
#include "sources/file_internal.h"
#include "sources/file_list.h"
#include "sources/file_path.h"

/* -------------------------------------------------------------------------------------------------
 * Reads the bytes of one open file: finds the bytes of a range, and reads them. Blocking; small
 * files are read on the thread of the request, large ones on the pool.
 */

struct file_provider;

/* The search for the beginning of a line covers at most this many bytes, counted from the first.
 * That takes a tenth of a second, which any client may use. */
#define FILE_SCAN_MAX (INT64_C(256) << 20)

/* Some bytes of an open file. */
struct file_chunk {
    int fd;       /* borrowed */
    int64_t size; /* of the file */
    int64_t from, to;
};

/* -------------------------------------------------------------------------------------------------
 * Finding and reading the bytes of one open file.
 *
 * Lines are found in chunks, forwards from the beginning of the file or backwards from its end. The
 * result is then read again, in one piece.
 */

#define CHUNK 262144

/* Reads [from, to) into `bytes`; fewer at the end of the file. Returns the count, or a negative
 * code; stops if the read is canceled. */
static int64_t file_read_bytes(const struct file_chunk *part, char *bytes,
                               struct tidings_read *read, struct tidings_error *err)
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

/* A file that is searched. */
struct scan {
    const struct file_chunk *part;
    struct tidings_read *read;
    char *chunk;
    struct tidings_error *err;
};

/* Reads the bytes [from, to), at most a chunk. Returns the count, or a negative code. */
static int64_t scan_read(const struct scan *s, int64_t from, int64_t to)
{
    struct file_chunk piece = {.fd = s->part->fd, .from = from, .to = to};
    return file_read_bytes(&piece, s->chunk, s->read, s->err);
}

/* Advances *at by *lines lines, or to the end of the file, but not beyond `limit`. *lines becomes
 * the number of missing lines. */
static int skip_lines(const struct scan *s, int64_t *at, int64_t *lines, int64_t limit)
{
    char last = '\n';
    while (*lines > 0 && *at < s->part->size) {
        if (*at >= limit) {
            return tidings_fail(s->err, TIDINGS_E_LIMIT,
                                "the lines are further apart than one read can search; ask for "
                                "bytes, or for the last lines");
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
    *lines -= *lines > 0 && last != '\n'; /* bytes after the last line feed are a line */
    return 0;
}

static int find_forwards(const struct scan *s, const struct tidings_range *range, int64_t cap,
                         struct file_chunk *ret)
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

static int find_backwards(const struct scan *s, int64_t lines, int64_t cap, struct file_chunk *ret)
{
    int64_t at = ret->size;
    ret->from = 0;
    ret->to = ret->size;
    while (at > 0) {
        if (ret->size - at > cap) {
            return 0; /* already too much: the caller reports it */
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

/* Finds from and to, which must not be more than `cap` bytes apart. Only a range of lines reads the
 * file: from the beginning, or for the last lines from the end, and no further than necessary.
 * TIDINGS_E_INVALID if it begins after the end, TIDINGS_E_LIMIT. */
static int file_find_range(struct file_chunk *part, const struct tidings_range *range, int64_t cap,
                           struct tidings_read *read, struct tidings_error *err)
{
    int rc;
    if (range->unit == TIDINGS_UNIT_BYTES) {
        rc = byte_range_clip(range, part->size, &part->from, &part->to, err);
    } else {
        size_t chunk = (size_t)(part->size < CHUNK ? part->size : CHUNK);
        struct scan s = {.part = part, .read = read, .chunk = mem_alloc(chunk + 1), .err = err};
        struct file_chunk found = *part;
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

/* The policy that checks whether the client may read the target of a link. */
static struct file_policy file_read_policy(const struct tidings_read *read)
{
    return (struct file_policy){may_read, read};
}

/* Opens the regular file at `path` with a stat first, so that no other file type is ever opened.
 * Returns a descriptor, or a negative code with an error about `uri`. The opened file is checked
 * again, because a link may have been switched since the stat. */
static int file_open_checked(const struct file_provider *f, const char *path,
                             struct tidings_str uri, struct file_info *info,
                             const struct file_policy *policy, struct tidings_error *err)
{
    struct buf target;
    buf_init(&target, FILE_WHERE_SIZE + 1);
    int fd = file_open_beneath(&f->root, f->root.fd, path, O_RDONLY, &target);
    if (fd >= 0 && !file_policy_allows(f, policy, &target, false)) {
        close(fd);
        fd = -ENOENT;
    }
    buf_deinit(&target);
    if (fd < 0) {
        return file_refuse(err, fd, uri);
    }
    /* It may have been replaced since the stat. */
    int rc = 0;
    if (fstat(fd, &info->st) < 0) {
        rc = error_errno(err, errno, "'%.*s'", STR_ARG(uri));
    } else if (file_kind(info) != FILE_REGULAR) {
        rc =
            tidings_fail(err, TIDINGS_E_DENIED, "'%.*s' is no longer a regular file", STR_ARG(uri));
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

/* Returns the last segment of a path. */
static struct tidings_str file_last_name(struct tidings_str path)
{
    const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? str_skip(path, (size_t)(slash - path.ptr) + 1) : path;
}

/* -------------------------------------------------------------------------------------------------
 * Reading a directory. The first element is the directory itself, whose text is the list of its
 * names. Its children follow in the order of their URIs, each with metadata: files with their
 * content, directories with their names. Children that do not fit are omitted; a listing has all of
 * them.
 *
 * It goes one level deep and follows no link twice, so a cycle of links cannot trap it.
 */

#define MAX_NAMES 10000u
#define MAX_CHILDREN 64u
#define CHILDREN_BYTES 262144u

struct directory {
    const struct file_provider *f;
    struct tidings_read *read;
    struct tidings_str path;
    struct buf text;     /* the names */
    struct buf uri;      /* of the directory, and … */
    bool asks;           /* … whether each name needs an access check */
    struct buf children; /* of the first: "d" or "f", the raw name, NUL */
    size_t name_count, child_count, child_max;
    size_t room; /* for the content of children */
};

/* Adds a name. Names that are not UTF-8, or hold a line break, are percent-encoded. */
static bool add_name(void *user, struct tidings_str name, struct tidings_str segment)
{
    struct directory *d = user;
    bool is_directory = str_ends(segment, STR("/"));
    if (d->asks) {
        size_t len = d->uri.len;
        buf_puts(&d->uri, segment);
        bool may = !d->uri.failed && tidings_read_shows(d->read, buf_str(&d->uri));
        d->uri.len = len;
        if (!may) {
            return true;
        }
    }
    bool is_text = str_is_utf8(name) && str_find(name, '\n') < 0;
    buf_puts(&d->text, is_text ? name : segment);
    if (is_text && is_directory) {
        buf_putc(&d->text, '/');
    }
    buf_putc(&d->text, '\n');
    if (d->child_count < d->child_max) {
        d->child_count++;
        buf_putc(&d->children, is_directory ? 'd' : 'f');
        buf_puts(&d->children, name);
        buf_putc(&d->children, '\0');
    }
    return ++d->name_count < MAX_NAMES;
}

static void directory_init(struct directory *d, size_t max_text)
{
    buf_init(&d->uri, d->f->root.prefix_len + 2 * FILE_MAX_ENCODED);
    file_path_to_uri(&d->f->root, d->path, true, &d->uri);
    d->asks = !tidings_read_shows(d->read, STR_EMPTY);
    buf_init(&d->text, max_text);
    buf_init(&d->children, (FILE_MAX_PATH + 2) * (MAX_CHILDREN + 1));
}

static void directory_deinit(struct directory *d)
{
    buf_deinit(&d->uri);
    buf_deinit(&d->text);
    buf_deinit(&d->children);
}

static bool file_directory_may_show(const void *read, struct tidings_str uri)
{
    return tidings_read_shows(read, uri);
}

static int read_names(struct directory *d, struct tidings_error *err)
{
    const struct file_policy policy = {file_directory_may_show, d->read};
    int rc = file_each_name(d->f, d->path, &policy, add_name, d, err);
    if (rc == 0 && d->text.failed) {
        rc = tidings_fail(err, d->text.failed, "too many names");
    }
    return rc;
}

/* Returns the element of a directory: its names. */
static int give_names(struct directory *d, const struct file_info *info, struct tidings_error *err)
{
    struct tidings_resource row;
    char etag[FILE_ETAG_SIZE];
    file_describe(d->f, buf_str(&d->uri), file_last_name(d->path), info, etag, &row);
    return d->uri.failed ? tidings_fail(err, d->uri.failed, "the URI is too long")
                         : tidings_read_text(d->read, &row, buf_str(&d->text), err);
}

/* ---- children -------------------------------------------------------------------------------- */

static int give_subdirectory(struct directory *parent, struct tidings_str path,
                             const struct file_info *info, struct tidings_error *err)
{
    struct directory d = {.f = parent->f, .read = parent->read, .path = path};
    directory_init(&d, parent->room);
    int rc = read_names(&d, err);
    if (rc == 0) {
        parent->room -= d.text.len;
        rc = give_names(&d, info, err);
    } else if (rc != TIDINGS_E_NOMEM && rc != TIDINGS_E_BUSY) {
        rc = 0;
    }
    directory_deinit(&d);
    return rc;
}

static int give_file(struct directory *d, struct tidings_str path, struct tidings_str uri,
                     struct file_info *info, struct tidings_error *err)
{
    struct file_policy policy = file_read_policy(d->read);
    int fd = file_open_checked(d->f, path.ptr, uri, info, &policy, err);
    if (fd == TIDINGS_E_BUSY || fd == TIDINGS_E_NOMEM) {
        return fd;
    }
    if (fd < 0 || (size_t)info->st.st_size > d->room) {
        if (fd >= 0) {
            close(fd);
        }
        return 0;
    }
    struct file_chunk part = {.fd = fd, .to = info->st.st_size};
    int rc = tidings_read_reserve(d->read, (size_t)part.to, err);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    char *bytes = tidings_alloc((size_t)part.to + 1);
    int64_t got = bytes ? file_read_bytes(&part, bytes, d->read, NULL) : 0;
    close(fd);
    if (!bytes || got < 0) {
        tidings_free(bytes);
        return bytes ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    struct tidings_resource row;
    char etag[FILE_ETAG_SIZE];
    if (!file_describe(d->f, uri, file_last_name(path), info, etag, &row) &&
        str_is_utf8(tidings_strn(bytes, (size_t)got))) {
        row.mime_type = STR("text/plain");
    }
    d->room -= (size_t)got;
    return tidings_read_take(d->read, &row, bytes, (size_t)got, err);
}

/* A deleted or hidden child is omitted. */
static int file_directory_give_child(struct directory *d, const char *record,
                                     struct tidings_error *err)
{
    struct file_info info;
    struct buf path, uri, target;
    struct file_policy policy = file_read_policy(d->read);
    int rc = 0, status = 0;
    buf_init(&path, FILE_MAX_PATH);
    buf_init(&target, FILE_WHERE_SIZE + 1);
    buf_init(&uri, d->f->root.prefix_len + FILE_MAX_ENCODED);
    buf_puts(&path, d->path);
    if (path.len > 0) {
        buf_putc(&path, '/');
    }
    buf_puts(&path, tidings_str(record + 1));
    file_path_to_uri(&d->f->root, buf_str(&path), record[0] == 'd', &uri);
    if (path.failed == TIDINGS_E_NOMEM || uri.failed == TIDINGS_E_NOMEM) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (!path.failed && !uri.failed &&
               tidings_read_wants(d->read, buf_str(&uri), STR_EMPTY) &&
               (status = file_stat(&d->f->root, path.ptr, &info, &target)) == 0 &&
               file_policy_allows(d->f, &policy, &target, record[0] == 'd')) {
        if (file_kind(&info) == FILE_DIRECTORY && record[0] == 'd') {
            rc = give_subdirectory(d, buf_str(&path), &info, err);
        } else if (file_kind(&info) == FILE_REGULAR && record[0] == 'f') {
            rc = give_file(d, buf_str(&path), buf_str(&uri), &info, err);
        }
    }
    if (file_is_short(status)) {
        rc = file_refuse(err, status, buf_str(&uri));
    }
    buf_deinit(&target);
    buf_deinit(&path);
    buf_deinit(&uri);
    return rc;
}

/* Reads a directory: its names and, as far as there is room, its children. On the pool. Finishes
 * the read. `path` names the directory. */
static void file_read_directory(const struct file_provider *f, struct tidings_read *read,
                                struct tidings_str path, const struct file_info *info)
{
    struct tidings_error err = {0};
    size_t most = tidings_read_max_bytes(read);
    struct directory d = {.f = f, .read = read, .path = path, .child_max = MAX_CHILDREN};
    directory_init(&d, most);
    int rc = read_names(&d, &err);
    if (rc == 0) {
        rc = give_names(&d, info, &err);
    }
    if (rc == 0) {
        size_t left = most - d.text.len;
        size_t cap = (size_t)f->settings.max_read;
        d.room = left < CHILDREN_BYTES ? left : CHILDREN_BYTES;
        d.room = cap < d.room ? cap : d.room;
    }
    const char *record = d.children.ptr;
    for (size_t i = 0; rc == 0 && i < d.child_count && !d.children.failed; i++) {
        rc = tidings_read_cancelled(read) ? tidings_fail(&err, TIDINGS_E_CANCELLED, "cancelled")
                                          : file_directory_give_child(&d, record, &err);
        record += strlen(record) + 1;
    }
    directory_deinit(&d);
    tidings_read_done(read, rc, &err);
}

/* -------------------------------------------------------------------------------------------------
 * Open files that are read in pieces. The process counts them.
 */

#define FILE_PIECES_LEAST 8u

#ifndef RWF_NOWAIT /* musl before 1.2.5 */
#define RWF_NOWAIT 8
static ssize_t preadv2(int fd, const struct iovec *parts, int count, int64_t offset, int flags)
{
    return syscall(SYS_preadv2, fd, parts, count, (long)offset, (long)(offset >> 32), flags);
}
#endif

static size_t file_pieces_count; /* atomic; per process, like the limit of descriptors */

struct file_pieces {
    int fd;
    struct stat st;
    struct pool *readers;
    /* The request of a reader: */
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

/* Copies the bytes that are in the page cache. Not every file system supports this. */
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

/* A stalled file system blocks a reader, not the worker. */
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

/* Read each time, because prlimit may change it. */
static size_t file_pieces_most(void)
{
    struct rlimit limit;
    rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / FILE_PIECES_SHARE : 0;
    return most > FILE_PIECES_LEAST ? (size_t)most : FILE_PIECES_LEAST;
}

/* Takes `fd` on success. Fails with TIDINGS_E_BUSY if there are too many, or TIDINGS_E_NOMEM.
 * Pieces that are not in the page cache are read on `readers`, which outlive it. */
static int file_pieces_open(struct tidings_pieces *ret, int fd, const struct stat *st,
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

/* ---------------------------------------------------------------------------------------------- */

#define SMALL 65536

struct read_job {
    const struct file_provider *f;
    struct tidings_read *read;
    struct tidings_str uri;
    struct buf path; /* owned */
    struct file_info info;
    int fd;            /* owned; -1 for a directory, and while it waits */
    bool is_directory; /* when it waits */
    int64_t cap;
    bool has_range;
    struct tidings_range range;
};

static void file_read_finish(struct read_job *job, int code, const struct tidings_error *err)
{
    if (job->fd >= 0) {
        close(job->fd);
    }
    buf_deinit(&job->path);
    tidings_read_done(job->read, code, err);
}

/* Returns true if only a part of the file is read. A small file is read whole and cut by the core,
 * which then knows whether it is text. */
static bool is_part(const struct read_job *job)
{
    int64_t size = job->info.st.st_size;
    return job->has_range && (size > SMALL || size > job->cap);
}

/* Finds the bytes to read. */
static int file_read_plan(const struct read_job *job, struct file_chunk *part,
                          struct tidings_error *err)
{
    if (is_part(job)) {
        return file_find_range(part, &job->range, job->cap, job->read, err);
    }
    part->to = part->size;
    if (part->size == 0) {
        part->to = job->cap < SMALL ? job->cap : SMALL; /* empty, or of unknown size as in procfs */
    }
    if (part->to > job->cap) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "it has %lld bytes, at most %lld are read at "
                            "once; ask for a range",
                            (long long)part->size, (long long)job->cap);
    }
    return 0;
}

/* Returns `got` bytes read from `part`; takes them. `asked` is the range without margins. */
static int file_read_give(struct read_job *job, const struct file_chunk *part,
                          const struct file_chunk *asked, char *bytes, size_t got,
                          struct tidings_error *err)
{
    struct tidings_resource row;
    char etag[FILE_ETAG_SIZE];
    struct tidings_str content = {bytes, got};
    size_t from = (size_t)(asked->from - part->from), to = (size_t)(asked->to - part->from);
    from = from < got ? from : got;
    to = to < got ? to : got;
    if (!file_describe(job->f, job->uri, file_last_name(buf_str(&job->path)), &job->info, etag,
                       &row) &&
        byte_range_fit_text(content, &from, &to)) {
        row.mime_type = STR("text/plain");
    }
    if (is_part(job)) {
        return tidings_read_part(job->read, &row, part->from, bytes, got, err);
    }
    row.size = row.size < (int64_t)got ? (int64_t)got : row.size;
    row.has_size = true;
    return tidings_read_take(job->read, &row, bytes, got, err);
}

/* Returns a large file, to be read again while it is sent. 1: there is no descriptor for that. */
static int file_read_pieces(struct read_job *job, struct tidings_error *err)
{
    struct tidings_resource row;
    struct tidings_pieces pieces;
    char etag[FILE_ETAG_SIZE];
    if (file_pieces_open(&pieces, job->fd, &job->info.st, job->f->readers) < 0) {
        return 1;
    }
    job->fd = -1; /* the pieces own it */
    if (!file_describe(job->f, job->uri, file_last_name(buf_str(&job->path)), &job->info, etag,
                       &row)) {
        row.mime_type = STR_EMPTY; /* depends on the content */
    }
    int rc = tidings_read_pieces(job->read, &row, &pieces, err);
    return rc < 0 ? rc : 0;
}

static int file_read_whole(struct read_job *job, struct tidings_error *err)
{
    struct file_chunk asked = {.fd = job->fd, .size = job->info.st.st_size};
    int rc = file_read_plan(job, &asked, err);
    if (rc < 0) {
        return error_wrap(err, rc, "'%.*s'", STR_ARG(job->uri));
    }
    if (!is_part(job) && asked.size > SMALL) {
        rc = file_read_pieces(job, err);
        if (rc <= 0) {
            return rc < 0 ? error_wrap(err, rc, "'%.*s'", STR_ARG(job->uri)) : 0;
        }
    }
    struct file_chunk part = asked;
    if (is_part(job) && job->range.unit == TIDINGS_UNIT_BYTES) {
        part.from = part.from > BYTE_RANGE_MARGIN ? part.from - BYTE_RANGE_MARGIN : 0;
        part.to = part.to + BYTE_RANGE_MARGIN < part.size ? part.to + BYTE_RANGE_MARGIN : part.size;
    }
    rc = tidings_read_reserve(job->read, (size_t)(part.to - part.from), err);
    char *bytes = rc < 0 ? NULL : tidings_alloc((size_t)(part.to - part.from) + 1);
    if (!bytes) {
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int64_t got = file_read_bytes(&part, bytes, job->read, err);
    if (got < 0) {
        tidings_free(bytes);
        return error_wrap(err, (int)got, "'%.*s'", STR_ARG(job->uri));
    }
    return file_read_give(job, &part, &asked, bytes, (size_t)got, err);
}

static void file_read_run(struct read_job *job)
{
    struct tidings_error err = {0};
    if (job->fd < 0) {
        file_read_directory(job->f, job->read, buf_str(&job->path), &job->info);
        buf_deinit(&job->path);
        return;
    }
    int rc = file_read_whole(job, &err);
    file_read_finish(job, rc, &err);
}

static void file_read_run_pooled(void *memory)
{
    struct read_job job = *(struct read_job *)memory;
    struct tidings_error err = {0};
    mem_free(memory);
    if (!job.is_directory) {
        struct file_policy policy = file_read_policy(job.read);
        job.fd = file_open_checked(job.f, job.path.ptr, job.uri, &job.info, &policy, &err);
    }
    if (job.is_directory || job.fd >= 0) {
        file_read_run(&job);
    } else {
        file_read_finish(&job, job.fd, &err);
    }
}

/* Takes what the job owns, even on failure. Waiting jobs hold no descriptors, because there may be
 * more jobs than descriptors. */
static void file_read_submit(struct read_job *job)
{
    struct tidings_error err = {0};
    job->is_directory = job->fd < 0;
    if (job->fd >= 0) {
        close(job->fd);
        job->fd = -1;
    }
    struct read_job *copy = mem_alloc(sizeof *copy);
    int rc = TIDINGS_E_NOMEM;
    if (copy) {
        *copy = *job;
        rc = pool_submit(job->f->pool, file_read_run_pooled, copy);
    }
    if (rc < 0) {
        mem_free(copy);
        tidings_fail(&err, rc, "too many reads are waiting; try again later");
        file_read_finish(job, rc, &err);
    }
}

/* Returns true if it takes more than a moment. */
static bool is_long(const struct read_job *job)
{
    int64_t size = job->info.st.st_size, from, to;
    if (job->has_range && job->range.unit == TIDINGS_UNIT_BYTES &&
        byte_range_clip(&job->range, size, &from, &to, NULL) == 0) {
        return to - from > SMALL;
    }
    return size > SMALL;
}

/* Finds and opens it; a directory has no descriptor. */
static int open_job(struct read_job *job, struct tidings_error *err)
{
    bool has_slash;
    int rc = file_path_from_uri(&job->f->root, job->uri, &job->path, &has_slash, err);
    if (rc == 0 && !has_slash) {
        job->fd = file_open_regular(&job->f->root, job->path.ptr, &job->info);
    }
    if (rc < 0 || job->fd >= 0) {
        return rc;
    }
    file_root_follow(&job->f->root);
    buf_clear(&job->path);
    struct file_policy policy = file_read_policy(job->read);
    rc = file_resolve(job->f, job->uri, &job->path, &job->info, &policy, err);
    if (rc == 0 && file_kind(&job->info) == FILE_REGULAR) {
        job->fd = file_open_checked(job->f, job->path.ptr, job->uri, &job->info, &policy, err);
        rc = job->fd < 0 ? job->fd : 0;
    }
    return rc;
}

void provider_file_read(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri)
{
    struct tidings_error err = {0};
    struct read_job job = {.f = tidings_provider_state(p), .read = read, .uri = uri, .fd = -1};
    job.has_range = tidings_read_range(read, &job.range);
    job.cap = job.f->settings.max_read;
    if (tidings_read_max_bytes(read) < (size_t)job.cap) {
        job.cap = (int64_t)tidings_read_max_bytes(read);
    }
    buf_init(&job.path, FILE_MAX_PATH);
    char etag[FILE_ETAG_SIZE];
    int rc = open_job(&job, &err);
    if (rc < 0) {
        file_read_finish(&job, rc, &err);
        return;
    }
    file_etag(&job.info.st, etag);
    if (job.fd >= 0 && tidings_read_unchanged(read, tidings_str(etag))) {
        file_read_finish(&job, 0, NULL);
    } else if (job.fd < 0 || is_long(&job)) {
        file_read_submit(&job);
    } else {
        file_read_run(&job);
    }
}
