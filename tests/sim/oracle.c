/* SPDX-License-Identifier: MIT
 *
 * The true history, which no node knows, and checks of the promises.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void oracle_deinit(struct oracle *o)
{
    free(o->denied);
    free(o->given);
    free(o->losses);
    free(o->acknowledged);
}

/* ---- positions ------------------------------------------------------------------------------- */

static struct given *given_slot(const struct oracle *o, uint64_t position)
{
    size_t at = (size_t)(position * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (o->given_room - 1);
    while (o->given[at].position > 0 && o->given[at].position != position) {
        at = (at + 1) & (o->given_room - 1);
    }
    return &o->given[at];
}

static void given_grow(struct oracle *o)
{
    struct given *old = o->given;
    size_t room = o->given_room;
    o->given_room = room > 0 ? 2 * room : 1024;
    o->given = calloc(o->given_room, sizeof(*o->given));
    if (!o->given) {
        abort();
    }
    for (size_t i = 0; i < room; i++) {
        if (old[i].position > 0) {
            *given_slot(o, old[i].position) = old[i];
        }
    }
    free(old);
}

/* Compare-and-set: the version that the writer had read is the current one. */
static void oracle_check_version(struct world *w, const struct record *r)
{
    struct store *store = w->engine.committed;
    struct entity_version now;
    if (r->baseline == TIMELINE_NEVER) {
        return;
    }
    int rc =
        store->ops->find(store, tidings_str(entity_name(r->index)), TIMELINE_FOREVER, &now, NULL);
    bool is_same = r->read_position == w->engine.entity_position[r->index];
    if (rc != 1 || now.from != r->baseline || (!is_same && r->losses == w->oracle.loss_count)) {
        world_fail(w, "compare-and-set: e%u was at %llu, and is won from %llu", r->index,
                   (unsigned long long)w->engine.entity_position[r->index],
                   (unsigned long long)r->read_position);
    }
}

/* An owner's announcements come after its own truncation, and before that of the next owner. */
static void oracle_owned(struct world *w, const struct record *r)
{
    struct oracle *o = &w->oracle;
    w->counts->owned++;
    if (r->is_missed) {
        o->owner = r->index;
        o->owner_run = r->epoch;
        o->owner_term = r->tag;
    } else if (o->owner != r->index || o->owner_run != r->epoch || o->owner_term != r->tag) {
        world_fail(w, "owners: node %u announces at %llu, and node %u owns the mount", r->index,
                   (unsigned long long)r->position, o->owner);
    }
}

/* ---- what was refused ------------------------------------------------------------------------ */

static bool is_of_writer(const struct record *r, uint64_t tag)
{
    return (r->kind == RECORD_ENTITY || r->kind == RECORD_ANNOUNCED) && r->tag == tag;
}

void oracle_deny(struct world *w, uint64_t tag)
{
    struct oracle *o = &w->oracle;
    size_t room = o->denied_room;
    while (tag >= o->denied_room) {
        o->denied = world_grow(o->denied, o->denied_room, &o->denied_room, sizeof(*o->denied));
    }
    memset(o->denied + room, 0, (o->denied_room - room) * sizeof(*o->denied));
    o->denied[tag] = true;
    for (size_t i = 0; i < w->engine.count; i++) {
        if (is_of_writer(&w->engine.log[i], tag)) {
            world_fail(w, "atomic: transaction %llu is refused, and is there",
                       (unsigned long long)tag);
        }
    }
}

void oracle_read(struct node *n, unsigned index, int64_t from)
{
    struct world *w = n->world;
    bool has_lost = n->read_losses != w->oracle.loss_count;
    if (has_lost) {
        memset(n->read_from, 0, sizeof n->read_from);
        n->read_losses = w->oracle.loss_count;
    }
    if (from < n->read_from[index]) {
        world_fail(w, "ordered: at node %u e%u is read as it was before", n->index, index);
    }
    n->read_from[index] = from;
}

void oracle_check_refusal(const struct node *n, const struct job *job)
{
    struct world *w = n->world;
    struct store *store = w->engine.committed;
    struct entity_version now;
    bool is_right = job->losses != w->oracle.loss_count || job->code == TIDINGS_E_UNKNOWN;
    for (unsigned i = 0; i < job->count; i++) {
        int rc = store->ops->find(store, tidings_str(entity_name(job->index[i])), TIMELINE_FOREVER,
                                  &now, NULL);
        is_right = is_right || (rc == 1 && now.from != job->baseline[i]);
    }
    if (!is_right) {
        world_fail(w, "compare-and-set: transaction %llu is refused, and nobody was first",
                   (unsigned long long)job->tag);
    }
}

void oracle_commit(struct world *w, const struct record *r)
{
    struct oracle *o = &w->oracle;
    if (r->position == 0) {
        return;
    }
    if (r->tag < o->denied_room && o->denied[r->tag] && is_of_writer(r, r->tag)) {
        world_fail(w, "atomic: transaction %llu was refused, and is done",
                   (unsigned long long)r->tag);
    }
    if (2 * o->given_count >= o->given_room) {
        given_grow(o);
    }
    struct given *g = given_slot(o, r->position);
    if (g->position > 0) {
        world_fail(w, "positions: %llu is given a second time", (unsigned long long)r->position);
    }
    *g = (struct given){r->position, r->tag, r->kind, r->kind == RECORD_OWNED ? 0 : r->index};
    o->given_count++;
    o->highest = r->position > o->highest ? r->position : o->highest;
    if (r->kind == RECORD_ENTITY) {
        oracle_check_version(w, r);
    } else if (r->kind == RECORD_OWNED) {
        oracle_owned(w, r);
    } else if (r->kind == RECORD_ANNOUNCED) {
        /* After a failover one that is announced later may have a lower position. */
        uint64_t *ever = &o->announced_ever[r->index];
        *ever = r->position > *ever ? r->position : *ever;
    }
}

void oracle_told(struct world *w, unsigned kind, unsigned index, uint64_t position)
{
    const struct oracle *o = &w->oracle;
    const struct given *g = o->given_room > 0 ? given_slot(o, position) : NULL;
    enum record_kind wanted = kind == DURABLE    ? RECORD_ENTITY
                              : kind == UNLOGGED ? RECORD_ANNOUNCED
                                                 : RECORD_OWNED;
    if (!g || g->position == 0 || g->kind != wanted || g->index != index) {
        world_fail(w, "atomic: %llu is told and was never committed", (unsigned long long)position);
    }
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* Positions after it are given again, to others. */
static void oracle_forget(struct world *w, uint64_t kept)
{
    struct oracle *o = &w->oracle;
    struct given *old = o->given;
    size_t room = o->given_room;
    o->given = calloc(room, sizeof(*o->given));
    o->given_count = 0;
    if (!o->given) {
        abort();
    }
    memset(o->announced, 0, sizeof o->announced);
    memset(o->announced_ever, 0, sizeof o->announced_ever);
    for (size_t i = 0; i < room; i++) {
        const struct given *g = &old[i];
        if (g->position == 0 || g->position > kept) {
            continue;
        }
        *given_slot(o, g->position) = *g;
        o->given_count++;
        if (g->kind == RECORD_ANNOUNCED && g->position > o->announced[g->index]) {
            o->announced[g->index] = o->announced_ever[g->index] = g->position;
        }
    }
    free(old);
}

void oracle_lose(struct world *w, uint64_t kept, enum loss_kind kind)
{
    struct oracle *o = &w->oracle;
    o->losses = world_grow(o->losses, o->loss_count, &o->loss_room, sizeof(*o->losses));
    o->losses[o->loss_count++] = (struct loss){o->highest, kept, kind};
    if (kind >= LOSS_COPY && o->given_room > 0) {
        oracle_forget(w, kept);
    }
}

static bool loss_explains(const struct loss *l, const struct cursor *c, unsigned kind)
{
    if (l->kind == LOSS_FAILOVER || l->kind == LOSS_BRANCH ||
        (kind != DURABLE && l->kind != LOSS_COLD_COPY)) {
        return true;
    }
    return c->position > l->kept;
}

void oracle_broke(struct world *w, enum store_verdict verdict)
{
    struct oracle *o = &w->oracle;
    if (o->loss_count == 0 || (verdict != STORE_WENT_BACK && o->losses_seen == o->loss_count)) {
        world_fail(w, "epochs: a break is written down and nothing was lost");
    }
    if (verdict == STORE_WENT_BACK) { /* by a node that had followed what was lost before */
        oracle_lose(w, UINT64_MAX, LOSS_BRANCH);
    }
    o->losses_seen = o->loss_count;
}

/* Or not in the store: it began after the copy was made. */
static bool run_is_taken_for_dead(const struct engine *e, const struct cursor *c)
{
    for (size_t i = e->count; i-- > 0;) {
        if (e->log[i].kind == RECORD_RUN && e->log[i].epoch == c->epoch) {
            return e->log[i].last < c->position;
        }
    }
    return true;
}

void oracle_refused(struct world *w, const struct cursor *c, unsigned kind)
{
    const struct oracle *o = &w->oracle;
    bool is_right = run_is_taken_for_dead(&w->engine, c);
    for (size_t i = c->losses; i < o->loss_count; i++) {
        const struct loss *l = &o->losses[i];
        is_right = is_right || (c->position <= l->highest && loss_explains(l, c, kind));
    }
    if (!is_right) {
        world_fail(w, "resumable: %llx.%llu.%llu is refused, and nothing was lost since",
                   (unsigned long long)c->epoch, (unsigned long long)c->seq,
                   (unsigned long long)c->position);
    }
}

/* ---- leases, looks --------------------------------------------------------------------------- */

void oracle_leases(struct world *w)
{
    int holder = -1;
    for (unsigned i = 0; i < NODES; i++) {
        const struct node *n = &w->nodes[i];
        if (!n->is_up || !lease_is_held(&n->owner.lease, node_lease_clock(n))) {
            continue;
        }
        w->counts->acts++;
        if (holder >= 0) {
            world_fail(w, "leases: nodes %d and %u act at once", holder, i);
        }
        holder = (int)i;
    }
}

struct looking {
    uint64_t tags[ENTITIES];
};

static bool look_one(void *user, const struct entity_version *v)
{
    struct looking *l = user;
    l->tags[v->id.ptr[1] - '0'] = strtoull(v->value.ptr + 5, NULL, 10);
    return true;
}

/* All writes of a transaction are visible, or later ones in their place. */
void oracle_looked(struct world *w, const struct node *n)
{
    struct looking l = {{0}};
    const struct entity_scope all = {0};
    const struct engine *e = &w->engine;
    if (n->has_batch || entities_list(n->entities, &all, STR_EMPTY, look_one, &l, NULL) < 0) {
        return;
    }
    uint64_t position[ENTITIES] = {0};
    for (size_t i = 0; i < e->count; i++) {
        const struct record *r = &e->log[i];
        if (r->kind == RECORD_ENTITY && l.tags[r->index] == r->tag) {
            position[r->index] = r->position;
        }
    }
    for (size_t i = 0; i < e->count; i++) {
        const struct record *r = &e->log[i];
        for (unsigned k = 0; r->kind == RECORD_ENTITY && k < ENTITIES; k++) {
            if (l.tags[k] == r->tag && position[r->index] < r->position) {
                world_fail(w, "atomic: e%u of transaction %llu is seen, e%u is not", k,
                           (unsigned long long)r->tag, r->index);
            }
        }
    }
}

void oracle_acknowledge(struct world *w, unsigned index, uint64_t position, uint64_t tag)
{
    struct oracle *o = &w->oracle;
    o->acknowledged = world_grow(o->acknowledged, o->acknowledged_count, &o->acknowledged_room,
                                 sizeof(*o->acknowledged));
    o->acknowledged[o->acknowledged_count++] = (struct acknowledged){position, tag, index};
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool oracle_may_be_lost(const struct oracle *o, uint64_t position)
{
    for (size_t i = 0; i < o->loss_count; i++) {
        const struct loss *l = &o->losses[i];
        if (l->kind != LOSS_CRASH && position > l->kept && position <= l->highest) {
            return true;
        }
    }
    return false;
}

static void end_acknowledged(struct world *w)
{
    const struct oracle *o = &w->oracle;
    const struct engine *e = &w->engine;
    for (size_t i = 0; i < o->acknowledged_count; i++) {
        const struct acknowledged *a = &o->acknowledged[i];
        size_t at = a->position > 0 ? engine_find(e, a->position - 1) : 0;
        while (at < e->count && e->log[at].position == 0) {
            at++;
        }
        bool is_there = at < e->count && e->log[at].position == a->position &&
                        e->log[at].tag == a->tag && e->log[at].index == a->index;
        if (!is_there && !oracle_may_be_lost(o, a->position)) {
            world_fail(w, "acknowledged: e%u@%llu is gone", a->index,
                       (unsigned long long)a->position);
        }
    }
}

static void end_transactions(struct world *w)
{
    const struct engine *e = &w->engine;
    for (size_t i = 0; i < e->count; i++) {
        const struct record *r = &e->log[i];
        unsigned count = 0;
        for (size_t k = i; r->kind == RECORD_ENTITY && k < e->count; k++) {
            const struct record *other = &e->log[k];
            if (other->kind != RECORD_ENTITY || other->tag != r->tag) {
                continue;
            }
            count++;
            if (other->commit != r->commit || (k > i && other->index == r->index)) {
                world_fail(w, "atomic: transaction %llu is there more than once",
                           (unsigned long long)r->tag);
            }
        }
        bool is_first =
            i == 0 || e->log[i - 1].kind != RECORD_ENTITY || e->log[i - 1].tag != r->tag;
        if (r->kind == RECORD_ENTITY && is_first && count != r->writes) {
            world_fail(w, "atomic: transaction %llu has %u of %u writes",
                       (unsigned long long)r->tag, count, r->writes);
        }
    }
}

static void end_clients(struct world *w)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct client *c = &w->clients[i];
        for (unsigned k = 0; k < ENTITIES; k++) {
            uint64_t known = c->beliefs[DURABLE].known[k], is = w->engine.entity_position[k];
            if (known != is) {
                world_fail(w, "reliable: client %u knows e%u@%llu, there is %llu", i, k,
                           (unsigned long long)known, (unsigned long long)is);
            }
        }
        for (unsigned k = 0; k < ANNOUNCED; k++) {
            uint64_t known = c->beliefs[UNLOGGED].known[k], is = w->oracle.announced[k];
            if (known < is) {
                world_fail(w, "reliable: client %u knows a%u@%llu, announced was %llu", i, k,
                           (unsigned long long)known, (unsigned long long)is);
            }
        }
        if (c->beliefs[OWNED].known[0] != w->outside) {
            world_fail(w, "reliable: client %u knows version %llu of the mount, there is %llu", i,
                       (unsigned long long)c->beliefs[OWNED].known[0],
                       (unsigned long long)w->outside);
        }
    }
}

static void end_runs(struct world *w)
{
    const struct engine *e = &w->engine;
    for (unsigned i = 0; i < NODES; i++) {
        const struct cursor newest = {.epoch = w->nodes[i].epoch, .position = UINT64_MAX - 1};
        if (run_is_taken_for_dead(e, &newest)) {
            world_fail(w, "epochs: node %u lives and its run has ended", i);
        }
    }
}

/* At rest the newest cursor of each node is valid on every other. */
static void end_cursors(struct world *w)
{
    for (unsigned i = 0; i < NODES * NODES; i++) {
        struct node *at = &w->nodes[i / NODES], *of = &w->nodes[i % NODES];
        uint64_t position = incarnations_followed(of->incarnations), number = 0;
        for (unsigned kind = 0; kind < KINDS; kind++) {
            if (incarnations_resume(at->incarnations, of->epoch, position, kind == DURABLE,
                                    &number) == INCARNATIONS_REFUSED) {
                world_fail(w, "resumable: node %u refuses the newest cursor of node %u", at->index,
                           of->index);
            }
        }
    }
}

void oracle_end(struct world *w)
{
    end_clients(w);
    end_acknowledged(w);
    end_transactions(w);
    end_runs(w);
    end_cursors(w);
}
