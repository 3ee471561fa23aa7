/* SPDX-License-Identifier: MIT
 *
 * A thread with a loop and a mailbox. What lives there is touched on that thread alone; everybody
 * else sends letters. All signals are blocked on it: they are the program's.
 *
 *     actor_init(&a, owner)   loop and mailbox exist; open timers and polls now
 *     actor_start(&a, name)   the thread runs
 *     actor_stop(&a)          it does not any more; close timers and polls now
 *     actor_deinit(&a)        letters left are dropped, mailbox and loop go
 */
#ifndef BASE_ACTOR_H
#define BASE_ACTOR_H

#include <pthread.h>

#include "base/loop.h"
#include "base/mailbox.h"

struct actor {
    struct loop *loop;
    struct mailbox *mailbox;
    pthread_t thread;
    const char *name;
    bool running;
};

/* `owner` is what letters are delivered to. After a failure actor_deinit is fine and not needed. */
int actor_init(struct actor *a, void *owner, struct tidings_error *err);
/* `name` as tools show it: at most 15 bytes, borrowed for as long as the thread runs. */
int actor_start(struct actor *a, const char *name, struct tidings_error *err);
/* Letters sent before this are delivered first. Not running: fine. */
void actor_stop(struct actor *a);
/* All zero, or stopped: fine. */
void actor_deinit(struct actor *a);

#endif
