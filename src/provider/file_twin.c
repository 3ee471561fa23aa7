/* SPDX-License-Identifier: MIT
 *
 * Hard links: a file with two names in the tree is written through one, and the kernel tells of
 * that name alone. So when a file that has more names was found changed, the others are looked for
 * among the nodes (by the number of the inode) and looked at too.
 *
 * That goes through all nodes; it happens a moment after the change, for all changes up to then,
 * and so rarely that it takes a small part of the time. Names outside the root are found by nobody.
 */
#include "base/clock.h"
#include "base/loop.h"
#include "provider/file_watcher.h"

#define SEARCH_MS 10u    /* after a change */
#define PAUSE_FACTOR 20u /* times what a search took, before the next */

void file_twin_changed(struct file_watch *w, const struct stat *st)
{
    if (st->st_nlink < 2) {
        return;
    }
    uint32_t inode = (uint32_t)st->st_ino;
    for (size_t i = 0; i < w->twin_count; i++) {
        if (w->twins[i] == inode) {
            return;
        }
    }
    if (w->twin_count < FILE_TWINS_MAX) {
        w->twins[w->twin_count] = inode;
    }
    w->twin_count++; /* more than there is room for: all files are looked at */
    if (!loop_timer_is_running(w->twin_timer)) {
        uint64_t now = clock_monotonic_ms();
        uint64_t wait = w->twin_next_ms > now ? w->twin_next_ms - now : 0;
        loop_timer_start(w->twin_timer, wait > SEARCH_MS ? wait : SEARCH_MS, 0);
    }
}

static bool is_wanted(const struct file_watch *w, size_t count, uint32_t inode)
{
    bool found = count > FILE_TWINS_MAX;
    for (size_t i = 0; !found && i < count; i++) {
        found = w->twins[i] == inode;
    }
    return found;
}

static void search(struct file_watch *w, const struct file_node *dir, size_t count)
{
    for (const struct file_node *node = dir->children; node; node = node->next) {
        const unsigned kind = FILE_NODE_PRESENT | FILE_NODE_DIRECTORY | FILE_NODE_LINK;
        if ((node->flags & kind) == FILE_NODE_PRESENT && is_wanted(w, count, node->inode)) {
            file_event_look(w, node);
        }
        search(w, node, count);
    }
}

static void on_search(struct loop_timer *timer, void *user)
{
    struct file_watch *w = user;
    (void)timer;
    uint64_t begun = clock_monotonic_ms();
    search(w, w->tree.root, w->twin_count);
    w->twin_count = 0;
    uint64_t now = clock_monotonic_ms();
    w->twin_next_ms = now + PAUSE_FACTOR * (now - begun);
    file_event_schedule(w);
}

int file_twin_init(struct file_watch *w, struct tidings_error *err)
{
    w->twin_timer = loop_timer_open(w->actor.loop, on_search, w);
    return w->twin_timer ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void file_twin_deinit(struct file_watch *w)
{
    loop_timer_close(w->twin_timer);
}
