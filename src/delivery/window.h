/* SPDX-License-Identifier: MIT
 *
 * When a subscription is told: at once, and then at most once per period (the longer of its window
 * and its rate). A throttle, not a debounce: a stream that never rests is still told every period,
 * and the last state always. A subscription with `gather_ms` delays the first change, too: that
 * change waits so long for others, and no later change prolongs the wait.
 *
 * What comes inside a period is held here, two changes of one URI becoming one, and handed over
 * when the period ends. One queue of due times serves all subscriptions of a worker.
 */
#ifndef DELIVERY_WINDOW_H
#define DELIVERY_WINDOW_H

#include <tidings/provider.h>

struct change;
struct outbox;
struct outbox_as;
struct subscription;

/* Embedded in a subscription. Zeroed: no period. */
struct window {
    uint64_t open_ms;    /* until then changes are held; 0: nothing was told yet */
    struct outbox *held; /* NULL: nothing */
    uint32_t index;      /* private: place among the due ones, from 1; 0: not there */
    uint32_t period_ms;
};

/* All windows of a worker with something held, by due time. */
struct windows {
    struct window **heap;
    uint32_t count, cap;
};

void windows_init(struct windows *w);
void windows_deinit(struct windows *w);

enum window_result {
    WINDOW_PASS, /* tell now; the period begins */
    WINDOW_HELD,
    WINDOW_FULL, /* no room or memory to hold it */
};
enum window_result window_offer(struct windows *all, struct window *w, uint64_t now_ms,
                                struct subscription *sub, const struct change *change,
                                struct outbox_as as, size_t max);
/* A new period, also for what is held now. */
void window_set_period(struct windows *all, struct window *w, uint64_t now_ms, uint32_t period_ms);
/* Forget what is held. */
void window_clear(struct windows *all, struct window *w);
/* The window that is due longest, or NULL. Taken out; the caller hands its items over, which begins
 * the next period. */
struct window *windows_due(struct windows *all, uint64_t now_ms);
/* When the next one is due; UINT64_MAX: none. */
uint64_t windows_next(const struct windows *all);
/* The oldest change held; 0: none. */
uint64_t window_first_seq(const struct window *w);

#endif
