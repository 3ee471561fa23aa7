/* SPDX-License-Identifier: MIT
 *
 * Ordered lists of deadlines, and the one timer that runs until the nearest of them.
 *
 * The timer is set at the end of a turn, when all moves of the turn are known. A deadline that
 * comes before the one it is set to sets it at once, so that none is missed whatever happens
 * afterwards.
 */
#include "transport/deadlines.h"

#include "base/clock.h"

#define NEVER UINT64_MAX
#define GRAIN_MAX_MS 1024u
#define WALL_MS 60000

/* The largest power of two that is at most an eighth of the time: those of longer times are
 * multiples of those of shorter ones. */
static uint32_t grain_of(uint64_t after_ms)
{
    uint32_t grain = 1;
    while (grain < GRAIN_MAX_MS && grain * 2 <= after_ms / 8) {
        grain *= 2;
    }
    return grain;
}

static uint64_t round_up(uint64_t ms, uint32_t grain)
{
    return (ms + grain - 1) / grain * grain;
}

static void deadlines_arm(struct deadlines *d, uint64_t at_ms)
{
    uint64_t now = loop_now_ms(d->loop);
    if (at_ms == d->armed_ms) {
        return;
    }
    d->armed_ms = at_ms;
    if (at_ms == NEVER) {
        loop_timer_stop(d->timer);
    } else {
        loop_timer_start(d->timer, at_ms > now ? at_ms - now : 0, 0);
    }
}

uint32_t deadline_age_ms(const struct deadline_list *list, uint32_t since_ms)
{
    return (uint32_t)loop_now_ms(list->deadlines->loop) - since_ms;
}

struct deadline *deadline_list_first(const struct deadline_list *list)
{
    return list_empty(&list->all) ? NULL : list_entry(list->all.next, struct deadline, link);
}

/* When the timer should run for this list; NEVER: nobody is in it. */
static uint64_t next_of(const struct deadline_list *list, uint64_t now)
{
    const struct deadline *first = deadline_list_first(list);
    if (!first) {
        return NEVER;
    }
    return round_up(now - deadline_age_ms(list, first->listed_ms) + list->after_ms, list->grain_ms);
}

void deadlines_end_turn(struct deadlines *d)
{
    if (!d->has_changed) {
        return;
    }
    d->has_changed = false;
    uint64_t check = d->also.next ? d->also.next(d->also.user) : NEVER;
    if (check == NEVER || check < d->check_ms) {
        d->check_ms = check; /* not later than it was: turns do not put it off */
    }
    uint64_t now = loop_now_ms(d->loop), next = d->check_ms;
    list_each (it, following, &d->lists) {
        uint64_t at = next_of(list_entry(it, struct deadline_list, link), now);
        next = at < next ? at : next;
    }
    deadlines_arm(d, next);
}

void deadlines_changed(struct deadlines *d)
{
    d->has_changed = true;
}

uint64_t deadlines_at_wall(const struct deadlines *d, int64_t wall_ms)
{
    if (wall_ms == 0) {
        return NEVER;
    }
    int64_t left = wall_ms - clock_wall_ms();
    return loop_now_ms(d->loop) + (left < 0 ? 0 : left < WALL_MS ? (uint64_t)left : WALL_MS);
}

/* ---- when it is time ------------------------------------------------------------------------- */

static void run_list(struct deadline_list *list)
{
    struct deadline *first;
    while ((first = deadline_list_first(list)) != NULL &&
           deadline_age_ms(list, first->listed_ms) >= list->after_ms) {
        deadline_enter(list, first);
        list->due(first);
    }
}

void deadlines_run(struct deadlines *d)
{
    list_each (it, next, &d->lists) {
        run_list(list_entry(it, struct deadline_list, link));
    }
    d->check_ms = NEVER;
    if (d->also.check) {
        d->also.check(d->also.user);
    }
    d->has_changed = true;
}

static void deadlines_on_timer(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct deadlines *d = user;
    d->armed_ms = NEVER;
    deadlines_run(d);
}

/* ---- lists ----------------------------------------------------------------------------------- */

int deadlines_init(struct deadlines *d, struct loop *loop, const struct deadlines_also *also)
{
    *d = (struct deadlines){.loop = loop, .also = *also, .check_ms = NEVER, .armed_ms = NEVER};
    list_init(&d->lists);
    d->timer = loop_timer_open(loop, deadlines_on_timer, d);
    return d->timer ? 0 : -1;
}

void deadlines_deinit(struct deadlines *d)
{
    loop_timer_close(d->timer);
    d->timer = NULL;
}

void deadline_list_init(struct deadline_list *list, struct deadlines *d, uint64_t after_ms,
                        deadline_fn due)
{
    list_init(&list->all);
    list_init(&list->link);
    list->deadlines = d;
    list->after_ms = after_ms < INT32_MAX ? (uint32_t)after_ms : INT32_MAX;
    list->grain_ms = grain_of(after_ms);
    list->due = due;
    if (after_ms > 0) {
        list_append(&d->lists, &list->link);
    }
}

void deadline_init(struct deadline *deadline)
{
    list_init(&deadline->link);
}

void deadline_enter(struct deadline_list *list, struct deadline *deadline)
{
    struct deadlines *d = list->deadlines;
    uint64_t now = loop_now_ms(d->loop);
    list_remove(&deadline->link);
    list_append(&list->all, &deadline->link);
    deadline->listed_ms = (uint32_t)now;
    d->has_changed = true;
    uint64_t at = round_up(now + list->after_ms, list->grain_ms);
    if (list->after_ms > 0 && at < d->armed_ms) {
        deadlines_arm(d, at);
    }
}

void deadline_leave(struct deadline_list *list, struct deadline *deadline)
{
    list_remove(&deadline->link);
    list->deadlines->has_changed = true;
}

void deadline_stall(struct deadline_list *list, struct deadline *deadline, uint64_t written)
{
    if (!deadline_is_listed(deadline) || deadline->noted != (uint32_t)written) {
        deadline->noted = (uint32_t)written;
        deadline_enter(list, deadline);
    }
}

void deadline_await(struct deadline_list *list, struct deadline *deadline, const struct sendq *q)
{
    if (q->awaits_source) {
        deadline_leave(list, deadline);
    } else {
        deadline_stall(list, deadline, q->written);
    }
}
