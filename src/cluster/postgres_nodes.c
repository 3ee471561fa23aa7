/* SPDX-License-Identifier: MIT
 *
 * Shared state of nodes in one database: notifications of commits (NOTIFY, on the same connection
 * as everything else), announcements, leases, nodes and sessions.
 *
 * Times are those of the database's clock.
 */
#include "cluster/postgres_nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cluster/owned_mounts.h"
#include "cluster/postgres_internal.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Computes the time of the store from one moment at which both its clock and the local clock are
 * known, with the error of that measurement.
 */

#define QUICK_MS 50u  /* this is exact enough */
#define OLD_MS 10000u /* then a slower answer is better than none */

void store_clock_update(struct store_clock *c, int64_t at_ms, uint64_t asked_ms,
                        uint64_t received_ms)
{
    uint64_t took = received_ms - asked_ms;
    if (at_ms < 0 || at_ms >= TIMELINE_FOREVER) {
        return; /* not a valid clock value */
    }
    if (c->is_known && took > QUICK_MS && took > c->within_ms &&
        received_ms < c->received_ms + OLD_MS) {
        return;
    }
    *c = (struct store_clock){
        .at_ms = at_ms,
        .received_ms = asked_ms + took / 2,
        .within_ms = took,
        .is_known = true,
    };
}

void store_clock_doubt(struct store_clock *c)
{
    c->within_ms = UINT64_MAX;
}

int64_t store_clock_now(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms)
{
    return c->is_known ? c->at_ms + (int64_t)(monotonic_ms - c->received_ms) : wall_ms;
}

int64_t store_clock_off(const struct store_clock *c, uint64_t monotonic_ms, int64_t wall_ms)
{
    int64_t off = wall_ms - store_clock_now(c, monotonic_ms, wall_ms);
    int64_t allowed = STORE_CLOCK_OFF_MS + (c->within_ms < OLD_MS ? (int64_t)c->within_ms : 0);
    return off > allowed || off < -allowed ? off : 0;
}

/* ---------------------------------------------------------------------------------------------- */

#define FORGET_EVERY 256u /* announcements between two checks of the retention limit */
#define NODE_STATE_MAX 4096u

/* Checks a string that the database can hold. */
static int check_text(struct tidings_str text, size_t max, const char *what,
                      struct tidings_error *err)
{
    if (text.len <= max && str_is_utf8(text) && str_find(text, '\0') < 0) {
        return 0;
    }
    return tidings_fail(err, text.len > max ? TIDINGS_E_LIMIT : TIDINGS_E_INVALID,
                        "%s has at most %zu bytes of UTF-8, without NUL", what, max);
}

/* 1: the statement returned a row. */
static int ask_for_row(struct postgres_store *s, enum postgres_statement which,
                       const struct postgres_values *v, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int rc = postgres_store_ask(s, which, v, &r, err);
    rc = rc == 0 && postgres_rows(r) > 0 ? 1 : rc;
    postgres_free(r);
    return rc;
}

/* ---- announcements --------------------------------------------------------------------------- */

static int forget_announced(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int rc = postgres_store_ask_int(s, PG_OLD_ANNOUNCED, POSTGRES_ANNOUNCED, &r, err);
    if (rc == 0 && postgres_rows(r) == 1) {
        uint64_t oldest = (uint64_t)postgres_int(r, 0, 0);
        struct postgres_values v = {0};
        postgres_put_int(&v, (int64_t)oldest);
        rc = postgres_store_send(s, PG_FORGET_ANNOUNCED, &v, err);
        s->now.announced = oldest;
    }
    postgres_free(r);
    return rc;
}

static int announce_as(struct postgres_store *s, enum log_entry_kind kind,
                       const struct tidings_change *c, struct tidings_error *err)
{
    struct postgres_values v = {0};
    struct kept_record record = {
        .kind = kind, .position = ++s->now.position, .at_ms = s->now_ms, .resource = *c};
    record.resource.size = c->has_size ? c->size : -1;
    struct tidings_str bytes;
    int rc = postgres_store_encode(s, &record, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    postgres_put_int(&v, (int64_t)record.position);
    postgres_put_int(&v, record.at_ms);
    postgres_put_str(&v, bytes);
    rc = postgres_store_add_announcement(s, &v, err);
    if (rc == 0) {
        postgres_store_tell(s, &record);
    }
    return rc == 0 && ++s->n_announced % FORGET_EVERY == 0 ? forget_announced(s, err) : rc;
}

int postgres_store_announce(struct store *store, enum log_entry_kind kind,
                            const struct tidings_change *change, uint64_t *ret_position,
                            struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_release(s);
    int rc = announce_as(s, kind, change, err);
    *ret_position = s->now.position;
    return rc;
}

/* ---- leases ---------------------------------------------------------------------------------- */

int postgres_take_lease(struct store *store, struct tidings_str name, struct tidings_str holder,
                        int64_t for_ms, int64_t *ret_left_ms, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0}, of = {0};
    struct pg_result *r = NULL;
    int rc = check_text(name, SHARED_NAME_MAX, "the name of a lease", err);
    rc = rc == 0 ? check_text(holder, SHARED_NAME_MAX, "the holder of a lease", err) : rc;
    postgres_put_str(&v, name);
    postgres_put_str(&v, holder);
    postgres_put_int(&v, for_ms);
    postgres_put_int(&v, LEASE_MAX_MS);
    if (rc == 0 && (for_ms <= 0 || for_ms > LEASE_MAX_MS)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a lease is given for 1 to %d ms",
                            LEASE_MAX_MS);
    }
    rc = rc == 0 ? ask_for_row(s, PG_LEASE, &v, err) : rc;
    if (rc != 0) {
        return rc;
    }
    postgres_put_str(&of, name);
    rc = postgres_store_ask(s, PG_LEASE_OF, &of, &r, err);
    int64_t left = rc == 0 && postgres_rows(r) == 1 ? postgres_int(r, 0, 0) : 0;
    if (ret_left_ms) {
        *ret_left_ms = left > 0 ? left : 0;
    }
    postgres_free(r);
    return rc;
}

int postgres_release_lease(struct store *store, struct tidings_str name, struct tidings_str holder,
                           struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    int rc = check_text(name, SHARED_NAME_MAX, "the name of a lease", err);
    rc = rc == 0 ? check_text(holder, SHARED_NAME_MAX, "the holder of a lease", err) : rc;
    postgres_put_str(&v, name);
    postgres_put_str(&v, holder);
    rc = rc == 0 ? ask_for_row(s, PG_RELEASE, &v, err) : rc;
    return rc < 0 ? rc : 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

void postgres_store_conceal(struct store *store)
{
    postgres_conceal(postgres_store_of(store)->db);
}

const char *postgres_store_explain(struct store *store, const struct tidings_error *err)
{
    return postgres_explain(postgres_store_of(store)->db, err);
}

int postgres_store_newest(struct store *store, uint64_t *ret, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_counters counters = {0};
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int rc = postgres_store_ask(s, PG_STATE, NULL, &r, err);
    rc = rc == 0 ? postgres_store_read_counters(s, r, &counters, err) : rc;
    postgres_free(r);
    *ret = counters.position;
    return rc;
}

int postgres_put_node(struct store *store, const struct node_row *row, int64_t for_ms,
                      struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    int rc = check_text(row->name, SHARED_NAME_MAX, "the name of a node", err);
    rc = rc == 0 ? check_text(row->version, SHARED_NAME_MAX, "a version", err) : rc;
    rc = rc == 0 ? check_text(row->state, NODE_STATE_MAX, "the state of a node", err) : rc;
    postgres_put_str(&v, row->name);
    postgres_put_int(&v, (int64_t)s->instance);
    postgres_put_str(&v, row->version);
    postgres_put_str(&v, row->state);
    postgres_put_int(&v, (int64_t)postgres_history_run(s));
    postgres_put_int(&v, (int64_t)row->followed);
    postgres_put_int(&v, for_ms);
    postgres_put_int(&v, postgres_layout.made);
    rc = rc == 0 ? ask_for_row(s, PG_PUT_NODE, &v, err) : rc;
    if (rc == 0) {
        return tidings_fail(err, TIDINGS_E_EXISTS,
                            "another node that is alive has the name '%.*s': give each its own "
                            "(--node)",
                            STR_ARG(row->name));
    }
    rc = rc == 1 ? postgres_store_keep_run(s, for_ms, err) : rc;
    return rc == 0 ? ask_for_row(s, PG_AGE_NODES, NULL, err) : rc;
}

int postgres_drop_node(struct store *store, struct tidings_str name, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    int rc = check_text(name, SHARED_NAME_MAX, "the name of a node", err);
    postgres_put_str(&v, name);
    postgres_put_int(&v, (int64_t)s->instance);
    return rc == 0 ? ask_for_row(s, PG_DROP_NODE, &v, err) : rc;
}

int postgres_each_node(struct store *store, node_row_fn fn, void *user, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int rc = postgres_store_ask(s, PG_NODES, NULL, &r, err);
    bool more = true;
    for (int i = 0; rc == 0 && more && i < postgres_rows(r); i++) {
        const struct node_row row = {
            .name = postgres_str(r, i, 0),
            .version = postgres_str(r, i, 1),
            .state = postgres_str(r, i, 2),
            .epoch = (uint64_t)postgres_int(r, i, 3),
            .followed = (uint64_t)postgres_int(r, i, 4),
            .begun_ms = postgres_int(r, i, 5),
            .left_ms = postgres_int(r, i, 6),
            .behind_ms = postgres_int(r, i, 7),
            .behind_now_ms = postgres_int(r, i, 8),
        };
        more = fn(user, &row);
    }
    postgres_free(r);
    return rc;
}

/* ---- the clock ------------------------------------------------------------------------------- */

int64_t postgres_store_now(struct store *store)
{
    return store_clock_now(&postgres_store_of(store)->clock, clock_monotonic_ms(), clock_wall_ms());
}

int64_t postgres_clock_off(struct store *store)
{
    return store_clock_off(&postgres_store_of(store)->clock, clock_monotonic_ms(), clock_wall_ms());
}

/* ---- sessions -------------------------------------------------------------------------------- */

static int check_session(struct tidings_str id, struct tidings_error *err)
{
    return check_text(id, SHARED_NAME_MAX, "the id of a session", err);
}

int postgres_put_session(struct store *store, const struct session_row *row,
                         struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    int rc = check_session(row->id, err);
    rc = rc == 0 ? check_text(row->node, SHARED_NAME_MAX, "the name of a node", err) : rc;
    rc = rc == 0 ? check_text(row->state, SHARED_SESSION_MAX, "the state of a session", err) : rc;
    postgres_put_str(&v, row->id);
    if (row->generation == 0) {
        postgres_put_str(&v, row->node);
        postgres_put_str(&v, row->state);
    } else {
        postgres_put_str(&v, row->state);
        postgres_put_int(&v, (int64_t)row->generation);
        postgres_put_str(&v, row->node);
    }
    rc = rc == 0 ? ask_for_row(s, row->generation == 0 ? PG_ADD_SESSION : PG_PUT_SESSION, &v, err)
                 : rc;
    return rc == 0 ? tidings_fail(err, TIDINGS_E_CONFLICT, "the session is another node's now")
                   : (rc < 0 ? rc : 0);
}

/* Under the lock: the previous owner must follow that. */
int postgres_take_session(struct store *store, struct tidings_str id, struct tidings_str node,
                          struct session_row *ret, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    int rc = check_session(id, err);
    rc = rc == 0 ? check_text(node, SHARED_NAME_MAX, "the name of a node", err) : rc;
    rc = rc == 0 ? postgres_store_begin(store, err) : rc;
    if (rc < 0) {
        return rc;
    }
    postgres_put_str(&v, id);
    postgres_put_str(&v, node);
    rc = postgres_store_ask(s, PG_TAKE_SESSION, &v, &r, err);
    bool is_there = postgres_rows(r) == 1;
    const struct tidings_change moved = {.uri = id, .target = node};
    rc = rc == 0 && is_there ? announce_as(s, LOG_ENTRY_SESSION, &moved, err) : rc;
    if (rc < 0 || !is_there) {
        postgres_free(r);
        postgres_store_rollback(store);
        return rc;
    }
    s->is_durable = true;
    rc = postgres_store_commit(store, err);
    if (rc < 0) {
        postgres_free(r);
        return rc;
    }
    *ret = (struct session_row){
        .id = postgres_str(r, 0, 0),
        .node = postgres_str(r, 0, 1),
        .state = postgres_str(r, 0, 2),
        .generation = (uint64_t)postgres_int(r, 0, 3),
        .used_ms = postgres_int(r, 0, 4),
    };
    s->handed_out = r;
    return 1;
}

int postgres_drop_session(struct store *store, struct tidings_str id, struct tidings_error *err)
{
    struct postgres_values v = {0};
    int rc = check_session(id, err);
    postgres_put_str(&v, id);
    return rc == 0 ? ask_for_row(postgres_store_of(store), PG_DROP_SESSION, &v, err) : rc;
}

int postgres_age_sessions(struct store *store, int64_t idle_ms, struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, idle_ms);
    return ask_for_row(postgres_store_of(store), PG_AGE_SESSIONS, &v, err);
}

int postgres_store_secret(struct store *store, unsigned char out[32], struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int rc = postgres_store_ask(s, PG_SECRET, NULL, &r, err);
    if (rc == 0 && (postgres_rows(r) != 1 || postgres_str(r, 0, 0).len != 32)) {
        rc =
            tidings_fail(err, TIDINGS_E_INVALID, "%s: its secret is damaged", postgres_name(s->db));
    }
    if (rc == 0) {
        memcpy(out, postgres_str(r, 0, 0).ptr, 32);
    }
    postgres_free(r);
    return rc;
}
