/* SPDX-License-Identifier: MIT
 *
 * The descriptors of an event loop: one epoll instance, asked once in a turn.
 *
 * A poll is in the instance from init to deinit, and the kernel knows its address. Invariant: what
 * is not dispatched yet of the batch that was reported names only polls that are still there; so
 * deinit forgets what the batch says of a poll, and a number or memory used again within the turn
 * gets nothing of its predecessor.
 *
 * Level-triggered: what is still ready is reported again, behind the others.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop_private.h"
#include "base/mem.h"

#define EVENTS_PER_TURN 256 /* the others stay ready: the kernel puts them in front next time */
#define LOOP_CHANGED 16     /* besides enum loop_event: EPOLLPRI, with an error that is none */

/* What loop_poll_open returns. */
struct opened_poll {
    struct loop_poll poll;
    struct loop_discard discard;
    int duplicate; /* of a shared descriptor that was watched already, or -1 */
};

/* What to ask the kernel for. It reports EPOLLERR and EPOLLHUP always: without interest at most
 * once, to nobody, and then no more until it is asked again. */
static uint32_t to_epoll(int wanted)
{
    uint32_t events = wanted ? 0 : (uint32_t)EPOLLONESHOT;
    events |= wanted & LOOP_READ ? (uint32_t)EPOLLIN : 0;
    events |= wanted & LOOP_WRITE ? (uint32_t)EPOLLOUT : 0;
    events |= wanted & LOOP_HANGUP ? (uint32_t)EPOLLRDHUP : 0;
    events |= wanted & LOOP_CHANGED ? (uint32_t)EPOLLPRI : 0;
    return events;
}

static void poll_dispatch(struct loop_poll *poll, uint32_t happened)
{
    int wanted = poll->wanted; /* by now; it may have changed since the kernel was asked */
    int events = 0;
    if (wanted & LOOP_CHANGED) {
        events = wanted;
    } else if (happened & EPOLLERR && wanted) {
        (void)loop_poll_want(poll, 0); /* an error that stays must not wake the loop for ever */
        events = LOOP_ERROR;
    } else {
        events |= happened & EPOLLIN ? LOOP_READ : 0;
        events |= happened & EPOLLOUT ? LOOP_WRITE : 0;
        events |= happened & EPOLLRDHUP ? LOOP_HANGUP : 0;
        events &= wanted;
        if (!events && happened & EPOLLHUP) {
            events = wanted; /* a pipe without writers says only this: let the reader find out */
        }
    }
    if (events) {
        poll->fn(poll, events, poll->user);
    }
}

void loop_wait(struct loop *loop, int timeout_ms)
{
    struct epoll_event batch[EVENTS_PER_TURN];
    if (loop->woken_ns > 0) {
        durations_count(&loop->turns, (clock_monotonic_ns() - loop->woken_ns) / 1000);
    }
    int count = epoll_wait(loop->epoll, batch, EVENTS_PER_TURN, timeout_ms);
    assert(count >= 0 || errno == EINTR); /* then the turn goes on: timers, and another wait */
    loop->woken_ns = clock_monotonic_ns();
    loop->now_ms = loop->woken_ns / 1000000;
    loop->batch = batch;
    loop->batch_count = count;
    while (loop->batch_count > 0) {
        struct epoll_event event = *loop->batch++;
        loop->batch_count--;
        if (event.data.ptr) {
            poll_dispatch(event.data.ptr, event.events);
        }
    }
    loop->batch = NULL;
    loop->batch_count = 0;
}

/* Into the instance, for `events` of epoll's. The fields are set; returns an errno value. */
static int poll_register(struct loop_poll *poll, uint32_t events)
{
    struct epoll_event interest = {.events = events, .data.ptr = poll};
    if (epoll_ctl(poll->loop->epoll, EPOLL_CTL_ADD, poll->fd, &interest) < 0) {
        return errno;
    }
    poll->loop->poll_count++;
    return 0;
}

int loop_poll_init_wake(struct loop_poll *poll, struct loop *loop, int fd, loop_poll_fn fn)
{
    *poll = (struct loop_poll){.loop = loop, .fn = fn, .fd = fd, .wanted = LOOP_READ};
    return poll_register(poll, (uint32_t)EPOLLIN | (uint32_t)EPOLLET);
}

static int poll_fail(int errnum, int fd, struct tidings_error *err)
{
    if (errnum == EPERM) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "descriptor %d cannot be watched: only sockets, pipes, terminals and "
                            "the like can, not files",
                            fd);
    }
    return error_errno(err, errnum, "watch descriptor %d", fd);
}

int loop_poll_init(struct loop_poll *poll, struct loop *loop, int fd, loop_poll_fn fn, void *user,
                   struct tidings_error *err)
{
    *poll = (struct loop_poll){.loop = loop, .fn = fn, .user = user, .fd = fd};
    int errnum = poll_register(poll, to_epoll(0));
    if (errnum) {
        *poll = (struct loop_poll){0};
        return poll_fail(errnum, fd, err);
    }
    int on = 1;
    if (ioctl(fd, FIONBIO, &on) < 0) {
        errnum = errno;
        loop_poll_deinit(poll);
        return poll_fail(errnum, fd, err);
    }
    return 0;
}

void loop_poll_deinit(struct loop_poll *poll)
{
    if (!poll || !poll->loop) {
        return;
    }
    struct loop *loop = poll->loop;
    for (int i = 0; i < loop->batch_count; i++) {
        if (loop->batch[i].data.ptr == poll) {
            loop->batch[i].data.ptr = NULL;
        }
    }
    /* Closing alone would not do: other processes may hold the descriptor open. */
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, poll->fd, NULL);
    loop->poll_count--;
    *poll = (struct loop_poll){0};
}

static struct opened_poll *opened_create(struct tidings_error *err)
{
    struct opened_poll *o = mem_zalloc(sizeof *o);
    if (!o) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "watch descriptor: out of memory");
        return NULL;
    }
    o->duplicate = -1;
    return o;
}

static void opened_free(void *thing)
{
    mem_free(thing);
}

struct loop_poll *loop_poll_open(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                 struct tidings_error *err)
{
    struct opened_poll *o = opened_create(err);
    if (o && loop_poll_init(&o->poll, loop, fd, fn, user, err) < 0) {
        mem_free(o);
        return NULL;
    }
    return o ? &o->poll : NULL;
}

struct loop_poll *loop_poll_open_shared(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                        struct tidings_error *err)
{
    struct opened_poll *o = opened_create(err);
    if (!o) {
        return NULL;
    }
    o->poll = (struct loop_poll){.loop = loop, .fn = fn, .user = user, .fd = fd};
    int errnum = poll_register(&o->poll, to_epoll(0));
    if (errnum == EEXIST) {
        /* One socket for input and output: the kernel keeps one interest for each number. */
        o->duplicate = o->poll.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        errnum = o->duplicate < 0 ? errno : poll_register(&o->poll, to_epoll(0));
    }
    if (!errnum) {
        return &o->poll;
    }
    if (o->duplicate >= 0) {
        close(o->duplicate);
    }
    (void)poll_fail(errnum, fd, err);
    mem_free(o);
    return NULL;
}

int loop_poll_want(struct loop_poll *poll, int events)
{
    events &= LOOP_READ | LOOP_WRITE | LOOP_HANGUP;
    if (events == poll->wanted) {
        return 0;
    }
    if (!poll->loop) {
        return TIDINGS_E_INVALID; /* closed already */
    }
    struct epoll_event interest = {.events = to_epoll(events), .data.ptr = poll};
    if (epoll_ctl(poll->loop->epoll, EPOLL_CTL_MOD, poll->fd, &interest) < 0 && events) {
        return error_code_from_errno(errno);
    }
    poll->wanted = events;
    return 0;
}

void loop_poll_close(struct loop_poll *poll)
{
    if (!poll || !poll->loop) {
        return;
    }
    struct opened_poll *o = list_entry(poll, struct opened_poll, poll);
    struct loop *loop = poll->loop;
    loop_poll_deinit(poll);
    if (o->duplicate >= 0) {
        close(o->duplicate);
    }
    loop_discard(loop, &o->discard, opened_free, o);
}

/* ---- files that report a change by POLLPRI --------------------------------------------------- */

struct loop_change_poll {
    struct loop_poll poll;
    struct loop_discard discard;
    loop_change_fn fn;
    void *user;
};

static void loop_on_changed(struct loop_poll *poll, int events, void *user)
{
    struct loop_change_poll *watch = user;
    (void)poll;
    (void)events;
    watch->fn(watch->user);
}

struct loop_change_poll *loop_change_poll_open(struct loop *loop, int fd, loop_change_fn fn,
                                               void *user)
{
    struct loop_change_poll *watch = mem_zalloc(sizeof *watch);
    if (!watch) {
        return NULL;
    }
    watch->fn = fn;
    watch->user = user;
    watch->poll = (struct loop_poll){
        .loop = loop, .fn = loop_on_changed, .user = watch, .fd = fd, .wanted = LOOP_CHANGED};
    /* At once: asking the kernel twice would take what has happened since the file was opened. */
    if (poll_register(&watch->poll, to_epoll(LOOP_CHANGED)) != 0) {
        mem_free(watch);
        return NULL;
    }
    return watch;
}

static void change_poll_free(void *watch)
{
    mem_free(watch);
}

void loop_change_poll_close(struct loop_change_poll *watch)
{
    if (watch) {
        struct loop *loop = watch->poll.loop;
        loop_poll_deinit(&watch->poll);
        loop_discard(loop, &watch->discard, change_poll_free, watch);
    }
}
