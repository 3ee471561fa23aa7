/* SPDX-License-Identifier: MIT
 *
 * Scanning watched directories: take in what a name or a directory is now, announce what differs
 * from what was known, and keep the kernel watches where the scopes need them.
 *
 * Invariant: a directory is entered (scanned) only after its kernel watch was added, or with it on
 * the list of polled ones. A node is announced as created or deleted exactly when its PRESENT flag
 * turns while it is KNOWN. What cannot be looked at or taken in (no memory, no descriptors) is
 * tried again later (file_watch_retry.c): arming then fails as a whole, otherwise everything is
 * scanned again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "provider/file_watch_private.h"

/* Did the look fail because nothing (of ours) is there? Otherwise it says nothing. */
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

/* The URI of what the node is when links are followed, if there are any. */
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

/* `info` NULL: it is gone, or what it is now is not known. */
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

/* Announce that the node and all below it are gone, deepest first, and stop watching there. The
 * nodes stay. */
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

/* The node and all below it are absent now, and known to be: what has a scope stays as that, the
 * rest is removed. The node itself may be freed. */
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
    file_node_set_complete(node, file_node_is_deep(node)); /* there is nothing in it, we know */
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
    ENTER_IF_MISSED, /* not if it was watched all along */
    ENTER_ALWAYS,
};

static void file_scan_arm_and_read(struct file_watch *w, struct file_node *dir,
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

/* The node of a name, with what was found in it. */
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
    /* It was not there: all that is in it is new. */
    file_node_set_complete(node, is_needed && file_node_is_deep(node));
    if (is_needed) {
        file_scan_arm_and_read(w, node, ENTER_ALWAYS, origin);
    }
}

/* A file may have other names (hard links), through which it is written to without an event for
 * this one. */
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

/* Is the known link one that led to something else than what was just looked at? */
static bool leads_elsewhere(const struct file_watch *w, const struct file_node *node)
{
    const unsigned link = FILE_NODE_PRESENT | FILE_NODE_KNOWN | FILE_NODE_LINK;
    const struct watch_point *p = watch_point_of(node);
    return (node->flags & link) == link && p && p->target &&
           !str_eq(tidings_str(p->target), buf_str(&w->link_target));
}

/* Compare what was found at a name (`info` NULL: nothing) with what was known; announce, remember,
 * enter. `origin`: the node it was moved from, if known. */
static enum file_verdict file_scan_compare(struct file_watch *w, struct file_node *dir,
                                           struct tidings_str name, const struct file_info *info,
                                           struct tidings_str from, const struct file_node *origin)
{
    struct file_state state = state_of(info);
    struct file_node *node = file_tree_find(&w->tree, dir, name);
    enum file_verdict verdict = file_tree_compare(dir, node, &state);
    if (state.is_link && node && leads_elsewhere(w, node)) {
        verdict = FILE_REPLACED; /* who may see the one may not be who may see the other */
    }
    if (node && !state.is_present) {
        file_scan_vanished(w, node);
        return verdict;
    }
    if (verdict == FILE_REPLACED && w->is_comparing && file_node_is_directory(node) &&
        state.is_directory && !state.is_link && !(node->flags & FILE_NODE_LINK)) {
        verdict = FILE_SAME; /* another directory under its name: what is in it is compared */
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
        if (file_node_is_needed(node) && (w->is_rescanning || !file_node_is_armed(node))) {
            file_scan_arm_and_read(w, node, ENTER_ALWAYS, NULL);
        }
        break;
    }
    return verdict;
}

/* A name as it stands at the end of its path. Names are handed on from there because the node they
 * come from may be freed on the way. */
static struct tidings_str last_bytes(const struct buf *path, size_t len)
{
    return tidings_strn(path->ptr + path->len - len, len);
}

/* Was there room for the path? What is too long cannot be opened anyway; what found no memory is
 * looked at again later. */
static bool is_whole(struct file_watch *w, const struct buf *path)
{
    if (path->failed == TIDINGS_E_NOMEM) {
        file_retry_add(w, TIDINGS_E_NOMEM);
    }
    return !path->failed;
}

/* Look at one name of the directory open as `fd`, whose path with the name is `path`. */
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

/* The names that lead to a scope; there are few. */
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
    /* What was not seen is gone, or was renamed while we read: ask for it by name. */
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

/* Did links lead to where they are known to? What is found there is told of under that name. */
static bool is_where_known(const struct file_watch *w, const struct file_node *dir)
{
    struct buf known;
    buf_init(&known, FILE_WHERE_SIZE + FILE_MAX_PATH);
    file_node_target(dir, &known);
    bool is_same = !known.failed && str_eq(buf_str(&known), buf_str(&w->link_target));
    buf_deinit(&known);
    return is_same;
}

/* Arm a directory, then look at its names. */
static void file_scan_arm_and_read(struct file_watch *w, struct file_node *dir,
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
        return; /* a link on the way was switched: the next look at that finds out */
    }
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -EAGAIN) {
        file_retry_errno(w, -fd); /* a watch it has stays */
    } else if (fd < 0) {
        /* Not readable for us now, or just gone: its parent will tell, the poll will ask. As long
         * as nothing of it can be seen, what appears later is new. */
        watch_point_unwatch(w, p);
        watch_point_poll(w, p);
        if (fd == -EACCES && file_node_is_deep(dir)) {
            file_node_set_complete(dir, true);
        }
    } else if (!(watch_point_arm(w, p, fd) && mode == ENTER_IF_MISSED)) {
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
            /* An inode number is used again at once: the same print may be a new directory. */
            file_scan_arm_and_read(w, node, ENTER_IF_MISSED, NULL);
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
        file_scan_arm_and_read(w, dir, ENTER_ALWAYS, NULL);
    }
}

void file_scan_root(struct file_watch *w, const struct stat *st, bool must_compare)
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
        file_scan_vanished(w, node); /* also for what was armed since */
        return;
    }
    file_node_set(node, &state);
    if (!was_there) {
        on_created(w, node, &info, STR_EMPTY, NULL);
    } else if (is_other && !is_first) {
        file_scope_compare(w);
    }
}
