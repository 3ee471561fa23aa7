/* SPDX-License-Identifier: MIT
 *
 * Copies between a store in PostgreSQL and another store, in both directions. During a copy into
 * PostgreSQL, the row of `tidings_cluster` names its source and progress, so no node can start with
 * it. A store with live nodes cannot be copied.
 *
 * If the database has lost data (tidings_breaks), earlier runs are not copied: their cursors may
 * refer to lost data.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "cluster/postgres_internal.h"
#include "store/copy.h"
#include "store/store.h"

/* ---- reading --------------------------------------------------------------------------------- */

struct postgres_transfer {
    enum transfer_kind kind;
    transfer_row_fn fn;
    void *user;
    int64_t after;
    unsigned count; /* of the page */
};

static int transfer_check_unused(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int rc = postgres_store_ask(s, PG_LIVE_NODE, NULL, &r, err);
    if (rc == 0 && postgres_rows(r) > 0) {
        struct tidings_str name = postgres_str(r, 0, 0);
        rc = tidings_fail(err, TIDINGS_E_BUSY,
                          "%s: the node '%.*s' runs on it: stop the nodes first",
                          postgres_name(s->db), STR_ARG(name));
    }
    postgres_free(r);
    return rc;
}

static int postgres_transfer_version(struct pg_result *r, struct transfer_row *row,
                                     struct tidings_error *err)
{
    struct kept_record record;
    postgres_read_version(r, 0, 1, &record);
    row->at_ms = record.at_ms;
    row->version = record.version;
    return entity_version_is_whole(&row->version, record.version_checksum)
               ? 0
               : tidings_fail(err, TIDINGS_E_INTERNAL,
                              "stored entity '%.*s' at position %" PRId64
                              " is damaged: restore an older copy of the store",
                              STR_ARG(row->version.id), row->number);
}

static int postgres_transfer_moved(struct pg_result *r, struct transfer_row *row,
                                   struct tidings_error *err)
{
    struct kept_record record;
    struct tidings_str bytes = postgres_str(r, 0, 1);
    if (!kept_record_take(&bytes, &record)) {
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "what is stored at position %" PRId64
                            " is damaged: restore an older copy of the store",
                            row->number);
    }
    row->version = record.version;
    return 0;
}

static int postgres_transfer_row(void *user, struct pg_result *r, struct tidings_error *err)
{
    struct postgres_transfer *t = user;
    struct transfer_row row = {.kind = t->kind, .number = postgres_int(r, 0, 0)};
    int rc = 0;
    switch (t->kind) {
    case TRANSFER_TYPE:
        row.type = (struct entity_type_row){
            .name = postgres_str(r, 0, 1),
            .version = postgres_str(r, 0, 2),
            .schema = postgres_str(r, 0, 3),
            .description = postgres_str(r, 0, 4),
            .options = postgres_str(r, 0, 5),
        };
        break;
    case TRANSFER_VERSION:
        rc = postgres_transfer_version(r, &row, err);
        break;
    case TRANSFER_MOVED:
        rc = postgres_transfer_moved(r, &row, err);
        break;
    case TRANSFER_PUBLISHED:
        postgres_store_read_published(r, 0, &row.published);
        row.at_ms = postgres_int(r, 0, 17);
        row.removed = postgres_int(r, 0, 18) != 0;
        break;
    case TRANSFER_RUN:
    case TRANSFER_TASK:
    case TRANSFER_KINDS:
        row.epoch = (uint64_t)postgres_int(r, 0, 1);
        row.first = postgres_int(r, 0, 2);
        row.last = postgres_int(r, 0, 3);
        break;
    }
    t->after = row.number;
    t->count++;
    return rc == 0 ? t->fn(t->user, &row, err) : rc;
}

static int transfer_each_of(struct postgres_store *s, struct postgres_transfer *t,
                            struct tidings_error *err)
{
    static const enum postgres_statement reading[TRANSFER_TASK] = {
        [TRANSFER_TYPE] = PG_TRANSFER_TYPES,          [TRANSFER_VERSION] = PG_TRANSFER_VERSIONS,
        [TRANSFER_MOVED] = PG_TRANSFER_MOVED,         [TRANSFER_RUN] = PG_TRANSFER_INCARNATIONS,
        [TRANSFER_PUBLISHED] = PG_TRANSFER_PUBLISHED,
    };
    int rc = 0;
    do {
        struct postgres_values v = {0};
        postgres_put_int(&v, t->after);
        t->count = 0;
        rc = postgres_each(s->db, reading[t->kind], &v, postgres_transfer_row, t, err);
    } while (rc == 0 && t->count > 0);
    return rc;
}

static int postgres_transfer_each(struct store *store, struct transfer_mark after,
                                  transfer_row_fn fn, void *user, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_transfer t = {.fn = fn, .user = user};
    postgres_store_release(s);
    int rc = postgres_store_ready(s, POSTGRES_DEADLINE_MS, err);
    rc = rc == 0 ? transfer_check_unused(s, err) : rc;
    for (unsigned kind = after.kind; rc == 0 && kind < TRANSFER_TASK; kind++) {
        t.kind = (enum transfer_kind)kind;
        t.after = kind == after.kind ? after.number : INT64_MIN;
        rc = transfer_each_of(s, &t, err);
    }
    return rc;
}

static int postgres_transfer_state(struct store *store, struct transfer_state *ret,
                                   struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct pg_result *r = NULL;
    struct postgres_counters counters = {0};
    postgres_store_release(s);
    int rc = postgres_store_ask(s, PG_STATE, NULL, &r, err);
    rc = rc == 0 ? postgres_store_read_counters(s, r, &counters, err) : rc;
    postgres_free(r);
    *ret = (struct transfer_state){.position = counters.position, .floor = counters.floor};
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* 1: a copy from there was begun; 0: the target is empty. */
static int transfer_find(struct postgres_store *s, struct tidings_str source,
                         struct transfer_mark *ret, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int rc = postgres_store_ask(s, PG_TRANSFER_FIND, NULL, &r, err);
    if (rc < 0 || postgres_rows(r) != 1) {
        postgres_free(r);
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_INVALID, "the store is not whole");
    }
    struct tidings_str begun = postgres_str(r, 0, 0);
    int64_t kind = postgres_int(r, 0, 1);
    if (begun.len == 0 && (postgres_int(r, 0, 3) > 0 || postgres_int(r, 0, 4) > 0)) {
        rc = tidings_fail(err, TIDINGS_E_EXISTS,
                          "%s: there is something in it: a copy needs a new store",
                          postgres_name(s->db));
    } else if (begun.len > 0 && !str_eq(begun, source)) {
        rc = tidings_fail(
            err, TIDINGS_E_EXISTS,
            "%s: a copy of '%.*s' has started here: resume it, or name another database",
            postgres_name(s->db), STR_ARG(begun));
    } else if (begun.len > 0) {
        bool is_known = kind >= 0 && kind < TRANSFER_KINDS;
        *ret = (struct transfer_mark){(enum transfer_kind)(is_known ? kind : 0),
                                      is_known ? postgres_int(r, 0, 2) : INT64_MIN};
        rc = 1;
    }
    postgres_free(r);
    return rc;
}

static int postgres_transfer_begin(struct store *store, struct tidings_str source,
                                   struct transfer_mark *ret, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    postgres_store_release(s);
    *ret = TRANSFER_BEGINNING;
    int rc = postgres_store_ready(s, POSTGRES_DEADLINE_MS, err);
    rc = rc == 0 ? transfer_check_unused(s, err) : rc;
    rc = rc == 0 ? transfer_find(s, source, ret, err) : rc;
    if (rc != 0) {
        return rc;
    }
    struct pg_result *r = NULL;
    postgres_put_str(&v, source);
    rc = postgres_store_ask(s, PG_TRANSFER_BEGIN, &v, &r, err);
    postgres_free(r);
    return rc;
}

static int transfer_put_run(struct postgres_store *s, const struct transfer_row *r,
                            struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, (int64_t)r->epoch);
    postgres_put_int(&v, r->first);
    if (r->last >= 0) {
        postgres_put_int(&v, r->last);
    } else {
        postgres_put_null(&v);
    }
    return postgres_store_send(s, PG_TRANSFER_PUT_INCARNATION, &v, err);
}

static int postgres_transfer_put(struct store *store, const struct transfer_row *r,
                                 struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values mark = {0};
    uint64_t highest = s->now.position, position = 0;
    int64_t now_ms = s->now_ms;
    int rc = 0;
    s->now.position = (uint64_t)(r->number - 1); /* the next put gets its number */
    s->now_ms = r->at_ms;
    switch (r->kind) {
    case TRANSFER_TYPE:
        rc = store->ops->put_type(store, &r->type, err);
        break;
    case TRANSFER_VERSION:
        rc = store->ops->put(store, &r->version, false, err);
        break;
    case TRANSFER_MOVED:
        rc = postgres_put_moved(s, &r->version, err);
        break;
    case TRANSFER_PUBLISHED:
        rc = postgres_store_write_published(s, &r->published,
                                            r->removed ? NULL : &r->published.content, err);
        break;
    case TRANSFER_RUN:
    case TRANSFER_TASK:
    case TRANSFER_KINDS:
        rc = transfer_put_run(s, r, err);
        break;
    }
    position = r->kind < TRANSFER_RUN && r->number > 0 ? (uint64_t)r->number : 0;
    s->now.position = position > highest ? position : highest;
    s->now_ms = now_ms;
    s->is_durable = true;
    postgres_put_int(&mark, r->kind);
    postgres_put_int(&mark, r->kind >= TRANSFER_RUN ? INT64_MIN : r->number);
    return rc == 0 ? postgres_store_send(s, PG_TRANSFER_MARK, &mark, err) : rc;
}

/* The copy has no announcements, as after a crash of the database. */
static int postgres_transfer_end(struct store *store, const struct transfer_state *state,
                                 struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    char sql[384];
    postgres_store_release(s);
    (void)snprintf(
        sql, sizeof sql,
        "BEGIN;UPDATE tidings_state SET position=%" PRIu64 ", floor=%" PRIu64
        ";INSERT INTO tidings_breaks(position, kept, lossy, at) VALUES(%" PRIu64 ", %" PRIu64
        ", 0, (extract(epoch FROM now())*1000)::int8);UPDATE tidings_cluster SET copying='';COMMIT",
        state->position + 1, state->floor, state->position + 1, state->position);
    int rc = postgres_exec(s->db, sql, err);
    if (rc < 0 && postgres_is_connected(s->db)) {
        (void)postgres_exec(s->db, "ROLLBACK", NULL);
    }
    return rc;
}

const struct transfer_ops postgres_store_transfer = {
    .each = postgres_transfer_each,
    .state = postgres_transfer_state,
    .begin = postgres_transfer_begin,
    .put = postgres_transfer_put,
    .end = postgres_transfer_end,
};
