/* SPDX-License-Identifier: MIT
 *
 * A node and the mount that one node owns (cluster/owned_mounts.h): it requests the lease, watches
 * the outside world, truncates all subscriptions, and then announces the changes it sees.
 */
#include "sim/sim.h"

static void node_ask(struct node *n)
{
    struct world *w = n->world;
    struct engine *e = node_store(n);
    uint64_t clock = node_lease_clock(n);
    if (w->now_ms < n->ask_at_ms) {
        return;
    }
    uint64_t slow = w->now_ms + world_random(w, world_chance(w, 4) ? 4000 : 20);
    if (n->ask == ASK_IDLE && owner_must_ask(&n->owner, clock)) {
        if (!node_is_well(n)) {
            owner_unanswered(&n->owner, clock);
            return;
        }
        n->asked_ms = clock;
        n->ask = ASK_ASKED;
        n->ask_at_ms = slow;
    } else if (n->ask == ASK_ASKED) {
        n->ask = ASK_IDLE;
        n->ask_at_ms = slow;
        if (!node_is_well(n)) {
            return;
        }
        n->is_given = lease_may_be_given(e->lease_holder == n->index, e->lease_until, e->lossy_ms,
                                         OWNER_LEASE_MS, engine_now(e));
        n->left_ms = e->lease_until > engine_now(e) ? e->lease_until - engine_now(e) : -1;
        if (n->is_given) {
            engine_write(e, &(struct record){.kind = RECORD_LEASE,
                                             .index = n->index,
                                             .at_ms = engine_now(e) + OWNER_LEASE_MS});
        }
        n->ask = ASK_ANSWERED;
    } else if (n->ask == ASK_ANSWERED) {
        const struct owner before = n->owner;
        owner_answered(&n->owner, n->is_given, n->left_ms,
                       w->fault == FAULT_LEASE_ANSWER ? clock : n->asked_ms, clock);
        if (w->fault == FAULT_OWNER_GOES_ON && n->owner.stage == OWNER_STARTING &&
            before.stage == OWNER_OWNING) {
            n->owner.stage = before.stage;
            n->owner.term = before.term;
        }
        world_say(w, "node %u: lease %s", n->index, n->is_given ? "given" : "not given");
        n->ask = ASK_IDLE;
    }
}

static void node_watch(struct node *n)
{
    struct world *w = n->world;
    struct engine *e = node_store(n);
    uint64_t clock = node_lease_clock(n), term = n->owner.term;
    if (n->owner.stage == OWNER_WAITING) {
        n->is_watching = n->has_seen = false;
        n->watch_term = 0;
        return;
    }
    if (n->watch_term != term) {
        n->watch_term = term;
        n->watch_at_ms = w->now_ms + world_random(w, world_chance(w, 4) ? 2000 : 50);
        if (w->fault == FAULT_OWNER_EARLY) {
            owner_started(&n->owner, term, clock);
        }
    } else if (n->owner.stage == OWNER_STARTING && w->now_ms >= n->watch_at_ms &&
               world_chance(w, 8)) {
        owner_give_up(&n->owner, term, clock);
        if (node_is_well(n) && e->lease_holder == n->index) { /* it is released, or ends */
            engine_write(e, &(struct record){
                                .kind = RECORD_LEASE, .index = n->index, .at_ms = engine_now(e)});
        }
        world_say(w, "node %u cannot watch", n->index);
    } else if (w->now_ms >= n->watch_at_ms && !n->is_watching) {
        n->is_watching = true;
        owner_started(&n->owner, term, clock);
    } else if (n->owner.stage == OWNER_STARTING && n->is_watching) { /* all along */
        owner_started(&n->owner, term, clock);
    }
    if (n->owner.stage == OWNER_ENTERING && w->fault == FAULT_OWNER_SILENT) {
        w->oracle.owner = n->index; /* so that it is caught by what clients know */
        w->oracle.owner_run = n->epoch;
        w->oracle.owner_term = term;
        owner_entered(&n->owner, term, clock);
    }
}

/* It looks every so often: not before each thing it does. */
void node_own(struct node *n)
{
    struct world *w = n->world;
    if (w->now_ms < n->own_at_ms || world_random(w, 4) > 0) { /* other things may come first */
        return;
    }
    n->own_at_ms = w->now_ms + world_random(w, 500);
    if (n->ask != ASK_ANSWERED) { /* else the answer came first */
        owner_check_lease(&n->owner, node_lease_clock(n));
    }
    node_ask(n);
    node_watch(n);
}

void node_outside(struct node *n)
{
    n->has_seen =
        n->has_seen || n->is_watching; /* even while it is stopped, because the kernel keeps it */
}

bool node_wants_batch(const struct node *n)
{
    bool enters = n->owner.stage == OWNER_ENTERING && !n->in_batch_enters;
    return enters || (n->has_seen && !n->in_batch_seen);
}

/* In a batch. */
void node_run_owned(struct node *n)
{
    struct world *w = n->world;
    uint64_t clock = node_lease_clock(n), term = n->owner.term;
    struct record r = {.kind = RECORD_OWNED, .index = n->index, .epoch = n->epoch, .tag = term};
    if (n->owner.stage == OWNER_ENTERING && !n->in_batch_enters) {
        if (owner_may_enter(&n->owner, term, clock)) {
            r.is_missed = true;
            n->batch_term = term;
            n->in_batch_enters = node_add(n, &r) != NULL;
        } else {
            owner_check_lease(&n->owner, clock);
        }
        return;
    }
    bool may = owner_may_announce(&n->owner, clock) ||
               (w->fault == FAULT_OWNER_LATE && n->owner.stage == OWNER_OWNING);
    if (may) {
        n->in_batch_seen = node_add(n, &r) != NULL;
        if (!n->in_batch_seen) {
            return;
        }
    } else {
        w->counts->dropped++;
        world_say(w, "node %u drops what it saw", n->index);
    }
    n->has_seen = false;
}

void node_owned_done(struct node *n, bool is_committed)
{
    if (n->in_batch_enters && is_committed) {
        n->world->counts->entered++;
        owner_entered(&n->owner, n->batch_term, node_lease_clock(n));
    }
    if (n->in_batch_seen && !is_committed) {
        n->has_seen = true; /* it is tried again */
    }
    n->in_batch_enters = n->in_batch_seen = false;
}
