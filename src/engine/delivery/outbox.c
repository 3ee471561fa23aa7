/* SPDX-License-Identifier: MIT
 *
 * The queue of an outbox: a ring of items. Merging searches back from the newest item, and only if
 * the subscription has queued items, so the usual case (an empty queue) costs nothing.
 */
#include "engine/delivery/outbox.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/delivery/delivery.h"
#include "engine/delivery/subscription.h"
#include "store/change.h"

/* -------------------------------------------------------------------------------------------------
 * Windows: hold back changes of a subscription within a period.
 */

/* -------------------------------------------------------------------------------------------------
 * The heap of windows by due time: all windows of a worker that hold changes.
 */

void windows_init(struct windows *w)
{
    memset(w, 0, sizeof(*w));
}

void windows_deinit(struct windows *w)
{
    mem_free(w->heap);
    windows_init(w);
}

/* ---- the heap -------------------------------------------------------------------------------- */

static struct window **window_heap_slot(struct windows *all, uint32_t index)
{
    return &all->heap[index - 1];
}

static void window_heap_put(struct windows *all, uint32_t index, struct window *w)
{
    *window_heap_slot(all, index) = w;
    w->index = index;
}

static void sift_up(struct windows *all, struct window *w)
{
    uint32_t index = w->index;
    while (index > 1 && (*window_heap_slot(all, index / 2))->open_ms > w->open_ms) {
        window_heap_put(all, index, *window_heap_slot(all, index / 2));
        index /= 2;
    }
    window_heap_put(all, index, w);
}

static void sift_down(struct windows *all, struct window *w)
{
    uint32_t index = w->index;
    for (;;) {
        uint32_t child = index * 2;
        if (child > all->count) {
            break;
        }
        if (child < all->count && (*window_heap_slot(all, child + 1))->open_ms <
                                      (*window_heap_slot(all, child))->open_ms) {
            child++;
        }
        if ((*window_heap_slot(all, child))->open_ms >= w->open_ms) {
            break;
        }
        window_heap_put(all, index, *window_heap_slot(all, child));
        index = child;
    }
    window_heap_put(all, index, w);
}

/* Adds `w`, due at its open_ms. TIDINGS_E_NOMEM. */
static int windows_enter(struct windows *all, struct window *w)
{
    if (all->count == all->cap) {
        uint32_t cap = all->cap ? all->cap * 2 : 16;
        struct window **heap = mem_realloc(all->heap, cap * sizeof(struct window *));
        if (!heap) {
            return TIDINGS_E_NOMEM;
        }
        all->heap = heap;
        all->cap = cap;
    }
    window_heap_put(all, ++all->count, w);
    sift_up(all, w);
    return 0;
}

/* Does nothing if it is not in the heap. */
static void windows_leave(struct windows *all, struct window *w)
{
    if (w->index == 0) {
        return;
    }
    uint32_t index = w->index;
    struct window *last = *window_heap_slot(all, all->count);
    all->count--;
    w->index = 0;
    if (last != w) {
        window_heap_put(all, index, last);
        sift_up(all, last);
        sift_down(all, last);
    }
    if (all->count == 0) {
        windows_deinit(all);
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

void window_set_period(struct windows *all, struct window *w, uint64_t now_ms, uint32_t period_ms)
{
    w->period_ms = period_ms;
    if (w->open_ms > now_ms + period_ms) {
        w->open_ms = now_ms + period_ms;
        if (w->index > 0) {
            sift_up(all, w);
        }
    }
}

struct window *windows_due(struct windows *all, uint64_t now_ms)
{
    if (all->count == 0 || (*window_heap_slot(all, 1))->open_ms > now_ms) {
        return NULL;
    }
    struct window *w = *window_heap_slot(all, 1);
    windows_leave(all, w);
    w->open_ms = now_ms + w->period_ms;
    return w;
}

uint64_t windows_next(const struct windows *all)
{
    return all->count == 0 ? UINT64_MAX : all->heap[0]->open_ms;
}

/* ---------------------------------------------------------------------------------------------- */

#define OUTBOX_FIRST_CAP 4u

void outbox_init(struct outbox *o)
{
    memset(o, 0, sizeof(*o));
}

void outbox_deinit(struct outbox *o)
{
    outbox_remove(o, NULL);
}

static struct outbox_item *outbox_at(struct outbox *o, size_t i)
{
    return o->has_ring ? &o->ring.items[(o->ring.head + i) & (o->ring.cap - 1)] : &o->one;
}

static void drop_first(struct outbox *o)
{
    if (o->has_ring) {
        o->ring.head = (o->ring.head + 1) & (o->ring.cap - 1);
    }
    o->count--;
}

enum tidings_change_kind outbox_merge_kind(enum tidings_change_kind old,
                                           enum tidings_change_kind next)
{
    if (next == TIDINGS_CHANGE_DELETED) {
        return TIDINGS_CHANGE_DELETED;
    }
    if (old == TIDINGS_CHANGE_CREATED) {
        return TIDINGS_CHANGE_CREATED;
    }
    return TIDINGS_CHANGE_UPDATED;
}

static size_t outbox_room(const struct outbox *o)
{
    return o->has_ring ? o->ring.cap : 1;
}

static int outbox_grow(struct outbox *o)
{
    uint32_t cap = o->has_ring ? o->ring.cap * 2 : OUTBOX_FIRST_CAP;
    struct outbox_item *items = mem_alloc(cap * sizeof(*items));
    if (!items) {
        return TIDINGS_E_NOMEM;
    }
    for (size_t i = 0; i < o->count; i++) {
        items[i] = *outbox_at(o, i);
    }
    if (o->has_ring) {
        mem_free(o->ring.items);
    }
    o->has_ring = true;
    o->ring.items = items;
    o->ring.head = 0;
    o->ring.cap = cap;
    return 0;
}

/* Returns the index, or `count` if it is not queued. */
static size_t outbox_find(struct outbox *o, const struct subscription *sub, struct tidings_str uri)
{
    unsigned left = sub->queued;
    for (size_t i = o->count; i-- > 0 && left > 0;) {
        struct outbox_item *item = outbox_at(o, i);
        if (item->sub != sub) {
            continue;
        }
        if (str_eq(item->change->uri, uri)) {
            return i;
        }
        left--;
    }
    return o->count;
}

/* Inserts `next` ordered by number, so that the first item shows what is not written yet. Items of
 * one subscription ascend already and stay first in, first out. There must be room. */
static void outbox_insert(struct outbox *o, const struct outbox_item *next)
{
    *outbox_at(o, o->count++) = *next;
    for (size_t i = o->count - 1;
         i > 0 && outbox_at(o, i - 1)->first_seq > outbox_at(o, i)->first_seq; i--) {
        struct outbox_item swap = *outbox_at(o, i);
        *outbox_at(o, i) = *outbox_at(o, i - 1);
        *outbox_at(o, i - 1) = swap;
    }
}

/* `next` is the newer change. For a strict subscription it moves to the end, because updates are
 * ordered by number; a client that resumes from an earlier cursor finds only the newer one in the
 * log. */
static void outbox_merge(struct outbox *o, size_t index, const struct outbox_item *next)
{
    struct outbox_item *item = outbox_at(o, index);
    bool moves = next->sub->is_strict;
    change_unref(item->change);
    if (moves) {
        item->first_seq = next->first_seq;
    } else {
        item->first_seq = item->first_seq < next->first_seq ? item->first_seq : next->first_seq;
    }
    item->change = next->change;
    uint32_t merged = item->merged + next->merged;
    item->kind = outbox_merge_kind((enum tidings_change_kind)item->kind,
                                   (enum tidings_change_kind)next->kind) &
                 7u;
    item->merged = (merged > OUTBOX_MERGED_MAX ? OUTBOX_MERGED_MAX : merged) & OUTBOX_MERGED_MAX;
    item->initial = item->initial && next->initial;
    item->caught_up = item->caught_up || next->caught_up;
    if (moves) {
        struct outbox_item moved = *item;
        for (size_t i = index; i + 1 < o->count; i++) {
            *outbox_at(o, i) = *outbox_at(o, i + 1);
        }
        o->count--;
        outbox_insert(o, &moved);
    }
}

/* `next` is newer than the queued items. Takes its reference on success. */
static enum outbox_result outbox_add(struct outbox *o, const struct outbox_item *next, size_t max)
{
    struct subscription *sub = next->sub;
    size_t index = sub->queued > 0 ? outbox_find(o, sub, next->change->uri) : o->count;
    if (index < o->count && next->initial) { /* the queued change is newer than the initial state */
        change_unref(next->change);
        return OUTBOX_MERGED;
    }
    if (index < o->count) {
        outbox_merge(o, index, next);
        return OUTBOX_MERGED;
    }
    if (o->count >= max || (o->count == outbox_room(o) && outbox_grow(o) < 0)) {
        return OUTBOX_FULL;
    }
    outbox_insert(o, next);
    sub->queued++;
    return OUTBOX_ADDED;
}

enum outbox_result outbox_push(struct outbox *o, struct subscription *sub,
                               const struct change *change, struct outbox_as as, size_t max)
{
    struct outbox_item item = {
        .sub = sub,
        .change = change_ref(change),
        .first_seq = change->seq,
        .due = as.caught_up ? as.due : lag_due(change->numbered_us),
        .merged = 1,
        .kind = as.kind & 7u,
        .caught_up = as.caught_up,
    };
    enum outbox_result r = outbox_add(o, &item, max);
    if (r == OUTBOX_FULL) {
        change_unref(change);
    }
    return r;
}

enum outbox_result outbox_push_initial(struct outbox *o, struct subscription *sub,
                                       const struct change *change, uint32_t due, size_t max)
{
    struct outbox_item item = {
        .sub = sub,
        .change = change_ref(change),
        .first_seq = change->seq + 1, /* does not hold back any number up to its own */
        .due = due,
        .merged = 1,
        .kind = change->kind & 7u,
        .initial = true,
    };
    enum outbox_result r = outbox_add(o, &item, max);
    if (r == OUTBOX_FULL) {
        change_unref(change);
    }
    return r;
}

bool outbox_take(struct outbox *o, struct outbox *from, uint32_t due, size_t max)
{
    bool fits = true;
    while (fits && from->count > 0) {
        struct outbox_item item = *outbox_at(from, 0);
        item.sub->queued--;
        item.due = due;
        drop_first(from);
        if (outbox_add(o, &item, max) == OUTBOX_FULL) {
            change_unref(item.change);
            fits = false;
        }
    }
    outbox_remove(from, NULL);
    return fits;
}

struct outbox_item *outbox_first(struct outbox *o)
{
    return o->count > 0 ? outbox_at(o, 0) : NULL;
}

uint64_t outbox_waited(const struct outbox_item *item, uint64_t now_us)
{
    uint64_t numbered_us = item->change->numbered_us;
    if (item->due == lag_due(numbered_us)) { /* the change has the exact time */
        return now_us > numbered_us ? now_us - numbered_us : 0;
    }
    return lag_since(item->due, now_us);
}

static void release_if_empty(struct outbox *o)
{
    if (o->count == 0 && o->has_ring) {
        mem_free(o->ring.items);
        outbox_init(o);
    }
}

void outbox_pop(struct outbox *o)
{
    struct outbox_item *item = outbox_at(o, 0);
    item->sub->queued--;
    change_unref(item->change);
    drop_first(o);
    release_if_empty(o);
}

static bool is_of_another(void *sub, const struct outbox_item *item)
{
    return sub && item->sub != sub;
}

void outbox_remove(struct outbox *o, struct subscription *sub)
{
    outbox_filter(o, is_of_another, sub);
}

void outbox_filter(struct outbox *o, bool (*keep)(void *user, const struct outbox_item *item),
                   void *user)
{
    size_t kept = 0;
    for (size_t i = 0; i < o->count; i++) {
        struct outbox_item *item = outbox_at(o, i);
        if (keep(user, item)) {
            *outbox_at(o, kept++) = *item;
            continue;
        }
        item->sub->queued--;
        change_unref(item->change);
    }
    o->count = kept & INT32_MAX;
    release_if_empty(o);
}

const struct outbox_item *outbox_second(const struct outbox *o)
{
    return o->count > 1 ? &o->ring.items[(o->ring.head + 1) & (o->ring.cap - 1)] : NULL;
}

/* -------------------------------------------------------------------------------------------------
 * Changes held back by a window: a small separate outbox until the period ends.
 */

/* NOLINTNEXTLINE(readability-function-size): seven of them, on the path of every delivery */
enum window_result window_enqueue(struct windows *all, struct window *w, uint64_t now_ms,
                                  struct subscription *sub, const struct change *change,
                                  struct outbox_as as, size_t max)
{
    if (w->period_ms == 0 && !w->deferred) {
        return WINDOW_PASS;
    }
    if (!w->deferred && w->open_ms < now_ms + sub->gather_ms) {
        w->open_ms = now_ms + sub->gather_ms;
    }
    if (!w->deferred && now_ms >= w->open_ms) {
        w->open_ms = now_ms + w->period_ms;
        return WINDOW_PASS;
    }
    if (!w->deferred) {
        w->deferred = mem_alloc(sizeof(*w->deferred));
        if (!w->deferred) {
            return WINDOW_FULL;
        }
        outbox_init(w->deferred);
        if (windows_enter(all, w) < 0) {
            mem_free(w->deferred);
            w->deferred = NULL;
            return WINDOW_FULL;
        }
    }
    return outbox_push(w->deferred, sub, change, as, max) == OUTBOX_FULL ? WINDOW_FULL
                                                                         : WINDOW_DEFERRED;
}

void window_clear(struct windows *all, struct window *w)
{
    windows_leave(all, w);
    if (w->deferred) {
        outbox_deinit(w->deferred);
        mem_free(w->deferred);
        w->deferred = NULL;
    }
}

uint64_t window_first_seq(const struct window *w)
{
    return w->deferred && w->deferred->count > 0 ? outbox_first(w->deferred)->first_seq : 0;
}
