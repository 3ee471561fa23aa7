/* SPDX-License-Identifier: MIT
 *
 * Looking: take in what a name or a directory is now, announce what differs from what was known,
 * and keep the kernel watches where the scopes need them.
 *
 * Invariant: a directory is entered (scanned) only after its kernel watch was added, or with it on
 * the list of polled ones. A node is announced as created or deleted exactly when its PRESENT flag
 * turns while it is KNOWN. Failures to take something in (out of memory) set `failed`; arming then
 * fails as a whole, and otherwise the next poll looks at everything again.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "provider/file_watcher.h"

#define KEPT_NODES 1000000u /* more are not remembered for scopes nobody watches */

#define WATCH_MASK                                                                                 \
    (IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_ATTRIB |            \
     IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

/* ---- places ------------------------------------------------------------------------------------ */

static struct file_place *place_of(const struct file_node *node)
{
    return node->extra;
}

static bool has_scope(const struct file_place *p)
{
    return p && (p->wants_file || p->wants_tree || p->below > 0);
}

/* Is the node a tree scope or inside one? */
static bool is_deep(const struct file_node *node)
{
    for (; node; node = node->parent) {
        if (node->extra && place_of(node)->wants_tree) {
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

static bool is_directory(const struct file_node *node)
{
    const unsigned both = FILE_NODE_PRESENT | FILE_NODE_DIRECTORY;
    return (node->flags & both) == both;
}

static bool is_armed(const struct file_node *node)
{
    const struct file_place *p = place_of(node);
    return p && (p->wd >= 0 || p->is_polled);
}

/* Must we know what happens in this directory? Behind a link only if a scope leads there. */
static bool is_needed(const struct file_node *node)
{
    const struct file_place *p = place_of(node);
    if (!is_directory(node) || file_node_depth(node) >= FILE_MAX_DEPTH) {
        return false;
    }
    bool has_scope_inside = p && (p->wants_tree || p->below > 0);
    return has_scope_inside || (!(node->flags & FILE_NODE_LINK) && is_deep(node));
}

bool file_scan_tracks(const struct file_node *dir, const struct file_node *node)
{
    return (node && has_scope(place_of(node))) || is_deep(dir);
}

static struct file_place *place_ensure(struct file_watch *w, struct file_node *node)
{
    struct file_place *p = place_of(node);
    if (p) {
        return p;
    }
    p = mem_zalloc(sizeof *p);
    if (!p) {
        w->failed = TIDINGS_E_NOMEM;
        return NULL;
    }
    list_init(&p->poll_link);
    p->node = node;
    p->wd = -1;
    node->extra = p;
    return p;
}

static struct tidings_str wd_key(const struct file_place *p)
{
    return tidings_strn((const char *)&p->wd, sizeof p->wd);
}

static void forget_wd(struct file_watch *w, struct file_place *p)
{
    if (p->wd >= 0) {
        map_remove(&w->by_wd, wd_key(p));
        p->wd = -1;
    }
}

static void unwatch(struct file_watch *w, struct file_place *p)
{
    int wd = p->wd;
    forget_wd(w, p);
    if (wd >= 0) {
        (void)inotify_rm_watch(w->inotify, wd); /* fails when the directory is gone: fine */
    }
}

static void poll_on(struct file_watch *w, struct file_place *p)
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

static void poll_off(struct file_place *p)
{
    p->is_polled = false;
    list_remove(&p->poll_link);
}

/* Stop watching what no scope needs any more, and free the place when nothing is left of it. */
static void place_tidy(struct file_watch *w, struct file_node *node)
{
    struct file_place *p = place_of(node);
    if (!p) {
        return;
    }
    bool is_tracked = (node->flags & FILE_NODE_PRESENT) &&
                      (!node->parent || file_scan_tracks(node->parent, node));
    if (!is_needed(node)) {
        unwatch(w, p);
        if (!is_tracked || !(node->flags & FILE_NODE_LINK)) {
            poll_off(p);
        }
    }
    if (!has_scope(p) && p->wd < 0 && !p->is_polled) {
        node->extra = NULL;
        mem_free(p);
    }
}

/* ---- announcing -------------------------------------------------------------------------------- */

void file_scan_path(const struct file_node *dir, struct tidings_str name, struct buf *out)
{
    buf_clear(out);
    file_node_path(dir, out);
    if (out->len > 0) {
        buf_putc(out, '/');
    }
    buf_puts(out, name);
}

/* `look` NULL: it is gone. */
static void announce(struct file_watch *w, const struct file_node *node,
                     enum tidings_change_kind kind, const struct file_look *look,
                     struct tidings_str from)
{
    struct buf path, uri, from_uri;
    char etag[FILE_ETAG_SIZE];
    struct tidings_error err = {0};
    bool has_slash = (node->flags & FILE_NODE_DIRECTORY) != 0;
    buf_init(&path, FILE_MAX_PATH);
    buf_init(&uri, w->root->prefix_len + 3 * FILE_MAX_PATH);
    buf_init(&from_uri, w->root->prefix_len + 3 * FILE_MAX_PATH);
    file_node_path(node, &path);
    file_path_to_uri(w->root, buf_str(&path), has_slash, &uri);
    struct tidings_change change = {.uri = buf_str(&uri), .kind = kind};
    if (look) {
        file_etag(&look->st, etag);
        change.etag = tidings_str(etag);
        change.modified_ms = file_modified_ms(&look->st);
        change.has_size = !has_slash;
        change.size = has_slash ? 0 : look->st.st_size;
    }
    if (from.len > 0 && kind == TIDINGS_CHANGE_CREATED) {
        file_path_to_uri(w->root, from, has_slash, &from_uri);
        change.from = buf_str(&from_uri);
    }
    int rc = path.failed ? path.failed : uri.failed ? uri.failed : from_uri.failed;
    if (rc == 0) {
        rc = tidings_provider_changed(w->provider, &change, &err);
    }
    if (rc < 0) {
        log_error("file change not announced", "reason=\"%s\"",
                  err.text[0] ? err.text : tidings_code_text(rc));
    }
    buf_deinit(&path);
    buf_deinit(&uri);
    buf_deinit(&from_uri);
}

void file_scan_announce_update(struct file_watch *w, struct file_node *node)
{
    struct buf path;
    struct file_look look;
    buf_init(&path, FILE_MAX_PATH);
    file_node_path(node, &path);
    if (!path.failed && file_look(w->root, path.ptr, &look) == 0) {
        announce(w, node, TIDINGS_CHANGE_UPDATED, &look, STR_EMPTY);
    }
    buf_deinit(&path);
}

/* Announce that the node and all below it are gone, deepest first, and stop watching there. The
 * nodes stay. */
static void announce_gone(struct file_watch *w, struct file_node *node)
{
    const unsigned known = FILE_NODE_PRESENT | FILE_NODE_KNOWN;
    for (struct file_node *child = node->children; child; child = child->next) {
        announce_gone(w, child);
    }
    if ((node->flags & known) == known) {
        announce(w, node, TIDINGS_CHANGE_DELETED, NULL, STR_EMPTY);
    }
    if (node->extra) {
        unwatch(w, place_of(node));
    }
}

/* The node and all below it are absent now, and known to be: what has a scope stays as that, the
 * rest is removed. The node itself may be freed. */
static void set_absent(struct file_watch *w, struct file_node *node)
{
    static const struct file_state absent;
    struct file_node *next;
    for (struct file_node *child = node->children; child; child = next) {
        next = child->next;
        set_absent(w, child);
    }
    file_node_set(node, &absent);
    node->flags = (uint16_t)(node->flags & ~FILE_NODE_COMPLETE);
    if (is_deep(node)) {
        node->flags |= FILE_NODE_COMPLETE; /* there is nothing in it, we know */
    }
    place_tidy(w, node);
    if (!node->extra && !node->children) {
        file_tree_remove(&w->tree, node);
    }
}

static void vanish(struct file_watch *w, struct file_node *node)
{
    announce_gone(w, node);
    set_absent(w, node);
}

/* ---- arming one directory ------------------------------------------------------------------------ */

static void warn_polling(struct file_watch *w, const char *reason)
{
    if (!w->has_warned) {
        w->has_warned = true;
        log_warn("some directories are polled, not watched",
                 "reason=\"%s\" every_ms=%lld mount=%s", reason, (long long)w->settings->poll_ms,
                 w->root->prefix);
    }
}

static int add_watch(struct file_watch *w, int fd)
{
    /* By descriptor: the name may have come to mean something else, outside perhaps. */
    char path[sizeof "/proc/self/fd/" + 3 * sizeof fd];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int wd = inotify_add_watch(w->inotify, path, WATCH_MASK);
    if (wd < 0) {
        warn_polling(w, errno == ENOSPC ? "the system's limit fs.inotify.max_user_watches"
                                        : "inotify refused");
    }
    return wd;
}

/* Watch the directory open as `fd`, or put it on the list to be polled. True when it was watched all
 * along, so that nothing can have been missed. */
static bool arm(struct file_watch *w, struct file_place *p, int fd)
{
    bool is_over = p->wd < 0 && w->by_wd.count >= (size_t)w->settings->max_watches;
    if (is_over) {
        warn_polling(w, "maxWatches reached");
    }
    int wd = w->inotify < 0 || is_over || is_through_link(p->node) ? -1 : add_watch(w, fd);
    if (wd < 0) {
        unwatch(w, p);
        poll_on(w, p);
        return false;
    }
    if (wd == p->wd) {
        return true;
    }
    unwatch(w, p);
    struct file_place *other = map_find(&w->by_wd, tidings_strn((const char *)&wd, sizeof wd));
    if (other) {
        /* One directory in two places: it was moved and we have not heard yet, or it is mounted
         * twice. The kernel reports it once only, so the other one is polled. */
        forget_wd(w, other);
        poll_on(w, other);
    }
    p->wd = wd;
    if (map_put(&w->by_wd, wd_key(p), p, NULL) < 0) {
        p->wd = -1;
        (void)inotify_rm_watch(w->inotify, wd);
        poll_on(w, p);
    } else {
        poll_off(p);
    }
    return false;
}

/* ---- looking ----------------------------------------------------------------------------------- */

enum enter_mode {
    ENTER_IF_MISSED, /* not if it was watched all along */
    ENTER_ALWAYS,
};

static void enter(struct file_watch *w, struct file_node *dir, enum enter_mode mode,
                  const struct file_node *origin);

static struct file_state state_of(const struct file_look *look)
{
    struct file_state state = {0};
    if (look && file_kind(look) != FILE_OTHER) {
        state.is_present = true;
        state.is_directory = file_kind(look) == FILE_DIRECTORY;
        state.is_link = look->is_link;
        state.print = state.is_directory ? file_identity(&look->st) : file_print(&look->st);
    }
    return state;
}

/* The node of a name, with what was found in it. */
static struct file_node *remember(struct file_watch *w, struct file_node *dir,
                                  struct tidings_str name, const struct file_state *state)
{
    struct file_node *node = file_tree_add(&w->tree, dir, name);
    if (!node) {
        w->failed = w->tree.count >= w->tree.max ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM;
        return NULL;
    }
    file_node_set(node, state);
    if (state->is_link) {
        struct file_place *p = place_ensure(w, node);
        if (p) {
            poll_on(w, p);
        }
    }
    return node;
}

static void on_created(struct file_watch *w, struct file_node *node, const struct file_look *look,
                       struct tidings_str from, const struct file_node *origin)
{
    struct buf path;
    buf_init(&path, FILE_MAX_PATH);
    if (origin && (origin->flags & FILE_NODE_PRESENT)) {
        file_node_path(origin, &path);
        from = buf_str(&path);
    }
    announce(w, node, TIDINGS_CHANGE_CREATED, look, from);
    buf_deinit(&path);
    node->flags = (uint16_t)(node->flags & ~FILE_NODE_COMPLETE);
    if (is_needed(node)) {
        if (is_deep(node)) {
            node->flags |= FILE_NODE_COMPLETE; /* it was not there: all that is in it is new */
        }
        enter(w, node, ENTER_ALWAYS, origin);
    }
}

/* Compare what was found at a name (look NULL: nothing) with what was known; announce, remember,
 * enter. `origin`: the node it was moved from, if known. */
static enum file_verdict settle(struct file_watch *w, struct file_node *dir,
                                struct tidings_str name, const struct file_look *look,
                                struct tidings_str from, const struct file_node *origin)
{
    struct file_state state = state_of(look);
    struct file_node *node = file_tree_find(&w->tree, dir, name);
    enum file_verdict verdict = file_tree_compare(dir, node, &state);
    if (node && !state.is_present) {
        vanish(w, node);
        return verdict;
    }
    if (verdict == FILE_REPLACED) {
        vanish(w, node);
    }
    node = state.is_present ? remember(w, dir, name, &state) : NULL;
    if (!node) {
        return verdict;
    }
    switch (verdict) {
    case FILE_CREATED:
    case FILE_REPLACED:
        on_created(w, node, look, from, origin);
        break;
    case FILE_UPDATED:
        announce(w, node, TIDINGS_CHANGE_UPDATED, look, STR_EMPTY);
        break;
    case FILE_SAME:
    case FILE_DELETED:
    default:
        if (is_needed(node) && (w->is_rescanning || !is_armed(node))) {
            enter(w, node, ENTER_ALWAYS, NULL);
        }
        break;
    }
    return verdict;
}

/* Did the look fail because nothing (of ours) is there? Otherwise it says nothing. */
static bool is_absence(int negative_errno)
{
    return negative_errno == -ENOENT || negative_errno == -ENOTDIR || negative_errno == -EXDEV ||
           negative_errno == -ELOOP || negative_errno == -ENAMETOOLONG;
}

/* Look at one name of the directory open as `fd`, whose path with the name is `path`. */
static void look_in(struct file_watch *w, struct file_node *dir, int fd, struct tidings_str name,
                    const struct buf *path, const struct file_node *origin)
{
    struct file_look look;
    int rc = file_look_in(w->root, fd, path->ptr + path->len - name.len, path->ptr, &look);
    if (rc < 0 && !is_absence(rc)) {
        return;
    }
    const struct file_node *from = origin ? file_tree_find(&w->tree, origin, name) : NULL;
    settle(w, dir, name, rc < 0 ? NULL : &look, STR_EMPTY, from);
}

/* The names that lead to a scope; there are few. */
static void scan_some(struct file_watch *w, struct file_node *dir, int fd, struct buf *path)
{
    struct file_node *next;
    for (struct file_node *child = dir->children; child; child = next) {
        next = child->next;
        if (has_scope(place_of(child))) {
            file_scan_path(dir, file_node_name(child), path);
            look_in(w, dir, fd, file_node_name(child), path, NULL);
        }
    }
}

static void scan_all(struct file_watch *w, struct file_node *dir, DIR *stream, struct buf *path,
                     const struct file_node *origin)
{
    int fd = dirfd(stream);
    for (struct file_node *child = dir->children; child; child = child->next) {
        child->flags = (uint16_t)(child->flags & ~FILE_NODE_SEEN);
    }
    struct dirent *d;
    while ((d = readdir(stream))) {
        struct tidings_str name = tidings_str(d->d_name);
        if (str_eq(name, STR(".")) || str_eq(name, STR(".."))) {
            continue;
        }
        file_scan_path(dir, name, path);
        if (path->failed || file_is_excluded(w->root, buf_str(path))) {
            continue;
        }
        look_in(w, dir, fd, name, path, origin);
        struct file_node *child = file_tree_find(&w->tree, dir, name);
        if (child) {
            child->flags |= FILE_NODE_SEEN;
        }
    }
    /* What was not seen is gone, or was renamed while we read: ask for it by name. */
    struct file_node *next;
    for (struct file_node *child = dir->children; child; child = next) {
        next = child->next;
        if (!(child->flags & FILE_NODE_SEEN)) {
            file_scan_path(dir, file_node_name(child), path);
            look_in(w, dir, fd, file_node_name(child), path, NULL);
        }
    }
    dir->flags |= FILE_NODE_COMPLETE;
}

/* Arm a directory, then look at its names. */
static void enter(struct file_watch *w, struct file_node *dir, enum enter_mode mode,
                  const struct file_node *origin)
{
    struct file_place *p = place_ensure(w, dir);
    struct buf path;
    buf_init(&path, FILE_MAX_PATH);
    file_node_path(dir, &path);
    if (!p || path.failed) {
        buf_deinit(&path);
        return;
    }
    int follow = dir->flags & FILE_NODE_LINK ? 0 : O_NOFOLLOW;
    int fd = file_open_beneath(w->root->fd, path.ptr, O_RDONLY | O_DIRECTORY | follow);
    if (fd < 0) {
        /* Not readable for us now, or just gone: its parent will tell, the poll will ask. */
        unwatch(w, p);
        poll_on(w, p);
    } else if (!(arm(w, p, fd) && mode == ENTER_IF_MISSED)) {
        DIR *stream = is_deep(dir) ? fdopendir(fd) : NULL;
        if (stream) {
            scan_all(w, dir, stream, &path, origin);
            closedir(stream);
            fd = -1;
        } else if (is_deep(dir)) {
            w->failed = TIDINGS_E_NOMEM;
        } else {
            scan_some(w, dir, fd, &path);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    buf_deinit(&path);
}

enum file_verdict file_scan_look(struct file_watch *w, struct file_node *dir,
                                 struct tidings_str name, struct tidings_str from)
{
    struct buf path;
    struct file_look look;
    enum file_verdict verdict = FILE_SAME;
    buf_init(&path, FILE_MAX_PATH);
    file_scan_path(dir, name, &path);
    int rc = path.failed ? -ENOMEM : file_look(w->root, path.ptr, &look);
    if (rc == 0 || is_absence(rc)) {
        verdict = settle(w, dir, name, rc < 0 ? NULL : &look, from, NULL);
        struct file_node *node = file_tree_find(&w->tree, dir, name);
        if (node && verdict == FILE_SAME && is_needed(node)) {
            /* An inode number is used again at once: the same print may be a new directory. */
            enter(w, node, ENTER_IF_MISSED, NULL);
        }
    }
    buf_deinit(&path);
    return verdict;
}

void file_scan_moved(struct file_watch *w, struct file_node *origin, struct file_node *dir,
                     struct tidings_str name)
{
    struct buf path;
    struct file_look look;
    buf_init(&path, FILE_MAX_PATH);
    file_scan_path(dir, name, &path);
    int rc = path.failed ? -ENOMEM : file_look(w->root, path.ptr, &look);
    announce_gone(w, origin);
    if (rc == 0 || is_absence(rc)) {
        settle(w, dir, name, rc < 0 ? NULL : &look, STR_EMPTY, origin);
    }
    set_absent(w, origin);
    buf_deinit(&path);
}

void file_scan_enter(struct file_watch *w, struct file_node *dir)
{
    if (is_needed(dir)) {
        enter(w, dir, ENTER_ALWAYS, NULL);
    }
}
