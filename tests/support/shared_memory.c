/* SPDX-License-Identifier: MIT
 *
 * The database and its nodes' objects: batches over one memory_store_create(), and faults.
 */
#include <assert.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/memory_store.h"
#include "support/shared_memory_private.h"

static const struct store_ops shared_memory_ops;

struct node *shared_memory_node(struct store *store)
{
    assert(store->ops == &shared_memory_ops);
    return (struct node *)(void *)store;
}

struct tidings_str shared_memory_text(struct arena *arena, struct tidings_str s)
{
    struct tidings_str copy = arena_dup(arena, s.ptr ? s : STR_EMPTY);
    assert(copy.ptr);
    return copy;
}

/* Outside of batches each call has the lock for itself; in one it is held. */
int shared_memory_enter(struct node *n, struct tidings_error *err)
{
    __atomic_add_fetch(&n->asked, 1, __ATOMIC_RELAXED);
    if (!n->in_batch) {
        pthread_mutex_lock(&n->db->lock);
    }
    if (n->is_unreachable) {
        if (!n->in_batch) {
            pthread_mutex_unlock(&n->db->lock);
        }
        return tidings_fail(err, TIDINGS_E_BUSY, "the database cannot be reached");
    }
    arena_deinit(&n->arena);
    arena_init(&n->arena, 64u << 20);
    return 0;
}

int shared_memory_leave(struct node *n, int rc)
{
    if (!n->in_batch) {
        pthread_mutex_unlock(&n->db->lock);
    }
    return rc;
}

void shared_memory_keep_version(struct arena *arena, struct entity_version *v)
{
    struct tidings_str *texts[] = {&v->id,        &v->type,     &v->type_version,
                                   &v->parent,    &v->value,    &v->changed_by,
                                   &v->principal, &v->previous, &v->old_type_version};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = shared_memory_text(arena, *texts[i]);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

static int node_begin(struct store *store, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    n->in_batch = true;
    n->must_run_again = false;
    n->before = n->db->last;
    return n->db->entities->ops->begin(n->db->entities, err);
}

/* Publications follow the log. */
static void apply_published(struct shared_memory *db, const struct entry *e)
{
    list_each (it, next, &db->published) {
        struct entry *old = list_entry(it, struct entry, link);
        if (str_eq(old->change.uri, e->change.uri)) {
            shared_memory_free_entry(old);
        }
    }
    if (!e->change.removed) {
        struct entry *copy = shared_memory_entry(&e->change);
        list_append(&db->published, &copy->link);
    }
}

static void end_batch(struct node *n)
{
    n->in_batch = false;
    pthread_mutex_unlock(&n->db->lock);
}

static void node_rollback(struct store *store)
{
    struct node *n = shared_memory_node(store);
    if (!n->in_batch) {
        return;
    }
    n->db->entities->ops->rollback(n->db->entities);
    n->db->last = n->before;
    shared_memory_free_entries(&n->db->undone);
    end_batch(n);
}

/* It takes the lock anyway: the difference is not visible. */
bool shared_memory_begin_unlocked(struct store *store)
{
    struct node *n = shared_memory_node(store);
    n->is_unlocked = n->is_to_be_overtaken && node_begin(store, NULL) == 0;
    n->is_to_be_overtaken = false;
    return n->is_unlocked;
}

bool shared_memory_must_run_again(struct store *store)
{
    return shared_memory_node(store)->must_run_again;
}

void shared_memory_overtake(struct store *node, bool is_in_doubt)
{
    struct node *n = shared_memory_node(node);
    n->is_to_be_overtaken = true;
    n->is_in_doubt = is_in_doubt;
}

static int node_commit(struct store *store, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    bool loses = n->loses;
    if (n->is_unlocked) {
        n->is_unlocked = false;
        node_rollback(store);
        n->must_run_again = true;
        return tidings_fail(err, n->is_in_doubt ? TIDINGS_E_UNKNOWN : TIDINGS_E_BUSY, "overtaken");
    }
    __atomic_add_fetch(&n->asked, 1, __ATOMIC_RELAXED);
    if ((loses && !n->loses_committed) || n->is_unreachable) {
        n->loses = false;
        node_rollback(store);
        return tidings_fail(err, TIDINGS_E_UNKNOWN, "the commit was not answered");
    }
    int rc = n->db->entities->ops->commit(n->db->entities, err);
    assert(rc == 0);
    while (!list_empty(&n->db->undone)) {
        struct entry *e = list_entry(n->db->undone.next, struct entry, link);
        list_remove(&e->link);
        e->by = loses ? NULL : n;
        list_append(&n->db->log, &e->link);
        if (e->change.kind == LOG_ENTRY_PUBLISHED) {
            apply_published(n->db, e);
        }
    }
    n->loses = false;
    shared_memory_wake_others(n);
    end_batch(n);
    return loses ? tidings_fail(err, TIDINGS_E_UNKNOWN, "the commit was not answered") : rc;
}

static uint64_t node_position(struct store *store)
{
    return shared_memory_node(store)->db->last;
}

/* ---- entities -------------------------------------------------------------------------------- */

static int node_put(struct store *store, const struct entity_version *v, bool instead,
                    struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    rc = rc == 0 ? n->db->entities->ops->put(n->db->entities, v, instead, err) : rc;
    if (rc < 0) {
        return rc;
    }
    struct log_entry c = {.kind = LOG_ENTRY_ENTITY,
                          .version = *v,
                          .created = v->created,
                          .old_type_version = v->old_type_version};
    c.version.value = c.version.previous = c.version.old_type_version = STR_EMPTY;
    c.version.to = TIMELINE_FOREVER;
    if (v->old_type_version.len > 0) {
        struct log_entry moved = c;
        moved.kind = LOG_ENTRY_MOVED;
        moved.created = false;
        (void)shared_memory_add(n, moved);
    }
    (void)shared_memory_add(n, c);
    return 0;
}

static int node_forget(struct store *store, struct tidings_str id, int64_t end,
                       struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    return rc < 0 ? rc
                  : shared_memory_leave(
                        n, n->db->entities->ops->forget(n->db->entities, id, end, err));
}

static int node_find(struct store *store, struct tidings_str id, int64_t at,
                     struct entity_version *ret, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    rc = n->db->entities->ops->find(n->db->entities, id, at, ret, err);
    if (rc == 1) {
        shared_memory_keep_version(&n->arena, ret);
    }
    return shared_memory_leave(n, rc);
}

static int node_nth(struct store *store, struct tidings_str id, int64_t nth, int64_t *ret,
                    struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    return rc < 0 ? rc
                  : shared_memory_leave(
                        n, n->db->entities->ops->nth(n->db->entities, id, nth, ret, err));
}

static int node_history(struct store *store, struct tidings_str id, int64_t first,
                        entity_version_fn fn, void *user, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    return rc < 0 ? rc
                  : shared_memory_leave(n, n->db->entities->ops->history(n->db->entities, id, first,
                                                                         fn, user, err));
}

static int node_list(struct store *store, const struct entity_scope *scope,
                     struct tidings_str after, entity_version_fn fn, void *user,
                     struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    return rc < 0 ? rc
                  : shared_memory_leave(n, n->db->entities->ops->list(n->db->entities, scope, after,
                                                                      fn, user, err));
}

static int node_put_type(struct store *store, const struct entity_type_row *row,
                         struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    rc = rc == 0 ? n->db->entities->ops->put_type(n->db->entities, row, err) : rc;
    if (rc == 0) {
        (void)shared_memory_add(n, (struct log_entry){.kind = LOG_ENTRY_TYPES});
    }
    return rc;
}

static int node_types(struct store *store, entity_type_fn fn, void *user, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    return rc < 0 ? rc
                  : shared_memory_leave(
                        n, n->db->entities->ops->types(n->db->entities, fn, user, err));
}

static int node_put_key(struct store *store, const struct entity_key *key,
                        struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    return rc < 0
               ? rc
               : shared_memory_leave(n, n->db->entities->ops->put_key(n->db->entities, key, err));
}

static int node_find_key(struct store *store, struct tidings_str owner, struct tidings_str key,
                         struct entity_key *ret, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    rc = n->db->entities->ops->find_key(n->db->entities, owner, key, ret, err);
    if (rc == 1) {
        ret->owner = shared_memory_text(&n->arena, ret->owner);
        ret->key = shared_memory_text(&n->arena, ret->key);
        ret->digest = shared_memory_text(&n->arena, ret->digest);
        ret->text = shared_memory_text(&n->arena, ret->text);
    }
    return shared_memory_leave(n, rc);
}

static int node_idle(struct store *store, struct tidings_error *err)
{
    (void)store;
    (void)err;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void node_destroy(struct store *store)
{
    struct node *n = shared_memory_node(store);
    node_rollback(store);
    pthread_mutex_lock(&n->db->lock);
    for (size_t i = 0; i < NODES_MAX; i++) {
        n->db->all[i] = n->db->all[i] == n ? NULL : n->db->all[i];
    }
    list_each (it, next, &n->db->log) { /* another node may get its address */
        struct entry *e = list_entry(it, struct entry, link);
        e->by = e->by == n ? NULL : e->by;
    }
    pthread_mutex_unlock(&n->db->lock);
    close(n->wake);
    arena_deinit(&n->arena);
    mem_free(n);
}

static const struct store_ops shared_memory_ops = {
    .name = "shared memory",
    .destroy = node_destroy,
    .begin = node_begin,
    .commit = node_commit,
    .rollback = node_rollback,
    .position = node_position,
    .put = node_put,
    .forget = node_forget,
    .find = node_find,
    .nth = node_nth,
    .history = node_history,
    .list = node_list,
    .put_type = node_put_type,
    .types = node_types,
    .put_key = node_put_key,
    .find_key = node_find_key,
    .idle = node_idle,
    .publish = shared_memory_publish,
    .unpublish = shared_memory_unpublish,
    .each_published = shared_memory_each_published,
    .each_change = shared_memory_each_change,
    .create_changelog = shared_memory_create_changelog,
    .follow = shared_memory_follow,
    .followed = shared_memory_followed,
    .newest = shared_memory_newest,
    .descriptor = shared_memory_descriptor,
    .wake = shared_memory_woken,
    .begin_unlocked = shared_memory_begin_unlocked,
    .must_run_again = shared_memory_must_run_again,
    .announce = shared_memory_announce,
    .secret = shared_memory_secret,
};

struct store *shared_memory_connect(struct shared_memory *db)
{
    struct node *n = mem_zalloc(sizeof(*n));
    assert(n);
    n->base = (struct store){&shared_memory_ops};
    n->db = db;
    n->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(n->wake >= 0);
    arena_init(&n->arena, 64u << 20);
    pthread_mutex_lock(&db->lock);
    size_t i = 0;
    while (db->all[i]) {
        i++;
        assert(i < NODES_MAX);
    }
    db->all[i] = n;
    n->followed = db->last;
    pthread_mutex_unlock(&db->lock);
    return &n->base;
}

struct shared_memory *shared_memory_create(void)
{
    struct shared_memory *db = mem_zalloc(sizeof(*db));
    assert(db);
    db->entities = memory_store_create(NULL);
    assert(db->entities);
    pthread_mutex_init(&db->lock, NULL);
    list_init(&db->log);
    list_init(&db->undone);
    list_init(&db->published);
    db->now = 1700000000000;
    return db;
}

void shared_memory_destroy(struct shared_memory *db)
{
    shared_memory_free_entries(&db->log);
    shared_memory_free_entries(&db->undone);
    shared_memory_free_entries(&db->published);
    db->entities->ops->destroy(db->entities);
    pthread_mutex_destroy(&db->lock);
    mem_free(db);
}

uint64_t shared_memory_last(struct shared_memory *db)
{
    pthread_mutex_lock(&db->lock);
    uint64_t last = db->last;
    pthread_mutex_unlock(&db->lock);
    return last;
}

void shared_memory_set_unreachable(struct shared_memory *db, struct store *node,
                                   bool is_unreachable)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&db->lock);
    for (size_t i = 0; i < NODES_MAX; i++) {
        if (db->all[i] && (!node || db->all[i] == shared_memory_node(node))) {
            __atomic_store_n(&db->all[i]->is_unreachable, is_unreachable, __ATOMIC_RELAXED);
            (void)!write(db->all[i]->wake, &one, sizeof one);
        }
    }
    pthread_mutex_unlock(&db->lock);
}

void shared_memory_set_quiet(struct shared_memory *db, bool is_quiet)
{
    pthread_mutex_lock(&db->lock);
    __atomic_store_n(&db->is_quiet, is_quiet, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&db->lock);
}

void shared_memory_lose_answer(struct shared_memory *db, struct store *node, bool committed)
{
    pthread_mutex_lock(&db->lock);
    shared_memory_node(node)->loses = true;
    shared_memory_node(node)->loses_committed = committed;
    pthread_mutex_unlock(&db->lock);
}

void shared_memory_break(struct shared_memory *db, uint64_t position)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&db->lock);
    list_each (it, next, &db->log) {
        struct entry *e = list_entry(it, struct entry, link);
        if (e->change.position > position) {
            shared_memory_free_entry(e);
        }
    }
    db->broken_at = ++db->last;
    struct log_entry broken = {.kind = LOG_ENTRY_DATA_LOSS, .position = db->last};
    struct entry *e = shared_memory_entry(&broken);
    list_append(&db->log, &e->link);
    for (size_t i = 0; i < NODES_MAX; i++) {
        if (db->all[i]) {
            (void)!write(db->all[i]->wake, &one, sizeof one);
        }
    }
    pthread_mutex_unlock(&db->lock);
}

unsigned shared_memory_asked(struct store *node)
{
    return __atomic_load_n(&shared_memory_node(node)->asked, __ATOMIC_RELAXED);
}
