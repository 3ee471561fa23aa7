/* SPDX-License-Identifier: MIT
 *
 * The event loop: what happens in a turn, how it ends, and how other threads wake it. Descriptors
 * are in loop_poll.c, timers in loop_timer.c.
 *
 * Invariant: user code runs only inside a turn, and discarded things are freed only between
 * callbacks: after the hooks (right before the wait), and after the callbacks of descriptors and
 * wake-ups (right after it).
 *
 * Waking writes to one eventfd per loop. `is_woken` says that somebody has written, or will, so
 * that many wake-ups cost one write; the loop takes it back before it looks which are due. A loop
 * that is told by itself, from inside a turn, needs no write: it does not sleep then.
 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop_private.h"
#include "base/mem.h"

/* The loop whose turn this thread is in. */
static _Thread_local struct loop *current;

/* The node after the place holder `here`, which is moved behind it; NULL at the end. What a
 * callback removes and adds meanwhile does not matter to it. */
static struct list *step_over(const struct list *head, struct list *here)
{
    struct list *next = here->next;
    list_remove(here);
    if (next == head) {
        return NULL;
    }
    list_insert_between(here, next, next->next);
    return next;
}

/* ---- wake-ups ------------------------------------------------------------------------------- */

/* Async-signal-safe. */
static void loop_wake(struct loop *loop)
{
    if (!atomic_exchange(&loop->is_woken, true)) {
        int errnum = errno;
        uint64_t one = 1;
        /* It counts to 2^64 and nobody reads it: there is always room. */
        ssize_t n = write(loop->wake_fd, &one, sizeof one);
        (void)n;
        errno = errnum;
    }
}

static void run_wakeups(struct loop *loop)
{
    loop->has_wakeups = false;
    (void)atomic_exchange(&loop->is_woken, false); /* before the look: who is later writes again */
    list_prepend(&loop->wakeups, &loop->wakeup_here);
    struct list *node;
    while ((node = step_over(&loop->wakeups, &loop->wakeup_here))) {
        struct loop_wakeup *wakeup = list_entry(node, struct loop_wakeup, link);
        if (atomic_load_explicit(&wakeup->is_due, memory_order_relaxed) &&
            atomic_exchange(&wakeup->is_due, false)) {
            wakeup->fn(wakeup->user);
        }
    }
}

static void loop_on_wake(struct loop_poll *poll, int events, void *user)
{
    (void)events;
    (void)user;
    poll->loop->has_wakeups = true; /* they are called behind the descriptors */
}

void loop_wakeup_init(struct loop_wakeup *wakeup, struct loop *loop, loop_wakeup_fn fn, void *user)
{
    *wakeup = (struct loop_wakeup){.loop = loop, .fn = fn, .user = user};
    atomic_init(&wakeup->is_due, false);
    list_append(&loop->wakeups, &wakeup->link);
}

void loop_wakeup_deinit(struct loop_wakeup *wakeup)
{
    list_remove(&wakeup->link);
}

void loop_wakeup_send(struct loop_wakeup *wakeup)
{
    struct loop *loop = wakeup->loop;
    if (current == loop) {
        atomic_store_explicit(&wakeup->is_due, true, memory_order_relaxed);
        loop->has_wakeups = true;
    } else if (!atomic_exchange(&wakeup->is_due, true)) {
        loop_wake(loop);
    }
}

/* ---- the turn ------------------------------------------------------------------------------- */

void loop_free_discarded(struct loop *loop)
{
    while (!list_empty(&loop->discards)) {
        struct loop_discard *node = list_entry(loop->discards.next, struct loop_discard, link);
        list_remove(&node->link);
        node->fn(node->thing); /* frees the node as well */
    }
}

static void run_hooks(struct loop *loop)
{
    list_prepend(&loop->hooks, &loop->hook_here);
    struct list *node;
    while ((node = step_over(&loop->hooks, &loop->hook_here))) {
        struct loop_hook *hook = list_entry(node, struct loop_hook, link);
        hook->fn(hook->user);
    }
}

static void loop_end_turn(struct loop *loop)
{
    run_hooks(loop);
    loop_free_discarded(loop);
}

static void run_turn(struct loop *loop, bool may_wait)
{
    loop->now_ms = clock_monotonic_ms();
    loop_run_timers(loop);
    loop_end_turn(loop);
    loop_wait(loop, may_wait && !loop->has_wakeups ? loop_timers_wait_ms(loop) : 0);
    if (loop->has_wakeups) {
        run_wakeups(loop);
    }
    loop_free_discarded(loop);
    loop->turn++;
}

void loop_run(struct loop *loop)
{
    struct loop *outer = current;
    current = loop;
    do {
        run_turn(loop, true);
    } while (!atomic_exchange(&loop->is_stopping, false));
    loop_end_turn(loop); /* what the last callbacks put together still goes out */
    current = outer;
}

void loop_turn(struct loop *loop)
{
    struct loop *outer = current;
    current = loop;
    run_turn(loop, false);
    atomic_store(&loop->is_stopping, false);
    loop_end_turn(loop); /* the host may wait for long now: not on the next turn's */
    current = outer;
    if (loop->has_wakeups) {
        loop_wake(loop); /* the host looks at the descriptor */
    }
}

void loop_stop(struct loop *loop)
{
    atomic_store(&loop->is_stopping, true);
    loop_wake(loop);
}

int loop_fd(struct loop *loop)
{
    return loop->epoll;
}

int loop_timeout_ms(struct loop *loop)
{
    return loop->has_wakeups ? 0 : loop_timers_wait_ms(loop);
}

const struct durations *loop_turns(const struct loop *loop)
{
    return &loop->turns;
}

uint32_t loop_turn_number(const struct loop *loop)
{
    return loop->turn;
}

uint64_t loop_now_ms(struct loop *loop)
{
    return loop->now_ms;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void loop_free(struct loop *loop)
{
    if (loop->wake_fd >= 0) {
        close(loop->wake_fd);
    }
    if (loop->epoll >= 0) {
        close(loop->epoll);
    }
    mem_free(loop->timers.heap);
    mem_free(loop);
}

struct loop *loop_create(struct tidings_error *err)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    if (!loop) {
        (void)tidings_fail(err, TIDINGS_E_NOMEM, "create event loop: out of memory");
        return NULL;
    }
    list_init(&loop->wakeups);
    list_init(&loop->wakeup_here);
    list_init(&loop->hooks);
    list_init(&loop->hook_here);
    list_init(&loop->discards);
    loop->now_ms = clock_monotonic_ms();
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = loop->epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int errnum = loop->wake_fd < 0
                     ? errno
                     : loop_poll_init_wake(&loop->wake, loop, loop->wake_fd, loop_on_wake);
    if (errnum) {
        (void)error_errno(err, errnum, "create event loop");
        loop_free(loop);
        return NULL;
    }
    return loop;
}

void loop_destroy(struct loop *loop)
{
    if (!loop) {
        return;
    }
    loop_free_discarded(loop);
    loop_poll_deinit(&loop->wake);
    bool is_unused = list_empty(&loop->hooks) && list_empty(&loop->wakeups) &&
                     loop->timers.open == 0 && loop->poll_count == 0;
    assert(is_unused);
    if (is_unused) { /* else somebody forgot something, which still points here */
        loop_free(loop);
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
