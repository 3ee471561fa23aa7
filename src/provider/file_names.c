/* SPDX-License-Identifier: MIT
 *
 * The names of one directory, read at once and taken one by one in order: from a heap, so that a
 * page of a huge directory does not pay for sorting all of it.
 */
#include "provider/file_names.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "provider/file_private.h"
#include "uri/uri.h"

#define MAX_NAMES 2000000u
#define MAX_NAMES_BYTES (1u << 30)
#define RECORDS_BYTES 16384u

void file_names_init(struct file_names *n, size_t budget)
{
    *n = (struct file_names){.budget = budget};
    buf_init(&n->text, MAX_NAMES_BYTES);
}

void file_names_deinit(struct file_names *n)
{
    buf_deinit(&n->text);
    mem_free(n->heap);
}

struct tidings_str file_name_encoded(const struct file_names *n, const struct file_name *e)
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

bool file_names_pop(struct file_names *n, struct file_name *ret)
{
    if (n->count == 0) {
        return false;
    }
    *ret = n->heap[0];
    n->heap[0] = n->heap[--n->count];
    file_names_sift_down(n, 0);
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

/* There is room (names_reserve). */
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

/* What getdents64(2) writes. */
struct record {
    uint64_t inode;
    int64_t next;
    uint16_t bytes; /* of this record */
    uint8_t type;
    char name[];
};

/* Is it something we serve (1), and what? Most file systems say without a stat. */
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

/* Append a segment to a path or forget it again. */
void file_path_push(struct buf *path, struct tidings_str name)
{
    if (path->len > 0) {
        buf_putc(path, '/');
    }
    buf_puts(path, name);
}

void file_path_cut(struct buf *path, size_t len)
{
    path->failed = 0;
    path->len = len;
    if (path->ptr) {
        path->ptr[len] = '\0';
    }
}

/* One record of the directory `dir`, whose path is in `path`. */
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

/* Read the directory `dir`. What comes after `after` only. 1 when the budget does not suffice; the
 * names are then, as after a failure, not all there and in no order. */
int file_names_read(struct file_names *n, const struct file_root *root, int dir, struct buf *path,
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
        file_names_sift_down(n, i - 1);
    }
    return rc;
}

void file_target_below(struct buf *target, const struct buf *dir_target, struct tidings_str name)
{
    buf_puts(target, buf_str(dir_target));
    if (dir_target->len > 1) {
        buf_putc(target, '/');
    }
    buf_puts(target, name);
}

/* Whom names are told to. */
struct telling {
    const struct file_provider *f;
    const struct file_judge *judge;
    struct buf dir_target; /* where links led to the directory */
};

/* May the name be told, by what it leads to? `path` is that of the directory. */
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
    bool may = is_there && file_judge_allows(t->f, t->judge, &target, e->is_directory);
    buf_deinit(&target);
    return may;
}

int file_each_name(const struct file_provider *f, struct tidings_str path,
                   const struct file_judge *judge, file_name_fn fn, void *user,
                   struct tidings_error *err)
{
    struct file_names names;
    struct telling t = {.f = f, .judge = judge};
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
