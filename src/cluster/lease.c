/* SPDX-License-Identifier: MIT
 *
 * Owning a mount: from waiting for the lease to announcing, and back.
 */
#include "cluster/lease.h"

/* -------------------------------------------------------------------------------------------------
 * When a lease may be given, and when its holder stops acting on it.
 */

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

/* ---------------------------------------------------------------------------------------------- */

static void owner_lose(struct owner *o)
{
    o->lease = (struct lease){0};
    o->stage = OWNER_WAITING;
}

bool owner_must_ask(const struct owner *o, uint64_t now_ms)
{
    return now_ms >= o->ask_ms;
}

void owner_check_lease(struct owner *o, uint64_t now_ms)
{
    if (o->stage != OWNER_WAITING && !lease_is_held(&o->lease, now_ms)) {
        owner_lose(o);
    }
}

void owner_answered(struct owner *o, bool is_given, int64_t left_ms, uint64_t asked_ms,
                    uint64_t now_ms)
{
    owner_check_lease(o, now_ms); /* the one before may be over: then this is another term */
    if (asked_ms <= o->void_ms) {
        return; /* it may have been released since, and given to another */
    }
    lease_answered(&o->lease, is_given, asked_ms, OWNER_LEASE_MS);
    if (!is_given) {
        bool is_soon = left_ms >= 0 && left_ms < (int64_t)OWNER_ASK_MS;
        o->ask_ms = now_ms + (is_soon ? (uint64_t)left_ms : OWNER_ASK_MS);
        owner_lose(o);
        return;
    }
    o->ask_ms = o->lease.renew_ms;
    if (!lease_is_held(&o->lease, now_ms)) { /* the answer took too long */
        owner_lose(o);
    } else if (o->stage == OWNER_WAITING) {
        o->stage = OWNER_ARMING;
        o->term++;
    }
}

void owner_unanswered(struct owner *o, uint64_t now_ms)
{
    owner_check_lease(o, now_ms);
    o->ask_ms = now_ms + OWNER_ASK_MS;
}

static bool owner_is_at(const struct owner *o, enum owner_stage stage, uint64_t term,
                        uint64_t now_ms)
{
    return o->stage == stage && o->term == term && lease_is_held(&o->lease, now_ms);
}

void owner_armed(struct owner *o, uint64_t term, uint64_t now_ms)
{
    if (owner_is_at(o, OWNER_ARMING, term, now_ms)) {
        o->stage = OWNER_ENTERING;
    }
}

void owner_entered(struct owner *o, uint64_t term, uint64_t now_ms)
{
    if (owner_is_at(o, OWNER_ENTERING, term, now_ms)) {
        o->stage = OWNER_OWNING;
    }
}

void owner_give_up(struct owner *o, uint64_t term, uint64_t now_ms)
{
    if (o->stage != OWNER_WAITING && o->term == term) {
        owner_lose(o);
        o->ask_ms = now_ms + OWNER_GIVEN_UP_MS;
        o->void_ms = now_ms;
    }
}

bool owner_may_enter(const struct owner *o, uint64_t term, uint64_t now_ms)
{
    return owner_is_at(o, OWNER_ENTERING, term, now_ms) ||
           owner_is_at(o, OWNER_OWNING, term, now_ms); /* it may have to be said again */
}

bool owner_may_announce(const struct owner *o, uint64_t now_ms)
{
    return o->stage == OWNER_OWNING && lease_is_held(&o->lease, now_ms);
}
