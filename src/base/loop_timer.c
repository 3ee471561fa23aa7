/* SPDX-License-Identifier: MIT
 *
 * The timers of an event loop: a binary heap of those that run, by the time they are due and, where
 * that is the same, by the order in which they were started.
 *
 * Opening a timer makes room for it in the heap, so that starting one cannot fail. A timer knows
 * its index in the heap; stopping it, also from inside any callback, takes it out at once.
 */
#include <assert.h>
#include <limits.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/loop_private.h"
#include "base/mem.h"

#define NOT_RUNNING SIZE_MAX

struct loop_timer {
    struct loop *loop;
    loop_timer_fn fn;
    void *user;
    uint64_t due_ms;
    uint64_t start; /* which start of the loop's timers it was */
    uint64_t repeat_ms;
    size_t index; /* in the heap, or NOT_RUNNING */
    struct loop_discard discard;
};

static bool timer_is_before(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->start < b->start;
}

static void timer_put(struct loop_timers *t, size_t index, struct loop_timer *timer)
{
    t->heap[index] = timer;
    timer->index = index;
}

/* `timer` belongs at `index` or above it. */
static void timer_sift_up(struct loop_timers *t, size_t index, struct loop_timer *timer)
{
    while (index > 0 && timer_is_before(timer, t->heap[(index - 1) / 2])) {
        timer_put(t, index, t->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    timer_put(t, index, timer);
}

/* `timer` belongs at `index` or below it. */
static void timer_sift_down(struct loop_timers *t, size_t index, struct loop_timer *timer)
{
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= t->count) {
            break;
        }
        if (child + 1 < t->count && timer_is_before(t->heap[child + 1], t->heap[child])) {
            child++;
        }
        if (timer_is_before(timer, t->heap[child])) {
            break;
        }
        timer_put(t, index, t->heap[child]);
        index = child;
    }
    timer_put(t, index, timer);
}

static void timer_start_at(struct loop_timer *timer, uint64_t due_ms)
{
    struct loop_timers *t = &timer->loop->timers;
    assert(t->count < t->cap && timer->index == NOT_RUNNING);
    timer->due_ms = due_ms;
    timer->start = t->started++;
    timer_sift_up(t, t->count++, timer);
}

/* Room for one more. The heap only grows: what a loop once needed it may need again. */
static bool timers_reserve(struct loop_timers *t)
{
    if (t->open < t->cap) {
        return true;
    }
    size_t cap = t->cap ? t->cap * 2 : 16;
    struct loop_timer **heap = mem_realloc(t->heap, cap * sizeof(struct loop_timer *));
    if (!heap) {
        return false;
    }
    t->heap = heap;
    t->cap = cap;
    return true;
}

struct loop_timer *loop_timer_open(struct loop *loop, loop_timer_fn fn, void *user)
{
    struct loop_timer *timer = mem_zalloc(sizeof *timer);
    if (!timer || !timers_reserve(&loop->timers)) {
        mem_free(timer);
        return NULL;
    }
    loop->timers.open++;
    timer->loop = loop;
    timer->fn = fn;
    timer->user = user;
    timer->index = NOT_RUNNING;
    return timer;
}

void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms)
{
    loop_timer_stop(timer);
    uint64_t now = clock_monotonic_ms(); /* after a long turn more than the turn's own */
    if (after_ms == 0 || now < timer->loop->now_ms) {
        now = timer->loop->now_ms;
    }
    timer->repeat_ms = repeat_ms;
    timer_start_at(timer, after_ms > UINT64_MAX - now ? UINT64_MAX : now + after_ms);
}

void loop_timer_stop(struct loop_timer *timer)
{
    struct loop_timers *t = &timer->loop->timers;
    size_t index = timer->index;
    if (index == NOT_RUNNING) {
        return;
    }
    timer->index = NOT_RUNNING;
    struct loop_timer *last = t->heap[--t->count];
    if (last == timer) {
        return;
    }
    if (index > 0 && timer_is_before(last, t->heap[(index - 1) / 2])) {
        timer_sift_up(t, index, last);
    } else {
        timer_sift_down(t, index, last);
    }
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
    return timer->index != NOT_RUNNING;
}

static void timer_free(void *timer)
{
    mem_free(timer);
}

void loop_timer_close(struct loop_timer *timer)
{
    if (timer) {
        loop_timer_stop(timer);
        timer->loop->timers.open--;
        loop_discard(timer->loop, &timer->discard, timer_free, timer);
    }
}

void loop_run_timers(struct loop *loop)
{
    struct loop_timers *t = &loop->timers;
    /* What callbacks start waits for the next turn, else one could keep the others from theirs. It
     * is behind all that is due now: not due earlier, and started later. */
    uint64_t started = t->started;
    while (t->count > 0 && t->heap[0]->due_ms <= loop->now_ms && t->heap[0]->start < started) {
        struct loop_timer *timer = t->heap[0];
        loop_timer_stop(timer);
        if (timer->repeat_ms > 0) {
            timer_start_at(timer, timer->repeat_ms > UINT64_MAX - loop->now_ms
                                      ? UINT64_MAX
                                      : loop->now_ms + timer->repeat_ms);
        }
        timer->fn(timer, timer->user);
    }
}

int loop_timers_wait_ms(const struct loop *loop)
{
    const struct loop_timers *t = &loop->timers;
    if (t->count == 0) {
        return -1;
    }
    uint64_t due = t->heap[0]->due_ms, now = clock_monotonic_ms();
    uint64_t wait = due > now ? due - now : 0;
    return wait > INT_MAX ? INT_MAX : (int)wait;
}
