/* SPDX-License-Identifier: MIT
 *
 * The events of a file watch: what inotify says, and when to act on it.
 *
 * Directories are looked at as soon as something is said about them, so that what is made inside a
 * new one is not missed. Files wait until they have been quiet for quietMs (five times that at
 * most): a burst of events is one look. A file that is being written to is announced at most every
 * modifyMs, but always once more after the last write:
 *
 *     (none) --event--> QUIET --due, written to--> COOLING --due, not written to--> (none)
 *                        ^ |                         | |
 *                        | '--due, otherwise--> (none) '--due, written to: looked at--> COOLING
 *                        '------ other event --------'
 *
 * Both lists are in the order of their due times, because each adds a constant to the present.
 */
#include <errno.h>
#include <stdalign.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "provider/file_watch_private.h"

#define MAX_PENDING 200000u
#define READS_PER_TURN 64
#define QUIET_STRETCH 5u
#define LOST_EVERY_MS 60000u /* between two lines of the log */
/* Time stamps of files may be this coarse on kernels before 6.13: two writes within it can leave
 * the same change time. */
#define COARSE_MS 10

struct pending {
    struct list link; /* in quiet or cooling */
    uint64_t first_ms;
    uint64_t due_ms;
    bool is_cooling;
    bool is_written; /* IN_MODIFY since the last look */
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

/* Something happened to the file at `path`: look at it in a while. */
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
            w->needs_rescan = true; /* one look at everything instead */
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

/* Cut a path into the node of its directory and its name; NULL when that directory is not ours. */
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

/* Was the file changed so recently that a further write may leave its print as it is? */
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

/* Look at a path; was anything announced? */
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

/* The other half of a directory's rename did not come: it went somewhere else. */
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

/* Remember where something known went from. */
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
        /* A directory that is watched hears of its own attributes itself. */
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
        return; /* else of a watch that is gone already */
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
    if (w->lost_told_ms == 0 || now - w->lost_told_ms >= LOST_EVERY_MS) {
        w->lost_told_ms = now;
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
        w->root_moved = true; /* who knows */
    }
    if (w->root_moved) {
        w->root_moved = false;
        file_ancestors_check(w, true);
    }
    file_event_schedule(w);
}

/* Look at what waits, due or not; was there anything? */
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

/* Twice, when there was something: a write so soon after the look that the time does not show it is
 * said by its event. */
void file_event_flush(struct file_watch *w)
{
    const struct timespec coarse = {.tv_nsec = COARSE_MS * 1000000};
    on_inotify(NULL, 0, w);
    if (fire_all(w)) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &coarse, NULL);
        on_inotify(NULL, 0, w);
        (void)fire_all(w);
    }
}

int file_event_open(struct file_watch *w, struct tidings_error *err)
{
    w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify < 0) {
        w->inotify_errno = errno;
        return 0;
    }
    w->inotify_poll = loop_poll_open(w->actor.loop, w->inotify, on_inotify, w, err);
    if (!w->inotify_poll || loop_poll_want(w->inotify_poll, LOOP_READ) < 0) {
        loop_poll_close(w->inotify_poll);
        w->inotify_poll = NULL;
        close(w->inotify);
        w->inotify = -1;
        w->inotify_errno = ENOMEM;
        return TIDINGS_E_NOMEM;
    }
    return 0;
}

int file_event_init(struct file_watch *w, struct tidings_error *err)
{
    w->quiet_timer = loop_timer_open(w->actor.loop, on_quiet, w);
    return w->quiet_timer ? file_event_open(w, err)
                          : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void file_event_deinit(struct file_watch *w)
{
    pending_clear(w);
    map_deinit(&w->pending);
    buf_deinit(&w->move.path);
    loop_timer_close(w->quiet_timer);
    loop_poll_close(w->inotify_poll);
}
