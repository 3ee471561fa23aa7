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
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "provider/file_path.h"
#include "provider/file_provider.h"
#include "uri/uri.h"

#define MAX_NAMES 2000000u
#define MAX_NAMES_BYTES (1u << 30)
#define BUDGET 128u       /* names, where the request is */
#define DIRECTORY_COST 4u /* opening a directory, in names */
#define RECORDS_BYTES 16384u

/* ---- the names of one directory -------------------------------------------------------------- */

/* Offsets into the text; both strings are NUL-terminated there. `begin` is the first bytes of the
 * encoded name as a number, whose order mostly decides. */
struct name {
    uint64_t begin;
    uint32_t raw;
    uint32_t encoded;
    uint16_t raw_len;
    uint16_t encoded_len; /* with the '/' of a directory */
    bool is_directory;
    bool is_link;
};

struct names {
    struct buf text;
    struct name *heap; /* smallest encoded name first */
    size_t count;
    size_t cap;
    size_t budget; /* how many more may be looked at */
};

static void names_init(struct names *n, size_t budget)
{
    *n = (struct names){.budget = budget};
    buf_init(&n->text, MAX_NAMES_BYTES);
}

static void names_deinit(struct names *n)
{
    buf_deinit(&n->text);
    mem_free(n->heap);
}

static struct tidings_str encoded_name(const struct names *n, const struct name *e)
{
    return tidings_strn(n->text.ptr + e->encoded, e->encoded_len);
}

static bool is_before(const struct names *n, size_t a, size_t b)
{
    const struct name *x = &n->heap[a], *y = &n->heap[b];
    return x->begin != y->begin ? x->begin < y->begin
                                : str_cmp(encoded_name(n, x), encoded_name(n, y)) < 0;
}

static void sift_down(struct names *n, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n->count) {
            return;
        }
        if (child + 1 < n->count && is_before(n, child + 1, child)) {
            child++;
        }
        if (!is_before(n, child, at)) {
            return;
        }
        struct name swap = n->heap[at];
        n->heap[at] = n->heap[child];
        n->heap[child] = swap;
        at = child;
    }
}

static bool names_pop(struct names *n, struct name *ret)
{
    if (n->count == 0) {
        return false;
    }
    *ret = n->heap[0];
    n->heap[0] = n->heap[--n->count];
    sift_down(n, 0);
    return true;
}

/* A directory that holds the cursor's row is wanted although its own row was given before. */
static bool is_wanted(struct tidings_str encoded, bool is_entered, struct tidings_str after)
{
    return str_cmp(encoded, after) > 0 || (is_entered && str_starts(after, encoded));
}

static uint64_t begin_of(struct tidings_str encoded)
{
    uint64_t begin = 0;
    memcpy(&begin, encoded.ptr, encoded.len < sizeof begin ? encoded.len : sizeof begin);
    return be64toh(begin);
}

/* Room for the names in this many bytes of records. */
static int names_reserve(struct names *n, size_t records_bytes)
{
    const size_t smallest = 24; /* a name of up to four bytes */
    size_t cap = n->count + records_bytes / smallest + 1;
    if (cap > n->cap) {
        cap = cap < n->cap * 2 ? n->cap * 2 : cap;
        struct name *heap = mem_realloc(n->heap, cap * sizeof *heap);
        if (!heap) {
            return TIDINGS_E_NOMEM;
        }
        n->heap = heap;
        n->cap = cap;
    }
    return buf_reserve(&n->text, records_bytes);
}

/* There is room (names_reserve). */
static int names_add(struct names *n, struct tidings_str raw, const struct name *kind,
                     struct tidings_str after)
{
    struct name e = *kind;
    size_t mark = n->text.len;
    if (n->count == MAX_NAMES || mark > UINT32_MAX / 2) {
        return TIDINGS_E_LIMIT;
    }
    buf_put(&n->text, raw.ptr, raw.len + 1);
    e.raw = (uint32_t)mark;
    e.raw_len = (uint16_t)raw.len;
    e.encoded = (uint32_t)n->text.len;
    uri_encode_segment(&n->text, raw);
    if (e.is_directory) {
        buf_putc(&n->text, '/');
    }
    e.encoded_len = (uint16_t)(n->text.len - e.encoded);
    buf_putc(&n->text, '\0');
    if (n->text.failed) {
        return n->text.failed;
    }
    if (!is_wanted(encoded_name(n, &e), e.is_directory && !e.is_link, after)) {
        n->text.len = mark;
        return 0;
    }
    e.begin = begin_of(encoded_name(n, &e));
    n->heap[n->count++] = e;
    return 0;
}

/* What getdents64(2) writes. */
struct record {
    uint64_t inode;
    int64_t next;
    uint16_t bytes; /* of this record */
    uint8_t type;
    char name[];
};

/* Is it something we serve (1), and what? Most file systems say without a stat. */
static int classify(const struct file_root *root, int dir, const struct record *r, const char *path,
                    struct name *ret)
{
    *ret = (struct name){0};
    if (r->type == DT_REG || r->type == DT_DIR) {
        ret->is_directory = r->type == DT_DIR;
        return 1;
    }
    struct file_look look;
    if (r->type != DT_LNK && r->type != DT_UNKNOWN) {
        return 0;
    }
    int rc = file_look_in(root, dir, r->name, path, &look);
    if (rc < 0) {
        return file_is_short(rc) ? error_code_from_errno(-rc) : 0;
    }
    ret->is_directory = file_kind(&look) == FILE_DIRECTORY;
    ret->is_link = look.is_link;
    return file_kind(&look) != FILE_OTHER;
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Append a segment to a path or forget it again. */
static void path_push(struct buf *path, struct tidings_str name)
{
    if (path->len > 0) {
        buf_putc(path, '/');
    }
    buf_puts(path, name);
}

static void path_cut(struct buf *path, size_t len)
{
    path->failed = 0;
    path->len = len;
    if (path->ptr) {
        path->ptr[len] = '\0';
    }
}

/* One record of the directory `dir`, whose path is in `path`. */
static int names_take(struct names *n, const struct file_root *root, int dir,
                      const struct record *r, struct buf *path, struct tidings_str after)
{
    struct tidings_str raw = tidings_str(r->name);
    struct name kind;
    size_t mark = path->len;
    int rc = 0;
    path_push(path, raw);
    if (!path->failed && !file_is_excluded(root, buf_str(path))) {
        rc = classify(root, dir, r, path->ptr, &kind);
    }
    if (rc > 0) {
        rc = names_add(n, raw, &kind, after);
    }
    path_cut(path, mark);
    return rc;
}

/* Read the directory `dir`. What comes after `after` only. 1 when the budget does not suffice; the
 * names are then, as after a failure, not all there and in no order. */
static int names_read(struct names *n, const struct file_root *root, int dir, struct buf *path,
                      struct tidings_str after)
{
    union {
        struct record first; /* for its alignment */
        char bytes[RECORDS_BYTES];
    } records;
    long got;
    int rc = 0;
    while (rc == 0 && (got = syscall(SYS_getdents64, dir, records.bytes, sizeof records)) != 0) {
        if (got < 0 && errno == ENOENT) {
            break; /* it was removed since it was opened: nothing is in it */
        }
        rc = got < 0 ? error_code_from_errno(errno) : names_reserve(n, (size_t)got);
        for (long at = 0; rc == 0 && at < got;) {
            const struct record *r = (const struct record *)(const void *)(records.bytes + at);
            at += r->bytes;
            if (is_dot(r->name)) {
                continue;
            }
            rc = n->budget == 0 ? 1 : names_take(n, root, dir, r, path, after);
            n->budget -= n->budget > 0;
        }
    }
    for (size_t i = n->count / 2; rc == 0 && i > 0; i--) {
        sift_down(n, i - 1);
    }
    return rc;
}

/* ---- walking --------------------------------------------------------------------------------- */

struct walk {
    const struct file_provider *f;
    struct tidings_list *list;
    struct tidings_str after; /* the cursor */
    struct buf path;          /* of the current directory or entry */
    struct buf uri;
    bool is_deep;
    bool is_full;
    size_t budget;   /* see struct names */
    struct buf rest; /* not empty: the budget is spent, what comes after this URI is missing */
    unsigned depth;
    struct tidings_error err;
};

/* Hand out the row of the entry that path and uri stand at. 1: go on, 0: not now (gone, or the page
 * is full), or a failure. */
static int emit(struct walk *w, int dir, const struct names *n, const struct name *e)
{
    struct file_look look;
    struct tidings_resource row;
    char etag[FILE_ETAG_SIZE];
    const char *raw = n->text.ptr + e->raw;
    int looked = file_look_in(&w->f->root, dir, raw, w->path.ptr, &look);
    if (file_is_short(looked)) {
        return file_refuse(&w->err, looked, buf_str(&w->uri));
    }
    if (looked < 0 || file_kind(&look) != (e->is_directory ? FILE_DIRECTORY : FILE_REGULAR)) {
        return 0;
    }
    file_describe(w->f, buf_str(&w->uri), tidings_strn(raw, e->raw_len), &look, etag, &row);
    int rc = tidings_list_add(w->list, &row, &w->err);
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
    int child = file_open_beneath(&w->f->root, dir, raw, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
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
static int walk_entry(struct walk *w, int dir, const struct names *n, const struct name *e,
                      struct tidings_str after)
{
    struct tidings_str encoded = encoded_name(n, e);
    bool is_given = str_cmp(encoded, after) <= 0;
    int rc = 1;
    if (!is_given) {
        after = STR_EMPTY;
        rc = emit(w, dir, n, e);
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
    struct names names;
    names_init(&names, w->budget);
    int rc = names_read(&names, &w->f->root, dir, &w->path, after);
    w->budget = names.budget;
    if (rc > 0) {
        names_deinit(&names);
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
    struct name e;
    while (rc == 0 && !w->is_full && w->rest.len == 0 && names_pop(&names, &e)) {
        size_t path_mark = w->path.len;
        size_t uri_mark = w->uri.len;
        path_push(&w->path, tidings_strn(names.text.ptr + e.raw, e.raw_len));
        buf_puts(&w->uri, encoded_name(&names, &e));
        if (!w->path.failed && !w->uri.failed) { /* longer: nobody could name it */
            rc = walk_entry(w, dir, &names, &e, after);
        }
        path_cut(&w->path, path_mark);
        path_cut(&w->uri, uri_mark);
    }
    names_deinit(&names);
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

/* Why `uri` did not open as a directory. */
static int refuse_directory(struct walk *w, int negative_errno, struct tidings_str uri)
{
    if (negative_errno != -ENOTDIR) {
        return file_refuse(&w->err, negative_errno, uri);
    }
    struct file_look look;
    buf_clear(&w->path);
    int rc = file_resolve(w->f, uri, &w->path, &look, &w->err);
    return rc < 0 ? rc
                  : tidings_fail(&w->err, TIDINGS_E_INVALID, "'%.*s' is a file and has no children",
                                 STR_ARG(uri));
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
    int dir = file_open_beneath(&w->f->root, w->f->root.fd, w->path.ptr, O_RDONLY | O_DIRECTORY);
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

static void submit(const struct list_job *now);

/* On the pool, or with a budget. Takes what the job owns. */
static void run_list(struct list_job *job, size_t budget)
{
    struct walk w = {.f = job->f, .list = job->list, .budget = budget};
    w.after = job->after.len > 0 ? buf_str(&job->after) : tidings_list_after(job->list);
    buf_init(&w.path, FILE_MAX_PATH);
    buf_init(&w.uri, URI_MAX);
    buf_init(&w.rest, URI_MAX + w.after.len);
    int rc = run_walk(&w, job->uri);
    buf_deinit(&w.path);
    buf_deinit(&w.uri);
    buf_deinit(&job->after);
    if (rc == 0 && w.rest.len > 0) {
        job->after = w.rest;
        submit(job);
        return;
    }
    buf_deinit(&w.rest);
    tidings_list_done(job->list, rc < 0 ? rc : 0, &w.err);
}

static void run_pooled(void *memory)
{
    struct list_job job = *(struct list_job *)memory;
    mem_free(memory);
    run_list(&job, SIZE_MAX);
}

/* Takes what the job owns. */
static void submit(const struct list_job *now)
{
    struct list_job *job = mem_alloc(sizeof *job);
    int rc = TIDINGS_E_NOMEM;
    if (job) {
        *job = *now;
        rc = pool_submit(now->f->pool, run_pooled, job);
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
    run_list(&job, BUDGET);
}

int file_each_name(const struct file_provider *f, struct tidings_str path, file_name_fn fn,
                   void *user, struct tidings_error *err)
{
    struct names names;
    struct buf where;
    names_init(&names, SIZE_MAX);
    buf_init(&where, FILE_MAX_PATH);
    buf_puts(&where, path);
    int dir = where.failed
                  ? where.failed
                  : file_open_beneath(&f->root, f->root.fd, where.ptr, O_RDONLY | O_DIRECTORY);
    int rc = dir < 0 ? error_errno(err, where.failed ? ENOMEM : -dir, "open directory")
                     : names_read(&names, &f->root, dir, &where, STR_EMPTY);
    if (dir >= 0 && rc < 0) {
        tidings_fail(err, rc, "reading the directory: %s", tidings_code_text(rc));
    }
    struct name e;
    bool more = true;
    while (rc == 0 && more && names_pop(&names, &e)) {
        more = fn(user, tidings_strn(names.text.ptr + e.raw, e.raw_len), encoded_name(&names, &e));
    }
    if (dir >= 0) {
        close(dir);
    }
    buf_deinit(&where);
    names_deinit(&names);
    return rc;
}
