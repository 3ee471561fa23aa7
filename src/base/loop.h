/* SPDX-License-Identifier: MIT
 *
 * One thread's event loop: descriptors, timers, wake-ups by other threads, and the end of a turn.
 *
 * A *turn* is: run due timers, run turn-end hooks, wait for descriptors, run their callbacks and
 * those of wake-ups, free what was discarded. Turn-end hooks run right before the loop would block;
 * they flush the output of the turn. Nothing reachable from a callback is freed inside the turn:
 * loop_discard() queues it and frees it once no callback is on the stack.
 *
 * Turns nest: a callback may run turns of its own loop (loop_turn, loop_turn_for). A nested turn
 * runs everything that any turn runs: timers, hooks, the events that the outer turn has not
 * dispatched yet, wake-ups. It can enter the same callback again if its descriptor is still ready.
 * Invariant: objects discarded in a nested turn are freed only when no callback of the outermost
 * turn is on the stack, so that callbacks of all turns can rely on the objects they use. After a
 * nested turn closes a poll or a timer, outer turns do not call it. A nested turn leaves loop_stop
 * to the outermost one.
 *
 * All functions must be called on the loop's own thread (before the thread runs it, on the
 * creator's), except loop_stop() and loop_wakeup_send().
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdatomic.h>

#include <tidings/types.h>

#include "base/list.h"

struct loop;

struct loop *loop_create(struct tidings_error *err);
/* All timers, polls, wake-ups and hooks must be gone already; frees discarded objects. */
void loop_destroy(struct loop *loop);

void loop_run(struct loop *loop);  /* until loop_stop */
void loop_stop(struct loop *loop); /* any thread, also in signal handlers */
/* For host loops: a descriptor that is readable when the loop has work, the time until the next
 * timer (-1: none), and one non-blocking turn, which clears a loop_stop. */
int loop_fd(struct loop *loop);
int loop_timeout_ms(struct loop *loop);
void loop_turn(struct loop *loop);
/* The same, but waits for at most `timeout_ms` (-1: no limit) for an event, unless timers were due;
 * a timer that becomes due during the wait runs as well. */
void loop_turn_for(struct loop *loop, int timeout_ms);
/* Makes loop_fd() also readable when a timer is due, for hosts that poll nothing else. Costs a
 * descriptor, and a system call after turns that changed the next timer. Safe to call twice. */
int loop_show_timers(struct loop *loop, struct tidings_error *err);
/* The durations of its turns, from the end of one wait to the next wait. Call it on its own thread.
 */
const struct durations *loop_turns(const struct loop *loop);
uint32_t loop_turn_number(const struct loop *loop); /* different in each turn */
uint64_t loop_now_ms(struct loop *loop);            /* monotonic, cached at the start of the turn */

/* ---- descriptors: level-triggered readiness; the loop never reads, writes or closes them ---- */

enum loop_event {
    LOOP_READ = 1,
    LOOP_WRITE = 2,
    LOOP_HANGUP = 4, /* the peer closed its writing side (EPOLLRDHUP) */
    LOOP_ERROR = 8,
};

struct loop_poll;
typedef void (*loop_poll_fn)(struct loop_poll *poll, int events, void *user);

/* A poll: one descriptor and its callback. The fields are private to the loop; all zero: not
 * initialised. */
struct loop_poll {
    struct loop *loop;
    loop_poll_fn fn;
    void *user;
    int fd;
    int wanted; /* enum loop_event */
};

/* Initialises a poll in the caller's memory, which must not move. Sets O_NONBLOCK on `fd`, which
 * must not have another poll in this loop. Starts with no interest. Fails for descriptors without
 * readiness (a regular file: UNSUPPORTED); the poll is then all zero. */
int loop_poll_init(struct loop_poll *poll, struct loop *loop, int fd, loop_poll_fn fn, void *user,
                   struct tidings_error *err);
/* No callback after this, not even for past events. Close `fd` afterwards, never before. If a
 * callback may still have the poll on its stack, free the memory with loop_discard(); the loop
 * itself no longer uses it. NULL, uninitialised, and a second call are fine. */
void loop_poll_deinit(struct loop_poll *poll);

/* The same on the heap; NULL on failure. */
struct loop_poll *loop_poll_open(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                 struct tidings_error *err);
/* The same for a descriptor shared with other processes (standard input): its flags stay as they
 * are, so reading and writing it may block. Two polls may watch the same one. */
struct loop_poll *loop_poll_open_shared(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                        struct tidings_error *err);
/* 0: none. LOOP_ERROR is always reported; it comes alone, and then the interest is cleared. One
 * system call if the interest changes, otherwise none. */
int loop_poll_set_events(struct loop_poll *poll, int events);
/* For polls from loop_poll_open. No callback after this; frees itself at the end of the turn. Close
 * `fd` afterwards. NULL is fine. */
void loop_poll_close(struct loop_poll *poll);

/* ---- files that report a change by POLLPRI --------------------------------------------------- */

struct loop_change_poll;
typedef void (*loop_change_fn)(void *user);

/* Polls a file of /proc (mountinfo) that reports each change as POLLPRI together with POLLERR, only
 * to the first poller: if a host polls loop_fd() as well, some changes can be missed. NULL on
 * failure. */
struct loop_change_poll *loop_change_poll_open(struct loop *loop, int fd, loop_change_fn fn,
                                               void *user);
void loop_change_poll_close(struct loop_change_poll *watch); /* then close `fd`; NULL is fine */

/* ---- timers --------------------------------------------------------------------------------- */

struct loop_timer;
typedef void (*loop_timer_fn)(struct loop_timer *timer, void *user);

/* The fields are private to the loop. */
struct loop_timer {
    struct loop *loop;
    loop_timer_fn fn;
    void *user;
    uint64_t due_ms;
    uint64_t start; /* sequence number of its start */
    uint64_t repeat_ms;
    struct loop_timer *child, *next; /* in the heap: the first child, and a sibling */
    struct loop_timer *prev;         /* the previous sibling; for the first: the parent */
    bool is_running;
};

/* Initialises a timer in the caller's memory, which must not move, nor be freed before the timer is
 * stopped. */
void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_timer_fn fn, void *user);
/* The same on the heap; NULL: out of memory. */
struct loop_timer *loop_timer_open(struct loop *loop, loop_timer_fn fn, void *user);
/* Counts from now, not from the start of the turn. Timers with the same due time run in the order
 * of their starts; one started in a timer's callback runs no earlier than the next turn. Restarts a
 * running timer. repeat_ms 0: once. Allocates nothing. */
void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_running(const struct loop_timer *timer);
/* For timers from loop_timer_open. NULL is fine. */
void loop_timer_close(struct loop_timer *timer);

/* ---- end of a turn -------------------------------------------------------------------------- */

typedef void (*loop_hook_fn)(void *user);
struct loop_hook {
    struct list link;
    loop_hook_fn fn;
    void *user;
};
/* Hooks run at the end of every turn, in the order in which they were added. The caller owns the
 * memory. */
void loop_hook_add(struct loop *loop, struct loop_hook *hook, loop_hook_fn fn, void *user);
void loop_hook_remove(struct loop_hook *hook);

/* Calls fn(thing) at the end of the outermost turn, after every callback has returned; `node` is
 * part of it. */
struct loop_discard {
    struct list link;
    void (*fn)(void *thing);
    void *thing;
};
void loop_discard(struct loop *loop, struct loop_discard *node, void (*fn)(void *), void *thing);
/* Frees discarded objects now, outside of turns (inside, it does nothing). No other callback runs:
 * due timers and wake-ups stay due. */
void loop_free_discarded(struct loop *loop);

/* ---- wake-ups ------------------------------------------------------------------------------- */

struct loop_wakeup;
typedef void (*loop_wakeup_fn)(void *user);

/* A wake-up: calls fn(user) on the loop's thread after another thread sent it; several sends before
 * the call cause one call. The fields are private to the loop. */
struct loop_wakeup {
    struct list link;
    struct loop *loop;
    loop_wakeup_fn fn;
    void *user;
    atomic_bool is_due;
};

/* Initialises a wake-up in the caller's memory, which must not move. */
void loop_wakeup_init(struct loop_wakeup *wakeup, struct loop *loop, loop_wakeup_fn fn, void *user);
/* No callback after this. No thread may call loop_wakeup_send any longer. */
void loop_wakeup_deinit(struct loop_wakeup *wakeup);
/* Any thread. A system call if the loop may be asleep; none on its own thread while it runs. */
void loop_wakeup_send(struct loop_wakeup *wakeup);

#endif
