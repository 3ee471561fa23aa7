/* SPDX-License-Identifier: MIT
 *
 * A client's event loop: the descriptors and timers it waits for, with their functions, behind one
 * descriptor.
 *
 * A turn runs what is due and what is ready. Functions may add and remove anything, also
 * themselves, and may take another turn: none of them is entered twice by that unless it asks for
 * it, and nothing here holds on to one that was removed.
 */
#ifndef CLIENT_POLLER_H
#define CLIENT_POLLER_H

#include <sys/epoll.h>

#include <tidings/types.h>

#include "base/list.h"

struct poller_fd {
    int fd; /* negative: not there */
    uint32_t events;
    void (*fn)(void *user, uint32_t events); /* EPOLLIN, EPOLLOUT, … */
    void *user;
};

struct poller_timer {
    struct list link; /* unlinked: not set */
    uint64_t due;     /* clock_monotonic_ms */
    void (*fn)(void *user);
    void *user;
};

struct poller {
    int epoll;
    struct poller_fd clock; /* a timerfd */
    struct list timers;     /* the next first */
    uint64_t armed;         /* what the clock is set to; 0: nothing */
};

int poller_init(struct poller *p, struct tidings_error *err);
void poller_deinit(struct poller *p); /* also of one that is all zero */

/* `f->fn` and `f->user` are set; `f` must stay where it is. */
int poller_add(struct poller *p, struct poller_fd *f, int fd, uint32_t events);
void poller_want(struct poller *p, struct poller_fd *f, uint32_t events);
void poller_remove(struct poller *p, struct poller_fd *f); /* before it is closed; twice is fine */

void poller_timer_init(struct poller_timer *t, void (*fn)(void *user), void *user);
/* So many milliseconds from now; set again: instead of before. */
void poller_set(struct poller *p, struct poller_timer *t, uint64_t ms);
void poller_unset(struct poller_timer *t); /* twice is fine */
bool poller_is_set(const struct poller_timer *t);

/* Wait for something, at most so long (negative: no limit), and do it. */
int poller_turn(struct poller *p, int timeout_ms, struct tidings_error *err);

#endif
