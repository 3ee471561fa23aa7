/* SPDX-License-Identifier: MIT
 *
 * When a lease may be given, and when its holder stops acting on it.
 */
#include "store/lease.h"

#define MARGIN(for_ms) ((for_ms) / 8) /* clocks do not go equally fast */

bool lease_may_be_given(bool is_holder, int64_t until_ms, int64_t broke_ms, int64_t for_ms,
                        int64_t now_ms)
{
    bool is_calm = broke_ms == INT64_MIN || now_ms - broke_ms >= LEASE_MAX_MS;
    return is_calm && for_ms > 0 && for_ms <= LEASE_MAX_MS && (is_holder || until_ms <= now_ms);
}

void lease_answered(struct lease *l, bool is_given, uint64_t asked_ms, int64_t for_ms)
{
    *l = (struct lease){0};
    if (is_given) {
        l->until_ms = asked_ms + (uint64_t)(for_ms - MARGIN(for_ms));
        l->renew_ms = asked_ms + (uint64_t)for_ms / 3;
    }
}

bool lease_is_held(const struct lease *l, uint64_t now_ms)
{
    return now_ms < l->until_ms;
}
