/* SPDX-License-Identifier: MIT
 *
 * Scans watched directories: records the current state of a name or a directory, announces
 * differences from the recorded one, and keeps the kernel watches that the scopes need.
 *
 * Invariant: a directory is entered (scanned) only after its kernel watch was added, or it was put
 * on the list of polled ones. A node is announced as created or deleted exactly when its PRESENT
 * flag changes while it is KNOWN. If a path cannot be read or recorded (no memory, no descriptors),
 * the scan is retried later: watching then fails as a whole, otherwise everything is scanned again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/time.h"
#include "sources/file_watch_internal.h"

/* -------------------------------------------------------------------------------------------------
 * Hard links: if a file with two names in the tree is written through one, the kernel reports only
 * that name. So when a file with several names has changed, its other names are found among the
 * nodes (by the inode number) and checked too.
 *
 * That scans all nodes. It happens a moment after the change, for all changes up to then, and
 * rarely enough to take a small part of the time. Names outside the root cannot be found.
 *
 * A subscribed file may have unwatched names. The kernel then watches its inode: for new names, and
 * while it has several, for writes. That takes a watch for each file, so it covers FILE_INODES_MAX
 * of them; files with other names are also polled.
 */

#define SEARCH_MS 10u    /* after a change */
#define PAUSE_FACTOR 20u /* minimum pause, as a multiple of the duration of the last search */

static void file_hardlink_changed(struct file_watch *w, const struct stat *st)
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
    w->hardlink_count++; /* too many for the array: all files are checked */
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
        (void)inotify_rm_watch(w->inotify, wd); /* fails if the file is gone, which is harmless */
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

static void file_hardlink_watch(struct file_watch *w, struct watch_point *p, const struct stat *st)
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
            return; /* the same file under another name, which gets events for both */
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
        file_hardlink_changed(w, st); /* this finds earlier writes */
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

/* ---------------------------------------------------------------------------------------------- */

/* Returns true if it failed because nothing (served) exists there. Other failures give no
 * information. */
static bool is_absence(int negative_errno)
{
    return negative_errno == -ENOENT || negative_errno == -ENOTDIR || negative_errno == -EXDEV ||
           negative_errno == -ELOOP || negative_errno == -ENAMETOOLONG;
}

/* ---- announcing ------------------------------------------------------------------------------ */

void file_scan_path(const struct file_node *dir, struct tidings_str name, struct buf *out)
{
    buf_clear(out);
    file_node_path(dir, out);
    if (out->len > 0) {
        buf_putc(out, '/');
    }
    buf_puts(out, name);
}

/* Writes the URI of the node's target, if there are links. */
static void put_target(struct file_watch *w, const struct file_node *node, struct buf *out)
{
    struct buf path;
    buf_init(&path, FILE_WHERE_SIZE + FILE_MAX_PATH);
    file_node_target(node, &path);
    if (path.len > 0) {
        file_target_uri(w->root, &path, (node->flags & FILE_NODE_DIRECTORY) != 0, out);
    }
    out->failed = out->failed ? out->failed : path.failed;
    buf_deinit(&path);
}

/* `info` NULL: it is gone, or its current state is unknown. */
static void file_scan_announce(struct file_watch *w, const struct file_node *node,
                               enum tidings_change_kind kind, const struct file_info *info,
                               struct tidings_str from)
{
    struct buf path, uri, from_uri, target;
    char etag[FILE_ETAG_SIZE];
    struct tidings_error err = {0};
    bool has_slash = (node->flags & FILE_NODE_DIRECTORY) != 0;
    buf_init(&path, FILE_MAX_PATH);
    buf_init(&uri, w->root->prefix_len + FILE_MAX_ENCODED);
    buf_init(&from_uri, w->root->prefix_len + FILE_MAX_ENCODED);
    buf_init(&target, w->root->prefix_len + FILE_MAX_ENCODED);
    file_node_path(node, &path);
    file_path_to_uri(w->root, buf_str(&path), has_slash, &uri);
    put_target(w, node, &target);
    struct tidings_change change = {.uri = buf_str(&uri), .kind = kind, .target = buf_str(&target)};
    if (info) {
        file_etag(&info->st, etag);
        change.etag = tidings_str(etag);
        change.modified_ms = file_modified_ms(&info->st);
        change.has_size = !has_slash;
        change.size = has_slash ? 0 : info->st.st_size;
    }
    if (from.len > 0 && kind == TIDINGS_CHANGE_CREATED) {
        file_path_to_uri(w->root, from, has_slash, &from_uri);
        change.from = buf_str(&from_uri);
    }
    int rc = path.failed ? path.failed : uri.failed ? uri.failed : from_uri.failed;
    rc = rc < 0 ? rc : target.failed;
    if (rc == 0) {
        rc = tidings_provider_changed(w->provider, &change, &err);
    }
    if (rc < 0) {
        log_error(LOG_FILES, "file change not announced",
                  KV("reason", err.text[0] ? err.text : tidings_code_text(rc)));
        tidings_provider_missed(w->provider);
    }
    buf_deinit(&path);
    buf_deinit(&uri);
    buf_deinit(&from_uri);
    buf_deinit(&target);
}

void file_scan_announce_update(struct file_watch *w, struct file_node *node)
{
    struct buf path;
    struct file_info info;
    buf_init(&path, FILE_MAX_PATH);
    file_node_path(node, &path);
    int rc = path.failed ? -ENOMEM : file_stat(w->root, path.ptr, &info, &w->link_target);
    if (!is_absence(rc)) {
        file_scan_announce(w, node, TIDINGS_CHANGE_UPDATED, rc == 0 ? &info : NULL, STR_EMPTY);
    }
    buf_deinit(&path);
}

/* Announces that the node and everything below it are gone, deepest first, and stops watching
 * there. The nodes stay. */
static void announce_gone(struct file_watch *w, struct file_node *node)
{
    const unsigned known = FILE_NODE_PRESENT | FILE_NODE_KNOWN;
    for (struct file_node *child = node->children; child; child = child->next) {
        announce_gone(w, child);
    }
    if ((node->flags & known) == known) {
        file_scan_announce(w, node, TIDINGS_CHANGE_DELETED, NULL, STR_EMPTY);
    }
    if (node->extra) {
        watch_point_unwatch(w, watch_point_of(node));
    }
}

/* Marks the node and everything below it as absent and known. Nodes with a scope stay, the rest is
 * removed. The node itself may be freed. */
static void set_absent(struct file_watch *w, struct file_node *node)
{
    static const struct file_state absent;
    struct file_node *next;
    bool may_be_saved =
        node->children || file_node_is_directory(node) || (node->flags & FILE_NODE_COMPLETE);
    for (struct file_node *child = node->children; child; child = next) {
        next = child->next;
        set_absent(w, child);
    }
    file_node_set(node, &absent);
    file_node_set_complete(node, file_node_is_deep(node)); /* known to be empty */
    watch_point_tidy(w, node);
    if (node->parent && !node->extra && !node->children) {
        if (may_be_saved) {
            file_keep_gone(w, node);
        }
        file_tree_remove(&w->tree, node);
    }
}

static void file_scan_vanished(struct file_watch *w, struct file_node *node)
{
    announce_gone(w, node);
    set_absent(w, node);
}

/* ---- looking --------------------------------------------------------------------------------- */

enum enter_mode {
    ENTER_IF_MISSED, /* not if it was watched without interruption */
    ENTER_ALWAYS,
};

static void file_scan_watch_and_read(struct file_watch *w, struct file_node *dir,
                                     enum enter_mode mode, const struct file_node *origin);

static struct file_state state_of(const struct file_info *info)
{
    struct file_state state = {0};
    if (info && file_kind(info) != FILE_OTHER) {
        state.is_present = true;
        state.is_directory = file_kind(info) == FILE_DIRECTORY;
        state.is_link = info->is_link;
        state.print = state.is_directory ? file_identity(&info->st) : file_print(&info->st);
        state.inode = state.is_directory ? 0 : (uint32_t)info->st.st_ino;
    }
    return state;
}

/* Updates the node of a name with the state that was found. */
static struct file_node *file_scan_remember(struct file_watch *w, struct file_node *dir,
                                            struct tidings_str name, const struct file_state *state)
{
    struct file_node *node = file_tree_add(&w->tree, dir, name);
    if (!node) {
        file_retry_add(w, w->tree.count >= w->tree.max ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM);
        return NULL;
    }
    file_node_set(node, state);
    if (state->is_link) {
        struct watch_point *p = watch_point_ensure(w, node);
        if (p) {
            watch_point_set_target(w, p, buf_str(&w->link_target));
            watch_point_poll(w, p);
        }
    } else if (!state->is_directory) {
        watch_point_tidy(w, node); /* it may have been a link */
    }
    return node;
}

static void on_created(struct file_watch *w, struct file_node *node, const struct file_info *info,
                       struct tidings_str from, const struct file_node *origin)
{
    struct buf path;
    buf_init(&path, FILE_MAX_PATH);
    if (origin && (origin->flags & FILE_NODE_PRESENT)) {
        file_node_path(origin, &path);
        from = buf_str(&path);
    }
    file_scan_announce(w, node, TIDINGS_CHANGE_CREATED, info, from);
    buf_deinit(&path);
    bool is_needed = file_node_is_needed(node);
    /* It did not exist: everything in it is new. */
    file_node_set_complete(node, is_needed && file_node_is_deep(node));
    if (is_needed) {
        file_scan_watch_and_read(w, node, ENTER_ALWAYS, origin);
    }
}

/* A file may have other names (hard links): writes through them cause no event for this one. */
static void watch_other_names(struct file_watch *w, struct file_node *node, const struct stat *st,
                              enum file_verdict verdict)
{
    struct watch_point *p = watch_point_of(node);
    if (st->st_nlink > 1 && p && p->wants_file) {
        watch_point_poll(w, p); /* the other names need not be in any scope */
    }
    if (p && p->wants_file && (verdict != FILE_SAME || p->file_wd < 0)) {
        file_hardlink_watch(w, p, st);
    }
    if (verdict != FILE_SAME) {
        file_hardlink_changed(w, st);
    }
}

/* Returns true if the node is a link whose recorded target differs from the one just found. */
static bool leads_elsewhere(const struct file_watch *w, const struct file_node *node)
{
    const unsigned link = FILE_NODE_PRESENT | FILE_NODE_KNOWN | FILE_NODE_LINK;
    const struct watch_point *p = watch_point_of(node);
    return (node->flags & link) == link && p && p->target &&
           !str_eq(tidings_str(p->target), buf_str(&w->link_target));
}

/* Compares the state found at a name (`info` NULL: none) with the recorded one; announces, records,
 * enters. `origin`: the node it was moved from, if known. */
static enum file_verdict file_scan_compare(struct file_watch *w, struct file_node *dir,
                                           struct tidings_str name, const struct file_info *info,
                                           struct tidings_str from, const struct file_node *origin)
{
    struct file_state state = state_of(info);
    struct file_node *node = file_tree_find(&w->tree, dir, name);
    enum file_verdict verdict = file_tree_compare(dir, node, &state);
    if (state.is_link && node && leads_elsewhere(w, node)) {
        verdict = FILE_REPLACED; /* access to the two targets may differ */
    }
    if (node && !state.is_present) {
        file_scan_vanished(w, node);
        return verdict;
    }
    if (verdict == FILE_REPLACED && w->is_comparing && file_node_is_directory(node) &&
        state.is_directory && !state.is_link && !(node->flags & FILE_NODE_LINK)) {
        verdict = FILE_SAME; /* another directory under its name: compares its content */
    }
    if (verdict == FILE_REPLACED) {
        file_scan_vanished(w, node);
    }
    node = state.is_present ? file_scan_remember(w, dir, name, &state) : NULL;
    if (!node) {
        return verdict;
    }
    if (!state.is_directory && !state.is_link) {
        watch_other_names(w, node, &info->st, verdict);
    }
    switch (verdict) {
    case FILE_CREATED:
    case FILE_REPLACED:
        on_created(w, node, info, from, origin);
        break;
    case FILE_UPDATED:
        file_scan_announce(w, node, TIDINGS_CHANGE_UPDATED, info, STR_EMPTY);
        break;
    case FILE_SAME:
    case FILE_DELETED:
    default:
        if (file_node_is_needed(node) && (w->is_rescanning || !file_node_is_watched(node))) {
            file_scan_watch_and_read(w, node, ENTER_ALWAYS, NULL);
        }
        break;
    }
    return verdict;
}

/* Returns a name at the end of its path. Callers use that copy because the node that owns the
 * original may be freed. */
static struct tidings_str last_bytes(const struct buf *path, size_t len)
{
    return tidings_strn(path->ptr + path->len - len, len);
}

/* Returns true if the path was stored completely. A path that is too long cannot be opened anyway;
 * if memory ran out, it is scanned again later. */
static bool is_whole(struct file_watch *w, const struct buf *path)
{
    if (path->failed == TIDINGS_E_NOMEM) {
        file_retry_add(w, TIDINGS_E_NOMEM);
    }
    return !path->failed;
}

static void file_retry_errno(struct file_watch *w, int errnum);

/* Checks one name of the directory open as `fd`, whose path with the name is `path`. */
static void file_scan_entry(struct file_watch *w, struct file_node *dir, int fd, size_t name_len,
                            const struct buf *path, const struct file_node *origin)
{
    struct file_info info;
    if (!is_whole(w, path)) {
        return;
    }
    struct tidings_str name = last_bytes(path, name_len);
    int rc = file_stat_in(w->root, fd, path->ptr, &info, &w->link_target);
    if (rc < 0 && !is_absence(rc)) {
        file_retry_errno(w, -rc);
        return;
    }
    const struct file_node *from = origin ? file_tree_find(&w->tree, origin, name) : NULL;
    file_scan_compare(w, dir, name, rc < 0 ? NULL : &info, STR_EMPTY, from);
}

/* Checks the few names that lead to a scope. */
static void scan_some(struct file_watch *w, struct file_node *dir, int fd, struct buf *path)
{
    struct file_node *next;
    for (struct file_node *child = dir->children; child; child = next) {
        next = child->next;
        if (watch_point_has_scope(watch_point_of(child))) {
            file_scan_path(dir, file_node_name(child), path);
            file_scan_entry(w, dir, fd, child->name_len, path, NULL);
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
    while (errno = 0, (d = readdir(stream))) {
        struct tidings_str name = tidings_str(d->d_name);
        if (str_eq(name, STR(".")) || str_eq(name, STR(".."))) {
            continue;
        }
        file_scan_path(dir, name, path);
        if (!is_whole(w, path) || file_is_excluded(w->root, buf_str(path))) {
            continue;
        }
        file_scan_entry(w, dir, fd, name.len, path, origin);
        struct file_node *child = file_tree_find(&w->tree, dir, name);
        if (child) {
            child->flags |= FILE_NODE_SEEN;
        }
    }
    int failed = errno;
    file_retry_errno(w, failed);
    /* Unseen names are gone, or were renamed during the read: check them by name. */
    struct file_node *next;
    for (struct file_node *child = dir->children; child; child = next) {
        next = child->next;
        if (!(child->flags & FILE_NODE_SEEN)) {
            file_scan_path(dir, file_node_name(child), path);
            file_scan_entry(w, dir, fd, child->name_len, path, NULL);
        }
    }
    if (!failed) {
        file_node_set_complete(dir, true);
    }
}

/* Returns true if links led to the recorded target. Changes found there are announced under that
 * name. */
static bool is_where_known(const struct file_watch *w, const struct file_node *dir)
{
    struct buf known;
    buf_init(&known, FILE_WHERE_SIZE + FILE_MAX_PATH);
    file_node_target(dir, &known);
    bool is_same = !known.failed && str_eq(buf_str(&known), buf_str(&w->link_target));
    buf_deinit(&known);
    return is_same;
}

static bool file_retry_is_short(const struct file_watch *w);

/* Watches a directory, then checks its names. */
static void file_scan_watch_and_read(struct file_watch *w, struct file_node *dir,
                                     enum enter_mode mode, const struct file_node *origin)
{
    if (w->is_rescanning && file_retry_is_short(w)) {
        return;
    }
    struct watch_point *p = watch_point_ensure(w, dir);
    struct buf path;
    buf_init(&path, FILE_MAX_PATH);
    file_node_path(dir, &path);
    if (!p || !is_whole(w, &path)) {
        buf_deinit(&path);
        return;
    }
    int follow = dir->flags & FILE_NODE_LINK ? 0 : O_NOFOLLOW;
    int fd = file_open_beneath(w->root, w->root->fd, path.ptr, O_RDONLY | O_DIRECTORY | follow,
                               &w->link_target);
    if (fd >= 0 && !is_where_known(w, dir)) {
        close(fd);
        buf_deinit(&path);
        return; /* a link on the way was switched: its next check finds that */
    }
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -EAGAIN) {
        file_retry_errno(w, -fd); /* an existing watch stays */
    } else if (fd < 0) {
        /* Unreadable now, or just removed: its parent gets an event, or the poll finds out. While
         * its content is invisible, files that appear later are new. */
        watch_point_unwatch(w, p);
        watch_point_poll(w, p);
        if (fd == -EACCES && file_node_is_deep(dir)) {
            file_node_set_complete(dir, true);
        }
    } else if (!(watch_point_watch(w, p, fd) && mode == ENTER_IF_MISSED)) {
        DIR *stream = file_node_is_deep(dir) ? fdopendir(fd) : NULL;
        if (stream) {
            scan_all(w, dir, stream, &path, origin);
            closedir(stream);
            fd = -1;
        } else if (file_node_is_deep(dir)) {
            file_retry_add(w, TIDINGS_E_NOMEM);
        } else {
            scan_some(w, dir, fd, &path);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    buf_deinit(&path);
}

enum file_verdict file_scan_name(struct file_watch *w, struct file_node *dir,
                                 struct tidings_str name, struct tidings_str from)
{
    struct buf path;
    struct file_info info;
    enum file_verdict verdict = FILE_SAME;
    buf_init(&path, FILE_MAX_PATH);
    file_scan_path(dir, name, &path);
    int rc = is_whole(w, &path) ? file_stat(w->root, path.ptr, &info, &w->link_target) : -ENOMEM;
    if (rc == 0 || is_absence(rc)) {
        name = last_bytes(&path, name.len);
        verdict = file_scan_compare(w, dir, name, rc < 0 ? NULL : &info, from, NULL);
        struct file_node *node = file_tree_find(&w->tree, dir, name);
        if (node && verdict == FILE_SAME && file_node_is_needed(node)) {
            /* Inode numbers are reused immediately: the same print may be a new directory. */
            file_scan_watch_and_read(w, node, ENTER_IF_MISSED, NULL);
        }
    } else {
        file_retry_errno(w, -rc);
    }
    buf_deinit(&path);
    return verdict;
}

void file_scan_moved(struct file_watch *w, struct file_node *origin, struct file_node *dir,
                     struct tidings_str name)
{
    struct buf path;
    struct file_info info;
    buf_init(&path, FILE_MAX_PATH);
    file_scan_path(dir, name, &path);
    int rc = is_whole(w, &path) ? file_stat(w->root, path.ptr, &info, &w->link_target) : -ENOMEM;
    announce_gone(w, origin);
    if (rc == 0 || is_absence(rc)) {
        file_scan_compare(w, dir, name, rc < 0 ? NULL : &info, STR_EMPTY, origin);
    } else {
        file_retry_errno(w, -rc);
    }
    set_absent(w, origin);
    buf_deinit(&path);
}

void file_scan_enter(struct file_watch *w, struct file_node *dir)
{
    if (file_node_is_needed(dir)) {
        file_scan_watch_and_read(w, dir, ENTER_ALWAYS, NULL);
    }
}

/* The root is this directory (NULL: there is none). Compares if it is a different one, or if
 * required. */
static void file_scan_root(struct file_watch *w, const struct stat *st, bool must_compare)
{
    struct file_node *node = w->tree.root;
    struct file_info info = {0};
    if (st) {
        info.st = *st;
        w->keep.device = (uint64_t)st->st_dev;
    }
    struct file_state state = state_of(st ? &info : NULL);
    bool was_there = w->has_root ? file_node_is_directory(node) : state.is_present;
    bool is_other = must_compare || node->print != state.print;
    bool is_first = !w->has_root;
    w->has_root = true;
    if (!state.is_present) {
        if (is_first) {
            file_node_set(node, &state);
        }
        file_scan_vanished(w, node); /* including scopes that were watched since */
        return;
    }
    file_node_set(node, &state);
    if (!was_there) {
        on_created(w, node, &info, STR_EMPTY, NULL);
    } else if (is_other && !is_first) {
        file_scope_compare(w);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Retries failed scans of a file watch: out of descriptors, out of memory, a disk error. Changes
 * that they missed still have to be announced. After a pause everything in any scope is scanned
 * again, and differences are announced as usual; pauses grow while that fails. If the first retry
 * fails too, all subscriptions below the mount get `truncated` (once, until a scan succeeds).
 */

#define FIRST_MS 100u
#define SHORT_MAX_MS 2000u /* descriptors and memory become available */
#define LONG_MAX_MS 60000u /* a disk error, or a full tree, which rarely ends */

static bool file_retry_is_short(const struct file_watch *w)
{
    return w->failed == TIDINGS_E_BUSY || w->failed == TIDINGS_E_NOMEM;
}

void file_retry_add(struct file_watch *w, int code)
{
    if (!file_retry_is_short(w)) {
        w->failed = code;
    }
    if (!loop_timer_is_running(w->retry_timer)) {
        uint64_t most = file_retry_is_short(w) ? SHORT_MAX_MS : LONG_MAX_MS;
        w->retry_ms = w->retry_ms ? 2 * w->retry_ms : FIRST_MS;
        w->retry_ms = w->retry_ms < most ? w->retry_ms : most;
        loop_timer_start(w->retry_timer, w->retry_ms, 0);
    }
}

/* The same for the errno of a failure, if it is a lack of resources: missing and unreadable paths
 * count as checked. */
static void file_retry_errno(struct file_watch *w, int errnum)
{
    switch (errnum) {
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case EINTR:
        file_retry_add(w, TIDINGS_E_BUSY);
        break;
    case ENOMEM:
        file_retry_add(w, TIDINGS_E_NOMEM);
        break;
    case EIO:
    case ESTALE:
        file_retry_add(w, TIDINGS_E_IO);
        break;
    default:
        break;
    }
}

static void on_retry(struct loop_timer *timer, void *user)
{
    struct file_watch *w = user;
    (void)timer;
    int code = w->failed;
    w->failed = 0;
    if (code) {
        file_ancestors_check(w, true);
    }
    if (!w->failed) {
        w->retry_ms = 0;
        if (w->has_reported) {
            w->has_reported = false;
            log_info(LOG_FILES, "files are watched again", KV("mount", w->root->prefix));
        }
        return;
    }
    if (!w->has_reported) {
        w->has_reported = true;
        log_warn(
            LOG_FILES, "files cannot be watched for now, trying again until they can",
            KV("reason", code == TIDINGS_E_BUSY ? "out of descriptors" : tidings_code_text(code)),
            KV("mount", w->root->prefix));
        tidings_provider_missed(w->provider);
    }
}

int file_retry_init(struct file_watch *w, struct tidings_error *err)
{
    w->retry_timer = loop_timer_open(w->actor.loop, on_retry, w);
    return w->retry_timer ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

void file_retry_deinit(struct file_watch *w)
{
    loop_timer_close(w->retry_timer);
}

/* -------------------------------------------------------------------------------------------------
 * Watches the path above the root: the directories that lead to it, in each of which one name
 * counts, and the mounts of the system, because a mount on a directory causes no event in it. After
 * an event, the root is opened again, and everything in any scope is compared with the current
 * state. Differences are announced, a replaced file as an update.
 *
 * Directories above that cannot be watched are checked with every poll.
 */

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
        (void)inotify_rm_watch(w->inotify, wd); /* fails if it is gone, which is harmless */
    }
}

/* Watches the current path, each directory before its name is looked up. */
static void file_ancestors_watch(struct file_watch *w)
{
    int before[FILE_ANCESTORS_MAX];
    size_t count = w->ancestor_count;
    if (w->scopes.count == 0) {
        return; /* no scope needs it */
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
        w->ancestors_are_polled = true; /* the path may be incomplete */
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

/* A failure for lack of resources gives no information: it is retried later. */
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
    file_ancestors_watch(w);
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

/* Writes a path in the escaped form of mountinfo. */
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

/* Returns a hash of the mounts below `top`; 0: there are none. */
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

/* -1: unknown. */
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

/* A confined process gets it from its helper. Each watch opens the file again: the kernel reports a
 * change once for each open file. */
void file_ancestors_init(struct file_watch *w)
{
    int fd = confined_file_descriptor(FILE_WATCH_MOUNTS);
    if (fd >= 0) {
        w->mounts = fd;
        (void)read_mounts_hash(w, &w->mounts_hash);
        w->mounts_poll = loop_change_poll_open(w->actor.loop, fd, on_mounts, w);
    }
    if (!w->mounts_poll) { /* the next check then finds mounts */
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
