/* SPDX-License-Identifier: MIT
 *
 * A node: it connects, judges the state of the store, begins its run, follows, writes in batches,
 * and tells. One step of it is one thing that takes place at once.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

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
    return n->is_up && !n->is_stopped && n->runs && n->is_connected && n->boot == e->boots &&
           !e->is_down;
}

void node_lose_connection(struct node *n)
{
    if (node_has_lock(n)) {
        engine_rollback(node_store(n));
    }
    n->is_connected = false;
}

/* ---- batches --------------------------------------------------------------------------------- */

bool node_submit(struct node *n, const struct job *job)
{
    if (!node_is_well(n) || n->job_count == JOBS) {
        return false;
    }
    n->jobs[n->job_count++] = *job;
    return true;
}

static void node_answer(struct node *n, size_t at, int code)
{
    struct job job = n->jobs[at];
    memmove(&n->jobs[at], &n->jobs[at + 1], (n->job_count - at - 1) * sizeof(job));
    n->job_count--;
    uint64_t positions[JOB_WRITES] = {0};
    for (size_t i = 0; code == 0 && i < n->own_count; i++) {
        for (unsigned k = 0; k < job.count; k++) {
            if (n->own[i].tag == job.tag && n->own[i].index == job.index[k] &&
                n->own[i].position > 0) {
                positions[k] = n->own[i].position;
            }
        }
    }
    writer_answer(&n->world->writers[job.writer], &job, code, positions);
}

/* The page that came with the lock is of before. */
static void node_end_batch(struct node *n)
{
    n->has_batch = false;
    n->has_next = n->has_next && n->world->fault == FAULT_PAGE_KEPT;
}

static void node_lose_batch(struct node *n, int code)
{
    node_end_batch(n);
    node_owned_done(n, false);
    while (n->in_batch > 0) {
        n->in_batch--;
        node_answer(n, 0, code);
    }
}

static int node_transact(struct node *n, struct job *job)
{
    struct world *w = n->world;
    struct entity_write writes[JOB_WRITES];
    struct entity_done done[JOB_WRITES];
    struct entity_problem problem;
    char text[64], key[24], digest[ENTITY_DIGEST_TEXT];
    (void)snprintf(text, sizeof text, "{\"t\":%llu}", (unsigned long long)job->tag);
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)job->key);
    for (unsigned i = 0; i < job->count; i++) {
        writes[i] = (struct entity_write){
            .op = ENTITY_UPSERT,
            .id = tidings_str(entity_name(job->index[i])),
            .type = STR("T"),
            .type_version = STR("1"),
            .changed_by = STR("[]"),
            .baseline = job->baseline[i],
            .valid_from = TIMELINE_NEVER,
        };
        if (jv_parse(tidings_str(text), 10, &writes[i].value, NULL) < 0) {
            abort();
        }
    }
    if (entity_digest(writes, job->count, digest) < 0) {
        abort();
    }
    const struct entity_transaction t = {
        .writes = writes,
        .count = job->count,
        .key = job->key > 0 ? tidings_str(key) : STR_EMPTY,
        .owner = STR("o"),
        .digest = tidings_str(digest),
        .now = 1000000 + (int64_t)w->now_ms + n->wall_ms,
    };
    arena_reset(&w->arena);
    n->current = job;
    int rc = entities_transact(n->entities, &t, &w->arena, done, &problem, NULL);
    n->current = NULL;
    for (unsigned i = 0; i < job->count; i++) {
        jv_unref(writes[i].value);
    }
    return rc < 0 && problem.reason == ENTITY_MEDIUM ? TIDINGS_E_BUSY : rc < 0 ? rc : 0;
}

static void node_run_job(struct node *n)
{
    struct engine *e = node_store(n);
    struct job *job = &n->jobs[n->in_batch];
    if (job->is_announcement) {
        const struct record r = {.kind = RECORD_ANNOUNCED, .index = job->index[0], .tag = job->tag};
        if (n->world->fault == FAULT_NO_LOCK && !e->has_late) {
            engine_late(e, &r);
            node_answer(n, n->in_batch, TIDINGS_E_UNKNOWN);
            return;
        }
        engine_add(e, &r);
        n->in_batch++;
        return;
    }
    int rc = node_transact(n, job);
    if (rc == TIDINGS_E_BUSY) {
        entities_rollback(n->entities);
        n->in_batch++;
        node_lose_batch(n, rc);
    } else if (rc < 0) {
        n->world->counts->conflicts++;
        node_answer(n, n->in_batch, rc);
    } else {
        n->in_batch++;
    }
}

static void node_tell_own(struct node *n)
{
    for (size_t i = 0; i < n->own_count; i++) {
        const struct record *r = &n->own[i];
        if (r->kind <= RECORD_OWNED) {
            if (n->world->fault != FAULT_EARLY) {
                node_tell(n, r);
            }
            runs_follow(n->runs, r->position, record_is_durable(r));
        } else if (r->kind == RECORD_RUN) {
            runs_add(n->runs, r->epoch, r->last);
            runs_follow(n->runs, r->position, true);
        }
    }
}

static void node_commit(struct node *n)
{
    struct engine *e = node_store(n);
    if (n->must_reopen && n->world->fault != FAULT_NO_REOPEN) {
        node_reopen(n);
    }
    if (n->world->fault == FAULT_EARLY) {
        for (size_t i = 0; i < e->open.count; i++) {
            if (e->open.records[i].kind <= RECORD_OWNED) {
                node_tell(n, &e->open.records[i]);
            }
        }
    }
    int rc = entities_commit(n->entities, NULL);
    if (rc < 0) {
        world_say(n->world, "node %u: batch lost (%d)", n->index, rc);
        if (n->world->fault == FAULT_UNKNOWN && n->own_count > 0) {
            runs_follow(n->runs, n->own[n->own_count - 1].position, true);
        }
        node_lose_batch(n, rc);
        return;
    }
    node_tell_own(n);
    node_end_batch(n);
    node_owned_done(n, true);
    while (n->in_batch > 0) {
        n->in_batch--;
        node_answer(n, 0, 0);
    }
    n->own_count = 0;
}

/* What there is to follow comes with the lock, where others wrote between the last two batches. */
static void node_begin(struct node *n)
{
    uint64_t followed = runs_followed(n->runs);
    if (entities_begin(n->entities, NULL) < 0) {
        return;
    }
    node_read_state(n);
    if (n->known < followed) {
        world_say(n->world, "node %u: the store went back", n->index);
        node_lose_connection(n);
        entities_rollback(n->entities);
        return;
    }
    if (n->reads_ahead && !n->has_next) {
        node_read_page(n, &n->next);
        n->next_after = followed;
        n->has_next = true;
    }
    n->reads_ahead = n->known > followed;
    if (n->world->fault != FAULT_NO_FOLLOW) {
        (void)node_follow(n);
    }
    n->has_batch = true;
    n->in_batch = n->own_count = 0;
}

static void node_batch(struct node *n)
{
    struct world *w = n->world;
    if (n->has_batch && !node_has_lock(n)) { /* the connection was lost meanwhile */
        entities_rollback(n->entities);
        node_lose_batch(n, TIDINGS_E_BUSY);
    } else if (!n->has_batch) {
        node_begin(n);
    } else if (node_wants_batch(n) && world_random(w, 2) > 0) {
        node_run_owned(n);
    } else if (n->in_batch < n->job_count && world_random(w, 4) > 0) {
        node_run_job(n);
    } else {
        node_commit(n);
    }
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
    if (n->runs) {
        node_own(n);
    }
    if (n->has_batch && !n->is_connected) {
        node_batch(n);
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
