/* SPDX-License-Identifier: MIT
 *
 * The change log with a store: delegates to a log in memory, except for resuming from cursors of
 * earlier epochs.
 */
#include "store/change_log.h"

#include <assert.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * The change log in memory: a table from URI to entry, and the entries in one list by sequence
 * number. A new change of a URI replaces the record of its entry and moves it to the tail.
 *
 * Invariant: the list is strictly ascending; every entry is in the table under the URI of its
 * record; `bytes` is the sum over the entries. Nothing is persistent: a restart begins a new epoch.
 */

struct entry {
    struct list link;
    struct change *change;
    uint64_t created_seq, replaced_seq;
    uint64_t kept_ms; /* monotonic time of the append */
};

struct memory {
    struct changelog base;
    struct map by_uri;
    struct list order;
    struct changelog_limits limits;
    uint64_t epoch, first, last, floor;
    size_t bytes;
};

static const struct changelog_ops memory_ops;

static struct memory *changelog_memory_of(struct changelog *log)
{
    assert(log->ops == &memory_ops);
    return (struct memory *)(void *)log;
}

static const struct memory *memory_of_const(const struct changelog *log)
{
    assert(log->ops == &memory_ops);
    return (const struct memory *)(const void *)log;
}

/* The memory cost of an entry: its record, itself, and its share of a half-full table. */
static size_t entry_bytes(const struct entry *e)
{
    return change_bytes(e->change) + sizeof(*e) + 2 * sizeof(struct map_slot);
}

static void raise_floor(struct memory *m, uint64_t seq)
{
    m->floor = seq > m->floor ? seq : m->floor;
}

static void changelog_memory_drop(struct memory *m, struct entry *e)
{
    map_remove(&m->by_uri, e->change->uri);
    list_remove(&e->link);
    m->bytes -= entry_bytes(e);
    change_unref(e->change);
    mem_free(e);
}

static bool changelog_memory_is_too_old(const struct memory *m, const struct entry *e)
{
    return m->limits.max_age_ms > 0 && e->kept_ms + m->limits.max_age_ms < clock_monotonic_ms();
}

static bool changelog_memory_is_over(const struct memory *m)
{
    return m->by_uri.count > m->limits.max_entries || m->bytes > m->limits.max_bytes ||
           changelog_memory_is_too_old(m, list_entry(m->order.next, struct entry, link));
}

static void changelog_memory_evict(struct memory *m)
{
    while (!list_empty(&m->order) && changelog_memory_is_over(m)) {
        struct entry *oldest = list_entry(m->order.next, struct entry, link);
        raise_floor(m, oldest->change->seq);
        changelog_memory_drop(m, oldest);
    }
}

/* Numbers are almost always appended in the order of their allocation, so the search starts at the
 * tail. */
static void link_in_order(struct memory *m, struct entry *e)
{
    struct list *before = m->order.prev;
    while (before != &m->order &&
           list_entry(before, struct entry, link)->change->seq > e->change->seq) {
        before = before->prev;
    }
    list_insert_between(&e->link, before, before->next);
}

static void changelog_memory_destroy(struct changelog *log)
{
    if (!log) {
        return;
    }
    struct memory *m = changelog_memory_of(log);
    list_each (it, next, &m->order) {
        struct entry *e = list_entry(it, struct entry, link);
        change_unref(e->change);
        mem_free(e);
    }
    map_deinit(&m->by_uri);
    mem_free(m);
}

static uint64_t memory_epoch(const struct changelog *log)
{
    return memory_of_const(log)->epoch;
}

static uint64_t memory_first(const struct changelog *log)
{
    return memory_of_const(log)->first;
}

/* Nothing survives a restart. */
static bool memory_resume(const struct changelog *log, uint64_t epoch, uint64_t position,
                          bool is_durable, uint64_t *ret)
{
    (void)log;
    (void)is_durable;
    (void)epoch;
    (void)position;
    (void)ret;
    return false;
}

static uint64_t memory_last(const struct changelog *log)
{
    return memory_of_const(log)->last;
}

static void memory_note_gap(struct changelog *log, uint64_t seq)
{
    raise_floor(changelog_memory_of(log), seq);
}

static uint64_t memory_floor(const struct changelog *log)
{
    return memory_of_const(log)->floor;
}

static uint64_t memory_next(struct changelog *log)
{
    return ++changelog_memory_of(log)->last;
}

/* The entry for a URI; a new entry has no record yet. NULL: out of memory. */
static struct entry *entry_for(struct memory *m, const struct change *change)
{
    struct entry *e = map_find(&m->by_uri, change->uri);
    bool fresh = !e;
    if (fresh) {
        e = mem_zalloc(sizeof(*e));
        if (!e) {
            return NULL;
        }
        list_init(&e->link);
    } else if (e->change->seq > change->seq) {
        return e;
    }
    /* The key is part of the record, so it moves to the new one. */
    if (map_put(&m->by_uri, change->uri, e, NULL) < 0) {
        if (fresh) {
            mem_free(e);
        }
        return NULL;
    }
    return e;
}

static int memory_append(struct changelog *log, const struct change *change)
{
    struct memory *m = changelog_memory_of(log);
    assert(change->seq > 0 && change->seq <= m->last);
    struct entry *e = entry_for(m, change);
    if (!e) {
        raise_floor(m, change->seq);
        return TIDINGS_E_NOMEM;
    }
    if (e->change && e->change->seq > change->seq) {
        return 0; /* a newer change of this URI already represents this one */
    }
    if (e->change) {
        e->replaced_seq = e->change->seq;
        m->bytes -= entry_bytes(e);
        list_remove(&e->link);
        change_unref(e->change);
    }
    e->change = change_ref(change);
    e->kept_ms = clock_monotonic_ms();
    if (change->kind == TIDINGS_CHANGE_CREATED) {
        e->created_seq = change->seq;
    }
    m->bytes += entry_bytes(e);
    link_in_order(m, e);
    changelog_memory_evict(m);
    return 0;
}

static size_t memory_each(const struct changelog *log, uint64_t after, changelog_each_fn fn,
                          void *user)
{
    const struct memory *m = memory_of_const(log);
    struct list *at = m->order.prev;
    while (at != &m->order && list_entry(at, struct entry, link)->change->seq > after) {
        at = at->prev;
    }
    size_t reported = 0;
    bool more = true;
    for (at = at->next; more && at != &m->order; at = at->next) {
        const struct entry *e = list_entry(at, struct entry, link);
        struct changelog_row row = {
            .change = e->change, .created_seq = e->created_seq, .replaced_seq = e->replaced_seq};
        more = fn(user, &row);
        reported++;
    }
    return reported;
}

static size_t memory_count(const struct changelog *log)
{
    return memory_of_const(log)->by_uri.count;
}

static size_t memory_bytes(const struct changelog *log)
{
    return memory_of_const(log)->bytes;
}

struct changelog *changelog_memory_create_at(const struct changelog_limits *limits, uint64_t first,
                                             struct tidings_error *err)
{
    struct memory *m = mem_zalloc(sizeof(*m));
    if (!m) {
        tidings_fail(err, TIDINGS_E_NOMEM, "change log: out of memory");
        return NULL;
    }
    m->base.ops = &memory_ops;
    m->limits = *limits;
    m->first = m->last = first;
    map_init(&m->by_uri);
    list_init(&m->order);
    do {
        if (random_bytes(&m->epoch, sizeof(m->epoch)) < 0) {
            tidings_fail(err, TIDINGS_E_IO, "change log: no random numbers for the epoch");
            changelog_memory_destroy(&m->base);
            return NULL;
        }
    } while (m->epoch == 0);
    return &m->base;
}

struct changelog *changelog_memory_create(const struct changelog_limits *limits,
                                          struct tidings_error *err)
{
    return changelog_memory_create_at(limits, 0, err);
}

static const struct changelog_ops memory_ops = {
    .name = "memory",
    .destroy = changelog_memory_destroy,
    .epoch = memory_epoch,
    .first = memory_first,
    .resume = memory_resume,
    .last = memory_last,
    .floor = memory_floor,
    .note_gap = memory_note_gap,
    .next = memory_next,
    .append = memory_append,
    .each = memory_each,
    .count = memory_count,
    .bytes = memory_bytes,
};

/* ---------------------------------------------------------------------------------------------- */

struct durable {
    struct changelog base;
    struct changelog *memory;
    const struct changelog_durable_ops *of;
    void *user;
};

static const struct changelog_ops durable_ops;

static const struct durable *durable_of(const struct changelog *log)
{
    assert(log->ops == &durable_ops);
    return (const struct durable *)(const void *)log;
}

/* ---- the log --------------------------------------------------------------------------------- */

static struct changelog *changelog_durable_inner(const struct changelog *log)
{
    return durable_of(log)->memory;
}

static void durable_destroy(struct changelog *log)
{
    if (log) {
        changelog_durable_inner(log)->ops->destroy(changelog_durable_inner(log));
        durable_of(log)->of->destroy(durable_of(log)->user);
        mem_free(log);
    }
}

static uint64_t durable_epoch(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->epoch(changelog_durable_inner(log));
}

static uint64_t durable_first(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->first(changelog_durable_inner(log));
}

static bool durable_resume(const struct changelog *log, uint64_t epoch, uint64_t position,
                           bool is_durable, uint64_t *ret)
{
    const struct durable *d = durable_of(log);
    return d->of->resume(d->user, epoch, position, is_durable, ret);
}

static bool durable_knows(const struct changelog *log, uint64_t epoch, uint64_t position)
{
    const struct durable *d = durable_of(log);
    return !d->of->knows || d->of->knows(d->user, epoch, position);
}

static uint64_t durable_last(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->last(changelog_durable_inner(log));
}

static uint64_t durable_floor(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->floor(changelog_durable_inner(log));
}

static uint64_t durable_next(struct changelog *log)
{
    return changelog_durable_inner(log)->ops->next(changelog_durable_inner(log));
}

static int durable_append(struct changelog *log, const struct change *change)
{
    const struct durable *d = durable_of(log);
    if (d->of->appended) {
        d->of->appended(d->user, change);
    }
    return changelog_durable_inner(log)->ops->append(changelog_durable_inner(log), change);
}

static void durable_note_gap(struct changelog *log, uint64_t seq)
{
    changelog_durable_inner(log)->ops->note_gap(changelog_durable_inner(log), seq);
}

static size_t durable_each(const struct changelog *log, uint64_t after, changelog_each_fn fn,
                           void *user)
{
    return changelog_durable_inner(log)->ops->each(changelog_durable_inner(log), after, fn, user);
}

static size_t durable_count(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->count(changelog_durable_inner(log));
}

static size_t durable_bytes(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->bytes(changelog_durable_inner(log));
}

static const struct changelog_ops durable_ops = {
    .name = "durable",
    .destroy = durable_destroy,
    .epoch = durable_epoch,
    .first = durable_first,
    .resume = durable_resume,
    .knows = durable_knows,
    .last = durable_last,
    .floor = durable_floor,
    .next = durable_next,
    .append = durable_append,
    .note_gap = durable_note_gap,
    .each = durable_each,
    .count = durable_count,
    .bytes = durable_bytes,
};

int changelog_durable_create(const struct changelog_limits *limits, uint64_t first,
                             const struct changelog_durable_ops *ops, void *user,
                             struct changelog **ret, struct tidings_error *err)
{
    struct durable *d = mem_zalloc(sizeof(*d));
    struct changelog *memory = d ? changelog_memory_create_at(limits, first, err) : NULL;
    if (!memory) {
        mem_free(d);
        return d && err ? err->code : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    d->base = (struct changelog){.ops = &durable_ops, .is_durable = true};
    d->memory = memory;
    d->of = ops;
    d->user = user;
    *ret = &d->base;
    return 0;
}
