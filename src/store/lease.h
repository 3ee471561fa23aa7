/* SPDX-License-Identifier: MIT
 *
 * Leases: something that one node of a cluster does at a time. Pure: when a lease may be given and
 * acted on; asking the store is the caller's.
 *
 * The store has for each lease who holds it and until when, by the store's own clock: those of
 * nodes do not matter. The holder counts by a clock of its own that nobody sets, from before it
 * asked, and stops a little earlier than it has to; so it has stopped before the store gives the
 * lease to another, however long the answer took. It asks at each act, just before it; a process
 * that is stopped in between acts late, so what is done under a lease must be harmless then.
 *
 * A server that took over for another may not know of a lease that was given there, and has another
 * clock. So after a break that lost durable changes (store/runs.h) nobody is given any lease, not
 * even who has it, for as long as one lasts at most.
 */
#ifndef STORE_LEASE_H
#define STORE_LEASE_H

#include <tidings/types.h>

#define LEASE_MAX_MS 15000

/* ---- in the store ---------------------------------------------------------------------------- */

/* May it be given for `for_ms`? All by the clock of the store: now, until when it is given, and
 * when the newest break that lost durable changes was written down (INT64_MIN: never). */
bool lease_may_be_given(bool is_holder, int64_t until_ms, int64_t broke_ms, int64_t for_ms,
                        int64_t now_ms);

/* ---- the holder ------------------------------------------------------------------------------ */

/* All zero: not held. Times of a monotonic clock. */
struct lease {
    uint64_t until_ms;
    uint64_t renew_ms; /* ask again then */
};

/* The answer to what was asked at `asked_ms`. No answer: nothing changes, it ends when it does. Not
 * given: it is not acted on any more. Who gives it back makes the struct all zero first. */
void lease_answered(struct lease *l, bool is_given, uint64_t asked_ms, int64_t for_ms);
/* May it be acted on? */
bool lease_is_held(const struct lease *l, uint64_t now_ms);

#endif
