/* SPDX-License-Identifier: MIT
 *
 * Completing a path: of the template "prefix{+path}" the variable `path`, one directory at a time,
 * as a shell does.
 *
 * What is suggested expands to the URI of the file. A reserved expansion leaves '?', '#', '%' and
 * the like as they are, so a name that holds one is suggested as it stands in the URI; all others
 * as people write them. What was typed may be spelled either way.
 */
#include "provider/file_names.h"
#include "provider/file_private.h"

#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "uri/uri.h"

#define EXPRESSION "{+path}"

/* Owns itself until it has finished. */
struct complete_job {
    const struct file_provider *f;
    struct tidings_complete *complete;
    struct buf path; /* the directory */
    struct buf stem; /* what names must begin with */
    struct buf value;
    size_t shown; /* the directory as part of each value */
    int rc;
};

static void file_complete_finish(struct complete_job *job, int code,
                                 const struct tidings_error *err)
{
    struct tidings_complete *complete = job->complete;
    buf_deinit(&job->path);
    buf_deinit(&job->stem);
    buf_deinit(&job->value);
    mem_free(job);
    tidings_complete_done(complete, code, err);
}

/* Does `{+path}` expand this name to its segment? */
static bool is_faithful(struct tidings_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < 0x20 || c == 0x7f || strchr("%?#[]*", c)) {
            return false;
        }
    }
    return str_is_utf8(name);
}

static void put_suggestion(struct buf *value, struct tidings_str name, struct tidings_str segment)
{
    bool as_is = is_faithful(name);
    buf_puts(value, as_is ? name : segment);
    if (as_is && str_ends(segment, STR("/"))) {
        buf_putc(value, '/');
    }
}

static bool file_complete_suggest(void *user, struct tidings_str name, struct tidings_str segment)
{
    struct complete_job *job = user;
    if (!str_starts(name, buf_str(&job->stem))) {
        return true;
    }
    job->value.len = job->shown;
    put_suggestion(&job->value, name, segment);
    job->rc = job->value.failed ? job->value.failed
                                : tidings_complete_add(job->complete, buf_str(&job->value));
    return job->rc > 0;
}

static bool file_complete_may_show(const void *complete, struct tidings_str uri)
{
    return tidings_complete_shows(complete, uri);
}

static void run_pooled(void *memory)
{
    struct complete_job *job = memory;
    const struct file_judge judge = {file_complete_may_show, job->complete};
    job->rc = 1;
    int rc = file_each_name(job->f, buf_str(&job->path), &judge, file_complete_suggest, job, NULL);
    if (rc == TIDINGS_E_NOMEM || rc == TIDINGS_E_BUSY) {
        job->rc = rc;
    } /* otherwise what is no directory, or cannot be read, has nothing to suggest */
    file_complete_finish(job, job->rc < 0 ? job->rc : 0, NULL);
}

/* The segments of the directory, each shown like the names in it. */
static void show_directory(struct complete_job *job)
{
    struct tidings_str rest = buf_str(&job->path);
    struct buf segment;
    buf_init(&segment, FILE_MAX_ENCODED);
    while (rest.len > 0) {
        struct tidings_str name = str_cut(rest, '/', &rest, NULL);
        buf_clear(&segment);
        uri_encode_segment(&segment, name);
        buf_putc(&segment, '/');
        put_suggestion(&job->value, name, buf_str(&segment));
        if (segment.failed && !job->value.failed) {
            job->value.failed = segment.failed;
        }
    }
    buf_deinit(&segment);
    job->shown = job->value.len;
}

/* Split what was typed into a directory and the beginning of a name. 0, or 1 when no such directory
 * can be. */
static int file_complete_split(struct complete_job *job, struct tidings_str typed)
{
    char *text = mem_alloc(typed.len + 1);
    if (!text) {
        return TIDINGS_E_NOMEM;
    }
    size_t len = uri_decode_into(text, typed), dir = len;
    while (dir > 0 && text[dir - 1] != '/') {
        dir--;
    }
    struct buf uri;
    bool has_slash;
    buf_init(&uri, job->f->root.prefix_len + FILE_MAX_ENCODED);
    file_path_to_uri(&job->f->root, tidings_strn(text, dir > 0 ? dir - 1 : 0), true, &uri);
    buf_put(&job->stem, text + dir, len - dir);
    int rc = uri.failed ? uri.failed
             : job->stem.failed
                 ? job->stem.failed
                 : file_path_from_uri(&job->f->root, buf_str(&uri), &job->path, &has_slash, NULL);
    if (dir == 1) {
        rc = TIDINGS_E_NOTFOUND; /* paths have no leading slash */
    }
    if (rc == 0) {
        show_directory(job);
        rc = job->value.failed;
    }
    buf_deinit(&uri);
    mem_free(text);
    return rc == TIDINGS_E_NOMEM ? rc : rc < 0 ? 1 : 0;
}

void provider_file_complete(struct tidings_provider *p, struct tidings_complete *complete,
                            struct tidings_str uri_template)
{
    const struct file_provider *f = tidings_provider_state(p);
    struct tidings_str prefix = tidings_strn(f->root.prefix, f->root.prefix_len);
    struct tidings_error err = {0};
    if (!str_starts(uri_template, prefix) ||
        !str_eq(str_skip(uri_template, prefix.len), STR(EXPRESSION)) ||
        !str_eq(tidings_complete_name(complete), STR("path"))) {
        tidings_fail(&err, TIDINGS_E_INVALID, "only 'path' of '%.*s" EXPRESSION "' is completed",
                     STR_ARG(prefix));
        tidings_complete_done(complete, TIDINGS_E_INVALID, &err);
        return;
    }
    struct complete_job *job = mem_zalloc(sizeof *job);
    if (!job) {
        tidings_complete_done(complete, TIDINGS_E_NOMEM, NULL);
        return;
    }
    job->f = f;
    job->complete = complete;
    buf_init(&job->path, FILE_MAX_PATH);
    buf_init(&job->stem, FILE_MAX_PATH);
    buf_init(&job->value, FILE_MAX_ENCODED);
    file_root_follow(&f->root);
    int rc = file_complete_split(job, tidings_complete_value(complete));
    if (rc == 0) {
        rc = pool_submit(f->pool, run_pooled, job);
        if (rc == 0) {
            return;
        }
        tidings_fail(&err, rc, "too many requests are waiting; try again later");
    }
    file_complete_finish(job, rc < 0 ? rc : 0, &err);
}
