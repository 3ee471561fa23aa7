/* SPDX-License-Identifier: MIT
 *
 * What a client waits for, behind one descriptor: descriptors and timers with their functions.
 *
 * A turn runs what is due and what is ready. Functions may add and remove anything, also
 * themselves, and may take another turn: none of them is entered twice by that unless it asks for
 * it, and nothing here holds on to one that was removed.
 */
#ifndef CLIENT_PUMP_H
#define CLIENT_PUMP_H

#include <sys/epoll.h>

#include "base/list.h"

#include <tidings/types.h>

struct pump_fd {
    int fd; /* negative: not there */
    uint32_t events;
    void (*fn)(void *user, uint32_t events); /* EPOLLIN, EPOLLOUT, … */
    void *user;
};

struct pump_timer {
    struct list link; /* unlinked: not set */
    uint64_t due;     /* clock_monotonic_ms */
    void (*fn)(void *user);
    void *user;
};

struct pump {
    int epoll;
    struct pump_fd clock; /* a timerfd */
    struct list timers;   /* the next first */
    uint64_t armed;       /* what the clock is set to; 0: nothing */
};

int pump_init(struct pump *p, struct tidings_error *err);
void pump_deinit(struct pump *p); /* also of one that is all zero */

/* `f->fn` and `f->user` are set; `f` must stay where it is. */
int pump_add(struct pump *p, struct pump_fd *f, int fd, uint32_t events);
void pump_want(struct pump *p, struct pump_fd *f, uint32_t events);
void pump_remove(struct pump *p, struct pump_fd *f); /* before it is closed; twice is fine */

void pump_timer_init(struct pump_timer *t, void (*fn)(void *user), void *user);
/* So many milliseconds from now; set again: instead of before. */
void pump_set(struct pump *p, struct pump_timer *t, uint64_t ms);
void pump_unset(struct pump_timer *t); /* twice is fine */
bool pump_is_set(const struct pump_timer *t);

/* Wait for something, at most so long (negative: no limit), and do it. */
int pump_turn(struct pump *p, int timeout_ms, struct tidings_error *err);

#endif
