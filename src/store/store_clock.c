/* SPDX-License-Identifier: MIT
 *
 * Reckons the time of the store from one moment at which its clock and ours are both known, and
 * from how exactly they are.
 */
#include "store/store_clock.h"

#include "store/timeline.h"

#define QUICK_MS 50u  /* so exact is enough */
#define OLD_MS 10000u /* then an answer that took longer is better than none */

void store_clock_hear(struct store_clock *c, int64_t at_ms, uint64_t asked_ms, uint64_t heard_ms)
{
    uint64_t took = heard_ms - asked_ms;
    if (at_ms < 0 || at_ms >= TIMELINE_FOREVER) {
        return; /* no clock says so */
    }
    if (c->is_known && took > QUICK_MS && took > c->within_ms && heard_ms < c->heard_ms + OLD_MS) {
        return;
    }
    *c = (struct store_clock){
        .at_ms = at_ms,
        .heard_ms = asked_ms + took / 2,
        .within_ms = took,
        .is_known = true,
    };
}

void store_clock_doubt(struct store_clock *c)
{
    c->within_ms = UINT64_MAX;
}

int64_t store_clock_now(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms)
{
    return c->is_known ? c->at_ms + (int64_t)(monotonic_ms - c->heard_ms) : wall_ms;
}

int64_t store_clock_off(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms)
{
    int64_t off = wall_ms - store_clock_now(c, monotonic_ms, wall_ms);
    int64_t allowed = STORE_CLOCK_OFF_MS + (c->within_ms < OLD_MS ? (int64_t)c->within_ms : 0);
    return off > allowed || off < -allowed ? off : 0;
}
