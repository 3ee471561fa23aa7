/* SPDX-License-Identifier: MIT
 *
 * The only road between threads: an inbox of letters, delivered on the owner's loop in the order
 * they were sent (FIFO per mailbox, whoever sends). What crosses is owned by the letter or is
 * immutable and reference-counted.
 *
 * A letter embeds struct letter and carries its own `deliver` function, so there is no central enum
 * of message kinds. `deliver` owns the letter from then on (usually frees it). Letters still inside
 * when the mailbox closes are handed to `drop` instead. Letters sent while others are delivered
 * wait for the next turn. Whoever may send after the owner closed it holds a reference.
 *
 * Sending takes no lock (but for blocking mailboxes a short one) and never fails: a few atomic
 * operations, and a system call when the owner may be asleep. The number of letters is bounded by
 * what the senders own: each request or connection has at most a few under way, and the hub counts
 * changes.
 */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include "base/list.h"
#include "base/loop.h"

/* No more letters of one mailbox are delivered in one turn of a loop: the others want theirs. */
#define MAILBOX_PER_TURN 1024u

struct mailbox;
struct letter {
    struct list link;
    void (*deliver)(struct letter *letter, void *owner);
    void (*drop)(struct letter *letter); /* frees it undelivered; required */
};

/* Delivers on `loop`, with `owner` passed to every letter. */
struct mailbox *mailbox_create(struct loop *loop, void *owner, struct tidings_error *err);
/* Without a loop, for a thread that blocks in mailbox_wait. */
struct mailbox *mailbox_create_blocking(void *owner, struct tidings_error *err);
/* On the owner's thread, also from inside a `deliver`; once. Letters inside are dropped; later
 * sends too (their `drop` is called by the sender). Returns when no sender is inside. The memory
 * lives until the last reference goes: the creator has one and gives it up with mailbox_unref. NULL
 * is fine. */
void mailbox_close(struct mailbox *m);
struct mailbox *mailbox_ref(struct mailbox *m);
void mailbox_unref(struct mailbox *m); /* any thread; NULL is fine */

void mailbox_send(struct mailbox *m, struct letter *letter); /* any thread */
/* Deliver what is inside now, without waiting (on the owner's thread). Returns the count. */
size_t mailbox_drain(struct mailbox *m);
/* Blocking mailboxes: wait for one letter and deliver it; false once closed. Several threads may
 * wait on one mailbox; each letter goes to one of them. timeout_ms < 0: for ever; true with nothing
 * delivered after a timeout. */
bool mailbox_wait(struct mailbox *m, int timeout_ms);
bool mailbox_is_empty(struct mailbox *m); /* on the owner's thread */

#endif
