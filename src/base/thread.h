/* SPDX-License-Identifier: MIT
 *
 * Mailboxes: the only way between threads. A mailbox is an inbox of messages, delivered on the
 * owner's loop in the order they were sent (FIFO per mailbox, over all senders). Data in a message
 * is owned by it, or immutable and reference counted.
 *
 * A thread message embeds struct thread_message and has its own `deliver` function, so there is no
 * central enum of message kinds. `deliver` takes ownership of the message (usually frees it).
 * Messages that remain when the mailbox closes are passed to `drop` instead. Messages sent while
 * others are delivered wait for the next turn. A thread that may send after the owner closed the
 * mailbox must hold a reference.
 *
 * Sending takes no lock (a short one for blocking mailboxes) and never fails: a few atomic
 * operations, and a system call if the owner may be asleep. The senders bound the number of
 * messages: each request or connection has at most a few in flight, and the hub counts changes.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include <tidings/types.h>

#include "base/list.h"
#include "base/loop.h"

/* Maximum messages of one mailbox per loop turn, so that other mailboxes get their turn. */
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
/* Call it on the owner's thread, possibly inside a `deliver`; once. Drops remaining messages, and
 * later ones too (the sender then calls their `drop`). Returns when no sender is inside. The memory
 * lives until the last reference is released: the creator has one and releases it with
 * mailbox_unref. NULL is fine. */
void mailbox_close(struct mailbox *m);
struct mailbox *mailbox_ref(struct mailbox *m);
void mailbox_unref(struct mailbox *m); /* any thread; NULL is fine */

void mailbox_send(struct mailbox *m, struct thread_message *message); /* any thread */
/* Delivers the current messages without waiting (on the owner's thread). Returns the count. */
size_t mailbox_drain(struct mailbox *m);
/* Blocking mailboxes: waits for one message and delivers it; false once closed. Several threads can
 * wait on one mailbox; each message goes to one of them. timeout_ms < 0: no timeout; after a
 * timeout, returns true with nothing delivered. */
bool mailbox_wait(struct mailbox *m, int timeout_ms);
bool mailbox_is_empty(struct mailbox *m); /* on the owner's thread */

/* -------------------------------------------------------------------------------------------------
 * An actor: a thread with a loop and a mailbox. Only that thread touches its data; all other
 * threads send messages. All signals are blocked on it: they belong to the program.
 *
 *     actor_init(&a, owner)   loop and mailbox exist; open timers and polls now
 *     actor_start(&a, name)   the thread runs
 *     actor_stop(&a)          the thread has ended; close timers and polls now
 *     actor_deinit(&a)        drops remaining messages, frees mailbox and loop
 */

struct actor {
    struct loop *loop;
    struct mailbox *mailbox;
    pthread_t thread;
    const char *name;
    bool running;
};

/* Messages are delivered to `owner`. After a failure, actor_deinit is allowed but not needed. */
int actor_init(struct actor *a, void *owner, struct tidings_error *err);
/* `name` is shown by tools: at most 15 bytes, borrowed while the thread runs. */
int actor_start(struct actor *a, const char *name, struct tidings_error *err);
/* Messages sent before this are delivered first. Not running: fine. */
void actor_stop(struct actor *a);
/* All zero, or stopped: fine. */
void actor_deinit(struct actor *a);

/* -------------------------------------------------------------------------------------------------
 * A pool: a few threads for work that can block (large files, blocking providers). Threads start
 * with the first job and run until pool_destroy. A job runs once on some pool thread; it reports
 * back through its owner's mailbox. At most `max_waiting` jobs wait in the queue.
 */

struct pool;
struct pool *pool_create(unsigned threads, size_t max_waiting, struct tidings_error *err);
/* Runs the waiting jobs, joins the threads. No other thread may be in pool_submit any longer,
 * except the pool's own jobs. NULL is fine. */
void pool_destroy(struct pool *p);
/* Any thread. The job runs with all signals blocked. TIDINGS_E_BUSY if the queue is full,
 * TIDINGS_E_CLOSED during destruction, TIDINGS_E_NOMEM. */
int pool_submit(struct pool *p, void (*run)(void *job), void *job);

#endif
