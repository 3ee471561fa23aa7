/* SPDX-License-Identifier: MIT
 *
 * A node follows what others wrote: a page at a time, up to where the store says that it is, or
 * with the page that came with the lock; and numbers and tells it.
 */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/change.h"

/* ---- telling --------------------------------------------------------------------------------- */

static void node_number(struct node *n, struct change *c, uint64_t seq, uint64_t position)
{
    if (!c) {
        abort();
    }
    c->position = position;
    (void)n->log->ops->append(n->log, c);
    change_unref(c);
    if (position > 0) {
        position_map_add(&n->marks, seq, position);
        incarnations_map_position(n->incarnations, seq, position);
    }
}

void node_tell_local(struct node *n)
{
    uint64_t seq = n->log->ops->next(n->log);
    node_number(n, change_create(&(struct tidings_change){.uri = STR("l:0")}, n->epoch, seq), seq,
                0);
}

static void node_tell_everything(struct node *n, uint64_t position)
{
    uint64_t seq = n->log->ops->next(n->log);
    node_number(n, change_create_list_event(CHANGE_EVERYTHING, n->epoch, seq), seq, position);
}

void node_tell(struct node *n, const struct record *r)
{
    char uri[8];
    record_uri(r, uri);
    uint64_t seq = n->log->ops->next(n->log);
    world_say(n->world, "node %u numbers %s%s@%llu: %llu", n->index, r->is_missed ? "*" : "", uri,
              (unsigned long long)r->position, (unsigned long long)seq);
    node_number(n, record_change(r, n->epoch, seq), seq, r->position);
}

/* ---- one change ------------------------------------------------------------------------------ */

bool record_is_durable(const struct record *r)
{
    return r->kind != RECORD_ANNOUNCED && r->kind != RECORD_OWNED && r->kind != RECORD_SESSION;
}

static void node_take_break(struct node *n, const struct record *r)
{
    enum fault fault = n->world->fault;
    world_say(n->world, "node %u follows a break: %llu .. %llu", n->index,
              (unsigned long long)r->broken.kept, (unsigned long long)r->broken.began);
    incarnations_add_loss(n->incarnations, &r->broken);
    latest_clear(&n->heads);
    if (r->broken.is_lossy && fault != FAULT_NO_READ_AGAIN) {
        node_read_runs(n);
    }
    n->losses = r->losses;
    n->losses_seq = n->log->ops->last(n->log) + 1;
    if (fault != FAULT_NO_TRUNCATED) {
        node_tell_everything(n, fault == FAULT_BREAK_NO_PLACE ? 0 : r->position);
    }
}

/* Another node wrote an entity that this one may have cached as current. */
static void node_renew_head(struct node *n, const struct record *r)
{
    struct tidings_str id = tidings_str(entity_name(r->index));
    const struct entity_version *head = latest_find(&n->heads, id);
    if (!head || n->world->fault == FAULT_HEADS_KEPT) {
        return;
    }
    if (head->from > r->from && n->world->fault != FAULT_HEADS_BACK) {
        return; /* it was read since, and is newer than this */
    }
    if (world_random(n->world, 2) == 0) { /* without its value */
        latest_drop(&n->heads, id);
        return;
    }
    const struct entity_version v = record_version(r);
    latest_put(&n->heads, &v);
}

void node_take(struct node *n, const struct record *r)
{
    switch (r->kind) {
    case RECORD_ENTITY:
        node_renew_head(n, r);
        node_tell(n, r);
        break;
    case RECORD_ANNOUNCED:
        node_tell(n, r);
        break;
    case RECORD_OWNED:
        if (n->world->fault != FAULT_OWNER_UNHEARD) {
            node_tell(n, r);
        }
        break;
    case RECORD_RUN:
        incarnations_add(n->incarnations, r->epoch, r->last);
        n->must_reopen = n->must_reopen || (r->epoch == n->epoch && r->last != INCARNATION_LIVES);
        break;
    case RECORD_BREAK:
        node_take_break(n, r);
        break;
    case RECORD_SESSION:
        if (r->session.node != n->index) {
            n->has_session[r->index] = false;
        }
        break;
    case RECORD_SKIPPED:
    case RECORD_KEY:
    case RECORD_LEASE:
    case RECORD_SESSION_STATE:
        return;
    }
    incarnations_follow(n->incarnations, r->position, record_is_durable(r));
}

/* In its place among what is followed, when what comes next has that position. */
static void node_miss(struct node *n, uint64_t next, uint64_t *missed)
{
    if (*missed == 0 || next <= *missed) {
        return;
    }
    world_say(n->world, "node %u misses announcements up to %llu", n->index,
              (unsigned long long)*missed);
    node_tell_everything(n, *missed);
    incarnations_follow(n->incarnations, *missed, false);
    *missed = 0;
}

/* ---- a page ---------------------------------------------------------------------------------- */

void node_read_page(struct node *n, struct page_rows *ret)
{
    const struct engine *e = node_store(n);
    size_t first = engine_find(e, incarnations_followed(n->incarnations)), end = e->count;
    if (n->world->fault == FAULT_TWO_READS && end > first) {
        end = first + world_random(n->world, end - first);
    }
    ret->count = 0;
    for (size_t i = first; i < e->count && ret->count < PAGE_ROWS; i++) {
        const struct record *r = &e->log[i];
        bool is_read = i < end || !record_is_durable(r);
        if (r->position > 0 && r->kind != RECORD_SKIPPED && !r->is_gone && is_read) {
            ret->at[ret->count++] = *r;
        }
    }
}

/* Where the store is, as it says. */
void node_read_state(struct node *n)
{
    n->known = node_store(n)->counter;
    n->known_floor = node_store(n)->announced_floor;
}

static void node_ask_for_page(struct node *n, struct page_rows *ret)
{
    bool is_any = n->world->fault == FAULT_PAGE_KEPT;
    if (node_has_lock(n)) {
        bool is_next =
            n->has_next && (is_any || n->next_after == incarnations_followed(n->incarnations));
        if (is_next) { /* it came with the lock */
            *ret = n->next;
            n->has_next = false;
        } else {
            node_read_page(n, ret);
        }
        return;
    }
    node_read_state(n);
    node_read_page(n, ret);
    if (n->world->fault == FAULT_NOTIFIED_BELIEVED && n->notified > n->known) {
        n->known = n->notified;
    }
    n->notified = 0;
}

/* 1: continue; 0: that was all; negative: interrupted. */
static int node_follow_page(struct node *n)
{
    struct world *w = n->world;
    struct page_rows rows;
    node_ask_for_page(n, &rows);
    uint64_t missed = n->known_floor > incarnations_followed(n->incarnations) ? n->known_floor : 0;
    if (missed > 0 && w->fault == FAULT_MISS_NO_PLACE) {
        if (n->missed != missed) {
            node_tell_everything(n, 0);
        }
        n->missed = missed;
        missed = 0;
    }
    for (size_t i = 0; i < rows.count; i++) {
        node_miss(n, rows.at[i].position, &missed);
        node_take(n, &rows.at[i]);
        if (!node_has_lock(n) && world_chance(w, 50)) {
            return -1;
        }
    }
    if (rows.count == PAGE_ROWS) {
        return 1;
    }
    node_miss(n, UINT64_MAX, &missed);
    incarnations_follow(n->incarnations, n->known, false); /* rows said what was durable */
    return 0;
}

bool node_follow(struct node *n)
{
    const struct engine *e = node_store(n);
    struct world *w = n->world;
    if (!n->is_connected || n->boot != e->boots || e->is_down || n->is_unlocked) {
        return false;
    }
    if (node_has_lock(n) && n->known <= incarnations_followed(n->incarnations)) {
        return true;
    }
    if (!node_has_lock(n) && node_follow_heard(n)) {
        n->is_woken = false;
        return true;
    }
    int rc = 1;
    while (rc == 1) {
        rc = node_follow_page(n);
    }
    if (rc == 0) {
        n->poll_at_ms = w->now_ms + POLL_MS;
        n->is_woken = false;
    }
    return rc == 0;
}
