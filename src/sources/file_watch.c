/* SPDX-License-Identifier: MIT
 *
 * Watching files: the watcher's thread, and its active and lingering scopes.
 *
 *     (none) --add--> ACTIVE --last remove--> LINGERING --lingerMs--> (none)
 *                        ^-------- add ----------'
 *
 * ACTIVE and LINGERING are both watched; a scope is LINGERING while it is linked in `lingering`.
 */
#include "sources/file_watch.h"

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/time.h"
#include "sources/file_watch_internal.h"

/* -------------------------------------------------------------------------------------------------
 * Watch points of a watched tree: which nodes have a scope, a kernel watch, or are polled.
 *
 * Invariant: a point has a kernel watch exactly while by_wd finds it; it is in the list `polled`
 * exactly while is_polled. A point that has neither and no scope is freed by watch_point_tidy.
 */

#define WATCH_MASK                                                                                 \
    (IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_ATTRIB |            \
     IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

bool watch_point_has_scope(const struct watch_point *p)
{
    return p && (p->wants_file || p->wants_tree || p->below > 0);
}

/* Returns true if the node is a tree scope or inside one. */
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

bool file_node_is_watched(const struct file_node *node)
{
    const struct watch_point *p = watch_point_of(node);
    return p && (p->wd >= 0 || p->is_polled);
}

/* Returns true if changes in this directory matter. For a link target, only if a scope leads
 * there. */
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
            out->failed = TIDINGS_E_LIMIT; /* deeper than any watched path */
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
        out->failed = TIDINGS_E_NOMEM; /* memory ran out when the link was scanned */
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

/* Returns true if this name of this directory is tracked. `node` may be NULL. */
static bool file_node_is_tracked(const struct file_node *dir, const struct file_node *node)
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

static void watch_point_free(struct watch_point *p)
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

/* The kernel removed the watch itself. */
static void watch_point_forget_wd(struct file_watch *w, struct watch_point *p)
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
        (void)inotify_rm_watch(w->inotify, wd); /* fails if it is gone: harmless */
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

/* Stops unneeded watches, and frees the point if nothing is left of it. */
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
    /* By descriptor: the name may now mean something else, perhaps outside. */
    char path[sizeof "/proc/self/fd/" + 3 * sizeof fd];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(w->inotify, path, WATCH_MASK);
    if (wd < 0) {
        warn_polling(w, file_watch_refusal(errno));
    }
    return wd;
}

/* Watches the directory open as `fd`, or adds it to the polled ones. Returns true if it was watched
 * without interruption, so that no event can be missing. */
bool watch_point_watch(struct file_watch *w, struct watch_point *p, int fd)
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
        /* One directory in two places: it was moved and the event is still pending, or it is
         * mounted twice. The kernel reports it only once, so the other one is polled. */
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

/* -------------------------------------------------------------------------------------------------
 * The events of a file watch: input from inotify, and the time of reactions.
 *
 * Directories are scanned immediately after an event, to catch everything that is created inside a
 * new one. Files wait until they have been quiet for quietMs (five times that at most): a burst of
 * events causes one check. A file that is being written is announced at most every modifyMs, but
 * always once more after the last write:
 *
 *     (none) --event--> QUIET --due, written to--> COOLING --due, not written to--> (none)
 *                        ^ |                         | |
 *                        | '--due, otherwise--> (none) '--due, written to: looked at--> COOLING
 *                        '------ other event --------'
 *
 * Both lists are in the order of their due times, because each adds a constant to the present.
 */

#define MAX_PENDING 200000u
#define READS_PER_TURN 64
#define QUIET_STRETCH 5u
#define LOST_EVERY_MS 60000u /* between two log messages */
/* Timestamps of files may be this coarse on kernels before 6.13: two writes within it can have the
 * same change time. */
#define COARSE_MS 10

struct pending {
    struct list link; /* in quiet or cooling */
    uint64_t first_ms;
    uint64_t due_ms;
    bool is_cooling;
    bool is_written; /* IN_MODIFY since the last check */
    char *from;      /* NULL: not moved here */
    size_t path_len;
    char path[];
};

static struct tidings_str pending_path(const struct pending *p)
{
    return tidings_strn(p->path, p->path_len);
}

/* ---- waiting --------------------------------------------------------------------------------- */

void file_event_schedule(struct file_watch *w)
{
    uint64_t next = UINT64_MAX;
    if (!list_empty(&w->quiet)) {
        next = list_entry(w->quiet.next, struct pending, link)->due_ms;
    }
    if (!list_empty(&w->cooling)) {
        uint64_t due = list_entry(w->cooling.next, struct pending, link)->due_ms;
        next = due < next ? due : next;
    }
    if (w->move.cookie && w->move.is_directory && w->move.due_ms < next) {
        next = w->move.due_ms;
    }
    if (next != UINT64_MAX) {
        uint64_t now = clock_monotonic_ms();
        loop_timer_start(w->quiet_timer, next > now ? next - now : 0, 0);
    }
}

static void pending_free(struct file_watch *w, struct pending *p)
{
    list_remove(&p->link);
    map_remove(&w->pending, pending_path(p));
    mem_free(p->from);
    mem_free(p);
}

static void pending_clear(struct file_watch *w)
{
    while (!list_empty(&w->quiet)) {
        pending_free(w, list_entry(w->quiet.next, struct pending, link));
    }
    while (!list_empty(&w->cooling)) {
        pending_free(w, list_entry(w->cooling.next, struct pending, link));
    }
}

static struct pending *pending_create(struct file_watch *w, struct tidings_str path)
{
    struct pending *p = mem_zalloc(sizeof *p + path.len + 1);
    if (!p) {
        return NULL;
    }
    list_init(&p->link);
    p->path_len = path.len;
    memcpy(p->path, path.ptr, path.len);
    if (map_put(&w->pending, pending_path(p), p, NULL) < 0) {
        mem_free(p);
        return NULL;
    }
    return p;
}

/* An event for the file at `path`: checks it later. */
static void file_event_pend(struct file_watch *w, struct tidings_str path, bool is_write,
                            struct tidings_str from)
{
    uint64_t now = clock_monotonic_ms();
    uint64_t quiet_ms = (uint64_t)w->settings->quiet_ms;
    struct pending *p = map_find(&w->pending, path);
    bool is_new = !p;
    if (!p) {
        p = w->pending.count < MAX_PENDING ? pending_create(w, path) : NULL;
        if (!p) {
            w->needs_rescan = true; /* a full scan instead */
            return;
        }
    }
    if (from.len > 0) {
        mem_free(p->from);
        p->from = str_dup(from);
    }
    p->is_written = p->is_written || is_write;
    if (p->is_cooling && is_write) {
        return;
    }
    if (is_new || p->is_cooling) {
        p->is_cooling = false;
        p->first_ms = now;
    }
    if (is_new || now + quiet_ms <= p->first_ms + QUIET_STRETCH * quiet_ms) {
        p->due_ms = now + quiet_ms;
        list_remove(&p->link);
        list_append(&w->quiet, &p->link);
    }
}

void file_event_written(struct file_watch *w, const struct file_node *node)
{
    struct buf path;
    buf_init(&path, FILE_MAX_PATH);
    file_node_path(node, &path);
    if (!path.failed) {
        file_event_pend(w, buf_str(&path), true, STR_EMPTY);
    } else if (path.failed == TIDINGS_E_NOMEM) {
        file_retry_add(w, TIDINGS_E_NOMEM);
    }
    buf_deinit(&path);
}

/* ---- looking at files ------------------------------------------------------------------------ */

/* Splits a path into the node of its directory and its name; NULL if that directory is not
 * tracked. */
static struct file_node *file_event_split(struct file_watch *w, struct tidings_str path,
                                          struct tidings_str *ret_name)
{
    const char *slash = memrchr(path.ptr, '/', path.len);
    size_t dir_len = slash ? (size_t)(slash - path.ptr) : 0;
    *ret_name = str_skip(path, slash ? dir_len + 1 : 0);
    struct file_node *dir = file_tree_walk(&w->tree, tidings_strn(path.ptr, dir_len));
    if (!dir || !file_node_is_directory(dir) ||
        !file_node_is_tracked(dir, file_tree_find(&w->tree, dir, *ret_name))) {
        return NULL;
    }
    return dir;
}

/* Returns true if the file was changed so recently that a further write may not change its
 * print. */
static bool is_fresh(struct file_watch *w, struct tidings_str path)
{
    struct file_info info;
    char *text = str_dup(path);
    bool fresh = false;
    if (text && file_stat(w->root, text, &info, NULL) == 0) {
        int64_t changed_ms =
            (int64_t)info.st.st_ctim.tv_sec * 1000 + info.st.st_ctim.tv_nsec / 1000000;
        fresh = clock_wall_ms() - changed_ms < COARSE_MS;
    }
    mem_free(text);
    return fresh;
}

/* Checks a path. Returns true if anything was announced. */
static bool pending_check(struct file_watch *w, const struct pending *p)
{
    struct tidings_str name;
    struct tidings_str path = pending_path(p);
    struct file_node *dir = file_event_split(w, path, &name);
    if (!dir) {
        return false;
    }
    const struct file_node *before = file_tree_find(&w->tree, dir, name);
    bool was_racy = before && (before->flags & FILE_NODE_RACY);
    bool is_racy = p->is_written && is_fresh(w, path);
    enum file_verdict verdict = file_scan_name(w, dir, name, tidings_str(p->from));
    struct file_node *node = file_tree_find(&w->tree, dir, name);
    bool is_file = node && (node->flags & FILE_NODE_PRESENT) && !file_node_is_directory(node);
    if (is_file && is_racy) {
        node->flags |= FILE_NODE_RACY;
    }
    if (is_file && verdict == FILE_SAME && was_racy && p->is_written) {
        file_scan_announce_update(w, node);
        return true;
    }
    return verdict != FILE_SAME;
}

static void file_event_fire(struct file_watch *w, struct pending *p, uint64_t now)
{
    bool is_busy = pending_check(w, p) && p->is_written && w->settings->modify_ms > 0;
    if (!is_busy) {
        pending_free(w, p);
        return;
    }
    mem_free(p->from);
    p->from = NULL;
    p->is_written = false;
    p->is_cooling = true;
    p->due_ms = now + (uint64_t)w->settings->modify_ms;
    list_remove(&p->link);
    list_append(&w->cooling, &p->link);
}

/* The other half of a directory's rename did not arrive: it left the tree. */
static void move_give_up(struct file_watch *w)
{
    if (!w->move.cookie) {
        return;
    }
    w->move.cookie = 0;
    if (w->move.is_directory) {
        struct tidings_str name;
        struct file_node *dir = file_event_split(w, buf_str(&w->move.path), &name);
        if (dir) {
            (void)file_scan_name(w, dir, name, STR_EMPTY);
        }
    }
}

static void on_quiet(struct loop_timer *timer, void *user)
{
    struct file_watch *w = user;
    (void)timer;
    uint64_t now = clock_monotonic_ms();
    if (w->move.cookie && w->move.is_directory && w->move.due_ms <= now) {
        move_give_up(w);
    }
    while (!list_empty(&w->quiet)) {
        struct pending *p = list_entry(w->quiet.next, struct pending, link);
        if (p->due_ms > now) {
            break;
        }
        file_event_fire(w, p, now);
    }
    while (!list_empty(&w->cooling)) {
        struct pending *p = list_entry(w->cooling.next, struct pending, link);
        if (p->due_ms > now) {
            break;
        }
        if (p->is_written) {
            file_event_fire(w, p, now);
        } else {
            pending_free(w, p);
        }
    }
    file_event_schedule(w);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Records the origin of a known node. */
static void move_begin(struct file_watch *w, const struct inotify_event *e, struct tidings_str path)
{
    move_give_up(w);
    buf_clear(&w->move.path);
    if (buf_puts(&w->move.path, path) == 0) {
        w->move.cookie = e->cookie;
        w->move.is_directory = (e->mask & IN_ISDIR) != 0;
        w->move.due_ms = clock_monotonic_ms() + (uint64_t)w->settings->quiet_ms;
    } else {
        file_retry_add(w, TIDINGS_E_NOMEM);
    }
}

static bool is_second_half(const struct file_watch *w, const struct inotify_event *e)
{
    return (e->mask & IN_MOVED_TO) && w->move.cookie && e->cookie == w->move.cookie &&
           w->move.is_directory == ((e->mask & IN_ISDIR) != 0);
}

static void on_directory_event(struct file_watch *w, const struct inotify_event *e,
                               struct file_node *dir, struct tidings_str name,
                               struct tidings_str path)
{
    struct file_node *node = file_tree_find(&w->tree, dir, name);
    if ((e->mask & IN_MOVED_FROM) && node && file_node_is_directory(node)) {
        move_begin(w, e, path);
    } else if (is_second_half(w, e)) {
        w->move.cookie = 0;
        struct tidings_str from_name;
        struct file_node *from = file_event_split(w, buf_str(&w->move.path), &from_name);
        struct file_node *origin = from ? file_tree_find(&w->tree, from, from_name) : NULL;
        if (origin && file_node_is_directory(origin)) {
            file_scan_moved(w, origin, dir, name);
        } else {
            (void)file_scan_name(w, dir, name, STR_EMPTY);
        }
    } else if (!(e->mask & IN_ATTRIB) || (node && file_node_is_needed(node) &&
                                          watch_point_of(node) && watch_point_of(node)->wd < 0)) {
        /* A watched directory gets events of its attributes itself. */
        (void)file_scan_name(w, dir, name, STR_EMPTY);
    }
}

static void on_file_event(struct file_watch *w, const struct inotify_event *e,
                          const struct file_node *node, struct tidings_str path)
{
    struct tidings_str from = is_second_half(w, e) ? buf_str(&w->move.path) : STR_EMPTY;
    if ((e->mask & IN_MOVED_FROM) && node && (node->flags & FILE_NODE_PRESENT)) {
        move_begin(w, e, path);
    }
    file_event_pend(w, path, (e->mask & IN_MODIFY) != 0, from);
}

static void on_event(struct file_watch *w, const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW) {
        w->needs_rescan = true;
        return;
    }
    w->root_moved = w->root_moved || file_ancestors_concerns(w, e);
    struct watch_point *point =
        map_find(&w->by_wd, tidings_strn((const char *)&e->wd, sizeof e->wd));
    if (!point) {
        (void)file_hardlink_event(w, e);
        return; /* otherwise from a watch that was already removed */
    }
    struct file_node *dir = point->node;
    if (e->mask & IN_IGNORED) {
        watch_point_forget_wd(w, point);
        if (dir->parent) {
            (void)file_scan_name(w, dir->parent, file_node_name(dir), STR_EMPTY);
        } else {
            w->root_moved = true;
        }
        return;
    }
    if (e->len == 0) {
        if (e->mask & IN_ATTRIB) {
            file_scan_enter(w, dir); /* it may have become readable */
        }
        return; /* the end of a watch: IN_IGNORED follows */
    }
    struct tidings_str name = tidings_str(e->name);
    const struct file_node *node = file_tree_find(&w->tree, dir, name);
    if (!file_node_is_tracked(dir, node)) {
        return;
    }
    struct buf path;
    buf_init(&path, FILE_MAX_PATH);
    file_scan_path(dir, name, &path);
    if (!path.failed && !file_is_excluded(w->root, buf_str(&path))) {
        if (e->mask & IN_ISDIR) {
            on_directory_event(w, e, dir, name, buf_str(&path));
        } else {
            on_file_event(w, e, node, buf_str(&path));
        }
    } else if (path.failed == TIDINGS_E_NOMEM) {
        file_retry_add(w, TIDINGS_E_NOMEM);
    }
    buf_deinit(&path);
}

static void warn_lost(struct file_watch *w)
{
    uint64_t now = clock_monotonic_ms();
    if (w->lost_logged_ms == 0 || now - w->lost_logged_ms >= LOST_EVERY_MS) {
        w->lost_logged_ms = now;
        log_warn(LOG_FILES, "events of files were lost, everything is scanned again",
                 KV("reason", "more than fs.inotify.max_queued_events, or than are kept here"),
                 KV("mount", w->root->prefix));
    }
}

static void on_inotify(struct loop_poll *poll, int events, void *user)
{
    struct file_watch *w = user;
    alignas(struct inotify_event) char bytes[65536];
    (void)poll;
    (void)events;
    for (int i = 0; i < READS_PER_TURN; i++) {
        ssize_t got = read(w->inotify, bytes, sizeof bytes);
        if (got <= 0) {
            break;
        }
        for (size_t at = 0; at + sizeof(struct inotify_event) <= (size_t)got;) {
            const struct inotify_event *e = (const void *)(bytes + at);
            at += sizeof *e + e->len;
            on_event(w, e);
        }
    }
    if (w->needs_rescan) {
        w->needs_rescan = false;
        warn_lost(w);
        w->move.cookie = 0;
        pending_clear(w);
        w->root_moved = true; /* possibly moved */
    }
    if (w->root_moved) {
        w->root_moved = false;
        file_ancestors_check(w, true);
    }
    file_event_schedule(w);
}

/* Checks all pending paths, due or not. Returns true if there were any. */
static bool fire_all(struct file_watch *w)
{
    bool any = w->pending.count > 0;
    move_give_up(w);
    while (!list_empty(&w->quiet)) {
        struct pending *p = list_entry(w->quiet.next, struct pending, link);
        (void)pending_check(w, p);
        pending_free(w, p);
    }
    while (!list_empty(&w->cooling)) {
        struct pending *p = list_entry(w->cooling.next, struct pending, link);
        if (p->is_written) {
            (void)pending_check(w, p);
        }
        pending_free(w, p);
    }
    return any;
}

/* Twice, if there were any: a write right after the check that leaves the time unchanged is
 * reported by its event. */
static void file_event_flush(struct file_watch *w)
{
    const struct timespec coarse = {.tv_nsec = COARSE_MS * 1000000};
    on_inotify(NULL, 0, w);
    if (fire_all(w)) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &coarse, NULL);
        on_inotify(NULL, 0, w);
        (void)fire_all(w);
    }
}

/* Opens inotify, if it is available (now); otherwise everything is polled. */
static int file_event_open(struct file_watch *w, struct tidings_error *err)
{
    w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify < 0) {
        w->inotify_errno = errno;
        return 0;
    }
    w->inotify_poll = loop_poll_open(w->actor.loop, w->inotify, on_inotify, w, err);
    if (!w->inotify_poll || loop_poll_set_events(w->inotify_poll, LOOP_READ) < 0) {
        loop_poll_close(w->inotify_poll);
        w->inotify_poll = NULL;
        close(w->inotify);
        w->inotify = -1;
        w->inotify_errno = ENOMEM;
        return TIDINGS_E_NOMEM;
    }
    return 0;
}

static int file_event_init(struct file_watch *w, struct tidings_error *err)
{
    w->quiet_timer = loop_timer_open(w->actor.loop, on_quiet, w);
    return w->quiet_timer ? file_event_open(w, err)
                          : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static void file_event_deinit(struct file_watch *w)
{
    pending_clear(w);
    map_deinit(&w->pending);
    buf_deinit(&w->move.path);
    loop_timer_close(w->quiet_timer);
    loop_poll_close(w->inotify_poll);
}

/* -------------------------------------------------------------------------------------------------
 * The scopes of a file watch in its tree. The chain of directories from the root to each scope is
 * watched, so watching goes down the chain and scans every step, and unwatching releases everything
 * that no other scope needs.
 *
 * The state of an unwatched scope stays in the tree: watching it again announces the differences.
 * That memory is bounded: if the tree has more than keptNodes nodes, unwatching drops everything
 * that no scope tracks, and the next watch takes a new baseline.
 */

/* ---- watching -------------------------------------------------------------------------------- */

/* Returns the node of a name. If it is missing in a complete directory, it is known to be absent.
 * Its appearance in a scan is then a change, which other scopes may be waiting for. */
static struct file_node *name_ensure(struct file_watch *w, struct file_node *dir,
                                     struct tidings_str name)
{
    static const struct file_state absent;
    struct file_node *node = file_tree_find(&w->tree, dir, name);
    bool knows_all = (dir->flags & FILE_NODE_COMPLETE) != 0 ||
                     (dir->flags & (FILE_NODE_KNOWN | FILE_NODE_PRESENT)) == FILE_NODE_KNOWN;
    if (node) {
        return node;
    }
    node = file_tree_add(&w->tree, dir, name);
    if (node && knows_all) {
        file_node_set(node, &absent);
    }
    return node;
}

/* Returns the node of a path; creates missing ones, each with a point. */
static struct file_node *chain_ensure(struct file_watch *w, struct tidings_str path)
{
    struct file_node *node = w->tree.root;
    struct watch_point *p = watch_point_ensure(w, node);
    while (p && path.len > 0) {
        struct tidings_str name = str_cut(path, '/', &path, NULL);
        node = name_ensure(w, node, name);
        if (!node) {
            file_retry_add(w, w->tree.count >= w->tree.max ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM);
            return NULL;
        }
        p = watch_point_ensure(w, node);
    }
    return p ? node : NULL;
}

static void chain_count(struct file_node *target, int by)
{
    for (struct file_node *node = target->parent; node; node = node->parent) {
        watch_point_of(node)->below += (uint32_t)by;
    }
}

/* Scans each step from the root to the target, as far as there are directories. */
static void chain_scan(struct file_watch *w, struct tidings_str path)
{
    struct file_node *node = w->tree.root;
    if (!file_node_is_watched(node)) {
        file_scan_enter(w, node);
    }
    while (path.len > 0 && file_node_is_needed(node)) {
        struct tidings_str name = str_cut(path, '/', &path, NULL);
        (void)file_scan_name(w, node, name, STR_EMPTY);
        node = file_tree_find(&w->tree, node, name);
        if (!node) {
            return;
        }
    }
}

static void rescan_below(struct file_watch *w, struct file_node *node)
{
    w->is_rescanning = true;
    file_scan_enter(w, node);
    w->is_rescanning = false;
}

static void file_scope_unwatch(struct file_watch *w, struct tidings_str path, bool is_tree);

static int file_scope_watch(struct file_watch *w, struct tidings_str path, bool is_tree,
                            struct tidings_error *err)
{
    int before = w->failed;
    w->failed = 0;
    struct file_node *target = chain_ensure(w, path);
    if (target) {
        struct watch_point *p = watch_point_of(target);
        bool was_partly_watched = file_node_is_watched(target) && !file_node_is_deep(target);
        p->wants_tree = p->wants_tree || is_tree;
        p->wants_file = p->wants_file || !is_tree;
        chain_count(target, 1);
        file_ancestors_ask(w);
        chain_scan(w, path);
        if (is_tree && was_partly_watched) {
            rescan_below(w, target);
        }
    }
    int rc = w->failed;
    if (rc == TIDINGS_E_IO) {
        rc = 0; /* possibly of a single file: scanned again */
    } else if (rc < 0 && target) {
        file_scope_unwatch(w, path, is_tree);
    }
    w->failed = before   ? before
                : rc < 0 ? 0
                         : w->failed; /* kept for other scopes; this one fails now */
    return rc < 0 ? tidings_fail(err, rc, "watching: %s",
                                 rc == TIDINGS_E_LIMIT  ? "too many files"
                                 : rc == TIDINGS_E_BUSY ? "out of descriptors; try again later"
                                                        : tidings_code_text(rc))
                  : 0;
}

/* ---- unwatching ------------------------------------------------------------------------------ */

static void tidy_below(struct file_watch *w, struct file_node *node)
{
    for (struct file_node *child = node->children; child; child = child->next) {
        tidy_below(w, child);
    }
    watch_point_tidy(w, node);
}

/* Removes everything that no scope tracks. */
static void forget_below(struct file_watch *w, struct file_node *dir)
{
    struct file_node *next;
    for (struct file_node *child = dir->children; child; child = next) {
        next = child->next;
        forget_below(w, child);
        if (!child->extra && !child->children && !file_node_is_tracked(dir, child)) {
            file_tree_remove(&w->tree, child);
        }
    }
    if (!file_node_is_deep(dir)) {
        file_node_set_complete(dir, false);
    }
}

/* Starts and stops watching a scope. Watching fails with NOMEM or LIMIT and is then undone. */
static void file_scope_unwatch(struct file_watch *w, struct tidings_str path, bool is_tree)
{
    struct file_node *target = file_tree_walk(&w->tree, path);
    struct watch_point *p = target ? watch_point_of(target) : NULL;
    if (!p) {
        return;
    }
    if (is_tree) {
        p->wants_tree = false;
    } else {
        p->wants_file = false;
    }
    chain_count(target, -1);
    tidy_below(w, target);
    for (struct file_node *node = target->parent; node; node = node->parent) {
        watch_point_tidy(w, node);
    }
    if (w->tree.count > (size_t)w->settings->kept_nodes) {
        forget_below(w, w->tree.root);
        file_keep_reset(w);
    }
}

/* ---- looking again --------------------------------------------------------------------------- */

void file_scope_compare(struct file_watch *w)
{
    w->is_comparing = true;
    rescan_below(w, w->tree.root);
    w->is_comparing = false;
}

static void poll_one(struct file_watch *w, struct file_node *node)
{
    if (node->parent && (node->flags & FILE_NODE_LINK || !file_node_is_directory(node))) {
        (void)file_scan_name(w, node->parent, file_node_name(node), STR_EMPTY);
    } else {
        file_scan_enter(w, node);
    }
}

/* Checks everything that is polled. */
static void file_scope_poll(struct file_watch *w)
{
    if (w->inotify < 0 && file_event_open(w, NULL) == 0 && w->inotify >= 0) {
        log_info(LOG_FILES, "inotify is available again", KV("mount", w->root->prefix));
    }
    file_ancestors_ask(w);
    /* Each check may free any point, which then leaves its list. */
    struct list todo;
    list_init(&todo);
    list_splice(&todo, &w->polled);
    while (!list_empty(&todo)) {
        struct watch_point *p = list_entry(todo.next, struct watch_point, poll_link);
        list_remove(&p->poll_link);
        list_append(&w->polled, &p->poll_link);
        poll_one(w, p->node);
    }
    if (list_empty(&w->polled) && !w->ancestors_are_polled) {
        loop_timer_stop(w->poll_timer);
    }
}

static void free_watch_points(struct file_node *node)
{
    for (struct file_node *child = node->children; child; child = child->next) {
        free_watch_points(child);
    }
    watch_point_free(node->extra);
    node->extra = NULL;
}

void file_scope_clear(struct file_watch *w)
{
    free_watch_points(w->tree.root);
    file_tree_clear(&w->tree);
}

static void file_scope_deinit(struct file_watch *w)
{
    if (w->tree.root) {
        free_watch_points(w->tree.root);
    }
    file_tree_deinit(&w->tree);
    map_deinit(&w->by_wd);
}

/* ---------------------------------------------------------------------------------------------- */

#define MAX_NODES 16000000u

struct scope {
    struct list linger_link;
    uint64_t deadline_ms;
    uint32_t refs;
    size_t path_len;
    size_t key_len; /* one longer than the path for a tree: the '/' */
    char key[];
};

struct watch_message {
    struct thread_message message;
    struct tidings_watch *watch; /* NULL: remove */
    bool is_tree;
    size_t path_len;
    char path[]; /* with a '/' added for a tree */
};

/* ---- scopes, on the watcher's thread --------------------------------------------------------- */

static struct tidings_str scope_path(const struct scope *s)
{
    return tidings_strn(s->key, s->path_len);
}

static struct scope *scope_create(const struct watch_message *e)
{
    size_t key_len = e->path_len + e->is_tree;
    struct scope *s = mem_zalloc(sizeof *s + key_len + 1);
    if (s) {
        list_init(&s->linger_link);
        s->path_len = e->path_len;
        s->key_len = key_len;
        memcpy(s->key, e->path, key_len);
    }
    return s;
}

static int scope_open(struct file_watch *w, const struct watch_message *e,
                      struct tidings_error *err)
{
    struct scope *s = scope_create(e);
    if (!s || map_put(&w->scopes, tidings_strn(s->key, s->key_len), s, NULL) < 0) {
        mem_free(s);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = file_scope_watch(w, scope_path(s), e->is_tree, err);
    if (rc < 0) {
        map_remove(&w->scopes, tidings_strn(s->key, s->key_len));
        mem_free(s);
        return rc;
    }
    s->refs = 1;
    file_keep_known(w, scope_path(s), e->is_tree);
    return 0;
}

void file_watch_report_known(struct file_watch *w)
{
    size_t position = 0;
    struct scope *s;
    while ((s = map_next(&w->scopes, &position))) {
        file_keep_known(w, scope_path(s), s->key_len > s->path_len);
    }
}

static void scope_expire(struct file_watch *w, struct scope *s)
{
    list_remove(&s->linger_link);
    map_remove(&w->scopes, tidings_strn(s->key, s->key_len));
    file_scope_unwatch(w, scope_path(s), s->key_len > s->path_len);
    mem_free(s);
    if (w->scopes.count == 0) {
        file_ancestors_rest(w);
    }
}

static void on_linger(struct loop_timer *timer, void *user)
{
    struct file_watch *w = user;
    uint64_t now = clock_monotonic_ms();
    while (!list_empty(&w->lingering)) {
        struct scope *s = list_entry(w->lingering.next, struct scope, linger_link);
        if (s->deadline_ms > now) {
            loop_timer_start(timer, s->deadline_ms - now, 0);
            return;
        }
        scope_expire(w, s);
    }
}

static void deliver_add(struct thread_message *message, void *owner)
{
    struct file_watch *w = owner;
    struct watch_message *e = list_entry(message, struct watch_message, message);
    struct tidings_error err = {0};
    int rc = 0;
    struct scope *s = map_find(&w->scopes, tidings_strn(e->path, e->path_len + e->is_tree));
    if (s) {
        s->refs++;
        list_remove(&s->linger_link);
    } else {
        rc = file_keep_load(w, &err);
        rc = rc == 0 ? scope_open(w, e, &err) : rc;
    }
    tidings_watch_done(e->watch, rc, &err);
    mem_free(e);
}

static void deliver_remove(struct thread_message *message, void *owner)
{
    struct file_watch *w = owner;
    struct watch_message *e = list_entry(message, struct watch_message, message);
    struct scope *s = map_find(&w->scopes, tidings_strn(e->path, e->path_len + e->is_tree));
    mem_free(e);
    if (!s || s->refs == 0 || --s->refs > 0) {
        return;
    }
    s->deadline_ms = clock_monotonic_ms() + (uint64_t)w->settings->linger_ms;
    list_append(&w->lingering, &s->linger_link);
    if (!loop_timer_is_running(w->linger_timer)) {
        loop_timer_start(w->linger_timer, (uint64_t)w->settings->linger_ms, 0);
    }
}

static void watch_message_drop(struct thread_message *message)
{
    struct watch_message *e = list_entry(message, struct watch_message, message);
    if (e->watch) {
        tidings_watch_done(e->watch, TIDINGS_E_CLOSED, NULL);
    }
    mem_free(e);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void on_poll(struct loop_timer *timer, void *user)
{
    (void)timer;
    file_scope_poll(user);
}

/* Frees everything of the thread, which has ended. */
static void file_watch_release(struct file_watch *w)
{
    file_event_deinit(w);
    file_ancestors_deinit(w);
    file_hardlink_deinit(w);
    file_retry_deinit(w);
    file_keep_deinit(w);
    loop_timer_close(w->poll_timer);
    loop_timer_close(w->linger_timer);
    file_scope_deinit(w);
    map_deinit(&w->by_file);
    buf_deinit(&w->link_target);
    size_t position = 0;
    struct scope *s;
    while ((s = map_next(&w->scopes, &position))) {
        mem_free(s);
    }
    map_deinit(&w->scopes);
    actor_deinit(&w->actor);
    if (w->inotify >= 0) {
        close(w->inotify);
    }
    mem_free(w);
}

static int file_watch_prepare(struct file_watch *w, struct file_keeping *keeping,
                              struct tidings_error *err)
{
    int rc = actor_init(&w->actor, w, err);
    rc = rc == 0 ? file_keep_init(w, keeping, err) : rc;
    if (rc < 0) {
        return rc;
    }
    w->poll_timer = loop_timer_open(w->actor.loop, on_poll, w);
    w->linger_timer = loop_timer_open(w->actor.loop, on_linger, w);
    if (!w->poll_timer || !w->linger_timer || file_tree_init(&w->tree, MAX_NODES) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    file_ancestors_init(w);
    int failed = file_retry_init(w, err);
    if (failed == 0) {
        failed = file_hardlink_init(w, err);
    }
    return failed < 0 ? failed : file_event_init(w, err);
}

int file_watch_create(struct tidings_provider *provider, const struct file_root *root,
                      const struct file_settings *settings, struct file_keeping *keeping,
                      struct file_watch **ret, struct tidings_error *err)
{
    struct file_watch *w = mem_zalloc(sizeof *w);
    if (!w) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    w->provider = provider;
    w->root = root;
    w->settings = settings;
    w->inotify = -1;
    w->mounts = -1;
    map_init(&w->by_wd);
    map_init(&w->by_file);
    map_init(&w->pending);
    map_init(&w->scopes);
    list_init(&w->polled);
    list_init(&w->quiet);
    list_init(&w->cooling);
    list_init(&w->lingering);
    buf_init(&w->move.path, FILE_MAX_PATH);
    buf_init(&w->link_target, FILE_WHERE_SIZE + 1);
    int rc = file_watch_prepare(w, keeping, err);
    if (rc == 0) {
        rc = actor_start(&w->actor, "tidings-files", err);
    }
    if (rc < 0) {
        file_watch_release(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void file_watch_destroy(struct file_watch *w)
{
    if (!w) {
        return;
    }
    actor_stop(&w->actor);
    file_watch_release(w);
}

static void deliver_drain(struct thread_message *message, void *owner)
{
    (void)message; /* the waiting caller owns it */
    file_event_flush(owner);
}

static void drop_drain(struct thread_message *message)
{
    (void)message;
}

void file_watch_drain(struct file_watch *w)
{
    struct thread_message drain = {.deliver = deliver_drain, .drop = drop_drain};
    if (w->actor.running) {
        list_init(&drain.link);
        mailbox_send(w->actor.mailbox, &drain);
        actor_stop(&w->actor);
    }
}

static struct watch_message *watch_message_create(struct tidings_str path, bool is_tree)
{
    struct watch_message *e = mem_zalloc(sizeof *e + path.len + 2);
    if (e) {
        list_init(&e->message.link);
        e->message.drop = watch_message_drop;
        e->is_tree = is_tree;
        e->path_len = path.len;
        if (path.len > 0) {
            memcpy(e->path, path.ptr, path.len);
        }
        e->path[path.len] = '/';
    }
    return e;
}

int file_watch_add(struct file_watch *w, struct tidings_str path, bool is_tree,
                   struct tidings_watch *watch, struct tidings_error *err)
{
    struct watch_message *e = watch_message_create(path, is_tree);
    if (!e) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    e->watch = watch;
    e->message.deliver = deliver_add;
    mailbox_send(w->actor.mailbox, &e->message);
    return 0;
}

void file_watch_remove(struct file_watch *w, struct tidings_str path, bool is_tree)
{
    struct watch_message *e = watch_message_create(path, is_tree);
    if (e) { /* else it stays active: harmless */
        e->message.deliver = deliver_remove;
        mailbox_send(w->actor.mailbox, &e->message);
    }
}

struct mailbox *file_watch_mailbox(struct file_watch *w)
{
    return w->actor.mailbox;
}
