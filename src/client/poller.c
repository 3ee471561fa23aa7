/* SPDX-License-Identifier: MIT
 *
 * A client's event loop: epoll, and a timerfd in it that is set to the first of the timers. Events
 * are taken one at a time: whoever is removed by one function cannot be called by what was fetched
 * before.
 */
#include "client/poller.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"

#define EVENTS_PER_TURN 64 /* then timers get their turn */

static void read_clock(void *user, uint32_t events)
{
    struct poller *p = user;
    uint64_t count;
    (void)events;
    (void)!read(p->clock.fd, &count, sizeof(count));
    p->armed = 0;
}

int poller_init(struct poller *p, struct tidings_error *err)
{
    *p = (struct poller){.clock = {.fd = -1, .fn = read_clock, .user = p}};
    list_init(&p->timers);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (p->epoll < 0 || fd < 0 || poller_add(p, &p->clock, fd, EPOLLIN) < 0) {
        int errnum = errno;
        if (fd >= 0 && p->clock.fd < 0) {
            close(fd);
        }
        poller_deinit(p);
        return error_errno(err, errnum, "wait for descriptors");
    }
    return 0;
}

void poller_deinit(struct poller *p)
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
    *p = (struct poller){0};
}

/* ---- descriptors ----------------------------------------------------------------------------- */

int poller_add(struct poller *p, struct poller_fd *f, int fd, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = f};
    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        return error_code_from_errno(errno);
    }
    f->fd = fd;
    f->events = events;
    return 0;
}

void poller_want(struct poller *p, struct poller_fd *f, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = f};
    if (f->fd >= 0 && f->events != events && epoll_ctl(p->epoll, EPOLL_CTL_MOD, f->fd, &e) == 0) {
        f->events = events;
    }
}

void poller_remove(struct poller *p, struct poller_fd *f)
{
    if (f->fd >= 0) {
        (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, f->fd, NULL);
        f->fd = -1;
    }
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* The descriptor has to be readable when the first timer is due, also between turns. */
static void poller_arm(struct poller *p)
{
    if (list_empty(&p->timers)) {
        return; /* at worst it goes off for nothing */
    }
    const struct poller_timer *first = list_entry(p->timers.next, struct poller_timer, link);
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

void poller_timer_init(struct poller_timer *t, void (*fn)(void *user), void *user)
{
    *t = (struct poller_timer){.fn = fn, .user = user};
    list_init(&t->link);
}

void poller_set(struct poller *p, struct poller_timer *t, uint64_t ms)
{
    list_remove(&t->link);
    t->due = clock_monotonic_ms() + ms;
    /* From behind: most are set to the same span, so this is their place. */
    struct list *before = p->timers.prev;
    while (before != &p->timers && list_entry(before, struct poller_timer, link)->due > t->due) {
        before = before->prev;
    }
    list_insert_between(&t->link, before, before->next);
    poller_arm(p);
}

void poller_unset(struct poller_timer *t)
{
    list_remove(&t->link);
}

bool poller_is_set(const struct poller_timer *t)
{
    return !list_empty(&t->link);
}

static bool run_timers(struct poller *p)
{
    bool any = false;
    uint64_t now = clock_monotonic_ms();
    while (!list_empty(&p->timers)) {
        struct poller_timer *t = list_entry(p->timers.next, struct poller_timer, link);
        if (t->due > now) {
            break;
        }
        list_remove(&t->link);
        any = true;
        t->fn(t->user);
    }
    poller_arm(p);
    return any;
}

int poller_turn(struct poller *p, int timeout_ms, struct tidings_error *err)
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
        struct poller_fd *f = e.data.ptr;
        f->fn(f->user, e.events);
        wait = 0;
    }
    run_timers(p);
    return 0;
}
