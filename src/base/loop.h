/* SPDX-License-Identifier: MIT
 *
 * One thread's event loop: descriptors, timers, wake-ups by other threads, and the end of a turn.
 *
 * A *turn* is: run due timers, run turn-end hooks, wait for descriptors, run their callbacks and
 * those of wake-ups, free what was discarded. Turn-end hooks run right before the loop would block;
 * that is where output gathered during the turn is flushed. Nothing reachable from a callback is
 * freed inside the turn: loop_discard() queues it and frees it once no callback is on the stack.
 *
 * Turns nest: a callback may take turns of its own loop (loop_turn, loop_turn_for). A nested turn
 * runs everything that any turn runs: timers, hooks, the events that the turn around it has not
 * dispatched yet, wake-ups. It may enter the same callback again, whose descriptor is still ready.
 * Invariant: what is discarded in a nested turn is freed only after the outermost turn has no
 * callback on the stack, so that what a callback of any turn holds stays in memory. A poll or a
 * timer that a nested turn closes is not called any more by the turns around it. A nested turn
 * leaves loop_stop to the outermost one.
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
/* All timers, polls, wake-ups and hooks must be gone already; runs what was discarded. */
void loop_destroy(struct loop *loop);

void loop_run(struct loop *loop);  /* until loop_stop */
void loop_stop(struct loop *loop); /* any thread, also from a signal handler */
/* For host loops: a descriptor that is readable when there is something to do, how long until the
 * next timer (-1: none), and one non-blocking turn, which forgets a loop_stop. */
int loop_fd(struct loop *loop);
int loop_timeout_ms(struct loop *loop);
void loop_turn(struct loop *loop);
/* The same, but it waits for at most `timeout_ms` (-1: no limit) for something to happen, unless
 * timers were due; a timer that becomes due within the wait runs as well. */
void loop_turn_for(struct loop *loop, int timeout_ms);
/* Makes loop_fd() readable also when a timer is due, for hosts that wait for nothing else. Costs a
 * descriptor, and a system call after turns that changed which timer is next. Twice is fine. */
int loop_show_timers(struct loop *loop, struct tidings_error *err);
/* How long its turns took, from the end of a wait to the next. Its own thread. */
const struct durations *loop_turns(const struct loop *loop);
uint32_t loop_turn_number(const struct loop *loop); /* another in each turn */
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

/* One watched descriptor. The fields are the loop's own; all zero: not initialised. */
struct loop_poll {
    struct loop *loop;
    loop_poll_fn fn;
    void *user;
    int fd;
    int wanted; /* enum loop_event */
};

/* In the caller's memory, which must not move. Sets O_NONBLOCK on `fd`, which no other poll of the
 * loop may watch. Starts with no interest. Fails for what has no readiness (a regular file:
 * UNSUPPORTED); the poll is all zero then. */
int loop_poll_init(struct loop_poll *poll, struct loop *loop, int fd, loop_poll_fn fn, void *user,
                   struct tidings_error *err);
/* No callback after this, also not for what has happened already. Close `fd` afterwards, never
 * before. Whoever may still hold the poll on its stack frees the memory with loop_discard(); the
 * loop itself is done with it. NULL, not initialised, and twice are fine. */
void loop_poll_deinit(struct loop_poll *poll);

/* The same on the heap; NULL on failure. */
struct loop_poll *loop_poll_open(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                 struct tidings_error *err);
/* The same for a descriptor shared with other processes (standard input): its flags stay as they
 * are, so reading and writing it may block. Two polls may watch the same one. */
struct loop_poll *loop_poll_open_shared(struct loop *loop, int fd, loop_poll_fn fn, void *user,
                                        struct tidings_error *err);
/* 0: none. LOOP_ERROR needs no asking; it comes alone, and once it was reported, there is no
 * interest any more. One system call when the interest changes, none when it does not. */
int loop_poll_set_events(struct loop_poll *poll, int events);
/* For opened ones. No callback after this; frees itself at the end of the turn. Close `fd`
 * afterwards. NULL is fine. */
void loop_poll_close(struct loop_poll *poll);

/* ---- files that report a change by POLLPRI --------------------------------------------------- */

struct loop_change_poll;
typedef void (*loop_change_fn)(void *user);

/* Watch a file of /proc (mountinfo) that reports each change as POLLPRI together with POLLERR, to
 * the first who polls it: where a host polls loop_fd() as well, some may be missed. NULL on
 * failure. */
struct loop_change_poll *loop_change_poll_open(struct loop *loop, int fd, loop_change_fn fn,
                                               void *user);
void loop_change_poll_close(struct loop_change_poll *watch); /* then close `fd`; NULL is fine */

/* ---- timers --------------------------------------------------------------------------------- */

struct loop_timer;
typedef void (*loop_timer_fn)(struct loop_timer *timer, void *user);

/* The fields are the loop's own. */
struct loop_timer {
    struct loop *loop;
    loop_timer_fn fn;
    void *user;
    uint64_t due_ms;
    uint64_t start; /* which start of the loop's timers it was */
    uint64_t repeat_ms;
    struct loop_timer *child, *next; /* in the heap of those that run: the first below, a sibling */
    struct loop_timer *prev;         /* the sibling before it; of the first: the parent */
    bool is_running;
};

/* In the caller's memory, which must not move, nor go before the timer is stopped. */
void loop_timer_init(struct loop_timer *timer, struct loop *loop, loop_timer_fn fn, void *user);
/* The same on the heap; NULL: out of memory. */
struct loop_timer *loop_timer_open(struct loop *loop, loop_timer_fn fn, void *user);
/* Counted from now, not from the start of the turn. Those due at the same time run in the order
 * they were started; one started by a timer's callback not before the next turn. Restarts when
 * running. repeat_ms 0: once. Needs no memory. */
void loop_timer_start(struct loop_timer *timer, uint64_t after_ms, uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *timer);
bool loop_timer_is_running(const struct loop_timer *timer);
/* For opened ones. NULL is fine. */
void loop_timer_close(struct loop_timer *timer);

/* ---- end of a turn -------------------------------------------------------------------------- */

typedef void (*loop_hook_fn)(void *user);
struct loop_hook {
    struct list link;
    loop_hook_fn fn;
    void *user;
};
/* Hooks run in the order they were added, at the end of every turn. The caller owns the memory. */
void loop_hook_add(struct loop *loop, struct loop_hook *hook, loop_hook_fn fn, void *user);
void loop_hook_remove(struct loop_hook *hook);

/* Call fn(thing) at the end of the outermost turn, after every callback has returned; `node` lies
 * in it. */
struct loop_discard {
    struct list link;
    void (*fn)(void *thing);
    void *thing;
};
void loop_discard(struct loop *loop, struct loop_discard *node, void (*fn)(void *), void *thing);
/* Call them now, outside of turns (inside, nothing happens). No other callback runs: due timers and
 * wake-ups stay due. */
void loop_free_discarded(struct loop *loop);

/* ---- wake-ups ------------------------------------------------------------------------------- */

struct loop_wakeup;
typedef void (*loop_wakeup_fn)(void *user);

/* Calls fn(user) on the loop's thread after somebody asked for it: once for any number of times it
 * was asked meanwhile. The fields are the loop's own. */
struct loop_wakeup {
    struct list link;
    struct loop *loop;
    loop_wakeup_fn fn;
    void *user;
    atomic_bool is_due;
};

/* In the caller's memory, which must not move. */
void loop_wakeup_init(struct loop_wakeup *wakeup, struct loop *loop, loop_wakeup_fn fn, void *user);
/* No callback after this, and nobody may be sending any more. */
void loop_wakeup_deinit(struct loop_wakeup *wakeup);
/* Any thread. A system call when the loop may be asleep; none on its own thread while it runs. */
void loop_wakeup_send(struct loop_wakeup *wakeup);

#endif
