/* SPDX-License-Identifier: MIT
 *
 * Clients: they follow everything, and there are two kinds. A modern client takes its cursor to any
 * node it connects to. A legacy client has a session that a node keeps, and brings the id of the
 * last event that arrived: later events on its stream are lost with the stream.
 *
 * A client may be ahead of its cursor for one kind, because the cursor covers both: as with
 * subscriptions that wait for the end of a window.
 */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/change.h"

void client_init(struct client *c, struct world *w, unsigned index)
{
    *c = (struct client){.world = w, .index = index, .node = -1, .is_session = index % 2 == 1};
}

static struct node *node_of_client(const struct client *c)
{
    return c->node >= 0 ? &c->world->nodes[c->node] : NULL;
}

static bool is_serving(const struct node *n)
{
    return n->is_up && !n->is_stopped && n->incarnations;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* The turn is not enough: if a server takes over without knowing the last turn, that turn occurs
 * twice. */
static bool session_is_ours(const struct node *n, unsigned session)
{
    const struct session_state *is = &n->world->engine.sessions[session];
    return is->turn == n->sessions[session].turn &&
           (is->node == n->index || n->world->fault == FAULT_TURN_ALONE);
}

bool node_session_open(struct node *n, unsigned session)
{
    struct engine *e = &n->world->engine;
    if (!node_is_well(n)) {
        return false;
    }
    /* It may have been taken, and this node has not followed that yet. */
    if (n->has_session[session] && n->world->fault == FAULT_SESSION_BELIEVED) {
        return true;
    }
    if (n->has_session[session] && session_is_ours(n, session)) {
        /* A server that took over may know an older state of it. */
        if (e->sessions[session].options != n->sessions[session].options) {
            (void)node_session_write(n, session, n->sessions[session].options);
        }
        return n->has_session[session];
    }
    if (!engine_lock(e, n->index)) {
        return false;
    }
    struct session_state s = e->sessions[session];
    s.node = n->index;
    s.turn++;
    engine_add(e, &(struct record){.kind = RECORD_SESSION, .index = session, .session = s});
    engine_commit(e, true);
    n->has_session[session] = true;
    n->sessions[session] = s;
    n->world->counts->taken++;
    world_say(n->world, "node %u takes session %u: turn %llu, options %llu", n->index, session,
              (unsigned long long)s.turn, (unsigned long long)s.options);
    return true;
}

int node_session_write(struct node *n, unsigned session, uint64_t options)
{
    struct engine *e = &n->world->engine;
    if (!node_is_well(n)) {
        return TIDINGS_E_BUSY;
    }
    struct session_state s = n->sessions[session];
    s.options = options;
    if (!session_is_ours(n, session) && n->world->fault != FAULT_NO_TURN) {
        n->has_session[session] = false;
        return TIDINGS_E_CONFLICT;
    }
    engine_write(e, &(struct record){.kind = RECORD_SESSION_STATE, .index = session, .session = s});
    n->sessions[session] = s;
    world_say(n->world, "node %u writes session %u: turn %llu, options %llu", n->index, session,
              (unsigned long long)s.turn, (unsigned long long)s.options);
    return 0;
}

/* A server that took over may not know what was acknowledged. */
static void session_check(struct client *c, const struct node *n)
{
    const struct session_state *s = &n->sessions[c->index];
    const struct oracle *o = &c->world->oracle;
    if (s->options >= c->acknowledged) {
        return;
    }
    if (o->loss_count == c->losses) {
        world_fail(c->world, "sessions: client %u had %llu acknowledged, node %u has %llu",
                   c->index, (unsigned long long)c->acknowledged, n->index,
                   (unsigned long long)s->options);
    }
    c->acknowledged = s->options;
    c->losses = o->loss_count;
}

static void session_change(struct client *c, struct node *n)
{
    int rc = node_session_write(n, c->index, ++c->options);
    if (rc == 0) {
        c->acknowledged = c->options;
        c->losses = c->world->oracle.loss_count;
    } else if (rc == TIDINGS_E_CONFLICT) {
        c->node = -1;
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Everything of all kinds up to here was written to the client's stream. */
static struct cursor client_written(const struct client *c, const struct node *n)
{
    uint64_t seq = UINT64_MAX;
    for (unsigned k = 0; k < KINDS; k++) {
        seq = c->beliefs[k].told_to < seq ? c->beliefs[k].told_to : seq;
    }
    return (struct cursor){.epoch = n->epoch,
                           .seq = seq,
                           .position = position_map_find(&n->marks, seq),
                           .is_set = true,
                           .losses = seq >= n->losses_seq ? n->losses : 0,
                           .horizon = incarnations_followed(n->incarnations)};
}

static void client_look_again(struct client *c, unsigned kind)
{
    c->beliefs[kind].must_look = true;
    c->world->counts->truncated++;
}

/* The changes up to `told_to`: delivered at once, or on the stream of a session. */
static void client_write_look(struct client *c, const struct node *n, unsigned kind,
                              uint64_t told_to)
{
    c->beliefs[kind].told_to = told_to;
    if (!c->is_session) {
        client_look_again(c, kind);
        return;
    }
    c->flight[c->flight_count++] =
        (struct flight){.kind = kind, .is_look = true, .id = client_written(c, n)};
}

static bool client_is_full(const struct client *c)
{
    return c->flight_count == FLIGHT;
}

/* ---- coming ---------------------------------------------------------------------------------- */

static void client_truncated(struct client *c, const struct node *n, unsigned kind)
{
    c->beliefs[kind].may_repeat = true;
    client_write_look(c, n, kind, n->log->ops->last(n->log));
}

/* The number at the node that the cursor stands for. false: it is worth nothing. */
static bool client_resolve(struct client *c, struct node *n, unsigned kind, uint64_t *ret,
                           bool *ret_ahead)
{
    struct world *w = c->world;
    const struct cursor *at = &c->came_with;
    if (at->is_lost) {
        return false;
    }
    if (at->epoch == n->epoch || w->fault == FAULT_ONE_EPOCH) {
        *ret = at->seq;
        return at->seq <= n->log->ops->last(n->log);
    }
    /* An event's id is valid while the durable history continues from it; the log records the loss
     * of announcements. */
    kind = c->is_session ? DURABLE : kind;
    enum incarnations_answer a =
        incarnations_resume(n->incarnations, at->epoch, at->position, kind == DURABLE, ret);
    bool has_followed = false;
    if (a == INCARNATIONS_REFUSED || (a == INCARNATIONS_AHEAD && world_random(w, 2) == 0)) {
        /* The client waits: the node first follows received notifications, then queries the
         * store. */
        has_followed = node_is_well(n) && node_follow(n) && node_follow(n);
        a = incarnations_resume(n->incarnations, at->epoch, at->position, kind == DURABLE, ret);
    }
    if (a == INCARNATIONS_REFUSED) {
        w->counts->refused++;
        if (has_followed) {
            oracle_refused(w, at, kind);
        }
        return false;
    }
    w->counts->resumed++;
    w->counts->ahead += a == INCARNATIONS_AHEAD;
    *ret_ahead = a == INCARNATIONS_AHEAD;
    return true;
}

/* The id of the last event that arrived. A client without one reads everything. */
static void client_bring_event(struct client *c, const struct node *n)
{
    struct world *w = c->world;
    w->counts->unheard += c->flight_count;
    c->flight_count = 0;
    for (unsigned k = 0; !c->cursor.is_set && k < KINDS; k++) {
        c->beliefs[k].must_look = true;
    }
    if (!c->cursor.is_set || w->fault == FAULT_STREAM_BELIEVED) {
        c->cursor = n->sessions[c->index].cursor;
    }
}

static bool client_open(struct client *c, struct node *n)
{
    if (!is_serving(n) || (c->is_session && !node_session_open(n, c->index))) {
        return false;
    }
    if (c->is_session) {
        session_check(c, n);
        c->options = n->sessions[c->index].options;
        client_bring_event(c, n);
    }
    c->node = (int)n->index;
    c->run = n->epoch;
    c->came_with = c->cursor;
    world_say(c->world, "client %u comes to node %u with %llx.%llu.%llu", c->index, n->index,
              (unsigned long long)c->cursor.epoch, (unsigned long long)c->cursor.seq,
              (unsigned long long)c->cursor.position);
    bool is_good[KINDS];
    for (unsigned k = 0; k < KINDS; k++) {
        struct belief *b = &c->beliefs[k];
        uint64_t since = 0;
        b->may_repeat = false;
        b->told_position = 0;
        is_good[k] = c->cursor.is_set && client_resolve(c, n, k, &since, &b->may_repeat) &&
                     since >= n->log->ops->floor(n->log);
        b->told_to = is_good[k] ? since : n->log->ops->last(n->log);
    }
    for (unsigned k = 0; k < KINDS; k++) {
        if (!is_good[k]) {
            client_truncated(c, n, k);
        }
    }
    for (size_t i = 1; i < c->flight_count; i++) {
        c->flight[i - 1].id.is_lost =
            true; /* a client with the first has yet to receive the others */
    }
    return true;
}

/* ---- hearing --------------------------------------------------------------------------------- */

static void client_keep_cursor(struct client *c, struct node *n)
{
    if (!c->is_session) {
        c->cursor = client_written(c, n);
    } else if (n->has_session[c->index]) {
        n->sessions[c->index].cursor = client_written(c, n);
    }
}

static void client_hear(struct client *c, unsigned kind, unsigned index, uint64_t p)
{
    struct world *w = c->world;
    struct belief *b = &c->beliefs[kind];
    w->counts->told++;
    world_say(w, "client %u hears %c:%u@%llu", c->index, "eao"[kind], index, (unsigned long long)p);
    oracle_told(w, kind, index, p);
    if (p <= b->told_position) {
        world_fail(w, "ordered: client %u hears of %llu after %llu", c->index,
                   (unsigned long long)p, (unsigned long long)b->told_position);
    }
    b->told_position = p;
    if (c->came_with.is_set && c->came_with.epoch != c->run && p <= c->came_with.position &&
        !b->may_repeat) {
        world_fail(w, "unique: client %u came with position %llu and hears of %llu", c->index,
                   (unsigned long long)c->came_with.position, (unsigned long long)p);
    }
    uint64_t known =
        kind == OWNED ? w->outside : p; /* for the mount it reads the existing resources */
    b->known[index] = known > b->known[index] ? known : b->known[index];
}

static void client_write_change(struct client *c, const struct node *n, unsigned kind,
                                const struct change *change)
{
    unsigned index = (unsigned)(change->uri.ptr[2] - '0');
    c->beliefs[kind].told_to = change->seq;
    if (!c->is_session) {
        client_hear(c, kind, index, change->position);
        return;
    }
    c->flight[c->flight_count++] = (struct flight){
        .kind = kind, .index = index, .position = change->position, .id = client_written(c, n)};
}

/* The oldest event on its way arrives. */
static void client_receive(struct client *c)
{
    struct flight f = c->flight[0];
    memmove(c->flight, c->flight + 1, --c->flight_count * sizeof(f));
    if (f.is_look) {
        client_look_again(c, f.kind);
    } else {
        client_hear(c, f.kind, f.index, f.position);
    }
    c->cursor = f.id;
}

struct hearing {
    struct client *client;
    struct node *node;
    unsigned kind, left;
};

static bool hear_row(void *user, const struct changelog_row *row)
{
    struct hearing *h = user;
    struct belief *b = &h->client->beliefs[h->kind];
    if (h->left == 0 || client_is_full(h->client)) {
        h->left = 0;
        return false;
    }
    bool is_all = row->change->everything && change_scope(row->change).len == 0;
    bool is_mount = row->change->everything && !is_all;
    if (is_all || (is_mount && h->kind == OWNED)) {
        client_write_look(h->client, h->node, h->kind, row->change->seq);
    } else if (!is_mount && row->change->uri.ptr[0] == "eao"[h->kind]) {
        client_write_change(h->client, h->node, h->kind, row->change);
        h->left--;
    }
    b->told_to = row->change->seq;
    return true;
}

/* Some of what there is, or all of it. */
static void client_deliver(struct client *c, struct node *n, unsigned kind, bool all)
{
    struct belief *b = &c->beliefs[kind];
    struct hearing h = {c, n, kind, all ? UINT32_MAX : 1 + (unsigned)world_random(c->world, 4)};
    if (client_is_full(c)) {
        return;
    }
    if (b->told_to < n->log->ops->floor(n->log)) {
        client_truncated(c, n, kind);
        client_keep_cursor(c, n);
        return;
    }
    uint64_t before = b->told_to;
    n->log->ops->each(n->log, b->told_to, hear_row, &h);
    if (h.left > 0) {
        b->told_to = n->log->ops->last(n->log);
    }
    if (b->told_to > before && world_random(c->world, 4) > 0) {
        client_keep_cursor(c, n); /* with a message, or as a bookmark */
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool client_must_look(const struct client *c)
{
    bool must = false;
    for (unsigned k = 0; k < KINDS; k++) {
        must = must || c->beliefs[k].must_look;
    }
    return must;
}

static bool client_look(struct client *c)
{
    struct world *w = c->world;
    const struct node *n = &w->nodes[world_random(w, NODES)];
    if (!node_is_well(n)) {
        return false;
    }
    oracle_looked(w, n);
    for (unsigned i = 0; c->beliefs[DURABLE].must_look && i < ENTITIES; i++) {
        c->beliefs[DURABLE].known[i] = w->engine.entity_position[i];
    }
    for (unsigned i = 0; c->beliefs[UNLOGGED].must_look && i < ANNOUNCED; i++) {
        c->beliefs[UNLOGGED].known[i] = w->oracle.announced_ever[i];
    }
    if (c->beliefs[OWNED].must_look) {
        c->beliefs[OWNED].known[0] = w->outside;
    }
    for (unsigned k = 0; k < KINDS; k++) {
        c->beliefs[k].must_look = false;
    }
    w->counts->looks++;
    world_say(w, "client %u looks", c->index);
    return true;
}

/* ---- a step ---------------------------------------------------------------------------------- */

void client_step(struct client *c)
{
    struct world *w = c->world;
    struct node *n = node_of_client(c);
    if (w->now_ms < c->away_until_ms) {
        return;
    }
    if (n &&
        (!n->incarnations || n->epoch != c->run || (n->is_stopped && world_random(w, 4) == 0) ||
         (c->is_session && !n->has_session[c->index]))) {
        c->node = -1;
        n = NULL;
    }
    if (!n) {
        (void)client_open(c, &w->nodes[world_random(w, NODES)]);
        return;
    }
    if (n->is_stopped) {
        return;
    }
    if (client_must_look(c) && world_random(w, 4) == 0) {
        (void)client_look(c);
    } else if (world_chance(w, 12)) {
        c->node = -1; /* goes elsewhere, perhaps later */
        c->away_until_ms = world_random(w, 4) == 0 ? w->now_ms + world_random(w, 8000) : 0;
    } else if (c->is_session && world_random(w, 8) == 0) {
        session_change(c, n);
    } else if (c->flight_count > 0 && world_random(w, 2) == 0) {
        client_receive(c);
    } else {
        client_deliver(c, n, (unsigned)world_random(w, KINDS), false);
    }
}

bool client_come_to_rest(struct client *c)
{
    struct node *n = node_of_client(c);
    c->away_until_ms = 0;
    if (!n || !n->incarnations || n->epoch != c->run ||
        (c->is_session && !n->has_session[c->index])) {
        c->node = -1;
        (void)client_open(c, &c->world->nodes[world_random(c->world, NODES)]);
        return false;
    }
    for (unsigned k = 0; k < KINDS; k++) {
        client_deliver(c, n, k, true);
    }
    bool has_more = c->flight_count > 0;
    while (c->flight_count > 0) {
        client_receive(c);
    }
    return !has_more && (!client_must_look(c) || client_look(c));
}
