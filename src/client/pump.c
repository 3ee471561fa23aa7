/* SPDX-License-Identifier: MIT
 *
 * epoll, and a timerfd in it that is set to the first of the timers. Events are taken one at a
 * time: whoever is removed by one function cannot be called by what was fetched before.
 */
#include "client/pump.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define EVENTS_PER_TURN 64 /* then timers get their turn */

static void read_clock(void *user, uint32_t events)
{
    struct pump *p = user;
    uint64_t count;
    (void)events;
    (void)!read(p->clock.fd, &count, sizeof(count));
    p->armed = 0;
}

int pump_init(struct pump *p, struct tidings_error *err)
{
    *p = (struct pump){.clock = {.fd = -1, .fn = read_clock, .user = p}};
    list_init(&p->timers);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p->epoll < 0 || fd < 0 || pump_add(p, &p->clock, fd, EPOLLIN) < 0) {
        int errnum = errno;
        if (fd >= 0 && p->clock.fd < 0) {
            close(fd);
        }
        pump_deinit(p);
        return error_errno(err, errnum, "wait for descriptors");
    }
    return 0;
}

void pump_deinit(struct pump *p)
{
    if (!p->clock.fn) {
        return;
    }
    if (p->clock.fd >= 0) {
        close(p->clock.fd);
    }
    if (p->epoll >= 0) {
        close(p->epoll);
    }
    *p = (struct pump){0};
}

/* ---- descriptors ----------------------------------------------------------------------------- */

int pump_add(struct pump *p, struct pump_fd *f, int fd, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = f};
    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        return error_code_from_errno(errno);
    }
    f->fd = fd;
    f->events = events;
    return 0;
}

void pump_want(struct pump *p, struct pump_fd *f, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = f};
    if (f->fd >= 0 && f->events != events && epoll_ctl(p->epoll, EPOLL_CTL_MOD, f->fd, &e) == 0) {
        f->events = events;
    }
}

void pump_remove(struct pump *p, struct pump_fd *f)
{
    if (f->fd >= 0) {
        (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, f->fd, NULL);
        f->fd = -1;
    }
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* The descriptor has to be readable when the first timer is due, also between turns. */
static void arm(struct pump *p)
{
    if (list_empty(&p->timers)) {
        return; /* at worst it goes off for nothing */
    }
    const struct pump_timer *first = list_entry(p->timers.next, struct pump_timer, link);
    if (p->armed > 0 && p->armed <= first->due) {
        return;
    }
    uint64_t now = clock_monotonic_ms();
    uint64_t ms = first->due > now ? first->due - now : 0;
    struct itimerspec t = {.it_value = {.tv_sec = (time_t)(ms / 1000),
                                        .tv_nsec = (long)(ms % 1000) * 1000000 + (ms == 0)}};
    if (timerfd_settime(p->clock.fd, 0, &t, NULL) == 0) {
        p->armed = first->due;
    }
}

void pump_timer_init(struct pump_timer *t, void (*fn)(void *user), void *user)
{
    *t = (struct pump_timer){.fn = fn, .user = user};
    list_init(&t->link);
}

void pump_set(struct pump *p, struct pump_timer *t, uint64_t ms)
{
    list_remove(&t->link);
    t->due = clock_monotonic_ms() + ms;
    /* From behind: most are set to the same span, so this is their place. */
    struct list *before = p->timers.prev;
    while (before != &p->timers && list_entry(before, struct pump_timer, link)->due > t->due) {
        before = before->prev;
    }
    list_insert_between(&t->link, before, before->next);
    arm(p);
}

void pump_unset(struct pump_timer *t)
{
    list_remove(&t->link);
}

bool pump_is_set(const struct pump_timer *t)
{
    return !list_empty(&t->link);
}

static bool run_timers(struct pump *p)
{
    bool any = false;
    uint64_t now = clock_monotonic_ms();
    while (!list_empty(&p->timers)) {
        struct pump_timer *t = list_entry(p->timers.next, struct pump_timer, link);
        if (t->due > now) {
            break;
        }
        list_remove(&t->link);
        any = true;
        t->fn(t->user);
    }
    arm(p);
    return any;
}

int pump_turn(struct pump *p, int timeout_ms, struct tidings_error *err)
{
    int wait = run_timers(p) ? 0 : timeout_ms;
    for (int i = 0; i < EVENTS_PER_TURN; i++) {
        struct epoll_event e;
        int n = epoll_wait(p->epoll, &e, 1, wait);
        if (n < 0 && errno != EINTR) {
            return error_errno(err, errno, "wait for descriptors");
        }
        if (n <= 0) {
            break;
        }
        struct pump_fd *f = e.data.ptr;
        f->fn(f->user, e.events);
        wait = 0;
    }
    run_timers(p);
    return 0;
}
