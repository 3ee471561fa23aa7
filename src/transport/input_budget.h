/* SPDX-License-Identifier: MIT
 *
 * The budget for unhandled input of all connections together (`--max-input`, LIMIT_INPUT, in bytes
 * of memory): bodies, messages and lines of which a part has come, and whole ones that wait their
 * turn.
 *
 * When it is more than that, room is made where it is needed: on its own worker whoever has gone on
 * for the longest time without 64 KiB of progress is told so and cut, until there is room. So a
 * message that keeps coming stays, and what drips or stands still goes. While more than half of it
 * is in use, whoever needs more than a second (INPUT_TIGHT_MS) for 64 KiB goes likewise, on all
 * workers.
 *
 * A client that holds more than its share (access/share.h) with several connections loses the one
 * that brought more; one connection may always have one message. Connections are counted before it
 * is known whose they are: the reserve is for Unix sockets.
 */
#ifndef TRANSPORT_INPUT_BUDGET_H
#define TRANSPORT_INPUT_BUDGET_H

#include "access/allowance.h"
#include "access/share.h"
#include "transport/deadlines.h"

#define INPUT_STEP (64u * 1024u) /* bytes that are progress */
#define INPUT_TIGHT_MS 1000u

/* A connection of `origin` (NULL: nobody's), of which *counted bytes are counted already, holds
 * `held` bytes now. */
static inline void input_count_held(struct limit_counters *counters, struct allowance *origin,
                                    uint32_t *counted, size_t held)
{
    if (held == *counted) {
        return;
    }
    size_t more = held - *counted; /* modulo 2^64: what is less is subtracted */
    __atomic_fetch_add(&counters->in_use[LIMIT_INPUT], more, __ATOMIC_RELAXED);
    if (origin) {
        __atomic_fetch_add(allowance_held(origin, LIMIT_INPUT), more, __ATOMIC_RELAXED);
    }
    *counted = (uint32_t)held;
}

/* Without the reserve. */
static inline bool input_is_over(const struct limit_counters *counters)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    return most > 0 && limit_in_use(counters, LIMIT_INPUT) > most - share_reserve(most);
}

/* The reserve is there for it. */
static inline bool input_may_stay(const struct limit_counters *counters,
                                  const struct allowance *origin)
{
    return origin && allowance_is_user(origin) &&
           limit_in_use(counters, LIMIT_INPUT) <= counters->values[LIMIT_INPUT];
}

/* Its client holds too much, and not only on this connection. Counts it. */
static inline bool input_is_unfair(struct limit_counters *counters, struct allowance *origin,
                                   uint32_t counted)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    if (!origin || most == 0 || allowance_is_whole(origin)) {
        return false;
    }
    size_t own = __atomic_load_n(allowance_held(origin, LIMIT_INPUT), __ATOMIC_RELAXED);
    uint64_t reserve = allowance_is_user(origin) ? share_reserve(most) : 0;
    if (own <= share_part(counters, most) + reserve || own == counted) {
        return false;
    }
    __atomic_fetch_add(&counters->share_hits[LIMIT_INPUT], 1, __ATOMIC_RELAXED);
    return true;
}

/* More than half? */
static inline bool input_is_tight(const struct limit_counters *counters)
{
    uint64_t most = counters->values[LIMIT_INPUT];
    return most > 0 && limit_in_use(counters, LIMIT_INPUT) > most / 2;
}

/* When those in a list of unfinished input should be asked whether they go on too slowly: some
 * worker may use more than half by then. */
static inline uint64_t input_next_check(const struct limit_counters *counters,
                                        const struct deadline_list *partial)
{
    const struct deadline *first = deadline_list_first(partial);
    if (!first || counters->values[LIMIT_INPUT] == 0) {
        return UINT64_MAX;
    }
    uint32_t age = deadline_age_ms(partial, first->listed_ms);
    return loop_now_ms(partial->deadlines->loop) +
           (age < INPUT_TIGHT_MS ? INPUT_TIGHT_MS - age : INPUT_TIGHT_MS);
}

#endif
