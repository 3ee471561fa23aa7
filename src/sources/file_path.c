/* SPDX-License-Identifier: MIT
 *
 * Paths, URIs and containment. The functions are stateless. Only this part of the file provider
 * calls open(2) and similar functions below a root.
 */
#include "sources/file_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "formats/pattern.h"
#include "formats/uri.h"
#include "security/helper.h"

/* -------------------------------------------------------------------------------------------------
 * The served directory itself, that is, the current target of its path. A directory that is
 * recreated, replaced by a rename, or reached through a link that is switched to the next release
 * (`current`) is a different directory under the same path, and is served from then on.
 *
 * The descriptor keeps its number: dup3(2) replaces its directory in one step, so that concurrent
 * users have one or the other. While there is no directory, the descriptor refers to /dev/null, in
 * which all lookups fail.
 *
 * Users who may write above the root could put any directory in its place, which the configuration
 * never named. So a later directory must belong to the owner of the first one, and each link on the
 * way to that owner, to root or to the server's user.
 */

#define MAX_LINKS 40

struct walk {
    const struct file_root *root;
    file_step_fn fn;
    void *user;
    int dir;             /* O_PATH: the current directory */
    unsigned links;      /* followed so far */
    char rest[PATH_MAX]; /* the rest of the path */
};

/* Continues in another directory. */
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

/* Follows the link open as `fd`: its target is inserted before the rest of the path. */
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

static bool file_is_same(const struct stat *a, const struct stat *b)
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
        return; /* its state is unknown */
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
    if (fd >= 0) { /* otherwise the next request tries again */
        (void)dup3(fd, root->fd, O_CLOEXEC);
        close(fd);
    }
}

/* ---------------------------------------------------------------------------------------------- */

#define RACY_MS 2000
#define OPEN_TRIES 16

/* ---- names ----------------------------------------------------------------------------------- */

/* Gets the part of `uri` below the prefix. Returns false if it is not below it. */
static bool below_prefix(const struct file_root *root, struct tidings_str uri,
                         struct tidings_str *ret)
{
    struct tidings_str prefix = {root->prefix, root->prefix_len};
    if (str_starts(uri, prefix)) {
        *ret = str_skip(uri, prefix.len);
        return true;
    }
    *ret = STR_EMPTY; /* the mount itself, without its slash */
    return str_eq(uri, tidings_strn(prefix.ptr, prefix.len - 1));
}

/* Checks that there is no empty, "." or ".." segment, and that there are not too many. */
static bool is_plain(struct tidings_str path)
{
    size_t depth = 0;
    bool more = true;
    while (more) {
        struct tidings_str segment = str_cut(path, '/', &path, &more);
        if (segment.len == 0 || segment.len > 255 || str_eq(segment, STR(".")) ||
            str_eq(segment, STR("..")) || ++depth > FILE_MAX_DEPTH) {
            return false;
        }
    }
    return true;
}

static int file_path_not_found(struct tidings_error *err, struct tidings_str uri)
{
    return tidings_fail(err, TIDINGS_E_NOTFOUND, "no such file: '%.*s'", STR_ARG(uri));
}

/* Checks that `encoded` is the canonical spelling of `path`. */
static int check_spelling(struct tidings_str encoded, struct tidings_str path,
                          struct tidings_error *err)
{
    struct buf right;
    buf_init(&right, FILE_MAX_ENCODED);
    int rc = uri_encode_path(&right, path);
    if (rc < 0) {
        rc = tidings_fail(err, rc, "encoding a path: %s", tidings_code_text(rc));
    } else if (!str_eq(buf_str(&right), encoded)) {
        rc = tidings_fail(err, TIDINGS_E_NOTFOUND, "no such file: '%.*s' is spelled '%.*s'",
                          STR_ARG(encoded), STR_ARG(buf_str(&right)));
    }
    buf_deinit(&right);
    return rc;
}

/* Returns true if the path, or a directory above it, is hidden. */
static bool file_is_excluded_below(const struct file_root *root, struct tidings_str path)
{
    for (size_t i = 0; i < path.len; i++) {
        if (path.ptr[i] == '/' && file_is_excluded(root, tidings_strn(path.ptr, i))) {
            return true;
        }
    }
    return path.len > 0 && file_is_excluded(root, path);
}

int file_path_from_uri(const struct file_root *root, struct tidings_str uri, struct buf *path,
                       bool *ret_slash, struct tidings_error *err)
{
    struct tidings_str rest;
    if (!below_prefix(root, uri, &rest) || str_find(rest, '?') >= 0 || str_find(rest, '#') >= 0) {
        return file_path_not_found(err, uri);
    }
    *ret_slash = true;
    if (rest.len == 0) {
        int rc = buf_reserve(path, 0);
        return rc < 0 ? tidings_fail(err, rc, "%s", tidings_code_text(rc)) : 0;
    }
    if (rest.ptr[rest.len - 1] == '/') {
        rest.len--;
    } else {
        *ret_slash = false;
    }
    size_t mark = path->len;
    if (uri_decode(path, rest, NULL) < 0) {
        return path->failed ? tidings_fail(err, path->failed, "the path is too long")
                            : file_path_not_found(err, uri);
    }
    struct tidings_str decoded = str_skip(buf_str(path), mark);
    int rc = check_spelling(rest, decoded, err);
    if (rc < 0) {
        return rc;
    }
    if (!is_plain(decoded) || file_is_excluded_below(root, decoded)) {
        return file_path_not_found(err, uri);
    }
    return 0;
}

void file_path_to_uri(const struct file_root *root, struct tidings_str path, bool is_directory,
                      struct buf *out)
{
    buf_put(out, root->prefix, root->prefix_len);
    if (path.len > 0) {
        uri_encode_path(out, path);
        if (is_directory) {
            buf_putc(out, '/');
        }
    }
}

static struct tidings_str file_path_last_segment(struct tidings_str path)
{
    const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? str_skip(path, (size_t)(slash - path.ptr) + 1) : path;
}

bool file_is_excluded(const struct file_root *root, struct tidings_str path)
{
    if (root->excludes_git && str_eq(file_path_last_segment(path), STR(".git"))) {
        return true;
    }
    for (size_t i = 0; i < root->exclude_count; i++) {
        if (glob_matches_path(root->exclude[i], path)) {
            return true;
        }
    }
    return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_how(int dir, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
    };
    if (!(flags & O_PATH)) {
        how.flags |= O_NONBLOCK | O_NOCTTY;
    }
    for (int i = 0; i < OPEN_TRIES; i++) {
        long fd = syscall(SYS_openat2, dir, path[0] ? path : ".", &how, sizeof how);
        if (fd >= 0) {
            return (int)fd;
        }
        /* EAGAIN: a rename happened during the resolution of "..", so the kernel could not decide
         * whether the path stays inside. */
        if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
    }
    return -EAGAIN;
}

struct tidings_str file_where(int fd, char out[FILE_WHERE_SIZE])
{
    char link[32];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, FILE_WHERE_SIZE);
    return tidings_strn(out, n > 0 && n < (ssize_t)FILE_WHERE_SIZE ? (size_t)n : 0);
}

/* Gets the path of `fd` below the root. Returns false if it is unknown. */
static bool path_of(const struct file_root *root, int fd, char room[FILE_WHERE_SIZE],
                    struct tidings_str *ret)
{
    char root_room[FILE_WHERE_SIZE];
    struct tidings_str top = file_where(root->fd, root_room), path = file_where(fd, room);
    if (top.len == 0 || !str_starts(path, top) || str_ends(path, STR(" (deleted)"))) {
        return false;
    }
    path = str_skip(path, top.len);
    if (path.len > 0 && path.ptr[0] == '/') {
        path = str_skip(path, 1);
    } else if (path.len > 0 && top.len > 1) {
        return false; /* next to the root, not below it */
    }
    *ret = path;
    return true;
}

/* A confined process cannot read a directory that replaced the root later, but its helper can. Both
 * know the root by its name, so the path starts there. */
static int open_by_helper(const struct file_root *root, int dir, const char *path, int flags,
                          uint64_t resolve)
{
    char room[FILE_WHERE_SIZE], whole[FILE_MAX_PATH];
    struct tidings_str at;
    if (!path_of(root, dir, room, &at)) {
        return -EACCES;
    }
    int n = snprintf(whole, sizeof whole, "%.*s%s%s", STR_ARG(at), at.len > 0 ? "/" : "",
                     path[0] || at.len > 0 ? path : ".");
    if (n < 0 || (size_t)n >= sizeof whole) {
        return -ENAMETOOLONG;
    }
    int fd = helper_open_below(root->where, root->fd, whole, flags, resolve);
    return fd == -EPERM || fd == -ESRCH || fd == -ESTALE ? -EACCES : fd;
}

static int open_allowed(const struct file_root *root, int dir, const char *path, int flags,
                        uint64_t resolve)
{
    int fd = open_how(dir, path, flags, resolve);
    return fd == -EACCES && !(flags & O_PATH) && root->where && helper_is_there()
               ? open_by_helper(root, dir, path, flags, resolve)
               : fd;
}

/* Finds where links led, as a target. -ENOENT: to a path that is excluded under its own name, or is
 * unknown.
 */
static int led_to(const struct file_root *root, int fd, struct buf *target)
{
    char room[FILE_WHERE_SIZE];
    struct tidings_str path;
    if (!path_of(root, fd, room, &path) || file_is_excluded_below(root, path)) {
        return -ENOENT;
    }
    if (target) {
        buf_putc(target, '/');
        buf_puts(target, path);
    }
    return target && target->failed ? -ENOMEM : 0;
}

int file_open_beneath(const struct file_root *root, int dir, const char *path, int flags,
                      struct buf *target)
{
    if (target) {
        buf_clear(target);
    }
    int fd = open_allowed(root, dir, path, flags, RESOLVE_NO_SYMLINKS);
    if (fd != -ELOOP) {
        return fd;
    }
    fd = open_allowed(root, dir, path, flags, 0);
    int rc = fd < 0 ? fd : led_to(root, fd, target);
    if (rc < 0 && fd >= 0) {
        close(fd);
    }
    return rc < 0 ? rc : fd;
}

void file_target_uri(const struct file_root *root, const struct buf *target, bool is_directory,
                     struct buf *out)
{
    file_path_to_uri(root, str_skip(buf_str(target), 1), is_directory, out);
}

static int stat_beneath(const struct file_root *root, const char *path, int flags, struct stat *ret,
                        struct buf *target)
{
    int fd = file_open_beneath(root, root->fd, path, O_PATH | flags, target);
    if (fd < 0) {
        return fd;
    }
    int rc = fstat(fd, ret) < 0 ? -errno : 0;
    close(fd);
    return rc;
}

int file_stat(const struct file_root *root, const char *path, struct file_info *ret,
              struct buf *target)
{
    int rc = stat_beneath(root, path, O_NOFOLLOW, &ret->st, target);
    ret->is_link = rc == 0 && S_ISLNK(ret->st.st_mode);
    return ret->is_link ? stat_beneath(root, path, 0, &ret->st, target) : rc;
}

int file_stat_in(const struct file_root *root, int dir, const char *path, struct file_info *ret,
                 struct buf *target)
{
    const char *slash = strrchr(path, '/');
    if (target) {
        buf_clear(target);
    }
    if (fstatat(dir, slash ? slash + 1 : path, &ret->st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) <
        0) {
        return -errno;
    }
    ret->is_link = S_ISLNK(ret->st.st_mode);
    return ret->is_link ? stat_beneath(root, path, 0, &ret->st, target) : 0;
}

int file_open_regular(const struct file_root *root, const char *path, struct file_info *ret)
{
    struct stat there;
    char where[PATH_MAX];
    size_t len = strlen(root->where), path_len = strlen(path);
    if (path_len == 0 || memchr(path, '/', path_len) || len + path_len + 2 > sizeof where) {
        return -1;
    }
    memcpy(where, root->where, len);
    where[len] = '/';
    memcpy(where + len + 1, path, path_len + 1);
    /* Only regular files are opened. The check does not follow the last name, so it cannot leave
     * the directory at the root's path. */
    if (fstatat(AT_FDCWD, where, &there, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
        !S_ISREG(there.st_mode)) {
        return -1;
    }
    int fd = file_open_beneath(root, root->fd, path, O_RDONLY | O_NOFOLLOW, NULL);
    if (fd < 0) {
        return -1;
    }
    /* The file or the directory may have been replaced since, so only this result is reliable. */
    if (fstat(fd, &ret->st) < 0 || !S_ISREG(ret->st.st_mode) || !file_is_same(&ret->st, &there)) {
        close(fd);
        return -1;
    }
    ret->is_link = false;
    return fd;
}

bool file_is_short(int negative_errno)
{
    return negative_errno == -EMFILE || negative_errno == -ENFILE || negative_errno == -ENOMEM;
}

int file_refuse(struct tidings_error *err, int negative_errno, struct tidings_str uri)
{
    switch (-negative_errno) {
    case EXDEV:
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "'%.*s' leads out of the directory that is served", STR_ARG(uri));
    case ELOOP:
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "'%.*s' goes through a link that is not followed", STR_ARG(uri));
    case EMFILE:
    case ENFILE:
        return tidings_fail(err, TIDINGS_E_BUSY,
                            "'%.*s': the server is out of descriptors; try again later",
                            STR_ARG(uri));
    default:
        return error_errno(err, -negative_errno, "'%.*s'", STR_ARG(uri));
    }
}

enum file_kind file_kind(const struct file_info *info)
{
    if (S_ISREG(info->st.st_mode)) {
        return FILE_REGULAR;
    }
    return S_ISDIR(info->st.st_mode) ? FILE_DIRECTORY : FILE_OTHER;
}

/* ---- states ---------------------------------------------------------------------------------- */

static uint64_t hash_words(const uint64_t *words, size_t count)
{
    return str_hash(tidings_strn((const char *)words, count * sizeof *words), 0);
}

uint64_t file_device_print(dev_t device)
{
    uint64_t word = (uint64_t)device;
    return hash_words(&word, 1);
}

uint64_t file_print(const struct stat *st)
{
    uint64_t words[] = {
        (uint64_t)st->st_ino,
        (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec,
        (uint64_t)st->st_size,
    };
    return hash_words(words, sizeof words / sizeof words[0]) ^ file_device_print(st->st_dev);
}

uint64_t file_identity(const struct stat *st)
{
    uint64_t words[] = {(uint64_t)st->st_ino, 0};
    return hash_words(words, sizeof words / sizeof words[0]) ^ file_device_print(st->st_dev);
}

void file_etag(const struct stat *st, char out[FILE_ETAG_SIZE])
{
    int64_t changed_ms = (int64_t)st->st_ctim.tv_sec * 1000 + st->st_ctim.tv_nsec / 1000000;
    int64_t age_ms = clock_wall_coarse_ms() - changed_ms;
    uint64_t print = file_print(st);
    if (age_ms < RACY_MS) {
        *out++ = 'W';
        *out++ = '/';
    }
    for (size_t i = 16; i > 0; i--, print >>= 4) {
        out[i - 1] = "0123456789abcdef"[print & 15];
    }
    out[16] = '\0';
}

int64_t file_modified_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}
