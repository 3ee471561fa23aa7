/* SPDX-License-Identifier: MIT
 *
 * The only road between threads: an inbox of letters, delivered on the owner's loop in the order
 * they were sent (FIFO per mailbox, whoever sends). What crosses is owned by the letter or is
 * immutable and reference-counted.
 *
 * A letter embeds struct letter and carries its own `deliver` function, so there is no central enum
 * of message kinds. `deliver` owns the letter from then on (usually frees it). Letters still inside
 * when the mailbox closes are handed to `drop` instead. Letters sent while others are delivered
 * wait for the next turn. Whoever sends holds a reference.
 *
 * Sending never blocks beyond a short lock and never fails; the number of letters is bounded by
 * what the senders own (each request, connection or change has at most a few under way).
 */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include "base/list.h"
#include "base/loop.h"

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
 * sends too (their `drop` is called by the sender). The memory lives until the last reference goes:
 * the creator has one and gives it up with mailbox_unref. NULL is fine. */
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
size_t mailbox_count(struct mailbox *m);

#endif
