/* SPDX-License-Identifier: MIT
 *
 * The event loop on libuv.
 *
 * Invariant: user code runs only inside a libuv callback of ours, and discarded things are freed
 * only between such callbacks: by the prepare handle (right before libuv waits), after all hooks
 * have returned, and by the check handle (right after the descriptors' callbacks). Timers are freed
 * by their close callbacks, which libuv runs last in a turn.
 *
 * The prepare handle also keeps libuv's loop alive, so that it runs until it is stopped.
 *
 * Descriptors do not go through libuv one by one: its handle for one is 160 bytes and takes two
 * system calls for every change of interest. All of them are in one epoll instance of ours, and
 * libuv watches that one. A poll is in it from init to deinit.
 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <uv.h>

#include "base/error.h"
#include "base/mem.h"

#define MAX_CLOSE_TURNS 1000
#define EVENTS_PER_TURN 256 /* the others stay ready: the kernel puts them in front next time */

struct loop {
    uv_loop_t uv;
    uv_prepare_t before_wait;
    uv_check_t after_wait;
    uv_async_t stop;
    struct list hooks;
    struct list hook_here; /* among the hooks while they run: those before it have run */
    struct list discards;
    int epoll;           /* where the polls are; -1 until there is one */
    uv_poll_t has_ready; /* on that instance */
    size_t poll_count;
    uint32_t turn;
    struct epoll_event *batch; /* what on_ready has not dispatched yet */
    int batch_count;
};

/* What loop_poll_open returns. */
struct opened_poll {
    struct loop_poll poll;
    struct loop_discard discard;
    int duplicate; /* of a shared descriptor that was watched already, or -1 */
};

struct loop_timer {
    uv_timer_t uv;
    loop_timer_fn fn;
    void *user;
};

/* ---- end of a turn -------------------------------------------------------------------------- */

static void run_discards(struct loop *loop)
{
    while (!list_empty(&loop->discards)) {
        struct loop_discard *node = list_entry(loop->discards.next, struct loop_discard, link);
        list_remove(&node->link);
        node->fn(node->thing); /* frees the node as well */
    }
}

static void run_hooks(struct loop *loop)
{
    /* A hook may remove itself and any other, and add some: a place holder in the list survives. */
    struct list *here = &loop->hook_here;
    list_prepend(&loop->hooks, here);
    while (here->next != &loop->hooks) {
        struct list *next = here->next;
        list_remove(here);
        list_insert_between(here, next, next->next);
        struct loop_hook *hook = list_entry(next, struct loop_hook, link);
        hook->fn(hook->user);
    }
    list_remove(here);
}

static void end_turn(struct loop *loop)
{
    run_hooks(loop);
    run_discards(loop);
}

static void on_before_wait(uv_prepare_t *handle)
{
    end_turn(handle->data);
}

static void on_after_wait(uv_check_t *handle)
{
    struct loop *loop = handle->data;
    run_discards(loop);
    loop->turn++;
}

static void on_stop(uv_async_t *handle)
{
    uv_stop(handle->loop);
}

/* ---- the loop ------------------------------------------------------------------------------- */

struct loop *loop_create(struct tidings_error *err)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    if (!loop) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "create event loop: out of memory");
        return NULL;
    }
    list_init(&loop->hooks);
    list_init(&loop->hook_here);
    list_init(&loop->discards);
    loop->epoll = -1;
    int rc = uv_loop_init(&loop->uv);
    if (rc < 0) {
        (void)error_errno(err, -rc, "create event loop");
        goto fail_memory;
    }
    rc = uv_async_init(&loop->uv, &loop->stop, on_stop);
    if (rc < 0) {
        (void)error_errno(err, -rc, "create event loop");
        goto fail_loop;
    }
    (void)uv_prepare_init(&loop->uv, &loop->before_wait);
    (void)uv_check_init(&loop->uv, &loop->after_wait);
    loop->before_wait.data = loop;
    loop->after_wait.data = loop;
    (void)uv_prepare_start(&loop->before_wait, on_before_wait);
    (void)uv_check_start(&loop->after_wait, on_after_wait);
    return loop;

fail_loop:
    (void)uv_loop_close(&loop->uv);
fail_memory:
    mem_free(loop);
    return NULL;
}

void loop_destroy(struct loop *loop)
{
    if (!loop) {
        return;
    }
    assert(list_empty(&loop->hooks));
    uv_close((uv_handle_t *)&loop->before_wait, NULL);
    uv_close((uv_handle_t *)&loop->after_wait, NULL);
    uv_close((uv_handle_t *)&loop->stop, NULL);
    if (loop->epoll >= 0) {
        uv_close((uv_handle_t *)&loop->has_ready, NULL);
    }
    /* A discard may close a poll and a close may discard: until both are done. The bound is for
     * release builds in which a caller forgot a handle. */
    int turns = 0;
    do {
        run_discards(loop);
        (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
    } while ((uv_loop_alive(&loop->uv) || !list_empty(&loop->discards)) &&
             ++turns < MAX_CLOSE_TURNS);
    int rc = uv_loop_close(&loop->uv);
    bool is_unused = rc == 0 && loop->poll_count == 0;
    assert(is_unused);
    if (is_unused) {
        if (loop->epoll >= 0) {
            close(loop->epoll);
        }
        mem_free(loop);
    }
}

void loop_run(struct loop *loop)
{
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    end_turn(loop); /* what the last callbacks put together still goes out */
}

void loop_stop(struct loop *loop)
{
    (void)uv_async_send(&loop->stop);
}

int loop_fd(struct loop *loop)
{
    return uv_backend_fd(&loop->uv);
}

int loop_timeout_ms(struct loop *loop)
{
    uv_update_time(&loop->uv);
    return uv_backend_timeout(&loop->uv);
}

void loop_turn(struct loop *loop)
{
    (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
    end_turn(loop); /* the host may wait for long now: not on the next turn's prepare handle */
}

uint32_t loop_turn_number(const struct loop *loop)
{
    return loop->turn;
}

uint64_t loop_now_ms(struct loop *loop)
{
    return uv_now(&loop->uv);
}

struct uv_loop_s *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

/* What to ask the kernel for. It reports EPOLLERR and EPOLLHUP always: without interest at most
 * once, to nobody, and then no more until it is asked again. */
static uint32_t to_epoll(int wanted)
{
    uint32_t events = wanted ? 0 : (uint32_t)EPOLLONESHOT;
    events |= wanted & LOOP_READ ? (uint32_t)EPOLLIN : 0;
    events |= wanted & LOOP_WRITE ? (uint32_t)EPOLLOUT : 0;
    events |= wanted & LOOP_HANGUP ? (uint32_t)EPOLLRDHUP : 0;
    return events;
}

static void dispatch(struct loop_poll *poll, uint32_t happened)
{
    int wanted = poll->wanted; /* by now; it may have changed since the kernel was asked */
    int events = 0;
    if (happened & EPOLLERR && wanted) {
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

static void on_ready(uv_poll_t *handle, int status, int uv_events)
{
    (void)status;
    (void)uv_events;
    struct loop *loop = handle->data;
    struct epoll_event batch[EVENTS_PER_TURN];
    loop->batch = batch;
    loop->batch_count = epoll_wait(loop->epoll, batch, EVENTS_PER_TURN, 0);
    while (loop->batch_count > 0) {
        struct epoll_event event = *loop->batch++;
        loop->batch_count--;
        if (event.data.ptr) {
            dispatch(event.data.ptr, event.events);
        }
    }
    loop->batch = NULL;
    loop->batch_count = 0;
}

/* The instance the polls are in; returns an errno value. */
static int open_epoll(struct loop *loop)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int rc = uv_poll_init(&loop->uv, &loop->has_ready, fd);
    if (rc < 0) {
        close(fd);
        return -rc;
    }
    loop->has_ready.data = loop;
    (void)uv_poll_start(&loop->has_ready, UV_READABLE, on_ready);
    loop->epoll = fd;
    return 0;
}

/* Into the instance, without interest. The fields are set; returns an errno value. */
static int poll_register(struct loop_poll *poll)
{
    struct loop *loop = poll->loop;
    int errnum = loop->epoll < 0 ? open_epoll(loop) : 0;
    if (errnum) {
        return errnum;
    }
    struct epoll_event none = {.events = to_epoll(0), .data.ptr = poll};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, poll->fd, &none) < 0) {
        return errno;
    }
    loop->poll_count++;
    return 0;
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
    int errnum = poll_register(poll);
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
    int errnum = poll_register(&o->poll);
    if (errnum == EEXIST) {
        /* One socket for input and output: the kernel keeps one interest for each number. */
        o->duplicate = o->poll.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        errnum = o->duplicate < 0 ? errno : poll_register(&o->poll);
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

/* ---- news ----------------------------------------------------------------------------------- */

struct loop_news {
    uv_poll_t uv;
    loop_news_fn fn;
    void *user;
};

static void on_news(uv_poll_t *handle, int status, int events)
{
    struct loop_news *news = handle->data;
    (void)status;
    (void)events;
    news->fn(news->user);
}

struct loop_news *loop_news_open(struct loop *loop, int fd, loop_news_fn fn, void *user)
{
    struct loop_news *news = mem_zalloc(sizeof *news);
    if (news && uv_poll_init(&loop->uv, &news->uv, fd) < 0) {
        mem_free(news);
        news = NULL;
    }
    if (news) {
        news->uv.data = news;
        news->fn = fn;
        news->user = user;
        (void)uv_poll_start(&news->uv, UV_PRIORITIZED, on_news);
    }
    return news;
}

static void on_news_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

void loop_news_close(struct loop_news *news)
{
    if (news) {
        uv_close((uv_handle_t *)&news->uv, on_news_closed);
    }
}

/* ---- timers --------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *handle)
{
    struct loop_timer *timer = handle->data;
    timer->fn(timer, timer->user);
}

struct loop_timer *loop_timer_open(struct loop *loop, loop_timer_fn fn, void *user)
{
    struct loop_timer *timer = mem_zalloc(sizeof *timer);
    if (!timer) {
        return NULL;
    }
    (void)uv_timer_init(&loop->uv, &timer->uv);
    timer->uv.data = timer;
    timer->fn = fn;
    timer->user = user;
    return timer;
}

void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms)
{
    /* libuv counts from the start of the turn: after a long one the timer would be early. */
    uint64_t now = uv_hrtime() / 1000000u;
    uint64_t turn = uv_now(timer->uv.loop);
    uint64_t late = now > turn ? now - turn : 0;
    if (after_ms > UINT64_MAX - late) {
        late = 0;
    }
    (void)uv_timer_start(&timer->uv, on_timer, after_ms + (after_ms ? late : 0), repeat_ms);
}

void loop_timer_stop(struct loop_timer *timer)
{
    (void)uv_timer_stop(&timer->uv);
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
    return uv_is_active((const uv_handle_t *)&timer->uv);
}

static void on_timer_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

void loop_timer_close(struct loop_timer *timer)
{
    if (timer) {
        uv_close((uv_handle_t *)&timer->uv, on_timer_closed);
    }
}

/* ---- hooks and discards --------------------------------------------------------------------- */

void loop_hook_add(struct loop *loop, struct loop_hook *hook, loop_hook_fn fn, void *user)
{
    hook->fn = fn;
    hook->user = user;
    list_append(&loop->hooks, &hook->link);
}

void loop_hook_remove(struct loop_hook *hook)
{
    list_remove(&hook->link);
}

void loop_discard(struct loop *loop, struct loop_discard *node, void (*fn)(void *), void *thing)
{
    node->fn = fn;
    node->thing = thing;
    list_append(&loop->discards, &node->link);
}
