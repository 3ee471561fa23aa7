/* SPDX-License-Identifier: MIT
 *
 * Saves the state of a file watch in the store, so that it outlives the program. The tree is loaded
 * before the first scope is watched, so that watching compares with it as after any pause, and
 * saved while it changes.
 *
 * Changes are saved in groups, GROUP_MS after the first change of a group. UNSAVED directories are
 * put into a part (store/sqlite_files.h), which is sent after the announcements that correspond to
 * it. One part is under way at a time; a part that could not be written is sent again. A large tree
 * takes several parts; the state is certain only with the last, which completes it.
 */
#include "base/log.h"
#include "base/mem.h"
#include "sources/file_tree.h"
#include "sources/file_watch_internal.h"
#include "store/sqlite_files.h"

#define GROUP_MS 250u
#define BYTES_PER_MS 4096u /* long-term maximum of written bytes */
#define AGAIN_MS 1000u     /* before a failed part is sent again */
#define GONE_MAX (16u << 20)

static const unsigned unsaved = FILE_NODE_UNSAVED | FILE_NODE_UNSAVED_BELOW;

/* ---- saving ---------------------------------------------------------------------------------- */

static struct tidings_str keep_target(const struct file_node *node)
{
    const struct watch_point *p = watch_point_of(node);
    return p && p->target ? tidings_str(p->target) : STR_EMPTY;
}

static bool has_known_names(const struct file_node *dir)
{
    const struct file_node *child = dir->children;
    while (child && !(child->flags & FILE_NODE_KNOWN)) {
        child = child->next;
    }
    return child || (dir->flags & FILE_NODE_COMPLETE);
}

static void put_directory(const struct file_node *dir, struct tidings_str path,
                          struct file_chunk *chunk)
{
    if (has_known_names(dir)) {
        size_t begun = file_chunk_begin(chunk, path);
        file_record_write(dir, path, keep_target, &chunk->directories);
        file_chunk_end(chunk, begun);
    } else {
        buf_puts(&chunk->gone, path);
        buf_putc(&chunk->gone, '\0');
    }
}

/* Puts the unsaved state at and below `dir`, whose path is `path`, into the part, until that is
 * full.
 */
static void put_unsaved(struct file_node *dir, struct buf *path, struct file_chunk *chunk)
{
    size_t len = path->len;
    if (dir->flags & FILE_NODE_UNSAVED) {
        put_directory(dir, buf_str(path), chunk);
        dir->flags = (uint16_t)(dir->flags & ~FILE_NODE_UNSAVED);
    }
    for (struct file_node *child = dir->children;
         child && chunk->directories.len < FILE_CHUNK_BYTES &&
         (dir->flags & FILE_NODE_UNSAVED_BELOW);
         child = child->next) {
        if (child->flags & unsaved) {
            buf_puts(path, len > 0 ? STR("/") : STR_EMPTY);
            buf_puts(path, file_node_name(child));
            put_unsaved(child, path, chunk);
            path->len = len;
        }
    }
    if (chunk->directories.len < FILE_CHUNK_BYTES) {
        dir->flags = (uint16_t)(dir->flags & ~FILE_NODE_UNSAVED_BELOW);
    }
}

/* Returns the next part, or NULL if out of memory. Its content is then still unsaved, or everything
 * is. */
static struct file_chunk *next_chunk(struct file_watch *w)
{
    struct file_keep *k = &w->keep;
    struct file_node *root = w->tree.root;
    struct file_chunk *chunk = file_chunk_create(tidings_provider_prefix(w->provider));
    if (!chunk) {
        return NULL;
    }
    struct buf path;
    buf_init(&path, FILE_MAX_PATH + 256);
    buf_reserve(&path, 0);
    buf_puts(&chunk->gone, buf_str(&k->gone));
    put_unsaved(root, &path, chunk);
    bool has_failed =
        k->gone.failed || path.failed || chunk->gone.failed || chunk->directories.failed;
    buf_deinit(&path);
    if (has_failed) {
        file_chunk_free(chunk);
        file_keep_reset(w);
        return NULL;
    }
    buf_clear(&k->gone);
    chunk->root_print = file_node_is_directory(root) ? root->print : 0;
    chunk->device = k->device;
    chunk->is_reset = k->is_reset;
    chunk->is_whole = !(root->flags & unsaved);
    k->is_reset = false;
    k->has_news = k->has_news && !chunk->is_whole;
    return chunk;
}

struct chunk_message {
    struct thread_message message;
    struct file_chunk *chunk;
    int code;
    struct mailbox *reply_to; /* a reference */
};

static void returned_free(struct chunk_message *l)
{
    mailbox_unref(l->reply_to);
    mem_free(l);
}

static void returned_deliver(struct thread_message *message, void *owner)
{
    struct file_watch *w = owner;
    struct chunk_message *l = list_entry(message, struct chunk_message, message);
    w->keep.is_in_flight = false;
    uint64_t pause = AGAIN_MS;
    if (l->code == 0) {
        uint64_t bytes = l->chunk->directories.len;
        pause = !l->chunk->is_whole ? 0 : bytes / BYTES_PER_MS;
        pause = pause > GROUP_MS || !l->chunk->is_whole ? pause : GROUP_MS;
        file_chunk_free(l->chunk);
        w->keep.chunk = NULL;
    }
    w->keep.pause_ms = pause;
    returned_free(l);
}

static void returned_drop(struct thread_message *message)
{
    struct chunk_message *l = list_entry(message, struct chunk_message, message);
    file_chunk_free(l->chunk);
    returned_free(l);
}

/* On the commit thread. */
static void keep_done(struct file_chunk *chunk, int code)
{
    struct chunk_message *l = chunk->user;
    l->code = code;
    mailbox_send(l->reply_to, &l->message);
}

static bool make_chunk(struct file_watch *w)
{
    struct file_keep *k = &w->keep;
    struct chunk_message *l = mem_zalloc(sizeof *l);
    if (l && !k->chunk) {
        k->chunk = next_chunk(w);
    }
    if (!l || !k->chunk) {
        mem_free(l);
        return false;
    }
    list_init(&l->message.link);
    l->message.deliver = returned_deliver;
    l->message.drop = returned_drop;
    l->chunk = k->chunk;
    l->reply_to = mailbox_ref(w->actor.mailbox);
    k->chunk->user = l;
    k->chunk->done = keep_done;
    k->is_in_flight = true;
    return true;
}

static bool file_keep_is_due(const struct file_watch *w)
{
    return w->keep.chunk || w->keep.has_news || (w->tree.root->flags & unsaved);
}

static void on_group(struct loop_timer *timer, void *user)
{
    struct file_watch *w = user;
    (void)timer;
    if (!w->keep.is_in_flight && file_keep_is_due(w)) {
        if (make_chunk(w)) {
            w->keep.to->save(w->keep.to, w->keep.chunk);
        } else {
            w->keep.pause_ms = AGAIN_MS;
        }
    }
}

static void on_turn_end(void *user)
{
    struct file_watch *w = user;
    if (!w->keep.is_in_flight && file_keep_is_due(w) && !loop_timer_is_running(w->keep.timer)) {
        loop_timer_start(w->keep.timer, w->keep.pause_ms, 0);
    }
}

struct file_chunk *file_watch_unsaved(struct file_watch *w)
{
    while (mailbox_drain(w->actor.mailbox) > 0) {
        /* removed directories that exist again */
    }
    struct file_keep *k = &w->keep;
    /* Even if there is nothing to save: it records the progress of this epoch. */
    bool is_first = k->is_loaded && !k->is_final;
    k->is_final = true;
    return k->to && !k->is_in_flight && (is_first || file_keep_is_due(w)) && make_chunk(w)
               ? k->chunk
               : NULL;
}

/* ---- what happens to the tree ---------------------------------------------------------------- */

void file_keep_gone(struct file_watch *w, const struct file_node *dir)
{
    if (w->keep.to) {
        size_t begun = w->keep.gone.len;
        struct buf path;
        buf_init(&path, FILE_MAX_PATH);
        file_node_path(dir, &path);
        buf_puts(&w->keep.gone, buf_str(&path));
        buf_putc(&w->keep.gone, '\0');
        if (path.failed && !w->keep.gone.failed) {
            w->keep.gone.len = begun;
            w->keep.gone.failed = path.failed;
        }
        buf_deinit(&path);
    }
}

void file_keep_known(struct file_watch *w, struct tidings_str path, bool is_tree)
{
    struct buf uri;
    if (!w->keep.to) {
        return;
    }
    buf_init(&uri, w->root->prefix_len + FILE_MAX_ENCODED);
    file_path_to_uri(w->root, path, is_tree, &uri);
    if (!uri.failed) { /* otherwise it is unknown later, and resuming clients get `truncated` */
        w->keep.to->known(w->keep.to, tidings_provider_prefix(w->provider), buf_str(&uri));
        w->keep.has_news = true;
    }
    buf_deinit(&uri);
}

static void set_all_unsaved(struct file_node *node)
{
    if (node->children || (node->flags & FILE_NODE_COMPLETE)) {
        file_node_set_unsaved(node);
    }
    for (struct file_node *child = node->children; child; child = child->next) {
        set_all_unsaved(child);
    }
}

void file_keep_reset(struct file_watch *w)
{
    if (w->keep.to) {
        buf_clear(&w->keep.gone);
        w->keep.is_reset = true;
        w->keep.has_news = true;
        set_all_unsaved(w->tree.root);
        file_watch_report_known(w);
    }
}

/* ---- reading back ---------------------------------------------------------------------------- */

struct keep_loading {
    struct store_job job;
    struct file_watch *w;
    struct saved_root root;
    uint64_t device_change; /* by exclusive or */
};

static int keep_lead(void *user, struct file_node *node, struct tidings_str target)
{
    struct watch_point *p = watch_point_ensure(user, node);
    if (p) {
        p->target = str_dup(target);
    }
    return p && p->target ? 0 : TIDINGS_E_NOMEM;
}

/* Parents come before their children. Directories without a known parent are foreign, and
 * removed.
 */
static int load_directory(void *user, struct tidings_str path, struct tidings_str record)
{
    struct keep_loading *l = user;
    struct file_tree *tree = &l->w->tree;
    if (path.len > FILE_MAX_PATH || (path.len > 0 && memchr(path.ptr, '\0', path.len))) {
        return TIDINGS_E_PARSE;
    }
    struct file_node *dir = file_tree_walk(tree, path);
    if (!dir) {
        buf_puts(&l->w->keep.gone, path);
        buf_putc(&l->w->keep.gone, '\0');
        return 0;
    }
    if (dir->children || file_node_depth(dir) > FILE_MAX_DEPTH) {
        return TIDINGS_E_PARSE;
    }
    int rc = file_record_read(tree, dir, path, record, keep_lead, l->w);
    for (struct file_node *child = dir->children; child && l->device_change; child = child->next) {
        child->print ^= child->flags & FILE_NODE_PRESENT ? l->device_change : 0;
    }
    return rc;
}

static int keep_load_run(struct store_job *job, struct entities *e)
{
    struct keep_loading *l = list_entry(job, struct keep_loading, job);
    struct file_watch *w = l->w;
    struct store *store = entities_store(e);
    int rc = sqlite_files_root(store, tidings_provider_prefix(w->provider), &l->root, &job->err);
    if (rc < 0 || !l->root.is_known) {
        return rc;
    }
    if (l->root.print != 0 && w->keep.device != 0 && w->keep.device != l->root.device) {
        l->device_change =
            file_device_print((dev_t)w->keep.device) ^ file_device_print((dev_t)l->root.device);
    }
    rc = sqlite_files_each(store, tidings_provider_prefix(w->provider), load_directory, l,
                           &job->err);
    if (rc < 0) {
        return rc;
    }
    struct file_state root = {.is_present = l->root.print != 0,
                              .is_directory = true,
                              .print = l->root.print ^ l->device_change};
    file_node_set(w->tree.root, &root);
    w->has_root = true;
    w->keep.device = w->keep.device ? w->keep.device : l->root.device;
    if (l->device_change) { /* saved state has one device */
        set_all_unsaved(w->tree.root);
    }
    return 0;
}

int file_keep_load(struct file_watch *w, struct tidings_error *err)
{
    struct stat st;
    if (!w->keep.to || w->keep.is_loaded) {
        return 0;
    }
    struct keep_loading l = {.w = w, .job = {.run = keep_load_run}};
    file_root_follow(w->root);
    w->keep.device = file_root_stat(w->root, &st) ? (uint64_t)st.st_dev : 0;
    int failed = w->failed; /* not a scan */
    int rc = commit_thread_run(w->keep.to->commit_thread, &l.job);
    w->failed = failed;
    if (rc < 0) { /* as if nothing had been read */
        file_scope_clear(w);
    }
    if (rc == TIDINGS_E_NOMEM || rc == TIDINGS_E_LIMIT || rc == TIDINGS_E_CLOSED) {
        return tidings_fail(err, rc, "cannot load the saved file state: %s", tidings_code_text(rc));
    }
    if (rc < 0) {
        log_warn(LOG_FILES, "cannot read the saved file state; resuming clients must re-read",
                 KV("reason", l.job.err.text[0] ? l.job.err.text : "it is damaged"),
                 KV("mount", w->root->prefix));
        tidings_provider_missed(w->provider);
        w->keep.is_reset = true;
    }
    w->keep.is_loaded = true;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int file_keep_init(struct file_watch *w, struct file_keeping *to, struct tidings_error *err)
{
    buf_init(&w->keep.gone, GONE_MAX);
    list_init(&w->keep.turn_end.link);
    if (!to) {
        return 0;
    }
    w->keep.pause_ms = GROUP_MS;
    w->keep.timer = loop_timer_open(w->actor.loop, on_group, w);
    if (!w->keep.timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    loop_hook_add(w->actor.loop, &w->keep.turn_end, on_turn_end, w);
    w->keep.to = to;
    return 0;
}

void file_keep_deinit(struct file_watch *w)
{
    if (w->keep.to) {
        loop_hook_remove(&w->keep.turn_end);
    }
    if (w->keep.chunk && !w->keep.is_in_flight) {
        file_chunk_free(w->keep.chunk);
    }
    loop_timer_close(w->keep.timer);
    buf_deinit(&w->keep.gone);
}
