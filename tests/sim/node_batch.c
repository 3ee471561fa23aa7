/* SPDX-License-Identifier: MIT
 *
 * A node writes in batches, in two ways. With the lock of the store; or without: it holds back the
 * decisions from its followed state and commits them by one statement, which does nothing if
 * another node committed since. Then the batch reruns, with the lock.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define AGAIN_MS 1000u /* for a connection */

bool node_submit(struct node *n, const struct job *job)
{
    if (!node_is_well(n) || n->job_count == JOBS) {
        return false;
    }
    n->jobs[n->job_count++] = *job;
    return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

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

/* Discards the batch. The page that arrived with the lock is outdated. */
static void node_end_batch(struct node *n)
{
    n->has_batch = n->is_unlocked = n->is_overtaken = n->is_in_doubt = n->must_lock = false;
    n->again = 0;
    n->has_next = n->has_next && n->world->fault == FAULT_PAGE_KEPT;
}

static void node_lose_batch(struct node *n, int code)
{
    bool is_in_doubt = n->is_in_doubt && n->world->fault != FAULT_DOUBT_FORGOTTEN;
    code = is_in_doubt ? TIDINGS_E_UNKNOWN : code;
    world_say(n->world, "node %u: batch lost (%d)", n->index, code);
    n->in_batch = n->again > n->in_batch ? n->again : n->in_batch;
    node_end_batch(n);
    node_owned_done(n, false);
    while (n->in_batch > 0) {
        n->in_batch--;
        node_answer(n, 0, code);
    }
}

/* ---- without the lock ------------------------------------------------------------------------ */

static bool node_may_do_without(const struct node *n)
{
    uint64_t followed = incarnations_followed(n->incarnations);
    return n->is_settled && !n->must_lock && !n->must_reopen && n->known == followed &&
           n->notified <= followed && n->notifications.notified <= followed;
}

static bool is_kept_back(const struct node *n, const struct record *r)
{
    bool is_known = r->kind <= RECORD_OWNED;
    for (size_t i = 0; i < n->pending_count; i++) {
        is_known = is_known && (r->kind == RECORD_ENTITY) == (n->pending[i].kind == RECORD_ENTITY);
    }
    return is_known && (r->kind != RECORD_ENTITY || !node_keeps_back(n, r->index));
}

bool node_keeps_back(const struct node *n, unsigned entity)
{
    bool is_there = false;
    for (size_t i = 0; n->is_unlocked && i < n->pending_count; i++) {
        is_there =
            is_there || (n->pending[i].kind == RECORD_ENTITY && n->pending[i].index == entity);
    }
    return is_there;
}

/* The held-back writes are in the transaction from here on. A node that would have to wait for the
 * lock is overtaken by its holder. */
bool node_take_lock(struct node *n)
{
    struct engine *e = node_store(n);
    if (!n->is_unlocked) {
        return node_has_lock(n);
    }
    n->is_overtaken = !n->is_connected || n->boot != e->boots || !engine_lock(e, n->index);
    if (n->is_overtaken) {
        return false;
    }
    n->is_overtaken = e->counter != n->base;
    for (size_t i = 0; !n->is_overtaken && i < n->pending_count; i++) {
        if (engine_apply(e, e->working, engine_add(e, &n->pending[i])) < 0) {
            abort();
        }
    }
    n->is_unlocked = n->is_overtaken; /* else it is one like others */
    if (n->is_overtaken) {
        engine_rollback(e);
    }
    return !n->is_overtaken;
}

struct record *node_add(struct node *n, const struct record *r)
{
    struct engine *e = node_store(n);
    if (n->is_unlocked && is_kept_back(n, r)) {
        n->pending =
            world_grow(n->pending, n->pending_count, &n->pending_room, sizeof(*n->pending));
        n->pending[n->pending_count] = *r;
        n->pending[n->pending_count].position = n->base + 1 + n->pending_count;
        return &n->pending[n->pending_count++];
    }
    return node_take_lock(n) ? engine_add(e, r) : NULL;
}

/* All of it is run again, from the first job on. */
static void node_run_again(struct node *n)
{
    world_say(n->world, "node %u is overtaken%s", n->index, n->is_in_doubt ? ", in doubt" : "");
    n->world->counts->overtaken++;
    n->again = n->in_batch;
    n->in_batch = 0;
    entities_rollback(n->entities);
    node_owned_done(n, false);
    n->has_batch = n->is_unlocked = n->is_overtaken = false;
    n->must_lock = true;
    n->again_until_ms = n->world->now_ms + AGAIN_MS;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

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

/* 0: it is in the batch. TIDINGS_E_BUSY: the batch is lost, or overtaken. */
static int node_do_job(struct node *n, struct job *job)
{
    struct engine *e = node_store(n);
    if (!job->is_announcement) {
        return node_transact(n, job);
    }
    const struct record r = {.kind = RECORD_ANNOUNCED, .index = job->index[0], .tag = job->tag};
    if (n->world->fault == FAULT_NO_LOCK && !e->has_late) {
        engine_late(e, &r);
        return TIDINGS_E_UNKNOWN;
    }
    return node_add(n, &r) ? 0 : TIDINGS_E_BUSY;
}

static void node_run_job(struct node *n)
{
    struct job *job = &n->jobs[n->in_batch];
    job->code = node_do_job(n, job);
    if (job->code == TIDINGS_E_BUSY) {
        n->in_batch++;
        if (n->is_overtaken) {
            node_run_again(n);
        } else {
            entities_rollback(n->entities);
            node_lose_batch(n, TIDINGS_E_BUSY);
        }
        return;
    }
    n->world->counts->conflicts += job->code < 0;
    /* A refusal may rest on what the batch wrote; without the lock, on what others overtake. */
    bool rests_on_batch = n->is_unlocked || n->in_batch > 0;
    if (job->code < 0 && (!rests_on_batch || n->world->fault == FAULT_REFUSED_EARLY)) {
        n->again -= n->in_batch < n->again;
        oracle_check_refusal(n, job);
        node_answer(n, n->in_batch, job->code);
    } else {
        n->in_batch++;
    }
}

/* ---- a batch --------------------------------------------------------------------------------- */

static void node_begin_unlocked(struct node *n)
{
    n->is_unlocked = true;
    n->base = incarnations_followed(n->incarnations);
    n->pending_count = n->in_batch = n->own_count = 0;
    n->has_batch = entities_begin(n->entities, NULL) == 0;
    n->world->counts->unlocked++;
}

/* The pending changes arrive with the lock, if other nodes wrote between the last two batches. */
static void node_begin(struct node *n)
{
    uint64_t followed = incarnations_followed(n->incarnations);
    if (entities_begin(n->entities, NULL) < 0) {
        return;
    }
    node_read_state(n);
    if (n->known < followed) {
        world_say(n->world, "node %u: the store went back", n->index);
        entities_rollback(n->entities);
        node_lose_connection(n);
        return;
    }
    if (n->is_in_doubt && n->known != n->doubted && n->world->fault != FAULT_DOUBT_IGNORED) {
        entities_rollback(n->entities);
        node_lose_batch(n, TIDINGS_E_UNKNOWN);
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
    n->has_batch = n->is_settled = true;
    n->in_batch = n->own_count = 0;
}

static void node_tell_own(struct node *n)
{
    for (size_t i = 0; i < n->own_count; i++) {
        const struct record *r = &n->own[i];
        if (r->kind <= RECORD_OWNED && n->world->fault != FAULT_EARLY) {
            node_tell(n, r);
        } else if (r->kind == RECORD_RUN) {
            incarnations_add(n->incarnations, r->epoch, r->last);
        }
        if (r->position > 0) {
            incarnations_follow(n->incarnations, r->position, record_is_durable(r));
            n->known = r->position;
        }
    }
}

static void node_tell_early(struct node *n)
{
    const struct engine *e = node_store(n);
    size_t count = n->is_unlocked ? n->pending_count : e->open.count;
    for (size_t i = 0; i < count; i++) {
        const struct record *r = n->is_unlocked ? &n->pending[i] : &e->open.records[i];
        if (r->kind <= RECORD_OWNED) {
            node_tell(n, r);
        }
    }
}

/* Once this commits, the remains of a lost connection cannot: the counter must advance, even if
 * there is nothing to write now. */
static void node_leave_doubt(struct node *n)
{
    struct engine *e = node_store(n);
    if (n->is_in_doubt && engine_next(e) == e->counter + 1) {
        engine_add(e, &(struct record){.kind = RECORD_SKIPPED});
    }
}

static void node_commit(struct node *n)
{
    const struct engine *e = node_store(n);
    if (n->is_unlocked && e->open.is_open) {
        return; /* its statement waits for the lock */
    }
    if (n->must_reopen && n->world->fault != FAULT_NO_REOPEN) {
        node_reopen(n);
    }
    if (!n->is_unlocked) {
        node_leave_doubt(n);
    }
    if (n->world->fault == FAULT_EARLY) {
        node_tell_early(n);
    }
    int rc = entities_commit(n->entities, NULL);
    if (rc < 0 && n->world->fault == FAULT_UNKNOWN && n->own_count > 0) {
        incarnations_follow(n->incarnations, n->own[n->own_count - 1].position, true);
    }
    if (rc < 0 && n->is_overtaken) {
        node_run_again(n);
        return;
    }
    if (rc < 0) {
        node_lose_batch(n, rc);
        return;
    }
    node_tell_own(n);
    node_end_batch(n);
    node_owned_done(n, true);
    while (n->in_batch > 0) {
        n->in_batch--;
        if (n->jobs[0].code < 0) {
            oracle_check_refusal(n, &n->jobs[0]);
        }
        node_answer(n, 0, n->jobs[0].code);
    }
    n->own_count = 0;
}

void node_batch_disconnected(struct node *n)
{
    if (n->has_batch && n->is_unlocked) {
        node_run_again(n);
    } else if (n->has_batch) {
        entities_rollback(n->entities);
        node_lose_batch(n, TIDINGS_E_BUSY);
    } else if (n->must_lock && n->world->now_ms > n->again_until_ms) {
        node_lose_batch(n, TIDINGS_E_BUSY);
    }
}

void node_batch(struct node *n)
{
    struct world *w = n->world;
    if (n->has_batch && !n->is_unlocked && !node_has_lock(n)) { /* it was lost in between */
        node_batch_disconnected(n);
    } else if (!n->has_batch && node_may_do_without(n) && world_random(w, 4) > 0) {
        node_begin_unlocked(n);
    } else if (!n->has_batch) {
        node_begin(n);
    } else if (n->in_batch < n->again) {
        node_run_job(n);
    } else if (node_wants_batch(n) && world_random(w, 2) > 0) {
        node_run_owned(n);
        if (n->is_overtaken) {
            node_run_again(n);
        }
    } else if (n->in_batch < n->job_count && world_random(w, 4) > 0) {
        node_run_job(n);
    } else {
        node_commit(n);
    }
}
