/* SPDX-License-Identifier: MIT
 *
 * The store that the nodes share: a log of commits, of which a part is on the disk and a part on
 * the standby. Everything else follows from it, so a crash truncates the log and restarts.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/memory_store.h"

const char *entity_name(unsigned index)
{
    static const char *const names[ENTITIES] = {"e0", "e1", "e2", "e3", "e4", "e5"};
    return names[index];
}

int64_t engine_now(const struct engine *e)
{
    return (int64_t)e->world->now_ms + e->clock_ms;
}

static bool has_position(enum record_kind kind)
{
    return kind < RECORD_KEY;
}

/* Nothing is kept of it but that it happened. */
static bool is_announced(enum record_kind kind)
{
    return kind == RECORD_ANNOUNCED || kind == RECORD_OWNED;
}

/* ---- what the log says ----------------------------------------------------------------------- */

struct entity_version record_version(const struct record *r)
{
    return (struct entity_version){
        .id = tidings_str(entity_name(r->index)),
        .type = STR("T"),
        .type_version = STR("1"),
        .value = tidings_str(r->value),
        .previous = tidings_str(r->previous),
        .changed_by = STR("[]"),
        .from = r->from,
        .to = TIMELINE_FOREVER,
        .since = r->since,
        .created = r->created,
    };
}

int engine_apply(struct engine *e, struct store *store, const struct record *r)
{
    struct entity_version now;
    if (r->kind == RECORD_ENTITY) {
        const struct entity_version v = record_version(r);
        if (!r->instead && store->ops->find(store, v.id, TIMELINE_FOREVER, &now, NULL) == 1 &&
            now.from >= v.from) {
            world_fail(e->world, "compare-and-set: e%u is written below what is there", r->index);
        }
        return store->ops->put(store, &v, r->instead, NULL);
    }
    if (r->kind == RECORD_KEY) {
        return store->ops->put_key(store,
                                   &(struct entity_key){.owner = STR("o"),
                                                        .key = tidings_str(r->key),
                                                        .digest = tidings_str(r->digest),
                                                        .text = tidings_str(r->text),
                                                        .at = r->at_ms},
                                   NULL);
    }
    return 0;
}

static void engine_learn(struct engine *e, const struct record *r)
{
    e->counter = has_position(r->kind) ? r->position : e->counter;
    switch (r->kind) {
    case RECORD_ENTITY:
        e->entity_position[r->index] = r->position;
        break;
    case RECORD_BREAK:
        if (e->data_loss_count == INCARNATIONS_LOSSES_MAX) {
            memmove(e->data_losses, e->data_losses + 1,
                    --e->data_loss_count * sizeof(e->data_losses[0]));
        }
        e->data_losses[e->data_loss_count++] = r->broken;
        e->recorded = r->server;
        e->lossy_ms = r->broken.is_lossy ? r->at_ms : e->lossy_ms;
        break;
    case RECORD_LEASE:
        e->lease_holder = r->index;
        e->lease_until = r->at_ms;
        break;
    case RECORD_SESSION:
    case RECORD_SESSION_STATE:
        e->sessions[r->index] = r->session;
        break;
    case RECORD_ANNOUNCED:
    case RECORD_OWNED:
    case RECORD_RUN:
    case RECORD_SKIPPED:
    case RECORD_KEY:
        break;
    }
}

static struct store *rows_anew(struct store *old)
{
    if (old) {
        old->ops->destroy(old);
    }
    struct store *store = memory_store_create(NULL);
    const struct entity_type_row type = {STR("T"), STR("1"), STR("{\"type\":\"object\"}"),
                                         STR_EMPTY, STR_EMPTY};
    if (!store || store->ops->begin(store, NULL) < 0 ||
        store->ops->put_type(store, &type, NULL) < 0 || store->ops->commit(store, NULL) < 0) {
        abort();
    }
    return store;
}

static void engine_rebuild(struct engine *e)
{
    e->committed = rows_anew(e->committed);
    e->working = rows_anew(e->working);
    struct store *both[] = {e->committed, e->working};
    e->counter = 0;
    e->data_loss_count = 0;
    e->recorded = 1;
    e->lossy_ms = INT64_MIN;
    e->lease_until = INT64_MIN;
    memset(e->entity_position, 0, sizeof(e->entity_position));
    memset(e->sessions, 0, sizeof(e->sessions));
    for (size_t i = 0; i < e->count; i++) {
        engine_learn(e, &e->log[i]);
    }
    for (size_t k = 0; k < 2; k++) {
        (void)both[k]->ops->begin(both[k], NULL);
        for (size_t i = 0; i < e->count; i++) {
            (void)engine_apply(e, both[k], &e->log[i]);
        }
        (void)both[k]->ops->commit(both[k], NULL);
    }
}

void engine_init(struct engine *e, struct world *w)
{
    *e = (struct engine){.world = w, .server = 1, .servers = 1, .has_crash_mark = true};
    e->is_synchronous = world_random(w, 2) == 0;
    e->lag = world_random(w, 2) == 0 ? 6 : 300;
    e->announced_max = world_random(w, 3) == 0 ? 1000 : 2 + world_random(w, 8);
    engine_rebuild(e);
}

void engine_deinit(struct engine *e)
{
    e->committed->ops->destroy(e->committed);
    e->working->ops->destroy(e->working);
    for (size_t i = 0; i < SAID; i++) {
        free(e->said[i]);
    }
    free(e->log);
    free(e->open.records);
}

/* ---- transactions ---------------------------------------------------------------------------- */

/* In the open one. */
struct record *engine_add(struct engine *e, const struct record *r)
{
    struct transaction *t = &e->open;
    t->records = world_grow(t->records, t->count, &t->room, sizeof(*t->records));
    t->records[t->count] = *r;
    if (has_position(r->kind) && r->position == 0) {
        t->records[t->count].position = engine_next(e);
    }
    return &t->records[t->count++];
}

uint64_t engine_next(const struct engine *e)
{
    uint64_t next = e->counter + 1;
    if (e->has_late && e->late.position >= next) {
        next = e->late.position + 1;
    }
    for (size_t i = e->open.count; i-- > 0;) {
        if (has_position(e->open.records[i].kind)) {
            return e->open.records[i].position + 1;
        }
    }
    return next;
}

bool engine_lock(struct engine *e, unsigned node)
{
    if (e->open.is_open) {
        return false;
    }
    e->open.is_open = true;
    e->open.node = node;
    e->open_at_ms = e->world->now_ms;
    (void)e->working->ops->begin(e->working, NULL);
    return true;
}

/* The newest announcements are kept. */
static void engine_trim(struct engine *e)
{
    uint64_t count = 0;
    for (size_t i = e->count; i-- > 0;) {
        struct record *r = &e->log[i];
        if (is_announced(r->kind) && !r->is_gone && ++count > e->announced_max) {
            r->is_gone = true;
            e->announced_floor =
                r->position > e->announced_floor ? r->position : e->announced_floor;
        }
    }
}

static void engine_append(struct engine *e, const struct record *r)
{
    oracle_commit(e->world, r);
    e->log = world_grow(e->log, e->count, &e->room, sizeof(*e->log));
    e->log[e->count] = *r;
    e->log[e->count].commit = e->commits;
    engine_learn(e, &e->log[e->count++]);
}

/* The lock is free afterwards. */
void engine_commit(struct engine *e, bool is_synced)
{
    struct transaction *t = &e->open;
    bool has_announced = false;
    (void)e->committed->ops->begin(e->committed, NULL);
    e->commits++;
    for (size_t i = 0; i < t->count; i++) {
        engine_append(e, &t->records[i]);
        has_announced = has_announced || is_announced(t->records[i].kind);
        if (engine_apply(e, e->committed, &t->records[i]) < 0) {
            abort();
        }
    }
    (void)e->committed->ops->commit(e->committed, NULL);
    (void)e->working->ops->commit(e->working, NULL);
    if (is_synced) {
        e->flushed = e->count;
        e->replicated = e->is_synchronous ? e->count : e->replicated;
    }
    if (has_announced) {
        engine_trim(e);
    }
    e->world->counts->commits++;
    engine_notify(e, t->records, t->count);
    t->count = 0;
    t->is_open = t->is_sent = false;
}

bool engine_execute(struct engine *e, const struct statement *s)
{
    enum fault fault = e->world->fault;
    if (e->counter != s->base && fault != FAULT_NO_CONDITION && fault != FAULT_NOT_AGAIN) {
        return false;
    }
    bool is_durable = false;
    (void)engine_lock(e, s->node);
    for (size_t i = 0; i < s->count; i++) {
        struct record r = s->records[i];
        r.position = fault == FAULT_NOT_AGAIN ? 0 : r.position;
        is_durable = is_durable || r.kind != RECORD_ANNOUNCED;
        (void)engine_apply(e, e->working, engine_add(e, &r));
    }
    engine_commit(e, is_durable && fault != FAULT_ASYNC);
    return true;
}

void engine_leave(struct engine *e, const struct statement *s)
{
    if (e->orphan_count < ORPHANS) { /* else it never arrived */
        e->orphans[e->orphan_count++] = *s;
    }
}

static void engine_step_orphans(struct engine *e)
{
    struct world *w = e->world;
    if (e->orphan_count == 0 || e->open.is_open || e->is_down ||
        !(w->is_calm || world_chance(w, 8))) {
        return;
    }
    size_t at = world_random(w, e->orphan_count);
    struct statement s = e->orphans[at];
    e->orphans[at] = e->orphans[--e->orphan_count];
    bool is_done = world_random(w, 3) > 0 && engine_execute(e, &s);
    w->counts->orphans += is_done;
    world_say(w, "a statement of node %u at %llu that nobody waits for is %s", s.node,
              (unsigned long long)s.base, is_done ? "done" : "not done");
}

void engine_write(struct engine *e, const struct record *r)
{
    e->commits++;
    engine_append(e, r);
    e->flushed = e->count;
    e->replicated = e->is_synchronous ? e->count : e->replicated;
}

/* A position is taken, and the commit comes later. */
void engine_late(struct engine *e, const struct record *r)
{
    e->late = *r;
    e->late.position = engine_next(e);
    e->has_late = true;
}

void engine_rollback(struct engine *e)
{
    e->working->ops->rollback(e->working);
    e->open.count = 0;
    e->open.is_open = e->open.is_sent = false;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* The end of a commit, at or after `from`. */
static size_t engine_boundary(struct engine *e, size_t from)
{
    size_t at = from + world_random(e->world, e->count - from + 1);
    while (at > 0 && at < e->count && e->log[at].commit == e->log[at - 1].commit) {
        at++;
    }
    return at;
}

static void engine_cut(struct engine *e, size_t kept, enum loss_kind kind)
{
    static const char *const names[] = {"crashed", "failed over", "", "is an older copy",
                                        "is an older copy, cold"};
    if (e->open.is_open) {
        engine_rollback(e);
    }
    uint64_t before = e->counter;
    e->has_late = false;
    e->orphan_count = 0;
    memset(e->lives_until, 0, sizeof(e->lives_until));
    e->count = kept;
    e->flushed = kept;
    e->replicated = e->replicated < kept && kind == LOSS_CRASH ? e->replicated : kept;
    e->boots++;
    e->is_down = true;
    e->up_at_ms = e->world->now_ms + world_random(e->world, 3000);
    if (kind != LOSS_COLD_COPY) {
        for (size_t i = 0; i < e->count; i++) {
            e->log[i].is_gone = is_announced(e->log[i].kind);
        }
        e->announced_floor = 0;
        e->has_crash_mark = false;
    }
    engine_rebuild(e);
    e->announced_floor = e->announced_floor < e->counter ? e->announced_floor : e->counter;
    oracle_lose(e->world, e->counter, kind);
    world_say(e->world, "store %s: counter %llu -> %llu", names[kind], (unsigned long long)before,
              (unsigned long long)e->counter);
}

void engine_crash(struct engine *e)
{
    e->world->counts->crashes++;
    engine_cut(e, engine_boundary(e, e->flushed), LOSS_CRASH);
}

void engine_fail_over(struct engine *e)
{
    e->world->counts->failovers++;
    e->server = ++e->servers;
    e->clock_ms = (int64_t)world_random(e->world, 120000) - 60000;
    engine_cut(e, engine_boundary(e, e->replicated), LOSS_FAILOVER);
}

/* Returns true if this client was behind its node when the copy was overtaken. Then it may have
 * received a change after `kept` that its cursor does not show, or may have missed an earlier
 * change that a later one replaced. No node can detect that after an older copy is restored, so the
 * client reads everything. */
static bool is_beyond(const struct client *c, uint64_t kept)
{
    bool is_told = false;
    for (unsigned i = 0; i < ENTITIES; i++) {
        is_told =
            is_told || c->beliefs[DURABLE].known[i] > kept || c->beliefs[UNLOGGED].known[i] > kept;
    }
    bool is_behind = c->cursor.position <= kept && c->cursor.horizon > kept;
    return is_behind || (is_told && (c->is_session || c->cursor.position <= kept));
}

/* As an administrator does it, with all nodes down. */
void engine_put_back(struct engine *e)
{
    struct world *w = e->world;
    bool is_cold = e->has_crash_mark && world_random(w, 2) == 0;
    size_t kept = engine_boundary(e, e->count / 2);
    uint64_t counter = 0;
    for (size_t i = 0; i < kept; i++) {
        counter = e->log[i].position > 0 ? e->log[i].position : counter;
    }
    for (size_t i = kept; is_cold && i < e->count; i++) {
        if (e->log[i].kind == RECORD_BREAK) {
            return; /* a copy from before a crash has announcements that are unknown here */
        }
    }
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *c = &w->clients[i];
        if (is_beyond(c, counter)) {
            for (unsigned k = 0; k < KINDS; k++) {
                c->beliefs[k].must_look = true;
            }
        }
    }
    for (unsigned i = 0; i < NODES; i++) {
        node_kill(&w->nodes[i]);
    }
    w->counts->copies++;
    engine_cut(e, kept, is_cold ? LOSS_COLD_COPY : LOSS_COPY);
}

void engine_step(struct engine *e)
{
    struct world *w = e->world;
    if (e->is_down && w->now_ms >= e->up_at_ms) {
        e->is_down = false;
    }
    if (e->open.is_sent && (w->is_calm || world_chance(w, 4))) {
        bool is_done = world_random(w, 2) == 0;
        world_say(w, "a commit that nobody waits for is %s", is_done ? "done" : "not done");
        if (is_done) {
            engine_commit(e, true);
        } else {
            engine_rollback(e);
        }
    }
    engine_step_orphans(e);
    const struct node *n = &w->nodes[e->open.node];
    if (e->open.is_open && !e->open.is_sent && n->is_stopped && w->now_ms - e->open_at_ms > 2000) {
        world_say(w, "node %u has the lock and does nothing: cut", n->index);
        node_lose_connection(&w->nodes[n->index]);
    }
    if (e->has_late && !e->is_down && world_random(w, 10) == 0) {
        e->commits++;
        e->has_late = false;
        engine_append(e, &e->late);
        engine_notify(e, &e->late, 1);
    }
    if (w->is_calm || world_chance(w, 6)) {
        e->flushed = engine_boundary(e, e->flushed);
    }
    if (w->is_calm || world_chance(w, e->lag)) {
        e->replicated = engine_boundary(e, e->replicated);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The first record above that position. */
size_t engine_find(const struct engine *e, uint64_t position)
{
    size_t at = e->count;
    while (at > 0 && (!has_position(e->log[at - 1].kind) || e->log[at - 1].position > position)) {
        at--;
    }
    return at;
}

void engine_state(const struct engine *e, struct store_state *ret)
{
    *ret = (struct store_state){
        .cluster = CLUSTER_ID,
        .server = e->server,
        .recorded = e->recorded,
        .has_crash_mark = e->has_crash_mark,
        .position = e->counter,
        .data_losses = e->data_losses,
        .data_loss_count = e->data_loss_count,
    };
}
