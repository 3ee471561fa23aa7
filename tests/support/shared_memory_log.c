/* SPDX-License-Identifier: MIT
 *
 * The log of the database in memory, as nodes follow it and cursors refer to it, and the descriptor
 * that wakes a node.
 */
#include <assert.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/change.h"
#include "support/shared_memory_private.h"

/* ---- the log --------------------------------------------------------------------------------- */

static void keep_change(struct arena *arena, struct tidings_change *c)
{
    struct tidings_str *texts[] = {&c->uri,      &c->etag,   &c->from,  &c->metadata,
                                   &c->checksum, &c->origin, &c->target};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = shared_memory_text(arena, *texts[i]);
    }
}

static void keep_row(struct arena *arena, struct published_row *r)
{
    struct tidings_resource *a = &r->about;
    struct tidings_str *texts[] = {&a->uri,       &a->name, &a->title,   &a->description,
                                   &a->mime_type, &a->etag, &r->content, &r->metadata};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = shared_memory_text(arena, *texts[i]);
    }
}

struct entry *shared_memory_entry(const struct log_entry *change)
{
    struct entry *e = mem_zalloc(sizeof(*e));
    assert(e);
    arena_init(&e->arena, 64u << 20);
    e->change = *change;
    shared_memory_keep_version(&e->arena, &e->change.version);
    struct tidings_str *texts[] = {
        &e->change.old_type_version, &e->change.uri,    &e->change.etag,
        &e->change.came_from,        &e->change.target, &e->change.metadata};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = shared_memory_text(&e->arena, *texts[i]);
    }
    if (change->published) {
        e->row = *change->published;
        keep_row(&e->arena, &e->row);
        e->change.published = &e->row;
    }
    if (change->announced) {
        e->announced = *change->announced;
        keep_change(&e->arena, &e->announced);
        e->change.announced = &e->announced;
    }
    return e;
}

void shared_memory_free_entry(struct entry *e)
{
    list_remove(&e->link);
    arena_deinit(&e->arena);
    mem_free(e);
}

void shared_memory_free_entries(struct list *entries)
{
    while (!list_empty(entries)) {
        shared_memory_free_entry(list_entry(entries->next, struct entry, link));
    }
}

uint64_t shared_memory_add(struct node *n, struct log_entry change)
{
    struct shared_memory *db = n->db;
    change.position = ++db->last;
    change.at_ms = db->now;
    struct entry *e = shared_memory_entry(&change);
    e->by = n;
    list_append(n->in_batch ? &db->undone : &db->log, &e->link);
    return change.position;
}

void shared_memory_wake_others(struct node *n)
{
    const uint64_t one = 1;
    for (size_t i = 0; i < NODES_MAX && !n->db->is_quiet; i++) {
        struct node *other = n->db->all[i];
        if (other && other != n && !other->is_unreachable) {
            (void)!write(other->wake, &one, sizeof one);
        }
    }
}

/* ---- what is kept beside them ---------------------------------------------------------------- */

int shared_memory_publish(struct store *store, const struct published_row *row,
                          uint64_t *ret_position, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    *ret_position = shared_memory_add(n, (struct log_entry){
                                             .kind = LOG_ENTRY_PUBLISHED,
                                             .uri = row->about.uri,
                                             .etag = row->about.etag,
                                             .metadata = row->metadata,
                                             .size = row->about.size,
                                             .modified_ms = row->about.modified_ms,
                                             .created = row->created,
                                             .not_subscribable = row->about.not_subscribable,
                                             .published = row,
                                         });
    return 0;
}

int shared_memory_unpublish(struct store *store, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    *ret_position = shared_memory_add(n, (struct log_entry){
                                             .kind = LOG_ENTRY_PUBLISHED,
                                             .uri = gone->about.uri,
                                             .metadata = gone->metadata,
                                             .removed = true,
                                             .not_subscribable = gone->about.not_subscribable,
                                         });
    return 0;
}

int shared_memory_each_published(struct store *store, published_row_fn fn, void *user,
                                 struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    list_each (it, next, &n->db->published) {
        rc = rc < 0 ? rc : fn(user, &list_entry(it, struct entry, link)->row, err);
    }
    return shared_memory_leave(n, rc < 0 ? rc : 0);
}

static bool is_row(const struct entry *e)
{
    return e->change.kind <= LOG_ENTRY_FILE || log_entry_is_announced(e->change.kind);
}

int shared_memory_each_change(struct store *store, size_t max, uint64_t *ret_floor, log_entry_fn fn,
                              void *user, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    *ret_floor = n->db->last > max ? n->db->last - max : 0;
    *ret_floor = n->db->broken_at > *ret_floor ? n->db->broken_at : *ret_floor;
    list_each (it, next, &n->db->log) {
        const struct entry *e = list_entry(it, struct entry, link);
        if (e->change.position > *ret_floor && e->change.position <= n->followed && is_row(e)) {
            (void)fn(user, &e->change);
        }
    }
    return shared_memory_leave(n, 0);
}

/* ---- the change log -------------------------------------------------------------------------- */

struct shared_log {
    struct changelog base;
    struct changelog *memory;
    struct shared_memory *db;
    pthread_mutex_t lock;
    struct mark *marks;
    size_t count, room;
};

static struct shared_log *log_of(const struct changelog *log)
{
    return (struct shared_log *)(uintptr_t)log;
}

#define INNER(log) (log_of(log)->memory)
static void log_destroy(struct changelog *log)
{
    struct shared_log *l = log_of(log);
    l->memory->ops->destroy(l->memory);
    mem_free(l->marks);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}
static uint64_t log_epoch(const struct changelog *log)
{
    return INNER(log)->ops->epoch(INNER(log));
}
static uint64_t log_first(const struct changelog *log)
{
    return INNER(log)->ops->first(INNER(log));
}
static uint64_t log_last(const struct changelog *log)
{
    return INNER(log)->ops->last(INNER(log));
}
static uint64_t log_floor(const struct changelog *log)
{
    return INNER(log)->ops->floor(INNER(log));
}
static uint64_t log_next(struct changelog *log)
{
    return INNER(log)->ops->next(INNER(log));
}
static void log_lost(struct changelog *log, uint64_t seq)
{
    INNER(log)->ops->note_gap(INNER(log), seq);
}
static size_t log_each(const struct changelog *log, uint64_t after, changelog_each_fn fn,
                       void *user)
{
    return INNER(log)->ops->each(INNER(log), after, fn, user);
}
static size_t log_count(const struct changelog *log)
{
    return INNER(log)->ops->count(INNER(log));
}
static size_t log_bytes(const struct changelog *log)
{
    return INNER(log)->ops->bytes(INNER(log));
}

static int log_append(struct changelog *log, const struct change *change)
{
    struct shared_log *l = log_of(log);
    pthread_mutex_lock(&l->lock);
    if (change->position > 0) {
        if (l->count == l->room) {
            l->room = l->room ? 2 * l->room : 64;
            l->marks = mem_realloc(l->marks, l->room * sizeof(*l->marks));
            assert(l->marks);
        }
        l->marks[l->count++] = (struct mark){change->position, change->seq};
    }
    pthread_mutex_unlock(&l->lock);
    return l->memory->ops->append(l->memory, change);
}

/* The number of the last one told up to that position. */
static bool log_resume(const struct changelog *log, uint64_t epoch, uint64_t position,
                       bool is_durable, uint64_t *ret)
{
    (void)is_durable;
    struct shared_log *l = log_of(log);
    bool is_known = false;
    pthread_mutex_lock(&l->db->lock);
    for (size_t i = 0; i < l->db->run_count; i++) {
        is_known = is_known || l->db->runs[i].epoch == epoch;
    }
    is_known = is_known && position <= l->db->last;
    pthread_mutex_unlock(&l->db->lock);
    uint64_t first = log_first(log), number = position < first ? position : first;
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->count && l->marks[i].position <= position; i++) {
        number = l->marks[i].number > number ? l->marks[i].number : number;
    }
    pthread_mutex_unlock(&l->lock);
    *ret = number;
    return is_known;
}

static const struct changelog_ops log_ops = {
    .name = "shared memory",
    .destroy = log_destroy,
    .epoch = log_epoch,
    .first = log_first,
    .resume = log_resume,
    .last = log_last,
    .floor = log_floor,
    .next = log_next,
    .append = log_append,
    .note_gap = log_lost,
    .each = log_each,
    .count = log_count,
    .bytes = log_bytes,
};

int shared_memory_create_changelog(struct store *store, const struct changelog_limits *limits,
                                   struct changelog **ret, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct shared_log *l = mem_zalloc(sizeof(*l));
    assert(l && n->db->run_count < sizeof n->db->runs / sizeof *n->db->runs);
    l->base = (struct changelog){.ops = &log_ops, .is_durable = true};
    l->memory = changelog_memory_create_at(limits, n->followed, err);
    assert(l->memory);
    l->db = n->db;
    pthread_mutex_init(&l->lock, NULL);
    n->db->runs[n->db->run_count++] = (struct run){log_epoch(&l->base), n->db->last};
    (void)shared_memory_add(n, (struct log_entry){.kind = LOG_ENTRY_INCARNATION});
    shared_memory_wake_others(n);
    *ret = &l->base;
    return shared_memory_leave(n, 0);
}

/* ---- following ------------------------------------------------------------------------------- */

int shared_memory_follow(struct store *store, log_entry_fn fn, void *user,
                         struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    bool more = true;
    list_each (it, next, &n->db->log) {
        const struct entry *e = list_entry(it, struct entry, link);
        if (more && e->change.position > n->followed) {
            n->followed = e->change.position;
            more = e->by == n || fn(user, &e->change);
        }
    }
    return shared_memory_leave(n, 0);
}

uint64_t shared_memory_followed(struct store *store)
{
    struct node *n = shared_memory_node(store);
    uint64_t followed = n->followed;
    if (!n->in_batch) {
        pthread_mutex_lock(&n->db->lock);
    }
    list_each (it, next, &n->db->log) {
        const struct entry *e = list_entry(it, struct entry, link);
        if (e->change.position > followed && e->by == n) {
            followed = e->change.position;
        } else if (e->change.position > followed) {
            break;
        }
    }
    if (!n->in_batch) {
        pthread_mutex_unlock(&n->db->lock);
    }
    return followed;
}

int shared_memory_announce(struct store *store, enum log_entry_kind kind,
                           const struct tidings_change *change, uint64_t *ret_position,
                           struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc == 0) {
        *ret_position = shared_memory_add(
            n, (struct log_entry){.kind = kind, .uri = change->uri, .announced = change});
    }
    return rc;
}

int shared_memory_newest(struct store *store, uint64_t *ret, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    *ret = n->db->last;
    return shared_memory_leave(n, 0);
}

int shared_memory_secret(struct store *store, unsigned char out[32], struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    memset(out, 0x5a, 32);
    return shared_memory_leave(n, 0);
}

/* ---- being woken ------------------------------------------------------------------------------
 */

int shared_memory_descriptor(struct store *store)
{
    struct node *n = shared_memory_node(store);
    bool is_new = n->is_wake_new;
    n->is_wake_new = false;
    return is_new || __atomic_load_n(&n->is_unreachable, __ATOMIC_RELAXED) ||
                   __atomic_load_n(&n->db->is_quiet, __ATOMIC_RELAXED)
               ? -1
               : n->wake;
}

int shared_memory_woken(struct store *store)
{
    uint64_t count;
    (void)!read(shared_memory_node(store)->wake, &count, sizeof count);
    return 1;
}

int shared_memory_reconnect(struct store *node)
{
    struct node *n = shared_memory_node(node);
    int held = dup(n->wake);
    close(n->wake);
    n->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(held >= 0 && n->wake >= 0);
    n->is_wake_new = true;
    return held;
}

void shared_memory_wake(struct store *node)
{
    uint64_t one = 1;
    (void)!write(shared_memory_node(node)->wake, &one, sizeof one);
}

bool shared_memory_is_awake(struct store *node)
{
    struct pollfd ready = {.fd = shared_memory_node(node)->wake, .events = POLLIN};
    return poll(&ready, 1, 0) == 0;
}
