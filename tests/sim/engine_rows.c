/* SPDX-License-Identifier: MIT
 *
 * A node's connection to the store as store/store.h has it: inside a batch the rows with what
 * the batch did, outside of it those that are committed.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

struct sim_rows {
    struct store base;
    struct node *node;
};

static struct node *node_of(struct store *store)
{
    return ((struct sim_rows *)(void *)store)->node;
}

static struct engine *engine_of(struct store *store)
{
    return &node_of(store)->world->engine;
}

static int away(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_BUSY, "the store cannot be reached");
}

static bool is_there(struct store *store)
{
    const struct node *n = node_of(store);
    return n->is_connected && n->boot == n->world->engine.boots;
}

/* In a batch without the lock another connection may do. */
static int lost(struct node *n, struct tidings_error *err)
{
    n->is_overtaken = n->is_unlocked;
    return away(err);
}

static struct store *medium(struct store *store)
{
    const struct engine *e = engine_of(store);
    return node_has_lock(node_of(store)) ? e->working : e->committed;
}

static void sim_destroy(struct store *store)
{
    free(store);
}

static int sim_begin(struct store *store, struct tidings_error *err)
{
    if (node_of(store)->is_unlocked) {
        return 0;
    }
    return is_there(store) && engine_lock(engine_of(store), node_of(store)->index) ? 0 : away(err);
}

static void sim_rollback(struct store *store)
{
    struct node *n = node_of(store);
    if (n->is_unlocked) {
        for (size_t i = 0; i < n->pending_count; i++) {
            latest_drop(&n->heads, tidings_str(entity_name(n->pending[i].index % ENTITIES)));
        }
        n->pending_count = 0;
        return;
    }
    latest_clear(&n->heads);
    if (node_has_lock(n)) {
        engine_rollback(engine_of(store));
    }
}

static int sim_unknown(struct node *n, struct tidings_error *err)
{
    n->is_connected = n->is_settled = false;
    latest_clear(&n->heads);
    n->world->counts->unknown++;
    return tidings_fail(err, TIDINGS_E_UNKNOWN, "nobody knows");
}

/* All of it, in one statement. A caller without an answer does not know the outcome. */
static int sim_commit_unlocked(struct node *n, struct tidings_error *err)
{
    struct engine *e = &n->world->engine;
    struct statement s = {.base = n->base, .node = n->index, .count = n->pending_count};
    n->own_count = 0;
    for (size_t i = 0; i < n->pending_count; i++) {
        n->own = world_grow(n->own, n->own_count, &n->own_room, sizeof(*n->own));
        s.records[i] = n->own[n->own_count++] = n->pending[i];
    }
    if (n->world->fault == FAULT_NOTICE_EARLY) {
        engine_notify(e, n->own, n->own_count);
    }
    n->is_overtaken = true; /* unless it is done */
    if (!n->is_connected || n->boot != e->boots || world_chance(n->world, 30)) {
        world_say(n->world, "node %u is cut before its statement", n->index);
        node_lose_connection(n);
        return away(err);
    }
    bool is_sent = world_chance(n->world, 30);
    bool is_done = !is_sent && (s.count > 0 ? engine_execute(e, &s) : e->counter == s.base);
    if (is_sent || world_chance(n->world, 30)) {
        world_say(n->world, "node %u is cut %s its statement", n->index, is_done ? "after" : "at");
        if (is_sent && s.count > 0) {
            engine_leave(e, &s);
        }
        node_lose_connection(n);
        n->is_in_doubt = s.count > 0;
        n->doubted = s.base;
        return n->is_in_doubt ? sim_unknown(n, err) : away(err);
    }
    n->is_overtaken = !is_done;
    n->is_unlocked = !is_done;
    return is_done ? 0 : away(err);
}

static int sim_commit(struct store *store, struct tidings_error *err)
{
    struct node *n = node_of(store);
    struct engine *e = engine_of(store);
    if (n->is_unlocked) {
        return sim_commit_unlocked(n, err);
    }
    if (!node_has_lock(n)) {
        return away(err);
    }
    bool is_durable = false;
    n->own_count = 0;
    for (size_t i = 0; i < e->open.count; i++) {
        n->own = world_grow(n->own, n->own_count, &n->own_room, sizeof(*n->own));
        n->own[n->own_count++] = e->open.records[i];
        is_durable = is_durable || e->open.records[i].kind != RECORD_ANNOUNCED;
    }
    is_durable = is_durable && n->world->fault != FAULT_ASYNC;
    if (n->world->fault == FAULT_NOTICE_EARLY) {
        engine_notify(e, n->own, n->own_count);
    }
    if (world_chance(n->world, 30)) {
        world_say(n->world, "node %u is cut before its commit", n->index);
        node_lose_connection(n);
        return away(err);
    }
    if (world_chance(n->world, 30)) {
        world_say(n->world, "node %u is cut while it commits", n->index);
        e->open.is_sent = true;
        return sim_unknown(n, err);
    }
    engine_commit(e, is_durable);
    if (world_chance(n->world, 30)) {
        world_say(n->world, "node %u is cut after its commit", n->index);
        return sim_unknown(n, err);
    }
    return 0;
}

static uint64_t sim_position(struct store *store)
{
    const struct engine *e = engine_of(store);
    const struct node *n = node_of(store);
    return n->is_unlocked     ? n->base + n->pending_count
           : node_has_lock(n) ? engine_next(e) - 1
                              : e->counter;
}

static void copy(char *out, size_t room, struct tidings_str text)
{
    if (text.len >= room) {
        abort();
    }
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
}

static int sim_put(struct store *store, const struct entity_version *v, bool instead,
                   struct tidings_error *err)
{
    struct node *n = node_of(store);
    struct engine *e = engine_of(store);
    struct record r = {.kind = RECORD_ENTITY,
                       .index = (unsigned)(v->id.ptr[1] - '0'),
                       .from = v->from,
                       .since = v->since,
                       .created = v->created,
                       .instead = instead,
                       .baseline = TIMELINE_NEVER,
                       .tag = n->current->tag,
                       .writes = n->current->count,
                       .losses = n->current->losses};
    for (unsigned i = 0; i < n->current->count; i++) {
        if (n->current->index[i] == r.index) {
            r.baseline = n->current->baseline[i];
            r.read_position = n->current->read_position[i];
        }
    }
    copy(r.value, sizeof r.value, v->value);
    copy(r.previous, sizeof r.previous, v->previous);
    const struct record *added = node_add(n, &r);
    if (!added) {
        return away(err);
    }
    latest_put(&n->heads, v);
    return n->is_unlocked ? 0 : engine_apply(e, e->working, added);
}

static int sim_forget(struct store *store, struct tidings_str id, int64_t end,
                      struct tidings_error *err)
{
    (void)store;
    (void)id;
    (void)end;
    (void)err;
    return 0;
}

static int sim_find(struct store *store, struct tidings_str id, int64_t at,
                    struct entity_version *ret, struct tidings_error *err)
{
    struct node *n = node_of(store);
    bool is_current = at == TIMELINE_FOREVER;
    const struct entity_version *head = is_current ? latest_find(&n->heads, id) : NULL;
    if (head) {
        *ret = *head;
        return 1;
    }
    if (node_keeps_back(n, (unsigned)(id.ptr[1] - '0')) && !node_take_lock(n)) {
        return away(err);
    }
    struct store *m = medium(store);
    int rc = is_there(store) ? m->ops->find(m, id, at, ret, err) : lost(n, err);
    if (rc == 1 && is_current) {
        latest_put(&n->heads, ret);
    }
    return rc;
}

static int sim_nth(struct store *store, struct tidings_str id, int64_t n, int64_t *ret_from,
                   struct tidings_error *err)
{
    struct store *m = medium(store);
    return is_there(store) ? m->ops->nth(m, id, n, ret_from, err) : away(err);
}

static int sim_history(struct store *store, struct tidings_str id, int64_t first,
                       entity_version_fn fn, void *user, struct tidings_error *err)
{
    struct store *m = medium(store);
    return is_there(store) ? m->ops->history(m, id, first, fn, user, err) : away(err);
}

static int sim_list(struct store *store, const struct entity_scope *scope, struct tidings_str after,
                    entity_version_fn fn, void *user, struct tidings_error *err)
{
    struct store *m = medium(store);
    return is_there(store) ? m->ops->list(m, scope, after, fn, user, err) : away(err);
}

static int sim_put_type(struct store *store, const struct entity_type_row *row,
                        struct tidings_error *err)
{
    (void)store;
    (void)row;
    return away(err);
}

static int sim_types(struct store *store, entity_type_fn fn, void *user, struct tidings_error *err)
{
    struct store *m = medium(store);
    return m->ops->types(m, fn, user, err);
}

static int sim_put_key(struct store *store, const struct entity_key *key, struct tidings_error *err)
{
    struct engine *e = engine_of(store);
    if (!node_take_lock(node_of(store))) {
        return away(err);
    }
    struct record r = {.kind = RECORD_KEY, .at_ms = key->at};
    copy(r.key, sizeof r.key, key->key);
    copy(r.digest, sizeof r.digest, key->digest);
    copy(r.text, sizeof r.text, key->text);
    return engine_apply(e, e->working, engine_add(e, &r));
}

static int sim_find_key(struct store *store, struct tidings_str owner, struct tidings_str key,
                        struct entity_key *ret, struct tidings_error *err)
{
    if (node_of(store)->is_unlocked && !node_take_lock(node_of(store))) {
        return away(err);
    }
    struct store *m = medium(store);
    if (node_of(store)->world->fault == FAULT_NO_KEY) {
        return 0;
    }
    return is_there(store) ? m->ops->find_key(m, owner, key, ret, err) : away(err);
}

static int sim_idle(struct store *store, struct tidings_error *err)
{
    (void)store;
    (void)err;
    return 0;
}

static const struct store_ops sim_ops = {
    .name = "simulated",
    .destroy = sim_destroy,
    .begin = sim_begin,
    .commit = sim_commit,
    .rollback = sim_rollback,
    .position = sim_position,
    .put = sim_put,
    .forget = sim_forget,
    .find = sim_find,
    .nth = sim_nth,
    .history = sim_history,
    .list = sim_list,
    .put_type = sim_put_type,
    .types = sim_types,
    .put_key = sim_put_key,
    .find_key = sim_find_key,
    .idle = sim_idle,
};

struct store *sim_rows_create(struct node *n)
{
    struct sim_rows *rows = calloc(1, sizeof(*rows));
    if (!rows) {
        abort();
    }
    rows->base.ops = &sim_ops;
    rows->node = n;
    return &rows->base;
}
