/* SPDX-License-Identifier: MIT
 *
 * A timer of a loop that makes the loop's descriptor readable, so that whoever waits for that alone
 * misses nothing (base/loop.h keeps its own timers beside it).
 */
#ifndef OAUTH_ALARM_H
#define OAUTH_ALARM_H

#include "base/loop.h"

struct alarm {
    int fd;
    struct loop_poll *poll;
    void (*fn)(void *user);
    void *user;
};

int alarm_init(struct alarm *a, struct loop *loop, void (*fn)(void *user), void *user,
               struct tidings_error *err);
void alarm_deinit(struct alarm *a); /* one that was never there (fd -1), and twice: fine */
void alarm_set(struct alarm *a, uint64_t ms); /* once, so long from now; 0: not any more */

#endif
