/* SPDX-License-Identifier: MIT
 *
 * Reading a file, whole or a part of it. Directories are in file_content_directory.c.
 *
 * The worker reads up to SMALL bytes; the pool reads larger files and directories. A large file is
 * read again while it is sent. Of a file that grows, the read gives the bytes that it had when it
 * was opened, with the etag of that moment; the change that follows carries another. If the client
 * already has that etag, the read costs one stat.
 */
#include <unistd.h>

#include "base/byte_range.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "provider/file_content.h"
#include "provider/file_path.h"
#include "provider/file_pieces.h"
#include "provider/file_private.h"

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

/* Is just a part of it read? A small file is read whole and cut by the core, which then knows
 * whether it is text. */
static bool is_part(const struct read_job *job)
{
    int64_t size = job->info.st.st_size;
    return job->has_range && (size > SMALL || size > job->cap);
}

/* Which bytes are to be read. */
static int file_read_plan(const struct read_job *job, struct file_part *part,
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

/* Hand over `got` bytes read from `part`; takes them. `asked` is the range without margins. */
static int file_read_give(struct read_job *job, const struct file_part *part,
                          const struct file_part *asked, char *bytes, size_t got,
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

/* Gives a large file, to be read again while it is sent. 1: there is no descriptor for that. */
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
    struct file_part asked = {.fd = job->fd, .size = job->info.st.st_size};
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
    struct file_part part = asked;
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
        struct file_judge judge = file_read_judge(job.read);
        job.fd = file_open_checked(job.f, job.path.ptr, job.uri, &job.info, &judge, &err);
    }
    if (job.is_directory || job.fd >= 0) {
        file_read_run(&job);
    } else {
        file_read_finish(&job, job.fd, &err);
    }
}

/* Takes over what the job owns, also on failure. Those that wait hold no descriptors: there may be
 * more of them than of these. */
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

/* Does it take more than a moment? */
static bool is_long(const struct read_job *job)
{
    int64_t size = job->info.st.st_size, from, to;
    if (job->has_range && job->range.unit == TIDINGS_UNIT_BYTES &&
        byte_range_clip(&job->range, size, &from, &to, NULL) == 0) {
        return to - from > SMALL;
    }
    return size > SMALL;
}

/* Find and open; a directory has no descriptor. */
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
    struct file_judge judge = file_read_judge(job->read);
    rc = file_resolve(job->f, job->uri, &job->path, &job->info, &judge, err);
    if (rc == 0 && file_kind(&job->info) == FILE_REGULAR) {
        job->fd = file_open_checked(job->f, job->path.ptr, job->uri, &job->info, &judge, err);
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
