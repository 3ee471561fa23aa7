/* SPDX-License-Identifier: MIT
 *
 * The only road between threads: an inbox of messages, delivered on the owner's loop in the order
 * they were sent (FIFO per mailbox, whoever sends). What crosses is owned by the message or is
 * immutable and reference-counted.
 *
 * A message embeds struct thread_message and carries its own `deliver` function, so there is no
 * central enum of message kinds. `deliver` owns the message from then on (usually frees it).
 * Messages still inside when the mailbox closes are handed to `drop` instead. Messages sent while
 * others are delivered wait for the next turn. Whoever may send after the owner closed it holds a
 * reference.
 *
 * Sending takes no lock (but for blocking mailboxes a short one) and never fails: a few atomic
 * operations, and a system call when the owner may be asleep. The number of messages is bounded by
 * what the senders own: each request or connection has at most a few under way, and the hub counts
 * changes.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include <tidings/types.h>

#include "base/list.h"
#include "base/loop.h"

/* No more messages of one mailbox are delivered in one turn of a loop: the others want theirs. */
#define MAILBOX_PER_TURN 1024u

struct mailbox;
struct thread_message {
    struct list link;
    void (*deliver)(struct thread_message *message, void *owner);
    void (*drop)(struct thread_message *message); /* frees it undelivered; required */
};

/* Delivers on `loop`, with `owner` passed to every message. */
struct mailbox *mailbox_create(struct loop *loop, void *owner, struct tidings_error *err);
/* Without a loop, for a thread that blocks in mailbox_wait. */
struct mailbox *mailbox_create_blocking(void *owner, struct tidings_error *err);
/* On the owner's thread, also from inside a `deliver`; once. Messages inside are dropped; later
 * sends too (their `drop` is called by the sender). Returns when no sender is inside. The memory
 * lives until the last reference goes: the creator has one and gives it up with mailbox_unref. NULL
 * is fine. */
void mailbox_close(struct mailbox *m);
struct mailbox *mailbox_ref(struct mailbox *m);
void mailbox_unref(struct mailbox *m); /* any thread; NULL is fine */

void mailbox_send(struct mailbox *m, struct thread_message *message); /* any thread */
/* Deliver what is inside now, without waiting (on the owner's thread). Returns the count. */
size_t mailbox_drain(struct mailbox *m);
/* Blocking mailboxes: wait for one message and deliver it; false once closed. Several threads may
 * wait on one mailbox; each message goes to one of them. timeout_ms < 0: for ever; true with
 * nothing delivered after a timeout. */
bool mailbox_wait(struct mailbox *m, int timeout_ms);
bool mailbox_is_empty(struct mailbox *m); /* on the owner's thread */

/* -------------------------------------------------------------------------------------------------
 * A thread with a loop and a mailbox. What lives there is touched on that thread alone; everybody
 * else sends messages. All signals are blocked on it: they are the program's.
 *
 *     actor_init(&a, owner)   loop and mailbox exist; open timers and polls now
 *     actor_start(&a, name)   the thread runs
 *     actor_stop(&a)          it does not any more; close timers and polls now
 *     actor_deinit(&a)        messages left are dropped, mailbox and loop go
 */

struct actor {
    struct loop *loop;
    struct mailbox *mailbox;
    pthread_t thread;
    const char *name;
    bool running;
};

/* `owner` is what messages are delivered to. After a failure actor_deinit is fine and not needed.
 */
int actor_init(struct actor *a, void *owner, struct tidings_error *err);
/* `name` as tools show it: at most 15 bytes, borrowed for as long as the thread runs. */
int actor_start(struct actor *a, const char *name, struct tidings_error *err);
/* Messages sent before this are delivered first. Not running: fine. */
void actor_stop(struct actor *a);
/* All zero, or stopped: fine. */
void actor_deinit(struct actor *a);

/* -------------------------------------------------------------------------------------------------
 * A few threads for work that may block (large files, blocking providers). Threads start with the
 * first job and stay until pool_destroy. A job runs once on some pool thread; it reports back
 * through a mailbox of its owner. Jobs wait in line, at most `max_waiting` of them.
 */

struct pool;
struct pool *pool_create(unsigned threads, size_t max_waiting, struct tidings_error *err);
/* Runs what is waiting, joins the threads. No other thread may be in pool_submit any more, except
 * the pool's own jobs. NULL is fine. */
void pool_destroy(struct pool *p);
/* Any thread. The job runs with all signals blocked. TIDINGS_E_BUSY when the line is full,
 * TIDINGS_E_CLOSED while destroying, TIDINGS_E_NOMEM. */
int pool_submit(struct pool *p, void (*run)(void *job), void *job);

#endif
