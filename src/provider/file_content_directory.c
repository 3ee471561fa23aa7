/* SPDX-License-Identifier: MIT
 *
 * Reading a directory. First an element for the directory itself, whose text is the names in it;
 * then its children, in the order of their URIs, each with its own metadata: files with their
 * content, directories with the names in them. As many as there is room for: a child that does not
 * fit is left out, and all of them are to be had by listing.
 *
 * It goes one level deep and follows no link twice, so a cycle of links cannot trap it.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "provider/file_content.h"
#include "provider/file_names.h"
#include "provider/file_private.h"

#define MAX_NAMES 10000u
#define MAX_CHILDREN 64u
#define CHILDREN_BYTES 262144u

struct directory {
    const struct file_provider *f;
    struct tidings_read *read;
    struct tidings_str path;
    struct buf text;     /* the names */
    struct buf uri;      /* of the directory, and … */
    bool asks;           /* … whether its names may be told must be asked one by one */
    struct buf children; /* of the first: "d" or "f", the raw name, NUL */
    size_t name_count, child_count, child_max;
    size_t room; /* for the content of children */
};

/* Names that are no text, or hold a line break, percent-encoded. */
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
    const struct file_judge judge = {file_directory_may_show, d->read};
    int rc = file_each_name(d->f, d->path, &judge, add_name, d, err);
    if (rc == 0 && d->text.failed) {
        rc = tidings_fail(err, d->text.failed, "too many names");
    }
    return rc;
}

/* The element of a directory: its names. */
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
    struct file_judge judge = file_read_judge(d->read);
    int fd = file_open_checked(d->f, path.ptr, uri, info, &judge, err);
    if (fd == TIDINGS_E_BUSY || fd == TIDINGS_E_NOMEM) {
        return fd;
    }
    if (fd < 0 || (size_t)info->st.st_size > d->room) {
        if (fd >= 0) {
            close(fd);
        }
        return 0;
    }
    struct file_part part = {.fd = fd, .to = info->st.st_size};
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

/* A child that has gone, or is not for us, is left out. */
static int file_directory_give_child(struct directory *d, const char *record,
                                     struct tidings_error *err)
{
    struct file_info info;
    struct buf path, uri, target;
    struct file_judge judge = file_read_judge(d->read);
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
               file_judge_allows(d->f, &judge, &target, record[0] == 'd')) {
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

void file_read_directory(const struct file_provider *f, struct tidings_read *read,
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
