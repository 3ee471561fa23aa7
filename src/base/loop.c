/* SPDX-License-Identifier: MIT
 *
 * The event loop on libuv.
 *
 * Invariant: user code runs only inside a libuv callback of ours, and discarded things are freed
 * only between such callbacks: by the prepare handle (right before libuv waits), after all hooks
 * have returned, and by the check handle (right after the descriptors' callbacks). Polls and timers
 * are freed by their close callbacks, which libuv runs last in a turn.
 *
 * The prepare handle also keeps libuv's loop alive, so that it runs until it is stopped.
 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <uv.h>

#include "base/error.h"
#include "base/mem.h"

#define MAX_CLOSE_TURNS 1000

struct loop {
    uv_loop_t uv;
    uv_prepare_t before_wait;
    uv_check_t after_wait;
    uv_async_t stop;
    struct list hooks;
    struct list hook_here; /* among the hooks while they run: those before it have run */
    struct list discards;
};

struct loop_poll {
    uv_poll_t uv;
    loop_poll_fn fn;
    void *user;
    int wanted; /* enum loop_event */
    int fd;     /* the shared descriptor; only when there is a nested instance */
    int nested; /* epoll instance that watches fd, or -1 */
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
    run_discards(handle->data);
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
    /* A discard may close a poll and a close may discard: until both are done. The bound is for
     * release builds in which a caller forgot a handle. */
    int turns = 0;
    do {
        run_discards(loop);
        (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
    } while ((uv_loop_alive(&loop->uv) || !list_empty(&loop->discards)) &&
             ++turns < MAX_CLOSE_TURNS);
    int rc = uv_loop_close(&loop->uv);
    assert(rc == 0);
    if (rc == 0) {
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

uint64_t loop_now_ms(struct loop *loop)
{
    return uv_now(&loop->uv);
}

struct uv_loop_s *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

/* What the nested instance says, in our words; 0 when the readiness is gone again. */
static int nested_events(const struct loop_poll *poll)
{
    struct epoll_event event = {0};
    if (epoll_wait(poll->nested, &event, 1, 0) != 1) {
        return 0;
    }
    int events = 0;
    events |= event.events & EPOLLIN ? LOOP_READ : 0;
    events |= event.events & EPOLLOUT ? LOOP_WRITE : 0;
    events |= event.events & EPOLLRDHUP ? LOOP_HANGUP : 0;
    events |= event.events & EPOLLERR ? LOOP_ERROR : 0;
    if (event.events & EPOLLHUP) {
        /* A pipe without writers says only this: let the reader find the end of file. */
        events |= LOOP_READ | LOOP_WRITE | LOOP_HANGUP;
    }
    return events & (poll->wanted | LOOP_ERROR);
}

static void on_poll(uv_poll_t *handle, int status, int uv_events)
{
    struct loop_poll *poll = handle->data;
    int events = 0;
    if (status < 0) {
        poll->wanted = 0; /* libuv has stopped watching it */
        events = LOOP_ERROR;
    } else if (poll->nested >= 0) {
        events = nested_events(poll);
    } else {
        events |= uv_events & UV_READABLE ? LOOP_READ : 0;
        events |= uv_events & UV_WRITABLE ? LOOP_WRITE : 0;
        events |= uv_events & UV_DISCONNECT ? LOOP_HANGUP : 0;
    }
    if (events & LOOP_ERROR && poll->wanted) {
        /* The same for nested ones: an error that stays must not wake the loop for ever. */
        (void)loop_poll_want(poll, 0);
    }
    if (events) {
        poll->fn(poll, events, poll->user);
    }
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

static struct loop_poll *poll_create(loop_poll_fn fn, void *user, struct tidings_error *err)
{
    struct loop_poll *poll = mem_zalloc(sizeof *poll);
    if (!poll) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "watch descriptor: out of memory");
        return NULL;
    }
    poll->fn = fn;
    poll->user = user;
    poll->fd = -1;
    poll->nested = -1;
    return poll;
}

struct loop_poll *loop_poll_open(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                 struct tidings_error *err)
{
    struct loop_poll *poll = poll_create(fn, user, err);
    if (!poll) {
        return NULL;
    }
    int rc = uv_poll_init(&loop->uv, &poll->uv, fd);
    if (rc < 0) {
        (void)poll_fail(-rc, fd, err);
        mem_free(poll);
        return NULL;
    }
    poll->uv.data = poll;
    return poll;
}

struct loop_poll *loop_poll_open_shared(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                        struct tidings_error *err)
{
    struct loop_poll *poll = poll_create(fn, user, err);
    if (!poll) {
        return NULL;
    }
    int errnum;
    struct epoll_event none = {0};
    poll->fd = fd;
    poll->nested = epoll_create1(EPOLL_CLOEXEC);
    if (poll->nested < 0) {
        errnum = errno;
        goto fail_memory;
    }
    if (epoll_ctl(poll->nested, EPOLL_CTL_ADD, fd, &none) < 0) {
        errnum = errno;
        goto fail_nested;
    }
    errnum = -uv_poll_init(&loop->uv, &poll->uv, poll->nested);
    if (errnum > 0) {
        goto fail_nested;
    }
    poll->uv.data = poll;
    return poll;

fail_nested:
    close(poll->nested);
fail_memory:
    (void)poll_fail(errnum, fd, err);
    mem_free(poll);
    return NULL;
}

static int want_nested(struct loop_poll *poll, int events)
{
    struct epoll_event interest = {0};
    interest.events |= events & LOOP_READ ? (uint32_t)EPOLLIN : 0;
    interest.events |= events & LOOP_WRITE ? (uint32_t)EPOLLOUT : 0;
    interest.events |= events & LOOP_HANGUP ? (uint32_t)EPOLLRDHUP : 0;
    if (epoll_ctl(poll->nested, EPOLL_CTL_MOD, poll->fd, &interest) < 0) {
        return error_code_from_errno(errno);
    }
    return 0;
}

int loop_poll_want(struct loop_poll *poll, int events)
{
    events &= LOOP_READ | LOOP_WRITE | LOOP_HANGUP;
    if (events == poll->wanted) {
        return 0;
    }
    int uv_events = 0;
    if (poll->nested >= 0) {
        int rc = want_nested(poll, events);
        if (rc < 0) {
            return rc;
        }
        uv_events = UV_READABLE;
    } else {
        uv_events |= events & LOOP_READ ? UV_READABLE : 0;
        uv_events |= events & LOOP_WRITE ? UV_WRITABLE : 0;
        uv_events |= events & LOOP_HANGUP ? UV_DISCONNECT : 0;
    }
    int rc = events ? uv_poll_start(&poll->uv, uv_events, on_poll) : uv_poll_stop(&poll->uv);
    if (rc < 0) {
        return error_code_from_errno(-rc);
    }
    poll->wanted = events;
    return 0;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct loop_poll *poll = handle->data;
    if (poll->nested >= 0) {
        close(poll->nested);
    }
    mem_free(poll);
}

void loop_poll_close(struct loop_poll *poll)
{
    if (poll) {
        uv_close((uv_handle_t *)&poll->uv, on_poll_closed);
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
