/* SPDX-License-Identifier: MIT
 *
 * Deadlines of the connections of one worker: until when a client must have sent its request, taken
 * what waits for it, or be sent a sign of life.
 *
 * Connections hang in lists, one for each kind of deadline. All members of a list have the same
 * time, so a list is ordered, oldest first, and only its first member has to be looked at. One
 * timer runs for all lists, until the nearest deadline of all; while there is none, it does not
 * run, and a worker whose clients are idle sleeps. It is rounded up by at most an eighth of the
 * time and a second, to where the deadlines of others are rounded to, so that many share one
 * wake-up.
 *
 * A list may also be one without a deadline: then it only says who is in it.
 */
#ifndef TRANSPORT_DEADLINES_H
#define TRANSPORT_DEADLINES_H

#include "base/list.h"
#include "base/loop.h"
#include "base/sendq.h"

/* In the connection. */
struct deadline {
    /* The owner's own: when something was last heard of it, or how much it had taken. */
    uint32_t noted;
    /* When it was put at the end of its list. The loop's time, cut to 32 bits: no deadline is as
     * long as that takes to come round. */
    uint32_t listed_ms;
    struct list link;
};

/* It was in its list for so long. It is at the end of that list again already: who does nothing is
 * called again after the same time. It may be moved and its memory discarded, and others' too. */
typedef void (*deadline_fn)(struct deadline *deadline);

struct deadline_list {
    struct list all; /* oldest first, by deadline.link */
    struct deadlines *deadlines;
    struct list link; /* in deadlines->lists, if there is a deadline */
    uint32_t after_ms;
    uint32_t grain_ms;
    deadline_fn due;
};

/* What has to be looked at besides, by the loop's time. */
struct deadlines_also {
    uint64_t (*next)(void *user); /* when? UINT64_MAX: never. Asked at the end of a turn */
    void (*check)(void *user);    /* now, and whenever deadlines are due */
    void *user;
};

struct deadlines {
    struct loop *loop;
    struct loop_timer *timer;
    struct list lists;
    struct deadlines_also also;
    uint64_t check_ms; /* `also`; UINT64_MAX: not */
    uint64_t armed_ms; /* the timer; UINT64_MAX: it does not run */
    bool has_changed;  /* since the timer was set: it may run too early */
};

/* -1: out of memory. */
int deadlines_init(struct deadlines *d, struct loop *loop, const struct deadlines_also *also);
void deadlines_deinit(struct deadlines *d); /* all zero is fine */
/* At the end of each turn: set the timer. */
void deadlines_end_turn(struct deadlines *d);
/* What `also` waits for has changed, without any connection's having been moved. */
void deadlines_changed(struct deadlines *d);
/* For `also.next`: when to look for something that happens at `wall_ms` (Unix time; 0: never). The
 * clock on the wall may be set, so that is once a minute at least. */
uint64_t deadlines_at_wall(const struct deadlines *d, int64_t wall_ms);
/* Do what is due, as the timer does. */
void deadlines_run(struct deadlines *d);

/* `after_ms` 0: no deadline, `due` is not called. */
void deadline_list_init(struct deadline_list *list, struct deadlines *d, uint64_t after_ms,
                        deadline_fn due);
/* The one that is there for longest; NULL: nobody is. */
struct deadline *deadline_list_first(const struct deadline_list *list);

void deadline_init(struct deadline *deadline); /* in no list */
/* To the end of `list`, from wherever it was; its time begins. */
void deadline_enter(struct deadline_list *list, struct deadline *deadline);
void deadline_leave(struct deadline_list *list, struct deadline *deadline); /* twice is fine */
static inline bool deadline_is_listed(const struct deadline *deadline)
{
    return !list_empty(&deadline->link);
}
uint32_t deadline_age_ms(const struct deadline_list *list, uint32_t since_ms);

/* The kernel takes no more of what waits to be written, after `written` bytes: the time begins,
 * anew when some was taken meanwhile. `noted` is that number. */
void deadline_stall(struct deadline_list *list, struct deadline *deadline, uint64_t written);
/* The same for a queue that waits; there is no deadline while it waits for a source. */
void deadline_await(struct deadline_list *list, struct deadline *deadline, const struct sendq *q);

#endif
