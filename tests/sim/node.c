/* SPDX-License-Identifier: MIT
 *
 * A node: it connects, judges the state of the store, begins its run, follows, writes in batches,
 * and tells. One step of it is one thing that takes place at once.
 */
#include "sim/sim.h"

void node_init(struct node *n, struct world *w, unsigned index)
{
    *n = (struct node){.world = w, .index = index};
    n->rate = 0.99 + (double)world_random(w, 21) / 1000;
    n->wall_ms = (int64_t)world_random(w, 20000) - 10000;
}

uint64_t node_clock(const struct node *n)
{
    return 1000000 + (uint64_t)((double)n->world->now_ms * n->rate);
}

uint64_t node_lease_clock(const struct node *n)
{
    return n->world->fault == FAULT_LEASE_WALL
               ? (uint64_t)((int64_t)n->world->now_ms + n->wall_ms + 1000000)
               : node_clock(n);
}

bool node_has_lock(const struct node *n)
{
    const struct engine *e = node_store(n);
    return n->is_connected && n->boot == e->boots && e->open.is_open && !e->open.is_sent &&
           e->open.node == n->index;
}

bool node_is_well(const struct node *n)
{
    const struct engine *e = node_store(n);
    return n->is_up && !n->is_stopped && n->incarnations && n->is_connected &&
           n->boot == e->boots && !e->is_down;
}

void node_lose_connection(struct node *n)
{
    if (node_has_lock(n)) {
        engine_rollback(node_store(n));
    }
    n->is_connected = n->is_settled = false;
    latest_clear(&n->heads);
    notifications_clear(&n->notifications);
}

/* ---- a step ---------------------------------------------------------------------------------- */

void node_step(struct node *n)
{
    struct world *w = n->world;
    struct engine *e = node_store(n);
    if (n->is_stopped || !n->is_up) {
        return;
    }
    if (n->is_connected && (n->boot != e->boots || n->is_cut)) {
        node_lose_connection(n);
    }
    if (n->incarnations) {
        node_own(n);
    }
    if (n->incarnations && !n->is_connected) {
        node_batch_disconnected(n);
    }
    if (!n->is_connected) {
        if (w->now_ms >= n->connect_at_ms) {
            node_connect(n);
        }
        return;
    }
    if (e->is_down) {
        return;
    }
    if (w->now_ms >= n->lives_at_ms) {
        n->lives_at_ms = w->now_ms + POLL_MS;
        e->lives_until[n->index] = engine_now(e) + LIVES_MS;
    }
    node_hear(n);
    bool is_due = n->is_woken || (w->now_ms >= n->poll_at_ms && w->fault != FAULT_NO_POLL);
    bool is_wanted = n->job_count > 0 || n->must_reopen || node_wants_batch(n);
    if (n->has_batch || (is_wanted && world_random(w, 2) == 0)) {
        node_batch(n);
    } else if (is_due) {
        (void)node_follow(n);
    } else if (world_random(w, 20) == 0) {
        node_tell_local(n);
    } else {
        unsigned session = (unsigned)world_random(w, CLIENTS);
        if (n->has_session[session] && world_random(w, 4) == 0) { /* its cursor */
            (void)node_session_write(n, session, n->sessions[session].options);
        }
    }
}
