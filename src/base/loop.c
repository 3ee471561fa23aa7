/* SPDX-License-Identifier: MIT
 *
 * The event loop: turns, and wake-ups by other threads; then descriptors and timers.
 *
 * Invariant: user code runs only inside a turn, and discarded objects are freed only between
 * callbacks of the outermost turn: after the hooks (right before the wait), and after the callbacks
 * of descriptors and wake-ups (right after it).
 *
 * Nested turns share one batch of events: a nested turn first dispatches the rest of the outer
 * turn's batch, and asks the kernel only when that is empty. So no event is lost, and none is
 * dispatched after a nested turn has handled it. Iterations over hooks and wake-ups keep their
 * position with a placeholder on the stack, which iterations of nested turns skip.
 *
 * A wake-up writes to one eventfd per loop. `is_woken` is set by the thread that writes or is about
 * to, so many wake-ups cost one write; the loop clears it before it checks which wake-ups are due.
 * A wake-up from inside a turn of the loop itself needs no write, because the loop is not sleeping.
 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"

/* -------------------------------------------------------------------------------------------------
 * Shared declarations of the event loop: the loop itself, its descriptors and its timers.
 */

/* The running timers, as a pairing heap whose root is the next due timer. */
struct loop_timers {
    struct loop_timer *root; /* NULL: none runs */
    size_t open;             /* allocated by loop_timer_open */
    uint64_t started;        /* number of starts so far */
};

struct loop {
    int epoll;
    int wake_fd;             /* an eventfd that is never read */
    struct loop_poll wake;   /* poll of wake_fd */
    atomic_bool is_woken;    /* a thread has written to it, or is about to */
    atomic_bool is_stopping; /* loop_stop was called */
    bool has_wakeups;        /* one may be due: the loop must not sleep */
    struct list wakeups;     /* all wake-ups, and placeholders (fn NULL) */
    struct list hooks;       /* all hooks, and placeholders */
    struct list discards;
    struct loop_timers timers;
    int clock_fd;           /* a timerfd that is never read; -1: timers are not shown */
    struct loop_poll clock; /* poll of clock_fd */
    uint64_t clock_ms;      /* when it expires; 0: not set */
    unsigned depth;         /* turns on the stack: 1 is the outermost */
    uint64_t now_ms;
    uint64_t woken_ns; /* when the last wait ended; 0: never */
    struct durations turns;
    uint32_t turn;
    size_t poll_count;
    struct epoll_event *batch; /* reported events, including those not yet dispatched */
    int batch_count;
};

/* -------------------------------------------------------------------------------------------------
 * The descriptors of an event loop: one epoll instance, queried once per turn.
 *
 * A poll is in the instance from init to deinit, and the kernel stores its address. Invariant: the
 * undispatched events of the current batch refer only to existing polls. So deinit removes a poll's
 * events from the batch, and a descriptor number or memory that is reused within the turn receives
 * none of the old events.
 *
 * Level-triggered: a descriptor that is still ready is reported again, after the others.
 */

#define EVENTS_PER_TURN 256 /* the others stay ready: the kernel reports them first next time */
#define LOOP_CHANGED 16     /* besides enum loop_event: EPOLLPRI, whose EPOLLERR is not an error */

/* The result of loop_poll_open. */
struct opened_poll {
    struct loop_poll poll;
    struct loop_discard discard;
    int duplicate; /* of a shared descriptor that already had a poll, or -1 */
};

/* The events to request. The kernel always reports EPOLLERR and EPOLLHUP: without interest at most
 * once, without a callback, and then not until the interest changes. */
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
    int wanted = poll->wanted; /* the current value; it may differ from the one requested */
    int events = 0;
    if (wanted & LOOP_CHANGED) {
        events = wanted;
    } else if (happened & EPOLLERR && wanted) {
        (void)loop_poll_set_events(poll,
                                   /* a persistent error must not wake the loop again and again */
                                   0);
        events = LOOP_ERROR;
    } else {
        events |= happened & EPOLLIN ? LOOP_READ : 0;
        events |= happened & EPOLLOUT ? LOOP_WRITE : 0;
        events |= happened & EPOLLRDHUP ? LOOP_HANGUP : 0;
        events &= wanted;
        if (!events && happened & EPOLLHUP) {
            /* all that a pipe without writers reports: the reader will see the end */
            events = wanted;
        }
    }
    if (events) {
        poll->fn(poll, events, poll->user);
    }
}

static void dispatch_batch(struct loop *loop)
{
    while (loop->batch_count > 0) {
        struct epoll_event event = *loop->batch++;
        loop->batch_count--;
        if (event.data.ptr) {
            poll_dispatch(event.data.ptr, event.events);
        }
    }
}

/* Waits for at most `timeout_ms` (-1: unlimited), then runs the callbacks of ready descriptors. */
static void loop_wait(struct loop *loop, int timeout_ms)
{
    struct epoll_event batch[EVENTS_PER_TURN];
    if (loop->batch_count > 0) { /* in a nested turn: the outer turn's remaining events */
        dispatch_batch(loop);
        return;
    }
    if (loop->woken_ns > 0) {
        durations_count(&loop->turns, (clock_monotonic_ns() - loop->woken_ns) / 1000);
    }
    int count = epoll_wait(loop->epoll, batch, EVENTS_PER_TURN, timeout_ms);
    /* on EINTR the turn continues: timers, and another wait */
    assert(count >= 0 || errno == EINTR);
    loop->woken_ns = clock_monotonic_ns();
    loop->now_ms = loop->woken_ns / 1000000;
    loop->batch = batch;
    loop->batch_count = count;
    dispatch_batch(loop);
    loop->batch = NULL;
    loop->batch_count = 0;
}

/* Adds the poll to the instance, for `events` of epoll. The fields are set; returns an errno value.
 */
static int poll_register(struct loop_poll *poll, uint32_t events)
{
    struct epoll_event interest = {.events = events, .data.ptr = poll};
    if (epoll_ctl(poll->loop->epoll, EPOLL_CTL_ADD, poll->fd, &interest) < 0) {
        return errno;
    }
    poll->loop->poll_count++;
    return 0;
}

/* Adds one of the loop's own descriptors (eventfd, timerfd): edge-triggered, each event is reported
 * once and needs no read. Returns an errno value. */
static int loop_poll_init_edge(struct loop_poll *poll, struct loop *loop, int fd, loop_poll_fn fn)
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
    /* Closing is not enough: other processes may have the descriptor open. */
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
        /* One socket for input and output: the kernel keeps one interest per number. */
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

int loop_poll_set_events(struct loop_poll *poll, int events)
{
    events &= LOOP_READ | LOOP_WRITE | LOOP_HANGUP;
    if (events == poll->wanted) {
        return 0;
    }
    if (!poll->loop) {
        return TIDINGS_E_INVALID; /* already closed */
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
    /* Register with the events immediately: a second system call would miss a change since the file
     * was opened. */
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

/* ---------------------------------------------------------------------------------------------- */

/* The loop that runs a turn on this thread. */
static _Thread_local struct loop *current;

/* The node after the placeholder `here`, which moves behind that node; NULL at the end. An unlinked
 * placeholder starts at the first node. Callbacks may remove and add nodes. */
static struct list *step_over(const struct list *head, struct list *here)
{
    struct list *next = list_empty(here) ? head->next : here->next;
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
        /* The counter goes up to 2^64 and is never read, so the write cannot block. */
        ssize_t n = write(loop->wake_fd, &one, sizeof one);
        (void)n;
        errno = errnum;
    }
}

static void run_wakeups(struct loop *loop)
{
    loop->has_wakeups = false;
    /* cleared before the check, so that a later wake-up writes again */
    (void)atomic_exchange(&loop->is_woken, false);
    struct loop_wakeup here = {0}; /* a placeholder that is never due */
    list_init(&here.link);
    struct list *node;
    while ((node = step_over(&loop->wakeups, &here.link))) {
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
    poll->loop->has_wakeups = true; /* wake-ups run after the descriptors */
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

static void free_discards(struct loop *loop)
{
    while (!list_empty(&loop->discards)) {
        struct loop_discard *node = list_entry(loop->discards.next, struct loop_discard, link);
        list_remove(&node->link);
        node->fn(node->thing); /* frees the node as well */
    }
}

void loop_free_discarded(struct loop *loop)
{
    if (loop->depth == 0) {
        free_discards(loop);
    }
}

static void run_hooks(struct loop *loop)
{
    struct loop_hook here = {.fn = NULL};
    list_init(&here.link);
    struct list *node;
    while ((node = step_over(&loop->hooks, &here.link))) {
        struct loop_hook *hook = list_entry(node, struct loop_hook, link);
        if (hook->fn) {
            hook->fn(hook->user);
        }
    }
}

/* Callbacks of outer turns are still on the stack. */
static void end_callbacks(struct loop *loop)
{
    if (loop->depth == 1) {
        free_discards(loop);
    }
}

static void loop_end_turn(struct loop *loop)
{
    run_hooks(loop);
    end_callbacks(loop);
}

static int loop_timers_wait_ms(const struct loop *loop);

static bool loop_run_timers(struct loop *loop);

static bool begin_turn(struct loop *loop)
{
    loop->now_ms = clock_monotonic_ms();
    return loop_run_timers(loop);
}

/* The rest of a turn after the timers; waits for at most `limit_ms` (-1: until the next timer). */
static void finish_turn(struct loop *loop, int limit_ms)
{
    loop_end_turn(loop);
    /* A nested turn can have consumed the event of a stop. */
    bool is_due =
        loop->has_wakeups || atomic_load_explicit(&loop->is_stopping, memory_order_relaxed);
    int wait = limit_ms == 0 || is_due ? 0 : loop_timers_wait_ms(loop);
    loop_wait(loop, limit_ms > 0 && (wait < 0 || limit_ms < wait) ? limit_ms : wait);
    if (loop->has_wakeups) {
        run_wakeups(loop);
    }
    end_callbacks(loop);
    loop->turn++;
}

/* Returns the loop whose turn it interrupts. */
static struct loop *enter(struct loop *loop)
{
    struct loop *outer = current;
    current = loop;
    loop->depth++;
    return outer;
}

static void loop_arm_clock(struct loop *loop);

static void leave(struct loop *loop, struct loop *outer)
{
    loop_end_turn(loop); /* the host may wait long now: do not leave this to the next turn */
    current = outer;
    if (--loop->depth > 0) {
        return; /* the outer turn does the rest */
    }
    loop_arm_clock(loop);
    if (loop->has_wakeups) {
        loop_wake(loop); /* the host checks the descriptor */
    }
}

void loop_run(struct loop *loop)
{
    struct loop *outer = enter(loop);
    do {
        (void)begin_turn(loop);
        finish_turn(loop, -1);
    } while (!atomic_exchange(&loop->is_stopping, false));
    leave(loop, outer);
}

/* Ends a turn run by a host. */
static void leave_turn(struct loop *loop, struct loop *outer)
{
    if (loop->depth == 1) {
        atomic_store(&loop->is_stopping, false);
    }
    leave(loop, outer);
}

void loop_turn(struct loop *loop)
{
    struct loop *outer = enter(loop);
    (void)begin_turn(loop);
    finish_turn(loop, 0);
    leave_turn(loop, outer);
}

void loop_turn_for(struct loop *loop, int timeout_ms)
{
    struct loop *outer = enter(loop);
    bool did_something = begin_turn(loop);
    finish_turn(loop, did_something ? 0 : timeout_ms);
    (void)loop_run_timers(loop);
    leave_turn(loop, outer);
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
    if (loop->clock_fd >= 0) {
        close(loop->clock_fd);
    }
    if (loop->wake_fd >= 0) {
        close(loop->wake_fd);
    }
    if (loop->epoll >= 0) {
        close(loop->epoll);
    }
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
    list_init(&loop->hooks);
    list_init(&loop->discards);
    loop->now_ms = clock_monotonic_ms();
    loop->clock_fd = -1;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = loop->epoll < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int errnum = loop->wake_fd < 0
                     ? errno
                     : loop_poll_init_edge(&loop->wake, loop, loop->wake_fd, loop_on_wake);
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
    loop_poll_deinit(&loop->clock);
    bool is_unused = list_empty(&loop->hooks) && list_empty(&loop->wakeups) && loop->depth == 0 &&
                     loop->timers.open == 0 && !loop->timers.root && loop->poll_count == 0;
    assert(is_unused);
    if (is_unused) { /* otherwise the caller leaked an object that still points here */
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

/* -------------------------------------------------------------------------------------------------
 * The timers of an event loop: a pairing heap of running timers, ordered by due time and then by
 * start order.
 *
 * The heap links are in the timers, so starting one needs no memory. Starting takes constant time;
 * stopping and running take logarithmic time on average.
 */

struct opened_timer {
    struct loop_timer timer;
    struct loop_discard discard;
};

static bool timer_is_before(const struct loop_timer *a, const struct loop_timer *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->start < b->start;
}

/* Merges two heaps; returns the root. */
static struct loop_timer *timer_meld(struct loop_timer *a, struct loop_timer *b)
{
    struct loop_timer *root = timer_is_before(a, b) ? a : b, *child = root == a ? b : a;
    child->next = root->child;
    child->prev = root;
    if (child->next) {
        child->next->prev = child;
    }
    root->child = child;
    return root;
}

/* Merges all siblings from `first` on: first in pairs, then the pairs from last to first. That
 * order bounds the time. NULL if there are none. */
static struct loop_timer *timer_meld_all(struct loop_timer *first)
{
    struct loop_timer *pairs = NULL, *root = NULL;
    while (first) {
        struct loop_timer *a = first, *b = a->next;
        first = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b) {
            b->next = b->prev = NULL;
            a = timer_meld(a, b);
        }
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct loop_timer *pair = pairs;
        pairs = pair->next;
        pair->next = NULL;
        root = root ? timer_meld(root, pair) : pair;
    }
    return root;
}

static void timer_start_at(struct loop_timer *timer, uint64_t due_ms)
{
    struct loop_timers *t = &timer->loop->timers;
    timer->due_ms = due_ms;
    timer->start = t->started++;
    timer->is_running = true;
    t->root = t->root ? timer_meld(t->root, timer) : timer;
}

void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_timer_fn fn, void *user)
{
    *timer = (struct loop_timer){.loop = loop, .fn = fn, .user = user};
}

struct loop_timer *loop_timer_open(struct loop *loop, loop_timer_fn fn, void *user)
{
    struct opened_timer *o = mem_zalloc(sizeof *o);
    if (!o) {
        return NULL;
    }
    loop->timers.open++;
    loop_timer_init(&o->timer, loop, fn, user);
    return &o->timer;
}

void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms)
{
    loop_timer_stop(timer);
    uint64_t now = clock_monotonic_ms(); /* in a long turn, later than the turn's start time */
    if (after_ms == 0 || now < timer->loop->now_ms) {
        now = timer->loop->now_ms;
    }
    timer->repeat_ms = repeat_ms;
    timer_start_at(timer, after_ms > UINT64_MAX - now ? UINT64_MAX : now + after_ms);
    if (timer->loop->depth == 0) {
        loop_arm_clock(timer->loop);
    }
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (!timer->is_running) {
        return;
    }
    struct loop_timers *t = &timer->loop->timers;
    struct loop_timer *rest = timer_meld_all(timer->child);
    if (t->root == timer) {
        t->root = rest;
    } else {
        if (timer->prev->child == timer) {
            timer->prev->child = timer->next;
        } else {
            timer->prev->next = timer->next;
        }
        if (timer->next) {
            timer->next->prev = timer->prev;
        }
        t->root = rest ? timer_meld(t->root, rest) : t->root;
    }
    timer->child = timer->next = timer->prev = NULL;
    timer->is_running = false;
}

bool loop_timer_is_running(const struct loop_timer *timer)
{
    return timer->is_running;
}

void loop_timer_close(struct loop_timer *timer)
{
    if (timer) {
        struct opened_timer *o = list_entry(timer, struct opened_timer, timer);
        loop_timer_stop(timer);
        timer->loop->timers.open--;
        loop_discard(timer->loop, &o->discard, mem_free, o);
    }
}

/* Returns true if a timer ran. */
static bool loop_run_timers(struct loop *loop)
{
    struct loop_timers *t = &loop->timers;
    /* Timers started by callbacks wait for the next turn, so that no timer can starve the others.
     * They sort after all that are due now: due no earlier, and started later. */
    uint64_t started = t->started;
    bool any = false;
    while (t->root && t->root->due_ms <= loop->now_ms && t->root->start < started) {
        struct loop_timer *timer = t->root;
        loop_timer_stop(timer);
        if (timer->repeat_ms > 0) {
            timer_start_at(timer, timer->repeat_ms > UINT64_MAX - loop->now_ms
                                      ? UINT64_MAX
                                      : loop->now_ms + timer->repeat_ms);
        }
        any = true;
        timer->fn(timer, timer->user);
    }
    return any;
}

/* The time until the next timer: 0 if one is due, -1 if none runs. */
static int loop_timers_wait_ms(const struct loop *loop)
{
    if (!loop->timers.root) {
        return -1;
    }
    uint64_t due = loop->timers.root->due_ms, now = clock_monotonic_ms();
    uint64_t wait = due > now ? due - now : 0;
    return wait > INT_MAX ? INT_MAX : (int)wait;
}

/* ---- timers that loop_fd() shows ------------------------------------------------------------- */

static void loop_on_clock(struct loop_poll *poll, int events, void *user)
{
    (void)events;
    (void)user;
    poll->loop->clock_ms = 0;
}

/* The descriptor must become readable when the first timer is due. If that timer is stopped, the
 * clock expires without effect: cheaper than resetting it each time. */
static void loop_arm_clock(struct loop *loop)
{
    const struct loop_timer *first = loop->timers.root;
    if (loop->clock_fd < 0 || !first || (loop->clock_ms > 0 && loop->clock_ms <= first->due_ms)) {
        return;
    }
    uint64_t now = clock_monotonic_ms(), ms = first->due_ms > now ? first->due_ms - now : 0;
    struct itimerspec after = {.it_value = {.tv_sec = (time_t)(ms / 1000),
                                            .tv_nsec = (long)(ms % 1000) * 1000000 + (ms == 0)}};
    if (timerfd_settime(loop->clock_fd, 0, &after, NULL) == 0) {
        loop->clock_ms = first->due_ms;
    }
}

int loop_show_timers(struct loop *loop, struct tidings_error *err)
{
    if (loop->clock_fd >= 0) {
        return 0;
    }
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int errnum = fd < 0 ? errno : loop_poll_init_edge(&loop->clock, loop, fd, loop_on_clock);
    if (errnum) {
        loop->clock = (struct loop_poll){0};
        if (fd >= 0) {
            close(fd);
        }
        return error_errno(err, errnum, "show timers of an event loop");
    }
    loop->clock_fd = fd;
    if (loop->depth == 0) {
        loop_arm_clock(loop);
    }
    return 0;
}
