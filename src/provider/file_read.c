/* SPDX-License-Identifier: MIT
 *
 * Reading a file, whole or a range of bytes, and the names in a directory.
 *
 * Up to SMALL bytes are read where the request is; more, and directories, on the pool. A file that
 * grows or shrinks meanwhile gives at most the bytes it had when it was opened, under the etag of
 * that moment: the change that follows carries another.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "provider/file_path.h"
#include "provider/file_provider.h"

#define SMALL 65536
#define CHUNK 1048576
#define MAX_NAMES 10000u

struct read_job {
    const struct file_provider *f;
    struct tidings_read *read;
    struct tidings_str uri;
    struct buf path; /* owned */
    struct file_look look;
    int fd; /* owned; -1 for a directory */
    int64_t offset;
    int64_t want;
};

static void job_deinit(struct read_job *job)
{
    if (job->fd >= 0) {
        close(job->fd);
    }
    buf_deinit(&job->path);
}

static void job_finish(struct read_job *job, int code, const struct tidings_error *err)
{
    struct tidings_read *read = job->read;
    job_deinit(job);
    tidings_read_done(read, code, err);
}

static struct tidings_str job_name(const struct read_job *job)
{
    struct tidings_str path = buf_str(&job->path);
    const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? str_skip(path, (size_t)(slash - path.ptr) + 1) : path;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Read at most `want` bytes; fewer at the end of the file. The count, or a negative code. */
static int64_t read_bytes(struct read_job *job, char *bytes, struct tidings_error *err)
{
    int64_t got = 0;
    while (got < job->want) {
        if (tidings_read_cancelled(job->read)) {
            return tidings_fail(err, TIDINGS_E_CANCELLED, "cancelled");
        }
        size_t room = (size_t)(job->want - got < CHUNK ? job->want - got : CHUNK);
        ssize_t n = pread(job->fd, bytes + got, room, job->offset + got);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_errno(err, errno, "read '%.*s'", STR_ARG(job->uri));
        }
        if (n == 0) {
            break;
        }
        got += n;
    }
    return got;
}

static void run_file(struct read_job *job)
{
    struct tidings_error err = {0};
    char *bytes = tidings_alloc((size_t)job->want + 1);
    if (!bytes) {
        job_finish(job, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), &err);
        return;
    }
    int64_t got = read_bytes(job, bytes, &err);
    if (got < 0) {
        tidings_free(bytes);
        job_finish(job, (int)got, &err);
        return;
    }
    struct tidings_resource row;
    char etag[FILE_ETAG_SIZE];
    struct tidings_str name = job_name(job);
    bool is_known = file_describe(job->f, job->uri, name, &job->look, etag, &row);
    if (!is_known && str_is_utf8(tidings_strn(bytes, (size_t)got))) {
        row.mime_type = STR("text/plain");
    }
    if (row.size < got) {
        row.size = got; /* a file that does not know its size, as in procfs */
    }
    int rc = tidings_read_take(job->read, &row, bytes, (size_t)got, &err);
    job_finish(job, rc < 0 ? rc : 0, &err);
}

/* Settle the range against the size and the caps. */
static int plan(struct read_job *job, struct tidings_error *err)
{
    int64_t size = job->look.st.st_size;
    int64_t length;
    tidings_read_range(job->read, &job->offset, &length);
    if (job->offset < 0 || job->offset > size) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the range begins at byte %lld, '%.*s' has %lld bytes",
                            (long long)job->offset, STR_ARG(job->uri), (long long)size);
    }
    job->want = size - job->offset;
    if (length >= 0 && length < job->want) {
        job->want = length;
    }
    int64_t cap = job->f->settings.max_read;
    size_t accepted = tidings_read_max_bytes(job->read);
    if (accepted < (size_t)cap) {
        cap = (int64_t)accepted;
    }
    if (job->want > cap) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "'%.*s' has %lld bytes, at most %lld are read at once; ask for a range",
                            STR_ARG(job->uri), (long long)size, (long long)cap);
    }
    if (size == 0 && length != 0) {
        job->want = cap < SMALL ? cap : SMALL; /* empty, or of unknown size */
    }
    return 0;
}

/* The long way to an open file. */
static int open_file(struct read_job *job, struct tidings_error *err)
{
    job->fd = file_open_beneath(job->f->root.fd, job->path.ptr, O_RDONLY);
    if (job->fd < 0) {
        return file_refuse(err, job->fd, job->uri);
    }
    /* It may have been replaced since it was looked at. */
    if (fstat(job->fd, &job->look.st) < 0) {
        return error_errno(err, errno, "'%.*s'", STR_ARG(job->uri));
    }
    if (file_kind(&job->look) != FILE_REGULAR) {
        return tidings_fail(err, TIDINGS_E_DENIED, "'%.*s' is no regular file any more",
                            STR_ARG(job->uri));
    }
    return 0;
}

/* ---- directories ----------------------------------------------------------------------------- */

struct lines {
    struct buf text;
    size_t count;
};

/* A line per name: directories with a '/', what is no text (or holds a line break) encoded. */
static bool add_line(void *user, struct tidings_str name, struct tidings_str segment)
{
    struct lines *l = user;
    bool is_text = str_is_utf8(name) && str_find(name, '\n') < 0;
    buf_puts(&l->text, is_text ? name : segment);
    if (is_text && str_ends(segment, STR("/"))) {
        buf_putc(&l->text, '/');
    }
    buf_putc(&l->text, '\n');
    return ++l->count < MAX_NAMES && !l->text.failed;
}

static void run_directory(struct read_job *job)
{
    struct tidings_error err = {0};
    struct tidings_resource row;
    char etag[FILE_ETAG_SIZE];
    struct lines lines = {.count = 0};
    struct buf uri;
    buf_init(&lines.text, tidings_read_max_bytes(job->read));
    buf_init(&uri, job->f->root.prefix_len + FILE_MAX_ENCODED);
    int rc = file_each_name(job->f, buf_str(&job->path), add_line, &lines, &err);
    if (rc == 0 && lines.text.failed) {
        rc = tidings_fail(&err, lines.text.failed, "too many names");
    }
    if (rc < 0) {
        rc = error_wrap(&err, rc, "'%.*s'", STR_ARG(job->uri));
    } else {
        file_path_to_uri(&job->f->root, buf_str(&job->path), true, &uri);
        file_describe(job->f, buf_str(&uri), job_name(job), &job->look, etag, &row);
        rc = tidings_read_text(job->read, &row, buf_str(&lines.text), &err);
    }
    buf_deinit(&lines.text);
    buf_deinit(&uri);
    job_finish(job, rc < 0 ? rc : 0, &err);
}

/* ---- the operation --------------------------------------------------------------------------- */

static void run_pooled(void *memory)
{
    struct read_job job = *(struct read_job *)memory;
    mem_free(memory);
    if (job.fd >= 0) {
        run_file(&job);
    } else {
        run_directory(&job);
    }
}

/* Takes over what the job owns, also on failure. */
static void submit(struct read_job *job)
{
    struct tidings_error err = {0};
    struct read_job *copy = mem_alloc(sizeof *copy);
    int rc = TIDINGS_E_NOMEM;
    if (copy) {
        *copy = *job;
        rc = pool_submit(job->f->pool, run_pooled, copy);
    }
    if (rc < 0) {
        mem_free(copy);
        tidings_fail(&err, rc, "too many reads are waiting; try again later");
        job_finish(job, rc, &err);
    }
}

void provider_file_read(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri)
{
    struct tidings_error err = {0};
    struct read_job job = {.f = tidings_provider_state(p), .read = read, .uri = uri, .fd = -1};
    bool has_slash;
    buf_init(&job.path, FILE_MAX_PATH);
    int rc = file_path_from_uri(&job.f->root, uri, &job.path, &has_slash, &err);
    if (rc == 0 && !has_slash) {
        job.fd = file_open_regular(&job.f->root, job.path.ptr, &job.look);
    }
    if (rc == 0 && job.fd < 0) {
        buf_clear(&job.path);
        rc = file_resolve(job.f, uri, &job.path, &job.look, &err);
        if (rc == 0 && file_kind(&job.look) == FILE_DIRECTORY) {
            submit(&job);
            return;
        }
        rc = rc < 0 ? rc : open_file(&job, &err);
    }
    if (rc == 0) {
        rc = plan(&job, &err);
    }
    if (rc < 0) {
        job_finish(&job, rc, &err);
    } else if (job.want > SMALL) {
        submit(&job);
    } else {
        run_file(&job);
    }
}
