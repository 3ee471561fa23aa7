/* SPDX-License-Identifier: MIT
 *
 * The small tables of the database in memory: leases, nodes, sessions.
 */
#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "support/shared_memory_private.h"

int shared_memory_descriptor(struct store *store)
{
    struct node *n = shared_memory_node(store);
    bool is_new = n->is_wake_new;
    n->is_wake_new = false;
    return is_new || __atomic_load_n(&n->is_unreachable, __ATOMIC_RELAXED) ||
                   __atomic_load_n(&n->db->is_quiet, __ATOMIC_RELAXED)
               ? -1
               : n->wake;
}

int shared_memory_woken(struct store *store)
{
    uint64_t count;
    (void)!read(shared_memory_node(store)->wake, &count, sizeof count);
    return 1;
}

int shared_memory_reconnect(struct store *node)
{
    struct node *n = shared_memory_node(node);
    int held = dup(n->wake);
    close(n->wake);
    n->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert(held >= 0 && n->wake >= 0);
    n->is_wake_new = true;
    return held;
}

void shared_memory_wake(struct store *node)
{
    uint64_t one = 1;
    (void)!write(shared_memory_node(node)->wake, &one, sizeof one);
}

bool shared_memory_is_awake(struct store *node)
{
    struct pollfd ready = {.fd = shared_memory_node(node)->wake, .events = POLLIN};
    return poll(&ready, 1, 0) == 0;
}

/* ---- leases, nodes, sessions ----------------------------------------------------------------- */

static struct row *row_find(struct list *rows, struct tidings_str key)
{
    list_each (it, next, rows) {
        struct row *r = list_entry(it, struct row, link);
        if (str_eq(r->key, key)) {
            return r;
        }
    }
    return NULL;
}

/* By key. */
static struct row *row_create(struct list *rows, struct tidings_str key)
{
    struct row *r = mem_zalloc(sizeof(*r));
    assert(r);
    arena_init(&r->arena, 64u << 20);
    r->key = shared_memory_text(&r->arena, key);
    r->holder = r->text = r->version = STR_EMPTY;
    struct list *before = rows;
    list_each (it, next, rows) {
        if (str_cmp(list_entry(it, struct row, link)->key, key) > 0) {
            break;
        }
        before = it;
    }
    list_insert_between(&r->link, before, before->next);
    return r;
}

static void row_free(struct row *r)
{
    list_remove(&r->link);
    arena_deinit(&r->arena);
    mem_free(r);
}

void shared_memory_free_rows(struct list *rows)
{
    while (!list_empty(rows)) {
        row_free(list_entry(rows->next, struct row, link));
    }
}

int shared_memory_lease(struct store *store, struct tidings_str name, struct tidings_str holder,
                        int64_t for_ms, int64_t *ret_left_ms, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct row *r = row_find(&n->db->leases, name);
    r = r ? r : row_create(&n->db->leases, name);
    bool is_ours = r->until <= n->db->now || str_eq(r->holder, holder);
    if (is_ours) {
        r->holder = shared_memory_text(&r->arena, holder);
        r->until = n->db->now + for_ms;
    }
    if (ret_left_ms) {
        *ret_left_ms = r->until - n->db->now;
    }
    return shared_memory_leave(n, is_ours);
}

int shared_memory_release(struct store *store, struct tidings_str name, struct tidings_str holder,
                          struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct row *r = row_find(&n->db->leases, name);
    if (r && str_eq(r->holder, holder)) {
        row_free(r);
    }
    return shared_memory_leave(n, 0);
}

int shared_memory_put_node(struct store *store, const struct node_row *row, int64_t for_ms,
                           struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    char mine[24];
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct row *r = row_find(&n->db->nodes, row->name);
    snprintf(mine, sizeof mine, "%p", (void *)n);
    if (r && r->until > n->db->now && !str_eq(r->holder, tidings_str(mine))) {
        return shared_memory_leave(n, tidings_fail(err, TIDINGS_E_EXISTS,
                                                   "the node '%.*s' lives elsewhere",
                                                   STR_ARG(row->name)));
    }
    r = r ? r : row_create(&n->db->nodes, row->name);
    if (!str_eq(r->holder, tidings_str(mine))) {
        r->begun = n->db->now;
    }
    r->holder = shared_memory_text(&r->arena, tidings_str(mine));
    r->version = shared_memory_text(&r->arena, row->version);
    r->text = shared_memory_text(&r->arena, row->state);
    r->followed = row->followed;
    r->until = n->db->now + for_ms;
    return shared_memory_leave(n, 0);
}

int shared_memory_drop_node(struct store *store, struct tidings_str name, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct row *r = row_find(&n->db->nodes, name);
    if (r) {
        row_free(r);
    }
    return shared_memory_leave(n, 0);
}

int shared_memory_each_node(struct store *store, node_row_fn fn, void *user,
                            struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    list_each (it, next, &n->db->nodes) {
        const struct row *r = list_entry(it, struct row, link);
        const struct node_row row = {.name = r->key,
                                     .version = r->version,
                                     .state = r->text,
                                     .followed = r->followed,
                                     .begun_ms = r->begun,
                                     .left_ms = r->until - n->db->now};
        if (!fn(user, &row)) {
            break;
        }
    }
    return shared_memory_leave(n, 0);
}

int shared_memory_put_session(struct store *store, const struct session_row *row,
                              struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct row *r = row_find(&n->db->sessions, row->id);
    if (r ? r->generation != row->generation : row->generation > 0) {
        return shared_memory_leave(n,
                                   tidings_fail(err, TIDINGS_E_CONFLICT, "the session was taken"));
    }
    r = r ? r : row_create(&n->db->sessions, row->id);
    r->holder = shared_memory_text(&r->arena, row->node);
    r->text = shared_memory_text(&r->arena, row->state);
    r->until = n->db->now;
    return shared_memory_leave(n, 0);
}

int shared_memory_take_session(struct store *store, struct tidings_str id, struct tidings_str node,
                               struct session_row *ret, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct row *r = row_find(&n->db->sessions, id);
    if (!r) {
        return shared_memory_leave(n, 0);
    }
    if (!str_eq(r->holder, node)) {
        (void)shared_memory_add(
            n, (struct kept_change){.kind = KEPT_SESSION, .uri = id, .target = node});
        shared_memory_wake_others(n);
    }
    r->holder = shared_memory_text(&r->arena, node);
    r->generation++;
    r->until = n->db->now;
    *ret = (struct session_row){.id = shared_memory_text(&n->arena, r->key),
                                .node = shared_memory_text(&n->arena, r->holder),
                                .state = shared_memory_text(&n->arena, r->text),
                                .generation = r->generation,
                                .used_ms = r->until};
    return shared_memory_leave(n, 1);
}

int shared_memory_drop_session(struct store *store, struct tidings_str id,
                               struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    struct row *r = row_find(&n->db->sessions, id);
    if (r) {
        row_free(r);
    }
    return shared_memory_leave(n, 0);
}

int shared_memory_age_sessions(struct store *store, int64_t idle_ms, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    list_each (it, next, &n->db->sessions) {
        struct row *r = list_entry(it, struct row, link);
        if (r->until + idle_ms < n->db->now) {
            row_free(r);
        }
    }
    return shared_memory_leave(n, 0);
}

int shared_memory_newest(struct store *store, uint64_t *ret, struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    *ret = n->db->last;
    return shared_memory_leave(n, 0);
}

int shared_memory_secret(struct store *store, unsigned char out[32], struct tidings_error *err)
{
    struct node *n = shared_memory_node(store);
    int rc = shared_memory_enter(n, err);
    if (rc < 0) {
        return rc;
    }
    memset(out, 0x5a, 32);
    return shared_memory_leave(n, 0);
}
