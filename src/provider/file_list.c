/* SPDX-License-Identifier: MIT
 *
 * Listing: everything below the root, flat, or the children of one directory, in ascending byte
 * order of URI, from any point on.
 *
 * The order of encoded names, directories with their '/', is the order of the URIs of a depth-first
 * walk, because everything below "a/" begins with "a/". So a page needs no memory of the pages
 * before: directories that lie before the cursor are skipped unread. Memory: the names of one
 * directory per level. Names are taken from a heap in order, so that a page of a huge directory
 * does not pay for sorting all of it.
 *
 * A listing begins where the request is, with a budget of names that covers small trees: handing it
 * to another thread costs as much as twenty rows. When the budget is spent before the page is full
 * the pool goes on behind the last row, the way the next page would, without one.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "provider/file_names.h"
#include "provider/file_private.h"
#include "uri/uri.h"

#define BUDGET 128u       /* names, where the request is */
#define DIRECTORY_COST 4u /* opening a directory, in names */

/* ---- walking --------------------------------------------------------------------------------- */

struct walk {
    const struct file_provider *f;
    struct tidings_list *list;
    struct tidings_str after; /* the cursor */
    struct buf path;          /* of the current directory or entry */
    struct buf uri;
    struct buf dir_target; /* where links led to the directory asked for, see file_open_beneath … */
    struct buf target;     /* … and to the entry */
    bool is_deep;
    bool is_full;
    size_t budget;   /* see struct file_names */
    struct buf rest; /* not empty: the budget is spent, what comes after this URI is missing */
    unsigned depth;
    struct tidings_error err;
};

static bool file_list_may_show(const void *list, struct tidings_str uri)
{
    return tidings_list_shows(list, uri);
}

/* Hand out the row of the entry that path and uri stand at. 1: go on, 0: not now (gone, or the page
 * is full), or a failure. */
static int file_list_emit(struct walk *w, int dir, const struct file_names *n,
                          const struct file_name *e)
{
    struct file_info info;
    struct tidings_resource row;
    char etag[FILE_ETAG_SIZE];
    const char *raw = n->text.ptr + e->raw;
    int status = file_stat_in(&w->f->root, dir, w->path.ptr, &info, &w->target);
    if (file_is_short(status)) {
        return file_refuse(&w->err, status, buf_str(&w->uri));
    }
    if (status < 0 || file_kind(&info) != (e->is_directory ? FILE_DIRECTORY : FILE_REGULAR)) {
        return 0;
    }
    if (w->dir_target.len > 0 && w->target.len == 0) {
        file_target_below(&w->target, &w->dir_target, tidings_strn(raw, e->raw_len));
    }
    const struct file_judge judge = {file_list_may_show, w->list};
    if (!file_judge_allows(w->f, &judge, &w->target, e->is_directory)) {
        return 0;
    }
    file_describe(w->f, buf_str(&w->uri), tidings_strn(raw, e->raw_len), &info, etag, &row);
    struct json *front = file_skill_describe(w->f, dir, raw, &row);
    int rc = tidings_list_add(w->list, &row, &w->err);
    jv_unref(front);
    w->is_full = rc == 0;
    return rc;
}

static int walk_directory(struct walk *w, int dir, struct tidings_str after);

/* The budget does not suffice for the directory at w->uri. Its own row, if it has one, was given;
 * while the cursor lies below it, no row was. */
static int walk_later(struct walk *w, struct tidings_str after)
{
    int rc = buf_puts(&w->rest, after.len > 0 ? w->after : buf_str(&w->uri));
    return rc < 0 ? tidings_fail(&w->err, rc, "out of memory") : 0;
}

static int walk_into(struct walk *w, int dir, const char *raw, struct tidings_str after)
{
    if (w->budget < DIRECTORY_COST) {
        return walk_later(w, after);
    }
    w->budget -= DIRECTORY_COST;
    int child = file_open_beneath(&w->f->root, dir, raw, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, NULL);
    if (child < 0) { /* gone, or not for us: it has no rows */
        return file_is_short(child) ? file_refuse(&w->err, child, buf_str(&w->uri)) : 0;
    }
    w->depth++;
    int rc = walk_directory(w, child, after);
    w->depth--;
    close(child);
    return rc;
}

/* One entry of a directory and, in a deep walk, what is below it. */
static int walk_entry(struct walk *w, int dir, const struct file_names *n,
                      const struct file_name *e, struct tidings_str after)
{
    struct tidings_str encoded = file_name_encoded(n, e);
    bool is_given = str_cmp(encoded, after) <= 0;
    int rc = 1;
    if (!is_given) {
        after = STR_EMPTY;
        rc = file_list_emit(w, dir, n, e);
    } else {
        after = str_skip(after, encoded.len);
    }
    if (rc <= 0 || !w->is_deep || !e->is_directory || e->is_link || w->depth >= FILE_MAX_DEPTH) {
        return rc < 0 ? rc : 0;
    }
    return walk_into(w, dir, n->text.ptr + e->raw, after);
}

/* `after` is relative to this directory's URI. */
static int walk_directory(struct walk *w, int dir, struct tidings_str after)
{
    struct file_names names;
    file_names_init(&names, w->budget);
    int rc = file_names_read(&names, &w->f->root, dir, &w->path, after);
    w->budget = names.budget;
    if (rc > 0) {
        file_names_deinit(&names);
        return walk_later(w, after);
    }
    if (rc < 0 && w->depth > 1 && rc != TIDINGS_E_NOMEM && rc != TIDINGS_E_LIMIT &&
        rc != TIDINGS_E_BUSY) {
        rc = 0; /* below the directory asked for, what cannot be read has no rows */
        names.count = 0;
    }
    if (rc < 0) {
        tidings_fail(&w->err, rc, "listing '%.*s': %s", STR_ARG(buf_str(&w->uri)),
                     tidings_code_text(rc));
    }
    struct file_name e;
    while (rc == 0 && !w->is_full && w->rest.len == 0 && file_names_pop(&names, &e)) {
        size_t path_mark = w->path.len;
        size_t uri_mark = w->uri.len;
        file_path_push(&w->path, tidings_strn(names.text.ptr + e.raw, e.raw_len));
        buf_puts(&w->uri, file_name_encoded(&names, &e));
        if (!w->path.failed && !w->uri.failed) { /* longer: nobody could name it */
            rc = walk_entry(w, dir, &names, &e, after);
        }
        file_path_cut(&w->path, path_mark);
        file_path_cut(&w->uri, uri_mark);
    }
    file_names_deinit(&names);
    return rc;
}

/* The part of the cursor below the directory at w->uri; false: all rows come before the cursor. */
static bool cursor_below(const struct walk *w, struct tidings_str *ret)
{
    struct tidings_str base = buf_str(&w->uri);
    *ret = str_starts(w->after, base) ? str_skip(w->after, base.len) : STR_EMPTY;
    return ret->len > 0 || str_cmp(w->after, base) <= 0;
}

/* ---- the operations -------------------------------------------------------------------------- */

struct list_job {
    const struct file_provider *f;
    struct tidings_list *list;
    struct tidings_str uri; /* empty: everything below the root */
    struct buf after;       /* owned */
};

/* Why `uri` did not open as a directory, if it may be said. */
static int refuse_directory(struct walk *w, int negative_errno, struct tidings_str uri)
{
    struct file_info info;
    const struct file_judge judge = {file_list_may_show, w->list};
    if (file_is_short(negative_errno)) {
        return file_refuse(&w->err, negative_errno, uri);
    }
    buf_clear(&w->path);
    int rc = file_resolve(w->f, uri, &w->path, &info, &judge, &w->err);
    if (rc == 0 && negative_errno != -ENOTDIR) {
        rc = file_refuse(&w->err, negative_errno, uri);
    }
    return rc < 0 ? rc
                  : tidings_fail(&w->err, TIDINGS_E_INVALID, "'%.*s' is a file and has no children",
                                 STR_ARG(uri));
}

/* Open the directory that is asked for. */
static int open_top(struct walk *w)
{
    const struct file_judge judge = {file_list_may_show, w->list};
    int dir = file_open_beneath(&w->f->root, w->f->root.fd, w->path.ptr, O_RDONLY | O_DIRECTORY,
                                &w->dir_target);
    if (dir >= 0 && !file_judge_allows(w->f, &judge, &w->dir_target, true)) {
        close(dir);
        return -ENOENT;
    }
    return dir;
}

static int run_walk(struct walk *w, struct tidings_str uri)
{
    bool has_slash;
    w->is_deep = uri.len == 0;
    if (w->is_deep) {
        uri = tidings_strn(w->f->root.prefix, w->f->root.prefix_len);
    }
    int rc = file_path_from_uri(&w->f->root, uri, &w->path, &has_slash, &w->err);
    if (rc < 0) {
        return rc;
    }
    int dir = open_top(w);
    if (w->is_deep && (dir == -ENOTDIR || dir == -ENOENT)) {
        return 0; /* there is no root now */
    }
    if (dir < 0) {
        return refuse_directory(w, dir, uri);
    }
    file_path_to_uri(&w->f->root, buf_str(&w->path), true, &w->uri);
    struct tidings_str after;
    rc = w->uri.failed;
    if (rc == 0 && cursor_below(w, &after)) {
        w->depth = 1;
        rc = walk_directory(w, dir, after);
    }
    close(dir);
    return rc;
}

static void file_list_submit(const struct list_job *now);

/* On the pool, or with a budget. Takes what the job owns. */
static void file_list_run(struct list_job *job, size_t budget)
{
    struct walk w = {.f = job->f, .list = job->list, .budget = budget};
    w.after = job->after.len > 0 ? buf_str(&job->after) : tidings_list_after(job->list);
    buf_init(&w.path, FILE_MAX_PATH);
    buf_init(&w.uri, URI_MAX);
    buf_init(&w.dir_target, FILE_WHERE_SIZE + 1);
    buf_init(&w.target, FILE_WHERE_SIZE + 256);
    buf_init(&w.rest, URI_MAX + w.after.len);
    int rc = run_walk(&w, job->uri);
    buf_deinit(&w.path);
    buf_deinit(&w.uri);
    buf_deinit(&w.dir_target);
    buf_deinit(&w.target);
    buf_deinit(&job->after);
    if (rc == 0 && w.rest.len > 0) {
        job->after = w.rest;
        file_list_submit(job);
        return;
    }
    buf_deinit(&w.rest);
    tidings_list_done(job->list, rc < 0 ? rc : 0, &w.err);
}

static void file_list_run_pooled(void *memory)
{
    struct list_job job = *(struct list_job *)memory;
    mem_free(memory);
    file_list_run(&job, SIZE_MAX);
}

/* Takes what the job owns. */
static void file_list_submit(const struct list_job *now)
{
    struct list_job *job = mem_alloc(sizeof *job);
    int rc = TIDINGS_E_NOMEM;
    if (job) {
        *job = *now;
        rc = pool_submit(now->f->pool, file_list_run_pooled, job);
    }
    if (rc < 0) {
        struct tidings_error err = {0};
        struct buf after = now->after;
        mem_free(job);
        buf_deinit(&after);
        tidings_fail(&err, rc, "too many listings are waiting; try again later");
        tidings_list_done(now->list, rc, &err);
    }
}

void provider_file_list(struct tidings_provider *p, struct tidings_list *list)
{
    provider_file_children(p, list, STR_EMPTY);
}

void provider_file_children(struct tidings_provider *p, struct tidings_list *list,
                            struct tidings_str uri)
{
    struct list_job job = {.f = tidings_provider_state(p), .list = list, .uri = uri};
    file_root_follow(&job.f->root);
    file_list_run(&job, BUDGET);
}
