/* SPDX-License-Identifier: MIT
 *
 * Watching files: the watcher's thread and its scopes, which are wanted, which linger.
 *
 *     (none) --add--> ACTIVE --last remove--> LINGERING --lingerMs--> (none)
 *                        ^-------- add ----------'
 *
 * ACTIVE and LINGERING are both armed; a scope is LINGERING while it is linked in `lingering`.
 */
#include "provider/file_watch.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "provider/file_watch_private.h"

#define MAX_NODES 16000000u

struct scope {
    struct list linger_link;
    uint64_t deadline_ms;
    uint32_t refs;
    size_t path_len;
    size_t key_len; /* one more than the path for a tree: the '/' */
    char key[];
};

struct watch_letter {
    struct letter letter;
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

static struct scope *scope_create(const struct watch_letter *e)
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

static int scope_open(struct file_watch *w, const struct watch_letter *e, struct tidings_error *err)
{
    struct scope *s = scope_create(e);
    if (!s || map_put(&w->scopes, tidings_strn(s->key, s->key_len), s, NULL) < 0) {
        mem_free(s);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = file_scope_arm(w, scope_path(s), e->is_tree, err);
    if (rc < 0) {
        map_remove(&w->scopes, tidings_strn(s->key, s->key_len));
        mem_free(s);
        return rc;
    }
    s->refs = 1;
    file_keep_known(w, scope_path(s), e->is_tree);
    return 0;
}

void file_watch_tell_known(struct file_watch *w)
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
    file_scope_disarm(w, scope_path(s), s->key_len > s->path_len);
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

static void deliver_add(struct letter *letter, void *owner)
{
    struct file_watch *w = owner;
    struct watch_letter *e = list_entry(letter, struct watch_letter, letter);
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

static void deliver_remove(struct letter *letter, void *owner)
{
    struct file_watch *w = owner;
    struct watch_letter *e = list_entry(letter, struct watch_letter, letter);
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

static void watch_letter_drop(struct letter *letter)
{
    struct watch_letter *e = list_entry(letter, struct watch_letter, letter);
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

/* Everything the thread had; it does not run any more. */
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

static void deliver_drain(struct letter *letter, void *owner)
{
    (void)letter; /* lies with who waits for the end of the thread */
    file_event_flush(owner);
}

static void drop_drain(struct letter *letter)
{
    (void)letter;
}

void file_watch_drain(struct file_watch *w)
{
    struct letter drain = {.deliver = deliver_drain, .drop = drop_drain};
    if (w->actor.running) {
        list_init(&drain.link);
        mailbox_send(w->actor.mailbox, &drain);
        actor_stop(&w->actor);
    }
}

static struct watch_letter *watch_letter_create(struct tidings_str path, bool is_tree)
{
    struct watch_letter *e = mem_zalloc(sizeof *e + path.len + 2);
    if (e) {
        list_init(&e->letter.link);
        e->letter.drop = watch_letter_drop;
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
    struct watch_letter *e = watch_letter_create(path, is_tree);
    if (!e) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    e->watch = watch;
    e->letter.deliver = deliver_add;
    mailbox_send(w->actor.mailbox, &e->letter);
    return 0;
}

void file_watch_remove(struct file_watch *w, struct tidings_str path, bool is_tree)
{
    struct watch_letter *e = watch_letter_create(path, is_tree);
    if (e) { /* else it stays armed: harmless */
        e->letter.deliver = deliver_remove;
        mailbox_send(w->actor.mailbox, &e->letter);
    }
}

struct mailbox *file_watch_mailbox(struct file_watch *w)
{
    return w->actor.mailbox;
}
