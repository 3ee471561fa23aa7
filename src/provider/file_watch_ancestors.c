/* SPDX-License-Identifier: MIT
 *
 * Watching what lies above the root: the directories on the way to it, in each of which one name
 * counts, and the mounts of the system, since one on top of a directory makes no event in it. When
 * either says something, the root is opened anew, and everything in any scope is compared with what
 * is there now: what differs is announced, a file that is another one under its name as an update.
 *
 * A directory on the way that cannot be watched is asked about with every poll.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/confined_file.h"
#include "base/error.h"
#include "base/loop.h"
#include "provider/file_watch_private.h"

#define ABOVE_MASK                                                                                 \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |         \
     IN_ONLYDIR | IN_MASK_ADD)
#define SELF_MASK (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)
#define MOUNT_LINES_MAX 4194304u /* bytes */

/* ---- the way to the root --------------------------------------------------------------------- */

bool file_ancestors_has(const struct file_watch *w, int wd)
{
    for (size_t i = 0; i < w->ancestor_count; i++) {
        if (w->ancestors[i].wd == wd) {
            return true;
        }
    }
    return false;
}

bool file_ancestors_concerns(const struct file_watch *w, const struct inotify_event *e)
{
    for (size_t i = 0; i < w->ancestor_count; i++) {
        if (w->ancestors[i].wd == e->wd &&
            (e->len == 0 ? (e->mask & SELF_MASK) != 0
                         : strcmp(e->name, w->ancestors[i].name) == 0)) {
            return true;
        }
    }
    return false;
}

static void on_step(void *user, int dir, const char *name)
{
    struct file_watch *w = user;
    char path[sizeof "/proc/self/fd/" + 3 * sizeof dir];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    bool has_room =
        w->ancestor_count < FILE_ANCESTORS_MAX && strlen(name) < sizeof w->ancestors[0].name;
    int wd = has_room && w->inotify >= 0 ? inotify_add_watch(w->inotify, path, ABOVE_MASK) : -1;
    if (wd < 0) {
        w->ancestors_are_polled = true;
        file_watch_warn(w, FILE_WARN_ABOVE, "the way to a root is polled, not watched",
                        !has_room         ? "too many directories, or too long a name"
                        : w->inotify >= 0 ? file_watch_refusal(errno)
                                          : "no inotify instance");
        return;
    }
    struct file_ancestor *a = &w->ancestors[w->ancestor_count++];
    a->wd = wd;
    (void)snprintf(a->name, sizeof a->name, "%s", name);
}

static void file_ancestors_unwatch(struct file_watch *w, int wd)
{
    bool is_point = map_find(&w->by_wd, tidings_strn((const char *)&wd, sizeof wd)) != NULL;
    if (!is_point && !file_ancestors_has(w, wd)) {
        (void)inotify_rm_watch(w->inotify, wd); /* fails when it is gone: fine */
    }
}

/* Watch the way as it is now, each directory before its name is looked up. */
static void file_ancestors_arm(struct file_watch *w)
{
    int before[FILE_ANCESTORS_MAX];
    size_t count = w->ancestor_count;
    if (w->scopes.count == 0) {
        return; /* nobody needs it */
    }
    for (size_t i = 0; i < count; i++) {
        before[i] = w->ancestors[i].wd;
    }
    w->ancestor_count = 0;
    w->ancestors_are_polled = false;
    int fd = file_root_open(w->root, on_step, w);
    if (fd >= 0) {
        close(fd);
    } else if (file_is_short(fd)) {
        w->ancestors_are_polled = true; /* half the way perhaps */
    }
    for (size_t i = 0; i < count; i++) {
        file_ancestors_unwatch(w, before[i]);
    }
    if (w->ancestors_are_polled && !loop_timer_is_running(w->poll_timer)) {
        loop_timer_start(w->poll_timer, (uint64_t)w->settings->poll_ms,
                         (uint64_t)w->settings->poll_ms);
    }
}

void file_ancestors_rest(struct file_watch *w)
{
    size_t count = w->ancestor_count;
    w->ancestor_count = 0;
    w->ancestors_are_polled = false;
    for (size_t i = 0; i < count; i++) {
        file_ancestors_unwatch(w, w->ancestors[i].wd);
    }
}

/* A look that fails for want of something says nothing: it is made again later. */
static void compare_root(struct file_watch *w, bool must_compare)
{
    struct stat st;
    file_root_follow(w->root);
    errno = 0;
    bool is_there = file_root_stat(w->root, &st);
    if (!is_there && errno != 0) {
        file_retry_errno(w, errno);
        return;
    }
    file_scan_root(w, is_there ? &st : NULL, must_compare);
}

void file_ancestors_check(struct file_watch *w, bool must_compare)
{
    file_ancestors_arm(w);
    compare_root(w, must_compare);
}

void file_ancestors_ask(struct file_watch *w)
{
    if (!w->has_root || w->ancestors_are_polled || w->ancestor_count == 0) {
        file_ancestors_check(w, false);
        return;
    }
    compare_root(w, false);
}

/* ---- mounts ---------------------------------------------------------------------------------- */

/* The text of a path as it stands in mountinfo. */
static void file_ancestors_put_escaped(struct buf *out, struct tidings_str path)
{
    for (size_t i = 0; i < path.len; i++) {
        if (strchr(" \t\n\\", path.ptr[i])) {
            buf_putf(out, "\\%03o", (unsigned)(unsigned char)path.ptr[i]);
        } else {
            buf_putc(out, path.ptr[i]);
        }
    }
}

static int file_ancestors_read_all(int fd, struct buf *out)
{
    char chunk[16384];
    ssize_t got;
    (void)lseek(fd, 0, SEEK_SET);
    while ((got = read(fd, chunk, sizeof chunk)) > 0) {
        buf_put(out, chunk, (size_t)got);
    }
    return got < 0 ? -errno : out->failed;
}

/* A number that changes with what is mounted below `top`; 0: nothing is. */
static uint64_t hash_mounts(struct tidings_str lines, struct tidings_str top)
{
    uint64_t hash = 0;
    while (lines.len > 0) {
        struct tidings_str line = str_cut(lines, '\n', &lines, NULL), rest = line, point = line;
        for (int field = 0; field < 5; field++) {
            point = str_cut(rest, ' ', &rest, NULL);
        }
        if (str_starts(point, top) && point.len > top.len && point.ptr[top.len] == '/') {
            hash = str_hash(line, hash + 1);
        }
    }
    return hash;
}

/* -1: not to be known. */
static int read_mounts_hash(struct file_watch *w, uint64_t *ret)
{
    struct buf lines, top;
    char room[FILE_WHERE_SIZE];
    buf_init(&lines, MOUNT_LINES_MAX);
    buf_init(&top, 4 * sizeof room);
    struct tidings_str where = file_where(w->root->fd, room);
    file_ancestors_put_escaped(&top, where.len > 1 ? where : STR_EMPTY);
    int rc = file_ancestors_read_all(w->mounts, &lines) < 0 || top.failed ? -1 : 0;
    if (rc == 0) {
        *ret = hash_mounts(buf_str(&lines), buf_str(&top));
    }
    buf_deinit(&lines);
    buf_deinit(&top);
    return rc;
}

static void on_mounts(void *user)
{
    struct file_watch *w = user;
    uint64_t now = 0;
    bool is_known = read_mounts_hash(w, &now) == 0;
    bool must_compare = !is_known || now != w->mounts_hash;
    w->mounts_hash = is_known ? now : 0;
    file_ancestors_check(w, must_compare);
}

/* A confined process has it from its helper. Each watch opens its own: the kernel reports a change
 * once for each time the file was opened. */
void file_ancestors_init(struct file_watch *w)
{
    int fd = confined_file_descriptor(FILE_WATCH_MOUNTS);
    if (fd >= 0) {
        w->mounts = fd;
        (void)read_mounts_hash(w, &w->mounts_hash);
        w->mounts_poll = loop_change_poll_open(w->actor.loop, fd, on_mounts, w);
    }
    if (!w->mounts_poll) { /* mounts are then found with the next look */
        struct tidings_error why;
        (void)error_errno(&why, fd < 0 ? -fd : ENOMEM, "watch %s", FILE_WATCH_MOUNTS);
        file_watch_warn(w, FILE_WARN_MOUNTS, "mounted file systems are not noticed", why.text);
    }
}

void file_ancestors_deinit(struct file_watch *w)
{
    loop_change_poll_close(w->mounts_poll);
    if (w->mounts >= 0) {
        close(w->mounts);
    }
}
