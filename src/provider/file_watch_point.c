/* SPDX-License-Identifier: MIT
 *
 * Watch points of a watched tree: which nodes have a scope, a kernel watch, or are polled.
 *
 * Invariant: a point has a kernel watch exactly while by_wd finds it; it is in the list `polled`
 * exactly while is_polled. A point that has neither and no scope is freed by watch_point_tidy.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "provider/file_watch_private.h"

#define WATCH_MASK                                                                                 \
    (IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_ATTRIB |            \
     IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

bool watch_point_has_scope(const struct watch_point *p)
{
    return p && (p->wants_file || p->wants_tree || p->below > 0);
}

/* Is the node a tree scope or inside one? */
bool file_node_is_deep(const struct file_node *node)
{
    for (; node; node = node->parent) {
        if (node->extra && watch_point_of(node)->wants_tree) {
            return true;
        }
    }
    return false;
}

static bool is_through_link(const struct file_node *node)
{
    for (; node; node = node->parent) {
        if (node->flags & FILE_NODE_LINK) {
            return true;
        }
    }
    return false;
}

bool file_node_is_directory(const struct file_node *node)
{
    const unsigned both = FILE_NODE_PRESENT | FILE_NODE_DIRECTORY;
    return (node->flags & both) == both;
}

bool file_node_is_armed(const struct file_node *node)
{
    const struct watch_point *p = watch_point_of(node);
    return p && (p->wd >= 0 || p->is_polled);
}

/* Must we know what happens in this directory? Behind a link only if a scope leads there. */
bool file_node_is_needed(const struct file_node *node)
{
    const struct watch_point *p = watch_point_of(node);
    if (!file_node_is_directory(node) || file_node_depth(node) >= FILE_MAX_DEPTH) {
        return false;
    }
    bool has_scope_inside = p && (p->wants_tree || p->below > 0);
    return has_scope_inside || (!(node->flags & FILE_NODE_LINK) && file_node_is_deep(node));
}

void file_node_target(const struct file_node *node, struct buf *out)
{
    const struct file_node *chain[FILE_MAX_DEPTH + 1];
    size_t depth = 0;
    while (node && !(node->flags & FILE_NODE_LINK)) {
        if (depth == sizeof chain / sizeof chain[0]) {
            out->failed = TIDINGS_E_LIMIT; /* deeper than anything is watched */
            return;
        }
        chain[depth++] = node;
        node = node->parent;
    }
    if (!node) {
        return;
    }
    const struct watch_point *p = watch_point_of(node);
    if (!p || !p->target) {
        out->failed = TIDINGS_E_NOMEM; /* it was not to be had when the link was looked at */
        return;
    }
    buf_puts(out, tidings_str(p->target));
    while (depth > 0) {
        if (out->len > 1) {
            buf_putc(out, '/');
        }
        buf_puts(out, file_node_name(chain[--depth]));
    }
}

bool file_node_is_tracked(const struct file_node *dir, const struct file_node *node)
{
    return (node && watch_point_has_scope(watch_point_of(node))) || file_node_is_deep(dir);
}

struct watch_point *watch_point_ensure(struct file_watch *w, struct file_node *node)
{
    struct watch_point *p = watch_point_of(node);
    if (p) {
        return p;
    }
    p = mem_zalloc(sizeof *p);
    if (!p) {
        file_retry_add(w, TIDINGS_E_NOMEM);
        return NULL;
    }
    list_init(&p->poll_link);
    p->node = node;
    p->wd = -1;
    p->file_wd = -1;
    node->extra = p;
    return p;
}

void watch_point_free(struct watch_point *p)
{
    if (p) {
        mem_free(p->target);
        mem_free(p);
    }
}

void watch_point_set_target(struct file_watch *w, struct watch_point *p, struct tidings_str target)
{
    if (p->target && str_eq(tidings_str(p->target), target)) {
        return;
    }
    mem_free(p->target);
    p->target = str_dup(target);
    file_node_set_unsaved(p->node->parent);
    if (!p->target) {
        file_retry_add(w, TIDINGS_E_NOMEM);
    }
}

static struct tidings_str wd_key(const struct watch_point *p)
{
    return tidings_strn((const char *)&p->wd, sizeof p->wd);
}

void watch_point_forget_wd(struct file_watch *w, struct watch_point *p)
{
    if (p->wd >= 0) {
        map_remove(&w->by_wd, wd_key(p));
        p->wd = -1;
    }
}

void watch_point_unwatch(struct file_watch *w, struct watch_point *p)
{
    int wd = p->wd;
    watch_point_forget_wd(w, p);
    if (wd >= 0 && !file_ancestors_has(w, wd)) {
        (void)inotify_rm_watch(w->inotify, wd); /* fails when the directory is gone: fine */
    }
}

void watch_point_poll(struct file_watch *w, struct watch_point *p)
{
    if (!p->is_polled) {
        p->is_polled = true;
        list_append(&w->polled, &p->poll_link);
    }
    if (!loop_timer_is_running(w->poll_timer)) {
        loop_timer_start(w->poll_timer, (uint64_t)w->settings->poll_ms,
                         (uint64_t)w->settings->poll_ms);
    }
}

static void poll_off(struct watch_point *p)
{
    p->is_polled = false;
    list_remove(&p->poll_link);
}

/* Stop watching what no scope needs any more, and free the point when nothing is left of it. */
void watch_point_tidy(struct file_watch *w, struct file_node *node)
{
    struct watch_point *p = watch_point_of(node);
    if (!p) {
        return;
    }
    if (!p->wants_file) {
        file_hardlink_unwatch(w, p);
    }
    bool is_tracked = (node->flags & FILE_NODE_PRESENT) &&
                      (!node->parent || file_node_is_tracked(node->parent, node));
    if (!file_node_is_needed(node)) {
        watch_point_unwatch(w, p);
        if (!is_tracked || !(node->flags & FILE_NODE_LINK)) {
            poll_off(p);
        }
    }
    if (!watch_point_has_scope(p) && p->wd < 0 && !p->is_polled) {
        node->extra = NULL;
        watch_point_free(p);
    }
}

void file_watch_warn(struct file_watch *w, unsigned way, const char *what, const char *reason)
{
    if (!(w->warned & way)) {
        w->warned |= way;
        log_warn(LOG_FILES, what, KV("reason", reason), KV("every_ms", w->settings->poll_ms),
                 KV("mount", w->root->prefix));
    }
}

const char *file_watch_refusal(int errnum)
{
    switch (errnum) {
    case ENOSPC:
        return "the system's limit fs.inotify.max_user_watches";
    case ENOMEM:
        return "out of memory";
    case EACCES:
        return "a directory that this user cannot read";
    default:
        return "inotify refused";
    }
}

static void warn_polling(struct file_watch *w, const char *reason)
{
    file_watch_warn(w, FILE_WARN_DIRECTORIES, "some directories are polled, not watched", reason);
}

static int add_watch(struct file_watch *w, int fd)
{
    /* By descriptor: the name may have come to mean something else, outside perhaps. */
    char path[sizeof "/proc/self/fd/" + 3 * sizeof fd];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(w->inotify, path, WATCH_MASK);
    if (wd < 0) {
        warn_polling(w, file_watch_refusal(errno));
    }
    return wd;
}

/* Watch the directory open as `fd`, or put it on the list to be polled. True when it was watched
 * all along, so that nothing can have been missed. */
bool watch_point_arm(struct file_watch *w, struct watch_point *p, int fd)
{
    if (w->inotify < 0) {
        warn_polling(w, w->inotify_errno == EMFILE
                            ? "no inotify instance: the system's limit "
                              "fs.inotify.max_user_instances, or out of descriptors"
                            : "no inotify instance");
    }
    bool is_over = p->wd < 0 && w->by_wd.count >= (size_t)w->settings->max_watches;
    if (is_over) {
        warn_polling(w, "maxWatches reached");
    }
    int wd = w->inotify < 0 || is_over || is_through_link(p->node) ? -1 : add_watch(w, fd);
    if (wd < 0) {
        watch_point_unwatch(w, p);
        watch_point_poll(w, p);
        return false;
    }
    if (wd == p->wd) {
        return true;
    }
    watch_point_unwatch(w, p);
    struct watch_point *other = map_find(&w->by_wd, tidings_strn((const char *)&wd, sizeof wd));
    if (other) {
        /* One directory in two places: it was moved and we have not heard yet, or it is mounted
         * twice. The kernel reports it once only, so the other one is polled. */
        watch_point_forget_wd(w, other);
        watch_point_poll(w, other);
    }
    p->wd = wd;
    if (map_put(&w->by_wd, wd_key(p), p, NULL) < 0) {
        p->wd = -1;
        (void)inotify_rm_watch(w->inotify, wd);
        warn_polling(w, file_watch_refusal(ENOMEM));
        watch_point_poll(w, p);
    } else {
        poll_off(p);
    }
    return false;
}
