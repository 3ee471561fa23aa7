/* SPDX-License-Identifier: MIT
 *
 * The heap of tasks that have ended, by the moment they are forgotten: 1 is the top, the children
 * of n are 2n and 2n + 1.
 */
#include "base/mem.h"
#include "handler/task_private.h"

static void task_heap_set(struct tasks *all, size_t at, struct task *t)
{
    all->heap[at] = t;
    t->heap_at = at;
}

static void task_heap_tell_due(struct tasks *all)
{
    uint64_t due = all->heap_count > 0 ? all->heap[1]->due_ms : UINT64_MAX;
    __atomic_store_n(&all->due_ms, due, __ATOMIC_RELEASE);
}

void task_heap_add(struct tasks *all, struct task *t)
{
    size_t at = ++all->heap_count;
    for (; at > 1 && all->heap[at / 2]->due_ms > t->due_ms; at /= 2) {
        task_heap_set(all, at, all->heap[at / 2]);
    }
    task_heap_set(all, at, t);
    task_heap_tell_due(all);
}

struct task *task_heap_take(struct tasks *all)
{
    struct task *first = all->heap[1], *last = all->heap[all->heap_count--];
    size_t at = 1;
    for (size_t child = 2; child <= all->heap_count; child = 2 * at) {
        if (child < all->heap_count && all->heap[child + 1]->due_ms < all->heap[child]->due_ms) {
            child++;
        }
        if (all->heap[child]->due_ms >= last->due_ms) {
            break;
        }
        task_heap_set(all, at, all->heap[child]);
        at = child;
    }
    if (all->heap_count > 0) {
        task_heap_set(all, at, last);
    }
    first->heap_at = 0;
    task_heap_tell_due(all);
    return first;
}

int task_heap_reserve(struct tasks *all)
{
    if (all->count + 2 <= all->heap_room) {
        return 0;
    }
    size_t room = all->heap_room > 0 ? all->heap_room * 2 : 64;
    struct task **heap = mem_realloc(all->heap, room * sizeof(struct task *));
    if (!heap) {
        return TIDINGS_E_NOMEM;
    }
    all->heap = heap;
    all->heap_room = room;
    return 0;
}
