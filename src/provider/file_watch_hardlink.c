/* SPDX-License-Identifier: MIT
 *
 * Hard links: a file with two names in the tree is written through one, and the kernel tells of
 * that name alone. So when a file that has more names was found changed, the others are looked for
 * among the nodes (by the number of the inode) and looked at too.
 *
 * That goes through all nodes; it happens a moment after the change, for all changes up to then,
 * and so rarely that it takes a small part of the time. Names outside the root are found by nobody.
 *
 * A file that is subscribed to by itself may have names that nobody watches. The kernel is asked
 * about its inode: whether it gets another name, and while it has some, about writes. That takes a
 * watch for each file, so for FILE_INODES_MAX of them; files that have other names are also polled.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "provider/file_watch_private.h"

#define SEARCH_MS 10u    /* after a change */
#define PAUSE_FACTOR 20u /* times what a search took, before the next */

void file_hardlink_changed(struct file_watch *w, const struct stat *st)
{
    if (st->st_nlink < 2) {
        return;
    }
    uint32_t inode = (uint32_t)st->st_ino;
    for (size_t i = 0; i < w->hardlink_count; i++) {
        if (w->hardlinks[i] == inode) {
            return;
        }
    }
    if (w->hardlink_count < FILE_HARDLINKS_MAX) {
        w->hardlinks[w->hardlink_count] = inode;
    }
    w->hardlink_count++; /* more than there is room for: all files are looked at */
    if (!loop_timer_is_running(w->hardlink_timer)) {
        uint64_t now = clock_monotonic_ms();
        uint64_t wait = w->hardlink_next_ms > now ? w->hardlink_next_ms - now : 0;
        loop_timer_start(w->hardlink_timer, wait > SEARCH_MS ? wait : SEARCH_MS, 0);
    }
}

static bool file_hardlink_is_wanted(const struct file_watch *w, size_t count, uint32_t inode)
{
    bool found = count > FILE_HARDLINKS_MAX;
    for (size_t i = 0; !found && i < count; i++) {
        found = w->hardlinks[i] == inode;
    }
    return found;
}

static void file_hardlink_search(struct file_watch *w, const struct file_node *dir, size_t count)
{
    for (const struct file_node *node = dir->children; node; node = node->next) {
        const unsigned kind = FILE_NODE_PRESENT | FILE_NODE_DIRECTORY | FILE_NODE_LINK;
        if ((node->flags & kind) == FILE_NODE_PRESENT &&
            file_hardlink_is_wanted(w, count, node->inode)) {
            file_event_written(w, node);
        }
        file_hardlink_search(w, node, count);
    }
}

static void on_search(struct loop_timer *timer, void *user)
{
    struct file_watch *w = user;
    (void)timer;
    uint64_t begun = clock_monotonic_ms();
    file_hardlink_search(w, w->tree.root, w->hardlink_count);
    w->hardlink_count = 0;
    uint64_t now = clock_monotonic_ms();
    w->hardlink_next_ms = now + PAUSE_FACTOR * (now - begun);
    file_event_schedule(w);
}

/* ---- files that are scopes ------------------------------------------------------------------- */

static struct tidings_str file_hardlink_wd_key(const int *wd)
{
    return tidings_strn((const char *)wd, sizeof *wd);
}

void file_hardlink_unwatch(struct file_watch *w, struct watch_point *p)
{
    int wd = p->file_wd;
    if (wd >= 0) {
        map_remove(&w->by_file, file_hardlink_wd_key(&wd));
        p->file_wd = -1;
        p->file_mask = 0;
        (void)inotify_rm_watch(w->inotify, wd); /* fails when the file is gone: fine */
    }
}

static void warn_hardlinks(struct file_watch *w, const char *reason)
{
    file_watch_warn(w, FILE_WARN_HARDLINKS, "some files with other names are polled, not watched",
                    reason);
}

static int file_hardlink_add_watch(struct file_watch *w, const struct file_node *node,
                                   uint32_t mask)
{
    struct buf name;
    char path[sizeof "/proc/self/fd/" + 3 * sizeof(int)];
    buf_init(&name, FILE_MAX_PATH);
    file_node_path(node, &name);
    int fd = name.failed
                 ? -1
                 : file_open_beneath(w->root, w->root->fd, name.ptr, O_PATH | O_NOFOLLOW, NULL);
    buf_deinit(&name);
    if (fd < 0) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(w->inotify, path, mask);
    if (wd < 0 && (errno == ENOSPC || errno == ENOMEM)) {
        warn_hardlinks(w, file_watch_refusal(errno));
    }
    close(fd);
    return wd;
}

void file_hardlink_watch(struct file_watch *w, struct watch_point *p, const struct stat *st)
{
    uint32_t mask = IN_ATTRIB | (st->st_nlink > 1 ? IN_MODIFY | IN_CLOSE_WRITE : 0u);
    uint32_t before = p->file_mask;
    bool has_room =
        p->file_wd >= 0 || (w->by_file.count < FILE_INODES_MAX &&
                            w->by_wd.count + w->by_file.count < (size_t)w->settings->max_watches);
    int wd = has_room && w->inotify >= 0 ? file_hardlink_add_watch(w, p->node, mask) : -1;
    if (!has_room) {
        warn_hardlinks(w, "maxWatches, or 1,000 files, reached");
    }
    if (wd < 0) {
        return;
    }
    if (wd != p->file_wd) {
        if (map_find(&w->by_file, file_hardlink_wd_key(&wd))) {
            return; /* the same file under another name, which is told of both */
        }
        file_hardlink_unwatch(w, p);
        p->file_wd = wd;
        if (map_put(&w->by_file, file_hardlink_wd_key(&p->file_wd), p, NULL) <
            0) { /* keeps the key's place */
            p->file_wd = -1;
            (void)inotify_rm_watch(w->inotify, wd);
            warn_hardlinks(w, file_watch_refusal(ENOMEM));
            return;
        }
    }
    p->file_mask = mask;
    if (mask & ~before & IN_MODIFY) {
        file_hardlink_changed(w, st); /* what was written before we asked is found then */
    }
}

bool file_hardlink_event(struct file_watch *w, const struct inotify_event *e)
{
    struct watch_point *p = map_find(&w->by_file, file_hardlink_wd_key(&e->wd));
    if (!p) {
        return false;
    }
    if (e->mask & IN_IGNORED) {
        map_remove(&w->by_file, file_hardlink_wd_key(&e->wd));
        p->file_wd = -1;
        p->file_mask = 0;
    } else if (p->node->flags & FILE_NODE_PRESENT) {
        file_event_written(w, p->node);
    }
    return true;
}

int file_hardlink_init(struct file_watch *w, struct tidings_error *err)
{
    w->hardlink_timer = loop_timer_open(w->actor.loop, on_search, w);
    return w->hardlink_timer ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void file_hardlink_deinit(struct file_watch *w)
{
    loop_timer_close(w->hardlink_timer);
}
