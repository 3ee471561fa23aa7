/* SPDX-License-Identifier: MIT
 *
 * What the parts of the event loop share: the loop itself (loop.c), its descriptors (loop_poll.c)
 * and its timers (loop_timer.c).
 */
#ifndef BASE_LOOP_PRIVATE_H
#define BASE_LOOP_PRIVATE_H

#include <stdint.h>
#include <sys/epoll.h>

#include "base/durations.h"
#include "base/loop.h"

/* The timers that run, as a binary heap: the first is the next one due. */
struct loop_timers {
    struct loop_timer **heap;
    size_t count;     /* that run */
    size_t open;      /* that exist */
    size_t cap;       /* of the heap: at least `open`, so that starting one needs no memory */
    uint64_t started; /* number of starts so far */
};

struct loop {
    int epoll;
    int wake_fd;             /* an eventfd, which nobody ever reads */
    struct loop_poll wake;   /* on that */
    atomic_bool is_woken;    /* somebody wrote to it, or is about to */
    atomic_bool is_stopping; /* somebody called loop_stop */
    bool has_wakeups;        /* one may be due: the loop must not sleep */
    struct list wakeups;     /* all there are */
    struct list wakeup_here; /* among them while they are called: those before it were */
    struct list hooks;
    struct list hook_here; /* the same among the hooks */
    struct list discards;
    struct loop_timers timers;
    uint64_t now_ms;
    uint64_t woken_ns; /* when the last wait was over; 0: never yet */
    struct durations turns;
    uint32_t turn;
    size_t poll_count;
    struct epoll_event *batch; /* what was reported and is not dispatched yet */
    int batch_count;
};

/* ---- descriptors ---------------------------------------------------------------------------- */

/* The descriptor of wake-ups into the instance: each write is reported once and wants no read.
 * Returns an errno value. */
int loop_poll_init_wake(struct loop_poll *poll, struct loop *loop, int fd, loop_poll_fn fn);
/* Wait for at most `timeout_ms` (-1: for ever), then call back for what is ready. */
void loop_wait(struct loop *loop, int timeout_ms);

/* ---- timers --------------------------------------------------------------------------------- */

void loop_run_timers(struct loop *loop);
/* Until the next is due: 0 when one is, -1 when none runs. */
int loop_timers_wait_ms(const struct loop *loop);

#endif
