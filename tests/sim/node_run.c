/* SPDX-License-Identifier: MIT
 *
 * A node's connection: it judges the state of the store, says when it was broken, begins its run
 * and its log, and says that it lives.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"
#include "store/change.h"

struct engine *node_store(const struct node *n)
{
    return &n->world->engine;
}

void record_uri(const struct record *r, char out[8])
{
    char kind = r->kind == RECORD_ENTITY ? 'e' : r->kind == RECORD_OWNED ? 'o' : 'a';
    (void)snprintf(out, 8, "%c:%u", kind, r->kind == RECORD_OWNED ? 0 : r->index % 10);
}

struct change *record_change(const struct record *r, uint64_t epoch, uint64_t seq)
{
    char uri[8];
    record_uri(r, uri);
    struct change *c =
        r->is_missed ? change_create_missed(tidings_str(uri), epoch, seq)
                     : change_create(&(struct tidings_change){.uri = tidings_str(uri)}, epoch, seq);
    if (!c) {
        abort();
    }
    return c;
}

/* All rows of runs and breaks. */
void node_read_runs(struct node *n)
{
    const struct engine *e = node_store(n);
    for (size_t i = 0; i < e->count; i++) {
        const struct record *r = &e->log[i];
        if (r->kind == RECORD_RUN) {
            incarnations_add(n->incarnations, r->epoch, r->last);
        } else if (r->kind == RECORD_BREAK) {
            incarnations_add_loss(n->incarnations, &r->broken);
        }
    }
}

/* Under the lock; it is held afterwards too. */
void node_judge(struct node *n)
{
    struct engine *e = node_store(n);
    struct world *w = n->world;
    struct store_state state;
    struct data_loss b = {0};
    if (w->fault == FAULT_NO_JUDGE) {
        return;
    }
    engine_state(e, &state);
    enum store_verdict verdict =
        incarnations_check(n->incarnations, &state, world_random(w, UINT64_MAX), &b);
    if (verdict == STORE_OTHER) {
        world_fail(w, "node %u takes the store for another cluster's", n->index);
    }
    if (verdict == STORE_SAME) {
        return;
    }
    if (w->fault == FAULT_NO_JUMP) {
        b.began = b.kept + 1;
    }
    world_say(w, "node %u writes down a break (%d%s): %llu .. %llu", n->index, (int)verdict,
              b.is_lossy ? ", lossy" : "", (unsigned long long)b.kept, (unsigned long long)b.began);
    oracle_broke(w, verdict);
    w->counts->data_losses++;
    engine_add(e, &(struct record){.kind = RECORD_BREAK,
                                   .position = b.began,
                                   .broken = b,
                                   .losses = w->oracle.loss_count,
                                   .server = e->server,
                                   .at_ms = engine_now(e)});
    engine_commit(e, true);
    e->has_crash_mark = true;
    (void)engine_lock(e, n->index);
}

static bool run_is_open(const struct engine *e, size_t at)
{
    for (size_t i = at + 1; i < e->count; i++) {
        if (e->log[i].kind == RECORD_RUN && e->log[i].epoch == e->log[at].epoch) {
            return false;
        }
    }
    return e->log[at].last == INCARNATION_LIVES;
}

/* Positions of runs whose nodes are dead. */
static void node_end_runs(struct node *n)
{
    struct engine *e = node_store(n);
    uint64_t last = e->counter;
    for (size_t i = 0; i < e->count; i++) {
        const struct record *r = &e->log[i];
        if (r->kind == RECORD_RUN && run_is_open(e, i) &&
            (r->index == n->index || e->lives_until[r->index] < engine_now(e))) {
            engine_add(e,
                       &(struct record){
                           .kind = RECORD_RUN, .epoch = r->epoch, .last = last, .index = r->index});
        }
    }
}

/* The log, rebuilt after a start. */
static void node_rebuild(struct node *n)
{
    const struct engine *e = node_store(n);
    for (size_t i = 0; i < e->count; i++) {
        const struct record *r = &e->log[i];
        if (r->kind <= RECORD_OWNED && !r->is_gone) {
            struct change *c = record_change(r, n->epoch, r->position);
            c->position = r->position;
            (void)n->log->ops->append(n->log, c);
            change_unref(c);
        }
    }
    node_read_runs(n);
    /* Announcements from before a break are lost, so the node cannot update clients that come from
     * there. */
    uint64_t broken =
        n->world->fault == FAULT_CRASH_FORGOTTEN ? 0 : incarnations_newest_loss(n->incarnations);
    n->log->ops->note_gap(n->log, broken > e->announced_floor ? broken : e->announced_floor);
}

static void node_begin_run(struct node *n)
{
    struct engine *e = node_store(n);
    struct world *w = n->world;
    const struct changelog_limits limits = {world_random(w, 3) == 0 ? 7 : 1000, 1u << 30, 0};
    n->losses = w->oracle.loss_count;
    node_end_runs(n);
    uint64_t first = n->losses_seq = engine_next(e);
    n->log = changelog_memory_create_at(&limits, first, NULL);
    n->epoch = n->log->ops->epoch(n->log);
    if (incarnations_create(CLUSTER_ID, n->epoch, first, &n->incarnations, NULL) < 0 ||
        !position_map_init(&n->marks, first)) {
        abort();
    }
    engine_add(e, &(struct record){.kind = RECORD_RUN,
                                   .epoch = n->epoch,
                                   .last = INCARNATION_LIVES,
                                   .index = n->index});
    engine_commit(e, true);
    node_rebuild(n);
    n->rows = sim_rows_create(n);
    if (entities_open(n->rows, &n->entities, NULL) < 0) {
        abort();
    }
    if (e->boots % 2 == 1) { /* from an earlier run */
        engine_replay(e, n);
    }
    world_say(w, "node %u begins run %llx at %llu", n->index, (unsigned long long)n->epoch,
              (unsigned long long)first);
}

void node_reopen(struct node *n)
{
    struct engine *e = node_store(n);
    engine_add(e, &(struct record){.kind = RECORD_RUN,
                                   .epoch = n->epoch,
                                   .last = INCARNATION_LIVES,
                                   .index = n->index});
    n->must_reopen = false;
    world_say(n->world, "node %u lives", n->index);
}

static bool is_ended(const struct node *n)
{
    const struct engine *e = node_store(n);
    for (size_t i = e->count; i-- > 0;) {
        if (e->log[i].kind == RECORD_RUN && e->log[i].epoch == n->epoch) {
            return e->log[i].last != INCARNATION_LIVES;
        }
    }
    return true; /* lost */
}

void node_connect(struct node *n)
{
    struct engine *e = node_store(n);
    struct world *w = n->world;
    n->connect_at_ms = w->now_ms + 500;
    if (e->is_down || n->is_cut || e->open.is_open) {
        return;
    }
    n->is_connected = true;
    n->boot = e->boots;
    n->place = engine_place(e);
    (void)engine_lock(e, n->index);
    e->lives_until[n->index] = engine_now(e) + LIVES_MS;
    node_judge(n);
    if (!n->incarnations) {
        node_begin_run(n);
        return;
    }
    if (w->fault != FAULT_NO_REOPEN && is_ended(n)) {
        node_reopen(n);
    }
    engine_commit(e, true);
    world_say(w, "node %u is connected", n->index);
    n->is_woken = true; /* it missed the earlier notifications */
}

void node_kill(struct node *n)
{
    struct world *w = n->world;
    for (size_t i = 0; i < n->job_count; i++) {
        writer_answer(&w->writers[n->jobs[i].writer], &n->jobs[i], TIDINGS_E_UNKNOWN, NULL);
    }
    node_lose_connection(n);
    entities_close(n->entities);
    incarnations_destroy(n->incarnations);
    if (n->log) {
        n->log->ops->destroy(n->log);
    }
    position_map_deinit(&n->marks);
    latest_clear(&n->heads);
    notifications_clear(&n->notifications);
    free(n->own);
    free(n->pending);
    struct node fresh = {.world = w, .index = n->index, .rate = n->rate, .wall_ms = n->wall_ms};
    fresh.is_cut = n->is_cut;
    *n = fresh;
}
