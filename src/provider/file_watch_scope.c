/* SPDX-License-Identifier: MIT
 *
 * The scopes of a file watch in its tree: the chain of directories from the root to each scope is
 * watched, so arming walks it down, looking at every step, and disarming gives back what no other
 * scope needs.
 *
 * What was known of a disarmed scope stays in the tree: arming it again looks and announces the
 * difference. That memory is bounded; when the tree has more than keptNodes nodes, disarming drops
 * everything that no scope tracks, and the next arming takes a new baseline.
 */
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "provider/file_watch_private.h"

/* ---- arming ---------------------------------------------------------------------------------- */

/* The node of a name. One that is missing where all names are known is known to be absent: that it
 * is there when it is looked at is a change, and others may be waiting for just that. */
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

/* The node of a path; missing ones are made, each with a point. */
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

/* Look at each step from the root to the target, as far as there are directories. */
static void chain_scan(struct file_watch *w, struct tidings_str path)
{
    struct file_node *node = w->tree.root;
    if (!file_node_is_armed(node)) {
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

int file_scope_arm(struct file_watch *w, struct tidings_str path, bool is_tree,
                   struct tidings_error *err)
{
    int before = w->failed;
    w->failed = 0;
    struct file_node *target = chain_ensure(w, path);
    if (target) {
        struct watch_point *p = watch_point_of(target);
        bool was_partly_armed = file_node_is_armed(target) && !file_node_is_deep(target);
        p->wants_tree = p->wants_tree || is_tree;
        p->wants_file = p->wants_file || !is_tree;
        chain_count(target, 1);
        file_ancestors_ask(w);
        chain_scan(w, path);
        if (is_tree && was_partly_armed) {
            rescan_below(w, target);
        }
    }
    int rc = w->failed;
    if (rc == TIDINGS_E_IO) {
        rc = 0; /* of one file among others, perhaps: looked at again */
    } else if (rc < 0 && target) {
        file_scope_disarm(w, path, is_tree);
    }
    w->failed = before   ? before
                : rc < 0 ? 0
                         : w->failed; /* kept for others; this one is told now */
    return rc < 0 ? tidings_fail(err, rc, "watching: %s",
                                 rc == TIDINGS_E_LIMIT  ? "too many files"
                                 : rc == TIDINGS_E_BUSY ? "out of descriptors; try again later"
                                                        : tidings_code_text(rc))
                  : 0;
}

/* ---- disarming ------------------------------------------------------------------------------- */

static void tidy_below(struct file_watch *w, struct file_node *node)
{
    for (struct file_node *child = node->children; child; child = child->next) {
        tidy_below(w, child);
    }
    watch_point_tidy(w, node);
}

/* Remove what no scope tracks. */
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

void file_scope_disarm(struct file_watch *w, struct tidings_str path, bool is_tree)
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

void file_scope_poll(struct file_watch *w)
{
    if (w->inotify < 0 && file_event_open(w, NULL) == 0 && w->inotify >= 0) {
        log_info(LOG_FILES, "inotify is available again", KV("mount", w->root->prefix));
    }
    file_ancestors_ask(w);
    /* Each look may free any point, which then leaves whichever of the two lists it is in. */
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

void file_scope_deinit(struct file_watch *w)
{
    if (w->tree.root) {
        free_watch_points(w->tree.root);
    }
    file_tree_deinit(&w->tree);
    map_deinit(&w->by_wd);
}
