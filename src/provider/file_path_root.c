/* SPDX-License-Identifier: MIT
 *
 * The served directory itself: what its path means now. A directory that is removed and made again,
 * swapped by a rename, or reached through a link that is switched to the next release (`current`)
 * is another directory under the same path, and that one is served from then on.
 *
 * The descriptor keeps its number: dup3(2) puts another directory behind it in one step, so that
 * threads that use it meanwhile have either. While there is none, /dev/null is behind it, in which
 * nothing is found.
 *
 * Who may write above the root could put anything in its place, which the configuration never
 * named. So what is taken later must belong to the owner of the first one, and each link on the way
 * to that owner, to root or to us.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "provider/file_path.h"

#define MAX_LINKS 40

struct walk {
    const struct file_root *root;
    file_step_fn fn;
    void *user;
    int dir;             /* O_PATH: where we are */
    unsigned links;      /* followed so far */
    char rest[PATH_MAX]; /* what is left of the path */
};

/* Another directory to go on from. */
static int step_to(struct walk *w, int fd)
{
    if (fd < 0) {
        return -errno;
    }
    close(w->dir);
    w->dir = fd;
    return 0;
}

static bool may_follow(const struct file_root *root, const struct stat *link)
{
    return !root->has_owner || link->st_uid == root->owner || link->st_uid == 0 ||
           link->st_uid == geteuid();
}

/* The link open as `fd`: its text comes before what is left. */
static int follow_link(struct walk *w, int fd, const struct stat *st)
{
    char text[PATH_MAX];
    if (++w->links > MAX_LINKS) {
        return -ELOOP;
    }
    if (!may_follow(w->root, st)) {
        return -EPERM;
    }
    ssize_t len = readlinkat(fd, "", text, sizeof text);
    size_t left = strlen(w->rest);
    if (len <= 0) {
        return len < 0 ? -errno : -ENOENT;
    }
    if ((size_t)len + 1 + left >= sizeof w->rest) {
        return -ENAMETOOLONG;
    }
    memmove(w->rest + len + 1, w->rest, left + 1);
    memcpy(w->rest, text, (size_t)len);
    w->rest[len] = '/';
    return text[0] == '/' ? step_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : 0;
}

static int file_root_step(struct walk *w, const char *name)
{
    struct stat st;
    bool is_up = strcmp(name, "..") == 0;
    if (w->fn && !is_up) {
        w->fn(w->user, w->dir, name);
    }
    int fd = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISLNK(st.st_mode)) {
        return step_to(w, fd);
    }
    int rc = follow_link(w, fd, &st);
    close(fd);
    return rc;
}

int file_root_open(const struct file_root *root, file_step_fn fn, void *user)
{
    struct walk w = {.root = root, .fn = fn, .user = user};
    struct stat st;
    if ((size_t)snprintf(w.rest, sizeof w.rest, "%s", root->where) >= sizeof w.rest) {
        return -ENAMETOOLONG;
    }
    w.dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = w.dir < 0 ? -errno : 0;
    while (rc == 0 && w.rest[0]) {
        char name[NAME_MAX + 1];
        size_t len = strcspn(w.rest, "/");
        size_t next = len + strspn(w.rest + len, "/");
        rc = len > NAME_MAX ? -ENAMETOOLONG : 0;
        memcpy(name, w.rest, len > NAME_MAX ? 0 : len);
        name[len > NAME_MAX ? 0 : len] = '\0';
        memmove(w.rest, w.rest + next, strlen(w.rest + next) + 1);
        if (rc == 0 && len > 0 && strcmp(name, ".") != 0) {
            rc = file_root_step(&w, name);
        }
    }
    if (rc == 0 && fstat(w.dir, &st) < 0) {
        rc = -errno;
    } else if (rc == 0 && !S_ISDIR(st.st_mode)) {
        rc = -ENOTDIR;
    } else if (rc == 0 && root->has_owner && st.st_uid != root->owner) {
        rc = -EPERM;
    }
    if (rc < 0 && w.dir >= 0) {
        close(w.dir);
    }
    return rc < 0 ? rc : w.dir;
}

int file_root_start(struct file_root *root, struct tidings_str path, struct tidings_error *err)
{
    struct buf where;
    struct stat st;
    char cwd[PATH_MAX];
    buf_init(&where, PATH_MAX);
    if (path.ptr[0] != '/') {
        buf_puts(&where, getcwd(cwd, sizeof cwd) ? tidings_str(cwd) : STR_EMPTY);
        buf_putc(&where, '/');
    }
    buf_puts(&where, path);
    root->has_warned = mem_zalloc(sizeof *root->has_warned);
    if (where.failed || !root->has_warned) {
        buf_deinit(&where);
        return tidings_fail(err, where.failed ? where.failed : TIDINGS_E_NOMEM,
                            "the path of the root is too long, or out of memory");
    }
    root->where = buf_detach(&where, NULL);
    root->fd = file_root_open(root, NULL, NULL);
    if (root->fd < 0) {
        return error_errno(err, -root->fd, "open root '%.*s'", STR_ARG(path));
    }
    if (fstat(root->fd, &st) < 0) {
        return error_errno(err, errno, "open root '%.*s'", STR_ARG(path));
    }
    root->owner = st.st_uid;
    root->has_owner = true;
    return 0;
}

void file_root_close(struct file_root *root)
{
    if (root->fd >= 0) {
        close(root->fd);
    }
    mem_free(root->where);
    mem_free(root->has_warned);
}

/* ---- following ------------------------------------------------------------------------------- */

bool file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_nlink == b->st_nlink &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool file_root_stat(const struct file_root *root, struct stat *ret)
{
    return fstat(root->fd, ret) == 0 && S_ISDIR(ret->st_mode);
}

static void warn_once(const struct file_root *root)
{
    if (!__atomic_exchange_n(root->has_warned, true, __ATOMIC_RELAXED)) {
        log_warn(LOG_FILES, "another directory is at the path of a mount and not served",
                 KV("reason", "it, or a link on the way, is not of the user who owned the first"),
                 KV("owner", root->owner), KV("path", root->where));
    }
}

void file_root_follow(const struct file_root *root)
{
    struct stat is, was;
    bool was_there = file_root_stat(root, &was);
    bool is_there = stat(root->where, &is) == 0;
    if (!is_there && errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        return; /* that says nothing */
    }
    is_there = is_there && S_ISDIR(is.st_mode);
    if (is_there ? was_there && file_is_same(&is, &was) : !was_there) {
        return;
    }
    int fd = file_root_open(root, NULL, NULL);
    if (fd >= 0) {
        __atomic_store_n(root->has_warned, false, __ATOMIC_RELAXED);
    } else if (fd == -EPERM) {
        warn_once(root);
    }
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EPERM) {
        fd = open("/dev/null", O_PATH | O_CLOEXEC);
    }
    if (fd >= 0) { /* else it is tried again with the next request */
        (void)dup3(fd, root->fd, O_CLOEXEC);
        close(fd);
    }
}
