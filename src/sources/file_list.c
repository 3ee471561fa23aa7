/* SPDX-License-Identifier: MIT
 *
 * Listing: everything below the root, flat, or the children of one directory, in ascending byte
 * order of URI, from any position on.
 *
 * The order of encoded names, directories with their '/', is the order of the URIs of a depth-first
 * walk, because everything below "a/" begins with "a/". So a page needs no memory of earlier pages:
 * directories before the cursor are skipped unread. Memory: the names of one directory per level. A
 * heap yields the names in order, so that a page of a huge directory does not sort all of it.
 *
 * A listing begins on the thread of the request, with a budget of names that covers small trees,
 * because a hand-over to another thread costs as much as twenty rows. If the budget is exhausted
 * before the page is full, the pool continues after the last row, like the next page, without a
 * budget.
 */
#include "sources/file_list.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "formats/uri.h"
#include "sources/file_internal.h"

/* -------------------------------------------------------------------------------------------------
 * The names of one directory, read at once and taken one by one in order: from a heap, so that a
 * page of a huge directory does not sort all of it.
 */

#define MAX_NAMES 2000000u
#define MAX_NAMES_BYTES (1u << 30)
#define RECORDS_BYTES 16384u

static void file_names_init(struct file_names *n, size_t budget)
{
    *n = (struct file_names){.budget = budget};
    buf_init(&n->text, MAX_NAMES_BYTES);
}

static void file_names_deinit(struct file_names *n)
{
    buf_deinit(&n->text);
    mem_free(n->heap);
}

/* Returns the name as a segment of a URI. */
static struct tidings_str file_name_encoded(const struct file_names *n, const struct file_name *e)
{
    return tidings_strn(n->text.ptr + e->encoded, e->encoded_len);
}

static bool is_before(const struct file_names *n, size_t a, size_t b)
{
    const struct file_name *x = &n->heap[a], *y = &n->heap[b];
    return x->begin != y->begin ? x->begin < y->begin
                                : str_cmp(file_name_encoded(n, x), file_name_encoded(n, y)) < 0;
}

static void file_names_sift_down(struct file_names *n, size_t at)
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
        struct file_name swap = n->heap[at];
        n->heap[at] = n->heap[child];
        n->heap[child] = swap;
        at = child;
    }
}

static bool file_names_pop(struct file_names *n, struct file_name *ret)
{
    if (n->count == 0) {
        return false;
    }
    *ret = n->heap[0];
    n->heap[0] = n->heap[--n->count];
    file_names_sift_down(n, 0);
    return true;
}

/* The directory that contains the cursor's row is entered although its row was already returned. */
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

/* Reserves space for the names in this many bytes of records. */
static int names_reserve(struct file_names *n, size_t records_bytes)
{
    const size_t smallest = 24; /* a name of up to four bytes */
    size_t cap = n->count + records_bytes / smallest + 1;
    if (cap > n->cap) {
        cap = cap < n->cap * 2 ? n->cap * 2 : cap;
        struct file_name *heap = mem_realloc(n->heap, cap * sizeof *heap);
        if (!heap) {
            return TIDINGS_E_NOMEM;
        }
        n->heap = heap;
        n->cap = cap;
    }
    return buf_reserve(&n->text, records_bytes);
}

/* The space is reserved (names_reserve). */
static int names_add(struct file_names *n, struct tidings_str raw, const struct file_name *kind,
                     struct tidings_str after)
{
    struct file_name e = *kind;
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
    if (!is_wanted(file_name_encoded(n, &e), e.is_directory && !e.is_link, after)) {
        n->text.len = mark;
        return 0;
    }
    e.begin = begin_of(file_name_encoded(n, &e));
    n->heap[n->count++] = e;
    return 0;
}

/* The record format of getdents64(2). */
struct record {
    uint64_t inode;
    int64_t next;
    uint16_t bytes; /* size of this record */
    uint8_t type;
    char name[];
};

/* Classifies an entry. Returns 1 if it is served. Most file systems need no stat. */
static int file_names_classify(const struct file_root *root, int dir, const struct record *r,
                               const char *path, struct file_name *ret)
{
    *ret = (struct file_name){0};
    if (r->type == DT_REG || r->type == DT_DIR) {
        ret->is_directory = r->type == DT_DIR;
        return 1;
    }
    struct file_info info;
    if (r->type != DT_LNK && r->type != DT_UNKNOWN) {
        return 0;
    }
    int rc = file_stat_in(root, dir, path, &info, NULL);
    if (rc < 0) {
        return file_is_short(rc) ? error_code_from_errno(-rc) : 0;
    }
    ret->is_directory = file_kind(&info) == FILE_DIRECTORY;
    ret->is_link = info.is_link;
    return file_kind(&info) != FILE_OTHER;
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Appends a segment to a path. */
static void file_path_push(struct buf *path, struct tidings_str name)
{
    if (path->len > 0) {
        buf_putc(path, '/');
    }
    buf_puts(path, name);
}

/* Removes it again. */
static void file_path_cut(struct buf *path, size_t len)
{
    path->failed = 0;
    path->len = len;
    if (path->ptr) {
        path->ptr[len] = '\0';
    }
}

/* Adds one record of the directory `dir`, whose path is in `path`. */
static int names_take(struct file_names *n, const struct file_root *root, int dir,
                      const struct record *r, struct buf *path, struct tidings_str after)
{
    struct tidings_str raw = tidings_str(r->name);
    struct file_name kind;
    size_t mark = path->len;
    int rc = 0;
    file_path_push(path, raw);
    if (!path->failed && !file_is_excluded(root, buf_str(path))) {
        rc = file_names_classify(root, dir, r, path->ptr, &kind);
    }
    if (rc > 0) {
        rc = names_add(n, raw, &kind, after);
    }
    file_path_cut(path, mark);
    return rc;
}

/* Reads the entries of the directory `dir` after `after`. Returns 1 if the budget does not suffice;
 * the names are then, as after a failure, incomplete and unordered. */
static int file_names_read(struct file_names *n, const struct file_root *root, int dir,
                           struct buf *path, struct tidings_str after)
{
    union {
        struct record first; /* for its alignment */
        char bytes[RECORDS_BYTES];
    } records;
    long got;
    int rc = 0;
    while (rc == 0 && (got = syscall(SYS_getdents64, dir, records.bytes, sizeof records)) != 0) {
        if (got < 0 && errno == ENOENT) {
            break; /* it was removed after it was opened: it is empty */
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
        file_names_sift_down(n, i - 1);
    }
    return rc;
}

/* Builds the target (see file_open_beneath) of `name` in a directory that has a target. */
static void file_target_below(struct buf *target, const struct buf *dir_target,
                              struct tidings_str name)
{
    buf_puts(target, buf_str(dir_target));
    if (dir_target->len > 1) {
        buf_putc(target, '/');
    }
    buf_puts(target, name);
}

/* The receiver of names. */
struct telling {
    const struct file_provider *f;
    const struct file_policy *policy;
    struct buf dir_target; /* where links led to the directory */
};

/* Returns true if the target of the name permits it to be listed. `path` is that of the
 * directory. */
static bool may_tell(const struct telling *t, int dir, const struct file_name *e,
                     struct tidings_str raw, struct buf *path)
{
    struct buf target;
    struct file_info info;
    size_t mark = path->len;
    bool is_there = true;
    if (!e->is_link && t->dir_target.len == 0) {
        return true;
    }
    buf_init(&target, FILE_WHERE_SIZE + 256);
    if (e->is_link) {
        file_path_push(path, raw);
        is_there = !path->failed && file_stat_in(&t->f->root, dir, path->ptr, &info, &target) == 0;
        file_path_cut(path, mark);
    } else {
        file_target_below(&target, &t->dir_target, raw);
    }
    bool may = is_there && file_policy_allows(t->f, t->policy, &target, e->is_directory);
    buf_deinit(&target);
    return may;
}

int file_each_name(const struct file_provider *f, struct tidings_str path,
                   const struct file_policy *policy, file_name_fn fn, void *user,
                   struct tidings_error *err)
{
    struct file_names names;
    struct telling t = {.f = f, .policy = policy};
    struct buf where;
    file_names_init(&names, SIZE_MAX);
    buf_init(&t.dir_target, FILE_WHERE_SIZE + 1);
    buf_init(&where, FILE_MAX_PATH);
    buf_puts(&where, path);
    int dir = where.failed ? where.failed
                           : file_open_beneath(&f->root, f->root.fd, where.ptr,
                                               O_RDONLY | O_DIRECTORY, &t.dir_target);
    int rc = dir < 0 ? error_errno(err, where.failed ? ENOMEM : -dir, "open directory")
                     : file_names_read(&names, &f->root, dir, &where, STR_EMPTY);
    if (dir >= 0 && rc < 0) {
        tidings_fail(err, rc, "reading the directory: %s", tidings_code_text(rc));
    }
    struct file_name e;
    bool more = true;
    while (rc == 0 && more && file_names_pop(&names, &e)) {
        struct tidings_str raw = tidings_strn(names.text.ptr + e.raw, e.raw_len);
        if (may_tell(&t, dir, &e, raw, &where)) {
            more = fn(user, raw, file_name_encoded(&names, &e));
        }
    }
    if (dir >= 0) {
        close(dir);
    }
    buf_deinit(&t.dir_target);
    buf_deinit(&where);
    file_names_deinit(&names);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Completion of a path: the variable `path` of the template "prefix{+path}", one directory at a
 * time, like a shell.
 *
 * A suggestion expands to the URI of the file. A reserved expansion leaves '?', '#', '%' and the
 * like unchanged, so names with such characters are suggested in URI form, and all others in
 * readable form. The input can have either form.
 */

#define EXPRESSION "{+path}"

/* Owns itself until it has finished. */
struct complete_job {
    const struct file_provider *f;
    struct tidings_complete *complete;
    struct buf path; /* the directory */
    struct buf stem; /* required prefix of names */
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

/* Returns true if `{+path}` expands this name to its segment. */
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
    const struct file_policy policy = {file_complete_may_show, job->complete};
    job->rc = 1;
    int rc = file_each_name(job->f, buf_str(&job->path), &policy, file_complete_suggest, job, NULL);
    if (rc == TIDINGS_E_NOMEM || rc == TIDINGS_E_BUSY) {
        job->rc = rc;
    } /* otherwise a path that is not a readable directory has no suggestions */
    file_complete_finish(job, job->rc < 0 ? job->rc : 0, NULL);
}

/* Writes the segments of the directory, each in the same form as its names. */
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

/* Splits the input into a directory and the beginning of a name. Returns 0, or 1 if no such
 * directory can exist. */
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

/* ---------------------------------------------------------------------------------------------- */

#define BUDGET 128u       /* names, on the thread of the request */
#define DIRECTORY_COST 4u /* opening a directory, in names */

/* ---- walking --------------------------------------------------------------------------------- */

struct walk {
    const struct file_provider *f;
    struct tidings_list *list;
    struct tidings_str after; /* the cursor */
    struct buf path;          /* of the current directory or entry */
    struct buf uri;
    struct buf dir_target; /* where links led to the requested directory, see file_open_beneath … */
    struct buf target;     /* … and to the entry */
    bool is_deep;
    bool is_full;
    size_t budget;   /* see struct file_names */
    struct buf rest; /* not empty: the budget is exhausted, rows after this URI are missing */
    unsigned depth;
    struct tidings_error err;
};

static bool file_list_may_show(const void *list, struct tidings_str uri)
{
    return tidings_list_shows(list, uri);
}

/* Returns the row of the entry at path and uri. 1: continue; 0: stop (it is gone, or the page is
 * full); or a failure. */
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
    const struct file_policy policy = {file_list_may_show, w->list};
    if (!file_policy_allows(w->f, &policy, &w->target, e->is_directory)) {
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

/* The budget does not suffice for the directory at w->uri. Its row, if it has one, was returned,
 * unless the cursor is below it. */
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
    if (child < 0) { /* gone, or hidden: it has no rows */
        return file_is_short(child) ? file_refuse(&w->err, child, buf_str(&w->uri)) : 0;
    }
    w->depth++;
    int rc = walk_directory(w, child, after);
    w->depth--;
    close(child);
    return rc;
}

/* Handles one entry of a directory and, in a deep walk, everything below it. */
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
        rc = 0; /* below the requested directory, unreadable directories have no rows */
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
        if (!w->path.failed && !w->uri.failed) { /* longer paths cannot be requested */
            rc = walk_entry(w, dir, &names, &e, after);
        }
        file_path_cut(&w->path, path_mark);
        file_path_cut(&w->uri, uri_mark);
    }
    file_names_deinit(&names);
    return rc;
}

/* Gets the part of the cursor below the directory at w->uri. Returns false if all rows are before
 * the cursor. */
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

/* Explains why `uri` did not open as a directory, if that may be disclosed. */
static int refuse_directory(struct walk *w, int negative_errno, struct tidings_str uri)
{
    struct file_info info;
    const struct file_policy policy = {file_list_may_show, w->list};
    if (file_is_short(negative_errno)) {
        return file_refuse(&w->err, negative_errno, uri);
    }
    buf_clear(&w->path);
    int rc = file_resolve(w->f, uri, &w->path, &info, &policy, &w->err);
    if (rc == 0 && negative_errno != -ENOTDIR) {
        rc = file_refuse(&w->err, negative_errno, uri);
    }
    return rc < 0 ? rc
                  : tidings_fail(&w->err, TIDINGS_E_INVALID, "'%.*s' is a file and has no children",
                                 STR_ARG(uri));
}

/* Opens the requested directory. */
static int open_top(struct walk *w)
{
    const struct file_policy policy = {file_list_may_show, w->list};
    int dir = file_open_beneath(&w->f->root, w->f->root.fd, w->path.ptr, O_RDONLY | O_DIRECTORY,
                                &w->dir_target);
    if (dir >= 0 && !file_policy_allows(w->f, &policy, &w->dir_target, true)) {
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
