/* SPDX-License-Identifier: MIT
 *
 * The order in which windows fall due: a heap over all of a worker's that hold something.
 */
#include "delivery/window.h"

#include "base/mem.h"
#include "delivery/window_private.h"

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

int windows_enter(struct windows *all, struct window *w)
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

void windows_leave(struct windows *all, struct window *w)
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
